/* vllm.h -- what the parts of vLLM's start-up share: vllm_weights.c loads, vllm_profile.c runs the profile run, vllm_pool.c plans the cache, engine_vllm.c adds up. */
#ifndef VRAM_VLLM_H
#define VRAM_VLLM_H

#include "core.h"

#define VRAM_VLLM_MIB 1048576.0

typedef struct {
    const vram_scenario *s;
    const vram_model *m;
    double T, S, L, h, V, b, ranks, h_bytes; /* tokens and rows of the profile run, context, widths; b: bytes of the compute type */
    bool v0, graphs, flashinfer;
} vram_vllm;

/* Numbers a token: of a mixer or an MLP, and copies of the hidden width; bytes beside */
typedef struct { double width, hidden; vram_what what; double context; } vram_vllm_forward;
typedef struct { vram_vllm_forward most; double workspace, before; } vram_vllm_profile; /* before: bytes of the pass in the layers before the first with experts */

vram_vllm vram_vllm_open(const vram_scenario *s);
static inline vram_entry *vram_vllm_add(vram_report *report, vram_component component, vram_what what, vram_certainty kind, unsigned phases)
{
    return vram_add(report, VRAM_ROLE_MODEL, component, what, kind, VRAM_SOURCE_VLLM, phases);
}

/* ---- vllm_weights.c ---- */
void vram_vllm_weights(const vram_vllm *v, vram_report *report); /* and what its loader makes of them */
double vram_vllm_expert_ranks(const vram_vllm *v);               /* that divide an expert's width */
bool vram_vllm_padded_experts(const vram_vllm *v);               /* MXFP4 */
bool vram_vllm_hopper(const vram_vllm *v);

/* ---- vllm_profile.c ---- */
vram_vllm_profile vram_vllm_profile_run(const vram_vllm *v);
double vram_vllm_numbers(const vram_vllm *v, vram_vllm_forward f);       /* a token */
double vram_vllm_activation(const vram_vllm *v, vram_report *report);    /* what the profile run raises the peak by */

/* ---- vllm_pool.c ---- */
void vram_vllm_pool(const vram_vllm *v, double room, vram_report *report); /* blocks that are reserved, tokens that `room` bytes hold */

#endif
