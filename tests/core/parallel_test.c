/* Training over several GPUs: what one of them holds, worked by hand or measured. The measured rows are peaks of PyTorch 2.15's own caching
 * allocator under FSDP 2 (torch.distributed.fsdp.fully_shard, a group per layer and one for the rest; bitsandbytes 0.50 with quant_storage bf16,
 * peft 0.21), taken as tests/cases/measured/README.md says. */
#include "test.h"

#include "core.h"

#include <stdio.h>
#include <string.h>

static bool noted(const char *scenario, vram_note_id id, const char *path)
{
    const vram_report *r = test_report(scenario);
    for (int i = 0; r && i < r->notes; i++)
        if (r->note[i].id == id && strcmp(r->note[i].path, path) == 0) return true;
    return false;
}

#define TRAIN(model, method, training, more) "{\"task\":\"training\",\"overheads\":false,\"model\":\"" model "\",\"training\":{\"method\":\"" method "\"" training "}," more "}"
#define LAYERS(n) "{\"task\":\"training\",\"overheads\":false,\"model\":{\"model_type\":\"llama\",\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":" n ",\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":128256}," \
                  "\"training\":{\"method\":\"lora\",\"sequence_length\":1024},\"parallel\":{\"engine\":\"megatron\",\"tensor\":2,\"sequence\":true}}"
#define ADAPTERS (1u << VRAM_COMPONENT_ADAPTERS)
#define STATES (1u << VRAM_COMPONENT_WEIGHTS | 1u << VRAM_COMPONENT_OPTIMIZER)

TEST(parallel_adapters, "adapters on a rank: both halves divided in Megatron, only the half that meets a divided side elsewhere")
{
    const double whole = 32 * 16. * (2 * 4096 + (4096 + 1024) * 2 + 2 * 4096 + (4096 + 14336) * 3) * 4; /* Llama 3.1 8B, rank 16, fp32 */
    const double a = 16. * (5 * 4096 + (4096 + 14336) / 2.), b = 16. * ((4096 + 2 * 1024 + 2 * 14336) / 2. + 2 * 4096);
    const struct { const char *parallel, *scenario; double bytes; } rows[] = {
        {"none", TRAIN("llama-3.1-8b", "lora", "", "\"parallel\":{}"), whole},
        {"pipeline 2", TRAIN("llama-3.1-8b", "lora", "", "\"parallel\":{\"pipeline\":2}"), whole / 2},
        {"tensor 2, pipeline 2, Megatron", TRAIN("llama-3.1-8b", "lora", "", "\"parallel\":{\"engine\":\"megatron\",\"tensor\":2,\"pipeline\":2}"), whole / 4},
        {"tensor 2", TRAIN("llama-3.1-8b", "lora", "", "\"parallel\":{\"tensor\":2}"), 32 * (a + b) * 4},
        {"tensor 2 over FSDP 2", TRAIN("llama-3.1-8b", "lora", "", "\"parallel\":{\"engine\":\"fsdp2\",\"tensor\":2,\"data\":4}"), 32 * (a + b) * 4 / 4},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double bytes = test_alive(rows[i].scenario, VRAM_PHASE_LOAD, ADAPTERS);
        CHECK(same(bytes, rows[i].bytes), "%s: %.0f, not %.0f", rows[i].parallel, bytes, rows[i].bytes);
    }
}

/* A layer of Llama 3.1 8B over two ranks, in 16 bit, of 1024 tokens: two norms keep their inputs (512 tokens) and two fp32 numbers a token; the
 * gathered inputs of two products stay for their adapters, the other two products' inputs are divided; seven low-rank middles; attention's
 * queries, keys, values, output and sums; fc1's output. */
