/* scenario.c -- the table of fields: it reads a scenario, checks it, writes the normalised one, and makes the page's form. */
#include "json.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { ENUM, FORMAT, BOOLEAN, INTEGER, NUMBER, MODEL, ROLE_MODEL, GPU, TARGETS } field_type;

typedef struct {
    const char *path;
    field_type type;
    size_t offset;
    vram_list list;        /* ENUM, ROLE_MODEL */
    const char *values;    /* "a|b|c": the ids allowed, when not all of the list */
    double min, max;       /* INTEGER, NUMBER */
    double initial;        /* default; an id's index for ENUM; UNSET: depends on other fields */
    const char *word;      /* what "unset" is called in a scenario: "all", "none" */
    const char *unit;
    const char *when;      /* "path=a|b;path=c": shown and read only when all hold; what follows a '!': not when all of that holds */
} field;

#define UNSET (-1.0)
#define AT(member) offsetof(vram_scenario, member)
#define TRAINS "task=training|rl"
#define INFERS "task=inference"

/* Order is the form's order. Ranges keep every product of an estimate below 2^53 for models one can name. */
static const field fields[] = {
    {"task", ENUM, AT(task), VRAM_LIST_TASK, NULL, 0, 0, VRAM_TASK_INFERENCE, NULL, NULL, NULL},
    {"model", MODEL, 0, 0, NULL, 0, 0, UNSET, NULL, NULL, NULL},
    {"weights", FORMAT, AT(weights), VRAM_LIST_FORMAT, NULL, 0, 0, 0, NULL, NULL, "!task=training|rl;training.method=full"},
    {"engine", ENUM, AT(engine), VRAM_LIST_ENGINE, NULL, 0, 0, VRAM_ENGINE_BARE, NULL, NULL, INFERS},
    {"context", INTEGER, AT(context), 0, NULL, 1, 16777216, 4096, NULL, "tokens", INFERS},
    {"prompt", INTEGER, AT(prompt), 0, NULL, 1, 16777216, UNSET, NULL, "tokens", INFERS},
    {"batch", INTEGER, AT(batch), 0, NULL, 1, 1048576, 1, NULL, "sequences", INFERS ";engine=bare|transformers|vllm|sglang"},
    {"kv_cache", FORMAT, AT(kv_cache), VRAM_LIST_FORMAT, "bf16|fp16|fp32|fp8|int8|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl", 0, 0, UNSET, NULL, NULL, "task=inference|rl;!task=rl;rl.rollout_engine=transformers"},
    {"kv_cache_k", FORMAT, AT(kv_cache_k), VRAM_LIST_FORMAT, "bf16|fp16|fp32|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl", 0, 0, UNSET, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"kv_cache_v", FORMAT, AT(kv_cache_v), VRAM_LIST_FORMAT, "bf16|fp16|fp32|q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl", 0, 0, UNSET, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"transformers.attention", ENUM, AT(transformers.attention), VRAM_LIST_ATTENTION, "sdpa|eager", 0, 0, VRAM_ATTENTION_SDPA, NULL, NULL, INFERS ";engine=transformers"},
    {"vllm.engine", ENUM, AT(vllm.engine), VRAM_LIST_VLLM_ENGINE, NULL, 0, 0, VRAM_VLLM_V1, NULL, NULL, INFERS ";engine=vllm"},
    {"vllm.gpu_memory_utilization", NUMBER, AT(vllm.gpu_memory_utilization), 0, NULL, 0.01, 1, UNSET, NULL, "fraction", INFERS ";engine=vllm"},
    {"vllm.max_num_batched_tokens", INTEGER, AT(vllm.max_num_batched_tokens), 0, NULL, 1, 16777216, 2048, NULL, "tokens", INFERS ";engine=vllm"},
    {"vllm.max_num_seqs", INTEGER, AT(vllm.max_num_seqs), 0, NULL, 1, 65536, 256, NULL, "sequences", INFERS ";engine=vllm"},
    {"vllm.block_size", INTEGER, AT(vllm.block_size), 0, NULL, 1, 4096, 16, NULL, "tokens", INFERS ";engine=vllm"},
    {"vllm.cuda_graphs", BOOLEAN, AT(vllm.cuda_graphs), 0, NULL, 0, 0, 1, NULL, NULL, INFERS ";engine=vllm"},
    {"vllm.flashinfer_sampler", BOOLEAN, AT(vllm.flashinfer_sampler), 0, NULL, 0, 0, 0, NULL, NULL, INFERS ";engine=vllm"},
    {"sglang.mem_fraction_static", NUMBER, AT(sglang.mem_fraction_static), 0, NULL, 0.01, 1, UNSET, NULL, "fraction", INFERS ";engine=sglang"},
    {"llama_cpp.ubatch", INTEGER, AT(llama_cpp.ubatch), 0, NULL, 1, 1048576, 512, NULL, "tokens", INFERS ";engine=llama.cpp"},
    {"llama_cpp.flash_attention", BOOLEAN, AT(llama_cpp.flash_attention), 0, NULL, 0, 0, 1, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"llama_cpp.gpu_layers", INTEGER, AT(llama_cpp.gpu_layers), 0, NULL, 0, 100000, UNSET, "all", "layers", INFERS ";engine=llama.cpp"},
    {"llama_cpp.slots", INTEGER, AT(llama_cpp.slots), 0, NULL, 1, 256, 1, NULL, "sequences", INFERS ";engine=llama.cpp"},
    {"llama_cpp.swa_full", BOOLEAN, AT(llama_cpp.swa_full), 0, NULL, 0, 0, 0, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"llama_cpp.kv_unified", BOOLEAN, AT(llama_cpp.kv_unified), 0, NULL, 0, 0, 1, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"llama_cpp.output_rows", INTEGER, AT(llama_cpp.output_rows), 0, NULL, 1, 1048576, UNSET, NULL, "rows", INFERS ";engine=llama.cpp"},
    {"llama_cpp.imatrix", BOOLEAN, AT(llama_cpp.imatrix), 0, NULL, 0, 0, 0, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"llama_cpp.mla_cache", ENUM, AT(llama_cpp.mla_cache), VRAM_LIST_MLA_CACHE, NULL, 0, 0, VRAM_MLA_CACHE_LATENT, NULL, NULL, INFERS ";engine=llama.cpp"},
    {"speculative.mtp_tokens", INTEGER, AT(speculative.mtp_tokens), 0, NULL, 0, 64, 0, NULL, "tokens", INFERS},
    {"rl.algorithm", ENUM, AT(rl.algorithm), VRAM_LIST_ALGORITHM, NULL, 0, 0, VRAM_ALGORITHM_PPO, NULL, NULL, "task=rl"},
    {"rl.critic", ROLE_MODEL, AT(rl.critic), VRAM_LIST_ROLE_MODEL, "same|none", 0, 0, UNSET, NULL, NULL, "task=rl;rl.algorithm=ppo"},
    {"rl.reference", ROLE_MODEL, AT(rl.reference), VRAM_LIST_ROLE_MODEL, "same|none|adapter|precomputed", 0, 0, UNSET, NULL, NULL, "task=rl"},
    {"rl.reward", ROLE_MODEL, AT(rl.reward), VRAM_LIST_ROLE_MODEL, "same|none", 0, 0, UNSET, NULL, NULL, "task=rl;rl.algorithm=ppo|grpo|rloo"},
    {"rl.prompt", INTEGER, AT(rl.prompt), 0, NULL, 1, 16777216, 512, NULL, "tokens", "task=rl"},
    {"rl.response", INTEGER, AT(rl.response), 0, NULL, 1, 16777216, 512, NULL, "tokens", "task=rl"},
    {"rl.rollout_batch", INTEGER, AT(rl.rollout_batch), 0, NULL, 1, 1048576, 8, NULL, "sequences", "task=rl;rl.algorithm=ppo|grpo|rloo"},
    {"rl.group_size", INTEGER, AT(rl.group_size), 0, NULL, 1, 65536, 1, NULL, "sequences", "task=rl;rl.algorithm=grpo|rloo"},
    {"rl.forward_batch", INTEGER, AT(rl.forward_batch), 0, NULL, 1, 1048576, UNSET, NULL, "sequences", "task=rl"},
    {"rl.rollout_engine", ENUM, AT(rl.rollout_engine), VRAM_LIST_ROLLOUT_ENGINE, NULL, 0, 0, VRAM_ROLLOUT_ENGINE_TRANSFORMERS, NULL, NULL, "task=rl;rl.algorithm=ppo|grpo|rloo"},
    {"rl.share_weights", BOOLEAN, AT(rl.share_weights), 0, NULL, 0, 0, 0, NULL, NULL, "task=rl;rl.rollout_engine=vllm"},
    {"rl.offload_idle", BOOLEAN, AT(rl.offload_idle), 0, NULL, 0, 0, 0, NULL, NULL, "task=rl"},
    {"training.method", ENUM, AT(training.method), VRAM_LIST_METHOD, NULL, 0, 0, VRAM_METHOD_FULL, NULL, NULL, TRAINS},
    {"training.precision", ENUM, AT(training.precision), VRAM_LIST_PRECISION, NULL, 0, 0, VRAM_PRECISION_MIXED, NULL, NULL, TRAINS},
    {"training.autocast", BOOLEAN, AT(training.autocast), 0, NULL, 0, 0, UNSET, NULL, NULL, TRAINS},
    {"training.gradients", FORMAT, AT(training.gradients), VRAM_LIST_FORMAT, "bf16|fp16|fp32", 0, 0, UNSET, NULL, NULL, TRAINS},
    {"training.optimizer", ENUM, AT(training.optimizer), VRAM_LIST_OPTIMIZER, NULL, 0, 0, VRAM_OPTIMIZER_ADAMW, NULL, NULL, TRAINS},
    {"training.optimizer_states", FORMAT, AT(training.optimizer_states), VRAM_LIST_FORMAT, "fp32|bf16|fp16", 0, 0, UNSET, NULL, NULL, TRAINS},
    {"training.optimizer_impl", ENUM, AT(training.optimizer_impl), VRAM_LIST_OPTIMIZER_IMPL, NULL, 0, 0, VRAM_OPTIMIZER_IMPL_FOREACH, NULL, NULL, TRAINS ";training.optimizer=adamw|muon|galore;!parallel.offload=optimizer|optimizer+weights"},
    {"training.sequence_length", INTEGER, AT(training.sequence_length), 0, NULL, 1, 16777216, 4096, NULL, "tokens", "task=training"},
    {"training.micro_batch", INTEGER, AT(training.micro_batch), 0, NULL, 1, 65536, 1, NULL, "sequences", TRAINS},
    {"training.gradient_accumulation", INTEGER, AT(training.gradient_accumulation), 0, NULL, 1, 1048576, 1, NULL, "steps", TRAINS},
    {"training.checkpointing", ENUM, AT(training.checkpointing), VRAM_LIST_CHECKPOINTING, NULL, 0, 0, VRAM_CHECKPOINTING_NONE, NULL, NULL, TRAINS},
    {"training.checkpointing_interval", INTEGER, AT(training.checkpointing_interval), 0, NULL, 1, 4096, 1, NULL, "layers", TRAINS ";training.checkpointing=full"},
    {"training.attention", ENUM, AT(training.attention), VRAM_LIST_ATTENTION, NULL, 0, 0, VRAM_ATTENTION_FLASH, NULL, NULL, TRAINS},
    {"training.loss", ENUM, AT(training.loss), VRAM_LIST_LOSS, NULL, 0, 0, VRAM_LOSS_FULL, NULL, NULL, TRAINS},
    {"training.packing", ENUM, AT(training.packing), VRAM_LIST_PACKING, NULL, 0, 0, VRAM_PACKING_NONE, NULL, NULL, TRAINS},
    {"training.dropout", NUMBER, AT(training.dropout), 0, NULL, 0, 1, UNSET, NULL, "fraction", TRAINS},
    {"training.clip", NUMBER, AT(training.clip), 0, NULL, 0, 1e6, 0, "none", NULL, TRAINS},
    {"training.optimizer_in_backward", BOOLEAN, AT(training.optimizer_in_backward), 0, NULL, 0, 0, 0, NULL, NULL, TRAINS},
    {"training.offload_activations", BOOLEAN, AT(training.offload_activations), 0, NULL, 0, 0, 0, NULL, NULL, TRAINS},
    {"training.kernels", ENUM, AT(training.kernels), VRAM_LIST_KERNELS, NULL, 0, 0, VRAM_KERNELS_TRANSFORMERS, NULL, NULL, TRAINS},
    {"lora.rank", INTEGER, AT(lora.rank), 0, NULL, 1, 65536, 16, NULL, NULL, TRAINS ";training.method=lora"},
    {"lora.targets", TARGETS, 0, VRAM_LIST_LORA_TARGETS, "all-linear|attention|qv", 0, 0, VRAM_LORA_TARGETS_ALL_LINEAR, NULL, NULL, TRAINS ";training.method=lora"},
    {"lora.dtype", FORMAT, AT(lora.dtype), VRAM_LIST_FORMAT, "fp32|bf16|fp16", 0, 0, UNSET, NULL, NULL, TRAINS ";training.method=lora"},
    {"lora.dora", BOOLEAN, AT(lora.dora), 0, NULL, 0, 0, 0, NULL, NULL, TRAINS ";training.method=lora"},
    {"lora.dropout", NUMBER, AT(lora.dropout), 0, NULL, 0, 1, 0, NULL, "fraction", TRAINS ";training.method=lora"},
    {"lora.prepare_kbit", BOOLEAN, AT(lora.prepare_kbit), 0, NULL, 0, 0, 0, NULL, NULL, TRAINS ";training.method=lora"},
    {"parallel.data", INTEGER, AT(parallel.data), 0, NULL, 1, 1048576, 1, NULL, "ranks", NULL},
    {"parallel.zero", INTEGER, AT(parallel.zero), 0, NULL, 0, 3, UNSET, NULL, NULL, TRAINS},
    {"parallel.tensor", INTEGER, AT(parallel.tensor), 0, NULL, 1, 4096, 1, NULL, "ranks", NULL},
    {"parallel.sequence", BOOLEAN, AT(parallel.sequence), 0, NULL, 0, 0, 0, NULL, NULL, TRAINS},
    {"parallel.pipeline", INTEGER, AT(parallel.pipeline), 0, NULL, 1, 1024, 1, NULL, "ranks", NULL},
    {"parallel.context", INTEGER, AT(parallel.context), 0, NULL, 1, 4096, 1, NULL, "ranks", NULL},
    {"parallel.expert", INTEGER, AT(parallel.expert), 0, NULL, 1, 4096, 1, NULL, "ranks", NULL},
    {"parallel.engine", ENUM, AT(parallel.engine), VRAM_LIST_PARALLEL_ENGINE, NULL, 0, 0, VRAM_PARALLEL_ENGINE_PLAIN, NULL, NULL, TRAINS},
    {"parallel.virtual_pipeline", INTEGER, AT(parallel.virtual_pipeline), 0, NULL, 1, 1024, 1, NULL, NULL, TRAINS ";parallel.engine=plain|fsdp2|megatron"},
    {"parallel.expert_tensor", INTEGER, AT(parallel.expert_tensor), 0, NULL, 1, 4096, UNSET, NULL, "ranks", TRAINS},
    {"parallel.bucket_elements", INTEGER, AT(parallel.bucket_elements), 0, NULL, 0, 1e13, UNSET, NULL, "elements", TRAINS ";parallel.engine=deepspeed|megatron"},
    {"parallel.bucket_mib", INTEGER, AT(parallel.bucket_mib), 0, NULL, 0, 1e7, UNSET, NULL, "MiB", TRAINS ";parallel.engine=ddp"},
    {"parallel.bucket_view", BOOLEAN, AT(parallel.bucket_view), 0, NULL, 0, 0, UNSET, NULL, NULL, TRAINS ";parallel.engine=ddp"},
    {"parallel.overlap", BOOLEAN, AT(parallel.overlap), 0, NULL, 0, 0, UNSET, NULL, NULL, TRAINS ";parallel.engine=deepspeed|megatron"},
    {"parallel.prefetch", BOOLEAN, AT(parallel.prefetch), 0, NULL, 0, 0, UNSET, NULL, NULL, TRAINS ";parallel.engine=fsdp1|fsdp2|deepspeed"},
    {"parallel.prefetch_elements", INTEGER, AT(parallel.prefetch_elements), 0, NULL, 0, 1e13, UNSET, NULL, "elements", TRAINS ";parallel.engine=deepspeed"},
    {"parallel.persistence_elements", INTEGER, AT(parallel.persistence_elements), 0, NULL, 0, 1e13, UNSET, NULL, "elements", TRAINS ";parallel.engine=deepspeed"},
    {"parallel.max_live_elements", INTEGER, AT(parallel.max_live_elements), 0, NULL, 0, 1e13, UNSET, NULL, "elements", TRAINS ";parallel.engine=deepspeed"},
    {"parallel.subgroup_elements", INTEGER, AT(parallel.subgroup_elements), 0, NULL, 1, 1e13, UNSET, NULL, "elements", TRAINS ";parallel.engine=deepspeed"},
    {"parallel.offload", ENUM, AT(parallel.offload), VRAM_LIST_OFFLOAD, NULL, 0, 0, VRAM_OFFLOAD_NONE, NULL, NULL, TRAINS},
    {"gpu", GPU, 0, 0, NULL, 0, 0, UNSET, NULL, NULL, NULL},
    {"gpus", INTEGER, AT(gpus), 0, NULL, 1, 1048576, UNSET, NULL, "GPUs", NULL},
    {"overheads", BOOLEAN, AT(overheads), 0, NULL, 0, 0, 1, NULL, NULL, NULL},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
static const char *const DEFAULT_MODEL = "llama-2-7b", *const DEFAULT_GPU = "a100-80gb";

/* ------------------------------------------------------------------------------------------------------------ lists -- */

/* Is `id` one of "a|b|c"? */
static bool listed(const char *values, const char *id)
{
    size_t n = strlen(id);
    for (const char *p = values; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, id, n) == 0 && (p[n] == '|' || p[n] == '\0')) return true;
    return false;
}

