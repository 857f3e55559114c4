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

/* scenario.c: text's tree to struct, and the normalised scenario back. `source` gives model and gpu as they were said. */
bool vram_json_scenario_read(const vram_json *json, const cJSON *tree, vram_scenario *scenario, vram_error *error);
cJSON *vram_json_scenario_write(const vram_scenario *scenario, const cJSON *source);
cJSON *vram_json_fields(void); /* the table of fields, for vram_json_tables() */

/* report.c */
cJSON *vram_json_report_write(const vram_scenario *scenario, const cJSON *source, const vram_report *report);
cJSON *vram_json_error_write(const vram_error *error); /* {"error": {..}} */
cJSON *vram_json_whole(double value);                  /* a number with all its digits; null when not finite */
cJSON *vram_json_lists(void);                          /* the lists of ids, for vram_json_tables() */

#endif
