/* family_details.c -- what the numbers of a row in families.c do not say: about all layers of a family (adjust), about one
 * layer (special), and side paths beside the usual layers. */
#include "families.h"

#include <string.h>

void family_afmoe_adjust(reader *r) { r->attention.gate_width = r->attention.heads * r->attention.head_dim; }

/* One more norm behind the experts (A.X K1). */
void family_axk1_special(reader *r, int64_t i, vram_layer *l)
{
    (void)r, (void)i;
    if (l->ffn.experts > 0) l->norms++;
}

/* Ling 2.5: latent attention has a gate a head. */
void family_bailing_adjust(reader *r)
{
    r->attention.gate_width = r->attention.heads;
}

/* A norm before the output and one before down (BitNet). */
void family_bitnet_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) {
        config_extra(r, k, "attn_sub_norm", VRAM_PART_NORM, 1, r->model->hidden, 1, false);
        config_extra(r, k, "ffn_sub_norm", VRAM_PART_NORM, 1, r->width, 1, false);
    }
}

/* xIELU has two numbers a layer. */
void family_apertus_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "act_fn", VRAM_PART_MLP, 2, 1, 1, false);
}

/* Four lambda vectors a layer. */
void family_diffllama_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "lambda", VRAM_PART_ATTENTION, 4, r->attention.head_dim, 1, false);
}

/* A bias behind the experts (JetMoE); heads follow from the keys' heads and the experts a token takes. */
void family_jetmoe_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->kv_heads = config_whole(r, "num_key_value_heads", 16, 1, CONFIG_COUNT);
    a->experts = r->sparse.experts;
    a->experts_per_token = r->sparse.experts_per_token;
    a->heads = a->kv_heads * a->experts_per_token;
}

void family_jetmoe_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) config_extra(r, k, "bias", VRAM_PART_MLP, 1, r->model->hidden, 1, false);
}

/* Falcon: one key head with multi_query, as many as said in the new layout; one or two norms. */
void family_falcon_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    bool renewed = config_flag(r, "new_decoder_architecture", false), one = config_flag(r, "multi_query", true);
    a->kv_heads = renewed ? config_whole(r, "num_kv_heads", a->heads, 1, a->heads) : one ? 1 : a->heads;
    if (config_flag(r, "alibi", false)) r->model->position = VRAM_POSITION_ALIBI;
}

void family_falcon_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    bool renewed = config_flag(r, "new_decoder_architecture", false), parallel = config_flag(r, "parallel_attn", true);
    l->parallel = renewed || parallel;
    l->norms = !parallel || config_whole(r, "num_ln_in_parallel_attn", renewed ? 2 : 1, 0, 2) == 2 ? 2 : 1;
}

void family_bigcode_adjust(reader *r)
{
    if (config_flag(r, "multi_query", true)) r->attention.kv_heads = 1;
}

void family_neo_adjust(reader *r) { r->window = config_whole(r, "window_size", 256, 0, INT64_C(1) << 40); }

void family_opt_adjust(reader *r)
{
    vram_model *m = r->model;
    m->position_rows = m->max_positions + 2;
    m->final_norm = config_flag(r, "do_layer_norm_before", true) && !config_flag(r, "_remove_final_layer_norm", false);
    if (!config_flag(r, "layer_norm_elementwise_affine", true)) m->norm = VRAM_NORM_LAYER_BARE;
    int64_t width = config_whole(r, "word_embed_proj_dim", m->hidden, 1, CONFIG_WIDEST);
    m->embedding_width = width == m->hidden ? 0 : width;
}

/* Cohere 2 with experts: dense layers may have a width of their own. */
void family_cohere2_moe_adjust(reader *r) { r->dense.width = config_whole(r, "prefix_dense_intermediate_size", r->width, 1, CONFIG_WIDEST); }

/* Helium: the output projection is square, whatever the heads. */
void family_helium_adjust(reader *r) { r->attention.output = r->model->hidden; }

/* Hunyuan: a shared MLP as wide as the dense one; each layer may choose another number of experts. */
void family_hunyuan_adjust(reader *r) { r->sparse.shared_width = r->width; }

