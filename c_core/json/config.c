/* config.c -- a config.json of any family, or a rule of thumb, as a vram_model.
 *
 * families.c says, as data, what a family calls its numbers and what an absent key means; this file reads. What all layers share
 * (attention, state, dense and sparse MLP) is read once; each layer is then put together by its type, and layers that are alike
 * become one kind. Source of the keys: https://github.com/huggingface/transformers/tree/main/src/transformers/models
 */
#include "families.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- looking up -- */

/* "model.text_config.num_hidden_layers" */
static void path_of(const reader *r, const char *key, char path[96])
{
    size_t n = 0, end = strcspn(key, " ");
    for (const char *c = "model."; *c; c++) path[n++] = *c;
    for (const char *c = r->inside; *c && n < 40; c++) path[n++] = *c;
    for (size_t i = 0; i < end && n < 95; i++) path[n++] = key[i];
    path[n] = '\0';
}

void config_fail(reader *r, vram_error_code code, const char *key, double value, double min, double max)
{
    char path[96];
    if (r->failed) return;
    r->failed = true;
    path_of(r, key, path);
    vram_fail(r->error, code, path, value, min, max);
}

/* One name, of `length` letters, perhaps with dots, in an object. NULL: absent. */
static const cJSON *lookup(const cJSON *object, const char *name, size_t length)
{
    char key[64];
    size_t first = 0;
    while (first < length && name[first] != '.') first++;
    if (!cJSON_IsObject(object) || first >= sizeof key) return NULL;
    memcpy(key, name, first);
    key[first] = '\0';
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return first == length ? item : lookup(item, name + first + 1, length - first - 1);
}

/* The first of the names that is there and not null; tells which. */
static const cJSON *find(const cJSON *object, const char *keys, const char **which)
{
    for (const char *k = keys; *k;) {
        size_t length = strcspn(k, " ");
        const cJSON *item = lookup(object, k, length);
        *which = k;
        if (item && !cJSON_IsNull(item)) return item;
        k += length + (k[length] == ' ');
    }
    *which = keys;
    return NULL;
}

bool config_is_null(reader *r, const char *key)
{
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(r->inner, key));
}

static void wrong_type(reader *r, const cJSON *item, const char *key)
{
    char path[96];
    if (r->failed) return;
    r->failed = true;
    path_of(r, key, path);
    vram_json_refuse(item, VRAM_ERROR_TYPE, path, r->error);
}

/* The same, for a reader: what should hold a key that has dots, but is no object, fails. */
static const cJSON *find_in(reader *r, const char *keys, const char **which)
{
    const cJSON *item = find(r->inner, keys, which), *above;
    for (const char *k = keys; !item && *k; k += strcspn(k, " "), k += *k == ' ') {
        size_t length = strcspn(k, ". ");
        above = k[length] == '.' ? lookup(r->inner, k, length) : NULL;
        if (above && !cJSON_IsNull(above) && !cJSON_IsObject(above)) wrong_type(r, above, k);
    }
    return item;
}

const cJSON *config_find(reader *r, const char *keys)
{
    const char *which;
    return find_in(r, keys, &which);
}

/* the number itself, checked */
static double checked(reader *r, const cJSON *item, const char *key, double min, double max, bool whole)
{
    if (!cJSON_IsNumber(item)) {
        wrong_type(r, item, key);
        return min;
    }
    double value = item->valuedouble;
    if (!(value >= min && value <= max)) config_fail(r, VRAM_ERROR_RANGE, key, value, min, max);
    else if (whole && value != floor(value)) config_fail(r, VRAM_ERROR_TYPE, key, value, min, max);
    else return value;
    return min;
}

int64_t config_number(reader *r, const cJSON *item, const char *key, int64_t min, int64_t max)
{
    return (int64_t)checked(r, item, key, (double)min, (double)max, true);
}

int64_t config_whole(reader *r, const char *keys, int64_t standard, int64_t min, int64_t max)
{
    const char *which;
    const cJSON *item = find_in(r, keys, &which);
    if (cJSON_IsArray(item) && (r->is & HAS_LISTS)) {
        const cJSON *element = cJSON_GetArrayItem(item, (int)r->layer);
        if (!element) config_fail(r, VRAM_ERROR_CONFLICT, which, cJSON_GetArraySize(item), (double)r->model->layers, (double)r->model->layers);
        item = element;
    }
    return item ? (int64_t)checked(r, item, which, (double)min, (double)max, true) : standard;
}

