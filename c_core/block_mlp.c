/* block_mlp.c -- activations and the MLP. */
#include "parts.h"

/* Powers, exponentials and softplus run in fp32 under autocast. */
vram_cell vram_part_in_fp32(const block *b, vram_cell x) { return b->t->autocast ? vram_op_cast(b->t, x, 4, VRAM_WHAT_ACTIVATION) : x; }

/* 0.5 x (1 + tanh(c (x + 0.044715 x^3))), each operation a tensor */
static vram_cell new_gelu(const block *b, vram_cell x)
{
    vram_tape *t = b->t;
    vram_cell half = vram_op_constant(t, x, 0, VRAM_WHAT_ACTIVATION);
    vram_cell cube = vram_op_unary(t, vram_part_in_fp32(b, x), true, false, 2, VRAM_WHAT_ACTIVATION);
    vram_cell inner = vram_op_constant(t, vram_op_add(t, x, vram_op_constant(t, cube, 0, VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION), 0, VRAM_WHAT_ACTIVATION);
    return vram_op_mul(t, half, vram_op_shift(t, vram_op_unary(t, inner, false, true, 0, VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION), VRAM_WHAT_ACTIVATION);
}

/* where(x > 0, alpha x x + beta x, (expm1(min(x, eps)) - x) alpha' + beta x) */
static vram_cell xielu(const block *b, vram_cell x)
{
    static const vram_what made = VRAM_WHAT_ACTIVATION;
    vram_tape *t = b->t;
    vram_cell positive = vram_op_constant(t, vram_tape_outside(t, t->cell[x].shape, 1, made), 1, made), scaled = vram_op_mul_weight(t, vram_part_in_fp32(b, vram_part_vector(b, 1)), x, made);
    vram_cell up = vram_op_add(t, vram_op_mul(t, scaled, x, made), vram_op_constant(t, x, 0, made), made);
    vram_cell least = vram_op_unary(t, vram_part_in_fp32(b, vram_op_unary(t, x, true, false, 1, made)), false, true, 1, made), rest = vram_op_mul_weight(t, vram_part_in_fp32(b, vram_part_vector(b, 1)), vram_op_add(t, least, x, made), made);
    vram_cell y = vram_op_where(t, positive, up, vram_op_add(t, rest, vram_op_constant(t, x, 0, made), made), made);
    vram_tape_hold(t, x);
    return y;
}

vram_cell vram_part_activation(const block *b, vram_cell x)
{
    if (b->style.act == ACT_NEW_GELU) return new_gelu(b, x);
    if (vram_part_has_kernel(b, VRAM_KERNEL_ACTIVATION)) return vram_op_unary(b->t, x, true, false, 0, VRAM_WHAT_ACTIVATION);
    if (b->style.act == ACT_RELU_SQUARED) {
        vram_cell kept = vram_op_unary(b->t, x, false, true, 0, VRAM_WHAT_ACTIVATION), y = vram_op_unary(b->t, vram_part_in_fp32(b, kept), true, false, 2, VRAM_WHAT_ACTIVATION);
        vram_tape_hold(b->t, x);
        vram_tape_hold(b->t, kept);
        return y;
    }
    if (b->style.act == ACT_XIELU) return xielu(b, x);
    bool output = b->style.act == ACT_RELU;
    return vram_op_unary(b->t, x, !output, output, 0, VRAM_WHAT_ACTIVATION);
}

/* One kernel for act(gate) * up? Unsloth's, and those after it, only where each of the MLP's layers has an adapter.
 * Source: unsloth/models/llama.py (patch_peft_model); fms_acceleration_foak/models/llama.py (trigger_fused_ops) */
static bool fused_gate(const block *b)
{
    const vram_names *n = &b->pass->model->names;
    if (b->pass->scenario->training.attention != VRAM_ATTENTION_FLASH || !vram_part_has_kernel(b, VRAM_KERNEL_GATE)) return vram_part_has_kernel(b, VRAM_KERNEL_GATE);
    return vram_part_adapter_rank(b, vram_or_else(n->gate, "gate_proj")) > 0 && vram_part_adapter_rank(b, vram_or_else(n->up, "up_proj")) > 0 && vram_part_adapter_rank(b, vram_or_else(n->down, "down_proj")) > 0;
}

/* GptOssExperts, MiniMax-M3: (clamp(up) + 1) * gate * sigmoid(alpha gate), gate clamped */
vram_cell vram_part_clamped_gate(const block *b, vram_cell wide_gate, vram_cell wide_up)
{
    vram_tape *t = b->t;
    vram_cell gate = vram_op_unary(t, wide_gate, true, false, 0, VRAM_WHAT_GATE), up = vram_op_unary(t, wide_up, true, false, 0, VRAM_WHAT_UP);
    vram_cell share = vram_op_unary(t, vram_op_constant(t, gate, 0, VRAM_WHAT_GATE), false, true, 0, VRAM_WHAT_GATE), active = vram_op_mul(t, gate, share, VRAM_WHAT_ACTIVATION);
    vram_cell y = vram_op_mul(t, vram_op_shift(t, up, VRAM_WHAT_UP), active, VRAM_WHAT_GATED);
    vram_tape_hold(t, gate);
    vram_tape_hold(t, up);
    vram_tape_hold(t, active);
    return y;
}

/* A clamp keeps what it has clamped. */
static vram_cell bounded(const block *b, vram_cell x, vram_what what) { return b->style.bounded ? vram_op_unary(b->t, x, true, false, 0, what) : x; }

vram_cell vram_part_gated(const block *b, vram_cell wide_gate, vram_cell wide_up)
{
    vram_cell gate = bounded(b, wide_gate, VRAM_WHAT_GATE), up = bounded(b, wide_up, VRAM_WHAT_UP);
    if (b->style.clamped) return vram_part_clamped_gate(b, gate, up);
    if (fused_gate(b)) return vram_op_fused_gate(b->t, gate, up, VRAM_WHAT_GATED);
    vram_cell active = vram_part_activation(b, gate);
    return b->style.act_second ? vram_op_mul(b->t, up, active, VRAM_WHAT_GATED) : vram_op_mul(b->t, active, up, VRAM_WHAT_GATED);
}

static vram_cell plain_product(const block *b, vram_cell x, double f)
{
    vram_cell up = vram_part_linear(b, x, vram_or_else(b->pass->model->names.up, "up_proj"), f, (double)b->pass->model->hidden, vram_part_wide(b, VRAM_SYMBOL_INTERMEDIATE, f), VRAM_WHAT_UP);
    vram_tape_hold(b->t, x);
    return vram_part_activation(b, up);
}

/* Both halves of one projection; a kernel wants each in one piece, and both have a name until the layer below has run */
static vram_cell halved_product(const block *b, vram_cell x, double f, const char *gate_up, vram_cell *whole)
{
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden;
    vram_size inner = vram_part_wide(b, VRAM_SYMBOL_INTERMEDIATE, f);
    vram_cell both = vram_part_linear(b, x, gate_up, 2 * f, h, ROWS_BY_2(b, VRAM_SYMBOL_COPIES, 2, VRAM_SYMBOL_INTERMEDIATE, f), VRAM_WHAT_GATE_UP), half[2];
    both = vram_part_with_side_path(b, x, both, VRAM_PART_MLP, 2 * f, h);
    vram_op_split(t, both, 2, (const vram_size[]){inner, inner}, half);
    for (int i = 0; i < 2 && fused_gate(b); i++) half[i] = vram_op_copy(t, half[i], inner, i ? VRAM_WHAT_UP : VRAM_WHAT_GATE);
    if (fused_gate(b)) *whole = both;
    return vram_part_gated(b, half[0], half[1]);
}

/* named: gate, what the activation makes of it, up */
static vram_cell gated_product(const block *b, vram_cell x, double f, vram_cell named[3])
{
    const vram_names *n = &b->pass->model->names;
    double h = (double)b->pass->model->hidden;
    vram_size inner = vram_part_wide(b, VRAM_SYMBOL_INTERMEDIATE, f);
    vram_cell gate = vram_part_linear(b, x, vram_or_else(n->gate, "gate_proj"), f, h, inner, VRAM_WHAT_GATE);
    if (fused_gate(b)) return vram_op_fused_gate(b->t, gate, vram_part_linear(b, x, vram_or_else(n->up, "up_proj"), f, h, inner, VRAM_WHAT_UP), VRAM_WHAT_GATED);
    named[0] = bounded(b, gate, VRAM_WHAT_GATE);
    if (!b->style.bounded) named[1] = vram_part_activation(b, named[0]);
    named[2] = bounded(b, vram_part_linear(b, x, vram_or_else(n->up, "up_proj"), f, h, inner, VRAM_WHAT_UP), VRAM_WHAT_UP);
    if (b->style.bounded) named[1] = vram_part_activation(b, named[0]);
    return vram_op_mul(b->t, named[1], named[2], VRAM_WHAT_GATED);
}

/* down(act(gate(x)) * up(x)), or down(act(up(x))) */
vram_cell vram_part_dense(const block *b, vram_cell x, double f, bool fused, const char *gate_up, const char *down)
{
    vram_tape *t = b->t;
    vram_cell whole = VRAM_NO_CELL, named[3] = {VRAM_NO_CELL, VRAM_NO_CELL, VRAM_NO_CELL};
    vram_cell product = b->layer->ffn.type == VRAM_FFN_PLAIN ? plain_product(b, x, f) : fused ? halved_product(b, x, f, gate_up, &whole) : gated_product(b, x, f, named);
    if (b->style.sub_norms) product = vram_part_norm(b, product, b->rows, f);
    vram_cell y = vram_part_linear(b, product, down, (double)b->pass->model->hidden, f, b->hidden, VRAM_WHAT_MLP_OUTPUT);
    if (b->style.altup) vram_part_hold(b, 3, named); /* Gemma3nTextMLP calls each by a name */
    if (b->style.bounded) vram_tape_hold(t, named[0]), vram_tape_hold(t, named[2]);
    vram_tape_hold(t, whole);
    if (!b->style.bare_mlp) vram_tape_hold(t, x);
    return y;
}
