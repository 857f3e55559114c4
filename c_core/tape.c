/* tape.c -- the operations: what each makes, what autograd saves of it, what its gradient makes.
 *
 * Source: PyTorch's derivatives.yaml (what is saved; the gradients of several inputs are computed in alphabetical order of their
 * names there, hence "the second input first"), ATen's CUDA kernels (temporaries), autocast_mode.cpp (casts).
 * Each row was seen in a trace of the caching allocator (tests/measure). */
#include "tape.h"

#include <stddef.h>

/* ------------------------------------------------------------------------------------------------ the tape's own lists -- */

void vram_tape_clear(vram_tape *t, bool autocast, double workspace)
{
    t->autocast = autocast;
    t->caches = false;
    t->keeps_casts = true;
    t->update = (vram_tape_update){.at_once = false};
    t->gradient_share = 1;
    t->offloads = true;
    t->no_grad = false;
    t->workspace = workspace;
    t->biased_workspace = 1048576; /* cublasLt's own, for products with a bias */
    t->shapes = t->cells = t->ops = t->steps = 0;
    t->full = t->named = t->lasting = t->repeating = false;
    t->mark = t->leave = -1;
    t->input = t->output = t->returned = t->aside = t->shared[0] = t->shared[1] = VRAM_NO_CELL;
}

static bool same_factors(const vram_tape_shape *shape, int factors, const vram_factor factor[])
{
    bool same = shape->factors == factors;
    for (int i = 0; same && i < factors; i++) same = shape->factor[i].symbol == factor[i].symbol && shape->factor[i].value == factor[i].value;
    return same;
}

vram_size vram_tape_size(vram_tape *t, int factors, const vram_factor factor[])
{
    for (int i = 0; i < t->shapes; i++)
        if (same_factors(&t->shape[i], factors, factor)) return (vram_size)i;
    int place = t->shapes < VRAM_TAPE_SHAPES ? t->shapes++ : VRAM_TAPE_SHAPES - 1;
    if (t->shapes >= VRAM_TAPE_SHAPES) t->full = true;
    vram_tape_shape *shape = &t->shape[place];
    shape->factors = factors;
    shape->elements = 1;
    for (int i = 0; i < factors; i++) {
        shape->factor[i] = factor[i];
        shape->elements *= factor[i].value;
    }
    return (vram_size)place;
}

static vram_cell cell(vram_tape *t, vram_size size, int width, vram_what what)
{
    if (t->cells >= VRAM_TAPE_CELLS - 64) t->full = true; /* the replay makes a few more: sums of gradients */
    vram_cell place = (vram_cell)(t->full ? VRAM_TAPE_CELLS - 65 : t->cells++);
    double bytes = t->shape[size].elements * width;
    t->cell[place] = (vram_tape_cell){.bytes = bytes, .block = vram_block_bytes(bytes), .shape = size, .base = place, .first_use = -1, .last_use = (short)(t->ops - 1), .what = (short)what,
                                      .component = VRAM_COMPONENT_ACTIVATIONS, .width = (unsigned char)width};
    if (what == VRAM_WHAT_LOGITS || what == VRAM_WHAT_LOGITS_FP32 || what == VRAM_WHAT_LOG_PROBABILITIES) t->cell[place].component = VRAM_COMPONENT_LOGITS;
    return place;
}

static vram_cell scratch(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_cell c = cell(t, size, width, what);
    t->cell[c].component = VRAM_COMPONENT_WORKSPACE;
    return c;
}

static vram_size bytes_size(vram_tape *t, double bytes) { return vram_tape_size(t, 1, (const vram_factor[]){{VRAM_SYMBOL_BYTES, bytes}}); }

vram_cell vram_tape_input(vram_tape *t, vram_size size, int width, vram_what what, bool grad)
{
    t->input = cell(t, size, width, what);
    t->cell[t->input].grad = grad;
    return t->input;
}

vram_cell vram_tape_outside(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_cell c = cell(t, size, width, what);
    t->cell[c].outside = true;
    return c;
}

vram_cell vram_tape_parameter(vram_tape *t, vram_size size, int width, bool trained)
{
    vram_cell c = vram_tape_outside(t, size, width, VRAM_WHAT_TRAINABLE);
    t->cell[c].parameter = true;
    t->cell[c].grad = trained;
    t->cell[c].repeated = t->repeating;
    return c;
}

vram_cell vram_tape_tied(vram_tape *t, vram_size size, int width, bool trained)
{
    vram_cell c = vram_tape_parameter(t, size, width, trained);
    t->cell[c].parameter = false;
    t->cell[c].tied = true;
    return c;
}

void vram_tape_hold(vram_tape *t, vram_cell x)
{
    if (x >= 0) t->cell[t->cell[x].base].last_use = (short)(t->ops - 1);
}

void vram_tape_mark(vram_tape *t) { t->mark = t->ops; }
void vram_tape_leave(vram_tape *t) { t->leave = t->ops; }

/* ------------------------------------------------------------------------------------------------- one op under the pen -- */

static void step(vram_tape *t, vram_step_code code, int input, vram_cell c)
{
    if (t->steps >= VRAM_TAPE_STEPS) { t->full = true; return; }
    t->step[t->steps++] = (vram_tape_step){(unsigned char)code, (unsigned char)input, c};
}

static vram_tape_op *begin(vram_tape *t, int ins, const vram_cell in[])
{
    if (t->ops >= VRAM_TAPE_OPS) { t->full = true; t->ops--; }
    vram_tape_op *op = &t->op[t->ops++];
    *op = (vram_tape_op){.forward = (short)t->steps, .backward = (short)t->steps, .end = (short)t->steps, .ins = (unsigned char)ins, .offloads = t->offloads};
    for (int i = 0; i < ins; i++) {
        op->in[i] = in[i];
        if (in[i] < 0) continue;
        vram_tape_hold(t, in[i]);
        if (t->cell[in[i]].first_use < 0) t->cell[in[i]].first_use = (short)(t->ops - 1);
        op->grad |= t->cell[in[i]].grad && !t->no_grad;
    }
    return op;
}

static vram_tape_op *begin1(vram_tape *t, vram_cell a) { return begin(t, 1, (const vram_cell[]){a}); }
static vram_tape_op *begin2(vram_tape *t, vram_cell a, vram_cell b) { return begin(t, 2, (const vram_cell[]){a, b}); }
static vram_tape_op *begin3(vram_tape *t, vram_cell a, vram_cell b, vram_cell c) { return begin(t, 3, (const vram_cell[]){a, b, c}); }

static bool wants(const vram_tape *t, const vram_tape_op *op, int k) { return op->in[k] >= 0 && t->cell[op->in[k]].grad; }

static void make(vram_tape *t, vram_cell c) { step(t, VRAM_STEP_MAKE, 0, c); }
static void drop(vram_tape *t, vram_cell c) { step(t, VRAM_STEP_FREE, 0, c); }
static void give(vram_tape *t, int k, vram_cell c) { step(t, VRAM_STEP_GIVE, k, c); }
static void pass(vram_tape *t, int k) { step(t, VRAM_STEP_PASS, k, VRAM_NO_CELL); }

static vram_cell output(vram_tape *t, vram_tape_op *op, vram_size size, int width, vram_what what)
{
    vram_cell y = cell(t, size, width, what);
    t->cell[y].grad = op->grad;
    op->out[op->outs++] = y;
    make(t, y);
    return y;
}

static vram_cell output_view(vram_tape *t, vram_tape_op *op, vram_cell x, vram_size size, vram_what what)
{
    vram_cell y = cell(t, size, vram_width(t, x), what);
    t->cell[y].base = t->cell[x].base;
    t->cell[y].grad = op->grad;
    op->out[op->outs++] = y;
    return y;
}

