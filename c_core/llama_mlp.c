/* llama_mlp.c -- the MLP of one layer of llama.cpp's graph, dense or of experts. Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_ffn,
 * build_moe_ffn); ggml/src/ggml-cuda/ggml-cuda.cu (graph_optimize: what fused kernels keep alive). */
#include "llama_net.h"

/* build_ffn: gate and up, one product of both; or up alone, activated in place; or both in one projection */
int llama_dense(net *n, const vram_ffn *f, bool fused, double width, int x)
{
    ggml_shape inner = ggml_f32(width, n->rows, 1);
    int y;
    if (f->type == VRAM_FFN_PLAIN) {
        y = same(n, true, biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_UP, x, width)));
    } else if (fused) {
        y = shaped(n, false, inner, multiply_by(n, VRAM_ROLE_OF_UP, x, 2 * width));
    } else {
        int gate = biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_GATE, x, width)), up = biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_UP, x, width));
        y = ggml_graph_op(n->g, false, inner, SOURCES(gate, up));
    }
    return biased(n, f->bias, multiply_by(n, VRAM_ROLE_OF_DOWN, y, n->hidden));
}

/* The fused kernel that chooses experts keeps all that it replaces, until the node behind it; it knows only some numbers of experts. */
static bool fused_choice(const net *n, const vram_ffn *f)
{
    double e = (double)f->experts, power = 1;
    while (power < e) power *= 2;
    if (trait(n, SOFTMAX_AFTER | WEIGHTS_FIRST | EXPERT_GROUPS)) return false;
    return (power == e && e <= 512) || e == 288 || e == 576;
}

/* Experts by groups (DeepSeek-V3): scores of each group's best two, the groups, everything else masked */
static int masked_by_groups(net *n, const vram_ffn *f, int selection)
{
    double e = (double)f->experts, t = n->rows, groups = 8;
    int sorted = ggml_graph_op(n->g, false, ggml_f32(e, t, 1), SOURCES(V(selection)));
    int best = ggml_graph_op(n->g, false, ggml_f32(2, groups, t), SOURCES(V(selection), V(sorted)));
    int score = shaped(n, false, ggml_f32(groups, t, 1), V(best));
    int order = shaped(n, false, ggml_f32(groups, t, 1), V(score));
    int kept = ggml_graph_op(n->g, false, ggml_f32(e / 2, t, 1), SOURCES(V(selection), V(order)));
    int masked = shaped(n, true, ggml_f32(e, t, 1), V(selection));
    ggml_graph_use(n->g, SOURCES(kept, V(order), masked));
    return V(masked);
}

choice llama_choose(net *n, const vram_ffn *f, int x)
{
    double e = (double)f->experts, used = (double)f->experts_per_token, t = n->rows;
    ggml_shape all = ggml_f32(e, t, 1), some = ggml_f32(used, t, 1), one = ggml_f32(1, t, 1);
    bool fused = fused_choice(n, f);
    choice c = {.kept = 0};
    int logits = biased(n, f->router_linear_bias, multiply_by(n, VRAM_ROLE_OF_FULL, x, e)), selection;
    int probabilities = same(n, true, logits);
    selection = probabilities;
    if (f->router_bias) selection = factors_of(n, e, probabilities);
    c.keep[c.kept++] = logits;
    c.keep[c.kept++] = probabilities;
    if (selection != probabilities) c.keep[c.kept++] = selection;
    if (trait(n, EXPERT_GROUPS)) selection = masked_by_groups(n, f, selection);
    if (trait(n, WEIGHTS_FIRST)) selection = logits;
    int sorted = shaped(n, false, all, selection);
    int weights = ggml_graph_op(n->g, false, some, SOURCES(V(probabilities), V(sorted)));
    c.keep[c.kept++] = sorted;
    c.keep[c.kept++] = weights;
    if (trait(n, SOFTMAX_AFTER)) weights = shaped(n, true, some, V(weights));
    if (!trait(n, PLAIN_WEIGHTS | SOFTMAX_AFTER)) {
        int sum = shaped(n, false, one, V(weights)), floor = same(n, true, sum);
        c.keep[c.kept++] = sum;
        c.keep[c.kept++] = floor;
        weights = ggml_graph_op(n->g, true, some, SOURCES(V(weights), floor));
        c.keep[c.kept++] = weights;
    }
    if (trait(n, SCALED_WEIGHTS)) {
        weights = shaped(n, true, some, V(weights));
        c.keep[c.kept++] = weights;
    }
    if (!fused) c.kept = 0;
    c.weights = weights;
    c.chosen = sorted;
    return c;
}

/* Behind the node that follows the fused kernel */
void llama_after_choice(net *n, const choice *c)
{
    if (c->kept > 0) ggml_graph_use(n->g, c->kept, c->keep);
}

