/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "scheduler/certificate.h"
#include "service/access_gate.h"
#include "service/http_child.h"
#include "service/http_guests.h"
#include "service/http_server.h"
#include "service/listen_socket.h"
#include "test/unit/http_server_support.h"
#include "test/unit/pki_support.h"

/* A child that is to serve this page says on its channel what no child of ours does. */
#define HIJACKED "/hijacked"

/* The server runs its own program again for its child: this one, before any test begins. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], HTTP_CHILD_VERB) != 0)
        return;
    if (strstr(argv[argc - 1], HIJACKED)) {
        static const char lies[] = "a page that nobody has, asked for in a strange tongue";
        ssize_t n = write(HTTP_CHILD_CHANNEL, lies, sizeof(lies));
        for (char c; n > 0; n = recv(HTTP_CHILD_CHANNEL, &c, 1, 0) + 1) /* does not end by itself */
            ;
        _exit(0);
    }
    exit(http_child_main(argc - 1, argv + 1));
}

enum { LONG_BODY = 200000 };

static int get_ok(void *arg, struct sb *body)
{
    sb_add(body, arg);
    return 200;
}

static int get_not_ready(void *arg, struct sb *body)
{
    (void)arg;
    sb_add(body, "caches are not synced\n");
    return 503;
}

static int get_long(void *arg, struct sb *body)
{
    (void)arg;
    for (int i = 0; i < LONG_BODY; i++)
        sb_add_char(body, 'x');
    return 200;
}

static char hello[] = "hello\n";
static const struct http_route routes[] = {
    {"/healthz", get_ok, .arg = hello},
    {"/readyz", .get = get_not_ready},
    {"/metrics", .get = get_long},
};

static void start(struct running *r)
{
    running_start(r, routes, ARRAY_LEN(routes));
}

/* Sends a request and reads until the server closes. */
static char *ask(const struct running *r, const char *method, const char *path)
{
    auto_fd int fd = running_connect(r);
    auto_sb struct sb out = SB_INIT(1 << 20);
    sb_addf(&out, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    cr_assert_eq(send(fd, out.data, out.len, 0), (ssize_t)out.len);
    sb_reset(&out);
    char buf[4096];
    ssize_t n;
    while ((n = running_receive(fd, buf, sizeof(buf))) > 0)
        sb_add_mem(&out, buf, (size_t)n);
    return sb_take(&out);
}

static void expect_answer(const char *method, const char *path, const char *status, const char *end)
{
    struct running r = {0};
    start(&r);
    auto_free char *got = ask(&r, method, path);
    cr_expect_not_null(strstr(got, status), "%s %s: %s", method, path, got);
    size_t len = strlen(got);
    cr_expect(len >= strlen(end) && strcmp(got + len - strlen(end), end) == 0, "%s", got);
    running_stop(&r);
}

Test(http_server, an_address_is_a_host_or_none_and_a_port)
{
    static const char *const right[] = {"", NULL, ":0", ":8080", "127.0.0.1:65535", "[::1]:80"};
    static const char *const wrong[] = {"8080", "localhost", ":", ":65536", "[::1]", "host:http"};
    for (size_t i = 0; i < ARRAY_LEN(right); i++)
        cr_expect_eq(listen_socket_check_addr("health-addr", right[i], NULL), 0, "%zu", i);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        auto_err struct err e = {0};
        cr_expect_eq(listen_socket_check_addr("health-addr", wrong[i], &e), -(int)ERR_INVALID);
        cr_expect_eq(strncmp(err_msg(&e), "--health-addr: ", 15), 0, "%s", err_msg(&e));
    }
}

Test(http_server, a_route_answers_with_its_body)
{
    expect_answer("GET", "/healthz", " 200 ", "\r\n\r\nhello\n");
}

Test(http_server, a_route_chooses_its_status)
{
    expect_answer("GET", "/readyz", " 503 ", "\r\n\r\ncaches are not synced\n");
}

Test(http_server, head_answers_without_body)
{
    expect_answer("HEAD", "/healthz", " 200 ", "\r\n\r\n");
}

Test(http_server, an_unknown_path_is_404)
{
    expect_answer("GET", "/nothing", " 404 ", "");
}

Test(http_server, another_method_is_405)
{
    expect_answer("POST", "/healthz", " 405 ", "");
}

Test(http_server, a_body_longer_than_any_buffer_arrives_whole)
{
    struct running r = {0};
    start(&r);
    auto_free char *got = ask(&r, "GET", "/metrics");
    const char *body = strstr(got, "\r\n\r\n");
    cr_assert_not_null(body);
    cr_expect_eq(strspn(body + 4, "x"), LONG_BODY);
    running_stop(&r);
}

Test(http_server, silent_connections_do_not_keep_others_out)
{
    struct running r = {0};
    start(&r);
    int silent[32];
    for (size_t i = 0; i < ARRAY_LEN(silent); i++)
        silent[i] = running_connect(&r);
    auto_free char *got = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    for (size_t i = 0; i < ARRAY_LEN(silent); i++)
        (void)close(silent[i]);
    running_stop(&r);
}

/* "" once the server has closed. */
static char *finish(int fd)
{
    static const char rest[] = "Connection: close\r\n\r\n";
    auto_sb struct sb out = SB_INIT(1 << 20);
    char buf[4096];
    ssize_t n;
    (void)send(fd, rest, sizeof(rest) - 1, MSG_NOSIGNAL);
    while ((n = running_receive(fd, buf, sizeof(buf))) > 0)
        sb_add_mem(&out, buf, (size_t)n);
    return sb_take(&out);
}

/* Who sends a request a byte at a time, from ever more connections, holds up no probe: it is the
 * oldest of them that goes when there is no more room. */
