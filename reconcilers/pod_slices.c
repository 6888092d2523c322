/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/pod_slices.h"

#include <string.h>

#include "base/xalloc.h"

#include "partition/metax_cards.h"
#include "partition/vendor.h"

/* The vendor whose words these are. */
#define VENDOR "metax"

static bool is_ordered(const struct device_want *want)
{
    return want && want->mode == API_MODE_SGPU && want->sgpu.n_slices == 0;
}

/* Slices of a layout leave nothing to make any of. */
static bool is_sliced(const struct card_record *c)
{
    const struct vendor *v = vendor_find(c->vendor);
    return v && v->slice && c->mode == API_MODE_SGPU && c->n_partitions == 0;
}

/* It is, and no order says otherwise. */
static bool stays_sliced(const struct card_record *c, const struct device_want *want)
{
    return is_sliced(c) && !c->draining && !c->pending && (!want || is_ordered(want));
}

static bool is_left_to_others(const struct device_record *device)
{
    for (size_t i = 0; i < device->n_resources; i++)
        if (device->resources[i].publisher == API_PUBLISHER_OTHER)
            return true;
    return false;
}

bool pod_slices_are_ours(const struct device_record *device)
{
    if (is_left_to_others(device))
        return false;
    for (size_t i = 0; i < device->n_cards; i++)
        if (is_sliced(&device->cards[i]) ||
            is_ordered(device_spec_want(&device->spec, device->cards[i].uuid)))
            return true;
    return false;
}

static struct metax_card see(const struct card_record *c, const struct device_want *want)
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
    if (is_left_to_others(device))
        return NULL;
    for (size_t i = 0; i < device->n_cards; i++)
        if (strcmp(device->cards[i].vendor, VENDOR) == 0)
            cards[n++] =
                see(&device->cards[i], device_spec_want(&device->spec, device->cards[i].uuid));
    return metax_cards_text(cards, n);
}
