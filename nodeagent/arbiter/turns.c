/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/turns.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

#include "nodeagent/arbiter/turns_choice.h"
#include "nodeagent/arbiter/turns_gate.h"
#include "nodeagent/arbiter/turns_ledger.h"

/* A turn is not ended earlier by one that is guaranteed more, and comes now. */
#define TURN_MIN (5 * TURNS_MS)
/* A turn of low priority for which those of high priority wait. */
#define LOW_TURN (10 * TURNS_MS)
/* Who is alone again has its gate open after so long: meanwhile its work stays bounded, and one that
 * rests for some milliseconds between its pieces does not wait for all that the other gave the card. */
#define LINGER (500 * TURNS_MS)
/* Who has nothing more to do may have it in a moment. Where others want the card its gate stays closed
 * for so long, so that it does not work beside the next one. */
#define GRACE (100 * TURNS_MS)

/* --- Life --- */

struct turns *turns_new(void)
{
    struct turns *t = xcalloc(1, sizeof(*t));
    t->last_changed = &t->changed;
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++) {
        t->cards[i].low = t->cards[i].next = TURNS_NEVER;
        t->cards[i].contended = -LINGER;
    }
    return t;
}

struct turns *turns_free(struct turns *t)
{
    if (!t)
        return NULL;
    for (unsigned i = 0; i < TURNS_MAX_SHARES; i++)
        free(t->shares[i]);
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        free(t->cards[i].claims);
    free(t);
    return NULL;
}

static struct share *find(const struct turns *t, unsigned share)
{
    return share < TURNS_MAX_SHARES ? t->shares[share] : NULL;
}

static struct claim *find_claim(const struct turns *t, unsigned share, unsigned claim)
{
    struct share *s = find(t, share);
    return s && claim < s->n ? &s->claims[claim] : NULL;
}

static struct turns_claim bounded(struct turns_claim spec)
{
    spec.percent = spec.percent > 100 ? 100 : spec.percent;
    spec.priority = spec.priority ? TURNS_LOW : TURNS_HIGH;
    return spec;
}

static void begin(struct turns *t, struct share *s, struct claim *c, const struct turns_claim *spec,
                  int64_t now)
{
    struct card *card = &t->cards[spec->card];
    assert(spec->card < TURNS_MAX_CARDS);
    *c = (struct claim){.share = s,
                        .card = card,
                        .spec = bounded(*spec),
                        .turn = spec->turn,
                        .waiting = TURNS_NEVER,
                        .idle = now};
    *XPUSH(card->claims, card->n) = c;
    card->is_due = true;
    gate_begin(t, c);
}

void turns_add(struct turns *t, unsigned share, const struct turns_claim *claims, unsigned n,
               int64_t now)
{
    assert(share < TURNS_MAX_SHARES && n > 0 && n <= REGION_MAX_CARDS);
    turns_remove(t, share);
    struct share *s = xcalloc(1, sizeof(*s) + n * sizeof(s->claims[0]));
    s->id = share;
    s->n = n;
    for (unsigned i = 0; i < n; i++)
        begin(t, s, &s->claims[i], &claims[i], now);
    t->shares[share] = s;
}

void turns_change(struct turns *t, unsigned share, const struct turns_claim *claims)
{
    struct share *s = find(t, share);
    for (unsigned i = 0; s && i < s->n; i++) {
        assert(s->claims[i].spec.card == claims[i].card);
        s->claims[i].spec = bounded(claims[i]);
        s->claims[i].card->is_due = true;
    }
}

static void leave_card(struct claim *c)
{
    struct card *card = c->card;
    size_t i = 0;
    while (card->claims[i] != c)
        i++;
    card->claims[i] = card->claims[--card->n];
    card->is_due = true;
    if (card->holder == c)
        card->holder = NULL;
    if (card->kept == c->share)
        card->kept = NULL;
}

static void leave_changed(struct turns *t, const struct claim *c)
{
    struct claim **at = &t->changed;
    while (*at && *at != c)
        at = &(*at)->next_changed;
    if (!*at)
        return;
    *at = c->next_changed;
    if (!*at)
        t->last_changed = at;
}

void turns_remove(struct turns *t, unsigned share)
{
    struct share *s = find(t, share);
    for (unsigned i = 0; s && i < s->n; i++) {
        leave_card(&s->claims[i]);
        leave_changed(t, &s->claims[i]);
    }
    if (s)
        t->shares[share] = NULL;
    free(s);
}

