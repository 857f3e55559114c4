/* The ledger: entries are products, phases are sums, the peak is the largest of them. */
#include "test.h"

#include "core.h"

#include <string.h>

static vram_report report; /* too large for a stack */

static vram_entry *entry(vram_component component, unsigned phases)
{
    return vram_add(&report, VRAM_ROLE_MODEL, component, VRAM_WHAT_ALL_WEIGHTS, VRAM_EXACT, VRAM_SOURCE_ARITHMETIC, phases);
}

static void start(unsigned phases)
{
    memset(&report, 0, sizeof report);
    report.phases = phases;
}

TEST(ledger_peak, "ledger: the peak is the largest phase, not the sum of all")
{
    static const unsigned load = 1 << VRAM_PHASE_LOAD, prefill = 1 << VRAM_PHASE_PREFILL, decode = 1 << VRAM_PHASE_DECODE;
    vram_error error;
    start(VRAM_PHASES_INFERENCE);
    vram_times(vram_times(entry(VRAM_COMPONENT_WEIGHTS, load | prefill | decode), VRAM_SYMBOL_PARAMETERS, 7e9), VRAM_SYMBOL_BYTES_PER_PARAMETER, 2);
    vram_times(entry(VRAM_COMPONENT_ACTIVATIONS, prefill), VRAM_SYMBOL_BYTES, 300);
    vram_times(entry(VRAM_COMPONENT_KV_CACHE, prefill | decode), VRAM_SYMBOL_BYTES, 100);
    CHECK(vram_ledger_close(&report, &error), "closes");
    CHECK(same(report.phase_bytes[VRAM_PHASE_LOAD], 14e9), "%.0f", report.phase_bytes[VRAM_PHASE_LOAD]);
    CHECK(same(report.phase_bytes[VRAM_PHASE_DECODE], 14000000100.0), "%.0f", report.phase_bytes[VRAM_PHASE_DECODE]);
    CHECK(report.peak == VRAM_PHASE_PREFILL && same(report.peak_bytes, 14000000400.0), "%.0f", report.peak_bytes);
    CHECK(same(report.component_bytes[VRAM_COMPONENT_WEIGHTS], 14e9), "%.0f", report.component_bytes[VRAM_COMPONENT_WEIGHTS]);
    CHECK(same(report.component_bytes[VRAM_COMPONENT_ACTIVATIONS], 300), "%.0f", report.component_bytes[VRAM_COMPONENT_ACTIVATIONS]);
}

