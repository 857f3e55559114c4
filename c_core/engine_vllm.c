/* engine_vllm.c -- what vLLM allocates at start-up, and how many tokens its cache then holds.
 *
 *     cache = utilization * total - weights - buffers of the runner - activation peak of the profile run - CUDA graphs
 *
 * Rules of 0.33 (v1/worker/gpu_worker.py determine_available_memory, v1/worker/gpu/model_runner.py, v1/core/kv_cache_planning.py) and of the V0 engine
 * of 0.8 and before (worker/model_runner.py profile_run). The profile run is one pass of T = max_num_batched_tokens tokens without the attention
 * kernel, then the sampler for S = max_num_seqs rows: the peak is the fuller of the two. The experts' workspace and the sampler's rows stay.
 * Left out: kernels that the driver loads while profiling, whole segments of the allocator beyond their tensors (tens of MiB). */
#include "core.h"

#include <string.h>

static const double MIB = 1048576, PROFILED_KERNELS_MIB = 256; /* 0.24 to 0.27 GiB in 40 logs of 0.19 on H100, 0.25 in two of 2026 on RTX 4090 */

typedef struct {
    const vram_scenario *s;
    const vram_model *m;
    double T, S, L, h, V, b, ranks, h_bytes; /* tokens and rows of the profile run, context, widths; b: bytes of the compute type */
    bool v0, graphs, flashinfer;
} vllm;

static vllm open_vllm(const vram_scenario *s)
{
    vllm v = {.s = s, .m = &s->model};
    v.T = (double)s->vllm.max_num_batched_tokens;
    v.S = vram_min((double)s->vllm.max_num_seqs, v.T);
    v.L = (double)s->context;
    v.h = (double)s->model.hidden;
    v.V = vram_round_up((double)s->model.vocab, 64);
    v.b = vram_compute_bytes(s);
    v.ranks = (double)s->parallel.tensor;
    v.v0 = s->vllm.engine == VRAM_VLLM_V0;
    v.graphs = s->vllm.cuda_graphs > 0;
    v.flashinfer = !v.v0 && s->vllm.flashinfer_sampler > 0;
    return v;
}

static vram_entry *add(vram_report *report, vram_component component, vram_what what, vram_certainty kind, unsigned phases)
{
    return vram_add(report, VRAM_ROLE_MODEL, component, what, kind, VRAM_SOURCE_VLLM, phases);
}

/* ------------------------------------------------------------------------------------------------------------ weights -- */

static vram_format stored_format(const vllm *v)
{
    return v->s->weights != VRAM_FORMAT_NATIVE ? v->s->weights : v->m->native >= 0 ? v->m->native : VRAM_FORMAT_BF16;
}

static double rotary_width(const vram_attention *a)
{
    if (a->type == VRAM_MIXER_NONE) return 0;
    return a->type == VRAM_MIXER_MLA ? (double)a->qk_rope_head_dim : a->rotary_dim > 0 ? (double)a->rotary_dim : (double)a->head_dim;
}

/* vocab_parallel_embedding.py pads words to 64; rotary_embedding/base.py keeps cosines and sines of every position of the config, a table for each
 * kind of rotation (local and global layers of Gemma 3 have one each); mla_attention.py reads kv_b_proj as two batched matrices: views of it, but of a
 * quantised one copies in the compute type. */
static void extra_weights(const vllm *v, vram_report *report)
{
    const vram_model *m = v->m;
    static const char *const local_tables[] = {"gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified_text", NULL};
    bool quantised = vram_format_get(stored_format(v))->scheme != VRAM_SCHEME_NONE;
    double pad = v->V - (double)m->vocab, tables[2] = {0, 0}, width[2] = {0, 0};
    vram_entry *e = add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_PADDING, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, m->tied || v->s->parallel.pipeline > 1 ? 1 : 2), VRAM_SYMBOL_ROWS, vram_ceil_div(pad, v->ranks)), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_PARAMETER, v->b);
    for (int k = 0; k < m->kinds && m->position == VRAM_POSITION_ROTARY; k++) {
        const vram_attention *a = &m->kind[k].attention;
        int local = a->window > 0 && vram_model_is(m, local_tables);
        if (rotary_width(a) > width[local]) width[local] = rotary_width(a), tables[local] = 1;
        if (a->type != VRAM_MIXER_MLA || !quantised) continue;
        double layers = 0;
        for (int64_t i = 0; i < m->layers; i++) layers += m->layer_kind[i] == k;
        e = add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ABSORBED_PROJECTIONS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
        vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, vram_ceil_div(layers, (double)v->s->parallel.pipeline)), VRAM_SYMBOL_HEADS, vram_ceil_div((double)a->heads, v->ranks));
        vram_times(vram_times(vram_times(e, VRAM_SYMBOL_HEAD_DIM, (double)(a->qk_nope_head_dim + a->v_head_dim)), VRAM_SYMBOL_WIDTH, (double)a->kv_lora_rank), VRAM_SYMBOL_BYTES_PER_PARAMETER, v->b);
    }
    for (int t = 0; t < 2; t++) {
        e = add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_PHASES_INFERENCE);
        vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCE, tables[t] * (double)m->max_positions), VRAM_SYMBOL_WIDTH, width[t]);
        vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    }
}

/* Ranks that share each expert's width: with expert parallelism experts are whole on their ranks. */
static double expert_ranks(const vllm *v) { return (double)(v->s->parallel.expert > 1 ? v->s->parallel.expert_tensor : v->s->parallel.tensor); }

static bool padded_experts(const vllm *v) { return vram_format_get(stored_format(v))->scheme == VRAM_SCHEME_MXFP4; }
static bool hopper(const vllm *v) { return v->s->gpu.compute_capability >= 9 && v->s->gpu.compute_capability < 10; }

static void add_padding(const vllm *v, const vram_ffn *f, double layers, double elements, double bytes, vram_report *report)
{
    vram_entry *e = add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_PADDING, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, vram_ceil_div(layers, (double)v->s->parallel.pipeline)), VRAM_SYMBOL_EXPERTS, vram_ceil_div((double)f->experts, (double)v->s->parallel.expert));
    vram_times(vram_times(e, VRAM_SYMBOL_ELEMENTS, elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, bytes);
}

