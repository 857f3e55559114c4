/* tape.c -- a tape's lists, and the pen that writes one op after the other on them. */
#include "pen.h"

/* --------------------------------------------------------------------------------------------------------- the lists -- */

void vram_tape_clear(vram_tape *t, bool autocast, double workspace)
{
    t->autocast = autocast;
    t->caches = false;
    t->keeps_casts = true;
    t->update = (vram_tape_update){.at_once = false};
    t->gradient_share = 1;
    t->offloads = true;
    t->no_grad = false;
    t->workspace = workspace;
    t->biased_workspace = 1048576; /* cublasLt's own, for products with a bias */
    t->shapes = t->cells = t->ops = t->steps = 0;
    t->full = t->named = t->lasting = t->repeating = false;
    t->mark = t->leave = -1;
    t->input = t->output = t->returned = t->aside = t->shared[0] = t->shared[1] = VRAM_NO_CELL;
}

static bool same_factors(const vram_tape_shape *shape, int factors, const vram_factor factor[])
{
    bool same = shape->factors == factors;
    for (int i = 0; same && i < factors; i++) same = shape->factor[i].symbol == factor[i].symbol && shape->factor[i].value == factor[i].value;
    return same;
}

vram_size vram_tape_size(vram_tape *t, int factors, const vram_factor factor[])
{
    for (int i = 0; i < t->shapes; i++)
        if (same_factors(&t->shape[i], factors, factor)) return (vram_size)i;
    int place = t->shapes < VRAM_TAPE_SHAPES ? t->shapes++ : VRAM_TAPE_SHAPES - 1;
    if (t->shapes >= VRAM_TAPE_SHAPES) t->full = true;
    vram_tape_shape *shape = &t->shape[place];
    shape->factors = factors;
    shape->elements = 1;
    for (int i = 0; i < factors; i++) {
        shape->factor[i] = factor[i];
        shape->elements *= factor[i].value;
    }
    return (vram_size)place;
}

vram_cell pen_cell(vram_tape *t, vram_size size, int width, vram_what what)
{
    if (t->cells >= VRAM_TAPE_CELLS - 64) t->full = true; /* the replay makes a few more: sums of gradients */
    vram_cell place = (vram_cell)(t->full ? VRAM_TAPE_CELLS - 65 : t->cells++);
    double bytes = t->shape[size].elements * width;
    t->cell[place] = (vram_tape_cell){.bytes = bytes, .block = vram_block_bytes(bytes), .shape = size, .base = place, .first_use = -1, .last_use = (short)(t->ops - 1), .what = (short)what,
                                      .component = VRAM_COMPONENT_ACTIVATIONS, .width = (unsigned char)width};
    if (what == VRAM_WHAT_LOGITS || what == VRAM_WHAT_LOGITS_FP32 || what == VRAM_WHAT_LOG_PROBABILITIES) t->cell[place].component = VRAM_COMPONENT_LOGITS;
    return place;
}

vram_cell pen_scratch(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_cell c = pen_cell(t, size, width, what);
    t->cell[c].component = VRAM_COMPONENT_WORKSPACE;
    return c;
}

vram_size pen_bytes_size(vram_tape *t, double bytes) { return vram_tape_size(t, 1, (const vram_factor[]){{VRAM_SYMBOL_BYTES, bytes}}); }

vram_cell vram_tape_input(vram_tape *t, vram_size size, int width, vram_what what, bool grad)
{
    t->input = pen_cell(t, size, width, what);
    t->cell[t->input].grad = grad;
    return t->input;
}

vram_cell vram_tape_outside(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_cell c = pen_cell(t, size, width, what);
    t->cell[c].outside = true;
    return c;
}

vram_cell vram_tape_parameter(vram_tape *t, vram_size size, int width, bool trained)
{
    vram_cell c = vram_tape_outside(t, size, width, VRAM_WHAT_TRAINABLE);
    t->cell[c].parameter = true;
    t->cell[c].grad = trained;
    t->cell[c].repeated = t->repeating;
    return c;
}

vram_cell vram_tape_tied(vram_tape *t, vram_size size, int width, bool trained)
{
    vram_cell c = vram_tape_parameter(t, size, width, trained);
    t->cell[c].parameter = false;
    t->cell[c].tied = true;
    return c;
}

void vram_tape_hold(vram_tape *t, vram_cell x)
{
    if (x >= 0) t->cell[t->cell[x].base].last_use = (short)(t->ops - 1);
}

void vram_tape_mark(vram_tape *t) { t->mark = t->ops; }
void vram_tape_leave(vram_tape *t) { t->leave = t->ops; }

/* ---------------------------------------------------------------------------------------------- one op under the pen -- */

void pen_step(vram_tape *t, vram_step_code code, int input, vram_cell c)
{
    if (t->steps >= VRAM_TAPE_STEPS) { t->full = true; return; }
    t->step[t->steps++] = (vram_tape_step){(unsigned char)code, (unsigned char)input, c};
}

vram_tape_op *pen_begin(vram_tape *t, int ins, const vram_cell in[])
{
    if (t->ops >= VRAM_TAPE_OPS) { t->full = true; t->ops--; }
    vram_tape_op *op = &t->op[t->ops++];
    *op = (vram_tape_op){.forward = (short)t->steps, .backward = (short)t->steps, .end = (short)t->steps, .ins = (unsigned char)ins, .offloads = t->offloads};
    for (int i = 0; i < ins; i++) {
        op->in[i] = in[i];
        if (in[i] < 0) continue;
        vram_tape_hold(t, in[i]);
        if (t->cell[in[i]].first_use < 0) t->cell[in[i]].first_use = (short)(t->ops - 1);
        op->grad |= t->cell[in[i]].grad && !t->no_grad;
    }
    return op;
}

