/* cli.c -- the program `vram`: scenarios from files or standard input, reports to the terminal or as JSON. */
#define _POSIX_C_SOURCE 200809L
#include "core.h"
#include "json/api.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char vram_presets[]; /* presets.json, embedded by the build */
extern const size_t vram_presets_bytes;

enum { DONE = 0, BUG = 1, REFUSED = 2 };

static const char *const usage =
    "vram: how much GPU memory a large language model needs, and why\n"
    "\n"
    "  vram estimate [FILE|-|PRESET] [--json] [--only PART] one scenario: a table, the report, or a part of it\n"
    "  vram solve [FILE|-|PRESET] [--json] [--for FIELD,..] longest context, most sequences, heaviest weights that fit;\n"
    "                                                       --for gpus: how many GPUs it takes, and divided how\n"
    "  vram timeline [FILE|-|PRESET]                        a training step, instant by instant, as JSON\n"
    "  vram claim [FILE|-|PRESET] [--json]                  possible, only if (the cheapest changes that make it fit), or no\n"
    "  vram batch                                           one scenario a line in, one report a line out\n"
    "  vram presets [models|gpus|scenarios]                 ids to use in a scenario\n"
    "  vram presets ID                                      a scenario preset's text, to start from\n"
    "  vram tables                                          fields with their ranges and defaults, and the lists of ids\n"
    "\n"
    "A scenario is JSON: {\"task\": \"training\", \"model\": {\"params\": 7e9, \"num_hidden_layers\": 32, \"hidden_size\": 4096}}.\n"
    "Exit status: 0 done, 2 refused input, 1 a bug.\n";

/* Refusals of all kinds are one kind of text: on standard error, with --json on standard output. */
static int print_refusal(const char *text, bool as_json)
{
    fprintf(as_json ? stdout : stderr, "%s\n", text);
    return REFUSED;
}

