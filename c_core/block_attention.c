/* block_attention.c -- attention: projections, rotary positions, PyTorch's kernels or each product written out, and the masks that go with them. */
#include "parts.h"

/* Are a layer's cos and sin in fp32? */
static bool wide_tables(const block *b) { return b->style.wide_tables && !vram_part_is_cast(b); }

/* x cos + rotate_half(x) sin; cos and sin are in the type of the hidden states, or in fp32 */
vram_cell vram_part_rotary(const block *b, vram_cell given, double heads, double head_dim, vram_what what)
{
    vram_tape *t = b->t;
    if (vram_part_has_kernel(b, VRAM_KERNEL_ROTARY)) return vram_op_in_place(t, b->layer->attention.fused_qkv ? vram_op_copy(t, given, t->cell[given].shape, what) : given, what); /* of one piece */
    vram_cell x = b->style.wide_rotary ? vram_op_cast(t, given, 4, VRAM_WHAT_ROTARY) : given;
    int table = wide_tables(b) ? 4 : vram_stream_width(b->pass);
    vram_size half = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, head_dim / 2);
    vram_cell first = vram_op_constant(t, x, table, VRAM_WHAT_ROTARY);
    vram_cell whole = b->style.wide_halves ? given : x, low = vram_op_slice(t, whole, half, VRAM_WHAT_ROTARY), high = vram_op_slice(t, whole, half, VRAM_WHAT_ROTARY);
    vram_cell turned = vram_op_join(t, vram_op_constant(t, high, 0, VRAM_WHAT_ROTARY), low, t->cell[x].shape, VRAM_WHAT_ROTARY);
    if (b->style.wide_halves) turned = vram_op_cast(t, turned, 4, VRAM_WHAT_ROTARY);
    vram_cell sum = vram_op_add(t, first, vram_op_constant(t, turned, table, VRAM_WHAT_ROTARY), what);
    vram_tape_hold(t, x);
    return b->style.wide_rotary || wide_tables(b) ? vram_op_cast(t, sum, vram_width(t, given), what) : sum;
}

/* Rotary on the first numbers of each head; the rest is joined on, if only nothing (Phi-3) */
vram_cell vram_part_turned(const block *b, vram_cell x, double heads, double head_dim, double part, vram_what what)
{
    vram_tape *t = b->t;
    vram_cell turn = vram_op_slice(t, x, vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, part), VRAM_WHAT_ROTARY);
    vram_cell rest = part < head_dim ? vram_op_slice(t, x, vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, head_dim - part), VRAM_WHAT_ROTARY) : VRAM_NO_CELL;
    return vram_op_join(t, vram_part_rotary(b, turn, heads, part, VRAM_WHAT_ROTARY), rest, t->cell[x].shape, what);
}

/* first cos - second sin, second cos + first sin, joined */
static vram_cell rotary_halves(const block *b, vram_cell x, double heads, double head_dim, vram_what what)
{
    vram_tape *t = b->t;
    vram_size half = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, head_dim / 2);
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
    sizes.out = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, (double)a->v_head_dim);
    sizes.statistics = SIZE_3(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, align > 32 ? s : vram_round_up(s, align), a_heads.symbol, a_heads.value);
    sizes.delta = SIZE_3(b, batch.symbol, batch.value, rows.symbol, rows.value, a_heads.symbol, a_heads.value);
    sizes.dq_sum = SIZE_4(b, batch.symbol, batch.value, rows.symbol, rows.value, a_heads.symbol, a_heads.value, VRAM_SYMBOL_HEAD_DIM, vram_round_up(d, 32));
    sizes.dk_heads = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d);
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

