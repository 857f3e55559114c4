/* op_scan.c -- operations of state-space mixers. */
#include "pen.h"

/* The kernel wants its input in one piece: a copy for as long as it runs, in backward too. Saves x and the weight.
 * Source: aten/src/ATen/native/cuda/DepthwiseConv2d.cu */
vram_cell vram_op_convolution(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what)
{
    vram_cell b = pen_autocast(t, bias, VRAM_WHAT_AUTOCAST_WEIGHTS), w = pen_autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS), in = pen_autocast(t, x, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = pen_begin_3(t, in, w, b);
    pen_save(t, op, in);
    vram_cell copy = pen_scratch(t, t->cell[in].shape, vram_width(t, in), what);
    pen_make(t, copy);
    vram_cell y = pen_output(t, op, out, vram_width(t, in), what);
    pen_drop(t, copy);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell again = pen_scratch(t, t->cell[in].shape, vram_width(t, in), what);
        pen_make(t, again);
        for (int k = 0; k < 3; k++)
            if (pen_wants(t, op, k)) pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, op->in[k])));
        pen_drop(t, again);
    }
    pen_end(t, op);
    return y;
}

/* torch.linalg.solve_triangular: saves the matrix and the solution. Backward solves with the right side's gradient, and multiplies for the
 * matrix's. Source: torch/csrc/autograd/FunctionsManual.cpp (linalg_solve_triangular_backward) */
vram_cell vram_op_solve(vram_tape *t, vram_cell matrix, vram_cell right, vram_what what)
{
    vram_tape_op *op = pen_begin_2(t, matrix, right);
    pen_save(t, op, matrix);
    vram_cell y = pen_output(t, op, t->cell[right].shape, vram_width(t, right), what);
    pen_save_output(t, op, y);
    pen_workspace(t, t->workspace);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell g = pen_make_gradient(t, right, vram_width(t, right)), product = pen_gradient_like(t, matrix, vram_width(t, matrix));
        pen_workspace(t, t->workspace);
        pen_make(t, product);
        vram_cell h = pen_make_gradient(t, matrix, vram_width(t, matrix));
        pen_drop(t, product);
        pen_give(t, 0, h);
        pen_give(t, 1, g);
    }
    pen_end(t, op);
    return y;
}

static void save_turns(vram_tape *t, vram_tape_op *op, vram_size size, int width, vram_what what)
{
    vram_cell c = pen_cell(t, size, width, what);
    pen_step(t, VRAM_STEP_MAKE_SAVED, 0, c);
    pen_save_output(t, op, c);
}

vram_cell vram_op_keeping(vram_tape *t, vram_cell x, vram_size kept, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    save_turns(t, op, kept, 4, what);
    vram_cell y = pen_output_view(t, op, x, t->cell[x].shape, what);
    pen_backward(t, op);
    if (op->grad) pen_give(t, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
    return y;
}

/* For each chunk: v = fresh - kept S; y = query S + within v; S = S decay + key' v. Autograd saves S and v of every turn. Backward, a slice's
 * gradient is zeros of the whole tensor, filled and added to what the turns before it (the later chunks) gave. */
vram_cell vram_op_chunk_scan(vram_tape *t, vram_cell core, vram_cell state, int ins, const vram_cell in[], const vram_chunk_sizes *sizes, vram_what what)
{
    vram_tape_op *op = pen_begin(t, ins, in);
    for (int i = 1; i < ins; i++) {
        if (sizes->apart) break;
        if (sizes->copied & 1u << i) save_turns(t, op, t->cell[in[i]].shape, 4, what);
        else if (!sizes->casts) pen_save(t, op, in[i]);
        else save_turns(t, op, t->cell[in[i]].shape, 2, what);
    }
    if (sizes->casts) save_turns(t, op, sizes->states, 4, what); /* two of 16 bit */
    vram_tape_hold(t, state);
    vram_tape_hold(t, core);
    save_turns(t, op, sizes->states, 4, what);
    if (sizes->parts_width > 0) save_turns(t, op, sizes->parts, sizes->parts_width, what);
    for (int i = 0; i < sizes->saves; i++) save_turns(t, op, sizes->save[i], 4, what);
    vram_cell turn[6];
    int temporaries = sizes->pairs ? 6 : 5;
    for (int i = 0; i < temporaries; i++) pen_make(t, turn[i] = pen_cell(t, i < 2 ? sizes->part : i < 5 ? sizes->state : sizes->wide, 4, what));
    pen_workspace(t, t->workspace);
    for (int i = temporaries - 1; i >= 0; i--) pen_drop(t, turn[i]);
    vram_cell y = pen_output_view(t, op, core, t->cell[core].shape, what);
    pen_backward(t, op);
    if (op->grad) {
        int largest = 0;
        for (int i = 1; i < ins; i++)
            if (t->cell[in[i]].bytes > t->cell[in[largest]].bytes) largest = i;
        int width = sizes->apart ? vram_width(t, core) : 4;
        vram_cell g[5], clone = pen_gradient_like(t, core, width), slice = pen_gradient_like(t, in[largest], width);
        for (int i = 0; i < ins; i++) g[i] = pen_make_gradient(t, in[i], vram_width(t, in[i]));
        pen_make(t, clone);
        pen_make(t, slice);
        pen_drop(t, slice);
        pen_drop(t, clone);
        for (int i = 0; i < ins; i++)
            if (pen_wants(t, op, i)) pen_give(t, i, g[i]);
            else pen_drop(t, g[i]);
    }
    pen_end(t, op);
    return y;
}

vram_cell vram_op_block_scan(vram_tape *t, vram_cell qkv, vram_size out, vram_size pairs, vram_size rows, vram_size states, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, qkv);
    const vram_size kept[4] = {pairs, rows, rows, states};
    int width = vram_width(t, qkv);
    pen_save(t, op, qkv);
    for (int i = 0; i < 4; i++) save_turns(t, op, kept[i], width, what);
    vram_cell list = pen_cell(t, out, width, what);
    pen_make(t, list);
    pen_workspace(t, t->workspace);
    vram_cell y = pen_output(t, op, out, width, what);
    pen_drop(t, list);
    pen_backward(t, op);
    if (op->grad) { /* of a slice, zeros of the whole; those of all three joined */
        vram_cell part[4];
        for (int i = 0; i < 4; i++) pen_make(t, part[i] = pen_gradient_like(t, y, width));
        pen_drop(t, part[3]);
        vram_cell g = pen_make_gradient(t, qkv, width);
        for (int i = 2; i >= 0; i--) pen_drop(t, part[i]);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}
