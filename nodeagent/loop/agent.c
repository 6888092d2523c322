/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/loop/agent_job.h"
#include "nodeagent/loop/card_track.h"
#include "nodeagent/loop/own_device.h"
#include "nodeagent/offer/card_holders.h"
#include "nodeagent/offer/device_entry.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/offer/share.h"
#include "nodeagent/report/node_status.h"
#include "service/conditions.h"
#include "service/resources.h"

enum {
    RESYNC_MS = 30000,
    PUBLISH_LAG_MS = 40, /* a change in progress is published only when it lasts longer */
};

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

struct metrics_handles {
    struct metric *transactions, *held;
    struct metric_series *duration, *cards, *partitions, *stuck;
    struct metric_series *registrations, *granted, *refused; /* NULL: the kubelet is not served */
};

struct agent {
    struct agent_deps d;
    struct agent_job_env env;
    int mail; /* eventfd: the Device changed */
    pthread_mutex_t mu;
    struct object *newest; /* guarded by mu; NULL: no Device */
    bool newest_changed;   /* guarded by mu */
    atomic_bool ready;

    /* The rest belongs to the loop's thread. */
    bool device_seen, inventory_read;
    bool job_running, read_due;
    bool recovered;    /* done once: predecessors' interrupted changes have ended, or are in
                          `unended` */
    bool recovery_due; /* a journal may exist that no attempt will end */
    bool stuck;
    bool kubelet_listed, kubelet_holders; /* news from the kubelet that was not handled yet */
    struct object *device;                /* owns the payload that `spec` points into */
    struct device_spec no_spec;           /* the spec while there is no Device */
    struct gpu_inventory inventory; /* its cards array stays empty; the cards are in `cards` */
    struct card_view *cards;
    size_t n_cards;
    struct host_facts host;
    struct card_tracks tracks;
    char *read_error;
    const char *read_reason;
    struct backoff read_backoff;
    int64_t next_read_mono_ms;
    int64_t publish_mono_ms;   /* INT64_MAX: nothing to publish */
    char busy[GPU_UUID_BYTES]; /* the card whose job runs; "": none */
    struct card_offer busy_offer;
    struct unended unended;
    uint64_t exclusive; /* bit per index: cards wanted in EXCLUSIVE_PROCESS at the last reading */
    struct driver_view *driver_view; /* NULL: not read yet */
    struct device_slots sick;        /* the slots that the newest node_state shows as sick */
    struct device_status published;
    struct rng rng;
    struct metrics_handles metrics;
};

static bool serves_kubelet(const struct agent *a)
{
    return a->d.kubelet && a->d.resource_publisher == API_PUBLISHER_KUBELET;
}

/* --- Jobs --- */

static struct device_slots slots_made(const struct agent *a)
{
    struct device_slots made = {0};
    for (size_t i = 0; i < a->n_cards; i++)
        device_slots_add(&made, &a->cards[i].card);
    return made;
}

static void job_done(void *arg);

static void submit(struct agent *a, struct agent_job *j)
{
    j->driver_view = a->driver_view;
    j->slots_made = slots_made(a);
    if (a->d.kubelet)
        j->holders = holders_copy(kubelet_link_holders(a->d.kubelet));
    auto_err struct err e = {0};
    if (worker_submit(a->d.worker, agent_job_run, job_done, agent_job_free, j, &e) < 0) {
        log_error("Could not queue work for the hardware", kv_err(&e));
        agent_job_free(j);
        return;
    }
    a->job_running = true;
    memcpy(a->busy, j->uuid, sizeof(a->busy));
    a->busy_offer = j->offered;
}

/* --- The spec --- */

static const struct own_device *own(const struct agent *a)
{
    return a->device ? object_payload(a->device) : NULL;
}

static const struct device_spec *spec(const struct agent *a)
{
    const struct own_device *d = own(a);
    return d && !d->spec_error ? &d->spec : &a->no_spec;
}

static const struct device_want *want_of(const struct agent *a, const char *uuid)
{
    return device_spec_want(spec(a), uuid);
}

static struct card_view *view_of(const struct agent *a, const char *uuid)
{
    for (size_t i = 0; i < a->n_cards; i++)
        if (strcmp(a->cards[i].card.uuid, uuid) == 0)
            return &a->cards[i];
    return NULL;
}

static void publish_within(struct agent *a, int64_t lag_ms)
{
    int64_t at = clock_mono_ms(a->d.clk) + lag_ms;
    if (at < a->publish_mono_ms)
        a->publish_mono_ms = at;
}

static void on_device(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    (void)before;
    (void)stale;
    struct agent *a = arg;
    {
        HOLD(&a->mu);
        (void)object_unref(a->newest);
        a->newest = after ? object_ref((struct object *)(uintptr_t)after) : NULL;
        a->newest_changed = true;
    }
    (void)eventfd_write(a->mail, 1);
}

/* True while nothing of the card may be offered. A card that is wanted again, or is being changed,
 * may offer what exists. */
static bool is_withheld(const struct agent *a, const struct unended_card *u)
{
    return !want_of(a, u->uuid) && strcmp(a->busy, u->uuid) != 0;
}

/* True once everything that advertises devices knows that nothing of the card is on offer. h: the
 * holders, NULL without a kubelet. Their list must have been asked for after the kubelet was shown
 * that. */
static bool is_known_withheld(const struct agent *a, const struct unended_card *u,
                              const struct holders *h)
{
    return u->told_number && u->told_number <= publisher_acked(a->d.publisher) &&
           (!h || h->asked_mono_ms >= u->told_mono_ms);
}

/* A recovery goes through all journals. It waits until each unended card that no source wants is
 * known to offer nothing. */
static bool may_recover(const struct agent *a)
{
    const struct holders *h = a->d.kubelet ? kubelet_link_holders(a->d.kubelet) : NULL;
    if (h && !h->known)
        return false; /* a pod may hold a part that the change left */
    for (size_t i = 0; i < a->unended.n; i++) {
        const struct unended_card *u = &a->unended.items[i];
        if (is_withheld(a, u) && !is_known_withheld(a, u, h))
            return false;
    }
    return a->recovery_due;
}

/* Warns once for each reason, because recovery repeats as long as it fails. */
static void warn_unended(const struct unended_card *u, const struct unended_card *known)
{
    if (known && strcmp(known->why, u->why) == 0)
        return;
    log_warn("Could not end an interrupted change", kv("gpu", u->uuid), kv("message", u->why),
             kv("next", u->waits ? "waits for a person" : "tried again at the next reading"));
}

/* Replaces the list of unended cards by the one of this recovery. */
static void take_unended(struct agent *a, struct agent_job *j)
{
    for (size_t i = 0; i < j->unended.n; i++) {
        struct unended_card *u = &j->unended.items[i];
        const struct unended_card *known = unended_find(&a->unended, u->uuid);
        warn_unended(u, known);
        u->told_number = known ? known->told_number : 0;
        u->told_mono_ms = known ? known->told_mono_ms : 0;
    }
    unended_done(&a->unended);
    a->unended = j->unended;
    j->unended = (struct unended){0};
    a->recovery_due = a->unended.n > 0;
}

