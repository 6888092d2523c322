/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_front.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/xalloc.h"

#include "service/http_guests.h"
#include "service/http_questions.h"
#include "service/http_text.h"

enum {
    CONNECTION_BYTES = 16 << 10,
    CONNECTION_TIMEOUT_S = 10,
    /* For a connection that has posted. Go's clients keep an idle one for 90 s: it is they who then
     * close it. Were it closed here while they send the next request, that would be lost, because
     * they repeat no POST. */
    POSTED_TIMEOUT_S = 120,
    /* Time for a body after its headers. */
    UPLOAD_MS = 10 * 1000,
    /* Time for the next request on an idle connection that has posted, once the parent ordered the
     * end. */
    LAST_POST_MS = 250,
    DEFAULT_HELD_BYTES = 16 << 20,
    DEFAULT_UPLOAD_BYTES = 16 << 20,
};

/* TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers, which clients of the last ten
 * years support. No session tickets: no visitor comes back soon enough to be worth their state. */
#define TLS_PRIORITIES                                                                             \
    "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-AES-128-CBC:-AES-256-CBC:-SHA1:"          \
    "%SERVER_PRECEDENCE:%NO_TICKETS"

/* HTTP_MAX_UPLOAD_BYTES in words. */
#define TOO_LONG "a body has at most 1 MiB\n"

struct http_front {
    int channel;
    struct MHD_Daemon *daemon;
    int epoll;
    const struct clock *clk;
    struct guests guests;
    const char *const *paths;
    struct questions questions;
    struct texts texts;
    /* The answer that is being read. */
    struct http_answer head;
    size_t got; /* bytes read, head and body */
    char *body;
    bool knows_visitors;   /* they need a certificate */
    bool leaving;          /* the parent ordered the end */
    int64_t idle_until_ms; /* then idle connections that have posted are closed */
};

static int64_t now_ms(const struct http_front *f)
{
    return clock_mono_ms(f->clk);
}

static bool takes_body(const struct http_front *f, size_t route)
{
    return http_takes_body(&f->questions.terms, route);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **guest,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_front *f = arg;
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        *guest = guests_admit(&f->guests, connection);
    else
        guests_forget(&f->guests, *guest);
}

/* --- The parent's answers --- */

/* Closes idle connections. One without any request so far is kept, because it may be about to make
 * one. */
static void leave(struct http_front *f)
{
    f->leaving = true;
    f->idle_until_ms = now_ms(f) + LAST_POST_MS;
    (void)MHD_quiesce_daemon(f->daemon);
    guests_dismiss_idle(&f->guests, f->idle_until_ms);
}

static bool is_to_leave(const struct http_front *f)
{
    return f->head.question == HTTP_LEAVE && f->head.len == 0;
}

static bool is_sound(const struct http_front *f)
{
    return questions_expects(&f->questions, f->head.question) && f->head.status >= 200 &&
           f->head.status < 600 && f->head.len <= HTTP_MAX_BODY_BYTES;
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
    return !texts_have_room(&f->texts, f->head.len);
}

static struct text *busy_text(struct http_front *f)
{
    static const char why[] = "too busy; try again\n";
    const struct text_options o = {.status = MHD_HTTP_SERVICE_UNAVAILABLE,
                                   .type = HTTP_TEXT_PLAIN,
                                   .last = f->leaving};
    return text_new(&f->texts, &o, xstrdup(why), sizeof(why) - 1);
}

static struct text *answer_text(struct http_front *f)
{
    size_t route = questions_route(&f->questions, f->head.question);
    const struct text_options o = {.status = f->head.status,
                                   .type = takes_body(f, route) ? HTTP_TEXT_JSON : HTTP_TEXT_PLAIN,
                                   .last = f->leaving};
    return text_new(&f->texts, &o, TAKE(f->body), f->head.len);
}

static void answer_read(struct http_front *f)
{
    struct text *t = is_full(f) ? busy_text(f) : answer_text(f);
    free(TAKE(f->body));
    questions_deliver(&f->questions, f->head.question, t);
    text_unref(t);
    f->got = 0;
}

/* Reads what the parent has sent so far, up to the end of one answer: the library must begin to
 * send that before the next is read, or texts that no connection reads yet would add up without
 * bound. A slow reader keeps a text in memory: an answer for which there is no room waits until the
 * library has closed the connections that read others. */
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
            guests_dismiss_readers(&f->guests);
        else
            answer_read(f);
        return 0;
    }
}

