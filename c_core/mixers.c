/* mixers.c -- state-space mixers as programs of operations, as transformers runs them where no kernel package is installed.
 *
 * Two rules carry almost all families: Mamba-2's chunks (one function in six of them) and the gated delta rule's. What a family does
 * before and after is a row or a branch. Tokens are padded to whole chunks; what is made inside a chunk is a number for each pair of
 * its tokens and each head. Source: transformers 5, models/mamba2, falcon_h1, qwen3_next, qwen3_5, olmo_hybrid, kimi_linear, mamba, jamba.
 * A pass of one token goes by the update of the state instead. */
#include "parts.h"

#include <string.h>

static const vram_what MADE = VRAM_WHAT_STATE_ACTIVATIONS, SCORES = VRAM_WHAT_STATE_SCORES, DECAYS = VRAM_WHAT_STATE_DECAYS, STATES = VRAM_WHAT_CHUNK_STATES;
enum { DELTA_CHUNK = 64 };

static double one_or(double x) { return x > 0 ? x : 1; }

/* tokens x heads x width, and the same with the tokens padded to chunks */
static vram_size heads_of(const block *b, double tokens, double heads, double width)
{
    return SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, tokens, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_WIDTH, width);
}

static vram_size states_of(const block *b, double count, double heads, double width, double state)
{
    return SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch * count, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_WIDTH, width, VRAM_SYMBOL_STATE, state);
}

/* exp and softplus run in fp32 under autocast */
static vram_cell wide_exp(const block *b, vram_cell x) { return b->t->autocast ? vram_op_cast(b->t, x, 4, DECAYS) : x; }

static vram_cell silu(const block *b, vram_cell x, vram_what what) { return vram_op_unary(b->t, x, true, false, 0, what); }

/* causal_conv1d_fn: a depthwise convolution in the type of its weights over channels-first copies, one kernel less one column longer than the
 * input; then its activation; in the type of the input again */
static vram_cell convolved(const block *b, vram_cell x, double channels, bool active)
{
    double kernel = (double)b->layer->state.conv_kernel;
    vram_size longer = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, b->pass->tokens + kernel - 1, VRAM_SYMBOL_WIDTH, channels);
    vram_cell weight = vram_part_vector(b, channels * kernel), bias = b->layer->state.conv_bias ? vram_part_vector(b, channels) : VRAM_NO_CELL;
    vram_cell y = vram_op_convolution(b->t, vram_op_cast(b->t, x, b->pass->plain_width, MADE), weight, bias, longer, MADE), part = vram_op_slice(b->t, y, vram_part_wide(b, VRAM_SYMBOL_WIDTH, channels), MADE);
    return vram_op_cast(b->t, active ? silu(b, part, MADE) : part, vram_width(b->t, x), MADE);
}

/* An einsum: autocast comes first, then operands that do not lie as the product wants them are copied */
static vram_cell operand(const block *b, vram_cell x, bool copy, vram_what what)
{
    vram_cell in = b->t->autocast ? vram_op_cast(b->t, x, 2, VRAM_WHAT_AUTOCAST_INPUT) : x;
    return copy ? vram_op_copy(b->t, in, b->t->cell[x].shape, what) : in;
}

static vram_cell product(const block *b, vram_cell x, vram_cell y, bool copy_x, bool copy_y, vram_size out, vram_what what)
{
    vram_cell left = operand(b, x, copy_x, what), right = operand(b, y, copy_y, what);
    return vram_op_matmul(b->t, left, right, out, what);
}

/* ------------------------------------------------------------------------------------------------------------- Mamba-2 -- */

/* segment_sum: spread over pairs, masked, summed, masked; then exp */
static vram_cell segments(const block *b, vram_cell x, vram_size pairs)
{
    vram_tape *t = b->t;
    vram_cell masked = vram_op_gather(t, x, pairs, DECAYS), sums = vram_op_unary(t, masked, false, false, 2, DECAYS), again = vram_op_constant(t, sums, 4, DECAYS);
    vram_tape_hold(t, masked);
    return vram_op_unary(t, again, false, true, 0, DECAYS);
}

typedef struct { double heads, width, state, groups, tokens, padded, chunk, chunks; } mamba2_shape;

static mamba2_shape mamba2_shape_of(const block *b)
{
    const vram_state *s = &b->layer->state;
    mamba2_shape m = {.heads = (double)s->heads, .width = (double)s->head_dim, .state = (double)s->state, .groups = (double)s->groups, .tokens = b->pass->tokens, .chunk = one_or((double)s->chunk)};
    m.chunks = vram_ceil_div(m.tokens, m.chunk);
    m.padded = m.chunks * m.chunk;
    return m;
}

/* fp32, each group's repeated for its heads */
static vram_cell repeated(const block *b, vram_cell x, const mamba2_shape *m)
{
    return vram_op_repeat(b->t, vram_op_cast(b->t, x, 4, MADE), heads_of(b, m->tokens, m->heads, m->state), MADE);
}