/* A card whose change failed and that the new spec does not list is not attempted again: recovery
 * ends its change. */
static void follow_spec(struct agent *a, const struct device_spec *before, bool ordered)
{
    for (size_t i = 0; i < a->tracks.n; i++) {
        const struct card_memo *m = &a->tracks.items[i].memo;
        if (m->result.outcome == TXN_FAILED && !want_of(a, m->uuid))
            unended_note(&a->unended, m->uuid, &m->result);
    }
    for (size_t i = 0; i < a->unended.n; i++)
        if (!is_withheld(a, &a->unended.items[i]))
            a->unended.items[i].told_number = 0;
    card_tracks_follow(&a->tracks, before, spec(a), ordered);
    publish_within(a, PUBLISH_LAG_MS);
}

/* Compares contents, not generations: a stored spec can read differently under another schema, or
 * after bits have flipped, and back again. */
static bool same_spec(const struct device_spec *x, const struct device_spec *y)
{
    auto_json json_t *a = device_spec_encode(x);
    auto_json json_t *b = device_spec_encode(y);
    return json_equal(a, b);
}

static void take_device(struct agent *a)
{
    struct object *next;
    {
        HOLD(&a->mu);
        if (!a->newest_changed)
            return;
        a->newest_changed = false;
        next = a->newest ? object_ref(a->newest) : NULL;
    }
    struct object *old = a->device;
    const struct device_spec *before = spec(a);
    bool known = a->device_seen && next && old && strcmp(object_uid(next), object_uid(old)) == 0;
    bool same = known && object_generation(next) == object_generation(old);
    a->device = next;
    a->device_seen = true;
    if (!same || !same_spec(before, spec(a)))
        follow_spec(a, before, known);
    const struct own_device *d = own(a);
    if (d && d->spec_error)
        log_error("Could not read the spec of Device", kv("object", a->d.node),
                  kv("error", d->spec_error));
    (void)object_unref(old);
    publisher_kick(a->d.publisher);
}

/* --- The next step --- */

static void refuse_want(struct agent *a, struct card_track *t, const char *reason, const char *why)
{
    card_track_refuse(t, reason, why);
    publish_within(a, 0);
}

static void publish(struct agent *a);
static void serve_offer(struct agent *a);

/* True when the controller withdrew from the Node everything that the change destroys, before it
 * ordered the change. The controller knows how many parts of each kind stay, not which ones: a part
 * that has to move it left on offer. */
static bool is_ordered(const struct agent *a, const struct card_track *t,
                       const struct gpu_card *card, const struct card_steps *steps)
{
    const struct device_want *want = want_of(a, t->memo.uuid);
    struct card_offer left;
    card_offer_of(card, &left);
    card_offer_withdraw(&left, steps);
    return card_track_is_ordered(t) &&
           (want->mode == API_MODE_NATIVE || card_offer_keeps(&left, card, want));
}

/* The most that anyone may still assume is available on this card: everything that exists, minus
 * what the controller withdrew before ordering this change, or what the last acknowledged status
 * offers. */
static void advertised_offer(const struct agent *a, const struct card_track *t,
                             const struct gpu_card *card, const struct card_steps *steps,
                             struct card_offer *ret)
{
    card_offer_of(card, ret);
    if (is_ordered(a, t, card, steps))
        card_offer_withdraw(ret, steps);
    else if (t->told_number && t->told_number <= publisher_acked(a->d.publisher))
        *ret = t->told;
}

/* --- Withdrawal from the kubelet --- */

static void mark_holders(const struct agent *a, struct card_view *v)
{
    const struct device_slots made = slots_made(a);
    if (a->d.kubelet)
        card_holders_mark(kubelet_link_holders(a->d.kubelet), &made, &v->card);
}

/* Slots belong to no card: the slice of a slot granted late is made on another one. */
static bool is_of_slot(const struct card_part *p)
{
    return p->slice && sgpu_slot_of(p->slice->alias) >= 0;
}

/* Ids of devices, as the kubelet knows them. */
struct id_list {
    char **items;
    size_t n;
};

static void id_list_done(struct id_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i]);
    free(l->items);
}
AUTO_DEFINE(id_list, struct id_list, id_list_done)
#define auto_id_list AUTO(id_list)

static void add_id(struct id_list *l, const struct gpu_card *card, const struct card_part *part)
{
    char id[DEVICE_ID_BYTES];
    *XPUSH(l->items, l->n) = xstrdup(device_id(card, part, id));
}

/* Adds all devices of the card that `stays` does not offer. */
static void add_ids(struct id_list *l, const struct gpu_card *card, const struct card_offer *stays)
{
    if (!stays->whole)
        add_id(l, card, /* part= */ NULL);
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        if (!card_offer_has(stays, &part) && !is_of_slot(&part))
            add_id(l, card, &part);
    }
}

/* Owners of seals that are not a card's. */
static const char seal_of_recovery[] = "recovery";
static const char seal_of_slots[] = "slots";

/* Seals these devices: the kubelet's grants of them are refused from now on. */
static void seal(struct agent *a, const char *owner, const struct id_list *goes)
{
    kubelet_link_seal(a->d.kubelet, owner, (const char *const *)goes->items, goes->n);
}

/* Takes the seals off the cards whose attempt was given up or is no longer wanted. Every other card
 * keeps its seal until its own job ended: without it an MPS daemon that was ended for the change
 * would be started again. */
static void unseal_cards(struct agent *a)
{
    for (size_t i = 0; a->d.kubelet && i < a->n_cards; i++) {
        const char *uuid = a->cards[i].card.uuid;
        const struct card_track *t = card_tracks_find(&a->tracks, uuid);
        if (strcmp(a->busy, uuid) != 0 && !(t && t->sealed_mono_ms))
            kubelet_link_unseal(a->d.kubelet, uuid);
    }
}

/* The three steps of a withdrawal from the kubelet (kubelet_link.h). The plan was made with the
 * holders known now, so once the seal is set no pod holds what goes. */
static bool is_withdrawn_from_kubelet(struct agent *a, struct card_track *t,
                                      const struct card_view *v, const struct card_steps *steps,
                                      struct agent_job *j)
{
    const struct holders *h = kubelet_link_holders(a->d.kubelet);
    card_track_begin(t);
    if (!t->withdrawn_mono_ms) {
        t->withdrawn_mono_ms = clock_mono_ms(a->d.clk);
        publish(a);
        kubelet_link_ask(a->d.kubelet);
    }
    if (!h->known || h->asked_mono_ms < t->withdrawn_mono_ms)
        return false;
    card_offer_withdraw(&j->offered, steps);
    auto_id_list struct id_list goes = {0};
    add_ids(&goes, &v->card, &j->offered);
    seal(a, t->memo.uuid, &goes);
    card_track_seal(t, clock_mono_ms(a->d.clk));
    return kubelet_link_is_released(a->d.kubelet, t->memo.uuid);
}

/* True once nothing that the change removes is still advertised; starts the withdrawal otherwise. A
 * change that removes nothing does not wait. */
