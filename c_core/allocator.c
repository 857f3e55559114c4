/* allocator.c -- PyTorch's caching allocator, as far as sizes go: which block does a tensor get, and what is left of it.
 *
 * Sizes are multiples of 512. Up to 1 MiB comes from small segments, cut to size. Larger: the smallest free block that holds it, or a
 * new segment, 20 MiB for less than 10 MiB, else whole 2 MiB; the rest is cut off and free again when it is larger than 1 MiB,
 * and belongs to the tensor when not. With max_split (bytes) blocks above that size are never cut, nor given to smaller tensors.
 * Free neighbours are not joined. Source: c10/cuda/CUDACachingAllocator.cpp (get_free_block, should_split, get_allocation_size) */
#include "core.h"

#include <string.h>

static const double MIB = 1048576;

static void keep(vram_allocator *a, double block)
{
    int at = a->blocks;
    if (a->blocks >= VRAM_ALLOCATOR_BLOCKS) return; /* more free blocks than any model leaves: forgets one */
    while (at > 0 && a->block[at - 1] > block) at--;
    memmove(&a->block[at + 1], &a->block[at], (size_t)(a->blocks - at) * sizeof a->block[0]);
    a->block[at] = block;
    a->blocks++;
}

/* The smallest free block that may hold so many bytes, taken; 0: none. */
static double reuse(vram_allocator *a, double bytes)
{
    int at = 0;
    while (at < a->blocks && a->block[at] < bytes) at++;
    if (at == a->blocks) return 0;
    double block = a->block[at];
    if (a->max_split > 0 && bytes < a->max_split && block >= a->max_split) return 0;
    if (a->max_split > 0 && bytes >= a->max_split && block >= bytes + 20 * MIB) return 0;
    a->blocks--;
    memmove(&a->block[at], &a->block[at + 1], (size_t)(a->blocks - at) * sizeof a->block[0]);
    return block;
}

double vram_allocator_take(vram_allocator *a, double bytes)
{
    double size = vram_round_up(bytes, 512), block = size;
    if (size > MIB) {
        block = reuse(a, size);
        if (block == 0) block = size < 10 * MIB ? 20 * MIB : vram_round_up(size, 2 * MIB);
        bool cut = (a->max_split <= 0 || size < a->max_split) && block - size > MIB;
        if (cut) keep(a, block - size);
        if (cut) block = size;
    }
    a->allocated += block;
    return block;
}

void vram_allocator_give(vram_allocator *a, double block)
{
    a->allocated -= block;
    if (block > MIB) keep(a, block);
}

/* A block for a tensor alone, from a fresh segment */
double vram_block_bytes(double bytes)
{
    double size = vram_round_up(bytes, 512), segment = vram_round_up(size, 2 * MIB);
    return size < 10 * MIB || segment - size > MIB ? size : segment; /* a rest above 1 MiB is cut off */
}

/* ------------------------------------------------------------------------------------------------------ a whole model -- */

/* One matrix of a tensor's row, how many of them a layer has, and the bytes of all that a layer has */
typedef struct { double matrix, times, layer; } tensor_row;

static tensor_row row_of(const vram_scenario *s, const vram_model *model, const vram_tensor *t, double bytes)
{
    double whole = vram_rank_layer_params(s, model, t);
    double times = t->stacked ? 1 : (double)t->copies;
    return (tensor_row){whole / times * bytes, times, whole * bytes};
}

static void take_row(vram_allocator *a, const tensor_row *row, double *tensors)
{
    for (double i = 0; i < row->times; i++) vram_allocator_take(a, row->matrix);
    *tensors += row->layer;
}

/* What the blocks of a model's tensors hold beyond them, when they are made module by module as transformers does, a number in so many bytes. */
double vram_model_slack(const vram_scenario *s, const vram_model *model, double bytes)
{
    vram_allocator a = {0};
    tensor_row row[VRAM_MAX_TENSORS];
    double tensors = 0;
    for (int t = 0; t < model->tensors; t++) row[t] = row_of(s, model, &model->tensor[t], bytes);
    for (int t = 0; t < model->tensors; t++)
        if (model->tensor[t].kind < 0 && model->tensor[t].part == VRAM_PART_EMBEDDING) take_row(&a, &row[t], &tensors);
    for (int64_t i = 0; i < model->stage.layers; i++)
        for (int t = 0; t < model->tensors; t++)
            if (model->tensor[t].kind == model->stage.kind[i]) take_row(&a, &row[t], &tensors);
    for (int t = 0; t < model->tensors; t++)
        if (model->tensor[t].kind < 0 && model->tensor[t].part != VRAM_PART_EMBEDDING) take_row(&a, &row[t], &tensors);
    return ceil(vram_max(0, a.allocated - tensors)); /* halves of bytes: four-bit matrices of an odd number of values */
}