/* MXFP4 experts (gpt-oss; fused_moe/oracle/mxfp4.py): Marlin and TensorRT-LLM pad the experts' width to 128, the hidden width to 256. Triton's own kernels
 * on 9.0 pad the width to 64, what a row sums over to 256 and the rows of the scales to 256 (triton_kernels/tensor_details/layout_details/hopper_*.py;
 * logs of 0.11 and 0.19 on H100: 13.47 GiB for 20b, 64.38 for 120b). */
static void expert_padding(const vllm *v, vram_report *report)
{
    for (int k = 0; k < v->m->kinds && padded_experts(v); k++) {
        const vram_ffn *f = &v->m->kind[k].ffn;
        double layers = 0, ups = f->type == VRAM_FFN_GATED ? 2 : 1, m = vram_ceil_div((double)f->expert_width, expert_ranks(v)), h = v->h, held = (ups + 1) * m * h, wide = vram_round_up(m, 64);
        for (int64_t i = 0; i < v->m->layers; i++) layers += v->m->layer_kind[i] == k;
        if (f->experts == 0) continue;
        if (!hopper(v)) {
            add_padding(v, f, layers, (ups + 1) * vram_round_up(m, 128) * vram_round_up(h, 256) - held, 17.0 / 32, report);
            continue;
        }
        add_padding(v, f, layers, ups * wide * vram_round_up(h, 256) + h * vram_round_up(wide, 256) - held, 0.5, report);
        add_padding(v, f, layers, vram_round_up(ups * wide, 256) * h + vram_round_up(h, 256) * wide - held, 1.0 / 32, report);
    }
}

/* A tensor as vLLM holds it: query, key and value in one, gate and up in one, and so on; payload and scales apart. */
typedef struct { vram_allocator a; double tensors; const vllm *v; const vram_format_row *format; double numbers[VRAM_MAX_TENSORS]; /* of each row, in one layer */ } loading;

static bool packed(const vram_format_row *f, const vram_tensor *t)
{
    bool matrix = (t->linear || t->stacked) && !t->bias && !t->buffer && t->part != VRAM_PART_HEAD && t->part != VRAM_PART_EMBEDDING && t->part != VRAM_PART_ROUTER;
    if (f->scheme == VRAM_SCHEME_NONE) return false;
    return matrix && (f->scheme != VRAM_SCHEME_MXFP4 || t->part == VRAM_PART_EXPERT);
}

static void take(loading *l, double bytes)
{
    double whole = vram_ceil_div(bytes, 1);
    if (whole <= 0) return;
    vram_allocator_take(&l->a, whole);
    l->tensors += whole;
}

static void take_numbers(loading *l, double numbers, bool in_format)
{
    const vram_format_row *f = l->format;
    if (!in_format) {
        take(l, numbers * (f->scheme == VRAM_SCHEME_NONE ? f->block_bytes / f->block : l->v->b));
        return;
    }
    take(l, numbers / f->block * f->block_bytes);
    double together = f->scheme == VRAM_SCHEME_FP8_BLOCK ? f->group * f->group : f->group;
    if (f->group > 0) take(l, numbers / together * f->scale_bytes);
}

/* cos and sin of every position: made in fp32, kept in the compute type; what they leave free is found by the tensors after them */
static void take_rotary(loading *l, double width)
{
    double positions = (double)l->v->m->max_positions, half = positions * width / 2 * 4;
    if (half <= 0 || l->v->m->position != VRAM_POSITION_ROTARY) return;
    double blocks[4];
    for (int i = 0; i < 4; i++) blocks[i] = vram_allocator_take(&l->a, i < 3 ? half : 2 * half);
    take(l, positions * width * l->v->b);
    for (int i = 0; i < 4; i++) vram_allocator_give(&l->a, blocks[i]);
}

static bool merges(const vram_tensor *a, const vram_tensor *b)
{
    if (a->kind != b->kind || a->part != b->part || a->linear != b->linear || a->bias != b->bias || a->columns != b->columns || a->stacked || b->stacked) return false;
    bool rows = a->shard == VRAM_SHARD_ROWS || a->shard == VRAM_SHARD_KV_ROWS, other = b->shard == VRAM_SHARD_ROWS || b->shard == VRAM_SHARD_KV_ROWS;
    return a->linear && rows && other;
}

static double numbers_of(const loading *l, const vram_tensor *t)
{
    return vram_rank_tensor_params(l->v->s, l->v->m, t) / vram_ceil_div((double)t->layers, t->kind < 0 ? 1 : (double)l->v->s->parallel.pipeline);
}

/* The tensors of one layer or outside; -1: the embedding, -2: after the layers */
static void take_kind(loading *l, int kind, bool first_layer)
{
    const vram_model *m = l->v->m;
    bool rotary = !first_layer;
    for (int i = 0; i < m->tensors; i++) {
        const vram_tensor *t = &m->tensor[i];
        bool outside = t->kind < 0, embedding = t->part == VRAM_PART_EMBEDDING;
        if (outside ? kind != (embedding ? -1 : -2) : t->kind != kind) continue;
        if (!rotary && t->part != VRAM_PART_ATTENTION && t->part != VRAM_PART_NORM) {
            take_rotary(l, rotary_width(&m->kind[kind].attention));
            rotary = true;
        }
        double numbers = l->numbers[i];
        while (i + 1 < m->tensors && merges(t, &m->tensor[i + 1])) numbers += l->numbers[++i];
        if (outside && m->tensor[i].shard == VRAM_SHARD_VOCABULARY) numbers *= l->v->V / (double)m->vocab;
        take_numbers(l, numbers, packed(l->format, t));
    }
}

static void take_model(loading *l)
{
    const vram_model *m = l->v->m;
    for (int i = 0; i < m->tensors; i++) l->numbers[i] = numbers_of(l, &m->tensor[i]);
    take_kind(l, -1, false);
    int64_t layers = (int64_t)vram_ceil_div((double)m->layers, (double)l->v->s->parallel.pipeline);
    for (int64_t i = 0; i < layers; i++) take_kind(l, m->layer_kind[i], i == 0);
    take_kind(l, -2, false);
}

