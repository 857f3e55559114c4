/* segments.c -- see segments.h */
#include "segments.h"

#include <stddef.h>
#include <string.h>

enum { NONE = VRAM_NO_BLOCK, TAKEN = -2 }; /* a neighbour: there is none; there is one that stays for good */
static const double MIB = 1048576, STREAM = 70368744177664.0; /* 2^46: more than a block has */

void vram_segments_clear(vram_segments *p, double limit)
{
    memset(p, 0, offsetof(vram_segments, size));
    p->spare = NONE;
    p->limit = limit;
}

static short node_of(vram_segments *p, double bytes, double place, int stream)
{
    short n = p->spare;
    if (n != NONE) p->spare = p->block[n].next;
    else if (p->blocks < VRAM_SEGMENTS_BLOCKS) n = (short)p->blocks++;
    else p->full = true;
    if (n != NONE) p->block[n] = (vram_block){.bytes = bytes, .place = place, .before = NONE, .behind = NONE, .next = NONE, .last = NONE, .stream = (unsigned char)stream, .holders = 1};
    return n;
}

static void drop_node(vram_segments *p, short n)
{
    p->block[n].next = p->spare;
    p->spare = n;
}

/* ---------------------------------------------------------------------------------------------------------- free blocks -- */

static double key_of(const vram_block *b) { return b->stream * STREAM + b->bytes; }

/* First of the sizes with this key or more */
static int size_place(const vram_segments *p, double key)
{
    int low = 0, high = p->sizes;
    while (low < high) {
        int middle = (low + high) / 2;
        if (p->size[middle].key < key) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool is_whole(const vram_block *b) { return b->before == NONE && b->behind == NONE; }

/* Between two of its size: most go first or last */
static void insert(vram_segments *p, vram_block_size *size, short n)
{
    vram_block *b = &p->block[n];
    short next = size->first, last = size->last;
    if (next != NONE && p->block[next].place < b->place) {
        next = NONE;
        while (last != NONE && p->block[last].place > b->place) {
            next = last;
            last = p->block[last].last;
        }
    } else last = NONE;
    b->next = next;
    b->last = last;
    if (next == NONE) size->last = n;
    else p->block[next].last = n;
    if (last == NONE) size->first = n;
    else p->block[last].next = n;
}

static void free_add(vram_segments *p, short n)
{
    vram_block *b = &p->block[n];
    double key = key_of(b);
    int at = size_place(p, key);
    if (at == p->sizes || p->size[at].key != key) {
        if (p->sizes == VRAM_SEGMENTS_SIZES) { p->full = true; return; }
        memmove(&p->size[at + 1], &p->size[at], (size_t)(p->sizes++ - at) * sizeof p->size[0]);
        p->size[at] = (vram_block_size){key, NONE, NONE};
    }
    insert(p, &p->size[at], n);
    b->free = true;
    if (is_whole(b)) p->whole += b->bytes;
}

static void free_remove(vram_segments *p, short n)
{
    vram_block *b = &p->block[n];
    if (is_whole(b)) p->whole -= b->bytes;
    b->free = false;
    if (b->next != NONE && b->last != NONE) {
        p->block[b->next].last = b->last;
        p->block[b->last].next = b->next;
        return;
    }
    int at = size_place(p, key_of(b));
    if (at == p->sizes) return;
    vram_block_size *size = &p->size[at];
    if (b->next != NONE) p->block[b->next].last = NONE;
    else size->last = b->last;
    if (b->last != NONE) p->block[b->last].next = NONE;
    else size->first = b->next;
    if (size->first == NONE) memmove(size, size + 1, (size_t)(--p->sizes - at) * sizeof *size);
}

/* ------------------------------------------------------------------------------------------------------------- segments -- */

static double small_segments(const vram_segments *p) { return vram_round_up(p->small_most, 2 * MIB); }

static void note_most(vram_segments *p)
{
    double all = p->reserved + small_segments(p);
    p->most = vram_max(p->most, all);
    p->most_used = vram_max(p->most_used, all - p->whole);
}

static void give_back(vram_segments *p)
{
    for (short n = 0; n < p->blocks; n++) {
        vram_block *b = &p->block[n];
        if (!b->free || !is_whole(b)) continue;
        p->reserved -= b->bytes;
        free_remove(p, n);
        drop_node(p, n);
    }
}

static short segment(vram_segments *p, double bytes, int stream)
{
    double size = bytes < 10 * MIB ? 20 * MIB : vram_round_up(bytes, 2 * MIB);
    if (p->limit > 0 && p->reserved + size + small_segments(p) > p->limit) give_back(p);
    if (p->limit > 0 && p->reserved + size + small_segments(p) > p->limit) p->asked = vram_max(p->asked, p->reserved + size + small_segments(p));
    short n = node_of(p, size, p->end, stream);
    p->reserved += size;
    p->end += size;
    return n;
}

short vram_segments_take(vram_segments *p, double bytes, int stream)
{
    int at = size_place(p, stream * STREAM + bytes);
    short n;
    if (at < p->sizes && p->size[at].key < (stream + 1) * STREAM) {
        n = p->size[at].first;
        free_remove(p, n);
    } else n = segment(p, bytes, stream);
    if (n == NONE) return NONE;
    vram_block *b = &p->block[n];
    b->holders = 1;
    if (b->bytes - bytes > MIB) {
        short rest = node_of(p, b->bytes - bytes, b->place + bytes, stream);
        if (rest == NONE) return n;
        b->bytes = bytes;
        p->block[rest].before = n;
        p->block[rest].behind = b->behind;
        if (b->behind >= 0) p->block[b->behind].before = rest;
        b->behind = rest;
        free_add(p, rest);
    }
    note_most(p);
    return n;
}

/* Two neighbours are one */
static void join(vram_segments *p, short n, short behind)
{
    p->block[n].bytes += p->block[behind].bytes;
    p->block[n].behind = p->block[behind].behind;
    if (p->block[n].behind >= 0) p->block[p->block[n].behind].before = n;
    drop_node(p, behind);
}

void vram_segments_give(vram_segments *p, short n)
{
    short before = p->block[n].before, behind = p->block[n].behind;
    if (behind >= 0 && p->block[behind].free) {
        free_remove(p, behind);
        join(p, n, behind);
    }
    if (before >= 0 && p->block[before].free) {
        free_remove(p, before);
        join(p, before, n);
        n = before;
    }
    free_add(p, n);
}

void vram_segments_keep(vram_segments *p, double bytes, int stream)
{
    if (bytes <= VRAM_SMALL) {
        vram_segments_small(p, bytes);
        return;
    }
    short n = vram_segments_take(p, bytes, stream);
    if (n == NONE) return;
    const vram_block *b = &p->block[n];
    if (b->before >= 0) p->block[b->before].behind = TAKEN;
    if (b->behind >= 0) p->block[b->behind].before = TAKEN;
    drop_node(p, n);
}

void vram_segments_small(vram_segments *p, double bytes)
{
    p->small += bytes;
    if (p->small <= p->small_most) return;
    p->small_most = p->small;
    note_most(p);
}
