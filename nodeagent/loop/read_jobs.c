/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/read_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/report/node_readiness.h"

struct recovery_facts read_jobs_facts(const struct read_jobs *s)
{
    return (struct recovery_facts){
        .spec = spec_source_spec(s->spec_source),
        .jobs = s->jobs,
        .acked = withdrawal_acked(s->withdrawal),
        .holders = s->cards->kubelet ? kubelet_link_holders(s->cards->kubelet) : NULL,
    };
}

/* --- The beginning --- */

static struct sharing_rules sharing_rules(const struct read_jobs *s)
{
    return (struct sharing_rules){s->config,
                                  sharing_strategy(s->config, spec_source_spec(s->spec_source)),
                                  *s->means};
}

/* The modes of cards are known only once the Device and the cards are. */
static bool knows_modes(const struct read_jobs *s)
{
    return s->cards->serves_kubelet && spec_source_is_seen(s->spec_source) && s->cards->read;
}

void read_jobs_tick(struct read_jobs *s)
{
    readings_tick(&s->readings);
}

void read_jobs_start_over(struct read_jobs *s)
{
    s->must_list = true;
    s->recovery->due = true;
    s->cards->read = false;
    s->readings.due = true;
    s->readings.regular = false;
    s->readings.next_mono_ms = 0;
}

struct agent_job *read_jobs_begin(struct read_jobs *s, const struct agent_job_env *env, void *owner)
{
    struct agent_job *j = agent_job_new(AGENT_JOB_READ, env, owner);
    j->lists = s->recovery->due;
    j->setup = s->setup;
    j->limits = s->limits;
    readings_begin(&s->readings);
    return j;
}

static struct agent_job *begin_recovery(struct read_jobs *s, const struct agent_job_env *env,
                                        void *owner)
{
    const struct recovery_facts facts = read_jobs_facts(s);
    auto_id_list struct id_list to_seal = {0};
    const char *uuid = recovery_next(s->recovery, &facts);
    if (!uuid)
        return NULL;
    struct agent_job *j = agent_job_new(AGENT_JOB_RECOVER, env, owner);
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", uuid);
    (void)snprintf(j->boot_id, sizeof(j->boot_id), "%s", s->cards->inventory.boot_id);
    recovery_begin(s->recovery, &facts, cards_find(s->cards, j->uuid), j, &to_seal);
    withdrawal_seal_recovery(s->withdrawal, j->uuid, &to_seal);
    return j;
}

static struct agent_job *begin_mode(struct read_jobs *s, const struct agent_job_env *env,
                                    void *owner)
{
    if (!knows_modes(s))
        return NULL;
    const struct sharing_rules rules = sharing_rules(s);
    const struct share_facts facts = {&rules, &s->cards->shares,
                                      kubelet_link_holders(s->cards->kubelet)};
    bool wanted;
    const struct card_view *v =
        exclusive_wish_next(&s->exclusive, &facts, spec_source_spec(s->spec_source), s->cards,
                            s->jobs, &wanted);
    if (!v)
        return NULL;
    struct agent_job *j = agent_job_new(AGENT_JOB_COMPUTE_MODE, env, owner);
    memcpy(j->uuid, v->card.uuid, sizeof(j->uuid));
    memcpy(j->view.card.uuid, v->card.uuid, sizeof(j->view.card.uuid));
    j->view.card.exclusive = v->card.exclusive;
    j->exclusive = wanted;
    return j;
}

/* Not before all shares are known that an earlier agent made. */
static struct agent_job *begin_limits(struct read_jobs *s, const struct agent_job_env *env,
                                      void *owner)
{
    bool may = s->limits.can && knows_modes(s) && s->recovery->done;
    const struct card_view *v = may ? limit_sweep_next(&s->limit_sweep, s->cards, s->jobs) : NULL;
    if (!v)
        return NULL;
    struct agent_job *j = agent_job_new(AGENT_JOB_LIMITS, env, owner);
    memcpy(j->uuid, v->card.uuid, sizeof(j->uuid));
    return j;
}

struct agent_job *read_jobs_begin_card(struct read_jobs *s, const struct agent_job_env *env,
                                       void *owner)
{
    struct agent_job *j = begin_recovery(s, env, owner);
    if (!j)
        j = begin_mode(s, env, owner);
    return j ? j : begin_limits(s, env, owner);
}

/* --- The end --- */

/* True when the journals could not be listed. A card between two layouts then looks like any other,
 * so a starting agent counts as having read nothing. A later agent continues with the unended cards
 * that it knows; a change of a card looks for that card's journal itself (txn_apply). */
