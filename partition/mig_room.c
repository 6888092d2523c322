/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_room.h"

#include "partition/mig_place.h"

/* Memory slices of the whole card, as bits. */
static uint32_t grid_of(const struct mig_table *t)
{
    return mig_memory_slices(0, t->memory_slices);
}

static bool has_room_for(const struct mig_table *t, const struct mig_limits *l, uint32_t taken,
                         struct mig_counts all, unsigned profile)
{
    struct mig_counts one = {0};
    struct mig_effort effort = mig_effort_whole();
    one.of[profile] = 1;
    all.of[profile]++;
    return mig_limits_check(t, l, &all).limit == MIG_LIMIT_NONE &&
           mig_fits(t, taken, &one, &effort);
}

/* By memory, then by compute. */
static bool is_larger(const struct mig_profile *p, const struct mig_profile *than)
{
    return !than || p->memory_mib > than->memory_mib ||
           (p->memory_mib == than->memory_mib && p->slices > than->slices);
}

struct mig_room mig_room(const struct mig_table *t, const struct mig_state *kept)
{
    struct mig_limits limits;
    struct mig_counts all = {0};
    struct mig_room room = {0};
    uint32_t taken = 0;
    mig_limits_init(t, &limits);
    for (unsigned i = 0; i < kept->n; i++) {
        taken |= mig_memory_slices(kept->items[i].start, kept->items[i].size);
        if (kept->items[i].profile < t->n_profiles)
            all.of[kept->items[i].profile]++;
    }
    for (unsigned p = 0; p < t->n_profiles; p++) {
        if (is_larger(&t->profiles[p], room.largest) && has_room_for(t, &limits, taken, all, p))
            room.largest = &t->profiles[p];
    }
    room.memory_slices = (unsigned)__builtin_popcount(grid_of(t) & ~taken);
    return room;
}
