/* Configs of many families: what is in a layer, how many values LoRA adds, and what is refused. Worked by hand. */
#include "test.h"

#include "json/json.h"

#include <stdio.h>
#include <string.h>

static vram_model model;
static vram_error error;

static bool read_config(const char *text)
{
    cJSON *tree = vram_json_parse(text, strlen(text), &error);
    bool done = tree && vram_config_read(tree, &model, &error);
    cJSON_Delete(tree);
    return done;
}

/* small sizes that most families share; a case adds what is its own */
#define SMALL "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"vocab_size\":100,\"intermediate_size\":96,\"tie_word_embeddings\":true"

TEST(config_counts, "configs: parameters by hand")
{
    static const struct { const char *name, *config; double params; } cases[] = {
        /* 100*64 + 64 + 4 layers of (4*64*64 + 3*64*96 + 2*64) */
        {"plain", "{\"model_type\":\"llama\"," SMALL "}", 6400 + 64 + 4 * (16384 + 18432 + 128)},
        /* biases: 4*64 for q k v o, 96 + 96 + 64 for the MLP */
        {"with its biases", "{\"model_type\":\"llama\"," SMALL ",\"attention_bias\":true,\"mlp_bias\":true}", 6400 + 64 + 4 * (16384 + 18432 + 128 + 256 + 256)},
        /* k and v of 2 heads of 16; biases on q (64), k, v (32 each) */
        {"Qwen2", "{\"model_type\":\"qwen2\"," SMALL ",\"num_key_value_heads\":2}", 6400 + 64 + 4 * (2 * 4096 + 2 * 2048 + 128 + 18432 + 128)},
        /* heads of 32: 4*64*128; two norms of 32; */
        {"Qwen3", "{\"model_type\":\"qwen3\"," SMALL ",\"num_key_value_heads\":4,\"head_dim\":32}", 6400 + 64 + 4 * (4 * 8192 + 64 + 18432 + 128)},
        /* four norms a layer */
        {"Gemma 2", "{\"model_type\":\"gemma2\"," SMALL ",\"num_key_value_heads\":4,\"head_dim\":16}", 6400 + 64 + 4 * (16384 + 18432 + 256)},
        /* one norm a layer, weights only; tied when nothing is said */
        {"Cohere", "{\"model_type\":\"cohere\"," SMALL "}", 6400 + 64 + 4 * (16384 + 18432 + 64)},
        /* latent: q 64*8 + 8 + 8*4*(12+4), kv 64*(6+4) + 6 + 6*4*(12+16), o 4*16*64; layer 0 dense; 3 layers of 5 experts 3*64*20, a router 5*64, a shared 3*64*20 and 5 corrections */
        {"DeepSeek-V3", "{\"model_type\":\"deepseek_v3\"," SMALL ",\"q_lora_rank\":8,\"kv_lora_rank\":6,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":4,\"v_head_dim\":16,"
         "\"n_routed_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":20,\"n_shared_experts\":1,\"first_k_dense_replace\":1}",
         6400 + 64 + 4 * (512 + 8 + 512 + 640 + 6 + 672 + 4096 + 128) + 18432 + 3 * (5 * 3840 + 320 + 3840 + 5)},
        /* layers 0 1 2 DeltaNet: in 2*8 + 2*16 and 2*4 rows of 64, conv 32*4, A and dt 4 each, norm 4, out 16*64; layer 3 attends, q twice as wide, q/k norms of 16 */
        {"Qwen3-Next's layers", "{\"model_type\":\"qwen3_5_text\"," SMALL ",\"num_key_value_heads\":2,\"head_dim\":16,\"linear_num_key_heads\":2,\"linear_key_head_dim\":4,\"linear_num_value_heads\":4,\"linear_value_head_dim\":4}",
         6400 + 64 + 4 * (18432 + 128) + 3 * (48 * 64 + 8 * 64 + 128 + 8 + 4 + 1024) + (8192 + 2 * 2048 + 4096 + 32)},
        /* in 2*128 + 2*8 + 4 rows, conv (128+16)*4 + 144, A D dt 4 each, norm 128, out 128*64, one norm */
        {"Mamba-2", "{\"model_type\":\"mamba2\",\"hidden_size\":64,\"num_hidden_layers\":4,\"vocab_size\":100,\"tie_word_embeddings\":true,\"num_heads\":4,\"head_dim\":32,\"state_size\":8,\"n_groups\":1}",
         6400 + 64 + 4 * (276 * 64 + 576 + 144 + 12 + 128 + 8192 + 64)},
        /* letters: Mamba-2, MLP (up and down), attention; a norm each; the head is never tied */
        {"Nemotron-H", "{\"model_type\":\"nemotron_h\"," SMALL ",\"num_key_value_heads\":4,\"head_dim\":16,\"hybrid_override_pattern\":\"M-*\",\"mamba_num_heads\":4,\"mamba_head_dim\":32,\"ssm_state_size\":8,\"n_groups\":1}",
         2 * 6400 + 64 + (276 * 64 + 576 + 144 + 12 + 128 + 8192) + 2 * 64 * 96 + 16384 + 3 * 64},
        /* the language model's part of a multimodal file; the tie stands outside */
        {"nested", "{\"model_type\":\"gemma3\",\"tie_word_embeddings\":true,\"text_config\":{\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":100,\"intermediate_size\":96}}",
         6400 + 64 + 4 * (16384 + 18432 + 256 + 32)},
        {"nested twice", "{\"model_type\":\"qwen2_5_omni\",\"thinker_config\":{\"text_config\":{\"model_type\":\"qwen2_5_omni_text\"," SMALL ",\"num_key_value_heads\":4}}}", 6400 + 64 + 4 * (16384 + 192 + 18432 + 128)},
        {"a limit that is none, as Python writes it", "{\"model_type\":\"llama\"," SMALL ",\"time_step_limit\":[0.0, Infinity]}", 6400 + 64 + 4 * (16384 + 18432 + 128)},
        {"a type nobody knows, with Llama's keys", "{\"model_type\":\"new-thing\"," SMALL "}", 6400 + 64 + 4 * (16384 + 18432 + 128)},
        {"declared", "{\"params\":7e9}", 7e9},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(read_config(cases[i].config), "%s: refused at %s", cases[i].name, error.path);
        CHECK(same(vram_params_total(&model), cases[i].params), "%s: %.0f, not %.0f", cases[i].name, vram_params_total(&model), cases[i].params);
    }
    CHECK(read_config("{\"model_type\":\"new-thing\"," SMALL "}") && model.counted_as_llama, "not said to be a guess");
}

