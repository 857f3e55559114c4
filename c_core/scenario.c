/* scenario.c -- defaults that depend on other fields, and contradictions between fields. */
#include "core.h"

#include <math.h>
#include <stddef.h>

static void set(int *field, int value) { if (*field < 0) *field = value; }
static void set_count(int64_t *field, int64_t value) { if (*field == VRAM_UNSET) *field = value; }

static void inference_defaults(vram_scenario *s)
{
    int cache = s->engine == VRAM_ENGINE_LLAMA_CPP || s->weights == VRAM_FORMAT_FP16 ? VRAM_FORMAT_FP16 : s->weights == VRAM_FORMAT_FP32 ? VRAM_FORMAT_FP32 : VRAM_FORMAT_BF16;
    set_count(&s->prompt, s->context);
    set(&s->kv_cache, cache);
    if (s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_LLAMA_CPP) {
        set(&s->kv_cache_k, s->kv_cache);
        set(&s->kv_cache_v, s->kv_cache);
    } else s->kv_cache_k = s->kv_cache_v = -1; /* elsewhere keys and values are of one type */
    if (s->engine == VRAM_ENGINE_SGLANG) { /* it counts much as vLLM's current engine does, whose own settings it has not */
        s->vllm.engine = VRAM_VLLM_V1;
        s->vllm.max_num_batched_tokens = 2048;
        s->vllm.max_num_seqs = 256;
        s->vllm.block_size = 16;
        s->vllm.cuda_graphs = 1;
        s->vllm.flashinfer_sampler = 0;
    }
    if (s->vllm.gpu_memory_utilization < 0) s->vllm.gpu_memory_utilization = s->vllm.engine == VRAM_VLLM_V0 ? 0.9 : 0.92;
    set_count(&s->llama_cpp.output_rows, s->llama_cpp.slots);
    if (s->task != VRAM_TASK_INFERENCE) s->speculative.mtp_tokens = 0;
}

static void training_defaults(vram_scenario *s)
{
    bool lora = s->training.method == VRAM_METHOD_LORA, fsdp = vram_is_fsdp(s);
    int precision = s->training.precision;
    bool wide = fsdp || vram_is_megatron(s, &s->model); /* shards as the parameters'; --bf16 turns accumulate_allreduce_grads_in_fp32 on (megatron/training/arguments.py) */
    int gradients = precision == VRAM_PRECISION_BF16 || (precision == VRAM_PRECISION_MIXED && !wide) ? VRAM_FORMAT_BF16 : VRAM_FORMAT_FP32;
    set(&s->training.autocast, precision == VRAM_PRECISION_AMP);
    set(&s->training.gradients, lora ? s->lora.dtype : gradients);
    set(&s->training.optimizer_states, lora ? s->lora.dtype : precision == VRAM_PRECISION_BF16 ? VRAM_FORMAT_BF16 : VRAM_FORMAT_FP32);
}

static void rl_defaults(vram_scenario *s)
{
    bool ppo = s->rl.algorithm == VRAM_ALGORITHM_PPO, dpo = s->rl.algorithm == VRAM_ALGORITHM_DPO;
    s->rl.unread_critic = s->task == VRAM_TASK_RL && !ppo && s->rl.critic.kind >= 0 && s->rl.critic.kind != VRAM_ROLE_MODEL_NONE; /* they have none */
    s->rl.unread_reward = s->task == VRAM_TASK_RL && dpo && s->rl.reward.kind >= 0 && s->rl.reward.kind != VRAM_ROLE_MODEL_NONE;
    if (s->rl.unread_critic) s->rl.critic.kind = VRAM_ROLE_MODEL_NONE;
    if (s->rl.unread_reward) s->rl.reward.kind = VRAM_ROLE_MODEL_NONE;
    set(&s->rl.critic.kind, ppo ? VRAM_ROLE_MODEL_SAME : VRAM_ROLE_MODEL_NONE);
    set(&s->rl.reference.kind, s->training.method == VRAM_METHOD_LORA ? VRAM_ROLE_MODEL_ADAPTER : VRAM_ROLE_MODEL_SAME); /* with the adapter off it is the same model */
    set(&s->rl.reward.kind, dpo ? VRAM_ROLE_MODEL_NONE : VRAM_ROLE_MODEL_SAME);
    set_count(&s->rl.forward_batch, ppo ? (s->rl.rollout_batch < 64 ? s->rl.rollout_batch : 64) : s->training.micro_batch); /* TRL's local_rollout_forward_batch_size */
}

