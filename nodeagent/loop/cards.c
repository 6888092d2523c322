/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/cards.h"

#include <assert.h>
#include <string.h>

#include "nodeagent/offer/card_holders.h"

struct card_view *cards_find(const struct cards *c, const char *uuid)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->items[i].card.uuid, uuid) == 0)
            return &c->items[i];
    return NULL;
}

bool cards_has_unread(const struct cards *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].card.unread || c->items[i].unreadable)
            return true;
    return false;
}

struct device_slots cards_slots_made(const struct cards *c)
{
    struct device_slots made = {0};
    for (size_t i = 0; i < c->n; i++)
        device_slots_add(&made, &c->items[i].card);
    for (size_t i = 0; i < c->shares.n; i++)
        device_slots_put(&made, c->shares.items[i].slot);
    device_slots_join(&made, &c->shares.unknown);
    return made;
}

void cards_add_slots_on(const struct cards *c, const struct gpu_card *card,
                        struct device_slots *ret)
{
    device_slots_add(ret, card);
    for (size_t i = 0; i < c->shares.n; i++)
        if (strcmp(c->shares.items[i].card, card->uuid) == 0)
            device_slots_put(ret, c->shares.items[i].slot);
}

const char *cards_uuid_of_slot(const struct cards *c, unsigned slot)
{
    const struct share *share = shares_find(&c->shares, slot);
    if (share)
        return share->card;
    for (size_t i = 0; i < c->n; i++) {
        struct device_slots made = {0};
        device_slots_add(&made, &c->items[i].card);
        if (device_slots_has(&made, slot))
            return c->items[i].card.uuid;
    }
    return "";
}

/* --- Shares --- */

void cards_add_shares(struct cards *c, const struct shares *found)
{
    for (size_t i = 0; i < found->n; i++)
        if (!shares_find(&c->shares, found->items[i].slot))
            shares_put(&c->shares, &found->items[i]);
    for (unsigned slot = SLOT_SHARES_FIRST; slot < SLOT_SHARES_END; slot++)
        if (device_slots_has(&found->unknown, slot) && !shares_find(&c->shares, slot))
            device_slots_put(&c->shares.unknown, slot);
    cards_mark_holders(c);
}

void cards_put_shares(struct cards *c, const struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct bound_slot *g = &b->bound[i];
        struct share s = {.slot = g->slot,
                          .memory_mib = g->quota.memory_mib,
                          .percent = g->quota.compute_percent,
                          .memory_level = g->memory_level,
                          .compute_level = g->compute_level,
                          .is_capped = g->is_capped,
                          .is_low = g->is_low,
                          .uid = b->uid,
                          .container = b->container};
        memcpy(s.card, g->card, sizeof(s.card));
        shares_put(&c->shares, &s);
    }
    cards_mark_holders(c);
}

void cards_drop_share(struct cards *c, unsigned slot)
{
    shares_drop(&c->shares, slot);
    cards_mark_holders(c);
}

const struct device_nodes *cards_device_nodes(const struct cards *c)
{
    return c->driver ? &c->driver->nodes : NULL;
}

const char *cards_remembered_illness(const struct cards *c, const char *uuid)
{
    const char *reason = NULL;
    const char *message = NULL;
    return c->health && health_card(health_watch_memory(c->health), uuid, &reason, &message)
               ? message
               : NULL;
}

/* --- Marks --- */

void cards_mark_holders(struct cards *c)
{
    const struct device_slots made = cards_slots_made(c);
    for (size_t i = 0; c->kubelet && i < c->n; i++)
        card_holders_mark(kubelet_link_holders(c->kubelet), &made, &c->shares, &c->items[i].card);
}

static void mark_health(struct cards *c)
{
    if (c->health)
        health_watch_mark(c->health, c->items, c->n);
}

struct health_news cards_take_reports(struct cards *c)
{
    return c->health ? health_watch_take(c->health, c->items, c->n) : (struct health_news){0};
}

