/* The caching allocator's rules, each as c10/cuda/CUDACachingAllocator.cpp has it; and that a step's record is what PyTorch's own counters say. */
#include "json/json.h"
#include "replay.h"
#include "segments.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static vram_segments pool; /* too large for a stack */

static const double MIB = 1048576;

static short take(double mib) { return vram_segments_take(&pool, mib * MIB, 0); }

TEST(segments_sizes, "segments: 20 MiB for less than 10, whole 2 MiB for more; a rest beyond 1 MiB is cut off")
{
    static const struct { double tensor, segment, block; } cases[] = {{1.5, 20, 1.5}, {9.5, 20, 9.5}, {10, 10, 10}, {10.5, 12, 10.5}, {11, 12, 12}, {11.5, 12, 12}, {12.5, 14, 12.5}, {100, 100, 100}};
    for (int i = 0; i < COUNT(cases); i++) {
        vram_segments_clear(&pool, 0);
        short n = take(cases[i].tensor);
        CHECK(same(pool.reserved, cases[i].segment * MIB), "%g MiB: a segment of %g", cases[i].tensor, pool.reserved / MIB);
        CHECK(same(pool.block[n].bytes, cases[i].block * MIB), "%g MiB: a block of %g", cases[i].tensor, pool.block[n].bytes / MIB);
    }
}

TEST(segments_best, "segments: the smallest free block that is large enough, of several the one that lies first")
{
    vram_segments_clear(&pool, 0);
    short large = take(40), first = take(24), fence = take(16), second = take(24);
    vram_segments_give(&pool, large);
    vram_segments_give(&pool, second);
    vram_segments_give(&pool, first);
    CHECK(take(23.5) == first, "the first of two");
    CHECK(take(22) == second, "the second, cut");
    CHECK(take(2) == pool.block[second].behind, "what is left of it");
    CHECK(take(16) == large && fence != large, "the large one at last");
    CHECK(same(pool.reserved, 104 * MIB), "nothing new: %g", pool.reserved / MIB);
}

TEST(segments_join, "segments: free neighbours are one block, tensors of other segments are no neighbours")
{
    vram_segments_clear(&pool, 0);
    short a = take(6), b = take(6), c = take(6);
    take(20);
    vram_segments_give(&pool, a);
    vram_segments_give(&pool, c);
    CHECK(same(pool.whole, 0), "one is in use: %g", pool.whole / MIB);
    take(7);
    CHECK(same(pool.reserved, 40 * MIB), "8 MiB behind the second: %g", pool.reserved / MIB);
    vram_segments_give(&pool, b);
    take(12);
    CHECK(same(pool.reserved, 40 * MIB), "12 MiB before it: %g", pool.reserved / MIB);
}

TEST(segments_driver, "segments: when the driver has no more, segments without a tensor go back, and only they")
{
    vram_segments_clear(&pool, 100 * MIB);
    short a = take(40), b = take(40);
    vram_segments_keep(&pool, 8 * MIB, 0);
    vram_segments_give(&pool, a);
    take(60);
    CHECK(same(pool.reserved, 120 * MIB) && same(pool.asked, 120 * MIB), "40 are in use, 20 hold 8: %g", pool.asked / MIB);
    vram_segments_clear(&pool, 130 * MIB);
    a = take(40);
    b = take(40);
    vram_segments_keep(&pool, 8 * MIB, 0);
    vram_segments_give(&pool, a);
    take(60);
    CHECK(same(pool.reserved, 120 * MIB) && same(pool.asked, 0), "40 went back: %g", pool.reserved / MIB);
    vram_segments_give(&pool, b);
    CHECK(same(pool.most, 120 * MIB), "%g", pool.most / MIB);
}

TEST(segments_streams, "segments: a block serves the stream that it was made for; small tensors have segments of their own")
{
    vram_segments_clear(&pool, 0);
    vram_segments_give(&pool, vram_segments_take(&pool, 30 * MIB, 1));
    vram_segments_give(&pool, vram_segments_take(&pool, 30 * MIB, 0));
    vram_segments_give(&pool, vram_segments_take(&pool, 30 * MIB, 1));
    CHECK(same(pool.reserved, 60 * MIB) && same(pool.whole, 60 * MIB), "%g", pool.reserved / MIB);
    vram_segments_small(&pool, 3 * MIB);
    vram_segments_small(&pool, -3 * MIB);
    CHECK(same(pool.most, 64 * MIB) && same(pool.most_used, 30 * MIB), "%g %g", pool.most / MIB, pool.most_used / MIB);
}

