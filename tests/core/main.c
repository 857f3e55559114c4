#include "test.h"

#include <stdarg.h>
#include <string.h>

static test *tests, *current;
static int failures;

void test_register(test *one)
{
    test **end = &tests;
    while (*end && strcmp((*end)->name, one->name) < 0) end = &(*end)->next;
    one->next = *end;
    *end = one;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    if (!failures++) printf("not ok - %s\n", current->name);
    va_list arguments;
    va_start(arguments, format);
    printf("#   %s:%d: ", file, line);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

int main(void)
{
    int bad = 0;
    for (current = tests; current; current = current->next) {
        failures = 0;
        current->body();
        if (failures) bad++;
        else printf("ok - %s\n", current->name);
        fflush(stdout);
    }
    return bad > 0;
}
