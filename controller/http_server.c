/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/http_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <libwebsockets.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "base/xalloc.h"

enum {
    MAX_LISTENERS = 4,
    MAX_CONNECTIONS = 64,
    MAX_BODY_BYTES = 4 << 20,
    CHUNK_BYTES = 16 << 10,
    REQUEST_TIMEOUT_S = 10,
};

struct listener {
    struct http_server *srv;
    struct http_listener opts;
    struct lws_vhost *vhost;
};

/* One thread: the one in http_server_run. */
struct http_server {
    struct lws_context *ctx;
    size_t n;
    struct listener listeners[MAX_LISTENERS];
    size_t n_open;
    struct lws *open[MAX_CONNECTIONS]; /* by age */
    bool stop;
};

/* An answer on its way; libwebsockets zeroes it for each connection. */
struct answer {
    struct sb body;
    size_t sent;
    bool head;
};

/* --- Connections --- */

/* Who sends slowly, or nothing, could hold all connections for ever, and with them kubelet's
 * probes: to make room the oldest goes, at once (its callback forgets it). */
static void admit(struct http_server *srv, struct lws *wsi)
{
    if (srv->n_open == MAX_CONNECTIONS)
        lws_set_timeout(srv->open[0], PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_SYNC);
    assert(srv->n_open < MAX_CONNECTIONS);
    srv->open[srv->n_open++] = wsi;
}

static void forget(struct http_server *srv, const struct lws *wsi)
{
    for (size_t i = 0; i < srv->n_open; i++)
        if (srv->open[i] == wsi) {
            memmove(&srv->open[i], &srv->open[i + 1], (--srv->n_open - i) * sizeof(srv->open[0]));
            return;
        }
}

/* --- Requests --- */

static const struct http_route *route_in(const struct listener *l, const char *path, size_t len)
{
    for (size_t i = 0; i < l->opts.n_routes; i++) {
        const struct http_route *r = &l->opts.routes[i];
        if (strlen(r->path) == len && memcmp(r->path, path, len) == 0)
            return r;
    }
    return NULL;
}

static bool same_addr(const struct listener *a, const struct listener *b)
{
    return a->opts.addr && b->opts.addr && strcmp(a->opts.addr, b->opts.addr) == 0;
}

/* The listener that has the port: the first of those that share an address. */
static const struct listener *port_of(const struct http_server *srv, const struct listener *l)
{
    const struct listener *first = srv->listeners;
    while (first != l && !same_addr(first, l))
        first++;
    return first;
}

/* l has a port; whoever shares its address is reached through it. */
static const struct http_route *route_of(const struct listener *l, const char *path, size_t len)
{
    const struct http_route *found = NULL;
    for (size_t i = 0; i < l->srv->n && !found; i++)
        if (same_addr(l, &l->srv->listeners[i]))
            found = route_in(&l->srv->listeners[i], path, len);
    return found;
}

static bool is_head(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) > 0;
}

static bool is_get(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0;
}

static int send_headers(struct lws *wsi, unsigned status, size_t body_len)
{
    unsigned char buf[LWS_PRE + 1024];
    unsigned char *start = buf + LWS_PRE;
    unsigned char *p = start;
    if (lws_add_http_common_headers(wsi, status, "text/plain; version=0.0.4; charset=utf-8",
                                    body_len, &p, buf + sizeof(buf) - 1) ||
        lws_finalize_write_http_header(wsi, start, &p, buf + sizeof(buf) - 1))
        return -1;
    return 0;
}

static int on_request(struct lws *wsi, struct answer *a, const char *path, size_t len)
{
    const struct listener *l = lws_vhost_user(lws_get_vhost(wsi));
    a->body = SB_INIT(MAX_BODY_BYTES);
    a->sent = 0;
    a->head = is_head(wsi);
    if (!a->head && !is_get(wsi))
        return lws_return_http_status(wsi, HTTP_STATUS_METHOD_NOT_ALLOWED, NULL) ? -1 : 1;
    const struct http_route *r = route_of(l, path, len);
    if (!r)
        return lws_return_http_status(wsi, HTTP_STATUS_NOT_FOUND, NULL) ? -1 : 1;
    int status = r->get(r->arg, &a->body);
    if (a->body.overflow)
        return lws_return_http_status(wsi, HTTP_STATUS_INTERNAL_SERVER_ERROR, NULL) ? -1 : 1;
    TRY(send_headers(wsi, (unsigned)status, a->body.len));
    if (a->head || a->body.len == 0)
        return lws_http_transaction_completed(wsi) ? -1 : 0;
    (void)lws_callback_on_writable(wsi);
    return 0;
}

