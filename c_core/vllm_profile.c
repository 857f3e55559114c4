/* vllm_profile.c -- the profile run: one pass of T = max_num_batched_tokens tokens without the attention kernel, then the sampler for S = max_num_seqs rows.
 *
 * Source: v1/worker/gpu/model_runner.py (0.33), worker/model_runner.py profile_run (V0) */
#include "vllm.h"

#include <string.h>

typedef vram_vllm vllm;
typedef vram_vllm_forward forward;
typedef vram_vllm_profile profile;

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

double vram_vllm_numbers(const vllm *v, forward f) { return f.width + f.hidden * v->h; }

static double pass_bytes(const vllm *v, forward f) { return v->T * vram_vllm_numbers(v, f) * v->b + f.context; }

static forward fuller(const vllm *v, forward a, forward b) { return pass_bytes(v, b) > pass_bytes(v, a) ? b : a; }

/* Embeddings of every layer beside the one (Gemma 3n, 4): while they are made four copies of all layers' stand beside eight of the hidden width */
static forward side_embeddings(const vllm *v)
{
    for (int t = 0; t < v->m->tensors && v->m->stage.embedding; t++)
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
    if (vram_vllm_padded_experts(v) && vram_vllm_hopper(v)) return 0; /* kernels of its own */
    double m = vram_ceil_div((double)f->expert_width, vram_vllm_expert_ranks(v));
    if (vram_vllm_padded_experts(v)) m = vram_round_up(m, 128);
    double up = f->type == VRAM_FFN_GATED ? 2 * m : m, in = (double)(f->latent_width ? f->latent_width : v->m->hidden);
    return f->experts > 0 ? (double)f->experts_per_token * (vram_max(m, in) + vram_max(up, in)) : 0;
}

/* Blocks above the split limit are whole 2 MiB. */
static double block(double bytes) { return bytes > 20 * VRAM_VLLM_MIB ? vram_round_up(bytes, 2 * VRAM_VLLM_MIB) : vram_round_up(bytes, 512); }

static double power_of_two(double n)
{
    double p = 1;
    while (p < n) p *= 2;
    return p;
}

/* topk_topp_triton.py: a row of fp32 words for each multiprocessor, or each sequence. FlashInfer's sampler keeps none. */
static double sampler_rows(const vllm *v)
{
    if (v->flashinfer || !v->m->stage.head) return 0;
    double sms = v->s->gpu.multiprocessors > 0 ? v->s->gpu.multiprocessors : 108;
    return v->v0 ? 0 : vram_min(sms, power_of_two(v->S));
}


profile vram_vllm_profile_run(const vllm *v)
{
    profile p = {.most = side_embeddings(v)};
    bool experts = false;
    for (int64_t i = 0; i < v->m->stage.layers; i++) {
        const vram_layer *l = &v->m->kind[v->m->stage.kind[i]];
        forward f = layer_of(v, l);
        if (l->ffn.experts > 0) experts = true;
        if (experts || v->m->kinds == 1) p.most = fuller(v, p.most, f);
        else p.before = vram_max(p.before, pass_bytes(v, f));
        p.workspace = vram_max(p.workspace, expert_workspace(v, &l->ffn));
    }
    bool none = p.workspace <= 0;
    if (!none) return p;
    for (int64_t i = 0; i < v->m->stage.layers; i++) p.most = fuller(v, p.most, layer_of(v, &v->m->kind[v->m->stage.kind[i]]));
    p.before = 0;
    return p;
}

static void add_forward(const vllm *v, forward f, vram_report *report)
{
    unsigned phase = VRAM_BIT(VRAM_PHASE_PREFILL);
    vram_entry *e = vram_vllm_add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, VRAM_MODELLED, phase);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_COPIES, f.hidden), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    e = vram_vllm_add(report, VRAM_COMPONENT_ACTIVATIONS, f.what, VRAM_MODELLED, phase);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_WIDTH, f.width), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    vram_times(vram_vllm_add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_EXPANDED_CONTEXT, VRAM_MODELLED, phase), VRAM_SYMBOL_BYTES, f.context);
}

/* Logits of S rows, their fp32 copy, blocks of top log-probabilities; T hidden states are kept the while. FlashInfer samples from probabilities: two more
 * fp32 copies. V0: 38 bytes a row and word (logits in 16
 * and 32 bit, sorted values and indices, masks, softmax and log-softmax). */
