/* fsdp.c -- PyTorch's fully sharded data parallel, both generations.
 *
 * FSDP 2 (torch/distributed/fsdp/_fully_shard): each layer is a group, all that is outside the layers is the root group. A group's
 * all-gather fills one flat buffer, from which the parameters are copied out; in forward the buffer stays until the next group's copy
 * is out (FSDPCommContext.all_gather_state), in backward the next group's is on its way (_backward_prefetch). After a group's backward
 * its gradients are copied into one reduce-scatter input, which stays until the next group's (reduce_scatter_states); the output is the
 * shards of the gradients (foreach_reduce). zero 2 = reshard_after_forward=False: parameters stay from forward to their backward.
 * A stage of a pipeline keeps its parameters gathered and its gradients whole until its last micro-batch is through, then reduces them
 * (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync; torchtitan/distributed/fsdp.py, get_fsdp_reshard_after_forward_policy).
 *
 * FSDP 1 (torch/distributed/fsdp/_flat_param.py, _runtime_utils.py): a group is one flat parameter, gathered in place; in backward the next
 * is gathered before the present one's gradients are there (BACKWARD_PRE). The gradients of its pieces are joined into one flat gradient
 * (the split's own), which is reduced in the type of the pass, then cast to the shards' type. With use_orig_params the shards'
 * gradients are let go only by the next forward. zero 2 = SHARD_GRAD_OP.
 *
 * Parameters offloaded (CPUOffloadPolicy, CPUOffload): shards of parameters and gradients and the states are in host memory, on the GPU is what is
 * gathered and what is being reduced. */
#include "sharding.h"

typedef vram_sharding_list list;

/* So many bytes a number for each kind of layer among from .. to - 1: one row a kind */
typedef double unit_part(const vram_sharding_unit *unit);
static double bytes_of(const vram_sharding_unit *u) { return u->bytes; }
static double gradients_of(const vram_sharding_unit *u) { return u->gradients; }
static double shard_of(const vram_sharding_unit *u) { return u->trained_shard; }

static void by_kind(const vram_sharding *g, vram_component component, vram_what what, int64_t from, int64_t to, unit_part *part, double width, list *l)
{
    double layers[VRAM_MAX_KINDS] = {0};
    for (int64_t i = from; i < to; i++) layers[g->m->stage.kind[i]]++;
    for (int k = 0; k < g->m->kinds; k++) vram_sharding_add(l, component, what, layers[k], part(&g->layer[k]), width);
}

/* FSDP 1 of one rank does not shard (_init_utils.py: NO_SHARD): there are casts of its parameters, made and let go as gathered ones are, or nothing. */
static bool alone(const vram_sharding *g) { return g->s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP1 && g->ranks <= 1; }
static bool in_place(const vram_sharding *g) { return alone(g) && (g->lora || g->width == g->shard_width); }

/* Parameters of the layers from .. to - 1, gathered */
static void gathered(const vram_sharding *g, int64_t from, int64_t to, list *l)
{
    if (!in_place(g)) by_kind(g, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_GATHERED_WEIGHTS, from, to, bytes_of, 1, l);
}

static void gathered_root(const vram_sharding *g, list *l)
{
    if (!in_place(g)) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_GATHERED_WEIGHTS, 1, g->root.bytes, 1);
}

/* One rank alone copies its shards straight into the parameters (_fsdp_param_group.py, wait_for_unshard). */
static void buffer(const vram_sharding *g, const vram_sharding_unit *u, list *l)
{
    if (g->ranks > 1) vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_ALL_GATHER_BUFFER, 1, u->bytes, 1);
}

static bool in_host_memory(const vram_sharding *g) { return g->s->parallel.offload == VRAM_OFFLOAD_OPTIMIZER_WEIGHTS; }

/* Micro-batches after the first add to shards that are all there (_fsdp_param_group.py, foreach_reduce; _runtime_utils.py, _accumulate_sharded_grad) */
static bool accumulates(const vram_sharding *g) { return g->s->training.gradient_accumulation > 1; }

/* Shards of the gradients of the layers from .. to the last */
static void reduced(const vram_sharding *g, int64_t from, list *l)
{
    if (in_host_memory(g) || accumulates(g)) return;
    by_kind(g, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, from, g->layers, shard_of, g->gradient_width, l);
}

static void scatter(const vram_sharding *g, const vram_sharding_unit *u, list *l)
{
    vram_sharding_add(l, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_REDUCE_SCATTER_INPUT, 1, u->trained, g->gradient_width);
}

static void all_gradients(const vram_sharding *g, list *l)
{
    if (!in_host_memory(g)) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, 1, g->trained_shard, g->gradient_width);
}

