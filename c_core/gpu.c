/* gpu.c -- readings of the ledger against cards: what does a process find free there, does the estimate fit, how many cards would. */
#include "core.h"

#include <stddef.h>
#include <string.h>

static const double TIGHT = 0.92; /* above this share of the usable memory an estimate that fits is called tight */

/* The context is drawn on the card as already taken (usable = total - context), so it is no entry of the estimate's sum against
 * `usable`; with overheads it is shown as an entry of its own, and added to the usable side again by vram_gpu_fits(). */
void vram_gpu_overheads(const vram_scenario *s, vram_report *report)
{
    if (!s->overheads || s->gpu.context_bytes <= 0) return;
    vram_what what = vram_is_nvidia(&s->gpu) ? VRAM_WHAT_CUDA_CONTEXT : vram_is_amd(&s->gpu) ? VRAM_WHAT_HIP_CONTEXT : VRAM_WHAT_DRIVER_CONTEXT;
    vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_CONTEXT, what, VRAM_ALLOWANCE, VRAM_SOURCE_GPU_LOGS, report->phases),
               VRAM_SYMBOL_BYTES, s->gpu.context_bytes);
}

/* Whole segments without a tensor go back to the driver before PyTorch reports that memory has run out. */
static bool given_back(const vram_entry *e) { return e->component == VRAM_COMPONENT_FRAGMENTATION && e->what == VRAM_WHAT_ALLOCATOR_CACHE; }

/* Does tensor or pipeline parallelism divide the work itself? Megatron's ranks do so; elsewhere ZeRO and FSDP share out states, and each GPU computes as much as one alone. */
bool vram_divides_work(const vram_scenario *s)
{
    bool plain = s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN && s->parallel.tensor * s->parallel.pipeline > 1;
    return s->task == VRAM_TASK_INFERENCE || plain || vram_is_megatron(s, &s->model);
}

/* Of a training, what its own sequences make stays however many GPUs share the states; copies of weights among it come and go with them. */
static bool stays(const vram_entry *e)
{
    const unsigned own = VRAM_BIT(VRAM_COMPONENT_ACTIVATIONS) | VRAM_BIT(VRAM_COMPONENT_LOGITS) | VRAM_BIT(VRAM_COMPONENT_KV_CACHE) | VRAM_BIT(VRAM_COMPONENT_RECURRENT_STATE);
    bool of_weights = e->what == VRAM_WHAT_AUTOCAST_WEIGHTS || e->what == VRAM_WHAT_DEQUANTISED || e->what == VRAM_WHAT_DORA_WEIGHT || e->what == VRAM_WHAT_DORA_BASE || e->what == VRAM_WHAT_MERGED_EXPERTS;
    return (own & VRAM_BIT(e->component)) && !of_weights;
}

/* What each rank has but its own part of */
static bool is_shared_out(const vram_scenario *s, const vram_entry *e)
{
    if (s->task == VRAM_TASK_INFERENCE) return e->component == VRAM_COMPONENT_WEIGHTS;
    return vram_zero_of(s) > 0 && (e->component == VRAM_COMPONENT_OPTIMIZER || e->component == VRAM_COMPONENT_MASTER_WEIGHTS);
}

/* Bytes that must find room in `usable` in a phase: all but the context, which usable has already given away. Of them those that no division takes off a
 * GPU; those that all GPUs hold together however they share (of a training its states: buffers
 * depend on who shares, and so do 16-bit weights beside a master copy and gradients in two types); and those that are shared out now. */
typedef struct { double bytes, stay, together, shared; } phase_need;
typedef struct { phase_need phase[VRAM_PHASE_COUNT]; double most; } needs;

static void count(const vram_scenario *s, const vram_entry *e, bool work, phase_need *at)
{
    const unsigned states = VRAM_BIT(VRAM_COMPONENT_WEIGHTS) | VRAM_BIT(VRAM_COMPONENT_ADAPTERS) | VRAM_BIT(VRAM_COMPONENT_GRADIENTS) | VRAM_BIT(VRAM_COMPONENT_MASTER_WEIGHTS) | VRAM_BIT(VRAM_COMPONENT_OPTIMIZER);
    bool beside_master = e->component == VRAM_COMPONENT_WEIGHTS && s->training.precision == VRAM_PRECISION_MIXED && s->training.method == VRAM_METHOD_FULL;
    bool twice = e->component == VRAM_COMPONENT_GRADIENTS && vram_zero_of(s) > 0 && vram_zero_of(s) < 3;
    at->bytes += e->bytes;
    if (work) at->together += e->bytes;
    else if (stays(e)) at->stay += e->bytes;
    else if ((states & VRAM_BIT(e->component)) && !beside_master && !twice) at->together += e->bytes;
    if (is_shared_out(s, e)) at->shared += e->bytes;
}

static needs needed(const vram_scenario *s, const vram_report *report)
{
    needs n = {.most = 0};
    bool work = vram_divides_work(s);
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        for (int i = 0; i < report->entries; i++) {
            const vram_entry *e = &report->entry[i];
            if ((e->phases & VRAM_BIT(p)) && e->component != VRAM_COMPONENT_CONTEXT && !given_back(e)) count(s, e, work, &n.phase[p]);
        }
        n.most = vram_max(n.most, n.phase[p].bytes);
    }
    return n;
}

