/* unread.c -- settings that were said and that nothing reads: silence would be taken for "counted".
 *
 * A field's own `when` (scenario.c) says where it is read at all; the table below, where it is not, though it is shown. Conditions are texts:
 * "path=a|b;path!=c", all of which hold. Beside fields there are facts, "~name=true". A field that is not read is its default to others. */
#include "json.h"

#include <stdio.h>
#include <string.h>

static const struct { const char *path, *where; } unread[] = {
    {"prompt", "engine=bare|vllm|llama.cpp"},
    {"kv_cache", "task=inference;engine=transformers"},
    {"vllm.flashinfer_sampler", "vllm.engine=v0"},
    {"llama_cpp.swa_full", "~windows=false"},
    {"llama_cpp.kv_unified", "llama_cpp.slots=1"},
    {"llama_cpp.imatrix", "weights!=gguf:Q4_0|gguf:Q5_0|gguf:IQ4_NL|gguf:IQ4_XS|gguf:IQ3_XXS"},
    {"llama_cpp.mla_cache", "~latent=false"},
    {"speculative.mtp_tokens", "~predicts=false;~recurrent=false"},
    {"training.precision", "task=training;training.method=lora;training.precision!=amp;parallel.engine=plain|ddp"}, /* the base is as `weights` says, adapters as lora.dtype */
    {"training.precision", "task=rl;training.method=lora;training.precision!=amp;rl.critic=none;parallel.engine=plain|ddp"}, /* a critic is trained whole */
    {"rl.offload_idle", "~waiting=false"},
    {"training.optimizer", "parallel.offload!=none;training.optimizer!=lomo"},
    {"training.gradients", "parallel.offload!=none;parallel.engine=plain|megatron"},
    {"training.gradients", "task=training;parallel.offload!=none;parallel.engine=fsdp1|fsdp2;~shares=false"},
    {"training.gradient_accumulation", "task=training;~megatron=true;parallel.pipeline=1"}, /* its buffer of gradients stands anyway */
    {"training.gradient_accumulation", "task=training;parallel.engine=deepspeed;parallel.zero=3"}, /* so do its shards */
    {"training.autocast", "~megatron=true"}, /* its layers are 16 bit or not (megatron/core/transformer/module.py, Float16Module) */
    {"training.attention", "~attends=false;~megatron=false"},
    {"training.dropout", "~attends=false;~megatron=false"},
    {"transformers.attention", "~attends=false"},
    {"training.packing", "training.packing=wrapped"}, /* rows like others */
    {"training.optimizer_states", "parallel.offload!=none"},
    {"training.optimizer_states", "training.optimizer!=adamw|sgd-momentum|muon|galore"},
    {"training.optimizer_impl", "~megatron=true"},
    {"training.clip", "parallel.engine!=plain"},
    {"training.clip", "task=rl"},
    {"training.kernels", "~megatron=true"},
    {"training.kernels", "~fusable=false;training.loss!=inplace|chunked|fused"}, /* nothing of its layers has a fused kernel */
    {"training.kernels", "~fusable=false;training.loss=fused;training.attention=flash"},
    {"parallel.zero", "parallel.engine=ddp"},
    {"parallel.zero", "~shares=false;parallel.engine!=deepspeed|fsdp2"},
    {"parallel.zero", "task=training;parallel.engine=plain;parallel.offload=optimizer+weights"},
    {"parallel.zero", "parallel.engine=fsdp2;parallel.pipeline!=1;training.method=full"}, /* a stage keeps its parameters gathered */
    {"parallel.sequence", "parallel.tensor=1"},
    {"parallel.virtual_pipeline", "parallel.pipeline=1"},
    {"parallel.virtual_pipeline", "training.gradient_accumulation=1"}, /* one micro-batch is in flight */
    {"parallel.expert_tensor", "~experts=false"},
    {"parallel.bucket_mib", "parallel.engine=ddp"}, /* it cuts one copy of all gradients into other pieces */
    {"parallel.bucket_elements", "parallel.engine!=deepspeed"},
    {"parallel.overlap", "parallel.engine!=deepspeed"},
    {"parallel.overlap", "parallel.zero=3"},
    {"parallel.prefetch", "parallel.engine!=fsdp1"},
    {"parallel.prefetch", "~shares=false"},
    {"parallel.prefetch_elements", "parallel.zero!=3"},
    {"parallel.prefetch_elements", "~shares=false"},
    {"parallel.persistence_elements", "parallel.zero!=3"},
    {"parallel.persistence_elements", "~shares=false"},
    {"parallel.max_live_elements", "parallel.zero!=3"},
    {"parallel.max_live_elements", "~shares=false"},
    {"parallel.subgroup_elements", "parallel.zero!=3"},
    {"parallel.subgroup_elements", "parallel.offload!=none"},
};

/* ------------------------------------------------------------------------------------------------------------- facts -- */

static bool any_layer(const vram_scenario *s, bool (*is)(const vram_layer *))
{
    for (int i = 0; i < s->model.kinds; i++)
        if (is(&s->model.kind[i])) return true;
    return false;
}

static bool looks_back(const vram_layer *l) { return l->attention.window > 0; }
static bool is_latent(const vram_layer *l) { return l->attention.type == VRAM_MIXER_MLA; }
static bool is_recurrent(const vram_layer *l) { return l->state.type != VRAM_STATE_NONE; }
static bool has_experts(const vram_layer *l) { return l->ffn.experts > 0; }

