/* log.c -- what an engine's own log, PyTorch's counters and nvidia-smi will show: readings of the ledger, for a user to check line by line. */
#include "core.h"

static const double MIB = 1048576;

static vram_log *add(vram_report *report, vram_log_id id, int values, const double value[])
{
    vram_log *line = &report->log[report->logs < VRAM_MAX_LOGS ? report->logs++ : VRAM_MAX_LOGS - 1]; /* more than any engine prints */
    *line = (vram_log){.id = id, .values = values};
    for (int i = 0; i < values; i++) line->value[i] = value[i];
    return line;
}

static void add_one(vram_report *report, vram_log_id id, double value) { add(report, id, 1, &value); }

enum { APART = VRAM_BIT(VRAM_COMPONENT_CONTEXT) | VRAM_BIT(VRAM_COMPONENT_FRAGMENTATION) };

/* ----------------------------------------------------------------------------------------------------------- PyTorch -- */

/* Allowances that are no tensors (kernels, the driver's own) would not be counted by PyTorch; these engines have none but the two apart. */
static void torch_lines(const vram_scenario *s, vram_report *report)
{
    double most = 0, reserved = 0;
    if (!vram_is_nvidia(&s->gpu) && !vram_is_amd(&s->gpu)) return; /* other devices have no torch.cuda */
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        most = vram_max(most, vram_bytes_alive(report, (vram_phase)p, ~(unsigned)APART));
        reserved = vram_max(reserved, vram_bytes_alive(report, (vram_phase)p, ~VRAM_BIT(VRAM_COMPONENT_CONTEXT)));
    }
    add_one(report, VRAM_LOG_TORCH_LOADED, vram_bytes_alive(report, VRAM_PHASE_LOAD, ~(unsigned)APART));
    add_one(report, VRAM_LOG_TORCH_PEAK, most);
    if (reserved > most) add_one(report, VRAM_LOG_TORCH_RESERVED, reserved);
    if (s->overheads && vram_is_nvidia(&s->gpu)) add(report, VRAM_LOG_NVIDIA_SMI, 2, (const double[]){vram_ceil_div(reserved + s->gpu.context_bytes, MIB), vram_floor_div(s->gpu.memory_bytes, MIB)});
}

/* ----------------------------------------------------------------------------------------------- engines with a pool -- */

/* Numbers below zero are lines that the engine does not print. */
static void add_known(vram_report *report, vram_log_id id, double value)
{
    if (value >= 0) add_one(report, id, value);
}

static void vllm_lines(const vram_scenario *s, vram_report *report)
{
    const vram_pool *p = &report->pool;
    add_known(report, VRAM_LOG_VLLM_WEIGHTS, p->model_bytes);
    if (p->graph_bytes > 0 && s->vllm.engine == VRAM_VLLM_V1) add_one(report, VRAM_LOG_VLLM_GRAPHS, p->graph_bytes);
    add_known(report, VRAM_LOG_VLLM_AVAILABLE, p->available_bytes);
    if (p->tokens < 0) return;
    add_one(report, VRAM_LOG_VLLM_TOKENS, p->tokens);
    add(report, VRAM_LOG_VLLM_CONCURRENCY, 2, (const double[]){(double)s->context, p->concurrency});
}

static void sglang_lines(vram_report *report)
{
    const vram_pool *p = &report->pool;
    add_known(report, VRAM_LOG_SGLANG_WEIGHTS, p->model_bytes);
    if (p->tokens < 0) return;
    add(report, p->v_bytes < 0 ? VRAM_LOG_SGLANG_LATENT_POOL : VRAM_LOG_SGLANG_POOL, p->v_bytes < 0 ? 2 : 3, (const double[]){p->tokens, p->k_bytes, p->v_bytes});
    add_one(report, VRAM_LOG_SGLANG_TOKENS, p->tokens);
}

/* --------------------------------------------------------------------------------------------------------- llama.cpp -- */

/* One of llama.cpp's caches: of layers that see everything, or of windowed ones. */
static bool in_cache(const vram_attention *a, const vram_cache_rules *rules, bool windowed)
{
    return a->type != VRAM_MIXER_NONE && !a->shares_cache && (a->window > 0 && !rules->no_windows) == windowed;
}

static double bytes_of_cache(const vram_scenario *s, vram_cache_rules rules, bool windowed, double k_bytes, double v_bytes, vram_report *report)
{
    int entries = report->entries, notes = report->notes;
    double bytes = 0;
    rules.k_bytes = k_bytes;
    rules.v_bytes = v_bytes;
    vram_cache_entries(&s->model, &rules, report);
    for (int i = entries; i < report->entries; i++)
        if (report->entry[i].component == VRAM_COMPONENT_KV_CACHE && (report->entry[i].what == VRAM_WHAT_WINDOW_LAYERS) == windowed) bytes += report->entry[i].bytes;
    report->entries = entries;
    report->notes = notes;
    return bytes;
}

