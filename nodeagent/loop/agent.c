/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent.h"

#include <assert.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/log.h"

#include "nodeagent/loop/agent_parts.h"
#include "nodeagent/loop/next_job.h"
#include "nodeagent/slots/limiter_files.h"
#include "nodeagent/slots/share_folder.h"
#include "nodeagent/slots/slot_record.h"

enum {
    PUBLISH_LAG_MS = 40,  /* a change in progress is published only when it lasts longer */
    PARKED_LAG_MS = 1000, /* a parked reading that has not ended by then is looked after */
};

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* --- The spec --- */

static void follow_spec(struct agent *a, const struct spec_news *news)
{
    const struct recovery_facts facts = read_jobs_facts(&a->read_jobs);
    recovery_follow(&a->recovery, &facts, &a->tracks);
    /* An order that a standby sees is for the agent that works. */
    bool ordered = news->ordered && turn_phase(&a->turn) != HANDOVER_STANDBY;
    card_tracks_follow(&a->tracks, news->before, facts.spec, ordered);
    /* Slots are bound by the new spec at once, so nothing may be granted by the old one. */
    reporting_serve(a->reporting);
    if (a->d.slots)
        late_binding_retry_now(a->d.slots);
    reporting_within(a->reporting, PUBLISH_LAG_MS);
}

static void take_device(struct agent *a)
{
    auto_spec_news struct spec_news news = {0};
    if (!spec_source_take(a->spec_source, &news))
        return;
    if (news.changed)
        follow_spec(a, &news);
    const struct own_device *d = spec_source_device(a->spec_source);
    if (d && d->spec_error)
        log_error("Could not read the spec of Device", kv("object", a->d.node),
                  kv("error", d->spec_error));
    status_writer_kick(a->d.status_writer);
}

/* --- The next job --- */

/* An attempt may end without a job: its want is refused, or it has to wait. */
static void start_card(struct agent *a, struct card_track *t)
{
    struct agent_job *j = card_jobs_begin(&a->card_jobs, t, &a->env, a);
    if (j)
        jobs_submit(&a->jobs, j);
}

static bool slots_are_served(const struct agent *a)
{
    return a->d.slots && handover_changes(turn_phase(&a->turn)) && a->recovery.done &&
           spec_source_is_seen(a->spec_source) && a->cards.read;
}

/* The shares of adopted pods count from now on. holders: NULL where they are as before. */
static void adopt(struct agent *a, const struct holders *holders)
{
    if (!late_binding_adopt(a->d.slots, holders, &a->cards.shares))
        return;
    cards_mark_holders(&a->cards);
    card_tracks_retry_now(&a->tracks, clock_mono_ms(a->d.clk));
    late_binding_retry_now(a->d.slots);
    reporting_within(a->reporting, 0);
}

/* Not before the slots are this agent's: a pod that a standby read may have been made anew under its
 * name meanwhile, and the agent before granted the slot. */
static void follow_slots(struct agent *a)
{
    if (!a->slots_followed)
        slot_records_sweep(a->d.state_dir); /* from now on this agent writes some */
    a->slots_followed = true;
    if (a->d.share_folders)
        share_folders_resume(a->d.share_folders);
    if (a->d.limiter && a->d.cdi_slots)
        limiter_files_sweep(a->d.limiter, a->d.cdi_slots);
    late_binding_follow(a->d.slots, kubelet_link_holders(a->d.kubelet));
}

/* True when a job for slots was begun. */
static bool start_slots(struct agent *a)
{
    if (!slots_are_served(a))
        return false;
    if (!a->slots_followed)
        follow_slots(a);
    slot_jobs_ask_right(&a->slot_jobs);
    struct agent_job *j = slot_jobs_next(&a->slot_jobs, &a->env, a);
    if (!j)
        return false;
    if (j->kind == AGENT_JOB_BIND)
        withdrawal_seal_slots(&a->withdrawal, &j->binding);
    jobs_submit(&a->jobs, j);
    return true;
}

