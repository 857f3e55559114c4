/* engine.c -- inference: which engine's allocation rules apply.
 *
 * bare: tensors only, the interview's answer: weights, and the cache of every token of every sequence. */
#include "core.h"

/* vLLM: a share of all of the card's memory, the CUDA context left to the rest; SGLang: a share of what was free before the model came. */
double vram_pool_budget(const vram_scenario *s, const vram_gpu *gpu)
{
    if (s->engine == VRAM_ENGINE_VLLM) return vram_floor_div(s->vllm.gpu_memory_utilization * (gpu->usable_bytes + gpu->context_bytes), 1);
    return s->engine == VRAM_ENGINE_SGLANG ? vram_floor_div(vram_sglang_share(s, gpu) * gpu->usable_bytes, 1) : gpu->usable_bytes;
}

double vram_pool_sequences(const vram_pool *p, double budget)
{
    double room = budget - p->fixed_bytes - p->first_bytes;
    return room < 0 ? 0 : vram_min(p->sequences_limit, 1 + (p->sequence_bytes > 0 ? vram_floor_div(room, p->sequence_bytes) : p->sequences_limit));
}

void vram_pool_note(const vram_scenario *s, const char *path, vram_report *report)
{
    double sequences = vram_sequences_on_gpu(s);
    if (sequences > report->pool.sequences_limit) vram_note_add(report, VRAM_NOTE_SEQUENCES_LIMIT, path, 2, (const double[]){sequences, report->pool.sequences_limit});
}

double vram_sequences_on_gpu(const vram_scenario *s) { return vram_ceil_div((double)s->batch, (double)s->parallel.data); }

static void bare(const vram_scenario *s, vram_report *report)
{
    unsigned serving = VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE);
    vram_weights(s, &s->model, VRAM_ROLE_MODEL, s->weights, VRAM_PHASES_INFERENCE, report);
    vram_kv_cache(s, &s->model, VRAM_ROLE_MODEL, vram_sequences_on_gpu(s), (double)s->context, serving, report);
}

void vram_engine_entries(const vram_scenario *s, vram_report *report)
{
    switch (s->engine) {
    case VRAM_ENGINE_TRANSFORMERS: vram_engine_transformers(s, report); break;
    case VRAM_ENGINE_SGLANG: vram_engine_sglang(s, report); break;
    case VRAM_ENGINE_VLLM: vram_engine_vllm(s, report); break;
    case VRAM_ENGINE_LLAMA_CPP: vram_engine_llama_cpp(s, report); break;
    default: bare(s, report); break;
    }
}