static bool is_withdrawn(struct agent *a, struct card_track *t, const struct card_view *v,
                         struct agent_job *j)
{
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    card_plan(&v->card, &j->wish, plan);
    card_offer_of(&v->card, &j->offered);
    bool takes = plan->verdict == CARD_CHANGE && !card_offer_allows(&j->offered, &plan->steps);
    if (a->d.kubelet)
        return !takes || is_withdrawn_from_kubelet(a, t, v, &plan->steps, j);
    if (!takes) {
        advertised_offer(a, t, &v->card, &plan->steps, &j->offered);
        return true;
    }
    card_track_begin(t);
    bool told = t->told_number && card_offer_allows(&t->told, &plan->steps);
    if (!told && !is_ordered(a, t, &v->card, &plan->steps))
        publish(a);
    advertised_offer(a, t, &v->card, &plan->steps, &j->offered);
    return card_offer_allows(&j->offered, &plan->steps);
}

static void await_withdrawal(struct agent *a, struct card_track *t)
{
    static const struct txn_result not_acked = {
        .outcome = TXN_NOT_WITHDRAWN,
        .reason = "NotWithdrawn",
        .message = "the API server did not acknowledge in time that the parts to be removed are no "
                   "longer offered; nothing was changed",
    };
    static const struct txn_result not_listed = {
        .outcome = TXN_NOT_WITHDRAWN,
        .reason = "NotWithdrawn",
        .message =
            "the kubelet did not report in time which pods hold the parts to be removed; nothing "
            "was changed",
    };
    static const struct txn_result not_ended = {
        .outcome = TXN_NOT_WITHDRAWN,
        .reason = "NotWithdrawn",
        .message = "the MPS control daemon of what would have to go did not end in time; nothing "
                   "was changed",
    };
    const struct txn_result *late = t->sealed_mono_ms ? &not_ended
                                    : a->d.kubelet    ? &not_listed
                                                      : &not_acked;
    int64_t now = clock_mono_ms(a->d.clk);
    if (!t->await_mono_ms) {
        card_track_await(t, now);
        return;
    }
    const struct card_track_clock clock = {a->d.clk, &a->rng};
    card_track_note(t, want_of(a, t->memo.uuid), late, &clock);
    log_warn("Could not begin a change", kv("gpu", t->memo.uuid), kv("error", late->message));
    publish_within(a, 0);
}

/* The illness of the card that only an Xid reported, so that a transaction's own reading cannot
 * show it. NULL: none. */
static const char *remembered_illness(const struct agent *a, const char *uuid)
{
    const char *reason = NULL;
    const char *message = NULL;
    return a->d.health && health_card(health_watch_memory(a->d.health), uuid, &reason, &message)
               ? message
               : NULL;
}

static void start_card(struct agent *a, struct card_track *t)
{
    const struct card_view *v = view_of(a, t->memo.uuid);
    if (!v) {
        refuse_want(a, t, "DeviceNotFound", "there is no such card on this node");
        return;
    }
    if (v->card.unread) {
        refuse_want(a, t, "ReadFailed", v->card.unhealthy_message);
        return;
    }
    const char *ill = remembered_illness(a, t->memo.uuid);
    if (ill) {
        refuse_want(a, t, "Unhealthy", ill);
        return;
    }
    const struct device_want *want = want_of(a, t->memo.uuid);
    const char *unshareable = share_refusal(v->card.vendor, want, a->d.resource_publisher);
    if (unshareable) {
        refuse_want(a, t, "MPSUnsupported", unshareable);
        return;
    }
    struct agent_job *j = agent_job_new(AGENT_JOB_CARD, &a->env, a);
    auto_err struct err e = {0};
    if (card_wish_of(&v->card, want, &j->wish, &e) < 0) {
        refuse_want(a, t, e.kind == ERR_NOT_FOUND ? "UnknownProfile" : "Invalid", err_msg(&e));
        agent_job_free(j);
        return;
    }
    if (a->d.kubelet && t->memo.result.outcome == TXN_IN_USE)
        kubelet_link_ask(a->d.kubelet);
    if (!is_withdrawn(a, t, v, j)) {
        await_withdrawal(a, t);
        agent_job_free(j);
        return;
    }
    j->policy = want->failure_policy == API_HOLD ? TXN_HOLD : TXN_ROLLBACK;
    memcpy(j->uuid, t->memo.uuid, sizeof(j->uuid));
    (void)snprintf(j->boot_id, sizeof(j->boot_id), "%s", a->inventory.boot_id);
    submit(a, j);
}

/* True when the card is whole and shared by MPS. */
static bool wants_exclusive(const struct agent *a, const struct gpu_card *card)
{
    const struct device_want *want = want_of(a, card->uuid);
    const struct share_rules rules = {a->d.config, share_strategy(a->d.config, spec(a)),
                                      a->d.resource_publisher};
    const struct share share = share_of(&rules, card->vendor, want, /* profile= */ NULL);
    return card->mode == GPU_NATIVE && (!want || want->mode == API_MODE_NATIVE) &&
           share.kind == SHARE_MPS;
}

/* Lists the cards wanted in EXCLUSIVE_PROCESS. Valid only once the Device and the cards are known:
 * before that a starting agent must not take the mode back. */
static void list_exclusive(const struct agent *a, struct agent_job *j)
{
    j->modes_known = serves_kubelet(a) && a->device_seen && a->inventory_read;
    for (size_t i = 0; j->modes_known && i < a->n_cards; i++)
        if (wants_exclusive(a, &a->cards[i].card))
            *XPUSH(j->exclusive, j->n_exclusive) = xstrdup(a->cards[i].card.uuid);
}

/* True when the cards wanted in EXCLUSIVE_PROCESS differ from those of the last reading. */
static bool modes_have_changed(struct agent *a)
{
    uint64_t wanted = 0;
    if (!serves_kubelet(a) || !a->device_seen || !a->inventory_read)
        return false;
    for (size_t i = 0; i < a->n_cards && i < 64; i++)
        wanted |= (uint64_t)wants_exclusive(a, &a->cards[i].card) << i;
    bool changed = wanted != a->exclusive;
    a->exclusive = wanted;
    return changed;
}

/*
 * Sets what a recovery must not destroy.
 *
 * The first recovery needs no bound. The kubelet is shown a device only after it (serve_state), and
 * grants nothing without this agent's answer. Grants of the agent before are in the list that
 * may_recover waits for, so they are in use. What that agent's change destroys it had withdrawn
 * before it wrote the journal, and the Device still says so.
 *
 * A later recovery may destroy everything on a card that no source wants: nothing of it is on
 * offer, which may_recover made sure of, and it is sealed against grants on their way. On all other
 * cards everything that exists may be on offer, so it stays. The change of a wanted card is ended
 * by its next attempt, with a withdrawal (is_withdrawn).
 */
