/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/transport.h"

#include <arpa/inet.h>
#include <assert.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
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
#define MAX_HEADER_BYTES   (128UL << 10)
#define MAX_HEADER_LINES   1000
#define CONNECT_TIMEOUT_MS 30000L

/* Together at most 35 s until a vanished peer is noticed; see http.h. */
#define KEEPALIVE_IDLE_S     20
#define KEEPALIVE_INTERVAL_S 5
#define USER_TIMEOUT_MS      35000

struct transport {
    const struct kc_config *config;
    const struct clock *clock;
    char *user_agent;
    struct credentials *credentials;
    char *url_base;    /* prefix of all paths */
    char *connect_to;  /* "name:port:host:port" with a tls-server-name, else NULL */
    char *host_header; /* likewise */
    bool loopback;
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

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg;
    (void)purpose;
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS},
    };
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) < 0)
            return CURL_SOCKOPT_ERROR;
    return CURL_SOCKOPT_OK;
}

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

/* Makes the server's text printable UTF-8: control characters could move a terminal's cursor. */
static void clean_words(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static int refuse_content_type(const char *type, struct err *e)
{
    auto_free char *words = xstrdup(type ? type : "of no type");
    clean_words(words);
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

/* Options are constants of ours, so a refused one is our bug. */
static void must(CURLcode code)
{
    assert(code == CURLE_OK);
    (void)code;
}

#define SET(option, value) must(curl_easy_setopt(easy, option, value))

static void set_blob(CURL *easy, CURLoption option, char *pem)
{
    if (!pem)
        return;
    struct curl_blob blob = {.data = pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY};
    SET(option, &blob);
}

/* Trusts only the given authorities, as client-go's RootCAs does: libcurl would add those of its
 * built-in folder (CURLOPT_CAPATH, Debian: /etc/ssl/certs), and any of them could then pose as the
 * API server. Without given ones the system's are trusted. A proxy's own certificate is always
 * verified with the system's (CURLOPT_PROXY_CAINFO, not touched): no request is sent to it in clear
 * text unless the server's URL is http. */
static void set_trust(CURL *easy, char *ca_pem)
{
    if (!ca_pem)
        return;
    SET(CURLOPT_CAINFO, NULL);
    SET(CURLOPT_CAPATH, NULL);
    set_blob(easy, CURLOPT_CAINFO_BLOB, ca_pem);
}

static void set_tls(CURL *easy, const struct kc_config *config, const struct tls_material *tls)
{
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, config->insecure_skip_tls_verify ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, config->insecure_skip_tls_verify ? 0L : 2L);
    set_trust(easy, tls->ca_pem);
    set_blob(easy, CURLOPT_SSLCERT_BLOB, tls->cert_pem);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, tls->key_pem);
}

static void set_way(CURL *easy, const struct transport *t)
{
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (t->config->proxy_url)
        SET(CURLOPT_PROXY, t->config->proxy_url);
    else if (t->loopback)
        SET(CURLOPT_PROXY, ""); /* as in Go: *_proxy does not apply to this machine */
}

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
    add_header(c, "Accept", "application/json");
    add_header(c, "Authorization", bearer);
    add_header(c, "Host", t->host_header);
    add_header(c, "Content-Type", c->x->content_type);
    c->headers = curl_slist_append(c->headers, "Expect:");
    if (bearer)
        explicit_bzero(bearer, strlen(bearer));
    SET(CURLOPT_HTTPHEADER, c->headers);
    SET(CURLOPT_USERAGENT, t->user_agent);
}

