/* run.c -- running a tape: a storage lives while somebody holds it.
 *
 * Forward, an op makes its tensors; names of Python's let go after their last use, autograd holds what it saves. Backward, the ops go
 * in reverse; an op's node makes the gradients of its inputs, then lets go of its own gradient and of what was saved for it, then the
 * gradients reach their inputs: the first stays, a second is added to it. Source: torch/csrc/autograd/engine.cpp (evaluate_function),
 * input_buffer.cpp (accumulate: in place when one of the two has no other holder and is no view, else a third tensor). */
#include "tape.h"

#include <string.h>

static void set(uint64_t words[], vram_cell c) { words[c / 64] |= UINT64_C(1) << (c % 64); }
static void unset(uint64_t words[], vram_cell c) { words[c / 64] &= ~(UINT64_C(1) << (c % 64)); }
bool vram_run_in(const uint64_t words[], vram_cell c) { return words[c / 64] >> (c % 64) & 1; }

static double rounded(const vram_tape *t, vram_cell c) { return t->cell[c].block; }

/* While the peak rises, what stands is what stands at it: noted when the first goes. */
static void leave_peak(vram_run *r)
{
    if (r->rising) memcpy(r->top, r->live, sizeof r->top);
    r->rising = false;
}

/* ------------------------------------------------------------------------------------------------------------ the record -- */

static void record_event(vram_record *record, int event)
{
    if (record->events < VRAM_RECORD_EVENTS) record->event[record->events++] = (short)event;
    else record->full = true;
}

short vram_record_bind(const vram_tape *t, vram_record *record, vram_cell c)
{
    if (record == NULL || c < 0) return -1;
    if (record->tensors >= VRAM_RECORD_TENSORS) { record->full = true; return -1; }
    const vram_tape_cell *cell = &t->cell[c];
    int n = record->tensors++;
    record->bytes[n] = vram_round_up(cell->bytes, 512);
    record->kind[n] = (unsigned char)(cell->component != VRAM_COMPONENT_GRADIENTS ? VRAM_RECORDED_PLAIN : cell->what == VRAM_WHAT_TIED_GRADIENT ? VRAM_RECORDED_TIED : VRAM_RECORDED_GRADIENT);
    return record->number[c] = (short)(n - record->first);
}

static void record_made(const vram_tape *t, vram_record *record, vram_cell c)
{
    if (record->on) record_event(record, vram_record_bind(t, record, c));
}

static void record_gone(vram_record *record, vram_cell c)
{
    if (!record->on || record->number[c] < 0) return;
    record_event(record, ~record->number[c]);
    record->number[c] = -1;
}

/* --------------------------------------------------------------------------------------------------------- who is alive -- */

const uint64_t *vram_run_top(const vram_run *r) { return r->rising ? r->live : r->top; }

static void alloc(const vram_tape *t, vram_run *r, vram_cell c)
{
    r->holders[c] = 1;
    if (t->cell[c].outside) return;
    if (r->record != NULL) record_made(t, r->record, c);
    double now = r->now + rounded(t, c);
    if (now > r->peak) {
        r->peak = now;
        r->rising = true;
    } else leave_peak(r);
    r->now = now;
    set(r->live, c);
}

void vram_run_release(const vram_tape *t, vram_run *r, vram_cell c)
{
    if (--r->holders[c] > 0) return;
    if (r->record != NULL) record_gone(r->record, c);
    if (t->cell[c].outside) return;
    r->holders[c] = 0;
    if (!vram_run_in(r->live, c)) return;
    leave_peak(r);
    unset(r->live, c);
    r->now -= rounded(t, c);
}

void vram_run_hold(const vram_tape *t, vram_run *r, vram_cell c)
{
    if (r->holders[c] == 0) alloc(t, r, c);
    else r->holders[c]++;
}

void vram_run_rest(vram_run *r)
{
    r->peak = r->now;
    r->rising = true;
}

