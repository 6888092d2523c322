/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/cgroup_limits.h"

#include <assert.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/slots/pod_cgroup.h"

#define BYTES_OF_MIB ((uint64_t)1 << 20)

enum { ROUNDED_MIB = 256 };

static bool is_reason(const struct err *e, const char *reason)
{
    return e->reason && strcmp(e->reason, reason) == 0;
}

static int set(struct gpu *g, const char *card, const char *cgroup, uint64_t bytes, struct err *e)
{
    if (!g->ops->limit_set)
        return err_set(e, ERR_INVALID, "this vendor's cards have no limits of memory");
    return g->ops->limit_set(g, card, cgroup, bytes, e);
}

static int get(struct gpu *g, const char *card, const char *cgroup, struct gpu_limit *ret,
               struct err *e)
{
    if (!g->ops->limit_get)
        return err_set(e, ERR_INVALID, "this vendor's cards have no limits of memory");
    return g->ops->limit_get(g, card, cgroup, ret, e);
}

/* --- Whether there are limits --- */

#define REMEDY "write library, auto or none as enforcement.memory"

static void learn(struct driver_limits *ret, const char *driver, const char *lacks)
{
    ret->known = true;
    ret->can = !lacks;
    ret->lacks = lacks;
    (void)snprintf(ret->driver, sizeof(ret->driver), "%s", driver);
}

/* What an error says for good; NULL: nothing. */
static const char *lack_of(const struct err *e)
{
    if (is_reason(e, GPU_LIMITS_UNSUPPORTED))
        return "the driver on this node has no limits of memory for control groups (NVIDIA's has "
               "them from 615 on, unless they were switched off): " REMEDY;
    if (is_reason(e, GPU_CGROUP_NOT_FOUND))
        return "the control groups of pods on this node lack the kernel's controller dmem, by "
               "which the driver limits memory: " REMEDY;
    if (e->kind == ERR_FORBIDDEN)
        return "the driver does not let the agent set limits of memory: " REMEDY;
    return NULL;
}

/* Where nothing is set, clearing shows whether something could be. */
static int try(struct gpu *g, const char *card, const char *cgroup, struct err *e)
{
    auto_err struct err why = {0};
    struct gpu_limit limit = {0};
    int rc = get(g, card, cgroup, &limit, &why);
    if (rc == 0 && (limit.hard_bytes != GPU_NO_LIMIT || limit.soft_bytes))
        return 0;
    if (rc < 0 && !is_reason(&why, GPU_LIMITS_UNSUPPORTED))
        return err_move(e, &why);
    return set(g, card, cgroup, GPU_NO_LIMIT, e);
}

void cgroup_limits_probe(struct gpu *g, const char *root, const char *card, const char *driver,
                         struct driver_limits *ret)
{
    auto_err struct err e = {0};
    auto_free char *top = NULL;
    if (ret->known && strcmp(ret->driver, driver) == 0)
        return;
    if (!pod_cgroups_are_v2(root)) {
        learn(ret, driver,
              "the control groups of this node are not of version 2 alone, and the driver limits "
              "memory by no others: " REMEDY);
        return;
    }
    if (pod_cgroups_top(root, &top, /* e= */ NULL) < 0) {
        if (!ret->known)
            ret->lacks = "there are no control groups of pods below --cgroup-root, by which the "
                         "driver limits memory: mount the host's there, or " REMEDY;
        return;
    }
    int rc = try(g, card, top, &e);
    if (rc == 0 || lack_of(&e))
        learn(ret, driver, rc == 0 ? NULL : lack_of(&e));
    else
        log_warn("Could not learn whether the driver limits memory", kv("gpu", card), kv_err(&e));
}

/* --- Setting --- */

static bool has_slot(const struct slot_binding *b, unsigned slot)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->bound[i].slot == slot)
            return true;
    return false;
}

