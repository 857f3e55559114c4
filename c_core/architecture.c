/* architecture.c -- which parameter tensors a model has: one row of the table for each, per kind of layer.
 *
 * Shapes are those of the modules of transformers 5 (rows: output features, columns: input features), names are the last part
 * of a module's path. A field of vram_layer describes a shape; what no field describes is a row of model->extra, put there by
 * the reader of configs. Source: https://github.com/huggingface/transformers/tree/main/src/transformers/models
 */
#include "core.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* The table while it is made, and where it stands: the kind of layer and how many layers (or shared sets) of it there are. */
typedef struct {
    vram_model *model;
    int kind;
    int64_t layers;
    int64_t modules; /* 0: as many as layers */
    bool full;
} table;

/* The next row, or a row that goes nowhere when the table is full or the tensor is empty. */
static vram_tensor *row(table *t, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns)
{
    static const vram_tensor nothing;
    vram_model *m = t->model;
    bool room = m->tensors < VRAM_MAX_TENSORS - 1; /* the last place is the waste bin */
    vram_tensor *tensor = &m->tensor[room ? m->tensors : VRAM_MAX_TENSORS - 1];
    *tensor = nothing;
    size_t length = strlen(name);
    memcpy(tensor->name, name, length < VRAM_MAX_NAME ? length : VRAM_MAX_NAME - 1);
    tensor->part = part;
    tensor->kind = t->kind;
    tensor->layers = t->layers;
    tensor->modules = t->modules;
    tensor->copies = copies;
    tensor->rows = rows;
    tensor->columns = columns;
    bool empty = copies == 0 || rows == 0 || columns == 0 || t->layers == 0;
    if (!room && !empty) t->full = true;
    if (room && !empty) m->tensors++;
    return tensor;
}

/* A linear layer: its weight, and its bias, which is divided as the rows are. */
static void linear(table *t, const char *name, vram_part part, int64_t rows, int64_t columns, bool bias, vram_shard shard)
{
    bool softmax = part == VRAM_PART_ATTENTION;
    vram_tensor *weight = row(t, name, part, 1, rows, columns);
    weight->linear = true;
    weight->softmax = softmax;
    weight->shard = shard;
    if (!bias) return;
    vram_tensor *vector = row(t, name, part, 1, rows, 1);
    vector->bias = true;
    vector->softmax = softmax;
    vector->shard = shard == VRAM_SHARD_COLUMNS ? VRAM_SHARD_NONE : shard;
}

static void vector(table *t, const char *name, vram_part part, int64_t length, vram_shard shard)
{
    row(t, name, part, 1, length, 1)->shard = shard;
}

/* Experts stacked in one tensor: `copies` of rows x columns. */
static vram_tensor *stacked(table *t, const char *name, int64_t experts, int64_t rows, int64_t columns)
{
    vram_tensor *tensor = row(t, name, VRAM_PART_EXPERT, experts, rows, columns);
    tensor->stacked = true;
    tensor->shard = VRAM_SHARD_EXPERTS;
    return tensor;
}

/* Norms of the model's kind: weight, weight and bias, or nothing. */
static void norm(table *t, const char *name, int64_t copies, int64_t width)
{
    vram_norm_type type = t->model->norm;
    if (type == VRAM_NORM_LAYER_BARE || type == VRAM_NORM_RMS_BARE) return;
    row(t, name, VRAM_PART_NORM, copies, width, 1);
    if (type == VRAM_NORM_LAYER_BIAS) row(t, name, VRAM_PART_NORM, copies, width, 1);
}

static void depthwise(table *t, const char *name, int64_t channels, int64_t kernel, bool bias)
{
    row(t, name, VRAM_PART_STATE, 1, channels, kernel)->shard = VRAM_SHARD_ROWS;
    if (bias) vector(t, name, VRAM_PART_STATE, channels, VRAM_SHARD_ROWS);
}

/* ------------------------------------------------------------------------------------------------------- attention -- */

