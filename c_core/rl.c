/* rl.c -- several models in one step: who is there, who trains, who only looks.
 *
 *            PPO                     GRPO, RLOO              DPO
 * actor      trained                 trained                 trained
 * critic     trained                 -                       -
 * reference  frozen                  frozen (or adapter off) frozen
 * reward     frozen                  frozen (or a function)  -
 * rollout    KV cache of the answers being sampled           -
 *
 * Phases in order of time: load, rollout (sampling: the actor's cache), score (reference, critic and reward read the answers,
 * no gradients), then the training phases. Actor and critic run forward and backward together, as TRL's PPOTrainer has it.
 * Sources: TRL; Schulman et al. 2017 (PPO), Shao et al. 2024 (GRPO), Rafailov et al. 2023 (DPO). */
#include "core.h"

#include <stddef.h>

static bool has_rollout(const vram_scenario *s) { return s->rl.algorithm != VRAM_ALGORITHM_DPO; }

/* The model behind a role; NULL when the role has no weights of its own. */
static const vram_model *model_of(const vram_scenario *s, const vram_role_choice *choice)
{
    return choice->kind == VRAM_ROLE_MODEL_SAME ? &s->model : choice->kind == VRAM_ROLE_MODEL_MODEL ? &choice->model : NULL;
}

/* Weights of a model that only looks: stored as the actor's compute type, in every phase, or only while it works. */
static void frozen(const vram_scenario *s, const vram_model *m, vram_role role, vram_report *report)
{
    bool wide = s->training.precision == VRAM_PRECISION_FP32 || s->training.precision == VRAM_PRECISION_AMP, lora = s->training.method == VRAM_METHOD_LORA;
    int format = lora ? s->weights : vram_find(VRAM_LIST_FORMAT, wide ? "fp32" : "bf16");
    vram_weights(s, m, role, format, s->rl.offload_idle ? VRAM_BIT(VRAM_PHASE_SCORE) : report->phases, report);
}

/* Answers are sampled with rollout_batch sequences at once. A colocated engine holds a copy of the actor's weights besides. */
static void rollout(const vram_scenario *s, vram_report *report)
{
    double tokens = (double)(s->rl.prompt + s->rl.response), sequences = (double)s->rl.rollout_batch;
    unsigned phase = VRAM_BIT(VRAM_PHASE_ROLLOUT);
    vram_kv_cache(s, &s->model, VRAM_ROLE_ROLLOUT, sequences, tokens, phase, report);
    if (s->rl.rollout_engine == VRAM_ROLLOUT_ENGINE_VLLM && !s->rl.share_weights)
        vram_weights(s, &s->model, VRAM_ROLE_ROLLOUT, vram_find(VRAM_LIST_FORMAT, "bf16"), s->rl.offload_idle ? phase : report->phases, report);
    if (s->rl.rollout_engine == VRAM_ROLLOUT_ENGINE_TRANSFORMERS)
        vram_forward_only(s, &s->model, VRAM_ROLE_ROLLOUT, sequences, (double)s->rl.prompt, 1, VRAM_PHASE_ROLLOUT, report);
}

/* Log-probabilities need the logits of every position of the answers; a reward or a value is one number a position. */
static void score(const vram_scenario *s, const vram_model *m, vram_role role, double logit_rows, vram_report *report)
{
    double pairs = s->rl.algorithm == VRAM_ALGORITHM_DPO ? 2 : 1;
    if (m) vram_forward_only(s, m, role, pairs * (double)s->rl.forward_batch, (double)(s->rl.prompt + s->rl.response), logit_rows, VRAM_PHASE_SCORE, report);
}

void vram_rl(const vram_scenario *s, vram_report *report)
{
    double tokens = (double)(s->rl.prompt + s->rl.response), sequences = (double)s->training.micro_batch * (has_rollout(s) ? 1 : 2);
    const vram_model *critic = model_of(s, &s->rl.critic), *reference = model_of(s, &s->rl.reference), *reward = model_of(s, &s->rl.reward);
    if (!has_rollout(s)) report->phases &= ~VRAM_BIT(VRAM_PHASE_ROLLOUT);
    vram_train(s, &s->model, VRAM_ROLE_ACTOR, sequences, tokens, report);
    if (critic) vram_train(s, critic, VRAM_ROLE_CRITIC, sequences, tokens, report);
    if (reference) frozen(s, reference, VRAM_ROLE_REFERENCE, report);
    if (reward) frozen(s, reward, VRAM_ROLE_REWARD, report);
    if (has_rollout(s)) rollout(s, report);
    score(s, s->rl.reference.kind == VRAM_ROLE_MODEL_ADAPTER ? &s->model : reference, VRAM_ROLE_REFERENCE, tokens, report);
}
