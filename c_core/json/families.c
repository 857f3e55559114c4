/* families.c -- one row for each model type: names and defaults of its numbers, its biases, its layers.
 *
 * Defaults are those of the configuration classes of transformers 5.24, shapes those of the modelling files:
 * https://github.com/huggingface/transformers/tree/main/src/transformers/models/<folder of the type, without _text>
 */
#include "families.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------- which layers are which -- */

/* Every n-th layer is full attention, the others are of the family's other type. */
static layer_type every_nth(reader *r, int64_t i)
{
    const char *keys = r->family->period_keys ? r->family->period_keys : "";
    int64_t n = config_whole(r, keys, r->family->period, 0, VRAM_MAX_LAYERS);
    return n == 0 || (i + 1) % n == 0 ? LAYER_FULL : r->family->other;
}

/* The first of every four is full (CWM). */
static layer_type first_of_four(reader *r, int64_t i)
{
    (void)r;
    return i % 4 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* Full and other by turns, beginning with full (MiniMax); its own files list 1 for full. */
static layer_type by_turns(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "attn_type_list", r->model->layers);
    if (list) return cJSON_GetArrayItem(list, (int)i)->valuedouble > 0 ? LAYER_FULL : LAYER_STATE;
    return i % 2 == 0 ? LAYER_FULL : LAYER_STATE;
}

/* Dense layers in front have a period of their own; the others are counted from there (Cohere 2 with experts). */
static layer_type cohere2_moe_pattern(reader *r, int64_t i)
{
    int64_t first = config_whole(r, "first_k_dense_replace", 0, 0, VRAM_MAX_LAYERS);
    int64_t n = i < first ? config_whole(r, "prefix_dense_sliding_window_pattern", 1, 1, VRAM_MAX_LAYERS) : config_whole(r, "sliding_window_pattern", 4, 1, VRAM_MAX_LAYERS);
    return ((i < first ? i : i - first) + 1) % n == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* Windows from max_window_layers on (Qwen). */
static layer_type late_windows(reader *r, int64_t i)
{
    return r->window > 0 && i >= config_whole(r, "max_window_layers", 28, 0, VRAM_MAX_LAYERS) ? LAYER_SLIDING : LAYER_FULL;
}

/* Windows on even layers before max_window_layers (Qwen2-MoE). */
static layer_type early_windows(reader *r, int64_t i)
{
    return r->window > 0 && i % 2 == 0 && i < config_whole(r, "max_window_layers", 28, 0, VRAM_MAX_LAYERS) ? LAYER_SLIDING : LAYER_FULL;
}

static layer_type all_full(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_FULL;
}

static layer_type all_state(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_STATE;
}

static layer_type all_both(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_BOTH;
}

/* OLMo Hybrid: every fourth, and at least the last. */
static layer_type olmo_hybrid_pattern(reader *r, int64_t i)
{
    return i % 4 == 3 || (r->model->layers < 4 && i == r->model->layers - 1) ? LAYER_FULL : LAYER_STATE;
}

static layer_type jamba_pattern(reader *r, int64_t i)
{
    int64_t period = config_whole(r, "attn_layer_period", 8, 1, VRAM_MAX_LAYERS);
    return i % period == config_whole(r, "attn_layer_offset", 4, 0, period - 1) ? LAYER_FULL : LAYER_STATE;
}

static layer_type bamba_pattern(reader *r, int64_t i)
{
    return config_contains(config_list(r, "attn_layer_indices", 0), i) ? LAYER_FULL : LAYER_STATE;
}

/* LFM2: named layers attend; when none are named, all do. */
static layer_type lfm2_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "full_attn_idxs", 0);
    return !list || config_contains(list, i) ? LAYER_FULL : LAYER_STATE;
}

/* Kimi Linear counts layers from 1. */
static layer_type kimi_pattern(reader *r, int64_t i)
{
    const cJSON *full = config_list(r, "linear_attn_config.full_attn_layers", 0);
    if (full) return config_contains(full, i + 1) ? LAYER_FULL : LAYER_STATE;
    return i > 0 && i % 4 == 0 ? LAYER_FULL : LAYER_STATE;
}

/* Nemotron-H: a letter a layer. */
static layer_type nemotron_pattern(reader *r, int64_t i)
{
    static const layer_type standard[4] = {LAYER_STATE, LAYER_MOE, LAYER_FULL, LAYER_MLP};
    const char *letters = config_text(r, "hybrid_override_pattern");
    size_t n = strlen(letters);
    if (n == 0) return standard[i % 4];
    switch ((size_t)i < n ? letters[i] : 0) {
    case 'M': return LAYER_STATE;
    case 'E': return LAYER_MOE;
    case '*': return LAYER_FULL;
    case '-': return LAYER_MLP;
    default: config_fail(r, VRAM_ERROR_CONFLICT, "hybrid_override_pattern", (double)n, (double)r->model->layers, (double)r->model->layers); return LAYER_MLP;
    }
}

/* RecurrentGemma: block_types, again and again. */
static layer_type griffin_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "block_types", 1);
    int n = cJSON_GetArraySize(list);
    if (n == 0) return i % 3 == 2 ? LAYER_SLIDING : LAYER_STATE;
    const cJSON *item = cJSON_GetArrayItem(list, (int)(i % n));
    return cJSON_IsString(item) && strcmp(item->valuestring, "recurrent") == 0 ? LAYER_STATE : LAYER_SLIDING;
}

static layer_type zamba_pattern(reader *r, int64_t i)
{
    int64_t period = config_whole(r, "attn_layer_period", 6, 1, VRAM_MAX_LAYERS), offset = config_whole(r, "attn_layer_offset", 4, 0, period - 1);
    return i == 2 || (i > 2 && (i - 3) % period == offset) ? LAYER_BOTH : LAYER_STATE;
}

static layer_type zamba2_pattern(reader *r, int64_t i)
{
    static const unsigned char standard[] = {6, 12, 18, 24, 30, 36, 42, 47, 51};
    const cJSON *ids = config_list(r, "hybrid_layer_ids", 0);
    if (ids) return config_contains(ids, i) ? LAYER_BOTH : LAYER_STATE;
    for (size_t k = 0; k < sizeof standard; k++)
        if (standard[k] == i) return LAYER_BOTH;
    return LAYER_STATE;
}

static layer_type mimo_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "hybrid_layer_pattern", r->model->layers);
    if (list) return cJSON_GetArrayItem(list, (int)i)->valuedouble > 0 ? LAYER_SLIDING : LAYER_FULL;
    return i == 0 || (i + 1) % 6 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* GPT-Neo: [[["global", "local"], 12]] */
static layer_type neo_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "attention_layers", r->model->layers);
    if (!list) return i % 2 == 0 ? LAYER_FULL : LAYER_SLIDING;
    const cJSON *item = cJSON_GetArrayItem(list, (int)i);
    return cJSON_IsString(item) && strcmp(item->valuestring, "local") == 0 ? LAYER_SLIDING : LAYER_FULL;
}

/* Llama 4: layers without rotary positions are full. */
static layer_type llama4_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "no_rope_layers", 1);
    int64_t n = config_whole(r, "no_rope_layer_interval", 4, 1, VRAM_MAX_LAYERS);
    const cJSON *item = list ? cJSON_GetArrayItem(list, (int)i) : NULL;
    return (item ? item->valuedouble > 0 : (i + 1) % n != 0) ? LAYER_CHUNKED : LAYER_FULL;
}

/* Step 3.5: one full, three sliding. */
static layer_type step_pattern(reader *r, int64_t i)
{
    (void)r;
    return i % 4 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* DeepSeek-V4: ratios of compression per layer, or by turns after the first two. */
static layer_type v4_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "compress_ratios", r->model->layers);
    double ratio = list ? cJSON_GetArrayItem(list, (int)i)->valuedouble : i < 2 || i % 2 == 0 ? 128 : 4;
    return ratio <= 0 ? LAYER_SLIDING : ratio <= 4 ? LAYER_COMPRESSED : LAYER_HEAVILY_COMPRESSED;
}

/* ------------------------------------------------------------------------------------------------------------- states -- */

/* inner: as given, else expand * hidden; dt_rank "auto": hidden / 16, rounded up */
static void mamba1_state(reader *r, vram_state *s)
{
    int64_t h = r->model->hidden;
    s->type = VRAM_STATE_MAMBA1;
    s->state = config_whole(r, "state_size mamba_d_state", 16, 1, CONFIG_COUNT);
    s->inner = (int64_t)floor(config_real(r, "expand mamba_expand", 2, 0.001, 1024) * (double)h);
    if (!r->family->heads) s->inner = config_whole(r, "intermediate_size", s->inner, 1, CONFIG_WIDEST);
    s->conv_kernel = config_whole(r, "conv_kernel mamba_d_conv", 4, 1, CONFIG_COUNT);
    const char *rank = config_text(r, "time_step_rank mamba_dt_rank");
    s->dt_rank = (h + 15) / 16;
    if (strcmp(rank, "auto") != 0) s->dt_rank = config_whole(r, "time_step_rank mamba_dt_rank", s->dt_rank, 1, CONFIG_WIDEST);
    s->in_bias = (r->on & ON_STATE_IN) != 0;
    s->out_bias = (r->on & ON_STATE_OUT) != 0;
    s->conv_bias = (r->on & ON_CONV) != 0;
}

static void jamba_state(reader *r, vram_state *s)
{
    mamba1_state(r, s);
    s->inner_norms = true;
}

static void zamba_state(reader *r, vram_state *s)
{
    mamba1_state(r, s);
    s->heads = config_whole(r, "n_mamba_heads", 2, 1, CONFIG_COUNT);
    s->plain_projections = true;
}

/* heads * head_dim is the inner width; keys and defaults by family */
typedef struct { const char *heads, *head_dim, *state, *groups, *kernel; int64_t heads_d, head_dim_d, state_d, groups_d; } mamba2_keys;

static void mamba2_common(reader *r, vram_state *s, const mamba2_keys *k)
{
    s->type = VRAM_STATE_MAMBA2;
    s->heads = config_whole(r, k->heads, k->heads_d, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, k->head_dim, k->head_dim_d, 1, CONFIG_WIDEST);
    s->state = config_whole(r, k->state, k->state_d, 1, CONFIG_COUNT);
    s->groups = config_whole(r, k->groups, k->groups_d, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, k->kernel, 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->gated_norm = true;
    s->in_bias = (r->on & ON_STATE_IN) != 0;
    s->out_bias = (r->on & ON_STATE_OUT) != 0;
    s->conv_bias = (r->on & ON_CONV) != 0;
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_dtype mamba_ssm_cache_dtype"), "float32") == 0;
}

static void mamba2_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", 128, 64, 128, 8};
    mamba2_common(r, s, &keys);
}

