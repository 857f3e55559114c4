/* parallel.c -- what the fullest GPU holds of the parameters after tensor, expert and pipeline parallelism.
 *
 * Tensor parallelism (Megatron, vLLM): column-parallel layers are cut by rows, row-parallel ones by columns, the vocabulary by words;
 * key and value heads are copied when there are fewer of them than ranks. Norms, routers and latent projections stay whole.
 * Expert parallelism gives each rank ceil(experts / expert) experts. Pipeline parallelism gives each stage layers of its own, the first the
 * embedding, the last the final norm and the head: vram_estimate() goes through the stages, and model.stage is the one that is spoken of.
 * Source: Shoeybi et al. 2019 (arXiv 1909.08053). */
#include "core.h"

#include <stddef.h>
#include <string.h>

static double share(double whole, double ranks) { return vram_ceil_div(whole, ranks); }

/* Heads that one rank keeps of `heads`, never less than one. */
static double heads_of_rank(double heads, double ranks) { return ranks >= heads ? 1 : share(heads, ranks); }

bool vram_is_megatron(const vram_scenario *s, const vram_model *m)
{
    return s->parallel.engine == VRAM_PARALLEL_ENGINE_MEGATRON || strcmp(m->model_type, "megatron") == 0;
}

bool vram_is_fsdp(const vram_scenario *s) { return s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1 || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2; }
double vram_data_ranks(const vram_scenario *s) { return (double)s->parallel.data * (double)s->parallel.context; }
int64_t vram_zero_of(const vram_scenario *s)
{
    bool alone = vram_data_ranks(s) <= 1 && s->parallel.engine != VRAM_PARALLEL_ENGINE_DEEPSPEED && s->parallel.engine != VRAM_PARALLEL_ENGINE_FSDP2; /* these two do all the same */
    if (s->parallel.engine == VRAM_PARALLEL_ENGINE_DDP || alone) return 0;
    return vram_is_fsdp(s) && s->parallel.zero < 2 ? 2 : s->parallel.zero;
}

double vram_expert_tensor(const vram_scenario *s) { return (double)s->parallel.expert_tensor; } /* megatron/core/parallel_state.py: the tensor degree unless it is said */

/* Where an expert is cut over fewer ranks than the rest, each of the others' ranks brings its own part of the tokens.
 * Source: torchtitan/distributed/expert_parallel.py (ReordererSequenceParallel); megatron/core/transformer/moe/token_dispatcher.py */
double vram_expert_tokens(const vram_scenario *s)
{
    double ranks = vram_expert_tensor(s);
    return ranks / vram_max(ranks, (double)s->parallel.tensor);
}

/* Source: torchtitan/distributed/parallel_dims.py (dp_mod_ep); megatron/core/parallel_state.py (expert data parallel size) */
double vram_expert_replicas(const vram_scenario *s)
{
    double ranks = vram_data_ranks(s) * (double)s->parallel.tensor;
    return vram_max(1, vram_floor_div(ranks, (double)s->parallel.expert * vram_expert_tensor(s)));
}

static void divide(int64_t *count, double ranks) { *count = (int64_t)vram_ceil_div((double)*count, ranks); }

const vram_layer *vram_rank_layer(const vram_scenario *s, const vram_layer *layer, vram_layer *mine)
{
    double tp = (double)s->parallel.tensor;
    *mine = *layer;
    int64_t *const counts[] = {&mine->attention.heads, &mine->attention.output, &mine->attention.gate_width, &mine->ffn.width, &mine->ffn.shared_width,
                               &mine->state.inner, &mine->state.heads, &mine->state.key_heads, &mine->state.groups};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) divide(counts[i], tp);
    if (mine->attention.kv_heads > 0) mine->attention.kv_heads = (int64_t)heads_of_rank((double)mine->attention.kv_heads, tp);
    divide(&mine->ffn.expert_width, vram_expert_tensor(s));
    return mine;
}

/* --------------------------------------------------------------------------------------------------------- stages -- */

static double within(double n, double most) { return vram_max(0, vram_min(n, most)); }

