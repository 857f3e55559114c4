/* pen.h -- with what operations are written on a tape (op_*.c): what each makes, what autograd saves of it, what its gradient makes.
 *
 * Source: PyTorch's derivatives.yaml (what is saved; the gradients of several inputs are computed in alphabetical order of their
 * names there, hence "the second input first"), ATen's CUDA kernels (temporaries), autocast_mode.cpp (casts).
 * Each row was seen in a trace of the caching allocator (tests/measure). */
#ifndef VRAM_PEN_H
#define VRAM_PEN_H

#include "tape.h"

/* ---- tape.c: tensors ---- */

vram_cell pen_cell(vram_tape *t, vram_size size, int width, vram_what what);
vram_cell pen_scratch(vram_tape *t, vram_size size, int width, vram_what what); /* counted as workspace */
vram_size pen_bytes_size(vram_tape *t, double bytes);
int pen_widest(const vram_tape *t, vram_cell a, vram_cell b);

/* ---- tape.c: one op, in this order: begin, what forward makes, backward, what its gradient makes, end ---- */

vram_tape_op *pen_begin(vram_tape *t, int ins, const vram_cell in[]);
vram_tape_op *pen_begin_1(vram_tape *t, vram_cell a);
vram_tape_op *pen_begin_2(vram_tape *t, vram_cell a, vram_cell b);
vram_tape_op *pen_begin_3(vram_tape *t, vram_cell a, vram_cell b, vram_cell c);
vram_cell pen_output(vram_tape *t, vram_tape_op *op, vram_size size, int width, vram_what what);
vram_cell pen_output_view(vram_tape *t, vram_tape_op *op, vram_cell x, vram_size size, vram_what what);
void pen_save(vram_tape *t, vram_tape_op *op, vram_cell x);
void pen_save_output(vram_tape *t, vram_tape_op *op, vram_cell y);
void pen_backward(vram_tape *t, vram_tape_op *op);
void pen_end(vram_tape *t, vram_tape_op *op);

/* ---- tape.c: steps of an op, either way ---- */

void pen_step(vram_tape *t, vram_step_code code, int input, vram_cell c);
void pen_make(vram_tape *t, vram_cell c);
void pen_drop(vram_tape *t, vram_cell c);
void pen_workspace(vram_tape *t, double bytes);
void pen_staging(vram_tape *t, vram_cell matrix, vram_cell sum);         /* what summing the matrix's rows makes beside the sum */
bool pen_wants(const vram_tape *t, const vram_tape_op *op, int k);       /* input k has a gradient */
vram_cell pen_gradient_like(vram_tape *t, vram_cell x, int width);
vram_cell pen_make_gradient(vram_tape *t, vram_cell x, int width);
void pen_give(vram_tape *t, int k, vram_cell c);                         /* c is the gradient of input k */
void pen_pass(vram_tape *t, int k);                                      /* the gradient of the output is that of input k */

/* ---- op_elements.c ---- */

/* An operation on one tensor, whose gradient is one of its own, or (passes) the output's as it is */
enum { VIEWS = 1, PASSES = 2, SAVES_INPUT = 4 };
vram_cell pen_plain(vram_tape *t, vram_cell x, vram_size size, int width, vram_what what, int how);
vram_cell pen_autocast(vram_tape *t, vram_cell x, vram_what what);       /* x as a product reads it */

#endif
