/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "grpc_support.h"

static const struct grpc_limits defaults;

/* Stands before the C library's, to count. */
static unsigned sends;

ssize_t send(int fd, const void *p, size_t len, int flags)
{
    sends++;
    return sendto(fd, p, len, flags, NULL, 0);
}

Test(grpc, a_call_brings_an_answer)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "hello", &a);
    cr_expect_eq(a.replies, 0, "never from within the call");
    grpc_settle(w);
    cr_expect_eq(a.replies, 1);
    cr_expect_eq(a.code, GRPC_OK);
    cr_expect_str_eq(a.message, "hello");
}

Test(grpc, a_call_is_one_write_each_way)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked first = {0};
    auto_grpc_asked struct grpc_asked second = {0};
    grpc_ask(w, GRPC_ECHO, "connect", &first);
    grpc_settle(w);
    sends = 0;
    grpc_ask(w, GRPC_ECHO, "hello", &second);
    grpc_settle(w);
    cr_expect_str_eq(second.message, "hello");
    cr_expect_eq(sends, 2);
}

Test(grpc, an_empty_message_is_a_message)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "", &a);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_OK);
    cr_expect_eq(a.len, 0);
}

Test(grpc, calls_share_a_connection_and_do_not_mix)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    struct grpc_asked a[50] = {0};
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        auto_free char *message = xasprintf("message %zu", i);
        grpc_ask(w, GRPC_ECHO, message, &a[i]);
    }
    grpc_settle(w);
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        auto_free char *message = xasprintf("message %zu", i);
        cr_expect_str_eq(a[i].message, message);
        grpc_asked_done(&a[i]);
    }
}

Test(grpc, more_calls_than_streams_wait_for_their_turn)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&(struct grpc_limits){.max_streams = 2});
    struct grpc_asked a[20] = {0};
    for (size_t i = 0; i < ARRAY_LEN(a); i++)
        grpc_ask(w, GRPC_ECHO, "x", &a[i]);
    grpc_settle(w);
    unsigned good = 0;
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        good += a[i].replies == 1 && a[i].code == GRPC_OK;
        grpc_asked_done(&a[i]);
    }
    cr_expect_geq(good, 2, "the rest were refused before the server's settings were known");
    auto_grpc_asked struct grpc_asked later = {0};
    grpc_ask(w, GRPC_ECHO, "x", &later);
    grpc_settle(w);
    cr_expect_eq(later.code, GRPC_OK);
}

Test(grpc, an_error_brings_its_text_whatever_is_in_it)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_FAIL, "50% of the größte Karte is busy", &a);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_FAILED_PRECONDITION);
    cr_expect_str_eq(a.text, "50% of the größte Karte is busy");
    cr_expect_eq(a.len, 0);
}

Test(grpc, an_unknown_method_is_unimplemented)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, "/test.Test/Nothing", "", &a);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_UNIMPLEMENTED);
}

/* ---- sizes ---- */

static void ask_bytes(struct grpc_world *w, const char *method, size_t len, struct grpc_asked *a)
{
    auto_free uint8_t *message = xmalloc(len);
    memset(message, 'm', len);
    grpc_client_call(w->client, method, message, len, GRPC_ASK_MS, grpc_on_asked, a);
    grpc_settle(w);
}

Test(grpc, four_mebibytes_go_through_and_back)
{
    size_t size = 4UL << 20;
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_message = size, .max_queued = size});
    auto_grpc_asked struct grpc_asked a = {0};
    ask_bytes(w, GRPC_ECHO, size, &a);
    cr_expect_eq(a.code, GRPC_OK, "%s", a.text);
    cr_expect_eq(a.len, size);
    cr_expect_eq(a.message[size - 1], 'm');
}

Test(grpc, a_request_beyond_the_limit_is_refused)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_message = 1000});
    auto_grpc_asked struct grpc_asked fits = {0};
    auto_grpc_asked struct grpc_asked a = {0};
    ask_bytes(w, GRPC_ECHO, 1000, &fits);
    ask_bytes(w, GRPC_ECHO, 1001, &a);
    cr_expect_eq(fits.code, GRPC_OK);
    cr_expect_eq(a.code, GRPC_RESOURCE_EXHAUSTED);
    cr_expect_eq(w->seen->calls, 1);
}

