/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"

/*
 * Checks the library's values before they are used (mxsml_sound.c does for MetaX). Impossible
 * values on which others rely are refused, and the card is then unread: names, the MIG table,
 * instances. The rest is cut to what fits.
 */

/* Linux counts minor numbers in 20 bits. */
#define MAX_MINOR (1U << 20)

int nvml_sound_uuid(unsigned index, char uuid[NVML_UUID_BYTES], struct err *e)
{
    uuid[NVML_UUID_BYTES - 1] = '\0';
    if (sound_is_name(uuid))
        return 0;
    return err_set(e, ERR_PROTOCOL, "the driver gives card %u the UUID \"%s\"", index, uuid);
}

int nvml_sound_bus_id(const char *bus_id, struct err *e)
{
    if (sound_is_bus_id(bus_id))
        return 0;
    return err_set(e, ERR_PROTOCOL, "the driver gives the card the PCI address \"%s\"", bus_id);
}

int nvml_sound_memory(uint64_t mib, struct err *e)
{
    if (mib <= MIG_MAX_MEMORY_MIB)
        return 0;
    return err_set(e, ERR_PROTOCOL, "the driver gives the card %llu MiB of memory",
                   (unsigned long long)mib);
}

unsigned nvml_sound_minor(unsigned minor)
{
    return minor < MAX_MINOR ? minor : UINT_MAX;
}

int nvml_sound_instance(const struct gpu_card *c, const struct nvml_gi_info *gi, struct err *e)
{
    const struct nvml_placement *at = &gi->placement;
    for (unsigned i = 0; i < c->state.n; i++)
        if (c->state.items[i].gi_id == gi->id)
            return err_set(e, ERR_PROTOCOL, "the driver lists GPU instance %u twice", gi->id);
    if (gi->id > INT_MAX)
        return err_set(e, ERR_PROTOCOL, "the driver gives a GPU instance the id %u", gi->id);
    if (at->size == 0 || at->size > MIG_MAX_MEMORY_SLICES ||
        at->start > MIG_MAX_MEMORY_SLICES - at->size)
        return err_set(e, ERR_PROTOCOL, "the driver gives GPU instance %u the placement %u:%u",
                       gi->id, at->start, at->size);
    return 0;
}

int nvml_sound_ci(const struct mig_instance *in, const struct nvml_ci_info *ci, struct err *e)
{
    for (unsigned i = 0; i < in->n_cis; i++)
        if (in->cis[i].id == ci->id)
            return err_set(e, ERR_PROTOCOL,
                           "the driver lists compute instance %u of GPU instance %u twice", ci->id,
                           in->gi_id);
    if (ci->id > INT_MAX)
        return err_set(e, ERR_PROTOCOL, "the driver gives a compute instance the id %u", ci->id);
    return 0;
}

void nvml_sound_partition(const struct gpu_card *c, struct gpu_partition *p)
{
    SOUND_END(p->uuid);
    bool sound = sound_is_part_name(p->uuid) && strcmp(p->uuid, c->uuid) != 0;
    for (unsigned i = 0; i < c->n_partitions && sound; i++)
        sound = strcmp(c->partitions[i].uuid, p->uuid) != 0;
    if (!sound)
        p->uuid[0] = '\0';
    if (p->ci_start < 0 || p->ci_start >= MIG_MAX_SLICES)
        p->ci_start = -1;
    if (p->multiprocessors > INT_MAX)
        p->multiprocessors = 0;
}

int nvml_sound_ci_slices(unsigned slices, struct err *e)
{
    if (slices >= 1 && slices <= MIG_MAX_SLICES)
        return 0;
    return err_set(e, ERR_PROTOCOL, "the driver reports compute instances of %u slices", slices);
}

int nvml_sound_count(const char *of, unsigned count, unsigned room, struct err *e)
{
    if (count <= room)
        return 0;
    return err_set(e, ERR_PROTOCOL, "the driver reports %u %s where %u have room", count, of, room);
}
