/* Pools of serving engines: blocks, groups, pages, and the verdict that follows from them. Block counts are those of vLLM 0.33's own planner. */
#include "test.h"

#include "core.h"

#include <stdio.h>
#include <string.h>

static double bytes_of(const vram_report *r, vram_component component, vram_what what)
{
    double bytes = 0;
    for (int i = 0; i < r->entries; i++)
        if (r->entry[i].component == component && (r->entry[i].what == what || what == VRAM_WHAT_COUNT)) bytes += r->entry[i].bytes;
    return bytes;
}

static double factor_of(const vram_report *r, vram_component component, vram_what what, vram_symbol symbol)
{
    for (int i = 0; i < r->entries; i++)
        for (int k = 0; k < r->entry[i].factors; k++)
            if (r->entry[i].component == component && r->entry[i].what == what && r->entry[i].factor[k].symbol == symbol) return r->entry[i].factor[k].value;
    return -1;
}

#define VLLM(model, context, more) "{\"engine\":\"vllm\",\"model\":\"" model "\",\"context\":" context ",\"vllm\":{\"max_num_batched_tokens\":8192}," more "\"gpu\":\"a100-80gb\"}"

TEST(pool_windows, "pools: a window saves what is not in flight, and while answering all but itself")
{
    /* Gemma 3 12B: groups of 8 layers, five windowed and one full; a page of 16 tokens, 8 heads of 256, K and V, 2 bytes */
    const double block = 8. * 16 * 2 * 8 * 256 * 2;
    const vram_report *r = test_report(VLLM("gemma-3-12b", "32768", ""));
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_COUNT), 7493 * block), "5 * 1089 + 2048 blocks: ceil((1023 + 2 * 8192) / 16) + 1 = 1089");
    CHECK(same(r->pool.first_bytes, 7494 * block), "and one that is never handed out");
    r = test_report(VLLM("gemma-3-12b", "8192", ""));
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_COUNT), (5 * 513 + 512) * block), "8192 tokens in flight hold everything");
    r = test_report(VLLM("gemma-3-12b", "32768", "\"batch\":4,"));
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_COUNT), (7493 + 3 * (5 * 66 + 2048)) * block), "three that are answered: ceil((1023 + 2) / 16) + 1 = 66");
    /* gpt-oss 20B: 12 windowed and 12 full layers; 8 heads of 64 */
    r = test_report("{\"engine\":\"vllm\",\"model\":\"gpt-oss-20b\",\"weights\":\"native\",\"context\":8192,\"batch\":32}");
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_COUNT), (512 + 265 + 31 * (512 + 10)) * 12. * 16 * 2 * 8 * 64 * 2), "6.21 GiB: between the windows alone and whole pages");
}

TEST(pool_pages, "pools: attention's blocks grow until their page holds a state")
{
    static const struct { const char *scenario; double blocks; } cases[] = {
        /* 8192 tokens in blocks of 80, 400, 528, 1056 */
        {VLLM("ai21-jamba-mini-1.5", "8192", ""), 103}, {VLLM("granite-4.0-h-tiny", "8192", ""), 21},
        {VLLM("qwen3.5-9b", "8192", ""), 16}, {VLLM("qwen3.5-9b", "8192", "\"kv_cache\":\"fp8\","), 8},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const vram_report *r = test_report(cases[i].scenario);
        CHECK(r && same(factor_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_GLOBAL_LAYERS, VRAM_SYMBOL_BLOCKS), cases[i].blocks), "case %d: %g blocks", i, r ? factor_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_GLOBAL_LAYERS, VRAM_SYMBOL_BLOCKS) : 0);
    }
    /* a latent of 512 + 64, whole on every rank: 61 layers, 512 blocks of 16 */
    const vram_report *r = test_report(VLLM("deepseek-v3", "8192", "\"weights\":\"native\",\"parallel\":{\"tensor\":8},"));
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_COUNT), 61. * 512 * 16 * 576 * 2), "DeepSeek V3 on 8 ranks");
}

