/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_place.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/vendor.h"

enum { WHOLE_PERCENT = 100 };

/* The cards as the planner sees them. */
struct sight {
    const struct share_place *places[FRACTION_MAX_CARDS];
    struct fraction_card cards[FRACTION_MAX_CARDS];
    unsigned n;
    uint16_t pairs[FRACTION_MAX_CARDS * FRACTION_MAX_CARDS]; /* n * n */
};

static bool has_card(const struct share_places *p, const char *uuid)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].card.card->uuid, uuid) == 0)
            return true;
    return false;
}

static bool has_slot(const struct slot_binding *b, unsigned slot)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->bound[i].slot == slot)
            return true;
    return false;
}

static bool is_own(const struct share *s, const struct slot_binding *b)
{
    return has_slot(b, s->slot) && share_is_of(s, b->uid, b->container);
}

/* What the binding's slots show on the card is made again, or is another pod's past. */
static struct fraction_size others_on(const struct share_places *p, const struct share_place *c,
                                      const struct slot_binding *b)
{
    struct fraction_size used = c->card.used;
    for (size_t i = 0; i < p->shares->n; i++) {
        const struct share *s = &p->shares->items[i];
        if (strcmp(s->card, c->card.card->uuid) != 0 || !has_slot(b, s->slot) || is_own(s, b))
            continue;
        used.memory_mib -= s->memory_mib < used.memory_mib ? s->memory_mib : used.memory_mib;
        used.percent -= s->percent < used.percent ? s->percent : used.percent;
        used.shares -= used.shares > 0;
    }
    return used;
}

/* True when one of the container's own shares is on the card. */
static bool has_own(const struct share_places *p, const char *uuid, const struct slot_binding *b)
{
    for (size_t i = 0; i < p->shares->n; i++)
        if (strcmp(p->shares->items[i].card, uuid) == 0 && is_own(&p->shares->items[i], b))
            return true;
    return false;
}

/* True when some of its slots have their shares already. */
static bool has_kept(const struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (*b->bound[i].card)
            return true;
    return false;
}

/* A process is a client of one MPS daemon, and each card has its own. */
static bool is_lonely(const struct share_card *c)
{
    return c->compute_level == API_LEVEL_MPS;
}

/* Cards that give only themselves come first, so that the others stay for parts: of equal ones the
 * planner takes the first. */
static void look(const struct share_places *p, const struct slot_binding *b, struct sight *ret)
{
    *ret = (struct sight){0};
    for (int parts = 0; parts <= 1; parts++)
        for (size_t i = 0; i < p->n && ret->n < FRACTION_MAX_CARDS; i++) {
            const struct share_place *c = &p->items[i];
            if (!c->card.total.shares || c->card.only_whole == (parts == 1))
                continue;
            ret->places[ret->n] = c;
            ret->cards[ret->n++] = (struct fraction_card){
                .uuid = c->card.card->uuid,
                .model = c->card.card->model,
                .numa = c->card.card->numa_node,
                .only_whole = c->card.only_whole,
                .lonely = is_lonely(&c->card),
                .ill = !c->open || has_own(p, c->card.card->uuid, b) ||
                       (is_lonely(&c->card) && has_kept(b)),
                .total = c->card.total,
                .used = others_on(p, c, b),
            };
        }
}

static bool wants_topology(const struct fraction_wish *w)
{
    for (unsigned i = 0; i < w->n_policies; i++)
        if (w->policies[i] == FRACTION_TOPOLOGY)
            return true;
    return false;
}

/* The pairs of what is seen; NULL: nobody asks, or nobody knows. */
static const uint16_t *connect(const struct share_places *p, const struct share_wish *w,
                               struct sight *s)
{
    if (!p->scores || !wants_topology(&w->cards))
        return NULL;
    for (unsigned a = 0; a < s->n; a++)
        for (unsigned b = 0; b < s->n; b++)
            s->pairs[a * s->n + b] =
                p->scores->pair[s->places[a] - p->items][s->places[b] - p->items];
    return s->pairs;
}

static void put(struct bound_slot *g, const struct share *s)
{
    assert(s->memory_mib > 0 && s->percent <= WHOLE_PERCENT);
    memcpy(g->card, s->card, sizeof(g->card));
    g->quota = (struct sgpu_quota){s->memory_mib, s->percent};
    g->memory_level = s->memory_level;
    g->compute_level = s->compute_level;
    g->is_capped = s->is_capped;
    g->is_low = s->is_low;
    g->qos = -1;
}

