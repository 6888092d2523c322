/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/upgrade.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <poll.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/base64.h"
#include "kubeclient/status.h"

/* Bound of the answer's head: many times an API server's; and of the Status of a refusal. */
#define MAX_HEAD_BYTES   ((size_t)64 << 10)
#define MAX_STATUS_BYTES ((size_t)256 << 10)
#define SHA1_BYTES       20

struct upgrade {
    const struct way *way;
    struct tls_material *tls;
    char *token;
    struct curl_slist *connect_to;
    CURLM *multi;
    CURL *easy;
    curl_socket_t fd;
    char reason[CURL_ERROR_SIZE];
    struct sb in; /* the answer, and what came after it */
};

int upgrade_fd(const struct upgrade *u)
{
    return u->fd;
}

/* --- The connection --- */

static int lost(const struct upgrade *u, CURLcode code, struct err *e)
{
    auto_free char *words = xstrdup(*u->reason ? u->reason : curl_easy_strerror(code));
    way_clean_words(words);
    return err_set(e, way_err_kind(code), "%s", words);
}

static void set_up(struct upgrade *u)
{
    CURL *easy = u->easy;
    way_set(u->way, u->tls, easy);
    WAY_SET(easy, CURLOPT_URL, u->way->url_base);
    WAY_SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    WAY_SET(easy, CURLOPT_CONNECT_ONLY, 1L);
    WAY_SET(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    WAY_SET(easy, CURLOPT_ERRORBUFFER, u->reason);
    if (u->connect_to)
        WAY_SET(easy, CURLOPT_CONNECT_TO, u->connect_to);
}

/* The handle stays in multi, which owns the connection. */
static int connect_it(struct upgrade *u, struct scope *s, struct err *e)
{
    int ended;
    CURLcode code = CURLE_OK;
    set_up(u);
    (void)curl_multi_add_handle(u->multi, u->easy);
    while ((ended = way_drive(u->multi, &code, e)) == 0) {
        TRY(scope_check(s, e));
        way_await(u->multi, s, /* fds= */ NULL, 0);
    }
    TRY(ended);
    if (code != CURLE_OK)
        return lost(u, code, e);
    code = curl_easy_getinfo(u->easy, CURLINFO_ACTIVESOCKET, &u->fd);
    return code == CURLE_OK && u->fd != CURL_SOCKET_BAD ? 0 : lost(u, CURLE_RECV_ERROR, e);
}

static int closed(struct err *e)
{
    return err_set(e, ERR_UNAVAILABLE, "the API server closed the connection");
}

static int receive(struct upgrade *u, void *p, size_t room, size_t *ret_len, struct err *e)
{
    *ret_len = 0;
    CURLcode code = curl_easy_recv(u->easy, p, room, ret_len);
    if (code == CURLE_AGAIN)
        return 0;
    if (code == CURLE_OK)
        return *ret_len ? 0 : closed(e);
    return lost(u, code, e);
}

int upgrade_recv(struct upgrade *u, void *p, size_t room, size_t *ret_len, struct err *e)
{
    if (!u->in.len)
        return receive(u, p, room, ret_len, e);
    *ret_len = u->in.len < room ? u->in.len : room;
    memcpy(p, u->in.data, *ret_len);
    sb_drop_front(&u->in, *ret_len);
    return 0;
}

int upgrade_send(struct upgrade *u, const void *p, size_t len, size_t *ret_len, struct err *e)
{
    *ret_len = 0;
    CURLcode code = curl_easy_send(u->easy, p, len, ret_len);
    return code == CURLE_OK || code == CURLE_AGAIN ? 0 : lost(u, code, e);
}

static int await(const struct upgrade *u, struct scope *s, short events, struct err *e)
{
    struct pollfd fds[] = {{.fd = u->fd, .events = events},
                           {.fd = scope_cancel_fd(s), .events = POLLIN}};
    (void)poll(fds, ARRAY_LEN(fds), scope_poll_ms(s));
    return scope_check(s, e);
}

static int send_all(struct upgrade *u, struct scope *s, const char *text, struct err *e)
{
    size_t len = strlen(text);
    while (len) {
        size_t sent;
        TRY(upgrade_send(u, text, len, &sent, e));
        text += sent;
        len -= sent;
        if (!sent)
            TRY(await(u, s, POLLOUT, e));
    }
    return 0;
}

/* Receives something more of the answer. */
static int receive_more(struct upgrade *u, struct scope *s, struct err *e)
{
    char piece[4096];
    size_t len;
    TRY(receive(u, piece, sizeof(piece), &len, e));
    if (!len)
        return await(u, s, POLLIN, e);
    sb_add_mem(&u->in, piece, len);
    return sb_check(&u->in, e);
}

/* --- The handshake --- */

/* The Sec-WebSocket-Accept of a server that understands the key (RFC 6455, section 4.2.2). Caller
 * frees. */
static char *accept_of(const char *key)
{
    unsigned char digest[SHA1_BYTES];
    unsigned int len = 0;
    auto_free char *text = xasprintf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    int ok = EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL);
    assert(ok == 1 && len == sizeof(digest));
    (void)ok;
    return base64_encode(digest, len);
}

static char *new_key(void)
{
    unsigned char bytes[16];
    int rc = RAND_bytes(bytes, sizeof(bytes));
    assert(rc == 1);
    (void)rc;
    return base64_encode(bytes, sizeof(bytes));
}

