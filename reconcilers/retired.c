/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/retired.h"

#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "interop/gpushare.h"
#include "partition/vendor.h"
#include "reconcilers/maps.h"
#include "service/resources.h"

/* --- Pure --- */

/* Where another's device plugin serves the kubelet, the names are its own. A Device that offers
 * nothing does not show who serves the kubelet. */
static bool is_left_to_others(const struct device_record *device)
{
    for (size_t i = 0; i < device->n_resources; i++)
        if (device->resources[i].publisher == API_PUBLISHER_OTHER)
            return true;
    return device->n_resources == 0;
}

static bool is_listed(const struct device_record *device, const char *name)
{
    for (size_t i = 0; i < device->n_resources; i++)
        if (strcmp(device->resources[i].name, name) == 0)
            return true;
    return false;
}

static bool is_applied_by_us(const struct node_record *node, const char *name)
{
    for (size_t i = 0; i < node->owned_resources.n; i++)
        if (strcmp(node->owned_resources.items[i], name) == 0)
            return true;
    return false;
}

/* True for a name of which the caches show whether it is offered here. */
static bool is_known(const struct node_view *v, const char *name)
{
    bool told = v->koordinator == KOORDINATOR_ABSENT || v->koordinator == KOORDINATOR_THERE;
    return vendor_offers(name) || (told && koordinator_is_resource(name)) ||
           (v->gpushare && gpushare_is_resource(name));
}

static bool is_unclaimed(const struct node_view *v, const struct node_resource *r)
{
    return r->capacity == 0 && r->allocatable <= 0 && !is_listed(v->device, r->name) &&
           !is_applied_by_us(v->node, r->name);
}

static bool is_retired(const struct node_view *v, const struct node_resource *r)
{
    return is_unclaimed(v, r) && is_known(v, r->name);
}

static bool is_for_us(const struct node_view *v)
{
    return v->node && v->device && v->device->has_status && !v->device->status_error &&
           !is_left_to_others(v->device);
}

bool retired_wait(const struct node_view *v)
{
    if (!is_for_us(v) || v->koordinator != KOORDINATOR_UNKNOWN)
        return false;
    for (size_t i = 0; i < v->node->n_resources; i++)
        if (is_unclaimed(v, &v->node->resources[i]) &&
            koordinator_is_resource(v->node->resources[i].name))
            return true;
    return false;
}

json_t *retired_patch(const struct node_view *v)
{
    if (!is_for_us(v))
        return NULL;
    auto_json json_t *names = json_object();
    for (size_t i = 0; i < v->node->n_resources; i++)
        if (is_retired(v, &v->node->resources[i]))
            (void)json_object_set_new(names, v->node->resources[i].name, json_null());
    if (json_object_size(names) == 0)
        return NULL;
    return json_pack("{s:{s:s, s:s}, s:{s:O, s:O}}", "metadata", "uid", object_uid(v->node_object),
                     "resourceVersion", object_version(v->node_object), "status", "capacity", names,
                     "allocatable", names);
}

/* --- The reconciler --- */

/* How long the names have been there, kept in memory only: a new process counts anew. */
static int64_t waited_ms(struct context *ctx, const char *node)
{
    int64_t now = clock_mono_ms(ctx->clk);
    if (!strmap_get(ctx->retired_since, node))
        (void)strmap_put(ctx->retired_since, node, (void *)(intptr_t)(now ? now : 1));
    return now - (intptr_t)strmap_get(ctx->retired_since, node);
}

static int remove_names(struct context *ctx, struct scope *s, const struct object_key *k,
                        const json_t *patch, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes,
                                     .name = k->name,
                                     .subresource = "status"};
    const struct kc_write write = {.body = patch, .how = KC_MERGE, .manager = MANAGER_NODE};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "removing retired resources of Node %s", k->name);
    expectations_wrote(ctx->node_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info("Removed retired resources of Node", kv("node", k->name));
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    node_view_look(&ctx->caches, k->name, &v);
    auto_json json_t *patch = retired_patch(&v);
    if (!patch) {
        (void)strmap_remove(ctx->retired_since, k->name);
        if (retired_wait(&v))
            result->requeue_after_ms = KOORDINATOR_RECHECK_MS;
        return 0;
    }
    int64_t waited = waited_ms(ctx, k->name);
    if (waited < RETIRED_AFTER_MS) {
        result->requeue_after_ms = RETIRED_AFTER_MS - waited;
        return 0;
    }
    TRY(remove_names(ctx, s, k, patch, e));
    /* a name that comes back waits the full time again */
    (void)strmap_remove(ctx->retired_since, k->name);
    return 0;
}

struct controller *retired_controller_new(struct context *ctx)
{
    /* One worker, so that only one thread uses retired_since. */
    struct controller *c = controller_new("retired", reconcile, ctx, /* workers= */ 1, ctx->clk);
    controller_await_writes(c, ctx->node_writes);
    controller_watch(c, ctx->nodes, maps_node_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    return c;
}
