/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/h2.h"

#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "nodeagent/kubelet/h2_frames.h"

#define READ_BYTES       (32UL << 10)
#define READS_A_TURN     8
#define WRITE_BYTES      (64UL << 10) /* bound on one write */
#define WINDOW_BYTES     (1 << 20)
#define MAX_HEADER_BYTES (16UL << 10) /* bound for one stream */
#define MAX_HEADERS      8            /* bound on the headers sent */

struct h2 {
    struct reactor *reactor;
    const struct clock *clk;
    const struct h2_role *role;
    void *arg;
    int fd;
    uint32_t events; /* awaited on the socket */
    struct reactor_watch *watch;
    struct reactor_timer *timer;
    nghttp2_session *session;
    struct byte_queue out;
    struct h2_frames frames;
    int64_t idle_ms, heard_ms;
    uint64_t timed_frame; /* the frame for which the timer was set */
    bool used, timed;
    bool in_turn;           /* submitted frames are written before the turn ends */
    struct grpc_status why; /* a code other than GRPC_OK: the connection is over */
    bool *gone;             /* set by h2_free, for the turn during which it was called */
};

bool h2_text_is(struct h2_text t, const char *s)
{
    return strlen(s) == t.len && !memcmp(t.s, s, t.len);
}

/* ---- callbacks of nghttp2 ---- */

static struct h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2 *h = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct h2_stream *s = h->role->begin(h->arg, h, frame->hd.stream_id);
    assert(s && s->h2 == h && s->id == frame->hd.stream_id);
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)flags;
    struct h2 *h = arg;
    struct h2_stream *s = stream_of(session, frame->hd.stream_id);
    if (!s)
        return 0;
    s->header_bytes += name_len + value_len;
    if (s->header_bytes > MAX_HEADER_BYTES)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    h->role->header(s, (struct h2_text){name, name_len}, (struct h2_text){value, value_len});
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p,
                   size_t len, void *arg)
{
    (void)flags;
    const struct h2 *h = arg;
    struct h2_stream *s = stream_of(session, id);
    if (s)
        h->role->data(s, p, len);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    const struct h2 *h = arg;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct h2_stream *s = stream_of(session, frame->hd.stream_id);
    if (s && frame->hd.type == NGHTTP2_HEADERS)
        h->role->headers_end(s);
    if (s && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        h->role->peer_ended(s);
    return 0;
}

/* The first cause stays: a protocol error explains why the peer closed. */
static void be_over(struct h2 *h, enum grpc_code code, const char *text)
{
    if (!h->why.code || code == GRPC_INTERNAL)
        h->why = (struct grpc_status){code, text};
}

/* nghttp2's own GOAWAY shows what it thinks of the peer. An answer that ends before the request
 * means that the rest is not wanted (RFC 9113, section 8.1). */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2 *h = arg;
    int32_t id = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        be_over(h, GRPC_INTERNAL, "the bytes of the peer are not HTTP/2");
    if (h->role->is_server && frame->hd.type == NGHTTP2_HEADERS &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(session, id) == 0)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    const struct h2 *h = arg;
    struct h2_stream *s = stream_of(session, id);
    if (!s)
        return 0;
    assert(s->h2 == h && s->id == id);
    s->h2 = NULL;
    h->role->closed(s, error);
    return 0;
}

/* Streams are found by number, never by a pointer in the source, because they may have been
 * dropped. */
static ssize_t pull(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *arg)
{
    (void)source;
    const struct h2 *h = arg;
    struct h2_stream *s = stream_of(session, id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    assert(s->h2 == h && s->id == id);
    size_t len = byte_queue_len(&s->out);
    if (len == 0 && !s->out_ended)
        return NGHTTP2_ERR_DEFERRED;
    size_t n = len < room ? len : room;
    if (n > 0) {
        memcpy(to, byte_queue_peek(&s->out), n);
        byte_queue_skip(&s->out, n);
    }
    if (n == len && s->out_ended) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (h->role->trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            h->role->trailers(s);
        }
    }
    return (ssize_t)n;
}

/* ---- making ---- */

static void set_callbacks(nghttp2_session_callbacks *cbs)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cbs, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(cbs, on_frame_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_stream_close);
}

/* nghttp2 fails here only when memory runs out. */
static void must(int rc)
{
    if (rc == NGHTTP2_ERR_NOMEM)
        xalloc_failed();
    assert(rc == 0);
}

static void *lib_malloc(size_t bytes, void *arg)
{
    (void)arg;
    return xmalloc(bytes);
}

static void lib_free(void *p, void *arg)
{
    (void)arg;
    free(p);
}

static void *lib_calloc(size_t count, size_t bytes, void *arg)
{
    (void)arg;
    return xcalloc(count, bytes);
}

static void *lib_realloc(void *p, size_t bytes, void *arg)
{
    (void)arg;
    return xrealloc(p, bytes);
}

