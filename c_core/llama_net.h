/* llama_net.h -- what llama_graph.c, llama_attention.c, llama_state.c and llama_mlp.c share: the layer at hand, and the operations they describe it with.
 * Every operation returns the tensor that it makes. Source: llama.cpp v0.5.0, src/llama-graph.cpp. */
#ifndef VRAM_LLAMA_NET_H
#define VRAM_LLAMA_NET_H

#include "llama_graph.h"

#include <stddef.h>

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
    ROPE_IN_WINDOWS = 1 << 0,            /* layers that see everything have no rotary embedding (Cohere 2, EXAONE 4) */
    ROPE_3_OF_4 = 1 << 1,                /* every fourth layer has none (SmolLM 3) */
    NO_ROPE = 1 << 2,                    /* none at all (Granite hybrid, Jamba, Nemotron-H) */
    FOUR_POSITIONS = 1 << 3,             /* four numbers a token (Qwen3.5's multimodal rotation) */
    SCALED_EMBEDDINGS = 1 << 4,          /* the embeddings are touched before anything else (Granite) */
    V_NORM = 1 << 5,                     /* values are normed (Gemma 4) */
    NORM_AFTER_ROPE = 1 << 6,            /* q and k are normed after the rotation (Llama 4, Hunyuan) */
    SCALED_QUERIES = 1 << 7,             /* queries without rotation are scaled by their position (Llama 4) */
    REPEAT_KEYS = 1 << 8,                /* delta net: keys are repeated for the values' heads (Qwen3-Next) */
    BARE_STATE_NORMS = 1 << 9,           /* time step, B and C are normed without weights (Falcon-Mamba) */
    PLAIN_WEIGHTS = 1 << 10,             /* the experts' weights are not normalised */
    SOFTMAX_AFTER = 1 << 11,             /* softmax over the chosen experts only (gpt-oss) */
    WEIGHTS_FIRST = 1 << 12,             /* experts' inputs are weighted, not their outputs (Llama 4) */
    EXPERT_GROUPS = 1 << 13,             /* experts are chosen by groups (DeepSeek-V3) */
    SCALED_WEIGHTS = 1 << 14,            /* and their weights scaled */
    SPLIT_EXPERTS_BESIDE = 1 << 15,      /* dense MLP and experts side by side, each with its norms (Gemma 4) */
    NO_SPLIT_GATE = 1 << 16,             /* experts' gate and up are one tensor in the file (Gemma 4) */
    FFN_IN_STREAM = 1 << 17,             /* the stream is the first operand when the MLP is added (Phi-3, LFM2) */
    MIXER_IN_STREAM = 1 << 18,           /* and when the mixer is (LFM2) */
    ADD_FFN_TO_STREAM = 1 << 19,         /* parallel blocks: stream first, attention last (Cohere) */
    ATTENTION_FIRST = 1 << 20,           /* parallel blocks: attention is projected before the MLP (Phi) */
    ADD_ATTENTION_TO_STREAM = 1 << 21,   /* parallel blocks: attention and stream are added first (StableLM) */
    PICK_BEFORE_NORM = 1 << 22,          /* parallel blocks: the MLP's own norm sees only the rows picked (GPT-NeoX) */
    PICK_AFTER_SUM = 1 << 23,            /* rows are picked once the mixer has been added (Falcon-H1) */
    PICK_AFTER_LAYERS = 1 << 24,         /* the rows of the outputs are picked after the last layer (gpt-oss) */
    PICK_AFTER_NORM = 1 << 25,           /* or after the last norm */
    SNAPSHOTS = 1 << 26                  /* Mamba: the scan leaves a state for every token drafted (Nemotron-H) */
};