static bool gated(const vram_layer *l) { return l->ffn.type == VRAM_FFN_GATED; }

static bool windows(const vram_scenario *s) { return any_layer(s, looks_back); }
static bool latent(const vram_scenario *s) { return any_layer(s, is_latent); }
static bool recurrent(const vram_scenario *s) { return any_layer(s, is_recurrent); }
static bool experts(const vram_scenario *s) { return any_layer(s, has_experts); }
static bool predicts(const vram_scenario *s) { return s->model.mtp_layers > 0; }
static bool attends(const vram_scenario *s) { return vram_most_heads(&s->model) > 0; }
/* Turned queries and keys, norms and gates of whatever family; of Liger, what it knows */
static bool fusable(const vram_scenario *s)
{
    if (s->training.attention != VRAM_ATTENTION_FLASH) return vram_liger_knows(&s->model);
    bool turns = s->model.position == VRAM_POSITION_ROTARY && attends(s);
    return turns || s->model.norm == VRAM_NORM_RMS || s->model.norm == VRAM_NORM_RMS_BARE || any_layer(s, gated);
}
static bool megatron(const vram_scenario *s) { return vram_is_megatron(s, &s->model); }
/* RL's models that only look, or an engine's copy of the actor: with weights of their own */
static bool waiting(const vram_scenario *s)
{
    const int kinds[] = {s->rl.reference.kind, s->rl.reward.kind};
    bool own = s->rl.rollout_engine == VRAM_ROLLOUT_ENGINE_VLLM && !s->rl.share_weights && s->rl.algorithm != VRAM_ALGORITHM_DPO;
    for (int i = 0; i < 2; i++) own |= kinds[i] == VRAM_ROLE_MODEL_SAME || kinds[i] == VRAM_ROLE_MODEL_MODEL;
    return own;
}
static bool shares(const vram_scenario *s) { return vram_data_ranks(s) > 1; }

static const struct { const char *name; bool (*holds)(const vram_scenario *); } facts[] = {
    {"~windows", windows}, {"~latent", latent}, {"~recurrent", recurrent}, {"~experts", experts}, {"~predicts", predicts}, {"~megatron", megatron}, {"~shares", shares}, {"~waiting", waiting},
    {"~attends", attends}, {"~fusable", fusable},
};

/* -------------------------------------------------------------------------------------------------------- conditions -- */

/* `of`: whose condition it is; it may ask for its own value */
static void text_of(const vram_scenario *s, const char *of, const char *path, char *text, size_t room)
{
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (strcmp(facts[i].name, path) == 0) {
            snprintf(text, room, "%s", facts[i].holds(s) ? "true" : "false");
            return;
        }
    vram_json_value_text(strcmp(of, path) == 0 || vram_json_is_read(s, path) ? s : NULL, path, text, room);
}

/* One condition, of so many letters */
static bool holds(const vram_scenario *s, const char *of, const char *condition, size_t n)
{
    char path[48], text[48];
    size_t key = strcspn(condition, "!="), from = key + 1 + (condition[key] == '!');
    snprintf(path, sizeof path, "%.*s", (int)key, condition);
    text_of(s, of, path, text, sizeof text);
    bool among = false;
    for (size_t at = from; at < n;) {
        size_t length = strcspn(condition + at, "|;");
        among |= strlen(text) == length && strncmp(condition + at, text, length) == 0;
        at += length + 1;
    }
    return among != (condition[key] == '!');
}

/* All of them, up to the end or to a '!' that begins others */
static bool all_hold(const vram_scenario *s, const char *of, const char *conditions)
{
    for (const char *c = conditions; *c != '\0' && *c != '!';) {
        size_t n = strcspn(c, ";");
        if (!holds(s, of, c, n)) return false;
        c += c[n] == ';' ? n + 1 : n;
    }
    return true;
}

bool vram_json_is_read(const vram_scenario *s, const char *path)
{
    const char *when = vram_json_when(path), *unless = when;
    while (unless != NULL && *unless != '\0' && !(*unless == '!' && (unless == when || unless[-1] == ';'))) unless++;
    if (when != NULL && !all_hold(s, path, when)) return false;
    if (unless != NULL && *unless == '!' && all_hold(s, path, unless + 1)) return false;
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (strcmp(unread[i].path, path) == 0 && all_hold(s, path, unread[i].where)) return false;
    return true;
}

static bool is_noted(const vram_report *report, const char *path)
{
    for (int i = 0; i < report->notes; i++)
        if (strcmp(report->note[i].path, path) == 0) return true;
    return false;
}

/* Would it be the same if nothing were said? Some defaults depend on other fields. */
static bool is_usual(const cJSON *tree, const vram_scenario *s, const char *path, vram_scenario *room)
{
    char said[48], usual[48];
    vram_error error;
    *room = *s;
    vram_json_unset(room, path);
    vram_scenario_defaults(room, &error);
    vram_json_said_text(tree, path, said, sizeof said);
    vram_json_value_text(room, path, usual, sizeof usual);
    return strcmp(said, usual) == 0;
}

void vram_json_unread(const cJSON *tree, const vram_scenario *s, vram_scenario *room, vram_report *report)
{
    const char *path;
    for (int i = 0; (path = vram_json_field(i)) != NULL; i++)
        if (vram_json_is_said(tree, path) && !vram_json_is_read(s, path) && !is_noted(report, path) && !is_usual(tree, s, path, room)) vram_note_add(report, VRAM_NOTE_UNREAD_HERE, path, 0, NULL);
}