/* mamba2_chunk_scan: x, dt, B, C of a layer. *final: the view of all chunks' states that the cache's copy is taken from. */
static vram_cell mamba2_scan(const block *b, vram_cell x, vram_cell dt, vram_cell B, vram_cell C, vram_cell *final)
{
    const mamba2_shape m = mamba2_shape_of(b);
    vram_tape *t = b->t;
    vram_size wide = heads_of(b, m.padded, m.heads, m.width), keys = heads_of(b, m.padded, m.heads, m.state), small = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, m.padded, VRAM_SYMBOL_HEADS, m.heads);
    vram_size pairs = heads_of(b, m.padded, m.heads, m.chunk), states = states_of(b, m.chunks, m.heads, m.width, m.state), more = states_of(b, m.chunks + 1, m.heads, m.width, m.state);
    vram_size between = SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_HEADS, m.heads, VRAM_SYMBOL_BLOCKS, m.chunks + 1, VRAM_SYMBOL_BLOCKS, m.chunks + 1);
    vram_cell bias = vram_part_vector(b, m.heads), D = vram_part_vector(b, m.heads), A_log = vram_part_vector(b, m.heads);
    dt = vram_op_unary(t, vram_op_unary(t, vram_op_add(t, dt, bias, MADE), true, false, 0, MADE), true, false, 0, MADE);
    vram_cell h = vram_op_cast(t, x, 4, MADE), b_all = repeated(b, B, &m), c_all = repeated(b, C, &m);
    vram_cell skip = vram_op_mul_weight(t, D, vram_op_copy(t, h, wide, MADE), MADE);
    vram_cell scaled = vram_op_mul_rows(t, h, vram_op_cast(t, dt, 4, MADE), MADE);
    vram_cell a = vram_op_mul_weight(t, A_log, vram_op_cast(t, dt, 4, MADE), MADE);
    const vram_cell unpadded[] = {scaled, a, b_all, c_all};
    vram_cell hidden = vram_op_copy(t, scaled, wide, MADE), decay = vram_op_copy(t, a, small, MADE), keys_in = vram_op_copy(t, b_all, keys, MADE), keys_out = vram_op_copy(t, c_all, keys, MADE);
    vram_part_hold(b, 4, unpadded);
    vram_cell sums = vram_op_unary(t, decay, false, false, 2, DECAYS), within = segments(b, decay, pairs);
    bool several = b->pass->batch * m.chunks > 1; /* else the heads are what a product of many is over, wherever they lie */
    vram_cell scores = product(b, keys_out, keys_in, several, several, pairs, SCORES), weighed = vram_op_mul(t, scores, within, SCORES);
    vram_cell diagonal = product(b, weighed, hidden, false, true, wide, MADE);
    vram_cell left = vram_op_unary(t, vram_op_unary(t, sums, false, false, 0, DECAYS), false, true, 0, DECAYS), decayed = vram_op_mul_rows(t, keys_in, left, MADE);
    vram_cell each = product(b, hidden, decayed, true, several, states, STATES);
    vram_cell first = vram_op_constant(t, vram_tape_outside(t, states_of(b, 1, m.heads, m.width, m.state), 4, STATES), 4, STATES), joined = vram_op_join(t, first, each, more, STATES);
    vram_cell chunk_decay = segments(b, sums, between);
    vram_cell all = vram_op_matmul(t, chunk_decay, joined, more, STATES);
    vram_cell before = vram_op_slice(t, all, states, STATES), out_decay = vram_op_unary(t, sums, false, true, 0, DECAYS);
    vram_cell read = product(b, keys_out, before, true, true, wide, MADE), off = vram_op_mul_rows(t, read, out_decay, MADE);
    vram_cell sum = vram_op_copy(t, vram_op_add(t, diagonal, off, MADE), wide, MADE), y = vram_op_add(t, sum, skip, MADE);
    const vram_cell names[] = {dt, hidden, decay, keys_in, keys_out, sums, within, scores, weighed, diagonal, left, decayed, first, all, chunk_decay, out_decay, read, off, skip};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    *final = all;
    return vram_op_slice(t, y, heads_of(b, m.tokens, m.heads, m.width), MADE);
}

/* MambaRMSNormGated: in fp32, the gate before the norm */
static vram_cell gated_norm(const block *b, vram_cell x, vram_cell gate, double groups)
{
    vram_tape *t = b->t;
    double width = (double)b->layer->state.inner;
    vram_cell in = vram_op_mul(t, vram_op_cast(t, x, 4, MADE), silu(b, vram_op_cast(t, gate, 4, MADE), MADE), MADE);
    vram_cell mean = vram_op_mean(t, vram_op_square(t, in), vram_part_wide(b, VRAM_SYMBOL_GROUPS, groups));
    vram_cell normed = vram_op_mul_rows(t, in, vram_op_rsqrt(t, vram_op_constant(t, mean, 4, MADE)), VRAM_WHAT_NORMALISED);
    vram_tape_hold(t, in);
    return vram_op_mul_weight(t, vram_part_vector(b, width), normed, VRAM_WHAT_NORM_OUTPUT);
}

/* mamba2_selective_state_update, for one token: dA, dB x, the new state, and the state in its products */
static vram_cell mamba2_update(const block *b, vram_cell x)
{
    const mamba2_shape m = mamba2_shape_of(b);
    vram_tape *t = b->t;
    vram_size state = states_of(b, 1, m.heads, m.width, m.state);
    vram_cell made[3], first = vram_op_constant(t, vram_tape_outside(t, state, 4, STATES), 4, STATES);
    for (int i = 0; i < 3; i++) made[i] = vram_op_constant(t, vram_tape_outside(t, state, vram_width(t, x), STATES), 0, STATES);
    vram_cell y = vram_op_matmul(t, made[2], x, t->cell[x].shape, MADE);
    vram_tape_hold(t, first);
    vram_part_hold(b, 3, made);
    return y;
}

