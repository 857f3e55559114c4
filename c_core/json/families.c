/* families.c -- one row for each model type: names and defaults of its numbers, its biases, its layers.
 *
 * Defaults are those of the configuration classes of transformers 5.24, shapes those of the modelling files:
 * https://github.com/huggingface/transformers/tree/main/src/transformers/models/<folder of the type, without _text>
 */
#include "families.h"

#include <string.h>

#define S(hidden, width, layers, heads, kv_heads, head_dim, vocab, positions) hidden, width, layers, heads, kv_heads, head_dim, vocab, positions
#define ATTENTION_BIAS {"attention_bias", false, ON_QKVO}
#define LATENT_BIAS {"attention_bias", false, ON_Q | ON_K | ON_O}
#define MLP_BIAS {"mlp_bias", false, ON_MLP}
#define ALWAYS(what) {"", true, what}
#define RMS .norm = VRAM_NORM_RMS
#define LAYER_NORM .norm = VRAM_NORM_LAYER_BIAS
#define EVERY(n, keys_, other_) .pattern = family_every_nth, .period = n, .period_keys = keys_, .other = other_

static const family_keys gpt_keys = {.hidden = "n_embd hidden_size", .width = "n_inner intermediate_size", .layers = "n_layer num_hidden_layers", .heads = "n_head num_attention_heads", .positions = "n_positions max_position_embeddings"};
static const family_keys mpt_keys = {.hidden = "d_model hidden_size", .width = "", .layers = "n_layers num_hidden_layers", .heads = "n_heads num_attention_heads", .positions = "max_seq_len"};
static const family_keys dbrx_keys = {.hidden = "d_model hidden_size", .width = "", .layers = "n_layers num_hidden_layers", .heads = "n_heads num_attention_heads", .kv_heads = "attn_config.kv_n_heads", .positions = "max_seq_len max_position_embeddings"};
static const family_keys bloom_keys = {.hidden = "hidden_size n_embed", .width = "", .layers = "n_layer num_hidden_layers", .heads = "n_head num_attention_heads", .positions = "seq_length"};
static const family_keys falcon_keys = {.hidden = "n_embed hidden_size", .width = "ffn_hidden_size", .layers = "num_hidden_layers n_layer", .heads = "num_attention_heads n_head"};
static const family_keys neo_keys = {.layers = "num_layers num_hidden_layers", .heads = "num_heads num_attention_heads"};
static const family_keys exaone_keys = {.layers = "num_layers num_hidden_layers"};
static const family_keys opt_keys = {.width = "ffn_dim"};
static const family_keys long_keys = {.positions = "model_max_length max_position_embeddings"};
static const family_keys longcat_keys = {.layers = "num_layers", .width = "ffn_hidden_size intermediate_size"};
static const family_keys glm_keys = {.layers = "num_layers num_hidden_layers", .width = "ffn_hidden_size", .vocab = "padded_vocab_size vocab_size", .head_dim = "kv_channels", .positions = "seq_length"};
static const family_keys mamba_keys = {.width = ""};
static const family_keys v4_keys = {.width = ""};
static const family_keys jetmoe_keys = {.head_dim = "kv_channels head_dim", .heads = "", .kv_heads = ""};
static const family_keys zamba_keys = {.head_dim = "attention_head_dim"};
static const family_keys step_keys = {.kv_heads = "num_attention_groups num_key_value_heads"};
static const family_keys griffin_keys = {.positions = ""};

static const family_latent v3_latent = {1536, 512, 128, 64, 128}, v2_latent = {1536, 512, 128, 64, 128}, glm_flash_latent = {768, 512, 192, 64, 256}, glm5_latent = {2048, 512, 192, 64, 256},
    minicpm3_latent = {768, 256, 64, 32, 0}, mistral4_latent = {1024, 256, 64, 64, 128}, kimi_latent = {0, 512, 128, 64, 128};

#define EXPERTS(number, chosen) .experts = number, .per_token = chosen
#define WIDE_AS_MLP .width_keys = ""
#define SHARED_WIDTH(keys, standard) .shared_keys = keys, .shared_width = standard
#define AFTER(n) .rule = SPARSE_AFTER_FIRST, .first = n

