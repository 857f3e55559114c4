/* divide.c -- how many GPUs does it take? The least number over which a natural division of the scenario really fits, each division tried with the
 * estimator itself, and what the GPUs that are there would make of it.
 *
 * Natural is, of an engine that spreads layers (llama.cpp, transformers): as many stages as GPUs. Of a server: tensor parallelism within a machine, by degrees
 * that it accepts; where the number of GPUs is none, or beyond a machine, stages of a pipeline as well (docs.vllm.ai, parallelism_scaling); replicas for
 * the sequences beyond its limit. Of a training: copies that share out states, at its own stage or all (ZeRO 3, FSDP); of Megatron's, and of arithmetic that
 * says a degree already, tensor parallelism within a machine, copies or stages beyond. Everything else stays as it was said.
 *
 * What is searched depends on nothing that the answer sets: asked again of that, the answer is the same, or less. */
#include "json.h"

#include <string.h>

enum { MACHINE = 8, MOST = 1024, MOST_OF_LLAMA_CPP = 16, WAYS = 12 }; /* GPUs in a machine, in all; llama.h llama_max_devices(); divisions of one number */

typedef vram_json_division division;
typedef enum { LAYERS, HEADS, SHARES } manner;

typedef struct {
    vram_json *json;
    cJSON *tree;
    const vram_scenario *s;
    manner by;
    double widest;     /* degree of tensor parallelism within a machine */
    double replicas;   /* of a server */
    double tensor, pipeline; /* degrees that stay where states are shared out */
    double most;       /* GPUs that share one replica */
    double least;      /* no fewer GPUs can do */
    division found, nearest; /* the last that fits; the one that needs the least */
    double peak, headroom;   /* of what was found */
    double bound, limit;     /* of the last one tried: what its report says is needed, and the sequences that its engine runs; 0: no limit */
} search;

/* ------------------------------------------------------------------------------------------- degrees that engines accept -- */

/* Weights of a row that share a scale, and are not taken apart; 1: none do */
static double group_of(const vram_scenario *s)
{
    vram_format format = s->weights == VRAM_FORMAT_NATIVE ? s->model.native : s->weights;
    const vram_format_row *row = format >= 0 ? vram_format_get(format) : NULL;
    bool grouped = row && (row->scheme == VRAM_SCHEME_GPTQ || row->scheme == VRAM_SCHEME_AWQ || row->scheme == VRAM_SCHEME_FP8_BLOCK);
    if (!grouped || s->task != VRAM_TASK_INFERENCE) return 1;
    return vram_max(1, s->weights == VRAM_FORMAT_NATIVE && s->model.native_group != 0 ? (double)s->model.native_group : row->group);
}

/* Heads must divide, those of keys and values or else be copied a whole number of times; widths must, and whole groups stay on a rank.
 * Sources: vLLM config/model.py (verify_with_parallel_config), model_executor/models/llama.py (LlamaAttention), layers/linear.py (divide),
 * layers/quantization/fp8.py (validate_fp8_block_shape); sglang/srt/models likewise; megatron/core/transformer/transformer_config.py. */
static bool takes_layer(const vram_layer *l, double ranks, double experts_cut, double group)
{
    const vram_attention *a = &l->attention;
    double heads = (double)a->heads, kv = (double)a->kv_heads;
    if (a->type != VRAM_MIXER_NONE && !vram_divides(heads, ranks)) return false;
    if (a->type == VRAM_MIXER_SOFTMAX && !vram_divides(kv, ranks) && !vram_divides(ranks, kv)) return false;
    const struct { double width, parts; } rows[] = {{(double)l->ffn.width, ranks * group}, {(double)l->ffn.shared_width, ranks * group}, {(double)l->ffn.expert_width, experts_cut * group}, {(double)l->state.heads, ranks}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!vram_divides(rows[i].width, rows[i].parts)) return false;
    return true;
}

static bool takes(const vram_scenario *s, double ranks)
{
    double cut = s->parallel.expert > 1 ? vram_max(1, vram_floor_div(ranks, (double)s->parallel.expert)) : ranks, group = group_of(s);
    for (int k = 0; k < s->model.kinds && ranks > 1; k++)
        if (!takes_layer(&s->model.kind[k], ranks, cut, group)) return false;
    return true;
}

/* ---------------------------------------------------------------------------------------------------- divisions of a number -- */

