/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/xalloc.h"

#include "grpc_support.h"
#include "nodeagent/kubelet/grpc_socket.h"

/* What peers do that mean harm or are broken. Whatever it is, it ends their call or connection, and
 * others are served. */

#define END_STREAM   1
#define END_HEADERS  4
#define DATA         0
#define RST_STREAM   3
#define SETTINGS     4
#define GOAWAY       7
#define CONTINUATION 9

static const struct grpc_limits defaults;
static const struct grpc_limits limits = {.max_message = 1000, .request_ms = 100, .idle_ms = 300};
static const struct grpc_raw_headers proper;

static void expect_served(struct grpc_world *w)
{
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "still here", &a);
    grpc_settle(w);
    cr_expect_str_eq(a.message, "still here");
}

static bool send_frame(struct grpc_world *w, int fd, uint8_t type, uint8_t flags, const void *p,
                       size_t len)
{
    auto_free uint8_t *frame = xmalloc(len + 9);
    return grpc_raw_send(w, fd, frame, grpc_raw_frame(frame, type, flags, 1, p, len));
}

static bool send_headers(struct grpc_world *w, int fd, uint8_t flags,
                         const struct grpc_raw_headers *h)
{
    auto_free uint8_t *frame = xmalloc(64UL << 10);
    return grpc_raw_send(w, fd, frame, grpc_raw_request(frame, flags, 1, h));
}

/* Sends one call in one piece and returns what comes back. */
static struct grpc_raw_reply call_raw(struct grpc_world *w, const struct grpc_raw_headers *h,
                                      const void *body, size_t len)
{
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc((64UL << 10) + len);
    size_t n = grpc_raw_request(frames, END_HEADERS, 1, h);
    n += grpc_raw_frame(frames + n, DATA, END_STREAM, 1, body, len);
    cr_assert_eq(write(fd, frames, n), (ssize_t)n);
    grpc_settle(w);
    return grpc_raw_receive(fd);
}

/* ---- not HTTP/2 ---- */

Test(grpc_abuse, another_protocol_is_hung_up_on)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    static const char http1[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    cr_expect_not(grpc_raw_send(w, fd, http1, strlen(http1)));
    expect_served(w);
}

Test(grpc_abuse, garbage_is_hung_up_on)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    struct rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 50; i++) {
        auto_fd int fd = grpc_raw_connect(w->path);
        cr_expect(grpc_raw_hello(w, fd));
        bool open = true;
        for (int k = 0; k < 100 && open; k++) {
            uint8_t garbage[512];
            for (size_t n = 0; n < sizeof(garbage); n++)
                garbage[n] = (uint8_t)rng_below(&rng, 256);
            open = grpc_raw_send(w, fd, garbage, sizeof(garbage));
        }
        close(TAKE_FD(fd));
    }
    grpc_settle(w);
    expect_served(w);
}

/* ---- silence ---- */

Test(grpc_abuse, a_connection_that_says_nothing_is_closed)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    auto_fd int hello = grpc_raw_connect(w->path);
    cr_expect(grpc_raw_hello(w, hello));
    grpc_pass(w, limits.idle_ms - 1);
    cr_expect(grpc_raw_is_open(fd) && grpc_raw_is_open(hello));
    grpc_pass(w, 1);
    cr_expect_not(grpc_raw_is_open(fd));
    cr_expect_not(grpc_raw_is_open(hello));
}

Test(grpc_abuse, a_connection_that_was_used_may_be_silent)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_client_call(w->client, GRPC_STREAM, NULL, 0, 1000 * limits.idle_ms, grpc_on_asked, &a);
    grpc_settle(w);
    grpc_pass(w, 100 * limits.idle_ms);
    cr_expect_eq(w->seen->ends, 0);
    cr_assert_not_null(w->seen->open);
    grpc_call_finish(w->seen->open, GRPC_OK, NULL);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_OK);
}

Test(grpc_abuse, half_a_preface_is_closed)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    cr_expect(grpc_raw_send(w, fd, "PRI * HTTP/2", 12));
    grpc_pass(w, limits.idle_ms);
    cr_expect_not(grpc_raw_is_open(fd));
}

/* A call that is answered, on a connection that stays. */
static int use_connection(struct grpc_world *w)
{
    int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    cr_assert(send_headers(w, fd, END_HEADERS, &proper));
    cr_assert(send_frame(w, fd, DATA, END_STREAM, "\0\0\0\0\0", 5));
    cr_assert_eq(w->seen->calls, 1);
    return fd;
}

