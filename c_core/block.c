/* block.c -- decoder blocks as programs of operations, written as the modules of transformers are.
 *
 * What a function here makes, in which order, under which of Python's names, is read off the forward() of the module it is named
 * after. Source: transformers 5, src/transformers/models; peft, tuners/lora/layer.py; bitsandbytes, nn/modules.py. */
#include "block.h"

#include <string.h>

typedef struct {
    const vram_pass *pass;
    vram_tape *t;
    const vram_layer *layer;
    int kind;
    vram_size hidden, rows;    /* b s h; b s */
} block;

#define SIZE(b, ...) vram_tape_size((b)->t, (int)(sizeof(((const vram_factor[]){__VA_ARGS__})) / sizeof(vram_factor)), (const vram_factor[]){__VA_ARGS__})
#define ROWS(b) {VRAM_SYMBOL_MICRO_BATCH, (b)->pass->batch}, {VRAM_SYMBOL_SEQUENCE, (b)->pass->tokens}

static vram_size wide(const block *b, vram_symbol symbol, double width) { return SIZE(b, ROWS(b), {symbol, width}); }
static vram_size heads_wide(const block *b, vram_symbol symbol, double heads, double head_dim) { return SIZE(b, ROWS(b), {symbol, heads}, {VRAM_SYMBOL_HEAD_DIM, head_dim}); }

static block begin(const vram_pass *pass, vram_tape *t, int kind)
{
    vram_tape_clear(t, pass->scenario->training.autocast != 0 && !pass->no_autocast, pass->workspace);
    t->caches = !pass->gradients && !pass->lora && pass->scenario->training.method == VRAM_METHOD_FULL;
    block b = {.pass = pass, .t = t, .kind = kind, .layer = kind < 0 ? NULL : &pass->model->kind[kind]};
    b.hidden = wide(&b, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
    b.rows = SIZE(&b, ROWS(&b));
    return b;
}

static void finish(block *b, vram_cell y)
{
    b->t->output = y;
    if (y >= 0) b->t->cell[b->t->cell[y].base].last_use = -1; /* the next piece holds it */
}

/* A base model's weight that is no linear layer's: trained, or frozen under LoRA */
static vram_cell vector(const block *b, double length)
{
    return vram_tape_parameter(b->t, SIZE(b, {VRAM_SYMBOL_WIDTH, length}), b->pass->plain_width, !b->pass->lora && b->pass->gradients);
}

/* ---------------------------------------------------------------------------------------------------------------- norms -- */

/* x.float(); x * rsqrt(mean(x^2) + eps); weight * (that, in x's type) */
static vram_cell rms_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    vram_tape *t = b->t;
    int narrow = vram_width(t, x);
    vram_cell in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT);
    vram_cell mean = vram_op_mean(t, vram_op_square(t, in), rows);
    vram_cell scale = vram_op_rsqrt(t, vram_op_constant(t, mean, 4, VRAM_WHAT_NORM_STATISTICS));
    vram_cell normed = vram_op_mul_rows(t, in, scale, VRAM_WHAT_NORMALISED);
    vram_cell y = vram_op_mul_weight(t, vector(b, width), vram_op_cast(t, normed, narrow, VRAM_WHAT_NORMALISED), VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, normed);
    vram_tape_hold(t, mean);
    return y;
}

static vram_cell norm(const block *b, vram_cell x)
{
    return rms_norm(b, x, b->rows, (double)b->pass->model->hidden);
}

/* -------------------------------------------------------------------------------------------------------- linear layers -- */

static const vram_tensor *row_of(const block *b, const char *name, bool bias)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind == b->kind && m->tensor[i].linear != bias && m->tensor[i].bias == bias && strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    return NULL;
}

/* Does LoRA wrap this linear layer? */
static bool wrapped(const block *b, const char *name)
{
    const vram_tensor *row = row_of(b, name, false);
    return b->pass->lora && row != NULL && vram_lora_rank(b->pass->scenario, b->pass->model, row) > 0;
}