static void guard_offers(struct agent *a, struct agent_job *j)
{
    auto_id_list struct id_list withheld = {0};
    for (size_t i = 0; j->recover && a->recovered && i < a->n_cards; i++) {
        const struct gpu_card *card = &a->cards[i].card;
        const struct unended_card *u = unended_find(&a->unended, card->uuid);
        if (u && is_withheld(a, u)) {
            add_ids(&withheld, card, &(const struct card_offer){0});
            continue;
        }
        struct agent_card_offer *o = XPUSH(j->offers, j->n_offers);
        memcpy(o->uuid, card->uuid, sizeof(o->uuid));
        card_offer_of(card, &o->offer);
    }
    if (a->d.kubelet && withheld.n)
        seal(a, seal_of_recovery, &withheld);
}

static void start_read(struct agent *a)
{
    struct agent_job *j = agent_job_new(AGENT_JOB_READ, &a->env, a);
    j->recover = may_recover(a);
    guard_offers(a, j);
    a->read_due = false;
    list_exclusive(a, j);
    submit(a, j);
}

/* Cards in the order of their indices, as people count them. */
static struct card_track *next_card(struct agent *a)
{
    int64_t now = clock_mono_ms(a->d.clk);
    struct card_track *next = NULL;
    unsigned lowest = UINT_MAX;
    for (size_t i = 0; i < a->tracks.n; i++) {
        struct card_track *t = &a->tracks.items[i];
        if (!card_track_is_due(t, now))
            continue;
        const struct card_view *v = view_of(a, t->memo.uuid);
        unsigned index = v ? v->card.index : UINT_MAX - 1;
        if (index >= lowest)
            continue;
        lowest = index;
        next = t;
    }
    return next;
}

static void take_acknowledgement(struct agent *a)
{
    eventfd_t n;
    (void)eventfd_read(publisher_fd(a->d.publisher), &n);
    card_tracks_acked(&a->tracks, publisher_acked(a->d.publisher));
}

/* --- Slots --- */

static bool slots_are_served(const struct agent *a)
{
    return a->d.slots && a->recovered && a->device_seen && a->inventory_read;
}

/* New slices are made only where the card is as wanted and no change is under way. */
static bool is_open(struct agent *a, const struct gpu_card *card)
{
    const struct device_want *want = want_of(a, card->uuid);
    const struct card_track *t = card_tracks_find(&a->tracks, card->uuid);
    bool settled =
        !t || (t->memo.progress == PROGRESS_DONE && (t->memo.result.outcome == TXN_APPLIED ||
                                                     t->memo.result.outcome == TXN_NOTHING_TO_DO));
    return card->healthy && !card->unread && settled && !unended_find(&a->unended, card->uuid) &&
           (!want || want->mode == API_MODE_SGPU);
}

/* The device files for the CDI files of slots. NULL: none are written, or they are not known
 * yet. */
static const struct container_nodes *slot_nodes(const struct agent *a)
{
    return a->d.cdi_slots && a->driver_view ? &a->driver_view->nodes : NULL;
}

static struct slot_card *slot_cards(struct agent *a, size_t *ret_n)
{
    struct slot_card *list = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < a->n_cards; i++) {
        const struct gpu_card *card = &a->cards[i].card;
        const struct device_want *want = want_of(a, card->uuid);
        if (card->mode != GPU_SGPU || !card_makes_slices(card, want))
            continue;
        bool declared = want && want->sgpu.has_qos_policy;
        bool has_nodes = device_check_nodes(slot_nodes(a), card, /* e= */ NULL) == 0;
        *XPUSH(list, *ret_n) = (struct slot_card){.card = card,
                                                  .qos = declared ? want->sgpu.qos_policy : -1,
                                                  .open = has_nodes && is_open(a, card)};
    }
    return list;
}

/* For everything else the card stays as it is. */
static void submit_slots(struct agent *a, struct agent_job *j)
{
    const struct card_view *v = *j->uuid ? view_of(a, j->uuid) : NULL;
    if (v)
        card_offer_of(&v->card, &j->offered);
    submit(a, j);
}

/* Seals the slots until their CDI files exist, so that no other pod is granted them meanwhile. */
static void seal_slots(struct agent *a, const struct slot_binding *b)
{
    char(*ids)[DEVICE_ID_BYTES] = xcalloc(b->n, sizeof(*ids));
    auto_free const char **list = xcalloc(b->n, sizeof(char *));
    for (size_t i = 0; i < b->n; i++)
        list[i] = device_slot_id(b->grants[i].slot, ids[i]);
    kubelet_link_seal(a->d.kubelet, seal_of_slots, list, b->n);
    free(ids);
}

/* True while some card is due for an attempt: it is not known yet what that attempt destroys. */
static bool is_pending(const struct agent *a)
{
    for (size_t i = 0; i < a->tracks.n; i++)
        if (card_track_is_due(&a->tracks.items[i], clock_mono_ms(a->d.clk)))
            return true;
    return false;
}

static const char *card_of_slot(const struct agent *a, unsigned slot)
{
    for (size_t i = 0; i < a->n_cards; i++) {
        struct device_slots made = {0};
        device_slots_add(&made, &a->cards[i].card);
        if (device_slots_has(&made, slot))
            return a->cards[i].card.uuid;
    }
    return "";
}

static bool start_binding(struct agent *a)
{
    size_t n;
    struct slot_binding b;
    const struct device_slots made = slots_made(a);
    if (is_pending(a))
        return false;
    auto_free struct slot_card *cards = slot_cards(a, &n);
    if (!late_binding_next(a->d.slots, cards, n, &made, &b))
        return false;
    struct agent_job *j = agent_job_new(AGENT_JOB_BIND, &a->env, a);
    j->binding = b;
    for (size_t i = 0; i < b.n && !*j->uuid; i++)
        (void)snprintf(j->uuid, sizeof(j->uuid), "%s",
                       b.unplaced.kind ? card_of_slot(a, b.grants[i].slot) : b.grants[i].card);
    seal_slots(a, &b);
    submit_slots(a, j);
    return true;
}

static bool start_release(struct agent *a)
{
    const struct device_slots made = slots_made(a);
    unsigned slot = 0;
    if (!late_binding_release(a->d.slots, kubelet_link_holders(a->d.kubelet), &made, &slot))
        return false;
    struct agent_job *j = agent_job_new(AGENT_JOB_RELEASE, &a->env, a);
    j->slot = slot;
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", card_of_slot(a, slot));
    submit_slots(a, j);
    return true;
}

static void ask_right(struct agent *a)
{
    size_t n;
    auto_free struct slot_card *cards = slot_cards(a, &n);
    (void)cards; /* only their number matters here */
    late_binding_ask_right(a->d.slots, n > 0);
}

/* Runs before changes of layouts, because a container is waiting for its slots. */
static bool start_slots(struct agent *a)
{
    if (slots_are_served(a))
        ask_right(a);
    return slots_are_served(a) && (start_release(a) || start_binding(a));
}

static void event(struct agent *a, bool warning, const char *reason, const char *message)
{
    const struct event_about node = {.resource = &resource_nodes,
                                     .name = a->d.node,
                                     .uid = a->d.node};
    recorder_event_about(a->d.recorder, &node, warning, reason, "%s", message);
}

/* Reports the containers whose slots could not be bound. The Event is on the Node, because the
 * agent's account may not write Events about pods (config/admission). */
