/* vllm_pool.c -- blocks of the cache: groups of layers, what sequences reserve, how many tokens the rest of the card holds.
 *
 * Source: v1/core/kv_cache_planning.py, kv_cache_utils.py (0.33) */
#include "vllm.h"

#include <string.h>

typedef vram_vllm vllm;

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
    for (int64_t i = 0; i < v->m->stage.layers; i++) {
        const vram_layer *l = &v->m->kind[v->m->stage.kind[i]];
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
    vram_entry *e = vram_vllm_add(report, c, what, VRAM_EXACT, serving);
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

void vram_vllm_pool(const vllm *v, double room, vram_report *report)
{
    pool p;
    fill_pool(v, &p);
    group_pool(&p);
    add_reserved(v, &p, report);
    capacity(v, &p, room, report);
}
