/* replay.c -- one walk over a training step: forward, loss, backward.
 *
 * A model is an embedding, layers and a head; each is a tape (block.c). A tape is run once for each different layer: what it keeps for
 * backward, how high it rises while it runs, which gradients it leaves. Identical layers are then a product, exactly, since a
 * layer's run does not depend on how many have gone before: the peak of a phase is, over the layers, what the others hold at that
 * moment plus the layer's own rise. */
#include "replay.h"

#include <string.h>

enum {
    VARIANTS = 4, MAX_VARIANTS = VARIANTS * VRAM_MAX_KINDS, MAX_ITEMS = 640, FORWARD = VRAM_ALIVE_FORWARD, LOSS = VRAM_ALIVE_LOSS, BACKWARD = VRAM_ALIVE_BACKWARD, HELD = VRAM_ALIVE_HELD,
    LATER = VRAM_ALIVE_LATER, DONE = VRAM_ALIVE_DONE, PEAKS = 3, MOMENTS = VRAM_ALIVE_COUNT
};
enum { EMBEDDING = VRAM_PLACE_EMBEDDING, HEAD = VRAM_PLACE_HEAD };
enum { NO_INPUT_GRADIENT = 1, CHECKPOINTED = 2 }; /* of a variant: see variant_of() */

/* What one piece holds, and how high it rises above that */
typedef struct {
    double rise[PEAKS];        /* with what it holds itself */
    double held;               /* of the head: when the loss begins */
    double rise_left;          /* of the head: in the loss once autocast is left, above what the layers keep without its cache; -1: it is not */
    bool held_left;            /* autocast is left before the loss begins */
    double kept;               /* after its forward, until the loss is computed; its output not included */
    double kept_later;         /* the same, during backward */
    double gradients;          /* of parameters, after its backward */
    double start;              /* of the head: when its backward begins */
    double input;              /* its input, which checkpoints keep */
    double after;              /* when its backward is over, with its gradients and its input's */
} piece;

/* The sets of cells behind these numbers */
typedef struct { uint64_t top[PEAKS][VRAM_TAPE_WORDS], top_left[VRAM_TAPE_WORDS], held[VRAM_TAPE_WORDS], kept[VRAM_TAPE_WORDS], kept_later[VRAM_TAPE_WORDS], gradients[VRAM_TAPE_WORDS], start[VRAM_TAPE_WORDS], after[VRAM_TAPE_WORDS]; } piece_sets;

typedef struct {
    const vram_pass *pass;
    const vram_sharding *sharding; /* NULL: none */
    bool accumulate, spares, offloads;
    vram_tape tape;
    vram_run run;
    piece_sets sets;
} walker;

/* --------------------------------------------------------------------------------------------------------- one piece -- */

/* Megatron's selective recomputation is of attention's core alone, and its tapes have that in them. */
static bool recomputes(const vram_scenario *s)
{
    return s->training.checkpointing == VRAM_CHECKPOINTING_FULL || (s->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE && !vram_is_megatron(s, &s->model));
}

/* What a layer's run depends on beside its kind: whether its input requires a gradient (not that of the first layer under LoRA), and whether
 * its forward is run again. Of every so many layers the last is, as torchtitan counts them (activation_checkpoint.py, selective_ac_option). */
static int variant_of(const vram_pass *pass, int64_t layer)
{
    const vram_scenario *s = pass->scenario;
    int64_t every = s->training.checkpointing == VRAM_CHECKPOINTING_FULL && !vram_is_megatron(s, pass->model) ? s->training.checkpointing_interval : 1;
    bool again = recomputes(s) && (layer + 1) % every == 0;
    return VARIANTS * pass->model->layer_kind[layer] + (layer == 0 && !pass->input_gradient ? NO_INPUT_GRADIENT : 0) + (again ? CHECKPOINTED : 0);
}

static void note_peak(walker *w, piece *p, int moment)
{
    p->rise[moment] = w->run.peak;
    memcpy(w->sets.top[moment], w->run.top, sizeof w->run.top);
}

static double live_without(const walker *w, vram_cell c, uint64_t set[])
{
    memcpy(set, w->run.live, sizeof w->run.live);
    if (c < 0 || !vram_run_in(w->run.live, c)) return w->run.now;
    set[c / 64] &= ~(UINT64_C(1) << (c % 64));
    return w->run.now - w->tape.cell[c].block;
}

