/* segments.h -- PyTorch's caching allocator: which block does a tensor get, what does it leave, how much has been asked of the driver.
 *
 * Blocks above 1 MiB, one by one: the smallest free block of the stream that is large enough, of several the one that lies first; else a new segment of 20 MiB for
 * less than 10 MiB, of whole 2 MiB for more. What is left beyond 1 MiB is cut off; free neighbours within a segment are one again. No segment goes back until
 * the driver has no more: then all do that no tensor is in. Smaller tensors share segments of 2 MiB, and are only counted.
 * Source: c10/cuda/CUDACachingAllocator.cpp (get_free_block, alloc_block, should_split, try_merge_blocks, release_cached_blocks) */
#ifndef VRAM_SEGMENTS_H
#define VRAM_SEGMENTS_H

#include "core.h"

enum { VRAM_SEGMENTS_BLOCKS = 8192, VRAM_SEGMENTS_SIZES = 1024, VRAM_NO_BLOCK = -1 };
#define VRAM_SMALL 1048576.0 /* bytes of the largest tensor in the small segments */

typedef struct {
    double bytes, place;       /* place: segments in the order in which they were made, then within one */
    short before, behind;      /* neighbours in its segment */
    short next, last;          /* among the free ones of its size, by place; of those in use: the caller's */
    short near;                /* where its size was among the sizes; they move little */
    unsigned char stream, holders;
    bool free;
} vram_block;

typedef struct { double key; short first, last; } vram_block_size; /* stream and bytes; its free blocks */

typedef struct {
    double limit;              /* bytes that the driver has; 0: no limit */
    double reserved, whole;    /* all segments; those that no tensor is in */
    double small, small_most, small_reserved; /* bytes of small tensors, now and at most; of their segments */
    double end;                /* place of the next segment */
    double most, most_used;    /* the most that was reserved, and that had a tensor in it, small segments included */
    double asked;              /* more than the limit, with all given back that could be; 0: never */
    bool full;                 /* more blocks than there is room for: not to be read */
    int blocks, sizes;
    short spare, near;
    vram_block_size size[VRAM_SEGMENTS_SIZES]; /* in order of their keys */
    vram_block block[VRAM_SEGMENTS_BLOCKS];
} vram_segments;

void vram_segments_clear(vram_segments *p, double limit);
short vram_segments_take(vram_segments *p, double bytes, int stream); /* bytes: a multiple of 512, more than VRAM_SMALL */
void vram_segments_give(vram_segments *p, short block);
bool vram_segments_pass(const vram_segments *p, double bytes);        /* a tensor that comes and goes at once leaves all as it was; of stream 0 */
void vram_segments_keep(vram_segments *p, double bytes, int stream);  /* takes for good: nothing has to be remembered */
void vram_segments_small(vram_segments *p, double bytes);             /* a small tensor more, or (negative) less */

#endif
