/* report.c -- the report, errors and lists as JSON. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* cJSON prints 15 digits when they seem enough, and reads them back to be sure; a number read back must be the same to the last bit. */
cJSON *vram_json_whole(double value)
{
    char text[40];
    if (!isfinite(value)) return cJSON_CreateNull();
    if (value == floor(value) && fabs(value) < VRAM_LARGEST) {
        int at = (int)sizeof text - 1;
        text[at] = '\0';
        uint64_t rest = (uint64_t)fabs(value);
        do text[--at] = (char)('0' + rest % 10);
        while (rest /= 10);
        if (value < 0) text[--at] = '-';
        return cJSON_CreateRaw(text + at);
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return cJSON_CreateRaw(text);
}

/* Keys and ids are constants, which cJSON need not copy. */
static cJSON *add(cJSON *object, const char *key, cJSON *item)
{
    cJSON_AddItemToObjectCS(object, key, item);
    return item;
}

static cJSON *name_of(vram_list list, int value) { return cJSON_CreateStringReference(vram_name(list, value)); }
static void add_whole(cJSON *object, const char *key, double value) { add(object, key, vram_json_whole(value)); }
static void add_name(cJSON *object, const char *key, vram_list list, int value) { add(object, key, name_of(list, value)); }

static void add_formula(cJSON *object, int factors, const vram_factor factor[])
{
    cJSON *formula = add(object, "formula", cJSON_CreateArray());
    for (int i = 0; i < factors; i++) {
        cJSON *row = cJSON_CreateObject();
        add_name(row, "symbol", VRAM_LIST_SYMBOL, (int)factor[i].symbol);
        add_name(row, "id", VRAM_LIST_SYMBOL_ID, (int)factor[i].symbol);
        add_whole(row, "value", factor[i].value);
        cJSON_AddItemToArray(formula, row);
    }
}

static void add_phase_names(cJSON *object, unsigned phases)
{
    cJSON *array = add(object, "phases", cJSON_CreateArray());
    for (int p = 0; p < VRAM_PHASE_COUNT; p++)
        if (phases & VRAM_BIT(p)) cJSON_AddItemToArray(array, name_of(VRAM_LIST_PHASE, p));
}

static cJSON *entry_write(const vram_entry *e)
{
    cJSON *row = cJSON_CreateObject();
    add_name(row, "role", VRAM_LIST_ROLE, (int)e->role);
    add_name(row, "component", VRAM_LIST_COMPONENT, (int)e->component);
    add_name(row, "what", VRAM_LIST_WHAT, (int)e->what);
    add_whole(row, "bytes", e->bytes);
    add_name(row, "kind", VRAM_LIST_CERTAINTY, (int)e->kind);
    add_phase_names(row, e->phases);
    add_formula(row, e->factors, e->factor);
    add_name(row, "source", VRAM_LIST_SOURCE, (int)e->source);
    return row;
}

static void add_phases(cJSON *tree, const vram_report *r)
{
    cJSON *array = add(tree, "phases", cJSON_CreateArray());
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        if (!(r->phases & VRAM_BIT(p))) continue;
        cJSON *row = cJSON_CreateObject();
        add_name(row, "id", VRAM_LIST_PHASE, p);
        add_whole(row, "bytes", r->phase_bytes[p]);
        cJSON_AddItemToArray(array, row);
    }
}

static void add_fits(cJSON *tree, const vram_report *r)
{
    cJSON *array = add(tree, "fits", cJSON_CreateArray());
    for (int i = 0; i < r->fits; i++) {
        cJSON *row = cJSON_CreateObject();
        add(row, "gpu", cJSON_CreateStringReference(r->fit[i].gpu));
        add_whole(row, "usable_bytes", r->fit[i].usable_bytes);
        add_name(row, "verdict", VRAM_LIST_VERDICT, (int)r->fit[i].verdict);
        add_whole(row, "gpus_needed", (double)r->fit[i].gpus_needed);
        add_whole(row, "needed_bytes", r->fit[i].needed_bytes);
        add_whole(row, "headroom_bytes", r->fit[i].headroom_bytes);
        cJSON_AddItemToArray(array, row);
    }
}

