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
    {.type = "phi3", .turn = TURN_JOINED, .act_second = true},
    {.type = "falcon_h1", .scaled_state = true, .scaled_embedding = true, .scaled_logits = true},
    {.type = "qwen2_moe", .shared_first = true, .narrow_shares = true},
    {.type = "qwen3_next", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED, .narrow_shares = true},
    {.type = "qwen3_5", .norm = NORM_GEMMA, .turn = TURN_JOINED},
    {.type = "qwen3_5_moe", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED, .narrow_shares = true},
    {.type = "phi", .act = ACT_NEW_GELU, .turn = TURN_JOINED},
    {.type = "gptj", .wide_scores = true, .act = ACT_NEW_GELU, .turn = TURN_JOINED},
    {.type = "codegen", .wide_scores = true, .act = ACT_NEW_GELU, .turn = TURN_JOINED, .qkv = QKV_COPIED},
    {.type = "gpt2", .named_attention = true, .narrow_softmax = true, .act = ACT_NEW_GELU, .qkv = QKV_SPLIT},
    {.type = "falcon", .returns_weights = true, .narrow_softmax = true, .named_scores = true, .qkv = QKV_COPIED, .masked = true, .transposed_weights = true},
    {.type = "mpt", .no_sdpa = true, .returns_weights = true, .wide_bias = true},
    {.type = "bloom", .no_sdpa = true, .returns_weights = true, .named_scores = true},
    {.type = "gpt_neo", .named_attention = true, .no_sdpa = true, .returns_weights = true, .act = ACT_NEW_GELU, .wide_scores = true},
    {.type = "openai-gpt", .no_sdpa = true, .act = ACT_NEW_GELU, .qkv = QKV_SPLIT, .narrow_softmax = true},
    {.type = "gpt_neox", .qkv = QKV_CHUNKED, .turn = TURN_JOINED, .two_norms = true},
    {.type = "zamba", .shared_block = true},
    {.type = "zamba2", .shared_block = true},
    {.type = "mamba", .wide_stream = true, .wide_logits = true},
    {.type = "mamba2", .wide_stream = true, .wide_logits = true},
    {.type = "falcon_mamba", .wide_stream = true, .wide_logits = true},
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
    {.type = "opt", .positions_apart = true, .act = ACT_RELU, .scaled_query = true},
};

style vram_style_of(const vram_model *m)
{
    for (size_t i = 0; i < sizeof STYLES / sizeof STYLES[0]; i++) {
        if (STYLES[i].type[0] != m->model_type[0]) continue;
        size_t n = strlen(STYLES[i].type);
        if (strncmp(STYLES[i].type, m->model_type, n) == 0 && (m->model_type[n] == '\0' || strcmp(m->model_type + n, "_text") == 0)) return STYLES[i];
    }
    return (style){.type = ""};
}

/* Families whose classes have no way into PyTorch's kernel compute attention as it is written down. */
bool vram_part_is_eager(const vram_pass *pass)
{
    int asked = pass->scenario->training.attention;
    return asked == VRAM_ATTENTION_EAGER || (asked == VRAM_ATTENTION_SDPA && vram_style_of(pass->model).no_sdpa);
}
