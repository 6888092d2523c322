/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_outfit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/container/mps.h"
#include "nodeagent/slots/share_folder.h"

#define BYTES_OF_MIB ((uint64_t)1 << 20)

/* True where nothing but the limiter holds the share. */
static bool needs_limiter(const struct bound_slot *g)
{
    return g->memory_level == API_LEVEL_LIBRARY || g->compute_level == API_LEVEL_LIBRARY;
}

/* A share of the driver's is counted by the limiter, too, where there is one: it tells the container
 * what it has, and keeps a pod's containers from each other's. */
static bool takes_limiter(const struct slot_deps *d, const struct bound_slot *g)
{
    bool is_there = d->limiter && d->share_folders;
    return needs_limiter(g) || (is_there && g->memory_level == API_LEVEL_DRIVER);
}

static bool any_needs_limiter(const struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (needs_limiter(&b->bound[i]))
            return true;
    return false;
}

/* The others are whole cards, or nothing holds them. */
static bool any_takes_limiter(const struct slot_deps *d, const struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (takes_limiter(d, &b->bound[i]))
            return true;
    return false;
}

static bool is_client(const struct bound_slot *g)
{
    return g->compute_level == API_LEVEL_MPS;
}

/* Without its daemon's folder a client would have all of the card. */
static int check_mps(const struct slot_binding *b, struct err *e)
{
    for (size_t i = 0; i < b->n; i++) {
        if (is_client(&b->bound[i]) && b->n > 1)
            return err_set(e, ERR_INVALID,
                           "a container can be a client of one card's MPS daemon, not of several");
        if (is_client(&b->bound[i]) && !b->mps.n_mounts)
            return err_set(e, ERR_UNAVAILABLE, "the card's MPS daemon is not ready");
    }
    return 0;
}

int share_outfit_check(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    TRY(check_mps(b, e));
    if (!any_needs_limiter(b) || !d->cdi)
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

static enum share_level memory_level(int level)
{
    static const enum share_level levels[] = {[API_LEVEL_NONE] = LEVEL_NONE,
                                              [API_LEVEL_LIBRARY] = LEVEL_LIBRARY,
                                              [API_LEVEL_DRIVER] = LEVEL_DRIVER};
    assert(level >= 0 && (size_t)level < ARRAY_LEN(levels));
    return levels[level];
}

static enum share_level compute_level(int level)
{
    static const enum share_level levels[] = {[API_LEVEL_NONE] = LEVEL_NONE,
                                              [API_LEVEL_LIBRARY] = LEVEL_LIBRARY,
                                              [API_LEVEL_MPS] = LEVEL_MPS};
    assert(level >= 0 && (size_t)level < ARRAY_LEN(levels));
    return levels[level];
}

static int put_folder(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    auto_free struct share_limit *limits = xcalloc(b->n, sizeof(*limits));
    for (size_t i = 0; i < b->n; i++) {
        const struct bound_slot *g = &b->bound[i];
        bool memory = g->memory_level != API_LEVEL_NONE;
        limits[i] = (struct share_limit){.memory_bytes = memory ? g->quota.memory_mib * BYTES_OF_MIB
                                                                : UINT64_MAX,
                                         .percent = g->quota.compute_percent,
                                         .is_capped = g->is_capped,
                                         .is_low = g->is_low,
                                         .memory_level = memory_level(g->memory_level),
                                         .compute_level = compute_level(g->compute_level)};
        memcpy(limits[i].card, g->card, sizeof(limits[i].card));
    }
    return share_folders_put(d->share_folders, lowest_slot(b), limits, b->n, e);
}

/* The file lies in the folder, and is mounted behind it. */
static void add_folder(const struct slot_deps *d, const struct slot_binding *b, struct entry *en)
{
    auto_free char *folder = share_folders_path(d->share_folders, lowest_slot(b));
    auto_free char *usage = xasprintf("%s/" REGION_USAGE, folder);
    entry_add_mount(en, REGION_FOLDER, folder, /* read_only= */ true);
    entry_add_mount(en, REGION_FOLDER "/" REGION_USAGE, usage, /* read_only= */ false);
}

static int add_limiter(const struct slot_deps *d, const struct slot_binding *b,
                       struct share_outfit *o, struct err *e)
{
    if (!any_takes_limiter(d, b) || !d->cdi ||
        (!any_needs_limiter(b) && !cdi_can_limit(b->entries[0].vendor, d->files)))
        return 0;
    TRY(put_folder(d, b, e));
    o->cdi.limiter = d->limiter;
    add_folder(d, b, &o->entry);
    return 0;
}

/* --- MPS --- */

/* A container that is a client has this one share. */
static void add_mps(const struct slot_binding *b, struct entry *en)
{
    const struct bound_slot *g = &b->bound[0];
    for (size_t i = 0; i < b->mps.n_envs; i++)
        entry_add_env(en, b->mps.envs[i].key, b->mps.envs[i].value);
    for (size_t i = 0; i < b->mps.n_mounts; i++)
        entry_add_mount(en, b->mps.mounts[i].container_path, b->mps.mounts[i].host_path,
                        b->mps.mounts[i].read_only);
    if (is_client(g) && g->is_capped)
        mps_add_part(en, g->quota.compute_percent, g->quota.memory_mib);
}

int share_outfit_make(const struct slot_deps *d, const struct slot_binding *b,
                      struct share_outfit *ret, struct err *e)
{
    auto_share_outfit struct share_outfit o = {.cdi.files = d->files};
    TRY(add_limiter(d, b, &o, e));
    add_mps(b, &o.entry);
    o.cdi.mounts = o.entry.mounts;
    o.cdi.n_mounts = o.entry.n_mounts;
    o.cdi.envs = o.entry.envs;
    o.cdi.n_envs = o.entry.n_envs;
    *ret = o;
    o = (struct share_outfit){0};
    return 0;
}

void share_outfit_done(struct share_outfit *o)
{
    entry_done(&o->entry);
    *o = (struct share_outfit){0};
}

int share_outfit_drop(const struct slot_deps *d, unsigned slot, struct err *e)
{
    return d->share_folders ? share_folders_remove(d->share_folders, slot, e) : 0;
}
