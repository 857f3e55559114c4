/* engine_llama_cpp.c -- what llama.cpp allocates on a GPU: the model's buffer, the caches, the compute buffer.
 *
 * The compute buffer is one buffer for all that a micro-batch makes, reserved once for the largest; its size is found by replaying the graph
 * (llama_graph.c) through ggml's allocator (ggml_graph.c). Source: llama.cpp v0.5.0, src/llama-context.cpp, sched_reserve. */
#include "llama_graph.h"

static double pad(double tokens) { return vram_round_up(tokens, 256); }

static double longest_window(const vram_model *model)
{
    double window = 0;
    for (int i = 0; i < model->kinds; i++)
        if (model->kind[i].attention.type != VRAM_MIXER_NONE) window = vram_max(window, (double)model->kind[i].attention.window);
    return window;
}

static llama_batch batch_of(const vram_scenario *s)
{
    double slots = (double)s->llama_cpp.slots, streams = s->llama_cpp.kv_unified ? 1 : slots, window = longest_window(&s->model);
    llama_batch b = {.sequences = slots, .streams = streams, .flash = s->llama_cpp.flash_attention != 0, .k_type = s->kv_cache_k, .v_type = s->kv_cache_v};
    double context = pad((double)s->context);
    b.cells = pad(vram_ceil_div(context, streams));
    b.tokens = vram_round_up(vram_min(context, (double)s->llama_cpp.ubatch), slots);
    b.outputs = vram_min(b.tokens, (double)s->llama_cpp.output_rows);
    b.two_caches = window > 0 && !vram_llama_cpp_ignores_windows(&s->model);
    b.window_cells = s->llama_cpp.swa_full > 0 ? b.cells : vram_min(b.cells, pad(window * slots / streams + vram_min((double)s->llama_cpp.ubatch, b.cells)));
    return b;
}

void vram_engine_llama_cpp(const vram_scenario *scenario, vram_report *report)
{
    ggml_graph graph;
    vram_weights(scenario, &scenario->model, VRAM_ROLE_MODEL, scenario->weights, VRAM_PHASES_INFERENCE, report);
    vram_kv_cache(scenario, &scenario->model, VRAM_ROLE_MODEL, (double)scenario->batch, (double)scenario->context, VRAM_PHASES_INFERENCE, report);
    llama_batch batch = batch_of(scenario);
    double bytes = llama_graph_bytes(&graph, &scenario->model, &batch);
    vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_COMPUTE_BUFFER, VRAM_MODELLED, VRAM_SOURCE_LLAMA_CPP, VRAM_PHASES_INFERENCE),
               VRAM_SYMBOL_BYTES, bytes);
}