static bool is_of_pod(const struct share *s, const char *uid, const char *card)
{
    return strcmp(s->uid, uid) == 0 && strcmp(s->card, card) == 0;
}

/* What the pod's other containers have of the card. */
static uint64_t others_mib(const struct shares *shares, const struct slot_binding *b,
                           const char *card)
{
    uint64_t sum = 0;
    for (size_t i = 0; shares && i < shares->n; i++)
        if (is_of_pod(&shares->items[i], b->uid, card) && !has_slot(b, shares->items[i].slot))
            sum += shares->items[i].memory_mib;
    return sum;
}

/* The driver may round. What it shows may also be a limit from further up. No share has 0 bytes: that
 * is a driver with another word for no limit. */
static bool holds(const struct gpu_limit *limit, uint64_t mib)
{
    uint64_t most = mib + mib / 8 + ROUNDED_MIB;
    return limit->hard_bytes && limit->hard_bytes / BYTES_OF_MIB <= most;
}

static int read_back(struct gpu *g, const char *card, const char *cgroup, uint64_t mib,
                     struct err *e)
{
    struct gpu_limit limit = {0};
    TRY(get(g, card, cgroup, &limit, e));
    if (!holds(&limit, mib))
        return err_set(e, ERR_UNAVAILABLE,
                       "the driver accepted the limit of %s, and does not show it there", cgroup);
    return 0;
}

static int put(const struct slot_deps *d, const struct slot_binding *b, const struct bound_slot *g,
               struct err *e)
{
    auto_free char *cgroup = NULL;
    int rc = pod_cgroup_find(d->cgroup_root, b->uid, &cgroup, e);
    if (rc < 0)
        return e ? err_set(e, ERR_UNAVAILABLE, "limit of the driver: %s", err_msg(e)) : rc;
    uint64_t mib = g->quota.memory_mib + others_mib(d->shares, b, g->card);
    TRY(set(d->gpu, g->card, cgroup, mib * BYTES_OF_MIB, e));
    return read_back(d->gpu, g->card, cgroup, mib, e);
}

int cgroup_limits_put(const struct slot_deps *d, const struct slot_binding *b, struct err *e)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->bound[i].memory_level != API_LEVEL_DRIVER)
            continue;
        if (!d->cgroup_root)
            return err_set(e, ERR_UNAVAILABLE,
                           "the share was made with a limit of the driver, and the agent was not "
                           "told where cgroups are: set --cgroup-root, or delete the pod");
        TRY(put(d, b, &b->bound[i], e));
    }
    return 0;
}

/* --- Looking --- */

/* What its pod has of the share's card in all. */
static uint64_t pod_mib(const struct shares *shares, const struct share *of)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < shares->n; i++)
        if (is_of_pod(&shares->items[i], of->uid, of->card))
            sum += shares->items[i].memory_mib;
    return sum;
}

/* Of a cgroup that is there, or it lacks the kernel's controller. Without an answer nothing is
 * lost. */
static bool is_lost(const struct slot_deps *d, const struct share *s)
{
    auto_err struct err e = {0};
    auto_free char *cgroup = NULL;
    struct gpu_limit limit = {0};
    if (pod_cgroup_find(d->cgroup_root, s->uid, &cgroup, /* e= */ NULL) < 0)
        return false;
    int rc = get(d->gpu, s->card, cgroup, &limit, &e);
    if (rc < 0)
        return is_reason(&e, GPU_LIMITS_UNSUPPORTED) || is_reason(&e, GPU_CGROUP_NOT_FOUND);
    return !holds(&limit, pod_mib(d->shares, s));
}

void cgroup_limits_lost(const struct slot_deps *d, const char *card, struct device_slots *ret)
{
    for (size_t i = 0; d->cgroup_root && i < d->shares->n; i++) {
        const struct share *s = &d->shares->items[i];
        if (s->memory_level == API_LEVEL_DRIVER && strcmp(s->card, card) == 0 && is_lost(d, s))
            device_slots_put(ret, s->slot);
    }
}

