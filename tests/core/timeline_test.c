/* The step through time is the ledger's own: of scenarios drawn at random (always the same ones) each phase is at its highest instant what its entries add up to. */
#include "cJSON.h"
#include "core.h"
#include "json/api.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

/* A field and the values it is drawn from, as JSON; absent as often as each of them */
static const struct { const char *section, *key; const char *value[7]; } draws[] = {
    {"", "model", {"\"gpt2\"", "\"llama-3.1-8b\"", "\"qwen2.5-0.5b\"", "\"falcon-h1-0.5b-base\"", "\"deepseek-v2-lite\"", "{\"params\":3e9}"}},
    {"", "weights", {"\"nf4\"", "\"fp32\""}},
    {"training", "method", {"\"lora\""}},
    {"training", "precision", {"\"mixed\"", "\"amp\"", "\"bf16\"", "\"fp32\""}},
    {"training", "gradients", {"\"bf16\"", "\"fp32\""}},
    {"training", "optimizer", {"\"adafactor\"", "\"muon\"", "\"lomo\"", "\"adamw-8bit\""}},
    {"training", "sequence_length", {"128", "512", "4096"}},
    {"training", "micro_batch", {"2", "4"}},
    {"training", "gradient_accumulation", {"4"}},
    {"training", "checkpointing", {"\"full\"", "\"selective\""}},
    {"training", "checkpointing_interval", {"2"}},
    {"training", "attention", {"\"eager\"", "\"sdpa\""}},
    {"training", "loss", {"\"inplace\"", "\"chunked\"", "\"tiled\"", "\"fused\""}},
    {"training", "packing", {"\"bfd\""}},
    {"training", "offload_activations", {"true"}},
    {"training", "optimizer_in_backward", {"true"}},
    {"lora", "dtype", {"\"bf16\""}},
    {"lora", "dora", {"true"}},
    {"parallel", "engine", {"\"ddp\"", "\"fsdp1\"", "\"fsdp2\"", "\"deepspeed\"", "\"megatron\""}},
    {"parallel", "data", {"2", "8"}},
    {"parallel", "zero", {"1", "2", "3"}},
    {"parallel", "tensor", {"2"}},
    {"parallel", "pipeline", {"2", "4"}},
    {"parallel", "virtual_pipeline", {"2"}},
    {"parallel", "offload", {"\"optimizer\"", "\"optimizer+weights\""}},
};

static cJSON *drawn(uint64_t *seed)
{
    cJSON *scenario = cJSON_Parse("{\"task\":\"training\"}");
    for (int i = 0; i < COUNT(draws); i++) {
        int values = 0;
        while (values < 7 && draws[i].value[values] != NULL) values++;
        *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        int pick = (int)(*seed >> 33) % (values + 1);
        if (pick == values) continue;
        cJSON *section = draws[i].section[0] == '\0' ? scenario : cJSON_GetObjectItemCaseSensitive(scenario, draws[i].section);
        if (section == NULL) section = cJSON_AddObjectToObject(scenario, draws[i].section);
        cJSON_AddItemToObject(section, draws[i].key, cJSON_Parse(draws[i].value[pick]));
    }
    return scenario;
}

/* The largest sum of a phase's instants */
static double highest(const cJSON *timeline, const char *phase)
{
    double most = 0;
    const cJSON *point, *bytes;
    cJSON_ArrayForEach(point, cJSON_GetObjectItemCaseSensitive(timeline, "points"))
    {
        double sum = 0;
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(point, "phase")), phase) != 0) continue;
        cJSON_ArrayForEach(bytes, cJSON_GetObjectItemCaseSensitive(point, "bytes"))
        {
            CHECK(bytes->valuedouble >= 0, "%s: less than nothing", phase);
            sum += bytes->valuedouble;
        }
        most = vram_max(most, sum);
    }
    return most;
}

static void check_one(vram_json *json, const char *scenario)
{
    char *text = vram_json_timeline(json, scenario, strlen(scenario));
    const vram_report *report = vram_json_last(json);
    cJSON *tree = cJSON_Parse(text);
    for (int phase = 0; report != NULL && phase < VRAM_PHASE_COUNT; phase++) {
        double top = report->phases & VRAM_BIT(phase) ? highest(cJSON_GetObjectItemCaseSensitive(tree, "timeline"), vram_name(VRAM_LIST_PHASE, phase)) : report->phase_bytes[phase];
        CHECK(same(top, report->phase_bytes[phase]), "%s of %s: %.0f, not %.0f", vram_name(VRAM_LIST_PHASE, phase), scenario, top, report->phase_bytes[phase]);
    }
    cJSON_Delete(tree);
    vram_json_free(text);
}

TEST(timeline_is_the_ledger, "timeline: a phase's highest instant is the phase, whatever the scenario")
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    uint64_t seed = 1;
    for (int i = 0; i < 300; i++) {
        cJSON *scenario = drawn(&seed);
        char *text = cJSON_PrintUnformatted(scenario);
        check_one(json, text);
        cJSON_free(text);
        cJSON_Delete(scenario);
    }
    vram_json_close(json);
}
