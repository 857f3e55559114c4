/* training.c -- what a trained model keeps at rest, and what the optimizer's step makes beside it; the pass between is replay.c's.
 *
 * At rest: weights; the fp32 master copy of mixed precision; the optimizer's states; adapters. A steady step: the states are there from
 * load on. Gradients appear in backward and go after the step, unless something keeps them.
 * Sources: torch/optim (what a step makes), transformers/optimization.py (Adafactor), bitsandbytes/optim/optimizer.py (8-bit blocks);
 * Rajbhandari et al. 2019 (ZeRO's division by ranks). */
#include "replay.h"

#include <stddef.h>

typedef struct {
    const vram_scenario *s;
    const vram_model *m;
    vram_role role;
    vram_report *report;
    bool lora;
    const vram_sharding *sharding; /* NULL: states are divided by arithmetic */
    double params;             /* trained, on this rank before ZeRO */
    double idle;               /* of adapters: those that no gradient reaches, besides */
    double width;              /* bytes of a trained parameter */
    double gradient_width, state_width;
    double rounding[2];        /* of the allocator's blocks beyond the model's tensors, in 2 bytes a number and in 4; 0: not summed up yet */
} trainer;

/* ----------------------------------------------------------------------------------------------- trained tensors, one by one -- */

/* Parameters of the table on this rank, whatever the model declares */
static double counted_params(const trainer *r)
{
    double sum = 0;
    for (int i = 0; i < r->m->tensors; i++) sum += r->m->tensor[i].buffer ? 0 : vram_rank_tensor_params(r->s, r->m, &r->m->tensor[i]);
    return sum;
}

/* `count` tensors of rows x columns (columns 1: a vector); stacked: `copies` matrices in one tensor; hidden: one matrix inside the layers */
typedef struct { double count, copies, rows, columns; bool hidden; } trained;
typedef void visitor(void *sum, const trained *t);

static double elements(const trained *t) { return t->copies * t->rows * t->columns; }

/* A block of Zamba 2 has side paths for all layers that share it, and each layer's copy of the block goes by its own alone. */
static double idle_modules(const vram_model *m, const vram_tensor *t)
{
    if (t->modules <= 0 || t->stacked || t->kind < 0) return 0;
    return vram_max(0, vram_lora_modules(m, t) - (double)m->stage.of_kind[t->kind] * (double)t->copies);
}

static double idle_params(const vram_scenario *s, const vram_model *m)
{
    double sum = 0;
    for (int i = 0; i < m->tensors; i++) {
        vram_lora_pair p = vram_lora_on_rank(s, m, &m->tensor[i]);
        if (p.count > 0) sum += idle_modules(m, &m->tensor[i]) * (p.a_rows * p.a_columns + p.b_rows * p.b_columns + p.magnitudes);
    }
    return sum;
}

static void visit_adapters(const trainer *r, visitor *visit, void *sum)
{
    for (int i = 0; i < r->m->tensors; i++) {
        vram_lora_pair p = vram_lora_on_rank(r->s, r->m, &r->m->tensor[i]);
        p.count -= idle_modules(r->m, &r->m->tensor[i]);
        if (p.count <= 0) continue;
        visit(sum, &(trained){p.count, 1, p.a_rows, p.a_columns, true});
        visit(sum, &(trained){p.count, 1, p.b_rows, p.b_columns, true});
        if (p.magnitudes > 0) visit(sum, &(trained){p.count, 1, p.magnitudes, 1, false});
    }
}

static void visit_trained(const trainer *r, visitor *visit, void *sum)
{
    if (r->lora) { visit_adapters(r, visit, sum); return; }
    for (int i = 0; i < r->m->tensors; i++) {
        vram_tensor t = vram_rank_tensor(r->s, r->m, &r->m->tensor[i]);
        if (t.buffer || t.layers == 0) continue;
        double copies = t.stacked ? (double)t.copies : 1;
        visit(sum, &(trained){(double)t.layers * (double)t.copies / copies, copies, (double)t.rows, (double)t.columns, t.kind >= 0 && copies == 1 && t.columns > 1});
    }
}

/* ------------------------------------------------------------------------------------------------------------- entries -- */

/* Ranks that share what a stage of ZeRO divides */
static double ranks_from(const vram_scenario *s, int64_t stage) { return vram_zero_of(s) >= stage ? vram_data_ranks(s) : 1; }
static bool is_fsdp(const trainer *r) { return r->sharding != NULL && vram_is_fsdp(r->s); }
static bool is_deepspeed(const trainer *r) { return r->sharding != NULL && r->s->parallel.engine == VRAM_PARALLEL_ENGINE_DEEPSPEED; }

/* Of so many parameters on this rank, when a stage of ZeRO divides them */
static double share(const trainer *r, double params, int64_t stage)
{
    double ranks = ranks_from(r->s, stage), experts = ranks > 1 && !r->lora && r->s->parallel.expert > 1 && params == r->params ? vram_rank_expert_params(r->s, r->m) : 0;
    if (is_fsdp(r) && params == r->params) return r->sharding->trained_shard;
    if (experts <= 0) return vram_ceil_div(params, ranks);
    return vram_ceil_div(params - experts, ranks) + vram_ceil_div(experts, vram_expert_replicas(r->s)); /* experts have fewer copies to share with */
}

/* N parameters x bytes, divided by the ranks of ZeRO from a stage on */
static void per_parameter(const trainer *r, vram_component component, vram_what what, double params, double bytes, int64_t stage, unsigned phases)
{
    double mine = share(r, params, stage);
    if (bytes <= 0) return;
    vram_entry *e = vram_add(r->report, r->role, component, what, VRAM_EXACT, stage <= vram_zero_of(r->s) ? VRAM_SOURCE_ZERO : VRAM_SOURCE_ARITHMETIC, phases);
    vram_times(vram_times(e, VRAM_SYMBOL_PARAMETERS, mine), VRAM_SYMBOL_BYTES_PER_PARAMETER, bytes);
}

