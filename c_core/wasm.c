/* wasm.c -- the WebAssembly front door: no imports, text in one buffer, text out of another.
 *
 * JavaScript asks for room, writes UTF-8 there, calls, reads the answer before the next call. */
#include "json/api.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name))) extern

enum { OP_ESTIMATE, OP_OPTIONS, OP_TABLES, OP_PRESETS, OP_SOLVE, OP_TIMELINE, OP_CLAIM };

static struct { vram_json *json; char *input, *output; int32_t room; } door; /* one page, one door */

EXPORT(vram_abi) int32_t vram_abi(void);
EXPORT(vram_input) char *vram_input(int32_t bytes);
EXPORT(vram_call) int32_t vram_call(int32_t op, int32_t bytes);
EXPORT(vram_output) const char *vram_output(void);

int32_t vram_abi(void) { return VRAM_ABI; }

/* Room for `bytes` bytes of input; 0 when that is too much. */
char *vram_input(int32_t bytes)
{
    free(door.input);
    door.input = bytes >= 0 && bytes <= VRAM_JSON_LONGEST ? malloc((size_t)bytes + 1) : NULL;
    door.room = bytes;
    return door.input;
}

static char *copy(const char *text)
{
    char *out = malloc(strlen(text) + 1);
    return out ? strcpy(out, text) : NULL;
}

static char *open_presets(size_t bytes)
{
    vram_json *json = vram_json_open(door.input, bytes);
    if (!json) return copy("{\"error\":{\"code\":\"type\",\"path\":\"presets\"}}");
    vram_json_close(door.json);
    door.json = json;
    return copy("{}");
}

static char *answer(int32_t op, size_t bytes)
{
    if (op == OP_PRESETS) return open_presets(bytes);
    if (!door.json) return NULL;
    if (op == OP_ESTIMATE) return vram_json_estimate(door.json, door.input, bytes);
    if (op == OP_OPTIONS) return vram_json_options(door.json, door.input, bytes);
    if (op == OP_SOLVE) return vram_json_solve(door.json, door.input, bytes);
    if (op == OP_TIMELINE) return vram_json_timeline(door.json, door.input, bytes);
    if (op == OP_CLAIM) return vram_json_claim(door.json, door.input, bytes);
    return op == OP_TABLES ? vram_json_tables(door.json) : NULL;
}

/* Length of the answer, which vram_output() points to; negative when there is none. Presets (op 3) come first. */
int32_t vram_call(int32_t op, int32_t bytes)
{
    if (!door.input || bytes < 0 || bytes > door.room) return -1;
    vram_json_free(door.output);
    door.output = answer(op, (size_t)bytes);
    return door.output ? (int32_t)strlen(door.output) : -1;
}

const char *vram_output(void) { return door.output; }