static bool allowed(const field *f, int value)
{
    if (f->values) return listed(f->values, vram_name(f->list, value));
    return f->type != FORMAT || vram_format_get(value)->weights;
}

/* ------------------------------------------------------------------------------------------------------------- read -- */

static void *at(vram_scenario *s, const field *f) { return (char *)s + f->offset; }
static const void *at_const(const vram_scenario *s, const field *f) { return (const char *)s + f->offset; }

static void set_default(vram_scenario *s, const field *f)
{
    switch (f->type) {
    case ENUM: case FORMAT: case BOOLEAN: *(int *)at(s, f) = (int)f->initial; break;
    case INTEGER: *(int64_t *)at(s, f) = (int64_t)f->initial; break;
    case NUMBER: *(double *)at(s, f) = f->initial; break;
    case ROLE_MODEL: ((vram_role_choice *)at(s, f))->kind = -1; break;
    case TARGETS: s->lora.targets = VRAM_LORA_TARGETS_ALL_LINEAR; break;
    case MODEL: case GPU: break;
    }
}

static bool read_id(const cJSON *item, const field *f, int *out, vram_error *error)
{
    int value = cJSON_IsString(item) ? vram_find(f->list, item->valuestring) : -1;
    if (!cJSON_IsString(item)) return vram_json_refuse(item, VRAM_ERROR_TYPE, f->path, error);
    if (value < 0 || !allowed(f, value)) return vram_json_refuse(item, VRAM_ERROR_UNKNOWN_VALUE, f->path, error);
    *out = value;
    return true;
}