/* _scoped_allocator_max_split(20): blocks above 20 MiB are whole 2 MiB pages and stay whole */
static void rounding(const vllm *v, vram_report *report)
{
    loading l = {.v = v, .format = vram_format_get(stored_format(v))};
    if (v->m->params_override > 0 || l.format->scheme == VRAM_SCHEME_GGUF) return;
    l.a.max_split = v->v0 ? 0 : 20 * MIB;
    take_model(&l);
    vram_times(add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_BYTES, vram_max(0, l.a.allocated - l.tensors));
}

/* SGLang loads the same tensors and goes by how far free memory falls: whole segments. Its rotary table stays fp32 on CUDA.
 * Source: python/sglang/srt/model_executor/model_runner.py (load_model), utils/common.py
 * (get_available_gpu_memory), layers/rotary_embedding */
void vram_sglang_loading(const vram_scenario *s, vram_report *report)
{
    vllm v = open_vllm(s);
    double width = 0, free = 0;
    loading l = {.v = &v, .format = vram_format_get(stored_format(&v))};
    if (v.m->params_override > 0 || l.format->scheme == VRAM_SCHEME_GGUF) return;
    take_model(&l);
    for (int i = 0; i < l.a.blocks; i++) /* empty_cache() gives whole free segments back */
        if (l.a.block[i] < 10 * MIB || l.a.block[i] > vram_floor_div(l.a.block[i], 2 * MIB) * 2 * MIB) free += l.a.block[i];
    for (int k = 0; k < v.m->kinds && v.m->position == VRAM_POSITION_ROTARY; k++) width = vram_max(width, rotary_width(&v.m->kind[k].attention));
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_SOURCE_SGLANG, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCE, (double)v.m->max_positions), VRAM_SYMBOL_WIDTH, width), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_SOURCE_PYTORCH_ALLOCATOR, VRAM_PHASES_INFERENCE);
    vram_times(e, VRAM_SYMBOL_BYTES, vram_max(0, l.a.allocated + free - l.tensors));
}

/* ------------------------------------------------------------------------------------------- buffers of the runner (0.33) -- */

/* v1/worker/gpu/sample/penalties.py: a count for each row and word, a bit mask; structured_outputs.py: another mask; logit_bias.py, bad_words.py,
 * logprob.py: 17,924 bytes a row; input_batch.py: 12 bytes a token; cuBLAS's workspace. */
static void runner_buffers(const vllm *v, vram_report *report)
{
    double words = (double)v->m->vocab;
    if (v->v0) return;
    vram_component c = VRAM_COMPONENT_ENGINE_BUFFERS;
    vram_entry *e = add(report, c, VRAM_WHAT_PENALTY_COUNTS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, v->S), VRAM_SYMBOL_VOCABULARY, words), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = add(report, c, VRAM_WHAT_TOKEN_MASKS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, 2), VRAM_SYMBOL_SEQUENCES, v->S), VRAM_SYMBOL_WIDTH, vram_ceil_div(words, 32)), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = add(report, c, VRAM_WHAT_SAMPLING_STATE, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, v->S), VRAM_SYMBOL_BYTES, 17924);
    e = add(report, c, VRAM_WHAT_INPUT_IDS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_BYTES, 12);
}

/* --------------------------------------------------------------------------------------------------------- activation -- */

typedef struct { double width, hidden; vram_what what; double context; } forward; /* numbers a token: of a mixer or an MLP, and copies of the hidden width; bytes beside */