TEST(parallel_megatron_lora, "Megatron with LoRA: what a layer keeps")
{
    const double s = 1024, h = 4096, r = 16, norms = 2 * (s / 2 * h * 2) + 4 * (s / 2 * 4), gathered = 2 * s * h * 2, low = 7 * r * s * 2;
    const double attention = s * (4096 + 2048) / 2 * 2 + s * 4096 / 2 * 2 + s * 16 * 4, mlp = s * 2 * 14336 / 2 * 2 + s * 14336 / 2 * 2;
    double kept = test_alive(LAYERS("4"), VRAM_PHASE_LOSS, 1u << VRAM_COMPONENT_ACTIVATIONS) - test_alive(LAYERS("3"), VRAM_PHASE_LOSS, 1u << VRAM_COMPONENT_ACTIVATIONS);
    CHECK(same(kept, norms + gathered + low + attention + mlp), "%.0f, not %.0f", kept, norms + gathered + low + attention + mlp);
}

TEST(parallel_experts, "experts are shared by the ranks that hold the same ones, and by no others")
{
    const char *without = TRAIN("mixtral-8x7b-instruct-v0.1", "full", ",\"precision\":\"bf16\"", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8}");
    const char *with = TRAIN("mixtral-8x7b-instruct-v0.1", "full", ",\"precision\":\"bf16\"", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8,\"expert\":4}");
    CHECK(same(test_alive(with, VRAM_PHASE_LOAD, STATES), test_alive(without, VRAM_PHASE_LOAD, STATES)), "%.0f, not %.0f", test_alive(with, VRAM_PHASE_LOAD, STATES), test_alive(without, VRAM_PHASE_LOAD, STATES));
    const char *plain = TRAIN("mixtral-8x7b-instruct-v0.1", "full", ",\"precision\":\"bf16\"", "\"parallel\":{\"data\":8,\"expert\":8}");
    double gradients = test_alive(plain, VRAM_PHASE_STEP, 1u << VRAM_COMPONENT_GRADIENTS), backward = test_alive(plain, VRAM_PHASE_BACKWARD, 1u << VRAM_COMPONENT_GRADIENTS);
    CHECK(backward <= gradients, "gradients of %.0f bytes, more than the rank's own %.0f", backward, gradients);
}

TEST(parallel_measured, "FSDP 2: adapters, quantised weights, parameters in host memory, as PyTorch's allocator counts them")
{
#define FSDP(more) "\"parallel\":{\"engine\":\"fsdp2\"," more "}"
#define BATCH ",\"precision\":\"bf16\",\"optimizer_impl\":\"fused\",\"sequence_length\":2048,\"micro_batch\":2,\"attention\":\"sdpa\""
#define LORA(weights, rank) "\"weights\":\"" weights "\",\"lora\":{\"rank\":" rank ",\"dtype\":\"bf16\"},"
    const struct { const char *name, *scenario; double rest, peak; } rows[] = {
        {"full-offload-l8", TRAIN("llama-3.2-3b", "full", BATCH ",\"checkpointing\":\"full\"", FSDP("\"data\":8,\"zero\":3,\"offload\":\"optimizer+weights\"")), 1024, 9151008768},
        {"lora-bf16", TRAIN("llama-3.2-1b", "lora", BATCH, LORA("bf16", "16") FSDP("\"data\":4,\"zero\":3")), 635717632, 15241387008},
        {"lora-bf16-ck", TRAIN("llama-3.2-3b", "lora", BATCH ",\"checkpointing\":\"full\"", LORA("bf16", "64") FSDP("\"data\":8,\"zero\":3")), 876410880, 9984033792},
        {"lora-offload", TRAIN("llama-3.2-1b", "lora", BATCH, LORA("bf16", "16") FSDP("\"data\":4,\"zero\":3,\"offload\":\"optimizer+weights\"")), 1024, 14604990464},
        {"qlora-bf16", TRAIN("llama-3.2-1b", "lora", BATCH, LORA("nf4-dq", "16") FSDP("\"data\":4,\"zero\":3")), 285707264, 14799470592},
        {"qlora-bf16-ck", TRAIN("llama-3.2-3b", "lora", BATCH ",\"checkpointing\":\"full\"", LORA("nf4-dq", "64") FSDP("\"data\":8,\"zero\":3")), 395643904, 9352271872},
        {"lora-z2", TRAIN("llama-3.2-1b", "lora", BATCH, LORA("bf16", "16") FSDP("\"data\":4,\"zero\":2")), 635717632, 17086487552},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double rest = test_alive(rows[i].scenario, VRAM_PHASE_LOAD, ~0u), most = test_peak(rows[i].scenario);
        CHECK(most > rows[i].peak * 0.998 && most < rows[i].peak * 1.002, "%s: peak %.0f, not %.0f", rows[i].name, most, rows[i].peak);
        CHECK(rest <= rows[i].rest + 1e6 && rest >= rows[i].rest * 0.99 - 1e6, "%s: at rest %.0f, not %.0f", rows[i].name, rest, rows[i].rest);
    }
}

