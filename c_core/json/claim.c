/* claim.c -- is what somebody says true? A scenario that does not fit on its GPUs as it stands is made to fit by the cheapest set of changes.
 *
 * What a change costs is not bytes but what the person gives up, in steps that only order the sets:
 *    1  the same numbers, as fast or nearly                (a fused kernel, smaller pieces of the same batch, one model divided over the cards)
 *    2  the same numbers for more time                     (recomputing costs a third more computing; shards travel at every layer)
 *    3  coarser numbers that are rarely noticed, or turns  (8-bit weights and caches; fewer sequences at once, models that wait in host memory)
 *    4  as good in its paper                               (8-bit moments, arXiv 2110.02861; a 4-bit base below LoRA, arXiv 2305.14314)
 *    5  small updates are lost                             (no fp32 master copy)
 *    6  much slower, or visibly coarser                    (states that cross PCIe at every step; 4-bit weights)
 *   10  a smaller task                                     (each halving of what is read or written)
 *   16  another method                                     (LoRA in place of full fine-tuning)
 * The cost of a set is the sum. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 16, MOST_LEVELS = 8, MOST_ESTIMATES = 500, MOST_SEARCHES = 12, MOST_SETS = 1 + VRAM_JSON_ALTERNATIVES };

/* ------------------------------------------------------------------------------------------------- what may be changed -- */

typedef enum { WORD, ON, OFF, NUMBER, HALVES, OVER_GPUS, LAYERS } change_kind;

typedef struct {
    const char *path;
    change_kind kind;
    const char *word;   /* WORD */
    double number;      /* NUMBER, or OVER_GPUS with a second path: its value; HALVES: how often at most; LAYERS: which part of them */
    int cost;
    unsigned tasks;     /* bits of vram_task */
    const char *only;   /* "path=a|b": the choice is there only then, other changes counted in; NULL: always */
    const char *second; /* OVER_GPUS: the field that takes the number of GPUs, where path takes `number` */
} change;

#define INFERS (1u << VRAM_TASK_INFERENCE)
#define RL (1u << VRAM_TASK_RL)
#define TRAINS (1u << VRAM_TASK_TRAINING | RL)
#define WITH_LORA "training.method=lora"

