/* sharding.c -- the engines' common ground: units of parameters, and the list of what an engine holds at a moment. */
#include "sharding.h"

#include <stddef.h>

bool vram_sharding_by_expert(const vram_sharding *g) { return g->s->parallel.expert > 1 && g->s->parallel.engine != VRAM_PARALLEL_ENGINE_DDP; }
double vram_sharding_round(double elements, double ranks) { return vram_ceil_div(elements, ranks) * ranks; }

/* ---------------------------------------------------------------------------------------------------- tensors in order -- */

/* Bytes of a base parameter as it is stored, and so gathered. Of a rule of thumb every weight is of that type; FSDP 1 gathers bitsandbytes' 4 bit in what
 * they are stored in (bnb_4bit_quant_storage), and takes no integers (_flat_param.py, "Cannot flatten integer dtype tensors"). */
static double stored_width(const vram_sharding *g, const vram_tensor *t)
{
    bool all = vram_format_get(g->s->weights)->scheme == VRAM_SCHEME_NONE;
    return g->lora && (all || vram_is_packed(t)) ? vram_min(g->width, vram_format_bytes(g->s->weights)) : g->width;
}

static void visit_base(const vram_sharding *g, const vram_tensor *t, vram_sharding_visitor *visit, void *context)
{
    vram_tensor mine = vram_rank_tensor(g->s, g->m, t);
    if (t->kind < 0 && mine.layers == 0) return; /* another stage's */
    double copies = (double)mine.copies, rows = (double)mine.rows, columns = (double)mine.columns;
    double width = stored_width(g, t);
    vram_sharding_tensor one = {copies, rows, columns, width, !g->lora, t->part};
    if (t->stacked) one = (vram_sharding_tensor){1, copies, rows * columns, width, !g->lora, t->part};
    if (width < g->width && g->s->parallel.engine == VRAM_PARALLEL_ENGINE_DEEPSPEED) one = (vram_sharding_tensor){one.count, vram_ceil_div(one.rows * one.columns * width, g->width), 1, g->width, !g->lora, t->part};
    visit(context, &one);
    vram_lora_pair p = g->lora ? vram_lora_on_rank(g->s, g->m, t) : (vram_lora_pair){0};
    if (p.count <= 0) return;
    double times = t->modules > 0 ? (double)t->modules / (double)t->layers : copies;
    visit(context, &(vram_sharding_tensor){times, p.a_rows, p.a_columns, g->trained_width, true, t->part});
    visit(context, &(vram_sharding_tensor){times, p.b_rows, p.b_columns, g->trained_width, true, t->part});
    if (p.magnitudes > 0) visit(context, &(vram_sharding_tensor){times, p.magnitudes, 1, g->trained_width, true, t->part});
}

void vram_sharding_each(const vram_sharding *g, int kind, vram_sharding_visitor *visit, void *context)
{
    for (int i = 0; i < g->m->tensors; i++)
        if (g->m->tensor[i].kind == kind && !g->m->tensor[i].buffer) visit_base(g, &g->m->tensor[i], visit, context);
}

/* ------------------------------------------------------------------------------------------------------------- units -- */

typedef struct { vram_sharding_unit *unit; double ranks, replicas, trained_width, shard_width; bool by_rows, whole_adapters; } unit_sum;

/* FSDP 2 cuts each tensor by rows, filled up to the ranks; the others cut the flat whole. With expert parallelism experts are shared by the
 * ranks that hold the same ones (replicas; else 0), and cut by their own rows when they are fewer than these
 * (torchtitan/models/llama4/infra/parallelize.py, apply_fsdp). */
static void count(void *context, const vram_sharding_tensor *t)
{
    unit_sum *sum = context;
    vram_sharding_unit *u = sum->unit;
    bool expert = t->part == VRAM_PART_EXPERT && sum->replicas > 0;
    double ranks = expert ? sum->replicas : sum->ranks;
    double rows = sum->by_rows && !(expert && t->rows < ranks) ? vram_sharding_round(t->rows, ranks) : t->rows, elements = t->count * rows * t->columns;
    u->elements += elements;
    u->bytes += t->count * vram_ceil_div(rows * t->columns * t->width, 1);
    u->shard += elements / ranks;
    u->shard_bytes += elements / ranks * (t->trained ? sum->shard_width : t->width);
    if (sum->by_rows) {
        double bytes = vram_ceil_div(elements / t->count / ranks * (t->trained ? sum->shard_width : t->width), 1);
        u->slack += t->count * (vram_round_up(bytes, 512) - bytes);
    }
    if (!t->trained) return;
    u->trained += elements;
    u->gradients += t->count * t->rows * t->columns;
    u->trained_bytes += elements * t->width;
    u->trained_shard += elements / (sum->whole_adapters ? 1 : ranks);
    if (sum->by_rows) {
        double bytes = elements / t->count / ranks * sum->shard_width;
        u->trained_slack += t->count * (vram_round_up(bytes, 512) - bytes);
    }
    u->largest = vram_max(u->largest, t->rows * t->columns);
}