static void report_unbound(struct agent *a)
{
    struct unbound u;
    while (late_binding_news(a->d.slots, &u)) {
        auto_free char *text =
            xasprintf("pod %s/%s, container %s: %s", u.ns, u.pod, u.container, u.why);
        event(a, /* warning= */ true, "SliceNotMade", text);
    }
}

static void start_next(struct agent *a)
{
    take_acknowledgement(a);
    unseal_cards(a);
    if (!a->job_running && clock_mono_ms(a->d.clk) >= a->next_read_mono_ms)
        a->read_due = true; /* a reading under way sets the next due time when it ends */
    if (!a->job_running && modes_have_changed(a))
        a->read_due = true;
    while (!a->job_running) {
        if (start_slots(a))
            return;
        if (a->read_due || !a->inventory_read) {
            if (clock_mono_ms(a->d.clk) < a->next_read_mono_ms && !a->read_due)
                return;
            start_read(a);
            return;
        }
        struct card_track *t = a->device_seen ? next_card(a) : NULL;
        if (!t)
            return;
        start_card(a, t);
    }
}

/* --- Results --- */

/* Reports the result in memo.result by an Event and the log. */
static void report_result(struct agent *a, const struct card_view *v, const struct txn_result *was,
                          const struct card_memo *memo)
{
    const struct txn_result *now = &memo->result;
    if (was->outcome == now->outcome && strcmp(was->message, now->message) == 0 && !now->changed)
        return;
    bool good = now->outcome == TXN_APPLIED || now->outcome == TXN_NOTHING_TO_DO;
    log_info("Applied a layout", kv("gpu", v->card.uuid),
             kv("outcome", txn_outcome_name(now->outcome)), kv("message", now->message),
             kv_int("steps", now->steps));
    if (good && !now->changed)
        return;
    auto_free char *layout = card_layout_words(&v->card);
    auto_free char *text = good && !v->outdated
                               ? xasprintf("GPU %u: now %s", v->card.index, layout)
                               : xasprintf("GPU %u: %s", v->card.index, now->message);
    const char *reason = card_memo_reason(want_of(a, v->card.uuid), memo, clock_wall_ms(a->d.clk));
    event(a, !good, good ? "Repartitioned" : reason, text);
}

static void count(struct agent *a, const struct agent_job *j)
{
    if (!a->d.metrics)
        return;
    metric_add(METRIC_WITH(a->metrics.transactions, txn_outcome_name(j->result.outcome)), 1);
    if (j->result.changed)
        metric_observe(a->metrics.duration, (double)j->took_ms / 1000);
}

/* Health is taken from the reading before remembered illnesses are added to it. */
static void take_health(struct agent *a, const struct agent_job *j)
{
    if (!a->d.health || j->rc < 0)
        return;
    if (j->kind == AGENT_JOB_READ)
        health_watch_read(a->d.health, j->views, j->n_views, /* all= */ true, j->began_mono_ms);
    else
        health_watch_read(a->d.health, &j->view, 1, /* all= */ false, j->began_mono_ms);
}

static void mark_health(struct agent *a)
{
    if (a->d.health)
        health_watch_mark(a->d.health, a->cards, a->n_cards);
}

static void end_slots(struct agent *a, struct agent_job *j)
{
    struct card_view *v = *j->uuid ? view_of(a, j->uuid) : NULL;
    const struct err *err = j->err.kind ? &j->err : NULL;
    if (v && *j->view.card.uuid) {
        card_view_done(v);
        *v = j->view;
        j->view = (struct card_view){0};
        mark_health(a);
    } else {
        a->read_due = true;
    }
    for (size_t i = 0; i < j->binding.n; i++)
        a->read_due |= strcmp(j->binding.grants[i].card, j->uuid) != 0;
    if (j->kind == AGENT_JOB_BIND)
        late_binding_bound(a->d.slots, &j->binding, err);
    else
        late_binding_released(a->d.slots, j->slot, err);
    for (size_t i = 0; i < a->n_cards; i++)
        mark_holders(a, &a->cards[i]);
    late_binding_stir(a->d.slots);
    card_tracks_stir(&a->tracks, clock_mono_ms(a->d.clk));
}

static void end_card(struct agent *a, struct agent_job *j)
{
    struct card_view *v = view_of(a, j->uuid);
    struct card_track *t = card_tracks_find(&a->tracks, j->uuid);
    if (v && j->rc == 0) {
        take_health(a, j);
        card_view_done(v);
        *v = j->view;
        j->view = (struct card_view){0};
        mark_health(a);
        mark_holders(a, v);
    } else {
        a->read_due = true;
        if (v)
            v->outdated |= j->result.changed;
    }
    count(a, j);
    /* If the card is no longer wanted, the next reading recovers the journal. */
    a->recovery_due |= j->result.outcome == TXN_FAILED;
    if (!t) {
        if (j->result.outcome == TXN_FAILED)
            unended_note(&a->unended, j->uuid, &j->result);
        return;
    }
    const struct txn_result was = t->memo.result;
    /* The want may have changed while the job ran: then the card is pending again and stays so. */
    struct card_wish now;
    const struct device_want *want = want_of(a, j->uuid);
    bool current = v && want && card_wish_of(&v->card, want, &now, NULL) == 0 &&
                   card_wish_equal(&now, &j->wish);
    const struct card_track_clock clock = {a->d.clk, &a->rng};
    if (current)
        card_track_note(t, want, &j->result, &clock);
    struct card_memo said = t->memo;
    said.result = j->result;
    if (v && j->result.outcome != TXN_NOT_WITHDRAWN)
        report_result(a, v, &was, &said);
}

/* A card that could not be read must not appear as an idle whole card: it keeps its last reading,
 * together with its illness. */
static void keep_last_seen(struct card_view *last, struct card_view *now)
{
    const struct gpu_card ill = now->card;
    card_view_done(now);
    *now = *last;
    *last = (struct card_view){0};
    now->card.index = ill.index;
    now->card.healthy = ill.healthy;
    memcpy(now->card.unhealthy_reason, ill.unhealthy_reason, sizeof(ill.unhealthy_reason));
    memcpy(now->card.unhealthy_message, ill.unhealthy_message, sizeof(ill.unhealthy_message));
}

static void replace_cards(struct agent *a, struct agent_job *j)
{
    for (size_t i = 0; i < j->n_views; i++) {
        struct gpu_card *card = &j->views[i].card;
        struct card_view *last = card->unread && *card->uuid ? view_of(a, card->uuid) : NULL;
        if (last)
            keep_last_seen(last, &j->views[i]);
    }
    for (size_t i = 0; i < a->n_cards; i++)
        card_view_done(&a->cards[i]);
    free(a->cards);
    gpu_inventory_done(&a->inventory);
    a->cards = TAKE(j->views);
    a->n_cards = j->n_views;
    j->n_views = 0;
    for (size_t i = 0; i < a->n_cards; i++)
        mark_holders(a, &a->cards[i]);
    a->inventory = j->inventory;
    j->inventory = (struct gpu_inventory){0};
    if (!serves_kubelet(a))
        return;
    int numa[GPU_MAX_CARDS];
    for (size_t i = 0; i < a->n_cards && i < ARRAY_LEN(numa); i++)
        numa[i] = a->cards[i].card.numa_node;
    kubelet_link_set_topology(a->d.kubelet, &a->inventory.topology, numa);
    if (!j->new_driver_view)
        return;
    kubelet_link_set_driver(a->d.kubelet, j->new_driver_view);
    (void)driver_view_free(a->driver_view);
    a->driver_view = TAKE(j->new_driver_view);
}

