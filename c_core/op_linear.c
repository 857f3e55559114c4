/* op_linear.c -- matrix products: dense, of experts, unpacked from 4 bit, divided over ranks. */
#include "pen.h"

#include <stddef.h>

/* y = x w' (+ b). Saves x for the weight, the weight for x (a parameter, or autocast's copy of it). Without a bias the weight's gradient
 * comes first (mm: mat2, self), with one it comes second (addmm: mat1, mat2, self). The gradients of x and of the weight are views. */
static void linear_gradient(vram_tape *t, const vram_tape_op *op, int k)
{
    if (!pen_wants(t, op, k)) return;
    vram_cell g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k]));
    pen_make(t, g);
    if (k < 2) pen_workspace(t, t->workspace);
    else pen_staging(t, op->out[0], g);
    pen_step(t, k < 2 ? VRAM_STEP_GIVE_VIEW : VRAM_STEP_GIVE, k, g); /* the weight's is transposed */
}

vram_cell vram_op_linear(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what)
{
    vram_cell b = pen_autocast(t, bias, VRAM_WHAT_AUTOCAST_WEIGHTS), w = pen_autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS), in = pen_autocast(t, x, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = pen_begin_3(t, in, w, b);
    op->spared = b < 0 ? VRAM_SPARED_SECOND : VRAM_SPARED_ALWAYS; /* aten.mm, aten.addmm */
    if (pen_wants(t, op, 1)) pen_save(t, op, in);
    if (pen_wants(t, op, 0)) pen_save(t, op, w);
    vram_cell y = pen_output(t, op, out, vram_width(t, in), what);
    pen_workspace(t, b < 0 ? t->workspace : t->biased_workspace);
    pen_backward(t, op);
    linear_gradient(t, op, b < 0 ? 1 : 0);
    linear_gradient(t, op, b < 0 ? 0 : 1);
    linear_gradient(t, op, 2);
    pen_end(t, op);
    return y;
}

/* The experts' products in one kernel, no workspace: torch.nn.functional.grouped_mm */
vram_cell vram_op_grouped(vram_tape *t, vram_cell x, vram_cell weight, vram_size out, vram_what what)
{
    vram_cell in = vram_op_cast(t, x, vram_width(t, weight), VRAM_WHAT_AUTOCAST_INPUT); /* autocast does not know the kernel */
    vram_tape_op *op = pen_begin_2(t, in, weight);
    if (pen_wants(t, op, 1)) pen_save(t, op, in);
    if (pen_wants(t, op, 0)) pen_save(t, op, weight);
    vram_cell y = pen_output(t, op, out, vram_width(t, in), what);
    pen_backward(t, op);
    for (int k = 1; k >= 0; k--)
        if (pen_wants(t, op, k)) pen_give(t, k, pen_make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    pen_end(t, op);
    return y;
}

/* Liger's experts: gather, product and gate in one kernel, which keeps gate and up; the product down and the weighing make the rest. Backward
 * makes the gradients of both matrices, frozen or not. All in the type of x. Source: liger_kernel/ops/fused_moe.py (LigerFusedMoEFunction) */
vram_cell vram_op_fused_experts(vram_tape *t, vram_cell x, vram_cell first, vram_cell second, vram_cell share, const vram_expert_sizes *sizes)
{
    const vram_cell in[4] = {x, first, second, share};
    vram_tape_op *op = pen_begin(t, 4, in);
    int width = vram_width(t, x);
    vram_cell places[3];
    for (int i = 0; i < 4; i++) pen_save(t, op, in[i]);
    for (int i = 0; i < 3; i++) pen_make(t, places[i] = pen_cell(t, sizes->places, 4, VRAM_WHAT_ROUTER_WEIGHTS));
    vram_cell both = pen_cell(t, sizes->both, width, VRAM_WHAT_GATE_UP), product = pen_cell(t, sizes->inner, width, VRAM_WHAT_GATED), each = pen_cell(t, sizes->outer, width, VRAM_WHAT_EXPERT_OUTPUTS);
    pen_make(t, both);
    pen_make(t, product);
    pen_make(t, each);
    vram_cell y = pen_output(t, op, t->cell[x].shape, width, VRAM_WHAT_MLP_OUTPUT);
    pen_drop(t, product);
    pen_drop(t, each);
    pen_save_output(t, op, both);
    for (int i = 0; i < 3; i++) pen_save_output(t, op, places[i]);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell both_gradient = pen_cell(t, sizes->both, width, VRAM_WHAT_ACTIVATION_GRADIENT), weighed = pen_cell(t, sizes->inner, width, VRAM_WHAT_GATED), spread = pen_cell(t, sizes->outer, width, VRAM_WHAT_ACTIVATION_GRADIENT);
        vram_cell g[4] = {pen_gradient_like(t, x, width), pen_gradient_like(t, first, vram_width(t, first)), pen_gradient_like(t, second, vram_width(t, second)), pen_gradient_like(t, share, vram_width(t, share))};
        for (int k = 1; k < 3; k++)
            if (!pen_wants(t, op, k)) g[k] = pen_scratch(t, t->cell[in[k]].shape, vram_width(t, in[k]), VRAM_WHAT_GRADIENT_SUM); /* of a frozen matrix */
        const vram_cell made[] = {both_gradient, weighed, g[3], g[2], spread, g[0], g[1]};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) pen_make(t, made[i]);
        pen_drop(t, spread);
        pen_drop(t, weighed);
        pen_drop(t, both_gradient);
        for (int k = 0; k < 4; k++)
            if (pen_wants(t, op, k)) pen_give(t, k, g[k]);
            else pen_drop(t, g[k]);
    }
    pen_end(t, op);
    return y;
}

