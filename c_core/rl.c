/* rl.c -- several models in one step: who is there, who trains, who only looks, and when.
 *
 *            PPO                     GRPO, RLOO              DPO
 * actor      trained                 trained                 trained, chosen and rejected in one pass
 * critic     trained                 -                       -
 * reference  frozen                  frozen (or adapter off) frozen: its pass runs while the actor's activations stand
 * reward     frozen                  frozen (or a function)  -
 * rollout    answers sampled, with a cache                   -
 *
 * Phases in order of time: load, rollout, score (who looks does so one after the other: the fullest pass counts), then the training
 * phases. PPO's critic runs forward before the actor and backward after it.
 * Sources: TRL 1.16 and 1.5.1 (trainer/, experimental/ppo); Schulman et al. 2017 (PPO), Shao et al. 2024 (GRPO), Rafailov et al. 2023 (DPO). */
#include "replay.h"

#include <stddef.h>
#include <string.h>

static bool is(const vram_scenario *s, vram_algorithm algorithm) { return s->rl.algorithm == (int)algorithm; }
static double tokens_of(const vram_scenario *s) { return (double)(s->rl.prompt + s->rl.response); }

/* ------------------------------------------------------------------------------------------------------------- models -- */

/* The model behind a role; NULL when the role has no weights of its own. */
static const vram_model *model_of(const vram_scenario *s, const vram_role_choice *choice)
{
    return choice->kind == VRAM_ROLE_MODEL_SAME ? &s->model : choice->kind == VRAM_ROLE_MODEL_MODEL ? &choice->model : NULL;
}

/* A model that says one number a position has h weights where its head was. What a rule of thumb declares stays as declared. */
static const vram_model *valuing(const vram_model *from, vram_model *to)
{
    if (from == NULL || from->params_override > 0) return from;
    int kept = 0;
    memcpy(to, from, offsetof(vram_model, kind)); /* and of its lists what is in them */
    memcpy(to->kind, from->kind, (size_t)from->kinds * sizeof to->kind[0]);
    memcpy(to->extra, from->extra, (size_t)from->extras * sizeof to->extra[0]);
    for (int i = 0; i < from->tensors; i++)
        if (from->tensor[i].part != VRAM_PART_HEAD) to->tensor[kept++] = from->tensor[i];
    if (kept >= VRAM_MAX_TENSORS) return from;
    to->tensor[kept] = (vram_tensor){.name = "score", .part = VRAM_PART_HEAD, .kind = -1, .layers = 1, .copies = 1, .rows = 1, .columns = to->hidden, .linear = true};
    to->tensors = kept + 1;
    to->tied = to->head_bias = false;
    return to;
}

static int stored_format(const vram_scenario *s) { return s->training.method == VRAM_METHOD_LORA ? s->weights : vram_trains_fp32(s) ? VRAM_FORMAT_FP32 : VRAM_FORMAT_BF16; }

/* Weights of a model that only looks: stored as the actor's, in every phase, or only while it works; in shares where the actor's are (TRL,
 * models/utils.py, prepare_deepspeed of stage 3 and prepare_fsdp): a layer is gathered while it looks. */
static void frozen(const vram_scenario *s, const vram_model *m, vram_role role, vram_report *report)
{
    int format = stored_format(s), first = report->entries;
    if (m) vram_weights(s, m, role, format, s->rl.offload_idle ? VRAM_BIT(VRAM_PHASE_SCORE) : report->phases, report);
    if (vram_shares_weights(s)) vram_share_frozen(s, first, report);
}

/* ------------------------------------------------------------------------------------------------------------ rollout -- */

/* bytes of a number while sampling: no autocast there */
static double sampling_bytes(const vram_scenario *s)
{
    if (s->training.method != VRAM_METHOD_LORA) return vram_trains_fp32(s) ? 4 : 2;
    return s->weights == VRAM_FORMAT_FP32 ? 4 : 2;
}

static void cache(const vram_scenario *s, const vram_model *m, vram_role role, double sequences, double tokens, double k_bytes, double v_bytes, unsigned phases, vram_report *report)
{
    vram_cache_rules rules = vram_cache_rules_plain(s, m, role, sequences, tokens, phases);
    rules.source = VRAM_SOURCE_TRANSFORMERS;
    rules.k_bytes = k_bytes;
    rules.v_bytes = rules.conv_bytes = v_bytes;
    rules.window_less = 1;
    vram_cache_entries(m, &rules, report);
}

