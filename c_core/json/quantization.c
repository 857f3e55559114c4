/* quantization.c -- what a config's quantization_config says of the stored weights: format, group, and what it leaves in 16 bit.
 *
 * Exceptions are named in three manners: names or parts of them (modules_to_not_convert: fp8, AWQ, GPTQ, MXFP4, bitsandbytes' llm_int8_skip_modules), shell
 * patterns (modelopt), regular expressions behind "re:" (compressed-tensors). All are read as patterns of one kind: stars, and (one|another) spelled out.
 * Sources: transformers/quantizers/quantizers_utils.py (should_convert_module), https://github.com/neuralmagic/compressed-tensors
 * (utils/match.py), https://github.com/NVIDIA/TensorRT-Model-Optimizer (export/quant_utils.py). */
#include "families.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERN = 160, PATH = 160 };

static const cJSON *at(const cJSON *object, const char *path)
{
    size_t n = strcspn(path, ".");
    char key[64];
    if (n >= sizeof key) return NULL;
    memcpy(key, path, n);
    key[n] = '\0';
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return path[n] ? at(item, path + n + 1) : item;
}

/* The first that is there, of names separated by NULL */
static const cJSON *any(const cJSON *object, const char *const names[])
{
    for (int i = 0; names[i]; i++)
        if (at(object, names[i]) && !cJSON_IsNull(at(object, names[i]))) return at(object, names[i]);
    return NULL;
}

static double number(const cJSON *q, const char *const names[], double standard)
{
    const cJSON *item = any(q, names);
    return cJSON_IsNumber(item) ? item->valuedouble : standard;
}

