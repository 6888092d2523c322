/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/reporting.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/report/last_status.h"
#include "nodeagent/report/neighbours.h"
#include "nodeagent/report/node_status.h"
#include "service/conditions.h"

struct reporting {
    struct reporting_deps d;
    int64_t due_mono_ms;            /* INT64_MAX: nothing to publish */
    struct device_slots sick;       /* the slots that the newest node_state shows as sick */
    struct device_status published; /* agent_version NULL: none yet */
    uint64_t life;                  /* this agent's, in the texts of its withdrawals */
    int64_t number;                 /* of the newest status that was put; 0: none */
    int64_t confirmed;              /* the greatest number that was confirmed; 0: none */
    bool adopted;                   /* the status of the agent before was looked at */
    bool served;                    /* the kubelet was shown an offer */
    atomic_bool ready;
};

struct reporting *reporting_new(const struct reporting_deps *d)
{
    assert(!d->serves_kubelet || d->kubelet);
    struct reporting *r = xmalloc(sizeof(*r));
    r->d = *d;
    r->due_mono_ms = INT64_MAX;
    r->life = d->seed ^ (uint64_t)clock_wall_ms(d->clk);
    return r;
}

void reporting_within(struct reporting *r, int64_t lag_ms)
{
    assert(lag_ms >= 0);
    int64_t at = clock_mono_ms(r->d.clk) + lag_ms;
    if (at < r->due_mono_ms)
        r->due_mono_ms = at;
}

int64_t reporting_due_mono_ms(const struct reporting *r)
{
    return r->due_mono_ms;
}

bool reporting_is_ready(const struct reporting *r)
{
    return atomic_load(&r->ready);
}

/* --- What is known --- */

/* The kubelet link's part of the state; borrowed from it until the next offer. */
static void add_link(const struct reporting *r, struct node_state *s)
{
    if (!r->d.kubelet)
        return;
    s->holders = kubelet_link_holders(r->d.kubelet);
    s->plugin_state = kubelet_link_state(r->d.kubelet, &s->plugin_text);
    s->neighbours = kubelet_link_neighbours(r->d.kubelet);
    s->contested = kubelet_link_contested(r->d.kubelet);
}

static void add_slots(struct reporting *r, struct node_state *s)
{
    const struct device_slots made = cards_slots_made(r->d.cards);
    s->sick = &r->sick;
    s->shares = &r->d.cards->shares;
    s->breaches = share_watch_breaches(r->d.share_watch);
    if (!r->d.slots)
        return;
    late_binding_sick(r->d.slots, &made, &r->sick);
    jobs_add_stuck_slots(r->d.jobs, &r->sick);
    for (size_t i = 0; i < r->d.cards->n; i++)
        if (r->d.cards->items[i].hangs)
            cards_add_slots_on(r->d.cards, &r->d.cards->items[i].card, &r->sick);
    s->pods_forbidden = late_binding_forbidden(r->d.slots);
}

static struct card_memo *memos_of(const struct card_tracks *tracks)
{
    struct card_memo *memos = xcalloc(tracks->n, sizeof(*memos));
    for (size_t i = 0; i < tracks->n; i++)
        memos[i] = tracks->items[i].memo;
    return memos;
}

/* The state from which the status and the kubelet's list are made. The caller frees *ret_memos. */
static struct node_state state_of(struct reporting *r, struct card_memo **ret_memos)
{
    const struct reporting_deps *d = &r->d;
    const struct own_device *device = spec_source_device(d->spec_source);
    *ret_memos = memos_of(d->tracks);
    struct node_state state = {
        .inventory = d->cards->read ? &d->cards->inventory : NULL,
        .cards = d->cards->items,
        .n_cards = d->cards->n,
        .host = d->host,
        .setup = d->setup,
        .spec = spec_source_spec(d->spec_source),
        .spec_error = device ? device->spec_error : NULL,
        .generation = spec_source_generation(d->spec_source),
        .spec_seen = spec_source_is_seen(d->spec_source),
        .memos = *ret_memos,
        .n_memos = d->tracks->n,
        .busy = d->jobs->busy,
        .n_busy = d->jobs->n_busy,
        .unended = &d->recovery->unended,
        .read_reason = d->readings->reason,
        .read_error = d->readings->error,
        .stuck_call = jobs_stuck_call(d->jobs),
        .health = d->cards->health ? health_watch_memory(d->cards->health) : NULL,
        .agent_version = d->version,
        .node = d->events->node,
        .config = d->config,
        .means = *d->means,
        .koordinator_shares = d->koordinator_shares,
        .nodes = d->writes_slot_files ? cards_device_nodes(d->cards) : NULL,
    };
    add_slots(r, &state);
    add_link(r, &state);
    return state;
}

