/* reserve.c -- what PyTorch's caching allocator keeps from the driver beyond the tensors of the fullest moment.
 *
 * The ledger says which tensors stand at the peak of each phase. Two steps from a cold start are played over these sets, phase by phase:
 * what a phase no longer has is given back, what it has anew is taken, from large to small. The blocks are the allocator's: the smallest
 * free one that holds a tensor, else a new segment of 20 MiB for less than 10 MiB, of whole 2 MiB for more; what is left beyond 1 MiB is
 * cut off and joins its free neighbours again; no segment goes back (c10/cuda/CUDACachingAllocator.cpp). What comes and goes within
 * a phase below its peak is not seen, nor what stands in all phases: hence an allowance. */
#include "play.h"

#include <stddef.h>
#include <string.h>

enum { BLOCKS = 2048, KINDS = 256, MOST = 512, NONE = -1 }; /* MOST: tensors of a kind that are played one by one */
static const double MIB = 1048576;

typedef struct { double bytes; short before, behind, next, last; bool free; } block; /* neighbours in a segment; among the free ones of its size, or in use of its kind */
typedef struct { double bytes; short first; } size;                                  /* its free blocks, the one freed last in front */

typedef struct {
    double reserved;           /* all segments */
    double whole;              /* segments without a tensor */
    double apart;              /* tensors that are only counted: up to 1 MiB, or too many */
    int blocks, sizes;
    short spare;               /* nodes that joined others */
    size size[BLOCKS];         /* from small to large */
    block block[BLOCKS];
} pool;

typedef struct { unsigned char component, stream; short what; double bytes, want[VRAM_PHASE_COUNT]; int held; short first; } kind;

static short node_of(pool *p, double bytes)
{
    short n = p->spare;
    if (n != NONE) p->spare = p->block[n].next;
    else if (p->blocks < BLOCKS) n = (short)p->blocks++;
    if (n != NONE) p->block[n] = (block){bytes, NONE, NONE, NONE, NONE, false};
    return n;
}

