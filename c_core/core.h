/* core.h -- what the modules of the core say to each other. Not for users of the library: they have vram.h.
 *
 * A module appends entries and knows no other module's entries. Order of a call:
 *   estimate.c  ->  weights.c kv_cache.c engine*.c | training.c (block*.c replay.c lora.c parallel.c) | rl.c  ->  gpu.c  ->  ledger.c sums
 */
#ifndef VRAM_CORE_H
#define VRAM_CORE_H

#include "vram.h"

#include <math.h>

#define VRAM_NO_NUMBER ((double)NAN) /* an error without a number */
#define VRAM_BIT(phase) (1u << (unsigned)(phase))
enum {
    VRAM_PHASES_INFERENCE = 1 << VRAM_PHASE_LOAD | 1 << VRAM_PHASE_PREFILL | 1 << VRAM_PHASE_DECODE,
    VRAM_PHASES_TRAINING = 1 << VRAM_PHASE_LOAD | 1 << VRAM_PHASE_FORWARD | 1 << VRAM_PHASE_LOSS | 1 << VRAM_PHASE_BACKWARD | 1 << VRAM_PHASE_STEP,
    VRAM_PHASES_RL = VRAM_PHASES_TRAINING | 1 << VRAM_PHASE_ROLLOUT | 1 << VRAM_PHASE_SCORE
};

#define VRAM_LARGEST 9007199254740992.0 /* 2^53: whole numbers below it are exact in a double */

static inline double vram_min(double a, double b) { return a < b ? a : b; }
static inline double vram_max(double a, double b) { return a > b ? a : b; }
/* whole numbers held in doubles below 2^53: exact */
static inline double vram_ceil_div(double a, double b) { return ceil(a / b); }
static inline double vram_floor_div(double a, double b) { return floor(a / b); }
static inline bool vram_divides(double whole, double parts) { return whole == parts * vram_floor_div(whole, parts); } /* without a rest */
static inline double vram_round_up(double a, double step) { return ceil(a / step) * step; } /* a, up to a multiple of step */
static inline const char *vram_or_else(const char *name, const char *standard) { return name ? name : standard; } /* a family's own name for it */

/* ---- ledger.c ---- */

/* Appends an entry with bytes = 1 and no factors; multiply with vram_times(). Entries whose product is 0 are dropped at the end.
 * Never NULL: when the ledger is full the entry goes nowhere and vram_ledger_close() says so. */
vram_entry *vram_add(vram_report *report, vram_role role, vram_component component, vram_what what, vram_certainty kind,
                     vram_source source, unsigned phases);
/* One factor more; returns the entry, so that calls chain. A factor of exactly 1 for a count (layers, copies, ranks) may be left out. */
vram_entry *vram_times(vram_entry *entry, vram_symbol symbol, double value);
void vram_note_add(vram_report *report, vram_note_id id, const char *path, int values, const double value[]);
/* Bytes alive in a phase, of the components whose bits are set */
double vram_bytes_alive(const vram_report *report, vram_phase phase, unsigned components);
/* Drops empty entries, sums phases, finds the peak and its components. False: ledger full, or a sum at or above 2^53. */
bool vram_ledger_close(vram_report *report, vram_error *error);
bool vram_fail(vram_error *error, vram_error_code code, const char *path, double value, double min, double max); /* fills it; returns false */
/* A row of the comparison with rules of thumb: bytes 1, multiply as above with vram_rule_times() */
vram_rule *vram_rule_add(vram_report *report, vram_rule_id id);
vram_rule *vram_rule_times(vram_rule *rule, vram_symbol symbol, double value);

/* ---- architecture.c ---- */

