/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_server.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "service/http_process.h"
#include "service/http_session.h"
#include "service/listen_socket.h"
#include "service/sandbox.h"

enum {
    MAX_LISTENERS = 4,
    /* A uid that nothing else uses. 65532 is the usual user of images without root and 65534 is
     * nobody; both may own other processes of the node. */
    CHILD_UID = 65533,
    /* Nobody can ask before a certificate is there: one that is awaited is looked for this often. */
    AWAIT_MS = 1000,
    /* A port that another process has is waited for so often and so long: two seconds. */
    PORT_LOOKS = 100,
    PORT_LOOK_MS = 20,
};

/* A listener with a port of its own has a thread and a child. Set up by one thread; then fd, the
 * port's certificate, backoff and rng belong to the port's thread, any thread reads number and
 * awaits_tls, and the rest does not change. */
struct listener {
    const struct http_server *srv;
    struct http_port port;
    bool owns; /* it has a port: it is neither off nor sharing another listener's */
    int fd; /* the port's socket; -1: it could not be bound anew yet, or not for the first time */
    atomic_int number;      /* the actual one; 0: it was not bound yet */
    atomic_bool awaits_tls; /* the port is opened once the certificate is there */
    struct backoff backoff;
    struct rng rng;
};

struct http_server {
    struct listener listeners[MAX_LISTENERS];
    size_t n;
    uid_t child_uid;                /* 0: no change of user */
    struct metric_series *restarts; /* NULL: not counted */
};

/* --- Ports --- */

static bool same_addr(const struct listener *a, const struct listener *b)
{
    return a->port.addr && b->port.addr && strcmp(a->port.addr, b->port.addr) == 0;
}

/* The listener that owns the port: the first of those that share an address. */
static const struct listener *port_of(const struct http_server *srv, const struct listener *l)
{
    const struct listener *first = srv->listeners;
    while (first != l && !same_addr(first, l))
        first++;
    return first;
}

static void serve_routes(struct listener *owner, const struct http_listener *o)
{
    for (size_t i = 0; i < o->n_routes; i++) {
        const struct http_route *r = &o->routes[i];
        size_t number = owner->port.terms.n_routes++;
        assert(number < HTTP_MAX_ROUTES && !r->get == !!r->post);
        owner->port.routes[number] = r;
        owner->port.terms.posts |= (uint16_t)(!!r->post << number);
    }
    owner->port.terms.guarded = owner->port.gate;
    if (owner->port.terms.posts && !owner->port.replies)
        owner->port.replies = http_replies_new();
}

static bool takes_bodies(const struct http_listener *o)
{
    for (size_t i = 0; i < o->n_routes; i++)
        if (o->routes[i].post)
            return true;
    return false;
}

static bool is_special(const struct listener *l)
{
    return l->port.gate || l->port.tls.cert;
}

static int read_certificate(struct listener *l, bool may_wait, struct err *e)
{
    auto_err struct err why = {0};
    if (!may_wait)
        return tls_files_read(&l->port.tls, &l->port.pair, e);
    if (tls_files_read(&l->port.tls, &l->port.pair, &why) == 0)
        return 0;
    log_warn("Awaiting a certificate before the port is opened", kv("address", l->port.addr),
             kv_err(&why));
    atomic_store(&l->awaits_tls, true);
    return 0;
}

static int open_port(struct listener *l, struct err *e)
{
    int number = l->number;
    TRY(listen_socket_open(l->port.addr, number, &l->fd, &number, e));
    atomic_store(&l->number, number);
    return 0;
}

/* The children of a program that was killed have its ports until they have read of its end, a
 * moment after whoever starts it again. */
static int await_port(struct listener *l, struct err *e)
{
    auto_err struct err why = {0};
    int rc = open_port(l, &why);
    if (rc == -ERR_EXISTS)
        log_warn("Awaiting a port that another process has", kv("address", l->port.addr));
    for (int i = 0; rc == -ERR_EXISTS && i < PORT_LOOKS; i++) {
        (void)poll(NULL, 0, PORT_LOOK_MS);
        err_clear(&why);
        rc = open_port(l, &why);
    }
    return rc < 0 ? err_move(e, &why) : 0;
}

