/* llama_graph.c -- llama.cpp's compute graph of one micro-batch, as far as memory goes: which tensors, how large, read by whom, in what order.
 *
 * A layer is described from its vram_layer, with the operations in the order in which llama.cpp's own graph has them (the order decides
 * which holes the allocator finds). What families do differently and no field of the model says is in the table of families.
 * Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_attn, build_attn_mha, build_ffn, build_moe_ffn, build_rs) and src/models/;
 * ggml/src/ggml-cuda/ggml-cuda.cu (graph_optimize: what fused kernels keep alive; supports_op), fattn.cu (16-bit copies of quantised caches). */
#include "llama_graph.h"

#include <string.h>

/* What lives across layers */
enum {
    STREAM = GGML_STREAM, CARRIED = GGML_CARRIED, POSITIONS, OUTPUT_IDS,
    K_IDS, V_IDS, MASK, K_ROTATION, V_ROTATION,
    WINDOW_K_IDS, WINDOW_V_IDS, WINDOW_MASK, WINDOW_K_ROTATION, WINDOW_V_ROTATION,
    STATE_IDS, OTHER_STATE_IDS, QUERY_SCALES, ROTARY_FACTORS, LAYER_INPUTS,
    INDEX_IDS, INDEX_MASK, INDEX_ROTATION, LEARNED_POSITIONS
};

/* How a family departs from Llama */
enum {
    ROPE_IN_WINDOWS = 1 << 0,    /* layers that see everything have no rotary embedding (Cohere 2, EXAONE 4) */
    ROPE_3_OF_4 = 1 << 1,        /* every fourth layer has none (SmolLM 3) */
    NO_ROPE = 1 << 2,            /* none at all (Granite hybrid, Jamba, Nemotron-H) */
    PLAIN_WEIGHTS = 1 << 3,      /* the experts' weights are not normalised */
    SOFTMAX_AFTER = 1 << 4,      /* softmax over the chosen experts only (gpt-oss) */
    WEIGHTS_FIRST = 1 << 5,      /* experts' inputs are weighted, not their outputs (Llama 4) */
    EXPERT_GROUPS = 1 << 6,      /* experts are chosen by groups (DeepSeek-V3) */
    SCALED_WEIGHTS = 1 << 7,     /* and their weights scaled */
    ADD_FFN_TO_STREAM = 1 << 8,  /* parallel blocks: stream first, attention last (Cohere) */
    SPLIT_EXPERTS_BESIDE = 1 << 9, /* dense MLP and experts side by side, each with its norms (Gemma 4) */
    V_NORM = 1 << 10,            /* values are normed (Gemma 4) */
    NORM_AFTER_ROPE = 1 << 11,   /* q and k are normed after the rotation, in place (Llama 4) */
    REPEAT_KEYS = 1 << 12,       /* delta net: keys are repeated for the values' heads (Qwen3-Next) */
    SHARED_FIRST = 1 << 13,      /* the shared expert comes before the others */
    PICK_AFTER_LAYERS = 1 << 14, /* the rows of the outputs are picked after the last layer (gpt-oss) */
    NO_SPLIT_GATE = 1 << 15,     /* experts' gate and up are one tensor in the file (Gemma 4) */
    FFN_IN_STREAM = 1 << 16,     /* the stream is the first operand when the MLP is added (Phi-3, LFM2) */
    MIXER_IN_STREAM = 1 << 17,   /* and when the mixer is (LFM2) */
    SCALED_EMBEDDINGS = 1 << 18, /* the embeddings are touched before anything else (Granite) */
    BARE_STATE_NORMS = 1 << 19,  /* time step, B and C are normed without weights (Falcon-Mamba) */
    SCALED_QUERIES = 1 << 23,    /* queries without rotation are scaled by their position (Llama 4) */
    PICK_AFTER_NORM = 1 << 21,   /* or after the last norm */
    FOUR_POSITIONS = 1 << 22,    /* four numbers a token (Qwen3.5's multimodal rotation) */
    PICK_AFTER_SUM = 1 << 20,    /* rows are picked once the mixer has been added (Falcon-H1) */
    ATTENTION_FIRST = 1 << 24,   /* parallel blocks: attention is projected before the MLP (Phi) */
    ADD_ATTENTION_TO_STREAM = 1 << 25, /* parallel blocks: attention and stream are added first (StableLM) */
    PICK_BEFORE_NORM = 1 << 26   /* parallel blocks: the MLP's own norm sees only the rows picked (GPT-NeoX) */
};

/* by the beginning of model_type; the first that fits */
typedef struct { const char *type; unsigned traits; } family;
static const family families[] = {
    {"cohere2", ADD_FFN_TO_STREAM | ROPE_IN_WINDOWS},
    {"cohere", ADD_FFN_TO_STREAM},
    {"exaone4", ROPE_IN_WINDOWS},
    {"smollm3", ROPE_3_OF_4},
    {"bloom", NO_ROPE},
    {"mpt", NO_ROPE},
    {"phi3", FFN_IN_STREAM},
    {"phimoe", FFN_IN_STREAM},
    {"phi", ATTENTION_FIRST},
    {"gpt_neox", ADD_FFN_TO_STREAM | PICK_BEFORE_NORM},
    {"stablelm", ADD_ATTENTION_TO_STREAM},
    {"olmoe", PLAIN_WEIGHTS},
    {"qwen2_moe", PLAIN_WEIGHTS},
    {"deepseek_v32", EXPERT_GROUPS | SCALED_WEIGHTS},
    {"deepseek_v3", EXPERT_GROUPS | SCALED_WEIGHTS},
    {"deepseek", PLAIN_WEIGHTS},
    {"glm_moe_dsa", SCALED_WEIGHTS},
    {"glm4_moe", SCALED_WEIGHTS},
    {"kimi_k2", SCALED_WEIGHTS},
    {"gpt_oss", SOFTMAX_AFTER | PICK_AFTER_LAYERS},
    {"llama4", WEIGHTS_FIRST | PLAIN_WEIGHTS | NORM_AFTER_ROPE | ROPE_IN_WINDOWS | SCALED_QUERIES},
    {"gemma4", SPLIT_EXPERTS_BESIDE | V_NORM | NO_SPLIT_GATE | PICK_AFTER_NORM},
    {"granitemoehybrid", NO_ROPE | SCALED_EMBEDDINGS},
    {"jamba", NO_ROPE | PLAIN_WEIGHTS | MIXER_IN_STREAM | FFN_IN_STREAM},
    {"falcon_mamba", BARE_STATE_NORMS},
    {"falcon_h1", PICK_AFTER_SUM},
    {"nemotron_h", NO_ROPE | PICK_AFTER_NORM | SCALED_WEIGHTS},
    {"lfm2", FFN_IN_STREAM | MIXER_IN_STREAM},
    {"qwen3_next", REPEAT_KEYS | PICK_AFTER_NORM},
    {"qwen3_5", PICK_AFTER_NORM | FOUR_POSITIONS},
};

