/* parts.h -- with what the programs of a block are written: what the files of its parts (style.c, block_*.c, mixers.c) have of each other. */
#ifndef VRAM_PARTS_H
#define VRAM_PARTS_H

#include "block.h"

/* How a family writes what all have: a row each, in style.c */
/* weight * x.to(type); (x * (1 + weight)).to(type); (weight * x).to(type); the same with the weight in fp32; (x * weight).to(type), in fp32 */
typedef enum { NORM_LLAMA, NORM_GEMMA, NORM_OLMO, NORM_HELIUM, NORM_GEMMA_4 } norm_style;
typedef enum { ACT_KERNEL, ACT_RELU, ACT_NEW_GELU, ACT_RELU_SQUARED, ACT_XIELU } act_style; /* one kernel that saves its input; one that saves its output; written out in PyTorch */
typedef enum { QKV_SLICED, QKV_CHUNKED, QKV_SPLIT, QKV_COPIED } qkv_style; /* of one fused projection; copied: each part's heads put in order */
typedef enum { TURN_WHOLE, TURN_JOINED, TURN_HALVES, TURN_COMPLEX } turn_style; /* rotary on all of a head; on a part, joined with the rest; on two halves, joined; as complex numbers in fp32 */

typedef enum { ROUTER_SOFTMAX, ROUTER_CAST, ROUTER_WIDE_SOFTMAX, ROUTER_WIDE_SIGMOID } router_style; /* softmax, in fp32, of logits in the stream's type; of an fp32 input; all in fp32; sigmoid, the same */

typedef struct {
    const char *type;
    unsigned norm : 3, act : 3, qkv : 2, turn : 2, router : 2; /* norm_style, act_style, .. */
    bool act_second : 1;       /* up * act(gate), not act(gate) * up */
    bool scaled_embedding : 1, scaled_residual : 1, scaled_logits : 1, scaled_query : 1, scaled_state : 1, capped_scores : 1;
    bool capped_at_once : 1;   /* the logits, in one expression: they have their name until it is over */
    bool narrow_softmax : 1;   /* of the scores as they are, not in fp32 */
    bool two_tables : 1;       /* windowed layers rotate by a table of their own */
    bool written_norm : 1;     /* LayerNorm operation by operation (Cohere) */
    bool wide_rotary : 1;      /* in fp32 (Cohere) */
    bool wide_tables : 1;      /* of fp32 cos and sin: the products are, their factors are not (OLMo) */
    bool wide_halves : 1;      /* the same, but for the turned halves, which are made before (ERNIE) */
    bool wide_norm : 1;        /* LayerNorm in fp32 (OLMo) */
    bool narrow_norm : 1;      /* LayerNorm in 16 bit under autocast, too (Nemotron) */
    bool no_sdpa : 1;          /* attention is written out whatever is asked for */
    bool wide_stream : 1;      /* residual_in_fp32 (Mamba) */
    bool wide_logits : 1;      /* in fp32, not for the loss alone */
    bool windows_turn : 1;     /* layers that see everything have no rotary positions, where there are windows */
    bool value_norm : 1;       /* without a weight (Gemma 3n, 4) */
    bool shares_keys : 1;      /* the last layers with keys of their own keep them for later ones (Gemma 3n, 4) */
    bool altup : 1;            /* several streams, of which a layer works on one (Gemma 3n) */
    bool layer_scalar : 1;     /* a number that a layer's output is multiplied by in place (Gemma 4) */
    bool sub_norms : 1;        /* before attention's and the MLP's last product (BitNet) */
    bool named_attention : 1;  /* its output has a name to the layer's end */
    bool two_norms : 1;        /* parallel blocks with a norm each (GPT-NeoX) */
    bool unnamed_norm : 1;     /* an RMS norm in one expression: its parts have no names */
    bool norm_after_turn : 1;  /* of queries and keys */
    bool drops_later : 1;      /* attention's output is dropped by the layer, when attention's own names are gone */
    bool bare_mlp : 1;         /* its linear layers are the layer's own: the input's name goes to what the first makes (OPT) */
    bool positions_apart : 1;  /* of each sequence, though they are the same (OPT) */
    bool embedding_norm : 1;   /* over the embeddings, too */
    bool normed_router : 1;    /* reads a norm of its own, and scales what it has chosen (Gemma 4) */
    bool typed_router : 1;     /* computes in the type of its weight (HunYuan) */
    bool narrow_shares : 1;    /* of the chosen experts: cast to the stream's type */
    bool summed_shares : 1;    /* divided by their sum, which autocast makes in fp32 (LFM 2) */
    bool shared_first : 1;     /* the shared expert before the router */
    bool bounded : 1;          /* gate and up clamped, of every MLP (DeepSeek-V4) */
    bool differential : 1;     /* two attentions with half of the values each, one taken off the other (DiffLlama) */
    bool normed_residual : 1;  /* the norm's output goes past the block, both times a number (MiniMax) */
    bool hyper : 1;            /* several streams, collapsed and spread by weights of their own (DeepSeek-V4) */
    bool shared_block : 1;     /* of the input beside the embeddings, added before the mixer (Zamba) */
    bool every_expert : 1;     /* computes every token, scaled by its share (Llama 4) */
    bool clamped_experts : 1;  /* gate and up interleaved and clamped, with a bias for each expert (gpt-oss) */
    bool clamped : 1;          /* gate and up clamped, of every MLP (MiniMax-M3) */
    bool indexed : 1;          /* each query sees the keys that an index has chosen (DeepSeek-V3.2) */
    bool masked : 1;           /* sdpa is given the causal mask (Falcon) */
    bool transposed_weights : 1;   /* products with a view of the weight, whose cast autocast does not keep (Falcon) */
    bool wide_bias : 1;        /* scores plus an fp32 bias, then masked (MPT) */
    bool returns_weights : 1;  /* of attention, which the caller has until the next layer is over */
    bool named_scores : 1;     /* scaled by their product, which keeps a name (BLOOM) */
    bool shifted_scores : 1;   /* less the greatest, softmax in their own type (MiMo) */
    bool flash_loss : 1;       /* flash attention's package has a loss, too, over the 16-bit logits themselves (MPT's LLM Foundry) */
    bool bare_inner_norms : 1; /* of dt, B and C, without weights (Falcon Mamba) */
    bool wide_scores : 1;      /* of queries and keys in fp32 (GPT-Neo) */
} style;

