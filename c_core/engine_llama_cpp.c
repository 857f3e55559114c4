/* engine_llama_cpp.c -- what llama.cpp allocates on a GPU: the model's buffer, the caches, the compute buffer. */
#include "core.h"

void vram_engine_llama_cpp(const vram_scenario *scenario, vram_report *report)
{
    vram_weights(scenario, &scenario->model, VRAM_ROLE_MODEL, scenario->weights, VRAM_PHASES_INFERENCE, report);
    vram_kv_cache(scenario, &scenario->model, VRAM_ROLE_MODEL, (double)scenario->batch, (double)scenario->context, VRAM_PHASES_INFERENCE, report);
}
