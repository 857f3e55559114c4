/* vram.h -- how much GPU memory a large language model needs, and why.
 *
 * The whole library is one idea, the ledger. An estimate is a list of entries; an entry is one kind of tensor: whose it
 * is (role), which component of the bill it belongs to, in which phases it is alive, and the factors whose product is its
 * bytes. Every module appends entries; everything a user sees is a reading of that one list:
 *
 *     bytes of a phase      = sum of the entries alive in it
 *     peak                  = the largest phase, never the sum of all of them
 *     component             = sum of its entries alive at the peak
 *     explanation           = the factors themselves
 *
 * Entries speak of the fullest GPU. Nothing here allocates, prints, reads files or keeps state: the caller owns every
 * struct. Only c_core/json/ allocates (cJSON). Words live outside: the core knows ids.
 *
 * Numbers. Counts are int64_t and checked against the ranges beside the fields before any arithmetic. Bytes are double
 * and hold whole numbers below 2^53. Only + - * / ceil floor min max are used, so that native code, WebAssembly and a
 * reference in another language agree bit for bit.
 *
 * The life of a call:  scenario text -> vram_json_* -> vram_scenario -> vram_estimate() -> vram_report -> report text.
 */
#ifndef VRAM_H
#define VRAM_H

#include <stdbool.h>
#include <stdint.h>

/* ---------------------------------------------------------------------------------------------------------- limits -- */

enum {
    VRAM_MAX_LAYERS = 1024,  /* num_hidden_layers: 1 .. 1024 */
    VRAM_MAX_KINDS = 96,     /* different decoder layers in one model (NAS models have many) */
    VRAM_MAX_TENSORS = 1024, /* rows of a model's table of parameter tensors */
    VRAM_MAX_EXTRAS = 128,   /* rows of it that no field describes (side paths of single families) */
    VRAM_MAX_ENTRIES = 2048,
    VRAM_MAX_FACTORS = 8,
    VRAM_MAX_NOTES = 32,
    VRAM_MAX_FITS = 128,
    VRAM_MAX_RULES = 16,
    VRAM_MAX_LOGS = 24,
    VRAM_MAX_TARGETS = 32, /* names in lora.targets */
    VRAM_MAX_NAME = 48     /* bytes of an id or a module name, its final zero included */
};

#define VRAM_UNSET INT64_C(-1) /* an integer field that takes its default from others; see vram_scenario_defaults() */

/* ------------------------------------------------------------------------------------------------------------ words --
 * Each enum has a list of (NAME, "id") from which the enum, the table of ids and the page's schema are made. */

#define VRAM_TASKS(X) X(INFERENCE, "inference") X(TRAINING, "training") X(RL, "rl")
#define VRAM_ENGINES(X) X(BARE, "bare") X(TRANSFORMERS, "transformers") X(VLLM, "vllm") X(SGLANG, "sglang") X(LLAMA_CPP, "llama.cpp")
#define VRAM_ATTENTIONS(X) X(FLASH, "flash") X(SDPA, "sdpa") X(EAGER, "eager")
#define VRAM_VLLM_ENGINES(X) X(V1, "v1") X(V0, "v0")
#define VRAM_MLA_CACHES(X) X(LATENT, "latent") X(EXPANDED, "expanded")
#define VRAM_METHODS(X) X(FULL, "full") X(LORA, "lora")
#define VRAM_PRECISIONS(X) X(MIXED, "mixed") X(AMP, "amp") X(BF16, "bf16") X(FP32, "fp32")
#define VRAM_OPTIMIZERS(X)                                                                                              \
    X(ADAMW, "adamw") X(ADAMW_8BIT, "adamw-8bit") X(PAGED_ADAMW_8BIT, "paged-adamw-8bit") X(ADAFACTOR, "adafactor")     \
    X(SGD, "sgd") X(SGD_MOMENTUM, "sgd-momentum") X(LION, "lion") X(LION_8BIT, "lion-8bit") X(MUON, "muon")             \
    X(GALORE, "galore") X(LOMO, "lomo")
#define VRAM_OPTIMIZER_IMPLS(X) X(FOREACH, "foreach") X(FUSED, "fused") X(FOR_LOOP, "for-loop")
/* selective: Megatron recomputes the core of attention; elsewhere PyTorch's policy of operations as torchtitan has it, which keeps attention and every
 * second product. chunked: an eighth of the positions at a time, fp32 unless kernels are fused (compiled). bfd: all rows of a micro-batch in one.
 * galore: rank 128. */
