/* gguf.c -- a model as a file of llama.cpp: which type each of its tensors gets, and what the file and the GPU's buffer then weigh.
 *
 * Ported rules, by name: conversion/base.py prepare_tensors (what stays fp32), llama-quant.cpp tensor_allows_quantization,
 * llama_tensor_get_type_impl (the mixes) and tensor_type_fallback (rows that are no whole number of blocks), llama-model.cpp
 * load_tensors (which tensors a GPU gets), ggml-cuda.cu ggml_backend_cuda_buffer_type_get_alloc_size (padding).
 * Source: https://github.com/ggml-org/llama.cpp, v0.5.0. */
#include "core.h"

#include <stddef.h>
#include <string.h>

/* A tensor of the file, as made from a row of the table: `matrices` of `rows` rows of `width` numbers. */
typedef struct { vram_gguf_role category; double width, rows, matrices; } piece;
enum { MAX_PIECES = 3 };

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }
static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }
static bool named(const vram_tensor *t, const char *name, const char *standard) { return is(t->name, name ? name : standard); }

/* ---------------------------------------------------------------------------------------------- tensors of the file -- */

/* Fused in transformers, three tensors in the file (conversion/internlm.py, baichuan.py, bailingmoe.py) */
bool vram_gguf_splits_qkv(const vram_model *model)
{
    return is(model->model_type, "internlm2") || is(model->model_type, "baichuan") || is(model->model_type, "bailing_moe");
}

static vram_gguf_role attention_category(const vram_model *model, const vram_tensor *t)
{
    const vram_names *n = &model->names;
    if (named(t, n->qkv, "qkv_proj")) return VRAM_ROLE_OF_QKV;
    if (named(t, n->q, "q_proj")) return VRAM_ROLE_OF_QUERY;
    if (named(t, n->k, "k_proj")) return VRAM_ROLE_OF_KEY;
    if (named(t, n->v, "v_proj")) return VRAM_ROLE_OF_VALUE;
    if (named(t, n->o, "o_proj")) return VRAM_ROLE_OF_ATTENTION_OUTPUT;
    if (is(t->name, "kv_b_proj")) return VRAM_ROLE_OF_QKV; /* where it is kept whole, it counts as values do */
    if (is(t->name, "weights_proj")) return VRAM_ROLE_OF_INDEXER;
    if (is(t->name, "wk")) return VRAM_ROLE_OF_KEY; /* indexer.attn_k */
    return VRAM_ROLE_OF_OTHER;
}

/* KDA's projections bear the names of attention's; gated DeltaNet's q, k, v are one tensor named as attention's. */
static vram_gguf_role state_category(const vram_tensor *t)
{
    if (!t->linear) return VRAM_ROLE_OF_FULL; /* convolution, A, D, dt bias */
    if (is(t->name, "in_proj_qkv") || is(t->name, "in_proj_qkvz")) return VRAM_ROLE_OF_QKV;
    if (is(t->name, "q_proj")) return VRAM_ROLE_OF_QUERY;
    if (is(t->name, "k_proj")) return VRAM_ROLE_OF_KEY;
    if (is(t->name, "v_proj")) return VRAM_ROLE_OF_VALUE;
    if (is(t->name, "o_proj")) return VRAM_ROLE_OF_ATTENTION_OUTPUT;
    return VRAM_ROLE_OF_OTHER;
}

static vram_gguf_role mlp_category(const vram_model *model, const vram_tensor *t)
{
    const vram_names *n = &model->names;
    if (named(t, n->down, "down_proj") || named(t, n->shared_down, "down_proj") || is(t->name, "down_proj")) return VRAM_ROLE_OF_DOWN;
    if (named(t, n->gate, "gate_proj")) return VRAM_ROLE_OF_GATE;
    if (named(t, n->up, "up_proj") || named(t, n->gate_up, "gate_up_proj") || has(t->name, "up") || has(t->name, "input_linear")) return VRAM_ROLE_OF_UP;
    return VRAM_ROLE_OF_OTHER;
}

/* Gemma 3n's and 4's side paths: tables of embeddings for every layer, and small mixers that stay as they are */
static vram_gguf_role other_category(const vram_tensor *t)
{
    if (has(t->name, "per_layer") && has(t->name, "embed")) return VRAM_ROLE_OF_TOKEN_EMBEDDING;
    if (has(t->name, "_coefs")) return VRAM_ROLE_OF_FULL;
    bool altup = (t->name[0] >= '0' && t->name[0] <= '9') || is(t->name, "modality_router"), laurel = is(t->name, "linear_left") || is(t->name, "linear_right");
    if (altup || laurel || has(t->name, "per_layer_model_proj")) return VRAM_ROLE_OF_HALF;
    return VRAM_ROLE_OF_OTHER;
}

