/* What was said and changes nothing is noted; what is noted so changes nothing indeed; and no preset says such a thing. */
#include "cJSON.h"
#include "core.h"
#include "json/api.h"
#include "test.h"

#include <string.h>

extern const char vram_presets[];
extern const size_t vram_presets_bytes;

static bool is_unread(const vram_report *r, const char *path)
{
    for (int i = 0; r != NULL && i < r->notes; i++)
        if (r->note[i].id == VRAM_NOTE_UNREAD_HERE && strcmp(r->note[i].path, path) == 0) return true;
    return false;
}

/* Bytes of every phase, one after the other */
static void phases_of(const char *scenario, double bytes[VRAM_PHASE_COUNT])
{
    const vram_report *r = test_report(scenario);
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) bytes[p] = r ? r->phase_bytes[p] : -1;
}

/* The same phases without the field? */
static bool changes_nothing(const char *scenario, const char *path)
{
    double with[VRAM_PHASE_COUNT], without[VRAM_PHASE_COUNT];
    cJSON *tree = cJSON_Parse(scenario), *section = tree;
    const char *dot = strchr(path, '.');
    char name[32] = "";
    if (dot) memcpy(name, path, (size_t)(dot - path));
    if (dot) section = cJSON_GetObjectItemCaseSensitive(tree, name);
    cJSON_DeleteItemFromObjectCaseSensitive(section, dot ? dot + 1 : path);
    char *less = cJSON_PrintUnformatted(tree);
    phases_of(scenario, with);
    phases_of(less, without);
    cJSON_free(less);
    cJSON_Delete(tree);
    bool equal = true;
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) equal = equal && same(with[p], without[p]);
    return equal;
}

#define TRAIN(training, more) "{\"task\":\"training\",\"model\":\"qwen2.5-0.5b\",\"training\":{" training "}" more "}"
#define SERVE(engine, more) "{\"model\":\"qwen2.5-0.5b\",\"engine\":\"" engine "\"" more "}"
#define RL(algorithm, more) "{\"task\":\"rl\",\"model\":\"qwen2.5-0.5b\",\"rl\":{\"algorithm\":\"" algorithm "\"" more "}}"

