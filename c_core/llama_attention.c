/* llama_attention.c -- the attention of one layer of llama.cpp's graph. Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_qkv, build_attn,
 * build_attn_mha), src/models/deepseek2.cpp and deepseek32.cpp; ggml/src/ggml-cuda/fattn.cu (16-bit copies of quantised caches). */
#include "llama_net.h"

#include <string.h>

typedef struct {
    int k_ids, v_ids, mask, k_rotation, v_rotation;
    double cells;           /* of one stream */
} cache;

bool llama_windowed(const net *n, const vram_attention *a) { return n->two_caches && a->window > 0; }

static cache cache_of(const net *n, const vram_attention *a)
{
    if (llama_windowed(n, a)) return (cache){WINDOW_K_IDS, WINDOW_V_IDS, WINDOW_MASK, WINDOW_K_ROTATION, WINDOW_V_ROTATION, n->b->window_cells};
    return (cache){K_IDS, V_IDS, MASK, K_ROTATION, V_ROTATION, n->b->cells};
}

static bool rotary(const net *n, const vram_attention *a)
{
    if (n->m->position != VRAM_POSITION_ROTARY || trait(n, NO_ROPE)) return false;
    if (trait(n, ROPE_IN_WINDOWS) && n->two_caches) return a->window > 0;
    return !(trait(n, ROPE_3_OF_4) && n->layer % 4 == 3);
}

/* Quantised caches are rotated by a Hadamard matrix, when heads are whole times 64 wide (llama-kv-cache.cpp, attn_rot) */
static bool rotated(vram_format format, double head_dim) { return vram_format_get(format)->block > 1 && head_dim / 64 == vram_ceil_div(head_dim, 64); }

/* x turned by a matrix (llama_mul_mat_hadamard); a slice of a wider projection is copied first */
static int turned(net *n, ggml_shape shape, int rotation, bool slice, int x)
{
    if (slice) x = shaped(n, false, shape, V(x));
    return ggml_graph_op(n->g, false, shape, SOURCES(rotation, V(x)));
}

static bool fused(const net *n, const vram_attention *a) { return a->fused_qkv && !vram_gguf_splits_qkv(n->m); }

/* norm of each head, rotation, rotation of a quantised cache; `from` is a projection of `heads` heads */
static int heads_of(net *n, const vram_attention *a, const cache *c, int from, double heads)
{
    ggml_shape shape = ggml_f32((double)a->head_dim, heads, n->rows);
    bool wide = a->qk_norm == VRAM_QK_NORM_WIDTH, bare = a->qk_norm == VRAM_QK_NORM_BARE, late = trait(n, NORM_AFTER_ROPE);
    bool by_head = a->qk_norm != VRAM_QK_NORM_NONE && !wide && !late;
    int x = from | GGML_VIEW;
    if (wide) x = V(factors_of(n, numbers_a_row(n, from), shaped(n, true, n->g->tensor[from & ~GGML_VIEW].of, from)));
    if (by_head) x = shaped(n, n->m->norm == VRAM_NORM_RMS, shape, x);
    if (by_head && !bare) x = factors_of(n, (double)a->head_dim, x);
    bool factors = rotary(n, a) && on_host(n) && n->m->rotary_factors > 0 && !llama_windowed(n, a);
    if (rotary(n, a)) x = ggml_graph_op(n->g, true, shape, SOURCES(x, POSITIONS, factors ? ROTARY_FACTORS : GGML_NONE));
    if (late && rotary(n, a) && a->qk_norm != VRAM_QK_NORM_NONE) x = shaped(n, true, shape, x);
    if (late && rotary(n, a) && a->qk_norm == VRAM_QK_NORM_HEAD) x = factors_of(n, (double)a->head_dim, x);
    if (heads == (double)a->heads && trait(n, SCALED_QUERIES) && !rotary(n, a)) x = ggml_graph_op(n->g, true, shape, SOURCES(x, QUERY_SCALES));
    bool slice = fused(n, a) && !by_head && !rotary(n, a);
    return rotated(n->b->k_type, (double)a->head_dim) ? turned(n, shape, c->k_rotation, slice, x) : x;
}

double llama_widest_values(const vram_model *m)
{
    double widest = 0;
    for (int i = 0; i < m->kinds; i++) widest = vram_max(widest, (double)(m->kind[i].attention.kv_heads * m->kind[i].attention.v_head_dim));
    return widest;
}