static vram_entry *add(const trainer *r, vram_component component, vram_what what, vram_source source, unsigned phases)
{
    return vram_add(r->report, r->role, component, what, VRAM_EXACT, source, phases);
}

/* Blocks of the allocator are larger than the tensors in them, once for each copy of the parameters. */
static void slack(trainer *r, double copies, double bytes, unsigned phases)
{
    if (r->lora || copies <= 0 || r->m->params_override > 0 || vram_zero_of(r->s) > 0 || r->sharding != NULL) return;
    vram_entry *e = add(r, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_SOURCE_PYTORCH_ALLOCATOR, phases);
    if (copies > 1) vram_times(e, VRAM_SYMBOL_COPIES, copies);
    double *sum = &r->rounding[bytes == 4];
    if (*sum == 0) *sum = vram_model_slack(r->s, r->m, bytes);
    vram_times(e, VRAM_SYMBOL_BYTES, *sum);
}

/* The same of a frozen base: its tensors as they are, or packed in half a byte a weight */
static void frozen_slack(const trainer *r)
{
    const vram_format_row *f = vram_format_get(r->s->weights);
    bool packed = f->scheme == VRAM_SCHEME_NF4 || f->scheme == VRAM_SCHEME_NF4_DQ;
    double bytes = 0;
    if ((!packed && f->scheme != VRAM_SCHEME_NONE) || r->m->params_override > 0 || r->sharding != NULL || vram_zero_of(r->s) > 0) return;
    for (int i = 0; packed && i < r->m->tensors; i++) {
        const vram_tensor *t = &r->m->tensor[i];
        double one = (double)t->rows * (double)t->columns * (t->stacked ? (double)t->copies : 1), width = vram_is_packed(t) ? f->block_bytes / f->block : 2;
        bytes += vram_tensor_params(t) / one * (vram_block_bytes(one * width) - one * width);
    }
    if (!packed) bytes = vram_model_slack(r->s, r->m, f->block_bytes / f->block);
    vram_times(add(r, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_SOURCE_PYTORCH_ALLOCATOR, r->report->phases), VRAM_SYMBOL_BYTES, bytes);
}

/* -------------------------------------------------------------------------------------------------------- optimizer states -- */

/* bitsandbytes: tensors of 4096 numbers and more in 8 bit, an fp32 scale for 256 of them; smaller ones in fp32. Paged: above 100,000 numbers
 * in managed memory, which is not counted. */
typedef struct { bool paged; double small, bytes, blocks; } eight_bit;

static void count_eight_bit(void *sum, const trained *t)
{
    eight_bit *e = sum;
    double n = elements(t);
    if (n < 4096) e->small += t->count * n;
    else {
        if (!(e->paged && n >= 1e5)) e->bytes += t->count * n;
        e->blocks += t->count * vram_ceil_div(n, 256);
    }
}

/* A model that is declared by its parameters has so many of them, in tensors of the same proportions. */
static double declared(const trainer *r, double counted)
{
    return r->m->params_override > 0 && !r->lora ? floor(counted / vram_max(1, counted_params(r)) * r->params) : counted;
}

static void eight_bit_states(const trainer *r, double moments)
{
    eight_bit e = {.paged = r->s->training.optimizer == VRAM_OPTIMIZER_PAGED_ADAMW_8BIT};
    unsigned phases = r->report->phases;
    visit_trained(r, count_eight_bit, &e);
    double ranks = ranks_from(r->s, 1), bytes = declared(r, e.bytes);
    if (r->m->params_override > 0 && !r->lora && !e.paged) e.small = r->params - bytes;
    e.bytes = bytes;
    e.blocks = declared(r, e.blocks);
    struct { vram_what what; double n, bytes; } rows[] = {{VRAM_WHAT_QUANTISED_MOMENTS, e.bytes, 1}, {VRAM_WHAT_QUANT_BLOCKS, e.blocks, 4}, {VRAM_WHAT_SMALL_MOMENTS, e.small, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        vram_times(vram_times(vram_times(add(r, VRAM_COMPONENT_OPTIMIZER, rows[i].what, VRAM_SOURCE_BITSANDBYTES, phases), VRAM_SYMBOL_COPIES, moments),
                              VRAM_SYMBOL_ELEMENTS, vram_ceil_div(rows[i].n, ranks)), VRAM_SYMBOL_BYTES, rows[i].bytes);
}

/* Adafactor: a matrix keeps the sums of its rows and of its columns, a vector all its squares; fp32. */
static void count_factored(void *sum, const trained *t)
{
    *(double *)sum += t->count * t->copies * (t->columns > 1 ? t->rows + t->columns : t->rows);
}

static void factored_states(const trainer *r)
{
    double n = 0;
    visit_trained(r, count_factored, &n);
    vram_times(vram_times(add(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_FACTORED_MOMENT, VRAM_SOURCE_TRANSFORMERS, r->report->phases), VRAM_SYMBOL_ELEMENTS, n), VRAM_SYMBOL_BYTES, 4);
}

/* Muon turns matrices of the layers; embeddings, the head, vectors and stacked experts are AdamW's. Source: torch/optim/_muon.py (2-D parameters only) */
static void count_hidden(void *sum, const trained *t) { *(double *)sum += t->hidden ? t->count * elements(t) : 0; }

static double hidden_params(const trainer *r)
{
    double n = 0;
    visit_trained(r, count_hidden, &n);
    return vram_min(r->params, r->lora ? n : floor(n / vram_max(1, counted_params(r)) * r->params));
}

static void muon_states(trainer *r, double width)
{
    unsigned phases = r->report->phases;
    double hidden = hidden_params(r);
    per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_MOMENTUM, hidden, width, 1, phases);
    slack(r, 1, width, phases); /* nearly all of it of the matrices */
    if (r->params <= hidden) return;
    per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_FIRST_MOMENT, r->params - hidden, width, 1, phases);
    per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_SECOND_MOMENT, r->params - hidden, width, 1, phases);
}