Test(http_server, a_crowd_of_slow_senders_keeps_nobody_out)
{
    static const char begun[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
    struct running r = {0};
    start(&r);
    int slow[300];
    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = running_connect(&r);
        (void)send(slow[i], begun, sizeof(begun) - 1, MSG_NOSIGNAL);
    }
    auto_free char *got = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    auto_free char *last = finish(slow[ARRAY_LEN(slow) - 1]);
    cr_expect_not_null(strstr(last, " 200 "), "%s", last);
    auto_free char *first = finish(slow[0]);
    cr_expect_str_empty(first);
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        (void)close(slow[i]);
    running_stop(&r);
}

Test(http_server, a_taken_port_is_an_error)
{
    struct running r = {0};
    start(&r);
    auto_err struct err e = {0};
    auto_free char *addr = NULL;
    cr_assert(asprintf(&addr, "127.0.0.1:%d", http_server_port(r.srv, 0)) > 0);
    const struct http_listener l = {.addr = addr, .routes = routes, .n_routes = 1};
    auto_http_server struct http_server *second = NULL;
    cr_expect_eq(http_server_new(&l, 1, NULL, &second, &e), -(int)ERR_EXISTS);
    running_stop(&r);
}

struct newcomer {
    struct http_listener listener;
    struct http_server *srv;
    int rc;
};

static void *open_server(void *arg)
{
    struct newcomer *n = arg;
    n->rc = http_server_new(&n->listener, 1, NULL, &n->srv, NULL);
    return NULL;
}

/* The children of a program that was killed end after it. */
Test(http_server, a_port_that_is_given_up_a_moment_later_is_waited_for, .timeout = 60)
{
    int before;
    int port = 0;
    int log[2];
    char said[256];
    pthread_t thread;
    auto_free char *addr = NULL;
    cr_assert_eq(listen_socket_open("127.0.0.1:0", /* port= */ 0, &before, &port, NULL), 0);
    cr_assert(asprintf(&addr, "127.0.0.1:%d", port) > 0);
    cr_assert_eq(pipe(log), 0);
    log_setup(LOG_WARN, LOG_LOGFMT, log[1]);
    struct newcomer n = {.listener = {.addr = addr, .routes = routes, .n_routes = 1}};
    cr_assert_eq(pthread_create(&thread, NULL, open_server, &n), 0);
    ssize_t len = read(log[0], said, sizeof(said) - 1);
    (void)close(before);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(n.rc, 0);
    cr_expect_eq(http_server_port(n.srv, 0), port);
    cr_assert_gt(len, 0);
    said[len] = '\0';
    cr_expect_not_null(strstr(said, "Awaiting a port that another process has"), "%s", said);
    (void)http_server_free(n.srv);
    (void)close(log[0]);
    (void)close(log[1]);
}

Test(http_server, listeners_with_one_address_share_its_port)
{
    auto_err struct err e = {0};
    const struct http_listener two[] = {{.addr = "127.0.0.1:0", .routes = routes, .n_routes = 1},
                                        {.addr = "127.0.0.1:0",
                                         .routes = routes + 1,
                                         .n_routes = ARRAY_LEN(routes) - 1}};
    struct running r = {0};
    cr_assert_eq(http_server_new(two, ARRAY_LEN(two), NULL, &r.srv, &e), 0, "%s", err_msg(&e));
    r.scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&r.thread, NULL, running_serve, &r), 0);
    cr_expect_eq(http_server_port(r.srv, 1), http_server_port(r.srv, 0));
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        auto_free char *answer = ask(&r, "GET", routes[i].path);
        cr_expect_not(strstr(answer, " 404 "), "%s", routes[i].path);
    }
    running_stop(&r);
}

Test(http_server, an_address_of_this_machine_alone_is_not_reached_from_another)
{
    struct running r = {0};
    start(&r);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)http_server_port(r.srv, 0)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_expect_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), -1);
    running_stop(&r);
}

Test(http_server, an_address_without_port_is_refused)
{
    auto_err struct err e = {0};
    const struct http_listener l = {.addr = "localhost", .routes = routes, .n_routes = 1};
    auto_http_server struct http_server *srv = NULL;
    cr_expect_eq(http_server_new(&l, 1, NULL, &srv, &e), -(int)ERR_INVALID);
}

Test(http_server, a_listener_that_is_off_serves_nothing_and_stops)
{
    auto_err struct err e = {0};
    const struct http_listener l = {.addr = "", .routes = routes, .n_routes = 1};
    struct running r = {0};
    cr_assert_eq(http_server_new(&l, 1, NULL, &r.srv, &e), 0);
    r.scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&r.thread, NULL, running_serve, &r), 0);
    running_stop(&r);
}

/* --- Other protocols --- */

/* Sends bytes as they are from this address and reads until the server closes. *ret_len (NULL:
 * nobody asks) is how many came, NULs among them: frames of HTTP/2 begin with one. */
static char *ask_raw_from(const struct running *r, uint32_t address, const char *bytes, size_t len,
                          size_t *ret_len)
{
    auto_fd int fd = running_connect_from(r, address);
    auto_sb struct sb out = SB_INIT(1 << 20);
    char buf[4096];
    ssize_t n;
    (void)send(fd, bytes, len, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    while ((n = running_receive(fd, buf, sizeof(buf))) > 0)
        sb_add_mem(&out, buf, (size_t)n);
    if (ret_len)
        *ret_len = out.len;
    sb_add_char(&out, '\0');
    return sb_take(&out);
}

static char *ask_raw(const struct running *r, const char *bytes, size_t len, size_t *ret_len)
{
    return ask_raw_from(r, INADDR_LOOPBACK, bytes, len, ret_len);
}

#define H2C_UPGRADE                                                                                \
    "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"                  \
    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
#define WEBSOCKET_UPGRADE                                                                          \
    "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"            \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

/* The answer is HTTP/1.1 with this status, and neither 101 nor a frame. */
static void expect_http1(const char *request, size_t len, const char *status)
{
    struct running r = {0};
    size_t got_len = 0;
    start(&r);
    auto_free char *got = ask_raw(&r, request, len, &got_len);
    cr_expect_gt(got_len, 0, "no answer tells nothing");
    cr_expect_eq(strlen(got), got_len, "a NUL is of no HTTP/1 answer");
    cr_expect_eq(strncmp(got, status, strlen(status)), 0, "%s", got);
    running_stop(&r);
}

Test(http_server, an_upgrade_to_http2_is_not_followed)
{
    expect_http1(H2C_UPGRADE, strlen(H2C_UPGRADE), "HTTP/1.1 200 ");
}

Test(http_server, an_upgrade_to_websocket_is_not_followed)
{
    expect_http1(WEBSOCKET_UPGRADE, strlen(WEBSOCKET_UPGRADE), "HTTP/1.1 200 ");
}

Test(http_server, http2_is_not_spoken_by_prior_knowledge)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                  "\0\0\0\4\0\0\0\0\0";
    expect_http1(preface, sizeof(preface) - 1, "HTTP/1.1 505 ");
}