static void run_gradients(walker *w, piece *p)
{
    vram_run *r = &w->run;
    if (w->tape.output >= 0) vram_run_arrive(&w->tape, r);
    if (w->tape.input < 0 && vram_is_tied(w->pass)) vram_run_await(&w->tape, r, w->tape.op[0].in[0], w->pass->head == VRAM_HEAD_TILED || w->pass->head == VRAM_HEAD_CHUNKED || w->pass->head == VRAM_HEAD_FUSED);
    vram_run_backward(&w->tape, r, w->tape.ops - 1, 0);
    if (w->tape.input >= 0) vram_run_use_waiting(&w->tape, r); /* the embedding's gradient is the last: the step uses it */
    note_peak(w, p, BACKWARD);
    vram_run_land(&w->tape, r);
    vram_run_return(&w->tape, r);
    p->after = live_without(w, VRAM_NO_CELL, w->sets.after);
    vram_cell in = w->tape.input < 0 ? VRAM_NO_CELL : r->gradient[w->tape.input];
    p->gradients = live_without(w, in, w->sets.gradients);
}

static void run_kept(walker *w, piece *p)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    vram_run_clear(t, r, w->accumulate);
    r->offloads = w->offloads;
    vram_run_forward(t, r, 0, t->ops, w->pass->gradients);
    note_peak(w, p, FORWARD);
    vram_run_land(t, r);
    vram_cell base = t->cell[t->output].base;
    p->kept = live_without(w, t->named && !(variant_of(w->pass, 0) & CHECKPOINTED) ? VRAM_NO_CELL : base, w->sets.kept);
    if (!w->pass->gradients) return;
    vram_run_release(t, r, base);
    vram_run_forget(t, r);
    p->kept_later = live_without(w, VRAM_NO_CELL, w->sets.kept_later);
    vram_run_rest(r);
    run_gradients(w, p);
}

/* Only the input is kept, or sent to host memory until it is wanted; backward runs the forward again. */
static void run_checkpointed(walker *w, piece *p)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    vram_run_clear(t, r, w->accumulate);
    p->input = t->cell[t->input].block;
    vram_run_hold(t, r, t->input);
    r->spares = w->spares;
    if (t->returned >= 0) vram_run_hold(t, r, t->returned);
    vram_run_forward(t, r, 0, t->ops, false);
    note_peak(w, p, FORWARD);
    if (t->returned >= 0) vram_run_release(t, r, t->returned);
    if (w->offloads) vram_run_release(t, r, t->input); /* to host memory */
    vram_cell base = t->cell[t->output].base;
    p->kept = live_without(w, base, w->sets.kept);
    vram_run_release(t, r, base);
    vram_run_forget(t, r);
    p->kept_later = live_without(w, VRAM_NO_CELL, w->sets.kept_later);
    uint64_t spared[VRAM_TAPE_WORDS];
    memcpy(spared, r->spared, sizeof spared);
    vram_run_clear(t, r, w->accumulate);
    vram_run_keep_spared(t, r, spared);
    vram_run_hold(t, r, t->input);
    vram_run_arrive(t, r);
    int last = vram_run_last_saving(t);
    vram_run_backward(t, r, t->ops - 1, last + 1);
    vram_run_recompute(t, r);
    vram_run_backward(t, r, last, 0);
    vram_run_use_waiting(t, r);
    note_peak(w, p, BACKWARD);
    vram_run_release(t, r, t->input);
    p->after = live_without(w, VRAM_NO_CELL, w->sets.after);
    p->gradients = live_without(w, r->gradient[t->input], w->sets.gradients);
}

static void run_head(walker *w, piece *p)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    int leave = t->leave < t->mark ? t->ops : t->leave;
    p->held_left = leave == t->mark && t->leave >= 0;
    p->rise_left = -1;
    vram_run_clear(t, r, w->accumulate);
    r->offloads = w->offloads;
    vram_run_forward(t, r, 0, t->mark, w->pass->gradients);
    note_peak(w, p, FORWARD);
    if (p->held_left) vram_run_forget(t, r);
    p->held = live_without(w, VRAM_NO_CELL, w->sets.held);
    vram_run_rest(r);
    vram_run_forward(t, r, t->mark, leave, w->pass->gradients);
    note_peak(w, p, LOSS);
    if (leave < t->ops) {
        vram_run_forget(t, r);
        vram_run_rest(r);
        vram_run_forward(t, r, leave, t->ops, w->pass->gradients);
        p->rise_left = r->peak;
        memcpy(w->sets.top_left, r->top, sizeof r->top);
    }
    if (!w->pass->gradients) return;
    if (t->leave < 0) vram_run_forget(t, r); /* else it is forgotten already */
    vram_run_rest(r);
    p->start = live_without(w, VRAM_NO_CELL, w->sets.start);
    run_gradients(w, p);
}