/* fp32 scores of every word for each sampled token */
static void scores(const vram_scenario *s, double copies, double sequences, unsigned phases, vram_report *report)
{
    vram_entry *e = vram_add(report, VRAM_ROLE_ROLLOUT, VRAM_COMPONENT_LOGITS, VRAM_WHAT_SAMPLED_SCORES, VRAM_EXACT, VRAM_SOURCE_TRL, phases);
    if (copies != 1) vram_times(e, VRAM_SYMBOL_COPIES, copies);
    vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, sequences), VRAM_SYMBOL_SEQUENCE, (double)s->rl.response);
    vram_times(vram_times(e, VRAM_SYMBOL_VOCABULARY, (double)s->model.vocab), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
}

static double bytes_from(const vram_report *report, int from)
{
    double sum = 0;
    for (int i = from; i < report->entries && i < VRAM_MAX_ENTRIES; i++) sum += report->entry[i].bytes;
    return sum;
}

/* PPO keeps the scores until the next rollout, and the last ones are still bound while the new ones come: a list, a chunk at a time stacked
 * while its cache is there, then all padded into one tensor. Of the last token, the last stack and the padding the fullest. */
static void rollout_with_scores(const vram_scenario *s, vram_report *report)
{
    unsigned phase = VRAM_BIT(VRAM_PHASE_ROLLOUT);
    double all = (double)s->rl.rollout_batch, chunk = vram_min(all, (double)s->rl.forward_batch), a_sequence = (double)s->rl.response * (double)s->model.vocab * 4;
    int first = report->entries;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, chunk, tokens_of(s), sampling_bytes(s), sampling_bytes(s), phase, report);
    double stacking = bytes_from(report, first) + chunk * a_sequence, padding = all * a_sequence;
    report->entries = first;
    vram_transformers_generate(s, &s->model, chunk, (double)s->rl.prompt, tokens_of(s), sampling_bytes(s), 4, VRAM_PHASE_ROLLOUT, report);
    double sampling = bytes_from(report, first);
    if (sampling < stacking || sampling < padding) {
        report->entries = first;
        scores(s, 1, stacking > padding ? chunk : all, phase, report);
        if (stacking > padding) cache(s, &s->model, VRAM_ROLE_ROLLOUT, chunk, tokens_of(s), sampling_bytes(s), sampling_bytes(s), phase, report);
    }
    scores(s, 1, all, phase, report);
    scores(s, 1, all, report->phases & ~VRAM_BIT(VRAM_PHASE_LOAD), report);
}

/* Adapters make the prompt's pass through a layer wider: they are not merged, and work in their own type. */
static void adapted_prompt(const vram_scenario *s, int first, vram_report *report)
{
    vram_pass pass = vram_pass_of(s, &s->model, (double)s->rl.rollout_batch, (double)s->rl.prompt, false);
    int second = report->entries;
    double generated = bytes_from(report, first);
    pass.no_autocast = true;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, pass.batch, pass.tokens, sampling_bytes(s), sampling_bytes(s), VRAM_BIT(VRAM_PHASE_ROLLOUT), report);
    double cached = bytes_from(report, second);
    report->entries = second;
    if (cached + vram_replay_forward(&pass, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, NULL) <= generated) return;
    report->entries = first;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, pass.batch, pass.tokens, sampling_bytes(s), sampling_bytes(s), VRAM_BIT(VRAM_PHASE_ROLLOUT), report);
    vram_replay_forward(&pass, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, report);
}

/* accelerate has wrapped the forward() of a fully trained model in autocast, and generate() calls that one: casts of all fp32 weights stay for
 * the length of a pass; values are cached in 16 bit, keys in fp32, since their rotary tables are. The prompt's pass or the last token's. */
