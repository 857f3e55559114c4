/* megatron.c -- a layer, the embedding and the head as Megatron Core runs them: divided over t ranks of tensor parallelism, sequences over
 * ranks of context parallelism; with sequence parallelism what stands between the divided products is divided, too.
 *
 * Saved of a layer, in 16 bit (s b h each): norm's input 2, its output (the product's input) 2, q k v 6/t, softmax and its dropout 5 a s / h / t,
 * attention's output 2/t, dropout's mask 1, and for the MLP 2 + 2 + 8/t + 8/t + 1: Korthikanti et al. 2022 (arXiv 2205.05198), table 2.
 * With LoRA what is frozen keeps nothing; each adapter keeps its own input, gathered, and its low-rank middle.
 * Source: megatron/core/transformer (transformer_layer.py, attention.py, dot_product_attention.py, mlp.py, moe/), tensor_parallel/; for LoRA
 * Megatron-Bridge (src/megatron/bridge/peft/utils.py, ParallelLinearAdapter). */
#include "block.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    const vram_pass *pass;
    vram_tape *t;
    const vram_layer *layer;
    int kind;
    double batch, tokens, ranks; /* tokens of this rank of context parallelism */
    vram_size stream, full;    /* s b h between the products (divided with sequence parallelism), and gathered */
    vram_size rows;
} mega;

#define SIZE(m, ...) vram_tape_size((m)->t, (int)(sizeof(((const vram_factor[]){__VA_ARGS__})) / sizeof(vram_factor)), (const vram_factor[]){__VA_ARGS__})
#define TOKENS(m) {VRAM_SYMBOL_MICRO_BATCH, (m)->batch}, {VRAM_SYMBOL_SEQUENCE, (m)->tokens}

static mega begin(const vram_pass *pass, vram_tape *t, int kind)
{
    const vram_scenario *s = pass->scenario;
    vram_tape_clear(t, false, 0); /* the workspaces are kept: vram_megatron_shared() */
    mega m = {.pass = pass, .t = t, .layer = kind < 0 ? NULL : &pass->model->kind[kind], .kind = kind, .batch = pass->batch, .tokens = pass->tokens, .ranks = (double)s->parallel.tensor};
    m.full = SIZE(&m, TOKENS(&m), {VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden});
    bool divided = s->parallel.sequence && m.ranks > 1;
    vram_factor part = {VRAM_SYMBOL_SEQUENCE, vram_stream_tokens(pass)}, batch = {VRAM_SYMBOL_MICRO_BATCH, m.batch};
    m.stream = divided ? SIZE(&m, batch, part, {VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden}) : m.full;
    m.rows = SIZE(&m, batch, part);
    return m;
}

static void finish(mega *m, vram_cell y)
{
    m->t->output = y;
    if (y >= 0) m->t->cell[m->t->cell[y].base].last_use = -1; /* the next piece holds it */
}

static vram_size wide(const mega *m, vram_symbol symbol, double width) { return SIZE(m, TOKENS(m), {symbol, width}); }

static vram_cell norm(const mega *m, vram_cell x)
{
    vram_cell weight = vram_tape_parameter(m->t, SIZE(m, {VRAM_SYMBOL_WIDTH, (double)m->pass->model->hidden}), 2, !m->pass->lora);
    return vram_op_layer_norm(m->t, x, weight, VRAM_NO_CELL, m->rows, VRAM_WHAT_NORM_OUTPUT);
}

/* ---------------------------------------------------------------------------------------------------------------- LoRA -- */

/* The matrix that leads back to the hidden width, after which the ranks' parts are summed */
static bool leads_back(const vram_model *model, const vram_tensor *t)
{
    return t->shard == VRAM_SHARD_COLUMNS || (t->shard == VRAM_SHARD_EXPERTS && t->rows == model->hidden && t->columns != model->hidden);
}

/* Ranks of the adapters beside the matrices of one product, all together: query, key and value are one, gate and up are one. */
static double adapter_rank(const mega *m, vram_part part, bool back)
{
    const vram_model *model = m->pass->model;
    double sum = 0;
    for (int i = 0; m->pass->lora && i < model->tensors; i++) {
        const vram_tensor *t = &model->tensor[i];
        if (t->kind == m->kind && t->part == part && !t->bias && t->columns > 1 && leads_back(model, t) == back) sum += vram_lora_rank(m->pass->scenario, model, t);
    }
    return sum;
}

