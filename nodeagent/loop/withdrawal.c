/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/withdrawal.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/offer/device_id.h"

/* --- From the Node, by the controller --- */

int64_t withdrawal_acked(const struct withdrawal *w)
{
    return w->kubelet ? status_writer_acked(w->status_writer) : reporting_confirmed(w->reporting);
}

/* True when the controller withdrew from the Node everything that the change destroys, before it
 * ordered the change. The controller knows how many parts of each kind stay, not which ones: a part
 * that has to move it left on offer. */
static bool is_ordered(const struct card_track *t, const struct device_want *want,
                       const struct gpu_card *card, const struct card_steps *steps)
{
    struct card_offer left;
    card_offer_of(card, &left);
    card_offer_withdraw(&left, steps);
    return card_track_is_ordered(t) &&
           (want->mode == API_MODE_NATIVE || card_offer_keeps(&left, card, want));
}

/* Everything that exists, minus what the controller withdrew before ordering this change, or what
 * the last acknowledged status offers. */
static void advertised_offer(const struct withdrawal *w, const struct card_track *t, bool ordered,
                             const struct gpu_card *card, const struct card_steps *steps,
                             struct card_offer *ret)
{
    card_offer_of(card, ret);
    if (ordered)
        card_offer_withdraw(ret, steps);
    else if (t->told_number && t->told_number <= withdrawal_acked(w))
        *ret = t->told;
}

static bool is_withdrawn_from_status(const struct withdrawal *w, struct card_track *t,
                                     const struct gpu_card *card, const struct device_want *want,
                                     const struct card_steps *steps, struct card_offer *ret_offered)
{
    card_track_begin(t);
    bool told = t->told_number && t->withdraws && card_offer_allows(&t->told, steps);
    if (!told && !is_ordered(t, want, card, steps)) {
        t->withdraws = true;
        reporting_publish(w->reporting);
    }
    /* A status that was published just now counts as a mention of the order. */
    advertised_offer(w, t, is_ordered(t, want, card, steps), card, steps, ret_offered);
    return card_offer_allows(ret_offered, steps);
}

/* --- From the kubelet --- */

static void seal(const struct withdrawal *w, const char *owner, const struct id_list *ids)
{
    assert(w->kubelet);
    kubelet_link_seal(w->kubelet, owner, (const char *const *)ids->items, ids->n);
}

/* The plan was made with the holders known now, so once the seal is set no pod holds what goes. */
static bool is_withdrawn_from_kubelet(const struct withdrawal *w, struct card_track *t,
                                      const struct gpu_card *card, const struct card_steps *steps,
                                      struct card_offer *offered)
{
    const struct holders *h = kubelet_link_holders(w->kubelet);
    card_track_begin(t);
    if (!t->withdrawn_mono_ms) {
        t->withdrawn_mono_ms = clock_mono_ms(w->clk);
        reporting_publish(w->reporting);
        kubelet_link_ask(w->kubelet);
    }
    if (!h->known || h->asked_mono_ms < t->withdrawn_mono_ms)
        return false;
    card_offer_withdraw(offered, steps);
    auto_id_list struct id_list goes = {0};
    assert(card_offer_allows(offered, steps));
    id_list_add(&goes, card, offered);
    seal(w, t->memo.uuid, &goes);
    card_track_seal(t, clock_mono_ms(w->clk));
    return kubelet_link_has_no_daemon(w->kubelet, t->memo.uuid);
}

/* --- Both --- */

bool withdrawal_advance(const struct withdrawal *w, struct card_track *t,
                        const struct gpu_card *card, const struct device_want *want,
                        struct agent_job *j)
{
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    assert(strcmp(t->memo.uuid, card->uuid) == 0);
    card_plan(card, &j->wish, plan);
    card_offer_of(card, &j->offered);
    bool takes = plan->verdict == CARD_CHANGE && !card_offer_allows(&j->offered, &plan->steps);
    if (w->kubelet)
        return !takes || is_withdrawn_from_kubelet(w, t, card, &plan->steps, &j->offered);
    if (takes)
        return is_withdrawn_from_status(w, t, card, want, &plan->steps, &j->offered);
    advertised_offer(w, t, is_ordered(t, want, card, &plan->steps), card, &plan->steps,
                     &j->offered);
    return true;
}

/* The result of an attempt whose withdrawal was not confirmed in time. */
static const struct txn_result *lateness(const struct withdrawal *w, const struct card_track *t)
{
    static const struct txn_result not_acked = {
        .outcome = TXN_NOT_WITHDRAWN,
        .reason = "NotWithdrawn",
        .message =
            "cleave-controller did not confirm in time that the Node no longer offers the parts "
            "to be removed; nothing was changed",
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
    if (t->sealed_mono_ms)
        return &not_ended;
    return w->kubelet ? &not_listed : &not_acked;
}

bool withdrawal_await(const struct withdrawal *w, struct card_track *t,
                      const struct device_want *want, const struct card_track_clock *clock)
{
    if (!t->await_mono_ms) {
        card_track_await(t, clock_mono_ms(w->clk));
        return true;
    }
    const struct txn_result *late = lateness(w, t);
    card_track_note(t, want, late, clock);
    log_warn("Could not begin a change", kv("gpu", t->memo.uuid), kv("error", late->message));
    return false;
}

/* --- Seals --- */

void withdrawal_seal_recovery(const struct withdrawal *w, const char *uuid,
                              const struct id_list *ids)
{
    if (w->kubelet && ids->n)
        seal(w, uuid, ids);
}

void withdrawal_seal_slots(const struct withdrawal *w, const struct slot_binding *b)
{
    assert(w->kubelet);
    char(*ids)[DEVICE_ID_BYTES] = xcalloc(b->n, sizeof(*ids));
    auto_free const char **list = xcalloc(b->n, sizeof(char *));
    for (size_t i = 0; i < b->n; i++)
        list[i] = slot_id(b->bound[i].slot, ids[i]);
    kubelet_link_seal(w->kubelet, list[0], list, b->n);
    free(ids);
}

/* The owner of the job's seal: its card, or the first slot of a binding, since a slot is in one
 * job's hands at a time. NULL: the job has no seal. */
static const char *seal_of(const struct agent_job *j, char buf[DEVICE_ID_BYTES])
{
    switch (j->kind) {
    case AGENT_JOB_CARD:
        return j->uuid;
    case AGENT_JOB_RECOVER:
        return j->seals ? j->uuid : NULL;
    case AGENT_JOB_BIND:
        return slot_id(j->binding.bound[0].slot, buf);
    case AGENT_JOB_RELEASE:
    case AGENT_JOB_READ:
    case AGENT_JOB_COMPUTE_MODE:
    case AGENT_JOB_LIMITS:
        break;
    }
    return NULL;
}

void withdrawal_unseal_job(const struct withdrawal *w, const struct agent_job *j)
{
    char buf[DEVICE_ID_BYTES];
    const char *owner = seal_of(j, buf);
    if (w->kubelet && owner)
        kubelet_link_unseal(w->kubelet, owner);
}

void withdrawal_unseal_idle(const struct withdrawal *w, const struct cards *cards,
                            const struct card_tracks *tracks, const struct jobs *jobs)
{
    for (size_t i = 0; w->kubelet && i < cards->n; i++) {
        const char *uuid = cards->items[i].card.uuid;
        const struct card_track *t = card_tracks_find(tracks, uuid);
        if (!jobs_has_card(jobs, uuid) && !(t && t->sealed_mono_ms))
            kubelet_link_unseal(w->kubelet, uuid);
    }
}
