/* api.h -- JSON in, JSON out: what the program, the WebAssembly module and the fuzzers call.
 *
 * The texts are those of the scenario and report language; every function returns a text that the caller frees with
 * vram_json_free(), and that is {"error": {..}} when the input is refused. Only running out of memory returns NULL. */
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
 * questions. value: the largest that fits on the scenario's GPUs (of "weights" the heaviest type that its engine loads), null when none does; limit:
 * the positions that the model was trained for, null where none apply; the bytes are those of the answer. */
char *vram_json_solve(vram_json *json, const char *request, size_t bytes);
char *vram_json_solve_for(vram_json *json, const char *scenario, size_t bytes, const char *paths); /* paths: "a,b", or NULL */
/* The answers once more, for front doors that print them in their own way; their number, -1 after a refusal. */
enum { VRAM_JSON_ANSWERS = 16 };
typedef struct { char path[64]; bool found; double value; const char *word; /* in place of a number */ double limit, bytes, needed_bytes, headroom_bytes; int verdict; } vram_json_answer;
int vram_json_answers(const vram_json *json, const vram_json_answer **rows);
/* A training step through time: {"timeline": {"components": ["weights", ..], "points": [{"phase": "forward", "place": 3, "bytes": [..]}, ..]}}: bytes by
 * component, in order of time, at each layer's fullest instant and after it; place: the layer's number, -1 embedding or the whole, -2 head and loss.
 * The largest sum of a phase is that phase of the report. No points when the scenario is no training. */
char *vram_json_timeline(vram_json *json, const char *scenario, size_t bytes);
/* What the core publishes, so that no range, default or list is written twice: fields and lists of ids. */
char *vram_json_tables(vram_json *json);
void vram_json_free(char *text);

/* What the last vram_json_estimate() that was not refused found; for front doors that print it in their own way. NULL before one. */
const struct vram_report *vram_json_last(const vram_json *json);
/* A line of the report's log as it will be printed, in at most VRAM_JSON_LOG_ROOM bytes; its length. */
enum { VRAM_JSON_LOG_ROOM = 256 };
struct vram_log;
int vram_json_log_text(const struct vram_log *line, char *out, size_t room);
/* One part of a report's text ("peak", "components", ..), as text; NULL: no such part. */
char *vram_json_part(const char *report, const char *key);
/* Presets: the scenario of a scenario preset as text (NULL: unknown); and a walk over ids and names of a list ("models", "gpus",
 * "scenarios"): the i-th, 0 .. until it returns false. The texts belong to json. */
char *vram_json_preset(const vram_json *json, const char *id);
bool vram_json_listed(const vram_json *json, const char *list, int i, const char **id, const char **name);

#endif