/* The verdict's promise: not "no" exactly when the pool runs the sequences at once. */
static void check_promise(const char *engine, const char *model, int context, int batch)
{
    char text[256];
    snprintf(text, sizeof text, "{\"engine\":\"%s\",\"model\":\"%s\",\"context\":%d,\"batch\":%d,\"gpu\":\"a100-80gb\"}", engine, model, context, batch);
    const vram_report *r = test_report(text);
    CHECK(r && r->fits > 1, "%s", text);
    const vram_fit *own = &r->fit[0];
    CHECK((own->verdict != VRAM_VERDICT_NO) == (r->pool.sequences >= batch), "%s: %g sequences", text, r->pool.sequences);
    CHECK((own->headroom_bytes >= 0) == (own->verdict != VRAM_VERDICT_NO) || batch > r->pool.sequences_limit, "%s: headroom %g", text, own->headroom_bytes);
    CHECK(own->verdict == VRAM_VERDICT_NO ? own->gpus_needed > 1 : own->gpus_needed == 1, "%s: %d cards", text, (int)own->gpus_needed);
    CHECK((r->max_context < context) <= (own->verdict == VRAM_VERDICT_NO), "%s: longest %g", text, r->max_context);
}

TEST(pool_verdict, "pools: the verdict is the pool's")
{
    static const char *const engines[] = {"vllm", "sglang"}, *const models[] = {"llama-3.1-8b", "qwen3-32b", "gpt-oss-20b", "qwen3.5-9b", "deepseek-v2-lite"};
    static const int batches[] = {1, 7, 40, 256, 257, 5000};
    for (int e = 0; e < COUNT(engines); e++)
        for (int m = 0; m < COUNT(models); m++)
            for (int b = 0; b < COUNT(batches); b++) check_promise(engines[e], models[m], 8192, batches[b]), check_promise(engines[e], models[m], 32768, batches[b]);
    const vram_report *r = test_report("{\"engine\":\"vllm\",\"model\":\"llama-3.1-8b\",\"context\":131072,\"gpu\":\"rtx-4090\"}");
    CHECK(r && r->fit[0].verdict == VRAM_VERDICT_NO && r->fit[0].usable_bytes > r->pool.model_bytes, "weights fit, one sequence of the whole context does not");
}

TEST(pool_stages, "pools: a stage of a pipeline has the embedding or the head")
{
    const vram_report *r = test_report(VLLM("llama-3.1-8b", "8192", "\"overheads\":false,\"parallel\":{\"pipeline\":2},"));
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_EMBEDDING), 0) && same(bytes_of(r, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_LM_HEAD), 128256. * 4096 * 2), "the last of two");
    CHECK(r->pool.model_bytes > 7.5 * 1073741824 && r->pool.model_bytes < 7.55 * 1073741824, "a log of vLLM 0.19 says 7.51 GiB; 0.33 rounds large tensors up");
}

TEST(pool_sglang, "pools: SGLang's share, its windows apart, its states")
{
    /* 81920 MiB: 512 + 8192 * 1.5 + 1024 / 8 + 2 * 256 + 58 prefill graphs * 8 = 13904 stay out */
    const vram_report *r = test_report("{\"engine\":\"sglang\",\"model\":\"llama-3.1-8b\",\"context\":8192,\"gpu\":\"a100-80gb\"}");
    vram_gpu card = {.memory_bytes = 81920. * 1048576};
    vram_scenario s = {.sglang.mem_fraction_static = -1, .parallel = {.tensor = 1, .pipeline = 1}};
    CHECK(same(vram_sglang_share(&s, &card), 0.83), "share %g", vram_sglang_share(&s, &card));
    CHECK(r && same(r->pool.k_bytes, (r->pool.tokens + 1) * 32 * 8 * 128 * 2) && same(r->pool.v_bytes, r->pool.k_bytes), "K and V of the pool and its page of padding");
    /* 0.8 as many tokens in the 12 windowed layers: 2 * 8 * 64 * 2 bytes a token and layer */
    r = test_report("{\"engine\":\"sglang\",\"model\":\"gpt-oss-20b\",\"weights\":\"native\",\"context\":10000,\"gpu\":\"a100-80gb\"}");
    CHECK(r && same(r->pool.sequence_bytes, 10000 * 12 * 2048. * 1.8), "a sequence takes of both pools");
    r = test_report("{\"engine\":\"sglang\",\"model\":\"deepseek-v3\",\"weights\":\"native\",\"context\":8192,\"gpu\":\"h200-sxm\",\"parallel\":{\"tensor\":8}}");
    CHECK(r && same(r->pool.k_bytes, (r->pool.tokens + 1) * 61 * 576 * 2) && r->pool.v_bytes < 0, "one latent buffer");
    /* ReqToTokenPool: rows of --context-length + 4 places of 4 bytes; 1.3 million tokens / 131072 * 512 is above the 4096 requests that are the most */
    r = test_report("{\"engine\":\"sglang\",\"model\":\"llama-4-scout-17b-16e\",\"context\":131072,\"gpu\":\"h200-sxm\",\"parallel\":{\"tensor\":4}}");
    CHECK(r && same(bytes_of(r, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_REQUEST_TABLE), 4097. * 131076 * 4), "a table as long as the context, not as the model's 10,485,760 positions");
}