/* Norms of queries and keys: head_dim numbers for all heads together, or as many as q and k are wide. */
static void qk_norms(table *t, const vram_attention *a)
{
    bool wide = a->qk_norm == VRAM_QK_NORM_WIDTH || a->qk_norm == VRAM_QK_NORM_PER_HEAD;
    int times = a->qk_norm == VRAM_QK_NORM_HEAD_BIAS ? 2 : 1;
    if (a->qk_norm == VRAM_QK_NORM_NONE || a->qk_norm == VRAM_QK_NORM_BARE) return;
    for (int i = 0; i < times; i++) {
        vector(t, "q_norm", VRAM_PART_NORM, wide ? a->heads * a->head_dim : a->head_dim, wide ? VRAM_SHARD_ROWS : VRAM_SHARD_NONE);
        if (!a->shares_cache)
            vector(t, "k_norm", VRAM_PART_NORM, wide ? a->kv_heads * a->head_dim : a->head_dim, wide ? VRAM_SHARD_KV_ROWS : VRAM_SHARD_NONE);
    }
}

/* q: H d x h; k: K d x h; v: K d_v x h; o: h x H d_v. A layer that reads another's cache has no k and v. */
static void softmax_attention(table *t, const vram_attention *a)
{
    const vram_names *n = &t->model->names;
    int64_t h = t->model->hidden, in = a->input ? a->input : h;
    int64_t q = a->heads * a->head_dim * (a->output_gate ? 2 : 1), k = a->kv_heads * a->head_dim, v = a->kv_heads * a->v_head_dim;
    if (a->fused_qkv) {
        linear(t, vram_or_else(n->qkv, "qkv_proj"), VRAM_PART_ATTENTION, q + k + v, in, a->q_bias, VRAM_SHARD_ROWS);
    } else {
        linear(t, vram_or_else(n->q, "q_proj"), VRAM_PART_ATTENTION, q, in, a->q_bias, VRAM_SHARD_ROWS);
        if (!a->shares_cache) {
            linear(t, vram_or_else(n->k, "k_proj"), VRAM_PART_ATTENTION, k, in, a->k_bias, VRAM_SHARD_KV_ROWS);
            if (!a->k_is_v) linear(t, vram_or_else(n->v, "v_proj"), VRAM_PART_ATTENTION, v, in, a->v_bias, VRAM_SHARD_KV_ROWS);
        }
    }
    linear(t, vram_or_else(n->o, "o_proj"), VRAM_PART_ATTENTION, h, a->output ? a->output : a->heads * a->v_head_dim, a->o_bias, VRAM_SHARD_COLUMNS);
}

/* Queries and outputs are experts, keys and values are not (JetMoE). */
static void expert_attention(table *t, const vram_attention *a)
{
    int64_t h = t->model->hidden, k = a->kv_heads * a->head_dim;
    linear(t, "kv_proj", VRAM_PART_ATTENTION, 2 * k, h, false, VRAM_SHARD_KV_ROWS);
    linear(t, "layer", VRAM_PART_ROUTER, a->experts, h, false, VRAM_SHARD_NONE);
    stacked(t, "input_linear", a->experts, k, h);
    stacked(t, "output_linear", a->experts, h, k);
    vector(t, "bias", VRAM_PART_ATTENTION, h, VRAM_SHARD_NONE);
}

