/* op_elements.c -- views and casts, and what runs element by element or row by row: sums, products, norms, softmax. */
#include "pen.h"

#include <stddef.h>

/* --------------------------------------------------------------------------------------------------- casts and views -- */

vram_cell pen_plain(vram_tape *t, vram_cell x, vram_size size, int width, vram_what what, int how)
{
    vram_tape_op *op = pen_begin_1(t, x);
    if (how & SAVES_INPUT) pen_save(t, op, x);
    vram_cell y = how & VIEWS ? pen_output_view(t, op, x, size, what) : pen_output(t, op, size, width, what);
    pen_backward(t, op);
    if (op->grad && (how & PASSES)) pen_pass(t, 0);
    else if (op->grad) pen_give(t, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
    return y;
}

vram_cell vram_op_cast(vram_tape *t, vram_cell x, int width, vram_what what)
{
    return vram_width(t, x) == width ? x : pen_plain(t, x, t->cell[x].shape, width, what, 0);
}

/* Autocast keeps the cast of a trained fp32 parameter until the pass ends. */
vram_cell pen_autocast(vram_tape *t, vram_cell x, vram_what what)
{
    if (x < 0 || !t->autocast || vram_width(t, x) == 2) return x;
    vram_cell y = vram_op_cast(t, x, 2, what);
    if (t->cell[x].parameter || t->cell[x].tied) {
        t->cell[y].cached = t->keeps_casts && (t->cell[x].grad || t->caches);
        t->cell[y].component = VRAM_COMPONENT_WORKSPACE;
        t->cell[y].repeated = t->cell[x].repeated;
    }
    return y;
}

vram_cell vram_op_autocast(vram_tape *t, vram_cell weight) { return pen_autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS); }
vram_cell vram_op_slice(vram_tape *t, vram_cell x, vram_size part, vram_what what) { return pen_plain(t, x, part, vram_width(t, x), what, VIEWS); }

void vram_op_split(vram_tape *t, vram_cell x, int parts, const vram_size size[], vram_cell out[])
{
    vram_tape_op *op = pen_begin_1(t, x);
    for (int i = 0; i < parts; i++) out[i] = pen_output_view(t, op, x, size[i], (vram_what)t->cell[x].what);
    pen_backward(t, op);
    if (op->grad) pen_give(t, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
}

vram_cell vram_op_transposed(vram_tape *t, vram_cell x) { return vram_op_slice(t, x, t->cell[x].shape, (vram_what)t->cell[x].what); }
vram_cell vram_op_copy(vram_tape *t, vram_cell x, vram_size size, vram_what what) { return pen_plain(t, x, size, vram_width(t, x), what, PASSES); }

vram_cell vram_op_join_all(vram_tape *t, int ins, const vram_cell in[], vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin(t, ins, in);
    int width = 0;
    for (int k = 0; k < ins; k++)
        if (in[k] >= 0 && vram_width(t, in[k]) > width) width = vram_width(t, in[k]);
    vram_cell y = pen_output(t, op, out, width, what);
    pen_backward(t, op);
    for (int k = 0; k < ins; k++)
        if (pen_wants(t, op, k)) pen_pass(t, k);
    pen_end(t, op);
    return y;
}

vram_cell vram_op_join(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what) { return vram_op_join_all(t, 2, (const vram_cell[]){a, b}, out, what); }

/* Both parts copied into one empty tensor, b spread on the way. Backward, each copy clones the whole gradient and its part of it (CopySlices). */
vram_cell vram_op_join_copies(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, a, b);
    vram_cell y = pen_output(t, op, out, pen_widest(t, a, b), what);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell clone = pen_gradient_like(t, y, vram_width(t, y));
        pen_make(t, clone);
        for (int k = 1; k >= 0; k--)
            if (pen_wants(t, op, k)) pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, op->in[k])));
        pen_drop(t, clone);
    }
    pen_end(t, op);
    return y;
}