/* One letter a layer: f full, s window, c chunk, m state, b both, - neither; capital: experts; * shares an earlier cache */
TEST(config_layers, "configs: which layer is what")
{
    static const struct { const char *config, *layers; } cases[] = {
        {"{\"model_type\":\"mistral\"," SMALL ",\"sliding_window\":8}", "ssss"},
        {"{\"model_type\":\"mistral\"," SMALL ",\"sliding_window\":null}", "ffff"},
        {"{\"model_type\":\"qwen2\"," SMALL ",\"sliding_window\":8,\"max_window_layers\":2}", "ffff"},
        {"{\"model_type\":\"qwen2\"," SMALL ",\"sliding_window\":8,\"max_window_layers\":2,\"use_sliding_window\":true}", "ffss"},
        {"{\"model_type\":\"gemma2\"," SMALL "}", "sfsf"},
        {"{\"model_type\":\"gemma3_text\"," SMALL ",\"sliding_window_pattern\":3}", "ssfs"},
        {"{\"model_type\":\"cohere2\"," SMALL "}", "sssf"},
        {"{\"model_type\":\"llama4_text\"," SMALL ",\"interleave_moe_layer_step\":2}", "cCcF"},
        {"{\"model_type\":\"qwen3_moe\"," SMALL ",\"mlp_only_layers\":[1]}", "FfFF"},
        {"{\"model_type\":\"jamba\"," SMALL ",\"attn_layer_period\":4,\"attn_layer_offset\":1}", "mFmM"},
        {"{\"model_type\":\"falcon_h1\"," SMALL "}", "bbbb"},
        {"{\"model_type\":\"nemotron_h\",\"hybrid_override_pattern\":\"M-*E\"}", "m-f="},
        {"{\"model_type\":\"kimi_linear\"," SMALL ",\"linear_attn_config\":{\"full_attn_layers\":[4],\"kda_layers\":[1,2,3]},\"first_k_dense_replace\":1}", "mMMF"},
        {"{\"model_type\":\"gemma3n_text\"," SMALL ",\"num_kv_shared_layers\":1,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"full_attention\",\"full_attention\"]}", "sff*"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char seen[VRAM_MAX_LAYERS + 1] = "";
        CHECK(read_config(cases[i].config), "%s: refused at %s", cases[i].config, error.path);
        for (int64_t n = 0; n < model.layers; n++) {
            const vram_layer *l = &model.kind[model.layer_kind[n]];
            bool attends = l->attention.type != VRAM_MIXER_NONE, stateful = l->state.type != VRAM_STATE_NONE, sparse = l->ffn.experts > 0;
            char c = attends && stateful ? 'b' : stateful ? 'm' : !attends ? (sparse ? '=' : '-') : l->attention.shares_cache ? '*' : l->attention.chunked ? 'c' : l->attention.window ? 's' : 'f';
            seen[n] = (char)(sparse && c >= 'a' ? c - 32 : c);
        }
        CHECK(strcmp(seen, cases[i].layers) == 0, "%s: %s, not %s", cases[i].config, seen, cases[i].layers);
    }
}

TEST(config_lora, "configs: values that LoRA adds")
{
    static const struct { const char *name, *config; int targets; int64_t rank; bool dora; double values; } cases[] = {
        /* 32 layers, two projections of 4096 -> 4096, rank 8 */
        {"Llama 2 7B, q and v", "{\"model_type\":\"llama\"}", VRAM_LORA_TARGETS_QV, 8, false, 32 * 2 * 8 * 8192},
        /* q, k, v, o of 64: 4 * 128 a rank; gate, up, down: 3 * 160 */
        {"every linear layer", "{\"model_type\":\"llama\"," SMALL "}", VRAM_LORA_TARGETS_ALL_LINEAR, 2, false, 4 * 2 * (512 + 480)},
        /* and a magnitude for each output: 4 * 64 + 96 + 96 + 64 */
        {"with DoRA", "{\"model_type\":\"llama\"," SMALL "}", VRAM_LORA_TARGETS_ALL_LINEAR, 2, true, 4 * (2 * (512 + 480) + 512)},
        {"fused attention", "{\"model_type\":\"phi3\"," SMALL "}", VRAM_LORA_TARGETS_ATTENTION, 2, false, 4 * 2 * (64 + 192 + 128)},
        {"no q_proj in a fused one", "{\"model_type\":\"phi3\"," SMALL "}", VRAM_LORA_TARGETS_QV, 2, false, 0},
        /* stacked experts are reached by their old names: gate and up at twice the rank (facts of peft 0.21) */
        {"Mixtral 8x22B", "{\"model_type\":\"mixtral\",\"hidden_size\":6144,\"intermediate_size\":16384,\"num_hidden_layers\":56,\"num_attention_heads\":48,\"num_key_value_heads\":8,\"vocab_size\":32000}", VRAM_LORA_TARGETS_ALL_LINEAR, 16, false, 759700480},
        {"DeepSeek-V3", "{\"model_type\":\"deepseek_v3\"}", VRAM_LORA_TARGETS_ALL_LINEAR, 16, false, 7645254656.0},
    };
    static vram_scenario scenario;
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(read_config(cases[i].config), "%s: refused at %s", cases[i].name, error.path);
        scenario.lora.targets = cases[i].targets;
        scenario.lora.rank = cases[i].rank;
        scenario.lora.dora = cases[i].dora;
        CHECK(same(vram_lora_params(&scenario, &model), cases[i].values), "%s: %.0f, not %.0f", cases[i].name, vram_lora_params(&scenario, &model), cases[i].values);
    }
}