void family_hunyuan_special(reader *r, int64_t i, vram_layer *l)
{
    if (l->ffn.experts == 0) return;
    r->layer = i;
    l->ffn.experts_per_token = config_whole(r, "moe_topk num_experts_per_tok", l->ffn.experts_per_token, 1, l->ffn.experts);
}

void family_granite_shared_adjust(reader *r)
{
    r->dense.width = 0;
    r->dense.type = VRAM_FFN_NONE;
    int64_t shared = config_whole(r, "shared_intermediate_size", r->family->experts->shared_width, 0, CONFIG_WIDEST);
    if (r->sparse.experts == 0) { /* the shared MLP is all there is */
        r->dense.type = shared > 0 ? VRAM_FFN_GATED : VRAM_FFN_NONE;
        r->dense.shared_width = shared;
        r->dense.shared_fused = true;
    }
}

/* LFM2: two thirds of the width, times a multiplier, up to a multiple. */
void family_lfm2_adjust(reader *r)
{
    int64_t width = config_whole(r, "block_ff_dim intermediate_size", 12288, 1, CONFIG_WIDEST);
    if (config_flag(r, "block_auto_adjust_ff_dim", true)) {
        int64_t step = config_whole(r, "block_multiple_of", 256, 1, CONFIG_WIDEST);
        width = 2 * width / 3;
        width = (int64_t)(config_real(r, "block_ffn_dim_multiplier", 1, 0.001, 1024) * (double)width);
        width = step * ((width + step - 1) / step);
    }
    r->dense.width = width;
    r->model->tied = config_flag(r, "tie_embedding", r->model->tied);
}

void family_lfm2_moe_adjust(reader *r)
{
    r->model->tied = config_flag(r, "tie_embedding", r->model->tied);
    r->sparse.router_bias = config_flag(r, "use_expert_bias", true);
}

/* Llama 4: dense layers have a width of their own; q/k norms without weights. */
void family_llama4_adjust(reader *r)
{
    r->dense.width = config_whole(r, "intermediate_size_mlp", 16384, 1, CONFIG_WIDEST);
    if (config_flag(r, "use_qk_norm", true)) r->attention.qk_norm = VRAM_QK_NORM_BARE;
}

/* LongCat: a block is two layers; the first has the experts beside its MLP. */
void family_longcat_adjust(reader *r)
{
    r->model->layers *= 2;
    if (r->model->layers > VRAM_MAX_LAYERS) config_fail(r, VRAM_ERROR_RANGE, "num_layers", (double)r->model->layers / 2, 1, VRAM_MAX_LAYERS / 2);
}

void family_longcat_special(reader *r, int64_t i, vram_layer *l)
{
    if (i % 2 == 0) {
        l->ffn = r->sparse;
        l->ffn.width = r->width;
    } else {
        l->ffn = r->dense;
    }
}

/* MiMo-V2: values are narrower; windows have key heads (and more) of their own, and sinks. */
void family_mimo_adjust(reader *r) { r->attention.v_head_dim = config_whole(r, "v_head_dim", 128, 1, CONFIG_COUNT); }

void family_mimo_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    vram_attention *a = &l->attention;
    if (a->window == 0) return;
    a->heads = config_whole(r, "swa_num_attention_heads", a->heads, 1, CONFIG_COUNT);
    a->kv_heads = config_whole(r, "swa_num_key_value_heads", 2 * a->kv_heads, 1, CONFIG_COUNT);
    a->head_dim = config_whole(r, "swa_head_dim", a->head_dim, 1, CONFIG_COUNT);
    a->v_head_dim = config_whole(r, "swa_v_head_dim", a->v_head_dim, 1, CONFIG_COUNT);
    a->sinks = true;
}

/* MiniMax-M3: dense layers have a width of their own; marked layers an indexer with keys of their own. */
void family_m3_adjust(reader *r)
{
    r->dense.width = config_whole(r, "dense_intermediate_size", 12288, 1, CONFIG_WIDEST);
    r->dense.type = VRAM_FFN_GATED;
}

