/* play_fsdp.c -- FSDP in the play: each collective's tensors in the stream that makes them.
 *
 * FSDP 2: a unit's shards go through one buffer of a stream of their own; each parameter is copied out of it to the step's stream. The input of a reduce-scatter is of
 * the step's stream and stays until the next, its output, the shards of the gradients, of a third stream.
 * FSDP 1: a unit is gathered into one tensor, in the stream of gathering; its gradients are joined into one in the same, where their views were made, which is
 * filled up, reduced and cast in a third. Before the first forward every unit's tensors are made once, and let go, in the step's stream. The shards' gradients stand to the next forward.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _fsdp_collectives.py; _flat_param.py (init_flat_param_attributes), _runtime_utils.py */
#include "player.h"

#include <stddef.h>

enum { NONE = VRAM_NO_BLOCK, ROOT = VRAM_MAX_KINDS };

static int root(const vram_player *y) { return y->steps->layers; }
static const vram_sharding_unit *unit_of(const vram_player *y, int place) { return place == root(y) ? &y->sharding->root : vram_sharding_layer(y->sharding, place); }
static bool keeps(const vram_player *y) { return y->s->parallel.zero < 3; }

static void list_one(void *context, const vram_sharding_tensor *t)
{
    vram_player *y = context;
    double bytes = vram_player_up(vram_sharding_round(t->rows, y->sharding->ranks) * t->columns * t->width);
    for (double i = 0; i < t->count && !y->full; i++) {
        if (y->gathereds < VRAM_PLAYER_GATHERED) y->gathered_bytes[y->gathereds++] = bytes;
        else y->full = true;
    }
}

void vram_player_units(vram_player *y)
{
    if (y->sharding == NULL) return;
    for (int i = 0; i <= root(y); i++) {
        y->gathered[i] = NONE;
        y->small_gathered[i] = 0;
    }
    for (int k = 0; k <= ROOT; k++) {
        y->gathered_from[k] = y->gathereds;
        if (k < y->s->model.kinds || k == ROOT) vram_sharding_each(y->sharding, k == ROOT ? -1 : k, list_one, y);
    }
    y->gathered_from[ROOT + 1] = y->gathereds;
}

static void reshard(vram_player *y, int place)
{
    for (short next; y->gathered[place] != NONE; y->gathered[place] = next) {
        next = y->p->block[y->gathered[place]].next;
        vram_player_give(y, y->gathered[place], 0);
    }
    vram_segments_small(y->p, -y->small_gathered[place]);
    y->small_gathered[place] = 0;
}

/* ----------------------------------------------------------------------------------------------------------------- FSDP 1 -- */

static double whole(const vram_player *y, int place) { return vram_player_up(unit_of(y, place)->shard * y->sharding->ranks * y->sharding->width); }
static bool casts(const vram_player *y) { return y->sharding->shard_width != y->sharding->width; }

static void come_and_go(vram_player *y, double bytes) { vram_player_give(y, vram_player_take(y, bytes, 0), bytes); }

static void prepare(vram_player *y, int place)
{
    const vram_sharding *g = y->sharding;
    double shard = unit_of(y, place)->shard;
    if (casts(y)) come_and_go(y, vram_player_up(shard * g->width));
    come_and_go(y, whole(y, place));
    if (casts(y)) come_and_go(y, vram_player_up(shard * g->ranks * g->shard_width));
}

static void unshard(vram_player *y, int place)
{
    double shard = casts(y) ? vram_player_up(unit_of(y, place)->shard * y->sharding->width) : 0;
    if (y->gathered[place] != NONE || y->small_gathered[place] > 0) return;
    short cast = shard > 0 ? vram_player_take(y, shard, VRAM_PLAYER_STREAM_CAST) : (short)NONE;
    short block = vram_player_take(y, whole(y, place), VRAM_PLAYER_STREAM_GATHER);
    vram_player_give(y, cast, shard);
    if (block == VRAM_BLOCK_SMALL) y->small_gathered[place] = whole(y, place);
    if (block < 0) return;
    y->p->block[block].next = NONE;
    y->gathered[place] = block;
}

