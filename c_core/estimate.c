/* estimate.c -- the order of a call: entries first, then their sums, then the readings. */
#include "steps.h"

#include <stddef.h>
#include <string.h>

static void counts(const vram_scenario *s, vram_report *report)
{
    report->params_total = vram_params_total(&s->model);
    report->params_active = vram_params_active(&s->model);
    report->params_trainable = 0;
    if (s->task != VRAM_TASK_INFERENCE)
        report->params_trainable = s->training.method == VRAM_METHOD_LORA ? vram_lora_params(s, &s->model) : report->params_total - vram_params_buffers(&s->model);
}

static bool llama_lacks(const vram_model *m)
{
    for (int i = 0; i < m->kinds; i++)
        if (m->kind[i].state.type == VRAM_STATE_KDA || m->kind[i].state.type == VRAM_STATE_LIGHTNING || m->kind[i].state.type == VRAM_STATE_RGLRU) return true;
    return false;
}

/* What an engine would refuse, or reads otherwise than it was said */
static void served(const vram_scenario *s, vram_report *report)
{
    bool pool = s->engine == VRAM_ENGINE_VLLM || s->engine == VRAM_ENGINE_SGLANG;
    double heads = vram_most_heads(&s->model), ranks = (double)s->parallel.tensor, width = vram_format_bytes(s->weights);
    if (pool && heads > 0 && !vram_divides(heads, ranks)) vram_note_add(report, VRAM_NOTE_HEADS_NOT_DIVISIBLE, "parallel.tensor", 2, (const double[]){heads, ranks});
    if (pool && s->gpu.apple) vram_note_add(report, VRAM_NOTE_ENGINE_NOT_ON_CARD, "engine", 0, NULL);
    double held = vram_ceil_div(report->pool.fixed_bytes, 1), budget = vram_pool_budget(s, &s->gpu);
    if (pool && report->max_context == 0 && held > budget)
        vram_note_add(report, VRAM_NOTE_POOL_EMPTY, s->engine == VRAM_ENGINE_VLLM ? "vllm.gpu_memory_utilization" : "sglang.mem_fraction_static", 2, (const double[]){held, budget});
    else if (pool && report->max_context >= 0 && report->max_context < (double)s->context)
        vram_note_add(report, VRAM_NOTE_POOL_BELOW_CONTEXT, "context", 2, (const double[]){report->max_context, (double)s->context});
    if (s->engine == VRAM_ENGINE_LLAMA_CPP && s->batch > 1 && s->batch != s->llama_cpp.slots)
        vram_note_add(report, VRAM_NOTE_SLOTS_NOT_BATCH, "batch", 2, (const double[]){(double)s->batch, (double)s->llama_cpp.slots});
    if (s->engine == VRAM_ENGINE_LLAMA_CPP && llama_lacks(&s->model)) vram_note_add(report, VRAM_NOTE_NOT_MODELLED, "engine", 0, NULL);
    if (s->model.native >= 0 && s->weights != VRAM_FORMAT_NATIVE && vram_format_get(s->weights)->scheme == VRAM_SCHEME_NONE && width >= 2)
        vram_note_add(report, VRAM_NOTE_NATIVE_WEIGHTS, "weights", 0, NULL);
}

/* An adapter of a rank above its matrix's can say nothing more than the matrix itself, and is larger. The narrowest that it stands on: */
static void rank_remark(const vram_scenario *s, vram_report *report)
{
    double narrowest = 0;
    if (s->task == VRAM_TASK_INFERENCE || s->training.method != VRAM_METHOD_LORA) return;
    for (int i = 0; i < s->model.tensors; i++) {
        const vram_tensor *t = &s->model.tensor[i];
        double side = vram_min((double)t->rows, (double)t->columns), rank = vram_lora_rank(s, &s->model, t);
        if (rank > side && (narrowest == 0 || side < narrowest)) narrowest = side;
    }
    if (narrowest > 0) vram_note_add(report, VRAM_NOTE_RANK_ABOVE_MATRIX, "lora.rank", 2, (const double[]){(double)s->lora.rank, narrowest});
}

