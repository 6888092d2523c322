/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_server.h"

/*
 * Our gRPC, for a foreign one to talk to:
 *   peer serve PATH                        until its input ends; says "ready" first
 *   peer call PATH METHOD DEADLINE_MS      its input is the request; writes the code in a line, the
 *                                          text in a line, then the answer
 */

#define MAX_BYTES (8UL << 20)

static const struct grpc_limits limits = {.max_message = 4 << 20, .max_queued = 8 << 20};

/* ---- serve ---- */

static void on_echo(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    auto_err struct err e = {0};
    int rc = grpc_call_send(call, request, len, &e);
    grpc_call_finish(call, rc < 0 ? grpc_code_of(e.kind) : GRPC_OK, rc < 0 ? err_msg(&e) : NULL);
}

static void on_fail(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    auto_free char *text = xstrndup((const char *)request, len);
    grpc_call_finish(call, GRPC_FAILED_PRECONDITION, text);
}

/* As many messages as the request says, each with its number. */
static void on_count(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    auto_free char *text = xstrndup((const char *)request, len);
    int64_t n = 0;
    int rc = num_parse(text, 0, 100000, &n, NULL);
    for (int64_t i = 0; i < n && rc == 0; i++) {
        auto_free char *number = xasprintf("%lld", (long long)i);
        rc = grpc_call_send(call, (const uint8_t *)number, strlen(number), NULL);
    }
    grpc_call_finish(call, rc < 0 ? GRPC_INVALID_ARGUMENT : GRPC_OK, NULL);
}

static void on_hold_end(void *arg)
{
    ++*(unsigned *)arg;
}

/* One message, and no end. */
static void on_hold(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    grpc_call_on_end(call, on_hold_end, arg);
    if (grpc_call_send(call, request, len, NULL) < 0)
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, NULL);
}

/* How many calls of Hold were ended by their peers. */
static void on_ended(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    auto_free char *number = xasprintf("%u", *(unsigned *)arg);
    on_echo(arg, call, (const uint8_t *)number, strlen(number));
}

static const struct grpc_method methods[] = {
    {"/test.Test/Echo", on_echo}, {"/test.Test/Fail", on_fail},   {"/test.Test/Count", on_count},
    {"/test.Test/Hold", on_hold}, {"/test.Test/Ended", on_ended},
};

static void on_input(void *arg, uint32_t events)
{
    (void)events;
    *(bool *)arg = true;
}

static int serve(struct reactor *r, const char *path, struct err *e)
{
    unsigned ended = 0;
    bool over = false;
    const struct grpc_server_options o = {.path = path,
                                          .methods = methods,
                                          .n_methods = ARRAY_LEN(methods),
                                          .arg = &ended,
                                          .limits = limits};
    auto_grpc_server struct grpc_server *s = NULL;
    TRY(grpc_server_new(r, &o, &s, e));
    struct reactor_watch *input = NULL;
    TRY(reactor_watch(r, STDIN_FILENO, EPOLLIN, on_input, &over, &input, e));
    (void)puts("ready");
    (void)fflush(stdout);
    while (!over)
        reactor_run(r, -1);
    (void)reactor_unwatch(input);
    return 0;
}

/* ---- call ---- */

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    *(bool *)arg = true;
    (void)printf("%d\n%s\n", reply->code, reply->text);
    if (reply->message)
        (void)fwrite(reply->message, 1, reply->len, stdout);
}

static int call(struct reactor *r, const char *path, const char *method, const char *deadline,
                struct err *e)
{
    int64_t ms = 0;
    TRY(num_parse(deadline, 0, INT32_MAX, &ms, e));
    auto_free uint8_t *message = xmalloc(MAX_BYTES);
    size_t len = fread(message, 1, MAX_BYTES, stdin);
    struct grpc_client *c = grpc_client_new(r, path, &limits);
    bool over = false;
    grpc_client_call(c, method, message, len, ms, on_reply, &over);
    while (!over)
        reactor_run(r, -1);
    (void)grpc_client_free(c);
    return 0;
}

static int run(int argc, char **argv, struct err *e)
{
    auto_reactor struct reactor *r = NULL;
    TRY(reactor_new(clock_real(), &r, e));
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(r, argv[2], e);
    if (argc == 5 && !strcmp(argv[1], "call"))
        return call(r, argv[2], argv[3], argv[4], e);
    return err_set(e, ERR_INVALID, "usage: peer serve PATH | peer call PATH METHOD DEADLINE_MS");
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    if (run(argc, argv, &e) == 0)
        return 0;
    (void)fprintf(stderr, "%s\n", err_msg(&e));
    return 1;
}