/* One latent for keys and values; queries through a latent as well, or straight. Every rank holds the latents' projections. */
static void latent_attention(table *t, const vram_attention *a)
{
    int64_t h = t->model->hidden, q = a->heads * a->head_dim;
    if (a->q_lora_rank > 0) {
        linear(t, "q_a_proj", VRAM_PART_ATTENTION, a->q_lora_rank, h, a->q_bias, VRAM_SHARD_NONE);
        vector(t, "q_a_layernorm", VRAM_PART_NORM, a->q_lora_rank, VRAM_SHARD_NONE);
        linear(t, "q_b_proj", VRAM_PART_ATTENTION, q, a->q_lora_rank, false, VRAM_SHARD_ROWS);
    } else {
        linear(t, "q_proj", VRAM_PART_ATTENTION, q, h, false, VRAM_SHARD_ROWS);
    }
    linear(t, "kv_a_proj_with_mqa", VRAM_PART_ATTENTION, a->kv_lora_rank + a->qk_rope_head_dim, h, a->k_bias, VRAM_SHARD_NONE);
    vector(t, "kv_a_layernorm", VRAM_PART_NORM, a->kv_lora_rank, VRAM_SHARD_NONE);
    linear(t, "kv_b_proj", VRAM_PART_ATTENTION, a->heads * (a->qk_nope_head_dim + a->v_head_dim), a->kv_lora_rank, false, VRAM_SHARD_ROWS);
    linear(t, "o_proj", VRAM_PART_ATTENTION, h, a->heads * a->v_head_dim, a->o_bias, VRAM_SHARD_COLUMNS);
}

/* The indexer of sparse attention over a latent (DeepSeek-V3.2): one key a token, a query and a weight a head. */
static void indexer(table *t, const vram_attention *a)
{
    int64_t h = t->model->hidden;
    int first = t->model->tensors;
    linear(t, "wq_b", VRAM_PART_ATTENTION, a->index_heads * a->index_head_dim, a->q_lora_rank, false, VRAM_SHARD_NONE);
    linear(t, "wk", VRAM_PART_ATTENTION, a->index_head_dim, h, false, VRAM_SHARD_NONE);
    vector(t, "k_norm", VRAM_PART_NORM, a->index_head_dim, VRAM_SHARD_NONE);
    vector(t, "k_norm", VRAM_PART_NORM, a->index_head_dim, VRAM_SHARD_NONE);
    linear(t, "weights_proj", VRAM_PART_ATTENTION, a->index_heads, h, false, VRAM_SHARD_NONE);
    for (int i = first; i < t->model->tensors; i++) t->model->tensor[i].softmax = false; /* it chooses, it does not attend */
}

/* q through a latent; one key-and-value vector; output in groups to a low rank (DeepSeek-V4). */
static void grouped_latent_attention(table *t, const vram_attention *a)
{
    int64_t h = t->model->hidden, q = a->heads * a->head_dim;
    linear(t, "q_a_proj", VRAM_PART_ATTENTION, a->q_lora_rank, h, false, VRAM_SHARD_NONE);
    vector(t, "q_a_norm", VRAM_PART_NORM, a->q_lora_rank, VRAM_SHARD_NONE);
    linear(t, "q_b_proj", VRAM_PART_ATTENTION, q, a->q_lora_rank, false, VRAM_SHARD_ROWS);
    linear(t, "kv_proj", VRAM_PART_ATTENTION, a->head_dim, h, false, VRAM_SHARD_NONE);
    vector(t, "kv_norm", VRAM_PART_NORM, a->head_dim, VRAM_SHARD_NONE);
    linear(t, "o_a_proj", VRAM_PART_ATTENTION, a->o_groups * a->o_lora_rank, q / a->o_groups, false, VRAM_SHARD_ROWS);
    linear(t, "o_b_proj", VRAM_PART_ATTENTION, h, a->o_groups * a->o_lora_rank, false, VRAM_SHARD_COLUMNS);
}

static void attention(table *t, const vram_attention *a)
{
    if (a->type == VRAM_MIXER_NONE) return;
    if (a->type == VRAM_MIXER_MLA) {
        latent_attention(t, a);
        if (a->index_heads > 0) indexer(t, a);
    } else if (a->o_groups > 0) {
        grouped_latent_attention(t, a);
    } else if (a->experts > 0) {
        expert_attention(t, a);
    } else {
        softmax_attention(t, a);
    }
    qk_norms(t, a);
    if (a->gate_width > 0) linear(t, vram_or_else(t->model->names.attention_gate, "gate_proj"), VRAM_PART_ATTENTION, a->gate_width, t->model->hidden, false, VRAM_SHARD_ROWS);
    if (a->sinks) vector(t, "sinks", VRAM_PART_ATTENTION, a->heads, VRAM_SHARD_ROWS);
}

