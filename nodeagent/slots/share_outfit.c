/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_outfit.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/slots/share_folder.h"

#define BYTES_OF_MIB ((uint64_t)1 << 20)

static bool is_held(const struct bound_slot *g)
{
    return g->memory_level == API_LEVEL_LIBRARY || g->compute_level == API_LEVEL_LIBRARY;
}

/* True where one of the shares is to be held to its size. The others are whole cards. */
static bool is_limited(const struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (is_held(&b->bound[i]))
            return true;
    return false;
}

int share_outfit_check(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    if (!is_limited(b) || !d->cdi)
        return 0;
    if (!d->limiter || !d->share_folders)
        return err_set(e, ERR_UNAVAILABLE,
                       "the share was made with limits, and the limiter is not installed on this "
                       "node: run an agent that has it, or delete the pod");
    if (!cdi_can_limit(b->entries[0].vendor, d->files))
        return err_set(e, ERR_UNAVAILABLE,
                       "the driver's libraries that are to be limited were not found (the agent's "
                       "log has more)");
    return 0;
}

/* --- The folder --- */

static unsigned lowest_slot(const struct slot_binding *b)
{
    unsigned lowest = b->bound[0].slot;
    for (size_t i = 1; i < b->n; i++)
        if (b->bound[i].slot < lowest)
            lowest = b->bound[i].slot;
    return lowest;
}

static int put_folder(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    auto_free struct share_limit *limits = xcalloc(b->n, sizeof(*limits));
    for (size_t i = 0; i < b->n; i++) {
        const struct bound_slot *g = &b->bound[i];
        bool memory = g->memory_level == API_LEVEL_LIBRARY;
        bool compute = g->compute_level == API_LEVEL_LIBRARY;
        limits[i] = (struct share_limit){.memory_bytes = memory ? g->quota.memory_mib * BYTES_OF_MIB
                                                                : UINT64_MAX,
                                         .percent = g->quota.compute_percent,
                                         .is_capped = g->is_capped,
                                         .memory_level = memory ? LEVEL_LIBRARY : LEVEL_NONE,
                                         .compute_level = compute ? LEVEL_LIBRARY : LEVEL_NONE};
        memcpy(limits[i].card, g->card, sizeof(limits[i].card));
    }
    return share_folders_put(d->share_folders, lowest_slot(b), limits, b->n, e);
}

/* The file lies in the folder, and is mounted behind it. */
static void add_mounts(const struct slot_deps *d, const struct slot_binding *b,
                       struct share_outfit *o)
{
    char *folder = share_folders_path(d->share_folders, lowest_slot(b));
    o->mounts[0] = (struct entry_mount){xstrdup(REGION_FOLDER), folder, .read_only = true};
    o->mounts[1] = (struct entry_mount){xstrdup(REGION_FOLDER "/" REGION_USAGE),
                                        xasprintf("%s/" REGION_USAGE, folder), .read_only = false};
    o->cdi.mounts = o->mounts;
    o->cdi.n_mounts = ARRAY_LEN(o->mounts);
}

int share_outfit_make(const struct slot_deps *d, const struct slot_binding *b,
                      struct share_outfit *ret, struct err *e)
{
    *ret = (struct share_outfit){.cdi.files = d->files};
    if (!is_limited(b) || !d->cdi)
        return 0;
    TRY(put_folder(d, b, e));
    ret->cdi.limiter = d->limiter;
    add_mounts(d, b, ret);
    return 0;
}

void share_outfit_done(struct share_outfit *o)
{
    for (size_t i = 0; i < ARRAY_LEN(o->mounts); i++) {
        free(o->mounts[i].container_path);
        free(o->mounts[i].host_path);
    }
    *o = (struct share_outfit){0};
}

int share_outfit_drop(const struct slot_deps *d, unsigned slot, struct err *e)
{
    return d->share_folders ? share_folders_remove(d->share_folders, slot, e) : 0;
}
