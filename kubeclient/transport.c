/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/transport.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "kubeclient/credentials.h"
#include "kubeclient/sessions.h"

#define MAX_ERROR_BODY_BYTES (256UL << 10)
/* As for Status objects (kubeclient/status.c). API servers send 1 to 30 s. */
#define MAX_RETRY_AFTER_S 300
/* Bound of all headers of one exchange, interim answers and trailers included: many times an API
 * server's. libcurl keeps an answer's headers, and reads interim ones without end. */
#define MAX_HEADER_BYTES (128UL << 10)
#define MAX_HEADER_LINES 1000

struct transport {
    struct way way;
    struct sessions *sessions;
};

/* One exchange in progress. */
struct call {
    struct exchange *x;
    CURL *easy;
    struct curl_slist *headers;
    const char *rest; /* of the request's body */
    size_t rest_bytes;
    size_t header_bytes, header_lines;
    size_t body_bytes;
    struct err failure; /* of on_body, or found by on_header */
    char reason[CURL_ERROR_SIZE];
};

static void call_done(struct call *c)
{
    curl_slist_free_all(c->headers);
    err_clear(&c->failure);
}
#define auto_call __attribute__((cleanup(call_done)))

void exchange_init(struct exchange *x)
{
    *x = (struct exchange){.retry_after_s = -1, .error_body = SB_INIT(MAX_ERROR_BODY_BYTES)};
}

void exchange_done(struct exchange *x)
{
    sb_done(&x->error_body);
    if (x->token)
        explicit_bzero(x->token, strlen(x->token));
    free(x->token);
    x->token = NULL;
}

/* ---- callbacks of libcurl ---- */

static size_t on_send(char *to, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t n = size * count < c->rest_bytes ? size * count : c->rest_bytes;
    memcpy(to, c->rest, n);
    c->rest += n;
    c->rest_bytes -= n;
    return n;
}

/* libcurl would repeat any request on a fresh connection when a reused one breaks before the
 * answer. It must rewind the body for that, and may not: a write may have happened. */
static int on_rewind(void *arg, curl_off_t offset, int origin)
{
    (void)arg;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

static void take_header(struct call *c, const char *line, size_t len)
{
    static const char name[] = "retry-after:";
    if (len > strlen(name) && !strncasecmp(line, name, strlen(name))) {
        auto_free char *text = xstrndup(line + strlen(name), len - strlen(name));
        char *begin = text + strspn(text, " \t");
        begin[strcspn(begin, " \t\r\n")] = '\0';
        /* API servers do not send the form with a date, and client-go does not accept it. */
        if (num_parse(begin, 0, INT64_MAX, &c->x->retry_after_s, NULL) < 0)
            c->x->retry_after_s = -1;
        else if (c->x->retry_after_s > MAX_RETRY_AFTER_S)
            c->x->retry_after_s = MAX_RETRY_AFTER_S;
    }
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t len = size * count;
    c->header_bytes += len;
    c->header_lines++;
    if (c->header_bytes > MAX_HEADER_BYTES || c->header_lines > MAX_HEADER_LINES) {
        (void)err_set(&c->failure, ERR_TOO_LARGE,
                      "the answer's headers are larger than %lu bytes or %d lines",
                      MAX_HEADER_BYTES, MAX_HEADER_LINES);
        return 0;
    }
    take_header(c, line, len);
    return len;
}

static bool is_success(int status)
{
    return status >= 200 && status < 300;
}

static int refuse_content_type(const char *type, struct err *e)
{
    auto_free char *words = xstrdup(type ? type : "of no type");
    way_clean_words(words);
    return err_set(e, ERR_PROTOCOL, "the answer is %.40s, not JSON: is this an API server?", words);
}

static int check_content_type(const struct call *c, struct err *e)
{
    const char *type = NULL;
    (void)curl_easy_getinfo(c->easy, CURLINFO_CONTENT_TYPE, &type);
    if (!type || strncasecmp(type, "application/json", strlen("application/json")) != 0)
        return refuse_content_type(type, e);
    return 0;
}

static int take_body(struct call *c, const char *data, size_t len)
{
    if (!c->x->received)
        TRY(check_content_type(c, &c->failure));
    c->x->received += len;
    return c->x->on_body(c->x->arg, data, len, &c->failure);
}

static size_t on_receive(char *data, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t len = size * count;
    c->body_bytes += len;
    long status = 0;
    (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    c->x->status = (int)status;
    if (is_success(c->x->status))
        return take_body(c, data, len) < 0 ? 0 : len;
    size_t room = MAX_ERROR_BODY_BYTES - c->x->error_body.len;
    sb_add_mem(&c->x->error_body, data, len < room ? len : room);
    return len;
}

/* ---- one exchange ---- */

#define SET(option, value) WAY_SET(easy, option, value)

static void add_header(struct call *c, const char *name, const char *value)
{
    if (!value)
        return;
    auto_free char *line = xasprintf("%s: %s", name, value);
    c->headers = curl_slist_append(c->headers, line);
    explicit_bzero(line, strlen(line));
}

static void set_headers(struct call *c, const struct transport *t)
{
    CURL *easy = c->easy;
    auto_free char *bearer = c->x->token ? xasprintf("Bearer %s", c->x->token) : NULL;
    add_header(c, "Accept", c->x->accept ? c->x->accept : "application/json");
    add_header(c, "Authorization", bearer);
    add_header(c, "Host", t->way.connect_to ? t->way.authority : NULL);
    add_header(c, "Content-Type", c->x->content_type);
    c->headers = curl_slist_append(c->headers, "Expect:");
    if (bearer)
        explicit_bzero(bearer, strlen(bearer));
    SET(CURLOPT_HTTPHEADER, c->headers);
    SET(CURLOPT_USERAGENT, t->way.user_agent);
}

static void set_request(struct call *c, const struct transport *t)
{
    CURL *easy = c->easy;
    const struct exchange *x = c->x;
    auto_free char *url = xasprintf("%s%s", t->way.url_base, x->path);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    if (!x->body)
        return;
    c->rest = x->body;
    c->rest_bytes = strlen(x->body);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->rest_bytes);
    SET(CURLOPT_READFUNCTION, on_send);
    SET(CURLOPT_READDATA, c);
    SET(CURLOPT_SEEKFUNCTION, on_rewind);
    SET(CURLOPT_CUSTOMREQUEST, x->method);
}

static void set_up(struct call *c, const struct transport *t, const struct session *n,
                   struct curl_slist *connect_to)
{
    CURL *easy = n->easy;
    curl_easy_reset(easy);
    way_set(&t->way, n->tls, easy);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    set_request(c, t);
    set_headers(c, t);
    if (connect_to)
        SET(CURLOPT_CONNECT_TO, connect_to);
    SET(CURLOPT_ERRORBUFFER, c->reason);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, c);
    SET(CURLOPT_WRITEFUNCTION, on_receive);
    SET(CURLOPT_WRITEDATA, c);
}