/* These frames behind an upgrade to HTTP/2 corrupted the server's heap. */
Test(http_server, frames_behind_an_upgrade_harm_nothing)
{
    auto_free char *frames = NULL;
    size_t len = 0;
    cr_assert_eq(file_read("test/fuzz/corpus/http_server/h2c-frames", 4096, &frames, &len, NULL),
                 0);
    auto_sb struct sb bytes = SB_INIT(8192);
    sb_add(&bytes, H2C_UPGRADE);
    sb_add_mem(&bytes, frames, len);
    struct running r = {0};
    start(&r);
    for (int i = 0; i < 50; i++) {
        auto_free char *got = ask_raw(&r, bytes.data, bytes.len, NULL);
        cr_expect_null(strstr(got, " 101 "), "%s", got);
    }
    auto_free char *after = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(after, " 200 "), "%s", after);
    running_stop(&r);
}

/* --- The child --- */

/* The value of a line of /proc/PID/status. */
static void expect_status(pid_t pid, const char *key, const char *value)
{
    auto_free char *path = xasprintf("/proc/%d/status", pid);
    auto_free char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 16, &text, /* ret_len= */ NULL, NULL), 0);
    auto_free char *line = xasprintf("\n%s:\t%s\n", key, value);
    cr_expect_not_null(strstr(text, line), "wanted %s %s in %s", key, value, text);
}

static size_t descriptors_of(pid_t pid)
{
    auto_free char *path = xasprintf("/proc/%d/fd", pid);
    auto_dir DIR *fds = opendir(path);
    size_t n = 0;
    for (struct dirent *d; fds && (d = readdir(fds));)
        n += d->d_name[0] != '.';
    return n;
}

Test(http_server, strangers_talk_to_a_process_without_rights, .timeout = 60)
{
    struct running r = {0};
    start(&r);
    auto_free char *got = ask(&r, "GET", "/healthz"); /* from here on it is sealed */
    cr_assert_not_null(strstr(got, " 200 "), "%s", got);
    pid_t child = running_child_other_than(0);
    if (geteuid() == 0) {
        expect_status(child, "Uid", "65533\t65533\t65533\t65533");
        expect_status(child, "Gid", "65533\t65533\t65533\t65533");
        expect_status(child, "Groups", " ");
        expect_status(child, "CapBnd", "0000000000000000");
    }
    expect_status(child, "CapPrm", "0000000000000000");
    expect_status(child, "CapEff", "0000000000000000");
    expect_status(child, "CapInh", "0000000000000000");
    expect_status(child, "CapAmb", "0000000000000000");
    expect_status(child, "NoNewPrivs", "1");
    expect_status(child, "Seccomp", "2");
    expect_status(child, "Threads", "1");
    /* What is inherited, and what the library has for the socket. */
    cr_expect_leq(descriptors_of(child), HTTP_CHILD_FDS + 2);
    auto_free char *path = xasprintf("/proc/%d/oom_score_adj", child);
    auto_free char *score = NULL;
    cr_assert_eq(file_read(path, 16, &score, /* ret_len= */ NULL, NULL), 0);
    cr_expect_str_eq(score, "1000\n");
    running_stop(&r);
}

Test(http_server, a_child_that_dies_is_started_again_and_nobody_is_turned_away, .timeout = 60)
{
    struct running r = {0};
    start(&r);
    pid_t child = 0;
    for (int i = 0; i < 5; i++) {
        child = running_child_other_than(child);
        cr_assert_eq(kill(child, SIGSEGV), 0);
        auto_free char *got = ask(&r, "GET", "/healthz"); /* waits in the socket's queue */
        /* It may have got the connection while it died. */
        auto_free char *again = *got ? xstrdup(got) : ask(&r, "GET", "/healthz");
        cr_expect_not_null(strstr(again, " 200 "), "%s", again);
    }
    struct metric *restarts = metrics_counter(r.metrics, "cleave_http_restarts_total", "", NULL);
    cr_expect_eq(metric_value(METRIC_WITH(restarts)), 5);
    running_stop(&r);
}

Test(http_server, a_child_that_says_what_it_must_not_is_ended_and_started_again, .timeout = 60)
{
    static const struct http_route one[] = {{HIJACKED, get_ok, .arg = hello}};
    struct running r = {0};
    running_start(&r, one, ARRAY_LEN(one));
    pid_t first = running_child_other_than(0);
    pid_t second = running_child_other_than(first);
    cr_expect_neq(running_child_other_than(second), second);
    running_stop(&r);
}