/* --- What is said --- */

static struct claim *find_for(const struct turns *t, unsigned share, unsigned claim,
                              unsigned member)
{
    struct claim *c = member < REGION_MAX_PROCESSES ? find_claim(t, share, claim) : NULL;
    if (c)
        c->card->is_due = true;
    return c;
}

void turns_serve(struct turns *t, unsigned share, unsigned claim, unsigned member)
{
    struct claim *c = find_for(t, share, claim, member);
    if (c)
        gate_serve(c, member);
}

void turns_want(struct turns *t, unsigned share, unsigned claim, unsigned member)
{
    struct claim *c = find_for(t, share, claim, member);
    if (c)
        gate_want(c, member);
}

void turns_answer(struct turns *t, unsigned share, unsigned claim, unsigned member, uint32_t turn,
                  bool is_idle)
{
    struct claim *c = find_for(t, share, claim, member);
    if (c)
        gate_answer(c, member, turn, is_idle);
}

void turns_gone(struct turns *t, unsigned share, unsigned member)
{
    struct share *s = member < REGION_MAX_PROCESSES ? find(t, share) : NULL;
    for (unsigned i = 0; s && i < s->n; i++) {
        gate_gone(&s->claims[i], member);
        s->claims[i].card->is_due = true;
    }
}

/* --- Who takes part --- */

static void settle_claim(struct turns *t, struct claim *c, int64_t now)
{
    gate_expire(c, now);
    c->has_arrived = !c->is_active && gate_has_work(c);
    if (c->has_arrived) {
        ledger_return(c, now);
        c->is_active = true;
        c->waiting = now;
    } else if (c->is_active && !gate_has_work(c)) {
        c->is_active = false;
        c->waiting = TURNS_NEVER;
        c->idle = now;
        gate_rest(t, c);
    }
}

/* Since when those of low priority wait while others have the card. */
static void watch_low(struct card *card, int64_t now)
{
    bool waits = false;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        bool is_low = c->spec.priority == TURNS_LOW;
        if (is_low && (c == card->holder || c->gate == GATE_OPEN)) {
            card->low = TURNS_NEVER;
            return;
        }
        waits = waits || (is_low && c->is_running);
    }
    if (!waits)
        card->low = TURNS_NEVER;
    else if (card->low == TURNS_NEVER)
        card->low = now;
}

static void settle(struct turns *t, struct card *card, int64_t now)
{
    bool was_alone = card->n_active < 2;
    ledger_charge(card, now);
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        settle_claim(t, c, now);
    }
    ledger_weigh(card);
    watch_low(card, now);
    if (card->n_active < 2)
        return;
    card->contended = now;
    if (card->holder && was_alone)
        gate_extend(t, card->holder, now); /* it had the card for long */
}

/* --- The end of a turn --- */

static void end_turns(struct turns *t, struct share *s, int64_t now)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct claim *c = &s->claims[i];
        if (c->card->holder == c && choice_needs_turn(c))
            gate_close(t, c, now);
    }
}

/* One that comes with more to its credit does not wait for the whole of another's turn. */
static void shorten(struct turns *t, struct claim *holder, const struct claim *next, int64_t now)
{
    int64_t least = holder->granted + TURN_MIN;
    if (next->has_arrived && next->spec.percent > 0 && least < holder->ends &&
        choice_is_before(next, holder, now))
        gate_extend(t, holder, least > now ? least : now);
}

static bool must_end(struct turns *t, struct claim *holder, int64_t now)
{
    const struct claim *next = choice_next(holder->card, now);
    if (holder->gives_back)
        return true;
    if (next && choice_is_urgent(next, holder, now))
        return true;
    if (next)
        shorten(t, holder, next, now);
    if (now < holder->ends)
        return false;
    if (ledger_is_throttled(holder) || (next && !choice_is_before(holder, next, now)))
        return true;
    holder->card->holds_floor = false;
    gate_extend(t, holder, ledger_ends(holder, now));
    return false;
}

static void grant(struct turns *t, struct claim *c, int64_t ends, bool is_overdue, int64_t now)
{
    struct card *card = c->card;
    int64_t most = now + LOW_TURN;
    bool is_low = c->spec.priority == TURNS_LOW;
    card->kept = NULL;
    card->holds_floor = is_low && is_overdue;
    card->low = is_low ? TURNS_NEVER : card->low;
    gate_grant(t, c, card->holds_floor && most < ends ? most : ends, now);
}