static void run_piece(walker *w, int variant, piece *p)
{
    memset(p, 0, sizeof *p);
    memset(&w->sets, 0, sizeof w->sets);
    if (variant == EMBEDDING) vram_block_embedding(w->pass, &w->tape);
    else if (variant == HEAD) vram_block_head(w->pass, &w->tape);
    else vram_block_layer(w->pass, variant / VARIANTS, (variant & NO_INPUT_GRADIENT) == 0, &w->tape);
    if (variant == HEAD) run_head(w, p);
    else if (variant >= 0 && (variant & CHECKPOINTED)) run_checkpointed(w, p);
    else run_kept(w, p);
}

/* ---------------------------------------------------------------------------------------------------------- all pieces -- */

typedef struct {
    int place[MOMENTS];        /* of the highest moment: a layer, EMBEDDING or HEAD */
    vram_moment moment[PEAKS]; /* which of a place's moments */
    bool left;                 /* the loss's summit is without autocast's cache */
    bool held_left;
    double bytes[MOMENTS];     /* what a sharding engine holds included */
    double mask;               /* of attention: while the layers run, and with checkpoints to the first layer's backward */
    vram_factor mask_factor[4];
    vram_timeline *curve;      /* NULL, or where every instant is written down, of one component .. */
    vram_component component;
    int written;
} summit;

static void write_down(summit *s, int phase, int place, double bytes)
{
    static const vram_phase phases[PEAKS] = {VRAM_PHASE_FORWARD, VRAM_PHASE_LOSS, VRAM_PHASE_BACKWARD};
    if (s->curve == NULL || s->written >= VRAM_MAX_POINTS) return;
    vram_point *p = &s->curve->point[s->written++];
    p->phase = phases[phase];
    p->place = place;
    p->bytes[s->component] = bytes;
}

/* Of what an engine holds, the part that is being written down */
static double sharding_part(const summit *s, const vram_sharding *g, vram_moment moment, int place)
{
    if (s->curve == NULL) return vram_sharding_bytes(g, moment, place);
    vram_sharding_list list = vram_sharding_items(g, moment, place);
    double bytes = 0;
    for (int i = 0; i < list.items; i++)
        if (list.item[i].component == s->component) bytes += list.item[i].copies * list.item[i].elements * list.item[i].width;
    return bytes;
}

static void candidate(summit *s, const vram_sharding *g, int phase, vram_moment moment, int place, double bytes)
{
    if (g != NULL) bytes += sharding_part(s, g, moment, place);
    write_down(s, phase, place, bytes);
    if (bytes <= s->bytes[phase]) return;
    s->bytes[phase] = bytes;
    s->place[phase] = place;
    s->moment[phase] = moment;
}

/* The gradients of a piece stay behind, unless a sharding engine takes them */
static bool gradients_stay(const vram_sharding *g, int place)
{
    return g == NULL || g->gradients == VRAM_GRADIENTS_STAND || (g->gradients == VRAM_GRADIENTS_UNIT && place < 0);
}

/* Megatron has an offloading of its own, which is not counted. */
static bool offloads(const vram_pass *pass)
{
    return pass->gradients && pass->scenario->training.offload_activations != 0 && !vram_is_megatron(pass->scenario, pass->model);
}

/* Of offloaded checkpoints the inputs of the two layers before the one at work are still in flight: a layer saves two tensors, and five are.
 * The last norm's own saved tensors then take their place. */
enum { INPUTS_IN_FLIGHT = 2 };
static double inputs_in_flight(const vram_pass *pass, int64_t layer)
{
    bool checkpoints_go = offloads(pass) && recomputes(pass->scenario);
    return checkpoints_go && layer > 0 ? vram_min((double)layer, INPUTS_IN_FLIGHT) : 0;
}

/* Checkpoints keep the mask for their second forward. */
static double held_after(const vram_pass *pass, const summit *s)
{
    return recomputes(pass->scenario) ? s->mask : 0;
}

/* What the layers keep for the other micro-batches of a pipeline */
static double others_in_flight(const vram_pass *pass, const piece layer[])
{
    double kept = 0;
    for (int64_t i = 0; i < pass->stage.layers; i++) kept += layer[variant_of(pass, i)].kept_later;
    return kept * (pass->stage.in_flight - 1);
}