static int values_of(net *n, const vram_attention *a, const cache *c, int from)
{
    ggml_shape shape = ggml_f32((double)a->v_head_dim, (double)a->kv_heads, n->rows);
    int x = V(from);
    if (trait(n, V_NORM)) x = shaped(n, true, shape, x);
    if (rotated(n->b->v_type, (double)a->v_head_dim)) x = turned(n, shape, c->v_rotation, fused(n, a), x);
    double widest = llama_widest_values(n->m), width = (double)(a->kv_heads * a->v_head_dim);
    return n->b->flash || width == widest ? x : shaped(n, false, ggml_f32(widest, n->rows, 1), V(x)); /* without flash kernels all layers' V are as wide */
}

static bool kernel_reads(vram_format format) { return strcmp(vram_format_get(format)->id, "iq4_nl") != 0; }

/* fattn.cu, ggml_cuda_get_best_fattn_kernel: types, and pairs of head sizes; the larger ones want several heads that share keys */
bool llama_has_kernel(const llama_batch *b, const vram_attention *a)
{
    bool latent = a->type == VRAM_MIXER_MLA;
    int64_t k = latent ? a->kv_lora_rank + a->qk_rope_head_dim : a->head_dim, v = latent ? a->kv_lora_rank : a->v_head_dim, share = latent || a->kv_heads <= 0 ? a->heads : a->heads / a->kv_heads;
    if (!kernel_reads(b->k_type) || !kernel_reads(b->v_type)) return false;
    switch (k) {
    case 40: case 64: case 72: case 80: case 96: case 112: case 128: case 256: return v == k;
    case 192: return v == 128 && share % 8 == 0;
    case 320: return v == 256 && share % 32 == 0;
    case 512: return v == 512 && share > 1;
    case 576: return v == 512 && share > 1;
    default: return false;
    }
}

/* Without a kernel the host attends. */
static int attended(net *n, const vram_attention *a, int o)
{
    if (!llama_has_kernel(n->b, a)) ggml_graph_place(n->g, GGML_ON_HOST);
    return o;
}

/* Caches of another type than fp16 are copied to 16 bit for the flash kernels, into the room behind the result */
static double flash_copies(const net *n, double cells, double k_width, double v_width)
{
    double streams = n->b->streams, bytes = 0;
    if (n->b->k_type != VRAM_FORMAT_FP16 && n->b->k_type != VRAM_FORMAT_FP32) bytes += vram_round_up(2 * cells * streams * k_width, 128);
    if (n->b->v_type != VRAM_FORMAT_FP16 && n->b->v_type != VRAM_FORMAT_FP32 && v_width > 0) bytes += vram_round_up(2 * cells * streams * v_width, 128);
    return bytes;
}

/* Does a layer on the GPU read the cache of one in host memory? It is the last before it that has a cache of its kind. */
static bool reads_host(const net *n, const vram_attention *a)
{
    if (!a->shares_cache || on_host(n)) return false;
    for (int64_t i = n->layer - 1; i >= 0; i--) {
        const vram_attention *b = &layer_at(n, i)->attention;
        if (b->type != VRAM_MIXER_NONE && !b->shares_cache && (b->window > 0) == (a->window > 0)) return i < n->b->host_layers;
    }
    return false;
}

/* A layer in host memory keeps its cache there: keys and values are copied whole, by each layer that shares them, too (Gemma 4 E). */
static int cached(net *n, bool ahead, double bytes)
{
    if (ahead && !n->no_kernel) return ggml_graph_ahead(n->g, bytes);
    if (on_host(n) || !n->no_kernel) return outside(n, VRAM_WHAT_CACHE_COPY, GGML_OUTSIDE, bytes);
    return ggml_graph_outside(n->g, GGML_OUTSIDE_GPU, bytes);
}

/* fp32 is brought to 16 bit by an operation of its own */
static int halved(net *n, vram_format type, int from, double numbers)
{
    return type == VRAM_FORMAT_FP32 ? ggml_graph_op(n->g, false, ggml_typed(2, numbers, n->b->streams, 1), SOURCES(from)) : from;
}

static int cached_heads(net *n, const vram_attention *a, vram_format type, double cells, double heads, double head_dim)
{
    double each = vram_format_bytes(type), padding = row_padding(vram_format_get(type)->block, each, head_dim);
    return cached(n, reads_host(n, a), cells * n->b->streams * heads * head_dim * each + padding);
}

