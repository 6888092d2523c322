/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_front.h"
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

static void rig_init(struct rig *r, size_t max_held_bytes)
{
    static const char *const paths[] = {"/page"};
    auto_err struct err e = {0};
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    r->parent = ends[0];
    r->channel = ends[1];
    cr_assert_eq(listen_socket_open("127.0.0.1:0", /* port= */ 0, &r->socket, &r->port, &e), 0,
                 "%s", err_msg(&e));
    shrink(r->socket, SO_SNDBUF);
    const struct http_front_options o = {.socket = r->socket,
                                         .paths = paths,
                                         .terms = {.n_routes = ARRAY_LEN(paths), .guarded = true},
                                         .channel = r->channel,
                                         .max_held_bytes = max_held_bytes};
    cr_assert_eq(http_front_new(&o, &r->front, &e), 0, "%s", err_msg(&e));
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

/* A visitor who has asked for the page; *ret_question is what the parent was asked. */
static int visit(struct rig *r, uint16_t *ret_question)
{
    static const char request[] = "GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                  "Authorization: Bearer token\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)r->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    shrink(fd, SO_RCVBUF);
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    cr_assert_eq(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    struct http_ask_record ask;
    while (recv(r->parent, &ask, sizeof(ask), 0) < 0)
        step(r);
    *ret_question = ask.head.question;
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