static vram_cell mamba2(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double inner = (double)s->inner, keys = (double)(s->groups * s->state), channels = inner + 2 * keys, rows = inner + channels + (double)s->heads, h = (double)b->pass->model->hidden;
    vram_size part[3] = {vram_part_wide(b, VRAM_SYMBOL_WIDTH, inner), vram_part_wide(b, VRAM_SYMBOL_WIDTH, channels), vram_part_wide(b, VRAM_SYMBOL_HEADS, (double)s->heads)};
    vram_size inside[3] = {part[0], vram_part_wide(b, VRAM_SYMBOL_STATE, keys), vram_part_wide(b, VRAM_SYMBOL_STATE, keys)};
    vram_cell in = b->style.scaled_state ? vram_op_constant(t, x, 0, MADE) : x, of[3], xBC[3], final = VRAM_NO_CELL, y;
    vram_cell projected = vram_part_linear(b, in, vram_or_else(n->state_in, "in_proj"), rows, h, vram_part_wide(b, VRAM_SYMBOL_WIDTH, rows), MADE);
    if (b->style.scaled_state) projected = vram_op_constant(t, projected, vram_part_is_cast(b) && !b->pass->lora ? 4 : b->pass->plain_width, MADE); /* by mup_vector, a buffer */
    vram_op_split(t, projected, 3, part, of); /* gate; x, B, C; dt */
    if (b->pass->tokens <= 1) y = mamba2_update(b, of[0]);
    else {
        vram_cell convolution = convolved(b, of[1], channels, true);
        vram_op_split(t, convolution, 3, inside, xBC);
        vram_tape_hold(t, in);
        y = mamba2_scan(b, xBC[0], of[2], xBC[1], xBC[2], &final);
        vram_tape_hold(t, convolution);
    }
    vram_cell scanned = y;
    if (s->gated_norm) y = gated_norm(b, y, of[0], (double)s->groups);
    else y = vram_op_mul(t, y, silu(b, of[0], MADE), MADE);
    vram_cell out = vram_part_linear(b, vram_op_cast(t, y, vram_width(t, x), MADE), vram_or_else(n->state_out, "out_proj"), h, inner, b->hidden, MADE);
    const vram_cell names[] = {x, projected, final, scanned, y};
    vram_part_hold(b, 5, names);
    return out;
}

/* ------------------------------------------------------------------------------------------------------ gated delta rule -- */

/* l2norm: x / sqrt(sum of squares) */
static vram_cell unit(const block *b, vram_cell x, vram_size rows)
{
    vram_tape *t = b->t;
    vram_cell sum = vram_op_mean(t, vram_op_mul(t, x, x, MADE), rows);
    return vram_op_mul_rows(t, x, vram_op_rsqrt(t, vram_op_constant(t, sum, 4, MADE)), MADE);
}

typedef struct { double heads, key, value, padded, chunks; vram_size small, keys, values, pairs; } delta_shape;

static delta_shape delta_shape_of(const block *b)
{
    const vram_state *s = &b->layer->state;
    delta_shape d = {.heads = (double)s->heads, .key = (double)(s->key_head_dim > 0 ? s->key_head_dim : s->head_dim), .value = (double)s->head_dim, .chunks = vram_ceil_div(b->pass->tokens, DELTA_CHUNK)};
    d.padded = d.chunks * DELTA_CHUNK;
    d.small = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, d.padded, VRAM_SYMBOL_HEADS, d.heads);
    d.keys = heads_of(b, d.padded, d.heads, d.key);
    d.values = heads_of(b, d.padded, d.heads, d.value);
    d.pairs = heads_of(b, d.padded, d.heads, DELTA_CHUNK);
    return d;
}

/* exp(difference) of each pair of a chunk's tokens: the difference, masked, exp */
static vram_cell pair_decays(const block *b, vram_cell sums, vram_size pairs)
{
    vram_tape *t = b->t;
    vram_cell differences = vram_op_gather(t, sums, pairs, DECAYS);
    return vram_op_unary(t, vram_op_constant(t, differences, 4, DECAYS), false, true, 0, DECAYS);
}

static vram_chunk_sizes scan_sizes(const block *b, const delta_shape *d)
{
    vram_chunk_sizes sizes = {.parts_width = 4};
    sizes.state = states_of(b, 1, d->heads, d->key, d->value);
    sizes.states = states_of(b, d->chunks, d->heads, d->key, d->value);
    sizes.part = SIZE_4(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, DELTA_CHUNK, VRAM_SYMBOL_HEADS, d->heads, VRAM_SYMBOL_WIDTH, d->value);
    sizes.parts = d->values;
    return sizes;
}

static vram_cell copied(const block *b, vram_cell x, vram_size size, bool copy) { return copy ? vram_op_copy(b->t, x, size, MADE) : x; }

