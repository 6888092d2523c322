/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slot_choice.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

struct tally {
    unsigned granted, room;
    bool ours; /* one of its slots is chosen */
};

/* The state between two picks. */
struct picks {
    const struct slot_question *q;
    struct tally cards[GPU_MAX_CARDS];
    unsigned *granted; /* by device */
    bool *chosen;      /* by slot */
    size_t left;       /* still to be picked */
};

static void pick(struct picks *p, size_t slot)
{
    const struct slot *s = &p->q->slots[slot];
    p->chosen[slot] = true;
    p->cards[s->card].granted++;
    p->cards[s->card].room--;
    p->cards[s->card].ours = true;
    p->granted[s->device]++;
    p->left--;
}

/* What is granted, and what is there to grant. */
static void count(struct picks *p)
{
    for (unsigned c = 0; p->q->elsewhere && c < GPU_MAX_CARDS; c++)
        p->cards[c].granted = p->q->elsewhere[c];
    for (size_t i = 0; i < p->q->n; i++) {
        const struct slot *s = &p->q->slots[i];
        assert(s->card < GPU_MAX_CARDS && s->device < p->q->n);
        p->cards[s->card].room += s->available;
        p->cards[s->card].granted += !s->available;
        p->granted[s->device] += !s->available;
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
    bool packed = p->q->policy == SLOTS_PACKED;
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
    assert(best < GPU_MAX_CARDS); /* no more is wanted than there is */
    return best;
}

static size_t best_slot(const struct picks *p, unsigned card)
{
    const struct slot *slots = p->q->slots;
    size_t best = p->q->n;
    for (size_t i = 0; i < p->q->n; i++) {
        if (slots[i].card != card || !slots[i].available || p->chosen[i])
            continue;
        unsigned has = p->granted[slots[i].device];
        unsigned best_has = best < p->q->n ? p->granted[slots[best].device] : 0;
        bool better = p->q->policy == SLOTS_PACKED ? has > best_has : has < best_has;
        if (best == p->q->n || better)
            best = i;
    }
    return best;
}

static int check(const struct slot_question *q, struct err *e)
{
    size_t available = 0;
    size_t required = 0;
    for (size_t i = 0; i < q->n; i++) {
        available += q->slots[i].available;
        required += q->slots[i].required;
        if (q->slots[i].required && !q->slots[i].available)
            return err_set(e, ERR_INVALID, "slot %zu is required and not available", i);
    }
    if (required > q->size)
        return err_set(e, ERR_INVALID, "%zu are required and only %zu wanted", required, q->size);
    if (q->size > available)
        return err_set(e, ERR_INVALID, "%zu are wanted and only %zu available", q->size, available);
    return 0;
}

int slot_choice(const struct slot_question *q, bool *ret_chosen, struct err *e)
{
    TRY(check(q, e));
    auto_free unsigned *granted = xcalloc(q->n, sizeof(*granted));
    struct picks p = {.q = q, .granted = granted, .chosen = ret_chosen, .left = q->size};
    memset(ret_chosen, 0, q->n * sizeof(*ret_chosen));
    count(&p);
    for (size_t i = 0; i < q->n; i++)
        if (q->slots[i].required)
            pick(&p, i);
    while (p.left > 0) {
        size_t slot = best_slot(&p, best_card(&p));
        pick(&p, slot);
    }
    return 0;
}