TEST(parallel_unread, "a setting that an engine does not read is said to change nothing, and does not")
{
    const char *ddp = TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"ddp\",\"data\":8}"), *staged = TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"ddp\",\"data\":8,\"zero\":3}");
    const char *cut = TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"ddp\",\"data\":8,\"bucket_mib\":100}");
    CHECK(same(test_peak(ddp), test_peak(staged)) && noted(staged, VRAM_NOTE_UNREAD_HERE, "parallel.zero"), "stages of ZeRO under DDP");
    CHECK(same(test_peak(ddp), test_peak(cut)) && noted(cut, VRAM_NOTE_UNREAD_HERE, "parallel.bucket_mib"), "buckets of another size");
    CHECK(noted(TRAIN("llama-3.1-8b", "full", "", "\"weights\":\"nf4\""), VRAM_NOTE_UNREAD_HERE, "weights"), "weights of a model that is trained whole");
    CHECK(noted(TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8,\"zero\":1}"), VRAM_NOTE_SHARDS_ALL, "parallel.zero"), "stage 1 under FSDP");
    CHECK(same(test_peak(TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8}")), test_peak(TRAIN("llama-3.1-8b", "full", "", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8,\"zero\":3}"))), "FSDP shares all of itself");
}

TEST(parallel_loop, "a step one tensor at a time makes its temporaries of the tensor's share under FSDP 2")
{
    const char *one = TRAIN("llama-3.1-8b", "full", ",\"precision\":\"bf16\",\"optimizer_impl\":\"for-loop\",\"sequence_length\":64", "\"parallel\":{\"engine\":\"fsdp2\",\"data\":8}");
    CHECK(test_alive(one, VRAM_PHASE_STEP, 1u << VRAM_COMPONENT_WORKSPACE) < 2 * 128256. * 4096 * 2 / 8 + 1e6, "%.0f", test_alive(one, VRAM_PHASE_STEP, 1u << VRAM_COMPONENT_WORKSPACE));
}

TEST(settings_said, "settings that a library leaves without effect, or that make nothing better, are named")
{
    CHECK(noted(TRAIN("mistral-7b-instruct-v0.3", "full", ",\"kernels\":\"fused\",\"attention\":\"sdpa\",\"loss\":\"inplace\"", "\"weights\":\"bf16\""), VRAM_NOTE_LOSS_STAYS_WHOLE, "training.loss"), "Liger's loss for Mistral");
    CHECK(!noted(TRAIN("llama-3.1-8b", "full", ",\"kernels\":\"fused\",\"attention\":\"sdpa\",\"loss\":\"inplace\"", "\"weights\":\"bf16\""), VRAM_NOTE_LOSS_STAYS_WHOLE, "training.loss"), "and for Llama");
    CHECK(noted(TRAIN("llama-3.1-8b", "lora", "", "\"lora\":{\"rank\":2048}"), VRAM_NOTE_RANK_ABOVE_MATRIX, "lora.rank"), "keys are 1024 wide");
    CHECK(!noted(TRAIN("llama-3.1-8b", "lora", "", "\"lora\":{\"rank\":1024}"), VRAM_NOTE_RANK_ABOVE_MATRIX, "lora.rank"), "just as wide");
}

