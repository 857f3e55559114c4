/* play_shared.c -- in the play, what all layers share: the ids of the words, attention's masks, cos and sin of the positions.
 *
 * What making them leaves behind is found by the first layer's tensors. Of masks the record tells: beside them layers make some of their own, which the ledger
 * lists under the same name. Source: transformers/masking_utils.py (sdpa_mask, eager_mask, and_masks), models/llama/modeling_llama.py (LlamaRotaryEmbedding) */
#include "player.h"

#include <stddef.h>

static const vram_entry *entry_of(const vram_player *y, vram_what what)
{
    for (int i = 0; i < y->report->entries; i++)
        if (y->report->entry[i].component == VRAM_COMPONENT_ACTIVATIONS && y->report->entry[i].what == what) return &y->report->entry[i];
    return NULL;
}

static void push_new(vram_player *y, vram_player_chain *chain, double bytes) { vram_player_push(y, chain, vram_player_take(y, bytes, 0), bytes); }

void vram_player_take_ids(vram_player *y)
{
    const vram_entry *e = entry_of(y, VRAM_WHAT_INPUT_IDS);
    if (e != NULL) push_new(y, &y->ids, vram_player_up(e->bytes));
}

/* One condition more: what held so far is copied, what holds now is made, then both */
static short and_another(vram_player *y, short seen, double bytes)
{
    short so_far = vram_player_take(y, bytes, 0);
    vram_player_give(y, seen, bytes);
    short more = vram_player_take(y, bytes, 0), both = vram_player_take(y, bytes, 0);
    vram_player_give(y, more, bytes);
    vram_player_give(y, so_far, bytes);
    return both;
}

/* A boolean for each query and key: those not behind; of a window, those in it too; of rows packed with documents, those of the same one too */
static short booleans(vram_player *y, bool window, double bytes)
{
    short seen = vram_player_take(y, bytes, 0);
    if (window) seen = and_another(y, seen, bytes);
    if (y->s->training.packing == VRAM_PACKING_BFD) seen = and_another(y, seen, bytes);
    return seen;
}

/* A mask of numbers is made from the booleans; sdpa takes them as they are. */
static void take_mask(vram_player *y, bool window)
{
    double bytes = vram_player_up(y->steps->pairs), numbers = vram_player_up(y->steps->mask);
    short seen = booleans(y, window, bytes);
    if (y->steps->mask > y->steps->pairs) {
        push_new(y, &y->masks, numbers);
        vram_player_give(y, seen, bytes);
    } else vram_player_push(y, &y->masks, seen, bytes);
}

/* Of so many bytes each, `wide` in fp32: frequencies of half as many numbers, all angles, of each table itself and times a scale; cast when both are there */
static void take_pair(vram_player *y, double bytes, double wide)
{
    double half = vram_player_up(wide / 2), whole = vram_player_up(wide);
    short frequencies = vram_player_take(y, half, 0), angles = vram_player_take(y, whole, 0), made[2];
    for (int i = 0; i < 2; i++) {
        short plain = vram_player_take(y, whole, 0);
        made[i] = vram_player_take(y, whole, 0);
        vram_player_give(y, plain, whole);
    }
    bool cast = wide > bytes;
    for (int i = 0; i < 2; i++) vram_player_push(y, &y->tables, cast ? vram_player_take(y, vram_player_up(bytes), 0) : made[i], vram_player_up(bytes));
    vram_player_give(y, frequencies, half);
    vram_player_give(y, angles, whole);
    for (int i = 0; i < 2 && cast; i++) vram_player_give(y, made[i], whole);
}

void vram_player_take_masks(vram_player *y)
{
    const vram_entry *e = entry_of(y, VRAM_WHAT_ROTARY_TABLES);
    if (y->steps->masks.whole) take_mask(y, false);
    if (y->steps->masks.window) take_mask(y, true);
    if (e == NULL) return;
    double tables = e->factor[0].value, bytes = e->bytes / tables; /* block.c: copies first, bytes of a number last */
    for (double i = 0; i < tables; i += 2) take_pair(y, bytes, bytes / e->factor[e->factors - 1].value * 4);
}

void vram_player_give_masks(vram_player *y)
{
    vram_player_give_chain(y, &y->masks);
    vram_player_give_chain(y, &y->tables);
}

void vram_player_give_ids(vram_player *y) { vram_player_give_chain(y, &y->ids); }