static void recheck(struct agent *a)
{
    for (size_t i = 0; i < a->tracks.n; i++) {
        struct card_track *t = &a->tracks.items[i];
        const struct card_view *v = view_of(a, t->memo.uuid);
        if (v)
            card_track_recheck(t, v, want_of(a, t->memo.uuid));
    }
}

/* True when some card has never been read. */
static bool has_unread_card(const struct agent *a)
{
    for (size_t i = 0; i < a->n_cards; i++)
        if (a->cards[i].card.unread)
            return true;
    return false;
}

/* Binds anew the slots whose slices another program removed: until then their CDI files name slices
 * that are gone. */
static void rebind_lost(struct agent *a)
{
    const struct device_slots made = slots_made(a);
    unsigned slot;
    while (late_binding_lost(a->d.slots, &made, &slot)) {
        auto_err struct err e = {0};
        auto_free char *name = cdi_slot_name(slot);
        log_warn("Another program removed a pod's slice: making it again", kv_int("slot", slot));
        if (a->d.cdi_slots && cdi_slots_remove(a->d.cdi_slots, name, &e) < 0)
            log_warn("Could not remove the CDI file of a slot", kv_int("slot", slot), kv_err(&e));
    }
}

static void note_failure(struct agent *a, const char *reason, const struct err *why)
{
    if (!a->read_error || strcmp(a->read_error, err_msg(why)) != 0)
        log_warn("Could not read the node", kv_err(why));
    xstr_set(&a->read_error, err_msg(why));
    a->read_reason = reason;
    a->next_read_mono_ms =
        clock_mono_ms(a->d.clk) + backoff_next_ms(&a->read_backoff, a->d.clk, &a->rng);
}

/* True when the journals could not be listed. A card between two layouts then looks like any other,
 * so a starting agent counts as having read nothing. A later agent continues with the unended cards
 * that it knows; a change of a card looks for that card's journal itself (txn_apply). */
static bool is_blind(const struct agent *a, const struct agent_job *j)
{
    return j->unlisted.kind && !a->recovered;
}

static void end_recovery(struct agent *a, struct agent_job *j)
{
    a->recovered = true;
    take_unended(a, j);
    if (a->d.slots)
        late_binding_found(a->d.slots, j->slots_found, j->n_slots_found);
}

static void end_read(struct agent *a, struct agent_job *j)
{
    int64_t resync = a->d.resync_ms ? a->d.resync_ms : RESYNC_MS;
    int64_t now = clock_mono_ms(a->d.clk);
    if (a->d.kubelet)
        kubelet_link_check(a->d.kubelet);
    a->host = j->host;
    if (j->rc == 0 && !is_blind(a, j)) {
        bool is_driver_new = j->new_driver_view;
        take_health(a, j);
        replace_cards(a, j);
        mark_health(a);
        a->inventory_read = true;
        if (j->recover && !j->unlisted.kind)
            end_recovery(a, j);
        free(TAKE(a->read_error));
        a->next_read_mono_ms = now + resync;
        if (has_unread_card(a))
            a->next_read_mono_ms =
                now + least(resync, backoff_next_ms(&a->read_backoff, a->d.clk, &a->rng));
        else
            backoff_reset(&a->read_backoff);
        recheck(a);
        if (a->d.slots) {
            if (!has_unread_card(a))
                rebind_lost(a);
            if (is_driver_new) /* device files may have other numbers */
                late_binding_again(a->d.slots);
            late_binding_stir(a->d.slots);
        }
    }
    if (j->rc < 0)
        note_failure(a, j->err.kind == ERR_NOT_FOUND ? "DriverNotLoaded" : "ReadFailed", &j->err);
    else if (j->unlisted.kind)
        note_failure(a, "JournalUnreadable", &j->unlisted);
}

static const char *seal_of(const struct agent_job *j)
{
    if (j->kind == AGENT_JOB_READ)
        return seal_of_recovery;
    return j->kind == AGENT_JOB_CARD ? j->uuid : seal_of_slots;
}

static void job_done(void *arg)
{
    struct agent_job *j = arg;
    struct agent *a = j->owner;
    a->job_running = false;
    a->busy[0] = '\0';
    if (j->kind == AGENT_JOB_READ)
        end_read(a, j);
    else if (j->kind == AGENT_JOB_CARD)
        end_card(a, j);
    else
        end_slots(a, j);
    serve_offer(a); /* before the seal is taken off */
    if (a->d.kubelet)
        kubelet_link_unseal(a->d.kubelet, seal_of(j));
    agent_job_free(j);
    publish_within(a, next_card(a) ? PUBLISH_LAG_MS : 0);
}

/* --- Publishing --- */

struct rows {
    const char **values;
    size_t n;
};

static void add_held(struct rows *r, const char *gpu, const char *partition,
                     const struct device_consumer *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct device_consumer *c = &list[i];
        if (!c->name)
            continue; /* a process, not a pod */
        const char *const row[] = {gpu, partition, c->namespace, c->name, c->container};
        for (size_t k = 0; k < ARRAY_LEN(row); k++)
            *XPUSH(r->values, r->n) = row[k];
    }
}

static void grow_to(struct metric_series *s, int64_t total)
{
    metric_add(s, total - metric_value(s));
}

static void count_kubelet(struct agent *a, const struct device_status *st)
{
    struct rows rows = {0};
    struct plugin_stats stats = kubelet_link_stats(a->d.kubelet);
    if (serves_kubelet(a)) {
        grow_to(a->metrics.registrations, stats.registrations);
        grow_to(a->metrics.granted, stats.allocations - stats.refused);
        grow_to(a->metrics.refused, stats.refused);
    }
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_card *c = &st->devices[i];
        add_held(&rows, c->uuid, "", c->in_use_by, c->n_in_use_by);
        for (size_t k = 0; k < c->n_partitions; k++)
            add_held(&rows, c->uuid, c->partitions[k].uuid, c->partitions[k].in_use_by,
                     c->partitions[k].n_in_use_by);
    }
    metric_facts(a->metrics.held, rows.values, rows.n / 5);
    free(rows.values);
}

static void set_gauges(struct agent *a, const struct device_status *st)
{
    if (!a->d.metrics)
        return;
    metric_set(a->metrics.cards, st->summary.gpus);
    metric_set(a->metrics.partitions, st->summary.partitions);
    metric_set(a->metrics.stuck, a->stuck);
    if (a->d.kubelet)
        count_kubelet(a, st);
}

/* A starting agent must not withdraw what the agent before it published only because it has not
 * read the hardware yet: the node would lose its resources for that time. The arrival of the
 * Device, or the end of the reading, publishes again. */