/* Returns the limit before. */
static struct rlimit allow_no_more_files(void)
{
    struct rlimit before;
    int next = dup(STDERR_FILENO);
    cr_assert_eq(close(next), 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

Test(http_server, a_child_that_hangs_is_ended_without_a_free_descriptor, .timeout = 60)
{
    struct running r = {0};
    start(&r);
    auto_free char *got = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    cr_assert_eq(kill(running_child_other_than(0), SIGSTOP), 0);
    const struct rlimit before = allow_no_more_files();
    running_stop(&r);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* What a child could do if nothing kept it from it: the socket is the same open file. */
static size_t shut_listeners_down(void)
{
    size_t n = 0;
    for (int fd = 3; fd < 1024; fd++) {
        int listening = 0;
        socklen_t len = sizeof(listening);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening)
            n += shutdown(fd, SHUT_RD) == 0;
    }
    return n;
}

Test(http_server, a_socket_that_was_shut_down_is_bound_anew_for_the_next_child, .timeout = 60)
{
    struct running r = {0};
    start(&r);
    auto_free char *before = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(before, " 200 "), "%s", before);
    pid_t child = running_child_other_than(0);
    int port = http_server_port(r.srv, 0);
    cr_assert_eq(shut_listeners_down(), 1);
    cr_assert_eq(kill(child, SIGKILL), 0);
    (void)running_child_other_than(child); /* before it is started the socket is there */
    cr_expect_eq(http_server_port(r.srv, 0), port);
    auto_free char *after = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(after, " 200 "), "%s", after);
    running_stop(&r);
}

/* The child that serves this page, once there is one. */
static pid_t child_that_serves(const char *page)
{
    pid_t child = 0;
    for (;;) {
        child = running_child_other_than(child);
        auto_free char *path = xasprintf("/proc/%d/cmdline", child);
        auto_free char *args = NULL;
        size_t len = 0;
        if (file_read(path, 4096, &args, &len, NULL) == 0 && memmem(args, len, page, strlen(page)))
            return child;
    }
}

/* Who took over the one that everybody reaches answers no probes. */
Test(http_server, each_port_has_a_child_of_its_own, .timeout = 60)
{
    const struct http_listener two[] = {{.addr = "127.0.0.1:0", .routes = routes, .n_routes = 2},
                                        {.addr = "127.0.0.2:0",
                                         .routes = routes + 2,
                                         .n_routes = 1}};
    struct running r = {0};
    cr_assert_eq(http_server_new(two, ARRAY_LEN(two), NULL, &r.srv, NULL), 0);
    r.scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&r.thread, NULL, running_serve, &r), 0);
    cr_assert_eq(kill(child_that_serves("/metrics"), SIGSTOP), 0);
    auto_free char *got = ask(&r, "GET", "/healthz");
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    running_stop(&r);
}

Test(http_server, the_end_of_the_server_is_the_end_of_its_child, .timeout = 60)
{
    struct running r = {0};
    start(&r);
    pid_t child = running_child_other_than(0);
    running_stop(&r);
    cr_expect_eq(kill(child, 0), -1);
}

Test(http_server, a_connection_that_is_kept_gets_one_answer_after_the_other)
{
    struct running r = {0};
    start(&r);
    auto_fd int fd = running_connect(&r);
    static const char both[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
                               "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    cr_assert_eq(send(fd, both, sizeof(both) - 1, 0), (ssize_t)sizeof(both) - 1);
    auto_free char *got = finish(fd);
    cr_expect_not_null(strstr(got, "hello\n"), "%s", got);
    cr_expect_not_null(strstr(got, "caches are not synced\n"), "%s", got);
    running_stop(&r);
}

/* --- Pages behind a token --- */

/* An API server that knows a few tokens, by what they are called. */
struct reviewer {
    struct kc kc; /* first */
    _Atomic int reviews;
};

static int review_token(const char *token, struct scope *s, json_t **ret, struct err *e)
{
    if (strcmp(token, "lost") == 0)
        return err_set(e, ERR_UNAVAILABLE, "connection refused");
    if (strcmp(token, "slow") == 0) {
        (void)scope_wait_ms(s, -1);
        return scope_check(s, e);
    }
    bool known = strncmp(token, "good", 4) == 0 || strcmp(token, "weak") == 0;
    *ret = known ? json_pack("{s:{s:b, s:{s:s}}}", "status", "authenticated", 1, "user", "username",
                             token)
                 : json_pack("{s:{}}", "status");
    return 0;
}

static int create_review(struct kc *c, struct scope *s, const struct kc_target *t,
                         const struct kc_write *w, json_t **ret, struct err *e)
{
    struct reviewer *r = (struct reviewer *)c;
    const json_t *spec = json_object_get(w->body, "spec");
    if (strcmp(t->res->plural, "tokenreviews") == 0) {
        r->reviews++;
        return review_token(json_string_value(json_object_get(spec, "token")), s, ret, e);
    }
    const char *user = json_string_value(json_object_get(spec, "user"));
    *ret = json_pack("{s:{s:b}}", "status", "allowed", strncmp(user, "good", 4) == 0);
    return 0;
}

static const struct kc_ops review_ops = {.create = create_review};

struct guarded {
    struct running server;
    struct reviewer api;
    struct access_gate *gate;
    struct clock *clk;
    pthread_t thread;
};

static void *run_gate(void *arg)
{
    struct guarded *g = arg;
    (void)!access_gate_run(g->gate, g->server.scope, NULL);
    return NULL;
}

static void start_guarded(struct guarded *g)
{
    *g = (struct guarded){.api.kc.ops = &review_ops, .clk = clock_fake_new(0)};
    g->server.metrics = metrics_new();
    const struct access_gate_options o = {.kc = &g->api.kc,
                                          .clk = g->clk,
                                          .path = "/metrics",
                                          .metrics = g->server.metrics};
    cr_assert_eq(access_gate_new(&o, &g->gate, NULL), 0);
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = routes,
                                    .n_routes = ARRAY_LEN(routes),
                                    .gate = g->gate};
    cr_assert_eq(http_server_new(&l, 1, g->server.metrics, &g->server.srv, NULL), 0);
    g->server.scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&g->server.thread, NULL, running_serve, &g->server), 0);
    cr_assert_eq(pthread_create(&g->thread, NULL, run_gate, g), 0);
}

