/* block_experts.c -- routers, experts, and what a layer has of MLPs: one, experts, or both. */
#include "parts.h"

#include <stddef.h>

/* A router that is a parameter: peft folds its adapter into a new weight, W + B A (ParamWrapper) */
static vram_cell router_logits(const block *b, vram_cell x, const char *name, double experts, double h)
{
    double rank = vram_part_adapter_rank(b, name);
    vram_size out = vram_part_wide(b, VRAM_SYMBOL_EXPERTS, experts);
    if (rank <= 0 || b->layer->ffn.router_linear) return vram_part_linear(b, x, name, experts, h, out, VRAM_WHAT_ROUTER_WEIGHTS);
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype);
    vram_cell folded = vram_op_matmul(b->t, vram_part_matrix(b, experts, rank, width, true), vram_part_matrix(b, rank, h, width, true), SIZE_2(b, VRAM_SYMBOL_EXPERTS, experts, VRAM_SYMBOL_HIDDEN, h), VRAM_WHAT_DORA_WEIGHT);
    return vram_op_linear(b->t, x, vram_op_cast(b->t, folded, vram_width(b->t, x), VRAM_WHAT_DORA_WEIGHT), VRAM_NO_CELL, out, VRAM_WHAT_ROUTER_WEIGHTS);
}

/* Router logits, softmax in fp32, the top k and their share of the sum */
static vram_cell router(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    const char *name = vram_or_else(b->pass->model->names.router, "gate");
    if (b->style.normed_router) x = vram_op_constant(t, vram_op_mul_weight(t, vram_part_vector(b, (double)b->pass->model->hidden), vram_part_rms_norm(b, x, b->rows, 0, false), VRAM_WHAT_NORM_OUTPUT), 0, VRAM_WHAT_NORM_OUTPUT);
    bool wide_router = b->style.router >= ROUTER_WIDE_SOFTMAX && !(b->pass->four_bit && f->router_linear) && !(b->style.typed_router && vram_part_is_cast(b)); /* a router that is packed knows no fp32 */
    vram_cell in = wide_router || b->style.router == ROUTER_CAST ? vram_op_cast(t, x, 4, VRAM_WHAT_ROUTER_WEIGHTS) : x;
    vram_cell logits = router_logits(b, in, name, (double)f->experts, (double)b->pass->model->hidden);
    if (b->style.clamped_experts) return vram_op_softmax(t, vram_op_gather(t, logits, vram_part_wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_ROUTER_WEIGHTS);
    bool sigmoid = wide_router && b->style.router == ROUTER_WIDE_SIGMOID; /* in the type that autocast has computed the logits in */
    vram_cell all = sigmoid ? vram_op_unary(t, logits, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS) : vram_op_softmax(t, vram_op_cast(t, logits, 4, VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell top = vram_op_gather(t, all, vram_part_wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_tape_hold(t, logits);
    vram_cell share = vram_op_constant(t, top, 0, VRAM_WHAT_ROUTER_WEIGHTS);
    if (b->style.normed_router) share = vram_op_constant(t, share, 0, VRAM_WHAT_ROUTER_WEIGHTS);
    bool narrow = b->style.narrow_shares && !(b->style.summed_shares && t->autocast);
    return narrow ? vram_op_cast(t, share, wide_router ? vram_width(t, logits) : vram_width(t, x), VRAM_WHAT_ROUTER_WEIGHTS) : share;
}

/* Expert parallelism: each rank has its own. Tokens travel to them, from all ranks as many as stay at home when experts are equally liked. */
static double experts_on_rank(const block *b) { return vram_ceil_div((double)b->layer->ffn.experts, (double)b->pass->scenario->parallel.expert); }

/* Stacked experts; peft folds their adapters into a whole new weight, W + B A, in the type of W (ParamWrapper, baddbmm) */
static vram_cell expert_matrix(const block *b, const char *name, double rows, double columns, vram_cell factors[2])
{
    factors[0] = factors[1] = VRAM_NO_CELL;
    vram_factor e = {VRAM_SYMBOL_EXPERTS, experts_on_rank(b)};
    const vram_tensor *row = vram_part_row(b, name, false, true);
    double rank = b->pass->lora && row != NULL ? vram_lora_rank(b->pass->scenario, b->pass->model, row) : 0;
    int width = (int)vram_format_bytes(b->pass->scenario->lora.dtype);
    if (rank > 0) {
        vram_cell left = vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_RANK, rank), width, b->pass->gradients);
        vram_cell right = vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_RANK, rank, VRAM_SYMBOL_WIDTH, columns), width, b->pass->gradients);
        factors[0] = vram_op_cast(b->t, left, b->pass->width, VRAM_WHAT_LORA_DOWN);
        factors[1] = vram_op_cast(b->t, right, b->pass->width, VRAM_WHAT_LORA_DOWN);
        return vram_op_matmul(b->t, factors[0], factors[1], SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), VRAM_WHAT_MERGED_EXPERTS);
    }
    return vram_tape_parameter(b->t, SIZE_3(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, rows, VRAM_SYMBOL_WIDTH, columns), b->pass->width, !b->pass->lora && b->pass->gradients);
}

