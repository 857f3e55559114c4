/* engine_sglang.c -- SGLang: a static share of the card holds weights and pools, the rest is for activations, tables and graphs.
 *
 *     pools = mem_fraction_static * free before the weights - weights        tokens = pools / bytes a token in all layers
 *
 * Every layer keeps every token, but in families whose windowed layers have a pool of their own, of 0.8 as many tokens. Pages are of one token.
 * Hybrids give states 0.9 of what keys and values get, and a running request several: its own and those that the prefix cache may keep.
 * Source (0.5.23): python/sglang/srt/arg_groups/memory_hook.py (handle_gpu_memory_settings, reserve_for_graph_mb), model_executor/pool_configurator.py,
 * mem_cache/kv_cache_configurator.py (_profile_available_bytes, _handle_max_mamba_cache, _calculate_mamba_ratio, resolve_max_num_reqs).
 * Left out: data-parallel attention, drafts, the share that models with image towers give up. */
#include "core.h"

#include <string.h>

static const double MIB = 1048576, SWA_RATIO = 0.8, STATE_RATIO = 0.9, LOADING_KERNELS_MIB = 100; /* "mem usage" of loading over the weights, in logs */

typedef struct {
    double card, ranks, chunk, largest; /* MiB that nvidia-smi reports; tokens of a prefill chunk; largest batch that is captured */
    bool latent;
} settings;

static bool has_latent(const vram_model *m)
{
    for (int k = 0; k < m->kinds; k++)
        if (m->kind[k].attention.type == VRAM_MIXER_MLA) return true;
    return false;
}

/* Defaults by the card's size */
static settings settings_on(const vram_scenario *s, const vram_gpu *gpu)
{
    static const struct { double below, chunk, largest, many; } rows[] = {
        {20, 2048, 8, 8}, {35, 4096, 48, 160}, {60, 4096, 32, 160}, {160, 8192, 256, 512}, {1e9, 16384, 512, 512},
    };
    settings t = {vram_floor_div(gpu->memory_bytes, MIB), (double)s->parallel.tensor, 0, 0, has_latent(&s->model)};
    int i = 0;
    while (t.card >= rows[i].below * 1024) i++;
    t.chunk = rows[i].chunk;
    t.largest = t.ranks < 4 ? rows[i].largest : rows[i].many;
    return t;
}

/* Numbers from `from` in steps up to `to`, no further than `limit` */
static double steps(double from, double to, double step, double limit) { return vram_min(to, limit) < from ? 0 : vram_floor_div(vram_min(to, limit) - from, step) + 1; }

/* cuda_graph_hook.py: lengths of a prefill, sizes of a decode batch */
static double prefill_graphs(double tokens)
{
    return steps(4, 32, 4, tokens) + steps(48, 256, 16, tokens) + steps(288, 512, 32, tokens) + steps(576, 1024, 64, tokens) + steps(1280, 4096, 256, tokens) + steps(4608, tokens, 512, tokens);
}

static double decode_graphs(double largest)
{
    return vram_min(largest, 2) + steps(4, 12, 4, largest) + steps(16, 256, 8, largest) + steps(272, 511, 16, largest) + steps(512, largest, 32, largest);
}

/* What is left when metadata, activations and graphs have their reserve; to three digits. */
double vram_sglang_share(const vram_scenario *s, const vram_gpu *gpu)
{
    settings t = settings_on(s, gpu);
    if (s->sglang.mem_fraction_static >= 0) return s->sglang.mem_fraction_static;
    double reserved = 512 + vram_max(t.chunk, 2048) * 1.5 + t.ranks * (double)s->parallel.pipeline / 8 * 1024 + t.largest * 2 + (t.latent ? 1536 : prefill_graphs(t.chunk) * 8);
    if (t.card > 60 * 1024) reserved = vram_max(reserved, 10 * 1024);
    return t.card > reserved ? vram_floor_div((t.card - reserved) / t.card * 1000 + 0.5, 1) / 1000 : 0;
}