#define VRAM_CHECKPOINTINGS(X) X(NONE, "none") X(SELECTIVE, "selective") X(FULL, "full")
#define VRAM_LOSSES(X) X(FULL, "full") X(INPLACE, "inplace") X(CHUNKED, "chunked") X(TILED, "tiled") X(FUSED, "fused")
#define VRAM_PACKINGS(X) X(NONE, "none") X(WRAPPED, "wrapped") X(BFD, "bfd")
#define VRAM_KERNELS(X) X(TRANSFORMERS, "transformers") X(FUSED, "fused")
#define VRAM_LORA_TARGETS(X) X(ALL_LINEAR, "all-linear") X(ATTENTION, "attention") X(QV, "qv") X(LIST, "list")
#define VRAM_ALGORITHMS(X) X(PPO, "ppo") X(GRPO, "grpo") X(DPO, "dpo") X(RLOO, "rloo")
#define VRAM_ROLE_MODELS(X) X(SAME, "same") X(NONE, "none") X(ADAPTER, "adapter") X(PRECOMPUTED, "precomputed") X(MODEL, "model")
#define VRAM_ROLLOUT_ENGINES(X) X(TRANSFORMERS, "transformers") X(VLLM, "vllm")
#define VRAM_PARALLEL_ENGINES(X)                                                                                        \
    X(PLAIN, "plain") X(DDP, "ddp") X(FSDP1, "fsdp1") X(FSDP2, "fsdp2") X(DEEPSPEED, "deepspeed") X(MEGATRON, "megatron")
#define VRAM_OFFLOADS(X) X(NONE, "none") X(OPTIMIZER, "optimizer") X(OPTIMIZER_WEIGHTS, "optimizer+weights")

#define VRAM_ROLES(X) X(MODEL, "model") X(ACTOR, "actor") X(CRITIC, "critic") X(REFERENCE, "reference") X(REWARD, "reward") X(ROLLOUT, "rollout")
#define VRAM_COMPONENTS(X)                                                                                              \
    X(WEIGHTS, "weights") X(ADAPTERS, "adapters") X(GRADIENTS, "gradients") X(MASTER_WEIGHTS, "master_weights")         \
    X(OPTIMIZER, "optimizer") X(ACTIVATIONS, "activations") X(LOGITS, "logits") X(KV_CACHE, "kv_cache")                 \
    X(RECURRENT_STATE, "recurrent_state") X(WORKSPACE, "workspace") X(ENGINE_BUFFERS, "engine_buffers")                 \
    X(CUDA_GRAPHS, "cuda_graphs") X(COMMUNICATION, "communication") X(CONTEXT, "context") X(FRAGMENTATION, "fragmentation")
#define VRAM_PHASES(X)                                                                                                  \
    X(LOAD, "load") X(PREFILL, "prefill") X(DECODE, "decode") X(ROLLOUT, "rollout") X(SCORE, "score") X(FORWARD, "forward") \
    X(LOSS, "loss") X(BACKWARD, "backward") X(STEP, "step")
#define VRAM_CERTAINTIES(X) X(EXACT, "exact") X(MODELLED, "modelled") X(ALLOWANCE, "allowance")
#define VRAM_VERDICTS(X) X(FITS, "fits") X(TIGHT, "tight") X(NO, "no")
#define VRAM_ERRORS(X)                                                                                                  \
    X(NONE, "none") X(SYNTAX, "syntax") X(TYPE, "type") X(RANGE, "range") X(UNKNOWN_KEY, "unknown_key")                 \
    X(UNKNOWN_VALUE, "unknown_value") X(DUPLICATE_KEY, "duplicate_key") X(MISSING, "missing") X(UNSUPPORTED, "unsupported") X(NOT_READ, "not_read") \
    X(CONFLICT, "conflict") X(TOO_LARGE, "too_large") X(INTERNAL, "internal")

/* symbols of factors: (NAME, symbol as written on a whiteboard, id for the words) */
#define VRAM_SYMBOLS(X)                                                                                                 \
    X(BYTES, "B", "bytes") X(PARAMETERS, "N", "parameters") X(BYTES_PER_PARAMETER, "B/param", "bytes_per_parameter")    \
    X(BYTES_PER_ELEMENT, "B/elem", "bytes_per_element") X(LAYERS, "L", "layers") X(KEY_AND_VALUE, "2", "key_and_value") \
    X(HIDDEN, "h", "hidden_size") X(HEADS, "a", "num_attention_heads") X(KV_HEADS, "k", "num_key_value_heads")          \
    X(HEAD_DIM, "d", "head_dim") X(INTERMEDIATE, "f", "intermediate_size") X(VOCABULARY, "V", "vocab_size")             \
    X(SEQUENCE, "s", "sequence_length") X(KEYS, "s", "keys") X(BATCH, "b", "batch") X(MICRO_BATCH, "b", "micro_batch")  \
    X(TOKENS, "t", "tokens") X(WINDOW, "w", "window_tokens") X(WIDTH, "n", "width") X(ROWS, "m", "rows")                \
    X(EXPERTS, "E", "experts") X(EXPERTS_PER_TOKEN, "e", "experts_per_token") X(COPIES, "x", "copies")                  \
    X(RANK, "r", "rank") X(GROUPS, "g", "groups") X(SEQUENCES, "b", "sequences") X(ELEMENTS, "n", "elements")           \
    X(FRACTION, "%", "fraction") X(STATE, "S", "state_size") X(BLOCKS, "B", "blocks") X(SLOTS, "c", "slots")            \
    X(MICRO_BATCHES_IN_FLIGHT, "p", "micro_batches_in_flight") X(BYTES_PER_BLOCK, "B/block", "bytes_per_block")

