/* kv_cache.c -- what a sequence leaves behind: keys and values, latents, recurrent and convolution state.
 *
 * Layers whose caches have one shape are one entry. Sizes: the model's own shapes times the cells that the engine's rules give.
 *
 *     keys and values   2 * layers * kv_heads * head_dim * tokens * sequences * bytes      (apart where widths or types differ)
 *     latent (MLA)      layers * (kv_lora_rank + qk_rope_head_dim) * tokens * sequences * bytes
 *     state             layers * heads * head_dim * state * sequences * bytes              (whatever the context)
 */
#include <string.h>

#include "core.h"

double vram_kv_heads_on_rank(double kv_heads, double ranks)
{
    return vram_max(1.0, vram_ceil_div(kv_heads, ranks));
}

double vram_compute_bytes(const vram_scenario *scenario)
{
    return scenario->weights == VRAM_FORMAT_FP32 ? 4 : 2;
}

/* ---------------------------------------------------------------------------------------------------- keys and values -- */

static bool same_cache(const vram_attention *a, const vram_attention *b)
{
    return a->type == b->type && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->v_head_dim == b->v_head_dim &&
           a->window == b->window && a->shares_cache == b->shares_cache && a->kv_lora_rank == b->kv_lora_rank &&
           a->qk_rope_head_dim == b->qk_rope_head_dim && a->qk_nope_head_dim == b->qk_nope_head_dim && a->heads == b->heads &&
           a->index_head_dim == b->index_head_dim && a->compress_ratio == b->compress_ratio && a->one_cache == b->one_cache;
}

/* Kind of the last layer that sees all tokens: a multi-token-prediction layer is one more of it. -1: none. */
int vram_last_global_kind(const vram_model *model)
{
    for (int64_t i = model->layers - 1; i >= 0; i--) {
        const vram_attention *a = &model->kind[model->layer_kind[i]].attention;
        if (a->type != VRAM_MIXER_NONE && !a->window && !a->shares_cache) return model->layer_kind[i];
    }
    return -1;
}

/* Layers, among those that the rules speak of, whose cache is that of this kind. */
static double cached_layers(const vram_model *model, const vram_cache_rules *rules, int kind)
{
    double layers = 0;
    for (int64_t i = rules->first_layer; i < rules->end_layer; i++)
        if (same_cache(&model->kind[model->stage.kind[i]].attention, &model->kind[kind].attention)) layers++;
    int last = vram_last_global_kind(model);
    if (rules->mtp_layers > 0 && last >= 0 && same_cache(&model->kind[last].attention, &model->kind[kind].attention)) layers += rules->mtp_layers;
    return layers;
}

/* Cells of a layer in one sequence: all tokens; of a window no more than it needs. */
static double cells(const vram_cache_rules *rules, const vram_attention *a)
{
    if (!a->window || rules->no_windows) return rules->tokens;
    double window = ((double)a->window - rules->window_less) * rules->window_sequences + rules->window_more;
    return vram_min(rules->tokens, vram_round_up(vram_min(rules->tokens, window), rules->window_step));
}

static vram_entry *add_cache(vram_report *report, const vram_cache_rules *rules, vram_what what, double layers)
{
    vram_entry *e = vram_add(report, rules->role, VRAM_COMPONENT_KV_CACHE, what, VRAM_EXACT, rules->source, rules->phases);
    return vram_times(e, VRAM_SYMBOL_LAYERS, layers);
}

static void times_cells(vram_entry *e, const vram_cache_rules *rules, double tokens, double bytes)
{
    vram_times(e, VRAM_SYMBOL_TOKENS, tokens);
    vram_times(e, VRAM_SYMBOL_SEQUENCES, rules->sequences);
    vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, bytes);
}

static void add_half(vram_report *report, const vram_cache_rules *rules, vram_what what, double layers, double heads, double width, double tokens, double bytes)
{
    vram_entry *e = add_cache(report, rules, what, layers);
    vram_times(vram_times(e, VRAM_SYMBOL_KV_HEADS, heads), VRAM_SYMBOL_HEAD_DIM, width);
    times_cells(e, rules, tokens, bytes);
}

/* DeepSeek-V4: one vector is key and value; besides the window a layer keeps an entry for every `compress_ratio` tokens. */
static void add_single_vectors(const vram_cache_rules *rules, const vram_attention *a, double layers, vram_report *report)
{
    bool window = a->window && !rules->no_windows;
    add_half(report, rules, window ? VRAM_WHAT_WINDOW_LAYERS : VRAM_WHAT_GLOBAL_LAYERS, layers, 1, (double)a->head_dim, cells(rules, a), rules->k_bytes);
    if (a->compress_ratio > 0) add_half(report, rules, VRAM_WHAT_COMPRESSED, layers, 1, (double)a->head_dim, vram_floor_div(rules->tokens, (double)a->compress_ratio), rules->k_bytes);
}