/* Bamba, Granite 4: the head is 64 wide, or "auto": expand * hidden / heads */
static void bamba_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", 128, 64, 256, 1};
    mamba2_keys k = keys;
    double inner = config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden;
    bool automatic = strcmp(config_text(r, "mamba_d_head"), "auto") == 0;
    if (automatic) k.head_dim = "";
    mamba2_common(r, s, &k);
    if (automatic) s->head_dim = (int64_t)(inner / (double)s->heads);
    s->inner = (int64_t)inner; /* the class derives it from the width, the heads must agree */
}

/* Falcon-H1: mamba_d_ssm, null for expand * hidden; a gated norm only when asked for */
static void falcon_h1_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", 128, 8, 256, 1};
    mamba2_keys k = keys;
    int64_t wide = (int64_t)(config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden);
    int64_t inner = config_is_null(r, "mamba_d_ssm") ? wide : config_whole(r, "mamba_d_ssm", 1024, 1, CONFIG_WIDEST);
    bool automatic = strcmp(config_text(r, "mamba_d_head"), "auto") == 0;
    if (automatic) k.head_dim = "";
    mamba2_common(r, s, &k);
    if (automatic) s->head_dim = inner / s->heads;
    s->inner = inner;
    s->gated_norm = (r->on & ON_STATE_NORM) != 0;
}

static void nemotron_h_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "mamba_n_groups n_groups", "mamba_d_conv conv_kernel", 128, 64, 128, 8};
    mamba2_common(r, s, &keys);
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_cache_dtype"), "") == 0 || s->state_fp32;
}

/* Zamba 2: heads share expand * hidden */
static void zamba2_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"n_mamba_heads", "", "mamba_d_state", "mamba_ngroups", "mamba_d_conv", 8, 1, 64, 1};
    mamba2_common(r, s, &keys);
    s->inner = (int64_t)(config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden);
    s->head_dim = s->inner / s->heads;
    s->conv_bias = true;
}

typedef struct { int64_t key_heads, value_heads, key_dim, value_dim; vram_projections projections; } delta_defaults;

static void delta_common(reader *r, vram_state *s, const delta_defaults *d)
{
    s->type = VRAM_STATE_GATED_DELTA;
    s->key_heads = config_whole(r, "linear_num_key_heads", d->key_heads, 1, CONFIG_COUNT);
    s->heads = config_whole(r, "linear_num_value_heads", d->value_heads, 1, CONFIG_COUNT);
    s->key_head_dim = config_whole(r, "linear_key_head_dim", d->key_dim, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_value_head_dim", d->value_dim, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_conv_kernel_dim", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->projections = d->projections;
    s->gated_norm = true;
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_dtype"), "float32") == 0;
}

static void qwen3_next_state(reader *r, vram_state *s)
{
    static const delta_defaults d = {16, 32, 128, 128, VRAM_PROJECTIONS_FUSED};
    delta_common(r, s, &d);
}

static void qwen3_5_state(reader *r, vram_state *s)
{
    static const delta_defaults d = {16, 32, 128, 128, VRAM_PROJECTIONS_SPLIT};
    delta_common(r, s, &d);
}

/* OLMo Hybrid: as many heads as the attention, three quarters of hidden for keys, twice as wide values */
static void olmo_hybrid_state(reader *r, vram_state *s)
{
    delta_defaults d = {r->attention.heads, r->attention.heads, 96, 192, VRAM_PROJECTIONS_SEPARATE};
    int64_t heads = config_whole(r, "linear_num_key_heads", d.key_heads, 1, CONFIG_COUNT);
    d.key_dim = (int64_t)(0.75 * (double)r->model->hidden / (double)heads);
    d.value_dim = 2 * config_whole(r, "linear_key_head_dim", d.key_dim, 1, CONFIG_COUNT);
    delta_common(r, s, &d);
}

static void kimi_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_KDA;
    s->heads = config_whole(r, "linear_attn_config.num_heads linear_num_heads", 32, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_attn_config.head_dim linear_head_dim", 128, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_attn_config.short_conv_kernel_size linear_conv_kernel_dim", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->low_rank_gates = true;
}

/* Ling 2.5: heads of the attention */
static void bailing_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_KDA;
    s->heads = config_whole(r, "linear_num_heads", r->attention.heads, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_head_dim head_dim", 128, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_conv_kernel_dim short_conv_kernel_size", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
}

static void lightning_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_LIGHTNING;
    s->heads = r->attention.heads;
    s->head_dim = r->attention.head_dim;
    s->inner = s->heads * s->head_dim;
}

static void lfm2_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_SHORT_CONV;
    s->inner = r->model->hidden;
    s->conv_kernel = config_whole(r, "conv_L_cache", 3, 1, CONFIG_COUNT);
    s->in_bias = s->out_bias = s->conv_bias = (r->on & ON_CONV) != 0;
}

static void griffin_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_RGLRU;
    s->inner = config_whole(r, "lru_width", r->model->hidden, 1, CONFIG_WIDEST);
    s->heads = r->attention.heads;
    s->head_dim = s->inner / s->heads;
    s->state = 1;
    s->conv_kernel = config_whole(r, "conv1d_width", 4, 1, CONFIG_COUNT);
    s->in_bias = s->out_bias = s->conv_bias = true;
    s->state_fp32 = true;
}

/* --------------------------------------------------------------------------------------- what one number cannot say -- */

static void afmoe_adjust(reader *r) { r->attention.gate_width = r->attention.heads * r->attention.head_dim; }

/* One more norm behind the experts (A.X K1). */
static void axk1_special(reader *r, int64_t i, vram_layer *l)
{
    (void)r, (void)i;
    if (l->ffn.experts > 0) l->norms++;
}

/* Ling 2.5: latent attention has a gate a head. */
static void bailing_adjust(reader *r)
{
    r->attention.gate_width = r->attention.heads;
}

/* A norm before the output and one before down (BitNet). */
static void bitnet_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) {
        config_extra(r, k, "attn_sub_norm", VRAM_PART_NORM, 1, r->model->hidden, 1, false);
        config_extra(r, k, "ffn_sub_norm", VRAM_PART_NORM, 1, r->width, 1, false);
    }
}

/* xIELU has two numbers a layer. */
static void apertus_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "act_fn", VRAM_PART_MLP, 2, 1, 1, false);
}

/* Four lambda vectors a layer. */
static void diffllama_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "lambda", VRAM_PART_ATTENTION, 4, r->attention.head_dim, 1, false);
}

/* A bias behind the experts (JetMoE); heads follow from the keys' heads and the experts a token takes. */
static void jetmoe_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->kv_heads = config_whole(r, "num_key_value_heads", 16, 1, CONFIG_COUNT);
    a->experts = r->sparse.experts;
    a->experts_per_token = r->sparse.experts_per_token;
    a->heads = a->kv_heads * a->experts_per_token;
}

static void jetmoe_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "bias", VRAM_PART_MLP, 1, r->model->hidden, 1, false);
}

/* Falcon: one key head with multi_query, as many as said in the new layout; one or two norms. */
static void falcon_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    bool renewed = config_flag(r, "new_decoder_architecture", false), one = config_flag(r, "multi_query", true);
    a->kv_heads = renewed ? config_whole(r, "num_kv_heads", a->heads, 1, a->heads) : one ? 1 : a->heads;
    if (config_flag(r, "alibi", false)) r->model->position = VRAM_POSITION_ALIBI;
}

static void falcon_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    bool renewed = config_flag(r, "new_decoder_architecture", false), parallel = config_flag(r, "parallel_attn", true);
    l->parallel = renewed || parallel;
    l->norms = !parallel || config_whole(r, "num_ln_in_parallel_attn", renewed ? 2 : 1, 0, 2) == 2 ? 2 : 1;
}

static void bigcode_adjust(reader *r)
{
    if (config_flag(r, "multi_query", true)) r->attention.kv_heads = 1;
}

static void neo_adjust(reader *r) { r->window = config_whole(r, "window_size", 256, 0, INT64_C(1) << 40); }

static void opt_adjust(reader *r)
{
    vram_model *m = r->model;
    m->position_rows = m->max_positions + 2;
    m->final_norm = config_flag(r, "do_layer_norm_before", true);
    int64_t width = config_whole(r, "word_embed_proj_dim", m->hidden, 1, CONFIG_WIDEST);
    m->embedding_width = width == m->hidden ? 0 : width;
}

/* Cohere 2 with experts: dense layers may have a width of their own. */
static void cohere2_moe_adjust(reader *r) { r->dense.width = config_whole(r, "prefix_dense_intermediate_size", r->width, 1, CONFIG_WIDEST); }

/* Helium: the output projection is square, whatever the heads. */
static void helium_adjust(reader *r) { r->attention.output = r->model->hidden; }

/* Hunyuan: numbers may be lists, one a layer; a shared MLP as wide as the dense one. */
static void hunyuan_adjust(reader *r) { r->sparse.shared_width = r->width; }

static void granite_shared_adjust(reader *r)
{
    r->dense.width = 0;
    r->dense.type = VRAM_FFN_NONE;
    int64_t shared = config_whole(r, "shared_intermediate_size", r->family->experts->shared_width, 0, CONFIG_WIDEST);
    if (r->sparse.experts == 0) { /* the shared MLP is all there is */
        r->dense.type = shared > 0 ? VRAM_FFN_GATED : VRAM_FFN_NONE;
        r->dense.shared_width = shared;
        r->dense.shared_fused = true;
    }
}

/* LFM2: two thirds of the width, times a multiplier, up to a multiple. */
static void lfm2_adjust(reader *r)
{
    int64_t width = config_whole(r, "block_ff_dim intermediate_size", 12288, 1, CONFIG_WIDEST);
    if (config_flag(r, "block_auto_adjust_ff_dim", true)) {
        int64_t step = config_whole(r, "block_multiple_of", 256, 1, CONFIG_WIDEST);
        width = 2 * width / 3;
        width = (int64_t)(config_real(r, "block_ffn_dim_multiplier", 1, 0.001, 1024) * (double)width);
        width = step * ((width + step - 1) / step);
    }
    r->dense.width = width;
    r->model->tied = config_flag(r, "tie_embedding", r->model->tied);
}

static void lfm2_moe_adjust(reader *r)
{
    r->model->tied = config_flag(r, "tie_embedding", r->model->tied);
    r->sparse.router_bias = config_flag(r, "use_expert_bias", true);
}

/* Llama 4: dense layers have a width of their own; q/k norms without weights. */
static void llama4_adjust(reader *r)
{
    r->dense.width = config_whole(r, "intermediate_size_mlp", 16384, 1, CONFIG_WIDEST);
    if (config_flag(r, "use_qk_norm", true)) r->attention.qk_norm = VRAM_QK_NORM_BARE;
}

/* LongCat: a block is two layers; the first has the experts beside its MLP. */
static void longcat_adjust(reader *r)
{
    r->model->layers *= 2;
    if (r->model->layers > VRAM_MAX_LAYERS) config_fail(r, VRAM_ERROR_RANGE, "num_layers", (double)r->model->layers / 2, 1, VRAM_MAX_LAYERS / 2);
}

