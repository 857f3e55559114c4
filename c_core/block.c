/* block.c -- decoder blocks as programs of operations, written as the modules of transformers are.
 *
 * What a function here makes, in which order, under which of Python's names, is read off the forward() of the module it is named
 * after. Source: transformers 5, src/transformers/models; peft, tuners/lora/layer.py; bitsandbytes, nn/modules.py. */
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
    {.type = "mimo_v2_flash", .no_sdpa = true, .turn = TURN_JOINED, .shifted_scores = true},
    {.type = "afmoe", .shared_first = true, .norm = NORM_OLMO, .windows_turn = true},
    {.type = "olmo", .wide_norm = true, .wide_tables = true},
    {.type = "olmo2", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "olmo3", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "olmo_hybrid", .norm = NORM_OLMO, .wide_tables = true},
    {.type = "flex_olmo", .norm = NORM_OLMO},
    {.type = "gpt_oss", .no_sdpa = true, .norm = NORM_OLMO, .turn = TURN_HALVES, .clamped_experts = true},
    {.type = "llama4", .narrow_softmax = true, .turn = TURN_COMPLEX, .unnamed_norm = true, .norm_after_turn = true, .every_expert = true, .act_second = true, .windows_turn = true},
    {.type = "nanochat", .act = ACT_RELU_SQUARED, .unnamed_norm = true, .norm_after_turn = true, .embedding_norm = true},
    {.type = "hunyuan_v1_moe", .shared_first = true, .norm_after_turn = true},
    {.type = "hunyuan_v1_dense", .norm_after_turn = true},
    {.type = "jais2", .act = ACT_RELU_SQUARED},
    {.type = "arcee", .act = ACT_RELU_SQUARED},
    {.type = "nemotron", .narrow_norm = true, .act = ACT_RELU_SQUARED, .turn = TURN_JOINED},
    {.type = "nemotron_h", .act = ACT_RELU_SQUARED, .norm = NORM_HELIUM, .wide_logits = true},
    {.type = "bitnet", .act = ACT_RELU_SQUARED, .sub_norms = true},
    {.type = "apertus", .act = ACT_XIELU},
    {.type = "helium", .norm = NORM_HELIUM},
    {.type = "granite", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true},
    {.type = "granitemoehybrid", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true},
    {.type = "granitemoeshared", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true},
    {.type = "granitemoe", .scaled_embedding = true, .scaled_residual = true, .scaled_logits = true},
    {.type = "minicpm3", .scaled_embedding = true, .scaled_residual = true},
    {.type = "cohere", .scaled_logits = true, .wide_rotary = true, .written_norm = true},
    {.type = "cohere2", .scaled_logits = true, .wide_rotary = true, .written_norm = true, .windows_turn = true},
    {.type = "cohere2_moe", .scaled_logits = true, .wide_rotary = true, .written_norm = true, .windows_turn = true},
    {.type = "exaone4", .windows_turn = true},
    {.type = "exaone_moe", .windows_turn = true},
    {.type = "ernie4_5", .wide_rotary = true, .wide_halves = true},
    {.type = "ernie4_5_moe", .shared_first = true, .wide_rotary = true, .wide_halves = true},
    {.type = "glm", .turn = TURN_JOINED},
    {.type = "glm4", .turn = TURN_JOINED},
    {.type = "glm4_moe", .turn = TURN_JOINED},
    {.type = "bamba", .turn = TURN_JOINED},
    {.type = "persimmon", .turn = TURN_JOINED, .act = ACT_RELU_SQUARED},
    {.type = "stablelm", .turn = TURN_JOINED},
    {.type = "phi3", .turn = TURN_JOINED, .act_second = true},
    {.type = "falcon_h1", .scaled_state = true, .scaled_embedding = true, .scaled_logits = true},
    {.type = "qwen2_moe", .shared_first = true},
    {.type = "qwen3_next", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED},
    {.type = "qwen3_5", .norm = NORM_GEMMA, .turn = TURN_JOINED},
    {.type = "qwen3_5_moe", .shared_first = true, .norm = NORM_GEMMA, .turn = TURN_JOINED},
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
    {.type = "deepseek_v32", .indexed = true},
    {.type = "glm_moe_dsa", .indexed = true},
    {.type = "gpt_bigcode", .named_attention = true},
    {.type = "opt", .positions_apart = true, .act = ACT_RELU, .scaled_query = true},
};

static style style_of(const vram_model *m)
{
    for (size_t i = 0; i < sizeof STYLES / sizeof STYLES[0]; i++) {
        if (STYLES[i].type[0] != m->model_type[0]) continue;
        size_t n = strlen(STYLES[i].type);
        if (strncmp(STYLES[i].type, m->model_type, n) == 0 && (m->model_type[n] == '\0' || strcmp(m->model_type + n, "_text") == 0)) return STYLES[i];
    }
    return (style){.type = ""};
}

/* Families whose classes have no way into PyTorch's kernel compute attention as it is written down. */
static bool eager_attention(const vram_pass *pass)
{
    int asked = pass->scenario->training.attention;
    return asked == VRAM_ATTENTION_EAGER || (asked == VRAM_ATTENTION_SDPA && style_of(pass->model).no_sdpa);
}

vram_size vram_part_size(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y, vram_symbol d, double z, vram_symbol e, double w)
{
    return vram_tape_size(b->t, factors, (const vram_factor[]){{a, x}, {c, y}, {d, z}, {e, w}});
}

vram_size vram_part_rows(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y)
{
    return vram_part_size(b, factors, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, b->pass->tokens, a, x, c, y);
}

void vram_part_hold(const block *b, int n, const vram_cell cells[])
{
    for (int i = 0; i < n; i++) vram_tape_hold(b->t, cells[i]);
}

static vram_size wide(const block *b, vram_symbol symbol, double width) { return ROWS_BY(b, symbol, width); }
static vram_size heads_wide(const block *b, vram_symbol symbol, double heads, double head_dim) { return ROWS_BY_2(b, symbol, heads, VRAM_SYMBOL_HEAD_DIM, head_dim); }

static void begin(const vram_pass *pass, vram_tape *t, int kind, block *b)
{
    const vram_scenario *s = pass->scenario;
    vram_tape_clear(t, s->training.autocast != 0 && !pass->no_autocast, pass->workspace);
    t->update = pass->update;
    t->gradient_share = pass->gradient_share;
    t->caches = !pass->gradients && !pass->lora && s->training.method == VRAM_METHOD_FULL;
    *b = (block){.pass = pass, .t = t, .kind = kind, .layer = kind < 0 ? NULL : &pass->model->kind[kind], .style = style_of(pass->model)};
    t->keeps_casts = kind < 0 || !b->style.transposed_weights;
    b->hidden = b->stream = wide(b, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
    b->rows = b->stream_rows = ROWS_OF(b);
    if (s->parallel.tensor <= 1) return;
    if (kind >= 0) b->layer = vram_rank_layer(s, b->layer, &b->divided);
    if (!s->parallel.sequence) return;
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, pass->batch}, part = {VRAM_SYMBOL_SEQUENCE, vram_stream_tokens(pass)};
    b->stream = SIZE_3(b, batch.symbol, batch.value, part.symbol, part.value, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
    b->stream_rows = SIZE_2(b, batch.symbol, batch.value, part.symbol, part.value);
}

/* Sequence parallelism: what stands between the blocks has its tokens divided over the ranks. A block gathers them and keeps what it has
 * gathered; its output, a part of the sum on each rank, is summed and scattered. Source: torch/distributed/tensor/parallel/style.py
 * (PrepareModuleInput, RowwiseParallel), as torchtitan/models/llama3/infra/parallelize.py has them. */
static vram_cell gather(const block *b, vram_cell x) { return b->stream == b->hidden ? x : vram_op_resized(b->t, x, b->hidden, false, VRAM_WHAT_GATHERED_INPUT); }
static vram_cell scatter(const block *b, vram_cell x) { return b->stream == b->hidden ? x : vram_op_resized(b->t, x, b->stream, false, VRAM_WHAT_HIDDEN_STATES); }

/* The model's forward() has a name for it while the layers run. */
static void name(const block *b, vram_cell x) { b->t->cell[x].cached = true; }

static void finish(block *b, vram_cell y)
{
    b->t->output = y;
    if (y >= 0) b->t->cell[b->t->cell[y].base].last_use = -1; /* the next piece holds it */
}

/* A base model's weight that is no linear layer's: trained, or frozen under LoRA */
static vram_cell vector(const block *b, double length)
{
    return vram_tape_parameter(b->t, SIZE_1(b, VRAM_SYMBOL_WIDTH, length), b->pass->plain_width, !b->pass->lora && b->pass->gradients);
}

/* ---------------------------------------------------------------------------------------------------------------- norms -- */

/* x * rsqrt(mean(x^2) + eps), in fp32. Llama's names hold the mean and the result to the end of forward(); Gemma has it in one expression. */
static vram_cell normalised(const block *b, vram_cell x, vram_size rows, vram_cell *mean)
{
    vram_tape *t = b->t;
    *mean = vram_op_mean(t, vram_op_square(t, x), rows);
    vram_cell scale = vram_op_rsqrt(t, vram_op_constant(t, *mean, 4, VRAM_WHAT_NORM_STATISTICS));
    return vram_op_mul_rows(t, x, scale, VRAM_WHAT_NORMALISED);
}

static bool fused_kernels(const block *b) { return b->pass->scenario->training.kernels == VRAM_KERNELS_FUSED; }

/* Llama 4, nanochat: norm(x.float()).type_as(x), then times the weight if there is one (width: 0) */
static vram_cell unnamed_rms_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    vram_tape *t = b->t;
    vram_cell mean, in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), y = vram_op_cast(t, normalised(b, in, rows, &mean), vram_width(t, x), VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, in);
    if (width > 0) {
        vram_cell output = y;
        y = vram_op_mul_weight(t, vector(b, width), output, VRAM_WHAT_NORM_OUTPUT);
        vram_tape_hold(t, output);
    }
    vram_tape_hold(t, x);
    return y;
}

static vram_cell rms_norm(const block *b, vram_cell x, vram_size rows, double width, bool weighted)
{
    vram_tape *t = b->t;
    if (fused_kernels(b)) return vram_op_fused_norm(t, x, vector(b, width), rows, b->style.norm == NORM_LLAMA, VRAM_WHAT_NORM_OUTPUT);
    int narrow = vram_width(t, x);
    if (b->style.unnamed_norm) return unnamed_rms_norm(b, x, rows, weighted ? width : 0);
    vram_cell mean, y, in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), normed = normalised(b, in, rows, &mean), weight = vector(b, width);
    switch (b->style.norm) {
    case NORM_GEMMA:
    case NORM_GEMMA_4:
        if (weighted) weight = vram_op_cast(t, weight, 4, VRAM_WHAT_NORMS);
        if (b->style.norm == NORM_GEMMA) weight = vram_op_shift(t, weight, VRAM_WHAT_NORMS);
        y = !weighted ? normed : vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT);
        vram_tape_hold(t, in);
        y = vram_op_cast(t, y, narrow, VRAM_WHAT_NORM_OUTPUT);
        break;
    case NORM_HELIUM: weight = vram_op_cast(t, weight, 4, VRAM_WHAT_NORMS); /* fall through */
    case NORM_OLMO: y = vram_op_cast(t, vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT), narrow, VRAM_WHAT_NORM_OUTPUT); break;
    default: y = vram_op_mul_weight(t, weight, vram_op_cast(t, normed, narrow, VRAM_WHAT_NORMALISED), VRAM_WHAT_NORM_OUTPUT); break;
    }
    if (b->style.norm != NORM_GEMMA && b->style.norm != NORM_GEMMA_4) {
        vram_tape_hold(t, normed);
        vram_tape_hold(t, mean);
    }
    vram_tape_hold(t, x);
    return y;
}

/* CohereLayerNorm: in fp32, the mean taken off twice, each time into a tensor of its own */
static vram_cell written_layer_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    vram_tape *t = b->t;
    vram_cell in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), mean = vram_op_mean(t, in, rows);
    vram_cell variance = vram_op_mean(t, vram_op_square(t, vram_op_shift(t, in, VRAM_WHAT_NORM_INPUT)), rows);
    vram_cell normed = vram_op_mul_rows(t, vram_op_shift(t, in, VRAM_WHAT_NORM_INPUT), vram_op_rsqrt(t, vram_op_constant(t, variance, 4, VRAM_WHAT_NORM_STATISTICS)), VRAM_WHAT_NORMALISED);
    vram_cell weight = vram_op_cast(t, vector(b, width), 4, VRAM_WHAT_NORMS), y = vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, mean);
    return vram_op_cast(t, y, vram_width(t, x), VRAM_WHAT_NORM_OUTPUT);
}

static vram_cell norm_of(const block *b, vram_cell x, vram_size rows, double width)
{
    if (b->style.written_norm && !fused_kernels(b)) return written_layer_norm(b, x, rows, width);
    vram_norm_type type = b->pass->model->norm;
    bool layer = type == VRAM_NORM_LAYER || type == VRAM_NORM_LAYER_BIAS || type == VRAM_NORM_LAYER_BARE;
    if (!layer) return rms_norm(b, x, rows, width, type != VRAM_NORM_RMS_BARE);
    vram_cell weight = type == VRAM_NORM_LAYER_BARE ? VRAM_NO_CELL : vector(b, width), bias = type == VRAM_NORM_LAYER_BIAS ? vector(b, width) : VRAM_NO_CELL;
    bool narrow = b->style.narrow_norm && b->t->autocast;
    vram_cell in = b->style.wide_norm || narrow ? vram_op_cast(b->t, x, narrow ? 2 : 4, VRAM_WHAT_NORM_INPUT) : x;
    b->t->autocast &= !narrow;
    vram_cell y = vram_op_layer_norm(b->t, in, weight, bias, rows, VRAM_WHAT_NORM_OUTPUT);
    b->t->autocast |= narrow;
    return b->style.wide_norm ? vram_op_cast(b->t, y, vram_width(b->t, x), VRAM_WHAT_NORM_OUTPUT) : y;
}

static vram_cell norm(const block *b, vram_cell x) { return norm_of(b, x, b->stream_rows, (double)b->pass->model->hidden); }

/* -------------------------------------------------------------------------------------------------------- linear layers -- */

/* stacked: the experts' matrix, not that of a shared expert which has the same name */
static const vram_tensor *row_of(const block *b, const char *name, bool bias, bool stacked)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind == b->kind && m->tensor[i].bias == bias && m->tensor[i].stacked == stacked && (bias || m->tensor[i].columns > 1) && strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    return NULL;
}