/* Hidden-sized tensors alive beside the MLP: embedding's output or residual, the layer's, the norm's; some families hold one or two more. */
static double hidden_copies(const vllm *v)
{
    static const char *const four[] = {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "granite", "exaone4", "smollm3", "seed_oss", "mimo", NULL};
    static const char *const five[] = {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified_text", "cohere2", "qwen3_5", "qwen3_5_text",
                                       "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "granitemoehybrid", NULL};
    if (v->graphs && !v->v0) return 3; /* compiled: the others are fused away */
    return vram_model_is(v->m, four) ? 4 : vram_model_is(v->m, five) ? 5 : 3;
}

/* Input and output of the activation; models that vLLM runs through transformers' own modules write some activations out in several
 * tensors. Compiled, the activation is computed in place. */
static forward plain_mlp(const vllm *v, double width, bool parallel)
{
    static const char *const three[] = {"bloom", "gptj", "falcon", "mpt", NULL}, *const six[] = {"gpt2", NULL}, *const four_inside[] = {"phi", NULL}, *const three_inside[] = {"arcee", NULL};
    double hidden = vram_model_is(v->m, three) ? 3 : vram_model_is(v->m, six) ? 6 : 4;
    if (v->graphs && !v->v0) return (forward){width, parallel ? 5 : 4, VRAM_WHAT_MLP_ACTIVATIONS, 0};
    return (forward){(vram_model_is(v->m, four_inside) ? 4 : vram_model_is(v->m, three_inside) ? 3 : 2) * width, hidden, VRAM_WHAT_MLP_ACTIVATIONS, 0};
}

static forward mlp_of(const vllm *v, const vram_layer *l, double width)
{
    static const char *const split_late[] = {"glm", NULL}; /* gate and up are halves of one tensor that is kept */
    double i = vram_ceil_div(width, v->ranks);
    if (l->ffn.type == VRAM_FFN_PLAIN) return plain_mlp(v, i, l->parallel);
    if (vram_model_is(v->m, split_late)) return (forward){4 * i, 4, VRAM_WHAT_MLP_ACTIVATIONS, 0};
    return (forward){3 * i, hidden_copies(v), VRAM_WHAT_MLP_ACTIVATIONS, 0};
}

/* mla_attention.py: the context of w tokens projected up to all heads */
static double latent_context(const vllm *v, const vram_attention *a)
{
    double tokens = vram_min(65536, vram_max(8 * v->L, 4 * (double)v->s->vllm.max_num_seqs * (double)v->s->vllm.block_size));
    return tokens * vram_ceil_div((double)a->heads, v->ranks) * (double)(a->qk_nope_head_dim + a->v_head_dim) * v->b;
}

static forward attention_of(const vllm *v, const vram_attention *a)
{
    static const char *const rotates_in_fp32[] = {"olmo", "olmo2", "olmo3", NULL};
    double heads = vram_ceil_div((double)a->heads, v->ranks), kv = vram_kv_heads_on_rank((double)a->kv_heads, v->ranks) * (double)a->head_dim;
    double q = heads * (double)a->head_dim, normed = a->qk_norm == VRAM_QK_NORM_NONE ? 0 : q + kv;
    if (a->type == VRAM_MIXER_MLA) {
        double r = (double)a->kv_lora_rank, rope = (double)a->qk_rope_head_dim;
        return (forward){heads * (double)(a->qk_nope_head_dim + a->qk_rope_head_dim) + 4 * r + rope + heads * (double)a->v_head_dim + 2 * (double)a->q_lora_rank, 2,
                         VRAM_WHAT_ATTENTION_ACTIVATIONS, latent_context(v, a)};
    }
    if (vram_model_is(v->m, rotates_in_fp32)) /* through transformers' modules: q k v, normed q and k, turned q and three of k in fp32, the tables */
        return (forward){q + 2 * kv + normed + 2 * q + 6 * kv + 4 * (double)a->head_dim, normed > 0 ? 2 : 3, VRAM_WHAT_ATTENTION_ACTIVATIONS, 0};
    if (a->output_gate) q *= 2;
    return (forward){2 * q + 2 * kv + normed, 3, VRAM_WHAT_ATTENTION_ACTIVATIONS, 0};
}

/* mamba_mixer.py: 2 inner in, one made contiguous, and one beside; mamba_mixer2.py: projections, output, and a gated norm in fp32 where there are groups */
static forward state_of(const vllm *v, const vram_state *x)
{
    vram_state_shape shape = vram_state_size(x);
    double inner = vram_ceil_div(shape.channels, v->ranks), conv = vram_ceil_div(shape.conv_channels, v->ranks);
    switch (x->type) {
    case VRAM_STATE_MAMBA1: return (forward){3 * inner, 4, VRAM_WHAT_STATE_MIXER, 0};
    case VRAM_STATE_MAMBA2: {
        double in = inner + conv + (double)x->heads;
        bool fp32 = x->groups > 1 || !x->gated_norm || (v->graphs && !v->v0); /* the gate is applied in two fp32 copies where no kernel does it with the norm */
        double hidden = fp32 ? (x->gated_norm ? 2 : 4) : strcmp(v->m->model_type, "granitemoehybrid") == 0 ? 4 : 3;
        return (forward){in + inner + (fp32 ? 8 * inner / v->b : inner), hidden, VRAM_WHAT_STATE_MIXER, 0};
    }
    case VRAM_STATE_SHORT_CONV: return (forward){4 * conv, 3, VRAM_WHAT_STATE_MIXER, 0};
    default: return (forward){conv + 2 * inner, 4, VRAM_WHAT_STATE_MIXER, 0};
    }
}

static double numbers(const vllm *v, forward f) { return f.width + f.hidden * v->h; }

static double pass_bytes(const vllm *v, forward f) { return v->T * numbers(v, f) * v->b + f.context; }

static forward fuller(const vllm *v, forward a, forward b) { return pass_bytes(v, b) > pass_bytes(v, a) ? b : a; }

/* Embeddings of every layer beside the one (Gemma 3n, 4): while they are made four copies of all layers' stand beside eight of the hidden width */
static forward side_embeddings(const vllm *v)
{
    for (int t = 0; t < v->m->tensors; t++)
        if (strcmp(v->m->tensor[t].name, "per_layer_model_projection") == 0)
            return (forward){4 * (double)v->m->tensor[t].rows, 8, VRAM_WHAT_SIDE_EMBEDDINGS, 0};
    return (forward){0, 3, VRAM_WHAT_HIDDEN_STATES, 0};
}

/* The fullest module of a layer. */
static forward layer_of(const vllm *v, const vram_layer *l)
{
    forward most = {0, 3, VRAM_WHAT_HIDDEN_STATES, 0};
    if (l->attention.type != VRAM_MIXER_NONE) most = fuller(v, most, attention_of(v, &l->attention));
    if (l->state.type != VRAM_STATE_NONE) most = fuller(v, most, state_of(v, &l->state));
    if (l->ffn.width > 0) most = fuller(v, most, mlp_of(v, l, (double)l->ffn.width));
    if (l->ffn.shared_width > 0) {
        forward shared = mlp_of(v, l, (double)l->ffn.shared_width);
        shared.hidden = vram_max(4, shared.hidden);
        most = fuller(v, most, shared);
    }
    return most;
}

/* modular_kernel.py _allocate_buffers: top_k rows a token, as wide as the experts' widest product and their widest input */
static double expert_workspace(const vllm *v, const vram_ffn *f)
{
    if (padded_experts(v) && hopper(v)) return 0; /* kernels of its own */
    double m = vram_ceil_div((double)f->expert_width, expert_ranks(v));
    if (padded_experts(v)) m = vram_round_up(m, 128);
    double up = f->type == VRAM_FFN_GATED ? 2 * m : m, in = (double)(f->latent_width ? f->latent_width : v->m->hidden);
    return f->experts > 0 ? (double)f->experts_per_token * (vram_max(m, in) + vram_max(up, in)) : 0;
}

/* Blocks above the split limit are whole 2 MiB. */
static double block(double bytes) { return bytes > 20 * MIB ? vram_round_up(bytes, 2 * MIB) : vram_round_up(bytes, 512); }

static double power_of_two(double n)
{
    double p = 1;
    while (p < n) p *= 2;
    return p;
}

/* topk_topp_triton.py: a row of fp32 words for each multiprocessor, or each sequence. FlashInfer's sampler keeps none. */
static double sampler_rows(const vllm *v)
{
    if (v->flashinfer) return 0;
    double sms = v->s->gpu.multiprocessors > 0 ? v->s->gpu.multiprocessors : 108;
    return v->v0 ? 0 : vram_min(sms, power_of_two(v->S));
}

typedef struct { forward most; double workspace, before; } profile; /* before: bytes of the pass in the layers before the first with experts */

static profile profile_run(const vllm *v)
{
    profile p = {.most = side_embeddings(v)};
    bool experts = false;
    int64_t layers = (int64_t)vram_ceil_div((double)v->m->layers, (double)v->s->parallel.pipeline);
    for (int64_t i = 0; i < layers; i++) {
        const vram_layer *l = &v->m->kind[v->m->layer_kind[i]];
        forward f = layer_of(v, l);
        if (l->ffn.experts > 0) experts = true;
        if (experts || v->m->kinds == 1) p.most = fuller(v, p.most, f);
        else p.before = vram_max(p.before, pass_bytes(v, f));
        p.workspace = vram_max(p.workspace, expert_workspace(v, &l->ffn));
    }
    bool none = p.workspace <= 0;
    if (!none) return p;
    for (int64_t i = 0; i < layers; i++) p.most = fuller(v, p.most, layer_of(v, &v->m->kind[v->m->layer_kind[i]]));
    p.before = 0;
    return p;
}

static void add_forward(const vllm *v, forward f, vram_report *report)
{
    unsigned phase = VRAM_BIT(VRAM_PHASE_PREFILL);
    vram_entry *e = add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, VRAM_MODELLED, phase);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_COPIES, f.hidden), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    e = add(report, VRAM_COMPONENT_ACTIVATIONS, f.what, VRAM_MODELLED, phase);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_WIDTH, f.width), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    vram_times(add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_EXPANDED_CONTEXT, VRAM_MODELLED, phase), VRAM_SYMBOL_BYTES, f.context);
}