/* A claim that had the card to itself has a turn from now on: one that is over, since others want the
 * card, or one without an end, since it may have to make way. */
static void begin_turns(struct turns *t, struct card *card, int64_t now)
{
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->gate == GATE_OPEN && choice_needs_turn(c))
            gate_grant(t, c, now, now);
        else if (c->gate == GATE_OPEN && choice_must_yield(c))
            grant(t, c, TURNS_NEVER, /* is_overdue= */ false, now);
    }
}

/* Alone, and not capped: the turn goes on until the gate is opened. */
static void linger(struct turns *t, struct claim *holder, int64_t now)
{
    int64_t until = holder->card->contended + LINGER;
    if (choice_must_yield(holder))
        gate_extend(t, holder, TURNS_NEVER);
    else if (now >= until)
        gate_open(t, holder);
    else
        gate_extend(t, holder, until);
}

static void follow_holder(struct turns *t, struct card *card, int64_t now)
{
    begin_turns(t, card, now);
    struct claim *holder = card->holder;
    if (holder && !choice_needs_turn(holder))
        linger(t, holder, now);
    else if (holder && must_end(t, holder, now))
        end_turns(t, holder->share, now);
}

/* --- The begin of a turn --- */

/* Nobody has it, and everybody else has finished. */
static bool is_free(const struct card *card, const struct share *for_share)
{
    if (card->holder)
        return false;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->share != for_share && gate_is_owing(c))
            return false;
    }
    return true;
}

/* Its claim with this number, if that needs a turn and has none; else NULL. */
static struct claim *needed(struct share *s, unsigned i)
{
    struct claim *c = &s->claims[i];
    return choice_needs_turn(c) && c->card->holder != c ? c : NULL;
}

/* It needs a card that it may not have now, or that is not kept for it. */
static bool lacks_one(struct share *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct claim *c = needed(s, i);
        if (!c)
            continue;
        if (!c->is_running || c->card->kept != s)
            return true;
    }
    return false;
}

static void give_up_cards(struct turns *t, const struct share *s)
{
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        if (t->cards[i].kept == s)
            t->cards[i].kept = NULL;
}

static void grant_all(struct turns *t, struct share *s, int64_t now)
{
    int64_t last = now;
    bool is_overdue = false;
    for (unsigned i = 0; i < s->n; i++) {
        struct claim *c = needed(s, i);
        if (!c)
            continue;
        if (!is_free(c->card, s))
            return;
        is_overdue = is_overdue || choice_is_overdue(c, now);
        int64_t ends = ledger_ends(c, now);
        last = ends > last ? ends : last;
    }
    for (unsigned i = 0; i < s->n; i++) {
        struct claim *c = needed(s, i);
        if (!c)
            continue;
        grant(t, c, ledger_is_capped(c) ? ledger_ends(c, now) : last, is_overdue, now);
    }
}

/* Who has one of the other cards makes way now, so that they become free together. */
static void begin_gang(struct turns *t, struct share *s, int64_t now)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct claim *c = needed(s, i);
        if (!c)
            continue;
        c->card->kept = s;
        if (c->card->holder)
            end_turns(t, c->card->holder->share, now);
    }
    grant_all(t, s, now);
}

/* It does not need the card any more, may not have it, or one of higher priority wants it. */
static bool is_kept_in_vain(const struct card *card, int64_t now)
{
    const struct claim *mine = NULL, *next = NULL;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->share == card->kept)
            mine = c;
        else if (c->is_running && (!next || choice_is_before(c, next, now)))
            next = c;
    }
    return !mine || !mine->is_running || card->holder == mine || !choice_needs_turn(mine) ||
           (next && choice_is_urgent(next, mine, now));
}

static void follow_kept(struct turns *t, struct card *card, int64_t now)
{
    if (card->kept && (is_kept_in_vain(card, now) || lacks_one(card->kept)))
        give_up_cards(t, card->kept);
    else if (card->kept)
        grant_all(t, card->kept, now);
}

