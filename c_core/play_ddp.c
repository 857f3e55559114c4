/* play_ddp.c -- DDP in the play: the reducer's buckets, a copy of all gradients.
 *
 * At construction all go into one. After the first backward, when the order is known in which gradients come, buckets are made anew: one of a MiB or more, then
 * of 25 MiB or more, each closed by the parameter that makes it full. Here that order is the modules', as the optimizer has it.
 * Source: torch/nn/parallel/distributed.py (_BucketConfig), torch/csrc/distributed/c10d/reducer.cpp (rebuild_buckets, compute_bucket_assignment_by_size) */
#include "player.h"

static void close_bucket(vram_player *y)
{
    double bytes = vram_player_up(y->bucket_bytes);
    vram_player_push(y, &y->buckets, vram_player_take(y, bytes, 0), bytes);
    y->bucket_bytes = 0;
}

void vram_player_put_in_bucket(vram_player *y, double bytes)
{
    bool first = vram_player_empty(&y->buckets);
    y->bucket_bytes += bytes;
    if (y->passes > 0 && y->bucket_bytes >= (first ? 1 : 25) * 1048576.0) close_bucket(y);
}

void vram_player_buckets(vram_player *y)
{
    if (y->s->parallel.engine != VRAM_PARALLEL_ENGINE_DDP) return;
    vram_player_give_chain(y, &y->buckets);
    vram_player_copies(y);
    if (y->bucket_bytes > 0) close_bucket(y);
}
