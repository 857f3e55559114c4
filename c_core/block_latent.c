/* block_latent.c -- attention whose keys and values come from a latent (DeepSeek-V2 and after), and the index that chooses among the keys. */
#include "parts.h"

/* Rotation of pairs that lie side by side: q1 cos - q2 sin, q2 cos + q1 sin, joined; as complex numbers in fp32 in DeepSeek-V2 */
static vram_cell rotary_pairs(const block *b, vram_cell x, vram_size half)
{
    vram_tape *t = b->t;
    if (b->style.turn == TURN_COMPLEX) return vram_op_cast(t, vram_op_constant(t, vram_op_cast(t, x, 4, VRAM_WHAT_ROTARY), 4, VRAM_WHAT_ROTARY), vram_width(t, x), VRAM_WHAT_ROTARY);
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
    vram_size whole[2] = {vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d), vram_part_heads(b, VRAM_SYMBOL_HEADS, 1, d)}, turning[2] = {vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, rope), vram_part_heads(b, VRAM_SYMBOL_HEADS, 1, rope)}, rest[2] = {vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, d - rope), vram_part_heads(b, VRAM_SYMBOL_HEADS, 1, d - rope)};
    vram_size scores = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_HEADS, heads, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s), pairs = SIZE_3(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s), places = ROWS_BY(b, VRAM_SYMBOL_KEYS, best), spread = SIZE_4(b, batch.symbol, batch.value, VRAM_SYMBOL_SEQUENCE, s, VRAM_SYMBOL_KEYS, s, VRAM_SYMBOL_WIDTH, d);
    t->no_grad = true;
    vram_cell all[2] = {vram_part_linear(b, low, "wq_b", heads * d, (double)a->q_lora_rank, whole[0], VRAM_WHAT_QUERY), vram_part_linear(b, x, "wk", d, h, whole[1], VRAM_WHAT_KEY)}, turned[2], joined[2];
    all[1] = vram_op_layer_norm(t, all[1], vram_part_vector(b, d), vram_part_vector(b, d), b->rows, VRAM_WHAT_KEY);
    for (int i = 0; i < 2; i++) turned[i] = vram_part_rotary(b, vram_op_slice(t, all[i], turning[i], VRAM_WHAT_ROTARY), i ? 1 : heads, rope, VRAM_WHAT_ROTARY);
    for (int i = 0; i < 2; i++) joined[i] = vram_op_join(t, turned[i], vram_op_slice(t, all[i], rest[i], VRAM_WHAT_ROTARY), whole[i], i ? VRAM_WHAT_KEY : VRAM_WHAT_QUERY);
    vram_cell query = vram_op_cast(t, joined[0], 4, VRAM_WHAT_QUERY), key = vram_op_cast(t, joined[1], 4, VRAM_WHAT_KEY);
    if (b->pass->batch > 1) key = vram_op_copy(t, vram_op_cast(t, key, t->autocast ? 2 : 4, VRAM_WHAT_KEY), spread, VRAM_WHAT_KEY); /* for each query, as a product of many sequences wants it */
    vram_cell made = vram_op_matmul(t, query, key, scores, scores_of);
    vram_cell active = vram_op_unary(t, vram_op_constant(t, made, 0, scores_of), false, false, 0, scores_of);
    vram_cell weights = vram_op_cast(t, vram_part_linear(b, x, "weights_proj", heads, h, vram_part_wide(b, VRAM_SYMBOL_HEADS, heads), scores_of), 4, scores_of);
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
    bool is_eager = vram_part_is_eager(b->pass);
    vram_cell left = is_eager ? vram_tape_outside(t, pairs, vram_stream_width(b->pass), mask) : vram_op_constant(t, names[1], 0, mask);
    names[2] = vram_op_constant(t, left, 0, mask);
}

/* DeepseekV3Attention: queries through a low rank (or not), keys and values from one latent and one shared rotary key */
vram_cell vram_part_latent_attention(const block *b, vram_cell x, vram_cell *weights)
{
    const vram_attention *a = &b->layer->attention;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, heads = (double)a->heads, nope = (double)a->qk_nope_head_dim, rope = (double)a->qk_rope_head_dim, v = (double)a->v_head_dim, rank = (double)a->kv_lora_rank, q_rank = (double)a->q_lora_rank;
    vram_size q_size = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, nope + rope), half = vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, rope / 2), narrow = vram_part_wide(b, VRAM_SYMBOL_WIDTH, rope);
    const vram_size q_parts[2] = {vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, nope), vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, rope)}, kv_parts[2] = {q_parts[0], vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, v)}, low_parts[2] = {vram_part_wide(b, VRAM_SYMBOL_RANK, rank), narrow};
    vram_cell in = x, q_part[2], kv_part[2], low_part[2];
    if (q_rank > 0) in = vram_part_norm(b, vram_part_linear(b, x, "q_a_proj", q_rank, h, vram_part_wide(b, VRAM_SYMBOL_RANK, q_rank), VRAM_WHAT_QUERY), b->rows, q_rank);
    vram_cell q = vram_op_transposed(t, vram_part_linear(b, in, q_rank > 0 ? "q_b_proj" : "q_proj", heads * (nope + rope), q_rank > 0 ? q_rank : h, q_size, VRAM_WHAT_QUERY));
    vram_op_split(t, q, 2, q_parts, q_part);
    vram_cell low = vram_part_linear(b, x, "kv_a_proj_with_mqa", rank + rope, h, vram_part_wide(b, VRAM_SYMBOL_RANK, rank + rope), VRAM_WHAT_KEY);
    vram_op_split(t, low, 2, low_parts, low_part);
    vram_cell latent = vram_part_norm(b, low_part[0], b->rows, rank);
    vram_cell q_turned = rotary_pairs(b, q_part[1], half), k_turned = rotary_pairs(b, low_part[1], vram_part_wide(b, VRAM_SYMBOL_WIDTH, rope / 2));
    vram_cell query = vram_op_join(t, q_part[0], q_turned, q_size, VRAM_WHAT_QUERY);
    vram_cell kv = vram_op_transposed(t, vram_part_linear(b, latent, "kv_b_proj", heads * (nope + v), rank, vram_part_heads(b, VRAM_SYMBOL_HEADS, heads, nope + v), VRAM_WHAT_VALUE));
    vram_op_split(t, kv, 2, kv_parts, kv_part);
    vram_cell key = vram_op_join_copies(t, kv_part[0], k_turned, q_size, VRAM_WHAT_KEY);
    bool is_eager = vram_part_is_eager(b->pass);
    vram_cell index[3] = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL};
    if (a->index_heads > 0) sparse_index(b, x, in, index);
    if (b->style.indexed) index_mask(b, index);
    vram_cell y = is_eager ? vram_part_eager(b, query, key, kv_part[1], weights) : vram_part_sdpa(b, query, key, kv_part[1], false);
    vram_cell out = vram_part_linear(b, y, "o_proj", h, heads * v, b->hidden, VRAM_WHAT_ATTENTION_PROJECTION);
    vram_part_hold(b, 3, index);
    const vram_cell names[] = {x, b->style.indexed ? in : VRAM_NO_CELL, q, low, latent, q_turned, k_turned, query, key, kv};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return out;
}
