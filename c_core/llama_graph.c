/* llama_graph.c -- llama.cpp's compute graph of one micro-batch, as far as memory goes: which tensors, how large, read by whom, in what order.
 *
 * A layer is described from its vram_layer, with the operations in the order in which llama.cpp's own graph has them (the order decides
 * which holes the allocator finds). What families do differently and no field of the model says is in the table of families.
 * Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_attn, build_attn_mha, build_ffn, build_moe_ffn, build_rs) and src/models/;
 * ggml/src/ggml-cuda/ggml-cuda.cu (graph_optimize: what fused kernels keep alive; supports_op), fattn.cu (16-bit copies of quantised caches). */
#include "llama_net.h"

#include <string.h>

/* by the beginning of model_type; the first that fits */
typedef struct { const char *type; unsigned traits; } family;
static const family families[] = {
    {"cohere2", ADD_FFN_TO_STREAM | ROPE_IN_WINDOWS},
    {"cohere", ADD_FFN_TO_STREAM},
    {"exaone4", ROPE_IN_WINDOWS},
    {"smollm3", ROPE_3_OF_4},
    {"bloom", NO_ROPE},
    {"mpt", NO_ROPE},
    {"phi3", FFN_IN_STREAM},
    {"phimoe", FFN_IN_STREAM},
    {"phi", ATTENTION_FIRST},
    {"gpt_neox", ADD_FFN_TO_STREAM | PICK_BEFORE_NORM},
    {"stablelm", ADD_ATTENTION_TO_STREAM},
    {"olmoe", PLAIN_WEIGHTS},
    {"qwen2_moe", PLAIN_WEIGHTS},
    {"deepseek_v32", EXPERT_GROUPS | SCALED_WEIGHTS},
    {"deepseek_v3", EXPERT_GROUPS | SCALED_WEIGHTS},
    {"deepseek", PLAIN_WEIGHTS},
    {"glm_moe_dsa", SCALED_WEIGHTS},
    {"glm4_moe", SCALED_WEIGHTS},
    {"kimi_k2", SCALED_WEIGHTS},
    {"gpt_oss", SOFTMAX_AFTER | PICK_AFTER_LAYERS},
    {"hunyuan", NORM_AFTER_ROPE},
    {"llama4", WEIGHTS_FIRST | PLAIN_WEIGHTS | NORM_AFTER_ROPE | ROPE_IN_WINDOWS | SCALED_QUERIES},
    {"gemma4", SPLIT_EXPERTS_BESIDE | V_NORM | NO_SPLIT_GATE | PICK_AFTER_NORM},
    {"granitemoehybrid", NO_ROPE | SCALED_EMBEDDINGS},
    {"jamba", NO_ROPE | PLAIN_WEIGHTS | MIXER_IN_STREAM | FFN_IN_STREAM},
    {"falcon_mamba", BARE_STATE_NORMS},
    {"falcon_h1", PICK_AFTER_SUM},
    {"nemotron_h", SNAPSHOTS | NO_ROPE | PICK_AFTER_NORM | SCALED_WEIGHTS},
    {"lfm2", FFN_IN_STREAM | MIXER_IN_STREAM},
    {"qwen3_next", REPEAT_KEYS | PICK_AFTER_NORM},
    {"qwen3_5", PICK_AFTER_NORM | FOUR_POSITIONS},
};

static unsigned traits_of(const vram_model *model)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(families[i].type, model->model_type, strlen(families[i].type)) == 0) return families[i].traits;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- layer -- */

/* After the mixer of the last layer only the rows go on whose logits are wanted. */
static int pick_rows(net *n, int *stream, int y)
{
    if (!last(n) || trait(n, PICK_AFTER_SUM | PICK_AFTER_LAYERS | PICK_AFTER_NORM)) return y;
    y = pick(n, y, n->hidden);
    *stream = n->picked >= 0 ? n->picked : pick(n, *stream, n->hidden);
    n->rows = n->b->outputs;
    return y;
}

static int post_norm(net *n, const vram_layer *l, int y) { return l->post_norms ? norm_rows(n, y) : y; }

static int cut(net *n, int x) { return last(n) ? pick(n, x, n->hidden) : x; }