static bool is_lost_connection(CURLcode code)
{
    return code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING ||
           code == CURLE_PARTIAL_FILE || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM ||
           code == CURLE_SEND_FAIL_REWIND;
}

static int conclude(struct call *c, CURLcode code, struct err *e)
{
    if (c->failure.kind)
        return err_move(e, &c->failure);
    if (code == CURLE_OK) {
        long status = 0;
        (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
        c->x->status = (int)status;
        return 0;
    }
    c->x->connection_lost = is_lost_connection(code);
    c->x->untrusted = code == CURLE_PEER_FAILED_VERIFICATION;
    way_clean_words(c->reason);
    return err_set(e, way_err_kind(code), "%s", *c->reason ? c->reason : curl_easy_strerror(code));
}

static size_t received(const struct call *c)
{
    return c->header_bytes + c->body_bytes;
}

/* Drives the transfer until it ends or the scope does. Waits only after a look that found nothing:
 * with HTTP/2 libcurl (7.88) may hold the end of an answer in its buffers, where poll does not see
 * it, when it returns from a look at which it has received something. */
static int drive(struct transport *t, struct call *c, CURLM *multi, struct scope *s, CURLcode *ret,
                 struct err *e)
{
    for (;;) {
        size_t before = received(c);
        sessions_close_unused(t->sessions);
        int ended = way_drive(multi, ret, e);
        if (ended)
            return ended < 0 ? ended : 0;
        TRY(scope_check(s, e));
        if (received(c) == before)
            way_await(multi, s, /* fds= */ NULL, 0);
    }
}

static int perform(struct transport *t, struct session *n, struct scope *s, struct exchange *x,
                   struct err *e)
{
    auto_call struct call c = {.x = x, .easy = n->easy};
    struct curl_slist *connect_to = way_connect_to(&t->way);
    set_up(&c, t, n, connect_to);
    (void)curl_multi_add_handle(n->multi, n->easy);
    CURLcode code = CURLE_OK;
    int rc = drive(t, &c, n->multi, s, &code, e);
    if (rc == 0)
        rc = conclude(&c, code, e);
    (void)curl_multi_remove_handle(n->multi, n->easy);
    curl_easy_reset(n->easy); /* the options must not point to this frame afterwards */
    curl_slist_free_all(connect_to);
    return rc;
}

int transport_do(struct transport *t, struct scope *s, struct exchange *x, struct err *e)
{
    auto_tls_material struct tls_material *tls = NULL;
    TRY(credentials_get(t->way.credentials, s, &x->token, &tls, e));
    struct session *n = sessions_borrow(t->sessions, tls);
    int rc = perform(t, n, s, x, e);
    sessions_return(t->sessions, n);
    if (x->untrusted)
        (void)credentials_reject(t->way.credentials, /* token= */ NULL);
    return rc;
}

bool transport_drop_token(struct transport *t, const char *token)
{
    return token && credentials_reject(t->way.credentials, token);
}

/* ---- construction ---- */

int transport_new(const struct kc_config *config, const char *user_agent, const struct clock *clock,
                  struct transport **ret, struct err *e)
{
    struct way way;
    TRY(way_init(&way, config, user_agent, clock, e));
    struct transport *t = xmalloc(sizeof(*t));
    t->way = way;
    t->sessions = sessions_new(clock);
    *ret = t;
    return 0;
}

const struct way *transport_way(const struct transport *t)
{
    return &t->way;
}

struct transport *transport_free(struct transport *t)
{
    if (!t)
        return NULL;
    t->sessions = sessions_free(t->sessions);
    way_done(&t->way);
    free(t);
    return NULL;
}
