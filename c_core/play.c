/* play.c -- two training steps from a cold start, tensor by tensor, through PyTorch's allocator.
 *
 * Weights are made module by module; then each micro-batch goes forward through embedding, layers and head, and back, as the record of the pieces says (steps.h);
 * then the optimizer makes its states (the first time) and its temporaries, parameter by parameter, and gradients go. What the first step leaves behind is
 * what the second finds: states lie in the gaps between activations, so that activations need new segments. */
#include "player.h"

#include <stddef.h>
#include <string.h>

/* MICRO_BATCHES: bounds what is played, and is not reached: of 509 settings with twelve micro-batches each none asked for anything after its third, nor for more
 * after one that had asked for nothing. MOST_EVENTS of a pass bounds the time: twice what the heaviest preset has, 191 thousand: Llama 3.1 405B with DoRA under autocast. */
enum { NONE = VRAM_NO_BLOCK, SMALL = VRAM_BLOCK_SMALL, STEPS = 2, MICRO_BATCHES = 4, MOST_EVENTS = 400000 };

/* ----------------------------------------------------------------------------------------------------------- one tensor -- */

short vram_player_take(vram_player *y, double bytes, int stream)
{
    if (bytes > VRAM_SMALL) return vram_segments_take(y->p, bytes, stream);
    vram_segments_small(y->p, bytes);
    return SMALL;
}

static inline void give(vram_player *y, short block, double bytes)
{
    if (block == SMALL) vram_segments_small(y->p, -bytes);
    else if (block >= 0 && --y->p->block[block].holders == 0) vram_segments_give(y->p, block);
}

void vram_player_give(vram_player *y, short block, double bytes) { give(y, block, bytes); }

static void hold(vram_player *y, short block, double bytes)
{
    if (block == SMALL) vram_segments_small(y->p, bytes);
    else if (block >= 0) y->p->block[block].holders++;
}

void vram_player_keep_gradient(vram_player *y, short block, double bytes)
{
    if (block == SMALL) y->small_gradients += bytes;
    else if (block < 0) return;
    else if (y->gradients < VRAM_PLAYER_GRADIENTS) y->gradient[y->gradients++] = block;
    else y->full = true;
}

void vram_player_give_gradients(vram_player *y, int from, double small)
{
    while (y->gradients > from) give(y, y->gradient[--y->gradients], 0);
    vram_segments_small(y->p, small - y->small_gradients);
    y->small_gradients = small;
}

void vram_player_push(vram_player *y, vram_player_chain *chain, short block, double bytes)
{
    if (block == SMALL) chain->small += bytes;
    else if (block >= 0) {
        y->p->block[block].next = chain->first;
        chain->first = block;
    }
}

void vram_player_give_chain(vram_player *y, vram_player_chain *chain)
{
    for (short next; chain->first != NONE; chain->first = next) {
        next = y->p->block[chain->first].next;
        give(y, chain->first, 0);
    }
    vram_segments_small(y->p, -chain->small);
    chain->small = 0;
}

/* ------------------------------------------------------------------------------------------------------------ one piece -- */

static void play(vram_player *y, int from, int to)
{
    for (int i = from; i < to; i++) {
        int e = y->event[i];
        if (e >= VRAM_RECORD_ADDED) {
            e -= VRAM_RECORD_ADDED;
            if (y->stands) continue; /* not under FSDP: it records none of these */
            vram_player_keep_gradient(y, y->at[e], y->bytes[e]);
            y->at[e] = NONE;
        } else if (e >= 0) {
            if (i + 1 < to && y->event[i + 1] == ~e && y->bytes[e] > VRAM_SMALL && vram_segments_pass(y->p, y->bytes[e])) i++;
            else y->at[e] = vram_player_take(y, y->bytes[e], e == y->joined ? VRAM_PLAYER_STREAM_GATHER : 0);
        } else {
            give(y, y->at[~e], y->bytes[~e]);
            y->at[~e] = NONE;
        }
    }
}

static void begin(vram_player *y, const vram_recorded *r)
{
    y->bytes = &y->steps->record.bytes[r->first];
    memset(y->at, -1, sizeof y->at[0] * (size_t)r->tensors);
}

static void push_kept(vram_player *y, const vram_recorded *r, int place)
{
    y->from[place] = y->kepts;
    for (int n = 0; n < r->tensors; n++) {
        if (y->at[n] == NONE) continue;
        if (y->kepts == VRAM_PLAYER_KEPT) { y->full = true; return; }
        y->kept[y->kepts++] = (vram_player_kept){(short)n, y->at[n]};
    }
}