static vram_cell matrix(const block *b, double rows, double columns, int width, bool trained)
{
    return vram_tape_parameter(b->t, SIZE(b, {VRAM_SYMBOL_WIDTH, rows}, {VRAM_SYMBOL_WIDTH, columns}), width, trained && b->pass->gradients);
}

/* result + B(A(dropout(x))) * scaling, in the adapter's type; the result back in its own */
static vram_cell adapted(const block *b, vram_cell x, vram_cell result, double rows, double columns, vram_size out, vram_what what)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    double rank = (double)s->lora.rank;
    int width = (int)vram_format_bytes(s->lora.dtype), narrow = vram_width(t, result);
    vram_size low = wide(b, VRAM_SYMBOL_RANK, rank);
    vram_cell in = vram_op_cast(t, x, width, VRAM_WHAT_LORA_INPUT);
    vram_cell dropped = vram_op_dropout(t, in, s->lora.dropout, VRAM_WHAT_LORA_INPUT);
    vram_cell down = vram_op_linear(t, dropped, matrix(b, rank, columns, width, true), VRAM_NO_CELL, low, VRAM_WHAT_LORA_DOWN);
    vram_cell up = vram_op_linear(t, down, matrix(b, rows, rank, width, true), VRAM_NO_CELL, out, VRAM_WHAT_LORA_UP);
    vram_cell scaled = vram_op_constant(t, up, vram_width(t, up), VRAM_WHAT_LORA_UP);
    vram_cell sum = vram_op_add(t, result, scaled, what);
    vram_cell y = vram_op_cast(t, sum, narrow, what);
    vram_tape_hold(t, in);
    vram_tape_hold(t, x); /* an argument of the module's call */
    return y;
}

static vram_cell linear(const block *b, vram_cell x, const char *name, double rows, double columns, vram_size out, vram_what what)
{
    vram_cell bias = row_of(b, name, true) != NULL ? vector(b, rows) : VRAM_NO_CELL;
    vram_cell y = vram_op_linear(b->t, x, matrix(b, rows, columns, b->pass->width, !b->pass->lora), bias, out, what);
    return wrapped(b, name) ? adapted(b, x, y, rows, columns, out, what) : y;
}

/* ------------------------------------------------------------------------------------------------------------ attention -- */

/* x cos + rotate_half(x) sin */
static vram_cell rotary(const block *b, vram_cell x, double heads, double head_dim, vram_what what)
{
    vram_tape *t = b->t;
    int table = vram_stream_width(b->pass); /* cos and sin are in the type of the hidden states */
    vram_size half = heads_wide(b, VRAM_SYMBOL_HEADS, heads, head_dim / 2);
    vram_cell first = vram_op_constant(t, x, table, VRAM_WHAT_ROTARY);
    vram_cell low = vram_op_slice(t, x, half, VRAM_WHAT_ROTARY), high = vram_op_slice(t, x, half, VRAM_WHAT_ROTARY);
    vram_cell turned = vram_op_join(t, vram_op_constant(t, high, 0, VRAM_WHAT_ROTARY), low, t->cell[x].shape, VRAM_WHAT_ROTARY);
    return vram_op_add(t, first, vram_op_constant(t, turned, table, VRAM_WHAT_ROTARY), what);
}

static vram_cell flash(const block *b, vram_cell q, vram_cell k, vram_cell v)
{
    const vram_attention *a = &b->layer->attention;
    double heads = (double)a->heads, d = (double)a->head_dim, s = b->pass->tokens, padded = vram_round_up(s, 128);
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, b->pass->batch}, a_heads = {VRAM_SYMBOL_HEADS, heads}, rows = {VRAM_SYMBOL_SEQUENCE, padded};
    vram_flash_sizes sizes = {.grouped = a->heads != a->kv_heads};
    sizes.out = heads_wide(b, VRAM_SYMBOL_HEADS, heads, d);
    sizes.statistics = SIZE(b, ROWS(b), a_heads);
    sizes.delta = SIZE(b, batch, rows, a_heads);
    sizes.dq_sum = SIZE(b, batch, rows, a_heads, {VRAM_SYMBOL_HEAD_DIM, vram_round_up(d, 32)});
    sizes.dk_heads = sizes.dv_heads = sizes.out;
    return vram_op_flash(b->t, q, k, v, &sizes);
}