static void set_request(struct call *c, const struct transport *t)
{
    CURL *easy = c->easy;
    const struct exchange *x = c->x;
    auto_free char *url = xasprintf("%s%s", t->url_base, x->path);
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
    set_way(easy, t);
    set_tls(easy, t->config, n->tls);
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

/* CURLE_TOO_LARGE, which older headers do not name. */
#define TOO_LARGE_SINCE_8_6 100

static enum err_kind kind_of_curl(CURLcode code)
{
    switch ((int)code) {
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return ERR_INVALID;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP_RETURNED_ERROR:
        return ERR_PROTOCOL;
    /* One of libcurl's own bounds: when memory runs out, the process aborts. */
    case CURLE_OUT_OF_MEMORY:
    case TOO_LARGE_SINCE_8_6:
        return ERR_TOO_LARGE;
    default:
        return ERR_UNAVAILABLE;
    }
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
    clean_words(c->reason);
    return err_set(e, kind_of_curl(code), "%s", *c->reason ? c->reason : curl_easy_strerror(code));
}

/* True when something was received. */
static bool go_on(struct call *c, CURLM *multi, CURLMcode *ret)
{
    int running = 0;
    size_t before = c->header_bytes + c->body_bytes;
    *ret = curl_multi_perform(multi, &running);
    return c->header_bytes + c->body_bytes != before;
}

/* Drives the transfer until it ends or the scope does. Waits only after a look that found nothing: with
 * HTTP/2 libcurl (7.88) may hold the end of an answer in its buffers, where poll does not see it, when
 * it returns from a look at which it has received something. */
static int drive(struct transport *t, struct call *c, CURLM *multi, struct scope *s, CURLcode *ret,
                 struct err *e)
{
    for (;;) {
        int left = 0;
        CURLMcode rc = CURLM_OK;
        sessions_close_unused(t->sessions);
        bool received = go_on(c, multi, &rc);
        if (rc != CURLM_OK)
            return err_set(e, ERR_UNAVAILABLE, "libcurl gave up");
        const CURLMsg *msg = curl_multi_info_read(multi, &left);
        if (msg) {
            *ret = msg->data.result;
            return 0;
        }
        TRY(scope_check(s, e));
        if (received)
            continue;
        struct curl_waitfd cancel = {.fd = scope_cancel_fd(s), .events = CURL_WAIT_POLLIN};
        int wait = scope_poll_ms(s);
        (void)curl_multi_poll(multi, &cancel, 1, wait < 0 ? 3600 * 1000 : wait, NULL);
    }
}

static int perform(struct transport *t, struct session *n, struct scope *s, struct exchange *x,
                   struct err *e)
{
    auto_call struct call c = {.x = x, .easy = n->easy};
    struct curl_slist *connect_to = t->connect_to ? curl_slist_append(NULL, t->connect_to) : NULL;
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
    TRY(credentials_get(t->credentials, s, &x->token, &tls, e));
    struct session *n = sessions_borrow(t->sessions, tls);
    int rc = perform(t, n, s, x, e);
    sessions_return(t->sessions, n);
    if (x->untrusted)
        (void)credentials_reject(t->credentials, /* token= */ NULL);
    return rc;
}

bool transport_drop_token(struct transport *t, const char *token)
{
    return token && credentials_reject(t->credentials, token);
}

/* ---- construction ---- */

/* Position where the authority ends in "https://host:port/prefix". */
static size_t authority_begin(const char *url)
{
    const char *sep = strstr(url, "://");
    return sep ? (size_t)(sep - url) + 3 : 0;
}

/* True for localhost, 127.0.0.0/8 and [::1], each to the letter: 127.0.0.1.example.com is a name
 * that anybody may have. */
static bool is_loopback(const char *authority)
{
    struct in_addr ip;
    bool bracketed = *authority == '[';
    size_t len = bracketed ? strcspn(authority, "]") + 1 : strcspn(authority, ":");
    auto_free char *host = xstrndup(authority, len);
    if (bracketed || !strcasecmp(host, "localhost"))
        return !bracketed || !strcmp(host, "[::1]");
    return inet_pton(AF_INET, host, &ip) == 1 && ntohl(ip.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* "host:port" of an authority that may lack the port. */
static char *with_port(const char *authority, bool https)
{
    const char *bracket = strchr(authority, ']');
    if (strchr(bracket ? bracket : authority, ':'))
        return xstrdup(authority);
    return xasprintf("%s:%s", authority, https ? "443" : "80");
}

/* With a tls-server-name the URL has that name, so that SNI and verification use it, while the
 * connection goes to the server and the Host header has the server's name. */
static void set_server(struct transport *t)
{
    const char *server = t->config->server;
    size_t begin = authority_begin(server);
    auto_free char *authority = xstrndup(server + begin, strcspn(server + begin, "/"));
    t->loopback = is_loopback(authority);
    if (!t->config->tls_server_name) {
        t->url_base = xstrdup(server);
        return;
    }
    auto_free char *real = with_port(authority, !strncmp(server, "https:", 6));
    const char *port = strrchr(real, ':');
    t->url_base = xasprintf("%.*s%s%s%s", (int)begin, server, t->config->tls_server_name, port,
                            server + begin + strlen(authority));
    t->connect_to = xasprintf("%s%s:%s", t->config->tls_server_name, port, real);
    t->host_header = xstrdup(authority);
}

static void start_libcurl(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)signal(SIGPIPE, SIG_IGN);
    /* The process aborts when memory runs out, as everywhere. libcurl alone would drop headers
     * (curl_slist_append), and options that must be set. */
    CURLcode rc =
        curl_global_init_mem(CURL_GLOBAL_DEFAULT, xmalloc, free, xrealloc, xstrdup, xcalloc);
    assert(rc == CURLE_OK);
    (void)rc;
}

int transport_new(const struct kc_config *config, const char *user_agent, const struct clock *clock,
                  struct transport **ret, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start_libcurl);
    struct credentials *credentials;
    TRY(credentials_new(config, clock, &credentials, e));
    struct transport *t = xmalloc(sizeof(*t));
    t->config = config;
    t->clock = clock;
    t->user_agent = xstrdup(user_agent);
    t->credentials = credentials;
    t->sessions = sessions_new(clock);
    set_server(t);
    *ret = t;
    return 0;
}

struct transport *transport_free(struct transport *t)
{
    if (!t)
        return NULL;
    t->sessions = sessions_free(t->sessions);
    (void)credentials_free(t->credentials);
    free(t->user_agent);
    free(t->url_base);
    free(t->connect_to);
    free(t->host_header);
    free(t);
    return NULL;
}
