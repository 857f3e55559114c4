/* families.h -- a model family as data: what config.c must know to read its config.json. families.c has the rows. */
#ifndef VRAM_JSON_FAMILIES_H
#define VRAM_JSON_FAMILIES_H

#include "json.h"

/* What a boolean key of a config turns on. */
enum {
    ON_Q = 1, ON_K = 2, ON_V = 4, ON_O = 8, ON_QKV = 7, ON_QKVO = 15, /* biases; of MLA: q_a, kv_a, -, o */
    ON_MLP = 16,                                                      /* biases of the dense MLP and the shared expert */
    ON_QK_NORM = 32, ON_HEAD_BIAS = 64,
    ON_STATE_IN = 128, ON_STATE_OUT = 256, ON_CONV = 512,             /* biases */
    ON_STATE_NORM = 1024,
    ON_PARALLEL = 2048, ON_LOSES_NORM = 4096                          /* parallel block; one norm fewer */
};
typedef struct {
    const char *keys; /* "" for what no key decides */
    unsigned standard : 1, on : 31; /* standard: when the key is absent */
} family_switch;

/* Traits of a family that need no number. */
enum {
    IS_TIED = 1 << 0,            /* tie_word_embeddings when absent */
    NEVER_TIED = 1 << 1,         /* the class ignores the key */
    IS_PLAIN = 1 << 2,           /* MLP without a gate */
    IS_FUSED_QKV = 1 << 3,
    IS_FUSED_GATE_UP = 1 << 4,
    IS_PARALLEL = 1 << 5,
    IGNORES_HEAD_DIM = 1 << 6,   /* always hidden / heads */
    HAS_NO_KV_KEY = 1 << 7,      /* as many key heads as query heads */
    HAS_OUTPUT_GATE = 1 << 8,
    HAS_SINKS = 1 << 9,
    HAS_EXPERT_BIAS = 1 << 10,
    HAS_ROUTER_LINEAR_BIAS = 1 << 11,
    HAS_ROUTER_BIAS = 1 << 12,        /* correction bias, a parameter */
    HAS_ROUTER_BIAS_BUFFER = 1 << 13, /* the same, a buffer */
    HAS_LINEAR_ROUTER = 1 << 14,
    HAS_SHARED_GATE = 1 << 15,
    HAS_NO_FINAL_NORM = 1 << 16,
    HAS_EMBEDDING_NORM = 1 << 17,
    HAS_NORMS_AFTER = 1 << 18,   /* norms behind the blocks, at least as well */
    NEEDS_SWITCHED_WINDOW = 1 << 19, /* sliding_window counts only with use_sliding_window */
    IS_STACKED_AS_GATE = 1 << 20,    /* vram_stacked_names */
    IS_STACKED_AS_W = 1 << 21,
    HAS_SHARED_FUSED = 1 << 22,
    HAS_EXPERT_MODULES = 1 << 23,
    CAPS_LOGITS = 1 << 25,       /* when the key is absent */
    HAS_LISTS = 1 << 24          /* a number may be a list, one for each layer */
};

enum { DROPS_RESIDUAL = 1, DROPS_ATTENTION = 2, DROPS_EMBEDDING = 4 };

/* What a layer is made of, by the lists and periods of configs. */
typedef enum { LAYER_FULL, LAYER_SLIDING, LAYER_CHUNKED, LAYER_STATE, LAYER_BOTH, LAYER_MOE, LAYER_MLP, LAYER_EMPTY, LAYER_COMPRESSED, LAYER_HEAVILY_COMPRESSED, LAYER_UNKNOWN } layer_type;

/* Defaults of the class, and which layers have experts. */
typedef enum { SPARSE_ALL, SPARSE_AFTER_FIRST, SPARSE_STEP, SPARSE_INTERLEAVED, SPARSE_PERIOD, SPARSE_RANGE } sparse_rule;
typedef struct {
    short experts, per_token;
    const char *width_keys;  /* of one expert; NULL: moe_intermediate_size; "": the MLP's own width */
    short width;
    short shared;         /* shared experts of that width, when their number is absent */
    const char *shared_keys; /* or a key with the width of all of them */
    short shared_width;
    unsigned char rule;      /* sparse_rule */
    const char *first_keys;  /* dense layers in front */
    short first;
    const char *zero_keys;   /* experts without weights: rows of the router only */
    short zero;
} family_experts;

typedef struct { int q_rank, kv_rank, nope, rope, v; } family_latent;

typedef struct { const char *hidden, *width, *layers, *heads, *kv_heads, *head_dim, *positions, *vocab; } family_keys;

/* The config being read, and what is the same in all its layers. */
struct family;
typedef struct {
    const cJSON *outer, *inner; /* the file, and the language model's part of it */
    const char *inside;         /* "text_config." or "" */
    const struct family *family;
    unsigned is, on;
    vram_model *model;
    vram_error *error;
    bool failed;
    int64_t layer;              /* where numbers that are lists are read */
    int64_t width;              /* of the dense MLP */
    int64_t window;
    const cJSON *types;         /* the list that names each layer's type */
    vram_attention attention;
    vram_state state;
    vram_ffn dense, sparse;
} reader;

typedef layer_type family_pattern(reader *r, int64_t layer);
typedef void family_state(reader *r, vram_state *state);
typedef void family_rule(reader *r);
typedef void family_special(reader *r, int64_t layer, vram_layer *made);

