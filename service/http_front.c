/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_front.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "service/http_channel.h"

enum {
    CONNECTION_BYTES = 16 << 10,
    CONNECTION_TIMEOUT_S = 10,
    DEFAULT_HELD_BYTES = 16 << 20,
};

/* TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers, which clients of the last ten
 * years support. No session tickets: no visitor comes back soon enough to be worth their state. */
#define TLS_PRIORITIES                                                                             \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-AES-128-CBC:-AES-256-CBC:-SHA1:"          \
    "%SERVER_PRECEDENCE:%NO_TICKETS"

#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* A connection. */
struct guest {
    int fd;
    bool asks;   /* a request on it is being answered */
    bool asked;  /* it has made a request before */
    bool reads;  /* it is being sent a text */
    bool leaves; /* it was shut down and ends soon */
};

/* A text that is being sent to the connections that requested it. */
struct text {
    struct http_front *front;
    struct MHD_Response *response;
    unsigned status;
    unsigned readers; /* requests that have not been given the response yet */
    size_t len;
    char *bytes;
};

/* A request for a page: from the end of its headers to the end of its answer. */
struct request {
    struct MHD_Connection *connection;
    bool covered;         /* the page's text was asked for after this request had come */
    struct text *text;    /* the answer; NULL: not there yet, or given */
    struct request *next; /* in the list of requests for the page */
};

/* A question to the parent. Where pages are open, there is one question for each page. A request
 * that comes while its question is unanswered waits for the next one, so no visitor gets a text
 * older than its request. Where pages need a token, each request has a question of its own. */
struct question {
    struct request *waiting;
    bool asked;
};

struct http_front {
    int channel;
    struct MHD_Daemon *daemon;
    int epoll;
    struct guest *guests[HTTP_FRONT_MAX_CONNECTIONS]; /* oldest first */
    size_t n_guests;
    const char *const *paths;
    size_t n_paths;
    bool guarded;
    struct question questions[HTTP_MAX_QUESTIONS];
    size_t held; /* bytes of all texts not freed yet */
    size_t max_held;
    /* The answer that is being read. */
    struct http_answer head;
    size_t got; /* bytes read, head and body */
    char *body;
    bool broken;  /* sending to the channel failed */
    bool leaving; /* the parent ordered the end */
};

/* --- Connections --- */

static void send_away(struct guest *g)
{
    g->leaves = true;
    (void)shutdown(g->fd, SHUT_RDWR);
}

/* Slow senders could hold all connections for ever and keep the kubelet's probes out, so the oldest
 * connection is closed to make room. */
static void make_room(struct http_front *f)
{
    size_t staying = 0;
    for (size_t i = 0; i < f->n_guests; i++)
        staying += !f->guests[i]->leaves;
    for (size_t i = 0; i < f->n_guests && staying > HTTP_FRONT_CONNECTIONS; i++) {
        if (f->guests[i]->leaves)
            continue;
        send_away(f->guests[i]);
        staying--;
    }
}

static void admit(struct http_front *f, struct MHD_Connection *connection, void **ret_guest)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    assert(info && f->n_guests < HTTP_FRONT_MAX_CONNECTIONS);
    struct guest *g = xmalloc(sizeof(*g));
    *g = (struct guest){.fd = info->connect_fd};
    f->guests[f->n_guests++] = g;
    *ret_guest = g;
    make_room(f);
}

static void forget(struct http_front *f, struct guest *g)
{
    for (size_t i = 0; i < f->n_guests; i++)
        if (f->guests[i] == g) {
            memmove(&f->guests[i], &f->guests[i + 1], (--f->n_guests - i) * sizeof(g));
            free(g);
            return;
        }
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **guest,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        admit(arg, connection, guest);
    else
        forget(arg, *guest);
}

static struct guest *guest_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* A slow reader keeps a page in memory. When one more page would exceed max_held, every connection
 * that still reads one is closed. */
static void dismiss_readers(struct http_front *f)
{
    for (size_t i = 0; i < f->n_guests; i++)
        if (f->guests[i]->reads && !f->guests[i]->leaves)
            send_away(f->guests[i]);
}

/* --- The channel --- */

/* IPv6 addresses are folded to four bytes; an IPv4 address is used as it is. 0: unknown. */
static uint32_t peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    uint32_t parts[4] = {0};
    if (!info || !info->client_addr)
        return 0;
    if (info->client_addr->sa_family == AF_INET)
        memcpy(parts, (const char *)info->client_addr + offsetof(struct sockaddr_in, sin_addr),
               sizeof(struct in_addr));
    else if (info->client_addr->sa_family == AF_INET6)
        memcpy(parts, (const char *)info->client_addr + offsetof(struct sockaddr_in6, sin6_addr),
               sizeof(struct in6_addr));
    return parts[0] ^ parts[1] ^ parts[2] ^ parts[3];
}

