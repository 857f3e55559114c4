/* block_v4.c -- DeepSeek-V4's layers: hyper-connections between several residual streams, keys that are values, compressed pasts.
 *
 * Source: transformers 5, models/deepseek_v4/modeling_deepseek_v4.py. Parameters that the class keeps in fp32 are counted in the model's type. */
#include "parts.h"

#include <string.h>

static const vram_what MIXING = VRAM_WHAT_HIDDEN_STATES, SCORES = VRAM_WHAT_ATTENTION_SCORES, PAST = VRAM_WHAT_KEY;

double vram_v4_streams(const vram_model *m)
{
    for (int i = 0; i < m->tensors; i++)
        if (strcmp(m->tensor[i].name, "fn") == 0) return (double)m->tensor[i].columns / (double)m->hidden;
    return 1;
}

vram_size vram_v4_stream_size(const block *b) { return ROWS_BY_2(b, VRAM_SYMBOL_COPIES, vram_v4_streams(b->pass->model), VRAM_SYMBOL_HIDDEN, (double)b->pass->model->hidden); }

/* x * rsqrt(mean of squares, in fp32) in the type of x */
static vram_cell bare_norm(const block *b, vram_cell x, vram_size rows)
{
    vram_tape *t = b->t;
    vram_cell mean = vram_op_mean(t, vram_op_square(t, vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT)), rows);
    vram_cell scale = vram_op_cast(t, vram_op_rsqrt(t, vram_op_constant(t, mean, 4, VRAM_WHAT_NORM_STATISTICS)), vram_width(t, x), VRAM_WHAT_NORM_STATISTICS);
    vram_cell y = vram_op_mul_rows(t, x, scale, VRAM_WHAT_NORMALISED);
    vram_tape_hold(t, x);
    return y;
}

/* One linear layer in fp32 from all streams to `numbers` weights a token */
static vram_cell mixes(const block *b, vram_cell x, double numbers)
{
    vram_tape *t = b->t;
    double n = vram_v4_streams(b->pass->model), h = (double)b->pass->model->hidden;
    vram_cell flat = bare_norm(b, vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), b->rows), weight = vram_op_cast(t, vram_part_vector(b, numbers * n * h), 4, MIXING);
    return vram_op_linear(t, flat, weight, VRAM_NO_CELL, vram_part_wide(b, VRAM_SYMBOL_WIDTH, numbers), MIXING);
}

/* weights of a few numbers: times a scale, plus a base, sigmoid */
static vram_cell weights_of(const block *b, vram_cell part)
{
    vram_tape *t = b->t;
    vram_cell scaled = vram_op_mul_weight(t, vram_op_cast(t, vram_part_vector(b, 1), 4, MIXING), part, MIXING);
    return vram_op_shift(t, vram_op_unary(t, vram_op_shift(t, scaled, MIXING), false, true, 0, MIXING), MIXING);
}

static vram_cell collapsed(const block *b, vram_cell x, vram_cell pre)
{
    vram_tape *t = b->t;
    return vram_op_cast(t, vram_op_sum(t, vram_op_mul_wide(t, pre, x, t->cell[x].shape, MIXING), b->hidden, MIXING), vram_width(t, x), MIXING);
}

/* DeepseekV4HyperConnection: what collapses the streams, what spreads the block's output, and a square that mixes them, whose rows and columns
 * are divided by their sums in turn: each division keeps what it divides and by what */
static vram_cell connection(const block *b, vram_cell x, vram_cell *post, vram_cell *comb)
{
    enum { TURNS = 39 }; /* 20 iterations of two, less one */
    vram_tape *t = b->t;
    double n = vram_v4_streams(b->pass->model);
    vram_size few = vram_part_wide(b, VRAM_SYMBOL_COPIES, n), square = vram_part_wide(b, VRAM_SYMBOL_COPIES, n * n), parts[3] = {few, few, square}, kept = vram_part_wide(b, VRAM_SYMBOL_COPIES, TURNS * (n * n + n));
    vram_cell all = mixes(b, x, (2 + n) * n), of[3];
    vram_op_split(t, all, 3, parts, of);
    vram_cell pre = weights_of(b, of[0]);
    *post = vram_op_constant(t, weights_of(b, of[1]), 0, MIXING);
    vram_cell scaled = vram_op_mul_weight(t, vram_op_cast(t, vram_part_vector(b, 1), 4, MIXING), of[2], MIXING);
    *comb = vram_op_keeping(t, vram_op_shift(t, vram_op_softmax(t, vram_op_shift(t, scaled, MIXING), MIXING), MIXING), kept, MIXING);
    vram_cell y = collapsed(b, x, pre);
    vram_tape_hold(t, all);
    vram_tape_hold(t, pre);
    return y;
}