static double adapter_rank(const block *b, const char *name)
{
    const vram_tensor *row = row_of(b, name, false, false);
    return b->pass->lora && row != NULL ? vram_lora_rank(b->pass->scenario, b->pass->model, row) : 0;
}

static vram_cell matrix(const block *b, double rows, double columns, int width, bool trained)
{
    return vram_tape_parameter(b->t, SIZE_2(b, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), width, trained && b->pass->gradients);
}

/* What a linear layer needs to know: its name in the family, output and input features */
typedef struct { const char *name; double rows, columns; vram_size out; vram_what what; } layer_shape;

/* B(A(dropout(x))) * scaling in the adapter's type */
static vram_cell low_rank(const block *b, vram_cell in, const layer_shape *l, double rank)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(s->lora.dtype);
    vram_cell dropped = vram_op_dropout(t, in, s->lora.dropout, VRAM_WHAT_LORA_INPUT);
    vram_cell down = vram_op_linear(t, dropped, matrix(b, rank, l->columns, width, true), VRAM_NO_CELL, wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_LORA_DOWN);
    vram_cell up = vram_op_linear(t, down, matrix(b, l->rows, rank, width, true), VRAM_NO_CELL, l->out, VRAM_WHAT_LORA_UP);
    return vram_op_constant(t, up, vram_width(t, up), VRAM_WHAT_LORA_UP);
}

/* peft's Linear: (result + adapter).to(type of the result) */
static vram_cell adapted(const block *b, vram_cell x, vram_cell result, const layer_shape *l, double rank)
{
    vram_tape *t = b->t;
    int narrow = vram_width(t, result);
    vram_cell in = vram_op_cast(t, x, (int)vram_format_bytes(b->pass->scenario->lora.dtype), VRAM_WHAT_LORA_INPUT);
    vram_cell y = vram_op_cast(t, vram_op_add(t, result, low_rank(b, in, l, rank), l->what), narrow, l->what);
    vram_tape_hold(t, in);
    vram_tape_hold(t, x); /* an argument of the module's call */
    return y;
}

/* The base's weight in the type of x: cast, or unpacked */
static vram_cell whole_weight(const block *b, const layer_shape *l, int width)
{
    vram_tape *t = b->t;
    vram_cell stored = matrix(b, l->rows, l->columns, b->pass->width, false);
    if (b->pass->four_bit) stored = vram_op_constant(t, stored, 0, VRAM_WHAT_DEQUANTISED);
    return vram_op_cast(t, stored, width, VRAM_WHAT_DORA_WEIGHT);
}

/* |W + BA|, row by row: BA by sending a unit matrix through the adapter; no gradient. The names live to the end of the call. What the two products save goes with
 * the function, but for a pass whose graph keeps it: that graph hangs on the name of their result. */
static void dora_norm(const block *b, const layer_shape *l, double rank, vram_cell names[4])
{
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype), saved = t->autocast ? 2 : width;
    vram_size square = SIZE_3(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_COPIES, 1, VRAM_SYMBOL_WIDTH, l->columns);
    vram_size low = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_RANK, rank), whole = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_WIDTH, l->rows);
    vram_cell unit = vram_op_constant(t, vram_tape_outside(t, square, width, VRAM_WHAT_DORA_WEIGHT), width, VRAM_WHAT_DORA_WEIGHT);
    vram_cell down = vram_op_linear(t, unit, matrix(b, rank, l->columns, width, false), VRAM_NO_CELL, low, VRAM_WHAT_LORA_DOWN);
    if (saved < width) names[0] = vram_op_kept(t, square, saved, VRAM_WHAT_DORA_WEIGHT); /* autocast's copy, beside the matrix itself */
    vram_cell product = vram_op_linear(t, down, matrix(b, l->rows, rank, width, false), VRAM_NO_CELL, whole, VRAM_WHAT_DORA_WEIGHT);
    vram_tape_hold(t, unit);
    if (saved >= width) names[0] = vram_op_kept(t, square, saved, VRAM_WHAT_DORA_WEIGHT);
    names[1] = vram_op_kept(t, low, saved, VRAM_WHAT_DORA_WEIGHT);
    names[2] = vram_op_cast(t, product, width, VRAM_WHAT_DORA_WEIGHT);
    names[3] = whole_weight(b, l, width);
    vram_cell sum = vram_op_add(t, names[3], vram_op_constant(t, names[2], 0, VRAM_WHAT_DORA_WEIGHT), VRAM_WHAT_DORA_WEIGHT);
    vram_op_mean(t, sum, SIZE_1(b, VRAM_SYMBOL_WIDTH, l->rows));
}

/* peft's DoraLinearLayer: result + (m - 1) base + m B(A(x)) scaling, m = magnitude / norm; with dropout the base runs again on what is left of x */
static vram_cell adapted_dora(const block *b, vram_cell x, vram_cell result, const layer_shape *l, double rank)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(s->lora.dtype), narrow = vram_width(t, result);
    vram_cell in = vram_op_cast(t, x, width, VRAM_WHAT_LORA_INPUT), names[4];
    vram_cell left = vram_op_dropout(t, in, b->pass->gradients ? s->lora.dropout : 0, VRAM_WHAT_LORA_INPUT);
    dora_norm(b, l, rank, names);
    vram_cell magnitude = vram_op_constant(t, vram_tape_parameter(t, SIZE_1(b, VRAM_SYMBOL_WIDTH, l->rows), width, b->pass->gradients), 0, VRAM_WHAT_DORA_WEIGHT);
    vram_cell down = vram_op_linear(t, left, matrix(b, rank, l->columns, width, true), VRAM_NO_CELL, wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_LORA_DOWN);
    vram_cell up = vram_op_linear(t, down, matrix(b, l->rows, rank, width, true), VRAM_NO_CELL, l->out, VRAM_WHAT_LORA_UP);
    vram_cell base = left == in ? result : vram_op_linear(t, left, names[3], VRAM_NO_CELL, l->out, VRAM_WHAT_DORA_BASE);
    vram_cell first = vram_op_mul_weight(t, vram_op_shift(t, magnitude, VRAM_WHAT_DORA_WEIGHT), base, VRAM_WHAT_LORA_UP);
    vram_cell second = vram_op_constant(t, vram_op_mul_weight(t, magnitude, up, VRAM_WHAT_LORA_UP), 0, VRAM_WHAT_LORA_UP);
    vram_cell more = vram_op_add(t, first, second, VRAM_WHAT_LORA_UP);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, names[i]);
    vram_tape_hold(t, up);
    vram_tape_hold(t, base);
    vram_cell y = vram_op_cast(t, vram_op_add(t, result, more, l->what), narrow, l->what);
    vram_tape_hold(t, in);
    vram_tape_hold(t, x);
    return y;
}

static vram_cell with_adapter(const block *b, vram_cell x, vram_cell y, const layer_shape *l, double rank)
{
    if (rank <= 0) return y;
    return b->pass->scenario->lora.dora ? adapted_dora(b, x, y, l, rank) : adapted(b, x, y, l, rank);
}

static vram_cell linear_4bit(const block *b, vram_cell x, const layer_shape *l, double rank)
{
    vram_tape *t = b->t;
    vram_cell in = vram_op_cast(t, x, 2, VRAM_WHAT_AUTOCAST_INPUT);
    vram_size weight = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->rows, VRAM_SYMBOL_WIDTH, l->columns);
    vram_cell y = vram_op_cast(t, vram_op_linear_4bit(t, in, weight, b->pass->scenario->weights == VRAM_FORMAT_NF4_DQ, row_of(b, l->name, true, false) != NULL, l->out, l->what), vram_width(t, x), l->what);
    return with_adapter(b, x, y, l, rank);
}

static vram_cell linear(const block *b, vram_cell x, const char *name, double rows, double columns, vram_size out, vram_what what)
{
    const layer_shape l = {name, rows, columns, out, what};
    const vram_tensor *row = row_of(b, name, false, false);
    double rank = adapter_rank(b, name);
    if (b->pass->four_bit && row != NULL && row->linear) return linear_4bit(b, x, &l, rank);
    vram_cell bias = row_of(b, name, true, false) != NULL ? vector(b, rows) : VRAM_NO_CELL;
    vram_cell y = vram_op_linear(b->t, x, matrix(b, rows, columns, b->pass->width, !b->pass->lora), bias, out, what);
    return with_adapter(b, x, y, &l, rank);
}

/* ------------------------------------------------------------------------------------------------------------ attention -- */

/* x cos + rotate_half(x) sin; cos and sin are in the type of the hidden states */
static vram_cell rotary(const block *b, vram_cell given, double heads, double head_dim, vram_what what)
{
    vram_tape *t = b->t;
    if (fused_kernels(b)) return vram_op_in_place(t, given, what);
    vram_cell x = b->style.wide_rotary ? vram_op_cast(t, given, 4, VRAM_WHAT_ROTARY) : given;
    int table = b->style.wide_tables ? 4 : vram_stream_width(b->pass);
    vram_size half = heads_wide(b, VRAM_SYMBOL_HEADS, heads, head_dim / 2);
    vram_cell first = vram_op_constant(t, x, table, VRAM_WHAT_ROTARY);
    vram_cell whole = b->style.wide_halves ? given : x, low = vram_op_slice(t, whole, half, VRAM_WHAT_ROTARY), high = vram_op_slice(t, whole, half, VRAM_WHAT_ROTARY);
    vram_cell turned = vram_op_join(t, vram_op_constant(t, high, 0, VRAM_WHAT_ROTARY), low, t->cell[x].shape, VRAM_WHAT_ROTARY);
    if (b->style.wide_halves) turned = vram_op_cast(t, turned, 4, VRAM_WHAT_ROTARY);
    vram_cell sum = vram_op_add(t, first, vram_op_constant(t, turned, table, VRAM_WHAT_ROTARY), what);
    vram_tape_hold(t, x);
    return b->style.wide_rotary || b->style.wide_tables ? vram_op_cast(t, sum, vram_width(t, given), what) : sum;
}

/* Rotary on the first numbers of each head; the rest is joined on, if only nothing (Phi-3) */
static vram_cell rotary_joined(const block *b, vram_cell x, double heads, double head_dim, double part, vram_what what)
{
    vram_tape *t = b->t;
    vram_cell turn = vram_op_slice(t, x, heads_wide(b, VRAM_SYMBOL_HEADS, heads, part), VRAM_WHAT_ROTARY);
    vram_cell rest = part < head_dim ? vram_op_slice(t, x, heads_wide(b, VRAM_SYMBOL_HEADS, heads, head_dim - part), VRAM_WHAT_ROTARY) : VRAM_NO_CELL;
    return vram_op_join(t, rotary(b, turn, heads, part, VRAM_WHAT_ROTARY), rest, t->cell[x].shape, what);
}

/* first cos - second sin, second cos + first sin, joined */
static vram_cell rotary_halves(const block *b, vram_cell x, double heads, double head_dim, vram_what what)
{
    vram_tape *t = b->t;
    vram_size half = heads_wide(b, VRAM_SYMBOL_HEADS, heads, head_dim / 2);
    vram_cell part[2], turned[2];
    int table = vram_stream_width(b->pass);
    vram_op_split(t, x, 2, (const vram_size[]){half, half}, part);
    for (int i = 0; i < 2; i++) {
        vram_cell first = vram_op_constant(t, part[i], table, VRAM_WHAT_ROTARY), second = vram_op_constant(t, part[1 - i], table, VRAM_WHAT_ROTARY);
        turned[i] = vram_op_add(t, first, second, VRAM_WHAT_ROTARY);
    }
    vram_cell y = vram_op_join(t, turned[0], turned[1], t->cell[x].shape, what);
    for (int i = 0; i < 2; i++) vram_tape_hold(t, turned[i]);
    return y;
}

static vram_flash_sizes attention_sizes(const block *b, double align)
{
    const vram_attention *a = &b->layer->attention;
    double heads = (double)a->heads, d = (double)a->head_dim, s = b->pass->tokens;
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, b->pass->batch}, a_heads = {VRAM_SYMBOL_HEADS, heads}, rows = {VRAM_SYMBOL_SEQUENCE, vram_round_up(s, align)};
    vram_flash_sizes sizes = {.grouped = a->heads != a->kv_heads, .wide = d > 128 || (double)a->v_head_dim > 128};
    sizes.out = heads_wide(b, VRAM_SYMBOL_HEADS, heads, (double)a->v_head_dim);
    sizes.statistics = SIZE_3(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, align > 32 ? s : vram_round_up(s, align), a_heads.symbol, a_heads.value);
    sizes.delta = SIZE_3(b, batch.symbol, batch.value, rows.symbol, rows.value, a_heads.symbol, a_heads.value);
    sizes.dq_sum = SIZE_4(b, batch.symbol, batch.value, rows.symbol, rows.value, a_heads.symbol, a_heads.value, VRAM_SYMBOL_HEAD_DIM, vram_round_up(d, 32));
    sizes.dk_heads = heads_wide(b, VRAM_SYMBOL_HEADS, heads, d);
    sizes.dv_heads = sizes.out;
    sizes.mask = SIZE_3(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s);
    return sizes;
}

/* Documents that share a row are told apart by a mask, where the kernel is not told their boundaries.
 * Source: transformers/masking_utils.py (find_packed_sequence_indices) */
static bool packed(const vram_pass *pass)
{
    const vram_scenario *s = pass->scenario;
    return s->task == VRAM_TASK_TRAINING && s->training.packing == VRAM_PACKING_BFD && s->training.attention != VRAM_ATTENTION_FLASH;
}

/* Does sdpa get a mask? Only for packed documents, and windows shorter than the sequence; causal alone it knows itself. */
static bool masked(const block *b)
{
    const vram_attention *a = &b->layer->attention;
    if (b->style.indexed) return true;
    if (packed(b->pass) || (b->style.masked && b->pass->scenario->training.attention != VRAM_ATTENTION_FLASH)) return true;
    return b->pass->scenario->training.attention != VRAM_ATTENTION_FLASH && a->window > 0 && b->pass->tokens >= (double)a->window;
}

/* Each key head's numbers for all its query heads: a view when there is but one */
static vram_cell repeat_heads(const block *b, vram_cell x, vram_size out, vram_what what)
{
    return b->layer->attention.kv_heads == 1 ? vram_op_slice(b->t, x, out, what) : vram_op_repeat(b->t, x, out, what);
}