double config_real(reader *r, const char *keys, double standard, double min, double max)
{
    const char *which;
    const cJSON *item = find_in(r, keys, &which);
    return item ? checked(r, item, which, min, max, false) : standard;
}

bool config_flag(reader *r, const char *keys, bool standard)
{
    const char *which;
    const cJSON *item = find_in(r, keys, &which);
    if (item && !cJSON_IsBool(item)) wrong_type(r, item, which);
    return item ? cJSON_IsTrue(item) : standard;
}

const char *config_text(reader *r, const char *keys)
{
    const cJSON *item = config_find(r, keys);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* A list of at least so many; NULL when absent, or a number that stands for a list. */
const cJSON *config_list(reader *r, const char *keys, int64_t at_least)
{
    const char *which;
    const cJSON *item = find_in(r, keys, &which);
    if (item && !cJSON_IsArray(item) && !cJSON_IsNumber(item)) wrong_type(r, item, which);
    if (!cJSON_IsArray(item)) return NULL;
    int length = cJSON_GetArraySize(item);
    if (length < at_least) config_fail(r, VRAM_ERROR_CONFLICT, which, length, (double)at_least, (double)at_least);
    return item;
}

/* true, or more than nothing; what is neither boolean nor number fails. */
bool config_is_on(reader *r, const cJSON *list, int64_t i, const char *key)
{
    const cJSON *item = cJSON_GetArrayItem(list, (int)i);
    if (item && !cJSON_IsBool(item) && !cJSON_IsNumber(item)) wrong_type(r, item, key);
    return cJSON_IsTrue(item) || (cJSON_IsNumber(item) && item->valuedouble > 0);
}

bool config_contains(const cJSON *list, int64_t number)
{
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next)
        if (cJSON_IsNumber(c) && c->valuedouble == (double)number) return true;
    return false;
}

vram_tensor *config_extra(reader *r, int kind, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns, bool linear)
{
    static vram_tensor nowhere;
    vram_model *m = r->model;
    if (m->extras == VRAM_MAX_EXTRAS) {
        config_fail(r, VRAM_ERROR_TOO_LARGE, "", m->extras + 1, 0, VRAM_MAX_EXTRAS);
        return &nowhere;
    }
    vram_tensor *tensor = &m->extra[m->extras++];
    memset(tensor, 0, sizeof *tensor);
    for (size_t i = 0; name[i] && i + 1 < sizeof tensor->name; i++) tensor->name[i] = name[i];
    tensor->part = part;
    tensor->kind = kind;
    tensor->copies = copies;
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->linear = linear;
    tensor->softmax = linear && part == VRAM_PART_ATTENTION;
    return tensor;
}

/* ------------------------------------------------------------------------------------------- what all layers share -- */

/* A key that may stand outside the language model's part. */
static bool shared_flag(reader *r, const char *key, bool standard)
{
    const char *which;
    const cJSON *item = find(r->inner, key, &which);
    if (!item) item = find(r->outer, key, &which);
    if (item && !cJSON_IsBool(item)) wrong_type(r, item, which);
    return item ? cJSON_IsTrue(item) : standard;
}

/* Biases and the like that are on: by the key, or by the class when the key is absent. */
static unsigned switches(reader *r)
{
    unsigned on = 0;
    for (const family_switch *s = r->family->switches; s != NULL && s->keys != NULL; s++)
        if (config_flag(r, s->keys, s->standard)) on |= s->on;
    return on;
}

/* A size without which there is no model: absent it is the class's, null it is nothing. */
static int64_t required(reader *r, const char *keys, int64_t standard, int64_t max)
{
    const char *which;
    if (!find_in(r, keys, &which) && cJSON_IsNull(lookup(r->inner, which, strcspn(which, " ")))) config_fail(r, VRAM_ERROR_MISSING, which, VRAM_NO_NUMBER, 1, (double)max);
    return config_whole(r, keys, standard, 1, max);
}