static bool trains(const search *q) { return q->s->task != VRAM_TASK_INFERENCE; }

/* The stage that copies of the scenario have, were there several */
static int own_stage(const vram_scenario *s)
{
    if (s->parallel.engine == VRAM_PARALLEL_ENGINE_DDP) return 0;
    return (int)(vram_is_fsdp(s) && s->parallel.zero < 2 ? 2 : s->parallel.zero);
}

static division as_said(const search *q, double data, double tensor, double pipeline)
{
    return (division){.data = data * q->replicas, .tensor = tensor, .pipeline = pipeline, .zero = (int)q->s->parallel.zero, .engine = q->s->parallel.engine};
}

/* Copies that share out all that the engine can: Megatron's distributed optimizer its states. Where no engine was named that could, FSDP 2; pure arithmetic
 * (no overheads) stays so. */
static division all_shared(const search *q, double data, double tensor, double pipeline)
{
    const vram_scenario *s = q->s;
    division d = as_said(q, data, tensor, pipeline);
    bool megatron = vram_is_megatron(s, &s->model), bare = d.engine == VRAM_PARALLEL_ENGINE_PLAIN && d.zero == 0 && s->overheads && tensor * pipeline <= 1;
    bool states_alone = megatron || (d.engine == VRAM_PARALLEL_ENGINE_DEEPSPEED && pipeline > 1); /* the rest it refuses beside stages */
    d.zero = states_alone ? (int)vram_max(1, d.zero) : 3;
    if (!megatron && (bare || d.engine == VRAM_PARALLEL_ENGINE_DDP)) d.engine = VRAM_PARALLEL_ENGINE_FSDP2;
    return d;
}

/* Tensor parallelism as wide as may be first; what is left of the number are stages, of trainings and divided experts also copies. */
static int by_heads(const search *q, double n, division list[WAYS])
{
    int k = 0;
    bool copies = trains(q) || q->s->parallel.expert > 1;
    double said = (double)q->s->parallel.tensor * (double)q->s->parallel.pipeline;
    for (double tensor = vram_min(n, q->widest); tensor >= 1 && k + 3 < WAYS; tensor--) {
        double rest = n / tensor;
        double ranks = tensor * (double)q->s->parallel.context, expert = (double)q->s->parallel.expert;
        if (!vram_divides(n, tensor) || (n > MACHINE && tensor != q->widest) || !takes(q->s, tensor)) continue;
        if (rest <= (double)q->s->model.layers && ranks >= expert) list[k++] = as_said(q, 1, tensor, rest);
        if (rest > 1 && copies && ranks * rest >= expert) list[k++] = trains(q) ? all_shared(q, rest, tensor, 1) : as_said(q, rest, tensor, 1);
    }
    if (trains(q) && said > 1 && n > said && vram_divides(n, said)) list[k++] = all_shared(q, n / said, (double)q->s->parallel.tensor, (double)q->s->parallel.pipeline);
    return k;
}

static int divisions(const search *q, double n, division list[WAYS])
{
    int k = 0;
    double tensor = q->tensor, pipeline = q->pipeline;
    if (q->by == HEADS) return by_heads(q, n, list);
    if (q->by == LAYERS) list[k++] = as_said(q, 1, 1, n);
    if (q->by == SHARES && (n <= 1 || own_stage(q->s) > 0)) list[k++] = as_said(q, n, tensor, pipeline);
    if (q->by == SHARES && n > 1 && own_stage(q->s) < 3) list[k++] = all_shared(q, n, tensor, pipeline);
    return k;
}

/* --------------------------------------------------------------------------------------------------------- trying one -- */

/* Sequences can be padded to divide; stages of all but Megatron's may differ by a layer (parallel.c). */
static bool refuses(const vram_scenario *s, const vram_note *note)
{
    if (note->id != VRAM_NOTE_NOT_DIVIDING) return note->id == VRAM_NOTE_HEADS_NOT_DIVISIBLE || note->id == VRAM_NOTE_STAGES_AND_ZERO;
    return strcmp(note->path, "parallel.context") != 0 && (strcmp(note->path, "parallel.pipeline") != 0 || vram_is_megatron(s, &s->model));
}

static bool refused(const vram_scenario *s, const vram_report *r)
{
    for (int i = 0; i < r->notes; i++)
        if (refuses(s, &r->note[i])) return true;
    return false;
}

