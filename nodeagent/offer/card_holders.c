/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/card_holders.h"

#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_id.h"
#include "partition/vendor.h"

struct users {
    struct gpu_user *items;
    size_t n;
};

/* part, ci: what is held, as in struct gpu_user. */
static void add_user(const struct holders *holders, const char *id, int part, int ci,
                     struct users *users)
{
    if (!holders_has(holders, id))
        return;
    const struct holder *h = holders_get(holders, id, 0);
    struct gpu_user *user = XPUSH(users->items, users->n);
    user->part = part;
    user->ci = ci;
    if (h && h->pod)
        (void)snprintf(user->name, sizeof(user->name), "%s/%s", h->ns, h->pod);
    else if (h)
        (void)snprintf(user->name, sizeof(user->name), "with uid %s", h->uid);
    else
        (void)snprintf(user->name, sizeof(user->name), "that is being started");
}

static void add_part_user(const struct holders *holders, const struct gpu_card *card,
                          const struct card_part *p, struct users *users)
{
    char id[DEVICE_ID_BYTES];
    if (!p->foreign) /* its alias is not one of Cleave's */
        add_user(holders, device_id(card, p, id), p->number, p->ci, users);
}

static bool is_of_slices(int slot)
{
    return slot >= 0 && !slot_is_share((unsigned)slot);
}

static void add_slot_users(const struct holders *holders, const struct device_slots *made,
                           struct users *users)
{
    for (size_t i = 0; i < holders->n_listed; i++) {
        int slot = slot_of_id(holders->listed[i].id);
        if (is_of_slices(slot) && !device_slots_has(made, (unsigned)slot))
            add_user(holders, holders->listed[i].id, -1, -1, users);
    }
    for (size_t i = 0; i < holders->n_grants; i++) {
        const char *id = holders->grants[i].id;
        int slot = slot_of_id(id);
        if (is_of_slices(slot) && !device_slots_has(made, (unsigned)slot) &&
            !holders_get(holders, id, 0))
            add_user(holders, id, -1, -1, users);
    }
}

static bool may_have_shares(const struct gpu_card *card)
{
    const struct vendor *v = vendor_find(card->vendor);
    return v && v->has_shares && card->mode == GPU_NATIVE;
}

static struct gpu_user *add_named(struct users *users)
{
    struct gpu_user *user = XPUSH(users->items, users->n);
    user->part = user->ci = -1;
    return user;
}

static void add_adopted_users(const struct shares *shares, const struct gpu_card *card,
                              struct users *users)
{
    for (size_t i = 0; may_have_shares(card) && i < shares->n_adopted; i++) {
        const struct adopted_share *s = &shares->adopted[i];
        if (strcmp(s->card, card->uuid) != 0)
            continue;
        struct gpu_user *user = add_named(users);
        (void)snprintf(user->name, sizeof(user->name), "%s/%s", s->ns, s->pod);
    }
    if (shares->is_adopting && may_have_shares(card)) {
        struct gpu_user *user = add_named(users);
        (void)snprintf(user->name, sizeof(user->name), "of HAMi's, whose card is not known yet");
    }
}

static void add_share_users(const struct holders *holders, const struct shares *shares,
                            const struct gpu_card *card, struct users *users)
{
    struct device_slots held = {0};
    char id[SLOT_WORD_BYTES];
    device_slots_add_held(&held, holders);
    for (size_t i = 0; i < shares->n; i++)
        if (strcmp(shares->items[i].card, card->uuid) == 0 &&
            device_slots_has(&held, shares->items[i].slot))
            add_user(holders, slot_id(shares->items[i].slot, id), -1, -1, users);
    for (unsigned slot = SLOT_SHARES_FIRST; may_have_shares(card) && slot < SLOT_SHARES_END; slot++)
        if (device_slots_has(&shares->unknown, slot))
            add_user(holders, slot_id(slot, id), -1, -1, users);
}

void card_holders_mark(const struct holders *h, const struct device_slots *made,
                       const struct shares *shares, struct gpu_card *card)
{
    struct users users = {0};
    if (holders_has_card(h, card->uuid))
        add_user(h, card->uuid, -1, -1, &users);
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        add_part_user(h, card, &part, &users);
    }
    if (card->mode == GPU_SGPU)
        add_slot_users(h, made, &users);
    add_share_users(h, shares, card, &users);
    add_adopted_users(shares, card, &users);
    gpu_card_set_holders(card, users.items, (unsigned)users.n);
    free(users.items);
}
