/* engine_sglang.c -- SGLang: a static share of the card holds weights and the token pool, the rest is for activations and graphs.
 *
 *     pool = free after the weights - (1 - mem_fraction_static) * free before them        tokens = pool / bytes a token in all layers
 *
 * Every layer keeps every token, but in families whose windowed layers have a pool of their own, of 0.8 as many tokens. Pages are of one token.
 * Hybrids give the states 0.9 of what the keys and values get. Source: python/sglang/srt/model_executor/model_runner_kv_cache_mixin.py
 * (profile_max_num_token, handle_max_mamba_cache, set_num_tokens_hybrid_swa) and server_args.py (_handle_gpu_memory_settings).
 * Left out: data-parallel attention, speculative decoding, request tables. */
#include "core.h"

#include <string.h>

static const double MIB = 1048576, SWA_RATIO = 0.8, STATE_RATIO = 0.9;

/* Defaults by the card's size in MiB: tokens of a prefill chunk, and the largest batch that is captured. */
static double chunk_tokens(double card) { return card < 35 * 1024 ? 2048 : card < 60 * 1024 ? 4096 : card < 160 * 1024 ? 8192 : 16384; }

static double captured_batch(double card, double ranks)
{
    if (card < 20 * 1024) return 8;
    if (card < 35 * 1024) return ranks < 4 ? 24 : 80;
    if (card < 60 * 1024) return ranks < 4 ? 32 : 160;
    return card < 160 * 1024 && ranks < 4 ? 256 : 512;
}

/* What is left when activations, graphs and metadata have their reserve; to three digits. */
static double static_fraction(const vram_scenario *s)
{
    double card = vram_floor_div(s->gpu.memory_bytes, MIB), ranks = (double)s->parallel.tensor;
    if (s->sglang.mem_fraction_static >= 0) return s->sglang.mem_fraction_static;
    double reserved = 512 + vram_max(chunk_tokens(card), 2048) * 1.5 + captured_batch(card, ranks) * 2 + ranks * (double)s->parallel.pipeline / 8 * 1024;
    if (card > 60 * 1024) reserved = vram_max(reserved, 10 * 1024);
    return card > reserved ? vram_floor_div((card - reserved) / card * 1000 + 0.5, 1) / 1000 : 0;
}

static bool windows_apart(const vram_model *m)
{
    static const char *const types[] = {"llama4", "llama4_text", "gpt_oss", "mimo_v2_flash", "step3p5"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(m->model_type, types[i]) == 0) return true;
    return false;
}

/* Bytes of one sequence: its tokens in every layer, or the states. */
static double bytes_of_sequence(const vram_scenario *s, vram_cache_rules rules, bool states, vram_report *scratch)
{
    int before = scratch->entries, notes = scratch->notes;
    double bytes = 0;
    rules.sequences = rules.states = 1;
    vram_cache_entries(&s->model, &rules, scratch);
    for (int i = before; i < scratch->entries; i++) {
        const vram_entry *e = &scratch->entry[i];
        bool windowed = e->what == VRAM_WHAT_WINDOW_LAYERS;
        if ((e->component == VRAM_COMPONENT_RECURRENT_STATE) == states) bytes += e->bytes * (windowed ? SWA_RATIO : 1);
    }
    scratch->entries = before;
    scratch->notes = notes;
    return bytes;
}

static vram_cache_rules sglang_rules(const vram_scenario *s, double tokens)
{
    vram_cache_rules rules = vram_cache_rules_plain(s, &s->model, VRAM_ROLE_MODEL, vram_sequences_on_gpu(s), tokens, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE));
    rules.source = VRAM_SOURCE_SGLANG;
    rules.no_windows = !windows_apart(&s->model);
    rules.conv_less = 1;
    return rules;
}

/* Keys and values of the pool apart; a latent is one buffer. */
static void key_and_value_bytes(const vram_scenario *s, double pool_bytes, vram_pool *pool)
{
    double k = 0, v = 0, latent = 0;
    for (int64_t i = 0; i < s->model.layers; i++) {
        const vram_attention *a = &s->model.kind[s->model.layer_kind[i]].attention;
        if (a->type == VRAM_MIXER_MLA) latent++;
        if (a->type == VRAM_MIXER_SOFTMAX && !a->shares_cache) k += (double)(a->kv_heads * a->head_dim), v += (double)(a->kv_heads * a->v_head_dim);
    }
    if (k + v <= 0 && latent <= 0) return;
    pool->k_bytes = latent > 0 ? pool_bytes : vram_floor_div(pool_bytes * k, k + v);
    if (latent <= 0) pool->v_bytes = pool_bytes - pool->k_bytes;
}

static void capacity(const vram_scenario *s, double held, vram_report *report)
{
    vram_cache_rules one = sglang_rules(s, 1);
    one.window_more = 1e15; /* cells of a window: all of its pool */
    double token = bytes_of_sequence(s, one, false, report), states = bytes_of_sequence(s, one, true, report);
    double room = static_fraction(s) * s->gpu.usable_bytes - held;
    if (states > 0) room /= 1 + STATE_RATIO;
    report->kv_tokens_capacity = token > 0 ? vram_max(0, vram_floor_div(room, token)) : -1;
    report->pool.tokens = report->kv_tokens_capacity;
    if (token > 0) key_and_value_bytes(s, report->kv_tokens_capacity * token, &report->pool);
    report->max_context = s->model.max_positions > 0 ? vram_min(report->kv_tokens_capacity, (double)s->model.max_positions) : report->kv_tokens_capacity;
}

void vram_engine_sglang(const vram_scenario *s, vram_report *report)
{
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, (const double[]){0, 5});
    double held = 0, card = s->gpu.memory_bytes / MIB, sequences = vram_sequences_on_gpu(s), largest = captured_batch(card, (double)s->parallel.tensor);
    int first = report->entries;
    vram_weights(s, &s->model, VRAM_ROLE_MODEL, s->weights, VRAM_PHASES_INFERENCE, report);
    report->pool.model_bytes = 0;
    for (int i = first; i < report->entries; i++) report->pool.model_bytes += report->entry[i].bytes;
    vram_ranks_allowance(s, report);
    vram_kernels_allowance(s, report);
    for (int i = first; i < report->entries; i++) held += report->entry[i].bytes;
    vram_cache_rules rules = sglang_rules(s, (double)s->context);
    vram_cache_entries(&s->model, &rules, report);
    vram_serving_pass(s, vram_min(chunk_tokens(card), sequences * (double)s->prompt), vram_min(sequences, largest), report);
    vram_graphs_allowance(s, vram_min(7, largest) + vram_floor_div(vram_max(0, largest - 8), 8), report);
    capacity(s, held, report);
}
