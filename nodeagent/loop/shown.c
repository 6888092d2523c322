/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/shown.h"

#include <assert.h>

#include "base/xalloc.h"

/* A resource's devices with all their replicas. */
struct expanded {
    struct plugin_device *devices;
    struct preferred_device *slots;
    char **ids;
    size_t n;
    bool shared, mps, whole;
};

static struct expanded expand(const struct table_resource *r, const struct shown_rules *rules)
{
    struct expanded x = {.whole = true};
    assert(r->n_devices <= UINT16_MAX);
    size_t n_ids = 0;
    size_t n_slots = 0;
    for (size_t i = 0; i < r->n_devices; i++) {
        const struct table_device *d = &r->devices[i];
        bool healthy = d->healthy && rules->can_be_given(rules->arg, d);
        for (int64_t replica = 0; replica < d->replicas; replica++) {
            char *id = d->replicas == 1 ? xstrdup(d->id)
                                        : xasprintf("%s::%lld", d->id, (long long)replica);
            *XPUSH(x.ids, n_ids) = id;
            *XPUSH(x.slots, n_slots) = (struct preferred_device){id, d->card_index, (uint16_t)i};
            *XPUSH(x.devices, x.n) = (struct plugin_device){id, healthy, d->numa};
        }
        x.shared |= d->replicas > 1;
        x.mps |= d->mps;
        x.whole &= !d->entry.mig && !d->entry.has_slice && !d->entry.is_slot && !d->entry.is_vf;
    }
    return x;
}

static void expanded_done(struct expanded *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->ids[i]);
    free(x->ids);
    free(x->slots);
    free(x->devices);
}

/* Partitions are packed, so that cards stay free for others. MPS replicas are packed, because a
 * container can have those of one device only. */
static struct preferred *preferred_of(const struct expanded *x, const struct shown_rules *rules)
{
    enum preferred_policy shared = rules->pack_shared ? PREFERRED_PACKED : PREFERRED_DISTRIBUTED;
    const struct preferred_offer offer = {
        .policy = x->mps      ? PREFERRED_PACKED
                  : x->shared ? shared
                  : x->whole  ? PREFERRED_CARDS
                              : PREFERRED_PACKED,
        .devices = x->slots,
        .n = x->n,
        .scores = rules->scores,
    };
    return preferred_new(&offer);
}

void shown_set(struct shown *s, const struct device_table *t, const struct shown_rules *rules,
               struct device_plugin *plugin)
{
    shown_done(s);
    s->n = t->n_resources;
    s->preferred = xcalloc(s->n, sizeof(struct preferred *));
    auto_free struct expanded *expanded = xcalloc(s->n, sizeof(*expanded));
    auto_free struct plugin_resource *list = xcalloc(s->n, sizeof(*list));
    for (size_t i = 0; i < s->n; i++) {
        expanded[i] = expand(&t->resources[i], rules);
        s->preferred[i] = preferred_of(&expanded[i], rules);
        list[i] =
            (struct plugin_resource){t->resources[i].name, expanded[i].devices, expanded[i].n};
    }
    device_plugin_set(plugin, list, s->n);
    for (size_t i = 0; i < s->n; i++)
        expanded_done(&expanded[i]);
}

const struct preferred *shown_preferred(const struct shown *s, size_t resource)
{
    assert(resource < s->n); /* the table was shown since it was taken */
    return s->preferred[resource];
}

void shown_done(struct shown *s)
{
    for (size_t i = 0; i < s->n; i++)
        (void)preferred_free(s->preferred[i]);
    free(s->preferred);
    *s = (struct shown){0};
}