static const char *text(const cJSON *q, const char *path)
{
    const cJSON *item = at(q, path);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* ------------------------------------------------------------------------------------------------------------ the format -- */

#define WEIGHTS "config_groups.group_0.weights."
static const char *const bit_keys[] = {"bits", "num_bits", WEIGHTS "num_bits", "w_bit", "quant_config.weight_quant_params.nbits", NULL};
static const char *const group_keys[] = {"group_size", WEIGHTS "group_size", "q_group_size", "quant_config.weight_quant_params.group_size", NULL};

/* compressed-tensors and modelopt: type, bits, strategy of the first group */
static const char *grouped_format(const cJSON *q, double bits, double group)
{
    const char *strategy = text(q, WEIGHTS "strategy"), *algorithm = text(q, "quant_algo");
    bool floating = is(text(q, WEIGHTS "type"), "float") || strstr(text(q, "format"), "fp") || *algorithm;
    if (is(algorithm, "NVFP4") || strstr(text(q, "format"), "nvfp4")) return "nvfp4";
    if (is(algorithm, "FP8") || is(algorithm, "FP8_PER_CHANNEL_PER_TOKEN")) return "fp8-dynamic";
    if (is(strategy, "block") || strstr(algorithm, "FP8_PB")) return "fp8-block128";
    if (floating && bits <= 4) return group >= 32 || strstr(text(q, "format"), "mxfp4") || strstr(algorithm, "MXFP4") ? "mxfp4" : "nvfp4";
    return floating || bits > 4 ? "fp8-dynamic" : group <= 0 ? "gptq-int4" : "gptq-int4-g128"; /* int8 by channels weighs as fp8 does */
}

/* The row of format.c that is stored alike, but for bits and group. NULL: none that we know. */
static const char *format_of(const cJSON *q, double bits, double group)
{
    static const struct { const char *method, *format; } plain[] = {
        {"fbgemm_fp8", "fp8-dynamic"}, {"mxfp4", "mxfp4"}, {"awq", "awq-int4-g128"}, {"modelopt_fp4", "nvfp4"}, {"modelopt_mxfp8", "fp8-block128"}, {"eetq", "fp8-dynamic"}, {"hqq", "awq-int4-g128"},
    };
    const char *method = text(q, "quant_method");
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (is(method, plain[i].method)) return plain[i].format;
    if (is(method, "fp8")) return cJSON_IsArray(at(q, "weight_block_size")) ? "fp8-block128" : "fp8-dynamic";
    if (is(method, "modelopt") || is(method, "compressed-tensors") || is(method, "compressed_tensors")) return grouped_format(q, bits, group);
    if (is(method, "bitsandbytes")) return cJSON_IsTrue(at(q, "load_in_4bit")) && cJSON_IsTrue(at(q, "bnb_4bit_use_double_quant")) ? "nf4-dq" : "nf4";
    if (is(method, "gptq") || is(method, "auto-round") || is(method, "intel/auto-round")) return bits > 4 ? "gptq-int8-g128" : group <= 0 ? "gptq-int4" : "gptq-int4-g128";
    return NULL;
}

/* What the row has otherwise: numbers that share a scale, bits of one */
static void details(const cJSON *q, vram_model *m, double bits, double group)
{
    const char *method = text(q, "quant_method"), *format = vram_name(VRAM_LIST_FORMAT, m->native);
    bool packs = is(method, "gptq") || is(method, "awq") || is(method, "hqq") || strstr(method, "auto-round"), listed = strstr(method, "compressed") || is(method, "modelopt");
    if (packs || (listed && strncmp(format, "gptq", 4) == 0)) {
        m->native_group = group <= 0 ? -1 : (int64_t)group;
        m->native_bits = bits >= 1 && bits <= 8 ? (int64_t)bits : 0;
    }
    if (listed) m->native_symmetric = !cJSON_IsFalse(at(q, WEIGHTS "symmetric"));
    if (is(text(q, WEIGHTS "strategy"), "channel") || is(method, "eetq") || is(method, "fbgemm_fp8")) m->native_group = -1;
    if (is(method, "bitsandbytes") && !cJSON_IsTrue(at(q, "load_in_4bit"))) { /* LLM.int8(): an fp32 maximum a row */
        m->native_group = -1;
        m->native_bits = 8;
    }
}

/* ------------------------------------------------------------------------------------------------------------- exceptions -- */

/* '*' is any text */
static bool glob(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*pattern == '*') star = ++pattern, from = name;
        else if (*pattern == *name) pattern++, name++;
        else if (star) pattern = star, name = ++from;
        else return false;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

/* The first (one|another) replaced by each in turn, the rest left to the next call; a few deep. */
static bool spelled_out(const char *pattern, const char *name, int depth)
{
    const char *open = strchr(pattern, '('), *close = open ? strchr(open, ')') : NULL;
    char one[PATTERN];
    if (!open) return glob(pattern, name);
    if (!close || depth == 0) return false;
    for (const char *from = open + 1; from <= close;) {
        size_t head = (size_t)(open - pattern), length = strcspn(from, "|)"), tail = strlen(close + 1);
        if (head + length + tail >= sizeof one) return false;
        memcpy(one, pattern, head);
        memcpy(one + head, from, length);
        memcpy(one + head + length, close + 1, tail + 1);
        if (spelled_out(one, name, depth - 1)) return true;
        from += length + 1;
    }
    return false;
}

/* A regular expression as stars: ".*", "\d+", "[0-9]" are any text, "\." is a dot. False for what looks ahead. */
static bool from_regex(const char *said, char out[PATTERN])
{
    size_t n = 0;
    bool ends = false;
    out[n++] = '*';
    for (const char *c = said; *c && n + 3 < PATTERN; c++) {
        bool wild = (*c == '.' && (c[1] == '*' || c[1] == '+')) || *c == '[' || (*c == '\\' && c[1] == 'd');
        if (*c == '?' && c[-1] == '(') {
            if (c[1] != ':') return false;
            c++;
        } else if (*c == '$') ends = true;
        else if (*c == '^') continue;
        else if (wild) {
            if (*c == '[') c += strcspn(c, "]") - (c[strcspn(c, "]")] == '\0');
            else c++;
            if (c[1] == '*' || c[1] == '+' || c[1] == '?') c++;
            out[n++] = '*';
        } else {
            if (*c == '\\' && c[1]) c++;
            out[n++] = *c;
        }
    }
    if (!ends) out[n++] = '*';
    else out[n++] = '.'; /* names end with a dot here */
    out[n] = '\0';
    return true;
}

/* What stands before the layers (model, language_model.model, model.language_model) tells nothing. */
static const char *without_prefix(const char *said)
{
    const char *layers = strstr(said, "layers"), *group = strchr(said, '(');
    return layers && !(group && group < layers) ? layers : said;
}

/* Plain names are whole parts between dots, anywhere in the path. */
static bool from_name(const char *said, char out[PATTERN])
{
    size_t n = strlen(said);
    if (n + 5 > PATTERN) return false;
    memcpy(out, "*.", 2);
    memcpy(out + 2, said, n);
    memcpy(out + 2 + n, said[n > 0 ? n - 1 : 0] == '*' ? "" : ".*", said[n > 0 ? n - 1 : 0] == '*' ? 1 : 3);
    return true;
}

/* The modules that a part of a layer may stand in */
static const char *const *modules_of(const vram_model *m, const vram_tensor *t)
{
    static const char *const attention[] = {"self_attn", "attention", NULL}, *const mlp[] = {"mlp", "feed_forward", NULL}, *const experts[] = {"mlp.experts.0", "block_sparse_moe.experts.0", "feed_forward.experts.0", NULL},
        *const shared[] = {"mlp.shared_experts", "mlp.shared_expert", "feed_forward.shared_expert", NULL}, *const mixers[] = {"linear_attn", "mamba", "mixer", NULL}, *const delta[] = {"linear_attn", "self_attn", NULL}, *const none[] = {"", NULL};
    bool deltas = t->kind >= 0 && (m->kind[t->kind].state.type == VRAM_STATE_KDA || m->kind[t->kind].state.type == VRAM_STATE_GATED_DELTA);
    switch (t->part) {
    case VRAM_PART_ATTENTION: return attention;
    case VRAM_PART_MLP: return mlp;
    case VRAM_PART_EXPERT: return experts;
    case VRAM_PART_SHARED_EXPERT: return shared;
    case VRAM_PART_STATE: return deltas ? delta : mixers;
    default: return none;
    }
}

/* ".model.layers.7.self_attn.q_proj." */
static void path_of(int64_t layer, const char *module, const char *name, char path[PATH])
{
    const char digits[5] = {(char)('0' + layer / 1000 % 10), (char)('0' + layer / 100 % 10), (char)('0' + layer / 10 % 10), (char)('0' + layer % 10), '\0'};
    const char *const parts[] = {".model.layers.", digits + (layer < 10 ? 3 : layer < 100 ? 2 : layer < 1000 ? 1 : 0), ".", module, *module ? "." : "", name, "."};
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (const char *c = parts[i]; *c && n + 1 < PATH; c++) path[n++] = *c;
    path[n] = '\0';
}

static bool names_tensor(const vram_model *m, const vram_tensor *t, const char *pattern, int64_t layer)
{
    char path[PATH];
    const char *name = t->stacked && is(t->name, "gate_up_proj") ? "gate_proj" : t->name;
    for (const char *const *module = modules_of(m, t); *module; module++) {
        path_of(layer, *module, name, path);
        if (spelled_out(pattern, path, 4)) return true;
    }
    return false;
}

/* "layers.7." -> 7; -1: no layer in particular; -2: some, in a manner that must be tried layer by layer */
static int64_t layer_said(const char *said)
{
    const char *c = strstr(said, "layers");
    int64_t n = 0;
    if (!c) return -1;
    for (c += 6; *c == '.' || *c == '\\'; c++) continue;
    if (*c < '0' || *c > '9') return *c == '(' || *c == '[' ? -2 : -1;
    for (; *c >= '0' && *c <= '9'; c++) n = n < VRAM_MAX_LAYERS ? 10 * n + (*c - '0') : n;
    return *c == '.' || *c == '\\' || *c == '\0' ? n : -2;
}

/* An entry made ready */
typedef struct { int64_t only; char pattern[PATTERN]; } exception;

/* All of a list; NULL when nothing can be said. The caller frees it. */
static exception *made_ready(const cJSON *list, int *count)
{
    const cJSON *entry;
    exception *all = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *all);
    *count = 0;
    cJSON_ArrayForEach(entry, list) {
        const char *said = cJSON_IsString(entry) ? entry->valuestring : "";
        bool regex = strncmp(said, "re:", 3) == 0;
        if (!all || !*said) continue;
        all[*count].only = layer_said(said);
        if (regex ? from_regex(without_prefix(said + 3), all[*count].pattern) : from_name(without_prefix(said), all[*count].pattern)) ++*count;
    }
    return all;
}

