/* replay.c -- one walk over a training step: forward, loss, backward.
 *
 * A model is an embedding, layers and a head; each is a tape (block.c). A tape is run once for each different layer: what it keeps for
 * backward, how high it rises while it runs, which gradients it leaves. Identical layers are then a product, exactly, since a
 * layer's run does not depend on how many have gone before: the peak of a phase is, over the layers, what the others hold at that
 * moment plus the layer's own rise. */
#include "replay.h"

#include <string.h>

enum {
    VARIANTS = 8, MAX_VARIANTS = VARIANTS * VRAM_MAX_KINDS, FORWARD = VRAM_ALIVE_FORWARD, LOSS = VRAM_ALIVE_LOSS, BACKWARD = VRAM_ALIVE_BACKWARD, HELD = VRAM_ALIVE_HELD,
    LATER = VRAM_ALIVE_LATER, DONE = VRAM_ALIVE_DONE, LASTING = VRAM_ALIVE_LASTING, PEAKS = 3, MOMENTS = VRAM_ALIVE_COUNT
};
enum { EMBEDDING = VRAM_PLACE_EMBEDDING, HEAD = VRAM_PLACE_HEAD };
enum { NO_INPUT_GRADIENT = 1, CHECKPOINTED = 2, SHARING = 4 }; /* of a variant: see variant_of() */

/* What is asked of a piece: which of its tensors stand then, and their bytes */
enum {
    RISE,                      /* the highest that it comes to in each of the three phases, with what it holds itself */
    RISE_LEFT = RISE + PEAKS,  /* of the head: in the loss once autocast is left, above what the layers keep without its cache */
    BEGUN,                     /* of the head: when the loss begins */
    KEPT,                      /* after its forward, until the loss is computed; its output not included */
    KEPT_LATER,                /* the same, during backward */
    GRADIENTS,                 /* of parameters, after its backward, and what the caller holds */
    STANDING,                  /* what a layer leaves besides, until the first layer's backward is over, or (lasting) its own next forward */
    START,                     /* of the head: when its backward begins */
    AFTER,                     /* when its backward is over, with its gradients and its input's */
    INPUT,                     /* its input, which checkpoints keep */
    SETS
};

typedef struct {
    double bytes[SETS];
    bool leaves, left;         /* of the head: autocast is left in the loss; before the loss begins */
    bool lasts, early;         /* what is STANDING; the forward is highest before it goes */
    int tensors, bits, words;  /* where the walker has noted them: what each cell is, and sets of cells of so many words */
} piece;

/* Like tensors, and how many of them are alive at each moment */
typedef struct {
    vram_tape_shape shape;
    double bytes, count[MOMENTS];
    short what, next, other;   /* the next of the same shape; of a shape's first: that of another shape */
    unsigned char component, width;
    bool counted;
} like;

enum { MAX_LIKES = 640, MAX_TENSORS = 1 << 15, MAX_BITS = 1 << 14, NONE = -1 };

typedef struct {
    const vram_pass *pass;
    const vram_sharding *sharding; /* NULL: none */
    bool accumulate, spares, offloads;
    bool gradients_stand;      /* new ones are added to them */
    short variant[VRAM_MAX_LAYERS]; /* of each layer */
    vram_tape tape;
    vram_run run;
    uint64_t set[SETS][VRAM_TAPE_WORDS]; /* of the piece at hand */
    short of_shape[VRAM_TAPE_SHAPES]; /* the first of the likes that have a shape of the tape's */
    int likes, tensors, bits, counted;
    short shapes;              /* the first of the first shape's */
    like like[MAX_LIKES];
    short order[MAX_LIKES];    /* likes as they were counted first */
    double gradient_elements[MOMENTS];
    short tensor[MAX_TENSORS];
    uint64_t bit[MAX_BITS];
    vram_steps *steps;         /* the record of all pieces, */
    vram_recorded *recorded;   /* and of the piece at hand; NULL: nobody asks for it */
} walker;

/* --------------------------------------------------------------------------------------------------------- one piece -- */

/* Megatron's selective recomputation is of attention's core alone, and its tapes have that in them. */
static bool recomputes(const vram_scenario *s)
{
    return s->training.checkpointing == VRAM_CHECKPOINTING_FULL || (s->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE && !vram_is_megatron(s, &s->model));
}

/* Has a layer behind it the same block? Its gradients stand then (Zamba) */
static bool repeated(const vram_pass *pass, int64_t layer)
{
    int64_t blocks = pass->model->kind[pass->stage->kind[layer]].shared_blocks, behind = 0;
    for (int64_t i = layer + 1; i < pass->stage->layers && blocks > 0 && behind < blocks; i++) behind += pass->stage->kind[i] == pass->stage->kind[layer];
    return blocks > 0 && behind >= blocks;
}

/* Layers up to the first with an adapter get no gradient back: their input requires none, unless checkpoints make the embeddings require one, or these have an adapter. */
static int64_t layers_without_input_gradient(const vram_pass *pass)
{
    const vram_model *m = pass->model;
    if (pass->input_gradient || (pass->gradients && pass->lora && vram_lora_takes_embedding(pass->scenario))) return 0;
    for (int64_t i = 0; pass->lora && i < m->stage.layers; i++)
        for (int t = 0; t < m->tensors; t++)
            if (m->tensor[t].kind == m->stage.kind[i] && vram_lora_rank(pass->scenario, m, &m->tensor[t]) > 0) return i + 1;
    return 1; /* targets that this model names otherwise: as if each layer had some */
}