#define VRAM_E_TASK(N, ...) VRAM_TASK_##N,
#define VRAM_E_ENGINE(N, ...) VRAM_ENGINE_##N,
#define VRAM_E_ATTENTION(N, ...) VRAM_ATTENTION_##N,
#define VRAM_E_VLLM(N, ...) VRAM_VLLM_##N,
#define VRAM_E_MLA_CACHE(N, ...) VRAM_MLA_CACHE_##N,
#define VRAM_E_METHOD(N, ...) VRAM_METHOD_##N,
#define VRAM_E_PRECISION(N, ...) VRAM_PRECISION_##N,
#define VRAM_E_OPTIMIZER(N, ...) VRAM_OPTIMIZER_##N,
#define VRAM_E_OPTIMIZER_IMPL(N, ...) VRAM_OPTIMIZER_IMPL_##N,
#define VRAM_E_CHECKPOINTING(N, ...) VRAM_CHECKPOINTING_##N,
#define VRAM_E_LOSS(N, ...) VRAM_LOSS_##N,
#define VRAM_E_PACKING(N, ...) VRAM_PACKING_##N,
#define VRAM_E_KERNELS(N, ...) VRAM_KERNELS_##N,
#define VRAM_E_LORA_TARGETS(N, ...) VRAM_LORA_TARGETS_##N,
#define VRAM_E_ALGORITHM(N, ...) VRAM_ALGORITHM_##N,
#define VRAM_E_ROLE_MODEL(N, ...) VRAM_ROLE_MODEL_##N,
#define VRAM_E_ROLLOUT_ENGINE(N, ...) VRAM_ROLLOUT_ENGINE_##N,
#define VRAM_E_PARALLEL_ENGINE(N, ...) VRAM_PARALLEL_ENGINE_##N,
#define VRAM_E_OFFLOAD(N, ...) VRAM_OFFLOAD_##N,
#define VRAM_E_ROLE(N, ...) VRAM_ROLE_##N,
#define VRAM_E_COMPONENT(N, ...) VRAM_COMPONENT_##N,
#define VRAM_E_PHASE(N, ...) VRAM_PHASE_##N,
#define VRAM_E_CERTAINTY(N, ...) VRAM_##N,
#define VRAM_E_VERDICT(N, ...) VRAM_VERDICT_##N,
#define VRAM_E_ERROR(N, ...) VRAM_ERROR_##N,
#define VRAM_E_SYMBOL(N, ...) VRAM_SYMBOL_##N,

typedef enum { VRAM_TASKS(VRAM_E_TASK) VRAM_TASK_COUNT } vram_task;
typedef enum { VRAM_ENGINES(VRAM_E_ENGINE) VRAM_ENGINE_COUNT } vram_engine;
typedef enum { VRAM_ATTENTIONS(VRAM_E_ATTENTION) VRAM_ATTENTION_COUNT } vram_attention_kernel;
typedef enum { VRAM_VLLM_ENGINES(VRAM_E_VLLM) VRAM_VLLM_COUNT } vram_vllm_engine;
typedef enum { VRAM_MLA_CACHES(VRAM_E_MLA_CACHE) VRAM_MLA_CACHE_COUNT } vram_mla_cache;
typedef enum { VRAM_METHODS(VRAM_E_METHOD) VRAM_METHOD_COUNT } vram_method;
typedef enum { VRAM_PRECISIONS(VRAM_E_PRECISION) VRAM_PRECISION_COUNT } vram_precision;
typedef enum { VRAM_OPTIMIZERS(VRAM_E_OPTIMIZER) VRAM_OPTIMIZER_COUNT } vram_optimizer;
typedef enum { VRAM_OPTIMIZER_IMPLS(VRAM_E_OPTIMIZER_IMPL) VRAM_OPTIMIZER_IMPL_COUNT } vram_optimizer_impl;
typedef enum { VRAM_CHECKPOINTINGS(VRAM_E_CHECKPOINTING) VRAM_CHECKPOINTING_COUNT } vram_checkpointing;
typedef enum { VRAM_LOSSES(VRAM_E_LOSS) VRAM_LOSS_COUNT } vram_loss;
typedef enum { VRAM_PACKINGS(VRAM_E_PACKING) VRAM_PACKING_COUNT } vram_packing;
typedef enum { VRAM_KERNELS(VRAM_E_KERNELS) VRAM_KERNELS_COUNT } vram_kernels;
typedef enum { VRAM_LORA_TARGETS(VRAM_E_LORA_TARGETS) VRAM_LORA_TARGETS_COUNT } vram_lora_targets;
typedef enum { VRAM_ALGORITHMS(VRAM_E_ALGORITHM) VRAM_ALGORITHM_COUNT } vram_algorithm;
typedef enum { VRAM_ROLE_MODELS(VRAM_E_ROLE_MODEL) VRAM_ROLE_MODEL_COUNT } vram_role_model;
typedef enum { VRAM_ROLLOUT_ENGINES(VRAM_E_ROLLOUT_ENGINE) VRAM_ROLLOUT_ENGINE_COUNT } vram_rollout_engine;
typedef enum { VRAM_PARALLEL_ENGINES(VRAM_E_PARALLEL_ENGINE) VRAM_PARALLEL_ENGINE_COUNT } vram_parallel_engine;
typedef enum { VRAM_OFFLOADS(VRAM_E_OFFLOAD) VRAM_OFFLOAD_COUNT } vram_offload;
typedef enum { VRAM_ROLES(VRAM_E_ROLE) VRAM_ROLE_COUNT } vram_role;
typedef enum { VRAM_COMPONENTS(VRAM_E_COMPONENT) VRAM_COMPONENT_COUNT } vram_component;
typedef enum { VRAM_PHASES(VRAM_E_PHASE) VRAM_PHASE_COUNT } vram_phase;
typedef enum { VRAM_CERTAINTIES(VRAM_E_CERTAINTY) VRAM_CERTAINTY_COUNT } vram_certainty;
typedef enum { VRAM_VERDICTS(VRAM_E_VERDICT) VRAM_VERDICT_COUNT } vram_verdict;
typedef enum { VRAM_ERRORS(VRAM_E_ERROR) VRAM_ERROR_COUNT } vram_error_code;
typedef enum { VRAM_SYMBOLS(VRAM_E_SYMBOL) VRAM_SYMBOL_COUNT } vram_symbol;

