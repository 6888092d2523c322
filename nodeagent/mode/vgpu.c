/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "partition/resolve.h"
#include "partition/resource_names.h"

/* Virtual functions. The node's administrator makes them; whatever their number, existing ones are
 * as wanted. */

#define KIND "vf"

static unsigned count(const struct gpu_card *card)
{
    return card->n_vfs;
}

static struct card_part part_at(const struct gpu_card *card, unsigned i)
{
    const struct gpu_vf *vf = &card->vfs[i];
    return (struct card_part){.vf = vf,
                              .number = (int)vf->number,
                              .ci = -1,
                              .start = vf->number,
                              .memory_mib = vf->memory_mib,
                              .healthy = vf->healthy,
                              .declared = true,
                              .in_use = vf->in_use};
}

static bool kind(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    (void)card;
    (void)p;
    (void)snprintf(buf, MIG_NAME_BYTES, KIND);
    return true;
}

static bool place(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    (void)card;
    (void)snprintf(buf, CARD_PLACE_BYTES, KIND "@%u", p->vf->number);
    return true;
}

static bool resource(const char *vendor, int strategy, bool renamed, const char *of, char *buf)
{
    (void)strategy;
    (void)renamed;
    (void)of;
    const char *name = resource_function_name(vendor);
    return name && snprintf(buf, RESOURCE_NAME_BYTES, "%s", name) < RESOURCE_NAME_BYTES;
}

static void set_entry(const struct gpu_card *card, const struct card_part *p,
                      struct entry_device *d)
{
    d->is_vf = true;
    d->cdi_name = entry_cdi_vf_name(card->uuid, p->vf->number);
    xstr_set(&d->uuid, p->vf->uuid);
    xstr_set(&d->pci_bus_id, p->vf->pci_bus_id);
}

static void show(const struct gpu_card *card, const struct card_part *p,
                 struct device_partition *to)
{
    const struct gpu_vf *vf = p->vf;
    to->uuid = *vf->uuid ? xstrdup(vf->uuid) : xasprintf("%s/" KIND "@%u", card->uuid, vf->number);
    to->has_vf = true;
    to->vf = (struct device_vf){
        .index = vf->number,
        .pci_bus_id = xstrdup(vf->pci_bus_id),
        .memory_mib = (int64_t)vf->memory_mib,
    };
    to->has_unhealthy = !vf->healthy;
    if (!to->has_unhealthy)
        return;
    to->unhealthy.reason = xstrdup("NotAvailable");
    to->unhealthy.message = xstrdup(vf->unhealthy_message);
}

static void describe(const struct gpu_card *card, const struct card_part *p, struct sb *b)
{
    const struct gpu_vf *vf = p->vf;
    (void)card;
    sb_addf(b, "%-14s %s  %llu MiB  %s%s%s", KIND, vf->pci_bus_id,
            (unsigned long long)vf->memory_mib, vf->uuid, vf->healthy ? "" : "  ",
            vf->unhealthy_message);
}

static const struct card_fixed fixed = {.stands = RESOLVE_VFS_STAND,
                                        .stands_why = RESOLVE_VFS_STAND_WHY,
                                        .missing = RESOLVE_VFS_MISSING,
                                        .missing_why = RESOLVE_VFS_MISSING_WHY};

extern const struct card_mode card_mode_vgpu;
const struct card_mode card_mode_vgpu = {
    .word = "virtual functions",
    .bare = "nothing cut",
    .summary = "empty",
    .fixed = &fixed,
    .count = count,
    .part_at = part_at,
    .kind = kind,
    .place = place,
    .resource = resource,
    .set_entry = set_entry,
    .show = show,
    .describe = describe,
};
