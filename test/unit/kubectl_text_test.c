/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubectl/bar.h"
#include "kubectl/command.h"
#include "kubectl/completion.h"
#include "kubectl/failure.h"
#include "kubectl/safe_text.h"
#include "kubectl/screen.h"
#include "kubectl/status_card.h"
#include "kubectl/word_list.h"

#define CAP 4096

static const struct screen plain = {.columns = 80};

static void expect_safe(const char *text, const char *shown)
{
    auto_free char *got = safe_text(text);
    cr_expect_str_eq(got, shown, "got \"%s\"", got);
}

#define X "\xEF\xBF\xBD"

Test(safe_text, what_a_terminal_obeys_never_reaches_it)
{
    expect_safe("ml/train-0", "ml/train-0");
    expect_safe("\x1b[2J\x1b]0;owned\x07name", X "[2J" X "]0;owned" X "name");
    expect_safe("a\nb\tc\rd", "a" X "b" X "c" X "d");
    expect_safe("\x7f\xC2\x9B"
                "31m",
                X X "31m");
    expect_safe("\xE2\x80\xAEgnirts\xE2\x81\xA6", X "gnirts" X);
    expect_safe("\xFF\xC3(", X X "(");
    expect_safe(NULL, "");
}

Test(safe_text, letters_of_all_scripts_stay)
{
    expect_safe("Gr\xC3\xB6\xC3\x9F"
                "e \xE4\xB8\xAD \xF0\x9F\x90\x9F",
                "Gr\xC3\xB6\xC3\x9F"
                "e \xE4\xB8\xAD \xF0\x9F\x90\x9F");
    cr_expect_eq(safe_text_columns("Gr\xC3\xB6\xC3\x9F"
                                   "e"),
                 5);
    cr_expect_eq(safe_text_cut("\xC3\xB6\xC3\x9Fx", 2), 4);
    cr_expect_eq(safe_text_cut("ab", 5), 2);
}

Test(status_card, a_vendor_is_named_as_he_names_himself_or_as_the_device_says)
{
    auto_free char *known = status_card_title("nvidia", 3);
    auto_free char *unknown = status_card_title("\x1b[2J", 0);
    auto_free char *none = status_card_title(NULL, 0);
    cr_expect_str_eq(known, "NVIDIA GPU 3");
    cr_expect_str_eq(unknown, X "[2J GPU 0");
    cr_expect_str_eq(none, "unknown GPU 0");
}

/* Others' text in a document is all there, and programs read it as it was. */
Test(safe_text, in_a_document_escapes_stand_for_what_a_terminal_obeys)
{
    static const char odd[] = "a\n\x1b[2J\x7f\xC2\x9B"
                              "31m \xE2\x80\xAE\xE2\x80\xA8 Gr\xC3\xB6\xC3\x9F"
                              "e \xF0\x9F\x90\x9F";
    auto_json json_t *document = json_pack("{s:s}", "x", odd);
    const struct command json = {.output = OUTPUT_JSON};
    const struct command yaml = {.output = OUTPUT_YAML};
    auto_free char *as_json = command_words(&json, document);
    auto_free char *as_yaml = command_words(&yaml, document);
    cr_expect_str_eq(as_json, "{\n    \"x\": \"a\\n\\u001B[2J\\u007F\\u009B31m \\u202E\\u2028 "
                              "Gr\xC3\xB6\xC3\x9F"
                              "e \xF0\x9F\x90\x9F\"\n}\n");
    auto_json json_t *from_json = json_loads(as_json, 0, NULL);
    auto_json json_t *from_yaml = NULL;
    cr_assert_eq(yaml_load(as_yaml, strlen(as_yaml), &from_yaml, NULL), 0);
    cr_expect(json_equal(from_json, document));
    cr_expect(json_equal(from_yaml, document));
    auto_free char *again = safe_text(as_yaml);
    cr_expect_null(strstr(as_yaml, "\xE2\x80\xAE"), "got %s", again);
}

static bool has_colours(bool is_terminal, const char *const env[])
{
    return screen_of(is_terminal, 100, 24, (char *const *)(uintptr_t)env).colours;
}
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(screen, colours_are_for_terminals_only_and_not_with_NO_COLOR)
{
    cr_expect(has_colours(true, ENV("TERM=xterm")));
    cr_expect(has_colours(true, ENV("TERM=xterm", "NO_COLOR=")));
    cr_expect_not(has_colours(true, ENV("TERM=xterm", "NO_COLOR=1")));
    cr_expect_not(has_colours(true, ENV("TERM=dumb")));
    cr_expect_not(has_colours(true, ENV("HOME=/")));
    cr_expect_not(has_colours(false, ENV("TERM=xterm")));
}

