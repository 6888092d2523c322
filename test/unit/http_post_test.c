/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <criterion/criterion.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "service/access_gate.h"
#include "service/http_channel.h"
#include "service/http_child.h"
#include "test/unit/http_server_support.h"
#include "test/unit/pki_support.h"

/* A child that is to serve this route asks the same question twice before it has the answer. */
#define HIJACKED "/hijacked"

static void ask_twice(void)
{
    const struct http_ask a = {.question = 17, .body_len = 1};
    char c;
    for (int i = 0; i < 2; i++) {
        (void)!send(HTTP_CHILD_CHANNEL, &a, sizeof(a), MSG_NOSIGNAL);
        (void)!send(HTTP_CHILD_CHANNEL, "0", 1, MSG_NOSIGNAL);
    }
    while (recv(HTTP_CHILD_CHANNEL, &c, 1, 0) > 0) /* does not end by itself */
        ;
    _exit(0);
}

/* The server runs its own program again for its child: this one, before any test begins. */
__attribute__((constructor)) static void be_the_child(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], HTTP_CHILD_VERB) != 0)
        return;
    if (strstr(argv[argc - 1], HIJACKED))
        ask_twice();
    exit(http_child_main(argc - 1, argv + 1));
}

enum { MAX_KEPT = 8, MAX_ANSWER_BYTES = 3 << 20 };

/* What a program does with requests: one function answers at once, the other keeps them. */
struct desk {
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t changed;
    struct http_reply *kept[MAX_KEPT]; /* by the digit that is their body */
    size_t n_kept;
    size_t last_len; /* of the last body that was answered at once */
};

static char pong[] = "pong";

static int get_page(void *arg, struct sb *body)
{
    sb_add(body, arg);
    return 200;
}

/* The body, and its length. */
static void echo(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    struct desk *d = arg;
    auto_sb struct sb answer = SB_INIT(MAX_ANSWER_BYTES);
    assert(body[len] == '\0');
    sb_addf(&answer, "%zu:", len);
    sb_add_mem(&answer, body, len);
    http_reply_give(reply_take, 200, &answer);
    HOLD(&d->mu);
    d->last_len = len;
}

static void keep(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    struct desk *d = arg;
    assert(len == 1 && body[0] >= '0' && body[0] < '0' + MAX_KEPT);
    HOLD(&d->mu);
    d->kept[body[0] - '0'] = reply_take;
    d->n_kept++;
    (void)pthread_cond_broadcast(&d->changed);
}

static void wait_until_kept(struct desk *d, size_t n)
{
    HOLD(&d->mu);
    while (d->n_kept < n)
        (void)pthread_cond_wait(&d->changed, &d->mu);
}

/* The answer to a request that was kept: its number and a bang. */
static void answer_kept(struct desk *d, size_t number)
{
    auto_sb struct sb answer = SB_INIT(16);
    sb_addf(&answer, "%zu!", number);
    http_reply_give(TAKE(d->kept[number]), 201, &answer);
}

struct world {
    struct running server;
    struct desk desk;
    struct http_route routes[3];
};

static void start(struct world *w)
{
    *w = (struct world){.desk = {PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}};
    const struct http_route all[] = {{"/page", .get = get_page, .arg = pong},
                                     {"/echo", .post = echo, .arg = &w->desk},
                                     {"/keep", .post = keep, .arg = &w->desk}};
    memcpy(w->routes, all, sizeof(all));
    running_start(&w->server, w->routes, ARRAY_LEN(w->routes));
}

static void stop(struct world *w)
{
    running_stop(&w->server);
}

