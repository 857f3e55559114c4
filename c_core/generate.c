/* generate.c -- see generate.h
 *
 * Source: transformers 5, models/ (a family's modeling file), cache_utils.py, integrations/sdpa_attention.py and moe.py.
 * A state-space mixer is a tape (mixers.c), run without gradients. Left out: what those of other families make inside beyond their projections and convolution. */
#include "generate.h"
#include "parts.h"

#include <stddef.h>
#include <string.h>

typedef vram_generate_stage stage;
typedef vram_generate_tensor tensor;
typedef vram_generate_pass pass;

static const double CUBLAS_WORKSPACE = 2 * 4096.0 * 1024 + 8 * 16.0 * 1024; /* of each matrix product while it runs (":4096:2:16:8") */

/* What families do that others do not */
enum {
    EAGER_ONLY = 1,      /* sdpa is not offered, whatever is asked for */
    NARROW_SOFTMAX = 2,  /* of the scores as they are, not in fp32 */
    LAST_WEIGHTS = 4,    /* a layer's outputs, probabilities among them, have a name until the next layer has run */
    NAMED_MLP = 8,       /* gate, activation and up have names until down has run */
    TWO_TABLES = 16,     /* windowed layers turn by a table of their own */
    MLP_NORM = 32,       /* a norm before down */
    NAMED_SCORES = 64,   /* scores before the mask was added have a name, too */
    ALWAYS_MASKED = 128, /* a mask is made for sdpa, too */
    WIDE_SCORES = 256,   /* scores in fp32 */
    NAMED_PARTS = 512,   /* what is turned of queries and keys has a name apart from what is not; both are joined */
    WIDE_KEYS = 4096,    /* queries and keys are made fp32 for them */
    TWO_ATTENTIONS = 8192, /* over two copies of the values, one less the other */
    TWO_EMBEDDINGS = 2048, /* the shared blocks read them again, from a copy */
    WIDE_TABLES = 1024   /* rotary tables in fp32, spread to all numbers of a head before each turn */
};
static const struct { const char *type; int habits; } HABITS[] = {
    {"bitnet", MLP_NORM}, {"bloom", EAGER_ONLY | LAST_WEIGHTS | NAMED_SCORES}, {"codegen", WIDE_SCORES | WIDE_KEYS | NAMED_PARTS}, {"deepseek_v32", ALWAYS_MASKED},
    {"deepseek_v4", EAGER_ONLY}, {"diffllama", TWO_ATTENTIONS}, {"ernie4_5", WIDE_TABLES}, {"ernie4_5_moe", WIDE_TABLES}, {"falcon", NARROW_SOFTMAX | LAST_WEIGHTS | NAMED_SCORES | ALWAYS_MASKED},
    {"gemma2", EAGER_ONLY}, {"gemma3", TWO_TABLES}, {"gemma3_text", TWO_TABLES}, {"gemma3n", NAMED_MLP | TWO_TABLES}, {"gemma3n_text", NAMED_MLP | TWO_TABLES},
    {"gemma4", TWO_TABLES}, {"gemma4_text", TWO_TABLES}, {"glm_moe_dsa", ALWAYS_MASKED}, {"gpt2", NARROW_SOFTMAX}, {"gpt_neo", EAGER_ONLY | LAST_WEIGHTS | WIDE_SCORES}, {"gpt_oss", EAGER_ONLY},
    {"gptj", WIDE_SCORES | WIDE_KEYS | NAMED_PARTS}, {"mimo_v2_flash", EAGER_ONLY | NARROW_SOFTMAX}, {"mpt", EAGER_ONLY | LAST_WEIGHTS | WIDE_SCORES}, {"openai-gpt", EAGER_ONLY | NARROW_SOFTMAX},
    {"persimmon", NAMED_PARTS}, {"phi", NAMED_PARTS}, {"stablelm", NAMED_PARTS}, {"vaultgemma", EAGER_ONLY}, {"zamba", TWO_EMBEDDINGS}, {"zamba2", TWO_EMBEDDINGS},
};

static bool has(const vram_model *m, int habit)
{
    for (size_t i = 0; i < sizeof HABITS / sizeof *HABITS; i++)
        if (m->model_type[0] == HABITS[i].type[0] && strcmp(m->model_type, HABITS[i].type) == 0) return HABITS[i].habits & habit;
    return false;
}

/* Rows of a side path's tensor; 0: there is none */
static double extra_rows(const vram_model *m, const char *name)
{
    for (int i = 0; i < m->extras; i++)
        if (strcmp(m->extra[i].name, name) == 0) return (double)m->extra[i].rows;
    return 0;
}

double vram_generate_bytes(const stage *s, const tensor *t)
{
    double rows = t->rows > 0 ? t->rows * s->sequences * s->tokens : 1;
    return t->copies * rows * t->width * t->bytes;
}