Test(screen, only_a_terminal_that_obeys_has_pictures_drawn_in_place)
{
    char *const xterm[] = {(char[]){"TERM=xterm"}, (char[]){"NO_COLOR=1"}, NULL};
    char *const dumb[] = {(char[]){"TERM=dumb"}, NULL};
    cr_expect(screen_of(true, 100, 24, xterm).in_place);
    cr_expect_not(screen_of(true, 100, 24, dumb).in_place);
    cr_expect_not(screen_of(false, 100, 24, xterm).in_place);
}

Test(screen, a_line_is_as_wide_as_the_terminal_within_bounds_and_80_elsewhere)
{
    char *const none[] = {NULL};
    cr_expect_eq(screen_of(true, 100, 24, none).columns, 100);
    cr_expect_eq(screen_of(true, 500, 24, none).columns, SCREEN_MAX_COLUMNS);
    cr_expect_eq(screen_of(true, 3, 24, none).columns, SCREEN_MIN_COLUMNS);
    cr_expect_eq(screen_of(true, 0, 0, none).columns, 80);
    cr_expect_eq(screen_of(false, 500, 24, none).columns, 80);
}

Test(screen, prose_is_broken_where_the_width_is_known_and_rows_are_a_terminals)
{
    char *const none[] = {NULL};
    cr_expect(screen_of(true, 100, 24, none).wraps);
    cr_expect_not(screen_of(true, 0, 0, none).wraps);
    cr_expect_not(screen_of(false, 100, 24, none).wraps);
    cr_expect_eq(screen_of(true, 100, 24, none).rows, 24);
    cr_expect_eq(screen_of(false, 100, 24, none).rows, 0);
}

static struct screen told(bool is_terminal, size_t columns, const char *variable)
{
    auto_free char *word = xstrdup(variable);
    char *const env[] = {word, NULL};
    return screen_of(is_terminal, columns, 24, env);
}

Test(screen, COLUMNS_counts_where_no_terminal_knows_its_width)
{
    cr_expect_eq(told(false, 0, "COLUMNS=60").columns, 60);
    cr_expect(told(false, 0, "COLUMNS=60").wraps);
    cr_expect_eq(told(true, 0, "COLUMNS=60").columns, 60);
    cr_expect_eq(told(true, 100, "COLUMNS=60").columns, 100);
    cr_expect_eq(told(false, 0, "COLUMNS=7").columns, SCREEN_MIN_COLUMNS);
    cr_expect_eq(told(false, 0, "COLUMNS=wide").columns, 80);
    cr_expect_eq(told(false, 0, "COLUMNS=0").columns, 80);
    cr_expect_not(told(false, 0, "COLUMNS=").wraps);
}

Test(screen, a_terminal_that_was_resized_has_its_new_size)
{
    const struct screen before = {.columns = 80, .rows = 24, .colours = true};
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    const struct winsize size = {.ws_row = 10, .ws_col = 60};
    cr_assert(fd >= 0 && ioctl(fd, TIOCSWINSZ, &size) == 0);
    struct screen now = screen_now(&before, fd);
    cr_expect(now.rows == 10 && now.columns == 60 && now.colours);
    (void)close(fd);
    now = screen_now(&before, -1);
    cr_expect(now.rows == 24 && now.columns == 80);
}

static void expect_fit(size_t rows, const char *text, const char *shown)
{
    const struct screen s = {.columns = 20, .rows = rows};
    auto_free char *got = screen_fit(&s, text);
    cr_expect_str_eq(got, shown, "%zu rows: got \"%s\"", rows, got);
}

/* The cursor needs a row, too: a text of three lines scrolls a screen of three. */
Test(screen, what_does_not_fit_is_counted_on_the_last_line)
{
    expect_fit(0, "a\nb\nc\n", "a\nb\nc\n");
    expect_fit(4, "a\nb\nc\n", "a\nb\nc\n");
    expect_fit(3, "a\nb\nc\n", "a\nand 2 more lines\n");
    expect_fit(2, "a\nb\nc\n", "and 3 more lines\n");
    expect_fit(1, "a\n", "and 1 more line\n");
    expect_fit(3, "a\nb\nc", "a\nand 2 more lines\n");
    expect_fit(1, "", "");
}

Test(screen, a_line_that_is_wider_than_the_screen_takes_several_rows)
{
    expect_fit(3, "12345678901234567890\nb\n", "12345678901234567890\nb\n");
    expect_fit(3, "123456789012345678901\nb\n", "and 2 more lines\n");
    expect_fit(4, "123456789012345678901\nb\n", "123456789012345678901\nb\n");
    expect_fit(3, "\033[32m1234567890123456789\xC3\xB6\033[0m\nb\n",
               "\033[32m1234567890123456789\xC3\xB6\033[0m\nb\n");
}