/* Logits of S rows, their fp32 copy, blocks of top log-probabilities; T hidden states are kept the while. FlashInfer samples from probabilities: two more
 * fp32 copies. V0: 38 bytes a row and word (logits in 16
 * and 32 bit, sorted values and indices, masks, softmax and log-softmax). */
static double sampler_bytes(const vllm *v)
{
    if (v->v0) return v->T * v->h * v->b + 38 * v->S * v->V;
    return block(v->T * v->h * v->b) + block(v->S * v->h * v->b) + block(v->S * v->V * v->b) + block(v->S * v->V * 4) * (v->flashinfer ? 3 : 1) + 12 * v->S * v->V / 1024;
}

static void add_sampler(const vllm *v, bool hidden, unsigned phases, vram_report *report)
{
    vram_entry *e;
    if (hidden) {
        e = add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, VRAM_MODELLED, phases);
        vram_times(vram_times(vram_times(e, VRAM_SYMBOL_ROWS, v->T + v->S), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    }
    e = add(report, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOGITS, VRAM_MODELLED, phases);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, v->S), VRAM_SYMBOL_VOCABULARY, v->V), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->v0 ? 38 : v->b + (v->flashinfer ? 12 : 4));
    if (!v->v0) vram_times(add(report, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOG_PROBABILITIES, VRAM_MODELLED, phases), VRAM_SYMBOL_BYTES, vram_ceil_div(12 * v->S * v->V, 1024));
}

/* Returns what the profile run raises the peak by. */
static double activation(const vllm *v, vram_report *report)
{
    profile p = profile_run(v);
    double rows = sampler_rows(v), kept = block(rows * v->V * 4), work = block(v->T * p.workspace * v->b);
    double forward_bytes = pass_bytes(v, p.most), sampler = sampler_bytes(v) + kept, before = p.before;
    unsigned serving = VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE);
    bool early = before > work + vram_max(forward_bytes, sampler), forwards = forward_bytes > sampler;
    unsigned kept_in = (early || forwards) && !early ? VRAM_BIT(VRAM_PHASE_DECODE) : early ? VRAM_BIT(VRAM_PHASE_DECODE) : serving;
    vram_entry *e = add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_EXPERT_WORKSPACE, VRAM_EXACT, early ? VRAM_BIT(VRAM_PHASE_DECODE) : serving);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_WIDTH, p.workspace), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    e = add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_SAMPLER_ROWS, VRAM_EXACT, kept_in);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_ROWS, rows), VRAM_SYMBOL_VOCABULARY, v->V), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    if (early) add_forward(v, (forward){p.before / v->T / v->b - 3 * v->h, 3, VRAM_WHAT_MLP_ACTIVATIONS, 0}, report);
    else if (forwards) add_forward(v, p.most, report);
    else add_sampler(v, true, VRAM_BIT(VRAM_PHASE_PREFILL), report);
    if (!v->v0) add_sampler(v, false, VRAM_BIT(VRAM_PHASE_DECODE), report);
    return vram_max(before, work + vram_max(forward_bytes, sampler));
}

/* -------------------------------------------------------------------------------------------------------------- cache -- */

enum { GROUPS = 64 };

/* Layers whose blocks are one kind: full, windowed or state. `page`: bytes of a block in one layer. */
typedef struct { double layers, page, tokens, window, states; bool chunk; } bucket;

typedef struct {
    bucket bucket[GROUPS];
    int buckets;
    double block;        /* tokens */
    double bytes;        /* of one block id of the pool, in all layers of the widest group */
    double size;         /* layers of a group; 0: one group of everything */
} pool;

static double page_token(const vllm *v, const vram_attention *a)
{
    double k = vram_format_bytes(v->s->kv_cache_k >= 0 ? v->s->kv_cache_k : v->s->kv_cache);
    if (a->type == VRAM_MIXER_MLA) return (double)(a->kv_lora_rank + a->qk_rope_head_dim) * k;
    return vram_kv_heads_on_rank((double)a->kv_heads, v->ranks) * (double)(a->head_dim + a->v_head_dim) * k;
}

/* mamba_utils.py: kernel - 1 columns of the convolution, one more for each token that is guessed, and the state */
static double page_state(const vllm *v, const vram_state *x)
{
    vram_state_shape shape = vram_state_size(x);
    return vram_ceil_div(shape.conv_channels, v->ranks) * (x->conv_kernel > 0 ? (double)x->conv_kernel - 1 + (double)v->s->speculative.mtp_tokens : 0) * v->b +
           vram_ceil_div(shape.channels, v->ranks) * shape.numbers * (x->state_fp32 || x->type == VRAM_STATE_KDA ? 4 : v->b);
}

