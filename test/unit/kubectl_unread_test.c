/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "kubectl/unread.h"

#define WITHOUT "what others have is not known"

/* The outcome of reading pods, noted. */
static int note(struct unread *u, enum err_kind kind, int http_status, const char *without,
                struct err *e)
{
    auto_err struct err why = {0};
    int rc = kind ? err_set(&why, kind, "no") : 0;
    why.http_status = http_status;
    return unread_note(u, rc, "pods", without, &why, e);
}

static void expect_error(enum err_kind kind, int http_status, const char *without)
{
    auto_unread struct unread u = {0};
    auto_err struct err e = {0};
    cr_expect_eq(note(&u, kind, http_status, without, &e), -(int)kind);
    cr_expect_str_eq(err_msg(&e), "no");
    cr_expect_eq(u.n, 0);
}

Test(unread, a_command_goes_on_without_what_it_may_not_read_or_what_is_not_there)
{
    auto_unread struct unread u = {0};
    auto_err struct err e = {0};
    cr_expect_eq(note(&u, ERR_FORBIDDEN, 403, WITHOUT, &e), 0);
    cr_expect_eq(note(&u, ERR_NOT_FOUND, 404, WITHOUT, &e), 0);
    cr_expect_eq(note(&u, 0, 200, WITHOUT, &e), 0);
    cr_assert_eq(u.n, 2);
    cr_expect_str_eq(u.notes[0], "pods cannot be read (no): " WITHOUT);
    cr_expect_eq(e.kind, 0);
    auto_free char *text = NULL;
    json_t *list = unread_json(&u);
    text = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    cr_expect_str_eq(text, "[\"pods cannot be read (no): " WITHOUT
                           "\",\"pods cannot be read (no): " WITHOUT "\"]");
}

Test(unread, what_a_command_cannot_go_on_without_is_an_error)
{
    expect_error(ERR_FORBIDDEN, 403, NULL);
    expect_error(ERR_NOT_FOUND, 404, NULL);
}

Test(unread, a_server_that_fails_or_does_not_know_who_asks_is_an_error)
{
    expect_error(ERR_UNAVAILABLE, 503, WITHOUT);
    expect_error(ERR_FORBIDDEN, 401, WITHOUT);
}
