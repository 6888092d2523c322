/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "service/http_intake.h"

enum { PAGE, POST, N_ROUTES };

static const struct http_terms open_port = {.n_routes = N_ROUTES, .posts = 1 << POST};
static const struct http_terms guarded_port = {.n_routes = 1, .guarded = true};

/* --- Heads --- */

static bool is_sound(const struct http_terms *t, struct http_ask head, const char *token)
{
    struct http_ask_record r = {.head = head};
    memcpy(r.token, token, strlen(token));
    return http_ask_is_sound(&r, sizeof(r.head) + strlen(token), t);
}

Test(http_intake, a_question_is_for_a_route_that_there_is)
{
    cr_expect(is_sound(&open_port, (struct http_ask){.route = PAGE}, ""));
    cr_expect(is_sound(&open_port, (struct http_ask){.route = POST}, ""));
    cr_expect_not(is_sound(&open_port, (struct http_ask){.route = N_ROUTES}, ""));
    cr_expect_not(is_sound(&open_port, (struct http_ask){.route = UINT16_MAX}, ""));
}

Test(http_intake, a_questions_number_is_bounded)
{
    cr_expect(is_sound(&open_port, (struct http_ask){.question = HTTP_MAX_QUESTIONS - 1}, ""));
    cr_expect_not(is_sound(&open_port, (struct http_ask){.question = HTTP_MAX_QUESTIONS}, ""));
    cr_expect_not(is_sound(&open_port, (struct http_ask){.question = HTTP_LEAVE}, ""));
}

Test(http_intake, a_body_is_for_a_route_that_takes_one_and_bounded)
{
    struct http_ask a = {.route = POST, .body_len = HTTP_MAX_UPLOAD_BYTES};
    cr_expect(is_sound(&open_port, a, ""));
    a.body_len++;
    cr_expect_not(is_sound(&open_port, a, ""));
    a.body_len = UINT32_MAX;
    cr_expect_not(is_sound(&open_port, a, ""));
    a = (struct http_ask){.route = PAGE, .body_len = 1};
    cr_expect_not(is_sound(&open_port, a, ""));
}

Test(http_intake, a_token_is_exactly_where_pages_are_guarded)
{
    const struct http_ask with = {.token_len = 4};
    const struct http_ask without = {.token_len = 0};
    cr_expect(is_sound(&guarded_port, with, "good"));
    cr_expect_not(is_sound(&guarded_port, with, "a b\n"));
    cr_expect_not(is_sound(&guarded_port, without, ""));
    cr_expect_not(is_sound(&open_port, with, "good"));
}

Test(http_intake, a_records_length_is_what_its_head_says)
{
    const struct http_ask_record r = {.head = {.route = POST, .body_len = 5}};
    cr_expect_not(http_ask_is_sound(&r, 0, &open_port));
    cr_expect_not(http_ask_is_sound(&r, sizeof(r.head) - 1, &open_port));
    cr_expect(http_ask_is_sound(&r, sizeof(r.head), &open_port));
    cr_expect_not(http_ask_is_sound(&r, sizeof(r.head) + 5, &open_port), "the body comes later");
    cr_expect_not(http_ask_is_sound(&r, sizeof(r) + 1, &open_port));
}

/* --- Records --- */

/* A channel whose other end is the test. */
struct rig {
    int child, channel;
    struct http_intake intake;
};

static void rig_init(struct rig *r)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    *r = (struct rig){.child = ends[0], .channel = ends[1]};
}

static void rig_done(struct rig *r)
{
    http_intake_done(&r->intake);
    (void)close(r->child);
    (void)close(r->channel);
}