/* Blocks of state a sequence holds: one, and with prefix caching the last checkpoint, and one more where the kernel exports states within a prefill;
 * one for each token that is guessed, to go back to. */
static double state_blocks(const vllm *v, const vram_state *x, bool hybrid)
{
    double guessed = (double)v->s->speculative.mtp_tokens;
    bool hopper = v->s->gpu.compute_capability >= 9;
    if (!hybrid) return 1 + guessed;
    return guessed + (x->type == VRAM_STATE_MAMBA2 || (x->type == VRAM_STATE_GATED_DELTA && hopper) ? 3 : 2);
}

static void count_layer(pool *p, double page, double tokens, double window, bool chunk, double states)
{
    for (int i = 0; i < p->buckets; i++) {
        bucket *b = &p->bucket[i];
        if (b->page == page && b->tokens == tokens && b->window == window && b->states == states && b->chunk == chunk) {
            b->layers++;
            return;
        }
    }
    if (p->buckets < GROUPS) p->bucket[p->buckets++] = (bucket){1, page, tokens, window, states, chunk};
}

/* platforms/interface.py _align_hybrid_block_size: attention's block grows until its page holds a state, in steps of the kernels' blocks */
static double hybrid_block(const vllm *v)
{
    double attention = 0, state = 0, step = (double)v->s->vllm.block_size;
    for (int k = 0; k < v->m->kinds; k++) {
        const vram_layer *l = &v->m->kind[k];
        if (l->attention.type == VRAM_MIXER_MLA) step = vram_max(step, 128);
        if (l->attention.type != VRAM_MIXER_NONE) attention = vram_max(attention, page_token(v, &l->attention));
        if (l->state.type == VRAM_STATE_NONE) continue;
        state = vram_max(state, page_state(v, &l->state));
        if (l->state.type == VRAM_STATE_GATED_DELTA && v->s->gpu.compute_capability >= 9) step = vram_max(step, 64);
    }
    return state > 0 && attention > 0 ? vram_max(step, step * vram_ceil_div(state, step * attention)) : (double)v->s->vllm.block_size;
}

static void fill_pool(const vllm *v, pool *p)
{
    memset(p, 0, sizeof *p);
    p->block = hybrid_block(v);
    bool attends = false;
    double state_page = 0;
    for (int k = 0; k < v->m->kinds; k++) attends |= v->m->kind[k].attention.type != VRAM_MIXER_NONE;
    for (int k = 0; k < v->m->kinds; k++) state_page = vram_max(state_page, v->m->kind[k].state.type == VRAM_STATE_NONE ? 0 : page_state(v, &v->m->kind[k].state));
    int64_t layers = (int64_t)vram_ceil_div((double)v->m->layers, (double)v->s->parallel.pipeline);
    for (int64_t i = 0; i < layers; i++) {
        const vram_layer *l = &v->m->kind[v->m->layer_kind[i]];
        const vram_attention *a = &l->attention;
        if (a->type != VRAM_MIXER_NONE && !a->shares_cache) {
            double page = page_token(v, a) * p->block;
            count_layer(p, page, p->block, v->v0 ? 0 : (double)a->window, a->chunked, 0);
            if (a->index_head_dim > 0) count_layer(p, (double)a->index_head_dim * 33 / 32 * p->block, p->block, 0, false, 0);
        }
        if (l->state.type != VRAM_STATE_NONE) count_layer(p, attends ? page_state(v, &l->state) : state_page, 0, 0, false, state_blocks(v, &l->state, attends));
    }
    int last = vram_last_global_kind(v->m); /* a layer that guesses is one more of it */
    for (int64_t i = 0; last >= 0 && i < (int64_t)vram_mtp_layers(v->s, v->m); i++) count_layer(p, page_token(v, &v->m->kind[last].attention) * p->block, p->block, 0, false, 0);
}

/* kv_cache_planning.py: pages of all kinds are made equal (more tokens a block, or padding); kinds are cut into groups of as many layers as the
 * smallest has, or as the largest when that is less than half more. Full attention alone, of any widths, is one group. */
static void group_pool(pool *p)
{
    double page = 0, least = 1e9, most = 0;
    bool uniform = true;
    for (int i = 0; i < p->buckets; i++) uniform &= p->bucket[i].window == 0 && p->bucket[i].states == 0;
    if (uniform || p->buckets == 1) {
        for (int i = 0; i < p->buckets; i++) p->bytes += p->bucket[i].layers * p->bucket[i].page;
        return;
    }
    for (int i = 0; i < p->buckets; i++) page = vram_max(page, p->bucket[i].page);
    for (int i = 0; i < p->buckets; i++) {
        bucket *b = &p->bucket[i];
        double ratio = vram_floor_div(page, b->page);
        if (b->states == 0 && ratio * b->page == page) b->tokens *= ratio;
        b->page = page;
        least = vram_min(least, b->layers);
        most = vram_max(most, b->layers);
    }
    p->size = most < least * 1.5 ? most : least;
    p->bytes = page * p->size;
}

/* Blocks of a sequence while its prompt is computed, which is what the engine admits it by (kv_cache_interface.py, max_admission_blocks_per_request):
 * behind a window nothing is freed before the batches in flight are done, the asynchronous scheduler's two and one for each further stage. */
static double blocks_of(const vllm *v, const bucket *b, double tokens)
{
    double in_flight = (1 + (double)v->s->parallel.pipeline) * v->T;
    if (b->states > 0) return b->states;
    if (b->window <= 0) return vram_ceil_div(tokens, b->tokens);
    if (b->chunk) return vram_ceil_div(vram_min(b->window + in_flight, tokens), b->tokens);
    return vram_ceil_div(vram_min(b->window - 1 + in_flight, tokens), b->tokens) + 1;
}

