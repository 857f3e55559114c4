/* engine_transformers.c -- generate() of Hugging Face transformers: one prefill of the prompt, then steps of one token.
 *
 * A phase's peak is found by acting its forward pass out (generate.c); the fullest instant becomes the entries. The cache is DynamicCache: an update
 * concatenates, so that one layer's old and new keys stand side by side; a windowed layer keeps W - 1 tokens, but until its first step a view of the whole prompt. */
#include "generate.h"

#include <stddef.h>
#include <string.h>

typedef vram_generate_stage stage;
typedef vram_generate_tensor tensor;
typedef vram_generate_pass pass;

static vram_component component_of(vram_what what)
{
    if (what == VRAM_WHAT_LOGITS || what == VRAM_WHAT_SAMPLING) return VRAM_COMPONENT_LOGITS;
    if (what == VRAM_WHAT_CACHE_COPY || what == VRAM_WHAT_CUBLAS_WORKSPACE) return VRAM_COMPONENT_WORKSPACE;
    return VRAM_COMPONENT_ACTIVATIONS;
}

/* The layer's own cache is among all layers' already: of its old and new tensors, as many are left out as there were. When `views` were
 * counted (the old ones, whole prompts) it is the new ones that come on top. */
static void leave_out_own_cache(stage *s, bool views)
{
    int news = 0, left = 2;
    for (int i = 0; i < s->at_peak; i++) news += s->peak[i].copies > 0 && s->peak[i].what == VRAM_WHAT_GLOBAL_LAYERS;
    if (!views) left -= news;
    for (int i = 0; i < s->at_peak; i++) {
        tensor *t = &s->peak[i];
        bool old = t->what == VRAM_WHAT_CACHE_COPY && left > 0;
        if (t->copies > 0 && old) left--;
        if (old || (t->what == VRAM_WHAT_GLOBAL_LAYERS && !views)) t->copies = 0;
        else if (t->what == VRAM_WHAT_GLOBAL_LAYERS) t->what = VRAM_WHAT_CACHE_COPY;
    }
}

static void emit_stage(const stage *s, vram_role role, unsigned phase, double *slack, vram_report *report)
{
    for (int i = 0; i < s->at_peak; i++) {
        tensor t = s->peak[i];
        if (t.copies == 0) continue;
        double bytes = vram_generate_bytes(s, &t);
        *slack += vram_block_bytes(bytes) - bytes;
        bool seen = false;
        for (int j = 0; j < i; j++) seen |= s->peak[j].copies > 0 && s->peak[j].what == t.what && s->peak[j].rows == t.rows && s->peak[j].width == t.width && s->peak[j].bytes == t.bytes;
        if (seen) continue;
        double copies = 0;
        for (int j = i; j < s->at_peak; j++)
            if (s->peak[j].what == t.what && s->peak[j].rows == t.rows && s->peak[j].width == t.width && s->peak[j].bytes == t.bytes) copies += s->peak[j].copies;
        vram_entry *e = vram_add(report, role, component_of(t.what), t.what, VRAM_MODELLED, VRAM_SOURCE_TRANSFORMERS, phase);
        if (copies != 1) vram_times(e, VRAM_SYMBOL_COPIES, copies);
        if (t.rows > 0) vram_times(e, VRAM_SYMBOL_TOKENS, t.rows * s->sequences * s->tokens);
        for (int j = 0; j < t.factors; j++)
            if (t.factor[j].value != 1) vram_times(e, t.factor[j].symbol, t.factor[j].value);
        if (t.factors == 0) vram_times(e, VRAM_SYMBOL_WIDTH, t.width);
        vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, t.bytes);
    }
}

/* Bytes of one layer's recurrent state, which the plain code keeps in fp32, and of its convolution's columns */
static double layer_state(const vram_state *x, double sequences, double bytes)
{
    vram_state_shape shape = vram_state_size(x);
    return sequences * (shape.channels * shape.numbers * 4 + shape.conv_channels * (double)x->conv_kernel * bytes);
}

/* Bytes of one layer's cache of so many tokens */
static double layer_cache(const vram_scenario *scenario, const vram_attention *a, double sequences, double tokens, double bytes)
{
    double heads = vram_kv_heads_on_rank((double)a->kv_heads, (double)scenario->parallel.tensor);
    double width = a->type == VRAM_MIXER_MLA ? (double)(a->kv_lora_rank + a->qk_rope_head_dim) : heads * (double)(a->head_dim + a->v_head_dim);
    if (a->type == VRAM_MIXER_NONE || a->shares_cache) return 0;
    return width * sequences * tokens * bytes;
}

/* What a layer has when the prompt went through it */
static double layer_keeps(const pass *p, int64_t i, double tokens)
{
    const vram_layer *l = &p->model->kind[p->model->stage.kind[i]];
    return layer_cache(p->scenario, &l->attention, p->sequences, tokens, p->bytes) + layer_state(&l->state, p->sequences, p->bytes);
}