/* The latent without its rotated end: the last row is that much shorter */
static int cached_latent(net *n, const vram_attention *a, double cells)
{
    double each = vram_format_bytes(n->b->k_type), rank = (double)a->kv_lora_rank, width = rank + (double)a->qk_rope_head_dim;
    return cached(n, false, (cells * n->b->streams - 1) * width * each + rank * each);
}

/* An operation that reads the learned numbers that join each head's scores (gpt-oss) */
static int with_sinks(net *n, const vram_attention *a, int x) { return a->sinks ? placed(n, rows_of(&n->g->tensor[x].of), x) : x; }

/* Scores and values: one fused kernel, or scores of every head and cell in fp32 */
static int attend(net *n, const vram_attention *a, const cache *c, int q)
{
    double heads = (double)a->heads, v = (double)a->v_head_dim, kv = (double)a->kv_heads;
    ggml_shape out = ggml_f32(v, heads, n->rows), all = ggml_f32(c->cells, n->rows, heads);
    int keys = cached_heads(n, a, n->b->k_type, c->cells, kv, (double)a->head_dim), values = cached_heads(n, a, n->b->v_type, c->cells, kv, v);
    int sinks = a->sinks ? vector_of(n, heads) : GGML_NONE;
    if (n->b->flash) {
        keys = halved(n, n->b->k_type, keys, c->cells * kv * (double)a->head_dim);
        values = halved(n, n->b->v_type, values, c->cells * kv * v);
        int o = with_sinks(n, a, ggml_graph_op(n->g, false, out, SOURCES(V(q), keys, values, c->mask, sinks)));
        n->g->tensor[o].work = flash_copies(n, c->cells, kv * (double)a->head_dim, kv * v);
        return V(attended(n, a, o));
    }
    tag(n, VRAM_WHAT_ATTENTION_SCORES);
    int scores = ggml_graph_op(n->g, false, all, SOURCES(keys, V(q)));
    scores = with_sinks(n, a, ggml_graph_op(n->g, true, all, SOURCES(scores, c->mask, sinks)));
    tag(n, VRAM_WHAT_ATTENTION_ACTIVATIONS);
    int o = ggml_graph_op(n->g, false, ggml_f32(v, n->rows, heads), SOURCES(values, scores));
    return shaped(n, false, ggml_f32(v * heads, n->rows, 1), V(o));
}

/* What a rotated cache of values gave is turned back */
static int turned_back(net *n, const vram_attention *a, int o)
{
    if (a->type == VRAM_MIXER_MLA || !rotated(n->b->v_type, (double)a->v_head_dim)) return o;
    return V(ggml_graph_op(n->g, false, ggml_f32((double)a->v_head_dim, (double)a->heads, n->rows), SOURCES(cache_of(n, a).v_rotation, V(o))));
}

static void write_cache(net *n, int x, int ids) { ggml_graph_write(n->g, SOURCES(V(x), ids)); }

/* q, k, v and the writing of the cache; returns q. With two caches k comes before v (build_attn of _iswa), else after. */
static int queries(net *n, const vram_attention *a, const cache *c, int x)
{
    double q_width = (double)(a->heads * a->head_dim) * (a->output_gate ? 2 : 1), k_width = (double)(a->kv_heads * a->head_dim), v_width = (double)(a->kv_heads * a->v_head_dim);
    int q, k = GGML_NONE, v = GGML_NONE;
    if (fused(n, a)) {
        int qkv = biased(n, a->q_bias, multiply_by(n, VRAM_ROLE_OF_QKV, x, q_width + k_width + v_width));
        q = heads_of(n, a, c, V(qkv), (double)a->heads);
        if (!n->two_caches) v = values_of(n, a, c, qkv);
        k = heads_of(n, a, c, V(qkv), (double)a->kv_heads);
        if (n->two_caches) v = values_of(n, a, c, qkv);
        n->g->tensor[qkv].part[GGML_ON_HOST] = reach(n, v_width, q_width + k_width + v_width);
        if (v == k) k = apart(n, qkv, k_width, q_width + k_width + v_width);
    } else {
        q = heads_of(n, a, c, biased(n, a->q_bias, multiply_by(n, VRAM_ROLE_OF_QUERY, x, q_width)), (double)a->heads);
        if (!a->shares_cache && !n->two_caches) v = values_of(n, a, c, biased(n, a->v_bias, multiply_by(n, VRAM_ROLE_OF_VALUE, x, v_width)));
        if (!a->shares_cache) {
            int projected = biased(n, a->k_bias, multiply_by(n, VRAM_ROLE_OF_KEY, x, k_width));
            k = heads_of(n, a, c, projected, (double)a->kv_heads);
            if (n->two_caches) v = values_of(n, a, c, a->k_is_v ? projected : biased(n, a->v_bias, multiply_by(n, VRAM_ROLE_OF_VALUE, x, v_width)));
        }
    }
    if (k >= 0) write_cache(n, k, c->k_ids);
    if (v >= 0) write_cache(n, v, c->v_ids);
    return q;
}

