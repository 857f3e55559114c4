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

/* A tied embedding is the output, too: no tensor of its own follows it in the file. */
static void note_type(void *context, const vram_gguf_tensor *t)
{
    llama_weights *weights = context;
    if (t->layer < 0 && (t->role == VRAM_ROLE_OF_OUTPUT || t->role == VRAM_ROLE_OF_TOKEN_EMBEDDING)) weights->output = (unsigned char)t->type;
    if (t->layer < 0 && t->role == VRAM_ROLE_OF_HALF) weights->type[0][t->role] = (unsigned char)t->type; /* Gemma 4 E's, read in the first layer */
    if (t->layer >= 0 && t->layer < VRAM_MAX_LAYERS) weights->type[t->layer][t->role] = (unsigned char)t->type;
}

/* gpu_layers counts the output stage as one; the GPU gets the last ones */
static int64_t host_layers(const vram_scenario *s)
{
    int64_t all = s->model.layers + 1, given = s->llama_cpp.gpu_layers;
    return given < 0 || given >= all ? 0 : given == 0 ? all : all - given;
}

static llama_batch batch_of(const vram_scenario *s)
{
    double slots = (double)s->llama_cpp.slots, streams = s->llama_cpp.kv_unified ? 1 : slots, window = longest_window(&s->model);
    llama_batch b = {.sequences = slots, .streams = streams, .flash = s->llama_cpp.flash_attention != 0, .k_type = s->kv_cache_k, .v_type = s->kv_cache_v};
    double context = pad((double)s->context), ubatch = vram_min((double)s->context, (double)s->llama_cpp.ubatch); /* the context before it is padded */
    vram_llama_cpp_layers gpu = vram_llama_cpp_on_gpu(s, &s->model);
    b.snapshots = 1 + (double)s->speculative.mtp_tokens;
    b.host_layers = s->parallel.pipeline == 1 || gpu.first == host_layers(s) ? host_layers(s) : 0; /* the first GPU takes what the host sends */
    b.first = b.host_layers > 0 ? 0 : gpu.first;
    b.end = b.host_layers > gpu.end ? b.host_layers : gpu.end;
    if (b.end > s->model.layers) b.end = s->model.layers;
    b.head = gpu.head || s->parallel.pipeline == 1;
    b.copies = s->parallel.pipeline > 1 && host_layers(s) == 0 ? 4 : 1;
    b.cells = pad(vram_ceil_div(context, streams));
    b.tokens = vram_round_up(ubatch, slots);
    b.outputs = vram_min(b.tokens, (double)s->llama_cpp.output_rows);
    b.two_caches = window > 0 && !vram_llama_cpp_ignores_windows(&s->model);
    b.window_cells = s->llama_cpp.swa_full > 0 ? b.cells : vram_min(b.cells, pad(window * slots / streams + ubatch));
    return b;
}

/* CUDA gives a quantised tensor whose rows are no multiple of 512 numbers room for the rest of one */
static double row_padding(vram_format type, double width)
{
    double over = width - 512 * vram_floor_div(width, 512);
    return vram_format_get(type)->block > 1 && over > 0 ? vram_round_up((512 - over) * vram_format_bytes(type), 128) : 0;
}

double vram_llama_cpp_cache_padding(const vram_scenario *s, bool windowed)
{
    const vram_model *m = &s->model;
    const bool apart = s->llama_cpp.swa_full <= 0 && !vram_llama_cpp_ignores_windows(m);
    double bytes = 0;
    vram_llama_cpp_layers gpu = vram_llama_cpp_on_gpu(s, m);
    for (int64_t i = gpu.first; i < gpu.end; i++) {
        const vram_attention *a = &m->kind[m->layer_kind[i]].attention;
        if (a->type == VRAM_MIXER_NONE || a->shares_cache || (apart && a->window > 0) != windowed) continue;
        bool latent = a->type == VRAM_MIXER_MLA;
        bytes += row_padding(s->kv_cache_k, latent ? (double)(a->kv_lora_rank + a->qk_rope_head_dim) : (double)(a->kv_heads * a->head_dim));
        if (a->index_heads > 0) bytes += row_padding(s->kv_cache_k, (double)a->index_head_dim);
        if (!latent) bytes += row_padding(s->kv_cache_v, (double)(a->kv_heads * a->v_head_dim));
    }
    return bytes;
}

static void add_bytes(vram_report *report, vram_component component, vram_what what, vram_certainty kind, double bytes)
{
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, component, what, kind, VRAM_SOURCE_LLAMA_CPP, VRAM_PHASES_INFERENCE);
    vram_times(e, VRAM_SYMBOL_BYTES, bytes);
}

