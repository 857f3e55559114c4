/* words.h -- the long lists of ids: what an entry is, where a rule is from, what a note says.
 * The words for them, in every language, are in web/i18n. A test checks that none is missing. Add a line, and a word. */
#ifndef VRAM_WORDS_H
#define VRAM_WORDS_H

/* which part of a component an entry is */
#define VRAM_WHATS(X)                                                                                                   \
    /* weights.c */                                                                                                     \
    X(ALL_WEIGHTS, "all_weights") X(EMBEDDING, "embedding") X(ATTENTION, "attention") X(STATE_MIXER, "state_mixer")      \
    X(MLP, "mlp") X(EXPERTS, "experts") X(SHARED_EXPERT, "shared_expert") X(ROUTER, "router") X(NORMS, "norms")          \
    X(LM_HEAD, "lm_head") X(OTHER_WEIGHTS, "other_weights") X(SCALES, "scales") X(ZERO_POINTS, "zero_points")            \
    X(GROUP_INDEX, "group_index") X(DOUBLE_QUANT, "double_quant") X(UNQUANTISED, "unquantised") X(PADDING, "padding")    \
    /* llama_graph.c */                                                                                                 \
    X(STATE_ACTIVATIONS, "state_activations") X(STATE_SCORES, "state_scores") X(STATE_DECAYS, "state_decays") X(CHUNK_STATES, "chunk_states") X(COPIED_WEIGHTS, "copied_weights") X(GAPS, "gaps") X(CUDA_POOL, "cuda_pool") \
    /* kv_cache.c */                                                                                                    \
    X(GLOBAL_LAYERS, "global_layers") X(WINDOW_LAYERS, "window_layers") X(LATENT, "latent") X(INDEX_KEYS, "index_keys") X(COMPRESSED, "compressed") \
    X(STATE, "state") X(CONV_STATE, "conv_state")                                                                       \
    /* training.c */                                                                                                    \
    X(TRAINABLE, "trainable") X(MASTER_COPY, "master_copy") X(FIRST_MOMENT, "first_moment") X(SECOND_MOMENT, "second_moment") \
    X(MOMENTUM, "momentum") X(QUANT_BLOCKS, "quant_blocks") X(FACTORED_MOMENT, "factored_moment") X(PROJECTIONS, "projections")                        \
    X(STEP_TEMPORARY, "step_temporary") X(INPUT_IDS, "input_ids")                                                       \
    /* engine_transformers.c */                                                                                         \
    X(HIDDEN_STATES, "hidden_states") X(NORM_INPUT, "norm_input") X(ATTENTION_ACTIVATIONS, "attention_activations")     \
    X(ATTENTION_SCORES, "attention_scores") X(CAUSAL_MASK, "causal_mask") X(ROTARY_TABLES, "rotary_tables")             \
    X(MLP_ACTIVATIONS, "mlp_activations") X(EXPERT_ACTIVATIONS, "expert_activations") X(EXPERT_ORDER, "expert_order")   \
    X(CACHE_COPY, "cache_copy") X(WINDOW_VIEWS, "window_views") X(CUBLAS_WORKSPACE, "cublas_workspace") X(LOGITS, "logits") \
    /* block*.c, op_*.c: tensors of a training step */                                                                  \
    X(NORM_SQUARES, "norm_squares") X(NORMALISED, "normalised") X(NORM_STATISTICS, "norm_statistics")                   \
    X(NORM_OUTPUT, "norm_output") X(QUERY, "query") X(KEY, "key") X(VALUE, "value") X(ROTARY, "rotary")                 \
    X(REPEATED_KEYS, "repeated_keys") X(REPEATED_VALUES, "repeated_values")                                             \
    X(ATTENTION_PROBABILITIES, "attention_probabilities") X(ATTENTION_OUTPUT, "attention_output")                       \
    X(ATTENTION_STATISTICS, "attention_statistics") X(ATTENTION_BACKWARD, "attention_backward")                         \
    X(ATTENTION_PROJECTION, "attention_projection") X(GATE, "gate") X(UP, "up") X(ACTIVATION, "activation")             \
    X(GATED, "gated") X(MLP_OUTPUT, "mlp_output") X(DROPOUT_MASK, "dropout_mask")                                       \
    X(AUTOCAST_INPUT, "autocast_input") X(AUTOCAST_WEIGHTS, "autocast_weights")                                         \
    X(ACTIVATION_GRADIENT, "activation_gradient") X(REDUCTION_BUFFER, "reduction_buffer") X(DORA_WEIGHT, "dora_weight") X(DORA_BASE, "dora_base") X(MERGED_EXPERTS, "merged_experts") X(FUSED_QKV, "fused_qkv") X(ROUTER_WEIGHTS, "router_weights") X(EXPERT_INPUTS, "expert_inputs") X(EXPERT_OUTPUTS, "expert_outputs") X(GATE_UP, "gate_up") X(LORA_INPUT, "lora_input") X(LORA_DOWN, "lora_down")                 \
    X(LORA_UP, "lora_up") X(DEQUANTISED, "dequantised") X(LOGITS_FP32, "logits_fp32")                                   \
    X(LOG_PROBABILITIES, "log_probabilities") X(LABELS, "labels") X(QUANTISED_MOMENTS, "quantised_moments")             \
    X(SMALL_MOMENTS, "small_moments")                                                                                   \
    /* heads.c, rl.c */                                                                                                 \
    X(LABEL_PLACES, "label_places") X(LABEL_STATES, "label_states") X(LABEL_STATISTICS, "label_statistics")              \
    X(LOGITS_TILE, "logits_tile") X(GRADIENT_SUM, "gradient_sum") X(SHIFTED_LOGITS, "shifted_logits")                    \
    X(REFERENCE_LOGITS, "reference_logits") X(VALUES, "values") X(SAMPLED_SCORES, "sampled_scores")                      \
    X(SAMPLING, "sampling")                                                                                             \
    /* engine_vllm.c */                                                                                                 \
    X(ABSORBED_PROJECTIONS, "absorbed_projections") X(PENALTY_COUNTS, "penalty_counts") X(TOKEN_MASKS, "token_masks")    \
    X(SAMPLING_STATE, "sampling_state") X(SAMPLER_ROWS, "sampler_rows") X(EXPERT_WORKSPACE, "expert_workspace")          \
    X(EXPANDED_CONTEXT, "expanded_context") X(SIDE_EMBEDDINGS, "side_embeddings") X(GRAPH_POOL, "graph_pool") X(GRAPH_NODES, "graph_nodes") X(NCCL_BUFFERS, "nccl_buffers") X(LOADED_KERNELS, "loaded_kernels") X(MULTICAST_BUFFERS, "multicast_buffers") X(REQUEST_TABLE, "request_table")                                                  \
    /* sharding engines */                                                                                               \
    X(FROZEN_WEIGHTS, "frozen_weights") X(GATHERED_WEIGHTS, "gathered_weights") X(ALL_GATHER_BUFFER, "all_gather_buffer") \
    X(REDUCE_SCATTER_INPUT, "reduce_scatter_input") X(REDUCE_SCATTER_OUTPUT, "reduce_scatter_output")                     \
    X(REDUCE_BUCKET, "reduce_bucket") X(OWN_GRADIENTS, "own_gradients") X(GRADIENT_NORM, "gradient_norm")                 \
    X(FLAT_GRADIENTS, "flat_gradients") X(PERSISTENT_WEIGHTS, "persistent_weights") X(STAGING_BUFFER, "staging_buffer")   \
    X(TIED_GRADIENT, "tied_gradient") X(UNREDUCED, "unreduced") X(FLAT_WEIGHTS, "flat_weights") X(GATHERED_INPUT, "gathered_input") X(UNSCATTERED_OUTPUT, "unscattered_output")                                                     \
    /* engine.c, gpu.c */                                                                                               \
    X(CUDA_CONTEXT, "cuda_context") X(HIP_CONTEXT, "hip_context") X(DRIVER_CONTEXT, "driver_context") X(ALLOCATOR_CACHE, "allocator_cache") X(ALLOCATOR_GAPS, "allocator_gaps") X(ALLOCATOR_ROUNDING, "allocator_rounding")