vram_cell vram_part_sdpa(const block *b, vram_cell q, vram_cell k, vram_cell v, bool copied)
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
    vram_cell shares = vram_op_softmax(t, wide_sum, VRAM_WHAT_ATTENTION_PROBABILITIES);
    vram_tape_hold(t, sum); /* an argument of the call */
    return vram_op_cast(t, shares, width, VRAM_WHAT_ATTENTION_PROBABILITIES);
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
vram_cell vram_part_eager(const block *b, vram_cell q, vram_cell k, vram_cell v, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->heads, s = b->pass->tokens;
    vram_size scores = SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s);
    vram_size q_size = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, (double)a->head_dim), v_size = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, (double)a->v_head_dim);
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
    if (!b->style.wide_scores && !b->style.narrow_softmax) vram_tape_hold(t, sum); /* else softmax is a statement of its own, whose result takes the name */
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
    const vram_size size[3] = {vram_part_heads(b, VRAM_SYMBOL_HEADS, (double)a->heads, d), vram_part_heads(b, VRAM_SYMBOL_KV_HEADS, (double)a->kv_heads, d), vram_part_heads(b, VRAM_SYMBOL_KV_HEADS, (double)a->kv_heads, d)};
    vram_cell all = vram_part_linear(b, x, vram_or_else(b->pass->model->names.qkv, "qkv_proj"), rows, (double)b->pass->model->hidden, vram_part_wide(b, VRAM_SYMBOL_WIDTH, rows), VRAM_WHAT_FUSED_QKV);
    if (b->style.qkv == QKV_CHUNKED) all = vram_op_transposed(t, all);
    if (b->style.qkv != QKV_SLICED) vram_op_split(t, all, 3, size, qkv);
    for (int i = 0; b->style.qkv == QKV_COPIED && i < 3; i++) qkv[i] = vram_op_copy(t, qkv[i], size[i], VRAM_WHAT_VALUE);
    if (b->style.qkv != QKV_SLICED) return;
    static const vram_what whats[3] = {VRAM_WHAT_QUERY, VRAM_WHAT_KEY, VRAM_WHAT_VALUE};
    for (int i = 0; i < 3; i++) qkv[i] = vram_op_slice(t, all, size[i], whats[i]);
    for (int i = 0; i < 2; i++) qkv[i] = vram_op_transposed(t, qkv[i]);
    if (vram_part_is_eager(b->pass) || masked(b)) qkv[2] = vram_op_transposed(t, qkv[2]);
}

/* A norm over each head (Qwen 3, Gemma 3) or over all of them (OLMo 2) */
static vram_cell head_norm(const block *b, vram_cell x, vram_symbol symbol, double heads)
{
    const vram_attention *a = &b->layer->attention;
    double d = (double)a->head_dim;
    if (a->qk_norm == VRAM_QK_NORM_WIDTH) return vram_part_norm(b, x, b->rows, heads * d);
    return vram_part_norm(b, x, ROWS_BY(b, symbol, heads), d);
}

/* *gate: the half of a doubled query projection that is copied out, to weigh attention's output (Qwen3-Next) */
static void separate_qkv(const block *b, vram_cell x, vram_cell qkv[3], vram_cell *gate)
{
    const vram_attention *a = &b->layer->attention;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double h = (double)(a->input > 0 ? a->input : b->pass->model->hidden), heads = (double)a->heads, kv = (double)a->kv_heads, d = (double)a->head_dim, v = (double)a->v_head_dim;
    bool ordered = (b->pass->model->position == VRAM_POSITION_ROTARY && !vram_part_has_kernel(b, VRAM_KERNEL_ROTARY)) || vram_part_is_eager(b->pass);
    bool each = a->qk_norm != VRAM_QK_NORM_NONE && a->qk_norm != VRAM_QK_NORM_WIDTH && !b->style.norm_after_turn, width = a->qk_norm == VRAM_QK_NORM_WIDTH;
    vram_size kv_size = vram_part_heads(b, VRAM_SYMBOL_KV_HEADS, kv, d);
    for (int i = 0; i < 2; i++) {
        if (i && a->shares_cache) { /* made by an earlier layer, which holds them */
            qkv[1] = vram_tape_outside(t, kv_size, vram_width(t, qkv[0]), VRAM_WHAT_KEY);
            qkv[2] = vram_tape_outside(t, kv_size, vram_width(t, qkv[0]), VRAM_WHAT_VALUE);
            return;
        }
        double of = i ? kv : heads, twice = i == 0 && a->output_gate ? 2 : 1;
        vram_size size = i ? kv_size : vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d);
        vram_cell y = vram_part_linear(b, x, i ? vram_or_else(n->k, "k_proj") : vram_or_else(n->q, "q_proj"), of * d * twice, h, i ? kv_size : vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d * twice), i ? VRAM_WHAT_KEY : VRAM_WHAT_QUERY);
        y = vram_part_with_side_path(b, x, y, VRAM_PART_ATTENTION, of * d, h);
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
    if (!a->k_is_v) qkv[2] = vram_part_with_side_path(b, x, vram_part_linear(b, x, vram_or_else(n->v, "v_proj"), kv * v, h, vram_part_heads(b, VRAM_SYMBOL_KV_HEADS, kv, v), VRAM_WHAT_VALUE), VRAM_PART_ATTENTION, kv * v, h);
    if (vram_part_is_eager(b->pass) || (masked(b) && a->heads != a->kv_heads)) qkv[2] = vram_op_transposed(t, qkv[2]);
    if (b->style.value_norm) qkv[2] = vram_part_rms_norm(b, qkv[2], ROWS_BY(b, VRAM_SYMBOL_KV_HEADS, kv), v, false);
    if (a->gate_width > 0) *gate = vram_part_linear(b, x, vram_or_else(n->attention_gate, "gate_proj"), (double)a->gate_width, h, vram_part_wide(b, VRAM_SYMBOL_WIDTH, (double)a->gate_width), VRAM_WHAT_GATE);
}