/* torch_chunk_gated_delta_rule: q, k, v as they come from the convolution; decay in fp32, beta in the type of the stream */
static vram_cell delta_rule(const block *b, const vram_cell qkv[3], vram_cell decay, vram_cell beta)
{
    const vram_state *s = &b->layer->state;
    const delta_shape d = delta_shape_of(b);
    vram_tape *t = b->t;
    int narrow = vram_width(t, qkv[0]);
    vram_size rows = vram_part_wide(b, VRAM_SYMBOL_HEADS, d.heads), keys = heads_of(b, b->pass->tokens, d.heads, d.key), values = heads_of(b, b->pass->tokens, d.heads, d.value);
    bool repeats = s->key_heads != s->heads;
    vram_cell q = repeats ? vram_op_repeat(t, qkv[0], keys, MADE) : qkv[0], k = repeats ? vram_op_repeat(t, qkv[1], keys, MADE) : qkv[1];
    vram_cell q32 = vram_op_cast(t, q, 4, MADE), k32 = vram_op_cast(t, k, 4, MADE), v32 = vram_op_cast(t, qkv[2], 4, MADE), beta32 = vram_op_cast(t, beta, 4, MADE);
    vram_tape_hold(t, q);
    vram_tape_hold(t, k);
    vram_cell unit_q = unit(b, q32, rows), unit_k = unit(b, k32, rows), scaled = vram_op_constant(t, unit_q, 0, MADE);
    vram_cell query = vram_op_copy(t, scaled, d.keys, MADE), key = vram_op_copy(t, unit_k, d.keys, MADE), value = vram_op_copy(t, v32, d.values, MADE);
    const vram_cell unpadded[] = {scaled, unit_k, v32};
    vram_part_hold(b, 3, unpadded);
    vram_cell beta_all = vram_op_copy(t, beta32, d.small, MADE), decay_all = vram_op_copy(t, decay, d.small, MADE);
    vram_tape_hold(t, beta32);
    vram_cell v_beta = vram_op_mul_rows(t, value, beta_all, MADE), k_beta = vram_op_mul_rows(t, key, beta_all, MADE);
    vram_cell sums = vram_op_unary(t, decay_all, false, false, 2, DECAYS), pairwise = pair_decays(b, sums, d.pairs);
    bool by_token = narrow == 4 && !t->autocast && d.padded == b->pass->tokens; /* neither a cast nor padding has put the heads in order: products copy what they take */
    vram_cell system = vram_op_mul(t, vram_op_matmul(t, copied(b, k_beta, d.keys, by_token), copied(b, key, d.keys, by_token), d.pairs, SCORES), pairwise, SCORES);
    vram_cell within = vram_op_mul(t, vram_op_matmul(t, copied(b, query, d.keys, by_token), copied(b, key, d.keys, by_token), d.pairs, SCORES), pairwise, SCORES);
    vram_cell decayed = vram_op_mul_rows(t, k_beta, vram_op_unary(t, sums, false, true, 0, DECAYS), MADE);
    vram_cell fresh = vram_op_solve(t, system, v_beta, MADE), kept = vram_op_solve(t, system, decayed, MADE);
    vram_chunk_sizes sizes = scan_sizes(b, &d);
    sizes.casts = t->autocast;
    if (by_token && b->pass->batch > 1) sizes.copied = 1u << 2 | 1u << 4; /* query, key */
    vram_cell state = vram_op_constant(t, vram_tape_outside(t, sizes.state, 4, STATES), 4, STATES), core = vram_op_constant(t, vram_tape_outside(t, d.values, 4, MADE), 4, MADE);
    query = vram_op_mul_rows(t, query, vram_op_unary(t, sums, false, true, 0, DECAYS), MADE);
    key = vram_op_mul_rows(t, key, vram_op_unary(t, vram_op_unary(t, sums, false, false, 0, DECAYS), false, true, 0, DECAYS), MADE);
    const vram_cell in[] = {fresh, kept, query, within, key};
    vram_cell y = vram_op_chunk_scan(t, core, state, 5, in, &sizes, MADE);
    vram_cell back = vram_op_cast(t, vram_op_slice(t, y, values, MADE), narrow, MADE);
    const vram_cell names[] = {query, key, value, v_beta, k_beta, beta_all, decay_all, sums, pairwise, system, within, decayed, fresh, kept, core, y};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return back;
}

/* RMSNormGated over a head: norm, weight in the stream's type, times act(gate) in fp32 */
static vram_cell head_gated_norm(const block *b, vram_cell x, vram_cell gate)
{
    vram_tape *t = b->t;
    int narrow = vram_width(t, x);
    double heads = (double)b->layer->state.heads;
    vram_cell in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), mean = vram_op_mean(t, vram_op_square(t, in), vram_part_wide(b, VRAM_SYMBOL_HEADS, heads));
    vram_cell normed = vram_op_mul_rows(t, in, vram_op_rsqrt(t, vram_op_constant(t, mean, 4, VRAM_WHAT_NORM_STATISTICS)), VRAM_WHAT_NORMALISED);
    bool wide = b->layer->state.type == VRAM_STATE_KDA; /* weight and all in fp32, the gate a sigmoid */
    vram_cell weight = vram_part_vector(b, (double)b->layer->state.head_dim), gate32 = vram_op_cast(t, gate, 4, MADE);
    vram_cell weighed = vram_op_mul_weight(t, wide ? vram_op_cast(t, weight, 4, MADE) : weight, wide ? normed : vram_op_cast(t, normed, narrow, VRAM_WHAT_NORMALISED), VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, normed);
    vram_cell y = vram_op_mul(t, weighed, wide ? vram_op_unary(t, gate32, false, true, 0, MADE) : silu(b, gate32, MADE), VRAM_WHAT_NORM_OUTPUT), back = vram_op_cast(t, y, narrow, VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, x);
    vram_tape_hold(t, mean);
    return back;
}

typedef struct { vram_cell mixed, gate, beta, decay, held[5]; } delta_inputs;

static vram_cell simple(const block *b, vram_cell x, const char *name, double rows)
{
    return vram_part_linear(b, x, name, rows, (double)b->pass->model->hidden, vram_part_wide(b, VRAM_SYMBOL_WIDTH, rows), MADE);
}

/* qkv, z, beta and decay: from two linear layers whose rows lie head by head and are copied apart, from four, or from six */
static delta_inputs delta_project(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double key = (double)(s->key_heads * s->key_head_dim), value = (double)(s->heads * s->head_dim), heads = (double)s->heads;
    vram_size whole = vram_part_wide(b, VRAM_SYMBOL_WIDTH, 2 * key + value), parts[4] = {vram_part_wide(b, VRAM_SYMBOL_WIDTH, key), vram_part_wide(b, VRAM_SYMBOL_WIDTH, key), vram_part_wide(b, VRAM_SYMBOL_WIDTH, value), vram_part_wide(b, VRAM_SYMBOL_WIDTH, value)};
    vram_size few = vram_part_wide(b, VRAM_SYMBOL_HEADS, heads);
    delta_inputs d = {.held = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL}, .gate = VRAM_NO_CELL};
    if (s->projections == VRAM_PROJECTIONS_FUSED) {
        bool apart = s->heads != s->key_heads; /* a key head's value heads lie together: a view, when there is one */
        vram_cell all = simple(b, x, "in_proj_qkvz", 2 * key + 2 * value), ba = simple(b, x, "in_proj_ba", 2 * heads), of[4], copies[4];
        vram_op_split(t, all, 4, parts, of);
        copies[2] = copied(b, of[2], parts[2], apart);
        copies[3] = copied(b, of[3], parts[3], apart);
        d.beta = copied(b, vram_op_slice(t, ba, few, MADE), few, apart);
        d.decay = copied(b, vram_op_slice(t, ba, few, MADE), few, apart);
        copies[0] = vram_op_copy(t, of[0], parts[0], MADE);
        copies[1] = vram_op_copy(t, of[1], parts[1], MADE);
        d.mixed = vram_op_join_all(t, 3, copies, whole, MADE);
        d.gate = copies[3];
        const vram_cell held[] = {all, copies[0], copies[1], copies[2], ba};
        memcpy(d.held, held, sizeof held);
        return d;
    }
    if (s->projections == VRAM_PROJECTIONS_SPLIT) {
        d.mixed = simple(b, x, "in_proj_qkv", 2 * key + value);
        d.gate = simple(b, x, "in_proj_z", value);
        d.beta = simple(b, x, "in_proj_b", heads);
        d.decay = simple(b, x, "in_proj_a", heads);
        return d;
    }
    const vram_cell list[3] = {simple(b, x, "q_proj", key), simple(b, x, "k_proj", key), simple(b, x, "v_proj", value)};
    d.mixed = vram_op_join_all(t, 3, list, whole, MADE);
    return d;
}

