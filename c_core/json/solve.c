/* solve.c -- the inverse questions: the longest context, the most sequences, the heaviest stored weights that still fit on the scenario's own GPUs; and of
 * these themselves the fewest (divide.c).
 *
 * A whole number is searched from its present value: doubled until it does not fit (or halved until it does), then halved between the two. More
 * tokens, sequences or rows need more tensors, but the gaps that PyTorch's allocator leaves between them jump: a larger value may fit where the next does not. */
#include "json.h"

#include <stddef.h>
#include <string.h>

/* What is asked when nothing is said, by task. A pool of llama.cpp is of one size however many sequences share it, and layers may stay in host memory. */
static const char *const asked[][5] = {
    [VRAM_TASK_INFERENCE] = {"context", "batch", "weights"},
    [VRAM_TASK_TRAINING] = {"training.sequence_length", "training.micro_batch", "weights"},
    [VRAM_TASK_RL] = {"rl.response", "training.micro_batch", "rl.rollout_batch", "weights"},
};
static const char *const asked_of_llama_cpp[] = {"context", "llama_cpp.slots", "weights", "llama_cpp.gpu_layers", NULL};

/* Weights that an engine can really load, of a training the base's; each list's order is no matter: the heaviest that fits is the answer. */
static const char *const served[][32] = {
    [VRAM_ENGINE_BARE] = {"bf16", "fp8", "int8", "int4"},
    [VRAM_ENGINE_TRANSFORMERS] = {"bf16", "fp8-block128", "gptq-int8-g128", "gptq-int4-g128", "awq-int4-g128", "nf4", "nf4-dq", "mxfp4"},
    [VRAM_ENGINE_VLLM] = {"bf16", "fp8-dynamic", "fp8-block128", "gptq-int8-g128", "gptq-int4-g128", "awq-int4-g128", "mxfp4", "nvfp4"},
    [VRAM_ENGINE_SGLANG] = {"bf16", "fp8-dynamic", "fp8-block128", "gptq-int8-g128", "gptq-int4-g128", "awq-int4-g128", "mxfp4", "nvfp4"},
    [VRAM_ENGINE_LLAMA_CPP] = {"gguf:BF16", "gguf:Q8_0", "gguf:Q6_K", "gguf:Q5_K_M", "gguf:Q5_K_S", "gguf:Q4_K_M", "gguf:Q4_K_S", "gguf:IQ4_XS", "gguf:Q3_K_L", "gguf:Q3_K_M",
                               "gguf:Q3_K_S", "gguf:IQ3_M", "gguf:IQ3_XXS", "gguf:Q2_K", "gguf:IQ2_M", "gguf:IQ2_XXS", "gguf:IQ1_M", "gguf:IQ1_S"},
};

typedef struct {
    vram_json *json;
    cJSON *tree;           /* the scenario as it was said */
    const char *path;
} question;

typedef struct { bool fits, refused; double needed, headroom, peak, weights; vram_verdict verdict; vram_error error; } outcome;

/* Takes `value` over. */
static outcome try_value(const question *q, cJSON *value)
{
    outcome o = {.fits = false};
    vram_json_swap swap = vram_json_put(q->tree, q->path, value);
    const vram_report *r = vram_json_run(q->json, q->tree, true, &o.error);
    vram_json_put_back(q->json, &swap);
    o.refused = !r;
    if (!r) return o;
    o.verdict = r->fit[0].verdict;
    o.fits = o.verdict != VRAM_VERDICT_NO;
    o.headroom = r->fit[0].headroom_bytes;
    o.needed = r->fit[0].needed_bytes;
    o.peak = r->peak_bytes;
    o.weights = vram_bytes_alive(r, r->peak, VRAM_BIT(VRAM_COMPONENT_WEIGHTS));
    return o;
}

static outcome try_number(const question *q, double value) { return try_value(q, cJSON_CreateNumber(value)); }

/* The largest whole number in [min, max] that fits, and what it needs; -1 when none does. A refused number does not fit: it contradicts another field. */
static double largest_number(const question *q, double now, double min, double max, outcome *found)
{
    double low = now, high = now; /* low fits, high does not */
    *found = try_number(q, now);
    if (found->fits) {
        for (outcome next; low < max; low = high, *found = next) {
            high = vram_min(max, vram_max(low * 2, low + 1));
            next = try_number(q, high);
            if (!next.fits) break;
        }
        if (low >= max) return max;
    } else {
        for (bool fits = false; !fits; high = fits ? high : low) {
            if (low <= min) return -1;
            low = vram_max(min, vram_floor_div(low, 2));
            *found = try_number(q, low);
            fits = found->fits;
        }
    }
    while (high - low > 1) {
        double middle = vram_floor_div(low + high, 2);
        outcome o = try_number(q, middle);
        if (o.fits) low = middle, *found = o;
        else high = middle;
    }
    return low;
}