static void add_keys_and_values(const vram_cache_rules *rules, const vram_attention *a, double layers, vram_report *report)
{
    vram_what what = a->window && !rules->no_windows ? VRAM_WHAT_WINDOW_LAYERS : VRAM_WHAT_GLOBAL_LAYERS;
    double heads = vram_kv_heads_on_rank((double)a->kv_heads, rules->ranks), tokens = cells(rules, a);
    bool widened = rules->v_width > 0 && rules->v_width != heads * (double)a->v_head_dim;
    if (a->head_dim != a->v_head_dim || rules->k_bytes != rules->v_bytes || widened) {
        add_half(report, rules, what, layers, heads, (double)a->head_dim, tokens, rules->k_bytes);
        add_half(report, rules, what, layers, widened ? 1 : heads, widened ? rules->v_width : (double)a->v_head_dim, tokens, rules->v_bytes);
        return;
    }
    vram_entry *e = vram_times(add_cache(report, rules, what, layers), VRAM_SYMBOL_KEY_AND_VALUE, 2);
    vram_times(vram_times(e, VRAM_SYMBOL_KV_HEADS, heads), VRAM_SYMBOL_HEAD_DIM, (double)a->head_dim);
    times_cells(e, rules, tokens, rules->k_bytes);
}

/* One latent and one shared rotary key a token, on every tensor-parallel rank whole. Expanded: each head's key and value, as before latents were cached. */
static void add_latent(const vram_cache_rules *rules, const vram_attention *a, double layers, vram_report *report)
{
    double tokens = cells(rules, a);
    if (rules->expanded) {
        double heads = vram_kv_heads_on_rank((double)a->heads, rules->ranks);
        add_half(report, rules, VRAM_WHAT_GLOBAL_LAYERS, layers, heads, (double)(a->qk_nope_head_dim + a->qk_rope_head_dim), tokens, rules->k_bytes);
        add_half(report, rules, VRAM_WHAT_GLOBAL_LAYERS, layers, heads, (double)a->v_head_dim, tokens, rules->v_bytes);
        return;
    }
    vram_entry *e = vram_times(add_cache(report, rules, VRAM_WHAT_LATENT, layers), VRAM_SYMBOL_WIDTH, (double)(a->kv_lora_rank + a->qk_rope_head_dim));
    times_cells(e, rules, tokens, rules->k_bytes);
}

static void add_kind(const vram_model *model, const vram_cache_rules *rules, int kind, vram_report *report)
{
    const vram_attention *a = &model->kind[kind].attention;
    double layers = cached_layers(model, rules, kind);
    if (a->type == VRAM_MIXER_NONE || a->shares_cache || layers == 0) return;
    double index_tokens = a->compress_ratio > 0 ? vram_floor_div(rules->tokens, (double)a->compress_ratio) : cells(rules, a);
    if (a->type == VRAM_MIXER_MLA) add_latent(rules, a, layers, report);
    else if (a->one_cache) add_single_vectors(rules, a, layers, report);
    else add_keys_and_values(rules, a, layers, report);
    if (a->index_head_dim > 0) {
        vram_entry *e = vram_times(add_cache(report, rules, VRAM_WHAT_INDEX_KEYS, layers), VRAM_SYMBOL_WIDTH, (double)a->index_head_dim);
        times_cells(e, rules, index_tokens, rules->index_bytes > 0 ? rules->index_bytes : rules->k_bytes);
    }
}

/* -------------------------------------------------------------------------------------------------------------- state -- */

static bool same_state(const vram_state *a, const vram_state *b)
{
    return a->type == b->type && a->inner == b->inner && a->state == b->state && a->heads == b->heads && a->head_dim == b->head_dim &&
           a->key_heads == b->key_heads && a->key_head_dim == b->key_head_dim && a->groups == b->groups &&
           a->conv_kernel == b->conv_kernel && a->state_fp32 == b->state_fp32;
}

vram_state_shape vram_state_size(const vram_state *s)
{
    vram_state_shape shape = {0, 0, 0};
    double inner = (double)s->inner, heads = (double)s->heads, head_dim = (double)s->head_dim;
    switch (s->type) {
    case VRAM_STATE_MAMBA1: shape = (vram_state_shape){inner, (double)s->state, inner}; break;
    case VRAM_STATE_MAMBA2: shape = (vram_state_shape){heads * head_dim, (double)s->state, inner + 2 * (double)s->groups * (double)s->state}; break;
    case VRAM_STATE_GATED_DELTA:
        shape = (vram_state_shape){heads * head_dim, (double)s->key_head_dim, 2 * (double)s->key_heads * (double)s->key_head_dim + heads * head_dim};
        break;
    case VRAM_STATE_KDA: shape = (vram_state_shape){heads * head_dim, head_dim, 3 * heads * head_dim}; break;
    case VRAM_STATE_LIGHTNING: shape = (vram_state_shape){heads * head_dim, head_dim, 0}; break;
    case VRAM_STATE_SHORT_CONV: shape = (vram_state_shape){0, 0, inner}; break;
    case VRAM_STATE_RGLRU: shape = (vram_state_shape){inner, 1, inner}; break;
    case VRAM_STATE_NONE: break;
    }
    return shape;
}

