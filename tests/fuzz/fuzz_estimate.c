/* fuzz_estimate.c -- what the JSON door promises for any bytes at all:
 *   a text comes back, it is JSON, and it is either {"error": {..}} or a report;
 *   in a report every phase is the sum of its entries and every entry the product of its factors;
 *   its normalised scenario gives the same report again;
 *   the same bytes taken as a request for option prices, or as a bundle of presets, do no harm.
 * Built with libFuzzer, or with replay.c for compilers without it. */
#include "cJSON.h"
#include "json/api.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void broken(const char *promise, const char *text)
{
    fprintf(stderr, "promise broken: %s\n%s\n", promise, text ? text : "(no text)");
    abort();
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

static int alive(const cJSON *entry, const char *phase)
{
    const cJSON *p;
    cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(entry, "phases")) if (strcmp(p->valuestring, phase) == 0) return 1;
    return 0;
}

static void check_report(const cJSON *report, const char *text)
{
    const cJSON *entries = cJSON_GetObjectItemCaseSensitive(report, "entries"), *entry, *phase, *factor;
    double peak = 0;
    cJSON_ArrayForEach(entry, entries)
    {
        double product = 1, size = number(entry, "bytes");
        cJSON_ArrayForEach(factor, cJSON_GetObjectItemCaseSensitive(entry, "formula")) product *= number(factor, "value");
        if (!(size > 0 && size < 9007199254740992.0)) broken("bytes are whole, positive and below 2^53", text);
        if (product > size || product < size) broken("bytes are the product of the factors", text);
    }
    cJSON_ArrayForEach(phase, cJSON_GetObjectItemCaseSensitive(report, "phases"))
    {
        double sum = 0, size = number(phase, "bytes");
        const char *id = cJSON_GetObjectItemCaseSensitive(phase, "id")->valuestring;
        cJSON_ArrayForEach(entry, entries) if (alive(entry, id)) sum += number(entry, "bytes");
        if (sum > size || sum < size) broken("a phase is the sum of its entries", text);
        if (size > peak) peak = size;
    }
    double said = number(cJSON_GetObjectItemCaseSensitive(report, "peak"), "bytes");
    if (said > peak || said < peak) broken("the peak is the largest phase", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static vram_json *json;
    if (!json) json = vram_json_open(vram_presets, vram_presets_bytes);
    if (!json) broken("the presets open", NULL);

    char *text = vram_json_estimate(json, (const char *)data, bytes);
    if (!text) broken("a text comes back", NULL);
    cJSON *report = cJSON_Parse(text);
    if (!report) broken("the answer is JSON", text);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(report, "error");
    if (error) {
        const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
        if (!cJSON_IsString(code)) broken("an error has a code", text);
        if (strcmp(code->valuestring, "internal") == 0) broken("no error is internal", text);
    } else {
        check_report(report, text);
        char *scenario = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(report, "scenario"));
        char *again = vram_json_estimate(json, scenario, strlen(scenario));
        if (!again || strcmp(text, again) != 0) broken("a normalised scenario gives the same report", again);
        vram_json_free(again);
        cJSON_free(scenario);
    }
    cJSON_Delete(report);
    vram_json_free(text);

    vram_json_free(vram_json_options(json, (const char *)data, bytes));
    vram_json_free(vram_json_solve(json, (const char *)data, bytes));
    vram_json_free(vram_json_claim(json, (const char *)data, bytes));
    vram_json_close(vram_json_open((const char *)data, bytes));
    return 0;
}