static void save(vram_tape *t, vram_tape_op *op, vram_cell x)
{
    if (op->grad && t->cell[t->cell[x].base].outside) op->others++;
    if (!op->grad || t->cell[t->cell[x].base].outside || op->saves >= VRAM_TAPE_SAVES) return;
    op->saved[op->saves++] = t->cell[x].base;
}

static void save_output(vram_tape *t, vram_tape_op *op, vram_cell y)
{
    save(t, op, y);
    op->saves_output = true;
}

static void backward(vram_tape *t, vram_tape_op *op) { op->backward = (short)t->steps; }
static void end(vram_tape *t, vram_tape_op *op) { op->end = (short)t->steps; }

static void workspace(vram_tape *t, double bytes)
{
    vram_cell c = scratch(t, bytes_size(t, bytes), 1, VRAM_WHAT_CUBLAS_WORKSPACE);
    make(t, c);
    drop(t, c);
}

/* Gradients of activations count as activations; those of parameters as gradients. */
static vram_cell gradient_like(vram_tape *t, vram_cell x, int width)
{
    vram_cell g = cell(t, t->cell[x].shape, width, VRAM_WHAT_ACTIVATION_GRADIENT);
    if (t->cell[x].component == VRAM_COMPONENT_LOGITS) t->cell[g].component = VRAM_COMPONENT_LOGITS;
    if (t->cell[x].parameter || t->cell[x].tied) {
        t->cell[g].component = VRAM_COMPONENT_GRADIENTS;
        t->cell[g].what = t->cell[x].tied ? VRAM_WHAT_TIED_GRADIENT : VRAM_WHAT_TRAINABLE;
        if (t->cell[x].parameter) t->cell[g].block = floor(t->cell[g].block * t->gradient_share);
    }
    return g;
}

/* A gradient computed in `width` bytes and handed on in the type of the input. */
static vram_cell make_gradient(vram_tape *t, vram_cell x, int width)
{
    vram_cell g = gradient_like(t, x, vram_width(t, x));
    if (width == vram_width(t, x)) {
        make(t, g);
        return g;
    }
    vram_cell wide = gradient_like(t, x, width);
    make(t, wide);
    make(t, g);
    drop(t, wide);
    return g;
}

static int widest(const vram_tape *t, vram_cell a, vram_cell b) { return vram_width(t, a) > vram_width(t, b) ? vram_width(t, a) : vram_width(t, b); }

/* Summing the rows of a matrix: partial sums of many thread blocks meet in a buffer. Blocks are 128 threads, `across` columns times
 * 4 a thread wide; a column is split when a thread would sum 256 rows or more, up to what fills 108 multiprocessors with 2048 threads
 * each. Source: aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig, global_memory_size) */
static void staging(vram_tape *t, vram_cell matrix, vram_cell sum)
{
    double columns = t->shape[t->cell[sum].shape].elements, rows = t->shape[t->cell[matrix].shape].elements / columns, across = 32;
    while (across > columns / 4) across /= 2;
    if (across < 1) return;
    double values = vram_ceil_div(rows, 128 / across), grid = vram_ceil_div(columns, 4 * across), full = 108 * 16;
    if (values < 256 || grid > full) return;
    double blocks = vram_max(vram_min(vram_ceil_div(full, grid), vram_ceil_div(values, 16)), vram_ceil_div(values, 256));
    vram_cell c = scratch(t, bytes_size(t, 4 * columns * blocks * 4 * across), 1, VRAM_WHAT_REDUCTION_BUFFER);
    make(t, c);
    drop(t, c);
}

/* ----------------------------------------------------------------------------------------------------- casts and views -- */

/* An operation on one tensor, whose gradient is one of its own, or (passes) the output's as it is */
enum { VIEWS = 1, PASSES = 2, SAVES_INPUT = 4 };
static vram_cell plain(vram_tape *t, vram_cell x, vram_size size, int width, vram_what what, int how)
{
    vram_tape_op *op = begin1(t, x);
    if (how & SAVES_INPUT) save(t, op, x);
    vram_cell y = how & VIEWS ? output_view(t, op, x, size, what) : output(t, op, size, width, what);
    backward(t, op);
    if (op->grad && (how & PASSES)) pass(t, 0);
    else if (op->grad) give(t, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
    return y;
}

vram_cell vram_op_cast(vram_tape *t, vram_cell x, int width, vram_what what)
{
    return vram_width(t, x) == width ? x : plain(t, x, t->cell[x].shape, width, what, 0);
}

/* Autocast keeps the cast of a trained fp32 parameter until the pass ends. */
static vram_cell autocast(vram_tape *t, vram_cell x, vram_what what)
{
    if (x < 0 || !t->autocast || vram_width(t, x) == 2) return x;
    vram_cell y = vram_op_cast(t, x, 2, what);
    if (t->cell[x].parameter || t->cell[x].tied) {
        t->cell[y].cached = t->keeps_casts && (t->cell[x].grad || t->caches);
        t->cell[y].component = VRAM_COMPONENT_WORKSPACE;
        t->cell[y].repeated = t->cell[x].repeated;
    }
    return y;
}

vram_cell vram_op_autocast(vram_tape *t, vram_cell weight) { return autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS); }

vram_cell vram_op_slice(vram_tape *t, vram_cell x, vram_size part, vram_what what) { return plain(t, x, part, vram_width(t, x), what, VIEWS); }