static int add_listener(struct http_server *srv, const struct http_listener *o, struct err *e)
{
    struct listener *l = &srv->listeners[srv->n++];
    *l = (struct listener){
        .srv = srv,
        .port = {.addr = o->addr,
                 .gate = o->gate,
                 .tls = o->tls,
                 .renew_ms = o->renew_ms,
                 .renew_cpu_ms = o->renew_cpu_ms},
        .fd = -1,
    };
    if (!o->addr || !*o->addr)
        return 0;
    if (o->gate && takes_bodies(o))
        return err_set(e, ERR_INVALID, "%s: what takes a body cannot be behind a token", o->addr);
    struct listener *owner = &srv->listeners[port_of(srv, l) - srv->listeners];
    if (owner != l && (is_special(owner) || is_special(l)))
        return err_set(e, ERR_INVALID,
                       "%s is the address of plain pages for everybody and of pages behind TLS or "
                       "a token: give the latter a port of its own",
                       o->addr);
    if (l->port.tls.cert)
        TRY(read_certificate(l, o->awaits_tls, e));
    if (owner == l) {
        if (!l->awaits_tls)
            TRY(await_port(l, e));
        l->owns = true;
        /* The kubelet gives up a probe after three seconds and a container after a minute, so
         * retries are fast. */
        l->backoff = (struct backoff){.base_ms = 50,
                                      .cap_ms = 1000,
                                      .factor = 2,
                                      .jitter_pct = 20,
                                      .reset_after_ms = 60000};
        rng_init_random(&l->rng);
    }
    serve_routes(owner, o);
    return 0;
}

static uid_t child_user(void)
{
    if (geteuid() != 0)
        return 0;
    if (sandbox_can_change_user())
        return CHILD_UID;
    log_warn("The processes that serve HTTP run as user 0 without capabilities",
             kv("why", "this program lacks the capabilities SETUID and SETGID"),
             kv("remedy", "add both to the container's securityContext.capabilities.add"));
    return 0;
}

int http_server_new(const struct http_listener *listeners, size_t n, struct metrics *metrics,
                    struct http_server **ret, struct err *e)
{
    assert(n <= MAX_LISTENERS);
    auto_http_server struct http_server *srv = xmalloc(sizeof(*srv));
    srv->child_uid = child_user();
    for (size_t i = 0; i < n; i++)
        TRY(add_listener(srv, &listeners[i], e));
    if (metrics)
        srv->restarts =
            METRIC_WITH(metrics_counter(metrics, "cleave_http_restarts_total",
                                        "Restarts of the process that serves HTTP.", NULL));
    *ret = TAKE(srv);
    return 0;
}

int http_server_port(const struct http_server *srv, size_t listener)
{
    return atomic_load(&port_of(srv, &srv->listeners[listener])->number);
}

bool http_server_awaits_tls(const struct http_server *srv, size_t listener)
{
    return atomic_load(&port_of(srv, &srv->listeners[listener])->awaits_tls);
}

/* Replaces the listening socket, which parent and child share: only the child's system call filter
 * keeps it from shutting the socket down. No child runs when this is called. */
static int bind_anew(struct listener *l, struct err *e)
{
    if (listen_socket_listens(l->fd))
        return 0;
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
    TRY(open_port(l, e));
    log_error("A socket no longer listened and was bound anew", kv("address", l->port.addr),
              kv_int("port", l->number));
    return 0;
}

/* --- Serving --- */

static int start_child(const struct listener *l, struct http_process *ret, struct err *e)
{
    const struct http_process_options o = {
        .socket = l->fd,
        .uid = l->srv->child_uid,
        .guarded = l->port.gate,
        .pair = &l->port.pair,
        .routes = l->port.routes,
        .n_routes = l->port.terms.n_routes,
    };
    return http_process_start(&o, ret, e);
}