static void swap(stage **a, stage **b)
{
    stage *other = *a;
    *a = *b;
    *b = other;
}

static bool caches_itself(const stage *s)
{
    for (int i = 0; i < s->at_peak; i++)
        if (s->peak[i].copies > 0 && s->peak[i].what == VRAM_WHAT_GLOBAL_LAYERS) return true;
    return false;
}

/* Entries of the cache after `layers` layers, each of `tokens` (a window's views hold the whole prompt), and what its blocks round up. */
static void emit_cache(const pass *p, int64_t layers, double tokens, bool whole_windows, unsigned phase, double *slack, vram_report *report)
{
    const vram_scenario *s = p->scenario;
    vram_cache_rules rules = vram_cache_rules_plain(s, p->model, p->role, p->sequences, tokens, phase);
    rules.source = VRAM_SOURCE_TRANSFORMERS;
    rules.no_windows = whole_windows;
    rules.window_less = 1;
    rules.k_bytes = rules.v_bytes = p->bytes;
    rules.state_bytes = 4;
    rules.end_layer = layers;
    vram_cache_entries(p->model, &rules, report);
    for (int64_t i = 0; i < layers; i++) {
        const vram_attention *a = &p->model->kind[p->model->stage.kind[i]].attention;
        double kept = a->window && !whole_windows ? vram_min(tokens, (double)a->window - 1) : tokens;
        double half = layer_cache(s, a, p->sequences, kept, p->bytes) / 2;
        if (half > 0) *slack += 2 * (vram_block_bytes(half) - half);
    }
}

static void emit_slack(const pass *p, double slack, unsigned phase, vram_report *report)
{
    vram_entry *e = vram_add(report, p->role, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_SOURCE_PYTORCH_ALLOCATOR, phase);
    vram_times(e, VRAM_SYMBOL_BYTES, slack);
}

/* The prompt at once: caches fill from the first layer to the last, so each kind's last layer is its fullest. */
static void prefill(const pass *p, vram_report *report)
{
    const vram_model *m = p->model;
    double tokens = p->prompt, before = 0, most = -1, slack = 0;
    int64_t at = 0;
    stage room[2], *s = room, *best = room + 1;
    for (int64_t i = 0; i < p->model->stage.layers + p->model->stage.head; i++) {
        bool fuller_later = false;
        for (int64_t j = i + 1; i < p->model->stage.layers && j < p->model->stage.layers; j++) fuller_later |= m->stage.kind[j] == m->stage.kind[i];
        if (fuller_later) {
            before += layer_keeps(p, i, tokens);
            continue;
        }
        vram_generate_act(s, p, tokens, 0, i < p->model->stage.layers ? &m->kind[m->stage.kind[i]] : NULL);
        if (before + s->most > most) {
            most = before + s->most;
            at = i + (i < p->model->stage.layers && caches_itself(s));
            swap(&s, &best);
        }
        if (i < p->model->stage.layers) before += layer_keeps(p, i, tokens);
    }
    unsigned phase = p->prefill;
    emit_cache(p, at < p->model->stage.layers ? at : p->model->stage.layers, tokens, true, phase, &slack, report);
    leave_out_own_cache(best, false);
    emit_stage(best, p->role, phase, &slack, report);
    emit_slack(p, slack, phase, report);
}

/* Prompts that windows from this layer on still hold whole in the first step, beyond the tokens that the cache keeps. */
static double views_beyond_windows(const pass *p, int64_t from, double prompt, double tokens)
{
    const vram_model *m = p->model;
    double bytes = 0;
    for (int64_t i = from; i < p->model->stage.layers; i++) {
        const vram_attention *a = &m->kind[m->stage.kind[i]].attention;
        if (a->window) bytes += layer_cache(p->scenario, a, p->sequences, prompt - vram_min(tokens, (double)a->window - 1), p->bytes);
    }
    return vram_max(0, bytes);
}

static int64_t first_of_kind(const vram_model *m, int64_t layer)
{
    for (int64_t i = 0; i < layer; i++)
        if (m->stage.kind[i] == m->stage.kind[layer]) return i;
    return layer;
}

