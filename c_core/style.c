/* style.c -- how each family of transformers writes what all of them have: a row of a table. */
#include "parts.h"

#include <string.h>

#define GEMMA_4 .shares_keys = true, .norm = NORM_GEMMA_4, .scaled_embedding = true, .two_tables = true, .value_norm = true
static const style STYLES[] = {
    {.type = "gemma", .norm = NORM_GEMMA, .scaled_embedding = true},
    {.type = "gemma2", .no_sdpa = true, .norm = NORM_GEMMA, .scaled_embedding = true, .capped_scores = true},
    {.type = "vaultgemma", .no_sdpa = true, .norm = NORM_GEMMA, .scaled_embedding = true, .capped_scores = true},
    {.type = "gemma3", .norm = NORM_GEMMA, .scaled_embedding = true, .two_tables = true},
    {.type = "gemma3n", GEMMA_4, .altup = true},
    {.type = "gemma4", GEMMA_4, .layer_scalar = true, .normed_router = true},
    {.type = "recurrent_gemma", .capped_at_once = true, .norm = NORM_GEMMA, .scaled_embedding = true, .turn = TURN_JOINED},
    {.type = "minimax_m3_vl", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED, .clamped = true},
    {.type = "diffllama", .differential = true},
    {.type = "minimax", .normed_residual = true},
    {.type = "minimax_m2", .turn = TURN_JOINED},
    {.type = "mimo_v2_flash", .no_sdpa = true, .turn = TURN_JOINED, .shifted_scores = true, .router = ROUTER_WIDE_SIGMOID},
    {.type = "afmoe", .shared_first = true, .norm = NORM_OLMO, .windows_turn = true},
    {.type = "olmo", .wide_norm = true, .wide_tables = true},
    {.type = "olmo2", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "olmo3", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "olmo_hybrid", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "flex_olmo", .norm = NORM_OLMO, .narrow_shares = true},
    {.type = "gpt_oss", .no_sdpa = true, .norm = NORM_OLMO, .turn = TURN_HALVES, .clamped_experts = true},
    {.type = "llama4", .narrow_softmax = true, .turn = TURN_COMPLEX, .unnamed_norm = true, .norm_after_turn = true, .every_expert = true, .act_second = true, .windows_turn = true},
    {.type = "nanochat", .act = ACT_RELU_SQUARED, .unnamed_norm = true, .norm_after_turn = true, .embedding_norm = true},
    {.type = "hunyuan_v1_moe", .shared_first = true, .norm_after_turn = true, .router = ROUTER_WIDE_SOFTMAX, .narrow_shares = true, .typed_router = true},
    {.type = "hunyuan_v1_dense", .norm_after_turn = true},
    {.type = "jais2", .act = ACT_RELU_SQUARED},
    {.type = "arcee", .act = ACT_RELU_SQUARED},
    {.type = "nemotron", .narrow_norm = true, .act = ACT_RELU_SQUARED, .turn = TURN_JOINED},
    {.type = "nemotron_h", .act = ACT_RELU_SQUARED, .norm = NORM_HELIUM, .wide_logits = true, .router = ROUTER_WIDE_SIGMOID},
    {.type = "bitnet", .act = ACT_RELU_SQUARED, .sub_norms = true},
    {.type = "apertus", .act = ACT_XIELU},
    {.type = "helium", .norm = NORM_HELIUM},
    {.type = "granite", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true},
    {.type = "granitemoehybrid", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true, .narrow_shares = true},
    {.type = "granitemoeshared", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true, .narrow_shares = true},
    {.type = "granitemoe", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true, .narrow_shares = true},
    {.type = "minicpm3", .scaled_embedding = true, .scaled_residual = true},
    {.type = "cohere", .scaled_logits = true, .wide_rotary = true, .written_norm = true},
    {.type = "cohere2", .scaled_logits = true, .wide_rotary = true, .written_norm = true, .windows_turn = true},
    {.type = "cohere2_moe", .scaled_logits = true, .wide_rotary = true, .written_norm = true, .windows_turn = true, .narrow_shares = true},
    {.type = "exaone4", .windows_turn = true},
    {.type = "exaone_moe", .windows_turn = true, .router = ROUTER_WIDE_SIGMOID},
    {.type = "ernie4_5", .wide_rotary = true, .wide_halves = true},
    {.type = "ernie4_5_moe", .shared_first = true, .wide_rotary = true, .wide_halves = true, .router = ROUTER_CAST, .narrow_shares = true},
    {.type = "glm", .turn = TURN_JOINED},
    {.type = "glm4", .turn = TURN_JOINED},
    {.type = "glm4_moe", .turn = TURN_JOINED, .router = ROUTER_WIDE_SIGMOID},
    {.type = "bamba", .turn = TURN_JOINED},
    {.type = "persimmon", .turn = TURN_JOINED, .act = ACT_RELU_SQUARED},
    {.type = "stablelm", .turn = TURN_JOINED},
    {.type = "phi3", .drops_later = true, .turn = TURN_JOINED, .act_second = true},
    {.type = "falcon_h1", .scaled_state = true, .scaled_embedding = true, .scaled_logits = true},
    {.type = "qwen2_moe", .shared_first = true, .narrow_shares = true},
    {.type = "qwen3_next", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED, .narrow_shares = true},
    {.type = "qwen3_5", .norm = NORM_GEMMA, .turn = TURN_JOINED},
    {.type = "qwen3_5_moe", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED, .narrow_shares = true},
    {.type = "phi", .drops_later = true, .act = ACT_NEW_GELU, .turn = TURN_JOINED},
    {.type = "gptj", .wide_scores = true, .act = ACT_NEW_GELU, .turn = TURN_JOINED},
    {.type = "codegen", .wide_scores = true, .act = ACT_NEW_GELU, .turn = TURN_JOINED, .qkv = QKV_COPIED},
    {.type = "gpt2", .named_attention = true, .narrow_softmax = true, .act = ACT_NEW_GELU, .qkv = QKV_SPLIT},
    {.type = "falcon", .drops_later = true, .returns_weights = true, .narrow_softmax = true, .named_scores = true, .qkv = QKV_COPIED, .masked = true, .transposed_weights = true},
    {.type = "mpt", .no_sdpa = true, .returns_weights = true, .wide_bias = true, .flash_loss = true},
    {.type = "bloom", .no_sdpa = true, .returns_weights = true, .named_scores = true},
    {.type = "gpt_neo", .named_attention = true, .no_sdpa = true, .returns_weights = true, .act = ACT_NEW_GELU, .wide_scores = true},
    {.type = "openai-gpt", .no_sdpa = true, .act = ACT_NEW_GELU, .qkv = QKV_SPLIT, .narrow_softmax = true},
    {.type = "gpt_neox", .drops_later = true, .qkv = QKV_CHUNKED, .turn = TURN_JOINED, .two_norms = true},
    {.type = "zamba", .shared_block = true},
    {.type = "zamba2", .shared_block = true},
    {.type = "mamba", .wide_stream = true, .wide_logits = true},
    {.type = "mamba2", .wide_stream = true, .wide_logits = true},
    {.type = "falcon_mamba", .bare_inner_norms = true, .wide_stream = true, .wide_logits = true},
    {.type = "deepseek_v4", .no_sdpa = true, .norm = NORM_OLMO, .wide_rotary = true, .wide_halves = true, .turn = TURN_JOINED, .bounded = true, .hyper = true, .two_tables = true},
    {.type = "deepseek_v32", .indexed = true, .router = ROUTER_WIDE_SIGMOID},
    {.type = "glm_moe_dsa", .indexed = true, .router = ROUTER_WIDE_SIGMOID},
    {.type = "deepseek_v2", .turn = TURN_COMPLEX, .router = ROUTER_WIDE_SOFTMAX},
    {.type = "deepseek_v3", .router = ROUTER_WIDE_SIGMOID},
    {.type = "glm4_moe_lite", .router = ROUTER_WIDE_SIGMOID},
    {.type = "dots1", .router = ROUTER_WIDE_SIGMOID},
    {.type = "kimi_k2", .router = ROUTER_WIDE_SIGMOID},
    {.type = "kimi_linear", .router = ROUTER_WIDE_SIGMOID},
    {.type = "longcat_flash", .router = ROUTER_WIDE_SOFTMAX},
    {.type = "axk1", .router = ROUTER_WIDE_SIGMOID},
    {.type = "bailing_hybrid", .router = ROUTER_WIDE_SIGMOID},
    {.type = "hy_v3", .router = ROUTER_WIDE_SOFTMAX},
    {.type = "solar_open", .router = ROUTER_WIDE_SIGMOID},
    {.type = "qwen3_moe", .narrow_shares = true},
    {.type = "olmoe", .narrow_shares = true},
    {.type = "jamba", .narrow_shares = true},
    {.type = "lfm2_moe", .narrow_shares = true, .summed_shares = true},
    {.type = "gpt_bigcode", .named_attention = true},
    {.type = "opt", .drops_later = true, .bare_mlp = true, .positions_apart = true, .act = ACT_RELU, .scaled_query = true},
};