static void leave_peak(stage *s, int alive)
{
    if (!s->rising) return;
    s->rising = false;
    s->at_peak = alive;
    memcpy(s->peak, s->live, (size_t)alive * sizeof s->live[0]);
}

static int make_of(stage *s, vram_what what, double copies, double rows, double width, double bytes)
{
    if (s->alive >= VRAM_GENERATE_LIVE) return VRAM_GENERATE_LIVE - 1;
    s->live[s->alive] = (tensor){.what = what, .copies = copies, .rows = rows, .width = width, .bytes = bytes};
    s->sum += vram_generate_bytes(s, &s->live[s->alive++]);
    if (s->sum > s->most) {
        s->most = s->sum;
        s->rising = true;
    } else leave_peak(s, s->alive - 1);
    return s->alive - 1;
}

/* A tensor of so many numbers a token. Index of it, for drop(). */
static int make(stage *s, vram_what what, double width) { return make_of(s, what, 1, 1, width, s->bytes); }
static int make32(stage *s, vram_what what, double width) { return make_of(s, what, 1, 1, width, 4); }

/* -1: nothing */
static void drop(stage *s, int index)
{
    if (index < 0) return;
    leave_peak(s, s->alive);
    s->sum -= vram_generate_bytes(s, &s->live[index]);
    s->live[index].copies = 0;
    while (s->alive > 0 && s->live[s->alive - 1].copies == 0) s->alive--;
}

static void drop_all(stage *s, int n, const int list[])
{
    for (int i = 0; i < n; i++) drop(s, list[i]);
}

/* For a moment */
static void pass_by(stage *s, vram_what what, double width, double bytes) { drop(s, make_of(s, what, 1, 1, width, bytes)); }
static void workspace(stage *s) { drop(s, make_of(s, VRAM_WHAT_CUBLAS_WORKSPACE, 1, 0, CUBLAS_WORKSPACE, 1)); }

/* A product with a matrix of `width` x `inputs`. bitsandbytes unpacks 4-bit weights whole for it, but for single tokens. */
static int linear(stage *s, vram_what what, double width, double inputs)
{
    int out = make(s, what, width), weights = s->unpacks && s->tokens > 1 ? make_of(s, VRAM_WHAT_DEQUANTISED, 1, 0, width * inputs, s->bytes) : -1;
    workspace(s);
    drop(s, weights);
    return out;
}

/* ------------------------------------------------------------------------------------------------------------ modules -- */

/* RMS norms work in fp32: a copy, its square or its product, then the result; LayerNorm is one kernel. */
static int norm(stage *s, const vram_model *m, double width)
{
    if (m->norm != VRAM_NORM_RMS && m->norm != VRAM_NORM_RMS_BARE) return make(s, VRAM_WHAT_HIDDEN_STATES, width);
    int copy = s->bytes < 4 ? make32(s, VRAM_WHAT_NORM_INPUT, width) : -1;
    int product = make32(s, VRAM_WHAT_NORM_INPUT, width);
    drop(s, copy);
    int out = make(s, VRAM_WHAT_HIDDEN_STATES, width);
    drop(s, product);
    return out;
}

/* x * cos + rotate_half(x) * sin: the product, the rotated half and its negation, the second product, the sum. `bytes`: 4 in families that rotate in fp32. */
static int rotary(stage *s, double width, double bytes)
{
    vram_what what = VRAM_WHAT_ATTENTION_ACTIVATIONS;
    int first = make_of(s, what, 1, 1, width, bytes);
    int negated = make_of(s, what, 1, 1, width / 2, s->bytes), rotated = make_of(s, what, 1, 1, width, s->bytes);
    drop(s, negated);
    int second = make_of(s, what, 1, 1, width, bytes);
    drop(s, rotated);
    int sum = make_of(s, what, 1, 1, width, bytes);
    drop(s, first);
    drop(s, second);
    return sum;
}

/* What one token of a layer's cache is wide: keys and values, or the latent and the rotary key. */
static void cache_widths(const stage *s, const vram_attention *a, double *k, double *v)
{
    double heads = vram_kv_heads_on_rank((double)a->kv_heads, s->ranks);
    bool latent = a->type == VRAM_MIXER_MLA;
    *k = latent ? (double)a->kv_lora_rank : heads * (double)a->head_dim;
    *v = latent ? (double)a->qk_rope_head_dim : a->one_cache ? 0 : heads * (double)a->v_head_dim;
}

static double kept_before(const stage *s, const vram_attention *a) { return a->window ? vram_min(s->past, (double)a->window - 1) : s->past; }

/* The layer's cache as the pass finds it. The layer's own; the other layers' is counted outside. */
static void old_cache(stage *s, const vram_attention *a)
{
    double k, v, rows = kept_before(s, a) / s->tokens;
    s->old_k = s->old_v = -1;
    if (a->type == VRAM_MIXER_NONE || a->shares_cache || rows <= 0) return;
    cache_widths(s, a, &k, &v);
    s->old_k = make_of(s, VRAM_WHAT_CACHE_COPY, 1, rows, k, s->bytes);
    s->old_v = make_of(s, VRAM_WHAT_CACHE_COPY, 1, rows, v, s->bytes);
    s->own = vram_generate_bytes(s, &s->live[s->old_k]) + vram_generate_bytes(s, &s->live[s->old_v]);
}