/* Marks the layers of a tensor that an entry names; those that several name count once. */
static void apply(const vram_model *m, const exception *e, const vram_tensor *t, unsigned char mark[VRAM_MAX_LAYERS])
{
    int named = -1;
    if (e->only >= 0) {
        if (e->only < m->layers && m->layer_kind[e->only] == t->kind && !mark[e->only]) mark[e->only] = names_tensor(m, t, e->pattern, e->only);
        return;
    }
    for (int64_t i = 0; i < m->layers; i++) {
        if (m->layer_kind[i] != t->kind) continue;
        if (named < 0 || e->only == -2) named = names_tensor(m, t, e->pattern, i); /* without a number all layers are as the first */
        if (named) mark[i] = 1;
        else if (e->only == -1) return;
    }
}

static void count_kept(const cJSON *list, vram_model *m, bool others)
{
    int count;
    exception *all = made_ready(list, &count);
    for (int k = 0; all && k < m->tensors; k++) {
        vram_tensor *t = &m->tensor[k];
        unsigned char mark[VRAM_MAX_LAYERS] = {0};
        int64_t named = 0, layers = 0;
        if (t->kind < 0 || !(t->linear || t->stacked) || t->columns == 1) continue;
        for (int e = 0; e < count; e++) apply(m, &all[e], t, mark);
        for (int64_t i = 0; i < m->layers; i++) layers += m->layer_kind[i] == t->kind, named += mark[i];
        int64_t kept = others ? layers - named : named;
        if (kept == layers) kept = t->layers; /* blocks that layers share */
        t->kept = kept > t->kept ? kept : t->kept;
    }
    free(all);
}

