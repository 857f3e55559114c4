/* ggml_graph.h -- ggml's graph allocator, by sizes only: which tensors share memory, and how much a graph needs.
 *
 * A graph is walked layer by layer: operations are described in order, then run; what lives on is handed to the next layer. Two passes: the first counts
 * how often inputs are read, the second allocates. Layers in host memory make the graph a row of splits, each on the GPU or on the host, as
 * ggml's scheduler makes them; a split begins with copies of what it reads of the other side.
 * Source: llama.cpp v0.5.0, ggml/src/ggml-alloc.c; ggml/src/ggml-backend.cpp, ggml_backend_sched_split_graph. */
#ifndef VRAM_GGML_GRAPH_H
#define VRAM_GGML_GRAPH_H

#include "core.h"

enum {
    GGML_STREAM = 0,        /* what a layer reads of the one before; at first the embeddings */
    GGML_CARRIED = 1,       /* and a second tensor that one layer makes and the next reads */
    GGML_MAX_INPUTS = 32,   /* tensors that live across layers: ids 0 .. 31 */
    GGML_MAX_TENSORS = 1024, /* those and one layer's */
    GGML_MAX_OPS = 1024,
    GGML_MAX_SOURCES = 12,
    GGML_MAX_HOLES = 256,
    GGML_MAX_AHEAD = 512,   /* copies that the last split makes at its start for layers to come */
    GGML_MAX_WALKED = 32,   /* layers that are remembered .. */
    GGML_MAX_FOUND = 12,    /* .. when they found and left no more holes than this */
    GGML_NONE = -1,         /* no tensor: a weight, a cache */
    GGML_VIEW = 1 << 16     /* of another shape or order: read through a view, never taken over in place */
};

/* Where an operation runs */
typedef enum {
    GGML_ON_GPU,
    GGML_ON_HOST,
    GGML_ANYWHERE           /* as its neighbours: on the host only between two that are there */
} ggml_place;

/* What has its memory elsewhere from the start: on the GPU a cache, in host memory .. */
typedef enum {
    GGML_NOT_OUTSIDE,
    GGML_OUTSIDE_GPU,
    GGML_OUTSIDE,           /* an input, a cache */
    GGML_OUTSIDE_WEIGHT,    /* a weight: each begins a split */
    GGML_OUTSIDE_FACTORS    /* one that is too small to say where an operation runs */
} ggml_outside;

typedef struct { double shape[3]; double number_bytes; double bytes; } ggml_shape;

/* One side's copy of a tensor */
typedef struct {
    double readers;         /* that have not run yet */
    double offset;
    bool allocated;
    bool waiting;           /* an input that has no memory there yet */
} ggml_memory;

typedef struct {
    ggml_shape of;
    ggml_memory at[2];      /* GGML_ON_GPU, GGML_ON_HOST */
    unsigned char made;     /* ggml_place */
    unsigned char outside;  /* ggml_outside */
    double work;            /* bytes behind it that the GPU's kernel works in */
    double part[2];         /* bytes that this side copies of it; 0: all */
    int tag;                /* what it is, for the account */
    bool output;            /* of the graph: never freed */
    bool stays;             /* an input of several copies */
    bool met;               /* an input that has been read on the GPU */
    bool copied;            /* to the other side */
} ggml_tensor;

typedef struct {
    int result;             /* GGML_NONE: writes into a cache, or only keeps its sources alive */
    bool in_place;
    bool leaf;              /* the result has its memory from the start */
    bool keeps;             /* no operation: keeps its sources alive until here */
    unsigned char place;    /* ggml_place */
    int sources;
    int source[GGML_MAX_SOURCES];
} ggml_op;

typedef struct { double offset, bytes; } ggml_hole;

typedef struct {
    double alignment;
    double high;            /* bytes of the buffer */
    int holes;
    ggml_hole hole[GGML_MAX_HOLES];
} ggml_pool;

/* What a layer on the GPU finds, or leaves: holes, the stream and what is carried */
typedef struct { int holes; ggml_hole hole[GGML_MAX_FOUND]; ggml_tensor handed[2]; } ggml_found;