/* The cache grows by concatenation. A full layer frees its old keys before it joins the values; a windowed one joins both first. */
static void update_cache(stage *s, const vram_attention *a)
{
    double k, v, rows = kept_before(s, a) / s->tokens + 1; /* in units of this pass's tokens */
    cache_widths(s, a, &k, &v);
    make_of(s, VRAM_WHAT_GLOBAL_LAYERS, 1, rows, k, s->bytes);
    if (s->old_k >= 0 && !a->window) drop(s, s->old_k);
    make_of(s, VRAM_WHAT_GLOBAL_LAYERS, 1, rows, v, s->bytes);
    if (s->old_k >= 0 && a->window) drop(s, s->old_k);
    if (s->old_v >= 0) drop(s, s->old_v);
}

/* softmax(q k) v with the scores whole: scaled, masked, softmax in fp32 and cast. The probabilities have a name until the layer is over. */
static void eager_scores(stage *s, const vram_model *m, double heads, double keys, bool sinks)
{
    vram_what what = VRAM_WHAT_ATTENTION_SCORES;
    bool wide = has(m, WIDE_SCORES);
    int scores = wide ? make32(s, what, heads * keys) : make(s, what, heads * keys), named = has(m, NAMED_SCORES) ? make(s, what, heads * keys) : -1;
    if (sinks && !has(m, NARROW_SOFTMAX)) { /* joined with the sinks, then less their greatest: in the type of the wider of the two, DeepSeek-V4's sinks being fp32 */
        double bytes = extra_rows(m, "hc_fn") > 0 ? 4 : s->bytes;
        int joined = make_of(s, what, 1, 1, heads * (keys + 1), bytes), less = make_of(s, what, 1, 1, heads * (keys + 1), bytes);
        drop(s, joined);
        if (bytes > s->bytes) {
            int out = make_of(s, what, 1, 1, heads * (keys + 1), bytes);
            pass_by(s, what, heads * keys, s->bytes);
            drop(s, out);
        }
        drop(s, less);
    } else if (s->bytes < 4 && !wide && !has(m, NARROW_SOFTMAX)) {
        int copy = make32(s, what, heads * keys), out = make32(s, what, heads * keys);
        drop(s, out);
        drop(s, copy);
    } else {
        int out = wide ? make32(s, what, heads * keys) : make(s, what, heads * keys);
        if (wide && s->bytes < 4) pass_by(s, what, heads * keys, s->bytes);
        drop(s, out);
    }
    drop(s, scores);
    drop(s, named);
    s->weights = make(s, what, heads * keys);
}

/* Keys in fp32, while the scores are computed */
static void widened_keys(stage *s, double heads, double head_dim, double keys)
{
    int q = make32(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, heads * head_dim), k = make_of(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, 1, keys / s->tokens, heads * head_dim, 4);
    int scores = make32(s, VRAM_WHAT_ATTENTION_SCORES, heads * keys);
    workspace(s);
    drop(s, scores);
    drop(s, k);
    drop(s, q);
}

/* Masked attention cannot group heads: keys and values are repeated, unless there is one head (a view). */
static void attention_core(stage *s, const vram_model *m, const vram_attention *a, double heads, double kv_heads, double keys)
{
    bool masked = s->tokens > 1 && a->window > 0 && keys >= (double)a->window, repeat = heads > kv_heads && kv_heads > 1;
    int k = -1, v = -1, bias = -1, twice[] = {-1, -1, -1};
    if (has(m, TWO_ATTENTIONS)) {
        twice[0] = make_of(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, 2, keys / s->tokens, heads * (double)a->v_head_dim, s->bytes);
        twice[1] = make(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, heads * (double)a->v_head_dim);
        if (s->eager) twice[2] = make(s, VRAM_WHAT_ATTENTION_SCORES, heads * keys);
    }
    if (repeat && (s->eager || masked)) {
        k = make_of(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, 1, keys / s->tokens, heads * (double)a->head_dim, s->bytes);
        v = make_of(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, 1, keys / s->tokens, heads * (double)a->v_head_dim, s->bytes);
    }
    if (s->eager && s->bytes < 4 && has(m, WIDE_KEYS)) widened_keys(s, heads, (double)a->head_dim, keys);
    if (s->eager) eager_scores(s, m, heads, keys, a->sinks);
    else if (masked) bias = make(s, VRAM_WHAT_CAUSAL_MASK, keys); /* of every sequence, in the compute type */
    if (masked && !s->eager && a->v_head_dim > 128 && s->bytes < 4) pass_by(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, heads * (double)a->v_head_dim * 3 / 2, 4); /* and an fp32 sum */
    int out = make(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, heads * (double)a->v_head_dim);
    if (s->eager) workspace(s);
    drop(s, out);
    drop(s, bias);
    drop(s, v);
    drop(s, k);
    for (int i = 0; i < 3; i++)
        drop(s, twice[i]);
}