/* FSDP 1 fills a unit's flat tensor up to a multiple of the ranks (_flat_param.py). */
static void fill_up(const vram_sharding *g, vram_sharding_unit *u)
{
    if (g->s->parallel.engine != VRAM_PARALLEL_ENGINE_FSDP1) return;
    u->shard = vram_ceil_div(u->shard, 1);
    u->shard_bytes = u->trained == u->elements ? u->shard * g->shard_width : vram_ceil_div(u->shard_bytes, 1);
    u->trained_shard = vram_ceil_div(u->trained_shard, 1);
}

static void add_unit(vram_sharding *g, const vram_sharding_unit *u, double times)
{
    g->elements += times * u->elements;
    g->trained += times * u->trained;
    g->shard += times * u->shard;
    g->shard_bytes += times * u->shard_bytes;
    g->trained_shard += times * u->trained_shard;
    g->slack += times * u->slack;
    g->trained_slack += times * u->trained_slack;
}

static void count_units(vram_sharding *g)
{
    bool by_rows = g->s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2;
    unit_sum sum = {&g->root, g->ranks, vram_sharding_by_expert(g) ? vram_expert_replicas(g->s) : 0, g->trained_width, g->shard_width, by_rows, g->whole_adapters};
    vram_sharding_each(g, -1, count, &sum);
    fill_up(g, &g->root);
    add_unit(g, &g->root, 1);
    for (int k = 0; k < g->m->kinds; k++) {
        sum.unit = &g->layer[k];
        vram_sharding_each(g, k, count, &sum);
        fill_up(g, &g->layer[k]);
    }
    for (int64_t i = 0; i < g->layers; i++) add_unit(g, vram_sharding_layer(g, i), 1);
    for (int i = 0; i < g->m->tensors; i++) {
        vram_tensor t = vram_rank_tensor(g->s, g->m, &g->m->tensor[i]);
        if (t.part == VRAM_PART_EMBEDDING && t.shard == VRAM_SHARD_VOCABULARY && t.layers > 0) g->embedding = (double)t.rows * (double)t.columns;
    }
}

const vram_sharding_unit *vram_sharding_layer(const vram_sharding *g, int64_t layer)
{
    static const vram_sharding_unit none = {0}; /* a stage may have the head alone */
    return layer >= 0 && layer < g->layers ? &g->layer[g->m->stage.kind[layer]] : &none;
}

/* --------------------------------------------------------------------------------------------------------- the engine -- */

typedef void items(const vram_sharding *sharding, vram_moment moment, int place, vram_sharding_list *list);

typedef struct { items *items; vram_source source; vram_gradients gradients; } engine;

static const engine *engine_of(const vram_scenario *s)
{
    static const engine ddp = {vram_ddp_items, VRAM_SOURCE_PYTORCH_DDP, VRAM_GRADIENTS_STAND}, ddp_views = {vram_ddp_items, VRAM_SOURCE_PYTORCH_DDP, VRAM_GRADIENTS_PASS};
    static const engine fsdp1 = {vram_fsdp1_items, VRAM_SOURCE_PYTORCH_FSDP1, VRAM_GRADIENTS_UNIT}, fsdp2 = {vram_fsdp2_items, VRAM_SOURCE_PYTORCH_FSDP2, VRAM_GRADIENTS_UNIT};
    static const engine zero1 = {vram_zero_items, VRAM_SOURCE_DEEPSPEED, VRAM_GRADIENTS_STAND}, zero2 = {vram_zero_items, VRAM_SOURCE_DEEPSPEED, VRAM_GRADIENTS_PASS};
    static const engine zero3 = {vram_zero3_items, VRAM_SOURCE_DEEPSPEED, VRAM_GRADIENTS_PASS};
    int64_t zero = s->parallel.zero;
    switch (s->parallel.engine) {
    case VRAM_PARALLEL_ENGINE_DDP: return s->parallel.bucket_view == 1 ? &ddp_views : &ddp;
    case VRAM_PARALLEL_ENGINE_FSDP1: return &fsdp1;
    case VRAM_PARALLEL_ENGINE_FSDP2: return &fsdp2;
    case VRAM_PARALLEL_ENGINE_DEEPSPEED: return zero == 3 ? &zero3 : zero == 2 || (zero == 1 && s->parallel.overlap == 1) ? &zero2 : &zero1;
    default: return NULL;
    }
}

bool vram_adapters_whole(const vram_scenario *s)
{
    return s->training.method == VRAM_METHOD_LORA && s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1 && vram_data_ranks(s) > 1 && vram_format_get(s->weights)->scheme != VRAM_SCHEME_NONE;
}