static void add_notes(cJSON *tree, const vram_report *r)
{
    cJSON *array = add(tree, "notes", cJSON_CreateArray());
    for (int i = 0; i < r->notes; i++) {
        cJSON *row = cJSON_CreateObject(), *values;
        add_name(row, "id", VRAM_LIST_NOTE, (int)r->note[i].id);
        add(row, "path", cJSON_CreateStringReference(r->note[i].path));
        values = add(row, "values", cJSON_CreateArray());
        for (int k = 0; k < r->note[i].values; k++) cJSON_AddItemToArray(values, vram_json_whole(r->note[i].value[k]));
        cJSON_AddItemToArray(array, row);
    }
}

static void add_rules(cJSON *tree, const vram_report *r)
{
    cJSON *array = add(tree, "rules_of_thumb", cJSON_CreateArray());
    for (int i = 0; i < r->rules; i++) {
        cJSON *row = cJSON_CreateObject();
        add_name(row, "id", VRAM_LIST_RULE, (int)r->rule[i].id);
        add_whole(row, "bytes", r->rule[i].bytes);
        add_formula(row, r->rule[i].factors, r->rule[i].factor);
        cJSON_AddItemToArray(array, row);
    }
}

/* 1234567 -> "1,234,567" */
static int print_grouped(char *out, size_t room, double value)
{
    char digits[40];
    int n = snprintf(digits, sizeof digits, "%.0f", value), at = 0;
    for (int i = 0; i < n && at + 2 < (int)room; i++) {
        out[at++] = digits[i];
        if (i + 1 < n && (n - i - 1) % 3 == 0) out[at++] = ',';
    }
    out[at] = '\0';
    return at;
}

/* One placeholder of a log's line (words.h) */
static int print_placeholder(char *out, size_t room, char kind, int width, double value, const char *word)
{
    switch (kind) {
    case 'G': return snprintf(out, room, "%*.2f", width, value / 1073741824);
    case 'M': return snprintf(out, room, "%*.2f", width, value / 1048576);
    case 'f': return snprintf(out, room, "%*.2f", width, value);
    case 'd': return snprintf(out, room, "%*.0f", width, value);
    case 'c': return print_grouped(out, room, value);
    default: return snprintf(out, room, "%*s", width, word);
    }
}

int vram_json_log_text(const vram_log *line, char *out, size_t room)
{
    size_t at = 0;
    int value = 0, word = 0;
    out[0] = '\0';
    for (const char *t = vram_log_template(line->id); *t && at + 1 < room; t++) {
        int width = 0;
        if (*t != '%') {
            out[at++] = *t;
            out[at] = '\0';
            continue;
        }
        for (t++; *t >= '0' && *t <= '9'; t++) width = 10 * width + (*t - '0');
        int n = print_placeholder(out + at, room - at, *t, width, *t == 's' ? 0 : line->value[value], *t == 's' && line->word[word] ? line->word[word] : "");
        if (*t == 's') word++;
        else value++;
        at += n < 0 ? 0 : (size_t)vram_min((double)n, (double)(room - at - 1));
    }
    return (int)at;
}

/* The engine's own words: no translation, so the text is made here once for every front door. */
static void add_logs(cJSON *tree, const vram_report *r)
{
    cJSON *array = add(tree, "log", cJSON_CreateArray());
    char text[VRAM_JSON_LOG_ROOM];
    for (int i = 0; i < r->logs; i++) {
        cJSON *row = cJSON_CreateObject(), *values;
        add_name(row, "id", VRAM_LIST_LOG, (int)r->log[i].id);
        vram_json_log_text(&r->log[i], text, sizeof text);
        cJSON_AddStringToObject(row, "text", text);
        values = add(row, "values", cJSON_CreateArray());
        for (int k = 0; k < r->log[i].values; k++) cJSON_AddItemToArray(values, vram_json_whole(r->log[i].value[k]));
        cJSON_AddItemToArray(array, row);
    }
}

static void add_model(cJSON *tree, const vram_report *r)
{
    cJSON *model = add(tree, "model", cJSON_CreateObject());
    add_whole(model, "params_total", r->params_total);
    add_whole(model, "params_active", r->params_active);
    add_whole(model, "params_trainable", r->params_trainable);
}