/* What a layer's run depends on beside its kind: whether its input requires a gradient, whether its forward is run again, and whether others
 * then find its keys. Of every so many layers the last is, as torchtitan counts them (activation_checkpoint.py, selective_ac_option). */
static int variant_of(const vram_pass *pass, int64_t layer, int64_t without)
{
    const vram_scenario *s = pass->scenario;
    int64_t every = s->training.checkpointing == VRAM_CHECKPOINTING_FULL && !vram_is_megatron(s, pass->model) ? s->training.checkpointing_interval : 1;
    bool again = recomputes(s) && (layer + 1) % every == 0;
    bool keeps_state = pass->model->kind[pass->stage->kind[layer]].state.type == VRAM_STATE_RGLRU && pass->tokens > 1;
    bool shares = again && (keeps_state || layer == pass->sharing[0] || layer == pass->sharing[1]);
    if (repeated(pass, layer)) shares = true; /* such a layer keeps nothing for others */
    return VARIANTS * pass->stage->kind[layer] + (layer < without ? NO_INPUT_GRADIENT : 0) + (again ? CHECKPOINTED : 0) + (shares ? SHARING : 0);
}

/* The record, where one is kept: what follows is a part of the piece; what comes from outside; a silence, in which tensors only change hands. */
static void record_part(walker *w, vram_recorded_part part)
{
    if (w->recorded != NULL) w->recorded->event[part] = w->run.record->events;
}

static void record_on(walker *w, bool on)
{
    if (w->recorded != NULL) w->run.record->on = on;
}

static short record_bind(walker *w, vram_cell c) { return w->recorded == NULL ? (short)-1 : vram_record_bind(&w->tape, w->run.record, c); }
static short recorded_as(const walker *w, vram_cell c) { return c < 0 ? (short)-1 : w->run.record->number[c]; }

static void record_begin(walker *w)
{
    if (w->recorded == NULL) return;
    vram_record *r = w->run.record;
    memset(r->number, -1, sizeof r->number);
    r->first = r->tensors;
    *w->recorded = (vram_recorded){.first = r->first, .output = -1, .arriving = -1, .leaving = -1, .awaited = -1};
    if (w->tape.input >= 0) record_bind(w, w->tape.input);
    record_part(w, VRAM_PART_FORWARD);
    record_on(w, true);
}

/* The output goes to the next piece */
static void record_output(walker *w, vram_cell base)
{
    record_on(w, false);
    if (w->recorded != NULL) {
        w->recorded->output = recorded_as(w, base);
        w->recorded->shares_output = w->run.holders[base] > 1;
    }
    vram_run_release(&w->tape, &w->run, base);
    record_part(w, VRAM_PART_FORGET);
    record_on(w, true);
}

static void record_end(walker *w)
{
    if (w->recorded == NULL) return;
    record_part(w, VRAM_PART_END);
    record_on(w, false);
    w->recorded->tensors = w->run.record->tensors - w->recorded->first;
    w->recorded->leaving = w->tape.input < 0 ? (short)-1 : recorded_as(w, w->run.gradient[w->tape.input]);
}

static void arrive(walker *w)
{
    record_on(w, false);
    vram_cell g = vram_run_arrive(&w->tape, &w->run);
    record_on(w, true);
    short number = record_bind(w, g);
    if (w->recorded != NULL) w->recorded->arriving = number;
}

static void await_other(walker *w, bool sole_holder)
{
    vram_cell table = w->tape.op[0].in[0];
    vram_run_await(&w->tape, &w->run, table, sole_holder);
    short number = record_bind(w, w->run.gradient[table]);
    if (number < 0) return;
    w->recorded->awaited = number;
    if (w->run.holders[w->run.gradient[table]] == 1) w->run.record->kind[w->run.record->first + number] = VRAM_RECORDED_TIED; /* what is added to it stays in it */
}

static void note(walker *w, piece *p, int set, double bytes, const uint64_t cells[])
{
    p->bytes[set] = bytes;
    memcpy(w->set[set], cells, sizeof w->set[set]);
}

static void note_peak(walker *w, piece *p, int moment) { note(w, p, moment, w->run.peak, vram_run_top(&w->run)); }
static void note_live(walker *w, piece *p, int set) { note(w, p, set, w->run.now, w->run.live); }

static void note_without(walker *w, piece *p, int set, vram_cell c)
{
    note_live(w, p, set);
    if (c < 0 || !vram_run_in(w->run.live, c)) return;
    w->set[set][c / 64] &= ~(UINT64_C(1) << (c % 64));
    p->bytes[set] -= w->tape.cell[c].block;
}

static void run_gradients(walker *w, piece *p)
{
    vram_run *r = &w->run;
    record_part(w, VRAM_PART_BACKWARD);
    if (w->tape.output >= 0 && (w->tape.input < 0 || w->tape.cell[w->tape.output].grad)) arrive(w); /* the embeddings are made to require one */
    if (w->tape.aside >= 0) vram_run_await(&w->tape, r, w->tape.aside, true);
    if (w->tape.input < 0 && vram_is_tied(w->pass)) await_other(w, w->pass->head == VRAM_HEAD_TILED || w->pass->head == VRAM_HEAD_CHUNKED || w->pass->head == VRAM_HEAD_FUSED);
    vram_run_backward(&w->tape, r, w->tape.ops - 1, 0);
    if (w->tape.input >= 0) vram_run_use_waiting(&w->tape, r); /* the embedding's gradient is the last: the step uses it */
    note_peak(w, p, BACKWARD);
    vram_run_land(&w->tape, r);
    vram_run_return(&w->tape, r);
    record_end(w);
    note_live(w, p, AFTER);
    note_without(w, p, GRADIENTS, w->tape.input < 0 ? VRAM_NO_CELL : r->gradient[w->tape.input]);
}