static unsigned traits_of(const vram_model *model)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(families[i].type, model->model_type, strlen(families[i].type)) == 0) return families[i].traits;
    return 0;
}

typedef struct {
    ggml_graph *g;
    const vram_model *m;
    const llama_batch *b;
    unsigned traits;
    bool two_caches;        /* windowed layers have their own */
    double hidden;
    double layer_input;     /* numbers that every layer reads of a table of its own (Gemma 4 E); 0: none */
    double tokens;          /* of the micro-batch */
    double rows;            /* tokens here: all, or those whose logits are wanted */
    int64_t layer;
    int carried;            /* state that the next layer will read, made already */
    bool carried_made;
    int columns;            /* state of the convolution that this layer reads */
    double leaf;            /* where the next layer's leaf is */
    int picked;             /* rows of the stream, when they are picked before the mixer is done */
} net;

static bool trait(const net *n, unsigned t) { return (n->traits & t) != 0; }

static bool last(const net *n) { return n->layer == n->m->layers - 1; }

#define SOURCES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__}
#define V(tensor) ((tensor) | GGML_VIEW)

/* ------------------------------------------------------------------------------------------------------- operations -- */

static void tag(net *n, vram_what what) { n->g->tag = (int)what; }

static bool on_host(const net *n) { return n->layer < n->b->host_layers; }

/* CUDA gives a quantised tensor whose rows are no multiple of 512 numbers room for the rest of one */
static double row_padding(double block, double bytes_each, double width)
{
    double over = width - 512 * vram_floor_div(width, 512);
    return block > 1 && over > 0 ? (512 - over) * bytes_each : 0;
}

/* Layers in host memory: for batches of 32 rows and more their weights are copied to the GPU, one operation at a time. */
static int copied_weight(net *n, vram_gguf_role role, double in, double numbers)
{
    if (!on_host(n) || n->rows < 32) return GGML_NONE;
    int was = n->g->tag, type = n->layer < n->m->layers ? n->b->weights->type[n->layer][role] : n->b->weights->output;
    tag(n, VRAM_WHAT_COPIED_WEIGHTS);
    double block = vram_ggml_get((vram_ggml_type)type)->block, bytes = vram_ggml_bytes((vram_ggml_type)type, numbers);
    int copy = ggml_graph_copy(n->g, bytes + row_padding(block, bytes / numbers, in));
    n->g->tag = was;
    return copy;
}

static double numbers_a_row(const net *n, int x)
{
    const ggml_shape *s = &n->g->tensor[x & ~GGML_VIEW].of;
    return s->shape[0] * s->shape[1] * s->shape[2] / n->rows;
}

/* weight x `x`: a new tensor of `width` numbers a row */
static int multiply_by(net *n, vram_gguf_role role, int x, double width)
{
    int weight = copied_weight(n, role, numbers_a_row(n, x), numbers_a_row(n, x) * width);
    return ggml_graph_op(n->g, false, ggml_f32(width, n->rows, 1), SOURCES(weight, x));
}

/* Vectors (biases, factors of norms) are copied, too: an operation in place, of memory only there. */
static int with_vector(net *n, double numbers, int x)
{
    if (!on_host(n) || n->rows < 32) return x;
    int was = n->g->tag;
    tag(n, VRAM_WHAT_COPIED_WEIGHTS);
    int vector = ggml_graph_copy(n->g, 4 * numbers);
    n->g->tag = was;
    return ggml_graph_op(n->g, true, n->g->tensor[x & ~GGML_VIEW].of, SOURCES(vector, x));
}

static int biased(net *n, bool bias, int x) { return bias ? with_vector(n, numbers_a_row(n, x), x) : x; }

static int multiply(net *n, int x, double width) { return multiply_by(n, VRAM_ROLE_OF_OTHER, x, width); }

/* the chosen experts' matrices; all experts' are copied */
static int multiply_experts(net *n, vram_gguf_role role, int x, int chosen, double in, double width)
{
    const vram_ffn *f = &n->m->kind[n->m->layer_kind[n->layer]].ffn;
    int weight = copied_weight(n, role, in, (double)f->experts * in * width);
    return ggml_graph_op(n->g, false, ggml_f32(width, (double)f->experts_per_token, n->rows), SOURCES(weight, x, V(chosen)));
}

static int same(net *n, bool in_place, int x) { return ggml_graph_op(n->g, in_place, n->g->tensor[x & ~GGML_VIEW].of, SOURCES(x)); }

static int shaped(net *n, bool in_place, ggml_shape shape, int x) { return ggml_graph_op(n->g, in_place, shape, SOURCES(x)); }

static int add(net *n, int a, int b) { return ggml_graph_op(n->g, true, n->g->tensor[a & ~GGML_VIEW].of, SOURCES(a, b)); }

/* a norm's factors, in place */
static int factors_of(net *n, double numbers, int x)
{
    int y = with_vector(n, numbers, x);
    return y != x ? y : same(n, true, x);
}

/* RMS norm may work in place, LayerNorm may not; the factors of its weight always */
static int norm(net *n, ggml_shape shape, int x)
{
    bool rms = n->m->norm == VRAM_NORM_RMS || n->m->norm == VRAM_NORM_RMS_BARE;
    int y = shaped(n, rms, shape, x);
    if (n->m->norm == VRAM_NORM_RMS_BARE || n->m->norm == VRAM_NORM_LAYER_BARE) return y;
    return biased(n, n->m->norm == VRAM_NORM_LAYER_BIAS, factors_of(n, shape.shape[0], y));
}

static int norm_rows(net *n, int x)
{
    tag(n, VRAM_WHAT_HIDDEN_STATES);
    return norm(n, ggml_f32(n->hidden, n->rows, 1), x);
}

/* Only the rows whose logits are wanted */
static int pick(net *n, int x, double width) { return ggml_graph_op(n->g, false, ggml_f32(width, n->b->outputs, 1), SOURCES(x, OUTPUT_IDS)); }

/* Where the stream is the first operand, its rows are picked before the mixer is done. */
static void pick_early(net *n)
{
    if (last(n) && trait(n, MIXER_IN_STREAM)) n->picked = pick(n, STREAM, n->hidden);
}

/* ---------------------------------------------------------------------------------------------------------- attention -- */

typedef struct {
    int k_ids, v_ids, mask, k_rotation, v_rotation;
    double cells;           /* of one stream */
} cache;

static bool windowed(const net *n, const vram_attention *a) { return n->two_caches && a->window > 0; }