/* GaLore turns the layers' matrices: their gradients are projected on as many directions as the rank, so the moments have the longer side
 * times the rank, and the projection the shorter; the rest is AdamW's. Source: galore_torch/adamw.py, galore_projector.py ("std") */
enum { GALORE_RANK = 128 }; /* transformers/trainer_optimizer.py */

static double galore_rank(const trained *t) { return vram_min(GALORE_RANK, vram_min(t->rows, t->columns)); }
static void count_low(void *sum, const trained *t) { *(double *)sum += t->hidden ? t->count * galore_rank(t) * vram_max(t->rows, t->columns) : 0; }
static void count_projections(void *sum, const trained *t) { *(double *)sum += t->hidden ? t->count * galore_rank(t) * vram_min(t->rows, t->columns) : 0; }

static void galore_states(const trainer *r, double width)
{
    double low = 0, projections = 0, others = r->params - hidden_params(r);
    unsigned phases = r->report->phases;
    visit_trained(r, count_low, &low);
    visit_trained(r, count_projections, &projections);
    const struct { vram_what what; double elements; } rows[] = {{VRAM_WHAT_FIRST_MOMENT, others + low}, {VRAM_WHAT_SECOND_MOMENT, others + low}, {VRAM_WHAT_PROJECTIONS, projections}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        vram_times(vram_times(add(r, VRAM_COMPONENT_OPTIMIZER, rows[i].what, VRAM_SOURCE_GALORE, phases), VRAM_SYMBOL_ELEMENTS, vram_ceil_div(rows[i].elements, ranks_from(r->s, 1))), VRAM_SYMBOL_BYTES_PER_ELEMENT, width);
}

static void states(trainer *r)
{
    double width = r->state_width;
    unsigned phases = r->report->phases;
    if (r->s->parallel.offload != VRAM_OFFLOAD_NONE) return; /* in host memory */
    switch (r->s->training.optimizer) {
    case VRAM_OPTIMIZER_ADAMW:
        per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_FIRST_MOMENT, r->params, width, 1, phases);
        per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_SECOND_MOMENT, r->params, width, 1, phases);
        if (is_fsdp(r) && r->sharding->trained_slack > 0) /* small shards, each a tensor */
            vram_times(vram_times(add(r, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_SOURCE_PYTORCH_ALLOCATOR, phases), VRAM_SYMBOL_COPIES, 2),
                       VRAM_SYMBOL_BYTES, r->sharding->trained_slack);
        slack(r, 2, width, phases);
        break;
    case VRAM_OPTIMIZER_SGD_MOMENTUM:
        per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_MOMENTUM, r->params, width, 1, phases);
        slack(r, 1, width, phases);
        break;
    case VRAM_OPTIMIZER_MUON: muon_states(r, width); break;
    case VRAM_OPTIMIZER_GALORE: galore_states(r, width); break;
    case VRAM_OPTIMIZER_LION: per_parameter(r, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_MOMENTUM, r->params, 4, 1, phases); break;
    case VRAM_OPTIMIZER_LION_8BIT: eight_bit_states(r, 1); break;
    case VRAM_OPTIMIZER_ADAMW_8BIT:
    case VRAM_OPTIMIZER_PAGED_ADAMW_8BIT: eight_bit_states(r, 2); break;
    case VRAM_OPTIMIZER_ADAFACTOR: factored_states(r); break;
    default: break;
    }
}

/* ------------------------------------------------------------------------------------------------------------ the step -- */

static void find_largest(void *sum, const trained *t)
{
    if (elements(t) > elements(sum)) *(trained *)sum = *t;
}

/* What the optimizer makes for a moment: tensors of `copies` x `elements` x `bytes` */
typedef struct { double copies, elements, bytes; } temporary;

/* Of the matrix whose turn it is the mean of gradient and momentum, two 16-bit matrices, and two squares of its shorter side */
static void find_muon(void *sum, const trained *t)
{
    double *most = sum, side = vram_min(t->rows, t->columns), bytes = most[1] * elements(t) + 4 * elements(t) + 4 * side * side;
    if (t->hidden) most[0] = vram_max(most[0], bytes);
}

/* GaLore's denominator and quotient: of a matrix at low rank beside its low gradient, then the quotient at full rank; else of a whole parameter */
static void find_galore(void *sum, const trained *t)
{
    double *most = sum, low = t->hidden ? galore_rank(t) * vram_max(t->rows, t->columns) : 0;
    *most = vram_max(*most, t->hidden ? elements(t) + 3 * low : 2 * elements(t));
}

/* Of a tensor on this rank: FSDP 2 divides rows */
static double elements_here(const trainer *r, const trained *t) { return vram_ceil_div(t->copies * t->rows, ranks_from(r->s, 1)) * t->columns; }

static void find_largest_other(void *sum, const trained *t)
{
    if (!t->hidden) find_largest(sum, t);
}

/* Denominators: of all `params` at once, or of the largest tensor, made in two */
static temporary adamw_temporary(const trainer *r, double params, visitor *find, double width)
{
    trained largest = {0, 0, 0, 0, false};
    visit_trained(r, find, &largest);
    if (r->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOREACH) return (temporary){1, params, width};
    if (r->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOR_LOOP) return (temporary){2, elements_here(r, &largest), width};
    return (temporary){0, 0, 0};
}

