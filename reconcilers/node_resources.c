/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_resources.h"

#include <string.h>

#include "base/log.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "controller/resources.h"
#include "reconcilers/maps.h"

/* --- Pure --- */

json_t *node_resources_wanted(const struct device_record *device)
{
    json_t *wanted = json_object();
    for (size_t i = 0; device && i < device->n_resources; i++) {
        const struct device_resource *r = &device->resources[i];
        if (r->publisher != API_PUBLISHER_CONTROLLER)
            continue;
        auto_free char *count = quantity_format(r->count);
        (void)json_object_set_new(wanted, r->name, json_string(count));
    }
    return wanted;
}

static const struct node_resource *resource_of(const struct node_record *node, const char *name)
{
    for (size_t i = 0; i < node->n_resources; i++)
        if (strcmp(node->resources[i].name, name) == 0)
            return &node->resources[i];
    return NULL;
}

static bool stands(const struct node_record *node, const char *name, const char *text)
{
    int64_t count;
    const struct node_resource *r = resource_of(node, name);
    return r && quantity_parse(text, &count, NULL) == 0 && r->capacity == count &&
           r->allocatable == count;
}

bool node_resources_stand(const struct node_record *node, json_t *wanted)
{
    const char *name;
    json_t *count;
    json_object_foreach(wanted, name, count)
        if (!stands(node, name, json_string_value(count)))
            return false;
    if (node->owned_resources.n != json_object_size(wanted))
        return false;
    for (size_t i = 0; i < node->owned_resources.n; i++)
        if (!json_object_get(wanted, node->owned_resources.items[i]))
            return false;
    return true;
}

/* --- Reconciling --- */

/* Both maps stand in the body even when they are empty: were they left out, server-side apply would
 * remove whole maps, with every entry that no manager owns. A kubelet owns none of those that it
 * registered its Node with (status is not tracked on create; structured-merge-diff merge/update.go,
 * addBackDanglingItems). */
static json_t *body_of(const struct node_view *v, json_t *wanted)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:O, s:O}}", "apiVersion", "v1", "kind", "Node",
                     "metadata", "name", object_name(v->node_object), "uid",
                     object_uid(v->node_object), "status", "capacity", wanted, "allocatable",
                     wanted);
}

static int apply_resources(struct context *ctx, struct scope *s, const struct object_key *k,
                           const json_t *body, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes,
                                     .name = k->name,
                                     .subresource = "status"};
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_NODE_RESOURCES,
                                   .force = true};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "applying the resources of Node %s", k->name);
    expectations_wrote(ctx->resource_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info("Applied resources of Node", kv("node", k->name));
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    if (!expectations_met(ctx->resource_writes, k)) {
        result->requeue_after_ms = EXPECTATIONS_RECHECK_MS;
        return 0;
    }
    node_view_look(&ctx->caches, k->name, &v);
    if (!v.node || (v.device && v.device->status_error))
        return 0;
    auto_json json_t *wanted = node_resources_wanted(v.device);
    if (node_resources_stand(v.node, wanted))
        return 0;
    auto_json json_t *body = body_of(&v, wanted);
    return apply_resources(ctx, s, k, body, e);
}

struct controller *node_resources_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("node-resources", reconcile, ctx, ctx->workers, ctx->clk);
    controller_watch(c, ctx->nodes, maps_resources_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    return c;
}