/* Errors of a model are about "model.x"; those of another role's model about "rl.critic.x". */
static bool read_model(const vram_json *json, const cJSON *item, const char *path, vram_model *model, const cJSON **held, vram_error *error)
{
    const cJSON *config = cJSON_IsString(item) ? vram_json_model(json, item->valuestring) : item, *before = *held;
    *held = NULL;
    if (!config) return vram_json_refuse(item, VRAM_ERROR_UNKNOWN_VALUE, path, error);
    if (!cJSON_IsObject(config)) return vram_json_refuse(item, VRAM_ERROR_TYPE, path, error);
    if (config == before || vram_config_read(config, model, error)) {
        *held = config;
        return true;
    }
    if (strcmp(path, "model") != 0 && strncmp(error->path, "model", 5) == 0) {
        char tail[sizeof error->path];
        memcpy(tail, error->path, sizeof tail);
        snprintf(error->path, sizeof error->path, "%.20s%.70s", path, tail + 5);
    }
    return false;
}

static bool read_role(const vram_json *json, const cJSON *item, const field *f, vram_role_choice *role, vram_json_configs *held, vram_error *error)
{
    int value = cJSON_IsString(item) ? vram_find(f->list, item->valuestring) : -1;
    if (value >= 0 && listed(f->values, item->valuestring)) {
        role->kind = value;
        return true;
    }
    role->kind = VRAM_ROLE_MODEL_MODEL;
    const cJSON **config = f->offset == AT(rl.critic) ? &held->critic : f->offset == AT(rl.reference) ? &held->reference : &held->reward;
    return read_model(json, item, f->path, &role->model, config, error);
}

