/* op_loss.c -- what is made of logits: cross entropy in its many ways, log-probabilities of labels. */
#include "pen.h"

/* ----------------------------------------------------------------------------------------------------- cross entropy -- */

/* log_softmax of fp32 logits is saved; backward makes the gradient of the picked words (zeros, all words), then that of the logits. */
vram_cell vram_op_cross_entropy(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = pen_begin_2(t, logits, labels);
    op->root = true;
    vram_cell y = pen_output(t, op, t->cell[logits].shape, 4, VRAM_WHAT_LOG_PROBABILITIES);
    pen_save(t, op, labels);
    pen_save_output(t, op, y);
    op->outs = 0; /* what it returns is a number */
    pen_backward(t, op);
    if (op->grad) {
        vram_cell picked = pen_gradient_like(t, logits, 4), g = pen_gradient_like(t, logits, 4);
        pen_make(t, picked);
        pen_make(t, g);
        pen_drop(t, picked);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
    return y;
}

/* loss_parallel writes the loss out: less the greatest of all ranks, exp for the sum, less its logarithm; backward (zeros less one + exp) * g.
 * Source: torch/distributed/tensor/parallel/loss.py (_log_softmax, _nll_loss_and_log_softmax_backward) */
void vram_op_cross_entropy_divided(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = pen_begin_2(t, logits, labels);
    op->root = true;
    vram_cell shifted = pen_gradient_like(t, logits, 4), raised = pen_gradient_like(t, logits, 4);
    pen_make(t, shifted);
    pen_make(t, raised);
    pen_drop(t, raised);
    vram_cell y = pen_output(t, op, t->cell[logits].shape, 4, VRAM_WHAT_LOG_PROBABILITIES);
    pen_drop(t, shifted);
    pen_save(t, op, labels);
    pen_save_output(t, op, y);
    op->outs = 0;
    pen_backward(t, op);
    if (op->grad) {
        vram_cell picked = pen_gradient_like(t, logits, 4), power = pen_gradient_like(t, logits, 4), sum = pen_gradient_like(t, logits, 4), g = pen_gradient_like(t, logits, 4);
        pen_make(t, picked);
        pen_make(t, power);
        pen_make(t, sum);
        pen_drop(t, power);
        pen_make(t, g);
        pen_drop(t, sum);
        pen_drop(t, picked);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
}

/* torch.compile makes of cast and loss a kernel each way: saved are the logits as they came and two numbers a row. */
void vram_op_cross_entropy_compiled(vram_tape *t, vram_cell logits, vram_cell labels, vram_size rows)
{
    vram_tape_op *op = pen_begin_2(t, logits, labels);
    op->root = true;
    pen_save(t, op, logits);
    pen_save(t, op, labels);
    for (int i = 0; i < 2; i++) {
        vram_cell statistics = pen_cell(t, rows, 4, VRAM_WHAT_LABEL_STATISTICS);
        pen_make(t, statistics);
        pen_save_output(t, op, statistics);
    }
    pen_backward(t, op);
    if (op->grad) pen_give(t, 0, pen_make_gradient(t, logits, vram_width(t, logits)));
    pen_end(t, op);
}

/* Source: megatron/core/tensor_parallel/cross_entropy.py: exp and division in place, the gradient in the same place */
vram_cell vram_op_cross_entropy_over(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = pen_begin_2(t, logits, labels);
    op->root = true;
    pen_save(t, op, logits);
    pen_save(t, op, labels);
    pen_backward(t, op);
    if (op->grad) pen_step(t, VRAM_STEP_GIVE_HELD, 0, t->cell[logits].base);
    pen_end(t, op);
    return logits;
}

/* --------------------------------------------------------------------------------------- log-probabilities of labels -- */

/* x[mask]: the mask becomes two columns of indices, which are kept; the gradient is zeros of x's shape, filled at these places. */
vram_cell vram_op_pick(vram_tape *t, vram_cell x, vram_size index, vram_size out, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell places = pen_cell(t, index, 8, VRAM_WHAT_LABEL_PLACES);
    pen_make(t, places);
    pen_save_output(t, op, places);
    vram_cell y = pen_output(t, op, out, vram_width(t, x), what);
    pen_backward(t, op);
    if (op->grad) pen_give(t, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
    return y;
}

static vram_cell tile(vram_tape *t, vram_size size, int width)
{
    vram_cell c = pen_scratch(t, size, width, VRAM_WHAT_LOGITS_TILE);
    t->cell[c].component = VRAM_COMPONENT_LOGITS;
    pen_make(t, c);
    return c;
}

/* Casts of a tile's rows and of its words, where the inputs are wider than the compute type */
static int tile_casts(vram_tape *t, const vram_tape_op *op, const vram_tile_sizes *sizes, int width, vram_cell casts[])
{
    int n = 0;
    if (vram_width(t, op->in[0]) > width) pen_make(t, casts[n++] = pen_scratch(t, sizes->tile_rows, width, VRAM_WHAT_AUTOCAST_INPUT));
    if (vram_width(t, op->in[1]) > width) pen_make(t, casts[n++] = pen_scratch(t, sizes->tile_weight, width, VRAM_WHAT_AUTOCAST_WEIGHTS));
    return n;
}

static void tile_product(vram_tape *t, const vram_tape_op *op, const vram_tile_sizes *sizes, int width)
{
    vram_cell casts[2];
    int n = tile_casts(t, op, sizes, width, casts);
    pen_workspace(t, t->workspace);
    while (n > 0) pen_drop(t, casts[--n]);
}

/* Backward of all tiles: gradients are summed in fp32, and turned into the inputs' types when all are done */
static void tiles_backward(vram_tape *t, const vram_tape_op *op, const vram_tile_sizes *sizes, int width)
{
    vram_cell sums[2], given[2];
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        sums[k] = pen_gradient_like(t, op->in[k], 4);
        if (t->cell[op->in[k]].parameter && vram_width(t, op->in[k]) < 4) {
            t->cell[sums[k]].component = VRAM_COMPONENT_WORKSPACE;
            t->cell[sums[k]].what = VRAM_WHAT_GRADIENT_SUM;
        }
        pen_make(t, sums[k]);
    }
    vram_cell again = tile(t, sizes->tile, width);
    tile_product(t, op, sizes, width);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        given[k] = sums[k];
        if (vram_width(t, op->in[k]) < 4) pen_make(t, given[k] = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k])));
    }
    pen_drop(t, again);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        if (given[k] != sums[k]) pen_drop(t, sums[k]);
        pen_give(t, k, given[k]);
    }
}