/* First of the sizes with so many bytes or more */
static int size_place(const pool *p, double bytes)
{
    int low = 0, high = p->sizes;
    while (low < high) {
        int middle = (low + high) / 2;
        if (p->size[middle].bytes < bytes) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool is_whole(const block *b) { return b->before == NONE && b->behind == NONE; }

static void free_add(pool *p, short n)
{
    block *b = &p->block[n];
    int at = size_place(p, b->bytes);
    if (at == p->sizes || p->size[at].bytes != b->bytes) {
        memmove(&p->size[at + 1], &p->size[at], (size_t)(p->sizes++ - at) * sizeof p->size[0]);
        p->size[at] = (size){b->bytes, NONE};
    }
    b->last = NONE;
    b->next = p->size[at].first;
    if (b->next != NONE) p->block[b->next].last = n;
    p->size[at].first = n;
    b->free = true;
    if (is_whole(b)) p->whole += b->bytes;
}

static void free_remove(pool *p, short n)
{
    block *b = &p->block[n];
    if (is_whole(b)) p->whole -= b->bytes;
    b->free = false;
    if (b->next != NONE) p->block[b->next].last = b->last;
    if (b->last != NONE) {
        p->block[b->last].next = b->next;
        return;
    }
    int at = size_place(p, b->bytes);
    p->size[at].first = b->next;
    if (b->next == NONE) memmove(&p->size[at], &p->size[at + 1], (size_t)(--p->sizes - at) * sizeof p->size[0]);
}

static short take(pool *p, double bytes)
{
    int at = size_place(p, bytes);
    short n;
    if (at < p->sizes) {
        n = p->size[at].first;
        free_remove(p, n);
    } else {
        double segment = bytes < 10 * MIB ? 20 * MIB : vram_round_up(bytes, 2 * MIB);
        n = node_of(p, segment);
        if (n == NONE) return NONE;
        p->reserved += segment;
    }
    if (p->block[n].bytes - bytes <= MIB) return n;
    short rest = node_of(p, p->block[n].bytes - bytes);
    if (rest == NONE) return n;
    p->block[n].bytes = bytes;
    p->block[rest].before = n;
    p->block[rest].behind = p->block[n].behind;
    if (p->block[rest].behind != NONE) p->block[p->block[rest].behind].before = rest;
    p->block[n].behind = rest;
    free_add(p, rest);
    return n;
}

/* Two neighbours are one */
static void join(pool *p, short n, short behind)
{
    p->block[n].bytes += p->block[behind].bytes;
    p->block[n].behind = p->block[behind].behind;
    if (p->block[n].behind != NONE) p->block[p->block[n].behind].before = n;
    p->block[behind].next = p->spare;
    p->spare = behind;
}

static void give(pool *p, short n)
{
    short before = p->block[n].before, behind = p->block[n].behind;
    if (behind != NONE && p->block[behind].free) {
        free_remove(p, behind);
        join(p, n, behind);
    }
    if (before != NONE && p->block[before].free) {
        free_remove(p, before);
        join(p, before, n);
        n = before;
    }
    free_add(p, n);
}

/* ---------------------------------------------------------------------------------------------- from entries to tensors -- */

/* Trained matrices: gradients stand in the ledger as one product, and so do the denominators of all of them (foreach) */
static double matrices(const vram_model *m)
{
    double sum = 0;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].columns > 1 && !m->tensor[i].buffer) sum += (double)m->tensor[i].layers * (m->tensor[i].stacked ? 1 : (double)m->tensor[i].copies);
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

static void phase(pool *p, int stream, int count, kind kinds[], int ph)
{
    for (int i = 0; i < count; i++)
        while (kinds[i].stream == stream && kinds[i].held > vram_min(wanted(&kinds[i], ph), MOST)) {
            short n = kinds[i].first;
            kinds[i].first = p->block[n].next;
            kinds[i].held--;
            give(p, n);
        }
    p->apart = 0;
    for (int i = 0; i < count; i++) {
        kind *k = &kinds[i];
        if (k->stream != stream) continue;
        while (k->bytes > MIB && k->held < vram_min(wanted(k, ph), MOST)) {
            short n = take(p, k->bytes);
            if (n == NONE) break;
            p->block[n].next = k->first;
            k->first = n;
            k->held++;
        }
        p->apart += (wanted(k, ph) - k->held) * k->bytes;
    }
}

/* FSDP 2 makes what it sends in a stream of its own for each kind, and a block serves only the stream that it was made for: the buffers of
 * all-gathers; the inputs of reduce-scatters and the shards of gradients that come out. Source: torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (FSDPCommContext) */
enum { STREAMS = 3 };

static unsigned char stream_of(const vram_scenario *s, const vram_entry *e)
{
    if (s->parallel.engine != VRAM_PARALLEL_ENGINE_FSDP2) return 0;
    if (e->what == VRAM_WHAT_ALL_GATHER_BUFFER) return 1;
    return e->what == VRAM_WHAT_REDUCE_SCATTER_INPUT || e->component == VRAM_COMPONENT_GRADIENTS ? 2 : 0;
}

/* Two steps in one stream: the most that its segments, and those of them in use, came to */
typedef struct { double segments, used; } most_bytes;

static most_bytes play(const vram_scenario *s, unsigned phases, int stream, int count, kind kinds[])
{
    pool p;
    most_bytes most = {0, 0};
    bool whole = s->task == VRAM_TASK_TRAINING && s->training.loss == VRAM_LOSS_FULL;
    memset(&p, 0, offsetof(pool, size));
    p.spare = NONE;
    for (int step = 0; step < 2; step++)
        for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++) {
            if (!(phases & VRAM_BIT(ph))) continue;
            if (ph == VRAM_PHASE_BACKWARD && whole) phase(&p, stream, count, kinds, START);
            if (ph == VRAM_PHASE_BACKWARD && whole) most.segments = vram_max(most.segments, p.reserved + p.apart);
            phase(&p, stream, count, kinds, ph);
            most.segments = vram_max(most.segments, p.reserved + p.apart);
            most.used = vram_max(most.used, p.reserved - p.whole + p.apart);
        }
    return most;
}

