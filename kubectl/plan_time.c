/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/plan_time.h"

#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "service/conditions.h"

/* --- One Device --- */

/* When the controller last wrote the spec; -1: not known. */
static int64_t ordered_ms(const json_t *device)
{
    size_t i;
    const json_t *entry;
    int64_t last = -1;
    json_array_foreach(JX_AT(device, "metadata", "managedFields"), i, entry) {
        const char *manager = JX_STR_AT(entry, "manager");
        int64_t at = rfc3339_or(JX_STR_AT(entry, "time"), -1);
        if (manager && strcmp(manager, MANAGER_CONTROLLER) == 0 &&
            JX_AT(entry, "fieldsV1", "f:spec") && at > last)
            last = at;
    }
    return last;
}

/* When the last of its cards was as wanted; -1: not known, or one is not. */
static int64_t applied_ms(const struct device_status *st, int64_t generation)
{
    int64_t last = -1;
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct condition *c = condition_get(&st->devices[i].conditions, "Applied");
        if (!c)
            continue;
        if (c->status != CONDITION_TRUE || c->observed_generation != generation)
            return -1;
        if (c->last_transition_ms > last)
            last = c->last_transition_ms;
    }
    return last;
}

void plan_pace_add(struct plan_pace *p, const json_t *device, const struct device_status *st)
{
    int64_t generation = json_integer_value(JX_AT(device, "metadata", "generation"));
    int64_t from = ordered_ms(device);
    int64_t to = applied_ms(st, generation);
    if (from >= 0 && to >= from)
        *XPUSH(p->seconds, p->n) = (to - from) / 1000;
}

void plan_pace_done(struct plan_pace *p)
{
    free(p->seconds);
    *p = (struct plan_pace){0};
}

/* --- All nodes of a profile --- */

static int by_length(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t at_least_one(int64_t seconds)
{
    return seconds ? seconds : 1;
}

void plan_time_of(struct plan_pace *p, size_t nodes, size_t at_once, struct plan_time *ret)
{
    *ret = (struct plan_time){.samples = p->n};
    if (p->n == 0)
        return;
    qsort(p->seconds, p->n, sizeof(*p->seconds), by_length);
    ret->node_s = at_least_one(p->seconds[p->n / 2]);
    ret->node_most_s = at_least_one(p->seconds[p->n - 1]);
    size_t rounds = at_once ? (nodes + at_once - 1) / at_once : nodes;
    ret->all_s = (int64_t)rounds * ret->node_s;
}

void plan_drains_add(struct plan_drains *d, const struct card_plan_view *c)
{
    if (c->fate != FATE_DRAINS)
        return;
    bool evicts = c->evicts && c->n_users > 0;
    d->waits |= !evicts;
    d->evicts |= evicts;
    for (size_t i = 0; i < c->n_users; i++)
        d->waits |= !plan_user_is_evicted(c, &c->users[i]);
    if (evicts && c->timeout_s > d->most_s)
        d->most_s = c->timeout_s;
}

void plan_time_add(struct plan_time *t, const struct plan_drains *of_a_node)
{
    t->waiting += of_a_node->waits;
    t->evicting += of_a_node->evicts;
    if (of_a_node->most_s > t->evicting_most_s)
        t->evicting_most_s = of_a_node->most_s;
}
