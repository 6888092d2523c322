/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/slot_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/offer/device_entry.h"
#include "partition/vendor.h"

/* The card is not ill, and as wanted as far as the agent tried. */
static bool is_well(const struct gpu_card *card, const struct card_track *t,
                    const struct unended *unended)
{
    bool settled =
        !t || (t->memo.progress == PROGRESS_DONE && (t->memo.result.outcome == TXN_APPLIED ||
                                                     t->memo.result.outcome == TXN_NOTHING_TO_DO));
    return card->healthy && !card->unread && settled && !unended_find(unended, card->uuid);
}

bool slot_jobs_is_open(const struct gpu_card *card, const struct device_want *want,
                       const struct card_track *t, const struct unended *unended)
{
    return is_well(card, t, unended) && (!want || want->mode == API_MODE_SGPU);
}

/* The device files for the CDI files of slots. NULL: none are written, or they are not known
 * yet. */
static const struct device_nodes *slot_nodes(const struct slot_jobs *s)
{
    return s->cdi_slots ? cards_device_nodes(s->cards) : NULL;
}

/* Lists the cards that make slices for pods. The caller frees the list. */
static struct slot_card *slot_cards(const struct slot_jobs *s, size_t *ret_n)
{
    struct slot_card *list = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < s->cards->n; i++) {
        const struct gpu_card *card = &s->cards->items[i].card;
        const struct device_want *want = spec_source_want(s->spec_source, card->uuid);
        if (card->mode != GPU_SGPU || !card_makes_slices(card, want))
            continue;
        bool declared = want && want->sgpu.has_qos_policy;
        bool has_nodes = device_check_nodes(slot_nodes(s), card, /* e= */ NULL) == 0;
        const struct card_track *t = card_tracks_find(s->tracks, card->uuid);
        *XPUSH(list, *ret_n) = (struct slot_card){
            .card = card,
            .qos = declared ? want->sgpu.qos_policy : -1,
            .open = has_nodes && !s->cards->items[i].hangs &&
                    slot_jobs_is_open(card, want, t, s->unended),
        };
    }
    return list;
}

/* An attempt is due, or waits until what it removes is withdrawn. */
static bool is_about_to_change(const struct slot_jobs *s, const char *uuid)
{
    const struct card_track *t = card_tracks_find(s->tracks, uuid);
    return t && (t->await_mono_ms || card_track_is_due(t, clock_mono_ms(s->clk)));
}

/* True while nothing is under way on the card and it may get something new. */
static bool gives_shares(const struct slot_jobs *s, const struct card_view *v,
                         const struct device_want *want)
{
    return (!want || want->mode == API_MODE_NATIVE) && !v->hangs &&
           !is_about_to_change(s, v->card.uuid) &&
           is_well(&v->card, card_tracks_find(s->tracks, v->card.uuid), s->unended) &&
           device_check_nodes(slot_nodes(s), &v->card, /* e= */ NULL) == 0;
}

static bool shares_are_offered(const struct slot_jobs *s)
{
    return share_pool_exists(spec_source_spec(s->spec_source), s->means);
}

/* Lists the cards that give shares, and closed those that gave some. The caller frees the list. */
static struct share_place *share_cards(const struct slot_jobs *s, size_t *ret_n)
{
    const struct device_spec *spec = spec_source_spec(s->spec_source);
    const struct sharing_rules rules = {s->config, sharing_strategy(s->config, spec), *s->means};
    const struct share_facts facts = {&rules, &s->cards->shares, kubelet_link_holders(s->kubelet)};
    struct share_place *list = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < s->cards->n; i++) {
        const struct card_view *v = &s->cards->items[i];
        const struct device_want *want = spec_source_want(s->spec_source, v->card.uuid);
        struct share_place p = {.card = {.card = &v->card}};
        if (shares_are_offered(s) && share_card_of(&facts, &v->card, want, &p.card))
            p.open = gives_shares(s, v, want);
        *XPUSH(list, *ret_n) = p;
    }
    return list;
}

