/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_id.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

static const struct mig_instance *instance_of(const struct gpu_card *card,
                                              const struct gpu_partition *p)
{
    return &card->state.items[p->instance];
}

int device_ci_start(const struct gpu_card *card, const struct gpu_partition *p)
{
    const struct mig_instance *inst = instance_of(card, p);
    if (inst->cis[p->ci].slices == card->mig.profiles[inst->profile].slices)
        return -1;
    return p->ci_start >= 0 ? p->ci_start : (int)p->ci_id;
}

#define SLOT_ID "sgpu@"

char *device_slot_id(unsigned slot, char *buf)
{
    (void)snprintf(buf, DEVICE_ID_BYTES, SLOT_ID "%u", slot);
    return buf;
}

int device_slot_of(const char *id)
{
    int64_t slot = -1;
    bool is_one = strncmp(id, SLOT_ID, strlen(SLOT_ID)) == 0 &&
                  num_parse(id + strlen(SLOT_ID), 0, SGPU_MAX_SLOTS - 1, &slot, NULL) == 0;
    return is_one ? (int)slot : -1;
}

static char *slice_id(const struct gpu_card *card, const struct sgpu_slice *s, char *buf)
{
    int slot = sgpu_slot_of(s->alias);
    if (slot >= 0)
        return device_slot_id((unsigned)slot, buf);
    (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s", card->uuid, s->alias);
    return buf;
}

char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    char profile[MIG_NAME_BYTES];
    if (p && p->slice)
        return slice_id(card, p->slice, buf);
    if (p && p->vf)
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/" CARD_PART_VF "@%u", card->uuid, p->vf->number);
    else if (!p || !card_part_kind(card, p, profile))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s", card->uuid);
    else if (device_ci_start(card, p->mig) >= 0)
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u.%u", card->uuid, profile,
                       instance_of(card, p->mig)->start, (unsigned)device_ci_start(card, p->mig));
    else
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u", card->uuid, profile,
                       instance_of(card, p->mig)->start);
    return buf;
}

size_t device_id_base(const char *id)
{
    const char *replica = strstr(id, "::");
    return replica ? (size_t)(replica - id) : strlen(id);
}