/* post * y + comb' x */
static vram_cell spread(const block *b, vram_cell x, vram_cell y, vram_cell post, vram_cell comb)
{
    vram_tape *t = b->t;
    int width = vram_width(t, x);
    vram_size streams = t->cell[x].shape;
    vram_cell out = vram_op_mul_wide(t, vram_op_cast(t, post, width, MIXING), y, streams, MIXING), mixed = vram_op_matmul(t, vram_op_cast(t, comb, width, MIXING), x, streams, MIXING);
    return vram_op_add(t, out, mixed, MIXING);
}

/* Some tokens' keys weighed into one: softmax of gates over a window, twice as wide where windows overlap. Returns rows of head_dim */
static vram_cell compressed(const block *b, vram_cell x, double width, bool overlaps)
{
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, tokens = b->pass->tokens, ratio = (double)b->layer->attention.compress_ratio, windows = vram_floor_div(tokens, ratio), wide = overlaps ? 2 * width : width;
    vram_size whole = vram_part_wide(b, VRAM_SYMBOL_WIDTH, wide), few = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_BLOCKS, windows, VRAM_SYMBOL_WIDTH, width), rows = SIZE_2(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_BLOCKS, windows);
    vram_cell kv = vram_part_linear(b, x, "kv_proj", wide, h, whole, PAST), raw = vram_part_linear(b, x, "gate_proj", wide, h, whole, PAST), gate = vram_op_shift(t, raw, PAST), laid[2] = {kv, gate};
    for (int i = 0; overlaps && i < 2; i++) laid[i] = vram_op_copy(t, laid[i], whole, PAST);
    vram_cell share = vram_op_cast(t, vram_op_softmax(t, vram_op_cast(t, laid[1], 4, PAST), PAST), vram_width(t, kv), PAST);
    vram_cell sum = vram_op_sum(t, vram_op_mul(t, laid[0], share, PAST), few, PAST), y = vram_part_norm(b, sum, rows, width);
    const vram_cell names[] = {kv, raw, gate, laid[0], laid[1]};
    vram_part_hold(b, 5, names);
    return y;
}

/* DeepseekV4Indexer: nothing goes back through it, but its graph stands until it returns */
static void lightning_index(const block *b, vram_cell x, vram_cell low)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->index_heads, d = (double)a->index_head_dim, h = (double)b->pass->model->hidden, s = b->pass->tokens, windows = vram_floor_div(s, (double)a->compress_ratio);
    vram_size queries = ROWS_BY_2(b, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_HEAD_DIM, d), pairs = ROWS_BY_2(b, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_BLOCKS, windows), sums = ROWS_BY(b, VRAM_SYMBOL_BLOCKS, windows);
    t->no_grad = true;
    vram_cell keys = compressed(b, x, d, true), q = vram_op_shift(t, vram_part_linear(b, low, "q_b_proj", heads * d, (double)a->q_lora_rank, queries, VRAM_WHAT_QUERY), VRAM_WHAT_QUERY);
    vram_cell q32 = vram_op_cast(t, q, 4, VRAM_WHAT_QUERY), scores = vram_op_matmul(t, q32, vram_op_cast(t, keys, 4, PAST), pairs, SCORES);
    vram_cell active = vram_op_unary(t, scores, false, false, 0, SCORES), scaled = vram_op_constant(t, active, 0, SCORES), weights = vram_op_cast(t, vram_part_linear(b, x, "weights_proj", heads, h, vram_part_wide(b, VRAM_SYMBOL_HEADS, heads), SCORES), 4, SCORES);
    vram_cell sum = vram_op_sum(t, vram_op_mul_wide(t, scaled, weights, pairs, SCORES), sums, SCORES);
    const vram_cell names[] = {keys, q, q32, active, scaled, weights, sum};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    t->no_grad = false;
}

/* Scores of all keys and one sink, which is fp32, in a row; softmax; the keys' share in 16 bit */
static vram_cell attended(const block *b, vram_cell q, vram_cell kv, double keys)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double heads = (double)a->heads, d = (double)a->head_dim, s = b->pass->tokens;
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, b->pass->batch};
    vram_size pairs = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, keys), more = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, keys + 1);
    vram_size out = ROWS_BY_2(b, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_HEAD_DIM, d), spread_keys = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_KEYS, keys, VRAM_SYMBOL_HEAD_DIM, d);
    bool copies = b->pass->batch > 1;
    vram_cell k = copies ? vram_op_repeat(t, kv, spread_keys, VRAM_WHAT_REPEATED_KEYS) : vram_op_slice(t, kv, spread_keys, VRAM_WHAT_REPEATED_KEYS); /* made by the product itself */
    vram_cell scores = vram_op_masked(t, vram_op_constant(t, vram_op_matmul(t, q, k, pairs, SCORES), 0, SCORES), vram_stream_width(b->pass), SCORES);
    bool gathered = vram_is_fsdp(b->pass->scenario) && b->pass->scenario->training.precision == VRAM_PRECISION_MIXED; /* in 16 bit, the sinks too */
    vram_cell joined = vram_op_join(t, scores, VRAM_NO_CELL, more, SCORES), less = vram_op_shift(t, gathered ? joined : vram_op_cast(t, joined, 4, SCORES), SCORES);
    vram_cell all = vram_op_softmax(t, less, VRAM_WHAT_ATTENTION_PROBABILITIES), share = vram_op_cast(t, vram_op_slice(t, all, pairs, VRAM_WHAT_ATTENTION_PROBABILITIES), vram_width(t, kv), VRAM_WHAT_ATTENTION_PROBABILITIES);
    vram_tape_hold(t, scores);
    vram_cell v = copies ? vram_op_repeat(t, kv, spread_keys, VRAM_WHAT_REPEATED_VALUES) : vram_op_slice(t, kv, spread_keys, VRAM_WHAT_REPEATED_VALUES);
    vram_cell y = vram_op_copy(t, vram_op_matmul(t, share, v, out, VRAM_WHAT_ATTENTION_OUTPUT), out, VRAM_WHAT_ATTENTION_OUTPUT);
    const vram_cell names[] = {less, all, share};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}

