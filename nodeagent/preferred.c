/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/preferred.h"

#include <assert.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct preferred {
    enum preferred_policy policy;
    size_t n;
    struct slot *slots; /* none is marked available */
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

/* One request in numbers: indices in the offer. */
struct work {
    struct slot *slots;
    const char **ids; /* the request's available ids */
    bool *chosen;
};

static void work_done(struct work *w)
{
    free(w->slots);
    free(w->ids);
    free(w->chosen);
}

AUTO_DEFINE(work, struct work, work_done)
#define auto_work AUTO(work)

static struct work work_new(const struct preferred *p)
{
    return (struct work){.slots = xmemdup(p->slots, p->n * sizeof(struct slot)),
                         .ids = xcalloc(p->n, sizeof(char *)),
                         .chosen = xcalloc(p->n, sizeof(bool))};
}

/* The index of an id in the offer; n: none. */
static size_t place_of(const struct preferred *p, const char *id)
{
    const struct slot *s = strmap_get(p->by_id, id);
    return s ? (size_t)(s - p->slots) : p->n;
}

static int mark(const struct preferred *p, const struct preferred_request *r, struct work *w,
                struct err *e)
{
    for (size_t i = 0; i < r->n_available; i++) {
        size_t at = place_of(p, r->available[i]);
        if (at == p->n)
            continue;
        w->slots[at].available = true;
        w->ids[at] = r->available[i];
    }
    for (size_t i = 0; i < r->n_required; i++) {
        size_t at = place_of(p, r->required[i]);
        if (at == p->n || !w->slots[at].available)
            return err_set(e, ERR_INVALID, "device %.128s must be included and is not %s",
                           r->required[i], at == p->n ? "offered" : "available");
        w->slots[at].required = true;
    }
    return 0;
}

static int choose_cards(const struct preferred *p, const struct work *w, size_t size, struct err *e)
{
    struct card_question q = {.scores = &p->scores, .size = (unsigned)size};
    uint64_t chosen = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct slot *s = &w->slots[i];
        assert(p->slot_of_card[s->card] == i); /* one replica per card */
        q.available |= (uint64_t)s->available << s->card;
        q.required |= (uint64_t)s->required << s->card;
    }
    TRY(card_choice(&q, &chosen, e));
    for (size_t i = 0; i < p->n; i++)
        w->chosen[i] = chosen >> w->slots[i].card & 1;
    return 0;
}

static int choose_slots(const struct preferred *p, const struct preferred_request *r,
                        const struct work *w, struct err *e)
{
    const struct slot_question q = {
        .slots = w->slots,
        .n = p->n,
        .size = r->size,
        .policy = p->policy == PREFERRED_PACKED ? SLOTS_PACKED : SLOTS_DISTRIBUTED,
        .elsewhere = r->elsewhere,
    };
    return slot_choice(&q, w->chosen, e);
}

int preferred_choose(const struct preferred *p, const struct preferred_request *r,
                     const char **ret_ids, struct err *e)
{
    if (r->size > p->n)
        return err_set(e, ERR_INVALID, "%zu devices are wanted and only %zu offered", r->size,
                       p->n);
    auto_work struct work w = work_new(p);
    TRY(mark(p, r, &w, e));
    TRY(p->policy == PREFERRED_CARDS ? choose_cards(p, &w, r->size, e) : choose_slots(p, r, &w, e));
    for (size_t i = 0, n = 0; i < p->n; i++)
        if (w.chosen[i])
            ret_ids[n++] = w.ids[i];
    return 0;
}
