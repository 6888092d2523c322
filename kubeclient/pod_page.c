/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/pod_page.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/port_forward.h"

enum { MAX_HEADER_BYTES = 65536 };

/* One request, and its answer as far as it has been read. */
struct reading {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    struct port_forward *forward;
    int listener; /* libcurl connects to it; -1: it has */
    in_port_t at; /* the listener's port, and libcurl's own; network byte order */
    in_port_t from;
    struct sb body;
    size_t header_bytes;
    bool has_headers; /* the answer's, to the blank line at their end */
    char reason[CURL_ERROR_SIZE];
};

static void reading_done(struct reading *r)
{
    if (r->multi && r->easy)
        (void)curl_multi_remove_handle(r->multi, r->easy);
    curl_easy_cleanup(r->easy);
    if (r->multi)
        (void)curl_multi_cleanup(r->multi);
    curl_slist_free_all(r->headers);
    auto_close_fd(&r->listener);
    (void)port_forward_free(r->forward);
    sb_done(&r->body);
}

AUTO_DEFINE(reading, struct reading, reading_done)
#define auto_reading AUTO(reading)

/* --- libcurl's connection --- */

/* A socket of this machine's own address, and its port. */
static int local_socket(int flags, in_port_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return -1;
    *ret_port = at.sin_port;
    return TAKE_FD(fd);
}

static curl_socket_t give_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct reading *r = arg;
    (void)purpose;
    (void)address;
    int fd = local_socket(/* flags= */ 0, &r->from);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int listen_for_libcurl(struct reading *r, struct err *e)
{
    r->listener = local_socket(SOCK_NONBLOCK, &r->at);
    if (r->listener < 0 || listen(r->listener, 1) < 0)
        return err_set_errno(e, errno, "listening at 127.0.0.1");
    return 0;
}

/* Gives the port-forward libcurl's connection, once it is there. Everybody on this machine can
 * connect to the listener: others are sent away. */
static int admit(struct reading *r, struct err *e)
{
    struct sockaddr_in who = {0};
    socklen_t len = sizeof(who);
    if (r->listener < 0)
        return 0;
    auto_fd int fd =
        accept4(r->listener, (struct sockaddr *)&who, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return 0;
    if (fd < 0)
        return err_set_errno(e, errno, "accepting a connection at 127.0.0.1");
    if (who.sin_port != r->from || who.sin_addr.s_addr != htonl(INADDR_LOOPBACK))
        return 0;
    port_forward_attach(r->forward, TAKE_FD(fd));
    (void)close(r->listener);
    r->listener = -1;
    return 0;
}

/* --- The request --- */

/* libcurl keeps the headers, and reads them without end; an answer that breaks off within them is
 * one without a body to it. */
static size_t note_header(char *line, size_t size, size_t count, void *arg)
{
    struct reading *r = arg;
    size_t len = size * count;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
        r->has_headers = false;
    else if (len && (*line == '\r' || *line == '\n'))
        r->has_headers = true;
    r->header_bytes += len;
    return r->header_bytes <= MAX_HEADER_BYTES ? len : 0;
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct reading *r = arg;
    sb_add_mem(&r->body, data, size * count);
    return r->body.overflow ? 0 : size * count;
}

static void set_headers(struct reading *r, const char *token)
{
    if (!token)
        return;
    auto_free char *line = xasprintf("Authorization: Bearer %s", token);
    r->headers = curl_slist_append(NULL, line);
    explicit_bzero(line, strlen(line));
    WAY_SET(r->easy, CURLOPT_HTTPHEADER, r->headers);
}

static void set_up(struct reading *r, const struct way *way, const struct pod_page *page)
{
    CURL *easy = r->easy;
    auto_free char *url = xasprintf("%s://127.0.0.1:%u%s", page->tls ? "https" : "http",
                                    (unsigned int)ntohs(r->at), page->path);
    WAY_SET(easy, CURLOPT_URL, url);
    WAY_SET(easy, CURLOPT_NOSIGNAL, 1L);
    WAY_SET(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    WAY_SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    WAY_SET(easy, CURLOPT_PROXY, "");
    WAY_SET(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    WAY_SET(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    WAY_SET(easy, CURLOPT_USERAGENT, way->user_agent);
    WAY_SET(easy, CURLOPT_OPENSOCKETFUNCTION, give_socket);
    WAY_SET(easy, CURLOPT_OPENSOCKETDATA, r);
    WAY_SET(easy, CURLOPT_HEADERFUNCTION, note_header);
    WAY_SET(easy, CURLOPT_HEADERDATA, r);
    WAY_SET(easy, CURLOPT_WRITEFUNCTION, take_body);
    WAY_SET(easy, CURLOPT_WRITEDATA, r);
    WAY_SET(easy, CURLOPT_ERRORBUFFER, r->reason);
    set_headers(r, page->token);
}

static int conclude(struct reading *r, CURLcode code, const struct pod_page *page, struct err *e)
{
    long status = 0;
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    TRY(sb_check(&r->body, e));
    if (r->header_bytes > MAX_HEADER_BYTES)
        return err_set(e, ERR_TOO_LARGE, "%s answered with more than %d bytes of headers",
                       page->pod, (int)MAX_HEADER_BYTES);
    if (code != CURLE_OK) {
        way_clean_words(r->reason);
        return err_set(e, way_err_kind(code), "%s:%u: %s", page->pod, (unsigned int)page->port,
                       *r->reason ? r->reason : curl_easy_strerror(code));
    }
    if (!r->has_headers)
        return err_set(e, ERR_UNAVAILABLE, "%s:%u: the answer breaks off", page->pod,
                       (unsigned int)page->port);
    if (status == 200)
        return 0;
    enum err_kind kind = status == 401 || status == 403 ? ERR_FORBIDDEN
                         : status == 404                ? ERR_NOT_FOUND
                                                        : ERR_UNAVAILABLE;
    return err_set(e, kind, "%s answered %s with %ld", page->pod, page->path, status);
}

static void await(struct reading *r, struct scope *s)
{
    struct pollfd fds[1 + PORT_FORWARD_FDS] = {{.fd = r->listener, .events = POLLIN}};
    port_forward_poll(r->forward, fds + 1);
    way_await(r->multi, s, fds, ARRAY_LEN(fds));
}

/* libcurl speaks to a socket of this process, and the port-forward moves what it says. */
static int converse(struct reading *r, struct scope *s, CURLcode *ret, struct err *e)
{
    int ended;
    while ((ended = way_drive(r->multi, ret, e)) == 0) {
        TRY(scope_check(s, e));
        TRY(admit(r, e));
        int more = port_forward_move(r->forward, e);
        TRY(more);
        if (!more)
            await(r, s);
    }
    return ended < 0 ? ended : 0;
}

int pod_page_get(const struct way *way, struct scope *s, const struct pod_page *page, char **ret,
                 struct err *e)
{
    CURLcode code = CURLE_OK;
    auto_reading struct reading r = {.listener = -1, .body = SB_INIT(POD_PAGE_MAX_BYTES)};
    TRY(port_forward_new(way, s, page->ns, page->pod, page->port, &r.forward, e));
    TRY(listen_for_libcurl(&r, e));
    r.multi = curl_multi_init();
    r.easy = curl_easy_init();
    assert(r.multi && r.easy);
    set_up(&r, way, page);
    (void)curl_multi_add_handle(r.multi, r.easy);
    TRY(converse(&r, s, &code, e));
    TRY(conclude(&r, code, page, e));
    *ret = sb_take(&r.body);
    return 0;
}