static void pop_kept(vram_player *y, int place)
{
    while (y->kepts > y->from[place]) {
        vram_player_kept k = y->kept[--y->kepts];
        y->at[k.tensor] = k.block;
    }
}

static void forward(vram_player *y, const vram_recorded *r, bool input)
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
static void forget(vram_player *y, const vram_recorded *r, int place, int behind)
{
    for (int i = r->event[VRAM_PART_FORGET]; i < r->event[VRAM_PART_BACKWARD]; i++)
        for (int k = y->from[place]; k < behind; k++) {
            if (y->event[i] != ~y->kept[k].tensor) continue;
            give(y, y->kept[k].block, y->steps->record.bytes[r->first + y->kept[k].tensor]);
            y->kept[k].block = NONE;
        }
}

static void backward(vram_player *y, const vram_recorded *r)
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
        if (kind == VRAM_RECORDED_PLAIN) vram_player_push(y, &y->late, y->at[n], y->bytes[n]);
        else if (kind == VRAM_RECORDED_TIED && n != r->awaited) {
            y->tied = y->at[n];
            y->tied_bytes = y->bytes[n];
        } else vram_player_keep_gradient(y, y->at[n], y->bytes[n]);
    }
}

/* ------------------------------------------------------------------------------------------------------- one micro-batch -- */

static const vram_recorded *layer(const vram_player *y, int i) { return &y->steps->piece[y->steps->layer[i]]; }

static const vram_recorded *embedding_of(const vram_player *y) { return &y->steps->piece[y->steps->embedding]; }
static const vram_recorded *head_of(const vram_player *y) { return &y->steps->piece[y->steps->head]; }

static void go_forward(vram_player *y)
{
    const vram_steps *steps = y->steps;
    vram_player_before_forward(y, steps->layers);
    forward(y, embedding_of(y), false);
    short words = steps->named ? y->carried : NONE;
    double words_bytes = y->carried_bytes;
    hold(y, words, words_bytes);
    push_kept(y, embedding_of(y), steps->layers);
    vram_player_take_masks(y);
    for (int i = 0; i < steps->layers; i++) {
        vram_player_before_forward(y, i);
        forward(y, layer(y, i), true);
        push_kept(y, layer(y, i), i);
        vram_player_after_forward(y, i);
    }
    give(y, words, words_bytes);
    if (!steps->masks_kept) vram_player_give_masks(y);
    forward(y, head_of(y), true);
}

/* Autocast is left: all pieces' casts go, then what runs behind it, of the head */
static void leave_autocast(vram_player *y)
{
    const vram_steps *steps = y->steps;
    int top = y->kepts;
    for (int i = steps->layers - 1; i >= 0; i--) {
        forget(y, layer(y, i), i, top);
        top = y->from[i];
    }
    forget(y, embedding_of(y), steps->layers, top);
    play(y, head_of(y)->event[VRAM_PART_FORGET], head_of(y)->event[VRAM_PART_BACKWARD]);
    y->carried = NONE;
    vram_player_after_forward(y, steps->layers);
}

static void backward_layers(vram_player *y)
{
    double small = y->small_gradients;
    for (int i = y->steps->layers - 1; i >= 0; i--) {
        int from = y->gradients;
        begin(y, layer(y, i));
        pop_kept(y, i);
        vram_player_before_backward(y, i, i - 1);
        backward(y, layer(y, i));
        vram_player_reduce(y, i, from, small);
        small = y->small_gradients;
    }
}

static void backward_embedding(vram_player *y)
{
    begin(y, embedding_of(y));
    pop_kept(y, y->steps->layers);
    if (y->flat && embedding_of(y)->awaited >= 0) y->joined = embedding_of(y)->tensors - 1;
    backward(y, embedding_of(y));
    y->joined = NONE;
    give(y, y->carried, y->carried_bytes);
    if (y->tied != NONE) vram_player_keep_gradient(y, y->tied, y->tied_bytes);
    y->tied = y->carried = NONE;
}

static void micro_batch(vram_player *y)
{
    int layers = y->steps->layers;
    y->kepts = 0;
    vram_player_take_ids(y);
    if (y->passes++ == 1) vram_player_buckets(y);
    go_forward(y);
    leave_autocast(y);
    vram_player_before_backward(y, layers, layers - 1);
    backward(y, head_of(y));
    backward_layers(y);
    vram_player_give_masks(y);
    backward_embedding(y);
    vram_player_reduce_root(y);
    vram_player_give_chain(y, &y->late);
    vram_player_give_ids(y);
}

