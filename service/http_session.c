/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/xalloc.h"

enum {
    /* Interval of checks of a certificate's files; the kubelet delivers a renewed one within a
     * minute. */
    LOOK_MS = 10 * 1000,
    /* Time for a child that was ordered to leave to end its connections. */
    LEAVE_MS = 5000,
    /* Age at which a child that was asked is replaced, long before probes and scrapes have used up
     * its CPU limit (http_child.c). */
    RENEW_MS = 24 * 3600 * 1000,
};

static bool answer(const struct http_process *c, const struct scope *s, uint16_t question,
                   int status, const struct sb *body)
{
    const struct http_answer head = {question, (uint16_t)status, (uint32_t)body->len};
    return http_process_send(c, s, &head, sizeof(head)) &&
           http_process_send(c, s, body->data, body->len);
}

static bool answer_page(const struct http_port *port, const struct http_process *c,
                        const struct scope *s, const struct http_ask *a)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    const struct http_route *r = port->routes[a->route];
    int status = r->get(r->arg, &body);
    if (body.overflow) {
        status = 500;
        sb_reset(&body);
        sb_add(&body, "the page is too long\n");
    }
    return answer(c, s, a->question, status, &body);
}

/* --- Access --- */

/* The answers to visitors that do not get the page. */
static const struct refusal {
    int status;
    const char *why;
} refusals[] = {
    [ACCESS_UNAUTHENTICATED] = {401, "the API server does not know this token\n"},
    [ACCESS_FORBIDDEN] = {403, "the bearer of this token may not get this page: that takes the "
                               "verb get on its path, as nonResourceURLs of a ClusterRole\n"},
    [ACCESS_UNKNOWN] = {503, "the API server could not be asked about this token; the log of the "
                             "program says why\n"},
    [ACCESS_BUSY] = {429, "too many unknown tokens at once; try again\n"},
};

static bool answer_access(const struct http_port *port, const struct http_process *c,
                          const struct scope *s, const struct http_ask *a, enum access access)
{
    if (access == ACCESS_ALLOWED)
        return answer_page(port, c, s, a);
    auto_sb struct sb body = SB_INIT(HTTP_MAX_PIECE_BYTES);
    sb_add(&body, refusals[access].why);
    return answer(c, s, a->question, refusals[access].status, &body);
}

/* Questions that wait for a token's review. */
struct waiting {
    struct http_ask ask;
    struct access_key key;
};

struct waiting_room {
    struct waiting seats[HTTP_MAX_QUESTIONS]; /* by the question's number, which is unique */
    size_t n;
};

static bool is_waiting(const struct waiting_room *w, uint16_t question)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->seats[i].ask.question == question)
            return true;
    return false;
}

/* False: as serve_child. */
static bool ask_for_leave(const struct http_port *port, const struct http_process *c,
                          const struct scope *s, struct waiting_room *w,
                          const struct http_ask_record *r)
{
    struct access_key key;
    if (is_waiting(w, r->head.question))
        return false;
    assert(w->n < HTTP_MAX_QUESTIONS); /* numbers are below it, and none waits twice */
    enum access access =
        access_gate_ask(port->gate, r->token, r->head.token_len, r->head.peer, &key);
    if (access != ACCESS_PENDING)
        return answer_access(port, c, s, &r->head, access);
    w->seats[w->n++] = (struct waiting){r->head, key};
    return true;
}

/* Answers the questions whose tokens were reviewed. */
static bool call_in(const struct http_port *port, const struct http_process *c,
                    const struct scope *s, struct waiting_room *w)
{
    size_t n = w->n;
    access_gate_heard(port->gate);
    w->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct waiting one = w->seats[i];
        enum access access = access_gate_result(port->gate, &one.key);
        if (access == ACCESS_PENDING)
            w->seats[w->n++] = one;
        else if (!answer_access(port, c, s, &one.ask, access))
            return false;
    }
    return true;
}

