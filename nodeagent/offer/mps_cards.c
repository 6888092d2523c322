/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/mps_cards.h"

#include <string.h>

/* What is, or is to be, on a card. */
struct look {
    bool wanted; /* new shares are clients */
    bool some;   /* a share that stands is one */
    bool others; /* something on the card is none */
};

static struct look look_at(const struct share_facts *f, const struct gpu_card *card,
                           const struct device_want *want)
{
    struct share_card c;
    struct look l = {.others = f->shares->is_adopting ||
                               (f->holders && holders_has_card(f->holders, card->uuid))};
    l.wanted = share_card_of(f, card, want, &c) && c.compute_level == API_LEVEL_MPS;
    for (size_t i = 0; i < f->shares->n; i++) {
        const struct share *s = &f->shares->items[i];
        if (strcmp(s->card, card->uuid) != 0)
            continue;
        l.some |= s->compute_level == API_LEVEL_MPS;
        l.others |= s->compute_level != API_LEVEL_MPS;
    }
    for (size_t i = 0; i < f->shares->n_adopted; i++)
        l.others |= strcmp(f->shares->adopted[i].card, card->uuid) == 0;
    return l;
}

bool mps_card_is_exclusive(const struct share_facts *f, const struct gpu_card *card,
                           const struct device_want *want)
{
    const struct look l = look_at(f, card, want);
    return l.wanted && !l.others;
}

void mps_cards_find(const struct node_state *s, struct mps_cards *ret)
{
    const struct sharing_rules rules = {s->config, sharing_strategy(s->config, s->spec), s->means};
    static const struct shares none;
    const struct share_facts facts = {&rules, s->shares ? s->shares : &none, s->holders};
    *ret = (struct mps_cards){0};
    for (size_t i = 0; i < s->n_cards && ret->n < GPU_MAX_CARDS; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (!*card->uuid || card->unread)
            continue;
        const struct look l = look_at(&facts, card, node_state_want(s, card->uuid));
        if (!l.wanted && !l.some)
            continue;
        struct mps_card *to = &ret->items[ret->n++];
        memcpy(to->uuid, card->uuid, sizeof(to->uuid));
        to->memory_mib = card->memory_mib;
    }
}

bool mps_cards_equal(const struct mps_cards *a, const struct mps_cards *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->items[i].uuid, b->items[i].uuid) != 0 ||
            a->items[i].memory_mib != b->items[i].memory_mib)
            return false;
    return true;
}