static const double LEAST_MEMORY = 1024. * 1024 * 1024; /* bytes: on less, nothing is left beside a CUDA context */

static bool read_gpu(const vram_json *json, const cJSON *item, vram_gpu *gpu, vram_error *error)
{
    const cJSON *id = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "preset") : item;
    const cJSON *bytes = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "memory_bytes") : NULL;
    if (cJSON_IsObject(item))
        for (const cJSON *c = item->child; c; c = c->next)
            if (c != id && c != bytes) return vram_json_refuse(c, VRAM_ERROR_UNKNOWN_KEY, "gpu", error);
    if (!id && !bytes) return vram_json_refuse(item, VRAM_ERROR_MISSING, "gpu", error);
    if (id && !cJSON_IsString(id)) return vram_json_refuse(id, VRAM_ERROR_TYPE, "gpu", error);
    const vram_gpu *preset = vram_json_gpu(json, id ? id->valuestring : DEFAULT_GPU);
    if (!preset) return vram_json_refuse(id ? id : item, VRAM_ERROR_UNKNOWN_VALUE, "gpu", error);
    *gpu = *preset;
    if (!bytes) return true;
    if (!vram_json_number(bytes, "gpu.memory_bytes", LEAST_MEMORY, 1e15, &gpu->memory_bytes, error)) return false;
    gpu->memory_bytes = floor(gpu->memory_bytes);
    gpu->usable_bytes = vram_max(0, gpu->memory_bytes - gpu->context_bytes);
    return true;
}

