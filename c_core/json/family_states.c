/* family_states.c -- shapes of the recurrent mixers, by family. Sources: the modelling files named in families.c. */
#include "families.h"

#include <math.h>
#include <string.h>

/* inner: as given, else expand * hidden; dt_rank "auto": hidden / 16, rounded up */
void family_mamba1_state(reader *r, vram_state *s)
{
    int64_t h = r->model->hidden;
    s->type = VRAM_STATE_MAMBA1;
    s->state = config_whole(r, "state_size mamba_d_state", 16, 1, CONFIG_COUNT);
    s->inner = (int64_t)floor(config_real(r, "expand mamba_expand", 2, 0.001, 1024) * (double)h);
    if (!r->family->heads) s->inner = config_whole(r, "intermediate_size", s->inner, 1, CONFIG_WIDEST);
    s->conv_kernel = config_whole(r, "conv_kernel mamba_d_conv", 4, 1, CONFIG_COUNT);
    const char *rank = config_text(r, "time_step_rank mamba_dt_rank");
    s->dt_rank = (h + 15) / 16;
    if (strcmp(rank, "auto") != 0) s->dt_rank = config_whole(r, "time_step_rank mamba_dt_rank", s->dt_rank, 1, CONFIG_WIDEST);
    s->in_bias = (r->on & ON_STATE_IN) != 0;
    s->out_bias = (r->on & ON_STATE_OUT) != 0;
    s->conv_bias = (r->on & ON_CONV) != 0;
}

void family_jamba_state(reader *r, vram_state *s)
{
    family_mamba1_state(r, s);
    s->inner_norms = true;
}

void family_zamba_state(reader *r, vram_state *s)
{
    family_mamba1_state(r, s);
    s->heads = config_whole(r, "n_mamba_heads", 2, 1, CONFIG_COUNT);
    s->plain_projections = true;
}

/* heads * head_dim is the inner width; keys and defaults by family */
typedef struct { const char *heads, *head_dim, *state, *groups, *kernel; int64_t heads_d, head_dim_d, state_d, groups_d, chunk_d; } mamba2_keys;

static void mamba2_common(reader *r, vram_state *s, const mamba2_keys *k)
{
    s->type = VRAM_STATE_MAMBA2;
    s->heads = config_whole(r, k->heads, k->heads_d, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, k->head_dim, k->head_dim_d, 1, CONFIG_WIDEST);
    s->state = config_whole(r, k->state, k->state_d, 1, CONFIG_COUNT);
    s->groups = config_whole(r, k->groups, k->groups_d, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, k->kernel, 4, 1, CONFIG_COUNT);
    s->chunk = config_whole(r, "mamba_chunk_size chunk_size", k->chunk_d, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->gated_norm = true;
    s->in_bias = (r->on & ON_STATE_IN) != 0;
    s->out_bias = (r->on & ON_STATE_OUT) != 0;
    s->conv_bias = (r->on & ON_CONV) != 0;
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_dtype mamba_ssm_cache_dtype"), "float32") == 0;
}

void family_mamba2_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", 128, 64, 128, 8, 256};
    mamba2_common(r, s, &keys);
}

/* Bamba, Granite 4: the head is 64 wide, or "auto": expand * hidden / heads */
void family_bamba_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", 128, 64, 256, 1, 256};
    mamba2_keys k = keys;
    double inner = config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden;
    bool automatic = strcmp(config_text(r, "mamba_d_head"), "auto") == 0;
    if (automatic) k.head_dim = "";
    mamba2_common(r, s, &k);
    if (automatic) s->head_dim = (int64_t)(inner / (double)s->heads);
    s->inner = (int64_t)inner; /* the class derives it from the width, the heads must agree */
}

/* Falcon-H1: mamba_d_ssm, null for expand * hidden; a gated norm only when asked for */
void family_falcon_h1_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", 128, 8, 256, 1, 256};
    mamba2_keys k = keys;
    int64_t wide = (int64_t)(config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden);
    int64_t inner = config_is_null(r, "mamba_d_ssm") ? wide : config_whole(r, "mamba_d_ssm", 1024, 1, CONFIG_WIDEST);
    bool automatic = strcmp(config_text(r, "mamba_d_head"), "auto") == 0;
    if (automatic) k.head_dim = "";
    mamba2_common(r, s, &k);
    if (automatic) s->head_dim = inner / s->heads;
    s->inner = inner;
    s->gated_norm = (r->on & ON_STATE_NORM) != 0;
}