/* Experts are divided over the ranks of data and tensor parallelism; when these are fewer, the others do nothing else. */
double vram_gpus_over(const vram_scenario *s, double data, double tensor, double pipeline)
{
    return vram_max(data * tensor * (double)s->parallel.context, (double)s->parallel.expert) * pipeline;
}

double vram_gpus_of_degrees(const vram_scenario *s) { return vram_gpus_over(s, (double)s->parallel.data, (double)s->parallel.tensor, (double)s->parallel.pipeline); }

static void parallel_defaults(vram_scenario *s)
{
    set_count(&s->parallel.zero, vram_is_fsdp(s) ? 3 : 0); /* FULL_SHARD, reshard_after_forward=True */
    /* Servers spread experts over the ranks of the tensor-parallel group (and its replicas); Megatron over replicas, each expert cut as the rest is */
    bool server = s->task == VRAM_TASK_INFERENCE && (s->engine == VRAM_ENGINE_VLLM || s->engine == VRAM_ENGINE_SGLANG);
    bool interleaves = s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2 || s->parallel.engine == VRAM_PARALLEL_ENGINE_MEGATRON;
    if (s->task == VRAM_TASK_INFERENCE) s->parallel.expert_tensor = VRAM_UNSET;
    if (!interleaves) s->parallel.virtual_pipeline = 1;
    set_count(&s->parallel.expert_tensor, !server ? s->parallel.tensor : s->parallel.tensor > s->parallel.expert ? s->parallel.tensor / s->parallel.expert : 1);
    if (s->gpus == VRAM_UNSET) s->gpus = (int64_t)vram_gpus_of_degrees(s);
}

static int64_t most_experts(const vram_model *model)
{
    int64_t most = 1;
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].ffn.experts > most) most = model->kind[i].ffn.experts;
    return most;
}

enum { MOST_GPUS = 1048576 }; /* as the field allows; a product of degrees may say more */

/* The value is named as it was given, not by its place in our list */
static bool conflict(vram_error *error, const char *path, vram_list list, int value)
{
    const char *name = vram_name(list, value);
    vram_fail(error, VRAM_ERROR_CONFLICT, path, VRAM_NO_NUMBER, 1, 0);
    for (size_t i = 0; name[i] && i + 1 < sizeof error->text; i++) error->text[i] = name[i];
    return false;
}

/* Only what cannot mean anything is refused; what is merely unwise becomes a note elsewhere. */
static bool contradictions(const vram_scenario *s, vram_error *error)
{
    const struct { bool wrong; const char *path; double value, min, max; } rows[] = {
        {s->task == VRAM_TASK_INFERENCE && s->prompt > s->context, "prompt", (double)s->prompt, 1, (double)s->context},
        {s->parallel.pipeline > s->model.layers, "parallel.pipeline", (double)s->parallel.pipeline, 1, (double)s->model.layers},
        {s->gpus > MOST_GPUS, "gpus", (double)s->gpus, 1, MOST_GPUS},
        {s->parallel.expert > most_experts(&s->model), "parallel.expert", (double)s->parallel.expert, 1, (double)most_experts(&s->model)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].wrong) return vram_fail(error, VRAM_ERROR_RANGE, rows[i].path, rows[i].value, rows[i].min, rows[i].max);
    if (s->weights == VRAM_FORMAT_NATIVE && s->model.native_unknown)
        return vram_fail(error, VRAM_ERROR_UNSUPPORTED, "model.quantization_config.quant_method", VRAM_NO_NUMBER, 1, 0);
    if (s->task == VRAM_TASK_RL && s->rl.reference.kind == VRAM_ROLE_MODEL_ADAPTER && s->training.method != VRAM_METHOD_LORA)
        return conflict(error, "rl.reference", VRAM_LIST_ROLE_MODEL, VRAM_ROLE_MODEL_ADAPTER);
    if (s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_LLAMA_CPP && (s->kv_cache == VRAM_FORMAT_FP8 || s->kv_cache == VRAM_FORMAT_INT8))
        return conflict(error, "kv_cache", VRAM_LIST_FORMAT, s->kv_cache); /* ggml has neither */
    if (s->task == VRAM_TASK_INFERENCE && (s->engine == VRAM_ENGINE_VLLM || s->engine == VRAM_ENGINE_SGLANG) && vram_format_get(s->kv_cache)->block > 1)
        return conflict(error, "kv_cache", VRAM_LIST_FORMAT, s->kv_cache); /* blocks with scales are ggml's */
    return true;
}

bool vram_scenario_defaults(vram_scenario *s, vram_error *error)
{
    inference_defaults(s);
    training_defaults(s);
    rl_defaults(s);
    parallel_defaults(s);
    return contradictions(s, error);
}
