/* llama_graph.h -- the size of llama.cpp's compute buffer (llama_graph.c). */
#ifndef VRAM_LLAMA_GRAPH_H
#define VRAM_LLAMA_GRAPH_H

#include "ggml_graph.h"

/* Type of each weight of a layer in the file, by what it is; and the output's */
typedef struct {
    unsigned char type[VRAM_MAX_LAYERS][VRAM_ROLE_OF_COUNT];
    unsigned char output;
} llama_weights;

typedef struct {
    double tokens;             /* of the largest micro-batch */
    double outputs;            /* rows of logits */
    double sequences;          /* slots */
    double snapshots;          /* of a recurrent state that a micro-batch leaves: one, and one for every token drafted */
    double streams;            /* caches apart: slots, or 1 */
    double cells, window_cells; /* of one stream */
    bool two_caches;           /* windowed layers have a cache of their own */
    bool flash;
    vram_format k_type, v_type;
    int64_t first, end;        /* layers on this GPU; those in host memory are walked, too */
    bool head;                 /* and the output stage */
    double copies;             /* of every input: 4 where several GPUs work as a pipeline (GGML_SCHED_MAX_COPIES) */
    int64_t host_layers;       /* the first layers, which stay in host memory; one more: the output, too */
    const llama_weights *weights; /* of theirs */
} llama_batch;

/* Bytes of the compute buffers, 0 when the graph was too large for the tables. The graph is working space. */
typedef struct { double gpu, host; } llama_buffers;
llama_buffers llama_graph_buffers(ggml_graph *graph, const vram_model *model, const llama_batch *batch);

#endif