/* B A x, scaled; B's output is whole on every rank (gathered) before it is scattered to the stream's tokens */
static vram_cell adapter(const mega *m, vram_cell x, vram_size low, vram_size partial, vram_size out)
{
    vram_tape *t = m->t;
    vram_cell in = vram_op_dropout(t, x, m->pass->gradients ? m->pass->scenario->lora.dropout : 0, VRAM_WHAT_LORA_INPUT);
    vram_cell up = vram_op_resized(t, vram_op_resized(t, in, low, true, VRAM_WHAT_LORA_DOWN), partial, true, VRAM_WHAT_LORA_UP);
    if (partial != out) up = vram_op_resized(t, up, out, false, VRAM_WHAT_LORA_UP);
    return vram_op_constant(t, up, vram_width(t, up), VRAM_WHAT_LORA_UP);
}

/* A product with divided matrices, trained or with an adapter beside them, which shares the gathered input; of `copies` of the tokens */
static vram_cell product(const mega *m, vram_cell x, vram_part part, bool back, double copies, vram_size gathered, vram_size partial, vram_size out, vram_what what)
{
    vram_tape *t = m->t;
    double rank = adapter_rank(m, part, back);
    if (rank <= 0) return vram_op_linear_parallel(t, x, !m->pass->lora, gathered, partial, out, what);
    vram_size low = SIZE(m, {VRAM_SYMBOL_MICRO_BATCH, m->batch * copies}, {VRAM_SYMBOL_SEQUENCE, m->tokens}, {VRAM_SYMBOL_RANK, rank});
    vram_cell whole = gathered == t->cell[x].shape ? x : vram_op_resized(t, x, gathered, false, VRAM_WHAT_GATHERED_INPUT);
    vram_cell base = vram_op_linear_parallel(t, whole, false, gathered, partial, out, what);
    vram_cell y = vram_op_add(t, base, adapter(m, whole, low, partial, out), what);
    vram_tape_hold(t, base);
    vram_tape_hold(t, whole);
    return y;
}

static double dropout(const mega *m, double of_config) { return m->pass->scenario->training.dropout >= 0 ? m->pass->scenario->training.dropout : of_config; }

/* The layer's sum: dropout, then the stream added (bias_dropout_add) */
static vram_cell add(const mega *m, vram_cell stream, vram_cell x)
{
    vram_cell dropped = vram_op_dropout(m->t, x, dropout(m, m->pass->model->resid_dropout), VRAM_WHAT_HIDDEN_STATES);
    return vram_op_add(m->t, stream, dropped, VRAM_WHAT_HIDDEN_STATES);
}

static vram_cell attention(const mega *m, vram_cell x)
{
    const vram_attention *a = &m->layer->attention;
    vram_tape *t = m->t;
    double heads = vram_ceil_div((double)a->heads, m->ranks), kv = vram_kv_heads_on_rank((double)a->kv_heads, m->ranks), d = (double)a->head_dim, s = m->tokens;
    double all = s * (double)m->pass->scenario->parallel.context; /* keys of the other ranks pass by, one rank's at a time */
    vram_size q_size = SIZE(m, TOKENS(m), {VRAM_SYMBOL_HEADS, heads}, {VRAM_SYMBOL_HEAD_DIM, d}), kv_size = SIZE(m, TOKENS(m), {VRAM_SYMBOL_KV_HEADS, kv}, {VRAM_SYMBOL_HEAD_DIM, d});
    vram_size parts[3] = {q_size, kv_size, kv_size}, fused = wide(m, VRAM_SYMBOL_WIDTH, (heads + 2 * kv) * d);
    vram_cell qkv[3], mixed = product(m, x, VRAM_PART_ATTENTION, false, 1, m->full, fused, fused, VRAM_WHAT_QUERY);
    vram_op_split(t, mixed, 3, parts, qkv);
    vram_cell y;
    if (m->pass->scenario->training.attention == VRAM_ATTENTION_EAGER && m->pass->scenario->training.checkpointing != VRAM_CHECKPOINTING_SELECTIVE) {
        vram_size scores = SIZE(m, {VRAM_SYMBOL_MICRO_BATCH, m->batch}, {VRAM_SYMBOL_HEADS, heads}, {VRAM_SYMBOL_SEQUENCE, s}, {VRAM_SYMBOL_KEYS, all});
        vram_cell keys = kv != heads ? vram_op_repeat(t, qkv[1], q_size, VRAM_WHAT_REPEATED_KEYS) : qkv[1], values = kv != heads ? vram_op_repeat(t, qkv[2], q_size, VRAM_WHAT_REPEATED_VALUES) : qkv[2];
        vram_cell probabilities = vram_op_softmax(t, vram_op_matmul(t, qkv[0], keys, scores, VRAM_WHAT_ATTENTION_SCORES), VRAM_WHAT_ATTENTION_PROBABILITIES);
        vram_cell dropped = vram_op_dropout(t, probabilities, dropout(m, m->pass->model->attention_dropout), VRAM_WHAT_ATTENTION_PROBABILITIES);
        y = vram_op_copy(t, vram_op_matmul(t, dropped, values, q_size, VRAM_WHAT_ATTENTION_OUTPUT), q_size, VRAM_WHAT_ATTENTION_OUTPUT);
    } else {
        vram_flash_sizes sizes = {.grouped = kv != heads, .out = q_size, .dk_heads = q_size, .dv_heads = q_size, .dq_sum = q_size};
        sizes.statistics = sizes.delta = SIZE(m, TOKENS(m), {VRAM_SYMBOL_HEADS, heads});
        y = vram_op_flash(t, qkv[0], qkv[1], qkv[2], &sizes);
    }
    return product(m, y, VRAM_PART_ATTENTION, true, 1, t->cell[y].shape, m->full, m->stream, VRAM_WHAT_ATTENTION_PROJECTION);
}