static int parallel_mlp(net *n, const vram_layer *l, int x)
{
    double all = n->rows;
    x = cut(n, x);
    if (last(n)) n->rows = n->b->outputs;
    int y = llama_mlp(n, &l->ffn, x);
    n->rows = all;
    return y;
}

/* Attention and MLP read the same normed input (models/falcon.cpp, command-r.cpp, phi2.cpp, stablelm.cpp) */
static int parallel_layer(net *n, const vram_layer *l)
{
    int stream = STREAM, x = norm_rows(n, stream), heads = llama_heads(n, &l->attention, x), y, attended;
    bool late = l->norms > 1 && last(n) && trait(n, PICK_BEFORE_NORM);
    int second = l->norms > 1 && !late ? norm_rows(n, stream) : x;
    if (late) {
        double all = n->rows;
        stream = pick(n, stream, n->hidden);
        n->rows = n->b->outputs;
        y = add(n, llama_mlp(n, &l->ffn, norm_rows(n, stream)), stream);
        n->rows = all;
        y = add(n, y, cut(n, llama_project(n, &l->attention, heads)));
    } else if (trait(n, ATTENTION_FIRST)) {
        attended = cut(n, llama_project(n, &l->attention, heads));
        y = add(n, attended, parallel_mlp(n, l, second));
    } else {
        y = parallel_mlp(n, l, second);
        if (trait(n, ADD_FFN_TO_STREAM)) y = add(n, y, cut(n, stream));
        attended = cut(n, llama_project(n, &l->attention, heads));
        if (trait(n, ADD_ATTENTION_TO_STREAM)) attended = add(n, attended, cut(n, stream));
        y = add(n, y, attended);
    }
    if (!trait(n, ADD_FFN_TO_STREAM | ADD_ATTENTION_TO_STREAM)) y = add(n, y, cut(n, stream));
    if (last(n)) n->rows = n->b->outputs;
    return y;
}

/* Gemma 4's sparse layers: router and experts on one norm of the stream, a dense MLP on another, the sum normed again */
static int experts_beside_mlp(net *n, const vram_layer *l, int stream)
{
    int router = same(n, true, same(n, true, norm(n, ggml_f32(n->hidden, n->rows, 1), stream)));
    tag(n, VRAM_WHAT_EXPERT_ACTIVATIONS);
    choice c = llama_choose(n, &l->ffn, router);
    int x = norm_rows(n, stream);
    llama_after_choice(n, &c);
    tag(n, VRAM_WHAT_EXPERT_ACTIVATIONS);
    int moe = llama_experts(n, &l->ffn, x, c, true);
    int y = norm_rows(n, llama_dense(n, &l->ffn, false, (double)l->ffn.width, norm_rows(n, stream)));
    return norm_rows(n, add(n, y, norm_rows(n, moe)));
}

/* What stands where attention stands: the mixer's output, already projected to the hidden width */
static int mixer(net *n, const vram_layer *l, int x)
{
    const vram_state *s = &l->state;
    tag(n, VRAM_WHAT_STATE_ACTIVATIONS);
    switch (s->type) {
    case VRAM_STATE_MAMBA1: return llama_mamba1(n, s, n->columns, x);
    case VRAM_STATE_SHORT_CONV: return llama_short_convolution(n, s, n->columns, x);
    case VRAM_STATE_GATED_DELTA:
    case VRAM_STATE_KDA: return llama_gated_delta(n, s, x); /* Kimi's differs in its gates: said in a note */
    case VRAM_STATE_MAMBA2: {
        mamba2_parts p = llama_mamba2_scan(n, s, n->columns, x);
        if (l->ffn.experts == 0) llama_read_ahead(n);
        return llama_mamba2_out(n, s, p);
    }
    case VRAM_STATE_LIGHTNING:
    case VRAM_STATE_RGLRU: return V(multiply(n, multiply(n, x, (double)s->inner > 0 ? (double)s->inner : n->hidden), n->hidden)); /* no family of llama.cpp's: said in a note */
    case VRAM_STATE_NONE: break;
    }
    int heads = llama_heads(n, &l->attention, x);
    if (l->ffn.experts == 0) llama_read_ahead(n);
    pick_early(n);
    return llama_project(n, &l->attention, heads);
}