static struct next_job_facts next_job_facts(const struct agent *a)
{
    return (struct next_job_facts){
        .jobs = &a->jobs,
        .tracks = &a->tracks,
        .cards = a->cards.items,
        .n_cards = a->cards.n,
        .now_mono_ms = clock_mono_ms(a->d.clk),
        .next_read_mono_ms = a->read_jobs.readings.next_mono_ms,
        .spec_seen = handover_changes(turn_phase(&a->turn)) && spec_source_is_seen(a->spec_source),
        .cards_read = a->cards.read,
        .read_due = a->read_jobs.readings.due,
    };
}

/* Interrupted changes and modes come before the attempts at a card. True when a job was begun. */
static bool start_single(struct agent *a)
{
    bool may = a->cards.read && handover_recovers(turn_phase(&a->turn));
    struct agent_job *j = may ? read_jobs_begin_card(&a->read_jobs, &a->env, a) : NULL;
    if (j)
        jobs_submit(&a->jobs, j);
    return j;
}

/* True: there may be more to start. */
static bool start_next(struct agent *a)
{
    struct card_track *t = NULL;
    if (start_slots(a))
        return true;
    const struct next_job_facts facts = next_job_facts(a);
    enum next_job_kind next = next_job(&facts, &t);
    if (next == NEXT_READ)
        jobs_submit(&a->jobs, read_jobs_begin(&a->read_jobs, &a->env, a));
    else if (start_single(a))
        return true;
    else if (next == NEXT_CARD)
        start_card(a, t);
    return next != NEXT_NOTHING;
}

static void start_all(struct agent *a)
{
    if (!handover_reads(turn_phase(&a->turn)))
        return;
    if (!jobs_reads(&a->jobs))
        read_jobs_tick(&a->read_jobs);
    while (jobs_has_room(&a->jobs) && start_next(a))
        continue;
}

static void take_acknowledgement(struct agent *a)
{
    eventfd_t n;
    (void)eventfd_read(status_writer_fd(a->d.status_writer), &n);
    card_tracks_acked(&a->tracks, withdrawal_acked(&a->withdrawal));
}

/* --- Results --- */

static void end_slots(struct agent *a, struct agent_job *j)
{
    if (j->kind == AGENT_JOB_BIND && !j->err.kind && j->binding.known_mono_us)
        agent_metrics_bound(a->metrics, clock_mono_us(a->d.clk) - j->binding.known_mono_us);
    a->read_jobs.readings.due |= slot_jobs_end(&a->slot_jobs, j);
    card_tracks_retry_now(&a->tracks, clock_mono_ms(a->d.clk));
}

static void end_card(struct agent *a, struct agent_job *j)
{
    a->read_jobs.readings.due |= card_jobs_end(&a->card_jobs, j);
    if (a->d.slots)
        late_binding_retry_now(a->d.slots);
}

/* An agent that stands by leaves it to the one that works. */
static void end_reading(struct agent *a, struct agent_job *j)
{
    read_jobs_end(&a->read_jobs, j);
    if (handover_changes(turn_phase(&a->turn)))
        share_watch_take(&a->share_watch, j);
}

static void job_done(void *arg)
{
    struct agent_job *j = arg;
    struct agent *a = j->owner;
    if (j->kind == AGENT_JOB_READ)
        end_reading(a, j);
    jobs_end(&a->jobs, j);
    if (j->kind == AGENT_JOB_CARD)
        end_card(a, j);
    else if (j->kind == AGENT_JOB_RECOVER || j->kind == AGENT_JOB_COMPUTE_MODE ||
             j->kind == AGENT_JOB_LIMITS)
        a->read_jobs.readings.due |= read_jobs_end_card(&a->read_jobs, j);
    else if (j->kind != AGENT_JOB_READ)
        end_slots(a, j);
    reporting_serve(a->reporting); /* before the seal is taken off */
    withdrawal_unseal_job(&a->withdrawal, j);
    agent_job_free(j);
    const struct next_job_facts facts = next_job_facts(a);
    bool goes_on = a->jobs.n_busy > 0 || next_job_card(&facts);
    reporting_within(a->reporting, goes_on ? PUBLISH_LAG_MS : 0);
}

