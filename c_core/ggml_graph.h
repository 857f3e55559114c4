/* ggml_graph.h -- the part of ggml that decides how large a compute buffer is, for llama.cpp's graphs (engine_llama_cpp.c).
 *
 * A graph is a list of operations; each makes one tensor out of others. ggml's allocator (ggml-alloc.c) walks it once: a tensor
 * gets the smallest hole that holds it, is freed after its last reader, and an operation that may work in place takes over the
 * memory of a source that nobody else will read. The buffer is as large as the highest address ever used.
 *
 * Operations are given layer by layer, so that no list of the whole graph is needed: what lives longer than a layer is an input
 * (readers counted over the whole graph by a first pass) or the stream between layers. */
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
    GGML_NONE = -1,         /* no tensor: a weight, a cache */
    GGML_VIEW = 1 << 16     /* of another shape or order: read through a view, never taken over in place */
};

typedef struct { double shape[3]; double number_bytes; double bytes; } ggml_shape;

typedef struct {
    ggml_shape of;
    double readers;         /* that have not run yet */
    double offset;
    bool allocated;
    int tag;                /* what it is, for the account */
    bool output;            /* of the graph: never freed */
    bool met;               /* an input that has been read */
    bool waiting;           /* an input that will be read and has no memory yet */
} ggml_tensor;

typedef struct {
    int result;             /* GGML_NONE: writes into a cache, or only keeps its sources alive */
    bool in_place;
    bool copy;              /* from host memory, at the start of a split */
    bool leaf;              /* the result has its memory from the start */
    bool splits;            /* starts a split without a copy of its own: the next copy, if no input came with it, is made at its start */
    bool elsewhere;         /* runs in host memory: a split ends before it */
    int sources;
    int source[GGML_MAX_SOURCES];
} ggml_op;

typedef struct { double offset, bytes; } ggml_hole;

typedef struct {
    bool last_split;        /* no layer to come is in host memory: the last copy's split holds all that follows, and its inputs */
    bool counting;          /* the first pass */
    bool failed;            /* a table was too small */
    int inputs_used;
    int input_order[GGML_MAX_INPUTS]; /* in order of first reading */
    ggml_shape embeddings;  /* the stream's first shape */
    int tensors, ops;
    ggml_tensor tensor[GGML_MAX_TENSORS];
    ggml_op op[GGML_MAX_OPS];
    int holes;
    ggml_hole hole[GGML_MAX_HOLES];
    double high;            /* bytes of the buffer */
    int tag;                /* of the tensors described from now on: a vram_what */
    double at_high[VRAM_WHAT_COUNT]; /* bytes by tag of what was alive when the buffer grew last; the rest of it are gaps */
} ggml_graph;

ggml_shape ggml_f32(double width, double rows, double more);
ggml_shape ggml_typed(double bytes_each, double width, double rows, double more);

void ggml_graph_start(ggml_graph *graph);
/* Gives an input its shape. Inputs are allocated before the first operation, in the order of their first reading. */
void ggml_graph_input(ggml_graph *graph, int input, ggml_shape shape);
/* A copy of something in host memory, which the next operations read: they are a split of the graph, at whose start copies and then the inputs that
 * nobody has read before are allocated. */
int ggml_graph_copy(ggml_graph *graph, double bytes);
/* Leaves of the graph have memory before anything else: so many bytes of them, and one of them, used here, by its place among those. */
void ggml_graph_leaves(ggml_graph *graph, double bytes);
int ggml_graph_leaf(ggml_graph *graph, ggml_shape shape, double offset);
/* The last operation starts a split: it reads a weight in host memory whose copy is among the inputs. */
void ggml_graph_split(ggml_graph *graph);
/* The last operation runs in host memory. */
void ggml_graph_elsewhere(ggml_graph *graph);
/* One operation more; returns the tensor that it makes. Sources are ids, perhaps with GGML_VIEW, or GGML_NONE. */
int ggml_graph_op(ggml_graph *graph, bool in_place, ggml_shape shape, int sources, const int source[]);
/* Sources live until here; nothing is made (caches are written, or a fused kernel still reads). */
void ggml_graph_use(ggml_graph *graph, int sources, const int source[]);
/* Runs the operations since the last call. The next layer reads `stream` as GGML_STREAM and `carried` as GGML_CARRIED. */
void ggml_graph_run(ggml_graph *graph, int stream, int carried);
/* Between the passes. */
void ggml_graph_second_pass(ggml_graph *graph);
/* Allocates the inputs that are not yet: where all that follows is one split. */
void ggml_graph_allocate_inputs(ggml_graph *graph);

#endif