/* which list of names: for vram_name() and vram_find() (words.c) */
typedef enum {
    VRAM_LIST_TASK, VRAM_LIST_ENGINE, VRAM_LIST_ATTENTION, VRAM_LIST_VLLM_ENGINE, VRAM_LIST_MLA_CACHE, VRAM_LIST_METHOD,
    VRAM_LIST_PRECISION, VRAM_LIST_OPTIMIZER, VRAM_LIST_OPTIMIZER_IMPL, VRAM_LIST_CHECKPOINTING, VRAM_LIST_LOSS,
    VRAM_LIST_PACKING, VRAM_LIST_KERNELS, VRAM_LIST_LORA_TARGETS, VRAM_LIST_ALGORITHM, VRAM_LIST_ROLE_MODEL,
    VRAM_LIST_ROLLOUT_ENGINE, VRAM_LIST_PARALLEL_ENGINE, VRAM_LIST_OFFLOAD, VRAM_LIST_ROLE, VRAM_LIST_COMPONENT,
    VRAM_LIST_PHASE, VRAM_LIST_CERTAINTY, VRAM_LIST_VERDICT, VRAM_LIST_ERROR, VRAM_LIST_SYMBOL, VRAM_LIST_SYMBOL_ID,
    VRAM_LIST_FORMAT, VRAM_LIST_WHAT, VRAM_LIST_SOURCE, VRAM_LIST_NOTE, VRAM_LIST_RULE, VRAM_LIST_LOG, VRAM_LIST_COUNT
} vram_list;

const char *vram_name(vram_list list, int value); /* id of a value; "" when out of range */
int vram_find(vram_list list, const char *name);  /* value of an id; -1 when unknown */
int vram_count(vram_list list);                   /* values in a list */

/* What an entry is, where a rule is from, and what a note says are lists too; they are long, and live in words.h. */
#include "words.h"

/* ---------------------------------------------------------------------------------------------------------- formats --
 * How stored weights (and caches) weigh: format.c has the table. A format is an index into it; vram_find(VRAM_LIST_FORMAT).
 * A GGUF mix ("gguf:Q4_K_M") assigns one GGUF type per tensor; every other format has one rule for the linear layers
 * and leaves the rest in 16 bit. */
typedef int vram_format;

/* ------------------------------------------------------------------------------------------------------------ model --
 * A model is a list of layer kinds and, per layer, which kind it is. Configs of every family are brought to this one form
 * (json/config.c); architecture.c makes the table of its parameter tensors; block*.c what a training step makes of it. */

typedef enum { VRAM_MIXER_NONE, VRAM_MIXER_SOFTMAX, VRAM_MIXER_MLA } vram_mixer;
typedef enum {
    VRAM_STATE_NONE, VRAM_STATE_MAMBA1, VRAM_STATE_MAMBA2, VRAM_STATE_GATED_DELTA, VRAM_STATE_KDA, VRAM_STATE_LIGHTNING,
    VRAM_STATE_SHORT_CONV, VRAM_STATE_RGLRU
} vram_state_type;
typedef enum { VRAM_FFN_NONE, VRAM_FFN_GATED, VRAM_FFN_PLAIN } vram_ffn_type;
typedef enum { VRAM_NORM_RMS, VRAM_NORM_LAYER, VRAM_NORM_LAYER_BIAS, VRAM_NORM_LAYER_BARE, VRAM_NORM_RMS_BARE } vram_norm_type;
typedef enum { VRAM_QK_NORM_NONE, VRAM_QK_NORM_HEAD, VRAM_QK_NORM_WIDTH, VRAM_QK_NORM_PER_HEAD, VRAM_QK_NORM_HEAD_BIAS, VRAM_QK_NORM_BARE } vram_qk_norm;
typedef enum { VRAM_PROJECTIONS_FUSED, VRAM_PROJECTIONS_SPLIT, VRAM_PROJECTIONS_SEPARATE } vram_projections; /* of gated DeltaNet's input: two, four or six linear layers */
typedef enum { VRAM_STACKED_PLAIN, VRAM_STACKED_AS_W, VRAM_STACKED_AS_GATE } vram_stacked_names; /* names by which LoRA's library reaches stacked experts: none; w1 w3 w2; gate_proj up_proj down_proj */
typedef enum { VRAM_POSITION_ROTARY, VRAM_POSITION_LEARNED, VRAM_POSITION_ALIBI, VRAM_POSITION_NONE } vram_position;