enum { FLASH_WIDEST = 256 }; /* of a head */

static vram_cell sdpa(const block *b, vram_cell q, vram_cell k, vram_cell v, bool copied)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    bool mask = masked(b), narrow = vram_width(t, q) == 2 || t->autocast, even = a->head_dim == a->v_head_dim;
    if (narrow && !mask && even && a->head_dim <= FLASH_WIDEST) {
        vram_flash_sizes sizes = attention_sizes(b, 128);
        sizes.copied = copied;
        vram_cell y = vram_op_flash(t, q, k, v, &sizes);
        return copied ? vram_op_copy(t, y, sizes.out, VRAM_WHAT_ATTENTION_OUTPUT) : y;
    }
    vram_flash_sizes sizes = attention_sizes(b, 32);
    sizes.masked = mask;
    bool repeat = sizes.grouped && (mask || !even || a->head_dim > FLASH_WIDEST);
    if (b->style.masked && t->autocast) { /* Falcon has no repeat_kv: autocast comes first, the kernel spreads them */
        k = vram_op_cast(t, k, 2, VRAM_WHAT_AUTOCAST_INPUT);
        v = vram_op_cast(t, v, 2, VRAM_WHAT_AUTOCAST_INPUT);
    }
    if (!repeat) return vram_op_efficient(t, q, k, v, &sizes);
    sizes.grouped = false;
    vram_cell keys = repeat_heads(b, k, sizes.dk_heads, VRAM_WHAT_REPEATED_KEYS), values = repeat_heads(b, v, sizes.dv_heads, VRAM_WHAT_REPEATED_VALUES);
    vram_cell y = vram_op_efficient(t, q, keys, values, &sizes);
    vram_tape_hold(t, keys);
    vram_tape_hold(t, values);
    return y;
}

/* softmax in fp32, or in the type of the scores, then in the type of the values */
static vram_cell probabilities(const block *b, vram_cell sum, int width)
{
    vram_tape *t = b->t;
    vram_cell wide_sum = b->style.narrow_softmax && !t->autocast ? sum : vram_op_cast(t, sum, 4, VRAM_WHAT_ATTENTION_SCORES);
    return vram_op_cast(t, vram_op_softmax(t, wide_sum, VRAM_WHAT_ATTENTION_PROBABILITIES), width, VRAM_WHAT_ATTENTION_PROBABILITIES);
}

/* gpt-oss: one more column, less the greatest, softmax in the scores' type; the columns that are keys are a view */
static vram_cell sunk_probabilities(const block *b, vram_cell sum)
{
    vram_tape *t = b->t;
    double s = b->pass->tokens;
    vram_size wider = SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_HEADS, (double)b->layer->attention.heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s + 1);
    bool sinks = b->layer->attention.sinks;
    vram_cell joined = sinks ? vram_op_join(t, sum, VRAM_NO_CELL, wider, VRAM_WHAT_ATTENTION_SCORES) : sum, less = vram_op_shift(t, joined, VRAM_WHAT_ATTENTION_SCORES);
    vram_cell all = vram_op_softmax(t, less, VRAM_WHAT_ATTENTION_PROBABILITIES), keys = sinks ? vram_op_slice(t, all, t->cell[sum].shape, VRAM_WHAT_ATTENTION_PROBABILITIES) : all;
    vram_tape_hold(t, less);
    vram_tape_hold(t, all);
    return keys;
}

/* matmul, scaling, mask, softmax in fp32, dropout, matmul */
static vram_cell eager(const block *b, vram_cell q, vram_cell k, vram_cell v, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->heads, s = b->pass->tokens;
    vram_size scores = SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s);
    vram_size q_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, (double)a->head_dim), v_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, (double)a->v_head_dim);
    bool grouped = a->heads != a->kv_heads;
    bool copies = b->pass->batch > 1; /* a product of many sequences wants one view for all of them */
    vram_cell keys = !grouped ? k : copies ? vram_op_repeat(t, k, q_size, VRAM_WHAT_REPEATED_KEYS) : repeat_heads(b, k, q_size, VRAM_WHAT_REPEATED_KEYS);
    vram_cell values = !grouped ? v : copies ? vram_op_repeat(t, v, v_size, VRAM_WHAT_REPEATED_VALUES) : repeat_heads(b, v, v_size, VRAM_WHAT_REPEATED_VALUES);
    int narrow = b->style.masked && t->autocast ? 4 : vram_width(t, q); /* Falcon's are of the type of the layer's input, which LayerNorm makes fp32 */
    if (b->style.wide_scores) {
        q = vram_op_cast(t, q, 4, VRAM_WHAT_QUERY);
        keys = vram_op_cast(t, keys, 4, VRAM_WHAT_KEY);
    }
    vram_cell made = vram_op_matmul(t, q, keys, scores, VRAM_WHAT_ATTENTION_SCORES), scaled = b->style.named_scores ? made : vram_op_constant(t, made, 0, VRAM_WHAT_ATTENTION_SCORES);
    if (b->style.capped_scores) {
        vram_cell tanh = vram_op_unary(t, vram_op_constant(t, scaled, 0, VRAM_WHAT_ATTENTION_SCORES), false, true, 0, VRAM_WHAT_ATTENTION_SCORES);
        scaled = vram_op_constant(t, tanh, 0, VRAM_WHAT_ATTENTION_SCORES);
    }
    vram_cell sum = vram_op_masked(t, scaled, b->style.wide_bias ? 4 : vram_stream_width(b->pass), VRAM_WHAT_ATTENTION_SCORES);
    if (b->style.wide_bias) sum = vram_op_constant(t, sum, 0, VRAM_WHAT_ATTENTION_SCORES);
    vram_cell cast = a->sinks || b->style.shifted_scores ? sunk_probabilities(b, sum) : probabilities(b, sum, narrow);
    if (!b->style.wide_scores) vram_tape_hold(t, sum); /* else a name of their own for what softmax makes */
    if (b->style.named_scores) vram_tape_hold(t, made);
    if (b->style.wide_scores) vram_tape_hold(t, q);
    *weights = vram_op_dropout(t, cast, b->pass->attention_dropout, VRAM_WHAT_ATTENTION_PROBABILITIES);
    vram_cell y = vram_op_copy(t, vram_op_matmul(t, *weights, values, v_size, VRAM_WHAT_ATTENTION_OUTPUT), v_size, VRAM_WHAT_ATTENTION_OUTPUT);
    if (b->style.wide_bias) vram_tape_hold(t, sum); /* under a name of its own to the end */
    vram_tape_hold(t, keys);
    vram_tape_hold(t, values);
    return y;
}

/* q, k, v of one fused projection: slices (Phi-3), chunks of a transposed view (GPT-NeoX), a split (GPT-2) */
static void fused_qkv(const block *b, vram_cell x, vram_cell qkv[3])
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double d = (double)a->head_dim, rows = (double)(a->heads + 2 * a->kv_heads) * d;
    const vram_size size[3] = {heads_wide(b, VRAM_SYMBOL_HEADS, (double)a->heads, d), heads_wide(b, VRAM_SYMBOL_KV_HEADS, (double)a->kv_heads, d), heads_wide(b, VRAM_SYMBOL_KV_HEADS, (double)a->kv_heads, d)};
    vram_cell all = linear(b, x, vram_or_else(b->pass->model->names.qkv, "qkv_proj"), rows, (double)b->pass->model->hidden, wide(b, VRAM_SYMBOL_WIDTH, rows), VRAM_WHAT_FUSED_QKV);
    if (b->style.qkv == QKV_CHUNKED) all = vram_op_transposed(t, all);
    if (b->style.qkv != QKV_SLICED) vram_op_split(t, all, 3, size, qkv);
    for (int i = 0; b->style.qkv == QKV_COPIED && i < 3; i++) qkv[i] = vram_op_copy(t, qkv[i], size[i], VRAM_WHAT_VALUE);
    if (b->style.qkv != QKV_SLICED) return;
    static const vram_what whats[3] = {VRAM_WHAT_QUERY, VRAM_WHAT_KEY, VRAM_WHAT_VALUE};
    for (int i = 0; i < 3; i++) qkv[i] = vram_op_slice(t, all, size[i], whats[i]);
    for (int i = 0; i < 2; i++) qkv[i] = vram_op_transposed(t, qkv[i]);
    if (eager_attention(b->pass) || masked(b)) qkv[2] = vram_op_transposed(t, qkv[2]);
}

/* A norm over each head (Qwen 3, Gemma 3) or over all of them (OLMo 2) */
static vram_cell head_norm(const block *b, vram_cell x, vram_symbol symbol, double heads)
{
    const vram_attention *a = &b->layer->attention;
    double d = (double)a->head_dim;
    if (a->qk_norm == VRAM_QK_NORM_WIDTH) return norm_of(b, x, b->rows, heads * d);
    return norm_of(b, x, ROWS_BY(b, symbol, heads), d);
}

/* Zamba 2: y and a low-rank path beside the linear layer, if there is one */
static vram_cell with_side_path(const block *b, vram_cell x, vram_cell y, vram_part part, double rows, double columns)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors && b->style.shared_block; i++) {
        const vram_tensor *row = &m->tensor[i];
        if (row->kind != b->kind || row->part != part || strcmp(row->name, "0") != 0) continue;
        double rank = (double)row->rows;
        bool repeating = b->t->repeating;
        b->t->repeating = false; /* each layer's own */
        vram_cell low = linear(b, x, "0", rank, columns, wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_HIDDEN_STATES);
        vram_cell beside = linear(b, low, "1", rows, rank, b->t->cell[y].shape, VRAM_WHAT_HIDDEN_STATES);
        b->t->repeating = repeating;
        return vram_op_add(b->t, y, beside, (vram_what)b->t->cell[y].what);
    }
    return y;
}

/* *gate: the half of a doubled query projection that is copied out, to weigh attention's output (Qwen3-Next) */
static void separate_qkv(const block *b, vram_cell x, vram_cell qkv[3], vram_cell *gate)
{
    const vram_attention *a = &b->layer->attention;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double h = (double)(a->input > 0 ? a->input : b->pass->model->hidden), heads = (double)a->heads, kv = (double)a->kv_heads, d = (double)a->head_dim, v = (double)a->v_head_dim;
    bool ordered = (b->pass->model->position == VRAM_POSITION_ROTARY && !fused_kernels(b)) || eager_attention(b->pass);
    bool each = a->qk_norm != VRAM_QK_NORM_NONE && a->qk_norm != VRAM_QK_NORM_WIDTH && !b->style.norm_after_turn, width = a->qk_norm == VRAM_QK_NORM_WIDTH;
    vram_size kv_size = heads_wide(b, VRAM_SYMBOL_KV_HEADS, kv, d);
    for (int i = 0; i < 2; i++) {
        if (i && a->shares_cache) { /* made by an earlier layer, which holds them */
            qkv[1] = vram_tape_outside(t, kv_size, vram_width(t, qkv[0]), VRAM_WHAT_KEY);
            qkv[2] = vram_tape_outside(t, kv_size, vram_width(t, qkv[0]), VRAM_WHAT_VALUE);
            return;
        }
        double of = i ? kv : heads, twice = i == 0 && a->output_gate ? 2 : 1;
        vram_size size = i ? kv_size : heads_wide(b, VRAM_SYMBOL_HEADS, heads, d);
        vram_cell y = linear(b, x, i ? vram_or_else(n->k, "k_proj") : vram_or_else(n->q, "q_proj"), of * d * twice, h, i ? kv_size : heads_wide(b, VRAM_SYMBOL_HEADS, heads, d * twice), i ? VRAM_WHAT_KEY : VRAM_WHAT_QUERY);
        y = with_side_path(b, x, y, VRAM_PART_ATTENTION, of * d, h);
        if (twice > 1) {
            vram_cell half[2];
            vram_op_split(t, y, 2, (const vram_size[]){size, size}, half);
            y = half[0];
            *gate = vram_op_copy(t, half[1], size, VRAM_WHAT_GATE);
        }
        if (i && a->k_is_v) qkv[2] = y;
        if (i == 0 && b->style.scaled_query) y = vram_op_constant(t, y, 0, VRAM_WHAT_QUERY);
        if (width) y = head_norm(b, y, i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, of);
        if (ordered) y = vram_op_transposed(t, y);
        if (each) y = head_norm(b, y, i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, of);
        qkv[i] = y;
    }
    if (!a->k_is_v) qkv[2] = with_side_path(b, x, linear(b, x, vram_or_else(n->v, "v_proj"), kv * v, h, heads_wide(b, VRAM_SYMBOL_KV_HEADS, kv, v), VRAM_WHAT_VALUE), VRAM_PART_ATTENTION, kv * v, h);
    if (eager_attention(b->pass) || (masked(b) && a->heads != a->kv_heads)) qkv[2] = vram_op_transposed(t, qkv[2]);
    if (b->style.value_norm) qkv[2] = rms_norm(b, qkv[2], ROWS_BY(b, VRAM_SYMBOL_KV_HEADS, kv), v, false);
    if (a->gate_width > 0) *gate = linear(b, x, vram_or_else(n->attention_gate, "gate_proj"), (double)a->gate_width, h, wide(b, VRAM_SYMBOL_WIDTH, (double)a->gate_width), VRAM_WHAT_GATE);
}

static double rotary_part(const block *b)
{
    const vram_attention *a = &b->layer->attention;
    return (double)(a->rotary_dim > 0 ? a->rotary_dim : a->head_dim);
}

/* Rotation of pairs that lie side by side: q1 cos - q2 sin, q2 cos + q1 sin, joined; as complex numbers in fp32 in DeepSeek-V2 */
static vram_cell rotary_pairs(const block *b, vram_cell x, vram_size half)
{
    vram_tape *t = b->t;
    if (strcmp(b->pass->model->model_type, "deepseek_v2") == 0) return vram_op_cast(t, vram_op_constant(t, vram_op_cast(t, x, 4, VRAM_WHAT_ROTARY), 4, VRAM_WHAT_ROTARY), vram_width(t, x), VRAM_WHAT_ROTARY);
    vram_cell part[2] = {vram_op_slice(t, x, half, VRAM_WHAT_ROTARY), vram_op_slice(t, x, half, VRAM_WHAT_ROTARY)}, turned[2];
    int table = vram_stream_width(b->pass);
    for (int i = 0; i < 2; i++) {
        vram_cell first = vram_op_constant(t, part[i], table, VRAM_WHAT_ROTARY), second = vram_op_constant(t, part[1 - i], table, VRAM_WHAT_ROTARY);
        turned[i] = vram_op_add(t, first, second, VRAM_WHAT_ROTARY);
    }
    return vram_op_join(t, turned[0], turned[1], t->cell[x].shape, VRAM_WHAT_ROTARY);
}

