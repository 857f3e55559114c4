/* heads.c -- what a trainer puts behind the last norm: the head, log-probabilities, what is kept of them.
 *
 * Sources: trl 1.16, trainer/utils.py (add_fused_lm_head) and kernels/chunked_logprob.py (tiles); trl 1.5.1, trainer/sft_trainer.py,
 * dpo_trainer.py, grpo_trainer.py, experimental/ppo/ppo_trainer.py (whole logits), utils.py (selective_log_softmax);
 * liger_kernel/transformers/fused_linear_cross_entropy.py; accelerate/utils/operations.py (convert_to_fp32: under autocast a model's outputs are turned to fp32). */
#include "block.h"

#include <string.h>

enum { TILE_ROWS = 4096, TILE_WORDS = 32768 };

typedef struct { const vram_pass *pass; vram_tape *t; double words, hidden; } writer;

/* b x rows x width */
static vram_size size_of(const writer *w, double sequences, double rows, vram_symbol symbol, double width)
{
    return vram_tape_size(w->t, 3, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, sequences}, {VRAM_SYMBOL_SEQUENCE, rows}, {symbol, width}});
}

static vram_size words_of(const writer *w, double rows) { return size_of(w, w->pass->batch, rows, VRAM_SYMBOL_VOCABULARY, w->words); }
static vram_size table_of(const writer *w, double rows, double columns)
{
    return vram_tape_size(w->t, 2, (const vram_factor[]){{VRAM_SYMBOL_ROWS, rows}, {VRAM_SYMBOL_WIDTH, columns}});
}

static vram_cell as_logits(const writer *w, vram_cell x)
{
    w->t->cell[x].component = VRAM_COMPONENT_LOGITS;
    return x;
}

static vram_cell whole_logits(const writer *w, vram_cell hidden, vram_cell weight, double rows)
{
    return as_logits(w, vram_op_linear(w->t, hidden, weight, VRAM_NO_CELL, words_of(w, rows), VRAM_WHAT_LOGITS));
}

/* What the caller of the model gets */
static vram_cell outputs_of(const writer *w, vram_cell logits)
{
    return w->pass->scenario->training.autocast ? as_logits(w, vram_op_cast(w->t, logits, 4, VRAM_WHAT_LOGITS_FP32)) : logits;
}

static void tiled(const writer *w, vram_cell last, vram_cell weight)
{
    vram_tape *t = w->t;
    const vram_pass *p = w->pass;
    double rows = p->batch * p->scored, tile = vram_min(rows, TILE_ROWS);
    vram_tile_sizes sizes = {table_of(w, tile, TILE_WORDS), table_of(w, vram_min(w->words, TILE_WORDS), w->hidden), table_of(w, tile, w->hidden),
                             vram_tape_size(t, 2, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, p->batch}, {VRAM_SYMBOL_SEQUENCE, p->scored}})};
    vram_size index = vram_tape_size(t, 3, (const vram_factor[]){{VRAM_SYMBOL_COPIES, 2}, {VRAM_SYMBOL_MICRO_BATCH, p->batch}, {VRAM_SYMBOL_SEQUENCE, p->scored}});
    vram_cell shifted = vram_op_slice(t, last, size_of(w, p->batch, p->tokens - 1, VRAM_SYMBOL_HIDDEN, w->hidden), VRAM_WHAT_NORM_OUTPUT);
    vram_cell picked = vram_op_pick(t, shifted, index, size_of(w, p->batch, p->scored, VRAM_SYMBOL_HIDDEN, w->hidden), VRAM_WHAT_LABEL_STATES);
    if (!p->reference_follows) vram_tape_mark(t);
    vram_op_tiled(t, picked, weight, &sizes);
    vram_tape_hold(t, last);
    if (!p->reference_follows) return;
    vram_tape_mark(t);
    vram_tape_leave(t);
}