static cache cache_of(const net *n, const vram_attention *a)
{
    if (windowed(n, a)) return (cache){WINDOW_K_IDS, WINDOW_V_IDS, WINDOW_MASK, WINDOW_K_ROTATION, WINDOW_V_ROTATION, n->b->window_cells};
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
    bool factors = rotary(n, a) && on_host(n) && n->m->rotary_factors > 0;
    if (rotary(n, a)) x = ggml_graph_op(n->g, true, shape, SOURCES(x, POSITIONS, factors ? ROTARY_FACTORS : GGML_NONE));
    if (factors) ggml_graph_split(n->g);
    if (late && rotary(n, a) && a->qk_norm != VRAM_QK_NORM_NONE) x = shaped(n, true, shape, x);
    if (heads == (double)a->heads && trait(n, SCALED_QUERIES) && !rotary(n, a)) x = ggml_graph_op(n->g, true, shape, SOURCES(x, QUERY_SCALES));
    bool slice = a->fused_qkv && !by_head && !rotary(n, a);
    return rotated(n->b->k_type, (double)a->head_dim) ? turned(n, shape, c->k_rotation, slice, x) : x;
}

static double widest_values(const vram_model *m)
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
    if (rotated(n->b->v_type, (double)a->v_head_dim)) x = turned(n, shape, c->v_rotation, a->fused_qkv, x);
    double widest = widest_values(n->m), width = (double)(a->kv_heads * a->v_head_dim);
    return n->b->flash || width == widest ? x : shaped(n, false, ggml_f32(widest, n->rows, 1), V(x)); /* without flash kernels all layers' V are as wide */
}

/* Caches of another type than fp16 are copied to 16 bit for the flash kernels, into the room behind the result */
static double flash_copies(const net *n, double cells, double k_width, double v_width)
{
    double streams = n->b->streams, bytes = 0;
    if (n->b->k_type != VRAM_FORMAT_FP16) bytes += vram_round_up(2 * cells * streams * k_width, 128);
    if (n->b->v_type != VRAM_FORMAT_FP16 && v_width > 0) bytes += vram_round_up(2 * cells * streams * v_width, 128);
    return bytes;
}

/* A layer in host memory keeps its cache there: keys and values are copied whole */
static int copied_from_cache(net *n, double bytes)
{
    if (!on_host(n)) return GGML_NONE;
    tag(n, VRAM_WHAT_CACHE_COPY);
    int copy = ggml_graph_copy(n->g, bytes);
    tag(n, VRAM_WHAT_ATTENTION_ACTIVATIONS);
    return copy;
}

static int copied_cache(net *n, vram_format type, double cells, double heads, double head_dim)
{
    double each = vram_format_bytes(type), padding = row_padding(vram_format_get(type)->block, each, head_dim);
    return copied_from_cache(n, cells * n->b->streams * heads * head_dim * each + padding);
}

/* The latent without its rotated end: the last row is that much shorter */
static int copied_latent(net *n, const vram_attention *a, double cells)
{
    double each = vram_format_bytes(n->b->k_type), rank = (double)a->kv_lora_rank, width = rank + (double)a->qk_rope_head_dim;
    return copied_from_cache(n, (cells * n->b->streams - 1) * width * each + rank * each);
}

/* Learned numbers that join each head's scores (gpt-oss); of layers in host memory they come with the mask */
static int copied_sinks(net *n, const vram_attention *a, const cache *c)
{
    if (!on_host(n) || !a->sinks || n->rows < 32) return GGML_NONE;
    ggml_graph_use(n->g, SOURCES(c->mask));
    ggml_graph_split(n->g);
    return ggml_graph_copy(n->g, 4 * (double)a->heads);
}