static void longcat_special(reader *r, int64_t i, vram_layer *l)
{
    if (i % 2 == 0) {
        l->ffn = r->sparse;
        l->ffn.width = r->width;
    } else {
        l->ffn = r->dense;
    }
}

/* MiMo-V2: values are narrower; windows have key heads (and more) of their own, and sinks. */
static void mimo_adjust(reader *r) { r->attention.v_head_dim = config_whole(r, "v_head_dim", 128, 1, CONFIG_COUNT); }

static void mimo_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    vram_attention *a = &l->attention;
    if (a->window == 0) return;
    a->heads = config_whole(r, "swa_num_attention_heads", a->heads, 1, CONFIG_COUNT);
    a->kv_heads = config_whole(r, "swa_num_key_value_heads", 2 * a->kv_heads, 1, CONFIG_COUNT);
    a->head_dim = config_whole(r, "swa_head_dim", a->head_dim, 1, CONFIG_COUNT);
    a->v_head_dim = config_whole(r, "swa_v_head_dim", a->v_head_dim, 1, CONFIG_COUNT);
    a->sinks = true;
}

/* MiniMax-M3: dense layers have a width of their own; marked layers an indexer with keys of their own. */
static void m3_adjust(reader *r)
{
    r->dense.width = config_whole(r, "dense_intermediate_size", 12288, 1, CONFIG_WIDEST);
    r->dense.type = VRAM_FFN_GATED;
}

static void m3_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *marks = config_list(r, "sparse_attention_config.sparse_attention_freq", 0);
    const cJSON *item = cJSON_GetArrayItem(r->types ? r->types : marks, (int)i);
    bool marked = r->types ? cJSON_IsString(item) && strcmp(item->valuestring, "minimax_m3_sparse") == 0 : cJSON_IsNumber(item) && item->valuedouble > 0;
    if (!marked) return;
    l->attention.index_heads = config_whole(r, "sparse_attention_config.sparse_num_index_heads index_n_heads", 4, 1, CONFIG_COUNT);
    l->attention.index_head_dim = config_whole(r, "sparse_attention_config.sparse_index_dim index_head_dim", 128, 1, CONFIG_COUNT);
}

static void m3_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_attention *a = &r->model->kind[k].attention;
        if (a->index_heads == 0) continue;
        config_extra(r, k, "q_proj", VRAM_PART_ATTENTION, 1, a->index_heads * a->index_head_dim, r->model->hidden, true);
        config_extra(r, k, "k_proj", VRAM_PART_ATTENTION, 1, a->index_head_dim, r->model->hidden, true);
        config_extra(r, k, "q_norm", VRAM_PART_NORM, 2, a->index_head_dim, 1, false);
    }
}

/* V3.2, GLM-5: an indexer on every layer, or where indexer_types says full. */
static void dsa_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *types = config_list(r, "indexer_types", r->model->layers);
    const cJSON *item = types ? cJSON_GetArrayItem(types, (int)i) : NULL;
    const char *pattern = config_text(r, "index_topk_pattern");
    int64_t every = config_whole(r, "index_topk_freq", 1, 0, VRAM_MAX_LAYERS), offset = config_whole(r, "index_skip_topk_offset", 2, 0, VRAM_MAX_LAYERS);
    bool full = every < 2 || (i - offset + 1 > 0 ? i - offset + 1 : 0) % every == 0;
    if (*pattern) full = (size_t)i < strlen(pattern) && pattern[i] == 'F';
    if (item) full = cJSON_IsString(item) && strcmp(item->valuestring, "full") == 0;
    if (!full) return;
    l->attention.index_heads = config_whole(r, "index_n_heads", r->family->index_heads, 1, CONFIG_COUNT);
    l->attention.index_topk = config_whole(r, "index_topk", 2048, 1, 1 << 24);
    l->attention.index_head_dim = config_whole(r, "index_head_dim", 128, 1, CONFIG_COUNT);
}

/* DeepSeek-V4: one latent is key and value; every layer keeps a window, and most a compressed past. */
static void v4_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->q_lora_rank = config_whole(r, "q_lora_rank", 1024, 1, CONFIG_WIDEST);
    a->qk_rope_head_dim = config_whole(r, "qk_rope_head_dim", 64, 0, CONFIG_COUNT);
    a->o_groups = config_whole(r, "o_groups", 8, 1, CONFIG_COUNT);
    a->o_lora_rank = config_whole(r, "o_lora_rank", 1024, 1, CONFIG_WIDEST);
    a->one_cache = true;
    r->sparse.shared_width = r->sparse.expert_width; /* one, whatever their number */
}

static void v4_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    const cJSON *list = config_list(r, "compress_ratios", 0), *item = list ? cJSON_GetArrayItem(list, (int)i) : NULL;
    layer_type type = config_layer_type(r, i);
    a->window = r->window;
    if (type == LAYER_COMPRESSED) a->compress_ratio = config_whole(r, "compress_rates.compressed_sparse_attention compress_rate_csa", 4, 1, 1 << 20);
    if (type == LAYER_HEAVILY_COMPRESSED) a->compress_ratio = config_whole(r, "compress_rates.heavily_compressed_attention compress_rate_hca", 128, 1, 1 << 20);
    if (!r->types && cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= 1 << 20) a->compress_ratio = (int64_t)item->valuedouble;
    if (type == LAYER_COMPRESSED) {
        a->index_heads = config_whole(r, "index_n_heads", 64, 1, CONFIG_COUNT);
        a->index_head_dim = config_whole(r, "index_head_dim", 128, 1, CONFIG_COUNT);
    }
    const cJSON *kinds = config_list(r, "mlp_layer_types", 0);
    const cJSON *kind = kinds ? cJSON_GetArrayItem(kinds, (int)i) : NULL;
    bool hashed = kind ? cJSON_IsString(kind) && strcmp(kind->valuestring, "hash_moe") == 0 : i < config_whole(r, "num_hash_layers", 3, 0, VRAM_MAX_LAYERS);
    if (hashed) l->ffn.router_bias = false;
}

/* Compressors, their indexers, and hyper-connections of hc_mult streams. Source: modeling_deepseek_v4.py */
static void v4_paths(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, n = config_whole(r, "hc_mult", 4, 1, 1024), mixes = (2 + n) * n;
    for (int k = 0; k < m->kinds; k++) {
        const vram_attention *a = &m->kind[k].attention;
        int64_t twice = a->index_heads > 0 ? 2 : 1, d = a->head_dim, q = a->index_head_dim;
        config_extra(r, k, "fn", VRAM_PART_OTHER, 2, mixes, n * h, false);
        config_extra(r, k, "base", VRAM_PART_OTHER, 2, mixes + 3, 1, false); /* base and scale */
        if (a->compress_ratio == 0) continue;
        config_extra(r, k, "position_bias", VRAM_PART_ATTENTION, 1, a->compress_ratio, twice * d, false);
        config_extra(r, k, "kv_proj", VRAM_PART_ATTENTION, 1, twice * d, h, true);
        config_extra(r, k, "gate_proj", VRAM_PART_ATTENTION, 1, twice * d, h, true);
        config_extra(r, k, "kv_norm", VRAM_PART_NORM, 1, d, 1, false);
        if (a->index_heads == 0) continue;
        config_extra(r, k, "position_bias", VRAM_PART_ATTENTION, 1, a->compress_ratio, 2 * q, false);
        config_extra(r, k, "kv_proj", VRAM_PART_ATTENTION, 1, 2 * q, h, true);
        config_extra(r, k, "gate_proj", VRAM_PART_ATTENTION, 1, 2 * q, h, true);
        config_extra(r, k, "kv_norm", VRAM_PART_NORM, 1, q, 1, false);
        config_extra(r, k, "q_b_proj", VRAM_PART_ATTENTION, 1, a->index_heads * q, a->q_lora_rank, true);
        config_extra(r, k, "weights_proj", VRAM_PART_ATTENTION, 1, a->index_heads, h, true);
    }
    config_extra(r, -1, "hc_fn", VRAM_PART_OTHER, 1, n, n * h, false);
    config_extra(r, -1, "hc_base", VRAM_PART_OTHER, 1, n + 1, 1, false);
}

/* Nemotron-H: a layer is one thing alone, behind one norm. */
static void nemotron_h_adjust(reader *r)
{
    const char *letters = config_text(r, "hybrid_override_pattern");
    const cJSON *list = config_list(r, "layers_block_type layer_types", 0);
    size_t n = list ? (size_t)cJSON_GetArraySize(list) : strlen(letters);
    if (n > VRAM_MAX_LAYERS) config_fail(r, VRAM_ERROR_RANGE, "hybrid_override_pattern", (double)n, 1, VRAM_MAX_LAYERS);
    r->model->layers = n > 0 ? (int64_t)n : 4;
    r->sparse.latent_width = config_whole(r, "moe_latent_size", 0, 0, CONFIG_WIDEST);
}

static void nemotron_h_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_ffn none;
    layer_type type = config_layer_type(r, i);
    l->ffn = type == LAYER_MOE ? r->sparse : type == LAYER_MLP ? r->dense : none;
}

/* RecurrentGemma: the MLP is half of intermediate_size. */
static void griffin_adjust(reader *r)
{
    r->window = config_whole(r, "attention_window_size", 2048, 1, INT64_C(1) << 40);
    r->dense.width = r->width / 2;
}

/* Zamba: one block of attention and MLP for all hybrid layers, over the layer's input and the embeddings side by side. */
static int64_t hybrids(reader *r)
{
    int64_t n = 0;
    const cJSON *types = config_list(r, "layers_block_type layer_types", r->model->layers);
    r->types = types;
    for (int64_t i = 0; i < r->model->layers && !r->failed; i++) n += config_layer_type(r, i) == LAYER_BOTH;
    return n;
}

static void zamba_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->input = config_whole(r, "attention_hidden_size", 2 * r->model->hidden, 1, CONFIG_WIDEST);
    a->head_dim = config_whole(r, "attention_head_dim", 2 * r->model->hidden / a->heads, 1, CONFIG_WIDEST);
    a->v_head_dim = a->head_dim;
}

static void zamba_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_ffn none;
    bool hybrid = config_layer_type(r, i) == LAYER_BOTH;
    if (!hybrid) l->ffn = none;
    else if (r->model->tied) l->shared_blocks = 1; /* the class ties everything or nothing */
}

static void zamba_paths(reader *r)
{
    int64_t h = r->model->hidden;
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_layer *l = &r->model->kind[k];
        if (l->attention.type == VRAM_MIXER_NONE) continue;
        config_extra(r, k, "linear", VRAM_PART_OTHER, 1, h, h, true);
        config_extra(r, k, "shared_norm", VRAM_PART_NORM, 1, l->attention.input + h, 1, false)->layers = l->shared_blocks;
    }
}