static vram_gguf_role category_of(const vram_model *model, const vram_tensor *t)
{
    if (t->columns == 1 || t->bias || t->part == VRAM_PART_NORM || t->part == VRAM_PART_ROUTER) return VRAM_ROLE_OF_FULL;
    if (t->rows == 1) return VRAM_ROLE_OF_FULL; /* the gate of a shared expert */
    switch (t->part) {
    case VRAM_PART_EMBEDDING:
        if (is(t->name, "embed_positions")) return VRAM_ROLE_OF_FULL;
        return VRAM_ROLE_OF_TOKEN_EMBEDDING;
    case VRAM_PART_HEAD: return VRAM_ROLE_OF_OUTPUT;
    case VRAM_PART_ATTENTION: return attention_category(model, t);
    case VRAM_PART_STATE: return state_category(t);
    case VRAM_PART_MLP:
    case VRAM_PART_EXPERT:
    case VRAM_PART_SHARED_EXPERT: return mlp_category(model, t);
    default: return other_category(t);
    }
}

/* One row of the table -> the file's tensors in one layer. The latent's up-projection is stored as two, the keys' half transposed. */
static int pieces_of(const vram_model *model, const vram_tensor *t, piece out[MAX_PIECES])
{
    const vram_layer *layer = t->kind < 0 ? NULL : &model->kind[t->kind];
    if (is(t->name, "act_fn")) return 0; /* xIELU's two numbers are metadata */
    out[0] = (piece){category_of(model, t), (double)(t->columns == 1 ? t->rows : t->columns), t->columns == 1 ? 1 : (double)t->rows, (double)t->copies};
    if (layer && is(t->name, "dt_layernorm")) { /* of the time step, B and C: three tensors */
        out[0].width = (double)layer->state.dt_rank;
        out[1] = out[2] = (piece){VRAM_ROLE_OF_FULL, (double)layer->state.state, 1, 1};
        return 3;
    }
    if (!layer || t->bias || t->columns == 1) return 1;
    const vram_attention *a = &layer->attention;
    if (t->part == VRAM_PART_ATTENTION && is(t->name, "kv_b_proj") && !is(model->model_type, "minicpm3")) {
        out[0] = (piece){VRAM_ROLE_OF_OTHER, (double)a->qk_nope_head_dim, (double)a->kv_lora_rank, (double)a->heads};
        out[1] = (piece){VRAM_ROLE_OF_OTHER, (double)a->kv_lora_rank, (double)a->v_head_dim, (double)a->heads};
        return 2;
    }
    if (out[0].category == VRAM_ROLE_OF_QKV && t->part == VRAM_PART_ATTENTION && vram_gguf_splits_qkv(model)) {
        out[0] = (piece){VRAM_ROLE_OF_QUERY, (double)t->columns, (double)(a->heads * a->head_dim), 1};
        out[1] = (piece){VRAM_ROLE_OF_KEY, (double)t->columns, (double)(a->kv_heads * a->head_dim), 1};
        out[2] = (piece){VRAM_ROLE_OF_VALUE, (double)t->columns, (double)(a->kv_heads * a->v_head_dim), 1};
        return 3;
    }
    if (is(t->name, "in_proj_qkvz")) {
        double value = (double)(layer->state.heads * layer->state.head_dim);
        out[0].rows -= value;
        out[1] = (piece){VRAM_ROLE_OF_OTHER, (double)t->columns, value, 1};
        return 2;
    }
    if (out[0].category == VRAM_ROLE_OF_UP && has(t->name, "gate_up") && t->stacked) {
        out[0].rows /= 2;
        out[1] = out[0];
        out[1].category = VRAM_ROLE_OF_GATE;
        return 2;
    }
    return 1;
}

/* ---------------------------------------------------------------------------------------------------------- recipes -- */

/* What the choice of a type depends on, and how far the counters of llama-quant.cpp are */
typedef struct {
    vram_mix mix;
    vram_ggml_type base;
    double layers, values;      /* n_ffn_down = n_layer_all; n_attention_wv */
    double value, down, gate, up; /* tensors of that kind seen so far */
    double experts, grouping;   /* n_expert; heads for each KV head, of the first layer */
    bool tied, imatrix, falcon, seventy;
} recipe;

