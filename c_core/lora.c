/* lora.c -- how many values LoRA adds.
 *
 * A linear layer of in -> out gets rank * (in + out): A is rank x in, B is out x rank. DoRA adds a magnitude for each output.
 * Sources: https://arxiv.org/abs/2106.09685, https://arxiv.org/abs/2402.09353, and for stacked experts
 * https://github.com/huggingface/peft/blob/main/src/peft/utils/transformers_weight_conversion.py
 */
#include "core.h"

#include <string.h>

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* "self_attn.q_proj" is matched by its last part, as every row of the table is. */
static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool listed(const vram_scenario *s, const char *name)
{
    for (int i = 0; i < s->lora.names; i++)
        if (is(last_part(s->lora.name[i]), name)) return true;
    return false;
}

/* The names by which version 4 of transformers knew the parts of an expert and its router: {gate, up, down, router}.
 * In families whose experts are stacked now, the library takes these names for the stacked tensors and nothing else. */
static const char *const *old_names(const vram_model *m)
{
    static const char *const names[3][4] = {
        [VRAM_STACKED_PLAIN] = {"", "", "", ""},
        [VRAM_STACKED_AS_W] = {"w1", "w3", "w2", "gate"},
        [VRAM_STACKED_AS_GATE] = {"gate_proj", "up_proj", "down_proj", "gate"},
    };
    return names[m->stacked_names];
}

static bool is_old_name(const vram_model *m, const char *name)
{
    const char *const *old = old_names(m);
    for (int i = 0; i < 4; i++)
        if (is(old[i], name)) return true;
    return false;
}

static bool takes_linear(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    if (!t->linear || t->part == VRAM_PART_HEAD) return false;
    switch (s->lora.targets) {
    case VRAM_LORA_TARGETS_ALL_LINEAR: return !is_old_name(m, t->name);
    case VRAM_LORA_TARGETS_ATTENTION: return t->softmax && !is_old_name(m, t->name);
    case VRAM_LORA_TARGETS_QV: return is(t->name, "q_proj") || is(t->name, "v_proj");
    default: return listed(s, t->name) && !is_old_name(m, t->name);
    }
}

/* Is one of the old names asked for? all-linear asks for all. */
static bool asked(const vram_scenario *s, const char *old)
{
    return *old && (s->lora.targets == VRAM_LORA_TARGETS_ALL_LINEAR || (s->lora.targets == VRAM_LORA_TARGETS_LIST && listed(s, old)));
}

/* Rank on a stacked tensor: gate and up share one at twice the rank. 0: not taken. */
static double stacked_rank(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    const char *const *old = old_names(m);
    double r = (double)s->lora.rank;
    if (!t->stacked || t->columns == 1) return 0;
    if (is(t->name, "down_proj")) return asked(s, old[2]) ? r : 0;
    return (asked(s, old[0]) ? r : 0) + (asked(s, old[1]) ? r : 0);
}

/* A router that is a parameter called gate is reached by that name. */
static bool takes_router(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    return t->part == VRAM_PART_ROUTER && is(t->name, "gate") && t->columns > 1 && asked(s, old_names(m)[3]);
}

/* Head and embedding are taken only by name; a tied head is still a module of its own. */
static double outside(const vram_scenario *s, const vram_model *m)
{
    double r = (double)s->lora.rank, both = (double)m->hidden + (double)m->vocab;
    if (s->lora.targets != VRAM_LORA_TARGETS_LIST) return 0;
    double head = listed(s, "lm_head") ? r * both + (s->lora.dora ? (double)m->vocab : 0) : 0;
    return head + (listed(s, "embed_tokens") ? r * both + (s->lora.dora ? (double)m->hidden : 0) : 0);
}

/* Only by its name */
double vram_lora_head_rank(const vram_scenario *s) { return s->lora.targets == VRAM_LORA_TARGETS_LIST && listed(s, "lm_head") ? (double)s->lora.rank : 0; }
bool vram_lora_takes_embedding(const vram_scenario *s) { return s->lora.targets == VRAM_LORA_TARGETS_LIST && listed(s, "embed_tokens"); }