/* Cells listed by the op after which their names let go. Cells of backward and views are no names. */
static void list_deaths(const vram_tape *t, vram_run *r)
{
    memset(r->dying, -1, sizeof r->dying[0] * (size_t)t->ops);
    for (vram_cell c = (vram_cell)(t->cells - 1); c >= 0; c--) {
        const vram_tape_cell *cell = &t->cell[c];
        if (cell->base != c || cell->outside || cell->cached || cell->last_use < 0) continue;
        r->next[c] = r->dying[cell->last_use];
        r->dying[cell->last_use] = c;
    }
}

void vram_run_clear(const vram_tape *t, vram_run *r, bool accumulate)
{
    r->now = r->peak = 0;
    r->accumulate = accumulate;
    r->repeats = false;
    r->waiting = VRAM_NO_CELL;
    r->spares = r->offloads = r->recomputed = false;
    r->products = r->flights = r->numbers = r->backs = 0;
    memset(r->spared, 0, sizeof r->spared);
    memset(r->live, 0, sizeof r->live);
    r->rising = true;
    memset(r->holders, 0, sizeof r->holders[0] * (size_t)t->cells);
    memset(r->gradient, -1, sizeof r->gradient[0] * (size_t)t->cells);
    memset(r->view, 0, sizeof r->view[0] * (size_t)t->cells);
    list_deaths(t, r);
    if (t->input >= 0) alloc(t, r, t->input);
}

static void run_steps(const vram_tape *t, vram_run *r, int from, int to, bool save)
{
    for (int i = from; i < to; i++) {
        if (t->step[i].code == VRAM_STEP_MAKE && vram_run_in(r->spared, t->step[i].cell)) { /* it stands: its keeper lets go */
            unset(r->spared, t->step[i].cell);
            continue;
        }
        if (t->step[i].code == VRAM_STEP_MAKE || (save && t->step[i].code == VRAM_STEP_MAKE_SAVED)) alloc(t, r, t->step[i].cell);
        if (t->step[i].code == VRAM_STEP_FREE) vram_run_release(t, r, t->step[i].cell);
    }
}

/* torchtune's and TRL's OffloadActivations: what is saved, of 1 KiB and more, is copied to host memory by a second stream; the saved tensors
 * of the last five stand until they are sure to be over. Parameters are saved, and numbered, but stay. Source: torchtune/training/_activation_offloading.py */
enum { IN_FLIGHT = 5, OFFLOADED_FROM = 1024 };

static bool offloaded(const vram_tape *t, const vram_run *r, const vram_tape_op *op, int i) { return r->offloads && op->offloads && t->cell[op->saved[i]].bytes >= OFFLOADED_FROM; }

static void land_until(const vram_tape *t, vram_run *r, int number)
{
    int landed = 0;
    while (landed < r->flights && r->flight[landed].number <= number) vram_run_release(t, r, r->flight[landed++].cell);
    for (int i = landed; i < r->flights; i++) r->flight[i - landed] = r->flight[i];
    r->flights -= landed;
}

void vram_run_land(const vram_tape *t, vram_run *r) { land_until(t, r, r->numbers); }

static void take_off(const vram_tape *t, vram_run *r, vram_cell c)
{
    land_until(t, r, r->numbers - IN_FLIGHT);
    r->holders[c]++;
    r->flight[r->flights].cell = c;
    r->flight[r->flights++].number = r->numbers;
}

void vram_run_return(const vram_tape *t, vram_run *r)
{
    while (r->backs > 0) vram_run_release(t, r, r->back[--r->backs]);
}

static void save_all(const vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    for (int i = 0; i < op->saves; i++) {
        if (r->holders[op->saved[i]] <= 0) continue; /* inputs, before the kernel runs; outputs follow */
        r->numbers++;
        if (offloaded(t, r, op, i)) take_off(t, r, op->saved[i]);
        else r->holders[op->saved[i]]++;
    }
    r->numbers += op->others;
}

/* What selective checkpoints keep: every second product of linear modules is made again (torchtitan's policy). */
static void spare(const vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    if (op->spared == VRAM_SPARED_NOT || (op->spared == VRAM_SPARED_SECOND && ++r->products % 2 == 0)) return;
    for (int i = op->forward; i < op->backward; i++) {
        vram_cell c = t->step[i].cell;
        if (t->step[i].code != VRAM_STEP_MAKE || r->holders[c] <= 0 || vram_run_in(r->spared, c)) continue;
        r->holders[c]++;
        set(r->spared, c);
    }
}