static void remarks(const vram_scenario *s, vram_report *report)
{
    int64_t tokens = s->task == VRAM_TASK_INFERENCE ? s->context : s->task == VRAM_TASK_RL ? s->rl.prompt + s->rl.response : s->training.sequence_length;
    if (s->model.max_positions > 0 && tokens > s->model.max_positions)
        vram_note_add(report, VRAM_NOTE_CONTEXT_ABOVE_MAX, s->task == VRAM_TASK_INFERENCE ? "context" : s->task == VRAM_TASK_RL ? "rl.response" : "training.sequence_length",
                      2, (const double[]){(double)tokens, (double)s->model.max_positions});
    if (s->model.counted_as_llama) vram_note_add(report, VRAM_NOTE_UNKNOWN_MODEL_TYPE, "model.model_type", 0, NULL);
    if (s->task != VRAM_TASK_INFERENCE && s->training.method == VRAM_METHOD_LORA && report->params_trainable == 0)
        vram_note_add(report, VRAM_NOTE_LORA_TARGETS_NOTHING, "lora.targets", 0, NULL);
    if (s->task != VRAM_TASK_INFERENCE && !vram_is_megatron(s, &s->model)) vram_note_add(report, VRAM_NOTE_LIBRARY_VERSIONS, "", 4, (const double[]){2, 15, 5, 24});
    rank_remark(s, report);
    double product = vram_gpus_of_degrees(s);
    if ((double)s->gpus < product) vram_note_add(report, VRAM_NOTE_GPUS_BELOW_PRODUCT, "gpus", 2, (const double[]){(double)s->gpus, product});
    if ((double)s->gpus > product && s->task != VRAM_TASK_INFERENCE) vram_note_add(report, VRAM_NOTE_GPUS_ABOVE_PRODUCT, "gpus", 2, (const double[]){(double)s->gpus, product});
    if (s->task == VRAM_TASK_INFERENCE) served(s, report);
}

static double most_experts(const vram_model *m)
{
    double most = 0;
    for (int i = 0; i < m->kinds; i++) most = vram_max(most, (double)m->kind[i].ffn.experts);
    return most;
}

/* Degrees that engines refuse because something cannot be divided evenly. Sources: megatron/training/arguments.py (validate_args),
 * megatron/core/transformer/transformer_config.py (__post_init__); torchtitan/distributed/parallel_dims.py (_validate). */