/* Falcon-H1: both, on norms of their own, added */
static int both_mixers(net *n, const vram_layer *l)
{
    int heads = llama_heads(n, &l->attention, norm_rows(n, STREAM));
    tag(n, VRAM_WHAT_STATE_ACTIVATIONS);
    int columns = llama_read_columns(n, &l->state);
    mamba2_parts p = llama_mamba2_scan(n, &l->state, columns, norm_rows(n, STREAM));
    int y = llama_project(n, &l->attention, heads);
    return add(n, y, llama_mamba2_out(n, &l->state, p));
}

static bool has_mixer(const vram_layer *l) { return l->attention.type != VRAM_MIXER_NONE || l->state.type != VRAM_STATE_NONE; }

/* Gemma 4 E: the first layer joins the tables' rows with a projection of the embeddings and keeps them for all layers; each gates its slice by the
 * stream and adds it. */
static int layer_inputs(net *n, int stream)
{
    double width = n->layer_input, all = width * (double)n->m->layers;
    ggml_shape slices = ggml_f32(width, (double)n->m->layers, n->rows);
    int gate = same(n, true, multiply(n, stream, width)), inputs = CARRIED;
    if (n->layer == 0) {
        int x = same(n, true, multiply_by(n, VRAM_ROLE_OF_HALF, STREAM, all));
        x = factors_of(n, width, shaped(n, true, slices, V(x)));
        x = same(n, true, ggml_graph_op(n->g, true, slices, SOURCES(x, CARRIED)));
        inputs = shaped(n, false, ggml_f32(width, n->rows, (double)n->m->layers), V(x));
    }
    if (!last(n)) n->carried = inputs;
    gate = ggml_graph_op(n->g, true, ggml_f32(width, n->rows, 1), SOURCES(gate, V(inputs)));
    int y = multiply(n, gate, n->hidden);
    y = factors_of(n, n->hidden, same(n, true, y));
    return factors_of(n, 1, add(n, stream, y));
}

static int plain_layer(net *n, const vram_layer *l)
{
    int stream = STREAM;
    bool both = l->attention.type != VRAM_MIXER_NONE && l->state.type != VRAM_STATE_NONE, after_only = l->post_norms && l->norms == 2;
    if (has_mixer(l)) {
        n->columns = !llama_reads_ahead(l) ? GGML_NONE : n->layer > n->b->first ? CARRIED : llama_read_columns(n, &l->state);
        int y = both ? both_mixers(n, l) : mixer(n, l, after_only ? stream : norm_rows(n, stream));
        y = pick_rows(n, &stream, y);
        y = post_norm(n, l, y);
        stream = trait(n, MIXER_IN_STREAM) ? add(n, stream, y) : add(n, y, stream);
        if (last(n) && trait(n, PICK_AFTER_SUM)) {
            stream = pick(n, stream, n->hidden);
            n->rows = n->b->outputs;
        }
    }
    if (l->ffn.type == VRAM_FFN_NONE) return stream;
    if (trait(n, SPLIT_EXPERTS_BESIDE) && l->ffn.experts > 0) return add(n, experts_beside_mlp(n, l, stream), stream);
    int y = llama_mlp(n, &l->ffn, after_only ? stream : norm_rows(n, stream));
    if (!has_mixer(l)) y = pick_rows(n, &stream, y);
    y = trait(n, FFN_IN_STREAM) ? add(n, stream, post_norm(n, l, y)) : add(n, post_norm(n, l, y), stream);
    return n->layer_input > 0 ? layer_inputs(n, y) : y;
}

/* Families with multi-token prediction give all rows of the hidden state out, too: an output of the graph, which stays */
static int pick_hidden(net *n, int x)
{
    n->g->tensor[x].output = true;
    return pick(n, x, n->hidden);
}

/* Next comes a weight, which is on the host or is copied from there */
static void run(net *n, int stream, int carried)
{
    n->g->then = on_host(n) && n->rows < 32 ? GGML_ON_HOST : GGML_ON_GPU;
    ggml_graph_run(n->g, stream, carried);
}

