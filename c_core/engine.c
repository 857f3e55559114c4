/* engine.c -- inference: which engine's allocation rules apply.
 *
 * bare: tensors only, the interview's answer: weights, and the cache of every token of every sequence. */
#include "core.h"

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
