/* ggml_graph.c -- the replay of ggml's graph allocator and scheduler. Source: ggml/src/ggml-alloc.c, ggml_dyn_tallocr and
 * ggml_gallocr_alloc_graph_impl; ggml/src/ggml-backend.cpp, ggml_backend_sched_split_graph. */
#include "ggml_graph.h"

#include <stddef.h>

ggml_shape ggml_typed(double bytes_each, double width, double rows, double more)
{
    return (ggml_shape){{width, rows, more}, bytes_each, bytes_each * width * rows * more};
}

ggml_shape ggml_f32(double width, double rows, double more) { return ggml_typed(4, width, rows, more); }

/* ------------------------------------------------------------------------------------------------------------ holes -- */

static void remove_hole(ggml_pool *p, int at)
{
    for (int i = at; i + 1 < p->holes; i++) p->hole[i] = p->hole[i + 1];
    p->holes--;
}

static bool insert_hole(ggml_pool *p, double offset, double bytes)
{
    int at = 0;
    if (p->holes == GGML_MAX_HOLES) return false;
    while (at < p->holes && p->hole[at].offset < offset) at++;
    for (int i = p->holes; i > at; i--) p->hole[i] = p->hole[i - 1];
    p->hole[at] = (ggml_hole){offset, bytes};
    p->holes++;
    return true;
}

/* The smallest hole that is large enough, of equal ones the last; the endless one behind everything only if none is. */
static double take(ggml_pool *p, double bytes)
{
    int best = p->holes - 1;
    double smallest = -1;
    for (int i = 0; i < p->holes - 1; i++) {
        if (p->hole[i].bytes < bytes || (smallest >= 0 && p->hole[i].bytes > smallest)) continue;
        best = i;
        smallest = p->hole[i].bytes;
    }
    double offset = p->hole[best].offset;
    p->hole[best].offset += bytes;
    p->hole[best].bytes -= bytes;
    if (p->hole[best].bytes == 0) remove_hole(p, best);
    p->high = vram_max(p->high, offset + bytes);
    return offset;
}

/* Grows the first hole that ends where the room starts, or starts where it ends, and joins it with that hole's other neighbour; else a new
 * hole. (A tensor of no bytes can leave an empty hole, at which two others then touch without being joined: as in ggml.) */
static bool give_back(ggml_pool *p, double offset, double bytes)
{
    for (int i = 0; i < p->holes; i++) {
        ggml_hole *h = &p->hole[i];
        if (h->offset + h->bytes == offset) {
            h->bytes += bytes;
            if (i + 1 < p->holes && h->offset + h->bytes == h[1].offset) {
                h->bytes += h[1].bytes;
                remove_hole(p, i + 1);
            }
            return true;
        }
        if (offset + bytes == h->offset) {
            h->offset = offset;
            h->bytes += bytes;
            if (i > 0 && h[-1].offset + h[-1].bytes == offset) {
                h[-1].bytes += h->bytes;
                remove_hole(p, i);
            }
            return true;
        }
    }
    return insert_hole(p, offset, bytes);
}

/* ---------------------------------------------------------------------------------------------------------- tensors -- */

static int home(const ggml_tensor *t) { return t->outside >= GGML_OUTSIDE ? GGML_ON_HOST : t->outside == GGML_OUTSIDE_GPU ? GGML_ON_GPU : t->made; }

static double room(const ggml_graph *g, const ggml_tensor *t, int side)
{
    double own = t->of.bytes + (side == GGML_ON_GPU ? t->work : 0);
    return vram_round_up(side == home(t) ? own : t->part[side] > 0 ? t->part[side] : t->of.bytes, g->pool[side].alignment);
}

/* What is alive, by tag: called when the GPU's buffer has grown */
static void account(ggml_graph *g)
{
    for (int i = 0; i < VRAM_WHAT_COUNT; i++) g->at_high[i] = 0;
    for (int i = 0; i < g->tensors; i++)
        if (g->tensor[i].at[GGML_ON_GPU].allocated) g->at_high[g->tensor[i].tag] += room(g, &g->tensor[i], GGML_ON_GPU) * (g->tensor[i].stays ? g->copies : 1);
    for (int i = g->handed; i < g->aheads && g->ahead_made; i++) g->at_high[VRAM_WHAT_CACHE_COPY] += g->ahead[i].bytes;
}