static void zamba2_special(reader *r, int64_t i, vram_layer *l)
{
    zamba_special(r, i, l);
    int64_t sets = config_whole(r, "num_mem_blocks", 1, 1, VRAM_MAX_LAYERS), uses = l->shared_blocks ? hybrids(r) : 0;
    if (l->shared_blocks) l->shared_blocks = sets < uses ? sets : uses;
}

/* Zamba 2: each use of a shared block has low-rank side paths of its own; a block holds those of all its uses, so that the
 * modules are counted once for each layer and use of its block. */
static void zamba2_path(reader *r, int kind, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns)
{
    const cJSON *ids = config_list(r, "hybrid_layer_ids", 0);
    int64_t layers = hybrids(r), uses = ids ? cJSON_GetArraySize(ids) : layers, sets = config_whole(r, "num_mem_blocks", 1, 1, VRAM_MAX_LAYERS), modules = 0, stored = 0;
    for (int64_t i = 0; i < layers; i++) {
        int64_t here = (uses - i % sets + sets - 1) / sets; /* uses u with u % sets == i % sets */
        modules += here;
        if (i < sets || !r->model->tied) stored += here;
    }
    vram_tensor *tensor = config_extra(r, kind, name, part, copies, rows, columns, true);
    tensor->layers = stored;
    tensor->modules = modules * copies;
}

static void zamba2_paths(reader *r)
{
    int64_t h = r->model->hidden, rank = config_whole(r, "adapter_rank", 128, 1, CONFIG_WIDEST);
    bool attention = config_flag(r, "use_shared_attention_adapter", false);
    zamba_paths(r);
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_layer *l = &r->model->kind[k];
        if (l->attention.type == VRAM_MIXER_NONE) continue;
        zamba2_path(r, k, "0", VRAM_PART_MLP, 1, rank, h);
        zamba2_path(r, k, "1", VRAM_PART_MLP, 1, 2 * r->width, rank);
        if (!attention) continue;
        zamba2_path(r, k, "0", VRAM_PART_ATTENTION, 3, rank, l->attention.input);
        zamba2_path(r, k, "1", VRAM_PART_ATTENTION, 3, l->attention.input, rank);
    }
}

/* ------------------------------------------------------------------------------------------------- Gemma 3n and 4 -- */

/* The last so many layers read the cache of an earlier one. */
static void share_cache(reader *r, int64_t i, vram_layer *l, int64_t standard)
{
    int64_t shared = config_whole(r, "num_kv_shared_layers", standard, 0, r->model->layers);
    l->attention.shares_cache = i >= r->model->layers - shared;
}

static void gemma3n_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *list = config_find(r, "intermediate_size");
    share_cache(r, i, l, 15);
    if (cJSON_IsArray(list)) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);
        l->ffn.width = config_number(r, item, "intermediate_size", 1, CONFIG_WIDEST);
    } else {
        l->ffn.width = config_whole(r, "intermediate_size", 16384, 1, CONFIG_WIDEST);
    }
    l->ffn.type = VRAM_FFN_GATED;
}

/* A table of numbers per token and layer, and the way of it into each layer. */
static void per_layer_inputs(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, p = config_whole(r, "hidden_size_per_layer_input", 256, 0, CONFIG_WIDEST);
    int64_t words = config_whole(r, "vocab_size_per_layer_input", 262144, 1, 1 << 24);
    if (p == 0) return;
    config_extra(r, -1, "embed_tokens_per_layer", VRAM_PART_EMBEDDING, 1, words, m->layers * p, false)->shard = VRAM_SHARD_VOCABULARY;
    config_extra(r, -1, "per_layer_model_projection", VRAM_PART_OTHER, 1, m->layers * p, h, true);
    config_extra(r, -1, "per_layer_projection_norm", VRAM_PART_NORM, 1, p, 1, false);
    for (int k = 0; k < m->kinds; k++) {
        config_extra(r, k, "per_layer_input_gate", VRAM_PART_OTHER, 1, p, h, true);
        config_extra(r, k, "per_layer_projection", VRAM_PART_OTHER, 1, h, p, true);
        config_extra(r, k, "post_per_layer_input_norm", VRAM_PART_NORM, 1, h, 1, false);
    }
}

/* AltUp carries several streams, LAuReL is a low-rank path beside the residual. Source: modeling_gemma3n.py */
static void gemma3n_paths(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, n = config_whole(r, "altup_num_inputs", 4, 1, 16), rank = config_whole(r, "laurel_rank", 64, 1, CONFIG_WIDEST);
    per_layer_inputs(r);
    for (int64_t i = 0; i < n - 1; i++) { /* modules of a list are called by their number: altup_projections.0, altup_unembed_projections.0 */
        const char name[3] = {i < 10 ? (char)('0' + i) : '1', i < 10 ? '\0' : (char)('0' + i - 10), '\0'};
        config_extra(r, -1, name, VRAM_PART_OTHER, 2, h, h, true);
    }
    for (int k = 0; k < m->kinds; k++) {
        config_extra(r, k, "correct_output_scale", VRAM_PART_OTHER, 1, h, 1, false);
        config_extra(r, k, "correction_coefs", VRAM_PART_OTHER, 1, n, n, true);
        config_extra(r, k, "prediction_coefs", VRAM_PART_OTHER, 1, n * n, n, true);
        config_extra(r, k, "modality_router", VRAM_PART_OTHER, 1, n, h, true);
        config_extra(r, k, "router_norm", VRAM_PART_NORM, 2, h, 1, false); /* and post_laurel_norm */
        config_extra(r, k, "linear_left", VRAM_PART_OTHER, 1, rank, h, true);
        config_extra(r, k, "linear_right", VRAM_PART_OTHER, 1, h, rank, true);
    }
}

static void gemma4_adjust(reader *r)
{
    if (!config_flag(r, "enable_moe_block", false)) r->sparse.experts = 0;
    r->sparse.width = r->width;
}

/* Full layers have heads of another size, perhaps other key heads, perhaps no v_proj; the last layer is always full. */
static void gemma4_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    bool last = i == r->model->layers - 1, one = config_flag(r, "attention_k_eq_v", false);
    if (last) a->window = 0;
    bool full = last || config_layer_type(r, i) == LAYER_FULL;
    share_cache(r, i, l, 0);
    if (full) {
        a->head_dim = a->v_head_dim = config_whole(r, "global_head_dim", 512, 1, CONFIG_COUNT);
        if (one) a->kv_heads = config_whole(r, "num_global_key_value_heads", a->kv_heads, 1, a->heads);
        a->k_is_v = one;
    }
    if (a->shares_cache && config_flag(r, "use_double_wide_mlp", false)) l->ffn.width *= 2;
    if (l->ffn.experts > 0) l->norms += 3;
}

static void gemma4_paths(reader *r)
{
    per_layer_inputs(r);
    for (int k = 0; k < r->model->kinds; k++) {
        config_extra(r, k, "layer_scalar", VRAM_PART_OTHER, 1, 1, 1, false)->buffer = true;
        if (r->model->kind[k].ffn.experts == 0) continue;
        config_extra(r, k, "scale", VRAM_PART_ROUTER, 1, r->model->hidden, 1, false);
        config_extra(r, k, "per_expert_scale", VRAM_PART_ROUTER, 1, r->sparse.experts, 1, false);
    }
}

/* --------------------------------------------------------------------------------------- types without a class -- */

static void chatglm_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    if (config_flag(r, "multi_query_attention", false)) a->kv_heads = config_whole(r, "multi_query_group_num", 1, 1, a->heads);
}

/* The first Qwen: an MLP of two halves. */
static void qwen_adjust(reader *r) { r->dense.width = r->width / 2; }

/* Is the layer one of "3,4,5"? */
static bool enumerated(const char *numbers, int64_t layer)
{
    for (const char *c = numbers; *c;) {
        int64_t n = 0;
        while (*c && (*c < '0' || *c > '9')) c++;
        if (!*c) return false;
        for (; *c >= '0' && *c <= '9'; c++) n = n < 1000000 ? 10 * n + (*c - '0') : n;
        if (n == layer) return true;
    }
    return false;
}

/* Step 3.5: windows have heads of their own; a gate a head; layers with experts are enumerated in a text. */
static void step_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    const char *sparse = config_text(r, "moe_layers_enum");
    if (a->window > 0) {
        a->heads = config_whole(r, "attention_other_setting.num_attention_heads swa_num_attention_heads", a->heads, 1, CONFIG_COUNT);
        a->kv_heads = config_whole(r, "attention_other_setting.num_attention_groups swa_num_key_value_heads", a->kv_heads, 1, a->heads);
    }
    a->gate_width = config_flag(r, "use_head_wise_attn_gate", true) ? a->heads : 0;
    if (*sparse) l->ffn = enumerated(sparse, i) ? r->sparse : r->dense;
}

/* Arctic: a small dense MLP beside the experts, behind a norm of its own. */
static void arctic_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    if (l->ffn.experts == 0 || !config_flag(r, "use_residual", true)) return;
    l->ffn.width = r->model->hidden;
    l->norms++;
}

/* Nemotron NAS: a layer may have no attention, or be without an MLP; each has a width of its own. */
static void nas_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_attention no_attention;
    static const vram_ffn no_ffn;
    const cJSON *blocks = config_list(r, "block_configs", r->model->layers), *block = blocks ? cJSON_GetArrayItem(blocks, (int)i) : NULL;
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(block, "attention"), *ffn = cJSON_GetObjectItemCaseSensitive(block, "ffn");
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(attention, "n_heads_in_group"), *mult = cJSON_GetObjectItemCaseSensitive(ffn, "ffn_mult");
    if (!block) return;
    if (cJSON_IsNumber(group) && group->valuedouble >= 1 && group->valuedouble <= (double)l->attention.heads) {
        l->attention.kv_heads = l->attention.heads / (int64_t)group->valuedouble;
    } else {
        l->attention = no_attention;
        l->linear_attention = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(attention, "replace_with_linear"));
        if (!l->linear_attention) l->norms--;
    }
    if (cJSON_IsNumber(mult) && mult->valuedouble > 0 && mult->valuedouble < 1024) {
        l->ffn.width = ((int64_t)(2 * mult->valuedouble * (double)r->model->hidden / 3) + 255) / 256 * 256;
        l->ffn.type = VRAM_FFN_GATED;
    } else {
        l->ffn = no_ffn;
        l->linear_ffn = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ffn, "replace_with_linear"));
        if (!l->linear_ffn) l->norms--;
    }
}

/* Rules of thumb: heads of 128, an MLP of 8/3 hidden up to a multiple of 256 (Llama's), width and depth from the number of
 * parameters when they are not given: 12 h^2 L of them, h = 128 L. */
