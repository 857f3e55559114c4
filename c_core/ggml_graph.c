/* ggml_graph.c -- the replay of ggml's graph allocator. Source: ggml/src/ggml-alloc.c, ggml_dyn_tallocr and ggml_gallocr_alloc_graph_impl. */
#include "ggml_graph.h"

#include <stddef.h>

static const double alignment = 128; /* of CUDA's buffers */

ggml_shape ggml_typed(double bytes_each, double width, double rows, double more)
{
    return (ggml_shape){{width, rows, more}, bytes_each, bytes_each * width * rows * more};
}

ggml_shape ggml_f32(double width, double rows, double more) { return ggml_typed(4, width, rows, more); }

/* ------------------------------------------------------------------------------------------------------------ holes -- */

static void remove_hole(ggml_graph *g, int at)
{
    for (int i = at; i + 1 < g->holes; i++) g->hole[i] = g->hole[i + 1];
    g->holes--;
}

static void insert_hole(ggml_graph *g, double offset, double bytes)
{
    int at = 0;
    if (g->holes == GGML_MAX_HOLES) {
        g->failed = true;
        return;
    }
    while (at < g->holes && g->hole[at].offset < offset) at++;
    for (int i = g->holes; i > at; i--) g->hole[i] = g->hole[i - 1];
    g->hole[at] = (ggml_hole){offset, bytes};
    g->holes++;
}

/* The smallest hole that is large enough, of equal ones the last; the endless one behind everything only if none is. */
static double take(ggml_graph *g, double bytes)
{
    int best = g->holes - 1;
    double smallest = -1;
    for (int i = 0; i < g->holes - 1; i++) {
        if (g->hole[i].bytes < bytes || (smallest >= 0 && g->hole[i].bytes > smallest)) continue;
        best = i;
        smallest = g->hole[i].bytes;
    }
    double offset = g->hole[best].offset;
    g->hole[best].offset += bytes;
    g->hole[best].bytes -= bytes;
    if (g->hole[best].bytes == 0) remove_hole(g, best);
    g->high = vram_max(g->high, offset + bytes);
    return offset;
}

/* Grows the first hole that ends where the room starts, or starts where it ends, and joins it with that hole's other neighbour; else a new
 * hole. (A tensor of no bytes can leave an empty hole, at which two others then touch without being joined: as in ggml.) */
static void give_back(ggml_graph *g, double offset, double bytes)
{
    for (int i = 0; i < g->holes; i++) {
        ggml_hole *h = &g->hole[i];
        if (h->offset + h->bytes == offset) {
            h->bytes += bytes;
            if (i + 1 < g->holes && h->offset + h->bytes == h[1].offset) {
                h->bytes += h[1].bytes;
                remove_hole(g, i + 1);
            }
            return;
        }
        if (offset + bytes == h->offset) {
            h->offset = offset;
            h->bytes += bytes;
            if (i > 0 && h[-1].offset + h[-1].bytes == offset) {
                h[-1].bytes += h->bytes;
                remove_hole(g, i);
            }
            return;
        }
    }
    insert_hole(g, offset, bytes);
}

/* ---------------------------------------------------------------------------------------------------------- tensors -- */

/* What is alive, by tag: called when the buffer has grown */
static void account(ggml_graph *g)
{
    for (int i = 0; i < VRAM_WHAT_COUNT; i++) g->at_high[i] = 0;
    for (int i = 0; i < g->tensors; i++)
        if (g->tensor[i].allocated) g->at_high[g->tensor[i].tag] += vram_round_up(g->tensor[i].of.bytes, alignment);
}

static void allocate(ggml_graph *g, ggml_tensor *t)
{
    double before = g->high;
    t->offset = take(g, vram_round_up(t->of.bytes, alignment));
    t->allocated = true;
    if (g->high > before) account(g);
}

static void allocate_input(ggml_graph *g, int id)
{
    allocate(g, &g->tensor[id]);
    g->tensor[id].waiting = false;
}

