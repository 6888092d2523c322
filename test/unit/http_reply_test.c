/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_reply.h"

static void give(struct http_reply *reply, int status, const char *text)
{
    auto_sb struct sb body = SB_INIT(1024);
    sb_add(&body, text);
    http_reply_give(reply, status, &body);
}

static bool has_some(const struct http_replies *r)
{
    struct pollfd p = {.fd = http_replies_fd(r), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void expect_collected(struct http_replies *r, uint16_t question, int status,
                             const char *text)
{
    auto_http_reply struct http_reply *got = http_replies_collect(r);
    cr_assert_not_null(got);
    cr_expect_eq(got->question, question);
    cr_expect_eq(got->status, status);
    cr_expect_str_eq(sb_str(&got->body), text);
}

Test(http_reply, answers_are_collected_in_the_order_in_which_they_are_given)
{
    struct http_replies *r = http_replies_new();
    struct http_reply *first = http_replies_owe(r, 1);
    struct http_reply *second = http_replies_owe(r, 2);
    cr_expect_not(has_some(r));
    cr_expect_null(http_replies_collect(r));
    give(second, 200, "two");
    give(first, 201, "one");
    cr_expect(has_some(r));
    expect_collected(r, 2, 200, "two");
    cr_expect(has_some(r));
    expect_collected(r, 1, 201, "one");
    cr_expect_not(has_some(r));
    (void)http_replies_free(r);
}

Test(http_reply, an_answer_to_an_earlier_child_goes_nowhere)
{
    struct http_replies *r = http_replies_new();
    struct http_reply *given = http_replies_owe(r, 1);
    struct http_reply *late = http_replies_owe(r, 2);
    give(given, 200, "not collected in time");
    http_replies_next_child(r);
    cr_expect_not(has_some(r));
    give(late, 200, "late");
    cr_expect_null(http_replies_collect(r));
    give(http_replies_owe(r, 1), 200, "of the next child");
    expect_collected(r, 1, 200, "of the next child");
    (void)http_replies_free(r);
}

Test(http_reply, an_answer_may_be_given_after_the_port_is_gone)
{
    struct http_replies *r = http_replies_new();
    struct http_reply *first = http_replies_owe(r, 1);
    struct http_reply *second = http_replies_owe(r, 2);
    give(http_replies_owe(r, 3), 200, "not collected");
    (void)http_replies_free(r);
    give(second, 200, "late");
    give(first, 200, "later");
}

Test(http_reply, no_more_are_owed_than_the_bound_allows)
{
    struct http_replies *r = http_replies_new();
    struct http_reply *all[HTTP_MAX_REPLIES];
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = http_replies_owe(r, 0);
        cr_assert_not_null(all[i]);
        http_replies_next_child(r); /* those of children before count, too */
    }
    cr_expect_null(http_replies_owe(r, 0));
    give(all[0], 200, "");
    all[0] = http_replies_owe(r, 0);
    cr_assert_not_null(all[0]);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        give(all[i], 200, "");
    (void)http_replies_free(r);
}

Test(http_reply, an_answer_that_is_too_long_is_an_error)
{
    struct http_replies *r = http_replies_new();
    auto_sb struct sb body = SB_INIT(4);
    sb_add(&body, "too long");
    http_reply_give(http_replies_owe(r, 1), 200, &body);
    expect_collected(r, 1, 500, "{\"error\": \"the answer is too long\"}\n");
    (void)http_replies_free(r);
}