/* As many positions at a time as make the logits about as large as the hidden states: the next power of two of rows / ceil(V / h) */
static void fused(const writer *w, vram_cell last, vram_cell weight)
{
    const vram_pass *p = w->pass;
    double rows = p->batch * p->tokens, least = vram_ceil_div(rows, vram_ceil_div(w->words, w->hidden)), chunk = 1;
    while (chunk < least) chunk *= 2;
    vram_tape_mark(w->t);
    vram_op_fused_loss(w->t, last, weight, table_of(w, vram_min(chunk, rows), w->words), table_of(w, vram_min(chunk, rows), w->hidden), vram_tape_size(w->t, 2, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, p->batch}, {VRAM_SYMBOL_SEQUENCE, p->tokens}}));
    vram_tape_hold(w->t, last);
}

/* torchtune's CEWithChunkedOutputLoss: eight parts of each sequence go through the head, then each through the loss, whose fp32 copy is
 * of one part at a time. What the loss keeps is in fp32, unless it is compiled: then it is the 16-bit logits, and the fp32 numbers never
 * leave the kernel. Source: torchtune/modules/loss/ce_chunked_output_loss.py, modules/transformer.py (chunked_output) */
static void chunked(const writer *w, vram_cell last, vram_cell weight)
{
    enum { CHUNKS = 8 };
    vram_tape *t = w->t;
    const vram_pass *p = w->pass;
    double tokens = p->tokens, least = floor(tokens / CHUNKS), more = tokens - least * CHUNKS; /* tensor_split: the first parts are one longer */
    vram_cell logits[CHUNKS];
    int parts = 0;
    weight = vram_op_autocast(t, weight);
    for (int i = 0; i < CHUNKS && (least > 0 || i < more); i++) {
        double rows = least + (i < more);
        vram_size part = size_of(w, p->batch, rows, VRAM_SYMBOL_HIDDEN, w->hidden);
        vram_cell in = vram_op_slice(t, last, part, VRAM_WHAT_NORM_OUTPUT);
        if (p->batch > 1) in = vram_op_copy(t, in, part, VRAM_WHAT_LABEL_STATES);
        logits[parts++] = whole_logits(w, in, weight, rows);
    }
    vram_tape_hold(t, last);
    vram_tape_mark(t);
    vram_cell ids = vram_tape_outside(t, vram_tape_size(t, 2, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, p->batch}, {VRAM_SYMBOL_SEQUENCE, tokens}}), 8, VRAM_WHAT_INPUT_IDS);
    vram_cell labels = vram_op_constant(t, ids, 8, VRAM_WHAT_LABELS);
    for (int i = 0; i < parts; i++) {
        if (p->scenario->training.kernels == VRAM_KERNELS_FUSED) vram_op_cross_entropy_compiled(t, logits[i], labels, vram_tape_size(t, 2, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, p->batch}, {VRAM_SYMBOL_SEQUENCE, least + (i < more)}}));
        else vram_op_cross_entropy(t, vram_op_cast(t, logits[i], 4, VRAM_WHAT_LOGITS_FP32), labels);
    }
    for (int i = 0; i < parts; i++) vram_tape_hold(t, logits[i]); /* a list of the caller's, until the loss is there */
}

/* The class's own loss, and the outputs in fp32; entropy and token accuracy each copy the shifted logits, the second while the first is there. */
static void trainer(const writer *w, vram_cell last, vram_cell weight)
{
    vram_tape *t = w->t;
    vram_cell logits = whole_logits(w, last, weight, w->pass->tokens);
    vram_tape_mark(t);
    vram_cell ids = vram_tape_outside(t, vram_tape_size(t, 2, (const vram_factor[]){{VRAM_SYMBOL_MICRO_BATCH, w->pass->batch}, {VRAM_SYMBOL_SEQUENCE, w->pass->tokens}}), 8, VRAM_WHAT_INPUT_IDS);
    vram_cell wide = vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32), labels = vram_op_constant(t, ids, 8, VRAM_WHAT_LABELS);
    vram_op_cross_entropy(t, wide, labels);
    vram_tape_hold(t, last);
    vram_tape_leave(t); /* autocast is the model's forward(), its cache with it */
    vram_cell outputs = outputs_of(w, logits);
    if (w->pass->batch > 1) { /* else the slice is in one piece already */
        vram_cell entropy = as_logits(w, vram_op_copy(t, outputs, words_of(w, w->pass->tokens - 1), VRAM_WHAT_SHIFTED_LOGITS));
        as_logits(w, vram_op_copy(t, outputs, words_of(w, w->pass->tokens - 1), VRAM_WHAT_SHIFTED_LOGITS));
        vram_tape_hold(t, entropy);
    }
    vram_tape_hold(t, outputs);
}