static void add_components(cJSON *tree, const vram_report *r)
{
    cJSON *components = add(tree, "components", cJSON_CreateObject());
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
        if (r->component_bytes[c] > 0) add_whole(components, vram_name(VRAM_LIST_COMPONENT, c), r->component_bytes[c]);
}

cJSON *vram_json_report_write(const vram_scenario *s, const cJSON *source, const vram_report *r)
{
    cJSON *tree = cJSON_CreateObject(), *peak, *entries;
    add_whole(tree, "version", 1);
    add(tree, "scenario", vram_json_scenario_write(s, source));
    add_model(tree, r);
    peak = add(tree, "peak", cJSON_CreateObject());
    add_name(peak, "phase", VRAM_LIST_PHASE, (int)r->peak);
    add_whole(peak, "bytes", r->peak_bytes);
    add_phases(tree, r);
    entries = add(tree, "entries", cJSON_CreateArray());
    for (int i = 0; i < r->entries; i++) cJSON_AddItemToArray(entries, entry_write(&r->entry[i]));
    add_components(tree, r);
    add_whole(tree, "cluster_bytes", r->cluster_bytes);
    add(tree, "kv_tokens_capacity", r->kv_tokens_capacity < 0 ? cJSON_CreateNull() : vram_json_whole(r->kv_tokens_capacity));
    add(tree, "max_context", r->max_context < 0 ? cJSON_CreateNull() : vram_json_whole(r->max_context));
    add_fits(tree, r);
    add_notes(tree, r);
    add_rules(tree, r);
    add_logs(tree, r);
    return tree;
}

/* {"timeline": {"components": [..], "points": [{"phase", "place", "bytes": [..]}, ..]}}: bytes in the order of the components, which are those that occur */
cJSON *vram_json_timeline_write(const vram_timeline *t)
{
    cJSON *tree = cJSON_CreateObject(), *timeline = add(tree, "timeline", cJSON_CreateObject());
    cJSON *components = add(timeline, "components", cJSON_CreateArray()), *points = add(timeline, "points", cJSON_CreateArray());
    bool occurs[VRAM_COMPONENT_COUNT] = {false};
    for (int i = 0; i < t->points; i++)
        for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) occurs[c] |= t->point[i].bytes[c] > 0;
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
        if (occurs[c]) cJSON_AddItemToArray(components, name_of(VRAM_LIST_COMPONENT, c));
    for (int i = 0; i < t->points; i++) {
        cJSON *row = cJSON_CreateObject(), *bytes;
        add_name(row, "phase", VRAM_LIST_PHASE, (int)t->point[i].phase);
        add_whole(row, "place", t->point[i].place);
        bytes = add(row, "bytes", cJSON_CreateArray());
        for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
            if (occurs[c]) cJSON_AddItemToArray(bytes, vram_json_whole(t->point[i].bytes[c]));
        cJSON_AddItemToArray(points, row);
    }
    return tree;
}

static void add_division(cJSON *row, const vram_json_answer *a, const vram_json_division *d)
{
    cJSON *parallel = add(row, "parallel", cJSON_CreateObject());
    add_whole(parallel, "data", d->data);
    add_whole(parallel, "tensor", d->tensor);
    add_whole(parallel, "pipeline", d->pipeline);
    if (!a->trains) return;
    add_whole(parallel, "zero", d->zero);
    add_name(parallel, "engine", VRAM_LIST_PARALLEL_ENGINE, d->engine);
}

/* One that is not the answer itself, or null */
static void add_other(cJSON *row, const char *key, const vram_json_answer *a, const vram_json_division *d)
{
    cJSON *other = add(row, key, d->gpus > 0 ? cJSON_CreateObject() : cJSON_CreateNull());
    if (d->gpus <= 0) return;
    add_whole(other, "gpus", d->gpus);
    add_whole(other, "needed_bytes", d->needed_bytes);
    add_name(other, "verdict", VRAM_LIST_VERDICT, d->verdict);
    add_division(other, a, d);
}