/* Rows of one path are degrees of one change. Expensive ones first: a search that can do without them sees so early. */
static const change changes[] = {
    {"training.method", WORD, "lora", 0, 16, TRAINS, NULL, NULL},
    {"training.sequence_length", HALVES, NULL, 3, 10, 1u << VRAM_TASK_TRAINING, NULL, NULL},
    {"rl.response", HALVES, NULL, 3, 10, RL, NULL, NULL},
    {"parallel.offload", WORD, "optimizer", 0, 6, TRAINS, NULL, NULL},
    {"training.precision", WORD, "bf16", 0, 5, TRAINS, NULL, NULL},
    {"training.optimizer", WORD, "adamw-8bit", 0, 4, TRAINS, NULL, NULL},
    {"weights", WORD, "nf4-dq", 0, 4, TRAINS, WITH_LORA, NULL},
    {"rl.rollout_batch", HALVES, NULL, 6, 3, RL, "rl.algorithm=ppo|grpo|rloo", NULL},
    {"rl.offload_idle", ON, NULL, 0, 3, RL, NULL, NULL},
    {"training.checkpointing", WORD, "full", 0, 2, TRAINS, NULL, NULL},
    {"parallel.zero", OVER_GPUS, NULL, 3, 2, TRAINS, NULL, "parallel.data"},
    {"training.optimizer_impl", WORD, "fused", 0, 1, TRAINS, "training.optimizer=adamw|sgd|sgd-momentum", NULL},
    {"training.loss", WORD, "fused", 0, 1, TRAINS, NULL, NULL},
    {"training.attention", WORD, "flash", 0, 1, TRAINS, NULL, NULL},
    {"training.micro_batch", NUMBER, NULL, 1, 1, TRAINS, NULL, NULL},
    {"rl.share_weights", ON, NULL, 0, 1, RL, "rl.rollout_engine=vllm", NULL},
    {"rl.reference", WORD, "adapter", 0, 1, RL, WITH_LORA, NULL},
    {"llama_cpp.gpu_layers", LAYERS, NULL, 0.75, 11, INFERS, "engine=llama.cpp", NULL},
    {"llama_cpp.gpu_layers", LAYERS, NULL, 0.5, 14, INFERS, "engine=llama.cpp", NULL},
    {"llama_cpp.gpu_layers", LAYERS, NULL, 0.25, 17, INFERS, "engine=llama.cpp", NULL},
    {"context", HALVES, NULL, 3, 10, INFERS, NULL, NULL},
    {"weights", WORD, "fp8", 0, 3, INFERS, "engine=bare", NULL},
    {"weights", WORD, "int4", 0, 6, INFERS, "engine=bare", NULL},
    {"weights", WORD, "gptq-int8-g128", 0, 3, INFERS, "engine=transformers", NULL},
    {"weights", WORD, "nf4-dq", 0, 6, INFERS, "engine=transformers", NULL},
    {"weights", WORD, "fp8-dynamic", 0, 3, INFERS, "engine=vllm|sglang", NULL},
    {"weights", WORD, "awq-int4-g128", 0, 6, INFERS, "engine=vllm|sglang", NULL},
    {"weights", WORD, "gguf:Q8_0", 0, 3, INFERS, "engine=llama.cpp", NULL},
    {"weights", WORD, "gguf:Q6_K", 0, 4, INFERS, "engine=llama.cpp", NULL},
    {"weights", WORD, "gguf:Q4_K_M", 0, 6, INFERS, "engine=llama.cpp", NULL},
    {"weights", WORD, "gguf:Q3_K_M", 0, 8, INFERS, "engine=llama.cpp", NULL},
    {"weights", WORD, "gguf:Q2_K", 0, 10, INFERS, "engine=llama.cpp", NULL},
    {"batch", HALVES, NULL, 7, 3, INFERS, NULL, NULL},
    {"kv_cache", WORD, "fp8", 0, 3, INFERS, "engine=bare|vllm|sglang", NULL},
    {"kv_cache", WORD, "q8_0", 0, 3, INFERS, "engine=llama.cpp", NULL},
    {"vllm.cuda_graphs", OFF, NULL, 0, 2, INFERS, "engine=vllm", NULL},
    {"parallel.tensor", OVER_GPUS, NULL, 0, 1, INFERS, NULL, NULL},
};

typedef struct { const change *row; double number; int cost; } level;
typedef struct { const char *path; int levels; level level[MOST_LEVELS]; } group; /* level[i] is choice i + 1; choice 0 leaves the field as it is */

typedef unsigned char choice[MOST_GROUPS];
typedef struct { choice of; bool refused, fits, whole; double needed, peak; int phase; } tried; /* whole: with what the allocator keeps, though it does not fit */

typedef struct {
    vram_json *json;
    cJSON *tree, *plain;  /* the scenario as it was said; with every default filled in */
    vram_scenario *as_said;
    int groups;
    group group[MOST_GROUPS];
    int tries;
    tried *tried;         /* MOST_ESTIMATES of them */
    choice now, best;
    unsigned without;     /* groups that this search leaves alone */
    choice least;         /* see find_least() */
    int best_cost;        /* -1: nothing found yet */
} search;

/* ---------------------------------------------------------------------------------------------------- trying choices -- */

static const cJSON *value_of(const cJSON *tree, const char *path)
{
    const char *dot = strchr(path, '.');
    char section[32] = "";
    if (!dot || (size_t)(dot - path) >= sizeof section) return cJSON_GetObjectItemCaseSensitive(tree, path);
    memcpy(section, path, (size_t)(dot - path));
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(tree, section), dot + 1);
}

static double number_of(const search *q, const char *path)
{
    vram_json_range range;
    return vram_json_range_of(q->as_said, path, &range) ? range.now : 0;
}

