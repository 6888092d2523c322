/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_session.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "service/http_child.h"
#include "service/http_intake.h"

enum {
    /* Time for a child that was ordered to leave to end its connections. */
    LEAVE_MS = 5000,
    /* Age at which a child that was asked is replaced, long before probes and scrapes have used up
     * its CPU limit (http_child.c). */
    RENEW_MS = 24 * 3600 * 1000,
    /* Requests with a body from one look at the child's processor time to the next. The longest
     * takes some milliseconds of it. */
    WEAR_REQUESTS = 256,
};

/* The next thing to do without a question from the child. */
struct due {
    int64_t at_ms;
    int64_t old_at_ms; /* the child is then replaced for its age */
    bool asked;        /* the child has put a question */
    bool leaving;      /* the child was ordered to leave; when due, it is ended */
};

/* A question that waits for a token's review. */
struct waiting {
    struct http_ask ask;
    struct access_key key;
};

struct session {
    struct http_port *port;
    const struct http_process *child;
    const struct scope *scope;
    struct due due;
    struct http_intake intake;
    struct waiting seats[HTTP_MAX_QUESTIONS]; /* by the question's number, which is unique */
    size_t n_waiting;
    bool handed_on[HTTP_MAX_QUESTIONS]; /* to a http_post_fn; not answered yet */
    unsigned n_handed_on;               /* since the last look at the child's processor time */
};

static bool answer(const struct session *s, uint16_t question, int status, const struct sb *body)
{
    const struct http_answer head = {question, (uint16_t)status, (uint32_t)body->len};
    return http_process_send(s->child, s->scope, &head, sizeof(head)) &&
           http_process_send(s->child, s->scope, body->data, body->len);
}

static bool answer_page(const struct session *s, const struct http_ask *a)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    const struct http_route *r = s->port->routes[a->route];
    int status = r->get(r->arg, &body);
    if (body.overflow) {
        status = 500;
        sb_reset(&body);
        sb_add(&body, "the page is too long\n");
    }
    return answer(s, a->question, status, &body);
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

static bool answer_access(const struct session *s, const struct http_ask *a, enum access access)
{
    if (access == ACCESS_ALLOWED)
        return answer_page(s, a);
    auto_sb struct sb body = SB_INIT(HTTP_MAX_PIECE_BYTES);
    sb_add(&body, refusals[access].why);
    return answer(s, a->question, refusals[access].status, &body);
}

static bool is_waiting(const struct session *s, uint16_t question)
{
    for (size_t i = 0; i < s->n_waiting; i++)
        if (s->seats[i].ask.question == question)
            return true;
    return false;
}

/* False: as serve_child. */
static bool ask_for_leave(struct session *s, const struct http_ask_record *r)
{
    struct access_key key;
    if (is_waiting(s, r->head.question))
        return false;
    assert(s->n_waiting < HTTP_MAX_QUESTIONS); /* numbers are below it, and none waits twice */
    enum access access =
        access_gate_ask(s->port->gate, r->token, r->head.token_len, r->head.peer, &key);
    if (access != ACCESS_PENDING)
        return answer_access(s, &r->head, access);
    s->seats[s->n_waiting++] = (struct waiting){r->head, key};
    return true;
}

/* Answers the questions whose tokens were reviewed. */
static bool call_in(struct session *s)
{
    size_t n = s->n_waiting;
    access_gate_heard(s->port->gate);
    s->n_waiting = 0;
    for (size_t i = 0; i < n; i++) {
        const struct waiting one = s->seats[i];
        enum access access = access_gate_result(s->port->gate, &one.key);
        if (access == ACCESS_PENDING)
            s->seats[s->n_waiting++] = one;
        else if (!answer_access(s, &one.ask, access))
            return false;
    }
    return true;
}

/* --- Requests with a body --- */

static bool send_replies(struct session *s)
{
    for (;;) {
        auto_http_reply struct http_reply *given = http_replies_collect(s->port->replies);
        if (!given)
            return true;
        s->handed_on[given->question] = false;
        if (!answer(s, given->question, given->status, &given->body))
            return false;
    }
}

static bool refuse_for_now(const struct session *s, uint16_t question)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_PIECE_BYTES);
    sb_add(&body, "{\"error\": \"too many requests are unanswered; try again\"}\n");
    return answer(s, question, 503, &body);
}

/* An answer that is given at once is sent at once. False: as serve_child. */
static bool hand_on(struct session *s, const struct http_ask *a, const char *body)
{
    const struct http_route *r = s->port->routes[a->route];
    if (s->handed_on[a->question])
        return false;
    struct http_reply *reply = http_replies_owe(s->port->replies, a->question);
    if (!reply)
        return refuse_for_now(s, a->question);
    s->handed_on[a->question] = true;
    s->n_handed_on++;
    r->post(r->arg, reply, body, a->body_len);
    return send_replies(s);
}