/* Is the model of one of these types? The list ends with NULL. */
bool vram_model_is(const vram_model *model, const char *const types[]);
double vram_position_masks(const vram_model *model); /* buffers of a byte for each pair of positions that the class keeps: of each layer of the stage, one, or none */
double vram_most_heads(const vram_model *model); /* query heads of the attention layer that has most; 0: none attends */
/* parameters of one row of the table, over all its layers and copies */
double vram_tensor_params(const vram_tensor *tensor);
/* Does a quantised base pack it? Matrices of linear layers, but not the head's, which stays 16 bit */
static inline bool vram_is_packed(const vram_tensor *t) { return t->linear && t->columns > 1 && t->part != VRAM_PART_HEAD; }
/* LoRA values that `scenario.lora` adds to this model (lora.c), all layers */
double vram_lora_params(const vram_scenario *scenario, const vram_model *model);
double vram_lora_head_rank(const vram_scenario *scenario); /* of the adapter on the head */
bool vram_lora_takes_embedding(const vram_scenario *scenario);
double vram_lora_rank(const vram_scenario *scenario, const vram_model *model, const vram_tensor *tensor); /* of the adapter on this weight; 0: none */
/* What one rank holds of a weight's adapter: so many pairs of A (a_rows x a_columns) and B (b_rows x b_columns), and of DoRA's magnitudes; count 0: none */
typedef struct { double count, a_rows, a_columns, b_rows, b_columns, magnitudes; } vram_lora_pair;
vram_lora_pair vram_lora_on_rank(const vram_scenario *scenario, const vram_model *model, const vram_tensor *tensor);
double vram_lora_rank_params(const vram_scenario *scenario, const vram_model *model); /* vram_lora_params of one rank */
double vram_lora_modules(const vram_model *model, const vram_tensor *tensor); /* linear modules of the stage that use a shared weight, each with an adapter */

/* ---- style.c ---- */
bool vram_liger_knows(const vram_model *model);
bool vram_loss_stays_whole(const vram_scenario *scenario); /* a loss of Liger's is asked for, and the library keeps its own */

/* ---- format.c ---- */

/* Types of ggml (ggml-common.h): (NAME, id, numbers in a block, bytes of a block) */
#define VRAM_GGML_TYPES(X)                                                                                              \
    X(F32, "F32", 1, 4) X(F16, "F16", 1, 2) X(BF16, "BF16", 1, 2) X(Q1_0, "Q1_0", 128, 18) X(Q2_0, "Q2_0", 64, 18)       \
    X(Q4_0, "Q4_0", 32, 18) X(Q4_1, "Q4_1", 32, 20) X(Q5_0, "Q5_0", 32, 22) X(Q5_1, "Q5_1", 32, 24) X(Q8_0, "Q8_0", 32, 34) \
    X(MXFP4, "MXFP4", 32, 17) X(NVFP4, "NVFP4", 64, 36) X(Q2_K, "Q2_K", 256, 84) X(Q3_K, "Q3_K", 256, 110)               \
    X(Q4_K, "Q4_K", 256, 144) X(Q5_K, "Q5_K", 256, 176) X(Q6_K, "Q6_K", 256, 210) X(IQ1_S, "IQ1_S", 256, 50)             \
    X(IQ1_M, "IQ1_M", 256, 56) X(IQ2_XXS, "IQ2_XXS", 256, 66) X(IQ2_XS, "IQ2_XS", 256, 74) X(IQ2_S, "IQ2_S", 256, 82)     \
    X(IQ3_XXS, "IQ3_XXS", 256, 98) X(IQ3_S, "IQ3_S", 256, 110) X(IQ4_NL, "IQ4_NL", 32, 18) X(IQ4_XS, "IQ4_XS", 256, 136)  \
    X(TQ1_0, "TQ1_0", 256, 54) X(TQ2_0, "TQ2_0", 256, 66)
#define VRAM_E_GGML(NAME, ...) VRAM_GGML_##NAME,
typedef enum { VRAM_GGML_TYPES(VRAM_E_GGML) VRAM_GGML_COUNT } vram_ggml_type;
typedef struct { const char *id; double block, bytes; } vram_ggml_row;
const vram_ggml_row *vram_ggml_get(vram_ggml_type type);
double vram_ggml_bytes(vram_ggml_type type, double numbers); /* of whole blocks */

/* Recipes of llama-quantize that are more than one type for every tensor (gguf.c) */
typedef enum {
    VRAM_MIX_NONE, VRAM_MIX_Q2_K, VRAM_MIX_Q2_K_S, VRAM_MIX_Q3_K_S, VRAM_MIX_Q3_K_M, VRAM_MIX_Q3_K_L, VRAM_MIX_Q4_0, VRAM_MIX_Q4_K_S, VRAM_MIX_Q4_K_M,
    VRAM_MIX_Q5_0, VRAM_MIX_Q5_K_M, VRAM_MIX_IQ1_S, VRAM_MIX_IQ1_M, VRAM_MIX_IQ2_XXS, VRAM_MIX_IQ2_XS, VRAM_MIX_IQ2_S, VRAM_MIX_IQ2_M,
    VRAM_MIX_IQ3_XXS, VRAM_MIX_IQ3_XS, VRAM_MIX_IQ3_S, VRAM_MIX_IQ3_M, VRAM_MIX_IQ4_NL, VRAM_MIX_IQ4_XS, VRAM_MIX_TQ, VRAM_MIX_MXFP4_MOE
} vram_mix;

