/* reserve.c -- what PyTorch's caching allocator keeps from the driver beyond the tensors of the fullest moment.
 *
 * A training step on one GPU, under DDP or FSDP, is played tensor by tensor (play.c). Of any other the ledger says which tensors stand at the peak of each phase,
 * and two steps from a cold start are played over these sets, phase by phase: what a phase no longer has is given back, what it has anew is taken, from large to
 * small. What comes and goes within a phase below its peak is then not seen, nor what stands in all phases: hence an allowance. */
#include "play.h"

#include <stddef.h>
#include <string.h>

static const double MOST_PLAYED = 70368744177664; /* 2^46 bytes: more than a block of segments.c may have, and than any card */

enum { KINDS = 256, MOST = 512, NONE = VRAM_NO_BLOCK }; /* MOST: tensors of a kind that are played one by one */

typedef struct { unsigned char component; short what; double bytes, want[VRAM_PHASE_COUNT]; int held; short first; } kind;

/* ---------------------------------------------------------------------------------------------- from entries to tensors -- */

/* Trained matrices: gradients stand in the ledger as one product, and so do the denominators of all of them (foreach) */
static double matrices(const vram_scenario *s)
{
    double sum = 0;
    for (int i = 0; i < s->model.tensors; i++) {
        const vram_tensor t = vram_rank_tensor(s, &s->model, &s->model.tensor[i]);
        if (t.columns > 1 && !t.buffer) sum += (double)t.layers * (t.stacked ? 1 : (double)t.copies);
    }
    return vram_max(sum, 1);
}

static double tensors_of(const vram_scenario *s, const vram_entry *e, double trained)
{
    double count = 1;
    if (e->what == VRAM_WHAT_STEP_TEMPORARY && s->training.optimizer_impl == VRAM_OPTIMIZER_IMPL_FOREACH) return trained;
    if (e->component == VRAM_COMPONENT_GRADIENTS && e->factors > 0 && e->factor[0].symbol == VRAM_SYMBOL_PARAMETERS) return trained;
    for (int i = 0; i < e->factors; i++)
        if (e->factor[i].symbol == VRAM_SYMBOL_COPIES || e->factor[i].symbol == VRAM_SYMBOL_LAYERS || e->factor[i].symbol == VRAM_SYMBOL_KEY_AND_VALUE) count *= e->factor[i].value;
    return vram_max(count, 1);
}

/* From large to small */
static kind *kind_of(kind kinds[], int *count, const vram_entry *e, double bytes)
{
    int at = 0;
    while (at < *count && kinds[at].bytes > bytes) at++;
    for (int i = at; i < *count && kinds[i].bytes >= bytes; i++)
        if (kinds[i].component == e->component && kinds[i].what == (short)e->what) return &kinds[i];
    if (*count >= KINDS) return NULL;
    memmove(&kinds[at + 1], &kinds[at], (size_t)(*count - at) * sizeof kinds[0]);
    kinds[at] = (kind){.component = (unsigned char)e->component, .what = (short)e->what, .bytes = bytes, .first = NONE};
    ++*count;
    return &kinds[at];
}

/* Backward begins at the loss: the fp32 logits are gone, the gradient of the picked words and that of the logits are there, beside what stood at
 * the loss. The ledger has this instant only where it is backward's fullest. */
enum { START = VRAM_PHASE_COUNT };

static double wanted(const kind *k, int ph)
{
    if (ph != START) return k->want[ph];
    if (k->what == VRAM_WHAT_LOGITS_FP32) return 0;
    return k->want[VRAM_PHASE_LOSS] + (k->what == VRAM_WHAT_LOG_PROBABILITIES ? 2 : 0);
}

/* Returns the bytes of tensors that are only counted: small ones, or too many. */
static double phase(vram_segments *p, int count, kind kinds[], int ph)
{
    double apart = 0;
    for (int i = 0; i < count; i++)
        while (kinds[i].held > vram_min(wanted(&kinds[i], ph), MOST)) {
            short n = kinds[i].first;
            kinds[i].first = p->block[n].next;
            kinds[i].held--;
            vram_segments_give(p, n);
        }
    for (int i = 0; i < count; i++) {
        kind *k = &kinds[i];
        while (k->bytes > VRAM_SMALL && k->held < vram_min(wanted(k, ph), MOST)) {
            short n = vram_segments_take(p, k->bytes, 0);
            if (n == NONE) break;
            p->block[n].next = k->first;
            k->first = n;
            k->held++;
        }
        apart += (wanted(k, ph) - k->held) * k->bytes;
    }
    return apart;
}