/* where a rule is from: (NAME, "id", "address") */
#define VRAM_SOURCES(X)                                                                                                 \
    X(ARITHMETIC, "arithmetic", "")                                                                                      \
    X(CONFIG, "config", "https://huggingface.co/docs/transformers/main_classes/configuration")                            \
    X(TRANSFORMERS, "transformers", "https://github.com/huggingface/transformers/tree/main/src/transformers/models")      \
    X(PYTORCH_ALLOCATOR, "pytorch_allocator", "https://github.com/pytorch/pytorch/blob/main/c10/cuda/CUDACachingAllocator.cpp") \
    X(PYTORCH_OPTIM, "pytorch_optim", "https://github.com/pytorch/pytorch/tree/main/torch/optim")                        \
    X(LLAMA_CPP, "llama_cpp", "https://github.com/ggml-org/llama.cpp/tree/master/src")                                   \
    X(VLLM, "vllm", "https://github.com/vllm-project/vllm/tree/main/vllm")                                               \
    X(SGLANG, "sglang", "https://github.com/sgl-project/sglang/tree/main/python/sglang/srt")                             \
    X(GPTQ, "gptq", "https://github.com/ModelCloud/GPTQModel/tree/main/gptqmodel/nn_modules/qlinear")                     \
    X(AWQ, "awq", "https://github.com/casper-hansen/AutoAWQ/tree/main/awq/modules/linear")                                \
    X(BITSANDBYTES, "bitsandbytes", "https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/functional.py") \
    X(GALORE, "galore", "https://github.com/jiaweizzhao/GaLore/tree/master/galore_torch")                                 \
    X(DEEPSEEK_V3, "deepseek_v3", "https://arxiv.org/abs/2412.19437")                                                    \
    X(COMPRESSED_TENSORS, "compressed_tensors", "https://github.com/neuralmagic/compressed-tensors")                      \
    X(OCP_MX, "ocp_mx", "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf")          \
    X(KORTHIKANTI, "korthikanti", "https://arxiv.org/abs/2205.05198")                                                    \
    X(TRL, "trl", "https://github.com/huggingface/trl/tree/main/trl/trainer")                                             \
    X(ZERO, "zero", "https://arxiv.org/abs/1910.02054")                                                                  \
    X(PYTORCH_DDP, "pytorch_ddp", "https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp")  \
    X(PYTORCH_FSDP1, "pytorch_fsdp1", "https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/_runtime_utils.py") \
    X(PYTORCH_FSDP2, "pytorch_fsdp2", "https://github.com/pytorch/pytorch/tree/main/torch/distributed/fsdp/_fully_shard") \
    X(DEEPSPEED, "deepspeed", "https://github.com/deepspeedai/DeepSpeed/tree/master/deepspeed/runtime/zero")             \
    X(MEGATRON, "megatron", "https://github.com/NVIDIA/Megatron-LM/tree/main/megatron/core")                             \
    X(LORA, "lora", "https://arxiv.org/abs/2106.09685")                                                                  \
    X(QLORA, "qlora", "https://arxiv.org/abs/2305.14314")                                                                \
    X(NCCL, "nccl", "https://github.com/NVIDIA/nccl/tree/master/src")                                                    \
    X(VLLM_LOGS, "vllm_logs", "https://github.com/llm-d-incubation/llm-d-planner/blob/875a4fd609eef0d70810ac27174ca9b42156d13a/accuracy/accuracy_report.md") \
    X(GPU_LOGS, "gpu_logs", "https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference")