static bool is_too_early(const struct agent *a)
{
    bool blind = !a->inventory_read && !a->read_error && !a->stuck;
    return !a->device_seen || (a->published.agent_version && blind);
}

static void note_told(struct agent *a, const struct node_offer *offer, int64_t number)
{
    for (size_t i = 0; i < a->n_cards; i++) {
        struct card_track *t = card_tracks_find(&a->tracks, a->cards[i].card.uuid);
        if (t)
            card_track_told(t, &offer->cards[i], number);
    }
    bool withheld = false;
    for (size_t i = 0; i < a->unended.n; i++) {
        struct unended_card *u = &a->unended.items[i];
        if (u->told_number || !is_withheld(a, u))
            continue;
        u->told_number = number;
        u->told_mono_ms = clock_mono_ms(a->d.clk);
        withheld = true;
    }
    if (withheld && a->d.kubelet)
        kubelet_link_ask(a->d.kubelet);
}

/* The kubelet link's part of the state; borrowed from it until the next offer. */
static void add_link(const struct agent *a, struct node_state *s)
{
    if (!a->d.kubelet)
        return;
    s->holders = kubelet_link_holders(a->d.kubelet);
    s->plugin_state = kubelet_link_state(a->d.kubelet, &s->plugin_text);
}

/* The state from which the status and the kubelet's list are made. The caller frees *ret_memos. */
static struct node_state state_of(struct agent *a, struct card_memo **ret_memos)
{
    const struct device_slots made = slots_made(a);
    struct card_memo *memos = xcalloc(a->tracks.n, sizeof(*memos));
    for (size_t i = 0; i < a->tracks.n; i++)
        memos[i] = a->tracks.items[i].memo;
    *ret_memos = memos;
    const char *call = NULL;
    int64_t since;
    const struct own_device *device = own(a);
    struct node_state state = {
        .inventory = a->inventory_read ? &a->inventory : NULL,
        .cards = a->cards,
        .n_cards = a->n_cards,
        .host = &a->host,
        .spec = spec(a),
        .spec_error = device ? device->spec_error : NULL,
        .generation = a->device ? object_generation(a->device) : 0,
        .spec_seen = a->device_seen,
        .memos = memos,
        .n_memos = a->tracks.n,
        .busy = *a->busy ? a->busy : NULL,
        .busy_offer = &a->busy_offer,
        .unended = &a->unended,
        .read_reason = a->read_reason,
        .read_error = a->read_error,
        .stuck_call = worker_stuck(a->d.worker, &call, &since) ? call : NULL,
        .health = a->d.health ? health_watch_memory(a->d.health) : NULL,
        .agent_version = a->d.version,
        .config = a->d.config,
        .publisher = a->d.resource_publisher,
        .nodes = slot_nodes(a),
        .sick = &a->sick,
    };
    if (a->d.slots) {
        late_binding_sick(a->d.slots, &made, &a->sick);
        state.pods_forbidden = late_binding_forbidden(a->d.slots);
    }
    add_link(a, &state);
    return state;
}

/* Until then the kubelet keeps the offer of the agent before. A card that can no longer be read
 * keeps its devices, because the kubelet is answered from memory. */
static bool may_serve(const struct agent *a)
{
    return a->d.kubelet && a->inventory_read && a->device_seen && a->recovered;
}

static void serve_offer(struct agent *a)
{
    auto_node_offer struct node_offer offer = {0};
    auto_free struct card_memo *memos = NULL;
    if (!may_serve(a))
        return;
    const struct node_state state = state_of(a, &memos);
    node_offer_build(&state, clock_wall_ms(a->d.clk), &offer);
    kubelet_link_offer(a->d.kubelet, &offer.table);
}

/* Writes koordlet's file. Before the first reading the existing file is the best there is. */
static void write_koordlet_file(struct agent *a)
{
    auto_err struct err e = {0};
    if (a->d.koordinator && a->inventory_read &&
        koord_infos_keep(a->d.koordinator, &a->published, spec(a), &e) < 0)
        log_warn("Could not write the file of cards for koordlet", kv_err(&e));
}

static void publish(struct agent *a)
{
    a->publish_mono_ms = INT64_MAX;
    if (is_too_early(a))
        return;
    auto_free struct card_memo *memos = NULL;
    struct node_state state = state_of(a, &memos);
    auto_node_offer struct node_offer offer;
    struct device_status next;
    int64_t now_ms = clock_wall_ms(a->d.clk);
    node_offer_build(&state, now_ms, &offer);
    if (may_serve(a))
        kubelet_link_offer(a->d.kubelet, &offer.table);
    add_link(a, &state);
    auto_free const char **withheld = NULL;
    if (serves_kubelet(a))
        withheld = kubelet_link_withheld(a->d.kubelet, &state.withheld.n);
    state.withheld.names = withheld;
    node_status_build(&state, &offer, &a->published, now_ms, &next);
    device_status_done(&a->published);
    a->published = next;
    write_koordlet_file(a);
    set_gauges(a, &next);
    int64_t number = publisher_put(a->d.publisher, device_status_encode(&next));
    note_told(a, &offer, number);
    atomic_store(&a->ready, a->device_seen && (a->inventory_read || a->read_error));
}

/* Takes over the drains of the agent before with their start times, so that a restart does not
 * prolong a drain. */
static void adopt_drains(struct agent *a)
{
    for (size_t i = 0; i < a->tracks.n; i++) {
        struct card_memo *m = &a->tracks.items[i].memo;
        const struct device_card *card = device_status_card(&a->published, m->uuid);
        const struct condition *c = card ? condition_get(&card->conditions, "Applied") : NULL;
        if (!c || !card->has_drain || c->observed_generation != object_generation(a->device))
            continue;
        m->drain_since_ms = card->drain.since_ms;
        m->drain_deadline_ms = card->drain.deadline_ms;
    }
}

/* Takes over the published status, so that its conditions continue in the first one of this
 * agent. */
static void adopt_published(struct agent *a)
{
    const struct own_device *d = own(a);
    if (a->published.agent_version || !d || !d->status)
        return;
    /* The document is shared with other threads: it may be read, but not referenced. */
    if (jx_decode(d->status, device_status_fields, &a->published, NULL) < 0)
        device_status_done(&a->published);
    adopt_drains(a);
}

/* --- The loop --- */

static int64_t until(int64_t at_mono_ms, int64_t now)
{
    if (at_mono_ms == INT64_MAX)
        return INT64_MAX;
    return at_mono_ms > now ? at_mono_ms - now : 0;
}

/* The time until something is due; INT64_MAX: only an event brings work. */
static int64_t wait_ms(const struct agent *a)
{
    int64_t now = clock_mono_ms(a->d.clk);
    int64_t ms = until(a->publish_mono_ms, now);
    int64_t watch = worker_watch_ms(a->d.worker);
    if (watch >= 0)
        ms = least(ms, watch);
    if (!a->job_running) {
        ms = least(ms, until(a->next_read_mono_ms, now));
        ms = least(ms, until(card_tracks_due_mono_ms(&a->tracks), now));
        if (slots_are_served(a))
            ms = least(ms, until(late_binding_due_mono_ms(a->d.slots), now));
    }
    return ms;
}

