/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/grpc_server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_frame.h"
#include "nodeagent/kubelet/grpc_socket.h"
#include "nodeagent/kubelet/h2.h"

#define ACCEPTS_A_TURN  16
#define ACCEPT_PAUSE_MS 1000
/* Bound on the requests being received on one connection, in largest messages. */
#define MAX_HELD_MESSAGES 4
#define CONTENT_TYPE      "application/grpc"

/*
 * The states of a call. Handlers are called from `on_turn` alone, without nghttp2 on the stack;
 * before that, events are noted by moving calls between lists.
 *
 *   CALL_ARRIVING  on its connection's list; the request's timer runs
 *   CALL_READY     also waits for its handler; the deadline's timer runs
 *   CALL_HANDLED   belongs to the handler
 *   CALL_LOST      belongs to the handler, has no stream; on_end must be called
 *   CALL_ORPHAN    was lost and has no on_end: kept until the handler finishes it
 *   CALL_FINISHED  no longer used; freed with its stream
 */
enum call_state {
    CALL_ARRIVING,
    CALL_READY,
    CALL_HANDLED,
    CALL_LOST,
    CALL_ORPHAN,
    CALL_FINISHED,
};

TAILQ_HEAD(call_list, grpc_call);
TAILQ_HEAD(conn_list, conn);

struct conn {
    struct grpc_server *server;
    struct h2 *h2;
    struct call_list calls; /* those with a stream */
    TAILQ_ENTRY(conn) link;
};

struct grpc_server {
    struct reactor *reactor;
    char *path;
    struct grpc_socket_id id;
    int fd;
    struct reactor_watch *watch;
    struct reactor_timer *pause; /* pauses accepting */
    const struct grpc_method *methods;
    size_t n_methods;
    void *arg;
    struct grpc_limits limits;
    struct conn_list conns;
    size_t n_conns;
    struct call_list lost; /* CALL_LOST and CALL_ORPHAN */
    unsigned calling;      /* number of handlers on the stack */
};

struct grpc_call {
    struct h2_stream stream; /* first: h2 knows a call by it */
    struct grpc_server *server;
    struct conn *conn;
    enum call_state state;
    const struct grpc_method *method;
    bool is_post, is_grpc, responded;
    int64_t timeout_ms;         /* grpc-timeout; -1: none */
    struct grpc_status headers; /* the error in its headers */
    struct grpc_reader in;
    struct reactor_timer *timer;
    enum grpc_code code;
    char *text;
    void (*on_end)(void *arg);
    void *on_end_arg;
    TAILQ_ENTRY(grpc_call) link; /* of conn->calls or server->lost */
};

/* ---- calls ---- */

static void call_free(struct grpc_call *c)
{
    assert(c->state != CALL_HANDLED && !c->conn); /* nobody has it any more */
    (void)reactor_timer_free(c->timer);
    byte_queue_done(&c->stream.out);
    grpc_reader_done(&c->in);
    free(c->text);
    free(c);
}

/* Fills in the two headers for a call's status; returns their number. */
static size_t status_headers(const struct grpc_call *c, struct sb *code, struct sb *text,
                             struct h2_header headers[2])
{
    sb_addf(code, "%d", (int)c->code);
    headers[0] = (struct h2_header){"grpc-status", sb_str(code)};
    if (!c->text)
        return 1;
    grpc_text_encode(text, c->text);
    headers[1] = (struct h2_header){"grpc-message", sb_str(text)};
    return 2;
}

/* Answers with headers only: a status without a message. */
static void respond_only(struct grpc_call *c, const char *http_status)
{
    auto_sb struct sb code = SB_INIT(16);
    auto_sb struct sb text = SB_INIT(3UL * GRPC_MAX_TEXT_BYTES);
    struct h2_header headers[4] = {{":status", http_status}, {"content-type", CONTENT_TYPE}};
    size_t n = 2 + status_headers(c, &code, &text, headers + 2);
    h2_respond_only(&c->stream, headers, n);
    c->responded = true;
}

static void on_trailers(struct h2_stream *s)
{
    auto_sb struct sb code = SB_INIT(16);
    auto_sb struct sb text = SB_INIT(3UL * GRPC_MAX_TEXT_BYTES);
    struct h2_header headers[2];
    size_t n = status_headers((struct grpc_call *)s, &code, &text, headers);
    h2_trailers(s, headers, n);
}

static void respond(struct grpc_call *c)
{
    static const struct h2_header headers[] = {{":status", "200"}, {"content-type", CONTENT_TYPE}};
    h2_respond(&c->stream, headers, ARRAY_LEN(headers));
    c->responded = true;
}

