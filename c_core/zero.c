/* zero.c -- DeepSpeed's ZeRO.
 *
 * Stages 1 and 2 (runtime/zero/stage_1_and_2.py): 16-bit weights whole; fp32 master and states of this rank's share. In backward gradients
 * go through a bucket; those of parameters that touch the share are copied to a buffer of their own, each whole (copy_grads_in_partition).
 * Stage 1 without overlap_comm reduces only when backward is over, and holds all gradients until then. The step takes the norm in fp64
 * tensor by tensor (get_grad_norm_direct), then joins the share's gradients and casts them to fp32 (flatten, step).
 * Stage 3 (stage3.py, partitioned_param_coordinator.py): weights, gradients and states in shares; weights are fetched ahead of their use
 * until max_live elements are there, and stay when their next use is near; a bucket is interleaved into a copy to be reduced and scattered.
 * Parameters are laid out in order of definition, so that the first rank owns the embedding: it is the fullest. */
#include "sharding.h"

#include <string.h>

typedef vram_sharding_list list;

static const double BUCKET = 5e8, PREFETCH = 5e7, PERSISTENT = 1e5, MAX_LIVE = 1e9, SUB_GROUP = 1e9; /* deepspeed/runtime/zero/config.py */

static double setting(int64_t value, double otherwise) { return value == VRAM_UNSET ? otherwise : (double)value; }
static double bucket_of(const vram_sharding *g) { return setting(g->s->parallel.bucket_elements, BUCKET); }
static bool offloads(const vram_sharding *g) { return g->s->parallel.offload != VRAM_OFFLOAD_NONE; }
static bool accumulates(const vram_sharding *g) { return g->s->training.gradient_accumulation > 1; }
static double share(const vram_sharding *g) { return vram_sharding_by_expert(g) ? vram_ceil_div(g->trained_shard, 1) : vram_ceil_div(g->trained, g->ranks); }

/* --------------------------------------------------------------------------------------------- parameters in their order -- */

enum { LENGTH = 256 };
typedef struct { int n; double numel[LENGTH]; } sizes; /* trained tensors of a unit, in order of definition */
typedef struct { sizes embedding, tail, layer[VRAM_MAX_KINDS]; } order;

static void push(sizes *list_, double numel)
{
    if (list_->n < LENGTH) list_->numel[list_->n++] = numel;
    else list_->numel[LENGTH - 1] += numel;
}

typedef struct { sizes *embedding, *rest; } destination;

static void take(void *context, const vram_sharding_tensor *t)
{
    destination *d = context;
    sizes *to = t->part == VRAM_PART_EMBEDDING ? d->embedding : d->rest;
    if (!t->trained) return;
    for (double i = 0; i < t->count && i < LENGTH; i++) push(to, t->rows * t->columns);
}

static void make_order(const vram_sharding *g, order *o)
{
    destination d = {&o->embedding, &o->tail};
    o->embedding.n = o->tail.n = 0;
    vram_sharding_each(g, -1, take, &d);
    for (int k = 0; k < g->m->kinds; k++) {
        o->layer[k].n = 0;
        d.embedding = d.rest = &o->layer[k];
        vram_sharding_each(g, k, take, &d);
    }
}

/* Walks forward: the parameters that touch the first share, and the largest slice of one. */
typedef struct { double offset, share, own, slice, group, largest_group, limit; } owner;

static void own(owner *w, const sizes *list_)
{
    for (int i = 0; i < list_->n; i++) {
        double n = list_->numel[i];
        if (w->offset < w->share) {
            w->own += n;
            w->slice = vram_max(w->slice, vram_min(n, w->share - w->offset));
        }
        w->offset += n;
    }
}

/* Sub-groups of stage 3: closed when they have reached their size; counted in this rank's part of each parameter */
static void sub_group(owner *w, const sizes *list_, double ranks)
{
    for (int i = 0; i < list_->n; i++) {
        w->group += vram_ceil_div(list_->numel[i], ranks);
        w->largest_group = vram_max(w->largest_group, w->group);
        if (w->group >= w->limit) w->group = 0;
    }
}

/* Walks backward: when is the bucket full, and when are own gradients in it for the first time? */
typedef struct { double offset, share, bucket, filled; bool owns; int from; double *reduced; } filler;

static void reduce(filler *f, int place)
{
    if (f->owns && f->from == VRAM_PLACE_HEAD) f->from = place;
    if (place >= 0) f->reduced[place] = vram_max(f->reduced[place], vram_min(f->filled, f->bucket));
    f->filled = 0;
    f->owns = false;
}