void family_m3_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *marks = config_list(r, "sparse_attention_config.sparse_attention_freq", 0);
    const cJSON *item = cJSON_GetArrayItem(r->types ? r->types : marks, (int)i);
    bool marked = r->types ? cJSON_IsString(item) && strcmp(item->valuestring, "minimax_m3_sparse") == 0 : cJSON_IsNumber(item) && item->valuedouble > 0;
    if (!marked) return;
    l->attention.index_heads = config_whole(r, "sparse_attention_config.sparse_num_index_heads index_n_heads", 4, 1, CONFIG_COUNT);
    l->attention.index_head_dim = config_whole(r, "sparse_attention_config.sparse_index_dim index_head_dim", 128, 1, CONFIG_COUNT);
}

void family_m3_paths(reader *r)
{
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_attention *a = &r->model->kind[k].attention;
        if (a->index_heads == 0) continue;
        config_extra(r, k, "q_proj", VRAM_PART_ATTENTION, 1, a->index_heads * a->index_head_dim, r->model->hidden, true);
        config_extra(r, k, "k_proj", VRAM_PART_ATTENTION, 1, a->index_head_dim, r->model->hidden, true);
        config_extra(r, k, "q_norm", VRAM_PART_NORM, 2, a->index_head_dim, 1, false);
    }
}

/* V3.2, GLM-5: an indexer on every layer, or where indexer_types says full. */
void family_dsa_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *types = config_list(r, "indexer_types", r->model->layers);
    const cJSON *item = types ? cJSON_GetArrayItem(types, (int)i) : NULL;
    const char *pattern = config_text(r, "index_topk_pattern");
    int64_t every = config_whole(r, "index_topk_freq", 1, 0, VRAM_MAX_LAYERS), offset = config_whole(r, "index_skip_topk_offset", 2, 0, VRAM_MAX_LAYERS);
    bool full = every < 2 || (i - offset + 1 > 0 ? i - offset + 1 : 0) % every == 0;
    if (*pattern) full = (size_t)i < strlen(pattern) && pattern[i] == 'F';
    if (item) full = cJSON_IsString(item) && strcmp(item->valuestring, "full") == 0;
    if (!full) return;
    l->attention.index_heads = config_whole(r, "index_n_heads", r->family->index_heads, 1, CONFIG_COUNT);
    l->attention.index_topk = config_whole(r, "index_topk", 2048, 1, 1 << 24);
    l->attention.index_head_dim = config_whole(r, "index_head_dim", 128, 1, CONFIG_COUNT);
}

/* DeepSeek-V4: one latent is key and value; every layer keeps a window, and most a compressed past. */
void family_v4_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->q_lora_rank = config_whole(r, "q_lora_rank", 1024, 1, CONFIG_WIDEST);
    a->qk_rope_head_dim = config_whole(r, "qk_rope_head_dim", 64, 0, CONFIG_COUNT);
    a->o_groups = config_whole(r, "o_groups", 8, 1, CONFIG_COUNT);
    a->o_lora_rank = config_whole(r, "o_lora_rank", 1024, 1, CONFIG_WIDEST);
    a->one_cache = true;
    r->sparse.shared_width = r->sparse.expert_width; /* one, whatever their number */
}

void family_v4_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    const cJSON *list = config_list(r, "compress_ratios", 0), *item = list ? cJSON_GetArrayItem(list, (int)i) : NULL;
    layer_type type = config_layer_type(r, i);
    a->window = r->window;
    if (type == LAYER_COMPRESSED) a->compress_ratio = config_whole(r, "compress_rates.compressed_sparse_attention compress_rate_csa", 4, 1, 1 << 20);
    if (type == LAYER_HEAVILY_COMPRESSED) a->compress_ratio = config_whole(r, "compress_rates.heavily_compressed_attention compress_rate_hca", 128, 1, 1 << 20);
    if (!r->types && cJSON_IsNumber(item) && item->valuedouble >= 1 && item->valuedouble <= 1 << 20) a->compress_ratio = (int64_t)item->valuedouble;
    if (type == LAYER_COMPRESSED) {
        a->index_heads = config_whole(r, "index_n_heads", 64, 1, CONFIG_COUNT);
        a->index_head_dim = config_whole(r, "index_head_dim", 128, 1, CONFIG_COUNT);
    }
    const cJSON *kinds = config_list(r, "mlp_layer_types", 0);
    const cJSON *kind = kinds ? cJSON_GetArrayItem(kinds, (int)i) : NULL;
    bool hashed = kind ? cJSON_IsString(kind) && strcmp(kind->valuestring, "hash_moe") == 0 : i < config_whole(r, "num_hash_layers", 3, 0, VRAM_MAX_LAYERS);
    if (hashed) l->ffn.router_bias = false;
}

