/* Kinds of mistakes that calculators of inference memory make (public bug reports against them), each as a case worked by hand. */
#include "test.h"

#include "cJSON.h"
#include "json/api.h"

#include <stdio.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static double bytes_of(vram_json *json, const char *scenario, const char *component)
{
    double bytes = 0;
    char *text = vram_json_estimate(json, scenario, strlen(scenario));
    cJSON *report = cJSON_Parse(text), *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(report, "entries"))
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "component"));
        if (name && strcmp(name, component) == 0) bytes += cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(entry, "bytes"));
    }
    cJSON_Delete(report);
    vram_json_free(text);
    return bytes;
}

TEST(mistakes_inference, "mistakes: what other calculators get wrong about serving")
{
    static const struct { const char *mistake, *model, *more, *component; double bytes; } cases[] = {
        {"head size taken as hidden / heads", "qwen3-4b", "\"engine\":\"bare\",\"context\":1", "kv_cache", 2. * 36 * 8 * 128 * 2},
        {"MLA read with the wrong widths", "deepseek-v3.1", "\"engine\":\"bare\",\"context\":163840", "kv_cache", 61. * (512 + 64) * 2 * 163840},
        {"MLA divided by tensor parallel", "deepseek-v3.1", "\"engine\":\"bare\",\"context\":163840,\"gpus\":8,\"parallel\":{\"tensor\":8}", "kv_cache", 61. * (512 + 64) * 2 * 163840},
        {"windowed layers charged the whole length", "gemma-3-27b", "\"engine\":\"bare\",\"context\":131072", "kv_cache", 2. * 16 * 128 * 2 * (10. * 131072 + 52. * 1024)},
        {"hybrids charged keys and values in all layers", "qwen3.5-9b", "\"engine\":\"bare\",\"context\":32768", "kv_cache", 2. * 8 * 4 * 256 * 2 * 32768},
        {"recurrent state forgotten", "qwen3.6-27b", "\"engine\":\"llama.cpp\",\"context\":8192,\"llama_cpp\":{\"slots\":4}", "recurrent_state", 4. * 48 * 4 * (128. * 6144 + 3. * (6144 + 2 * 2048))},
        {"a shared pool multiplied by its slots", "qwen3.6-27b", "\"engine\":\"llama.cpp\",\"context\":8192,\"llama_cpp\":{\"slots\":4}", "kv_cache", 2. * 16 * 4 * 256 * 2 * 8192},
        {"the first of a list for every layer", "lfm2-1.2b", "\"engine\":\"bare\",\"context\":32768", "kv_cache", 2. * 6 * 8 * 64 * 2 * 32768},
        {"an engine's pages ignored", "gpt-oss-20b", "\"engine\":\"bare\",\"context\":8192,\"batch\":32", "kv_cache", 2. * 8 * 64 * 2 * 32 * (12. * 8192 + 12. * 128)},
        {"layers that share a cache counted", "gemma-3n-e4b-it", "\"engine\":\"bare\",\"context\":512", "kv_cache", 2. * 20 * 2 * 256 * 2 * 512},
        {"prediction layers counted that are not loaded", "glm-5", "\"engine\":\"bare\",\"context\":1024", "kv_cache", 78. * (512 + 64 + 128) * 2 * 1024},
        {"or not counted when they are", "glm-5", "\"engine\":\"bare\",\"context\":1024,\"speculative\":{\"mtp_tokens\":1}", "kv_cache", 79. * (512 + 64 + 128) * 2 * 1024},
        {"16 thousand tokens", "llama-3.1-8b", "\"engine\":\"bare\",\"context\":16000", "kv_cache", 2. * 32 * 8 * 128 * 2 * 16000},
        {"are not 16 Ki", "llama-3.1-8b", "\"engine\":\"bare\",\"context\":16384", "kv_cache", 2147483648.},
    };
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[512];
        snprintf(scenario, sizeof scenario, "{\"task\":\"inference\",\"model\":\"%s\",%s}", cases[i].model, cases[i].more);
        double got = bytes_of(json, scenario, cases[i].component);
        CHECK(same(got, cases[i].bytes), "%s: %s: %.0f, not %.0f", cases[i].mistake, scenario, got, cases[i].bytes);
    }
    vram_json_close(json);
}

/* A quantised cache is smaller, but the kernels work on 16-bit copies of one layer's: 2 x tokens x (keys + values) behind the result. */
TEST(mistakes_quantised, "mistakes: a quantised cache does not divide everything by four")
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    const char *plain = "{\"task\":\"inference\",\"model\":\"qwen3.6-27b\",\"engine\":\"llama.cpp\",\"context\":262144,\"llama_cpp\":{\"slots\":1},\"kv_cache\":\"fp16\"}";
    const char *small = "{\"task\":\"inference\",\"model\":\"qwen3.6-27b\",\"engine\":\"llama.cpp\",\"context\":262144,\"llama_cpp\":{\"slots\":1},\"kv_cache_k\":\"fp16\",\"kv_cache_v\":\"q4_0\"}";
    double cache = 2. * 16 * 4 * 256 * 2 * 262144, state = 48. * 4 * (128. * 6144 + 3. * (6144 + 2 * 2048));
    CHECK(same(bytes_of(json, plain, "kv_cache") + bytes_of(json, plain, "recurrent_state"), cache + state), "16.15 GiB");
    CHECK(same(bytes_of(json, small, "kv_cache") + bytes_of(json, small, "recurrent_state"), cache / 2 + cache / 2 * 4.5 / 16 + state), "10.40 GiB");
    /* measured: llama.cpp's own reservation for the same shapes */
    CHECK(same(bytes_of(json, plain, "workspace") + bytes_of(json, plain, "logits"), 396378368), "compute");
    CHECK(same(bytes_of(json, small, "workspace") + bytes_of(json, small, "logits"), 876642560), "compute with 16-bit copies of values");
    vram_json_close(json);
}