/* hidden, layers, vocabulary, positions, the MLP's width. A negative width stands for so many times hidden. */
static void sizes(reader *r)
{
    static const family_keys standard;
    const family *f = r->family;
    const family_keys *k = f->keys ? f->keys : &standard;
    vram_model *m = r->model;
    m->hidden = required(r, vram_or_else(k->hidden, "hidden_size"), f->hidden, 1 << 20);
    m->layers = required(r, vram_or_else(k->layers, "num_hidden_layers"), f->layers, VRAM_MAX_LAYERS);
    m->vocab = required(r, vram_or_else(k->vocab, "vocab_size"), f->vocab, 1 << 24);
    m->max_positions = config_whole(r, vram_or_else(k->positions, "max_position_embeddings"), f->positions, 0, INT64_C(1) << 40);
    r->width = config_whole(r, vram_or_else(k->width, "intermediate_size"), f->width < 0 ? -f->width * m->hidden : f->width, 0, CONFIG_WIDEST);
    bool windowed = !(r->is & NEEDS_SWITCHED_WINDOW) || config_flag(r, "use_sliding_window", false);
    if (windowed && !config_is_null(r, "sliding_window")) r->window = config_whole(r, "sliding_window", f->window, 0, INT64_C(1) << 40);
}

static void model_traits(reader *r)
{
    const family *f = r->family;
    vram_model *m = r->model;
    m->norm = f->norm;
    m->final_norm = !(r->is & HAS_NO_FINAL_NORM);
    m->tied = !(r->is & NEVER_TIED) && shared_flag(r, "tie_word_embeddings", (r->is & IS_TIED) != 0);
    m->head_bias = (r->on & ON_HEAD_BIAS) != 0;
    m->embedding_norm = (r->is & HAS_EMBEDDING_NORM) != 0;
    m->position = f->position;
    m->position_rows = m->max_positions;
    if (f->names) m->names = *f->names;
    m->capped_logits = config_find(r, "final_logit_softcapping logits_soft_cap") != NULL || ((r->is & CAPS_LOGITS) && !config_is_null(r, "final_logit_softcapping"));
    m->stacked_names = r->is & IS_STACKED_AS_GATE ? VRAM_STACKED_AS_GATE : r->is & IS_STACKED_AS_W ? VRAM_STACKED_AS_W : VRAM_STACKED_PLAIN;
    m->mtp_layers = config_whole(r, "num_nextn_predict_layers mtp_num_hidden_layers num_mtp_modules num_mtp_layers", 0, 0, VRAM_MAX_LAYERS);
    m->resid_dropout = config_real(r, "resid_pdrop hidden_dropout residual_dropout resid_dropout dropout", f->drops & DROPS_RESIDUAL ? 0.1 : 0, 0, 1);
    m->attention_dropout = config_real(r, "attn_pdrop attention_dropout attn_config.attn_pdrop", f->drops & DROPS_ATTENTION ? 0.1 : 0, 0, 1);
    m->embedding_dropout = config_real(r, "embd_pdrop emb_pdrop embed_dropout embedding_dropout", f->drops & DROPS_EMBEDDING ? 0.1 : 0, 0, 1);
}

/* Heads and their size; kv heads: as many as query heads when null, the class's number when absent. */
static void softmax_template(reader *r)
{
    static const family_keys standard;
    const family *f = r->family;
    const family_keys *k = f->keys ? f->keys : &standard;
    vram_attention *a = &r->attention;
    a->type = VRAM_MIXER_SOFTMAX;
    a->heads = config_whole(r, vram_or_else(k->heads, "num_attention_heads"), f->heads, 1, CONFIG_COUNT);
    a->kv_heads = f->kv_heads > 0 && f->kv_heads < a->heads ? f->kv_heads : a->heads;
    const char *kv = vram_or_else(k->kv_heads, "num_key_value_heads");
    if (config_is_null(r, kv)) a->kv_heads = a->heads;
    if (!(r->is & HAS_NO_KV_KEY)) a->kv_heads = config_whole(r, kv, a->kv_heads, 1, a->heads);
    const char *size = vram_or_else(k->head_dim, "head_dim");
    int64_t even = a->heads > 0 ? r->model->hidden / a->heads : 0;
    int64_t usual = f->head_dim > 0 && !config_is_null(r, size) ? f->head_dim : even;
    a->head_dim = r->is & IGNORES_HEAD_DIM ? even : config_whole(r, size, usual, 1, CONFIG_COUNT);
    if (a->head_dim < 1) config_fail(r, VRAM_ERROR_CONFLICT, vram_or_else(k->heads, "num_attention_heads"), (double)a->heads, 1, (double)r->model->hidden);
    a->v_head_dim = a->head_dim;
}