bool vram_sharding_of(const vram_scenario *s, const vram_model *m, bool lora, vram_sharding *g)
{
    const engine *e = engine_of(s);
    bool fsdp = vram_is_fsdp(s);
    bool wide = vram_trains_fp32(s);
    if (e == NULL) return false;
    *g = (vram_sharding){.s = s, .m = m, .source = e->source, .gradients = e->gradients, .lora = lora};
    g->ranks = vram_zero_of(s) > 0 ? vram_data_ranks(s) : 1;
    if (fsdp && s->training.precision == VRAM_PRECISION_AMP) wide = false; /* fp32 shards, gathered in 16 bit */
    g->width = g->lora ? vram_min(vram_compute_bytes(s), 4) : wide ? 4 : 2;
    g->trained_width = g->lora ? vram_format_bytes(s->lora.dtype) : g->width;
    g->shard_width = fsdp && !g->lora && (s->training.precision == VRAM_PRECISION_MIXED || s->training.precision == VRAM_PRECISION_AMP) ? 4 : g->trained_width;
    g->whole_adapters = lora && vram_adapters_whole(s);
    g->gradient_width = lora == (s->training.method == VRAM_METHOD_LORA) ? vram_format_bytes(s->training.gradients) : g->shard_width; /* LoRA is the actor's */
    g->layers = m->stage.layers;
    count_units(g);
    if (s->parallel.engine == VRAM_PARALLEL_ENGINE_DEEPSPEED) vram_zero_own(g);
    return true;
}

void vram_sharding_add(vram_sharding_list *list, vram_component component, vram_what what, double copies, double elements, double width)
{
    if (copies <= 0 || elements <= 0 || width <= 0 || list->items >= VRAM_SHARDING_ITEMS) return;
    list->item[list->items++] = (vram_sharding_item){(unsigned char)component, (short)what, copies, elements, width};
}

vram_sharding_list vram_sharding_items(const vram_sharding *g, vram_moment moment, int place)
{
    vram_sharding_list list;
    list.items = 0;
    engine_of(g->s)->items(g, moment, place, &list);
    return list;
}

double vram_sharding_bytes(const vram_sharding *g, vram_moment moment, int place)
{
    vram_sharding_list list = vram_sharding_items(g, moment, place);
    double sum = 0;
    for (int i = 0; i < list.items; i++) sum += list.item[i].copies * list.item[i].elements * list.item[i].width;
    return sum;
}

bool vram_sharding_take(vram_sharding_list *list, const vram_sharding_item *item)
{
    for (int i = 0; i < list->items; i++) {
        vram_sharding_item *it = &list->item[i];
        if (it->component != item->component || it->what != item->what || it->copies != item->copies || it->elements != item->elements || it->width != item->width) continue;
        it->copies = 0;
        return true;
    }
    return false;
}

void vram_sharding_entries(const vram_sharding_list *list, const vram_sharding *g, vram_role role, unsigned phases, vram_report *report)
{
    for (int i = 0; i < list->items; i++) {
        const vram_sharding_item *it = &list->item[i];
        vram_entry *e = vram_add(report, role, (vram_component)it->component, (vram_what)it->what, VRAM_MODELLED, g->source, phases);
        if (it->copies != 1) vram_times(e, VRAM_SYMBOL_COPIES, it->copies);
        if (it->width == 1) vram_times(e, VRAM_SYMBOL_BYTES, it->elements); /* of several types together */
        else vram_times(vram_times(e, VRAM_SYMBOL_ELEMENTS, it->elements), VRAM_SYMBOL_BYTES_PER_ELEMENT, it->width);
    }
}

/* A tied embedding: the head's gradient waits for the embedding's, and their sum is a third tensor, since the head's is a transposed
 * view, unless autocast has copied it (input_buffer.cpp). */
void vram_sharding_tied(const vram_sharding *g, vram_moment moment, int place, vram_sharding_list *list)
{
    bool waits = g->gradients == VRAM_GRADIENTS_PASS && (moment == VRAM_MOMENT_BACKWARD || moment == VRAM_MOMENT_REDUCE) && place != VRAM_PLACE_HEAD;
    if (!g->m->tied || g->lora || !g->m->stage.embedding || !g->m->stage.head) return;
    if (waits) vram_sharding_add(list, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TIED_GRADIENT, 1, g->embedding, g->trained_width);
    if (moment != VRAM_MOMENT_REDUCE || place != VRAM_PLACE_EMBEDDING) return;
    double more = (waits ? 1 : 0) + (g->s->training.autocast && g->trained_width == 4 ? 0 : 1);
    vram_sharding_add(list, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TIED_GRADIENT, more, g->embedding, g->trained_width);
}
