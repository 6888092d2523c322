/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/grpc_client.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/queue.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_frame.h"
#include "nodeagent/kubelet/grpc_socket.h"
#include "nodeagent/kubelet/h2.h"

/*
 * A call is on `open` while its stream is, then on `done` until its function was called, which
 * happens without nghttp2 on the stack. A connection on which a deadline passed is closed with its
 * last call: it may be stuck, and its queue must not grow.
 */
TAILQ_HEAD(client_calls, client_call);

struct grpc_client {
    struct reactor *reactor;
    char *path;
    struct grpc_limits limits;
    struct h2 *h2; /* NULL: not connected */
    bool suspect;  /* a deadline passed on it */
    struct client_calls open, done;
    struct reactor_timer *deliver; /* for work outside of a turn */
    bool delivering, freed;        /* freed: by a reply's function; deliver() then frees it */
};

struct client_call {
    struct h2_stream stream; /* first: h2 knows a call by it */
    struct grpc_client *client;
    grpc_reply_fn *fn;
    void *arg;
    struct reactor_timer *deadline;
    struct grpc_reader in;
    struct grpc_status check; /* GRPC_OK: no error in the answer so far */
    int64_t http_status;
    bool is_grpc;
    int64_t status; /* grpc-status; -1: none yet */
    int code;       /* the reply's */
    char *text;
    TAILQ_ENTRY(client_call) link;
};

/* ---- the end of a call ---- */

static void call_free(struct client_call *call)
{
    (void)reactor_timer_free(call->deadline);
    byte_queue_done(&call->stream.out);
    grpc_reader_done(&call->in);
    free(call->text);
    free(call);
}

static void finish_call(struct client_call *call, int code, const char *text)
{
    struct grpc_client *c = call->client;
    assert(!call->stream.h2); /* no more calls from h2 */
    call->code = code;
    if (text)
        xstr_set(&call->text, text);
    reactor_timer_unset(call->deadline);
    TAILQ_REMOVE(&c->open, call, link);
    TAILQ_INSERT_TAIL(&c->done, call, link);
}

static void deliver_reply(const struct client_call *call)
{
    bool good = call->code == GRPC_OK;
    const struct grpc_reply reply = {
        .code = call->code,
        .text = call->text ? call->text : grpc_code_name(call->code),
        .message = good ? byte_queue_peek(&call->in.message) : NULL,
        .len = good ? byte_queue_len(&call->in.message) : 0,
    };
    call->fn(call->arg, &reply);
}

static void disconnect(struct grpc_client *c)
{
    c->h2 = h2_free(c->h2);
    c->suspect = false;
}

/* Calls the functions of ended calls. One of them may free the client. */
static void deliver(struct grpc_client *c)
{
    if (c->suspect && TAILQ_EMPTY(&c->open))
        disconnect(c);
    assert(!c->delivering && !c->freed);
    c->delivering = true;
    struct client_call *call;
    while (!c->freed && (call = TAILQ_FIRST(&c->done))) {
        TAILQ_REMOVE(&c->done, call, link);
        deliver_reply(call);
        call_free(call);
    }
    c->delivering = false;
    if (c->freed)
        (void)grpc_client_free(c);
}

static void on_deliver(void *arg)
{
    deliver(arg);
}

/* ---- the peer's answer ---- */

static void on_header(struct h2_stream *s, struct h2_text name, struct h2_text value)
{
    struct client_call *call = (struct client_call *)s;
    auto_free char *text = xstrndup((const char *)value.s, value.len);
    if (h2_text_is(name, ":status")) {
        if (num_parse(text, 100, 999, &call->http_status, NULL) < 0)
            call->http_status = 0;
    } else if (h2_text_is(name, "content-type"))
        call->is_grpc = grpc_is_content_type(value.s, value.len);
    else if (h2_text_is(name, "grpc-encoding") && !h2_text_is(value, "identity"))
        call->check = (struct grpc_status){GRPC_INTERNAL, "the answer is compressed"};
    else if (h2_text_is(name, "grpc-status") &&
             num_parse(text, 0, INT32_MAX, &call->status, NULL) < 0)
        call->status = GRPC_UNKNOWN;
    else if (h2_text_is(name, "grpc-message")) {
        free(call->text);
        call->text = grpc_text_decode(value.s, value.len);
    }
}

static bool is_answer(const struct client_call *call)
{
    return call->http_status == 200 && call->is_grpc;
}

/* Ends a call that cannot get a valid answer any more. */
static void give_up(struct client_call *call)
{
    h2_drop(&call->stream);
    finish_call(call, (int)call->check.code, call->check.text);
}

static void on_headers_end(struct h2_stream *s)
{
    struct client_call *call = (struct client_call *)s;
    if (call->check.code)
        give_up(call);
}

static void on_data(struct h2_stream *s, const uint8_t *p, size_t len)
{
    struct client_call *call = (struct client_call *)s;
    if (!is_answer(call))
        return; /* a page of text of some other server */
    call->check = grpc_reader_add(&call->in, p, len);
    if (call->check.code == GRPC_UNIMPLEMENTED)
        call->check.code = GRPC_INTERNAL; /* the peer violates the protocol */
    if (call->check.code)
        give_up(call);
}