/* Queries and keys turned. Cohere and ERNIE compute in fp32; Cohere makes fp32 copies of both first, and all of it in them. Returns the keys. */
static int turn(stage *s, const vram_model *m, double q, double k, double head_dim, int *turned_q)
{
    static const char *const copies[] = {"cohere", "cohere2", NULL}, *const products[] = {"ernie4_5", "ernie4_5_moe", "olmo", "olmo2", "olmo3", NULL};
    bool copied = vram_model_is(m, copies);
    double bytes = copied || vram_model_is(m, products) ? 4 : s->bytes, own = s->bytes;
    int tables = has(m, WIDE_TABLES) ? make_of(s, VRAM_WHAT_ROTARY_TABLES, 2, 1 / s->sequences, head_dim, 4) : -1;
    int copy_q = copied ? make32(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, q) : -1, copy_k = copied ? make32(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, k) : -1;
    if (copied) s->bytes = 4;
    *turned_q = rotary(s, q, bytes);
    int turned_k = rotary(s, k, bytes);
    s->bytes = own;
    drop(s, tables);
    drop(s, copy_k);
    drop(s, copy_q);
    if (bytes <= own) return turned_k;
    int cast_q = make(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, q), cast_k = make(s, VRAM_WHAT_ATTENTION_ACTIVATIONS, k);
    drop(s, turned_k);
    drop(s, *turned_q);
    *turned_q = cast_q;
    return cast_k;
}

static int qk_norm(stage *s, const vram_model *m, const vram_attention *a, int x, double width)
{
    if (a->qk_norm == VRAM_QK_NORM_NONE) return x;
    int normed = norm(s, m, width);
    drop(s, x);
    return normed;
}

static int softmax_attention(stage *s, const vram_model *m, const vram_attention *a)
{
    double heads = vram_ceil_div((double)a->heads, s->ranks), kv_heads = vram_kv_heads_on_rank((double)a->kv_heads, s->ranks);
    double d = (double)a->head_dim, h = (double)m->hidden, keys = s->past + s->tokens;
    if (a->window) keys = vram_min(s->past, (double)a->window - 1) + s->tokens;
    vram_what what = VRAM_WHAT_ATTENTION_ACTIVATIONS;
    bool parts = has(m, NAMED_PARTS) && a->rotary_dim > 0;
    int rest[3] = {-1, -1, -1};
    if (a->compress_ratio > 0) keys += vram_floor_div(s->past + s->tokens, (double)a->compress_ratio);
    int qkv = -1, k = -1, v = -1, q = linear(s, what, heads * d * (a->output_gate ? 2 : 1), h);
    if (a->fused_qkv) qkv = linear(s, what, kv_heads * (d + (double)a->v_head_dim), h);
    q = qk_norm(s, m, a, q, heads * d);
    if (!a->shares_cache && !a->fused_qkv) {
        k = linear(s, what, kv_heads * d, h);
        k = qk_norm(s, m, a, k, kv_heads * d);
        v = linear(s, what, kv_heads * (double)a->v_head_dim, h);
    }
    if (m->position == VRAM_POSITION_ROTARY) {
        int turned, turned_k = turn(s, m, heads * d, kv_heads * d, d, &turned);
        if (parts) {
            rest[0] = make(s, what, (heads + kv_heads) * (double)a->rotary_dim);
            rest[1] = q;
            rest[2] = k;
        } else {
            if (!a->fused_qkv) drop(s, q);
            drop(s, k);
        }
        q = a->fused_qkv && !parts ? q : turned;
        if (a->fused_qkv && !parts) drop(s, turned);
        k = turned_k;
    }
    if (!a->shares_cache) update_cache(s, a);
    drop(s, k);
    drop(s, v);
    attention_core(s, m, a, heads, kv_heads, keys);
    int core = make(s, what, heads * (double)a->v_head_dim);
    int out = linear(s, VRAM_WHAT_HIDDEN_STATES, h, heads * (double)a->v_head_dim);
    int all[] = {core, q, rest[0], rest[2], rest[1], qkv};
    drop_all(s, (int)(sizeof all / sizeof *all), all);
    return out;
}

/* The sparse index of DeepSeek-V3.2 and GLM-5: every head's score of every key in fp32, twice for a moment; each query's keys are then told by masks.
 * Keys of several sequences are copied for each query, as matmul() wants them. Returns the masks. */