typedef struct {
    vram_mixer type;
    int64_t heads;             /* 1 .. 65,536 */
    int64_t kv_heads;          /* 1 .. heads */
    int64_t head_dim;          /* of q and k; 1 .. 65,536 */
    int64_t v_head_dim;        /* of v; = head_dim but for MLA and a few */
    int64_t window;            /* tokens a layer looks back; 0: all of them */
    bool chunked;              /* the window is a chunk (Llama 4) */
    bool shares_cache;         /* reads the cache of an earlier layer, has none of its own (Gemma 3n) */
    int64_t q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim; /* MLA; q_lora_rank 0: a plain q_proj */
    int64_t index_heads, index_head_dim, index_topk; /* sparse-attention indexer (DSA) and the tokens it chooses; 0: none */
    int64_t compress_ratio;    /* besides the window, one cache entry for so many tokens (DeepSeek-V4); 0: none */
    int64_t o_groups, o_lora_rank; /* output through groups to a low rank (DeepSeek-V4); 0: a plain o_proj */
    int64_t input;             /* width that q, k, v read; 0: hidden (Zamba: twice hidden) */
    int64_t output;            /* width that o reads; 0: heads * v_head_dim */
    int64_t gate_width;        /* a gate on the output with a projection of its own, hidden -> so many; 0: none */
    int64_t experts, experts_per_token; /* q and o are experts (JetMoE); 0: no */
    bool k_is_v;               /* no v_proj: values are the keys' projection, and are cached all the same (Gemma 4) */
    bool one_cache;            /* one cached vector is key and value at once (DeepSeek-V4) */
    bool fused_qkv;            /* one linear layer for q, k, v */
    bool q_bias, k_bias, v_bias, o_bias;
    vram_qk_norm qk_norm;
    int64_t rotary_dim;        /* numbers of a head that are rotated; 0: all */
    bool output_gate;          /* q_proj twice as wide: half of it is a gate (Qwen3-Next) */
    bool sinks;                /* one learned number a head (gpt-oss) */
} vram_attention;

typedef struct {
    vram_state_type type;
    int64_t inner;             /* width inside the mixer */
    int64_t state;             /* numbers of state a channel */
    int64_t heads, head_dim;   /* Mamba-2; DeltaNet: value heads and value head size */
    int64_t key_heads, key_head_dim; /* DeltaNet */
    int64_t groups;            /* Mamba-2 */
    int64_t chunk;             /* Mamba-2, lightning attention: tokens that are worked on together */
    int64_t conv_kernel;
    int64_t dt_rank;           /* Mamba-1 */
    vram_projections projections; /* gated DeltaNet */
    bool low_rank_gates;       /* KDA: forget and output gate go through head_dim (Kimi), not straight (Ling) */
    bool inner_norms;          /* Mamba-1: norms of dt, B and C with weights (Jamba) */
    bool plain_projections;    /* Mamba-1: x and dt projections are parameters, not linear modules (Zamba) */
    bool in_bias, out_bias, conv_bias;
    bool gated_norm;
    bool state_fp32;           /* the recurrent state stays fp32 */
} vram_state;

typedef struct {
    vram_ffn_type type;        /* of dense MLP and experts alike */
    int64_t width;             /* of the dense MLP; 0: none */
    bool bias, fused_gate_up;
    int64_t experts;           /* 0: dense */
    int64_t experts_per_token; /* 1 .. experts + router_rows */
    int64_t expert_width;
    int64_t shared_width;      /* shared expert(s), all together; 0: none */
    int64_t latent_width;      /* experts work between two projections hidden <-> latent (Nemotron 3); 0: no */
    int64_t router_rows;       /* rows of the router beyond the experts: zero experts, without weights (LongCat) */
    bool expert_modules;       /* each expert is linear layers of its own, not a slice of a stacked tensor */
    bool shared_fused;         /* gate and up of the shared expert are one linear layer */
    bool router_linear;        /* the router is a linear module (LoRA's all-linear takes it) */
    bool router_bias_buffer;   /* the correction bias is a buffer, not a parameter */
    bool router_linear_bias;   /* the router's own bias (gpt-oss) */
    bool shared_gate;          /* h numbers that weigh the shared expert */
    bool router_bias;          /* correction bias, one number an expert */
    bool expert_bias;          /* gpt-oss */
} vram_ffn;

typedef struct {
    vram_attention attention;
    vram_state state;          /* may stand beside attention (Falcon-H1) */
    vram_ffn ffn;
    int norms;                 /* norms of hidden width in the layer: 1, 2 or 4 */
    int64_t shared_blocks;     /* attention and MLP weights are shared by the layers of this kind: so many sets in all; 0: each its own (Zamba: 1) */
    bool linear_attention, linear_ffn; /* one square linear layer stands in its place (Nemotron NAS) */
    bool post_norms;           /* norms after the blocks (Gemma 2: as well; OLMo 2: only) */
    bool parallel;             /* attention and MLP read the same input (GPT-J, Falcon, Cohere) */
} vram_layer;