void family_nemotron_h_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "mamba_n_groups n_groups", "mamba_d_conv conv_kernel", 128, 64, 128, 8, 128};
    mamba2_common(r, s, &keys);
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_cache_dtype"), "") == 0 || s->state_fp32;
}

/* Zamba 2: heads share expand * hidden */
void family_zamba2_state(reader *r, vram_state *s)
{
    static const mamba2_keys keys = {"n_mamba_heads", "", "mamba_d_state", "mamba_ngroups", "mamba_d_conv", 8, 1, 64, 1, 256};
    mamba2_common(r, s, &keys);
    s->inner = (int64_t)(config_real(r, "mamba_expand", 2, 0.001, 1024) * (double)r->model->hidden);
    s->head_dim = s->inner / s->heads;
    s->conv_bias = true;
}

typedef struct { int64_t key_heads, value_heads, key_dim, value_dim; vram_projections projections; } delta_defaults;

static void delta_common(reader *r, vram_state *s, const delta_defaults *d)
{
    s->type = VRAM_STATE_GATED_DELTA;
    s->key_heads = config_whole(r, "linear_num_key_heads", d->key_heads, 1, CONFIG_COUNT);
    s->heads = config_whole(r, "linear_num_value_heads", d->value_heads, 1, CONFIG_COUNT);
    s->key_head_dim = config_whole(r, "linear_key_head_dim", d->key_dim, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_value_head_dim", d->value_dim, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_conv_kernel_dim", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->projections = d->projections;
    s->gated_norm = true;
    s->state_fp32 = strcmp(config_text(r, "mamba_ssm_dtype"), "float32") == 0;
}

void family_qwen3_next_state(reader *r, vram_state *s)
{
    static const delta_defaults d = {16, 32, 128, 128, VRAM_PROJECTIONS_FUSED};
    delta_common(r, s, &d);
}

void family_qwen3_5_state(reader *r, vram_state *s)
{
    static const delta_defaults d = {16, 32, 128, 128, VRAM_PROJECTIONS_SPLIT};
    delta_common(r, s, &d);
}

/* OLMo Hybrid: as many heads as the attention, three quarters of hidden for keys, twice as wide values */
void family_olmo_hybrid_state(reader *r, vram_state *s)
{
    delta_defaults d = {r->attention.heads, r->attention.heads, 96, 192, VRAM_PROJECTIONS_SEPARATE};
    int64_t heads = config_whole(r, "linear_num_key_heads", d.key_heads, 1, CONFIG_COUNT);
    d.key_dim = (int64_t)(0.75 * (double)r->model->hidden / (double)heads);
    d.value_dim = 2 * config_whole(r, "linear_key_head_dim", d.key_dim, 1, CONFIG_COUNT);
    delta_common(r, s, &d);
}

void family_kimi_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_KDA;
    s->heads = config_whole(r, "linear_attn_config.num_heads linear_num_heads", 32, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_attn_config.head_dim linear_head_dim", 128, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_attn_config.short_conv_kernel_size linear_conv_kernel_dim", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
    s->low_rank_gates = true;
}

/* Ling 2.5: heads of the attention */
void family_bailing_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_KDA;
    s->heads = config_whole(r, "linear_num_heads", r->attention.heads, 1, CONFIG_COUNT);
    s->head_dim = config_whole(r, "linear_head_dim head_dim", 128, 1, CONFIG_COUNT);
    s->conv_kernel = config_whole(r, "linear_conv_kernel_dim short_conv_kernel_size", 4, 1, CONFIG_COUNT);
    s->inner = s->heads * s->head_dim;
}

void family_lightning_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_LIGHTNING;
    s->heads = r->attention.heads;
    s->head_dim = r->attention.head_dim;
    s->inner = s->heads * s->head_dim;
    s->chunk = config_whole(r, "block_size", 256, 1, CONFIG_COUNT);
}

void family_lfm2_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_SHORT_CONV;
    s->inner = r->model->hidden;
    s->conv_kernel = config_whole(r, "conv_L_cache", 3, 1, CONFIG_COUNT);
    s->in_bias = s->out_bias = s->conv_bias = (r->on & ON_CONV) != 0;
}

void family_griffin_state(reader *r, vram_state *s)
{
    s->type = VRAM_STATE_RGLRU;
    s->inner = config_whole(r, "lru_width", r->model->hidden, 1, CONFIG_WIDEST);
    s->heads = r->attention.heads;
    s->head_dim = s->inner / s->heads;
    s->state = 1;
    s->conv_kernel = config_whole(r, "conv1d_width", 4, 1, CONFIG_COUNT);
    s->in_bias = s->out_bias = s->conv_bias = true;
    s->state_fp32 = true;
}