Test(grpc_abuse, half_a_frame_is_closed_even_where_the_connection_was_used)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = use_connection(w);
    grpc_pass(w, 10 * limits.idle_ms);
    cr_expect(grpc_raw_is_open(fd));
    cr_expect(grpc_raw_send(w, fd, "\0\0\x08\x06", 4));
    grpc_pass(w, limits.idle_ms - 1);
    cr_expect(grpc_raw_send(w, fd, "\0", 1), "a byte more does not buy time");
    grpc_pass(w, 1);
    cr_expect_not(grpc_raw_is_open(fd));
}

Test(grpc_abuse, frames_that_come_slowly_but_whole_are_fine)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = use_connection(w);
    static const char ping[] = "\0\0\x08\x06\0\0\0\0\0pingping";
    uint8_t rest_and_next[17];
    memcpy(rest_and_next, ping + 5, 12);
    memcpy(rest_and_next + 12, ping, 5);
    cr_expect(grpc_raw_send(w, fd, ping, 5));
    for (int i = 0; i < 10; i++) {
        grpc_pass(w, limits.idle_ms - 1);
        cr_expect(grpc_raw_send(w, fd, rest_and_next, sizeof(rest_and_next)));
    }
}

Test(grpc_abuse, a_request_without_its_body_is_answered_and_the_connection_stays)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    cr_expect(send_headers(w, fd, END_HEADERS, &proper));
    grpc_pass(w, limits.request_ms);
    struct grpc_raw_reply reply = grpc_raw_receive(fd);
    cr_expect_eq(reply.grpc_status, GRPC_DEADLINE_EXCEEDED);
    cr_expect_eq(reply.reset, 0, "NO_ERROR: the rest is not wanted");
    cr_expect(grpc_raw_is_open(fd));
    cr_expect_eq(w->seen->calls, 0);
}

Test(grpc_abuse, headers_without_an_end_are_given_up)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    cr_expect(send_headers(w, fd, /* flags= */ 0, &proper));
    grpc_pass(w, limits.idle_ms);
    cr_expect_not(grpc_raw_is_open(fd));
}

Test(grpc_abuse, a_peers_own_deadline_ends_its_call)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    const struct grpc_raw_headers h = {.path = GRPC_STREAM, .name = "grpc-timeout", .value = "50m"};
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    size_t n = grpc_raw_request(frames, END_HEADERS, 1, &h);
    n += grpc_raw_frame(frames + n, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
    cr_assert_eq(write(fd, frames, n), (ssize_t)n);
    grpc_settle(w);
    grpc_pass(w, 49);
    cr_expect_eq(w->seen->ends, 0);
    grpc_pass(w, 1);
    cr_expect_eq(w->seen->ends, 1);
    cr_expect_eq(grpc_raw_receive(fd).grpc_status, GRPC_DEADLINE_EXCEEDED);
}

/* ---- floods ---- */

Test(grpc_abuse, streams_opened_and_reset_by_the_thousand_close_the_connection_and_cost_little)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    expect_served(w);
    size_t before = grpc_allocated();
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    uint32_t opened = 0;
    size_t most = 0;
    for (bool open = true; open && opened < 20000; opened++) {
        size_t n = grpc_raw_request(frames, END_HEADERS, 2 * opened + 1, &proper);
        n += grpc_raw_frame(frames + n, RST_STREAM, 0, 2 * opened + 1, "\0\0\0\x08", 4);
        open = grpc_raw_send(w, fd, frames, n);
        size_t now = grpc_allocated();
        most = now > most ? now : most;
    }
    cr_expect_lt(opened, 5000);
    cr_expect_lt(most, before + (1UL << 20), "%zu bytes more", most - before);
    cr_expect_eq(w->seen->calls, 1, "no handler hears of them");
    expect_served(w);
}

Test(grpc_abuse, streams_left_open_are_refused_beyond_the_limit)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_streams = 4, .idle_ms = 1000});
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    size_t before = grpc_allocated();
    for (uint32_t i = 0; i < 1000; i++)
        (void)grpc_raw_send(w, fd, frames,
                            grpc_raw_request(frames, END_HEADERS, 2 * i + 1, &proper));
    cr_expect_lt(grpc_allocated(), before + (1UL << 20));
    expect_served(w);
}

