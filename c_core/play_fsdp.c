/* play_fsdp.c -- FSDP in the play: each collective's tensors in the stream that makes them.
 *
 * FSDP 2: a unit's shards go through one buffer of a stream of their own; each parameter is copied out of it to the step's stream. The input of a reduce-scatter is of
 * the step's stream and stays until the next, its output, the shards of the gradients, of a third stream.
 * FSDP 1: a unit is gathered into one tensor, in the stream of gathering; its gradients are joined into one in the same, where their views were made, which is
 * filled up, reduced and cast in a third. Before the first forward every unit's tensors are made once, and let go, in the step's stream. The shards' gradients
 * stand to the next forward.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py; _flat_param.py (init_flat_param_attributes), _runtime_utils.py */
#include "player.h"

#include <stddef.h>

enum { NONE = VRAM_NO_BLOCK, ROOT = VRAM_MAX_KINDS };

static int root(const vram_player *y) { return y->steps->layers; }
static const vram_sharding_unit *unit_of(const vram_player *y, int place) { return place == root(y) ? &y->sharding->root : vram_sharding_layer(y->sharding, place); }
static bool keeps(const vram_player *y) { return y->s->parallel.zero < 3; }

static void list(vram_player *y, double bytes)
{
    if (y->gathereds < VRAM_PLAYER_GATHERED) y->gathered_bytes[y->gathereds++] = vram_player_up(bytes);
    else y->full = true;
}

static void list_one(void *context, const vram_sharding_tensor *t)
{
    vram_player *y = context;
    for (double i = 0; i < t->count && !y->full; i++) list(y, vram_sharding_round(t->rows, y->sharding->ranks) * t->columns * t->width);
}

void vram_player_units(vram_player *y)
{
    const vram_sharding *g = y->sharding;
    if (g == NULL) return;
    for (int i = 0; i <= root(y); i++) y->gathered[i] = (vram_player_chain){NONE, 0};
    for (int k = 0; k <= ROOT; k++) {
        y->gathered_from[k] = y->gathereds;
        if (y->flat) list(y, (k == ROOT ? &g->root : &g->layer[k])->shard * g->ranks * g->width);
        else if (k < y->s->model.kinds || k == ROOT) vram_sharding_each(g, k == ROOT ? -1 : k, list_one, y);
    }
    y->gathered_from[ROOT + 1] = y->gathereds;
}

/* Of the shards, in the type of the pass; 0: they are of it */
static double cast_of(const vram_player *y, int place)
{
    const vram_sharding *g = y->sharding;
    return g->shard_width != g->width ? vram_player_up(unit_of(y, place)->shard * g->width) : 0;
}

static short take_cast(vram_player *y, int place, int stream)
{
    double bytes = cast_of(y, place);
    return bytes > 0 ? vram_player_take(y, bytes, stream) : (short)NONE;
}

/* The shards are cast in a tensor of their own, then laid into the buffer. */
static void fill_buffer(vram_player *y, int place)
{
    short before = y->buffer, cast = take_cast(y, place, VRAM_PLAYER_STREAM_GATHER);
    y->buffer = vram_player_take(y, vram_player_up(unit_of(y, place)->bytes), VRAM_PLAYER_STREAM_GATHER);
    vram_player_give(y, cast, cast_of(y, place));
    vram_player_give(y, before, 0);
}

static void drop_buffer(vram_player *y)
{
    vram_player_give(y, y->buffer, 0);
    y->buffer = NONE;
}

static void gather(vram_player *y, int place)
{
    int k = place == root(y) ? ROOT : y->s->model.layer_kind[place];
    if (!vram_player_empty(&y->gathered[place])) return;
    short cast = y->flat ? take_cast(y, place, VRAM_PLAYER_STREAM_CAST) : (short)NONE;
    for (int i = y->gathered_from[k]; i < y->gathered_from[k + 1]; i++) {
        double bytes = y->gathered_bytes[i];
        vram_player_push(y, &y->gathered[place], vram_player_take(y, bytes, y->flat ? VRAM_PLAYER_STREAM_GATHER : 0), bytes);
    }
    vram_player_give(y, cast, cast_of(y, place));
}

static void reshard(vram_player *y, int place) { vram_player_give_chain(y, &y->gathered[place]); }

static void come_and_go(vram_player *y, double bytes) { vram_player_give(y, vram_player_take(y, bytes, 0), bytes); }

