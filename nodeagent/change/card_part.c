/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_part.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert(MIG_NAME_BYTES >= SGPU_ALIAS_BYTES, "a buffer for a name takes both");

unsigned card_parts(const struct gpu_card *card)
{
    if (card->mode == GPU_VGPU)
        return card->n_vfs;
    return card->mode == GPU_SGPU ? card->sgpu.n : card->n_partitions;
}

struct card_part card_part_at(const struct gpu_card *card, unsigned i)
{
    if (card->mode == GPU_VGPU)
        return (struct card_part){.vf = &card->vfs[i]};
    if (card->mode == GPU_SGPU)
        return (struct card_part){.slice = &card->sgpu.items[i], .device = &card->slices[i]};
    return (struct card_part){.mig = &card->partitions[i]};
}

bool card_part_kind(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    if (p->vf) {
        memcpy(buf, CARD_PART_VF, sizeof(CARD_PART_VF));
        return true;
    }
    if (p->slice) {
        sgpu_kind_of(p->slice->alias, buf);
        return *buf && !p->slice->foreign && sgpu_slot_of(p->slice->alias) < 0;
    }
    const struct mig_instance *inst = &card->state.items[p->mig->instance];
    if (inst->profile == MIG_NO_PROFILE)
        return false;
    mig_partition_name(&card->mig.profiles[inst->profile], inst->cis[p->mig->ci].slices, buf);
    return true;
}

void card_part_name(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    bool slot = p->slice && !p->slice->foreign && sgpu_slot_of(p->slice->alias) >= 0;
    if (!card_part_kind(card, p, buf))
        (void)snprintf(buf, MIG_NAME_BYTES, slot ? "sgpu" : "unknown");
}

bool card_part_is_used_by(const struct card_part *p, const struct gpu_process *by)
{
    if (p->slice)
        return by->gi_id == (int)p->slice->id;
    if (p->vf)
        return by->gi_id == (int)p->vf->number;
    return by->gi_id == (int)p->mig->gi_id && (by->ci_id < 0 || by->ci_id == (int)p->mig->ci_id);
}

bool card_part_is_good(const struct card_part *p)
{
    if (p->vf)
        return p->vf->healthy;
    return p->slice ? p->device->healthy && !p->slice->foreign : p->mig->healthy;
}