typedef struct {
    const vram_pass *pass;
    vram_tape *t;
    const vram_layer *layer;
    style style;
    int kind;
    vram_size hidden, rows;    /* b s h; b s */
    vram_size stream, stream_rows; /* the same between the blocks: divided over the ranks by sequence parallelism */
    vram_layer divided;        /* behind `layer`, where tensor parallelism divides it */
} block;

/* A size of one to four factors, each a symbol and its value; of the rows of a pass (sequences, tokens), by one or two more */
vram_size vram_part_size(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y, vram_symbol d, double z, vram_symbol e, double w);
vram_size vram_part_rows(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y);
#define SIZE_1(b, ...) vram_part_size(b, 1, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define SIZE_2(b, ...) vram_part_size(b, 2, __VA_ARGS__, 0, 0, 0, 0)
#define SIZE_3(b, ...) vram_part_size(b, 3, __VA_ARGS__, 0, 0)
#define SIZE_4(b, ...) vram_part_size(b, 4, __VA_ARGS__)
#define ROWS_OF(b) vram_part_rows(b, 2, 0, 0, 0, 0)
#define ROWS_BY(b, ...) vram_part_rows(b, 3, __VA_ARGS__, 0, 0)
#define ROWS_BY_2(b, ...) vram_part_rows(b, 4, __VA_ARGS__)

static inline vram_size vram_part_wide(const block *b, vram_symbol symbol, double width) { return ROWS_BY(b, symbol, width); }
static inline vram_size vram_part_heads(const block *b, vram_symbol symbol, double heads, double head_dim) { return ROWS_BY_2(b, symbol, heads, VRAM_SYMBOL_HEAD_DIM, head_dim); }
vram_size vram_part_stream_size(const block *b); /* what stands between the blocks, all its streams */

/* The model's forward() has a name for it while the layers run. */
static inline void vram_part_name(const block *b, vram_cell x) { b->t->cell[x].cached = true; }
void vram_part_hold(const block *b, int n, const vram_cell cells[]); /* names of Python's, until here */
vram_cell vram_part_vector(const block *b, double length); /* a base model's weight that is no linear layer's: trained, or frozen under LoRA */

/* Sequence parallelism: what stands between the blocks has its tokens divided over the ranks. A block gathers them and keeps what it has
 * gathered; its output, a part of the sum on each rank, is summed and scattered. Source: torch/distributed/tensor/parallel/style.py
 * (PrepareModuleInput, RowwiseParallel), as torchtitan/models/llama3/infra/parallelize.py has them. */
static inline vram_cell vram_part_gather(const block *b, vram_cell x) { return b->stream == b->hidden ? x : vram_op_resized(b->t, x, b->hidden, false, VRAM_WHAT_GATHERED_INPUT); }
static inline vram_cell vram_part_scatter(const block *b, vram_cell x) { return b->stream == b->hidden ? x : vram_op_resized(b->t, x, b->stream, false, VRAM_WHAT_HIDDEN_STATES); }

/* FSDP 2 casts a layer's parameters, and what it is given, to the 16 bit that it gathers in; buffers stay as the model was made.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_state.py (_cast_forward_inputs), _fsdp_param.py (init_dtype_attrs) */
static inline bool vram_part_is_cast(const block *b)
{
    const vram_scenario *s = b->pass->scenario;
    return s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2 && (s->training.precision == VRAM_PRECISION_MIXED || s->training.precision == VRAM_PRECISION_AMP);
}

/* ---- style.c ---- */