/* TRL's ChunkedLogProbFunction: tiles of 4096 positions by 32,768 words, seven statistics a position in fp32. Backward makes the tiles again.
 * Source: trl/kernels/chunked_logprob.py */
void vram_op_tiled(vram_tape *t, vram_cell x, vram_cell weight, const vram_tile_sizes *sizes)
{
    int width = t->autocast ? 2 : vram_width(t, x);
    vram_tape_op *op = pen_begin_2(t, x, weight);
    op->root = true;
    pen_save(t, op, x);
    vram_cell statistics[7];
    for (int i = 0; i < 7; i++) pen_make(t, statistics[i] = pen_cell(t, sizes->rows, 4, VRAM_WHAT_LABEL_STATISTICS));
    vram_cell forward_tile = tile(t, sizes->tile, width);
    tile_product(t, op, sizes, width);
    pen_drop(t, forward_tile);
    for (int i = 3; i < 7; i++) pen_drop(t, statistics[i]);
    for (int i = 0; i < 3; i++)
        if (op->grad) pen_save_output(t, op, statistics[i]);
        else t->cell[statistics[i]].last_use = (short)(t->ops - 1);
    pen_backward(t, op);
    if (op->grad) tiles_backward(t, op, sizes, width);
    pen_end(t, op);
}

/* A product of chunks under autocast casts its part of the rows and the whole weight: turned over for the logits, a view that is cast for each
 * chunk; as it is for the gradient of the rows, and kept. For the gradient of the weight the rows are cast once more, while
 * fp32 logits have that gradient made beside the sum. */
