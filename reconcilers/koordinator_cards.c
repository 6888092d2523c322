/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/koordinator_cards.h"

#include "base/xalloc.h"

#include "reconcilers/records/shared_parts.h"

static bool is_withdrawn(const struct card_record *c, const struct device_want *want)
{
    return c->draining || c->pending || (want && want->mode != c->mode);
}

/* True for a card that has partitions or slices of a layout, or is about to get slices: Koordinator
 * could not divide what is left. */
static bool is_cut(const struct card_record *c, const struct device_want *want)
{
    return c->n_partitions > 0 || (want && want->sgpu.n_slices > 0);
}

static void fill_card(const struct card_record *c, const struct device_want *want,
                      struct koordinator_card *ret)
{
    *ret = (struct koordinator_card){
        .uuid = c->uuid,
        .vendor = c->vendor,
        .model = c->model,
        .pci_bus_id = c->pci_bus_id,
        .pcie_root = c->pcie_root,
        .index = c->index,
        .minor = c->minor,
        .numa_node = c->numa_node,
        .memory_mib = c->memory_mib,
        .mode = c->mode,
        .cut = is_cut(c, want),
        .withdrawn = is_withdrawn(c, want),
        .healthy = c->healthy,
        .reason = c->ill_reason,
        .message = c->ill_message,
        .since_ms = c->ill_since_ms,
        .linked = c->linked,
    };
}

void koordinator_cards_of(const struct node_view *v, const struct device_spec *spec,
                          struct koordinator_cards *ret)
{
    *ret = (struct koordinator_cards){0};
    if (!v->device)
        return;
    const struct device_record *d = v->device;
    ret->items = xcalloc(d->n_cards, sizeof(*ret->items));
    for (size_t i = 0; i < d->n_cards; i++)
        fill_card(&d->cards[i], device_spec_want(spec, d->cards[i].uuid), &ret->items[i]);
    ret->node = (struct koordinator_node){
        .cards = ret->items,
        .n_cards = d->n_cards,
        .preferred_vendor =
            v->node ? records_label(v->node->labels, v->node->n_labels, KOORDINATOR_LABEL_VENDOR)
                    : NULL,
        .drivers = d->drivers,
        .n_drivers = d->n_drivers,
    };
}

void koordinator_cards_done(struct koordinator_cards *c)
{
    free(c->items);
    *c = (struct koordinator_cards){0};
}
