/* tape.h -- a piece of a model as a short program, and what running it keeps alive.
 *
 * A tape is a list of operations at the grain of PyTorch's own (a cast, a product, a matrix product, an attention kernel). Each
 * says which tensors it makes on the way forward, which of its inputs and outputs autograd saves, and which tensors its
 * gradient makes. That is all that has to be known about an operation; who is alive when follows by counting holders:
 * Python's names, autograd's saved tensors, gradients on their way. Tapes are written by
 * block*.c, of the operations in op_*.c; run.c runs them. */
#ifndef VRAM_TAPE_H
#define VRAM_TAPE_H

#include "core.h"

enum {
    VRAM_TAPE_CELLS = 1536, VRAM_TAPE_OPS = 640, VRAM_TAPE_STEPS = 3072, VRAM_TAPE_SHAPES = 256, VRAM_TAPE_INS = 6, VRAM_TAPE_OUTS = 4, VRAM_TAPE_SAVES = 12,
    VRAM_TAPE_WORDS = VRAM_TAPE_CELLS / 64
};

typedef short vram_cell; /* a tensor: its place in the tape's list */
typedef short vram_size; /* a product of factors: its place in the tape's list */
#define VRAM_NO_CELL ((vram_cell)-1)

typedef struct { int factors; vram_factor factor[4]; double elements; } vram_tape_shape;

typedef struct {
    double bytes, block;      /* elements x width; what the allocator hands out for them */
    vram_size shape;
    vram_cell base;           /* the tensor whose storage it is: itself but for views */
    short first_use;          /* the first op that reads it; -1: none */
    short last_use;           /* the op after which no name of Python's holds it */
    short what;
    unsigned char component;
    unsigned char width;      /* bytes an element */
    bool grad;                /* requires a gradient */
    bool parameter;           /* its gradient stays */
    bool repeated;            /* another layer's, too */
    bool tied;                /* the embedding used as head: its gradient waits for the embedding's */
    bool outside;             /* counted elsewhere: parameters, tables, masks */
    bool summed;              /* outside, and so is its gradient: each new one is added to it */
    bool cached;              /* autocast's cache holds it to the end of the pass */
} vram_tape_cell;

typedef enum {
    VRAM_STEP_MAKE, VRAM_STEP_FREE,
    VRAM_STEP_UNSAVE,         /* the kernels have run, gradients have still to be summed and cast (engine.cpp, validate_outputs): what a checkpoint has made again goes */
    VRAM_STEP_MAKE_SAVED,     /* a tensor that stands only where autograd keeps it: those of all turns of a loop */
    VRAM_STEP_GIVE,           /* the cell, already made, is the gradient of input `input` */
    VRAM_STEP_GIVE_VIEW,      /* the same, but a view: two of them are added into a third tensor, not into one of them */
    VRAM_STEP_GIVE_HELD,      /* a tensor that stands already, written over */
    VRAM_STEP_PASS,           /* the gradient of the output is that of the input */
    VRAM_STEP_PASS_VIEW       /* the same, written over by a kernel of its own: no tensor to add into */
} vram_step_code;
typedef struct { unsigned char code, input; vram_cell cell; } vram_tape_step;

/* Selective checkpoints keep every second product of a layer's linear modules, and all other products and attention. */
typedef enum { VRAM_SPARED_NOT, VRAM_SPARED_SECOND, VRAM_SPARED_ALWAYS } vram_tape_spared;

typedef struct {
    vram_cell in[VRAM_TAPE_INS], out[VRAM_TAPE_OUTS], saved[VRAM_TAPE_SAVES];
    unsigned char ins, outs, saves;
    bool grad;                /* has a gradient */
    bool root;                /* backward starts here */
    bool saves_output;
    unsigned char spared;     /* by selective checkpoints: vram_tape_spared */
    unsigned char others;     /* saved tensors that are counted elsewhere */
    bool offloads;            /* what it saves goes to host memory, when that is asked for */
    short forward, backward, end; /* steps: forward .. backward - 1, backward .. end - 1 */
} vram_tape_op;

/* An optimizer that runs inside backward: a parameter's gradient is used when it has come, and goes. For as long as that takes, so many
 * tensors of the parameter's size stand beside it. LOMO uses a gradient when the next one comes, in fp32. */
