/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/room.h"

#include "base/xalloc.h"

#include "kubectl/standing_wants.h"
#include "kubectl/status_card.h"

static bool is_larger(const struct mig_profile *a, const struct mig_profile *b)
{
    if (!b || a->memory_mib != b->memory_mib)
        return !b || a->memory_mib > b->memory_mib;
    return a->slices > b->slices;
}

static uint64_t taken_slices(const struct mig_state *s)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < s->n; i++)
        for (unsigned k = 0; k < s->items[i].size; k++)
            taken |= UINT64_C(1) << (s->items[i].start + k);
    return taken;
}

/* Whether one of its placements is free: the planner, which also knows compute slices and engines,
 * is asked about no other. */
static bool has_place(const struct mig_profile *p, uint64_t taken)
{
    for (unsigned i = 0; i < p->n_starts; i++) {
        uint64_t place = ((UINT64_C(1) << p->size) - 1) << p->starts[i];
        if (!(place & taken))
            return true;
    }
    return false;
}

static bool fits_beside(const struct gpu_card *card, unsigned profile, struct mig_plan *plan)
{
    struct mig_wants wants = {0};
    if (!standing_wants_add(&wants, profile, 0, 1) ||
        !standing_wants_keep(card, standing_wants_all(card), &wants))
        return false;
    mig_plan(&card->mig, &card->state, &wants, plan);
    return plan->verdict == MIG_PLAN_CHANGE && plan->destroy == 0 && plan->n_recut == 0;
}

static const struct mig_profile *largest(const struct gpu_card *card, const struct mig_table *t)
{
    const struct mig_profile *best = NULL;
    uint64_t taken = taken_slices(&card->state);
    auto_free struct mig_plan *plan = xmalloc(sizeof(*plan));
    for (unsigned i = 0; i < t->n_profiles; i++)
        if (is_larger(&t->profiles[i], best) && has_place(&t->profiles[i], taken) &&
            fits_beside(card, i, plan))
            best = &t->profiles[i];
    return best;
}

const struct mig_profile *room_for_partition(const struct device_card *card,
                                             const struct mig_table *table)
{
    if (!table || card->mode != API_MODE_MIG)
        return NULL;
    auto_free struct gpu_card *now = xmalloc(sizeof(*now));
    status_card_read(card, table, now);
    const struct mig_profile *best = largest(now, table);
    gpu_card_done(now);
    return best;
}