/* Compressors, their indexers, and hyper-connections of hc_mult streams. Source: modeling_deepseek_v4.py */
void family_v4_paths(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, n = config_whole(r, "hc_mult", 4, 1, 1024), mixes = (2 + n) * n;
    for (int k = 0; k < m->kinds; k++) {
        const vram_attention *a = &m->kind[k].attention;
        int64_t twice = a->index_heads > 0 ? 2 : 1, d = a->head_dim, q = a->index_head_dim;
        config_extra(r, k, "fn", VRAM_PART_OTHER, 2, mixes, n * h, false);
        config_extra(r, k, "base", VRAM_PART_OTHER, 2, mixes + 3, 1, false); /* base and scale */
        if (a->compress_ratio == 0) continue;
        config_extra(r, k, "position_bias", VRAM_PART_ATTENTION, 1, a->compress_ratio, twice * d, false);
        config_extra(r, k, "kv_proj", VRAM_PART_ATTENTION, 1, twice * d, h, true);
        config_extra(r, k, "gate_proj", VRAM_PART_ATTENTION, 1, twice * d, h, true);
        config_extra(r, k, "kv_norm", VRAM_PART_NORM, 1, d, 1, false);
        if (a->index_heads == 0) continue;
        config_extra(r, k, "position_bias", VRAM_PART_ATTENTION, 1, a->compress_ratio, 2 * q, false);
        config_extra(r, k, "kv_proj", VRAM_PART_ATTENTION, 1, 2 * q, h, true);
        config_extra(r, k, "gate_proj", VRAM_PART_ATTENTION, 1, 2 * q, h, true);
        config_extra(r, k, "kv_norm", VRAM_PART_NORM, 1, q, 1, false);
        config_extra(r, k, "q_b_proj", VRAM_PART_ATTENTION, 1, a->index_heads * q, a->q_lora_rank, true);
        config_extra(r, k, "weights_proj", VRAM_PART_ATTENTION, 1, a->index_heads, h, true);
    }
    config_extra(r, -1, "hc_fn", VRAM_PART_OTHER, 1, n, n * h, false);
    config_extra(r, -1, "hc_base", VRAM_PART_OTHER, 1, n + 1, 1, false);
}

/* Nemotron-H: a layer is one thing alone, behind one norm. */
void family_nemotron_h_adjust(reader *r)
{
    const char *letters = config_text(r, "hybrid_override_pattern");
    const cJSON *list = config_list(r, "layers_block_type layer_types", 0);
    size_t n = list ? (size_t)cJSON_GetArraySize(list) : strlen(letters);
    if (n > VRAM_MAX_LAYERS) config_fail(r, VRAM_ERROR_RANGE, "hybrid_override_pattern", (double)n, 1, VRAM_MAX_LAYERS);
    r->model->layers = n > 0 ? (int64_t)n : 4;
    r->sparse.latent_width = config_whole(r, "moe_latent_size", 0, 0, CONFIG_WIDEST);
}

void family_nemotron_h_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_ffn none;
    layer_type type = config_layer_type(r, i);
    l->ffn = type == LAYER_MOE ? r->sparse : type == LAYER_MLP ? r->dense : none;
}

/* RecurrentGemma: the MLP is half of intermediate_size. */
void family_griffin_adjust(reader *r)
{
    r->window = config_whole(r, "attention_window_size", 2048, 1, INT64_C(1) << 40);
    r->dense.width = r->width / 2;
}

