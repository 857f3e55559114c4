/* llama.cpp's compute buffer: the allocator worked by hand, and whole graphs as llama.cpp itself lays them out. */
#include "test.h"

#include "cJSON.h"
#include "ggml_graph.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

enum { INPUT = 2, OTHER = 3 };
static ggml_graph graph;

/* An input of 1024 bytes; a = f(input) 2048; b = f(a) in place; c = f(input) 1024, then input is free; d = f(b, c) 512 */
static void chain(bool in_place)
{
    int a = ggml_graph_op(&graph, false, ggml_f32(512, 1, 1), 1, (int[]){INPUT});
    int b = ggml_graph_op(&graph, in_place, ggml_f32(512, 1, 1), 1, (int[]){a});
    int c = ggml_graph_op(&graph, false, ggml_f32(256, 1, 1), 1, (int[]){INPUT});
    int d = ggml_graph_op(&graph, false, ggml_f32(128, 1, 1), 2, (int[]){b, c});
    graph.tensor[d].output = true;
    ggml_graph_run(&graph, GGML_NONE, GGML_NONE);
}

static double laid_out(bool in_place)
{
    ggml_graph_start(&graph);
    ggml_graph_input(&graph, INPUT, ggml_f32(256, 1, 1));
    ggml_graph_input(&graph, OTHER, ggml_f32(1000000, 1, 1)); /* nobody reads it: it has no memory */
    chain(in_place);
    ggml_graph_second_pass(&graph);
    ggml_graph_allocate_inputs(&graph);
    chain(in_place);
    return graph.failed ? -1 : graph.pool[GGML_ON_GPU].high;
}

TEST(llama_allocator, "llama.cpp: the allocator by hand")
{
    /* input at 0, a and b at 1024, c at 3072, d in input's room */
    CHECK(same(laid_out(true), 4096), "%.0f", laid_out(true));
    /* input at 0, a at 1024, b at 3072; c in the room of a, d in input's */
    CHECK(same(laid_out(false), 5120), "%.0f", laid_out(false));
}

/* The buffer holds what is alive when it grows last; gaps are the rest. */
TEST(llama_tags, "llama.cpp: what fills the buffer adds up")
{
    double alive = 0, high = laid_out(true);
    for (int i = 0; i < VRAM_WHAT_COUNT; i++) alive += graph.at_high[i];
    CHECK(same(alive, high), "%.0f of %.0f", alive, high);
}

/* bytes of one component, or of another */
static double sum(vram_json *json, const char *scenario, const char *one, const char *other)
{
    double bytes = 0;
    char *text = vram_json_estimate(json, scenario, strlen(scenario));
    cJSON *report = cJSON_Parse(text), *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(report, "entries"))
    {
        const char *component = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "component"));
        bool counts = component && (strcmp(component, one) == 0 || strcmp(component, other) == 0);
        if (counts) bytes += cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(entry, "bytes"));
    }
    cJSON_Delete(report);
    vram_json_free(text);
    return bytes;
}

/* Measured: llama.cpp v0.5.0 (as in PyPI's llama-cpp-python 0.3.36) with files that hold published shapes and no numbers, and a CUDA backend that
 * computes nothing: sizes, alignment and supported operations are ggml-cuda's, everything else is llama.cpp's own. F16 files. */
