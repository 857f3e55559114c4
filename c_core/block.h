/* block.h -- the pieces of a model as tapes. */
#ifndef VRAM_BLOCK_H
#define VRAM_BLOCK_H

#include "tape.h"

/* What one pass is about: a model, how it is stored and trained, how many tokens. */
typedef struct {
    const vram_scenario *scenario;
    const vram_model *model;
    double batch, tokens;      /* sequences, tokens each */
    bool lora;
    bool gradients;            /* false: a pass that only scores */
    bool input_gradient;       /* the embedding's output requires a gradient */
    int width;                 /* bytes of a stored 16- or 32-bit weight */
    int plain_width;           /* of norms, embedding, head: fp32 after prepare_model_for_kbit_training */
    bool four_bit;
    double workspace;
    vram_stage stage;          /* of the pipeline */
} vram_pass;

vram_pass vram_pass_of(const vram_scenario *scenario, const vram_model *model, double batch, double tokens, bool gradients);

/* Each clears the tape and writes on it. */
void vram_block_embedding(const vram_pass *pass, vram_tape *tape);
void vram_block_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *tape);
void vram_block_head(const vram_pass *pass, vram_tape *tape); /* last norm, head, loss */
/* megatron.c: the same, divided over ranks */
void vram_megatron_embedding(const vram_pass *pass, vram_tape *tape);
void vram_megatron_layer(const vram_pass *pass, int kind, vram_tape *tape);
void vram_megatron_shared(const vram_pass *pass, vram_role role, vram_report *report);
void vram_megatron_head(const vram_pass *pass, vram_tape *tape);
/* What the layers share: bytes of rotary tables and masks, made before the first layer */
void vram_block_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report);
bool vram_caller_keeps_logits(const vram_scenario *scenario);
int vram_stream_width(const vram_pass *pass); /* bytes of a number in the residual stream */

#endif
