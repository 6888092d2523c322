/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_entry.h"

#include <stdio.h>

#include "base/xalloc.h"

#include "nodeagent/vendor/container_vendors.h"

struct entry_device device_card_entry(const struct gpu_card *card)
{
    return (struct entry_device){
        .vendor = card->vendor,
        .uuid = xstrdup(card->uuid),
        .card_uuid = xstrdup(card->uuid),
        .pci_bus_id = xstrdup(card->pci_bus_id),
        .index = card->index,
        .minor = card->minor,
    };
}

void device_slice_entry(const struct gpu_card *card, const struct card_part *p, char *cdi_name_take,
                        struct entry_device *ret)
{
    *ret = device_card_entry(card);
    ret->cdi_name = cdi_name_take;
    if (*p->device->uuid)
        xstr_set(&ret->uuid, p->device->uuid);
    ret->has_slice = true;
    ret->slice = (struct entry_slice){.id = p->slice->id,
                                      .minor = p->device->minor,
                                      .memory_mib = p->slice->quota.memory_mib,
                                      .compute_percent = p->slice->quota.compute_percent};
    (void)snprintf(ret->slice.alias, sizeof(ret->slice.alias), "%s", p->device->alias);
}

int device_check_nodes(const struct container_nodes *nodes, const struct gpu_card *card,
                       struct err *e)
{
    auto_node_list struct node_list list = {0};
    const struct container_vendor *v = container_vendor_find(card->vendor);
    struct entry_device d = device_card_entry(card);
    d.cdi_name = entry_cdi_name(card->uuid, /* profile= */ NULL, 0, -1);
    int rc = nodes && v ? v->device_nodes(nodes, &d, &list, e) : 0;
    entry_device_done(&d);
    return rc;
}