/* While it is answered, a token a step: a window and the steps in flight (single_type_kv_cache_manager.py, remove_skipped_blocks). Prompts come one after
 * another, so of all sequences one at a time takes blocks_of(), the others these. */
static double blocks_while_decoding(const vllm *v, const bucket *b, double tokens)
{
    double in_flight = 1 + (double)v->s->parallel.pipeline, whole = blocks_of(v, b, tokens);
    if (b->states > 0 || b->window <= 0) return whole;
    return vram_min(whole, vram_ceil_div(b->window - (b->chunk ? 0 : 1) + in_flight, b->tokens) + 1);
}

typedef double blocks_rule(const vllm *, const bucket *, double);

/* Block ids that a sequence of so many tokens takes from the pool. */
static double blocks_of_sequence(const vllm *v, const pool *p, double tokens, blocks_rule *rule)
{
    double blocks = 0;
    if (p->size == 0) return p->buckets > 0 ? rule(v, &p->bucket[0], tokens) : 0;
    for (int i = 0; i < p->buckets; i++) blocks += vram_ceil_div(p->bucket[i].layers, p->size) * rule(v, &p->bucket[i], tokens);
    return blocks;
}

static void add_blocks(const vllm *v, const pool *p, const bucket *b, double sequences, double blocks, vram_report *report)
{
    unsigned serving = VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE);
    double groups = p->size > 0 ? vram_ceil_div(b->layers, p->size) : 1, layers = p->size > 0 ? p->size : b->layers;
    vram_component c = b->states > 0 ? VRAM_COMPONENT_RECURRENT_STATE : VRAM_COMPONENT_KV_CACHE;
    vram_what what = b->states > 0 ? VRAM_WHAT_STATE : b->window > 0 ? VRAM_WHAT_WINDOW_LAYERS : v->m->kind[0].attention.type == VRAM_MIXER_MLA ? VRAM_WHAT_LATENT : VRAM_WHAT_GLOBAL_LAYERS;
    vram_entry *e = add(report, c, what, VRAM_EXACT, serving);
    vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, sequences), VRAM_SYMBOL_GROUPS, groups);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_BLOCKS, blocks), VRAM_SYMBOL_LAYERS, layers), VRAM_SYMBOL_BYTES, b->page);
}

static void add_reserved(const vllm *v, const pool *p, vram_report *report)
{
    double sequences = vram_sequences_on_gpu(v->s);
    for (int i = 0; i < p->buckets; i++) {
        const bucket *b = &p->bucket[i];
        double first = blocks_of(v, b, v->L), further = blocks_while_decoding(v, b, v->L);
        bool alike = first <= further;
        add_blocks(v, p, b, alike ? sequences : 1, first, report);
        if (!alike && sequences > 1) add_blocks(v, p, b, sequences - 1, further, report);
    }
}

/* Longest context whose blocks the pool has; one block is never handed out. */
static double longest_context(const vllm *v, const pool *p, double blocks)
{
    double low = 0, high = 1099511627776.0;
    if (blocks_of_sequence(v, p, 1, blocks_of) > blocks - 1) return 0;
    while (high - low > 1) {
        double middle = vram_floor_div(low + high, 2);
        if (blocks_of_sequence(v, p, middle, blocks_of) <= blocks - 1) low = middle;
        else high = middle;
    }
    return v->m->max_positions > 0 ? vram_min(low, (double)v->m->max_positions) : low;
}

static void capacity(const vllm *v, const pool *p, double room, vram_report *report)
{
    double each = blocks_of_sequence(v, p, v->L, blocks_of), blocks = p->bytes > 0 ? vram_max(0, vram_floor_div(room, p->bytes)) : 0;
    report->pool.available_bytes = vram_max(0, room);
    report->kv_tokens_capacity = each > 0 ? vram_floor_div(blocks / each * v->L, 1) : -1;
    report->max_context = p->buckets > 0 ? longest_context(v, p, blocks) : -1;
    if (p->size == 0 && each > 0 && p->bucket[0].window == 0 && p->bucket[0].states == 0) report->kv_tokens_capacity = vram_min(report->kv_tokens_capacity, blocks * p->block);
    report->pool.tokens = report->kv_tokens_capacity;
    if (each <= 0) return;
    report->pool.blocks = blocks;
    report->pool.concurrency = blocks / each;
    report->pool.first_bytes = (each + 1) * p->bytes;
    report->pool.sequence_bytes = blocks_of_sequence(v, p, v->L, blocks_while_decoding) * p->bytes;
}

/* ------------------------------------------------------------------------------------------------------- the whole -- */

/* A private pool shared by all captures: about the working set of the largest, 512 tokens in pieces (V0: 256, whole steps). */
static double graph_pool(const vllm *v)
{
    double rows = v->v0 ? vram_min(256, v->S) : vram_min(512, 2 * v->S);
    profile p = profile_run(v);
    return rows * (numbers(v, p.most) + 2 * v->h + p.workspace) * v->b;
}

/* config/vllm.py _set_cudagraph_sizes: 1 2 4, then every 8, from 256 every 16 */
static double sizes_up_to(double n)
{
    double few = n >= 4 ? 3 : n >= 2 ? 2 : n >= 1 ? 1 : 0;
    return few + vram_floor_div(vram_min(n, 255), 8) + (n >= 256 ? vram_floor_div(n - 256, 16) + 1 : 0);
}

/* Pieces between attention layers up to twice the sequences, and whole decode steps up to the sequences; neither above 512 (1024 on 10.x) nor above the
 * tokens of a step. V0 captures whole steps only, up to 256. */
static double graphs_captured(const vllm *v)
{
    double most = v->s->gpu.compute_capability >= 10 && v->s->gpu.compute_capability < 11 ? 1024 : 512, largest = vram_min(v->T, vram_min(most, 2 * v->S));
    if (v->v0) return 3 + vram_floor_div(vram_min(v->S, 256), 8);
    return sizes_up_to(vram_min(v->S, largest)) + sizes_up_to(largest);
}

