/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/mps_units.h"

#include <stdlib.h>

#include "base/xalloc.h"

const char *mps_units_name(const struct table_device *d)
{
    return d->entry.cdi_name;
}

static void add_unit(struct mps_units *u, const char *name, const char *uuid, uint64_t memory_mib,
                     int64_t replicas)
{
    struct mps_device *device = xmalloc(sizeof(*device));
    *device = (struct mps_device){uuid, memory_mib};
    *XPUSH(u->devices, u->n_devices) = device;
    *XPUSH(u->items, u->n) = (struct mps_unit){.name = name,
                                               .devices = device,
                                               .n_devices = 1,
                                               .replicas = (unsigned)replicas};
}

/* The daemon gives all of the card: a client's part is in its own environment. */
static void add_cards(struct mps_units *u, const struct mps_cards *cards, const struct seals *seals)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct mps_card *c = &cards->items[i];
        if (!seals_find(seals, c->uuid))
            add_unit(u, c->uuid, c->uuid, c->memory_mib, /* replicas= */ 1);
    }
}

struct mps_units mps_units_of(const struct device_table *table, const struct mps_cards *cards,
                              const struct seals *seals)
{
    struct mps_units u = {0};
    for (size_t i = 0; i < table->n_resources; i++) {
        const struct table_resource *r = &table->resources[i];
        for (size_t p = 0; p < r->n_devices; p++)
            if (r->devices[p].mps && !seals_have(seals, r->devices[p].id))
                add_unit(&u, mps_units_name(&r->devices[p]), r->devices[p].entry.uuid,
                         r->devices[p].memory_mib, r->devices[p].replicas);
    }
    add_cards(&u, cards, seals);
    return u;
}

void mps_units_done(struct mps_units *u)
{
    for (size_t i = 0; i < u->n_devices; i++)
        free(u->devices[i]);
    free(u->devices);
    free(u->items);
}
