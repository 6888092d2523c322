/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/api_server_support.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"

#define MAX_REQUEST_BYTES (16UL << 20)
#define MAX_HEAD_BYTES    (1UL << 20)
#define WAIT_S            10

/* A line of the script with copies of what it was made of. */
struct line {
    struct api_answer a; /* its strings are owned; chunks too */
    char **chunks;
    size_t chunk_count;
    int left; /* uses; -1: for ever */
};

struct connection {
    struct api_server *srv;
    pthread_t thread;
    int fd;
    SSL *ssl;
    struct sb in;
};

struct api_server {
    int listen_fd, stop_fd;
    char *url;
    SSL_CTX *tls;
    pthread_t thread;

    pthread_mutex_t mu;
    pthread_cond_t arrived;
    bool stopping;
    struct line **script; /* all guarded by mu */
    struct api_request **requests;
    struct connection **connections;
    size_t script_count, request_count, connection_count;
};

/* ---- bytes ---- */

static ssize_t receive(struct connection *c, char *to, size_t len)
{
    if (c->ssl)
        return SSL_read(c->ssl, to, (int)len);
    return recv(c->fd, to, len, 0);
}

static void send_all(struct connection *c, const char *data, size_t len)
{
    while (len) {
        ssize_t n =
            c->ssl ? SSL_write(c->ssl, data, (int)len) : send(c->fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static void send_text(struct connection *c, const char *text)
{
    send_all(c, text, strlen(text));
}

/* Waits until the server stops or the client has gone. */
static void hang(const struct connection *c)
{
    struct pollfd p[] = {{.fd = c->srv->stop_fd, .events = POLLIN},
                         {.fd = c->fd, .events = POLLRDHUP}};
    while (poll(p, ARRAY_LEN(p), -1) < 0 && errno == EINTR)
        ;
}

/* ---- requests ---- */

static size_t header_value(const char *headers, const char *name, const char **ret)
{
    size_t len = strlen(name);
    for (const char *line = headers; line && *line;) {
        if (!strncasecmp(line, name, len) && line[len] == ':') {
            *ret = line + len + 1 + strspn(line + len + 1, " ");
            return strcspn(*ret, "\r\n");
        }
        line = strstr(line, "\r\n");
        line = line ? line + 2 : NULL;
    }
    return 0;
}

char *api_request_header(const struct api_request *r, const char *name)
{
    const char *value = NULL;
    size_t len = header_value(r->headers, name, &value);
    return value ? xstrndup(value, len) : NULL;
}

/* Reads until `in` has at least that many bytes; false when the client is gone. */
static bool fill(struct connection *c, size_t bytes)
{
    char chunk[16384];
    while (c->in.len < bytes) {
        ssize_t n = receive(c, chunk, sizeof(chunk));
        if (n <= 0)
            return false;
        sb_add_mem(&c->in, chunk, (size_t)n);
    }
    return !c->in.overflow;
}

static size_t body_length(const char *headers)
{
    const char *value = NULL;
    size_t len = header_value(headers, "Content-Length", &value);
    auto_free char *text = xstrndup(value ? value : "0", value ? len : 1);
    int64_t n = 0;
    int rc = num_parse(text, 0, (int64_t)MAX_REQUEST_BYTES, &n, NULL);
    assert(rc == 0);
    (void)rc;
    return (size_t)n;
}

static struct api_request *parse_request(const char *head, size_t head_len, const char *body,
                                         size_t body_len)
{
    struct api_request *r = xmalloc(sizeof(*r));
    size_t method = strcspn(head, " ");
    const char *target = head + method + 1;
    const char *line_end = strstr(head, "\r\n");
    r->method = xstrndup(head, method);
    r->target = xstrndup(target, strcspn(target, " "));
    r->headers = xstrndup(line_end + 2, head_len - (size_t)(line_end + 2 - head));
    r->body = xstrndup(body, body_len);
    return r;
}

/* The next request of a connection, or NULL when it ended. */
static struct api_request *read_request(struct connection *c)
{
    const char *end;
    while (!(end = strstr(sb_str(&c->in), "\r\n\r\n")))
        if (!fill(c, c->in.len + 1))
            return NULL;
    size_t head = (size_t)(end - sb_str(&c->in)) + 4;
    auto_free char *head_text = xstrndup(sb_str(&c->in), head);
    size_t body = body_length(strstr(head_text, "\r\n") + 2);
    if (!fill(c, head + body))
        return NULL;
    struct api_request *r = parse_request(head_text, head, c->in.data + head, body);
    sb_drop_front(&c->in, head + body);
    return r;
}

/* ---- answers ---- */

static bool fits(const struct line *l, const struct api_request *r)
{
    return l->left != 0 && (!l->a.method || !strcmp(l->a.method, r->method)) &&
           (!l->a.target_prefix ||
            !strncmp(l->a.target_prefix, r->target, strlen(l->a.target_prefix)));
}

/* Notes the request and takes its line of the script, or NULL. */
static const struct line *take_line(struct api_server *srv, struct api_request *r)
{
    HOLD(&srv->mu);
    *XPUSH(srv->requests, srv->request_count) = r;
    (void)pthread_cond_broadcast(&srv->arrived);
    for (size_t i = 0; i < srv->script_count; i++) {
        struct line *l = srv->script[i];
        if (!fits(l, r))
            continue;
        if (l->left > 0)
            l->left--;
        return l;
    }
    return NULL;
}

static void send_chunk(struct connection *c, const char *data, size_t len)
{
    char size[32];
    (void)snprintf(size, sizeof(size), "%zx\r\n", len);
    send_text(c, size);
    send_all(c, data, len);
    send_text(c, "\r\n");
}

static void send_chunked(struct connection *c, const struct line *l)
{
    for (size_t i = 0; i < l->chunk_count; i++)
        send_chunk(c, l->chunks[i], strlen(l->chunks[i]));
    for (size_t at = 0; l->a.cut_bytes && at < l->a.body_bytes; at += l->a.cut_bytes) {
        size_t left = l->a.body_bytes - at;
        send_chunk(c, l->a.body + at, left < l->a.cut_bytes ? left : l->a.cut_bytes);
    }
    if (l->a.end == API_KEEP || l->a.end == API_CLOSE)
        send_text(c, "0\r\n\r\n");
}

static void send_answer(struct connection *c, const struct line *l)
{
    const struct api_answer *a = &l->a;
    bool chunked = a->chunks || a->cut_bytes;
    bool typed = a->headers && strcasestr(a->headers, "content-type:");
    /* A body that will be cut is announced longer than it is. */
    size_t announced = a->body_bytes + (a->end == API_KEEP || a->end == API_CLOSE ? 0 : 1);
    auto_sb struct sb head = SB_INIT(MAX_HEAD_BYTES);
    sb_addf(&head, "HTTP/1.1 %d Scripted\r\n", a->status);
    sb_add(&head, typed ? "" : "Content-Type: application/json\r\n");
    sb_add(&head, a->headers ? a->headers : "");
    if (chunked)
        sb_add(&head, "Transfer-Encoding: chunked\r\n");
    else
        sb_addf(&head, "Content-Length: %zu\r\n", announced);
    sb_add(&head, a->end == API_CLOSE ? "Connection: close\r\n\r\n" : "\r\n");
    /* A head that was cut has no end: the client would wait for it until its deadline. */
    assert(!head.overflow);
    send_all(c, sb_str(&head), head.len);
    if (chunked)
        send_chunked(c, l);
    else
        send_all(c, a->body, a->body_bytes);
}

/* Returns whether the connection goes on. */
static bool end_answer(struct connection *c, enum api_end end)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    switch (end) {
    case API_KEEP:
        return true;
    case API_RESET:
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        return false;
    case API_HANG:
        hang(c);
        return false;
    case API_CLOSE:
    case API_CUT:
        return false;
    }
    return false;
}

static bool serve_one(struct connection *c)
{
    static const char off_script[] = "HTTP/1.1 500 No line of the script fits\r\n"
                                     "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    struct api_request *r = read_request(c);
    if (!r)
        return false;
    const struct line *l = take_line(c->srv, r);
    if (!l) {
        send_text(c, off_script);
        return true;
    }
    if (l->a.status > 0)
        send_answer(c, l);
    return end_answer(c, l->a.end);
}

/* ---- connections ---- */

static bool shake_hands(struct connection *c)
{
    if (!c->srv->tls)
        return true;
    c->ssl = SSL_new(c->srv->tls);
    assert(c->ssl);
    (void)SSL_set_fd(c->ssl, c->fd);
    return SSL_accept(c->ssl) == 1;
}

static void *serve(void *arg)
{
    struct connection *c = arg;
    if (shake_hands(c))
        while (serve_one(c))
            ;
    SSL_free(c->ssl);
    sb_done(&c->in);
    HOLD(&c->srv->mu); /* api_server_free must not shut down a number that was given anew */
    (void)close(c->fd);
    c->fd = -1;
    return NULL;
}

static void *accept_all(void *arg)
{
    struct api_server *srv = arg;
    int fd;
    while ((fd = accept4(srv->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        struct connection *c = xmalloc(sizeof(*c));
        *c = (struct connection){.srv = srv, .fd = fd, .in = SB_INIT(MAX_REQUEST_BYTES)};
        HOLD(&srv->mu);
        *XPUSH(srv->connections, srv->connection_count) = c;
        if (srv->stopping)
            (void)shutdown(fd, SHUT_RDWR);
        int rc = pthread_create(&c->thread, NULL, serve, c);
        assert(rc == 0);
        (void)rc;
    }
    return NULL;
}

/* ---- the server ---- */

static SSL_CTX *make_tls(const struct api_server_opts *o)
{
    if (!o || !o->cert_file)
        return NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert(ctx);
    int ok = SSL_CTX_use_certificate_chain_file(ctx, o->cert_file) == 1 &&
             SSL_CTX_use_PrivateKey_file(ctx, o->key_file, SSL_FILETYPE_PEM) == 1;
    if (ok && o->client_ca_file) {
        ok = SSL_CTX_load_verify_locations(ctx, o->client_ca_file, NULL) == 1;
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    assert(ok);
    (void)ok;
    return ctx;
}

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = bind(fd, (struct sockaddr *)&at, sizeof(at));
    assert(fd >= 0 && rc == 0);
    rc = listen(fd, 64) | getsockname(fd, (struct sockaddr *)&at, &len);
    assert(rc == 0);
    (void)rc;
    *ret_port = ntohs(at.sin_port);
    return fd;
}

struct api_server *api_server_new(const struct api_server_opts *o)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct api_server *srv = xmalloc(sizeof(*srv));
    int port;
    srv->listen_fd = listen_somewhere(&port);
    srv->stop_fd = eventfd(0, EFD_CLOEXEC);
    srv->tls = make_tls(o);
    srv->url = xasprintf("%s://127.0.0.1:%d", srv->tls ? "https" : "http", port);
    (void)pthread_mutex_init(&srv->mu, NULL);
    (void)pthread_cond_init(&srv->arrived, NULL);
    int rc = pthread_create(&srv->thread, NULL, accept_all, srv);
    assert(srv->stop_fd >= 0 && rc == 0);
    (void)rc;
    return srv;
}

const char *api_server_url(const struct api_server *srv)
{
    return srv->url;
}

void api_server_add(struct api_server *srv, const struct api_answer *a)
{
    struct line *l = xmalloc(sizeof(*l));
    l->a = *a;
    l->a.method = xstrdup(a->method);
    l->a.target_prefix = xstrdup(a->target_prefix);
    l->a.headers = xstrdup(a->headers);
    l->a.status = a->status ? a->status : 200;
    l->a.body_bytes = a->body && !a->body_bytes ? strlen(a->body) : a->body_bytes;
    l->a.body = xmemdup(a->body, l->a.body_bytes);
    for (const char *const *chunk = a->chunks; chunk && *chunk; chunk++)
        *XPUSH(l->chunks, l->chunk_count) = xstrdup(*chunk);
    l->left = a->times ? a->times : 1;
    HOLD(&srv->mu);
    *XPUSH(srv->script, srv->script_count) = l;
}

void api_server_add_json(struct api_server *srv, const char *method, const char *target_prefix,
                         const char *body)
{
    api_server_add(srv, &(struct api_answer){.method = method,
                                             .target_prefix = target_prefix,
                                             .body = body});
}

bool api_server_wait(struct api_server *srv, size_t n)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    HOLD(&srv->mu);
    while (srv->request_count < n)
        if (pthread_cond_timedwait(&srv->arrived, &srv->mu, &until) == ETIMEDOUT)
            return false;
    return true;
}

size_t api_server_count(struct api_server *srv)
{
    HOLD(&srv->mu);
    return srv->request_count;
}

const struct api_request *api_server_request(struct api_server *srv, size_t i)
{
    HOLD(&srv->mu);
    return i < srv->request_count ? srv->requests[i] : NULL;
}

size_t api_server_connections(struct api_server *srv)
{
    HOLD(&srv->mu);
    return srv->connection_count;
}

static void stop(struct api_server *srv)
{
    HOLD(&srv->mu);
    srv->stopping = true;
    (void)eventfd_write(srv->stop_fd, 1);
    (void)shutdown(srv->listen_fd, SHUT_RDWR);
    for (size_t i = 0; i < srv->connection_count; i++)
        if (srv->connections[i]->fd >= 0)
            (void)shutdown(srv->connections[i]->fd, SHUT_RDWR);
}

static void free_const(const char *s)
{
    union {
        const char *given;
        char *owned;
    } u = {.given = s};
    free(u.owned);
}

static void line_free(struct line *l)
{
    free_const(l->a.method);
    free_const(l->a.target_prefix);
    free_const(l->a.headers);
    free_const(l->a.body);
    for (size_t i = 0; i < l->chunk_count; i++)
        free(l->chunks[i]);
    free(l->chunks);
    free(l);
}

static void request_free(struct api_request *r)
{
    free(r->method);
    free(r->target);
    free(r->headers);
    free(r->body);
    free(r);
}

struct api_server *api_server_free(struct api_server *srv)
{
    if (!srv)
        return NULL;
    stop(srv);
    (void)pthread_join(srv->thread, NULL);
    for (size_t i = 0; i < srv->connection_count; i++) {
        (void)pthread_join(srv->connections[i]->thread, NULL);
        free(srv->connections[i]);
    }
    for (size_t i = 0; i < srv->script_count; i++)
        line_free(srv->script[i]);
    for (size_t i = 0; i < srv->request_count; i++)
        request_free(srv->requests[i]);
    free(srv->script);
    free(srv->requests);
    free(srv->connections);
    SSL_CTX_free(srv->tls);
    (void)close(srv->listen_fd);
    (void)close(srv->stop_fd);
    (void)pthread_cond_destroy(&srv->arrived);
    (void)pthread_mutex_destroy(&srv->mu);
    free(srv->url);
    free(srv);
    return NULL;
}