static void tell(const struct rig *r, const void *p, size_t len)
{
    cr_assert_eq(send(r->child, p, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void tell_head(const struct rig *r, uint32_t body_len)
{
    const struct http_ask head = {.question = 3, .route = POST, .body_len = body_len};
    tell(r, &head, sizeof(head));
}

static void tell_piece(const struct rig *r, size_t len)
{
    auto_free char *piece = xmalloc(len);
    memset(piece, 'x', len);
    tell(r, piece, len);
}

static enum http_taken hear(struct rig *r)
{
    return http_intake_read(&r->intake, r->channel, &open_port);
}

Test(http_intake, a_page_is_a_question_without_body)
{
    struct rig r;
    const struct http_ask head = {.question = 3, .route = PAGE};
    rig_init(&r);
    cr_expect_eq(hear(&r), HTTP_TAKEN_NOTHING);
    tell(&r, &head, sizeof(head));
    cr_expect_eq(hear(&r), HTTP_TAKEN_WHOLE);
    cr_expect_eq(r.intake.ask.head.question, 3);
    cr_expect_null(r.intake.body);
    rig_done(&r);
}

Test(http_intake, an_empty_body_is_one)
{
    struct rig r;
    rig_init(&r);
    tell_head(&r, 0);
    cr_expect_eq(hear(&r), HTTP_TAKEN_WHOLE);
    cr_assert_not_null(r.intake.body);
    cr_expect_str_empty(r.intake.body);
    rig_done(&r);
}

Test(http_intake, a_body_is_put_together_as_its_records_come)
{
    struct rig r;
    rig_init(&r);
    tell_head(&r, HTTP_MAX_PIECE_BYTES + 2);
    cr_expect_eq(hear(&r), HTTP_TAKEN_NOTHING);
    tell_piece(&r, HTTP_MAX_PIECE_BYTES);
    cr_expect_eq(hear(&r), HTTP_TAKEN_NOTHING);
    tell_piece(&r, 2);
    cr_expect_eq(hear(&r), HTTP_TAKEN_WHOLE);
    cr_expect_eq(strlen(r.intake.body), HTTP_MAX_PIECE_BYTES + 2);
    rig_done(&r);
}

Test(http_intake, one_question_is_read_at_a_time)
{
    struct rig r;
    rig_init(&r);
    tell_head(&r, 1);
    tell(&r, "a", 1);
    tell_head(&r, 1);
    tell(&r, "b", 1);
    cr_expect_eq(hear(&r), HTTP_TAKEN_WHOLE);
    cr_expect_str_eq(r.intake.body, "a");
    http_intake_done(&r.intake);
    cr_expect_eq(hear(&r), HTTP_TAKEN_WHOLE);
    cr_expect_str_eq(r.intake.body, "b");
    rig_done(&r);
}

/* The records of a body have one form only. */
Test(http_intake, another_piece_than_the_next_one_breaks_the_protocol)
{
    static const struct {
        uint32_t body_len;
        size_t piece;
    } wrong[] = {{2, 1}, {2, 3}, {HTTP_MAX_PIECE_BYTES + 1, 1}, {1, HTTP_MAX_PIECE_BYTES}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct rig r;
        rig_init(&r);
        tell_head(&r, wrong[i].body_len);
        tell_piece(&r, wrong[i].piece);
        cr_expect_eq(hear(&r), HTTP_TAKEN_BROKEN, "%zu", i);
        rig_done(&r);
    }
}

Test(http_intake, an_end_within_a_body_breaks_the_protocol)
{
    struct rig r;
    rig_init(&r);
    tell_head(&r, 2);
    cr_expect_eq(hear(&r), HTTP_TAKEN_NOTHING);
    cr_assert_eq(shutdown(r.child, SHUT_RDWR), 0);
    cr_expect_eq(hear(&r), HTTP_TAKEN_BROKEN);
    rig_done(&r);
}

Test(http_intake, a_record_that_is_no_question_breaks_the_protocol)
{
    struct rig r;
    rig_init(&r);
    tell(&r, "POST / HTTP/1.1", 15);
    cr_expect_eq(hear(&r), HTTP_TAKEN_BROKEN);
    rig_done(&r);
}