TEST(segments_full, "segments: with more blocks than there is room for nothing is cut any more, and the list says that it is full")
{
    vram_segments_clear(&pool, 0);
    short large = take(100);
    while (pool.blocks < VRAM_SEGMENTS_BLOCKS) take(12); /* a segment each */
    vram_segments_give(&pool, large);
    CHECK(!pool.full, "%d blocks have room", pool.blocks);
    CHECK(take(10) == large && pool.full, "its rest has none");
    CHECK(pool.sizes == 0 && take(10) == VRAM_NO_BLOCK, "and no size is left without a block: %d", pool.sizes);
}

/* Training with the settings at hand, recorded; false: refused */
static bool record(vram_json *json, const char *training, vram_steps *steps)
{
    static vram_scenario scenario;
    static vram_report report;
    char text[512];
    vram_error error;
    snprintf(text, sizeof text, "{\"task\":\"training\",\"model\":\"qwen2.5-0.5b\",\"training\":{%s}}", training);
    cJSON *tree = cJSON_Parse(text);
    bool done = vram_json_scenario_read(json, tree, &scenario, &(vram_json_configs){0}, &error);
    cJSON_Delete(tree);
    memset(&report, 0, offsetof(vram_report, entry));
    report.phases = VRAM_PHASES_TRAINING;
    if (done) vram_training(&scenario, steps, &report);
    return done;
}

TEST(segments_record, "segments: whatever the head does, the record of each piece says where its parts begin, one behind the other")
{
    static const char *const cases[] = {
        "\"clip\":0", "\"clip\":1", "\"clip\":1,\"micro_batch\":2", "\"clip\":1,\"autocast\":true", "\"clip\":1,\"precision\":\"amp\"", "\"loss\":\"inplace\"", "\"loss\":\"chunked\"",
        "\"loss\":\"fused\"", "\"loss\":\"tiled\"", "\"clip\":1,\"checkpointing\":\"full\"", "\"clip\":1,\"method\":\"lora\"",
    };
    static vram_steps steps;
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    for (int i = 0; i < COUNT(cases); i++) {
        memset(&steps, 0xff, sizeof steps);
        CHECK(record(json, cases[i], &steps) && !steps.full && steps.pieces > 0, "%s", cases[i]);
        for (int k = 0; k < steps.pieces; k++) {
            const vram_recorded *r = &steps.piece[k];
            CHECK(r->event[VRAM_PART_FORWARD] == (k > 0 ? r[-1].event[VRAM_PART_END] : 0), "%s: piece %d begins where that before it ends", cases[i], k);
            for (int part = 1; part < VRAM_PARTS; part++) CHECK(r->event[part] >= r->event[part - 1], "%s: part %d of piece %d", cases[i], part, k);
        }
    }
    vram_json_close(json);
}

typedef struct { const char *scenario; double reserved; } reserved_row;

static void check_reserved(const reserved_row rows[], int count)
{
    for (int i = 0; i < count; i++) {
        double most = 0;
        for (int p = VRAM_PHASE_LOAD; p <= VRAM_PHASE_STEP; p++) most = vram_max(most, test_alive(rows[i].scenario, (vram_phase)p, ~VRAM_BIT(VRAM_COMPONENT_CONTEXT)));
        CHECK(most > rows[i].reserved * 0.9998 && most < rows[i].reserved * 1.0002, "%d: %.4f %% away", i, 100 * (most / rows[i].reserved - 1));
    }
}

/* What PyTorch 2 had reserved after two steps, by torch.cuda.memory_reserved: rows full-0109, full-0112, full-0220 and lora-0230 of measured/dry_run.jsonl. They hang on
 * what the making of masks leaves behind. */
