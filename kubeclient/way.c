/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/way.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/xalloc.h"

#define CONNECT_TIMEOUT_MS 30000L

/* For a scope without a deadline: libcurl knows no wait without end. */
#define MAX_WAIT_MS (3600 * 1000)

/* Together at most 35 s until a vanished peer is noticed; see http.h. */
#define KEEPALIVE_IDLE_S     20
#define KEEPALIVE_INTERVAL_S 5
#define USER_TIMEOUT_MS      35000

void way_must(CURLcode code)
{
    assert(code == CURLE_OK);
    (void)code;
}

#define SET(option, value) WAY_SET(easy, option, value)

/* ---- libcurl's options ---- */

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

static void set_connecting(CURL *easy, const struct way *w)
{
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (w->config->proxy_url)
        SET(CURLOPT_PROXY, w->config->proxy_url);
    else if (w->loopback)
        SET(CURLOPT_PROXY, ""); /* as in Go: *_proxy does not apply to this machine */
}

void way_set(const struct way *w, const struct tls_material *tls, CURL *easy)
{
    set_connecting(easy, w);
    set_tls(easy, w->config, tls);
}

struct curl_slist *way_connect_to(const struct way *w)
{
    return w->connect_to ? curl_slist_append(NULL, w->connect_to) : NULL;
}

/* ---- driving libcurl ---- */

int way_drive(CURLM *multi, CURLcode *ret, struct err *e)
{
    int running = 0, left = 0;
    if (curl_multi_perform(multi, &running) != CURLM_OK)
        return err_set(e, ERR_UNAVAILABLE, "libcurl gave up");
    const CURLMsg *msg = curl_multi_info_read(multi, &left);
    if (!msg)
        return 0;
    *ret = msg->data.result;
    return 1;
}

void way_await(CURLM *multi, struct scope *s, const struct pollfd *fds, size_t n)
{
    struct curl_waitfd all[1 + WAY_FDS] = {{.fd = scope_cancel_fd(s), .events = CURL_WAIT_POLLIN}};
    unsigned int count = 1;
    assert(n <= WAY_FDS);
    for (size_t i = 0; i < n; i++) {
        short in = fds[i].events & POLLIN ? CURL_WAIT_POLLIN : 0;
        short out = fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : 0;
        if (fds[i].fd >= 0)
            all[count++] = (struct curl_waitfd){.fd = fds[i].fd, .events = (short)(in | out)};
    }
    int wait = scope_poll_ms(s);
    (void)curl_multi_poll(multi, all, count, wait < 0 ? MAX_WAIT_MS : wait, NULL);
}

/* ---- what went wrong ---- */

void way_clean_words(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* CURLE_TOO_LARGE, which older headers do not name. */
#define TOO_LARGE_SINCE_8_6 100

enum err_kind way_err_kind(CURLcode code)
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
static void set_server(struct way *w)
{
    const char *server = w->config->server;
    const char *authority = server + authority_begin(server);
    const char *path = authority + strcspn(authority, "/");
    w->authority = xstrndup(authority, (size_t)(path - authority));
    w->path_prefix = xstrdup(path);
    w->loopback = is_loopback(w->authority);
    if (!w->config->tls_server_name) {
        w->url_base = xstrdup(server);
        return;
    }
    auto_free char *real = with_port(w->authority, !strncmp(server, "https:", 6));
    const char *port = strrchr(real, ':');
    w->url_base = xasprintf("%.*s%s%s%s", (int)(authority - server), server,
                            w->config->tls_server_name, port, path);
    w->connect_to = xasprintf("%s%s:%s", w->config->tls_server_name, port, real);
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

int way_init(struct way *w, const struct kc_config *config, const char *user_agent,
             const struct clock *clock, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start_libcurl);
    struct credentials *credentials;
    TRY(credentials_new(config, clock, &credentials, e));
    *w = (struct way){.config = config,
                      .credentials = credentials,
                      .user_agent = xstrdup(user_agent)};
    set_server(w);
    return 0;
}

void way_done(struct way *w)
{
    (void)credentials_free(w->credentials);
    free(w->user_agent);
    free(w->url_base);
    free(w->authority);
    free(w->path_prefix);
    free(w->connect_to);
    *w = (struct way){0};
}