void vram_run_keep_spared(const vram_tape *t, vram_run *r, const uint64_t spared[])
{
    for (vram_cell c = 0; c < t->cells; c++)
        if (vram_run_in(spared, c)) {
            alloc(t, r, c);
            set(r->spared, c);
        }
}

void vram_run_forward(const vram_tape *t, vram_run *r, int from, int to, bool save)
{
    for (int i = from; i < to; i++) {
        const vram_tape_op *op = &t->op[i];
        run_steps(t, r, op->forward, op->backward, save);
        if (save) save_all(t, r, op);
        if (r->spares) spare(t, r, op);
        for (vram_cell c = r->dying[i]; c >= 0; c = r->next[c])
            if (r->holders[c] > 0) vram_run_release(t, r, c);
    }
}

void vram_run_forget(const vram_tape *t, vram_run *r)
{
    for (vram_cell c = 0; c < t->cells; c++) {
        const vram_tape_cell *cell = &t->cell[c];
        if (cell->cached && r->holders[c] > 0) vram_run_release(t, r, c);
    }
}

/* Autograd's non-reentrant checkpoint: the graph is dropped once the last tensor to be saved has been saved. The inputs of an op are saved
 * before its kernel runs, so an op that saves only inputs makes nothing. */
int vram_run_last_saving(const vram_tape *t)
{
    int last = t->ops - 1;
    while (last >= 0 && t->op[last].saves == 0 && t->op[last].others == 0) last--;
    return last;
}

void vram_run_recompute(const vram_tape *t, vram_run *r)
{
    int last = vram_run_last_saving(t);
    uint64_t before[VRAM_TAPE_WORDS]; /* gradients of what saves nothing, behind the last that does */
    if (last < 0) return;
    memcpy(before, r->live, sizeof before);
    vram_run_forward(t, r, 0, last, true);
    if (t->op[last].saves_output) run_steps(t, r, t->op[last].forward, t->op[last].backward, true);
    save_all(t, r, &t->op[last]);
    for (int i = last; i < t->ops; i++) /* the names go with the stack */
        for (vram_cell c = r->dying[i]; c >= 0; c = r->next[c])
            if (r->holders[c] > 0 && (c == t->input || !vram_run_in(before, c))) vram_run_release(t, r, c);
    vram_cell result = t->output >= 0 ? t->cell[t->output].base : VRAM_NO_CELL; /* nobody wants it again */
    if (result >= 0 && result != t->input && r->holders[result] > 0 && !vram_run_in(before, result)) vram_run_release(t, r, result);
    for (vram_cell c = 0; c < t->cells; c++) /* behind the last that is saved nobody asked for what was spared */
        if (vram_run_in(r->spared, c)) vram_run_release(t, r, c);
    memset(r->spared, 0, sizeof r->spared);
    vram_run_forget(t, r);
    r->recomputed = true;
}

/* Up the graph from the tensors, as long as something requires a gradient */
void vram_run_hold_graph(const vram_tape *t, vram_run *r, int cells, const vram_cell cell[])
{
    uint64_t above[VRAM_TAPE_WORDS] = {0};
    for (int i = 0; i < cells; i++) {
        if (cell[i] < 0) continue;
        set(above, cell[i]);
        if (!t->lasting) vram_run_hold(t, r, t->cell[cell[i]].base);
    }
    for (int i = t->ops - 1; i >= 0; i--) {
        const vram_tape_op *op = &t->op[i];
        bool leads = false;
        for (int k = 0; k < op->outs; k++) leads |= vram_run_in(above, op->out[k]);
        if (!leads || !op->grad) continue;
        for (int k = 0; k < op->ins; k++)
            if (op->in[k] >= 0 && t->cell[op->in[k]].grad) set(above, op->in[k]);
        for (int k = 0; k < op->saves; k++)
            if (r->holders[op->saved[k]] > 0) r->holders[op->saved[k]]++;
    }
}

static bool sole(const vram_run *r, vram_cell g) { return r->holders[g] == 1 && !r->view[g]; }

