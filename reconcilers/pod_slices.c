/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/pod_slices.h"

#include <string.h>

#include "base/xalloc.h"

#include "interop/metax_cards.h"
#include "partition/vendor.h"

/* The vendor whose annotation this is. */
#define VENDOR "metax"

static bool becomes_sliced(const struct device_want *want)
{
    return want && want->mode == API_MODE_SGPU && want->sgpu.n_slices == 0;
}

/* A card with slices of a layout has nothing left for slices of pods. */
static bool is_sliced(const struct card_record *c)
{
    const struct vendor *v = vendor_find(c->vendor);
    return v && v->slice && c->mode == API_MODE_SGPU && c->n_partitions == 0;
}

/* True for a card that makes slices for its pods, unless an order changes that. */
static bool stays_sliced(const struct card_record *c, const struct device_want *want)
{
    return is_sliced(c) && !c->draining && !c->pending && (!want || becomes_sliced(want));
}

static bool has_other_publisher(const struct device_record *device)
{
    for (size_t i = 0; i < device->n_resources; i++)
        if (device->resources[i].publisher == API_PUBLISHER_OTHER)
            return true;
    return false;
}

bool pod_slices_are_ours(const struct device_record *device)
{
    if (has_other_publisher(device))
        return false;
    for (size_t i = 0; i < device->n_cards; i++)
        if (is_sliced(&device->cards[i]) ||
            becomes_sliced(device_spec_want(&device->spec, device->cards[i].uuid)))
            return true;
    return false;
}

static struct metax_card metax_card_of(const struct card_record *c, const struct device_want *want)
{
    return (struct metax_card){
        .uuid = c->uuid,
        .pci_bus_id = c->pci_bus_id,
        .model = c->model,
        .index = c->index,
        .numa_node = c->numa_node,
        .memory_mib = c->memory_mib,
        .linked = c->linked,
        .slices = c->sgpu,
        .shown = is_sliced(c),
        .healthy = c->healthy && stays_sliced(c, want),
    };
}

char *pod_slices_text(const struct device_record *device)
{
    size_t n = 0;
    auto_free struct metax_card *cards = xcalloc(device->n_cards, sizeof(*cards));
    if (has_other_publisher(device))
        return NULL;
    for (size_t i = 0; i < device->n_cards; i++)
        if (strcmp(device->cards[i].vendor, VENDOR) == 0)
            cards[n++] = metax_card_of(&device->cards[i],
                                       device_spec_want(&device->spec, device->cards[i].uuid));
    return metax_cards_text(cards, n);
}
