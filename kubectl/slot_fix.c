/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/slot_ask.h"
#include "kubectl/status_card.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/slots/slot_place.h"

#define LAYOUT "sgpu, slices made for pods"

/* A card of the node: as it is, or as it would be if it made slices for pods. */
struct seat {
    struct gpu_card card;
    struct layout_fix change; /* layout NULL: it makes them already, or cannot */
    int qos;                  /* the policy of its profile; -1: none */
    bool gives, open;
};

/* The node's cards for the agent's choice, and numbers for the pod's slots that no slice has. */
struct seats {
    const struct slot_ask *ask;
    const struct device_status *st;
    struct seat *items; /* of each card of the Device */
    unsigned *slots;
    struct slot_place *places;
};

/* --- The node's cards --- */

/* Takes away the slices of the card's layout, which goes; those of others stay. */
static void become_sliced(struct gpu_card *card)
{
    unsigned n = 0;
    for (unsigned i = 0; card->mode == GPU_SGPU && i < card->sgpu.n; i++)
        if (card->sgpu.items[i].foreign || sgpu_slot_of(card->sgpu.items[i].alias) >= 0)
            card->sgpu.items[n++] = card->sgpu.items[i];
    card->sgpu.n = n;
    card->mode = GPU_SGPU;
}

static void take_seat(const struct device_card *from, const struct device_want *want,
                      struct seat *ret)
{
    const struct device_want sliced = {.mode = API_MODE_SGPU, .has_sgpu = true};
    status_card_read(from, /* table= */ NULL, &ret->card);
    ret->gives =
        from->has_sgpu && from->mode == API_MODE_SGPU && card_makes_slices(&ret->card, want);
    ret->qos = ret->gives && want && want->sgpu.has_qos_policy ? want->sgpu.qos_policy : -1;
    ret->open = from->healthy && !from->has_drain && !from->has_pending_mode;
    if (from->has_sgpu && !ret->gives && !from->has_drain &&
        layout_fix_want(from, /* table= */ NULL, &sliced, LAYOUT, &ret->change))
        become_sliced(&ret->card);
}

static bool is_taken(const struct seats *s, unsigned slot)
{
    for (size_t i = 0; i < s->st->n_devices; i++)
        for (unsigned k = 0; k < s->items[i].card.sgpu.n; k++)
            if (sgpu_slot_of(s->items[i].card.sgpu.items[k].alias) == (int)slot)
                return true;
    return false;
}

/* Chooses the numbers of the pod's slots. False: there are not so many. */
static bool number_slots(struct seats *s)
{
    size_t n = 0;
    for (unsigned slot = 0; slot < SGPU_MAX_SLOTS && n < s->ask->n; slot++)
        if (!is_taken(s, slot))
            s->slots[n++] = slot;
    return n == s->ask->n;
}

static void seats_init(struct seats *s, const struct slot_ask *ask, const struct device_status *st,
                       const struct device_spec *spec)
{
    *s = (struct seats){.ask = ask,
                        .st = st,
                        .items = xcalloc(st->n_devices, sizeof(*s->items)),
                        .slots = xcalloc(ask->n, sizeof(*s->slots)),
                        .places = xcalloc(ask->n, sizeof(*s->places))};
    for (size_t i = 0; i < st->n_devices; i++)
        take_seat(&st->devices[i], device_spec_want(spec, st->devices[i].uuid), &s->items[i]);
}

static void seats_done(struct seats *s)
{
    for (size_t i = 0; i < s->st->n_devices; i++) {
        gpu_card_done(&s->items[i].card);
        layout_fix_done(&s->items[i].change);
    }
    free(s->items);
    free(s->slots);
    free(s->places);
}

AUTO_DEFINE(seats, struct seats, seats_done)
#define auto_seats AUTO(seats)

/* Places the slots on the cards that make slices for pods, and those that were chosen. An error says
 * that they have no room. */
static int place(struct seats *s, const bool *chosen, struct err *e)
{
    size_t n = 0;
    auto_free struct slot_card *list = xcalloc(s->st->n_devices, sizeof(*list));
    for (size_t i = 0; i < s->st->n_devices; i++) {
        const struct seat *seat = &s->items[i];
        if (seat->gives || chosen[i])
            list[n++] = (struct slot_card){&seat->card, seat->qos, seat->open || chosen[i]};
    }
    return slot_place(list, n, s->slots, s->ask->wishes, s->ask->n, s->places, e);
}

