/* Caches and allocator blocks, worked by hand. */
#include "test.h"

#include <string.h>

#include "core.h"

static vram_model model;
static vram_report report;

/* A model of `layers` layers, all of kind 0. */
static vram_attention *plain(int64_t layers, int64_t heads, int64_t kv_heads, int64_t head_dim)
{
    memset(&model, 0, sizeof model);
    model.layers = layers;
    model.kinds = 1;
    vram_attention *a = &model.kind[0].attention;
    *a = (vram_attention){.type = VRAM_MIXER_SOFTMAX, .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .v_head_dim = head_dim};
    return a;
}

static vram_cache_rules rules(double tokens)
{
    return (vram_cache_rules){.sequences = 1, .tokens = tokens, .k_bytes = 2, .v_bytes = 2, .window_sequences = 1, .window_step = 1,
                              .states = 1, .conv_bytes = 2, .ranks = 1, .end_layer = model.layers, .phases = 1};
}

static double bytes_of(const vram_cache_rules *r, vram_what what)
{
    double bytes = 0;
    report.entries = report.notes = 0;
    vram_cache_entries(&model, r, &report);
    for (int i = 0; i < report.entries; i++)
        if (report.entry[i].what == what) bytes += report.entry[i].bytes;
    return bytes;
}

TEST(cache_plain, "cache: 2 x layers x heads x width x tokens x bytes, copied where ranks outnumber heads")
{
    plain(32, 32, 32, 128);
    vram_cache_rules r = rules(1);
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 524288), "a token of a 7B: 2 * 32 * 32 * 128 * 2");
    r.tokens = 4096, r.sequences = 2;
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 4294967296.0), "4096 tokens, two sequences");
    plain(80, 64, 8, 128);
    r = rules(1);
    r.ranks = 16; /* one head of eight on each rank: 2 * 80 * 1 * 128 * 2 */
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 40960), "70B on 16 ranks");
    CHECK(report.notes == 1 && report.note[0].id == VRAM_NOTE_KV_HEADS_REPLICATED && same(report.note[0].value[0], 8), "says that heads are copied");
    r.k_bytes = 34. / 32; /* keys as q8_0: 80 * 128 * 1.0625 + 80 * 128 * 2 */
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 31360), "keys and values of different types");
}

TEST(cache_kinds, "cache: windows, latents, shared caches and states, each by its rule")
{
    vram_attention *a = plain(6, 8, 4, 256); /* five windowed layers of 512 and one that sees everything */
    a->window = 512;
    model.kinds = 2;
    model.kind[1].attention = *a;
    model.kind[1].attention.window = 0;
    model.layer_kind[5] = 1;
    vram_stage_whole(&model);
    vram_cache_rules r = rules(8192);
    CHECK(same(bytes_of(&r, VRAM_WHAT_WINDOW_LAYERS), 5. * 2 * 4 * 256 * 512 * 2), "min(tokens, window)");
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 1. * 2 * 4 * 256 * 8192 * 2), "the one that sees everything");
    r.window_less = 1;
    CHECK(same(bytes_of(&r, VRAM_WHAT_WINDOW_LAYERS), 5. * 2 * 4 * 256 * 511 * 2), "transformers keeps W - 1");
    r.window_less = 0, r.window_more = 512, r.window_step = 256;
    CHECK(same(bytes_of(&r, VRAM_WHAT_WINDOW_LAYERS), 5. * 2 * 4 * 256 * 1024 * 2), "llama.cpp: window and micro-batch, in steps of 256");
    a->shares_cache = true;
    CHECK(same(bytes_of(&r, VRAM_WHAT_WINDOW_LAYERS), 0), "a shared cache is counted once, where it is made");

    a = plain(61, 128, 128, 192);
    *a = (vram_attention){.type = VRAM_MIXER_MLA, .heads = 128, .kv_heads = 128, .head_dim = 192, .v_head_dim = 128,
                          .kv_lora_rank = 512, .qk_rope_head_dim = 64, .qk_nope_head_dim = 128};
    r = rules(1);
    r.ranks = 8;
    CHECK(same(bytes_of(&r, VRAM_WHAT_LATENT), 61. * 576 * 2), "DeepSeek-V3: every rank holds the whole latent");
    r.ranks = 1, r.expanded = true;
    CHECK(same(bytes_of(&r, VRAM_WHAT_GLOBAL_LAYERS), 61. * 128 * (192 + 128) * 2), "the heads' own keys and values");

    plain(3, 1, 1, 1);
    model.kind[0].attention.type = VRAM_MIXER_NONE;
    model.kind[0].state = (vram_state){.type = VRAM_STATE_GATED_DELTA, .heads = 32, .head_dim = 128, .key_heads = 16, .key_head_dim = 128, .conv_kernel = 4, .state_fp32 = true};
    r = rules(100000);
    CHECK(same(bytes_of(&r, VRAM_WHAT_STATE), 3. * 32 * 128 * 128 * 4), "whatever the context, in fp32");
    CHECK(same(bytes_of(&r, VRAM_WHAT_CONV_STATE), 3. * (2 * 16 * 128 + 32 * 128) * 4 * 2), "four columns of q, k and v");
}

TEST(allocator, "allocator: small ones cut to 512, large ones from segments whose rest up to 1 MiB is not cut off")
{
    static const double mib = 1048576;
    vram_allocator a = {0};
    CHECK(same(vram_allocator_take(&a, 100), 512), "multiples of 512");
    CHECK(same(vram_allocator_take(&a, 15.25 * mib), 16 * mib), "a segment of 16 MiB, 0.75 left");
    CHECK(same(vram_allocator_take(&a, 14.5 * mib), 14.5 * mib), "a segment of 16 MiB, 1.5 cut off");
    CHECK(same(vram_allocator_take(&a, 1.25 * mib), 1.5 * mib), "the smallest free block that holds it, 0.25 left");
    CHECK(same(vram_allocator_take(&a, 4 * mib), 4 * mib) && a.blocks == 1 && same(a.block[0], 16 * mib), "a segment of 20 MiB below 10");
    a = (vram_allocator){.max_split = 20 * mib};
    vram_allocator_give(&a, vram_allocator_take(&a, 64 * mib));
    CHECK(same(vram_allocator_take(&a, 48 * mib), 64 * mib), "above the limit a free block is given whole");
    CHECK(same(vram_allocator_take(&a, 20.5 * mib), 22 * mib), "or a segment of its own");
}