static cJSON *value_made(const level *l)
{
    switch (l->row->kind) {
    case WORD: return cJSON_CreateString(l->row->word);
    case ON: return cJSON_CreateTrue();
    case OFF: return cJSON_CreateFalse();
    default: return cJSON_CreateNumber(l->number);
    }
}

/* Does "path=a|b" hold, the choices up to `groups` counted in? */
static bool holds(const search *q, const char *only, const choice of, int groups)
{
    const char *equals = only ? strchr(only, '=') : NULL, *word = NULL;
    char path[32] = "";
    if (!equals) return true;
    memcpy(path, only, (size_t)(equals - only));
    for (int g = 0; g < groups; g++)
        if (of[g] && strcmp(q->group[g].path, path) == 0) word = q->group[g].level[of[g] - 1].row->word;
    const cJSON *said = value_of(q->plain, path);
    if (!word) word = cJSON_IsString(said) ? said->valuestring : "";
    for (const char *p = equals; p; p = strchr(p + 1, '|'))
        if (strncmp(p + 1, word, strlen(word)) == 0 && (p[1 + strlen(word)] == '|' || p[1 + strlen(word)] == '\0')) return true;
    return false;
}

static void read(tried *t, const vram_report *r)
{
    t->refused = !r;
    t->fits = r && r->fit[0].verdict != VRAM_VERDICT_NO;
    t->needed = r ? r->fit[0].needed_bytes : 0;
    t->peak = r ? r->peak_bytes : 0;
    t->phase = r ? (int)r->peak : 0;
}

static void run(search *q, tried *t)
{
    vram_json_swap swap[2 * MOST_GROUPS];
    vram_error error;
    int n = 0;
    for (int g = 0; g < q->groups; g++) {
        if (!t->of[g]) continue;
        const level *l = &q->group[g].level[t->of[g] - 1];
        swap[n++] = vram_json_put(q->tree, l->row->path, value_made(l));
        if (l->row->second) swap[n++] = vram_json_put(q->tree, l->row->second, cJSON_CreateNumber((double)q->as_said->gpus));
    }
    read(t, vram_json_run(q->json, q->tree, !t->whole, &error));
    while (n > 0) vram_json_put_back(q->json, &swap[--n]);
}

/* The estimate with these choices, made once; NULL when there have been enough. */
static tried *tried_with(search *q, const choice of)
{
    for (int i = 0; i < q->tries; i++)
        if (memcmp(q->tried[i].of, of, sizeof(choice)) == 0) return &q->tried[i];
    if (q->tries == MOST_ESTIMATES) return NULL;
    tried *t = &q->tried[q->tries++];
    memcpy(t->of, of, sizeof(choice));
    run(q, t);
    return t;
}

static const tried *attempt(search *q, const choice of) { return tried_with(q, of); }

/* The same with every byte, to be shown: whether it fits is known without what the allocator would keep of a card that is too small. */
static const tried *attempt_whole(search *q, const choice of)
{
    tried *t = tried_with(q, of);
    if (!t || t->whole || t->fits || t->refused) return t;
    t->whole = true;
    run(q, t);
    return t;
}

/* -------------------------------------------------------------------------------------------- which changes there are -- */

static void print_value(const cJSON *value, char out[40])
{
    char *text = value ? cJSON_PrintBuffered(value, 40, 0) : NULL;
    snprintf(out, 40, "%s", text && strlen(text) < 40 ? text : "null");
    cJSON_free(text);
}

static bool same_value(const search *q, const level *l)
{
    char made[40], said[40];
    cJSON *value = value_made(l);
    print_value(value, made);
    print_value(value_of(q->plain, l->row->path), said);
    cJSON_Delete(value);
    return strcmp(made, said) == 0;
}

static void add_level(search *q, const change *row, double number, int cost)
{
    group *g = q->groups ? &q->group[q->groups - 1] : NULL;
    level l = {row, number, cost};
    if (same_value(q, &l)) return;
    if (!g || strcmp(g->path, row->path) != 0) {
        if (q->groups == MOST_GROUPS) return;
        g = &q->group[q->groups++];
        g->path = row->path;
        g->levels = 0;
    }
    if (g->levels < MOST_LEVELS) g->level[g->levels++] = l;
}