static void climb_forward(const vram_pass *pass, const vram_sharding *g, const piece layer[], const piece *embedding, const piece *head, summit *s)
{
    double kept = others_in_flight(pass, layer), later = kept, held = s->mask;
    if (pass->stage.embedding) candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, EMBEDDING, kept + embedding->rise[FORWARD]);
    for (int64_t i = 0; i < pass->stage.layers; i++) {
        const piece *p = &layer[variant_of(pass, i)];
        candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, (int)i, kept + inputs_in_flight(pass, i) * p->input + p->rise[FORWARD] + held);
        kept += p->kept;
        later += p->kept_later;
        if (i == 0 && pass->stage.embedding) kept += embedding->kept; /* the first layer's input is the embedding's output */
        write_down(s, FORWARD, (int)i, kept + held + (g != NULL ? sharding_part(s, g, VRAM_MOMENT_FORWARD, (int)i) : 0));
    }
    held = held_after(pass, s);
    if (pass->stage.embedding) { /* names go with the model's forward() */
        kept += embedding->kept_later - (pass->stage.layers > 0 ? embedding->kept : 0);
        later += embedding->kept_later;
    }
    if (pass->stage.head) {
        candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, HEAD, kept + head->rise[FORWARD] + held);
        if (!head->held_left) candidate(s, g, LOSS, VRAM_MOMENT_LOSS, HEAD, kept + head->rise[LOSS] + held);
        double within = s->bytes[LOSS];
        if (head->rise_left >= 0) candidate(s, g, LOSS, VRAM_MOMENT_LOSS, HEAD, later + head->rise_left + held);
        s->left = s->bytes[LOSS] > within;
        s->held_left = head->held_left;
    } else if (s->curve == NULL) candidate(s, NULL, LOSS, VRAM_MOMENT_FORWARD, s->place[FORWARD], s->bytes[FORWARD]); /* that of another stage */
}

static void climb_backward(const vram_pass *pass, const vram_sharding *g, const piece layer[], const piece *embedding, const piece *head, summit *s)
{
    double later = others_in_flight(pass, layer), gradients = pass->stage.head && gradients_stay(g, HEAD) ? head->gradients : 0, held = held_after(pass, s);
    if (pass->stage.embedding) later += embedding->kept_later;
    for (int64_t i = 0; i < pass->stage.layers; i++) later += layer[variant_of(pass, i)].kept_later;
    if (g != NULL && pass->stage.head) candidate(s, g, BACKWARD, VRAM_MOMENT_START, HEAD, later + head->start + held);
    if (pass->stage.head) candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, HEAD, later + head->rise[BACKWARD] + held);
    for (int64_t i = pass->stage.layers - 1; i >= 0; i--) {
        const piece *p = &layer[variant_of(pass, i)];
        later -= p->kept_later;
        candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, (int)i, later + gradients + p->rise[BACKWARD] + held);
        if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_REDUCE, (int)i, later + gradients + p->after + held);
        if (gradients_stay(g, (int)i)) gradients += p->gradients;
        write_down(s, BACKWARD, (int)i, later + gradients + held + (g != NULL ? sharding_part(s, g, VRAM_MOMENT_BACKWARD, (int)i) : 0));
    }
    if (!pass->stage.embedding) return;
    candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, EMBEDDING, gradients + embedding->rise[BACKWARD]);
    if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_REDUCE, EMBEDDING, gradients + embedding->after);
    if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_EPILOGUE, EMBEDDING, 0);
}

/* ------------------------------------------------------------------------------------------------------------- entries -- */

/* Like tensors, and how many of them are alive at each phase's peak */
typedef struct { vram_tape_shape shape; short what; unsigned char component, width; double bytes, count[MOMENTS]; } item;

typedef struct {
    int items;
    item item[MAX_ITEMS];
    bool gradients_stand;
    double gradient_elements[MOMENTS];
} collection;

static bool same_shape(const vram_tape_shape *a, const vram_tape_shape *b)
{
    bool same = a->factors == b->factors && a->elements == b->elements;
    for (int i = 0; same && i < a->factors; i++) same = a->factor[i].symbol == b->factor[i].symbol && a->factor[i].value == b->factor[i].value;
    return same;
}

static item *item_of(collection *c, const vram_tape *t, const vram_tape_cell *cell)
{
    const vram_tape_shape *shape = &t->shape[cell->shape];
    for (int i = 0; i < c->items; i++) {
        item *it = &c->item[i];
        if (it->what == cell->what && it->width == cell->width && it->component == cell->component && same_shape(&it->shape, shape)) return it;
    }
    item *it = &c->item[c->items < MAX_ITEMS - 1 ? c->items++ : MAX_ITEMS - 1];
    *it = (item){.shape = *shape, .what = cell->what, .component = cell->component, .width = cell->width, .bytes = cell->bytes};
    return it;
}

