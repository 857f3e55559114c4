/* engine_vllm.c -- what vLLM allocates at start-up, and how many tokens its cache then holds.
 *
 *     cache = utilization * total - weights - buffers of the runner - activation peak of the profile run - CUDA graphs
 *
 * Rules of 0.33 (v1/worker/gpu_worker.py determine_available_memory, v1/worker/gpu/model_runner.py, v1/core/kv_cache_planning.py) and of the V0 engine
 * of 0.8 and before (worker/model_runner.py profile_run). The profile run is one pass of T = max_num_batched_tokens tokens without the attention
 * kernel, then the sampler for S = max_num_seqs rows: the peak is the fuller of the two. The experts' workspace and the sampler's rows stay.
 * Left out: kernels that the driver loads while profiling, whole segments of the allocator beyond their tensors (tens of MiB). */
#include "vllm.h"

typedef vram_vllm vllm;

static const double PROFILED_KERNELS_MIB = 256; /* 0.24 to 0.27 GiB in 40 logs of 0.19 on H100, 0.25 in two of 2026 on RTX 4090 */

vllm vram_vllm_open(const vram_scenario *s)
{
    vllm v = {.s = s, .m = &s->model};
    v.T = (double)s->vllm.max_num_batched_tokens;
    v.S = vram_min((double)s->vllm.max_num_seqs, v.T);
    v.L = (double)s->context;
    v.h = (double)s->model.hidden;
    v.V = vram_round_up((double)s->model.vocab, 64);
    v.b = vram_compute_bytes(s);
    v.ranks = (double)s->parallel.tensor;
    v.v0 = s->vllm.engine == VRAM_VLLM_V0;
    v.graphs = s->vllm.cuda_graphs > 0;
    v.flashinfer = !v.v0 && s->vllm.flashinfer_sampler > 0;
    return v;
}

/* v1/worker/gpu/sample/penalties.py: a count for each row and word, a bit mask; structured_outputs.py: another mask; logit_bias.py, bad_words.py,
 * logprob.py: 17,924 bytes a row; input_batch.py: 12 bytes a token; cuBLAS's workspace. */
static void runner_buffers(const vllm *v, vram_report *report)
{
    double words = (double)v->m->vocab;
    if (v->v0) return;
    vram_component c = VRAM_COMPONENT_ENGINE_BUFFERS;
    double rows = v->m->stage.head ? v->S : 0; /* the sampler is the last stage's */
    vram_entry *e = vram_vllm_add(report, c, VRAM_WHAT_PENALTY_COUNTS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, rows), VRAM_SYMBOL_VOCABULARY, words), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = vram_vllm_add(report, c, VRAM_WHAT_TOKEN_MASKS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, 2), VRAM_SYMBOL_SEQUENCES, rows), VRAM_SYMBOL_WIDTH, vram_ceil_div(words, 32)), VRAM_SYMBOL_BYTES_PER_ELEMENT, 4);
    e = vram_vllm_add(report, c, VRAM_WHAT_SAMPLING_STATE, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_SEQUENCES, rows), VRAM_SYMBOL_BYTES, 17924);
    e = vram_vllm_add(report, c, VRAM_WHAT_INPUT_IDS, VRAM_EXACT, VRAM_PHASES_INFERENCE);
    vram_times(vram_times(e, VRAM_SYMBOL_TOKENS, v->T), VRAM_SYMBOL_BYTES, 12);
}

/* A private pool shared by all captures: about the working set of the largest, 512 tokens in pieces (V0: 256, whole steps). */
static double graph_pool(const vllm *v)
{
    double rows = v->v0 ? vram_min(256, v->S) : vram_min(512, 2 * v->S);
    vram_vllm_profile p = vram_vllm_profile_run(v);
    return rows * (vram_vllm_numbers(v, p.most) + 2 * v->h + p.workspace) * v->b;
}

/* config/vllm.py _set_cudagraph_sizes: 1 2 4, then every 8, from 256 every 16 */
static double sizes_up_to(double n)
{
    double few = n >= 4 ? 3 : n >= 2 ? 2 : n >= 1 ? 1 : 0;
    return few + vram_floor_div(vram_min(n, 255), 8) + (n >= 256 ? vram_floor_div(n - 256, 16) + 1 : 0);
}

/* Pieces between attention layers up to twice the sequences, and whole decode steps up to the sequences; neither above 512 (1024 on 10.x) nor above the
 * tokens of a step. V0 captures whole steps only, up to 256. */
static double graphs_captured(const vllm *v)
{
    double most = v->s->gpu.compute_capability >= 10 && v->s->gpu.compute_capability < 11 ? 1024 : 512, largest = vram_min(v->T, vram_min(most, 2 * v->S));
    if (v->v0) return 3 + vram_floor_div(vram_min(v->S, 256), 8);
    return sizes_up_to(vram_min(v->S, largest)) + sizes_up_to(largest);
}

/* The driver keeps each graph's nodes: public logs show some 190 KiB a layer and graph beyond the pool. */
double vram_graphs_allowance(const vram_scenario *s, double graphs, vram_report *report)
{
    if (!s->overheads || graphs <= 0) return 0;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_CUDA_GRAPHS, VRAM_WHAT_GRAPH_NODES, VRAM_ALLOWANCE, VRAM_SOURCE_GPU_LOGS, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE));
    return vram_times(vram_times(vram_times(e, VRAM_SYMBOL_COPIES, graphs), VRAM_SYMBOL_LAYERS, (double)s->model.stage.layers), VRAM_SYMBOL_BYTES, 190 * 1024)->bytes;
}

