/* work_test.c -- how much an estimate does. Time depends on the machine; how often something is gone through does not. The linker leads every call of
 * the functions below through a counter (Makefile: COUNTED). What is counted today is written beside the limit, which is a generous multiple of it. */
#include "core.h"
#include "ggml_graph.h"
#include "json/json.h"
#include "replay.h"
#include "segments.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static struct { int tapes, runs, engine, parameters, blocks, graphs, configs, estimates; } done;

#define COUNT_CALLS(result, name, what, parameters, ...) \
    result __real_##name parameters;                     \
    result __wrap_##name parameters;                     \
    result __wrap_##name parameters                      \
    {                                                    \
        done.what++;                                     \
        return __real_##name(__VA_ARGS__);               \
    }
#define COUNT_STEPS(name, what, parameters, ...) \
    void __real_##name parameters;               \
    void __wrap_##name parameters;               \
    void __wrap_##name parameters                \
    {                                            \
        done.what++;                             \
        __real_##name(__VA_ARGS__);              \
    }

COUNT_STEPS(vram_block_embedding, tapes, (const vram_pass *pass, vram_tape *tape), pass, tape)
COUNT_STEPS(vram_block_layer, tapes, (const vram_pass *pass, int kind, bool input_gradient, vram_tape *tape), pass, kind, input_gradient, tape)
COUNT_STEPS(vram_block_head, tapes, (const vram_pass *pass, vram_tape *tape), pass, tape)
COUNT_STEPS(vram_run_forward, runs, (const vram_tape *tape, vram_run *run, int from, int to, bool save), tape, run, from, to, save)
COUNT_STEPS(vram_run_backward, runs, (vram_tape *tape, vram_run *run, int from, int to), tape, run, from, to)
COUNT_CALLS(double, vram_sharding_bytes, engine, (const vram_sharding *sharding, vram_moment moment, int place), sharding, moment, place)
COUNT_STEPS(vram_sharding_each, parameters, (const vram_sharding *sharding, int kind, vram_sharding_visitor *visit, void *context), sharding, kind, visit, context)
COUNT_CALLS(short, vram_segments_take, blocks, (vram_segments *segments, double bytes, int stream), segments, bytes, stream)
COUNT_STEPS(ggml_graph_run, graphs, (ggml_graph *graph, int stream, int carried), graph, stream, carried)
COUNT_CALLS(bool, vram_config_read, configs, (const cJSON *config, vram_model *model, vram_error *error), config, model, error)
COUNT_CALLS(bool, vram_judge, estimates, (vram_scenario *scenario, vram_report *report, vram_error *error), scenario, report, error)
COUNT_CALLS(bool, vram_estimate, estimates, (vram_scenario *scenario, const vram_gpu *gpus, int gpu_count, vram_report *report, vram_error *error), scenario, gpus, gpu_count, report, error)

static void estimate_preset(const char *id)
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    char *scenario = vram_json_preset(json, id);
    memset(&done, 0, sizeof done);
    vram_json_free(vram_json_estimate(json, scenario, strlen(scenario)));
    vram_json_free(scenario);
    vram_json_close(json);
}

TEST(work_of_a_step, "an estimate of 80 layers over 16 GPUs goes through one layer, the embedding and the head")
{
    estimate_preset("llama-3.1-70b-zero3");
    CHECK(done.tapes > 0 && done.tapes <= 12, "3 tapes are written, now %d", done.tapes);
    CHECK(done.runs > 0 && done.runs <= 32, "8 times a part of one is run, now %d", done.runs);
    CHECK(done.engine > 0 && done.engine <= 1600, "408 times it is asked what the engine holds, now %d", done.engine);
    CHECK(done.parameters > 0 && done.parameters <= 16, "4 times parameters are gone through, now %d", done.parameters);
    CHECK(done.configs == 1, "one config is read, now %d", done.configs);
}

TEST(work_of_ppo, "an estimate of four models goes through each a few times")
{
    estimate_preset("ppo");
    CHECK(done.tapes > 0 && done.tapes <= 96, "24 tapes are written, now %d", done.tapes);
    CHECK(done.runs > 0 && done.runs <= 192, "48 times a part of one is run, now %d", done.runs);
    CHECK(done.configs == 1, "one config is read, now %d", done.configs);
}

TEST(work_of_play, "two steps of 80 layers, tensor by tensor: tens of thousands of blocks, the dearest part of a training estimate")
{
    estimate_preset("qlora-70b-48gb");
    CHECK(done.blocks > 0 && done.blocks <= 120000, "40,899 are taken, now %d", done.blocks);
}

TEST(work_of_a_graph, "llama.cpp's graph of 80 layers is run for the few that differ")
{
    estimate_preset("llama-70b-mac");
    CHECK(done.graphs > 0 && done.graphs <= 32, "8 of them, now %d", done.graphs);
}

TEST(work_of_options, "a model is read once for all options, and once for all that a claim asks")
{
    static const char options[] = "{\"scenario\":{\"task\":\"training\",\"model\":\"llama-3.1-70b\"},\"options\":{\"training.micro_batch\":[1,2,4,8],\"weights\":[\"bf16\",\"int4\"]}}";
    static const char claim[] = "{\"task\":\"training\",\"model\":\"llama-3.1-8b\"}";
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    memset(&done, 0, sizeof done);
    vram_json_free(vram_json_options(json, options, strlen(options)));
    CHECK(done.estimates == 6 && done.configs == 1, "%d estimates, %d configs", done.estimates, done.configs);
    memset(&done, 0, sizeof done);
    vram_json_free(vram_json_claim_of(json, claim, strlen(claim)));
    CHECK(done.configs <= 2, "of the claim itself, and for all its changes; now %d", done.configs);
    CHECK(done.estimates > 0 && done.estimates <= 260, "65 estimates judge it, now %d", done.estimates);
    vram_json_close(json);
}
