/* generate.h -- one forward pass of transformers, acted out: which tensors stand at its fullest instant.
 *
 * Tensors are made and dropped in the order of the modules' code. */
#ifndef VRAM_GENERATE_H
#define VRAM_GENERATE_H

#include "core.h"

enum { VRAM_GENERATE_LIVE = 96 };

/* rows: of batch * tokens, or 0: width is all of it, as a product of these factors where it has any */
typedef struct { vram_what what; double copies, rows, width, bytes; int factors; vram_factor factor[4]; } vram_generate_tensor;

/* The tensors alive now, and at the fullest instant so far, unless that is now (rising). */
typedef struct {
    int alive, at_peak;
    bool rising;
    double sum, most;
    double sequences, tokens, past; /* this pass: new tokens of each sequence, and tokens in the cache before */
    double bytes;                   /* a number of the compute type */
    double ranks;
    bool eager, unpacks;
    const vram_scenario *scenario;
    int weights;                    /* this layer's attention probabilities, which eager attention returns; -1: none */
    int old_k, old_v;               /* this layer's cache before the pass; -1: none */
    double own;                     /* its bytes */
    vram_generate_tensor live[VRAM_GENERATE_LIVE], peak[VRAM_GENERATE_LIVE];
} vram_generate_stage;

typedef struct {
    const vram_scenario *scenario;
    const vram_model *model;
    vram_role role;
    unsigned prefill, decode; /* phases */
    double sequences, bytes;
    double prompt, tokens;
    double sampled;        /* fp32 copies of the last position's logits that choosing the next token makes */
} vram_generate_pass;

void vram_generate_act(vram_generate_stage *s, const vram_generate_pass *p, double tokens, double past, const vram_layer *layer); /* a layer of a kind; NULL: the head */
double vram_generate_bytes(const vram_generate_stage *s, const vram_generate_tensor *t);

#endif