TEST(llama_graphs, "llama.cpp: compute buffers of many families, with all layers on the GPU and with some")
{
    static const struct { const char *model; int context, ubatch, slots; bool flash; int rows; const char *cache; bool swa_full, unified; int gpu_layers; double bytes; } cases[] = {
        {"qwen3-8b", 32768, 1024, 1, false, 1, "fp16", false, true, -1, 4504694912},
        {"qwen2.5-7b", 32768, 512, 1, true, 1, "q8_0", false, true, -1, 172058752},
        {"gemma-4-e2b-it", 8192, 512, 1, true, 1, "fp16", false, true, -1, 128469120},
        {"gpt-oss-120b", 32768, 1024, 1, false, 1, "fp16", false, true, -1, 8794951808},
        {"mixtral-8x7b-instruct-v0.1", 8192, 512, 1, true, 512, "fp16", false, true, -1, 209727488},
        {"qwen3-30b-a3b", 32768, 512, 4, true, 4, "fp16", false, false, -1, 96479360},
        {"deepseek-r1", 2048, 128, 1, false, 1, "fp16", false, true, -1, 234367104},
        {"glm-5", 32768, 1024, 1, false, 1, "fp16", false, true, -1, 9898643584},
        {"deepseek-v2-lite", 32768, 512, 1, true, 1, "q8_0", false, true, -1, 151406720},
        {"llama-4-scout-17b-16e", 8192, 512, 1, true, 1, "fp16", false, true, -1, 109072512},
        {"phi-2", 8192, 512, 1, true, 512, "fp16", false, true, -1, 110100480},
        {"phi-3-mini-4k-instruct", 8192, 512, 1, true, 1, "fp16", false, true, -1, 71313536},
        {"falcon-40b", 8192, 512, 1, true, 512, "fp16", false, true, -1, 149946368},
        {"gpt-neox-20b", 2048, 128, 1, false, 1, "fp16", false, true, -1, 80742016},
        {"c4ai-command-r-v01", 8192, 512, 4, true, 4, "fp16", false, true, -1, 197142656},
        {"starcoder2-7b", 8192, 512, 1, true, 1, "fp16", false, true, -1, 74459264},
        {"bloom-7b1", 8192, 512, 1, true, 512, "fp16", false, true, -1, 522190848},
        {"gpt2", 8192, 512, 1, true, 512, "fp16", false, true, -1, 106072064},
        {"mamba-2.8b-hf", 8192, 512, 4, true, 4, "fp16", false, true, -1, 64717056},
        {"granite-4.0-h-tiny", 32768, 1024, 1, false, 1, "fp16", false, true, -1, 1844248832},
        {"ai21-jamba-mini-1.5", 2048, 128, 1, false, 1, "fp16", false, true, -1, 50358528},
        {"lfm2-1.2b", 32768, 512, 4, true, 4, "fp16", false, false, -1, 67184896},
        {"qwen3-next-80b-a3b-instruct", 8192, 512, 4, true, 4, "fp16", false, true, -1, 139516160},
        {"qwen3.5-27b", 2048, 128, 1, false, 1, "fp16", false, true, -1, 41946368},
        {"falcon-h1-0.5b-base", 8192, 512, 1, true, 1, "fp16", false, true, -1, 31822080},
        {"nvidia-nemotron-3-nano-30b-a3b-bf16", 8192, 512, 1, true, 1, "fp16", false, true, -1, 116662528},
        {"olmo-2-7b", 16384, 256, 1, true, 1, "q4_0", true, true, -1, 289494144},
        {"smollm3-3b", 32768, 512, 1, true, 1, "q8_0", false, true, -1, 121727104},
        {"glm-4-9b-0414", 32768, 512, 4, true, 4, "fp16", false, false, -1, 117713024},
        {"granite-3.3-8b-instruct", 8192, 512, 1, true, 1, "fp16", false, true, -1, 112208000},
        {"llama-2-7b", 8192, 512, 1, true, 1, "fp16", false, true, 16, 184551424},
        {"llama-2-7b", 8192, 512, 1, false, 512, "fp16", false, true, 0, 752879616},
        {"qwen2.5-7b", 8192, 512, 1, true, 1, "fp16", false, true, 14, 260587520},
        {"gpt-oss-20b", 8192, 512, 1, false, 1, "fp16", false, true, 12, 1161316352},
        {"deepseek-v2-lite", 8192, 512, 1, true, 1, "fp16", false, true, 13, 449316736},
        {"qwen3-8b", 32768, 512, 4, true, 4, "q8_0", false, false, 18, 247549440},
        {"llama-3.2-1b", 8192, 512, 1, true, 1, "fp16", false, true, 8, 104859776},
        {"lfm2-1.2b", 8192, 512, 1, true, 512, "fp16", false, true, 8, 209717504},
        {"hunyuan-7b-instruct", 8192, 512, 1, true, 1, "fp16", false, true, 16, 226494464},
        {"mamba-2.8b-hf", 8192, 512, 1, true, 1, "fp16", false, true, 32, 83947520},
        {"qwen3.5-9b", 8192, 512, 1, false, 1, "fp16", false, true, 16, 411041792},
        {"granite-4.0-h-tiny", 32768, 512, 4, true, 4, "q8_0", false, false, 20, 173306880},
        {"gemma-4-31b-it", 8192, 512, 1, true, 1, "fp16", false, true, 60, 369101824},
        {"llama-3.1-8b", 32768, 512, 1, true, 1, "iq4_nl", false, true, -1, 104949760},
        {"llama-3.1-8b", 32768, 512, 1, true, 1, "fp32", false, true, -1, 201336960},
        {"nemotron-4-340b-instruct", 32768, 512, 1, true, 1, "q8_0", false, true, -1, 226535424},
        {"internlm2-7b", 8192, 512, 1, true, 1, "fp16", false, true, -1, 121645184},
        {"qwen2.5-7b", 100, 512, 1, true, 1, "fp16", false, true, -1, 27087232},
        {"qwen3.5-27b", 262144, 512, 1, true, 1, "fp16", false, true, -1, 396378368},
        {"qwen3.5-27b", 262144, 512, 1, true, 1, "q4_0", false, true, -1, 1426358528},
        {"deepseek-v2-lite", 32768, 1024, 1, false, 1, "fp16", false, true, -1, 2408353920},
    };
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[512], layers[32] = "";
        if (cases[i].gpu_layers >= 0) snprintf(layers, sizeof layers, ",\"gpu_layers\":%d", cases[i].gpu_layers);
        snprintf(scenario, sizeof scenario,
                 "{\"task\":\"inference\",\"model\":\"%s\",\"engine\":\"llama.cpp\",\"weights\":\"gguf:F16\",\"context\":%d,\"kv_cache\":\"%s\",\"llama_cpp\":{"
                 "\"ubatch\":%d,\"slots\":%d,\"flash_attention\":%s,\"output_rows\":%d,\"swa_full\":%s,\"kv_unified\":%s%s}}",
                 cases[i].model, cases[i].context, cases[i].cache, cases[i].ubatch, cases[i].slots, cases[i].flash ? "true" : "false", cases[i].rows,
                 cases[i].swa_full ? "true" : "false", cases[i].unified ? "true" : "false", layers);
        double got = sum(json, scenario, "workspace", "logits");
        CHECK(same(got, cases[i].bytes), "%s: %.0f, not %.0f", scenario, got, cases[i].bytes);
    }
    vram_json_close(json);
}