static void keep(vram_json_answer *row, const outcome *o)
{
    row->found = true;
    row->bytes = o->peak;
    row->needed_bytes = o->needed;
    row->headroom_bytes = o->headroom;
    row->verdict = (int)o->verdict;
}

static void answer_number(const question *q, const vram_json_range *range, vram_json_answer *row)
{
    outcome found;
    row->limit = range->limit;
    row->value = largest_number(q, range->now, range->min, range->max, &found);
    if (row->value >= 0) keep(row, &found);
}

static void answer_weights(const question *q, int engine, vram_json_answer *row)
{
    double heaviest = -1;
    for (int i = 0; served[engine][i]; i++) {
        outcome o = try_value(q, cJSON_CreateString(served[engine][i]));
        if (o.refused || !o.fits || o.weights <= heaviest) continue;
        heaviest = o.weights;
        row->word = served[engine][i];
        keep(row, &o);
    }
}

static void copy_name(char *to, size_t room, const char *from)
{
    size_t n = 0;
    for (; from[n] && n + 1 < room; n++) to[n] = from[n] >= 0x20 && from[n] < 0x7F ? from[n] : '?';
    to[n] = '\0';
}

static void answer_gpus(const question *q, const vram_scenario *s, vram_json_answer *row)
{
    vram_error error;
    const vram_report *r = s->gpus > 1 ? vram_json_run(q->json, q->tree, true, &error) : NULL; /* one is no matter */
    row->divides = true;
    row->trains = s->task != VRAM_TASK_INFERENCE;
    vram_json_divide(q->json, q->tree, s, r ? r->fit[0].verdict : VRAM_VERDICT_NO, row);
}

/* False with an error when the path asks for nothing that can be searched, or for what changes nothing here. */
static bool answer(const question *q, const vram_scenario *s, vram_json_answer *row, vram_error *error)
{
    vram_json_range range;
    bool weights = strcmp(q->path, "weights") == 0, gpus = strcmp(q->path, "gpus") == 0;
    memset(row, 0, sizeof *row);
    copy_name(row->path, sizeof row->path, q->path);
    if (!weights && !gpus && !vram_json_range_of(s, q->path, &range)) {
        vram_fail(error, VRAM_ERROR_UNKNOWN_VALUE, "for", VRAM_NO_NUMBER, 1, 0);
        copy_name(error->text, sizeof error->text, q->path);
        return false;
    }
    if (!vram_json_is_read(s, q->path)) return vram_fail(error, VRAM_ERROR_NOT_READ, row->path, VRAM_NO_NUMBER, 1, 0); /* every value of it would do */
    if (gpus) answer_gpus(q, s, row);
    else if (weights) answer_weights(q, s->task == VRAM_TASK_INFERENCE ? s->engine : VRAM_ENGINE_TRANSFORMERS, row);
    else answer_number(q, &range, row);
    return true;
}

/* Paths that the request names, or the task's own questions, of fields that the scenario reads. */
static cJSON *questions(const cJSON *said, const vram_scenario *s)
{
    if (cJSON_IsArray(said)) return cJSON_Duplicate(said, 1);
    cJSON *paths = cJSON_CreateArray();
    const char *const *list = s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_LLAMA_CPP ? asked_of_llama_cpp : asked[s->task];
    for (; *list; list++)
        if (vram_json_is_read(s, *list)) cJSON_AddItemToArray(paths, cJSON_CreateString(*list));
    return paths;
}

int vram_json_solve_tree(vram_json *json, cJSON *scenario, const cJSON *said, vram_scenario *s, vram_json_answer rows[], vram_error *error)
{
    if (!vram_json_scenario_read(json, scenario, s, &(vram_json_configs){0}, error)) return -1;
    cJSON *paths = questions(said, s);
    int n = 0;
    for (const cJSON *p = paths->child; p && n >= 0 && n < VRAM_JSON_ANSWERS; p = p->next) {
        question q = {json, scenario, cJSON_IsString(p) ? p->valuestring : ""};
        n = answer(&q, s, &rows[n], error) ? n + 1 : -1;
    }
    cJSON_Delete(paths);
    return n;
}