/* Which tensors a format quantises and what it stores beside them (weights.c) */
typedef enum {
    VRAM_SCHEME_NONE, VRAM_SCHEME_NATIVE, VRAM_SCHEME_GPTQ, VRAM_SCHEME_AWQ, VRAM_SCHEME_NF4, VRAM_SCHEME_NF4_DQ, VRAM_SCHEME_FP8_BLOCK,
    VRAM_SCHEME_FP8_TENSOR, VRAM_SCHEME_MXFP4, VRAM_SCHEME_NVFP4, VRAM_SCHEME_GGUF
} vram_scheme;
enum { VRAM_GROUP_ROW = 0, VRAM_GROUP_TENSOR = -1 }; /* one scale an output row, one a tensor */

/* Formats that code names; the others by vram_find(VRAM_LIST_FORMAT, id) */
enum {
    VRAM_FORMAT_BF16, VRAM_FORMAT_FP16, VRAM_FORMAT_FP32, VRAM_FORMAT_FP8, VRAM_FORMAT_INT8, VRAM_FORMAT_INT4, VRAM_FORMAT_NATIVE,
    VRAM_FORMAT_GPTQ_INT4_G128, VRAM_FORMAT_GPTQ_INT4_G32, VRAM_FORMAT_GPTQ_INT4, VRAM_FORMAT_GPTQ_INT8_G128, VRAM_FORMAT_AWQ_INT4_G128,
    VRAM_FORMAT_NF4, VRAM_FORMAT_NF4_DQ, VRAM_FORMAT_FP8_BLOCK128, VRAM_FORMAT_FP8_DYNAMIC, VRAM_FORMAT_MXFP4, VRAM_FORMAT_NVFP4,
    VRAM_FORMAT_GGUF_F32 = VRAM_FORMAT_NVFP4 + 7, VRAM_FORMAT_GGUF_F16, VRAM_FORMAT_GGUF_BF16 /* after six types of caches */
};

typedef struct {
    const char *id;
    double block;        /* weights in a block */
    double block_bytes;  /* bytes of a block's payload */
    int bits;            /* nominal; for the list on the page */
    bool cache;          /* may be a kv_cache type */
    bool weights;        /* may store weights */
    bool dtype;          /* a plain tensor type: bf16 fp16 fp32 fp8 int8 ... every weight, no scales */
    vram_scheme scheme;
    double group;        /* weights of an input row that share a scale, or VRAM_GROUP_* */
    double scale_bytes;  /* of one scale */
    double zero_bytes;   /* of one zero point */
    vram_ggml_type ggml; /* of a GGUF file's common tensor */
    vram_mix mix;
} vram_format_row;
int vram_format_count(void);
const vram_format_row *vram_format_get(vram_format format);
double vram_format_bytes(vram_format format); /* bytes a weight, of a plain type or a GGUF type: block_bytes / block */

/* ---- weights.c : the stored weights of one model in one role ---- */
void vram_weights(const vram_scenario *scenario, const vram_model *model, vram_role role, vram_format format, unsigned phases, vram_report *report);

vram_what vram_what_of_part(vram_part part);
/* Multi-token prediction, when it is asked for: layers like the last one, each with a projection of hidden state and embedding together and three norms */
double vram_mtp_layers(const vram_scenario *scenario, const vram_model *model);
vram_tensor vram_mtp_projection(const vram_model *model); /* 2h -> h */
vram_tensor vram_mtp_norms(const vram_model *model);

/* llama.cpp reads files of its own: plain types are such a file */
vram_format vram_llama_cpp_file(const vram_scenario *scenario, vram_format format);

/* ---- gguf.c : the same of a file of llama.cpp ---- */

/* What llama-quantize takes a tensor for (llama-quant.cpp, tensor_category); HALF and FULL are never quantised */
typedef enum {
    VRAM_ROLE_OF_TOKEN_EMBEDDING, VRAM_ROLE_OF_QUERY, VRAM_ROLE_OF_KEY, VRAM_ROLE_OF_VALUE, VRAM_ROLE_OF_QKV, VRAM_ROLE_OF_ATTENTION_OUTPUT,
    VRAM_ROLE_OF_UP, VRAM_ROLE_OF_GATE, VRAM_ROLE_OF_DOWN, VRAM_ROLE_OF_OUTPUT, VRAM_ROLE_OF_OTHER, VRAM_ROLE_OF_INDEXER, VRAM_ROLE_OF_HALF, VRAM_ROLE_OF_FULL, VRAM_ROLE_OF_COUNT
} vram_gguf_role;