/* Zamba: one block of attention and MLP for all hybrid layers, over the layer's input and the embeddings side by side. */
static int64_t hybrids(reader *r)
{
    int64_t n = 0;
    const cJSON *types = config_list(r, "layers_block_type layer_types", r->model->layers);
    r->types = types;
    for (int64_t i = 0; i < r->model->layers && !r->failed; i++) n += config_layer_type(r, i) == LAYER_BOTH;
    return n;
}

void family_zamba_adjust(reader *r)
{
    vram_attention *a = &r->attention;
    a->input = config_whole(r, "attention_hidden_size", 2 * r->model->hidden, 1, CONFIG_WIDEST);
    a->head_dim = config_whole(r, "attention_head_dim", 2 * r->model->hidden / a->heads, 1, CONFIG_WIDEST);
    a->v_head_dim = a->head_dim;
    if (!config_flag(r, "use_mem_rope", false)) r->model->position = VRAM_POSITION_NONE;
}

void family_zamba_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_ffn none;
    bool hybrid = config_layer_type(r, i) == LAYER_BOTH;
    if (!hybrid) l->ffn = none;
    else if (r->model->tied) l->shared_blocks = 1; /* the class ties everything or nothing */
}

void family_zamba_paths(reader *r)
{
    int64_t h = r->model->hidden;
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_layer *l = &r->model->kind[k];
        if (l->attention.type == VRAM_MIXER_NONE) continue;
        config_extra(r, k, "linear", VRAM_PART_OTHER, 1, h, h, true);
        config_extra(r, k, "shared_norm", VRAM_PART_NORM, 1, l->attention.input + h, 1, false)->layers = l->shared_blocks;
    }
}

void family_zamba2_special(reader *r, int64_t i, vram_layer *l)
{
    family_zamba_special(r, i, l);
    int64_t sets = config_whole(r, "num_mem_blocks", 1, 1, VRAM_MAX_LAYERS), uses = l->shared_blocks ? hybrids(r) : 0;
    if (l->shared_blocks) l->shared_blocks = sets < uses ? sets : uses;
}

/* Zamba 2: each use of a shared block has low-rank side paths of its own; a block holds those of all its uses, so that the
 * modules are counted once for each layer and use of its block. */
static void zamba2_path(reader *r, int kind, const char *name, vram_part part, int64_t copies, int64_t rows, int64_t columns)
{
    const cJSON *ids = config_list(r, "hybrid_layer_ids", 0);
    int64_t layers = hybrids(r), uses = ids ? cJSON_GetArraySize(ids) : layers, sets = config_whole(r, "num_mem_blocks", 1, 1, VRAM_MAX_LAYERS), modules = 0, stored = 0;
    for (int64_t i = 0; i < layers; i++) {
        int64_t here = (uses - i % sets + sets - 1) / sets; /* uses u with u % sets == i % sets */
        modules += here;
        if (i < sets || !r->model->tied) stored += here;
    }
    vram_tensor *tensor = config_extra(r, kind, name, part, copies, rows, columns, true);
    tensor->layers = stored;
    tensor->modules = modules * copies;
}

void family_zamba2_paths(reader *r)
{
    int64_t h = r->model->hidden, rank = config_whole(r, "adapter_rank", 128, 1, CONFIG_WIDEST);
    bool attention = config_flag(r, "use_shared_attention_adapter", false);
    family_zamba_paths(r);
    for (int k = 0; k < r->model->kinds; k++) {
        const vram_layer *l = &r->model->kind[k];
        if (l->attention.type == VRAM_MIXER_NONE) continue;
        zamba2_path(r, k, "0", VRAM_PART_MLP, 1, rank, h);
        zamba2_path(r, k, "1", VRAM_PART_MLP, 1, 2 * r->width, rank);
        if (!attention) continue;
        zamba2_path(r, k, "0", VRAM_PART_ATTENTION, 3, rank, l->attention.input);
        zamba2_path(r, k, "1", VRAM_PART_ATTENTION, 3, l->attention.input, rank);
    }
}

/* ------------------------------------------------------------------------------------------------- Gemma 3n and 4 -- */

/* The last so many layers read the cache of an earlier one. */
static void share_cache(reader *r, int64_t i, vram_layer *l, int64_t standard)
{
    int64_t shared = config_whole(r, "num_kv_shared_layers", standard, 0, r->model->layers);
    l->attention.shares_cache = i >= r->model->layers - shared;
}