static void stop_guarded(struct guarded *g)
{
    scope_cancel(g->server.scope);
    cr_assert_eq(pthread_join(g->thread, NULL), 0);
    struct metrics *metrics = TAKE(g->server.metrics); /* the gate counts in it */
    running_stop(&g->server);
    (void)access_gate_free(g->gate);
    (void)metrics_free(metrics);
    (void)clock_free(g->clk);
}

/* The answer to a request with this line among its headers. */
static char *ask_with(const struct guarded *g, const char *line)
{
    auto_free char *request = xasprintf("GET /healthz HTTP/1.1\r\nHost: x\r\n%s\r\n"
                                        "Connection: close\r\n\r\n",
                                        line);
    return ask_raw(&g->server, request, strlen(request), NULL);
}

static void expect_status_with(const struct guarded *g, const char *line, const char *status)
{
    auto_free char *got = ask_with(g, line);
    cr_expect_not_null(strstr(got, status), "%s: wanted %s, not %s", line, status, got);
    cr_expect_eq(!!strstr(got, "hello"), strcmp(status, " 200 ") == 0, "%s: %s", line, got);
    cr_expect_eq(!!strstr(got, "WWW-Authenticate: Bearer\r\n"), strcmp(status, " 401 ") == 0,
                 "%s: %s", line, got);
}

Test(http_server, a_page_behind_a_token_is_for_those_whom_the_api_server_lets_get_it, .timeout = 60)
{
    struct guarded g;
    start_guarded(&g);
    expect_status_with(&g, "X: y", " 401 ");
    expect_status_with(&g, "Authorization: Bearer invented", " 401 ");
    expect_status_with(&g, "Authorization: Bearer weak", " 403 ");
    expect_status_with(&g, "Authorization: Bearer lost", " 503 ");
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    expect_status_with(&g, "authorization: bearer   good", " 200 ");
    cr_expect_eq(g.api.reviews, 4);
    stop_guarded(&g);
}

Test(http_server, a_token_that_is_none_never_reaches_the_api_server, .timeout = 60)
{
    auto_free char *long_one = xmalloc(9001);
    memset(long_one, 'a', 9000);
    auto_free char *longer = xasprintf("Authorization: Bearer %s", long_one);
    struct guarded g;
    start_guarded(&g);
    expect_status_with(&g, "Authorization: Bearer ", " 401 ");
    expect_status_with(&g, "Authorization: Bearer good\"", " 401 ");
    expect_status_with(&g, "Authorization: Bearer good good", " 401 ");
    expect_status_with(&g, "Authorization: Bearer go=od", " 401 ");
    expect_status_with(&g, "Authorization: Bearer \xc3\xa4", " 401 ");
    expect_status_with(&g, "Authorization: Basic Z29vZA==", " 401 ");
    expect_status_with(&g, "Authorization: good", " 401 ");
    auto_free char *got = ask_with(&g, longer); /* or the library finds the headers too long */
    cr_expect_null(strstr(got, " 200 "), "%s", got);
    cr_expect_eq(g.api.reviews, 0);
    stop_guarded(&g);
}