static int sparse_index(stage *s, const vram_attention *a, double keys)
{
    double heads = (double)a->index_heads, d = (double)a->index_head_dim;
    vram_what what = VRAM_WHAT_ATTENTION_ACTIVATIONS, scores = VRAM_WHAT_ATTENTION_SCORES;
    int q = linear(s, what, heads * d, (double)a->q_lora_rank), turned = make(s, what, heads * (double)a->qk_rope_head_dim), joined = make(s, what, heads * d);
    int wide = make32(s, what, heads * d), copied = s->sequences > 1 ? make32(s, what, d * keys) : -1, product = make32(s, scores, heads * keys);
    drop(s, copied);
    drop(s, wide);
    pass_by(s, scores, heads * keys, 4);
    drop(s, product);
    drop(s, joined);
    drop(s, turned);
    drop(s, q);
    return make_of(s, VRAM_WHAT_CAUSAL_MASK, 2, 1, keys, 1);
}

/* DeepSeek: the latent is cached and expanded to all heads' keys and values for every pass. */
static int latent_attention(stage *s, const vram_model *m, const vram_attention *a)
{
    double heads = vram_ceil_div((double)a->heads, s->ranks), nope = (double)a->qk_nope_head_dim, rope = (double)a->qk_rope_head_dim;
    double keys = (s->past + s->tokens) / s->tokens, v = (double)a->v_head_dim;
    bool indexed = a->index_head_dim > 0;
    vram_what what = VRAM_WHAT_ATTENTION_ACTIVATIONS;
    int low = indexed ? make(s, what, (double)a->q_lora_rank) : -1, masks = -1;
    int q = linear(s, what, heads * (nope + rope), (double)m->hidden);
    int compressed = linear(s, what, (double)a->kv_lora_rank + rope, (double)m->hidden);
    int turned = make(s, what, heads * rope), query = make(s, what, heads * (nope + rope));
    update_cache(s, a);
    int expanded = make_of(s, what, 1, keys, heads * (nope + v), s->bytes);
    int k = make_of(s, what, 1, keys, heads * (nope + rope), s->bytes);
    if (indexed) masks = sparse_index(s, a, s->past + s->tokens);
    if (s->eager) eager_scores(s, m, heads, s->past + s->tokens, false);
    if (s->eager && s->sequences > 1) { /* values are a part of what was expanded: copied out for the product */
        int copy = make_of(s, what, 1, keys, heads * v, s->bytes);
        workspace(s);
        drop(s, copy);
    }
    int bias = indexed && !s->eager ? make(s, VRAM_WHAT_CAUSAL_MASK, s->past + s->tokens) : -1;
    int core = make(s, what, heads * v);
    drop(s, bias);
    int out = linear(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden, heads * v);
    int all[] = {core, masks, k, expanded, query, turned, compressed, q, low};
    drop_all(s, (int)(sizeof all / sizeof *all), all);
    return out;
}

/* What is alive at a tape's fullest instant, as tensors of the stage; they are dropped again at once. */
static void act_out(stage *s, const vram_tape *t, const vram_run *r)
{
    int made[VRAM_GENERATE_LIVE], n = 0;
    for (vram_cell c = 0; c < t->cells; c++) {
        const vram_tape_cell *cell = &t->cell[c];
        if (!vram_run_in(vram_run_top(r), c) || n >= VRAM_GENERATE_LIVE) continue;
        const vram_tape_shape *shape = &t->shape[cell->shape];
        int i = made[n++] = make_of(s, (vram_what)cell->what, 1, 0, shape->elements, cell->width);
        s->live[i].factors = shape->factors;
        memcpy(s->live[i].factor, shape->factor, sizeof shape->factor);
    }
    while (n > 0) drop(s, made[--n]);
}

static int known_state_mixer(stage *s, const vram_model *m, int kind)
{
    vram_tape t;
    vram_run r;
    vram_pass p = {.scenario = s->scenario, .model = m, .batch = s->sequences, .tokens = s->tokens, .width = (int)s->bytes, .plain_width = (int)s->bytes, .no_autocast = true, .workspace = CUBLAS_WORKSPACE};
    vram_block_mixer(&p, kind, &t);
    r.record = NULL;
    vram_run_clear(&t, &r, false);
    vram_run_forward(&t, &r, 0, t.ops, false);
    act_out(s, &t, &r);
    return make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
}

/* Projections and convolution of another state-space mixer; its state stays. */
static int state_mixer(stage *s, const vram_model *m, const vram_layer *l)
{
    const vram_state *x = &l->state;
    if (vram_mixer_known(x)) return known_state_mixer(s, m, (int)(l - m->kind));
    vram_state_shape shape = vram_state_size(x);
    double inner = vram_max(shape.channels, shape.conv_channels);
    int in = linear(s, VRAM_WHAT_STATE_MIXER, shape.conv_channels + inner, (double)m->hidden);
    int conv = make(s, VRAM_WHAT_STATE_MIXER, shape.conv_channels);
    int scanned = make32(s, VRAM_WHAT_STATE_MIXER, inner);
    int out = linear(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden, inner);
    drop(s, scanned);
    drop(s, conv);
    drop(s, in);
    return out;
}