static void open_session(struct h2 *h)
{
    nghttp2_session_callbacks *cbs = NULL;
    nghttp2_option *option = NULL;
    /* As everywhere, running out of memory ends the process: a session that lost a frame would wait
     * for ever. The settings bound what a peer can use. */
    nghttp2_mem memory = {NULL, lib_malloc, lib_free, lib_calloc, lib_realloc};
    must(nghttp2_session_callbacks_new(&cbs));
    must(nghttp2_option_new(&option));
    set_callbacks(cbs);
    /* nghttp2 would keep closed streams for a tree of priorities that gRPC does not use. */
    nghttp2_option_set_no_closed_streams(option, 1);
    must(h->role->is_server ? nghttp2_session_server_new3(&h->session, cbs, h, option, &memory)
                            : nghttp2_session_client_new3(&h->session, cbs, h, option, &memory));
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cbs);
}

static void submit_settings(struct h2 *h, const struct grpc_limits *limits)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)limits->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, MAX_HEADER_BYTES},
    };
    size_t first = h->role->is_server ? 1 : 0; /* only clients may forbid push */
    must(nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings + first,
                                 ARRAY_LEN(settings) - first));
    /* The connection has a window of its own, which settings do not change. */
    must(nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES));
}

static void on_ready(void *arg, uint32_t events);

static void on_idle(void *arg)
{
    struct h2 *h = arg;
    const char *text = h2_frames_is_inside(&h->frames) ? "the peer stopped inside a frame"
                                                       : "the connection was not used";
    h->role->over(h->arg, (struct grpc_status){GRPC_UNAVAILABLE, text});
}

int h2_new(struct reactor *r, int fd, const struct h2_role *role, void *arg,
           const struct grpc_limits *limits, struct h2 **ret, struct err *e)
{
    assert(role->closed && role->turn && role->over && (role->begin || !role->is_server));
    assert(limits->idle_ms > 0 && limits->max_streams > 0 && limits->max_streams <= UINT32_MAX);
    auto_h2 struct h2 *h = xmalloc(sizeof(*h));
    *h = (struct h2){
        .reactor = r,
        .clk = reactor_clock(r),
        .role = role,
        .arg = arg,
        .fd = fd,
        .events = EPOLLIN | EPOLLOUT, /* the settings are to be sent */
        .idle_ms = limits->idle_ms,
        .heard_ms = clock_mono_ms(reactor_clock(r)),
        .used = !role->is_server,
    };
    if (role->is_server)
        h->frames.skip = H2_PREFACE_BYTES;
    TRY(reactor_watch(r, fd, h->events, on_ready, h, &h->watch, e));
    h->timer = reactor_timer_new(r, on_idle, h);
    open_session(h);
    submit_settings(h, limits);
    h->timed = !h->used;
    if (h->timed)
        reactor_timer_set(h->timer, h->idle_ms);
    *ret = TAKE(h);
    return 0;
}

struct h2 *h2_free(struct h2 *h)
{
    if (!h)
        return NULL;
    if (h->gone)
        *h->gone = true;
    (void)reactor_unwatch(h->watch);
    (void)reactor_timer_free(h->timer);
    nghttp2_session_del(h->session);
    byte_queue_done(&h->out);
    auto_close_fd(&h->fd);
    free(h);
    return NULL;
}

/* ---- turns ---- */

static void take_in(struct h2 *h, const uint8_t *p, size_t len)
{
    h->heard_ms = clock_mono_ms(h->clk);
    h2_frames_add(&h->frames, p, len);
    if (nghttp2_session_mem_recv(h->session, p, len) < 0)
        be_over(h, GRPC_INTERNAL, "the bytes of the peer are not HTTP/2");
}

static void receive(struct h2 *h)
{
    uint8_t buffer[READ_BYTES];
    for (int i = 0; i < READS_A_TURN && !h->why.code; i++) {
        ssize_t n = recv(h->fd, buffer, sizeof(buffer), 0);
        if (n > 0)
            take_in(h, buffer, (size_t)n);
        else if (n == 0)
            be_over(h, GRPC_UNAVAILABLE, "the peer closed the connection");
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            be_over(h, GRPC_UNAVAILABLE, "the connection broke");
    }
}

static void gather(struct h2 *h)
{
    while (byte_queue_len(&h->out) < WRITE_BYTES) {
        const uint8_t *p = NULL;
        ssize_t n = nghttp2_session_mem_send(h->session, &p);
        if (n < 0)
            be_over(h, GRPC_INTERNAL, "the bytes of the peer are not HTTP/2");
        if (n <= 0)
            return;
        byte_queue_add(&h->out, p, (size_t)n);
    }
}

/* Writes until nothing is left or the socket is full. */
static void flush(struct h2 *h)
{
    for (;;) {
        gather(h);
        size_t len = byte_queue_len(&h->out);
        if (len == 0)
            return;
        ssize_t n = send(h->fd, byte_queue_peek(&h->out), len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR) {
            be_over(h, GRPC_UNAVAILABLE, "the peer closed the connection");
            return;
        }
        if (n > 0)
            byte_queue_skip(&h->out, (size_t)n);
    }
}