/* Micro-batches whose activations a chunk of a stage's layers holds. One forward, one backward (Narayanan et al. 2021, arXiv 2104.04473): stage r of p has p - r.
 * With v chunks a stage (interleaved) 2 (p - r - 1) + (v - 1) p + 1 go through its chunks before the first backward, p through the first, then p through the
 * next (megatron/core/pipeline_parallel/schedules.py, get_pp_rank_microbatches, get_schedule_table). */
static double in_flight(const vram_scenario *s, double rank, double chunk)
{
    double p = (double)s->parallel.pipeline, v = (double)s->parallel.virtual_pipeline, batches = (double)s->training.gradient_accumulation, group = vram_min(p, batches);
    if (s->task == VRAM_TASK_INFERENCE) return 1;
    if (v <= 1) return vram_min(batches, p - rank);
    double through = vram_min(batches * v, 2 * (p - rank - 1) + (v - 1) * p + 1), rounds = vram_floor_div(through, group * v);
    return rounds * group + within(through - rounds * group * v - chunk * group, group);
}

/* Layers before a part, of n that a model is cut into. Evenly; what is left over goes one each to the first parts (DeepSpeed, runtime/utils.py,
 * partition_uniform; Megatron refuses it), under vLLM to the last but the very last (distributed/utils.py, get_pp_indices), under SGLang to the last
 * (srt/distributed/utils.py). torchtitan counts embedding and head as a layer each (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part). */
static int64_t layers_before(const vram_scenario *s, const vram_model *m, double part, double n)
{
    bool serves = s->task == VRAM_TASK_INFERENCE, titan = !serves && s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2;
    double all = (double)m->layers + (titan ? 2 : 0), each = vram_floor_div(all, n), over = all - n * each;
    double first = serves && s->engine == VRAM_ENGINE_VLLM ? n - 1 - over : serves && s->engine == VRAM_ENGINE_SGLANG ? n - over : 0; /* part that gets one more */
    return (int64_t)within(part * each + within(part - first, over) - (titan ? 1 : 0), (double)m->layers);
}

/* llama.cpp shares out by a rule of its own: gguf.c */
int64_t vram_stages(const vram_scenario *s) { return s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_LLAMA_CPP ? 1 : s->parallel.pipeline; }

/* With v chunks a stage has every p-th of v p parts. */
typedef struct { int64_t first, end; } span;

static span chunk_of(const vram_scenario *s, const vram_model *m, int64_t number, int64_t chunk)
{
    double part = (double)(chunk * s->parallel.pipeline + number), parts = (double)(s->parallel.pipeline * s->parallel.virtual_pipeline);
    return (span){layers_before(s, m, part, parts), layers_before(s, m, part + 1, parts)};
}

static bool has_embedding(int64_t number) { return number == 0; }
static bool has_head(const vram_scenario *s, int64_t number) { return number == s->parallel.pipeline - 1; }

static void add_layers(vram_model *m, span of, double batches)
{
    vram_stage *stage = &m->stage;
    for (int64_t i = of.first; i < of.end; i++) {
        stage->in_flight[stage->layers] = (short)batches;
        stage->kind[stage->layers++] = m->layer_kind[i];
        stage->of_kind[m->layer_kind[i]]++;
    }
}

static void clear(vram_model *m)
{
    m->stage.number = m->stage.layers = 0;
    m->stage.in_flight[0] = 1;
    m->stage.embedding = m->stage.head = true;
    for (int k = 0; k < m->kinds; k++) m->stage.of_kind[k] = 0;
}

void vram_stage_whole(vram_model *m)
{
    clear(m);
    add_layers(m, (span){0, m->layers}, 1);
}

void vram_stage_choose(const vram_scenario *s, vram_model *m, int64_t number)
{
    if (vram_stages(s) <= 1) {
        vram_stage_whole(m);
        return;
    }
    clear(m);
    m->stage.number = number;
    m->stage.embedding = has_embedding(number);
    m->stage.head = has_head(s, number);
    for (int64_t c = 0; c < s->parallel.virtual_pipeline; c++) add_layers(m, chunk_of(s, m, number, c), in_flight(s, (double)number, (double)c));
}