static void latent_template(reader *r)
{
    const family_latent *l = r->family->latent;
    vram_attention *a = &r->attention;
    a->type = VRAM_MIXER_MLA;
    a->heads = config_whole(r, "num_attention_heads", r->family->heads, 1, CONFIG_COUNT);
    a->kv_heads = a->heads;
    if (!config_is_null(r, "q_lora_rank")) a->q_lora_rank = config_whole(r, "q_lora_rank", l->q_rank, 0, CONFIG_WIDEST);
    a->kv_lora_rank = config_whole(r, "kv_lora_rank", l->kv_rank, 1, CONFIG_WIDEST);
    a->qk_nope_head_dim = config_whole(r, "qk_nope_head_dim", l->nope, 0, CONFIG_COUNT);
    a->qk_rope_head_dim = config_whole(r, "qk_rope_head_dim", l->rope, 0, CONFIG_COUNT);
    a->v_head_dim = config_whole(r, "v_head_dim", l->v ? l->v : r->model->hidden / a->heads, 1, CONFIG_COUNT);
    a->head_dim = a->qk_nope_head_dim + a->qk_rope_head_dim;
}

static void attention_traits(reader *r)
{
    vram_attention *a = &r->attention;
    a->fused_qkv = (r->is & IS_FUSED_QKV) != 0;
    a->q_bias = (r->on & ON_Q) != 0;
    a->k_bias = (r->on & ON_K) != 0;
    a->v_bias = (r->on & ON_V) != 0;
    a->o_bias = (r->on & ON_O) != 0;
    if (r->on & ON_QK_NORM) a->qk_norm = r->family->qk_norm;
    a->output_gate = (r->is & HAS_OUTPUT_GATE) != 0;
    a->sinks = (r->is & HAS_SINKS) != 0;
}

static void dense_template(reader *r)
{
    vram_ffn *d = &r->dense;
    d->type = r->is & IS_PLAIN ? VRAM_FFN_PLAIN : VRAM_FFN_GATED;
    d->width = r->width;
    d->bias = (r->on & ON_MLP) != 0;
    d->fused_gate_up = (r->is & IS_FUSED_GATE_UP) != 0;
    if (d->width == 0) d->type = VRAM_FFN_NONE;
}

/* The keys by which families name their experts. */
#define KEYS_EXPERTS "num_local_experts num_experts n_routed_experts moe_num_experts ffn_config.moe_num_experts"
#define KEYS_PER_TOKEN "num_experts_per_tok num_experts_per_token moe_topk moe_k moe_top_k top_k_experts ffn_config.moe_top_k"
#define KEYS_SHARED "n_shared_experts num_shared_experts moe_num_shared_experts"

static void sparse_template(reader *r)
{
    const family_experts *e = r->family->experts;
    vram_ffn *s = &r->sparse;
    s->experts = config_whole(r, KEYS_EXPERTS, e->experts, 0, CONFIG_COUNT);
    if (s->experts == 0) return;
    s->type = r->is & IS_PLAIN ? VRAM_FFN_PLAIN : VRAM_FFN_GATED;
    s->router_rows = e->zero_keys ? config_whole(r, e->zero_keys, e->zero, 0, CONFIG_COUNT) : 0;
    s->experts_per_token = config_whole(r, KEYS_PER_TOKEN, e->per_token < s->experts ? e->per_token : s->experts, 1, s->experts + s->router_rows);
    s->expert_width = config_whole(r, vram_or_else(e->width_keys, "moe_intermediate_size"), e->width ? e->width : r->width, 1, CONFIG_WIDEST);
    s->shared_width = s->expert_width * config_whole(r, KEYS_SHARED, e->shared, 0, CONFIG_COUNT);
    if (e->shared_keys) s->shared_width = config_whole(r, e->shared_keys, e->shared_width, 0, CONFIG_WIDEST);
    s->bias = (r->on & ON_MLP) != 0;
    s->shared_gate = (r->is & HAS_SHARED_GATE) != 0;
    s->shared_fused = (r->is & HAS_SHARED_FUSED) != 0;
    s->router_linear = (r->is & HAS_LINEAR_ROUTER) != 0;
    s->router_linear_bias = (r->is & HAS_ROUTER_LINEAR_BIAS) != 0;
    s->router_bias = (r->is & (HAS_ROUTER_BIAS | HAS_ROUTER_BIAS_BUFFER)) != 0;
    s->router_bias_buffer = (r->is & HAS_ROUTER_BIAS_BUFFER) != 0;
    s->expert_bias = (r->is & HAS_EXPERT_BIAS) != 0;
    s->expert_modules = (r->is & HAS_EXPERT_MODULES) != 0;
}