static void thumb_adjust(reader *r)
{
    vram_model *m = r->model;
    double params = config_real(r, "params", 7e9, 1, 1e15);
    bool wide = config_find(r, "hidden_size") != NULL, deep = config_find(r, "num_hidden_layers") != NULL;
    if (!wide && !deep) {
        m->layers = 1;
        while (m->layers < VRAM_MAX_LAYERS && 196608.0 * (double)((m->layers + 1) * (m->layers + 1) * (m->layers + 1)) <= params) m->layers++;
    }
    if (!wide) m->hidden = 128 * m->layers;
    if (!deep && wide) m->layers = m->hidden < 128 ? 1 : m->hidden / 128 < VRAM_MAX_LAYERS ? m->hidden / 128 : VRAM_MAX_LAYERS;
    int64_t heads = config_whole(r, "num_attention_heads", m->hidden >= 128 ? m->hidden / 128 : 1, 1, CONFIG_COUNT);
    vram_attention *a = &r->attention;
    a->type = VRAM_MIXER_SOFTMAX;
    a->heads = heads;
    a->kv_heads = config_whole(r, "num_key_value_heads", heads, 1, heads);
    a->head_dim = a->v_head_dim = config_whole(r, "head_dim", m->hidden / heads, 1, CONFIG_COUNT);
    r->dense.type = VRAM_FFN_GATED;
    r->dense.width = config_whole(r, "intermediate_size", (8 * m->hidden / 3 + 255) / 256 * 256, 1, CONFIG_WIDEST);
    if (r->sparse.experts > 0) r->sparse.expert_width = config_whole(r, "moe_intermediate_size", r->dense.width, 1, CONFIG_WIDEST);
}

/* Megatron's arguments. */
static void megatron_adjust(reader *r)
{
    const char *positions = config_text(r, "position_embedding_type");
    bool learned = *positions == '\0' || strcmp(positions, "absolute") == 0 || strcmp(positions, "learned_absolute") == 0;
    r->model->position = learned ? VRAM_POSITION_LEARNED : strcmp(positions, "none") == 0 ? VRAM_POSITION_NONE : VRAM_POSITION_ROTARY;
    r->dense.type = r->sparse.type = config_flag(r, "mlp_gated", false) ? VRAM_FFN_GATED : VRAM_FFN_PLAIN;
    r->dense.fused_gate_up = r->dense.type == VRAM_FFN_GATED;
    r->model->norm = config_flag(r, "norm_bias", true) ? VRAM_NORM_LAYER_BIAS : VRAM_NORM_RMS;
    r->sparse.expert_bias = r->dense.bias;
}

/* --------------------------------------------------------------------------------------------------------- the table -- */

#define S(hidden, width, layers, heads, kv_heads, head_dim, vocab, positions) hidden, width, layers, heads, kv_heads, head_dim, vocab, positions
#define ATTENTION_BIAS {"attention_bias", false, ON_QKVO}
#define LATENT_BIAS {"attention_bias", false, ON_Q | ON_K | ON_O}
#define MLP_BIAS {"mlp_bias", false, ON_MLP}
#define ALWAYS(what) {"", true, what}
#define RMS .norm = VRAM_NORM_RMS
#define LAYER_NORM .norm = VRAM_NORM_LAYER_BIAS
#define EVERY(n, keys_, other_) .pattern = every_nth, .period = n, .period_keys = keys_, .other = other_

static const family_keys gpt_keys = {.hidden = "n_embd hidden_size", .width = "n_inner intermediate_size", .layers = "n_layer num_hidden_layers", .heads = "n_head num_attention_heads", .positions = "n_positions max_position_embeddings"};
static const family_keys mpt_keys = {.hidden = "d_model hidden_size", .width = "", .layers = "n_layers num_hidden_layers", .heads = "n_heads num_attention_heads", .positions = "max_seq_len"};
static const family_keys dbrx_keys = {.hidden = "d_model hidden_size", .width = "", .layers = "n_layers num_hidden_layers", .heads = "n_heads num_attention_heads", .kv_heads = "attn_config.kv_n_heads", .positions = "max_seq_len max_position_embeddings"};
static const family_keys bloom_keys = {.hidden = "hidden_size n_embed", .width = "", .layers = "n_layer num_hidden_layers", .heads = "n_head num_attention_heads", .positions = "seq_length"};
static const family_keys falcon_keys = {.hidden = "n_embed hidden_size", .width = "ffn_hidden_size", .layers = "num_hidden_layers n_layer", .heads = "num_attention_heads n_head"};
static const family_keys neo_keys = {.layers = "num_layers num_hidden_layers", .heads = "num_heads num_attention_heads"};
static const family_keys opt_keys = {.width = "ffn_dim"};
static const family_keys long_keys = {.positions = "model_max_length max_position_embeddings"};
static const family_keys longcat_keys = {.layers = "num_layers", .width = "ffn_hidden_size intermediate_size"};
static const family_keys glm_keys = {.layers = "num_layers num_hidden_layers", .width = "ffn_hidden_size", .vocab = "padded_vocab_size vocab_size", .head_dim = "kv_channels", .positions = "seq_length"};
static const family_keys mamba_keys = {.width = ""};
static const family_keys v4_keys = {.width = ""};
static const family_keys jetmoe_keys = {.head_dim = "kv_channels head_dim", .heads = "", .kv_heads = ""};
static const family_keys zamba_keys = {.head_dim = "attention_head_dim"};
static const family_keys step_keys = {.kv_heads = "num_attention_groups num_key_value_heads"};
static const family_keys griffin_keys = {.positions = ""};

static const family_latent v3_latent = {1536, 512, 128, 64, 128}, v2_latent = {1536, 512, 128, 64, 128}, glm_flash_latent = {768, 512, 192, 64, 256}, glm5_latent = {2048, 512, 192, 64, 256},
    minicpm3_latent = {768, 256, 64, 32, 0}, mistral4_latent = {1024, 256, 64, 64, 128}, kimi_latent = {0, 512, 128, 64, 128};

#define EXPERTS(number, chosen) .experts = number, .per_token = chosen
#define WIDE_AS_MLP .width_keys = ""
#define SHARED_WIDTH(keys, standard) .shared_keys = keys, .shared_width = standard
#define AFTER(n) .rule = SPARSE_AFTER_FIRST, .first = n

static const family_experts
    mixtral_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    olmoe_experts = {EXPERTS(64, 8), WIDE_AS_MLP},
    flex_olmo_experts = {EXPERTS(7, 5), WIDE_AS_MLP},
    gpt_oss_experts = {EXPERTS(128, 4), WIDE_AS_MLP},
    phimoe_experts = {EXPERTS(16, 2), WIDE_AS_MLP},
    minimax_m2_experts = {EXPERTS(256, 8), WIDE_AS_MLP},
    m3_experts = {EXPERTS(128, 4), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 3072)},
    hunyuan_experts = {EXPERTS(1, 1), WIDE_AS_MLP},
    granite_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    granite_shared_experts = {EXPERTS(8, 2), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 0)},
    granite_hybrid_experts = {EXPERTS(8, 2), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 1024)},
    jetmoe_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    dbrx_experts = {EXPERTS(4, 1), .width_keys = "ffn_config.ffn_hidden_size", .width = 3584},
    jamba_experts = {EXPERTS(16, 2), WIDE_AS_MLP, .rule = SPARSE_PERIOD},
    qwen2_experts = {EXPERTS(60, 4), .width = 1408, SHARED_WIDTH("shared_expert_intermediate_size", 5632), .rule = SPARSE_STEP},
    qwen3_experts = {EXPERTS(128, 8), .width = 768, .rule = SPARSE_STEP},
    qwen3_next_experts = {EXPERTS(512, 10), .width = 512, SHARED_WIDTH("shared_expert_intermediate_size", 512), .rule = SPARSE_STEP},
    qwen3_5_experts = {EXPERTS(256, 8), .width = 512, SHARED_WIDTH("shared_expert_intermediate_size", 512)},
    v2_experts = {EXPERTS(64, 6), .width = 1407, .shared = 2, AFTER(0)},
    v3_experts = {EXPERTS(256, 8), .width = 2048, .shared = 1, AFTER(3)},
    v4_experts = {EXPERTS(256, 6), .width = 2048, .shared = 1},
    axk1_experts = {EXPERTS(192, 8), .width = 2048, .shared = 1, AFTER(1)},
    bailing_experts = {EXPERTS(512, 8), .width = 768, .shared = 1, AFTER(2)},
    kimi_experts = {EXPERTS(256, 8), .width = 1024, .shared = 1, AFTER(1)},
    dots1_experts = {EXPERTS(0, 8), .width = 1408, AFTER(0)},
    afmoe_experts = {EXPERTS(64, 6), .width = 1408, .shared = 2, AFTER(1), .first_keys = "num_dense_layers"},
    cohere2_experts = {EXPERTS(8, 2), WIDE_AS_MLP, AFTER(0)},
    ernie_experts = {EXPERTS(64, 6), .width = 1536, .shared = 2, .rule = SPARSE_RANGE},
    exaone_experts = {EXPERTS(64, 8), .width = 1024, .shared = 1, AFTER(1)},
    glm4_experts = {EXPERTS(128, 8), .width = 1408, .shared = 1, AFTER(1)},
    glm_flash_experts = {EXPERTS(64, 4), .width = 1536, .shared = 1, AFTER(1), .first_keys = ""},
    glm5_experts = {EXPERTS(256, 8), .width = 2048, .shared = 1, AFTER(3)},
    hy_v3_experts = {EXPERTS(192, 8), .width = 1536, .shared = 1, AFTER(1), .first_keys = ""},
    lfm2_experts = {EXPERTS(32, 4), .width = 1792, AFTER(2), .first_keys = "num_dense_layers"},
    llama4_experts = {EXPERTS(16, 1), WIDE_AS_MLP, .shared = 1, .rule = SPARSE_INTERLEAVED},
    longcat_experts = {EXPERTS(512, 12), .width_keys = "expert_ffn_hidden_size moe_intermediate_size", .width = 2048, .zero_keys = "zero_expert_num", .zero = 256},
    mimo_experts = {EXPERTS(256, 8), .width = 2048, AFTER(1)},
    mistral4_experts = {EXPERTS(128, 4), .width = 2048, .shared = 1, AFTER(0)},
    nemotron_h_experts = {EXPERTS(8, 2), .width = 7688, .shared = 1, SHARED_WIDTH("moe_shared_expert_intermediate_size", 7688)},
    solar_experts = {EXPERTS(128, 8), .width = 1280, .shared = 1},
    gemma4_experts = {EXPERTS(0, 8)},
    deepseek_experts = {EXPERTS(64, 6), .width = 1408, .shared = 2, AFTER(1)},
    ling_experts = {EXPERTS(64, 6), .width = 1408, AFTER(0)},
    ling2_experts = {EXPERTS(256, 8), .width = 512, .shared = 1, AFTER(1)},
    step_experts = {EXPERTS(288, 8), .width = 1280, SHARED_WIDTH("share_expert_dim", 1280), AFTER(1)},
    arctic_experts = {EXPERTS(128, 2), WIDE_AS_MLP, .rule = SPARSE_STEP},
    megatron_experts = {EXPERTS(0, 1), .width_keys = "moe_intermediate_size moe_ffn_hidden_size"};