/* One token: the state decayed, read, added to, read; three of its size at once */
static vram_cell state_update(const block *b, vram_size state, vram_cell x)
{
    vram_tape *t = b->t;
    vram_cell made[3];
    for (int i = 0; i < 3; i++) made[i] = vram_op_constant(t, vram_tape_outside(t, state, 4, STATES), 4, STATES);
    vram_cell y = vram_op_constant(t, x, 0, MADE);
    vram_part_hold(b, 3, made);
    return y;
}

static vram_cell delta_update(const block *b, vram_cell x)
{
    const delta_shape d = delta_shape_of(b);
    return state_update(b, states_of(b, 1, d.heads, d.key, d.value), x);
}

/* decay of the fp32 input: -exp(A) softplus(a + bias) */
static vram_cell delta_decay(const block *b, vram_cell a)
{
    vram_tape *t = b->t;
    double heads = (double)b->layer->state.heads;
    vram_cell wide = vram_op_mul_weight(t, vram_part_vector(b, heads), vram_op_cast(t, a, 4, DECAYS), DECAYS);
    return vram_op_mul_weight(t, vram_part_vector(b, heads), vram_op_unary(t, wide, true, false, 0, DECAYS), DECAYS);
}

static vram_cell gated_delta(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    bool separate = s->projections == VRAM_PROJECTIONS_SEPARATE;
    double key = (double)(s->key_heads * s->key_head_dim), value = (double)(s->heads * s->head_dim), channels = 2 * key + value, heads = (double)s->heads;
    vram_size parts[3] = {vram_part_wide(b, VRAM_SYMBOL_WIDTH, key), vram_part_wide(b, VRAM_SYMBOL_WIDTH, key), vram_part_wide(b, VRAM_SYMBOL_WIDTH, value)};
    delta_inputs d = delta_project(b, x);
    vram_cell qkv[3], y, convolution = VRAM_NO_CELL;
    if (b->pass->tokens <= 1) {
        y = delta_update(b, d.mixed);
    } else {
        convolution = convolved(b, d.mixed, channels, true);
        vram_part_hold(b, 5, d.held);
        vram_tape_hold(t, d.mixed);
        vram_op_split(t, convolution, 3, parts, qkv);
        vram_cell beta = vram_op_unary(t, separate ? simple(b, x, "b_proj", heads) : d.beta, false, true, 0, MADE);
        vram_cell decay = delta_decay(b, separate ? simple(b, x, "a_proj", heads) : d.decay);
        y = delta_rule(b, qkv, decay, beta);
        vram_tape_hold(t, beta);
        vram_tape_hold(t, decay);
    }
    if (separate) d.gate = simple(b, x, "g_proj", value);
    vram_cell normed = head_gated_norm(b, y, d.gate);
    vram_cell out = vram_part_linear(b, normed, separate ? "o_proj" : "out_proj", (double)b->pass->model->hidden, value, b->hidden, MADE);
    const vram_cell names[] = {x, d.held[0], convolution, d.gate, normed};
    vram_part_hold(b, 5, names);
    return out;
}

/* --------------------------------------------------------------------------------------------------- Kimi delta attention -- */

/* KimiLinearForgetGate: two linear layers, then softplus written out in fp32 */
static vram_cell forget_gate(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double width = (double)s->inner;
    vram_size rows = vram_part_wide(b, VRAM_SYMBOL_WIDTH, width);
    vram_cell low = s->low_rank_gates ? simple(b, x, "f_a_proj", (double)s->head_dim) : x;
    vram_cell gate = s->low_rank_gates ? vram_part_linear(b, low, "f_b_proj", width, (double)s->head_dim, rows, DECAYS) : simple(b, x, "f_proj", width);
    vram_cell g = vram_op_mul_weight(t, vram_part_vector(b, width), vram_op_cast(t, gate, 4, DECAYS), DECAYS);
    vram_cell log = vram_op_unary(t, vram_op_shift(t, vram_op_unary(t, g, false, true, 0, DECAYS), DECAYS), true, false, 0, DECAYS), chosen = vram_op_add(t, g, log, DECAYS);
    vram_tape_hold(t, gate);
    return vram_op_mul_weight(t, vram_part_vector(b, (double)s->heads), chosen, DECAYS);
}

