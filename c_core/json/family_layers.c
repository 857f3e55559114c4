/* family_layers.c -- which layers are which, for configs that do not list it. */
#include "families.h"

#include <string.h>

/* Every n-th layer is full attention, the others are of the family's other type. */
layer_type family_every_nth(reader *r, int64_t i)
{
    const char *keys = r->family->period_keys ? r->family->period_keys : "";
    int64_t n = config_whole(r, keys, r->family->period, 0, VRAM_MAX_LAYERS);
    return n == 0 || (i + 1) % n == 0 ? LAYER_FULL : r->family->other;
}

/* The first of every four is full (CWM). */
layer_type family_first_of_four(reader *r, int64_t i)
{
    (void)r;
    return i % 4 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* Full and other by turns, beginning with full (MiniMax); its own files list 1 for full. */
layer_type family_by_turns(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "attn_type_list", r->model->layers);
    if (list) return config_is_on(r, list, i, "attn_type_list") ? LAYER_FULL : LAYER_STATE;
    return i % 2 == 0 ? LAYER_FULL : LAYER_STATE;
}

/* Dense layers in front have a period of their own; the others are counted from there (Cohere 2 with experts). */
layer_type family_cohere2_moe_pattern(reader *r, int64_t i)
{
    int64_t first = config_whole(r, "first_k_dense_replace", 0, 0, VRAM_MAX_LAYERS);
    int64_t n = i < first ? config_whole(r, "prefix_dense_sliding_window_pattern", 1, 1, VRAM_MAX_LAYERS) : config_whole(r, "sliding_window_pattern", 4, 1, VRAM_MAX_LAYERS);
    return ((i < first ? i : i - first) + 1) % n == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* Windows from max_window_layers on (Qwen). */
layer_type family_late_windows(reader *r, int64_t i)
{
    return r->window > 0 && i >= config_whole(r, "max_window_layers", 28, 0, VRAM_MAX_LAYERS) ? LAYER_SLIDING : LAYER_FULL;
}

/* Windows on even layers before max_window_layers (Qwen2-MoE). */
layer_type family_early_windows(reader *r, int64_t i)
{
    return r->window > 0 && i % 2 == 0 && i < config_whole(r, "max_window_layers", 28, 0, VRAM_MAX_LAYERS) ? LAYER_SLIDING : LAYER_FULL;
}

layer_type family_all_full(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_FULL;
}

layer_type family_all_state(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_STATE;
}

layer_type family_all_both(reader *r, int64_t i)
{
    (void)r, (void)i;
    return LAYER_BOTH;
}

/* OLMo Hybrid: every fourth, and at least the last. */
layer_type family_olmo_hybrid_pattern(reader *r, int64_t i)
{
    return i % 4 == 3 || (r->model->layers < 4 && i == r->model->layers - 1) ? LAYER_FULL : LAYER_STATE;
}

layer_type family_jamba_pattern(reader *r, int64_t i)
{
    int64_t period = config_whole(r, "attn_layer_period", 8, 1, VRAM_MAX_LAYERS);
    return i % period == config_whole(r, "attn_layer_offset", 4, 0, period - 1) ? LAYER_FULL : LAYER_STATE;
}

layer_type family_bamba_pattern(reader *r, int64_t i)
{
    return config_contains(config_list(r, "attn_layer_indices", 0), i) ? LAYER_FULL : LAYER_STATE;
}

/* LFM2: named layers attend; when none are named, all do. */
layer_type family_lfm2_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "full_attn_idxs", 0);
    return !list || config_contains(list, i) ? LAYER_FULL : LAYER_STATE;
}

/* Kimi Linear counts layers from 1. */
layer_type family_kimi_pattern(reader *r, int64_t i)
{
    const cJSON *full = config_list(r, "linear_attn_config.full_attn_layers", 0);
    if (full) return config_contains(full, i + 1) ? LAYER_FULL : LAYER_STATE;
    return i > 0 && i % 4 == 0 ? LAYER_FULL : LAYER_STATE;
}

/* Nemotron-H: a letter a layer. */
layer_type family_nemotron_pattern(reader *r, int64_t i)
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
layer_type family_griffin_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "block_types", 1);
    int n = cJSON_GetArraySize(list);
    if (n == 0) return i % 3 == 2 ? LAYER_SLIDING : LAYER_STATE;
    const cJSON *item = cJSON_GetArrayItem(list, (int)(i % n));
    return cJSON_IsString(item) && strcmp(item->valuestring, "recurrent") == 0 ? LAYER_STATE : LAYER_SLIDING;
}

layer_type family_zamba_pattern(reader *r, int64_t i)
{
    int64_t period = config_whole(r, "attn_layer_period", 6, 1, VRAM_MAX_LAYERS), offset = config_whole(r, "attn_layer_offset", 4, 0, period - 1);
    return i == 2 || (i > 2 && (i - 3) % period == offset) ? LAYER_BOTH : LAYER_STATE;
}

layer_type family_zamba2_pattern(reader *r, int64_t i)
{
    static const unsigned char standard[] = {6, 12, 18, 24, 30, 36, 42, 47, 51};
    const cJSON *ids = config_list(r, "hybrid_layer_ids", 0);
    if (ids) return config_contains(ids, i) ? LAYER_BOTH : LAYER_STATE;
    for (size_t k = 0; k < sizeof standard; k++)
        if (standard[k] == i) return LAYER_BOTH;
    return LAYER_STATE;
}

layer_type family_mimo_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "hybrid_layer_pattern", r->model->layers);
    if (list) return config_is_on(r, list, i, "hybrid_layer_pattern") ? LAYER_SLIDING : LAYER_FULL;
    return i == 0 || (i + 1) % 6 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* GPT-Neo: [[["global", "local"], 12]] */
layer_type family_neo_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "attention_layers", r->model->layers);
    if (!list) return i % 2 == 0 ? LAYER_FULL : LAYER_SLIDING;
    const cJSON *item = cJSON_GetArrayItem(list, (int)i);
    return cJSON_IsString(item) && strcmp(item->valuestring, "local") == 0 ? LAYER_SLIDING : LAYER_FULL;
}

/* Llama 4: layers without rotary positions are full. */
layer_type family_llama4_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "no_rope_layers", 1);
    int64_t n = config_whole(r, "no_rope_layer_interval", 4, 1, VRAM_MAX_LAYERS);
    bool said = list && i < cJSON_GetArraySize(list);
    return (said ? config_is_on(r, list, i, "no_rope_layers") : (i + 1) % n != 0) ? LAYER_CHUNKED : LAYER_FULL;
}

/* Step 3.5: one full, three sliding. */
layer_type family_step_pattern(reader *r, int64_t i)
{
    (void)r;
    return i % 4 == 0 ? LAYER_FULL : LAYER_SLIDING;
}

/* DeepSeek-V4: ratios of compression per layer, or by turns after the first two. */
layer_type family_v4_pattern(reader *r, int64_t i)
{
    const cJSON *list = config_list(r, "compress_ratios", r->model->layers);
    int64_t ratio = list ? config_number(r, cJSON_GetArrayItem(list, (int)i), "compress_ratios", 0, 1 << 20) : i < 2 || i % 2 == 0 ? 128 : 4;
    return ratio <= 0 ? LAYER_SLIDING : ratio <= 4 ? LAYER_COMPRESSED : LAYER_HEAVILY_COMPRESSED;
}
