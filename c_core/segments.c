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
    else {
        p->full = true;
        return NONE;
    }
    vram_block *b = &p->block[n];
    b->bytes = bytes;
    b->place = place;
    b->before = b->behind = NONE;
    b->stream = (unsigned char)stream;
    b->near = 0;
    b->free = false;
    return n;
}

static void drop_node(vram_segments *p, short n)
{
    p->block[n].free = false;
    p->block[n].next = p->spare;
    p->spare = n;
}

/* ---------------------------------------------------------------------------------------------------------- free blocks -- */

static double key_of(const vram_block *b) { return b->stream * STREAM + b->bytes; }

/* First of the sizes with this key or more: there are some ten of them, and it is not far from where it was. */
static int size_place(const vram_segments *p, double key, int near)
{
    int at = near < p->sizes ? near : p->sizes;
    while (at < p->sizes && p->size[at].key < key) at++;
    while (at > 0 && p->size[at - 1].key >= key) at--;
    return at;
}

static bool is_whole(const vram_block *b) { return b->before == NONE && b->behind == NONE; }

/* Between two of its size: most go first or last */
static void insert(vram_segments *p, vram_block_size *size, short n)
{
    vram_block *b = &p->block[n];
    short next = size->first, last = NONE;
    if (next != NONE && p->block[next].place < b->place) {
        next = NONE;
        last = size->last;
        while (p->block[last].place > b->place) {
            next = last;
            last = p->block[last].last;
        }
    }
    b->next = next;
    b->last = last;
    if (next == NONE) size->last = n;
    else p->block[next].last = n;
    if (last == NONE) size->first = n;
    else p->block[last].next = n;
}

static void drop_size(vram_segments *p, int at)
{
    p->sizes--;
    for (int i = at; i < p->sizes; i++) p->size[i] = p->size[i + 1];
}

/* A block is free. `hole`: a size that has just lost its last block, to be taken over where that is near; NONE: there is none. */
static void free_add(vram_segments *p, short n, int hole)
{
    vram_block *b = &p->block[n];
    double key = key_of(b);
    int at = hole;
    if (hole == NONE) {
        at = size_place(p, key, b->near);
        if (at == p->sizes || p->size[at].key != key) {
            if (p->sizes == VRAM_SEGMENTS_SIZES) { p->full = true; return; }
            hole = p->sizes++;
            for (; hole > at; hole--) p->size[hole] = p->size[hole - 1];
        }
    } else {
        for (; at + 1 < p->sizes && p->size[at + 1].key < key; at++) p->size[at] = p->size[at + 1];
        for (; at > 0 && p->size[at - 1].key > key; at--) p->size[at] = p->size[at - 1];
        hole = at;
        if (at > 0 && p->size[at - 1].key == key) at--;
        else if (at + 1 < p->sizes && p->size[at + 1].key == key) at++;
    }
    if (at == hole) p->size[at] = (vram_block_size){key, NONE, NONE};
    b->near = (short)at;
    insert(p, &p->size[at], n);
    if (at != hole && hole != NONE) drop_size(p, hole);
    b->free = true;
    if (is_whole(b)) p->whole += b->bytes;
}

/* The first of a size; *hole: the size, when it was the last, too */
static short pop(vram_segments *p, int at, int *hole)
{
    short n = p->size[at].first, next = p->block[n].next;
    if (is_whole(&p->block[n])) p->whole -= p->block[n].bytes;
    p->block[n].free = false;
    p->size[at].first = next;
    if (next != NONE) p->block[next].last = NONE;
    else *hole = at;
    return n;
}

static void fill(vram_segments *p, int hole)
{
    if (hole != NONE) drop_size(p, hole);
}

static void free_remove(vram_segments *p, short n, int *hole)
{
    vram_block *b = &p->block[n];
    if (b->last != NONE && b->next != NONE) {
        p->block[b->next].last = b->last;
        p->block[b->last].next = b->next;
    } else {
        int at = size_place(p, key_of(b), b->near);
        if (b->last == NONE) {
            if (b->next == NONE && *hole != NONE) { /* one is enough */
                fill(p, *hole);
                if (*hole < at) at--;
            }
            pop(p, at, hole);
            return;
        }
        p->size[at].last = b->last;
        p->block[b->last].next = NONE;
    }
    if (is_whole(b)) p->whole -= b->bytes;
    b->free = false;
}

/* ------------------------------------------------------------------------------------------------------------- segments -- */

static void note_most(vram_segments *p)
{
    double all = p->reserved + p->small_reserved;
    p->most = vram_max(p->most, all);
    p->most_used = vram_max(p->most_used, all - p->whole);
}

static void give_back(vram_segments *p)
{
    for (short n = 0; n < p->blocks; n++) {
        vram_block *b = &p->block[n];
        if (!b->free || !is_whole(b)) continue;
        p->reserved -= b->bytes;
        int hole = NONE;
        free_remove(p, n, &hole);
        fill(p, hole);
        drop_node(p, n);
    }
}

static short segment(vram_segments *p, double bytes, int stream)
{
    double size = bytes < 10 * MIB ? 20 * MIB : vram_round_up(bytes, 2 * MIB);
    if (p->limit > 0 && p->reserved + size + p->small_reserved > p->limit) give_back(p);
    if (p->limit > 0 && p->reserved + size + p->small_reserved > p->limit) p->asked = vram_max(p->asked, p->reserved + size + p->small_reserved);
    short n = node_of(p, size, p->end, stream);
    p->reserved += size;
    p->end += size;
    return n;
}

short vram_segments_take(vram_segments *p, double bytes, int stream)
{
    int at = size_place(p, stream * STREAM + bytes, p->near), hole = NONE;
    short n;
    if (at < p->sizes && p->size[at].key < (stream + 1) * STREAM) n = pop(p, at, &hole);
    else n = segment(p, bytes, stream);
    if (n == NONE) return NONE;
    vram_block *b = &p->block[n];
    b->holders = 1;
    b->near = p->near = (short)at;
    if (b->bytes - bytes <= MIB) fill(p, hole);
    else {
        short rest = node_of(p, b->bytes - bytes, b->place + bytes, stream);
        if (rest == NONE) {
            fill(p, hole);
            return n;
        }
        b->bytes = bytes;
        p->block[rest].before = n;
        p->block[rest].behind = b->behind;
        if (b->behind >= 0) p->block[b->behind].before = rest;
        b->behind = rest;
        free_add(p, rest, hole);
    }
    note_most(p);
    return n;
}

/* True when a free block holds it, and whichever does makes no new record of what is in use. */
bool vram_segments_pass(const vram_segments *p, double bytes)
{
    int last = p->sizes - 1;
    while (last >= 0 && p->size[last].key >= STREAM) last--;
    if (last < 0 || p->size[last].key < bytes) return false;
    return p->reserved + p->small_reserved - p->whole + p->size[last].key <= p->most_used;
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
    int hole = NONE;
    if (behind >= 0 && p->block[behind].free) {
        free_remove(p, behind, &hole);
        join(p, n, behind);
    }
    if (before >= 0 && p->block[before].free) {
        free_remove(p, before, &hole);
        join(p, before, n);
        n = before;
    }
    free_add(p, n, hole);
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
    if (p->small_most <= p->small_reserved) return;
    p->small_reserved = vram_round_up(p->small_most, 2 * MIB);
    note_most(p);
}