/* What the allocator holds beside the tensors of the peak: of segments in use, and of all */
typedef struct { double holes, whole; } idle_bytes;

static idle_bytes idle(const vram_scenario *s, const vram_report *report)
{
    kind kinds[KINDS + 1];
    int count = 0, streams = 1;
    double all = 0, used = 0, sum[VRAM_PHASE_COUNT] = {0}, peak = 0, trained = matrices(&s->model);
    for (int i = 0; i < report->entries; i++) {
        const vram_entry *e = &report->entry[i];
        if (e->component == VRAM_COMPONENT_CONTEXT) continue;
        for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++)
            if (e->phases & VRAM_BIT(ph)) sum[ph] += e->bytes;
        double tensors = tensors_of(s, e, trained);
        kind *k = (e->phases & report->phases) == report->phases ? NULL : kind_of(kinds, &count, e, vram_round_up(e->bytes / tensors, 512));
        if (k == NULL) {
            all += e->bytes;
            used += e->bytes;
            continue;
        }
        k->stream = stream_of(s, e);
        if (k->stream > 0) streams = STREAMS;
        for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++)
            if (e->phases & VRAM_BIT(ph)) k->want[ph] += tensors;
    }
    for (int stream = 0; stream < streams; stream++) {
        most_bytes most = play(s, report->phases, stream, count, kinds);
        all += most.segments;
        used += most.used;
    }
    for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++)
        if (report->phases & VRAM_BIT(ph)) peak = vram_max(peak, sum[ph]);
    double holes = vram_max(0, used - peak);
    return (idle_bytes){holes, vram_max(0, all - peak) - holes};
}

static void idle_entry(vram_report *report, vram_what what, vram_certainty how, double bytes)
{
    if (bytes > 0) vram_times(vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_FRAGMENTATION, what, how, VRAM_SOURCE_PYTORCH_ALLOCATOR, report->phases), VRAM_SYMBOL_BYTES, bytes);
}

/* What has to find room, at least: the segments that a tensor is in. Where the card has that, but not all that PyTorch would reserve, whole segments go back when
 * it is full: the same steps once more on such a card say whether that is enough. */
static double needed(const vram_scenario *s, const vram_steps *steps, const vram_report *report, vram_segments *segments)
{
    double used = segments->most_used, most = segments->most, room = s->gpu.usable_bytes;
    if (most <= room || used > room || !vram_play(s, report, steps, room, segments)) return used;
    return vram_max(used, vram_min(segments->asked, most));
}

/* The whole step, tensor by tensor */
static bool played(const vram_scenario *s, const vram_steps *steps, const vram_report *report, idle_bytes *bytes)
{
    vram_segments segments;
    double peak = 0;
    if (steps == NULL || !vram_play(s, report, steps, 0, &segments)) return false;
    for (int ph = 0; ph < VRAM_PHASE_COUNT; ph++) peak = vram_max(peak, vram_bytes_alive(report, (vram_phase)ph, ~VRAM_BIT(VRAM_COMPONENT_CONTEXT)));
    double all = segments.most, need = needed(s, steps, report, &segments);
    bytes->holes = vram_max(0, need - peak);
    bytes->whole = vram_max(0, all - peak) - bytes->holes;
    return true;
}

void vram_reserve(const vram_scenario *s, const vram_steps *steps, vram_report *report)
{
    bool pytorch = s->task == VRAM_TASK_TRAINING || (s->task == VRAM_TASK_INFERENCE && s->engine == VRAM_ENGINE_TRANSFORMERS);
    if (!s->overheads || !pytorch) return;
    idle_bytes bytes;
    bool exact = played(s, steps, report, &bytes);
    if (!exact) bytes = idle(s, report);
    idle_entry(report, VRAM_WHAT_ALLOCATOR_GAPS, exact ? VRAM_MODELLED : VRAM_ALLOWANCE, bytes.holes);
    idle_entry(report, VRAM_WHAT_ALLOCATOR_CACHE, exact ? VRAM_MODELLED : VRAM_ALLOWANCE, bytes.whole);
}