/* Autocast casts a weight once for all layers that have it. */
static void count_repeated_casts(vram_tape *t, bool counted)
{
    for (vram_cell c = 0; c < t->cells; c++)
        if (t->cell[c].cached && t->cell[c].repeated) t->cell[c].outside = !counted;
}

static void run_kept(walker *w, piece *p, bool repeats)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    if (repeats) count_repeated_casts(t, false);
    vram_run_clear(t, r, w->accumulate);
    record_begin(w);
    r->offloads = w->offloads;
    vram_run_forward(t, r, 0, t->ops, w->pass->gradients);
    note_peak(w, p, FORWARD);
    vram_run_land(t, r);
    vram_cell base = t->cell[t->output].base;
    note_without(w, p, KEPT, t->named && !(w->variant[0] & CHECKPOINTED) ? VRAM_NO_CELL : base);
    if (!w->pass->gradients) return;
    record_output(w, base);
    vram_run_forget(t, r);
    note_live(w, p, KEPT_LATER);
    vram_run_rest(r);
    r->repeats = repeats;
    run_gradients(w, p);
}

/* Keys and values that others find have a name that outlives the layer's forward. */
static void swap_last_use(vram_tape *t, short last_use[2])
{
    for (int i = 0; i < 2; i++) {
        if (t->shared[i] < 0 || t->lasting) continue;
        vram_tape_cell *cell = &t->cell[t->cell[t->shared[i]].base];
        short mine = cell->last_use;
        cell->last_use = last_use[i];
        last_use[i] = mine;
    }
}

/* Of what is left when a layer's backward is over: that which is no gradient of a parameter, the graph of keys that others find */
static void tell_standing(walker *w, piece *p)
{
    p->lasts = w->tape.lasting;
    memset(w->set[STANDING], 0, sizeof w->set[STANDING]);
    for (vram_cell c = 0; c < w->tape.cells; c++) {
        if (!vram_run_in(w->set[GRADIENTS], c) || w->tape.cell[c].component == VRAM_COMPONENT_GRADIENTS) continue;
        w->set[GRADIENTS][c / 64] &= ~(UINT64_C(1) << (c % 64));
        w->set[STANDING][c / 64] |= UINT64_C(1) << (c % 64);
        p->bytes[GRADIENTS] -= w->tape.cell[c].block;
        p->bytes[STANDING] += w->tape.cell[c].block;
    }
}

/* Forward, of which only the input is kept, or sent to host memory until it is wanted. Returns the peak before the graph of the forward before has
 * gone, and what stands then (`early`); in `spared` what selective checkpoints keep. */
static double checkpointed_forward(walker *w, piece *p, uint64_t early[VRAM_TAPE_WORDS], uint64_t spared[VRAM_TAPE_WORDS])
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    vram_run_clear(t, r, w->accumulate);
    record_begin(w);
    note_live(w, p, INPUT); /* all that there is yet */
    vram_run_hold(t, r, t->input);
    r->spares = w->spares;
    if (t->returned >= 0) vram_run_hold(t, r, t->returned);
    int fresh = t->lasting ? t->mark : 0; /* from here on the graph of the forward before is gone */
    vram_run_forward(t, r, 0, fresh, false);
    double beside = r->peak;
    memcpy(early, vram_run_top(r), VRAM_TAPE_WORDS * sizeof *early);
    vram_run_forward(t, r, fresh, t->ops, false);
    note_peak(w, p, FORWARD);
    if (t->returned >= 0) vram_run_release(t, r, t->returned);
    if (w->offloads) vram_run_release(t, r, t->input); /* to host memory */
    vram_cell base = t->cell[t->output].base;
    note_without(w, p, KEPT, base);
    record_output(w, base);
    vram_run_forget(t, r);
    note_live(w, p, KEPT_LATER);
    memcpy(spared, r->spared, VRAM_TAPE_WORDS * sizeof *spared);
    return beside;
}

/* Backward runs the forward again. */
static void run_checkpointed(walker *w, piece *p, bool shares)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    uint64_t early[VRAM_TAPE_WORDS], spared[VRAM_TAPE_WORDS];
    short last_use[2] = {-1, -1};
    if (shares) swap_last_use(t, last_use);
    if (shares) count_repeated_casts(t, false);
    double beside = checkpointed_forward(w, p, early, spared);
    record_on(w, false);
    if (shares) swap_last_use(t, last_use);
    if (shares) count_repeated_casts(t, true); /* each second forward has a cache of its own */
    vram_run_clear(t, r, w->accumulate);
    r->repeats = shares;
    vram_run_keep_spared(t, r, spared);
    vram_run_hold(t, r, t->input);
    record_part(w, VRAM_PART_BACKWARD);
    arrive(w);
    int last = vram_run_last_saving(t);
    vram_run_backward(t, r, t->ops - 1, last + 1);
    vram_run_recompute(t, r);
    if (shares) vram_run_hold_graph(t, r, 2, t->shared); /* of the second forward: nobody goes back through it */
    vram_run_backward(t, r, last, 0);
    vram_run_use_waiting(t, r);
    note_peak(w, p, BACKWARD);
    vram_run_release(t, r, t->input);
    record_end(w);
    note_live(w, p, AFTER);
    note_without(w, p, GRADIENTS, r->gradient[t->input]);
    if (shares) tell_standing(w, p);
    p->early = p->lasts && beside + p->bytes[STANDING] > p->bytes[RISE + FORWARD];
    if (p->early) note(w, p, RISE + FORWARD, beside, early);
}

