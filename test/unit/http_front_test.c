/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_front.h"
#include "service/http_guests.h"
#include "service/listen_socket.h"

/* The pages are larger than what the kernel buffers for a visitor who does not read, and the parent
 * can send them all before the front reads any. */
enum { VISITORS = 8, PAGE_BYTES = 16 << 10, MAX_HELD_BYTES = 40 << 10, SMALL_BUFFER = 2048 };

/* A front whose parent is the test. */
struct rig {
    struct http_front *front;
    int socket, port;
    int parent, channel; /* two ends */
};

static void shrink(int fd, int option)
{
    int bytes = SMALL_BUFFER;
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes)), 0);
}

static const char *const paths[] = {"/page", "/post"};

/* What the options say, on a port and a channel of its own. */
static void rig_open(struct rig *r, struct http_front_options o)
{
    auto_err struct err e = {0};
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    r->parent = ends[0];
    r->channel = ends[1];
    cr_assert_eq(listen_socket_open("127.0.0.1:0", /* port= */ 0, &r->socket, &r->port, &e), 0,
                 "%s", err_msg(&e));
    shrink(r->socket, SO_SNDBUF);
    o.socket = r->socket;
    o.paths = paths;
    o.channel = r->channel;
    cr_assert_eq(http_front_new(&o, &r->front, &e), 0, "%s", err_msg(&e));
}

/* Pages behind a token. */
static void rig_init(struct rig *r, size_t max_held_bytes)
{
    rig_open(r, (struct http_front_options){.terms = {.n_routes = 1, .guarded = true},
                                            .max_held_bytes = max_held_bytes});
}

static void rig_done(struct rig *r)
{
    (void)http_front_free(r->front);
    (void)close(r->socket);
    (void)close(r->parent);
    (void)close(r->channel);
}

static void step(struct rig *r)
{
    auto_err struct err e = {0};
    cr_assert_eq(http_front_step(r->front, /* max_wait_ms= */ 10, /* ret_busy= */ NULL, &e), 0,
                 "%s", err_msg(&e));
}

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* A visitor who says this. */
static int visit_with(const struct rig *r, const char *text)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)r->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    shrink(fd, SO_RCVBUF);
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    say(fd, text);
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* The next question that the parent is asked. */
static struct http_ask next_question(struct rig *r)
{
    struct http_ask_record ask;
    while (recv(r->parent, &ask, sizeof(ask), 0) < 0)
        step(r);
    return ask.head;
}

