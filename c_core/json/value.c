/* value.c -- reading JSON without trusting it. */
#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at p (at most `left` bytes); 0: not UTF-8. Overlong forms and surrogates are refused (RFC 3629). */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : (p[0] & 0xF0) == 0xE0 ? 3 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
    return n;
}

/* UTF-8 without a zero byte, plain or escaped: C would end a name there and take it for another. */
static bool is_text(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t n = utf8_length((const unsigned char *)text + i, bytes - i);
        if (n == 0 || text[i] == '\0') return false;
        if (text[i] == '\\' && bytes - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) return false;
        i += text[i] == '\\' && i + 1 < bytes && text[i + 1] == '\\' ? 2 : n;
    }
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* "training" and "micro_batch" -> "training.micro_batch", printable whatever came in */
static void path_join(const char *above, const char *key, char path[96])
{
    size_t n = 0;
    for (; above[n] && n < 64; n++) path[n] = above[n];
    if (n) path[n++] = '.';
    for (size_t i = 0; key[i] && n < 95; i++) path[n++] = (char)(key[i] >= 0x20 && key[i] < 0x7F ? key[i] : '?');
    path[n] = '\0';
}

static bool key_error(const char *above, const char *key, vram_error_code code, vram_error *error)
{
    char path[96];
    path_join(above, key, path);
    return vram_fail(error, code, path, VRAM_NO_NUMBER, 1, 0);
}

/* Two equal keys in one object: which would count? Neither. */
static bool keys_once(const cJSON *object, const char *path, vram_error *error)
{
    const char *keys[VRAM_JSON_KEYS];
    size_t n = 0;
    for (const cJSON *c = object->child; c; c = c->next) {
        if (n == VRAM_JSON_KEYS) return vram_fail(error, VRAM_ERROR_TOO_LARGE, path, (double)n + 1, 0, VRAM_JSON_KEYS);
        keys[n++] = c->string;
    }
    if (n > 1) qsort(keys, n, sizeof keys[0], by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0) return key_error(path, keys[i], VRAM_ERROR_DUPLICATE_KEY, error);
    return true;
}

/* depth is bounded by cJSON's nesting limit */
static bool all_keys_once(const cJSON *tree, const char *path, vram_error *error)
{
    char below[96];
    if (cJSON_IsObject(tree) && !keys_once(tree, path, error)) return false;
    for (const cJSON *c = tree->child; c; c = c->next) {
        if (!c->child) continue;
        path_join(path, c->string ? c->string : "", below);
        if (!all_keys_once(c, c->string ? below : path, error)) return false;
    }
    return true;
}

/* Python writes a limit that is none as Infinity, which JSON does not have: Mamba 2's "time_step_limit": [0.0, Infinity]. As an element of a list
 * it is read as a number too large for anything. Changes nothing in length. */
static void read_infinities(char *text, size_t bytes)
{
    static const char said[] = "Infinity", meant[] = "1e999   ";
    bool quoted = false;
    char before = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            else if (c == '"') quoted = false;
            continue;
        }
        if (c == '"') quoted = true;
        bool element = before == '[' || before == ',';
        if (c == 'I' && element && bytes - i >= sizeof said - 1 && memcmp(text + i, said, sizeof said - 1) == 0) memcpy(text + i, meant, sizeof said - 1);
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t' && !(c == '-' && element)) before = c;
    }
}

/* cJSON's tree, and how many bytes were read for it */
static cJSON *tree_of(const char *text, size_t bytes, size_t *read)
{
    const char *end = text;
    char *copy = malloc(bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    read_infinities(copy, bytes);
    cJSON *tree = cJSON_ParseWithLengthOpts(copy, bytes, &end, 0);
    *read = tree ? (size_t)(end - copy) : 0;
    free(copy);
    return tree;
}

cJSON *vram_json_parse(const char *text, size_t bytes, vram_error *error)
{
    size_t end = 0;
    if (bytes > VRAM_JSON_LONGEST) {
        vram_fail(error, VRAM_ERROR_TOO_LARGE, "", (double)bytes, 0, VRAM_JSON_LONGEST);
        return NULL;
    }
    vram_fail(error, VRAM_ERROR_SYNTAX, "", VRAM_NO_NUMBER, 1, 0);
    if (!is_text(text, bytes)) return NULL;
    cJSON *tree = tree_of(text, bytes, &end);
    if (!tree) return NULL;
    for (const char *p = text + end; p < text + bytes; p++)
        if (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t') {
            cJSON_Delete(tree);
            return NULL;
        }
    if (!all_keys_once(tree, "", error)) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

bool vram_json_refuse(const cJSON *item, vram_error_code code, const char *path, vram_error *error)
{
    vram_fail(error, code, path, cJSON_IsNumber(item) ? item->valuedouble : VRAM_NO_NUMBER, 1, 0);
    const char *text = cJSON_IsString(item) ? item->valuestring : cJSON_IsObject(item) ? "{}" : cJSON_IsArray(item) ? "[]" : cJSON_IsNull(item) ? "null"
                     : cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false" : "";
    for (size_t i = 0; text[i] && i + 1 < sizeof error->text; i++) error->text[i] = (char)(text[i] >= 0x20 && text[i] < 0x7F ? text[i] : '?');
    return false;
}

bool vram_json_number(const cJSON *item, const char *path, double min, double max, double *out, vram_error *error)
{
    if (!cJSON_IsNumber(item)) {
        vram_json_refuse(item, VRAM_ERROR_TYPE, path, error);
        error->min = min;
        error->max = max;
        return false;
    }
    if (!(item->valuedouble >= min && item->valuedouble <= max)) return vram_fail(error, VRAM_ERROR_RANGE, path, item->valuedouble, min, max);
    *out = item->valuedouble;
    return true;
}

bool vram_json_integer(const cJSON *item, const char *path, double min, double max, int64_t *out, vram_error *error)
{
    double value = 0; /* gcc cannot see that a refusal leaves it unread */
    if (!vram_json_number(item, path, min, max, &value, error)) return false;
    if (value != floor(value)) return vram_fail(error, VRAM_ERROR_TYPE, path, value, min, max);
    *out = (int64_t)value;
    return true;
}

bool vram_json_boolean(const cJSON *item, const char *path, int *out, vram_error *error)
{
    if (!cJSON_IsBool(item)) return vram_json_refuse(item, VRAM_ERROR_TYPE, path, error);
    *out = cJSON_IsTrue(item);
    return true;
}