typedef struct { bool at_once, with_next; int copies, width; } vram_tape_update;

typedef struct {
    bool autocast;
    vram_tape_update update;
    bool no_grad;             /* the ops that follow make no graph */
    double gradient_share;    /* bytes that are counted of a parameter's gradient, of those of its own type */
    bool offloads;            /* the ops that follow may offload what they save */
    bool caches;              /* parameters are leaves that require a gradient, though this pass makes none: autocast keeps their casts all the same */
    bool keeps_casts;         /* autocast's cache takes weights: leaves, not views of them */
    double workspace, biased_workspace; /* of a matrix product (cuBLAS, cuBLASLt) */
    vram_cell input, output;  /* of the piece */
    bool named;               /* the output has a name of the caller's, too: the embeddings while the layers run */
    vram_cell aside;          /* a second output, which all layers read: when backward comes to this piece its gradient stands already; VRAM_NO_CELL: none */
    vram_cell shared[2];      /* keys and values that the model keeps for later layers, with the graph they hang on; VRAM_NO_CELL: none */
    bool repeating;           /* parameters, from now on, are another layer's, too */
    bool lasting;             /* of shared[0] the module keeps the graph alone, and until its next forward */
    vram_cell returned;       /* what the caller has of the layer before until this one is over; VRAM_NO_CELL: nothing */
    int mark;                 /* op at which the loss begins; ops: nowhere */
    int leave;                /* op before which autocast is left, and its cache with it; -1: when the pass is over */
    int shapes, cells, ops, steps;
    bool full;                /* a list was too short */
    vram_tape_shape shape[VRAM_TAPE_SHAPES];
    vram_tape_cell cell[VRAM_TAPE_CELLS];
    vram_tape_op op[VRAM_TAPE_OPS];
    vram_tape_step step[VRAM_TAPE_STEPS];
} vram_tape;

/* ---- tape.c: making one ---- */

void vram_tape_clear(vram_tape *t, bool autocast, double workspace);
vram_size vram_tape_size(vram_tape *t, int factors, const vram_factor factor[]); /* at most four factors, the batch included */
vram_cell vram_tape_input(vram_tape *t, vram_size size, int width, vram_what what, bool grad);
vram_cell vram_tape_outside(vram_tape *t, vram_size size, int width, vram_what what); /* a table, a mask: no gradient */
vram_cell vram_tape_parameter(vram_tape *t, vram_size size, int width, bool trained);
vram_cell vram_tape_tied(vram_tape *t, vram_size size, int width, bool trained); /* the head, when it is the embedding */
void vram_tape_hold(vram_tape *t, vram_cell x); /* a name of Python's holds it until here */
static inline int vram_width(const vram_tape *t, vram_cell x) { return t->cell[x].width; }

/* ---- op_*.c: the operations; each returns its output ---- */