static void add_state_part(vram_report *report, const vram_cache_rules *rules, vram_what what, double layers, double channels, double numbers, double bytes)
{
    vram_entry *e = vram_add(report, rules->role, VRAM_COMPONENT_RECURRENT_STATE, what, VRAM_EXACT, rules->source, rules->phases);
    vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, layers), VRAM_SYMBOL_WIDTH, vram_ceil_div(channels, rules->ranks));
    vram_times(vram_times(e, what == VRAM_WHAT_STATE ? VRAM_SYMBOL_STATE : VRAM_SYMBOL_SLOTS, numbers), VRAM_SYMBOL_SEQUENCES, rules->states);
    vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, bytes);
}

/* The recurrent state and the last columns that the convolution looks back at; constant in the context. */
static void add_state(const vram_model *model, const vram_cache_rules *rules, int kind, vram_report *report)
{
    const vram_state *s = &model->kind[kind].state;
    double layers = 0;
    for (int64_t i = rules->first_layer; i < rules->end_layer; i++)
        if (same_state(&model->kind[model->stage.kind[i]].state, s)) layers++;
    if (s->type == VRAM_STATE_NONE || layers == 0) return;
    vram_state_shape shape = vram_state_size(s);
    double state_bytes = rules->state_bytes > 0 ? rules->state_bytes : s->state_fp32 ? 4 : rules->conv_bytes;
    add_state_part(report, rules, VRAM_WHAT_STATE, layers, shape.channels, shape.numbers, state_bytes);
    add_state_part(report, rules, VRAM_WHAT_CONV_STATE, layers, shape.conv_channels, vram_max(0, (double)s->conv_kernel - rules->conv_less), rules->conv_bytes);
}

/* -------------------------------------------------------------------------------------------------------------- rules -- */

/* A kind is counted with the first one that has the same cache. */
static int first_like(const vram_model *model, int kind, bool state)
{
    for (int i = 0; i < kind; i++)
        if (state ? same_state(&model->kind[i].state, &model->kind[kind].state) : same_cache(&model->kind[i].attention, &model->kind[kind].attention)) return i;
    return kind;
}

static void note_replicated(const vram_model *model, const vram_cache_rules *rules, vram_report *report)
{
    for (int i = 0; i < report->notes; i++)
        if (report->note[i].id == VRAM_NOTE_KV_HEADS_REPLICATED) return;
    for (int k = 0; k < model->kinds; k++) {
        const vram_attention *a = &model->kind[k].attention;
        if (a->type != VRAM_MIXER_SOFTMAX || (double)a->kv_heads >= rules->ranks) continue;
        vram_note_add(report, VRAM_NOTE_KV_HEADS_REPLICATED, "parallel.tensor", 2, (const double[]){(double)a->kv_heads, rules->ranks});
        return;
    }
}

void vram_cache_entries(const vram_model *model, const vram_cache_rules *rules, vram_report *report)
{
    for (int k = 0; k < model->kinds; k++)
        if (first_like(model, k, false) == k) add_kind(model, rules, k, report);
    for (int k = 0; k < model->kinds; k++)
        if (first_like(model, k, true) == k) add_state(model, rules, k, report);
    note_replicated(model, rules, report);
}

/* Tensors as they are used, no engine: every token of a full layer, min(tokens, window) of a windowed one. */
vram_cache_rules vram_cache_rules_plain(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases)
{
    double compute = vram_compute_bytes(scenario);
    return (vram_cache_rules){
        .role = role, .source = VRAM_SOURCE_CONFIG, .phases = phases,
        .sequences = sequences, .tokens = vram_ceil_div(tokens, (double)scenario->parallel.context),
        .k_bytes = vram_format_bytes(scenario->kv_cache_k >= 0 ? scenario->kv_cache_k : scenario->kv_cache),
        .v_bytes = vram_format_bytes(scenario->kv_cache_v >= 0 ? scenario->kv_cache_v : scenario->kv_cache),
        .window_sequences = 1, .window_step = 1,
        .states = sequences * (1 + (double)scenario->speculative.mtp_tokens), .conv_bytes = compute,
        .mtp_layers = vram_mtp_layers(scenario, model),
        .ranks = (double)scenario->parallel.tensor,
        .end_layer = model->stage.layers,
    };
}