static void forget(walker *w)
{
    record_part(w, VRAM_PART_FORGET);
    vram_run_forget(&w->tape, &w->run);
}

static void run_head(walker *w, piece *p)
{
    vram_tape *t = &w->tape;
    vram_run *r = &w->run;
    int leave = t->leave < t->mark ? t->ops : t->leave;
    p->left = leave == t->mark && t->leave >= 0;
    p->leaves = leave < t->ops;
    vram_run_clear(t, r, w->accumulate);
    record_begin(w);
    r->offloads = w->offloads;
    vram_run_forward(t, r, 0, t->mark, w->pass->gradients);
    note_peak(w, p, FORWARD);
    if (p->left) forget(w);
    note_live(w, p, BEGUN);
    vram_run_rest(r);
    vram_run_forward(t, r, t->mark, leave, w->pass->gradients);
    note_peak(w, p, LOSS);
    if (p->leaves) {
        forget(w);
        vram_run_rest(r);
        vram_run_forward(t, r, leave, t->ops, w->pass->gradients);
        note_peak(w, p, RISE_LEFT);
    }
    if (!w->pass->gradients) return;
    if (!p->left && !p->leaves) forget(w); /* else it is forgotten already */
    vram_run_rest(r);
    note_live(w, p, START);
    run_gradients(w, p);
}

static bool same_shape(const vram_tape_shape *a, const vram_tape_shape *b)
{
    bool same = a->elements == b->elements && a->factors == b->factors;
    for (int i = 0; same && i < a->factors; i++) same = a->factor[i].symbol == b->factor[i].symbol && a->factor[i].value == b->factor[i].value;
    return same;
}

static short more_likes(walker *w, const vram_tape_cell *cell, short next)
{
    short place = (short)(w->likes < MAX_LIKES ? w->likes++ : MAX_LIKES - 1);
    w->like[place] = (like){.shape = w->tape.shape[cell->shape], .bytes = cell->bytes, .what = cell->what, .next = next, .other = NONE, .component = cell->component, .width = cell->width};
    return place;
}

static short first_like(walker *w, const vram_tape_cell *cell)
{
    short i = w->shapes;
    while (i != NONE && !same_shape(&w->like[i].shape, &w->tape.shape[cell->shape])) i = w->like[i].other;
    if (i != NONE) return i;
    i = more_likes(w, cell, NONE);
    w->like[i].other = w->shapes;
    return w->shapes = i;
}

static short like_of(walker *w, const vram_tape_cell *cell)
{
    short *first = &w->of_shape[cell->shape];
    if (*first == NONE) *first = first_like(w, cell);
    for (short i = *first; i != NONE; i = w->like[i].next)
        if (w->like[i].what == cell->what && w->like[i].width == cell->width && w->like[i].component == cell->component) return i;
    short more = more_likes(w, cell, w->like[*first].next);
    return w->like[*first].next = more;
}

static int lowest(uint64_t bits)
{
    int bit = 0;
    while (!(bits >> bit & 1)) bit++;
    return bit;
}

/* Room for a piece's tensors is for more than any model has: the last places are taken again. */
static void keep_sets(walker *w, piece *p)
{
    int cells = w->tape.cells;
    p->words = (cells + 63) / 64;
    p->tensors = w->tensors = w->tensors + cells <= MAX_TENSORS ? w->tensors : MAX_TENSORS - cells;
    p->bits = w->bits = w->bits + SETS * p->words <= MAX_BITS ? w->bits : MAX_BITS - SETS * p->words;
    memset(w->of_shape, -1, sizeof w->of_shape[0] * (size_t)w->tape.shapes);
    for (int word = 0; word < p->words; word++) {
        uint64_t any = 0;
        for (int i = 0; i < SETS; i++) any |= w->bit[p->bits + i * p->words + word] = w->set[i][word];
        for (; any; any &= any - 1) {
            int c = word * 64 + lowest(any);
            w->tensor[p->tensors + c] = like_of(w, &w->tape.cell[c]);
        }
    }
    w->tensors += cells;
    w->bits += SETS * p->words;
}