/* Megatron steps with the FusedAdam of Transformer Engine or Apex, in place. Source: megatron/core/optimizer/__init__.py */
static temporary step_temporary(const trainer *r)
{
    if (vram_is_megatron(r->s, r->m) && r->s->training.optimizer == VRAM_OPTIMIZER_ADAMW) return (temporary){0, 0, 0};
    trained largest = {0, 0, 0, 0, false};
    double width = r->s->training.precision == VRAM_PRECISION_MIXED && !r->lora ? 4 : r->width;
    visit_trained(r, find_largest, &largest);
    switch (r->s->training.optimizer) {
    case VRAM_OPTIMIZER_ADAMW: return adamw_temporary(r, share(r, r->params, 1), find_largest, width);
    case VRAM_OPTIMIZER_ADAFACTOR: /* 16 bit: fp32 copies of gradient and parameter too */
        return (temporary){width == 4 ? 2 : 4, elements_here(r, &largest), 4};
    case VRAM_OPTIMIZER_GALORE: {
        double most = 0;
        visit_trained(r, find_galore, &most);
        return (temporary){1, most, r->width};
    }
    case VRAM_OPTIMIZER_MUON: {
        double most[2] = {0, width};
        visit_trained(r, find_muon, most);
        temporary others = adamw_temporary(r, share(r, r->params, 1) - share(r, hidden_params(r), 1), find_largest_other, width);
        return others.copies * others.elements * others.bytes > most[0] ? others : (temporary){1, most[0], 1};
    }
    default: return (temporary){0, 0, 0};
    }
}

static vram_tape_update update_of(const trainer *r)
{
    const vram_scenario *s = r->s;
    int width = s->training.precision == VRAM_PRECISION_MIXED && !r->lora ? 4 : (int)r->width;
    vram_tape_update none = {.at_once = vram_steps_in_backward(s)};
    if (!none.at_once) return none;
    switch (s->training.optimizer) {
    case VRAM_OPTIMIZER_LOMO: return (vram_tape_update){true, true, 0, 0};
    case VRAM_OPTIMIZER_ADAMW: return (vram_tape_update){true, false, s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FUSED ? 0 : s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOREACH ? 1 : 2, width};
    case VRAM_OPTIMIZER_ADAFACTOR: return (vram_tape_update){true, false, width == 4 ? 2 : 4, 4};
    default: return none;
    }
}

/* With checkpoints the embedding's output of a frozen model is made to require a gradient: a leaf, kept with its gradient by the graph
 * behind the model's output (transformers, enable_input_require_grads). */
static double leaf_width(const trainer *r) { return r->s->weights == VRAM_FORMAT_FP32 ? 4 : 2; }

static double leaf_bytes(const trainer *r, const vram_replay *replay)
{
    bool leaf = r->lora && r->s->training.checkpointing == VRAM_CHECKPOINTING_FULL && replay->logits[0] > 0;
    return leaf ? 2 * replay->logits[0] * replay->logits[1] * (double)r->m->hidden * leaf_width(r) : 0;
}

static void add_leaf(const trainer *r, const vram_replay *replay)
{
    static const vram_what whats[] = {VRAM_WHAT_HIDDEN_STATES, VRAM_WHAT_ACTIVATION_GRADIENT};
    if (leaf_bytes(r, replay) <= 0) return;
    for (int i = 0; i < 2; i++) {
        vram_entry *e = add(r, VRAM_COMPONENT_ACTIVATIONS, whats[i], VRAM_SOURCE_TRANSFORMERS, VRAM_BIT(VRAM_PHASE_STEP));
        vram_times(vram_times(e, VRAM_SYMBOL_MICRO_BATCH, replay->logits[0]), VRAM_SYMBOL_SEQUENCE, replay->logits[1]);
        vram_times(vram_times(e, VRAM_SYMBOL_HIDDEN, (double)r->m->hidden), VRAM_SYMBOL_BYTES_PER_ELEMENT, leaf_width(r));
    }
}

/* The table of words, whose gradient PyTorch's own tensor parallelism keeps whole to the step: elements of the rank's own, and beyond these */
typedef struct { double own, beyond; } table;

static table whole_table(const trainer *r)
{
    table sum = {0, 0};
    bool none = r->lora || r->m->params_override > 0 || !vram_table_stays_whole(r->s, r->m) || ranks_from(r->s, 2) > 1 || vram_steps_in_backward(r->s);
    for (int i = 0; i < r->m->tensors && !none; i++) {
        const vram_tensor *t = &r->m->tensor[i];
        if (t->part != VRAM_PART_EMBEDDING || t->shard != VRAM_SHARD_VOCABULARY || vram_rank_tensor_params(r->s, r->m, t) <= 0) continue;
        sum.own += vram_rank_layer_params(r->s, r->m, t);
        sum.beyond += vram_tensor_params(t) - vram_rank_layer_params(r->s, r->m, t);
    }
    return sum;
}

/* Either what the optimizer makes, or the logits, which the caller lets go of when backward is over. */
static void step(const trainer *r, const vram_replay *replay)
{
    temporary t = step_temporary(r);
    if (r->s->parallel.offload != VRAM_OFFLOAD_NONE || vram_steps_in_backward(r->s)) t = (temporary){0, 0, 0};
    if (vram_steps_in_backward(r->s) && r->s->training.optimizer == VRAM_OPTIMIZER_LOMO && !r->lora) t = (temporary){2, (double)r->m->vocab * (double)r->m->hidden, 4}; /* the embedding's gradient came last */
    if (r->sharding != NULL) {
        vram_sharding_list list = vram_sharding_items(r->sharding, VRAM_MOMENT_STEP, VRAM_PLACE_EMBEDDING);
        vram_sharding_entries(&list, r->sharding, r->role, VRAM_BIT(VRAM_PHASE_STEP), r->report);
    }
    if (is_deepspeed(r)) return; /* its optimizer's temporaries are among these */
    double own = whole_table(r).own; /* cut out of the whole for the step (torch/distributed/tensor/placement_types.py, _replicate_to_shard) */
    if (own * r->width > t.copies * t.elements * t.bytes) t = (temporary){1, own, r->width};
    if (vram_caller_keeps_logits(r->s) && t.copies * t.elements * t.bytes <= replay->logits_bytes + leaf_bytes(r, replay)) {
        if (replay->logits_bytes > 0) vram_replay_logits(replay, r->role, VRAM_BIT(VRAM_PHASE_STEP), r->report);
        add_leaf(r, replay);
        return;
    }
    vram_entry *e = add(r, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_STEP_TEMPORARY, VRAM_SOURCE_PYTORCH_OPTIM, VRAM_BIT(VRAM_PHASE_STEP));
    if (t.copies > 1) vram_times(e, VRAM_SYMBOL_COPIES, t.copies);
    vram_times(vram_times(e, VRAM_SYMBOL_ELEMENTS, t.elements), VRAM_SYMBOL_BYTES_PER_ELEMENT, t.bytes);
}