void family_gemma3n_special(reader *r, int64_t i, vram_layer *l)
{
    const cJSON *list = config_find(r, "intermediate_size");
    share_cache(r, i, l, 15);
    if (cJSON_IsArray(list)) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);
        l->ffn.width = config_number(r, item, "intermediate_size", 1, CONFIG_WIDEST);
    } else {
        l->ffn.width = config_whole(r, "intermediate_size", 16384, 1, CONFIG_WIDEST);
    }
    l->ffn.type = VRAM_FFN_GATED;
}

/* A table of numbers per token and layer, and the way of it into each layer. */
static void per_layer_inputs(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, p = config_whole(r, "hidden_size_per_layer_input", 256, 0, CONFIG_WIDEST);
    int64_t words = config_whole(r, "vocab_size_per_layer_input", 262144, 1, 1 << 24);
    if (p == 0) return;
    config_extra(r, -1, "embed_tokens_per_layer", VRAM_PART_EMBEDDING, 1, words, m->layers * p, false)->shard = VRAM_SHARD_VOCABULARY;
    config_extra(r, -1, "per_layer_model_projection", VRAM_PART_OTHER, 1, m->layers * p, h, true);
    config_extra(r, -1, "per_layer_projection_norm", VRAM_PART_NORM, 1, p, 1, false);
    for (int k = 0; k < m->kinds; k++) {
        config_extra(r, k, "per_layer_input_gate", VRAM_PART_OTHER, 1, p, h, true);
        config_extra(r, k, "per_layer_projection", VRAM_PART_OTHER, 1, h, p, true);
        config_extra(r, k, "post_per_layer_input_norm", VRAM_PART_NORM, 1, h, 1, false);
    }
}

/* AltUp carries several streams, LAuReL is a low-rank path beside the residual. Source: modeling_gemma3n.py */
void family_gemma3n_paths(reader *r)
{
    const vram_model *m = r->model;
    int64_t h = m->hidden, n = config_whole(r, "altup_num_inputs", 4, 1, 16), rank = config_whole(r, "laurel_rank", 64, 1, CONFIG_WIDEST);
    per_layer_inputs(r);
    for (int64_t i = 0; i < n - 1; i++) { /* modules of a list are called by their number: altup_projections.0, altup_unembed_projections.0 */
        const char name[3] = {i < 10 ? (char)('0' + i) : '1', i < 10 ? '\0' : (char)('0' + i - 10), '\0'};
        config_extra(r, -1, name, VRAM_PART_OTHER, 2, h, h, true);
    }
    for (int k = 0; k < m->kinds; k++) {
        config_extra(r, k, "correct_output_scale", VRAM_PART_OTHER, 1, h, 1, false);
        config_extra(r, k, "correction_coefs", VRAM_PART_OTHER, 1, n, n, true);
        config_extra(r, k, "prediction_coefs", VRAM_PART_OTHER, 1, n * n, n, true);
        config_extra(r, k, "modality_router", VRAM_PART_OTHER, 1, n, h, true);
        config_extra(r, k, "router_norm", VRAM_PART_NORM, 2, h, 1, false); /* and post_laurel_norm */
        config_extra(r, k, "linear_left", VRAM_PART_OTHER, 1, rank, h, true);
        config_extra(r, k, "linear_right", VRAM_PART_OTHER, 1, h, rank, true);
    }
}

void family_gemma4_adjust(reader *r)
{
    if (!config_flag(r, "enable_moe_block", false)) r->sparse.experts = 0;
    r->sparse.width = r->width;
}

/* Full layers have heads of another size, perhaps other key heads, perhaps no v_proj; the last layer is always full. */
void family_gemma4_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    bool last = i == r->model->layers - 1, one = config_flag(r, "attention_k_eq_v", false);
    if (last) a->window = 0;
    bool full = last || config_layer_type(r, i) == LAYER_FULL;
    share_cache(r, i, l, 0);
    a->k_is_v = full && one;
    if (full && !config_find(r, "per_layer_config")) { /* which says the same, where it stands */
        a->head_dim = a->v_head_dim = config_whole(r, "global_head_dim", 512, 1, CONFIG_COUNT);
        if (one) a->kv_heads = config_whole(r, "num_global_key_value_heads", a->kv_heads, 1, a->heads);
    }
    if (a->shares_cache && config_flag(r, "use_double_wide_mlp", false)) l->ffn.width *= 2;
    if (l->ffn.experts > 0) l->norms += 3;
}