/* The shifted logits are copied; the reference then makes outputs and copy of its own while these stand. */
static void pairs(const writer *w, vram_cell last, vram_cell weight)
{
    vram_tape *t = w->t;
    double rows = w->pass->tokens - 1;
    vram_cell outputs = outputs_of(w, whole_logits(w, last, weight, w->pass->tokens)), references = VRAM_NO_CELL, shifted_too = VRAM_NO_CELL;
    vram_tape_hold(t, last);
    if (!w->pass->gradients) return; /* what follows is the loss */
    vram_cell shifted = as_logits(w, vram_op_copy(t, vram_op_slice(t, outputs, words_of(w, rows), VRAM_WHAT_LOGITS), words_of(w, rows), VRAM_WHAT_SHIFTED_LOGITS));
    vram_op_log_probabilities(t, shifted, size_of(w, 1, rows, VRAM_SYMBOL_VOCABULARY, w->words), table_of(w, w->pass->batch, rows));
    vram_tape_hold(t, outputs);
    vram_tape_hold(t, shifted);
    vram_tape_mark(t);
    vram_tape_leave(t);
    if (w->pass->reference_follows) {
        references = as_logits(w, vram_op_copy(t, outputs, words_of(w, w->pass->tokens), VRAM_WHAT_REFERENCE_LOGITS));
        shifted_too = as_logits(w, vram_op_copy(t, references, words_of(w, rows), VRAM_WHAT_REFERENCE_LOGITS));
        as_logits(w, vram_op_copy(t, shifted_too, size_of(w, 1, rows, VRAM_SYMBOL_VOCABULARY, w->words), VRAM_WHAT_LOG_PROBABILITIES)); /* logsumexp of a sequence */
    }
    as_logits(w, vram_op_copy(t, shifted, size_of(w, w->pass->batch / 2, w->pass->scored, VRAM_SYMBOL_VOCABULARY, w->words), VRAM_WHAT_SHIFTED_LOGITS)); /* mean logits of the chosen answers */
    vram_tape_hold(t, outputs);
    vram_tape_hold(t, shifted);
    vram_tape_hold(t, references);
    vram_tape_hold(t, shifted_too);
}

/* logits_to_keep: the head sees the answers' positions and the one before */
static void answers(const writer *w, vram_cell last, vram_cell weight)
{
    vram_tape *t = w->t;
    const vram_pass *p = w->pass;
    double rows = p->scored + 1;
    vram_size part = size_of(w, p->batch, rows, VRAM_SYMBOL_HIDDEN, w->hidden);
    vram_cell in = vram_op_slice(t, last, part, VRAM_WHAT_NORM_OUTPUT);
    if (p->batch > 1) in = vram_op_copy(t, in, part, VRAM_WHAT_LABEL_STATES);
    vram_cell outputs = outputs_of(w, whole_logits(w, in, weight, rows));
    vram_tape_hold(t, last);
    vram_tape_mark(t);
    vram_tape_leave(t);
    vram_cell scaled = vram_op_scale_part(t, outputs, words_of(w, p->scored), VRAM_WHAT_LOGITS);
    vram_cell kept = vram_op_slice(t, scaled, words_of(w, p->scored), VRAM_WHAT_LOGITS);
    vram_op_log_probabilities(t, as_logits(w, kept), size_of(w, 1, p->scored, VRAM_SYMBOL_VOCABULARY, w->words), table_of(w, p->batch, p->scored));
    vram_tape_hold(t, outputs);
}

/* The head sees all positions; the answers' logits are divided by the temperature in place. The outputs stay with the caller. */
static void samples(const writer *w, vram_cell last, vram_cell weight)
{
    vram_tape *t = w->t;
    const vram_pass *p = w->pass;
    vram_cell outputs = outputs_of(w, whole_logits(w, last, weight, p->tokens));
    vram_tape_mark(t);
    vram_cell scaled = vram_op_scale_part(t, outputs, words_of(w, p->scored), VRAM_WHAT_LOGITS);
    vram_cell kept = vram_op_slice(t, scaled, words_of(w, p->scored), VRAM_WHAT_LOGITS);
    vram_op_log_probabilities(t, as_logits(w, kept), size_of(w, 1, p->scored, VRAM_SYMBOL_VOCABULARY, w->words), table_of(w, p->batch, p->scored));
    vram_tape_hold(t, last);
    vram_tape_hold(t, outputs);
    if (p->gradients) t->cell[t->cell[outputs].base].last_use = -1;
}

