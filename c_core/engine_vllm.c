/* engine_vllm.c -- what vLLM allocates at start-up, and how many tokens its cache holds. */
#include "core.h"

void vram_engine_vllm(const vram_scenario *s, vram_report *report)
{
    unsigned serving = VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE);
    vram_weights(s, &s->model, VRAM_ROLE_MODEL, s->weights, VRAM_PHASES_INFERENCE, report);
    vram_kv_cache(s, &s->model, VRAM_ROLE_MODEL, vram_sequences_on_gpu(s), (double)s->context, serving, report);
}