/* DeepseekV32Indexer, without a graph: every head's score of every key, and each query's best keys. low: the queries' latent; names: what
 * lives to the end of attention */
static void sparse_index(const block *b, vram_cell x, vram_cell low, vram_cell names[3])
{
    const vram_attention *a = &b->layer->attention;
    static const vram_what scores_of = VRAM_WHAT_ATTENTION_SCORES;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, heads = (double)a->index_heads, d = (double)a->index_head_dim, s = b->pass->tokens, rope = (double)a->qk_rope_head_dim, best = vram_min((double)a->index_topk, s);
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, b->pass->batch};
    vram_size whole[2] = {heads_wide(b, VRAM_SYMBOL_HEADS, heads, d), heads_wide(b, VRAM_SYMBOL_HEADS, 1, d)}, turning[2] = {heads_wide(b, VRAM_SYMBOL_HEADS, heads, rope), heads_wide(b, VRAM_SYMBOL_HEADS, 1, rope)}, rest[2] = {heads_wide(b, VRAM_SYMBOL_HEADS, heads, d - rope), heads_wide(b, VRAM_SYMBOL_HEADS, 1, d - rope)};
    vram_size scores = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s), pairs = SIZE_3(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s), places = ROWS_BY(b, VRAM_SYMBOL_KEYS, best), spread = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s, VRAM_SYMBOL_WIDTH, d);
    t->no_grad = true;
    vram_cell all[2] = {linear(b, low, "wq_b", heads * d, (double)a->q_lora_rank, whole[0], VRAM_WHAT_QUERY), linear(b, x, "wk", d, h, whole[1], VRAM_WHAT_KEY)}, turned[2], joined[2];
    all[1] = vram_op_layer_norm(t, all[1], vector(b, d), vector(b, d), b->rows, VRAM_WHAT_KEY);
    for (int i = 0; i < 2; i++) turned[i] = rotary(b, vram_op_slice(t, all[i], turning[i], VRAM_WHAT_ROTARY), i ? 1 : heads, rope, VRAM_WHAT_ROTARY);
    for (int i = 0; i < 2; i++) joined[i] = vram_op_join(t, turned[i], vram_op_slice(t, all[i], rest[i], VRAM_WHAT_ROTARY), whole[i], i ? VRAM_WHAT_KEY : VRAM_WHAT_QUERY);
    vram_cell query = vram_op_cast(t, joined[0], 4, VRAM_WHAT_QUERY), key = vram_op_cast(t, joined[1], 4, VRAM_WHAT_KEY);
    if (b->pass->batch > 1) key = vram_op_copy(t, vram_op_cast(t, key, t->autocast ? 2 : 4, VRAM_WHAT_KEY), spread, VRAM_WHAT_KEY); /* for each query, as a product of many sequences wants it */
    vram_cell made = vram_op_matmul(t, query, key, scores, scores_of);
    vram_cell active = vram_op_unary(t, vram_op_constant(t, made, 0, scores_of), false, false, 0, scores_of);
    vram_cell weights = vram_op_cast(t, linear(b, x, "weights_proj", heads, h, wide(b, VRAM_SYMBOL_HEADS, heads), scores_of), 4, scores_of);
    vram_cell sum = vram_op_constant(t, vram_op_matmul(t, weights, active, pairs, scores_of), 0, scores_of), values = vram_op_gather(t, sum, places, scores_of);
    vram_cell order = vram_op_constant(t, vram_tape_outside(t, places, 8, scores_of), 0, scores_of);
    names[0] = vram_op_cast(t, order, 4, scores_of);
    const vram_cell held[] = {all[0], all[1], turned[0], turned[1], joined[0], joined[1], active, weights, sum, values};
    vram_part_hold(b, (int)(sizeof held / sizeof *held), held);
    t->no_grad = false;
}

/* The mask of the keys that the index, or that of an earlier layer, has left out */
static void index_mask(const block *b, vram_cell names[3])
{
    static const vram_what mask = VRAM_WHAT_CAUSAL_MASK;
    vram_tape *t = b->t;
    double s = b->pass->tokens;
    vram_size pairs = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s), places = names[0] >= 0 ? t->cell[names[0]].shape : b->rows;
    vram_cell ones = vram_op_constant(t, vram_tape_outside(t, pairs, 1, mask), 0, mask), wide_places = vram_op_constant(t, vram_tape_outside(t, places, 8, mask), 0, mask);
    names[1] = vram_op_constant(t, ones, 0, mask);
    vram_tape_hold(t, wide_places);
    vram_tape_hold(t, ones);
    bool is_eager = eager_attention(b->pass);
    vram_cell left = is_eager ? vram_tape_outside(t, pairs, vram_stream_width(b->pass), mask) : vram_op_constant(t, names[1], 0, mask);
    names[2] = vram_op_constant(t, left, 0, mask);
}

/* DeepseekV3Attention: queries through a low rank (or not), keys and values from one latent and one shared rotary key */
static vram_cell latent_attention(const block *b, vram_cell x, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, heads = (double)a->heads, nope = (double)a->qk_nope_head_dim, rope = (double)a->qk_rope_head_dim, v = (double)a->v_head_dim, rank = (double)a->kv_lora_rank, q_rank = (double)a->q_lora_rank;
    vram_size q_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, nope + rope), half = heads_wide(b, VRAM_SYMBOL_HEADS, heads, rope / 2), narrow = wide(b, VRAM_SYMBOL_WIDTH, rope);
    const vram_size q_parts[2] = {heads_wide(b, VRAM_SYMBOL_HEADS, heads, nope), heads_wide(b, VRAM_SYMBOL_HEADS, heads, rope)}, kv_parts[2] = {q_parts[0], heads_wide(b, VRAM_SYMBOL_HEADS, heads, v)}, low_parts[2] = {wide(b, VRAM_SYMBOL_RANK, rank), narrow};
    vram_cell in = x, q_part[2], kv_part[2], low_part[2];
    if (q_rank > 0) in = norm_of(b, linear(b, x, "q_a_proj", q_rank, h, wide(b, VRAM_SYMBOL_RANK, q_rank), VRAM_WHAT_QUERY), b->rows, q_rank);
    vram_cell q = vram_op_transposed(t, linear(b, in, q_rank > 0 ? "q_b_proj" : "q_proj", heads * (nope + rope), q_rank > 0 ? q_rank : h, q_size, VRAM_WHAT_QUERY));
    vram_op_split(t, q, 2, q_parts, q_part);
    vram_cell low = linear(b, x, "kv_a_proj_with_mqa", rank + rope, h, wide(b, VRAM_SYMBOL_RANK, rank + rope), VRAM_WHAT_KEY);
    vram_op_split(t, low, 2, low_parts, low_part);
    vram_cell latent = norm_of(b, low_part[0], b->rows, rank);
    vram_cell q_turned = rotary_pairs(b, q_part[1], half), k_turned = rotary_pairs(b, low_part[1], wide(b, VRAM_SYMBOL_WIDTH, rope / 2));
    vram_cell query = vram_op_join(t, q_part[0], q_turned, q_size, VRAM_WHAT_QUERY);
    vram_cell kv = vram_op_transposed(t, linear(b, latent, "kv_b_proj", heads * (nope + v), rank, heads_wide(b, VRAM_SYMBOL_HEADS, heads, nope + v), VRAM_WHAT_VALUE));
    vram_op_split(t, kv, 2, kv_parts, kv_part);
    vram_cell key = vram_op_join_copies(t, kv_part[0], k_turned, q_size, VRAM_WHAT_KEY);
    bool is_eager = eager_attention(b->pass);
    vram_cell index[3] = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL};
    if (a->index_heads > 0) sparse_index(b, x, in, index);
    if (b->style.indexed) index_mask(b, index);
    vram_cell y = is_eager ? eager(b, query, key, kv_part[1], weights) : sdpa(b, query, key, kv_part[1], false);
    vram_cell out = linear(b, y, "o_proj", h, heads * v, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    vram_part_hold(b, 3, index);
    const vram_cell names[] = {x, b->style.indexed ? in : VRAM_NO_CELL, q, low, latent, q_turned, k_turned, query, key, kv};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return out;
}

static vram_cell rotate(const block *b, vram_cell x, double heads, double head_dim, vram_what what)
{
    if (b->style.turn == TURN_JOINED) return rotary_joined(b, x, heads, head_dim, rotary_part(b), what);
    if (b->style.turn == TURN_COMPLEX && !fused_kernels(b)) return vram_op_cast(b->t, vram_op_constant(b->t, vram_op_cast(b->t, x, 4, VRAM_WHAT_ROTARY), 4, VRAM_WHAT_ROTARY), vram_width(b->t, x), what);
    if (b->style.turn == TURN_HALVES && !fused_kernels(b)) return rotary_halves(b, x, heads, head_dim, what);
    return rotary(b, x, heads, head_dim, what);
}

static bool windowed(const vram_model *m)
{
    bool any = false;
    for (int i = 0; i < m->kinds; i++) any |= m->kind[i].attention.window > 0;
    return any;
}

/* DiffLlamaAttention: each half of the value heads twice, an attention for each; of the two outputs side by side half the heads less the others
 * times a number, then an RMS norm in one kernel */
