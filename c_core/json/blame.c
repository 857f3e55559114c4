/* blame.c -- which field made a number too large, and up to what it may go.
 *
 * A product is too large as a whole: no part of the sum knows why. Of the whole numbers that were said it is the one that is furthest above its
 * least, among those with which alone put back to their defaults the others can be computed; its largest value that can is found by halving. When
 * several are too much each on its own, the furthest is named, without a range. */
#include "json.h"

#include <math.h>
#include <stdio.h>

typedef struct { char path[64]; double value, least, usual; } suspect;

static bool computes(vram_json *json, cJSON *tree, const char *path, double value)
{
    vram_error ignored;
    vram_json_swap swap = vram_json_put(tree, path, cJSON_CreateNumber(value));
    bool done = vram_json_run(json, tree, false, &ignored) != NULL;
    vram_json_put_back(json, &swap);
    return done;
}

static double largest(vram_json *json, cJSON *tree, const suspect *s)
{
    double low = s->usual, high = s->value;
    while (high - low > 1) {
        double middle = floor((low + high) / 2);
        if (computes(json, tree, s->path, middle)) low = middle;
        else high = middle;
    }
    return low;
}

/* Is `a` further above its least than `b`? */
static bool further(const suspect *a, const suspect *b) { return a->value / vram_max(a->least, 1) > b->value / vram_max(b->least, 1); }

bool vram_json_blame(vram_json *json, cJSON *tree, vram_error *error)
{
    suspect worst = {.value = 0, .least = 1}, furthest = worst, one;
    bool sum = error->code == VRAM_ERROR_TOO_LARGE && error->text[0] == '\0' && error->max > VRAM_LARGEST / 2, product = error->code == VRAM_ERROR_RANGE && vram_json_product(tree, error->path);
    if (!sum && !product) return false;
    for (int i = 0; vram_json_field(i) != NULL; i++) {
        if (!vram_json_counted(tree, i, &one.value, &one.least, &one.usual) || one.value <= one.usual) continue;
        snprintf(one.path, sizeof one.path, "%s", vram_json_field(i));
        if (further(&one, &furthest)) furthest = one;
        if (further(&one, &worst) && computes(json, tree, one.path, one.usual)) worst = one;
    }
    if (worst.value > 0) vram_fail(error, VRAM_ERROR_TOO_LARGE, worst.path, worst.value, worst.least, largest(json, tree, &worst));
    else if (furthest.value > 0) vram_fail(error, VRAM_ERROR_TOO_LARGE, furthest.path, furthest.value, 1, 0);
    return furthest.value > 0;
}