bool vram_stages_alike(const vram_scenario *s, const vram_model *m, int64_t a, int64_t b)
{
    bool alike = has_embedding(a) == has_embedding(b) && has_head(s, a) == has_head(s, b);
    for (int64_t c = 0; alike && c < s->parallel.virtual_pipeline; c++) {
        span one = chunk_of(s, m, a, c), other = chunk_of(s, m, b, c);
        alike = one.end - one.first == other.end - other.first && memcmp(&m->layer_kind[one.first], &m->layer_kind[other.first], (size_t)(one.end - one.first)) == 0;
    }
    return alike;
}

/* Is the row, of none of the layers, on the stage? A tied head is the embedding's copy. */
static bool on_stage(const vram_model *m, const vram_tensor *t)
{
    bool table = t->part == VRAM_PART_EMBEDDING && t->shard == VRAM_SHARD_VOCABULARY;
    return t->part == VRAM_PART_EMBEDDING ? m->stage.embedding || (m->stage.head && m->tied && table) : m->stage.head;
}

/* ------------------------------------------------------------------------------------------------------ parameters -- */

vram_tensor vram_rank_tensor(const vram_scenario *s, const vram_model *model, const vram_tensor *t)
{
    vram_tensor mine = *t;
    double rows = (double)t->rows, columns = (double)t->columns, copies = (double)t->copies, tp = (double)s->parallel.tensor;
    switch (t->shard) {
    case VRAM_SHARD_ROWS:
    case VRAM_SHARD_VOCABULARY: rows = share(rows, tp); break;
    case VRAM_SHARD_COLUMNS: columns = share(columns, tp); break;
    case VRAM_SHARD_KV_ROWS: {
        const vram_attention *a = &model->kind[t->kind < 0 ? 0 : t->kind].attention;
        double heads = (double)a->kv_heads;
        rows = heads > 0 ? rows / heads * heads_of_rank(heads, tp) : share(rows, tp);
        break;
    }
    case VRAM_SHARD_EXPERTS: {
        copies = share(copies, (double)s->parallel.expert);
        rows = share(rows, vram_expert_tensor(s));
        break;
    }
    case VRAM_SHARD_NONE: break;
    }
    if (t->kind < 0) mine.layers = on_stage(model, t) ? t->layers : 0;
    else if (model->stage.layers < model->layers && model->stage.of_kind[t->kind] < t->layers) mine.layers = model->stage.of_kind[t->kind]; /* sets that layers share may be fewer */
    mine.copies = (int64_t)copies;
    mine.rows = (int64_t)rows;
    mine.columns = (int64_t)columns;
    return mine;
}

double vram_rank_tensor_params(const vram_scenario *s, const vram_model *model, const vram_tensor *t)
{
    vram_tensor mine = vram_rank_tensor(s, model, t);
    return vram_tensor_params(&mine);
}

double vram_rank_layer_params(const vram_scenario *s, const vram_model *model, const vram_tensor *t)
{
    vram_tensor mine = vram_rank_tensor(s, model, t);
    return t->kind < 0 && mine.layers == 0 ? 0 : (double)mine.copies * (double)mine.rows * (double)mine.columns;
}

double vram_rank_params(const vram_scenario *s, const vram_model *model)
{
    double sum = 0;
    if (model->params_override > 0) return share(model->params_override, (double)(s->parallel.tensor * s->parallel.pipeline));
    for (int i = 0; i < model->tensors; i++)
        if (!model->tensor[i].buffer) sum += vram_rank_tensor_params(s, model, &model->tensor[i]);
    return sum;
}

double vram_rank_expert_params(const vram_scenario *s, const vram_model *model)
{
    double sum = 0;
    for (int i = 0; i < model->tensors; i++)
        if (model->tensor[i].part == VRAM_PART_EXPERT && !model->tensor[i].buffer) sum += vram_rank_tensor_params(s, model, &model->tensor[i]);
    return sum;
}
