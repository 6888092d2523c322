/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/maps.h"

#include <stdlib.h>
#include <string.h>

static bool is_other(const struct object *before, const struct object *after)
{
    return !before || !after || strcmp(object_uid(before), object_uid(after)) != 0;
}

static bool same_state(const struct node_record *a, const struct node_record *b)
{
    return a->tainted == b->tainted && a->ready == b->ready;
}

bool maps_node_changed(const struct object *before, const struct object *after)
{
    return is_other(before, after) || !same_state(object_payload(before), object_payload(after)) ||
           !records_same_labels(object_payload(before), object_payload(after)) ||
           !records_same_resources(object_payload(before), object_payload(after));
}

static bool selects(const struct context *ctx, const struct profile_record *p,
                    const struct object_key *node)
{
    auto_object struct object *o = store_get(ctx->caches.nodes, node);
    const struct node_record *n = o ? object_payload(o) : NULL;
    return n && label_selector_matches(&p->spec.node_selector, n->labels, n->n_labels);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(object_name(*(struct object *const *)a), object_name(*(struct object *const *)b));
}

/* In the order of their names, so that the rollout's tickets go out in an order that a person can
 * foresee, and that kubectl/cluster_plan.h foretells. */
void maps_profile_to_nodes(void *self, const struct object *profile, struct wq *out)
{
    const struct context *ctx = self;
    const struct profile_record *p = object_payload(profile);
    auto_object_list struct object_list devices = {0};
    if (p->spec_error)
        return;
    store_list(ctx->caches.devices, &devices);
    if (devices.count)
        qsort(devices.items, devices.count, sizeof(*devices.items), by_name);
    for (size_t i = 0; i < devices.count; i++) {
        const struct object_key key = object_key(devices.items[i]);
        if (selects(ctx, p, &key))
            wq_add(out, &key);
    }
}

static void add_labelled(const struct context *ctx, const char *value, struct wq *out)
{
    auto_object_list struct object_list nodes = {0};
    store_by_index(ctx->caches.nodes, INDEX_MIG_LABEL, value, &nodes);
    for (size_t i = 0; i < nodes.count; i++) {
        const struct object_key key = object_key(nodes.items[i]);
        wq_add(out, &key);
    }
}

void maps_config_to_nodes(void *self, const struct object *config, struct wq *out)
{
    const struct context *ctx = self;
    const struct config_record *c = object_payload(config);
    add_labelled(ctx, object_name(config), out);
    for (size_t i = 0; i < c->spec.n_aliases; i++)
        add_labelled(ctx, c->spec.aliases[i], out);
    auto_object_list struct object_list profiles = {0};
    store_list(ctx->caches.profiles, &profiles);
    for (size_t i = 0; i < profiles.count; i++)
        if (records_profile_names(object_payload(profiles.items[i]), config))
            maps_profile_to_nodes(self, profiles.items[i], out);
}

void maps_to_every_device(void *self, const struct object *obj, struct wq *out)
{
    (void)obj;
    const struct context *ctx = self;
    auto_object_list struct object_list devices = {0};
    store_list(ctx->caches.devices, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct object_key key = object_key(devices.items[i]);
        wq_add(out, &key);
    }
}