/* --- Clearing --- */

/* The limit without this slot's share. */
static uint64_t rest_of(const struct shares *shares, const struct slot_record *r)
{
    uint64_t mib = 0;
    bool is_held = false;
    for (size_t i = 0; shares && i < shares->n; i++) {
        const struct share *s = &shares->items[i];
        if (!is_of_pod(s, r->uid, r->card) || s->slot == r->slot)
            continue;
        mib += s->memory_mib;
        is_held |= s->memory_level == API_LEVEL_DRIVER;
    }
    return is_held ? mib * BYTES_OF_MIB : GPU_NO_LIMIT;
}

/* True for errors by which there is nothing to clear. */
static bool is_gone(const struct err *e)
{
    return e->kind == ERR_NOT_FOUND || is_reason(e, GPU_LIMITS_UNSUPPORTED);
}

int cgroup_limits_drop(const struct slot_deps *d, const struct slot_record *r, struct err *e)
{
    auto_err struct err why = {0};
    auto_free char *cgroup = NULL;
    if (!r->uid || r->memory_level != API_LEVEL_DRIVER || !d->cgroup_root)
        return 0;
    if (pod_cgroup_find(d->cgroup_root, r->uid, &cgroup, /* e= */ NULL) < 0)
        return 0;
    int rc = set(d->gpu, r->card, cgroup, rest_of(d->shares, r), &why);
    return rc == 0 || is_gone(&why) ? 0 : err_move(e, &why);
}

/* --- What an earlier agent left --- */

static bool has_share(const struct shares *shares, const char *uid, const char *card)
{
    for (size_t i = 0; i < shares->n; i++)
        if (is_of_pod(&shares->items[i], uid, card))
            return true;
    return false;
}

/* Only the limit of the pod itself is meant: the driver may show one from further up. */
static bool is_left(struct gpu *g, const char *card, const char *parent, const char *cgroup)
{
    struct gpu_limit limit = {0};
    struct gpu_limit above = {.hard_bytes = GPU_NO_LIMIT};
    if (get(g, card, cgroup, &limit, /* e= */ NULL) < 0 || limit.soft_bytes ||
        limit.hard_bytes == GPU_NO_LIMIT || limit.hard_bytes % BYTES_OF_MIB)
        return false;
    (void)!get(g, card, parent, &above, /* e= */ NULL);
    return above.hard_bytes != limit.hard_bytes;
}

static void clear(struct gpu *g, const char *card, const char *cgroup)
{
    auto_err struct err e = {0};
    if (set(g, card, cgroup, GPU_NO_LIMIT, &e) == 0)
        log_info("Cleared a limit of memory that no share has", kv("gpu", card),
                 kv("cgroup", cgroup));
    else if (!is_gone(&e))
        log_warn("Could not clear a limit of memory", kv("gpu", card), kv("cgroup", cgroup),
                 kv_err(&e));
}

static void sweep_below(const struct slot_deps *d, const char *card, const char *parent)
{
    auto_dir DIR *dir = opendir(parent);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        auto_free char *uid = pod_cgroup_uid(entry->d_name);
        if (!uid || has_share(d->shares, uid, card))
            continue;
        auto_free char *cgroup = xasprintf("%s/%s", parent, entry->d_name);
        if (is_left(d->gpu, card, parent, cgroup))
            clear(d->gpu, card, cgroup);
    }
}

void cgroup_limits_sweep(const struct slot_deps *d, const char *card)
{
    char **parents = NULL;
    size_t n = 0;
    assert(d->shares);
    if (!d->cgroup_root || shares_are_in_doubt(d->shares))
        return;
    pod_cgroups_parents(d->cgroup_root, &parents, &n);
    for (size_t i = 0; i < n; i++) {
        sweep_below(d, card, parents[i]);
        free(parents[i]);
    }
    free(parents);
}