/* What other people's servers printed. Weights: vLLM 0.19 on H100 (address of VRAM_SOURCE_VLLM_LOGS) and 0.11 (llm-d-benchmark,
 * config_explorer/empirical-vllm-memory-results.md), which did not yet round large tensors up. */
TEST(pool_logs, "pools: weights on a rank, and pages, as logs have them")
{
    static const struct { const char *scenario; double gib; } cases[] = {
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\"}", 14.99},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\",\"parallel\":{\"tensor\":2}}", 7.51},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\",\"parallel\":{\"tensor\":4}}", 3.77},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\",\"parallel\":{\"pipeline\":2}}", 7.51},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\",\"parallel\":{\"pipeline\":4}}", 4.26},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"llama-3.1-8b\",\"weights\":\"fp8-dynamic\"}", 8.49},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"qwen3-32b\"}", 61.03},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"qwen3-0.6b\"}", 1.12},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"gpt-oss-20b\",\"weights\":\"native\"}", 13.47},
        {"{\"engine\":\"vllm\",\"gpu\":\"h100-sxm\",\"model\":\"gpt-oss-120b\",\"weights\":\"native\"}", 64.38},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        const vram_report *r = test_report(cases[i].scenario);
        double gib = r ? (r->pool.model_bytes - bytes_of(r, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING)) / 1073741824 : 0;
        CHECK(gib > cases[i].gib * 0.997 - 0.005 && gib < cases[i].gib * 1.003 + 0.005, "%s: %.3f GiB, not %.2f", cases[i].scenario, gib, cases[i].gib);
    }
    /* https://github.com/noonghunna/club-3090/issues/1047: "attention block size to 1568 tokens", "mamba page size by 0.13%", one card, fp8 cache */
    const vram_report *r = test_report("{\"engine\":\"vllm\",\"model\":\"qwen3.6-27b\",\"kv_cache\":\"fp8\",\"context\":15680,\"gpu\":\"rtx-a6000\"}");
    CHECK(r && same(factor_of(r, VRAM_COMPONENT_KV_CACHE, VRAM_WHAT_GLOBAL_LAYERS, VRAM_SYMBOL_BLOCKS), 10) && same(factor_of(r, VRAM_COMPONENT_RECURRENT_STATE, VRAM_WHAT_STATE, VRAM_SYMBOL_BYTES), 1568 * 2048.), "1568 tokens of 2 KiB");
    /* https://github.com/noonghunna/club-3090/pull/594: "Add 3 padding layers, may waste at most 6.25%": 48 states beside 16 + 1 that guesses */
    r = test_report("{\"engine\":\"vllm\",\"model\":\"qwen3.6-27b\",\"speculative\":{\"mtp_tokens\":3},\"context\":8192,\"gpu\":\"rtx-3090\"}");
    CHECK(r && same(factor_of(r, VRAM_COMPONENT_RECURRENT_STATE, VRAM_WHAT_STATE, VRAM_SYMBOL_LAYERS), 17) && same(factor_of(r, VRAM_COMPONENT_RECURRENT_STATE, VRAM_WHAT_STATE, VRAM_SYMBOL_GROUPS), 3), "three groups of 17");
}