/* Scores and values: one fused kernel, or scores of every head and cell in fp32 */
static int attend(net *n, const vram_attention *a, const cache *c, int q)
{
    double heads = (double)a->heads, v = (double)a->v_head_dim, kv = (double)a->kv_heads;
    ggml_shape out = ggml_f32(v, heads, n->rows), all = ggml_f32(c->cells, n->rows, heads);
    int keys = copied_cache(n, n->b->k_type, c->cells, kv, (double)a->head_dim), values = GGML_NONE, sinks = GGML_NONE;
    if (n->b->flash) {
        values = copied_cache(n, n->b->v_type, c->cells, kv, v);
        sinks = copied_sinks(n, a, c);
        out.bytes += flash_copies(n, c->cells, kv * (double)a->head_dim, kv * v);
        return V(ggml_graph_op(n->g, false, out, SOURCES(V(q), keys, values, c->mask, sinks)));
    }
    if (!a->sinks) {
        if (keys >= 0) ggml_graph_use(n->g, SOURCES(c->mask)); /* it comes to the GPU after the keys */
        values = copied_cache(n, n->b->v_type, c->cells, kv, v);
    }
    tag(n, VRAM_WHAT_ATTENTION_SCORES);
    int scores = ggml_graph_op(n->g, false, all, SOURCES(keys, V(q)));
    if (a->sinks) {
        sinks = copied_sinks(n, a, c);
        values = copied_cache(n, n->b->v_type, c->cells, kv, v);
    }
    tag(n, VRAM_WHAT_ATTENTION_SCORES);
    scores = ggml_graph_op(n->g, true, all, SOURCES(scores, c->mask, sinks));
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

/* On the host the row numbers are needed there only */
static void write_cache(net *n, int x, int ids) { ggml_graph_use(n->g, SOURCES(V(x), on_host(n) ? GGML_NONE : ids)); }

/* q, k, v and the writing of the cache; returns q. With two caches k comes before v (build_attn of _iswa), else after. */
static int queries(net *n, const vram_attention *a, const cache *c, int x)
{
    double q_width = (double)(a->heads * a->head_dim) * (a->output_gate ? 2 : 1), k_width = (double)(a->kv_heads * a->head_dim), v_width = (double)(a->kv_heads * a->v_head_dim);
    int q, k = GGML_NONE, v = GGML_NONE;
    if (a->fused_qkv) {
        int qkv = biased(n, a->q_bias, multiply_by(n, VRAM_ROLE_OF_QKV, x, q_width + k_width + v_width));
        q = heads_of(n, a, c, V(qkv), (double)a->heads);
        if (!n->two_caches) v = values_of(n, a, c, qkv);
        k = heads_of(n, a, c, V(qkv), (double)a->kv_heads);
        if (n->two_caches) v = values_of(n, a, c, qkv);
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
    int up = copied_weight(n, VRAM_ROLE_OF_OTHER, rank, rank * v * h);
    return ggml_graph_op(n->g, false, ggml_f32(v, n->rows, h), SOURCES(up, latent));
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
    int up = copied_weight(n, VRAM_ROLE_OF_OTHER, nope, nope * rank * h);
    int absorbed = ggml_graph_op(n->g, false, ggml_f32(rank, n->rows, h), SOURCES(up, V(q)));
    int q_rope = ggml_graph_op(n->g, true, ggml_f32(rope, h, n->rows), SOURCES(V(q), POSITIONS));
    int query = ggml_graph_op(n->g, false, ggml_f32(rank + rope, h, n->rows), SOURCES(V(absorbed), q_rope));
    int kv = multiply(n, x, rank + rope);
    int latent = factors_of(n, rank, shaped(n, true, ggml_f32(rank, n->rows, 1), V(kv)));
    int k_rope = ggml_graph_op(n->g, true, ggml_f32(rope, 1, n->rows), SOURCES(V(kv), POSITIONS));
    int key = ggml_graph_op(n->g, false, ggml_f32(rank + rope, 1, n->rows), SOURCES(V(latent), k_rope));
    write_cache(n, key, c.k_ids);
    if (n->b->flash) {
        int keys = copied_cache(n, n->b->k_type, c.cells, 1, rank + rope), values = copied_latent(n, a, c.cells);
        int mask = a->index_heads > 0 ? index_mask(n, a, &c, x, low) : c.mask;
        ggml_shape out = ggml_f32(rank, h, n->rows);
        out.bytes += flash_copies(n, c.cells, rank + rope, 0);
        int o = ggml_graph_op(n->g, false, out, SOURCES(V(query), keys, values, mask));
        return V(shaped(n, false, ggml_f32(v, h, n->rows), V(heads_up(n, a, V(o)))));
    }
    int values = copied_latent(n, a, c.cells), keys = copied_cache(n, n->b->k_type, c.cells, 1, rank + rope);
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
static int attention_heads(net *n, const vram_attention *a, int x)
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
static int project(net *n, const vram_attention *a, int heads)
{
    return biased(n, a->o_bias, multiply_by(n, VRAM_ROLE_OF_ATTENTION_OUTPUT, a->output_gate ? heads : turned_back(n, a, heads), n->hidden));
}

/* ------------------------------------------------------------------------------------------------------------- state -- */

/* build_rs also moves the states of slots that take no part: none in the largest batch, a tensor of no bytes all the same */
static void move_other_states(net *n)
{
    int none = ggml_graph_op(n->g, false, ggml_f32(0, 0, 1), SOURCES(OTHER_STATE_IDS));
    ggml_graph_use(n->g, SOURCES(none));
}

/* The convolution's columns of every sequence; in llama.cpp's order of nodes some graphs read them before the layer before is done */
static int read_columns(net *n, const vram_state *s)
{
    vram_state_shape shape = vram_state_size(s);
    int columns = ggml_graph_op(n->g, false, ggml_f32(shape.conv_channels * ((double)s->conv_kernel - 1), n->b->sequences, 1), SOURCES(STATE_IDS));
    move_other_states(n);
    return columns;
}

static const vram_layer *layer_at(const net *n, int64_t layer) { return layer < n->m->layers ? &n->m->kind[n->m->layer_kind[layer]] : NULL; }

/* Mamba and short convolutions read the next layer's columns ahead; delta nets and Falcon-H1 do not. */
static bool reads_ahead(const vram_layer *layer)
{
    if (!layer || layer->attention.type != VRAM_MIXER_NONE) return false;
    return layer->state.type == VRAM_STATE_MAMBA1 || layer->state.type == VRAM_STATE_MAMBA2 || layer->state.type == VRAM_STATE_SHORT_CONV;
}

static void read_ahead(net *n)
{
    const vram_layer *next = layer_at(n, n->layer + 1);
    if (!reads_ahead(next) || n->carried_made) return;
    n->carried = read_columns(n, &next->state);
    n->carried_made = true;
}

/* columns of the past and of this batch, one after the other, and the convolution over them */
static int convolve(net *n, const vram_state *s, int columns, int from, bool bias, bool activation)
{
    vram_state_shape shape = vram_state_size(s);
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(n->tokens + past, shape.conv_channels, 1), SOURCES(V(columns), V(from)));
    int x = shaped(n, false, ggml_f32(shape.conv_channels, n->tokens, 1), joined);
    if (bias) x = same(n, true, x);
    return activation ? same(n, true, x) : x;
}

static double state_numbers(const net *n, const vram_state *s)
{
    vram_state_shape shape = vram_state_size(s);
    return shape.channels * shape.numbers * n->b->sequences;
}

/* norms of the time step, B and C: Jamba's have weights, Falcon-Mamba's have none */
static int state_norm(net *n, const vram_state *s, double width, int from)
{
    int x = shaped(n, true, ggml_f32(width, n->tokens, 1), V(from));
    return s->inner_norms ? same(n, true, x) : x;
}

/* build_mamba_layer: returns the output of the mixer, before the residual */
static int mamba1(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, t = n->tokens;
    int in = multiply(n, x, 2 * inner);
    int conv = convolve(n, s, columns, in, s->conv_bias, true);
    int dbc = multiply(n, conv, (double)(s->dt_rank + 2 * s->state));
    bool normed = s->inner_norms || trait(n, BARE_STATE_NORMS);
    int dt = multiply(n, normed ? state_norm(n, s, (double)s->dt_rank, dbc) : shaped(n, false, ggml_f32((double)s->dt_rank, t, 1), V(dbc)), inner);
    dt = same(n, true, dt);
    int b = normed ? state_norm(n, s, (double)s->state, dbc) : V(dbc), c = normed ? state_norm(n, s, (double)s->state, dbc) : V(dbc);
    int scan = ggml_graph_op(n->g, false, ggml_f32(inner * t + state_numbers(n, s), 1, 1), SOURCES(V(conv), dt, b, c, STATE_IDS));
    move_other_states(n);
    ggml_graph_use(n->g, SOURCES(V(scan)));
    if (layer_at(n, n->layer)->ffn.experts == 0) read_ahead(n);
    pick_early(n);
    int z = shaped(n, false, ggml_f32(inner, t, 1), V(in));
    int y = same(n, true, conv);
    y = ggml_graph_op(n->g, true, ggml_f32(inner, t, 1), SOURCES(V(scan), y));
    y = ggml_graph_op(n->g, false, ggml_f32(inner, t, 1), SOURCES(z, y));
    return V(multiply(n, y, n->hidden));
}

/* build_mamba2_layer up to the scan; what follows is asked for later, by whoever needs the output */
typedef struct { int in, conv, scan; } mamba2_parts;

static mamba2_parts mamba2_scan(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, heads = (double)s->heads, t = n->tokens, channels = inner + 2 * (double)(s->groups * s->state);
    mamba2_parts p;
    p.in = multiply(n, x, inner + channels + heads);
    p.conv = convolve(n, s, columns, p.in, s->conv_bias, true);
    int dt = same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(p.in)));
    p.scan = ggml_graph_op(n->g, false, ggml_f32(inner * t + state_numbers(n, s), 1, 1), SOURCES(V(p.conv), dt, V(p.conv), V(p.conv), STATE_IDS));
    move_other_states(n);
    ggml_graph_use(n->g, SOURCES(V(p.scan)));
    return p;
}