/* {"solve": [..]} */
cJSON *vram_json_solution_write(int n, const vram_json_answer rows[])
{
    cJSON *tree = cJSON_CreateObject(), *array = add(tree, "solve", cJSON_CreateArray());
    for (int i = 0; i < n; i++) {
        const vram_json_answer *a = &rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "path", a->path);
        add(row, "value", !a->found ? cJSON_CreateNull() : a->word ? cJSON_CreateString(a->word) : vram_json_whole(a->value));
        add(row, "limit", a->limit > 0 ? vram_json_whole(a->limit) : cJSON_CreateNull());
        if (a->found) {
            add_whole(row, "bytes", a->bytes);
            add_whole(row, "needed_bytes", a->needed_bytes);
            add_whole(row, "headroom_bytes", a->headroom_bytes);
            add_name(row, "verdict", VRAM_LIST_VERDICT, a->verdict);
        }
        if (a->divides && a->found) add_division(row, a, &a->division);
        if (a->divides && !a->found) add_other(row, "nearest", a, &a->nearest);
        if (a->divides) add_other(row, "over", a, &a->over);
        cJSON_AddItemToArray(array, row);
    }
    return tree;
}

/* {"error": {"code", "path", "value", "min", "max"}}; min and max are null where no range applies */
cJSON *vram_json_error_write(const vram_error *e)
{
    cJSON *tree = cJSON_CreateObject(), *error = add(tree, "error", cJSON_CreateObject());
    bool range = e->min <= e->max;
    add_name(error, "code", VRAM_LIST_ERROR, (int)e->code);
    cJSON_AddStringToObject(error, "path", e->path);
    add(error, "value", e->text[0] ? cJSON_CreateString(e->text) : isinf(e->value) ? cJSON_CreateString(e->value > 0 ? "Infinity" : "-Infinity") : vram_json_whole(e->value));
    add(error, "min", range ? vram_json_whole(e->min) : cJSON_CreateNull());
    add(error, "max", range ? vram_json_whole(e->max) : cJSON_CreateNull());
    cJSON *values = e->code == VRAM_ERROR_UNKNOWN_VALUE ? vram_json_values(e->path) : NULL;
    if (values) add(error, "values", values);
    return tree;
}

static void add_names(cJSON *lists, const char *key, vram_list list)
{
    cJSON *array = add(lists, key, cJSON_CreateArray());
    for (int i = 0; i < vram_count(list); i++) cJSON_AddItemToArray(array, name_of(list, i));
}

static void add_pairs(cJSON *lists, const char *key, vram_list ids, const char *other, const char *(*value)(int))
{
    cJSON *array = add(lists, key, cJSON_CreateArray());
    for (int i = 0; i < vram_count(ids); i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "id", vram_name(ids, i));
        cJSON_AddStringToObject(row, other, value(i));
        cJSON_AddItemToArray(array, row);
    }
}

static const char *symbol_of(int i) { return vram_name(VRAM_LIST_SYMBOL, i); }
static const char *address_of(int i) { return vram_source_address((vram_source)i); }

static void add_formats(cJSON *lists)
{
    cJSON *array = add(lists, "format", cJSON_CreateArray());
    for (int i = 0; i < vram_format_count(); i++) {
        const vram_format_row *f = vram_format_get(i);
        cJSON *row = cJSON_CreateObject();
        add(row, "id", cJSON_CreateStringReference(f->id));
        add_whole(row, "bits", f->bits);
        cJSON_AddBoolToObject(row, "weights", f->weights);
        cJSON_AddBoolToObject(row, "cache", f->cache);
        cJSON_AddItemToArray(array, row);
    }
}

cJSON *vram_json_lists(void)
{
    static const struct { const char *key; vram_list list; } plain[] = {
        {"component", VRAM_LIST_COMPONENT}, {"phase", VRAM_LIST_PHASE}, {"role", VRAM_LIST_ROLE}, {"certainty", VRAM_LIST_CERTAINTY},
        {"verdict", VRAM_LIST_VERDICT}, {"what", VRAM_LIST_WHAT}, {"note", VRAM_LIST_NOTE}, {"error", VRAM_LIST_ERROR}, {"rule", VRAM_LIST_RULE}, {"log", VRAM_LIST_LOG},
    };
    cJSON *lists = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) add_names(lists, plain[i].key, plain[i].list);
    add_pairs(lists, "symbol", VRAM_LIST_SYMBOL_ID, "symbol", symbol_of);
    add_pairs(lists, "source", VRAM_LIST_SOURCE, "address", address_of);
    add_formats(lists);
    return lists;
}