void slot_jobs_ask_right(const struct slot_jobs *s)
{
    size_t n;
    auto_free struct slot_card *cards = slot_cards(s, &n);
    (void)cards; /* only their number matters here */
    late_binding_ask_right(s->slots, n > 0 || shares_are_offered(s));
}

/* True while an attempt at the card is due: it is not known yet what that attempt destroys. */
static bool is_due(const struct slot_jobs *s, const char *uuid)
{
    const struct card_track *t = card_tracks_find(s->tracks, uuid);
    return t && card_track_is_due(t, clock_mono_ms(s->clk));
}

/* True while a job works on a card that has slices or is to have some, or such a card is about to
 * change: when that ends there may be room for a slice. A job that hangs does not count. */
static bool may_room_come(const struct slot_jobs *s)
{
    for (size_t i = 0; i < s->cards->n; i++) {
        const struct card_view *v = &s->cards->items[i];
        const struct device_want *want = spec_source_want(s->spec_source, v->card.uuid);
        bool has_slices = v->card.mode == GPU_SGPU || (want && want->mode == API_MODE_SGPU);
        if (has_slices && !v->hangs &&
            (jobs_has_card(s->jobs, v->card.uuid) || is_about_to_change(s, v->card.uuid)))
            return true;
    }
    return false;
}

/* --- The cards that a job may touch --- */

/* A job that is considered. */
struct proposal {
    const struct slot_jobs *s;
    const char *state_dir;
    struct device_slots stuck; /* slots in the hands of jobs that hang */
    char (*reach)[GPU_UUID_BYTES];
    size_t n;
    bool unknown; /* a record could not be read: there may be further cards */
};

static void proposal_done(struct proposal *p)
{
    free(p->reach);
}
AUTO_DEFINE(proposal, struct proposal, proposal_done)

static void begin_proposal(struct proposal *p)
{
    p->n = 0;
    p->unknown = false;
}

static void add_card(struct proposal *p, const char *uuid)
{
    if (!*uuid)
        return;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->reach[i], uuid) == 0)
            return;
    (void)snprintf(*XPUSH(p->reach, p->n), GPU_UUID_BYTES, "%s", uuid);
}

/* Adds the cards that have, or may have, a slice of the slot: one that shows it, and the one that
 * its record names. The job reads the same record, which no other job writes meanwhile; it touches
 * nothing of a slot whose record is another version's. */
static void add_slot(struct proposal *p, unsigned slot)
{
    auto_slot_record struct slot_record r = {0};
    int rc = slot_record_read(p->state_dir, slot, &r, /* e= */ NULL);
    add_card(p, cards_uuid_of_slot(p->s->cards, slot));
    if (rc == 0)
        add_card(p, r.card);
    p->unknown |= rc == -ERR_SYSTEM;
}

static bool has_free_cards(const struct proposal *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (jobs_has_card(p->s->jobs, p->reach[i]))
            return false;
    return !p->unknown;
}

/* A card that is no longer shown has its UUID for a name. */
static void note_hanging_card(const struct proposal *p, const char *uuid, struct err *ret_why)
{
    const struct card_view *v = cards_find(p->s->cards, uuid);
    char name[GPU_UUID_BYTES + 32];
    if (v ? !v->hangs : !jobs_hang_with(p->s->jobs, uuid))
        return;
    if (v)
        (void)snprintf(name, sizeof(name), "%s GPU %u", vendor_title(v->card.vendor),
                       v->card.index);
    else
        (void)snprintf(name, sizeof(name), "card %s", uuid);
    (void)err_set(ret_why, ERR_UNAVAILABLE,
                  "the slot's slice is, or may be, on %s, and a call of the library for that card "
                  "does not return",
                  name);
}