static int ask(struct upgrade *u, struct scope *s, const char *path, const char *protocol,
               const char *key, struct err *e)
{
    const struct way *w = u->way;
    auto_free char *bearer =
        u->token ? xasprintf("Authorization: Bearer %s\r\n", u->token) : xstrdup("");
    auto_free char *text =
        xasprintf("GET %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n%s"
                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  "Sec-WebSocket-Key: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                  w->path_prefix, path, w->authority, w->user_agent, bearer, key, protocol);
    int rc = send_all(u, s, text, e);
    explicit_bzero(bearer, strlen(bearer));
    explicit_bzero(text, strlen(text));
    return rc;
}

/* The value of a header, without blanks around it; NULL: it is not there. Caller frees. */
static char *header(const char *head, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;
        if (strncasecmp(at, name, len) != 0 || at[len] != ':')
            continue;
        at += len + 1;
        at += strspn(at, " \t");
        size_t n = strcspn(at, "\r\n");
        while (n && strchr(" \t", at[n - 1]))
            n--;
        return xstrndup(at, n);
    }
    return NULL;
}

/* The status of "HTTP/1.1 403 Forbidden"; 0: it is no such line. */
static int status_of(const char *head)
{
    int64_t ret = 0;
    if (strncmp(head, "HTTP/1.1 ", 9) != 0)
        return 0;
    auto_free char *digits = xstrndup(head + 9, 3);
    return num_parse(digits, 100, 599, &ret, NULL) == 0 ? (int)ret : 0;
}

/* The head of the answer; what came after it stays in u->in. Caller frees. */
static int receive_head(struct upgrade *u, struct scope *s, char **ret, struct err *e)
{
    const char *end;
    while (!(end = memmem(sb_str(&u->in), u->in.len, "\r\n\r\n", 4)))
        TRY(receive_more(u, s, e));
    size_t len = (size_t)(end - u->in.data) + 4;
    *ret = xstrndup(u->in.data, len);
    sb_drop_front(&u->in, len);
    return 0;
}

/* The error of an answer that is no WebSocket: the Status in it says why, if its length is told. */
static int refused(struct upgrade *u, struct scope *s, const char *head, struct err *e)
{
    int64_t len = 0;
    int status = status_of(head);
    auto_free char *length = header(head, "Content-Length");
    if (!status)
        return err_set(e, ERR_PROTOCOL, "the answer is not HTTP/1.1: is this an API server?");
    if (status < 400)
        return err_set(e, ERR_PROTOCOL, "the API server answered %d, and no WebSocket", status);
    if (length && num_parse(length, 0, MAX_STATUS_BYTES, &len, NULL) < 0)
        len = 0;
    u->in.cap = MAX_STATUS_BYTES;
    while (u->in.len < (size_t)len)
        if (receive_more(u, s, NULL) < 0)
            break;
    return kc_status_from_body(status, sb_str(&u->in), u->in.len, /* retry_after_ms= */ 0, e);
}

static bool says(const char *head, const char *name, const char *value)
{
    auto_free char *have = header(head, name);
    return have && strcasecmp(have, value) == 0;
}

static int shake_hands(struct upgrade *u, struct scope *s, const char *path, const char *protocol,
                       struct err *e)
{
    auto_free char *key = new_key();
    auto_free char *accepted = accept_of(key);
    auto_free char *head = NULL;
    TRY(ask(u, s, path, protocol, key, e));
    TRY(receive_head(u, s, &head, e));
    if (status_of(head) != 101)
        return refused(u, s, head, e);
    auto_free char *answer = header(head, "Sec-WebSocket-Accept");
    if (!answer || strcmp(answer, accepted) != 0 || !says(head, "Upgrade", "websocket") ||
        !says(head, "Sec-WebSocket-Protocol", protocol))
        return err_set(e, ERR_PROTOCOL, "the API server answered with another protocol than %s",
                       protocol);
    return 0;
}

/* --- Construction --- */

static int upgrade_try(const struct way *way, struct scope *s, const char *path,
                       const char *protocol, struct upgrade *u, struct err *e)
{
    u->way = way;
    u->in = SB_INIT(MAX_HEAD_BYTES);
    u->fd = CURL_SOCKET_BAD;
    TRY(credentials_get(way->credentials, s, &u->token, &u->tls, e));
    u->connect_to = way_connect_to(way);
    u->multi = curl_multi_init();
    u->easy = curl_easy_init();
    assert(u->multi && u->easy);
    TRY(connect_it(u, s, e));
    return shake_hands(u, s, path, protocol, e);
}

int upgrade_new(const struct way *way, struct scope *s, const char *path, const char *protocol,
                struct upgrade **ret, struct err *e)
{
    for (bool is_second = false;; is_second = true) {
        auto_err struct err why = {0};
        auto_upgrade struct upgrade *u = xmalloc(sizeof(*u));
        int rc = upgrade_try(way, s, path, protocol, u, &why);
        if (rc == 0) {
            *ret = TAKE(u);
            return 0;
        }
        bool renewed =
            why.http_status == 401 && u->token && credentials_reject(way->credentials, u->token);
        if (is_second || !renewed)
            return err_move(e, &why);
    }
}

struct upgrade *upgrade_free(struct upgrade *u)
{
    if (!u)
        return NULL;
    if (u->multi && u->easy)
        (void)curl_multi_remove_handle(u->multi, u->easy);
    curl_easy_cleanup(u->easy);
    if (u->multi)
        (void)curl_multi_cleanup(u->multi);
    curl_slist_free_all(u->connect_to);
    (void)tls_material_unref(u->tls);
    if (u->token)
        explicit_bzero(u->token, strlen(u->token));
    free(u->token);
    sb_done(&u->in);
    free(u);
    return NULL;
}