static bool is_blind(const struct read_jobs *s, const struct agent_job *j)
{
    return j->unlisted.kind && !s->recovery->done;
}

/* What another job had in hand meanwhile may have been read between two layouts. */
static void leave_out_touched(const struct read_jobs *s, struct agent_job *j)
{
    for (size_t i = 0; i < j->n_views; i++) {
        struct gpu_card *card = &j->views[i].card;
        bool touched = jobs_touched(s->jobs, j, card->uuid);
        j->views[i].held_by_reading = card->busy && !touched;
        if (touched)
            card->unread = card->busy = true;
    }
}

/* True when all slices are known: a card that hangs is shown as it was before the call, and nothing
 * else was made on it since. */
static bool shows_all_slices(const struct read_jobs *s, const struct agent_job *j)
{
    for (size_t i = 0; i < j->n_views; i++) {
        const struct gpu_card *card = &j->views[i].card;
        const struct card_view *before = card->unread ? cards_find(s->cards, card->uuid) : NULL;
        if (card->unread && !(before && before->hangs && !before->slices_unread))
            return false;
    }
    return true;
}

static void take_slots(struct read_jobs *s, const struct agent_job *j)
{
    /* Also where this agent binds none: what an agent before gave is still there. */
    cards_add_shares(s->cards, &j->shares);
    if (s->slot_jobs->slots)
        late_binding_found(s->slot_jobs->slots, j->slots_found, j->n_slots_found);
}

static void take_limits(struct read_jobs *s, const struct agent_job *j)
{
    s->limits = j->limits;
    s->means->enforcement.driver = s->limits.can;
    s->means->enforcement.driver_lacks = s->limits.lacks;
}

static void take_reading(struct read_jobs *s, struct agent_job *j, int64_t now_mono_ms)
{
    assert(j->rc == 0);
    take_limits(s, j);
    struct late_binding *slots = s->slot_jobs->slots;
    bool is_driver_new = j->new_driver_view;
    leave_out_touched(s, j);
    bool whole = shows_all_slices(s, j);
    cards_take_all(s->cards, j);
    exclusive_wish_read(&s->exclusive);
    bool complete = !cards_has_unread(s->cards);
    if (j->lists && !j->unlisted.kind) {
        const struct recovery_facts facts = read_jobs_facts(s);
        recovery_found(s->recovery, &facts, j);
        take_slots(s, j);
    }
    readings_succeeded(&s->readings, now_mono_ms, complete);
    card_jobs_recheck(s->card_jobs);
    if (!slots)
        return;
    if (whole)
        slot_jobs_rebind_lost(s->slot_jobs);
    late_binding_again(slots, &j->limits_lost);
    if (is_driver_new) /* device files may have other numbers */
        late_binding_again(slots, /* only= */ NULL);
    late_binding_retry_now(slots);
}

/* A reading that hung is overtaken by a later one. */
void read_jobs_end(struct read_jobs *s, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_READ);
    int64_t now = clock_mono_ms(s->clk);
    if (j->began_mono_ms < s->newest_mono_ms)
        return;
    s->newest_mono_ms = j->began_mono_ms;
    if (s->must_list && !j->lists) {
        s->readings.due = true;
        return;
    }
    s->must_list = false;
    if (s->cards->kubelet)
        kubelet_link_check(s->cards->kubelet);
    s->host = j->host;
    s->setup = j->setup;
    if (s->cards->kubelet)
        kubelet_link_set_runtime(s->cards->kubelet, &j->setup.runtime);
    if (j->rc == 0 && !is_blind(s, j))
        take_reading(s, j, now);
    if (j->rc < 0)
        readings_failed(&s->readings, node_readiness_read_reason(&j->err), &j->err);
    else if (j->unlisted.kind)
        readings_failed(&s->readings, "JournalUnreadable", &j->unlisted);
}

bool read_jobs_end_card(struct read_jobs *s, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_RECOVER || j->kind == AGENT_JOB_COMPUTE_MODE ||
           j->kind == AGENT_JOB_LIMITS);
    struct card_view *v = cards_find(s->cards, j->uuid);
    if (j->kind == AGENT_JOB_LIMITS)
        return false;
    if (j->kind == AGENT_JOB_COMPUTE_MODE) {
        if (v)
            v->card.exclusive = j->exclusive;
        return false;
    }
    recovery_ended(s->recovery, j);
    if (!j->result.changed)
        return false;
    bool read = v && j->rc == 0;
    if (read)
        cards_take_one(s->cards, v, j);
    else if (v)
        v->outdated = true;
    card_jobs_recheck(s->card_jobs);
    return !read;
}