static void allocate(ggml_graph *g, ggml_tensor *t, int side)
{
    double before = g->pool[side].high;
    t->at[side].offset = take(&g->pool[side], room(g, t, side));
    t->at[side].allocated = true;
    t->at[side].waiting = false;
    if (side == GGML_ON_GPU && g->pool[side].high > before) account(g);
}

static void release(ggml_graph *g, ggml_tensor *t, int side)
{
    if (!t->at[side].allocated || t->output) return;
    if (!give_back(&g->pool[side], t->at[side].offset, room(g, t, side))) g->failed = true;
    t->at[side].allocated = false;
}

static bool same_layout(const ggml_shape *a, const ggml_shape *b)
{
    return a->number_bytes == b->number_bytes && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1] && a->shape[2] == b->shape[2];
}

static void allocate_input(ggml_graph *g, ggml_tensor *t, int side)
{
    t->output = t->stays = g->copies > 1;
    for (double i = 1; i < g->copies; i++) take(&g->pool[side], room(g, t, side));
    allocate(g, t, side);
}

/* The result takes over the first source of the same layout that only this operation still reads; spare room at its end is freed. */
static bool take_over(ggml_graph *g, const ggml_op *op)
{
    int side = op->place;
    ggml_tensor *result = &g->tensor[op->result];
    for (int i = 0; i < op->sources; i++) {
        if (op->source[i] < 0) continue;
        ggml_tensor *parent = &g->tensor[op->source[i] & ~GGML_VIEW];
        ggml_memory *memory = &parent->at[side];
        bool part = side != home(parent) && parent->part[side] == result->of.bytes; /* the copy of a view is a tensor */
        bool whole = !(op->source[i] & GGML_VIEW) && same_layout(&result->of, &parent->of);
        if (!memory->allocated || parent->output || memory->readers != 1 || !(whole || part)) continue;
        double was = room(g, parent, side), is = room(g, result, side);
        result->at[side].offset = memory->offset;
        result->at[side].allocated = true;
        memory->allocated = false;
        if (was > is && !give_back(&g->pool[side], memory->offset + is, was - is)) g->failed = true;
        return true;
    }
    return false;
}

static void read_once(ggml_graph *g, ggml_tensor *t, int side)
{
    if (--t->at[side].readers == 0) release(g, t, side);
}

static void run_op(ggml_graph *g, const ggml_op *op)
{
    int side = op->place;
    if (op->leaf) {
        g->tensor[op->result].at[side].allocated = true;
        return;
    }
    if (op->result >= 0 && !(op->in_place && take_over(g, op))) allocate(g, &g->tensor[op->result], side);
    for (int i = 0; i < op->sources; i++)
        if (op->source[i] >= 0) read_once(g, &g->tensor[op->source[i] & ~GGML_VIEW], side);
}

/* ----------------------------------------------------------------------------------------------------------- splits -- */

/* Passes 1 and 2: what has no place goes with the GPU before or behind it, else to the host. */
static void place_all(ggml_graph *g)
{
    int before = g->place;
    for (int i = 0; i < g->ops; i++) {
        if (g->op[i].keeps) g->op[i].place = (unsigned char)before;
        if (g->op[i].place != GGML_ANYWHERE) {
            before = g->op[i].place;
            continue;
        }
        int next = i + 1;
        while (next < g->ops && (g->op[next].keeps || g->op[next].place == GGML_ANYWHERE)) next++;
        bool host = before == GGML_ON_HOST && (next == g->ops ? g->then : g->op[next].place) == GGML_ON_HOST;
        g->op[i].place = host ? GGML_ON_HOST : GGML_ON_GPU;
        before = g->op[i].place;
    }
}

/* Readers on either side. What one side copies of the other is read there once more, by the copying. */
static void count_readers(ggml_graph *g)
{
    for (int i = 0; i < g->ops; i++) {
        const ggml_op *op = &g->op[i];
        if (op->result >= 0) g->tensor[op->result].made = op->place;
        for (int j = 0; j < op->sources; j++) {
            int id = op->source[j] < 0 ? GGML_NONE : op->source[j] & ~GGML_VIEW;
            if (id < 0) continue;
            ggml_tensor *t = &g->tensor[id];
            bool input = id < GGML_MAX_INPUTS && id != GGML_CARRIED;
            if (input && op->place == GGML_ON_GPU && g->counting && !t->met) g->input_order[g->inputs_used++] = id;
            if (op->place == GGML_ON_GPU) t->met = true;
            if (id > GGML_CARRIED && id < GGML_MAX_INPUTS && !g->counting) continue; /* counted in the first pass */
            if (op->place != home(t) && t->at[op->place].readers == 0) t->at[home(t)].readers++;
            t->at[op->place].readers++;
        }
    }
}