/* ------------------------------------------------------------------------------------------------------ layer by layer -- */

/* The types that lists of layer types name, in transformers 5 and before. */
static layer_type type_named(const char *name)
{
    static const struct { const char *name; layer_type type; } types[] = {
        {"full_attention", LAYER_FULL}, {"attention", LAYER_FULL}, {"global", LAYER_FULL}, {"indexed_attention", LAYER_FULL},
        {"minimax_m3_sparse", LAYER_FULL}, {"sliding_attention", LAYER_SLIDING}, {"local", LAYER_SLIDING}, {"chunked_attention", LAYER_CHUNKED},
        {"linear_attention", LAYER_STATE}, {"mamba", LAYER_STATE}, {"mamba2", LAYER_STATE}, {"recurrent", LAYER_STATE}, {"conv", LAYER_STATE},
        {"kda", LAYER_STATE}, {"hybrid", LAYER_BOTH}, {"moe", LAYER_MOE}, {"mlp", LAYER_MLP},
        {"compressed_sparse_attention", LAYER_COMPRESSED}, {"heavily_compressed_attention", LAYER_HEAVILY_COMPRESSED},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].type;
    return LAYER_UNKNOWN;
}

layer_type config_layer_type(reader *r, int64_t layer)
{
    if (!r->types) return r->family->pattern ? r->family->pattern(r, layer) : r->window > 0 ? LAYER_SLIDING : LAYER_FULL;
    const cJSON *item = cJSON_GetArrayItem(r->types, (int)layer);
    layer_type type = cJSON_IsString(item) ? type_named(item->valuestring) : LAYER_UNKNOWN;
    if (type == LAYER_UNKNOWN && !r->failed) {
        char path[96];
        path_of(r, "layer_types", path);
        r->failed = true;
        vram_json_refuse(item, VRAM_ERROR_UNKNOWN_VALUE, path, r->error);
    }
    return type;
}

/* Does the layer have experts? Lists win over numbers. */
static bool is_sparse(reader *r, int64_t i)
{
    const family_experts *e = r->family->experts;
    if (!e || r->sparse.experts == 0) return false;
    const cJSON *kinds = config_list(r, "mlp_layer_types", r->model->layers);
    if (kinds) {
        const cJSON *item = cJSON_GetArrayItem(kinds, (int)i);
        return cJSON_IsString(item) && strcmp(item->valuestring, "dense") != 0;
    }
    const cJSON *frequency = config_list(r, "moe_layer_freq", r->model->layers);
    if (frequency) return config_is_on(r, frequency, i, "moe_layer_freq");
    int64_t step;
    switch (e->rule) {
    case SPARSE_ALL: return true;
    case SPARSE_AFTER_FIRST: return i >= config_whole(r, vram_or_else(e->first_keys, "first_k_dense_replace"), e->first, 0, VRAM_MAX_LAYERS);
    case SPARSE_STEP:
        step = config_whole(r, "decoder_sparse_step moe_layer_frequency", 1, 1, VRAM_MAX_LAYERS);
        return (i + 1) % step == 0 && !config_contains(config_list(r, "mlp_only_layers", 0), i);
    case SPARSE_INTERLEAVED:
        step = config_whole(r, "interleave_moe_layer_step", 1, 1, VRAM_MAX_LAYERS);
        if (config_list(r, "moe_layers", 0)) return config_contains(config_list(r, "moe_layers", 0), i);
        return (i + 1) % step == 0;
    case SPARSE_PERIOD:
        step = config_whole(r, "expert_layer_period", 2, 1, VRAM_MAX_LAYERS);
        return r->sparse.experts > 1 && i % step == config_whole(r, "expert_layer_offset", 1, 0, step - 1);
    case SPARSE_RANGE: {
        int64_t last = config_whole(r, "moe_layer_end_index", -1, -1, VRAM_MAX_LAYERS), first = config_whole(r, "moe_layer_start_index", 1, 0, VRAM_MAX_LAYERS);
        step = config_whole(r, "moe_layer_interval", 1, 1, VRAM_MAX_LAYERS);
        return (i + 1) % step == 0 && i >= first && (last < 0 || i <= last);
    }
    }
    return false;
}

/* "05" -> 5; -1: no number of a layer */
static int64_t numbered(const char *key)
{
    int64_t n = *key ? 0 : -1;
    for (; *key && n >= 0; key++) n = *key >= '0' && *key <= '9' && n < VRAM_MAX_LAYERS ? 10 * n + (*key - '0') : -1;
    return n;
}

