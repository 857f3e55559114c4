/* steps.h -- a training step as a list of allocations, for reserve.c to play through PyTorch's allocator.
 *
 * replay.c runs each different piece of a model (embedding, layers, head) once; here is what those runs made and let go, event by event, and how the pieces hand
 * tensors on: a piece's output is the input of the next, the gradient of its input that of the output of the one before. */
#ifndef VRAM_STEPS_H
#define VRAM_STEPS_H

#include "block.h"

enum { VRAM_STEPS_PIECES = 32 };

/* Where the parts of a piece begin in the record */
typedef enum {
    VRAM_PART_FORWARD,         /* of the head: its last norm, the logits, and the loss as far as autocast reaches */
    VRAM_PART_FORGET,          /* what autocast's cache lets go when it is left; of the head also what comes after */
    VRAM_PART_BACKWARD,
    VRAM_PART_END,
    VRAM_PARTS
} vram_recorded_part;

typedef struct {
    int event[VRAM_PARTS];
    int first, tensors;        /* its tensors in the record; tensor 0 is its input, of all but the embedding */
    short output;              /* -1: none */
    bool shares_output;        /* and holds it itself, too */
    short arriving;            /* gradient of the output; -1: none */
    short leaving;             /* gradient of the input; -1: none */
    short awaited;             /* of the embedding: the gradient that the head has made of the same table; -1: none */
} vram_recorded;

typedef struct vram_steps {
    vram_record record;
    int pieces;
    vram_recorded piece[VRAM_STEPS_PIECES];
    unsigned char layer[VRAM_MAX_LAYERS]; /* a layer's piece */
    unsigned char embedding, head;
    int layers;
    bool full;                 /* a list was too short: not to be played */
    bool named;                /* the embeddings have a name while the layers run */
    vram_masks masks;          /* held while the layers run, */
    bool masks_kept;           /* and until the first has gone backward */
    double mask, pairs;        /* bytes of one; of a boolean for each query and key */
} vram_steps;

#endif