static void run_piece(walker *w, int variant, piece *p)
{
    memset(p, 0, sizeof *p);
    memset(w->set, 0, sizeof w->set);
    w->recorded = w->steps == NULL ? NULL : &w->steps->piece[w->steps->pieces < VRAM_STEPS_PIECES ? w->steps->pieces++ : VRAM_STEPS_PIECES - 1];
    if (variant == EMBEDDING) vram_block_embedding(w->pass, &w->tape);
    else if (variant == HEAD) vram_block_head(w->pass, &w->tape);
    else vram_block_layer(w->pass, variant / VARIANTS, (variant & NO_INPUT_GRADIENT) == 0, &w->tape);
    if (variant == HEAD) run_head(w, p);
    else if (variant >= 0 && (variant & CHECKPOINTED)) run_checkpointed(w, p, (variant & SHARING) != 0);
    else run_kept(w, p, variant >= 0 && (variant & SHARING) != 0);
    if (w->steps != NULL && variant == EMBEDDING) w->steps->named = w->tape.named;
    keep_sets(w, p);
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

/* Every piece run once; where each phase is fullest */
typedef struct {
    walker w;
    piece layer[MAX_VARIANTS], embedding, head;
    bool used[MAX_VARIANTS];
    summit summit;
} walk;

/* Other micro-batches whose activations a layer holds */
static double others_of(const vram_stage *stage, int64_t layer) { return (double)(stage->in_flight[layer] - 1); }

static const piece *layer_piece(const walk *k, int64_t layer) { return &k->layer[k->w.variant[layer]]; }

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

/* What embedding and layers keep for the other micro-batches of a pipeline */
static double others_in_flight(const walk *k)
{
    const vram_stage *stage = k->w.pass->stage;
    double kept = stage->embedding ? k->embedding.bytes[KEPT_LATER] * others_of(stage, 0) : 0;
    for (int64_t i = 0; i < stage->layers; i++) kept += layer_piece(k, i)->bytes[KEPT_LATER] * others_of(stage, i);
    return kept;
}

/* Of all layers the graphs that modules keep since the step before */
static double lasting(const walk *k)
{
    double sum = 0;
    for (int64_t i = 0; i < k->w.pass->stage->layers; i++) sum += layer_piece(k, i)->lasts ? layer_piece(k, i)->bytes[STANDING] : 0;
    return sum;
}

static void climb_forward(const walk *k, summit *s)
{
    const vram_pass *pass = k->w.pass;
    const vram_sharding *g = k->w.sharding;
    const piece *embedding = &k->embedding, *head = &k->head;
    double kept = others_in_flight(k), later = kept, held = s->mask, old = lasting(k);
    if (g != NULL && vram_sharding_bytes(g, VRAM_MOMENT_LOAD, EMBEDDING) > 0) candidate(s, g, FORWARD, VRAM_MOMENT_LOAD, EMBEDDING, 0); /* what stands between two steps goes as it begins */
    if (pass->stage->embedding) candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, EMBEDDING, kept + old + embedding->bytes[RISE + FORWARD]);
    for (int64_t i = 0; i < pass->stage->layers; i++) {
        const piece *p = layer_piece(k, i);
        if (p->lasts) old -= p->bytes[STANDING];
        candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, (int)i, kept + old + (p->early ? p->bytes[STANDING] : 0) + inputs_in_flight(pass, i) * p->bytes[INPUT] + p->bytes[RISE + FORWARD] + held);
        kept += p->bytes[KEPT];
        later += p->bytes[KEPT_LATER];
        if (i == 0 && pass->stage->embedding) kept += embedding->bytes[KEPT]; /* the first layer's input is the embedding's output */
        write_down(s, FORWARD, (int)i, kept + old + held + (g != NULL ? sharding_part(s, g, VRAM_MOMENT_FORWARD, (int)i) : 0));
    }
    held = held_after(pass, s);
    if (pass->stage->embedding) { /* names go with the model's forward() */
        kept += embedding->bytes[KEPT_LATER] - (pass->stage->layers > 0 ? embedding->bytes[KEPT] : 0);
        later += embedding->bytes[KEPT_LATER];
    }
    if (pass->stage->head) {
        candidate(s, g, FORWARD, VRAM_MOMENT_FORWARD, HEAD, kept + head->bytes[RISE + FORWARD] + held);
        if (!head->left) candidate(s, g, LOSS, VRAM_MOMENT_LOSS, HEAD, kept + head->bytes[RISE + LOSS] + held);
        double within = s->bytes[LOSS];
        if (head->leaves) candidate(s, g, LOSS, VRAM_MOMENT_LOSS, HEAD, later + head->bytes[RISE_LEFT] + held);
        s->left = s->bytes[LOSS] > within;
        s->held_left = head->left;
    } else if (s->curve == NULL) candidate(s, NULL, LOSS, VRAM_MOMENT_FORWARD, s->place[FORWARD], s->bytes[FORWARD]); /* that of another stage */
}

static void climb_backward(const walk *k, summit *s)
{
    const vram_pass *pass = k->w.pass;
    const vram_sharding *g = k->w.sharding;
    const piece *embedding = &k->embedding, *head = &k->head;
    double others = others_in_flight(k), later = others, gradients = pass->stage->head && gradients_stay(g, HEAD) ? head->bytes[GRADIENTS] : 0, standing = 0, held = held_after(pass, s);
    if (pass->stage->embedding) later += embedding->bytes[KEPT_LATER];
    for (int64_t i = 0; i < pass->stage->layers; i++) later += layer_piece(k, i)->bytes[KEPT_LATER];
    if (g != NULL && pass->stage->head) candidate(s, g, BACKWARD, VRAM_MOMENT_START, HEAD, later + head->bytes[START] + held);
    if (pass->stage->head) candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, HEAD, later + head->bytes[RISE + BACKWARD] + held);
    for (int64_t i = pass->stage->layers - 1; i >= 0; i--) {
        const piece *p = layer_piece(k, i);
        later -= p->bytes[KEPT_LATER];
        candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, (int)i, later + gradients + standing + p->bytes[RISE + BACKWARD] + held);
        if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_REDUCE, (int)i, later + gradients + standing + p->bytes[AFTER] + held);
        if (gradients_stay(g, (int)i)) gradients += p->bytes[GRADIENTS];
        standing += p->bytes[STANDING];
        write_down(s, BACKWARD, (int)i, later + gradients + standing + held + (g != NULL ? sharding_part(s, g, VRAM_MOMENT_BACKWARD, (int)i) : 0));
    }
    if (pass->stage->embedding) {
        candidate(s, g, BACKWARD, VRAM_MOMENT_BACKWARD, EMBEDDING, others + gradients + lasting(k) + embedding->bytes[RISE + BACKWARD]);
        if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_REDUCE, EMBEDDING, others + gradients + embedding->bytes[AFTER]);
    }
    if (g != NULL) candidate(s, g, BACKWARD, VRAM_MOMENT_EPILOGUE, EMBEDDING, 0);
}

/* ------------------------------------------------------------------------------------------------------------- entries -- */

