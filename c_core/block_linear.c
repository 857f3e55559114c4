/* block_linear.c -- linear layers: in 16 and in 4 bit, and the adapters beside them.
 *
 * Source: peft, tuners/lora/layer.py, dora.py; bitsandbytes, nn/modules.py. */
#include "parts.h"

#include <string.h>

/* stacked: the experts' matrix, not that of a shared expert which has the same name */
const vram_tensor *vram_part_row(const block *b, const char *name, bool bias, bool stacked)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind == b->kind && m->tensor[i].bias == bias && m->tensor[i].stacked == stacked && (bias || m->tensor[i].columns > 1) && strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    return NULL;
}

double vram_part_adapter_rank(const block *b, const char *name)
{
    const vram_tensor *row = vram_part_row(b, name, false, false);
    return b->pass->lora && row != NULL ? vram_lora_rank(b->pass->scenario, b->pass->model, row) : 0;
}

vram_cell vram_part_matrix(const block *b, double rows, double columns, int width, bool trained)
{
    return vram_tape_parameter(b->t, SIZE_2(b, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), width, trained && b->pass->gradients);
}

/* B(A(dropout(x))) * scaling in the adapter's type */
static vram_cell low_rank(const block *b, vram_cell in, const linear_shape *l, double rank)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(s->lora.dtype);
    vram_cell dropped = vram_op_dropout(t, in, s->lora.dropout, VRAM_WHAT_LORA_INPUT);
    vram_cell down = vram_op_linear(t, dropped, vram_part_matrix(b, rank, l->columns, width, true), VRAM_NO_CELL, vram_part_wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_LORA_DOWN);
    vram_cell up = vram_op_linear(t, down, vram_part_matrix(b, l->rows, rank, width, true), VRAM_NO_CELL, l->out, VRAM_WHAT_LORA_UP);
    return vram_op_constant(t, up, vram_width(t, up), VRAM_WHAT_LORA_UP);
}

/* peft's Linear: (result + adapter).to(type of the result) */
static vram_cell adapted(const block *b, vram_cell x, vram_cell result, const linear_shape *l, double rank)
{
    vram_tape *t = b->t;
    int narrow = vram_width(t, result);
    vram_cell in = vram_op_cast(t, x, (int)vram_format_bytes(b->pass->scenario->lora.dtype), VRAM_WHAT_LORA_INPUT);
    vram_cell y = vram_op_cast(t, vram_op_add(t, result, low_rank(b, in, l, rank), l->what), narrow, l->what);
    vram_tape_hold(t, in);
    vram_tape_hold(t, x); /* an argument of the module's call */
    return y;
}

/* The base's weight in the type of x: cast, or unpacked */
static vram_cell whole_weight(const block *b, const linear_shape *l, int width)
{
    vram_tape *t = b->t;
    vram_cell stored = vram_part_matrix(b, l->rows, l->columns, b->pass->width, false);
    if (b->pass->four_bit) stored = vram_op_constant(t, stored, 0, VRAM_WHAT_DEQUANTISED);
    return vram_op_cast(t, stored, width, VRAM_WHAT_DORA_WEIGHT);
}

/* |W + BA|, row by row: BA by sending a unit matrix through the adapter; no gradient. The names live to the end of the call. What the two products save goes with
 * the function, but for a pass whose graph keeps it: that graph hangs on the name of their result. */
static void dora_norm(const block *b, const linear_shape *l, double rank, vram_cell names[4])
{
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype), saved = t->autocast ? 2 : width;
    vram_size square = SIZE_3(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_COPIES, 1, VRAM_SYMBOL_WIDTH, l->columns);
    vram_size low = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_RANK, rank), whole = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->columns, VRAM_SYMBOL_WIDTH, l->rows);
    vram_cell unit = vram_op_constant(t, vram_tape_outside(t, square, width, VRAM_WHAT_DORA_WEIGHT), width, VRAM_WHAT_DORA_WEIGHT);
    vram_cell down = vram_op_linear(t, unit, vram_part_matrix(b, rank, l->columns, width, false), VRAM_NO_CELL, low, VRAM_WHAT_LORA_DOWN);
    if (saved < width) names[0] = vram_op_kept(t, square, saved, VRAM_WHAT_DORA_WEIGHT); /* autocast's copy, beside the matrix itself */
    vram_cell product = vram_op_linear(t, down, vram_part_matrix(b, l->rows, rank, width, false), VRAM_NO_CELL, whole, VRAM_WHAT_DORA_WEIGHT);
    vram_tape_hold(t, unit);
    if (saved >= width) names[0] = vram_op_kept(t, square, saved, VRAM_WHAT_DORA_WEIGHT);
    names[1] = vram_op_kept(t, low, saved, VRAM_WHAT_DORA_WEIGHT);
    names[2] = vram_op_cast(t, product, width, VRAM_WHAT_DORA_WEIGHT);
    names[3] = whole_weight(b, l, width);
    vram_cell sum = vram_op_add(t, names[3], vram_op_constant(t, names[2], 0, VRAM_WHAT_DORA_WEIGHT), VRAM_WHAT_DORA_WEIGHT);
    vram_op_mean(t, sum, SIZE_1(b, VRAM_SYMBOL_WIDTH, l->rows));
}

