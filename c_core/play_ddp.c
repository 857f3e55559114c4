/* play_ddp.c -- DDP in the play: the reducer's buckets, a copy of all gradients.
 *
 * At construction all go into one. After the first backward, when the order is known in which gradients come, buckets are made anew: one of a MiB or more, then
 * of 25 MiB or more, each closed by the parameter that makes it full.
 * Source: torch/nn/parallel/distributed.py (_BucketConfig), torch/csrc/distributed/c10d/reducer.cpp (rebuild_buckets, compute_bucket_assignment_by_size) */
#include "player.h"

enum { NONE = VRAM_NO_BLOCK };
static const double FIRST = 1048576, OTHERS = 26214400;

static void close_bucket(vram_player *y)
{
    double bytes = vram_player_up(y->bucket_bytes);
    short block = vram_player_take(y, bytes, 0);
    if (block == VRAM_BLOCK_SMALL) y->small_buckets += bytes;
    if (block >= 0) {
        y->p->block[block].next = y->buckets;
        y->buckets = block;
    }
    y->bucket_bytes = 0;
}

static void put_in(vram_player *y, double bytes)
{
    bool first = y->buckets == NONE && y->small_buckets <= 0;
    y->bucket_bytes += bytes;
    if (y->passes > 0 && y->bucket_bytes >= (first ? FIRST : OTHERS)) close_bucket(y);
}

static void give_all(vram_player *y)
{
    for (short next; y->buckets != NONE; y->buckets = next) {
        next = y->p->block[y->buckets].next;
        vram_player_give(y, y->buckets, 0);
    }
    vram_segments_small(y->p, -y->small_buckets);
    y->small_buckets = 0;
}

void vram_player_buckets(vram_player *y)
{
    if (y->s->parallel.engine != VRAM_PARALLEL_ENGINE_DDP) return;
    give_all(y);
    vram_player_each_trained(y, put_in);
    if (y->bucket_bytes > 0) close_bucket(y);
}
