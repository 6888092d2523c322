/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static int refuse(struct err *e)
{
    return err_set(e, ERR_INVALID, "no %s", "way");
}

Test(err, a_kind_is_returned_negated)
{
    auto_err struct err e = {0};
    cr_expect_eq(refuse(&e), -ERR_INVALID);
    cr_expect_eq(e.kind, ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "no way");
    cr_expect_eq(refuse(NULL), -ERR_INVALID, "NULL is allowed");
}

Test(err, setting_again_replaces_everything)
{
    auto_err struct err e = {0};
    (void)err_set_errno(&e, ENOENT, "open x");
    e.http_status = 500;
    (void)err_set(&e, ERR_CONFLICT, "%s again", err_msg(&e));
    cr_expect_str_eq(err_msg(&e), "open x: No such file or directory again");
    cr_expect_eq(e.sys_errno, 0);
    cr_expect_eq(e.http_status, 0);
}

Test(err, a_system_error_tells_errno)
{
    auto_err struct err e = {0};
    cr_expect_eq(err_set_errno(&e, EACCES, "open %s", "f"), -ERR_SYSTEM);
    cr_expect_eq(e.sys_errno, EACCES);
    cr_expect_str_eq(err_msg(&e), "open f: Permission denied");
    cr_expect_eq(err_set_errno(NULL, EACCES, "x"), -ERR_SYSTEM);
}

Test(err, wrapping_keeps_kind_and_details)
{
    auto_err struct err e = {0};
    (void)refuse(&e);
    e.http_status = 422;
    cr_expect_eq(err_wrap(&e, "node %s", "n1"), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "node n1: no way");
    cr_expect_eq(e.http_status, 422);
    cr_expect_lt(err_wrap(NULL, "x"), 0);
}

Test(err, wrapping_a_success_is_a_bug, .signal = SIGABRT)
{
    struct err e = {0};
    (void)freopen("/dev/null", "w", stderr);
    (void)err_wrap(&e, "x");
}

Test(err, moving_leaves_the_source_empty)
{
    auto_err struct err from = {0};
    auto_err struct err to = {0};
    (void)err_set(&to, ERR_TIMEOUT, "old");
    (void)refuse(&from);
    cr_expect_eq(err_move(&to, &from), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&to), "no way");
    cr_expect_eq(from.kind, 0);
    cr_expect_null(from.msg);
    cr_expect_eq(err_move(NULL, &to), -ERR_INVALID);
    cr_expect_eq(err_move(&to, NULL), 0);
}

Test(err, every_kind_has_a_name)
{
    for (int kind = 0; kind <= ERR_TERMINAL; kind++)
        cr_expect_str_neq(err_kind_name((enum err_kind)kind), "Unknown");
    cr_expect_str_eq(err_kind_name(ERR_NOT_FOUND), "NotFound");
    cr_expect_str_eq(err_kind_name((enum err_kind)99), "Unknown");
    const struct err silent = {.kind = ERR_TIMEOUT};
    cr_expect_str_eq(err_msg(&silent), "Timeout");
}

Test(err, only_the_worlds_failures_are_retried)
{
    static const enum err_kind never[] = {ERR_INVALID, ERR_FORBIDDEN, ERR_TOO_LARGE, ERR_TERMINAL,
                                          ERR_CANCELED};
    static const enum err_kind again[] = {ERR_NOT_FOUND, ERR_EXISTS,    ERR_CONFLICT,
                                          ERR_EXPIRED,   ERR_THROTTLED, ERR_UNAVAILABLE,
                                          ERR_TIMEOUT,   ERR_PROTOCOL,  ERR_SYSTEM};
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        cr_expect_not(err_retriable(&(struct err){.kind = never[i]}));
    for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++)
        cr_expect(err_retriable(&(struct err){.kind = again[i]}));
    cr_expect_not(err_retriable(&(struct err){0}));
}

static int step(int rc, int *reached)
{
    TRY(rc);
    (*reached)++;
    return 0;
}

Test(err, try_returns_on_failure_only)
{
    int reached = 0;
    cr_expect_eq(step(-ERR_CONFLICT, &reached), -ERR_CONFLICT);
    cr_expect_eq(reached, 0);
    cr_expect_eq(step(0, &reached), 0);
    cr_expect_eq(reached, 1);
}