static void reduce_flat(vram_player *y, int place, int from, double small)
{
    const vram_sharding *g = y->sharding;
    const vram_sharding_unit *u = unit_of(y, place);
    double joined = vram_player_up(u->trained * g->width), shard = vram_player_up(u->trained_shard * g->width), cast = vram_player_up(u->trained_shard * g->gradient_width);
    short flat = vram_player_take(y, joined, VRAM_PLAYER_STREAM_GATHER);
    vram_player_give_gradients(y, from, small);
    reshard(y, place);
    short filled = u->trained < u->trained_shard * g->ranks ? vram_player_take(y, whole(y, place), VRAM_PLAYER_STREAM_SCATTER) : (short)NONE;
    short out = vram_player_take(y, shard, VRAM_PLAYER_STREAM_SCATTER);
    if (cast != shard) {
        short low = out;
        out = vram_player_take(y, cast, VRAM_PLAYER_STREAM_SCATTER);
        vram_player_give(y, low, shard);
    }
    vram_player_give(y, filled, whole(y, place));
    vram_player_give(y, flat, joined);
    vram_player_keep_gradient(y, out, cast);
}

static void before_forward_flat(vram_player *y, int place)
{
    if (place == root(y)) vram_player_give_gradients(y, 0, 0);
    if (place == root(y) && y->passes == 1)
        for (int i = 0; i <= root(y); i++) prepare(y, i > 0 ? i - 1 : place);
    unshard(y, place);
}

static void before_backward_flat(vram_player *y, int place, int next)
{
    unshard(y, place);
    if (next >= 0 && y->s->parallel.prefetch != 0) unshard(y, next);
}

/* ----------------------------------------------------------------------------------------------------------------- FSDP 2 -- */

/* The shards are cast to the type of the pass in a tensor of their own, then laid into the buffer. */
static void fill_buffer(vram_player *y, int place)
{
    const vram_sharding *g = y->sharding;
    const vram_sharding_unit *u = unit_of(y, place);
    double casts = g->shard_width != g->width ? vram_player_up(u->shard * g->width) : 0;
    short before = y->buffer, cast = casts > 0 ? vram_player_take(y, casts, VRAM_PLAYER_STREAM_GATHER) : (short)NONE;
    y->buffer = vram_player_take(y, vram_player_up(u->bytes), VRAM_PLAYER_STREAM_GATHER);
    vram_player_give(y, cast, casts);
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
    if (y->gathered[place] != NONE || y->small_gathered[place] > 0) return;
    for (int i = y->gathered_from[k]; i < y->gathered_from[k + 1]; i++) {
        short block = vram_player_take(y, y->gathered_bytes[i], 0);
        if (block == VRAM_BLOCK_SMALL) y->small_gathered[place] += y->gathered_bytes[i];
        if (block < 0) continue;
        y->p->block[block].next = y->gathered[place];
        y->gathered[place] = block;
    }
}

void vram_player_before_forward(vram_player *y, int place)
{
    if (y->sharding == NULL) return;
    if (y->flat) { before_forward_flat(y, place); return; }
    fill_buffer(y, place);
    gather(y, place);
}

void vram_player_after_forward(vram_player *y, int place)
{
    if (y->sharding == NULL) return;
    if (place == root(y)) drop_buffer(y);
    if (!keeps(y) && !(y->flat && place == root(y))) reshard(y, place);
}

/* The next one's buffer is on its way as soon as this one's has been copied out. */
void vram_player_before_backward(vram_player *y, int place, int next)
{
    if (y->sharding == NULL || keeps(y)) return;
    if (y->flat) { before_backward_flat(y, place, next); return; }
    if (y->buffer == NONE) fill_buffer(y, place);
    gather(y, place);
    drop_buffer(y);
    if (next >= 0) fill_buffer(y, next);
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
    vram_player_keep_gradient(y, vram_player_take(y, output, VRAM_PLAYER_STREAM_SCATTER), output);
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
