/* replay.h -- one training step: who is alive at the peak of each phase. */
#ifndef VRAM_REPLAY_H
#define VRAM_REPLAY_H

#include "block.h"
#include "sharding.h"
#include "steps.h"

/* What the replay has to be told of parameters, and what it finds out about their gradients */
typedef struct {
    const vram_sharding *sharding; /* NULL: none */
    bool gradients_stand;      /* every parameter has its gradient before the pass (accumulation, a flat buffer): new ones are added to it */
    double logits_bytes;       /* out: the logits that the caller still holds when the step begins ... */
    double logits[4];          /* ... micro-batch, sequence, vocabulary, bytes a number */
    vram_steps *steps;         /* NULL, or where the runs of the pieces are written down */
    double gradient_elements;  /* out: gradients alive at backward's peak, when they do not stand; a tied table's two count twice */
} vram_replay;

/* What of a pass is alive in a phase of the report */
typedef enum {
    VRAM_ALIVE_FORWARD, VRAM_ALIVE_LOSS, VRAM_ALIVE_BACKWARD, /* the fullest instants of the three */
    VRAM_ALIVE_HELD,           /* what the pass holds when its forward is over and the loss not yet computed */
    VRAM_ALIVE_LATER,          /* when its backward begins */
    VRAM_ALIVE_DONE,           /* when its backward is over: gradients */
    VRAM_ALIVE_LASTING,        /* what modules keep of it until their next forward */
    VRAM_ALIVE_COUNT
} vram_alive;
typedef struct { vram_alive alive; vram_phase phase; } vram_when;

/* Appends the entries of one micro-batch: of each `when` what is then alive. At most six. */
void vram_replay_when(const vram_pass *pass, vram_role role, vram_replay *replay, int whens, const vram_when when[], vram_report *report);

/* The pass's part of every instant of it, in order, by component. curve->point[..].bytes are 0 before. */
void vram_replay_curve(const vram_pass *pass, const vram_replay *replay, vram_timeline *curve);

void vram_replay_logits(const vram_replay *replay, vram_role role, unsigned phases, vram_report *report);
/* A pass without gradients, as entries of `phase`; pass->scored 0: no head. Returns its bytes; with no report, only these. */
double vram_replay_forward(const vram_pass *pass, vram_role role, vram_phase phase, vram_report *report);

/* ---- training.c ---- */

/* One trained model in its role: weights, gradients, master weights, optimizer states (alive in all phases of the report from load on;
 * gradients as the precision and engine have it), adapters when LoRA; and by replay a micro-batch of `sequences` x `tokens`. */
void vram_train_when(const vram_scenario *scenario, const vram_model *model, vram_role role, double sequences, double tokens, int whens, const vram_when when[], vram_steps *steps, vram_report *report);

#endif