static bool is_trained(const like *l) { return l->component == VRAM_COMPONENT_GRADIENTS && l->what == VRAM_WHAT_TRAINABLE; }

/* Gradients of parameters that stand already are tensors only until they are added; the others are no entries of the pass. */
static void count_like(walker *w, short i, int moment, double times)
{
    like *l = &w->like[i];
    bool trained = is_trained(l);
    if (trained && !w->gradients_stand) {
        w->gradient_elements[moment] += times * l->shape.elements;
        return;
    }
    if (trained) {
        l->component = VRAM_COMPONENT_WORKSPACE;
        l->what = VRAM_WHAT_UNREDUCED;
    }
    if (!l->counted) w->order[w->counted++] = i;
    l->counted = true;
    l->count[moment] += times;
}

static void collect(walker *w, const piece *p, int set, int moment, double times)
{
    if (times <= 0) return;
    for (int word = 0; word < p->words; word++)
        for (uint64_t bits = w->bit[p->bits + set * p->words + word]; bits; bits &= bits - 1)
            count_like(w, w->tensor[p->tensors + word * 64 + lowest(bits)], moment, times);
}

/* Of the layers of a variant: how many stand before a place (in order of forward), how many behind */
static void count_layers(const walker *w, int variant, int place, double *before, double *behind)
{
    *before = *behind = 0;
    for (int64_t i = 0; i < w->pass->stage->layers; i++) {
        if (w->variant[i] != variant) continue;
        bool earlier = place == HEAD || (place != EMBEDDING && i < place);
        if (earlier) ++*before;
        else if (i != place) ++*behind;
    }
}

/* How often a piece's kept tensors stand for other micro-batches */
static double count_others(const walker *w, int variant)
{
    const vram_stage *stage = w->pass->stage;
    double others = variant == EMBEDDING && stage->embedding ? others_of(stage, 0) : 0;
    for (int64_t i = 0; i < stage->layers && variant >= 0; i++) others += w->variant[i] == variant ? others_of(stage, i) : 0;
    return others;
}

/* What stands at a moment: the piece at the summit with what it has made, those before it with what they keep, those behind with their gradients */
static void collect_variant(walker *w, const summit *s, int variant, const piece *p)
{
    bool layers_stay = gradients_stay(w->sharding, 0), head_stays = gradients_stay(w->sharding, HEAD);
    for (int moment = 0; moment < MOMENTS; moment++) {
        int place = s->place[moment];
        double before, behind;
        if (moment < PEAKS && (s->moment[moment] == VRAM_MOMENT_EPILOGUE || s->moment[moment] == VRAM_MOMENT_LOAD)) continue;
        if (moment != DONE && moment != LASTING) collect(w, p, KEPT_LATER, moment, count_others(w, variant));
        bool here = moment < PEAKS && (variant < 0 ? place == variant : place >= 0 && w->variant[place] == variant);
        bool uncached = moment == BACKWARD || moment == LATER || (moment == LOSS && s->left) || (moment == HELD && s->held_left);
        if (here && variant >= 0 && moment == FORWARD) collect(w, p, INPUT, moment, inputs_in_flight(w->pass, place));
        if (here && moment == FORWARD && p->early) collect(w, p, STANDING, moment, 1);
        if (here && moment == LOSS && s->left) collect(w, p, RISE_LEFT, moment, 1);
        else if (here) collect(w, p, s->moment[moment] == VRAM_MOMENT_REDUCE ? AFTER : s->moment[moment] == VRAM_MOMENT_START ? START : RISE + (s->moment[moment] == VRAM_MOMENT_FORWARD ? FORWARD : moment), moment, 1);
        if (variant >= 0) {
            count_layers(w, variant, place, &before, &behind);
            collect(w, p, uncached ? KEPT_LATER : KEPT, moment, before);
            if ((moment == BACKWARD || moment == DONE) && layers_stay) collect(w, p, GRADIENTS, moment, behind);
            if ((moment == BACKWARD && (place != EMBEDDING || p->lasts)) || (p->lasts && (moment == LASTING || moment == FORWARD))) collect(w, p, STANDING, moment, behind);
        } else if (variant == HEAD && w->pass->stage->head) {
            if (moment == HELD) collect(w, p, BEGUN, moment, 1);
            if (moment == LATER) collect(w, p, START, moment, 1);
            if ((moment == BACKWARD && place != HEAD && head_stays) || moment == DONE) collect(w, p, GRADIENTS, moment, 1);
        } else if (variant == EMBEDDING && w->pass->stage->embedding) {
            if (moment == DONE) collect(w, p, GRADIENTS, moment, 1);
            else if (moment == FORWARD && place > 0) collect(w, p, KEPT, moment, 1);
            else if (place != EMBEDDING && !(moment == FORWARD && place >= 0)) collect(w, p, KEPT_LATER, moment, 1);
        }
    }
}

