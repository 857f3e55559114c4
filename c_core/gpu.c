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
    vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_CONTEXT, VRAM_WHAT_CUDA_CONTEXT, VRAM_ALLOWANCE, VRAM_SOURCE_GPU_LOGS, report->phases),
               VRAM_SYMBOL_BYTES, s->gpu.context_bytes);
}

/* Whole segments without a tensor go back to the driver before PyTorch reports that memory has run out. */
static bool given_back(const vram_entry *e) { return e->component == VRAM_COMPONENT_FRAGMENTATION && e->what == VRAM_WHAT_ALLOCATOR_CACHE; }

/* Bytes that must find room in `usable`: the peak without the context, which usable has already given away. */
static double needed(const vram_report *report)
{
    double most = 0;
    for (int p = 0; p < VRAM_PHASE_COUNT; p++) {
        double sum = 0;
        for (int i = 0; i < report->entries; i++)
            if ((report->entry[i].phases & VRAM_BIT(p)) && report->entry[i].component != VRAM_COMPONENT_CONTEXT && !given_back(&report->entry[i])) sum += report->entry[i].bytes;
        most = vram_max(most, sum);
    }
    return most;
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

/* Cards needed is the plainest question: so many of them that their memories together hold what all GPUs of the scenario hold together. It divides what
 * may not divide (activations); how to spread a model really is the plan's business. Sequences beyond the engine's limit need replicas. */
static int64_t cards(const vram_scenario *s, const demand *d, const vram_pool *pool)
{
    double gpus = (double)s->gpus, replicas = pool->first_bytes > 0 ? vram_ceil_div(vram_sequences_on_gpu(s), pool->sequences_limit) : 1;
    if (d->room <= 0) return 0;
    return d->holds ? s->gpus : (int64_t)vram_max(vram_max(gpus * replicas, gpus + 1), vram_ceil_div(d->bytes * gpus, d->room));
}

/* Of a pipeline's stages the one with the largest number here is the fullest: one that does not fit, else the highest. */
double vram_gpu_fullness(const vram_scenario *s, const vram_report *report)
{
    double bytes = needed(report);
    return bytes > s->gpu.usable_bytes ? VRAM_LARGEST + bytes : report->peak_bytes;
}

static void fit(const vram_scenario *s, const vram_gpu *gpu, double bytes, vram_report *report)
{
    if (report->fits >= VRAM_MAX_FITS) return;
    vram_fit *f = &report->fit[report->fits++];
    demand d = demand_on(s, gpu, bytes, &report->pool);
    memcpy(f->gpu, gpu->id, sizeof f->gpu);
    f->usable_bytes = gpu->usable_bytes;
    f->needed_bytes = d.bytes;
    f->headroom_bytes = d.room - d.bytes;
    bool never = !d.holds && only_copies(s, report, d.room);
    d.holds &= (double)s->gpus >= vram_gpus_of_degrees(s);
    f->verdict = !d.holds ? VRAM_VERDICT_NO : d.bytes > TIGHT * d.room ? VRAM_VERDICT_TIGHT : VRAM_VERDICT_FITS;
    f->gpus_needed = never ? 0 : cards(s, &d, &report->pool);
    if (f->gpus_needed > 0) f->gpus_needed = (int64_t)vram_max((double)f->gpus_needed, vram_gpus_of_degrees(s));
}

void vram_gpu_fits(const vram_scenario *s, const vram_gpu *gpus, int count, vram_report *report)
{
    double bytes = needed(report);
    report->fits = 0;
    fit(s, &s->gpu, bytes, report);
    for (int i = 0; i < count; i++)
        if (strcmp(gpus[i].id, s->gpu.id) != 0) fit(s, &gpus[i], bytes, report);
}