static double rotary_part(const block *b)
{
    const vram_attention *a = &b->layer->attention;
    return (double)(a->rotary_dim > 0 ? a->rotary_dim : a->head_dim);
}

static vram_cell rotate(const block *b, vram_cell x, double heads, double head_dim, vram_what what)
{
    if (vram_part_has_kernel(b, VRAM_KERNEL_ROTARY)) return vram_part_rotary(b, x, heads, head_dim, what);
    if (b->style.turn == TURN_JOINED) return vram_part_turned(b, x, heads, head_dim, rotary_part(b), what);
    if (b->style.turn == TURN_COMPLEX) return vram_op_cast(b->t, vram_op_constant(b->t, vram_op_cast(b->t, x, 4, VRAM_WHAT_ROTARY), 4, VRAM_WHAT_ROTARY), vram_width(b->t, x), what);
    if (b->style.turn == TURN_HALVES) return rotary_halves(b, x, heads, head_dim, what);
    return vram_part_rotary(b, x, heads, head_dim, what);
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
    vram_size half = vram_part_heads(b, VRAM_SYMBOL_KV_HEADS, kv / 2, d), pair = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d), both = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, 2 * d);
    vram_cell part[2], values[2], out[2], other, halves[2];
    vram_op_split(t, v, 2, (const vram_size[]){half, half}, part);
    for (int i = 0; i < 2; i++) values[i] = vram_op_repeat(t, part[i], t->cell[v].shape, VRAM_WHAT_VALUE);
    for (int i = 0; i < 2; i++) out[i] = vram_part_is_eager(b->pass) ? vram_part_eager(b, q, k, values[i], i ? &other : weights) : vram_part_sdpa(b, q, k, values[i], false);
    vram_cell all = vram_op_join(t, out[0], out[1], both, VRAM_WHAT_ATTENTION_OUTPUT);
    for (int i = 0; i < 2; i++) vram_tape_hold(t, out[i]);
    vram_op_split(t, all, 2, (const vram_size[]){pair, pair}, halves);
    vram_cell less = vram_op_add(t, halves[0], vram_op_mul_weight(t, vram_part_vector(b, 1), halves[1], VRAM_WHAT_ATTENTION_OUTPUT), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell normed = vram_op_layer_norm(t, less, VRAM_NO_CELL, VRAM_NO_CELL, ROWS_BY(b, VRAM_SYMBOL_HEADS, heads / 2), VRAM_WHAT_NORM_OUTPUT), y = vram_op_constant(t, normed, 0, VRAM_WHAT_ATTENTION_OUTPUT);
    const vram_cell names[] = {all, values[0], values[1]};
    vram_part_hold(b, 3, names);
    return y;
}