/* Is the model of this family? Its language model alone has a type of its own. */
static bool is_of(const vram_model *m, const char *type)
{
    size_t n = strlen(type);
    return strncmp(type, m->model_type, n) == 0 && (m->model_type[n] == '\0' || strcmp(m->model_type + n, "_text") == 0);
}

style vram_style_of(const vram_model *m)
{
    for (size_t i = 0; i < sizeof STYLES / sizeof STYLES[0]; i++)
        if (STYLES[i].type[0] == m->model_type[0] && is_of(m, STYLES[i].type)) return STYLES[i];
    return (style){.type = ""};
}

/* ----------------------------------------------------------------------------------------------------------- kernels -- */

/* What Liger 0.8.5 has for each family it knows. Without LOSS it puts its in-place loss where transformers 5 does not look for it.
 * Source: liger_kernel/transformers/monkey_patch.py (apply_liger_kernel_to_..., with their defaults) */
enum { ROTARY = VRAM_KERNEL_ROTARY, NORM = VRAM_KERNEL_NORM | VRAM_KERNEL_OVER, APART = VRAM_KERNEL_NORM, GATE = VRAM_KERNEL_GATE, EXPERTS = VRAM_KERNEL_EXPERTS, LOSS = VRAM_KERNEL_LOSS };
static const struct { const char *type; unsigned kernels; } LIGER[] = {
    {"llama", ROTARY | NORM | GATE | LOSS}, {"granite", ROTARY | NORM | GATE | LOSS}, {"smollm3", ROTARY | NORM | GATE | LOSS}, {"qwen2", ROTARY | NORM | GATE | LOSS},
    {"qwen3", ROTARY | NORM | GATE | LOSS}, {"phi3", ROTARY | NORM | GATE | LOSS}, {"falcon_h1", ROTARY | NORM | GATE | LOSS}, {"hunyuan_v1_dense", ROTARY | NORM | GATE | LOSS},
    {"gemma", ROTARY | NORM | GATE | LOSS}, {"gemma2", ROTARY | APART | GATE | LOSS}, {"gemma3", ROTARY | APART | GATE | LOSS}, {"gemma4", APART | GATE | LOSS},
    {"olmo2", ROTARY | APART | GATE | LOSS}, {"olmo3", ROTARY | APART | GATE | LOSS}, {"exaone4", ROTARY | APART | GATE | LOSS}, {"glm4", APART | GATE | LOSS},
    {"mistral", ROTARY | NORM | GATE}, {"ministral", ROTARY | NORM | GATE}, {"llama4", ROTARY | NORM | GATE}, {"nemotron", VRAM_KERNEL_ACTIVATION},
    {"mixtral", ROTARY | NORM | GATE | EXPERTS | LOSS}, {"qwen3_moe", ROTARY | NORM | GATE | EXPERTS | LOSS}, {"hunyuan_v1_moe", ROTARY | NORM | GATE | EXPERTS | LOSS},
    {"deepseek_v2", NORM | GATE | EXPERTS | LOSS}, {"deepseek_v3", NORM | GATE | EXPERTS | LOSS}, {"deepseek_v4", NORM | LOSS}, {"gpt_oss", ROTARY | NORM | LOSS},
    {"qwen3_next", APART | GATE | EXPERTS | LOSS}, {"qwen3_5", APART | GATE | LOSS}, {"qwen3_5_moe", APART | EXPERTS | LOSS},
};

