/* play.c -- two training steps from a cold start, tensor by tensor, through PyTorch's allocator.
 *
 * Weights are made module by module; then each micro-batch goes forward through embedding, layers and head, and back, as the record of the pieces says (steps.h);
 * then the optimizer makes its states (the first time) and its temporaries, parameter by parameter, and gradients go. What the first step leaves behind is
 * what the second finds: states lie in the gaps between activations, so that activations need new segments. */
#include "play.h"
#include "sharding.h"

#include <stddef.h>
#include <string.h>

enum { TENSORS = 4096, KEPT = 8192, GRADIENTS = 4096, NONE = VRAM_NO_BLOCK, SMALL = -2, STEPS = 2, MICRO_BATCHES = 3 };

typedef struct { short tensor, block; } kept;

typedef struct {
    const vram_scenario *s;
    const vram_report *report;
    const vram_steps *steps;
    const short *event;
    const double *bytes;       /* of the tensors of the piece at hand */
    vram_segments *p;
    bool full, stands;         /* gradients stand: new ones are added to them */
    short at[TENSORS];         /* blocks of the tensors of the piece at hand */
    short carried;             /* block of the tensor that goes to the next piece .. */
    double carried_bytes;
    short tied;                /* the head's gradient of the embedding's table */
    double tied_bytes;
    int kepts, gradients;
    double small_gradients, small_late;
    int late;                  /* what goes when backward is over: a chain of blocks */
    int from[VRAM_MAX_LAYERS + 2]; /* where a piece's kept tensors begin */
    kept kept[KEPT];
    short gradient[GRADIENTS];
    const vram_sharding *sharding; /* FSDP 2; NULL: no engine */
    short buffer, scatter;     /* of the last all-gather, until it is copied out; of the last reduce-scatter, until the next */
    double scatter_bytes;
    int gathered[VRAM_MAX_LAYERS + 1]; /* parameters of a layer, of the root behind them: chains of blocks .. */
    double small_gathered[VRAM_MAX_LAYERS + 1]; /* .. and small ones */
} player;

/* ----------------------------------------------------------------------------------------------------------- one tensor -- */

static short take_in(player *y, double bytes, int stream)
{
    if (bytes > VRAM_SMALL) return vram_segments_take(y->p, bytes, stream);
    vram_segments_small(y->p, bytes);
    return SMALL;
}

static short take(player *y, double bytes) { return take_in(y, bytes, 0); }

static void give(player *y, short block, double bytes)
{
    if (block == SMALL) vram_segments_small(y->p, -bytes);
    else if (block >= 0 && --y->p->block[block].holders == 0) vram_segments_give(y->p, block);
}

static void hold(player *y, short block, double bytes)
{
    if (block == SMALL) vram_segments_small(y->p, bytes);
    else if (block >= 0) y->p->block[block].holders++;
}

static void keep_gradient(player *y, short block, double bytes)
{
    if (block == SMALL) y->small_gradients += bytes;
    else if (y->gradients < GRADIENTS) y->gradient[y->gradients++] = block;
    else y->full = true;
}

static void give_later(player *y, short block, double bytes)
{
    if (block == SMALL) y->small_late += bytes;
    else if (block >= 0) {
        y->p->block[block].next = (short)y->late;
        y->late = block;
    }
}

/* ------------------------------------------------------------------------------------------------------------ one piece -- */

static void play(player *y, int from, int to)
{
    for (int i = from; i < to; i++) {
        int e = y->event[i];
        if (e >= VRAM_RECORD_ADDED) {
            e -= VRAM_RECORD_ADDED;
            if (y->stands) continue;
            keep_gradient(y, y->at[e], y->bytes[e]);
            y->at[e] = NONE;
        } else if (e >= 0) {
            if (i + 1 < to && y->event[i + 1] == ~e && y->bytes[e] > VRAM_SMALL && vram_segments_pass(y->p, y->bytes[e])) i++;
            else y->at[e] = take(y, y->bytes[e]);
        } else {
            give(y, y->at[~e], y->bytes[~e]);
            y->at[~e] = NONE;
        }
    }
}

static void begin(player *y, const vram_recorded *r)
{
    y->bytes = &y->steps->record.bytes[r->first];
    memset(y->at, -1, sizeof y->at[0] * (size_t)r->tensors);
}

