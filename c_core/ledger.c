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

bool vram_ledger_close(vram_report *report, vram_error *error)
{
    if (report->entries >= VRAM_MAX_ENTRIES) return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", report->entries, 0, VRAM_MAX_ENTRIES - 1);
    drop_empty(report);
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