/* How many numbers wide a plain MLP is beside its input when its activation is computed: one kernel (input and output), relu squared,
 * GPT-2's gelu written out in five, xIELU in six. */
static double activation_copies(const vram_model *m)
{
    static const struct { const char *type; double copies; } written_out[] = {
        {"gpt2", 4}, {"gptj", 4}, {"phi", 4}, {"codegen", 4}, {"nemotron", 3}, {"nemotron_h", 3}, {"arcee", 3}, {"jais2", 3}, {"nanochat", 3}, {"persimmon", 3}, {"apertus", 5.5},
    };
    for (size_t i = 0; i < sizeof written_out / sizeof *written_out; i++)
        if (strcmp(m->model_type, written_out[i].type) == 0) return written_out[i].copies;
    return 2;
}

static int dense_mlp(stage *s, const vram_model *m, const vram_ffn *f, double width)
{
    double i = vram_ceil_div(width, s->ranks), h = (double)m->hidden;
    vram_what what = VRAM_WHAT_MLP_ACTIVATIONS;
    bool named = has(m, NAMED_MLP);
    int first, inner, names[3];
    if (f->type == VRAM_FFN_PLAIN) {
        first = linear(s, what, i, h);
        int rest = make(s, what, i * (activation_copies(m) - 1));
        drop(s, rest);
        inner = make(s, what, i);
        drop(s, first);
    } else if (f->fused_gate_up) { /* gate and up are halves of one tensor: neither goes before the other */
        first = linear(s, what, 2 * i, h);
        int active = make(s, what, i);
        inner = make(s, what, i);
        drop(s, active);
        drop(s, first);
    } else {
        names[0] = linear(s, what, i, h);
        names[1] = make(s, what, i);
        if (!named) drop(s, names[0]);
        names[2] = linear(s, what, i, h);
        inner = make(s, what, i);
        for (int j = 2; j > 0 && !named; j--) drop(s, names[j]);
    }
    if (has(m, MLP_NORM)) {
        int normed = norm(s, m, i);
        drop(s, inner);
        inner = normed;
    }
    int out = linear(s, VRAM_WHAT_HIDDEN_STATES, h, i);
    drop(s, inner);
    for (int j = 2; j >= 0 && named; j--) drop(s, names[j]);
    return out;
}

/* Do the router's weights stay fp32, and so what they weigh? */
static bool weighs_in_fp32(const vram_model *m)
{
    static const char *const types[] = {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2", "kimi_linear", "longcat_flash", "dots1", "axk1", "solar_open",
                                        "exaone_moe", "hunyuan_v1_moe", "hy_v3", "minimax_m2", "minimax_m3_vl_text", "afmoe", "mimo_v2_flash", "bailing_hybrid", "nemotron_h", NULL};
    return vram_model_is(m, types);
}

/* grouped_mm: each token's row copied for each of its experts, both products, the weighted result, and it again in the tokens' order. */
static int experts(stage *s, const vram_model *m, const vram_ffn *f)
{
    double e = (double)f->experts_per_token, h = (double)(f->latent_width ? f->latent_width : m->hidden), w = vram_ceil_div((double)f->expert_width, s->ranks);
    double weighted = weighs_in_fp32(m) ? 4 : s->bytes;
    vram_what what = VRAM_WHAT_EXPERT_ACTIVATIONS;
    int order = make_of(s, VRAM_WHAT_EXPERT_ORDER, 1, 1, 5 * e, 8);
    int selected = make(s, what, e * h), bias = f->expert_bias ? make(s, what, 2 * e * w) : -1; /* a row of biases for each token's expert */
    int up = make(s, what, e * w * (f->type == VRAM_FFN_GATED ? 2 : 1)), wide = -1;
    if (bias >= 0) wide = make(s, what, 4 * e * w); /* gate and up clamped, gate times its sigmoid, up + 1; then their product */
    int active = make(s, what, e * w), inner = f->type == VRAM_FFN_GATED && bias < 0 ? make(s, what, e * w) : -1;
    drop(s, wide);
    drop(s, up);
    if (inner >= 0) drop(s, active);
    if (bias >= 0) {
        int next = make(s, what, e * h);
        drop(s, bias);
        bias = next;
    }
    int down = make(s, what, e * h);
    drop(s, inner >= 0 ? inner : active);
    int product = make_of(s, what, 1, 1, e * h, weighted), sorted = make_of(s, what, 1, 1, e * h, weighted);
    drop(s, product);
    int out = make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
    drop(s, sorted);
    drop(s, down);
    drop(s, bias);
    drop(s, selected);
    drop(s, order);
    return out;
}