/* --- Readings --- */

static void keep_illness(const struct gpu_card *ill, struct gpu_card *now)
{
    now->healthy = ill->healthy;
    memcpy(now->unhealthy_reason, ill->unhealthy_reason, sizeof(ill->unhealthy_reason));
    memcpy(now->unhealthy_message, ill->unhealthy_message, sizeof(ill->unhealthy_message));
}

static void keep_last_seen(struct card_view *last, struct card_view *now)
{
    const struct gpu_card ill = now->card;
    bool held = now->held_by_reading;
    card_view_done(now);
    *now = *last;
    *last = (struct card_view){0};
    now->card.index = ill.index;
    now->held_by_reading = held;
    if (ill.busy)
        return;
    now->unreadable = true;
    keep_illness(&ill, &now->card);
}

static void drop_all(struct cards *c)
{
    for (size_t i = 0; i < c->n; i++)
        card_view_done(&c->items[i]);
    free(c->items);
    gpu_inventory_done(&c->inventory);
}

static void replace_all(struct cards *c, struct agent_job *j)
{
    for (size_t i = 0; i < j->n_views; i++) {
        struct gpu_card *card = &j->views[i].card;
        struct card_view *last = card->unread && *card->uuid ? cards_find(c, card->uuid) : NULL;
        if (last)
            keep_last_seen(last, &j->views[i]);
    }
    drop_all(c);
    c->items = TAKE(j->views);
    c->n = j->n_views;
    j->n_views = 0;
    c->inventory = j->inventory;
    assert(c->inventory.n_cards == 0); /* they moved into the views */
    j->inventory = (struct gpu_inventory){0};
}

/* The kubelet link answers the kubelet with the cards' connections and the driver's files. */
static void hand_to_kubelet(struct cards *c, struct agent_job *j)
{
    int numa[GPU_MAX_CARDS];
    if (!c->serves_kubelet)
        return;
    for (size_t i = 0; i < c->n && i < ARRAY_LEN(numa); i++)
        numa[i] = c->items[i].card.numa_node;
    kubelet_link_set_topology(c->kubelet, &c->inventory.topology, numa);
    if (!j->new_driver_view)
        return;
    kubelet_link_set_driver(c->kubelet, j->new_driver_view);
    (void)driver_view_free(c->driver);
    c->driver = TAKE(j->new_driver_view);
}

/* Health is taken from the reading before remembered illnesses are added to it. */
void cards_take_all(struct cards *c, struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_READ && j->rc == 0);
    if (c->health)
        health_watch_take_reading(c->health, j->views, j->n_views, /* all= */ true,
                                  j->began_mono_ms);
    replace_all(c, j);
    cards_mark_holders(c);
    hand_to_kubelet(c, j);
    mark_health(c);
    c->read = true;
}

/* A card that the last reading of all could not read stays ill until the next one: otherwise it
 * would alternate. No change of it begins meanwhile (card_refusal.h). A job for slots reads its
 * card only for the slices; its reading tells nothing about health. */
void cards_take_one(struct cards *c, struct card_view *v, struct agent_job *j)
{
    assert(v >= c->items && v < c->items + c->n && v != &j->view);
    if (c->health && j->kind == AGENT_JOB_CARD)
        health_watch_take_reading(c->health, &j->view, 1, /* all= */ false, j->began_mono_ms);
    const struct card_view last = *v; /* for its illness, which it does not own */
    card_view_done(v);
    *v = j->view;
    j->view = (struct card_view){0};
    v->unreadable = last.unreadable;
    if (v->unreadable)
        keep_illness(&last.card, &v->card);
    mark_health(c);
    const struct device_slots made = cards_slots_made(c);
    if (c->kubelet)
        card_holders_mark(kubelet_link_holders(c->kubelet), &made, &c->shares, &v->card);
}

void cards_done(struct cards *c)
{
    drop_all(c);
    shares_done(&c->shares);
    (void)driver_view_free(c->driver);
}
