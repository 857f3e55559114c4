/* replay.h -- one training step: who is alive at the peak of each phase. */
#ifndef VRAM_REPLAY_H
#define VRAM_REPLAY_H

#include "block.h"
#include "sharding.h"

/* What the replay has to be told of parameters, and what it finds out about their gradients */
typedef struct {
    const vram_sharding *sharding; /* NULL: none */
    bool gradients_stand;      /* every parameter has its gradient before the pass (accumulation, a flat buffer): new ones are added to it */
    double logits_bytes;       /* out: the logits that the caller still holds when the step begins ... */
    double logits[4];          /* ... micro-batch, sequence, vocabulary, bytes a number */
    double gradient_elements;  /* out: gradients alive at backward's peak, when they do not stand */
} vram_replay;

/* Appends the entries of forward, loss and backward of one micro-batch. */
void vram_replay_step(const vram_pass *pass, vram_role role, vram_replay *replay, vram_report *report);
void vram_replay_logits(const vram_replay *replay, vram_role role, unsigned phases, vram_report *report);
/* The same without gradients, as entries of `phase`; logit_rows: positions of a sequence with logits, 0: no head. */
void vram_replay_forward(const vram_pass *pass, vram_role role, double logit_rows, vram_phase phase, vram_report *report);

#endif