typedef struct {
    ggml_graph *g;
    const vram_model *m;
    const llama_batch *b;
    unsigned traits;
    bool two_caches;        /* windowed layers have their own */
    bool no_kernel;         /* some layer's heads or types are such that CUDA has no flash kernel for them: the host computes its attention */
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

static inline bool trait(const net *n, unsigned t) { return (n->traits & t) != 0; }

static inline bool last(const net *n) { return n->layer == n->m->layers - 1; }

#define SOURCES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__}
#define V(tensor) ((tensor) | GGML_VIEW)

static inline const vram_layer *layer_at(const net *n, int64_t layer) { return layer < n->m->layers ? &n->m->kind[n->m->layer_kind[layer]] : NULL; }

/* ------------------------------------------------------------------------------------------------------- operations -- */

static inline void tag(net *n, vram_what what) { n->g->tag = (int)what; }

static inline bool on_host(const net *n) { return n->layer < n->b->host_layers; }

/* CUDA gives a quantised tensor whose rows are no multiple of 512 numbers room for the rest of one */
static inline double row_padding(double block, double bytes_each, double width)
{
    double over = width - 512 * vram_floor_div(width, 512);
    return block > 1 && over > 0 ? (512 - over) * bytes_each : 0;
}

static inline int outside(net *n, vram_what what, ggml_outside kind, double bytes)
{
    int was = n->g->tag;
    if (!on_host(n)) return GGML_NONE;
    tag(n, what);
    int result = ggml_graph_outside(n->g, kind, bytes);
    n->g->tag = was;
    return result;
}

static inline int weight_of(net *n, vram_gguf_role role, double in, double numbers)
{
    int type = n->layer < n->m->layers ? n->b->weights->type[n->layer][role] : n->b->weights->output;
    double block = vram_ggml_get((vram_ggml_type)type)->block, bytes = vram_ggml_bytes((vram_ggml_type)type, numbers);
    return outside(n, VRAM_WHAT_COPIED_WEIGHTS, GGML_OUTSIDE_WEIGHT, bytes + row_padding(block, bytes / numbers, in));
}

static inline int vector_of(net *n, double numbers) { return outside(n, VRAM_WHAT_COPIED_WEIGHTS, GGML_OUTSIDE_WEIGHT, 4 * numbers); }

/* The last operation has a weight. In host memory it runs there with less than 32 rows; else the weight is copied to the GPU. */
static inline int placed(net *n, double rows, int x)
{
    if (on_host(n)) ggml_graph_place(n->g, rows < 32 ? GGML_ON_HOST : GGML_ON_GPU);
    return x;
}

static inline double numbers_a_row(const net *n, int x)
{
    const ggml_shape *s = &n->g->tensor[x & ~GGML_VIEW].of;
    return s->shape[0] * s->shape[1] * s->shape[2] / n->rows;
}

/* weight x `x`: a new tensor of `width` numbers a row */
static inline int multiply_by(net *n, vram_gguf_role role, int x, double width)
{
    int weight = weight_of(n, role, numbers_a_row(n, x), numbers_a_row(n, x) * width);
    return placed(n, n->rows, ggml_graph_op(n->g, false, ggml_f32(width, n->rows, 1), SOURCES(weight, x)));
}

static inline double rows_of(const ggml_shape *s) { return s->shape[1] * s->shape[2]; }

/* Vectors (biases, factors of norms) are weights, too: an operation in place, told only where it matters. */
static inline int with_vector(net *n, double numbers, int x)
{
    const ggml_shape *of = &n->g->tensor[x & ~GGML_VIEW].of;
    if (!on_host(n)) return x;
    return placed(n, rows_of(of), ggml_graph_op(n->g, true, *of, SOURCES(x, vector_of(n, numbers))));
}

static inline int biased(net *n, bool bias, int x) { return bias ? with_vector(n, numbers_a_row(n, x), x) : x; }

static inline int multiply(net *n, int x, double width) { return multiply_by(n, VRAM_ROLE_OF_OTHER, x, width); }

/* the chosen experts' matrices; all experts' are copied */
static inline int multiply_experts(net *n, vram_gguf_role role, int x, int chosen, double in, double width)
{
    const vram_ffn *f = &n->m->kind[n->m->layer_kind[n->layer]].ffn;
    int weight = weight_of(n, role, in, (double)f->experts * in * width);
    return placed(n, n->rows, ggml_graph_op(n->g, false, ggml_f32(width, (double)f->experts_per_token, n->rows), SOURCES(weight, x, V(chosen))));
}

static inline int same(net *n, bool in_place, int x) { return ggml_graph_op(n->g, in_place, n->g->tensor[x & ~GGML_VIEW].of, SOURCES(x)); }

static inline int shaped(net *n, bool in_place, ggml_shape shape, int x) { return ggml_graph_op(n->g, in_place, shape, SOURCES(x)); }

static inline int add(net *n, int a, int b) { return ggml_graph_op(n->g, true, n->g->tensor[a & ~GGML_VIEW].of, SOURCES(a, b)); }

/* a norm's factors, in place */
static inline int factors_of(net *n, double numbers, int x)
{
    int y = with_vector(n, numbers, x);
    return y != x ? y : same(n, true, x);
}

/* RMS norm may work in place, LayerNorm may not; the factors of its weight always */
static inline int norm(net *n, ggml_shape shape, int x)
{
    bool rms = n->m->norm == VRAM_NORM_RMS || n->m->norm == VRAM_NORM_RMS_BARE;
    int y = shaped(n, rms, shape, x);
    if (n->m->norm == VRAM_NORM_RMS_BARE || n->m->norm == VRAM_NORM_LAYER_BARE) return y;
    return biased(n, n->m->norm == VRAM_NORM_LAYER_BIAS, factors_of(n, shape.shape[0], y));
}

static inline int norm_rows(net *n, int x)
{
    tag(n, VRAM_WHAT_HIDDEN_STATES);
    return norm(n, ggml_f32(n->hidden, n->rows, 1), x);
}

/* `columns` of each row: their bytes from the first to the last */
static inline double reach(const net *n, double columns, double width) { return 4 * ((n->tokens - 1) * width + columns); }

/* A second part of the same tensor is a second copy on the host. */
static inline int apart(net *n, int x, double columns, double width)
{
    if (!n->g->host_layers) return V(x);
    int copy = ggml_graph_op(n->g, false, ggml_typed(1, reach(n, columns, width), 1, 1), SOURCES(V(x)));
    ggml_graph_place(n->g, GGML_ON_HOST);
    return copy;
}

/* Only the rows whose logits are wanted */
static inline int pick(net *n, int x, double width) { return ggml_graph_op(n->g, false, ggml_f32(width, n->b->outputs, 1), SOURCES(x, OUTPUT_IDS)); }

/* Where the stream is the first operand, its rows are picked before the mixer is done. */
static inline void pick_early(net *n)
{
    if (last(n) && trait(n, MIXER_IN_STREAM)) n->picked = pick(n, STREAM, n->hidden);
}

/* ---------------------------------------------------------------------------------------------------- parts of a layer -- */

int llama_heads(net *n, const vram_attention *a, int x);
int llama_project(net *n, const vram_attention *a, int heads);
bool llama_windowed(const net *n, const vram_attention *a);
bool llama_has_kernel(const llama_batch *b, const vram_attention *a);
double llama_widest_values(const vram_model *m);

typedef struct { int in, conv, scan; } mamba2_parts;
int llama_read_columns(net *n, const vram_state *s);
bool llama_reads_ahead(const vram_layer *layer);
void llama_read_ahead(net *n);
int llama_mamba1(net *n, const vram_state *s, int columns, int x);
mamba2_parts llama_mamba2_scan(net *n, const vram_state *s, int columns, int x);
int llama_mamba2_out(net *n, const vram_state *s, mamba2_parts p);
int llama_short_convolution(net *n, const vram_state *s, int columns, int x);
int llama_gated_delta(net *n, const vram_state *s, int x);

typedef struct { int weights, chosen, kept, keep[GGML_MAX_SOURCES]; } choice; /* at most nine are kept */
int llama_dense(net *n, const vram_ffn *f, bool fused, double width, int x);
choice llama_choose(net *n, const vram_ffn *f, int x);
void llama_after_choice(net *n, const choice *c);
int llama_experts(net *n, const vram_ffn *f, int x, choice c, bool scaled);
int llama_mlp(net *n, const vram_ffn *f, int x);

#endif
