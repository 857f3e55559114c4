/* api.c -- presets are parsed once; then text in, text out. The working structs live with the caller's vram_json. */
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GPUS = 128, USUAL = 24576 /* bytes of a report */ };

struct vram_json {
    cJSON *presets;
    const cJSON *models; /* array in presets */
    int gpus, compared;
    vram_gpu gpu[MAX_GPUS];      /* all cards */
    vram_gpu comparison[MAX_GPUS]; /* those marked common, in order */
    vram_scenario scenario, asked; /* of an estimate; of what is being solved */
    vram_json_configs held; /* whose models the first of them has */
    vram_report report;
    vram_timeline timeline;
    bool estimated;
    int answers; /* to the last questions; -1: refused */
    vram_json_answer answer[VRAM_JSON_ANSWERS];
    bool judged;
    vram_json_claim_answer claim;
};

static double number_of(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e15 ? item->valuedouble : otherwise;
}

static bool is_true(const cJSON *object, const char *key) { return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key)); }

static const char *id_of(const cJSON *object)
{
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(object, "id");
    return cJSON_IsString(id) ? id->valuestring : "";
}

static void read_card(const cJSON *row, vram_gpu *gpu)
{
    const char *id = id_of(row), *vendor = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "vendor"));
    memset(gpu, 0, sizeof *gpu);
    for (size_t i = 0; id[i] && i + 1 < sizeof gpu->id; i++) gpu->id[i] = id[i];
    gpu->memory_bytes = number_of(row, "memory_bytes", 0);
    gpu->context_bytes = number_of(row, "context_bytes", 0);
    gpu->usable_bytes = vram_max(0, number_of(row, "cuda_total_bytes", gpu->memory_bytes) - gpu->context_bytes);
    gpu->compute_capability = number_of(row, "compute_capability", 0);
    gpu->multiprocessors = (int)vram_min(number_of(row, "multiprocessors", 0), 100000);
    gpu->apple = is_true(row, "apple");
    gpu->maker = vendor ? vendor[0] : '\0';
    gpu->common = is_true(row, "common");
}

vram_json *vram_json_open(const char *presets, size_t bytes)
{
    vram_json *json = calloc(1, sizeof *json);
    vram_error error;
    if (!json || !presets) return json;
    json->presets = vram_json_parse(presets, bytes, &error);
    if (!cJSON_IsObject(json->presets)) {
        vram_json_close(json);
        return NULL;
    }
    const cJSON *cards = cJSON_GetObjectItemCaseSensitive(json->presets, "gpus");
    json->models = cJSON_GetObjectItemCaseSensitive(json->presets, "models");
    for (const cJSON *row = cards ? cards->child : NULL; row && json->gpus < MAX_GPUS; row = row->next) {
        vram_gpu *gpu = &json->gpu[json->gpus++];
        read_card(row, gpu);
        if (gpu->common) json->comparison[json->compared++] = *gpu;
    }
    return json;
}

void vram_json_close(vram_json *json)
{
    if (json) cJSON_Delete(json->presets);
    free(json);
}

const cJSON *vram_json_model(const vram_json *json, const char *id)
{
    for (const cJSON *m = json->models ? json->models->child : NULL; m; m = m->next)
        if (strcmp(id_of(m), id) == 0) return cJSON_GetObjectItemCaseSensitive(m, "config");
    return NULL;
}

const vram_gpu *vram_json_gpu(const vram_json *json, const char *id)
{
    for (int i = 0; i < json->gpus; i++)
        if (strcmp(json->gpu[i].id, id) == 0) return &json->gpu[i];
    return NULL;
}

static char *print(cJSON *tree)
{
    char *text = cJSON_PrintBuffered(tree, USUAL, 0);
    cJSON_Delete(tree);
    return text;
}

/* What was read of a text is forgotten with it. */
static cJSON *parse(vram_json *json, const char *text, size_t bytes, vram_error *error)
{
    json->held = (vram_json_configs){0};
    return vram_json_parse(text, bytes, error);
}

static bool estimate(vram_json *json, const cJSON *tree, int compared, vram_error *error)
{
    return vram_json_scenario_read(json, tree, &json->scenario, &json->held, error)
        && vram_estimate(&json->scenario, json->comparison, compared, &json->report, error);
}

/* For an answer, not for one of a search's many: an error names the field that is to blame. */
static bool answer(vram_json *json, cJSON *tree, vram_error *error)
{
    bool done = estimate(json, tree, json->compared, error);
    if (!done) vram_json_blame(json, tree, error);
    return done;
}

char *vram_json_estimate(vram_json *json, const char *scenario, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, scenario, bytes, &error);
    bool done = tree && answer(json, tree, &error);
    json->estimated = done;
    if (done) vram_json_unread(tree, &json->scenario, &json->asked, &json->report);
    cJSON *out = done ? vram_json_report_write(&json->scenario, tree, &json->report) : vram_json_error_write(&error);
    cJSON_Delete(tree);
    return print(out);
}