/* Finishes the call; it then belongs to its stream alone. */
static void end_call(struct grpc_call *c, const char *http_status, enum grpc_code code,
                     const char *text)
{
    assert(c->conn && c->state != CALL_FINISHED);
    c->state = CALL_FINISHED;
    c->code = code;
    xstr_set(&c->text, text);
    c->stream.out_ended = true;
    reactor_timer_unset(c->timer);
    if (c->responded)
        h2_resume(&c->stream);
    else
        respond_only(c, http_status);
}

/* Ends a call that no handler has seen. */
static void refuse_call(struct grpc_call *c, const char *http_status, enum grpc_code code,
                        const char *text)
{
    if (c->state != CALL_ARRIVING)
        return;
    grpc_reader_done(&c->in);
    end_call(c, http_status, code, text);
}

/* The stream is gone. A handler's call stays until its on_end is called. */
static void lose(struct grpc_call *c)
{
    assert(c->conn && !c->stream.h2);
    TAILQ_REMOVE(&c->conn->calls, c, link);
    c->conn = NULL;
    reactor_timer_unset(c->timer);
    if (c->state != CALL_HANDLED) {
        call_free(c);
        return;
    }
    byte_queue_done(&c->stream.out);
    c->state = c->on_end ? CALL_LOST : CALL_ORPHAN;
    TAILQ_INSERT_TAIL(&c->server->lost, c, link);
}

static struct grpc_call *next_lost(const struct grpc_server *s)
{
    struct grpc_call *c = TAILQ_FIRST(&s->lost);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): does not see through TAILQ_REMOVE */
    while (c && c->state != CALL_LOST)
        c = TAILQ_NEXT(c, link);
    return c;
}

static void call_on_end(struct grpc_call *c)
{
    c->server->calling++;
    assert(c->on_end);
    c->on_end(c->on_end_arg);
    c->server->calling--;
}

static void tell_lost(struct grpc_server *s)
{
    struct grpc_call *c;
    while ((c = next_lost(s))) {
        TAILQ_REMOVE(&s->lost, c, link);
        c->state = CALL_FINISHED;
        call_on_end(c);
        call_free(c);
    }
}

/* ---- the peer's requests ---- */

/* The deadline is the peer's as well: a call whose handler has no on_end waits for the peer's
 * reset. */
static void on_call_timer(void *arg)
{
    struct grpc_call *c = arg;
    if (c->state == CALL_ARRIVING) {
        refuse_call(c, "200", GRPC_DEADLINE_EXCEEDED, "the request did not arrive in time");
    } else if (c->on_end) {
        end_call(c, "200", GRPC_DEADLINE_EXCEEDED, "the caller's deadline");
        call_on_end(c);
    }
}

static struct h2_stream *on_begin(void *arg, struct h2 *h, int32_t id)
{
    struct conn *conn = arg;
    struct grpc_server *s = conn->server;
    struct grpc_call *c = xmalloc(sizeof(*c));
    *c = (struct grpc_call){
        .stream = {.h2 = h, .id = id},
        .server = s,
        .conn = conn,
        .timeout_ms = -1,
        .in = {.max = s->limits.max_message},
    };
    c->timer = reactor_timer_new(s->reactor, on_call_timer, c);
    reactor_timer_set(c->timer, s->limits.request_ms);
    TAILQ_INSERT_TAIL(&conn->calls, c, link);
    return &c->stream;
}

static const struct grpc_method *find_method(const struct grpc_server *s, struct h2_text path)
{
    for (size_t i = 0; i < s->n_methods; i++)
        if (h2_text_is(path, s->methods[i].path))
            return &s->methods[i];
    return NULL;
}

static void on_header(struct h2_stream *s, struct h2_text name, struct h2_text value)
{
    struct grpc_call *c = (struct grpc_call *)s;
    if (h2_text_is(name, ":method"))
        c->is_post = h2_text_is(value, "POST");
    else if (h2_text_is(name, ":path"))
        c->method = find_method(c->server, value);
    else if (h2_text_is(name, "content-type"))
        c->is_grpc = grpc_is_content_type(value.s, value.len);
    else if (h2_text_is(name, "grpc-timeout") &&
             !grpc_timeout_parse((const char *)value.s, value.len, &c->timeout_ms))
        c->headers = (struct grpc_status){GRPC_INTERNAL, "grpc-timeout is malformed"};
    else if (h2_text_is(name, "grpc-encoding") && !h2_text_is(value, "identity"))
        c->headers = (struct grpc_status){GRPC_UNIMPLEMENTED, "compression is not understood"};
}