/* --- Requests --- */

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
    return text_refuse(connection, status, why, /* allow= */ NULL) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_method(struct MHD_Connection *connection, bool posts)
{
    bool sent =
        text_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                    posts ? "only POST\n" : "only GET and HEAD\n", posts ? "POST" : "GET, HEAD");
    return sent ? MHD_YES : MHD_NO;
}

/* n_routes: no such page. */
static size_t route_of(const struct http_front *f, const char *path)
{
    size_t i = 0;
    while (i < f->questions.terms.n_routes && strcmp(f->paths[i], path) != 0)
        i++;
    return i;
}

static bool is_read(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

static const char *length_of(struct MHD_Connection *connection)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
}

static void expect_body(struct http_front *f, struct guest *g, struct MHD_Connection *connection)
{
    if (!g->posted)
        (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (unsigned)POSTED_TIMEOUT_S);
    g->posted = true;
    g->until_ms = now_ms(f) + UPLOAD_MS;
}

/* Chain, times and purpose; a certificate that names no purpose is for all. */
static bool has_certificate(struct MHD_Connection *connection)
{
    static char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st data[] = {
        {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)purpose, sizeof(purpose) - 1}};
    unsigned faults;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info &&
           gnutls_certificate_verify_peers(info->tls_session, data, ARRAY_LEN(data), &faults) ==
               0 &&
           faults == 0;
}

/* Is the visitor one whom this port serves? Judged once for each connection. */
static bool is_known(const struct http_front *f, struct guest *g, struct MHD_Connection *connection)
{
    if (f->knows_visitors && !g->known)
        g->known = has_certificate(connection);
    return !f->knows_visitors || g->known;
}

/* The headers are read. An answer here ends the connection, because the body is not read. */
static enum MHD_Result begin(struct http_front *f, struct MHD_Connection *connection,
                             const char *path, const char *method, void **ret_request)
{
    size_t route = route_of(f, path);
    struct guest *g = guest_of(connection);
    bool posts = takes_body(f, route);
    if (!is_known(f, g, connection))
        return refuse(connection, MHD_HTTP_UNAUTHORIZED,
                      "this port serves bearers of a certificate that it knows the authority of\n");
    if (posts ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !is_read(method))
        return refuse_method(connection, posts);
    if (posts && !http_upload_may_have(length_of(connection)))
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, TOO_LONG);
    struct request *r = xmalloc(sizeof(*r));
    *r = (struct request){.connection = connection, .route = route};
    *ret_request = r;
    g->asks = true;
    g->until_ms = 0;
    if (posts)
        expect_body(f, g, connection);
    return MHD_YES;
}