Test(grpc_abuse, silent_connections_give_way_to_new_ones)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_connections = 4});
    int fds[10];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = grpc_raw_connect(w->path);
        grpc_pass(w, 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        cr_expect_eq(grpc_raw_is_open(fds[i]), i >= 6, "connection %zu", i);
    expect_served(w);
    cr_expect_not(grpc_raw_is_open(fds[6]), "the one silent for longest");
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
}

Test(grpc_abuse, a_connection_with_a_call_is_not_given_up_for_a_new_one)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_connections = 2});
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_client_call(w->client, GRPC_STREAM, NULL, 0, 1000000, grpc_on_asked, &a);
    grpc_pass(w, 1000);
    for (int i = 0; i < 20; i++) {
        int fd = grpc_raw_connect(w->path);
        grpc_pass(w, 1);
        close(fd);
    }
    cr_expect_eq(w->seen->ends, 0);
    cr_expect_eq(a.replies, 0);
}

Test(grpc_abuse, where_all_have_calls_a_new_connection_is_refused)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_connections = 1});
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_STREAM, "", &a);
    grpc_settle(w);
    auto_fd int fd = grpc_raw_connect(w->path);
    grpc_settle(w);
    cr_expect_not(grpc_raw_is_open(fd));
    cr_expect_eq(a.replies, 0);
}

Test(grpc_abuse, where_descriptors_run_out_the_server_waits_and_does_not_spin)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    grpc_settle(w); /* would never end */
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    grpc_pass(w, 1000);
    expect_served(w);
}

Test(grpc_abuse, requests_that_are_large_together_are_refused)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_message = 1000});
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    uint8_t most[1004] = {0, 0, 0, 1000 >> 8, 1000 & 0xff}; /* all but the last byte */
    size_t n = 0;
    for (uint32_t stream = 1; stream <= 9; stream += 2) {
        n += grpc_raw_request(frames + n, END_HEADERS, stream, &proper);
        n += grpc_raw_frame(frames + n, DATA, 0, stream, most, sizeof(most));
    }
    cr_assert_eq(write(fd, frames, n), (ssize_t)n);
    grpc_settle(w);
    cr_expect_eq(grpc_raw_receive(fd).grpc_status, GRPC_RESOURCE_EXHAUSTED, "the fifth");
}

/* ---- wrong requests ---- */

Test(grpc_abuse, wrong_headers_are_answered)
{
    static const struct {
        struct grpc_raw_headers headers;
        int http_status, grpc_status;
    } cases[] = {
        {{0}, 200, GRPC_OK},
        {{.type = "application/grpc+proto"}, 200, GRPC_OK},
        {{.name = "grpc-encoding", .value = "identity"}, 200, GRPC_OK},
        {{.method = "GET"}, 405, GRPC_INTERNAL},
        {{.type = "application/json"}, 415, GRPC_INTERNAL},
        {{.type = "application/grpcx"}, 415, GRPC_INTERNAL},
        {{.path = "/test.Test/Nothing"}, 200, GRPC_UNIMPLEMENTED},
        {{.path = "/test.Test/Echoo"}, 200, GRPC_UNIMPLEMENTED},
        {{.name = "grpc-encoding", .value = "gzip"}, 200, GRPC_UNIMPLEMENTED},
        {{.name = "grpc-timeout", .value = "soon"}, 200, GRPC_INTERNAL},
    };
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct grpc_raw_reply reply = call_raw(w, &cases[i].headers, "\0\0\0\0\1x", 6);
        cr_expect_eq(reply.http_status, cases[i].http_status, "case %zu: %d", i, reply.http_status);
        cr_expect_eq(reply.grpc_status, cases[i].grpc_status, "case %zu: %d", i, reply.grpc_status);
    }
}