static enum http_end run_child(struct listener *l, const struct scope *s)
{
    auto_err struct err e = {0};
    struct http_process c = {.channel = -1, .words = -1};
    if (bind_anew(l, &e) < 0 || start_child(l, &c, &e) < 0) {
        log_error("Could not start the process that serves HTTP", kv("address", l->port.addr),
                  kv_err(&e));
        return HTTP_BROKEN;
    }
    log_debug("Started the process that serves HTTP", kv("address", l->port.addr),
              kv_int("pid", c.pid));
    enum http_end end = http_session_run(&l->port, &c, s);
    http_process_end(&c, l->port.addr, end != HTTP_BROKEN);
    return end;
}

/* Returns once the certificate is there and the port is open, or the scope ended. */
static void await_certificate(struct listener *l, const struct scope *s)
{
    int look_ms = tls_files_look_ms(&l->port.tls);
    while (l->awaits_tls && scope_wait_ms(s, look_ms < AWAIT_MS ? look_ms : AWAIT_MS)) {
        auto_err struct err why = {0};
        if (tls_files_read(&l->port.tls, &l->port.pair, &why) < 0)
            continue;
        if (open_port(l, &why) < 0) {
            log_error("Could not open a port", kv("address", l->port.addr), kv_err(&why));
            tls_pair_done(&l->port.pair);
            continue;
        }
        log_info("The certificate is there", kv("address", l->port.addr));
        atomic_store(&l->awaits_tls, false);
    }
}

struct attendant {
    struct listener *listener;
    const struct scope *scope;
    pthread_t thread;
};

static void *attend_port(void *arg)
{
    const struct attendant *a = arg;
    struct listener *l = a->listener;
    await_certificate(l, a->scope);
    while (!scope_is_canceled(a->scope)) {
        if (run_child(l, a->scope) != HTTP_BROKEN)
            continue;
        if (l->srv->restarts)
            metric_add(l->srv->restarts, 1);
        /* It may be the certificate that no child can serve with. */
        (void)http_session_renew(&l->port);
        (void)scope_wait_ms(a->scope, backoff_next_ms(&l->backoff, clock_real(), &l->rng));
    }
    return NULL;
}

/* Returns 0, or the errno of the first thread that did not start. */
static int start_attendants(struct http_server *srv, const struct scope *s,
                            struct attendant *attendants, size_t *ret_started)
{
    *ret_started = 0;
    for (size_t i = 0; i < srv->n; i++) {
        struct attendant *a = &attendants[*ret_started];
        if (!srv->listeners[i].owns)
            continue;
        *a = (struct attendant){.listener = &srv->listeners[i], .scope = s};
        int failure = pthread_create(&a->thread, NULL, attend_port, a);
        if (failure)
            return failure;
        (*ret_started)++;
    }
    return 0;
}

int http_server_run(void *arg, struct scope *s, struct err *e)
{
    struct attendant attendants[MAX_LISTENERS];
    size_t n;
    auto_scope struct scope *life = scope_new(s, -1);
    int failure = start_attendants(arg, life, attendants, &n);
    if (!failure)
        (void)scope_wait_ms(s, -1);
    scope_cancel(life);
    for (size_t i = 0; i < n; i++)
        (void)pthread_join(attendants[i].thread, NULL);
    return failure ? err_set_errno(e, failure, "starting the threads of the HTTP server") : 0;
}

struct http_server *http_server_free(struct http_server *srv)
{
    if (!srv)
        return NULL;
    for (size_t i = 0; i < srv->n; i++) {
        tls_pair_done(&srv->listeners[i].port.pair);
        (void)http_replies_free(srv->listeners[i].port.replies);
        if (srv->listeners[i].fd >= 0)
            (void)close(srv->listeners[i].fd);
    }
    free(srv);
    return NULL;
}