/* The gate of Qwen3-Next is the second half of the wide query projection: kept until the heads are done */
static int gated_queries(net *n, const vram_attention *a, const cache *c, int x, int *wide)
{
    double k_width = (double)(a->kv_heads * a->head_dim);
    *wide = multiply_by(n, VRAM_ROLE_OF_QUERY, x, (double)(2 * a->heads * a->head_dim));
    int q = heads_of(n, a, c, V(*wide), (double)a->heads);
    int v = values_of(n, a, c, multiply_by(n, VRAM_ROLE_OF_VALUE, x, (double)(a->kv_heads * a->v_head_dim)));
    int k = heads_of(n, a, c, multiply_by(n, VRAM_ROLE_OF_KEY, x, k_width), (double)a->kv_heads);
    write_cache(n, k, c->k_ids);
    write_cache(n, v, c->v_ids);
    return q;
}

/* The key by which a sparse layer finds its tokens later: normed, rotated, written to a cache of its own (DeepSeek-V3.2) */
static void index_key(net *n, const vram_attention *a, int x)
{
    ggml_shape shape = ggml_f32((double)a->index_head_dim, 1, n->rows);
    int k = shaped(n, false, ggml_f32((double)a->index_head_dim, n->rows, 1), multiply(n, x, (double)a->index_head_dim));
    k = same(n, true, same(n, true, k));
    k = ggml_graph_op(n->g, true, shape, SOURCES(V(k), POSITIONS));
    k = ggml_graph_op(n->g, false, shape, SOURCES(INDEX_ROTATION, k));
    write_cache(n, k, INDEX_IDS);
}

/* Scores of every cell, the best tokens, and a mask that shows those only */
static int index_mask(net *n, const vram_attention *a, const cache *c, int x, int q)
{
    double heads = (double)a->index_heads, chosen = vram_min((double)a->index_topk, c->cells), t = n->rows;
    ggml_shape shape = ggml_f32((double)a->index_head_dim, heads, t), mask = n->g->tensor[c->mask].of;
    int zeros = ggml_graph_leaf(n->g, ggml_f32(chosen, t, 1), n->leaf);
    n->leaf += vram_round_up(n->g->tensor[zeros].of.bytes, 128);
    int query = ggml_graph_op(n->g, true, shape, SOURCES(V(multiply(n, q, heads * (double)a->index_head_dim)), POSITIONS));
    query = ggml_graph_op(n->g, false, shape, SOURCES(INDEX_ROTATION, query));
    int weights = shaped(n, true, ggml_f32(heads, t, 1), V(multiply(n, x, heads)));
    int scores = ggml_graph_op(n->g, false, ggml_f32(c->cells, t, 1), SOURCES(V(query), weights, INDEX_MASK));
    int best = shaped(n, false, ggml_f32(chosen, t, 1), shaped(n, false, ggml_f32(chosen, t, 1), scores));
    int shown = ggml_graph_op(n->g, true, mask, SOURCES(c->mask));
    ggml_graph_use(n->g, SOURCES(zeros, V(best), V(shown)));
    return ggml_graph_op(n->g, true, mask, SOURCES(V(shown), c->mask));
}

/* each head's values of the latent's */
static int heads_up(net *n, const vram_attention *a, int latent)
{
    double rank = (double)a->kv_lora_rank, v = (double)a->v_head_dim, h = (double)a->heads;
    int up = weight_of(n, VRAM_ROLE_OF_OTHER, rank, rank * v * h);
    return placed(n, n->rows, ggml_graph_op(n->g, false, ggml_f32(v, n->rows, h), SOURCES(up, latent)));
}