void vram_op_standing(vram_tape *t, vram_size size, int width)
{
    vram_tape_op *op = pen_begin(t, 0, NULL);
    op->grad = op->root = true;
    pen_backward(t, op);
    pen_make(t, pen_cell(t, size, width, VRAM_WHAT_ACTIVATION_GRADIENT));
    pen_end(t, op);
}

/* What stands only where autograd saves: of a graph that nobody goes back through */
vram_cell vram_op_kept(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_tape_op *op = pen_begin(t, 0, NULL);
    vram_cell y = pen_cell(t, size, width, what);
    pen_step(t, VRAM_STEP_MAKE_SAVED, 0, y);
    pen_backward(t, op);
    pen_end(t, op);
    return y;
}

/* ------------------------------------------------------------------------------------------------ element by element -- */

vram_cell vram_op_add(vram_tape *t, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, a, b);
    int width = pen_widest(t, a, b);
    vram_cell y = pen_output(t, op, t->cell[a].shape, width, what);
    pen_backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        bool spread = t->cell[op->in[k]].parameter && t->cell[op->in[k]].shape != t->cell[y].shape;
        if (vram_width(t, op->in[k]) == width && !spread) { pen_pass(t, k); continue; }
        vram_cell g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        pen_make(t, g);
        pen_give(t, k, g);
    }
    pen_end(t, op);
    return y;
}

/* A sum that is written over a part of a: the whole gradient is cloned, that of b summed. */
vram_cell vram_op_add_in_place(vram_tape *t, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, a, b);
    bool whole = t->cell[a].shape == t->cell[b].shape;
    vram_cell y = pen_output_view(t, op, a, t->cell[a].shape, what);
    pen_backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        if (whole) pen_pass(t, k);
        else pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    }
    pen_end(t, op);
    return y;
}

/* Gradients of a product, or of a sum, of tensors of several types and sizes: each is made as large and as wide as the result, the second first;
 * only then, the first first, are they summed and cast. */
static void spread_gradients(vram_tape *t, const vram_tape_op *op, vram_size size, int width, vram_cell rows)
{
    vram_cell whole[2] = {VRAM_NO_CELL, VRAM_NO_CELL}, g;
    for (int k = op->ins - 1; k >= 0; k--) {
        if (!pen_wants(t, op, k)) continue;
        whole[k] = pen_gradient_like(t, op->in[k], width);
        if (t->cell[op->in[k]].shape != size) whole[k] = pen_gradient_like(t, rows, width);
        pen_make(t, whole[k]);
    }
    pen_step(t, VRAM_STEP_UNSAVE, 0, VRAM_NO_CELL);
    for (int k = 0; k < op->ins; k++) {
        if (whole[k] < 0) continue;
        bool sums = t->cell[op->in[k]].shape != size;
        if (!sums && vram_width(t, op->in[k]) == width) { pen_give(t, k, whole[k]); continue; }
        pen_make(t, g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k])));
        if (sums && t->cell[op->in[k]].parameter) pen_staging(t, rows, g);
        pen_drop(t, whole[k]);
        pen_give(t, k, g);
    }
}

static vram_cell multiplied(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, a, b);
    int width = pen_widest(t, a, b);
    if (pen_wants(t, op, 1)) pen_save(t, op, a);
    if (pen_wants(t, op, 0)) pen_save(t, op, b);
    vram_cell y = pen_output(t, op, out, width, what);
    pen_backward(t, op);
    if (op->grad) spread_gradients(t, op, out, width, y);
    pen_end(t, op);
    return y;
}

vram_cell vram_op_mul(vram_tape *t, vram_cell a, vram_cell b, vram_what what) { return multiplied(t, a, b, t->cell[a].shape, what); }
vram_cell vram_op_mul_wide(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what) { return multiplied(t, a, b, out, what); }
vram_cell vram_op_mul_rows(vram_tape *t, vram_cell x, vram_cell rows, vram_what what) { return multiplied(t, x, rows, t->cell[x].shape, what); }
vram_cell vram_op_mul_weight(vram_tape *t, vram_cell weight, vram_cell x, vram_what what) { return multiplied(t, weight, x, t->cell[x].shape, what); }

