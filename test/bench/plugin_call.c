/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"

/*
 * Calls a device plugin as the kubelet does, one call after the other on one connection, and writes
 * how long each took:
 *
 *   plugin_call SOCKET METHOD COUNT PAUSE_MS [DEVICE-ID...]
 *
 * The request is an AllocateRequest of one container that gets these devices; without any it is
 * empty, as of GetDevicePluginOptions. COUNT 0 is until the input ends. A line is the microseconds
 * of a call, or "failed" and the plugin's words. The call that connects is not among them.
 */

enum { CALL_MS = 30000 };

struct bench {
    struct reactor *reactor;
    struct grpc_client *client;
    struct reactor_timer *timer;
    const char *method;
    uint8_t *request; /* owned */
    size_t len;
    int64_t pause_ms;
    bool answered, rested, ended;
    char *error; /* of the last call; NULL: it succeeded */
};

static double now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void encode(struct bench *b, char **ids, size_t n)
{
    V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
    V1beta1__ContainerAllocateRequest *containers[] = {&container};
    V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
    container.devices_ids = ids;
    container.n_devices_ids = n;
    request.container_requests = containers;
    request.n_container_requests = n ? 1 : 0;
    b->request = xcalloc(v1beta1__allocate_request__get_packed_size(&request) + 1, 1);
    b->len = v1beta1__allocate_request__pack(&request, b->request);
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct bench *b = arg;
    b->answered = true;
    xstr_set(&b->error, reply->code == GRPC_OK ? NULL : reply->text);
}

static double call(struct bench *b)
{
    b->answered = false;
    double from = now_us();
    grpc_client_call(b->client, b->method, b->request, b->len, CALL_MS, on_reply, b);
    while (!b->answered)
        reactor_run(b->reactor, -1);
    return now_us() - from;
}

static void on_rested(void *arg)
{
    ((struct bench *)arg)->rested = true;
}

static void rest(struct bench *b)
{
    if (b->pause_ms == 0)
        return;
    b->rested = false;
    reactor_timer_set(b->timer, b->pause_ms);
    while (!b->rested)
        reactor_run(b->reactor, -1);
}

static void on_input(void *arg, uint32_t events)
{
    (void)events;
    char byte;
    if (read(STDIN_FILENO, &byte, 1) <= 0)
        ((struct bench *)arg)->ended = true;
}

static void measure(struct bench *b, int64_t count)
{
    (void)call(b);
    for (int64_t n = 0; !b->ended && (count == 0 || n < count); n++) {
        rest(b);
        double us = call(b);
        if (b->error)
            (void)printf("failed %s\n", b->error);
        else
            (void)printf("%.1f\n", us);
    }
}

static int start(struct bench *b, const char *socket, int64_t count,
                 struct reactor_watch **ret_input, struct err *e)
{
    TRY(reactor_new(clock_real(), &b->reactor, e));
    b->client = grpc_client_new(b->reactor, socket, NULL);
    b->timer = reactor_timer_new(b->reactor, on_rested, b);
    if (count > 0)
        return 0;
    return reactor_watch(b->reactor, STDIN_FILENO, EPOLLIN, on_input, b, ret_input, e);
}

static void bench_done(struct bench *b)
{
    (void)reactor_timer_free(b->timer);
    (void)grpc_client_free(b->client);
    (void)reactor_free(b->reactor);
    free(b->request);
    free(b->error);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct reactor_watch *input = NULL;
    int64_t count;
    auto_err struct err e = {0};
    if (argc < 5 || num_parse(argv[3], 0, INT64_MAX, &count, &e) < 0 ||
        num_parse(argv[4], 0, 60000, &b.pause_ms, &e) < 0) {
        (void)fprintf(stderr, "usage: plugin_call SOCKET METHOD COUNT PAUSE_MS [DEVICE-ID...]\n");
        return 2;
    }
    b.method = argv[2];
    encode(&b, argv + 5, (size_t)argc - 5);
    int rc = start(&b, argv[1], count, &input, &e);
    if (rc < 0)
        (void)fprintf(stderr, "plugin_call: %s\n", err_msg(&e));
    else
        measure(&b, count);
    (void)reactor_unwatch(input);
    bench_done(&b);
    return rc < 0;
}
