/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_cards.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/text.h"

#include "interop/metax_cards.h"
#include "reconcilers/node_view.h"
#include "reconcilers/pod_slices.h"
#include "service/resources.h"

/* While the agent's status cannot be read, the annotation stays as it is. */
static bool is_unknown(const struct node_view *v)
{
    return v->device && (!v->device->has_status || v->device->status_error);
}

static bool is_annotation_current(const struct node_record *node, const char *text)
{
    if (!text)
        return !node->owns_cards;
    return node->owns_cards && node->cards && strcmp(node->cards, text) == 0;
}

static int apply(struct context *ctx, struct scope *s, const struct object_key *k,
                 const struct node_view *v, const char *text, struct err *e)
{
    const struct kc_target target = {.res = &resource_nodes,
                                     .name = k->name,
                                     .subresource = "status"};
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:{}}}", "apiVersion", "v1", "kind", "Node",
                  "metadata", "name", k->name, "uid", object_uid(v->node_object), "resourceVersion",
                  object_version(v->node_object), "annotations");
    assert(body);
    if (text)
        (void)json_object_set_new(json_object_get(json_object_get(body, "metadata"), "annotations"),
                                  METAX_CARDS_ANNOTATION, json_string(text));
    const struct kc_write write = {.body = body,
                                   .how = KC_APPLY,
                                   .manager = MANAGER_NODE_CARDS,
                                   .force = true};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "publishing the cards of Node %s to HAMi", k->name);
    expectations_wrote(ctx->node_writes, k, ctx->caches.nodes,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    log_info(text ? "Published the cards of Node to HAMi"
                  : "Removed the cards of Node that HAMi saw",
             kv("node", k->name));
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    (void)result;
    node_view_look(&ctx->caches, k->name, &v);
    if (!v.node || is_unknown(&v))
        return 0;
    auto_free char *text = v.device ? pod_slices_text(v.device) : NULL;
    return is_annotation_current(v.node, text) ? 0 : apply(ctx, s, k, &v, text, e);
}

static bool annotation_changed(const struct object *before, const struct object *after)
{
    if (!before || !after || strcmp(object_uid(before), object_uid(after)) != 0)
        return true;
    const struct node_record *was = object_payload(before);
    const struct node_record *is = object_payload(after);
    return was->owns_cards != is->owns_cards || !text_same(was->cards, is->cards);
}

struct controller *node_cards_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("cards", reconcile, ctx, ctx->workers, ctx->clk);
    controller_await_writes(c, ctx->node_writes);
    controller_watch(c, ctx->nodes, annotation_changed, /* map= */ NULL);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    return c;
}