/* Measured as above, of a Mixtral of four layers (277,390,336 parameters) whose eight experts are shared by 8, 16 and 32 ranks. */
#define EXPERTS(more) "{\"task\":\"training\",\"overheads\":false,\"model\":{\"model_type\":\"mixtral\",\"hidden_size\":1024,\"intermediate_size\":2048,\"num_hidden_layers\":4,\"num_attention_heads\":16," \
                      "\"num_key_value_heads\":4,\"vocab_size\":32000,\"num_local_experts\":8,\"num_experts_per_tok\":2},\"training\":{\"precision\":\"bf16\",\"optimizer_impl\":\"fused\",\"sequence_length\":512,\"attention\":\"sdpa\"}," \
                      "\"parallel\":{\"engine\":\"fsdp2\",\"zero\":3," more "}}"
TEST(parallel_filled_up, "FSDP 2 fills experts up to a multiple of the ranks, and so does its buffer; gradients are as large as the experts")
{
    const struct { const char *scenario; double rest, forward, backward; bool said; } rows[] = {
        {EXPERTS("\"data\":8"), 208857088, 692193792, 969674752, false},
        {EXPERTS("\"data\":16"), 179955712, 865466880, 1234763776, true},
        {EXPERTS("\"data\":32"), 165505024, 1253603840, 1823277056, true},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const vram_phase phases[] = {VRAM_PHASE_LOAD, VRAM_PHASE_FORWARD, VRAM_PHASE_BACKWARD};
        const double measured[] = {rows[i].rest, rows[i].forward, rows[i].backward};
        for (int k = 0; k < COUNT(phases); k++) {
            double bytes = test_alive(rows[i].scenario, phases[k], ~0u);
            CHECK(bytes > measured[k] * 0.985 && bytes < measured[k] * 1.005, "row %d, phase %d: %.0f, not %.0f", i, k, bytes, measured[k]);
        }
        CHECK(noted(rows[i].scenario, VRAM_NOTE_EXPERTS_FILLED_UP, "parallel.data") == rows[i].said, "row %d", i);
    }
    double few = test_alive(EXPERTS("\"data\":16,\"pipeline\":2"), VRAM_PHASE_BACKWARD, 1u << VRAM_COMPONENT_GRADIENTS), many = test_alive(EXPERTS("\"data\":32,\"pipeline\":2"), VRAM_PHASE_BACKWARD, 1u << VRAM_COMPONENT_GRADIENTS);
    CHECK(same(few, many), "a stage's whole gradients are %.0f bytes, and over more ranks %.0f", few, many);
}

TEST(parallel_undivided, "degrees that divide nothing evenly are named, those that do are not")
{
    const struct { const char *parallel, *path; bool said; } rows[] = {
        {"\"tensor\":3", "parallel.tensor", true}, {"\"tensor\":4", "parallel.tensor", false},
        {"\"expert\":3,\"data\":3", "parallel.expert", true}, {"\"expert\":4,\"data\":2", "parallel.expert", true}, {"\"expert\":4,\"data\":8", "parallel.expert", false},
        {"\"pipeline\":5", "parallel.pipeline", true}, {"\"pipeline\":4", "parallel.pipeline", false}, {"\"context\":3", "parallel.context", true}, {"\"context\":2", "parallel.context", false},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        char scenario[256];
        snprintf(scenario, sizeof scenario, TRAIN("mixtral-8x7b-instruct-v0.1", "full", "", "\"parallel\":{%s}"), rows[i].parallel);
        CHECK(noted(scenario, VRAM_NOTE_NOT_DIVIDING, rows[i].path) == rows[i].said, "%s", rows[i].parallel);
    }
}

