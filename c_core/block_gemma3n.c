/* block_gemma3n.c -- Gemma 3n's several streams, and the inputs that it and small Gemma 4 have for each layer. */
#include "parts.h"

#include <string.h>

static double rows_of(const block *b, const char *name)
{
    const vram_tensor *row = vram_part_row(b, name, false, false);
    return row != NULL ? (double)row->rows : 1;
}

double vram_gemma3n_streams(const block *b)
{
    for (int i = 0; i < b->pass->model->tensors; i++)
        if (strcmp(b->pass->model->tensor[i].name, "correction_coefs") == 0) return (double)b->pass->model->tensor[i].rows;
    return 1;
}

static vram_cell magnitude(const block *b, vram_cell x)
{
    return vram_op_rsqrt(b->t, vram_op_mean(b->t, vram_op_square(b->t, vram_part_in_fp32(b, x)), b->rows));
}

/* x as large as the first stream: a linear layer, times that one's magnitude, over its own */
static vram_cell as_large(const block *b, vram_cell x, vram_cell target, int number)
{
    const char name[2] = {(char)('0' + number), '\0'};
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden;
    vram_cell y = vram_part_linear(b, x, name, h, h, b->hidden, VRAM_WHAT_HIDDEN_STATES), own = magnitude(b, y);
    return vram_op_mul_rows(t, vram_op_mul_rows(t, y, target, VRAM_WHAT_HIDDEN_STATES), own, VRAM_WHAT_HIDDEN_STATES);
}

/* The tensor of the model's that has no layer of its own */
static const vram_tensor *single(const block *b, const char *name)
{
    const vram_model *m = b->pass->model;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind < 0 && strcmp(m->tensor[i].name, name) == 0) return &m->tensor[i];
    return NULL;
}

/* Some numbers for every token and layer (Gemma 3n, small Gemma 4), or 0 */
vram_size vram_gemma3n_inputs_size(const block *b, double *wide_inputs)
{
    const vram_tensor *projection = single(b, "per_layer_model_projection");
    *wide_inputs = projection != NULL ? (double)projection->rows : 0;
    return ROWS_BY(b, VRAM_SYMBOL_WIDTH, *wide_inputs);
}

bool vram_gemma3n_inputs_trained(const block *b)
{
    const vram_pass *p = b->pass;
    return p->gradients && (!p->lora || p->input_gradient || vram_lora_rank(p->scenario, p->model, single(b, "per_layer_model_projection")) > 0);
}