TEST(config_refusals, "configs: what is refused, and where")
{
    static const struct { const char *config; vram_error_code code; const char *path; } cases[] = {
        {"[]", VRAM_ERROR_TYPE, "model"},
        {"{}", VRAM_ERROR_MISSING, "model.hidden_size"},
        {"{\"model_type\":\"new-thing\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"intermediate_size\":96}", VRAM_ERROR_MISSING, "model.vocab_size"},
        {"{\"model_type\":\"new-thing\"," SMALL ",\"num_experts\":8}", VRAM_ERROR_UNSUPPORTED, "model.num_experts"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":0}", VRAM_ERROR_RANGE, "model.num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":1e30}", VRAM_ERROR_RANGE, "model.num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":2.5}", VRAM_ERROR_TYPE, "model.num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_hidden_layers\":\"32\"}", VRAM_ERROR_TYPE, "model.num_hidden_layers"},
        {"{\"model_type\":\"llama\",\"num_key_value_heads\":64}", VRAM_ERROR_RANGE, "model.num_key_value_heads"},
        {"{\"model_type\":\"llama\",\"hidden_size\":16}", VRAM_ERROR_CONFLICT, "model.num_attention_heads"},
        {"{\"model_type\":\"llama\",\"layer_types\":[\"full_attention\"]}", VRAM_ERROR_CONFLICT, "model.layer_types"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":-1}", VRAM_ERROR_RANGE, "model.n_embd"},
        {"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":-1}}", VRAM_ERROR_RANGE, "model.text_config.hidden_size"},
        {"{\"model_type\":\"mixtral\",\"num_experts_per_tok\":9}", VRAM_ERROR_RANGE, "model.num_experts_per_tok"},
        {"{\"params\":1e30}", VRAM_ERROR_RANGE, "model.params"},
        /* encoders have Llama's keys, too */
        {"{\"model_type\":\"bert\"," SMALL ",\"type_vocab_size\":2}", VRAM_ERROR_UNSUPPORTED, "model.type_vocab_size"},
        {"{\"model_type\":\"xlm-roberta\"," SMALL "}", VRAM_ERROR_UNSUPPORTED, "model.model_type"},
        {"{\"model_type\":\"new-thing\"," SMALL ",\"architectures\":[\"NewThingForMaskedLM\"]}", VRAM_ERROR_UNSUPPORTED, "model.model_type"},
        {"{\"model_type\":\"t5\"," SMALL ",\"is_encoder_decoder\":true}", VRAM_ERROR_UNSUPPORTED, "model.is_encoder_decoder"},
        {"{\"model_type\":\"chatglm\",\"inner_hidden_size\":16384}", VRAM_ERROR_UNSUPPORTED, "model.inner_hidden_size"},
        /* what should be a list, an object, a number, and is not */
        {"{\"model_type\":\"qwen3\",\"layer_types\":\"full_attention\"}", VRAM_ERROR_TYPE, "model.layer_types"},
        {"{\"model_type\":\"gemma3\",\"text_config\":[1]}", VRAM_ERROR_TYPE, "model.text_config"},
        {"{\"model_type\":\"kimi_linear\",\"linear_attn_config\":1}", VRAM_ERROR_TYPE, "model.linear_attn_config.num_heads"},
        {"{\"model_type\":\"mimo_v2_flash\",\"num_hidden_layers\":1,\"hybrid_layer_pattern\":[\"a\"]}", VRAM_ERROR_TYPE, "model.hybrid_layer_pattern"},
        {"{\"model_type\":\"nemotron-nas\",\"num_hidden_layers\":1,\"block_configs\":[{}]}", VRAM_ERROR_MISSING, "model.block_configs.attention"},
        {"{\"model_type\":\"llama\",\"hidden_size\":null}", VRAM_ERROR_MISSING, "model.hidden_size"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(!read_config(cases[i].config), "%s: taken", cases[i].config);
        CHECK(error.code == cases[i].code && strcmp(error.path, cases[i].path) == 0, "%s: %s at %s", cases[i].config, vram_name(VRAM_LIST_ERROR, (int)error.code), error.path);
    }
}