static void look_at_watchdog(struct agent *a)
{
    const char *call;
    int64_t since;
    bool stuck = worker_stuck(a->d.worker, &call, &since);
    if (stuck == a->stuck)
        return;
    a->stuck = stuck;
    if (stuck) {
        log_error("A call into the vendor's library does not return", kv("call", call));
        event(a, /* warning= */ true, "NVMLTimeout",
              "a call into the vendor's library does not return");
    }
    publish_within(a, 0);
}

static void take_health_news(struct agent *a)
{
    if (!a->d.health)
        return;
    struct health_news news = health_watch_take(a->d.health, a->cards, a->n_cards);
    a->read_due |= news.look;
    if (news.changed)
        publish_within(a, 0);
}

static void on_kubelet(void *arg, enum kubelet_news news)
{
    struct agent *a = arg;
    a->kubelet_listed |= news == KUBELET_LISTED;
    a->kubelet_holders |= news == KUBELET_HOLDERS;
    publish_within(a, PUBLISH_LAG_MS);
}

static void listen_to_kubelet(struct agent *a)
{
    if (!a->d.kubelet)
        return;
    kubelet_link_dispatch(a->d.kubelet);
    if (a->kubelet_holders && a->d.slots)
        late_binding_follow(a->d.slots, kubelet_link_holders(a->d.kubelet));
    if (a->kubelet_holders) {
        for (size_t i = 0; i < a->n_cards; i++)
            mark_holders(a, &a->cards[i]);
        card_tracks_stir(&a->tracks, clock_mono_ms(a->d.clk));
    }
    if (a->kubelet_listed)
        card_tracks_listed(&a->tracks);
    a->read_due |= a->kubelet_listed && !a->recovered && may_recover(a);
    a->kubelet_holders = a->kubelet_listed = false;
}

void agent_step(struct agent *a, const struct scope *s, int64_t max_wait_ms)
{
    struct pollfd fds[] = {
        {.fd = worker_fd(a->d.worker), .events = POLLIN},
        {.fd = a->mail, .events = POLLIN},
        {.fd = publisher_fd(a->d.publisher), .events = POLLIN},
        {.fd = scope_cancel_fd(s), .events = POLLIN},
        {.fd = a->d.health ? health_watch_fd(a->d.health) : -1, .events = POLLIN},
        {.fd = a->d.kubelet ? kubelet_link_fd(a->d.kubelet) : -1, .events = POLLIN},
        {.fd = a->d.pods ? pod_reader_fd(a->d.pods) : -1, .events = POLLIN},
    };
    start_next(a);
    int64_t ms = least(wait_ms(a), max_wait_ms);
    heartbeat_idle(a->d.beat);
    (void)poll(fds, ARRAY_LEN(fds), ms > INT_MAX ? -1 : (int)ms);
    heartbeat_busy(a->d.beat);
    eventfd_t n;
    (void)eventfd_read(a->mail, &n);
    take_device(a);
    adopt_published(a);
    listen_to_kubelet(a);
    if (a->d.slots && late_binding_take(a->d.slots))
        publish_within(a, 0);
    worker_dispatch(a->d.worker);
    if (a->d.slots)
        report_unbound(a);
    take_health_news(a);
    look_at_watchdog(a);
    if (clock_mono_ms(a->d.clk) >= a->publish_mono_ms)
        publish(a);
}

int agent_run(struct agent *a, struct scope *s, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        agent_step(a, s, INT64_MAX);
    }
}

static void register_metrics(struct agent *a)
{
    static const double seconds[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
    struct metrics *m = a->d.metrics;
    if (!m)
        return;
    a->metrics.transactions =
        metrics_counter(m, "cleave_agent_transactions_total",
                        "Attempts to bring one card to its layout.", METRIC_LABELS("outcome"));
    a->metrics.duration =
        METRIC_WITH(metrics_histogram(m, "cleave_agent_transaction_seconds",
                                      "Time of transactions that touched the hardware.", NULL,
                                      seconds, ARRAY_LEN(seconds)));
    a->metrics.cards =
        METRIC_WITH(metrics_gauge(m, "cleave_agent_cards", "Cards of the node.", NULL));
    a->metrics.partitions =
        METRIC_WITH(metrics_gauge(m, "cleave_agent_partitions", "Existing partitions.", NULL));
    a->metrics.stuck =
        METRIC_WITH(metrics_gauge(m, "cleave_agent_library_stuck",
                                  "1 while a vendor call is past its deadline.", NULL));
    if (!a->d.kubelet)
        return;
    a->metrics.held =
        metrics_gauge(m, "cleave_agent_held", "Containers that hold a card or a partition.",
                      METRIC_LABELS("gpu", "partition", "namespace", "pod", "container"));
    if (!serves_kubelet(a))
        return;
    a->metrics.registrations =
        METRIC_WITH(metrics_counter(m, "cleave_agent_kubelet_registrations_total",
                                    "Registrations of resources with the kubelet.", NULL));
    struct metric *allocations = metrics_counter(m, "cleave_agent_kubelet_allocations_total",
                                                 "Answers to Allocate.", METRIC_LABELS("result"));
    a->metrics.granted = METRIC_WITH(allocations, "granted");
    a->metrics.refused = METRIC_WITH(allocations, "refused");
}

struct agent *agent_new(const struct agent_deps *d)
{
    struct agent *a = xmalloc(sizeof(*a));
    a->d = *d;
    a->env =
        (struct agent_job_env){d->state_dir, d->proc_root, serves_kubelet(a) ? &a->d.driver : NULL,
                               d->clk,       d->sys_root,  d->cdi_slots};
    a->mail = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&a->mu, NULL);
    a->publish_mono_ms = INT64_MAX;
    a->read_due = true;
    a->recovery_due = true;
    a->read_backoff =
        (struct backoff){.base_ms = 1000, .cap_ms = 60000, .factor = 2, .jitter_pct = 20};
    a->no_spec.mig_strategy = API_STRATEGY_MIXED;
    rng_init(&a->rng, d->seed);
    register_metrics(a);
    informer_add_handler(d->devices, on_device, a);
    if (d->kubelet)
        kubelet_link_on_change(d->kubelet, on_kubelet, a);
    return a;
}

bool agent_is_ready(const struct agent *a)
{
    return atomic_load(&a->ready);
}

struct agent *agent_free(struct agent *a)
{
    if (!a)
        return NULL;
    for (size_t i = 0; i < a->n_cards; i++)
        card_view_done(&a->cards[i]);
    free(a->cards);
    gpu_inventory_done(&a->inventory);
    device_status_done(&a->published);
    card_tracks_done(&a->tracks);
    unended_done(&a->unended);
    (void)driver_view_free(a->driver_view);
    free(a->read_error);
    (void)object_unref(a->device);
    (void)object_unref(a->newest);
    (void)close(a->mail);
    (void)pthread_mutex_destroy(&a->mu);
    free(a);
    return NULL;
}
