/* text.c -- JSON written straight into a text that grows: no tree between an answer and its text. */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where so many characters more may be written; NULL: memory is out, and the text with it */
static char *room_for(vram_text *t, size_t more)
{
    if (t->lost) return NULL;
    if (t->room - t->length >= more) return t->at + t->length;
    size_t room = 2 * t->room + more + 4096;
    char *larger = realloc(t->at, room);
    t->lost = !larger;
    if (t->lost) free(t->at);
    t->at = larger;
    t->room = room;
    return t->lost ? NULL : t->at + t->length;
}

/* A character as it stands in a JSON string; its length there */
static size_t escape(char c, char to[6])
{
    static const char plain[] = "\"\\\b\f\n\r\t", named[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    const char *special = c ? strchr(plain, c) : NULL;
    to[0] = c;
    if (!special && (unsigned char)c >= 0x20) return 1;
    to[0] = '\\';
    if (special) {
        to[1] = named[special - plain];
        return 2;
    }
    to[1] = 'u', to[2] = to[3] = '0', to[4] = hex[c >> 4], to[5] = hex[c & 15];
    return 6;
}

static char *put_string(char *to, const char *value)
{
    *to++ = '"';
    for (const char *c = value; *c; c++) {
        if (*c >= 0x20 && *c != '"' && *c != '\\') *to++ = *c;
        else to += escape(*c, to);
    }
    *to++ = '"';
    return to;
}

/* A comma unless a value is the first, and its key in an object; then room for `more` characters. NULL: as above */
static char *begin(vram_text *t, const char *key, size_t more)
{
    char *to = room_for(t, (key ? 6 * strlen(key) : 0) + 4 + more);
    if (!to) return NULL;
    if (t->length > 0 && to[-1] != '[' && to[-1] != '{') *to++ = ',';
    if (!key) return to;
    to = put_string(to, key);
    *to++ = ':';
    return to;
}

static void end(vram_text *t, const char *to) { t->length = (size_t)(to - t->at); }

void vram_text_open(vram_text *t, const char *key, char bracket)
{
    char *to = begin(t, key, 1);
    if (!to) return;
    *to++ = bracket;
    end(t, to);
}

void vram_text_close(vram_text *t, char bracket)
{
    char *to = room_for(t, 1);
    if (!to) return;
    *to++ = bracket;
    end(t, to);
}

void vram_text_string(vram_text *t, const char *key, const char *value)
{
    char *to = begin(t, key, 6 * strlen(value) + 2);
    if (to) end(t, put_string(to, value));
}

void vram_text_word(vram_text *t, const char *key, const char *word)
{
    size_t n = strlen(word);
    char *to = begin(t, key, n);
    if (!to) return;
    memcpy(to, word, n);
    end(t, to + n);
}

/* A number read back must be the same to the last bit. */
void vram_text_number(vram_text *t, const char *key, double value)
{
    char text[40];
    int at = (int)sizeof text - 1;
    text[at] = '\0';
    if (!isfinite(value)) {
        vram_text_word(t, key, "null");
        return;
    }
    if (value == floor(value) && fabs(value) < VRAM_LARGEST) {
        uint64_t rest = (uint64_t)fabs(value);
        do text[--at] = (char)('0' + rest % 10);
        while (rest /= 10);
        if (value < 0) text[--at] = '-';
    } else {
        at = 0;
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) break;
        }
    }
    vram_text_word(t, key, text + at);
}

void vram_text_tree(vram_text *t, const char *key, const cJSON *tree)
{
    bool object = cJSON_IsObject(tree);
    if (cJSON_IsString(tree)) vram_text_string(t, key, tree->valuestring);
    else if (cJSON_IsNumber(tree)) vram_text_number(t, key, tree->valuedouble);
    else if (!object && !cJSON_IsArray(tree)) vram_text_word(t, key, cJSON_IsTrue(tree) ? "true" : cJSON_IsFalse(tree) ? "false" : "null");
    else {
        vram_text_open(t, key, object ? '{' : '[');
        for (const cJSON *c = tree->child; c; c = c->next) vram_text_tree(t, object ? c->string : NULL, c);
        vram_text_close(t, object ? '}' : ']');
    }
}

char *vram_text_end(vram_text *t)
{
    vram_text_close(t, '\0');
    return t->at;
}