static void give(struct turns *t, struct claim *c, int64_t now)
{
    if (choice_needs_turn(c) && choice_is_gang(c->share))
        begin_gang(t, c->share, now);
    else if (choice_needs_turn(c))
        grant(t, c, ledger_ends(c, now), choice_is_overdue(c, now), now);
    else if (choice_must_yield(c))
        grant(t, c, TURNS_NEVER, /* is_overdue= */ false, now);
    else if (now >= c->card->contended + LINGER)
        gate_open(t, c);
    else
        grant(t, c, c->card->contended + LINGER, /* is_overdue= */ false, now);
}

static void choose(struct turns *t, struct card *card, int64_t now)
{
    if (card->kept || card->holder)
        return;
    struct claim *next = choice_next(card, now);
    if (next && is_free(card, next->share))
        give(t, next, now);
}

/* --- The others --- */

static void set_gates(struct turns *t, const struct card *card, int64_t now)
{
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->is_active && c != card->holder && c->gate == GATE_TELL)
            gate_close(t, c, now);
        else if (!c->is_active && (now - c->idle >= GRACE || card->n_active == 0))
            gate_tell(t, c);
    }
}

static int64_t due(const struct claim *c, int64_t now)
{
    const struct card *card = c->card;
    int64_t at = gate_due(c, now);
    int64_t other = c == card->holder                         ? c->ends
                    : c->is_active && !c->is_running          ? ledger_throttled_until(c)
                    : !c->is_active && c->gate == GATE_CLOSED ? c->idle + GRACE
                                                              : TURNS_NEVER;
    return at < other ? at : other;
}

static void set_next(struct card *card, int64_t now)
{
    card->next = TURNS_NEVER;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        int64_t at = due(c, now);
        card->next = at < card->next ? at : card->next;
    }
}

/* --- Steps --- */

static bool has_several(const struct card *card)
{
    for (size_t i = 0; i < card->n; i++)
        if (card->claims[i]->share->n > 1)
            return true;
    return false;
}

/* A card is decided upon when something was said about it or its time has come; and all are, when a
 * container has several of them. */
static void find_due(struct turns *t, int64_t now)
{
    bool all = false;
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++) {
        struct card *card = &t->cards[i];
        card->is_due = card->is_due || now >= card->next;
        all = all || (card->is_due && has_several(card));
    }
    for (unsigned i = 0; all && i < TURNS_MAX_CARDS; i++)
        t->cards[i].is_due = t->cards[i].is_due || t->cards[i].n > 0;
}

typedef void card_fn(struct turns *t, struct card *card, int64_t now);

static void for_each_due(struct turns *t, card_fn *fn, int64_t now)
{
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        if (t->cards[i].is_due)
            fn(t, &t->cards[i], now);
}

static void set_quanta(struct turns *t)
{
    unsigned n_contended = 0;
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        n_contended += t->cards[i].n_active > 1;
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        t->cards[i].quantum = ledger_quantum(n_contended);
}

static void finish(struct turns *t, struct card *card, int64_t now)
{
    set_gates(t, card, now);
    ledger_watch(card, now);
    set_next(card, now);
    card->is_due = false;
}

/* One after the other, because a container may have several of the cards. */
int64_t turns_step(struct turns *t, int64_t now)
{
    int64_t next = TURNS_NEVER;
    find_due(t, now);
    for_each_due(t, settle, now);
    set_quanta(t);
    for_each_due(t, follow_holder, now);
    for_each_due(t, follow_kept, now);
    for_each_due(t, choose, now);
    for_each_due(t, finish, now);
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++)
        next = t->cards[i].next < next ? t->cards[i].next : next;
    return next == TURNS_NEVER ? -1 : next;
}

/* --- What changes --- */

bool turns_next_change(struct turns *t, struct turns_change *ret)
{
    struct claim *c = t->changed;
    if (!c)
        return false;
    t->changed = c->next_changed;
    if (!t->changed)
        t->last_changed = &t->changed;
    c->is_changed = false;
    *ret = (struct turns_change){.share = c->share->id,
                                 .claim = (unsigned)(c - c->share->claims),
                                 .gate = c->gate,
                                 .turn = c->turn,
                                 .ends = c->gate == GATE_TURN ? c->ends : 0};
    return true;
}

struct turns_sums turns_sums(const struct turns *t, unsigned share, unsigned claim)
{
    const struct claim *c = find_claim(t, share, claim);
    if (!c)
        return (struct turns_sums){0};
    struct turns_sums s = c->sums;
    s.deficit_ns = c->deficit;
    return s;
}