static double sampler_bytes(const vllm *v)
{
    if (!v->m->stage.head) return 0;
    if (v->v0) return v->T * v->h * v->b + 38 * v->S * v->V;
    return block(v->T * v->h * v->b) + block(v->S * v->h * v->b) + block(v->S * v->V * v->b) + block(v->S * v->V * 4) * (v->flashinfer ? 3 : 1) + 12 * v->S * v->V / 1024;
}

static void add_sampler(const vllm *v, bool hidden, unsigned phases, vram_report *report)
{
    vram_entry *e;
    if (!v->m->stage.head) return; /* it is the last stage's (v1/worker/gpu/model_runner.py, is_last_pp_rank) */
    if (hidden) {
        e = vram_vllm_add(report, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, VRAM_MODELLED, phases);
        vram_times(vram_times(vram_times(e, VRAM_SYMBOL_ROWS, v->T + v->S), VRAM_SYMBOL_HIDDEN, v->h), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    }
    e = vram_vllm_add(report, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOGITS, VRAM_MODELLED, phases);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, v->S), VRAM_SYMBOL_VOCABULARY, v->V), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->v0 ? 38 : v->b + (v->flashinfer ? 12 : 4));
    if (!v->v0) vram_times(vram_vllm_add(report, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOG_PROBABILITIES, VRAM_MODELLED, phases), VRAM_SYMBOL_BYTES, vram_ceil_div(12 * v->S * v->V, 1024));
}

/* Returns what the profile run raises the peak by. */
double vram_vllm_activation(const vllm *v, vram_report *report)
{
    profile p = vram_vllm_profile_run(v);
    double rows = sampler_rows(v), kept = block(rows * v->V * 4), work = block(v->T * p.workspace * v->b);
    double forward_bytes = pass_bytes(v, p.most), sampler = sampler_bytes(v) + kept, before = p.before;
    unsigned serving = VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE);
    bool early = before > work + vram_max(forward_bytes, sampler), forwards = forward_bytes > sampler;
    unsigned kept_in = (early || forwards) && !early ? VRAM_BIT(VRAM_PHASE_DECODE) : early ? VRAM_BIT(VRAM_PHASE_DECODE) : serving;
    vram_entry *e = vram_vllm_add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_EXPERT_WORKSPACE, VRAM_EXACT, early ? VRAM_BIT(VRAM_PHASE_DECODE) : serving);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_WIDTH, p.workspace), VRAM_SYMBOL_BYTES_PER_ELEMENT, v->b);
    e = vram_vllm_add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_SAMPLER_ROWS, VRAM_EXACT, kept_in);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_ROWS, rows), VRAM_SYMBOL_VOCABULARY, v->V), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    if (early) add_forward(v, (forward){p.before / v->T / v->b - 3 * v->h, 3, VRAM_WHAT_MLP_ACTIVATIONS, 0}, report);
    else if (forwards) add_forward(v, p.most, report);
    else add_sampler(v, true, VRAM_BIT(VRAM_PHASE_PREFILL), report);
    if (!v->v0) add_sampler(v, false, VRAM_BIT(VRAM_PHASE_DECODE), report);
    return vram_max(before, work + vram_max(forward_bytes, sampler));
}

/* One pass of so many tokens, as in the profile run, and the logits of the sequences' last positions. */
void vram_serving_pass(const vram_scenario *s, double tokens, double sequences, vram_report *report)
{
    vllm v = vram_vllm_open(s);
    v.T = tokens;
    v.S = sequences;
    profile p = vram_vllm_profile_run(&v);
    vram_entry *e = vram_vllm_add(report, VRAM_COMPONENT_WORKSPACE, VRAM_WHAT_EXPERT_WORKSPACE, VRAM_MODELLED, VRAM_BIT(VRAM_PHASE_PREFILL));
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v.T), VRAM_SYMBOL_WIDTH, p.workspace), VRAM_SYMBOL_BYTES_PER_ELEMENT, v.b);
    add_forward(&v, p.most, report);
    add_sampler(&v, false, VRAM_BIT(VRAM_PHASE_DECODE), report);
}
