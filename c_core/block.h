/* block.h -- the pieces of a model as tapes. */
#ifndef VRAM_BLOCK_H
#define VRAM_BLOCK_H

#include "tape.h"

/* What stands behind the last norm */
typedef enum {
    VRAM_HEAD_LOSS,            /* the head of the model and the loss of its class; a bare loop around it */
    VRAM_HEAD_TRAINER,         /* the same under a trainer: outputs in fp32, then its statistics (TRL's SFT with whole logits) */
    VRAM_HEAD_FUSED,           /* head and loss in one, a chunk of positions at a time (Liger) */
    VRAM_HEAD_TILED,           /* log-probabilities in tiles */
    VRAM_HEAD_CHUNKED,         /* head, then loss, an eighth of the positions at a time (torchtune) */
    VRAM_HEAD_PAIRS,           /* log-probabilities of all positions (DPO) */
    VRAM_HEAD_ANSWERS,         /* of the answers alone (GRPO, RLOO) */
    VRAM_HEAD_SAMPLES,         /* of the answers, the logits of all positions being made (PPO) */
    VRAM_HEAD_VALUE            /* one number a position */
} vram_head;

/* What one pass is about: a model, how it is stored and trained, how many tokens. */
typedef struct {
    const vram_scenario *scenario;
    const vram_model *model;
    double batch, tokens;      /* sequences, tokens each: those of this rank of context parallelism */
    bool lora;
    bool gradients;            /* false: a pass that only scores */
    bool input_gradient;       /* what the first layer gets requires a gradient: the embedding's output, or what another stage sends */
    int width;                 /* bytes of a stored 16- or 32-bit weight */
    int plain_width;           /* of norms, embedding, head */
    bool four_bit;
    double workspace;
    double dropout, attention_dropout, embedding_dropout;
    const vram_stage *stage;   /* of the model */
    vram_head head;
    bool no_autocast;          /* generate() runs outside of it */
    double scored;             /* positions of a sequence whose log-probability is asked for */
    bool reference_follows;    /* the reference's outputs stand beside the policy's when the loss is computed (DPO) */
    vram_tape_update update;   /* of a step inside backward */
    int64_t sharing[2];        /* the last layers with keys of their own, of those with a window and of those without: kept for later layers (-1: none) */
    double gradient_share;     /* bytes that the ledger counts of a parameter's gradient, of those of the parameter's type */
    bool outputs_held;         /* every layer's output is one of the model's (PPO) */
} vram_pass;

vram_pass vram_pass_of(const vram_scenario *scenario, const vram_model *model, double batch, double tokens, bool gradients);

/* Each clears the tape and writes on it. */
void vram_block_embedding(const vram_pass *pass, vram_tape *tape);
void vram_block_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *tape);
void vram_block_mixer(const vram_pass *pass, int kind, vram_tape *tape); /* a layer's state-space mixer alone */
void vram_block_head(const vram_pass *pass, vram_tape *tape); /* last norm, head, loss */
/* megatron.c: the same, divided over ranks */
void vram_megatron_embedding(const vram_pass *pass, vram_tape *tape);
void vram_megatron_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *tape);
void vram_megatron_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report);
void vram_megatron_head(const vram_pass *pass, vram_tape *tape);
/* heads.c: what follows the last norm's output, for heads other than VRAM_HEAD_LOSS */
void vram_head_choose(vram_pass *pass, vram_role role); /* by task, algorithm, loss and role */
void vram_head_write(const vram_pass *pass, vram_tape *tape, vram_cell last, vram_cell weight);
/* What the layers share: bytes of rotary tables and masks, made before the first layer */
void vram_block_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report);
bool vram_caller_keeps_logits(const vram_scenario *scenario);
bool vram_is_tied(const vram_pass *pass);
bool vram_table_stays_whole(const vram_scenario *scenario, const vram_model *model); /* its gradient, beside ranks of tensor parallelism */
/* Masks that transformers makes, held while the layers run: none for flash; none for sdpa but for windows; a number or a byte for each query and key.
 * Which there are; bytes of all, and their factors */
typedef struct { bool whole, window; } vram_masks;
vram_masks vram_block_masks(const vram_pass *pass);
double vram_block_mask(const vram_pass *pass, vram_factor factor[4]);
double vram_words_on_rank(const vram_pass *pass); /* rows of embedding and head after tensor parallelism */
double vram_stream_tokens(const vram_pass *pass); /* tokens of the residual stream after sequence parallelism */
int vram_logits_width(const vram_pass *pass); /* bytes of a number in the logits that the model returns */
int vram_stream_width(const vram_pass *pass); /* bytes of a number in the residual stream */

#endif
