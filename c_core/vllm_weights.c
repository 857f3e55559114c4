/* vllm_weights.c -- what vLLM's loader makes of the weights: padded words and experts, rotary tables, copies, the allocator's rounding. */
#include "vllm.h"

#include <stddef.h>

typedef vram_vllm vllm;

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
    vram_entry *e = vram_vllm_add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_PADDING, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, m->tied ? m->stage.embedding || m->stage.head : m->stage.embedding + m->stage.head), VRAM_SYMBOL_ROWS, vram_ceil_div(pad, v->ranks)), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_PARAMETER, v->b);
    for (int k = 0; k < m->kinds && m->position == VRAM_POSITION_ROTARY; k++) {
        const vram_attention *a = &m->kind[k].attention;
        int local = a->window > 0 && vram_model_is(m, local_tables);
        if (rotary_width(a) > width[local]) width[local] = rotary_width(a), tables[local] = 1;
        if (a->type != VRAM_MIXER_MLA || !quantised) continue;
        e = vram_vllm_add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ABSORBED_PROJECTIONS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
        vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, (double)m->stage.of_kind[k]), VRAM_SYMBOL_HEADS, vram_ceil_div((double)a->heads, v->ranks));
        vram_times(vram_times(vram_times(e, VRAM_SYMBOL_HEAD_DIM, (double)(a->qk_nope_head_dim + a->v_head_dim)), VRAM_SYMBOL_WIDTH, (double)a->kv_lora_rank), VRAM_SYMBOL_BYTES_PER_PARAMETER, v->b);
    }
    for (int t = 0; t < 2; t++) {
        e = vram_vllm_add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_PHASES_INFERENCE);
        vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCE, tables[t] * (double)m->max_positions), VRAM_SYMBOL_WIDTH, width[t]);
        vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    }
}

/* Ranks that share each expert's width: with expert parallelism experts are whole on their ranks. */
double vram_vllm_expert_ranks(const vllm *v) { return (double)(v->s->parallel.expert > 1 ? v->s->parallel.expert_tensor : v->s->parallel.tensor); }

bool vram_vllm_padded_experts(const vllm *v) { return vram_format_get(stored_format(v))->scheme == VRAM_SCHEME_MXFP4; }
bool vram_vllm_hopper(const vllm *v) { return v->s->gpu.compute_capability >= 9 && v->s->gpu.compute_capability < 10; }

static void add_padding(const vllm *v, const vram_ffn *f, double layers, double elements, double bytes, vram_report *report)
{
    vram_entry *e = vram_vllm_add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_PADDING, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, layers), VRAM_SYMBOL_EXPERTS, vram_ceil_div((double)f->experts, (double)v->s->parallel.expert));
    vram_times(vram_times(e, VRAM_SYMBOL_ELEMENTS, elements), VRAM_SYMBOL_BYTES_PER_PARAMETER, bytes);
}

/* MXFP4 experts (gpt-oss; fused_moe/oracle/mxfp4.py): Marlin and TensorRT-LLM pad the experts' width to 128, the hidden width to 256. Triton's own kernels
 * on 9.0 pad the width to 64, what a row sums over to 256 and the rows of the scales to 256 (triton_kernels/tensor_details/layout_details/hopper_*.py;
 * logs of 0.11 and 0.19 on H100: 13.47 GiB for 20b, 64.38 for 120b). */
static void expert_padding(const vllm *v, vram_report *report)
{
    for (int k = 0; k < v->m->kinds && vram_vllm_padded_experts(v); k++) {
        const vram_ffn *f = &v->m->kind[k].ffn;
        double layers = (double)v->m->stage.of_kind[k], ups = f->type == VRAM_FFN_GATED ? 2 : 1, m = vram_ceil_div((double)f->expert_width, vram_vllm_expert_ranks(v)), h = v->h, held = (ups + 1) * m * h, wide = vram_round_up(m, 64);
        if (f->experts == 0) continue;
        if (!vram_vllm_hopper(v)) {
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
    for (int i = 0; i < m->tensors; i++) l->numbers[i] = vram_rank_layer_params(l->v->s, m, &m->tensor[i]);
    take_kind(l, -1, false);
    for (int64_t i = 0; i < m->stage.layers; i++) take_kind(l, m->stage.kind[i], i == 0);
    take_kind(l, -2, false);
}

/* _scoped_allocator_max_split(20): blocks above 20 MiB are whole 2 MiB pages and stay whole */
static void rounding(const vllm *v, vram_report *report)
{
    loading l = {.v = v, .format = vram_format_get(stored_format(v))};
    if (v->m->params_override > 0 || l.format->scheme == VRAM_SCHEME_GGUF) return;
    l.a.max_split = v->v0 ? 0 : 20 * VRAM_VLLM_MIB;
    take_model(&l);
    vram_times(vram_vllm_add(report, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_PHASES_INFERENCE), VRAM_SYMBOL_BYTES, vram_max(0, l.a.allocated - l.tensors));
}

/* SGLang loads the same tensors and goes by how far free memory falls: whole segments. Its rotary table stays fp32 on CUDA.
 * Source: python/sglang/srt/model_executor/model_runner.py (load_model), utils/common.py
 * (get_available_gpu_memory), layers/rotary_embedding */
void vram_sglang_loading(const vram_scenario *s, vram_report *report)
{
    vllm v = vram_vllm_open(s);
    double width = 0, free = 0;
    loading l = {.v = &v, .format = vram_format_get(stored_format(&v))};
    if (v.m->params_override > 0 || l.format->scheme == VRAM_SCHEME_GGUF) return;
    take_model(&l);
    for (int i = 0; i < l.a.blocks; i++) /* empty_cache() gives whole free segments back */
        if (l.a.block[i] < 10 * VRAM_VLLM_MIB || l.a.block[i] > vram_floor_div(l.a.block[i], 2 * VRAM_VLLM_MIB) * 2 * VRAM_VLLM_MIB) free += l.a.block[i];
    for (int k = 0; k < v.m->kinds && v.m->position == VRAM_POSITION_ROTARY; k++) width = vram_max(width, rotary_width(&v.m->kind[k].attention));
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_SOURCE_SGLANG, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCE, (double)v.m->max_positions), VRAM_SYMBOL_WIDTH, width), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_SOURCE_PYTORCH_ALLOCATOR, VRAM_PHASES_INFERENCE);
    vram_times(e, VRAM_SYMBOL_BYTES, vram_max(0, l.a.allocated + free - l.tensors));
}

void vram_vllm_weights(const vllm *v, vram_report *report)
{
    vram_weights(v->s, v->m, VRAM_ROLE_MODEL, v->s->weights, VRAM_PHASES_INFERENCE, report);
    extra_weights(v, report);
    expert_padding(v, report);
    rounding(v, report);
}