Test(grpc, an_answer_beyond_the_clients_limit_is_refused_and_the_next_call_works)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    (void)grpc_client_free(w->client);
    w->client = grpc_client_new(w->reactor, w->path, &(struct grpc_limits){.max_message = 1000});
    auto_grpc_asked struct grpc_asked a = {0};
    auto_grpc_asked struct grpc_asked next = {0};
    ask_bytes(w, GRPC_ECHO, 100000, &a);
    ask_bytes(w, GRPC_ECHO, 1000, &next);
    cr_expect_eq(a.code, GRPC_RESOURCE_EXHAUSTED);
    cr_expect_eq(next.code, GRPC_OK);
}

Test(grpc, an_answer_beyond_the_servers_queue_is_refused)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&(struct grpc_limits){.max_queued = 10});
    auto_grpc_asked struct grpc_asked a = {0};
    ask_bytes(w, GRPC_ECHO, 11, &a);
    cr_expect_eq(a.code, GRPC_RESOURCE_EXHAUSTED);
}

/* ---- streams ---- */

Test(grpc, a_stream_stays_open_until_it_is_finished)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_STREAM, "list", &a);
    grpc_settle(w);
    cr_expect_eq(a.replies, 0);
    cr_assert_not_null(w->seen->open);
    grpc_call_finish(w->seen->open, GRPC_OK, NULL);
    grpc_settle(w);
    cr_expect_eq(a.replies, 1);
    cr_expect_str_eq(a.message, "list");
    cr_expect_eq(w->seen->ends, 0, "finishing is not an end by the peer");
}

Test(grpc, a_handler_hears_that_the_peer_went_away)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_STREAM, "list", &a);
    grpc_settle(w);
    w->client = grpc_client_free(w->client);
    grpc_settle(w);
    cr_expect_eq(w->seen->ends, 1);
    cr_expect_eq(a.replies, 0, "dropped calls are not answered");
}

Test(grpc, a_handler_that_does_not_listen_may_finish_a_call_whose_peer_went_away)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_KEEP, "", &a);
    grpc_settle(w);
    w->client = grpc_client_free(w->client);
    grpc_settle(w);
    cr_expect_eq(grpc_call_send(w->seen->open, (const uint8_t *)"x", 1, NULL), 0);
    grpc_call_finish(w->seen->open, GRPC_OK, NULL);
}

Test(grpc, a_call_that_nobody_finishes_is_freed_with_the_server)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_KEEP, "", &a);
    grpc_settle(w);
    w->client = grpc_client_free(w->client);
    grpc_settle(w);
    cr_expect_not_null(w->seen->open);
}

Test(grpc, what_a_stalled_peer_does_not_read_is_bounded)
{
    auto_grpc_world struct grpc_world *w =
        grpc_world_new(&(struct grpc_limits){.max_queued = 1 << 20, .max_message = 1 << 24});
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_STREAM, "list", &a);
    grpc_settle(w);
    uint8_t chunk[65536] = {0};
    auto_err struct err e = {0};
    int rc = 0;
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = grpc_call_send(w->seen->open, chunk, sizeof(chunk), &e);
    cr_expect_eq(rc, -ERR_TOO_LARGE);
}

Test(grpc, ending_a_server_ends_its_calls)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    auto_grpc_asked struct grpc_asked kept = {0};
    grpc_ask(w, GRPC_STREAM, "list", &a);
    grpc_ask(w, GRPC_KEEP, "", &kept);
    grpc_settle(w);
    w->server = grpc_server_free(w->server);
    cr_expect_eq(w->seen->ends, 1);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_UNAVAILABLE);
    cr_expect_eq(kept.code, GRPC_UNAVAILABLE);
    cr_expect_str_eq(a.text, "the server is shutting down");
    cr_expect_str_eq(kept.text, "the server is shutting down");
}

/* ---- deadlines ---- */