static int with_bias_of_experts(net *n, const vram_ffn *f, int chosen_experts, int x)
{
    ggml_shape of = n->g->tensor[x].of;
    int biases = vector_of(n, of.shape[0] * (double)f->experts);
    return placed(n, rows_of(&of), ggml_graph_op(n->g, true, of, SOURCES(x, biases, V(chosen_experts))));
}

/* The experts' own projections; their weighted sum. The fused sum of up to 15 experts keeps their outputs and weights until it is done. */
int llama_experts(net *n, const vram_ffn *f, int x, choice c, bool scaled)
{
    double used = (double)f->experts_per_token, width = (double)f->expert_width, t = n->rows;
    double in = f->latent_width > 0 ? (double)f->latent_width : n->hidden;
    ggml_shape inner = ggml_f32(width, used, t), outer = ggml_f32(in, used, t), row = ggml_f32(in, t, 1);
    int y;
    if (trait(n, WEIGHTS_FIRST)) {
        x = shaped(n, false, outer, V(x));
        x = ggml_graph_op(n->g, true, outer, SOURCES(x, c.weights));
    } else {
        x = V(x);
    }
    if (f->type == VRAM_FFN_PLAIN) {
        y = same(n, true, multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, width));
    } else if (trait(n, NO_SPLIT_GATE)) {
        int both = multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, 2 * width);
        y = ggml_graph_op(n->g, false, inner, SOURCES(V(both), V(both)));
    } else {
        int gate = multiply_experts(n, VRAM_ROLE_OF_GATE, x, c.chosen, in, width);
        if (f->expert_bias) gate = with_bias_of_experts(n, f, c.chosen, gate);
        int up = multiply_experts(n, VRAM_ROLE_OF_UP, x, c.chosen, in, width);
        if (f->expert_bias) up = with_bias_of_experts(n, f, c.chosen, up);
        y = ggml_graph_op(n->g, false, inner, SOURCES(gate, up));
    }
    int down = multiply_experts(n, VRAM_ROLE_OF_DOWN, y, c.chosen, width, in);
    if (f->expert_bias) down = with_bias_of_experts(n, f, c.chosen, down);
    int scale = GGML_NONE, unscaled = down;
    if (scaled) {
        int every = ggml_graph_op(n->g, false, ggml_f32((double)f->experts, t, 1), 0, NULL);
        scale = ggml_graph_op(n->g, false, ggml_f32(used, t, 1), SOURCES(every, V(c.chosen)));
        down = ggml_graph_op(n->g, true, outer, SOURCES(down, scale));
    }
    int weighted = trait(n, WEIGHTS_FIRST) ? down : ggml_graph_op(n->g, true, outer, SOURCES(down, V(c.weights)));
    bool fused_sum = used >= 2 && used <= 15 && !trait(n, WEIGHTS_FIRST);
    if (used == 1) return shaped(n, false, row, V(weighted));
    int sum = ggml_graph_op(n->g, true, row, SOURCES(V(weighted), V(weighted)));
    for (int64_t i = 2; i < f->experts_per_token && i < 256; i++) sum = ggml_graph_op(n->g, true, row, SOURCES(sum, V(weighted)));
    if (fused_sum) ggml_graph_use(n->g, SOURCES(unscaled, V(c.weights), scale));
    return sum;
}

static int shared_expert(net *n, const vram_ffn *f, int x)
{
    int y = llama_dense(n, f, false, (double)f->shared_width, x);
    if (!f->shared_gate) return y;
    int gate = same(n, true, multiply_by(n, VRAM_ROLE_OF_FULL, x, 1));
    return ggml_graph_op(n->g, true, n->g->tensor[y].of, SOURCES(y, gate));
}

static int sparse(net *n, const vram_ffn *f, int x)
{
    int latent = f->latent_width > 0 ? multiply(n, x, (double)f->latent_width) : x;
    choice c = llama_choose(n, f, x);
    llama_after_choice(n, &c);
    int y = llama_experts(n, f, latent, c, false);
    llama_read_ahead(n);
    if (f->latent_width > 0) y = multiply(n, y, n->hidden);
    return f->shared_width > 0 ? add(n, y, shared_expert(n, f, x)) : y;
}

int llama_mlp(net *n, const vram_ffn *f, int x)
{
    tag(n, f->experts > 0 ? VRAM_WHAT_EXPERT_ACTIVATIONS : VRAM_WHAT_MLP_ACTIVATIONS);
    if (f->experts > 0) return sparse(n, f, x);
    return llama_dense(n, f, f->width > 0 && f->fused_gate_up, (double)(f->width > 0 ? f->width : f->shared_width), x);
}
