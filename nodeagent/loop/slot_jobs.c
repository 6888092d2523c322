/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/slot_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/offer/device_entry.h"

bool slot_jobs_is_open(const struct gpu_card *card, const struct device_want *want,
                       const struct card_track *t, const struct unended *unended)
{
    bool settled =
        !t || (t->memo.progress == PROGRESS_DONE && (t->memo.result.outcome == TXN_APPLIED ||
                                                     t->memo.result.outcome == TXN_NOTHING_TO_DO));
    return card->healthy && !card->unread && settled && !unended_find(unended, card->uuid) &&
           (!want || want->mode == API_MODE_SGPU);
}

/* The device files for the CDI files of slots. NULL: none are written, or they are not known
 * yet. */
static const struct container_nodes *slot_nodes(const struct slot_jobs *s)
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
            .open = has_nodes && slot_jobs_is_open(card, want, t, s->unended),
        };
    }
    return list;
}

void slot_jobs_ask_right(const struct slot_jobs *s)
{
    size_t n;
    auto_free struct slot_card *cards = slot_cards(s, &n);
    (void)cards; /* only their number matters here */
    late_binding_ask_right(s->slots, n > 0);
}

static bool is_pending(const struct slot_jobs *s)
{
    for (size_t i = 0; i < s->tracks->n; i++)
        if (card_track_is_due(&s->tracks->items[i], clock_mono_ms(s->clk)))
            return true;
    return false;
}

static struct agent_job *next_binding(const struct slot_jobs *s, const struct agent_job_env *env,
                                      void *owner)
{
    size_t n;
    struct slot_binding b;
    const struct device_slots made = cards_slots_made(s->cards);
    if (is_pending(s))
        return NULL;
    auto_free struct slot_card *cards = slot_cards(s, &n);
    if (!late_binding_next(s->slots, cards, n, &made, &b))
        return NULL;
    struct agent_job *j = agent_job_new(AGENT_JOB_BIND, env, owner);
    j->binding = b;
    for (size_t i = 0; i < b.n && !*j->uuid; i++)
        (void)snprintf(j->uuid, sizeof(j->uuid), "%s",
                       b.unplaced.kind ? cards_uuid_of_slot(s->cards, b.bound[i].slot)
                                       : b.bound[i].card);
    return j;
}

static struct agent_job *next_release(const struct slot_jobs *s, const struct agent_job_env *env,
                                      void *owner)
{
    const struct device_slots made = cards_slots_made(s->cards);
    unsigned slot = 0;
    if (!late_binding_release(s->slots, kubelet_link_holders(s->kubelet), &made, &slot))
        return NULL;
    struct agent_job *j = agent_job_new(AGENT_JOB_RELEASE, env, owner);
    j->slot = slot;
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", cards_uuid_of_slot(s->cards, slot));
    return j;
}

struct agent_job *slot_jobs_next(const struct slot_jobs *s, const struct agent_job_env *env,
                                 void *owner)
{
    assert(s->slots && s->kubelet);
    if (jobs_have_sliced(s->jobs))
        return NULL;
    struct agent_job *j = next_release(s, env, owner);
    return j ? j : next_binding(s, env, owner);
}

bool slot_jobs_end(const struct slot_jobs *s, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_BIND || j->kind == AGENT_JOB_RELEASE);
    struct card_view *v = *j->uuid ? cards_find(s->cards, j->uuid) : NULL;
    const struct err *err = j->err.kind ? &j->err : NULL;
    bool read = v && *j->view.card.uuid;
    bool elsewhere = false;
    if (read)
        cards_take_one(s->cards, v, j);
    for (size_t i = 0; i < j->binding.n; i++)
        elsewhere |= strcmp(j->binding.bound[i].card, j->uuid) != 0;
    if (j->kind == AGENT_JOB_BIND)
        late_binding_bound(s->slots, &j->binding, err);
    else
        late_binding_released(s->slots, j->slot, err);
    cards_mark_holders(s->cards);
    late_binding_retry_now(s->slots);
    return !read || elsewhere;
}

void slot_jobs_rebind_lost(const struct slot_jobs *s)
{
    const struct device_slots made = cards_slots_made(s->cards);
    unsigned slot;
    while (late_binding_lost(s->slots, &made, &slot)) {
        auto_err struct err e = {0};
        auto_free char *name = cdi_slot_name(slot);
        log_warn("Another program removed a pod's slice: making it again", kv_int("slot", slot));
        if (s->cdi_slots && cdi_slots_remove(s->cdi_slots, name, &e) < 0)
            log_warn("Could not remove the CDI file of a slot", kv_int("slot", slot), kv_err(&e));
    }
}