static int mamba2_out(net *n, const vram_state *s, mamba2_parts p)
{
    ggml_shape heads = ggml_f32((double)s->head_dim, (double)s->heads, n->tokens);
    int z = shaped(n, false, heads, V(p.in));
    int y = shaped(n, true, heads, V(p.conv));
    y = ggml_graph_op(n->g, true, heads, SOURCES(V(p.scan), y));
    y = ggml_graph_op(n->g, false, heads, SOURCES(z, y));
    if (s->gated_norm) y = same(n, true, shaped(n, true, ggml_f32((double)(s->inner / s->groups), (double)s->groups, n->tokens), V(y)));
    return multiply(n, V(y), n->hidden);
}

/* models/lfm2.cpp, build_shortconv_block */
static int short_convolution(net *n, const vram_state *s, int columns, int x)
{
    ggml_shape rows = ggml_f32(n->hidden, n->tokens, 1);
    int bcx = multiply(n, V(x), 3 * n->hidden);
    int bx = ggml_graph_op(n->g, true, rows, SOURCES(V(bcx), V(bcx)));
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(n->tokens + past, n->hidden, 1), SOURCES(V(columns), V(bx)));
    ggml_graph_use(n->g, SOURCES(V(joined)));
    if (layer_at(n, n->layer)->ffn.experts == 0) read_ahead(n);
    pick_early(n);
    int y = shaped(n, false, rows, joined);
    y = ggml_graph_op(n->g, true, rows, SOURCES(V(bcx), y));
    return V(multiply(n, y, n->hidden));
}

/* models/qwen35.cpp, qwen3next.cpp, delta-net-base.cpp with the fused kernel */
static int gated_delta(net *n, const vram_state *s, int x)
{
    double t = n->tokens, key = (double)(s->key_heads * s->key_head_dim), value = (double)(s->heads * s->head_dim), heads = (double)s->heads;
    ggml_shape keys = ggml_f32((double)s->key_head_dim, (double)s->key_heads, t), repeated = ggml_f32((double)s->key_head_dim, heads, t);
    ggml_shape values = ggml_f32((double)s->head_dim, heads, t);
    bool repeat = trait(n, REPEAT_KEYS) && s->heads != s->key_heads;
    int columns = read_columns(n, s);
    int qkv = multiply(n, x, 2 * key + value);
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(t + past, 2 * key + value, 1), SOURCES(V(columns), V(qkv)));
    ggml_graph_use(n->g, SOURCES(V(joined)));
    int state = ggml_graph_op(n->g, false, ggml_f32(state_numbers(n, s), 1, 1), SOURCES(STATE_IDS));
    move_other_states(n);
    int conv = same(n, true, shaped(n, false, ggml_f32(2 * key + value, t, 1), joined));
    int q = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) q = V(shaped(n, false, repeated, V(q)));
    int k = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) k = V(shaped(n, false, repeated, V(k)));
    int decay, beta;
    if (s->projections == VRAM_PROJECTIONS_FUSED) {
        int ba = multiply(n, x, 2 * heads);
        decay = V(same(n, true, same(n, true, same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(ba))))));
        beta = V(same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(ba))));
    } else {
        int a = multiply(n, x, heads);
        decay = V(same(n, true, same(n, true, shaped(n, true, ggml_f32(heads, t, 1), V(a)))));
        int b = multiply(n, x, heads);
        beta = shaped(n, true, ggml_f32(1, heads, t), V(b));
    }
    double rows = t + (double)s->key_head_dim * n->b->sequences;
    int out = ggml_graph_op(n->g, false, ggml_f32(value, rows, 1), SOURCES(q, k, V(conv), decay, beta, V(state)));
    ggml_graph_use(n->g, SOURCES(V(out)));
    int y = same(n, true, shaped(n, true, values, V(out)));
    int z = multiply(n, x, value);
    int gate = shaped(n, true, values, V(z));
    y = ggml_graph_op(n->g, true, values, SOURCES(y, gate));
    return V(multiply(n, V(y), n->hidden));
}

/* --------------------------------------------------------------------------------------------------------------- MLP -- */

/* build_ffn: gate and up, one product of both; or up alone, activated in place; or both in one projection */
static int dense(net *n, const vram_ffn *f, bool fused, double width, int x)
{
    ggml_shape inner = ggml_f32(width, n->rows, 1);
    int y;
    if (f->type == VRAM_FFN_PLAIN) {
        y = same(n, true, biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_UP, x, width)));
    } else if (fused) {
        y = shaped(n, false, inner, multiply_by(n, VRAM_ROLE_OF_UP, x, 2 * width));
    } else {
        int gate = biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_GATE, x, width)), up = biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_UP, x, width));
        y = ggml_graph_op(n->g, false, inner, SOURCES(gate, up));
    }
    return biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_DOWN, y, n->hidden));
}

/* The fused kernel that chooses experts keeps all that it replaces, until the node behind it; it knows only some numbers of experts. */
static bool fused_choice(const net *n, const vram_ffn *f)
{
    double e = (double)f->experts, power = 1;
    while (power < e) power *= 2;
    if (trait(n, SOFTMAX_AFTER | WEIGHTS_FIRST | EXPERT_GROUPS)) return false;
    return (power == e && e <= 512) || e == 288 || e == 576;
}

typedef struct { int weights, chosen, kept, keep[GGML_MAX_SOURCES]; } choice; /* at most nine are kept */

/* Experts by groups (DeepSeek-V3): scores of each group's best two, the groups, everything else masked */
static int masked_by_groups(net *n, const vram_ffn *f, int selection)
{
    double e = (double)f->experts, t = n->rows, groups = 8;
    int sorted = ggml_graph_op(n->g, false, ggml_f32(e, t, 1), SOURCES(V(selection)));
    int best = ggml_graph_op(n->g, false, ggml_f32(2, groups, t), SOURCES(V(selection), V(sorted)));
    int score = shaped(n, false, ggml_f32(groups, t, 1), V(best));
    int order = shaped(n, false, ggml_f32(groups, t, 1), V(score));
    int kept = ggml_graph_op(n->g, false, ggml_f32(e / 2, t, 1), SOURCES(V(selection), V(order)));
    int masked = shaped(n, true, ggml_f32(e, t, 1), V(selection));
    ggml_graph_use(n->g, SOURCES(kept, V(order), masked));
    return V(masked);
}