static void sampled_under_autocast(const vram_scenario *s, vram_report *report)
{
    unsigned phase = VRAM_BIT(VRAM_PHASE_ROLLOUT);
    vram_pass prompt = vram_pass_of(s, &s->model, (double)s->rl.rollout_batch, (double)s->rl.prompt, false), last = vram_pass_of(s, &s->model, (double)s->rl.rollout_batch, 1, false);
    int first = report->entries;
    double v_bytes = 2, k_bytes = s->model.position == VRAM_POSITION_ROTARY ? 4 : 2;
    last.scored = 1;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, last.batch, tokens_of(s), k_bytes, v_bytes, phase, report);
    double at_last = bytes_from(report, first) + vram_replay_forward(&last, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, NULL);
    report->entries = first;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, last.batch, prompt.tokens, k_bytes, v_bytes, phase, report);
    if (bytes_from(report, first) + vram_replay_forward(&prompt, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, NULL) >= at_last) {
        vram_replay_forward(&prompt, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, report);
        return;
    }
    report->entries = first;
    cache(s, &s->model, VRAM_ROLE_ROLLOUT, last.batch, tokens_of(s), k_bytes, v_bytes, phase, report);
    vram_replay_forward(&last, VRAM_ROLE_ROLLOUT, VRAM_PHASE_ROLLOUT, report);
}

/* What generate() runs on where the actor's weights are in shares: TRL gathers the whole model of ZeRO stage 3 (ds3_gather_for_generation), and of
 * FSDP the root alone (summon_full_params without recursion), whose layers are then gathered one by one. Source: TRL, models/utils.py, grpo_trainer.py */
static void gathered_for_rollout(const vram_scenario *s, vram_report *report)
{
    double width = vram_format_bytes(stored_format(s)), params = vram_rank_params(s, &s->model);
    if (!vram_shares_weights(s)) return;
    if (vram_is_fsdp(s)) {
        vram_at_work(s, &s->model, VRAM_ROLE_ACTOR, params, width, VRAM_BIT(VRAM_PHASE_ROLLOUT), report);
        return;
    }
    vram_gathered(s, VRAM_ROLE_ACTOR, params, width, VRAM_BIT(VRAM_PHASE_ROLLOUT), report);
}

/* Answers are sampled: by generate() with rollout_batch sequences at once, or by a colocated engine with weights and a cache of its own. */
static void rollout(const vram_scenario *s, vram_report *report)
{
    unsigned phase = VRAM_BIT(VRAM_PHASE_ROLLOUT);
    if (s->rl.rollout_engine == VRAM_ROLLOUT_ENGINE_VLLM) {
        vram_kv_cache(s, &s->model, VRAM_ROLE_ROLLOUT, (double)s->rl.rollout_batch, tokens_of(s), phase, report);
        if (!s->rl.share_weights) vram_weights(s, &s->model, VRAM_ROLE_ROLLOUT, VRAM_FORMAT_BF16, s->rl.offload_idle ? phase : report->phases, report);
        return;
    }
    gathered_for_rollout(s, report);
    if (is(s, VRAM_ALGORITHM_PPO)) {
        rollout_with_scores(s, report);
        return;
    }
    if (s->training.method == VRAM_METHOD_FULL && s->training.autocast && vram_trains_fp32(s)) {
        sampled_under_autocast(s, report);
        return;
    }
    int first = report->entries;
    vram_transformers_generate(s, &s->model, (double)s->rl.rollout_batch, (double)s->rl.prompt, tokens_of(s), sampling_bytes(s), 3, VRAM_PHASE_ROLLOUT, report);
    if (s->training.method == VRAM_METHOD_LORA) adapted_prompt(s, first, report);
}

/* -------------------------------------------------------------------------------------------------------------- score -- */

typedef struct { vram_role role; vram_pass pass; } looker;

static looker looking(const vram_scenario *s, const vram_model *m, vram_role role, double sequences, bool adapters)
{
    looker l = {role, vram_pass_of(s, m, sequences, tokens_of(s), false)};
    if (!adapters) l.pass.lora = false;
    vram_head_choose(&l.pass, role);
    return l;
}

/* With fewer optimizer steps than generations the answers may come from an older actor: its log-probabilities are then computed anew. */
static bool scores_itself(const vram_scenario *s)
{
    double generated = (double)s->rl.rollout_batch / (double)s->training.micro_batch;
    return (is(s, VRAM_ALGORITHM_GRPO) || is(s, VRAM_ALGORITHM_RLOO)) && generated > (double)s->training.gradient_accumulation;
}