/* token NULL: none. False: the channel is full of other requests' tokens. */
static bool ask(struct http_front *f, struct question *q, size_t route, const char *token,
                uint32_t peer)
{
    struct http_ask_record a = {.head = {.question = (uint16_t)(q - f->questions),
                                         .route = (uint16_t)route,
                                         .token_len = (uint16_t)(token ? strlen(token) : 0)}};
    size_t len = sizeof(a.head) + a.head.token_len;
    if (token) {
        memcpy(a.token, token, a.head.token_len);
        a.head.peer = peer;
    }
    ssize_t n = send(f->channel, &a, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (token && n < 0 && errno == EAGAIN)
        return false;
    /* Without tokens there is at most one question for each page in the channel, so there is always
     * room. */
    if (n != (ssize_t)len)
        f->broken = true;
    q->asked = true;
    for (struct request *r = q->waiting; r; r = r->next)
        r->covered = true;
    return true;
}

static void say_how_to_log_in(struct MHD_Response *r, unsigned status)
{
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
}

static void free_text(void *arg)
{
    struct text *t = arg;
    t->front->held -= t->len;
    free(t->bytes);
    free(t);
}

/* Freed when no request waits for it and the last answer with it has ended. */
static struct text *text_new(struct http_front *f, unsigned status, char *bytes_take, size_t len)
{
    struct text *t = xmalloc(sizeof(*t));
    *t = (struct text){.front = f, .status = status, .readers = 1, .len = len, .bytes = bytes_take};
    f->held += len;
    t->response =
        MHD_create_response_from_buffer_with_free_callback_cls(len, bytes_take, free_text, t);
    if (!t->response)
        xalloc_failed();
    (void)MHD_add_response_header(t->response, MHD_HTTP_HEADER_CONTENT_TYPE, CONTENT_TYPE);
    say_how_to_log_in(t->response, status);
    return t;
}

static void text_unref(struct text *t)
{
    if (--t->readers == 0)
        MHD_destroy_response(t->response);
}

/* Gives the text that has just arrived to every request that came before it was asked for. */
static void deliver(struct question *q, struct text *t)
{
    struct request *later = NULL;
    struct request *next;
    for (struct request *r = q->waiting; r; r = next) {
        next = r->next;
        if (r->covered) {
            t->readers++;
            r->text = t;
            MHD_resume_connection(r->connection);
        } else {
            r->next = later;
            later = r;
        }
    }
    q->waiting = later;
    q->asked = false;
}

/* Closes idle connections. One without any request so far is kept, because it may be about to make
 * one. */
static void leave(struct http_front *f)
{
    f->leaving = true;
    (void)MHD_quiesce_daemon(f->daemon);
    for (size_t i = 0; i < f->n_guests; i++)
        if (f->guests[i]->asked && !f->guests[i]->asks && !f->guests[i]->leaves)
            send_away(f->guests[i]);
}

static bool is_to_leave(const struct http_front *f)
{
    return f->head.question == HTTP_LEAVE && f->head.len == 0;
}

static bool is_sound(const struct http_front *f)
{
    return f->head.question < HTTP_MAX_QUESTIONS && f->questions[f->head.question].asked &&
           f->head.status >= 200 && f->head.status < 600 && f->head.len <= HTTP_MAX_BODY_BYTES;
}

/* Reads the rest of the current record. */
static ssize_t take(struct http_front *f)
{
    size_t head = sizeof(f->head);
    if (f->got < head)
        return recv(f->channel, (char *)&f->head + f->got, head - f->got, MSG_DONTWAIT);
    return recv(f->channel, f->body + (f->got - head), f->head.len - (f->got - head), MSG_DONTWAIT);
}

static bool is_whole(const struct http_front *f)
{
    return f->got >= sizeof(f->head) && f->got == sizeof(f->head) + f->head.len;
}

static bool is_full(const struct http_front *f)
{
    return f->held + f->head.len > f->max_held;
}

static struct text *busy_text(struct http_front *f)
{
    static const char why[] = "too busy; try again\n";
    return text_new(f, MHD_HTTP_SERVICE_UNAVAILABLE, xstrdup(why), sizeof(why) - 1);
}

static void answer_read(struct http_front *f)
{
    struct question *q = &f->questions[f->head.question];
    auto_free char *body = TAKE(f->body);
    struct text *t =
        is_full(f) ? busy_text(f) : text_new(f, f->head.status, TAKE(body), f->head.len);
    deliver(q, t);
    text_unref(t);
    f->got = 0;
    if (q->waiting) /* open page: the question's number is the page's */
        (void)ask(f, q, f->head.question, /* token= */ NULL, /* peer= */ 0);
}

/* Reads what the parent has sent so far, up to the end of one answer: the library must begin to
 * send that before the next is read, or texts that no connection reads yet would add up without
 * bound. An answer for which there is no room waits until the library has closed the connections
 * that read others. */
static int listen_to_parent(struct http_front *f, struct err *e)
{
    if (is_whole(f)) {
        answer_read(f);
        return 0;
    }
    for (;;) {
        ssize_t n = take(f);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0)
            return err_set(e, ERR_CANCELED, "the channel was closed");
        f->got += (size_t)n;
        if (f->got == sizeof(f->head)) {
            if (is_to_leave(f)) {
                leave(f);
                f->got = 0;
                continue;
            }
            if (!is_sound(f))
                return err_set(e, ERR_PROTOCOL, "an answer without a question");
            f->body = xmalloc(f->head.len + 1UL);
        }
        if (!is_whole(f))
            continue;
        if (is_full(f))
            dismiss_readers(f);
        else
            answer_read(f);
        return 0;
    }
}