TEST(segments_masks, "segments: masks and positions are made before the first layer, and what that leaves is found by its tensors")
{
    static const reserved_row rows[] = {
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"mistral-7b-v0.1\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":4096,\"micro_batch\":1,\"checkpointing\":\"full\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"for-loop\"}}", 60137930752},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"mistral-7b-v0.1\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":8192,\"micro_batch\":2,\"checkpointing\":\"full\",\"attention\":\"sdpa\",\"optimizer\":\"lion-8bit\",\"optimizer_impl\":\"for-loop\"}}", 42872078336},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"phi-3-mini-4k-instruct\",\"training\":{\"method\":\"full\",\"precision\":\"amp\",\"sequence_length\":2048,\"micro_batch\":8,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adafactor\",\"optimizer_impl\":\"for-loop\"}}", 120728846336},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"phi-3-mini-4k-instruct\",\"weights\":\"bf16\",\"training\":{\"method\":\"lora\",\"precision\":\"bf16\",\"autocast\":false,\"sequence_length\":2048,\"micro_batch\":4,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw-8bit\",\"optimizer_impl\":\"for-loop\"},\"lora\":{\"rank\":8,\"targets\":\"all-linear\",\"dtype\":\"bf16\"}}", 51608813568},
    };
    check_reserved(rows, COUNT(rows));
}

/* Rows full-0003 and lora-0422 of measured/dry_run.jsonl */
TEST(segments_input, "segments: the model holds a layer's input until it has the output")
{
    static const reserved_row rows[] = {
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen3-0.6b\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":4096,\"micro_batch\":1,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"foreach\"}}", 23465033728},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"gemma-3-1b\",\"weights\":\"bf16\",\"training\":{\"method\":\"lora\",\"precision\":\"bf16\",\"autocast\":true,\"sequence_length\":2048,\"micro_batch\":8,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"foreach\"},\"lora\":{\"rank\":128,\"targets\":\"all-linear\",\"dtype\":\"bf16\"}}", 120288444416},
    };
    check_reserved(rows, COUNT(rows));
}

/* Measured the same way. The table is tied, the first time under autocast: the head's gradient is what the embedding's is added to, and stays. */
TEST(segments_buckets, "segments: DDP's buckets, one at first, then of 25 MiB; the gradients beside them, or in them")
{
    static const reserved_row rows[] = {
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"method\":\"full\",\"precision\":\"amp\",\"sequence_length\":1024,\"micro_batch\":2,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adafactor\",\"optimizer_impl\":\"for-loop\"},\"parallel\":{\"engine\":\"ddp\",\"data\":4,\"bucket_view\":false}}", 14277410816},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":2048,\"micro_batch\":1,\"checkpointing\":\"full\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"fused\"},\"parallel\":{\"engine\":\"ddp\",\"data\":4,\"bucket_view\":true}}", 7849639936},
    };
    check_reserved(rows, COUNT(rows));
}

/* Measured the same way */
TEST(segments_flat, "segments: FSDP 1's flat parameters and gradients, each in its stream, and what preparing them leaves behind")
{
    static const reserved_row rows[] = {
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen3-1.7b\",\"training\":{\"method\":\"full\",\"precision\":\"mixed\",\"autocast\":true,\"sequence_length\":2048,\"micro_batch\":1,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"foreach\"},\"parallel\":{\"engine\":\"fsdp1\",\"data\":4,\"zero\":3}}", 20753416192},
    };
    check_reserved(rows, COUNT(rows));
}

/* Measured the same way: rows of documents, whose masks transformers makes; and a step of ten micro-batches, which reserves what one of three does */
TEST(segments_packed, "segments: a packed row's mask is made of one boolean more; micro-batches after the third ask for nothing")
{
    static const reserved_row rows[] = {
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":8192,\"micro_batch\":1,\"packing\":\"bfd\",\"checkpointing\":\"full\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"fused\"}}", 24308088832},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":1024,\"micro_batch\":2,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"foreach\",\"gradient_accumulation\":3}}", 12264144896},
        {"{\"task\":\"training\",\"gpu\":\"a100-80gb\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"method\":\"full\",\"precision\":\"bf16\",\"sequence_length\":1024,\"micro_batch\":2,\"checkpointing\":\"none\",\"attention\":\"sdpa\",\"optimizer\":\"adamw\",\"optimizer_impl\":\"foreach\",\"gradient_accumulation\":10}}", 12264144896},
    };
    check_reserved(rows, COUNT(rows));
}
