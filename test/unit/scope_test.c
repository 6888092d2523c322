/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "base/scope.h"

#define LONG_MS (INT64_C(3600) * 1000)

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

Test(scope, without_a_deadline_lives_on)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    cr_expect_eq(scope_left_ms(s), INT64_MAX);
    cr_expect_eq(scope_poll_ms(s), -1);
    cr_expect_eq(scope_check(s, NULL), 0);
    cr_expect_not(is_readable(scope_cancel_fd(s)));
}

Test(scope, cancels_once_and_for_all)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    scope_cancel(s);
    scope_cancel(s);
    cr_expect(scope_is_canceled(s));
    cr_expect(is_readable(scope_cancel_fd(s)));
    cr_expect_eq(scope_left_ms(s), 0);
    cr_expect_eq(scope_poll_ms(s), 0);
    auto_err struct err e = {0};
    cr_expect_eq(scope_check(s, &e), -ERR_CANCELED);
}

Test(scope, times_out)
{
    auto_scope struct scope *s = scope_new(NULL, 0);
    auto_err struct err e = {0};
    cr_expect_eq(scope_check(s, &e), -ERR_TIMEOUT);
    cr_expect_not(is_readable(scope_cancel_fd(s)), "a deadline alone does not signal");
    cr_expect_not(scope_is_canceled(s));
    scope_cancel(s);
    cr_expect_eq(scope_check(s, &e), -ERR_CANCELED);
}

Test(scope, a_parents_deadline_holds)
{
    auto_scope struct scope *parent = scope_new(NULL, LONG_MS);
    auto_scope struct scope *none = scope_new(parent, -1);
    auto_scope struct scope *longer = scope_new(parent, 2 * LONG_MS);
    auto_scope struct scope *shorter = scope_new(parent, LONG_MS / 2);
    auto_scope struct scope *grandchild = scope_new(shorter, -1);
    cr_expect_leq(scope_left_ms(none), LONG_MS);
    cr_expect_leq(scope_left_ms(longer), LONG_MS);
    cr_expect_leq(scope_left_ms(shorter), LONG_MS / 2);
    cr_expect_leq(scope_left_ms(grandchild), LONG_MS / 2);
    cr_expect_gt(scope_left_ms(parent), LONG_MS / 2);
    cr_expect_eq(scope_check(grandchild, NULL), 0);
}

Test(scope, cancelling_reaches_all_descendants_and_nobody_else)
{
    auto_scope struct scope *root = scope_new(NULL, -1);
    auto_scope struct scope *left = scope_new(root, -1);
    auto_scope struct scope *right = scope_new(root, -1);
    auto_scope struct scope *leaf = scope_new(left, LONG_MS);
    scope_cancel(left);
    cr_expect(scope_is_canceled(leaf) && is_readable(scope_cancel_fd(leaf)));
    cr_expect_not(scope_is_canceled(root));
    cr_expect_not(scope_is_canceled(right));
    scope_cancel(root);
    cr_expect(scope_is_canceled(right));
}

Test(scope, a_child_of_a_canceled_parent_is_born_canceled)
{
    auto_scope struct scope *parent = scope_new(NULL, -1);
    scope_cancel(parent);
    auto_scope struct scope *child = scope_new(parent, -1);
    cr_expect(scope_is_canceled(child) && is_readable(scope_cancel_fd(child)));
}

Test(scope, a_freed_child_is_forgotten)
{
    auto_scope struct scope *parent = scope_new(NULL, -1);
    struct scope *first = scope_new(parent, -1);
    struct scope *second = scope_new(parent, -1);
    struct scope *third = scope_new(parent, -1);
    second = scope_free(second);
    cr_expect_null(second);
    scope_cancel(parent);
    cr_expect(scope_is_canceled(first) && scope_is_canceled(third));
    (void)scope_free(first);
    (void)scope_free(third);
    cr_expect_null(scope_free(NULL));
}

Test(scope, a_parent_must_outlive_its_children, .signal = SIGABRT)
{
    (void)freopen("/dev/null", "w", stderr);
    struct scope *parent = scope_new(NULL, -1);
    (void)scope_new(parent, -1);
    (void)scope_free(parent);
}

Test(scope, timeouts_beyond_the_clock_mean_never)
{
    auto_scope struct scope *s = scope_new(NULL, INT64_MAX);
    cr_expect_eq(scope_left_ms(s), INT64_MAX);
    auto_scope struct scope *century = scope_new(NULL, INT64_C(3155760000000));
    cr_expect_eq(scope_poll_ms(century), INT32_MAX, "cut to what poll takes");
}

Test(scope, waiting_lets_the_time_pass)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    cr_expect(scope_wait_ms(s, 0));
    cr_expect(scope_wait_ms(s, 1));
    auto_scope struct scope *brief = scope_new(s, 1);
    cr_expect_not(scope_wait_ms(brief, -1), "ends with the scope");
    cr_expect_not(scope_wait_ms(brief, 0));
    cr_expect_not(scope_wait_ms(brief, INT64_MAX));
}

struct waiter {
    struct scope *scope;
    int fd; /* -1: scope_wait_ms, else scope_wait_readable */
    int ready_fd;
    int rc;
};

static void *wait_under_scope(void *arg)
{
    struct waiter *w = arg;
    (void)write(w->ready_fd, "r", 1);
    if (w->fd < 0)
        w->rc = scope_wait_ms(w->scope, -1) ? 0 : scope_check(w->scope, NULL);
    else
        w->rc = scope_wait_readable(w->scope, w->fd, NULL);
    return NULL;
}

/* Runs a waiter in a thread of its own and calls off the parent once the thread has started. Were
 * the waiter not woken, the join would hang and the test time out. */
static int cancel_while_waiting(int fd)
{
    auto_scope struct scope *parent = scope_new(NULL, -1);
    auto_scope struct scope *child = scope_new(parent, LONG_MS);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    struct waiter w = {.scope = child, .fd = fd, .ready_fd = ends[1]};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, wait_under_scope, &w), 0);
    char ready;
    cr_assert_eq(read(ends[0], &ready, 1), 1);
    scope_cancel(parent);
    (void)pthread_join(thread, NULL);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return w.rc;
}

Test(scope, cancelling_from_another_thread_wakes_a_wait, .timeout = 20)
{
    cr_expect_eq(cancel_while_waiting(-1), -ERR_CANCELED);
}

Test(scope, cancelling_from_another_thread_wakes_a_poll, .timeout = 20)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_expect_eq(cancel_while_waiting(ends[0]), -ERR_CANCELED);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

Test(scope, waits_until_something_can_be_read)
{
    auto_scope struct scope *s = scope_new(NULL, LONG_MS);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "x", 1), 1);
    cr_expect_eq(scope_wait_readable(s, ends[0], NULL), 0);
    (void)close(ends[1]);
    char byte;
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    cr_expect_eq(scope_wait_readable(s, ends[0], NULL), 0, "the end can be read too");
    (void)close(ends[0]);
}

Test(scope, waiting_for_a_silent_peer_times_out)
{
    auto_scope struct scope *s = scope_new(NULL, 1);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_expect_eq(scope_wait_readable(s, ends[0], NULL), -ERR_TIMEOUT);
    (void)close(ends[0]);
    (void)close(ends[1]);
}
