/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/recovery.h"

#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

/* True while nothing of the card may be offered. A card that is wanted again, or is being changed,
 * may offer what exists. */
static bool is_withheld(const struct recovery_facts *f, const struct unended_card *u)
{
    return !device_spec_want(f->spec, u->uuid) && !jobs_has_card(f->jobs, u->uuid);
}

/* True once everything that advertises devices knows that nothing of the card is on offer. The
 * kubelet's list of holders must have been asked for after the kubelet was shown that. */
static bool is_known_withheld(const struct recovery_facts *f, const struct unended_card *u)
{
    return u->told_number && u->told_number <= f->acked &&
           (!f->holders || f->holders->asked_mono_ms >= u->told_mono_ms);
}

bool recovery_may_run(const struct recovery *r, const struct recovery_facts *f)
{
    if (f->holders && !f->holders->known)
        return false;
    for (size_t i = 0; i < r->unended.n; i++) {
        const struct unended_card *u = &r->unended.items[i];
        if (is_withheld(f, u) && !is_known_withheld(f, u))
            return false;
    }
    return r->due;
}

/*
 * The first recovery needs no bound. The kubelet is shown a device only after it (reporting.h), and
 * grants nothing without this agent's answer. Grants of the agent before are in the list that
 * recovery_may_run waits for, so they are in use. What that agent's change destroys it had withdrawn
 * before it wrote the journal, and the Device still says so.
 *
 * A later recovery may destroy everything on a card that no source wants: nothing of it is on
 * offer, which recovery_may_run made sure of, and it is sealed against grants on their way. On all
 * other cards everything that exists may be on offer, so it stays. The change of a wanted card is
 * ended by its next attempt, with a withdrawal (withdrawal.h).
 */
void recovery_guard(const struct recovery *r, const struct recovery_facts *f,
                    const struct cards *cards, struct agent_job *j, struct id_list *withheld)
{
    for (size_t i = 0; j->recover && r->done && i < cards->n; i++) {
        const struct gpu_card *card = &cards->items[i].card;
        const struct unended_card *u = unended_find(&r->unended, card->uuid);
        if (u && is_withheld(f, u)) {
            id_list_add(withheld, card, &(const struct card_offer){0});
            continue;
        }
        struct agent_card_offer *o = XPUSH(j->offers, j->n_offers);
        memcpy(o->uuid, card->uuid, sizeof(o->uuid));
        card_offer_of(card, &o->offer);
    }
}

/* Warns once for each reason, because recovery repeats as long as it fails. */
static void warn_unended(const struct unended_card *u, const struct unended_card *known)
{
    if (known && strcmp(known->why, u->why) == 0)
        return;
    log_warn("Could not end an interrupted change", kv("gpu", u->uuid), kv("message", u->why),
             kv("next", u->waits ? "waits for a person" : "tried again at the next reading"));
}

void recovery_take(struct recovery *r, struct unended *found)
{
    for (size_t i = 0; i < found->n; i++) {
        struct unended_card *u = &found->items[i];
        const struct unended_card *known = unended_find(&r->unended, u->uuid);
        warn_unended(u, known);
        u->told_number = known ? known->told_number : 0;
        u->told_mono_ms = known ? known->told_mono_ms : 0;
    }
    unended_done(&r->unended);
    r->unended = *found;
    *found = (struct unended){0};
    r->done = true;
    r->due = r->unended.n > 0;
}

void recovery_follow(struct recovery *r, const struct recovery_facts *f,
                     const struct card_tracks *tracks)
{
    for (size_t i = 0; i < tracks->n; i++) {
        const struct card_memo *m = &tracks->items[i].memo;
        if (m->result.outcome == TXN_FAILED && !device_spec_want(f->spec, m->uuid))
            unended_note(&r->unended, m->uuid, &m->result);
    }
    for (size_t i = 0; i < r->unended.n; i++)
        if (!is_withheld(f, &r->unended.items[i]))
            r->unended.items[i].told_number = 0;
}

void recovery_note(struct recovery *r, const char *uuid, const struct txn_result *result,
                   bool tracked)
{
    if (result->outcome != TXN_FAILED)
        return;
    r->due = true; /* if the card is no longer wanted, the next reading recovers its journal */
    if (!tracked)
        unended_note(&r->unended, uuid, result);
}

bool recovery_told(struct recovery *r, const struct recovery_facts *f, int64_t number,
                   int64_t now_mono_ms)
{
    bool withheld = false;
    for (size_t i = 0; i < r->unended.n; i++) {
        struct unended_card *u = &r->unended.items[i];
        if (u->told_number || !is_withheld(f, u))
            continue;
        u->told_number = number;
        u->told_mono_ms = now_mono_ms;
        withheld = true;
    }
    return withheld;
}

void recovery_done(struct recovery *r)
{
    unended_done(&r->unended);
}