/* PyTorch's own styles of tensor parallelism on transformers' Llama and Qwen 2 (ColwiseParallel, RowwiseParallel, SequenceParallel, loss_parallel),
 * alone and over FSDP 2, measured as above; with adapters, the half of each that meets a divided side divided likewise. */
TEST(parallel_tensor, "tensor parallelism outside Megatron, as PyTorch's allocator counts it")
{
    const struct { const char *name, *scenario; double forward, peak; } rows[] = {
        {"tp2", TRAIN("llama-3.1-8b", "full", BATCH, "\"parallel\":{\"tensor\":2}"), 42223921664, 46418264064},
        {"tp2sp", TRAIN("llama-3.1-8b", "full", BATCH, "\"parallel\":{\"tensor\":2,\"sequence\":true}"), 38969657856, 43147223040},
        {"tp8sp", TRAIN("llama-3.1-8b", "full", BATCH, "\"parallel\":{\"tensor\":8,\"sequence\":true}"), 11387515392, 12425644032},
        {"f4tp2sp", TRAIN("llama-3.1-8b", "full", BATCH, "\"parallel\":{\"engine\":\"fsdp2\",\"zero\":3,\"data\":4,\"tensor\":2,\"sequence\":true}"), 22165578240, 26343143424},
        {"f4tp4", TRAIN("llama-3.1-8b", "full", BATCH, "\"parallel\":{\"engine\":\"fsdp2\",\"zero\":3,\"data\":4,\"tensor\":4}"), 17155097088, 19250190336},
        {"f4tp4sp-qwen", TRAIN("qwen2.5-7b", "full", BATCH, "\"parallel\":{\"engine\":\"fsdp2\",\"zero\":3,\"data\":4,\"tensor\":4,\"sequence\":true}"), 11718547456, 14194256896},
        {"lora-tp2", TRAIN("llama-3.1-8b", "lora", BATCH, LORA("bf16", "64") "\"parallel\":{\"tensor\":2}"), 24708555776, 28869343744},
        {"lora-tp4", TRAIN("llama-3.1-8b", "lora", BATCH, LORA("bf16", "64") "\"parallel\":{\"tensor\":4}"), 15832884224, 17895471616},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double forward = test_alive(rows[i].scenario, VRAM_PHASE_FORWARD, ~0u), most = test_peak(rows[i].scenario);
        CHECK(forward > rows[i].forward * 0.995 && forward < rows[i].forward * 1.005, "%s: forward %.0f, not %.0f", rows[i].name, forward, rows[i].forward);
        CHECK(most > rows[i].peak * 0.995 && most < rows[i].peak * 1.005, "%s: peak %.0f, not %.0f", rows[i].name, most, rows[i].peak);
    }
}

/* The same without FSDP, of six layers of Llama 3.1 8B and eight of Llama 3.2 3B (whose head is the embedding, DTensors being tied again once they are divided):
 * the table of words has a whole gradient on each rank, which stays to the step and of which the optimizer cuts its own part. */
