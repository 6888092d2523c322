/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/metax/mxsml.h"

/*
 * Checks the library's values before they are used. Impossible values on which others rely are
 * refused: names of files, objects and other cards; quotas that are summed up; switches with a
 * third state. The rest is cut to what fits.
 */

int mxsml_sound_info(unsigned index, struct mxsml_info *info, struct err *e)
{
    info->device_id = index;
    SOUND_END(info->uuid);
    SOUND_END(info->bdf);
    sound_text(info->name, sizeof(info->name));
    if (!sound_is_name(info->uuid))
        return err_set(e, ERR_PROTOCOL, "the library gives card %u the UUID \"%s\"", index,
                       info->uuid);
    if (!sound_is_bus_id(info->bdf))
        return err_set(e, ERR_PROTOCOL, "the library gives card %u the PCI address \"%s\"", index,
                       info->bdf);
    return 0;
}

int mxsml_sound_sharing(unsigned toggle, unsigned sched_class, unsigned timeslice_ms, struct err *e)
{
    if (toggle > 1)
        return err_set(e, ERR_PROTOCOL, "the library says that sGPU is neither on nor off, but %u",
                       toggle);
    if (toggle && sched_class > API_BURST_SHARE)
        return err_set(e, ERR_PROTOCOL, "the library reports scheduling class %u", sched_class);
    if (timeslice_ms > INT_MAX)
        return err_set(e, ERR_PROTOCOL, "the library reports a time slice of %u ms", timeslice_ms);
    return 0;
}

unsigned mxsml_sound_memory(uint64_t mib)
{
    return mib <= MIG_MAX_MEMORY_MIB ? (unsigned)mib : 0;
}

static bool has_uuid(const struct gpu_card *c, const char *uuid)
{
    for (unsigned i = 0; i < c->sgpu.n; i++)
        if (strcmp(c->slices[i].uuid, uuid) == 0)
            return true;
    return false;
}

int mxsml_sound_slice(const struct gpu_card *c, unsigned id, struct mxsml_slice *s, struct err *e)
{
    s->id = id;
    SOUND_END(s->uuid);
    if (!sound_is_name(s->uuid) || has_uuid(c, s->uuid))
        s->uuid[0] = '\0';
    uint64_t memory_mib = c->memory_mib > c->sgpu.memory_mib ? c->memory_mib : c->sgpu.memory_mib;
    if (s->vram_mb > (memory_mib ? memory_mib : MIG_MAX_MEMORY_MIB) || s->compute_percent > 100)
        return err_set(e, ERR_PROTOCOL, "the library gives slice %u %u MiB and %u %% of a card", id,
                       s->vram_mb, s->compute_percent);
    return 0;
}

int mxsml_sound_slice_of(const struct gpu_card *c, int slice_id)
{
    for (unsigned i = 0; i < c->sgpu.n; i++)
        if ((int)c->sgpu.items[i].id == slice_id)
            return slice_id;
    return -1;
}
