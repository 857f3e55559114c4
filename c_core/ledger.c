/* ledger.c -- the list of entries, and its sums. */
#include "core.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

bool vram_fail(vram_error *error, vram_error_code code, const char *path, double value, double min, double max)
{
    memset(error, 0, sizeof *error);
    error->code = code;
    for (size_t i = 0; path[i] && i + 1 < sizeof error->path; i++) error->path[i] = path[i];
    error->value = value;
    error->min = min;
    error->max = max;
    return false;
}

/* A full ledger keeps counting in its last place; vram_ledger_close() refuses it. */
vram_entry *vram_add(vram_report *report, vram_role role, vram_component component, vram_what what, vram_certainty kind,
                     vram_source source, unsigned phases)
{
    int last = VRAM_MAX_ENTRIES - 1;
    vram_entry *entry = &report->entry[report->entries < last ? report->entries : last];
    if (report->entries <= last) report->entries++;
    *entry = (vram_entry){.role = role, .component = component, .what = what, .kind = kind, .source = source, .phases = phases, .bytes = 1};
    return entry;
}

/* One factor more in a product; past the last place it joins the last factor, so that the product stays what is shown. */
static void multiply(int *factors, vram_factor factor[], double *bytes, vram_symbol symbol, double value)
{
    if (*factors < VRAM_MAX_FACTORS) factor[(*factors)++] = (vram_factor){symbol, value};
    else factor[VRAM_MAX_FACTORS - 1].value *= value;
    *bytes *= value;
}

vram_entry *vram_times(vram_entry *entry, vram_symbol symbol, double value)
{
    multiply(&entry->factors, entry->factor, &entry->bytes, symbol, value);
    return entry;
}

vram_rule *vram_rule_add(vram_report *report, vram_rule_id id)
{
    vram_rule *rule = &report->rule[report->rules < VRAM_MAX_RULES - 1 ? report->rules++ : VRAM_MAX_RULES - 1];
    *rule = (vram_rule){.id = id, .bytes = 1};
    return rule;
}

vram_rule *vram_rule_times(vram_rule *rule, vram_symbol symbol, double value)
{
    multiply(&rule->factors, rule->factor, &rule->bytes, symbol, value);
    return rule;
}

void vram_note_add(vram_report *report, vram_note_id id, const char *path, int values, const double value[])
{
    for (int i = 0; i < report->notes; i++)
        if (report->note[i].id == id && strcmp(report->note[i].path, path) == 0) return;
    if (report->notes >= VRAM_MAX_NOTES) return;
    vram_note *note = &report->note[report->notes++];
    *note = (vram_note){.id = id, .values = values > 4 ? 4 : values};
    for (size_t i = 0; path[i] && i + 1 < sizeof note->path; i++) note->path[i] = path[i];
    for (int i = 0; i < note->values; i++) note->value[i] = value[i];
}

static void drop_empty(vram_report *report)
{
    int kept = 0;
    for (int i = 0; i < report->entries; i++)
        if (report->entry[i].factors > 0 && report->entry[i].bytes != 0 && report->entry[i].phases != 0) report->entry[kept++] = report->entry[i];
    report->entries = kept;
}

static bool is_alike(const vram_entry *a, const vram_entry *b)
{
    bool alike = a->role == b->role && a->component == b->component && a->what == b->what && a->kind == b->kind && a->factors == b->factors;
    for (int i = 0; alike && i < a->factors; i++) alike = a->factor[i].symbol == b->factor[i].symbol && a->factor[i].value <= b->factor[i].value && a->factor[i].value >= b->factor[i].value;
    return alike;
}

/* The same n times: a factor more, in front, or a larger one */
static void repeat(vram_entry *e, double n)
{
    if (e->factor[0].symbol != VRAM_SYMBOL_COPIES) {
        memmove(&e->factor[1], &e->factor[0], (size_t)e->factors++ * sizeof e->factor[0]);
        e->factor[0] = (vram_factor){VRAM_SYMBOL_COPIES, 1};
    }
    e->factor[0].value *= n;
    e->bytes *= n;
}

/* Of alike entries, how many are alive in each phase: one entry for each number, in the places of the first ones */
static void join_alike(vram_report *report, int first)
{
    vram_entry one = report->entry[first];
    int alive[VRAM_PHASE_COUNT] = {0}, alike = 0, at = first;
    for (int i = first; i < report->entries; i++) {
        if (!is_alike(&report->entry[i], &one)) continue;
        for (int p = 0; p < VRAM_PHASE_COUNT; p++) alive[p] += (report->entry[i].phases & VRAM_BIT(p)) != 0;
        alike++;
        if (i > first) report->entry[i].phases = 0;
    }
    for (int n = 1; n <= alike && alike > 1; n++) {
        vram_entry joined = one;
        joined.phases = 0;
        for (int p = 0; p < VRAM_PHASE_COUNT; p++) joined.phases |= alive[p] == n ? VRAM_BIT(p) : 0;
        if (joined.phases == 0) continue;
        if (n > 1) repeat(&joined, n);
        while (at > first && !is_alike(&report->entry[at], &one)) at++;
        report->entry[at++] = joined;
    }
}

/* Nothing is listed twice: who reads two lines alike cannot know what differs. */
static void join(vram_report *report)
{
    for (int i = 0; i < report->entries; i++)
        if (report->entry[i].phases != 0 && report->entry[i].factors < VRAM_MAX_FACTORS) join_alike(report, i);
    drop_empty(report);
}

bool vram_ledger_close(vram_report *report, vram_error *error)
{
    if (report->entries >= VRAM_MAX_ENTRIES) return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", report->entries, 0, VRAM_MAX_ENTRIES - 1);
    drop_empty(report);
    join(report);
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        report->phase_bytes[p] = 0;
        for (int i = 0; i < report->entries; i++)
            if (report->entry[i].phases & VRAM_BIT(p)) report->phase_bytes[p] += report->entry[i].bytes;
        if (!(report->phase_bytes[p] >= 0 && report->phase_bytes[p] < VRAM_LARGEST))
            return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", report->phase_bytes[p], 0, VRAM_LARGEST - 1);
    }
    report->peak = VRAM_PHASE_LOAD;
    for (int p = 0; p < VRAM_PHASE_COUNT; p++)
        if ((report->phases & VRAM_BIT(p)) && report->phase_bytes[p] > report->phase_bytes[report->peak]) report->peak = (vram_phase)p;
    report->peak_bytes = report->phase_bytes[report->peak];
    memset(report->component_bytes, 0, sizeof report->component_bytes);
    for (int i = 0; i < report->entries; i++)
        if (report->entry[i].phases & VRAM_BIT(report->peak)) report->component_bytes[report->entry[i].component] += report->entry[i].bytes;
    return true;
}

double vram_bytes_alive(const vram_report *report, vram_phase phase, unsigned components)
{
    double bytes = 0;
    for (int i = 0; i < report->entries; i++)
        if ((report->entry[i].phases & VRAM_BIT(phase)) && (components & VRAM_BIT(report->entry[i].component))) bytes += report->entry[i].bytes;
    return bytes;
}