/* matmul, scaling, mask, softmax in fp32, matmul */
static vram_cell eager(const block *b, vram_cell q, vram_cell k, vram_cell v, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->heads, s = b->pass->tokens;
    vram_size scores = SIZE(b, {VRAM_SYMBOL_MICRO_BATCH, b->pass->batch}, {VRAM_SYMBOL_HEADS, heads}, {VRAM_SYMBOL_SEQUENCE, s}, {VRAM_SYMBOL_KEYS, s});
    vram_size q_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, (double)a->head_dim), v_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, (double)a->v_head_dim);
    bool grouped = a->heads != a->kv_heads;
    vram_cell keys = grouped ? vram_op_repeat(t, k, q_size, VRAM_WHAT_REPEATED_KEYS) : k;
    vram_cell values = grouped ? vram_op_repeat(t, v, v_size, VRAM_WHAT_REPEATED_VALUES) : v;
    vram_cell raw = vram_op_matmul(t, q, keys, scores, VRAM_WHAT_ATTENTION_SCORES);
    vram_cell scaled = vram_op_constant(t, raw, 0, VRAM_WHAT_ATTENTION_SCORES);
    vram_cell masked = vram_op_constant(t, scaled, 0, VRAM_WHAT_ATTENTION_SCORES);
    vram_cell probabilities = vram_op_softmax(t, vram_op_cast(t, masked, 4, VRAM_WHAT_ATTENTION_SCORES), VRAM_WHAT_ATTENTION_PROBABILITIES);
    vram_tape_hold(t, masked);
    *weights = vram_op_cast(t, probabilities, vram_width(t, q), VRAM_WHAT_ATTENTION_PROBABILITIES);
    vram_cell y = vram_op_copy(t, vram_op_matmul(t, *weights, values, v_size, VRAM_WHAT_ATTENTION_OUTPUT), v_size, VRAM_WHAT_ATTENTION_OUTPUT);
    vram_tape_hold(t, keys);
    vram_tape_hold(t, values);
    return y;
}

