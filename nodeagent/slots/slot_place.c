/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/vendor.h"

/* The card's slices without the slot's own. */
static struct sgpu_state without(const struct gpu_card *card, unsigned slot)
{
    struct sgpu_state s = card->sgpu;
    sgpu_drop_slot(&s, slot);
    return s;
}

/* The policy to set; -1: the card has the right one. */
static int policy_for(const struct slot_card *c, const struct sgpu_state *now,
                      const struct slot_wish *w, int *ret, struct err *e)
{
    int wanted = w->qos >= 0 ? w->qos : c->qos;
    assert(wanted <= API_BURST_SHARE && now->qos >= 0 && now->qos <= API_BURST_SHARE);
    *ret = -1;
    if (wanted < 0 || wanted == now->qos)
        return 0;
    if (c->qos >= 0 && wanted != c->qos)
        return err_set(e, ERR_INVALID, "%s GPU %u is for %s, and the pod asks for %s",
                       vendor_title(c->card->vendor), c->card->index, api_qos_policy_names[c->qos],
                       api_qos_policy_names[wanted]);
    if (now->n)
        return err_set(e, ERR_UNAVAILABLE,
                       "the slices on %s GPU %u stand under %s, and the pod asks for %s",
                       vendor_title(c->card->vendor), c->card->index,
                       api_qos_policy_names[now->qos], api_qos_policy_names[wanted]);
    *ret = wanted;
    return 0;
}

static int room_for(const struct slot_card *c, const struct sgpu_state *now,
                    const struct sgpu_quota *q, struct err *e)
{
    struct sgpu_room room = sgpu_room(now);
    if (q->memory_mib > now->memory_mib)
        return err_set(e, ERR_INVALID, "%u MiB are asked for, and %s GPU %u has %u", q->memory_mib,
                       vendor_title(c->card->vendor), c->card->index, now->memory_mib);
    if (q->memory_mib > room.memory_mib)
        return err_set(e, ERR_UNAVAILABLE, "%u MiB are asked for, and %u are left on %s GPU %u",
                       q->memory_mib, room.memory_mib, vendor_title(c->card->vendor),
                       c->card->index);
    if (q->compute_percent > room.compute_percent)
        return err_set(e, ERR_UNAVAILABLE,
                       "%u %% of compute are asked for, and %u are left on %s GPU %u",
                       q->compute_percent, room.compute_percent, vendor_title(c->card->vendor),
                       c->card->index);
    return room.slices ? 0
                       : err_set(e, ERR_UNAVAILABLE, "%s GPU %u has as many slices as it takes",
                                 vendor_title(c->card->vendor), c->card->index);
}

static int try_card(const struct slot_card *c, unsigned slot, const struct slot_wish *w,
                    struct slot_place *ret, struct err *e)
{
    struct sgpu_state now = without(c->card, slot);
    struct slot_place p = {.card = c->card};
    TRY(slot_quota(w, now.memory_mib, &p.quota, e));
    if (!c->open)
        return err_set(e, ERR_UNAVAILABLE, "%s GPU %u takes no new slices at the moment",
                       vendor_title(c->card->vendor), c->card->index);
    TRY(policy_for(c, &now, w, &p.qos, e));
    if (p.qos >= 0)
        now.qos = p.qos;
    if (now.qos != API_BEST_EFFORT && p.quota.compute_percent == 0)
        return err_set(e, ERR_INVALID, "under %s a slice needs a share of compute",
                       api_qos_policy_names[now.qos]);
    TRY(room_for(c, &now, &p.quota, e));
    assert(p.quota.memory_mib <= now.memory_mib && p.quota.compute_percent <= 100);
    *ret = p;
    return 0;
}

static unsigned left_on(const struct slot_place *p, unsigned slot)
{
    const struct sgpu_state now = without(p->card, slot);
    unsigned room = sgpu_room(&now).memory_mib;
    assert(p->quota.memory_mib <= room);
    return room - p->quota.memory_mib;
}

static int place_one(const struct slot_card *cards, size_t n, unsigned slot,
                     const struct slot_wish *w, struct slot_place *ret, struct err *e)
{
    struct slot_place best = {0};
    auto_err struct err first = {0};
    for (size_t i = 0; i < n; i++) {
        struct slot_place p = {0};
        auto_err struct err why = {0};
        if (*w->card && strcmp(cards[i].card->uuid, w->card) != 0)
            continue;
        if (try_card(&cards[i], slot, w, &p, &why) == 0) {
            if (!best.card || left_on(&p, slot) < left_on(&best, slot))
                best = p;
        } else if (!first.kind || (first.kind == ERR_INVALID && why.kind == ERR_UNAVAILABLE)) {
            (void)err_move(&first, &why); /* "later" is better news than "never" */
        }
    }
    if (best.card) {
        *ret = best;
        return 0;
    }
    if (first.kind)
        return err_set(e, first.kind, "%s", err_msg(&first));
    return err_set(e, ERR_UNAVAILABLE, "no card%s%s of this node has slices made for pods",
                   *w->card ? " " : "", w->card);
}

/* Copies of the cards, on which the slices that are about to be made already show. */
struct sketch {
    struct gpu_card *cards;
    struct slot_card *list;
    size_t n;
};

static void sketch_init(struct sketch *s, const struct slot_card *cards, size_t n)
{
    *s = (struct sketch){.cards = xcalloc(n, sizeof(*s->cards)),
                         .list = xcalloc(n, sizeof(*s->list)),
                         .n = n};
    for (size_t i = 0; i < n; i++) {
        s->cards[i] = *cards[i].card;
        s->list[i] = cards[i];
        s->list[i].card = &s->cards[i];
    }
}

static void sketch_done(struct sketch *s)
{
    free(s->cards);
    free(s->list);
}
AUTO_DEFINE(sketch, struct sketch, sketch_done)

/* Replaces the slot's own slice. */
static void sketch_slice(struct sketch *s, unsigned slot, const struct slot_place *p)
{
    for (size_t i = 0; i < s->n; i++) {
        struct sgpu_state *state = &s->cards[i].sgpu;
        sgpu_drop_slot(state, slot);
        if (&s->cards[i] != p->card || state->n == SGPU_MAX_SLICES)
            continue;
        struct sgpu_slice *slice = &state->items[state->n++];
        *slice = (struct sgpu_slice){.quota = p->quota};
        sgpu_slot_alias(slot, slice->alias);
        if (p->qos >= 0)
            state->qos = p->qos;
    }
}

int slot_place(const struct slot_card *cards, size_t n, const unsigned *slots,
               const struct slot_wish *wishes, size_t n_slots, struct slot_place *ret,
               struct err *e)
{
    AUTO(sketch) struct sketch s;
    sketch_init(&s, cards, n);
    for (size_t i = 0; i < n_slots; i++) {
        TRY(place_one(s.list, s.n, slots[i], &wishes[i], &ret[i], e));
        sketch_slice(&s, slots[i], &ret[i]);
        ret[i].card = cards[ret[i].card - s.cards].card; /* not the copy */
    }
    return 0;
}