Test(grpc_abuse, wrong_bodies_are_answered)
{
    static const struct {
        const char *body;
        size_t len;
        int status;
    } cases[] = {
        {"\0\0\0\0\3abc", 8, GRPC_OK},
        {"", 0, GRPC_INTERNAL},
        {"\0\0\0\0", 4, GRPC_INTERNAL},
        {"\0\0\0\0\3ab", 7, GRPC_INTERNAL},
        {"\0\0\0\0\3abcd", 9, GRPC_UNIMPLEMENTED},
        {"\0\0\0\0\1a\0\0\0\0\1b", 12, GRPC_UNIMPLEMENTED},
        {"\1\0\0\0\3abc", 8, GRPC_UNIMPLEMENTED},
        {"\0\xff\xff\xff\xff"
         "abc",
         8, GRPC_RESOURCE_EXHAUSTED},
    };
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct grpc_raw_reply reply = call_raw(w, &proper, cases[i].body, cases[i].len);
        cr_expect_eq(reply.grpc_status, cases[i].status, "case %zu: %d", i, reply.grpc_status);
    }
    cr_expect_eq(w->seen->calls, 1);
}

Test(grpc_abuse, headers_without_end_in_size_are_not_kept)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    char value[8000] = {0};
    memset(value, 'v', sizeof(value) - 1);
    const struct grpc_raw_headers h = {.name = "x-long", .value = value};
    bool open = send_headers(w, fd, /* flags= */ 0, &h);
    size_t before = grpc_allocated();
    auto_free uint8_t *frame = xmalloc(64UL << 10);
    size_t len = grpc_raw_fields(frame, 0, 1, (const char *[]){"x-more", value, NULL});
    frame[3] = CONTINUATION;
    for (int i = 0; i < 1000 && open; i++)
        open = grpc_raw_send(w, fd, frame, len);
    cr_expect_lt(grpc_allocated(), before + (1UL << 20));
    cr_expect_not(open);
    expect_served(w);
}

Test(grpc_abuse, large_headers_reset_their_stream)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    char value[6000] = {0};
    memset(value, 'v', sizeof(value) - 1);
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    const struct grpc_raw_headers h = {.name = "a", .value = value};
    size_t n = grpc_raw_request(frames, 0, 1, &h);
    for (uint8_t i = 0; i < 2; i++) {
        size_t len = grpc_raw_fields(frames + n, i == 1 ? END_HEADERS : 0, 1,
                                     (const char *[]){"b", value, NULL});
        frames[n + 3] = CONTINUATION;
        n += len;
    }
    cr_assert_eq(write(fd, frames, n), (ssize_t)n);
    grpc_settle(w);
    cr_expect_eq(grpc_raw_receive(fd).reset, 2, "INTERNAL_ERROR");
    cr_expect(grpc_raw_is_open(fd));
}

/* ---- going away ---- */

Test(grpc_abuse, a_request_reset_in_the_same_breath_is_not_handled)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_fd int fd = grpc_raw_connect(w->path);
    (void)grpc_raw_hello(w, fd);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    size_t n = grpc_raw_request(frames, END_HEADERS, 1, &proper);
    n += grpc_raw_frame(frames + n, DATA, END_STREAM, 1, "\0\0\0\0\0", 5);
    n += grpc_raw_frame(frames + n, RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    cr_expect(grpc_raw_send(w, fd, frames, n));
    cr_expect_eq(w->seen->calls, 0);
}

Test(grpc_abuse, hanging_up_anywhere_in_a_call_leaves_nothing_behind)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    auto_free uint8_t *frames = xmalloc(64UL << 10);
    const struct grpc_raw_headers h = {.path = GRPC_STREAM};
    size_t len = grpc_raw_request(frames, END_HEADERS, 1, &h);
    len += grpc_raw_frame(frames + len, DATA, END_STREAM, 1, "\0\0\0\0\3abc", 8);
    for (size_t n = 0; n <= len; n++) {
        int fd = grpc_raw_connect(w->path);
        (void)grpc_raw_hello(w, fd);
        (void)grpc_raw_send(w, fd, frames, n);
        close(fd);
        grpc_settle(w);
    }
    cr_expect_eq(w->seen->calls, 1, "only the last was whole");
    cr_expect_eq(w->seen->ends, 1);
    expect_served(w);
}

/* ---- servers that are none ---- */

/* What a call comes to when somebody answers with these bytes and hangs up. */
static int code_of_answer(const void *answer, size_t len)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    w->server = grpc_server_free(w->server);
    int listener = -1;
    struct grpc_socket_id id;
    cr_assert_eq(grpc_socket_listen(w->path, &listener, &id, NULL), 0);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "", &a);
    grpc_settle(w);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    cr_expect(grpc_raw_is_open(fd));
    cr_assert_eq(write(fd, answer, len), (ssize_t)len);
    grpc_settle(w);
    close(fd);
    grpc_settle(w);
    close(listener);
    cr_expect_eq(a.replies, 1);
    return a.code;
}