/* Llama4TextMoe: every token for every expert, scaled before; the shared expert while inputs and outputs of all stand */
static int every_expert(stage *s, const vram_model *m, const vram_ffn *f)
{
    double e = (double)f->experts, h = (double)m->hidden, w = vram_ceil_div((double)f->expert_width, s->ranks);
    vram_what what = VRAM_WHAT_EXPERT_ACTIVATIONS;
    int copies = make(s, what, e * h), in = make(s, what, e * h);
    drop(s, copies);
    int both = make(s, what, 2 * e * w), active = make(s, what, e * w), product = make(s, what, e * w);
    drop(s, active);
    int each = make(s, what, e * h);
    workspace(s);
    drop(s, product);
    drop(s, both);
    int out = dense_mlp(s, m, f, (double)f->shared_width);
    pass_by(s, VRAM_WHAT_HIDDEN_STATES, h, s->bytes);
    drop(s, each);
    drop(s, in);
    return out;
}

static int feed_forward(stage *s, const vram_model *m, const vram_ffn *f)
{
    static const char *const every[] = {"llama4", "llama4_text", NULL};
    if (f->experts > 0 && vram_model_is(m, every)) return every_expert(s, m, f);
    if (f->type == VRAM_FFN_NONE) return make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
    static const char *const shared_first[] = {"afmoe", "qwen2_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text", "hunyuan_v1_moe", NULL};
    int out = -1, early = f->experts > 0 && f->shared_width > 0 && vram_model_is(m, shared_first) ? dense_mlp(s, m, f, (double)f->shared_width) : -1;
    if (f->experts > 0) out = experts(s, m, f);
    if (early >= 0) {
        make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
        drop(s, s->alive - 1);
        drop(s, early);
    } else if (f->shared_width > 0) {
        int shared = dense_mlp(s, m, f, (double)f->shared_width);
        if (out >= 0) drop(s, shared);
        else out = shared;
    }
    if (f->width > 0) {
        int dense = dense_mlp(s, m, f, (double)f->width);
        if (out >= 0) drop(s, dense);
        else out = dense;
    }
    return out >= 0 ? out : make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
}

static bool named(const vram_model *m, const char *a, const char *b) { return strcmp(m->model_type, a) == 0 || strcmp(m->model_type, b) == 0; }

static int mixer(stage *s, const vram_model *m, const vram_layer *l)
{
    int out = -1;
    int before = l->shared_blocks > 0 ? make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden) : -1; /* Zamba's shared block has run */
    if (l->state.type != VRAM_STATE_NONE) out = state_mixer(s, m, l);
    drop(s, before);
    if (l->attention.type == VRAM_MIXER_NONE) return out >= 0 ? out : make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
    int attended = l->attention.type == VRAM_MIXER_MLA ? latent_attention(s, m, &l->attention) : softmax_attention(s, m, &l->attention);
    drop(s, out);
    return attended;
}

/* The embeddings' output, the layer's input and the residual stay; the rest is made and dropped. Parallel blocks keep the attention's
 * output instead of the residual; GPT-2 keeps both; OPT lets go of the norm's output, and of nothing of its positions. */
static void decoder_layer(stage *s, const vram_model *m, const vram_layer *l)
{
    double h = (double)m->hidden, streams = extra_rows(m, "correction_coefs") /* of AltUp */, lanes = extra_rows(m, "hc_fn"); /* hyper-connections */
    bool keeps = l->parallel ? false : streams > 0 || strcmp(m->model_type, "stablelm") == 0; /* the first norm's output, too */
    bool only_post = l->post_norms && l->norms <= 2, opt = named(m, "opt", "xglm"), gpt2 = keeps || named(m, "gpt2", "gpt_bigcode");
    old_cache(s, &l->attention);
    s->weights = -1;
    int last = s->eager && m->layers > 1 && has(m, LAST_WEIGHTS) ? make(s, VRAM_WHAT_ATTENTION_SCORES, vram_ceil_div((double)l->attention.heads, s->ranks) * (s->past + s->tokens)) : -1;
    static const char *const wide_streams[] = {"mamba", "mamba2", "falcon_mamba", NULL}; /* residual_in_fp32 */
    bool wide_stream = vram_model_is(m, wide_streams);
    int embeddings = make(s, VRAM_WHAT_HIDDEN_STATES, h * (1 + streams + (has(m, TWO_EMBEDDINGS) ? 1 : 0))), input = make_of(s, VRAM_WHAT_HIDDEN_STATES, 1, 1, h * vram_max(1, vram_max(streams, lanes)), wide_stream ? 4 : s->bytes), positions = -1;
    if (m->position == VRAM_POSITION_LEARNED) positions = make_of(s, VRAM_WHAT_HIDDEN_STATES, 1, opt ? 1 : 1 / s->sequences, h, s->bytes);
    int first = only_post ? -1 : norm(s, m, h), sides[2] = {-1, -1};
    if (streams > 0) sides[0] = make(s, VRAM_WHAT_HIDDEN_STATES, h * (streams + 1)); /* predictions of all streams, LAuReL's path */
    int attended = mixer(s, m, l);
    if (first >= 0 && !l->parallel && !keeps) drop(s, first);
    int residual = l->parallel ? -1 : make(s, VRAM_WHAT_HIDDEN_STATES, h);
    if (!gpt2 && !l->parallel) drop(s, attended);
    if (streams > 0) sides[1] = make(s, VRAM_WHAT_HIDDEN_STATES, h);
    int second = only_post || l->parallel ? -1 : norm(s, m, h);
    if (opt && second >= 0) {
        drop(s, second);
        second = -1;
    }
    int out = feed_forward(s, m, &l->ffn);
    int sum = make(s, VRAM_WHAT_HIDDEN_STATES, h);
    int all[] = {sum, out, second, residual, gpt2 || l->parallel ? attended : -1, l->parallel || keeps ? first : -1, positions, s->weights, sides[1], sides[0], last, input, embeddings};
    drop_all(s, (int)(sizeof all / sizeof *all), all);
}