/* All layers' outputs and keys and values, which PPO asks for or does not turn off */
static void outputs_held(const looker *l, vram_report *report)
{
    const vram_pass *p = &l->pass;
    if (!p->outputs_held) return;
    vram_entry *e = vram_add(report, l->role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, VRAM_EXACT, VRAM_SOURCE_TRL, VRAM_BIT(VRAM_PHASE_SCORE));
    vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, (double)p->model->stage.layers), VRAM_SYMBOL_MICRO_BATCH, p->batch);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCE, p->tokens), VRAM_SYMBOL_HIDDEN, (double)p->model->hidden), VRAM_SYMBOL_BYTES_PER_ELEMENT, vram_stream_width(p));
    cache(p->scenario, p->model, l->role, p->batch, p->tokens, vram_stream_width(p), vram_stream_width(p), VRAM_BIT(VRAM_PHASE_SCORE), report);
}

/* Answers are scored in chunks; a chunk's logits are still bound to their name while the next pass runs. */
static void last_logits(const vram_scenario *s, const looker *l, vram_report *report)
{
    const vram_pass *p = &l->pass;
    if (p->head != VRAM_HEAD_ANSWERS || (double)s->rl.rollout_batch <= p->batch) return;
    vram_entry *e = vram_add(report, l->role, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOGITS_FP32, VRAM_EXACT, VRAM_SOURCE_TRL, VRAM_BIT(VRAM_PHASE_SCORE));
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_MICRO_BATCH, p->batch), VRAM_SYMBOL_SEQUENCE, p->scored + 1), VRAM_SYMBOL_VOCABULARY, (double)p->model->vocab);
    vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, s->training.autocast ? 4 : vram_stream_width(p));
}

/* All that a model holds while it looks: its pass, its share at work, what is kept of the pass */
static void look(const vram_scenario *s, const looker *l, vram_report *report)
{
    bool shared = (l->role == VRAM_ROLE_REFERENCE && s->rl.reference.kind != VRAM_ROLE_MODEL_ADAPTER) || l->role == VRAM_ROLE_REWARD;
    vram_replay_forward(&l->pass, l->role, VRAM_PHASE_SCORE, report);
    if (shared && vram_shares_weights(s)) vram_at_work(s, l->pass.model, l->role, l->pass.model->params_override, vram_format_bytes(stored_format(s)), VRAM_BIT(VRAM_PHASE_SCORE), report);
    outputs_held(l, report);
    last_logits(s, l, report);
}

static void score(const vram_scenario *s, const vram_model *reference, const vram_model *critic, const vram_model *reward, vram_report *report)
{
    looker all[4], *fullest = NULL;
    int n = 0;
    bool dpo = is(s, VRAM_ALGORITHM_DPO), adapter = s->rl.reference.kind == VRAM_ROLE_MODEL_ADAPTER;
    double chunk = dpo ? 2 * (double)s->training.micro_batch : is(s, VRAM_ALGORITHM_PPO) ? (double)s->rl.forward_batch : (double)s->training.micro_batch, most = -1;
    if (scores_itself(s)) all[n++] = looking(s, &s->model, VRAM_ROLE_ACTOR, chunk, true);
    if (reference || adapter) all[n++] = looking(s, adapter ? &s->model : reference, VRAM_ROLE_REFERENCE, chunk, false);
    if (critic) all[n++] = looking(s, critic, VRAM_ROLE_CRITIC, chunk, false);
    if (reward) all[n++] = looking(s, reward, VRAM_ROLE_REWARD, is(s, VRAM_ALGORITHM_PPO) ? chunk : (double)s->rl.rollout_batch, false);
    for (int i = 0; i < n; i++) {
        int first = report->entries;
        look(s, &all[i], report);
        double bytes = bytes_from(report, first);
        report->entries = first;
        if (bytes > most) { most = bytes; fullest = &all[i]; }
    }
    if (fullest != NULL) look(s, fullest, report);
}

/* ------------------------------------------------------------------------------------------------------------ training -- */