/* GPUs that no parallelism uses yet are taken by this one; what is divided already stays so. */
static bool spreads(const search *q)
{
    const vram_scenario *s = q->as_said;
    return s->gpus > 1 && s->parallel.tensor == 1 && s->parallel.pipeline == 1 && s->parallel.context == 1 && (s->parallel.data == 1 || s->parallel.data == s->gpus);
}

static void add_change(search *q, const change *row)
{
    double now = number_of(q, row->path);
    switch (row->kind) {
    case HALVES:
        for (int i = 1; i <= (int)row->number && now >= 2; i++) add_level(q, row, now = vram_floor_div(now, 2), i * row->cost);
        break;
    case OVER_GPUS:
        if (spreads(q) && (row->second || q->as_said->parallel.data == 1)) add_level(q, row, row->second ? row->number : (double)q->as_said->gpus, row->cost);
        break;
    case LAYERS: add_level(q, row, vram_floor_div((double)q->as_said->model.layers * row->number, 1), row->cost); break;
    default: add_level(q, row, row->number, row->cost);
    }
}

static bool is_for_lora(const change *row) { return row->only && strcmp(row->only, WITH_LORA) == 0; }

/* May choice i of group g be taken after these? Not what this search leaves alone, nor what costs as much as the best set that is known. */
static bool may(const search *q, int g, int i, int cost, const choice of)
{
    const level *l = &q->group[g].level[i];
    return !(q->without & (1u << g)) && (q->best_cost < 0 || cost + l->cost < q->best_cost) && holds(q, l->row->only, of, g);
}

/* The first `decided` choices of these, which cost so much, and every other change that may be, each at its strongest */
static void strengthen(const search *q, int decided, int cost, choice most)
{
    for (int g = decided; g < q->groups; g++) {
        most[g] = 0;
        for (int i = 0; i < q->group[g].levels; i++)
            if (may(q, g, i, cost, most)) most[g] = (unsigned char)(i + 1);
    }
}

/* What is needed with these choices but that of a group; 0 when it is refused. Choices are not yet numbered for good: nothing is remembered. */
static double needed_with(search *q, const choice company, int g, int chosen)
{
    tried t = {.fits = false};
    memcpy(t.of, company, sizeof(choice));
    t.of[g] = (unsigned char)chosen;
    run(q, &t);
    return t.refused ? 0 : t.needed;
}

static bool no_worse(search *q, const choice company, int g, int i, double without)
{
    double with = needed_with(q, company, g, i + 1);
    return with > 0 && with <= without;
}

/* A degree that is refused, or that needs more than without it, is none: by itself (with LoRA where it is there for LoRA only), and beside all others.
 * Recomputing, say, saves nothing by itself where the step is the peak, and the allocator may even keep more. */
static void drop_useless(search *q)
{
    const choice alone = {0}, with_lora = {1};
    choice company = {0};
    double nothing = needed_with(q, alone, 0, 0), lora = 0;
    strengthen(q, 0, 0, company);
    for (int g = 0; g < q->groups; g++) {
        group *of = &q->group[g];
        double others = -1;
        int kept = 0;
        for (int i = 0; i < of->levels; i++) {
            bool for_lora = is_for_lora(of->level[i].row) && !holds(q, WITH_LORA, alone, 0);
            if (for_lora && lora == 0) lora = needed_with(q, with_lora, 0, 1);
            bool useful = no_worse(q, for_lora ? with_lora : alone, g, i, for_lora ? lora : nothing);
            if (!useful && others < 0) others = needed_with(q, company, g, 0);
            if (useful || no_worse(q, company, g, i, others)) of->level[kept++] = of->level[i];
            else if (company[g] > kept) company[g] = (unsigned char)(company[g] - 1);
        }
        of->levels = kept;
    }
}