/* A row of biases for each token and expert, added in place */
static vram_cell expert_bias(const block *b, double width, vram_size out)
{
    vram_size all = SIZE_2(b, VRAM_SYMBOL_EXPERTS, experts_on_rank(b), VRAM_SYMBOL_WIDTH, width);
    return vram_op_gather(b->t, vram_tape_parameter(b->t, all, b->pass->width, false), out, VRAM_WHAT_EXPERT_INPUTS);
}

static vram_cell gated_experts(const block *b, vram_cell both, vram_size inner)
{
    vram_cell half[2];
    if (b->style.clamped_experts) {
        for (int i = 0; i < 2; i++) half[i] = vram_op_slice(b->t, both, inner, VRAM_WHAT_GATE_UP);
        return vram_part_clamped_gate(b, half[0], half[1]);
    }
    vram_op_split(b->t, both, 2, (const vram_size[]){inner, inner}, half);
    if (b->style.clamped) return vram_part_clamped_gate(b, half[0], half[1]);
    if (b->style.bounded) return vram_part_gated(b, half[0], half[1]);
    return vram_op_mul(b->t, vram_part_activation(b, half[0]), half[1], VRAM_WHAT_GATED);
}

/* Source: liger_kernel/transformers/swiglu.py (LigerExperts) */
static vram_cell liger_experts(const block *b, vram_cell x, vram_cell routed)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, m = (double)f->expert_width;
    vram_factor share = {VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token};
    vram_expert_sizes sizes = {ROWS_BY(b, share.symbol, share.value), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_WIDTH, 2 * m), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_INTERMEDIATE, m), ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_HIDDEN, h)};
    vram_cell weights = router(b, routed), factors[4], first = expert_matrix(b, "gate_up_proj", 2 * m, h, factors), second = expert_matrix(b, "down_proj", h, m, factors + 2);
    vram_cell y = vram_op_fused_experts(t, x, first, second, weights, &sizes);
    vram_tape_hold(t, first);
    vram_tape_hold(t, second);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, factors[i]);
    return y;
}