/* what a note says */
#define VRAM_NOTES(X)                                                                                                   \
    X(CONTEXT_ABOVE_MAX, "context_above_max_position_embeddings") X(KV_HEADS_REPLICATED, "kv_heads_replicated") X(SEQUENCES_LIMIT, "batch_above_sequences_limit")          \
    X(UNKNOWN_MODEL_TYPE, "unknown_model_type_counted_as_llama") X(GPUS_BELOW_PRODUCT, "gpus_below_product")             \
    X(ENGINE_VERSION, "engine_version") X(LIBRARY_VERSIONS, "library_versions") X(LORA_TARGETS_NOTHING, "lora_targets_match_no_module")     \
    X(NOT_MODELLED, "not_modelled") X(NOT_READ, "not_read") X(HEADS_NOT_DIVISIBLE, "heads_not_divisible") X(ENGINE_NOT_ON_CARD, "engine_not_on_card") \
    X(POOL_BELOW_CONTEXT, "pool_below_context") X(POOL_EMPTY, "pool_empty") X(SLOTS_NOT_BATCH, "slots_not_batch") X(NO_SYNC, "no_sync_not_counted") X(FSDP1_INTEGERS, "fsdp1_refuses_integers") X(STAGES_AND_ZERO, "deepspeed_refuses_stages") X(NATIVE_WEIGHTS, "native_weights") X(GALORE_RANK, "galore_rank") X(UNREAD_HERE, "unread_here") X(NOT_DIVIDING, "degree_not_dividing") X(GPUS_ABOVE_PRODUCT, "gpus_above_product") X(SHARDS_ALL, "fsdp_shards_all") X(EXPERTS_FILLED_UP, "experts_filled_up") X(ADAPTERS_WHOLE, "adapters_whole") X(LOMO_GRADIENTS, "lomo_gradients_counted") \
    X(GROUP_WITHIN_BATCH, "group_within_rollout_batch")        \
    X(SELECTIVE_DROPS_NOTHING, "selective_drops_nothing") X(LOSS_STAYS_WHOLE, "loss_stays_whole") X(RANK_ABOVE_MATRIX, "rank_above_matrix") X(STATES_ALONE, "states_alone") X(ROLLOUT_WAITS, "rollout_waits") X(SELECTIVE_STAYS, "selective_stays") X(STAGE, "pipeline_stage")