Test(http_server, invented_tokens_neither_flood_the_api_server_nor_keep_a_known_one_out,
     .timeout = 60)
{
    struct guarded g;
    start_guarded(&g);
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    for (int i = 0; i < 50; i++) {
        auto_free char *line = xasprintf("Authorization: Bearer invented%d", i);
        auto_free char *got = ask_with(&g, line);
        cr_expect(strstr(got, " 401 ") || strstr(got, " 429 "), "%s", got);
        expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    }
    cr_expect_leq(g.api.reviews, ACCESS_NEW_BURST); /* the clock stands still */
    expect_status_with(&g, "Authorization: Bearer good2", " 429 ");
    /* A new token from another address has its own share. */
    static const char other[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                "Authorization: Bearer good2\r\n\r\n";
    auto_free char *got =
        ask_raw_from(&g.server, INADDR_LOOPBACK + 1, other, sizeof(other) - 1, NULL);
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    stop_guarded(&g);
}

Test(http_server, a_known_token_gets_the_page_while_the_api_server_hangs, .timeout = 60)
{
    struct guarded g;
    start_guarded(&g);
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    static const char slow[] =
        "GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow\r\n\r\n";
    auto_fd int fd = running_connect(&g.server);
    (void)send(fd, slow, sizeof(slow) - 1, MSG_NOSIGNAL);
    while (g.api.reviews < 2)
        ;
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    stop_guarded(&g);
}

Test(http_server, a_token_that_was_reviewed_is_asked_about_again_after_a_minute, .timeout = 60)
{
    struct guarded g;
    start_guarded(&g);
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    clock_fake_advance(g.clk, ACCESS_ALLOWED_MS - 1);
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    cr_expect_eq(g.api.reviews, 1);
    clock_fake_advance(g.clk, 1);
    expect_status_with(&g, "Authorization: Bearer good", " 200 ");
    cr_expect_eq(g.api.reviews, 2);
    stop_guarded(&g);
}

Test(http_server, pages_for_everybody_share_no_port_with_pages_behind_a_token)
{
    auto_err struct err e = {0};
    struct guarded g;
    start_guarded(&g);
    const struct http_listener two[] =
        {{.addr = "127.0.0.1:0", .routes = routes, .n_routes = 1},
         {.addr = "127.0.0.1:0", .routes = routes + 1, .n_routes = 1, .gate = g.gate}};
    auto_http_server struct http_server *srv = NULL;
    cr_expect_eq(http_server_new(two, ARRAY_LEN(two), NULL, &srv, &e), -(int)ERR_INVALID);
    stop_guarded(&g);
}

/* --- TLS --- */

static int connect_to_port(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

struct secure {
    struct running server;
    struct pki *pki;
    char *cert, *key, *ca;
    const char *client_ca;   /* NULL: visitors need no certificate */
    const char *client_cert; /* a visitor's, with the key beside it; NULL: none */
};

static void make_pki(struct secure *t)
{
    *t = (struct secure){.pki = pki_new()};
    t->cert = pki_path(t->pki, "server.crt");
    t->key = pki_path(t->pki, "server.key");
    t->ca = pki_path(t->pki, "ca.crt");
}

static void serve_securely(struct secure *t, bool awaits_tls)
{
    auto_err struct err e = {0};
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = routes,
                                    .n_routes = ARRAY_LEN(routes),
                                    .tls = {t->cert, t->key, t->client_ca, .look_ms = 10},
                                    .awaits_tls = awaits_tls};
    t->server.metrics = metrics_new();
    cr_assert_eq(http_server_new(&l, 1, t->server.metrics, &t->server.srv, &e), 0, "%s",
                 err_msg(&e));
    t->server.scope = scope_new(NULL, -1);
    cr_assert_eq(pthread_create(&t->server.thread, NULL, running_serve, &t->server), 0);
}

static void start_secure(struct secure *t)
{
    make_pki(t);
    serve_securely(t, /* awaits_tls= */ false);
}

static void stop_secure(struct secure *t)
{
    running_stop(&t->server);
    t->pki = pki_free(t->pki);
    free(t->cert);
    free(t->key);
    free(t->ca);
}

struct visitor {
    int fd;
    SSL_CTX *context;
    SSL *tls;
    bool trusts;
};

static void visit(struct visitor *v, const struct secure *t, const char *ca, int version)
{
    *v = (struct visitor){.fd = connect_to_port(http_server_port(t->server.srv, 0)),
                          .context = SSL_CTX_new(TLS_client_method())};
    cr_assert_eq(SSL_CTX_load_verify_locations(v->context, ca, NULL), 1);
    SSL_CTX_set_verify(v->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_security_level(v->context, 0); /* it would offer anything */
    (void)SSL_CTX_set_min_proto_version(v->context, version);
    (void)SSL_CTX_set_max_proto_version(v->context, version);
    if (t->client_cert) {
        auto_free char *key = xstrdup(t->client_cert);
        memcpy(strrchr(key, '.'), ".key", 4);
        cr_assert_eq(SSL_CTX_use_certificate_chain_file(v->context, t->client_cert), 1);
        cr_assert_eq(SSL_CTX_use_PrivateKey_file(v->context, key, SSL_FILETYPE_PEM), 1);
    }
    v->tls = SSL_new(v->context);
    (void)X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(v->tls), "127.0.0.1");
    (void)SSL_set_fd(v->tls, v->fd);
    v->trusts = SSL_connect(v->tls) == 1;
}

static char *read_page(const struct visitor *v, const char *request)
{
    auto_sb struct sb out = SB_INIT(1 << 20);
    char buf[4096];
    int n;
    cr_assert_eq(SSL_write(v->tls, request, (int)strlen(request)), (int)strlen(request));
    while ((n = SSL_read(v->tls, buf, sizeof(buf))) > 0)
        sb_add_mem(&out, buf, (size_t)n);
    return sb_take(&out);
}

static void part(struct visitor *v)
{
    SSL_free(v->tls);
    SSL_CTX_free(v->context);
    (void)close(v->fd);
}

#define LAST_REQUEST "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

/* Does a visitor who trusts this authority get the page? */
static bool gets_page(const struct secure *t, const char *ca, int version)
{
    struct visitor v;
    visit(&v, t, ca, version);
    auto_free char *got = v.trusts ? read_page(&v, LAST_REQUEST) : NULL;
    const char *body = got ? strstr(got, "\r\n\r\n") : NULL;
    part(&v);
    return body && strspn(body + 4, "x") == LONG_BODY;
}

Test(http_server, a_page_comes_over_tls_to_who_trusts_the_certificate, .timeout = 60)
{
    struct secure t;
    start_secure(&t);
    auto_free char *other = pki_path(t.pki, "other-ca.crt");
    cr_expect(gets_page(&t, t.ca, TLS1_3_VERSION));
    cr_expect(gets_page(&t, t.ca, TLS1_2_VERSION));
    cr_expect_not(gets_page(&t, other, TLS1_3_VERSION));
    stop_secure(&t);
}

/* No deadline: the test's own ends it. */
static void wait_until_open(const struct secure *t)
{
    while (http_server_awaits_tls(t->server.srv, 0))
        (void)scope_wait_ms(t->server.scope, 1);
}

Test(http_server, a_port_that_awaits_its_certificate_is_opened_once_that_is_there, .timeout = 60)
{
    struct secure t;
    make_pki(&t);
    auto_free char *cert = xstrdup(t.cert);
    auto_free char *elsewhere = pki_path(t.pki, "elsewhere");
    cr_assert_eq(rename(cert, elsewhere), 0);
    serve_securely(&t, /* awaits_tls= */ true);
    cr_expect(http_server_awaits_tls(t.server.srv, 0));
    cr_expect_eq(http_server_port(t.server.srv, 0), 0);
    cr_assert_eq(rename(t.ca, cert), 0, "one that does not fit the key");
    (void)scope_wait_ms(t.server.scope, 50);
    cr_expect(http_server_awaits_tls(t.server.srv, 0));
    cr_assert_eq(rename(cert, t.ca), 0);
    cr_assert_eq(rename(elsewhere, cert), 0);
    wait_until_open(&t);
    cr_expect_neq(http_server_port(t.server.srv, 0), 0);
    cr_expect(gets_page(&t, t.ca, TLS1_3_VERSION));
    stop_secure(&t);
}

Test(http_server, a_certificate_that_is_there_is_not_waited_for, .timeout = 60)
{
    struct secure t;
    make_pki(&t);
    serve_securely(&t, /* awaits_tls= */ true);
    cr_expect_not(http_server_awaits_tls(t.server.srv, 0));
    cr_expect(gets_page(&t, t.ca, TLS1_3_VERSION));
    stop_secure(&t);
}

/* OpenSSL knows the curve, and the library of the child does not. */
static void make_unusable(const struct secure *t)
{
    EVP_PKEY *key = EVP_EC_gen("secp256k1");
    X509 *cert = X509_new();
    cr_assert(key && cert);
    FILE *to = fopen(t->cert, "w");
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 1000);
    cr_assert(X509_set_pubkey(cert, key) && X509_sign(cert, key, EVP_sha256()));
    cr_assert(PEM_write_X509(to, cert));
    (void)fclose(to);
    to = fopen(t->key, "w");
    cr_assert(PEM_write_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL));
    (void)fclose(to);
    X509_free(cert);
    EVP_PKEY_free(key);
}