style vram_style_of(const vram_model *model);
bool vram_part_is_eager(const vram_pass *pass); /* attention is computed as it is written down */
/* Is a kernel in the place of a family's own rotation, norm, act(gate) * up, act, experts? VRAM_KERNEL_OVER: the norm's gradient is written over the output's */
enum { VRAM_KERNEL_ROTARY = 1, VRAM_KERNEL_NORM = 2, VRAM_KERNEL_OVER = 4, VRAM_KERNEL_GATE = 8, VRAM_KERNEL_ACTIVATION = 16, VRAM_KERNEL_EXPERTS = 32, VRAM_KERNEL_LOSS = 64 };
bool vram_part_has_kernel(const block *b, unsigned kernel);

/* ---- block_norm.c ---- */

vram_cell vram_part_norm(const block *b, vram_cell x, vram_size rows, double width); /* the model's */
vram_cell vram_part_stream_norm(const block *b, vram_cell x);                        /* the same, of the residual stream */
vram_cell vram_part_rms_norm(const block *b, vram_cell x, vram_size rows, double width, bool weighted);
vram_cell vram_part_unnamed_norm(const block *b, vram_cell x, vram_size rows, double width); /* width 0: without a weight */

/* ---- block_linear.c ---- */

/* What a linear layer needs to know: its name in the family, output and input features */
typedef struct { const char *name; double rows, columns; vram_size out; vram_what what; } linear_shape;
vram_cell vram_part_linear(const block *b, vram_cell x, const char *name, double rows, double columns, vram_size out, vram_what what); /* with its adapter */
vram_cell vram_part_adapted(const block *b, vram_cell x, vram_cell y, const linear_shape *shape, double rank); /* y = layer(x), and the adapter; rank 0: none */
vram_cell vram_part_with_side_path(const block *b, vram_cell x, vram_cell y, vram_part part, double rows, double columns);
vram_cell vram_part_matrix(const block *b, double rows, double columns, int width, bool trained);
const vram_tensor *vram_part_row(const block *b, const char *name, bool bias, bool stacked); /* of the table of parameters, in this layer; NULL: none */
double vram_part_adapter_rank(const block *b, const char *name);

/* ---- block_attention.c, block_latent.c; *weights: what eager attention returns beside ---- */

vram_cell vram_part_attention(const block *b, vram_cell x, vram_cell *weights);
vram_cell vram_part_latent_attention(const block *b, vram_cell x, vram_cell *weights);
vram_cell vram_part_sdpa(const block *b, vram_cell q, vram_cell k, vram_cell v, bool copied);
vram_cell vram_part_eager(const block *b, vram_cell q, vram_cell k, vram_cell v, vram_cell *weights);
vram_cell vram_part_rotary(const block *b, vram_cell x, double heads, double head_dim, vram_what what);
vram_cell vram_part_turned(const block *b, vram_cell x, double heads, double head_dim, double part, vram_what what); /* rotary on a part of each head */

/* ---- block_mlp.c, block_experts.c ---- */

vram_cell vram_part_mlp(const block *b, vram_cell x); /* one, experts, or both */
vram_cell vram_part_dense(const block *b, vram_cell x, double width, bool fused, const char *gate_up, const char *down);
vram_cell vram_part_experts(const block *b, vram_cell x, vram_cell routed); /* routed: what the router reads */
vram_cell vram_part_gated(const block *b, vram_cell gate, vram_cell up);
vram_cell vram_part_clamped_gate(const block *b, vram_cell gate, vram_cell up);
vram_cell vram_part_activation(const block *b, vram_cell x);
vram_cell vram_part_in_fp32(const block *b, vram_cell x); /* under autocast */

/* ---- block_gemma3n.c ---- */

double vram_gemma3n_streams(const block *b);
vram_cell vram_gemma3n_embeddings(const block *b, vram_cell words);
vram_cell vram_gemma3n_layer(const block *b, vram_cell x, vram_cell *weights);
vram_cell vram_gemma3n_collapsed(const block *b, vram_cell x);
/* Inputs of a layer's own, of small Gemma 4 too; size: wide_inputs is 0 where there are none */
vram_size vram_gemma3n_inputs_size(const block *b, double *wide_inputs);
bool vram_gemma3n_inputs_trained(const block *b);
void vram_gemma3n_inputs(const block *b, vram_cell words);
vram_cell vram_gemma3n_with_input(const block *b, vram_cell x);

/* ---- block_v4.c ---- */

double vram_v4_streams(const vram_model *model);
vram_size vram_v4_stream_size(const block *b);
vram_cell vram_v4_embeddings(const block *b, vram_cell words);
vram_cell vram_v4_layer(const block *b, vram_cell x);
vram_cell vram_v4_collapsed(const block *b, vram_cell x);

/* ---- mixers.c ---- */

bool vram_mixer_known(const vram_state *state); /* has a program of its own */
vram_cell vram_mixer_write(const block *b, vram_cell x); /* the layer's state-space mixer */

#endif
