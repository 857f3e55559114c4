/* Megatron Core's own functional tests print mem-max-allocated-bytes of each step; the numbers here are the largest of golden_values_dev_dgx_a100.json and
 * golden_values_dev_dgx_h100.json in tests/functional_tests/test_cases of NVIDIA/Megatron-LM at d98e8a64dd, the scenarios their model_config.yaml. */
#include "test.h"

#include "core.h"

#define MODEL(vocabulary, bias, more) "\"model\":{\"model_type\":\"megatron\",\"hidden_size\":512,\"num_hidden_layers\":12,\"num_attention_heads\":8,\"intermediate_size\":2048,\"vocab_size\":" vocabulary ",\"max_position_embeddings\":1024,\"n_positions\":1024,\"position_embedding_type\":\"absolute\",\"tie_word_embeddings\":true,\"attention_bias\":" bias ",\"mlp_bias\":" bias ",\"mlp_gated\":false,\"norm_bias\":true" more "}"
#define EXPERTS(k) ",\"num_local_experts\":8,\"num_experts_per_tok\":" k
#define RUN(gpu, more, parallel, model) "{\"task\":\"training\",\"overheads\":false,\"weights\":\"bf16\",\"gpus\":8" gpu ",\"training\":{\"method\":\"full\",\"precision\":\"mixed\",\"gradients\":\"fp32\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"fused\",\"sequence_length\":1024,\"micro_batch\":4,\"attention\":\"eager\",\"loss\":\"full\",\"kernels\":\"fused\",\"dropout\":0.1" more "},\"parallel\":{\"engine\":\"megatron\"," parallel "}," model "}"
#define H100 ",\"gpu\":\"h100-sxm\""
#define ONE ",\"checkpointing\":\"none\""

TEST(megatron_peaks, "Megatron: the peak of a step, against its own tests' golden values")
{
    const struct { const char *name, *scenario; double measured, share; } rows[] = {
        {"distributed optimizer, A100", RUN("", ONE, "\"data\":8,\"zero\":1", MODEL("50304", "true", "")), 4673069568, 0.002},
        {"the same, H100", RUN(H100, ONE, "\"data\":8,\"zero\":1", MODEL("50304", "true", "")), 4702430720, 0.002},
        {"every layer recomputed", RUN("", ",\"checkpointing\":\"full\"", "\"data\":8", MODEL("50304", "true", "")), 2534070272, 0.005},
        {"tensor parallel 4", RUN("", ONE, "\"data\":2,\"zero\":1,\"tensor\":4", MODEL("50688", "true", "")), 1515628032, 0.015},
        {"8 experts, one a token", RUN("", ONE, "\"data\":4,\"zero\":1,\"tensor\":2,\"sequence\":true,\"expert\":2", MODEL("50432", "false", EXPERTS("1"))), 3110486016, 0.02},
        {"8 experts, two a token, each on one rank", RUN("", ONE, "\"data\":4,\"tensor\":2,\"sequence\":true,\"expert\":4,\"expert_tensor\":1", MODEL("50432", "false", EXPERTS("2"))), 3926147584, 0.02},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double bytes = test_peak(rows[i].scenario);
        CHECK(bytes > rows[i].measured * (1 - rows[i].share) && bytes < rows[i].measured * (1 + rows[i].share), "%s: %.0f, not %.0f", rows[i].name, bytes, rows[i].measured);
    }
}

/* Their logs are the last rank's: with stages of a pipeline that of the last, which has one micro-batch in flight, the last norm and the head. */
TEST(megatron_last_stage, "Megatron: the peak of a pipeline's last stage, against the same")
{
#define GATED "\"model\":{\"model_type\":\"megatron\",\"hidden_size\":512,\"num_hidden_layers\":12,\"num_attention_heads\":8,\"vocab_size\":50304,\"max_position_embeddings\":1024,\"n_positions\":1024,\"position_embedding_type\":\"absolute\",\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,\"mlp_gated\":true,\"norm_bias\":true}"
#define STAGES(n, more, model) RUN("", ONE ",\"gradient_accumulation\":4", "\"pipeline\":" n more, model)
    const struct { const char *name, *scenario; int stage; double measured, share; } rows[] = {
        {"no biases", STAGES("4", ",\"data\":2", MODEL("50304", "false", "")), 3, 2685510144, 0.006},
        {"a gated MLP, whose width follows from the hidden one", STAGES("4", ",\"data\":2", GATED), 3, 2684785152, 0.006},
        {"two ranks of tensor parallelism", STAGES("2", ",\"data\":2,\"tensor\":2", MODEL("50432", "true", "")), 1, 1900158464, 0.006},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const vram_report *r = test_stage(rows[i].scenario, rows[i].stage);
        double bytes = r ? r->peak_bytes : 0;
        CHECK(bytes > rows[i].measured * (1 - rows[i].share) && bytes < rows[i].measured * (1 + rows[i].share), "%s: %.0f, not %.0f", rows[i].name, bytes, rows[i].measured);
    }
}