/* chunk_kimi_delta_attention: a decay for each channel, so that a pair of a chunk's tokens has as many numbers as a key */
static vram_cell kimi_rule(const block *b, const vram_cell qkv[3], vram_cell decay, vram_cell beta)
{
    const delta_shape d = delta_shape_of(b);
    vram_tape *t = b->t;
    int narrow = vram_width(t, qkv[0]);
    vram_size rows = vram_part_wide(b, VRAM_SYMBOL_HEADS, d.heads), plain = t->cell[qkv[0]].shape, whole = heads_of(b, d.padded, d.heads, DELTA_CHUNK * d.key);
    vram_cell in[3], of[3];
    for (int i = 0; i < 3; i++) in[i] = vram_op_cast(t, vram_op_copy(t, qkv[i], plain, MADE), 4, MADE);
    vram_cell beta32 = vram_op_cast(t, beta, 4, MADE), g = vram_op_copy(t, decay, plain, DECAYS);
    vram_cell q = unit(b, in[0], rows), k = unit(b, in[1], rows);
    of[0] = vram_op_constant(t, vram_op_copy(t, q, d.keys, MADE), 0, MADE);
    vram_tape_hold(t, q);
    of[1] = vram_op_copy(t, k, d.keys, MADE);
    of[2] = vram_op_copy(t, in[2], d.values, MADE);
    vram_cell padded_g = vram_op_copy(t, g, d.keys, DECAYS), beta_all = vram_op_copy(t, beta32, d.small, MADE);
    vram_cell v_beta = vram_op_mul_rows(t, of[2], beta_all, MADE), k_beta = vram_op_mul_rows(t, of[1], beta_all, MADE), sums = vram_op_unary(t, padded_g, false, false, 2, DECAYS);
    vram_cell pairwise = pair_decays(b, sums, whole);
    vram_cell together = vram_op_mul_wide(t, k_beta, of[1], whole, SCORES), weighed = vram_op_mul(t, together, pairwise, SCORES);
    vram_cell sum = vram_op_copy(t, weighed, d.pairs, SCORES); /* the gradient is spread by a view */
    enum { LINES = 2016, SQUARES = 85344 }; /* sums of i and i^2, i = 1 .. 63: clones of each row and of what stands above it */
    vram_cell system = vram_op_keeping(t, sum, heads_of(b, d.chunks, d.heads, LINES + SQUARES), SCORES);
    vram_cell fresh = vram_op_matmul(t, system, v_beta, d.values, MADE), kept = vram_op_matmul(t, system, vram_op_mul(t, k_beta, vram_op_unary(t, sums, false, true, 0, DECAYS), MADE), d.keys, MADE);
    vram_chunk_sizes sizes = scan_sizes(b, &d);
    const vram_size saved[] = {heads_of(b, 4 * d.padded, d.heads, d.key), whole, d.pairs}; /* decays and products with them; products of pairs, and their sums */
    sizes.saves = 3;
    memcpy(sizes.save, saved, sizeof saved);
    sizes.pairs = true;
    sizes.wide = heads_of(b, DELTA_CHUNK, d.heads, DELTA_CHUNK * d.key);
    vram_cell state = vram_op_constant(t, vram_tape_outside(t, sizes.state, 4, STATES), 4, STATES), core = vram_op_constant(t, vram_tape_outside(t, d.values, 4, MADE), 4, MADE);
    const vram_cell scanned[] = {fresh, kept, of[0], pairwise, of[1]};
    vram_cell y = vram_op_chunk_scan(t, core, state, 5, scanned, &sizes, MADE), back = vram_op_cast(t, vram_op_copy(t, y, plain, MADE), narrow, MADE);
    const vram_cell names[] = {of[0], of[1], v_beta, k_beta, beta_all, sums, pairwise, system, fresh, kept, core};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return back;
}

static vram_cell kimi_delta(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double width = (double)s->inner;
    vram_size part = vram_part_wide(b, VRAM_SYMBOL_WIDTH, width), parts[3] = {part, part, part};
    const vram_cell in[3] = {simple(b, x, "q_proj", width), simple(b, x, "k_proj", width), simple(b, x, "v_proj", width)};
    vram_cell mixed = vram_op_join_all(t, 3, in, vram_part_wide(b, VRAM_SYMBOL_WIDTH, 3 * width), MADE), qkv[3], y, names[3] = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL};
    if (b->pass->tokens <= 1) {
        y = delta_update(b, mixed);
    } else {
        names[0] = convolved(b, mixed, 3 * width, true);
        vram_tape_hold(t, mixed);
        vram_op_split(t, names[0], 3, parts, qkv);
        names[1] = forget_gate(b, x);
        names[2] = vram_op_unary(t, simple(b, x, "b_proj", (double)s->heads), false, true, 0, MADE);
        y = kimi_rule(b, qkv, names[1], names[2]);
    }
    vram_cell low = s->low_rank_gates ? simple(b, x, "g_a_proj", (double)s->head_dim) : x;
    vram_cell gate = s->low_rank_gates ? vram_part_linear(b, low, "g_b_proj", width, (double)s->head_dim, part, MADE) : simple(b, x, "g_proj", width);
    vram_cell normed = head_gated_norm(b, y, gate), out = vram_part_linear(b, normed, "o_proj", (double)b->pass->model->hidden, width, b->hidden, MADE);
    vram_part_hold(b, 3, names);
    vram_tape_hold(t, gate);
    vram_tape_hold(t, x);
    return out;
}

/* ------------------------------------------------------------------------------------------------------------- Mamba-1 -- */

/* mamba_selective_scan: decay, input and their product for every token, channel and number of the state, in fp32; then token by token */
static vram_cell mamba1_scan(const block *b, vram_cell x, vram_cell step, vram_cell B, vram_cell C, double inner)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double numbers = (double)s->state;
    vram_size whole = ROWS_BY_2(b, VRAM_SYMBOL_WIDTH, inner, VRAM_SYMBOL_STATE, numbers), plain = t->cell[x].shape;
    vram_cell dt = vram_op_unary(t, vram_op_mul_weight(t, vram_part_vector(b, inner), step, MADE), true, false, 0, MADE);
    vram_cell A = vram_op_constant(t, vram_part_vector(b, inner * numbers), 4, DECAYS);
    vram_cell decay = vram_op_unary(t, vram_op_mul_wide(t, A, dt, whole, DECAYS), false, true, 0, DECAYS);
    vram_cell in = vram_op_mul_wide(t, dt, vram_op_cast(t, B, 4, MADE), whole, STATES), both = vram_op_mul_wide(t, in, vram_op_cast(t, x, 4, MADE), whole, STATES);
    const vram_chunk_sizes sizes = {.state = SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_WIDTH, inner, VRAM_SYMBOL_STATE, numbers), .states = whole,
                                    .part = SIZE_2(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_WIDTH, inner), .parts = whole, .parts_width = vram_width(t, x) < 4 ? vram_width(t, x) : 0}; /* the states in 16 bit, for their product with C */
    const vram_cell scanned[] = {both, decay, C};
    vram_cell state = vram_op_constant(t, vram_tape_outside(t, sizes.state, vram_width(t, x), STATES), 0, STATES), list = vram_op_constant(t, vram_tape_outside(t, plain, vram_width(t, x), MADE), 0, MADE);
    vram_cell each = vram_op_chunk_scan(t, list, state, 3, scanned, &sizes, STATES), y = vram_op_copy(t, each, plain, MADE);
    vram_cell skip = vram_op_mul_weight(t, vram_part_vector(b, inner), x, MADE), sum = vram_op_add(t, y, vram_op_constant(t, skip, 4, MADE), MADE);
    const vram_cell names[] = {dt, A, decay, in, both, each};
    vram_part_hold(b, 6, names);
    return sum;
}