/* The driver keeps each graph's nodes: public logs show some 190 KiB a layer and graph beyond the pool. */
double vram_graphs_allowance(const vram_scenario *s, double graphs, vram_report *report)
{
    if (!s->overheads || graphs <= 0) return 0;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_CUDA_GRAPHS, VRAM_WHAT_GRAPH_NODES, VRAM_ALLOWANCE, VRAM_SOURCE_GPU_LOGS, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE));
    return vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, graphs), VRAM_SYMBOL_LAYERS, vram_ceil_div((double)s->model.layers, (double)s->parallel.pipeline)), VRAM_SYMBOL_BYTES, 190 * 1024)->bytes;
}

/* Servers' cards have NVLink and a switch; others meet over PCIe. */
static bool has_switch(const vram_gpu *gpu) { return gpu->compute_capability == 7 || gpu->compute_capability == 8 || (gpu->compute_capability >= 9 && gpu->compute_capability < 12); }

/* What joins the ranks of a tensor-parallel group at their first large sum. NCCL (init.cc, transport/p2p.cc): for each channel of its ring a receive buffer
 * of 4 MiB, 4.7 MiB and 0.5 MiB (its three protocols), in whole 2 MiB; where a card reads its neighbour's memory (8.0) the 4 MiB stand with the sender. Its
 * logs name 24 channels on a switch, 2 over PCIe. Through the switch of 9.0 and later: multicast objects, of which the driver makes whole 512 MiB: sums and
 * credits of NCCL (transport/nvls.cc), and FlashInfer's sum with the norm (compiled models; vllm/compilation/passes/fusion/allreduce_rms_fusion.py).
 * And NCCL's own code, one linked image for each architecture (libnccl 2.30.7, by its fat binary's headers).
 * Left out: what is made before memory is first looked at (custom all-reduce, a second group), and what stages say to each other after it. */
double vram_ranks_allowance(const vram_scenario *s, bool fused, vram_report *report)
{
    const vram_gpu *gpu = &s->gpu;
    bool joined = s->overheads && s->parallel.tensor > 1, multicast = joined && gpu->compute_capability >= 9 && has_switch(gpu);
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_NCCL_BUFFERS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    double bytes = vram_times(vram_times(e, VRAM_SYMBOL_COPIES, joined ? has_switch(gpu) ? 24 : 2 : 0), VRAM_SYMBOL_BYTES, (gpu->compute_capability == 8 ? 12 : 10) * MIB)->bytes;
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_MULTICAST_BUFFERS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    bytes += vram_times(vram_times(e, VRAM_SYMBOL_COPIES, multicast ? fused ? 3 : 2 : 0), VRAM_SYMBOL_BYTES, 512 * MIB)->bytes;
    double code = gpu->compute_capability >= 12 ? 115 : gpu->compute_capability >= 10 ? 130 : gpu->compute_capability >= 9 ? 98 : 47;
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_LOADED_KERNELS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    return bytes + vram_times(e, VRAM_SYMBOL_BYTES, joined ? code * MIB : 0)->bytes;
}

/* Kernels that the driver loads before the pool is sized. */
double vram_kernels_allowance(const vram_scenario *s, double mib, vram_report *report)
{
    if (!s->overheads) return 0;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_LOADED_KERNELS, VRAM_ALLOWANCE, VRAM_SOURCE_VLLM_LOGS, VRAM_PHASES_INFERENCE);
    return vram_times(e, VRAM_SYMBOL_BYTES, mib * MIB)->bytes;
}

/* One pass of so many tokens, as in the profile run, and the logits of the sequences' last positions. */
void vram_serving_pass(const vram_scenario *s, double tokens, double sequences, vram_report *report)
{
    vllm v = open_vllm(s);
    v.T = tokens;
    v.S = sequences;
    profile p = profile_run(&v);
    vram_entry *e = add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_EXPERT_WORKSPACE, VRAM_MODELLED, VRAM_BIT(VRAM_PHASE_PREFILL));
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v.T), VRAM_SYMBOL_WIDTH, p.workspace), VRAM_SYMBOL_BYTES_PER_ELEMENT, v.b);
    add_forward(&v, p.most, report);
    add_sampler(&v, false, VRAM_BIT(VRAM_PHASE_DECODE), report);
}

void vram_engine_vllm(const vram_scenario *s, vram_report *report)
{
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, s->vllm.engine == VRAM_VLLM_V0 ? (const double[]){0, 8} : (const double[]){0, 33});
    vllm v = open_vllm(s);
    pool p;
    int first = report->entries;
    double before = 0;
    vram_weights(s, &s->model, VRAM_ROLE_MODEL, s->weights, VRAM_PHASES_INFERENCE, report);
    extra_weights(&v, report);
    expert_padding(&v, report);
    rounding(&v, report);
    report->pool.model_bytes = 0;
    for (int i = first; i < report->entries; i++) report->pool.model_bytes += report->entry[i].bytes;
    runner_buffers(&v, report);
    for (int i = first; i < report->entries; i++) before += report->entry[i].bytes;
    double peak = activation(&v, report), graphs = v.graphs ? graph_pool(&v) : 0;
    if (v.graphs) vram_times(add(report, VRAM_COMPONENT_CUDA_GRAPHS, VRAM_WHAT_GRAPH_POOL, VRAM_ALLOWANCE, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE)), VRAM_SYMBOL_BYTES, vram_floor_div(graphs, 1));
    if (v.graphs) graphs += vram_graphs_allowance(s, graphs_captured(&v), report);
    double others = vram_ranks_allowance(s, v.graphs && !v.v0, report) + (v.v0 ? 0 : vram_kernels_allowance(s, PROFILED_KERNELS_MIB, report)), budget = vram_pool_budget(s, &s->gpu);
    report->pool.graph_bytes = vram_floor_div(graphs, 1);
    fill_pool(&v, &p);
    group_pool(&p);
    add_reserved(&v, &p, report);
    report->pool.fixed_bytes = before + peak + others + (v.v0 ? 0 : graphs);
    report->pool.sequences_limit = (double)s->vllm.max_num_seqs;
    capacity(&v, &p, budget - report->pool.fixed_bytes, report);
    report->pool.sequences = vram_pool_sequences(&report->pool, budget);
    vram_pool_note(s, "vllm.max_num_seqs", report);
}
