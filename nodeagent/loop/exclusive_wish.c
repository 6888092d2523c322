/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/exclusive_wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

bool exclusive_is_wanted(const struct share_facts *facts, const struct device_want *want,
                         const struct gpu_card *card)
{
    const struct sharing sharing =
        sharing_of(facts->rules, card->vendor, want, /* profile= */ NULL);
    bool stays_whole = card->mode == GPU_NATIVE && (!want || want->mode == API_MODE_NATIVE);
    return stays_whole && (sharing.kind == SHARING_MPS || mps_card_is_exclusive(facts, card, want));
}

static struct exclusive_look *find_look(const struct exclusive_wish *w, const char *uuid)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->looks[i].uuid, uuid) == 0)
            return &w->looks[i];
    return NULL;
}

static bool is_due(const struct exclusive_look *look, const struct gpu_card *card, bool wanted)
{
    return !look || look->wanted != wanted || (look->again && card->exclusive != wanted);
}

static void remember(struct exclusive_wish *w, const char *uuid, bool wanted)
{
    struct exclusive_look *look = find_look(w, uuid);
    if (!look) {
        look = XPUSH(w->looks, w->n);
        (void)snprintf(look->uuid, sizeof(look->uuid), "%s", uuid);
    }
    look->wanted = wanted;
    look->again = false;
}

const struct card_view *exclusive_wish_next(struct exclusive_wish *w,
                                            const struct share_facts *facts,
                                            const struct device_spec *spec,
                                            const struct cards *cards, const struct jobs *jobs,
                                            bool *ret_wanted)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_card *card = &cards->items[i].card;
        bool wanted = exclusive_is_wanted(facts, device_spec_want(spec, card->uuid), card);
        if (card->unread || !jobs_may_take(jobs, card->uuid) ||
            !is_due(find_look(w, card->uuid), card, wanted))
            continue;
        remember(w, card->uuid, wanted);
        *ret_wanted = wanted;
        return &cards->items[i];
    }
    return NULL;
}

void exclusive_wish_read(struct exclusive_wish *w)
{
    for (size_t i = 0; i < w->n; i++)
        w->looks[i].again = true;
}

void exclusive_wish_done(struct exclusive_wish *w)
{
    free(w->looks);
    *w = (struct exclusive_wish){0};
}