/* per_layer_config: what one layer has otherwise, by its number: {"05": {"head_dim": 512}}. Source: transformers, integrations/heterogeneity */
static void override(reader *r, int64_t i, vram_layer *l)
{
    const struct { const char *key; int64_t *field; int64_t most; } fields[] = {
        {"num_attention_heads", &l->attention.heads, CONFIG_COUNT}, {"num_key_value_heads", &l->attention.kv_heads, CONFIG_COUNT}, {"head_dim", &l->attention.head_dim, CONFIG_COUNT},
        {"intermediate_size", &l->ffn.width, CONFIG_WIDEST}, {"moe_intermediate_size", &l->ffn.expert_width, CONFIG_WIDEST}, {"sliding_window", &l->attention.window, CONFIG_WIDEST},
    };
    const cJSON *mine = cJSON_GetObjectItemCaseSensitive(r->inner, "per_layer_config");
    for (mine = cJSON_IsObject(mine) ? mine->child : NULL; mine && numbered(mine->string) != i;) mine = mine->next;
    for (size_t f = 0; mine && f < sizeof fields / sizeof fields[0]; f++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(mine, fields[f].key);
        if (item && !cJSON_IsNull(item) && *fields[f].field > 0) *fields[f].field = config_number(r, item, "per_layer_config", 1, fields[f].most);
    }
    if (mine && l->attention.type == VRAM_MIXER_SOFTMAX && cJSON_HasObjectItem(mine, "head_dim")) l->attention.v_head_dim = l->attention.head_dim;
}

static void put_together(reader *r, int64_t i, vram_layer *l)
{
    const family *f = r->family;
    layer_type type = config_layer_type(r, i);
    bool attends = type != LAYER_STATE && type != LAYER_MOE && type != LAYER_MLP && type != LAYER_EMPTY;
    if (attends) l->attention = r->attention;
    if (type == LAYER_SLIDING) l->attention.window = r->window;
    if (type == LAYER_CHUNKED) {
        l->attention.window = config_whole(r, "attention_chunk_size", 8192, 1, INT64_C(1) << 40);
        l->attention.chunked = true;
    }
    if (type == LAYER_STATE || type == LAYER_BOTH) l->state = r->state;
    l->ffn = is_sparse(r, i) ? r->sparse : r->dense;
    l->norms = f->norms - (r->on & ON_LOSES_NORM ? 1 : 0);
    l->post_norms = (r->is & HAS_NORMS_AFTER) != 0;
    l->parallel = (r->is & IS_PARALLEL) || (r->on & ON_PARALLEL);
    override(r, i, l);
    if (f->special) f->special(r, i, l);
}

/* Layers that are alike are one kind. (Both are filled with zeros first and copied whole, so bytes can be compared.) */
static void intern(reader *r, int64_t i, const vram_layer *l)
{
    vram_model *m = r->model;
    int k = 0;
    while (k < m->kinds && memcmp(&m->kind[k], l, sizeof *l) != 0) k++;
    if (k == VRAM_MAX_KINDS) {
        config_fail(r, VRAM_ERROR_TOO_LARGE, "", k + 1, 1, VRAM_MAX_KINDS);
        return;
    }
    if (k == m->kinds) {
        memcpy(&m->kind[k], l, sizeof *l);
        m->kinds++;
    }
    m->layer_kind[i] = (unsigned char)k;
}

static void layers(reader *r)
{
    r->types = config_list(r, "layer_types layers_block_type", r->model->layers);
    for (int64_t i = 0; i < r->model->layers && !r->failed; i++) {
        vram_layer l;
        memset(&l, 0, sizeof l);
        put_together(r, i, &l);
        intern(r, i, &l);
    }
}

/* ---------------------------------------------------------------------------------------------------- stored formats -- */

static vram_format dtype_of(const reader *r)
{
    static const struct { const char *said, *format; } types[] = {
        {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}, {"float32", "fp32"}, {"float", "fp32"}, {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"}, {"torch.float32", "fp32"},
    };
    const char *which;
    const cJSON *item = find(r->inner, "dtype torch_dtype", &which);
    if (!cJSON_IsString(item)) item = find(r->outer, "dtype torch_dtype", &which);
    for (size_t i = 0; cJSON_IsString(item) && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].said, item->valuestring) == 0) return vram_find(VRAM_LIST_FORMAT, types[i].format);
    return -1;
}