static int on_writeable(struct lws *wsi, struct answer *a)
{
    unsigned char buf[LWS_PRE + CHUNK_BYTES];
    size_t left = a->body.len - a->sent;
    size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    if (!n)
        return 0;
    memcpy(buf + LWS_PRE, a->body.data + a->sent, n);
    bool last = n == left;
    if (lws_write(wsi, buf + LWS_PRE, n, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)n)
        return -1;
    a->sent += n;
    if (!last) {
        (void)lws_callback_on_writable(wsi);
        return 0;
    }
    sb_done(&a->body);
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static struct http_server *server_of(struct lws *wsi)
{
    return ((struct listener *)lws_vhost_user(lws_get_vhost(wsi)))->srv;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    struct answer *a = user;
    switch ((int)reason) {
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        admit(server_of(wsi), wsi);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        forget(server_of(wsi), wsi);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        /* Neither HTTP/2 nor WebSocket: the library's HTTP/2 in clear text corrupts memory. */
        return -1;
    case LWS_CALLBACK_HTTP:
        return on_request(wsi, a, in, len);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return on_writeable(wsi, a);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (a)
            sb_done(&a->body);
        return 0;
    case LWS_CALLBACK_RAW_RX_FILE: /* the scope's descriptor: it was canceled */
        server_of(wsi)->stop = true;
        return -1;
    default:
        return lws_callback_http_dummy(wsi, reason, user, in, len);
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "http", .callback = on_event, .per_session_data_size = sizeof(struct answer)},
    {0},
};

static int split_addr(const char *addr, char **ret_host, int64_t *ret_port, struct err *e)
{
    const char *colon = strrchr(addr, ':');
    if (!colon)
        return err_set(e, ERR_INVALID, "listen address %s: no port (want HOST:PORT)", addr);
    if (num_parse(colon + 1, 0, 65535, ret_port, e) < 0)
        return err_wrap(e, "listen address %s", addr);
    *ret_host = colon == addr ? NULL : xstrndup(addr, (size_t)(colon - addr));
    return 0;
}

static bool is_ipv4(const char *host)
{
    struct in_addr ignored;
    return host && inet_pton(AF_INET, host, &ignored) == 1;
}

static int listen_on(struct http_server *srv, struct listener *l, struct err *e)
{
    auto_free char *host = NULL;
    int64_t port;
    TRY(split_addr(l->opts.addr, &host, &port, e));
    struct lws_context_creation_info info = {
        .port = (int)port,
        .iface = host,
        .protocols = protocols,
        .user = l,
        .vhost_name = l->opts.addr,
        .keepalive_timeout = REQUEST_TIMEOUT_S,
        .timeout_secs = REQUEST_TIMEOUT_S,
        /* Without the second, libwebsockets 4.1 binds an IPv4 address as [::], all addresses. */
        .options = LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   (is_ipv4(host) ? LWS_SERVER_OPTION_DISABLE_IPV6 : 0U),
    };
    l->vhost = lws_create_vhost(srv->ctx, &info);
    if (!l->vhost)
        return err_set(e, ERR_UNAVAILABLE, "cannot listen on %s", l->opts.addr);
    return 0;
}

static int create_context(struct http_server *srv, struct err *e)
{
    lws_set_log_level(0, NULL);
    /* Without a limit libwebsockets sizes its tables by RLIMIT_NOFILE, megabytes on many nodes. */
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN,
        .fd_limit_per_thread = MAX_CONNECTIONS + MAX_LISTENERS + 4,
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
        .pt_serv_buf_size = 4096,
        .max_http_header_pool = MAX_CONNECTIONS,
        .max_http_header_data = 4096,
        .timeout_secs = REQUEST_TIMEOUT_S,
    };
    srv->ctx = lws_create_context(&info);
    return srv->ctx ? 0 : err_set(e, ERR_SYSTEM, "cannot create the HTTP server's context");
}

int http_server_new(const struct http_listener *listeners, size_t n, struct http_server **ret,
                    struct err *e)
{
    assert(n <= MAX_LISTENERS);
    auto_http_server struct http_server *srv = xmalloc(sizeof(*srv));
    TRY(create_context(srv, e));
    for (size_t i = 0; i < n; i++) {
        struct listener *l = &srv->listeners[srv->n++];
        *l = (struct listener){.srv = srv, .opts = listeners[i]};
        if (l->opts.addr && *l->opts.addr && port_of(srv, l) == l)
            TRY(listen_on(srv, l, e));
    }
    *ret = TAKE(srv);
    return 0;
}

int http_server_port(const struct http_server *srv, size_t listener)
{
    const struct listener *l = port_of(srv, &srv->listeners[listener]);
    return l->vhost ? lws_get_vhost_listen_port(l->vhost) : 0;
}

static const struct listener *first_listening(const struct http_server *srv)
{
    for (size_t i = 0; i < srv->n; i++)
        if (srv->listeners[i].vhost)
            return &srv->listeners[i];
    return NULL;
}

int http_server_run(void *arg, struct scope *s, struct err *e)
{
    struct http_server *srv = arg;
    const struct listener *l = first_listening(srv);
    if (!l) {
        (void)scope_wait_ms(s, -1);
        return 0;
    }
    /* libwebsockets closes what it adopts, so it gets a duplicate. */
    lws_sock_file_fd_type cancel = {.filefd = fcntl(scope_cancel_fd(s), F_DUPFD_CLOEXEC, 0)};
    if (!lws_adopt_descriptor_vhost(l->vhost, LWS_ADOPT_RAW_FILE_DESC, cancel, "http", NULL))
        return err_set(e, ERR_SYSTEM, "the HTTP server cannot watch its scope");
    srv->stop = false;
    while (!srv->stop && lws_service(srv->ctx, 0) >= 0)
        ;
    return 0;
}

struct http_server *http_server_free(struct http_server *srv)
{
    if (!srv)
        return NULL;
    if (srv->ctx)
        lws_context_destroy(srv->ctx);
    free(srv);
    return NULL;
}