/* ------------------------------------------------------------------------------------------------ state-space mixers -- */

/* in: 2 inner x h; x: dt_rank + 2 state; dt; A: inner x state; D. Source: modeling_mamba.py, modeling_jamba.py */
static void mamba1(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden;
    linear(t, "in_proj", VRAM_PART_STATE, 2 * s->inner, h, s->in_bias, VRAM_SHARD_ROWS);
    depthwise(t, "conv1d", s->inner, s->conv_kernel, s->conv_bias);
    if (s->plain_projections) {
        row(t, "x_proj_weight", VRAM_PART_STATE, 1, s->dt_rank + 2 * s->state, s->inner)->shard = VRAM_SHARD_COLUMNS;
        row(t, "dt_proj_weight", VRAM_PART_STATE, 1, s->inner, s->dt_rank + 1)->shard = VRAM_SHARD_ROWS; /* and its bias */
    } else {
        linear(t, "x_proj", VRAM_PART_STATE, s->dt_rank + 2 * s->state, s->inner, false, VRAM_SHARD_COLUMNS);
        linear(t, "dt_proj", VRAM_PART_STATE, s->inner, s->dt_rank, true, VRAM_SHARD_ROWS);
    }
    row(t, "A_log", VRAM_PART_STATE, 1, s->inner, s->state)->shard = VRAM_SHARD_ROWS;
    vector(t, "D", VRAM_PART_STATE, s->inner, VRAM_SHARD_ROWS);
    linear(t, "out_proj", VRAM_PART_STATE, h, s->inner, s->out_bias, VRAM_SHARD_COLUMNS);
    if (s->inner_norms) vector(t, "dt_layernorm", VRAM_PART_NORM, s->dt_rank + 2 * s->state, VRAM_SHARD_NONE);
}

/* in: z, x, B, C, dt in one. Source: modeling_mamba2.py */
static void mamba2(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden, channels = s->inner + 2 * s->groups * s->state;
    linear(t, vram_or_else(t->model->names.state_in, "in_proj"), VRAM_PART_STATE, s->inner + channels + s->heads, h, s->in_bias, VRAM_SHARD_ROWS);
    depthwise(t, "conv1d", channels, s->conv_kernel, s->conv_bias);
    row(t, "A_log", VRAM_PART_STATE, 3, s->heads, 1)->shard = VRAM_SHARD_ROWS; /* A_log, D, dt_bias */
    if (s->gated_norm) vector(t, "norm", VRAM_PART_NORM, s->inner, VRAM_SHARD_ROWS);
    linear(t, vram_or_else(t->model->names.state_out, "out_proj"), VRAM_PART_STATE, h, s->inner, s->out_bias, VRAM_SHARD_COLUMNS);
}

/* q and k: n_k d_k each; v and z: n_v d_v each; beta and decay: n_v each. Source: modeling_qwen3_next.py */
static void gated_delta(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden, key = s->key_heads * s->key_head_dim, value = s->heads * s->head_dim;
    bool separate = s->projections == VRAM_PROJECTIONS_SEPARATE;
    struct { const char *name; int64_t rows; } in[3][6] = {
        {{"in_proj_qkvz", 2 * key + 2 * value}, {"in_proj_ba", 2 * s->heads}, {"", 0}, {"", 0}, {"", 0}, {"", 0}},
        {{"in_proj_qkv", 2 * key + value}, {"in_proj_z", value}, {"in_proj_b", s->heads}, {"in_proj_a", s->heads}, {"", 0}, {"", 0}},
        {{"q_proj", key}, {"k_proj", key}, {"v_proj", value}, {"a_proj", s->heads}, {"b_proj", s->heads}, {"g_proj", value}},
    };
    for (int i = 0; i < 6; i++) linear(t, in[s->projections][i].name, VRAM_PART_STATE, in[s->projections][i].rows, h, false, VRAM_SHARD_ROWS);
    depthwise(t, "conv1d", 2 * key + value, s->conv_kernel, s->conv_bias);
    row(t, "A_log", VRAM_PART_STATE, 2, s->heads, 1)->shard = VRAM_SHARD_ROWS; /* A_log, dt_bias */
    vector(t, "norm", VRAM_PART_NORM, s->head_dim, VRAM_SHARD_NONE);
    linear(t, separate ? "o_proj" : "out_proj", VRAM_PART_STATE, h, value, false, VRAM_SHARD_COLUMNS);
}

