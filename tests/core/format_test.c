/* What stored numbers weigh, by hand from the formats' own definitions. */
#include "test.h"

#include "core.h"

TEST(format_plain, "formats: bytes a number of every plain and block type")
{
    static const struct { const char *id; double bytes; } cases[] = {
        {"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"int8", 1}, {"int4", 0.5},
        /* 32 numbers: 16-bit scale, and 16-bit minimum for the _1 types, and packed bits */
        {"q8_0", 34. / 32}, {"q5_1", 24. / 32}, {"q5_0", 22. / 32}, {"q4_1", 20. / 32}, {"q4_0", 18. / 32}, {"iq4_nl", 18. / 32},
        {"gguf:F16", 2}, {"gguf:BF16", 2}, {"gguf:F32", 4}, {"gguf:Q8_0", 34. / 32},
        /* 256 numbers: ggml-common.h's static_asserts */
        {"gguf:Q6_K", 210. / 256}, {"gguf:Q5_K_S", 176. / 256}, {"gguf:Q4_K_S", 144. / 256}, {"gguf:Q3_K_S", 110. / 256}, {"gguf:Q2_K", 84. / 256},
        {"gguf:IQ4_XS", 136. / 256}, {"gguf:MXFP4", 17. / 32},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        int format = vram_find(VRAM_LIST_FORMAT, cases[i].id);
        CHECK(format >= 0, "%s", cases[i].id);
        if (format >= 0) CHECK(same(vram_format_bytes(format), cases[i].bytes), "%s: %.6f", cases[i].id, vram_format_bytes(format));
    }
}

TEST(format_spec, "formats: every name of the scenario language is there")
{
    static const char *const names[] = {
        "bf16", "fp16", "fp32", "fp8", "int8", "int4", "gptq-int4-g128", "gptq-int4-g32", "awq-int4-g128", "gptq-int4", "gptq-int8-g128",
        "nf4", "nf4-dq", "fp8-block128", "fp8-dynamic", "mxfp4", "nvfp4", "native", "gguf:Q4_K_M", "gguf:MXFP4_MOE", "gguf:Q8_0", "gguf:IQ1_S",
    };
    for (int i = 0; i < COUNT(names); i++) {
        int format = vram_find(VRAM_LIST_FORMAT, names[i]);
        CHECK(format >= 0 && vram_format_get(format)->weights, "%s", names[i]);
    }
    static const char *const caches[] = {"bf16", "fp16", "fp32", "fp8", "int8", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};
    for (int i = 0; i < COUNT(caches); i++) {
        int format = vram_find(VRAM_LIST_FORMAT, caches[i]);
        CHECK(format >= 0 && vram_format_get(format)->cache, "%s", caches[i]);
    }
}

TEST(format_half_bytes, "formats: four bits are two to a byte, and the last byte is whole")
{
    double odd = vram_format_get(vram_find(VRAM_LIST_FORMAT, "int4"))->block;
    CHECK(same(odd, 2) && same(vram_ceil_div(3333, odd) * vram_format_get(vram_find(VRAM_LIST_FORMAT, "int4"))->block_bytes, 1667), "%f", odd);
}

TEST(format_sane, "formats: each weighs between a bit and four bytes")
{
    for (int i = 0; i < vram_format_count(); i++) {
        double bytes = vram_format_bytes(i);
        CHECK(bytes > 0.125 && bytes <= 4, "%s: %f", vram_format_get(i)->id, bytes);
        CHECK(vram_format_get(i)->bits > 0 && vram_format_get(i)->bits <= 32, "%s", vram_format_get(i)->id);
    }
}
