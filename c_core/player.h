/* player.h -- what the parts of the play share: play.c has the pieces, play_shared.c what all layers share, play_parameters.c weights and the optimizer, play_fsdp.c and play_ddp.c the engines. */
#ifndef VRAM_PLAYER_H
#define VRAM_PLAYER_H

#include "play.h"
#include "sharding.h"

enum {
    VRAM_PLAYER_TENSORS = 4096, VRAM_PLAYER_KEPT = 8192, VRAM_PLAYER_GRADIENTS = 4096, VRAM_PLAYER_GATHERED = 1024, VRAM_PLAYER_STREAM_GATHER = 1, VRAM_PLAYER_STREAM_SCATTER = 2, VRAM_PLAYER_STREAM_CAST = 3,
    VRAM_BLOCK_SMALL = -2      /* instead of a block: a small tensor, which is only counted */
};

typedef struct { short tensor, block; } vram_player_kept;
typedef struct { short first; double small; } vram_player_chain; /* blocks one behind the other, and bytes of small tensors */

/* A row of the model's table as it is on this rank: `times` tensors of rows x columns x copies, and pairs of an adapter's; bytes of a stored one */
typedef struct { double times, rows, columns, copies, stored; bool trained; vram_lora_pair pair; double pairs; } vram_player_row;

typedef struct {
    const vram_scenario *s;
    const vram_report *report;
    const vram_steps *steps;
    const short *event;
    const double *bytes;       /* of the tensors of the piece at hand */
    const vram_sharding *sharding; /* FSDP; NULL: no engine */
    bool flat;                 /* FSDP 1: parameters of a unit are one tensor, and their gradients */
    double left;               /* and so much of it is on this rank that has not been visited */
    vram_segments *p;
    bool full;                 /* a list was too short */
    bool stands;               /* gradients stand: new ones are added to them; under FSDP their shards */
    short carried;             /* block of the tensor that goes to the next piece .. */
    double carried_bytes;
    short tied;                /* the head's gradient of the embedding's table */
    double tied_bytes;
    int kepts, gradients, gathereds, passes;
    int joined;                /* tensor of the piece at hand that FSDP 1 makes where views are joined: the sum of a tied table's gradients */
    double small_gradients;
    vram_player_chain late;    /* what goes when backward is over */
    short buffer, scatter;     /* of the last all-gather, until it is copied out; of the last reduce-scatter, until the next */
    vram_player_chain buckets; /* DDP's */
    double bucket_bytes;       /* in the one at hand */
    double scatter_bytes, trained_width;
    vram_player_chain ids, masks, tables;
    short at[VRAM_PLAYER_TENSORS]; /* blocks of the tensors of the piece at hand */
    int from[VRAM_MAX_LAYERS + 2]; /* where a piece's kept tensors begin */
    vram_player_kept kept[VRAM_PLAYER_KEPT];
    short gradient[VRAM_PLAYER_GRADIENTS];
    vram_player_chain gathered[VRAM_MAX_LAYERS + 1]; /* parameters of a layer, of the root behind them */
    int gathered_from[VRAM_MAX_KINDS + 2]; /* sizes of a kind's parameters, of the root's: where they begin */
    double gathered_bytes[VRAM_PLAYER_GATHERED];
    vram_player_row row[VRAM_MAX_TENSORS];
} vram_player;

/* ---- play.c ---- */
short vram_player_take(vram_player *y, double bytes, int stream); /* bytes: rounded up */
void vram_player_give(vram_player *y, short block, double bytes);
void vram_player_keep_gradient(vram_player *y, short block, double bytes);
void vram_player_give_gradients(vram_player *y, int from, double small); /* those since; small: what small ones came to then */
void vram_player_push(vram_player *y, vram_player_chain *chain, short block, double bytes);
void vram_player_give_chain(vram_player *y, vram_player_chain *chain);
static inline bool vram_player_empty(const vram_player_chain *chain) { return chain->first == VRAM_NO_BLOCK && chain->small <= 0; }
static inline double vram_player_up(double bytes) { return vram_round_up(bytes, 512); }

/* ---- play_shared.c ---- */
void vram_player_take_ids(vram_player *y);
void vram_player_take_masks(vram_player *y); /* and the tables of positions */
void vram_player_give_masks(vram_player *y);
void vram_player_give_ids(vram_player *y);

/* ---- play_parameters.c ---- */
void vram_player_rows(vram_player *y);
void vram_player_load(vram_player *y);
void vram_player_step(vram_player *y, bool first); /* the optimizer's; gradients go */
void vram_player_copies(vram_player *y); /* of all gradients, in buckets */

/* ---- play_ddp.c; does nothing under another engine ---- */
void vram_player_buckets(vram_player *y);
void vram_player_put_in_bucket(vram_player *y, double bytes);

/* ---- play_fsdp.c; each does nothing where there is no engine. The root's place is behind the layers. ---- */
void vram_player_units(vram_player *y);
void vram_player_before_forward(vram_player *y, int place);
void vram_player_after_forward(vram_player *y, int place);
void vram_player_before_backward(vram_player *y, int place, int next);
void vram_player_reduce(vram_player *y, int place, int from, double small); /* gradients since `from` */
void vram_player_reduce_root(vram_player *y);

#endif
