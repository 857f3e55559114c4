/* weights.c -- the stored weights of one model: what each part of it weighs in a format.
 *
 * A plain type weighs every weight alike. A quantised format packs the linear layers (payload, scales, zero points, group index are
 * entries of their own) and leaves the rest in 16 bit: embedding, head, norms, biases, and by scheme routers or experts. Files of
 * llama.cpp have a type for each tensor: gguf.c. A model declared by its number of parameters is one product. */
#include "core.h"

#include <string.h>

/* Part of the table of tensors -> part of the bill */
vram_what vram_what_of_part(vram_part part)
{
    static const vram_what whats[] = {
        [VRAM_PART_EMBEDDING] = VRAM_WHAT_EMBEDDING, [VRAM_PART_ATTENTION] = VRAM_WHAT_ATTENTION, [VRAM_PART_STATE] = VRAM_WHAT_STATE_MIXER,
        [VRAM_PART_MLP] = VRAM_WHAT_MLP, [VRAM_PART_EXPERT] = VRAM_WHAT_EXPERTS, [VRAM_PART_SHARED_EXPERT] = VRAM_WHAT_SHARED_EXPERT,
        [VRAM_PART_ROUTER] = VRAM_WHAT_ROUTER, [VRAM_PART_NORM] = VRAM_WHAT_NORMS, [VRAM_PART_HEAD] = VRAM_WHAT_LM_HEAD,
        [VRAM_PART_OTHER] = VRAM_WHAT_OTHER_WEIGHTS,
    };
    return whats[part];
}

static vram_source source_of(vram_scheme scheme)
{
    static const vram_source sources[] = {
        [VRAM_SCHEME_NONE] = VRAM_SOURCE_ARITHMETIC, [VRAM_SCHEME_NATIVE] = VRAM_SOURCE_CONFIG, [VRAM_SCHEME_GPTQ] = VRAM_SOURCE_GPTQ,
        [VRAM_SCHEME_AWQ] = VRAM_SOURCE_AWQ, [VRAM_SCHEME_NF4] = VRAM_SOURCE_BITSANDBYTES, [VRAM_SCHEME_NF4_DQ] = VRAM_SOURCE_BITSANDBYTES,
        [VRAM_SCHEME_FP8_BLOCK] = VRAM_SOURCE_DEEPSEEK_V3, [VRAM_SCHEME_FP8_TENSOR] = VRAM_SOURCE_COMPRESSED_TENSORS,
        [VRAM_SCHEME_MXFP4] = VRAM_SOURCE_OCP_MX, [VRAM_SCHEME_NVFP4] = VRAM_SOURCE_COMPRESSED_TENSORS, [VRAM_SCHEME_GGUF] = VRAM_SOURCE_LLAMA_CPP,
    };
    return sources[scheme];
}

static bool has_experts(const vram_model *model)
{
    for (int i = 0; i < model->tensors; i++)
        if (model->tensor[i].part == VRAM_PART_EXPERT) return true;
    return false;
}

/* Does the scheme pack this tensor? Heads and embeddings: never. bitsandbytes packs every nn.Linear (a router that is one, too), but no experts that
 * transformers stacks in one parameter; the others pack experts and leave routers; published MXFP4 models pack the experts only. */
static bool packed(const vram_format_row *format, bool experts, const vram_tensor *t)
{
    bool matrix = (t->linear || t->stacked) && t->columns > 1 && !t->bias && !t->buffer;
    if (!matrix || t->part == VRAM_PART_HEAD || t->part == VRAM_PART_EMBEDDING) return false;
    switch (format->scheme) {
    case VRAM_SCHEME_NF4:
    case VRAM_SCHEME_NF4_DQ: return t->linear;
    case VRAM_SCHEME_MXFP4: return experts ? t->part == VRAM_PART_EXPERT : t->part != VRAM_PART_ROUTER;
    default: return t->part != VRAM_PART_ROUTER && strcmp(t->name, "weights_proj") != 0; /* DeepSeek-V3.2 keeps its indexer's weights of heads */
    }
}

/* What stands beside the payload of all tensors: counted, not yet weighed */
typedef struct { double scales, zeros, second_scales, tensors, index_rows; } beside;

/* Numbers that share a scale, in one matrix */
static double groups_of(const vram_format_row *format, double rows, double columns)
{
    if (format->group == VRAM_GROUP_TENSOR) return 1;
    if (format->group == VRAM_GROUP_ROW) return rows;
    switch (format->scheme) {
    case VRAM_SCHEME_NF4:
    case VRAM_SCHEME_NF4_DQ: return vram_ceil_div(rows * columns, format->group); /* of the flattened matrix */
    case VRAM_SCHEME_FP8_BLOCK: return vram_ceil_div(rows, format->group) * vram_ceil_div(columns, format->group);
    default: return rows * vram_ceil_div(columns, format->group);
    }
}

