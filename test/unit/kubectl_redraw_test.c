/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/redraw.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(redraw, .init = desk_set_up, .fini = desk_tear_down);

/* Times that a word stands in a text. */
static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        n++;
    return n;
}

static bool cut_then_end(unsigned n)
{
    if (n == 1)
        desk_cut("n1", 0, "3g.40gb@4=ml/b");
    return n < 2;
}

Test(redraw, a_change_that_comes_after_the_picture_was_made_is_drawn)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, cut_then_end);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    cr_expect_eq(count(a.out, "n1  Ready\n"), 2, "%s", a.out);
    cr_expect_eq(count(a.out, "3g.40gb  ml/b"), 1);
    cr_expect_not_null(strstr(a.out, "\n\nn1  Ready\n"));
    cr_expect_null(strchr(a.out, '\033'));
    cr_expect_str_eq(a.err, "");
}

Test(redraw, on_a_terminal_a_picture_takes_the_place_of_the_one_before)
{
    desk_node("n1", 1);
    desk_terminal();
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, cut_then_end);
    cr_expect_eq(count(a.out, "\033[H\033[Jn1  Ready\n"), 2, "%s", a.out);
}

Test(redraw, on_a_terminal_a_picture_has_no_more_lines_than_the_terminal_has_rows)
{
    desk_node("n1", 8);
    desk_terminal();
    desk_rows(10);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, cut_then_end);
    cr_expect_eq(count(a.out, "\033[H\033[Jn1  Ready\n"), 2, "%s", a.out);
    cr_expect_eq(count(a.out, "\n"), 2 * 9, "%s", a.out);
    cr_expect_eq(count(a.out, " more lines\n"), 2, "%s", a.out);
}

Test(redraw, documents_are_never_drawn_in_place)
{
    desk_node("n1", 1);
    desk_terminal();
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_JSON, NULL, cut_then_end);
    cr_expect_null(strchr(a.out, '\033'));
}

static bool change_both(unsigned n)
{
    if (n > 1)
        return false;
    desk_cut("n2", 0, "1g.10gb@0");
    desk_cut("n1", 0, "3g.40gb@4=ml/b");
    return true;
}

Test(redraw, of_one_node_only_that_is_watched)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, "n1", change_both);
    cr_expect_eq(count(a.out, "n1  Ready\n"), 2, "%s", a.out);
    cr_expect_eq(count(a.out, "3g.40gb  ml/b"), 1);
    cr_expect_null(strstr(a.out, "n2"));
}

static bool label_then_end(unsigned n)
{
    if (n == 1)
        desk_patch(&resource_devices, "n1", NULL, "{metadata: {labels: {a: b}}}");
    return n < 2;
}

Test(redraw, a_change_that_the_picture_does_not_show_draws_nothing)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, label_then_end);
    cr_expect_eq(a.code, COMMAND_OK);
    cr_expect_eq(count(a.out, "n1  Ready\n"), 1, "%s", a.out);
}

Test(redraw, documents_follow_one_another)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_YAML, NULL, cut_then_end);
    cr_expect_eq(count(a.out, "kind: Cards"), 2, "%s", a.out);
    cr_expect_eq(count(a.out, "\n---\n"), 1, "%s", a.out);
}

static bool forbid_then_end(unsigned n)
{
    desk_forbid("nodes");
    return cut_then_end(n);
}

Test(redraw, what_cannot_be_read_is_said_once)
{
    desk_node("n1", 1);
    desk_forbid("nodes");
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, forbid_then_end);
    cr_expect_eq(count(a.out, "n1  Ready\n"), 2, "%s", a.out);
    cr_expect_eq(count(a.err, "Warning: nodes cannot be read"), 1, "%s", a.err);
}

static bool take_away(unsigned n)
{
    desk_forbid("devices");
    return cut_then_end(n);
}

Test(redraw, a_server_that_refuses_ends_it)
{
    desk_node("n1", 1);
    auto_desk_answer struct desk_answer a = desk_cards_watch(OUTPUT_TEXT, NULL, take_away);
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect_not_null(strstr(a.err, "devices is forbidden"), "%s", a.err);
}

/* A picture that is made in an hour of the command's clock. The second one is the last. */
struct slow {
    struct clock *clock;
    struct scope *scope;
    int n;
};

enum { HOUR_MS = 3600000 };

static int make_slowly(void *arg, char **ret_text, char **ret_version)
{
    struct slow *s = arg;
    (void)ret_version;
    clock_fake_advance(s->clock, HOUR_MS);
    if (++s->n == 2)
        scope_cancel(s->scope);
    *ret_text = xasprintf("%d\n", s->n);
    return COMMAND_OK;
}

Test(redraw, the_time_that_a_picture_takes_does_not_put_off_the_next, .timeout = 60)
{
    auto_clock struct clock *clock = clock_fake_new(0);
    auto_scope struct scope *scope = scope_new(NULL, -1);
    auto_free char *text = NULL;
    size_t n = 0;
    struct slow slow = {clock, scope, 0};
    const struct command c = {.scope = scope, .clock = clock, .out = open_memstream(&text, &n)};
    cr_expect_eq(redraw_each(&c, HOUR_MS, make_slowly, &slow), COMMAND_OK);
    (void)fclose(c.out);
    cr_expect_str_eq(text, "1\n\n2\n");
}