/* One entry for the phases in which as many are alive */
static void add_like(const like *l, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    bool done[MOMENTS] = {false};
    for (int i = 0; i < whens; i++) {
        unsigned phases = 0;
        double count = l->count[when[i].alive];
        if (done[i] || count <= 0) continue;
        for (int j = i; j < whens; j++)
            if (l->count[when[j].alive] == count) { phases |= VRAM_BIT(when[j].phase); done[j] = true; }
        vram_entry *e = vram_add(report, role, (vram_component)l->component, (vram_what)l->what, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
        if (count > 1) vram_times(e, VRAM_SYMBOL_COPIES, count);
        for (int k = 0; k < l->shape.factors; k++)
            if (l->shape.factor[k].value != 1 || l->shape.factors == 1) vram_times(e, l->shape.factor[k].symbol, l->shape.factor[k].value);
        if (l->shape.factor[0].symbol != VRAM_SYMBOL_BYTES) vram_times(e, VRAM_SYMBOL_BYTES_PER_ELEMENT, l->width);
    }
}

static void add_counted(const walker *w, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    double rounding[MOMENTS] = {0};
    for (int i = 0; i < w->counted; i++) {
        const like *l = &w->like[w->order[i]];
        add_like(l, role, whens, when, report);
        for (int k = 0; k < whens; k++) rounding[k] += l->count[when[k].alive] * (vram_block_bytes(l->bytes) - l->bytes);
    }
    for (int k = 0; k < whens; k++)
        if (rounding[k] > 0)
            vram_times(vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ALLOCATOR_ROUNDING, VRAM_EXACT, VRAM_SOURCE_PYTORCH_ALLOCATOR, VRAM_BIT(when[k].phase)), VRAM_SYMBOL_BYTES, rounding[k]);
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

/* What the sharding engine holds then: one entry for the phases in which it is the same */
static void add_sharding(const vram_sharding *g, const summit *s, vram_role role, int whens, const vram_when when[], vram_report *report)
{
    vram_sharding_list list[MOMENTS];
    for (int i = 0; i < whens; i++) {
        vram_alive alive = when[i].alive;
        list[i].items = 0;
        if (alive == VRAM_ALIVE_LASTING) continue; /* at rest: training.c's */
        list[i] = (int)alive < PEAKS ? vram_sharding_items(g, s->moment[alive], s->place[alive]) : vram_sharding_items(g, alive == VRAM_ALIVE_DONE ? VRAM_MOMENT_DONE : VRAM_MOMENT_WAIT, EMBEDDING);
    }
    for (int i = 0; i < whens; i++)
        for (int j = 0; j < list[i].items; j++) {
            vram_sharding_list one = {.items = 1, .item = {list[i].item[j]}};
            unsigned phases = VRAM_BIT(when[i].phase);
            if (one.item[0].copies <= 0) continue;
            for (int k = i + 1; k < whens; k++)
                if (vram_sharding_take(&list[k], &one.item[0])) phases |= VRAM_BIT(when[k].phase);
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
    if (pass->head == VRAM_HEAD_LOSS && pass->stage->head) replay->logits_bytes = bytes; /* of the other there is only the loss */
}

static void start_walk(walker *w, const vram_pass *pass, const vram_sharding *g, bool gradients_stand)
{
    w->pass = pass;
    w->sharding = g;
    w->accumulate = g == NULL || g->gradients == VRAM_GRADIENTS_STAND ? gradients_stand : g->gradients == VRAM_GRADIENTS_PASS;
    w->gradients_stand = gradients_stand && (g == NULL || (g->gradients == VRAM_GRADIENTS_STAND && g->s->parallel.engine != VRAM_PARALLEL_ENGINE_DEEPSPEED));
    w->spares = pass->scenario->training.checkpointing == VRAM_CHECKPOINTING_SELECTIVE;
    w->offloads = offloads(pass);
    w->steps = NULL;
    w->run.record = NULL;
    w->likes = w->tensors = w->bits = w->counted = 0;
    w->shapes = NONE;
    memset(w->gradient_elements, 0, sizeof w->gradient_elements);
    int64_t without = layers_without_input_gradient(pass);
    for (int64_t i = 0; i < pass->stage->layers; i++) w->variant[i] = (short)variant_of(pass, i, without);
}

/* The pieces are recorded in the order in which they are run: kinds of layers, embedding, head. */
static void steps_of(const walk *k, vram_steps *steps)
{
    const vram_pass *pass = k->w.pass;
    short number[MAX_VARIANTS];
    int pieces = 0;
    memset(number, -1, sizeof number);
    for (int64_t i = 0; i < pass->stage->layers; i++) {
        short *n = &number[k->w.variant[i]];
        if (*n < 0) *n = (short)pieces++;
        steps->layer[i] = (unsigned char)*n;
    }
    steps->embedding = (unsigned char)pieces++;
    steps->head = (unsigned char)pieces++;
    steps->layers = (int)pass->stage->layers;
    steps->full = steps->record.full || pieces > VRAM_STEPS_PIECES;
    steps->masks = vram_block_masks(pass);
    steps->mask = k->summit.mask / vram_max(1, steps->masks.whole + steps->masks.window);
    steps->pairs = pass->tokens * pass->tokens;
    steps->masks_kept = recomputes(pass->scenario);
}

static void walk_all(walk *k, const vram_pass *pass, const vram_replay *replay)
{
    vram_steps *steps = replay->steps;
    k->summit = (summit){.place = {EMBEDDING, HEAD, HEAD, HEAD, HEAD, EMBEDDING, EMBEDDING}, .moment = {VRAM_MOMENT_FORWARD, VRAM_MOMENT_LOSS, VRAM_MOMENT_BACKWARD}, .bytes = {-1, -1, -1}};
    k->summit.mask = vram_block_mask(pass, k->summit.mask_factor);
    memset(k->used, 0, sizeof k->used);
    start_walk(&k->w, pass, replay->sharding, replay->gradients_stand);
    k->w.steps = steps;
    if (steps != NULL) {
        steps->pieces = steps->record.events = steps->record.tensors = 0;
        steps->record.full = steps->record.on = false;
        k->w.run.record = &steps->record;
    }
    for (int64_t i = 0; i < pass->stage->layers; i++) {
        int variant = k->w.variant[i];
        if (!k->used[variant]) run_piece(&k->w, variant, &k->layer[variant]);
        k->used[variant] = true;
    }
    run_piece(&k->w, EMBEDDING, &k->embedding);
    run_piece(&k->w, HEAD, &k->head);
    climb_forward(k, &k->summit);
    climb_backward(k, &k->summit);
    if (steps != NULL) steps_of(k, steps);
}

/* Calls for the head, the embedding and each layer that there is */
static piece *piece_of(walk *k, int variant)
{
    return variant == HEAD ? &k->head : variant == EMBEDDING ? &k->embedding : k->used[variant] ? &k->layer[variant] : NULL;
}

/* ------------------------------------------------------------------------------------------------------------- the curve -- */

/* The same piece, but of its tensors only those of one component */
static void project(const walker *w, vram_component component, piece *p)
{
    for (int set = 0; set < SETS; set++) {
        p->bytes[set] = 0;
        for (int word = 0; word < p->words; word++)
            for (uint64_t bits = w->bit[p->bits + set * p->words + word]; bits; bits &= bits - 1) {
                const like *l = &w->like[w->tensor[p->tensors + word * 64 + lowest(bits)]];
                bool trained = is_trained(l);
                int of = trained && w->gradients_stand ? VRAM_COMPONENT_WORKSPACE : (int)l->component;
                if (of == (int)component) p->bytes[set] += floor(vram_block_bytes(l->bytes) * (trained ? w->pass->gradient_share : 1));
            }
    }
}

/* The climb once more for every component, its instants written down: what they add up to is the climb of the whole. */
void vram_replay_curve(const vram_pass *pass, const vram_replay *replay, vram_timeline *curve)
{
    walk k;
    piece *p;
    walk_all(&k, pass, replay);
    double mask = k.summit.mask;
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++) {
        for (int variant = HEAD; variant < VARIANTS * pass->model->kinds; variant++)
            if ((p = piece_of(&k, variant)) != NULL) project(&k.w, (vram_component)c, p);
        summit s = {.bytes = {-1, -1, -1}, .mask = c == VRAM_COMPONENT_ACTIVATIONS ? mask : 0, .curve = curve, .component = (vram_component)c};
        climb_forward(&k, &s);
        climb_backward(&k, &s);
        curve->points = s.written;
    }
}

void vram_replay_when(const vram_pass *pass, vram_role role, vram_replay *replay, int whens, const vram_when when[], vram_report *report)
{
    walk k;
    const piece *p;
    unsigned phases = 0;
    walk_all(&k, pass, replay);
    for (int variant = HEAD; variant < VARIANTS * pass->model->kinds; variant++)
        if ((p = piece_of(&k, variant)) != NULL) collect_variant(&k.w, &k.summit, variant, p);
    add_counted(&k.w, role, whens, when, report);
    for (int i = 0; i < whens; i++)
        if (when[i].phase == VRAM_PHASE_BACKWARD) replay->gradient_elements = k.w.gradient_elements[when[i].alive];
    if (replay->sharding != NULL) add_sharding(replay->sharding, &k.summit, role, whens, when, report);
    note_logits(pass, replay);
    add_mask(pass, &k.summit, role, whens, when, report);
    for (int i = 0; i < whens; i++) phases |= when[i].alive == VRAM_ALIVE_LASTING ? 0 : VRAM_BIT(when[i].phase);
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
    walk k;
    walker *w = &k.w;
    const piece *p;
    int best = EMBEDDING, set = RISE + FORWARD;
    double top, kept = 0;
    const vram_when when = {VRAM_ALIVE_FORWARD, phase};
    start_walk(w, pass, NULL, false);
    w->spares = w->offloads = false;
    memset(k.used, 0, sizeof k.used);
    run_piece(w, EMBEDDING, &k.embedding);
    top = k.embedding.bytes[RISE + FORWARD];
    for (int64_t i = 0; i < pass->stage->layers; i++) {
        int variant = VARIANTS * pass->stage->kind[i];
        if (!k.used[variant]) run_piece(w, variant, &k.layer[variant]);
        k.used[variant] = true;
        double rise = kept + k.embedding.bytes[RISE + FORWARD] + k.layer[variant].bytes[RISE + FORWARD];
        if (rise > top) { top = rise; best = (int)i; }
        kept += k.layer[variant].bytes[KEPT];
    }
    if (pass->scored > 0) {
        run_piece(w, HEAD, &k.head);
        for (int i = FORWARD; i <= LOSS; i++)
            if (kept + k.head.bytes[RISE + i] > top) { top = kept + k.head.bytes[RISE + i]; best = HEAD; set = RISE + i; }
        if (k.head.leaves && k.head.bytes[RISE_LEFT] > top) { top = k.head.bytes[RISE_LEFT]; best = HEAD; set = RISE_LEFT; }
    }
    if (report == NULL) return top;
    for (int variant = best == HEAD ? HEAD : EMBEDDING; variant < VARIANTS * pass->model->kinds; variant++) {
        bool here = variant < 0 ? best == variant : best >= 0 && VARIANTS * pass->stage->kind[best] == variant;
        double before = 0;
        if ((p = piece_of(&k, variant)) == NULL) continue;
        for (int64_t i = 0; variant >= 0 && set != RISE_LEFT && i < (best == HEAD ? pass->stage->layers : best); i++) before += VARIANTS * pass->stage->kind[i] == variant;
        collect(w, p, KEPT, FORWARD, before);
        if (here || (variant == EMBEDDING && best >= 0)) collect(w, p, set, FORWARD, 1);
    }
    add_counted(w, role, 1, &when, report);
    vram_block_shared(pass, role, VRAM_BIT(phase), report);
    return top;
}
