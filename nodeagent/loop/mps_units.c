/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/mps_units.h"

#include <stdlib.h>

#include "base/xalloc.h"

const char *mps_units_name(const struct table_device *d)
{
    return d->entry.cdi_name;
}

static void add_unit(struct mps_units *u, const struct table_device *d)
{
    struct mps_device *device = xmalloc(sizeof(*device));
    *device = (struct mps_device){d->entry.uuid, d->memory_mib};
    *XPUSH(u->devices, u->n_devices) = device;
    *XPUSH(u->items, u->n) = (struct mps_unit){.name = mps_units_name(d),
                                               .devices = device,
                                               .n_devices = 1,
                                               .replicas = (unsigned)d->replicas};
}

struct mps_units mps_units_of(const struct device_table *table, const struct seals *seals)
{
    struct mps_units u = {0};
    for (size_t i = 0; i < table->n_resources; i++) {
        const struct table_resource *r = &table->resources[i];
        for (size_t p = 0; p < r->n_devices; p++)
            if (r->devices[p].mps && !seals_have(seals, r->devices[p].id))
                add_unit(&u, &r->devices[p]);
    }
    return u;
}

void mps_units_done(struct mps_units *u)
{
    for (size_t i = 0; i < u->n_devices; i++)
        free(u->devices[i]);
    free(u->devices);
    free(u->items);
}