static const tried *without_one(search *q, const choice from, int g, choice without)
{
    memcpy(without, from, sizeof(choice));
    without[g] = 0;
    for (int k = g + 1; k < q->groups; k++)
        if (without[k] && !holds(q, q->group[k].level[without[k] - 1].row->only, without, k)) without[k] = 0;
    return attempt(q, without);
}

/* Of every change at its strongest, without those that cost memory beside the others, the worst first: the least that can be needed */
static void find_least(search *q)
{
    strengthen(q, 0, 0, q->least);
    const tried *least = attempt(q, q->least);
    for (bool better = least != NULL; better;) {
        choice next;
        better = false;
        for (int g = 0; g < q->groups; g++) {
            choice without;
            const tried *t = q->least[g] ? without_one(q, q->least, g, without) : NULL;
            if (!t || t->refused || (!least->refused && t->needed >= least->needed)) continue;
            memcpy(next, without, sizeof(choice));
            least = t;
            better = true;
        }
        if (better) memcpy(q->least, next, sizeof(choice));
    }
}

static void find_changes(search *q)
{
    choice none = {0};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const change *row = &changes[i];
        bool later = is_for_lora(row) && q->groups && strcmp(q->group[0].path, "training.method") == 0;
        if ((row->tasks & 1u << q->as_said->task) && (later || holds(q, row->only, none, 0))) add_change(q, row);
    }
    drop_useless(q);
    find_least(q);
}

/* -------------------------------------------------------------------------------------------------- the cheapest set -- */

/* Could this prefix of choices still lead to a set that fits and costs less than the best? It cannot when it does not fit even with every other change
 * that it could pay for, each at its strongest, nor without those that cost memory beside others. */
static bool promising(search *q, int decided, int cost)
{
    choice most = {0};
    memcpy(most, q->now, (size_t)decided);
    strengthen(q, decided, cost, most);
    const tried *t = attempt(q, most);
    if (t && !t->fits && !t->refused) {
        for (int g = decided; g < q->groups; g++)
            if (most[g] && !q->least[g]) most[g] = 0;
        t = attempt(q, most);
    }
    return t && (t->fits || (t->refused && decided < q->groups));
}

/* Branch and bound over the groups; the first of equally cheap sets stays. */
static void descend(search *q, int g, int cost)
{
    if (!promising(q, g, cost)) return;
    if (g == q->groups) {
        memcpy(q->best, q->now, sizeof(choice));
        q->best_cost = cost;
        return;
    }
    for (int i = -1; i < q->group[g].levels; i++) {
        if (i >= 0 && !may(q, g, i, cost, q->now)) continue;
        q->now[g] = (unsigned char)(i + 1);
        descend(q, g + 1, cost + (i < 0 ? 0 : q->group[g].level[i].cost));
        q->now[g] = 0;
    }
}

static int cost_of(const search *q, const choice of)
{
    int cost = 0;
    for (int g = 0; g < q->groups; g++) cost += of[g] ? q->group[g].level[of[g] - 1].cost : 0;
    return cost;
}

/* What fits without one of its changes, too, goes without it: changes are no sum, and the search tries them in one order. */
static void make_lean(search *q)
{
    for (int g = 0; g < q->groups; g++) {
        choice without;
        const tried *t = q->best[g] ? without_one(q, q->best, g, without) : NULL;
        if (t && t->fits) memcpy(q->best, without, sizeof(choice));
    }
    q->best_cost = cost_of(q, q->best);
}

static bool cheapest(search *q, unsigned without)
{
    q->without = without;
    q->best_cost = -1;
    memset(q->now, 0, sizeof q->now);
    descend(q, 0, 0);
    if (q->best_cost >= 0) make_lean(q);
    return q->best_cost >= 0;
}

/* ------------------------------------------------------------------------------------------------------- what it saves -- */

static void write_change(const search *q, vram_json_change *out, const char *path, cJSON *value)
{
    snprintf(out->path, sizeof out->path, "%s", path);
    print_value(value_of(q->plain, path), out->from);
    print_value(value, out->value);
    out->saves_bytes = 0;
    cJSON_Delete(value);
}

