/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/turns_choice.h"

#include "nodeagent/arbiter/turns_ledger.h"

/* A turn of 10 ms after so long: those of low priority have a hundredth of the card. */
#define LOW_WAIT (900 * TURNS_MS)
/* Nobody waits for longer than this and a turn of each of those that have waited as long. */
#define WAIT_MAX (10000 * TURNS_MS)

enum { FIRST_MUST, FIRST_HIGH, FIRST_LOW };

struct rank {
    unsigned first;
    bool has_waited; /* too long */
    int64_t deficit;
    int64_t waiting; /* since when */
    int64_t granted; /* its last turn */
    unsigned share;
};

bool choice_needs_turn(const struct claim *c)
{
    return c->is_active && (c->card->n_active > 1 || ledger_is_capped(c));
}

bool choice_is_gang(const struct share *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        n += choice_needs_turn(&s->claims[i]);
    return n > 1;
}

bool choice_must_yield(const struct claim *c)
{
    const struct card *card = c->card;
    for (size_t i = 0; i < card->n && c->spec.priority == TURNS_LOW; i++)
        if (card->claims[i]->spec.priority == TURNS_HIGH &&
            !member_set_is_empty(&card->claims[i]->serving))
            return true;
    return false;
}

/* Those of low priority, together. */
static bool is_low_due(const struct card *card, int64_t now)
{
    return card->low != TURNS_NEVER && now - card->low >= LOW_WAIT;
}

/* --- The order --- */

static unsigned first_of(const struct claim *c, bool is_gang, const struct rank *r, int64_t now)
{
    const struct card *card = c->card;
    if (is_gang && r->has_waited)
        return FIRST_MUST;
    if (c->spec.priority == TURNS_HIGH)
        return FIRST_HIGH;
    if (c == card->holder)
        return card->holds_floor && now < c->ends ? FIRST_HIGH : FIRST_LOW;
    return is_low_due(card, now) ? FIRST_MUST : FIRST_LOW;
}

static struct rank rank_of(const struct claim *c, int64_t now)
{
    struct rank r = {.deficit = c->deficit,
                     .waiting = c->waiting,
                     .granted = c->granted,
                     .share = c->share->id};
    bool is_gang = choice_is_gang(c->share);
    for (unsigned i = 0; is_gang && i < c->share->n; i++) {
        const struct claim *other = &c->share->claims[i];
        if (!choice_needs_turn(other))
            continue;
        r.deficit = other->deficit < r.deficit ? other->deficit : r.deficit;
        r.waiting = other->waiting < r.waiting ? other->waiting : r.waiting;
        r.granted = other->granted > r.granted ? other->granted : r.granted;
    }
    r.has_waited = r.waiting != TURNS_NEVER && now - r.waiting >= WAIT_MAX;
    r.first = first_of(c, is_gang, &r, now);
    return r;
}

bool choice_is_before(const struct claim *a, const struct claim *b, int64_t now)
{
    const struct rank x = rank_of(a, now), y = rank_of(b, now);
    if (x.first != y.first)
        return x.first < y.first;
    if (x.has_waited != y.has_waited)
        return x.has_waited;
    if (!x.has_waited && x.deficit != y.deficit)
        return x.deficit > y.deficit;
    if (x.waiting != y.waiting)
        return x.waiting < y.waiting;
    if (x.granted != y.granted)
        return x.granted < y.granted;
    return x.share < y.share;
}

bool choice_is_urgent(const struct claim *a, const struct claim *b, int64_t now)
{
    return rank_of(a, now).first < rank_of(b, now).first;
}

bool choice_is_overdue(const struct claim *c, int64_t now)
{
    return rank_of(c, now).first == FIRST_MUST;
}

/* --- The next --- */

static bool waits(const struct claim *c)
{
    return c->is_running && c != c->card->holder && c->gate != GATE_OPEN;
}

static bool is_next(const struct claim *c, int64_t now)
{
    for (size_t i = 0; i < c->card->n; i++) {
        struct claim *other = c->card->claims[i];
        if (other != c && waits(other) && choice_is_before(other, c, now))
            return false;
    }
    return true;
}

/* Another card of the container is its own, or becomes so: nobody with several cards has it, and who
 * has it comes later. */
static bool can_have(const struct claim *c, const struct share *leaving, int64_t now)
{
    const struct card *card = c->card;
    const struct claim *holder = card->holder;
    if (holder == c)
        return true;
    if (!c->is_running || (card->kept && card->kept != c->share))
        return false;
    if (holder && holder->share != leaving &&
        (choice_is_gang(holder->share) || choice_is_before(holder, c, now)))
        return false;
    return is_next(c, now);
}

static bool can_begin(const struct claim *c, const struct share *leaving, int64_t now)
{
    for (unsigned i = 0; i < c->share->n; i++) {
        const struct claim *other = &c->share->claims[i];
        if (other != c && choice_needs_turn(other) && !can_have(other, leaving, now))
            return false;
    }
    return true;
}

struct claim *choice_next(const struct card *card, int64_t now)
{
    const struct share *leaving = card->holder ? card->holder->share : NULL;
    struct claim *found = NULL;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (waits(c) && (!found || choice_is_before(c, found, now)) && can_begin(c, leaving, now))
            found = c;
    }
    return found;
}