vram_cell vram_op_constant(vram_tape *t, vram_cell x, int width, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    int wide = width > vram_width(t, x) ? width : vram_width(t, x);
    vram_cell y = pen_output(t, op, t->cell[x].shape, wide, what);
    pen_backward(t, op);
    if (op->grad) spread_gradients(t, op, t->cell[x].shape, wide, y);
    pen_end(t, op);
    return y;
}

vram_cell vram_op_masked(vram_tape *t, vram_cell x, int width, vram_what what)
{
    return pen_plain(t, x, t->cell[x].shape, width > vram_width(t, x) ? width : vram_width(t, x), what, width > vram_width(t, x) ? 0 : PASSES);
}

vram_cell vram_op_shift(vram_tape *t, vram_cell x, vram_what what) { return pen_plain(t, x, t->cell[x].shape, vram_width(t, x), what, PASSES); }
vram_cell vram_op_gather(vram_tape *t, vram_cell x, vram_size out, vram_what what) { return pen_plain(t, x, out, vram_width(t, x), what, 0); }

vram_cell vram_op_unary(vram_tape *t, vram_cell x, bool saves_input, bool saves_output, int temporaries, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    if (saves_input) pen_save(t, op, x);
    vram_cell y = pen_output(t, op, t->cell[x].shape, vram_width(t, x), what);
    if (saves_output) pen_save_output(t, op, y);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell extra[4];
        for (int i = 0; i < temporaries; i++) pen_make(t, extra[i] = pen_gradient_like(t, x, vram_width(t, x)));
        vram_cell g = pen_make_gradient(t, x, vram_width(t, x));
        for (int i = temporaries - 1; i >= 0; i--) pen_drop(t, extra[i]);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}

/* Saves the condition, a byte an element. */
vram_cell vram_op_where(vram_tape *t, vram_cell condition, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = pen_begin_3(t, a, b, condition);
    pen_save(t, op, condition);
    vram_cell y = pen_output(t, op, t->cell[a].shape, pen_widest(t, a, b), what);
    pen_backward(t, op);
    for (int k = 1; k >= 0; k--)
        if (pen_wants(t, op, k)) pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, y)));
    pen_end(t, op);
    return y;
}

/* x^2 : g * (2 * x^1), each a tensor */
vram_cell vram_op_square(vram_tape *t, vram_cell x) { return vram_op_unary(t, x, true, false, 2, VRAM_WHAT_NORM_SQUARES); }

vram_cell vram_op_rsqrt(vram_tape *t, vram_cell x) { return vram_op_unary(t, x, false, true, 2, VRAM_WHAT_NORM_STATISTICS); }
vram_cell vram_op_mean(vram_tape *t, vram_cell x, vram_size rows) { return pen_plain(t, x, rows, vram_width(t, x), VRAM_WHAT_NORM_STATISTICS, 0); }

/* -------------------------------------------------------------------------------- norms, softmax, dropout, embedding -- */

/* Saves x and two numbers a row in fp32. */
vram_cell vram_op_layer_norm(vram_tape *t, vram_cell input, vram_cell weight, vram_cell bias, vram_size rows, vram_what what)
{
    vram_cell x = t->autocast ? vram_op_cast(t, input, 4, VRAM_WHAT_NORM_INPUT) : input; /* autocast runs it in fp32 */
    vram_tape_op *op = pen_begin_3(t, x, weight, bias);
    pen_save(t, op, x);
    vram_cell y = pen_output(t, op, t->cell[x].shape, vram_width(t, x), what);
    vram_cell mean = pen_cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS), deviation = pen_cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS);
    pen_make(t, mean);
    pen_make(t, deviation);
    pen_save_output(t, op, mean);
    pen_save_output(t, op, deviation);
    pen_backward(t, op);
    for (int k = 0; k < 3; k++)
        if (pen_wants(t, op, k)) pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    pen_end(t, op);
    return y;
}

