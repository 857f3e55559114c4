/* Stages of a pipeline: every layer is on one of them, each is estimated with its own, and what is reported is the fullest. Numbers worked by hand. */
#include "core.h"
#include "json/api.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static bool shares_blocks(const vram_model *m)
{
    for (int k = 0; k < m->kinds; k++)
        if (m->kind[k].shared_blocks > 0) return true;
    return false;
}

static double table(const vram_model *m)
{
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].part == VRAM_PART_EMBEDDING && m->tensor[i].shard == VRAM_SHARD_VOCABULARY) return vram_tensor_params(&m->tensor[i]);
    return 0;
}

static void check_sums(const char *text)
{
    vram_scenario *s = test_scenario(text);
    if (s == NULL) return; /* fewer layers than stages */
    vram_model *m = &s->model;
    double whole = vram_params_total(m) - vram_params_buffers(m), sum = 0, layers[VRAM_MAX_KINDS] = {0}, all = 0;
    for (int64_t r = 0; r < s->parallel.pipeline; r++) {
        vram_stage_choose(s, m, r);
        CHECK(m->stage.embedding == (r == 0) && m->stage.head == (r == s->parallel.pipeline - 1), "%s", text);
        for (int k = 0; k < m->kinds; k++) layers[k] += (double)m->stage.of_kind[k];
        sum += vram_rank_params(s, m);
        all += (double)m->stage.layers;
    }
    CHECK(same(all, (double)m->layers), "%s: %.0f layers of %d", text, all, (int)m->layers);
    vram_stage_whole(m);
    for (int k = 0; k < m->kinds; k++) CHECK(same(layers[k], (double)m->stage.of_kind[k]), "%s: kind %d", text, k);
    if (m->tied) sum -= table(m);
    for (int i = 0; i < m->tensors && m->tied; i++) /* and tables of words beside it: each is tied, too */
        if (m->tensor[i].part == VRAM_PART_EMBEDDING && m->tensor[i].shard == VRAM_SHARD_VOCABULARY && !same(vram_tensor_params(&m->tensor[i]), table(m))) sum -= vram_tensor_params(&m->tensor[i]);
    CHECK(shares_blocks(m) ? sum >= whole : same(sum, whole), "%s: %.0f parameters on the stages, %.0f in the model", text, sum, whole);
}

TEST(stages_sum, "stages: every preset's layers and parameters are on them once, a tied head's copy apart")
{
    static const char *const engines[] = {
        "\"task\":\"training\",\"training\":{\"gradient_accumulation\":8},\"parallel\":{\"engine\":\"plain\",\"pipeline\":%d}",
        "\"task\":\"training\",\"training\":{\"gradient_accumulation\":8},\"parallel\":{\"engine\":\"fsdp2\",\"pipeline\":%d}",
        "\"task\":\"training\",\"training\":{\"gradient_accumulation\":8},\"parallel\":{\"engine\":\"fsdp2\",\"pipeline\":%d,\"virtual_pipeline\":2}",
        "\"task\":\"training\",\"training\":{\"gradient_accumulation\":8},\"parallel\":{\"engine\":\"megatron\",\"pipeline\":%d,\"virtual_pipeline\":3}",
        "\"engine\":\"vllm\",\"parallel\":{\"pipeline\":%d}",
        "\"engine\":\"sglang\",\"parallel\":{\"pipeline\":%d}",
    };
    static const int degrees[] = {2, 3, 4, 7};
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    const char *id, *name;
    for (int i = 0; vram_json_listed(json, "models", i, &id, &name); i++)
        for (int e = 0; e < COUNT(engines); e++)
            for (int d = 0; d < COUNT(degrees); d++) {
                char rest[192], text[320];
                snprintf(rest, sizeof rest, engines[e], degrees[d]);
                snprintf(text, sizeof text, "{\"model\":\"%s\",%s}", id, rest);
                check_sums(text);
            }
    vram_json_close(json);
}