/* One token a step. Fullest at the last step, or, when windows were cut from the prompt, in a kind's first layer of the first step. */
static void decode(const pass *p, vram_report *report)
{
    const vram_model *m = p->model;
    double tokens = p->tokens, prompt = vram_min(p->prompt, tokens), slack = 0;
    unsigned phase = p->decode;
    double views = 0;
    stage room[2], *s = room, *best = room + 1;
    vram_generate_act(best, p, 1, tokens - 1, m->stage.head ? NULL : &m->kind[m->stage.kind[0]]);
    for (int k = 0; k < m->kinds; k++) {
        if (m->stage.of_kind[k] == 0) continue;
        vram_generate_act(s, p, 1, tokens - 1, &m->kind[k]);
        if (s->most - s->own > best->most - best->own) swap(&s, &best);
    }
    for (int64_t i = 0; i < p->model->stage.layers; i++) {
        double held = first_of_kind(m, i) == i ? views_beyond_windows(p, i, prompt, tokens) : 0;
        if (held <= 0) continue;
        vram_generate_act(s, p, 1, prompt, &m->kind[m->stage.kind[i]]);
        if (held + s->most - s->own <= views + best->most - best->own) continue;
        swap(&s, &best);
        views = held;
    }
    bool at_first = views > 0;
    emit_cache(p, p->model->stage.layers, tokens, false, phase, &slack, report);
    if (at_first) vram_times(vram_add(report, p->role, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_WINDOW_VIEWS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phase), VRAM_SYMBOL_BYTES, views);
    leave_out_own_cache(best, at_first);
    emit_stage(best, p->role, phase, &slack, report);
    emit_slack(p, slack, phase, report);
}

static double bytes_from(const vram_report *report, int from)
{
    double sum = 0;
    for (int i = from; i < report->entries && i < VRAM_MAX_ENTRIES; i++) sum += report->entry[i].bytes;
    return sum;
}

/* A generation as one phase: its prompt pass or its last token, whichever is fuller. */
void vram_transformers_generate(const vram_scenario *scenario, const vram_model *model, double sequences, double prompt, double tokens, double bytes, double sampled,
                                vram_phase phase, vram_report *report)
{
    pass p = {.scenario = scenario, .model = model, .role = VRAM_ROLE_ROLLOUT, .prefill = VRAM_BIT(phase), .decode = VRAM_BIT(phase), .sequences = sequences, .bytes = bytes,
              .prompt = prompt, .tokens = tokens, .sampled = sampled};
    int first = report->entries;
    prefill(&p, report);
    int second = report->entries;
    double prompt_bytes = bytes_from(report, first);
    decode(&p, report);
    if (report->entries > VRAM_MAX_ENTRIES) return; /* the ledger says so when it is closed */
    if (bytes_from(report, second) > prompt_bytes) {
        memmove(&report->entry[first], &report->entry[second], (size_t)(report->entries - second) * sizeof report->entry[0]);
        report->entries -= second - first;
    } else {
        report->entries = second;
    }
}

static void position_masks(const pass *p, vram_report *report)
{
    const vram_model *m = p->model;
    double masks = vram_position_masks(m);
    if (masks <= 0) return;
    vram_entry *e = vram_add(report, p->role, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_CAUSAL_MASK, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_ROWS, (double)m->position_rows), VRAM_SYMBOL_KEYS, (double)m->position_rows), VRAM_SYMBOL_LAYERS, masks);
}

/* Rows in the stack of experts for those that have no weights (LongCat) */
static void weightless_experts(const pass *p, vram_report *report)
{
    const vram_model *m = p->model;
    double zeros = 0, layers = 0;
    for (int64_t i = 0; i < m->stage.layers; i++) {
        const vram_ffn *f = &m->kind[m->stage.kind[i]].ffn;
        if (f->router_rows > 0) zeros = 2 * (double)f->expert_width * (double)f->router_rows;
        layers += f->router_rows > 0;
    }
    if (zeros <= 0) return;
    vram_entry *e = vram_add(report, p->role, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_EXPERTS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_LAYERS, layers), VRAM_SYMBOL_WIDTH, zeros);
    vram_times(vram_times(e, VRAM_SYMBOL_HIDDEN, (double)m->hidden), VRAM_SYMBOL_BYTES_PER_ELEMENT, p->bytes);
}

void vram_engine_transformers(const vram_scenario *scenario, vram_report *report)
{
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, (const double[]){5, 24});
    pass p = {.scenario = scenario, .model = &scenario->model, .role = VRAM_ROLE_MODEL, .prefill = VRAM_BIT(VRAM_PHASE_PREFILL), .decode = VRAM_BIT(VRAM_PHASE_DECODE),
              .sequences = vram_sequences_on_gpu(scenario), .bytes = vram_compute_bytes(scenario), .prompt = (double)scenario->prompt, .tokens = (double)scenario->context};
    vram_weights(scenario, &scenario->model, VRAM_ROLE_MODEL, scenario->weights, VRAM_PHASES_INFERENCE, report);
    if (vram_format_get(scenario->weights)->dtype && scenario->model.params_override == 0)
        vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_MODELLED, VRAM_SOURCE_PYTORCH_ALLOCATOR, VRAM_PHASES_INFERENCE),
                   VRAM_SYMBOL_BYTES, vram_model_slack(scenario, &scenario->model, p.bytes));
    position_masks(&p, report);
    weightless_experts(&p, report);
    prefill(&p, report);
    decode(&p, report);
}