/* q, k, v: H d each; a decay a channel; beta a head; a gate on the output. Source: modeling_kimi_linear.py */
static void kimi_delta(table *t, const vram_state *s)
{
    static const char *const q_k_v[3] = {"q_proj", "k_proj", "v_proj"};
    int64_t h = t->model->hidden, width = s->heads * s->head_dim;
    for (int i = 0; i < 3; i++) linear(t, q_k_v[i], VRAM_PART_STATE, width, h, false, VRAM_SHARD_ROWS);
    depthwise(t, "conv1d", 3 * width, s->conv_kernel, s->conv_bias);
    if (s->low_rank_gates) {
        linear(t, "f_a_proj", VRAM_PART_STATE, s->head_dim, h, false, VRAM_SHARD_NONE);
        linear(t, "f_b_proj", VRAM_PART_STATE, width, s->head_dim, false, VRAM_SHARD_ROWS);
        linear(t, "g_a_proj", VRAM_PART_STATE, s->head_dim, h, false, VRAM_SHARD_NONE);
        linear(t, "g_b_proj", VRAM_PART_STATE, width, s->head_dim, false, VRAM_SHARD_ROWS);
    } else {
        linear(t, "f_proj", VRAM_PART_STATE, width, h, false, VRAM_SHARD_ROWS);
        linear(t, "g_proj", VRAM_PART_STATE, width, h, false, VRAM_SHARD_ROWS);
    }
    linear(t, "b_proj", VRAM_PART_STATE, s->heads, h, false, VRAM_SHARD_ROWS);
    vector(t, "dt_bias", VRAM_PART_STATE, width, VRAM_SHARD_ROWS);
    vector(t, "A_log", VRAM_PART_STATE, s->heads, VRAM_SHARD_ROWS);
    vector(t, "o_norm", VRAM_PART_NORM, s->head_dim, VRAM_SHARD_NONE);
    linear(t, "o_proj", VRAM_PART_STATE, h, width, false, VRAM_SHARD_COLUMNS);
}

/* Source: modeling_minimax.py, MiniMaxLightningAttention */
static void lightning(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden, width = s->heads * s->head_dim;
    linear(t, "qkv_proj", VRAM_PART_STATE, 3 * width, h, false, VRAM_SHARD_ROWS);
    linear(t, "output_gate", VRAM_PART_STATE, width, h, false, VRAM_SHARD_ROWS);
    linear(t, "out_proj", VRAM_PART_STATE, h, width, false, VRAM_SHARD_COLUMNS);
    vector(t, "norm", VRAM_PART_NORM, width, VRAM_SHARD_ROWS);
}

/* Source: modeling_lfm2.py, Lfm2ShortConv */
static void short_convolution(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden;
    linear(t, "in_proj", VRAM_PART_STATE, 3 * h, h, s->in_bias, VRAM_SHARD_ROWS);
    depthwise(t, "conv", h, s->conv_kernel, s->conv_bias);
    linear(t, "out_proj", VRAM_PART_STATE, h, h, s->out_bias, VRAM_SHARD_COLUMNS);
}

/* Two square gates a head, block-diagonal. Source: modeling_recurrent_gemma.py */
static void real_gated_lru(table *t, const vram_state *s)
{
    int64_t h = t->model->hidden, width = s->inner;
    linear(t, "linear_y", VRAM_PART_STATE, width, h, s->in_bias, VRAM_SHARD_ROWS);
    linear(t, "linear_x", VRAM_PART_STATE, width, h, s->in_bias, VRAM_SHARD_ROWS);
    linear(t, "linear_out", VRAM_PART_STATE, h, width, s->out_bias, VRAM_SHARD_COLUMNS);
    depthwise(t, "conv_1d", width, s->conv_kernel, s->conv_bias);
    row(t, "rg_lru", VRAM_PART_STATE, 2 * s->heads, width / s->heads, width / s->heads); /* input and recurrent gate */
    row(t, "rg_lru", VRAM_PART_STATE, 2 * s->heads, width / s->heads, 1);                /* their biases */
    vector(t, "rg_lru", VRAM_PART_STATE, width, VRAM_SHARD_NONE);                        /* recurrent_param */
}