static void fill(filler *f, const sizes *list_, int place)
{
    for (int i = list_->n - 1; i >= 0; i--) {
        double n = list_->numel[i];
        if (f->filled + n > f->bucket) reduce(f, place);
        f->offset -= n;
        f->filled += n;
        f->owns = f->owns || f->offset < f->share;
    }
}

/* The first bucket of stage 1, which is filled in order of definition when backward is over: what it has taken when it is first reduced */
static double first_bucket(const vram_sharding *g, const order *o, double bucket)
{
    double filled = 0;
    for (int64_t place = -1; place <= g->layers; place++) {
        const sizes *list_ = place < 0 ? &o->embedding : place < g->layers ? &o->layer[g->m->stage.kind[place]] : &o->tail;
        for (int i = 0; i < list_->n; i++) {
            if (filled + list_->numel[i] > bucket) return filled;
            if (list_->numel[i] > bucket) return 0;
            filled += list_->numel[i];
        }
    }
    return filled;
}

/* ------------------------------------------------------------------------------------------------------ stages 1 and 2 -- */

static bool late(const vram_sharding *g) { return g->gradients == VRAM_GRADIENTS_STAND; } /* stage 1 (or 0): reduced when backward is over */
static bool wide(const vram_sharding *g) { return g->gradient_width > g->trained_width; }

/* The engine's own type, whatever the adapters' */
static double bucket_width(const vram_sharding *g) { return vram_min(g->width, g->trained_width); }

/* Stage 1 with fp32 gradients is another class: runtime/bf16_optimizer.py. A flat fp32 gradient of all parameters stands always; 16-bit gradients
 * live through the step, and are joined in one piece to be summed when backward is over. */
static bool bf16_optimizer(const vram_sharding *g) { return late(g) && wide(g) && g->s->parallel.zero == 1; }

static void bf16_optimizer_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    if (moment == VRAM_MOMENT_REST) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, 1, g->trained, g->gradient_width);
    if (moment == VRAM_MOMENT_STEP) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, 1, g->trained, g->trained_width);
    if (moment == VRAM_MOMENT_STEP && vram_steps_at_once(g->s)) vram_sharding_add(l, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_STEP_TEMPORARY, 1, share(g), 4);
    if (moment == VRAM_MOMENT_EPILOGUE) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, 1, g->trained, g->trained_width);
    if (moment == VRAM_MOMENT_EPILOGUE) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_BUCKET, 1, g->trained, g->trained_width);
    vram_sharding_tied(g, moment, place, l);
}

static void buckets(const vram_sharding *g, list *l)
{
    vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_BUCKET, g->s->parallel.overlap == 1 ? 2 : 1, bucket_of(g), bucket_width(g));
}

static void own_gradients(const vram_sharding *g, double copies, list *l)
{
    if (offloads(g)) return;
    if (wide(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_OWN_GRADIENTS, 1, share(g), g->gradient_width);
    else vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_OWN_GRADIENTS, copies, g->own, g->trained_width);
}

/* The share's own copy, which the optimizer steps: fp32, or 16 bit with bf16_master_weights_and_grads (runtime/base_optimizer.py, _configure_master_weights) */
static double master_width(const vram_sharding *g) { return g->s->training.precision == VRAM_PRECISION_BF16 ? 2 : 4; }
static bool casts(const vram_sharding *g) { return master_width(g) > bucket_width(g); }

/* Either the norm, or the joined and cast gradients, or torch's own AdamW beside them: whichever is most */
static void zero_step(const vram_sharding *g, list *l)
{
    double P = share(g), width = bucket_width(g), master = master_width(g), own = wide(g) ? 4 * P : width * g->own;
    double norm = own + 8 * g->own_slice, joined = wide(g) ? 4 * P : own + (width + (casts(g) ? master : 0)) * P, update = (vram_steps_at_once(g->s) ? 2 : 1) * master * P;
    if (offloads(g)) return;
    if (norm >= joined && norm >= update) {
        own_gradients(g, 1, l);
        vram_sharding_add(l, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_GRADIENT_NORM, 1, g->own_slice, 8);
        return;
    }
    if (joined > update && !wide(g)) {
        own_gradients(g, 1, l);
        vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, P, g->trained_width);
        if (!casts(g)) return;
    } else if (vram_steps_at_once(g->s)) vram_sharding_add(l, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_STEP_TEMPORARY, 1, P, master);
    vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, P, master);
}

/* A bucket that holds parts of several ranks' shares is joined into a copy to be summed (allreduce_bucket: flatten). */
static double joined_bytes(const vram_sharding *g, double filled) { return g->ranks > 1 ? filled * bucket_width(g) : 0; }