static void count_beside(const vram_format_row *format, const vram_tensor *t, double share, beside *sum)
{
    double pair = t->stacked && strcmp(t->name, "gate_up_proj") == 0 ? 2 : 1; /* files have gate and up apart */
    double matrices = pair * (double)t->layers * (double)t->copies, groups = groups_of(format, (double)t->rows / pair, (double)t->columns);
    sum->scales += matrices * groups * share;
    sum->second_scales += matrices * vram_ceil_div(groups, 256) * share;
    sum->tensors += matrices;
    sum->index_rows += matrices * (double)t->columns * (t->shard == VRAM_SHARD_COLUMNS ? share : 1);
}

typedef struct {
    const vram_format_row *format;
    vram_role role;
    unsigned phases;
    vram_report *report;
    bool native, symmetric; /* as a model's own config says */
} weigher;

static vram_entry *add(const weigher *w, vram_what what) { return vram_add(w->report, w->role, VRAM_COMPONENT_WEIGHTS, what, VRAM_EXACT, source_of(w->format->scheme), w->phases); }

/* parameters x bytes each; an odd number of half bytes fills its last byte */
static void add_params(const weigher *w, vram_what what, double params, double block, double bytes)
{
    double whole = vram_ceil_div(params, block) * bytes;
    if (params <= 0) return;
    if (params / block * bytes == whole) vram_times(vram_times(add(w, what), VRAM_SYMBOL_PARAMETERS, params), VRAM_SYMBOL_BYTES_PER_PARAMETER, bytes / block);
    else vram_times(vram_times(add(w, what), VRAM_SYMBOL_BLOCKS, vram_ceil_div(params, block)), VRAM_SYMBOL_BYTES, bytes);
}

static void add_groups(const weigher *w, vram_what what, double groups, double bytes)
{
    if (groups > 0 && bytes > 0) vram_times(vram_times(add(w, what), VRAM_SYMBOL_GROUPS, vram_ceil_div(groups * bytes, 1) / bytes), VRAM_SYMBOL_BYTES, bytes);
}

/* vLLM's Marlin kernels keep neither the index of groups in order nor the zeros of a symmetric format */
static void add_beside(const weigher *w, const vram_scenario *scenario, const beside *sum)
{
    bool bare = w->symmetric || (scenario->task == VRAM_TASK_INFERENCE && scenario->engine == VRAM_ENGINE_VLLM), gptq = w->format->scheme == VRAM_SCHEME_GPTQ;
    add_groups(w, VRAM_WHAT_SCALES, sum->scales, w->format->scale_bytes);
    if (!(gptq && bare)) add_groups(w, VRAM_WHAT_ZERO_POINTS, sum->scales, w->format->zero_bytes);
    if (gptq && !bare) vram_times(vram_times(add(w, VRAM_WHAT_GROUP_INDEX), VRAM_SYMBOL_ROWS, vram_ceil_div(sum->index_rows, 1)), VRAM_SYMBOL_BYTES, 4);
    if (w->format->scheme == VRAM_SCHEME_NF4_DQ) add_groups(w, VRAM_WHAT_DOUBLE_QUANT, vram_ceil_div(sum->second_scales, 1), 4);
    if (w->format->scheme == VRAM_SCHEME_NVFP4) add_groups(w, VRAM_WHAT_DOUBLE_QUANT, sum->tensors, 4);
}

/* {"params": N}: no tensors to look at; every weight is packed, with the scales of long rows */
static void declared(const weigher *w, const vram_scenario *scenario, double params)
{
    const vram_format_row *f = w->format;
    beside sum = {0};
    if (f->scheme == VRAM_SCHEME_GGUF) {
        add_params(w, VRAM_WHAT_ALL_WEIGHTS, params, vram_ggml_get(f->ggml)->block, vram_ggml_get(f->ggml)->bytes);
        return;
    }
    add_params(w, VRAM_WHAT_ALL_WEIGHTS, params, f->block, f->block_bytes);
    if (f->scheme == VRAM_SCHEME_NONE || f->group <= 0) return;
    sum.scales = vram_ceil_div(params, f->scheme == VRAM_SCHEME_FP8_BLOCK ? f->group * f->group : f->group);
    sum.second_scales = vram_ceil_div(sum.scales, 256);
    add_beside(w, scenario, &sum);
}

/* They follow the last layer. */
double vram_mtp_layers(const vram_scenario *scenario, const vram_model *model) { return scenario->speculative.mtp_tokens > 0 && model->stage.head ? (double)model->mtp_layers : 0; }

vram_tensor vram_mtp_projection(const vram_model *model)
{
    return (vram_tensor){.name = "eh_proj", .part = VRAM_PART_OTHER, .kind = -1, .layers = 1, .copies = 1, .rows = model->hidden, .columns = 2 * model->hidden, .linear = true};
}

vram_tensor vram_mtp_norms(const vram_model *model)
{
    return (vram_tensor){.name = "enorm", .part = VRAM_PART_NORM, .kind = -1, .layers = 1, .copies = 3, .rows = model->hidden, .columns = 1};
}

/* The tensors one by one: plain and packed parameters of each part */