static const cJSON *quantization_of(const reader *r)
{
    const char *which;
    const cJSON *q = find(r->inner, "quantization_config", &which);
    return q ? q : find(r->outer, "quantization_config", &which);
}

static const char *text_or(const cJSON *object, const char *keys)
{
    const char *which;
    const cJSON *item = find(object, keys, &which);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* ------------------------------------------------------------------------------------------------------- which family -- */

/* Multimodal files keep the language model in a part of its own; an empty part is the class's own default. */
static void enter(reader *r, const cJSON *config)
{
    static const char *const parts[] = {"thinker_config.text_config", "text_config", "language_config", "llm_config"};
    static const char *const inside[] = {"thinker_config.text_config.", "text_config.", "language_config.", "llm_config."};
    r->outer = r->inner = config;
    r->inside = "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const cJSON *part = lookup(config, parts[i], strlen(parts[i]));
        if (part && !cJSON_IsNull(part) && !cJSON_IsObject(part)) wrong_type(r, part, parts[i]);
        if (!cJSON_IsObject(part) || !part->child) continue;
        r->inner = part;
        r->inside = inside[i];
        return;
    }
}

/* The type said, of the part or of the whole; with and without _text. */
static const family *named_family(reader *r)
{
    char type[VRAM_MAX_NAME];
    const char *which, *said = text_or(r->inner, "model_type");
    if (!*said) said = text_or(r->outer, "model_type");
    const cJSON *item = find(r->outer, "model_type", &which);
    if (item && !cJSON_IsString(item)) wrong_type(r, item, "model_type");
    size_t n = strlen(said);
    for (size_t i = 0; i < n && i + 1 < sizeof r->model->model_type; i++)
        r->model->model_type[i] = (char)(said[i] >= 0x20 && said[i] < 0x7F ? said[i] : '?');
    if (strcmp(said, "hunyuan") == 0 && !find(r->inner, "num_experts", &which)) said = "hunyuan_v1_dense"; /* one name for both */
    const family *f = family_find(said);
    if (f || n < 1 || n + 6 > sizeof type) return f;
    memcpy(type, said, n);
    memcpy(type + n, "_text", 6);
    if ((f = family_find(type)) != NULL) return f;
    if (n > 5 && strcmp(said + n - 5, "_text") == 0) type[n - 5] = '\0';
    return family_find(type);
}

/* Encoders have Llama's keys as well; their names and what they are made for tell them apart. */
static bool generates(reader *r)
{
    static const char *const tasks[] = {"CausalLM", "ConditionalGeneration", "LMHead"}, *const encoders[] = {"bert", "clip", "siglip", "electra"}; /* "bert" is in roberta, too */
    const char *which;
    for (size_t i = 0; i < sizeof encoders / sizeof encoders[0]; i++)
        if (strstr(r->model->model_type, encoders[i])) return false;
    const cJSON *name = cJSON_GetArrayItem(find(r->outer, "architectures", &which), 0);
    if (!cJSON_IsString(name)) return true;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strstr(name->valuestring, tasks[i])) return true;
    return false;
}

static bool says_no(const cJSON *item) { return !item || cJSON_IsFalse(item) || (cJSON_IsNumber(item) && item->valuedouble == 0); }

/* A type that is not known counts as Llama when it has all of Llama's keys and none that say otherwise. */
static const family *like_llama(reader *r)
{
    static const char *const needs[] = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"};
    static const char *const others[] = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "kv_lora_rank", "state_size", "ssm_state_size", "ssm_cfg",
        "mamba_d_state", "linear_attn_config", "linear_num_value_heads", "conv_L_cache", "block_configs", "hybrid_override_pattern", "lru_width", "encoder_layers", "is_encoder_decoder",
        "type_vocab_size", "patch_size"};
    const char *which;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!says_no(find(r->inner, others[i], &which))) config_fail(r, VRAM_ERROR_UNSUPPORTED, others[i], VRAM_NO_NUMBER, 1, 0);
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (!find(r->inner, needs[i], &which)) config_fail(r, VRAM_ERROR_MISSING, needs[i], VRAM_NO_NUMBER, 1, 0);
    if (!generates(r)) config_fail(r, VRAM_ERROR_UNSUPPORTED, "model_type", VRAM_NO_NUMBER, 1, 0);
    for (size_t i = 0; r->failed && r->model->model_type[i] && i + 1 < sizeof r->error->text; i++) r->error->text[i] = r->model->model_type[i];
    r->model->counted_as_llama = true;
    return family_find("llama");
}