static void push_kept(player *y, const vram_recorded *r, int place)
{
    y->from[place] = y->kepts;
    for (int n = 0; n < r->tensors; n++) {
        if (y->at[n] == NONE) continue;
        if (y->kepts == KEPT) { y->full = true; return; }
        y->kept[y->kepts++] = (kept){(short)n, y->at[n]};
    }
}

static void pop_kept(player *y, int place)
{
    while (y->kepts > y->from[place]) {
        kept k = y->kept[--y->kepts];
        y->at[k.tensor] = k.block;
    }
}

static void forward(player *y, const vram_recorded *r, bool input)
{
    begin(y, r);
    if (input) y->at[0] = y->carried;
    play(y, r->event[VRAM_PART_FORWARD], r->event[VRAM_PART_FORGET]);
    if (r->output < 0) return;
    y->carried = y->at[r->output];
    y->carried_bytes = y->bytes[r->output];
    if (r->shares_output) hold(y, y->carried, y->carried_bytes);
    else y->at[r->output] = NONE;
}

/* Autocast's cache, of a piece whose tensors are on the list of kept ones */
static void forget(player *y, const vram_recorded *r, int place, int behind)
{
    for (int i = r->event[VRAM_PART_FORGET]; i < r->event[VRAM_PART_BACKWARD]; i++)
        for (int k = y->from[place]; k < behind; k++) {
            if (y->event[i] != ~y->kept[k].tensor) continue;
            give(y, y->kept[k].block, y->steps->record.bytes[r->first + y->kept[k].tensor]);
            y->kept[k].block = NONE;
        }
}