static bool read_targets(const cJSON *item, const field *f, vram_scenario *s, vram_error *error)
{
    if (cJSON_IsString(item)) return read_id(item, f, &s->lora.targets, error);
    if (!cJSON_IsArray(item)) return vram_json_refuse(item, VRAM_ERROR_TYPE, f->path, error);
    if (cJSON_GetArraySize(item) < 1 || cJSON_GetArraySize(item) > VRAM_MAX_TARGETS)
        return vram_fail(error, VRAM_ERROR_RANGE, f->path, cJSON_GetArraySize(item), 1, VRAM_MAX_TARGETS);
    s->lora.targets = VRAM_LORA_TARGETS_LIST;
    s->lora.names = 0;
    for (const cJSON *c = item->child; c; c = c->next) {
        if (!cJSON_IsString(c) || !c->valuestring[0]) return vram_json_refuse(c, VRAM_ERROR_TYPE, f->path, error);
        if (strlen(c->valuestring) >= VRAM_MAX_NAME) return vram_fail(error, VRAM_ERROR_TOO_LARGE, f->path, (double)strlen(c->valuestring), 1, VRAM_MAX_NAME - 1); /* letters */
        snprintf(s->lora.name[s->lora.names++], VRAM_MAX_NAME, "%s", c->valuestring);
    }
    return true;
}

static bool read_field(const vram_json *json, const cJSON *item, const field *f, vram_scenario *s, vram_json_configs *held, vram_error *error)
{
    if (f->word && cJSON_IsString(item) && strcmp(item->valuestring, f->word) == 0) {
        set_default(s, f);
        return true;
    }
    switch (f->type) {
    case ENUM: case FORMAT: return read_id(item, f, at(s, f), error);
    case BOOLEAN: return vram_json_boolean(item, f->path, at(s, f), error);
    case INTEGER: return vram_json_integer(item, f->path, f->min, f->max, at(s, f), error);
    case NUMBER: return vram_json_number(item, f->path, f->min, f->max, at(s, f), error);
    case MODEL: return read_model(json, item, f->path, &s->model, &held->model, error);
    case ROLE_MODEL: return read_role(json, item, f, at(s, f), held, error);
    case GPU: return read_gpu(json, item, &s->gpu, error);
    case TARGETS: return read_targets(item, f, s, error);
    }
    return false;
}

