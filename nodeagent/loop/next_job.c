/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/next_job.h"

#include <limits.h>
#include <string.h>

static unsigned index_of(const struct next_job_facts *f, const char *uuid)
{
    for (size_t i = 0; i < f->n_cards; i++)
        if (strcmp(f->cards[i].card.uuid, uuid) == 0)
            return f->cards[i].card.index;
    return UINT_MAX - 1;
}

struct card_track *next_job_card(const struct next_job_facts *f)
{
    struct card_track *next = NULL;
    unsigned lowest = UINT_MAX;
    for (size_t i = 0; i < f->tracks->n; i++) {
        struct card_track *t = &f->tracks->items[i];
        if (!card_track_is_due(t, f->now_mono_ms) || !jobs_may_take(f->jobs, t->memo.uuid))
            continue;
        unsigned index = index_of(f, t->memo.uuid);
        if (index >= lowest)
            continue;
        lowest = index;
        next = t;
    }
    return next;
}

enum next_job_kind next_job(const struct next_job_facts *f, struct card_track **ret_card)
{
    bool reads = jobs_reads(f->jobs);
    *ret_card = NULL;
    if (f->read_due && !reads)
        return NEXT_READ;
    if (!f->cards_read)
        return reads || f->now_mono_ms < f->next_read_mono_ms ? NEXT_NOTHING : NEXT_READ;
    *ret_card = f->spec_seen ? next_job_card(f) : NULL;
    return *ret_card ? NEXT_CARD : NEXT_NOTHING;
}

int64_t next_job_due_mono_ms(const struct next_job_facts *f)
{
    int64_t first = INT64_MAX;
    if (!f->spec_seen)
        return first;
    for (size_t i = 0; i < f->tracks->n; i++) {
        const struct card_track *t = &f->tracks->items[i];
        int64_t at = card_track_due_mono_ms(t);
        if (at < first && jobs_may_take(f->jobs, t->memo.uuid))
            first = at;
    }
    return first;
}