/* Where engines put the layers: vLLM's, SGLang's and torchtitan's own rules, evaluated by hand for 30 layers on 4 stages */
TEST(stages_placed, "stages: layers are where the engine places them")
{
#define THIRTY "\"model\":{\"model_type\":\"llama\",\"hidden_size\":512,\"intermediate_size\":1024,\"num_hidden_layers\":30,\"num_attention_heads\":8,\"vocab_size\":1000}"
    const struct { const char *scenario; int64_t layers[4]; } rows[] = {
        {"{\"engine\":\"vllm\",\"parallel\":{\"pipeline\":4}," THIRTY "}", {7, 8, 8, 7}},
        {"{\"engine\":\"sglang\",\"parallel\":{\"pipeline\":4}," THIRTY "}", {7, 7, 8, 8}},
        {"{\"task\":\"training\",\"parallel\":{\"pipeline\":4}," THIRTY "}", {8, 8, 7, 7}},
        {"{\"task\":\"training\",\"parallel\":{\"pipeline\":4,\"engine\":\"fsdp2\"}," THIRTY "}", {7, 8, 8, 7}},
        {"{\"engine\":\"llama.cpp\",\"parallel\":{\"pipeline\":4}," THIRTY "}", {30, 30, 30, 30}}, /* its own rule, by number: gguf.c */
    };
    for (int i = 0; i < COUNT(rows); i++) {
        vram_scenario *s = test_scenario(rows[i].scenario);
        for (int r = 0; s && r < 4; r++) {
            vram_stage_choose(s, &s->model, r);
            CHECK(s->model.stage.layers == rows[i].layers[r], "%s: stage %d has %d layers", rows[i].scenario, r, (int)s->model.stage.layers);
        }
    }
}

/* Eight micro-batches, four stages, two chunks of each: before the first backward 2 (4 - r - 1) + 4 + 1 chunks have been gone through, four times the
 * first, four times the second, then the first again (arXiv 2104.04473, figure 4). */
TEST(stages_in_flight, "stages: micro-batches in flight")
{
    const struct { const char *more; int stage, first, last; } rows[] = {
        {"\"gradient_accumulation\":8},\"parallel\":{\"pipeline\":4", 0, 4, 4}, {"\"gradient_accumulation\":8},\"parallel\":{\"pipeline\":4", 3, 1, 1},
        {"\"gradient_accumulation\":2},\"parallel\":{\"pipeline\":4", 0, 2, 2}, {"\"gradient_accumulation\":2},\"parallel\":{\"pipeline\":4", 2, 2, 2},
        {"\"gradient_accumulation\":8},\"parallel\":{\"virtual_pipeline\":2,\"pipeline\":4", 0, 7, 4}, {"\"gradient_accumulation\":8},\"parallel\":{\"virtual_pipeline\":2,\"pipeline\":4", 1, 5, 4},
        {"\"gradient_accumulation\":8},\"parallel\":{\"virtual_pipeline\":2,\"pipeline\":4", 2, 4, 3}, {"\"gradient_accumulation\":8},\"parallel\":{\"virtual_pipeline\":2,\"pipeline\":4", 3, 4, 1},
        {"\"gradient_accumulation\":1},\"parallel\":{\"virtual_pipeline\":2,\"pipeline\":4", 0, 1, 1},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        char text[320];
        snprintf(text, sizeof text, "{\"task\":\"training\",\"model\":\"llama-3.1-8b\",\"training\":{%s,\"engine\":\"megatron\"}}", rows[i].more);
        vram_scenario *s = test_scenario(text);
        CHECK(s != NULL, "%s", text);
        if (s == NULL) continue;
        vram_stage_choose(s, &s->model, rows[i].stage);
        const vram_stage *stage = &s->model.stage;
        CHECK(stage->in_flight[0] == rows[i].first && stage->in_flight[stage->layers - 1] == rows[i].last, "%s, stage %d: %d and %d", text, rows[i].stage, stage->in_flight[0], stage->in_flight[stage->layers - 1]);
    }
}

#define SPARSE "\"model\":{\"model_type\":\"qwen3_moe\",\"hidden_size\":1024,\"head_dim\":128,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"intermediate_size\":4096,\"moe_intermediate_size\":2048," \
               "\"num_experts\":8,\"num_experts_per_tok\":2,\"mlp_only_layers\":[0],\"num_hidden_layers\":4,\"vocab_size\":32000,\"tie_word_embeddings\":false}"
#define WEIGHTS (1u << VRAM_COMPONENT_WEIGHTS)

