/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_support.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/kubelet/grpc_socket.h"

/* ---- handlers ---- */

static void on_echo(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    ((struct grpc_seen *)arg)->calls++;
    int rc = grpc_call_send(call, request, len, NULL);
    grpc_call_finish(call, rc < 0 ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK, NULL);
}

static void on_fail(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    ((struct grpc_seen *)arg)->calls++;
    auto_free char *text = xstrndup((const char *)request, len);
    grpc_call_finish(call, GRPC_FAILED_PRECONDITION, text);
}

static void on_end(void *arg)
{
    struct grpc_seen *seen = arg;
    seen->ends++;
    seen->open = NULL;
}

static void on_stream(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    struct grpc_seen *seen = arg;
    seen->calls++;
    seen->open = call;
    grpc_call_on_end(call, on_end, seen);
    int rc = grpc_call_send(call, request, len, NULL);
    assert(rc == 0);
    (void)rc;
}

static void on_keep(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    struct grpc_seen *seen = arg;
    seen->calls++;
    seen->open = call;
}

static const struct grpc_method methods[] = {
    {GRPC_ECHO, on_echo},
    {GRPC_FAIL, on_fail},
    {GRPC_STREAM, on_stream},
    {GRPC_KEEP, on_keep},
};

/* ---- the world ---- */

struct grpc_world *grpc_world_new(const struct grpc_limits *limits)
{
    struct grpc_world *w = xmalloc(sizeof(*w));
    w->clk = clock_fake_new(0);
    int rc = reactor_new(w->clk, &w->reactor, NULL);
    assert(rc == 0);
    w->folder = folder_make();
    w->path = xasprintf("%s/s.sock", w->folder);
    w->seen = xmalloc(sizeof(*w->seen));
    const struct grpc_server_options o = {
        .path = w->path,
        .methods = methods,
        .n_methods = ARRAY_LEN(methods),
        .arg = w->seen,
        .limits = *limits,
    };
    rc = grpc_server_new(w->reactor, &o, &w->server, NULL);
    assert(rc == 0);
    (void)rc;
    w->client = grpc_client_new(w->reactor, w->path, limits);
    return w;
}

struct grpc_world *grpc_world_free(struct grpc_world *w)
{
    (void)grpc_client_free(w->client);
    (void)grpc_server_free(w->server);
    (void)reactor_free(w->reactor);
    (void)clock_free(w->clk);
    folder_remove(w->folder);
    free(w->path);
    free(w->folder);
    free(w->seen);
    free(w);
    return NULL;
}

void grpc_settle(struct grpc_world *w)
{
    struct pollfd p = {.fd = reactor_fd(w->reactor), .events = POLLIN};
    do
        reactor_dispatch(w->reactor);
    while (poll(&p, 1, 0) > 0);
}

void grpc_pass(struct grpc_world *w, int64_t ms)
{
    clock_fake_advance(w->clk, ms);
    grpc_settle(w);
}

/* ---- calls ---- */

void grpc_on_asked(void *arg, const struct grpc_reply *reply)
{
    struct grpc_asked *a = arg;
    a->replies++;
    a->code = reply->code;
    xstr_set(&a->text, reply->text);
    free(a->message);
    a->message = xmalloc(reply->len + 1);
    if (reply->len > 0)
        memcpy(a->message, reply->message, reply->len);
    a->len = reply->len;
}

void grpc_asked_done(struct grpc_asked *a)
{
    free(a->text);
    free(a->message);
}

void grpc_ask(struct grpc_world *w, const char *method, const char *message, struct grpc_asked *ret)
{
    grpc_client_call(w->client, method, (const uint8_t *)message, strlen(message), GRPC_ASK_MS,
                     grpc_on_asked, ret);
}

/* ---- bytes ---- */

int grpc_raw_connect(const char *path)
{
    int fd = -1;
    int rc = grpc_socket_connect(path, &fd, NULL);
    assert(rc == 0);
    (void)rc;
    return fd;
}

bool grpc_raw_is_open(int fd)
{
    char buf[4096];
    ssize_t n;
    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
        ;
    return n < 0 && errno == EAGAIN;
}

bool grpc_raw_send(struct grpc_world *w, int fd, const void *p, size_t len)
{
    const uint8_t *rest = p;
    while (len > 0) {
        ssize_t n = send(fd, rest, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0) {
            rest += n;
            len -= (size_t)n;
        }
        grpc_settle(w);
        if (!grpc_raw_is_open(fd))
            return false;
    }
    return true;
}

