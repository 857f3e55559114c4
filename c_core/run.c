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

static void alloc(const vram_tape *t, vram_run *r, vram_cell c)
{
    r->holders[c] = 1;
    if (t->cell[c].outside) return;
    set(r->live, c);
    r->now += rounded(t, c);
    if (r->now <= r->peak) return;
    r->peak = r->now;
    memcpy(r->top, r->live, sizeof r->top);
}

void vram_run_release(const vram_tape *t, vram_run *r, vram_cell c)
{
    if (--r->holders[c] > 0 || t->cell[c].outside) return;
    r->holders[c] = 0;
    if (!vram_run_in(r->live, c)) return;
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
    memcpy(r->top, r->live, sizeof r->top);
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
    memset(r->live, 0, sizeof r->live);
    memset(r->top, 0, sizeof r->top);
    memset(r->holders, 0, sizeof r->holders[0] * VRAM_TAPE_CELLS);
    memset(r->gradient, -1, sizeof r->gradient[0] * VRAM_TAPE_CELLS);
    memset(r->view, 0, sizeof r->view[0] * VRAM_TAPE_CELLS);
    list_deaths(t, r);
    if (t->input >= 0) alloc(t, r, t->input);
}

static void run_steps(const vram_tape *t, vram_run *r, int from, int to, bool save)
{
    for (int i = from; i < to; i++) {
        if (t->step[i].code == VRAM_STEP_MAKE || (save && t->step[i].code == VRAM_STEP_MAKE_SAVED)) alloc(t, r, t->step[i].cell);
        if (t->step[i].code == VRAM_STEP_FREE) vram_run_release(t, r, t->step[i].cell);
    }
}

static void save_all(const vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    for (int i = 0; i < op->saves; i++)
        if (r->holders[op->saved[i]] > 0) r->holders[op->saved[i]]++; /* inputs, before the kernel runs; outputs follow */
    (void)t;
}

void vram_run_forward(const vram_tape *t, vram_run *r, int from, int to, bool save)
{
    for (int i = from; i < to; i++) {
        const vram_tape_op *op = &t->op[i];
        run_steps(t, r, op->forward, op->backward, save);
        if (save) save_all(t, r, op);
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
    while (last >= 0 && t->op[last].saves == 0) last--;
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
    vram_run_forget(t, r);
}

static bool sole(const vram_run *r, vram_cell g) { return r->holders[g] == 1 && !r->view[g]; }

static vram_cell more_cells(vram_tape *t, vram_cell like)
{
    vram_cell c = (vram_cell)(t->cells < VRAM_TAPE_CELLS - 1 ? t->cells++ : VRAM_TAPE_CELLS - 1);
    t->cell[c] = t->cell[like];
    t->cell[c].base = c;
    t->cell[c].outside = t->cell[c].cached = false;
    return c;
}

/* A second gradient of the same tensor */
static vram_cell add_gradients(vram_tape *t, vram_run *r, vram_cell old, vram_cell more)
{
    if (sole(r, old)) { vram_run_release(t, r, more); return old; }
    if (sole(r, more)) { vram_run_release(t, r, old); return more; }
    vram_cell sum = more_cells(t, more);
    r->view[sum] = false;
    alloc(t, r, sum);
    vram_run_release(t, r, old);
    vram_run_release(t, r, more);
    return sum;
}

static void deliver(vram_tape *t, vram_run *r, vram_cell input, vram_cell g)
{
    if (input < 0 || !t->cell[input].grad) { vram_run_release(t, r, g); return; }
    vram_cell sum = r->gradient[input] < 0 ? g : add_gradients(t, r, r->gradient[input], g);
    r->gradient[input] = sum;
    if (!t->cell[input].parameter || !r->accumulate) return;
    r->gradient[input] = VRAM_NO_CELL; /* added in place to the one that is there */
    vram_run_release(t, r, sum);
}

static void node(vram_tape *t, vram_run *r, const vram_tape_op *op)
{
    vram_cell given[VRAM_TAPE_INS] = {-1, -1, -1, -1, -1, -1}, own = op->outs > 0 ? r->gradient[op->out[0]] : VRAM_NO_CELL;
    for (int i = op->backward; i < op->end; i++) {
        const vram_tape_step *s = &t->step[i];
        if (s->code == VRAM_STEP_MAKE) alloc(t, r, s->cell);
        else if (s->code == VRAM_STEP_FREE) vram_run_release(t, r, s->cell);
        else if (s->code == VRAM_STEP_PASS || s->code == VRAM_STEP_PASS_VIEW) {
            if (s->code == VRAM_STEP_PASS_VIEW) r->view[own] = true;
            given[s->input] = own;
            r->holders[own]++;
        } else {
            given[s->input] = s->cell;
            r->view[s->cell] = s->code == VRAM_STEP_GIVE_VIEW;
        }
    }
    for (int i = 0; i < op->outs; i++)
        if (r->gradient[op->out[i]] >= 0) {
            vram_run_release(t, r, r->gradient[op->out[i]]);
            r->gradient[op->out[i]] = VRAM_NO_CELL;
        }
    for (int i = 0; i < op->saves; i++) vram_run_release(t, r, op->saved[i]);
    for (int k = 0; k < op->ins; k++)
        if (given[k] >= 0) deliver(t, r, op->in[k], given[k]);
}

static bool reached(const vram_run *r, const vram_tape_op *op)
{
    bool any = op->root;
    for (int i = 0; i < op->outs; i++) any |= r->gradient[op->out[i]] >= 0;
    return any;
}

vram_cell vram_run_arrive(vram_tape *t, vram_run *r)
{
    vram_cell g = more_cells(t, t->output);
    t->cell[g].what = VRAM_WHAT_ACTIVATION_GRADIENT;
    r->view[g] = false;
    alloc(t, r, g);
    r->gradient[t->output] = g;
    return g;
}

/* The head's is a transposed view, and is not added into, unless autocast has copied it. */
void vram_run_await(vram_tape *t, vram_run *r, vram_cell weight, bool sole_holder)
{
    vram_cell g = more_cells(t, weight);
    t->cell[g].outside = true;
    r->holders[g] = sole_holder || (t->autocast && t->cell[weight].width == 4) ? 1 : 2;
    r->gradient[weight] = g;
}

void vram_run_backward(vram_tape *t, vram_run *r, int from, int to)
{
    for (int i = from; i >= to; i--)
        if (t->op[i].grad && reached(r, &t->op[i])) node(t, r, &t->op[i]);
}