/* fc1, the activation (one kernel with the gate), fc2; of `copies` of the tokens, over so many ranks. An expert's activation is weighted by the
 * router before fc2: in the same kernel with a gate, else in one of its own, which keeps its input (moe/experts.py, TEGroupedMLP.bias_act_func). */
static vram_cell mlp(const mega *m, vram_cell x, vram_part part, double width, double ranks, double copies, vram_size gathered, vram_size out)
{
    double f = vram_ceil_div(width, ranks), gate = m->layer->ffn.type == VRAM_FFN_GATED ? 2 : 1;
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, m->batch * copies}, sequence = {VRAM_SYMBOL_SEQUENCE, m->tokens};
    vram_size wide_size = SIZE(m, batch, sequence, {VRAM_SYMBOL_INTERMEDIATE, gate * f}), inner = SIZE(m, batch, sequence, {VRAM_SYMBOL_INTERMEDIATE, f});
    vram_cell up = product(m, x, part, false, copies, gathered, wide_size, wide_size, VRAM_WHAT_UP);
    vram_cell active = vram_op_resized(m->t, up, inner, true, VRAM_WHAT_ACTIVATION);
    if (part == VRAM_PART_EXPERT && gate < 2) active = vram_op_resized(m->t, active, inner, true, VRAM_WHAT_ACTIVATION);
    return product(m, active, part, true, copies, inner, gathered, out, VRAM_WHAT_MLP_OUTPUT);
}

/* Tokens are copied for each of their experts, go through them, and are summed: by places alone, nothing is kept for it (moe_utils.py, unpermute). An expert's own ranks are fewer than
 * the layer's when expert_tensor is less: then each gets as much less of the tokens. */
static vram_cell experts(const mega *m, vram_cell x)
{
    const vram_ffn *f = &m->layer->ffn;
    double ranks = vram_expert_tensor(m->pass->scenario), k = (double)f->experts_per_token * vram_expert_tokens(m->pass->scenario);
    vram_size chosen = SIZE(m, {VRAM_SYMBOL_MICRO_BATCH, m->batch}, {VRAM_SYMBOL_SEQUENCE, m->tokens}, {VRAM_SYMBOL_EXPERTS_PER_TOKEN, k}, {VRAM_SYMBOL_HIDDEN, (double)m->pass->model->hidden});
    vram_cell router = vram_op_cast(m->t, vram_op_resized(m->t, x, wide(m, VRAM_SYMBOL_EXPERTS, (double)f->experts), !m->pass->lora || adapter_rank(m, VRAM_PART_ROUTER, false) > 0, VRAM_WHAT_EXPERT_ORDER), 4, VRAM_WHAT_EXPERT_ORDER);
    vram_cell weights = vram_op_softmax(m->t, router, VRAM_WHAT_EXPERT_ORDER);
    vram_cell permuted = vram_op_resized(m->t, x, chosen, false, VRAM_WHAT_EXPERT_ACTIVATIONS);
    vram_cell y = vram_op_resized(m->t, mlp(m, permuted, VRAM_PART_EXPERT, (double)f->expert_width, ranks, k, chosen, chosen), m->stream, false, VRAM_WHAT_MLP_OUTPUT);
    if (f->shared_width > 0) y = vram_op_add(m->t, y, mlp(m, x, VRAM_PART_SHARED_EXPERT, (double)f->shared_width, m->ranks, 1, m->full, m->stream), VRAM_WHAT_MLP_OUTPUT);
    vram_tape_hold(m->t, weights);
    return y;
}

void vram_megatron_embedding(const vram_pass *pass, vram_tape *t)
{
    mega m = begin(pass, t, -1);
    vram_cell table = vram_tape_parameter(t, SIZE(&m, {VRAM_SYMBOL_VOCABULARY, vram_words_on_rank(pass)}, {VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden}), pass->plain_width, pass->gradients && !pass->lora);
    vram_cell y = vram_op_embedding(t, table, 0, m.stream, pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    finish(&m, vram_op_dropout(t, y, dropout(&m, pass->model->embedding_dropout), VRAM_WHAT_HIDDEN_STATES));
}

void vram_megatron_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *t)
{
    mega m = begin(pass, t, kind);
    vram_cell x = vram_tape_input(t, m.stream, 2, VRAM_WHAT_HIDDEN_STATES, input_gradient);
    vram_cell middle = add(&m, x, attention(&m, norm(&m, x)));
    vram_cell second = norm(&m, middle);
    vram_cell out = m.layer->ffn.experts > 0 ? experts(&m, second) : mlp(&m, second, VRAM_PART_MLP, (double)m.layer->ffn.width, m.ranks, 1, m.full, m.stream);
    finish(&m, add(&m, middle, out));
}