/* ---------------------------------------------------------------------------------------------------------- what is played -- */

/* A record of all that is played, and of which no list is too short */
static bool recorded(const vram_steps *steps)
{
    int events = 0;
    if (steps->full) return false;
    for (int i = 0; i < steps->pieces; i++)
        if (steps->piece[i].tensors > VRAM_PLAYER_TENSORS) return false;
    for (int i = 0; i < steps->layers; i++) {
        const vram_recorded *r = &steps->piece[steps->layer[i]];
        events += r->event[VRAM_PART_END] - r->event[VRAM_PART_FORWARD];
        if (events > MOST_EVENTS) return false;
    }
    return true;
}

static bool known_optimizer(const vram_scenario *s)
{
    int optimizer = s->training.optimizer;
    return optimizer != VRAM_OPTIMIZER_MUON && optimizer != VRAM_OPTIMIZER_GALORE && optimizer != VRAM_OPTIMIZER_LOMO && !vram_steps_in_backward(s) && s->parallel.offload == VRAM_OFFLOAD_NONE;
}

/* One GPU, or an engine of replicas or shards over several. DDP's gradients as views of buckets are accumulated beside them until the last micro-batch, FSDP 1's
 * whole: neither is played, nor LoRA under FSDP 1, which wraps adapters apart. Of mixed precision only FSDP's, whose shards are the master copy. */
static bool known_engine(const vram_scenario *s)
{
    bool full = s->training.method == VRAM_METHOD_FULL, once = s->training.gradient_accumulation == 1, mixed = full && s->training.precision == VRAM_PRECISION_MIXED;
    double gpus = vram_gpus_of_degrees(s);
    bool copies = s->parallel.zero == 0 && gpus <= (double)s->parallel.data; /* of which each does what one does alone */
    if (s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN) return copies && !mixed;
    if (s->parallel.data <= 1 || gpus > (double)s->parallel.data) return false;
    switch (s->parallel.engine) {
    case VRAM_PARALLEL_ENGINE_DDP: return !mixed && (once || s->parallel.bucket_view != 1);
    case VRAM_PARALLEL_ENGINE_FSDP1: return full && once;
    case VRAM_PARALLEL_ENGINE_FSDP2: return full || vram_format_get(s->weights)->scheme == VRAM_SCHEME_NONE;
    default: return false;
    }
}

static bool playable(const vram_scenario *s) { return s->task == VRAM_TASK_TRAINING && s->model.params_override <= 0 && known_optimizer(s) && known_engine(s); }

/* A micro-batch that adds to gradients that stand, and asks for nothing new, leaves all as it was: so do those after it. */
static void pass_all(vram_player *y)
{
    for (int64_t micro = 0; micro < y->s->training.gradient_accumulation; micro++) {
        double before = y->p->end;
        y->stands = micro > 0 || (y->s->parallel.engine == VRAM_PARALLEL_ENGINE_DDP && y->s->parallel.bucket_view == 1);
        micro_batch(y);
        if (micro > 0 && (y->p->end <= before || micro >= MICRO_BATCHES)) break;
    }
}

bool vram_play(const vram_scenario *s, const vram_report *report, const vram_steps *steps, double limit, vram_segments *segments)
{
    vram_player y;
    vram_sharding sharding;
    if (!playable(s) || !recorded(steps)) return false;
    memset(&y, 0, offsetof(vram_player, at));
    y.sharding = vram_is_fsdp(s) && vram_sharding_of(s, &s->model, s->training.method == VRAM_METHOD_LORA, &sharding) ? &sharding : NULL;
    y.flat = s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1;
    y.s = s;
    y.report = report;
    y.steps = steps;
    y.event = steps->record.event;
    y.p = segments;
    y.joined = NONE;
    y.carried = y.tied = y.buffer = y.scatter = y.late.first = y.buckets.first = y.ids.first = y.masks.first = y.tables.first = NONE;
    vram_segments_clear(segments, limit);
    vram_player_units(&y);
    vram_player_rows(&y);
    vram_player_load(&y);
    vram_player_buckets(&y);
    for (int step = 0; step < STEPS && !y.full && !segments->full; step++) {
        pass_all(&y);
        vram_player_step(&y, step == 0);
    }
    return !segments->full && !y.full;
}