/* A visitor who has asked for the page; *ret_question is what the parent was asked. */
static int visit(struct rig *r, uint16_t *ret_question)
{
    int fd = visit_with(r, "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                           "Authorization: Bearer token\r\n\r\n");
    *ret_question = next_question(r).question;
    return fd;
}

static void answer(const struct rig *r, uint16_t question)
{
    static char page[PAGE_BYTES];
    const struct http_answer head = {.question = question, .status = 200, .len = PAGE_BYTES};
    memset(page, 'x', sizeof(page));
    cr_assert_eq(send(r->parent, &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
    cr_assert_eq(send(r->parent, page, sizeof(page), MSG_NOSIGNAL), PAGE_BYTES);
}

/* Reads until the front closes; the status, or 0 unless the whole page came. */
static int page_status(struct rig *r, int fd)
{
    auto_sb struct sb all = SB_INIT(2 * PAGE_BYTES);
    char piece[1024];
    for (;;) {
        ssize_t n = recv(fd, piece, sizeof(piece), 0);
        if (n > 0)
            sb_add_mem(&all, piece, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            step(r);
        else
            break;
    }
    const char *body = strstr(sb_str(&all), "\r\n\r\n");
    if (strstr(sb_str(&all), " 503 "))
        return 503;
    return body && strlen(body + 4) == PAGE_BYTES ? 200 : 0;
}

/* Visitors who ask for a large page and do not read it could make the process use more memory than
 * it may have, which would end it. Those who began first lose theirs. */
Test(http_front, no_more_pages_are_held_than_the_bound_allows, .timeout = 60)
{
    struct rig r;
    int visitors[VISITORS];
    uint16_t questions[VISITORS];
    rig_init(&r, MAX_HELD_BYTES);
    for (size_t i = 0; i < VISITORS; i++)
        visitors[i] = visit(&r, &questions[i]);
    for (size_t i = 0; i < VISITORS; i++)
        answer(&r, questions[i]);
    for (size_t i = 0; i < 3UL * VISITORS; i++)
        step(&r);
    size_t whole = 0;
    int status = 0;
    for (size_t i = 0; i < VISITORS; i++) {
        status = page_status(&r, visitors[i]);
        whole += status == 200;
        cr_expect_neq(status, 503, "the readers before visitor %zu made no room", i);
        (void)close(visitors[i]);
    }
    cr_expect_leq(whole * PAGE_BYTES, MAX_HELD_BYTES, "%zu pages at once", whole);
    cr_expect_eq(status, 200, "the last visitor got no page");
    rig_done(&r);
}

Test(http_front, a_page_for_which_there_is_no_room_is_503, .timeout = 60)
{
    struct rig r;
    uint16_t question;
    rig_init(&r, PAGE_BYTES - 1);
    auto_fd int fd = visit(&r, &question);
    answer(&r, question);
    cr_expect_eq(page_status(&r, fd), 503);
    rig_done(&r);
}

/* --- Bodies --- */

#define POST_OF_1 "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"
#define POST_OF_2 "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"

/* The second path takes bodies. */
static void rig_init_post(struct rig *r, const struct clock *clk, size_t max_upload_bytes)
{
    rig_open(r, (struct http_front_options){.terms = {.n_routes = 2, .posts = 1 << 1},
                                            .clk = clk,
                                            .max_upload_bytes = max_upload_bytes});
}

/* The body of the question, which was asked. Caller frees. */
static char *next_body(struct rig *r, const struct http_ask *a)
{
    auto_sb struct sb all = SB_INIT(HTTP_MAX_UPLOAD_BYTES);
    static char piece[HTTP_MAX_PIECE_BYTES];
    while (all.len < a->body_len) {
        ssize_t n = recv(r->parent, piece, sizeof(piece), 0);
        if (n > 0)
            sb_add_mem(&all, piece, (size_t)n);
        else
            step(r);
    }
    return sb_take(&all);
}

/* One question and its body of one byte; the question's number. */
static uint16_t next_post(struct rig *r)
{
    const struct http_ask a = next_question(r);
    cr_assert_eq(a.body_len, 1);
    auto_free char *body = next_body(r, &a);
    return a.question;
}

static void answer_ok(const struct rig *r, uint16_t question)
{
    const struct http_answer head = {.question = question, .status = 200, .len = 2};
    cr_assert_eq(send(r->parent, &head, sizeof(head), MSG_NOSIGNAL), sizeof(head));
    cr_assert_eq(send(r->parent, "ok", 2, MSG_NOSIGNAL), 2);
}

/* Reads until this comes. False: the front closed before. */
static bool hears(struct rig *r, int fd, const char *text)
{
    auto_sb struct sb all = SB_INIT(1 << 16);
    char c[1];
    while (!strstr(sb_str(&all), text)) {
        ssize_t n = recv(fd, c, 1, 0);
        if (n > 0)
            sb_add_mem(&all, c, 1);
        else if (n < 0 && errno == EAGAIN)
            step(r);
        else
            return false;
    }
    return true;
}

static bool is_closed(struct rig *r, int fd)
{
    return !hears(r, fd, "never said");
}

static bool is_open(struct rig *r, int fd)
{
    char c;
    for (int i = 0; i < 5; i++)
        step(r);
    return recv(fd, &c, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

/* Whoever sends a byte now and then, so that the connection is never idle for long. */
Test(http_front, a_body_that_takes_too_long_ends_its_connection, .timeout = 60)
{
    struct rig r;
    auto_clock struct clock *clk = clock_fake_new(0);
    rig_init_post(&r, clk, 0);
    auto_fd int fd = visit_with(&r, "POST /post HTTP/1.1\r\nHost: x\r\n"
                                    "Content-Length: 100\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        cr_assert(is_open(&r, fd), "after %d s", i);
        say(fd, "x");
        clock_fake_advance(clk, 1000);
    }
    cr_expect(is_closed(&r, fd));
    rig_done(&r);
}

Test(http_front, a_body_in_time_may_be_followed_by_another, .timeout = 60)
{
    struct rig r;
    auto_clock struct clock *clk = clock_fake_new(0);
    rig_init_post(&r, clk, 0);
    auto_fd int fd = visit_with(&r, POST_OF_1);
    for (int i = 0; i < 3; i++) {
        cr_assert(is_open(&r, fd));
        clock_fake_advance(clk, 9999);
        say(fd, "x");
        answer_ok(&r, next_post(&r));
        cr_expect(hears(&r, fd, "\r\n\r\nok"));
        clock_fake_advance(clk, 9999);
        say(fd, POST_OF_1);
    }
    rig_done(&r);
}

Test(http_front, a_body_for_which_the_others_leave_no_room_is_503, .timeout = 60)
{
    struct rig r;
    rig_init_post(&r, /* clk= */ NULL, 2);
    auto_fd int slow = visit_with(&r, POST_OF_2 "a");
    cr_assert(is_open(&r, slow));
    auto_fd int fd = visit_with(&r, POST_OF_2 "bc");
    cr_expect(hears(&r, fd, "HTTP/1.1 503 "));
    say(slow, "d");
    const struct http_ask first = next_question(&r);
    auto_free char *body = next_body(&r, &first);
    cr_expect_str_eq(body, "ad");
    say(fd, POST_OF_2 "ef"); /* the parent has the other one's */
    const struct http_ask second = next_question(&r);
    auto_free char *other = next_body(&r, &second);
    cr_expect_str_eq(other, "ef");
    rig_done(&r);
}

/* Sends the longest body, as far as the front takes it. */
static void post_longest(struct rig *r, int fd, char letter)
{
    auto_free char *head = xasprintf("POST /post HTTP/1.1\r\nHost: x\r\n"
                                     "Content-Length: %d\r\n\r\n",
                                     HTTP_MAX_UPLOAD_BYTES);
    auto_free char *body = xmalloc(HTTP_MAX_UPLOAD_BYTES);
    memset(body, letter, HTTP_MAX_UPLOAD_BYTES);
    say(fd, head);
    for (size_t done = 0; done < HTTP_MAX_UPLOAD_BYTES;) {
        ssize_t n = send(fd, body + done, HTTP_MAX_UPLOAD_BYTES - done, MSG_NOSIGNAL);
        done += n > 0 ? (size_t)n : 0;
        step(r);
    }
}

static bool has_question(const struct rig *r)
{
    char c;
    return recv(r->parent, &c, 1, MSG_PEEK) > 0;
}

/* Reads a question and a body of one letter, and answers. Returns the letter; a space: a page. */
static char serve_next(struct rig *r)
{
    const struct http_ask a = next_question(r);
    auto_free char *body = next_body(r, &a);
    char letter = a.route == 1 ? body[0] : ' ';
    cr_expect_eq(strspn(body, (char[]){letter, '\0'}), a.body_len);
    answer_ok(r, a.question);
    return letter;
}

/* The parent reads nothing until the first body fills the channel. */
Test(http_front, what_the_channel_has_no_room_for_waits, .timeout = 60)
{
    struct rig r;
    static const char letters[] = "abc";
    auto_sb struct sb served = SB_INIT(16);
    int fds[3];
    rig_init_post(&r, /* clk= */ NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = visit_with(&r, "");
        post_longest(&r, fds[i], letters[i]);
    }
    while (!has_question(&r))
        step(&r);
    auto_fd int page = visit_with(&r, "GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_expect(is_open(&r, page));
    for (size_t i = 0; i < ARRAY_LEN(fds) + 1; i++)
        sb_add_char(&served, serve_next(&r));
    cr_expect_eq(strspn(sb_str(&served), "abc "), 4);
    cr_expect(hears(&r, page, "\r\n\r\nok"));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        cr_expect_not_null(strchr(sb_str(&served), letters[i]));
        cr_expect(hears(&r, fds[i], "\r\n\r\nok"));
        (void)close(fds[i]);
    }
    rig_done(&r);
}

/* --- Crowds and ends --- */

/* Pods are bound side by side, each on a connection. */
Test(http_front, no_crowd_closes_a_connection_that_waits_for_its_answer, .timeout = 60)
{
    struct rig r;
    int fds[HTTP_FRONT_CONNECTIONS + 8];
    uint16_t questions[ARRAY_LEN(fds)];
    int silent[HTTP_FRONT_CONNECTIONS];
    rig_init_post(&r, /* clk= */ NULL, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = visit_with(&r, POST_OF_1 "x");
        questions[i] = next_post(&r);
    }
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        silent[i] = visit_with(&r, "");
        step(&r);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        answer_ok(&r, questions[i]);
        cr_expect(hears(&r, fds[i], "\r\n\r\nok"), "visitor %zu", i);
        (void)close(fds[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(silent); i++)
        (void)close(silent[i]);
    rig_done(&r);
}

static void order_to_leave(const struct rig *r)
{
    const struct http_answer leave = {.question = HTTP_LEAVE};
    cr_assert_eq(send(r->parent, &leave, sizeof(leave), MSG_NOSIGNAL), sizeof(leave));
}

static void expect_to_end(struct rig *r)
{
    auto_err struct err e = {0};
    while (http_front_step(r->front, /* max_wait_ms= */ 10, /* ret_busy= */ NULL, &e) == 0)
        ;
    cr_expect_eq(e.kind, ERR_CANCELED, "%s", err_msg(&e));
}

Test(http_front, the_order_to_leave_waits_for_answers, .timeout = 60)
{
    struct rig r;
    rig_init_post(&r, /* clk= */ NULL, 0);
    auto_fd int fd = visit_with(&r, POST_OF_1 "x");
    auto_fd int later = visit_with(&r, POST_OF_1);
    uint16_t question = next_post(&r);
    cr_assert(is_open(&r, later));
    order_to_leave(&r);
    cr_assert(is_open(&r, fd));
    answer_ok(&r, question);
    cr_expect(hears(&r, fd, "\r\nConnection: close\r\n"));
    say(later, "x");
    answer_ok(&r, next_post(&r));
    cr_expect(hears(&r, later, "\r\nConnection: close\r\n"));
    cr_expect(hears(&r, later, "\r\n\r\nok"));
    expect_to_end(&r);
    rig_done(&r);
}

/* A visitor may be about to send the next request, and does not repeat it when it is lost. */
Test(http_front, the_order_to_leave_gives_idle_visitors_time_for_a_last_post, .timeout = 60)
{
    struct rig r;
    auto_clock struct clock *clk = clock_fake_new(0);
    int fds[2];
    rig_init_post(&r, clk, 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = visit_with(&r, POST_OF_1 "x");
        answer_ok(&r, next_post(&r));
        cr_assert(hears(&r, fds[i], "\r\n\r\nok"));
    }
    order_to_leave(&r);
    cr_expect(is_open(&r, fds[0]) && is_open(&r, fds[1]));
    say(fds[0], POST_OF_1 "x");
    answer_ok(&r, next_post(&r));
    cr_expect(hears(&r, fds[0], "\r\nConnection: close\r\n"));
    cr_expect(is_open(&r, fds[1]));
    clock_fake_advance(clk, 250);
    expect_to_end(&r);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    rig_done(&r);
}