static vram_cell differential(const block *b, vram_cell q, vram_cell k, vram_cell v, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->heads, kv = (double)a->kv_heads, d = (double)a->v_head_dim;
    vram_size half = heads_wide(b, VRAM_SYMBOL_KV_HEADS, kv / 2, d), pair = heads_wide(b, VRAM_SYMBOL_HEADS, heads, d), both = heads_wide(b, VRAM_SYMBOL_HEADS, heads, 2 * d);
    vram_cell part[2], values[2], out[2], other, halves[2];
    vram_op_split(t, v, 2, (const vram_size[]){half, half}, part);
    for (int i = 0; i < 2; i++) values[i] = vram_op_repeat(t, part[i], t->cell[v].shape, VRAM_WHAT_VALUE);
    for (int i = 0; i < 2; i++) out[i] = eager_attention(b->pass) ? eager(b, q, k, values[i], i ? &other : weights) : sdpa(b, q, k, values[i], false);
    vram_cell all = vram_op_join(t, out[0], out[1], both, VRAM_WHAT_ATTENTION_OUTPUT);
    for (int i = 0; i < 2; i++) vram_tape_hold(t, out[i]);
    vram_op_split(t, all, 2, (const vram_size[]){pair, pair}, halves);
    vram_cell less = vram_op_add(t, halves[0], vram_op_mul_weight(t, vector(b, 1), halves[1], VRAM_WHAT_ATTENTION_OUTPUT), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell normed = vram_op_layer_norm(t, less, VRAM_NO_CELL, VRAM_NO_CELL, ROWS_BY(b, VRAM_SYMBOL_HEADS, heads / 2), VRAM_WHAT_NORM_OUTPUT), y = vram_op_constant(t, normed, 0, VRAM_WHAT_ATTENTION_OUTPUT);
    const vram_cell names[] = {all, values[0], values[1]};
    vram_part_hold(b, 3, names);
    return y;
}

/* LlamaAttention and its relatives; *weights: what eager attention returns beside */
static vram_cell attention(const block *b, vram_cell x, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    vram_cell qkv[3], turned[2], gate = VRAM_NO_CELL;
    double heads[2] = {(double)a->heads, (double)a->kv_heads}, d = (double)a->head_dim;
    static const vram_what whats[2] = {VRAM_WHAT_QUERY, VRAM_WHAT_KEY};
    bool is_eager = eager_attention(b->pass), rotates = b->pass->model->position == VRAM_POSITION_ROTARY && (a->window > 0 || !b->style.windows_turn || !windowed(b->pass->model)), joined = b->style.turn == TURN_JOINED;
    if (a->fused_qkv) fused_qkv(b, x, qkv);
    for (int i = 0; i < 2 && a->fused_qkv && a->qk_norm != VRAM_QK_NORM_NONE; i++) qkv[i] = head_norm(b, qkv[i], i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, heads[i]);
    if (!a->fused_qkv) separate_qkv(b, x, qkv, &gate);
    for (int i = 0; i < 2; i++)
        turned[i] = rotates && !(i && a->shares_cache) ? rotate(b, qkv[i], heads[i], d, whats[i]) : qkv[i];
    for (int i = 0; i < 2 && b->style.norm_after_turn && a->qk_norm != VRAM_QK_NORM_NONE; i++)
        turned[i] = b->style.unnamed_norm ? unnamed_rms_norm(b, turned[i], ROWS_BY(b, VRAM_SYMBOL_HEADS, heads[i]), 0) : head_norm(b, turned[i], i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, heads[i]);
    for (int i = 0; i < 2; i++) vram_tape_hold(t, qkv[i]);
    vram_cell y = b->style.differential ? differential(b, turned[0], turned[1], qkv[2], weights) : is_eager ? eager(b, turned[0], turned[1], qkv[2], weights) : sdpa(b, turned[0], turned[1], qkv[2], rotates && joined);
    if (gate >= 0) y = vram_op_mul(t, y, vram_op_unary(t, gate, false, true, 0, VRAM_WHAT_GATE), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_tape_hold(t, gate);
    if (b->style.sub_norms) y = norm_of(b, y, b->rows, heads[0] * d);
    vram_cell out = linear(b, y, vram_or_else(b->pass->model->names.o, "o_proj"), (double)b->pass->model->hidden, heads[0] * (double)a->v_head_dim, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    vram_cell dropped = vram_op_dropout(t, out, b->pass->dropout, VRAM_WHAT_ATTENTION_PROJECTION);
    const vram_cell held[] = {x, turned[0], turned[1], qkv[2]};
    vram_part_hold(b, 4, held);
    for (int i = 0; i < 2 && b->style.shares_keys && !a->shares_cache; i++) t->shared[i] = i ? qkv[2] : turned[1];
    return dropped;
}

/* ------------------------------------------------------------------------------------------------------------------ MLP -- */

/* Powers, exponentials and softplus run in fp32 under autocast. */
static vram_cell in_fp32(const block *b, vram_cell x) { return b->t->autocast ? vram_op_cast(b->t, x, 4, VRAM_WHAT_ACTIVATION) : x; }

/* 0.5 x (1 + tanh(c (x + 0.044715 x^3))), each operation a tensor */
static vram_cell new_gelu(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    vram_cell half = vram_op_constant(t, x, 0, VRAM_WHAT_ACTIVATION);
    vram_cell cube = vram_op_unary(t, in_fp32(b, x), true, false, 2, VRAM_WHAT_ACTIVATION);
    vram_cell inner = vram_op_constant(t, vram_op_add(t, x, vram_op_constant(t, cube, 0, VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION), 0, VRAM_WHAT_ACTIVATION);
    return vram_op_mul(t, half, vram_op_shift(t, vram_op_unary(t, inner, false, true, 0, VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION);
}

/* where(x > 0, alpha x x + beta x, (expm1(min(x, eps)) - x) alpha' + beta x) */
static vram_cell xielu(const block *b, vram_cell x)
{
    static const vram_what made = VRAM_WHAT_ACTIVATION;
    vram_tape *t = b->t;
    vram_cell positive = vram_op_constant(t, vram_tape_outside(t, t->cell[x].shape, 1, made), 1, made), scaled = vram_op_mul_weight(t, in_fp32(b, vector(b, 1)), x, made);
    vram_cell up = vram_op_add(t, vram_op_mul(t, scaled, x, made), vram_op_constant(t, x, 0, made), made);
    vram_cell least = vram_op_unary(t, in_fp32(b, vram_op_unary(t, x, true, false, 1, made)), false, true, 1, made), rest = vram_op_mul_weight(t, in_fp32(b, vector(b, 1)), vram_op_add(t, least, x, made), made);
    vram_cell y = vram_op_where(t, positive, up, vram_op_add(t, rest, vram_op_constant(t, x, 0, made), made), made);
    vram_tape_hold(t, x);
    return y;
}

static vram_cell activation(const block *b, vram_cell x)
{
    if (b->style.act == ACT_NEW_GELU) return new_gelu(b, x);
    if (b->style.act == ACT_RELU_SQUARED) {
        vram_cell kept = vram_op_unary(b->t, x, false, true, 0, VRAM_WHAT_ACTIVATION), y = vram_op_unary(b->t, in_fp32(b, kept), true, false, 2, VRAM_WHAT_ACTIVATION);
        vram_tape_hold(b->t, x);
        vram_tape_hold(b->t, kept);
        return y;
    }
    if (b->style.act == ACT_XIELU) return xielu(b, x);
    bool output = b->style.act == ACT_RELU;
    return vram_op_unary(b->t, x, !output, output, 0, VRAM_WHAT_ACTIVATION);
}

/* One kernel for act(gate) * up? Liger has it for every model. What runs on flash attention's own package (Unsloth's kernels, as they are or
 * in fms-acceleration; torchtitan's and torchtune's blocks) fuses norms and rotations, and the MLP only where each of its layers has an
 * adapter. Source: unsloth/models/llama.py (patch_peft_model); fms_acceleration_foak/models/llama.py (trigger_fused_ops) */
static bool fused_gate(const block *b)
{
    const vram_names *n = &b->pass->model->names;
    if (!fused_kernels(b) || b->pass->scenario->training.attention != VRAM_ATTENTION_FLASH) return fused_kernels(b);
    return adapter_rank(b, vram_or_else(n->gate, "gate_proj")) > 0 && adapter_rank(b, vram_or_else(n->up, "up_proj")) > 0 && adapter_rank(b, vram_or_else(n->down, "down_proj")) > 0;
}

/* GptOssExperts, MiniMax-M3: (clamp(up) + 1) * gate * sigmoid(alpha gate), gate clamped */
static vram_cell clamped_gate(const block *b, vram_cell wide_gate, vram_cell wide_up)
{
    vram_tape *t = b->t;
    vram_cell gate = vram_op_unary(t, wide_gate, true, false, 0, VRAM_WHAT_GATE), up = vram_op_unary(t, wide_up, true, false, 0, VRAM_WHAT_UP);
    vram_cell share = vram_op_unary(t, vram_op_constant(t, gate, 0, VRAM_WHAT_GATE), false, true, 0, VRAM_WHAT_GATE), active = vram_op_mul(t, gate, share, VRAM_WHAT_ACTIVATION);
    vram_cell y = vram_op_mul(t, vram_op_shift(t, up, VRAM_WHAT_UP), active, VRAM_WHAT_GATED);
    vram_tape_hold(t, gate);
    vram_tape_hold(t, up);
    vram_tape_hold(t, active);
    return y;
}

/* A clamp keeps what it has clamped. */
static vram_cell bounded(const block *b, vram_cell x, vram_what what) { return b->style.bounded ? vram_op_unary(b->t, x, true, false, 0, what) : x; }

static vram_cell gated(const block *b, vram_cell wide_gate, vram_cell wide_up)
{
    vram_cell gate = bounded(b, wide_gate, VRAM_WHAT_GATE), up = bounded(b, wide_up, VRAM_WHAT_UP);
    if (b->style.clamped) return clamped_gate(b, gate, up);
    if (fused_gate(b)) return vram_op_fused_gate(b->t, gate, up, VRAM_WHAT_GATED);
    vram_cell active = activation(b, gate);
    return b->style.act_second ? vram_op_mul(b->t, up, active, VRAM_WHAT_GATED) : vram_op_mul(b->t, active, up, VRAM_WHAT_GATED);
}

/* down(act(gate(x)) * up(x)), or down(act(up(x))) */
static vram_cell dense(const block *b, vram_cell x, double f, bool fused, const char *gate_up, const char *down)
{
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden;
    vram_size inner = wide(b, VRAM_SYMBOL_INTERMEDIATE, f);
    vram_cell product, whole = VRAM_NO_CELL, named[3] = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL};
    if (b->layer->ffn.type == VRAM_FFN_PLAIN) {
        product = activation(b, linear(b, x, vram_or_else(n->up, "up_proj"), f, h, inner, VRAM_WHAT_UP));
    } else if (fused) {
        vram_cell both = linear(b, x, gate_up, 2 * f, h, ROWS_BY_2(b, VRAM_SYMBOL_COPIES, 2, VRAM_SYMBOL_INTERMEDIATE, f), VRAM_WHAT_GATE_UP), half[2];
        both = with_side_path(b, x, both, VRAM_PART_MLP, 2 * f, h);
        vram_op_split(t, both, 2, (const vram_size[]){inner, inner}, half);
        if (fused_gate(b)) { /* the kernel wants each half in one piece; both have a name until the layer below has run */
            for (int i = 0; i < 2; i++) half[i] = vram_op_copy(t, half[i], inner, i ? VRAM_WHAT_UP : VRAM_WHAT_GATE);
            whole = both;
        }
        product = gated(b, half[0], half[1]);
    } else if (fused_gate(b)) {
        vram_cell gate = linear(b, x, vram_or_else(n->gate, "gate_proj"), f, h, inner, VRAM_WHAT_GATE);
        product = vram_op_fused_gate(t, gate, linear(b, x, vram_or_else(n->up, "up_proj"), f, h, inner, VRAM_WHAT_UP), VRAM_WHAT_GATED);
    } else {
        named[0] = bounded(b, linear(b, x, vram_or_else(n->gate, "gate_proj"), f, h, inner, VRAM_WHAT_GATE), VRAM_WHAT_GATE);
        if (!b->style.bounded) named[1] = activation(b, named[0]);
        named[2] = bounded(b, linear(b, x, vram_or_else(n->up, "up_proj"), f, h, inner, VRAM_WHAT_UP), VRAM_WHAT_UP);
        if (b->style.bounded) named[1] = activation(b, named[0]);
        product = vram_op_mul(t, named[1], named[2], VRAM_WHAT_GATED);
    }
    if (b->style.sub_norms) product = norm_of(b, product, b->rows, f);
    vram_cell y = linear(b, product, down, h, f, b->hidden, VRAM_WHAT_MLP_OUTPUT);
    if (b->style.altup) vram_part_hold(b, 3, named); /* Gemma3nTextMLP calls each by a name */
    if (b->style.bounded) vram_tape_hold(t, named[0]), vram_tape_hold(t, named[2]);
    vram_tape_hold(t, whole);
    vram_tape_hold(t, x);
    return y;
}

/* A router that is a parameter: peft folds its adapter into a new weight, W + B A (ParamWrapper) */
static vram_cell router_logits(const block *b, vram_cell x, const char *name, double experts, double h)
{
    double rank = adapter_rank(b, name);
    vram_size out = wide(b, VRAM_SYMBOL_EXPERTS, experts);
    if (rank <= 0 || b->layer->ffn.router_linear) return linear(b, x, name, experts, h, out, VRAM_WHAT_ROUTER_WEIGHTS);
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype);
    vram_cell folded = vram_op_matmul(b->t, matrix(b, experts, rank, width, true), matrix(b, rank, h, width, true), SIZE_2(b, VRAM_SYMBOL_EXPERTS, experts, VRAM_SYMBOL_HIDDEN, h), VRAM_WHAT_DORA_WEIGHT);
    return vram_op_linear(b->t, x, vram_op_cast(b->t, folded, vram_width(b->t, x), VRAM_WHAT_DORA_WEIGHT), VRAM_NO_CELL, out, VRAM_WHAT_ROUTER_WEIGHTS);
}

/* Router logits, softmax in fp32, the top k and their share of the sum */
static vram_cell router(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    const char *name = vram_or_else(b->pass->model->names.router, "gate");
    if (b->style.normed_router) x = vram_op_constant(t, vram_op_mul_weight(t, vector(b, (double)b->pass->model->hidden), rms_norm(b, x, b->rows, 0, false), VRAM_WHAT_NORM_OUTPUT), 0, VRAM_WHAT_NORM_OUTPUT);
    static const char *const wide_routers[] = {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "dots1", "kimi_k2", "kimi_linear", "longcat_flash", "axk1", "bailing_hybrid",
                                          "exaone_moe", "hunyuan_v1_moe", "hy_v3", "mimo_v2_flash", "nemotron_h", "solar_open", NULL};
    bool told = b->pass->scenario->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2 && b->pass->plain_width == 2 && strcmp(b->pass->model->model_type, "hunyuan_v1_moe") == 0; /* reads the type of its weight, which fully_shard has cast */
    bool wide_router = vram_model_is(b->pass->model, wide_routers) && !(b->pass->four_bit && b->layer->ffn.router_linear) && !told; /* a router that is packed knows no fp32 */
    vram_cell in = wide_router || strcmp(b->pass->model->model_type, "ernie4_5_moe") == 0 ? vram_op_cast(t, x, 4, VRAM_WHAT_ROUTER_WEIGHTS) : x;
    vram_cell logits = router_logits(b, in, name, (double)f->experts, (double)b->pass->model->hidden);
    if (b->style.clamped_experts) return vram_op_softmax(t, vram_op_gather(t, logits, wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_ROUTER_WEIGHTS);
    static const char *const softmaxes[] = {"deepseek_v2", "hunyuan_v1_moe", "hy_v3", "longcat_flash", NULL};
    bool sigmoid = wide_router && !vram_model_is(b->pass->model, softmaxes); /* in the type that autocast has computed the logits in */
    vram_cell all = sigmoid ? vram_op_unary(t, logits, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS) : vram_op_softmax(t, vram_op_cast(t, logits, 4, VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell top = vram_op_gather(t, all, wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_tape_hold(t, logits);
    static const char *const narrow[] = {"qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text", "olmoe", "flex_olmo", "jamba", "ernie4_5_moe", "gpt_oss", "cohere2_moe", "lfm2_moe", "granitemoe", "granitemoehybrid", "granitemoeshared", "hunyuan_v1_moe", NULL}; /* weights.to(the stream's type) */
    vram_cell share = vram_op_constant(t, top, 0, VRAM_WHAT_ROUTER_WEIGHTS);
    if (b->style.normed_router) share = vram_op_constant(t, share, 0, VRAM_WHAT_ROUTER_WEIGHTS);
    bool summed = t->autocast && strcmp(b->pass->model->model_type, "lfm2_moe") == 0; /* divided by a sum, which autocast makes in fp32 */
    return vram_model_is(b->pass->model, narrow) && !summed ? vram_op_cast(t, share, wide_router ? vram_width(t, logits) : vram_width(t, x), VRAM_WHAT_ROUTER_WEIGHTS) : share;
}

/* Expert parallelism: each rank has its own. Tokens travel to them, from all ranks as many as stay at home when experts are equally liked. */
static double experts_on_rank(const block *b) { return vram_ceil_div((double)b->layer->ffn.experts, (double)b->pass->scenario->parallel.expert); }

/* Stacked experts; peft folds their adapters into a whole new weight, W + B A, in the type of W (ParamWrapper, baddbmm) */
static vram_cell expert_matrix(const block *b, const char *name, double rows, double columns, vram_cell factors[2])
{
    factors[0] = factors[1] = VRAM_NO_CELL;
    vram_factor e = {VRAM_SYMBOL_EXPERTS, experts_on_rank(b)};
    const vram_tensor *row = row_of(b, name, false, true);
    double rank = b->pass->lora && row != NULL ? vram_lora_rank(b->pass->scenario, b->pass->model, row) : 0;
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype);
    if (rank > 0) {
        vram_cell left = vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_RANK, rank), width, b->pass->gradients);
        vram_cell right = vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_RANK, rank, VRAM_SYMBOL_WIDTH, columns), width, b->pass->gradients);
        factors[0] = vram_op_cast(b->t, left, b->pass->width, VRAM_WHAT_LORA_DOWN);
        factors[1] = vram_op_cast(b->t, right, b->pass->width, VRAM_WHAT_LORA_DOWN);
        return vram_op_matmul(b->t, factors[0], factors[1], SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), VRAM_WHAT_MERGED_EXPERTS);
    }
    return vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), b->pass->width, !b->pass->lora && b->pass->gradients);
}

/* A row of biases for each token and expert, added in place */
static vram_cell expert_bias(const block *b, double width, vram_size out)
{
    vram_size all = SIZE_2(b, VRAM_SYMBOL_EXPERTS, experts_on_rank(b), VRAM_SYMBOL_WIDTH, width);
    return vram_op_gather(b->t, vram_tape_parameter(b->t, all, b->pass->width, false), out, VRAM_WHAT_EXPERT_INPUTS);
}