/* --- The kubelet --- */

static bool may_serve(const struct reporting *r)
{
    return r->d.kubelet && r->d.cards->read && spec_source_may_offer(r->d.spec_source) &&
           r->d.recovery->done;
}

static void serve(struct reporting *r, const struct node_state *state,
                  const struct node_offer *offer)
{
    struct mps_cards cards;
    mps_cards_find(state, &cards);
    kubelet_link_set_mps_cards(r->d.kubelet, &cards);
    kubelet_link_offer(r->d.kubelet, &offer->table);
    r->served = true;
}

bool reporting_has_served(const struct reporting *r)
{
    return r->served;
}

void reporting_serve(struct reporting *r)
{
    auto_node_offer struct node_offer offer = {0};
    auto_free struct card_memo *memos = NULL;
    if (!may_serve(r))
        return;
    const struct node_state state = state_of(r, &memos);
    node_offer_build(&state, clock_wall_ms(r->d.clk), &offer);
    serve(r, &state, &offer);
}

/* --- The status --- */

/* The arrival of the Device, or the end of the reading or of the first recoveries, publishes again.
 * What the last status of the agent before offers of a card is not what stands on it while its
 * change is being ended, but nothing of what that destroys is in it (recovery.h). */
static bool is_too_early(const struct reporting *r)
{
    bool blind = (!r->d.cards->read || recovery_is_first(r->d.recovery)) && !r->d.readings->error &&
                 !r->d.jobs->stuck;
    return !spec_source_is_seen(r->d.spec_source) || (r->published.agent_version && blind);
}

/* Writes koordlet's file. Before the first reading the existing file is the best there is. */
static void write_koordlet_file(const struct reporting *r)
{
    auto_err struct err e = {0};
    const struct device_spec *spec = spec_source_spec(r->d.spec_source);
    if (r->d.koordinator && r->d.cards->read &&
        koord_infos_keep(r->d.koordinator, &r->published, spec, &e) < 0)
        log_warn("Could not write the file of cards for koordlet", kv_err(&e));
}

static struct recovery_facts recovery_facts(const struct reporting *r)
{
    return (struct recovery_facts){.spec = spec_source_spec(r->d.spec_source), .jobs = r->d.jobs};
}

/* The number of the newest status, the next one's included, that the controller has to confirm; 0:
 * nothing waits for that. */
static int64_t number_to_confirm(const struct reporting *r, const struct node_offer *offer)
{
    const struct recovery_facts facts = recovery_facts(r);
    int64_t newest = recovery_number(r->d.recovery, &facts, r->number + 1);
    assert(offer->n == r->d.cards->n);
    for (size_t i = 0; i < r->d.cards->n; i++) {
        const struct card_track *t = card_tracks_find(r->d.tracks, r->d.cards->items[i].card.uuid);
        int64_t number =
            t && t->withdraws ? card_track_number(t, &offer->cards[i], r->number + 1) : 0;
        if (number > newest)
            newest = number;
    }
    return newest > r->confirmed ? newest : 0;
}

/* The text for status.withdrawal; NULL: none. The caller frees it. */
static char *withdrawal_text(const struct reporting *r, const struct node_offer *offer)
{
    int64_t number = r->d.kubelet ? 0 : number_to_confirm(r, offer);
    return number ? xasprintf("%016" PRIx64 "-%" PRId64, r->life, number) : NULL;
}

int64_t reporting_confirmed(struct reporting *r)
{
    const char *text = spec_source_spec(r->d.spec_source)->withdrawn;
    auto_free char *mine = xasprintf("%016" PRIx64 "-", r->life);
    int64_t number = 0;
    if (text && strncmp(text, mine, strlen(mine)) == 0 &&
        num_parse(text + strlen(mine), 1, r->number, &number, NULL) == 0 && number > r->confirmed)
        r->confirmed = number;
    return r->confirmed;
}