/* Targets that are not "Linear" name all that is packed. */
static void exceptions(const cJSON *q, vram_model *m)
{
    static const char *const lists[] = {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "llm_int8_skip_modules", "quantization.exclude_modules", NULL};
    const cJSON *left = any(q, lists), *targets = at(q, "config_groups.group_0.targets"), *first = cJSON_GetArrayItem(targets, 0);
    if (cJSON_IsArray(left)) count_kept(left, m, false);
    if (cJSON_IsString(first) && !is(first->valuestring, "Linear")) count_kept(targets, m, true);
    if (!is(text(q, "targets"), "routed experts")) return;
    for (int k = 0; k < m->tensors; k++)
        if (m->tensor[k].part != VRAM_PART_EXPERT) m->tensor[k].kept = m->tensor[k].layers;
}

void vram_config_quantization(const cJSON *q, vram_model *model)
{
    double bits = number(q, bit_keys, 4), group = number(q, group_keys, 128);
    const char *format = cJSON_IsObject(q) ? format_of(q, bits, group) : NULL;
    model->native = -1;
    model->native_unknown = q && !cJSON_IsNull(q) && !format;
    if (!format || !(group > -2 && group <= CONFIG_WIDEST)) return;
    model->native = vram_find(VRAM_LIST_FORMAT, format);
    details(q, model, bits, group);
    exceptions(q, model);
}
