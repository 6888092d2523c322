/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/plugin_parting.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_server.h"
#include "nodeagent/kubelet/plugin_folder.h"
#include "nodeagent/kubelet/plugin_messages.h"

struct plugin_parting {
    struct grpc_server *server; /* NULL: the socket could not be made */
    struct grpc_client *kubelet;
    struct reactor_timer *timer;
    size_t n_open; /* registrations without an answer */
    plugin_parting_fn *fn;
    void *arg;
};

static void refuse(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    (void)request;
    (void)len;
    grpc_call_finish(call, GRPC_UNAVAILABLE, "this agent ends; its successor is registered");
}

static const struct grpc_method methods[] = {
    {"/v1beta1.DevicePlugin/GetDevicePluginOptions", refuse},
    {"/v1beta1.DevicePlugin/ListAndWatch", refuse},
};

static void end(void *arg)
{
    struct plugin_parting *p = arg;
    if (p->n_open)
        log_warn("The kubelet did not answer the last registrations",
                 kv_int("resources", (int64_t)p->n_open));
    p->fn(p->arg);
}

/* That it is refused is the purpose. */
static void answered(void *arg, const struct grpc_reply *reply)
{
    struct plugin_parting *p = arg;
    (void)reply;
    if (--p->n_open == 0)
        reactor_timer_set(p->timer, 0);
}

static void register_all(struct plugin_parting *p, const char *endpoint, const char *const *names,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct plugin_bytes request = plugin_encode_register(endpoint, names[i]);
        p->n_open++;
        grpc_client_call(p->kubelet, "/v1beta1.Registration/Register", request.data, request.len,
                         PLUGIN_PARTING_MS, answered, p);
        free(request.data);
    }
}

struct plugin_parting *plugin_parting_new(struct reactor *r, const char *dir,
                                          const char *const *names, size_t n, plugin_parting_fn *fn,
                                          void *arg)
{
    auto_err struct err e = {0};
    auto_free char *endpoint = xasprintf("cleave-%d-parting.sock", (int)getpid());
    auto_free char *path = plugin_folder_path(dir, endpoint);
    auto_free char *kubelet = plugin_folder_path(dir, /* name= */ NULL);
    const struct grpc_server_options o = {.path = path,
                                          .methods = methods,
                                          .n_methods = ARRAY_LEN(methods)};
    struct plugin_parting *p = xmalloc(sizeof(*p));
    *p = (struct plugin_parting){.fn = fn, .arg = arg};
    p->timer = reactor_timer_new(r, end, p);
    p->kubelet = grpc_client_new(r, kubelet, NULL);
    if (grpc_server_new(r, &o, &p->server, &e) < 0)
        log_warn("Could not make the last socket", kv_err(&e));
    else
        register_all(p, endpoint, names, n);
    reactor_timer_set(p->timer, p->n_open ? PLUGIN_PARTING_MS : 0);
    return p;
}

struct plugin_parting *plugin_parting_free(struct plugin_parting *p)
{
    if (!p)
        return NULL;
    p->kubelet = grpc_client_free(p->kubelet);
    p->server = grpc_server_free(p->server);
    (void)reactor_timer_free(p->timer);
    free(p);
    return NULL;
}
