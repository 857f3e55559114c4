/* Mixers and attentions that are written out as programs. The measured bytes are PyTorch 2.15's own peaks (transformers 5.24, no kernel packages),
 * taken with its allocator on a stand-in GPU, on models of four layers. */
#include "test.h"

#include "core.h"

static bool near(double a, double b, double share) { return a > b * (1 - share) && a < b * (1 + share); }

#define FALCON_H1 "{\"model_type\":\"falcon_h1\",\"hidden_size\":1024,\"intermediate_size\":2048,\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":32000,\"tie_word_embeddings\":false,\"mamba_d_ssm\":1536,\"mamba_n_heads\":24,\"mamba_d_head\":64,\"mamba_d_state\":128,\"mamba_n_groups\":1,\"mamba_rms_norm\":false}"
#define QWEN3_5 "{\"model_type\":\"qwen3_5_text\",\"hidden_size\":2048,\"intermediate_size\":6144,\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,\"vocab_size\":32000,\"tie_word_embeddings\":true,\"linear_num_key_heads\":16,\"linear_num_value_heads\":16,\"layer_types\":[\"linear_attention\",\"linear_attention\",\"linear_attention\",\"full_attention\"]}"
#define JAMBA "{\"model_type\":\"jamba\",\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":4,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":32000,\"tie_word_embeddings\":false,\"attn_layer_period\":4,\"attn_layer_offset\":2,\"num_experts\":16,\"num_experts_per_tok\":2,\"mamba_dt_rank\":256}"
#define DEEPSEEK "{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"intermediate_size\":18432,\"num_hidden_layers\":4,\"num_attention_heads\":128,\"num_key_value_heads\":128,\"vocab_size\":32000,\"tie_word_embeddings\":false,\"q_lora_rank\":1536,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"n_routed_experts\":16,\"num_experts_per_tok\":8,\"moe_intermediate_size\":2048,\"n_shared_experts\":1,\"first_k_dense_replace\":3}"
#define LFM2 "{\"model_type\":\"lfm2\",\"hidden_size\":2048,\"num_hidden_layers\":4,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":32000,\"tie_word_embeddings\":true,\"block_ff_dim\":12288,\"intermediate_size\":12288,\"layer_types\":[\"conv\",\"conv\",\"full_attention\",\"conv\"]}"

#define PROMPT(model) "{\"overheads\":false,\"engine\":\"transformers\",\"context\":2048,\"prompt\":2044,\"model\":" model "}"
#define TRAIN(model, method, checkpointing) "{\"overheads\":false,\"task\":\"training\",\"weights\":\"bf16\",\"training\":{\"method\":\"" method "\",\"precision\":\"bf16\",\"checkpointing\":\"" checkpointing "\",\"attention\":\"sdpa\",\"sequence_length\":1024},\"model\":" model "}"

TEST(mixer_prompts, "mixers: what a prompt makes inside them")
{
    const struct { const char *name, *scenario; double measured; } rows[] = {
        {"Mamba-2 beside attention", PROMPT(FALCON_H1), 598569472}, {"gated delta rule", PROMPT(QWEN3_5), 847150592}, {"Mamba-1", PROMPT(JAMBA), 16864424448},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bytes = test_alive(rows[i].scenario, VRAM_PHASE_PREFILL, ~0u);
        CHECK(near(bytes, rows[i].measured, 0.002), "%s: %.0f", rows[i].name, bytes);
    }
}

TEST(mixer_training, "mixers: what a training step keeps of them, and of latent attention")
{
    const struct { const char *name, *scenario; vram_phase phase; double measured; } rows[] = {
        {"gated delta rule, forward", TRAIN(QWEN3_5, "full", "none"), VRAM_PHASE_FORWARD, 2859084288}, {"backward", TRAIN(QWEN3_5, "full", "none"), VRAM_PHASE_BACKWARD, 3246927360},
        {"latent attention, backward", TRAIN(DEEPSEEK, "full", "full"), VRAM_PHASE_BACKWARD, 25254627840}, {"short convolution, adapters", TRAIN(LFM2, "lora", "none"), VRAM_PHASE_BACKWARD, 1791209472},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bytes = test_alive(rows[i].scenario, rows[i].phase, ~0u);
        CHECK(near(bytes, rows[i].measured, 0.002), "%s: %.0f", rows[i].name, bytes);
    }
}
