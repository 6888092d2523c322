/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/card_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/loop/card_refusal.h"

static struct card_track_clock track_clock(const struct card_jobs *s)
{
    return (struct card_track_clock){s->clk, s->rng};
}

/* --- The beginning --- */

/* True when the want is refused. */
static bool refuse(const struct card_jobs *s, struct card_track *t, const struct card_view *v,
                   struct card_wish *ret_wish)
{
    const char *uuid = t->memo.uuid;
    struct card_refusal no;
    card_refusal_of(v, spec_source_want(s->spec_source, uuid),
                    cards_remembered_illness(s->cards, uuid), s->means, ret_wish, &no);
    if (!no.reason)
        return false;
    card_track_refuse(t, no.reason, no.text);
    reporting_within(s->reporting, 0);
    return true;
}

/* True when the attempt may begin. */
static bool is_withdrawn(const struct card_jobs *s, struct card_track *t, const struct card_view *v,
                         const struct device_want *want, struct agent_job *j)
{
    assert(v && want); /* else the attempt was refused */
    const struct card_track_clock clock = track_clock(s);
    if (s->kubelet && t->memo.result.outcome == TXN_IN_USE)
        kubelet_link_ask(s->kubelet);
    if (withdrawal_advance(s->withdrawal, t, &v->card, want, j))
        return true;
    if (!withdrawal_await(s->withdrawal, t, want, &clock))
        reporting_within(s->reporting, 0);
    return false;
}

struct agent_job *card_jobs_begin(const struct card_jobs *s, struct card_track *t,
                                  const struct agent_job_env *env, void *owner)
{
    const struct card_view *v = cards_find(s->cards, t->memo.uuid);
    const struct device_want *want = spec_source_want(s->spec_source, t->memo.uuid);
    struct agent_job *j = agent_job_new(AGENT_JOB_CARD, env, owner);
    if (refuse(s, t, v, &j->wish) || !is_withdrawn(s, t, v, want, j)) {
        agent_job_free(j);
        return NULL;
    }
    j->policy = want->failure_policy == API_HOLD ? TXN_HOLD : TXN_ROLLBACK;
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", v->card.uuid);
    (void)snprintf(j->boot_id, sizeof(j->boot_id), "%s", s->cards->inventory.boot_id);
    return j;
}

/* --- The end --- */

/* The want may have changed while the job ran: then the card is pending again and stays so. v NULL:
 * the node no longer has the card. */
static void note_result(const struct card_jobs *s, struct card_track *t, const struct card_view *v,
                        const struct agent_job *j)
{
    const struct txn_result was = t->memo.result;
    struct card_wish now;
    const struct device_want *want = spec_source_want(s->spec_source, j->uuid);
    bool current = v && want && card_wish_of(&v->card, want, &now, NULL) == 0 &&
                   card_wish_equal(&now, &j->wish);
    const struct card_track_clock clock = track_clock(s);
    if (current)
        card_track_note(t, want, &j->result, &clock);
    struct card_memo said = t->memo;
    said.result = j->result;
    if (v && j->result.outcome != TXN_NOT_WITHDRAWN)
        agent_events_result(s->events, v, &was, &said, want);
}

bool card_jobs_end(const struct card_jobs *s, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_CARD);
    struct card_view *v = cards_find(s->cards, j->uuid);
    struct card_track *t = card_tracks_find(s->tracks, j->uuid);
    bool read = v && j->rc == 0;
    if (read)
        cards_take_one(s->cards, v, j);
    else if (v)
        v->outdated |= j->result.changed;
    agent_metrics_count(s->metrics, &j->result, j->took_ms);
    recovery_note(s->recovery, j->uuid, &j->result, /* tracked= */ t);
    if (t)
        note_result(s, t, v, j);
    return !read;
}

void card_jobs_recheck(const struct card_jobs *s)
{
    for (size_t i = 0; i < s->tracks->n; i++) {
        struct card_track *t = &s->tracks->items[i];
        const struct card_view *v = cards_find(s->cards, t->memo.uuid);
        if (v)
            card_track_recheck(t, v, spec_source_want(s->spec_source, t->memo.uuid));
    }
}