static void on_headers_end(struct h2_stream *s)
{
    struct grpc_call *c = (struct grpc_call *)s;
    if (!c->is_post)
        refuse_call(c, "405", GRPC_INTERNAL, "gRPC calls are POST");
    else if (!c->is_grpc)
        refuse_call(c, "415", GRPC_INTERNAL, "content-type is not application/grpc");
    else if (!c->method)
        refuse_call(c, "200", GRPC_UNIMPLEMENTED, "unknown method");
    else if (c->headers.code)
        refuse_call(c, "200", c->headers.code, c->headers.text);
}

static size_t held_bytes(const struct conn *conn)
{
    size_t held = 0;
    const struct grpc_call *c;
    TAILQ_FOREACH(c, &conn->calls, link)
    held += byte_queue_len(&c->in.message);
    return held;
}

static void on_data(struct h2_stream *s, const uint8_t *p, size_t len)
{
    struct grpc_call *c = (struct grpc_call *)s;
    if (c->state != CALL_ARRIVING)
        return;
    struct grpc_status v = grpc_reader_add(&c->in, p, len);
    if (v.code)
        refuse_call(c, "200", v.code, v.text);
    else if (held_bytes(c->conn) > MAX_HELD_MESSAGES * c->server->limits.max_message)
        refuse_call(c, "200", GRPC_RESOURCE_EXHAUSTED, "too many large requests at once");
}

static void on_peer_ended(struct h2_stream *s)
{
    struct grpc_call *c = (struct grpc_call *)s;
    if (c->state != CALL_ARRIVING)
        return;
    if (!grpc_reader_is_whole(&c->in)) {
        refuse_call(c, "200", GRPC_INTERNAL, "the request is not a whole message");
        return;
    }
    c->state = CALL_READY;
    reactor_timer_unset(c->timer);
    if (c->timeout_ms >= 0)
        reactor_timer_set(c->timer, c->timeout_ms);
}

static void on_closed(struct h2_stream *s, uint32_t error)
{
    (void)error;
    lose((struct grpc_call *)s);
}

/* ---- connections ---- */

static struct grpc_call *next_ready(const struct conn *conn)
{
    struct grpc_call *c = TAILQ_FIRST(&conn->calls);
    while (c && c->state != CALL_READY)
        c = TAILQ_NEXT(c, link);
    return c;
}

static void on_turn(void *arg)
{
    const struct conn *conn = arg;
    struct grpc_server *s = conn->server;
    struct grpc_call *c;
    while ((c = next_ready(conn))) {
        assert(c->method);
        h2_set_used(conn->h2);
        c->state = CALL_HANDLED;
        s->calling++;
        c->method->fn(s->arg, c, byte_queue_peek(&c->in.message), byte_queue_len(&c->in.message));
        s->calling--;
        grpc_reader_done(&c->in); /* streams are closed later in the turn */
    }
    tell_lost(s);
}

static void conn_free(struct conn *conn)
{
    struct grpc_server *s = conn->server;
    TAILQ_REMOVE(&s->conns, conn, link);
    assert(s->n_conns > 0);
    s->n_conns--;
    struct grpc_call *c;
    while ((c = TAILQ_FIRST(&conn->calls))) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): does not see through TAILQ_REMOVE */
        c->stream.h2 = NULL;
        lose(c);
    }
    (void)h2_free(conn->h2);
    free(conn);
    tell_lost(s);
}

static void on_over(void *arg, struct grpc_status why)
{
    (void)why;
    conn_free(arg);
}

static const struct h2_role role = {
    .is_server = true,
    .begin = on_begin,
    .header = on_header,
    .headers_end = on_headers_end,
    .data = on_data,
    .peer_ended = on_peer_ended,
    .trailers = on_trailers,
    .closed = on_closed,
    .turn = on_turn,
    .over = on_over,
};

static void conn_open(struct grpc_server *s, int fd)
{
    struct conn *conn = xmalloc(sizeof(*conn));
    *conn = (struct conn){.server = s};
    TAILQ_INIT(&conn->calls);
    if (h2_new(s->reactor, fd, &role, conn, &s->limits, &conn->h2, NULL) < 0) {
        free(conn);
        return;
    }
    TAILQ_INSERT_TAIL(&s->conns, conn, link);
    s->n_conns++;
}

static bool has_handled_call(const struct conn *conn)
{
    const struct grpc_call *c = TAILQ_FIRST(&conn->calls);
    while (c && c->state != CALL_HANDLED)
        c = TAILQ_NEXT(c, link);
    return c != NULL;
}

/* The connection to close for a new one: the one silent for longest that has no call at a handler.
 * (The kubelet's stream is silent for hours.) NULL: there is none. */
static struct conn *find_idlest(const struct grpc_server *s)
{
    struct conn *idlest = NULL;
    struct conn *conn;
    TAILQ_FOREACH(conn, &s->conns, link)
    if (!has_handled_call(conn) && (!idlest || h2_heard_ms(conn->h2) < h2_heard_ms(idlest->h2)))
        idlest = conn;
    return idlest;
}