double vram_lora_rank(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    if (takes_linear(s, m, t) || takes_router(s, m, t)) return (double)s->lora.rank;
    return stacked_rank(s, m, t);
}

double vram_lora_params(const vram_scenario *scenario, const vram_model *model)
{
    double sum = outside(scenario, model);
    for (int i = 0; i < model->tensors; i++) {
        const vram_tensor *t = &model->tensor[i];
        double times = t->modules > 0 ? (double)t->modules : (double)t->layers * (double)t->copies, ends = (double)t->rows + (double)t->columns, rank = (double)scenario->lora.rank;
        if (takes_linear(scenario, model, t)) sum += times * (rank * ends + (scenario->lora.dora ? (double)t->rows : 0));
        else if (takes_router(scenario, model, t)) sum += times * rank * ends;
        else sum += times * stacked_rank(scenario, model, t) * ends;
    }
    return sum;
}

double vram_lora_modules(const vram_model *m, const vram_tensor *t)
{
    double layers = 0;
    for (int64_t i = 0; i < m->layers; i++) layers += m->layer_kind[i] == t->kind;
    return layers > 0 ? (double)t->modules * (double)m->stage.of_kind[t->kind] / layers : 0;
}

/* A reads what the layer reads, B writes what it writes. Elsewhere than in Megatron a half that meets whole tokens on every rank is whole: A
 * before a layer divided by rows, B behind one divided by columns (peft, tuners/lora/model.py, add_lora_tp_hooks_dtensor; torchtitan/components/lora.py).
 * Megatron divides both halves of every adapter, A by its rank or by its input, B by its output, and gathers between
 * (Megatron-Bridge, src/megatron/bridge/peft/utils.py, ParallelLinearAdapter). */
vram_lora_pair vram_lora_on_rank(const vram_scenario *s, const vram_model *m, const vram_tensor *t)
{
    vram_tensor mine = vram_rank_tensor(s, m, t);
    double rank = vram_lora_rank(s, m, t), tp = (double)s->parallel.tensor, cut = t->shard == VRAM_SHARD_EXPERTS ? vram_expert_tensor(s) : tp;
    double rows = (double)mine.rows, columns = (double)mine.columns, a_rank = rank;
    bool back = t->shard == VRAM_SHARD_COLUMNS;
    if (rank <= 0) return (vram_lora_pair){0};
    if (t->shard == VRAM_SHARD_EXPERTS && t->rows == m->hidden && t->columns != m->hidden) { /* the way back of an expert */
        back = true;
        rows = (double)t->rows;
        columns = vram_ceil_div(columns, cut);
    }
    if (vram_is_megatron(s, m)) {
        if (back) rows = vram_ceil_div(rows, cut);
        else a_rank = vram_ceil_div(rank, cut);
        if (t->shard == VRAM_SHARD_NONE) rows = vram_ceil_div(rows, cut);
    }
    double modules = t->modules > 0 ? vram_lora_modules(m, t) : (double)mine.layers * (double)mine.copies;
    return (vram_lora_pair){modules, a_rank, columns, rows, rank, s->lora.dora && takes_linear(s, m, t) ? rows : 0};
}

/* Of `outside`, what a rank and its stage have */
static double outside_on_rank(const vram_scenario *s, const vram_model *m)
{
    double r = (double)s->lora.rank, both = (double)m->hidden + vram_ceil_div((double)m->vocab, (double)s->parallel.tensor), sum = 0;
    if (s->lora.targets != VRAM_LORA_TARGETS_LIST) return 0;
    if (m->stage.head && listed(s, "lm_head")) sum += r * both + (s->lora.dora ? both - (double)m->hidden : 0);
    if (m->stage.embedding && listed(s, "embed_tokens")) sum += r * both + (s->lora.dora ? (double)m->hidden : 0);
    return sum;
}

double vram_lora_rank_params(const vram_scenario *s, const vram_model *m)
{
    double sum = outside_on_rank(s, m);
    for (int i = 0; i < m->tensors; i++) {
        vram_lora_pair p = vram_lora_on_rank(s, m, &m->tensor[i]);
        sum += p.count * (p.a_rows * p.a_columns + p.b_rows * p.b_columns + p.magnitudes);
    }
    return sum;
}