vram_cell vram_op_cast(vram_tape *t, vram_cell x, int width, vram_what what);
vram_cell vram_op_linear(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what); /* bias: VRAM_NO_CELL for none */
vram_cell vram_op_linear_4bit(vram_tape *t, vram_cell x, vram_size weight, bool double_quant, bool biased, vram_size out, vram_what what);
vram_cell vram_op_matmul(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what);
vram_cell vram_op_add(vram_tape *t, vram_cell a, vram_cell b, vram_what what);
vram_cell vram_op_add_in_place(vram_tape *t, vram_cell a, vram_cell b, vram_what what); /* to a, or to a part of it (CopySlices) */
vram_cell vram_op_mul(vram_tape *t, vram_cell a, vram_cell b, vram_what what);
vram_cell vram_op_mul_wide(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what); /* of broadcast tensors */
vram_cell vram_op_mul_rows(vram_tape *t, vram_cell x, vram_cell rows, vram_what what);   /* one number a row */
vram_cell vram_op_mul_weight(vram_tape *t, vram_cell weight, vram_cell x, vram_what what); /* a vector of parameters */
vram_cell vram_op_constant(vram_tape *t, vram_cell x, int width, vram_what what);        /* times or plus something without a gradient */
vram_cell vram_op_masked(vram_tape *t, vram_cell x, int width, vram_what what);          /* plus a mask of its own type */
vram_cell vram_op_shift(vram_tape *t, vram_cell x, vram_what what);                      /* plus a number */
vram_cell vram_op_gather(vram_tape *t, vram_cell x, vram_size out, vram_what what);      /* rows by index */
/* The gradient is spread by a view, then copied out. */
static inline vram_cell vram_op_sum(vram_tape *t, vram_cell x, vram_size out, vram_what what) { return vram_op_gather(t, x, out, what); }
vram_cell vram_op_grouped(vram_tape *t, vram_cell x, vram_cell weight, vram_size out, vram_what what);
typedef struct { vram_size places, both, inner, outer; } vram_expert_sizes; /* a token and expert: one number, gate and up, one of them, hidden */
vram_cell vram_op_fused_experts(vram_tape *t, vram_cell x, vram_cell first, vram_cell second, vram_cell share, const vram_expert_sizes *sizes);
vram_cell vram_op_unary(vram_tape *t, vram_cell x, bool saves_input, bool saves_output, int temporaries, vram_what what);
vram_cell vram_op_where(vram_tape *t, vram_cell condition, vram_cell a, vram_cell b, vram_what what);
vram_cell vram_op_square(vram_tape *t, vram_cell x);
vram_cell vram_op_mean(vram_tape *t, vram_cell x, vram_size rows);
vram_cell vram_op_rsqrt(vram_tape *t, vram_cell x);
vram_cell vram_op_layer_norm(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size rows, vram_what what);
vram_cell vram_op_slice(vram_tape *t, vram_cell x, vram_size part, vram_what what);      /* a view whose gradient is as large as x */
void vram_op_split(vram_tape *t, vram_cell x, int parts, const vram_size size[], vram_cell out[]); /* views; the gradients are joined */
vram_cell vram_op_transposed(vram_tape *t, vram_cell x);                                 /* a view whose gradient is copied back in order */
vram_cell vram_op_copy(vram_tape *t, vram_cell x, vram_size size, vram_what what);       /* contiguous(); the gradient is a view */
vram_cell vram_op_join(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what);
vram_cell vram_op_join_copies(vram_tape *t, vram_cell a, vram_cell b, vram_size out, vram_what what); /* written into an empty tensor, part by part */
vram_cell vram_op_join_all(vram_tape *t, int ins, const vram_cell in[], vram_size out, vram_what what);
/* The gradient, a sum, is made in one piece as that of gathered rows. */
static inline vram_cell vram_op_repeat(vram_tape *t, vram_cell x, vram_size out, vram_what what) { return vram_op_gather(t, x, out, what); }
void vram_op_standing(vram_tape *t, vram_size size, int width);                          /* from its backward on a gradient stands that the pieces before will add to */
vram_cell vram_op_softmax(vram_tape *t, vram_cell x, vram_what what);
vram_cell vram_op_dropout(vram_tape *t, vram_cell x, double p, vram_what what);
vram_cell vram_op_kept(vram_tape *t, vram_size size, int width, vram_what what);
vram_cell vram_op_embedding(vram_tape *t, vram_cell weight, double whole, vram_size out, int width, vram_what what); /* whole: bytes of what is then added to another gradient of the weight's; 0: as many as the weight's */