/* A table's, and a projection of the words' beside, which the layers keep */
void vram_gemma3n_inputs(const block *b, vram_cell words)
{
    vram_tape *t = b->t;
    double wide_inputs, layers = (double)b->pass->model->layers, h = (double)b->pass->model->hidden;
    vram_size all = vram_gemma3n_inputs_size(b, &wide_inputs), each = ROWS_BY(b, VRAM_SYMBOL_LAYERS, layers);
    if (wide_inputs <= 0) return;
    const vram_tensor *rows = single(b, "embed_tokens_per_layer");
    vram_size places = SIZE_2(b, VRAM_SYMBOL_VOCABULARY, (double)rows->rows, VRAM_SYMBOL_WIDTH, wide_inputs);
    vram_cell table = vram_tape_parameter(t, places, b->pass->plain_width, b->pass->gradients && !b->pass->lora);
    vram_cell inputs = vram_op_constant(t, vram_op_embedding(t, table, 0, all, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell scaled = vram_op_constant(t, vram_part_linear(b, words, "per_layer_model_projection", wide_inputs, h, all, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell both = vram_op_constant(t, vram_op_add(t, vram_part_norm(b, scaled, each, wide_inputs / layers), inputs, VRAM_WHAT_HIDDEN_STATES), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, inputs);
    t->cell[both].last_use = -1;
    if (vram_gemma3n_inputs_trained(b)) t->aside = both;
}

/* A layer's own, a view: its gradient is as large as all layers' */
static vram_cell layer_input(const block *b, vram_size narrow)
{
    double wide_inputs;
    vram_size all = vram_gemma3n_inputs_size(b, &wide_inputs);
    vram_cell inputs = vram_tape_outside(b->t, all, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    b->t->cell[inputs].grad = b->t->cell[inputs].summed = vram_gemma3n_inputs_trained(b);
    return vram_op_slice(b->t, inputs, narrow, VRAM_WHAT_HIDDEN_STATES);
}

/* Gemma 4, small: x, times its way to a few numbers that are weighed by the layer's inputs and brought back */
vram_cell vram_gemma3n_with_input(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    const vram_tensor *row = vram_part_row(b, "per_layer_input_gate", false, false);
    if (row == NULL) return x;
    double p = (double)row->rows, h = (double)b->pass->model->hidden;
    vram_size narrow = vram_part_wide(b, VRAM_SYMBOL_WIDTH, p);
    vram_cell inputs = layer_input(b, narrow), gate = vram_part_activation(b, vram_part_linear(b, x, "per_layer_input_gate", p, h, narrow, VRAM_WHAT_GATE));
    vram_cell y = vram_op_add(t, x, vram_part_stream_norm(b, vram_part_linear(b, vram_op_mul(t, gate, inputs, VRAM_WHAT_GATED), "per_layer_projection", h, p, b->hidden, VRAM_WHAT_HIDDEN_STATES)), VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, x);
    return y;
}

/* The words as the first stream, and projections of them */
vram_cell vram_gemma3n_embeddings(const block *b, vram_cell words)
{
    vram_tape *t = b->t;
    vram_cell list[VRAM_TAPE_INS] = {words};
    int n = (int)vram_min(vram_gemma3n_streams(b), VRAM_TAPE_INS);
    vram_cell target = magnitude(b, words);
    for (int i = 1; i < n; i++) list[i] = as_large(b, words, target, i - 1);
    vram_cell y = vram_op_join_all(t, n, list, vram_part_stream_size(b), VRAM_WHAT_HIDDEN_STATES);
    for (int i = 0; i < n; i++) vram_part_name(b, list[i]);
    return y;
}

vram_cell vram_gemma3n_collapsed(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    vram_cell list[VRAM_TAPE_INS] = {vram_op_slice(t, x, b->hidden, VRAM_WHAT_HIDDEN_STATES)};
    int n = (int)vram_min(vram_gemma3n_streams(b), VRAM_TAPE_INS);
    vram_cell target = magnitude(b, list[0]);
    for (int i = 1; i < n; i++) list[i] = as_large(b, vram_op_slice(t, x, b->hidden, VRAM_WHAT_HIDDEN_STATES), target, i - 1);
    vram_cell y = vram_op_sum(t, vram_op_join_all(t, n, list, vram_part_stream_size(b), VRAM_WHAT_HIDDEN_STATES), b->hidden, VRAM_WHAT_HIDDEN_STATES);
    for (int i = 0; i < n; i++) vram_tape_hold(t, list[i]);
    return y;
}

static vram_cell modalities(const block *b, vram_cell x, double n)
{
    vram_cell in = vram_op_constant(b->t, vram_part_stream_norm(b, x), 0, VRAM_WHAT_NORM_OUTPUT);
    return vram_op_unary(b->t, vram_part_linear(b, in, "modality_router", n, (double)b->pass->model->hidden, vram_part_wide(b, VRAM_SYMBOL_WIDTH, n), VRAM_WHAT_ROUTER_WEIGHTS), false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS);
}

/* Gemma3nTextDecoderLayer: all streams predicted from all, one of them through the layer beside a low-rank path, all corrected by what came of
 * it; that one, weighed by the layer's own inputs, is added to the others. */
vram_cell vram_gemma3n_layer(const block *b, vram_cell x, vram_cell *weights)
{
    static const vram_what made = VRAM_WHAT_HIDDEN_STATES;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, n = vram_gemma3n_streams(b), p = rows_of(b, "per_layer_input_gate"), rank = rows_of(b, "linear_left");
    vram_size streams = t->cell[x].shape, narrow = vram_part_wide(b, VRAM_SYMBOL_WIDTH, p);
    vram_cell coefs = vram_part_linear(b, modalities(b, vram_op_slice(t, x, b->hidden, made), n), "prediction_coefs", n * n, n, vram_part_wide(b, VRAM_SYMBOL_WIDTH, n * n), made);
    vram_cell predictions = vram_op_cast(t, vram_op_copy(t, vram_op_matmul(t, x, coefs, streams, made), streams, made), vram_width(t, x), made), active = vram_op_slice(t, predictions, b->hidden, made);
    vram_cell normed = vram_part_stream_norm(b, active), low = vram_part_linear(b, normed, "linear_left", rank, h, vram_part_wide(b, VRAM_SYMBOL_RANK, rank), made);
    vram_cell laurel = vram_op_add(t, normed, vram_part_stream_norm(b, vram_part_linear(b, low, "linear_right", h, rank, b->hidden, made)), made), attended = vram_part_stream_norm(b, vram_part_attention(b, normed, weights));
    vram_cell gated_sum = vram_op_add(t, active, attended, made), both = vram_op_constant(t, vram_op_add(t, gated_sum, laurel, made), 0, made);
    vram_cell fed = vram_part_stream_norm(b, vram_part_mlp(b, vram_part_stream_norm(b, both))), sum = vram_op_add(t, both, fed, made), modes = modalities(b, sum, n);
    vram_cell innovation = vram_op_repeat(t, vram_op_add(t, sum, active, made), streams, made);
    vram_cell shares = vram_op_shift(t, vram_part_linear(b, modes, "correction_coefs", n, n, vram_part_wide(b, VRAM_SYMBOL_WIDTH, n), made), made);
    vram_cell corrected = vram_op_add_in_place(t, vram_op_mul_rows(t, innovation, shares, made), predictions, made);
    vram_cell first = vram_op_mul_weight(t, vram_part_vector(b, h), vram_op_copy(t, vram_op_slice(t, corrected, b->hidden, made), b->hidden, made), made);
    vram_cell gate = vram_part_activation(b, vram_part_linear(b, first, "per_layer_input_gate", p, h, narrow, VRAM_WHAT_GATE)), inputs = layer_input(b, narrow);
    vram_cell back = vram_part_stream_norm(b, vram_part_linear(b, vram_op_mul(t, gate, inputs, made), "per_layer_projection", h, p, b->hidden, made));
    vram_cell y = vram_op_add_in_place(t, corrected, back, made);
    const vram_cell names[] = {predictions, normed, laurel, attended, gated_sum, both, fed, sum, back};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}