TEST(parallel_table, "tensor parallelism outside Megatron: the gradient of the table of words is whole")
{
#define SHORT(layers, hidden, inner, heads, tied) "\"model\":{\"model_type\":\"llama\",\"hidden_size\":" hidden ",\"intermediate_size\":" inner ",\"num_hidden_layers\":" layers ",\"num_attention_heads\":" heads ",\"num_key_value_heads\":8,\"head_dim\":128,\"vocab_size\":128256,\"tie_word_embeddings\":" tied "},"
#define EIGHT SHORT("6", "4096", "14336", "32", "false")
#define THREE SHORT("8", "3072", "8192", "24", "true")
#define RUN(model, training, parallel) "{\"task\":\"training\",\"overheads\":false," model "\"training\":{\"method\":\"full\",\"sequence_length\":1024,\"micro_batch\":2,\"attention\":\"sdpa\"," training "},\"parallel\":{" parallel "}}"
#define FUSED "\"precision\":\"bf16\",\"optimizer_impl\":\"fused\""
    const struct { const char *name, *scenario; double step, peak; } rows[] = {
        {"tp2", RUN(EIGHT, FUSED, "\"tensor\":2"), 10496701952, 11155053568},
        {"tp4", RUN(EIGHT, FUSED, "\"tensor\":4"), 5769721344, 6010084352},
        {"tp8", RUN(EIGHT, FUSED, "\"tensor\":8"), 3414357504, 3448609792},
        {"tp4-ck", RUN(EIGHT, FUSED ",\"checkpointing\":\"full\"", "\"tensor\":4"), 5770507776, 5770507776},
        {"tp4-foreach", RUN(EIGHT, "\"precision\":\"bf16\"", "\"tensor\":4"), 6687458304, 6687458304},
        {"tp4-fp32", RUN(EIGHT, "\"precision\":\"fp32\",\"optimizer_impl\":\"fused\"", "\"tensor\":4"), 11542558208, 11542558208},
        {"tp4-ck-accumulated", RUN(EIGHT, FUSED ",\"checkpointing\":\"full\",\"gradient_accumulation\":4", "\"tensor\":4"), 5770507776, 6858261504},
        {"tied-tp4sp", RUN(THREE, FUSED, "\"tensor\":4,\"sequence\":true"), 2536716800, 3719248896},
        {"tied-tp4-ck", RUN(THREE, FUSED ",\"checkpointing\":\"full\"", "\"tensor\":4"), 2537503232, 3720035328},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double step = test_alive(rows[i].scenario, VRAM_PHASE_STEP, ~0u), most = test_peak(rows[i].scenario);
        CHECK(step > rows[i].step * 0.997 && step < rows[i].step * 1.003, "%s: step %.0f, not %.0f", rows[i].name, step, rows[i].step);
        CHECK(most > rows[i].peak * 0.998 && most < rows[i].peak * 1.002, "%s: peak %.0f, not %.0f", rows[i].name, most, rows[i].peak);
    }
}

/* Of actor and critic the fuller instant is entered; what the engine holds beside them decides which one that is. */
TEST(parallel_ppo, "PPO over ranks, with adapters and without: a larger micro-batch never needs less")
{
    static const char *const engines[] = {"\"engine\":\"deepspeed\",\"data\":16,\"zero\":1", "\"engine\":\"deepspeed\",\"data\":16,\"zero\":2", "\"engine\":\"deepspeed\",\"data\":16,\"zero\":3",
                                          "\"engine\":\"fsdp1\",\"data\":8,\"zero\":3", "\"engine\":\"fsdp2\",\"data\":8,\"zero\":3", "\"engine\":\"ddp\",\"data\":8", "\"data\":1"};
    static const char *const methods[] = {"lora", "full"};
    for (int i = 0; i < COUNT(engines) * COUNT(methods); i++) {
        double before = 0;
        for (int batch = 1; batch <= 4; batch++) {
            char scenario[320];
            snprintf(scenario, sizeof scenario, "{\"task\":\"rl\",\"model\":\"qwen2.5-7b\",\"overheads\":false,\"rl\":{\"response\":128},\"training\":{\"method\":\"%s\",\"micro_batch\":%d},\"parallel\":{%s}}", methods[i % 2], batch, engines[i / 2]);
            double now = test_peak(scenario);
            CHECK(now >= before, "%s: %.0f, and %.0f with one less", scenario, now, before);
            before = now;
        }
    }
}

/* Copies without an engine: each does what one does alone, the allocator too. */
TEST(parallel_like_one, "copies of a training need what one needs")
{
    const double one = test_peak("{\"task\":\"training\",\"training\":{\"precision\":\"bf16\"}}"), two = test_peak("{\"task\":\"training\",\"training\":{\"precision\":\"bf16\"},\"parallel\":{\"data\":2}}");
    CHECK(same(one, two), "%.0f, and %.0f with a second", one, two);
}