static const field *find_field(const char *path)
{
    for (int i = 0; i < FIELDS; i++)
        if (fields[i].path[0] == path[0] && strcmp(fields[i].path, path) == 0) return &fields[i];
    return NULL;
}

/* Is there a field "prefix.x"? */
static bool is_section(const char *prefix)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < FIELDS; i++)
        if (strncmp(fields[i].path, prefix, n) == 0 && fields[i].path[n] == '.') return true;
    return false;
}

static bool unknown_key(const char *section, const char *key, vram_error *error)
{
    vram_fail(error, VRAM_ERROR_UNKNOWN_KEY, "", VRAM_NO_NUMBER, 1, 0);
    int n = snprintf(error->path, sizeof error->path, "%s%s%.48s", section, section[0] ? "." : "", key);
    for (int i = 0; i < n && i < (int)sizeof error->path; i++)
        if (error->path[i] < 0x20 || error->path[i] > 0x7E) error->path[i] = '?';
    return false;
}

/* "training" and "loss" -> "training.loss"; false when that is longer than any field's */
static bool join(const char *section, const char *key, char path[64])
{
    size_t n = strlen(section), more = strlen(key);
    if (n + 1 + more >= 64) return false;
    memcpy(path, section, n);
    if (n) path[n++] = '.';
    memcpy(path + n, key, more + 1);
    return true;
}

static bool read_object(const vram_json *json, const cJSON *object, const char *section, vram_scenario *s, vram_json_configs *held, vram_error *error)
{
    for (const cJSON *c = object->child; c; c = c->next) {
        char path[64];
        int64_t version;
        if (!join(section, c->string, path)) return unknown_key(section, c->string, error);
        if (strcmp(path, "version") == 0) {
            if (!vram_json_integer(c, "version", 1, 1, &version, error)) return false;
            continue;
        }
        const field *f = find_field(path);
        if (f && !read_field(json, c, f, s, held, error)) return false;
        if (f) continue;
        if (section[0] || !is_section(path)) return unknown_key(section, c->string, error);
        if (!cJSON_IsObject(c)) return vram_json_refuse(c, VRAM_ERROR_TYPE, path, error);
        if (!read_object(json, c, path, s, held, error)) return false;
    }
    return true;
}

static bool default_model_and_gpu(const vram_json *json, const cJSON *tree, vram_scenario *s, vram_json_configs *held, vram_error *error)
{
    const cJSON *config = vram_json_model(json, DEFAULT_MODEL);
    const vram_gpu *gpu = vram_json_gpu(json, DEFAULT_GPU);
    if (!cJSON_GetObjectItemCaseSensitive(tree, "model")) {
        if (!config) return vram_fail(error, VRAM_ERROR_MISSING, "model", VRAM_NO_NUMBER, 1, 0);
        if (!read_model(json, config, "model", &s->model, &held->model, error)) return false;
    }
    if (gpu) s->gpu = *gpu;
    else if (!cJSON_GetObjectItemCaseSensitive(tree, "gpu")) return vram_fail(error, VRAM_ERROR_MISSING, "gpu", VRAM_NO_NUMBER, 1, 0);
    return true;
}

bool vram_json_scenario_read(const vram_json *json, const cJSON *tree, vram_scenario *s, vram_json_configs *held, vram_error *error)
{
    if (!cJSON_IsObject(tree)) return vram_json_refuse(tree, VRAM_ERROR_TYPE, "", error);
    for (int i = 0; i < FIELDS; i++) set_default(s, &fields[i]);
    s->weights = VRAM_FORMAT_BF16;
    s->lora.dtype = VRAM_FORMAT_FP32;
    s->lora.names = 0;
    return default_model_and_gpu(json, tree, s, held, error) && read_object(json, tree, "", s, held, error) && vram_scenario_defaults(s, error);
}

/* ------------------------------------------------------------------------------------------------------------ range -- */

/* Positions that the model was trained for bound the fields that count them; its layers, and the output behind them, those on a GPU. */
static double limit_of(const vram_scenario *s, const char *path)
{
    double positions = (double)s->model.max_positions;
    if (strcmp(path, "context") == 0 || strcmp(path, "prompt") == 0 || strcmp(path, "training.sequence_length") == 0) return positions;
    if (strcmp(path, "rl.response") == 0) return vram_max(0, positions - (double)s->rl.prompt);
    return strcmp(path, "llama_cpp.gpu_layers") == 0 ? (double)s->model.layers + 1 : 0;
}

