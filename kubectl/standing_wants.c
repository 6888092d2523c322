/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/standing_wants.h"

bool standing_wants_add(struct mig_wants *w, unsigned profile, unsigned ci_slices, unsigned count)
{
    for (unsigned i = 0; i < w->n; i++)
        if (w->items[i].profile == profile && w->items[i].ci_slices == ci_slices) {
            w->items[i].count += count;
            return true;
        }
    if (w->n == MIG_MAX_WANTS)
        return false;
    w->items[w->n++] = (struct mig_want){profile, ci_slices, count};
    return true;
}

bool standing_wants_keep(const struct gpu_card *card, uint32_t mask, struct mig_wants *w)
{
    for (unsigned i = 0; i < card->state.n; i++) {
        const struct mig_instance *in = &card->state.items[i];
        if (!(mask & (1U << i)))
            continue;
        if (in->profile >= card->mig.n_profiles || in->n_cis == 0)
            return false;
        unsigned whole = card->mig.profiles[in->profile].slices;
        for (unsigned k = 0; k < in->n_cis; k++)
            if (!standing_wants_add(w, in->profile,
                                    in->cis[k].slices == whole ? 0 : in->cis[k].slices, 1))
                return false;
    }
    return true;
}

uint32_t standing_wants_all(const struct gpu_card *card)
{
    return card->state.n ? UINT32_MAX >> (32 - card->state.n) : 0;
}