static vram_cell attention(const block *b, vram_cell x)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, heads = (double)a->heads, d = (double)a->head_dim, rank = (double)a->q_lora_rank, rope = (double)a->qk_rope_head_dim, keys = b->pass->tokens, low_out = (double)(a->o_groups * a->o_lora_rank);
    vram_size whole = ROWS_BY_2(b, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_HEAD_DIM, d), one = ROWS_BY_2(b, VRAM_SYMBOL_KV_HEADS, 1, VRAM_SYMBOL_HEAD_DIM, d), grouped = vram_part_wide(b, VRAM_SYMBOL_WIDTH, low_out);
    vram_cell low = vram_part_norm(b, vram_part_linear(b, x, "q_a_proj", rank, h, vram_part_wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_QUERY), b->rows, rank);
    vram_cell q = bare_norm(b, vram_op_transposed(t, vram_part_linear(b, low, "q_b_proj", heads * d, rank, whole, VRAM_WHAT_QUERY)), ROWS_BY(b, VRAM_SYMBOL_HEADS, heads));
    q = vram_part_turned(b, q, heads, d, rope, VRAM_WHAT_QUERY);
    vram_cell kv = vram_part_turned(b, vram_part_norm(b, vram_part_linear(b, x, "kv_proj", d, h, one, VRAM_WHAT_KEY), b->rows, d), 1, d, rope, VRAM_WHAT_KEY), mask = VRAM_NO_CELL;
    if (a->compress_ratio > 0 && keys >= (double)a->compress_ratio) {
        vram_cell past = compressed(b, x, d, a->index_heads > 0);
        if (a->index_heads > 0) lightning_index(b, x, low);
        keys += vram_floor_div(keys, (double)a->compress_ratio);
        kv = vram_op_join(t, kv, past, SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_KEYS, keys, VRAM_SYMBOL_HEAD_DIM, d), VRAM_WHAT_KEY);
        mask = vram_op_constant(t, vram_tape_outside(t, ROWS_BY(b, VRAM_SYMBOL_KEYS, keys), vram_stream_width(b->pass), VRAM_WHAT_CAUSAL_MASK), 0, VRAM_WHAT_CAUSAL_MASK);
    }
    vram_cell y = attended(b, q, kv, keys), turned = vram_part_turned(b, y, heads, d, rope, VRAM_WHAT_ATTENTION_OUTPUT), in = vram_op_copy(t, turned, whole, VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell low_y = vram_op_copy(t, vram_op_matmul(t, in, vram_part_vector(b, low_out * heads * d / (double)a->o_groups), grouped, VRAM_WHAT_ATTENTION_OUTPUT), grouped, VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell out = vram_part_linear(b, low_y, "o_b_proj", h, low_out, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    const vram_cell names[] = {x, low, q, kv, mask, turned, in, low_y};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return out;
}

vram_cell vram_v4_layer(const block *b, vram_cell x)
{
    double h = (double)b->pass->model->hidden;
    vram_cell post, comb, in = connection(b, x, &post, &comb), out = attention(b, vram_part_norm(b, in, b->rows, h)), y = spread(b, x, out, post, comb);
    const vram_cell first[] = {post, comb, in};
    vram_part_hold(b, 3, first);
    in = connection(b, y, &post, &comb);
    vram_cell fed = vram_part_mlp(b, vram_part_norm(b, in, b->rows, h)), z = spread(b, y, fed, post, comb);
    const vram_cell names[] = {out, y, post, comb, in, fed};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return z;
}

/* The words in every stream */
vram_cell vram_v4_embeddings(const block *b, vram_cell words) { return vram_op_repeat(b->t, words, vram_v4_stream_size(b), MIXING); }

/* DeepseekV4HyperHead */
vram_cell vram_v4_collapsed(const block *b, vram_cell x) { return collapsed(b, x, weights_of(b, mixes(b, x, vram_v4_streams(b->pass->model)))); }