/* -------------------------------------------------------------------------------------------------------------- together -- */

bool vram_shares_weights(const vram_scenario *s) { return vram_data_ranks(s) > 1 && (vram_is_fsdp(s) || vram_zero_of(s) == 3); }

void vram_share_frozen(const vram_scenario *s, int first, vram_report *report)
{
    double ranks = vram_data_ranks(s), replicas = s->parallel.expert > 1 ? vram_expert_replicas(s) : ranks;
    for (int i = first; i < report->entries; i++) {
        vram_entry *e = &report->entry[i];
        if (e->what >= VRAM_WHAT_SCALES && e->what <= VRAM_WHAT_DOUBLE_QUANT) continue; /* what stands beside packed weights is no parameter: whole */
        double each = 1, share = vram_ceil_div(e->factor[0].value, e->what == VRAM_WHAT_EXPERTS ? replicas : ranks);
        for (int k = 1; k < e->factors; k++) each *= e->factor[k].value;
        e->bytes = vram_ceil_div(share * each, 1); /* half a byte fills one */
        e->factor[0].value = e->bytes / each;
    }
}

void vram_gathered(const vram_scenario *s, vram_role role, double params, double width, unsigned phases, vram_report *report)
{
    vram_entry *e = vram_add(report, role, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_GATHERED_WEIGHTS, VRAM_MODELLED, s->task == VRAM_TASK_RL ? VRAM_SOURCE_TRL : VRAM_SOURCE_ARITHMETIC, phases);
    vram_times(vram_times(e, VRAM_SYMBOL_PARAMETERS, vram_ceil_div(params * width, 1) / width), VRAM_SYMBOL_BYTES_PER_PARAMETER, width); /* half a byte fills one */
}

void vram_at_work(const vram_scenario *s, const vram_model *m, vram_role role, double params, double width, unsigned phases, vram_report *report)
{
    double most = 0;
    for (int kind = -1; kind < m->kinds; kind++) {
        double sum = 0;
        for (int i = 0; i < m->tensors; i++) {
            vram_tensor t = vram_rank_tensor(s, m, &m->tensor[i]);
            double one = (double)t.copies * (double)t.rows * (double)t.columns;
            if (t.kind == kind && !t.buffer) sum = kind < 0 ? vram_max(sum, one) : sum + one;
        }
        most = vram_max(most, sum);
    }
    vram_gathered(s, role, m->params_override > 0 ? vram_ceil_div(params, (double)m->layers) : most, width, phases, report);
}

static void weights(trainer *r)
{
    bool wide = vram_trains_fp32(r->s);
    if (r->sharding != NULL) {
        vram_sharding_list list = vram_sharding_items(r->sharding, VRAM_MOMENT_REST, VRAM_PLACE_EMBEDDING);
        vram_sharding_list between = vram_sharding_items(r->sharding, VRAM_MOMENT_LOAD, VRAM_PLACE_EMBEDDING);
        vram_sharding_entries(&list, r->sharding, r->role, r->report->phases, r->report);
        vram_sharding_entries(&between, r->sharding, r->role, VRAM_BIT(VRAM_PHASE_LOAD), r->report);
        if (!r->lora && (is_fsdp(r) || (is_deepspeed(r) && r->s->parallel.zero == 3))) return; /* the shards are among these */
    }
    if (r->s->parallel.offload == VRAM_OFFLOAD_OPTIMIZER_WEIGHTS && (!is_deepspeed(r) || r->s->parallel.zero == 3)) { /* in host memory, but for what is at work */
        double width = r->lora ? vram_format_bytes(r->s->weights) : r->width;
        if (r->sharding == NULL) vram_at_work(r->s, r->m, r->role, r->params, width, VRAM_BIT(VRAM_PHASE_FORWARD) | VRAM_BIT(VRAM_PHASE_LOSS) | VRAM_BIT(VRAM_PHASE_BACKWARD), r->report);
        return;
    }
    if (!r->lora) {
        if (ranks_from(r->s, 3) > 1) per_parameter(r, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALL_WEIGHTS, r->params, r->width, 3, r->report->phases);
        else vram_weights(r->s, r->m, r->role, wide ? VRAM_FORMAT_FP32 : VRAM_FORMAT_BF16, r->report->phases, r->report);
        slack(r, 1, r->width, r->report->phases);
        return;
    }
    int first = r->report->entries;
    vram_weights(r->s, r->m, r->role, r->s->weights, r->report->phases, r->report);
    frozen_slack(r);
    if (vram_shares_weights(r->s)) vram_share_frozen(r->s, first, r->report);
    double width = is_deepspeed(r) && r->s->parallel.zero == 3 ? r->sharding->width : r->width; /* of the engine's type (engine.py, module.bfloat16()) */
    per_parameter(r, VRAM_COMPONENT_ADAPTERS, VRAM_WHAT_TRAINABLE, r->params + r->idle, width, 3, r->report->phases);
}

