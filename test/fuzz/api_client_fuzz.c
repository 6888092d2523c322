/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#include "kubeclient/http.h"
#include "memory_support.h"

/*
 * An API server that means harm, over real sockets: the input says what is asked of it, how it
 * ends, and then, operation by operation, what it sends. Of an operation's byte the low half says
 * what is done:
 *
 *   0..4  a piece is sent (next byte: which)   5, 6  bytes of the input are sent (next byte: how
 *   7     the last of them again, 2^n times          many)
 *   8     a chunk of a piece                   9     the same with a length that lies
 *   10    a whole answer with a piece as body  11    the sending half is closed
 *   12    hang-up   13  reset                  14    the next request is awaited
 *   15    a whole answer whose length lies
 *
 * Whatever it does: calls end by their deadline with a documented error, memory is bounded, nobody
 * is redirected, nothing is left.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MAX_OPS        64
#define MAX_SENT       (2UL << 20) /* per input */
#define MAX_MEMORY     (4UL << 20) /* beyond what is in use before */
#define MAX_BODY_BYTES (32UL << 10)
#define MAX_LIST_BYTES (128UL << 10)
#define MAX_LIST_ITEMS 5
#define MAX_LIST_PAGES 4
#define DEADLINE_MS    40
#define LATE_MS        5000 /* no machine is so slow */
#define BASE           "/api/v1/namespaces/ns/pods"

enum ending { END_CLOSED, END_SILENT, END_CANCELED, ENDINGS };

/* The server's thread allocates nothing: memory is counted for the client's alone. */
static struct server {
    int listener, elsewhere, stop;
    char away[80]; /* a header that leads to elsewhere */
    struct scope *scope;
    sem_t begin, done;
    const uint8_t *at, *end;
    enum ending ending;
    int fd; /* of the connection; -1: none */
    size_t sent;
    const char *last;
    size_t last_len;
} srv = {.fd = -1};

static const char *const pieces[] = {
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 301 Moved Permanently\r\n",
    "HTTP/1.1 307 Temporary Redirect\r\n",
    "HTTP/1.1 401 Unauthorized\r\n",
    "HTTP/1.1 404 Not Found\r\n",
    "HTTP/1.1 409 Conflict\r\n",
    "HTTP/1.1 410 Gone\r\n",
    "HTTP/1.1 429 Too Many Requests\r\n",
    "HTTP/1.1 503 Service Unavailable\r\n",
    "HTTP/1.1 999 What\r\n",
    "HTTP/1.1 2000000000000 OK\r\n",
    "HTTP/2 200\r\n",
    "HTTP/0.9 200 OK\r\n",
    "Content-Type: application/json\r\n",
    "Content-Type: text/\x1b[31mhtml\r\n",
    "Content-Length: 10\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Content-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Retry-After: 1\r\n",
    "Retry-After: 99999999999999999999\r\n",
    "Location: /elsewhere\r\n",
    srv.away,
    "Set-Cookie: a=b; Domain=.; Path=/\r\n",
    "WWW-Authenticate: Negotiate\r\n",
    "Strict-Transport-Security: max-age=1\r\nAlt-Svc: h2=\":1\"\r\n",
    "Trailer: X\r\n",
    "X: y\r\n",
    " folded\r\n",
    "no colon\r\n",
    "\r\n",
    "\n",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\n\r\n",
    "0\r\nX: y\r\n",
    "a\r\n",
    "ffffffffffffffffff\r\n",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "{}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"8\"}}",
    "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"metadata\":{\"name\":\"p\"}}]}",
    "{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"c\"},\"items\":[{\"a\":1},{\"b\":2}]}",
    "{\"metadata\":{},\"items\":[",
    "{\"a\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"},",
    "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}}\n",
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n",
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n",
    "{\"type\":\"WHAT\",\"object\":7}\n",
    "{\"kind\":\"Status\",\"code\":429,\"reason\":\"TooManyRequests\",\"message\":\"a\\u001b\\n\","
    "\"details\":{\"retryAfterSeconds\":1}}",
    "{\"kind\":\"Status\",\"code\":0}",
    "\x1f\x8b\x08\x00\x01\x02\x03\x04",
    "\xff\xfe\x1b\x7f",
    "{\"metadata\":{\"continue\":\"d\"},\"items\":[]}",
};

/* ---- the server ---- */

static uint8_t take(void)
{
    return srv.at < srv.end ? *srv.at++ : 0;
}

/* Until fd is ready; false once the calls are over. */
static bool await(int fd, short events)
{
    struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = srv.stop, .events = POLLIN}};
    while (poll(p, 2, -1) < 0)
        assert(errno == EINTR);
    return !p[1].revents;
}