static void release(ggml_graph *g, ggml_tensor *t)
{
    if (!t->allocated || t->output) return;
    give_back(g, t->offset, vram_round_up(t->of.bytes, alignment));
    t->allocated = false;
}

static bool same_layout(const ggml_shape *a, const ggml_shape *b)
{
    return a->number_bytes == b->number_bytes && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1] && a->shape[2] == b->shape[2];
}

/* The result takes over the first source of the same layout that only this operation still reads; spare room at its end is freed. */
static bool take_over(ggml_graph *g, const ggml_op *op)
{
    ggml_tensor *result = &g->tensor[op->result];
    for (int i = 0; i < op->sources; i++) {
        if (op->source[i] < 0 || op->source[i] & GGML_VIEW) continue;
        ggml_tensor *parent = &g->tensor[op->source[i]];
        if (!parent->allocated || parent->output || parent->readers != 1 || !same_layout(&result->of, &parent->of)) continue;
        double was = vram_round_up(parent->of.bytes, alignment), is = vram_round_up(result->of.bytes, alignment);
        result->offset = parent->offset;
        result->allocated = true;
        parent->allocated = false;
        if (was > is) give_back(g, parent->offset + is, was - is);
        return true;
    }
    return false;
}

/* Inputs that the operations up to the next copy are the first to read. False: there are none. */
static bool allocate_read(ggml_graph *g, int from)
{
    bool any = false;
    for (int i = from; i < g->ops && !g->op[i].copy && !(i > from && g->op[i].splits); i++)
        for (int j = 0; j < g->op[i].sources; j++) {
            int id = g->op[i].source[j] < 0 ? GGML_NONE : g->op[i].source[j] & ~GGML_VIEW;
            if (id < 0 || id >= GGML_MAX_INPUTS || !g->tensor[id].waiting) continue;
            allocate_input(g, id);
            any = true;
        }
    return any;
}

/* The next copy, unless another split comes first, is made now. */
static void copy_ahead(ggml_graph *g, int from)
{
    for (int i = from + 1; i < g->ops && !g->op[i].splits && !g->op[i].elsewhere; i++) {
        if (!g->op[i].copy) continue;
        allocate(g, &g->tensor[g->op[i].result]);
        g->op[i].result = GGML_NONE;
        return;
    }
}

static void run_op(ggml_graph *g, const ggml_op *op)
{
    if (op->leaf) {
        g->tensor[op->result].allocated = true;
        return;
    }
    if (op->result >= 0 && !(op->in_place && take_over(g, op))) allocate(g, &g->tensor[op->result]);
    for (int i = 0; i < op->sources; i++) {
        if (op->source[i] < 0) continue;
        ggml_tensor *source = &g->tensor[op->source[i] & ~GGML_VIEW];
        if (--source->readers == 0) release(g, source);
    }
}

/* ------------------------------------------------------------------------------------------------------------ graph -- */

void ggml_graph_start(ggml_graph *g)
{
    g->counting = true;
    g->failed = false;
    g->inputs_used = g->ops = 0;
    g->tensors = GGML_MAX_INPUTS;
    g->holes = 1;
    g->hole[0] = (ggml_hole){0, 9007199254740992.0}; /* 2^53: endless */
    g->high = 0;
    for (int i = 0; i < VRAM_WHAT_COUNT; i++) g->at_high[i] = 0;
    for (int i = 0; i < GGML_MAX_INPUTS; i++) g->tensor[i] = (ggml_tensor){.readers = 0};
}

void ggml_graph_input(ggml_graph *g, int input, ggml_shape shape)
{
    g->tensor[input].of = shape;
    g->tensor[input].tag = g->tag;
    if (input == GGML_STREAM) g->embeddings = shape;
}

/* Readers of inputs are counted in the first pass, those of a layer's own tensors and of the stream while the layer is described. */
static void read(ggml_graph *g, ggml_op *op, int source)
{
    op->source[op->sources++] = source;
    if (source < 0) return;
    int id = source & ~GGML_VIEW;
    ggml_tensor *t = &g->tensor[id];
    bool input = id < GGML_MAX_INPUTS;
    if (input && id != GGML_CARRIED && g->counting && !t->met) g->input_order[g->inputs_used++] = id;
    t->met = true;
    if (!input || id <= GGML_CARRIED || g->counting) t->readers++;
}