/* The object and key that "a.b" or "a" names in a scenario; makes the section when it is not there. */
static cJSON *section_of(cJSON *tree, const char *path, const char **key)
{
    const char *dot = strchr(path, '.');
    char section[64] = "";
    *key = dot ? dot + 1 : path;
    if (!dot || (size_t)(dot - path) >= sizeof section) return tree;
    memcpy(section, path, (size_t)(dot - path));
    cJSON *object = cJSON_GetObjectItemCaseSensitive(tree, section);
    return object ? object : cJSON_AddObjectToObject(tree, section);
}

vram_json_swap vram_json_put(cJSON *tree, const char *path, cJSON *value)
{
    vram_json_swap swap;
    swap.object = section_of(tree, path, &swap.key);
    swap.before = cJSON_DetachItemFromObjectCaseSensitive(swap.object, swap.key);
    cJSON_AddItemToObject(swap.object, swap.key, value);
    return swap;
}

void vram_json_put_back(vram_json *json, const vram_json_swap *swap)
{
    if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(swap->object, swap->key))) json->held = (vram_json_configs){0}; /* it goes, and another may come to its place */
    cJSON_DeleteItemFromObjectCaseSensitive(swap->object, swap->key);
    if (swap->before) cJSON_AddItemToObject(swap->object, swap->key, swap->before);
}

const vram_report *vram_json_run(vram_json *json, const cJSON *tree, bool verdict_alone, vram_error *error)
{
    if (!verdict_alone) return estimate(json, tree, 0, error) ? &json->report : NULL;
    return vram_json_scenario_read(json, tree, &json->scenario, &json->held, error) && vram_judge(&json->scenario, &json->report, error) ? &json->report : NULL;
}

static cJSON *option(vram_json *json, cJSON *tree, const char *path, const cJSON *value)
{
    vram_error error;
    cJSON *row = cJSON_CreateObject();
    vram_json_swap swap = vram_json_put(tree, path, cJSON_Duplicate(value, 1));
    cJSON_AddItemToObject(row, "value", cJSON_Duplicate(value, 1));
    if (estimate(json, tree, 0, &error)) {
        const vram_fit *fit = &json->report.fit[0];
        cJSON_AddItemToObject(row, "bytes", vram_json_whole(json->report.peak_bytes));
        cJSON_AddStringToObject(row, "phase", vram_name(VRAM_LIST_PHASE, (int)json->report.peak));
        cJSON_AddItemToObject(row, "needed_bytes", vram_json_whole(fit->needed_bytes));
        cJSON_AddStringToObject(row, "verdict", vram_name(VRAM_LIST_VERDICT, (int)fit->verdict));
        cJSON_AddNumberToObject(row, "gpus_needed", (double)fit->gpus_needed);
    } else {
        cJSON *wrapped = vram_json_error_write(&error);
        cJSON_AddItemToObject(row, "error", cJSON_DetachItemFromObjectCaseSensitive(wrapped, "error"));
        cJSON_Delete(wrapped);
    }
    vram_json_put_back(json, &swap);
    return row;
}

char *vram_json_options(vram_json *json, const char *request, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, request, bytes, &error);
    cJSON *scenario = cJSON_GetObjectItemCaseSensitive(tree, "scenario"), *options = cJSON_GetObjectItemCaseSensitive(tree, "options");
    if (tree && (!cJSON_IsObject(scenario) || !cJSON_IsObject(options))) {
        vram_json_refuse(tree, VRAM_ERROR_TYPE, cJSON_IsObject(scenario) ? "options" : "scenario", &error);
        cJSON_Delete(tree);
        tree = NULL;
    }
    if (!tree) return print(vram_json_error_write(&error));
    cJSON *out = cJSON_CreateObject(), *answers = cJSON_AddObjectToObject(out, "options");
    for (const cJSON *o = options->child; o; o = o->next) {
        cJSON *rows = cJSON_AddArrayToObject(answers, o->string);
        for (const cJSON *value = cJSON_IsArray(o) ? o->child : NULL; value; value = value->next)
            cJSON_AddItemToArray(rows, option(json, scenario, o->string, value));
    }
    cJSON_Delete(tree);
    return print(out);
}

char *vram_json_timeline(vram_json *json, const char *scenario, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, scenario, bytes, &error);
    bool done = tree && answer(json, tree, &error);
    cJSON_Delete(tree);
    if (done) vram_timeline_of(&json->scenario, &json->report, &json->timeline);
    json->estimated = done;
    return print(done ? vram_json_timeline_write(&json->timeline) : vram_json_error_write(&error));
}

static char *solve(vram_json *json, cJSON *scenario, const cJSON *paths)
{
    vram_error error;
    json->estimated = false;
    json->answers = vram_json_solve_tree(json, scenario, paths, &json->asked, json->answer, &error);
    if (json->answers < 0) vram_json_blame(json, scenario, &error);
    return print(json->answers < 0 ? vram_json_error_write(&error) : vram_json_solution_write(json->answers, json->answer));
}

