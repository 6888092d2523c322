/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/pod_resources.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"

#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/proto/podresources.pb-c.h"
#include "nodeagent/kubelet/proto_arena.h"

enum {
    DEADLINE_MS = 5000,
    GAP_MS = 20,
    MAX_ANSWER = 4 << 20, /* 110 pods take some 100 KiB */
    MAX_UNPACKED = 32 << 20,
};

struct pod_resources {
    struct pod_resources_options o;
    struct grpc_client *client;
    struct reactor_timer *timer;
    int64_t asked_mono_ms;
    bool asking, again;
    char *path;
    struct stat seen; /* the socket as last seen; st_nlink 0: never */
    int64_t renewed_mono_ms;
};

static size_t count_devices(const V1__ListPodResourcesResponse *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_pod_resources; i++)
        for (size_t c = 0; c < m->pod_resources[i]->n_containers; c++)
            for (size_t d = 0; d < m->pod_resources[i]->containers[c]->n_devices; d++)
                n += m->pod_resources[i]->containers[c]->devices[d]->n_device_ids;
    return n;
}

static struct pod_device *list_container(const V1__PodResources *pod,
                                         const V1__ContainerResources *c, struct pod_device *at)
{
    for (size_t d = 0; d < c->n_devices; d++)
        for (size_t i = 0; i < c->devices[d]->n_device_ids; i++)
            *at++ = (struct pod_device){
                .resource = c->devices[d]->resource_name,
                .id = c->devices[d]->device_ids[i],
                .ns = pod->namespace_,
                .pod = pod->name,
                .container = c->name,
            };
    return at;
}

static void pass_containers(const struct pod_resources *p, const V1__ListPodResourcesResponse *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_pod_resources; i++)
        n += m->pod_resources[i]->n_containers;
    auto_free struct pod_container *list = xcalloc(n, sizeof(*list));
    size_t at = 0;
    for (size_t i = 0; i < m->n_pod_resources; i++) {
        const V1__PodResources *pod = m->pod_resources[i];
        for (size_t c = 0; c < pod->n_containers; c++)
            list[at++] =
                (struct pod_container){pod->namespace_, pod->name, pod->containers[c]->name};
    }
    assert(at == n);
    p->o.pods_fn(p->o.arg, list, n);
}

static void pass_list(const struct pod_resources *p, const V1__ListPodResourcesResponse *m)
{
    size_t n = count_devices(m);
    auto_free struct pod_device *list = xcalloc(n, sizeof(*list));
    struct pod_device *at = list;
    for (size_t i = 0; i < m->n_pod_resources; i++)
        for (size_t c = 0; c < m->pod_resources[i]->n_containers; c++)
            at = list_container(m->pod_resources[i], m->pod_resources[i]->containers[c], at);
    assert((size_t)(at - list) == n); /* as many as were counted */
    if (p->o.pods_fn)
        pass_containers(p, m);
    p->o.fn(p->o.arg, list, n, p->asked_mono_ms, NULL);
}

static void pass_error(const struct pod_resources *p, enum err_kind kind, const char *text)
{
    auto_err struct err e = {0};
    (void)err_set(&e, kind, "cannot read which pods hold devices: %s", text);
    p->o.fn(p->o.arg, NULL, 0, p->asked_mono_ms, &e);
}

static void answered(void *arg, const struct grpc_reply *reply)
{
    struct pod_resources *p = arg;
    assert(p->asking);
    p->asking = false;
    if (p->again) {
        p->again = false;
        reactor_timer_set(p->timer, GAP_MS);
    }
    if (reply->code != GRPC_OK) {
        pass_error(p, grpc_code_kind(reply->code), reply->text);
        return;
    }
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    V1__ListPodResourcesResponse *m =
        v1__list_pod_resources_response__unpack(&arena.allocator, reply->len, reply->message);
    if (m)
        pass_list(p, m);
    else
        pass_error(p, ERR_PROTOCOL,
                   "the answer is no ListPodResourcesResponse, or too large a one");
}

/* An inode may be reused, but with another time. */
static bool same_socket(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void check_socket(struct pod_resources *p)
{
    struct stat now;
    if (stat(p->path, &now) < 0)
        return;
    if (p->seen.st_nlink && !same_socket(&now, &p->seen))
        p->renewed_mono_ms = p->asked_mono_ms;
    p->seen = now;
}

int64_t pod_resources_renewed_mono_ms(const struct pod_resources *p)
{
    return p->renewed_mono_ms;
}

static void ask_now(void *arg)
{
    struct pod_resources *p = arg;
    assert(!p->asking);
    reactor_timer_unset(p->timer); /* what it waits for is done here */
    p->asking = true;
    p->asked_mono_ms = clock_mono_ms(p->o.clk);
    check_socket(p);
    grpc_client_call(p->client, "/v1.PodResourcesLister/List", (const uint8_t *)"", 0, DEADLINE_MS,
                     answered, p);
}

void pod_resources_ask(struct pod_resources *p)
{
    int64_t since = clock_mono_ms(p->o.clk) - p->asked_mono_ms;
    if (p->asking)
        p->again = true;
    else if (since >= GAP_MS)
        ask_now(p);
    else
        reactor_timer_set(p->timer, GAP_MS - since);
}

static void granted_answered(void *arg, const struct grpc_reply *reply)
{
    struct pod_resources *p = arg;
    if (reply->code != GRPC_OK)
        return;
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    V1__AllocatableResourcesResponse *m =
        v1__allocatable_resources_response__unpack(&arena.allocator, reply->len, reply->message);
    if (!m)
        return;
    auto_free struct plugin_granted *all = xcalloc(m->n_devices, sizeof(*all));
    size_t n = 0;
    for (size_t i = 0; i < m->n_devices; i++)
        if (m->devices[i]->n_device_ids)
            all[n++] =
                (struct plugin_granted){m->devices[i]->resource_name, m->devices[i]->device_ids,
                                        m->devices[i]->n_device_ids};
    p->o.granted_fn(p->o.arg, all, n);
}

void pod_resources_ask_granted(struct pod_resources *p)
{
    grpc_client_call(p->client, "/v1.PodResourcesLister/GetAllocatableResources",
                     (const uint8_t *)"", 0, DEADLINE_MS, granted_answered, p);
}

struct pod_resources *pod_resources_new(const struct pod_resources_options *o)
{
    assert(o->reactor && o->clk && o->path && o->fn);
    static const struct grpc_limits limits = {.max_message = MAX_ANSWER};
    struct pod_resources *p = xmalloc(sizeof(*p));
    *p = (struct pod_resources){.o = *o,
                                .asked_mono_ms = INT64_MIN / 2,
                                .path = xstrdup(o->path),
                                .renewed_mono_ms = INT64_MIN};
    p->client = grpc_client_new(o->reactor, o->path, &limits);
    p->timer = reactor_timer_new(o->reactor, ask_now, p);
    return p;
}

struct pod_resources *pod_resources_free(struct pod_resources *p)
{
    if (!p)
        return NULL;
    (void)grpc_client_free(p->client);
    (void)reactor_timer_free(p->timer);
    free(p->path);
    free(p);
    return NULL;
}