static const family families[] = {
    {"llama", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), RMS, .norms = 2, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"rule of thumb", S(4096, 11008, 32, 0, 0, 0, 32000, 0), RMS, .norms = 2, .experts = &megatron_experts, .adjust = thumb_adjust},
    {"megatron", S(1024, -4, 24, 16, 0, 0, 50304, 1024), IS_TIED | IS_FUSED_QKV, .norms = 2, .names = {.qkv = "linear_qkv", .o = "linear_proj", .up = "linear_fc1", .gate_up = "linear_fc1", .down = "linear_fc2"}, .experts = &megatron_experts, .adjust = megatron_adjust, .switches = {{"attention_bias", true, ON_QKVO}, {"mlp_bias", true, ON_MLP}}},

    {"afmoe", S(2048, 6144, 32, 16, 0, 128, 200192, 16384), HAS_ROUTER_BIAS | HAS_LINEAR_ROUTER | HAS_NORMS_AFTER | IS_STACKED_AS_GATE, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &afmoe_experts, .window = 1024,
     EVERY(4, "global_attn_every_n_layers", LAYER_SLIDING), .adjust = afmoe_adjust, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"apertus", S(4096, 14336, 32, 32, 0, 0, 131072, 65536), IS_PLAIN, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .side_paths = apertus_paths, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"arcee", S(2560, 18432, 32, 32, 0, 0, 32000, 4096), IS_PLAIN, RMS, .norms = 2, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"axk1", S(7168, 18432, 61, 64, 0, 0, 163840, 32768), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .latent = &v3_latent, .experts = &axk1_experts, .special = axk1_special, .switches = {LATENT_BIAS}},
    {"bailing_hybrid", S(2560, 6144, 42, 32, 32, 0, 157184, 262144), NEVER_TIED | HAS_ROUTER_BIAS_BUFFER, &long_keys, RMS, .norms = 2, .latent = &kimi_latent, .experts = &bailing_experts, .state = bailing_state,
     EVERY(6, "layer_group_size", LAYER_STATE), .adjust = bailing_adjust, .names = {.attention_gate = "g_proj"}, .switches = {LATENT_BIAS}},
    {"bamba", S(4096, 14336, 32, 32, 8, 0, 128000, 262144), IGNORES_HEAD_DIM, RMS, .norms = 2, .state = bamba_state, .pattern = bamba_pattern,
     .switches = {ATTENTION_BIAS, MLP_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}}},
    {"bitnet", S(2560, 6912, 30, 20, 5, 0, 128256, 2048), 0, RMS, .norms = 2, .side_paths = bitnet_paths, .switches = {ATTENTION_BIAS}},
    {"bloom", S(64, -4, 2, 8, 0, 0, 250880, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY | HAS_EMBEDDING_NORM, &bloom_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_ALIBI,
     .names = {.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = {ALWAYS(ON_QKVO | ON_MLP)}},
    {"codegen", S(4096, -4, 28, 16, 0, 0, 50400, 2048), IS_PLAIN | IS_FUSED_QKV | IS_PARALLEL | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 1,
     .names = {.o = "out_proj", .up = "fc_in", .down = "fc_out"}, .switches = {ALWAYS(ON_MLP | ON_HEAD_BIAS)}},
    {"cohere", S(8192, 22528, 40, 64, 0, 0, 256000, 8192), IS_TIED | IS_PARALLEL, .norm = VRAM_NORM_LAYER, .norms = 1, .qk_norm = VRAM_QK_NORM_PER_HEAD, .switches = {ATTENTION_BIAS, {"use_qk_norm", false, ON_QK_NORM}}},
    {"cohere2", S(8192, 22528, 40, 64, 0, 0, 256000, 8192), IS_TIED | IS_PARALLEL, .norm = VRAM_NORM_LAYER, .norms = 1, .window = 4096, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = {ATTENTION_BIAS}},
    {"cohere2_moe", S(8192, 22528, 40, 64, 0, 128, 256000, 8192), IS_TIED | IS_PARALLEL | IS_STACKED_AS_GATE, .norm = VRAM_NORM_LAYER, .norms = 1, .window = 4096, .experts = &cohere2_experts, .pattern = cohere2_moe_pattern, .adjust = cohere2_moe_adjust, .switches = {ATTENTION_BIAS}},
    {"cwm", S(6144, 21504, 64, 48, 8, 128, 128256, 131072), 0, RMS, .norms = 2, .window = 8192, .pattern = first_of_four, .switches = {MLP_BIAS}},
    {"dbrx", S(2048, 0, 24, 16, 1, 0, 32000, 2048), NEVER_TIED | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_LINEAR_ROUTER, &dbrx_keys, .norm = VRAM_NORM_LAYER, .norms = 2, .experts = &dbrx_experts, .names = {.qkv = "Wqkv", .o = "out_proj", .router = "layer"}},
    {"deepseek_v2", S(4096, 11008, 32, 32, 0, 0, 102400, 2048), IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v2_latent, .experts = &v2_experts, .switches = {LATENT_BIAS, MLP_BIAS}},
    {"deepseek_v3", S(7168, 18432, 61, 128, 0, 0, 129280, 4096), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v3_latent, .experts = &v3_experts, .switches = {LATENT_BIAS}},
    {"deepseek_v32", S(7168, 18432, 61, 128, 0, 0, 129280, 163840), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v3_latent, .experts = &v3_experts, .special = dsa_special, .index_heads = 64, .switches = {LATENT_BIAS}},
    {"deepseek_v4", S(4096, 0, 43, 64, 1, 512, 129280, 1048576), HAS_ROUTER_BIAS_BUFFER | HAS_SINKS, &v4_keys, RMS, .norms = 2, .window = 128, .experts = &v4_experts, .pattern = v4_pattern, .adjust = v4_adjust, .special = v4_special, .side_paths = v4_paths, .switches = {MLP_BIAS}},
    {"diffllama", S(2048, 8192, 16, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .side_paths = diffllama_paths, .switches = {ATTENTION_BIAS}},
    {"dots1", S(4608, 10944, 62, 32, 0, 0, 152064, 2048), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &dots1_experts, .window = 4096, .pattern = late_windows, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"ernie4_5", S(1024, 3072, 18, 16, 2, 128, 103424, 131072), IS_TIED, RMS, .norms = 2, .switches = {{"use_bias", false, ON_QKVO | ON_MLP}}},
    {"ernie4_5_moe", S(2560, 12288, 28, 20, 4, 0, 103424, 131072), IS_TIED | HAS_ROUTER_BIAS | IS_STACKED_AS_GATE, RMS, .norms = 2, .experts = &ernie_experts, .switches = {{"use_bias", false, ON_QKVO | ON_MLP | ON_HEAD_BIAS}}},
    {"exaone4", S(4096, 16384, 32, 32, 0, 0, 102400, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = {ALWAYS(ON_QK_NORM)}},
    {"exaone_moe", S(4096, 16384, 32, 32, 0, 0, 102400, 2048), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .experts = &exaone_experts, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = {ALWAYS(ON_QK_NORM)}},
    {"falcon", S(4544, -4, 32, 71, 0, 0, 65024, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &falcon_keys, LAYER_NORM, .norms = 1, .adjust = falcon_adjust, .special = falcon_special,
     .names = {.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = {{"bias", false, ON_QKVO | ON_MLP}}},
    {"falcon_h1", S(4096, 14336, 32, 32, 8, 0, 128000, 8192), 0, RMS, .norms = 2, .state = falcon_h1_state, .pattern = all_both,
     .switches = {ATTENTION_BIAS, MLP_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN}, {"projectors_bias", false, ON_STATE_OUT}, {"mamba_rms_norm", false, ON_STATE_NORM}}},
    {"falcon_mamba", S(768, 0, 32, 0, 0, 0, 50280, 0), IS_TIED, &mamba_keys, RMS, .norms = 1, .state = mamba1_state, .pattern = all_state, .switches = {{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}}},
    {"flex_olmo", S(4096, 11008, 32, 32, 0, 0, 100352, 4096), HAS_NORMS_AFTER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &flex_olmo_experts, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"gemma", S(3072, 24576, 28, 16, 16, 256, 256000, 8192), IS_TIED, RMS, .norms = 2, .switches = {ATTENTION_BIAS}},
    {"gemma2", S(2304, 9216, 26, 8, 4, 256, 256000, 8192), IS_TIED | HAS_NORMS_AFTER, RMS, .norms = 4, .window = 4096, EVERY(2, "", LAYER_SLIDING), .switches = {ATTENTION_BIAS}},
    {"gemma3_text", S(2304, 9216, 26, 8, 4, 256, 262208, 131072), IS_TIED | HAS_NORMS_AFTER, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, EVERY(6, "sliding_window_pattern _sliding_window_pattern", LAYER_SLIDING), .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"gemma3n_text", S(2048, 0, 35, 8, 2, 256, 262400, 32768), IS_TIED | HAS_NORMS_AFTER, &mamba_keys, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, EVERY(5, "", LAYER_SLIDING), .special = gemma3n_special, .side_paths = gemma3n_paths, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"gemma4_text", S(2304, 9216, 30, 8, 4, 256, 262144, 131072), IS_TIED | HAS_NORMS_AFTER | HAS_LINEAR_ROUTER, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, .experts = &gemma4_experts, EVERY(6, "", LAYER_SLIDING), .adjust = gemma4_adjust, .special = gemma4_special, .side_paths = gemma4_paths,
     .names = {.router = "proj"}, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"glm", S(4096, 13696, 40, 32, 2, 128, 151552, 131072), IS_FUSED_GATE_UP, RMS, .norms = 2, .switches = {{"attention_bias", true, ON_QKV}}},
    {"glm4", S(4096, 13696, 40, 32, 2, 128, 151552, 131072), IS_FUSED_GATE_UP | HAS_NORMS_AFTER, RMS, .norms = 4, .switches = {{"attention_bias", true, ON_QKV}}},
    {"glm4_moe", S(4096, 10944, 46, 96, 8, 0, 151552, 131072), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &glm4_experts, .switches = {{"attention_bias", false, ON_QKV}, {"use_qk_norm", false, ON_QK_NORM}}},
    {"glm4_moe_lite", S(2048, 10240, 47, 20, 0, 0, 154880, 202752), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &glm_flash_latent, .experts = &glm_flash_experts, .switches = {LATENT_BIAS}},
    {"glm_moe_dsa", S(6144, 12288, 78, 64, 0, 0, 154880, 202752), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &glm5_latent, .experts = &glm5_experts, .special = dsa_special, .index_heads = 32, .switches = {LATENT_BIAS}},
    {"gpt2", S(768, -4, 12, 12, 0, 0, 50257, 1024), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED,
     .names = {.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = {ALWAYS(ON_QKVO | ON_MLP)}, .dropout = {0.1, 0.1, 0.1}},
    {"gpt_bigcode", S(768, -4, 12, 12, 0, 0, 50257, 1024), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .adjust = bigcode_adjust,
     .names = {.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = {ALWAYS(ON_QKVO | ON_MLP)}, .dropout = {0.1, 0.1, 0.1}},
    {"gpt_neo", S(2048, -4, 24, 16, 0, 0, 50257, 2048), IS_TIED | IS_PLAIN | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &neo_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .pattern = neo_pattern, .adjust = neo_adjust,
     .names = {.o = "out_proj", .up = "c_fc", .down = "c_proj"}, .switches = {ALWAYS(ON_O | ON_MLP)}},
    {"gpt_neox", S(6144, 24576, 44, 64, 0, 0, 50432, 2048), IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, NULL, LAYER_NORM, .norms = 2,
     .names = {.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = {{"attention_bias", true, ON_QKVO}, ALWAYS(ON_MLP), {"use_parallel_residual", true, ON_PARALLEL}}},
    {"gpt_oss", S(2880, 2880, 36, 64, 8, 64, 201088, 131072), HAS_SINKS | HAS_EXPERT_BIAS | HAS_ROUTER_LINEAR_BIAS, RMS, .norms = 2, .window = 128, .experts = &gpt_oss_experts, EVERY(2, "", LAYER_SLIDING), .names = {.router = "router"}, .switches = {{"attention_bias", true, ON_QKVO}}},
    {"gptj", S(4096, -4, 28, 16, 0, 0, 50400, 2048), IS_PLAIN | IS_PARALLEL | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 1, .names = {.o = "out_proj", .up = "fc_in", .down = "fc_out"}, .switches = {ALWAYS(ON_MLP | ON_HEAD_BIAS)}},
    {"granite", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"granitemoe", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .experts = &granite_experts, .names = {.router = "router"}, .switches = {ATTENTION_BIAS}},
    {"granitemoeshared", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), HAS_SHARED_FUSED, RMS, .norms = 2, .experts = &granite_shared_experts, .adjust = granite_shared_adjust, .names = {.router = "router", .shared_gate_up = "input_linear", .shared_down = "output_linear"}, .switches = {ATTENTION_BIAS}},
    {"granitemoehybrid", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), IGNORES_HEAD_DIM | HAS_SHARED_FUSED, RMS, .norms = 2, .experts = &granite_hybrid_experts, .state = bamba_state, .pattern = all_state, .adjust = granite_shared_adjust,
     .names = {.router = "router", .shared_gate_up = "input_linear", .shared_down = "output_linear"}, .switches = {ATTENTION_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}}},
    {"helium", S(2560, 7040, 24, 20, 20, 128, 48000, 4096), 0, RMS, .norms = 2, .adjust = helium_adjust, .switches = {{"attention_bias", false, ON_QKV}, MLP_BIAS}},
    {"hunyuan_v1_dense", S(4096, 11008, 32, 32, 0, 0, 290943, 2048), 0, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"hunyuan_v1_moe", S(4096, 11008, 32, 32, 0, 0, 290943, 2048), HAS_LINEAR_ROUTER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &hunyuan_experts, .adjust = hunyuan_adjust, .names = {.router = "wg"}, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"hy_v3", S(4096, 13312, 80, 64, 8, 128, 120832, 131072), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &hy_v3_experts, .switches = {ATTENTION_BIAS, MLP_BIAS, ALWAYS(ON_QK_NORM)}},
    {"internlm3", S(4096, 10240, 48, 32, 2, 128, 128512, 32768), 0, RMS, .norms = 2, .switches = {{"qkv_bias attention_bias", false, ON_QKVO}, {"bias mlp_bias", false, ON_MLP}}},
    {"jais2", S(3328, 26624, 32, 26, 0, 0, 150272, 8192), IS_PLAIN, LAYER_NORM, .norms = 2, .switches = {{"attention_bias", true, ON_QKVO}, {"mlp_bias", true, ON_MLP}}},
    {"jamba", S(4096, 14336, 32, 32, 8, 0, 65536, 262144), IGNORES_HEAD_DIM, RMS, .norms = 2, .experts = &jamba_experts, .state = jamba_state, .pattern = jamba_pattern, .names = {.router = "router"}, .switches = {{"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}}},
    {"jetmoe", S(2048, 5632, 12, 32, 16, 128, 32000, 4096), IS_TIED | HAS_LINEAR_ROUTER, &jetmoe_keys, RMS, .norms = 2, .experts = &jetmoe_experts, .adjust = jetmoe_adjust, .side_paths = jetmoe_paths, .names = {.router = "layer"}},
    {"kimi_linear", S(2304, 9216, 27, 32, 0, 0, 163840, 1048576), NEVER_TIED | HAS_ROUTER_BIAS_BUFFER, &long_keys, RMS, .norms = 2, .latent = &kimi_latent, .experts = &kimi_experts, .state = kimi_state, .pattern = kimi_pattern, .switches = {LATENT_BIAS}},
    {"lfm2", S(2560, 12288, 32, 32, 8, 0, 65536, 128000), IS_TIED, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .state = lfm2_state, .pattern = lfm2_pattern, .adjust = lfm2_adjust,
     .names = {.o = "out_proj", .gate = "w1", .up = "w3", .down = "w2"}, .switches = {{"conv_bias", false, ON_CONV}, ALWAYS(ON_QK_NORM)}},
    {"lfm2_moe", S(2048, 7168, 32, 32, 8, 0, 65536, 128000), IS_TIED | HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &lfm2_experts, .state = lfm2_state, .pattern = lfm2_pattern, .adjust = lfm2_moe_adjust,
     .names = {.o = "out_proj", .gate = "w1", .up = "w3", .down = "w2"}, .switches = {{"conv_bias", false, ON_CONV}, ALWAYS(ON_QK_NORM)}},
    {"llama4_text", S(5120, 8192, 48, 40, 8, 128, 202048, 131072), HAS_LINEAR_ROUTER, RMS, .norms = 2, .experts = &llama4_experts, .pattern = llama4_pattern, .adjust = llama4_adjust, .names = {.router = "router"}, .switches = {ATTENTION_BIAS}},
    {"longcat_flash", S(6144, 12288, 28, 64, 0, 0, 131072, 131072), HAS_ROUTER_BIAS_BUFFER | HAS_LINEAR_ROUTER | IS_STACKED_AS_GATE, &longcat_keys, RMS, .norms = 2, .latent = &v3_latent, .experts = &longcat_experts, .adjust = longcat_adjust, .special = longcat_special, .names = {.router = "classifier"}, .switches = {LATENT_BIAS}},
    {"mamba", S(768, 0, 32, 0, 0, 0, 50280, 0), IS_TIED, &mamba_keys, RMS, .norms = 1, .state = mamba1_state, .pattern = all_state, .switches = {{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}}},
    {"mamba2", S(4096, 0, 64, 0, 0, 0, 32768, 0), 0, &mamba_keys, RMS, .norms = 1, .state = mamba2_state, .pattern = all_state, .switches = {{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}}},
    {"mimo_v2_flash", S(4096, 16384, 48, 64, 4, 192, 152576, 131072), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .window = 129, .experts = &mimo_experts, .pattern = mimo_pattern, .adjust = mimo_adjust, .special = mimo_special, .switches = {{"attention_bias", false, ON_QKV}}},
    {"minicpm3", S(2560, 6400, 62, 40, 0, 0, 73448, 32768), IS_TIED, RMS, .norms = 2, .latent = &minicpm3_latent, .switches = {LATENT_BIAS, MLP_BIAS}},
    {"minimax", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), IS_STACKED_AS_W, RMS, .norms = 2, .experts = &mixtral_experts, .state = lightning_state, .pattern = by_turns},
    {"minimax_m2", S(3072, 1536, 62, 48, 8, 128, 200064, 196608), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_W, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &minimax_m2_experts, .switches = {ALWAYS(ON_QK_NORM)}},
    {"minimax_m3_vl_text", S(6144, 3072, 60, 64, 4, 128, 200064, 524288), HAS_ROUTER_BIAS_BUFFER | HAS_SHARED_FUSED | IS_FUSED_GATE_UP, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &m3_experts, .pattern = all_full, .adjust = m3_adjust, .special = m3_special, .side_paths = m3_paths, .switches = {ALWAYS(ON_QK_NORM)}},
    {"ministral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), 0, RMS, .norms = 2, .window = 4096},
    {"ministral3", S(4096, 14336, 34, 32, 8, 128, 131072, 262144), 0, RMS, .norms = 2},
    {"mistral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), 0, RMS, .norms = 2, .window = 4096},
    {"mistral4", S(4096, 12288, 36, 32, 0, 0, 131072, 1048576), 0, RMS, .norms = 2, .latent = &mistral4_latent, .experts = &mistral4_experts, .switches = {LATENT_BIAS}},
    {"mixtral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), IS_STACKED_AS_W, RMS, .norms = 2, .experts = &mixtral_experts},
    {"mpt", S(2048, -4, 24, 16, 0, 0, 50368, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &mpt_keys, .norm = VRAM_NORM_LAYER, .norms = 2, .position = VRAM_POSITION_ALIBI, .names = {.qkv = "Wqkv", .o = "out_proj"}},
    {"nanochat", S(768, 8192, 12, 6, 0, 0, 50304, 2048), IS_PLAIN, .norm = VRAM_NORM_RMS_BARE, .norms = 2, .qk_norm = VRAM_QK_NORM_BARE, .names = {.up = "fc1", .down = "fc2"}, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"nemotron", S(6144, 24576, 32, 48, 0, 0, 256000, 4096), IS_PLAIN, LAYER_NORM, .norms = 2, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"nemotron_h", S(4096, 21504, 4, 32, 8, 128, 131072, 4096), NEVER_TIED | IS_PLAIN | HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 1, .experts = &nemotron_h_experts, .state = nemotron_h_state, .pattern = nemotron_pattern, .adjust = nemotron_h_adjust, .special = nemotron_h_special,
     .switches = {MLP_BIAS, {"mamba_conv_bias use_conv_bias", true, ON_CONV}, {"use_bias", false, ON_STATE_IN | ON_STATE_OUT}}},
    {"olmo", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), 0, .norm = VRAM_NORM_LAYER_BARE, .norms = 2, .switches = {ATTENTION_BIAS}},
    {"olmo2", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"olmo3", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .window = 4096, EVERY(4, "", LAYER_SLIDING), .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"olmo_hybrid", S(3840, 11008, 32, 30, 0, 0, 100352, 65536), 0, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .state = olmo_hybrid_state, .pattern = olmo_hybrid_pattern, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"olmoe", S(2048, 2048, 16, 16, 0, 0, 50304, 4096), IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &olmoe_experts, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"openai-gpt", S(768, -4, 12, 12, 0, 0, 40478, 512), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY | HAS_NO_FINAL_NORM, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED,
     .names = {.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = {ALWAYS(ON_QKVO | ON_MLP)}, .dropout = {0.1, 0.1, 0.1}},
    {"opt", S(768, 3072, 12, 12, 0, 0, 50272, 2048), IS_TIED | IS_PLAIN | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &opt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .adjust = opt_adjust,
     .names = {.o = "out_proj", .up = "fc1", .down = "fc2"}, .switches = {{"enable_bias", true, ON_QKVO | ON_MLP}}, .dropout = {0.1, 0, 0}},
    {"persimmon", S(4096, 16384, 36, 64, 0, 0, 262144, 16384), IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, NULL, LAYER_NORM, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD_BIAS,
     .names = {.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = {ALWAYS(ON_QKVO | ON_MLP), {"qk_layernorm", true, ON_QK_NORM}}},
    {"phi", S(2048, 8192, 24, 32, 0, 0, 51200, 2048), IS_PLAIN | IS_PARALLEL, NULL, LAYER_NORM, .norms = 1, .qk_norm = VRAM_QK_NORM_HEAD_BIAS, .names = {.o = "dense", .up = "fc1", .down = "fc2"}, .switches = {ALWAYS(ON_QKVO | ON_MLP | ON_HEAD_BIAS), {"qk_layernorm", false, ON_QK_NORM}}},
    {"phi3", S(3072, 8192, 32, 32, 0, 0, 32064, 4096), IS_FUSED_QKV | IS_FUSED_GATE_UP, RMS, .norms = 2},
    {"phimoe", S(4096, 6400, 32, 32, 8, 0, 32064, 131072), HAS_LINEAR_ROUTER, NULL, LAYER_NORM, .norms = 2, .experts = &phimoe_experts, .names = {.router = "router"}, .switches = {ATTENTION_BIAS, {"lm_head_bias", false, ON_HEAD_BIAS}}},
    {"qwen2", S(4096, 22016, 32, 32, 32, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .window = 4096, .pattern = late_windows, .switches = {ALWAYS(ON_QKV)}},
    {"qwen2_moe", S(2048, 5632, 24, 16, 16, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW | HAS_SHARED_GATE, RMS, .norms = 2, .window = 4096, .pattern = early_windows, .experts = &qwen2_experts, .switches = {{"qkv_bias", true, ON_QKV}}},
    {"qwen3", S(4096, 22016, 32, 32, 32, 128, 151936, 32768), NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .pattern = late_windows, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"qwen3_5_moe_text", S(2048, 0, 40, 16, 2, 256, 248320, 32768), HAS_OUTPUT_GATE | HAS_SHARED_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &qwen3_5_experts, .state = qwen3_5_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"qwen3_5_text", S(4096, 12288, 32, 16, 4, 256, 248320, 32768), HAS_OUTPUT_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .state = qwen3_5_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"qwen3_moe", S(2048, 6144, 24, 32, 4, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .experts = &qwen3_experts, .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"qwen3_next", S(2048, 5632, 48, 16, 2, 256, 151936, 32768), HAS_OUTPUT_GATE | HAS_SHARED_GATE | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &qwen3_next_experts, .state = qwen3_next_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = {ATTENTION_BIAS, ALWAYS(ON_QK_NORM)}},
    {"recurrent_gemma", S(2560, 7680, 26, 10, 0, 0, 256000, 8192), IS_TIED, &griffin_keys, RMS, .norms = 2, .state = griffin_state, .pattern = griffin_pattern, .adjust = griffin_adjust, .switches = {{"attention_bias", false, ON_QKV}, ALWAYS(ON_O | ON_MLP)}},
    {"seed_oss", S(4096, 27648, 64, 80, 8, 128, 155136, 524288), 0, RMS, .norms = 2, .switches = {{"attention_bias", true, ON_QKV}, {"attention_out_bias", false, ON_O}, MLP_BIAS}, .dropout = {0.1, 0.1, 0}},
    {"smollm3", S(2048, 11008, 36, 16, 4, 0, 128256, 32768), IS_TIED | NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"solar_open", S(4096, 0, 48, 64, 8, 128, 196608, 131072), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .experts = &solar_experts, .switches = {{"attention_bias", false, ON_QKV}}},
    {"stablelm", S(2560, 6912, 32, 32, 32, 0, 50304, 4096), IGNORES_HEAD_DIM, NULL, LAYER_NORM, .norms = 2, .qk_norm = VRAM_QK_NORM_PER_HEAD, .switches = {{"use_qkv_bias", false, ON_QKV}, {"qk_layernorm", false, ON_QK_NORM}, {"use_parallel_residual", false, ON_PARALLEL | ON_LOSES_NORM}}},
    {"starcoder2", S(3072, 12288, 30, 24, 2, 0, 49152, 4096), IS_TIED | IS_PLAIN, NULL, LAYER_NORM, .norms = 2, .names = {.up = "c_fc", .down = "c_proj"}, .switches = {{"use_bias", true, ON_QKVO | ON_MLP}}},
    {"vaultgemma", S(2304, 9216, 26, 8, 4, 256, 256000, 8192), IS_TIED, RMS, .norms = 2, .window = 4096, EVERY(2, "", LAYER_SLIDING), .switches = {ATTENTION_BIAS}},
    {"youtu", S(2048, 6144, 32, 16, 0, 0, 128256, 131072), IS_TIED, RMS, .norms = 2, .latent = &v3_latent, .switches = {LATENT_BIAS}},
    {"zamba", S(3712, 14848, 76, 16, 16, 0, 32000, 4096), IS_TIED, &zamba_keys, RMS, .norms = 1, .state = zamba_state, .pattern = zamba_pattern, .adjust = zamba_adjust, .special = zamba_special, .side_paths = zamba_paths, .switches = {{"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}}},
    {"zamba2", S(2560, 10240, 54, 32, 0, 0, 32000, 4096), IS_TIED | IS_FUSED_GATE_UP, &zamba_keys, RMS, .norms = 1, .state = zamba2_state, .pattern = zamba2_pattern, .adjust = zamba_adjust, .special = zamba2_special, .side_paths = zamba2_paths, .switches = {{"add_bias_linear", false, ON_STATE_IN | ON_STATE_OUT | ON_MLP}}},

    /* without a class in transformers 5.24; sources: the modelling files beside the weights */
    {"baichuan", S(4096, 11008, 32, 32, 0, 0, 64000, 4096), IS_FUSED_QKV, RMS, .norms = 2, .names = {.qkv = "W_pack"}},
    {"internlm2", S(4096, 14336, 32, 32, 0, 0, 92544, 32768), IS_FUSED_QKV, RMS, .norms = 2, .names = {.qkv = "wqkv", .o = "wo", .gate = "w1", .up = "w3", .down = "w2"}, .switches = {{"bias", false, ON_QKVO}}},
    {"chatglm", S(4096, 13696, 28, 32, 0, 128, 65024, 8192), IS_FUSED_QKV | IS_FUSED_GATE_UP | HAS_NO_KV_KEY, &glm_keys, RMS, .norms = 2, .adjust = chatglm_adjust,
     .names = {.qkv = "query_key_value", .o = "dense", .gate_up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = {{"add_qkv_bias", false, ON_QKV}, {"add_bias_linear", false, ON_QKVO | ON_MLP}}},
    {"minicpm", S(4096, 11008, 32, 32, 0, 0, 73448, 32768), IS_TIED, RMS, .norms = 2, .switches = {ATTENTION_BIAS}},
    {"deepseek", S(2048, 10944, 28, 16, 0, 0, 102400, 4096), HAS_EXPERT_MODULES, RMS, .norms = 2, .experts = &deepseek_experts, .switches = {ATTENTION_BIAS}},
    {"bailing_moe", S(2048, 5632, 28, 16, 4, 0, 126464, 32768), IS_FUSED_QKV | HAS_EXPERT_MODULES, RMS, .norms = 2, .experts = &ling_experts, .names = {.qkv = "query_key_value", .o = "dense"}, .switches = {{"use_qkv_bias", false, ON_QKV}, {"use_bias", false, ON_O | ON_MLP}}},
    {"bailing_moe_v2", S(2048, 5120, 20, 16, 4, 128, 157184, 32768), IS_FUSED_QKV | HAS_ROUTER_BIAS_BUFFER | HAS_EXPERT_MODULES, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &ling2_experts, .names = {.qkv = "query_key_value", .o = "dense"}, .switches = {{"use_qkv_bias", false, ON_QKV}, {"use_bias", false, ON_O | ON_MLP}, {"use_qk_norm", true, ON_QK_NORM}}},
    {"mimo", S(4096, 11008, 36, 32, 8, 128, 151680, 32768), 0, RMS, .norms = 2, .switches = {ALWAYS(ON_QKV)}},
    {"qwen", S(4096, 22016, 32, 32, 0, 128, 151936, 8192), IS_FUSED_QKV | HAS_NO_KV_KEY, RMS, .norms = 2, .adjust = qwen_adjust, .names = {.qkv = "c_attn", .o = "c_proj", .gate = "w2", .up = "w1", .down = "c_proj"}, .switches = {ALWAYS(ON_QKV)}},
    {"step3p5", S(4096, 11264, 45, 64, 8, 128, 128896, 262144), HAS_ROUTER_BIAS, &step_keys, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, .names = {.attention_gate = "g_proj"}, .experts = &step_experts, .pattern = step_pattern, .special = step_special, .switches = {ALWAYS(ON_QK_NORM)}},
    {"nemotron-nas", S(8192, 28672, 80, 64, 8, 0, 128256, 131072), 0, RMS, .norms = 2, .special = nas_special, .switches = {ATTENTION_BIAS, MLP_BIAS}},
    {"arctic", S(7168, 4864, 35, 56, 8, 0, 32000, 4096), HAS_EXPERT_MODULES | HAS_LINEAR_ROUTER, RMS, .norms = 2, .names = {.gate = "w1", .up = "w3", .down = "w2"}, .experts = &arctic_experts, .special = arctic_special},
};

/* Other names of the same. */
static const struct { const char *alias, *type; } aliases[] = {
    {"kimi_k2", "deepseek_v3"}, {"kimi_k25", "deepseek_v3"}, {"minimax_text_01", "minimax"}, {"gemma4_unified_text", "gemma4_text"}, {"hunyuan", "hunyuan_v1_moe"}, {"hunyuan_dense", "hunyuan_v1_dense"},
    {"qwen2_vl", "qwen2"}, {"qwen2_5_vl", "qwen2"}, {"qwen2_5_omni", "qwen2"}, {"qwen3_vl", "qwen3"}, {"qwen3_vl_moe", "qwen3_moe"}, {"qwen3_omni_moe", "qwen3_moe"}, {"mistral3", "mistral"}, {"pixtral", "mistral"},
    {"cohere2_vision", "cohere2"}, {"glm4v", "glm4"}, {"glm4v_moe", "glm4_moe"}, {"ernie4_5_vl_moe", "ernie4_5_moe"}, {"RefinedWeb", "falcon"}, {"RefinedWebModel", "falcon"}, {"llava", "llama"}, {"mllama_text_model", "llama"}, {"yi", "llama"}, {"Yi", "llama"},
};

const family *family_find(const char *type)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].alias, type) == 0) type = aliases[i].type;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}