void family_gemma4_paths(reader *r)
{
    per_layer_inputs(r);
    for (int k = 0; k < r->model->kinds; k++) {
        config_extra(r, k, "layer_scalar", VRAM_PART_OTHER, 1, 1, 1, false)->buffer = true;
        if (r->model->kind[k].ffn.experts == 0) continue;
        config_extra(r, k, "scale", VRAM_PART_ROUTER, 1, r->model->hidden, 1, false);
        config_extra(r, k, "per_expert_scale", VRAM_PART_ROUTER, 1, r->sparse.experts, 1, false);
    }
}

/* --------------------------------------------------------------------------------------- types without a class -- */

/* The first ChatGLM has the same type and another shape. */
void family_chatglm_adjust(reader *r)
{
    if (config_find(r, "inner_hidden_size")) config_fail(r, VRAM_ERROR_UNSUPPORTED, "inner_hidden_size", VRAM_NO_NUMBER, 1, 0);
    vram_attention *a = &r->attention;
    if (config_flag(r, "multi_query_attention", false)) a->kv_heads = config_whole(r, "multi_query_group_num", 1, 1, a->heads);
}

/* The first Qwen: an MLP of two halves. */
void family_qwen_adjust(reader *r) { r->dense.width = r->width / 2; }

/* Is the layer one of "3,4,5"? */
static bool enumerated(const char *numbers, int64_t layer)
{
    for (const char *c = numbers; *c;) {
        int64_t n = 0;
        while (*c && (*c < '0' || *c > '9')) c++;
        if (!*c) return false;
        for (; *c >= '0' && *c <= '9'; c++) n = n < 1000000 ? 10 * n + (*c - '0') : n;
        if (n == layer) return true;
    }
    return false;
}

/* Step 3.5: windows have heads of their own; a gate a head; layers with experts are enumerated in a text. */
void family_step_special(reader *r, int64_t i, vram_layer *l)
{
    vram_attention *a = &l->attention;
    const char *sparse = config_text(r, "moe_layers_enum");
    if (a->window > 0) {
        a->heads = config_whole(r, "attention_other_setting.num_attention_heads swa_num_attention_heads", a->heads, 1, CONFIG_COUNT);
        a->kv_heads = config_whole(r, "attention_other_setting.num_attention_groups swa_num_key_value_heads", a->kv_heads, 1, a->heads);
    }
    a->gate_width = config_flag(r, "use_head_wise_attn_gate", true) ? a->heads : 0;
    if (*sparse) l->ffn = enumerated(sparse, i) ? r->sparse : r->dense;
}

/* Arctic: a small dense MLP beside the experts, behind a norm of its own. */
void family_arctic_special(reader *r, int64_t i, vram_layer *l)
{
    (void)i;
    if (l->ffn.experts == 0 || !config_flag(r, "use_residual", true)) return;
    l->ffn.width = r->model->hidden;
    l->norms++;
}