/* One dense layer, then three with eight experts each; two on each stage */
TEST(stages_dense_then_sparse, "stages: a dense layer and sparse ones are where they are")
{
    const double h = 1024, v = 32000, shared = 2 * h * h + 2 * h * 256 + 2 * 128 + 2 * h; /* q, o; k, v; norms of heads, of the stream */
    const double dense = shared + 3 * h * 4096, sparse = shared + 8 * 3 * h * 2048 + 8 * h;
    const struct { const char *scenario; double params[2], bytes; } rows[] = {
        {"{\"parallel\":{\"pipeline\":2},\"context\":16," SPARSE "}", {v * h + dense + sparse, 2 * sparse + h + v * h}, 2},
        {"{\"task\":\"training\",\"overheads\":false,\"training\":{\"precision\":\"bf16\",\"sequence_length\":16},\"parallel\":{\"pipeline\":2}," SPARSE "}", {v * h + dense + sparse, 2 * sparse + h + v * h}, 2},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        for (int r = 0; r < 2; r++) {
            const vram_report *report = test_stage(rows[i].scenario, r);
            double bytes = report ? vram_bytes_alive(report, VRAM_PHASE_LOAD, WEIGHTS) : 0;
            CHECK(same(bytes, rows[i].params[r] * rows[i].bytes), "%s: stage %d holds %.0f, not %.0f", rows[i].scenario, r, bytes, rows[i].params[r] * rows[i].bytes);
        }
        CHECK(same(test_alive(rows[i].scenario, VRAM_PHASE_LOAD, WEIGHTS), rows[i].params[1] * rows[i].bytes), "%s: the second is the fullest", rows[i].scenario);
    }
}

#define HYBRID "\"model\":{\"model_type\":\"bamba\",\"hidden_size\":1024,\"intermediate_size\":2048,\"num_hidden_layers\":8,\"num_attention_heads\":8,\"num_key_value_heads\":8,\"vocab_size\":1000," \
               "\"mamba_n_heads\":16,\"mamba_d_head\":128,\"mamba_n_groups\":1,\"mamba_d_state\":64,\"attn_layer_indices\":[%s]}}"

/* One layer of eight attends: 2 x 8 heads x 128 x 2 bytes a token, wherever it stands. Its scores, written out, are 4 x 8 x s x s for softmax in fp32, and more. */
TEST(stages_hybrid, "stages: the one layer that attends is seen on whichever stage it is")
{
    static const char *const places[] = {"0", "3", "5", "7"};
    for (int i = 0; i < COUNT(places); i++) {
        char serve[512], train[512];
        snprintf(serve, sizeof serve, "{\"parallel\":{\"pipeline\":4},\"context\":100000," HYBRID, places[i]);
        snprintf(train, sizeof train, "{\"task\":\"training\",\"overheads\":false,\"training\":{\"sequence_length\":4096,\"attention\":\"eager\"},\"parallel\":{\"pipeline\":4}," HYBRID, places[i]);
        double cache = test_alive(serve, VRAM_PHASE_DECODE, 1u << VRAM_COMPONENT_KV_CACHE), activations = test_alive(train, VRAM_PHASE_BACKWARD, 1u << VRAM_COMPONENT_ACTIVATIONS);
        CHECK(same(cache, 100000. * 2 * 8 * 128 * 2), "layer %s: %.0f bytes of cache", places[i], cache);
        CHECK(activations > 4. * 8 * 4096 * 4096, "layer %s: %.0f bytes of activations", places[i], activations);
    }
}