Test(screen, foreign_text_has_our_colour_and_none_of_its_own)
{
    auto_sb struct sb b = SB_INIT(CAP);
    const struct screen colours = {.columns = 80, .colours = true};
    screen_paint_foreign(&colours, &b, INK_BAD, "a\x1b[2J");
    screen_paint_foreign(&plain, &b, INK_BAD, "b\n");
    screen_paint_foreign(&plain, &b, INK_BAD, NULL);
    cr_expect_str_eq(sb_str(&b), "\033[31ma" X "[2J\033[0mb" X, "got \"%s\"", sb_str(&b));
}

static void expect_bar(const struct picture *p, size_t columns, const struct screen *s,
                       const char *bar)
{
    auto_sb struct sb got = SB_INIT(CAP);
    bar_add(p, columns, s, &got);
    cr_expect_str_eq(sb_str(&got), bar, "got \"%s\"", sb_str(&got));
}

static char two_g[] = "2g.20gb", one_g[] = "1g.10gb", no_name[] = "", red[] = "\x1b[31m";
#define PART(text, columns, is)                                                                    \
    {                                                                                              \
        .name = (text), .weight = (columns), .state = (is)                                         \
    }
static struct picture_part cut[] = {PART(two_g, 2, PART_USED), PART(one_g, 1, PART_FREE),
                                    PART(one_g, 1, PART_ILL), PART(no_name, 4, PART_UNCUT)};
static const struct picture card = {cut, 4, NULL};

Test(bar, parts_are_as_wide_as_they_weigh_and_fill_the_line)
{
    expect_bar(&card, 45, &plain, "[2g.20gb###|1g.10|1g.10|....................]");
}

Test(bar, a_narrow_line_cuts_names_and_at_last_parts)
{
    expect_bar(&card, 20, &plain, "[2g.|1g|1g|........]");
    expect_bar(&card, 9, &plain, "[2|1|1|.]");
    expect_bar(&card, 7, &plain, "[2|1|1>");
    expect_bar(&card, 2, &plain, "[>");
}

Test(bar, names_do_not_command_the_terminal)
{
    struct picture_part odd[] = {PART(red, 1, PART_FREE)};
    expect_bar(&(struct picture){odd, 1, NULL}, 10, &plain, "[" X "[31m---]");
}

Test(bar, colours_tell_free_from_used)
{
    struct picture_part two[] = {PART(one_g, 1, PART_FREE), PART(two_g, 1, PART_USED)};
    expect_bar(&(struct picture){two, 2, NULL}, 19,
               &(struct screen){.columns = 80, .colours = true},
               "[\033[32m1g.10gb-\033[0m|\033[33m2g.20gb#\033[0m]");
}

Test(word_list, lines_end_at_the_edge_and_go_on_below_the_first_word)
{
    auto_sb struct sb got = SB_INIT(CAP);
    const struct screen narrow = {.columns = 20};
    struct word_list l = {.out = &got, .screen = &narrow, .heading = "  goes  "};
    word_list_add(&l, "1g.10gb@0");
    word_list_add(&l, "1g.10gb@1");
    word_list_end(&l);
    cr_expect_str_eq(sb_str(&got), "  goes  1g.10gb@0,\n        1g.10gb@1\n");
}

Test(word_list, without_words_there_is_no_line)
{
    auto_sb struct sb got = SB_INIT(CAP);
    struct word_list l = {.out = &got, .screen = &plain, .heading = "  goes  "};
    word_list_end(&l);
    cr_expect_str_eq(sb_str(&got), "");
}

static void expect_failure(enum err_kind kind, int http_status, const char *msg, const char *words)
{
    auto_err struct err e = {0};
    (void)err_set(&e, kind, "%s", msg);
    e.http_status = http_status;
    auto_free char *got = failure_words(&e, "https://1.2.3.4:6443");
    cr_expect_str_eq(got, words, "got \"%s\"", got);
}

Test(failure, is_told_in_the_words_of_kubectl)
{
    expect_failure(ERR_FORBIDDEN, 403, "devices.gpu.cleave.dev is forbidden",
                   "Error from server (Forbidden): devices.gpu.cleave.dev is forbidden");
    expect_failure(ERR_FORBIDDEN, 403,
                   "devices.gpu.cleave.dev is forbidden: User \"eve\" cannot list resource "
                   "\"devices\" in API group \"gpu.cleave.dev\" at the cluster scope",
                   "Error from server (Forbidden): devices.gpu.cleave.dev is forbidden: User "
                   "\"eve\" cannot list resource \"devices\" in API group \"gpu.cleave.dev\" at "
                   "the cluster scope (the ClusterRole cleave-viewer has this right)");
    expect_failure(ERR_FORBIDDEN, 403,
                   "User \"eve\" cannot create resource \"pods/portforward\" in API group \"\"",
                   "Error from server (Forbidden): User \"eve\" cannot create resource "
                   "\"pods/portforward\" in API group \"\" (the Role cleave-top of the agents' "
                   "namespace has this right)");
    expect_failure(ERR_FORBIDDEN, 401, "Unauthorized",
                   "error: You must be logged in to the server (Unauthorized)");
    expect_failure(ERR_UNAVAILABLE, 0, "refused", "Unable to connect to the server: refused");
    expect_failure(ERR_UNAVAILABLE, 503, "busy", "Error from server (Unavailable): busy");
    expect_failure(ERR_TIMEOUT, 0, "no answer", "Unable to connect to the server: no answer");
    expect_failure(ERR_NOT_FOUND, 404, "not found",
                   "error: the server doesn't have what was asked for: is Cleave installed in this "
                   "cluster? (not found)");
    expect_failure(ERR_TOO_LARGE, 0, "too \x1b large", "error: too " X " large");
}