/* A tensor of the file: `matrices` of `rows` rows of `width` numbers */
typedef struct {
    const vram_tensor *row;
    vram_gguf_role role;
    vram_ggml_type type;
    int64_t layer;             /* -1: outside the layers */
    bool token_embedding;
    double width, rows, matrices;
    double bytes;
} vram_gguf_tensor;
typedef void vram_gguf_visitor(void *context, const vram_gguf_tensor *tensor);
/* Every tensor in the file's order: outside the layers first, then layer by layer. */
void vram_gguf_walk(const vram_scenario *scenario, const vram_model *model, vram_format format, vram_gguf_visitor *visit, void *context);
void vram_gguf_weights(const vram_scenario *scenario, const vram_model *model, vram_role role, vram_format format, unsigned phases, vram_report *report);
/* The layers that llama.cpp gives to a GPU, of several the fullest: an equal share each of the layers and the output stage, which counts as one */
typedef struct { int64_t first, end; bool head; } vram_llama_cpp_layers;
vram_llama_cpp_layers vram_llama_cpp_on_gpu(const vram_scenario *scenario, const vram_model *model);
bool vram_gguf_splits_qkv(const vram_model *model); /* q, k, v are three tensors there, whatever transformers has */
double vram_gguf_host_bytes(const vram_scenario *scenario, const vram_model *model, vram_format format); /* of the tensors that llama.cpp leaves in host memory */

/* ---- kv_cache.c : cache and state of `sequences` sequences of `tokens` tokens ---- */

/* How an engine keeps them. Everything counts what one GPU holds. */
typedef struct {
    vram_role role;
    vram_source source;
    unsigned phases;
    double sequences;        /* caches, each of .. */
    double tokens;           /* .. cells in layers that see everything */
    double window_sequences; /* windows in one cache (llama.cpp: slots of a unified pool) */
    double window_less;      /* tokens of the window not kept: cells of a windowed layer = */
    double window_more;      /* min(tokens, round up((window - less) * sequences + more)) */
    double window_step;
    bool no_windows;         /* windowed layers hold all tokens */
    bool expanded;           /* MLA: the heads' keys and values, not the latent */
    double v_width;          /* numbers of V a token and layer, where all are as wide as the widest; 0: its own */
    double k_bytes, v_bytes; /* a number */
    double index_bytes;      /* of a sparse index's key; 0: as k_bytes */
    double states;           /* recurrent states kept */
    double state_bytes;      /* 0: 4 where the model keeps it in fp32, else conv_bytes */
    double conv_bytes;
    double conv_less;        /* columns of the convolution not kept */
    double mtp_layers;       /* multi-token-prediction layers with a cache of their own */
    double ranks;            /* of tensor parallelism */
    int64_t first_layer, end_layer;
} vram_cache_rules;

typedef struct { double channels, numbers, conv_channels; } vram_state_shape; /* state = channels * numbers; convolution = conv_channels * kernel */

vram_cache_rules vram_cache_rules_plain(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases);
void vram_cache_entries(const vram_model *model, const vram_cache_rules *rules, vram_report *report);
vram_state_shape vram_state_size(const vram_state *state);
int vram_last_global_kind(const vram_model *model);           /* of the last layer that sees all tokens; -1: none */
double vram_kv_heads_on_rank(double kv_heads, double ranks); /* max(1, ceil(K / t)) */
double vram_compute_bytes(const vram_scenario *scenario);    /* a number in the type that the engine computes in: 4 for fp32 weights, else 2 */
bool vram_llama_cpp_ignores_windows(const vram_model *model); /* kv_cache.c: phi3, mistral, qwen2 have every layer whole there */

double vram_llama_cpp_cache_bytes(const vram_scenario *scenario, const vram_model *model, int64_t first, int64_t end); /* of those layers, about */
/* By the rules of scenario->engine. */
vram_cache_rules vram_cache_rules_of(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases);
double vram_cache_cells(const vram_cache_rules *rules, const vram_attention *attention); /* tokens that a layer keeps of a sequence */
void vram_kv_cache(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases, vram_report *report);