static void fused_loss_chunk(vram_tape *t, const vram_tape_op *op, vram_size chunk_rows, int width, bool several)
{
    bool casts = vram_width(t, op->in[1]) > width, rows_cast = vram_width(t, op->in[0]) > width;
    vram_cell turned = pen_scratch(t, t->cell[op->in[1]].shape, width, VRAM_WHAT_AUTOCAST_WEIGHTS), kept = pen_scratch(t, t->cell[op->in[1]].shape, width, VRAM_WHAT_AUTOCAST_WEIGHTS), rows = pen_scratch(t, chunk_rows, width, VRAM_WHAT_AUTOCAST_INPUT);
    t->cell[kept].cached = t->cell[op->in[1]].grad;
    if (casts && several) pen_make(t, kept); /* of the chunk before */
    if (casts) pen_make(t, turned);
    if (rows_cast) pen_make(t, rows);
    pen_workspace(t, t->workspace);
    if (rows_cast) pen_drop(t, rows);
    if (casts) pen_drop(t, turned);
    if (casts && !several) pen_make(t, kept);
    pen_make(t, rows);
    pen_workspace(t, t->workspace);
    pen_drop(t, rows);
    if (casts && !t->cell[kept].cached) pen_drop(t, kept);
    if (!pen_wants(t, op, 1)) return;
    vram_cell beside = width == 4 ? pen_scratch(t, t->cell[op->in[1]].shape, 4, VRAM_WHAT_GRADIENT_SUM) : rows;
    bool made = width == 4 || rows_cast;
    if (made) pen_make(t, beside);
    pen_workspace(t, t->workspace);
    if (made) pen_drop(t, beside);
}

/* Liger's fused linear cross entropy: a chunk's logits become their own gradient; the gradients of x and of the weight are made in the forward
 * pass and handed out in backward. Source: liger_kernel/ops/fused_linear_cross_entropy.py */
void vram_op_fused_loss(vram_tape *t, vram_cell x, vram_cell weight, vram_size chunk, vram_size chunk_rows, vram_size rows)
{
    vram_tape_op *op = pen_begin_2(t, x, weight);
    int width = t->autocast ? 2 : vram_width(t, x);
    vram_cell early[2] = {VRAM_NO_CELL, VRAM_NO_CELL};
    op->root = true;
    for (int k = 0; k < 2; k++) {
        if (k == 1 && !pen_wants(t, op, 1)) continue;
        early[k] = pen_scratch(t, t->cell[op->in[k]].shape, vram_width(t, op->in[k]), k == 0 ? VRAM_WHAT_ACTIVATION_GRADIENT : VRAM_WHAT_GRADIENT_SUM);
        pen_make(t, early[k]);
        pen_save_output(t, op, early[k]);
    }
    vram_cell losses = pen_cell(t, rows, 4, VRAM_WHAT_LABEL_STATISTICS);
    pen_make(t, losses);
    vram_cell logits = tile(t, chunk, width);
    fused_loss_chunk(t, op, chunk_rows, width, t->shape[chunk_rows].elements < t->shape[t->cell[x].shape].elements);
    pen_drop(t, logits);
    pen_backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!pen_wants(t, op, k)) continue;
        vram_cell g = pen_gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        pen_drop(t, early[k]); /* the same tensor, now a gradient */
        pen_make(t, g);
        pen_give(t, k, g);
    }
    pen_end(t, op);
}

/* A part of x is divided in place. Backward (CopySlices): the whole gradient is copied, the part cloned and divided, and put back. */
vram_cell vram_op_scale_part(vram_tape *t, vram_cell x, vram_size part, vram_what what)
{
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell y = pen_output_view(t, op, x, t->cell[x].shape, what);
    t->cell[y].component = t->cell[x].component;
    pen_backward(t, op);
    if (op->grad) {
        vram_cell whole = pen_gradient_like(t, x, vram_width(t, x)), clone = pen_cell(t, part, vram_width(t, x), VRAM_WHAT_ACTIVATION_GRADIENT);
        vram_cell divided = pen_cell(t, part, vram_width(t, x), VRAM_WHAT_ACTIVATION_GRADIENT);
        t->cell[clone].component = t->cell[divided].component = t->cell[x].component;
        pen_make(t, whole);
        pen_make(t, clone);
        pen_make(t, divided);
        pen_drop(t, divided);
        pen_drop(t, clone);
        pen_give(t, 0, whole);
    }
    pen_end(t, op);
    return y;
}