/* `which` word of the command line was not understood, as what */
static int complain(vram_error_code code, const char *what, const char *which, bool as_json)
{
    char *text = vram_json_refusal((int)code, what, which);
    int status = text ? print_refusal(text, as_json) : BUG;
    vram_json_free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ input -- */

static char *read_stream(FILE *in, size_t *bytes)
{
    size_t room = 65536, n = 0;
    char *text = malloc(room);
    while (text && (n += fread(text + n, 1, room - n, in)) == room && room <= VRAM_JSON_LONGEST) {
        char *larger = realloc(text, room *= 2);
        if (!larger) free(text);
        text = larger;
    }
    *bytes = n;
    if (!ferror(in)) return text;
    free(text); /* a directory opens as well as a file does */
    return NULL;
}

/* A file's text, standard input's ("-"), or a scenario preset's. */
static char *read_input(const vram_json *json, const char *name, size_t *bytes)
{
    FILE *in = strcmp(name, "-") == 0 ? stdin : fopen(name, "rb");
    char *text = in ? read_stream(in, bytes) : vram_json_preset(json, name);
    if (!in && text) *bytes = strlen(text);
    if (in && in != stdin) fclose(in);
    return text;
}

/* ------------------------------------------------------------------------------------------------------------ table -- */

static void print_id(const char *id, int width)
{
    int n = 0;
    for (; id[n]; n++) putchar(id[n] == '_' ? ' ' : id[n]);
    if (width > 0 && n >= width) putchar(' ');
    for (; n < width; n++) putchar(' ');
}

/* 7000000000 -> 7 000 000 000; a fraction keeps its digits */
static void print_value(double value)
{
    char digits[40];
    int n = snprintf(digits, sizeof digits, "%.0f", value);
    if (value != (double)(int64_t)value) {
        printf("%.10g", value);
        return;
    }
    for (int i = 0; i < n; i++) {
        putchar(digits[i]);
        if (i + 1 < n && (n - i - 1) % 3 == 0 && digits[i] != '-') putchar(' ');
    }
}

static void print_entry(const vram_entry *e)
{
    const char *mark = e->kind == VRAM_EXACT ? " " : e->kind == VRAM_MODELLED ? "~" : "?";
    printf("%s %10.3f GB  ", mark, e->bytes / 1e9);
    print_id(vram_name(VRAM_LIST_ROLE, (int)e->role), 10);
    print_id(vram_name(VRAM_LIST_COMPONENT, (int)e->component), 16);
    print_id(vram_name(VRAM_LIST_WHAT, (int)e->what), 20);
    for (int i = 0; i < e->factors; i++) {
        if (i) printf(" x ");
        print_value(e->factor[i].value);
        putchar(' ');
        print_id(vram_name(VRAM_LIST_SYMBOL_ID, (int)e->factor[i].symbol), 0);
    }
    putchar('\n');
}

static void print_phases(const vram_report *r)
{
    printf("\nphases:");
    for (int p = 0; p < VRAM_PHASE_COUNT; p++)
        if (r->phases & VRAM_BIT(p)) printf("  %s %.3f GB", vram_name(VRAM_LIST_PHASE, p), r->phase_bytes[p] / 1e9);
    putchar('\n');
}

static void print_fits(const vram_report *r)
{
    printf("\n%-24s %12s %12s  verdict  GPUs needed\n", "GPU", "needs", "of");
    for (int i = 0; i < r->fits; i++) {
        const vram_fit *f = &r->fit[i];
        printf("%-24s %9.2f GB %9.2f GB  %-7s  ", f->gpu, f->needed_bytes / 1e9, (f->needed_bytes + f->headroom_bytes) / 1e9, vram_name(VRAM_LIST_VERDICT, (int)f->verdict));
        if (f->gpus_needed > 0) printf(f->verdict == VRAM_VERDICT_NO ? "at least %lld\n" : "%lld\n", (long long)f->gpus_needed);
        else puts("no number");
    }
}

static void print_notes(const vram_report *r)
{
    for (int i = 0; i < r->notes; i++) {
        printf(i ? "      " : "\nnote: ");
        print_id(vram_name(VRAM_LIST_NOTE, (int)r->note[i].id), 0);
        if (r->note[i].id == VRAM_NOTE_ENGINE_VERSION) {
            printf(" %.0f.%.0f\n", r->note[i].value[0], r->note[i].value[1]);
            continue;
        }
        if (r->note[i].id == VRAM_NOTE_LIBRARY_VERSIONS) {
            printf(": PyTorch %.0f.%.0f, transformers %.0f.%.0f\n", r->note[i].value[0], r->note[i].value[1], r->note[i].value[2], r->note[i].value[3]);
            continue;
        }
        printf(r->note[i].values > 0 ? " (%s:" : " (%s", r->note[i].path);
        for (int k = 0; k < r->note[i].values; k++) {
            putchar(' ');
            print_value(r->note[i].value[k]);
        }
        printf(")\n");
    }
}

static void print_log(const vram_report *r)
{
    char text[VRAM_JSON_LOG_ROOM];
    if (r->logs) printf("\nto check by, in its own words:\n");
    for (int i = 0; i < r->logs; i++) {
        vram_json_log_text(&r->log[i], text, sizeof text);
        printf("  %s\n", text);
    }
}

static void print_table(const vram_report *r)
{
    printf("peak %.3f GB = %.3f GiB a GPU, in phase %s\n", r->peak_bytes / 1e9, r->peak_bytes / 1073741824, vram_name(VRAM_LIST_PHASE, (int)r->peak));
    printf("parameters: ");
    print_value(r->params_total);
    printf(", active ");
    print_value(r->params_active);
    printf(", trained ");
    print_value(r->params_trainable);
    printf("\n\nalive at the peak (~ modelled, ? allowance, others exact):\n");
    for (int c = 0; c < VRAM_COMPONENT_COUNT; c++)
        for (int i = 0; i < r->entries; i++)
            if ((int)r->entry[i].component == c && (r->entry[i].phases & VRAM_BIT(r->peak))) print_entry(&r->entry[i]);
    print_phases(r);
    if (r->kv_tokens_capacity >= 0) printf("pool: %.0f tokens, longest context %.0f\n", r->kv_tokens_capacity, r->max_context);
    print_fits(r);
    print_log(r);
    print_notes(r);
}

/* --------------------------------------------------------------------------------------------------------- commands -- */

typedef struct { const char *name, *only; bool as_json; } command_line;

/* "--json" may stand anywhere. Takes it out of the words; their number without it */
static int without_json(int n, char **words)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], "--json") != 0) words[kept++] = words[i];
    return kept;
}

/* [NAME] [OPTION WORD] in any order; complains otherwise. */
static bool read_words(int n, char **words, const char *option, command_line *line)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], option) == 0 && i + 1 == n) return complain(VRAM_ERROR_MISSING, option + 2, "", line->as_json), false;
        if (strcmp(words[i], option) == 0) line->only = words[++i];
        else if (!line->name && (words[i][0] != '-' || !words[i][1])) line->name = words[i];
        else return complain(VRAM_ERROR_UNKNOWN_KEY, "argument", words[i], line->as_json), false;
    }
    return true;
}