static void train_alone(const vram_scenario *s, vram_report *report)
{
    bool dpo = is(s, VRAM_ALGORITHM_DPO);
    const vram_when when[] = {{VRAM_ALIVE_FORWARD, VRAM_PHASE_FORWARD}, {VRAM_ALIVE_LOSS, VRAM_PHASE_LOSS}, {VRAM_ALIVE_BACKWARD, VRAM_PHASE_BACKWARD}, {VRAM_ALIVE_HELD, VRAM_PHASE_SCORE}};
    vram_train_when(s, &s->model, VRAM_ROLE_ACTOR, (dpo ? 2 : 1) * (double)s->training.micro_batch, tokens_of(s), dpo ? 4 : 3, when, NULL, report);
}

/* PPO's statistics make probabilities of all words; those of the micro-batch before are bound until the next ones come (ppo_trainer.py, prob_dist). */
static void last_probabilities(const vram_scenario *s, vram_report *report)
{
    unsigned pass = VRAM_BIT(VRAM_PHASE_FORWARD) | VRAM_BIT(VRAM_PHASE_LOSS) | VRAM_BIT(VRAM_PHASE_BACKWARD);
    if (s->training.gradient_accumulation < 2) return;
    vram_entry *e = vram_add(report, VRAM_ROLE_ACTOR, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOG_PROBABILITIES, VRAM_EXACT, VRAM_SOURCE_TRL, pass);
    vram_times(vram_times(e, VRAM_SYMBOL_MICRO_BATCH, (double)s->training.micro_batch), VRAM_SYMBOL_SEQUENCE, (double)s->rl.response);
    vram_times(vram_times(e, VRAM_SYMBOL_VOCABULARY, (double)s->model.vocab), VRAM_SYMBOL_BYTES_PER_ELEMENT, s->training.autocast ? 4 : sampling_bytes(s));
}

/* The critic's pass is first forward and last backward. The fullest moment of backward is the actor's, while what the critic has saved waits, or (late) the
 * critic's, beside the actor's gradients. */
static void train_both(const vram_scenario *s, const vram_model *critic, bool late, vram_report *report)
{
    const vram_when actor[] = {{VRAM_ALIVE_FORWARD, VRAM_PHASE_FORWARD}, {VRAM_ALIVE_LOSS, VRAM_PHASE_LOSS}, {late ? VRAM_ALIVE_DONE : VRAM_ALIVE_BACKWARD, VRAM_PHASE_BACKWARD}};
    const vram_when other[] = {{VRAM_ALIVE_HELD, VRAM_PHASE_FORWARD}, {VRAM_ALIVE_LATER, VRAM_PHASE_LOSS}, {late ? VRAM_ALIVE_BACKWARD : VRAM_ALIVE_LATER, VRAM_PHASE_BACKWARD}};
    double sequences = (double)s->training.micro_batch, tokens = tokens_of(s);
    vram_train_when(s, &s->model, VRAM_ROLE_ACTOR, sequences, tokens, 3, actor, NULL, report);
    vram_train_when(s, critic, VRAM_ROLE_CRITIC, sequences, tokens, 3, other, NULL, report);
}

/* Of the two the fuller one is entered: as entries, for what engines hold counts, too. */
static void train_together(const vram_scenario *s, const vram_model *critic, vram_report *report)
{
    int first = report->entries;
    double bytes[2];
    for (int late = 0; late < 2; late++) {
        report->entries = first;
        train_both(s, critic, late, report);
        bytes[late] = vram_bytes_alive(report, VRAM_PHASE_BACKWARD, ~0u);
    }
    if (bytes[0] >= bytes[1]) {
        report->entries = first;
        train_both(s, critic, false, report);
    }
    last_probabilities(s, report);
}

void vram_rl(const vram_scenario *s, vram_report *report)
{
    vram_model critic_room, reward_room;
    const vram_model *critic = valuing(model_of(s, &s->rl.critic), &critic_room), *reward = valuing(model_of(s, &s->rl.reward), &reward_room);
    const vram_model *reference = model_of(s, &s->rl.reference);
    bool dpo = is(s, VRAM_ALGORITHM_DPO);
    if (dpo) report->phases &= ~VRAM_BIT(VRAM_PHASE_ROLLOUT);
    if (critic) train_together(s, critic, report);
    else train_alone(s, report);
    frozen(s, reference, VRAM_ROLE_REFERENCE, report);
    frozen(s, reward, VRAM_ROLE_REWARD, report);
    score(s, reference, critic, reward, report);
    if (!dpo) rollout(s, report);
}
