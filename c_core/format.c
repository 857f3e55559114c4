/* format.c -- how stored numbers weigh: one table of every format that weights and caches can have.
 *
 * A row says what a block of quantised numbers weighs, which numbers share a scale (and a zero point), and by `scheme` which tensors
 * the format leaves alone: weights.c reads that. Sources: GPTQ's and AWQ's packed layouts (AutoGPTQ, AutoAWQ, GPTQModel), bitsandbytes
 * (functional.py, quantize_4bit), DeepSeek-V3's and compressed-tensors' checkpoints, OCP's microscaling formats, ggml-common.h.
 *
 * A format gguf:X is a *file*: llama-quantize picks a type for each of its tensors (gguf.c). The type of ggml that most get stands here. */
#include "core.h"

#define GGML_ROW(NAME, id, block, bytes) {id, block, bytes},
static const vram_ggml_row ggml[VRAM_GGML_COUNT] = {VRAM_GGML_TYPES(GGML_ROW)};

const vram_ggml_row *vram_ggml_get(vram_ggml_type type) { return &ggml[type]; }

double vram_ggml_bytes(vram_ggml_type type, double numbers) { return numbers / ggml[type].block * ggml[type].bytes; }

/* every weight alike, nothing beside it */
#define DTYPE(name, bytes, bits_, is_cache, is_weights) {.id = name, .block = 1, .block_bytes = bytes, .bits = bits_, .cache = is_cache, .weights = is_weights, .dtype = true}
/* linear layers in `block` weights of `bytes`, a scale and a zero for each group of them */
#define SCHEME(name, kind, weights_, bytes, bits_, group_, scale, zero)                                                                     \
    {.id = name, .block = weights_, .block_bytes = bytes, .bits = bits_, .weights = true, .scheme = kind, .group = group_,            \
     .scale_bytes = scale, .zero_bytes = zero}
#define CACHE(name, bits_, bytes) {.id = name, .block = 32, .block_bytes = bytes, .bits = bits_, .cache = true}
/* a file: most of its tensors are of one type of ggml */
#define GGUF(name, type, bits_) {.id = "gguf:" name, .bits = bits_, .weights = true, .scheme = VRAM_SCHEME_GGUF, .ggml = VRAM_GGML_##type}
#define GGUF_MIX(name, type, bits_, mix_) {.id = "gguf:" name, .bits = bits_, .weights = true, .scheme = VRAM_SCHEME_GGUF, .ggml = VRAM_GGML_##type, .mix = VRAM_MIX_##mix_}