/* Zamba: head by head, each gated at once */
static vram_cell mamba1_heads(const block *b, vram_cell x, vram_cell step, vram_cell B, vram_cell C, vram_cell gate)
{
    enum { MOST = VRAM_TAPE_INS };
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    int heads = (int)vram_min(one_or((double)s->heads), MOST);
    vram_size part = vram_part_wide(b, VRAM_SYMBOL_WIDTH, (double)s->inner / heads);
    vram_cell y[MOST];
    for (int i = 0; i < heads; i++) {
        vram_cell scanned = mamba1_scan(b, vram_op_slice(t, x, part, MADE), vram_op_slice(t, step, part, MADE), B, C, (double)s->inner / heads);
        y[i] = vram_op_mul(t, scanned, silu(b, vram_op_slice(t, gate, part, MADE), MADE), MADE);
    }
    return vram_op_join_all(t, heads, y, t->cell[x].shape, MADE);
}

/* Norms of dt, B and C, with weights (Jamba) or without */
static vram_cell inner_norm(const block *b, vram_cell x, double width)
{
    return b->layer->state.inner_norms || b->style.bare_inner_norms ? vram_part_norm(b, x, b->rows, width) : x;
}

static vram_cell mamba1_update(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    return state_update(b, SIZE_3(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_WIDTH, (double)s->inner, VRAM_SYMBOL_STATE, (double)s->state), x);
}

static vram_cell mamba1(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double inner = (double)s->inner, rank = (double)s->dt_rank, numbers = (double)s->state;
    vram_size part = vram_part_wide(b, VRAM_SYMBOL_WIDTH, inner), halves[2] = {part, part}, state = vram_part_wide(b, VRAM_SYMBOL_STATE, numbers), parts[3] = {vram_part_wide(b, VRAM_SYMBOL_RANK, rank), state, state};
    vram_cell projected = simple(b, x, "in_proj", 2 * inner), half[2], of[3], y, convolution = VRAM_NO_CELL, step = VRAM_NO_CELL;
    vram_op_split(t, projected, 2, halves, half);
    if (b->pass->tokens <= 1) {
        y = mamba1_update(b, half[0]);
    } else {
        convolution = convolved(b, half[0], inner, true);
        vram_op_split(t, vram_part_linear(b, convolution, "x_proj", rank + 2 * numbers, inner, vram_part_wide(b, VRAM_SYMBOL_WIDTH, rank + 2 * numbers), MADE), 3, parts, of);
        for (int i = 0; i < 3; i++) of[i] = inner_norm(b, of[i], i ? numbers : rank);
        step = vram_op_copy(t, vram_op_linear(t, of[0], vram_part_vector(b, inner * rank), VRAM_NO_CELL, part, MADE), part, MADE);
        y = s->plain_projections ? mamba1_heads(b, convolution, step, of[1], of[2], half[1]) : mamba1_scan(b, convolution, step, of[1], of[2], inner);
    }
    vram_cell gated = s->plain_projections ? y : vram_op_mul(t, y, silu(b, half[1], MADE), MADE);
    vram_cell out = vram_part_linear(b, vram_op_cast(t, gated, vram_width(t, x), MADE), "out_proj", (double)b->pass->model->hidden, inner, b->hidden, MADE);
    const vram_cell names[] = {x, projected, convolution, step, gated};
    vram_part_hold(b, 5, names);
    return out;
}

/* --------------------------------------------------------------------------------------------------- short convolution -- */

/* Lfm2ShortConv: the convolution of B x, weighed by C */
static vram_cell short_convolution(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    double width = (double)b->layer->state.inner;
    vram_size part = vram_part_wide(b, VRAM_SYMBOL_WIDTH, width), parts[3] = {part, part, part};
    vram_cell projected = simple(b, x, "in_proj", 3 * width), of[3];
    vram_op_split(t, projected, 3, parts, of);
    vram_cell in = vram_op_mul(t, of[0], of[2], MADE), mixed = convolved(b, in, width, false);
    vram_tape_hold(t, in);
    vram_cell weighed = vram_op_mul(t, of[1], mixed, MADE), y = vram_op_copy(t, weighed, part, MADE);
    vram_cell out = vram_part_linear(b, y, "out_proj", (double)b->pass->model->hidden, width, b->hidden, MADE);
    const vram_cell names[] = {x, projected, mixed, y};
    vram_part_hold(b, 4, names);
    return out;
}

/* -------------------------------------------------------------------------------------------- real-gated linear recurrence -- */

/* sigmoid of a block-diagonal product, brought back into the order of the tokens */
static vram_cell block_gate(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double heads = (double)s->heads, d = (double)s->inner / one_or(heads);
    vram_size order = t->cell[x].shape;
    vram_cell weight = vram_part_vector(b, heads * d * d), mixed_ = vram_op_matmul(t, x, weight, order, MADE);
    vram_cell gate = vram_op_unary(t, vram_op_copy(t, mixed_, order, MADE), false, true, 0, MADE);
    vram_tape_hold(t, mixed_);
    return gate;
}