TEST(unread_said, "unread: what is said and not read is noted, and changes nothing")
{
    static const struct { const char *scenario, *path; } cases[] = {
        {TRAIN("\"method\":\"full\"", ",\"lora\":{\"rank\":64}"), "lora.rank"},
        {TRAIN("\"method\":\"full\"", ",\"lora\":{\"dora\":true}"), "lora.dora"},
        {TRAIN("\"checkpointing\":\"none\",\"checkpointing_interval\":2", ""), "training.checkpointing_interval"},
        {TRAIN("\"method\":\"full\"", ",\"context\":8192"), "context"},
        {TRAIN("\"method\":\"full\"", ",\"kv_cache_k\":\"q8_0\""), "kv_cache_k"},
        {TRAIN("\"method\":\"full\"", ",\"speculative\":{\"mtp_tokens\":2}"), "speculative.mtp_tokens"},
        {TRAIN("\"method\":\"full\"", ",\"rl\":{\"rollout_batch\":64}"), "rl.rollout_batch"},
        {TRAIN("\"clip\":1", ",\"parallel\":{\"data\":8,\"engine\":\"fsdp2\"}"), "training.clip"},
        {TRAIN("\"autocast\":true", ",\"parallel\":{\"engine\":\"megatron\",\"tensor\":2}"), "training.autocast"},
        {TRAIN("\"gradient_accumulation\":4", ",\"parallel\":{\"engine\":\"deepspeed\",\"zero\":3,\"data\":8}"), "training.gradient_accumulation"},
        {"{\"task\":\"training\",\"model\":\"mamba-2.8b-hf\",\"training\":{\"attention\":\"eager\"}}", "training.attention"},
        {"{\"task\":\"training\",\"model\":\"mamba2-2.7b\",\"training\":{\"dropout\":0.1}}", "training.dropout"},
        {"{\"model\":\"mamba-2.8b-hf\",\"engine\":\"transformers\",\"transformers\":{\"attention\":\"eager\"}}", "transformers.attention"},
        {"{\"task\":\"training\",\"model\":\"bloom-7b1\",\"training\":{\"kernels\":\"fused\"}}", "training.kernels"}, /* neither rotation nor gate */
        {"{\"task\":\"training\",\"model\":\"gpt-neox-20b\",\"training\":{\"attention\":\"sdpa\",\"kernels\":\"fused\"}}", "training.kernels"}, /* Liger does not know it */
        {TRAIN("\"optimizer\":\"adamw-8bit\",\"optimizer_impl\":\"fused\"", ""), "training.optimizer_impl"},
        {TRAIN("\"optimizer\":\"lion\",\"optimizer_states\":\"bf16\"", ""), "training.optimizer_states"},
        {TRAIN("\"optimizer\":\"adamw-8bit\"", ",\"parallel\":{\"offload\":\"optimizer\"}"), "training.optimizer"},
        {TRAIN("\"gradients\":\"fp32\"", ",\"parallel\":{\"offload\":\"optimizer+weights\"}"), "training.gradients"},
        {TRAIN("\"kernels\":\"fused\"", ",\"parallel\":{\"engine\":\"megatron\"}"), "training.kernels"},
        {TRAIN("\"optimizer_impl\":\"fused\"", ",\"parallel\":{\"engine\":\"megatron\"}"), "training.optimizer_impl"},
        {TRAIN("\"gradient_accumulation\":8", ",\"parallel\":{\"engine\":\"megatron\"}"), "training.gradient_accumulation"},
        {TRAIN("\"packing\":\"wrapped\"", ""), "training.packing"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"zero\":2}"), "parallel.zero"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"data\":4,\"zero\":2,\"engine\":\"ddp\"}"), "parallel.zero"},
        {TRAIN("\"gradient_accumulation\":4", ",\"parallel\":{\"pipeline\":2,\"virtual_pipeline\":2,\"engine\":\"deepspeed\"}"), "parallel.virtual_pipeline"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"expert_tensor\":2}"), "parallel.expert_tensor"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"data\":4,\"zero\":2,\"engine\":\"deepspeed\",\"max_live_elements\":1000}"), "parallel.max_live_elements"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"data\":4,\"zero\":2,\"offload\":\"optimizer+weights\"}"), "parallel.zero"},
        {TRAIN("\"gradient_accumulation\":4", ",\"parallel\":{\"data\":4,\"pipeline\":2,\"zero\":2,\"engine\":\"fsdp2\"}"), "parallel.zero"},
        {TRAIN("\"method\":\"full\"", ",\"parallel\":{\"pipeline\":2,\"virtual_pipeline\":2,\"engine\":\"megatron\"}"), "parallel.virtual_pipeline"},
        {TRAIN("\"method\":\"lora\",\"precision\":\"fp32\"", ""), "training.precision"},
        {SERVE("bare", ",\"prompt\":100"), "prompt"},
        {SERVE("bare", ",\"vllm\":{\"block_size\":32}"), "vllm.block_size"},
        {SERVE("bare", ",\"training\":{\"micro_batch\":4}"), "training.micro_batch"},
        {SERVE("sglang", ",\"vllm\":{\"max_num_seqs\":64}"), "vllm.max_num_seqs"},
        {SERVE("vllm", ",\"kv_cache_v\":\"q8_0\""), "kv_cache_v"},
        {SERVE("vllm", ",\"vllm\":{\"engine\":\"v0\",\"flashinfer_sampler\":true}"), "vllm.flashinfer_sampler"},
        {SERVE("vllm", ",\"speculative\":{\"mtp_tokens\":2}"), "speculative.mtp_tokens"},
        {SERVE("vllm", ",\"parallel\":{\"expert_tensor\":2}"), "parallel.expert_tensor"},
        {SERVE("transformers", ",\"kv_cache\":\"fp8\""), "kv_cache"},
        {SERVE("llama.cpp", ",\"batch\":8,\"llama_cpp\":{\"slots\":8}"), "batch"},
        {SERVE("llama.cpp", ",\"llama_cpp\":{\"swa_full\":true}"), "llama_cpp.swa_full"},
        {SERVE("llama.cpp", ",\"llama_cpp\":{\"kv_unified\":false}"), "llama_cpp.kv_unified"},
        {SERVE("llama.cpp", ",\"llama_cpp\":{\"mla_cache\":\"expanded\"}"), "llama_cpp.mla_cache"},
        {RL("dpo", ",\"rollout_batch\":64"), "rl.rollout_batch"},
        {RL("dpo", ",\"rollout_engine\":\"vllm\""), "rl.rollout_engine"},
        {RL("dpo", ",\"rollout_engine\":\"vllm\",\"share_weights\":true"), "rl.share_weights"}, /* of an engine that is not read itself */
        {RL("grpo", ",\"share_weights\":true"), "rl.share_weights"},
        {RL("dpo", ",\"reference\":\"precomputed\",\"offload_idle\":true"), "rl.offload_idle"},
        {"{\"task\":\"rl\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"sequence_length\":64}}", "training.sequence_length"},
        {"{\"task\":\"rl\",\"model\":\"qwen2.5-0.5b\",\"training\":{\"clip\":1}}", "training.clip"},
        {"{\"task\":\"rl\",\"model\":\"qwen2.5-0.5b\",\"kv_cache\":\"fp8\"}", "kv_cache"},
    };
    for (int i = 0; i < COUNT(cases); i++) {
        CHECK(is_unread(test_report(cases[i].scenario), cases[i].path), "%s of %s", cases[i].path, cases[i].scenario);
        CHECK(changes_nothing(cases[i].scenario, cases[i].path), "%s is read in %s", cases[i].path, cases[i].scenario);
    }
}

