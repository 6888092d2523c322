/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/exclusive_wish.h"

#include "base/xalloc.h"

bool exclusive_is_wanted(const struct share_rules *rules, const struct device_want *want,
                         const struct gpu_card *card)
{
    const struct share share = share_of(rules, card->vendor, want, /* profile= */ NULL);
    return card->mode == GPU_NATIVE && (!want || want->mode == API_MODE_NATIVE) &&
           share.kind == SHARE_MPS;
}

void exclusive_wish_list(const struct share_rules *rules, const struct device_spec *spec,
                         const struct card_view *cards, size_t n, struct agent_job *j)
{
    j->modes_known = true;
    for (size_t i = 0; i < n; i++) {
        const struct gpu_card *card = &cards[i].card;
        if (exclusive_is_wanted(rules, device_spec_want(spec, card->uuid), card))
            *XPUSH(j->exclusive, j->n_exclusive) = xstrdup(card->uuid);
    }
}

bool exclusive_wish_changed(struct exclusive_wish *w, const struct share_rules *rules,
                            const struct device_spec *spec, const struct card_view *cards, size_t n)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < n && i < 64; i++) {
        const struct gpu_card *card = &cards[i].card;
        bool is = exclusive_is_wanted(rules, device_spec_want(spec, card->uuid), card);
        wanted |= (uint64_t)is << i;
    }
    bool changed = wanted != w->last;
    w->last = wanted;
    return changed;
}