/* bitsandbytes' MatMul4Bit: the weight is unpacked for the length of a product, and again for the gradient of x. Scales that are quantised
 * themselves are unpacked first, an fp32 number for 64 weights. Source: bitsandbytes/_ops.py (_dequant_linear_fallback) */
static int unpack(vram_tape *t, vram_size weight, bool double_quant, int times, vram_cell unpacked, vram_cell scales[2])
{
    int made = double_quant ? times : 0;
    for (int i = 0; i < made; i++) pen_make(t, scales[i] = pen_scratch(t, pen_bytes_size(t, vram_ceil_div(t->shape[weight].elements, 64) * 4), 1, VRAM_WHAT_DEQUANTISED));
    pen_make(t, unpacked);
    return made;
}

vram_cell vram_op_linear_4bit(vram_tape *t, vram_cell x, vram_size weight, bool double_quant, bool biased, vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    op->spared = VRAM_SPARED_SECOND;
    vram_cell unpacked = pen_scratch(t, weight, 2, VRAM_WHAT_DEQUANTISED), again = pen_scratch(t, weight, 2, VRAM_WHAT_DEQUANTISED), scales[2];
    int made = unpack(t, weight, double_quant, 2, unpacked, scales);
    vram_cell y = pen_output(t, op, out, vram_width(t, x), what);
    pen_workspace(t, biased ? t->biased_workspace : t->workspace);
    while (made > 0) pen_drop(t, scales[--made]);
    pen_drop(t, unpacked);
    pen_backward(t, op);
    if (op->grad) {
        for (made = unpack(t, weight, double_quant, 1, again, scales); made > 0;) pen_drop(t, scales[--made]); /* gone before the product */
        vram_cell g = pen_make_gradient(t, x, vram_width(t, x));
        pen_workspace(t, t->workspace);
        pen_drop(t, again);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}

/* A batch of products of two tensors made on the way; the second input's gradient first. */
vram_cell vram_op_matmul(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_cell right = pen_autocast(t, b, VRAM_WHAT_AUTOCAST_INPUT), left = pen_autocast(t, a, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = pen_begin_2(t, left, right);
    op->spared = VRAM_SPARED_ALWAYS;
    if (pen_wants(t, op, 1)) pen_save(t, op, left);
    if (pen_wants(t, op, 0)) pen_save(t, op, right);
    vram_cell y = pen_output(t, op, out, vram_width(t, left), what);
    pen_workspace(t, t->workspace);
    pen_backward(t, op);
    for (int k = 1; k >= 0; k--) {
        if (!pen_wants(t, op, k)) continue;
        vram_cell g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        pen_make(t, g);
        pen_workspace(t, t->workspace);
        pen_give(t, k, g);
    }
    pen_end(t, op);
    return y;
}

static vram_cell sized(vram_tape *t, vram_size size, vram_cell like, vram_what what)
{
    vram_cell c = pen_cell(t, size, vram_width(t, like), what);
    pen_make(t, c);
    return c;
}

/* ColumnParallelLinear and RowParallelLinear with sequence parallelism: the input is gathered for the product and gathered anew in backward,
 * the output is scattered. Nothing is kept, and nothing gathered anew, for a frozen weight. Source: megatron/core/tensor_parallel/layers.py
 * (LinearWithGradAccumulationAndAsyncCommunication, LinearWithFrozenWeight). */
vram_cell vram_op_linear_parallel(vram_tape *t, vram_cell x, bool trained, vram_size gathered, vram_size partial, vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    bool gathers = gathered != t->cell[x].shape, scatters = partial != out;
    if (trained) pen_save(t, op, x);
    vram_cell whole = gathers ? sized(t, gathered, x, VRAM_WHAT_GATHERED_INPUT) : VRAM_NO_CELL, parts = scatters ? sized(t, partial, x, VRAM_WHAT_UNSCATTERED_OUTPUT) : VRAM_NO_CELL;
    pen_workspace(t, t->workspace);
    vram_cell y = pen_output(t, op, out, vram_width(t, x), what);
    if (scatters) pen_drop(t, parts);
    if (gathers) pen_drop(t, whole);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell above = scatters ? sized(t, partial, x, VRAM_WHAT_ACTIVATION_GRADIENT) : VRAM_NO_CELL;
        vram_cell again = gathers && trained ? sized(t, gathered, x, VRAM_WHAT_GATHERED_INPUT) : VRAM_NO_CELL, inner = gathers ? sized(t, gathered, x, VRAM_WHAT_ACTIVATION_GRADIENT) : VRAM_NO_CELL;
        vram_cell g = pen_make_gradient(t, x, vram_width(t, x));
        pen_workspace(t, t->workspace);
        if (gathers) pen_drop(t, inner);
        if (gathers && trained) pen_drop(t, again);
        if (scatters) pen_drop(t, above);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}

vram_cell vram_op_resized(vram_tape *t, vram_cell x, vram_size out, bool saves, vram_what what) { return pen_plain(t, x, out, vram_width(t, x), what, saves ? SAVES_INPUT : 0); }