/* --- Requests --- */

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
    /* Cast, because the library has no way to borrow a const text. */
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(why), (void *)(uintptr_t)why, MHD_RESPMEM_MUST_COPY);
    if (!r)
        xalloc_failed();
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, CONTENT_TYPE);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    say_how_to_log_in(r, status);
    enum MHD_Result rc = MHD_queue_response(connection, status, r);
    MHD_destroy_response(r);
    return rc;
}

/* n_paths: no such page. */
static size_t route_of(const struct http_front *f, const char *path)
{
    size_t i = 0;
    while (i < f->n_paths && strcmp(f->paths[i], path) != 0)
        i++;
    return i;
}

/* The bearer token of RFC 6750 in the request's headers; NULL: none, or not a legal one. */
static const char *token_of(struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *value =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!value || strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    value += sizeof(scheme) - 1;
    value += strspn(value, " ");
    return http_token_is_sound(value, strlen(value)) ? value : NULL;
}

static enum MHD_Result wait_for_answer(struct question *q, struct request *r)
{
    r->next = q->waiting;
    q->waiting = r;
    MHD_suspend_connection(r->connection);
    return MHD_YES;
}

static enum MHD_Result wait_for_text(struct http_front *f, size_t route, struct request *r)
{
    struct question *q = &f->questions[route];
    (void)wait_for_answer(q, r);
    if (!q->asked)
        (void)ask(f, q, route, /* token= */ NULL, /* peer= */ 0);
    return MHD_YES;
}

/* There are as many as connections, each with one request at a time. */
static struct question *free_question(struct http_front *f)
{
    static_assert((int)HTTP_FRONT_MAX_CONNECTIONS <= (int)HTTP_MAX_QUESTIONS,
                  "a question for each connection");
    struct question *q = f->questions;
    while (q->asked)
        q++;
    assert(q < f->questions + HTTP_MAX_QUESTIONS);
    return q;
}

