/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_unlock.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "interop/node_lock.h"
#include "reconcilers/node_view.h"
#include "reconcilers/pod_slices.h"
#include "service/resources.h"

/* Shortest delay before a lock whose time is not up is looked at again. */
enum { SOONEST_MS = 1000 };

/* --- The pod that the lock names --- */

static int keep_first_pod(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    json_t **found = arg;
    if (!*found)
        *found = json_incref((json_t *)(uintptr_t)obj);
    return 0;
}

/* Finds the pod; *ret NULL: there is none. A list is used, because the right to list pods covers it
 * (config/rbac). */
static int find_pod(struct context *ctx, struct scope *s, const struct node_lock *lock,
                    json_t **ret, struct err *e)
{
    if (!*lock->pod)
        return 0;
    auto_free char *selector = xasprintf("metadata.name=%s", lock->pod);
    const struct kc_target target = {.res = &resource_pods, .ns = lock->ns};
    const struct kc_list_opts opts = {.fields = selector};
    if (kc_list_each(ctx->kc, s, &target, &opts, keep_first_pod, ret, /* ret_version= */ NULL, e) <
        0)
        return err_wrap(e, "finding Pod %s/%s, which the lock of the Node names", lock->ns,
                        lock->pod);
    return 0;
}

/* --- The Node --- */

/* The patch that removes exactly this lock, whatever else of the Node has changed: the annotation
 * about its cards changes with each pod's slice. */
static json_t *removal(const struct node_view *v)
{
    assert(v->node && v->node->lock);
    static const char path[] = "/metadata/annotations/" NODE_LOCK_POINTER;
    return json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s}]", "op", "test", "path",
                     "/metadata/uid", "value", object_uid(v->node_object), "op", "test", "path",
                     path, "value", v->node->lock, "op", "remove", "path", path);
}

static int release(struct context *ctx, struct scope *s, const struct object_key *k,
                   const struct node_view *v, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes,
                                     .name = k->name,
                                     .subresource = "status"};
    auto_json json_t *body = removal(v);
    const struct kc_write write = {.body = body, .how = KC_JSON_PATCH, .manager = MANAGER_NODE};
    auto_json json_t *written = NULL;
    int rc = kc_patch(ctx->kc, s, &target, &write, &written, e);
    if (rc == -(int)ERR_INVALID) {
        err_clear(e); /* the lock was replaced or removed meanwhile: the cache will show it */
        return 0;
    }
    if (rc < 0)
        return err_wrap(e, "releasing the lock of Node %s", k->name);
    expectations_wrote(ctx->node_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info("Released lock of Node", kv("node", k->name), kv("lock", v->node->lock));
    return 0;
}

static int64_t until_forgotten(const struct node_lock *lock, int64_t now_ms)
{
    int64_t left = lock->since_ms + NODE_LOCK_FORGOTTEN_MS - now_ms + 1;
    if (left > NODE_LOCK_FORGOTTEN_MS)
        return NODE_LOCK_FORGOTTEN_MS;
    return left > SOONEST_MS ? left : SOONEST_MS;
}

static int look_at_lock(struct context *ctx, struct scope *s, const struct object_key *k,
                        const struct node_view *v, struct reconcile_result *result, struct err *e)
{
    struct node_lock lock;
    auto_err struct err why = {0};
    auto_json json_t *pod = NULL;
    if (node_lock_parse(v->node->lock, &lock, &why) < 0) {
        log_warn("Left a lock of Node that cannot be read", kv("node", k->name), kv_err(&why));
        return 0;
    }
    TRY(find_pod(ctx, s, &lock, &pod, e));
    int64_t now_ms = clock_wall_ms(ctx->clk);
    switch (node_lock_judge(&lock, pod, v->device->resources, v->device->n_resources, now_ms)) {
    case NODE_LOCK_LEAVE:
        return 0;
    case NODE_LOCK_WAIT:
        result->requeue_after_ms = until_forgotten(&lock, now_ms);
        return 0;
    case NODE_LOCK_RELEASE:
        return release(ctx, s, k, v, e);
    }
    return 0;
}

/* A cache without our last write does no harm, because the patch removes only the lock that it
 * shows. */
static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    node_view_look(&ctx->caches, k->name, &v);
    if (!v.node || !v.node->lock || !v.device || !pod_slices_are_ours(v.device))
        return 0;
    return look_at_lock(ctx, s, k, &v, result, e);
}

/* --- Watches --- */

/* The two predicates pass each lock once, so that its pod is read once. */

static bool lock_changed(const struct object *before, const struct object *after)
{
    const struct node_record *was = before ? object_payload(before) : NULL;
    const struct node_record *is = after ? object_payload(after) : NULL;
    if (!is || !is->lock)
        return false;
    return !was || !was->lock || strcmp(was->lock, is->lock) != 0 ||
           strcmp(object_uid(before), object_uid(after)) != 0;
}

static bool concerns(const struct object *device)
{
    return device && pod_slices_are_ours(object_payload(device));
}

static bool concern_began(const struct object *before, const struct object *after)
{
    return concerns(after) && !concerns(before);
}

struct controller *node_unlock_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("unlock", reconcile, ctx, ctx->workers, ctx->clk);
    controller_watch(c, ctx->nodes, lock_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, concern_began, /* map= */ NULL);
    return c;
}