/* configs/model_config.py is_hybrid_swa_model */
static bool windows_apart(const vram_model *m)
{
    static const char *const types[] = {"llama4", "llama4_text", "gpt_oss", "granite_swa", "mimo_v2_flash", "mimo_v2", "step3p5", "gemma4", "gemma4_text", "gemma4_unified_text", "laguna", NULL};
    return vram_model_is(m, types);
}

/* States that a running request may hold: its own, and with the prefix cache two copies on write; two more where snapshots are taken while it runs. */
static double states_each(const vram_model *m)
{
    for (int k = 0; k < m->kinds; k++)
        if (m->kind[k].state.type >= VRAM_STATE_MAMBA2 && m->kind[k].state.type <= VRAM_STATE_LIGHTNING) return 5;
    return 3;
}

/* A token's bytes in the pools of all layers, and a state's. */
typedef struct { double full, window, key, value, state, widest; } cell;

static cell cell_of(const vram_scenario *s)
{
    const vram_model *m = &s->model;
    double k = vram_format_bytes(s->kv_cache_k >= 0 ? s->kv_cache_k : s->kv_cache), v = vram_format_bytes(s->kv_cache_v >= 0 ? s->kv_cache_v : s->kv_cache), ranks = (double)s->parallel.tensor;
    cell c = {0};
    int64_t layers = m->stage.layers, guessing = (int64_t)vram_mtp_layers(s, m);
    int last = vram_last_global_kind(m);
    for (int64_t i = 0; i < layers + (last >= 0 ? guessing : 0); i++) {
        int kind = i < layers ? m->stage.kind[i] : last;
        const vram_attention *a = &m->kind[kind].attention;
        const vram_state *x = &m->kind[kind].state;
        double heads = vram_kv_heads_on_rank((double)a->kv_heads, ranks), key = 0, value = 0;
        if (a->type == VRAM_MIXER_MLA) key = (double)(a->kv_lora_rank + a->qk_rope_head_dim) * k;
        else if (a->type == VRAM_MIXER_SOFTMAX && !a->shares_cache) key = heads * (double)a->head_dim * k, value = heads * (double)a->v_head_dim * v;
        bool windowed = a->window > 0 && windows_apart(m);
        *(windowed ? &c.window : &c.full) += key + value + (double)a->index_head_dim * 33 / 32; /* keys of an index are fp8 with a scale for 128 */
        c.widest = windowed ? vram_max(c.widest, (double)a->window) : c.widest;
        c.key += key * (windowed ? SWA_RATIO : 1);
        c.value += value * (windowed ? SWA_RATIO : 1);
        if (x->type == VRAM_STATE_NONE) continue;
        vram_state_shape shape = vram_state_size(x);
        c.state += vram_ceil_div(shape.conv_channels, ranks) * vram_max(0, (double)x->conv_kernel - 1) * 2 + vram_ceil_div(shape.channels, ranks) * shape.numbers * 4;
    }
    return c;
}

/* Tokens that a sequence takes of the larger pool, so that the smaller holds its window */
static double tokens_each(const vram_scenario *s, const cell *c)
{
    double tokens = vram_ceil_div((double)s->context, (double)s->parallel.context);
    return c->window > 0 ? vram_max(tokens, vram_ceil_div(vram_min(tokens, c->widest), SWA_RATIO)) : tokens;
}

/* Where there are states, they get 0.9 of what the tokens get; one more is kept for padding. Returns how many requests may run at once
 * (resolve_max_num_reqs): with two tokens each, and as many states as one of them may hold. */