char *slot_ask_misfit(const struct slot_ask *a, const struct device_status *st,
                      const struct device_spec *spec)
{
    auto_err struct err why = {0};
    auto_seats struct seats s;
    auto_free bool *none = xcalloc(st->n_devices, sizeof(*none));
    seats_init(&s, a, st, spec);
    if (!number_slots(&s))
        return xstrdup("all slots of the node are taken");
    return place(&s, none, &why) < 0 ? xstrdup(err_msg(&why)) : NULL;
}

/* --- Which cards change --- */

struct choice {
    struct seats *s;
    struct fix_effort *effort;
    bool *chosen, *least; /* of each card: now, and in the cheapest choice so far */
    struct fix_cost cost; /* of the latter; cards 0: there is none */
};

static void try_choice(struct choice *c, const struct fix_cost *cost)
{
    size_t n = c->s->st->n_devices;
    size_t slots = c->s->ask->n;
    if (!fix_effort_spend(c->effort, n > slots ? n : slots) || /* cards are copied, slots placed */
        place(c->s, c->chosen, /* e= */ NULL) < 0)
        return;
    c->cost = *cost;
    memcpy(c->least, c->chosen, n * sizeof(*c->least));
}

/* Tries all choices of so many cards from this one on that are cheaper than the cheapest so far. A
 * choice that is given up half-way is an effort as well: of 64 cards all may be. */
static void choose(struct choice *c, size_t from, size_t n, const struct fix_cost *cost)
{
    if (n == 0) {
        try_choice(c, cost);
        return;
    }
    if (!fix_effort_spend(c->effort, /* plans= */ 1))
        return;
    for (size_t i = from; i + n <= c->s->st->n_devices && !c->effort->cut; i++) {
        const struct layout_fix *change = &c->s->items[i].change;
        struct fix_cost with = fix_cost_sum(cost, &change->cost);
        const struct fix_cost *least = c->cost.cards ? &c->cost : &c->effort->most;
        if (!change->layout || !fix_cost_is_less(&with, least))
            continue;
        c->chosen[i] = true;
        choose(c, i + 1, n - 1, &with);
        c->chosen[i] = false;
    }
}

static size_t count_changes(const struct seats *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->st->n_devices; i++)
        n += s->items[i].change.layout != NULL;
    return n;
}

/* The fewest cards that bring so many slots more. */
static int64_t fewest_cards(int64_t more)
{
    int64_t full = more / SGPU_MAX_SLICES + (more % SGPU_MAX_SLICES > 0);
    return full > 1 ? full : 1;
}

static void take_choice(const struct choice *c, const struct device_spec *spec,
                        struct node_fix *ret)
{
    *ret = (struct node_fix){.cost = c->cost};
    for (size_t i = 0; i < c->s->st->n_devices; i++) {
        const struct device_card *card = &c->s->st->devices[i];
        if (!c->least[i])
            continue;
        node_fix_add(ret, card, device_spec_want(spec, card->uuid), &c->s->items[i].change);
        c->s->items[i].change = (struct layout_fix){0};
    }
}

bool slot_ask_fix(const struct slot_ask *a, const struct device_status *st,
                  const struct device_spec *spec, int64_t more, struct fix_effort *effort,
                  struct node_fix *ret)
{
    auto_seats struct seats s;
    auto_free bool *chosen = xcalloc(st->n_devices, sizeof(*chosen));
    auto_free bool *least = xcalloc(st->n_devices, sizeof(*least));
    struct choice c = {.s = &s, .effort = effort, .chosen = chosen, .least = least};
    seats_init(&s, a, st, spec);
    int64_t most = (int64_t)count_changes(&s);
    if (!number_slots(&s))
        return false;
    for (int64_t n = fewest_cards(more); n <= most; n++)
        choose(&c, 0, (size_t)n, &(struct fix_cost){0});
    if (c.cost.cards)
        take_choice(&c, spec, ret);
    return c.cost.cards > 0;
}