/* A new share. Nothing has to hold a container to the whole of a card. */
static void put_new(struct bound_slot *g, const struct share_card *c, struct fraction_size size,
                    const struct share_wish *w)
{
    struct share s = {.memory_mib = size.memory_mib, .percent = size.percent};
    memcpy(s.card, c->card->uuid, sizeof(s.card));
    bool is_free = share_is_whole(&s, c->card->memory_mib) || (w->is_unlimited && c->may_disable);
    s.memory_level = is_free ? API_LEVEL_NONE : (int)c->memory_level;
    /* On a card with MPS everybody is a client, also one who has all of it. */
    bool is_client = c->compute_level == API_LEVEL_MPS;
    s.compute_level = is_free && !is_client ? API_LEVEL_NONE : (int)c->compute_level;
    s.is_capped = !is_free && (c->is_capped || is_client || (w->is_capped && size.percent > 0));
    s.is_low = w->ask.priority > 0;
    put(g, &s);
}

/* Leaves the container's own shares as they were made. Returns how many slots have none yet. */
static unsigned keep_own(const struct share_places *p, struct slot_binding *b)
{
    unsigned missing = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct share *s = shares_find(p->shares, b->bound[i].slot);
        if (s && is_own(s, b))
            put(&b->bound[i], s);
        else
            missing++;
    }
    return missing;
}

/* --- As a scheduler chose --- */

static int find_card(const struct sight *s, const struct share_wish *w, const char *uuid,
                     unsigned *ret, struct err *e)
{
    for (unsigned i = 0; i < s->n; i++)
        if (strcmp(s->cards[i].uuid, uuid) == 0) {
            *ret = i;
            return 0;
        }
    return err_set(e, ERR_UNAVAILABLE,
                   "annotation %s names card %s, which gives no such shares on this node",
                   w->said_by, uuid);
}

/* Koordinator names the card alone. A record says MiB where the container asked for a whole card. */
static struct fraction_ask given_ask(const struct share_given *g, const struct share_request *ask,
                                     const struct fraction_card *c)
{
    if (!g->memory_mib)
        return (struct fraction_ask){.count = ask->count,
                                     .memory_mib = ask->memory_mib,
                                     .memory_percent = ask->memory_percent,
                                     .percent = ask->compute};
    if (g->memory_mib == c->total.memory_mib && g->percent == WHOLE_PERCENT)
        return (struct fraction_ask){.count = ask->count,
                                     .memory_percent = WHOLE_PERCENT,
                                     .percent = WHOLE_PERCENT};
    return (struct fraction_ask){.count = ask->count,
                                 .memory_mib = g->memory_mib,
                                 .percent = g->percent};
}

/* What keeps a share off a card although there is room. */
static const char *beside_room(enum fraction_misfit why)
{
    if (why == FRACTION_ILL)
        return ", and takes no new shares at the moment";
    if (why == FRACTION_PART)
        return ", and is given out as a whole only";
    return why == FRACTION_LONELY ? ", and is shared by MPS, for containers with one share" : "";
}

/* Fills in how much of the card the share takes. */
static int check_given(const struct share_given *g, const struct share_wish *w,
                       const struct sight *s, unsigned at, struct fraction_size *ret, struct err *e)
{
    const struct fraction_ask allowed = {.memory_mib = w->ask.memory_mib,
                                         .memory_percent = w->ask.memory_percent};
    const struct fraction_ask given = given_ask(g, &w->ask, &s->cards[at]);
    const struct fraction_wish none = {0};
    const struct gpu_card *card = s->places[at]->card.card;
    unsigned most = fraction_share(&s->cards[at], &allowed).memory_mib;
    *ret = fraction_share(&s->cards[at], &given);
    if (ret->memory_mib > most)
        return err_set(e, ERR_INVALID,
                       "annotation %s gives %u MiB of %s GPU %u, and the container asks for %u: "
                       "let the scheduler write it, or ask for more",
                       w->said_by, ret->memory_mib, vendor_title(card->vendor), card->index, most);
    enum fraction_misfit why = fraction_fit(&s->cards[at], &given, &none);
    if (why == FRACTION_FITS)
        return 0;
    const struct fraction_size room = fraction_room(&s->cards[at]);
    return err_set(e, ERR_UNAVAILABLE,
                   "annotation %s gives %u MiB and %u %% of %s GPU %u, which has %u MiB, %u %% "
                   "and %u shares left%s",
                   w->said_by, ret->memory_mib, ret->percent, vendor_title(card->vendor),
                   card->index, room.memory_mib, room.percent, room.shares, beside_room(why));
}