static ggml_op *next_op(ggml_graph *g, int sources, const int source[])
{
    ggml_op *op = &g->op[g->ops];
    if (g->ops + 1 < GGML_MAX_OPS) g->ops++;
    else g->failed = true;
    *op = (ggml_op){.result = GGML_NONE};
    if (sources > GGML_MAX_SOURCES) g->failed = true;
    for (int i = 0; i < sources && i < GGML_MAX_SOURCES; i++) read(g, op, source[i]);
    return op;
}

int ggml_graph_op(ggml_graph *g, bool in_place, ggml_shape shape, int sources, const int source[])
{
    ggml_op *op = next_op(g, sources, source);
    op->in_place = in_place;
    op->result = g->tensors;
    g->tensor[g->tensors] = (ggml_tensor){.of = shape, .tag = g->tag};
    if (g->tensors + 1 < GGML_MAX_TENSORS) g->tensors++;
    else g->failed = true;
    return op->result;
}

int ggml_graph_copy(ggml_graph *g, double bytes)
{
    int result = ggml_graph_op(g, false, ggml_typed(1, bytes, 1, 1), 0, NULL);
    g->op[g->ops - 1].copy = true;
    return result;
}

void ggml_graph_leaves(ggml_graph *g, double bytes)
{
    if (bytes > 0) take(g, bytes);
}

int ggml_graph_leaf(ggml_graph *g, ggml_shape shape, double offset)
{
    int result = ggml_graph_op(g, false, shape, 0, NULL);
    g->op[g->ops - 1].leaf = true;
    g->tensor[result].offset = offset;
    return result;
}

void ggml_graph_split(ggml_graph *g) { g->op[g->ops - 1].splits = true; }

void ggml_graph_elsewhere(ggml_graph *g) { g->op[g->ops - 1].elsewhere = true; }

void ggml_graph_use(ggml_graph *g, int sources, const int source[]) { next_op(g, sources, source); }

static void carry(ggml_graph *g, int tensor, int slot)
{
    if (tensor < 0) return;
    g->tensor[slot] = g->tensor[tensor];
    g->tensor[slot].readers = 0;
    g->tensor[slot].met = true;
}

/* The first operation behind the layer's last copy: its split holds all that follows. */
static int last_split(const ggml_graph *g)
{
    int at = g->ops;
    while (at > 0 && !g->op[at - 1].copy) at--;
    return at;
}

void ggml_graph_allocate_inputs(ggml_graph *g)
{
    for (int i = 0; i < g->inputs_used && !g->counting; i++)
        if (g->tensor[g->input_order[i]].waiting) allocate_input(g, g->input_order[i]);
}

void ggml_graph_run(ggml_graph *g, int stream, int carried)
{
    /* the next layer's readings are not counted yet */
    if (stream >= 0) g->tensor[stream].readers++;
    if (carried >= 0) g->tensor[carried].readers++;
    int start = g->last_split ? last_split(g) : GGML_NONE;
    for (int i = 0; i < g->ops && !g->counting; i++) {
        bool first = i == 0 || g->op[i - 1].copy || g->op[i].splits;
        bool inputs = !g->op[i].copy && first && allocate_read(g, i);
        if (g->op[i].splits && !inputs) copy_ahead(g, i);
        if (i == start) ggml_graph_allocate_inputs(g);
        run_op(g, &g->op[i]);
    }
    carry(g, stream, GGML_STREAM);
    carry(g, carried, GGML_CARRIED);
    g->ops = 0;
    g->tensors = GGML_MAX_INPUTS;
}

void ggml_graph_second_pass(ggml_graph *g)
{
    g->counting = false;
    g->tensor[GGML_STREAM] = (ggml_tensor){.of = g->embeddings, .met = true, .tag = g->tensor[GGML_STREAM].tag};
    for (int i = 0; i < g->inputs_used; i++) g->tensor[g->input_order[i]].waiting = true;
}
