/* api.h -- JSON in, JSON out: what the program, the WebAssembly module and the fuzzers call.
 *
 * The texts are those of the scenario and report language; every function returns a text that the caller frees with
 * vram_json_free(), and that is {"error": {..}} when the input is refused. Only running out of memory returns NULL.
 * An error names a field that was said and its range, or the values that a list of words has: of what is too large together, the field that is furthest above its least, and as its
 * "max" the most with which the others can be computed (blame.c). A report's notes say what was said and nothing reads, "unread_here" (unread.c). */
#ifndef VRAM_JSON_API_H
#define VRAM_JSON_API_H

#include <stdbool.h>
#include <stddef.h>

#define VRAM_ABI 1
enum { VRAM_JSON_LONGEST = 4 * 1024 * 1024 }; /* bytes of a text that is read */

typedef struct vram_json vram_json;
struct vram_report;

/* `presets`: {"models": [..], "gpus": [..], ..}, read once; NULL for none (then models and cards must be written out).
 * NULL when it is not such a bundle. */
vram_json *vram_json_open(const char *presets, size_t bytes);
void vram_json_close(vram_json *json);

char *vram_json_estimate(vram_json *json, const char *scenario, size_t bytes);
/* What each value of a field would lead to, the others unchanged:
 * {"scenario": {..}, "options": {"weights": ["bf16", "int4"]}} ->
 * {"options": {"weights": [{"value": "bf16", "bytes": N, "phase": "decode", "verdict": "fits", "gpus_needed": 1}, {"value": .., "error": {..}}]}} */
char *vram_json_options(vram_json *json, const char *request, size_t bytes);
/* The inverse questions: {"scenario": {..}, "for": ["context", "weights"]} -> {"solve": [{"path": "context", "value": 262144, "limit": 131072,
 * "bytes": N, "needed_bytes": N, "headroom_bytes": N, "verdict": "tight"}, ..]}. `for`: whole-number fields, or "weights"; without it the task's own
 * questions. value: the largest that fits on the scenario's GPUs, the next does not (of "weights" the heaviest type that its engine loads), null when none does; limit:
 * the positions that the model was trained for or the layers that it has, null where none apply; the bytes are those of the answer. A field that the
 * scenario does not read is refused ("not_read").
 * "gpus" asks otherwise: value is the least number of the scenario's cards over which a natural division of it fits (divide.c), "parallel" that division
 * ({"data": 16, "tensor": 1, "pipeline": 1, "zero": 3, "engine": "fsdp2"}; the last two of trainings): set without "gpus" it fits on so many. With null,
 * "nearest" is the division that needs the least: {"gpus": 1024, "needed_bytes": N, "verdict": "no", "parallel": {..}}. "over", or null: the division over
 * the GPUs that were said, where they are not used by one or it does not fit. */
char *vram_json_solve(vram_json *json, const char *request, size_t bytes);
char *vram_json_solve_for(vram_json *json, const char *scenario, size_t bytes, const char *paths); /* paths: "a,b", or NULL */
/* The answers once more, for front doors that print them in their own way; their number, -1 after a refusal. */
enum { VRAM_JSON_ANSWERS = 16 };
typedef struct { double gpus; /* 0: none */ double data, tensor, pipeline; int zero, engine, verdict; double needed_bytes; } vram_json_division;
typedef struct {
    char path[64];
    bool found;
    double value;
    const char *word; /* in place of a number */
    double limit, bytes, needed_bytes, headroom_bytes;
    int verdict;
    bool divides, trains; /* asked for "gpus": */
    vram_json_division division, nearest, over;
} vram_json_answer;
int vram_json_answers(const vram_json *json, const vram_json_answer **rows);
/* A training step through time: {"timeline": {"components": ["weights", ..], "points": [{"phase": "forward", "place": 3, "bytes": [..]}, ..]}}: bytes by
 * component, in order of time, at each layer's fullest instant and after it; of serving and of RL one point a phase. place: the layer's number, -1 embedding or the whole, -2 head and loss.
 * The largest sum of a phase is that phase of the report. */
char *vram_json_timeline(vram_json *json, const char *scenario, size_t bytes);
/* Is what somebody says true? {"scenario": {..}} -> {"claim": {"verdict": "possible" | "only_if" | "no", "bytes": N, "needed_bytes": N, "usable_bytes": N,
 * "peak_phase": "step", "changes": [{"path": "training.checkpointing", "from": "none", "value": "full", "saves_bytes": N}, ..], "alternatives": [..]}}.
 * The bytes are those of the scenario as it was said. changes: the cheapest set that makes it fit (claim.c says what costs what), in an order in which
 * the savings add up; beside them "cost", "changed_bytes", "changed_needed_bytes"; alternatives: up to three more such sets, each without something
 * that another needs. With "no": "least_needed_bytes", what is needed with every change at once. */
char *vram_json_claim(vram_json *json, const char *request, size_t bytes);
char *vram_json_claim_of(vram_json *json, const char *scenario, size_t bytes); /* the scenario alone */
enum { VRAM_JSON_CHANGES = 12, VRAM_JSON_ALTERNATIVES = 3, VRAM_JSON_POSSIBLE = 0, VRAM_JSON_ONLY_IF, VRAM_JSON_NO };
typedef struct { char path[48], from[40], value[40]; /* values as JSON */ double saves_bytes; } vram_json_change;
typedef struct { int changes, cost; vram_json_change change[VRAM_JSON_CHANGES]; double bytes, needed_bytes; } vram_json_change_set;
typedef struct {
    int verdict, phase, sets; /* the cheapest set first */
    double bytes, needed_bytes, usable_bytes, least_needed_bytes, gpus;
    vram_json_change_set set[1 + VRAM_JSON_ALTERNATIVES];
} vram_json_claim_answer;
const vram_json_claim_answer *vram_json_claimed(const vram_json *json); /* the last answer; NULL after a refusal */
/* What the core publishes, so that no range, default or list is written twice: fields and lists of ids. */
char *vram_json_tables(vram_json *json);
void vram_json_free(char *text);

/* What the last vram_json_estimate() that was not refused found; for front doors that print it in their own way. NULL before one. */
const struct vram_report *vram_json_last(const vram_json *json);
/* A line of the report's log as it will be printed, in at most VRAM_JSON_LOG_ROOM bytes; its length. */
enum { VRAM_JSON_LOG_ROOM = 256 };
struct vram_log;
int vram_json_log_text(const struct vram_log *line, char *out, size_t room);
/* One part of a report's text ("peak", "components", ..), as text; an error that names the parts there are otherwise. */
char *vram_json_part(const char *report, const char *key);
/* The text of a front door's own refusal; code: one of vram_error_code */
char *vram_json_refusal(int code, const char *path, const char *value);
/* Presets: the scenario of a scenario preset as text (NULL: unknown); and a walk over ids and names of a list ("models", "gpus",
 * "scenarios"): the i-th, 0 .. until it returns false. The texts belong to json. */
char *vram_json_preset(const vram_json *json, const char *id);
bool vram_json_listed(const vram_json *json, const char *list, int i, const char **id, const char **name);

#endif