static void undivided(const vram_scenario *s, vram_report *report)
{
    double tokens = s->task == VRAM_TASK_RL ? (double)(s->rl.prompt + s->rl.response) : (double)s->training.sequence_length, tensor = (double)s->parallel.tensor, expert = (double)s->parallel.expert;
    double of_experts = expert > 1 ? expert * vram_expert_tensor(s) : 1, stages = (double)s->parallel.pipeline * (double)s->parallel.virtual_pipeline;
    const struct { double whole, parts; const char *path; } rows[] = {
        {vram_most_heads(&s->model), tensor, "parallel.tensor"},
        {tokens, s->parallel.sequence ? tensor : 1, "parallel.sequence"},
        {tokens, s->parallel.context > 1 ? 2 * (double)s->parallel.context : 1, "parallel.context"}, /* a rank has a part of each half */
        {(double)s->model.layers, stages, s->parallel.virtual_pipeline > 1 ? "parallel.virtual_pipeline" : "parallel.pipeline"},
        {most_experts(&s->model), expert, "parallel.expert"},
        {vram_data_ranks(s) * tensor, of_experts, "parallel.expert"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!vram_divides(rows[i].whole, rows[i].parts))
            vram_note_add(report, VRAM_NOTE_NOT_DIVIDING, rows[i].path, 2, (const double[]){rows[i].whole, rows[i].parts});
}

/* FSDP 2 cuts a stacked tensor of experts by experts, and every rank holds as many as the fullest: what is gathered is a multiple of the ranks.
 * Source: torch/distributed/fsdp/_fully_shard/_fsdp_param.py (_init_sharded_param: padded_sharded_size is the first chunk's) */
static void filled_up(const vram_scenario *s, vram_report *report)
{
    double ranks = vram_data_ranks(s);
    if (s->parallel.engine != VRAM_PARALLEL_ENGINE_FSDP2 || s->parallel.expert > 1) return;
    for (int i = 0; i < s->model.tensors; i++) {
        const vram_tensor *t = &s->model.tensor[i];
        double experts = (double)t->copies, filled = vram_round_up(experts, ranks);
        if (!t->stacked || t->part != VRAM_PART_EXPERT || filled == experts) continue;
        vram_note_add(report, VRAM_NOTE_EXPERTS_FILLED_UP, "parallel.data", 2, (const double[]){experts, filled});
        return;
    }
}

/* Settings of a training that are understood and change no entry, or not all they should: silence would be taken for "changes nothing". */
static void not_modelled(const vram_scenario *s, vram_report *report)
{
    bool rl = s->task == VRAM_TASK_RL, ppo = rl && s->rl.algorithm == VRAM_ALGORITHM_PPO, megatron = vram_is_megatron(s, &s->model);
    int loss = s->training.loss, optimizer = s->training.optimizer;
    bool lora = s->training.method == VRAM_METHOD_LORA, shards = vram_is_fsdp(s) && vram_data_ranks(s) > 1;
    const struct { bool set; vram_note_id id; const char *path; } rows[] = {
        {s->training.packing != VRAM_PACKING_NONE && rl, VRAM_NOTE_NOT_MODELLED, "training.packing"},
        {s->training.optimizer_in_backward != 0 && !vram_steps_in_backward(s), VRAM_NOTE_NOT_MODELLED, "training.optimizer_in_backward"},
        {s->training.offload_activations && (megatron || s->training.checkpointing_interval > 1), VRAM_NOTE_NOT_MODELLED, "training.offload_activations"},
        {s->training.offload_activations && s->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE && !megatron, VRAM_NOTE_SELECTIVE_STAYS, "training.offload_activations"},
        {s->training.checkpointing == VRAM_CHECKPOINTING_FULL && s->training.checkpointing_interval > 1 && megatron, VRAM_NOTE_NOT_MODELLED, "training.checkpointing_interval"},
        {s->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE && megatron && s->training.attention != VRAM_ATTENTION_EAGER, VRAM_NOTE_SELECTIVE_DROPS_NOTHING, "training.checkpointing"},
        {lora && s->lora.prepare_kbit, VRAM_NOTE_NOT_MODELLED, "lora.prepare_kbit"},
        {shards && s->parallel.zero < 2, VRAM_NOTE_SHARDS_ALL, "parallel.zero"},
        /* accelerate/accelerator.py (no_sync), which transformers' Trainer enters for all but the last; torch/distributed/fsdp/_flat_param.py (_validate_tensors_to_flatten) */
        {shards && s->training.gradient_accumulation > 1, VRAM_NOTE_NO_SYNC, "training.gradient_accumulation"},
        {shards && lora && s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1 && (s->weights == VRAM_FORMAT_INT8 || s->weights == VRAM_FORMAT_INT4), VRAM_NOTE_FSDP1_INTEGERS, "weights"},
        /* deepspeed/runtime/pipe/engine.py (PipelineEngine.__init__) */
        {s->parallel.engine == VRAM_PARALLEL_ENGINE_DEEPSPEED && s->parallel.pipeline > 1 && s->parallel.zero > 1, VRAM_NOTE_STAGES_AND_ZERO, "parallel.zero"},
        {vram_adapters_whole(s), VRAM_NOTE_ADAPTERS_WHOLE, "parallel.engine"},
        {lora && megatron && s->lora.dora, VRAM_NOTE_STATES_ALONE, "lora.dora"},
        {(loss == VRAM_LOSS_CHUNKED && rl) || (loss == VRAM_LOSS_INPLACE && rl) || (loss == VRAM_LOSS_FUSED && rl) || (loss != VRAM_LOSS_FULL && (ppo || megatron)), VRAM_NOTE_NOT_MODELLED, "training.loss"},
        {vram_loss_stays_whole(s), VRAM_NOTE_LOSS_STAYS_WHOLE, "training.loss"},
        {optimizer == VRAM_OPTIMIZER_GALORE, VRAM_NOTE_GALORE_RANK, "training.optimizer"},
        {optimizer == VRAM_OPTIMIZER_LOMO && !vram_steps_in_backward(s), VRAM_NOTE_LOMO_GRADIENTS, "training.optimizer"},
        {rl && s->rl.unread_critic, VRAM_NOTE_NOT_READ, "rl.critic"},
        {rl && s->rl.unread_reward, VRAM_NOTE_NOT_READ, "rl.reward"},
        {rl && s->rl.group_size > 1, VRAM_NOTE_GROUP_WITHIN_BATCH, "rl.group_size"},
        {rl && !ppo && s->rl.forward_batch != s->training.micro_batch, VRAM_NOTE_NOT_MODELLED, "rl.forward_batch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].set) vram_note_add(report, rows[i].id, rows[i].path, 0, NULL);
}

enum { ROLES = 3 };

/* The model of a role, where it has one of its own; NULL: it has none */
static vram_model *model_of(vram_scenario *s, int role)
{
    vram_role_choice *const roles[ROLES] = {&s->rl.critic, &s->rl.reference, &s->rl.reward};
    return s->task == VRAM_TASK_RL && roles[role]->kind == VRAM_ROLE_MODEL_MODEL ? &roles[role]->model : NULL;
}

static void choose(vram_scenario *s, int64_t stage)
{
    vram_stage_choose(s, &s->model, stage);
    for (int i = 0; i < ROLES; i++)
        if (model_of(s, i)) vram_stage_choose(s, model_of(s, i), stage);
}

static bool alike(vram_scenario *s, int64_t a, int64_t b)
{
    bool all = vram_stages_alike(s, &s->model, a, b);
    for (int i = 0; i < ROLES && all; i++)
        if (model_of(s, i)) all = vram_stages_alike(s, model_of(s, i), a, b);
    return all;
}

bool vram_enter_stage(vram_scenario *s, int64_t stage, bool verdict_alone, vram_report *report, vram_error *error)
{
    vram_steps steps;
    choose(s, stage);
    memset(report, 0, offsetof(vram_report, entry));
    report->kv_tokens_capacity = report->max_context = -1;
    report->pool = (vram_pool){.model_bytes = -1, .available_bytes = -1, .blocks = -1, .tokens = -1, .concurrency = -1, .graph_bytes = -1, .k_bytes = -1, .v_bytes = -1};
    report->phases = s->task == VRAM_TASK_INFERENCE ? VRAM_PHASES_INFERENCE : s->task == VRAM_TASK_TRAINING ? VRAM_PHASES_TRAINING : VRAM_PHASES_RL;
    counts(s, report);
    if (s->task == VRAM_TASK_INFERENCE) vram_engine_entries(s, report);
    else if (s->task == VRAM_TASK_TRAINING) vram_training(s, s->overheads ? &steps : NULL, report);
    else vram_rl(s, report);
    vram_gpu_overheads(s, report);
    vram_reserve(s, s->task == VRAM_TASK_TRAINING ? &steps : NULL, verdict_alone, report);
    return vram_ledger_close(report, error);
}

/* Has an earlier stage the same layers of every model? It holds as many micro-batches or more: nothing of this one is more. */
static bool exceeded(vram_scenario *s, int64_t stage)
{
    bool found = false;
    for (int64_t i = 0; i < stage && !found; i++) found = alike(s, i, stage);
    return found;
}

/* What the stages of a server agree on: each has as many blocks and tokens as the one with room for fewest (vLLM, v1/core/kv_cache_utils.py, get_kv_cache_configs;
 * SGLang, model_executor/model_runner.py) */
typedef struct { vram_pool pool; double tokens, context, room; } agreement;

static double least(double a, double b) { return a < 0 ? b : b < 0 ? a : vram_min(a, b); } /* below 0: it does not apply */

static void agree(const vram_scenario *s, const vram_report *report, agreement *a)
{
    const vram_pool *p = &report->pool;
    double room = p->sequence_bytes > 0 ? (vram_pool_budget(s, &s->gpu) - p->fixed_bytes - p->first_bytes) / p->sequence_bytes : VRAM_LARGEST;
    a->tokens = least(a->tokens, report->kv_tokens_capacity);
    a->context = least(a->context, report->max_context);
    if (p->first_bytes <= 0 || (a->pool.first_bytes > 0 && room >= a->room)) return;
    a->pool = *p;
    a->room = room;
}

static void keep_agreement(const agreement *a, vram_report *report)
{
    vram_pool own = report->pool;
    if (a->pool.first_bytes <= 0) return;
    report->pool = a->pool;
    report->pool.model_bytes = own.model_bytes; /* these are each stage's own */
    report->pool.available_bytes = own.available_bytes;
    report->pool.graph_bytes = own.graph_bytes;
    report->pool.k_bytes = own.k_bytes < 0 ? own.k_bytes : own.k_bytes / (own.tokens + 1) * (a->tokens + 1);
    report->pool.v_bytes = own.v_bytes < 0 ? own.v_bytes : own.v_bytes / (own.tokens + 1) * (a->tokens + 1);
    report->pool.tokens = report->kv_tokens_capacity = a->tokens;
    report->max_context = a->context;
}

/* Of a pipeline the fullest stage, which is entered last: in training it is most often the first, of servers the last. */
static bool enter_fullest(vram_scenario *s, bool verdict_alone, vram_report *report, vram_error *error)
{
    int64_t stages = vram_stages(s), fullest = -1, last = -1;
    double most = 0;
    agreement all = {.tokens = -1, .context = -1};
    for (int64_t i = 0; i < stages; i++) {
        int64_t stage = s->task == VRAM_TASK_INFERENCE ? i : stages - 1 - i;
        if (exceeded(s, stage)) continue;
        if (!vram_enter_stage(s, stage, verdict_alone, report, error)) return false;
        double fullness = vram_gpu_fullness(s, report);
        agree(s, report, &all);
        last = stage;
        if (fullest >= 0 && fullness < most) continue;
        fullest = stage;
        most = fullness;
    }
    if (fullest != last && !vram_enter_stage(s, fullest, verdict_alone, report, error)) return false;
    if (stages == 1) return true;
    keep_agreement(&all, report);
    vram_note_add(report, VRAM_NOTE_STAGE, "parallel.pipeline", 3, (const double[]){(double)fullest + 1, (double)stages, (double)s->model.stage.layers});
    return true;
}

static bool estimate(vram_scenario *s, const vram_gpu *gpus, int gpu_count, bool verdict_alone, vram_report *report, vram_error *error)
{
    if (!enter_fullest(s, verdict_alone, report, error)) return false;
    remarks(s, report);
    if (s->task != VRAM_TASK_INFERENCE) {
        undivided(s, report);
        filled_up(s, report);
        not_modelled(s, report);
    }
    if (report->peak == VRAM_PHASE_ROLLOUT && s->rl.rollout_engine == VRAM_ROLLOUT_ENGINE_VLLM)
        vram_note_add(report, VRAM_NOTE_ROLLOUT_WAITS, "rl.rollout_batch", 1, (const double[]){(double)s->rl.rollout_batch});
    report->cluster_bytes = report->peak_bytes * (double)s->gpus;
    if (!(report->cluster_bytes < VRAM_LARGEST)) return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", report->cluster_bytes, 0, VRAM_LARGEST - 1);
    vram_gpu_fits(s, gpus, gpu_count, report);
    vram_logs(s, report);
    return true;
}

bool vram_estimate(vram_scenario *s, const vram_gpu *gpus, int gpu_count, vram_report *report, vram_error *error)
{
    return estimate(s, gpus, gpu_count, false, report, error);
}

bool vram_judge(vram_scenario *s, vram_report *report, vram_error *error) { return estimate(s, NULL, 0, true, report, error); }
