/* play_parameters.c -- parameters in the play: weights as they are loaded, the optimizer's states, what its step makes beside them.
 *
 * In order of the modules: embedding, layers, what is behind them. Source: torch/optim/adamw.py, sgd.py; transformers/optimization.py (Adafactor);
 * bitsandbytes/optim/optimizer.py (init_state) */
#include "player.h"

#include <stddef.h>

enum { NONE = VRAM_NO_BLOCK };
typedef enum { LOAD, STATES, TEMPORARIES, COPIES } visit;

static bool is_full(const vram_player *y) { return y->s->training.method == VRAM_METHOD_FULL; }

static double trained_width(const vram_player *y)
{
    if (!is_full(y)) return vram_format_bytes(y->s->lora.dtype);
    if (y->sharding != NULL) return y->sharding->shard_width;
    return vram_trains_fp32(y->s) ? 4 : 2;
}

/* FSDP 2 divides rows */
static double rows_here(const vram_player *y, double rows) { return y->sharding != NULL && !y->flat ? vram_ceil_div(rows, y->sharding->ranks) : rows; }

static double stored(const vram_player *y, const vram_tensor *t, double numbers)
{
    const vram_format_row *f = vram_format_get(y->s->weights);
    bool as_format = f->scheme == VRAM_SCHEME_NONE || vram_is_packed(t);
    if (is_full(y)) return numbers * y->trained_width;
    return numbers * (as_format ? f->block_bytes / f->block : 2);
}

void vram_player_rows(vram_player *y)
{
    const vram_model *m = &y->s->model;
    y->trained_width = trained_width(y);
    for (int i = 0; i < m->tensors; i++) {
        const vram_tensor *t = &m->tensor[i];
        vram_tensor mine = vram_rank_tensor(y->s, m, t);
        vram_player_row *r = &y->row[i];
        *r = (vram_player_row){.times = mine.layers <= 0 ? 0 : t->stacked ? 1 : (double)mine.copies, .rows = (double)mine.rows, .columns = (double)mine.columns, .copies = t->stacked ? (double)mine.copies : 1};
        r->trained = is_full(y) && !t->buffer;
        r->stored = vram_player_up(stored(y, t, rows_here(y, r->rows) * r->columns * r->copies));
        if (!is_full(y)) r->pair = vram_lora_on_rank(y->s, m, t);
        r->pairs = r->pair.count / (double)t->layers;
    }
}

static void keep(vram_player *y, double bytes) { vram_segments_keep(y->p, vram_player_up(bytes), 0); }

static void states(vram_player *y, double rows, double columns, double copies)
{
    double n = rows * columns * copies, width = vram_format_bytes(y->s->training.optimizer_states), moments = 2;
    bool small = n < 4096, paged = y->s->training.optimizer == VRAM_OPTIMIZER_PAGED_ADAMW_8BIT && n >= 1e5;
    switch (y->s->training.optimizer) {
    case VRAM_OPTIMIZER_ADAMW:
        keep(y, n * width);
        keep(y, n * width);
        break;
    case VRAM_OPTIMIZER_SGD_MOMENTUM: keep(y, n * width); break;
    case VRAM_OPTIMIZER_LION: keep(y, n * 4); break;
    case VRAM_OPTIMIZER_ADAFACTOR:
        keep(y, (columns > 1 ? rows : n) * copies * 4);
        if (columns > 1) keep(y, columns * copies * 4);
        break;
    case VRAM_OPTIMIZER_LION_8BIT: moments = 1; /* fall through */
    case VRAM_OPTIMIZER_ADAMW_8BIT:
    case VRAM_OPTIMIZER_PAGED_ADAMW_8BIT:
        for (double i = 0; i < moments; i++) {
            if (!paged) keep(y, small ? n * 4 : n);
            if (!small) keep(y, vram_ceil_div(n, 256) * 4);
        }
        break;
    default: break;
    }
}

/* AdamW's denominator is made in two tensors. */
static void adamw_turn(vram_player *y, double bytes)
{
    short root = vram_player_take(y, bytes, 0), quotient = vram_player_take(y, bytes, 0);
    vram_player_give(y, root, bytes);
    vram_player_give(y, quotient, bytes);
}