static bool make_room(struct grpc_server *s)
{
    if (s->n_conns < s->limits.max_connections)
        return true;
    struct conn *idlest = find_idlest(s);
    if (idlest)
        conn_free(idlest);
    return idlest;
}

static void on_pause_over(void *arg)
{
    reactor_watch_change(((struct grpc_server *)arg)->watch, EPOLLIN);
}

/* A connection that cannot be accepted stays readable; without a pause the loop would spin. */
static void pause_accepting(struct grpc_server *s)
{
    reactor_watch_change(s->watch, 0);
    reactor_timer_set(s->pause, ACCEPT_PAUSE_MS);
}

static void on_accept(void *arg, uint32_t events)
{
    (void)events;
    struct grpc_server *s = arg;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        auto_fd int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
            pause_accepting(s);
        if (fd < 0)
            return;
        if (make_room(s))
            conn_open(s, TAKE_FD(fd));
    }
}

/* ---- the server ---- */

static int start_listening(struct grpc_server *s, struct err *e)
{
    TRY(grpc_socket_listen(s->path, &s->fd, &s->id, e));
    TRY(reactor_watch(s->reactor, s->fd, EPOLLIN, on_accept, s, &s->watch, e));
    return 0;
}

int grpc_server_new(struct reactor *r, const struct grpc_server_options *o,
                    struct grpc_server **ret, struct err *e)
{
    assert(o->path && (o->methods || o->n_methods == 0));
    auto_grpc_server struct grpc_server *s = xmalloc(sizeof(*s));
    *s = (struct grpc_server){
        .reactor = r,
        .path = xstrdup(o->path),
        .fd = -1,
        .methods = o->methods,
        .n_methods = o->n_methods,
        .arg = o->arg,
        .limits = grpc_limits_filled(&o->limits),
    };
    TAILQ_INIT(&s->conns);
    TAILQ_INIT(&s->lost);
    s->pause = reactor_timer_new(r, on_pause_over, s);
    TRY(start_listening(s, e));
    *ret = TAKE(s);
    return 0;
}

bool grpc_server_is_reachable(const struct grpc_server *s)
{
    return grpc_socket_is(s->path, &s->id);
}

/* Calls the handlers' on_end when the connection ends. */
static void end_calls(struct conn *conn)
{
    struct grpc_call *c;
    TAILQ_FOREACH(c, &conn->calls, link)
    {
        enum call_state state = c->state;
        if (state == CALL_FINISHED)
            continue;
        end_call(c, "200", GRPC_UNAVAILABLE, "the server is shutting down");
        c->state = state;
    }
}

static void close_listener(struct grpc_server *s)
{
    if (s->fd >= 0 && grpc_server_is_reachable(s))
        (void)unlink(s->path);
    (void)reactor_unwatch(s->watch);
    (void)reactor_timer_free(s->pause);
    auto_close_fd(&s->fd);
}

struct grpc_server *grpc_server_free(struct grpc_server *s)
{
    if (!s)
        return NULL;
    assert(s->calling == 0);
    close_listener(s);
    struct conn *conn;
    while ((conn = TAILQ_FIRST(&s->conns))) {
        end_calls(conn);
        h2_goodbye(conn->h2);
        conn_free(conn);
    }
    struct grpc_call *c;
    while ((c = TAILQ_FIRST(&s->lost))) {
        TAILQ_REMOVE(&s->lost, c, link);
        call_free(c);
    }
    free(s->path);
    free(s);
    return NULL;
}

/* ---- functions for handlers ---- */

int grpc_call_send(struct grpc_call *c, const uint8_t *message, size_t len, struct err *e)
{
    if (c->state != CALL_HANDLED)
        return 0;
    size_t max = c->server->limits.max_queued;
    if (len > max || byte_queue_len(&c->stream.out) > max - len)
        return err_set(e, ERR_TOO_LARGE, "%zu bytes more than %zu would wait to be sent", len, max);
    grpc_frame_add(&c->stream.out, message, len);
    if (c->responded)
        h2_resume(&c->stream);
    else
        respond(c);
    return 0;
}

void grpc_call_finish(struct grpc_call *c, enum grpc_code code, const char *text)
{
    assert(c->state >= CALL_HANDLED); /* before that no handler has it */
    if (c->state == CALL_LOST || c->state == CALL_ORPHAN) {
        TAILQ_REMOVE(&c->server->lost, c, link);
        call_free(c);
        return;
    }
    if (c->state == CALL_HANDLED)
        end_call(c, "200", code, text);
}

void grpc_call_on_end(struct grpc_call *c, void (*fn)(void *arg), void *arg)
{
    c->on_end = fn;
    c->on_end_arg = arg;
}
