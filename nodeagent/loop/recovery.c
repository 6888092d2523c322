/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/recovery.h"

#include <assert.h>
#include <stdio.h>
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
    for (size_t i = 0; r->done && i < r->unended.n; i++) {
        const struct unended_card *u = &r->unended.items[i];
        if (is_withheld(f, u) && !is_known_withheld(f, u))
            return false;
    }
    return true;
}

bool recovery_reads_after_list(const struct recovery *r, const struct recovery_facts *f,
                               bool cards_read)
{
    return cards_read && !r->done && recovery_may_run(r, f);
}

/* --- Rounds --- */

static bool is_round_over(const struct recovery *r)
{
    return !r->round.n_waiting && !r->round.n_running;
}

bool recovery_is_first(const struct recovery *r)
{
    return !r->done && !is_round_over(r);
}

static void end_round_if_over(struct recovery *r)
{
    if (!is_round_over(r))
        return;
    r->done = true;
    r->due |= r->unended.n > 0;
}

void recovery_leave_hanging(struct recovery *r)
{
    r->done |= r->round.n_running && !r->round.n_waiting;
}

static bool is_waiting(const struct recovery *r, const char *uuid)
{
    for (size_t i = 0; i < r->round.n_waiting; i++)
        if (strcmp(r->round.waiting[i], uuid) == 0)
            return true;
    return false;
}

static bool is_listed(const struct agent_job *listed, const char *uuid)
{
    for (size_t i = 0; i < listed->n_unended; i++)
        if (strcmp(listed->unended[i], uuid) == 0)
            return true;
    return false;
}

/* A change whose journal is gone has ended, unless the list is older than the journal. */
static void forget_ended(struct recovery *r, const struct jobs *jobs,
                         const struct agent_job *listed)
{
    for (size_t i = r->unended.n; i-- > 0;) {
        const char *uuid = r->unended.items[i].uuid;
        if (!is_listed(listed, uuid) && !jobs_touched(jobs, listed, uuid))
            unended_drop(&r->unended, uuid);
    }
}

/* The kubelet's list may take a while; until then nothing of such a card is on offer, and its
 * condition says why. */
static void await_holders(struct recovery *r, const char *uuid)
{
    static const struct txn_result awaits = {
        .outcome = TXN_FAILED,
        .message =
            "a change of this card was interrupted; it is ended once the kubelet has reported "
            "which pods hold devices",
    };
    unended_note(&r->unended, uuid, &awaits);
}

/* A card in another job's hands has a journal because that job wrote it. A name that is too long is
 * no card's. */
void recovery_found(struct recovery *r, const struct recovery_facts *f,
                    const struct agent_job *listed)
{
    bool may_run = recovery_may_run(r, f);
    forget_ended(r, f->jobs, listed);
    r->due &= !may_run;
    for (size_t i = 0; i < listed->n_unended; i++) {
        const char *uuid = listed->unended[i];
        if (strlen(uuid) >= GPU_UUID_BYTES || is_waiting(r, uuid) ||
            jobs_touched(f->jobs, listed, uuid))
            continue;
        if (may_run)
            (void)snprintf(*XPUSH(r->round.waiting, r->round.n_waiting), GPU_UUID_BYTES, "%s",
                           uuid);
        else if (!r->done)
            await_holders(r, uuid);
    }
    if (may_run)
        end_round_if_over(r);
}

/* Cards of a later round wait until nothing of theirs is on offer, like the round itself. */
static bool may_begin(const struct recovery *r, const struct recovery_facts *f, const char *uuid)
{
    const struct unended_card *u = unended_find(&r->unended, uuid);
    bool is_offered = r->done && u && is_withheld(f, u) && !is_known_withheld(f, u);
    return !is_offered && jobs_may_take(f->jobs, uuid);
}

const char *recovery_next(const struct recovery *r, const struct recovery_facts *f)
{
    for (size_t i = 0; i < r->round.n_waiting; i++)
        if (may_begin(r, f, r->round.waiting[i]))
            return r->round.waiting[i];
    return NULL;
}

/*
 * The first round needs no bound. The kubelet is shown a device only after it (reporting.h), and
 * grants nothing without this agent's answer. Grants of the agent before are in the list that
 * recovery_may_run waits for, so they are in use. What that agent's change destroys it had
 * withdrawn before it wrote the journal, and the Device still says so.
 *
 * A later round may destroy everything on a card that no source wants: nothing of it is on offer,
 * which may_begin made sure of, and it is sealed against grants on their way. On all other cards
 * everything that exists may be on offer, so it stays. The change of a wanted card is ended by its
 * next attempt, with a withdrawal (withdrawal.h).
 */
void recovery_begin(struct recovery *r, const struct recovery_facts *f, const struct card_view *v,
                    struct agent_job *j, struct id_list *to_seal)
{
    const struct unended_card *u = unended_find(&r->unended, j->uuid);
    assert(j->kind == AGENT_JOB_RECOVER && is_waiting(r, j->uuid));
    for (size_t i = 0; i < r->round.n_waiting; i++)
        if (strcmp(r->round.waiting[i], j->uuid) == 0)
            memmove(r->round.waiting[i], r->round.waiting[--r->round.n_waiting], GPU_UUID_BYTES);
    assert(!is_waiting(r, j->uuid)); /* each card waits once */
    r->round.n_running++;
    if (!r->done || !v)
        return;
    if (u && is_withheld(f, u))
        id_list_add(to_seal, &v->card, &j->offered);
    else
        card_offer_of(&v->card, &j->offered);
    j->seals = to_seal->n;
}

/* Warns once for each reason, because recovery repeats as long as it fails. */
static void warn_unended(const struct unended_card *known, const struct agent_job *j)
{
    if (known && strcmp(known->why, j->result.message) == 0)
        return;
    log_warn("Could not end an interrupted change", kv("gpu", j->uuid),
             kv("message", j->result.message),
             kv("next", j->result.other_version ? "waits for a person"
                                                : "tried again at the next reading"));
}

void recovery_ended(struct recovery *r, const struct agent_job *j)
{
    assert(r->round.n_running > 0);
    r->round.n_running--;
    if (j->result.outcome == TXN_FAILED) {
        warn_unended(unended_find(&r->unended, j->uuid), j);
        unended_note(&r->unended, j->uuid, &j->result);
        r->due = true;
    } else {
        unended_drop(&r->unended, j->uuid);
    }
    end_round_if_over(r);
}

/* --- The spec, and attempts --- */

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
    assert(number > 0);
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

int64_t recovery_number(const struct recovery *r, const struct recovery_facts *f, int64_t next)
{
    int64_t newest = 0;
    for (size_t i = 0; i < r->unended.n; i++) {
        const struct unended_card *u = &r->unended.items[i];
        int64_t number = u->told_number ? u->told_number : next;
        if (is_withheld(f, u) && number > newest)
            newest = number;
    }
    return newest;
}

void recovery_done(struct recovery *r)
{
    free(r->round.waiting);
    unended_done(&r->unended);
}