bool vram_trains_fp32(const vram_scenario *s) { return s->training.precision == VRAM_PRECISION_FP32 || s->training.precision == VRAM_PRECISION_AMP; }
bool vram_steps_at_once(const vram_scenario *s) { return s->training.optimizer == VRAM_OPTIMIZER_ADAMW && s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOREACH; }

/* torchtune's optimizer_in_bwd (register_post_accumulate_grad_hook), LOMO's fused backward. FSDP and DeepSpeed reduce first: as without. */
bool vram_steps_in_backward(const vram_scenario *s)
{
    bool reduces = s->parallel.engine != VRAM_PARALLEL_ENGINE_PLAIN, accumulates = s->training.gradient_accumulation > 1;
    return s->training.method == VRAM_METHOD_FULL && s->parallel.offload == VRAM_OFFLOAD_NONE && !reduces && !accumulates && !vram_is_megatron(s, &s->model) && (s->training.optimizer_in_backward == 1 || s->training.optimizer == VRAM_OPTIMIZER_LOMO);
}

/* Gradients that stand: accumulated over micro-batches, fp32 beside 16-bit weights, or in Megatron's buffer (core/distributed/param_and_grad_buffer.py). */
static bool gradients_divided(const trainer *r)
{
    return r->sharding == NULL && !vram_steps_in_backward(r->s) && (ranks_from(r->s, 2) > 1 || r->s->parallel.offload != VRAM_OFFLOAD_NONE);
}

static bool gradients_stand(const trainer *r)
{
    if (vram_steps_in_backward(r->s)) return false;
    return vram_is_megatron(r->s, r->m) || r->s->training.gradient_accumulation > 1 || r->gradient_width > r->width;
}