TEST(stages_grow, "stages: more tokens, rows or layers never need less")
{
    static const char *const models[] = {"ai21-jamba-mini-1.5", "deepseek-v2-lite", "gemma-2-9b", "gpt-oss-20b", "granite-4.0-h-tiny", "qwen3-next-80b-a3b-instruct", "glm-4.7-flash"};
    static const char *const parallel[] = {"\"engine\":\"megatron\",\"data\":8,\"zero\":1,\"pipeline\":4", "\"pipeline\":3", "\"engine\":\"fsdp2\",\"data\":4,\"pipeline\":2,\"virtual_pipeline\":2"};
    static const int tokens[] = {64, 110, 120, 600, 1024, 3000, 4096}, batches[] = {1, 2, 3, 8};
    for (int m = 0; m < COUNT(models); m++)
        for (int p = 0; p < COUNT(parallel); p++) {
            double before = 0;
            char text[400];
            for (int i = 0; i < COUNT(tokens) + COUNT(batches); i++) {
                int more = i - COUNT(tokens);
                if (more == 0) before = 0;
                snprintf(text, sizeof text, "{\"task\":\"training\",\"overheads\":false,\"model\":\"%s\",\"training\":{\"gradient_accumulation\":%d,\"sequence_length\":%d,\"micro_batch\":%d},\"parallel\":{%s}}", models[m],
                         m % 2 ? 8 : 1, more < 0 ? tokens[i] : 512, more < 0 ? 1 : batches[more], parallel[p]);
                double bytes = test_peak(text);
                CHECK(bytes > 0 && bytes >= before, "%s: %.0f, and with less %.0f", text, bytes, before);
                before = bytes;
            }
        }
}

/* Adapters on queries and values alone. The first layer of the model needs no gradient of its input, so that its first norm keeps nothing; every layer of a
 * later stage does: what is received requires one. */
TEST(stages_lora, "stages: with LoRA a later stage goes back to what it was sent")
{
    const char *scenario = "{\"task\":\"training\",\"overheads\":false,\"model\":\"llama-3.1-8b\",\"lora\":{\"targets\":\"qv\"},\"training\":{\"method\":\"lora\",\"sequence_length\":1024},\"parallel\":{\"pipeline\":4}}";
    const unsigned kept = 1u << VRAM_COMPONENT_ACTIVATIONS;
    double bytes[2];
    for (int r = 0; r < 2; r++) {
        const vram_report *report = test_stage(scenario, r);
        bytes[r] = report ? vram_bytes_alive(report, VRAM_PHASE_BACKWARD, kept) : 0;
    }
    CHECK(bytes[1] > bytes[0] && bytes[0] > 0, "%.0f on the second stage, %.0f on the first", bytes[1], bytes[0]);
}

TEST(stages_noted, "stages: the report says which stage it is of")
{
    const vram_report *r = test_report("{\"task\":\"training\",\"model\":\"llama-3.1-8b\",\"training\":{\"gradient_accumulation\":8},\"parallel\":{\"pipeline\":4}}");
    const vram_note *note = NULL;
    for (int i = 0; r && i < r->notes; i++)
        if (r->note[i].id == VRAM_NOTE_STAGE) note = &r->note[i];
    CHECK(note && same(note->value[0], 1) && same(note->value[1], 4) && same(note->value[2], 8), "the first of four holds most micro-batches");
    r = test_report("{\"task\":\"training\",\"model\":\"llama-3.1-8b\"}");
    for (int i = 0; r && i < r->notes; i++) CHECK(r->note[i].id != VRAM_NOTE_STAGE, "there is no pipeline");
}

/* vLLM and SGLang give every stage as many blocks and tokens as the one with room for fewest has */
TEST(stages_agree, "stages: servers show the fullest, and hold what all of them can")
{
    static const char *const models[] = {"gemma-3-27b", "granite-4.0-h-tiny", "gemma-3n-e4b-it", "llama-3.1-8b"}, *const engines[] = {"vllm", "sglang"};
    for (int m = 0; m < COUNT(models); m++)
        for (int e = 0; e < COUNT(engines); e++) {
            char text[256];
            double most = 0, fewest = -1;
            snprintf(text, sizeof text, "{\"model\":\"%s\",\"engine\":\"%s\",\"gpu\":\"h100-sxm\",\"context\":8192,\"parallel\":{\"pipeline\":3}}", models[m], engines[e]);
            for (int r = 0; r < 3; r++) {
                const vram_report *one = test_stage(text, r);
                CHECK(one != NULL, "%s", text);
                if (one == NULL) continue;
                most = vram_max(most, one->peak_bytes);
                if (one->kv_tokens_capacity >= 0 && (fewest < 0 || one->kv_tokens_capacity < fewest)) fewest = one->kv_tokens_capacity;
            }
            const vram_report *all = test_report(text);
            CHECK(all && same(all->peak_bytes, most) && same(all->kv_tokens_capacity, fewest), "%s: %.0f bytes, %.0f tokens", text, all ? all->peak_bytes : 0, all ? all->kv_tokens_capacity : 0);
        }
}