/* transformers (cache_utils.py): a window keeps W - 1 tokens between steps; the convolution all its columns. */
static void transformers_rules(vram_cache_rules *rules)
{
    rules->window_less = 1;
    rules->source = VRAM_SOURCE_TRANSFORMERS;
}

/* Only some families have windows there (src/models/, swa_type); of EXAONE 4 only the 64-layer model. Others hold every token in every layer. */
bool vram_llama_cpp_ignores_windows(const vram_model *model)
{
    static const char *const types[] = {"gemma2", "gemma3", "gemma4", "gpt_oss", "cohere2", "olmo3", "exaone4", "exaone_moe", "llama4", "mimo_v2", "step3",
                                        "smallthinker", "afmoe", "granite_swa", "laguna", "deepseek_v4"};
    if (strcmp(model->model_type, "exaone4") == 0) return model->layers != 64;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strncmp(model->model_type, types[i], strlen(types[i])) == 0) return false;
    return true;
}

/* Without flash kernels V is stored transposed, every layer's as wide as the widest. */
static double widest_values(const vram_model *model)
{
    double widest = 0;
    for (int i = 0; i < model->kinds; i++) widest = vram_max(widest, (double)(model->kind[i].attention.kv_heads * model->kind[i].attention.v_head_dim));
    return widest;
}

/* llama.cpp (llama-kv-cache.cpp, -iswa.cpp, llama-memory-recurrent.cpp): cells in steps of 256; one pool for all slots, or one each; a window
 * holds its tokens of every slot and the micro-batch; states are fp32, one a slot. Layers on the host keep their cache there; the GPU has the last ones. */
static void llama_cpp_rules(const vram_scenario *scenario, const vram_model *model, vram_cache_rules *rules)
{
    double slots = (double)scenario->llama_cpp.slots, pools = scenario->llama_cpp.kv_unified ? 1 : slots;
    double tokens = vram_round_up(rules->tokens, 256);
    rules->sequences = pools;
    rules->tokens = vram_round_up(vram_ceil_div(tokens, pools), 256);
    rules->no_windows = scenario->llama_cpp.swa_full > 0 || vram_llama_cpp_ignores_windows(model);
    rules->window_sequences = slots / pools;
    rules->window_more = vram_min((double)scenario->llama_cpp.ubatch, (double)scenario->context);
    rules->window_step = 256;
    if (!scenario->llama_cpp.flash_attention) rules->v_width = widest_values(model);
    rules->states = slots * (1 + (double)scenario->speculative.mtp_tokens);
    rules->state_bytes = rules->conv_bytes = 4;
    rules->conv_less = 1;
    rules->expanded = scenario->llama_cpp.mla_cache == VRAM_MLA_CACHE_EXPANDED;
    rules->source = VRAM_SOURCE_LLAMA_CPP;
}

vram_cache_rules vram_cache_rules_of(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases)
{
    vram_cache_rules rules = vram_cache_rules_plain(scenario, model, role, sequences, tokens, phases);
    if (scenario->engine == VRAM_ENGINE_TRANSFORMERS) transformers_rules(&rules);
    if (scenario->engine == VRAM_ENGINE_LLAMA_CPP) {
        vram_llama_cpp_layers layers = vram_llama_cpp_on_gpu(scenario, model);
        llama_cpp_rules(scenario, model, &rules);
        rules.first_layer = layers.first;
        rules.end_layer = layers.end;
    }
    return rules;
}

double vram_cache_cells(const vram_cache_rules *rules, const vram_attention *attention) { return cells(rules, attention); }

/* To compare GPUs with each other */
double vram_llama_cpp_cache_bytes(const vram_scenario *scenario, const vram_model *model, int64_t first, int64_t end)
{
    vram_cache_rules rules = vram_cache_rules_plain(scenario, model, VRAM_ROLE_MODEL, 1, (double)scenario->context, 0);
    double bytes = 0;
    llama_cpp_rules(scenario, model, &rules);
    for (int64_t i = first; i < end; i++) {
        const vram_attention *a = &model->kind[model->layer_kind[i]].attention;
        double keys = (double)(a->kv_heads * a->head_dim) * rules.k_bytes + (double)(a->kv_heads * a->v_head_dim) * rules.v_bytes;
        if (a->type == VRAM_MIXER_NONE || a->shares_cache) continue;
        bytes += cells(&rules, a) * rules.sequences * (a->type == VRAM_MIXER_MLA ? (double)(a->kv_lora_rank + a->qk_rope_head_dim) * rules.k_bytes : keys);
    }
    return bytes;
}

void vram_kv_cache(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, unsigned phases, vram_report *report)
{
    vram_cache_rules rules = vram_cache_rules_of(scenario, model, role, sequences, tokens, phases);
    vram_cache_entries(model, &rules, report);
}