Test(grpc_abuse, peers_that_are_no_grpc_servers_are_told_apart)
{
    static const struct {
        const char *fields[7];
        const char *body;
        size_t body_len;
        const char *trailers[5];
        int code;
    } cases[] = {
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\1x",
         6,
         {"grpc-status", "0"},
         GRPC_OK},
        {{":status", "200", "content-type", "application/grpc"},
         "",
         0,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\2x",
         6,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "application/grpc"},
         "\1\0\0\0\1x",
         6,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\1x\0\0\0\0\1x",
         12,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "application/grpc", "grpc-encoding", "gzip"},
         "\0\0\0\0\1x",
         6,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\1x",
         6,
         {"grpc-status", "5", "grpc-message", "%zz%C3"},
         GRPC_NOT_FOUND},
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\1x",
         6,
         {"grpc-status", "five"},
         GRPC_UNKNOWN},
        {{":status", "200", "content-type", "application/grpc"},
         "\0\0\0\0\1x",
         6,
         {"x", "y"},
         GRPC_INTERNAL},
        {{":status", "200", "content-type", "text/html"},
         "<html>",
         6,
         {"grpc-status", "0"},
         GRPC_INTERNAL},
        {{":status", "404", "content-type", "text/html"},
         "<html>",
         6,
         {"x", "y"},
         GRPC_UNIMPLEMENTED},
        {{":status", "503", "content-type", "text/html"},
         "<html>",
         6,
         {"x", "y"},
         GRPC_UNAVAILABLE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free uint8_t *frames = xmalloc(64UL << 10);
        size_t n = grpc_raw_frame(frames, SETTINGS, 0, 0, NULL, 0);
        n += grpc_raw_fields(frames + n, END_HEADERS, 1, cases[i].fields);
        n += grpc_raw_frame(frames + n, DATA, 0, 1, cases[i].body, cases[i].body_len);
        n += grpc_raw_fields(frames + n, END_HEADERS | END_STREAM, 1, cases[i].trailers);
        int code = code_of_answer(frames, n);
        cr_expect_eq(code, cases[i].code, "case %zu: %s", i, grpc_code_name(code));
    }
}

Test(grpc_abuse, a_connection_that_cost_a_deadline_is_given_up)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&limits);
    w->server = grpc_server_free(w->server);
    int listener = -1;
    struct grpc_socket_id id;
    cr_assert_eq(grpc_socket_listen(w->path, &listener, &id, NULL), 0);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "", &a);
    grpc_settle(w);
    auto_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    cr_expect(grpc_raw_is_open(fd));
    grpc_pass(w, GRPC_ASK_MS);
    cr_expect_eq(a.code, GRPC_DEADLINE_EXCEEDED);
    cr_expect_not(grpc_raw_is_open(fd));
    close(listener);
}

Test(grpc_abuse, resets_are_told_apart)
{
    static const struct {
        uint8_t error;
        int code;
    } cases[] = {{7, GRPC_UNAVAILABLE},        {8, GRPC_CANCELLED}, {11, GRPC_RESOURCE_EXHAUSTED},
                 {12, GRPC_PERMISSION_DENIED}, {2, GRPC_INTERNAL},  {0, GRPC_INTERNAL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t frames[64];
        size_t n = grpc_raw_frame(frames, SETTINGS, 0, 0, NULL, 0);
        const uint8_t error[4] = {0, 0, 0, cases[i].error};
        n += grpc_raw_frame(frames + n, RST_STREAM, 0, 1, error, sizeof(error));
        cr_expect_eq(code_of_answer(frames, n), cases[i].code, "case %zu", i);
    }
}

Test(grpc_abuse, peers_that_hang_up_or_speak_otherwise_are_told_apart)
{
    static const char http1[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    uint8_t goodbye[64];
    size_t n = grpc_raw_frame(goodbye, SETTINGS, 0, 0, NULL, 0);
    n += grpc_raw_frame(goodbye + n, GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    cr_expect_eq(code_of_answer("", 0), GRPC_UNAVAILABLE);
    cr_expect_eq(code_of_answer(goodbye, n), GRPC_UNAVAILABLE);
    cr_expect_eq(code_of_answer(http1, strlen(http1)), GRPC_INTERNAL);
}
