/* parallel.c -- what the fullest GPU holds of the parameters after tensor, expert and pipeline parallelism.
 *
 * Tensor parallelism (Megatron, vLLM): column-parallel layers are cut by rows, row-parallel ones by columns, the vocabulary by words;
 * key and value heads are copied when there are fewer of them than ranks. Norms, routers and latent projections stay whole.
 * Expert parallelism gives each rank ceil(experts / expert) experts. Pipeline parallelism gives each stage ceil(layers / stages)
 * layers; the fullest stage is taken to hold the embedding or the head as well.
 * Source: Shoeybi et al. 2019 (arXiv 1909.08053). */
#include "core.h"

static double share(double whole, double ranks) { return vram_ceil_div(whole, ranks); }

/* Heads that one rank keeps of `heads`, never less than one. */
static double heads_of_rank(double heads, double ranks) { return ranks >= heads ? 1 : share(heads, ranks); }

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
        double width_ranks = s->parallel.expert > 1 ? (double)s->parallel.expert_tensor : tp;
        copies = share(copies, (double)s->parallel.expert);
        rows = share(rows, width_ranks);
        break;
    }
    case VRAM_SHARD_NONE: break;
    }
    if (t->kind >= 0) mine.layers = (int64_t)share((double)t->layers, (double)s->parallel.pipeline);
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