/* The result is what its gradient needs; g * y is made on the way. */
vram_cell vram_op_softmax(vram_tape *t, vram_cell x, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell y = pen_output(t, op, t->cell[x].shape, vram_width(t, x), what);
    pen_save_output(t, op, y);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell g = pen_make_gradient(t, x, vram_width(t, x)), product = pen_gradient_like(t, x, vram_width(t, x));
        pen_make(t, product);
        pen_drop(t, product);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}

/* A mask of one byte an element. */
vram_cell vram_op_dropout(vram_tape *t, vram_cell x, double p, vram_what what)
{
    if (p <= 0) return x;
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell mask = pen_cell(t, t->cell[x].shape, 1, VRAM_WHAT_DROPOUT_MASK);
    pen_make(t, mask);
    vram_cell y = pen_output(t, op, t->cell[x].shape, vram_width(t, x), what);
    pen_save_output(t, op, mask);
    pen_backward(t, op);
    if (op->grad) pen_give(t, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
    return y;
}

vram_cell vram_op_embedding(vram_tape *t, vram_cell weight, double whole, vram_size out, int width, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, weight);
    vram_cell y = pen_output(t, op, out, width, what);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell table = whole > 0 ? pen_scratch(t, pen_bytes_size(t, whole), 1, VRAM_WHAT_UNREDUCED) : VRAM_NO_CELL;
        if (whole > 0) pen_make(t, table);
        else table = pen_make_gradient(t, weight, vram_width(t, weight));
        pen_step(t, VRAM_STEP_GIVE_VIEW, 0, table); /* never added into */
    }
    pen_end(t, op);
    return y;
}

/* --------------------------------------------------------------------------------------------------- Liger's kernels -- */

/* Saves x and one number a row. The gradient of x takes the place of that of the output; the weight's is summed by 108 multiprocessors apart.
 * Source: liger_kernel/ops/rms_norm.py */
vram_cell vram_op_fused_norm(vram_tape *t, vram_cell x, vram_cell weight, vram_size rows, bool in_place, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, x, weight);
    double width = t->shape[t->cell[weight].shape].elements;
    pen_save(t, op, x);
    vram_cell y = pen_output(t, op, t->cell[x].shape, vram_width(t, x), what), scale = pen_cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS);
    pen_make(t, scale);
    pen_save_output(t, op, scale);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell parts = pen_scratch(t, pen_bytes_size(t, 108 * width * 4), 1, VRAM_WHAT_REDUCTION_BUFFER);
        pen_make(t, parts);
        if (in_place && pen_wants(t, op, 0)) pen_step(t, VRAM_STEP_PASS_VIEW, 0, VRAM_NO_CELL);
        else if (pen_wants(t, op, 0)) pen_step(t, VRAM_STEP_GIVE_VIEW, 0, pen_make_gradient(t, x, vram_width(t, x)));
        if (pen_wants(t, op, 1)) pen_give(t, 1, pen_make_gradient(t, weight, vram_width(t, weight)));
        pen_drop(t, parts);
    }
    pen_end(t, op);
    return y;
}

/* act(gate) * up: saves both, and writes their gradients over them. Source: liger_kernel/ops/swiglu.py, geglu.py */
vram_cell vram_op_fused_gate(vram_tape *t, vram_cell gate, vram_cell up, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, gate, up);
    pen_save(t, op, gate);
    pen_save(t, op, up);
    vram_cell y = pen_output(t, op, t->cell[gate].shape, vram_width(t, gate), what);
    pen_backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        vram_cell g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        pen_drop(t, t->cell[op->in[k]].base);
        pen_make(t, g);
        pen_give(t, k, g);
    }
    pen_end(t, op);
    return y;
}

vram_cell vram_op_in_place(vram_tape *t, vram_cell x, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell y = pen_output_view(t, op, x, t->cell[x].shape, what);
    pen_backward(t, op);
    if (op->grad) pen_pass(t, 0);
    pen_end(t, op);
    return y;
}
