/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/replica_choice.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

/* Ends a list of replicas or devices. */
#define NONE SIZE_MAX

struct tally {
    unsigned granted, room;
    bool ours;    /* one of its replicas is chosen */
    size_t first; /* its first device with a replica to pick, or NONE */
};

/* The replicas of one card or partition. */
struct device {
    unsigned granted;
    size_t first; /* its first replica to pick, by number, or NONE */
    size_t next;  /* next device of the same card, or NONE */
};

/* The state between two picks. */
struct picks {
    const struct replica_question *q;
    struct tally cards[GPU_MAX_CARDS];
    struct device *devices;
    size_t *next; /* by replica: the next available one of its device, or NONE */
    bool *chosen; /* by replica */
    size_t left;  /* still to be picked */
};

static void pick(struct picks *p, size_t replica)
{
    const struct replica *s = &p->q->replicas[replica];
    assert(s->available && !p->chosen[replica] && p->left > 0 && p->cards[s->card].room > 0);
    p->chosen[replica] = true;
    p->cards[s->card].granted++;
    p->cards[s->card].room--;
    p->cards[s->card].ours = true;
    p->devices[s->device].granted++;
    p->left--;
}

/* Counts granted and available replicas. */
static void count(struct picks *p)
{
    for (unsigned c = 0; p->q->elsewhere && c < GPU_MAX_CARDS; c++)
        p->cards[c].granted = p->q->elsewhere[c];
    for (size_t i = 0; i < p->q->n; i++) {
        const struct replica *s = &p->q->replicas[i];
        assert(s->card < GPU_MAX_CARDS && s->device < p->q->n);
        p->cards[s->card].room += s->available;
        p->cards[s->card].granted += !s->available;
        p->devices[s->device].granted += !s->available;
    }
}

/* Lists replicas by device. One pass over all replicas for each pick would take more than a second
 * for a pod that asks for half of 65,535 replicas. */
static void list_replicas(struct picks *p)
{
    for (unsigned c = 0; c < GPU_MAX_CARDS; c++)
        p->cards[c].first = NONE;
    for (size_t i = 0; i < p->q->n; i++)
        p->devices[i].first = NONE;
    for (size_t i = p->q->n; i-- > 0;) {
        const struct replica *s = &p->q->replicas[i];
        struct device *d = &p->devices[s->device];
        if (!s->available)
            continue;
        if (d->first == NONE) {
            d->next = p->cards[s->card].first;
            p->cards[s->card].first = s->device;
        }
        assert(d->first == NONE || p->q->replicas[d->first].card == s->card);
        p->next[i] = d->first;
        d->first = i;
    }
}

static bool begun_cards_suffice(const struct picks *p)
{
    size_t room = 0;
    for (unsigned c = 0; c < GPU_MAX_CARDS; c++)
        room += p->cards[c].granted ? p->cards[c].room : 0;
    return room >= p->left;
}

static bool packs_better(const struct picks *p, const struct tally *a, const struct tally *b)
{
    bool a_fits = a->room >= p->left;
    bool b_fits = b->room >= p->left;
    if (a->ours != b->ours)
        return a->ours;
    if (a_fits != b_fits)
        return a_fits;
    return a_fits ? a->room < b->room : a->room > b->room;
}

static unsigned best_card(const struct picks *p)
{
    bool packed = p->q->policy == REPLICAS_PACKED;
    bool begun_only = packed && begun_cards_suffice(p);
    unsigned best = GPU_MAX_CARDS;
    for (unsigned c = 0; c < GPU_MAX_CARDS; c++) {
        const struct tally *t = &p->cards[c];
        const struct tally *b = &p->cards[best < GPU_MAX_CARDS ? best : c];
        if (t->room == 0 || (begun_only && t->granted == 0))
            continue;
        if (best == GPU_MAX_CARDS || (packed ? packs_better(p, t, b) : t->granted < b->granted))
            best = c;
    }
    assert(best < GPU_MAX_CARDS); /* no more are wanted than are available */
    return best;
}

/* Compares two devices with different first replicas. */
static bool is_better(const struct picks *p, const struct device *a, const struct device *b)
{
    if (a->granted == b->granted)
        return a->first < b->first;
    return p->q->policy == REPLICAS_PACKED ? a->granted > b->granted : a->granted < b->granted;
}

static size_t best_replica(const struct picks *p, unsigned card)
{
    const struct device *best = NULL;
    for (size_t i = p->cards[card].first; i != NONE; i = p->devices[i].next) {
        struct device *d = &p->devices[i];
        while (d->first != NONE && p->chosen[d->first])
            d->first = p->next[d->first];
        if (d->first != NONE && (!best || is_better(p, d, best)))
            best = d;
    }
    assert(best); /* the card has room */
    return best->first;
}

static int check_question(const struct replica_question *q, struct err *e)
{
    size_t available = 0;
    size_t required = 0;
    for (size_t i = 0; i < q->n; i++) {
        available += q->replicas[i].available;
        required += q->replicas[i].required;
        if (q->replicas[i].required && !q->replicas[i].available)
            return err_set(e, ERR_INVALID, "replica %zu is required and not available", i);
    }
    if (required > q->size)
        return err_set(e, ERR_INVALID, "%zu are required and only %zu wanted", required, q->size);
    if (q->size > available)
        return err_set(e, ERR_INVALID, "%zu are wanted and only %zu available", q->size, available);
    return 0;
}

int replica_choice(const struct replica_question *q, bool *ret_chosen, struct err *e)
{
    TRY(check_question(q, e));
    auto_free struct device *devices = xcalloc(q->n, sizeof(*devices));
    auto_free size_t *next = xcalloc(q->n, sizeof(*next));
    struct picks p = {.q = q,
                      .devices = devices,
                      .next = next,
                      .chosen = ret_chosen,
                      .left = q->size};
    memset(ret_chosen, 0, q->n * sizeof(*ret_chosen));
    count(&p);
    list_replicas(&p);
    for (size_t i = 0; i < q->n; i++)
        if (q->replicas[i].required)
            pick(&p, i);
    while (p.left > 0) {
        size_t replica = best_replica(&p, best_card(&p));
        pick(&p, replica);
    }
    return 0;
}