TEST(unread_silent, "unread: defaults, what is read, and what would be so anyway raise no note")
{
    static const char *const silent[] = {
        TRAIN("\"optimizer\":\"muon\",\"optimizer_impl\":\"for-loop\"", ""), /* Muon leaves embeddings, norms and the head to AdamW */
        "{\"task\":\"training\",\"model\":\"deepseek-v4-flash\",\"training\":{\"method\":\"lora\",\"precision\":\"bf16\"},\"parallel\":{\"engine\":\"fsdp2\"}}", /* gathered in another type */
        "{\"task\":\"rl\",\"model\":\"qwen2.5-0.5b\",\"parallel\":{\"data\":16,\"zero\":3,\"offload\":\"optimizer+weights\"}}", /* the reference is in shares */
        TRAIN("\"method\":\"full\",\"clip\":1,\"checkpointing\":\"full\",\"checkpointing_interval\":2", ",\"parallel\":{\"zero\":0,\"data\":1}"),
        TRAIN("\"method\":\"full\"", ",\"lora\":{\"rank\":16,\"dropout\":0,\"dtype\":\"fp32\"},\"weights\":\"bf16\""), /* defaults */
        TRAIN("\"method\":\"lora\"", ",\"lora\":{\"rank\":8},\"weights\":\"nf4\""),
        RL("grpo", ",\"critic\":\"none\""),
        RL("grpo", ",\"rollout_engine\":\"vllm\",\"share_weights\":true,\"offload_idle\":true"),
        SERVE("llama.cpp", ",\"kv_cache_k\":\"q8_0\",\"llama_cpp\":{\"slots\":4,\"kv_unified\":false}"),
        "{\"model\":\"deepseek-v3.1\",\"engine\":\"vllm\",\"speculative\":{\"mtp_tokens\":1}}",
    };
    for (int i = 0; i < COUNT(silent); i++) {
        const vram_report *r = test_report(silent[i]);
        for (int k = 0; r != NULL && k < r->notes; k++) CHECK(r->note[k].id != VRAM_NOTE_UNREAD_HERE, "%s of %s", r->note[k].path, silent[i]);
        CHECK(r != NULL, "%s", silent[i]);
    }
}

TEST(unread_presets, "unread: no preset says what its own settings do not read")
{
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    const char *id, *name;
    for (int i = 0; vram_json_listed(json, "scenarios", i, &id, &name); i++) {
        char *text = vram_json_preset(json, id);
        const vram_report *r = test_report(text);
        for (int k = 0; r != NULL && k < r->notes; k++) CHECK(r->note[k].id != VRAM_NOTE_UNREAD_HERE, "%s of %s", r->note[k].path, id);
        vram_json_free(text);
    }
    vram_json_close(json);
}