/* LlamaAttention; *weights: what eager attention returns beside */
static vram_cell attention(const block *b, vram_cell x, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, heads = (double)a->heads, kv = (double)a->kv_heads, d = (double)a->head_dim;
    vram_size q_size = heads_wide(b, VRAM_SYMBOL_HEADS, heads, d), kv_size = heads_wide(b, VRAM_SYMBOL_KV_HEADS, kv, d);
    bool is_eager = b->pass->scenario->training.attention == VRAM_ATTENTION_EAGER;
    vram_cell q = vram_op_transposed(t, linear(b, x, "q_proj", heads * d, h, q_size, VRAM_WHAT_QUERY));
    vram_cell k = vram_op_transposed(t, linear(b, x, "k_proj", kv * d, h, kv_size, VRAM_WHAT_KEY));
    vram_cell v = linear(b, x, "v_proj", kv * d, h, kv_size, VRAM_WHAT_VALUE);
    if (is_eager) v = vram_op_transposed(t, v);
    vram_cell query = rotary(b, q, heads, d, VRAM_WHAT_QUERY), key = rotary(b, k, kv, d, VRAM_WHAT_KEY);
    vram_tape_hold(t, q);
    vram_tape_hold(t, k);
    vram_cell y = is_eager ? eager(b, query, key, v, weights) : flash(b, query, key, v);
    vram_cell out = linear(b, y, "o_proj", h, heads * d, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    vram_tape_hold(t, x);
    vram_tape_hold(t, query);
    vram_tape_hold(t, key);
    vram_tape_hold(t, v);
    return out;
}

/* ------------------------------------------------------------------------------------------------------------------ MLP -- */

/* down(act(gate(x)) * up(x)) */
static vram_cell mlp(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, f = (double)b->layer->ffn.width;
    vram_size inner = wide(b, VRAM_SYMBOL_INTERMEDIATE, f);
    vram_cell gate = linear(b, x, "gate_proj", f, h, inner, VRAM_WHAT_GATE);
    vram_cell active = vram_op_unary(t, gate, true, false, 0, VRAM_WHAT_ACTIVATION);
    vram_cell up = linear(b, x, "up_proj", f, h, inner, VRAM_WHAT_UP);
    vram_cell product = vram_op_mul(t, active, up, VRAM_WHAT_GATED);
    vram_cell y = linear(b, product, "down_proj", h, f, b->hidden, VRAM_WHAT_MLP_OUTPUT);
    vram_tape_hold(t, x);
    return y;
}

/* --------------------------------------------------------------------------------------------------------------- pieces -- */

vram_pass vram_pass_of(const vram_scenario *s, const vram_model *model, double batch, double tokens, bool gradients)
{
    bool lora = s->training.method == VRAM_METHOD_LORA, wide_weights = s->training.precision == VRAM_PRECISION_FP32 || s->training.precision == VRAM_PRECISION_AMP;
    bool gathered = s->training.precision == VRAM_PRECISION_AMP && s->parallel.data > 1 && (s->parallel.zero == 3 || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1 || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2);
    if (gathered) wide_weights = false; /* fp32 shards are gathered in 16 bit */
    const vram_format_row *stored = vram_format_get(s->weights);
    vram_pass pass = {.scenario = s, .model = model, .batch = batch, .tokens = tokens, .lora = lora, .gradients = gradients};
    pass.four_bit = lora && (s->weights == VRAM_FORMAT_NF4 || s->weights == VRAM_FORMAT_NF4_DQ);
    pass.width = lora ? (stored->scheme == VRAM_SCHEME_NONE && stored->block_bytes / stored->block == 4 ? 4 : 2) : wide_weights ? 4 : 2;
    pass.plain_width = pass.four_bit && s->lora.prepare_kbit ? 4 : pass.width;
    pass.input_gradient = gradients && (!lora || s->training.checkpointing == VRAM_CHECKPOINTING_FULL);
    pass.stage = vram_stage_of(s, model);
    pass.workspace = 8519680; /* cuBLAS ":4096:2:16:8": 2 x 4 MiB + 8 x 16 KiB */
    return pass;
}

/* numbers of cos for a position */
static double rotary_dim(const vram_model *m)
{
    for (int i = 0; i < m->kinds; i++)
        if (m->kind[i].attention.type != VRAM_MIXER_NONE) return (double)m->kind[i].attention.head_dim;
    return 0;
}

int vram_stream_width(const vram_pass *pass) { return pass->plain_width; }

/* A table that is embedding and head: on its own GPU its two gradients meet when backward has come to the embedding. */
static bool is_tied(const vram_pass *pass) { return pass->model->tied && pass->scenario->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN && pass->scenario->parallel.zero == 0 && pass->head != VRAM_HEAD_VALUE; }

void vram_block_embedding(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_embedding(pass, t); return; }
    block b = begin(pass, t, -1);
    vram_cell weight = vram_tape_parameter(t, SIZE(&b, {VRAM_SYMBOL_VOCABULARY, (double)pass->model->vocab}, {VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden}),
                                           pass->plain_width, pass->gradients && !pass->lora);
    t->cell[weight].tied = is_tied(pass);
    t->cell[weight].joined = is_tied(pass) && pass->head != VRAM_HEAD_TILED && !(pass->scenario->training.autocast && pass->plain_width == 4); /* the head's is a transposed view, unless cast */
    finish(&b, vram_op_embedding(t, weight, b.hidden, pass->plain_width, VRAM_WHAT_HIDDEN_STATES));
}