static void collect(collection *c, const vram_tape *t, const uint64_t set[], int moment, double times)
{
    if (times <= 0) return;
    for (int word = 0; word < VRAM_TAPE_WORDS; word++)
        for (uint64_t bits = set[word]; bits; bits &= bits - 1) {
            int bit = 0;
            while (!(bits >> bit & 1)) bit++;
            vram_tape_cell cell = t->cell[word * 64 + bit];
            bool trained = cell.component == VRAM_COMPONENT_GRADIENTS && cell.what == VRAM_WHAT_TRAINABLE;
            if (trained && c->gradients_stand) { /* for a moment, until it is added to the one that stands */
                cell.component = VRAM_COMPONENT_WORKSPACE;
                cell.what = VRAM_WHAT_UNREDUCED;
            }
            if (trained && !c->gradients_stand) c->gradient_elements[moment] += times * t->shape[cell.shape].elements;
            else item_of(c, t, &cell)->count[moment] += times;
        }
}

/* Of the layers of a variant: how many stand before a place (in order of forward), how many behind */
static void count_layers(const vram_pass *pass, int variant, int place, double *before, double *behind)
{
    *before = *behind = 0;
    for (int64_t i = 0; i < pass->stage.layers; i++) {
        if (variant_of(pass, i) != variant) continue;
        bool earlier = place == HEAD || (place != EMBEDDING && i < place);
        if (earlier) ++*before;
        else if (i != place) ++*behind;
    }
}

/* What stands at a moment: the piece at the summit with what it has made, those before it with what they keep, those behind with their gradients */
static void collect_variant(walker *w, const summit *s, int variant, collection *c)
{
    piece p;
    bool layers_stay = gradients_stay(w->sharding, 0), head_stays = gradients_stay(w->sharding, HEAD);
    run_piece(w, variant, &p);
    for (int moment = 0; moment < MOMENTS; moment++) {
        int place = s->place[moment];
        double before, behind;
        if (variant >= 0) {
            count_layers(w->pass, variant, EMBEDDING, &before, &behind);
            collect(c, &w->tape, w->sets.kept_later, moment, behind * (w->pass->stage.in_flight - 1));
        }
        if (moment < PEAKS && s->moment[moment] == VRAM_MOMENT_EPILOGUE) continue;
        bool here = moment < PEAKS && (variant < 0 ? place == variant : place >= 0 && variant_of(w->pass, place) == variant);
        bool uncached = moment == BACKWARD || moment == LATER || (moment == LOSS && s->left) || (moment == HELD && s->held_left);
        if (here && variant >= 0 && moment == FORWARD && inputs_in_flight(w->pass, place) > 0) {
            uint64_t input[VRAM_TAPE_WORDS] = {0};
            input[w->tape.input / 64] = UINT64_C(1) << (w->tape.input % 64);
            collect(c, &w->tape, input, moment, inputs_in_flight(w->pass, place));
        }
        if (here && moment == LOSS && s->left) collect(c, &w->tape, w->sets.top_left, moment, 1);
        else if (here) collect(c, &w->tape, s->moment[moment] == VRAM_MOMENT_REDUCE ? w->sets.after : s->moment[moment] == VRAM_MOMENT_START ? w->sets.start : w->sets.top[s->moment[moment] == VRAM_MOMENT_FORWARD ? FORWARD : moment], moment, 1);
        if (variant >= 0) {
            count_layers(w->pass, variant, place, &before, &behind);
            collect(c, &w->tape, uncached ? w->sets.kept_later : w->sets.kept, moment, before);
            if ((moment == BACKWARD || moment == DONE) && layers_stay) collect(c, &w->tape, w->sets.gradients, moment, behind);
        } else if (variant == HEAD && w->pass->stage.head) {
            if (moment == HELD) collect(c, &w->tape, w->sets.held, moment, 1);
            if (moment == LATER) collect(c, &w->tape, w->sets.start, moment, 1);
            if ((moment == BACKWARD && place != HEAD && head_stays) || moment == DONE) collect(c, &w->tape, w->sets.gradients, moment, 1);
        } else if (variant == EMBEDDING && w->pass->stage.embedding) {
            if (moment == DONE) collect(c, &w->tape, w->sets.gradients, moment, 1);
            else if (moment == FORWARD && place > 0) collect(c, &w->tape, w->sets.kept, moment, 1);
            else if (place != EMBEDDING && !(moment == FORWARD && place >= 0)) collect(c, &w->tape, w->sets.kept_later, moment, 1);
        }
    }
}

