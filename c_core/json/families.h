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
    bool standard;    /* when the key is absent */
    unsigned on;
} family_switch;

enum { FAMILY_SWITCHES = 6 };

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
    HAS_EXPERT_MODULES = 1 << 23
};

/* What a layer is made of, by the lists and periods of configs. */
typedef enum { LAYER_FULL, LAYER_SLIDING, LAYER_CHUNKED, LAYER_STATE, LAYER_BOTH, LAYER_MOE, LAYER_MLP, LAYER_EMPTY, LAYER_COMPRESSED, LAYER_HEAVILY_COMPRESSED, LAYER_UNKNOWN } layer_type;

/* Defaults of the class, and which layers have experts. */
typedef enum { SPARSE_ALL, SPARSE_AFTER_FIRST, SPARSE_STEP, SPARSE_INTERLEAVED, SPARSE_PERIOD, SPARSE_RANGE } sparse_rule;
typedef struct {
    int64_t experts, per_token;
    const char *width_keys;  /* of one expert; NULL: moe_intermediate_size; "": the MLP's own width */
    int64_t width;
    int64_t shared;          /* shared experts of that width, when their number is absent */
    const char *shared_keys; /* or a key with the width of all of them */
    int64_t shared_width;
    sparse_rule rule;
    const char *first_keys;  /* dense layers in front */
    int64_t first;
    const char *zero_keys;   /* experts without weights: rows of the router only */
    int64_t zero;
} family_experts;

typedef struct { int64_t q_rank, kv_rank, nope, rope, v; } family_latent;

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
    int64_t width;              /* of the dense MLP */
    int64_t window;
    const cJSON *types;         /* the list that names each layer's type */
    vram_attention attention;
    vram_state state;
    vram_ffn dense, sparse;
} reader;

typedef struct family {
    const char *type;
    int64_t hidden, width, layers, heads, kv_heads, head_dim, vocab, positions; /* class defaults; kv_heads 0: heads; head_dim 0: hidden / heads */
    unsigned is;
    const family_keys *keys;   /* other names of the sizes */
    vram_norm_type norm;
    int norms;
    vram_qk_norm qk_norm;      /* when on */
    family_switch switches[FAMILY_SWITCHES];
    const family_latent *latent;
    const family_experts *experts;
    void (*state)(reader *r, vram_state *state);
    layer_type (*pattern)(reader *r, int64_t layer); /* when the config has no list of layer types */
    const char *period_keys;   /* for the patterns that repeat */
    int64_t period;
    layer_type other;          /* of the layers that are not full attention */
    int64_t window;            /* sliding_window when absent */
    void (*adjust)(reader *r); /* what no field says about all layers */
    void (*special)(reader *r, int64_t layer, vram_layer *made); /* what no field says about a layer */
    void (*side_paths)(reader *r); /* tensors that no field says */
    int64_t index_heads;       /* of the sparse-attention indexer */
    vram_position position;
    vram_names names;
    struct { double resid, attention, embedding; } dropout; /* when the keys are absent */
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
void config_fail(reader *r, vram_error_code code, const char *key, double value, double min, double max);
layer_type config_layer_type(reader *r, int64_t layer);
vram_tensor *config_extra(reader *r, int kind, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns, bool linear);

enum { CONFIG_WIDEST = 1 << 24, CONFIG_COUNT = 1 << 16 }; /* ranges: widths; heads, experts, groups */

#endif