/* LlamaAttention and its relatives; *weights: what eager attention returns beside */
vram_cell vram_part_attention(const block *b, vram_cell x, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    vram_cell qkv[3], turned[2], gate = VRAM_NO_CELL;
    double heads[2] = {(double)a->heads, (double)a->kv_heads}, d = (double)a->head_dim;
    static const vram_what whats[2] = {VRAM_WHAT_QUERY, VRAM_WHAT_KEY};
    bool is_eager = vram_part_is_eager(b->pass), rotates = b->pass->model->position == VRAM_POSITION_ROTARY && (a->window > 0 || !b->style.windows_turn || !windowed(b->pass->model)), joined = b->style.turn == TURN_JOINED;
    if (a->fused_qkv) fused_qkv(b, x, qkv);
    for (int i = 0; i < 2 && a->fused_qkv && a->qk_norm != VRAM_QK_NORM_NONE; i++) qkv[i] = head_norm(b, qkv[i], i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, heads[i]);
    if (!a->fused_qkv) separate_qkv(b, x, qkv, &gate);
    for (int i = 0; i < 2; i++)
        turned[i] = rotates && !(i && a->shares_cache) ? rotate(b, qkv[i], heads[i], d, whats[i]) : qkv[i];
    for (int i = 0; i < 2 && b->style.norm_after_turn && a->qk_norm != VRAM_QK_NORM_NONE; i++)
        turned[i] = b->style.unnamed_norm ? vram_part_unnamed_norm(b, turned[i], ROWS_BY(b, VRAM_SYMBOL_HEADS, heads[i]), 0) : head_norm(b, turned[i], i ? VRAM_SYMBOL_KV_HEADS : VRAM_SYMBOL_HEADS, heads[i]);
    for (int i = 0; i < 2; i++) vram_tape_hold(t, qkv[i]);
    vram_cell y = b->style.differential ? differential(b, turned[0], turned[1], qkv[2], weights) : is_eager ? vram_part_eager(b, turned[0], turned[1], qkv[2], weights) : vram_part_sdpa(b, turned[0], turned[1], qkv[2], rotates && joined && !vram_part_has_kernel(b, VRAM_KERNEL_ROTARY));
    if (gate >= 0) y = vram_op_mul(t, y, vram_op_unary(t, gate, false, true, 0, VRAM_WHAT_GATE), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_tape_hold(t, gate);
    if (b->style.sub_norms) y = vram_part_norm(b, y, b->rows, heads[0] * d);
    vram_cell out = vram_part_linear(b, y, vram_or_else(b->pass->model->names.o, "o_proj"), (double)b->pass->model->hidden, heads[0] * (double)a->v_head_dim, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    const vram_cell held[] = {x, turned[0], turned[1], qkv[2]};
    if (b->style.drops_later) vram_part_hold(b, 4, held);
    vram_cell dropped = vram_op_dropout(t, out, b->pass->dropout, VRAM_WHAT_ATTENTION_PROJECTION);
    if (!b->style.drops_later) vram_part_hold(b, 4, held);
    for (int i = 0; i < 2 && b->style.shares_keys && !a->shares_cache; i++) t->shared[i] = i ? qkv[2] : turned[1];
    return dropped;
}

vram_masks vram_block_masks(const vram_pass *pass)
{
    const vram_scenario *s = pass->scenario;
    vram_masks masks = {false, false};
    bool is_eager = vram_part_is_eager(pass);
    for (int i = 0; i < pass->model->kinds; i++) {
        const vram_attention *a = &pass->model->kind[i].attention;
        if (a->type == VRAM_MIXER_NONE) continue;
        if (a->window > 0) masks.window |= is_eager || packed(pass) || (s->training.attention == VRAM_ATTENTION_SDPA && pass->tokens >= (double)a->window);
        else masks.whole |= is_eager || packed(pass) || vram_style_of(pass->model).indexed;
    }
    return masks;
}

double vram_block_mask(const vram_pass *pass, vram_factor factor[4])
{
    vram_masks masks = vram_block_masks(pass);
    bool is_eager = vram_part_is_eager(pass);
    factor[0] = (vram_factor){VRAM_SYMBOL_COPIES, (masks.whole + masks.window) * (is_eager ? pass->batch : 1)};
    factor[1] = (vram_factor){VRAM_SYMBOL_SEQUENCE, pass->tokens};
    factor[2] = (vram_factor){VRAM_SYMBOL_KEYS, pass->tokens};
    factor[3] = (vram_factor){VRAM_SYMBOL_BYTES_PER_ELEMENT, is_eager ? vram_stream_width(pass) : 1};
    return factor[0].value * factor[1].value * factor[2].value * factor[3].value;
}