static void at_rest(const vram_sharding *g, list *l)
{
    if (in_host_memory(g)) return;
    if (!g->lora) vram_sharding_add(l, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALL_WEIGHTS, 1, g->trained_shard, g->shard_width); /* else training.c divides them */
    vram_sharding_add(l, VRAM_COMPONENT_WEIGHTS, VRAM_WHAT_ALLOCATOR_ROUNDING, 1, g->slack, 1);
}

/* Of a model that is not at work: the root, which is one for all, is gathered until the last backward is over. */
static void idle(const vram_sharding *g, vram_moment moment, bool keeps, list *l)
{
    gathered_root(g, l);
    if (moment == VRAM_MOMENT_WAIT && keeps) gathered(g, 0, g->layers, l);
    if (moment == VRAM_MOMENT_DONE) reduced(g, 0, l);
}

static void fsdp2_backward(const vram_sharding *g, int place, bool over, list *l)
{
    bool keeps = g->s->parallel.zero < 3;
    if (place == VRAM_PLACE_EMBEDDING) {
        bool joined = over && !g->m->tied; /* the two of a tied embedding are less when they are joined */
        if (!joined) gathered_root(g, l);
        scatter(g, joined ? &g->root : vram_sharding_layer(g, 0), l);
        if (over) vram_sharding_tied(g, VRAM_MOMENT_REDUCE, place, l);
        reduced(g, 0, l);
        return;
    }
    gathered_root(g, l);
    if (place == VRAM_PLACE_HEAD) {
        if (keeps) gathered(g, 0, g->layers, l);
        else buffer(g, vram_sharding_layer(g, g->layers - 1), l);
        return;
    }
    if (keeps) gathered(g, 0, over ? place : place + 1, l);
    else {
        if (!over) gathered(g, place, place + 1, l);
        if (place > 0) buffer(g, vram_sharding_layer(g, place - 1), l);
    }
    if (over) scatter(g, vram_sharding_layer(g, place), l);
    else if (place + 1 < g->layers) scatter(g, vram_sharding_layer(g, place + 1), l);
    reduced(g, place + 1, l);
}

/* The caller's, beside the loss (training.c lets them go in the step) */
static void logits_held(const vram_sharding *g, list *l)
{
    double tokens = (double)g->s->training.micro_batch * (double)g->s->training.sequence_length, words = vram_ceil_div((double)g->m->vocab, (double)g->s->parallel.tensor);
    bool whole = g->s->task == VRAM_TASK_TRAINING && (g->s->training.loss == VRAM_LOSS_FULL || g->s->training.loss == VRAM_LOSS_INPLACE);
    if (whole) vram_sharding_add(l, VRAM_COMPONENT_LOGITS, VRAM_WHAT_LOGITS, tokens, words, g->width);
}

/* The root's gradients have been copied in and let go, and their shards come out: of few ranks, in fp32, these are more (foreach_reduce). */
static void root_reduced(const vram_sharding *g, list *l)
{
    if (g->root.trained <= 0) return;
    logits_held(g, l);
    scatter(g, &g->root, l);
    vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_OWN_GRADIENTS, 1, g->root.trained_shard, g->gradient_width);
    reduced(g, 0, l);
}

/* Whole gradients of the layers from .. to the last, as they are summed up over micro-batches (_fsdp_param.py, accumulate_unsharded_grad_if_needed) */
static void summed(const vram_sharding *g, int64_t from, list *l)
{
    by_kind(g, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, from, g->layers, gradients_of, g->gradient_width, l);
}

static bool pipelined(const vram_sharding *g) { return g->s->parallel.pipeline > 1; }

static void stage_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    bool backward = moment == VRAM_MOMENT_BACKWARD || moment == VRAM_MOMENT_REDUCE;
    bool all = accumulates(g) || moment == VRAM_MOMENT_EPILOGUE || moment == VRAM_MOMENT_DONE;
    gathered_root(g, l);
    gathered(g, 0, g->layers, l);
    if (all) vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_UNREDUCED, 1, g->root.gradients, g->gradient_width);
    if (all || (backward && place != VRAM_PLACE_HEAD)) summed(g, all || place < 0 ? 0 : place + 1, l); /* the first micro-batch's root: those of the pass */
    if (moment == VRAM_MOMENT_EPILOGUE) scatter(g, vram_sharding_layer(g, 0), l);
}