/* Embedding and head in one table: backward makes a gradient of each, and adds them when it has come to the embedding. */
static void second_gradient(const trainer *r, double elements)
{
    if (elements <= 0 || r->m->params_override > 0) return; /* what is declared is declared whole */
    vram_entry *e = add(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TIED_GRADIENT, VRAM_SOURCE_ARITHMETIC, VRAM_BIT(VRAM_PHASE_BACKWARD));
    vram_times(vram_times(e, VRAM_SYMBOL_PARAMETERS, elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, r->width);
}

static void beyond_own(const trainer *r, double elements, unsigned phases)
{
    vram_times(vram_times(add(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_EMBEDDING, VRAM_SOURCE_ARITHMETIC, phases), VRAM_SYMBOL_PARAMETERS, elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, r->gradient_width);
}

static void gradients(trainer *r, const vram_replay *replay)
{
    double width = r->gradient_width;
    unsigned pass = VRAM_BIT(VRAM_PHASE_FORWARD) | VRAM_BIT(VRAM_PHASE_LOSS), backward = VRAM_BIT(VRAM_PHASE_BACKWARD), step_bit = VRAM_BIT(VRAM_PHASE_STEP);
    if (r->sharding != NULL && (r->sharding->gradients != VRAM_GRADIENTS_STAND || is_deepspeed(r))) { /* those that the pass itself makes */
        if (replay->gradient_elements > 0)
            vram_times(vram_times(add(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, VRAM_SOURCE_ARITHMETIC, backward), VRAM_SYMBOL_PARAMETERS, replay->gradient_elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, r->sharding->trained_width);
        return;
    }
    if (r->s->parallel.offload != VRAM_OFFLOAD_NONE && r->sharding == NULL) return; /* they follow the optimizer's states to host memory */
    if (vram_steps_in_backward(r->s)) { /* the one at hand */
        if (replay->gradient_elements > 0)
            vram_times(vram_times(add(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, VRAM_SOURCE_ARITHMETIC, backward), VRAM_SYMBOL_PARAMETERS, replay->gradient_elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, r->width);
        return;
    }
    double beyond = whole_table(r).beyond;
    if (replay->gradients_stand) {
        per_parameter(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, r->params, width, 2, gradients_stand(r) ? pass | backward | step_bit : backward | step_bit);
        beyond_own(r, beyond, gradients_stand(r) ? pass | backward | step_bit : backward | step_bit);
        slack(r, 1, width, gradients_stand(r) ? pass | backward | step_bit : backward | step_bit);
        second_gradient(r, replay->gradient_elements);
        return;
    }
    /* those that backward has made at its peak, and those that come after it; of a declared model the same share of what it declares */
    double counted = r->m->params_override > 0 && !r->lora ? counted_params(r) : r->params;
    double made = floor(replay->gradient_elements / vram_max(counted, 1) * r->params), early = vram_min(made, r->params);
    bool all = made - early >= beyond; /* the embedding is the last */
    beyond_own(r, beyond, all ? backward | step_bit : step_bit);
    second_gradient(r, made - early - (all ? beyond : 0));
    per_parameter(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, early, width, 2, backward | step_bit);
    slack(r, 1, width, early >= r->params ? backward | step_bit : step_bit);
    if (r->params > early) per_parameter(r, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, r->params - early, width, 2, step_bit);
}

/* LoRA is the actor's: a critic beside it is trained whole (TRL's PPOTrainer) */
static bool trains_whole(const vram_scenario *s, vram_role role) { return s->training.method == VRAM_METHOD_LORA && role == VRAM_ROLE_CRITIC; }

/* What the ledger counts of a gradient that backward makes and the step uses, of its bytes in the parameter's own type */
static double gradient_share(const trainer *r)
{
    bool sharded = r->sharding != NULL && (r->sharding->gradients != VRAM_GRADIENTS_STAND || is_deepspeed(r));
    if (sharded || vram_steps_in_backward(r->s) || gradients_stand(r) || gradients_divided(r)) return 1;
    double declared = r->m->params_override > 0 && !r->lora ? r->params / vram_max(counted_params(r), 1) : 1;
    return r->gradient_width / r->width * declared;
}

static vram_pass pass_of(const trainer *r, double sequences, double tokens)
{
    vram_pass pass = vram_pass_of(r->s, r->m, sequences, tokens, true);
    if (trains_whole(r->s, r->role)) {
        pass.lora = pass.four_bit = false;
        pass.input_gradient = true;
        pass.width = pass.plain_width = (int)r->width;
    }
    pass.update = update_of(r);
    pass.gradient_share = gradient_share(r);
    vram_head_choose(&pass, r->role);
    return pass;
}

/* The indexer of sparse attention chooses tokens: no gradient reaches it, and the optimizer keeps nothing of it (modeling_deepseek_v32.py). */
static double without_gradient(const vram_scenario *s, const vram_model *m)
{
    double sum = 0;
    for (int i = 0; i < m->tensors && m->params_override <= 0; i++) {
        const vram_tensor *t = &m->tensor[i];
        if (t->kind >= 0 && t->linear && t->part == VRAM_PART_ATTENTION && !t->softmax && m->kind[t->kind].attention.type == VRAM_MIXER_MLA) sum += vram_rank_tensor_params(s, m, t);
    }
    return sum;
}

static trainer trainer_of(const vram_scenario *s, const vram_model *m, vram_role role, vram_report *report)
{
    bool whole = trains_whole(s, role), lora = s->training.method == VRAM_METHOD_LORA && !whole, wide = vram_trains_fp32(s);
    trainer r = {.s = s, .m = m, .role = role, .report = report, .lora = lora};
    r.idle = lora ? idle_params(s, m) : 0;
    r.params = lora ? vram_lora_rank_params(s, m) - r.idle : vram_rank_params(s, m) - without_gradient(s, m);
    r.width = lora ? vram_format_bytes(s->lora.dtype) : wide ? 4 : 2;
    r.gradient_width = whole ? r.width : vram_format_bytes(s->training.gradients);
    r.state_width = whole ? (s->training.precision == VRAM_PRECISION_MIXED ? 4 : r.width) : vram_format_bytes(s->training.optimizer_states);
    return r;
}

/* r->sharding is set when there is one; it stays the caller's */
static vram_replay replay_of(trainer *r, vram_sharding *sharding)
{
    if (vram_sharding_of(r->s, r->m, r->lora, sharding)) r->sharding = sharding;
    sharding->second = r->role == VRAM_ROLE_CRITIC;
    return (vram_replay){.gradients_stand = is_deepspeed(r) ? r->s->training.gradient_accumulation > 1 : gradients_stand(r) || gradients_divided(r), .sharding = r->sharding};
}

static void mask_buffers(const trainer *r)
{
    double masks = vram_position_masks(r->m), positions = (double)r->m->position_rows;
    vram_entry *e = add(r, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_CAUSAL_MASK, VRAM_SOURCE_TRANSFORMERS, r->report->phases);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, masks), VRAM_SYMBOL_ROWS, positions), VRAM_SYMBOL_KEYS, positions);
}

/* A parameter's master copy: fp32 in mixed precision, FSDP's own shards apart. DeepSpeed's ZeRO steps a flat copy of its share whatever its type is
 * (stage_1_and_2.py, single_partition_of_fp32_groups; stage3.py, fp32_partitioned_groups_flat). */
static double master_bytes(const trainer *r)
{
    if (r->lora || is_fsdp(r) || r->s->parallel.offload != VRAM_OFFLOAD_NONE) return 0;
    if (r->s->training.precision == VRAM_PRECISION_MIXED) return 4;
    return is_deepspeed(r) && r->s->parallel.zero > 0 ? r->width : 0;
}

void vram_train_when(const vram_scenario *s, const vram_model *m, vram_role role, double sequences, double tokens, int whens, const vram_when when[], vram_steps *steps, vram_report *report)
{
    trainer r = trainer_of(s, m, role, report);
    vram_sharding sharding;
    vram_replay replay = replay_of(&r, &sharding);
    vram_pass pass = pass_of(&r, sequences, tokens);
    replay.steps = steps;
    weights(&r);
    if (master_bytes(&r) > 0) per_parameter(&r, VRAM_COMPONENT_MASTER_WEIGHTS, VRAM_WHAT_MASTER_COPY, r.params, master_bytes(&r), 1, report->phases);
    states(&r);
    mask_buffers(&r);
    vram_replay_when(&pass, role, &replay, whens, when, report);
    gradients(&r, &replay);
    step(&r, &replay);
}

/* What is said on whiteboards: 16 bytes a parameter; activations of s b h (34 + 5 a s / h) a layer. Source: Korthikanti et al. 2022. */
static void rules_of_thumb(const vram_scenario *s, vram_report *report)
{
    const vram_model *m = &s->model;
    double heads = vram_most_heads(m);
    const vram_factor tokens[] = {{VRAM_SYMBOL_LAYERS, (double)m->layers}, {VRAM_SYMBOL_MICRO_BATCH, (double)s->training.micro_batch}, {VRAM_SYMBOL_SEQUENCE, (double)s->training.sequence_length}};
    vram_rule_times(vram_rule_times(vram_rule_add(report, VRAM_RULE_SIXTEEN_BYTES), VRAM_SYMBOL_PARAMETERS, report->params_trainable), VRAM_SYMBOL_BYTES_PER_PARAMETER, 16);
    vram_rule *linear = vram_rule_add(report, VRAM_RULE_KORTHIKANTI_LINEAR), *scores = vram_rule_add(report, VRAM_RULE_KORTHIKANTI_SCORES);
    for (int i = 0; i < 3; i++) {
        vram_rule_times(linear, tokens[i].symbol, tokens[i].value);
        vram_rule_times(scores, tokens[i].symbol, tokens[i].value);
    }
    vram_rule_times(vram_rule_times(linear, VRAM_SYMBOL_HIDDEN, (double)m->hidden), VRAM_SYMBOL_BYTES, 34);
    vram_rule_times(vram_rule_times(vram_rule_times(scores, VRAM_SYMBOL_SEQUENCE, (double)s->training.sequence_length), VRAM_SYMBOL_HEADS, heads), VRAM_SYMBOL_BYTES, 5);
}

/* Documents packed whole (best fit, decreasing) go through the model in one row of them all, whose boundaries flash attention is told,
 * and sdpa by a mask (TRL's padding-free collator); wrapped ones are rows like others. Source: trl 1.16, trainer/sft_trainer.py (DataCollatorForLanguageModeling) */
static void rows_of(const vram_scenario *s, double *sequences, double *tokens)
{
    bool one = s->training.packing == VRAM_PACKING_BFD;
    *sequences = one ? 1 : (double)s->training.micro_batch;
    *tokens = (double)s->training.sequence_length * (one ? (double)s->training.micro_batch : 1);
}

void vram_training(const vram_scenario *s, vram_steps *steps, vram_report *report)
{
    double sequences, tokens;
    static const vram_when when[] = {{VRAM_ALIVE_FORWARD, VRAM_PHASE_FORWARD}, {VRAM_ALIVE_LOSS, VRAM_PHASE_LOSS}, {VRAM_ALIVE_BACKWARD, VRAM_PHASE_BACKWARD},
                                     {VRAM_ALIVE_LASTING, VRAM_PHASE_STEP}, {VRAM_ALIVE_LASTING, VRAM_PHASE_LOAD}};
    rows_of(s, &sequences, &tokens);
    vram_train_when(s, &s->model, VRAM_ROLE_MODEL, sequences, tokens, (int)(sizeof when / sizeof *when), when, steps, report);
    rules_of_thumb(s, report);
}

/* ------------------------------------------------------------------------------------------------------- through time -- */

static double sum_of(const double bytes[VRAM_COMPONENT_COUNT])
{
    double sum = 0;
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) sum += bytes[c];
    return sum;
}