typedef struct family {
    const char *type;
    short hidden, width, layers, heads, kv_heads, head_dim;
    int vocab, positions;      /* class defaults; kv_heads 0: heads; head_dim 0: hidden / heads */
    unsigned is;
    const family_keys *keys;   /* other names of the sizes */
    unsigned char norm, norms, qk_norm, other, position; /* vram_norm_type; how many; vram_qk_norm, when on; of the layers that are not full attention; vram_position */
    const family_switch *switches; /* the last has no keys; NULL: none */
    const family_latent *latent;
    const family_experts *experts;
    family_state *state;
    family_pattern *pattern;   /* when the config has no list of layer types */
    const char *period_keys;   /* for the patterns that repeat */
    int period;
    int window;                /* sliding_window when absent */
    family_rule *adjust;       /* what no field says about all layers */
    family_special *special;   /* what no field says about a layer */
    family_rule *side_paths;   /* tensors that no field says */
    int index_heads;           /* of the sparse-attention indexer */
    float rotary_share;        /* 1/2, 1/4: of a head, when the key is absent; 0: all */
    int rotary_dim;            /* or so many numbers, by a key of its own; 0: no such key */
    const vram_names *names;   /* NULL: Llama's */
    unsigned char drops;       /* where a tenth is dropped when the keys are absent */
} family;

const family *family_find(const char *type); /* NULL: unknown */

/* config.c, for the rules of families.c. Keys: names separated by spaces, the first that is there and not null counts;
 * a dot enters an object. All return the standard when the key is absent, and remember the first failure. */
int64_t config_whole(reader *r, const char *keys, int64_t standard, int64_t min, int64_t max);
int64_t config_number(reader *r, const cJSON *item, const char *key, int64_t min, int64_t max); /* one element of a list */
double config_real(reader *r, const char *keys, double standard, double min, double max);
bool config_flag(reader *r, const char *keys, bool standard);
const cJSON *config_find(reader *r, const char *keys);
const cJSON *config_list(reader *r, const char *keys, int64_t at_least);
const char *config_text(reader *r, const char *keys); /* "" when absent */
bool config_is_null(reader *r, const char *key);
bool config_contains(const cJSON *list, int64_t number);
bool config_is_on(reader *r, const cJSON *list, int64_t i, const char *key); /* an element of a list of marks */
void config_fail(reader *r, vram_error_code code, const char *key, double value, double min, double max);
layer_type config_layer_type(reader *r, int64_t layer);
vram_tensor *config_extra(reader *r, int kind, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns, bool linear);

enum { CONFIG_WIDEST = 1 << 24, CONFIG_COUNT = 1 << 16 }; /* ranges: widths; heads, experts, groups */

/* quantization.c: what "native" weights are; needs the table of tensors. NULL: nothing is said. */
void vram_config_quantization(const cJSON *quantization, vram_model *model);

/* The rules that rows name: family_layers.c, family_states.c, family_details.c. */
family_rule family_afmoe_adjust, family_apertus_paths, family_bailing_adjust, family_bigcode_adjust, family_bitnet_paths,
    family_chatglm_adjust, family_cohere2_moe_adjust, family_diffllama_paths, family_falcon_adjust,
    family_gemma3n_paths, family_gemma4_adjust, family_gemma4_paths, family_granite_shared_adjust,
    family_griffin_adjust, family_helium_adjust, family_hunyuan_adjust, family_jetmoe_adjust, family_jetmoe_paths,
    family_lfm2_adjust, family_lfm2_moe_adjust, family_llama4_adjust, family_longcat_adjust, family_m3_adjust,
    family_m3_paths, family_megatron_adjust, family_mimo_adjust, family_nemotron_h_adjust, family_neo_adjust,
    family_opt_adjust, family_qwen_adjust, family_thumb_adjust, family_v4_adjust, family_v4_paths,
    family_zamba2_paths, family_zamba_adjust, family_zamba_paths;
family_pattern family_all_both, family_all_full, family_all_state, family_bamba_pattern, family_by_turns,
    family_cohere2_moe_pattern, family_early_windows, family_every_nth, family_first_of_four, family_griffin_pattern,
    family_jamba_pattern, family_kimi_pattern, family_late_windows, family_lfm2_pattern, family_llama4_pattern,
    family_mimo_pattern, family_nemotron_pattern, family_neo_pattern, family_olmo_hybrid_pattern,
    family_step_pattern, family_v4_pattern, family_zamba2_pattern, family_zamba_pattern;
family_special family_arctic_special, family_hunyuan_special, family_axk1_special, family_dsa_special, family_falcon_special, family_gemma3n_special,
    family_gemma4_special, family_longcat_special, family_m3_special, family_mimo_special, family_nas_special,
    family_nemotron_h_special, family_step_special, family_v4_special, family_zamba2_special, family_zamba_special;
family_state family_bailing_state, family_bamba_state, family_falcon_h1_state, family_griffin_state, family_jamba_state,
    family_kimi_state, family_lfm2_state, family_lightning_state, family_mamba1_state, family_mamba2_state,
    family_nemotron_h_state, family_olmo_hybrid_state, family_qwen3_5_state, family_qwen3_next_state,
    family_zamba2_state, family_zamba_state;

#endif