static double capacity(const vram_scenario *s, double held, vram_report *report)
{
    cell c = cell_of(s);
    vram_pool *pool = &report->pool;
    double token = c.full + c.window * SWA_RATIO, budget = vram_pool_budget(s, &s->gpu), room = vram_max(0, budget - held), states = -1, each = tokens_each(s, &c);
    if (c.state > 0) states = vram_max(0, vram_floor_div(room * STATE_RATIO / (1 + STATE_RATIO) - c.state, c.state)), room -= (states + 1) * c.state;
    pool->tokens = report->kv_tokens_capacity = token > 0 ? vram_max(0, vram_floor_div(room, token)) : -1;
    report->max_context = token <= 0 ? -1 : s->model.max_positions > 0 ? vram_min(pool->tokens, (double)s->model.max_positions) : pool->tokens;
    pool->k_bytes = token > 0 ? (pool->tokens + 1) * c.key : -1; /* a page of padding */
    pool->v_bytes = token > 0 && c.value > 0 ? (pool->tokens + 1) * c.value : -1;
    pool->sequences_limit = token > 0 ? vram_max(2048, vram_min(4096, vram_floor_div(pool->tokens / (double)s->context * 512, 1))) : 4096;
    pool->fixed_bytes = held;
    pool->sequence_bytes = token * each * (c.state > 0 ? 1 + STATE_RATIO : 1);
    pool->sequence_bytes = vram_max(pool->sequence_bytes, states_each(&s->model) * c.state * (1 + STATE_RATIO) / STATE_RATIO);
    pool->first_bytes = pool->sequence_bytes + c.state * 2 * (1 + STATE_RATIO) / STATE_RATIO;
    pool->sequences = vram_pool_sequences(pool, budget);
    vram_pool_note(s, "batch", report);
    double requests = vram_min(pool->sequences_limit, vram_floor_div(vram_max(0, pool->tokens), 2));
    return c.state > 0 ? vram_min(requests, vram_floor_div(states, states_each(&s->model))) : requests;
}

/* What the sequences take of the pools */
static void reserved(const vram_scenario *s, vram_report *report)
{
    cell c = cell_of(s);
    double sequences = vram_sequences_on_gpu(s), tokens = tokens_each(s, &c);
    vram_cache_rules rules = vram_cache_rules_plain(s, &s->model, VRAM_ROLE_MODEL, sequences, tokens, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE));
    rules.source = VRAM_SOURCE_SGLANG;
    rules.tokens = tokens;
    rules.no_windows = c.window <= 0;
    rules.window_sequences = 0;
    rules.window_more = tokens * SWA_RATIO;
    rules.index_bytes = 33.0 / 32;
    rules.conv_less = 1;
    rules.state_bytes = 4; /* mamba_ssm_dtype */
    rules.states = c.state > 0 ? sequences * states_each(&s->model) + 1 : 0;
    vram_cache_entries(&s->model, &rules, report);
}

/* memory_pool.py ReqToTokenPool: a place for every token of every request that may run, and four more. `context` is what the server is told as
 * --context-length, as it is vLLM's --max-model-len: without it the table of a model of 10 million positions takes 86 GB. */
static void request_table(const vram_scenario *s, double requests, vram_report *report)
{
    if (requests <= 0) return;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_REQUEST_TABLE, VRAM_EXACT, VRAM_SOURCE_SGLANG, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE));
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, requests + 1), VRAM_SYMBOL_TOKENS, (double)s->context + 4), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
}

void vram_engine_sglang(const vram_scenario *s, vram_report *report)
{
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, (const double[]){0, 5});
    double held = 0, sequences = vram_sequences_on_gpu(s);
    settings t = settings_on(s, &s->gpu);
    int first = report->entries;
    vram_weights(s, &s->model, VRAM_ROLE_MODEL, s->weights, VRAM_PHASES_INFERENCE, report);
    vram_sglang_loading(s, report);
    report->pool.model_bytes = 0;
    for (int i = first; i < report->entries; i++) report->pool.model_bytes += report->entry[i].bytes;
    vram_kernels_allowance(s, LOADING_KERNELS_MIB, report);
    for (int i = first; i < report->entries; i++) held += report->entry[i].bytes;
    held += vram_ranks_allowance(s, false, report) * vram_sglang_share(s, &s->gpu); /* joined before free memory is first read: it is the share of less */
    double requests = capacity(s, held, report);
    reserved(s, report);
    request_table(s, requests, report);
    vram_serving_pass(s, vram_min(t.chunk, sequences * (double)s->prompt), vram_min(sequences, t.largest), report);
    vram_graphs_allowance(s, decode_graphs(t.largest), report);
}