static choice choose(net *n, const vram_ffn *f, int x)
{
    double e = (double)f->experts, used = (double)f->experts_per_token, t = n->rows;
    ggml_shape all = ggml_f32(e, t, 1), some = ggml_f32(used, t, 1), one = ggml_f32(1, t, 1);
    bool fused = fused_choice(n, f);
    choice c = {.kept = 0};
    int logits = biased(n, f->router_linear_bias, multiply_by(n, VRAM_ROLE_OF_FULL, x, e)), selection;
    int probabilities = same(n, true, logits);
    selection = probabilities;
    if (f->router_bias) selection = factors_of(n, e, probabilities);
    c.keep[c.kept++] = logits;
    c.keep[c.kept++] = probabilities;
    if (selection != probabilities) c.keep[c.kept++] = selection;
    if (trait(n, EXPERT_GROUPS)) selection = masked_by_groups(n, f, selection);
    if (trait(n, WEIGHTS_FIRST)) selection = logits;
    int sorted = shaped(n, false, all, selection);
    int weights = ggml_graph_op(n->g, false, some, SOURCES(V(probabilities), V(sorted)));
    c.keep[c.kept++] = sorted;
    c.keep[c.kept++] = weights;
    if (trait(n, SOFTMAX_AFTER)) weights = shaped(n, true, some, V(weights));
    if (!trait(n, PLAIN_WEIGHTS | SOFTMAX_AFTER)) {
        int sum = shaped(n, false, one, V(weights)), floor = same(n, true, sum);
        c.keep[c.kept++] = sum;
        c.keep[c.kept++] = floor;
        weights = ggml_graph_op(n->g, true, some, SOURCES(V(weights), floor));
        c.keep[c.kept++] = weights;
    }
    if (trait(n, SCALED_WEIGHTS)) {
        weights = shaped(n, true, some, V(weights));
        c.keep[c.kept++] = weights;
    }
    if (!fused) c.kept = 0;
    c.weights = weights;
    c.chosen = sorted;
    return c;
}

/* Behind the node that follows the fused kernel */
static void chosen(net *n, const choice *c)
{
    if (c->kept > 0) ggml_graph_use(n->g, c->kept, c->keep);
}

static int with_bias_of_experts(net *n, const vram_ffn *f, int chosen_experts, int x)
{
    ggml_shape of = n->g->tensor[x].of;
    int biases = GGML_NONE, was = n->g->tag;
    if (on_host(n) && n->rows >= 32) {
        tag(n, VRAM_WHAT_COPIED_WEIGHTS);
        biases = ggml_graph_copy(n->g, 4 * of.shape[0] * (double)f->experts);
        n->g->tag = was;
    }
    return ggml_graph_op(n->g, true, of, SOURCES(x, biases, V(chosen_experts)));
}

/* The experts' own projections; their weighted sum. The fused sum of up to 15 experts keeps their outputs and weights until it is done. */
static int experts(net *n, const vram_ffn *f, int x, choice c, bool scaled)
{
    double used = (double)f->experts_per_token, width = (double)f->expert_width, t = n->rows;
    double in = f->latent_width > 0 ? (double)f->latent_width : n->hidden;
    ggml_shape inner = ggml_f32(width, used, t), outer = ggml_f32(in, used, t), row = ggml_f32(in, t, 1);
    int y;
    if (trait(n, WEIGHTS_FIRST)) {
        x = shaped(n, false, outer, V(x));
        x = ggml_graph_op(n->g, true, outer, SOURCES(x, c.weights));
    } else {
        x = V(x);
    }
    if (f->type == VRAM_FFN_PLAIN) {
        y = same(n, true, multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, width));
    } else if (trait(n, NO_SPLIT_GATE)) {
        int both = multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, 2 * width);
        y = ggml_graph_op(n->g, false, inner, SOURCES(V(both), V(both)));
    } else {
        int gate = multiply_experts(n, VRAM_ROLE_OF_GATE, x, c.chosen, in, width);
        if (f->expert_bias) gate = with_bias_of_experts(n, f, c.chosen, gate);
        int up = multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, width);
        if (f->expert_bias) up = with_bias_of_experts(n, f, c.chosen, up);
        y = ggml_graph_op(n->g, false, inner, SOURCES(gate, up));
    }
    int down = multiply_experts(n, VRAM_ROLE_OF_DOWN, y, c.chosen, width, in);
    if (f->expert_bias) down = with_bias_of_experts(n, f, c.chosen, down);
    int scale = GGML_NONE, unscaled = down;
    if (scaled) {
        int every = ggml_graph_op(n->g, false, ggml_f32((double)f->experts, t, 1), 0, NULL);
        scale = ggml_graph_op(n->g, false, ggml_f32(used, t, 1), SOURCES(every, V(c.chosen)));
        down = ggml_graph_op(n->g, true, outer, SOURCES(down, scale));
    }
    int weighted = trait(n, WEIGHTS_FIRST) ? down : ggml_graph_op(n->g, true, outer, SOURCES(down, V(c.weights)));
    bool fused_sum = used >= 2 && used <= 15 && !trait(n, WEIGHTS_FIRST);
    if (used == 1) return shaped(n, false, row, V(weighted));
    int sum = ggml_graph_op(n->g, true, row, SOURCES(V(weighted), V(weighted)));
    for (int64_t i = 2; i < f->experts_per_token && i < 256; i++) sum = ggml_graph_op(n->g, true, row, SOURCES(sum, V(weighted)));
    if (fused_sum) ggml_graph_use(n->g, SOURCES(unscaled, V(c.weights), scale));
    return sum;
}

static int shared_expert(net *n, const vram_ffn *f, int x)
{
    int y = dense(n, f, false, (double)f->shared_width, x);
    if (!f->shared_gate) return y;
    int gate = same(n, true, multiply_by(n, VRAM_ROLE_OF_FULL, x, 1));
    return ggml_graph_op(n->g, true, n->g->tensor[y].of, SOURCES(y, gate));
}

static int sparse(net *n, const vram_ffn *f, int x)
{
    int latent = f->latent_width > 0 ? multiply(n, x, (double)f->latent_width) : x;
    choice c = choose(n, f, x);
    chosen(n, &c);
    int y = experts(n, f, latent, c, false);
    read_ahead(n);
    if (f->latent_width > 0) y = multiply(n, y, n->hidden);
    return f->shared_width > 0 ? add(n, y, shared_expert(n, f, x)) : y;
}

static int mlp(net *n, const vram_ffn *f, int x)
{
    tag(n, f->experts > 0 ? VRAM_WHAT_EXPERT_ACTIVATIONS : VRAM_WHAT_MLP_ACTIVATIONS);
    if (f->experts > 0) return sparse(n, f, x);
    return dense(n, f, f->width > 0 && f->fused_gate_up, (double)(f->width > 0 ? f->width : f->shared_width), x);
}

/* ------------------------------------------------------------------------------------------------------------- layer -- */

/* After the mixer of the last layer only the rows go on whose logits are wanted. */
static int pick_rows(net *n, int *stream, int y)
{
    if (!last(n) || trait(n, PICK_AFTER_SUM | PICK_AFTER_LAYERS | PICK_AFTER_NORM)) return y;
    y = pick(n, y, n->hidden);
    *stream = n->picked >= 0 ? n->picked : pick(n, *stream, n->hidden);
    n->rows = n->b->outputs;
    return y;
}

static int post_norm(net *n, const vram_layer *l, int y) { return l->post_norms ? norm_rows(n, y) : y; }

static int cut(net *n, int x) { return last(n) ? pick(n, x, n->hidden) : x; }

static int parallel_mlp(net *n, const vram_layer *l, int x)
{
    double all = n->rows;
    x = cut(n, x);
    if (last(n)) n->rows = n->b->outputs;
    int y = mlp(n, &l->ffn, x);
    n->rows = all;
    return y;
}