static bool begins_split(const ggml_graph *g, int at, int place, bool copies)
{
    if (g->op[at].place != place) return true;
    if (place != GGML_ON_GPU || !copies || g->op[at].keeps) return false;
    for (int i = 0; i < g->op[at].sources; i++) {
        int id = g->op[at].source[i];
        if (id >= 0 && g->tensor[id & ~GGML_VIEW].outside >= GGML_OUTSIDE_WEIGHT) return true;
    }
    return false;
}

/* Copies of what one operation reads of the other side, unless they are there */
static void copy_sources(ggml_graph *g, const ggml_op *op)
{
    for (int i = 0; i < op->sources; i++) {
        if (op->source[i] < 0) continue;
        ggml_tensor *t = &g->tensor[op->source[i] & ~GGML_VIEW];
        int side = home(t);
        if (side == op->place || t->copied) continue;
        t->copied = g->split_copies = true;
        read_once(g, t, side);
        allocate(g, t, op->place);
    }
}

/* Pass 5. A split's copies are made at its start. */
static void run_all(ggml_graph *g)
{
    int ahead = 0;
    for (int i = 0; i < g->ops; i++) {
        if (i == 0 || i == ahead) {
            bool fresh = begins_split(g, i, g->place, g->split_copies);
            if (fresh) g->split_copies = false;
            g->place = g->op[i].place;
            for (ahead = i; ahead < g->ops && (ahead == i || !begins_split(g, ahead, g->place, g->split_copies)); ahead++) copy_sources(g, &g->op[ahead]);
            if (ahead == g->ops && g->last_split && g->place == GGML_ON_GPU) ggml_graph_allocate_inputs(g);
        }
        run_op(g, &g->op[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------------ graph -- */

static ggml_pool empty_pool(double alignment)
{
    ggml_pool pool = {.alignment = alignment, .holes = 1};
    pool.hole[0] = (ggml_hole){0, 9007199254740992.0}; /* 2^53: endless */
    return pool;
}

void ggml_graph_start(ggml_graph *g)
{
    g->counting = true;
    g->failed = g->last_split = g->split_copies = false;
    g->host_layers = false;
    g->place = GGML_ON_HOST;
    g->then = GGML_ON_GPU;
    g->copies = 1;
    g->inputs_used = g->ops = g->aheads = g->handed = g->walks = 0;
    g->ahead_made = false;
    g->tensors = GGML_MAX_INPUTS;
    g->pool[GGML_ON_GPU] = empty_pool(128); /* CUDA's alignment */
    g->pool[GGML_ON_HOST] = empty_pool(32); /* the CPU's */
    for (int i = 0; i < VRAM_WHAT_COUNT; i++) g->at_high[i] = 0;
    for (int i = 0; i < GGML_MAX_INPUTS; i++) g->tensor[i] = (ggml_tensor){.outside = GGML_OUTSIDE};
}

void ggml_graph_input(ggml_graph *g, int input, ggml_shape shape)
{
    g->tensor[input].of = shape;
    g->tensor[input].tag = g->tag;
    if (input == GGML_STREAM) g->embeddings = g->tensor[input];
}

static ggml_op *next_op(ggml_graph *g, int sources, const int source[])
{
    ggml_op *op = &g->op[g->ops];
    if (g->ops + 1 < GGML_MAX_OPS) g->ops++;
    else g->failed = true;
    *op = (ggml_op){.result = GGML_NONE, .place = g->host_layers ? GGML_ANYWHERE : GGML_ON_GPU};
    if (sources > GGML_MAX_SOURCES) g->failed = true;
    for (int i = 0; i < sources && i < GGML_MAX_SOURCES; i++) op->source[op->sources++] = source[i];
    return op;
}

static int next_tensor(ggml_graph *g, ggml_shape shape)
{
    int result = g->tensors;
    g->tensor[result] = (ggml_tensor){.of = shape, .tag = g->tag};
    if (g->tensors + 1 < GGML_MAX_TENSORS) g->tensors++;
    else g->failed = true;
    return result;
}

int ggml_graph_op(ggml_graph *g, bool in_place, ggml_shape shape, int sources, const int source[])
{
    ggml_op *op = next_op(g, sources, source);
    op->in_place = in_place;
    return op->result = next_tensor(g, shape);
}

int ggml_graph_outside(ggml_graph *g, ggml_outside kind, double bytes)
{
    int result = next_tensor(g, ggml_typed(1, bytes, 1, 1));
    g->tensor[result].outside = (unsigned char)kind;
    return result;
}

int ggml_graph_ahead(ggml_graph *g, double bytes)
{
    int result = ggml_graph_outside(g, GGML_OUTSIDE, bytes);
    g->tensor[result].copied = true;
    if (g->counting && g->aheads < GGML_MAX_AHEAD) g->ahead[g->aheads++].bytes = room(g, &g->tensor[result], GGML_ON_GPU);
    else if (g->handed < g->aheads) {
        g->tensor[result].at[GGML_ON_GPU].offset = g->ahead[g->handed++].offset;
        g->tensor[result].at[GGML_ON_GPU].allocated = true;
    }
    return result;
}

void ggml_graph_leaves(ggml_graph *g, double bytes)
{
    if (bytes > 0) take(&g->pool[GGML_ON_GPU], bytes);
}

int ggml_graph_leaf(ggml_graph *g, ggml_shape shape, double offset)
{
    int result = ggml_graph_op(g, false, shape, 0, NULL);
    g->op[g->ops - 1].leaf = true;
    g->tensor[result].at[GGML_ON_GPU].offset = offset;
    return result;
}

void ggml_graph_place(ggml_graph *g, ggml_place place) { g->op[g->ops - 1].place = (unsigned char)place; }

void ggml_graph_write(ggml_graph *g, int sources, const int source[])
{
    next_op(g, sources, source)->place = g->host_layers ? GGML_ON_HOST : GGML_ON_GPU;
}

void ggml_graph_use(ggml_graph *g, int sources, const int source[]) { next_op(g, sources, source)->keeps = true; }

static void carry(ggml_graph *g, int tensor, int slot)
{
    if (tensor < 0) return;
    g->tensor[slot] = g->tensor[tensor];
    g->tensor[slot].at[GGML_ON_GPU].readers = g->tensor[slot].at[GGML_ON_HOST].readers = 0;
    g->tensor[slot].met = true;
    g->tensor[slot].copied = false;
}

static void copy_ahead(ggml_graph *g)
{
    if (g->counting || g->ahead_made) return;
    g->ahead_made = true;
    for (int i = 0; i < g->aheads; i++) {
        double before = g->pool[GGML_ON_GPU].high;
        g->ahead[i].offset = take(&g->pool[GGML_ON_GPU], g->ahead[i].bytes);
        if (g->pool[GGML_ON_GPU].high > before) account(g);
    }
}

void ggml_graph_allocate_inputs(ggml_graph *g)
{
    copy_ahead(g);
    for (int i = 0; i < g->inputs_used && !g->counting; i++) {
        ggml_tensor *t = &g->tensor[g->input_order[i]];
        if (!t->at[GGML_ON_GPU].waiting) continue;
        t->copied = true;
        read_once(g, t, GGML_ON_HOST);
        allocate_input(g, t, GGML_ON_GPU);
    }
}

/* The next layer's readings are not counted yet. */
static void keep(ggml_graph *g, int tensor)
{
    if (tensor >= 0) g->tensor[tensor].at[home(&g->tensor[tensor])].readers++;
}

void ggml_graph_run(ggml_graph *g, int stream, int carried)
{
    place_all(g);
    count_readers(g);
    keep(g, stream);
    keep(g, carried);
    if (!g->counting) run_all(g);
    else if (g->ops > 0) g->place = g->op[g->ops - 1].place;
    carry(g, stream, GGML_STREAM);
    carry(g, carried, GGML_CARRIED);
    g->ops = 0;
    g->tensors = GGML_MAX_INPUTS;
}

/* ------------------------------------------------------------------------------------------------------- walked before -- */

static ggml_found found(const ggml_graph *g)
{
    const ggml_pool *p = &g->pool[GGML_ON_GPU];
    ggml_found f = {.holes = p->holes, .handed = {g->tensor[GGML_STREAM], g->tensor[GGML_CARRIED]}};
    for (int i = 0; i < p->holes && i < GGML_MAX_FOUND; i++) f.hole[i] = p->hole[i];
    return f;
}

static bool same_tensor(const ggml_tensor *a, const ggml_tensor *b)
{
    const ggml_memory *m = &a->at[GGML_ON_GPU], *o = &b->at[GGML_ON_GPU];
    bool same_room = a->work == b->work && a->part[GGML_ON_GPU] == b->part[GGML_ON_GPU] && m->allocated == o->allocated && m->offset == o->offset && m->readers == o->readers;
    return same_layout(&a->of, &b->of) && same_room && a->outside == b->outside && a->made == b->made && a->output == b->output && a->tag == b->tag;
}

static bool same_found(const ggml_found *a, const ggml_found *b)
{
    bool same = a->holes == b->holes && same_tensor(&a->handed[0], &b->handed[0]) && same_tensor(&a->handed[1], &b->handed[1]);
    for (int i = 0; same && i < a->holes; i++) same = a->hole[i].offset == b->hole[i].offset && a->hole[i].bytes == b->hole[i].bytes;
    return same;
}

/* Inputs have readers left: the last reading gives memory back. */
static bool readers_left(const ggml_graph *g, const double reads[])
{
    bool left = true;
    for (int i = GGML_CARRIED + 1; i < GGML_MAX_INPUTS; i++) left &= g->counting || reads[i] == 0 || g->tensor[i].at[GGML_ON_GPU].readers > reads[i];
    return left;
}

bool ggml_graph_again(ggml_graph *g, int like)
{
    ggml_found now = found(g);
    g->noting = g->walks < GGML_MAX_WALKED && now.holes <= GGML_MAX_FOUND;
    if (!g->noting) return false;
    for (int k = 0; k < g->walks; k++) {
        const ggml_walked *w = &g->walked[k];
        if (w->like != like || !same_found(&w->before, &now) || !readers_left(g, w->reads)) continue;
        for (int i = GGML_CARRIED + 1; i < GGML_MAX_INPUTS; i++) g->tensor[i].at[GGML_ON_GPU].readers += g->counting ? w->reads[i] : -w->reads[i];
        for (int i = 0; i < 2; i++) g->tensor[i] = w->after.handed[i];
        g->pool[GGML_ON_GPU].holes = w->after.holes;
        for (int i = 0; i < w->after.holes; i++) g->pool[GGML_ON_GPU].hole[i] = w->after.hole[i];
        return true;
    }
    g->walked[g->walks] = (ggml_walked){.like = like, .before = now};
    for (int i = 0; i < GGML_MAX_INPUTS; i++) g->walked[g->walks].reads[i] = g->tensor[i].at[GGML_ON_GPU].readers;
    return false;
}

void ggml_graph_walked(ggml_graph *g)
{
    if (!g->noting) return;
    ggml_walked *w = &g->walked[g->walks];
    bool whole = true;
    for (int i = 0; i < GGML_MAX_INPUTS; i++) {
        double now = g->tensor[i].at[GGML_ON_GPU].readers;
        whole &= i <= GGML_CARRIED || now > 0 || now == w->reads[i];
        w->reads[i] = fabs(now - w->reads[i]);
    }
    w->after = found(g);
    if (whole && w->after.holes <= GGML_MAX_FOUND) g->walks++;
}

/* On the host all inputs lie side by side, those that only the GPU reads, too, and the embeddings behind them. */
static void allocate_on_host(ggml_graph *g)
{
    for (int i = GGML_CARRIED + 1; i < GGML_MAX_INPUTS; i++)
        if (g->tensor[i].outside == GGML_OUTSIDE && g->tensor[i].at[GGML_ON_HOST].readers > 0) allocate_input(g, &g->tensor[i], GGML_ON_HOST);
    allocate(g, &g->tensor[GGML_STREAM], GGML_ON_HOST);
}

void ggml_graph_second_pass(ggml_graph *g)
{
    g->counting = false;
    g->walks = 0;
    g->place = GGML_ON_HOST;
    g->split_copies = false;
    g->tensor[GGML_STREAM] = g->embeddings;
    g->tensor[GGML_CARRIED] = (ggml_tensor){.outside = GGML_OUTSIDE};
    for (int i = 0; i < g->inputs_used; i++) g->tensor[g->input_order[i]].at[GGML_ON_GPU].waiting = true;
    allocate_on_host(g);
}