/* A layer that has been walked: what it was like, and how often it read each input (in the second pass: how many readings are then left, fewer) */
typedef struct { int like; ggml_found before, after; double reads[GGML_MAX_INPUTS]; } ggml_walked;

typedef struct {
    bool host_layers;       /* the layer at hand lies in host memory */
    bool last_split;        /* no layer to come does: the layer's last split holds all that follows, and its inputs */
    bool counting;          /* the first pass */
    bool failed;            /* a table was too small */
    unsigned char place;    /* of the operation before */
    unsigned char then;     /* of the first operation after those at hand that has a place of its own */
    double copies;          /* of every input; with more than one they stay */
    bool split_copies;      /* the split at hand has begun with copies */
    int inputs_used;
    int input_order[GGML_MAX_INPUTS]; /* in order of first reading on the GPU */
    ggml_tensor embeddings; /* the stream at first */
    int aheads, handed;     /* copies for layers to come, and how many of them their layers have got; at first none has memory */
    bool ahead_made;
    ggml_hole ahead[GGML_MAX_AHEAD];
    int walks;
    bool noting;            /* the layer at hand is the next of these */
    ggml_walked walked[GGML_MAX_WALKED];
    int tensors, ops;
    ggml_tensor tensor[GGML_MAX_TENSORS];
    ggml_op op[GGML_MAX_OPS];
    ggml_pool pool[2];
    int tag;                /* of the tensors described from now on: a vram_what */
    double at_high[VRAM_WHAT_COUNT]; /* bytes by tag of what was alive when the GPU's buffer grew last; the rest of it are gaps */
} ggml_graph;

ggml_shape ggml_f32(double width, double rows, double more);
ggml_shape ggml_typed(double bytes_each, double width, double rows, double more);

void ggml_graph_start(ggml_graph *graph);
/* Gives an input its shape. Inputs lie in host memory; the GPU's copies are allocated at the start of the split that reads them first. */
void ggml_graph_input(ggml_graph *graph, int input, ggml_shape shape);
/* Something that the next operation reads and that has its memory elsewhere */
int ggml_graph_outside(ggml_graph *graph, ggml_outside kind, double bytes);
/* The same, of host memory, read by a layer on the GPU behind all those on the host: the last split copies it at its start. */
int ggml_graph_ahead(ggml_graph *graph, double bytes);
/* Leaves of the graph have memory before anything else: so many bytes of them, and one of them, used here, by its place among those. */
void ggml_graph_leaves(ggml_graph *graph, double bytes);
int ggml_graph_leaf(ggml_graph *graph, ggml_shape shape, double offset);
/* One operation more; returns the tensor that it makes. Sources are ids, perhaps with GGML_VIEW, or GGML_NONE. It runs on the GPU, or, where the
 * layer is in host memory, anywhere. */
int ggml_graph_op(ggml_graph *graph, bool in_place, ggml_shape shape, int sources, const int source[]);
/* Where the last operation runs */
void ggml_graph_place(ggml_graph *graph, ggml_place place);
/* A cache is written: where the layer is. */
void ggml_graph_write(ggml_graph *graph, int sources, const int source[]);
/* Sources live until here (a fused kernel still reads them). */
void ggml_graph_use(ggml_graph *graph, int sources, const int source[]);
/* Runs the operations since the last call. The next layer reads `stream` as GGML_STREAM and `carried` as GGML_CARRIED. */
void ggml_graph_run(ggml_graph *graph, int stream, int carried);
/* Has a layer like this one met the same memory before? Then it is done already, and leaves what that one left. Else it is to be described and run,
 * and told to ggml_graph_walked(). */
bool ggml_graph_again(ggml_graph *graph, int like);
void ggml_graph_walked(ggml_graph *graph);
/* Between the passes. */
void ggml_graph_second_pass(ggml_graph *graph);
/* Allocates the inputs that are not yet: where all that follows is one split. */
void ggml_graph_allocate_inputs(ggml_graph *graph);

#endif