vram_tape_op *pen_begin_1(vram_tape *t, vram_cell a) { return pen_begin(t, 1, (const vram_cell[]){a}); }
vram_tape_op *pen_begin_2(vram_tape *t, vram_cell a, vram_cell b) { return pen_begin(t, 2, (const vram_cell[]){a, b}); }
vram_tape_op *pen_begin_3(vram_tape *t, vram_cell a, vram_cell b, vram_cell c) { return pen_begin(t, 3, (const vram_cell[]){a, b, c}); }
bool pen_wants(const vram_tape *t, const vram_tape_op *op, int k) { return op->in[k] >= 0 && t->cell[op->in[k]].grad; }
void pen_make(vram_tape *t, vram_cell c) { pen_step(t, VRAM_STEP_MAKE, 0, c); }
void pen_drop(vram_tape *t, vram_cell c) { pen_step(t, VRAM_STEP_FREE, 0, c); }
void pen_give(vram_tape *t, int k, vram_cell c) { pen_step(t, VRAM_STEP_GIVE, k, c); }
void pen_pass(vram_tape *t, int k) { pen_step(t, VRAM_STEP_PASS, k, VRAM_NO_CELL); }

vram_cell pen_output(vram_tape *t, vram_tape_op *op, vram_size size, int width, vram_what what)
{
    vram_cell y = pen_cell(t, size, width, what);
    t->cell[y].grad = op->grad;
    op->out[op->outs++] = y;
    pen_make(t, y);
    return y;
}

vram_cell pen_output_view(vram_tape *t, vram_tape_op *op, vram_cell x, vram_size size, vram_what what)
{
    vram_cell y = pen_cell(t, size, vram_width(t, x), what);
    t->cell[y].base = t->cell[x].base;
    t->cell[y].grad = op->grad;
    op->out[op->outs++] = y;
    return y;
}

void pen_save(vram_tape *t, vram_tape_op *op, vram_cell x)
{
    if (op->grad && t->cell[t->cell[x].base].outside) op->others++;
    if (!op->grad || t->cell[t->cell[x].base].outside || op->saves >= VRAM_TAPE_SAVES) return;
    op->saved[op->saves++] = t->cell[x].base;
}

void pen_save_output(vram_tape *t, vram_tape_op *op, vram_cell y)
{
    pen_save(t, op, y);
    op->saves_output = true;
}

void pen_backward(vram_tape *t, vram_tape_op *op) { op->backward = (short)t->steps; }
void pen_end(vram_tape *t, vram_tape_op *op) { op->end = (short)t->steps; }

void pen_workspace(vram_tape *t, double bytes)
{
    vram_cell c = pen_scratch(t, pen_bytes_size(t, bytes), 1, VRAM_WHAT_CUBLAS_WORKSPACE);
    pen_make(t, c);
    pen_drop(t, c);
}

/* Gradients of activations count as activations; those of parameters as gradients. */
vram_cell pen_gradient_like(vram_tape *t, vram_cell x, int width)
{
    vram_cell g = pen_cell(t, t->cell[x].shape, width, VRAM_WHAT_ACTIVATION_GRADIENT);
    if (t->cell[x].component == VRAM_COMPONENT_LOGITS) t->cell[g].component = VRAM_COMPONENT_LOGITS;
    if (t->cell[x].parameter || t->cell[x].tied) {
        t->cell[g].component = VRAM_COMPONENT_GRADIENTS;
        t->cell[g].what = t->cell[x].tied ? VRAM_WHAT_TIED_GRADIENT : VRAM_WHAT_TRAINABLE;
        if (t->cell[x].parameter) t->cell[g].block = floor(t->cell[g].block * t->gradient_share);
    }
    return g;
}

/* A gradient computed in `width` bytes and handed on in the type of the input. */
vram_cell pen_make_gradient(vram_tape *t, vram_cell x, int width)
{
    vram_cell g = pen_gradient_like(t, x, vram_width(t, x));
    if (width == vram_width(t, x)) {
        pen_make(t, g);
        return g;
    }
    vram_cell wide = pen_gradient_like(t, x, width);
    pen_make(t, wide);
    pen_make(t, g);
    pen_drop(t, wide);
    return g;
}

int pen_widest(const vram_tape *t, vram_cell a, vram_cell b) { return vram_width(t, a) > vram_width(t, b) ? vram_width(t, a) : vram_width(t, b); }

/* Summing the rows of a matrix: partial sums of many thread blocks meet in a buffer. Blocks are 128 threads, `across` columns times
 * 4 a thread wide; a column is split when a thread would sum 256 rows or more, up to what fills 108 multiprocessors with 2048 threads
 * each. Source: aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig, global_memory_size) */
void pen_staging(vram_tape *t, vram_cell matrix, vram_cell sum)
{
    double columns = t->shape[t->cell[sum].shape].elements, rows = t->shape[t->cell[matrix].shape].elements / columns, across = 32;
    while (across > columns / 4) across /= 2;
    if (across < 1) return;
    double values = vram_ceil_div(rows, 128 / across), grid = vram_ceil_div(columns, 4 * across), full = 108 * 16;
    if (values < 256 || grid > full) return;
    double blocks = vram_max(vram_min(vram_ceil_div(full, grid), vram_ceil_div(values, 16)), vram_ceil_div(values, 256));
    vram_cell c = pen_scratch(t, pen_bytes_size(t, 4 * columns * blocks * 4 * across), 1, VRAM_WHAT_REDUCTION_BUFFER);
    pen_make(t, c);
    pen_drop(t, c);
}