/* peft's DoraLinearLayer: result + (m - 1) base + m B(A(x)) scaling, m = magnitude / norm; with dropout the base runs again on what is left of x */
static vram_cell adapted_dora(const block *b, vram_cell x, vram_cell result, const linear_shape *l, double rank)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    int width = (int)vram_format_bytes(s->lora.dtype), narrow = vram_width(t, result);
    vram_cell in = vram_op_cast(t, x, width, VRAM_WHAT_LORA_INPUT), names[4];
    vram_cell left = vram_op_dropout(t, in, b->pass->gradients ? s->lora.dropout : 0, VRAM_WHAT_LORA_INPUT);
    dora_norm(b, l, rank, names);
    vram_cell magnitude = vram_op_constant(t, vram_tape_parameter(t, SIZE_1(b, VRAM_SYMBOL_WIDTH, l->rows), width, b->pass->gradients), 0, VRAM_WHAT_DORA_WEIGHT);
    vram_cell down = vram_op_linear(t, left, vram_part_matrix(b, rank, l->columns, width, true), VRAM_NO_CELL, vram_part_wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_LORA_DOWN);
    vram_cell up = vram_op_linear(t, down, vram_part_matrix(b, l->rows, rank, width, true), VRAM_NO_CELL, l->out, VRAM_WHAT_LORA_UP);
    vram_cell base = left == in ? result : vram_op_linear(t, left, names[3], VRAM_NO_CELL, l->out, VRAM_WHAT_DORA_BASE);
    vram_cell first = vram_op_mul_weight(t, vram_op_shift(t, magnitude, VRAM_WHAT_DORA_WEIGHT), base, VRAM_WHAT_LORA_UP);
    vram_cell second = vram_op_constant(t, vram_op_mul_weight(t, magnitude, up, VRAM_WHAT_LORA_UP), 0, VRAM_WHAT_LORA_UP);
    vram_cell more = vram_op_add(t, first, second, VRAM_WHAT_LORA_UP);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, names[i]);
    vram_tape_hold(t, up);
    vram_tape_hold(t, base);
    vram_cell y = vram_op_cast(t, vram_op_add(t, result, more, l->what), narrow, l->what);
    vram_tape_hold(t, in);
    vram_tape_hold(t, x);
    return y;
}

vram_cell vram_part_adapted(const block *b, vram_cell x, vram_cell y, const linear_shape *l, double rank)
{
    if (rank <= 0) return y;
    return b->pass->scenario->lora.dora ? adapted_dora(b, x, y, l, rank) : adapted(b, x, y, l, rank);
}

static vram_cell linear_4bit(const block *b, vram_cell x, const linear_shape *l, double rank)
{
    vram_tape *t = b->t;
    vram_cell in = vram_op_cast(t, x, 2, VRAM_WHAT_AUTOCAST_INPUT);
    vram_size weight = SIZE_2(b, VRAM_SYMBOL_WIDTH, l->rows, VRAM_SYMBOL_WIDTH, l->columns);
    vram_cell y = vram_op_cast(t, vram_op_linear_4bit(t, in, weight, b->pass->scenario->weights == VRAM_FORMAT_NF4_DQ, vram_part_row(b, l->name, true, false) != NULL, l->out, l->what), vram_width(t, x), l->what);
    return vram_part_adapted(b, x, y, l, rank);
}

vram_cell vram_part_linear(const block *b, vram_cell x, const char *name, double rows, double columns, vram_size out, vram_what what)
{
    const linear_shape l = {name, rows, columns, out, what};
    const vram_tensor *row = vram_part_row(b, name, false, false);
    double rank = vram_part_adapter_rank(b, name);
    if (b->pass->four_bit && row != NULL && row->linear) return linear_4bit(b, x, &l, rank);
    vram_cell bias = vram_part_row(b, name, true, false) != NULL ? vram_part_vector(b, rows) : VRAM_NO_CELL;
    vram_cell y = vram_op_linear(b->t, x, vram_part_matrix(b, rows, columns, b->pass->width, !b->pass->lora), bias, out, what);
    return vram_part_adapted(b, x, y, &l, rank);
}

/* Zamba 2: y and a low-rank path beside the linear layer, if there is one */
vram_cell vram_part_with_side_path(const block *b, vram_cell x, vram_cell y, vram_part part, double rows, double columns)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors && b->style.shared_block; i++) {
        const vram_tensor *row = &m->tensor[i];
        if (row->kind != b->kind || row->part != part || strcmp(row->name, "0") != 0) continue;
        double rank = (double)row->rows;
        bool repeating = b->t->repeating;
        b->t->repeating = false; /* each layer's own */
        vram_cell low = vram_part_linear(b, x, "0", rank, columns, vram_part_wide(b, VRAM_SYMBOL_RANK, rank), VRAM_WHAT_HIDDEN_STATES);
        vram_cell beside = vram_part_linear(b, low, "1", rows, rank, b->t->cell[y].shape, VRAM_WHAT_HIDDEN_STATES);
        b->t->repeating = repeating;
        return vram_op_add(b->t, y, beside, (vram_what)b->t->cell[y].what);
    }
    return y;
}