static void expect_prose(const struct screen *s, const char *text, const char *lines)
{
    auto_sb struct sb got = SB_INIT(CAP);
    word_list_prose(&got, s, "  do  ", text);
    cr_expect_str_eq(sb_str(&got), lines, "got \"%s\"", sb_str(&got));
}

Test(word_list, prose_is_broken_at_spaces_and_never_within_a_word)
{
    const struct screen narrow = {.columns = 20, .wraps = true};
    const struct screen pipe = {.columns = 20};
    expect_prose(&narrow, "see whether an agent", "  do  see whether an\n      agent\n");
    expect_prose(&narrow,
                 "gr\xC3\xB6\xC3\x9F"
                 "er whether x",
                 "  do  gr\xC3\xB6\xC3\x9F"
                 "er whether\n      x\n");
    expect_prose(&narrow, "a docs/api.md#reasons-why b",
                 "  do  a\n      docs/api.md#reasons-why\n      b\n");
    expect_prose(&narrow, "", "  do  \n");
    expect_prose(&pipe, "see whether an agent runs", "  do  see whether an agent runs\n");
}

static void expect_completion(const char *const *words, size_t n, const char *answer)
{
    auto_sb struct sb got = SB_INIT(CAP);
    completion_add(words, n, &got);
    cr_expect_str_eq(sb_str(&got), answer, "got \"%s\"", sb_str(&got));
}
#define COMPLETES(answer, ...)                                                                     \
    expect_completion((const char *const[]){__VA_ARGS__},                                          \
                      sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), answer)

Test(completion, goes_on_as_the_command_line_may)
{
    COMPLETES("doctor\nhistory\nplan\ntop\nversion\nwhy\n:4\n", "");
    COMPLETES("plan\n:4\n", "pl");
    COMPLETES("--node\n:4\n", "--no");
    COMPLETES("--filename\n:4\n", "plan", "--f");
    COMPLETES(":0\n", "plan", "-f", "");
    COMPLETES("json\nyaml\n:4\n", "why", "pod", "-o", "");
    COMPLETES(":4\n", "why", "");
    COMPLETES(":4\n", "odd", "--");
    COMPLETES("--namespace\n:4\n", "top", "--na");
    COMPLETES("why\n:4\n", "--context", "east", "-w", "w");
    COMPLETES("--filename\n:4\n", "-o", "json", "plan", "--fi");
    COMPLETES(":4\n", "-n", "wh");
    COMPLETES(":4\n", "plan", "--context", "--");
    expect_completion(NULL, 0, "doctor\nhistory\nplan\ntop\nversion\nwhy\n:4\n");
}

static void expect_kind(enum completion_kind kind, const char *const *words, size_t n)
{
    cr_expect_eq(completion_kind_of(words, n), kind, "%s", n ? words[n - 1] : "nothing");
}
#define IS_OF(kind, ...)                                                                           \
    expect_kind(kind, (const char *const[]){__VA_ARGS__},                                          \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

Test(completion, a_name_is_asked_for_where_one_may_stand)
{
    IS_OF(COMPLETION_NODE, "history", "");
    IS_OF(COMPLETION_NODE, "top", "-w", "n");
    IS_OF(COMPLETION_NODE, "--node", "n");
    IS_OF(COMPLETION_POD, "why", "-n", "ml", "tr");
    IS_OF(COMPLETION_POD, "--context", "east", "why", "");
    IS_OF(COMPLETION_NAMESPACE, "why", "train", "-n", "");
    IS_OF(COMPLETION_CONTEXT, "why", "--context", "");
    IS_OF(COMPLETION_WORDS, "why", "train", "");
    IS_OF(COMPLETION_WORDS, "why", "-");
    IS_OF(COMPLETION_WORDS, "plan", "");
    IS_OF(COMPLETION_WORDS, "history", "-o", "");
    IS_OF(COMPLETION_WORDS, "hist");
    expect_kind(COMPLETION_WORDS, NULL, 0);
}
