/* A refusal names the field that is to blame, as it was said, and how far it may go. */
#include "cJSON.h"
#include "core.h"
#include "json/api.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static const cJSON *at(const cJSON *tree, const char *key) { return cJSON_GetObjectItemCaseSensitive(tree, key); }

static cJSON *ask(vram_json *json, const char *scenario)
{
    char *text = vram_json_estimate(json, scenario, strlen(scenario));
    cJSON *tree = cJSON_Parse(text);
    vram_json_free(text);
    return tree;
}

TEST(blame_large, "too large: the field that was said, with the largest value that can be computed")
{
    /* %.0f is the field's value */
    static const struct { const char *scenario, *path; double value; } cases[] = {
        {"{\"batch\":1048576,\"context\":%.0f}", "context", 16777216},
        {"{\"task\":\"training\",\"parallel\":{\"tensor\":4,\"data\":%.0f}}", "parallel.data", 1048576},
        {"{\"task\":\"training\",\"training\":{\"micro_batch\":65536,\"sequence_length\":%.0f}}", "training.sequence_length", 16777216},
        {"{\"task\":\"training\",\"training\":{\"sequence_length\":1677721},\"parallel\":{\"data\":%.0f}}", "parallel.data", 1048576},
        {"{\"task\":\"rl\",\"rl\":{\"rollout_batch\":1048576,\"response\":%.0f}}", "rl.response", 16777216},
        {"{\"model\":{\"params\":9e14},\"gpus\":%.0f}", "gpus", 1048576},
        {"{\"engine\":\"vllm\",\"parallel\":{\"data\":%.0f}}", "parallel.data", 1048576},
    };
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        char scenario[256];
        snprintf(scenario, sizeof scenario, cases[i].scenario, cases[i].value);
        cJSON *tree = ask(json, scenario);
        const cJSON *error = at(tree, "error");
        double max = cJSON_GetNumberValue(at(error, "max"));
        CHECK(cJSON_IsString(at(error, "path")) && strcmp(at(error, "path")->valuestring, cases[i].path) == 0, "%s", scenario);
        CHECK(cJSON_IsString(at(error, "code")) && strcmp(at(error, "code")->valuestring, "too_large") == 0, "%s", scenario);
        CHECK(same(cJSON_GetNumberValue(at(error, "value")), cases[i].value), "%s", scenario);
        cJSON_Delete(tree);
        for (int more = 0; more <= 1; more++) {
            snprintf(scenario, sizeof scenario, cases[i].scenario, max + more);
            tree = ask(json, scenario);
            CHECK((at(tree, "error") != NULL) == (more == 1), "%s", scenario);
            cJSON_Delete(tree);
        }
    }
    vram_json_close(json);
}

TEST(blame_said, "too large: several at once name the furthest; what was not said is never to blame")
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    cJSON *several = ask(json, "{\"gpus\":1048576,\"context\":16777216,\"batch\":1048576}"), *model = ask(json, "{\"model\":{\"params\":9e14,\"hidden_size\":1000000}}");
    CHECK(strcmp(at(at(several, "error"), "path")->valuestring, "context") == 0 && cJSON_IsNull(at(at(several, "error"), "max")), "three too large ones");
    CHECK(strncmp(at(at(model, "error"), "path")->valuestring, "model", 5) == 0, "a model too large");
    cJSON_Delete(several);
    cJSON_Delete(model);
    vram_json_close(json);
}