size_t grpc_raw_frame(uint8_t *buf, uint8_t type, uint8_t flags, uint32_t stream, const void *p,
                      size_t len)
{
    const uint8_t head[9] = {(uint8_t)(len >> 16),
                             (uint8_t)(len >> 8),
                             (uint8_t)len,
                             type,
                             flags,
                             (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16),
                             (uint8_t)(stream >> 8),
                             (uint8_t)stream};
    memcpy(buf, head, sizeof(head));
    if (len > 0)
        memcpy(buf + sizeof(head), p, len);
    return sizeof(head) + len;
}

bool grpc_raw_hello(struct grpc_world *w, int fd)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint8_t settings[9];
    size_t len = grpc_raw_frame(settings, 4, 0, 0, NULL, 0);
    return grpc_raw_send(w, fd, preface, strlen(preface)) && grpc_raw_send(w, fd, settings, len);
}

/* A number of 7 bits, or more (RFC 7541, section 5.1). */
static size_t add_length(uint8_t *p, size_t len)
{
    size_t n = 0;
    if (len < 127) {
        p[n++] = (uint8_t)len;
        return n;
    }
    p[n++] = 127;
    for (len -= 127; len >= 128; len /= 128)
        p[n++] = (uint8_t)(len % 128 + 128);
    p[n++] = (uint8_t)len;
    return n;
}

/* A header field whose name is not indexed (RFC 7541, section 6.2.2). */
static size_t add_literal(uint8_t *p, const char *name, const char *value)
{
    size_t n = 0;
    p[n++] = 0;
    n += add_length(p + n, strlen(name));
    memcpy(p + n, name, strlen(name));
    n += strlen(name);
    n += add_length(p + n, strlen(value));
    memcpy(p + n, value, strlen(value));
    return n + strlen(value);
}

size_t grpc_raw_fields(uint8_t *buf, uint8_t flags, uint32_t stream, const char *const *fields)
{
    auto_free uint8_t *block = xmalloc(64UL << 10);
    size_t n = 0;
    for (; *fields; fields += 2)
        n += add_literal(block + n, fields[0], fields[1]);
    return grpc_raw_frame(buf, 1, flags, stream, block, n);
}

size_t grpc_raw_request(uint8_t *buf, uint8_t flags, uint32_t stream,
                        const struct grpc_raw_headers *h)
{
    const char *fields[] = {
        ":method",      h->method ? h->method : "POST",         ":scheme",    "http",
        ":path",        h->path ? h->path : GRPC_ECHO,          ":authority", "localhost",
        "content-type", h->type ? h->type : "application/grpc", h->name,      h->value,
        NULL,
    };
    return grpc_raw_fields(buf, flags, stream, fields);
}

static void read_headers(nghttp2_hd_inflater *inflater, const uint8_t *p, size_t len,
                         struct grpc_raw_reply *ret)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, p, len, /* in_final= */ 1);
        assert(n >= 0);
        p += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            auto_free char *value = xstrndup((const char *)nv.value, nv.valuelen);
            int64_t number = -1;
            if (num_parse(value, 0, 999, &number, NULL) == 0 && !strcmp((char *)nv.name, ":status"))
                ret->http_status = (int)number;
            if (number >= 0 && !strcmp((char *)nv.name, "grpc-status"))
                ret->grpc_status = (int)number;
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(inflater);
}

struct grpc_raw_reply grpc_raw_receive(int fd)
{
    struct grpc_raw_reply reply = {-1, -1, -1};
    auto_free uint8_t *buf = xmalloc(64UL << 10);
    ssize_t len = recv(fd, buf, 64UL << 10, 0);
    nghttp2_hd_inflater *inflater = NULL;
    int rc = nghttp2_hd_inflate_new(&inflater);
    assert(rc == 0);
    (void)rc;
    for (ssize_t i = 0; i + 9 <= len;) {
        size_t n = (size_t)buf[i] << 16 | (size_t)buf[i + 1] << 8 | buf[i + 2];
        const uint8_t *body = buf + i + 9;
        if (buf[i + 3] == 1)
            read_headers(inflater, body, n, &reply);
        if (buf[i + 3] == 3)
            reply.reset = body[3];
        i += 9 + (ssize_t)n;
    }
    nghttp2_hd_inflate_del(inflater);
    return reply;
}

/* Of the sanitizer's allocator where there is one; the C library's knows nothing then. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t grpc_allocated(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    return mallinfo2().uordblks;
}
