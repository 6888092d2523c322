/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/why.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "kubectl/label_fix.h"

/* The most questions to the planner: half a minute's, whatever the Devices say. */
enum { MAX_PLANS = 100000 };

/* --- Nodes and pods --- */

void why_add_node(struct why *y, const json_t *node, const char *refusal)
{
    const char *name = JX_STR_AT(node, "metadata", "name");
    const char *amount = JX_STR_AT(node, "status", "allocatable", y->resource);
    if (!name)
        return;
    struct why_node *n = XPUSH(y->nodes, y->n_nodes);
    n->name = xstrdup(name);
    n->refusal = xstrdup(refusal);
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

void why_add_pod(struct why *y, const json_t *pod, const struct pod_wish *wish)
{
    const char *ns = JX_STR_AT(pod, "metadata", "namespace");
    const char *name = JX_STR_AT(pod, "metadata", "name");
    int64_t has = pod_wish_of(wish, y->resource);
    if (has == 0 || has_ended(pod))
        return;
    struct why_node *n = node_of(y, JX_STR_AT(pod, "spec", "nodeName"));
    if (!n)
        return;
    n->taken = pod_wish_sum(n->taken, has);
    *XPUSH(n->holders, n->n_holders) = xasprintf("%s/%s", ns ? ns : "", name ? name : "");
}

/* --- The smallest change --- */

void why_init(struct why *y, const char *resource, int64_t count, const struct slot_ask *slots,
              const struct known_names *known)
{
    bool of_slots = strcmp(resource, SLOT_RESOURCE) == 0 && slots->n > 0;
    *y = (struct why){.resource = resource,
                      .count = count,
                      .slots = of_slots ? slots : NULL,
                      .known = known,
                      .effort = FIX_EFFORT(MAX_PLANS)};
}

static int64_t free_of(const struct why_node *n)
{
    return n->taken < n->offered ? n->offered - n->taken : 0;
}

/* Takes the fix if it is the cheapest so far. */
static bool take_fix(struct why *y, const char *node, struct node_fix *fix_take)
{
    if (y->fix_node && !fix_cost_is_less(&fix_take->cost, &y->fix.cost)) {
        node_fix_done(fix_take);
        return false;
    }
    node_fix_done(&y->fix);
    y->fix = *fix_take;
    y->effort.most = y->fix.cost;
    xstr_set(&y->fix_node, node);
    return true;
}

static bool find_fix(struct why *y, int64_t more, const struct device_status *st,
                     const struct device_spec *spec, struct node_fix *ret)
{
    if (y->slots)
        return slot_ask_fix(y->slots, st, spec, more, &y->effort, ret);
    if (more <= NODE_FIX_MAX)
        return node_fix_find(st, spec, y->resource, (unsigned)more, &y->effort, ret);
    y->effort.cut = true;
    return false;
}

void why_add_device(struct why *y, const char *node, const struct device_status *st,
                    const struct device_spec *spec)
{
    struct node_fix fix;
    struct why_node *n = node_of(y, node);
    if (!n)
        return;
    n->has_cards = st->n_devices > 0;
    if (y->slots && n->offered)
        n->misfit = slot_ask_misfit(y->slots, st, spec);
    if (n->refusal || why_node_has_room(y, n) || (!y->slots && !node_fix_can_give(y->resource)))
        return;
    y->n_tried += st->n_devices;
    if (!find_fix(y, y->count - free_of(n), st, spec, &fix) || !take_fix(y, node, &fix))
        return;
    json_decref(y->config);
    y->config = label_fix_config(node, st, spec, &y->fix);
}

bool why_node_has_room(const struct why *y, const struct why_node *n)
{
    return free_of(n) >= y->count && !n->misfit;
}

bool why_has_room(const struct why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++)
        if (!y->nodes[i].refusal && why_node_has_room(y, &y->nodes[i]))
            return true;
    return false;
}

size_t why_left_out(const struct why *y)
{
    size_t n = 0;
    for (size_t i = 0; i < y->n_nodes; i++)
        n += y->nodes[i].has_cards && y->nodes[i].refusal;
    return n;
}

char *why_unknown(const struct why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++)
        if (y->nodes[i].offered)
            return NULL;
    return y->fix_node ? NULL : known_names_refusal(y->known, y->resource);
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
        free(n->misfit);
    }
    free(y->nodes);
    free(y->fix_node);
    node_fix_done(&y->fix);
    json_decref(y->config);
    *y = (struct why){0};
}