/* first and last eighth of the layers, and every third between */
static bool more_bits(double i, double n)
{
    double first = vram_floor_div(n, 8), rest = i - first;
    return i < first || i >= vram_floor_div(7 * n, 8) || (rest >= 0 && rest - 3 * vram_floor_div(rest, 3) == 2);
}

static bool among_first(double i, double n, double part) { return i < vram_floor_div(n, part); }

static bool low_bit(vram_mix mix)
{
    return mix == VRAM_MIX_IQ1_S || mix == VRAM_MIX_IQ1_M || mix == VRAM_MIX_IQ2_XXS || mix == VRAM_MIX_IQ2_XS || mix == VRAM_MIX_IQ2_S || mix == VRAM_MIX_IQ2_M;
}

static vram_ggml_type output_type(const recipe *r, double width)
{
    vram_ggml_row base = *vram_ggml_get(r->base);
    bool whole = width - base.block * vram_floor_div(width, base.block) == 0;
    if (r->mix == VRAM_MIX_MXFP4_MOE || r->falcon || !whole) return VRAM_GGML_Q8_0;
    if (low_bit(r->mix) || r->mix == VRAM_MIX_IQ3_XXS) return VRAM_GGML_Q5_K;
    return r->base == VRAM_GGML_Q8_0 ? r->base : VRAM_GGML_Q6_K;
}

static vram_ggml_type embedding_type(const recipe *r)
{
    switch (r->mix) {
    case VRAM_MIX_IQ2_XXS: case VRAM_MIX_IQ2_XS: case VRAM_MIX_IQ1_S: case VRAM_MIX_IQ1_M: return VRAM_GGML_Q2_K;
    case VRAM_MIX_IQ2_S: case VRAM_MIX_IQ2_M: case VRAM_MIX_IQ3_XXS: return VRAM_GGML_IQ3_S;
    case VRAM_MIX_TQ: return VRAM_GGML_Q4_K;
    default: return r->base;
    }
}

/* one and two bits */
static vram_ggml_type low_bit_type(recipe *r, vram_gguf_role c)
{
    bool two = r->mix == VRAM_MIX_IQ2_S || r->mix == VRAM_MIX_IQ2_M, one = r->mix == VRAM_MIX_IQ1_S || r->mix == VRAM_MIX_IQ1_M;
    vram_ggml_type more = two ? VRAM_GGML_IQ3_S : VRAM_GGML_Q2_K;
    if (c == VRAM_ROLE_OF_VALUE || c == VRAM_ROLE_OF_QKV) {
        r->value++;
        return r->grouping >= 4 || r->experts >= 4 ? VRAM_GGML_Q4_K : more;
    }
    if (c == VRAM_ROLE_OF_KEY && r->experts == 8) return VRAM_GGML_Q4_K;
    if (c == VRAM_ROLE_OF_DOWN) return among_first(r->down++, r->layers, 8) ? more : r->base;
    if (c != VRAM_ROLE_OF_ATTENTION_OUTPUT) return r->base;
    if (r->experts == 8) return VRAM_GGML_Q5_K;
    return one ? VRAM_GGML_IQ2_XXS : two ? VRAM_GGML_IQ3_S : r->base;
}

static vram_ggml_type value_type(recipe *r)
{
    vram_ggml_type type = r->base;
    bool grouped = r->grouping >= 4;
    double i = r->value++;
    switch (r->mix) {
    case VRAM_MIX_Q2_K: type = grouped ? VRAM_GGML_Q4_K : VRAM_GGML_Q3_K; break;
    case VRAM_MIX_Q2_K_S: case VRAM_MIX_IQ3_XS: case VRAM_MIX_IQ3_S: if (grouped) type = VRAM_GGML_Q4_K; break;
    case VRAM_MIX_IQ3_XXS: type = grouped ? VRAM_GGML_Q4_K : r->imatrix ? VRAM_GGML_IQ3_XXS : VRAM_GGML_IQ3_S; break;
    case VRAM_MIX_IQ3_M: type = VRAM_GGML_Q4_K; break;
    case VRAM_MIX_Q3_K_M: type = i < 2 ? VRAM_GGML_Q5_K : VRAM_GGML_Q4_K; break;
    case VRAM_MIX_Q3_K_L: type = VRAM_GGML_Q5_K; break;
    case VRAM_MIX_IQ4_NL: case VRAM_MIX_IQ4_XS: if (grouped) type = VRAM_GGML_Q5_K; break;
    case VRAM_MIX_Q4_K_M: case VRAM_MIX_Q5_K_M: if (more_bits(i, r->values)) type = VRAM_GGML_Q6_K; break;
    case VRAM_MIX_Q4_K_S: if (i < 4) type = VRAM_GGML_Q5_K; break;
    default: break;
    }
    if (r->seventy && (type == VRAM_GGML_Q3_K || type == VRAM_GGML_Q4_K)) type = VRAM_GGML_Q5_K;
    return r->experts == 8 ? VRAM_GGML_Q8_0 : type;
}