/* Nemotron NAS: a layer may have no attention, or be without an MLP; each has a width of its own. */
void family_nas_special(reader *r, int64_t i, vram_layer *l)
{
    static const vram_attention no_attention;
    static const vram_ffn no_ffn;
    const cJSON *blocks = config_list(r, "block_configs", r->model->layers), *block = blocks ? cJSON_GetArrayItem(blocks, (int)i) : NULL;
    const cJSON *attention = cJSON_GetObjectItemCaseSensitive(block, "attention"), *ffn = cJSON_GetObjectItemCaseSensitive(block, "ffn");
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(attention, "n_heads_in_group"), *mult = cJSON_GetObjectItemCaseSensitive(ffn, "ffn_mult");
    if (!block) return;
    if (!cJSON_IsObject(attention) || !cJSON_IsObject(ffn)) config_fail(r, VRAM_ERROR_MISSING, cJSON_IsObject(attention) ? "block_configs.ffn" : "block_configs.attention", VRAM_NO_NUMBER, 1, 0);
    if (cJSON_IsNumber(group) && group->valuedouble >= 1 && group->valuedouble <= (double)l->attention.heads) {
        l->attention.kv_heads = l->attention.heads / (int64_t)group->valuedouble;
    } else {
        l->attention = no_attention;
        l->linear_attention = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(attention, "replace_with_linear"));
        if (!l->linear_attention) l->norms--;
    }
    if (cJSON_IsNumber(mult) && mult->valuedouble > 0 && mult->valuedouble < 1024) {
        l->ffn.width = ((int64_t)(2 * mult->valuedouble * (double)r->model->hidden / 3) + 255) / 256 * 256;
        l->ffn.type = VRAM_FFN_GATED;
    } else {
        l->ffn = no_ffn;
        l->linear_ffn = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(ffn, "replace_with_linear"));
        if (!l->linear_ffn) l->norms--;
    }
}

/* Rules of thumb: heads of 128, an MLP of 8/3 hidden up to a multiple of 256 (Llama's), width and depth from the number of
 * parameters when they are not given: 12 h^2 L of them, h = 128 L. */
void family_thumb_adjust(reader *r)
{
    vram_model *m = r->model;
    double params = config_real(r, "params", 7e9, 1, 1e15);
    bool wide = config_find(r, "hidden_size") != NULL, deep = config_find(r, "num_hidden_layers") != NULL;
    if (!wide && !deep) {
        m->layers = 1;
        while (m->layers < VRAM_MAX_LAYERS && 196608.0 * (double)((m->layers + 1) * (m->layers + 1) * (m->layers + 1)) <= params) m->layers++;
    }
    if (!wide) m->hidden = 128 * m->layers;
    if (!deep && wide) m->layers = m->hidden < 128 ? 1 : m->hidden / 128 < VRAM_MAX_LAYERS ? m->hidden / 128 : VRAM_MAX_LAYERS;
    int64_t heads = config_whole(r, "num_attention_heads", m->hidden >= 128 ? m->hidden / 128 : 1, 1, CONFIG_COUNT);
    vram_attention *a = &r->attention;
    a->type = VRAM_MIXER_SOFTMAX;
    a->heads = heads;
    a->kv_heads = config_whole(r, "num_key_value_heads", heads, 1, heads);
    a->head_dim = a->v_head_dim = config_whole(r, "head_dim", m->hidden / heads, 1, CONFIG_COUNT);
    r->dense.type = VRAM_FFN_GATED;
    r->dense.width = config_whole(r, "intermediate_size", (8 * m->hidden / 3 + 255) / 256 * 256, 1, CONFIG_WIDEST);
    if (r->sparse.experts > 0) r->sparse.expert_width = config_whole(r, "moe_intermediate_size", r->dense.width, 1, CONFIG_WIDEST);
}

/* Megatron's arguments. */
void family_megatron_adjust(reader *r)
{
    const char *positions = config_text(r, "position_embedding_type");
    bool learned = *positions == '\0' || strcmp(positions, "absolute") == 0 || strcmp(positions, "learned_absolute") == 0;
    r->model->position = learned ? VRAM_POSITION_LEARNED : strcmp(positions, "none") == 0 ? VRAM_POSITION_NONE : VRAM_POSITION_ROTARY;
    r->dense.type = r->sparse.type = config_flag(r, "mlp_gated", false) ? VRAM_FFN_GATED : VRAM_FFN_PLAIN;
    r->dense.fused_gate_up = r->dense.type == VRAM_FFN_GATED;
    if (r->dense.fused_gate_up && !config_find(r, "intermediate_size n_inner")) r->dense.width = 8 * r->model->hidden / 192 * 64; /* megatron/training/arguments.py: two thirds of 4 h, down to whole 64 */
    r->model->norm = config_flag(r, "norm_bias", true) ? VRAM_NORM_LAYER_BIAS : VRAM_NORM_RMS;
    r->sparse.expert_bias = r->dense.bias;
}