static double gpus_of(const vram_scenario *s, const division *d) { return vram_gpus_over(s, d->data, d->tensor, d->pipeline); }

static const vram_report *run(search *q, const division *d, bool verdict_alone)
{
    vram_json_swap swap[5];
    vram_error error;
    int n = 0;
    swap[n++] = vram_json_put(q->tree, "parallel.data", cJSON_CreateNumber(d->data));
    swap[n++] = vram_json_put(q->tree, "parallel.tensor", cJSON_CreateNumber(d->tensor));
    swap[n++] = vram_json_put(q->tree, "parallel.pipeline", cJSON_CreateNumber(d->pipeline));
    if (trains(q)) swap[n++] = vram_json_put(q->tree, "parallel.zero", cJSON_CreateNumber(d->zero));
    if (trains(q)) swap[n++] = vram_json_put(q->tree, "parallel.engine", cJSON_CreateString(vram_name(VRAM_LIST_PARALLEL_ENGINE, d->engine)));
    const vram_report *r = vram_json_run(q->json, q->tree, verdict_alone, &error);
    while (n > 0) vram_json_put_back(q->json, &swap[--n]);
    return r;
}

/* False when an engine would refuse it. */
static bool attempt(search *q, division *d)
{
    const vram_report *r = run(q, d, true);
    q->bound = r ? (double)r->fit[0].gpus_needed : 1;
    q->limit = r && r->pool.first_bytes > 0 ? r->pool.sequences_limit : 0;
    if (!r || refused(q->s, r)) return false;
    d->gpus = gpus_of(q->s, d);
    d->verdict = (int)r->fit[0].verdict;
    d->needed_bytes = r->fit[0].needed_bytes;
    if (q->nearest.gpus <= 0 || d->needed_bytes < q->nearest.needed_bytes) q->nearest = *d;
    if (d->verdict == VRAM_VERDICT_NO) return true;
    q->found = *d;
    q->peak = r->peak_bytes;
    q->headroom = r->fit[0].headroom_bytes;
    return true;
}

