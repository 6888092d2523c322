/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "memory_support.h"
#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_server.h"
#include "nodeagent/kubelet/grpc_socket.h"

/*
 * Input: a first byte that says how long the pieces are, then what a peer sends to a server, with
 * its preface, and hangs up. Whatever it is, calls are handled or not, nothing is left behind, the
 * server comes to rest after each piece, keeps to its memory, and answers the next one who asks.
 * (kubelet_link_fuzz.c does what takes several connections, or time.)
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MAX_TURNS  1000
#define MAX_MEMORY (1UL << 20) /* beyond what is held at rest */

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct seen {
    unsigned streams, ends;
};

static void on_echo(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    int rc = grpc_call_send(call, request, len, NULL);
    grpc_call_finish(call, rc < 0 ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK, NULL);
}

static void on_end(void *arg)
{
    ((struct seen *)arg)->ends++;
}

static void on_stream(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    ((struct seen *)arg)->streams++;
    grpc_call_on_end(call, on_end, arg);
    int rc = grpc_call_send(call, request, len, NULL);
    (void)rc;
}

static const struct grpc_method methods[] = {{"/t/Echo", on_echo}, {"/t/Stream", on_stream}};

struct world {
    struct clock *clk;
    struct reactor *reactor;
    struct grpc_server *server;
    char folder[32];
    char *path;
    struct seen seen;
};

static void world_init(struct world *w)
{
    *w = (struct world){.clk = clock_fake_new(0), .folder = "/tmp/grpc-fuzz-XXXXXX"};
    int rc = reactor_new(w->clk, &w->reactor, NULL);
    assert(rc == 0 && mkdtemp(w->folder));
    w->path = xasprintf("%s/s", w->folder);
    const struct grpc_server_options o = {
        .path = w->path,
        .methods = methods,
        .n_methods = ARRAY_LEN(methods),
        .arg = &w->seen,
        .limits = {.max_message = 4096, .max_queued = 4096, .max_streams = 8},
    };
    rc = grpc_server_new(w->reactor, &o, &w->server, NULL);
    assert(rc == 0);
    (void)rc;
}

static void world_done(struct world *w)
{
    (void)grpc_server_free(w->server);
    (void)reactor_free(w->reactor);
    (void)clock_free(w->clk);
    (void)rmdir(w->folder);
    free(w->path);
}

static void settle(struct world *w)
{
    struct pollfd p = {.fd = reactor_fd(w->reactor), .events = POLLIN};
    unsigned turns = 0;
    do {
        reactor_dispatch(w->reactor);
        assert(++turns < MAX_TURNS && "it never comes to rest");
    } while (poll(&p, 1, 0) > 0);
}

/* Returns how much was taken; what the server says is dropped. */
static size_t give(struct world *w, int fd, const uint8_t *p, size_t len)
{
    char answer[4096];
    ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
    settle(w);
    while (recv(fd, answer, sizeof(answer), 0) > 0)
        settle(w);
    return n > 0 ? (size_t)n : 0;
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    *(bool *)arg = reply->code == GRPC_OK && reply->len == 5 && !memcmp(reply->message, "hello", 5);
}

static bool is_served(struct world *w)
{
    bool served = false;
    auto_grpc_client struct grpc_client *c = grpc_client_new(w->reactor, w->path, NULL);
    grpc_client_call(c, "/t/Echo", (const uint8_t *)"hello", 5, 1000, on_reply, &served);
    settle(w);
    return served;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    struct world w;
    world_init(&w);
    size_t at_rest = memory_used();
    memory_mark();
    int fd = -1;
    int rc = grpc_socket_connect(w.path, &fd, NULL);
    assert(rc == 0);
    (void)rc;
    size_t piece = data[0] ? data[0] : len;
    size_t n = give(&w, fd, (const uint8_t *)PREFACE, sizeof(PREFACE) - 1);
    for (size_t i = 1; i < len && n > 0; i += n)
        n = give(&w, fd, data + i, len - i < piece ? len - i : piece);
    clock_fake_advance(w.clk, 11000); /* requests that are not whole are given up */
    settle(&w);
    (void)close(fd);
    settle(&w);
    assert(w.seen.streams == w.seen.ends);
    assert(memory_peak() < at_rest + MAX_MEMORY && "it takes too much memory");
    bool served = is_served(&w);
    assert(served && "the next one is not served");
    (void)served;
    (void)at_rest;
    world_done(&w);
    return 0;
}