static void joined(const vram_sharding *g, double filled, list *l)
{
    if (g->ranks > 1) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_FLAT_GRADIENTS, 1, filled, bucket_width(g));
}

/* fp32 gradients of the share: the flat partition stands before the sum, and a part is cast before it is added (_add_to_grad_partition_buffer). */
static void added(const vram_sharding *g, double filled, list *l)
{
    joined(g, filled, l);
    own_gradients(g, 1, l);
    vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, g->own_slice, g->gradient_width);
}

/* When backward is over the last bucket is summed (stage 1: the first, of all), and own gradients are copied out of it after that. */
static void epilogue(const vram_sharding *g, list *l)
{
    bool embedding_waits = !late(g) && g->own_from == VRAM_PLACE_EMBEDDING && !g->lora;
    double filled = late(g) ? g->first_bucket : g->last_bucket, embedding = embedding_waits ? g->embedding * g->trained_width : 0;
    if (late(g) && !accumulates(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, 1, g->trained - g->first_bucket, g->trained_width);
    if (wide(g) && !late(g) && !offloads(g)) { added(g, filled, l); return; }
    if (joined_bytes(g, filled) > embedding + (offloads(g) ? 0 : g->own * g->trained_width)) { joined(g, filled, l); return; }
    if (embedding_waits) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, 1, g->embedding, g->trained_width);
    own_gradients(g, 1, l);
}

/* Stage 2: a bucket is summed while the pass goes on; own gradients of it come after that. */
static void in_passing(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    bool owns = g->own_from >= 0 && place <= g->own_from;
    double filled = moment == VRAM_MOMENT_REDUCE && place >= 0 ? g->reduced[place] : 0;
    if (owns && place == g->own_from && joined_bytes(g, filled) > g->own * g->trained_width && !wide(g)) owns = false;
    if (owns && wide(g) && place == g->own_from && filled > 0) { added(g, filled, l); return; }
    if (owns) own_gradients(g, 1, l);
    if (!owns || place != g->own_from) joined(g, filled, l);
}

void vram_zero_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    if (bf16_optimizer(g)) { bf16_optimizer_items(g, moment, place, l); return; }
    bool pass = moment > VRAM_MOMENT_LOAD && moment != VRAM_MOMENT_STEP;
    if (moment == VRAM_MOMENT_REST && offloads(g) && !g->second) vram_sharding_add(l, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_STAGING_BUFFER, 1, vram_max(g->root.largest, vram_sharding_layer(g, 0)->largest), g->trained_width);
    if (moment == VRAM_MOMENT_STEP) zero_step(g, l);
    if (!pass) return;
    bool before = moment == VRAM_MOMENT_FORWARD || moment == VRAM_MOMENT_LOSS || moment == VRAM_MOMENT_START || (moment == VRAM_MOMENT_BACKWARD && place == VRAM_PLACE_HEAD);
    if (accumulates(g)) {
        if (late(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, 1, g->trained, g->trained_width);
        else own_gradients(g, 1, l);
    }
    if (moment == VRAM_MOMENT_DONE && !late(g) && !accumulates(g)) own_gradients(g, 1, l);
    if (moment >= VRAM_MOMENT_WAIT) return;
    if (!before || (late(g) && accumulates(g))) buckets(g, l);
    if (before) return;
    vram_sharding_tied(g, moment, place, l);
    if (moment == VRAM_MOMENT_EPILOGUE) epilogue(g, l);
    else if (!late(g) && place != VRAM_PLACE_HEAD) in_passing(g, moment, place, l);
}

/* ------------------------------------------------------------------------------------------------------------- stage 3 -- */

typedef struct { double limit, sum, bytes; } small; /* parameters that no rank lets go */

static void count_small(void *context, const vram_sharding_tensor *t)
{
    small *s = context;
    if (t->rows * t->columns > s->limit) return;
    s->sum += t->count * t->rows * t->columns;
    s->bytes += t->count * t->rows * t->columns * t->width;
}

static void count_persistent(vram_sharding *g)
{
    small s = {.limit = setting(g->s->parallel.persistence_elements, PERSISTENT)};
    vram_sharding_each(g, -1, count_small, &s);
    g->persistent = s.sum;
    g->persistent_bytes = s.bytes;
    for (int k = 0; k < g->m->kinds; k++) {
        double layers = (double)g->m->stage.of_kind[k];
        s.sum = s.bytes = 0;
        vram_sharding_each(g, k, count_small, &s);
        g->persistent += layers * s.sum;
        g->persistent_bytes += layers * s.bytes;
    }
}