static enum MHD_Result wait_for_leave(struct http_front *f, size_t route, struct request *r)
{
    const char *token = token_of(r->connection);
    struct question *q = free_question(f);
    if (!token)
        return refuse(r->connection, MHD_HTTP_UNAUTHORIZED, "this page needs a bearer token\n");
    if (!ask(f, q, route, token, peer_of(r->connection)))
        return refuse(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too busy; try again\n");
    r->covered = true;
    return wait_for_answer(q, r);
}

static enum MHD_Result give_text(struct request *r)
{
    struct text *t = TAKE(r->text);
    guest_of(r->connection)->reads = true;
    enum MHD_Result rc = MHD_queue_response(r->connection, t->status, t->response);
    text_unref(t);
    return rc;
}

static bool is_read(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* Called when the headers are read, again when the body is, and again when the text has arrived. An
 * answer at the first call would end the connection. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct http_front *f = arg;
    struct request *r = *state;
    (void)version;
    (void)upload;
    if (!is_read(method))
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (!r) {
        r = xmalloc(sizeof(*r));
        *r = (struct request){.connection = connection};
        *state = r;
        guest_of(connection)->asks = true;
        return MHD_YES;
    }
    if (*upload_size) { /* the body of a GET is discarded */
        *upload_size = 0;
        return MHD_YES;
    }
    if (r->text)
        return give_text(r);
    size_t route = route_of(f, path);
    if (route == f->n_paths)
        return refuse(connection, MHD_HTTP_NOT_FOUND, "no such page\n");
    return f->guarded ? wait_for_leave(f, route, r) : wait_for_text(f, route, r);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode how)
{
    struct request *r = *state;
    struct http_front *f = arg;
    struct guest *g = guest_of(connection);
    (void)how;
    g->reads = false;
    g->asks = false;
    g->asked = true;
    if (f->leaving && !g->leaves)
        send_away(g);
    if (r && r->text)
        text_unref(r->text);
    free(r);
    *state = NULL;
}

/* --- Life --- */

static int open_port(struct http_front *f, const struct http_front_options *o, struct err *e)
{
    const struct tls_pair *tls = o->tls;
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls ? MHD_USE_TLS : 0U);
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? tls->cert_pem : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? tls->key_pem : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    f->daemon =
        MHD_start_daemon(flags, /* port= */ 0, /* policy= */ NULL, NULL, on_request, f,
                         MHD_OPTION_LISTEN_SOCKET, o->socket, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)HTTP_FRONT_MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)CONNECTION_TIMEOUT_S, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                         MHD_OPTION_NOTIFY_CONNECTION, on_connection, f,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, f, MHD_OPTION_ARRAY,
                         tls ? secure : &secure[ARRAY_LEN(secure) - 1], MHD_OPTION_END);
    if (!f->daemon)
        return err_set_errno(e, errno, "cannot serve HTTP%s on a socket",
                             tls ? " with this certificate" : "");
    f->epoll = MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return 0;
}

int http_front_new(const struct http_front_options *o, struct http_front **ret, struct err *e)
{
    assert(o->n_paths <= HTTP_MAX_ROUTES);
    auto_http_front struct http_front *f = xmalloc(sizeof(*f));
    f->channel = o->channel;
    f->paths = o->paths;
    f->n_paths = o->n_paths;
    f->guarded = o->guarded;
    f->max_held = o->max_held_bytes ? o->max_held_bytes : DEFAULT_HELD_BYTES;
    TRY(open_port(f, o, e));
    *ret = TAKE(f);
    return 0;
}

/* How long the library allows to wait, at most max_wait_ms. */
static int patience(const struct http_front *f, int max_wait_ms)
{
    MHD_UNSIGNED_LONG_LONG ms;
    unsigned long long least = max_wait_ms < 0 ? ULLONG_MAX : (unsigned long long)max_wait_ms;
    if (MHD_get_timeout(f->daemon, &ms) == MHD_YES && ms < least)
        least = ms;
    return least == ULLONG_MAX ? -1 : least > INT_MAX ? INT_MAX : (int)least;
}

int http_front_step(struct http_front *f, int max_wait_ms, bool *ret_busy, struct err *e)
{
    int wait_ms = is_whole(f) ? 0 : patience(f, max_wait_ms);
    struct pollfd fds[] = {{.fd = f->epoll, .events = POLLIN},
                           {.fd = f->channel, .events = POLLIN}};
    int n = poll(fds, ARRAY_LEN(fds), wait_ms);
    if (n < 0 && errno != EINTR)
        return err_set_errno(e, errno, "poll");
    if (fds[1].revents || is_whole(f))
        TRY(listen_to_parent(f, e));
    (void)MHD_run(f->daemon);
    if (ret_busy)
        *ret_busy = n > 0 || is_whole(f) || (wait_ms >= 0 && wait_ms != max_wait_ms);
    if (f->leaving && f->n_guests == 0)
        return err_set(e, ERR_CANCELED,
                       "the parent ordered the end, and the last connection has ended");
    return f->broken ? err_set(e, ERR_CANCELED, "the channel takes no more") : 0;
}

/* Connections that wait for a text are suspended; the library serves them only once they are
 * resumed. */
static void release(struct question *q)
{
    for (struct request *r = q->waiting; r; r = r->next)
        MHD_resume_connection(r->connection);
    q->waiting = NULL;
}

struct http_front *http_front_free(struct http_front *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < HTTP_MAX_QUESTIONS; i++)
        release(&f->questions[i]);
    if (f->daemon) {
        /* Keeps the caller's socket open: the library would close it. */
        (void)MHD_quiesce_daemon(f->daemon);
        MHD_stop_daemon(f->daemon);
    }
    free(f->body);
    free(f);
    return NULL;
}