/* A row of the table of parameter tensors. parameters = layers * copies * rows * columns. */
typedef enum { VRAM_PART_EMBEDDING, VRAM_PART_ATTENTION, VRAM_PART_STATE, VRAM_PART_MLP, VRAM_PART_EXPERT, VRAM_PART_SHARED_EXPERT, VRAM_PART_ROUTER, VRAM_PART_NORM, VRAM_PART_HEAD, VRAM_PART_OTHER } vram_part;
typedef enum { VRAM_SHARD_NONE, VRAM_SHARD_ROWS, VRAM_SHARD_COLUMNS, VRAM_SHARD_KV_ROWS, VRAM_SHARD_EXPERTS, VRAM_SHARD_VOCABULARY } vram_shard;

typedef struct {
    char name[VRAM_MAX_NAME];  /* last part of the module's path in transformers: "q_proj" */
    vram_part part;
    int kind;                  /* layer kind it belongs to; -1: outside the layers */
    int64_t layers;            /* layers of that kind; 1 outside */
    int64_t copies;            /* of this tensor in one layer: experts, or 1 */
    int64_t rows;              /* output features; the length of a vector */
    int64_t columns;           /* input features; 1: a vector */
    int64_t modules;           /* linear modules that use it, where layers share their weights: each gets a LoRA of its own; 0: layers * copies */
    bool linear;               /* an nn.Linear weight: quantised by the formats, wrapped by LoRA's all-linear */
    bool bias;                 /* a bias vector of the linear layer of the same name */
    bool stacked;              /* experts stacked in one 3-D parameter (transformers 5): not a linear module */
    bool buffer;               /* in the file, not counted by num_parameters() */
    bool softmax;              /* a linear layer of softmax attention: lora.targets "attention" */
    int64_t kept;              /* of its layers, so many are stored in 16 bit by the model's own quantization_config */
    vram_shard shard;          /* how tensor (or expert) parallelism divides it */
} vram_tensor;

/* What transformers calls the linear layers of a family. Empty (NULL): as in Llama. */
typedef struct { const char *q, *k, *v, *o, *qkv, *gate, *up, *down, *gate_up, *router, *shared_gate_up, *shared_down, *attention_gate, *state_in, *state_out; } vram_names;

/* What one rank of a pipeline has of a model. An estimate is of one stage; without a pipeline that is the whole model. */
typedef struct {
    int64_t number;            /* 0: the first */
    int64_t layers;
    bool embedding, head;      /* a tied head is a copy of the embedding */
    int64_t of_kind[VRAM_MAX_KINDS]; /* layers of each kind */
    unsigned char kind[VRAM_MAX_LAYERS]; /* of each of its layers, in their order */
    short in_flight[VRAM_MAX_LAYERS]; /* micro-batches whose activations each of them holds; of the embedding as of the first */
} vram_stage;

typedef struct {
    char model_type[VRAM_MAX_NAME];
    bool rule_of_thumb;        /* {"params": ..}: counted by declaration */
    bool counted_as_llama;     /* the model_type is not known; its keys are Llama's */
    double params_override;    /* 0: counted from the tensors; 1 .. 1e15 */
    double active_override;
    int64_t hidden;            /* 1 .. 1,048,576 */
    int64_t vocab;             /* 1 .. 16,777,216 */
    int64_t max_positions;     /* 0: not said */
    int64_t layers;            /* 1 .. VRAM_MAX_LAYERS */
    vram_norm_type norm;
    bool final_norm;
    bool tied;                 /* the head is the embedding */
    bool head_bias;
    bool embedding_norm;       /* a norm on the embeddings (BLOOM) */
    bool capped_logits;        /* tanh(x / cap) * cap (Gemma 2) */
    int64_t embedding_width;   /* 0: hidden; else two projections between (OPT 350m) */
    vram_position position;
    int64_t position_rows;     /* learned positions: rows of the table */
    vram_names names;
    vram_stacked_names stacked_names;
    int64_t rotary_factors;    /* numbers that stretch the rotary embedding (rope_type llama3): a tensor in files of llama.cpp; 0: none */
    vram_format native;        /* what quantization_config says; -1: none, then the dtype */
    bool native_symmetric;     /* and its packed weights have neither zero points nor an index of groups (compressed-tensors) */
    int64_t native_group, native_bits; /* weights that share a scale, -1 a row of them; bits of one; 0: as the format's row says */
    bool native_unknown;       /* a quantization_config says something else */
    vram_format dtype;         /* what dtype or torch_dtype says; -1: nothing */
    int64_t mtp_layers;        /* multi-token-prediction layers in the file */
    double resid_dropout, attention_dropout, embedding_dropout; /* as the config says, or the class's default */
    int kinds, extras, tensors; /* the last fields are their lists: what is past their ends is never touched */
    unsigned char layer_kind[VRAM_MAX_LAYERS]; /* which kind each layer is */
    vram_stage stage;          /* the whole model by vram_architecture(); vram_estimate() leaves the fullest */
    vram_layer kind[VRAM_MAX_KINDS];
    vram_tensor extra[VRAM_MAX_EXTRAS]; /* side paths: tensors that no field above describes; `layers` of a row inside the layers is filled in later */
    vram_tensor tensor[VRAM_MAX_TENSORS]; /* made by vram_architecture() */
} vram_model;