/* --- The loop --- */

/* When a job may be due; INT64_MAX: only an event brings one. */
static int64_t job_due_mono_ms(const struct agent *a)
{
    if (!jobs_has_room(&a->jobs) || !handover_reads(turn_phase(&a->turn)))
        return INT64_MAX;
    const struct next_job_facts facts = next_job_facts(a);
    int64_t at = next_job_due_mono_ms(&facts);
    if (!jobs_reads(&a->jobs))
        at = least(at, a->read_jobs.readings.next_mono_ms + (a->jobs.parked ? PARKED_LAG_MS : 0));
    return slots_are_served(a) ? least(at, late_binding_due_mono_ms(a->d.slots)) : at;
}

/* The time until something is due; INT64_MAX: only an event brings work. */
static int64_t wait_ms(const struct agent *a)
{
    enum handover_phase phase = turn_phase(&a->turn);
    int64_t now = clock_mono_ms(a->d.clk), watch = worker_watch_ms(a->d.worker);
    int64_t at = least(turn_due_mono_ms(&a->turn), job_due_mono_ms(a));
    if (handover_publishes(phase))
        at = least(at, reporting_due_mono_ms(a->reporting));
    if (!handover_is_frozen(phase))
        at = least(at, spec_source_due_mono_ms(a->spec_source));
    int64_t ms = at == INT64_MAX ? INT64_MAX : at > now ? at - now : 0;
    return watch < 0 ? ms : least(ms, watch);
}

/* At rest the worker's thread begins the next reading by itself, and the loop wakes only for its
 * result. */
static void park_reading(struct agent *a)
{
    const struct readings *r = &a->read_jobs.readings;
    if (worker_parks(a->d.worker) && handover_reads(turn_phase(&a->turn)) && a->jobs.n == 0 &&
        r->regular && !r->due)
        jobs_park(&a->jobs, read_jobs_begin(&a->read_jobs, &a->env, a));
}

/* A change, and the status after it, leave half a megabyte of holes in the heap, and rest may last
 * for days. */
static void publish(struct agent *a)
{
    reporting_publish(a->reporting);
    if (a->jobs.n == 0)
        (void)malloc_trim(0);
}

static void look_at_watchdog(struct agent *a)
{
    const struct jobs_news news = jobs_watch(&a->jobs);
    if (jobs_mark_hangs(&a->jobs, &a->cards))
        reporting_within(a->reporting, 0);
    a->read_jobs.readings.due |= news.reading_hangs;
    if (news.call)
        recovery_leave_hanging(&a->recovery);
    if (!news.changed)
        return;
    if (news.call) {
        log_error("A call into the vendor's library does not return", kv("call", news.call));
        agent_event(&a->events, /* warning= */ true, "NVMLTimeout",
                    "a call into the vendor's library does not return");
    }
    reporting_within(a->reporting, 0);
}

static void take_health_news(struct agent *a)
{
    struct health_news news = cards_take_reports(&a->cards);
    a->read_jobs.readings.due |= news.look;
    if (news.changed)
        reporting_within(a->reporting, 0);
}

static void on_kubelet(void *arg, enum kubelet_news news)
{
    struct agent *a = arg;
    a->kubelet_listed |= news == KUBELET_LISTED;
    a->kubelet_holders |= news == KUBELET_HOLDERS;
    if (news == KUBELET_STATE && a->d.slots) /* an MPS daemon may have become ready */
        late_binding_retry_now(a->d.slots);
    if (news != KUBELET_LISTED) /* a list that shows nothing new changes no status */
        reporting_within(a->reporting, PUBLISH_LAG_MS);
}

/* The kubelet made cgroups, for pods that wait for one. */
static void look_at_cgroups(const struct agent *a)
{
    if (a->cgroups && cgroup_watch_take(a->cgroups))
        late_binding_retry_now(a->d.slots);
}