static const vram_format_row formats[] = {
    [VRAM_FORMAT_BF16] = DTYPE("bf16", 2, 16, true, true),
    [VRAM_FORMAT_FP16] = DTYPE("fp16", 2, 16, true, true),
    [VRAM_FORMAT_FP32] = DTYPE("fp32", 4, 32, true, true),
    [VRAM_FORMAT_FP8] = DTYPE("fp8", 1, 8, true, true),
    [VRAM_FORMAT_INT8] = DTYPE("int8", 1, 8, true, true),
    [VRAM_FORMAT_INT4] = {.id = "int4", .block = 2, .block_bytes = 1, .bits = 4, .weights = true, .dtype = true}, /* two in a byte */
    [VRAM_FORMAT_NATIVE] = {.id = "native", .block = 1, .block_bytes = 2, .bits = 16, .weights = true, .scheme = VRAM_SCHEME_NATIVE},
    /* GPTQ: 32-bit words of packed weights, 16-bit scales and packed zeros a group, an int32 for each input row */
    [VRAM_FORMAT_GPTQ_INT4_G128] = SCHEME("gptq-int4-g128", VRAM_SCHEME_GPTQ, 8, 4, 4, 128, 2, 0.5),
    [VRAM_FORMAT_GPTQ_INT4_G32] = SCHEME("gptq-int4-g32", VRAM_SCHEME_GPTQ, 8, 4, 4, 32, 2, 0.5),
    [VRAM_FORMAT_GPTQ_INT4] = SCHEME("gptq-int4", VRAM_SCHEME_GPTQ, 8, 4, 4, VRAM_GROUP_ROW, 2, 0.5),
    [VRAM_FORMAT_GPTQ_INT8_G128] = SCHEME("gptq-int8-g128", VRAM_SCHEME_GPTQ, 4, 4, 8, 128, 2, 1),
    [VRAM_FORMAT_AWQ_INT4_G128] = SCHEME("awq-int4-g128", VRAM_SCHEME_AWQ, 8, 4, 4, 128, 2, 0.5),
    /* bitsandbytes: an fp32 maximum for 64 weights; double quantisation: one byte, and fp32 for 256 of those */
    [VRAM_FORMAT_NF4] = SCHEME("nf4", VRAM_SCHEME_NF4, 2, 1, 4, 64, 4, 0),
    [VRAM_FORMAT_NF4_DQ] = SCHEME("nf4-dq", VRAM_SCHEME_NF4_DQ, 2, 1, 4, 64, 1, 0),
    /* DeepSeek-V3: an fp32 scale for 128 x 128 weights */
    [VRAM_FORMAT_FP8_BLOCK128] = SCHEME("fp8-block128", VRAM_SCHEME_FP8_BLOCK, 1, 1, 8, 128, 4, 0),
    [VRAM_FORMAT_FP8_DYNAMIC] = SCHEME("fp8-dynamic", VRAM_SCHEME_FP8_TENSOR, 1, 1, 8, VRAM_GROUP_TENSOR, 4, 0),
    /* OCP microscaling: a shared exponent for 32; NVIDIA's: an fp8 scale for 16 and an fp32 one a tensor */
    [VRAM_FORMAT_MXFP4] = SCHEME("mxfp4", VRAM_SCHEME_MXFP4, 2, 1, 4, 32, 1, 0),
    [VRAM_FORMAT_NVFP4] = SCHEME("nvfp4", VRAM_SCHEME_NVFP4, 2, 1, 4, 16, 1, 0),
    /* types of llama.cpp's cache */
    CACHE("q8_0", 8, 34), CACHE("q5_1", 5, 24), CACHE("q5_0", 5, 22), CACHE("q4_1", 4, 20), CACHE("q4_0", 4, 18), CACHE("iq4_nl", 4, 18),
    /* llama-quantize */
    [VRAM_FORMAT_GGUF_F32] = GGUF("F32", F32, 32), [VRAM_FORMAT_GGUF_F16] = GGUF("F16", F16, 16), [VRAM_FORMAT_GGUF_BF16] = GGUF("BF16", BF16, 16), GGUF("Q8_0", Q8_0, 8),
    GGUF("Q6_K", Q6_K, 6), GGUF_MIX("Q5_K_M", Q5_K, 5, Q5_K_M), GGUF("Q5_K_S", Q5_K, 5), GGUF_MIX("Q5_K", Q5_K, 5, Q5_K_M), GGUF("Q5_1", Q5_1, 5), GGUF_MIX("Q5_0", Q5_0, 5, Q5_0),
    GGUF_MIX("Q4_K_M", Q4_K, 4, Q4_K_M), GGUF_MIX("Q4_K_S", Q4_K, 4, Q4_K_S), GGUF_MIX("Q4_K", Q4_K, 4, Q4_K_M), GGUF("Q4_1", Q4_1, 4), GGUF_MIX("Q4_0", Q4_0, 4, Q4_0),
    GGUF_MIX("IQ4_NL", IQ4_NL, 4, IQ4_NL), GGUF_MIX("IQ4_XS", IQ4_XS, 4, IQ4_XS), GGUF_MIX("MXFP4_MOE", MXFP4, 4, MXFP4_MOE), GGUF("MXFP4", MXFP4, 4), GGUF("NVFP4", NVFP4, 4),
    GGUF_MIX("Q3_K_L", Q3_K, 3, Q3_K_L), GGUF_MIX("Q3_K_M", Q3_K, 3, Q3_K_M), GGUF_MIX("Q3_K_S", Q3_K, 3, Q3_K_S), GGUF_MIX("Q3_K", Q3_K, 3, Q3_K_M),
    GGUF_MIX("IQ3_M", IQ3_S, 3, IQ3_M), GGUF_MIX("IQ3_S", IQ3_S, 3, IQ3_S), GGUF_MIX("IQ3_XS", IQ3_S, 3, IQ3_XS), GGUF_MIX("IQ3_XXS", IQ3_XXS, 3, IQ3_XXS),
    GGUF_MIX("Q2_K", Q2_K, 2, Q2_K), GGUF_MIX("Q2_K_S", Q2_K, 2, Q2_K_S), GGUF_MIX("IQ2_M", IQ2_S, 2, IQ2_M), GGUF_MIX("IQ2_S", IQ2_XS, 2, IQ2_S),
    GGUF_MIX("IQ2_XS", IQ2_XS, 2, IQ2_XS), GGUF_MIX("IQ2_XXS", IQ2_XXS, 2, IQ2_XXS), GGUF_MIX("TQ2_0", TQ2_0, 2, TQ), GGUF_MIX("TQ1_0", TQ1_0, 1, TQ), GGUF_MIX("Q2_0", Q2_0, 2, TQ),
    GGUF_MIX("IQ1_M", IQ1_M, 1, IQ1_M), GGUF_MIX("IQ1_S", IQ1_S, 1, IQ1_S), GGUF("Q1_0", Q1_0, 1),
};

int vram_format_count(void) { return (int)(sizeof formats / sizeof *formats); }

const vram_format_row *vram_format_get(vram_format format) { return &formats[format >= 0 && format < vram_format_count() ? format : VRAM_FORMAT_BF16]; }

double vram_format_bytes(vram_format format)
{
    const vram_format_row *row = vram_format_get(format);
    return row->scheme == VRAM_SCHEME_GGUF ? vram_ggml_bytes(row->ggml, 1) : row->block_bytes / row->block;
}