/* --------------------------------------------------------------------------------------------------------- scenario --
 * spec: the scenario. VRAM_UNSET (integers), a negative number (reals) or -1 (enums held as int) mean "not said"; after vram_scenario_defaults()
 * nothing is unset but what has no value. Ranges are in json/scenario.c's table of fields, which also makes the page's form. */

typedef struct {
    int kind;                  /* vram_role_model; -1: by algorithm */
    vram_model model;          /* read when kind is MODEL */
} vram_role_choice;

typedef struct {
    char id[VRAM_MAX_NAME];
    double memory_bytes;       /* what the driver reports as total */
    double usable_bytes;       /* what one process can use: the total a CUDA program sees, less the context */
    double context_bytes;      /* CUDA context and libraries */
    double compute_capability; /* 0: not NVIDIA */
    int multiprocessors;       /* 0: not known */
    bool apple;                /* unified memory */
    char maker;                /* first letter of the vendor's name: N, A (AMD), I; 0: not known */
    bool common;               /* shown in the default comparison */
} vram_gpu;

typedef struct {
    int task;
    vram_model model;
    int weights;               /* vram_format */
    int engine;
    int64_t context, prompt, batch;
    int kv_cache, kv_cache_k, kv_cache_v; /* vram_format */
    struct { int attention; } transformers;
    struct { int engine; double gpu_memory_utilization; int64_t max_num_batched_tokens, max_num_seqs, block_size; int cuda_graphs, flashinfer_sampler; } vllm;
    struct { double mem_fraction_static; } sglang;
    struct { int64_t ubatch; int flash_attention; int64_t gpu_layers, slots; int swa_full, kv_unified; int64_t output_rows; int imatrix, mla_cache; } llama_cpp;
    struct { int64_t mtp_tokens; } speculative;
    struct {
        int method, precision, autocast;
        int gradients;         /* vram_format; by precision, but fp32 with 16-bit weights under FSDP (as its shards) and Megatron (18 bytes a parameter) */
        int optimizer;
        int optimizer_states;  /* vram_format */
        int optimizer_impl;
        int64_t sequence_length, micro_batch, gradient_accumulation;
        int checkpointing, attention, loss, packing;
        int64_t checkpointing_interval; /* of every so many layers the last is checkpointed (with VRAM_CHECKPOINTING_FULL) */
        double dropout, clip;  /* dropout < 0: as the config says; clip 0: none */
        int optimizer_in_backward, offload_activations, kernels;
    } training;
    struct {
        int64_t rank;
        int targets;           /* vram_lora_targets; LIST: the names below */
        int names;
        char name[VRAM_MAX_TARGETS][VRAM_MAX_NAME];
        int dtype;             /* vram_format */
        int dora;
        double dropout;
        int prepare_kbit;
    } lora;
    struct {
        int algorithm;
        vram_role_choice critic, reference, reward;
        int64_t prompt, response, rollout_batch, group_size, forward_batch;
        int rollout_engine, share_weights, offload_idle;
        bool unread_critic, unread_reward; /* said, though the algorithm has none */
    } rl;
    struct {
        int64_t data, zero, tensor;
        int sequence;
        int64_t pipeline, context, expert;
        int engine;
        int64_t virtual_pipeline, expert_tensor, bucket_elements, bucket_mib;
        int bucket_view, overlap, prefetch;
        int64_t prefetch_elements, persistence_elements, max_live_elements, subgroup_elements;
        int offload;
    } parallel;
    vram_gpu gpu;
    int64_t gpus;
    int overheads;
} vram_scenario;

/* ----------------------------------------------------------------------------------------------------------- report -- */

typedef struct { vram_symbol symbol; double value; } vram_factor;

typedef struct {
    vram_role role;
    vram_component component;
    vram_what what;            /* which part of the component */
    vram_certainty kind;
    vram_source source;
    unsigned phases;           /* bit 1u << vram_phase: alive at that phase's peak */
    int factors;
    vram_factor factor[VRAM_MAX_FACTORS];
    double bytes;              /* the product of the factors */
} vram_entry;

typedef struct { vram_note_id id; char path[VRAM_MAX_NAME]; int values; double value[4]; } vram_note;

/* A rule of thumb: its own product of factors. A rule that is a sum has several rows of one id. */
typedef struct { vram_rule_id id; int factors; vram_factor factor[VRAM_MAX_FACTORS]; double bytes; } vram_rule;

/* A line that the engine's log, or a tool, will show. Values in the order of the line's placeholders (words.h): bytes, counts; words likewise. */
typedef struct vram_log { vram_log_id id; int values; double value[8]; const char *word[2]; } vram_log;

/* An engine with a pool (report.pool.first_bytes > 0) fits when the pool of this card runs the replica's share of `batch` sequences of `context` tokens at
 * once, none preempted and none waiting for the engine's own limit (a note says so);
 * headroom_bytes is then what the card's budget leaves beside them. Any other scenario fits when its peak is at most usable_bytes. */
typedef struct { char gpu[VRAM_MAX_NAME]; double usable_bytes; vram_verdict verdict; int64_t gpus_needed; /* where it does not fit: at least; 0: no number of them, as where more would only be more copies */ double needed_bytes, headroom_bytes; /* of what an engine may use of the card, they are the sum */ } vram_fit;

