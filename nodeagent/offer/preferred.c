/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/preferred.h"

#include <assert.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct preferred {
    enum preferred_policy policy;
    size_t n;
    struct replica *replicas; /* none is marked available */
    struct strmap *by_id;
    struct card_scores scores;
    size_t replica_of_card[GPU_MAX_CARDS]; /* only with PREFERRED_CARDS */
};

struct preferred *preferred_new(const struct preferred_offer *o)
{
    struct preferred *p = xcalloc(1, sizeof(*p));
    p->policy = o->policy;
    p->n = o->n;
    p->replicas = xcalloc(o->n, sizeof(*p->replicas));
    p->by_id = strmap_new();
    assert(o->policy != PREFERRED_CARDS || o->scores);
    if (o->scores)
        p->scores = *o->scores;
    for (size_t i = 0; i < o->n; i++) {
        const struct preferred_device *d = &o->devices[i];
        assert(d->card < GPU_MAX_CARDS && d->device < o->n);
        p->replicas[i] = (struct replica){.card = d->card, .device = d->device};
        p->replica_of_card[d->card] = i;
        struct replica *same = strmap_put(p->by_id, d->id, &p->replicas[i]);
        assert(!same);
    }
    return p;
}

struct preferred *preferred_free(struct preferred *p)
{
    if (!p)
        return NULL;
    strmap_free(p->by_id);
    free(p->replicas);
    free(p);
    return NULL;
}

/* One request in numbers: indices in the offer. */
struct work {
    struct replica *replicas;
    const char **ids; /* the request's available ids */
    bool *chosen;
};

static void work_done(struct work *w)
{
    free(w->replicas);
    free(w->ids);
    free(w->chosen);
}

AUTO_DEFINE(work, struct work, work_done)
#define auto_work AUTO(work)

static struct work work_new(const struct preferred *p)
{
    return (struct work){.replicas = xmemdup(p->replicas, p->n * sizeof(struct replica)),
                         .ids = xcalloc(p->n, sizeof(char *)),
                         .chosen = xcalloc(p->n, sizeof(bool))};
}

/* The index of an id in the offer; n: none. */
static size_t place_of(const struct preferred *p, const char *id)
{
    const struct replica *s = strmap_get(p->by_id, id);
    assert(!s || (s >= p->replicas && (size_t)(s - p->replicas) < p->n));
    return s ? (size_t)(s - p->replicas) : p->n;
}

static int mark(const struct preferred *p, const struct preferred_request *r, struct work *w,
                struct err *e)
{
    for (size_t i = 0; i < r->n_available; i++) {
        size_t at = place_of(p, r->available[i]);
        if (at == p->n)
            continue;
        w->replicas[at].available = true;
        w->ids[at] = r->available[i];
    }
    for (size_t i = 0; i < r->n_required; i++) {
        size_t at = place_of(p, r->required[i]);
        if (at == p->n || !w->replicas[at].available)
            return err_set(e, ERR_INVALID, "device %.128s must be included and is not %s",
                           r->required[i], at == p->n ? "offered" : "available");
        w->replicas[at].required = true;
    }
    return 0;
}

static int choose_cards(const struct preferred *p, const struct work *w, size_t size, struct err *e)
{
    struct card_question q = {.scores = &p->scores, .size = (unsigned)size};
    uint64_t chosen = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct replica *s = &w->replicas[i];
        assert(p->replica_of_card[s->card] == i); /* one replica per card */
        q.available |= (uint64_t)s->available << s->card;
        q.required |= (uint64_t)s->required << s->card;
    }
    TRY(card_choice(&q, &chosen, e));
    for (size_t i = 0; i < p->n; i++)
        w->chosen[i] = chosen >> w->replicas[i].card & 1;
    return 0;
}

static int choose_replicas(const struct preferred *p, const struct preferred_request *r,
                           const struct work *w, struct err *e)
{
    const struct replica_question q = {
        .replicas = w->replicas,
        .n = p->n,
        .size = r->size,
        .policy = p->policy == PREFERRED_PACKED ? REPLICAS_PACKED : REPLICAS_DISTRIBUTED,
        .elsewhere = r->elsewhere,
    };
    return replica_choice(&q, w->chosen, e);
}

int preferred_choose(const struct preferred *p, const struct preferred_request *r,
                     const char **ret_ids, struct err *e)
{
    if (r->size > p->n)
        return err_set(e, ERR_INVALID, "%zu devices are wanted and only %zu offered", r->size,
                       p->n);
    auto_work struct work w = work_new(p);
    TRY(mark(p, r, &w, e));
    TRY(p->policy == PREFERRED_CARDS ? choose_cards(p, &w, r->size, e)
                                     : choose_replicas(p, r, &w, e));
    for (size_t i = 0, n = 0; i < p->n; i++)
        if (w.chosen[i]) {
            assert(n < r->size && w.ids[i]); /* only what is available is chosen */
            ret_ids[n++] = w.ids[i];
        }
    return 0;
}