/* The body of a GET is discarded. */
static enum MHD_Result receive(struct http_front *f, struct request *r, const char *bytes,
                               size_t *len)
{
    size_t n = *len;
    *len = 0;
    if (!takes_body(f, r->route))
        return MHD_YES;
    return http_upload_add(&f->questions.uploads, &r->upload, bytes, n) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse_body(const struct request *r)
{
    if (r->upload.fault == HTTP_UPLOAD_TOO_LONG)
        return refuse(r->connection, MHD_HTTP_CONTENT_TOO_LARGE, TOO_LONG);
    return refuse(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                  "too many bodies at once; try again\n");
}

/* The request is complete. */
static enum MHD_Result end(struct http_front *f, struct request *r)
{
    struct guest *g = guest_of(r->connection);
    g->until_ms = 0;
    if (r->route == f->questions.terms.n_routes)
        return refuse(r->connection, MHD_HTTP_NOT_FOUND, "no such page\n");
    if (r->upload.fault)
        return refuse_body(r);
    if (f->questions.terms.guarded && !http_token_of(r->connection))
        return refuse(r->connection, MHD_HTTP_UNAUTHORIZED, "this page needs a bearer token\n");
    g->waits = true;
    questions_ask(&f->questions, r);
    return MHD_YES;
}

static enum MHD_Result give_text(struct request *r)
{
    struct text *t = TAKE(r->text);
    struct guest *g = guest_of(r->connection);
    g->waits = false;
    g->reads = true;
    bool sent = text_send(t, r->connection);
    text_unref(t);
    return sent ? MHD_YES : MHD_NO;
}

/* Called when the headers are read, for each part of the body, when that is complete, and again
 * when the text has arrived. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct http_front *f = arg;
    struct request *r = *state;
    (void)version;
    if (!r)
        return begin(f, connection, path, method, state);
    if (*upload_size)
        return receive(f, r, upload, upload_size);
    return r->text ? give_text(r) : end(f, r);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode how)
{
    struct request *r = *state;
    struct http_front *f = arg;
    struct guest *g = guest_of(connection);
    (void)how;
    g->reads = false;
    g->waits = false;
    g->asks = false;
    g->asked = true;
    g->until_ms = 0;
    if (f->leaving)
        guest_dismiss_idle(g, f->idle_until_ms);
    if (r) {
        http_upload_done(&f->questions.uploads, &r->upload);
        if (r->text)
            text_unref(r->text);
    }
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
        {f->knows_visitors ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
         tls ? tls->client_ca_pem : NULL},
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
    assert(o->terms.n_routes <= HTTP_MAX_ROUTES && !(o->terms.guarded && o->terms.posts));
    auto_http_front struct http_front *f = xmalloc(sizeof(*f));
    f->channel = o->channel;
    f->clk = o->clk ? o->clk : clock_real();
    f->paths = o->paths;
    f->questions.channel = o->channel;
    f->questions.terms = o->terms;
    f->questions.uploads.max_held =
        o->max_upload_bytes ? o->max_upload_bytes : DEFAULT_UPLOAD_BYTES;
    f->texts.max_held = o->max_held_bytes ? o->max_held_bytes : DEFAULT_HELD_BYTES;
    f->knows_visitors = o->tls && o->tls->client_ca_pem;
    TRY(open_port(f, o, e));
    *ret = TAKE(f);
    return 0;
}

/* How long the library and the connections' times allow to wait, at most max_wait_ms. */
static int patience(const struct http_front *f, int64_t due_ms, int max_wait_ms)
{
    MHD_UNSIGNED_LONG_LONG ms;
    unsigned long long least = max_wait_ms < 0 ? ULLONG_MAX : (unsigned long long)max_wait_ms;
    if (MHD_get_timeout(f->daemon, &ms) == MHD_YES && ms < least)
        least = ms;
    int64_t left_ms = due_ms - now_ms(f);
    if (due_ms && (left_ms < 0 || (unsigned long long)left_ms < least))
        least = left_ms < 0 ? 0 : (unsigned long long)left_ms;
    return least == ULLONG_MAX ? -1 : least > INT_MAX ? INT_MAX : (int)least;
}

int http_front_step(struct http_front *f, int max_wait_ms, bool *ret_busy, struct err *e)
{
    int64_t due_ms = guests_dismiss_late(&f->guests, now_ms(f));
    int wait_ms = is_whole(f) ? 0 : patience(f, due_ms, max_wait_ms);
    const short sends = f->questions.n_queued ? POLLOUT : 0;
    struct pollfd fds[] = {{.fd = f->epoll, .events = POLLIN},
                           {.fd = f->channel, .events = (short)(POLLIN | sends)}};
    int n = poll(fds, ARRAY_LEN(fds), wait_ms);
    if (n < 0 && errno != EINTR)
        return err_set_errno(e, errno, "poll");
    if (fds[1].revents & POLLOUT)
        questions_send(&f->questions);
    if (fds[1].revents & ~POLLOUT || is_whole(f))
        TRY(listen_to_parent(f, e));
    (void)MHD_run(f->daemon);
    if (ret_busy)
        *ret_busy = n > 0 || is_whole(f) || (wait_ms >= 0 && wait_ms != max_wait_ms);
    if (f->leaving && f->guests.n == 0)
        return err_set(e, ERR_CANCELED,
                       "the parent ordered the end, and the last connection has ended");
    return f->questions.broken ? err_set(e, ERR_CANCELED, "the channel takes no more") : 0;
}

struct http_front *http_front_free(struct http_front *f)
{
    if (!f)
        return NULL;
    questions_release(&f->questions);
    if (f->daemon) {
        /* Keeps the caller's socket open: the library would close it. */
        (void)MHD_quiesce_daemon(f->daemon);
        MHD_stop_daemon(f->daemon);
    }
    free(f->body);
    free(f);
    return NULL;
}