/* Attention and MLP read the same normed input (models/falcon.cpp, command-r.cpp, phi2.cpp, stablelm.cpp) */
static int parallel_layer(net *n, const vram_layer *l)
{
    int stream = STREAM, x = norm_rows(n, stream), heads = attention_heads(n, &l->attention, x), y, attended;
    bool late = l->norms > 1 && last(n) && trait(n, PICK_BEFORE_NORM);
    int second = l->norms > 1 && !late ? norm_rows(n, stream) : x;
    if (late) {
        double all = n->rows;
        stream = pick(n, stream, n->hidden);
        n->rows = n->b->outputs;
        y = add(n, mlp(n, &l->ffn, norm_rows(n, stream)), stream);
        n->rows = all;
        y = add(n, y, cut(n, project(n, &l->attention, heads)));
    } else if (trait(n, ATTENTION_FIRST)) {
        attended = cut(n, project(n, &l->attention, heads));
        y = add(n, attended, parallel_mlp(n, l, second));
    } else {
        y = parallel_mlp(n, l, second);
        if (trait(n, ADD_FFN_TO_STREAM)) y = add(n, y, cut(n, stream));
        attended = cut(n, project(n, &l->attention, heads));
        if (trait(n, ADD_ATTENTION_TO_STREAM)) attended = add(n, attended, cut(n, stream));
        y = add(n, y, attended);
    }
    if (!trait(n, ADD_FFN_TO_STREAM | ADD_ATTENTION_TO_STREAM)) y = add(n, y, cut(n, stream));
    if (last(n)) n->rows = n->b->outputs;
    return y;
}

/* Gemma 4's sparse layers: router and experts on one norm of the stream, a dense MLP on another, the sum normed again */
static int experts_beside_mlp(net *n, const vram_layer *l, int stream)
{
    int router = same(n, true, same(n, true, norm(n, ggml_f32(n->hidden, n->rows, 1), stream)));
    tag(n, VRAM_WHAT_EXPERT_ACTIVATIONS);
    choice c = choose(n, &l->ffn, router);
    int x = norm_rows(n, stream);
    chosen(n, &c);
    tag(n, VRAM_WHAT_EXPERT_ACTIVATIONS);
    int moe = experts(n, &l->ffn, x, c, true);
    int y = norm_rows(n, dense(n, &l->ffn, false, (double)l->ffn.width, norm_rows(n, stream)));
    return norm_rows(n, add(n, y, norm_rows(n, moe)));
}

/* What stands where attention stands: the mixer's output, already projected to the hidden width */
static int mixer(net *n, const vram_layer *l, int x)
{
    const vram_state *s = &l->state;
    tag(n, VRAM_WHAT_STATE_ACTIVATIONS);
    switch (s->type) {
    case VRAM_STATE_MAMBA1: return mamba1(n, s, n->columns, x);
    case VRAM_STATE_SHORT_CONV: return short_convolution(n, s, n->columns, x);
    case VRAM_STATE_GATED_DELTA: return gated_delta(n, s, x);
    case VRAM_STATE_MAMBA2: {
        mamba2_parts p = mamba2_scan(n, s, n->columns, x);
        if (l->ffn.experts == 0) read_ahead(n);
        return mamba2_out(n, s, p);
    }
    default: break;
    }
    int heads = attention_heads(n, &l->attention, x);
    if (l->ffn.experts == 0) read_ahead(n);
    pick_early(n);
    return project(n, &l->attention, heads);
}

/* Falcon-H1: both, on norms of their own, added */
static int both_mixers(net *n, const vram_layer *l)
{
    int heads = attention_heads(n, &l->attention, norm_rows(n, STREAM));
    tag(n, VRAM_WHAT_STATE_ACTIVATIONS);
    int columns = read_columns(n, &l->state);
    mamba2_parts p = mamba2_scan(n, &l->state, columns, norm_rows(n, STREAM));
    int y = project(n, &l->attention, heads);
    return add(n, y, mamba2_out(n, &l->state, p));
}

static bool has_mixer(const vram_layer *l) { return l->attention.type != VRAM_MIXER_NONE || l->state.type != VRAM_STATE_NONE; }

/* Gemma 4 E: the first layer joins the tables' rows with a projection of the embeddings and keeps them for all layers; each gates its slice by the
 * stream and adds it. */
static int layer_inputs(net *n, int stream)
{
    double width = n->layer_input, all = width * (double)n->m->layers;
    ggml_shape slices = ggml_f32(width, (double)n->m->layers, n->rows);
    int gate = same(n, true, multiply(n, stream, width)), inputs = CARRIED;
    if (n->layer == 0) {
        int x = same(n, true, multiply_by(n, VRAM_ROLE_OF_HALF, STREAM, all));
        x = factors_of(n, width, shaped(n, true, slices, V(x)));
        x = same(n, true, ggml_graph_op(n->g, true, slices, SOURCES(x, CARRIED)));
        inputs = shaped(n, false, ggml_f32(width, n->rows, (double)n->m->layers), V(x));
    }
    if (!last(n)) n->carried = inputs;
    gate = ggml_graph_op(n->g, true, ggml_f32(width, n->rows, 1), SOURCES(gate, V(inputs)));
    int y = multiply(n, gate, n->hidden);
    y = factors_of(n, n->hidden, same(n, true, y));
    return factors_of(n, 1, add(n, stream, y));
}

static int plain_layer(net *n, const vram_layer *l)
{
    int stream = STREAM;
    bool both = l->attention.type != VRAM_MIXER_NONE && l->state.type != VRAM_STATE_NONE, after_only = l->post_norms && l->norms == 2;
    if (has_mixer(l)) {
        n->columns = !reads_ahead(l) ? GGML_NONE : n->layer > 0 ? CARRIED : read_columns(n, &l->state);
        int y = both ? both_mixers(n, l) : mixer(n, l, after_only ? stream : norm_rows(n, stream));
        y = pick_rows(n, &stream, y);
        y = post_norm(n, l, y);
        stream = trait(n, MIXER_IN_STREAM) ? add(n, stream, y) : add(n, y, stream);
        if (last(n) && trait(n, PICK_AFTER_SUM)) {
            stream = pick(n, stream, n->hidden);
            n->rows = n->b->outputs;
        }
    }
    if (l->ffn.type == VRAM_FFN_NONE) return stream;
    if (trait(n, SPLIT_EXPERTS_BESIDE) && l->ffn.experts > 0) return add(n, experts_beside_mlp(n, l, stream), stream);
    int y = mlp(n, &l->ffn, after_only ? stream : norm_rows(n, stream));
    if (!has_mixer(l)) y = pick_rows(n, &stream, y);
    y = trait(n, FFN_IN_STREAM) ? add(n, stream, post_norm(n, l, y)) : add(n, post_norm(n, l, y), stream);
    return n->layer_input > 0 ? layer_inputs(n, y) : y;
}