static void zero3_rest(const vram_sharding *g, list *l)
{
    if (g->s->parallel.offload != VRAM_OFFLOAD_OPTIMIZER_WEIGHTS && !g->lora) vram_sharding_add(l, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALL_WEIGHTS, 1, vram_sharding_by_expert(g) ? vram_ceil_div(g->shard, 1) : vram_ceil_div(g->elements, g->ranks), g->width);
    if (!offloads(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, 1, share(g), g->gradient_width);
    if (!g->second) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_BUCKET, 1, bucket_of(g), bucket_width(g));
    if (g->ranks > 1) vram_sharding_add(l, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_PERSISTENT_WEIGHTS, 1, g->persistent_bytes, 1);
}

static void zero3_step(const vram_sharding *g, list *l)
{
    double S = vram_min(g->sub_group, share(g)), master = master_width(g);
    if (offloads(g)) return;
    vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, S, master);
    if (vram_steps_at_once(g->s)) vram_sharding_add(l, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_STEP_TEMPORARY, 1, S, master);
    else if (!wide(g) && casts(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, S, g->trained_width);
}

/* Elements gathered while a place runs: fetched ahead up to max_live; in backward what is still to be used */
static double live(const vram_sharding *g, vram_moment moment, int place)
{
    double max_live = setting(g->s->parallel.max_live_elements, MAX_LIVE), still = g->elements - g->persistent;
    if (moment == VRAM_MOMENT_EPILOGUE || moment == VRAM_MOMENT_DONE) return 0;
    if (moment == VRAM_MOMENT_WAIT) return vram_min(still, vram_max(0, max_live - still)); /* the bound is for both models */
    if (moment >= VRAM_MOMENT_BACKWARD && place != VRAM_PLACE_HEAD) {
        still = g->embedding + (place < 0 ? 0 : g->through[place]);
    }
    double head = place == VRAM_PLACE_HEAD || place == VRAM_PLACE_EMBEDDING ? g->embedding : 0;
    return vram_min(still, vram_max(max_live, head));
}

void vram_zero3_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    if (moment == VRAM_MOMENT_REST) { zero3_rest(g, l); return; }
    if (moment == VRAM_MOMENT_LOAD) return;
    if (moment == VRAM_MOMENT_STEP) { zero3_step(g, l); return; }
    if (g->ranks > 1) {
        vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_GATHERED_WEIGHTS, 1, live(g, moment, place), g->width);
        double prefetch = vram_min(setting(g->s->parallel.prefetch_elements, PREFETCH), g->elements);
        if (place >= 0 && moment != VRAM_MOMENT_REDUCE) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_FLAT_WEIGHTS, 1, prefetch, g->width);
    }
    vram_sharding_tied(g, moment, place, l);
    double collected = moment == VRAM_MOMENT_EPILOGUE ? g->last_bucket : moment == VRAM_MOMENT_BACKWARD && place >= 0 ? g->reduced[place] : 0;
    if (g->ranks > 1) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_SCATTER_INPUT, 1, collected, g->trained_width);
}

/* ------------------------------------------------------------------------------------------- what is counted beforehand -- */

void vram_zero_own(vram_sharding *g)
{
    order o;
    make_order(g, &o);
    owner w = {.share = share(g), .limit = setting(g->s->parallel.subgroup_elements, SUB_GROUP)};
    own(&w, &o.embedding);
    sub_group(&w, &o.embedding, g->ranks);
    for (int64_t i = 0; i < g->layers; i++) {
        own(&w, &o.layer[g->m->stage.kind[i]]);
        sub_group(&w, &o.layer[g->m->stage.kind[i]], g->ranks);
    }
    own(&w, &o.tail);
    sub_group(&w, &o.tail, g->ranks);
    filler f = {.offset = w.offset, .share = w.share, .bucket = bucket_of(g), .from = VRAM_PLACE_HEAD, .reduced = g->reduced};
    fill(&f, &o.tail, VRAM_PLACE_HEAD);
    for (int64_t i = g->layers - 1; i >= 0; i--) fill(&f, &o.layer[g->m->stage.kind[i]], (int)i);
    fill(&f, &o.embedding, VRAM_PLACE_EMBEDDING);
    g->own = w.own;
    g->own_slice = w.slice;
    g->own_from = f.from;
    g->first_bucket = first_bucket(g, &o, f.bucket);
    g->last_bucket = vram_min(f.filled, f.bucket);
    g->sub_group = w.largest_group;
    for (int64_t i = 0; i < g->layers; i++) g->through[i] = (i > 0 ? g->through[i - 1] : 0) + vram_sharding_layer(g, i)->elements;
    count_persistent(g);
}