static const family *choose(reader *r)
{
    const char *which;
    const family *f = named_family(r);
    bool declared = find(r->outer, "params", &which) != NULL;
    if (f || r->failed) return f;
    r->model->rule_of_thumb = declared;
    return declared ? family_find("rule of thumb") : like_llama(r);
}

/* rope_type "llama3" has a factor for every pair of a head's numbers, Gemma 4's "proportional" one of its widest heads. A Llama with 128,256 words
 * and 131,072 positions is Llama 3.1 or later, whose published config always says so. */
static int64_t rotary_factors(reader *r)
{
    const vram_model *m = r->model;
    const char *type = config_text(r, "rope_scaling.rope_type rope_scaling.type rope_parameters.rope_type");
    int64_t widest = 0;
    for (int k = 0; k < m->kinds; k++)
        if (m->kind[k].attention.type == VRAM_MIXER_SOFTMAX && m->kind[k].attention.head_dim > widest) widest = m->kind[k].attention.head_dim;
    bool llama_3_1 = strcmp(m->model_type, "llama") == 0 && m->vocab == 128256 && m->max_positions == 131072;
    bool by_type = strcmp(m->model_type, "apertus") == 0 || strncmp(m->model_type, "gemma4", 6) == 0;
    if (*type ? strcmp(type, "llama3") == 0 : llama_3_1) return widest / 2;
    return by_type ? widest / 2 : 0;
}

/* How many numbers of a head are rotated: a share, or a count; 0: all of them. Absent keys take the class's default. */
static void rotated_part(reader *r)
{
    static const char keys[] = "partial_rotary_factor rope_parameters.partial_rotary_factor rope_scaling.partial_rotary_factor rotary_pct rope_pct";
    const family *f = r->family;
    double share = config_real(r, keys, f->rotary_share > 0 ? (double)f->rotary_share : 1, 0, 1);
    int64_t count = f->rotary_dim ? config_whole(r, "rotary_dim", f->rotary_dim, 0, CONFIG_COUNT) : 0;
    for (int k = 0; k < r->model->kinds; k++) {
        vram_attention *a = &r->model->kind[k].attention;
        if (a->type != VRAM_MIXER_SOFTMAX) continue;
        if (f->rotary_dim) a->rotary_dim = count < a->head_dim ? count : a->head_dim; /* a slice ends with the head */
        else if (share < 1) a->rotary_dim = (int64_t)((double)a->head_dim * share);
    }
}

bool vram_config_read(const cJSON *config, vram_model *model, vram_error *error)
{
    reader r;
    memset(&r, 0, sizeof r);
    memset(model, 0, offsetof(vram_model, layer_kind));
    if (!cJSON_IsObject(config)) return vram_json_refuse(config, VRAM_ERROR_TYPE, "model", error);
    r.model = model;
    r.error = error;
    enter(&r, config);
    if (!r.failed) r.family = choose(&r);
    if (r.failed) return false;
    r.is = r.family->is;
    r.on = switches(&r);
    if (config_flag(&r, "add_cross_attention", false)) config_fail(&r, VRAM_ERROR_UNSUPPORTED, "add_cross_attention", VRAM_NO_NUMBER, 1, 0); /* the decoder of a pair */
    sizes(&r);
    model_traits(&r);
    if (r.family->latent) latent_template(&r);
    else if (r.family->heads > 0) softmax_template(&r);
    attention_traits(&r);
    if (r.family->state) r.family->state(&r, &r.state);
    dense_template(&r);
    if (r.family->experts) sparse_template(&r);
    if (!r.failed && r.family->adjust) r.family->adjust(&r);
    if (!r.failed) layers(&r);
    if (!r.failed && r.family->side_paths) r.family->side_paths(&r);
    if (config_find(&r, "params")) model->params_override = config_real(&r, "params", 0, 1, 1e15);
    if (config_find(&r, "params_active")) model->active_override = config_real(&r, "params_active", 0, 1, model->params_override > 0 ? model->params_override : 1e15);
    model->dtype = dtype_of(&r);
    if (!r.failed) rotated_part(&r);
    if (!r.failed) model->rotary_factors = rotary_factors(&r);
    if (r.failed || !vram_architecture(model, error)) return false;
    vram_config_quantization(quantization_of(&r), model);
    return true;
}