static void head(net *n, int stream)
{
    bool after_layers = trait(n, PICK_AFTER_LAYERS), after_norm = trait(n, PICK_AFTER_NORM);
    if (after_layers) stream = pick_hidden(n, stream);
    if (after_layers) n->rows = n->b->outputs;
    int x = n->m->final_norm ? norm_rows(n, stream) : stream;
    n->rows = n->b->outputs;
    if (after_norm) x = pick_hidden(n, x);
    tag(n, VRAM_WHAT_LOGITS);
    int logits = multiply(n, x, (double)n->m->vocab);
    n->g->tensor[logits].output = true;
    run(n, GGML_NONE, GGML_NONE);
}

/* All that the description of a layer between the first and the last on a GPU depends on; -1: on more */
static int like_of(const net *n, const vram_layer *l)
{
    if (n->b->host_layers > 0 || n->no_kernel || n->layer == n->b->first || last(n) || l->attention.index_heads > 0) return -1;
    int next = n->m->layer_kind[n->layer + 1], turned = trait(n, ROPE_3_OF_4) && n->layer % 4 == 3;
    return (n->m->layer_kind[n->layer] * VRAM_MAX_KINDS + next) * 2 + turned;
}

static void walk_layer(net *n, const vram_layer *l)
{
    n->carried = GGML_NONE;
    n->carried_made = false;
    n->picked = GGML_NONE;
    n->g->host_layers = on_host(n);
    n->g->last_split = n->layer + 1 == n->b->host_layers && !n->no_kernel;
    int stream = l->parallel && l->attention.type != VRAM_MIXER_NONE ? parallel_layer(n, l) : plain_layer(n, l);
    run(n, stream, n->carried);
    if (n->layer + 1 >= n->b->host_layers && !n->no_kernel) ggml_graph_allocate_inputs(n->g);
}

static void walk(net *n)
{
    n->rows = n->tokens;
    n->leaf = 0;
    n->layer = n->b->first;
    n->g->host_layers = on_host(n);
    if (!on_host(n) && !n->no_kernel) ggml_graph_allocate_inputs(n->g);
    bool whole = n->b->first == 0;
    if (whole && n->m->position == VRAM_POSITION_LEARNED) run(n, add(n, STREAM, LEARNED_POSITIONS), GGML_NONE);
    if (whole && n->m->embedding_norm) run(n, norm_rows(n, STREAM), GGML_NONE);
    if (whole && n->layer_input > 0) {
        int inputs = same(n, true, LAYER_INPUTS);
        run(n, same(n, true, STREAM), inputs);
    }
    if (whole && trait(n, SCALED_EMBEDDINGS)) run(n, same(n, true, STREAM), GGML_NONE);
    for (n->layer = n->b->first; n->layer < n->b->end; n->layer++) {
        const vram_layer *l = layer_at(n, n->layer);
        int like = like_of(n, l);
        if (like >= 0 && ggml_graph_again(n->g, like)) continue;
        walk_layer(n, l);
        if (like >= 0) ggml_graph_walked(n->g);
    }
    n->layer = n->m->layers;
    n->g->host_layers = on_host(n);
    if (n->b->head) head(n, STREAM);
}

/* ------------------------------------------------------------------------------------------------------------ inputs -- */

/* of the layers with a window's cache, or of the others */
static double widest_head(const net *n, bool window)
{
    double widest = 0;
    for (int i = 0; i < n->m->kinds; i++)
        if (llama_windowed(n, &n->m->kind[i].attention) == window) widest = vram_max(widest, (double)n->m->kind[i].attention.head_dim);
    return widest;
}

/* Row numbers are 64 bit; without flash kernels every number of V has its own. The mask has a row a token. */
static void cache_inputs(net *n, int k_ids, int v_ids, int mask, double cells)
{
    double t = n->tokens, each = n->b->flash ? 1 : llama_widest_values(n->m);
    ggml_graph_input(n->g, k_ids, ggml_typed(8, t, 1, 1));
    ggml_graph_input(n->g, v_ids, ggml_typed(8, t, each, 1));
    tag(n, VRAM_WHAT_CAUSAL_MASK);
    ggml_graph_input(n->g, mask, ggml_typed(n->b->flash ? 2 : 4, cells, t, 1));
    tag(n, VRAM_WHAT_INPUT_IDS);
}

/* the largest power of two that divides the head, for keys; 64 for values */
static void rotations(net *n, bool window, int k, int v)
{
    double side = 64, head = widest_head(n, window);
    while (2 * side <= head && head / (2 * side) == vram_ceil_div(head, 2 * side)) side *= 2;
    ggml_graph_input(n->g, k, ggml_f32(side, side, 1));
    ggml_graph_input(n->g, v, ggml_f32(64, 64, 1));
}

