/* report.c -- the report, errors and lists as JSON. */
#include "json.h"

#include <math.h>
#include <stdio.h>

static void add_name(vram_text *t, const char *key, vram_list list, int value) { vram_text_string(t, key, vram_name(list, value)); }

static void add_numbers(vram_text *t, const char *key, int n, const double value[])
{
    vram_text_open(t, key, '[');
    for (int i = 0; i < n; i++) vram_text_number(t, NULL, value[i]);
    vram_text_close(t, ']');
}

static void add_formula(vram_text *t, int factors, const vram_factor factor[])
{
    vram_text_open(t, "formula", '[');
    for (int i = 0; i < factors; i++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "symbol", VRAM_LIST_SYMBOL, (int)factor[i].symbol);
        add_name(t, "id", VRAM_LIST_SYMBOL_ID, (int)factor[i].symbol);
        vram_text_number(t, "value", factor[i].value);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_phase_names(vram_text *t, unsigned phases)
{
    vram_text_open(t, "phases", '[');
    for (int p = 0; p < VRAM_PHASE_COUNT; p++)
        if (phases & VRAM_BIT(p)) add_name(t, NULL, VRAM_LIST_PHASE, p);
    vram_text_close(t, ']');
}

static void add_entries(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "entries", '[');
    for (const vram_entry *e = r->entry; e < r->entry + r->entries; e++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "role", VRAM_LIST_ROLE, (int)e->role);
        add_name(t, "component", VRAM_LIST_COMPONENT, (int)e->component);
        add_name(t, "what", VRAM_LIST_WHAT, (int)e->what);
        vram_text_number(t, "bytes", e->bytes);
        add_name(t, "kind", VRAM_LIST_CERTAINTY, (int)e->kind);
        add_phase_names(t, e->phases);
        add_formula(t, e->factors, e->factor);
        add_name(t, "source", VRAM_LIST_SOURCE, (int)e->source);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_phases(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "phases", '[');
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        if (!(r->phases & VRAM_BIT(p))) continue;
        vram_text_open(t, NULL, '{');
        add_name(t, "id", VRAM_LIST_PHASE, p);
        vram_text_number(t, "bytes", r->phase_bytes[p]);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_fits(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "fits", '[');
    for (const vram_fit *f = r->fit; f < r->fit + r->fits; f++) {
        vram_text_open(t, NULL, '{');
        vram_text_string(t, "gpu", f->gpu);
        vram_text_number(t, "usable_bytes", f->usable_bytes);
        add_name(t, "verdict", VRAM_LIST_VERDICT, (int)f->verdict);
        vram_text_number(t, "gpus_needed", (double)f->gpus_needed);
        vram_text_number(t, "needed_bytes", f->needed_bytes);
        vram_text_number(t, "headroom_bytes", f->headroom_bytes);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_notes(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "notes", '[');
    for (const vram_note *n = r->note; n < r->note + r->notes; n++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "id", VRAM_LIST_NOTE, (int)n->id);
        vram_text_string(t, "path", n->path);
        add_numbers(t, "values", n->values, n->value);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_rules(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "rules_of_thumb", '[');
    for (const vram_rule *rule = r->rule; rule < r->rule + r->rules; rule++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "id", VRAM_LIST_RULE, (int)rule->id);
        vram_text_number(t, "bytes", rule->bytes);
        add_formula(t, rule->factors, rule->factor);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
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
static void add_logs(vram_text *t, const vram_report *r)
{
    char text[VRAM_JSON_LOG_ROOM];
    vram_text_open(t, "log", '[');
    for (const vram_log *line = r->log; line < r->log + r->logs; line++) {
        vram_json_log_text(line, text, sizeof text);
        vram_text_open(t, NULL, '{');
        add_name(t, "id", VRAM_LIST_LOG, (int)line->id);
        vram_text_string(t, "text", text);
        add_numbers(t, "values", line->values, line->value);
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static void add_model(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "model", '{');
    vram_text_number(t, "params_total", r->params_total);
    vram_text_number(t, "params_active", r->params_active);
    vram_text_number(t, "params_trainable", r->params_trainable);
    vram_text_close(t, '}');
}

static void add_components(vram_text *t, const vram_report *r)
{
    vram_text_open(t, "components", '{');
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
        if (r->component_bytes[c] > 0) vram_text_number(t, vram_name(VRAM_LIST_COMPONENT, c), r->component_bytes[c]);
    vram_text_close(t, '}');
}

static double if_any(double value) { return value < 0 ? VRAM_NO_NUMBER : value; }

void vram_json_report_write(vram_text *t, const vram_scenario *s, const cJSON *source, const vram_report *r)
{
    vram_text_open(t, NULL, '{');
    vram_text_number(t, "version", 1);
    vram_json_scenario_write(t, "scenario", s, source);
    add_model(t, r);
    vram_text_open(t, "peak", '{');
    add_name(t, "phase", VRAM_LIST_PHASE, (int)r->peak);
    vram_text_number(t, "bytes", r->peak_bytes);
    vram_text_close(t, '}');
    add_phases(t, r);
    add_entries(t, r);
    add_components(t, r);
    vram_text_number(t, "cluster_bytes", r->cluster_bytes);
    vram_text_number(t, "kv_tokens_capacity", if_any(r->kv_tokens_capacity));
    vram_text_number(t, "max_context", if_any(r->max_context));
    add_fits(t, r);
    add_notes(t, r);
    add_rules(t, r);
    add_logs(t, r);
    vram_text_close(t, '}');
}

/* {"timeline": {"components": [..], "points": [{"phase", "place", "bytes": [..]}, ..]}}: bytes in the order of the components, which are those that occur */
void vram_json_timeline_write(vram_text *t, const vram_timeline *timeline)
{
    bool occurs[VRAM_COMPONENT_COUNT] = {false};
    for (int i = 0; i < timeline->points; i++)
        for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) occurs[c] |= timeline->point[i].bytes[c] > 0;
    vram_text_open(t, NULL, '{');
    vram_text_open(t, "timeline", '{');
    vram_text_open(t, "components", '[');
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
        if (occurs[c]) add_name(t, NULL, VRAM_LIST_COMPONENT, c);
    vram_text_close(t, ']');
    vram_text_open(t, "points", '[');
    for (const vram_point *p = timeline->point; p < timeline->point + timeline->points; p++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "phase", VRAM_LIST_PHASE, (int)p->phase);
        vram_text_number(t, "place", p->place);
        vram_text_open(t, "bytes", '[');
        for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
            if (occurs[c]) vram_text_number(t, NULL, p->bytes[c]);
        vram_text_close(t, ']');
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
    vram_text_close(t, '}');
    vram_text_close(t, '}');
}

/* {"solve": [..]} */
void vram_json_solution_write(vram_text *t, int n, const vram_json_answer rows[])
{
    vram_text_open(t, NULL, '{');
    vram_text_open(t, "solve", '[');
    for (const vram_json_answer *a = rows; a < rows + n; a++) {
        vram_text_open(t, NULL, '{');
        vram_text_string(t, "path", a->path);
        if (a->found && a->word) vram_text_string(t, "value", a->word);
        else vram_text_number(t, "value", a->found ? a->value : VRAM_NO_NUMBER);
        vram_text_number(t, "limit", a->limit > 0 ? a->limit : VRAM_NO_NUMBER);
        if (a->found) {
            vram_text_number(t, "bytes", a->bytes);
            vram_text_number(t, "needed_bytes", a->needed_bytes);
            vram_text_number(t, "headroom_bytes", a->headroom_bytes);
            add_name(t, "verdict", VRAM_LIST_VERDICT, a->verdict);
        }
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
    vram_text_close(t, '}');
}

/* {"code", "path", "value", "min", "max"}; min and max are null where no range applies */
void vram_json_error_write(vram_text *t, const char *key, const vram_error *e)
{
    bool range = e->min <= e->max;
    vram_text_open(t, key, '{');
    add_name(t, "code", VRAM_LIST_ERROR, (int)e->code);
    vram_text_string(t, "path", e->path);
    if (e->text[0]) vram_text_string(t, "value", e->text);
    else if (isinf(e->value)) vram_text_string(t, "value", e->value > 0 ? "Infinity" : "-Infinity");
    else vram_text_number(t, "value", e->value);
    vram_text_number(t, "min", range ? e->min : VRAM_NO_NUMBER);
    vram_text_number(t, "max", range ? e->max : VRAM_NO_NUMBER);
    vram_text_close(t, '}');
}

static void add_names(vram_text *t, const char *key, vram_list list)
{
    vram_text_open(t, key, '[');
    for (int i = 0; i < vram_count(list); i++) add_name(t, NULL, list, i);
    vram_text_close(t, ']');
}

static void add_pairs(vram_text *t, const char *key, vram_list ids, const char *other, const char *(*value)(int))
{
    vram_text_open(t, key, '[');
    for (int i = 0; i < vram_count(ids); i++) {
        vram_text_open(t, NULL, '{');
        add_name(t, "id", ids, i);
        vram_text_string(t, other, value(i));
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

static const char *symbol_of(int i) { return vram_name(VRAM_LIST_SYMBOL, i); }
static const char *address_of(int i) { return vram_source_address((vram_source)i); }

static void add_formats(vram_text *t)
{
    vram_text_open(t, "format", '[');
    for (int i = 0; i < vram_format_count(); i++) {
        const vram_format_row *f = vram_format_get(i);
        vram_text_open(t, NULL, '{');
        vram_text_string(t, "id", f->id);
        vram_text_number(t, "bits", f->bits);
        vram_text_word(t, "weights", f->weights ? "true" : "false");
        vram_text_word(t, "cache", f->cache ? "true" : "false");
        vram_text_close(t, '}');
    }
    vram_text_close(t, ']');
}

void vram_json_lists(vram_text *t, const char *key)
{
    static const struct { const char *key; vram_list list; } plain[] = {
        {"component", VRAM_LIST_COMPONENT}, {"phase", VRAM_LIST_PHASE}, {"role", VRAM_LIST_ROLE}, {"certainty", VRAM_LIST_CERTAINTY},
        {"verdict", VRAM_LIST_VERDICT}, {"what", VRAM_LIST_WHAT}, {"note", VRAM_LIST_NOTE}, {"error", VRAM_LIST_ERROR}, {"rule", VRAM_LIST_RULE}, {"log", VRAM_LIST_LOG},
    };
    vram_text_open(t, key, '{');
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) add_names(t, plain[i].key, plain[i].list);
    add_pairs(t, "symbol", VRAM_LIST_SYMBOL_ID, "symbol", symbol_of);
    add_pairs(t, "source", VRAM_LIST_SOURCE, "address", address_of);
    add_formats(t);
    vram_text_close(t, '}');
}