Test(grpc, a_call_ends_at_its_deadline)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_STREAM, "", &a);
    grpc_settle(w);
    grpc_pass(w, GRPC_ASK_MS - 1);
    cr_expect_eq(a.replies, 0);
    grpc_pass(w, 1);
    cr_expect_eq(a.replies, 1);
    cr_expect_eq(a.code, GRPC_DEADLINE_EXCEEDED);
    cr_expect_eq(w->seen->ends, 1, "the handler hears of it");
}

Test(grpc, a_stuck_call_does_not_hold_the_next)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked stuck = {0};
    auto_grpc_asked struct grpc_asked next = {0};
    auto_grpc_asked struct grpc_asked after = {0};
    grpc_ask(w, GRPC_KEEP, "", &stuck);
    grpc_ask(w, GRPC_ECHO, "next", &next);
    grpc_settle(w);
    cr_expect_eq(next.code, GRPC_OK);
    cr_expect_eq(stuck.replies, 0);
    grpc_pass(w, GRPC_ASK_MS);
    grpc_ask(w, GRPC_ECHO, "after", &after);
    grpc_settle(w);
    cr_expect_eq(stuck.code, GRPC_DEADLINE_EXCEEDED);
    cr_expect_str_eq(after.message, "after");
}

/* A socket that listens, and nobody accepts. */
static int listen_only(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cr_assert_lt(strlen(path), sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    return fd;
}

Test(grpc, a_server_that_says_nothing_at_all_costs_the_deadline_and_no_more)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    w->server = grpc_server_free(w->server);
    int fd = listen_only(w->path);
    for (int i = 0; i < 3; i++) {
        auto_grpc_asked struct grpc_asked a = {0};
        grpc_ask(w, GRPC_ECHO, "", &a);
        grpc_settle(w);
        grpc_pass(w, GRPC_ASK_MS);
        cr_expect_eq(a.replies, 1);
        cr_expect(a.code == GRPC_DEADLINE_EXCEEDED || a.code == GRPC_UNAVAILABLE,
                  "late, or its backlog is full");
    }
    close(fd);
}

/* ---- coming and going ---- */

Test(grpc, no_socket_is_unavailable_at_once)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    w->server = grpc_server_free(w->server);
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "", &a);
    cr_expect_eq(a.replies, 0);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_UNAVAILABLE);
    cr_expect(strstr(a.text, "No such file"), "%s", a.text);
}

Test(grpc, a_socket_that_nobody_serves_is_unavailable_at_once)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    w->server = grpc_server_free(w->server);
    close(listen_only(w->path));
    auto_grpc_asked struct grpc_asked a = {0};
    grpc_ask(w, GRPC_ECHO, "", &a);
    grpc_settle(w);
    cr_expect_eq(a.code, GRPC_UNAVAILABLE);
    cr_expect(strstr(a.text, "refused"), "%s", a.text);
}

static struct grpc_server *serve_nothing(struct grpc_world *w, const char *path, struct err *e)
{
    struct grpc_server *s = NULL;
    const struct grpc_server_options o = {.path = path};
    return grpc_server_new(w->reactor, &o, &s, e) < 0 ? NULL : s;
}

Test(grpc, a_client_connects_again_to_a_new_server)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked first = {0};
    auto_grpc_asked struct grpc_asked second = {0};
    grpc_ask(w, GRPC_ECHO, "", &first);
    grpc_settle(w);
    (void)grpc_server_free(w->server);
    grpc_settle(w);
    w->server = serve_nothing(w, w->path, NULL);
    grpc_ask(w, GRPC_ECHO, "", &second);
    grpc_settle(w);
    cr_expect_eq(first.code, GRPC_OK);
    cr_expect_eq(second.code, GRPC_UNIMPLEMENTED, "the new one has no methods");
}

static void on_reply_free(void *arg, const struct grpc_reply *reply)
{
    (void)reply;
    struct grpc_world *w = arg;
    w->client = grpc_client_free(w->client);
}