/* `routed`: what the router reads, x but for Gemma 4. Tokens copied expert by expert, one product for all experts, weighed in fp32, brought back and summed (transformers, integrations/moe.py) */
vram_cell vram_part_experts(const block *b, vram_cell x, vram_cell routed)
{
    const vram_ffn *f = &b->layer->ffn;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, k = (double)f->experts_per_token * vram_expert_tokens(b->pass->scenario), m = (double)f->expert_width;
    vram_factor share = {VRAM_SYMBOL_EXPERTS_PER_TOKEN, k};
    vram_size inner = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_INTERMEDIATE, m), both_size = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_WIDTH, 2 * m), outer = ROWS_BY_2(b, share.symbol, share.value, VRAM_SYMBOL_HIDDEN, h);
    vram_cell weights = router(b, routed), factors[4], bias = VRAM_NO_CELL;
    bool biased = b->style.clamped_experts, plain = f->type == VRAM_FFN_PLAIN;
    double wide_inner = plain ? m : 2 * m;
    vram_cell chosen = vram_op_gather(t, x, outer, VRAM_WHAT_EXPERT_INPUTS);
    if (biased) bias = expert_bias(b, 2 * m, both_size);
    vram_cell first = expert_matrix(b, plain ? "up_proj" : "gate_up_proj", wide_inner, h, factors), both = vram_op_grouped(t, chosen, first, plain ? inner : both_size, VRAM_WHAT_GATE_UP);
    vram_cell product = plain ? vram_part_activation(b, both) : gated_experts(b, both, inner);
    vram_tape_hold(t, both);
    if (biased) {
        vram_cell next = expert_bias(b, h, outer);
        vram_tape_hold(t, bias);
        bias = next;
    }
    vram_cell second = expert_matrix(b, "down_proj", h, m, factors + 2), each = vram_op_grouped(t, product, second, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell weighed = vram_op_mul_rows(t, each, weights, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell ordered = vram_op_gather(t, weighed, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell sum = vram_op_sum(t, ordered, b->hidden, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_cell y = vram_op_cast(t, sum, vram_width(t, x), VRAM_WHAT_MLP_OUTPUT);
    const vram_cell held[] = {chosen, each, bias, ordered, sum, first, second};
    vram_part_hold(b, 7, held);
    for (int i = 0; i < 4; i++) vram_tape_hold(t, factors[i]);
    return y;
}

/* Llama4TextMoe: a copy of all tokens for each expert, times the router's sigmoid, which is 0 for all but the top k */
static vram_cell every_expert(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, m = (double)f->expert_width;
    vram_factor e = {VRAM_SYMBOL_EXPERTS, (double)f->experts};
    vram_size inner = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_INTERMEDIATE, m), both_size = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_WIDTH, 2 * m), outer = ROWS_BY_2(b, e.symbol, e.value, VRAM_SYMBOL_HIDDEN, h), scores_size = ROWS_BY(b, e.symbol, e.value);
    vram_cell logits = vram_part_linear(b, x, vram_or_else(n->router, "router"), (double)f->experts, h, scores_size, VRAM_WHAT_ROUTER_WEIGHTS), half[2], factors[4];
    vram_cell top = vram_op_gather(t, logits, vram_part_wide(b, VRAM_SYMBOL_EXPERTS_PER_TOKEN, (double)f->experts_per_token), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell spread = vram_op_cast(t, vram_op_gather(t, top, scores_size, VRAM_WHAT_ROUTER_WEIGHTS), 4, VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell scores = vram_op_cast(t, vram_op_unary(t, spread, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS), vram_width(t, x), VRAM_WHAT_ROUTER_WEIGHTS);
    vram_cell in = vram_op_mul_rows(t, vram_op_repeat(t, x, outer, VRAM_WHAT_EXPERT_INPUTS), scores, VRAM_WHAT_EXPERT_INPUTS);
    vram_cell first = expert_matrix(b, "gate_up_proj", 2 * m, h, factors), both = vram_op_matmul(t, in, first, both_size, VRAM_WHAT_GATE_UP);
    vram_op_split(t, both, 2, (const vram_size[]){inner, inner}, half);
    vram_cell second = expert_matrix(b, "down_proj", h, m, factors + 2), each = vram_op_matmul(t, vram_op_mul(t, half[1], vram_part_activation(b, half[0]), VRAM_WHAT_GATED), second, outer, VRAM_WHAT_EXPERT_OUTPUTS);
    vram_tape_hold(t, both);
    vram_cell shared = vram_part_dense(b, x, (double)f->shared_width, f->shared_fused, vram_or_else(n->shared_gate_up, "gate_up_proj"), vram_or_else(n->shared_down, "down_proj"));
    vram_cell y = vram_op_add(t, shared, vram_op_sum(t, each, b->hidden, VRAM_WHAT_EXPERT_OUTPUTS), VRAM_WHAT_MLP_OUTPUT);
    const vram_cell names[] = {x, logits, scores, in, each, first, second, factors[0], factors[1], factors[2], factors[3]};
    vram_part_hold(b, (int)(sizeof names / sizeof *names), names);
    return y;
}

static vram_cell shared_expert(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    return f->shared_width > 0 ? vram_part_dense(b, x, (double)f->shared_width, f->shared_fused, vram_or_else(n->shared_gate_up, "gate_up_proj"), vram_or_else(n->shared_down, "down_proj")) : VRAM_NO_CELL;
}

vram_cell vram_part_mlp(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    bool first = b->style.shared_first && f->experts > 0;
    if (f->experts > 0 && b->style.every_expert) return every_expert(b, x);
    vram_cell y = VRAM_NO_CELL, shared = first ? shared_expert(b, x) : VRAM_NO_CELL;
    if (f->experts > 0) y = vram_part_has_kernel(b, VRAM_KERNEL_EXPERTS) ? liger_experts(b, x, x) : vram_part_experts(b, x, x);
    else if (f->width > 0) y = vram_part_dense(b, x, (double)f->width, f->fused_gate_up, vram_or_else(n->gate_up, "gate_up_proj"), vram_or_else(n->down, "down_proj"));
    if (!first) shared = shared_expert(b, x);
    if (shared >= 0 && f->shared_gate) {
        vram_cell weight = vram_part_linear(b, x, "shared_expert_gate", 1, (double)b->pass->model->hidden, b->rows, VRAM_WHAT_ROUTER_WEIGHTS);
        shared = vram_op_mul_rows(b->t, shared, vram_op_unary(b->t, weight, false, true, 0, VRAM_WHAT_ROUTER_WEIGHTS), VRAM_WHAT_MLP_OUTPUT);
    }
    if (y < 0 && shared < 0) return x; /* one of no width in a family whose layers always have one */
    if (shared >= 0) y = y < 0 ? shared : vram_op_add(b->t, y, shared, VRAM_WHAT_MLP_OUTPUT);
    if (!b->style.bare_mlp) vram_tape_hold(b->t, x);
    if (first) vram_tape_hold(b->t, shared);
    return vram_op_dropout(b->t, y, b->pass->dropout, VRAM_WHAT_MLP_OUTPUT);
}