static void alive_in(const vram_report *report, vram_phase phase, double bytes[VRAM_COMPONENT_COUNT])
{
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) bytes[c] = vram_bytes_alive(report, phase, VRAM_BIT(c));
}

/* No component is less than nothing: what one lacks (the allocator's rounding of gradients is entered as workspace) the largest gives. */
static void add_to(vram_point *p, const double more[VRAM_COMPONENT_COUNT])
{
    double lacking = 0;
    int largest = 0;
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) {
        p->bytes[c] += more[c];
        lacking += vram_max(0, -p->bytes[c]);
        p->bytes[c] = vram_max(0, p->bytes[c]);
        if (p->bytes[c] > p->bytes[largest]) largest = c;
    }
    p->bytes[largest] -= lacking;
}

/* What stands all through a phase is what its entries are more than the pass makes at the phase's fullest instant. */
static void add_standing(const vram_report *report, vram_phase phase, vram_timeline *t)
{
    double standing[VRAM_COMPONENT_COUNT], most = -1;
    const vram_point *top = NULL;
    for (int i = 0; i < t->points; i++)
        if (t->point[i].phase == phase && sum_of(t->point[i].bytes) > most) {
            top = &t->point[i];
            most = sum_of(top->bytes);
        }
    if (top == NULL) return;
    alive_in(report, phase, standing);
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) standing[c] -= top->bytes[c];
    for (int i = 0; i < t->points; i++)
        if (t->point[i].phase == phase) add_to(&t->point[i], standing);
}

static void add_point(const vram_report *report, vram_phase phase, vram_timeline *t)
{
    if (t->points >= VRAM_MAX_POINTS) return;
    vram_point *p = &t->point[t->points++];
    *p = (vram_point){.phase = phase, .place = VRAM_PLACE_EMBEDDING};
    alive_in(report, phase, p->bytes);
}

/* A stage of a pipeline without the head waits for the loss with what it has: one instant, before its backward. */
static void add_waiting(const vram_report *report, vram_timeline *t)
{
    int at = 0;
    while (at < t->points && t->point[at].phase == VRAM_PHASE_FORWARD) at++;
    if (at >= t->points || t->point[at].phase == VRAM_PHASE_LOSS || t->points >= VRAM_MAX_POINTS) return;
    int last = t->points;
    add_point(report, VRAM_PHASE_LOSS, t);
    vram_point waiting = t->point[last];
    for (int i = last; i > at; i--) t->point[i] = t->point[i - 1];
    t->point[at] = waiting;
}

/* Of a step with several models, and of an engine that serves, the fullest instant of each phase */
static void phases_of(const vram_report *report, vram_timeline *t)
{
    for (int p = 0; p < VRAM_PHASE_COUNT; p++)
        if (report->phases & VRAM_BIT(p)) add_point(report, (vram_phase)p, t);
}

void vram_timeline_of(const vram_scenario *s, const vram_report *report, vram_timeline *t)
{
    t->points = 0;
    if (s->task != VRAM_TASK_TRAINING) {
        phases_of(report, t);
        return;
    }
    trainer r = trainer_of(s, &s->model, VRAM_ROLE_MODEL, NULL);
    vram_sharding sharding;
    vram_replay replay = replay_of(&r, &sharding);
    double sequences, tokens;
    rows_of(s, &sequences, &tokens);
    vram_pass pass = pass_of(&r, sequences, tokens);
    for (int i = 0; i < VRAM_MAX_POINTS; i++)
        for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) t->point[i].bytes[c] = 0;
    vram_replay_curve(&pass, &replay, t);
    for (int p = VRAM_PHASE_FORWARD; p <= VRAM_PHASE_BACKWARD; p++) add_standing(report, (vram_phase)p, t);
    add_waiting(report, t);
    add_point(report, VRAM_PHASE_STEP, t);
    add_point(report, VRAM_PHASE_LOAD, t);
}