static vram_ggml_type down_type(recipe *r, double layer)
{
    double i = r->experts > 1 ? layer : r->down, n = r->layers;
    r->down++;
    switch (r->mix) {
    case VRAM_MIX_Q2_K: return VRAM_GGML_Q3_K;
    case VRAM_MIX_Q2_K_S: return among_first(i, n, 8) ? VRAM_GGML_Q4_K : r->base;
    case VRAM_MIX_IQ3_XXS: return r->imatrix ? r->base : among_first(i, n, 8) ? VRAM_GGML_Q4_K : VRAM_GGML_Q3_K;
    case VRAM_MIX_Q3_K_M: return among_first(i, n, 16) ? VRAM_GGML_Q5_K : !r->falcon || more_bits(i, n) ? VRAM_GGML_Q4_K : VRAM_GGML_Q3_K;
    case VRAM_MIX_IQ3_M: return among_first(i, n, 8) || (r->experts == 8 && more_bits(i, n)) ? VRAM_GGML_Q4_K : r->base;
    case VRAM_MIX_Q3_K_L: return r->falcon ? VRAM_GGML_Q4_K : VRAM_GGML_Q5_K;
    case VRAM_MIX_Q4_K_M:
        if (!r->falcon) return more_bits(i, n) ? VRAM_GGML_Q6_K : r->base;
        return among_first(i, n, 16) ? VRAM_GGML_Q6_K : more_bits(i, n) ? VRAM_GGML_Q5_K : VRAM_GGML_Q4_K;
    case VRAM_MIX_IQ4_NL: case VRAM_MIX_IQ4_XS: return among_first(i, n, 8) && !r->imatrix ? VRAM_GGML_Q5_K : r->base;
    case VRAM_MIX_Q5_K_M: return more_bits(i, n) ? VRAM_GGML_Q6_K : r->base;
    case VRAM_MIX_Q4_K_S: return !r->falcon && among_first(i, n, 8) ? VRAM_GGML_Q5_K : r->base;
    case VRAM_MIX_Q4_0: return r->imatrix && among_first(i, n, 8) ? VRAM_GGML_Q4_1 : r->base;
    case VRAM_MIX_Q5_0: return r->imatrix && among_first(i, n, 8) ? VRAM_GGML_Q5_1 : r->base;
    default: return r->base;
    }
}

static vram_ggml_type attention_output_type(const recipe *r)
{
    if (r->falcon) return r->mix == VRAM_MIX_Q3_K_L ? VRAM_GGML_Q4_K : r->base;
    if (r->experts == 8) {
        switch (r->mix) {
        case VRAM_MIX_Q2_K: case VRAM_MIX_IQ3_XS: case VRAM_MIX_IQ3_XXS: case VRAM_MIX_Q3_K_S: case VRAM_MIX_Q3_K_M: case VRAM_MIX_IQ4_NL:
        case VRAM_MIX_Q4_K_S: case VRAM_MIX_Q4_K_M: case VRAM_MIX_IQ3_S: case VRAM_MIX_IQ3_M: case VRAM_MIX_IQ4_XS: return VRAM_GGML_Q5_K;
        default: return r->base;
        }
    }
    switch (r->mix) {
    case VRAM_MIX_Q2_K: return VRAM_GGML_Q3_K;
    case VRAM_MIX_IQ3_XXS: return VRAM_GGML_IQ3_S;
    case VRAM_MIX_Q3_K_M: case VRAM_MIX_IQ3_M: return VRAM_GGML_Q4_K;
    case VRAM_MIX_Q3_K_L: return VRAM_GGML_Q5_K;
    default: return r->base;
    }
}

static vram_ggml_type query_or_key_type(const recipe *r, vram_gguf_role c)
{
    if (c == VRAM_ROLE_OF_KEY && r->experts == 8) return VRAM_GGML_Q8_0;
    return r->mix == VRAM_MIX_IQ3_XS ? VRAM_GGML_IQ3_XXS : r->mix == VRAM_MIX_IQ3_XXS ? VRAM_GGML_IQ2_S : r->base;
}