static vram_cell gated_experts(const block *b, vram_cell both, vram_size inner)
{
    vram_cell half[2];
    if (b->style.clamped_experts) {
        for (int i = 0; i < 2; i++) half[i] = vram_op_slice(b->t, both, inner, VRAM_WHAT_GATE_UP);
        return clamped_gate(b, half[0], half[1]);
    }
    vram_op_split(b->t, both, 2, (const vram_size[]){inner, inner}, half);
    if (b->style.clamped) return clamped_gate(b, half[0], half[1]);
    if (b->style.bounded) return gated(b, half[0], half[1]);
    return vram_op_mul(b->t, activation(b, half[0]), half[1], VRAM_WHAT_GATED);
}

/* Does Liger have a kernel for this family's experts? Source: liger_kernel/transformers/monkey_patch.py (LigerExperts) */
static bool fused_experts(const block *b)
{
    static const char *const types[] = {"mixtral", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text", "hunyuan_v1_moe", "deepseek_v2", "deepseek_v3", NULL};
    return fused_kernels(b) && b->pass->scenario->training.attention != VRAM_ATTENTION_FLASH && vram_model_is(b->pass->model, types);
}

static vram_cell liger_experts(const block *b, vram_cell x, vram_cell routed)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, m = (double)f->expert_width;
    vram_factor share = {VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token};
    vram_expert_sizes sizes = {ROWS_BY(b, share.symbol, share.value), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_WIDTH, 2 * m), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_INTERMEDIATE, m), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_HIDDEN, h)};
    vram_cell weights = router(b, routed), factors[4], first = expert_matrix(b, "gate_up_proj", 2 * m, h, factors), second = expert_matrix(b, "down_proj", h, m, factors + 2);
    vram_cell y = vram_op_fused_experts(t, x, first, second, weights, &sizes);
    vram_tape_hold(t, first);
    vram_tape_hold(t, second);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, factors[i]);
    return y;
}

