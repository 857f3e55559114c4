/* training.c -- what a trained model keeps at rest. */
#include "core.h"

static int format(const char *id) { return vram_find(VRAM_LIST_FORMAT, id); }

static void state(const vram_scenario *s, const vram_model *m, vram_role role, vram_component component, vram_what what, double bytes, unsigned phases, vram_report *report)
{
    double n = s->training.method == VRAM_METHOD_LORA ? vram_lora_params(s, m) : vram_rank_params(s, m);
    vram_times(vram_times(vram_add(report, role, component, what, VRAM_EXACT, VRAM_SOURCE_ARITHMETIC, phases), VRAM_SYMBOL_PARAMETERS, n), VRAM_SYMBOL_BYTES_PER_PARAMETER, bytes);
}

void vram_train(const vram_scenario *s, const vram_model *m, vram_role role, double sequences, double tokens, vram_report *report)
{
    bool lora = s->training.method == VRAM_METHOD_LORA, wide = s->training.precision == VRAM_PRECISION_FP32 || s->training.precision == VRAM_PRECISION_AMP;
    unsigned late = VRAM_BIT(VRAM_PHASE_BACKWARD) | VRAM_BIT(VRAM_PHASE_STEP);
    double states = vram_format_bytes(s->training.optimizer_states);
    (void)sequences, (void)tokens;
    vram_weights(s, m, role, lora ? s->weights : format(wide ? "fp32" : "bf16"), report->phases, report);
    if (lora) state(s, m, role, VRAM_COMPONENT_ADAPTERS, VRAM_WHAT_TRAINABLE, vram_format_bytes(s->lora.dtype), report->phases, report);
    state(s, m, role, VRAM_COMPONENT_GRADIENTS, VRAM_WHAT_TRAINABLE, vram_format_bytes(s->training.gradients), late, report);
    if (!lora && s->training.precision == VRAM_PRECISION_MIXED) state(s, m, role, VRAM_COMPONENT_MASTER_WEIGHTS, VRAM_WHAT_MASTER_COPY, 4, report->phases, report);
    state(s, m, role, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_FIRST_MOMENT, states, report->phases, report);
    state(s, m, role, VRAM_COMPONENT_OPTIMIZER, VRAM_WHAT_SECOND_MOMENT, states, report->phases, report);
}

void vram_forward_only(const vram_scenario *s, const vram_model *m, vram_role role, double sequences, double tokens, double logit_rows, vram_phase phase, vram_report *report)
{
    (void)s, (void)m, (void)role, (void)sequences, (void)tokens, (void)logit_rows, (void)phase, (void)report;
}

void vram_training(const vram_scenario *s, vram_report *report)
{
    vram_train(s, &s->model, VRAM_ROLE_MODEL, (double)s->training.micro_batch, (double)s->training.sequence_length, report);
}