/* the middle of IQ3_XS */
static vram_ggml_type gate_or_up_type(const recipe *r, double seen, double layer)
{
    double i = r->experts > 1 ? layer : seen;
    bool middle = i >= vram_floor_div(r->layers, 8) && i < vram_floor_div(7 * r->layers, 8);
    return r->mix == VRAM_MIX_IQ3_XS && middle ? VRAM_GGML_IQ3_XXS : r->base;
}

static vram_ggml_type wanted_type(recipe *r, const piece *p, double layer)
{
    if (p->category == VRAM_ROLE_OF_OUTPUT || (r->tied && p->category == VRAM_ROLE_OF_TOKEN_EMBEDDING)) return output_type(r, p->width);
    if (r->mix == VRAM_MIX_MXFP4_MOE) return p->matrices > 1 ? VRAM_GGML_MXFP4 : VRAM_GGML_Q8_0;
    if (p->category == VRAM_ROLE_OF_TOKEN_EMBEDDING) return embedding_type(r);
    if (low_bit(r->mix)) return low_bit_type(r, p->category);
    switch (p->category) {
    case VRAM_ROLE_OF_VALUE: case VRAM_ROLE_OF_QKV: return value_type(r);
    case VRAM_ROLE_OF_QUERY: case VRAM_ROLE_OF_KEY: return query_or_key_type(r, p->category);
    case VRAM_ROLE_OF_DOWN: return down_type(r, layer);
    case VRAM_ROLE_OF_ATTENTION_OUTPUT: return attention_output_type(r);
    case VRAM_ROLE_OF_GATE: return gate_or_up_type(r, r->gate++, layer);
    case VRAM_ROLE_OF_UP: return gate_or_up_type(r, r->up++, layer);
    default: return r->base;
    }
}

/* tensor_type_fallback: a row must be whole blocks; blocks of 256 give way to blocks of 32, those to 16 bit */
static vram_ggml_type fallback(vram_ggml_type type, double width)
{
    static const vram_ggml_type smaller[VRAM_GGML_COUNT] = {
        [VRAM_GGML_IQ1_S] = VRAM_GGML_IQ4_NL, [VRAM_GGML_IQ1_M] = VRAM_GGML_IQ4_NL, [VRAM_GGML_IQ2_XXS] = VRAM_GGML_IQ4_NL,
        [VRAM_GGML_IQ2_XS] = VRAM_GGML_IQ4_NL, [VRAM_GGML_IQ2_S] = VRAM_GGML_IQ4_NL, [VRAM_GGML_IQ3_XXS] = VRAM_GGML_IQ4_NL,
        [VRAM_GGML_IQ3_S] = VRAM_GGML_IQ4_NL, [VRAM_GGML_IQ4_XS] = VRAM_GGML_IQ4_NL, [VRAM_GGML_Q2_0] = VRAM_GGML_Q4_0,
        [VRAM_GGML_Q2_K] = VRAM_GGML_Q4_0, [VRAM_GGML_Q3_K] = VRAM_GGML_Q4_0, [VRAM_GGML_TQ1_0] = VRAM_GGML_Q4_0,
        [VRAM_GGML_TQ2_0] = VRAM_GGML_Q4_0, [VRAM_GGML_Q4_K] = VRAM_GGML_Q5_0, [VRAM_GGML_Q5_K] = VRAM_GGML_Q5_1, [VRAM_GGML_Q6_K] = VRAM_GGML_Q8_0,
    };
    for (int i = 0; i < 2; i++) {
        double block = vram_ggml_get(type)->block;
        if (width - block * vram_floor_div(width, block) == 0) return type;
        type = i == 0 && smaller[type] != VRAM_GGML_F32 ? smaller[type] : VRAM_GGML_F16;
    }
    return type;
}

static vram_ggml_type type_of(recipe *r, const piece *p, double layer)
{
    if (p->category == VRAM_ROLE_OF_FULL) return VRAM_GGML_F32;
    if (p->category == VRAM_ROLE_OF_HALF) return r->base == VRAM_GGML_F32 ? VRAM_GGML_F32 : VRAM_GGML_F16;
    bool plain = vram_ggml_get(r->base)->block == 1;
    if (plain) return p->category == VRAM_ROLE_OF_INDEXER ? VRAM_GGML_F32 : r->base; /* the converter keeps it whole, llama-quantize does not */
    return fallback(wanted_type(r, p, layer), p->width);
}

