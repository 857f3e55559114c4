/* report.c -- what the door says of a scenario, for tests that read reports. */
#include "core.h"
#include "json/json.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static vram_json *world(void)
{
    static vram_json *json;
    if (!json) json = vram_json_open(vram_presets, vram_presets_bytes);
    return json;
}

const vram_report *test_report(const char *scenario)
{
    vram_json_free(vram_json_estimate(world(), scenario, strlen(scenario)));
    return vram_json_last(world());
}

vram_scenario *test_scenario(const char *scenario)
{
    static vram_scenario read;
    vram_error error;
    cJSON *tree = vram_json_parse(scenario, strlen(scenario), &error);
    bool done = tree && vram_json_scenario_read(world(), tree, &read, &(vram_json_configs){0}, &error);
    cJSON_Delete(tree);
    return done ? &read : NULL;
}

const vram_report *test_stage(const char *scenario, int stage)
{
    static vram_report report;
    vram_error error;
    vram_scenario *s = test_scenario(scenario);
    return s && vram_enter_stage(s, stage, false, &report, &error) ? &report : NULL;
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