Test(http_server, once_its_files_are_mended_a_port_is_served_again, .timeout = 60)
{
    struct secure t;
    make_pki(&t);
    struct pki *good = pki_new();
    auto_free char *ca = pki_path(good, "ca.crt");
    auto_free char *cert = pki_path(good, "server.crt");
    auto_free char *key = pki_path(good, "server.key");
    make_unusable(&t);
    serve_securely(&t, /* awaits_tls= */ false);
    struct metric *restarts =
        metrics_counter(t.server.metrics, "cleave_http_restarts_total", "", NULL);
    while (metric_value(METRIC_WITH(restarts)) < 2)
        (void)scope_wait_ms(t.server.scope, 1);
    cr_assert_eq(rename(cert, t.cert), 0);
    cr_assert_eq(rename(key, t.key), 0);
    while (!gets_page(&t, ca, TLS1_3_VERSION))
        (void)scope_wait_ms(t.server.scope, 10);
    (void)pki_free(good);
    stop_secure(&t);
}

/* --- Visitors' certificates --- */

/* The status that a visitor gets, with this certificate (NULL: none) of the folder. */
static int status_with(struct secure *t, const char *cert, int version)
{
    struct visitor v;
    int status = 0;
    auto_free char *path = cert ? pki_path(t->pki, cert) : NULL;
    t->client_cert = path;
    visit(&v, t, t->ca, version);
    cr_assert(v.trusts);
    auto_free char *got = read_page(&v, LAST_REQUEST);
    (void)sscanf(got, "HTTP/1.1 %d", &status);
    part(&v);
    t->client_cert = NULL;
    return status;
}

static void write_text(const struct secure *t, const char *name, const char *text)
{
    auto_free char *path = pki_path(t->pki, name);
    auto_err struct err e = {0};
    cr_assert_eq(file_replace(path, text, strlen(text), 0600, &e), 0, "%s", err_msg(&e));
}

/* A certificate that is signed by itself. */
static void make_stranger(const struct secure *t)
{
    auto_err struct err e = {0};
    auto_tls_pair struct tls_pair p = {0};
    int64_t now = clock_wall_ms(clock_real());
    cr_assert_eq(certificate_make("client", now - 60000, now + 60000, &p, &e), 0);
    write_text(t, "stranger.crt", p.cert_pem);
    write_text(t, "stranger.key", p.key_pem);
}

Test(http_server, a_port_may_serve_bearers_of_a_certificate_alone, .timeout = 60)
{
    struct secure t;
    make_pki(&t);
    t.client_ca = t.ca;
    make_stranger(&t);
    serve_securely(&t, /* awaits_tls= */ false);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        cr_expect_eq(status_with(&t, "client.crt", version), 200);
        cr_expect_eq(status_with(&t, NULL, version), 401);
        cr_expect_eq(status_with(&t, "stranger.crt", version), 401);
    }
    stop_secure(&t);
}

/* Asks, and keeps the connection. */
static bool is_answered(const struct visitor *v)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    char buf[4096];
    return SSL_write(v->tls, request, sizeof(request) - 1) > 0 &&
           SSL_read(v->tls, buf, sizeof(buf)) > 0;
}

Test(http_server, a_crowd_of_strangers_does_not_push_out_who_is_known, .timeout = 60)
{
    struct secure t;
    struct visitor v;
    int crowd[HTTP_FRONT_CONNECTIONS + 8];
    char byte;
    make_pki(&t);
    auto_free char *client = pki_path(t.pki, "client.crt");
    t.client_ca = t.ca;
    serve_securely(&t, /* awaits_tls= */ false);
    t.client_cert = client;
    visit(&v, &t, t.ca, TLS1_3_VERSION);
    cr_assert(v.trusts && is_answered(&v));
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
        crowd[i] = connect_to_port(http_server_port(t.server.srv, 0));
    cr_expect_leq(recv(crowd[0], &byte, 1, 0), 0, "the oldest stranger makes room");
    cr_expect(is_answered(&v));
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
        (void)close(crowd[i]);
    part(&v);
    stop_secure(&t);
}

Test(http_server, another_authority_takes_the_place_of_the_one_before, .timeout = 60)
{
    struct secure t;
    make_pki(&t);
    auto_free char *known = pki_path(t.pki, "known.crt");
    auto_free char *other = pki_path(t.pki, "other-ca.crt");
    t.client_ca = known;
    cr_assert_eq(link(t.ca, known), 0);
    serve_securely(&t, /* awaits_tls= */ false);
    cr_expect_eq(status_with(&t, "client.crt", TLS1_3_VERSION), 200);
    cr_assert_eq(rename(other, known), 0);
    while (status_with(&t, "client.crt", TLS1_3_VERSION) == 200)
        (void)scope_wait_ms(t.server.scope, 5);
    cr_expect_eq(status_with(&t, "client.crt", TLS1_3_VERSION), 401);
    stop_secure(&t);
}