bool vram_json_range_of(const vram_scenario *s, const char *path, vram_json_range *range)
{
    const field *f = find_field(path);
    if (!f || f->type != INTEGER) return false;
    double now = (double)*(const int64_t *)at_const(s, f), limit = limit_of(s, path), max = strcmp(path, "llama_cpp.gpu_layers") == 0 ? limit : f->max;
    if (now == UNSET) now = max;
    *range = (vram_json_range){f->min, max, vram_min(max, vram_max(f->min, now)), limit};
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ write -- */

static cJSON *names_of(const vram_scenario *s)
{
    if (s->lora.targets != VRAM_LORA_TARGETS_LIST) return cJSON_CreateString(vram_name(VRAM_LIST_LORA_TARGETS, s->lora.targets));
    cJSON *names = cJSON_CreateArray();
    for (int i = 0; i < s->lora.names; i++) cJSON_AddItemToArray(names, cJSON_CreateString(s->lora.name[i]));
    return names;
}

/* What was said of the model or the card, or its default. */
static cJSON *said(const cJSON *source, const char *section, const char *key, const char *otherwise)
{
    const cJSON *object = section ? cJSON_GetObjectItemCaseSensitive(source, section) : source;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return item ? cJSON_Duplicate(item, 1) : cJSON_CreateString(otherwise);
}

/* NULL: the field has no value (a setting that another engine would read). */
static cJSON *write_field(const vram_scenario *s, const field *f, const cJSON *source)
{
    const void *p = at_const(s, f);
    switch (f->type) {
    case ENUM: case FORMAT: return *(const int *)p < 0 ? NULL : cJSON_CreateStringReference(vram_name(f->list, *(const int *)p));
    case BOOLEAN: return *(const int *)p < 0 ? NULL : cJSON_CreateBool(*(const int *)p);
    case INTEGER:
        if (*(const int64_t *)p == VRAM_UNSET) return f->word ? cJSON_CreateString(f->word) : NULL;
        return vram_json_whole((double)*(const int64_t *)p);
    case NUMBER:
        if (f->word && !(*(const double *)p > f->initial)) return cJSON_CreateString(f->word);
        return *(const double *)p < 0 ? NULL : vram_json_whole(*(const double *)p);
    case MODEL: return said(source, NULL, "model", DEFAULT_MODEL);
    case GPU: return said(source, NULL, "gpu", DEFAULT_GPU);
    case TARGETS: return names_of(s);
    case ROLE_MODEL: {
        int kind = ((const vram_role_choice *)p)->kind;
        return kind == VRAM_ROLE_MODEL_MODEL ? said(source, "rl", f->path + 3, "same") : cJSON_CreateString(vram_name(f->list, kind));
    }
    }
    return NULL;
}

static const cJSON *item_at(const cJSON *tree, const char *path)
{
    const char *dot = strchr(path, '.');
    char section[32];
    if (!dot) return cJSON_GetObjectItemCaseSensitive(tree, path);
    snprintf(section, sizeof section, "%.*s", (int)(dot - path), path);
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tree, section), dot + 1);
}

/* What was said and nothing reads stays as it was said: the same note comes again. Takes `value` over. */
static cJSON *kept(const vram_scenario *s, const field *f, cJSON *value, const cJSON *said)
{
    if (!said || cJSON_Compare(value, said, true) || vram_json_is_read(s, f->path)) return value;
    cJSON_Delete(value);
    return cJSON_Duplicate(said, 1);
}

/* The fields of a section stand one behind the other in the table. */
cJSON *vram_json_scenario_write(const vram_scenario *s, const cJSON *source)
{
    cJSON *tree = cJSON_CreateObject(), *object = tree;
    char section[32] = "";
    cJSON_AddNumberToObject(tree, "version", 1);
    for (const field *f = fields; f < fields + FIELDS; f++) {
        cJSON *value = write_field(s, f, source);
        const char *dot = strchr(f->path, '.');
        size_t n = dot ? (size_t)(dot - f->path) : 0;
        value = kept(s, f, value, item_at(source, f->path));
        if (!value) continue;
        if (strncmp(section, f->path, n) != 0 || section[n]) {
            memcpy(section, f->path, n);
            section[n] = '\0';
            object = n ? cJSON_AddObjectToObject(tree, section) : tree;
        }
        cJSON_AddItemToObjectCS(object, dot ? dot + 1 : f->path, value);
    }
    return tree;
}

/* ----------------------------------------------------------------------------------------------------------- fields -- */

cJSON *vram_json_split(const char *text, size_t n, char by)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t from = 0; from <= n;) {
        size_t to = from;
        char word[64];
        while (to < n && text[to] != by) to++;
        snprintf(word, sizeof word, "%.*s", (int)(to - from), text + from);
        cJSON_AddItemToArray(array, cJSON_CreateString(word));
        from = to + 1;
    }
    return array;
}

/* "a=b|c;d=e", up to a '!' -> [{"path": "a", "values": ["b", "c"]}, {"path": "d", "values": ["e"]}] */
static cJSON *conditions(const char *when)
{
    cJSON *array = cJSON_CreateArray();
    for (const char *p = when; p && *p && *p != '!';) {
        size_t key = strcspn(p, "="), all = strcspn(p, ";");
        char path[48];
        cJSON *row = cJSON_CreateObject();
        snprintf(path, sizeof path, "%.*s", (int)key, p);
        cJSON_AddStringToObject(row, "path", path);
        cJSON_AddItemToObject(row, "values", vram_json_split(p + key + 1, all - key - 1, '|'));
        cJSON_AddItemToArray(array, row);
        p += p[all] ? all + 1 : all;
    }
    return array;
}