void vram_megatron_head(const vram_pass *pass, vram_tape *t)
{
    mega m = begin(pass, t, -1);
    vram_cell x = vram_tape_input(t, m.stream, 2, VRAM_WHAT_HIDDEN_STATES, pass->gradients);
    vram_size words = wide(&m, VRAM_SYMBOL_VOCABULARY, vram_words_on_rank(pass));
    vram_cell logits = vram_op_linear_parallel(t, norm(&m, x), !pass->lora, m.full, words, words, VRAM_WHAT_LOGITS);
    t->cell[logits].component = VRAM_COMPONENT_LOGITS;
    vram_tape_mark(t);
    vram_cell labels = vram_tape_outside(t, m.rows, 8, VRAM_WHAT_LABELS);
    vram_cell wide_logits = vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    t->cell[wide_logits].component = VRAM_COMPONENT_LOGITS;
    vram_op_cross_entropy_over(t, wide_logits, labels);
    vram_tape_hold(t, logits);
    finish(&m, VRAM_NO_CELL);
}

/* What its data loader sends beside the tokens: labels, positions, the loss's mask, and for attention written out a mask of a byte for each query and
 * key of every sequence. Source: megatron/core/utils.py, get_batch_on_this_tp_rank. The mask is made by default, but recipes with a fused kernel, which
 * does not read it, leave it out (examples/llama, examples/gptoss: --no-create-attention-mask-in-dataloader). */
static void add_batch(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report)
{
    double tokens = pass->tokens, keys = tokens * (double)pass->scenario->parallel.context;
    vram_entry *labels = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_LABELS, VRAM_MODELLED, VRAM_SOURCE_MEGATRON, phases);
    vram_times(vram_times(vram_times(labels, VRAM_SYMBOL_MICRO_BATCH, pass->batch), VRAM_SYMBOL_SEQUENCE, tokens), VRAM_SYMBOL_BYTES, (pass->stage->embedding ? 8 : 0) + (pass->stage->head ? 8 + 4 : 0));
    if (pass->scenario->training.attention != VRAM_ATTENTION_EAGER) return;
    vram_entry *mask = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_CAUSAL_MASK, VRAM_MODELLED, VRAM_SOURCE_MEGATRON, phases);
    vram_times(vram_times(vram_times(mask, VRAM_SYMBOL_MICRO_BATCH, pass->batch), VRAM_SYMBOL_SEQUENCE, tokens), VRAM_SYMBOL_KEYS, keys);
}

/* cuBLAS's workspaces, one for forward and one for autograd's thread, kept from the first product on by the PyTorch that Megatron's logs are
 * from. Source: aten/src/ATen/cuda/CublasHandlePool.cpp (parseChosenWorkspaceSize: 32 MiB on Hopper, else 2 x 4 MiB + 8 x 16 KiB). Attention
 * written out is taken where runs have to be repeatable to the bit, and these set CUBLAS_WORKSPACE_CONFIG=:4096:8, 8 x 4 MiB on any card
 * (docs/user-guide/deterministic-training.md). And Transformer Engine's own (transformer_engine/pytorch/module/base.py,
 * get_cublas_workspace_size_bytes: 32 MiB on Hopper, else 4 MiB). */
void vram_megatron_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report)
{
    add_batch(pass, role, phases, report);
    if (!pass->gradients || role == VRAM_ROLE_CRITIC) return; /* they are the process's: counted with the model that always is trained */
    bool hopper = pass->scenario->gpu.compute_capability >= 9, repeatable = pass->scenario->training.attention == VRAM_ATTENTION_EAGER;
    vram_entry *e = vram_add(report, role, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_CUBLAS_WORKSPACE, VRAM_MODELLED, VRAM_SOURCE_MEGATRON, report->phases);
    vram_times(vram_times(e, VRAM_SYMBOL_COPIES, 2), VRAM_SYMBOL_BYTES, hopper || repeatable ? 33554432 : 8519680);
    vram_entry *engine = vram_add(report, role, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_CUBLAS_WORKSPACE, VRAM_MODELLED, VRAM_SOURCE_MEGATRON, report->phases);
    vram_times(engine, VRAM_SYMBOL_BYTES, hopper ? 33554432 : 4194304);
}
