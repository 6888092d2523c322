/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/read_jobs.h"

struct recovery_facts read_jobs_facts(const struct read_jobs *s)
{
    return (struct recovery_facts){
        .spec = spec_source_spec(s->source),
        .jobs = s->jobs,
        .acked = publisher_acked(s->publisher),
        .holders = s->cards->kubelet ? kubelet_link_holders(s->cards->kubelet) : NULL,
    };
}

/* --- The beginning --- */

static struct share_rules share_rules(const struct read_jobs *s)
{
    return (struct share_rules){s->config, share_strategy(s->config, spec_source_spec(s->source)),
                                s->resource_publisher};
}

/* The modes of cards are known only once the Device and the cards are. */
static bool knows_modes(const struct read_jobs *s)
{
    return s->cards->serves_kubelet && spec_source_is_seen(s->source) && s->cards->read;
}

static bool modes_have_changed(struct read_jobs *s)
{
    const struct share_rules rules = share_rules(s);
    return knows_modes(s) &&
           exclusive_wish_changed(&s->exclusive, &rules, spec_source_spec(s->source),
                                  s->cards->items, s->cards->n);
}

void read_jobs_tick(struct read_jobs *s)
{
    readings_tick(&s->readings);
    s->readings.due |= modes_have_changed(s);
}

struct agent_job *read_jobs_begin(struct read_jobs *s, const struct agent_job_env *env, void *owner)
{
    const struct recovery_facts facts = read_jobs_facts(s);
    const struct share_rules rules = share_rules(s);
    auto_id_list struct id_list withheld = {0};
    struct agent_job *j = agent_job_new(AGENT_JOB_READ, env, owner);
    j->recover = recovery_may_run(s->recovery, &facts);
    recovery_guard(s->recovery, &facts, s->cards, j, &withheld);
    withdrawal_seal_recovery(s->withdrawal, &withheld);
    readings_begin(&s->readings);
    if (knows_modes(s))
        exclusive_wish_list(&rules, facts.spec, s->cards->items, s->cards->n, j);
    return j;
}

/* --- The end --- */

/* True when the journals could not be listed. A card between two layouts then looks like any other,
 * so a starting agent counts as having read nothing. A later agent continues with the unended cards
 * that it knows; a change of a card looks for that card's journal itself (txn_apply). */
static bool is_blind(const struct read_jobs *s, const struct agent_job *j)
{
    return j->unlisted.kind && !s->recovery->done;
}

static void take_reading(struct read_jobs *s, struct agent_job *j, int64_t now_mono_ms)
{
    struct late_binding *slots = s->slot_jobs->slots;
    bool is_driver_new = j->new_driver_view;
    cards_take_all(s->cards, j);
    bool complete = !cards_has_unread(s->cards);
    if (j->recover && !j->unlisted.kind) {
        recovery_take(s->recovery, &j->unended);
        if (slots)
            late_binding_found(slots, j->slots_found, j->n_slots_found);
    }
    readings_succeeded(&s->readings, now_mono_ms, complete);
    card_jobs_recheck(s->card_jobs);
    if (!slots)
        return;
    if (complete)
        slot_jobs_rebind_lost(s->slot_jobs);
    if (is_driver_new) /* device files may have other numbers */
        late_binding_again(slots);
    late_binding_stir(slots);
}

void read_jobs_end(struct read_jobs *s, struct agent_job *j)
{
    int64_t now = clock_mono_ms(s->clk);
    if (s->cards->kubelet)
        kubelet_link_check(s->cards->kubelet);
    s->host = j->host;
    if (j->rc == 0 && !is_blind(s, j))
        take_reading(s, j, now);
    if (j->rc < 0)
        readings_failed(&s->readings,
                        j->err.kind == ERR_NOT_FOUND ? "DriverNotLoaded" : "ReadFailed", &j->err);
    else if (j->unlisted.kind)
        readings_failed(&s->readings, "JournalUnreadable", &j->unlisted);
}