static vram_cell rows_apart(vram_tape *t, vram_cell x)
{
    vram_tape_op *op = pen_begin_1(t, x);
    vram_cell y = pen_output_view(t, op, x, t->cell[x].shape, (vram_what)t->cell[x].what);
    t->cell[y].component = t->cell[x].component;
    pen_backward(t, op);
    if (op->grad) pen_step(t, VRAM_STEP_GIVE_VIEW, 0, pen_make_gradient(t, x, vram_width(t, x)));
    pen_end(t, op);
    return y;
}

/* The labels' logits alone; as seen, the two gradients of logits are added into a third */
static void labels_gathered(vram_tape *t, vram_cell logits, vram_size labels)
{
    vram_tape_op *op = pen_begin_1(t, logits);
    op->root = true;
    pen_make(t, pen_cell(t, labels, 4, VRAM_WHAT_LOG_PROBABILITIES));
    pen_backward(t, op);
    if (op->grad) pen_step(t, VRAM_STEP_GIVE_VIEW, 0, pen_make_gradient(t, logits, vram_width(t, logits)));
    pen_end(t, op);
}

/* F.log_softmax of each row is what its gradient needs; row after row, the gradient takes the place of what was kept for it */
static void rows_log_softmax(vram_tape *t, vram_cell rows)
{
    vram_tape_op *op = pen_begin_1(t, rows);
    op->root = true;
    vram_cell y = pen_cell(t, t->cell[rows].shape, vram_width(t, rows), VRAM_WHAT_LOG_PROBABILITIES);
    t->cell[y].component = VRAM_COMPONENT_LOGITS;
    pen_make(t, y);
    if (op->grad) pen_save_output(t, op, y);
    else t->cell[y].last_use = (short)(t->ops - 1);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell g = pen_gradient_like(t, rows, vram_width(t, rows));
        pen_drop(t, y);
        pen_make(t, g);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
}

/* logsumexp row by row; a row's gradient is made in three tensors */
static void rows_logsumexp(vram_tape *t, vram_cell rows, vram_size row)
{
    int width = vram_width(t, rows);
    vram_tape_op *op = pen_begin_1(t, rows);
    op->root = true;
    pen_save(t, op, rows);
    vram_cell exponentials = pen_cell(t, row, width, VRAM_WHAT_LOG_PROBABILITIES);
    t->cell[exponentials].component = VRAM_COMPONENT_LOGITS;
    pen_make(t, exponentials);
    pen_drop(t, exponentials);
    pen_backward(t, op);
    if (op->grad) {
        vram_cell g = pen_gradient_like(t, rows, width), less = pen_cell(t, row, width, VRAM_WHAT_ACTIVATION_GRADIENT), power = pen_cell(t, row, width, VRAM_WHAT_ACTIVATION_GRADIENT);
        t->cell[less].component = t->cell[power].component = VRAM_COMPONENT_LOGITS;
        pen_make(t, g);
        pen_make(t, less);
        pen_make(t, power);
        pen_drop(t, power);
        pen_drop(t, less);
        pen_give(t, 0, g);
    }
    pen_end(t, op);
}

/* fp32: the label's logit less logsumexp. 16 bit: log_softmax of each row, kept. */
void vram_op_log_probabilities(vram_tape *t, vram_cell logits, vram_size row, vram_size labels)
{
    bool narrow = vram_width(t, logits) < 4;
    if (!narrow) labels_gathered(t, logits, labels);
    vram_cell rows = rows_apart(t, logits);
    if (narrow) rows_log_softmax(t, rows);
    else rows_logsumexp(t, rows, row);
}