static void backward(player *y, const vram_recorded *r)
{
    if (r->arriving >= 0) y->at[r->arriving] = y->carried;
    else give(y, y->carried, y->carried_bytes);
    if (r->awaited >= 0) {
        y->at[r->awaited] = y->tied;
        y->tied = NONE;
    }
    play(y, r->event[VRAM_PART_BACKWARD], r->event[VRAM_PART_END]);
    y->carried = NONE;
    if (r->leaving >= 0) {
        y->carried = y->at[r->leaving];
        y->carried_bytes = y->bytes[r->leaving];
        y->at[r->leaving] = NONE;
    }
    for (int n = 0; n < r->tensors; n++) {
        if (y->at[n] == NONE) continue;
        int kind = y->steps->record.kind[r->first + n];
        if (kind == VRAM_RECORDED_PLAIN) give_later(y, y->at[n], y->bytes[n]);
        else if (kind == VRAM_RECORDED_TIED && n != r->awaited) {
            y->tied = y->at[n];
            y->tied_bytes = y->bytes[n];
        } else keep_gradient(y, y->at[n], y->bytes[n]);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- FSDP 2 --
 * A unit's shards go through one buffer of a stream of their own; each parameter is copied out of it to the step's stream. The input of a reduce-scatter is of
 * the step's stream and stays until the next, its output, the shards of the gradients, of a third stream.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py */
enum { GATHER_STREAM = 1, SCATTER_STREAM = 2 };

static double up(double bytes) { return vram_round_up(bytes, 512); }

static const vram_sharding_unit *unit_of(const player *y, int place) { return place == y->steps->layers ? &y->sharding->root : vram_sharding_layer(y->sharding, place); }

static void gather_buffer(player *y, int place)
{
    const vram_sharding *g = y->sharding;
    const vram_sharding_unit *u = unit_of(y, place);
    double casts = g->shard_width != g->width ? up(u->shard * g->width) : 0;
    short before = y->buffer, cast = casts > 0 ? take_in(y, casts, GATHER_STREAM) : (short)NONE;
    y->buffer = take_in(y, up(u->bytes), GATHER_STREAM);
    give(y, cast, casts);
    give(y, before, 0);
}

typedef struct { player *y; int place; } destination;

static void gather_one(void *context, const vram_sharding_tensor *t)
{
    destination *d = context;
    double bytes = up(vram_sharding_round(t->rows, d->y->sharding->ranks) * t->columns * t->width);
    for (double i = 0; i < t->count; i++) {
        short block = take(d->y, bytes);
        if (block == SMALL) d->y->small_gathered[d->place] += bytes;
        if (block < 0) continue;
        d->y->p->block[block].next = (short)d->y->gathered[d->place];
        d->y->gathered[d->place] = block;
    }
}

static void gather(player *y, int place)
{
    destination d = {y, place};
    if (y->sharding == NULL || y->gathered[place] != NONE || y->small_gathered[place] > 0) return;
    vram_sharding_each(y->sharding, place == y->steps->layers ? -1 : y->s->model.layer_kind[place], gather_one, &d);
}

static void reshard(player *y, int place)
{
    if (y->sharding == NULL) return;
    for (short next; y->gathered[place] != NONE; y->gathered[place] = next) {
        next = y->p->block[y->gathered[place]].next;
        give(y, (short)y->gathered[place], 0);
    }
    vram_segments_small(y->p, -y->small_gathered[place]);
    y->small_gathered[place] = 0;
}

static bool keeps(const player *y) { return y->s->parallel.zero < 3; }

static void before_forward(player *y, int place)
{
    if (y->sharding == NULL) return;
    gather_buffer(y, place);
    gather(y, place);
}

static void drop_buffer(player *y)
{
    give(y, y->buffer, 0);
    y->buffer = NONE;
}

/* The next one's buffer is on its way as soon as this one's has been copied out. */
static void before_backward(player *y, int place, int next)
{
    if (y->sharding == NULL || keeps(y)) return;
    if (y->buffer == NONE) gather_buffer(y, place);
    gather(y, place);
    drop_buffer(y);
    if (next >= 0) gather_buffer(y, next);
}

static void give_gradients(player *y, int from)
{
    while (y->gradients > from) give(y, y->gradient[--y->gradients], 0);
    y->p->full |= y->full;
}

/* Gradients of a unit since `from`, `small` of them small ones */
static void reduce(player *y, int place, int from, double small)
{
    if (y->sharding == NULL) return;
    const vram_sharding_unit *u = unit_of(y, place);
    double output = up(u->trained_shard * y->sharding->gradient_width);
    reshard(y, place);
    give(y, y->scatter, y->scatter_bytes);
    y->scatter_bytes = up(u->trained * y->sharding->gradient_width);
    y->scatter = take(y, y->scatter_bytes);
    give_gradients(y, from);
    vram_segments_small(y->p, small - y->small_gradients);
    y->small_gradients = small;
    keep_gradient(y, take_in(y, output, SCATTER_STREAM), output);
}

/* The root's gradients are those that are no shards. */
static void reduce_root(player *y, int from)
{
    int shards = from;
    if (y->sharding == NULL) return;
    for (int i = from; i < y->gradients; i++) {
        short block = y->gradient[i];
        if (y->p->block[block].stream != SCATTER_STREAM) continue;
        y->gradient[i] = y->gradient[shards];
        y->gradient[shards++] = block;
    }
    reduce(y, y->steps->layers, shards, y->small_gradients);
    give(y, y->scatter, y->scatter_bytes);
    y->scatter = NONE;
}

/* ------------------------------------------------------------------------------------------------------- one micro-batch -- */

static const vram_recorded *layer(const player *y, int i) { return &y->steps->piece[y->steps->layer[i]]; }

static double shared(const player *y, vram_what what, double *copies)
{
    double bytes = 0;
    *copies = 1;
    for (int i = 0; i < y->report->entries; i++) {
        const vram_entry *e = &y->report->entry[i];
        if (e->component != VRAM_COMPONENT_ACTIVATIONS || e->what != what) continue;
        bytes = e->bytes;
        if (e->factor[0].symbol == VRAM_SYMBOL_COPIES) *copies = e->factor[0].value;
    }
    return vram_round_up(bytes / *copies, 512);
}

enum { SHARED = 16 };
typedef struct { int n; struct { short block; double bytes; } item[SHARED]; } shared_list;

static void take_shared(player *y, shared_list *l, double bytes)
{
    if (bytes <= 0 || l->n >= SHARED) return;
    l->item[l->n].bytes = bytes;
    l->item[l->n++].block = take(y, bytes);
}

static void give_shared(player *y, shared_list *l)
{
    while (l->n > 0) {
        l->n--;
        give(y, l->item[l->n].block, l->item[l->n].bytes);
    }
}

static void micro_batch(player *y)
{
    const vram_steps *steps = y->steps;
    const vram_recorded *embedding = &steps->piece[steps->embedding], *head = &steps->piece[steps->head];
    shared_list ids = {0}, tables = {0}, masks = {0};
    double copies, bytes;
    int top;
    take_shared(y, &ids, shared(y, VRAM_WHAT_INPUT_IDS, &copies));
    y->kepts = 0;
    before_forward(y, steps->layers);
    forward(y, embedding, false);
    short words = steps->named ? y->carried : NONE;
    double words_bytes = y->carried_bytes;
    hold(y, words, words_bytes);
    push_kept(y, embedding, steps->layers);
    bytes = shared(y, VRAM_WHAT_CAUSAL_MASK, &copies);
    for (double i = 0; i < copies; i++) take_shared(y, &masks, bytes);
    bytes = shared(y, VRAM_WHAT_ROTARY_TABLES, &copies);
    for (double i = 0; i < copies; i++) take_shared(y, &tables, bytes);
    for (int i = 0; i < steps->layers; i++) {
        before_forward(y, i);
        forward(y, layer(y, i), true);
        push_kept(y, layer(y, i), i);
        if (!keeps(y)) reshard(y, i);
    }
    give(y, words, words_bytes);
    if (!steps->mask_kept) {
        give_shared(y, &masks);
        give_shared(y, &tables);
    }
    forward(y, head, true);
    top = y->kepts;
    for (int i = steps->layers - 1; i >= 0; top = y->from[i--]) forget(y, layer(y, i), i, top);
    forget(y, embedding, steps->layers, top);
    play(y, head->event[VRAM_PART_FORGET], head->event[VRAM_PART_BACKWARD]);
    y->carried = NONE;
    if (y->sharding != NULL) drop_buffer(y);
    if (!keeps(y)) reshard(y, steps->layers);
    before_backward(y, steps->layers, steps->layers - 1);
    int shards = y->gradients;
    backward(y, head);
    double small = y->small_gradients;
    for (int i = steps->layers - 1; i >= 0; i--) {
        int from = y->gradients;
        begin(y, layer(y, i));
        pop_kept(y, i);
        before_backward(y, i, i - 1);
        backward(y, layer(y, i));
        reduce(y, i, from, small);
        small = y->small_gradients;
    }
    give_shared(y, &masks);
    give_shared(y, &tables);
    begin(y, embedding);
    pop_kept(y, steps->layers);
    backward(y, embedding);
    give(y, y->carried, y->carried_bytes);
    if (y->tied != NONE) keep_gradient(y, y->tied, y->tied_bytes);
    y->tied = y->carried = NONE;
    reduce_root(y, shards);
    for (short next; y->late != NONE; y->late = next) {
        next = y->p->block[y->late].next;
        give(y, (short)y->late, 0);
    }
    vram_segments_small(y->p, -y->small_late);
    y->small_late = 0;
    give_shared(y, &ids);
}

/* ----------------------------------------------------------------------------------------------------------- parameters -- */

typedef enum { LOAD, STATES, TEMPORARIES } visit;

static bool is_full(const player *y) { return y->s->training.method == VRAM_METHOD_FULL; }

static double trained_width(const player *y)
{
    int precision = y->s->training.precision;
    if (!is_full(y)) return vram_format_bytes(y->s->lora.dtype);
    if (y->sharding != NULL) return y->sharding->shard_width;
    return precision == VRAM_PRECISION_FP32 || precision == VRAM_PRECISION_AMP ? 4 : 2;
}

/* Source: torch/optim/adamw.py, sgd.py; transformers/optimization.py (Adafactor); bitsandbytes/optim/optimizer.py (init_state) */
static void states(player *y, double rows, double columns, double copies)
{
    double n = rows * columns * copies, width = vram_format_bytes(y->s->training.optimizer_states), moments = 2;
    switch (y->s->training.optimizer) {
    case VRAM_OPTIMIZER_ADAMW:
        vram_segments_keep(y->p, up(n * width), 0);
        vram_segments_keep(y->p, up(n * width), 0);
        break;
    case VRAM_OPTIMIZER_SGD_MOMENTUM: vram_segments_keep(y->p, up(n * width), 0); break;
    case VRAM_OPTIMIZER_LION: vram_segments_keep(y->p, up(n * 4), 0); break;
    case VRAM_OPTIMIZER_ADAFACTOR:
        vram_segments_keep(y->p, up((columns > 1 ? rows : n) * copies * 4), 0);
        if (columns > 1) vram_segments_keep(y->p, up(columns * copies * 4), 0);
        break;
    case VRAM_OPTIMIZER_LION_8BIT: moments = 1; /* fall through */
    case VRAM_OPTIMIZER_ADAMW_8BIT:
    case VRAM_OPTIMIZER_PAGED_ADAMW_8BIT:
        for (double i = 0; i < moments; i++) {
            bool small = n < 4096, paged = y->s->training.optimizer == VRAM_OPTIMIZER_PAGED_ADAMW_8BIT && n >= 1e5;
            if (!paged) vram_segments_keep(y->p, up(small ? n * 4 : n), 0);
            if (!small) vram_segments_keep(y->p, up(vram_ceil_div(n, 256) * 4), 0);
        }
        break;
    default: break;
    }
}

/* What the step makes for one parameter and lets go before the next */
static void turn(player *y, double rows, double columns, double copies)
{
    double n = rows * columns * copies, width = trained_width(y), wide = up(n * 4);
    short a, b, c, d;
    if (y->s->training.optimizer == VRAM_OPTIMIZER_ADAMW && y->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOR_LOOP) {
        a = take(y, up(n * width));
        b = take(y, up(n * width));
        give(y, a, up(n * width));
        give(y, b, up(n * width));
    }
    if (y->s->training.optimizer != VRAM_OPTIMIZER_ADAFACTOR) return;
    a = width < 4 ? take(y, wide) : NONE; /* gradient and parameter in fp32 */
    b = width < 4 ? take(y, wide) : NONE;
    c = take(y, wide);                    /* the square, and with epsilon */
    d = take(y, wide);
    give(y, c, wide);
    if (columns > 1) {
        c = take(y, wide);                /* rows x columns, the update */
        give(y, d, wide);
        d = c;
    }
    c = take(y, wide);                    /* its negative */
    give(y, c, wide);
    give(y, d, wide);
    give(y, b, wide);
    give(y, a, wide);
}

static bool each_turn(const player *y)
{
    int optimizer = y->s->training.optimizer;
    return optimizer == VRAM_OPTIMIZER_ADAFACTOR || (optimizer == VRAM_OPTIMIZER_ADAMW && y->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOR_LOOP);
}

static void stored(player *y, const vram_tensor *t, double n)
{
    const vram_format_row *f = vram_format_get(y->s->weights);
    if (y->sharding != NULL) n = vram_ceil_div(n, y->sharding->ranks);
    if (is_full(y)) vram_segments_keep(y->p, up(n * trained_width(y)), 0);
    else if (f->scheme == VRAM_SCHEME_NONE) vram_segments_keep(y->p, up(n * f->block_bytes / f->block), 0);
    else if (t->linear && t->columns > 1 && t->part != VRAM_PART_HEAD) vram_segments_keep(y->p, up(n * f->block_bytes / f->block), 0);
    else vram_segments_keep(y->p, up(n * 2), 0);
}

static void trained(player *y, visit what, double rows, double columns, double copies)
{
    if (y->sharding != NULL) rows = vram_ceil_div(rows, y->sharding->ranks);
    double bytes = up(rows * columns * copies * trained_width(y));
    if (what == LOAD) vram_segments_keep(y->p, bytes, 0);
    else if (what == STATES) states(y, rows, columns, copies);
    else if (each_turn(y)) turn(y, rows, columns, copies);
    else keep_gradient(y, take(y, bytes), bytes);
}

static void visit_tensor(player *y, visit what, const vram_tensor *t)
{
    vram_tensor mine = vram_rank_tensor(y->s, &y->s->model, t);
    double copies = t->stacked ? (double)mine.copies : 1, times = t->stacked ? 1 : (double)mine.copies;
    vram_lora_pair pair = is_full(y) ? (vram_lora_pair){0} : vram_lora_on_rank(y->s, &y->s->model, t);
    for (double i = 0; i < times && mine.layers > 0; i++) {
        double rows = (double)mine.rows, columns = (double)mine.columns;
        if (what == LOAD) stored(y, t, rows * columns * copies);
        else if (is_full(y) && !t->buffer) trained(y, what, rows, columns, copies);
    }
    double pairs = pair.count / (double)t->layers;
    for (double i = 0; i < pairs; i++) {
        trained(y, what, pair.a_rows, pair.a_columns, 1);
        trained(y, what, pair.b_rows, pair.b_columns, 1);
        if (pair.magnitudes > 0) trained(y, what, pair.magnitudes, 1, 1);
    }
}

static void visit_all(player *y, visit what)
{
    const vram_model *m = &y->s->model;
    for (int t = 0; t < m->tensors; t++)
        if (m->tensor[t].kind < 0 && m->tensor[t].part == VRAM_PART_EMBEDDING) visit_tensor(y, what, &m->tensor[t]);
    for (int64_t i = 0; i < m->layers; i++)
        for (int t = 0; t < m->tensors; t++)
            if (m->tensor[t].kind == m->layer_kind[i]) visit_tensor(y, what, &m->tensor[t]);
    for (int t = 0; t < m->tensors; t++)
        if (m->tensor[t].kind < 0 && m->tensor[t].part != VRAM_PART_EMBEDDING) visit_tensor(y, what, &m->tensor[t]);
}

static void optimizer_step(player *y, bool first)
{
    int mine = y->gradients;
    double small = y->small_gradients;
    bool denominators = y->s->training.optimizer == VRAM_OPTIMIZER_ADAMW && y->s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOREACH;
    if (first) visit_all(y, STATES);
    if (denominators || each_turn(y)) visit_all(y, TEMPORARIES);
    give_gradients(y, mine);
    vram_segments_small(y->p, small - y->small_gradients);
    give_gradients(y, 0);
    vram_segments_small(y->p, -small);
    y->small_gradients = 0;
}

/* ---------------------------------------------------------------------------------------------------------- what is played -- */

static bool playable(const vram_scenario *s, const vram_steps *steps)
{
    int optimizer = s->training.optimizer;
    bool plain = s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN && vram_gpus_of_degrees(s) <= 1, alone = vram_gpus_of_degrees(s) <= (double)s->parallel.data;
    bool shards = s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2 && alone && s->parallel.data > 1 && s->training.gradient_accumulation == 1;
    bool known = optimizer != VRAM_OPTIMIZER_MUON && optimizer != VRAM_OPTIMIZER_GALORE && optimizer != VRAM_OPTIMIZER_LOMO && !vram_steps_in_backward(s);
    if (s->training.method == VRAM_METHOD_FULL) known &= shards || s->training.precision != VRAM_PRECISION_MIXED;
    else if (shards) known &= vram_format_get(s->weights)->scheme == VRAM_SCHEME_NONE;
    for (int i = 0; i < steps->pieces && i < VRAM_STEPS_PIECES; i++) known &= steps->piece[i].tensors <= TENSORS;
    return s->task == VRAM_TASK_TRAINING && (plain || shards) && s->parallel.offload == VRAM_OFFLOAD_NONE && known && !steps->full && s->model.params_override <= 0;
}

bool vram_play(const vram_scenario *s, const vram_report *report, const vram_steps *steps, double limit, vram_segments *segments)
{
    player y;
    vram_sharding sharding;
    if (!playable(s, steps)) return false;
    memset(&y, 0, offsetof(player, from));
    memset(y.gathered, -1, sizeof y.gathered[0] * ((size_t)steps->layers + 1));
    memset(y.small_gathered, 0, sizeof y.small_gathered[0] * ((size_t)steps->layers + 1));
    y.sharding = vram_sharding_of(s, &s->model, &sharding) ? &sharding : NULL;
    y.buffer = y.scatter = NONE;
    y.s = s;
    y.report = report;
    y.steps = steps;
    y.event = steps->record.event;
    y.p = segments;
    y.carried = y.tied = NONE;
    y.late = NONE;
    vram_segments_clear(segments, limit);
    visit_all(&y, LOAD);
    for (int step = 0; step < STEPS; step++) {
        for (int64_t micro = 0; micro < s->training.gradient_accumulation && micro < MICRO_BATCHES; micro++) {
            y.stands = micro > 0;
            micro_batch(&y);
        }
        optimizer_step(&y, step == 0);
    }
    return !segments->full;
}
