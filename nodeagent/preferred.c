/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/preferred.h"

#include <assert.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct preferred {
    enum preferred_policy policy;
    size_t n;
    struct slot *slots; /* none of them available */
    struct strmap *by_id;
    struct card_scores scores;
    size_t slot_of_card[GPU_MAX_CARDS]; /* only with PREFERRED_CARDS */
};

struct preferred *preferred_new(const struct preferred_offer *o)
{
    struct preferred *p = xcalloc(1, sizeof(*p));
    p->policy = o->policy;
    p->n = o->n;
    p->slots = xcalloc(o->n, sizeof(*p->slots));
    p->by_id = strmap_new();
    assert(o->policy != PREFERRED_CARDS || o->scores);
    if (o->scores)
        p->scores = *o->scores;
    for (size_t i = 0; i < o->n; i++) {
        const struct preferred_device *d = &o->devices[i];
        assert(d->card < GPU_MAX_CARDS && d->device < o->n);
        p->slots[i] = (struct slot){.card = d->card, .device = d->device};
        p->slot_of_card[d->card] = i;
        struct slot *same = strmap_put(p->by_id, d->id, &p->slots[i]);
        assert(!same);
    }
    return p;
}

struct preferred *preferred_free(struct preferred *p)
{
    if (!p)
        return NULL;
    strmap_free(p->by_id);
    free(p->slots);
    free(p);
    return NULL;
}

/* The slot of an id in a copy of the table's; NULL: not offered. */
static struct slot *slot_of(const struct preferred *p, struct slot *copy, const char *id)
{
    const struct slot *s = strmap_get(p->by_id, id);
    return s ? &copy[s - p->slots] : NULL;
}

static int mark(const struct preferred *p, const struct preferred_request *r, struct slot *slots,
                struct err *e)
{
    for (size_t i = 0; i < r->n_available; i++) {
        struct slot *s = slot_of(p, slots, r->available[i]);
        if (s)
            s->available = true;
    }
    for (size_t i = 0; i < r->n_required; i++) {
        struct slot *s = slot_of(p, slots, r->required[i]);
        if (!s || !s->available)
            return err_set(e, ERR_INVALID, "device %.128s must be included and is not %s",
                           r->required[i], s ? "available" : "offered");
        s->required = true;
    }
    return 0;
}

static int choose_cards(const struct preferred *p, const struct slot *slots, size_t size,
                        bool *ret_chosen, struct err *e)
{
    struct card_question q = {.scores = &p->scores};
    uint64_t chosen = 0;
    for (size_t i = 0; i < p->n; i++) {
        assert(p->slot_of_card[slots[i].card] == i); /* each card once */
        q.available |= (uint64_t)slots[i].available << slots[i].card;
        q.required |= (uint64_t)slots[i].required << slots[i].card;
    }
    q.size = (unsigned)size;
    TRY(card_choice(&q, &chosen, e));
    for (size_t i = 0; i < p->n; i++)
        ret_chosen[i] = chosen >> slots[i].card & 1;
    return 0;
}

int preferred_choose(const struct preferred *p, const struct preferred_request *r, bool *ret_chosen,
                     struct err *e)
{
    if (r->size > p->n)
        return err_set(e, ERR_INVALID, "%zu devices are wanted and only %zu offered", r->size,
                       p->n);
    auto_free struct slot *slots = xmemdup(p->slots, p->n * sizeof(*slots));
    TRY(mark(p, r, slots, e));
    if (p->policy == PREFERRED_CARDS)
        return choose_cards(p, slots, r->size, ret_chosen, e);
    const struct slot_question q = {
        .slots = slots,
        .n = p->n,
        .size = r->size,
        .policy = p->policy == PREFERRED_PACKED ? SLOTS_PACKED : SLOTS_DISTRIBUTED,
        .elsewhere = r->elsewhere,
    };
    return slot_choice(&q, ret_chosen, e);
}
