/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "scheduler/wake.h"
#include "scheduler_support.h"

static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};

static struct wake *wake;
static struct controller *workers;

static void add_node(const char *name)
{
    auto_err struct err e = {0};
    auto_json json_t *node = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind", "Node",
                                       "metadata", "name", name);
    const struct kc_target t = {.res = &nodes};
    cr_assert_eq(kc_create(town_kc, town_scope, &t, &(struct kc_write){.body = node}, NULL, &e), 0);
}

static void start(void)
{
    town_set_up();
    wake = wake_new(town_kc, town_clk, /* metrics= */ NULL);
    workers = wake_workers(wake);
    add_node("a");
}

static void tear_down(void)
{
    (void)controller_free(workers);
    (void)wake_free(wake);
    town_tear_down();
}

static void do_what_is_due(void)
{
    clock_fake_advance(town_clk, WAKE_DELAY_MS);
    while (controller_step(workers, town_scope)) {
    }
}

/* Nobody who was refused before the start waits any more. */
static void set_up(void)
{
    start();
    add_node("first");
    wake_grown(wake, "first");
    do_what_is_due();
}

TestSuite(scheduler_wake_start, .init = start, .fini = tear_down);
TestSuite(scheduler_wake, .init = set_up, .fini = tear_down);

/* What the node was told, once everything that is due was done. Caller frees; NULL: nothing. */
static char *told(void)
{
    auto_err struct err e = {0};
    auto_json json_t *node = NULL;
    const struct kc_target t = {.res = &nodes, .name = "a"};
    do_what_is_due();
    cr_assert_eq(kc_get(town_kc, town_scope, &t, &node, &e), 0, "%s", err_msg(&e));
    return xstrdup(JX_STR_AT(node, "metadata", "annotations", WAKE_ANNOTATION));
}

static void refuse_one(void)
{
    wake_begin(wake);
    wake_end(wake, /* refused= */ true);
}

Test(scheduler_wake_start, a_pod_that_was_refused_before_the_start_is_woken)
{
    wake_grown(wake, "a");
    auto_free char *first = told();
    cr_expect_not_null(first);
    wake_grown(wake, "a");
    auto_free char *same = told();
    cr_expect_str_eq(same, first, "nobody was refused since");
}

Test(scheduler_wake, room_that_grows_while_a_pod_is_judged_wakes_it_if_it_is_refused)
{
    wake_begin(wake);
    wake_grown(wake, "a");
    auto_free char *early = told();
    cr_expect_null(early, "it may be chosen");
    wake_end(wake, /* refused= */ true);
    auto_free char *text = told();
    cr_expect_not_null(text);
}

static int begin_meanwhile(void *arg, const struct kc_call *call, struct err *e)
{
    bool *done = arg;
    if (call->verb != KC_PATCH || call->after || *done)
        return 0;
    *done = true;
    wake_begin(wake);
    return err_set(e, ERR_UNAVAILABLE, "connection refused");
}

Test(scheduler_wake, a_pod_that_is_chosen_while_a_write_fails_leaves_the_refused_to_be_woken)
{
    bool done = false;
    kc_fake_hook(town_kc, begin_meanwhile, &done);
    refuse_one();
    wake_grown(wake, "a");
    auto_free char *none = told();
    cr_expect_null(none);
    wake_end(wake, /* refused= */ false);
    auto_free char *text = told();
    cr_expect_not_null(text);
}

Test(scheduler_wake, where_nobody_was_refused_nothing_is_written)
{
    size_t writes = kc_fake_writes(town_kc);
    wake_grown(wake, "a");
    auto_free char *text = told();
    cr_expect_null(text);
    cr_expect_eq(kc_fake_writes(town_kc), writes);
}

Test(scheduler_wake, one_write_wakes_all_that_were_refused)
{
    size_t writes = kc_fake_writes(town_kc);
    refuse_one();
    refuse_one();
    wake_grown(wake, "a");
    wake_grown(wake, "b");
    wake_grown(wake, "a");
    auto_free char *first = told();
    cr_expect_not_null(first);
    cr_expect_eq(kc_fake_writes(town_kc), writes + 1);
    wake_grown(wake, "a");
    auto_free char *same = told();
    cr_expect_str_eq(same, first, "nobody was refused since");
    refuse_one();
    wake_grown(wake, "a");
    auto_free char *next = told();
    cr_expect_str_neq(next, first, "a write that changes nothing wakes nobody");
}

Test(scheduler_wake, a_node_that_is_gone_is_no_error_and_another_is_told)
{
    refuse_one();
    wake_grown(wake, "gone");
    auto_free char *none = told();
    cr_expect_null(none);
    wake_grown(wake, "a");
    auto_free char *text = told();
    cr_expect_not_null(text, "the refused pods wait still");
}

static int refuse(void *arg, const struct kc_call *call, struct err *e)
{
    int *times = arg;
    if (call->verb == KC_PATCH && !call->after && (*times)-- > 0)
        return err_set(e, ERR_UNAVAILABLE, "connection refused");
    return 0;
}

Test(scheduler_wake, a_write_that_failed_is_tried_again)
{
    int times = 1;
    kc_fake_hook(town_kc, refuse, &times);
    refuse_one();
    wake_grown(wake, "a");
    auto_free char *none = told();
    cr_expect_null(none);
    auto_free char *text = told();
    cr_expect_not_null(text);
}