/* --- A visitor --- */

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* False: the server has closed. */
static bool say_xs(int fd, size_t len)
{
    static char xs[64 << 10];
    memset(xs, 'x', sizeof(xs));
    for (size_t done = 0; done < len;) {
        size_t left = len - done;
        ssize_t n = send(fd, xs, left < sizeof(xs) ? left : sizeof(xs), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static void post(int fd, const char *path, const char *body)
{
    auto_free char *request = xasprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n"
                                        "\r\n%s",
                                        path, strlen(body), body);
    say(fd, request);
}

/* Reads one answer of a connection that is kept, by its Content-Length; "" when the server has
 * closed before its end. Caller frees. */
static char *read_answer(int fd)
{
    auto_sb struct sb all = SB_INIT(MAX_ANSWER_BYTES);
    char c[1];
    while (!strstr(sb_str(&all), "\r\n\r\n"))
        if (running_receive(fd, c, 1) == 1)
            sb_add_mem(&all, c, 1);
        else
            return xstrdup("");
    const char *length = strcasestr(all.data, "\r\nContent-Length: ");
    cr_assert_not_null(length, "%s", all.data);
    size_t left = strtoul(length + strlen("\r\nContent-Length: "), NULL, 10);
    auto_free char *buf = xmalloc(left + 1);
    for (ssize_t n; left > 0; left -= (size_t)n) {
        n = running_receive(fd, buf, left);
        if (n <= 0)
            return xstrdup("");
        sb_add_mem(&all, buf, (size_t)n);
    }
    return sb_take(&all);
}

static void expect_answer(int fd, const char *status, const char *body)
{
    auto_free char *got = read_answer(fd);
    cr_expect_eq(strncmp(got, "HTTP/1.1 ", 9), 0, "%.300s", got);
    cr_expect_eq(strncmp(got + 9, status, strlen(status)), 0, "wanted %s, got %.300s", status, got);
    const char *end = strstr(got, "\r\n\r\n");
    cr_expect(end && strcmp(end + 4, body) == 0, "wanted %.100s, got %.300s", body, got);
}

static void expect_end(int fd)
{
    char c;
    cr_expect_leq(running_receive(fd, &c, 1), 0);
}

/* --- Answers --- */

Test(http_post, a_request_is_answered_at_once, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    post(fd, "/echo", "{}");
    auto_free char *got = read_answer(fd);
    cr_expect_not_null(strstr(got, "HTTP/1.1 200 "), "%s", got);
    cr_expect_not_null(strcasestr(got, "\r\nContent-Type: application/json\r\n"), "%s", got);
    cr_expect_not_null(strstr(got, "\r\n\r\n2:{}"), "%s", got);
    stop(&w);
}

Test(http_post, a_body_may_be_empty, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    post(fd, "/echo", "");
    expect_answer(fd, "200 ", "0:");
    stop(&w);
}

Test(http_post, answers_are_given_later_and_in_another_order, .timeout = 60)
{
    struct world w;
    int fds[3];
    start(&w);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        const char body[] = {(char)('0' + i), '\0'};
        fds[i] = running_connect(&w.server);
        post(fds[i], "/keep", body);
    }
    wait_until_kept(&w.desk, ARRAY_LEN(fds));
    auto_fd int other = running_connect(&w.server); /* nobody waits for them */
    post(other, "/echo", "x");
    expect_answer(other, "200 ", "1:x");
    for (size_t i = ARRAY_LEN(fds); i-- > 0;) {
        auto_free char *answer = xasprintf("%zu!", i);
        answer_kept(&w.desk, i);
        expect_answer(fds[i], "201 ", answer);
        (void)close(fds[i]);
    }
    stop(&w);
}

/* --- Connections --- */

Test(http_post, a_connection_is_kept_for_many_requests, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    for (size_t i = 0; i < 100; i++) {
        auto_free char *body = xasprintf("%zu", i);
        auto_free char *answer = xasprintf("%zu:%zu", strlen(body), i);
        post(fd, "/echo", body);
        expect_answer(fd, "200 ", answer);
    }
    stop(&w);
}

Test(http_post, requests_that_are_sent_before_the_answer_are_answered_in_order, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    say(fd, "POST /keep HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n0"
            "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
            "GET /page HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until_kept(&w.desk, 1);
    answer_kept(&w.desk, 0);
    expect_answer(fd, "201 ", "0!");
    expect_answer(fd, "200 ", "1:a");
    expect_answer(fd, "200 ", pong);
    stop(&w);
}

/* --- Bodies --- */

Test(http_post, a_body_may_come_in_chunks, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    for (int i = 0; i < 2; i++) {
        say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        say(fd, "3\r\nabc\r\n");
        say(fd, "2\r\nde\r\n0\r\n\r\n");
        expect_answer(fd, "200 ", "5:abcde");
    }
    stop(&w);
}

Test(http_post, a_visitor_may_ask_first_whether_to_send_the_body, .timeout = 60)
{
    struct world w;
    char got[64] = "";
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
            "Expect: 100-continue\r\n\r\n");
    cr_assert_gt(running_receive(fd, got, sizeof("HTTP/1.1 100 Continue\r\n\r\n") - 1), 0);
    cr_expect_eq(strncmp(got, "HTTP/1.1 100 ", 13), 0, "%s", got);
    say(fd, "a");
    expect_answer(fd, "200 ", "1:a");
    stop(&w);
}

static void say_length(int fd, size_t len)
{
    auto_free char *head = xasprintf("POST /echo HTTP/1.1\r\nHost: x\r\n"
                                     "Content-Length: %zu\r\n\r\n",
                                     len);
    say(fd, head);
}

#define LONGEST "1048576:xxx"

/* Also when the channel has no room for all of it at once. */
Test(http_post, the_longest_body_arrives_whole, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    for (int i = 0; i < 3; i++) {
        say_length(fd, HTTP_MAX_UPLOAD_BYTES);
        cr_assert(say_xs(fd, HTTP_MAX_UPLOAD_BYTES));
        auto_free char *got = read_answer(fd);
        const char *body = strstr(got, "\r\n\r\n");
        cr_assert(body && strncmp(body + 4, LONGEST, strlen(LONGEST)) == 0, "%.300s", got);
        cr_expect_eq(strspn(body + 4 + 8, "x"), HTTP_MAX_UPLOAD_BYTES);
    }
    stop(&w);
}

Test(http_post, a_longer_body_is_refused_before_it_is_sent, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    say_length(fd, HTTP_MAX_UPLOAD_BYTES + 1);
    expect_answer(fd, "413 ", "a body has at most 1 MiB\n");
    expect_end(fd);
    stop(&w);
}

static void say_chunk(int fd, size_t len)
{
    auto_free char *head = xasprintf("%zx\r\n", len);
    say(fd, head);
    cr_assert(say_xs(fd, len));
    say(fd, "\r\n");
}

Test(http_post, longer_chunks_are_refused_and_the_connection_is_kept, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    say_chunk(fd, HTTP_MAX_UPLOAD_BYTES);
    say_chunk(fd, 1);
    say(fd, "0\r\n\r\n");
    expect_answer(fd, "413 ", "a body has at most 1 MiB\n");
    post(fd, "/echo", "a");
    expect_answer(fd, "200 ", "1:a");
    stop(&w);
}

Test(http_post, chunks_without_end_end_the_connection, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            "ffffffff\r\n");
    while (say_xs(fd, HTTP_MAX_UPLOAD_BYTES))
        ;
    expect_end(fd);
    cr_expect_eq(w.desk.last_len, 0);
    stop(&w);
}