char *vram_json_solve(vram_json *json, const char *request, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, request, bytes, &error);
    cJSON *scenario = cJSON_GetObjectItemCaseSensitive(tree, "scenario"), *paths = cJSON_GetObjectItemCaseSensitive(tree, "for");
    char *text = NULL;
    json->answers = -1;
    if (tree && !cJSON_IsObject(scenario)) vram_json_refuse(tree, VRAM_ERROR_TYPE, "scenario", &error);
    else if (paths && !cJSON_IsArray(paths)) vram_json_refuse(paths, VRAM_ERROR_TYPE, "for", &error);
    else if (tree) text = solve(json, scenario, paths);
    cJSON_Delete(tree);
    return text ? text : print(vram_json_error_write(&error));
}

char *vram_json_solve_for(vram_json *json, const char *scenario, size_t bytes, const char *paths)
{
    vram_error error;
    cJSON *tree = parse(json, scenario, bytes, &error), *names = paths ? vram_json_split(paths, strlen(paths), ',') : NULL;
    char *text = tree ? solve(json, tree, names) : print(vram_json_error_write(&error));
    if (!tree) json->answers = -1;
    cJSON_Delete(names);
    cJSON_Delete(tree);
    return text;
}

int vram_json_answers(const vram_json *json, const vram_json_answer **rows)
{
    *rows = json->answer;
    return json->answers;
}

static char *claim(vram_json *json, cJSON *scenario)
{
    vram_error error;
    json->estimated = false;
    json->judged = vram_json_claim_tree(json, scenario, &json->asked, &json->claim, &error);
    if (!json->judged) vram_json_blame(json, scenario, &error);
    return print(json->judged ? vram_json_claim_write(&json->claim) : vram_json_error_write(&error));
}

char *vram_json_claim(vram_json *json, const char *request, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, request, bytes, &error), *scenario = cJSON_GetObjectItemCaseSensitive(tree, "scenario");
    bool is_scenario = cJSON_IsObject(scenario);
    json->judged = false;
    if (tree && !is_scenario) vram_json_refuse(tree, VRAM_ERROR_TYPE, "scenario", &error);
    char *text = is_scenario ? claim(json, scenario) : print(vram_json_error_write(&error));
    cJSON_Delete(tree);
    return text;
}

char *vram_json_claim_of(vram_json *json, const char *scenario, size_t bytes)
{
    vram_error error;
    cJSON *tree = parse(json, scenario, bytes, &error);
    json->judged = false;
    char *text = tree ? claim(json, tree) : print(vram_json_error_write(&error));
    cJSON_Delete(tree);
    return text;
}

const vram_json_claim_answer *vram_json_claimed(const vram_json *json) { return json->judged ? &json->claim : NULL; }

char *vram_json_tables(vram_json *json)
{
    cJSON *out = cJSON_CreateObject();
    (void)json;
    cJSON_AddNumberToObject(out, "version", 1);
    cJSON_AddNumberToObject(out, "abi", VRAM_ABI);
    cJSON_AddItemToObject(out, "fields", vram_json_fields());
    cJSON_AddItemToObject(out, "lists", vram_json_lists());
    return print(out);
}

void vram_json_free(char *text) { cJSON_free(text); }

const struct vram_report *vram_json_last(const vram_json *json) { return json->estimated ? &json->report : NULL; }

static cJSON *refusal(int code, const char *path, const char *value)
{
    vram_error error;
    cJSON *said = cJSON_CreateString(value);
    vram_json_refuse(said, (vram_error_code)code, path, &error);
    cJSON_Delete(said);
    return vram_json_error_write(&error);
}

char *vram_json_refusal(int code, const char *path, const char *value) { return print(refusal(code, path, value)); }

char *vram_json_part(const char *report, const char *key)
{
    cJSON *tree = cJSON_Parse(report), *part = cJSON_DetachItemFromObjectCaseSensitive(tree, key);
    if (!part) {
        part = refusal(VRAM_ERROR_UNKNOWN_VALUE, "only", key);
        cJSON *parts = cJSON_AddArrayToObject(part->child, "values");
        for (const cJSON *c = tree ? tree->child : NULL; c; c = c->next) cJSON_AddItemToArray(parts, cJSON_CreateString(c->string));
    }
    cJSON_Delete(tree);
    return print(part);
}

char *vram_json_preset(const vram_json *json, const char *id)
{
    const cJSON *scenarios = cJSON_GetObjectItemCaseSensitive(json->presets, "scenarios");
    for (const cJSON *p = scenarios ? scenarios->child : NULL; p; p = p->next)
        if (strcmp(id_of(p), id) == 0) return cJSON_Print(cJSON_GetObjectItemCaseSensitive(p, "scenario"));
    return NULL;
}

/* models and cards have a name; scenarios a title in several languages, of which the program prints the English one */
bool vram_json_listed(const vram_json *json, const char *list, int i, const char **id, const char **name)
{
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json->presets, list), i);
    const cJSON *title = cJSON_GetObjectItemCaseSensitive(row, "title");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(title ? title : row, title ? "en" : "name");
    if (!row) return false;
    *id = id_of(row);
    *name = cJSON_IsString(text) ? text->valuestring : "";
    return true;
}