static void wait_for(struct h2 *h, uint32_t events)
{
    if (events != h->events)
        reactor_watch_change(h->watch, events);
    h->events = events;
}

/* Causes queued frames to be written, in this turn or in a new one. */
static void wake(struct h2 *h)
{
    if (!h->in_turn)
        wait_for(h, EPOLLIN | EPOLLOUT);
}

/* Each frame gets the whole time; single bytes do not prolong it. */
static void set_timer(struct h2 *h)
{
    bool inside = h2_frames_is_inside(&h->frames);
    if (h->used && (!inside || h->timed_frame != h->frames.count)) {
        reactor_timer_unset(h->timer);
        h->timed = false;
    }
    if (!inside || h->timed)
        return;
    reactor_timer_set(h->timer, h->idle_ms);
    h->timed = true;
    h->timed_frame = h->frames.count;
}

static void write_out(struct h2 *h)
{
    flush(h);
    if (!nghttp2_session_want_read(h->session) && byte_queue_len(&h->out) == 0)
        be_over(h, GRPC_UNAVAILABLE, "the peer accepts no more streams");
    wait_for(h, byte_queue_len(&h->out) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
    set_timer(h);
}

static void on_ready(void *arg, uint32_t events)
{
    struct h2 *h = arg;
    bool gone = false;
    assert(!h->gone && !h->in_turn);
    h->gone = &gone;
    h->in_turn = true;
    if (events & ~(uint32_t)EPOLLOUT)
        receive(h);
    h->role->turn(h->arg);
    if (gone)
        return;
    write_out(h);
    h->in_turn = false;
    h->role->turn(h->arg);
    if (gone)
        return;
    h->gone = NULL;
    if (h->why.code)
        h->role->over(h->arg, h->why);
}

void h2_goodbye(struct h2 *h)
{
    flush(h);
    (void)nghttp2_session_terminate_session(h->session, NGHTTP2_NO_ERROR);
    flush(h);
}

void h2_set_used(struct h2 *h)
{
    h->used = true;
}

int64_t h2_heard_ms(const struct h2 *h)
{
    return h->heard_ms;
}

/* ---- streams ---- */

static size_t to_nv(const struct h2_header *headers, size_t n, nghttp2_nv nv[MAX_HEADERS])
{
    assert(n <= MAX_HEADERS);
    for (size_t i = 0; i < n; i++)
        nv[i] = (nghttp2_nv){
            /* nghttp2 copies the name and does not write to it. */
            .name = (uint8_t *)(uintptr_t)headers[i].name,
            .value = (uint8_t *)(uintptr_t)headers[i].value,
            .namelen = strlen(headers[i].name),
            .valuelen = strlen(headers[i].value),
        };
    return n;
}

int h2_request(struct h2 *h, struct h2_stream *s, const struct h2_header *headers, size_t n,
               struct err *e)
{
    assert(!s->h2); /* a stream is opened once */
    if (!nghttp2_session_check_request_allowed(h->session))
        return err_set(e, ERR_UNAVAILABLE, "the peer accepts no more streams");
    nghttp2_nv nv[MAX_HEADERS];
    const nghttp2_data_provider body = {.read_callback = pull};
    int32_t id = nghttp2_submit_request(h->session, NULL, nv, to_nv(headers, n, nv), &body, s);
    if (id < 0)
        return err_set(e, ERR_UNAVAILABLE, "%s", nghttp2_strerror(id));
    s->h2 = h;
    s->id = id;
    wake(h);
    return 0;
}

void h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n)
{
    nghttp2_nv nv[MAX_HEADERS];
    const nghttp2_data_provider body = {.read_callback = pull};
    (void)nghttp2_submit_response(s->h2->session, s->id, nv, to_nv(headers, n, nv), &body);
    wake(s->h2);
}

void h2_respond_only(struct h2_stream *s, const struct h2_header *headers, size_t n)
{
    nghttp2_nv nv[MAX_HEADERS];
    (void)nghttp2_submit_response(s->h2->session, s->id, nv, to_nv(headers, n, nv), NULL);
    wake(s->h2);
}

void h2_trailers(struct h2_stream *s, const struct h2_header *headers, size_t n)
{
    nghttp2_nv nv[MAX_HEADERS];
    (void)nghttp2_submit_trailer(s->h2->session, s->id, nv, to_nv(headers, n, nv));
}

void h2_resume(struct h2_stream *s)
{
    (void)nghttp2_session_resume_data(s->h2->session, s->id); /* not deferred: it is sent anyway */
    wake(s->h2);
}

void h2_drop(struct h2_stream *s)
{
    struct h2 *h = TAKE(s->h2);
    (void)nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
    (void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    wake(h);
}