TEST(llama_snapshots, "llama.cpp: drafted tokens leave states of their own")
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    const char *scenario = "{\"task\":\"inference\",\"model\":\"qwen3.5-9b\",\"engine\":\"llama.cpp\",\"weights\":\"gguf:F16\",\"context\":8192,\"llama_cpp\":{\"slots\":4},\"speculative\":{\"mtp_tokens\":6}}";
    double compute = sum(json, scenario, "workspace", "logits"), states = sum(json, scenario, "recurrent_state", "recurrent_state");
    CHECK(same(compute, 143409408) && same(states, 1475346432), "%.0f %.0f", compute, states); /* measured as above, with n_rs_seq 6 */
    vram_json_close(json);
}

/* Measured: llama.cpp v0.5.0's llama_model_quantize with dry_run, on the same files; with an importance matrix where said. */
TEST(llama_mixes, "llama.cpp: what llama-quantize makes of published shapes")
{
    static const struct { const char *model, *mix; bool imatrix; double bytes; } cases[] = {
        {"qwen3.5-9b", "Q2_K", false, 3816294400},
        {"qwen3-next-80b-a3b-instruct", "IQ4_XS", false, 43197359104},
        {"glm-5", "Q4_K_M", false, 448404833280},
        {"deepseek-r1", "Q4_K_M", false, 404488847360},
        {"mixtral-8x7b-instruct-v0.1", "Q4_K_M", false, 28447727616},
        {"falcon-7b", "Q3_K_M", false, 3974945792},
        {"gemma-2-9b", "IQ3_XXS", false, 3940407296},
        {"gemma-2-9b", "IQ3_XXS", true, 3790682112},
        {"llama-3-70b", "Q5_K_M", false, 49941954560},
        {"gpt-oss-20b", "MXFP4_MOE", false, 12096558336},
        {"phi-3-mini-4k-instruct", "Q4_K_M", false, 2396032512},
        {"ai21-jamba-mini-1.5", "IQ3_XS", false, 21160582656},
        {"llama-3-8b", "IQ1_S", true, 2011791360},
        {"chatglm3-6b", "IQ3_XS", false, 2956484608},
    };
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[256];
        snprintf(scenario, sizeof scenario, "{\"task\":\"inference\",\"model\":\"%s\",\"engine\":\"bare\",\"weights\":\"gguf:%s\",\"context\":1,\"llama_cpp\":{\"imatrix\":%s}}",
                 cases[i].model, cases[i].mix, cases[i].imatrix ? "true" : "false");
        double got = sum(json, scenario, "weights", "weights");
        CHECK(same(got, cases[i].bytes), "%s: %.0f, not %.0f", scenario, got, cases[i].bytes);
    }
    vram_json_close(json);
}