/* ---- parallel.c : what one GPU of a pipeline's stage holds ---- */

/* Parameters of the model on one GPU of the stage after tensor and expert parallelism (before ZeRO). */
double vram_rank_params(const vram_scenario *scenario, const vram_model *model);
void vram_stage_whole(vram_model *model);                                            /* no pipeline */
void vram_stage_choose(const vram_scenario *scenario, vram_model *model, int64_t number); /* the stage of that number */
int64_t vram_stages(const vram_scenario *scenario);                                  /* 1: there is one to look at */
bool vram_stages_alike(const vram_scenario *scenario, const vram_model *model, int64_t a, int64_t b); /* the same layers, embedding, head */
bool vram_is_megatron(const vram_scenario *scenario, const vram_model *model); /* its layers run as Megatron's do, fused; other engines divide the plain ones */
bool vram_is_fsdp(const vram_scenario *scenario);  /* either generation */
int64_t vram_zero_of(const vram_scenario *scenario); /* the stage of ZeRO that counts: FSDP has no stage below 2, DDP has none */
double vram_data_ranks(const vram_scenario *scenario); /* over which ZeRO and FSDP share: those of data and of context */
/* What a rank of tensor parallelism has of a layer: heads, widths, channels; written to *divided, which is returned */
const vram_layer *vram_rank_layer(const vram_scenario *scenario, const vram_layer *layer, vram_layer *divided);
double vram_expert_tensor(const vram_scenario *scenario); /* ranks that one expert is cut over */
double vram_expert_tokens(const vram_scenario *scenario); /* share of the tokens' copies that the experts of one rank get */
double vram_expert_replicas(const vram_scenario *scenario); /* ranks that hold the same experts */
double vram_rank_expert_params(const vram_scenario *scenario, const vram_model *model); /* those of vram_rank_params that are experts' */
vram_tensor vram_rank_tensor(const vram_scenario *scenario, const vram_model *model, const vram_tensor *tensor);
/* Rows or columns of a tensor on one GPU, its copies (experts) on one GPU, layers of its kind on the stage */
double vram_rank_tensor_params(const vram_scenario *scenario, const vram_model *model, const vram_tensor *tensor);
double vram_rank_layer_params(const vram_scenario *scenario, const vram_model *model, const vram_tensor *tensor); /* the same of one layer */

/* ---- allocator.c : PyTorch's caching allocator ---- */
enum { VRAM_ALLOCATOR_BLOCKS = 512 };
typedef struct {
    double max_split;        /* bytes; 0: no limit */
    double allocated;        /* blocks in use */
    int blocks;              /* free ones, from small to large */
    double block[VRAM_ALLOCATOR_BLOCKS];
} vram_allocator;
double vram_allocator_take(vram_allocator *allocator, double bytes);  /* bytes of the block that a tensor gets */
void vram_allocator_give(vram_allocator *allocator, double block);
double vram_block_bytes(double bytes);                                /* of the block that a tensor gets of a new segment */
double vram_model_slack(const vram_scenario *scenario, const vram_model *model, double bytes); /* what the blocks of a loaded model hold beyond its tensors, a number in so many bytes */

/* ---- reserve.c : what that allocator keeps beyond the tensors; the last entry, of all the others ---- */
struct vram_steps; /* steps.h; NULL: there are none */
void vram_reserve(const vram_scenario *scenario, const struct vram_steps *steps, bool verdict_alone, vram_report *report);

/* ---- engines at inference (engine.c dispatches) ---- */
void vram_engine_entries(const vram_scenario *scenario, vram_report *report);       /* engine.c; bare, transformers, sglang */
void vram_engine_vllm(const vram_scenario *scenario, vram_report *report);          /* engine_vllm.c */
double vram_sequences_on_gpu(const vram_scenario *scenario);                        /* of `batch`, on one replica */
double vram_pool_budget(const vram_scenario *scenario, const vram_gpu *gpu);        /* bytes of a card that the engine's settings give to weights, buffers and pool */
double vram_pool_sequences(const vram_pool *pool, double budget);                   /* that run at once on a card with this budget */
void vram_pool_note(const vram_scenario *scenario, const char *path, vram_report *report); /* says when more sequences are asked for than the engine runs */
double vram_sglang_share(const vram_scenario *scenario, const vram_gpu *gpu);       /* mem_fraction_static */
void vram_engine_transformers(const vram_scenario *scenario, vram_report *report);  /* engine_transformers.c: generate() */
void vram_engine_sglang(const vram_scenario *scenario, vram_report *report);        /* engine_sglang.c */
void vram_serving_pass(const vram_scenario *scenario, double tokens, double sequences, vram_report *report); /* vllm_profile.c: of a server's forward pass */
double vram_graphs_allowance(const vram_scenario *scenario, double graphs, vram_report *report); /* bytes */
void vram_sglang_loading(const vram_scenario *scenario, vram_report *report);        /* vllm_weights.c: what its weights take beside themselves */
double vram_kernels_allowance(const vram_scenario *scenario, double mib, vram_report *report); /* these two return their bytes */
double vram_ranks_allowance(const vram_scenario *scenario, bool fused, vram_report *report); /* fused: sums of a compiled model */
void vram_transformers_generate(const vram_scenario *scenario, const vram_model *model, double sequences, double prompt, double tokens, double bytes, double sampled,
                                vram_phase phase, vram_report *report);             /* the same within a training loop */
