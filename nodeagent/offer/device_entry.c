/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_entry.h"

#include <limits.h>
#include <stdio.h>

#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/mode/card_mode.h"
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
    card_mode_of(card->mode)->set_entry(card, p, ret);
    free(ret->cdi_name);
    ret->cdi_name = cdi_name_take;
}

void device_share_entry(const struct gpu_card *card, unsigned slot, const struct sgpu_quota *quota,
                        struct entry_device *ret)
{
    char name[SLOT_WORD_BYTES];
    *ret = device_card_entry(card);
    ret->cdi_name = xstrdup(slot_name(slot, name));
    ret->has_slice = true;
    ret->slice = (struct entry_slice){.id = slot_number(slot),
                                      .minor = UINT_MAX,
                                      .memory_mib = quota->memory_mib,
                                      .card_mib = card->memory_mib,
                                      .compute_percent = quota->compute_percent};
    (void)snprintf(ret->slice.alias, sizeof(ret->slice.alias), "%s", ret->cdi_name);
}

int device_check_nodes(const struct device_nodes *nodes, const struct gpu_card *card, struct err *e)
{
    auto_device_paths struct device_paths list = {0};
    const struct container_vendor *v = container_vendor_find(card->vendor);
    struct entry_device d = device_card_entry(card);
    d.cdi_name = entry_cdi_name(card->uuid, /* profile= */ NULL, 0, -1);
    int rc = nodes && v ? v->paths_of(nodes, &d, &list, e) : 0;
    entry_device_done(&d);
    return rc;
}