/* LoRA is the actor's; TRL's value model is trained whole, whatever shares it out. */
TEST(parallel_ppo_critic, "PPO with LoRA: the critic's states are the whole model's, and each rank has its share of them")
{
    static const char *const engines[] = {"\"data\":2,\"zero\":3", "\"engine\":\"fsdp1\",\"data\":2,\"zero\":3", "\"engine\":\"fsdp2\",\"data\":2,\"zero\":3", "\"engine\":\"deepspeed\",\"data\":2,\"zero\":3"};
    const double params = 7504928768; /* Llama 3.1 8B, of its head one row */
    for (int i = 0; i < COUNT(engines); i++) {
        char scenario[320];
        snprintf(scenario, sizeof scenario, "{\"task\":\"rl\",\"model\":\"llama-3.1-8b\",\"training\":{\"method\":\"lora\"},\"parallel\":{%s}}", engines[i]);
        const vram_report *r = test_report(scenario);
        double moments = 0, gradients = 0;
        for (int k = 0; r && k < r->entries; k++) {
            const vram_entry *e = &r->entry[k];
            if (e->role != VRAM_ROLE_CRITIC) continue;
            if (e->component == VRAM_COMPONENT_OPTIMIZER) moments += e->bytes;
            if (e->component == VRAM_COMPONENT_GRADIENTS) gradients = e->bytes > gradients ? e->bytes : gradients;
        }
        CHECK(moments >= params * 4 && moments < params * 4 * 1.001, "%s: moments of %.0f bytes", engines[i], moments);
        CHECK(gradients >= params && gradients < params * 2.001, "%s: gradients of %.0f bytes", engines[i], gradients);
    }
}

/* Actor and critic are one module to DeepSpeed (TRL's PolicyAndValueWrapper): one bucket, and stage 1 sums all gradients when both are through. */
TEST(parallel_ppo_bucket, "PPO's two models share one bucket, and no gradient of theirs is counted twice")
{
    static const char *const stages[] = {"1", "2", "3"};
    for (int i = 0; i < COUNT(stages); i++) {
        char scenario[320];
        snprintf(scenario, sizeof scenario, "{\"task\":\"rl\",\"model\":\"qwen2.5-7b\",\"overheads\":false,\"training\":{\"method\":\"full\"},\"parallel\":{\"engine\":\"deepspeed\",\"data\":8,\"zero\":%s}}", stages[i]);
        const vram_report *r = test_report(scenario);
        double buckets = 0, gradients = 0;
        for (int k = 0; r && k < r->entries; k++) {
            const vram_entry *e = &r->entry[k];
            if (!(e->phases & VRAM_BIT(VRAM_PHASE_BACKWARD))) continue;
            if (e->what == VRAM_WHAT_REDUCE_BUCKET) buckets += e->bytes;
            if (e->component == VRAM_COMPONENT_GRADIENTS) gradients += e->bytes;
        }
        CHECK(buckets <= 2 * 5e8, "stage %s: buckets of %.0f bytes", stages[i], buckets);
        CHECK(r && gradients < 2 * r->params_trainable * 2.2, "stage %s: gradients of %.0f bytes", stages[i], gradients);
    }
}

/* Each of eight copies needs what one needs: no number of cards is named where more would be more copies, or where one sequence's activations are more than
 * a card has; where the model is divided there is one. */
