/* op_attention.c -- attention in one kernel. */
#include "pen.h"

/* What the attention kernels share: queries, keys and values as the kernel takes them are saved; the output, too, and one fp32 number a query and head. */
static vram_tape_op *begin_attention(vram_tape *t, vram_cell q, vram_cell k, vram_cell v)
{
    vram_cell v16 = pen_autocast(t, v, VRAM_WHAT_AUTOCAST_INPUT), k16 = pen_autocast(t, k, VRAM_WHAT_AUTOCAST_INPUT), q16 = pen_autocast(t, q, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = pen_begin_3(t, q16, k16, v16);
    op->spared = VRAM_SPARED_ALWAYS;
    for (int i = 0; i < 3; i++) pen_save(t, op, op->in[i]);
    return op;
}

static vram_cell attention_output(vram_tape *t, vram_tape_op *op, const vram_flash_sizes *sizes)
{
    vram_cell y = pen_output(t, op, sizes->out, vram_width(t, op->in[0]), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell statistics = pen_cell(t, sizes->statistics, 4, VRAM_WHAT_ATTENTION_STATISTICS);
    pen_make(t, statistics);
    pen_save_output(t, op, y);
    pen_save_output(t, op, statistics);
    pen_backward(t, op);
    return y;
}

static void make_gradients(vram_tape *t, const vram_tape_op *op, vram_cell g[3])
{
    for (int i = 0; i < 3; i++) g[i] = pen_make_gradient(t, op->in[i], vram_width(t, op->in[i]));
}

/* Scratch made from the `made`-th on, all of it dropped, and of the three gradients those that are wanted given */
static void give_attention(vram_tape *t, const vram_tape_op *op, const vram_cell g[3], int made, int extras, const vram_cell extra[])
{
    for (int i = made; i < extras; i++) pen_make(t, extra[i]);
    for (int i = extras - 1; i >= 0; i--) pen_drop(t, extra[i]);
    for (int i = 0; i < 3; i++)
        if (pen_wants(t, op, i)) pen_give(t, i, g[i]);
        else pen_drop(t, g[i]);
}

/* flash_attn: saves q, k, v, the output and one fp32 number a query and head. Backward: delta as large as that, dq summed in fp32; with
 * grouped queries dk and dv of every query head, summed afterwards. Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp */
vram_cell vram_op_flash(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes)
{
    vram_tape_op *op = begin_attention(t, q, k, v);
    int width = vram_width(t, op->in[0]);
    vram_cell y = attention_output(t, op, sizes);
    if (op->grad) {
        vram_cell g[3], extra[5];
        int extras = 0;
        if (sizes->copied) pen_make(t, extra[extras++] = pen_scratch(t, sizes->out, width, VRAM_WHAT_ATTENTION_BACKWARD));
        make_gradients(t, op, g);
        extra[extras++] = pen_scratch(t, sizes->delta, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        extra[extras++] = pen_scratch(t, sizes->dq_sum, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        if (sizes->grouped) {
            extra[extras++] = pen_scratch(t, sizes->dk_heads, vram_width(t, op->in[1]), VRAM_WHAT_ATTENTION_BACKWARD);
            extra[extras++] = pen_scratch(t, sizes->dv_heads, vram_width(t, op->in[2]), VRAM_WHAT_ATTENTION_BACKWARD);
        }
        give_attention(t, op, g, sizes->copied, extras, extra);
    }
    pen_end(t, op);
    return y;
}

/* Memory-efficient attention, for fp32 and for masks: the mask in the type of the queries is saved too. Backward sums dq in fp32.
 * Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu */
vram_cell vram_op_efficient(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes)
{
    vram_tape_op *op = begin_attention(t, q, k, v);
    int width = vram_width(t, op->in[0]);
    if (sizes->masked) {
        vram_cell mask = pen_cell(t, sizes->mask, width, VRAM_WHAT_CAUSAL_MASK);
        pen_make(t, mask);
        pen_save_output(t, op, mask);
    }
    vram_cell y = attention_output(t, op, sizes);
    if (sizes->wide && width < 4) { /* does not fit into registers */
        vram_cell sum = pen_scratch(t, sizes->out, 4, VRAM_WHAT_ATTENTION_OUTPUT);
        op->backward = (short)t->steps;
        pen_make(t, sum);
        pen_drop(t, sum);
        pen_backward(t, op);
    }
    if (op->grad) {
        vram_cell g[3], extra[4];
        int extras = 0;
        make_gradients(t, op, g);
        if (sizes->grouped) {
            extra[extras++] = pen_scratch(t, sizes->dk_heads, width, VRAM_WHAT_ATTENTION_BACKWARD);
            extra[extras++] = pen_scratch(t, sizes->dv_heads, width, VRAM_WHAT_ATTENTION_BACKWARD);
        }
        extra[extras++] = pen_scratch(t, sizes->delta, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        extra[extras++] = pen_scratch(t, sizes->dq_sum, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        give_attention(t, op, g, 0, extras, extra);
    }
    pen_end(t, op);
    return y;
}