static void state(table *t, const vram_state *s)
{
    switch (s->type) {
    case VRAM_STATE_NONE: break;
    case VRAM_STATE_MAMBA1: mamba1(t, s); break;
    case VRAM_STATE_MAMBA2: mamba2(t, s); break;
    case VRAM_STATE_GATED_DELTA: gated_delta(t, s); break;
    case VRAM_STATE_KDA: kimi_delta(t, s); break;
    case VRAM_STATE_LIGHTNING: lightning(t, s); break;
    case VRAM_STATE_SHORT_CONV: short_convolution(t, s); break;
    case VRAM_STATE_RGLRU: real_gated_lru(t, s); break;
    }
}

/* -------------------------------------------------------------------------------------------------------------- MLP -- */

/* gate and up: width x h; down: h x width. A plain MLP has no gate. */
static void dense(table *t, const vram_ffn *f, vram_part part, int64_t width, bool fused, const char *gate_up, const char *down)
{
    const vram_names *n = &t->model->names;
    int64_t h = t->model->hidden;
    if (fused) {
        linear(t, gate_up, part, 2 * width, h, f->bias, VRAM_SHARD_ROWS);
    } else {
        if (f->type == VRAM_FFN_GATED) linear(t, vram_or_else(n->gate, "gate_proj"), part, width, h, f->bias, VRAM_SHARD_ROWS);
        linear(t, vram_or_else(n->up, "up_proj"), part, width, h, f->bias, VRAM_SHARD_ROWS);
    }
    linear(t, down, part, h, width, f->bias, VRAM_SHARD_COLUMNS);
}

/* Experts as modules: the linear layers of a small MLP, E times (families of remote code). */
static void expert_modules(table *t, const vram_ffn *f)
{
    const vram_names *n = &t->model->names;
    int first = t->model->tensors;
    dense(t, f, VRAM_PART_EXPERT, f->expert_width, false, "", vram_or_else(n->down, "down_proj"));
    for (int i = first; i < t->model->tensors; i++) {
        t->model->tensor[i].copies = f->experts;
        t->model->tensor[i].shard = VRAM_SHARD_EXPERTS;
    }
}

/* Router: E x h. Experts: 2 m x h (m x h without a gate) and h x m, stacked. */
static void experts(table *t, const vram_ffn *f)
{
    int64_t h = t->model->hidden, in = f->latent_width ? f->latent_width : h, E = f->experts, m = f->expert_width;
    const char *router = vram_or_else(t->model->names.router, "gate");
    vram_tensor *weight = row(t, router, VRAM_PART_ROUTER, 1, E + f->router_rows, h);
    weight->linear = f->router_linear;
    if (f->router_linear_bias) vector(t, router, VRAM_PART_ROUTER, E + f->router_rows, VRAM_SHARD_NONE);
    if (f->router_bias) row(t, "e_score_correction_bias", VRAM_PART_ROUTER, 1, E + f->router_rows, 1)->buffer = f->router_bias_buffer;
    if (f->expert_modules) {
        expert_modules(t, f);
        return;
    }
    int64_t up = f->type == VRAM_FFN_GATED ? 2 * m : m;
    const char *up_name = f->type == VRAM_FFN_GATED ? "gate_up_proj" : "up_proj";
    vram_tensor *gate_up = stacked(t, up_name, E, up, in);
    if (f->router_rows > 0) gate_up->modules = t->layers * (E + f->router_rows); /* LoRA's library finds a slice for the zero experts, too */
    stacked(t, "down_proj", E, in, m);
    if (f->expert_bias) {
        stacked(t, up_name, E, up, 1);
        stacked(t, "down_proj", E, in, 1);
    }
    if (f->latent_width > 0) {
        linear(t, "fc1_latent_proj", VRAM_PART_MLP, f->latent_width, h, f->bias, VRAM_SHARD_NONE);
        linear(t, "fc2_latent_proj", VRAM_PART_MLP, h, f->latent_width, f->bias, VRAM_SHARD_NONE);
    }
}