/* FSDP 1, root first: the cast shards, the unit as it is gathered, and, where that is of another type, in that of the shards */
static void prepare(vram_player *y)
{
    const vram_sharding *g = y->sharding;
    for (int i = -1; i < root(y); i++) {
        int place = i < 0 ? root(y) : i;
        double cast = cast_of(y, place), shard = unit_of(y, place)->shard;
        if (cast > 0) come_and_go(y, cast);
        come_and_go(y, vram_player_up(shard * g->ranks * g->width));
        if (cast > 0) come_and_go(y, vram_player_up(shard * g->ranks * g->shard_width));
    }
}

void vram_player_before_forward(vram_player *y, int place)
{
    if (y->sharding == NULL) return;
    if (!y->flat) fill_buffer(y, place);
    else if (place == root(y)) {
        vram_player_give_gradients(y, 0, 0);
        if (y->passes == 1) prepare(y);
    }
    gather(y, place);
}

void vram_player_after_forward(vram_player *y, int place)
{
    if (y->sharding == NULL) return;
    if (place == root(y)) drop_buffer(y);
    if (!keeps(y) && !(y->flat && place == root(y))) reshard(y, place);
}

/* The next one is on its way: its buffer as soon as this one's has been copied out, or itself. */
void vram_player_before_backward(vram_player *y, int place, int next)
{
    if (y->sharding == NULL || keeps(y)) return;
    if (!y->flat && y->buffer == NONE) fill_buffer(y, place);
    gather(y, place);
    drop_buffer(y);
    if (next < 0) return;
    if (!y->flat) fill_buffer(y, next);
    else if (y->s->parallel.prefetch != 0) gather(y, next);
}

static void reduce_flat(vram_player *y, int place, int from, double small)
{
    const vram_sharding *g = y->sharding;
    const vram_sharding_unit *u = unit_of(y, place);
    double joined = vram_player_up(u->trained * g->width), whole = vram_player_up(u->shard * g->ranks * g->width), shard = vram_player_up(u->shard * g->width), cast = vram_player_up(u->shard * g->gradient_width);
    short flat = vram_player_take(y, joined, VRAM_PLAYER_STREAM_GATHER);
    vram_player_give_gradients(y, from, small);
    reshard(y, place);
    short filled = joined < whole ? vram_player_take(y, whole, VRAM_PLAYER_STREAM_SCATTER) : (short)NONE;
    short low = cast != shard ? vram_player_take(y, shard, VRAM_PLAYER_STREAM_SCATTER) : (short)NONE;
    vram_player_keep_gradient(y, vram_player_take(y, cast, VRAM_PLAYER_STREAM_SCATTER), cast);
    vram_player_give(y, low, shard);
    vram_player_give(y, filled, whole);
    vram_player_give(y, flat, joined);
}

void vram_player_reduce(vram_player *y, int place, int from, double small)
{
    if (y->sharding == NULL) return;
    if (y->flat) { reduce_flat(y, place, from, small); return; }
    const vram_sharding_unit *u = unit_of(y, place);
    double output = vram_player_up(u->trained_shard * y->sharding->gradient_width);
    reshard(y, place);
    vram_player_give(y, y->scatter, y->scatter_bytes);
    y->scatter_bytes = vram_player_up(u->trained * y->sharding->gradient_width);
    y->scatter = vram_player_take(y, y->scatter_bytes, 0);
    vram_player_give_gradients(y, from, small);
    short shard = vram_player_take(y, output, VRAM_PLAYER_STREAM_SCATTER);
    if (y->stands) vram_player_give(y, shard, output);
    else vram_player_keep_gradient(y, shard, output);
}

/* The root's gradients are those that are no shards: the head's came first, the embedding's last. */
void vram_player_reduce_root(vram_player *y)
{
    int shards = 0;
    if (y->sharding == NULL) return;
    for (int i = 0; i < y->gradients; i++) {
        short block = y->gradient[i];
        if (y->p->block[block].stream != VRAM_PLAYER_STREAM_SCATTER) continue;
        y->gradient[i] = y->gradient[shards];
        y->gradient[shards++] = block;
    }
    vram_player_reduce(y, root(y), shards, y->small_gradients);
    vram_player_give(y, y->scatter, y->scatter_bytes);
    y->scatter = NONE;
}
