/* sharding.h -- what a sharding engine holds of a trained model, and when.
 *
 * An engine (DDP, FSDP, DeepSpeed ZeRO) is a list of items for each moment of a step: shards at rest, weights gathered for a pass,
 * buckets and buffers of collectives, gradients on their way to their owners. replay.c asks for the items of every place and
 * moment that could be the peak, and enters those of the highest. One file an engine: fsdp.c, ddp.c, zero.c. */
#ifndef VRAM_SHARDING_H
#define VRAM_SHARDING_H

#include "core.h"

enum { VRAM_PLACE_EMBEDDING = -1, VRAM_PLACE_HEAD = -2 }; /* places of a pass beside the layers' numbers */

typedef enum {
    VRAM_MOMENT_REST,          /* always */
    VRAM_MOMENT_LOAD,          /* between two steps only */
    VRAM_MOMENT_FORWARD,       /* while the forward of a place runs */
    VRAM_MOMENT_LOSS,
    VRAM_MOMENT_START,         /* backward is about to begin; only at the head */
    VRAM_MOMENT_BACKWARD,      /* while the backward of a place runs */
    VRAM_MOMENT_REDUCE,        /* it is over: its gradients are on their way to their owners */
    VRAM_MOMENT_EPILOGUE,      /* backward is over for all; of the pass nothing is left but what the engine holds */
    VRAM_MOMENT_STEP,
    VRAM_MOMENT_WAIT,          /* its forward is over, and another model of the same engine's is at work (PPO's critic, DPO's reference) */
    VRAM_MOMENT_DONE           /* so is its backward */
} vram_moment;

/* copies x elements x width bytes */
typedef struct { unsigned char component; short what; double copies, elements, width; } vram_sharding_item;
enum { VRAM_SHARDING_ITEMS = 16 };
typedef struct { int items; vram_sharding_item item[VRAM_SHARDING_ITEMS]; } vram_sharding_list;

/* What becomes of a parameter's gradient */
typedef enum {
    VRAM_GRADIENTS_STAND,      /* to the step */
    VRAM_GRADIENTS_UNIT,       /* until the place's backward is over */
    VRAM_GRADIENTS_PASS        /* it is added to what the engine holds, at once */
} vram_gradients;

/* Parameters that are gathered together: one layer, or all that is outside the layers */
typedef struct {
    double elements, bytes;    /* of all parameters, as gathered; rows filled up to a multiple of the ranks where the engine does so */
    double trained;            /* the same of those with a gradient */
    double gradients;          /* of these, not filled up */
    double shard, trained_shard; /* on this rank */
    double trained_bytes;
    double shard_bytes;
    double slack, trained_slack; /* what the allocator's rounding adds to the shards, all and trained */
    double largest;            /* trained tensor */
} vram_sharding_unit;

typedef struct vram_sharding {
    const vram_scenario *s;
    const vram_model *m;
    vram_source source;
    bool lora;
    bool second;               /* another model is trained by the same engine, whose buffers are counted with that one */
    bool whole_adapters;       /* vram_adapters_whole() */
    double ranks;              /* that share the states */
    double width;              /* bytes of a stored base parameter, as gathered */
    double trained_width;      /* of a trained parameter, as gathered */
    double shard_width;        /* of a trained parameter at rest */
    double gradient_width;     /* of a reduced gradient */
    vram_gradients gradients;
    int64_t layers;            /* on the fullest stage */
    double embedding;          /* parameters of the embedding's table */
    vram_sharding_unit layer[VRAM_MAX_KINDS], root;
    double elements, trained;  /* of all */
    double shard, shard_bytes, trained_shard, slack, trained_slack; /* of all, on this rank */
    /* DeepSpeed */
    double own, own_slice;     /* parameters that touch this rank's share, whole; the largest part of one in the share */
    int own_from;              /* layer at whose backward they are first copied; VRAM_PLACE_HEAD: when backward is over */
    double first_bucket, last_bucket; /* parameters in the first bucket of stage 1; in the last of the others */
    double reduced[VRAM_MAX_LAYERS]; /* parameters in the bucket that is reduced while a layer's backward runs */
    double sub_group;          /* the largest of stage 3, this rank's part */
    double persistent, persistent_bytes; /* of stage 3, parameters that are never let go */
    double through[VRAM_MAX_LAYERS]; /* elements of the layers up to one, it included */
} vram_sharding;

/* lora: of this model only adapters are trained. False: nothing but arithmetic divides the states (`plain`, one rank without an engine, Megatron). */
bool vram_sharding_of(const vram_scenario *s, const vram_model *m, bool lora, vram_sharding *shard);
vram_sharding_list vram_sharding_items(const vram_sharding *shard, vram_moment moment, int place);
double vram_sharding_bytes(const vram_sharding *shard, vram_moment moment, int place);
bool vram_sharding_take(vram_sharding_list *list, const vram_sharding_item *item); /* is there one like it? then it is taken out */
void vram_sharding_entries(const vram_sharding_list *list, const vram_sharding *shard, vram_role role, unsigned phases, vram_report *report);
void vram_sharding_add(vram_sharding_list *list, vram_component component, vram_what what, double copies, double elements, double width);
const vram_sharding_unit *vram_sharding_layer(const vram_sharding *shard, int64_t layer);
bool vram_sharding_by_expert(const vram_sharding *shard); /* experts have ranks of their own to share with */
double vram_sharding_round(double elements, double ranks); /* elements, up to a multiple of the ranks */

/* One tensor after another in the order of definition: the embedding, the layers, what is behind them */
typedef struct { double count, rows, columns, width; bool trained; vram_part part; } vram_sharding_tensor;
typedef void vram_sharding_visitor(void *context, const vram_sharding_tensor *tensor);
void vram_sharding_each(const vram_sharding *shard, int kind, vram_sharding_visitor *visit, void *context);

void vram_fsdp2_items(const vram_sharding *shard, vram_moment moment, int place, vram_sharding_list *list);
void vram_fsdp1_items(const vram_sharding *shard, vram_moment moment, int place, vram_sharding_list *list);
void vram_ddp_items(const vram_sharding *shard, vram_moment moment, int place, vram_sharding_list *list);
void vram_zero_items(const vram_sharding *shard, vram_moment moment, int place, vram_sharding_list *list); /* stages 1 and 2 */
void vram_zero3_items(const vram_sharding *shard, vram_moment moment, int place, vram_sharding_list *list);
void vram_sharding_tied(const vram_sharding *sharding, vram_moment moment, int place, vram_sharding_list *list);
void vram_zero_own(vram_sharding *shard);

#endif