/* Of the file or preset that was named; without one the scenario of all defaults. To free; complains and returns NULL when it cannot be read. */
static char *scenario_text(const vram_json *json, const command_line *line, size_t *bytes)
{
    static const char nothing[] = "{}";
    char *text = line->name ? read_input(json, line->name, bytes) : malloc(sizeof nothing);
    if (!line->name && text) memcpy(text, nothing, *bytes = sizeof nothing - 1);
    if (!text) complain(VRAM_ERROR_UNKNOWN_VALUE, "scenario", line->name ? line->name : "", line->as_json);
    return text;
}

static void print_division(const vram_json_answer *a, const vram_json_division *d)
{
    printf("data %.0f, tensor %.0f, pipeline %.0f", d->data, d->tensor, d->pipeline);
    if (a->trains) printf(", zero %d, %s", d->zero, vram_name(VRAM_LIST_PARALLEL_ENGINE, d->engine));
    printf(": ");
}

static void print_other(const vram_json_answer *a, const char *before, const vram_json_division *d)
{
    if (d->gpus <= 0) return;
    printf("%-28s %-16.0f", before, d->gpus);
    print_division(a, d);
    printf("needs %.2f GB each, %s\n", d->needed_bytes / 1e9, d->verdict == VRAM_VERDICT_NO ? "does not fit" : "fits");
}

static void print_answer(const vram_json_answer *a)
{
    printf("%-28s ", a->path);
    if (!a->found) printf("nothing fits\n");
    if (a->divides && !a->found) print_other(a, "  nearest", &a->nearest);
    if (!a->found) return;
    if (a->word) printf("%-16s", a->word);
    else printf("%-16.0f", a->value);
    if (a->divides) print_division(a, &a->division);
    printf("needs %.2f GB, %.2f GB left", a->needed_bytes / 1e9, a->headroom_bytes / 1e9);
    if (a->limit > 0 && a->value > a->limit) printf("; the model was trained for %.0f", a->limit);
    putchar('\n');
    if (a->divides) print_other(a, "  over those that are there", &a->over);
}

static void print_set(const vram_json_change_set *set, const char *before)
{
    printf("%s", before);
    for (int i = 0; i < set->changes; i++) {
        const vram_json_change *c = &set->change[i];
        printf("  %-28s %s -> %s", c->path, c->from, c->value);
        if (c->saves_bytes != 0) printf("   saves %.2f GB", c->saves_bytes / 1e9);
        putchar('\n');
    }
    printf("  needs %.2f GB then\n", set->needed_bytes / 1e9);
}

static void print_claim(const vram_json_claim_answer *a)
{
    static const char *const verdicts[] = {"possible", "only if", "no"};
    printf("%s: needs %.2f GB in phase %s; %.0f GPU%s with %.2f GB to use\n", verdicts[a->verdict], a->needed_bytes / 1e9, vram_name(VRAM_LIST_PHASE, a->phase), a->gpus,
           a->gpus > 1 ? "s" : "", a->usable_bytes / 1e9);
    for (int i = 0; i < a->sets; i++) print_set(&a->set[i], i ? "or\n" : "");
    if (a->verdict == VRAM_JSON_NO) printf("  with every change it knows at once it still needs %.2f GB\n", a->least_needed_bytes / 1e9);
}

/* A command about one scenario asks the core for a text, which --json prints as it is; for people `show` prints what json holds of the answer. */
typedef struct {
    const char *name, *option;
    char *(*ask)(vram_json *json, const char *scenario, size_t bytes, const char *word);
    void (*show)(const vram_json *json);
} scenario_command;

static char *ask_estimate(vram_json *json, const char *text, size_t n, const char *word) { (void)word; return vram_json_estimate(json, text, n); }
static char *ask_solve(vram_json *json, const char *text, size_t n, const char *word) { return vram_json_solve_for(json, text, n, word); }
static char *ask_claim(vram_json *json, const char *text, size_t n, const char *word) { (void)word; return vram_json_claim_of(json, text, n); }
static char *ask_timeline(vram_json *json, const char *text, size_t n, const char *word) { (void)word; return vram_json_timeline(json, text, n); }

static void show_estimate(const vram_json *json) { print_table(vram_json_last(json)); }
static void show_claim(const vram_json *json) { print_claim(vram_json_claimed(json)); }

static void show_solve(const vram_json *json)
{
    const vram_json_answer *rows;
    int found = vram_json_answers(json, &rows);
    for (int i = 0; i < found; i++) print_answer(&rows[i]);
}