/* The set in an order in which each change saves the most that is left to save: the savings add up to the whole. What is only there for LoRA comes
 * after it. A change that saves nothing before others have come (another phase is the peak; LoRA for the sake of a 4-bit base) saves 0: what it costs is
 * taken off the next one's saving. */
static void write_set(search *q, const choice chosen, int cost, vram_json_change_set *set)
{
    choice so_far = {0};
    const tried *all = attempt_whole(q, chosen), *said = attempt_whole(q, so_far);
    double before = said ? said->needed : 0;
    *set = (vram_json_change_set){.cost = cost, .bytes = all ? all->peak : 0, .needed_bytes = all ? all->needed : 0};
    for (;;) {
        int next = -1;
        double least = 0;
        for (int g = 0; g < q->groups; g++) {
            if (!chosen[g] || so_far[g] || !holds(q, q->group[g].level[chosen[g] - 1].row->only, so_far, g)) continue;
            so_far[g] = chosen[g];
            const tried *t = attempt_whole(q, so_far);
            so_far[g] = 0;
            if (t && !t->refused && (next < 0 || t->needed < least)) next = g, least = t->needed;
        }
        if (next < 0 || set->changes + 2 > VRAM_JSON_CHANGES) return;
        const level *l = &q->group[next].level[chosen[next] - 1];
        if (l->row->second && number_of(q, l->row->second) != (double)q->as_said->gpus) write_change(q, &set->change[set->changes++], l->row->second, vram_json_whole((double)q->as_said->gpus));
        write_change(q, &set->change[set->changes], l->row->path, value_made(l));
        set->change[set->changes++].saves_bytes = vram_max(0, before - least);
        so_far[next] = chosen[next];
        before = vram_min(before, least);
    }
}

/* --------------------------------------------------------------------------------------------- other ways to the same -- */

typedef struct { choice of; int cost; } found_set;

/* Whether a set holds all of another: then it is no other way. */
static bool contains(const search *q, const choice larger, const choice smaller)
{
    for (int g = 0; g < q->groups; g++)
        if (smaller[g] && larger[g] < smaller[g]) return false;
    return true;
}

static bool is_new(const search *q, const found_set sets[], int n)
{
    for (int i = 0; i < n; i++)
        if (contains(q, q->best, sets[i].of)) return false;
    return true;
}

/* Without one change of a set that was found, what is cheapest then? Asked of the cheapest set first, then of the others. */
static int other_ways(search *q, found_set sets[MOST_SETS])
{
    unsigned asked[MOST_SEARCHES] = {0}, of[MOST_SETS] = {0};
    int n = 1, searches = 0;
    for (int i = 0; i < n; i++)
        for (int g = 0; g < q->groups && n < MOST_SETS && searches < MOST_SEARCHES; g++) {
            unsigned without = of[i] | 1u << g;
            bool before = !sets[i].of[g];
            for (int k = 0; k < searches; k++) before |= asked[k] == without;
            if (before) continue;
            asked[searches++] = without;
            if (!cheapest(q, without) || !is_new(q, sets, n)) continue;
            memcpy(sets[n].of, q->best, sizeof(choice));
            sets[n].cost = q->best_cost;
            of[n++] = without;
        }
    return n;
}

static void sort_by_cost(found_set sets[], int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && sets[k].cost < sets[k - 1].cost; k--) {
            found_set other = sets[k];
            sets[k] = sets[k - 1];
            sets[k - 1] = other;
        }
}

static void write_sets(search *q, vram_json_claim_answer *answer)
{
    found_set sets[MOST_SETS] = {{{0}, 0}};
    memcpy(sets[0].of, q->best, sizeof(choice));
    sets[0].cost = q->best_cost;
    int n = other_ways(q, sets);
    sort_by_cost(sets + 1, n - 1);
    for (int i = 0; i < n; i++) write_set(q, sets[i].of, sets[i].cost, &answer->set[i]);
    answer->sets = n;
}