/* When a sharded engine holds what: a pass on its own */
static const vram_when TRAINING[PEAKS] = {{VRAM_ALIVE_FORWARD, VRAM_PHASE_FORWARD}, {VRAM_ALIVE_LOSS, VRAM_PHASE_LOSS}, {VRAM_ALIVE_BACKWARD, VRAM_PHASE_BACKWARD}};

/* One entry for the phases in which as many are alive */
static void add_item(const item *it, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    bool done[MOMENTS] = {false};
    for (int i = 0; i < whens; i++) {
        unsigned phases = 0;
        double count = it->count[when[i].alive];
        if (done[i] || count <= 0) continue;
        for (int j = i; j < whens; j++)
            if (it->count[when[j].alive] == count) { phases |= VRAM_BIT(when[j].phase); done[j] = true; }
        vram_entry *e = vram_add(report, role, (vram_component)it->component, (vram_what)it->what, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
        if (count > 1) vram_times(e, VRAM_SYMBOL_COPIES, count);
        for (int k = 0; k < it->shape.factors; k++)
            if (it->shape.factor[k].value != 1 || it->shape.factors == 1) vram_times(e, it->shape.factor[k].symbol, it->shape.factor[k].value);
        if (it->shape.factor[0].symbol != VRAM_SYMBOL_BYTES) vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, it->width);
    }
}

static void add_rounding(const collection *c, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    for (int k = 0; k < whens; k++) {
        double bytes = 0;
        for (int i = 0; i < c->items; i++) bytes += c->item[i].count[when[k].alive] * (vram_block_bytes(c->item[i].bytes) - c->item[i].bytes);
        if (bytes > 0)
            vram_times(vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_EXACT, VRAM_SOURCE_PYTORCH_ALLOCATOR, VRAM_BIT(when[k].phase)), VRAM_SYMBOL_BYTES, bytes);
    }
}

static void add_mask(const vram_pass *pass, const summit *s, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    unsigned phases = 0;
    for (int i = 0; i < whens; i++) {
        int moment = (int)when[i].alive, place = s->place[moment];
        bool alive = held_after(pass, s) > 0 ? place != EMBEDDING : place >= 0 && moment == FORWARD;
        if (alive) phases |= VRAM_BIT(when[i].phase);
    }
    if (s->mask <= 0 || phases == 0) return;
    vram_entry *e = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_CAUSAL_MASK, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    for (int i = 0; i < 4; i++) vram_times(e, s->mask_factor[i].symbol, s->mask_factor[i].value);
}

/* What the sharding engine holds at the summits: one entry for the phases in which it is the same */
static void add_sharding(const vram_sharding *g, const summit *s, vram_role role, vram_report *report)
{
    vram_sharding_list list[PEAKS];
    for (int i = 0; i < PEAKS; i++) list[i] = vram_sharding_items(g, s->moment[i], s->place[i]);
    for (int i = 0; i < PEAKS; i++)
        for (int j = 0; j < list[i].items; j++) {
            vram_sharding_list one = {.items = 1, .item = {list[i].item[j]}};
            unsigned phases = VRAM_BIT(TRAINING[i].phase);
            if (one.item[0].copies <= 0) continue;
            for (int k = i + 1; k < PEAKS; k++)
                if (vram_sharding_take(&list[k], &one.item[0])) phases |= VRAM_BIT(TRAINING[k].phase);
            vram_sharding_entries(&one, g, role, phases, report);
        }
}

/* The model's output stays with its caller while backward runs. */
static void note_logits(const vram_pass *pass, vram_replay *replay)
{
    double factor[4] = {pass->batch, pass->tokens, vram_words_on_rank(pass), vram_logits_width(pass)};
    double bytes = 1;
    replay->logits_bytes = 0;
    if (pass->head != VRAM_HEAD_LOSS && pass->head != VRAM_HEAD_FUSED) return; /* trainers let go of it */
    for (int i = 0; i < 4; i++) bytes *= replay->logits[i] = factor[i];
    if (pass->head == VRAM_HEAD_LOSS) replay->logits_bytes = bytes; /* of the other there is only the loss */
}

/* Every piece run once; where each phase is fullest */
typedef struct {
    walker w;
    piece layer[MAX_VARIANTS], embedding, head;
    bool used[MAX_VARIANTS];
    summit summit;
} walk;