/* GGUF's names of types are in small letters and without a family. */
static const char *ggml_name(vram_format format)
{
    static const char *const names[][2] = {{"fp16", "f16"}, {"bf16", "bf16"}, {"fp32", "f32"}};
    const char *id = vram_name(VRAM_LIST_FORMAT, format);
    for (int i = 0; i < 3; i++)
        if (format == vram_find(VRAM_LIST_FORMAT, names[i][0])) return names[i][1];
    return id;
}

/* What a build of llama.cpp calls its device, buffers of weights mapped from the file, and pinned host memory, where it has any.
 * Source: ggml-cuda.h, ggml-metal.cpp (buffer types' names), ggml-sycl.h */
typedef struct { const char *device, *weights, *host; } device_names;

static device_names names_of(const vram_gpu *gpu)
{
    if (gpu->apple) return (device_names){"MTL0", "MTL0_Mapped", "CPU"};
    if (vram_is_amd(gpu)) return (device_names){"ROCm0", "ROCm0", "ROCm_Host"};
    if (gpu->maker == 'I') return (device_names){"SYCL0", "SYCL0", "SYCL_Host"};
    return (device_names){"CUDA0", "CUDA0", "CUDA_Host"};
}

static void add_named(vram_report *report, vram_log_id id, double value, const char *name) { add(report, id, 1, &value)->word[0] = name; }

static void cache_lines(const vram_scenario *s, bool windowed, vram_report *report)
{
    vram_cache_rules rules = vram_cache_rules_of(s, &s->model, VRAM_ROLE_MODEL, (double)s->batch, (double)s->context, 0);
    double layers = rules.mtp_layers > 0 && !windowed ? rules.mtp_layers : 0, cells = 0;
    for (int64_t i = 0; i < s->model.layers; i++) {
        const vram_attention *a = &s->model.kind[s->model.layer_kind[i]].attention;
        if (!in_cache(a, &rules, windowed)) continue;
        layers++;
        cells = vram_cache_cells(&rules, a);
    }
    if (layers == 0) return;
    double here = bytes_of_cache(s, rules, windowed, rules.k_bytes, rules.v_bytes, report) + vram_llama_cpp_cache_padding(s, windowed);
    if (here > 0) add_named(report, VRAM_LOG_LLAMA_KV_BUFFER, here, names_of(&s->gpu).device);
    rules.first_layer = 0;
    double k = bytes_of_cache(s, rules, windowed, rules.k_bytes, 0, report), v = bytes_of_cache(s, rules, windowed, 0, rules.v_bytes, report);
    vram_log *line = add(report, VRAM_LOG_LLAMA_KV, 6, (const double[]){k + v, cells, layers, (double)s->llama_cpp.slots, rules.sequences, k});
    line->value[6] = v;
    line->values = 7;
    line->word[0] = ggml_name(s->kv_cache_k);
    line->word[1] = ggml_name(s->kv_cache_v);
}

static void llama_lines(const vram_scenario *s, vram_report *report)
{
    const unsigned compute = VRAM_BIT(VRAM_COMPONENT_WORKSPACE) | VRAM_BIT(VRAM_COMPONENT_LOGITS);
    const vram_host host = report->host;
    const device_names names = names_of(&s->gpu);
    double layers = (double)s->model.layers + 1, state = vram_bytes_alive(report, VRAM_PHASE_LOAD, VRAM_BIT(VRAM_COMPONENT_RECURRENT_STATE));
    add(report, VRAM_LOG_LLAMA_LAYERS, 2, (const double[]){s->llama_cpp.gpu_layers < 0 ? layers : vram_min(layers, (double)s->llama_cpp.gpu_layers), layers});
    add_one(report, VRAM_LOG_LLAMA_HOST_WEIGHTS, host.model);
    add_named(report, VRAM_LOG_LLAMA_WEIGHTS, vram_bytes_alive(report, VRAM_PHASE_LOAD, VRAM_BIT(VRAM_COMPONENT_WEIGHTS)), names.weights);
    cache_lines(s, false, report);
    cache_lines(s, true, report);
    if (state > 0) add_named(report, VRAM_LOG_LLAMA_STATE, state, names.device);
    add_named(report, VRAM_LOG_LLAMA_OUTPUT, host.output, host.pinned_output ? names.host : "CPU");
    add_named(report, VRAM_LOG_LLAMA_COMPUTE, vram_bytes_alive(report, VRAM_PHASE_LOAD, compute), names.device);
    add_named(report, VRAM_LOG_LLAMA_HOST_COMPUTE, host.compute, names.host);
}

void vram_logs(const vram_scenario *s, vram_report *report)
{
    report->logs = 0;
    if (s->task != VRAM_TASK_INFERENCE || s->engine == VRAM_ENGINE_TRANSFORMERS) torch_lines(s, report);
    else if (s->engine == VRAM_ENGINE_LLAMA_CPP) llama_lines(s, report);
    else if (s->engine == VRAM_ENGINE_VLLM) vllm_lines(s, report);
    else if (s->engine == VRAM_ENGINE_SGLANG) sglang_lines(report);
}