static double layer_input_width(const vram_model *m)
{
    for (int i = 0; i < m->tensors; i++)
        if (strcmp(m->tensor[i].name, "per_layer_input_gate") == 0) return (double)m->tensor[i].rows;
    return 0;
}

static net start(ggml_graph *graph, const vram_model *model, const llama_batch *batch)
{
    net n = {.g = graph, .m = model, .b = batch, .traits = traits_of(model), .two_caches = batch->two_caches, .hidden = (double)model->hidden, .layer_input = layer_input_width(model), .tokens = batch->tokens};
    for (int i = 0; i < model->kinds; i++) n.no_kernel |= batch->flash && model->kind[i].attention.type != VRAM_MIXER_NONE && !llama_has_kernel(batch, &model->kind[i].attention);
    ggml_graph_start(graph);
    graph->copies = batch->copies;
    tag(&n, VRAM_WHAT_HIDDEN_STATES);
    ggml_graph_input(graph, STREAM, ggml_f32(n.hidden, n.tokens, 1));
    ggml_graph_input(graph, LEARNED_POSITIONS, ggml_f32(n.hidden, n.tokens, 1));
    tag(&n, VRAM_WHAT_INPUT_IDS);
    ggml_graph_input(graph, POSITIONS, ggml_typed(4, n.tokens * (trait(&n, FOUR_POSITIONS) ? 4 : 1), 1, 1));
    ggml_graph_input(graph, OUTPUT_IDS, ggml_typed(4, batch->outputs, 1, 1));
    ggml_graph_input(graph, STATE_IDS, ggml_typed(4, batch->sequences, 1, 1));
    ggml_graph_input(graph, OTHER_STATE_IDS, ggml_typed(4, 0, 1, 1));
    ggml_graph_input(graph, LAYER_INPUTS, ggml_f32(n.layer_input, (double)model->layers, n.tokens));
    ggml_graph_input(graph, ROTARY_FACTORS, ggml_f32((double)model->rotary_factors, 1, 1));
    graph->tensor[ROTARY_FACTORS].outside = GGML_OUTSIDE_FACTORS;
    ggml_graph_input(graph, QUERY_SCALES, ggml_f32(n.tokens, 1, 1));
    cache_inputs(&n, K_IDS, V_IDS, MASK, batch->cells);
    cache_inputs(&n, WINDOW_K_IDS, WINDOW_V_IDS, WINDOW_MASK, batch->window_cells);
    ggml_graph_input(graph, INDEX_IDS, ggml_typed(8, n.tokens, 1, 1));
    tag(&n, VRAM_WHAT_CAUSAL_MASK);
    ggml_graph_input(graph, INDEX_MASK, ggml_typed(2, batch->cells, n.tokens, 1));
    tag(&n, VRAM_WHAT_INPUT_IDS);
    ggml_graph_input(graph, INDEX_ROTATION, ggml_f32(128, 128, 1));
    rotations(&n, false, K_ROTATION, V_ROTATION);
    rotations(&n, true, WINDOW_K_ROTATION, WINDOW_V_ROTATION);
    return n;
}

/* On the host there are also the numbers by which rows of tables are taken there (tokens, learned positions), and embeddings, which a caller may give
 * in place of tokens. */
static double only_on_host(const net *n)
{
    double ids = vram_round_up(4 * n->tokens, 32), tables = 1;
    if (n->layer_input > 0) tables++;
    if (n->m->position == VRAM_POSITION_LEARNED) tables++;
    return n->b->copies * (vram_round_up(n->g->embeddings.of.bytes, 32) + tables * ids);
}

llama_buffers llama_graph_buffers(ggml_graph *graph, const vram_model *model, const llama_batch *batch)
{
    net n = start(graph, model, batch);
    walk(&n);
    ggml_graph_second_pass(graph);
    ggml_graph_leaves(graph, n.leaf); /* as many as the first pass met */
    walk(&n);
    if (graph->failed) return (llama_buffers){0, 0};
    return (llama_buffers){graph->pool[GGML_ON_GPU].high, graph->pool[GGML_ON_HOST].high + only_on_host(&n)};
}