/* Servers' cards have NVLink and a switch; others meet over PCIe. */
static bool has_switch(const vram_gpu *gpu) { return gpu->compute_capability == 7 || gpu->compute_capability == 8 || (gpu->compute_capability >= 9 && gpu->compute_capability < 12); }

/* What joins the ranks of a tensor-parallel group at their first large sum. NCCL (init.cc, transport/p2p.cc): for each channel of its ring a receive buffer
 * of 4 MiB, 4.7 MiB and 0.5 MiB (its three protocols), in whole 2 MiB; where a card reads its neighbour's memory (8.0) the 4 MiB stand with the sender. Its
 * logs name 24 channels on a switch, 2 over PCIe. Through the switch of 9.0 and later: multicast objects, of which the driver makes whole 512 MiB: sums and
 * credits of NCCL (transport/nvls.cc), and FlashInfer's sum with the norm (compiled models; vllm/compilation/passes/fusion/allreduce_rms_fusion.py).
 * And NCCL's own code, one linked image for each architecture (libnccl 2.30.7, by its fat binary's headers).
 * Left out: what is made before memory is first looked at (custom all-reduce, a second group), and what stages say to each other after it. */
double vram_ranks_allowance(const vram_scenario *s, bool fused, vram_report *report)
{
    const vram_gpu *gpu = &s->gpu;
    bool joined = s->overheads && s->parallel.tensor > 1, multicast = joined && gpu->compute_capability >= 9 && has_switch(gpu);
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_NCCL_BUFFERS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    double bytes = vram_times(vram_times(e, VRAM_SYMBOL_COPIES, joined ? has_switch(gpu) ? 24 : 2 : 0), VRAM_SYMBOL_BYTES, (gpu->compute_capability == 8 ? 12 : 10) * VRAM_VLLM_MIB)->bytes;
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_MULTICAST_BUFFERS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    bytes += vram_times(vram_times(e, VRAM_SYMBOL_COPIES, multicast ? fused ? 3 : 2 : 0), VRAM_SYMBOL_BYTES, 512 * VRAM_VLLM_MIB)->bytes;
    double code = gpu->compute_capability >= 12 ? 115 : gpu->compute_capability >= 10 ? 130 : gpu->compute_capability >= 9 ? 98 : 47;
    e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_COMMUNICATION, VRAM_WHAT_LOADED_KERNELS, VRAM_ALLOWANCE, VRAM_SOURCE_NCCL, VRAM_PHASES_INFERENCE);
    return bytes + vram_times(e, VRAM_SYMBOL_BYTES, joined ? code * VRAM_VLLM_MIB : 0)->bytes;
}

/* Kernels that the driver loads before the pool is sized. */
double vram_kernels_allowance(const vram_scenario *s, double mib, vram_report *report)
{
    if (!s->overheads) return 0;
    vram_entry *e = vram_add(report, VRAM_ROLE_MODEL, VRAM_COMPONENT_ENGINE_BUFFERS, VRAM_WHAT_LOADED_KERNELS, VRAM_ALLOWANCE, VRAM_SOURCE_VLLM_LOGS, VRAM_PHASES_INFERENCE);
    return vram_times(e, VRAM_SYMBOL_BYTES, mib * VRAM_VLLM_MIB)->bytes;
}

void vram_engine_vllm(const vram_scenario *s, vram_report *report)
{
    vram_note_add(report, VRAM_NOTE_ENGINE_VERSION, "engine", 2, s->vllm.engine == VRAM_VLLM_V0 ? (const double[]){0, 8} : (const double[]){0, 33});
    vllm v = vram_vllm_open(s);
    int first = report->entries;
    double before = 0;
    vram_vllm_weights(&v, report);
    report->pool.model_bytes = 0;
    for (int i = first; i < report->entries; i++) report->pool.model_bytes += report->entry[i].bytes;
    runner_buffers(&v, report);
    for (int i = first; i < report->entries; i++) before += report->entry[i].bytes;
    double peak = vram_vllm_activation(&v, report), graphs = v.graphs ? graph_pool(&v) : 0;
    if (v.graphs) vram_times(vram_vllm_add(report, VRAM_COMPONENT_CUDA_GRAPHS, VRAM_WHAT_GRAPH_POOL, VRAM_ALLOWANCE, VRAM_BIT(VRAM_PHASE_PREFILL) | VRAM_BIT(VRAM_PHASE_DECODE)), VRAM_SYMBOL_BYTES, vram_floor_div(graphs, 1));
    if (v.graphs) graphs += vram_graphs_allowance(s, graphs_captured(&v), report);
    double others = vram_ranks_allowance(s, v.graphs && !v.v0, report) + (v.v0 ? 0 : vram_kernels_allowance(s, PROFILED_KERNELS_MIB, report)), budget = vram_pool_budget(s, &s->gpu);
    report->pool.graph_bytes = vram_floor_div(graphs, 1);
    report->pool.fixed_bytes = before + peak + others + (v.v0 ? 0 : graphs);
    report->pool.sequences_limit = (double)s->vllm.max_num_seqs;
    vram_vllm_pool(&v, budget - report->pool.fixed_bytes, report);
    report->pool.sequences = vram_pool_sequences(&report->pool, budget);
    vram_pool_note(s, "vllm.max_num_seqs", report);
}
