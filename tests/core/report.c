/* report.c -- what the door says of a scenario, for tests that read reports. */
#include "core.h"
#include "json/api.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

const vram_report *test_report(const char *scenario)
{
    static vram_json *json;
    if (!json) json = vram_json_open(vram_presets, vram_presets_bytes);
    vram_json_free(vram_json_estimate(json, scenario, strlen(scenario)));
    return vram_json_last(json);
}

double test_alive(const char *scenario, vram_phase phase, unsigned components)
{
    const vram_report *r = test_report(scenario);
    return r ? vram_bytes_alive(r, phase, components) : 0;
}

double test_peak(const char *scenario)
{
    double most = 0;
    for (int phase = 0; phase <= VRAM_PHASE_STEP; phase++) most = vram_max(most, test_alive(scenario, (vram_phase)phase, ~0u));
    return most;
}
