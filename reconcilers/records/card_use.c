/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/card_use.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xalloc.h"

#include "partition/mig_part.h"
#include "partition/mig_room.h"
#include "partition/sgpu.h"

/* --- Who has what --- */

static void add_grant(struct card_use *u, const char *ns, const char *profile)
{
    *XPUSH(u->grants, u->n_grants) =
        (struct profile_count){.profile = xasprintf("%s/%s", ns, profile), .count = 1};
}

static int by_profile(const void *a, const void *b)
{
    return strcmp(((const struct profile_count *)a)->profile,
                  ((const struct profile_count *)b)->profile);
}

/* Joins those of the same text: sorted, as an agent may report thousands that differ. */
static void join_grants(struct card_use *u)
{
    size_t n = 0;
    if (u->n_grants)
        qsort(u->grants, u->n_grants, sizeof(*u->grants), by_profile);
    for (size_t i = 0; i < u->n_grants; i++) {
        struct profile_count *g = &u->grants[i];
        if (n && by_profile(&u->grants[n - 1], g) == 0) {
            u->grants[n - 1].count++;
            free(g->profile);
        } else {
            u->grants[n++] = *g;
        }
    }
    u->n_grants = n;
}

static bool is_pod(const struct device_consumer *c)
{
    return c->namespace && *c->namespace && c->name;
}

/* The same container: a process of a pod may come without the container's name. */
static bool is_same(const struct device_consumer *a, const struct device_consumer *b)
{
    return is_pod(a) && text_same(a->namespace, b->namespace) && text_same(a->name, b->name) &&
           (!a->container || !b->container || text_same(a->container, b->container));
}

static bool is_listed_before(const struct device_consumer *list, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_same(&list[k], &list[i]))
            return true;
    return false;
}

static void add_consumers(struct card_use *u, const char *profile,
                          const struct device_consumer *list, size_t n)
{
    size_t pods = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_pod(&list[i]))
            continue;
        pods++;
        if (!is_listed_before(list, i))
            add_grant(u, list[i].namespace, profile);
    }
    if (!pods)
        add_grant(u, "", profile);
}

static void read_grants(const struct device_card *c, struct card_use *u)
{
    if (c->in_use && c->mode == API_MODE_NATIVE && !c->has_fractional)
        add_consumers(u, "", c->in_use_by, c->n_in_use_by);
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        if (p->in_use)
            add_consumers(u, p->profile ? p->profile : "", p->in_use_by, p->n_in_use_by);
    }
    join_grants(u);
}

/* --- What is left --- */

/* The instances that must stay: those in use, and those that are ill. False: there is one that
 * cannot be read. */
static bool read_kept(const struct device_card *c, const struct mig_table *t, struct mig_state *ret)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        struct mig_instance kept = {.gi_id = (unsigned)p->gi_id};
        if (!p->in_use && !p->has_unhealthy)
            continue;
        if (!mig_part_place(p->placement, &kept.start, &kept.size))
            return false;
        bool again = false; /* another compute instance of one GPU instance */
        for (unsigned k = 0; k < ret->n; k++)
            again |= ret->items[k].start == kept.start && ret->items[k].size == kept.size;
        if (again)
            continue;
        if (ret->n == MIG_MAX_INSTANCES)
            return false;
        kept.profile = mig_part_profile(t, p->profile, &(unsigned){0});
        ret->items[ret->n++] = kept;
    }
    return true;
}

static void read_mig(const struct device_card *c, const struct mig_table *t, struct card_use *u)
{
    struct mig_state kept = {0};
    if (!t || !t->memory_slices || !read_kept(c, t, &kept))
        return;
    const struct mig_room room = mig_room(t, &kept);
    u->free_mib = c->memory_mib * room.memory_slices / t->memory_slices;
    u->largest_mib = room.largest ? (int64_t)room.largest->memory_mib : 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The room for shares, or for slices: `total` is for all of them, and there are `most` at most. */
static void read_quotas(const struct device_card *c, int64_t total, int64_t most,
                        struct card_use *u)
{
    int64_t used = 0, n = 0;
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        if (!p->in_use || !p->has_slice)
            continue;
        used += p->slice.memory_mib > 0 ? p->slice.memory_mib : 0;
        n++;
    }
    u->free_mib = used < total ? total - used : 0;
    u->largest_mib = n < most ? least(u->free_mib, c->memory_mib) : 0;
}

static void read_functions(const struct device_card *c, struct card_use *u)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        if (p->in_use || !p->has_vf)
            continue;
        u->free_mib += p->vf.memory_mib;
        if (p->vf.memory_mib > u->largest_mib)
            u->largest_mib = p->vf.memory_mib;
    }
}

void card_use_read(const struct device_card *c, const struct mig_table *t, struct card_use *ret)
{
    *ret = (struct card_use){0};
    read_grants(c, ret);
    if (!c->healthy)
        return;
    if (c->has_fractional)
        read_quotas(c, c->fractional.memory_mib, c->fractional.max_shares, ret);
    else if (c->mode == API_MODE_MIG)
        read_mig(c, t, ret);
    else if (c->mode == API_MODE_SGPU)
        read_quotas(c, c->has_sgpu ? c->sgpu.memory_mib : 0, SGPU_MAX_SLICES, ret);
    else if (c->mode == API_MODE_VGPU)
        read_functions(c, ret);
    else if (!c->in_use)
        ret->free_mib = ret->largest_mib = c->memory_mib;
}

void card_use_done(struct card_use *u)
{
    for (size_t i = 0; i < u->n_grants; i++)
        free(u->grants[i].profile);
    free(u->grants);
    u->grants = NULL;
    u->n_grants = 0;
}