/* --------------------------------------------------------------------------------------------------------- the walk -- */

/* The file's tensors of every row of the table: of all its layers the same, but for their types */
typedef struct { int n[VRAM_MAX_TENSORS]; piece piece[VRAM_MAX_TENSORS][MAX_PIECES]; } file_rows;

static bool has_values(const file_rows *rows, int i)
{
    bool any = false;
    for (int k = 0; k < rows->n[i]; k++) any |= rows->piece[i][k].category == VRAM_ROLE_OF_VALUE || rows->piece[i][k].category == VRAM_ROLE_OF_QKV;
    return any;
}

/* Whose heads the file states for layer 0: none where layers without attention are written as such; files of delta nets have one number for all layers */
static const vram_attention *first_attention(const vram_model *model)
{
    int64_t i = 0;
    while (i + 1 < model->layers && model->kind[model->layer_kind[i]].state.type == VRAM_STATE_GATED_DELTA) i++;
    return &model->kind[model->layer_kind[i]].attention;
}

static recipe recipe_of(const vram_scenario *scenario, const vram_model *model, vram_format format, const file_rows *rows)
{
    const vram_format_row *row = vram_format_get(format);
    const vram_attention *first = first_attention(model);
    double more = vram_mtp_layers(scenario, model);
    recipe r = {.mix = row->mix, .base = row->ggml, .layers = (double)model->layers + more, .tied = model->tied, .imatrix = scenario->llama_cpp.imatrix > 0,
                .falcon = is(model->model_type, "falcon")};
    for (int i = 0; i < model->kinds; i++) r.experts = vram_max(r.experts, (double)model->kind[i].ffn.experts);
    if (first->type == VRAM_MIXER_SOFTMAX) r.grouping = vram_floor_div((double)first->heads, (double)first->kv_heads);
    for (int i = 0; i < model->tensors; i++)
        if (model->tensor[i].kind >= 0 && has_values(rows, i))
            r.values += (double)model->tensor[i].layers + (model->tensor[i].kind == model->layer_kind[model->layers - 1] ? more : 0);
    r.seventy = model->layers == 80 && (is(model->model_type, "qwen2") || ((is(model->model_type, "llama") || is(model->model_type, "mistral")) && r.grouping > 1));
    return r;
}

typedef struct { const vram_model *model; const file_rows *rows; recipe recipe; vram_gguf_visitor *visit; void *context; } walker;

static void visit_pieces(walker *w, const vram_tensor *t, int n, const piece pieces[], double layer)
{
    for (const piece *p = pieces; p < pieces + n; p++) {
        vram_ggml_type type = type_of(&w->recipe, p, layer);
        vram_gguf_tensor tensor = {t, p->category, type, (int64_t)layer, p->category == VRAM_ROLE_OF_TOKEN_EMBEDDING, p->width, p->rows, p->matrices, 0};
        tensor.bytes = vram_ggml_bytes(type, p->width) * p->rows * p->matrices;
        w->visit(w->context, &tensor);
    }
}

static void visit_layer(walker *w, int kind, double layer)
{
    for (int i = 0; i < w->model->tensors; i++)
        if (w->model->tensor[i].kind == kind) visit_pieces(w, &w->model->tensor[i], w->rows->n[i], w->rows->piece[i], layer);
}

static void visit_more(walker *w, const vram_tensor *t, double layer)
{
    piece pieces[MAX_PIECES];
    visit_pieces(w, t, pieces_of(w->model, t, pieces), pieces, layer);
}

void vram_gguf_walk(const vram_scenario *scenario, const vram_model *model, vram_format format, vram_gguf_visitor *visit, void *context)
{
    file_rows rows;
    for (int i = 0; i < model->tensors; i++) rows.n[i] = pieces_of(model, &model->tensor[i], rows.piece[i]);
    walker w = {model, &rows, recipe_of(scenario, model, format, &rows), visit, context};
    int64_t more = (int64_t)vram_mtp_layers(scenario, model);
    vram_tensor join = vram_mtp_projection(model), norms = vram_mtp_norms(model);
    visit_layer(&w, -1, -1);
    for (int64_t layer = 0; layer < model->layers; layer++) visit_layer(&w, model->layer_kind[layer], (double)layer);
    for (int64_t i = 0; i < more; i++) {
        double layer = (double)(model->layers + i);
        visit_layer(&w, model->layer_kind[model->layers - 1], layer);
        visit_more(&w, &join, layer);
        visit_more(&w, &norms, layer);
    }
}