/* Families with multi-token prediction give all rows of the hidden state out, too: an output of the graph, which stays */
static int pick_hidden(net *n, int x)
{
    n->g->tensor[x].output = true;
    return pick(n, x, n->hidden);
}

static void head(net *n, int stream)
{
    bool after_layers = trait(n, PICK_AFTER_LAYERS), after_norm = trait(n, PICK_AFTER_NORM);
    if (after_layers) stream = pick_hidden(n, stream);
    if (after_layers) n->rows = n->b->outputs;
    int x = n->m->final_norm ? norm_rows(n, stream) : stream;
    n->rows = n->b->outputs;
    if (after_norm) x = pick_hidden(n, x);
    tag(n, VRAM_WHAT_LOGITS);
    int logits = multiply(n, x, (double)n->m->vocab);
    n->g->tensor[logits].output = true;
    ggml_graph_run(n->g, GGML_NONE, GGML_NONE);
}

static void walk(net *n)
{
    n->rows = n->tokens;
    n->leaf = 0;
    n->layer = 0;
    if (!on_host(n)) ggml_graph_allocate_inputs(n->g);
    if (n->m->position == VRAM_POSITION_LEARNED) ggml_graph_run(n->g, add(n, STREAM, LEARNED_POSITIONS), GGML_NONE);
    if (n->m->embedding_norm) ggml_graph_run(n->g, norm_rows(n, STREAM), GGML_NONE);
    if (n->layer_input > 0) {
        int inputs = same(n, true, LAYER_INPUTS);
        ggml_graph_run(n->g, same(n, true, STREAM), inputs);
    }
    if (trait(n, SCALED_EMBEDDINGS)) ggml_graph_run(n->g, same(n, true, STREAM), GGML_NONE);
    for (n->layer = 0; n->layer < n->m->layers; n->layer++) {
        const vram_layer *l = layer_at(n, n->layer);
        n->carried = GGML_NONE;
        n->carried_made = false;
        n->picked = GGML_NONE;
        n->g->last_split = n->layer + 1 == n->b->host_layers;
        int stream = l->parallel && l->attention.type != VRAM_MIXER_NONE ? parallel_layer(n, l) : plain_layer(n, l);
        ggml_graph_run(n->g, stream, n->carried);
        if (n->layer + 1 >= n->b->host_layers) ggml_graph_allocate_inputs(n->g);
    }
    head(n, STREAM);
}

/* ------------------------------------------------------------------------------------------------------------ inputs -- */

/* of the layers with a window's cache, or of the others */
static double widest_head(const net *n, bool window)
{
    double widest = 0;
    for (int i = 0; i < n->m->kinds; i++)
        if (windowed(n, &n->m->kind[i].attention) == window) widest = vram_max(widest, (double)n->m->kind[i].attention.head_dim);
    return widest;
}

/* Row numbers are 64 bit; without flash kernels every number of V has its own. The mask has a row a token. */
static void cache_inputs(net *n, int k_ids, int v_ids, int mask, double cells)
{
    double t = n->tokens, each = n->b->flash ? 1 : widest_values(n->m);
    ggml_graph_input(n->g, k_ids, ggml_typed(8, t, 1, 1));
    ggml_graph_input(n->g, v_ids, ggml_typed(8, t, each, 1));
    tag(n, VRAM_WHAT_CAUSAL_MASK);
    ggml_graph_input(n->g, mask, ggml_typed(n->b->flash ? 2 : 4, cells, t, 1));
    tag(n, VRAM_WHAT_INPUT_IDS);
}

/* the largest power of two that divides the head, for keys; 64 for values */
static void rotations(net *n, bool window, int k, int v)
{
    double side = 64, head = widest_head(n, window);
    while (2 * side <= head && head / (2 * side) == vram_ceil_div(head, 2 * side)) side *= 2;
    ggml_graph_input(n->g, k, ggml_f32(side, side, 1));
    ggml_graph_input(n->g, v, ggml_f32(64, 64, 1));
}

static double layer_input_width(const vram_model *m)
{
    for (int i = 0; i < m->tensors; i++)
        if (strcmp(m->tensor[i].name, "per_layer_input_gate") == 0) return (double)m->tensor[i].rows;
    return 0;
}

double llama_graph_bytes(ggml_graph *graph, const vram_model *model, const llama_batch *batch)
{
    net n = {.g = graph, .m = model, .b = batch, .traits = traits_of(model), .two_caches = batch->two_caches, .hidden = (double)model->hidden, .layer_input = layer_input_width(model), .tokens = batch->tokens};
    ggml_graph_start(graph);
    tag(&n, VRAM_WHAT_HIDDEN_STATES);
    ggml_graph_input(graph, STREAM, ggml_f32(n.hidden, n.tokens, 1));
    ggml_graph_input(graph, LEARNED_POSITIONS, ggml_f32(n.hidden, n.tokens, 1));
    tag(&n, VRAM_WHAT_INPUT_IDS);
    ggml_graph_input(graph, POSITIONS, ggml_typed(4, n.tokens * (trait(&n, FOUR_POSITIONS) ? 4 : 1), 1, 1));
    ggml_graph_input(graph, OUTPUT_IDS, ggml_typed(4, batch->outputs, 1, 1));
    ggml_graph_input(graph, STATE_IDS, ggml_typed(4, batch->sequences, 1, 1));
    ggml_graph_input(graph, OTHER_STATE_IDS, ggml_typed(4, 0, 1, 1));
    ggml_graph_input(graph, LAYER_INPUTS, ggml_f32(n.layer_input, (double)model->layers, n.tokens));
    ggml_graph_input(graph, ROTARY_FACTORS, ggml_f32((double)model->rotary_factors, 1, 1));
    ggml_graph_input(graph, QUERY_SCALES, ggml_f32(n.tokens, 1, 1));
    cache_inputs(&n, K_IDS, V_IDS, MASK, batch->cells);
    cache_inputs(&n, WINDOW_K_IDS, WINDOW_V_IDS, WINDOW_MASK, batch->window_cells);
    ggml_graph_input(graph, INDEX_IDS, ggml_typed(8, n.tokens, 1, 1));
    tag(&n, VRAM_WHAT_CAUSAL_MASK);
    ggml_graph_input(graph, INDEX_MASK, ggml_typed(2, batch->cells, n.tokens, 1));
    tag(&n, VRAM_WHAT_INPUT_IDS);
    ggml_graph_input(graph, INDEX_ROTATION, ggml_f32(128, 128, 1));
    rotations(&n, false, K_ROTATION, V_ROTATION);
    rotations(&n, true, WINDOW_K_ROTATION, WINDOW_V_ROTATION);
    walk(&n);
    ggml_graph_second_pass(graph);
    ggml_graph_leaves(graph, n.leaf); /* as many as the first pass met */
    walk(&n);
    return graph->failed ? 0 : graph->high;
}
