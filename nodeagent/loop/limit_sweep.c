/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/limit_sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/vendor.h"

static bool is_seen(const struct limit_sweep *w, const char *uuid)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->seen[i], uuid) == 0)
            return true;
    return false;
}

/* Only such cards have shares, and so limits. */
static bool may_have_limits(const struct gpu_card *card)
{
    const struct vendor *v = vendor_find(card->vendor);
    return v && v->has_shares && !card->unread && card->mode == GPU_NATIVE;
}

const struct card_view *limit_sweep_next(struct limit_sweep *w, const struct cards *cards,
                                         const struct jobs *jobs)
{
    for (size_t i = 0; i < cards->n; i++) {
        const struct gpu_card *card = &cards->items[i].card;
        if (!may_have_limits(card) || is_seen(w, card->uuid) || !jobs_may_take(jobs, card->uuid))
            continue;
        (void)snprintf(*XPUSH(w->seen, w->n), GPU_UUID_BYTES, "%s", card->uuid);
        return &cards->items[i];
    }
    return NULL;
}

void limit_sweep_done(struct limit_sweep *w)
{
    free(w->seen);
    *w = (struct limit_sweep){0};
}