/* RecurrentGemmaRglru: a and sqrt(1 - a^2) x of each channel, then h = a h + .. token by token in fp32 */
static vram_cell real_gated_lru(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    double inner = (double)b->layer->state.inner;
    vram_size whole = t->cell[x].shape, one = SIZE_2(b, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_WIDTH, inner);
    bool many = b->pass->batch > 1; /* heads of a sequence lie in one piece, those of several do not */
    vram_cell in = many ? vram_op_copy(t, x, whole, MADE) : x, input_gate = block_gate(b, in), gate = block_gate(b, in);
    vram_cell strength = vram_op_unary(t, wide_exp(b, vram_part_vector(b, inner)), true, false, 0, DECAYS);
    vram_cell log = vram_op_mul_weight(t, strength, vram_op_constant(t, gate, 0, DECAYS), DECAYS);
    vram_cell decay = vram_op_unary(t, wide_exp(b, log), false, true, 0, DECAYS), square = vram_op_unary(t, wide_exp(b, vram_op_constant(t, log, 0, DECAYS)), false, true, 0, DECAYS);
    vram_cell gated = vram_op_mul(t, x, input_gate, MADE), root = vram_op_unary(t, vram_op_shift(t, square, DECAYS), true, false, 2, DECAYS);
    vram_cell factor = vram_op_shift(t, vram_op_constant(t, root, 0, DECAYS), DECAYS), normal = vram_op_mul(t, gated, vram_op_cast(t, factor, vram_width(t, x), DECAYS), MADE);
    vram_cell reset = vram_op_constant(t, decay, 0, DECAYS);
    const vram_chunk_sizes sizes = {.state = one, .states = whole, .part = one, .parts = whole, .parts_width = 4, .apart = true};
    vram_cell list = vram_op_constant(t, vram_tape_outside(t, whole, vram_width(t, x), MADE), 0, MADE), state = vram_op_constant(t, vram_tape_outside(t, one, 4, STATES), 4, STATES);
    const vram_cell scanned[] = {normal, reset};
    vram_cell y = vram_op_chunk_scan(t, list, state, 2, scanned, &sizes, STATES);
    t->shared[0] = y; /* self.recurrent_states: the last state, a row */
    t->lasting = true;
    const vram_cell names[] = {x, in, input_gate, log, decay, square, gated, factor, normal, reset};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}

static vram_cell griffin(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    double inner = (double)b->layer->state.inner;
    vram_cell y = vram_op_unary(t, simple(b, x, "linear_y", inner), true, false, 0, MADE), in = simple(b, x, "linear_x", inner);
    vram_tape_mark(t); /* self.rg_lru.recurrent_states = None */
    vram_cell scanned = b->pass->tokens <= 1 ? vram_op_constant(t, in, 0, MADE) : real_gated_lru(b, convolved(b, in, inner, false));
    vram_cell out = vram_part_linear(b, vram_op_mul(t, scanned, y, MADE), "linear_out", (double)b->pass->model->hidden, inner, b->hidden, MADE);
    const vram_cell names[] = {x, y, scanned};
    vram_part_hold(b, 3, names);
    return out;
}

/* ------------------------------------------------------------------------------------------------- lightning attention -- */

/* MiniMaxLightningAttention: within a block scores times their decay, between blocks a state; the last block's keys lead nowhere */
static vram_cell lightning(const block *b, vram_cell x)
{
    const vram_state *s = &b->layer->state;
    vram_tape *t = b->t;
    double heads = (double)s->heads, d = (double)s->head_dim, width = heads * d, tokens = b->pass->tokens, every = one_or((double)s->chunk), blocks = vram_ceil_div(tokens, every);
    vram_size part = vram_part_wide(b, VRAM_SYMBOL_WIDTH, width), later = heads_of(b, (blocks - 1) * every, heads, d);
    vram_cell raw = simple(b, x, "qkv_proj", 3 * width), qkv = silu(b, raw, MADE);
    vram_cell scanned = tokens <= 1 ? vram_op_slice(t, qkv, part, MADE) : vram_op_block_scan(t, qkv, part, heads_of(b, tokens, heads, vram_min(every, tokens)), later, states_of(b, blocks - 1, heads, d, d), SCORES);
    vram_cell ordered = vram_op_copy(t, scanned, part, MADE), normed = vram_part_norm(b, ordered, b->rows, width);
    vram_cell gate = vram_op_unary(t, simple(b, x, "output_gate", width), false, true, 0, MADE), gated = vram_op_mul(t, gate, normed, MADE);
    vram_cell out = vram_part_linear(b, gated, "out_proj", (double)b->pass->model->hidden, width, b->hidden, MADE);
    const vram_cell names[] = {x, qkv, gated};
    vram_part_hold(b, 3, names);
    return out;
}

bool vram_mixer_known(const vram_state *s)
{
    return s->type == VRAM_STATE_MAMBA1 || s->type == VRAM_STATE_MAMBA2 || s->type == VRAM_STATE_GATED_DELTA || s->type == VRAM_STATE_KDA || s->type == VRAM_STATE_SHORT_CONV || s->type == VRAM_STATE_RGLRU || s->type == VRAM_STATE_LIGHTNING;
}

vram_cell vram_mixer_write(const block *b, vram_cell x)
{
    switch (b->layer->state.type) {
    case VRAM_STATE_MAMBA1: return mamba1(b, x);
    case VRAM_STATE_MAMBA2: return mamba2(b, x);
    case VRAM_STATE_GATED_DELTA: return gated_delta(b, x);
    case VRAM_STATE_SHORT_CONV: return short_convolution(b, x);
    case VRAM_STATE_KDA: return kimi_delta(b, x);
    case VRAM_STATE_RGLRU: return griffin(b, x);
    case VRAM_STATE_LIGHTNING: return lightning(b, x);
    default: return x;
    }
}