void vram_op_split(vram_tape *t, vram_cell x, int parts, const vram_size size[], vram_cell out[])
{
    vram_tape_op *op = begin1(t, x);
    for (int i = 0; i < parts; i++) out[i] = output_view(t, op, x, size[i], (vram_what)t->cell[x].what);
    backward(t, op);
    if (op->grad) give(t, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
}

vram_cell vram_op_transposed(vram_tape *t, vram_cell x) { return vram_op_slice(t, x, t->cell[x].shape, (vram_what)t->cell[x].what); }

vram_cell vram_op_copy(vram_tape *t, vram_cell x, vram_size size, vram_what what) { return plain(t, x, size, vram_width(t, x), what, PASSES); }

vram_cell vram_op_join_all(vram_tape *t, int ins, const vram_cell in[], vram_size out, vram_what what)
{
    vram_tape_op *op = begin(t, ins, in);
    int width = 0;
    for (int k = 0; k < ins; k++)
        if (in[k] >= 0 && vram_width(t, in[k]) > width) width = vram_width(t, in[k]);
    vram_cell y = output(t, op, out, width, what);
    backward(t, op);
    for (int k = 0; k < ins; k++)
        if (wants(t, op, k)) pass(t, k);
    end(t, op);
    return y;
}

vram_cell vram_op_join(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what) { return vram_op_join_all(t, 2, (const vram_cell[]){a, b}, out, what); }

/* Both parts copied into one empty tensor, b spread on the way. Backward, each copy clones the whole gradient and its part of it (CopySlices). */
vram_cell vram_op_join_copies(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_tape_op *op = begin2(t, a, b);
    vram_cell y = output(t, op, out, widest(t, a, b), what);
    backward(t, op);
    if (op->grad) {
        vram_cell clone = gradient_like(t, y, vram_width(t, y));
        make(t, clone);
        for (int k = 1; k >= 0; k--)
            if (wants(t, op, k)) give(t, k, make_gradient(t, op->in[k], vram_width(t, op->in[k])));
        drop(t, clone);
    }
    end(t, op);
    return y;
}

void vram_op_standing(vram_tape *t, vram_size size, int width)
{
    vram_tape_op *op = begin(t, 0, NULL);
    op->grad = op->root = true;
    backward(t, op);
    make(t, cell(t, size, width, VRAM_WHAT_ACTIVATION_GRADIENT));
    end(t, op);
}

/* What stands only where autograd saves: of a graph that nobody goes back through */
vram_cell vram_op_kept(vram_tape *t, vram_size size, int width, vram_what what)
{
    vram_tape_op *op = begin(t, 0, NULL);
    vram_cell y = cell(t, size, width, what);
    step(t, VRAM_STEP_MAKE_SAVED, 0, y);
    backward(t, op);
    end(t, op);
    return y;
}

/* ------------------------------------------------------------------------------------------------------ matrix products -- */

/* y = x w' (+ b). Saves x for the weight, the weight for x (a parameter, or autocast's copy of it). Without a bias the weight's gradient
 * comes first (mm: mat2, self), with one it comes second (addmm: mat1, mat2, self). The gradients of x and of the weight are views. */
static void linear_gradient(vram_tape *t, const vram_tape_op *op, int k)
{
    if (!wants(t, op, k)) return;
    vram_cell g = gradient_like(t, op->in[k], vram_width(t, op->in[k]));
    make(t, g);
    if (k < 2) workspace(t, t->workspace);
    else staging(t, op->out[0], g);
    step(t, k < 2 ? VRAM_STEP_GIVE_VIEW : VRAM_STEP_GIVE, k, g); /* the weight's is transposed */
}

vram_cell vram_op_linear(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what)
{
    vram_cell b = autocast(t, bias, VRAM_WHAT_AUTOCAST_WEIGHTS), w = autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS), in = autocast(t, x, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = begin3(t, in, w, b);
    op->spared = b < 0 ? VRAM_SPARED_SECOND : VRAM_SPARED_ALWAYS; /* aten.mm, aten.addmm */
    if (wants(t, op, 1)) save(t, op, in);
    if (wants(t, op, 0)) save(t, op, w);
    vram_cell y = output(t, op, out, vram_width(t, in), what);
    workspace(t, b < 0 ? t->workspace : t->biased_workspace);
    backward(t, op);
    linear_gradient(t, op, b < 0 ? 1 : 0);
    linear_gradient(t, op, b < 0 ? 0 : 1);
    linear_gradient(t, op, 2);
    end(t, op);
    return y;
}

/* The experts' products in one kernel, no workspace: torch.nn.functional.grouped_mm */
vram_cell vram_op_grouped(vram_tape *t, vram_cell x, vram_cell weight, vram_size out, vram_what what)
{
    vram_cell in = vram_op_cast(t, x, vram_width(t, weight), VRAM_WHAT_AUTOCAST_INPUT); /* autocast does not know the kernel */
    vram_tape_op *op = begin2(t, in, weight);
    if (wants(t, op, 1)) save(t, op, in);
    if (wants(t, op, 0)) save(t, op, weight);
    vram_cell y = output(t, op, out, vram_width(t, in), what);
    backward(t, op);
    for (int k = 1; k >= 0; k--)
        if (wants(t, op, k)) give(t, k, make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    end(t, op);
    return y;
}

/* Liger's experts: gather, product and gate in one kernel, which keeps gate and up; the product down and the weighing make the rest. Backward
 * makes the gradients of both matrices, frozen or not. All in the type of x. Source: liger_kernel/ops/fused_moe.py (LigerFusedMoEFunction) */
vram_cell vram_op_fused_experts(vram_tape *t, vram_cell x, vram_cell first, vram_cell second, vram_cell share, const vram_expert_sizes *sizes)
{
    const vram_cell in[4] = {x, first, second, share};
    vram_tape_op *op = begin(t, 4, in);
    int width = vram_width(t, x);
    vram_cell places[3];
    for (int i = 0; i < 4; i++) save(t, op, in[i]);
    for (int i = 0; i < 3; i++) make(t, places[i] = cell(t, sizes->places, 4, VRAM_WHAT_ROUTER_WEIGHTS));
    vram_cell both = cell(t, sizes->both, width, VRAM_WHAT_GATE_UP), product = cell(t, sizes->inner, width, VRAM_WHAT_GATED), each = cell(t, sizes->outer, width, VRAM_WHAT_EXPERT_OUTPUTS);
    make(t, both);
    make(t, product);
    make(t, each);
    vram_cell y = output(t, op, t->cell[x].shape, width, VRAM_WHAT_MLP_OUTPUT);
    drop(t, product);
    drop(t, each);
    save_output(t, op, both);
    for (int i = 0; i < 3; i++) save_output(t, op, places[i]);
    backward(t, op);
    if (op->grad) {
        vram_cell both_gradient = cell(t, sizes->both, width, VRAM_WHAT_ACTIVATION_GRADIENT), weighed = cell(t, sizes->inner, width, VRAM_WHAT_GATED), spread = cell(t, sizes->outer, width, VRAM_WHAT_ACTIVATION_GRADIENT);
        vram_cell g[4] = {gradient_like(t, x, width), gradient_like(t, first, vram_width(t, first)), gradient_like(t, second, vram_width(t, second)), gradient_like(t, share, vram_width(t, share))};
        for (int k = 1; k < 3; k++)
            if (!wants(t, op, k)) g[k] = scratch(t, t->cell[in[k]].shape, vram_width(t, in[k]), VRAM_WHAT_GRADIENT_SUM); /* of a frozen matrix */
        const vram_cell made[] = {both_gradient, weighed, g[3], g[2], spread, g[0], g[1]};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) make(t, made[i]);
        drop(t, spread);
        drop(t, weighed);
        drop(t, both_gradient);
        for (int k = 0; k < 4; k++)
            if (wants(t, op, k)) give(t, k, g[k]);
            else drop(t, g[k]);
    }
    end(t, op);
    return y;
}

/* bitsandbytes' MatMul4Bit: the weight is unpacked for the length of a product, and again for the gradient of x. Scales that are quantised
 * themselves are unpacked first, an fp32 number for 64 weights. Source: bitsandbytes/_ops.py (_dequant_linear_fallback) */
static int unpack(vram_tape *t, vram_size weight, bool double_quant, int times, vram_cell unpacked, vram_cell scales[2])
{
    int made = double_quant ? times : 0;
    for (int i = 0; i < made; i++) make(t, scales[i] = scratch(t, bytes_size(t, vram_ceil_div(t->shape[weight].elements, 64) * 4), 1, VRAM_WHAT_DEQUANTISED));
    make(t, unpacked);
    return made;
}

vram_cell vram_op_linear_4bit(vram_tape *t, vram_cell x, vram_size weight, bool double_quant, bool biased, vram_size out, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    op->spared = VRAM_SPARED_SECOND;
    vram_cell unpacked = scratch(t, weight, 2, VRAM_WHAT_DEQUANTISED), again = scratch(t, weight, 2, VRAM_WHAT_DEQUANTISED), scales[2];
    int made = unpack(t, weight, double_quant, 2, unpacked, scales);
    vram_cell y = output(t, op, out, vram_width(t, x), what);
    workspace(t, biased ? t->biased_workspace : t->workspace);
    while (made > 0) drop(t, scales[--made]);
    drop(t, unpacked);
    backward(t, op);
    if (op->grad) {
        for (made = unpack(t, weight, double_quant, 1, again, scales); made > 0;) drop(t, scales[--made]); /* gone before the product */
        vram_cell g = make_gradient(t, x, vram_width(t, x));
        workspace(t, t->workspace);
        drop(t, again);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

/* A batch of products of two tensors made on the way; the second input's gradient first. */
vram_cell vram_op_matmul(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_cell right = autocast(t, b, VRAM_WHAT_AUTOCAST_INPUT), left = autocast(t, a, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = begin2(t, left, right);
    op->spared = VRAM_SPARED_ALWAYS;
    if (wants(t, op, 1)) save(t, op, left);
    if (wants(t, op, 0)) save(t, op, right);
    vram_cell y = output(t, op, out, vram_width(t, left), what);
    workspace(t, t->workspace);
    backward(t, op);
    for (int k = 1; k >= 0; k--) {
        if (!wants(t, op, k)) continue;
        vram_cell g = gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        make(t, g);
        workspace(t, t->workspace);
        give(t, k, g);
    }
    end(t, op);
    return y;
}

/* -------------------------------------------------------------------------------------------------------- element by element -- */

vram_cell vram_op_add(vram_tape *t, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = begin2(t, a, b);
    int width = widest(t, a, b);
    vram_cell y = output(t, op, t->cell[a].shape, width, what);
    backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!wants(t, op, k)) continue;
        bool spread = t->cell[op->in[k]].parameter && t->cell[op->in[k]].shape != t->cell[y].shape;
        if (vram_width(t, op->in[k]) == width && !spread) { pass(t, k); continue; }
        vram_cell g = gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        make(t, g);
        give(t, k, g);
    }
    end(t, op);
    return y;
}

/* A sum that is written over a part of a: the whole gradient is cloned, that of b summed. */
vram_cell vram_op_add_in_place(vram_tape *t, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = begin2(t, a, b);
    bool whole = t->cell[a].shape == t->cell[b].shape;
    vram_cell y = output_view(t, op, a, t->cell[a].shape, what);
    backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!wants(t, op, k)) continue;
        if (whole) pass(t, k);
        else give(t, k, make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    }
    end(t, op);
    return y;
}

/* Gradients of a product, or of a sum, of tensors of several types and sizes: each is made as large and as wide as the result, the second first;
 * only then, the first first, are they summed and cast. */
static void spread_gradients(vram_tape *t, const vram_tape_op *op, vram_size size, int width, vram_cell rows)
{
    vram_cell whole[2] = {VRAM_NO_CELL, VRAM_NO_CELL}, g;
    for (int k = op->ins - 1; k >= 0; k--) {
        if (!wants(t, op, k)) continue;
        whole[k] = gradient_like(t, op->in[k], width);
        if (t->cell[op->in[k]].shape != size) whole[k] = gradient_like(t, rows, width);
        make(t, whole[k]);
    }
    step(t, VRAM_STEP_UNSAVE, 0, VRAM_NO_CELL);
    for (int k = 0; k < op->ins; k++) {
        if (whole[k] < 0) continue;
        bool sums = t->cell[op->in[k]].shape != size;
        if (!sums && vram_width(t, op->in[k]) == width) { give(t, k, whole[k]); continue; }
        make(t, g = gradient_like(t, op->in[k], vram_width(t, op->in[k])));
        if (sums && t->cell[op->in[k]].parameter) staging(t, rows, g);
        drop(t, whole[k]);
        give(t, k, g);
    }
}

static vram_cell multiplied(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what)
{
    vram_tape_op *op = begin2(t, a, b);
    int width = widest(t, a, b);
    if (wants(t, op, 1)) save(t, op, a);
    if (wants(t, op, 0)) save(t, op, b);
    vram_cell y = output(t, op, out, width, what);
    backward(t, op);
    if (op->grad) spread_gradients(t, op, out, width, y);
    end(t, op);
    return y;
}

vram_cell vram_op_mul(vram_tape *t, vram_cell a, vram_cell b, vram_what what) { return multiplied(t, a, b, t->cell[a].shape, what); }
vram_cell vram_op_mul_wide(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what) { return multiplied(t, a, b, out, what); }
vram_cell vram_op_mul_rows(vram_tape *t, vram_cell x, vram_cell rows, vram_what what) { return multiplied(t, x, rows, t->cell[x].shape, what); }
vram_cell vram_op_mul_weight(vram_tape *t, vram_cell weight, vram_cell x, vram_what what) { return multiplied(t, weight, x, t->cell[x].shape, what); }

vram_cell vram_op_constant(vram_tape *t, vram_cell x, int width, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    int wide = width > vram_width(t, x) ? width : vram_width(t, x);
    vram_cell y = output(t, op, t->cell[x].shape, wide, what);
    backward(t, op);
    if (op->grad) spread_gradients(t, op, t->cell[x].shape, wide, y);
    end(t, op);
    return y;
}

vram_cell vram_op_masked(vram_tape *t, vram_cell x, int width, vram_what what)
{
    return plain(t, x, t->cell[x].shape, width > vram_width(t, x) ? width : vram_width(t, x), what, width > vram_width(t, x) ? 0 : PASSES);
}

vram_cell vram_op_shift(vram_tape *t, vram_cell x, vram_what what) { return plain(t, x, t->cell[x].shape, vram_width(t, x), what, PASSES); }

vram_cell vram_op_gather(vram_tape *t, vram_cell x, vram_size out, vram_what what) { return plain(t, x, out, vram_width(t, x), what, 0); }

vram_cell vram_op_unary(vram_tape *t, vram_cell x, bool saves_input, bool saves_output, int temporaries, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    if (saves_input) save(t, op, x);
    vram_cell y = output(t, op, t->cell[x].shape, vram_width(t, x), what);
    if (saves_output) save_output(t, op, y);
    backward(t, op);
    if (op->grad) {
        vram_cell extra[4];
        for (int i = 0; i < temporaries; i++) make(t, extra[i] = gradient_like(t, x, vram_width(t, x)));
        vram_cell g = make_gradient(t, x, vram_width(t, x));
        for (int i = temporaries - 1; i >= 0; i--) drop(t, extra[i]);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

/* Saves the condition, a byte an element. */
vram_cell vram_op_where(vram_tape *t, vram_cell condition, vram_cell a, vram_cell b, vram_what what)
{
    vram_tape_op *op = begin3(t, a, b, condition);
    save(t, op, condition);
    vram_cell y = output(t, op, t->cell[a].shape, widest(t, a, b), what);
    backward(t, op);
    for (int k = 1; k >= 0; k--)
        if (wants(t, op, k)) give(t, k, make_gradient(t, op->in[k], vram_width(t, y)));
    end(t, op);
    return y;
}

/* x^2 : g * (2 * x^1), each a tensor */
vram_cell vram_op_square(vram_tape *t, vram_cell x) { return vram_op_unary(t, x, true, false, 2, VRAM_WHAT_NORM_SQUARES); }
vram_cell vram_op_rsqrt(vram_tape *t, vram_cell x) { return vram_op_unary(t, x, false, true, 2, VRAM_WHAT_NORM_STATISTICS); }

vram_cell vram_op_mean(vram_tape *t, vram_cell x, vram_size rows) { return plain(t, x, rows, vram_width(t, x), VRAM_WHAT_NORM_STATISTICS, 0); }

/* Saves x and two numbers a row in fp32. */
vram_cell vram_op_layer_norm(vram_tape *t, vram_cell input, vram_cell weight, vram_cell bias, vram_size rows, vram_what what)
{
    vram_cell x = t->autocast ? vram_op_cast(t, input, 4, VRAM_WHAT_NORM_INPUT) : input; /* autocast runs it in fp32 */
    vram_tape_op *op = begin3(t, x, weight, bias);
    save(t, op, x);
    vram_cell y = output(t, op, t->cell[x].shape, vram_width(t, x), what);
    vram_cell mean = cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS), deviation = cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS);
    make(t, mean);
    make(t, deviation);
    save_output(t, op, mean);
    save_output(t, op, deviation);
    backward(t, op);
    for (int k = 0; k < 3; k++)
        if (wants(t, op, k)) give(t, k, make_gradient(t, op->in[k], vram_width(t, op->in[k])));
    end(t, op);
    return y;
}

/* The result is what its gradient needs; g * y is made on the way. */
vram_cell vram_op_softmax(vram_tape *t, vram_cell x, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    vram_cell y = output(t, op, t->cell[x].shape, vram_width(t, x), what);
    save_output(t, op, y);
    backward(t, op);
    if (op->grad) {
        vram_cell g = make_gradient(t, x, vram_width(t, x)), product = gradient_like(t, x, vram_width(t, x));
        make(t, product);
        drop(t, product);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

/* A mask of one byte an element. */
vram_cell vram_op_dropout(vram_tape *t, vram_cell x, double p, vram_what what)
{
    if (p <= 0) return x;
    vram_tape_op *op = begin1(t, x);
    vram_cell mask = cell(t, t->cell[x].shape, 1, VRAM_WHAT_DROPOUT_MASK);
    make(t, mask);
    vram_cell y = output(t, op, t->cell[x].shape, vram_width(t, x), what);
    save_output(t, op, mask);
    backward(t, op);
    if (op->grad) give(t, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
    return y;
}

vram_cell vram_op_embedding(vram_tape *t, vram_cell weight, vram_size out, int width, vram_what what)
{
    vram_tape_op *op = begin1(t, weight);
    vram_cell y = output(t, op, out, width, what);
    backward(t, op);
    if (op->grad) step(t, VRAM_STEP_GIVE_VIEW, 0, make_gradient(t, weight, vram_width(t, weight))); /* never added into */
    end(t, op);
    return y;
}

/* -------------------------------------------------------------------------------------------------------- attention, loss -- */

/* What the attention kernels share: queries, keys and values as the kernel takes them are saved; the output, too, and one fp32 number a query and head. */
static vram_tape_op *begin_attention(vram_tape *t, vram_cell q, vram_cell k, vram_cell v)
{
    vram_cell v16 = autocast(t, v, VRAM_WHAT_AUTOCAST_INPUT), k16 = autocast(t, k, VRAM_WHAT_AUTOCAST_INPUT), q16 = autocast(t, q, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = begin3(t, q16, k16, v16);
    op->spared = VRAM_SPARED_ALWAYS;
    for (int i = 0; i < 3; i++) save(t, op, op->in[i]);
    return op;
}

static vram_cell attention_output(vram_tape *t, vram_tape_op *op, const vram_flash_sizes *sizes)
{
    vram_cell y = output(t, op, sizes->out, vram_width(t, op->in[0]), VRAM_WHAT_ATTENTION_OUTPUT);
    vram_cell statistics = cell(t, sizes->statistics, 4, VRAM_WHAT_ATTENTION_STATISTICS);
    make(t, statistics);
    save_output(t, op, y);
    save_output(t, op, statistics);
    backward(t, op);
    return y;
}

static void make_gradients(vram_tape *t, const vram_tape_op *op, vram_cell g[3])
{
    for (int i = 0; i < 3; i++) g[i] = make_gradient(t, op->in[i], vram_width(t, op->in[i]));
}

/* Scratch made from the `made`-th on, all of it dropped, and of the three gradients those that are wanted given */
static void give_attention(vram_tape *t, const vram_tape_op *op, const vram_cell g[3], int made, int extras, const vram_cell extra[])
{
    for (int i = made; i < extras; i++) make(t, extra[i]);
    for (int i = extras - 1; i >= 0; i--) drop(t, extra[i]);
    for (int i = 0; i < 3; i++)
        if (wants(t, op, i)) give(t, i, g[i]);
        else drop(t, g[i]);
}

/* flash_attn: saves q, k, v, the output and one fp32 number a query and head. Backward: delta as large as that, dq summed in fp32; with
 * grouped queries dk and dv of every query head, summed afterwards. Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp */
vram_cell vram_op_flash(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes)
{
    vram_tape_op *op = begin_attention(t, q, k, v);
    int width = vram_width(t, op->in[0]);
    vram_cell y = attention_output(t, op, sizes);
    if (op->grad) {
        vram_cell g[3], extra[5];
        int extras = 0;
        if (sizes->copied) make(t, extra[extras++] = scratch(t, sizes->out, width, VRAM_WHAT_ATTENTION_BACKWARD));
        make_gradients(t, op, g);
        extra[extras++] = scratch(t, sizes->delta, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        extra[extras++] = scratch(t, sizes->dq_sum, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        if (sizes->grouped) {
            extra[extras++] = scratch(t, sizes->dk_heads, vram_width(t, op->in[1]), VRAM_WHAT_ATTENTION_BACKWARD);
            extra[extras++] = scratch(t, sizes->dv_heads, vram_width(t, op->in[2]), VRAM_WHAT_ATTENTION_BACKWARD);
        }
        give_attention(t, op, g, sizes->copied, extras, extra);
    }
    end(t, op);
    return y;
}

/* Memory-efficient attention, for fp32 and for masks: the mask in the type of the queries is saved too. Backward sums dq in fp32.
 * Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu */
vram_cell vram_op_efficient(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes)
{
    vram_tape_op *op = begin_attention(t, q, k, v);
    int width = vram_width(t, op->in[0]);
    if (sizes->masked) {
        vram_cell mask = cell(t, sizes->mask, width, VRAM_WHAT_CAUSAL_MASK);
        make(t, mask);
        save_output(t, op, mask);
    }
    vram_cell y = attention_output(t, op, sizes);
    if (sizes->wide && width < 4) { /* does not fit into registers */
        vram_cell sum = scratch(t, sizes->out, 4, VRAM_WHAT_ATTENTION_OUTPUT);
        op->backward = (short)t->steps;
        make(t, sum);
        drop(t, sum);
        backward(t, op);
    }
    if (op->grad) {
        vram_cell g[3], extra[4];
        int extras = 0;
        make_gradients(t, op, g);
        if (sizes->grouped) {
            extra[extras++] = scratch(t, sizes->dk_heads, width, VRAM_WHAT_ATTENTION_BACKWARD);
            extra[extras++] = scratch(t, sizes->dv_heads, width, VRAM_WHAT_ATTENTION_BACKWARD);
        }
        extra[extras++] = scratch(t, sizes->delta, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        extra[extras++] = scratch(t, sizes->dq_sum, 4, VRAM_WHAT_ATTENTION_BACKWARD);
        give_attention(t, op, g, 0, extras, extra);
    }
    end(t, op);
    return y;
}

/* Saves x and one number a row. The gradient of x takes the place of that of the output; the weight's is summed by 108 multiprocessors apart.
 * Source: liger_kernel/ops/rms_norm.py */
vram_cell vram_op_fused_norm(vram_tape *t, vram_cell x, vram_cell weight, vram_size rows, bool in_place, vram_what what)
{
    vram_tape_op *op = begin2(t, x, weight);
    double width = t->shape[t->cell[weight].shape].elements;
    save(t, op, x);
    vram_cell y = output(t, op, t->cell[x].shape, vram_width(t, x), what), scale = cell(t, rows, 4, VRAM_WHAT_NORM_STATISTICS);
    make(t, scale);
    save_output(t, op, scale);
    backward(t, op);
    if (op->grad) {
        vram_cell parts = scratch(t, bytes_size(t, 108 * width * 4), 1, VRAM_WHAT_REDUCTION_BUFFER);
        make(t, parts);
        if (in_place && wants(t, op, 0)) step(t, VRAM_STEP_PASS_VIEW, 0, VRAM_NO_CELL);
        else if (wants(t, op, 0)) step(t, VRAM_STEP_GIVE_VIEW, 0, make_gradient(t, x, vram_width(t, x)));
        if (wants(t, op, 1)) give(t, 1, make_gradient(t, weight, vram_width(t, weight)));
        drop(t, parts);
    }
    end(t, op);
    return y;
}

/* act(gate) * up: saves both, and writes their gradients over them. Source: liger_kernel/ops/swiglu.py, geglu.py */
vram_cell vram_op_fused_gate(vram_tape *t, vram_cell gate, vram_cell up, vram_what what)
{
    vram_tape_op *op = begin2(t, gate, up);
    save(t, op, gate);
    save(t, op, up);
    vram_cell y = output(t, op, t->cell[gate].shape, vram_width(t, gate), what);
    backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!wants(t, op, k)) continue;
        vram_cell g = gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        drop(t, t->cell[op->in[k]].base);
        make(t, g);
        give(t, k, g);
    }
    end(t, op);
    return y;
}

vram_cell vram_op_in_place(vram_tape *t, vram_cell x, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    vram_cell y = output_view(t, op, x, t->cell[x].shape, what);
    backward(t, op);
    if (op->grad) pass(t, 0);
    end(t, op);
    return y;
}

/* log_softmax of fp32 logits is saved; backward makes the gradient of the picked words (zeros, all words), then that of the logits. */
vram_cell vram_op_cross_entropy(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = begin2(t, logits, labels);
    op->root = true;
    vram_cell y = output(t, op, t->cell[logits].shape, 4, VRAM_WHAT_LOG_PROBABILITIES);
    save(t, op, labels);
    save_output(t, op, y);
    op->outs = 0; /* what it returns is a number */
    backward(t, op);
    if (op->grad) {
        vram_cell picked = gradient_like(t, logits, 4), g = gradient_like(t, logits, 4);
        make(t, picked);
        make(t, g);
        drop(t, picked);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

/* loss_parallel writes the loss out: less the greatest of all ranks, exp for the sum, less its logarithm; backward (zeros less one + exp) * g.
 * Source: torch/distributed/tensor/parallel/loss.py (_log_softmax, _nll_loss_and_log_softmax_backward) */
void vram_op_cross_entropy_divided(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = begin2(t, logits, labels);
    op->root = true;
    vram_cell shifted = gradient_like(t, logits, 4), raised = gradient_like(t, logits, 4);
    make(t, shifted);
    make(t, raised);
    drop(t, raised);
    vram_cell y = output(t, op, t->cell[logits].shape, 4, VRAM_WHAT_LOG_PROBABILITIES);
    drop(t, shifted);
    save(t, op, labels);
    save_output(t, op, y);
    op->outs = 0;
    backward(t, op);
    if (op->grad) {
        vram_cell picked = gradient_like(t, logits, 4), power = gradient_like(t, logits, 4), sum = gradient_like(t, logits, 4), g = gradient_like(t, logits, 4);
        make(t, picked);
        make(t, power);
        make(t, sum);
        drop(t, power);
        make(t, g);
        drop(t, sum);
        drop(t, picked);
        give(t, 0, g);
    }
    end(t, op);
}

/* torch.compile makes of cast and loss a kernel each way: saved are the logits as they came and two numbers a row. */
void vram_op_cross_entropy_compiled(vram_tape *t, vram_cell logits, vram_cell labels, vram_size rows)
{
    vram_tape_op *op = begin2(t, logits, labels);
    op->root = true;
    save(t, op, logits);
    save(t, op, labels);
    for (int i = 0; i < 2; i++) {
        vram_cell statistics = cell(t, rows, 4, VRAM_WHAT_LABEL_STATISTICS);
        make(t, statistics);
        save_output(t, op, statistics);
    }
    backward(t, op);
    if (op->grad) give(t, 0, make_gradient(t, logits, vram_width(t, logits)));
    end(t, op);
}

/* ------------------------------------------------------------------------------------------------ state-space mixers -- */

/* The kernel wants its input in one piece: a copy for as long as it runs, in backward too. Saves x and the weight.
 * Source: aten/src/ATen/native/cuda/DepthwiseConv2d.cu */
vram_cell vram_op_convolution(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what)
{
    vram_cell b = autocast(t, bias, VRAM_WHAT_AUTOCAST_WEIGHTS), w = autocast(t, weight, VRAM_WHAT_AUTOCAST_WEIGHTS), in = autocast(t, x, VRAM_WHAT_AUTOCAST_INPUT);
    vram_tape_op *op = begin3(t, in, w, b);
    save(t, op, in);
    vram_cell copy = scratch(t, t->cell[in].shape, vram_width(t, in), what);
    make(t, copy);
    vram_cell y = output(t, op, out, vram_width(t, in), what);
    drop(t, copy);
    backward(t, op);
    if (op->grad) {
        vram_cell again = scratch(t, t->cell[in].shape, vram_width(t, in), what);
        make(t, again);
        for (int k = 0; k < 3; k++)
            if (wants(t, op, k)) give(t, k, make_gradient(t, op->in[k], vram_width(t, op->in[k])));
        drop(t, again);
    }
    end(t, op);
    return y;
}

/* torch.linalg.solve_triangular: saves the matrix and the solution. Backward solves with the right side's gradient, and multiplies for the
 * matrix's. Source: torch/csrc/autograd/FunctionsManual.cpp (linalg_solve_triangular_backward) */
vram_cell vram_op_solve(vram_tape *t, vram_cell matrix, vram_cell right, vram_what what)
{
    vram_tape_op *op = begin2(t, matrix, right);
    save(t, op, matrix);
    vram_cell y = output(t, op, t->cell[right].shape, vram_width(t, right), what);
    save_output(t, op, y);
    workspace(t, t->workspace);
    backward(t, op);
    if (op->grad) {
        vram_cell g = make_gradient(t, right, vram_width(t, right)), product = gradient_like(t, matrix, vram_width(t, matrix));
        workspace(t, t->workspace);
        make(t, product);
        vram_cell h = make_gradient(t, matrix, vram_width(t, matrix));
        drop(t, product);
        give(t, 0, h);
        give(t, 1, g);
    }
    end(t, op);
    return y;
}

static void save_turns(vram_tape *t, vram_tape_op *op, vram_size size, int width, vram_what what)
{
    vram_cell c = cell(t, size, width, what);
    step(t, VRAM_STEP_MAKE_SAVED, 0, c);
    save_output(t, op, c);
}

vram_cell vram_op_keeping(vram_tape *t, vram_cell x, vram_size kept, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    save_turns(t, op, kept, 4, what);
    vram_cell y = output_view(t, op, x, t->cell[x].shape, what);
    backward(t, op);
    if (op->grad) give(t, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
    return y;
}

/* For each chunk: v = fresh - kept S; y = query S + within v; S = S decay + key' v. Autograd saves S and v of every turn. Backward, a slice's
 * gradient is zeros of the whole tensor, filled and added to what the turns before it (the later chunks) gave. */
vram_cell vram_op_chunk_scan(vram_tape *t, vram_cell core, vram_cell state, int ins, const vram_cell in[], const vram_chunk_sizes *sizes, vram_what what)
{
    vram_tape_op *op = begin(t, ins, in);
    for (int i = 1; i < ins; i++) {
        if (sizes->apart) break;
        if (!sizes->casts) save(t, op, in[i]);
        else save_turns(t, op, t->cell[in[i]].shape, 2, what);
    }
    if (sizes->casts) save_turns(t, op, sizes->states, 4, what); /* two of 16 bit */
    vram_tape_hold(t, state);
    vram_tape_hold(t, core);
    save_turns(t, op, sizes->states, 4, what);
    if (sizes->parts_width > 0) save_turns(t, op, sizes->parts, sizes->parts_width, what);
    for (int i = 0; i < sizes->saves; i++) save_turns(t, op, sizes->save[i], 4, what);
    vram_cell turn[6];
    int temporaries = sizes->pairs ? 6 : 5;
    for (int i = 0; i < temporaries; i++) make(t, turn[i] = cell(t, i < 2 ? sizes->part : i < 5 ? sizes->state : sizes->wide, 4, what));
    workspace(t, t->workspace);
    for (int i = temporaries - 1; i >= 0; i--) drop(t, turn[i]);
    vram_cell y = output_view(t, op, core, t->cell[core].shape, what);
    backward(t, op);
    if (op->grad) {
        int largest = 0;
        for (int i = 1; i < ins; i++)
            if (t->cell[in[i]].bytes > t->cell[in[largest]].bytes) largest = i;
        int width = sizes->apart ? vram_width(t, core) : 4;
        vram_cell g[5], clone = gradient_like(t, core, width), slice = gradient_like(t, in[largest], width);
        for (int i = 0; i < ins; i++) g[i] = make_gradient(t, in[i], vram_width(t, in[i]));
        make(t, clone);
        make(t, slice);
        drop(t, slice);
        drop(t, clone);
        for (int i = 0; i < ins; i++)
            if (wants(t, op, i)) give(t, i, g[i]);
            else drop(t, g[i]);
    }
    end(t, op);
    return y;
}

vram_cell vram_op_block_scan(vram_tape *t, vram_cell qkv, vram_size out, vram_size pairs, vram_size rows, vram_size states, vram_what what)
{
    vram_tape_op *op = begin1(t, qkv);
    const vram_size kept[4] = {pairs, rows, rows, states};
    int width = vram_width(t, qkv);
    save(t, op, qkv);
    for (int i = 0; i < 4; i++) save_turns(t, op, kept[i], width, what);
    vram_cell list = cell(t, out, width, what);
    make(t, list);
    workspace(t, t->workspace);
    vram_cell y = output(t, op, out, width, what);
    drop(t, list);
    backward(t, op);
    if (op->grad) { /* of a slice, zeros of the whole; those of all three joined */
        vram_cell part[4];
        for (int i = 0; i < 4; i++) make(t, part[i] = gradient_like(t, y, width));
        drop(t, part[3]);
        vram_cell g = make_gradient(t, qkv, width);
        for (int i = 2; i >= 0; i--) drop(t, part[i]);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

/* ---------------------------------------------------------------------------------------------------------- Megatron -- */

static vram_cell sized(vram_tape *t, vram_size size, vram_cell like, vram_what what)
{
    vram_cell c = cell(t, size, vram_width(t, like), what);
    make(t, c);
    return c;
}

/* ColumnParallelLinear and RowParallelLinear with sequence parallelism: the input is gathered for the product and gathered anew in backward,
 * the output is scattered. Nothing is kept, and nothing gathered anew, for a frozen weight. Source: megatron/core/tensor_parallel/layers.py
 * (LinearWithGradAccumulationAndAsyncCommunication, LinearWithFrozenWeight). */
vram_cell vram_op_linear_parallel(vram_tape *t, vram_cell x, bool trained, vram_size gathered, vram_size partial, vram_size out, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    bool gathers = gathered != t->cell[x].shape, scatters = partial != out;
    if (trained) save(t, op, x);
    vram_cell whole = gathers ? sized(t, gathered, x, VRAM_WHAT_GATHERED_INPUT) : VRAM_NO_CELL, parts = scatters ? sized(t, partial, x, VRAM_WHAT_UNSCATTERED_OUTPUT) : VRAM_NO_CELL;
    workspace(t, t->workspace);
    vram_cell y = output(t, op, out, vram_width(t, x), what);
    if (scatters) drop(t, parts);
    if (gathers) drop(t, whole);
    backward(t, op);
    if (op->grad) {
        vram_cell above = scatters ? sized(t, partial, x, VRAM_WHAT_ACTIVATION_GRADIENT) : VRAM_NO_CELL;
        vram_cell again = gathers && trained ? sized(t, gathered, x, VRAM_WHAT_GATHERED_INPUT) : VRAM_NO_CELL, inner = gathers ? sized(t, gathered, x, VRAM_WHAT_ACTIVATION_GRADIENT) : VRAM_NO_CELL;
        vram_cell g = make_gradient(t, x, vram_width(t, x));
        workspace(t, t->workspace);
        if (gathers) drop(t, inner);
        if (gathers && trained) drop(t, again);
        if (scatters) drop(t, above);
        give(t, 0, g);
    }
    end(t, op);
    return y;
}

vram_cell vram_op_resized(vram_tape *t, vram_cell x, vram_size out, bool saves, vram_what what) { return plain(t, x, out, vram_width(t, x), what, saves ? SAVES_INPUT : 0); }

/* Source: megatron/core/tensor_parallel/cross_entropy.py: exp and division in place, the gradient in the same place */
vram_cell vram_op_cross_entropy_over(vram_tape *t, vram_cell logits, vram_cell labels)
{
    vram_tape_op *op = begin2(t, logits, labels);
    op->root = true;
    save(t, op, logits);
    save(t, op, labels);
    backward(t, op);
    if (op->grad) step(t, VRAM_STEP_GIVE_HELD, 0, t->cell[logits].base);
    end(t, op);
    return logits;
}

/* ----------------------------------------------------------------------------------------------- log-probabilities of labels -- */

/* x[mask]: the mask becomes two columns of indices, which are kept; the gradient is zeros of x's shape, filled at these places. */
vram_cell vram_op_pick(vram_tape *t, vram_cell x, vram_size index, vram_size out, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    vram_cell places = cell(t, index, 8, VRAM_WHAT_LABEL_PLACES);
    make(t, places);
    save_output(t, op, places);
    vram_cell y = output(t, op, out, vram_width(t, x), what);
    backward(t, op);
    if (op->grad) give(t, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
    return y;
}

static vram_cell tile(vram_tape *t, vram_size size, int width)
{
    vram_cell c = scratch(t, size, width, VRAM_WHAT_LOGITS_TILE);
    t->cell[c].component = VRAM_COMPONENT_LOGITS;
    make(t, c);
    return c;
}

/* Casts of a tile's rows and of its words, where the inputs are wider than the compute type */
static int tile_casts(vram_tape *t, const vram_tape_op *op, const vram_tile_sizes *sizes, int width, vram_cell casts[])
{
    int n = 0;
    if (vram_width(t, op->in[0]) > width) make(t, casts[n++] = scratch(t, sizes->tile_rows, width, VRAM_WHAT_AUTOCAST_INPUT));
    if (vram_width(t, op->in[1]) > width) make(t, casts[n++] = scratch(t, sizes->tile_weight, width, VRAM_WHAT_AUTOCAST_WEIGHTS));
    return n;
}

static void tile_product(vram_tape *t, const vram_tape_op *op, const vram_tile_sizes *sizes, int width)
{
    vram_cell casts[2];
    int n = tile_casts(t, op, sizes, width, casts);
    workspace(t, t->workspace);
    while (n > 0) drop(t, casts[--n]);
}

/* TRL's ChunkedLogProbFunction: tiles of 4096 positions by 32,768 words, seven statistics a position in fp32. Backward makes the tiles again;
 * gradients are summed in fp32, and turned into the inputs' types when all tiles are done. Source: trl/kernels/chunked_logprob.py */
void vram_op_tiled(vram_tape *t, vram_cell x, vram_cell weight, const vram_tile_sizes *sizes)
{
    int width = t->autocast ? 2 : vram_width(t, x);
    vram_tape_op *op = begin2(t, x, weight);
    op->root = true;
    save(t, op, x);
    vram_cell statistics[7];
    for (int i = 0; i < 7; i++) make(t, statistics[i] = cell(t, sizes->rows, 4, VRAM_WHAT_LABEL_STATISTICS));
    vram_cell forward_tile = tile(t, sizes->tile, width);
    tile_product(t, op, sizes, width);
    drop(t, forward_tile);
    for (int i = 3; i < 7; i++) drop(t, statistics[i]);
    for (int i = 0; i < 3; i++)
        if (op->grad) save_output(t, op, statistics[i]);
        else t->cell[statistics[i]].last_use = (short)(t->ops - 1);
    backward(t, op);
    if (op->grad) {
        vram_cell sums[2];
        for (int k = 0; k < 2; k++)
            if (wants(t, op, k)) {
                sums[k] = gradient_like(t, op->in[k], 4);
                if (t->cell[op->in[k]].parameter && vram_width(t, op->in[k]) < 4) {
                    t->cell[sums[k]].component = VRAM_COMPONENT_WORKSPACE;
                    t->cell[sums[k]].what = VRAM_WHAT_GRADIENT_SUM;
                }
                make(t, sums[k]);
            }
        vram_cell backward_tile = tile(t, sizes->tile, width);
        tile_product(t, op, sizes, width);
        vram_cell given[2];
        for (int k = 0; k < 2; k++) {
            if (!wants(t, op, k)) continue;
            given[k] = sums[k];
            if (vram_width(t, op->in[k]) < 4) make(t, given[k] = gradient_like(t, op->in[k], vram_width(t, op->in[k])));
        }
        drop(t, backward_tile);
        for (int k = 0; k < 2; k++) {
            if (!wants(t, op, k)) continue;
            if (given[k] != sums[k]) drop(t, sums[k]);
            give(t, k, given[k]);
        }
    }
    end(t, op);
}

/* A product of chunks under autocast casts its part of the rows and the whole weight: turned over for the logits, a view that is cast for each
 * chunk; as it is for the gradient of the rows, and kept. For the gradient of the weight the rows are cast once more, while
 * fp32 logits have that gradient made beside the sum. */
static void fused_loss_chunk(vram_tape *t, const vram_tape_op *op, vram_size chunk_rows, int width, bool several)
{
    bool casts = vram_width(t, op->in[1]) > width, rows_cast = vram_width(t, op->in[0]) > width;
    vram_cell turned = scratch(t, t->cell[op->in[1]].shape, width, VRAM_WHAT_AUTOCAST_WEIGHTS), kept = scratch(t, t->cell[op->in[1]].shape, width, VRAM_WHAT_AUTOCAST_WEIGHTS), rows = scratch(t, chunk_rows, width, VRAM_WHAT_AUTOCAST_INPUT);
    t->cell[kept].cached = t->cell[op->in[1]].grad;
    if (casts && several) make(t, kept); /* of the chunk before */
    if (casts) make(t, turned);
    if (rows_cast) make(t, rows);
    workspace(t, t->workspace);
    if (rows_cast) drop(t, rows);
    if (casts) drop(t, turned);
    if (casts && !several) make(t, kept);
    make(t, rows);
    workspace(t, t->workspace);
    drop(t, rows);
    if (casts && !t->cell[kept].cached) drop(t, kept);
    if (!wants(t, op, 1)) return;
    vram_cell beside = width == 4 ? scratch(t, t->cell[op->in[1]].shape, 4, VRAM_WHAT_GRADIENT_SUM) : rows;
    bool made = width == 4 || rows_cast;
    if (made) make(t, beside);
    workspace(t, t->workspace);
    if (made) drop(t, beside);
}

/* Liger's fused linear cross entropy: a chunk's logits become their own gradient; the gradients of x and of the weight are made in the forward
 * pass and handed out in backward. Source: liger_kernel/ops/fused_linear_cross_entropy.py */
void vram_op_fused_loss(vram_tape *t, vram_cell x, vram_cell weight, vram_size chunk, vram_size chunk_rows, vram_size rows)
{
    vram_tape_op *op = begin2(t, x, weight);
    int width = t->autocast ? 2 : vram_width(t, x);
    vram_cell early[2] = {VRAM_NO_CELL, VRAM_NO_CELL};
    op->root = true;
    for (int k = 0; k < 2; k++) {
        if (k == 1 && !wants(t, op, 1)) continue;
        early[k] = scratch(t, t->cell[op->in[k]].shape, vram_width(t, op->in[k]), k == 0 ? VRAM_WHAT_ACTIVATION_GRADIENT : VRAM_WHAT_GRADIENT_SUM);
        make(t, early[k]);
        save_output(t, op, early[k]);
    }
    vram_cell losses = cell(t, rows, 4, VRAM_WHAT_LABEL_STATISTICS);
    make(t, losses);
    vram_cell logits = tile(t, chunk, width);
    fused_loss_chunk(t, op, chunk_rows, width, t->shape[chunk_rows].elements < t->shape[t->cell[x].shape].elements);
    drop(t, logits);
    backward(t, op);
    for (int k = 0; k < 2; k++) {
        if (!wants(t, op, k)) continue;
        vram_cell g = gradient_like(t, op->in[k], vram_width(t, op->in[k]));
        drop(t, early[k]); /* the same tensor, now a gradient */
        make(t, g);
        give(t, k, g);
    }
    end(t, op);
}

/* A part of x is divided in place. Backward (CopySlices): the whole gradient is copied, the part cloned and divided, and put back. */
vram_cell vram_op_scale_part(vram_tape *t, vram_cell x, vram_size part, vram_what what)
{
    vram_tape_op *op = begin1(t, x);
    vram_cell y = output_view(t, op, x, t->cell[x].shape, what);
    t->cell[y].component = t->cell[x].component;
    backward(t, op);
    if (op->grad) {
        vram_cell whole = gradient_like(t, x, vram_width(t, x)), clone = cell(t, part, vram_width(t, x), VRAM_WHAT_ACTIVATION_GRADIENT);
        vram_cell divided = cell(t, part, vram_width(t, x), VRAM_WHAT_ACTIVATION_GRADIENT);
        t->cell[clone].component = t->cell[divided].component = t->cell[x].component;
        make(t, whole);
        make(t, clone);
        make(t, divided);
        drop(t, divided);
        drop(t, clone);
        give(t, 0, whole);
    }
    end(t, op);
    return y;
}

/* fp32: the label's logit less logsumexp, row by row; a row's gradient is made in three tensors. 16 bit: log_softmax of each row, kept. */
static vram_cell rows_apart(vram_tape *t, vram_cell x)
{
    vram_tape_op *op = begin1(t, x);
    vram_cell y = output_view(t, op, x, t->cell[x].shape, (vram_what)t->cell[x].what);
    t->cell[y].component = t->cell[x].component;
    backward(t, op);
    if (op->grad) step(t, VRAM_STEP_GIVE_VIEW, 0, make_gradient(t, x, vram_width(t, x)));
    end(t, op);
    return y;
}

void vram_op_log_probabilities(vram_tape *t, vram_cell logits, vram_size row, vram_size labels)
{
    bool narrow = vram_width(t, logits) < 4;
    int width = vram_width(t, logits);
    if (!narrow) {
        vram_tape_op *gather = begin1(t, logits);
        gather->root = true;
        make(t, cell(t, labels, 4, VRAM_WHAT_LOG_PROBABILITIES));
        backward(t, gather);
        if (gather->grad) step(t, VRAM_STEP_GIVE_VIEW, 0, make_gradient(t, logits, width)); /* as seen: the two gradients of logits are added into a third */
        end(t, gather);
    }
    vram_cell rows = rows_apart(t, logits);
    vram_tape_op *op = begin1(t, rows);
    op->root = true;
    if (narrow) { /* F.log_softmax of each row is what its gradient needs */
        vram_cell y = cell(t, t->cell[rows].shape, width, VRAM_WHAT_LOG_PROBABILITIES);
        t->cell[y].component = VRAM_COMPONENT_LOGITS;
        make(t, y);
        if (op->grad) save_output(t, op, y);
        else t->cell[y].last_use = (short)(t->ops - 1);
        backward(t, op);
        if (op->grad) { /* row after row takes the place of what was kept for it */
            vram_cell g = gradient_like(t, rows, width);
            drop(t, y);
            make(t, g);
            give(t, 0, g);
        }
        end(t, op);
        return;
    }
    save(t, op, rows);
    vram_cell exponentials = cell(t, row, width, VRAM_WHAT_LOG_PROBABILITIES);
    t->cell[exponentials].component = VRAM_COMPONENT_LOGITS;
    make(t, exponentials);
    drop(t, exponentials);
    backward(t, op);
    if (op->grad) {
        vram_cell g = gradient_like(t, rows, width), less = cell(t, row, width, VRAM_WHAT_ACTIVATION_GRADIENT), power = cell(t, row, width, VRAM_WHAT_ACTIVATION_GRADIENT);
        t->cell[less].component = t->cell[power].component = VRAM_COMPONENT_LOGITS;
        make(t, g);
        make(t, less);
        make(t, power);
        drop(t, power);
        drop(t, less);
        give(t, 0, g);
    }
    end(t, op);
}