static void judge(search *q, const tried *said, vram_json_claim_answer *answer)
{
    answer->bytes = said->peak;
    answer->needed_bytes = said->needed;
    answer->usable_bytes = q->as_said->gpu.usable_bytes;
    answer->phase = said->phase;
    answer->gpus = (double)q->as_said->gpus;
    answer->verdict = VRAM_JSON_POSSIBLE;
    if (said->fits) return;
    find_changes(q);
    const tried *least = attempt(q, q->least);
    bool found = cheapest(q, 0);
    if (!found && least && least->fits) { /* the search has ended before it came to this */
        memcpy(q->best, q->least, sizeof(choice));
        make_lean(q);
        found = true;
    }
    answer->verdict = found ? VRAM_JSON_ONLY_IF : VRAM_JSON_NO;
    if (found) write_sets(q, answer);
    else if (least && !least->refused) answer->least_needed_bytes = attempt_whole(q, q->least)->needed;
}

bool vram_json_claim_tree(vram_json *json, cJSON *scenario, vram_scenario *s, vram_json_claim_answer *answer, vram_error *error)
{
    memset(answer, 0, sizeof *answer);
    const vram_report *report = vram_json_scenario_read(json, scenario, s, &(vram_json_configs){0}, error) ? vram_json_run(json, scenario, false, error) : NULL;
    if (!report) return false;
    tried said = {0};
    read(&said, report);
    search *q = calloc(1, sizeof *q);
    tried *room = q ? calloc(MOST_ESTIMATES, sizeof *room) : NULL;
    if (room) {
        q->json = json, q->tree = scenario, q->as_said = s, q->tried = room, q->best_cost = -1;
        q->plain = vram_json_scenario_write(s, scenario);
        judge(q, &said, answer);
        cJSON_Delete(q->plain);
    }
    free(room);
    free(q);
    return room || vram_fail(error, VRAM_ERROR_INTERNAL, "", VRAM_NO_NUMBER, 1, 0);
}

/* --------------------------------------------------------------------------------------------------------------- JSON -- */

static void add_set(cJSON *to, const vram_json_change_set *set)
{
    cJSON *rows = cJSON_AddArrayToObject(to, "changes");
    for (int i = 0; i < set->changes; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "path", set->change[i].path);
        cJSON_AddRawToObject(row, "from", set->change[i].from);
        cJSON_AddRawToObject(row, "value", set->change[i].value);
        cJSON_AddItemToObject(row, "saves_bytes", vram_json_whole(set->change[i].saves_bytes));
        cJSON_AddItemToArray(rows, row);
    }
    if (!set->changes) return;
    cJSON_AddNumberToObject(to, "cost", set->cost);
    cJSON_AddItemToObject(to, "changed_bytes", vram_json_whole(set->bytes));
    cJSON_AddItemToObject(to, "changed_needed_bytes", vram_json_whole(set->needed_bytes));
}

cJSON *vram_json_claim_write(const vram_json_claim_answer *a)
{
    static const char *const verdicts[] = {"possible", "only_if", "no"};
    cJSON *out = cJSON_CreateObject(), *claim = cJSON_AddObjectToObject(out, "claim"), *others;
    cJSON_AddStringToObject(claim, "verdict", verdicts[a->verdict]);
    cJSON_AddItemToObject(claim, "bytes", vram_json_whole(a->bytes));
    cJSON_AddItemToObject(claim, "needed_bytes", vram_json_whole(a->needed_bytes));
    cJSON_AddItemToObject(claim, "usable_bytes", vram_json_whole(a->usable_bytes));
    cJSON_AddStringToObject(claim, "peak_phase", vram_name(VRAM_LIST_PHASE, a->phase));
    add_set(claim, &a->set[0]);
    others = cJSON_AddArrayToObject(claim, "alternatives");
    for (int i = 1; i < a->sets; i++) {
        cJSON *set = cJSON_CreateObject();
        add_set(set, &a->set[i]);
        cJSON_AddItemToArray(others, set);
    }
    if (a->verdict == VRAM_JSON_NO) cJSON_AddItemToObject(claim, "least_needed_bytes", vram_json_whole(a->least_needed_bytes));
    return out;
}
