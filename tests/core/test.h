/* test.h -- a runner of few lines. A TEST registers itself; CHECK says what was not so and goes on. */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stdio.h>

#include "vram.h"

typedef struct test { const char *name; void (*body)(void); struct test *next; } test;
void test_register(test *one);
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define TEST(id, title)                                                                  \
    static void id(void);                                                                \
    static test id##_test = {title, id, NULL};                                           \
    __attribute__((constructor)) static void id##_register(void) { test_register(&id##_test); } \
    static void id(void)

#define CHECK(condition, ...)                                             \
    do {                                                                  \
        if (!(condition)) test_fail(__FILE__, __LINE__, #condition " -- " __VA_ARGS__); \
    } while (0)

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* report.c. Of a scenario in the embedded presets' world: its report (NULL: refused), what is alive of some components in a phase, and in the fullest
 * (0: refused). A report is good until the next of these calls. */
const vram_report *test_report(const char *scenario);
double test_alive(const char *scenario, vram_phase phase, unsigned components);
double test_peak(const char *scenario);
/* The scenario itself, read (NULL: refused), and the report of one stage of its pipeline; both good until the next call */
vram_scenario *test_scenario(const char *scenario);
const vram_report *test_stage(const char *scenario, int stage);

static inline bool same(double a, double b) { return a >= b && a <= b; } /* equal, and both numbers */

#endif
