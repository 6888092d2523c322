/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/card_offer.h"

#include <assert.h>
#include <string.h>

#include "nodeagent/mode/card_mode.h"

static_assert(ARRAY_LEN(((struct card_offer *)0)->items) >= GPU_MAX_PARTITIONS &&
                  ARRAY_LEN(((struct card_offer *)0)->items) >= SGPU_MAX_SLICES,
              "an offer holds every part of a card");

void card_offer_of(const struct gpu_card *card, struct card_offer *ret)
{
    *ret = (struct card_offer){.whole = card->mode == GPU_NATIVE,
                               .slots = card->mode == GPU_SGPU,
                               .fixed = card_mode_of(card->mode)->fixed != NULL};
    for (unsigned i = 0; !ret->fixed && i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        assert(p.number >= 0 && ret->n < ARRAY_LEN(ret->items));
        if (!p.foreign)
            ret->items[ret->n++] = (struct card_offer_item){p.number, p.ci};
    }
}

static bool takes_card(const struct card_step *s)
{
    return s->kind == CARD_MODE_SET || s->kind == CARD_RESET;
}

static bool takes_item(const struct card_step *s, const struct card_offer_item *item)
{
    if (s->kind == CARD_CI_DESTROY)
        return (int)s->gi_id == item->number && (int)s->ci_id == item->ci;
    return s->kind == CARD_SLICE_DESTROY && (int)s->slice_id == item->number;
}

/* No slice can be made for a pod while the card's sharing policy changes. */
static bool takes_slots(const struct card_step *s)
{
    return takes_card(s) || s->kind == CARD_QOS_SET || s->kind == CARD_TIMESLICE_SET;
}

void card_offer_withdraw(struct card_offer *o, const struct card_steps *steps)
{
    for (unsigned i = 0; i < steps->n; i++) {
        const struct card_step *s = &steps->items[i];
        assert(o->n <= ARRAY_LEN(o->items));
        unsigned n = 0;
        for (unsigned k = 0; k < o->n; k++)
            if (!takes_card(s) && !takes_item(s, &o->items[k]))
                o->items[n++] = o->items[k];
        o->n = n;
        o->whole &= !takes_card(s);
        o->fixed &= !takes_card(s);
        o->slots &= !takes_slots(s);
    }
}

bool card_offer_keeps(const struct card_offer *left, const struct gpu_card *card,
                      const struct device_want *want)
{
    const struct card_mode *m = card_mode_of(card->mode);
    bool stays[ARRAY_LEN(left->items)] = {0};
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        stays[i] = card_offer_has(left, &p);
    }
    return !m->keeps || m->keeps(card, want, stays);
}

bool card_offer_allows(const struct card_offer *o, const struct card_steps *steps)
{
    struct card_offer left = *o;
    card_offer_withdraw(&left, steps);
    assert(left.n <= o->n); /* steps only take */
    return left.whole == o->whole && left.slots == o->slots && left.fixed == o->fixed &&
           left.n == o->n;
}

bool card_offer_equal(const struct card_offer *a, const struct card_offer *b)
{
    return a->whole == b->whole && a->slots == b->slots && a->fixed == b->fixed && a->n == b->n &&
           memcmp(a->items, b->items, a->n * sizeof(a->items[0])) == 0;
}

bool card_offer_has(const struct card_offer *o, const struct card_part *p)
{
    for (unsigned i = 0; i < o->n; i++)
        if (o->items[i].number == p->number && o->items[i].ci == p->ci)
            return true;
    return o->fixed;
}