/* The pool of a serving engine on one GPU, in the words of its own start-up log. -1: the engine prints no such thing, or has no pool. */
typedef struct {
    double model_bytes;        /* vLLM "Model loading took", SGLang "Load weight end … mem usage" */
    double available_bytes;    /* vLLM "Available KV cache memory" */
    double blocks;             /* vLLM "GPU blocks" */
    double tokens;             /* vLLM "GPU KV cache size", SGLang "KV Cache is allocated … #tokens" */
    double concurrency;        /* vLLM "Maximum concurrency for <context> tokens per request"; no whole number */
    double graph_bytes;        /* vLLM "Graph capturing finished … took", its estimate before; 0 without graphs */
    double k_bytes, v_bytes;   /* SGLang "K size", "V size"; of a latent cache "KV size" is k_bytes and v_bytes is -1 */
    /* What the verdict is made of; all 0 without a pool. A card's budget (vram_pool_budget()) gives away fixed_bytes, and the rest holds sequences of
     * `context` tokens: the first takes first_bytes (its prefill holds more than its window, and the engine keeps a block back), each further one
     * sequence_bytes. The engine runs at most sequences_limit of them at once, whatever the memory. */
    double fixed_bytes, first_bytes, sequence_bytes, sequences_limit;
    double sequences;          /* of `context` tokens that run at once on the scenario's own card */
} vram_pool;

/* What llama.cpp keeps in host memory, as its log says, in bytes: the model's tensors that no GPU has (mapped from the file), the buffer of results
 * (pinned when the GPU makes it), the compute buffer. All 0 of other engines. */
typedef struct { double model, output, compute; bool pinned_output; } vram_host;

typedef struct vram_report {
    double params_total, params_active, params_trainable;
    unsigned phases;           /* bits of the phases that the task has */
    double phase_bytes[VRAM_PHASE_COUNT];
    vram_phase peak;
    double peak_bytes;
    double component_bytes[VRAM_COMPONENT_COUNT]; /* at the peak */
    double cluster_bytes;      /* all GPUs together: peak of the fullest times their number */
    double kv_tokens_capacity, max_context; /* negative: not applicable */
    vram_pool pool;
    vram_host host;
    int notes;
    vram_note note[VRAM_MAX_NOTES];
    int fits;
    vram_fit fit[VRAM_MAX_FITS];
    int rules;                 /* what rules of thumb say, for comparison: no part of any sum */
    vram_rule rule[VRAM_MAX_RULES];
    int logs;                  /* what can be checked line by line: readings, no part of any sum */
    vram_log log[VRAM_MAX_LOGS];
    int entries;
    vram_entry entry[VRAM_MAX_ENTRIES]; /* the last field: entries past the count are never touched */
} vram_report;

/* A training step through time: bytes by component at every instant that could be its fullest, and after every layer. Only the bytes are of the
 * fullest GPU's ledger: at the highest instant of a phase they are that phase's entries. */
enum { VRAM_MAX_POINTS = 4 * VRAM_MAX_LAYERS + 16 };
typedef struct {
    vram_phase phase;
    int place;                 /* number of the layer at work; -1: the embedding, or before and after all; -2: head and loss */
    double bytes[VRAM_COMPONENT_COUNT];
} vram_point;
typedef struct { int points; vram_point point[VRAM_MAX_POINTS]; } vram_timeline;

/* A refusal: which field, what was there, what may be. min > max: no range applies. */
typedef struct {
    vram_error_code code;
    char path[96];
    double value;              /* NAN: no number; then text */
    char text[64];             /* a printable extract of what was given; may be empty */
    double min, max;
} vram_error;

/* ---------------------------------------------------------------------------------------------------------- functions -- */

/* Fills model->tensor and model->tensors from the kinds. False with an error when the table is full or a product too large. */
bool vram_architecture(vram_model *model, vram_error *error);

/* Sums over the table: all learned values, as in the checkpoint; those one token uses (experts_per_token of experts; embedding
 * and head included); of all, those that frameworks keep as buffers and no optimizer trains (a router's correction). */
double vram_params_total(const vram_model *model);
double vram_params_active(const vram_model *model);
double vram_params_buffers(const vram_model *model);

/* Replaces everything unset by its default, which may depend on other fields (kv_cache by weights, gradients by precision, ...),
 * and refuses what contradicts itself. */
bool vram_scenario_defaults(vram_scenario *scenario, vram_error *error);

/* The estimate, of a pipeline's fullest stage. `gpus` are the cards to compare with; the scenario's own is always the first of report->fit.
 * False with an error: the report is then not to be read. */
bool vram_estimate(vram_scenario *scenario, const vram_gpu *gpus, int gpu_count, vram_report *report, vram_error *error);

/* The same for whoever asks for the verdict alone, and cheaper: where tensors alone are more than the scenario's card has, what PyTorch's allocator would keep
 * beside them is not entered. */
bool vram_judge(vram_scenario *scenario, vram_report *report, vram_error *error);

/* The step through time, of a scenario whose report is the last that was made; of serving and of RL a point for each phase. */
void vram_timeline_of(const vram_scenario *scenario, const vram_report *report, vram_timeline *timeline);

#endif