static void walk_all(walk *k, const vram_pass *pass, const vram_replay *replay)
{
    const vram_sharding *g = replay->sharding;
    walker *w = &k->w;
    k->summit = (summit){.place = {EMBEDDING, HEAD, HEAD, HEAD, HEAD, EMBEDDING}, .moment = {VRAM_MOMENT_FORWARD, VRAM_MOMENT_LOSS, VRAM_MOMENT_BACKWARD}, .bytes = {-1, -1, -1}};
    k->summit.mask = vram_block_mask(pass, k->summit.mask_factor);
    memset(k->used, 0, sizeof k->used);
    w->pass = pass;
    w->sharding = g;
    w->accumulate = g == NULL || g->gradients == VRAM_GRADIENTS_STAND ? replay->gradients_stand : g->gradients == VRAM_GRADIENTS_PASS;
    w->spares = pass->scenario->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE;
    w->offloads = offloads(pass);
    for (int64_t i = 0; i < pass->stage.layers; i++) {
        int variant = variant_of(pass, i);
        if (!k->used[variant]) run_piece(w, variant, &k->layer[variant]);
        k->used[variant] = true;
    }
    run_piece(w, EMBEDDING, &k->embedding);
    run_piece(w, HEAD, &k->head);
    climb_forward(pass, g, k->layer, &k->embedding, &k->head, &k->summit);
    climb_backward(pass, g, k->layer, &k->embedding, &k->head, &k->summit);
}

/* ------------------------------------------------------------------------------------------------------------- the curve -- */

static double part(const walker *w, const uint64_t set[], vram_component component)
{
    double bytes = 0;
    for (vram_cell c = 0; c < w->tape.cells; c++)
        if (vram_run_in(set, c) && w->tape.cell[c].component == component) bytes += w->tape.cell[c].block;
    return bytes;
}

/* The same piece, but of its tensors only those of one component */
static void project(const walker *w, vram_component component, piece *p)
{
    const piece_sets *s = &w->sets;
    for (int i = 0; i < PEAKS; i++) p->rise[i] = part(w, s->top[i], component);
    if (p->rise_left >= 0) p->rise_left = part(w, s->top_left, component);
    p->held = part(w, s->held, component);
    p->kept = part(w, s->kept, component);
    p->kept_later = part(w, s->kept_later, component);
    p->gradients = part(w, s->gradients, component);
    p->start = part(w, s->start, component);
    p->after = part(w, s->after, component);
    if (component != VRAM_COMPONENT_ACTIVATIONS) p->input = 0;
}

/* The climb once more for every component, its instants written down: what they add up to is the climb of the whole. */
void vram_replay_curve(const vram_pass *pass, const vram_replay *replay, vram_timeline *curve)
{
    walk k;
    walk_all(&k, pass, replay);
    double mask = k.summit.mask;
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) {
        for (int variant = HEAD; variant < VARIANTS * pass->model->kinds; variant++) {
            piece *p = variant == HEAD ? &k.head : variant == EMBEDDING ? &k.embedding : &k.layer[variant];
            if (variant >= 0 && !k.used[variant]) continue;
            run_piece(&k.w, variant, p);
            project(&k.w, (vram_component)c, p);
        }
        summit s = {.bytes = {-1, -1, -1}, .mask = c == VRAM_COMPONENT_ACTIVATIONS ? mask : 0, .curve = curve, .component = (vram_component)c};
        climb_forward(pass, replay->sharding, k.layer, &k.embedding, &k.head, &s);
        climb_backward(pass, replay->sharding, k.layer, &k.embedding, &k.head, &s);
        curve->points = s.written;
    }
}

void vram_replay_bytes(const vram_pass *pass, const vram_replay *replay, double bytes[VRAM_ALIVE_COUNT])
{
    walk k;
    walk_all(&k, pass, replay);
    for (int i = 0; i < PEAKS; i++) bytes[i] = k.summit.bytes[i];
    bytes[HELD] = k.head.held + k.embedding.kept_later;
    bytes[LATER] = k.head.start + k.embedding.kept_later;
    bytes[DONE] = k.head.gradients + k.embedding.gradients;
    for (int64_t i = 0; i < pass->stage.layers; i++) {
        const piece *p = &k.layer[variant_of(pass, i)];
        bytes[HELD] += k.head.held_left ? p->kept_later : p->kept;
        bytes[LATER] += p->kept_later;
        bytes[DONE] += p->gradients;
    }
}

