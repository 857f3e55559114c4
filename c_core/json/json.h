/* json.h -- what the files of json/ share: the only ones that know cJSON. */
#ifndef VRAM_JSON_H
#define VRAM_JSON_H

#include "../core.h"
#include "api.h"

#include "cJSON.h"

/* The whole text as one JSON value: valid UTF-8, nothing after it, no key twice, at most VRAM_JSON_KEYS keys in an object.
 * NULL with an error otherwise. cJSON_Delete() the result. */
enum { VRAM_JSON_KEYS = 1024 };
cJSON *vram_json_parse(const char *text, size_t bytes, vram_error *error);

/* A number in [min, max]; whole when it must be. `path` names the field in the error. */
bool vram_json_number(const cJSON *item, const char *path, double min, double max, double *out, vram_error *error);
bool vram_json_integer(const cJSON *item, const char *path, double min, double max, int64_t *out, vram_error *error);
bool vram_json_boolean(const cJSON *item, const char *path, int *out, vram_error *error);
/* An error about a value that is there but will not do; keeps a printable extract of it. Returns false. */
bool vram_json_refuse(const cJSON *item, vram_error_code code, const char *path, vram_error *error);

/* config.c: a config.json, or a rule-of-thumb model. Paths in errors begin with "model". */
bool vram_config_read(const cJSON *config, vram_model *model, vram_error *error);

/* presets as opened by vram_json_open() */
const cJSON *vram_json_model(const vram_json *json, const char *id); /* its config; NULL: unknown */
const vram_gpu *vram_json_gpu(const vram_json *json, const char *id);

/* scenario.c: text's tree to struct, and the normalised scenario back. `source` gives model and gpu as they were said. `held`: configs of the models that
 * the scenario holds from before, which are not read again; {0} for none. */
typedef struct { const cJSON *model, *critic, *reference, *reward; } vram_json_configs;
bool vram_json_scenario_read(const vram_json *json, const cJSON *tree, vram_scenario *scenario, vram_json_configs *held, vram_error *error);
cJSON *vram_json_scenario_write(const vram_scenario *scenario, const cJSON *source);
cJSON *vram_json_split(const char *text, size_t n, char by); /* "a,b" to an array of texts */
cJSON *vram_json_values(const char *path); /* the words that a field may be; NULL when they are not all listed */
cJSON *vram_json_fields(void); /* the table of fields, for vram_json_tables() */

/* The range of a whole-number field, what it is in a scenario, and a bound that the model sets (0: none). False: no such field. */
typedef struct { double min, max, now, limit; } vram_json_range;
bool vram_json_range_of(const vram_scenario *scenario, const char *path, vram_json_range *range);

/* scenario.c: the fields one by one, for unread.c and blame.c */
const char *vram_json_field(int i);           /* path of the i-th; NULL past the last */
const char *vram_json_when(const char *path); /* where it is read, NULL everywhere: "a=b|c;d=e;!f=g;h=i", the first ones hold, and not all of those after the '!' */
bool vram_json_is_said(const cJSON *tree, const char *path); /* otherwise than its default */
void vram_json_value_text(const vram_scenario *scenario, const char *path, char *text, size_t room); /* "true", "8", an id; of no scenario the default */

void vram_json_said_text(const cJSON *tree, const char *path, char *text, size_t room); /* the same of what was said */
void vram_json_unset(vram_scenario *scenario, const char *path); /* as if nothing had been said */

/* The i-th field, when it is a whole number and was said as one: that, its least and its default (the least where that depends on others) */
bool vram_json_counted(const cJSON *tree, int i, double *value, double *least, double *usual);
bool vram_json_product(const cJSON *tree, const char *path); /* a number that follows from others: it was not said */

/* blame.c: an error that names a sum is made to name the field behind it. `tree` is changed meanwhile. */
bool vram_json_blame(vram_json *json, cJSON *tree, vram_error *error);

/* unread.c: whether a field is read in a scenario; notes on what was said and is not */
bool vram_json_is_read(const vram_scenario *scenario, const char *path);
void vram_json_unread(const cJSON *tree, const vram_scenario *scenario, vram_scenario *room, vram_report *report);

/* api.c: one estimate of a tree, in json's own structs, compared with no card but its own; NULL with an error. The report is good until the next.
 * verdict_alone: as vram_judge() has it. */
const vram_report *vram_json_run(vram_json *json, const cJSON *tree, bool verdict_alone, vram_error *error);
/* Puts `value` (taken over) at "a.b" or "a" of a scenario for a while; what was there comes back afterwards. */
typedef struct { cJSON *object, *before; const char *key; } vram_json_swap;
vram_json_swap vram_json_put(cJSON *tree, const char *path, cJSON *value);
void vram_json_put_back(vram_json *json, const vram_json_swap *swap);

/* solve.c: answers to the questions that `paths` (an array, or NULL) asks, at most VRAM_JSON_ANSWERS; their number, -1 with an error. `scenario` is
 * changed meanwhile; s is room. */
int vram_json_solve_tree(vram_json *json, cJSON *scenario, const cJSON *paths, vram_scenario *s, vram_json_answer rows[], vram_error *error);

/* divide.c: to the question for "gpus"; `now` is the verdict on the scenario as it was said, whose struct is s */
void vram_json_divide(vram_json *json, cJSON *scenario, const vram_scenario *s, vram_verdict now, vram_json_answer *row);

/* claim.c: the answer to a claim; false with an error. `scenario` is changed meanwhile; s is room. */
bool vram_json_claim_tree(vram_json *json, cJSON *scenario, vram_scenario *s, vram_json_claim_answer *answer, vram_error *error);
cJSON *vram_json_claim_write(const vram_json_claim_answer *answer);

/* report.c */
cJSON *vram_json_report_write(const vram_scenario *scenario, const cJSON *source, const vram_report *report);
cJSON *vram_json_timeline_write(const vram_timeline *timeline);
cJSON *vram_json_solution_write(int n, const vram_json_answer rows[]);
cJSON *vram_json_error_write(const vram_error *error); /* {"error": {..}} */
cJSON *vram_json_whole(double value);                  /* a number with all its digits; null when not finite */
cJSON *vram_json_lists(void);                          /* the lists of ids, for vram_json_tables() */

#endif