/* Answers one question of the child. False: the child broke the protocol, or closed the channel. */
static bool serve_child(const struct http_port *port, const struct http_process *c,
                        const struct scope *s, struct waiting_room *w)
{
    struct http_ask_record r;
    ssize_t n = recv(c->channel, &r, sizeof(r), MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    bool going = http_ask_is_sound(&r, (size_t)n, port->n_routes, port->gate);
    if (going)
        going = port->gate ? ask_for_leave(port, c, s, w, &r) : answer_page(port, c, s, &r.head);
    explicit_bzero(r.token, sizeof(r.token));
    return going;
}

/* --- Renewal --- */

/* Reads the files, if there are any; true when they hold another pair, which the port then uses. An
 * unusable pair may be half of a renewal, so the old one stays. */
static bool look_for_renewal(struct http_port *port)
{
    auto_err struct err e = {0};
    auto_tls_pair struct tls_pair now = {0};
    if (!port->pair.cert_pem)
        return false;
    if (tls_files_read(&port->tls, &now, &e) < 0) {
        if (!port->complained)
            log_warn("Kept the old certificate", kv("address", port->addr), kv_err(&e));
        port->complained = true;
        return false;
    }
    port->complained = false;
    if (tls_pair_equals(&now, &port->pair))
        return false;
    tls_pair_done(&port->pair);
    port->pair = (struct tls_pair){TAKE(now.cert_pem), TAKE(now.key_pem)};
    return true;
}

/* The next thing to do without a question from the child. */
struct due {
    int64_t at_ms;
    int64_t old_at_ms; /* the child is then replaced for its age */
    bool asked;        /* the child has put a question */
    bool leaving;      /* the child was ordered to leave; when due, it is ended */
};

static int look_ms(const struct http_port *port)
{
    return port->tls.look_ms ? port->tls.look_ms : LOOK_MS;
}

static int due_in_ms(const struct due *d)
{
    int64_t left = d->at_ms - clock_mono_ms(clock_real());
    return left < 0 ? 0 : (int)left;
}

/* The next look at the certificate, or the end of the child's age. */
static int64_t next_due(const struct http_port *port, const struct due *d, int64_t now)
{
    int64_t look_at = now + look_ms(port);
    return port->pair.cert_pem && look_at < d->old_at_ms ? look_at : d->old_at_ms;
}

static int64_t next_age(const struct http_port *port, int64_t now)
{
    return now + (port->renew_ms ? port->renew_ms : RENEW_MS);
}

static struct due first_due(const struct http_port *port)
{
    int64_t now = clock_mono_ms(clock_real());
    struct due d = {.old_at_ms = next_age(port, now)};
    d.at_ms = next_due(port, &d, now);
    return d;
}

/* A child that put no question yet may still be starting, and were it replaced, so might the next
 * one be, and nobody would be served. */
static bool is_old(const struct http_port *port, struct due *d, int64_t now)
{
    if (now < d->old_at_ms)
        return false;
    if (!d->asked)
        d->old_at_ms = next_age(port, now);
    return d->asked;
}

/* False: the child's life ends. */
static bool do_what_is_due(struct http_port *port, const struct http_process *c,
                           const struct scope *s, struct due *d)
{
    const struct http_answer leave = {.question = HTTP_LEAVE};
    if (d->leaving)
        return false;
    int64_t now = clock_mono_ms(clock_real());
    bool renewed = look_for_renewal(port);
    d->leaving = is_old(port, d, now) || renewed;
    d->at_ms = d->leaving ? now + LEAVE_MS : next_due(port, d, now);
    if (!d->leaving)
        return true;
    if (renewed)
        log_info("The certificate was renewed", kv("address", port->addr));
    return http_process_send(c, s, &leave, sizeof(leave));
}

enum http_end http_session_run(struct http_port *port, const struct http_process *c,
                               const struct scope *s)
{
    struct waiting_room w = {.n = 0};
    struct due due = first_due(port);
    struct pollfd fds[] = {{.fd = scope_cancel_fd(s), .events = POLLIN},
                           {.fd = c->channel, .events = POLLIN},
                           {.fd = port->gate ? access_gate_fd(port->gate) : -1, .events = POLLIN}};
    bool going = true;
    while (going) {
        int n = poll(fds, ARRAY_LEN(fds), due_in_ms(&due));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || fds[0].revents)
            break;
        if (fds[2].revents)
            going = call_in(port, c, s, &w);
        if (going && fds[1].revents) {
            due.asked = true;
            going = serve_child(port, c, s, &w);
        }
        if (going && due_in_ms(&due) == 0)
            going = do_what_is_due(port, c, s, &due);
    }
    return scope_is_canceled(s) ? HTTP_STOPPED : due.leaving ? HTTP_RENEWED : HTTP_BROKEN;
}