/* Sets *ret_why where a call that does not return is in the binding's way. */
static void note_hang(const struct proposal *p, const struct slot_binding *b, struct err *ret_why)
{
    for (size_t i = 0; i < b->n; i++)
        if (device_slots_has(&p->stuck, b->bound[i].slot))
            (void)err_set(ret_why, ERR_UNAVAILABLE,
                          "a call of the library for an earlier pod of slot %u does not return",
                          b->bound[i].slot);
    for (size_t i = 0; i < p->n; i++)
        note_hanging_card(p, p->reach[i], ret_why);
}

static bool may_bind(void *arg, const struct slot_binding *b, struct err *ret_why)
{
    struct proposal *p = arg;
    bool may = true;
    begin_proposal(p);
    for (size_t i = 0; i < b->n; i++)
        add_card(p, b->bound[i].card);
    for (size_t i = 0; i < b->n; i++) {
        may &= !jobs_has_slot(p->s->jobs, b->bound[i].slot);
        add_slot(p, b->bound[i].slot);
    }
    for (size_t i = 0; i < p->n; i++)
        may &= !is_due(p->s, p->reach[i]);
    may &= has_free_cards(p);
    if (!may)
        note_hang(p, b, ret_why);
    return may;
}

/* The driver's limits need the pod's cgroup, which the kubelet makes after the grant. */
static bool has_cgroup(const struct slot_jobs *s, const struct slot_binding *b, struct err *ret_why)
{
    for (size_t i = 0; s->cgroups && i < b->n; i++)
        if (b->bound[i].memory_level == API_LEVEL_DRIVER)
            return cgroup_watch_has(s->cgroups, b->uid, ret_why);
    return true;
}

/* What the container gets of its card's MPS daemon; nothing where it is no client. */
static int enter_mps(const struct slot_jobs *s, const struct slot_binding *b, struct entry *ret,
                     struct err *e)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->bound[i].compute_level == API_LEVEL_MPS)
            return kubelet_link_enter_mps(s->kubelet, b->bound[i].card, ret, e);
    return 0;
}

static bool is_ready(void *arg, const struct slot_binding *b, struct err *ret_why)
{
    const struct proposal *p = arg;
    auto_entry struct entry ignored = {0};
    if (!slot_is_share(b->bound[0].slot))
        return true;
    return has_cgroup(p->s, b, ret_why) && enter_mps(p->s, b, &ignored, ret_why) == 0;
}

static bool may_release(void *arg, unsigned slot)
{
    struct proposal *p = arg;
    begin_proposal(p);
    if (jobs_has_slot(p->s->jobs, slot))
        return false;
    add_slot(p, slot);
    return has_free_cards(p);
}

static struct agent_job *job_of(struct proposal *p, enum agent_job_kind kind,
                                const struct agent_job_env *env, void *owner)
{
    struct agent_job *j = agent_job_new(kind, env, owner);
    j->reach = TAKE(p->reach);
    j->n_reach = p->n;
    return j;
}

/* --- Jobs --- */

/* The shares count from now on, and the job gets what their containers need of the cards. */
static void begin_shares(const struct slot_jobs *s, struct slot_binding *b)
{
    b->entries = xcalloc(b->n, sizeof(*b->entries));
    for (size_t i = 0; i < b->n; i++) {
        const struct card_view *v = cards_find(s->cards, b->bound[i].card);
        assert(v); /* it was chosen among them, or its share is kept on it */
        device_share_entry(&v->card, b->bound[i].slot, &b->bound[i].quota, &b->entries[i]);
    }
    /* It is ready, or the job says that it is not. */
    (void)!enter_mps(s, b, &b->mps, /* e= */ NULL);
    cards_put_shares(s->cards, b);
}