typedef struct { double plain[VRAM_WHAT_COUNT], payload[VRAM_WHAT_COUNT]; beside beside; } counts;

/* `layers`: how many more layers like the tensor's are on this GPU; 0: as many as it has */
static void count(const weigher *w, const vram_scenario *scenario, const vram_model *model, const vram_tensor *t, bool experts, double layers, counts *c)
{
    vram_tensor counted = *t, mine = vram_rank_tensor(scenario, model, t);
    counted.layers = layers > 0 ? (int64_t)layers : mine.layers;
    if (counted.layers == 0) return; /* all on other stages */
    double params = (double)counted.layers * vram_rank_layer_params(scenario, model, t), whole = vram_tensor_params(&counted);
    if (w->format->scheme == VRAM_SCHEME_NONE || !packed(w->format, experts, t)) {
        c->plain[vram_what_of_part(t->part)] += params;
        return;
    }
    int64_t kept = !w->native ? 0 : layers > 0 ? (t->kept < counted.layers ? t->kept : counted.layers) : t->kept * counted.layers / t->layers;
    double left = params * (double)kept / (double)counted.layers;
    c->plain[vram_what_of_part(t->part)] += left;
    c->payload[vram_what_of_part(t->part)] += params - left;
    counted.layers -= kept;
    if (whole > 0) count_beside(w->format, &counted, params / whole, &c->beside);
}

static void count_mtp(const weigher *w, const vram_scenario *scenario, const vram_model *model, bool experts, counts *c)
{
    double layers = vram_mtp_layers(scenario, model);
    vram_tensor join = vram_mtp_projection(model), norms = vram_mtp_norms(model);
    if (layers == 0) return;
    for (int i = 0; i < model->tensors; i++)
        if (model->tensor[i].kind == model->layer_kind[model->layers - 1]) count(w, scenario, model, &model->tensor[i], experts, layers, c);
    join.linear = false; /* a plain nn.Linear, whatever the layers are packed in (vLLM, models/deepseek_mtp.py) */
    count(w, scenario, model, &join, experts, layers, c);
    count(w, scenario, model, &norms, experts, layers, c);
}

static void counted(const weigher *w, const vram_scenario *scenario, const vram_model *model)
{
    counts c = {.plain = {0}};
    bool experts = has_experts(model), quantised = w->format->scheme != VRAM_SCHEME_NONE;
    for (int i = 0; i < model->tensors; i++) count(w, scenario, model, &model->tensor[i], experts, 0, &c);
    count_mtp(w, scenario, model, experts, &c);
    const vram_format_row *rest = quantised ? vram_format_get(VRAM_FORMAT_BF16) : w->format;
    for (int what = 0; what < VRAM_WHAT_COUNT; what++) {
        add_params(w, (vram_what)what, c.payload[what], w->format->block, w->format->block_bytes);
        add_params(w, (vram_what)what, c.plain[what], rest->block, rest->block_bytes);
    }
    if (quantised) add_beside(w, scenario, &c.beside);
}

vram_format vram_llama_cpp_file(const vram_scenario *scenario, vram_format format)
{
    if (scenario->task != VRAM_TASK_INFERENCE || scenario->engine != VRAM_ENGINE_LLAMA_CPP) return format;
    switch (format) {
    case VRAM_FORMAT_BF16: return VRAM_FORMAT_GGUF_BF16;
    case VRAM_FORMAT_FP16: return VRAM_FORMAT_GGUF_F16;
    case VRAM_FORMAT_FP32: return VRAM_FORMAT_GGUF_F32;
    default: return format;
    }
}

/* what the config says: its quantisation, else its dtype */
static vram_format native_format(const vram_model *model) { return model->native >= 0 ? model->native : model->dtype >= 0 ? model->dtype : VRAM_FORMAT_BF16; }

/* Groups and bits of the config in place of the row's */
static void as_said(const vram_model *model, vram_format_row *row)
{
    if (model->native_group != 0) row->group = model->native_group > 0 ? (double)model->native_group : VRAM_GROUP_ROW;
    if (model->native_bits == 0) return;
    row->block = 32;
    row->block_bytes = 4 * (double)model->native_bits;
    if (row->zero_bytes > 0) row->zero_bytes = (double)model->native_bits / 8;
}

void vram_weights(const vram_scenario *scenario, const vram_model *model, vram_role role, vram_format format, unsigned phases, vram_report *report)
{
    vram_format stored = vram_llama_cpp_file(scenario, format == VRAM_FORMAT_NATIVE ? native_format(model) : format);
    bool native = format == VRAM_FORMAT_NATIVE;
    vram_format_row row = *vram_format_get(stored);
    if (native && row.scheme != VRAM_SCHEME_NONE) as_said(model, &row);
    const weigher w = {&row, role, phases, report, native, native && model->native_symmetric};
    if (model->params_override > 0) declared(&w, scenario, vram_rank_params(scenario, model));
    else if (w.format->scheme == VRAM_SCHEME_GGUF) vram_gguf_weights(scenario, model, role, stored, phases, report);
    else counted(&w, scenario, model);
}