/* --- TLS --- */

/* Reads until this comes. False: the server closed before. */
static bool hears_secretly(SSL *tls, const char *end)
{
    auto_sb struct sb all = SB_INIT(MAX_ANSWER_BYTES);
    char buf[4096];
    int n;
    while (!strstr(sb_str(&all), end) && (n = SSL_read(tls, buf, sizeof(buf))) > 0)
        sb_add_mem(&all, buf, (size_t)n);
    return strstr(sb_str(&all), end);
}

static void post_secretly(SSL *tls, size_t len)
{
    auto_sb struct sb request = SB_INIT(2UL * HTTP_MAX_UPLOAD_BYTES);
    sb_addf(&request, "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", len);
    for (size_t i = 0; i < len; i++)
        sb_add_char(&request, 'x');
    cr_assert_eq(SSL_write(tls, request.data, (int)request.len), (int)request.len);
}

static void tell_length(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    auto_sb struct sb answer = SB_INIT(64);
    (void)arg;
    (void)body;
    sb_addf(&answer, "%zu", len);
    http_reply_give(reply_take, 200, &answer);
}

Test(http_post, bodies_come_over_tls_one_after_the_other, .timeout = 60)
{
    static const size_t lengths[] = {1, HTTP_MAX_UPLOAD_BYTES, 100000, 0};
    struct pki *pki = pki_new();
    auto_free char *cert = pki_path(pki, "server.crt");
    auto_free char *key = pki_path(pki, "server.key");
    const struct http_route route = {"/length", .post = tell_length};
    struct running r = {.metrics = metrics_new(), .scope = scope_new(NULL, -1)};
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = &route,
                                    .n_routes = 1,
                                    .tls = {.cert = cert, .key = key}};
    cr_assert_eq(http_server_new(&l, 1, r.metrics, &r.srv, NULL), 0);
    cr_assert_eq(pthread_create(&r.thread, NULL, running_serve, &r), 0);
    auto_fd int fd = running_connect(&r);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *tls = SSL_new(context);
    (void)SSL_set_fd(tls, fd);
    cr_assert_eq(SSL_connect(tls), 1);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        auto_free char *end = xasprintf("\r\n\r\n%zu", lengths[i]);
        post_secretly(tls, lengths[i]);
        cr_expect(hears_secretly(tls, end), "%zu", lengths[i]);
    }
    SSL_free(tls);
    SSL_CTX_free(context);
    running_stop(&r);
    (void)pki_free(pki);
}