static struct agent_job *next_binding(const struct slot_jobs *s, struct proposal *p,
                                      const struct slot_gate *gate, const struct agent_job_env *env,
                                      void *owner)
{
    size_t n;
    size_t n_places;
    struct slot_binding b;
    const struct device_slots made = cards_slots_made(s->cards);
    auto_free struct slot_card *cards = slot_cards(s, &n);
    auto_free struct share_place *places = share_cards(s, &n_places);
    const struct slot_rooms rooms = {cards,
                                     n,
                                     {places, n_places, &s->cards->shares,
                                      kubelet_link_scores(s->kubelet)}};
    if (!late_binding_next(s->slots, &rooms, &made, gate, &b))
        return NULL;
    struct agent_job *j = job_of(p, AGENT_JOB_BIND, env, owner);
    j->binding = b;
    if (agent_job_is_of_shares(j))
        begin_shares(s, &j->binding);
    else if (j->n_reach)
        memcpy(j->uuid, j->reach[0], sizeof(j->uuid));
    return j;
}

static struct agent_job *next_release(const struct slot_jobs *s, struct proposal *p,
                                      const struct slot_gate *gate, const struct agent_job_env *env,
                                      void *owner)
{
    const struct device_slots made = cards_slots_made(s->cards);
    unsigned slot = 0;
    if (!late_binding_release(s->slots, kubelet_link_holders(s->kubelet), &made, gate, &slot))
        return NULL;
    struct agent_job *j = job_of(p, AGENT_JOB_RELEASE, env, owner);
    j->slot = slot;
    if (!slot_is_share(slot))
        (void)snprintf(j->uuid, sizeof(j->uuid), "%s", cards_uuid_of_slot(s->cards, slot));
    return j;
}

struct agent_job *slot_jobs_next(const struct slot_jobs *s, const struct agent_job_env *env,
                                 void *owner)
{
    assert(s->slots && s->kubelet);
    AUTO(proposal) struct proposal p = {.s = s, .state_dir = env->state_dir};
    jobs_add_stuck_slots(s->jobs, &p.stuck);
    const struct slot_gate gate = {is_ready,
                                   may_bind,
                                   may_release,
                                   &p,
                                   .slices_may_come = may_room_come(s),
                                   .shares_may_come = jobs_release_share(s->jobs)};
    struct agent_job *j = next_release(s, &p, &gate, env, owner);
    return j ? j : next_binding(s, &p, &gate, env, owner);
}

/* A share whose job failed counts until it is made anew or released: its record may be there. */
static void end_shares(const struct slot_jobs *s, const struct agent_job *j)
{
    const struct err *err = j->err.kind ? &j->err : NULL;
    if (j->kind == AGENT_JOB_BIND) {
        late_binding_bound(s->slots, &j->binding, err);
    } else {
        late_binding_released(s->slots, j->slot, err);
        if (!err)
            cards_drop_share(s->cards, j->slot);
    }
    late_binding_retry_now(s->slots);
}

bool slot_jobs_end(const struct slot_jobs *s, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_BIND || j->kind == AGENT_JOB_RELEASE);
    if (agent_job_is_of_shares(j)) {
        end_shares(s, j);
        return false;
    }
    struct card_view *v = *j->uuid ? cards_find(s->cards, j->uuid) : NULL;
    const struct err *err = j->err.kind ? &j->err : NULL;
    bool read = v && *j->view.card.uuid;
    if (read)
        cards_take_one(s->cards, v, j);
    if (j->kind == AGENT_JOB_BIND)
        late_binding_bound(s->slots, &j->binding, err);
    else
        late_binding_released(s->slots, j->slot, err);
    if (v && !read)
        v->slices_unread = true;
    cards_mark_holders(s->cards);
    late_binding_retry_now(s->slots);
    return !read || j->n_reach > 1;
}

void slot_jobs_rebind_lost(const struct slot_jobs *s)
{
    const struct device_slots made = cards_slots_made(s->cards);
    unsigned slot;
    while (late_binding_lost(s->slots, &made, &slot)) {
        auto_err struct err e = {0};
        char name[SLOT_WORD_BYTES];
        (void)slot_name(slot, name);
        log_warn("Another program removed a pod's slice: making it again", kv("slot", name));
        if (s->cdi_slots && cdi_slots_remove(s->cdi_slots, name, &e) < 0)
            log_warn("Could not remove the CDI file of a slot", kv("slot", name), kv_err(&e));
    }
}