/* The compute buffer at its fullest: what was alive then, and the gaps between */
static void add_compute_buffer(const ggml_graph *g, double tokens, double bytes, vram_report *report)
{
    double left = bytes;
    for (int what = 0; what < VRAM_WHAT_COUNT; what++) {
        double part = g->at_high[what];
        vram_component component = what == VRAM_WHAT_LOGITS ? VRAM_COMPONENT_LOGITS : VRAM_COMPONENT_WORKSPACE;
        if (part == 0) continue;
        vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, component, (vram_what)what, VRAM_MODELLED, VRAM_SOURCE_LLAMA_CPP, VRAM_PHASES_INFERENCE);
        bool by_token = part / tokens == vram_floor_div(part, tokens);
        if (by_token) vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, tokens), VRAM_SYMBOL_BYTES, part / tokens);
        else vram_times(e, VRAM_SYMBOL_BYTES, part);
        left -= part;
    }
    add_bytes(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_GAPS, VRAM_MODELLED, left);
}

static double widest_input(const vram_model *m)
{
    double widest = (double)m->hidden;
    for (int i = 0; i < m->kinds; i++) {
        const vram_layer *l = &m->kind[i];
        widest = vram_max(widest, vram_max((double)l->ffn.width, (double)(l->ffn.experts_per_token * l->ffn.expert_width)));
        widest = vram_max(widest, (double)(l->attention.heads * l->attention.v_head_dim));
    }
    return widest;
}

/* CUDA's own pool, which grows while running and is not printed: the widest input of a product in 8 bit (of quantised weights) or 16 bit; without
 * flash kernels the scores in 16 bit and 4 MiB. */
static void add_pool(const vram_scenario *s, const llama_batch *b, vram_report *report)
{
    const vram_model *m = &s->model;
    const vram_format_row *file = vram_format_get(vram_llama_cpp_file(s, s->weights));
    bool quantised = file->scheme == VRAM_SCHEME_GGUF && vram_ggml_get(file->ggml)->block > 1;
    double heads = vram_most_heads(m), each = quantised ? 36. / 32 : 2;
    if (b->host_layers > m->layers) return;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_CUDA_POOL, VRAM_MODELLED, VRAM_SOURCE_LLAMA_CPP, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, b->tokens), VRAM_SYMBOL_BYTES, vram_ceil_div(widest_input(m) * each, 1));
    if (b->flash || heads == 0) return;
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_CUDA_POOL, VRAM_MODELLED, VRAM_SOURCE_LLAMA_CPP, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, b->tokens), VRAM_SYMBOL_HEADS, heads), VRAM_SYMBOL_SLOTS, b->cells), VRAM_SYMBOL_BYTES, 2);
    add_bytes(report, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_CUDA_POOL, VRAM_MODELLED, 4 * 1048576);
}

void vram_engine_llama_cpp(const vram_scenario *scenario, vram_report *report)
{
    ggml_graph graph;
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, (const double[]){0, 5});
    vram_weights(scenario, &scenario->model, VRAM_ROLE_MODEL, scenario->weights, VRAM_PHASES_INFERENCE, report);
    vram_kv_cache(scenario, &scenario->model, VRAM_ROLE_MODEL, (double)scenario->batch, (double)scenario->context, VRAM_PHASES_INFERENCE, report);
    add_bytes(report, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_PADDING, VRAM_EXACT, vram_llama_cpp_cache_padding(scenario, false) + vram_llama_cpp_cache_padding(scenario, true));
    llama_weights weights = {.output = 0};
    llama_batch batch = batch_of(scenario);
    vram_format file = vram_llama_cpp_file(scenario, scenario->weights);
    if (batch.host_layers > 0) vram_gguf_walk(scenario, &scenario->model, file, note_type, &weights);
    batch.weights = &weights;
    llama_buffers buffers = llama_graph_buffers(&graph, &scenario->model, &batch);
    add_compute_buffer(&graph, batch.tokens, buffers.gpu, report);
    add_pool(scenario, &batch, report);
    report->host = (vram_host){
        .model = vram_gguf_host_bytes(scenario, &scenario->model, file),
        .output = batch.sequences * (double)scenario->model.vocab * 4, /* llama-context.cpp, output_reserve: a row of logits a slot at the start */
        .compute = buffers.host,
        .pinned_output = batch.host_layers <= scenario->model.layers,
    };
}