/* --- Questions --- */

static bool serve_question(struct session *s)
{
    const struct http_ask_record *r = &s->intake.ask;
    if (s->intake.body)
        return hand_on(s, &r->head, s->intake.body);
    return s->port->gate ? ask_for_leave(s, r) : answer_page(s, &r->head);
}

/* Answers one question of the child. False: the child broke the protocol, or closed the channel. */
static bool serve_child(struct session *s)
{
    enum http_taken taken = http_intake_read(&s->intake, s->child->channel, &s->port->terms);
    if (taken != HTTP_TAKEN_WHOLE)
        return taken == HTTP_TAKEN_NOTHING;
    bool going = serve_question(s);
    http_intake_done(&s->intake);
    return going;
}

/* --- Renewal --- */

bool http_session_renew(struct http_port *port)
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
    port->pair = (struct tls_pair){TAKE(now.cert_pem), TAKE(now.key_pem), TAKE(now.client_ca_pem)};
    return true;
}

static int due_in_ms(const struct due *d)
{
    int64_t left = d->at_ms - clock_mono_ms(clock_real());
    return left < 0 ? 0 : (int)left;
}

/* The next look at the certificate, or the end of the child's age. */
static int64_t next_due(const struct http_port *port, const struct due *d, int64_t now)
{
    int64_t look_at = now + tls_files_look_ms(&port->tls);
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

/* Makes a child old that has used much of its processor time. */
static void look_for_wear(struct session *s)
{
    int64_t limit_ms =
        s->port->renew_cpu_ms ? s->port->renew_cpu_ms : HTTP_CHILD_WORN_S * INT64_C(1000);
    if (s->n_handed_on < WEAR_REQUESTS)
        return;
    s->n_handed_on = 0;
    if (s->due.leaving || clock_used_ms(s->child->pid) < limit_ms)
        return;
    s->due.old_at_ms = clock_mono_ms(clock_real());
    s->due.at_ms = s->due.old_at_ms;
}

/* False: the child's life ends. */
static bool do_what_is_due(struct session *s)
{
    const struct http_answer leave = {.question = HTTP_LEAVE};
    struct due *d = &s->due;
    if (d->leaving)
        return false;
    int64_t now = clock_mono_ms(clock_real());
    bool renewed = http_session_renew(s->port);
    d->leaving = is_old(s->port, d, now) || renewed;
    d->at_ms = d->leaving ? now + LEAVE_MS : next_due(s->port, d, now);
    if (!d->leaving)
        return true;
    if (renewed)
        log_info("The certificate was renewed", kv("address", s->port->addr));
    return http_process_send(s->child, s->scope, &leave, sizeof(leave));
}

/* --- Life --- */

enum { STOP, CHANNEL, REVIEWS, REPLIES, EVENTS };

static void watch(const struct session *s, struct pollfd fds[EVENTS])
{
    const struct http_port *p = s->port;
    const int all[EVENTS] = {
        [STOP] = scope_cancel_fd(s->scope),
        [CHANNEL] = s->child->channel,
        [REVIEWS] = p->gate ? access_gate_fd(p->gate) : -1,
        [REPLIES] = p->replies ? http_replies_fd(p->replies) : -1,
    };
    for (size_t i = 0; i < EVENTS; i++)
        fds[i] = (struct pollfd){.fd = all[i], .events = POLLIN};
}

/* False: the child's life ends. */
static bool react(struct session *s, const struct pollfd fds[EVENTS])
{
    bool going = true;
    if (fds[REVIEWS].revents)
        going = call_in(s);
    if (going && fds[REPLIES].revents)
        going = send_replies(s);
    if (going && fds[CHANNEL].revents) {
        s->due.asked = true;
        going = serve_child(s);
        look_for_wear(s);
    }
    if (going && due_in_ms(&s->due) == 0)
        going = do_what_is_due(s);
    return going;
}

static void converse(struct session *s)
{
    struct pollfd fds[EVENTS];
    bool going = true;
    watch(s, fds);
    while (going) {
        int n = poll(fds, ARRAY_LEN(fds), due_in_ms(&s->due));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || fds[STOP].revents)
            break;
        going = react(s, fds);
    }
}

enum http_end http_session_run(struct http_port *port, const struct http_process *c,
                               const struct scope *s)
{
    struct session now = {.port = port, .child = c, .scope = s, .due = first_due(port)};
    if (port->replies)
        http_replies_next_child(port->replies);
    converse(&now);
    http_intake_done(&now.intake);
    return scope_is_canceled(s) ? HTTP_STOPPED : now.due.leaving ? HTTP_RENEWED : HTTP_BROKEN;
}