/* -------------------------------------------------------------------------------------------------------- the bytes -- */

typedef struct {
    const vram_scenario *scenario;
    const vram_model *model;
    bool engine;               /* only what llama.cpp puts on the GPU */
    bool divided;              /* over GPUs */
    vram_llama_cpp_layers gpu; /* what it has */
    double blocks[VRAM_PART_OTHER + 1][VRAM_GGML_COUNT];
    double padding;
    double host;               /* bytes that stay in host memory */
} sums;

/* CUDA: a quantised row that is no multiple of 512 gets room for a whole one after the tensor; tensors start at multiples of 128 bytes.
 * Copies are experts of one tensor, but tensors of their own where they are vectors outside the experts (norms; A, D and dt bias). */
static double cuda_padding(const vram_gguf_tensor *t)
{
    double over = t->width - 512 * vram_floor_div(t->width, 512), bytes = t->bytes;
    bool apart = t->row->columns == 1 && t->row->part != VRAM_PART_EXPERT;
    if (vram_ggml_get(t->type)->block > 1 && over > 0) bytes += vram_ggml_bytes(t->type, 512 - over);
    return apart ? t->matrices * vram_round_up(bytes / t->matrices, 128) - bytes : vram_round_up(bytes, 128) - t->bytes;
}

/* The embedding stays in host memory; tied, it is loaded again as the output. The output stage is one of the layers given to the GPU. */
static bool on_gpu(const sums *s, const vram_gguf_tensor *t)
{
    if (!s->engine) return true;
    if (t->layer >= 0) return t->layer >= s->gpu.first && (t->layer < s->gpu.end || s->gpu.head);
    bool with_first_layer = has(t->row->name, "per_layer_model_proj") || has(t->row->name, "per_layer_projection_norm") || has(t->row->name, "embedding_norm");
    if (with_first_layer) return s->gpu.first == 0 && s->gpu.end > 0;
    if (t->token_embedding) return s->model->tied && s->gpu.head && is(t->row->name, "embed_tokens");
    return t->row->part != VRAM_PART_EMBEDDING && s->gpu.head;
}

/* What this GPU has of a row */
static double share_of(const sums *s, const vram_tensor *t)
{
    vram_tensor mine = vram_rank_tensor(s->scenario, s->model, t);
    if (s->engine) mine.layers = t->layers; /* which layers is said by number */
    double whole = vram_tensor_params(t);
    return whole > 0 ? vram_tensor_params(&mine) / whole : 0;
}

static void sum_tensor(void *context, const vram_gguf_tensor *t)
{
    sums *s = context;
    double share = s->divided ? share_of(s, t->row) : 1;
    vram_part part = s->engine && t->token_embedding ? VRAM_PART_HEAD : t->row->part;
    if (!on_gpu(s, t)) return;
    s->blocks[part][t->type] += t->bytes / vram_ggml_get(t->type)->bytes * share;
    if (s->engine) s->padding += cuda_padding(t);
}

/* Tensors start at multiples of 32 bytes in the file, and so in its mapping. A tied embedding is there once, whoever has a copy. */
static void sum_host_tensor(void *context, const vram_gguf_tensor *t)
{
    sums *s = context;
    if (t->token_embedding || !on_gpu(s, t)) s->host += vram_round_up(t->bytes, 32);
}

/* load_tensors: GPU i of p has what lies from i/p to (i+1)/p of the layers given to GPUs, the output stage being the last; cards are taken to be equal */
static vram_llama_cpp_layers layers_of(const vram_scenario *s, const vram_model *m, double gpu)
{
    double all = (double)m->layers + 1, given = s->llama_cpp.gpu_layers < 0 ? all : vram_min(all, (double)s->llama_cpp.gpu_layers), p = (double)s->parallel.pipeline;
    double first = all - given + vram_ceil_div(gpu * given, p), end = all - given + vram_ceil_div((gpu + 1) * given, p);
    return (vram_llama_cpp_layers){(int64_t)vram_min(first, all - 1), (int64_t)vram_min(end, all - 1), end >= all && given > 0};
}

enum { MAX_GPUS = 64 };
typedef struct { const vram_scenario *scenario; const vram_model *model; int gpus; double bytes[MAX_GPUS]; } shares;