static void mlp(table *t, const vram_ffn *f)
{
    const vram_names *n = &t->model->names;
    if (f->type == VRAM_FFN_NONE) return;
    if (f->width > 0) dense(t, f, VRAM_PART_MLP, f->width, f->fused_gate_up, vram_or_else(n->gate_up, "gate_up_proj"), vram_or_else(n->down, "down_proj"));
    if (f->experts > 0) experts(t, f);
    if (f->shared_width > 0)
        dense(t, f, VRAM_PART_SHARED_EXPERT, f->shared_width, f->shared_fused, vram_or_else(n->shared_gate_up, "gate_up_proj"), vram_or_else(n->shared_down, "down_proj"));
    if (f->shared_gate) linear(t, "shared_expert_gate", VRAM_PART_SHARED_EXPERT, 1, t->model->hidden, false, VRAM_SHARD_NONE);
}

/* --------------------------------------------------------------------------------------------------------- the whole -- */

static void outside_the_layers(table *t)
{
    const vram_model *m = t->model;
    int64_t width = m->embedding_width ? m->embedding_width : m->hidden;
    row(t, "embed_tokens", VRAM_PART_EMBEDDING, 1, m->vocab, width)->shard = VRAM_SHARD_VOCABULARY;
    if (m->position == VRAM_POSITION_LEARNED) row(t, "embed_positions", VRAM_PART_EMBEDDING, 1, m->position_rows, m->hidden);
    if (m->embedding_norm) norm(t, "embedding_norm", 1, m->hidden);
    if (width != m->hidden) {
        linear(t, "project_in", VRAM_PART_OTHER, m->hidden, width, false, VRAM_SHARD_NONE);
        linear(t, "project_out", VRAM_PART_OTHER, width, m->hidden, false, VRAM_SHARD_NONE);
    }
    if (m->final_norm) norm(t, "norm", 1, m->hidden);
    if (!m->tied) {
        vram_tensor *head = row(t, "lm_head", VRAM_PART_HEAD, 1, m->vocab, width);
        head->linear = true;
        head->shard = VRAM_SHARD_VOCABULARY;
    }
    if (m->head_bias) {
        vram_tensor *bias = row(t, "lm_head", VRAM_PART_HEAD, 1, m->vocab, 1);
        bias->bias = true;
        bias->shard = VRAM_SHARD_VOCABULARY;
    }
}

/* One kind of layer. Weights that layers share stand once for each shared set; norms, too, when the block is shared. */
static void layer(table *t, int kind, int64_t layers)
{
    const vram_layer *l = &t->model->kind[kind];
    t->kind = kind;
    t->layers = layers;
    state(t, &l->state);
    norm(t, "input_layernorm", l->norms, t->model->hidden);
    if (l->linear_attention) linear(t, "self_attn", VRAM_PART_ATTENTION, t->model->hidden, t->model->hidden, false, VRAM_SHARD_NONE);
    if (l->linear_ffn) linear(t, "mlp", VRAM_PART_MLP, t->model->hidden, t->model->hidden, false, VRAM_SHARD_NONE);
    if (l->shared_blocks > 0 && l->shared_blocks < layers) t->layers = l->shared_blocks;
    t->modules = t->layers < layers ? layers : 0;
    attention(t, &l->attention);
    mlp(t, &l->ffn);
    t->modules = 0;
}

