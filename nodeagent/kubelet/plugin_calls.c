/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/plugin_calls.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/xalloc.h"

/* Answers a call with its one message, or with the error. */
static void answer(struct grpc_call *call, int rc, struct plugin_bytes *bytes, struct err *e)
{
    if (rc == 0)
        rc = grpc_call_send(call, bytes->data, bytes->len, e);
    free(bytes->data);
    if (rc < 0)
        grpc_call_finish(call, grpc_code_of(e->kind), err_msg(e));
    else
        grpc_call_finish(call, GRPC_OK, NULL);
}

void plugin_calls_options(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    (void)request;
    (void)len;
    auto_err struct err e = {0};
    struct plugin_bytes bytes = plugin_encode_options();
    answer(call, 0, &bytes, &e);
}

static int allocate_one(void *arg, const char *const *ids, size_t n, struct entry *ret,
                        struct err *e)
{
    const struct plugin_calls *c = arg;
    return c->ops->allocate(c->arg, c->resource, ids, n, ret, e);
}

void plugin_calls_allocate(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    struct plugin_calls *c = arg;
    auto_err struct err e = {0};
    struct plugin_bytes bytes = {0};
    int rc = plugin_answer_allocate(request, len, allocate_one, c, &bytes, &e);
    c->stats->allocations++;
    if (rc < 0) {
        c->stats->refused++;
        log_warn("Refused a grant of the kubelet", kv("resource", c->resource), kv_err(&e));
    }
    answer(call, rc, &bytes, &e);
}

static int prefer_one(void *arg, const struct plugin_preference *p, const char **ret_ids,
                      struct err *e)
{
    const struct plugin_calls *c = arg;
    return c->ops->prefer(c->arg, c->resource, p, ret_ids, e);
}

void plugin_calls_prefer(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    auto_err struct err e = {0};
    struct plugin_bytes bytes = {0};
    int rc = plugin_answer_prefer(request, len, prefer_one, arg, &bytes, &e);
    answer(call, rc, &bytes, &e);
}

void plugin_calls_pre_start(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    (void)request;
    (void)len;
    auto_err struct err e = {0};
    struct plugin_bytes empty = {xmalloc(1), 0};
    answer(call, 0, &empty, &e);
}