/* Measured: the same llama.cpp's memory breakdown and log. Of the model: what is mapped from the file, or lies in pinned memory. */
TEST(llama_host, "llama.cpp: what stays in host memory")
{
    static const struct { const char *model; int context, ubatch, slots; bool flash; int gpu_layers; double model_bytes, output, compute; } cases[] = {
        {"llama-2-7b", 8192, 512, 1, true, -1, 262144000, 128000, 25178144},
        {"llama-2-7b", 8192, 512, 1, true, 16, 7143456768, 128000, 33566752},
        {"llama-2-7b", 8192, 512, 1, true, 0, 13477363712, 128000, 33566752},
        {"qwen3-0.6b", 8192, 512, 1, true, -1, 311164928, 607744, 12595232},
        {"qwen3-8b", 8192, 512, 1, false, -1, 1244659712, 607744, 37756960},
        {"gemma-4-e2b-it", 8192, 512, 1, true, -1, 805306368 + 4697620480, 1048576, 34101280},
        {"gemma-2-9b", 8192, 512, 1, false, -1, 1835008000, 1024000, 57684000},
        {"bloom-7b1", 8192, 512, 1, true, -1, 2055208960, 1003520, 25176096},
        {"gpt2", 8192, 512, 1, true, -1, 80340480, 201028, 13119520},
        {"glm-5", 8192, 512, 1, true, -1, 1903165440, 619520, 42020896},
        {"qwen3-30b-a3b", 32768, 512, 4, true, 24, 31791686656, 2430976, 41955360},
    };
    static vram_scenario scenario;
    static vram_report report;
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char text[512], layers[32] = "";
        vram_error error;
        if (cases[i].gpu_layers >= 0) snprintf(layers, sizeof layers, ",\"gpu_layers\":%d", cases[i].gpu_layers);
        snprintf(text, sizeof text, "{\"task\":\"inference\",\"model\":\"%s\",\"engine\":\"llama.cpp\",\"weights\":\"gguf:F16\",\"context\":%d,\"llama_cpp\":{\"ubatch\":%d,\"slots\":%d,\"flash_attention\":%s%s}}",
                 cases[i].model, cases[i].context, cases[i].ubatch, cases[i].slots, cases[i].flash ? "true" : "false", layers);
        cJSON *tree = vram_json_parse(text, strlen(text), &error);
        bool read = tree && vram_json_scenario_read(json, tree, &scenario, &(vram_json_configs){0}, &error);
        CHECK(read, "%s: %s", text, error.path);
        CHECK(vram_estimate(&scenario, NULL, 0, &report, &error), "%s: %s", text, error.path);
        const vram_host got = report.host;
        CHECK(same(got.model, cases[i].model_bytes) && same(got.output, cases[i].output) && same(got.compute, cases[i].compute), "%s: %.0f %.0f %.0f", text, got.model, got.output, got.compute);
        CHECK(got.pinned_output == (cases[i].gpu_layers != 0), "%s", text);
        cJSON_Delete(tree);
    }
    vram_json_close(json);
}

/* Measured: the same, with two devices of equal memory. Each has half the layers, the output stage counting as one; the fullest is shown. */
TEST(llama_pipeline, "llama.cpp: two GPUs share the layers and keep four copies of every input")
{
    static const struct { const char *model; int context; double weights, cache, compute; } cases[] = {
        {"qwen3-0.6b", 8192, 720233472, 436207616, 67150336},
        {"llama-3.1-8b", 131072, 7416086784, 9126805504, 683712512},
        {"qwen3-30b-a3b", 8192, 31169356800, 419430400, 134258688},
    };
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[512];
        snprintf(scenario, sizeof scenario,
                 "{\"task\":\"inference\",\"model\":\"%s\",\"engine\":\"llama.cpp\",\"weights\":\"gguf:F16\",\"context\":%d,\"gpus\":2,\"parallel\":{\"pipeline\":2},\"llama_cpp\":{\"slots\":1,\"output_rows\":1}}",
                 cases[i].model, cases[i].context);
        double weights = sum(json, scenario, "weights", "weights"), cache = sum(json, scenario, "kv_cache", "kv_cache"), compute = sum(json, scenario, "workspace", "logits");
        CHECK(same(weights, cases[i].weights) && same(cache, cases[i].cache) && same(compute, cases[i].compute), "%s: %.0f %.0f %.0f", scenario, weights, cache, compute);
    }
    vram_json_close(json);
}