static unsigned of_liger(const vram_model *m)
{
    for (size_t i = 0; i < sizeof LIGER / sizeof LIGER[0]; i++)
        if (is_of(m, LIGER[i].type)) return LIGER[i].kernels;
    return 0;
}

/* What runs on flash attention's own package has other kernels, for every family: Unsloth's, as they are or in fms-acceleration; torchtitan's and torchtune's blocks */
static bool liger(const vram_scenario *s) { return s->training.kernels == VRAM_KERNELS_FUSED && s->training.attention != VRAM_ATTENTION_FLASH; }

bool vram_liger_knows(const vram_model *m) { return of_liger(m) != 0; }

bool vram_part_has_kernel(const block *b, unsigned kernel)
{
    const vram_scenario *s = b->pass->scenario;
    if (s->training.kernels != VRAM_KERNELS_FUSED) return false;
    if (liger(s)) return of_liger(b->pass->model) & kernel;
    return kernel & (VRAM_KERNEL_ROTARY | VRAM_KERNEL_NORM | VRAM_KERNEL_GATE) || (kernel == VRAM_KERNEL_OVER && b->style.norm == NORM_LLAMA);
}

bool vram_loss_stays_whole(const vram_scenario *s)
{
    int loss = s->training.loss;
    return liger(s) && ((loss == VRAM_LOSS_INPLACE && !(of_liger(&s->model) & LOSS)) || (loss == VRAM_LOSS_FUSED && !vram_liger_knows(&s->model)));
}

/* Families whose classes have no way into PyTorch's kernel compute attention as it is written down. */
bool vram_part_is_eager(const vram_pass *pass)
{
    int asked = pass->scenario->training.attention;
    return asked == VRAM_ATTENTION_EAGER || (asked == VRAM_ATTENTION_SDPA && vram_style_of(pass->model).no_sdpa);
}
