/* words.c -- ids of every list, in one table. */
#include "core.h"

#include <stddef.h>
#include <string.h>

#define ID(NAME, id) id,
#define ID_OF_THREE(NAME, id, third) id,
#define SYMBOL_ID(NAME, symbol, id) id,
#define ADDRESS(NAME, id, address) address,

static const char *const tasks[] = {VRAM_TASKS(ID)};
static const char *const engines[] = {VRAM_ENGINES(ID)};
static const char *const attentions[] = {VRAM_ATTENTIONS(ID)};
static const char *const vllm_engines[] = {VRAM_VLLM_ENGINES(ID)};
static const char *const mla_caches[] = {VRAM_MLA_CACHES(ID)};
static const char *const methods[] = {VRAM_METHODS(ID)};
static const char *const precisions[] = {VRAM_PRECISIONS(ID)};
static const char *const optimizers[] = {VRAM_OPTIMIZERS(ID)};
static const char *const optimizer_impls[] = {VRAM_OPTIMIZER_IMPLS(ID)};
static const char *const checkpointings[] = {VRAM_CHECKPOINTINGS(ID)};
static const char *const losses[] = {VRAM_LOSSES(ID)};
static const char *const packings[] = {VRAM_PACKINGS(ID)};
static const char *const kernels[] = {VRAM_KERNELS(ID)};
static const char *const lora_targets[] = {VRAM_LORA_TARGETS(ID)};
static const char *const algorithms[] = {VRAM_ALGORITHMS(ID)};
static const char *const role_models[] = {VRAM_ROLE_MODELS(ID)};
static const char *const rollout_engines[] = {VRAM_ROLLOUT_ENGINES(ID)};
static const char *const parallel_engines[] = {VRAM_PARALLEL_ENGINES(ID)};
static const char *const offloads[] = {VRAM_OFFLOADS(ID)};
static const char *const roles[] = {VRAM_ROLES(ID)};
static const char *const components[] = {VRAM_COMPONENTS(ID)};
static const char *const phases[] = {VRAM_PHASES(ID)};
static const char *const certainties[] = {VRAM_CERTAINTIES(ID)};
static const char *const verdicts[] = {VRAM_VERDICTS(ID)};
static const char *const errors[] = {VRAM_ERRORS(ID)};
static const char *const symbols[] = {VRAM_SYMBOLS(ID_OF_THREE)};
static const char *const symbol_ids[] = {VRAM_SYMBOLS(SYMBOL_ID)};
static const char *const whats[] = {VRAM_WHATS(ID)};
static const char *const sources[] = {VRAM_SOURCES(ID_OF_THREE)};
static const char *const addresses[] = {VRAM_SOURCES(ADDRESS)};
static const char *const notes[] = {VRAM_NOTES(ID)};
static const char *const rules[] = {VRAM_RULES(ID)};
static const char *const logs[] = {VRAM_LOGS(ID_OF_THREE)};
static const char *const templates[] = {VRAM_LOGS(ADDRESS)};

#define LIST(name) {name, (int)(sizeof name / sizeof name[0])}

/* order of vram_list; the formats' ids are in format.c's own table */
static const struct { const char *const *id; int count; } lists[VRAM_LIST_COUNT] = {
    [VRAM_LIST_TASK] = LIST(tasks), [VRAM_LIST_ENGINE] = LIST(engines), [VRAM_LIST_ATTENTION] = LIST(attentions),
    [VRAM_LIST_VLLM_ENGINE] = LIST(vllm_engines), [VRAM_LIST_MLA_CACHE] = LIST(mla_caches), [VRAM_LIST_METHOD] = LIST(methods),
    [VRAM_LIST_PRECISION] = LIST(precisions), [VRAM_LIST_OPTIMIZER] = LIST(optimizers), [VRAM_LIST_OPTIMIZER_IMPL] = LIST(optimizer_impls),
    [VRAM_LIST_CHECKPOINTING] = LIST(checkpointings), [VRAM_LIST_LOSS] = LIST(losses), [VRAM_LIST_PACKING] = LIST(packings),
    [VRAM_LIST_KERNELS] = LIST(kernels), [VRAM_LIST_LORA_TARGETS] = LIST(lora_targets), [VRAM_LIST_ALGORITHM] = LIST(algorithms),
    [VRAM_LIST_ROLE_MODEL] = LIST(role_models), [VRAM_LIST_ROLLOUT_ENGINE] = LIST(rollout_engines),
    [VRAM_LIST_PARALLEL_ENGINE] = LIST(parallel_engines), [VRAM_LIST_OFFLOAD] = LIST(offloads), [VRAM_LIST_ROLE] = LIST(roles),
    [VRAM_LIST_COMPONENT] = LIST(components), [VRAM_LIST_PHASE] = LIST(phases), [VRAM_LIST_CERTAINTY] = LIST(certainties),
    [VRAM_LIST_VERDICT] = LIST(verdicts), [VRAM_LIST_ERROR] = LIST(errors), [VRAM_LIST_SYMBOL] = LIST(symbols),
    [VRAM_LIST_SYMBOL_ID] = LIST(symbol_ids), [VRAM_LIST_WHAT] = LIST(whats), [VRAM_LIST_SOURCE] = LIST(sources), [VRAM_LIST_NOTE] = LIST(notes),
    [VRAM_LIST_RULE] = LIST(rules), [VRAM_LIST_LOG] = LIST(logs),
};

int vram_count(vram_list list)
{
    if (list == VRAM_LIST_FORMAT) return vram_format_count();
    return list >= 0 && list < VRAM_LIST_COUNT ? lists[list].count : 0;
}

const char *vram_name(vram_list list, int value)
{
    if (value < 0 || value >= vram_count(list)) return "";
    return list == VRAM_LIST_FORMAT ? vram_format_get(value)->id : lists[list].id[value];
}

int vram_find(vram_list list, const char *name)
{
    for (int i = 0; name && i < vram_count(list); i++)
        if (strcmp(vram_name(list, i), name) == 0) return i;
    return -1;
}

const char *vram_source_address(vram_source source)
{
    return (unsigned)source < VRAM_SOURCE_COUNT ? addresses[source] : "";
}

const char *vram_log_template(vram_log_id log) { return (unsigned)log < VRAM_LOG_COUNT ? templates[log] : ""; }