static void side_paths(table *t)
{
    vram_model *m = t->model;
    for (int i = 0; i < m->extras; i++) {
        const vram_tensor *e = &m->extra[i];
        t->kind = e->kind;
        t->layers = e->kind < 0 ? 1 : e->layers > 0 ? e->layers : m->stage.of_kind[e->kind];
        vram_tensor *made = row(t, e->name, e->part, e->copies, e->rows, e->columns);
        int64_t of = made->layers;
        *made = *e;
        made->layers = of;
    }
}

/* The largest table of whole numbers that doubles hold: a sum at or above 2^53 is refused. */
static bool fits(const vram_model *m, vram_error *error)
{
    static const double limit = 9007199254740992.0;
    double sum = 0;
    for (int i = 0; i < m->tensors; i++) sum += vram_tensor_params(&m->tensor[i]);
    if (sum < limit) return true;
    return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", sum, 1, limit);
}

bool vram_architecture(vram_model *model, vram_error *error)
{
    vram_stage_whole(model);
    model->tensors = 0;
    table t = {model, -1, 1, 0, false};
    outside_the_layers(&t);
    for (int k = 0; k < model->kinds; k++) layer(&t, k, model->stage.of_kind[k]);
    side_paths(&t);
    if (t.full) return vram_fail(error, VRAM_ERROR_TOO_LARGE, "model", model->kinds, 1, VRAM_MAX_KINDS);
    return fits(model, error);
}

bool vram_model_is(const vram_model *model, const char *const types[])
{
    for (int i = 0; types[i]; i++)
        if (strcmp(model->model_type, types[i]) == 0) return true;
    return false;
}

/* GPT-Neo, GPTBigCode. Source: modeling_gpt_neo.py, modeling_gpt_bigcode.py (self.bias) */
double vram_position_masks(const vram_model *model)
{
    static const char *const each[] = {"gpt_neo", NULL}, *const once[] = {"gpt_bigcode", NULL};
    return vram_model_is(model, each) ? (double)model->stage.layers : vram_model_is(model, once);
}

double vram_tensor_params(const vram_tensor *tensor)
{
    return (double)tensor->layers * (double)tensor->copies * ((double)tensor->rows * (double)tensor->columns);
}

double vram_params_total(const vram_model *model)
{
    double sum = 0;
    if (model->params_override > 0) return model->params_override;
    for (int i = 0; i < model->tensors; i++) sum += vram_tensor_params(&model->tensor[i]);
    return sum;
}

double vram_params_buffers(const vram_model *model)
{
    double sum = 0;
    if (model->params_override > 0) return 0;
    for (int i = 0; i < model->tensors; i++)
        if (model->tensor[i].buffer) sum += vram_tensor_params(&model->tensor[i]);
    return sum;
}

/* What a token does not use of a row: the experts that it does not choose. Zero experts are chosen as often as others (LongCat:
 * 12 of 768, of which 512 have weights, are 8 on average). */
static double idle(const vram_model *model, const vram_tensor *tensor)
{
    if (tensor->part != VRAM_PART_EXPERT || tensor->kind < 0) return 0;
    const vram_layer *l = &model->kind[tensor->kind];
    bool of_attention = l->attention.experts > 0 && l->ffn.experts == 0;
    double chosen = (double)(of_attention ? l->attention.experts_per_token : l->ffn.experts_per_token);
    double used = floor(chosen * (double)tensor->copies / (double)(tensor->copies + (of_attention ? 0 : l->ffn.router_rows)) + 0.5);
    return vram_tensor_params(tensor) / (double)tensor->copies * ((double)tensor->copies - used);
}

double vram_params_active(const vram_model *model)
{
    double sum = vram_params_total(model);
    if (model->active_override > 0) return model->active_override;
    if (model->params_override > 0) return model->params_override;
    for (int i = 0; i < model->tensors; i++) sum -= idle(model, &model->tensor[i]);
    return sum;
}

double vram_most_heads(const vram_model *m)
{
    double most = 0;
    for (int i = 0; i < m->kinds; i++)
        if (m->kind[i].attention.type != VRAM_MIXER_NONE) most = vram_max(most, (double)m->kind[i].attention.heads);
    return most;
}