static void hang_up(bool reset)
{
    const struct linger now = {.l_onoff = 1};
    if (srv.fd >= 0 && reset)
        (void)setsockopt(srv.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    if (srv.fd >= 0)
        (void)close(srv.fd);
    srv.fd = -1;
}

/* Reads one request: its header, and so much of its body as it says. False: it is over. */
static bool read_request(void)
{
    char text[8192];
    size_t n = 0;
    const char *end = NULL;
    while (!end) {
        assert(n < sizeof(text) - 1);
        if (!await(srv.fd, POLLIN))
            return false;
        ssize_t got = recv(srv.fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
        if (got <= 0) {
            hang_up(/* reset= */ false);
            return true;
        }
        n += (size_t)got;
        text[n] = '\0';
        end = strstr(text, "\r\n\r\n");
    }
    const char *path = strchr(text, ' ');
    assert(path && strncmp(path + 1, BASE, strlen(BASE)) == 0 && "a redirect was followed");
    /* The body of a write is short, and comes with the rest or is left for who reads next. */
    return true;
}

static bool ensure_connection(void)
{
    if (srv.fd >= 0)
        return true;
    while (srv.fd < 0) {
        if (!await(srv.listener, POLLIN))
            return false;
        srv.fd = accept4(srv.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    return true;
}

/* False: the calls are over. A client that hung up is one of the connection's ends. */
static bool give(const char *data, size_t len)
{
    if (!ensure_connection())
        return false;
    len = len < MAX_SENT - srv.sent ? len : MAX_SENT - srv.sent;
    srv.sent += len;
    while (len > 0 && srv.fd >= 0) {
        if (!await(srv.fd, POLLOUT))
            return false;
        ssize_t n = send(srv.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            hang_up(/* reset= */ false);
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool give_text(const char *text)
{
    return give(text, strlen(text));
}

static const char *piece(void)
{
    return pieces[take() % ARRAY_LEN(pieces)];
}

static bool give_last(const char *data, size_t len)
{
    srv.last = data;
    srv.last_len = len;
    return give(data, len);
}

static bool give_raw(void)
{
    size_t n = take();
    size_t left = (size_t)(srv.end - srv.at);
    n = n < left ? n : left;
    const char *from = (const char *)srv.at;
    srv.at += n;
    return give_last(from, n);
}

/* In pieces of some KiB, as a flood comes. */
static bool give_again(void)
{
    static char flood[16384];
    size_t times = (size_t)1 << take() % 17;
    if (!srv.last_len)
        return true;
    size_t in_flood = sizeof(flood) / srv.last_len;
    in_flood = in_flood < times ? in_flood : times;
    for (size_t i = 0; i < in_flood; i++)
        memcpy(flood + i * srv.last_len, srv.last, srv.last_len);
    for (size_t i = 0; i < times && srv.sent < MAX_SENT; i += in_flood)
        if (!give(flood, in_flood * srv.last_len))
            return false;
    return true;
}

static bool give_chunk(int lie)
{
    char head[24];
    const char *text = piece();
    (void)snprintf(head, sizeof(head), "%zx\r\n", strlen(text) + (size_t)lie);
    return give_text(head) && give_last(text, strlen(text)) && give_text("\r\n");
}

static bool give_answer(int lie)
{
    char head[96];
    const char *text = piece();
    (void)
        snprintf(head, sizeof(head),
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                 strlen(text) + (size_t)lie);
    return give_text(head) && give_last(text, strlen(text));
}

static bool do_one(void)
{
    unsigned op = take() & 0xfU;
    switch (op) {
    case 5:
    case 6:
        return give_raw();
    case 7:
        return give_again();
    case 8:
    case 9:
        return give_chunk(op == 9 ? (int8_t)take() : 0);
    case 10:
    case 15:
        return give_answer(op == 15 ? (int8_t)take() : 0);
    case 11:
        if (srv.fd >= 0)
            (void)shutdown(srv.fd, SHUT_WR);
        return true;
    case 12:
    case 13:
        hang_up(op == 13);
        return true;
    case 14:
        return ensure_connection() && read_request();
    default:
        break;
    }
    const char *text = piece();
    return give_last(text, strlen(text));
}

static void finish(void)
{
    if (srv.ending == END_CANCELED)
        scope_cancel(srv.scope);
    if (srv.ending != END_CLOSED) {
        (void)await(-1, 0);
        return;
    }
    do
        hang_up(/* reset= */ false);
    while (ensure_connection());
}

static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        while (sem_wait(&srv.begin) < 0)
            assert(errno == EINTR);
        bool more = true;
        for (int i = 0; i < MAX_OPS && more && srv.at < srv.end; i++)
            more = do_one();
        finish();
        hang_up(/* reset= */ false);
        (void)sem_post(&srv.done);
    }
    return NULL;
}

static int listen_somewhere(unsigned *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool made = fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 64) == 0 &&
                getsockname(fd, (struct sockaddr *)&a, &n) == 0;
    assert(made);
    (void)made;
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static char url[40];

static void start_server(void)
{
    pthread_t thread;
    unsigned port;
    if (*url)
        return;
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    srv.elsewhere = listen_somewhere(&port);
    (void)snprintf(srv.away, sizeof(srv.away), "Location: http://127.0.0.1:%u/x\r\n", port);
    srv.listener = listen_somewhere(&port);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    srv.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sem_init(&srv.begin, 0, 0);
    (void)sem_init(&srv.done, 0, 0);
    int rc = pthread_create(&thread, NULL, serve, NULL);
    assert(rc == 0 && srv.stop >= 0);
    (void)rc;
}

static void stop_serving(void)
{
    uint64_t one = 1;
    ssize_t n = write(srv.stop, &one, sizeof(one));
    while (sem_wait(&srv.done) < 0)
        assert(errno == EINTR);
    n += read(srv.stop, &one, sizeof(one));
    assert(n == 2 * sizeof(one));
    /* Who connected and was not served. */
    int fd;
    while ((fd = accept4(srv.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        (void)close(fd);
    assert(accept(srv.elsewhere, NULL, NULL) < 0 && "a redirect was followed");
    (void)n;
}

/* ---- the client ---- */

static const struct kc_resource pods = {"", "v1", "pods", "Pod", true};
static const struct kc_target pod = {.res = &pods, .ns = "ns", .name = "p"};
static const struct kc_target all_pods = {.res = &pods, .ns = "ns"};

static int on_item(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    int *count = arg;
    assert(json_is_object(obj) && ++*count <= MAX_LIST_ITEMS);
    (void)count;
    return 0;
}

static int on_change(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)arg;
    (void)e;
    assert(change <= KC_BOOKMARK && json_is_object(obj));
    return 0;
}

static int call(struct kc *kc, unsigned verb, struct err *e)
{
    static const struct kc_list_opts pages = {.page_size = 2};
    static const struct kc_watch_opts from = {.resource_version = "7"};
    auto_json json_t *obj = NULL;
    auto_free char *version = NULL;
    int rc;
    int items = 0;
    switch (verb % 4) {
    case 0:
        rc = kc_get(kc, srv.scope, &pod, &obj, e);
        assert(!rc == json_is_object(obj));
        return rc;
    case 1:
        return kc_list_each(kc, srv.scope, &all_pods, &pages, on_item, &items, &version, e);
    case 2:
        return kc_watch(kc, srv.scope, &all_pods, &from, on_change, NULL, e);
    default:
        return kc_remove(kc, srv.scope, &pod, /* if_uid= */ NULL, e);
    }
}

/* Words for people, and for a log: what a server says does not move their cursors. */
static void check_words(const char *msg)
{
    assert(msg && *msg && strlen(msg) < 8192);
    for (; *msg; msg++)
        assert((unsigned char)*msg >= 0x20 && *msg != 0x7f);
}

static void check_error(int rc, const struct err *e)
{
    assert(rc <= 0 && (int)e->kind == -rc);
    if (rc == 0)
        return;
    check_words(e->msg);
    assert(e->kind >= ERR_INVALID && e->kind <= ERR_PROTOCOL);
    assert(e->retry_after_ms >= 0 && e->retry_after_ms <= 300000);
}

static void make_calls(const struct kc_config *config, uint8_t what)
{
    const struct kc_http_opts o = {.max_body_bytes = MAX_BODY_BYTES,
                                   .max_list_bytes = MAX_LIST_BYTES,
                                   .max_list_items = MAX_LIST_ITEMS,
                                   .max_list_pages = MAX_LIST_PAGES,
                                   .request_timeout_ms = DEADLINE_MS,
                                   .retry_unit_ms = 1};
    auto_kc struct kc *kc = NULL;
    int rc = kc_http_new(config, &o, &kc, NULL);
    assert(rc == 0);
    (void)rc;
    for (unsigned i = 0; i < 2; i++) {
        auto_err struct err e = {0};
        rc = call(kc, i ? what >> 2 : what, &e);
        check_error(rc, &e);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2 || len > 4096)
        return 0;
    start_server();
    const struct kc_config config = {.server = url};
    size_t descriptors = memory_descriptors();
    size_t before = memory_used();
    memory_mark();
    srv.at = data + 2;
    srv.end = data + len;
    srv.ending = data[1] % ENDINGS;
    srv.sent = srv.last_len = 0;
    srv.scope = scope_new(NULL, DEADLINE_MS);
    int64_t begin = clock_mono_ms(clock_real());
    (void)sem_post(&srv.begin);
    make_calls(&config, data[0]);
    int64_t took = clock_mono_ms(clock_real()) - begin;
    stop_serving();
    srv.scope = scope_free(srv.scope);
    assert(took < DEADLINE_MS + LATE_MS && "a call goes on beyond its deadline");
    assert(memory_peak() < before + MAX_MEMORY && "it takes too much memory");
    assert(memory_descriptors() == descriptors && "a descriptor is left");
    (void)took;
    (void)before;
    (void)descriptors;
    return 0;
}