/* --- Methods --- */

static void expect_allowed(const struct world *w, const char *request, const char *allow)
{
    auto_fd int fd = running_connect(&w->server);
    auto_free char *whole = xasprintf("%s HTTP/1.1\r\nHost: x\r\n\r\n", request);
    auto_free char *line = xasprintf("\r\nAllow: %s\r\n", allow);
    char got[1024] = "";
    say(fd, whole);
    cr_assert_gt(running_receive(fd, got, sizeof(got) - 1), 0);
    cr_expect_not_null(strstr(got, "HTTP/1.1 405 "), "%s: %s", request, got);
    cr_expect_not_null(strstr(got, line), "%s: %s", request, got);
}

Test(http_post, another_method_than_the_paths_is_405, .timeout = 60)
{
    struct world w;
    start(&w);
    expect_allowed(&w, "GET /echo", "POST");
    expect_allowed(&w, "HEAD /echo", "POST");
    expect_allowed(&w, "PUT /echo", "POST");
    expect_allowed(&w, "POST /page", "GET, HEAD");
    expect_allowed(&w, "POST /nothing", "GET, HEAD");
    stop(&w);
}

Test(http_post, no_gate_stands_before_a_route_that_takes_a_body)
{
    auto_err struct err e = {0};
    struct world w = {.routes = {{"/echo", .post = echo, .arg = &w.desk}}};
    auto_access_gate struct access_gate *gate = NULL;
    auto_http_server struct http_server *srv = NULL;
    const struct access_gate_options o = {.clk = clock_real(), .path = "/echo"};
    cr_assert_eq(access_gate_new(&o, &gate, &e), 0, "%s", err_msg(&e));
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = w.routes,
                                    .n_routes = 1,
                                    .gate = gate};
    cr_expect_eq(http_server_new(&l, 1, /* metrics= */ NULL, &srv, &e), -(int)ERR_INVALID);
}

/* --- Ends --- */

/* The answer to a visitor who has left goes nowhere; the next one gets his own. */
Test(http_post, a_visitor_may_leave_before_the_answer, .timeout = 60)
{
    struct world w;
    start(&w);
    int gone = running_connect(&w.server);
    post(gone, "/keep", "0");
    wait_until_kept(&w.desk, 1);
    (void)close(gone);
    auto_fd int fd = running_connect(&w.server);
    post(fd, "/keep", "1");
    wait_until_kept(&w.desk, 2);
    answer_kept(&w.desk, 0);
    answer_kept(&w.desk, 1);
    expect_answer(fd, "201 ", "1!");
    stop(&w);
}

Test(http_post, an_answer_to_a_child_that_ended_goes_nowhere, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int lost = running_connect(&w.server);
    post(lost, "/keep", "0");
    wait_until_kept(&w.desk, 1);
    pid_t child = running_child_other_than(0);
    cr_assert_eq(kill(child, SIGKILL), 0);
    expect_end(lost);
    auto_fd int fd = running_connect(&w.server); /* of the next child, with the same number */
    post(fd, "/keep", "1");
    wait_until_kept(&w.desk, 2);
    answer_kept(&w.desk, 0);
    answer_kept(&w.desk, 1);
    expect_answer(fd, "201 ", "1!");
    stop(&w);
}

Test(http_post, an_answer_may_be_given_after_the_server_is_gone, .timeout = 60)
{
    struct world w;
    start(&w);
    auto_fd int fd = running_connect(&w.server);
    post(fd, "/keep", "0");
    post(fd, "/keep", "1");
    wait_until_kept(&w.desk, 1);
    auto_fd int other = running_connect(&w.server);
    post(other, "/keep", "2");
    wait_until_kept(&w.desk, 2);
    stop(&w);
    answer_kept(&w.desk, 0);
    answer_kept(&w.desk, 2);
}