static const family_experts
    mixtral_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    olmoe_experts = {EXPERTS(64, 8), WIDE_AS_MLP},
    flex_olmo_experts = {EXPERTS(7, 5), WIDE_AS_MLP},
    gpt_oss_experts = {EXPERTS(128, 4), WIDE_AS_MLP},
    phimoe_experts = {EXPERTS(16, 2), WIDE_AS_MLP},
    minimax_m2_experts = {EXPERTS(256, 8), WIDE_AS_MLP},
    m3_experts = {EXPERTS(128, 4), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 3072)},
    hunyuan_experts = {EXPERTS(1, 1), WIDE_AS_MLP},
    granite_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    granite_shared_experts = {EXPERTS(8, 2), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 0)},
    granite_hybrid_experts = {EXPERTS(8, 2), WIDE_AS_MLP, SHARED_WIDTH("shared_intermediate_size", 1024)},
    jetmoe_experts = {EXPERTS(8, 2), WIDE_AS_MLP},
    dbrx_experts = {EXPERTS(4, 1), .width_keys = "ffn_config.ffn_hidden_size", .width = 3584},
    jamba_experts = {EXPERTS(16, 2), WIDE_AS_MLP, .rule = SPARSE_PERIOD},
    qwen2_experts = {EXPERTS(60, 4), .width = 1408, SHARED_WIDTH("shared_expert_intermediate_size", 5632), .rule = SPARSE_STEP},
    qwen3_experts = {EXPERTS(128, 8), .width = 768, .rule = SPARSE_STEP},
    qwen3_next_experts = {EXPERTS(512, 10), .width = 512, SHARED_WIDTH("shared_expert_intermediate_size", 512), .rule = SPARSE_STEP},
    qwen3_5_experts = {EXPERTS(256, 8), .width = 512, SHARED_WIDTH("shared_expert_intermediate_size", 512)},
    v2_experts = {EXPERTS(64, 6), .width = 1407, .shared = 2, AFTER(0)},
    v3_experts = {EXPERTS(256, 8), .width = 2048, .shared = 1, AFTER(3)},
    v4_experts = {EXPERTS(256, 6), .width = 2048, .shared = 1},
    axk1_experts = {EXPERTS(192, 8), .width = 2048, .shared = 1, AFTER(1)},
    bailing_experts = {EXPERTS(512, 8), .width = 768, .shared = 1, AFTER(2)},
    kimi_experts = {EXPERTS(256, 8), .width = 1024, .shared = 1, AFTER(1)},
    dots1_experts = {EXPERTS(0, 8), .width = 1408, AFTER(0)},
    afmoe_experts = {EXPERTS(64, 6), .width = 1408, .shared = 2, AFTER(1), .first_keys = "num_dense_layers"},
    cohere2_experts = {EXPERTS(8, 2), WIDE_AS_MLP, AFTER(0)},
    ernie_experts = {EXPERTS(64, 6), .width = 1536, .shared = 2, .rule = SPARSE_RANGE},
    exaone_experts = {EXPERTS(64, 8), .width = 1024, .shared = 1, AFTER(1)},
    glm4_experts = {EXPERTS(128, 8), .width = 1408, .shared = 1, AFTER(1)},
    glm_flash_experts = {EXPERTS(64, 4), .width = 1536, .shared = 1, AFTER(1), .first_keys = ""},
    glm5_experts = {EXPERTS(256, 8), .width = 2048, .shared = 1, AFTER(3)},
    hy_v3_experts = {EXPERTS(192, 8), .width = 1536, .shared = 1, AFTER(1), .first_keys = ""},
    lfm2_experts = {EXPERTS(32, 4), .width = 1792, AFTER(2), .first_keys = "num_dense_layers"},
    llama4_experts = {EXPERTS(16, 1), WIDE_AS_MLP, .shared = 1, .rule = SPARSE_INTERLEAVED},
    longcat_experts = {EXPERTS(512, 12), .width_keys = "expert_ffn_hidden_size moe_intermediate_size", .width = 2048, .zero_keys = "zero_expert_num", .zero = 256},
    mimo_experts = {EXPERTS(256, 8), .width = 2048, AFTER(1)},
    mistral4_experts = {EXPERTS(128, 4), .width = 2048, .shared = 1, AFTER(0)},
    nemotron_h_experts = {EXPERTS(8, 2), .width = 7688, .shared = 1, SHARED_WIDTH("moe_shared_expert_intermediate_size", 7688)},
    solar_experts = {EXPERTS(128, 8), .width = 1280, .shared = 1},
    gemma4_experts = {EXPERTS(0, 8)},
    deepseek_experts = {EXPERTS(64, 6), .width = 1408, .shared = 2, AFTER(1)},
    ling_experts = {EXPERTS(64, 6), .width = 1408, AFTER(0)},
    ling2_experts = {EXPERTS(256, 8), .width = 512, .shared = 1, AFTER(1)},
    step_experts = {EXPERTS(288, 8), .width = 1280, SHARED_WIDTH("share_expert_dim", 1280), AFTER(1)},
    arctic_experts = {EXPERTS(128, 2), WIDE_AS_MLP, .rule = SPARSE_STEP},
    megatron_experts = {EXPERTS(0, 1), .width_keys = "moe_intermediate_size moe_ffn_hidden_size"};