typedef struct {
    vram_size out, statistics, delta, dq_sum, dk_heads, dv_heads, mask;
    bool grouped, masked;
    bool wide;                /* heads of more than 128: the kernel sums the output in fp32 */
    bool copied;              /* queries and keys lie head by head in memory: so does the output, and its gradient has to be copied */
} vram_flash_sizes;
vram_cell vram_op_efficient(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes);
vram_cell vram_op_flash(vram_tape *t, vram_cell q, vram_cell k, vram_cell v, const vram_flash_sizes *sizes);
/* Liger's kernels: one saved input a norm; gradients written over what was saved, or over their own gradient */
vram_cell vram_op_fused_norm(vram_tape *t, vram_cell x, vram_cell weight, vram_size rows, bool in_place, vram_what what);
vram_cell vram_op_fused_gate(vram_tape *t, vram_cell gate, vram_cell up, vram_what what);
vram_cell vram_op_in_place(vram_tape *t, vram_cell x, vram_what what);
vram_cell vram_op_autocast(vram_tape *t, vram_cell weight); /* what autocast makes of it before a product: once, when it is read more than once */
vram_cell vram_op_cross_entropy(vram_tape *t, vram_cell logits, vram_cell labels);
void vram_op_cross_entropy_divided(vram_tape *t, vram_cell logits, vram_cell labels); /* of words divided over ranks */
void vram_op_cross_entropy_compiled(vram_tape *t, vram_cell logits, vram_cell labels, vram_size rows); /* of 16-bit logits: fp32 stays in the kernel */
/* Of state-space mixers: a depthwise convolution, a triangular system, a loop over chunks that carries a state */
vram_cell vram_op_convolution(vram_tape *t, vram_cell x, vram_cell weight, vram_cell bias, vram_size out, vram_what what);
vram_cell vram_op_solve(vram_tape *t, vram_cell matrix, vram_cell right, vram_what what);
/* Of one turn and of all; saves: what autograd keeps besides, of all turns; wide: of one turn, where a pair of its tokens has a number for each channel */
typedef struct { vram_size state, states, part, parts; int parts_width, saves; vram_size save[4]; bool pairs, casts, apart; unsigned copied; vram_size wide; } vram_chunk_sizes; /* casts: autocast keeps each product's inputs in 16 bit; apart: every turn keeps casts of its own; copied: bits of the inputs whose parts a product copies */
vram_cell vram_op_keeping(vram_tape *t, vram_cell x, vram_size kept, vram_what what); /* written in place, of which autograd keeps so much */
vram_cell vram_op_chunk_scan(vram_tape *t, vram_cell core, vram_cell state, int ins, const vram_cell in[], const vram_chunk_sizes *sizes, vram_what what);
/* Linear attention block by block, of queries, keys and values in one tensor: kept are, of all blocks, pairs, two of the output's size, states */
vram_cell vram_op_block_scan(vram_tape *t, vram_cell qkv, vram_size out, vram_size pairs, vram_size rows, vram_size states, vram_what what);
void vram_tape_mark(vram_tape *t);
void vram_tape_leave(vram_tape *t);

/* Megatron's: sizes as gathered from and before scattered to the ranks; a trained weight's gradient is added to one that stands */
vram_cell vram_op_linear_parallel(vram_tape *t, vram_cell x, bool trained, vram_size gathered, vram_size partial, vram_size out, vram_what what);
vram_cell vram_op_resized(vram_tape *t, vram_cell x, vram_size out, bool saves, vram_what what); /* any kernel from one size to another */
vram_cell vram_op_cross_entropy_over(vram_tape *t, vram_cell logits, vram_cell labels);  /* writes the gradient over the logits */

/* What trainers of answers do with logits */
vram_cell vram_op_pick(vram_tape *t, vram_cell x, vram_size index, vram_size out, vram_what what);    /* x[mask]: rows by an index of its own */
typedef struct { vram_size tile, tile_weight, tile_rows, rows; } vram_tile_sizes;
void vram_op_tiled(vram_tape *t, vram_cell x, vram_cell weight, const vram_tile_sizes *sizes);         /* log-probabilities, never whole logits */
void vram_op_fused_loss(vram_tape *t, vram_cell x, vram_cell weight, vram_size chunk, vram_size chunk_rows, vram_size rows);  /* gradients made with the loss, forward */
vram_cell vram_op_scale_part(vram_tape *t, vram_cell x, vram_size part, vram_what what);               /* x[part] /= a number, in place; the whole x */
void vram_op_log_probabilities(vram_tape *t, vram_cell logits, vram_size row, vram_size labels);       /* of the labels; a sequence's logits (row) at a time */

/* ---- run.c: running one ---- */

/* What runs make and let go, in order, for whoever plays it through an allocator (steps.h). Tensors are numbered as they are made, from 0 in each piece; an
 * event is the number of a tensor that is made, ~number of one that goes, VRAM_RECORD_ADDED + number of a parameter's gradient that is added to one that stands. */
