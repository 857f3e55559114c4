/* ddp.c -- PyTorch's distributed data parallel: buckets hold a copy of all gradients, always, in the gradients' type.
 *
 * Unless gradient_as_bucket_view, the gradients stand beside them; the views are the gradients.
 * Source: torch/csrc/distributed/c10d/reducer.cpp (initialize_buckets, mark_variable_ready_dense, finalize_bucket_dense). */
#include "sharding.h"

void vram_ddp_items(const vram_sharding *g, vram_moment moment, int place, vram_sharding_list *list)
{
    if (moment == VRAM_MOMENT_REST) vram_sharding_add(list, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_BUCKET, 1, g->trained, g->trained_width);
    vram_sharding_tied(g, moment, place, list);
}