static const family families[] = {
    {"llama", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"rule of thumb", S(4096, 11008, 32, 0, 0, 0, 32000, 0), RMS, .norms = 2, .experts = &megatron_experts, .adjust = family_thumb_adjust},
    {"megatron", S(1024, -4, 24, 16, 0, 0, 50304, 1024), IS_TIED | IS_FUSED_QKV, .norms = 2, .names = &(const vram_names){.qkv = "linear_qkv", .o = "linear_proj", .up = "linear_fc1", .gate_up = "linear_fc1", .down = "linear_fc2"}, .experts = &megatron_experts, .adjust = family_megatron_adjust, .switches = (const family_switch[]){{"attention_bias", true, ON_QKVO}, {"mlp_bias", true, ON_MLP}, {0}}},

    {"afmoe", S(2048, 6144, 32, 16, 0, 128, 200192, 16384), HAS_ROUTER_BIAS | HAS_LINEAR_ROUTER | HAS_NORMS_AFTER | IS_STACKED_AS_GATE, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &afmoe_experts, .window = 1024,
     EVERY(4, "global_attn_every_n_layers", LAYER_SLIDING), .adjust = family_afmoe_adjust, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"apertus", S(4096, 14336, 32, 32, 0, 0, 131072, 65536), IS_PLAIN, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .side_paths = family_apertus_paths, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"arcee", S(2560, 18432, 32, 32, 0, 0, 32000, 4096), IS_PLAIN, RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"axk1", S(7168, 18432, 61, 64, 0, 0, 163840, 32768), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .latent = &v3_latent, .experts = &axk1_experts, .special = family_axk1_special, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"bailing_hybrid", S(2560, 6144, 42, 32, 32, 0, 157184, 262144), NEVER_TIED | HAS_ROUTER_BIAS_BUFFER, &long_keys, RMS, .norms = 2, .latent = &kimi_latent, .experts = &bailing_experts, .state = family_bailing_state,
     EVERY(6, "layer_group_size", LAYER_STATE), .adjust = family_bailing_adjust, .names = &(const vram_names){.attention_gate = "g_proj"}, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"bamba", S(4096, 14336, 32, 32, 8, 0, 128000, 262144), IGNORES_HEAD_DIM, RMS, .norms = 2, .rotary_share = 0.5, .state = family_bamba_state, .pattern = family_bamba_pattern,
     .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}, {0}}},
    {"bitnet", S(2560, 6912, 30, 20, 5, 0, 128256, 2048), 0, RMS, .norms = 2, .side_paths = family_bitnet_paths, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"bloom", S(64, -4, 2, 8, 0, 0, 250880, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY | HAS_EMBEDDING_NORM, &bloom_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_ALIBI,
     .names = &(const vram_names){.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP), {0}}},
    {"codegen", S(4096, -4, 28, 16, 0, 0, 50400, 2048), IS_PLAIN | IS_FUSED_QKV | IS_PARALLEL | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 1, .rotary_dim = 64,
     .names = &(const vram_names){.o = "out_proj", .up = "fc_in", .down = "fc_out"}, .switches = (const family_switch[]){ALWAYS(ON_MLP | ON_HEAD_BIAS), {0}}},
    {"cohere", S(8192, 22528, 40, 64, 0, 0, 256000, 8192), IS_TIED | IS_PARALLEL, .norm = VRAM_NORM_LAYER, .norms = 1, .qk_norm = VRAM_QK_NORM_PER_HEAD, .switches = (const family_switch[]){ATTENTION_BIAS, {"use_qk_norm", false, ON_QK_NORM}, {0}}},
    {"cohere2", S(8192, 22528, 40, 64, 0, 0, 256000, 8192), IS_TIED | IS_PARALLEL, .norm = VRAM_NORM_LAYER, .norms = 1, .window = 4096, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"cohere2_moe", S(8192, 22528, 40, 64, 0, 128, 256000, 8192), IS_TIED | IS_PARALLEL | IS_STACKED_AS_GATE, .norm = VRAM_NORM_LAYER, .norms = 1, .window = 4096, .experts = &cohere2_experts, .pattern = family_cohere2_moe_pattern, .adjust = family_cohere2_moe_adjust, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"cwm", S(6144, 21504, 64, 48, 8, 128, 128256, 131072), 0, RMS, .norms = 2, .window = 8192, .pattern = family_first_of_four, .switches = (const family_switch[]){MLP_BIAS, {0}}},
    {"dbrx", S(2048, 0, 24, 16, 1, 0, 32000, 2048), NEVER_TIED | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_LINEAR_ROUTER, &dbrx_keys, .norm = VRAM_NORM_LAYER, .norms = 2, .experts = &dbrx_experts, .names = &(const vram_names){.qkv = "Wqkv", .o = "out_proj", .router = "layer"}},
    {"deepseek_v2", S(4096, 11008, 32, 32, 0, 0, 102400, 2048), IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v2_latent, .experts = &v2_experts, .switches = (const family_switch[]){LATENT_BIAS, MLP_BIAS, {0}}},
    {"deepseek_v3", S(7168, 18432, 61, 128, 0, 0, 129280, 4096), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v3_latent, .experts = &v3_experts, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"deepseek_v32", S(7168, 18432, 61, 128, 0, 0, 129280, 163840), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &v3_latent, .experts = &v3_experts, .special = family_dsa_special, .index_heads = 64, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"deepseek_v4", S(4096, 0, 43, 64, 1, 512, 129280, 1048576), HAS_ROUTER_BIAS_BUFFER | HAS_SINKS, &v4_keys, RMS, .norms = 2, .window = 128, .experts = &v4_experts, .pattern = family_v4_pattern, .adjust = family_v4_adjust, .special = family_v4_special, .side_paths = family_v4_paths, .switches = (const family_switch[]){MLP_BIAS, {0}}},
    {"diffllama", S(2048, 8192, 16, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .side_paths = family_diffllama_paths, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"dots1", S(4608, 10944, 62, 32, 32, 0, 152064, 2048), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &dots1_experts, .window = 4096, .pattern = family_late_windows, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"ernie4_5", S(1024, 3072, 18, 16, 2, 128, 103424, 131072), IS_TIED, RMS, .norms = 2, .switches = (const family_switch[]){{"use_bias", false, ON_QKVO | ON_MLP}, {0}}},
    {"ernie4_5_moe", S(2560, 12288, 28, 20, 4, 0, 103424, 131072), IS_TIED | HAS_ROUTER_BIAS | IS_STACKED_AS_GATE, RMS, .norms = 2, .experts = &ernie_experts, .switches = (const family_switch[]){{"use_bias", false, ON_QKVO | ON_MLP | ON_HEAD_BIAS}, {0}}},
    {"exaone4", S(4096, 16384, 32, 32, 32, 0, 102400, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = (const family_switch[]){ALWAYS(ON_QK_NORM), {0}}},
    {"exaone_moe", S(4096, 16384, 32, 32, 32, 0, 102400, 2048), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .experts = &exaone_experts, EVERY(4, "sliding_window_pattern", LAYER_SLIDING), .switches = (const family_switch[]){ALWAYS(ON_QK_NORM), {0}}},
    {"falcon", S(4544, -4, 32, 71, 0, 0, 65024, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &falcon_keys, LAYER_NORM, .norms = 1, .adjust = family_falcon_adjust, .special = family_falcon_special,
     .names = &(const vram_names){.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = (const family_switch[]){{"bias", false, ON_QKVO | ON_MLP}, {0}}},
    {"falcon_h1", S(4096, 14336, 32, 32, 8, 0, 128000, 8192), 0, RMS, .norms = 2, .state = family_falcon_h1_state, .pattern = family_all_both,
     .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN}, {"projectors_bias", false, ON_STATE_OUT}, {"mamba_rms_norm", false, ON_STATE_NORM}, {0}}},
    {"falcon_mamba", S(768, 0, 32, 0, 0, 0, 50280, 0), IS_TIED, &mamba_keys, RMS, .norms = 1, .state = family_mamba1_state, .pattern = family_all_state, .switches = (const family_switch[]){{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}, {0}}},
    {"flex_olmo", S(4096, 11008, 32, 32, 0, 0, 100352, 4096), HAS_NORMS_AFTER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &flex_olmo_experts, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"gemma", S(3072, 24576, 28, 16, 16, 256, 256000, 8192), IS_TIED, RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"gemma2", S(2304, 9216, 26, 8, 4, 256, 256000, 8192), IS_TIED | HAS_NORMS_AFTER | CAPS_LOGITS, RMS, .norms = 4, .window = 4096, EVERY(2, "", LAYER_SLIDING), .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"gemma3_text", S(2304, 9216, 26, 8, 4, 256, 262208, 131072), IS_TIED | HAS_NORMS_AFTER, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, EVERY(6, "sliding_window_pattern _sliding_window_pattern", LAYER_SLIDING), .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"gemma3n_text", S(2048, 0, 35, 8, 2, 256, 262400, 32768), IS_TIED | HAS_NORMS_AFTER | CAPS_LOGITS, &mamba_keys, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, EVERY(5, "", LAYER_SLIDING), .special = family_gemma3n_special, .side_paths = family_gemma3n_paths, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"gemma4_text", S(2304, 9216, 30, 8, 4, 256, 262144, 131072), IS_TIED | HAS_NORMS_AFTER | HAS_LINEAR_ROUTER, RMS, .norms = 4, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, .experts = &gemma4_experts, EVERY(6, "", LAYER_SLIDING), .adjust = family_gemma4_adjust, .special = family_gemma4_special, .side_paths = family_gemma4_paths,
     .names = &(const vram_names){.router = "proj"}, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"glm", S(4096, 13696, 40, 32, 2, 128, 151552, 131072), IS_FUSED_GATE_UP, RMS, .norms = 2, .rotary_share = 0.5, .switches = (const family_switch[]){{"attention_bias", true, ON_QKV}, {0}}},
    {"glm4", S(4096, 13696, 40, 32, 2, 128, 151552, 131072), IS_FUSED_GATE_UP | HAS_NORMS_AFTER, RMS, .norms = 4, .rotary_share = 0.5, .switches = (const family_switch[]){{"attention_bias", true, ON_QKV}, {0}}},
    {"glm4_moe", S(4096, 10944, 46, 96, 8, 0, 151552, 131072), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .rotary_share = 0.5, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &glm4_experts, .switches = (const family_switch[]){{"attention_bias", false, ON_QKV}, {"use_qk_norm", false, ON_QK_NORM}, {0}}},
    {"glm4_moe_lite", S(2048, 10240, 47, 20, 0, 0, 154880, 202752), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &glm_flash_latent, .experts = &glm_flash_experts, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"glm_moe_dsa", S(6144, 12288, 78, 64, 0, 0, 154880, 202752), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .latent = &glm5_latent, .experts = &glm5_experts, .special = family_dsa_special, .index_heads = 32, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"gpt2", S(768, -4, 12, 12, 0, 0, 50257, 1024), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED,
     .names = &(const vram_names){.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP), {0}}, .drops = DROPS_RESIDUAL | DROPS_ATTENTION | DROPS_EMBEDDING},
    {"gpt_bigcode", S(768, -4, 12, 12, 0, 0, 50257, 1024), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .adjust = family_bigcode_adjust,
     .names = &(const vram_names){.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP), {0}}, .drops = DROPS_RESIDUAL | DROPS_ATTENTION | DROPS_EMBEDDING},
    {"gpt_neo", S(2048, -4, 24, 16, 0, 0, 50257, 2048), IS_TIED | IS_PLAIN | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &neo_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .pattern = family_neo_pattern, .adjust = family_neo_adjust,
     .names = &(const vram_names){.o = "out_proj", .up = "c_fc", .down = "c_proj"}, .switches = (const family_switch[]){ALWAYS(ON_O | ON_MLP), {0}}},
    {"gpt_neox", S(6144, 24576, 44, 64, 0, 0, 50432, 2048), IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, NULL, LAYER_NORM, .norms = 2, .rotary_share = 0.25,
     .names = &(const vram_names){.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = (const family_switch[]){{"attention_bias", true, ON_QKVO}, ALWAYS(ON_MLP), {"use_parallel_residual", true, ON_PARALLEL}, {0}}},
    {"gpt_oss", S(2880, 2880, 36, 64, 8, 64, 201088, 131072), HAS_SINKS | HAS_EXPERT_BIAS | HAS_ROUTER_LINEAR_BIAS, RMS, .norms = 2, .window = 128, .experts = &gpt_oss_experts, EVERY(2, "", LAYER_SLIDING), .names = &(const vram_names){.router = "router"}, .switches = (const family_switch[]){{"attention_bias", true, ON_QKVO}, {0}}},
    {"gptj", S(4096, -4, 28, 16, 0, 0, 50400, 2048), IS_PLAIN | IS_PARALLEL | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &gpt_keys, LAYER_NORM, .norms = 1, .rotary_dim = 64, .names = &(const vram_names){.o = "out_proj", .up = "fc_in", .down = "fc_out"}, .switches = (const family_switch[]){ALWAYS(ON_MLP | ON_HEAD_BIAS), {0}}},
    {"granite", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"granitemoe", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), 0, RMS, .norms = 2, .experts = &granite_experts, .names = &(const vram_names){.router = "router"}, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"granitemoeshared", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), HAS_SHARED_FUSED, RMS, .norms = 2, .experts = &granite_shared_experts, .adjust = family_granite_shared_adjust, .names = &(const vram_names){.router = "router", .shared_gate_up = "input_linear", .shared_down = "output_linear"}, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"granitemoehybrid", S(4096, 11008, 32, 32, 0, 0, 32000, 2048), IGNORES_HEAD_DIM | HAS_SHARED_FUSED, RMS, .norms = 2, .experts = &granite_hybrid_experts, .state = family_bamba_state, .pattern = family_all_state, .adjust = family_granite_shared_adjust,
     .names = &(const vram_names){.router = "router", .shared_gate_up = "input_linear", .shared_down = "output_linear"}, .switches = (const family_switch[]){ATTENTION_BIAS, {"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}, {0}}},
    {"helium", S(2560, 7040, 24, 20, 20, 128, 48000, 4096), 0, RMS, .norms = 2, .adjust = family_helium_adjust, .switches = (const family_switch[]){{"attention_bias", false, ON_QKV}, MLP_BIAS, {0}}},
    {"hunyuan_v1_dense", S(4096, 11008, 32, 32, 0, 0, 290943, 2048), 0, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"hunyuan_v1_moe", S(4096, 11008, 32, 32, 0, 0, 290943, 2048), HAS_LISTS | HAS_LINEAR_ROUTER | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &hunyuan_experts, .adjust = family_hunyuan_adjust, .special = family_hunyuan_special, .names = &(const vram_names){.router = "wg"}, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"hy_v3", S(4096, 13312, 80, 64, 8, 128, 120832, 131072), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &hy_v3_experts, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"internlm3", S(4096, 10240, 48, 32, 2, 128, 128512, 32768), 0, RMS, .norms = 2, .switches = (const family_switch[]){{"qkv_bias attention_bias", false, ON_QKVO}, {"bias mlp_bias", false, ON_MLP}, {0}}},
    {"jais2", S(3328, 26624, 32, 26, 0, 0, 150272, 8192), IS_PLAIN, LAYER_NORM, .norms = 2, .switches = (const family_switch[]){{"attention_bias", true, ON_QKVO}, {"mlp_bias", true, ON_MLP}, {0}}},
    {"jamba", S(4096, 14336, 32, 32, 8, 0, 65536, 262144), IGNORES_HEAD_DIM, RMS, .norms = 2, .experts = &jamba_experts, .state = family_jamba_state, .pattern = family_jamba_pattern, .names = &(const vram_names){.router = "router"}, .switches = (const family_switch[]){{"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}, {0}}},
    {"jetmoe", S(2048, 5632, 12, 32, 16, 128, 32000, 4096), IS_TIED | HAS_LINEAR_ROUTER, &jetmoe_keys, RMS, .norms = 2, .experts = &jetmoe_experts, .adjust = family_jetmoe_adjust, .side_paths = family_jetmoe_paths, .names = &(const vram_names){.router = "layer"}},
    {"kimi_linear", S(2304, 9216, 27, 32, 0, 0, 163840, 1048576), NEVER_TIED | HAS_ROUTER_BIAS_BUFFER, &long_keys, RMS, .norms = 2, .latent = &kimi_latent, .experts = &kimi_experts, .state = family_kimi_state, .pattern = family_kimi_pattern, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"lfm2", S(2560, 12288, 32, 32, 8, 0, 65536, 128000), IS_TIED, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .state = family_lfm2_state, .pattern = family_lfm2_pattern, .adjust = family_lfm2_adjust,
     .names = &(const vram_names){.o = "out_proj", .gate = "w1", .up = "w3", .down = "w2"}, .switches = (const family_switch[]){{"conv_bias", false, ON_CONV}, ALWAYS(ON_QK_NORM), {0}}},
    {"lfm2_moe", S(2048, 7168, 32, 32, 8, 0, 65536, 128000), IS_TIED | HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &lfm2_experts, .state = family_lfm2_state, .pattern = family_lfm2_pattern, .adjust = family_lfm2_moe_adjust,
     .names = &(const vram_names){.o = "out_proj", .gate = "w1", .up = "w3", .down = "w2"}, .switches = (const family_switch[]){{"conv_bias", false, ON_CONV}, ALWAYS(ON_QK_NORM), {0}}},
    {"llama4_text", S(5120, 8192, 48, 40, 8, 128, 202048, 131072), HAS_LINEAR_ROUTER, RMS, .norms = 2, .experts = &llama4_experts, .pattern = family_llama4_pattern, .adjust = family_llama4_adjust, .names = &(const vram_names){.router = "router"}, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"longcat_flash", S(6144, 12288, 28, 64, 0, 0, 131072, 131072), HAS_ROUTER_BIAS_BUFFER | HAS_LINEAR_ROUTER | IS_STACKED_AS_GATE, &longcat_keys, RMS, .norms = 2, .latent = &v3_latent, .experts = &longcat_experts, .adjust = family_longcat_adjust, .special = family_longcat_special, .names = &(const vram_names){.router = "classifier"}, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"mamba", S(768, 0, 32, 0, 0, 0, 50280, 0), IS_TIED, &mamba_keys, RMS, .norms = 1, .state = family_mamba1_state, .pattern = family_all_state, .switches = (const family_switch[]){{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}, {0}}},
    {"mamba2", S(4096, 0, 64, 0, 0, 0, 32768, 0), 0, &mamba_keys, RMS, .norms = 1, .state = family_mamba2_state, .pattern = family_all_state, .switches = (const family_switch[]){{"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {"use_conv_bias", true, ON_CONV}, {0}}},
    {"mimo_v2_flash", S(4096, 16384, 48, 64, 4, 192, 152576, 131072), HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 2, .window = 129, .experts = &mimo_experts, .pattern = family_mimo_pattern, .adjust = family_mimo_adjust, .special = family_mimo_special, .switches = (const family_switch[]){{"attention_bias", false, ON_QKV}, {0}}},
    {"minicpm3", S(2560, 6400, 62, 40, 0, 0, 73448, 32768), IS_TIED, RMS, .norms = 2, .latent = &minicpm3_latent, .switches = (const family_switch[]){LATENT_BIAS, MLP_BIAS, {0}}},
    {"minimax", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), IS_STACKED_AS_W, RMS, .norms = 2, .experts = &mixtral_experts, .state = family_lightning_state, .pattern = family_by_turns},
    {"minimax_m2", S(3072, 1536, 62, 48, 8, 128, 200064, 196608), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_W, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &minimax_m2_experts, .switches = (const family_switch[]){ALWAYS(ON_QK_NORM), {0}}},
    {"minimax_m3_vl_text", S(6144, 3072, 60, 64, 4, 128, 200064, 524288), HAS_ROUTER_BIAS_BUFFER | HAS_SHARED_FUSED | IS_FUSED_GATE_UP, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &m3_experts, .pattern = family_all_full, .adjust = family_m3_adjust, .special = family_m3_special, .side_paths = family_m3_paths, .switches = (const family_switch[]){ALWAYS(ON_QK_NORM), {0}}},
    {"ministral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), 0, RMS, .norms = 2, .window = 4096},
    {"ministral3", S(4096, 14336, 34, 32, 8, 128, 131072, 262144), 0, RMS, .norms = 2},
    {"mistral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), 0, RMS, .norms = 2, .window = 4096},
    {"mistral4", S(4096, 12288, 36, 32, 0, 0, 131072, 1048576), 0, RMS, .norms = 2, .latent = &mistral4_latent, .experts = &mistral4_experts, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"mixtral", S(4096, 14336, 32, 32, 8, 0, 32000, 131072), IS_STACKED_AS_W, RMS, .norms = 2, .experts = &mixtral_experts},
    {"mpt", S(2048, -4, 24, 16, 0, 0, 50368, 2048), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &mpt_keys, .norm = VRAM_NORM_LAYER, .norms = 2, .position = VRAM_POSITION_ALIBI, .names = &(const vram_names){.qkv = "Wqkv", .o = "out_proj"}},
    {"nanochat", S(768, 8192, 12, 6, 0, 0, 50304, 2048), IS_PLAIN | CAPS_LOGITS, .norm = VRAM_NORM_RMS_BARE, .norms = 2, .qk_norm = VRAM_QK_NORM_BARE, .names = &(const vram_names){.up = "fc1", .down = "fc2"}, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"nemotron", S(6144, 24576, 32, 48, 0, 0, 256000, 4096), IS_PLAIN, LAYER_NORM, .norms = 2, .rotary_share = 0.5, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"nemotron_h", S(4096, 21504, 4, 32, 8, 128, 131072, 4096), NEVER_TIED | IS_PLAIN | HAS_ROUTER_BIAS_BUFFER, RMS, .norms = 1, .experts = &nemotron_h_experts, .state = family_nemotron_h_state, .pattern = family_nemotron_pattern, .adjust = family_nemotron_h_adjust, .special = family_nemotron_h_special,
     .switches = (const family_switch[]){MLP_BIAS, {"mamba_conv_bias use_conv_bias", true, ON_CONV}, {"use_bias", false, ON_STATE_IN | ON_STATE_OUT}, {0}}},
    {"olmo", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), 0, .norm = VRAM_NORM_LAYER_BARE, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"olmo2", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"olmo3", S(4096, 11008, 32, 32, 0, 0, 50304, 2048), HAS_NORMS_AFTER, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .window = 4096, EVERY(4, "", LAYER_SLIDING), .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"olmo_hybrid", S(3840, 11008, 32, 30, 0, 0, 100352, 65536), 0, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .state = family_olmo_hybrid_state, .pattern = family_olmo_hybrid_pattern, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"olmoe", S(2048, 2048, 16, 16, 0, 0, 50304, 4096), IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_WIDTH, .experts = &olmoe_experts, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"openai-gpt", S(768, -4, 12, 12, 0, 0, 40478, 512), IS_TIED | IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY | HAS_NO_FINAL_NORM, &gpt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED,
     .names = &(const vram_names){.qkv = "c_attn", .o = "c_proj", .up = "c_fc", .down = "c_proj"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP), {0}}, .drops = DROPS_RESIDUAL | DROPS_ATTENTION | DROPS_EMBEDDING},
    {"opt", S(768, 3072, 12, 12, 0, 0, 50272, 2048), IS_TIED | IS_PLAIN | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, &opt_keys, LAYER_NORM, .norms = 2, .position = VRAM_POSITION_LEARNED, .adjust = family_opt_adjust,
     .names = &(const vram_names){.o = "out_proj", .up = "fc1", .down = "fc2"}, .switches = (const family_switch[]){{"enable_bias", true, ON_QKVO | ON_MLP}, {0}}, .drops = DROPS_RESIDUAL},
    {"persimmon", S(4096, 16384, 36, 64, 0, 0, 262144, 16384), IS_PLAIN | IS_FUSED_QKV | IGNORES_HEAD_DIM | HAS_NO_KV_KEY, NULL, LAYER_NORM, .norms = 2, .rotary_share = 0.5, .qk_norm = VRAM_QK_NORM_HEAD_BIAS,
     .names = &(const vram_names){.qkv = "query_key_value", .o = "dense", .up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP), {"qk_layernorm", true, ON_QK_NORM}, {0}}},
    {"phi", S(2048, 8192, 24, 32, 0, 0, 51200, 2048), IS_PLAIN | IS_PARALLEL, NULL, LAYER_NORM, .norms = 1, .rotary_share = 0.5, .qk_norm = VRAM_QK_NORM_HEAD_BIAS, .names = &(const vram_names){.o = "dense", .up = "fc1", .down = "fc2"}, .switches = (const family_switch[]){ALWAYS(ON_QKVO | ON_MLP | ON_HEAD_BIAS), {"qk_layernorm", false, ON_QK_NORM}, {0}}},
    {"phi3", S(3072, 8192, 32, 32, 0, 0, 32064, 4096), IS_FUSED_QKV | IS_FUSED_GATE_UP, RMS, .norms = 2},
    {"phimoe", S(4096, 6400, 32, 32, 8, 0, 32064, 131072), HAS_LINEAR_ROUTER, NULL, LAYER_NORM, .norms = 2, .experts = &phimoe_experts, .names = &(const vram_names){.router = "router"}, .switches = (const family_switch[]){ATTENTION_BIAS, {"lm_head_bias", false, ON_HEAD_BIAS}, {0}}},
    {"qwen2", S(4096, 22016, 32, 32, 32, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .window = 4096, .pattern = family_late_windows, .switches = (const family_switch[]){ALWAYS(ON_QKV), {0}}},
    {"qwen2_moe", S(2048, 5632, 24, 16, 16, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW | HAS_SHARED_GATE, RMS, .norms = 2, .window = 4096, .pattern = family_early_windows, .experts = &qwen2_experts, .switches = (const family_switch[]){{"qkv_bias", true, ON_QKV}, {0}}},
    {"qwen3", S(4096, 22016, 32, 32, 32, 128, 151936, 32768), NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .pattern = family_late_windows, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"qwen3_5_moe_text", S(2048, 0, 40, 16, 2, 256, 248320, 32768), HAS_OUTPUT_GATE | HAS_SHARED_GATE, RMS, .norms = 2, .rotary_share = 0.25, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &qwen3_5_experts, .state = family_qwen3_5_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"qwen3_5_text", S(4096, 12288, 32, 16, 4, 256, 248320, 32768), HAS_OUTPUT_GATE, RMS, .norms = 2, .rotary_share = 0.25, .qk_norm = VRAM_QK_NORM_HEAD, .state = family_qwen3_5_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"qwen3_moe", S(2048, 6144, 24, 32, 4, 0, 151936, 32768), NEEDS_SWITCHED_WINDOW | IS_STACKED_AS_GATE, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 4096, .experts = &qwen3_experts, .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"qwen3_next", S(2048, 5632, 48, 16, 2, 256, 151936, 32768), HAS_OUTPUT_GATE | HAS_SHARED_GATE | IS_STACKED_AS_GATE, RMS, .norms = 2, .rotary_share = 0.25, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &qwen3_next_experts, .state = family_qwen3_next_state, EVERY(4, "full_attention_interval", LAYER_STATE), .switches = (const family_switch[]){ATTENTION_BIAS, ALWAYS(ON_QK_NORM), {0}}},
    {"recurrent_gemma", S(2560, 7680, 26, 10, 0, 0, 256000, 8192), IS_TIED | CAPS_LOGITS, &griffin_keys, RMS, .norms = 2, .rotary_share = 0.5, .state = family_griffin_state, .pattern = family_griffin_pattern, .adjust = family_griffin_adjust, .switches = (const family_switch[]){{"attention_bias", false, ON_QKV}, ALWAYS(ON_O | ON_MLP), {0}}},
    {"seed_oss", S(4096, 27648, 64, 80, 8, 128, 155136, 524288), 0, RMS, .norms = 2, .switches = (const family_switch[]){{"attention_bias", true, ON_QKV}, {"attention_out_bias", false, ON_O}, MLP_BIAS, {0}}, .drops = DROPS_RESIDUAL | DROPS_ATTENTION},
    {"smollm3", S(2048, 11008, 36, 16, 4, 0, 128256, 32768), IS_TIED | NEEDS_SWITCHED_WINDOW, RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"solar_open", S(4096, 0, 48, 64, 8, 128, 196608, 131072), HAS_ROUTER_BIAS_BUFFER | IS_STACKED_AS_GATE, RMS, .norms = 2, .experts = &solar_experts, .switches = (const family_switch[]){{"attention_bias", false, ON_QKV}, {0}}},
    {"stablelm", S(2560, 6912, 32, 32, 32, 0, 50304, 4096), IGNORES_HEAD_DIM, NULL, LAYER_NORM, .norms = 2, .rotary_share = 0.25, .qk_norm = VRAM_QK_NORM_PER_HEAD, .switches = (const family_switch[]){{"use_qkv_bias", false, ON_QKV}, {"qk_layernorm", false, ON_QK_NORM}, {"use_parallel_residual", false, ON_PARALLEL | ON_LOSES_NORM}, {0}}},
    {"starcoder2", S(3072, 12288, 30, 24, 2, 0, 49152, 4096), IS_TIED | IS_PLAIN, NULL, LAYER_NORM, .norms = 2, .names = &(const vram_names){.up = "c_fc", .down = "c_proj"}, .switches = (const family_switch[]){{"use_bias", true, ON_QKVO | ON_MLP}, {0}}},
    {"vaultgemma", S(2304, 9216, 26, 8, 4, 256, 256000, 8192), IS_TIED | CAPS_LOGITS, RMS, .norms = 2, .window = 4096, EVERY(2, "", LAYER_SLIDING), .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"youtu", S(2048, 6144, 32, 16, 0, 0, 128256, 131072), IS_TIED, RMS, .norms = 2, .latent = &v3_latent, .switches = (const family_switch[]){LATENT_BIAS, {0}}},
    {"zamba", S(3712, 14848, 76, 16, 16, 0, 32000, 4096), IS_TIED, &zamba_keys, RMS, .norms = 1, .state = family_zamba_state, .pattern = family_zamba_pattern, .adjust = family_zamba_adjust, .special = family_zamba_special, .side_paths = family_zamba_paths, .switches = (const family_switch[]){{"mamba_conv_bias", true, ON_CONV}, {"mamba_proj_bias", false, ON_STATE_IN | ON_STATE_OUT}, {0}}},
    {"zamba2", S(2560, -4, 54, 32, 0, 0, 32000, 4096), IS_TIED | IS_FUSED_GATE_UP, &zamba_keys, RMS, .norms = 1, .state = family_zamba2_state, .pattern = family_zamba2_pattern, .adjust = family_zamba_adjust, .special = family_zamba2_special, .side_paths = family_zamba2_paths, .switches = (const family_switch[]){{"add_bias_linear", false, ON_STATE_IN | ON_STATE_OUT | ON_MLP}, {0}}},

    /* without a class in transformers 5.24; sources: the modelling files beside the weights */
    {"baichuan", S(4096, 11008, 32, 32, 0, 0, 64000, 4096), IS_FUSED_QKV, RMS, .norms = 2, .names = &(const vram_names){.qkv = "W_pack"}},
    {"internlm2", S(4096, 14336, 32, 32, 0, 0, 92544, 32768), IS_FUSED_QKV, RMS, .norms = 2, .names = &(const vram_names){.qkv = "wqkv", .o = "wo", .gate = "w1", .up = "w3", .down = "w2"}, .switches = (const family_switch[]){{"bias", false, ON_QKVO}, {0}}},
    {"chatglm", S(4096, 13696, 28, 32, 0, 128, 65024, 8192), IS_FUSED_QKV | IS_FUSED_GATE_UP | HAS_NO_KV_KEY, &glm_keys, RMS, .norms = 2, .rotary_share = 0.5, .adjust = family_chatglm_adjust,
     .names = &(const vram_names){.qkv = "query_key_value", .o = "dense", .gate_up = "dense_h_to_4h", .down = "dense_4h_to_h"}, .switches = (const family_switch[]){{"add_qkv_bias", false, ON_QKV}, {"add_bias_linear", false, ON_QKVO | ON_MLP}, {0}}},
    {"internlm", S(4096, 11008, 32, 32, 0, 0, 103168, 2048), 0, RMS, .norms = 2, .switches = (const family_switch[]){{"bias", true, ON_QKVO}, {0}}},
    {"exaone", S(4096, 16384, 32, 32, 0, 0, 102400, 2048), 0, &exaone_keys, RMS, .norms = 2, .names = &(const vram_names){.o = "out_proj", .gate = "c_fc_0", .up = "c_fc_1", .down = "c_proj"}},
    {"minicpm", S(4096, 11008, 32, 32, 0, 0, 73448, 32768), IS_TIED, RMS, .norms = 2, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"deepseek", S(2048, 10944, 28, 16, 0, 0, 102400, 4096), HAS_EXPERT_MODULES, RMS, .norms = 2, .experts = &deepseek_experts, .switches = (const family_switch[]){ATTENTION_BIAS, {0}}},
    {"bailing_moe", S(2048, 5632, 28, 16, 4, 0, 126464, 32768), IS_FUSED_QKV | HAS_EXPERT_MODULES, RMS, .norms = 2, .experts = &ling_experts, .names = &(const vram_names){.qkv = "query_key_value", .o = "dense"}, .switches = (const family_switch[]){{"use_qkv_bias", false, ON_QKV}, {"use_bias", false, ON_O | ON_MLP}, {0}}},
    {"bailing_moe_v2", S(2048, 5120, 20, 16, 4, 128, 157184, 32768), IS_FUSED_QKV | HAS_ROUTER_BIAS_BUFFER | HAS_EXPERT_MODULES, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .experts = &ling2_experts, .names = &(const vram_names){.qkv = "query_key_value", .o = "dense"}, .switches = (const family_switch[]){{"use_qkv_bias", false, ON_QKV}, {"use_bias", false, ON_O | ON_MLP}, {"use_qk_norm", true, ON_QK_NORM}, {0}}},
    {"mimo", S(4096, 11008, 36, 32, 8, 128, 151680, 32768), 0, RMS, .norms = 2, .switches = (const family_switch[]){ALWAYS(ON_QKV), {0}}},
    {"qwen", S(4096, 22016, 32, 32, 0, 128, 151936, 8192), IS_FUSED_QKV | HAS_NO_KV_KEY, RMS, .norms = 2, .adjust = family_qwen_adjust, .names = &(const vram_names){.qkv = "c_attn", .o = "c_proj", .gate = "w2", .up = "w1", .down = "c_proj"}, .switches = (const family_switch[]){ALWAYS(ON_QKV), {0}}},
    {"step3p5", S(4096, 11264, 45, 64, 8, 128, 128896, 262144), HAS_ROUTER_BIAS, &step_keys, RMS, .norms = 2, .qk_norm = VRAM_QK_NORM_HEAD, .window = 512, .names = &(const vram_names){.attention_gate = "g_proj"}, .experts = &step_experts, .pattern = family_step_pattern, .special = family_step_special, .switches = (const family_switch[]){ALWAYS(ON_QK_NORM), {0}}},
    {"nemotron-nas", S(8192, 28672, 80, 64, 8, 0, 128256, 131072), 0, RMS, .norms = 2, .special = family_nas_special, .switches = (const family_switch[]){ATTENTION_BIAS, MLP_BIAS, {0}}},
    {"arctic", S(7168, 4864, 35, 56, 8, 0, 32000, 4096), HAS_EXPERT_MODULES | HAS_LINEAR_ROUTER, RMS, .norms = 2, .names = &(const vram_names){.gate = "w1", .up = "w3", .down = "w2"}, .experts = &arctic_experts, .special = family_arctic_special},
};

/* Other names of the same. */
static const struct { const char *alias, *type; } aliases[] = {
    {"kimi_k2", "deepseek_v3"}, {"kimi_k25", "deepseek_v3"}, {"minimax_text_01", "minimax"}, {"gemma4_unified_text", "gemma4_text"}, {"hunyuan", "hunyuan_v1_moe"}, {"hunyuan_dense", "hunyuan_v1_dense"},
    {"qwen2_vl", "qwen2"}, {"qwen2_5_vl", "qwen2"}, {"qwen2_5_omni", "qwen2"}, {"qwen3_vl", "qwen3"}, {"qwen3_vl_moe", "qwen3_moe"}, {"qwen3_omni_moe", "qwen3_moe"}, {"mistral3", "mistral"}, {"pixtral", "mistral"},
    {"cohere2_vision", "cohere2"}, {"glm4v", "glm4"}, {"glm4v_moe", "glm4_moe"}, {"ernie4_5_vl_moe", "ernie4_5_moe"}, {"RefinedWeb", "falcon"}, {"RefinedWebModel", "falcon"}, {"llava", "llama"}, {"phi4mm", "phi3"}, {"phi4_multimodal", "phi3"}, {"stablelm_epoch", "stablelm"}, {"mllama_text_model", "llama"}, {"yi", "llama"}, {"Yi", "llama"},
};

const family *family_find(const char *type)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].alias, type) == 0) type = aliases[i].type;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}