/* Does one of the divisions of this number fit? */
static bool over(search *q, double n)
{
    division list[WAYS];
    int count = divisions(q, n, list);
    for (int i = 0; i < count; i++)
        if (gpus_of(q->s, &list[i]) >= q->least && attempt(q, &list[i]) && list[i].verdict != VRAM_VERDICT_NO) return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------------------ the least -- */

/* One by one within a machine, then doubled until it fits, then halved between: beyond a machine more GPUs of one kind of division need more each only where
 * experts are filled up. */
static bool find(search *q)
{
    double unit = q->by == HEADS ? q->widest : 1, low = 0, n = 1;
    while (!over(q, n)) {
        low = n;
        n = n < MACHINE ? n + 1 : vram_round_up(2 * n, unit);
        if (n > q->most) n = low < q->most ? q->most : 0;
        if (n <= 0) return false;
    }
    while (n > MACHINE && n - low > unit) {
        double middle = vram_round_up(vram_floor_div(low + n, 2), unit);
        if (middle >= n) break;
        if (over(q, middle)) n = middle;
        else low = middle;
    }
    return over(q, n);
}

/* What is undivided says how few could do (0: what stays on each GPU is more than it has), and how many replicas of a server the sequences want. */
static void begin(search *q)
{
    division list[WAYS] = {as_said(q, 1, 1, 1)};
    divisions(q, 1, list);
    if (q->by == HEADS && trains(q)) list[0] = as_said(q, 1, (double)q->s->parallel.tensor, (double)q->s->parallel.pipeline); /* where work is known to be divided */
    attempt(q, &list[0]);
    q->least = q->bound;
    if (q->limit > 0) q->replicas = vram_ceil_div((double)q->s->batch, q->limit);
}

static manner manner_of(const vram_scenario *s)
{
    bool spreads = s->engine == VRAM_ENGINE_LLAMA_CPP || (s->engine == VRAM_ENGINE_TRANSFORMERS && s->parallel.tensor == 1);
    if (s->task == VRAM_TASK_INFERENCE && spreads) return LAYERS;
    return vram_divides_work(s) ? HEADS : SHARES;
}

static double widest_of(const vram_scenario *s)
{
    double ranks = vram_max(MACHINE, (double)s->parallel.expert);
    while (!takes(s, ranks)) ranks--; /* one is always taken */
    return ranks;
}

static void limits(search *q)
{
    const vram_scenario *s = q->s;
    double degrees = q->by == SHARES ? q->tensor * q->pipeline : 1, layers = (double)s->model.layers;
    q->most = vram_max(1, vram_floor_div(MOST, degrees * (double)s->parallel.context * q->replicas));
    if (q->by == LAYERS) q->most = vram_min(layers, s->engine == VRAM_ENGINE_LLAMA_CPP ? MOST_OF_LLAMA_CPP : q->most);
    if (q->by == HEADS) q->most = vram_floor_div(q->most, q->widest) * q->widest;
}

/* The GPUs that are there and are no part of one model yet: the first division over all of them that fits, else the first. */
static division over_all(search *q)
{
    const vram_scenario *s = q->s;
    division list[WAYS], best = {.gpus = 0};
    double one = q->by == SHARES ? q->tensor * q->pipeline : 1, n = (double)s->gpus / (one * (double)s->parallel.context * q->replicas);
    int count = vram_divides(n, 1) && n >= 1 ? divisions(q, n, list) : 0;
    for (int i = 0; i < count; i++)
        if (attempt(q, &list[i]) && (best.gpus <= 0 || (best.verdict == VRAM_VERDICT_NO && list[i].verdict != VRAM_VERDICT_NO))) best = list[i];
    return best;
}

/* What a division that does not fit would need in all: a verdict alone stops where it is clear. */
static void tell(search *q, division *d)
{
    const vram_report *r = d->gpus > 0 && d->verdict == VRAM_VERDICT_NO ? run(q, d, false) : NULL;
    if (r) d->needed_bytes = r->fit[0].needed_bytes;
}

/* What stays on a GPU is more than it has. Which number comes nearest? Experts that are filled up can make more GPUs need more. */
static bool look_around(search *q)
{
    q->least = 0;
    for (double n = q->by == HEADS ? q->widest : 1; n < q->most; n *= 2)
        if (over(q, n)) return true;
    return over(q, q->most);
}

/* The degrees that were said, where they fit and take fewer GPUs than what is natural. */
static bool as_it_stands(search *q, bool found)
{
    const vram_scenario *s = q->s;
    division d = {.data = (double)s->parallel.data, .tensor = (double)s->parallel.tensor, .pipeline = (double)s->parallel.pipeline, .zero = (int)s->parallel.zero, .engine = s->parallel.engine};
    bool fewer = !found || gpus_of(s, &d) < q->found.gpus;
    return (fewer && attempt(q, &d) && d.verdict != VRAM_VERDICT_NO) || found;
}

static bool search_all(search *q)
{
    limits(q);
    bool alone = q->found.gpus == 1; /* fits as it is */
    return alone || (q->least > 0 && find(q)) || look_around(q);
}

/* `scenario` is as it was said; gpus follow from each division that is tried. */
void vram_json_divide(vram_json *json, cJSON *scenario, const vram_scenario *s, vram_verdict now, vram_json_answer *row)
{
    search q = {.json = json, .tree = scenario, .s = s, .by = manner_of(s), .widest = widest_of(s), .replicas = 1, .tensor = (double)s->parallel.tensor, .pipeline = (double)s->parallel.pipeline};
    cJSON *gpus = cJSON_DetachItemFromObjectCaseSensitive(scenario, "gpus");
    double idle = (double)s->gpus - vram_gpus_of_degrees(s);
    begin(&q);
    row->found = search_all(&q);
    if (!row->found && q.nearest.gpus <= 0) { /* degrees that are refused may be taken otherwise */
        q.tensor = q.pipeline = 1;
        begin(&q);
        row->found = search_all(&q);
    }
    row->found = as_it_stands(&q, row->found);
    row->division = q.found;
    row->value = q.found.gpus;
    row->bytes = q.peak;
    row->needed_bytes = q.found.needed_bytes;
    row->headroom_bytes = q.headroom;
    row->verdict = q.found.verdict;
    row->nearest = q.nearest;
    row->over = s->gpus > 1 && (idle != 0 || now == VRAM_VERDICT_NO) ? over_all(&q) : (division){.gpus = 0};
    if (idle <= 0 && row->over.verdict == VRAM_VERDICT_NO) row->over.gpus = 0;
    if (!row->found) tell(&q, &row->nearest);
    tell(&q, &row->over);
    if (gpus) cJSON_AddItemToObject(scenario, "gpus", gpus);
}