static const scenario_command scenario_commands[] = {
    {"estimate", "--only", ask_estimate, show_estimate}, {"solve", "--for", ask_solve, show_solve},
    {"claim", "", ask_claim, show_claim}, {"timeline", "", ask_timeline, NULL},
};

static bool is_refusal(const char *text) { return strncmp(text, "{\"error\"", 8) == 0; }

static int print_part(const char *text, const command_line *line)
{
    char *part = vram_json_part(text, line->only);
    int status = part ? DONE : BUG;
    if (part && is_refusal(part)) status = print_refusal(part, line->as_json);
    else if (part) puts(part);
    vram_json_free(part);
    return status;
}

static int print_text(const vram_json *json, const scenario_command *c, const command_line *line, const char *text)
{
    if (is_refusal(text)) return print_refusal(text, line->as_json);
    if (c->ask == ask_estimate && line->only) return print_part(text, line);
    if (line->as_json || !c->show) puts(text);
    else c->show(json);
    return DONE;
}

static int about_scenario(vram_json *json, const scenario_command *c, int n, char **words, bool as_json)
{
    command_line line = {.as_json = as_json};
    size_t bytes = 0;
    if (!read_words(n, words, c->option, &line)) return REFUSED;
    char *scenario = scenario_text(json, &line, &bytes), *text = scenario ? c->ask(json, scenario, bytes, line.only) : NULL;
    free(scenario);
    if (!scenario) return REFUSED;
    if (!text) return BUG;
    int status = print_text(json, c, &line, text);
    vram_json_free(text);
    return status;
}

static int batch(vram_json *json)
{
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) >= 0;) {
        char *report = vram_json_estimate(json, line, (size_t)n);
        if (!report) return BUG;
        bool sent = puts(report) >= 0 && fflush(stdout) == 0; /* whoever asks line by line waits for this one */
        vram_json_free(report);
        if (!sent) return BUG;
    }
    free(line);
    return ferror(stdin) ? BUG : DONE;
}

static int print_list(const vram_json *json, const char *list)
{
    const char *id, *name;
    for (int i = 0; vram_json_listed(json, list, i, &id, &name); i++) printf("%-40s %s\n", id, name);
    return DONE;
}

static int presets(const vram_json *json, const char *which, bool as_json)
{
    static const char *const lists[] = {"scenarios", "models", "gpus"};
    for (size_t i = 0; i < 3; i++)
        if (which && strcmp(which, lists[i]) == 0) return print_list(json, which);
    char *text = which ? vram_json_preset(json, which) : NULL;
    if (which && !text) return complain(VRAM_ERROR_UNKNOWN_VALUE, "presets", which, as_json);
    if (which) puts(text);
    vram_json_free(text);
    for (size_t i = 0; !which && i < 3; i++) {
        printf("%s%s\n", i ? "\n" : "", lists[i]);
        print_list(json, lists[i]);
    }
    return DONE;
}

static int tables(vram_json *json)
{
    char *text = vram_json_tables(json);
    if (!text) return BUG;
    puts(text);
    vram_json_free(text);
    return DONE;
}

static int command(vram_json *json, int n, char **words, bool as_json)
{
    for (size_t i = 0; i < sizeof scenario_commands / sizeof scenario_commands[0]; i++)
        if (strcmp(words[0], scenario_commands[i].name) == 0) return about_scenario(json, &scenario_commands[i], n - 1, words + 1, as_json);
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "help") == 0) return fputs(usage, stdout) < 0 ? BUG : DONE;
    bool lists = strcmp(words[0], "presets") == 0, batches = strcmp(words[0], "batch") == 0, known = lists || batches || strcmp(words[0], "tables") == 0;
    if (!known && !as_json) fputs(usage, stderr);
    if (!known) return complain(VRAM_ERROR_UNKNOWN_VALUE, "command", words[0], as_json);
    if (n > 1 + lists) return complain(VRAM_ERROR_UNKNOWN_KEY, "argument", words[1 + lists], as_json);
    return lists ? presets(json, n == 2 ? words[1] : NULL, as_json) : batches ? batch(json) : tables(json);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? without_json(argc - 1, argv + 1) : 0;
    if (n == 0) {
        fputs(usage, stderr);
        return REFUSED;
    }
    vram_json *json = vram_json_open(vram_presets, vram_presets_bytes);
    if (!json) return BUG;
    int status = command(json, n, argv + 1, n < argc - 1);
    vram_json_close(json);
    return status;
}