static void conclude_whole(struct client_call *call)
{
    if (call->status > 0)
        finish_call(call, (int)call->status, NULL);
    else if (call->status < 0 && call->http_status > 0 && call->http_status != 200)
        finish_call(call, grpc_code_of_http((int)call->http_status),
                    "the peer is an HTTP server without gRPC");
    else if (call->status < 0)
        finish_call(call, GRPC_INTERNAL, "the answer has no grpc-status");
    else if (!call->is_grpc || !grpc_reader_is_whole(&call->in))
        finish_call(call, GRPC_INTERNAL, "the answer is not a whole message");
    else
        finish_call(call, GRPC_OK, NULL);
}

static void on_peer_ended(struct h2_stream *s)
{
    (void)s; /* the result is decided when the stream closes, with or without an error */
}

/* grpc.io: "HTTP2 Transport Mapping", errors. */
static int code_of_reset(uint32_t error)
{
    switch (error) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

/* A received status counts more than a following reset, because servers that answer early reset the
 * stream. */
static void on_closed(struct h2_stream *s, uint32_t error)
{
    struct client_call *call = (struct client_call *)s;
    if (error == NGHTTP2_NO_ERROR || call->status > 0)
        conclude_whole(call);
    else
        finish_call(call, code_of_reset(error), nghttp2_http2_strerror(error));
}

/* ---- the connection ---- */

static void on_turn(void *arg)
{
    deliver(arg);
}

static void on_over(void *arg, struct grpc_status why)
{
    struct grpc_client *c = arg;
    struct client_call *call;
    while ((call = TAILQ_FIRST(&c->open))) {
        call->stream.h2 = NULL;
        finish_call(call, (int)why.code, why.text);
    }
    disconnect(c);
    deliver(c);
}

static const struct h2_role role = {
    .header = on_header,
    .headers_end = on_headers_end,
    .data = on_data,
    .peer_ended = on_peer_ended,
    .closed = on_closed,
    .turn = on_turn,
    .over = on_over,
};

static int connect_if_needed(struct grpc_client *c, struct err *e)
{
    if (c->h2)
        return 0;
    auto_fd int fd = -1;
    TRY(grpc_socket_connect(c->path, &fd, e));
    return h2_new(c->reactor, TAKE_FD(fd), &role, c, &c->limits, &c->h2, e);
}

/* ---- calls ---- */

static void on_deadline(void *arg)
{
    struct client_call *call = arg;
    struct grpc_client *c = call->client;
    h2_drop(&call->stream);
    finish_call(call, GRPC_DEADLINE_EXCEEDED, "no answer in time");
    c->suspect = true;
    deliver(c);
}

static int request(struct client_call *call, const char *method, int64_t deadline_ms, struct err *e)
{
    struct grpc_client *c = call->client;
    TRY(connect_if_needed(c, e));
    auto_free char *timeout = grpc_timeout_format(deadline_ms);
    const struct h2_header headers[] = {
        {":method", "POST"},
        {":scheme", "http"},
        {":path", method},
        {":authority", "localhost"},
        {"te", "trailers"},
        {"content-type", "application/grpc"},
        {"user-agent", "cleave/" CLEAVE_VERSION},
        {"grpc-timeout", timeout},
    };
    return h2_request(c->h2, &call->stream, headers, ARRAY_LEN(headers), e);
}

void grpc_client_call(struct grpc_client *c, const char *method, const uint8_t *message, size_t len,
                      int64_t deadline_ms, grpc_reply_fn *fn, void *arg)
{
    assert(!c->freed && fn && deadline_ms > 0);
    struct client_call *call = xmalloc(sizeof(*call));
    *call = (struct client_call){
        .client = c,
        .fn = fn,
        .arg = arg,
        .in = {.max = c->limits.max_message},
        .status = -1,
        .stream = {.out_ended = true},
    };
    call->deadline = reactor_timer_new(c->reactor, on_deadline, call);
    grpc_frame_add(&call->stream.out, message, len);
    TAILQ_INSERT_TAIL(&c->open, call, link);
    auto_err struct err e = {0};
    if (request(call, method, deadline_ms, &e) < 0) {
        finish_call(call, GRPC_UNAVAILABLE, err_msg(&e));
        reactor_timer_set(c->deliver, 0);
        return;
    }
    reactor_timer_set(call->deadline, deadline_ms);
}

struct grpc_client *grpc_client_new(struct reactor *r, const char *path,
                                    const struct grpc_limits *limits)
{
    struct grpc_client *c = xmalloc(sizeof(*c));
    *c = (struct grpc_client){
        .reactor = r,
        .path = xstrdup(path),
        .limits = grpc_limits_filled(limits ? limits : &(struct grpc_limits){0}),
    };
    TAILQ_INIT(&c->open);
    TAILQ_INIT(&c->done);
    c->deliver = reactor_timer_new(r, on_deliver, c);
    return c;
}

static void free_calls(struct client_calls *calls)
{
    struct client_call *call;
    while ((call = TAILQ_FIRST(calls))) {
        TAILQ_REMOVE(calls, call, link);
        call_free(call);
    }
}

struct grpc_client *grpc_client_free(struct grpc_client *c)
{
    if (!c)
        return NULL;
    if (c->delivering) {
        c->freed = true;
        return NULL;
    }
    disconnect(c);
    free_calls(&c->open);
    free_calls(&c->done);
    (void)reactor_timer_free(c->deliver);
    free(c->path);
    free(c);
    return NULL;
}