/* `routed`: what the router reads, x but for Gemma 4. Tokens copied expert by expert, one product for all experts, weighed in fp32, brought back and summed (transformers, integrations/moe.py) */
static vram_cell experts(const block *b, vram_cell x, vram_cell routed)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, k = (double)f->experts_per_token * vram_expert_tokens(b->pass->scenario), m = (double)f->expert_width;
    vram_factor share = {VRAM_SYMBOL_EXPERTS_PER_TOKEN, k};
    vram_size inner = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_INTERMEDIATE, m), both_size = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_WIDTH, 2 * m), outer = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_HIDDEN, h);
    vram_cell weights = router(b, routed), factors[4], bias = VRAM_NO_CELL;
    bool biased = b->style.clamped_experts, plain = f->type == VRAM_FFN_PLAIN;
    double wide_inner = plain ? m : 2 * m;
    vram_cell chosen = vram_op_gather(t, x, outer, VRAM_WHAT_EXPERT_INPUTS);
    if (biased) bias = expert_bias(b, 2 * m, both_size);
    vram_cell first = expert_matrix(b, plain ? "up_proj" : "gate_up_proj", wide_inner, h, factors), both = vram_op_grouped(t, chosen, first, plain ? inner : both_size, VRAM_WHAT_GATE_UP);
    vram_cell product = plain ? activation(b, both) : gated_experts(b, both, inner);
    vram_tape_hold(t, both);
    if (biased) {
        vram_cell next = expert_bias(b, h, outer);
        vram_tape_hold(t, bias);
        bias = next;
    }
    vram_cell second = expert_matrix(b, "down_proj", h, m, factors + 2), each = vram_op_grouped(t, product, second, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell weighed = vram_op_mul_rows(t, each, weights, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell ordered = vram_op_gather(t, weighed, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell sum = vram_op_sum(t, ordered, b->hidden, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell y = vram_op_cast(t, sum, vram_width(t, x), VRAM_WHAT_MLP_OUTPUT);
    const vram_cell held[] = {chosen, each, bias, ordered, sum, first, second};
    vram_part_hold(b, 7, held);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, factors[i]);
    return y;
}

/* Llama4TextMoe: a copy of all tokens for each expert, times the router's sigmoid, which is 0 for all but the top k */
static vram_cell every_expert(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, m = (double)f->expert_width;
    vram_factor e = {VRAM_SYMBOL_EXPERTS, (double)f->experts};
    vram_size inner = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_INTERMEDIATE, m), both_size = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, 2 * m), outer = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_HIDDEN, h), scores_size = ROWS_BY(b, e.symbol, e.value);
    vram_cell logits = linear(b, x, vram_or_else(n->router, "router"), (double)f->experts, h, scores_size, VRAM_WHAT_ROUTER_WEIGHTS), half[2], factors[4];
    vram_cell top = vram_op_gather(t, logits, wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell spread = vram_op_cast(t, vram_op_gather(t, top, scores_size, VRAM_WHAT_ROUTER_WEIGHTS), 4, VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell scores = vram_op_cast(t, vram_op_unary(t, spread, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS), vram_width(t, x), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell in = vram_op_mul_rows(t, vram_op_repeat(t, x, outer, VRAM_WHAT_EXPERT_INPUTS), scores, VRAM_WHAT_EXPERT_INPUTS);
    vram_cell first = expert_matrix(b, "gate_up_proj", 2 * m, h, factors), both = vram_op_matmul(t, in, first, both_size, VRAM_WHAT_GATE_UP);
    vram_op_split(t, both, 2, (const vram_size[]){inner, inner}, half);
    vram_cell second = expert_matrix(b, "down_proj", h, m, factors + 2), each = vram_op_matmul(t, gated(b, half[0], half[1]), second, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_tape_hold(t, both);
    vram_cell shared = dense(b, x, (double)f->shared_width, f->shared_fused, vram_or_else(n->shared_gate_up, "gate_up_proj"), vram_or_else(n->shared_down, "down_proj"));
    vram_cell y = vram_op_add(t, shared, vram_op_sum(t, each, b->hidden, VRAM_WHAT_EXPERT_OUTPUTS), VRAM_WHAT_MLP_OUTPUT);
    const vram_cell names[] = {x, logits, scores, in, each, first, second, factors[0], factors[1], factors[2], factors[3]};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}

static vram_cell shared_expert(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    return f->shared_width > 0 ? dense(b, x, (double)f->shared_width, f->shared_fused, vram_or_else(n->shared_gate_up, "gate_up_proj"), vram_or_else(n->shared_down, "down_proj")) : VRAM_NO_CELL;
}

static vram_cell mlp(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    bool first = b->style.shared_first && f->experts > 0;
    if (f->experts > 0 && b->style.every_expert) return every_expert(b, x);
    vram_cell y = VRAM_NO_CELL, shared = first ? shared_expert(b, x) : VRAM_NO_CELL;
    if (f->experts > 0) y = fused_experts(b) ? liger_experts(b, x, x) : experts(b, x, x);
    else if (f->width > 0) y = dense(b, x, (double)f->width, f->fused_gate_up, vram_or_else(n->gate_up, "gate_up_proj"), vram_or_else(n->down, "down_proj"));
    if (!first) shared = shared_expert(b, x);
    if (shared >= 0 && f->shared_gate) {
        vram_cell weight = linear(b, x, "shared_expert_gate", 1, (double)b->pass->model->hidden, b->rows, VRAM_WHAT_ROUTER_WEIGHTS);
        shared = vram_op_mul_rows(b->t, shared, vram_op_unary(b->t, weight, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_MLP_OUTPUT);
    }
    if (shared >= 0) y = y < 0 ? shared : vram_op_add(b->t, y, shared, VRAM_WHAT_MLP_OUTPUT);
    vram_tape_hold(b->t, x);
    if (first) vram_tape_hold(b->t, shared);
    return vram_op_dropout(b->t, y, b->pass->dropout, VRAM_WHAT_MLP_OUTPUT);
}

/* --------------------------------------------------------------------------------------------------------------- pieces -- */

static double or_config(double given, double config) { return given >= 0 ? given : config; }

/* Gemma 3n and 4: each of these layers puts its keys and values into a dict that all layers are given. Source: kv_sharing_modes ("store"),
 * of models/gemma4/configuration_gemma4.py */
static void note_sharing(vram_pass *pass)
{
    const vram_model *m = pass->model;
    pass->sharing[0] = pass->sharing[1] = -1;
    for (int64_t i = 0; i < m->layers && style_of(m).shares_keys; i++) {
        const vram_attention *a = &m->kind[m->layer_kind[i]].attention;
        if (!a->shares_cache) pass->sharing[a->window > 0] = i;
    }
}

vram_pass vram_pass_of(const vram_scenario *s, const vram_model *model, double batch, double tokens, bool gradients)
{
    bool lora = s->training.method == VRAM_METHOD_LORA, wide_weights = vram_trains_fp32(s);
    bool gathered = s->training.precision == VRAM_PRECISION_AMP && vram_shares_weights(s);
    if (gathered) wide_weights = false; /* fp32 shards are gathered in 16 bit */
    const vram_format_row *stored = vram_format_get(s->weights);
    vram_pass pass = {.scenario = s, .model = model, .batch = batch, .tokens = vram_ceil_div(tokens, (double)s->parallel.context), .lora = lora, .gradients = gradients, .gradient_share = 1};
    pass.four_bit = lora && (s->weights == VRAM_FORMAT_NF4 || s->weights == VRAM_FORMAT_NF4_DQ);
    pass.width = lora ? (stored->scheme == VRAM_SCHEME_NONE && stored->block_bytes / stored->block == 4 ? 4 : 2) : wide_weights ? 4 : 2;
    pass.plain_width = pass.width; /* prepare_kbit: measured steps, on a card and on the stand-in, keep embeddings, norms and head in 16 bit */
    pass.input_gradient = gradients && (!lora || s->training.checkpointing == VRAM_CHECKPOINTING_FULL);
    pass.stage = vram_stage_of(s, model);
    pass.workspace = 8519680; /* cuBLAS ":4096:2:16:8": 2 x 4 MiB + 8 x 16 KiB */
    pass.dropout = gradients ? or_config(s->training.dropout, model->resid_dropout) : 0;
    pass.attention_dropout = gradients ? or_config(s->training.dropout, model->attention_dropout) : 0;
    pass.embedding_dropout = gradients ? or_config(s->training.dropout, model->embedding_dropout) : 0;
    note_sharing(&pass);
    return pass;
}

double vram_words_on_rank(const vram_pass *pass) { return vram_ceil_div((double)pass->model->vocab, (double)pass->scenario->parallel.tensor); }

double vram_stream_tokens(const vram_pass *pass)
{
    const vram_scenario *s = pass->scenario;
    return vram_ceil_div(pass->tokens, s->parallel.sequence ? (double)s->parallel.tensor : 1);
}

/* Under autocast Gemma 3n's magnitudes, squares and means, are in fp32, and with them all that is multiplied by them. */
int vram_stream_width(const vram_pass *pass)
{
    const style s = style_of(pass->model);
    return s.wide_stream || (pass->scenario->training.autocast && s.altup) ? 4 : pass->plain_width;
}

/* A table that is embedding and head: its two gradients meet when backward has come to the embedding. */
bool vram_is_tied(const vram_pass *pass) { return pass->model->tied && !pass->lora && pass->gradients && pass->head != VRAM_HEAD_VALUE; }

static vram_cell table_of(const block *b, vram_symbol symbol, double rows)
{
    return vram_tape_parameter(b->t, SIZE_2(b, symbol, rows, VRAM_SYMBOL_HIDDEN, (double)b->pass->model->hidden), b->pass->plain_width, b->pass->gradients && !b->pass->lora);
}

/* Words of the table whose gradient backward makes: DTensor has no rule for rows divided over ranks, so that of the whole table is made on
 * each, and a rank's own is a view of it (torch/distributed/tensor/_ops/_embedding_ops.py, embedding_dense_backward_strategy). */
static double words_of_gradient(const vram_pass *pass) { return vram_is_fsdp(pass->scenario) ? (double)pass->model->vocab : vram_words_on_rank(pass); }

/* With checkpoints a frozen embedding's output is made to require a gradient: a leaf, which the graph holds (enable_input_require_grads). */
static void keep_leaf(const block *b, vram_cell leaf)
{
    if (!b->pass->lora || !b->pass->input_gradient) return;
    b->t->cell[leaf].cached = false;
    b->t->cell[leaf].last_use = -1;
}

/* ------------------------------------------------------------------------------------------------------- Gemma 3n -- */

static double rows_of(const block *b, const char *name)
{
    const vram_tensor *row = row_of(b, name, false, false);
    return row != NULL ? (double)row->rows : 1;
}

static double streams_of(const block *b)
{
    for (int i = 0; i < b->pass->model->tensors; i++)
        if (strcmp(b->pass->model->tensor[i].name, "correction_coefs") == 0) return (double)b->pass->model->tensor[i].rows;
    return 1;
}

static vram_size stream_size(const block *b) { return b->style.hyper ? vram_v4_stream_size(b) : b->style.altup ? ROWS_BY_2(b, VRAM_SYMBOL_COPIES, streams_of(b), VRAM_SYMBOL_HIDDEN, (double)b->pass->model->hidden) : b->stream; }

static vram_cell magnitude(const block *b, vram_cell x)
{
    return vram_op_rsqrt(b->t, vram_op_mean(b->t, vram_op_square(b->t, in_fp32(b, x)), b->rows));
}

/* x as large as the first stream: a linear layer, times that one's magnitude, over its own */
static vram_cell as_large(const block *b, vram_cell x, vram_cell target, int number)
{
    const char name[2] = {(char)('0' + number), '\0'};
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden;
    vram_cell y = linear(b, x, name, h, h, b->hidden, VRAM_WHAT_HIDDEN_STATES), own = magnitude(b, y);
    return vram_op_mul_rows(t, vram_op_mul_rows(t, y, target, VRAM_WHAT_HIDDEN_STATES), own, VRAM_WHAT_HIDDEN_STATES);
}

/* The tensor of the model's that has no layer of its own */
static const vram_tensor *single(const block *b, const char *name)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind < 0 && strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    return NULL;
}

/* Some numbers for every token and layer (Gemma 3n, small Gemma 4), or 0 */
static vram_size layer_inputs_size(const block *b, double *wide_inputs)
{
    const vram_tensor *projection = single(b, "per_layer_model_projection");
    *wide_inputs = projection != NULL ? (double)projection->rows : 0;
    return ROWS_BY(b, VRAM_SYMBOL_WIDTH, *wide_inputs);
}

static bool layer_inputs_trained(const block *b)
{
    const vram_pass *p = b->pass;
    return p->gradients && (!p->lora || p->input_gradient || vram_lora_rank(p->scenario, p->model, single(b, "per_layer_model_projection")) > 0);
}

/* A table's, and a projection of the words' beside, which the layers keep */
static void layer_inputs(const block *b, vram_cell words)
{
    vram_tape *t = b->t;
    double wide_inputs, layers = (double)b->pass->model->layers, h = (double)b->pass->model->hidden;
    vram_size all = layer_inputs_size(b, &wide_inputs), each = ROWS_BY(b, VRAM_SYMBOL_LAYERS, layers);
    if (wide_inputs <= 0) return;
    const vram_tensor *rows = single(b, "embed_tokens_per_layer");
    vram_size places = SIZE_2(b, VRAM_SYMBOL_VOCABULARY, (double)rows->rows, VRAM_SYMBOL_WIDTH, wide_inputs);
    vram_cell table = vram_tape_parameter(t, places, b->pass->plain_width, b->pass->gradients && !b->pass->lora);
    vram_cell inputs = vram_op_constant(t, vram_op_embedding(t, table, all, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell scaled = vram_op_constant(t, linear(b, words, "per_layer_model_projection", wide_inputs, h, all, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell both = vram_op_constant(t, vram_op_add(t, norm_of(b, scaled, each, wide_inputs / layers), inputs, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, inputs);
    t->cell[both].last_use = -1;
    if (layer_inputs_trained(b)) t->aside = both;
}

/* A layer's own, a view: its gradient is as large as all layers' */
static vram_cell layer_input(const block *b, vram_size narrow)
{
    double wide_inputs;
    vram_size all = layer_inputs_size(b, &wide_inputs);
    vram_cell inputs = vram_tape_outside(b->t, all, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    b->t->cell[inputs].grad = b->t->cell[inputs].summed = layer_inputs_trained(b);
    return vram_op_slice(b->t, inputs, narrow, VRAM_WHAT_HIDDEN_STATES);
}

/* Gemma 4, small: x, times its way to a few numbers that are weighed by the layer's inputs and brought back */
static vram_cell with_layer_input(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    const vram_tensor *row = row_of(b, "per_layer_input_gate", false, false);
    if (row == NULL) return x;
    double p = (double)row->rows, h = (double)b->pass->model->hidden;
    vram_size narrow = wide(b, VRAM_SYMBOL_WIDTH, p);
    vram_cell inputs = layer_input(b, narrow), gate = activation(b, linear(b, x, "per_layer_input_gate", p, h, narrow, VRAM_WHAT_GATE));
    vram_cell y = vram_op_add(t, x, norm(b, linear(b, vram_op_mul(t, gate, inputs, VRAM_WHAT_GATED), "per_layer_projection", h, p, b->hidden, VRAM_WHAT_HIDDEN_STATES)), VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, x);
    return y;
}

/* The words as the first stream, and projections of them */
static vram_cell stream_embeddings(const block *b, vram_cell words)
{
    vram_tape *t = b->t;
    vram_cell list[VRAM_TAPE_INS] = {words};
    int n = (int)vram_min(streams_of(b), VRAM_TAPE_INS);
    vram_cell target = magnitude(b, words);
    for (int i = 1; i < n; i++) list[i] = as_large(b, words, target, i - 1);
    vram_cell y = vram_op_join_all(t, n, list, stream_size(b), VRAM_WHAT_HIDDEN_STATES);
    for (int i = 0; i < n; i++) name(b, list[i]);
    return y;
}

static vram_cell mean_stream(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    vram_cell list[VRAM_TAPE_INS] = {vram_op_slice(t, x, b->hidden, VRAM_WHAT_HIDDEN_STATES)};
    int n = (int)vram_min(streams_of(b), VRAM_TAPE_INS);
    vram_cell target = magnitude(b, list[0]);
    for (int i = 1; i < n; i++) list[i] = as_large(b, vram_op_slice(t, x, b->hidden, VRAM_WHAT_HIDDEN_STATES), target, i - 1);
    vram_cell y = vram_op_sum(t, vram_op_join_all(t, n, list, stream_size(b), VRAM_WHAT_HIDDEN_STATES), b->hidden, VRAM_WHAT_HIDDEN_STATES);
    for (int i = 0; i < n; i++) vram_tape_hold(t, list[i]);
    return y;
}

static vram_cell modalities(const block *b, vram_cell x, double n)
{
    vram_cell in = vram_op_constant(b->t, norm(b, x), 0, VRAM_WHAT_NORM_OUTPUT);
    return vram_op_unary(b->t, linear(b, in, "modality_router", n, (double)b->pass->model->hidden, wide(b, VRAM_SYMBOL_WIDTH, n), VRAM_WHAT_ROUTER_WEIGHTS), false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS);
}

/* Gemma3nTextDecoderLayer: all streams predicted from all, one of them through the layer beside a low-rank path, all corrected by what came of
 * it; that one, weighed by the layer's own inputs, is added to the others. */
static vram_cell altup_layer(const block *b, vram_cell x, vram_cell *weights)
{
    static const vram_what made = VRAM_WHAT_HIDDEN_STATES;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, n = streams_of(b), p = rows_of(b, "per_layer_input_gate"), rank = rows_of(b, "linear_left");
    vram_size streams = t->cell[x].shape, narrow = wide(b, VRAM_SYMBOL_WIDTH, p);
    vram_cell coefs = linear(b, modalities(b, vram_op_slice(t, x, b->hidden, made), n), "prediction_coefs", n * n, n, wide(b, VRAM_SYMBOL_WIDTH, n * n), made);
    vram_cell predictions = vram_op_cast(t, vram_op_copy(t, vram_op_matmul(t, x, coefs, streams, made), streams, made), vram_width(t, x), made), active = vram_op_slice(t, predictions, b->hidden, made);
    vram_cell normed = norm(b, active), low = linear(b, normed, "linear_left", rank, h, wide(b, VRAM_SYMBOL_RANK, rank), made);
    vram_cell laurel = vram_op_add(t, normed, norm(b, linear(b, low, "linear_right", h, rank, b->hidden, made)), made), attended = norm(b, attention(b, normed, weights));
    vram_cell gated_sum = vram_op_add(t, active, attended, made), both = vram_op_constant(t, vram_op_add(t, gated_sum, laurel, made), 0, made);
    vram_cell fed = norm(b, mlp(b, norm(b, both))), sum = vram_op_add(t, both, fed, made), modes = modalities(b, sum, n);
    vram_cell innovation = vram_op_repeat(t, vram_op_add(t, sum, active, made), streams, made);
    vram_cell shares = vram_op_shift(t, linear(b, modes, "correction_coefs", n, n, wide(b, VRAM_SYMBOL_WIDTH, n), made), made);
    vram_cell corrected = vram_op_add_in_place(t, vram_op_mul_rows(t, innovation, shares, made), predictions, made);
    vram_cell first = vram_op_mul_weight(t, vector(b, h), vram_op_copy(t, vram_op_slice(t, corrected, b->hidden, made), b->hidden, made), made);
    vram_cell gate = activation(b, linear(b, first, "per_layer_input_gate", p, h, narrow, VRAM_WHAT_GATE)), inputs = layer_input(b, narrow);
    vram_cell back = norm(b, linear(b, vram_op_mul(t, gate, inputs, made), "per_layer_projection", h, p, b->hidden, made));
    vram_cell y = vram_op_add_in_place(t, corrected, back, made);
    const vram_cell names[] = {predictions, normed, laurel, attended, gated_sum, both, fed, sum, back};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}

/* words, and positions where they are learned */
void vram_block_embedding(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_embedding(pass, t); return; }
    block b;
    begin(pass, t, -1, &b);
    int width = pass->plain_width;
    vram_cell words = vram_op_embedding(t, table_of(&b, VRAM_SYMBOL_VOCABULARY, words_of_gradient(pass)), b.hidden, width, VRAM_WHAT_HIDDEN_STATES), y = words;
    if (b.style.scaled_embedding) y = vram_op_constant(t, y, 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell leaf = b.style.norm == NORM_GEMMA || b.style.norm == NORM_GEMMA_4 ? y : words; /* Gemma's embeddings scale themselves */
    if (pass->lora && pass->input_gradient) t->cell[leaf].grad = true; /* enable_input_require_grads */
    if (b.style.embedding_norm || pass->model->embedding_norm) {
        y = norm(&b, y);
        name(&b, words);
    }
    if (pass->model->position == VRAM_POSITION_LEARNED) {
        vram_size places = b.style.positions_apart ? b.hidden : SIZE_2(&b, VRAM_SYMBOL_SEQUENCE, pass->tokens, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
        vram_cell position = vram_op_embedding(t, table_of(&b, VRAM_SYMBOL_ROWS, (double)pass->model->position_rows), places, width, VRAM_WHAT_HIDDEN_STATES);
        y = vram_op_add(t, words, position, VRAM_WHAT_HIDDEN_STATES);
        y = vram_op_dropout(t, y, pass->embedding_dropout, VRAM_WHAT_HIDDEN_STATES);
        name(&b, position);
        name(&b, words);
    }
    if (b.style.shared_block) { /* torch.clone(inputs_embeds) */
        vram_cell originals = vram_op_copy(t, y, b.hidden, VRAM_WHAT_HIDDEN_STATES);
        t->cell[originals].last_use = -1;
        if (pass->scenario->training.checkpointing == VRAM_CHECKPOINTING_NONE) name(&b, originals);
    }
    layer_inputs(&b, y);
    if (b.style.altup) y = stream_embeddings(&b, words);
    if (b.style.hyper) {
        y = vram_v4_embeddings(&b, words);
        name(&b, words);
    }
    t->named = !t->cell[words].cached;
    keep_leaf(&b, leaf);
    finish(&b, scatter(&b, y));
}

static vram_cell residual(const block *b, vram_cell x, vram_cell y)
{
    vram_cell scaled = b->style.scaled_residual ? vram_op_constant(b->t, y, 0, VRAM_WHAT_HIDDEN_STATES) : y;
    vram_cell sum = vram_op_add(b->t, x, scaled, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(b->t, y);
    return sum;
}

/* Attention and MLP read the same input: each with a norm of its own (GPT-NeoX), or one for both */
static vram_cell parallel_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    vram_tape *t = b->t;
    vram_cell normed = gather(b, norm(b, x));
    vram_cell attended = scatter(b, attention(b, normed, weights));
    vram_cell fed = scatter(b, mlp(b, b->style.two_norms || b->layer->norms > 1 ? gather(b, norm(b, x)) : normed));
    vram_cell sum = vram_op_add(t, fed, attended, VRAM_WHAT_HIDDEN_STATES);
    vram_cell y = vram_op_add(t, sum, x, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, attended);
    vram_tape_hold(t, fed);
    return y;
}

/* Attention, a state-space mixer, or both on one input, each of them scaled (Falcon-H1) */
static vram_cell token_mixer(const block *b, vram_cell x, vram_cell *weights)
{
    vram_tape *t = b->t;
    bool softmax = b->layer->attention.type != VRAM_MIXER_NONE;
    if (!vram_mixer_known(&b->layer->state)) return b->layer->attention.type == VRAM_MIXER_MLA ? latent_attention(b, x, weights) : attention(b, x, weights);
    vram_cell mixed = vram_mixer_write(b, x);
    if (!softmax) return mixed;
    mixed = vram_op_constant(t, mixed, 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell attended = vram_op_constant(t, attention(b, vram_op_constant(t, x, 0, VRAM_WHAT_HIDDEN_STATES), weights), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell sum = vram_op_add(t, mixed, attended, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, mixed);
    vram_tape_hold(t, attended);
    vram_tape_hold(t, x);
    return sum;
}

static vram_cell mixed(const block *b, vram_cell x, vram_cell *weights) { return scatter(b, token_mixer(b, gather(b, x), weights)); }
static vram_cell fed_forward(const block *b, vram_cell x) { return scatter(b, mlp(b, gather(b, x))); }

/* An MLP and experts on one residual stream, each with its norms, the router with another (Gemma 4's mixture) */
static vram_cell mlp_beside_experts(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    vram_cell first = norm(b, dense(b, norm(b, x), (double)f->width, f->fused_gate_up, vram_or_else(n->gate_up, "gate_up_proj"), vram_or_else(n->down, "down_proj")));
    vram_cell second = norm(b, experts(b, norm(b, x), x)), sum = vram_op_add(t, first, second, VRAM_WHAT_MLP_OUTPUT);
    vram_cell y = norm(b, sum);
    const vram_cell names[] = {first, second};
    vram_part_hold(b, 2, names);
    return y;
}

static vram_cell weighed_sum(const block *b, vram_cell x, vram_cell y)
{
    vram_cell sum = vram_op_add(b->t, vram_op_constant(b->t, x, 0, VRAM_WHAT_HIDDEN_STATES), vram_op_constant(b->t, y, 0, VRAM_WHAT_HIDDEN_STATES), VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(b->t, x);
    vram_tape_hold(b->t, y);
    return sum;
}

static vram_cell normed_residual_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    vram_cell in = norm(b, x), middle = weighed_sum(b, in, mixed(b, in, weights)), next = norm(b, middle);
    vram_cell y = weighed_sum(b, next, fed_forward(b, next));
    return y;
}

/* ZambaHybridLayer: attention and MLP, without a residual, of the input and the words' embeddings side by side; brought back by a linear layer
 * and added to the mixer's input. The gradient of the embeddings is what the other layers have given to it, too. */
static vram_cell with_shared_block(const block *b, vram_cell x, vram_cell *weights, vram_cell *name)
{
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, in = (double)b->layer->attention.input;
    vram_cell words = vram_tape_outside(t, b->hidden, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    t->cell[words].grad = t->cell[words].summed = t->cell[x].grad && (!b->pass->lora || b->pass->input_gradient);
    vram_cell both = vram_op_join(t, x, words, wide(b, VRAM_SYMBOL_WIDTH, in), VRAM_WHAT_HIDDEN_STATES);
    t->repeating = b->layer->shared_blocks > 0 && !b->pass->lora; /* adapters are each layer's own */
    vram_cell fed = mlp(b, norm(b, attention(b, norm_of(b, both, b->rows, in), weights)));
    t->repeating = false;
    *name = linear(b, fed, "linear", h, h, b->hidden, VRAM_WHAT_HIDDEN_STATES);
    return vram_op_add(t, x, *name, VRAM_WHAT_HIDDEN_STATES);
}

/* Norms before, after, or before and after attention and MLP; a layer may be one of the two (Mamba, Nemotron-H) */
static vram_cell serial_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    if (b->style.shared_block && b->layer->attention.type != VRAM_MIXER_NONE) {
        vram_cell beside, y = residual(b, x, vram_mixer_write(b, norm(b, with_shared_block(b, x, weights, &beside))));
        vram_tape_hold(b->t, beside);
        return y;
    }
    if (b->style.normed_residual) return normed_residual_blocks(b, x, weights);
    bool after = b->layer->post_norms, before = !after || b->layer->norms >= 4, mixes = b->layer->attention.type != VRAM_MIXER_NONE || vram_mixer_known(&b->layer->state), feeds = b->layer->ffn.type != VRAM_FFN_NONE;
    if (mixes && !feeds) return residual(b, x, mixed(b, norm(b, vram_op_cast(b->t, x, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES)), weights));
    if (!mixes && b->layer->norms == 1) return residual(b, x, fed_forward(b, norm(b, vram_op_cast(b->t, x, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES))));
    vram_cell attended = mixed(b, before ? norm(b, x) : x, weights);
    if (after) attended = norm(b, attended);
    vram_cell middle = residual(b, x, attended);
    if (b->layer->norms == 7) {
        vram_cell both = residual(b, middle, mlp_beside_experts(b, middle));
        vram_tape_hold(b->t, middle);
        return both;
    }
    vram_cell fed = fed_forward(b, before ? norm(b, middle) : middle);
    if (after || b->layer->norms == 3) fed = norm(b, fed); /* A.X K1: one more behind the experts */
    vram_cell y = residual(b, middle, fed);
    vram_tape_hold(b->t, middle);
    if (b->style.named_attention) vram_tape_hold(b->t, attended);
    return y;
}

/* bitsandbytes hands its product on in the type of its input, and under autocast LayerNorm's output is fp32: so is then what an MLP adds to the
 * stream, behind the first layer. Source: bitsandbytes/nn/modules.py (Linear4bit.forward) */
static int carried_width(const vram_pass *pass)
{
    vram_norm_type norm_type = pass->model->norm;
    style family = style_of(pass->model);
    bool layer_norm = (norm_type == VRAM_NORM_LAYER || norm_type == VRAM_NORM_LAYER_BIAS || norm_type == VRAM_NORM_LAYER_BARE) && !family.written_norm && !family.wide_norm && !family.narrow_norm;
    bool wide = layer_norm || family.differential || (family.act != ACT_KERNEL && family.act != ACT_RELU); /* activations written out, too */
    return pass->four_bit && wide && pass->scenario->training.autocast && !pass->no_autocast ? 4 : vram_stream_width(pass);
}

void vram_block_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_layer(pass, kind, input_gradient, t); return; }
    block b;
    begin(pass, t, kind, &b);
    vram_cell weights = VRAM_NO_CELL, x = vram_tape_input(t, stream_size(&b), input_gradient || !pass->gradients ? carried_width(pass) : vram_stream_width(pass), VRAM_WHAT_HIDDEN_STATES, input_gradient);
    vram_cell y = b.style.altup ? altup_layer(&b, x, &weights) : b.style.hyper ? vram_v4_layer(&b, x) : b.layer->parallel ? parallel_blocks(&b, x, &weights) : serial_blocks(&b, x, &weights);
    if (!b.style.altup) y = with_layer_input(&b, y);
    if (b.style.layer_scalar) {
        y = vram_op_slice(t, y, t->cell[y].shape, VRAM_WHAT_HIDDEN_STATES);
        t->op[t->ops - 1].others = 1;
    }
    vram_tape_hold(t, x); /* the model's forward() has it under the name that the output will get */
    vram_tape_hold(t, weights);
    if (weights >= 0 && b.style.returns_weights) {
        t->returned = vram_tape_outside(t, t->cell[weights].shape, vram_width(t, weights), VRAM_WHAT_ATTENTION_PROBABILITIES);
        t->cell[t->returned].outside = false;
        t->cell[t->returned].last_use = -1;
    }
    finish(&b, y);
}

/* The model's output stays with its caller until the step, but for the loops of trainers, which pass on nothing but the loss:
 * accelerate's and DeepSpeed's. */
bool vram_caller_keeps_logits(const vram_scenario *s)
{
    if (vram_is_megatron(s, &s->model)) return false;
    return s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2;
}

int vram_logits_width(const vram_pass *pass) { return style_of(pass->model).wide_logits ? 4 : pass->scenario->training.autocast ? 2 : pass->plain_width; }

static vram_cell head_weight(const block *b)
{
    const vram_model *m = b->pass->model;
    vram_size table = SIZE_2(b, VRAM_SYMBOL_VOCABULARY, vram_words_on_rank(b->pass), VRAM_SYMBOL_HIDDEN, (double)m->hidden);
    return (vram_is_tied(b->pass) ? vram_tape_tied : vram_tape_parameter)(b->t, table, b->pass->plain_width, b->pass->gradients && !b->pass->lora);
}

static vram_cell logits_of(const block *b, vram_cell last, vram_cell weight)
{
    const vram_model *m = b->pass->model;
    vram_tape *t = b->t;
    double on_rank = vram_words_on_rank(b->pass);
    vram_cell logits = vram_op_linear(t, last, weight, m->head_bias ? vector(b, on_rank) : VRAM_NO_CELL, wide(b, VRAM_SYMBOL_VOCABULARY, on_rank), VRAM_WHAT_LOGITS);
    const layer_shape head = {"lm_head", on_rank, (double)m->hidden, wide(b, VRAM_SYMBOL_VOCABULARY, on_rank), VRAM_WHAT_LOGITS};
    logits = with_adapter(b, last, logits, &head, b->pass->lora ? vram_lora_head_rank(b->pass->scenario) : 0);
    if (b->style.wide_logits) logits = vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    vram_cell first = logits;
    if (b->style.scaled_logits || m->capped_logits) logits = vram_op_constant(t, logits, 0, VRAM_WHAT_LOGITS);
    if (m->capped_logits) logits = vram_op_constant(t, vram_op_unary(t, logits, false, true, 0, VRAM_WHAT_LOGITS), 0, VRAM_WHAT_LOGITS);
    if (b->style.capped_at_once) vram_tape_hold(t, first);
    return logits;
}

/* Unsloth's cross entropy, which goes with flash attention's package, came under transformers that made the logits fp32 under their own
 * name and copied all positions but the last: two fp32 tensors, the second of which becomes its own gradient. Liger's of today copies
 * labels, not logits. Source: transformers 4.45, models/llama/modeling_llama.py (forward); fms_acceleration_foak/kernels/unsloth/cross_entropy_loss.py */
static bool shifts_logits(const vram_scenario *s)
{
    return s->training.loss == VRAM_LOSS_INPLACE && s->training.kernels == VRAM_KERNELS_FUSED && s->training.attention == VRAM_ATTENTION_FLASH;
}

/* For these families Liger puts its loss where transformers 5 does not look for it, and the loss is the library's own.
 * Source: liger_kernel/transformers/monkey_patch.py (CrossEntropyLoss of the modeling module); transformers/loss/loss_utils.py (nn.functional) */
bool vram_loss_stays_whole(const vram_scenario *s)
{
    static const char *const types[] = {"mistral", "ministral", "llama4", "llama4_text", "nemotron", NULL};
    return s->training.loss == VRAM_LOSS_INPLACE && s->training.kernels == VRAM_KERNELS_FUSED && s->training.attention == VRAM_ATTENTION_SDPA && vram_model_is(&s->model, types);
}

/* MPT knows flash attention in LLM Foundry only, whose loss is that package's: over the 16-bit logits themselves.
 * Source: llmfoundry/models/mpt/modeling_mpt.py (loss_fn: fused_crossentropy) */
static bool over_logits(const vram_pass *pass)
{
    return strcmp(pass->model->model_type, "mpt") == 0 && pass->scenario->training.attention == VRAM_ATTENTION_FLASH && pass->scenario->training.loss == VRAM_LOSS_FULL;
}

void vram_block_head(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_head(pass, t); return; }
    block b;
    begin(pass, t, -1, &b);
    double wide_inputs;
    vram_size all = layer_inputs_size(&b, &wide_inputs);
    if (wide_inputs > 0 && layer_inputs_trained(&b)) vram_op_standing(t, all, pass->plain_width);
    vram_cell given = vram_tape_input(t, stream_size(&b), carried_width(pass), VRAM_WHAT_HIDDEN_STATES, pass->gradients), x = b.style.altup ? mean_stream(&b, given) : b.style.hyper ? vram_v4_collapsed(&b, given) : given;
    vram_cell last = gather(&b, pass->model->final_norm ? norm(&b, x) : x), weight = head_weight(&b);
    if (b.style.wide_stream) last = vram_op_cast(t, last, pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    t->offloads = false; /* the head is left out, and the loss is outside */
    if (pass->head != VRAM_HEAD_LOSS) {
        vram_head_write(pass, t, last, weight);
        finish(&b, VRAM_NO_CELL);
        return;
    }
    vram_cell logits = logits_of(&b, last, weight);
    vram_tape_mark(t);
    vram_cell ids = vram_tape_outside(t, b.rows, 8, VRAM_WHAT_INPUT_IDS);
    vram_cell wide_logits = over_logits(pass) ? logits : vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    vram_cell labels = vram_op_constant(t, ids, 8, VRAM_WHAT_LABELS);
    if (shifts_logits(pass->scenario)) {
        vram_cell shifted = vram_op_copy(t, wide_logits, t->cell[wide_logits].shape, VRAM_WHAT_SHIFTED_LOGITS);
        t->cell[shifted].component = VRAM_COMPONENT_LOGITS;
        vram_op_cross_entropy_over(t, shifted, labels);
        vram_tape_hold(t, wide_logits);
        vram_tape_hold(t, last);
        finish(&b, VRAM_NO_CELL);
        return;
    }
    if (over_logits(pass)) vram_op_cross_entropy_over(t, logits, labels);
    else if (pass->scenario->training.loss == VRAM_LOSS_INPLACE && !vram_loss_stays_whole(pass->scenario)) vram_op_cross_entropy_over(t, wide_logits, labels);
    else if (pass->scenario->parallel.tensor > 1) vram_op_cross_entropy_divided(t, wide_logits, labels);
    else vram_op_cross_entropy(t, wide_logits, labels);
    vram_tape_hold(t, last);
    t->cell[logits].last_use = vram_caller_keeps_logits(pass->scenario) ? (short)-1 : (short)(t->ops - 1);
    finish(&b, VRAM_NO_CELL);
}

/* numbers of cos for a position; of latent attention those that turn (head_dim = qk_rope_head_dim: models/deepseek_v3/configuration_deepseek_v3.py) */
static double rotary_dim(const vram_model *m)
{
    for (int i = 0; i < m->kinds; i++) {
        const vram_attention *a = &m->kind[i].attention;
        if (a->type != VRAM_MIXER_NONE) return (double)(a->type == VRAM_MIXER_MLA ? a->qk_rope_head_dim : a->rotary_dim > 0 ? a->rotary_dim : a->head_dim);
    }
    return 0;
}

vram_masks vram_block_masks(const vram_pass *pass)
{
    const vram_scenario *s = pass->scenario;
    vram_masks masks = {false, false};
    bool is_eager = eager_attention(pass);
    for (int i = 0; i < pass->model->kinds; i++) {
        const vram_attention *a = &pass->model->kind[i].attention;
        if (a->type == VRAM_MIXER_NONE) continue;
        if (a->window > 0) masks.window |= is_eager || packed(pass) || (s->training.attention == VRAM_ATTENTION_SDPA && pass->tokens >= (double)a->window);
        else masks.whole |= is_eager || packed(pass) || style_of(pass->model).indexed;
    }
    return masks;
}

double vram_block_mask(const vram_pass *pass, vram_factor factor[4])
{
    vram_masks masks = vram_block_masks(pass);
    bool is_eager = eager_attention(pass);
    factor[0] = (vram_factor){VRAM_SYMBOL_COPIES, (masks.whole + masks.window) * (is_eager ? pass->batch : 1)};
    factor[1] = (vram_factor){VRAM_SYMBOL_SEQUENCE, pass->tokens};
    factor[2] = (vram_factor){VRAM_SYMBOL_KEYS, pass->tokens};
    factor[3] = (vram_factor){VRAM_SYMBOL_BYTES_PER_ELEMENT, is_eager ? vram_stream_width(pass) : 1};
    return factor[0].value * factor[1].value * factor[2].value * factor[3].value;
}

void vram_block_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report)
{
    const vram_model *m = pass->model;
    vram_entry *ids = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_INPUT_IDS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(vram_times(ids, VRAM_SYMBOL_MICRO_BATCH, pass->batch), VRAM_SYMBOL_SEQUENCE, pass->tokens), VRAM_SYMBOL_BYTES, 8);
    if (vram_is_megatron(pass->scenario, m)) vram_megatron_shared(pass, role, phases, report);
    if (m->position != VRAM_POSITION_ROTARY) return;
    vram_entry *tables = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(tables, VRAM_SYMBOL_COPIES, style_of(m).two_tables ? 4 : 2), VRAM_SYMBOL_SEQUENCE, pass->tokens);
    vram_times(vram_times(tables, VRAM_SYMBOL_HEAD_DIM, rotary_dim(m)), VRAM_SYMBOL_BYTES_PER_ELEMENT, style_of(m).wide_tables ? 4 : vram_stream_width(pass));
}

/* ------------------------------------------------------------------------------------------------------- for mixers.c -- */

vram_size vram_part_wide(const block *b, vram_symbol symbol, double width) { return wide(b, symbol, width); }
vram_cell vram_part_vector(const block *b, double length) { return vector(b, length); }
vram_cell vram_part_norm(const block *b, vram_cell x, vram_size rows, double width) { return norm_of(b, x, rows, width); }
vram_cell vram_part_linear(const block *b, vram_cell x, const char *name, double rows, double columns, vram_size out, vram_what what) { return linear(b, x, name, rows, columns, out, what); }

vram_cell vram_part_turned(const block *b, vram_cell x, double heads, double head_dim, double part, vram_what what) { return rotary_joined(b, x, heads, head_dim, part, what); }
vram_cell vram_part_mlp(const block *b, vram_cell x) { return mlp(b, x); }

/* The state-space mixer of a layer alone, without gradients: for generate(). Its input is counted outside. */
void vram_block_mixer(const vram_pass *pass, int kind, vram_tape *t)
{
    block b;
    begin(pass, t, kind, &b);
    finish(&b, vram_mixer_write(&b, vram_tape_outside(t, b.hidden, pass->width, VRAM_WHAT_HIDDEN_STATES)));
}