enum { VRAM_RECORD_EVENTS = 16384, VRAM_RECORD_TENSORS = 8192, VRAM_RECORD_ADDED = VRAM_RECORD_TENSORS };
typedef enum { VRAM_RECORDED_PLAIN, VRAM_RECORDED_GRADIENT, VRAM_RECORDED_TIED } vram_recorded_kind;
typedef struct vram_record {
    bool on, full;
    int events, tensors, first;        /* first: tensor of the piece at hand */
    short event[VRAM_RECORD_EVENTS];
    double bytes[VRAM_RECORD_TENSORS]; /* rounded up to 512 */
    unsigned char kind[VRAM_RECORD_TENSORS];
    short number[VRAM_TAPE_CELLS];     /* of the tensor that a cell is now */
} vram_record;
short vram_record_bind(const vram_tape *t, vram_record *record, vram_cell c); /* a tensor that comes from outside; -1: there is no such cell */

typedef struct {
    double now, peak;                 /* bytes alive, each storage rounded up to 512 */
    uint64_t live[VRAM_TAPE_WORDS], top[VRAM_TAPE_WORDS]; /* cells alive now, and at the peak, unless .. */
    bool rising;                      /* .. that is now */
    short holders[VRAM_TAPE_CELLS];   /* of a storage: names and saves; of a gradient: places where it waits */
    vram_cell gradient[VRAM_TAPE_CELLS]; /* of a cell, so far */
    bool view[VRAM_TAPE_CELLS];       /* a gradient that is a view */
    vram_cell dying[VRAM_TAPE_OPS];   /* first cell whose last use an op is; the others follow */
    vram_cell next[VRAM_TAPE_CELLS];
    bool accumulate;                  /* gradients of parameters are there already */
    bool repeats;                     /* those of parameters that a later layer has, too */
    bool spares;                      /* this forward pass keeps what selective checkpoints keep .. */
    int products;                     /* .. of so many products so far */
    uint64_t spared[VRAM_TAPE_WORDS]; /* kept so: the second forward takes them instead of making them */
    bool recomputed;                  /* saved tensors come from a checkpoint's second forward: nobody else holds them */
    bool offloads;                    /* saved tensors of ops that offload stand in host memory .. */
    struct { vram_cell cell; int number; } flight[VRAM_TAPE_SAVES]; /* .. but for the last few of forward, */
    vram_cell back[VRAM_TAPE_SAVES];  /* and those of the last node that asked for any, until the next has run */
    int flights, numbers, backs;
    vram_cell waiting;                /* a gradient that the next one will see used */
    vram_record *record;              /* NULL: nobody asks for one */
} vram_run;

void vram_run_clear(const vram_tape *t, vram_run *r, bool accumulate);
void vram_run_forward(const vram_tape *t, vram_run *r, int from, int to, bool save); /* ops from .. to - 1 */
void vram_run_forget(const vram_tape *t, vram_run *r);   /* names and autocast's cache let go */
vram_cell vram_run_arrive(vram_tape *t, vram_run *r);    /* the gradient of t->output comes from the piece behind */
void vram_run_await(vram_tape *t, vram_run *r, vram_cell tied, bool sole_holder); /* a gradient of this cell stands outside already */
void vram_run_backward(vram_tape *t, vram_run *r, int from, int to); /* ops from .. to, downwards; from the gradient of t->output, or the loss */
void vram_run_hold(const vram_tape *t, vram_run *r, vram_cell c);
void vram_run_release(const vram_tape *t, vram_run *r, vram_cell c);
void vram_run_rest(vram_run *r);                         /* the peak begins anew, from what is alive now */
void vram_run_land(const vram_tape *t, vram_run *r);     /* what is in flight to host memory has arrived */
void vram_run_return(const vram_tape *t, vram_run *r);   /* what has come back goes */
void vram_run_keep_spared(const vram_tape *t, vram_run *r, const uint64_t spared[]); /* after a clear */
void vram_run_use_waiting(vram_tape *t, vram_run *r);
int vram_run_last_saving(const vram_tape *t);            /* the last op that saves anything: its backward asks for the recomputation */
void vram_run_recompute(const vram_tape *t, vram_run *r); /* a checkpointed piece's second forward, which stops at its last saved tensor */
const uint64_t *vram_run_top(const vram_run *r);         /* cells alive at the peak */
void vram_run_hold_graph(const vram_tape *t, vram_run *r, int cells, const vram_cell cell[]); /* somebody keeps these tensors: with them all that their graph has saved */
bool vram_run_in(const uint64_t set[], vram_cell c);

#endif