/* four layers of q, k, v, o and gate, up, down: 28 matrices */
TEST(config_quantization, "configs: stored formats, and what they leave in 16 bit")
{
#define WEIGHTS(what) "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{" what "}}}"
    static const struct { const char *quantization, *format; int64_t group, bits, kept; } cases[] = {
        {"\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64", "awq-int4-g128", 64, 4, 0},
        {"\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":-1,\"modules_to_not_convert\":[\"down_proj\"]", "gptq-int4", -1, 3, 4},
        {"\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true,\"llm_int8_skip_modules\":[\"lm_head\"]", "nf4", -1, 8, 0},
        {"\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_use_double_quant\":true", "nf4-dq", 0, 0, 0},
        {"\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"modules_to_not_convert\":[\"lm_head\",\"model.layers.0.mlp.gate\",\"model.layers.0.mlp.up_proj\",\"model.layers.2.self_attn\",\"model.layers.2.self_attn.q_proj\"]", "fp8-block128", 0, 0, 5},
        {"\"quant_method\":\"fbgemm_fp8\",\"modules_to_not_convert\":[\"model.layers.3\"]", "fp8-dynamic", -1, 0, 7},
        {"\"quant_method\":\"compressed-tensors\",\"ignore\":[\"lm_head\",\"re:.*self_attn.*\",\"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*\"]," WEIGHTS("\"num_bits\":4,\"type\":\"int\",\"group_size\":32"), "gptq-int4-g128", 32, 4, 28},
        {"\"quant_method\":\"compressed-tensors\",\"ignore\":[\"re:model\\\\.layers\\\\.(0|3)\\\\.mlp.*\"]," WEIGHTS("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\""), "fp8-dynamic", -1, 0, 6},
        {"\"quant_method\":\"compressed-tensors\",\"ignore\":[\"re:.*o_proj$\"]," WEIGHTS("\"num_bits\":4,\"type\":\"float\",\"group_size\":16"), "nvfp4", 0, 0, 4},
        {"\"quant_method\":\"compressed-tensors\"," WEIGHTS("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\""), "fp8-block128", 0, 0, 0},
        {"\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"ignore\":[\"lm_head\",\"language_model.model.layers.1*\",\"model.layers.2.self_attn*\"]", "nvfp4", 0, 0, 11},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char text[1024];
        int64_t kept = 0;
        snprintf(text, sizeof text, "{\"model_type\":\"llama\"," SMALL ",\"quantization_config\":{%s}}", cases[i].quantization);
        CHECK(read_config(text), "%s: refused at %s", text, error.path);
        for (int t = 0; t < model.tensors; t++) kept += model.tensor[t].kept;
        CHECK(strcmp(vram_name(VRAM_LIST_FORMAT, model.native), cases[i].format) == 0 && !model.native_unknown, "%s: %s", text, vram_name(VRAM_LIST_FORMAT, model.native));
        CHECK(model.native_group == cases[i].group && model.native_bits == cases[i].bits, "%s: groups of %d, %d bits", text, (int)model.native_group, (int)model.native_bits);
        CHECK(kept == cases[i].kept, "%s: %d of 28 matrices kept", text, (int)kept);
    }
    CHECK(read_config("{\"model_type\":\"llama\"," SMALL ",\"quantization_config\":{\"quant_method\":\"aqlm\"}}") && model.native_unknown, "a format that is not known, taken for one that is");
}