/* The last norm, and the logits of each sequence's last position; then, where a token is sampled, fp32 copies of them. */
static void head(stage *s, const vram_model *m, double sampled)
{
    int embeddings = make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden), input = make(s, VRAM_WHAT_HIDDEN_STATES, (double)m->hidden);
    int out = norm(s, m, (double)m->hidden);
    drop(s, input);
    drop(s, embeddings);
    int logits = make_of(s, VRAM_WHAT_LOGITS, 1, 1 / s->tokens, vram_ceil_div((double)m->vocab, s->ranks), s->bytes);
    workspace(s);
    drop(s, out);
    if (sampled > 0) drop(s, make_of(s, VRAM_WHAT_SAMPLING, sampled, 1 / s->tokens, vram_ceil_div((double)m->vocab, s->ranks), 4));
    drop(s, logits);
}

/* ---------------------------------------------------------------------------------------------------------- the pass -- */

static bool ever_masked(const vram_model *m, double tokens, bool windows)
{
    for (int k = 0; k < m->kinds; k++) {
        const vram_attention *a = &m->kind[k].attention;
        if (a->type != VRAM_MIXER_NONE && (a->window > 0) == windows && (!windows || tokens >= (double)a->window)) return true;
    }
    return false;
}

/* What the whole pass holds: positions, the rotary tables, and masks. sdpa makes one where a window cuts the prompt (a byte a pair,
 * whatever the batch), eager attention always, in the compute type, for each sequence. */
static void whole_pass(stage *s, const vram_model *m)
{
    double inputs = extra_rows(m, "per_layer_model_projection");
    if (inputs > 0) make(s, VRAM_WHAT_HIDDEN_STATES, inputs);
    if (m->position == VRAM_POSITION_ROTARY)
        for (int k = 0; k < m->kinds; k++) {
            const vram_attention *a = &m->kind[k].attention;
            if (a->type == VRAM_MIXER_NONE) continue;
            make_of(s, VRAM_WHAT_ROTARY_TABLES, has(m, TWO_TABLES) ? 4 : 2, 1 / s->sequences, a->type == VRAM_MIXER_MLA ? (double)a->qk_rope_head_dim : (double)a->head_dim, has(m, WIDE_TABLES) ? 4 : s->bytes);
            break;
        }
    if (s->tokens <= 1) return;
    double keys = s->past + s->tokens;
    if (s->eager) {
        if (ever_masked(m, keys, false)) make(s, VRAM_WHAT_CAUSAL_MASK, keys);
        if (ever_masked(m, 1e18, true)) make(s, VRAM_WHAT_CAUSAL_MASK, keys);
    } else if (ever_masked(m, keys, true) || has(m, ALWAYS_MASKED)) {
        make_of(s, VRAM_WHAT_CAUSAL_MASK, 1, 1 / s->sequences, keys, 1);
    }
}

/* Answers are sampled with the attention that trains */
static int attention_of(const vram_scenario *s) { return s->task == VRAM_TASK_RL ? s->training.attention : s->transformers.attention; }

static void begin(stage *s, const pass *p, double tokens, double past)
{
    vram_scheme scheme = vram_format_get(p->scenario->weights)->scheme;
    memset(s, 0, offsetof(stage, live));
    s->scenario = p->scenario;
    s->sequences = p->sequences;
    s->tokens = tokens;
    s->past = past;
    s->bytes = p->bytes;
    s->ranks = (double)p->scenario->parallel.tensor;
    s->unpacks = scheme == VRAM_SCHEME_NF4 || scheme == VRAM_SCHEME_NF4_DQ;
    s->eager = attention_of(p->scenario) == VRAM_ATTENTION_EAGER || has(p->model, EAGER_ONLY);
    whole_pass(s, p->model);
}

void vram_generate_act(stage *s, const pass *p, double tokens, double past, const vram_layer *layer)
{
    begin(s, p, tokens, past);
    if (layer) decoder_layer(s, p->model, layer);
    else head(s, p->model, p->sampled);
    leave_peak(s, s->alive);
}