/* Adafactor's gradient and parameter in fp32, the square and the same with epsilon, rows x columns, the negative of the update */
static void adafactor_turn(vram_player *y, double bytes, bool matrix)
{
    bool copies = y->trained_width < 4;
    short gradient = copies ? vram_player_take(y, bytes, 0) : (short)NONE, parameter = copies ? vram_player_take(y, bytes, 0) : (short)NONE;
    short square = vram_player_take(y, bytes, 0), update = vram_player_take(y, bytes, 0);
    vram_player_give(y, square, bytes);
    if (matrix) {
        short product = vram_player_take(y, bytes, 0);
        vram_player_give(y, update, bytes);
        update = product;
    }
    short negative = vram_player_take(y, bytes, 0);
    vram_player_give(y, negative, bytes);
    vram_player_give(y, update, bytes);
    vram_player_give(y, parameter, bytes);
    vram_player_give(y, gradient, bytes);
}

/* Does the step make something for each parameter, or for all at once? Those stand until it is over, as gradients do. */
static bool in_turn(const vram_player *y) { return y->s->training.optimizer == VRAM_OPTIMIZER_ADAFACTOR || (y->s->training.optimizer == VRAM_OPTIMIZER_ADAMW && y->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOR_LOOP); }

/* The first rank's part of a flat parameter: tensors, of one dimension, until it is full */
static bool cut(vram_player *y, double *rows, double *columns, double *copies)
{
    if (!y->flat) return true;
    *rows = vram_min(*rows * *columns * *copies, y->left);
    *columns = *copies = 1;
    y->left -= *rows;
    return *rows > 0;
}

static void trained(vram_player *y, visit what, double all_rows, double columns, double copies)
{
    double rows = rows_here(y, all_rows);
    if (!cut(y, &rows, &columns, &copies)) return;
    double n = rows * columns * copies, bytes = vram_player_up(n * y->trained_width);
    if (what == LOAD) vram_segments_keep(y->p, bytes, 0);
    else if (what == STATES) states(y, rows, columns, copies);
    else if (what == COPIES) vram_player_put_in_bucket(y, n * y->trained_width);
    else if (vram_steps_at_once(y->s)) vram_player_keep_gradient(y, vram_player_take(y, bytes, 0), bytes);
    else if (y->s->training.optimizer == VRAM_OPTIMIZER_ADAFACTOR) adafactor_turn(y, vram_player_up(n * 4), columns > 1);
    else adamw_turn(y, bytes);
}

static void visit_row(vram_player *y, visit what, const vram_player_row *r)
{
    for (double i = 0; i < r->times; i++) {
        if (what == LOAD) vram_segments_keep(y->p, r->stored, 0);
        else if (r->trained) trained(y, what, r->rows, r->columns, r->copies);
    }
    for (double i = 0; i < r->pairs; i++) {
        trained(y, what, r->pair.a_rows, r->pair.a_columns, 1);
        trained(y, what, r->pair.b_rows, r->pair.b_columns, 1);
        if (r->pair.magnitudes > 0) trained(y, what, r->pair.magnitudes, 1, 1);
    }
}

static void visit_all(vram_player *y, visit what)
{
    const vram_model *m = &y->s->model;
    if (y->flat) y->left = y->sharding->root.shard;
    for (int t = 0; t < m->tensors; t++)
        if (m->tensor[t].kind < 0 && m->tensor[t].part == VRAM_PART_EMBEDDING) visit_row(y, what, &y->row[t]);
    double root = y->left;
    for (int64_t i = 0; i < m->layers; i++) {
        if (y->flat) y->left = vram_sharding_layer(y->sharding, i)->shard;
        for (int t = 0; t < m->tensors; t++)
            if (m->tensor[t].kind == m->layer_kind[i]) visit_row(y, what, &y->row[t]);
    }
    y->left = root;
    for (int t = 0; t < m->tensors; t++)
        if (m->tensor[t].kind < 0 && m->tensor[t].part != VRAM_PART_EMBEDDING) visit_row(y, what, &y->row[t]);
}

void vram_player_load(vram_player *y)
{
    if (!y->flat) visit_all(y, LOAD);
    for (int64_t i = 0; i <= y->s->model.layers && y->flat; i++) keep(y, (i < y->s->model.layers ? vram_sharding_layer(y->sharding, i) : &y->sharding->root)->shard_bytes);
}

void vram_player_copies(vram_player *y) { visit_all(y, COPIES); }

void vram_player_step(vram_player *y, bool first)
{
    int gradients = y->gradients;
    double small = y->small_gradients;
    if (first) visit_all(y, STATES);
    if (vram_steps_at_once(y->s) || in_turn(y)) visit_all(y, TEMPORARIES);
    vram_player_give_gradients(y, gradients, small);
    if (!y->flat) vram_player_give_gradients(y, 0, 0);
}