static void listen_to_kubelet(struct agent *a)
{
    if (!a->d.kubelet)
        return;
    kubelet_link_dispatch(a->d.kubelet);
    if (a->kubelet_holders && a->d.slots)
        adopt(a, kubelet_link_holders(a->d.kubelet));
    if (a->kubelet_holders && a->slots_followed)
        follow_slots(a);
    if (a->kubelet_holders) {
        cards_mark_holders(&a->cards);
        card_tracks_retry_now(&a->tracks, clock_mono_ms(a->d.clk));
    }
    if (a->kubelet_listed)
        card_tracks_listed(&a->tracks);
    const struct recovery_facts facts = read_jobs_facts(&a->read_jobs);
    a->read_jobs.readings.due |=
        a->kubelet_listed && recovery_reads_after_list(&a->recovery, &facts, a->cards.read);
    a->kubelet_holders = a->kubelet_listed = false;
}

void agent_step(struct agent *a, const struct scope *s, int64_t max_wait_ms)
{
    assert(max_wait_ms >= 0);
    bool is_frozen = handover_is_frozen(turn_phase(&a->turn));
    struct pollfd fds[] = {
        {.fd = worker_fd(a->d.worker), .events = POLLIN},
        {.fd = is_frozen ? -1 : spec_source_fd(a->spec_source), .events = POLLIN},
        {.fd = turn_asked_fd(&a->turn), .events = POLLIN},
        {.fd = turn_locks_fd(&a->turn), .events = POLLIN},
        {.fd = status_writer_fd(a->d.status_writer), .events = POLLIN},
        {.fd = scope_cancel_fd(s), .events = POLLIN},
        {.fd = a->d.health ? health_watch_fd(a->d.health) : -1, .events = POLLIN},
        {.fd = a->d.kubelet ? kubelet_link_fd(a->d.kubelet) : -1, .events = POLLIN},
        {.fd = a->d.pods ? pod_reader_fd(a->d.pods) : -1, .events = POLLIN},
        {.fd = a->cgroups ? cgroup_watch_fd(a->cgroups) : -1, .events = POLLIN},
    };
    take_acknowledgement(a);
    withdrawal_unseal_idle(&a->withdrawal, &a->cards, &a->tracks, &a->jobs);
    start_all(a);
    park_reading(a);
    int64_t ms = least(wait_ms(a), max_wait_ms);
    heartbeat_idle(a->d.beat);
    (void)poll(fds, ARRAY_LEN(fds), ms > INT_MAX ? -1 : (int)ms);
    heartbeat_busy(a->d.beat);
    jobs_unpark(&a->jobs);
    if (!is_frozen)
        take_device(a);
    if (handover_publishes(turn_phase(&a->turn)))
        reporting_adopt(a->reporting);
    listen_to_kubelet(a);
    look_at_cgroups(a);
    if (a->d.slots && late_binding_take(a->d.slots))
        reporting_within(a->reporting, 0);
    if (a->d.slots)
        adopt(a, /* holders= */ NULL);
    worker_dispatch(a->d.worker);
    if (a->d.slots)
        agent_events_unbound(&a->events, a->d.slots);
    take_health_news(a);
    look_at_watchdog(a);
    if (handover_publishes(turn_phase(&a->turn)) &&
        clock_mono_ms(a->d.clk) >= reporting_due_mono_ms(a->reporting))
        publish(a);
    turn_after_round(&a->turn);
}

int agent_run(struct agent *a, struct scope *s, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        TRY(turn_follow(&a->turn, e));
        if (turn_phase(&a->turn) == HANDOVER_OVER)
            return 0;
        agent_step(a, s, INT64_MAX);
    }
}

bool agent_is_ready(const struct agent *a)
{
    return reporting_is_ready(a->reporting) || atomic_load(&a->turn.takes_over);
}

enum handover_phase agent_phase(const struct agent *a)
{
    return turn_phase(&a->turn);
}

void agent_ask_end(struct agent *a)
{
    turn_ask_end(&a->turn);
}

struct agent *agent_new(const struct agent_deps *d)
{
    return agent_parts_new(d, job_done, on_kubelet);
}

struct agent *agent_free(struct agent *a)
{
    return agent_parts_free(a);
}