/* DeepSeek's latent attention with the key's up-projection absorbed: every head reads one latent of kv_lora_rank + rope numbers */
static int latent_attention(net *n, const vram_attention *a, int x)
{
    cache c = cache_of(n, a);
    double h = (double)a->heads, rope = (double)a->qk_rope_head_dim, nope = (double)a->qk_nope_head_dim, rank = (double)a->kv_lora_rank, v = (double)a->v_head_dim;
    int low = x;
    if (a->index_heads > 0) index_key(n, a, x);
    if (a->q_lora_rank > 0) {
        low = multiply(n, x, (double)a->q_lora_rank);
        low = factors_of(n, (double)a->q_lora_rank, same(n, true, low));
    }
    int q = multiply_by(n, a->q_lora_rank > 0 ? VRAM_ROLE_OF_OTHER : VRAM_ROLE_OF_QUERY, low, h * (nope + rope));
    int up = weight_of(n, VRAM_ROLE_OF_OTHER, nope, nope * rank * h);
    int absorbed = placed(n, n->rows, ggml_graph_op(n->g, false, ggml_f32(rank, n->rows, h), SOURCES(up, V(q))));
    int q_rope = ggml_graph_op(n->g, true, ggml_f32(rope, h, n->rows), SOURCES(V(q), POSITIONS));
    int query = ggml_graph_op(n->g, false, ggml_f32(rank + rope, h, n->rows), SOURCES(V(absorbed), q_rope));
    int kv = multiply(n, x, rank + rope);
    int latent = factors_of(n, rank, shaped(n, true, ggml_f32(rank, n->rows, 1), V(kv)));
    int k_rope = ggml_graph_op(n->g, true, ggml_f32(rope, 1, n->rows), SOURCES(V(kv), POSITIONS));
    int key = ggml_graph_op(n->g, false, ggml_f32(rank + rope, 1, n->rows), SOURCES(V(latent), k_rope));
    write_cache(n, key, c.k_ids);
    if (n->b->flash) {
        int keys = cached_heads(n, a, n->b->k_type, c.cells, 1, rank + rope), values = cached_latent(n, a, c.cells);
        int mask = a->index_heads > 0 ? index_mask(n, a, &c, x, low) : c.mask;
        keys = halved(n, n->b->k_type, keys, c.cells * (rank + rope));
        values = halved(n, n->b->k_type, values, c.cells * rank);
        int o = attended(n, a, ggml_graph_op(n->g, false, ggml_f32(rank, h, n->rows), SOURCES(V(query), keys, values, mask)));
        n->g->tensor[o].work = flash_copies(n, c.cells, rank + rope, 0);
        return V(shaped(n, false, ggml_f32(v, h, n->rows), V(heads_up(n, a, V(o)))));
    }
    int values = cached_latent(n, a, c.cells), keys = cached_heads(n, a, n->b->k_type, c.cells, 1, rank + rope);
    values = ggml_graph_op(n->g, false, ggml_typed(vram_format_bytes(n->b->k_type), c.cells, rank, n->b->streams), SOURCES(values));
    tag(n, VRAM_WHAT_ATTENTION_SCORES);
    int scores = ggml_graph_op(n->g, false, ggml_f32(c.cells, n->rows, h), SOURCES(keys, V(query)));
    int mask = a->index_heads > 0 ? index_mask(n, a, &c, x, low) : c.mask;
    scores = ggml_graph_op(n->g, true, ggml_f32(c.cells, n->rows, h), SOURCES(scores, mask));
    tag(n, VRAM_WHAT_ATTENTION_ACTIVATIONS);
    int o = ggml_graph_op(n->g, false, ggml_f32(rank, n->rows, h), SOURCES(values, scores));
    return shaped(n, false, ggml_f32(v * h, n->rows, 1), V(heads_up(n, a, o)));
}

/* Attention up to the heads' output, before its projection */
int llama_heads(net *n, const vram_attention *a, int x)
{
    tag(n, VRAM_WHAT_ATTENTION_ACTIVATIONS);
    if (a->type == VRAM_MIXER_MLA) return latent_attention(n, a, x);
    cache c = cache_of(n, a);
    if (!a->output_gate) return attend(n, a, &c, queries(n, a, &c, x));
    int wide, q = gated_queries(n, a, &c, x, &wide), o = turned_back(n, a, attend(n, a, &c, q));
    int gate = shaped(n, false, ggml_f32((double)(a->heads * a->v_head_dim), n->rows, 1), V(wide));
    gate = same(n, true, gate);
    return ggml_graph_op(n->g, true, ggml_f32((double)(a->heads * a->v_head_dim), n->rows, 1), SOURCES(V(o), gate));
}

/* The heads' output, back to the hidden width */
int llama_project(net *n, const vram_attention *a, int heads)
{
    return biased(n, a->o_bias, multiply_by(n, VRAM_ROLE_OF_ATTENTION_OUTPUT, a->output_gate ? heads : turned_back(n, a, heads), n->hidden));
}
