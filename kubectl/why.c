/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/why.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "kubectl/status_card.h"
#include "partition/mig_name.h"
#include "partition/vendor.h"

enum { MAX_REQUEST = 16 };

/* --- Nodes and pods --- */

void why_add_node(struct why *y, const struct pod_wish *wish, const json_t *node)
{
    const char *name = JX_STR_AT(node, "metadata", "name");
    const char *amount = JX_STR_AT(node, "status", "allocatable", y->resource);
    if (!name)
        return;
    struct why_node *n = XPUSH(y->nodes, y->n_nodes);
    n->name = xstrdup(name);
    n->refusal = pod_wish_refusal(wish, node);
    if (amount && (quantity_parse(amount, &n->offered, NULL) < 0 || n->offered < 0))
        n->offered = 0;
}

static struct why_node *node_of(struct why *y, const char *name)
{
    for (size_t i = 0; name && i < y->n_nodes; i++)
        if (strcmp(y->nodes[i].name, name) == 0)
            return &y->nodes[i];
    return NULL;
}

static bool has_ended(const json_t *pod)
{
    const char *phase = JX_STR_AT(pod, "status", "phase");
    return phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
}

void why_add_pod(struct why *y, const json_t *pod)
{
    const char *ns = JX_STR_AT(pod, "metadata", "namespace");
    const char *name = JX_STR_AT(pod, "metadata", "name");
    struct why_node *n = node_of(y, JX_STR_AT(pod, "spec", "nodeName"));
    struct pod_wish wish;
    if (!n || has_ended(pod))
        return;
    pod_wish_read(pod, &wish);
    int64_t has = pod_wish_of(&wish, y->resource);
    if (has == 0)
        return;
    n->taken = pod_wish_sum(n->taken, has);
    *XPUSH(n->holders, n->n_holders) = xasprintf("%s/%s", ns ? ns : "", name ? name : "");
}

/* --- The smallest change --- */

/* The partition that the resource means ("nvidia.com/mig-1g.10gb"). buf: MIG_NAME_BYTES. */
static bool partition_of(const char *resource, char *buf)
{
    struct mig_name name;
    for (const struct vendor *v = vendors; v->name; v++) {
        size_t len = v->part ? strlen(v->part) : 0;
        if (!len || strncmp(resource, v->part, len) != 0 ||
            mig_name_parse_label(resource + len, &name, NULL) < 0)
            continue;
        (void)mig_name_format(&name, buf);
        return true;
    }
    return false;
}

static bool is_whole_card(const char *resource, const char *vendor)
{
    const struct vendor *v = vendor ? vendor_find(vendor) : NULL;
    return v && strcmp(resource, v->card) == 0;
}

static void take_fix(struct why_fix *to, const char *node, const struct device_card *card,
                     const struct device_want *want, struct layout_fix *layout_take)
{
    if (to->evident && !layout_fix_is_less(layout_take, &to->layout)) {
        layout_fix_done(layout_take);
        return;
    }
    layout_fix_done(&to->layout);
    to->evident = true;
    to->layout = *layout_take;
    xstr_set(&to->node, node);
    free(to->card);
    to->card = status_card_title(card->vendor, card->index);
    xstr_set(&to->source, want && want->has_source ? want->source.name : NULL);
}

static void try_card(struct why *y, const char *node, const struct device_status *st,
                     const struct device_card *card, const struct device_want *want)
{
    char profile[MIG_NAME_BYTES];
    struct layout_fix layout;
    bool part = partition_of(y->resource, profile);
    if (!part && (y->count != 1 || !is_whole_card(y->resource, card->vendor)))
        return;
    auto_free struct mig_table *t = status_card_table(st, card);
    if (t && layout_fix_find(card, t, part ? profile : NULL, (unsigned)y->count, &layout))
        take_fix(&y->fix, node, card, want, &layout);
}

void why_add_device(struct why *y, const char *node, const struct device_status *st,
                    const struct device_spec *spec)
{
    const struct why_node *n = node_of(y, node);
    if (!n || n->refusal || y->count > MAX_REQUEST)
        return;
    y->n_tried += st->n_devices;
    for (size_t i = 0; i < st->n_devices; i++)
        try_card(y, node, st, &st->devices[i], device_spec_want(spec, st->devices[i].uuid));
}

bool why_has_room(const struct why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++)
        if (!y->nodes[i].refusal && y->nodes[i].offered - y->nodes[i].taken >= y->count)
            return true;
    return false;
}

void why_done(struct why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++) {
        struct why_node *n = &y->nodes[i];
        for (size_t k = 0; k < n->n_holders; k++)
            free(n->holders[k]);
        free(n->holders);
        free(n->name);
        free(n->refusal);
    }
    free(y->nodes);
    free(y->fix.node);
    free(y->fix.card);
    free(y->fix.source);
    layout_fix_done(&y->fix.layout);
    *y = (struct why){0};
}