/* LlamaDecoderLayer */
void vram_block_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model) && !pass->lora) { vram_megatron_layer(pass, kind, t); return; }
    block b = begin(pass, t, kind);
    vram_cell weights = VRAM_NO_CELL, x = vram_tape_input(t, b.hidden, vram_stream_width(pass), VRAM_WHAT_HIDDEN_STATES, input_gradient);
    if (pass->outputs_held) t->cell[x].last_use = -1;
    vram_cell normed = norm(&b, x);
    vram_cell attended = attention(&b, normed, &weights);
    vram_cell middle = vram_op_add(t, x, attended, VRAM_WHAT_HIDDEN_STATES);
    vram_cell y = vram_op_add(t, middle, mlp(&b, norm(&b, middle)), VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, middle);
    vram_tape_hold(t, weights);
    finish(&b, y);
}

/* The model's output stays with its caller until the step, but for the loops of trainers, which pass on nothing but the loss:
 * accelerate's and DeepSpeed's. */
bool vram_caller_keeps_logits(const vram_scenario *s)
{
    if (vram_is_megatron(s, &s->model)) return false;
    return s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2;
}

void vram_block_head(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_head(pass, t); return; }
    block b = begin(pass, t, -1);
    const vram_model *m = pass->model;
    vram_cell x = vram_tape_input(t, b.hidden, vram_stream_width(pass), VRAM_WHAT_HIDDEN_STATES, pass->gradients);
    vram_size words = wide(&b, VRAM_SYMBOL_VOCABULARY, (double)m->vocab);
    vram_cell last = norm(&b, x);
    vram_cell weight = vram_tape_parameter(t, SIZE(&b, {VRAM_SYMBOL_VOCABULARY, (double)m->vocab}, {VRAM_SYMBOL_HIDDEN, (double)m->hidden}), pass->plain_width, pass->gradients && !pass->lora);
    t->cell[weight].tied = is_tied(pass);
    if (pass->head != VRAM_HEAD_LOSS) {
        vram_head_write(pass, t, last, weight);
        finish(&b, VRAM_NO_CELL);
        return;
    }
    vram_cell logits = vram_op_linear(t, last, weight, VRAM_NO_CELL, words, VRAM_WHAT_LOGITS);
    t->cell[logits].component = VRAM_COMPONENT_LOGITS;
    vram_tape_mark(t);
    vram_cell ids = vram_tape_outside(t, b.rows, 8, VRAM_WHAT_INPUT_IDS);
    vram_cell wide_logits = vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    vram_cell labels = vram_op_constant(t, ids, 8, VRAM_WHAT_LABELS);
    vram_op_cross_entropy(t, wide_logits, labels);
    vram_tape_hold(t, last);
    t->cell[logits].last_use = vram_caller_keeps_logits(pass->scenario) ? (short)-1 : (short)(t->ops - 1);
    finish(&b, VRAM_NO_CELL);
}

void vram_block_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report)
{
    const vram_model *m = pass->model;
    vram_entry *ids = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_INPUT_IDS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(vram_times(ids, VRAM_SYMBOL_MICRO_BATCH, pass->batch), VRAM_SYMBOL_SEQUENCE, pass->tokens), VRAM_SYMBOL_BYTES, 8);
    if (vram_is_megatron(pass->scenario, m)) vram_megatron_shared(pass, role, report);
    if (m->position != VRAM_POSITION_ROTARY) return;
    vram_entry *tables = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(tables, VRAM_SYMBOL_COPIES, 2), VRAM_SYMBOL_SEQUENCE, pass->tokens);
    vram_times(vram_times(tables, VRAM_SYMBOL_HEAD_DIM, rotary_dim(m)), VRAM_SYMBOL_BYTES_PER_ELEMENT, vram_stream_width(pass));
}