void vram_engine_llama_cpp(const vram_scenario *scenario, vram_report *report);     /* engine_llama_cpp.c */
double vram_llama_cpp_cache_padding(const vram_scenario *scenario, bool windowed);  /* what CUDA adds to quantised caches, of one of the two */

/* ---- training.c, replay.c, sharding.c ---- */
bool vram_shares_weights(const vram_scenario *scenario); /* weights are divided over the ranks of data: FSDP, or stage 3 */
/* Weights entered since `first`, in shares: the first factor of each entry */
void vram_share_frozen(const vram_scenario *scenario, int first, vram_report *report);
/* So many parameters that come for the time they are needed; */
void vram_gathered(const vram_scenario *scenario, vram_role role, double params, double width, unsigned phases, vram_report *report);
/* a layer, or a table of words, whichever is more; of `params` in all where a rule of thumb says no more */
void vram_at_work(const vram_scenario *scenario, const vram_model *model, vram_role role, double params, double width, unsigned phases, vram_report *report);
/* FSDP 1 beside packed weights: adapters are left whole on every rank and summed as DDP does. So do those whose logs there are
 * (fms-acceleration, fms_acceleration_foak/utils.py, lora_adapters_switch_ddp_from_fsdp); peft's own wrapping would share them, as FSDP 2 does. */
bool vram_adapters_whole(const vram_scenario *scenario);
bool vram_trains_fp32(const vram_scenario *scenario);       /* of full training: weights are stored in fp32 (precision fp32, amp) */
bool vram_steps_at_once(const vram_scenario *scenario);     /* AdamW makes its denominators of all parameters together (foreach) */
bool vram_steps_in_backward(const vram_scenario *scenario); /* each parameter is stepped, and its gradient let go, as soon as it is there */
void vram_training(const vram_scenario *scenario, struct vram_steps *steps, vram_report *report); /* the scenario's own model trained, rules of thumb */

/* ---- rl.c ---- */
void vram_rl(const vram_scenario *scenario, vram_report *report);

/* ---- log.c ---- */
void vram_logs(const vram_scenario *scenario, vram_report *report);                 /* lines to check by, once the sums are made */

/* ---- estimate.c ---- */
/* The entries of one stage of a pipeline and their sums, and no more */
bool vram_enter_stage(vram_scenario *scenario, int64_t stage, bool verdict_alone, vram_report *report, vram_error *error);

/* ---- scenario.c ---- */
double vram_gpus_of_degrees(const vram_scenario *scenario);                         /* that the degrees of parallelism take */
double vram_gpus_over(const vram_scenario *scenario, double data, double tensor, double pipeline); /* with these degrees in place of its own */

/* ---- gpu.c ---- */
static inline bool vram_is_nvidia(const vram_gpu *gpu) { return gpu->maker == 'N' || gpu->maker == '\0'; } /* or nothing is said */
static inline bool vram_is_amd(const vram_gpu *gpu) { return gpu->maker == 'A' && !gpu->apple; }
void vram_gpu_overheads(const vram_scenario *scenario, vram_report *report);        /* context and fragmentation entries, when overheads are on */
double vram_gpu_fullness(const vram_scenario *scenario, const vram_report *report);    /* to compare stages of a pipeline by */
void vram_gpu_fits(const vram_scenario *scenario, const vram_gpu *gpus, int count, vram_report *report);
bool vram_divides_work(const vram_scenario *scenario);                              /* not only what is at rest: by tensor or pipeline parallelism */

#endif