static vram_cell more_cells(vram_tape *t, vram_run *r, vram_cell like)
{
    vram_cell c = (vram_cell)(t->cells < VRAM_TAPE_CELLS - 1 ? t->cells++ : VRAM_TAPE_CELLS - 1);
    t->cell[c] = t->cell[like];
    t->cell[c].base = c;
    t->cell[c].outside = t->cell[c].cached = false;
    r->holders[c] = 0;
    r->gradient[c] = VRAM_NO_CELL;
    r->view[c] = false;
    return c;
}

/* A second gradient of the same tensor */
static vram_cell add_gradients(vram_tape *t, vram_run *r, vram_cell old, vram_cell more)
{
    if (sole(r, old)) { vram_run_release(t, r, more); return old; }
    if (sole(r, more)) { vram_run_release(t, r, old); return more; }
    vram_cell sum = more_cells(t, r, t->cell[old].bytes < t->cell[more].bytes ? old : more); /* one of the two may be a whole of which the tensor's is cut out */
    alloc(t, r, sum);
    vram_run_release(t, r, old);
    vram_run_release(t, r, more);
    return sum;
}

/* A tensor of the optimizer's, as large as a gradient; its place in the list is free again unless it stood at the peak. */
static vram_cell make_temporary(vram_tape *t, vram_run *r, vram_cell like, int width)
{
    vram_cell c = more_cells(t, r, like);
    double bytes = t->shape[t->cell[like].shape].elements * width;
    t->cell[c].bytes = bytes;
    t->cell[c].block = vram_block_bytes(bytes);
    t->cell[c].width = (unsigned char)width;
    t->cell[c].component = VRAM_COMPONENT_WORKSPACE;
    t->cell[c].what = VRAM_WHAT_STEP_TEMPORARY;
    alloc(t, r, c);
    return c;
}

static void drop_temporary(vram_tape *t, vram_run *r, vram_cell c)
{
    vram_run_release(t, r, c);
    if (c == t->cells - 1 && !vram_run_in(vram_run_top(r), c)) t->cells--;
}

/* LOMO: gradient and parameter in fp32, the gradient itself gone before the second is made. Source: OpenLMLab/LOMO, lomo_optim/lomo.py (fuse_update) */
void vram_run_use_waiting(vram_tape *t, vram_run *r)
{
    if (r->waiting < 0) return;
    vram_cell gradient = make_temporary(t, r, r->waiting, 4);
    vram_run_release(t, r, r->waiting);
    vram_cell parameter = make_temporary(t, r, r->waiting, 4);
    drop_temporary(t, r, parameter);
    drop_temporary(t, r, gradient);
    r->waiting = VRAM_NO_CELL;
}

static void use(vram_tape *t, vram_run *r, vram_cell g)
{
    if (t->update.with_next) {
        vram_run_use_waiting(t, r);
        r->waiting = g;
        return;
    }
    vram_cell made[4];
    for (int i = 0; i < t->update.copies; i++) made[i] = make_temporary(t, r, g, t->update.width);
    for (int i = t->update.copies - 1; i >= 0; i--) drop_temporary(t, r, made[i]);
    vram_run_release(t, r, g);
}

/* `last`: no other op is to give this input a gradient */
static void deliver(vram_tape *t, vram_run *r, vram_cell input, vram_cell g, bool last)
{
    if (input < 0 || !t->cell[input].grad || t->cell[input].summed) { vram_run_release(t, r, g); return; }
    vram_cell sum = r->gradient[input] < 0 ? g : add_gradients(t, r, r->gradient[input], g);
    r->gradient[input] = sum;
    if (!t->cell[input].parameter || !last || !(r->accumulate || (r->repeats && t->cell[input].repeated) || t->update.at_once)) return;
    r->gradient[input] = VRAM_NO_CELL; /* added in place to the one that is there */
    if (r->record != NULL && r->record->on && r->record->number[sum] >= 0) record_event(r->record, VRAM_RECORD_ADDED + r->record->number[sum]);
    if (t->update.at_once) use(t, r, sum);
    else vram_run_release(t, r, sum);
}