void vram_replay_when(const vram_pass *pass, vram_role role, vram_replay *replay, int whens, const vram_when when[], vram_report *report)
{
    walk k;
    const vram_sharding *g = replay->sharding;
    bool stand = replay->gradients_stand && (g == NULL || (g->gradients == VRAM_GRADIENTS_STAND && g->s->parallel.engine != VRAM_PARALLEL_ENGINE_DEEPSPEED));
    collection c = {.items = 0, .gradients_stand = stand};
    unsigned phases = 0;
    walk_all(&k, pass, replay);
    for (int variant = HEAD; variant < VARIANTS * pass->model->kinds; variant++)
        if (variant < 0 || k.used[variant]) collect_variant(&k.w, &k.summit, variant, &c);
    for (int i = 0; i < c.items; i++) add_item(&c.item[i], role, whens, when, report);
    add_rounding(&c, role, whens, when, report);
    for (int i = 0; i < whens; i++)
        if (when[i].phase == VRAM_PHASE_BACKWARD) replay->gradient_elements = c.gradient_elements[when[i].alive];
    if (replay->sharding != NULL) add_sharding(replay->sharding, &k.summit, role, report);
    note_logits(pass, replay);
    add_mask(pass, &k.summit, role, whens, when, report);
    for (int i = 0; i < whens; i++) phases |= VRAM_BIT(when[i].phase);
    vram_block_shared(pass, role, phases, report);
}

void vram_replay_logits(const vram_replay *replay, vram_role role, unsigned phases, vram_report *report)
{
    static const vram_symbol symbols[4] = {VRAM_SYMBOL_MICRO_BATCH, VRAM_SYMBOL_SEQUENCE, VRAM_SYMBOL_VOCABULARY, VRAM_SYMBOL_BYTES_PER_ELEMENT};
    vram_entry *e = vram_add(report, role, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOGITS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    for (int i = 0; i < 4; i++)
        if (replay->logits[i] != 1) vram_times(e, symbols[i], replay->logits[i]);
}

/* Nothing is kept but autocast's casts of the layers before: the highest piece, and the embeddings, which the model's forward() holds while
 * its layers run. */
double vram_replay_forward(const vram_pass *pass, vram_role role, vram_phase phase, vram_report *report)
{
    walker w = {.pass = pass};
    piece p, layer[MAX_VARIANTS], embedding;
    bool used[MAX_VARIANTS] = {false};
    collection c = {.items = 0};
    int best = EMBEDDING, moment = FORWARD;
    double top, kept = 0;
    const vram_when when = {VRAM_ALIVE_FORWARD, phase};
    run_piece(&w, EMBEDDING, &embedding);
    top = embedding.rise[FORWARD];
    for (int64_t i = 0; i < pass->model->layers; i++) {
        int variant = VARIANTS * pass->model->layer_kind[i];
        if (!used[variant]) run_piece(&w, variant, &layer[variant]);
        used[variant] = true;
        double rise = kept + embedding.rise[FORWARD] + layer[variant].rise[FORWARD];
        if (rise > top) { top = rise; best = (int)i; }
        kept += layer[variant].kept;
    }
    if (pass->scored > 0) {
        run_piece(&w, HEAD, &p);
        for (int i = FORWARD; i <= LOSS; i++)
            if (kept + p.rise[i] > top) { top = kept + p.rise[i]; best = HEAD; moment = i; }
        if (p.rise_left > top) { top = p.rise_left; best = HEAD; moment = HELD; }
    }
    if (report == NULL) return top;
    for (int variant = HEAD; variant < MAX_VARIANTS; variant++) {
        bool here = variant < 0 ? best == variant : best >= 0 && VARIANTS * pass->model->layer_kind[best] == variant;
        double before = 0;
        if (variant >= 0 && !used[variant]) continue;
        if (variant == HEAD && best != HEAD) continue;
        for (int64_t i = 0; variant >= 0 && moment != HELD && i < (best == HEAD ? pass->model->layers : best); i++) before += VARIANTS * pass->model->layer_kind[i] == variant;
        run_piece(&w, variant, &p);
        collect(&c, &w.tape, w.sets.kept, FORWARD, before);
        if (here || (variant == EMBEDDING && best >= 0)) collect(&c, &w.tape, moment == HELD ? w.sets.top_left : w.sets.top[moment], FORWARD, 1);
    }
    for (int i = 0; i < c.items; i++) add_item(&c.item[i], role, 1, &when, report);
    add_rounding(&c, role, 1, &when, report);
    vram_block_shared(pass, role, VRAM_BIT(phase), report);
    return top;
}