/* What must find room on a card, and the room: of an engine with a pool its budget, of which its setting leaves the rest of the card alone. */
typedef struct { double bytes, room; bool holds; } demand;

static demand demand_on(const vram_scenario *s, const vram_gpu *gpu, double bytes, const vram_pool *pool)
{
    demand d = {bytes, gpu->usable_bytes, bytes <= gpu->usable_bytes};
    if (pool->first_bytes <= 0) return d;
    double sequences = vram_sequences_on_gpu(s), budget = vram_pool_budget(s, gpu);
    d.holds &= vram_pool_sequences(pool, budget) >= sequences;
    double wanted = pool->fixed_bytes + pool->first_bytes + (sequences - 1) * pool->sequence_bytes; /* shares of a card need not be whole bytes */
    if (gpu->usable_bytes - bytes < budget - wanted) return d;
    return (demand){vram_ceil_div(wanted, 1), vram_floor_div(budget, 1), d.holds};
}

/* GPUs beyond those that one copy of the model is divided over hold further copies, or stand idle: more of them take nothing off the others. ZeRO and expert
 * parallelism share out over the copies; replicas of a server share the sequences, not the weights. */
static bool only_copies(const vram_scenario *s, const vram_report *report, double room)
{
    double divided = (double)s->parallel.tensor * (double)s->parallel.context * (double)s->parallel.pipeline;
    if ((double)s->gpus <= divided || s->parallel.expert > 1) return false;
    if (s->task != VRAM_TASK_INFERENCE) return s->parallel.zero == 0;
    return vram_bytes_alive(report, VRAM_PHASE_LOAD, VRAM_BIT(VRAM_COMPONENT_WEIGHTS)) > room;
}

/* At least so many cards: what is shared out now is as much in all as all have of it, all else is counted once; what stays is on each. 0: no number of them.
 * How many really do is the search's business (json/divide.c). Sequences beyond the engine's limit need replicas. */
static double at_least(const vram_scenario *s, const needs *n, const demand *d, const vram_pool *pool)
{
    double ranks = s->task == VRAM_TASK_INFERENCE ? (double)s->parallel.tensor * (double)s->parallel.pipeline : vram_data_ranks(s);
    double most = pool->first_bytes > 0 ? vram_max(vram_ceil_div((double)s->batch, pool->sequences_limit), vram_ceil_div(d->bytes, d->room)) : 1;
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        const phase_need *at = &n->phase[p];
        if (at->stay >= d->room) return 0;
        most = vram_max(most, vram_ceil_div(at->together + at->shared * (ranks - 1), d->room - at->stay));
    }
    return most;
}

/* Of a pipeline's stages the one with the largest number here is the fullest: the one that wants the largest card; of servers, whose stages agree on what they
 * hold, one that does not fit, else the highest. */
double vram_gpu_fullness(const vram_scenario *s, const vram_report *report)
{
    double bytes = needed(s, report).most;
    if (s->task != VRAM_TASK_INFERENCE) return bytes;
    return bytes > s->gpu.usable_bytes ? VRAM_LARGEST + bytes : report->peak_bytes;
}

/* More than there are, where as many could not be divided better. */
static int64_t cards(const vram_scenario *s, const needs *n, const demand *d, const vram_pool *pool)
{
    double product = vram_gpus_of_degrees(s), least = d->room > 0 ? at_least(s, n, d, pool) : 0;
    if (d->holds) return (int64_t)vram_max((double)s->gpus, product);
    bool best = product <= 1 || (!vram_divides_work(s) && vram_zero_of(s) == 3);
    return least > 0 ? (int64_t)vram_max(least, best ? product + 1 : 2) : 0;
}

static void fit(const vram_scenario *s, const vram_gpu *gpu, const needs *n, vram_report *report)
{
    if (report->fits >= VRAM_MAX_FITS) return;
    vram_fit *f = &report->fit[report->fits++];
    demand d = demand_on(s, gpu, n->most, &report->pool);
    memcpy(f->gpu, gpu->id, sizeof f->gpu);
    f->usable_bytes = gpu->usable_bytes;
    f->needed_bytes = d.bytes;
    f->headroom_bytes = d.room - d.bytes;
    bool never = !d.holds && only_copies(s, report, d.room);
    f->gpus_needed = never ? 0 : cards(s, n, &d, &report->pool);
    d.holds &= (double)s->gpus >= vram_gpus_of_degrees(s);
    f->verdict = !d.holds ? VRAM_VERDICT_NO : d.bytes > TIGHT * d.room ? VRAM_VERDICT_TIGHT : VRAM_VERDICT_FITS;
}

void vram_gpu_fits(const vram_scenario *s, const vram_gpu *gpus, int count, vram_report *report)
{
    needs n = needed(s, report);
    report->fits = 0;
    fit(s, &s->gpu, &n, report);
    for (int i = 0; i < count; i++)
        if (strcmp(gpus[i].id, s->gpu.id) != 0) fit(s, &gpus[i], &n, report);
}