/* Tensors that a node has saved come back from host memory before it runs, each as a copy of its own; those of the node before go when it has run. */
static int bring_back(vram_tape *t, vram_run *r, const vram_tape_op *op, vram_cell fresh[])
{
    int n = 0;
    for (int i = 0; i < op->saves; i++) {
        bool flying = false;
        if (!offloaded(t, r, op, i)) continue;
        for (int k = 0; k < r->flights; k++) flying |= r->flight[k].cell == op->saved[i];
        if (flying) {
            r->holders[op->saved[i]]++;
            fresh[n++] = op->saved[i];
            continue;
        }
        fresh[n] = vram_run_in(r->live, op->saved[i]) ? more_cells(t, r, op->saved[i]) : op->saved[i];
        alloc(t, r, fresh[n++]);
    }
    return n;
}

static void send_away(const vram_tape *t, vram_run *r, int n, const vram_cell fresh[])
{
    if (n <= 0) return;
    vram_run_land(t, r);
    vram_run_return(t, r);
    for (int i = 0; i < n; i++) r->back[r->backs++] = fresh[i];
}

static void unsave(const vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    for (int i = 0; i < op->saves; i++)
        if (!offloaded(t, r, op, i)) vram_run_release(t, r, op->saved[i]);
}

static void node(vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    vram_cell given[VRAM_TAPE_INS] = {-1, -1, -1, -1, -1, -1}, own = op->outs > 0 ? r->gradient[op->out[0]] : VRAM_NO_CELL, fresh[VRAM_TAPE_SAVES];
    int back = bring_back(t, r, op, fresh);
    bool saved = true;
    for (int i = op->backward; i < op->end; i++) {
        const vram_tape_step *s = &t->step[i];
        if (s->code == VRAM_STEP_MAKE) alloc(t, r, s->cell);
        else if (s->code == VRAM_STEP_FREE) vram_run_release(t, r, s->cell);
        else if (s->code == VRAM_STEP_UNSAVE) {
            if (!r->recomputed) continue;
            unsave(t, r, op);
            saved = false;
        } else if (s->code == VRAM_STEP_PASS || s->code == VRAM_STEP_PASS_VIEW) {
            if (s->code == VRAM_STEP_PASS_VIEW) r->view[own] = true;
            given[s->input] = own;
            r->holders[own]++;
        } else {
            given[s->input] = s->cell;
            if (s->code == VRAM_STEP_GIVE_HELD) r->holders[s->cell]++;
            r->view[s->cell] = s->code == VRAM_STEP_GIVE_VIEW;
        }
    }
    for (int i = 0; i < op->outs; i++)
        if (r->gradient[op->out[i]] >= 0) {
            vram_run_release(t, r, r->gradient[op->out[i]]);
            r->gradient[op->out[i]] = VRAM_NO_CELL;
        }
    if (saved) unsave(t, r, op);
    send_away(t, r, back, fresh);
    for (int k = 0; k < op->ins; k++)
        if (given[k] >= 0) deliver(t, r, op->in[k], given[k], t->cell[op->in[k] < 0 ? 0 : op->in[k]].first_use == op - t->op);
}

static bool reached(const vram_run *r, const vram_tape_op *op)
{
    bool any = op->root;
    for (int i = 0; i < op->outs; i++) any |= r->gradient[op->out[i]] >= 0;
    return any;
}

vram_cell vram_run_arrive(vram_tape *t, vram_run *r)
{
    vram_cell g = more_cells(t, r, t->output);
    t->cell[g].what = VRAM_WHAT_ACTIVATION_GRADIENT;
    alloc(t, r, g);
    r->gradient[t->output] = g;
    return g;
}

/* The head's is a transposed view, and is not added into, unless autocast has copied it. */
void vram_run_await(vram_tape *t, vram_run *r, vram_cell weight, bool sole_holder)
{
    vram_cell g = more_cells(t, r, weight);
    t->cell[g].outside = true;
    r->holders[g] = sole_holder || (t->autocast && t->cell[weight].width == 4) ? 1 : 2;
    r->gradient[weight] = g;
}

void vram_run_backward(vram_tape *t, vram_run *r, int from, int to)
{
    for (int i = from; i >= to; i--)
        if (t->op[i].grad && reached(r, &t->op[i])) node(t, r, &t->op[i]);
}