Test(http_server, a_file_without_an_authority_is_refused)
{
    struct secure t;
    auto_err struct err e = {0};
    auto_tls_pair struct tls_pair p = {0};
    make_pki(&t);
    write_text(&t, "empty.crt", "no certificate");
    auto_free char *empty = pki_path(t.pki, "empty.crt");
    const struct tls_files files = {.cert = t.cert, .key = t.key, .client_ca = empty};
    cr_expect_eq(tls_files_read(&files, &p, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "empty.crt holds no certificate"));
    auto_free char *good = NULL;
    cr_assert_eq(file_read(t.ca, 1 << 16, &good, NULL, NULL), 0);
    auto_free char *half = xasprintf("%s%.200s", good, good);
    write_text(&t, "empty.crt", half);
    err_clear(&e);
    cr_expect_eq(tls_files_read(&files, &p, &e), -ERR_INVALID, "a second one that is cut");
    t.pki = pki_free(t.pki);
    free(t.cert);
    free(t.key);
    free(t.ca);
}

Test(http_server, old_versions_of_tls_and_plain_http_get_nothing, .timeout = 60)
{
    struct secure t;
    start_secure(&t);
    cr_expect_not(gets_page(&t, t.ca, TLS1_1_VERSION));
    cr_expect_not(gets_page(&t, t.ca, TLS1_VERSION));
    auto_free char *got = ask(&t.server, "GET", "/healthz");
    cr_expect_null(strstr(got, "hello"), "%s", got);
    cr_expect(gets_page(&t, t.ca, TLS1_3_VERSION));
    stop_secure(&t);
}

static void copy_file(const char *from, const char *to)
{
    auto_free char *text = NULL;
    size_t len;
    cr_assert_eq(file_read(from, 1 << 16, &text, &len, NULL), 0);
    cr_assert_eq(file_write_atomic(to, text, len, 0600, NULL), 0);
}

/* Another pair takes its place, file by file as a careless hand does it: first they do not fit. The
 * visitor whose request began before is answered, and nobody is turned away meanwhile. */
Test(http_server, a_renewed_certificate_is_shown_and_no_answer_is_lost, .timeout = 60)
{
    struct secure t;
    start_secure(&t);
    struct pki *newer = pki_new();
    auto_free char *new_ca = pki_path(newer, "ca.crt");
    auto_free char *new_cert = pki_path(newer, "server.crt");
    auto_free char *new_key = pki_path(newer, "server.key");
    struct visitor early;
    struct visitor idle;
    visit(&early, &t, t.ca, TLS1_3_VERSION);
    visit(&idle, &t, t.ca, TLS1_3_VERSION);
    cr_assert(early.trusts && idle.trusts);
    pid_t first = running_child_other_than(0);
    copy_file(new_cert, t.cert);
    cr_expect(gets_page(&t, t.ca, TLS1_3_VERSION), "half of a pair is none");
    copy_file(new_key, t.key);
    /* The old child ends connections on which nobody asks, and takes nobody any more; the early
     * visitor, who has not asked yet, keeps it. */
    auto_free char *rest = read_page(&idle, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_expect_not_null(strstr(rest, "hello\n"), "%s", rest);
    part(&idle);
    auto_free char *got = read_page(&early, LAST_REQUEST);
    cr_expect_not_null(strstr(got, " 200 "), "%s", got);
    part(&early);
    cr_expect(gets_page(&t, new_ca, TLS1_3_VERSION));
    cr_expect_neq(running_child_other_than(first), first);
    struct metric *restarts =
        metrics_counter(t.server.metrics, "cleave_http_restarts_total", "", NULL);
    cr_expect_eq(metric_value(METRIC_WITH(restarts)), 0);
    (void)pki_free(newer);
    stop_secure(&t);
}

/* Each child is old before it has started. */
Test(http_server, a_child_is_replaced_for_its_age_and_no_answer_is_lost, .timeout = 60)
{
    auto_err struct err e = {0};
    struct running server = {.metrics = metrics_new(), .scope = scope_new(NULL, -1)};
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = routes,
                                    .n_routes = ARRAY_LEN(routes),
                                    .renew_ms = 1};
    cr_assert_eq(http_server_new(&l, 1, server.metrics, &server.srv, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(pthread_create(&server.thread, NULL, running_serve, &server), 0);
    pid_t first = running_child_other_than(0);
    for (int i = 0; i < 20; i++) {
        auto_free char *got = ask(&server, "GET", "/healthz");
        cr_assert_not_null(strstr(got, " 200 "), "%s", got);
    }
    cr_expect_neq(running_child_other_than(first), first);
    struct metric *restarts =
        metrics_counter(server.metrics, "cleave_http_restarts_total", "", NULL);
    cr_expect_eq(metric_value(METRIC_WITH(restarts)), 0);
    running_stop(&server);
}

Test(http_server, files_that_are_no_pair_are_refused_at_the_start)
{
    struct pki *pki = pki_new();
    auto_free char *cert = pki_path(pki, "server.crt");
    auto_free char *other = pki_path(pki, "client.key");
    auto_free char *none = pki_path(pki, "missing.key");
    const struct {
        const char *cert, *key;
        enum err_kind kind;
    } all[] = {{cert, other, ERR_INVALID},
               {other, other, ERR_INVALID},
               {cert, cert, ERR_INVALID},
               {cert, none, ERR_NOT_FOUND}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        auto_err struct err e = {0};
        const struct http_listener l = {.addr = "127.0.0.1:0",
                                        .routes = routes,
                                        .n_routes = 1,
                                        .tls = {.cert = all[i].cert, .key = all[i].key}};
        auto_http_server struct http_server *srv = NULL;
        cr_expect_eq(http_server_new(&l, 1, NULL, &srv, &e), -(int)all[i].kind, "%zu: %s", i,
                     err_msg(&e));
    }
    (void)pki_free(pki);
}