/* score: h -> 1 */
static void value(const writer *w, vram_cell last)
{
    vram_tape *t = w->t;
    const vram_pass *p = w->pass;
    vram_cell weight = vram_tape_parameter(t, table_of(w, 1, w->hidden), p->plain_width, p->gradients);
    vram_size one = size_of(w, p->batch, p->tokens, VRAM_SYMBOL_WIDTH, 1);
    vram_cell values = vram_op_linear(t, last, weight, VRAM_NO_CELL, one, VRAM_WHAT_VALUES);
    vram_tape_mark(t);
    vram_op_cross_entropy(t, vram_op_cast(t, values, 4, VRAM_WHAT_VALUES), vram_tape_outside(t, one, 8, VRAM_WHAT_INPUT_IDS)); /* a number a position, as the loss of values makes */
    vram_tape_hold(t, last);
}

void vram_head_write(const vram_pass *pass, vram_tape *t, vram_cell last, vram_cell weight)
{
    writer w = {pass, t, vram_words_on_rank(pass), (double)pass->model->hidden};
    t->mark = 0;
    switch (pass->head) {
    case VRAM_HEAD_FUSED: fused(&w, last, weight); break;
    case VRAM_HEAD_CHUNKED: chunked(&w, last, weight); break;
    case VRAM_HEAD_TILED: tiled(&w, last, weight); break;
    case VRAM_HEAD_TRAINER: trainer(&w, last, weight); break;
    case VRAM_HEAD_PAIRS: pairs(&w, last, weight); break;
    case VRAM_HEAD_ANSWERS: answers(&w, last, weight); break;
    case VRAM_HEAD_SAMPLES: samples(&w, last, weight); break;
    case VRAM_HEAD_VALUE: value(&w, last); break;
    default: break;
    }
}

/* A step of TRL's own trainers is told from a bare loop by its tiles, or by a norm that is clipped on one GPU. */
static bool is_trainer(const vram_scenario *s)
{
    return s->training.clip > 0 && s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN && s->training.loss == VRAM_LOSS_FULL;
}

void vram_head_choose(vram_pass *pass, vram_role role)
{
    const vram_scenario *s = pass->scenario;
    bool tiles = s->training.loss == VRAM_LOSS_TILED, reference = s->rl.reference.kind != VRAM_ROLE_MODEL_NONE && s->rl.reference.kind != VRAM_ROLE_MODEL_PRECOMPUTED;
    pass->head = VRAM_HEAD_LOSS;
    if (s->task == VRAM_TASK_TRAINING) {
        pass->scored = pass->tokens - 1;
        pass->head = tiles ? VRAM_HEAD_TILED : s->training.loss == VRAM_LOSS_CHUNKED ? VRAM_HEAD_CHUNKED : s->training.loss == VRAM_LOSS_FUSED && !vram_loss_stays_whole(s) ? VRAM_HEAD_FUSED : is_trainer(s) ? VRAM_HEAD_TRAINER : VRAM_HEAD_LOSS;
        return;
    }
    if (s->task != VRAM_TASK_RL) return;
    pass->scored = (double)s->rl.response;
    if (role == VRAM_ROLE_CRITIC || role == VRAM_ROLE_REWARD) { pass->head = VRAM_HEAD_VALUE; return; }
    switch (s->rl.algorithm) {
    case VRAM_ALGORITHM_DPO:
        pass->head = tiles ? VRAM_HEAD_TILED : VRAM_HEAD_PAIRS;
        pass->reference_follows = reference && pass->gradients;
        break;
    case VRAM_ALGORITHM_PPO:
        pass->head = VRAM_HEAD_SAMPLES;
        pass->outputs_held = true;
        break;
    default: pass->head = tiles ? VRAM_HEAD_TILED : VRAM_HEAD_ANSWERS; break;
    }
}