static void add_to_gpu(void *context, const vram_gguf_tensor *t)
{
    shares *s = context;
    for (int i = 0; i < s->gpus; i++) {
        sums one = {.scenario = s->scenario, .model = s->model, .engine = true, .gpu = layers_of(s->scenario, s->model, i)};
        if (on_gpu(&one, t)) s->bytes[i] += t->bytes;
    }
}

vram_llama_cpp_layers vram_llama_cpp_on_gpu(const vram_scenario *scenario, const vram_model *model)
{
    shares s = {.scenario = scenario, .model = model, .gpus = scenario->parallel.pipeline < MAX_GPUS ? (int)scenario->parallel.pipeline : MAX_GPUS};
    int fullest = 0;
    if (s.gpus <= 1) return layers_of(scenario, model, 0);
    vram_gguf_walk(scenario, model, vram_llama_cpp_file(scenario, scenario->weights), add_to_gpu, &s);
    for (int i = 0; i < s.gpus; i++) {
        vram_llama_cpp_layers l = layers_of(scenario, model, i);
        s.bytes[i] += vram_llama_cpp_cache_bytes(scenario, model, l.first, l.end);
        if (s.bytes[i] > s.bytes[fullest]) fullest = i;
    }
    return layers_of(scenario, model, fullest);
}

static int64_t host_layers(const vram_scenario *s, const vram_model *m)
{
    return s->llama_cpp.gpu_layers < 0 || s->llama_cpp.gpu_layers > m->layers ? 0 : s->llama_cpp.gpu_layers == 0 ? m->layers : m->layers + 1 - s->llama_cpp.gpu_layers;
}

/* Windowed layers are rotated without the factors. */
static bool rotates_on_host(const vram_model *model, double first_on_gpu)
{
    for (int64_t i = 0; i < model->layers && (double)i < first_on_gpu; i++)
        if (model->kind[model->layer_kind[i]].attention.window == 0 || vram_llama_cpp_ignores_windows(model)) return true;
    return false;
}

double vram_gguf_host_bytes(const vram_scenario *scenario, const vram_model *model, vram_format format)
{
    sums s = {.scenario = scenario, .model = model, .engine = true, .gpu = {host_layers(scenario, model), model->layers, scenario->llama_cpp.gpu_layers != 0}};
    vram_gguf_walk(scenario, model, format, sum_host_tensor, &s);
    return s.host + (rotates_on_host(model, (double)s.gpu.first) ? vram_round_up(4 * (double)model->rotary_factors, 32) : 0);
}

static void add_sums(const sums *s, vram_role role, unsigned phases, vram_report *report)
{
    for (int part = 0; part <= VRAM_PART_OTHER; part++)
        for (int type = 0; type < VRAM_GGML_COUNT; type++) {
            const vram_ggml_row *row = vram_ggml_get((vram_ggml_type)type);
            if (s->blocks[part][type] == 0) continue;
            vram_entry *e = vram_add(report, role, VRAM_COMPONENT_WEIGHTS, vram_what_of_part((vram_part)part), VRAM_EXACT, VRAM_SOURCE_LLAMA_CPP, phases);
            vram_times(e, row->block == 1 ? VRAM_SYMBOL_PARAMETERS : VRAM_SYMBOL_BLOCKS, vram_ceil_div(s->blocks[part][type], 1));
            vram_times(e, row->block == 1 ? VRAM_SYMBOL_BYTES_PER_PARAMETER : VRAM_SYMBOL_BYTES_PER_BLOCK, row->bytes);
        }
    if (s->padding > 0) vram_times(vram_add(report, role, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_PADDING, VRAM_EXACT, VRAM_SOURCE_LLAMA_CPP, phases), VRAM_SYMBOL_BYTES, s->padding);
}

void vram_gguf_weights(const vram_scenario *scenario, const vram_model *model, vram_role role, vram_format format, unsigned phases, vram_report *report)
{
    sums s = {.scenario = scenario, .model = model, .engine = scenario->task == VRAM_TASK_INFERENCE && scenario->engine == VRAM_ENGINE_LLAMA_CPP};
    s.divided = scenario->parallel.tensor > 1 || scenario->parallel.expert > 1 || scenario->parallel.pipeline > 1;
    if (s.engine) s.gpu = vram_llama_cpp_on_gpu(scenario, model);
    vram_gguf_walk(scenario, model, format, sum_tensor, &s);
    if (!s.engine || s.gpu.first < s.gpu.end) s.blocks[VRAM_PART_OTHER][VRAM_GGML_F32] += (double)model->rotary_factors;
    add_sums(&s, role, phases, report);
}