/* The given shares go to the slots that have none yet, in order, without those whose card has one
 * of the container's already. */
static int place_given(const struct share_places *p, const struct share_wish *w,
                       const struct sight *s, struct slot_binding *b, struct err *e)
{
    size_t next = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct bound_slot *g = &b->bound[i];
        struct fraction_size size;
        unsigned at = 0;
        if (*g->card)
            continue;
        while (next < w->ask.count && has_own(p, w->given[next].card, b))
            next++;
        if (next == w->ask.count)
            return err_set(e, ERR_INVALID, "annotation %s changed while the pod's shares were made",
                           w->said_by);
        const struct share_given *given = &w->given[next++];
        TRY(find_card(s, w, given->card, &at, e));
        TRY(check_given(given, w, s, at, &size, e));
        put_new(g, &s->places[at]->card, size, w);
    }
    return 0;
}

/* --- As the planner chooses --- */

static int place_planned(const struct share_places *p, const struct share_wish *w, struct sight *s,
                         unsigned count, struct slot_binding *b, struct err *e)
{
    const struct fraction_ask ask = {.container = b->container,
                                     .count = count,
                                     .memory_mib = w->ask.memory_mib,
                                     .memory_percent = w->ask.memory_percent,
                                     .percent = w->ask.compute};
    const struct fraction_node node = {s->cards, s->n, connect(p, w, s)};
    const struct fraction_pod pod = {.asks = &ask, .n = 1, .wish = w->cards};
    auto_free struct fraction_plan *plan = xmalloc(sizeof(*plan));
    TRY(fraction_search(&node, &pod, plan, e));
    unsigned next = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (*b->bound[i].card)
            continue;
        assert(next < count);
        unsigned at = plan->cards[0][next++];
        struct fraction_size size = fraction_share(&s->cards[at], &ask);
        size.memory_mib += !size.memory_mib;
        put_new(&b->bound[i], &s->places[at]->card, size, w);
    }
    return 0;
}

/* Of b's own slots, or of others': nobody knows the room of any card. */
static int check_known(const struct share_places *p, struct err *e)
{
    unsigned slot = 0;
    char name[SLOT_WORD_BYTES];
    if (p->shares->is_adopting)
        return err_set(e, ERR_UNAVAILABLE,
                       "pods that HAMi's device plugin gave cards to run on the node, and it is "
                       "not known yet which cards they have (the agent's log has more)");
    if (!shares_have_unknown(p->shares, &slot))
        return 0;
    return err_set(e, ERR_UNAVAILABLE,
                   "the record of %s cannot be read, so that it may be on any card: delete the pod "
                   "that has it (the agent's log has more)",
                   slot_name(slot, name));
}

/* A card that is missing may come back, and a container may still be on it. */
static int check_cards(const struct share_places *p, const struct slot_binding *b, struct err *e)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct share *s = shares_find(p->shares, b->bound[i].slot);
        if (s && is_own(s, b) && !has_card(p, s->card))
            return err_set(e, ERR_UNAVAILABLE,
                           "its share is on card %s, which is missing: delete the pod to have it "
                           "placed anew",
                           s->card);
    }
    return 0;
}

int share_place(const struct share_places *p, const struct share_wish *wish, struct slot_binding *b,
                struct err *e)
{
    auto_free struct sight *s = xmalloc(sizeof(*s));
    assert(b->uid && b->container && b->n == wish->ask.count);
    TRY(check_cards(p, b, e));
    unsigned missing = keep_own(p, b);
    if (!missing)
        return 0;
    TRY(check_known(p, e));
    look(p, b, s);
    if (wish->given)
        return place_given(p, wish, s, b, e);
    return place_planned(p, wish, s, missing, b, e);
}