TEST(ledger_empty, "ledger: what is never alive, has no factors or weighs nothing is dropped")
{
    vram_error error;
    start(VRAM_PHASES_INFERENCE);
    vram_times(entry(VRAM_COMPONENT_WEIGHTS, 0), VRAM_SYMBOL_BYTES, 5);
    entry(VRAM_COMPONENT_WEIGHTS, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(entry(VRAM_COMPONENT_WEIGHTS, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_LAYERS, 32), VRAM_SYMBOL_BYTES, 0);
    vram_times(entry(VRAM_COMPONENT_KV_CACHE, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_BYTES, 7);
    CHECK(vram_ledger_close(&report, &error), "closes");
    CHECK(report.entries == 1 && same(report.peak_bytes, 7), "%d entries", report.entries);
}

TEST(ledger_full, "ledger: a full one is refused, not cut short")
{
    vram_error error;
    start(VRAM_PHASES_INFERENCE);
    for (int i = 0; i < VRAM_MAX_ENTRIES + 10; i++) vram_times(entry(VRAM_COMPONENT_WEIGHTS, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_BYTES, 1);
    CHECK(!vram_ledger_close(&report, &error), "must not close");
    CHECK(error.code == VRAM_ERROR_TOO_LARGE, "%s", vram_name(VRAM_LIST_ERROR, (int)error.code));
}

TEST(ledger_large, "ledger: a sum at or above 2^53 is refused")
{
    static const struct { double bytes; bool closes; } cases[] = {{9007199254740991.0, true}, {9007199254740992.0, false}, {1e300, false}};
    for (int i = 0; i < COUNT(cases); i++) {
        vram_error error = {.code = VRAM_ERROR_NONE};
        start(VRAM_PHASES_INFERENCE);
        vram_times(entry(VRAM_COMPONENT_WEIGHTS, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_BYTES, cases[i].bytes);
        CHECK(vram_ledger_close(&report, &error) == cases[i].closes, "%g", cases[i].bytes);
        CHECK(cases[i].closes || error.code == VRAM_ERROR_TOO_LARGE, "%g", cases[i].bytes);
    }
}

TEST(ledger_factors, "ledger: more factors than an entry shows are drawn together, and the product holds")
{
    start(VRAM_PHASES_INFERENCE);
    vram_entry *e = entry(VRAM_COMPONENT_WEIGHTS, VRAM_PHASES_INFERENCE);
    for (int i = 0; i < VRAM_MAX_FACTORS + 3; i++) vram_times(e, VRAM_SYMBOL_COPIES, 2);
    double product = 1;
    for (int i = 0; i < e->factors; i++) product *= e->factor[i].value;
    CHECK(e->factors == VRAM_MAX_FACTORS, "%d", e->factors);
    CHECK(same(product, e->bytes) && same(product, 2048), "%.0f", product);
}

TEST(ledger_notes, "ledger: a note is kept once")
{
    static const double two[] = {8, 16};
    start(VRAM_PHASES_INFERENCE);
    for (int i = 0; i < 40; i++) vram_note_add(&report, VRAM_NOTE_KV_HEADS_REPLICATED, "parallel.tensor", 2, two);
    CHECK(report.notes == 1 && report.note[0].values == 2 && same(report.note[0].value[1], 16), "%d notes", report.notes);
}

TEST(ledger_rounding, "arithmetic: division and rounding go up, and whole numbers stay")
{
    static const struct { double a, b, divided, rounded; } cases[] = {
        {0, 256, 0, 0}, {1, 256, 1, 256}, {256, 256, 1, 256}, {257, 256, 2, 512}, {7e9, 2, 3.5e9, 7e9}, {9007199254740991.0, 1, 9007199254740991.0, 9007199254740991.0},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(same(vram_ceil_div(cases[i].a, cases[i].b), cases[i].divided), "%.0f / %.0f", cases[i].a, cases[i].b);
        CHECK(same(vram_round_up(cases[i].a, cases[i].b), cases[i].rounded), "%.0f up to %.0f", cases[i].a, cases[i].b);
    }
}

TEST(ledger_fail, "errors: a path too long is cut, not overrun")
{
    vram_error error;
    char path[300];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    CHECK(!vram_fail(&error, VRAM_ERROR_RANGE, path, 5, 1, 4), "false");
    CHECK(strlen(error.path) == sizeof error.path - 1, "%zu", strlen(error.path));
    CHECK(error.code == VRAM_ERROR_RANGE && same(error.value, 5) && same(error.min, 1) && same(error.max, 4), "kept");
}

/* Twice 10 in one phase, of which one lives on: 2 x 10 there, and 10 after it. What stands in two phases one after the other is one line. */
TEST(ledger_alike, "ledger: no two entries are alike: they are counted, or said once for all their phases")
{
    static const unsigned load = 1 << VRAM_PHASE_LOAD, prefill = 1 << VRAM_PHASE_PREFILL, decode = 1 << VRAM_PHASE_DECODE;
    vram_error error;
    start(VRAM_PHASES_INFERENCE);
    vram_times(entry(VRAM_COMPONENT_LOGITS, prefill), VRAM_SYMBOL_BYTES, 10);
    vram_times(entry(VRAM_COMPONENT_KV_CACHE, load), VRAM_SYMBOL_BYTES, 7);
    vram_times(entry(VRAM_COMPONENT_LOGITS, prefill | decode), VRAM_SYMBOL_BYTES, 10);
    vram_times(entry(VRAM_COMPONENT_KV_CACHE, decode), VRAM_SYMBOL_BYTES, 7);
    vram_times(vram_times(entry(VRAM_COMPONENT_WEIGHTS, load), VRAM_SYMBOL_COPIES, 3), VRAM_SYMBOL_BYTES, 5);
    vram_times(vram_times(entry(VRAM_COMPONENT_WEIGHTS, load), VRAM_SYMBOL_COPIES, 3), VRAM_SYMBOL_BYTES, 5);
    CHECK(vram_ledger_close(&report, &error), "closes");
    CHECK(report.entries == 4, "%d entries", report.entries);
    CHECK(same(report.phase_bytes[VRAM_PHASE_LOAD], 37) && same(report.phase_bytes[VRAM_PHASE_PREFILL], 20) && same(report.phase_bytes[VRAM_PHASE_DECODE], 17), "sums stay");
    for (int i = 0; i < report.entries; i++) {
        const vram_entry *e = &report.entry[i];
        double product = 1;
        for (int k = 0; k < e->factors; k++) product *= e->factor[k].value;
        CHECK(same(product, e->bytes), "%.0f", e->bytes);
        CHECK(e->component != VRAM_COMPONENT_KV_CACHE || e->phases == (load | decode), "one line for both phases");
        CHECK(e->component != VRAM_COMPONENT_WEIGHTS || (e->factors == 2 && same(e->factor[0].value, 6)), "six copies");
    }
}