void vram_fsdp2_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    bool keeps = g->s->parallel.zero < 3;
    if (moment == VRAM_MOMENT_REST) at_rest(g, l);
    if (moment == VRAM_MOMENT_REST || moment == VRAM_MOMENT_LOAD) return;
    if (pipelined(g) && moment != VRAM_MOMENT_STEP) { stage_items(g, moment, place, l); return; }
    if (accumulates(g) || moment == VRAM_MOMENT_STEP) all_gradients(g, l);
    switch (moment) {
    case VRAM_MOMENT_FORWARD:
    case VRAM_MOMENT_LOSS:
        gathered_root(g, l);
        if (place == VRAM_PLACE_EMBEDDING) {
            buffer(g, &g->root, l);
            buffer(g, vram_sharding_layer(g, 0), l);
        } else if (place == VRAM_PLACE_HEAD) {
            if (keeps) gathered(g, 0, g->layers, l);
            buffer(g, vram_sharding_layer(g, g->layers - 1), l);
        } else {
            gathered(g, keeps ? 0 : place, place + 1, l);
            buffer(g, vram_sharding_layer(g, place), l);
        }
        break;
    case VRAM_MOMENT_START:
        gathered_root(g, l);
        if (keeps) gathered(g, 0, g->layers, l);
        else buffer(g, &g->root, l);
        break;
    case VRAM_MOMENT_BACKWARD: fsdp2_backward(g, place, false, l); break;
    case VRAM_MOMENT_REDUCE:
        if (place != VRAM_PLACE_HEAD) fsdp2_backward(g, place, true, l);
        break;
    case VRAM_MOMENT_EPILOGUE: root_reduced(g, l); break;
    case VRAM_MOMENT_WAIT:
    case VRAM_MOMENT_DONE: idle(g, moment, keeps, l); break;
    default: break;
    }
}

/* ---------------------------------------------------------------------------------------------------------- FSDP 1 -- */

static void flat_gradients(const vram_sharding *g, double elements, list *l)
{
    vram_sharding_add(l, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_FLAT_GRADIENTS, 1, elements, g->trained_width);
}

/* Frozen units under checkpoints that run them (transformers before 4.53): their inputs are leaves, and none is gathered before its time,
 * since a second forward is no place to prefetch from. Seen in PyTorch 2.4: eight gathers for four layers, one at a time. */
static bool frozen_leaves(const vram_sharding *g) { return g->lora && g->s->training.checkpointing == VRAM_CHECKPOINTING_FULL; }

/* A unit without a trained parameter is resharded by a hook on the gradients of its inputs (_register_post_backward_reshard_only_hook,
 * register_multi_grad_hook), whose closure holds the nodes of those inputs: of leaves, tensor and gradient, until backward is over for
 * all. The gradient of the layer behind is the one that arrives here. Such a checkpoint (reentrant) holds its second forward's output too. */
static void hooked(const vram_sharding *g, int place, list *l)
{
    double behind = (double)(g->layers - 1 - place), elements = (double)g->s->training.micro_batch * (double)g->s->training.sequence_length * (double)g->m->hidden;
    if (!frozen_leaves(g)) return;
    vram_sharding_add(l, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_HIDDEN_STATES, behind + 1, elements, g->width);
    vram_sharding_add(l, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ACTIVATION_GRADIENT, behind - 1, elements, g->width);
}

static void fsdp1_backward(const vram_sharding *g, int place, bool over, list *l)
{
    bool keeps = g->s->parallel.zero < 3 && !alone(g), prefetches = g->s->parallel.prefetch != 0 && !frozen_leaves(g);
    gathered_root(g, l);
    if (place == VRAM_PLACE_HEAD) {
        gathered(g, keeps ? 0 : prefetches ? g->layers - 1 : g->layers, g->layers, l);
        return;
    }
    if (place == VRAM_PLACE_EMBEDDING) {
        if (over) flat_gradients(g, g->m->tied ? g->embedding : g->root.trained, l);
        reduced(g, 0, l);
        return;
    }
    gathered(g, keeps ? 0 : prefetches && place > 0 ? place - 1 : place, place + 1, l);
    hooked(g, place, l);
    if (over) flat_gradients(g, vram_sharding_layer(g, place)->trained, l);
    reduced(g, place + 1, l);
}

void vram_fsdp1_items(const vram_sharding *g, vram_moment moment, int place, list *l)
{
    bool keeps = g->s->parallel.zero < 3 && !alone(g);
    if (moment == VRAM_MOMENT_LOAD || moment == VRAM_MOMENT_STEP || (accumulates(g) && moment != VRAM_MOMENT_REST)) all_gradients(g, l);
    switch (moment) {
    case VRAM_MOMENT_REST: at_rest(g, l); break;
    case VRAM_MOMENT_FORWARD:
    case VRAM_MOMENT_LOSS:
    case VRAM_MOMENT_START:
        gathered_root(g, l);
        if (place >= 0) gathered(g, keeps ? 0 : place, place + 1, l);
        else if (place == VRAM_PLACE_HEAD && keeps) gathered(g, 0, g->layers, l);
        break;
    case VRAM_MOMENT_BACKWARD: fsdp1_backward(g, place, false, l); break;
    case VRAM_MOMENT_REDUCE:
        if (place != VRAM_PLACE_HEAD) fsdp1_backward(g, place, true, l);
        break;
    case VRAM_MOMENT_WAIT:
    case VRAM_MOMENT_DONE: idle(g, moment, keeps, l); break;
    default: break;
    }
}
