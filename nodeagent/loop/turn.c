/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/turn.h"

#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

enum handover_phase turn_phase(const struct turn *t)
{
    return (enum handover_phase)atomic_load(&t->phase);
}

/* --- The agent before --- */

/* It may end once this agent is heard by the kubelet. It has to, where this one cannot serve
 * before: an interrupted change is ended first, and only by an agent that is alone. */
static bool may_tell(const struct turn *t)
{
    const struct recovery *r = t->read_jobs->recovery;
    const char *text;
    if (!handover_publishes(turn_phase(t)) || !reporting_is_ready(t->reporting))
        return false;
    if (!t->serves_kubelet || t->read_jobs->readings.error || r->unended.n || r->round.n_waiting)
        return true;
    return reporting_has_served(t->reporting) &&
           kubelet_link_state(t->kubelet, &text) != PLUGIN_WAITING;
}

static void tell(struct turn *t)
{
    if (!t->locks || t->has_announced || !may_tell(t))
        return;
    t->has_announced = true;
    t->served_beside = turn_phase(t) == HANDOVER_TAKING && reporting_has_served(t->reporting);
    handover_locks_announce(t->locks, t->served_beside);
}

/* --- Standing by --- */

/* A version that cannot read the cards, or reach the kubelet or the API server, where the agent
 * that works can, must not take its place. */
static bool could_take_over(const struct turn *t)
{
    const struct read_jobs *r = t->read_jobs;
    bool knows_holders = !t->kubelet || kubelet_link_holders(t->kubelet)->known;
    const struct own_device *d = spec_source_device(r->spec_source);
    bool knows_cards = r->readings.error ? !(d && d->lists_cards) : r->cards->read;
    return spec_source_is_seen(r->spec_source) && knows_holders && knows_cards;
}

void turn_after_round(struct turn *t)
{
    tell(t);
    if (turn_phase(t) == HANDOVER_STANDBY)
        atomic_store(&t->takes_over, could_take_over(t));
}

/* --- Phases --- */

static void take(struct turn *t)
{
    status_writer_pause(t->status_writer, /* paused= */ false);
    read_jobs_start_over(t->read_jobs);
}

/* The MPS daemons of the agent before have ended with it. */
static void settle(struct turn *t)
{
    if (!t->kubelet)
        return;
    kubelet_link_wait_with_mps(t->kubelet, /* waits= */ false);
    reporting_within(t->reporting, 0);
}

static void work(struct turn *t)
{
    if (t->kubelet && t->served_beside)
        kubelet_link_renew(t->kubelet);
}

static void release(struct turn *t)
{
    auto_err struct err e = {0};
    if (t->kubelet)
        kubelet_link_freeze(t->kubelet);
    status_writer_pause(t->status_writer, /* paused= */ true);
    if (handover_locks_release(t->locks, &e) < 0)
        log_error("Could not hand this node over", kv_err(&e));
}

static void part(struct turn *t)
{
    if (t->kubelet)
        kubelet_link_part(t->kubelet);
}

static void nothing(struct turn *t)
{
    (void)t;
}

static const struct {
    const char *news;
    void (*begin)(struct turn *t);
} phases[] = {
    [HANDOVER_STANDBY] = {"Stands by: another process has this node's cards", nothing},
    [HANDOVER_TAKING] = {"Takes this node over", take},
    [HANDOVER_SETTLING] = {"The agent before has ended", settle},
    [HANDOVER_WORKING] = {"Has this node's cards", work},
    [HANDOVER_ENDING] = {"Hands this node over to the agent that waits", nothing},
    [HANDOVER_RELEASED] = {"Released this node's cards", release},
    [HANDOVER_PARTING] = {"The next agent serves this node", part},
    [HANDOVER_OVER] = {"Ends", nothing},
};

static void enter(struct turn *t, enum handover_phase phase)
{
    log_info(phases[phase].news, kv("node", t->node));
    atomic_store(&t->phase, phase);
    t->since_mono_ms = clock_mono_ms(t->clk);
    agent_metrics_standby(t->metrics, phase == HANDOVER_STANDBY);
    phases[phase].begin(t);
}

static struct handover_facts facts_of(const struct turn *t)
{
    const struct handover_locks *l = t->locks;
    bool is_alone = !l || handover_locks_are_alone(l);
    return (struct handover_facts){
        .phase = turn_phase(t),
        .since_mono_ms = t->since_mono_ms,
        .now_mono_ms = clock_mono_ms(t->clk),
        .has_cards = !l || handover_locks_have_cards(l),
        .is_alone = is_alone,
        .is_asked = atomic_load(&t->asked),
        .is_awaited = l && is_alone && handover_locks_are_awaited(l),
        .is_succeeded = l && handover_locks_are_succeeded(l),
        .is_served = l && handover_locks_are_served(l),
        .has_jobs = jobs_change(t->read_jobs->jobs),
        .has_parted = !t->kubelet || kubelet_link_has_parted(t->kubelet),
    };
}

int turn_follow(struct turn *t, struct err *e)
{
    eventfd_t n;
    (void)eventfd_read(t->asked_fd, &n);
    if (t->locks)
        TRY(handover_locks_check(t->locks, e));
    for (;;) {
        const struct handover_facts facts = facts_of(t);
        enum handover_phase next = handover_next(&facts);
        if (next == facts.phase)
            return 0;
        enter(t, next);
    }
}

int64_t turn_due_mono_ms(const struct turn *t)
{
    return handover_due_mono_ms(turn_phase(t), t->since_mono_ms);
}

void turn_ask_end(struct turn *t)
{
    atomic_store(&t->asked, true);
    (void)eventfd_write(t->asked_fd, 1);
}

int turn_asked_fd(const struct turn *t)
{
    return t->asked_fd;
}

int turn_locks_fd(const struct turn *t)
{
    return t->locks ? handover_locks_fd(t->locks) : -1;
}

/* --- Life --- */

/* A standby leaves alone whatever the agent before may use. */
void turn_begin(struct turn *t)
{
    assert(t->clk && t->node && t->status_writer && t->reporting && t->read_jobs);
    t->asked_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const struct handover_facts facts = facts_of(t);
    enum handover_phase first = handover_first(facts.has_cards, facts.is_alone);
    bool waits = first == HANDOVER_STANDBY;
    status_writer_pause(t->status_writer, waits);
    if (t->kubelet)
        kubelet_link_wait_with_mps(t->kubelet, waits);
    t->read_jobs->recovery->due = !waits;
    enter(t, first);
}

void turn_done(struct turn *t)
{
    (void)close(t->asked_fd);
}