/* The most that segments, and those of them in use, came to */
typedef struct { double segments, used; } most_bytes;

/* Two steps */
static most_bytes play(const vram_scenario *s, unsigned phases, int count, kind kinds[], vram_segments *p)
{
    most_bytes most = {0, 0};
    bool whole = s->task == VRAM_TASK_TRAINING && (s->training.loss == VRAM_LOSS_FULL || vram_loss_stays_whole(s));
    vram_segments_clear(p, 0);
    for (int step = 0; step < 2; step++)
        for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++) {
            if (!(phases & VRAM_BIT(ph))) continue;
            double apart;
            if (ph == VRAM_PHASE_BACKWARD && whole) {
                apart = phase(p, count, kinds, START);
                most.segments = vram_max(most.segments, p->reserved + apart);
            }
            apart = phase(p, count, kinds, ph);
            most.segments = vram_max(most.segments, p->reserved + apart);
            most.used = vram_max(most.used, p->reserved - p->whole + apart);
        }
    return most;
}

/* The steps by their phases; what stands in all of them is in no segment that is played. */
static most_bytes by_phases(const vram_scenario *s, const vram_report *report, vram_segments *segments)
{
    kind kinds[KINDS + 1];
    int count = 0;
    most_bytes all = {0, 0};
    double trained = matrices(s);
    for (int i = 0; i < report->entries; i++) {
        const vram_entry *e = &report->entry[i];
        if (e->component == VRAM_COMPONENT_CONTEXT) continue;
        double tensors = tensors_of(s, e, trained);
        kind *k = (e->phases & report->phases) == report->phases ? NULL : kind_of(kinds, &count, e, vram_round_up(e->bytes / tensors, 512));
        if (k == NULL) {
            all.segments += e->bytes;
            all.used += e->bytes;
            continue;
        }
        for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++)
            if (e->phases & VRAM_BIT(ph)) k->want[ph] += tensors;
    }
    most_bytes most = play(s, report->phases, count, kinds, segments);
    all.segments += most.segments;
    all.used += most.used;
    return all;
}

/* What has to find room, at least: the segments that a tensor is in. Where the card has that, but not all that PyTorch would reserve, whole segments go back when
 * it is full: the same steps once more on such a card say whether that is enough. */
static double needed(const vram_scenario *s, const vram_steps *steps, const vram_report *report, vram_segments *segments)
{
    double used = segments->most_used, most = segments->most, room = s->gpu.usable_bytes;
    if (most <= room || used > room || !vram_play(s, report, steps, room, segments)) return used;
    return vram_max(used, vram_min(segments->asked, most));
}

/* The whole step, tensor by tensor; false: not such a step */
static bool by_tensors(const vram_scenario *s, const vram_steps *steps, const vram_report *report, vram_segments *segments, most_bytes *most)
{
    if (steps == NULL || !vram_play(s, report, steps, 0, segments)) return false;
    most->segments = segments->most;
    most->used = needed(s, steps, report, segments);
    return true;
}

static void beside(vram_report *report, vram_what what, vram_certainty how, double bytes)
{
    if (bytes > 0) vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_FRAGMENTATION, what, how, VRAM_SOURCE_PYTORCH_ALLOCATOR, report->phases), VRAM_SYMBOL_BYTES, bytes);
}

/* What the allocator holds beside the tensors of the peak: in segments in use, and in others. Of these no more than the card has, where the step fits. */
void vram_reserve(const vram_scenario *s, const vram_steps *steps, bool verdict_alone, vram_report *report)
{
    bool pytorch = s->task == VRAM_TASK_TRAINING || (s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_TRANSFORMERS);
    double peak = 0, room = s->gpu.usable_bytes;
    if (!s->overheads || !pytorch) return;
    for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++) peak = vram_max(peak, vram_bytes_alive(report, (vram_phase)ph, ~VRAM_BIT(VRAM_COMPONENT_CONTEXT)));
    if (peak >= MOST_PLAYED || (verdict_alone && peak > room)) return;
    most_bytes most;
    vram_segments segments;
    bool exact = by_tensors(s, steps, report, &segments, &most);
    if (!exact) most = by_phases(s, report, &segments);
    double gaps = vram_max(0, most.used - peak), all = peak + gaps <= room ? vram_min(most.segments, room) : most.segments;
    beside(report, VRAM_WHAT_ALLOCATOR_GAPS, exact ? VRAM_MODELLED : VRAM_ALLOWANCE, gaps);
    beside(report, VRAM_WHAT_ALLOCATOR_CACHE, exact ? VRAM_MODELLED : VRAM_ALLOWANCE, vram_max(0, all - peak) - gaps);
}
