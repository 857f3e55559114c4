/* block_norm.c -- norms, operation by operation, or as the kernels that stand for them. */
#include "parts.h"

/* x * rsqrt(mean(x^2) + eps), in fp32. Llama's names hold the mean and the result to the end of forward(); Gemma has it in one expression. */
static vram_cell normalised(const block *b, vram_cell x, vram_size rows, vram_cell *mean)
{
    vram_tape *t = b->t;
    *mean = vram_op_mean(t, vram_op_square(t, x), rows);
    vram_cell scale = vram_op_rsqrt(t, vram_op_constant(t, *mean, 4, VRAM_WHAT_NORM_STATISTICS));
    return vram_op_mul_rows(t, x, scale, VRAM_WHAT_NORMALISED);
}

/* Llama 4, nanochat: norm(x.float()).type_as(x), then times the weight if there is one (width: 0) */
vram_cell vram_part_unnamed_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    vram_tape *t = b->t;
    vram_cell mean, in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), y = vram_op_cast(t, normalised(b, in, rows, &mean), vram_width(t, x), VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, in);
    if (width > 0) {
        vram_cell output = y;
        y = vram_op_mul_weight(t, vram_part_vector(b, width), output, VRAM_WHAT_NORM_OUTPUT);
        vram_tape_hold(t, output);
    }
    vram_tape_hold(t, x);
    return y;
}

vram_cell vram_part_rms_norm(const block *b, vram_cell x, vram_size rows, double width, bool weighted)
{
    vram_tape *t = b->t;
    if (weighted && vram_part_has_kernel(b, VRAM_KERNEL_NORM)) return vram_op_fused_norm(t, x, vram_part_vector(b, width), rows, vram_part_has_kernel(b, VRAM_KERNEL_OVER), VRAM_WHAT_NORM_OUTPUT);
    int narrow = vram_width(t, x);
    if (b->style.unnamed_norm) return vram_part_unnamed_norm(b, x, rows, weighted ? width : 0);
    vram_cell mean, y, in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), normed = normalised(b, in, rows, &mean), weight = vram_part_vector(b, width);
    switch (b->style.norm) {
    case NORM_GEMMA:
    case NORM_GEMMA_4:
        if (weighted) weight = vram_op_cast(t, weight, 4, VRAM_WHAT_NORMS);
        if (b->style.norm == NORM_GEMMA) weight = vram_op_shift(t, weight, VRAM_WHAT_NORMS);
        y = !weighted ? normed : vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT);
        vram_tape_hold(t, in);
        y = vram_op_cast(t, y, narrow, VRAM_WHAT_NORM_OUTPUT);
        break;
    case NORM_HELIUM: weight = vram_op_cast(t, weight, 4, VRAM_WHAT_NORMS); /* fall through */
    case NORM_OLMO: y = vram_op_cast(t, vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT), narrow, VRAM_WHAT_NORM_OUTPUT); break;
    default: y = vram_op_mul_weight(t, weight, vram_op_cast(t, normed, narrow, VRAM_WHAT_NORMALISED), VRAM_WHAT_NORM_OUTPUT); break;
    }
    if (b->style.norm != NORM_GEMMA && b->style.norm != NORM_GEMMA_4) {
        vram_tape_hold(t, normed);
        vram_tape_hold(t, mean);
    }
    vram_tape_hold(t, x);
    return y;
}

/* CohereLayerNorm: in fp32, the mean taken off twice, each time into a tensor of its own */
static vram_cell written_layer_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    vram_tape *t = b->t;
    vram_cell in = vram_op_cast(t, x, 4, VRAM_WHAT_NORM_INPUT), mean = vram_op_mean(t, in, rows);
    vram_cell variance = vram_op_mean(t, vram_op_square(t, vram_op_shift(t, in, VRAM_WHAT_NORM_INPUT)), rows);
    vram_cell normed = vram_op_mul_rows(t, vram_op_shift(t, in, VRAM_WHAT_NORM_INPUT), vram_op_rsqrt(t, vram_op_constant(t, variance, 4, VRAM_WHAT_NORM_STATISTICS)), VRAM_WHAT_NORMALISED);
    vram_cell weight = vram_op_cast(t, vram_part_vector(b, width), 4, VRAM_WHAT_NORMS), y = vram_op_mul_weight(t, weight, normed, VRAM_WHAT_NORM_OUTPUT);
    vram_tape_hold(t, mean);
    return vram_op_cast(t, y, vram_width(t, x), VRAM_WHAT_NORM_OUTPUT);
}

vram_cell vram_part_norm(const block *b, vram_cell x, vram_size rows, double width)
{
    if (b->style.written_norm && !vram_part_has_kernel(b, VRAM_KERNEL_NORM)) return written_layer_norm(b, x, rows, width);
    vram_norm_type type = b->pass->model->norm;
    bool layer = type == VRAM_NORM_LAYER || type == VRAM_NORM_LAYER_BIAS || type == VRAM_NORM_LAYER_BARE;
    if (!layer) return vram_part_rms_norm(b, x, rows, width, type != VRAM_NORM_RMS_BARE);
    vram_cell weight = type == VRAM_NORM_LAYER_BARE ? VRAM_NO_CELL : vram_part_vector(b, width), bias = type == VRAM_NORM_LAYER_BIAS ? vram_part_vector(b, width) : VRAM_NO_CELL;
    bool narrow = b->style.narrow_norm && b->t->autocast;
    vram_cell in = b->style.wide_norm || narrow ? vram_op_cast(b->t, x, narrow ? 2 : 4, VRAM_WHAT_NORM_INPUT) : x;
    b->t->autocast &= !narrow;
    vram_cell y = vram_op_layer_norm(b->t, in, weight, bias, rows, VRAM_WHAT_NORM_OUTPUT);
    b->t->autocast |= narrow;
    return b->style.wide_norm ? vram_op_cast(b->t, y, vram_width(b->t, x), VRAM_WHAT_NORM_OUTPUT) : y;
}

vram_cell vram_part_stream_norm(const block *b, vram_cell x) { return vram_part_norm(b, x, b->stream_rows, (double)b->pass->model->hidden); }