/* A server with one route of the desk's and a child that does not live long. */
static void start_short_lived(struct world *w, const struct http_route *route, int renew_ms,
                              int renew_cpu_ms)
{
    auto_err struct err e = {0};
    *w = (struct world){.desk = {PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
                        .routes = {*route}};
    struct running *r = &w->server;
    *r = (struct running){.metrics = metrics_new(), .scope = scope_new(NULL, -1)};
    const struct http_listener l = {.addr = "127.0.0.1:0",
                                    .routes = w->routes,
                                    .n_routes = 1,
                                    .renew_ms = renew_ms,
                                    .renew_cpu_ms = renew_cpu_ms};
    cr_assert_eq(http_server_new(&l, 1, r->metrics, &r->srv, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(pthread_create(&r->thread, NULL, running_serve, r), 0);
}

static void expect_no_restarts(const struct world *w)
{
    struct metric *restarts =
        metrics_counter(w->server.metrics, "cleave_http_restarts_total", "", NULL);
    cr_expect_eq(metric_value(METRIC_WITH(restarts)), 0);
}

/* Each child is old before it has started; what it was asked before it leaves is answered. */
Test(http_post, a_child_is_replaced_for_its_age_and_no_answer_is_lost, .timeout = 60)
{
    struct world w;
    start_short_lived(&w, &(struct http_route){"/keep", .post = keep, .arg = &w.desk},
                      /* renew_ms= */ 1, /* renew_cpu_ms= */ 0);
    pid_t first = running_child_other_than(0);
    for (size_t i = 0; i < 5; i++) {
        auto_fd int fd = running_connect(&w.server);
        post(fd, "/keep", "0");
        wait_until_kept(&w.desk, i + 1);
        answer_kept(&w.desk, 0);
        expect_answer(fd, "201 ", "0!");
    }
    cr_expect_neq(running_child_other_than(first), first);
    expect_no_restarts(&w);
    stop(&w);
}

/* Posts on a connection until the server says that it closes it. */
static void post_until_closed(const struct world *w)
{
    auto_fd int fd = running_connect(&w->server);
    for (bool last = false; !last;) {
        post(fd, "/echo", "a");
        auto_free char *got = read_answer(fd);
        cr_assert_not_null(strstr(got, "\r\n\r\n1:a"), "%s", got);
        last = strcasestr(got, "\r\nConnection: close\r\n");
    }
    expect_end(fd);
}

/* As many as there is room for. */
static void keep_in_order(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    struct desk *d = arg;
    pthread_mutex_lock(&d->mu);
    bool fits = d->n_kept < MAX_KEPT;
    if (fits)
        d->kept[d->n_kept++] = reply_take;
    (void)pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mu);
    if (!fits)
        echo(d, reply_take, body, len);
}

Test(http_post, a_child_that_asks_twice_before_the_answer_is_ended, .timeout = 60)
{
    struct world w;
    start_short_lived(&w, &(struct http_route){HIJACKED, .post = keep_in_order, .arg = &w.desk},
                      /* renew_ms= */ 0, /* renew_cpu_ms= */ 0);
    wait_until_kept(&w.desk, 1);
    pid_t first = running_child_other_than(0);
    pid_t second = running_child_other_than(first);
    wait_until_kept(&w.desk, 2); /* each of them was asked once */
    cr_expect_neq(running_child_other_than(second), second);
    stop(&w);
    for (size_t i = 0; i < w.desk.n_kept; i++)
        answer_kept(&w.desk, i);
}

/* A limit of processor time ends it in the midst of its work. */
Test(http_post, a_child_is_replaced_before_its_processor_time_is_used_up, .timeout = 60)
{
    struct world w;
    start_short_lived(&w, &(struct http_route){"/echo", .post = echo, .arg = &w.desk},
                      /* renew_ms= */ 0, /* renew_cpu_ms= */ 1);
    pid_t first = running_child_other_than(0);
    post_until_closed(&w);
    cr_expect_neq(running_child_other_than(first), first);
    post_until_closed(&w);
    expect_no_restarts(&w);
    stop(&w);
}
