/* Models through the JSON door: parameters and caches worked by hand from published configs. */
#include "test.h"

#include "cJSON.h"
#include "json/api.h"

#include <stdio.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static vram_json *door(void)
{
    static vram_json *json;
    if (!json) json = vram_json_open(vram_presets, vram_presets_bytes);
    return json;
}

static cJSON *ask(const char *scenario)
{
    char *text = vram_json_estimate(door(), scenario, strlen(scenario));
    cJSON *report = cJSON_Parse(text);
    vram_json_free(text);
    return report;
}

static double at(const cJSON *tree, const char *one, const char *two)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tree, one), two);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

#define LLAMA "\"model_type\":\"llama\",\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":11008,\"num_hidden_layers\":32,\"num_attention_heads\":32"

TEST(model_params, "models: parameters by hand")
{
    static const struct { const char *name, *config; double params; } cases[] = {
        /* 2 x 32000 x 4096 + 32 x (4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096) + 4096 */
        {"Llama 2 7B", "{" LLAMA "}", 6738415616.0},
        /* without the head: 32000 x 4096 fewer */
        {"the same with tied embeddings", "{" LLAMA ",\"tie_word_embeddings\":true}", 6738415616.0 - 131072000.0},
        /* 8 of 32 heads keep keys and values: 32 x 2 x 4096 x 3072 fewer */
        {"the same with grouped queries", "{" LLAMA ",\"num_key_value_heads\":8}", 6738415616.0 - 805306368.0},
        /* 50257 x 768 + 1024 x 768 + 12 x (12 x 768^2 + 13 x 768) + 2 x 768, the head tied */
        {"GPT-2", "{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"vocab_size\":50257,\"n_positions\":1024}", 124439808.0},
        /* 2 x 32000 x 4096 + 32 x (2 x 4096^2 + 2 x 4096 x 1024 + 8 x 3 x 4096 x 14336 + 8 x 4096 + 2 x 4096) + 4096 */
        {"Mixtral 8x7B", "{\"model_type\":\"mixtral\",\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,"
         "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"num_local_experts\":8,\"num_experts_per_tok\":2}", 46702792704.0},
        {"a rule of thumb", "{\"params\":7e9,\"num_hidden_layers\":32,\"hidden_size\":4096}", 7e9},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[1024];
        snprintf(scenario, sizeof scenario, "{\"model\":%s}", cases[i].config);
        cJSON *report = ask(scenario);
        CHECK(same(at(report, "model", "params_total"), cases[i].params), "%s: %.0f, not %.0f", cases[i].name, at(report, "model", "params_total"), cases[i].params);
        cJSON_Delete(report);
    }
}

TEST(model_cache, "models: bytes of cache a token by hand")
{
    static const struct { const char *name, *scenario; double bytes; } cases[] = {
        {"Llama 2 7B: 2 x 32 x 4096 x 2", "{\"model\":{" LLAMA "},\"context\":1}", 524288},
        {"in fp8", "{\"model\":{" LLAMA "},\"context\":1,\"kv_cache\":\"fp8\"}", 262144},
        {"a quarter of the heads", "{\"model\":{" LLAMA ",\"num_key_value_heads\":8},\"context\":1}", 131072},
        {"on two cards", "{\"model\":{" LLAMA "},\"context\":1,\"parallel\":{\"tensor\":2}}", 262144},
        {"DeepSeek-V3: a latent of 512 and 64 rotary numbers, 61 layers",
         "{\"model\":{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":128,\"num_key_value_heads\":128,"
         "\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"intermediate_size\":18432,"
         "\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"num_experts_per_tok\":8,\"n_shared_experts\":1,\"first_k_dense_replace\":3,\"vocab_size\":129280},"
         "\"context\":1,\"engine\":\"bare\"}", 61. * (512 + 64) * 2},
        {"Mistral 7B v0.1 past its window of 4096",
         "{\"model\":{\"model_type\":\"mistral\",\"vocab_size\":32000,\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
         "\"num_key_value_heads\":8,\"sliding_window\":4096},\"context\":32768,\"engine\":\"bare\"}", 4096. * 131072},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        cJSON *report = ask(cases[i].scenario);
        double bytes = 0;
        const cJSON *entry, *phase;
        cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(report, "entries"))
        {
            if (strcmp(cJSON_GetObjectItemCaseSensitive(entry, "component")->valuestring, "kv_cache") != 0) continue;
            cJSON_ArrayForEach(phase, cJSON_GetObjectItemCaseSensitive(entry, "phases"))
                if (strcmp(phase->valuestring, "decode") == 0) bytes += cJSON_GetObjectItemCaseSensitive(entry, "bytes")->valuedouble;
        }
        CHECK(same(bytes, cases[i].bytes), "%s: %.0f, not %.0f", cases[i].name, bytes, cases[i].bytes);
        cJSON_Delete(report);
    }
}

TEST(api_presets, "door: opens without presets, and refuses what is no bundle")
{
    vram_json *none = vram_json_open(NULL, 0);
    CHECK(none != NULL, "without presets");
    if (none) {
        static const char scenario[] = "{\"model\":{\"params\":7e9,\"num_hidden_layers\":32,\"hidden_size\":4096}}";
        char *text = vram_json_estimate(none, scenario, sizeof scenario - 1);
        CHECK(text && strncmp(text, "{\"error\"", 8) == 0, "the default card is a preset: %s", text ? text : "(no text)");
        vram_json_free(text);
    }
    vram_json_close(none);
    static const char *const bad[] = {"", "{", "[]", "7", "{\"models\":7}", "{\"models\":[7],\"gpus\":[{}]}", "{\"gpus\":[{\"id\":5}]}"};
    for (int i = 0; i < COUNT(bad); i++) vram_json_close(vram_json_open(bad[i], strlen(bad[i]))); /* NULL or not: no harm */
    vram_json_close(NULL);
    vram_json_free(NULL);
}

TEST(api_length, "door: reads as many bytes as it is told, no more")
{
    static const char text[] = {'{', '}', 'x', 'y'};
    char *whole = vram_json_estimate(door(), text, 4), *two = vram_json_estimate(door(), text, 2), *none = vram_json_estimate(door(), text, 0);
    CHECK(strncmp(whole, "{\"error\"", 8) == 0, "four bytes");
    CHECK(strncmp(two, "{\"error\"", 8) != 0, "two bytes: %.80s", two);
    CHECK(strncmp(none, "{\"error\"", 8) == 0, "no bytes");
    vram_json_free(whole);
    vram_json_free(two);
    vram_json_free(none);
}