static cJSON *values_of(const field *f)
{
    if (f->values) return vram_json_split(f->values, strlen(f->values), '|');
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < vram_count(f->list); i++)
        if (allowed(f, i)) cJSON_AddItemToArray(array, cJSON_CreateString(vram_name(f->list, i)));
    return array;
}

cJSON *vram_json_values(const char *path)
{
    const field *f = find_field(path);
    return f && (f->type == ENUM || f->type == FORMAT) ? values_of(f) : NULL;
}

static cJSON *default_of(const field *f)
{
    if (f->type == MODEL) return cJSON_CreateString(DEFAULT_MODEL);
    if (f->type == GPU) return cJSON_CreateString(DEFAULT_GPU);
    if (strcmp(f->path, "lora.dtype") == 0) return cJSON_CreateString("fp32");
    if (f->type == NUMBER && f->word) return cJSON_CreateString(f->word);
    if (f->initial == UNSET) return f->word ? cJSON_CreateString(f->word) : cJSON_CreateNull();
    if (f->type == BOOLEAN) return cJSON_CreateBool(f->initial > 0);
    if (f->type == INTEGER || f->type == NUMBER) return cJSON_CreateNumber(f->initial);
    return cJSON_CreateString(strcmp(f->path, "weights") == 0 ? "bf16" : vram_name(f->list, (int)f->initial));
}

cJSON *vram_json_fields(void)
{
    static const char *const types[] = {"enum", "enum", "boolean", "integer", "number", "model", "role_model", "gpu", "names"};
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "path", f->path);
        cJSON_AddStringToObject(row, "type", types[f->type]);
        if (f->type == INTEGER || f->type == NUMBER) {
            cJSON_AddNumberToObject(row, "min", f->min);
            cJSON_AddNumberToObject(row, "max", f->max);
        }
        if (f->type == ENUM || f->type == FORMAT || f->type == TARGETS || f->type == ROLE_MODEL) cJSON_AddItemToObject(row, "values", values_of(f));
        if (f->word) cJSON_AddStringToObject(row, "word", f->word);
        cJSON_AddItemToObject(row, "default", default_of(f));
        if (f->unit) cJSON_AddStringToObject(row, "unit", f->unit);
        const char *unless = f->when ? strchr(f->when, '!') : NULL;
        cJSON_AddItemToObject(row, "when", conditions(f->when));
        if (unless) cJSON_AddItemToObject(row, "unless", conditions(unless + 1));
        cJSON_AddItemToArray(array, row);
    }
    return array;
}

/* ----------------------------------------------------------------------------------------------------------- one by one -- */

const char *vram_json_field(int i) { return i < FIELDS ? fields[i].path : NULL; }

const char *vram_json_when(const char *path)
{
    const field *f = find_field(path);
    return f ? f->when : NULL;
}

bool vram_json_is_said(const cJSON *tree, const char *path)
{
    const cJSON *item = item_at(tree, path);
    if (!item) return false;
    cJSON *usual = default_of(find_field(path));
    bool same = cJSON_Compare(item, usual, true);
    cJSON_Delete(usual);
    return !same;
}

static void print_value(const cJSON *value, char *text, size_t room)
{
    snprintf(text, room, "%s", "");
    if (cJSON_IsString(value) || cJSON_IsRaw(value)) snprintf(text, room, "%s", value->valuestring);
    if (cJSON_IsBool(value)) snprintf(text, room, "%s", cJSON_IsTrue(value) ? "true" : "false");
    if (cJSON_IsNumber(value)) snprintf(text, room, "%.15g", value->valuedouble);
}

void vram_json_value_text(const vram_scenario *s, const char *path, char *text, size_t room)
{
    const field *f = find_field(path);
    cJSON *value = !f ? NULL : s ? write_field(s, f, NULL) : default_of(f);
    print_value(value, text, room);
    cJSON_Delete(value);
}

void vram_json_said_text(const cJSON *tree, const char *path, char *text, size_t room)
{
    const field *f = find_field(path);
    const cJSON *item = item_at(tree, path);
    print_value(item, text, room);
    if (f && f->type == NUMBER && f->word && cJSON_IsNumber(item) && !(item->valuedouble > f->initial)) snprintf(text, room, "%s", f->word); /* as write_field() */
}

void vram_json_unset(vram_scenario *s, const char *path)
{
    set_default(s, find_field(path));
    if (strcmp(path, "lora.dtype") == 0) s->lora.dtype = VRAM_FORMAT_FP32;
}

bool vram_json_counted(const cJSON *tree, int i, double *value, double *least, double *usual)
{
    const field *f = &fields[i];
    const cJSON *item = item_at(tree, f->path);
    if (f->type != INTEGER || !cJSON_IsNumber(item)) return false;
    *value = item->valuedouble;
    *least = f->min;
    *usual = f->initial < 0 ? f->min : f->initial;
    return true;
}

bool vram_json_product(const cJSON *tree, const char *path) { return strcmp(path, "gpus") == 0 && !item_at(tree, path); }