/* Remembers what the status with this number offers. */
static void note_told(struct reporting *r, const struct node_offer *offer, int64_t number)
{
    assert(offer->n == r->d.cards->n && number == r->number + 1);
    r->number = number;
    for (size_t i = 0; i < r->d.cards->n; i++) {
        struct card_track *t = card_tracks_find(r->d.tracks, r->d.cards->items[i].card.uuid);
        if (t)
            card_track_told(t, &offer->cards[i], number);
    }
    const struct recovery_facts facts = recovery_facts(r);
    if (recovery_told(r->d.recovery, &facts, number, clock_mono_ms(r->d.clk)) && r->d.kubelet)
        kubelet_link_ask(r->d.kubelet);
}

/* An Event about neighbours other than those that were published last, by an agent before, too. */
static void report_neighbours(const struct reporting *r, const struct device_status *next)
{
    const struct condition *was = condition_get(&r->published.conditions, NEIGHBOURS_CONDITION);
    const struct condition *now = condition_get(&next->conditions, NEIGHBOURS_CONDITION);
    if (now && (!was || strcmp(was->message, now->message) != 0))
        agent_event(r->d.events, /* warning= */ true, now->type, now->message);
}

/* Gives the sampler the node's cards and their holders. */
static void show_telemetry(const struct reporting *r, const struct node_state *s)
{
    auto_telemetry_node struct telemetry_node node = {0};
    if (!r->d.telemetry || !r->d.cards->read)
        return;
    telemetry_node_build(s, r->d.kubelet ? kubelet_link_checkpoint(r->d.kubelet) : NULL, &node);
    sampler_show(r->d.telemetry, &node);
}

void reporting_publish(struct reporting *r)
{
    r->due_mono_ms = INT64_MAX;
    if (is_too_early(r)) {
        reporting_serve(r);
        return;
    }
    auto_free struct card_memo *memos = NULL;
    struct node_state state = state_of(r, &memos);
    auto_node_offer struct node_offer offer;
    struct device_status next;
    int64_t now_ms = clock_wall_ms(r->d.clk);
    node_offer_build(&state, now_ms, &offer);
    if (may_serve(r))
        serve(r, &state, &offer);
    add_link(r, &state);
    if (r->d.kubelet)
        state.outdated = kubelet_link_outdated(r->d.kubelet);
    auto_free const char **unready = NULL;
    if (r->d.serves_kubelet)
        unready = kubelet_link_unready(r->d.kubelet, &state.unready.n);
    state.unready.names = unready;
    auto_free char *withdrawal = withdrawal_text(r, &offer);
    state.withdrawal = withdrawal;
    node_status_build(&state, &offer, &r->published, now_ms, &next);
    report_neighbours(r, &next);
    device_status_done(&r->published);
    r->published = next;
    write_koordlet_file(r);
    show_telemetry(r, &state);
    agent_metrics_show(r->d.metrics, &next, r->d.jobs->stuck);
    note_told(r, &offer, status_writer_put(r->d.status_writer, device_status_encode(&next)));
    atomic_store(&r->ready, r->d.cards->read || r->d.readings->error);
}

/* --- The status of the agent before --- */

/* Takes over the drains with their start times, so that a restart does not prolong a drain. */
static void adopt_drains(struct reporting *r)
{
    for (size_t i = 0; i < r->d.tracks->n; i++) {
        struct card_memo *m = &r->d.tracks->items[i].memo;
        const struct device_card *card = device_status_card(&r->published, m->uuid);
        const struct condition *c = card ? condition_get(&card->conditions, "Applied") : NULL;
        if (!c || !card->has_drain ||
            c->observed_generation != spec_source_generation(r->d.spec_source))
            continue;
        m->drain_since_ms = card->drain.since_ms;
        m->drain_deadline_ms = card->drain.deadline_ms;
    }
}

void reporting_adopt(struct reporting *r)
{
    const struct own_device *d = spec_source_device(r->d.spec_source);
    if (r->adopted || r->published.agent_version || !d || !d->status)
        return;
    r->adopted = true;
    auto_json json_t *status = NULL;
    size_t len = strlen(d->status);
    if (jx_parse(d->status, len, len, &status, /* e= */ NULL) < 0 ||
        !last_status_read(status, &r->published))
        log_warn("Does not go on with a status that no agent wrote",
                 kv_int("generation", spec_source_generation(r->d.spec_source)));
    adopt_drains(r);
}

struct reporting *reporting_free(struct reporting *r)
{
    if (!r)
        return NULL;
    device_status_done(&r->published);
    free(r);
    return NULL;
}
