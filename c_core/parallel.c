/* parallel.c -- what the fullest GPU holds of the parameters after tensor, expert and pipeline parallelism.
 *
 * Tensor parallelism (Megatron, vLLM): column-parallel layers are cut by rows, row-parallel ones by columns, the vocabulary by words;
 * key and value heads are copied when there are fewer of them than ranks. Norms, routers and latent projections stay whole.
 * Expert parallelism gives each rank ceil(experts / expert) experts. Pipeline parallelism gives each stage ceil(layers / stages)
 * layers; the fullest stage is taken to hold the embedding or the head as well.
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

/* One forward, one backward (Narayanan et al. 2021, arXiv 2104.04473): stage r of p holds p - r micro-batches; with v chunks a stage (interleaved)
 * 2 (p - r - 1) + (v - 1) p + 1 chunks are warmed up before the first backward. */
static double in_flight(const vram_scenario *s, double rank)
{
    double p = (double)s->parallel.pipeline, v = (double)s->parallel.virtual_pipeline, batches = (double)s->training.gradient_accumulation;
    if (v <= 1) return vram_min(batches, p - rank);
    return vram_min(batches * v, 2 * (p - rank - 1) + (v - 1) * p + 1) / v;
}

/* The first stage holds more micro-batches, the last the logits: the rule of Korthikanti et al. (arXiv 2205.05198) says which is more. */
vram_stage vram_stage_of(const vram_scenario *s, const vram_model *m)
{
    double p = (double)s->parallel.pipeline, tp = (double)s->parallel.tensor, h = (double)m->hidden, heads = vram_most_heads(m);
    vram_stage whole = {(int64_t)vram_ceil_div((double)m->layers, p), 1, true, true};
    bool uneven = m->layers % s->parallel.pipeline != 0; /* the last stage then has a layer less (vLLM, distributed/utils.py get_pp_indices) */
    if (p > 1 && s->task == VRAM_TASK_INFERENCE) return (vram_stage){whole.layers, 1, uneven, !uneven};
    if (p <= 1) return whole;
    double scores = s->training.attention == VRAM_ATTENTION_EAGER ? 5 * heads * (double)s->training.sequence_length : 0;
    double kept = s->training.checkpointing == VRAM_CHECKPOINTING_FULL ? 2 * h : (s->parallel.sequence ? 34 * h / tp : 10 * h + 24 * h / tp) + scores / tp;
    double first = in_flight(s, 0), last = in_flight(s, p - 1);
    bool is_first = kept * (double)whole.layers * (first - last) >= 10 * (double)m->vocab / tp;
    return (vram_stage){whole.layers, is_first ? first : last, is_first, !is_first};
}

/* Is the row, of none of the layers, on the stage? A tied head is the embedding's copy. */
static bool on_stage(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    vram_stage stage = vram_stage_of(s, m);
    bool table = t->part == VRAM_PART_EMBEDDING && t->shard == VRAM_SHARD_VOCABULARY;
    return t->part == VRAM_PART_EMBEDDING ? stage.embedding || (m->tied && table) : stage.head;
}

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
    if (t->kind >= 0) mine.layers = (int64_t)share((double)t->layers, (double)s->parallel.pipeline);
    else if (!on_stage(s, model, t)) mine.layers = 0;
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