/* rules of thumb */
#define VRAM_RULES(X)                                                                                                   \
    X(SIXTEEN_BYTES, "sixteen_bytes_a_parameter") X(KORTHIKANTI_LINEAR, "korthikanti_34sbh")                              \
    X(KORTHIKANTI_SCORES, "korthikanti_5as2b")

/* lines that an engine or a tool prints, word for word: (NAME, "id", "line"). In a line %G is a number of bytes in GiB, %M in MiB, %d a whole number, %c one
 * with commas, %f one with two digits, %s a word; a width may stand between. Sources: vLLM v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py; SGLang
 * model_executor/model_runner.py, mem_cache/memory_pool.py; llama.cpp src/llama-model.cpp, llama-kv-cache.cpp, llama-memory-recurrent.cpp, llama-context.cpp. */
#define VRAM_LOGS(X)                                                                                                    \
    X(VLLM_WEIGHTS, "vllm_weights", "Model loading took %G GiB memory")                                                   \
    X(VLLM_GRAPHS, "vllm_graphs", "Estimated CUDA graph memory: %G GiB total")                                            \
    X(VLLM_AVAILABLE, "vllm_available", "Available KV cache memory: %G GiB")                                              \
    X(VLLM_TOKENS, "vllm_tokens", "GPU KV cache size: %c tokens")                                                         \
    X(VLLM_CONCURRENCY, "vllm_concurrency", "Maximum concurrency for %c tokens per request: %fx")                         \
    X(SGLANG_WEIGHTS, "sglang_weights", "Load weight end. mem usage=%G GB")                                               \
    X(SGLANG_POOL, "sglang_pool", "KV Cache is allocated. #tokens: %d, K size: %G GB, V size: %G GB")                     \
    X(SGLANG_LATENT_POOL, "sglang_latent_pool", "KV Cache is allocated. #tokens: %d, KV size: %G GB")                     \
    X(SGLANG_TOKENS, "sglang_tokens", "max_total_num_tokens=%d")                                                          \
    X(LLAMA_LAYERS, "llama_layers", "load_tensors: offloaded %d/%d layers to GPU")                                        \
    X(LLAMA_HOST_WEIGHTS, "llama_host_weights", "load_tensors:   CPU_Mapped model buffer size = %8M MiB")                 \
    X(LLAMA_WEIGHTS, "llama_weights", "load_tensors: %12s model buffer size = %8M MiB")                           \
    X(LLAMA_KV_BUFFER, "llama_kv_buffer", "llama_kv_cache: %10s KV buffer size = %8M MiB")                               \
    X(LLAMA_KV, "llama_kv", "llama_kv_cache: size = %7M MiB (%6d cells, %3d layers, %2d/%d seqs), K (%s): %7M MiB, V (%s): %7M MiB") \
    X(LLAMA_STATE, "llama_state", "llama_memory_recurrent: %10s RS buffer size = %8M MiB")                          \
    X(LLAMA_COMPUTE, "llama_compute", "sched_reserve: %10s compute buffer size = %8M MiB")                               \
    X(LLAMA_HOST_COMPUTE, "llama_host_compute", "sched_reserve: %10s compute buffer size = %8M MiB")                \
    X(LLAMA_OUTPUT, "llama_output", "llama_context: %10s  output buffer size = %8M MiB")                            \
    X(TORCH_LOADED, "torch_loaded", "torch.cuda.memory_allocated() == %d")                                                \
    X(TORCH_PEAK, "torch_peak", "torch.cuda.max_memory_allocated() == %d")                                                \
    X(TORCH_RESERVED, "torch_reserved", "torch.cuda.max_memory_reserved() == %d")                                         \
    X(NVIDIA_SMI, "nvidia_smi", "nvidia-smi: %dMiB / %dMiB")

#define VRAM_E_LOG(N, ...) VRAM_LOG_##N,
#define VRAM_E_RULE(N, ...) VRAM_RULE_##N,
#define VRAM_E_WHAT(N, ...) VRAM_WHAT_##N,
#define VRAM_E_SOURCE(N, ...) VRAM_SOURCE_##N,
#define VRAM_E_NOTE(N, ...) VRAM_NOTE_##N,
typedef enum { VRAM_WHATS(VRAM_E_WHAT) VRAM_WHAT_COUNT } vram_what;
typedef enum { VRAM_SOURCES(VRAM_E_SOURCE) VRAM_SOURCE_COUNT } vram_source;
typedef enum { VRAM_NOTES(VRAM_E_NOTE) VRAM_NOTE_COUNT } vram_note_id;
typedef enum { VRAM_RULES(VRAM_E_RULE) VRAM_RULE_COUNT } vram_rule_id;
typedef enum { VRAM_LOGS(VRAM_E_LOG) VRAM_LOG_COUNT } vram_log_id;

const char *vram_log_template(vram_log_id log);
const char *vram_source_address(vram_source source);

#endif