TEST(parallel_copies, "copies: more GPUs are no advice where each holds all of it")
{
    const struct { const char *scenario; bool number; } rows[] = {
        {"{\"task\":\"training\",\"model\":\"qwen3-8b\",\"parallel\":{\"data\":8}}", false},
        {"{\"task\":\"training\",\"model\":\"qwen3-8b\",\"gpus\":8}", false},
        {"{\"task\":\"training\",\"model\":\"llama-3.1-70b\",\"parallel\":{\"data\":2,\"tensor\":4}}", false},
        {"{\"task\":\"training\",\"model\":\"qwen3-8b\"}", true},
        {"{\"task\":\"training\",\"model\":\"llama-3.1-70b\",\"parallel\":{\"tensor\":4}}", true},
        {"{\"task\":\"training\",\"model\":\"llama-3.1-70b\",\"parallel\":{\"data\":8,\"zero\":3}}", false},
        {"{\"task\":\"training\",\"model\":\"llama-3.1-70b\",\"training\":{\"checkpointing\":\"full\"},\"parallel\":{\"data\":8,\"zero\":3}}", true},
        {"{\"model\":\"llama-3.1-70b\",\"gpus\":8}", false},
        {"{\"model\":\"llama-3.1-8b\",\"parallel\":{\"data\":2},\"batch\":64,\"context\":131072}", true}, /* replicas share the sequences */
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const vram_report *r = test_report(rows[i].scenario);
        CHECK(r && r->fit[0].verdict == VRAM_VERDICT_NO, "%s fits", rows[i].scenario);
        if (r) CHECK((r->fit[0].gpus_needed > 0) == rows[i].number, "%s: %d cards", rows[i].scenario, (int)r->fit[0].gpus_needed);
    }
}

static double bytes_of(const char *scenario, vram_what what, vram_phase phase)
{
    const vram_report *r = test_report(scenario);
    double sum = 0;
    for (int i = 0; r && i < r->entries; i++)
        if (r->entry[i].what == what && r->entry[i].phases & VRAM_BIT(phase)) sum += r->entry[i].bytes;
    return sum;
}

/* A layer of Llama 3.1 8B: 218,112,000 parameters; outside them two tables of 128256 x 4096 and a norm. Of the base nothing is unpacked to be gathered. */
TEST(parallel_packed, "a frozen base is gathered, and shared by ZeRO's stage 3, as it is stored; what stands beside its packed weights is whole")
{
#define BASE(weights, engine) TRAIN("llama-3.1-8b", "lora", ",\"checkpointing\":\"none\"", "\"weights\":\"" weights "\",\"lora\":{\"rank\":1,\"targets\":[\"q_proj\"],\"dtype\":\"bf16\"},\"parallel\":{\"data\":8,\"zero\":3,\"engine\":\"" engine "\"}")
    const double layer = 218112000, outside = 2 * 128256. * 4096 + 4096, adapter = 2 * 4096 * 2, norms = 32 * 2 * 4096., matrices = 32 * layer - norms;
    const struct { const char *scenario; double gathered; } rows[] = {
        {BASE("bf16", "fsdp1"), 2 * (layer + outside) + adapter},
        {BASE("int8", "fsdp1"), layer + outside + adapter},
        {BASE("int4", "fsdp1"), (layer + outside) / 2 + adapter},
        {BASE("nf4", "fsdp1"), (layer - 2 * 4096) / 2 + 2 * 4096 * 2 + 2 * outside + adapter},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        double bytes = bytes_of(rows[i].scenario, VRAM_WHAT_GATHERED_WEIGHTS, VRAM_PHASE_BACKWARD);
        CHECK(same(bytes, rows[i].gathered), "row %d: %.0f gathered, not %.0f", i, bytes, rows[i].gathered);
    }
    double held = test_alive(BASE("nf4", "deepspeed"), VRAM_PHASE_LOAD, 1u << VRAM_COMPONENT_WEIGHTS) - bytes_of(BASE("nf4", "deepspeed"), VRAM_WHAT_PERSISTENT_WEIGHTS, VRAM_PHASE_LOAD);
    double shares = (matrices / 2 + 2 * (outside + norms)) / 8 + matrices / 64 * 4;
    CHECK(held > shares * 0.999 && held < shares * 1.001, "%.0f held of packed weights, not %.0f", held, shares);
}