Test(grpc, a_reply_may_free_the_client)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked other = {0};
    grpc_client_call(w->client, GRPC_ECHO, NULL, 0, GRPC_ASK_MS, on_reply_free, w);
    grpc_ask(w, GRPC_ECHO, "", &other);
    grpc_settle(w);
    cr_expect_null(w->client);
    cr_expect_eq(other.replies, 0);
}

struct chain {
    struct grpc_world *w;
    struct grpc_asked *last;
};

static void on_reply_next(void *arg, const struct grpc_reply *reply)
{
    (void)reply;
    const struct chain *c = arg;
    grpc_client_call(c->w->client, GRPC_ECHO, (const uint8_t *)"2", 1, GRPC_ASK_MS, grpc_on_asked,
                     c->last);
}

Test(grpc, a_reply_may_make_the_next_call)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_grpc_asked struct grpc_asked last = {0};
    struct chain c = {.w = w, .last = &last};
    grpc_client_call(w->client, GRPC_ECHO, NULL, 0, GRPC_ASK_MS, on_reply_next, &c);
    grpc_settle(w);
    cr_expect_str_eq(last.message, "2");
}

/* ---- the socket's path ---- */

Test(grpc, the_socket_is_its_owners_alone)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    struct stat st;
    cr_assert_eq(stat(w->path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
}

Test(grpc, a_path_that_is_served_is_not_taken)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_err struct err e = {0};
    cr_expect_null(serve_nothing(w, w->path, &e));
    cr_expect_eq(e.kind, ERR_EXISTS);
    cr_expect(grpc_server_is_reachable(w->server));
}

Test(grpc, a_path_that_is_no_socket_is_not_taken)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_free char *path = xasprintf("%s/file", w->folder);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    auto_err struct err e = {0};
    cr_expect_null(serve_nothing(w, path, &e));
    cr_expect_eq(e.kind, ERR_EXISTS);
    cr_expect_eq(unlink(path), 0);
}

Test(grpc, a_path_too_long_is_invalid)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    char path[109] = {0};
    memset(path, 'p', sizeof(path) - 1);
    auto_err struct err e = {0};
    cr_expect_null(serve_nothing(w, path, &e));
    cr_expect_eq(e.kind, ERR_INVALID);
}

Test(grpc, a_leftover_socket_is_replaced)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    auto_free char *path = xasprintf("%s/left.sock", w->folder);
    close(listen_only(path));
    auto_grpc_server struct grpc_server *s = serve_nothing(w, path, NULL);
    cr_expect_not_null(s);
    cr_expect(grpc_server_is_reachable(s));
}

Test(grpc, a_newer_servers_socket_is_left_alone)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    cr_assert_eq(unlink(w->path), 0);
    cr_expect_not(grpc_server_is_reachable(w->server));
    auto_grpc_server struct grpc_server *newer = serve_nothing(w, w->path, NULL);
    cr_assert_not_null(newer);
    w->server = grpc_server_free(w->server);
    cr_expect(grpc_server_is_reachable(newer));
}

Test(grpc, a_server_takes_its_path_along)
{
    auto_grpc_world struct grpc_world *w = grpc_world_new(&defaults);
    w->server = grpc_server_free(w->server);
    cr_expect_eq(access(w->path, F_OK), -1);
}

Test(grpc, codes_have_names_and_kinds_that_go_back)
{
    cr_expect_str_eq(grpc_code_name(GRPC_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
    cr_expect_str_eq(grpc_code_name(GRPC_UNAVAILABLE), "UNAVAILABLE");
    cr_expect_str_eq(grpc_code_name(-1), "an unknown code");
    cr_expect_str_eq(grpc_code_name(99), "an unknown code");
    cr_expect_eq(grpc_code_kind(GRPC_DEADLINE_EXCEEDED), ERR_TIMEOUT);
    cr_expect_eq(grpc_code_kind(8), ERR_THROTTLED, "the kubelet's limit on PodResources");
    cr_expect_eq(grpc_code_of(grpc_code_kind(GRPC_NOT_FOUND)), GRPC_NOT_FOUND);
    cr_expect_eq(grpc_code_of(grpc_code_kind(GRPC_CANCELLED)), GRPC_CANCELLED);
}
