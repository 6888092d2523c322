/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/turns.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

#include "nodeagent/arbiter/member_set.h"

#define MS          INT64_C(1000000)
#define QUANTUM     (20 * MS)
#define QUANTUM_MIN (10 * MS)
#define QUANTUM_MAX (50 * MS)
#define DRAIN       (200 * MS)  /* who has not finished by then does not stop the others */
#define CAP_WINDOW  (100 * MS)  /* over which a capped claim has its percent */
#define LOW_WAIT    (2000 * MS) /* a claim of low priority waits no longer: 1 % for turns of 20 ms */
#define LAG         (1000 * MS) /* so much of what it did not use is kept for a claim */

struct claim {
    struct share *share;
    struct turns_claim spec;
    bool active;
    enum share_gate gate;
    uint32_t turn;
    struct member_set members;
    /* At a closed gate: who has not said that its work is done; in a turn: who has not said that it
     * is idle. */
    struct member_set awaited;
    struct member_set wanting; /* at a closed gate: who has more to do */
    int64_t granted, ends, ended;
    int64_t used;   /* what it was charged, by its weight */
    int64_t credit; /* of a capped one: what it may use now */
    int64_t credited;
    struct turns_sums sums;
    bool changed;
    struct claim *next_changed;
};

struct share {
    unsigned id, n;
    int64_t waits; /* since when it waits for several cards at once; -1: it does not */
    struct claim claims[];
};

enum phase { FREE, HELD, DRAINING };

struct card {
    struct claim **claims; /* on it */
    size_t n;
    enum phase phase;
    struct claim *holder;
    int64_t since;     /* DRAINING: since when */
    int64_t used;      /* of the claim that had the last turn */
    bool is_protected; /* the holder is of low priority, and has waited long */
};

struct turns {
    struct share *shares[TURNS_MAX_SHARES];
    struct card cards[TURNS_MAX_CARDS];
    struct claim *changed; /* in any order */
};

/* --- Life --- */

struct turns *turns_new(void)
{
    return xcalloc(1, sizeof(struct turns));
}

struct turns *turns_free(struct turns *t)
{
    for (unsigned i = 0; t && i < TURNS_MAX_SHARES; i++)
        free(t->shares[i]);
    for (unsigned i = 0; t && i < TURNS_MAX_CARDS; i++)
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

static void note_change(struct turns *t, struct claim *c)
{
    if (c->changed)
        return;
    c->changed = true;
    c->next_changed = t->changed;
    t->changed = c;
}

/* The gate is told at first, too: an earlier agent may have left another one. */
static void begin(struct turns *t, struct share *s, struct claim *c, const struct turns_claim *spec,
                  int64_t now)
{
    struct card *card = &t->cards[spec->card];
    assert(spec->card < TURNS_MAX_CARDS);
    *c = (struct claim){.share = s, .spec = *spec, .gate = GATE_TELL, .credited = now};
    *XPUSH(card->claims, card->n) = c;
    note_change(t, c);
}

void turns_add(struct turns *t, unsigned share, const struct turns_claim *claims, unsigned n,
               int64_t now)
{
    assert(share < TURNS_MAX_SHARES && n > 0 && n <= REGION_MAX_CARDS);
    turns_remove(t, share);
    struct share *s = xcalloc(1, sizeof(*s) + n * sizeof(s->claims[0]));
    s->id = share;
    s->n = n;
    s->waits = -1;
    for (unsigned i = 0; i < n; i++)
        begin(t, s, &s->claims[i], &claims[i], now);
    t->shares[share] = s;
}

void turns_change(struct turns *t, unsigned share, const struct turns_claim *claims)
{
    struct share *s = find(t, share);
    for (unsigned i = 0; s && i < s->n; i++) {
        assert(s->claims[i].spec.card == claims[i].card);
        s->claims[i].spec = claims[i];
    }
}

static void leave_card(struct card *card, const struct claim *c)
{
    size_t i = 0;
    while (card->claims[i] != c)
        i++;
    card->claims[i] = card->claims[--card->n];
    if (card->holder != c)
        return;
    card->holder = NULL;
    card->phase = FREE;
}

static void leave_changed(struct turns *t, const struct claim *c)
{
    struct claim **at = &t->changed;
    while (*at && *at != c)
        at = &(*at)->next_changed;
    if (*at)
        *at = c->next_changed;
}

void turns_remove(struct turns *t, unsigned share)
{
    struct share *s = find(t, share);
    if (!s)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        leave_card(&t->cards[s->claims[i].spec.card], &s->claims[i]);
        leave_changed(t, &s->claims[i]);
    }
    free(s);
    t->shares[share] = NULL;
}

/* --- The claims of a card --- */

#define EACH_CLAIM(card, c)                                                                        \
    for (size_t i_ = 0; i_ < (card)->n; i_++)                                                      \
        for (struct claim *c = (card)->claims[i_]; c; c = NULL)

static bool is_capped(const struct claim *c)
{
    return c->spec.is_capped && c->spec.percent > 0 && c->spec.percent < 100;
}

struct demand {
    unsigned active, without; /* how many; and of them without a guarantee */
    unsigned percents;        /* guaranteed to the active ones */
    bool is_capped;
    bool is_high; /* one that may have a turn is of high priority */
};

static bool may_have_turn(const struct claim *c)
{
    return c->active && (!is_capped(c) || c->credit > 0);
}

static struct demand demand_for(const struct card *card)
{
    struct demand d = {0};
    EACH_CLAIM(card, c)
    {
        if (!c->active)
            continue;
        d.active++;
        d.without += c->spec.percent == 0;
        d.percents += c->spec.percent;
        d.is_capped = d.is_capped || is_capped(c);
        d.is_high = d.is_high || (c->spec.priority == 0 && may_have_turn(c));
    }
    return d;
}

static bool is_contended(const struct demand *d)
{
    return d->active > 1 || d->is_capped;
}

/* Those without a guarantee share what is left. */
static int64_t weight_of(const struct claim *c, const struct demand *d)
{
    if (c->spec.percent > 0)
        return c->spec.percent;
    unsigned left = d->percents < 100 && d->without ? (100 - d->percents) / d->without : 0;
    return left ? left : 1;
}

static int64_t quantum_of(const struct claim *c, const struct demand *d)
{
    int64_t all = (int64_t)d->percents + (d->without && d->percents < 100 ? 100 - d->percents : 0);
    int64_t ns = QUANTUM * weight_of(c, d) * d->active / (all ? all : 1);
    ns = ns < QUANTUM_MIN ? QUANTUM_MIN : ns > QUANTUM_MAX ? QUANTUM_MAX : ns;
    return is_capped(c) && c->credit < ns ? c->credit : ns;
}

/* --- Gates --- */

static void set_gate(struct turns *t, struct claim *c, enum share_gate gate, int64_t ends)
{
    if (c->gate == gate && gate != GATE_TURN)
        return;
    c->gate = gate;
    c->ends = ends;
    c->turn++;
    c->awaited = c->members;
    c->wanting = (struct member_set){0};
    note_change(t, c);
}

/* --- Charges --- */

static void charge(struct card *card, const struct demand *d, int64_t now)
{
    struct claim *c = card->holder;
    int64_t took = now - c->granted;
    c->sums.held_ns += took;
    c->used += took * 100 / weight_of(c, d);
    c->credit -= took;
    c->ended = now;
    card->used = c->used;
}

static void end_turn(struct card *card, const struct demand *d, int64_t now)
{
    charge(card, d, now);
    card->holder = NULL;
    card->phase = FREE;
}

/* A capped claim has credit for one window at most, and owes no more than for ten. */
static void refill(struct card *card, int64_t now)
{
    EACH_CLAIM(card, c)
    {
        int64_t most = CAP_WINDOW * c->spec.percent / 100;
        int64_t credit = c->credit + (now - c->credited) * c->spec.percent / 100;
        c->credit = !is_capped(c) || credit > most ? most
                    : credit < -10 * most          ? -10 * most
                                                   : credit;
        c->credited = now;
    }
}

/* --- Turns --- */

static void give_turn(struct turns *t, struct claim *c, int64_t now)
{
    struct card *card = &t->cards[c->spec.card];
    const struct demand d = demand_for(card);
    assert(card->phase == FREE);
    card->phase = HELD;
    card->holder = c;
    card->is_protected = now - c->ended > LOW_WAIT;
    c->granted = now;
    set_gate(t, c, GATE_TURN, now + quantum_of(c, &d));
}

static void take_turn(struct turns *t, struct card *card, int64_t now)
{
    card->phase = DRAINING;
    card->since = now;
    set_gate(t, card->holder, GATE_CLOSED, 0);
}

/* Of a container: what it wants now, and others want, too. */
static bool needs_turn(const struct turns *t, const struct claim *c)
{
    const struct demand d = demand_for(&t->cards[c->spec.card]);
    return c->active && is_contended(&d);
}

static bool can_have_all(const struct turns *t, const struct share *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (needs_turn(t, &s->claims[i]) &&
            (t->cards[s->claims[i].spec.card].phase != FREE || !may_have_turn(&s->claims[i])))
            return false;
    return true;
}

static void give_all(struct turns *t, struct share *s, int64_t now)
{
    s->waits = -1;
    for (unsigned i = 0; i < s->n; i++)
        if (needs_turn(t, &s->claims[i]))
            give_turn(t, &s->claims[i], now);
}

/* True when a is to have its turn before b. */
static bool is_before(const struct claim *a, const struct claim *b, int64_t now)
{
    bool a_first = a->spec.priority == 0 || now - a->ended > LOW_WAIT;
    bool b_first = b->spec.priority == 0 || now - b->ended > LOW_WAIT;
    if (a_first != b_first)
        return a_first;
    return a->used < b->used;
}

/* Of those that wait for several cards, this one among them, the one that has waited longest. */
static struct claim *longest_waiting(const struct card *card)
{
    struct claim *found = NULL;
    EACH_CLAIM(card, c)
    {
        if (c->active && c->share->waits >= 0 && (!found || c->share->waits < found->share->waits))
            found = c;
    }
    return found;
}

static struct claim *first_of(const struct card *card, int64_t now)
{
    struct claim *found = longest_waiting(card);
    if (found)
        return found;
    EACH_CLAIM(card, c)
    {
        if (may_have_turn(c) && (!found || is_before(c, found, now)))
            found = c;
    }
    return found;
}

/* A container that has several cards gets them at the same time: two of them that had one each, and
 * waited for the other's, would wait for ever. The card stays free for it meanwhile. */
static void choose(struct turns *t, struct card *card, int64_t now)
{
    struct claim *c = first_of(card, now);
    if (!c)
        return;
    if (can_have_all(t, c->share))
        give_all(t, c->share, now);
    else if (c->share->waits < 0)
        c->share->waits = now;
}

/* A claim that was alone goes on, by turns from now on. */
static void keep_open_one(struct turns *t, struct card *card, int64_t now)
{
    EACH_CLAIM(card, c)
    {
        if (c->active && c->gate == GATE_OPEN && card->phase == FREE)
            give_turn(t, c, now);
    }
}

/* --- One card --- */

static bool must_end(const struct card *card, const struct demand *d, int64_t now)
{
    if (now >= card->holder->ends)
        return true;
    return card->holder->spec.priority != 0 && d->is_high &&
           (!card->is_protected || now - card->holder->granted >= QUANTUM_MIN);
}

static bool is_wanted_by_others(const struct card *card)
{
    EACH_CLAIM(card, c)
    {
        if (c != card->holder && (may_have_turn(c) || (c->active && c->share->waits >= 0)))
            return true;
    }
    return false;
}

/* Nobody else may have the card now: its holder goes on. */
static void extend(struct card *card, const struct demand *d, int64_t now)
{
    struct claim *c = card->holder;
    charge(card, d, now);
    c->granted = now;
    c->ends = now + (may_have_turn(c) ? quantum_of(c, d) : 0);
}

static void follow_holder(struct turns *t, struct card *card, const struct demand *d, int64_t now)
{
    struct claim *c = card->holder;
    if (card->phase == HELD && !c->active) {
        end_turn(card, d, now);
        return;
    }
    if (card->phase == HELD && now >= c->ends && !is_wanted_by_others(card))
        extend(card, d, now);
    if (card->phase == HELD && must_end(card, d, now))
        take_turn(t, card, now);
    if (card->phase != DRAINING)
        return;
    bool overran = now - card->since >= DRAIN;
    c->sums.overruns += overran;
    if (overran || member_set_is_empty(&c->awaited))
        end_turn(card, d, now);
}

/* While others take turns an idle claim waits for its own with the first work that it has. */
static void set_gates(struct turns *t, struct card *card, bool contended)
{
    EACH_CLAIM(card, c)
    {
        if (contended && c != card->holder)
            set_gate(t, c, GATE_CLOSED, 0);
        else if (!contended)
            set_gate(t, c, c->active ? GATE_OPEN : GATE_TELL, 0);
    }
}

static bool is_done(const struct claim *c)
{
    bool asked = c->gate == GATE_CLOSED || c->gate == GATE_TURN;
    return (asked && member_set_is_empty(&c->wanting) && member_set_is_empty(&c->awaited)) ||
           member_set_is_empty(&c->members);
}

/* A claim of which every member has said that it has nothing to do is idle. */
static void settle_idle(struct card *card)
{
    EACH_CLAIM(card, c)
    {
        if (!c->active || !is_done(c))
            continue;
        c->active = false;
        c->share->waits = -1;
    }
}

static void step_card(struct turns *t, struct card *card, int64_t now)
{
    settle_idle(card);
    refill(card, now);
    const struct demand d = demand_for(card);
    bool contended = is_contended(&d);
    if (!contended && card->phase != FREE)
        end_turn(card, &d, now);
    if (contended && card->phase != FREE)
        follow_holder(t, card, &d, now);
    if (contended && card->phase == FREE)
        keep_open_one(t, card, now);
    if (contended && card->phase == FREE)
        choose(t, card, now);
    set_gates(t, card, contended);
}

/* When a capped claim that waits will have some credit again; -1: none waits so. */
static int64_t refilled_at(const struct card *card, int64_t now)
{
    int64_t at = -1;
    EACH_CLAIM(card, c)
    {
        if (!c->active || may_have_turn(c))
            continue;
        int64_t when = now + (QUANTUM_MIN / 2 - c->credit) * 100 / c->spec.percent;
        at = at < 0 || when < at ? when : at;
    }
    return at;
}

static int64_t wanted_at(const struct card *card, int64_t now)
{
    switch (card->phase) {
    case HELD:
        return card->holder->ends;
    case DRAINING:
        return card->since + DRAIN;
    case FREE:
        break;
    }
    return refilled_at(card, now);
}

int64_t turns_step(struct turns *t, int64_t now)
{
    int64_t next = -1;
    for (struct card *c = t->cards; c < t->cards + TURNS_MAX_CARDS; c++)
        step_card(t, c, now);
    for (unsigned i = 0; i < TURNS_MAX_CARDS; i++) {
        int64_t at = wanted_at(&t->cards[i], now);
        next = next < 0 || (at >= 0 && at < next) ? at : next;
    }
    return next;
}

/* --- What is said --- */

static struct claim *find_for(const struct turns *t, unsigned share, unsigned claim,
                              unsigned member)
{
    return member < REGION_MAX_PROCESSES ? find_claim(t, share, claim) : NULL;
}

void turns_serve(struct turns *t, unsigned share, unsigned claim, unsigned member)
{
    struct claim *c = find_for(t, share, claim, member);
    if (c)
        member_set_put(&c->members, member);
}

/* What a claim did not use while it was idle is not owed to it, but for a little. */
static void catch_up(const struct turns *t, struct claim *c)
{
    int64_t least = t->cards[c->spec.card].used - LAG;
    if (c->used < least)
        c->used = least;
}

void turns_want(struct turns *t, unsigned share, unsigned claim, unsigned member, int64_t now)
{
    struct claim *c = find_for(t, share, claim, member);
    if (!c)
        return;
    member_set_put(&c->members, member);
    member_set_put(c->gate == GATE_TURN ? &c->awaited : &c->wanting, member);
    if (c->active)
        return;
    c->active = true;
    c->ended = now;
    catch_up(t, c);
}

void turns_answer(struct turns *t, unsigned share, unsigned claim, unsigned member, uint32_t turn,
                  bool is_idle)
{
    struct claim *c = find_for(t, share, claim, member);
    if (!c || turn != c->turn)
        return;
    member_set_drop(&c->awaited, member);
    if (is_idle)
        member_set_drop(&c->wanting, member);
    else
        member_set_put(&c->wanting, member);
}

void turns_gone(struct turns *t, unsigned share, unsigned member)
{
    struct share *s = find(t, share);
    if (!s || member >= REGION_MAX_PROCESSES)
        return;
    for (unsigned i = 0; i < s->n; i++) {
        member_set_drop(&s->claims[i].members, member);
        member_set_drop(&s->claims[i].awaited, member);
        member_set_drop(&s->claims[i].wanting, member);
    }
}

/* --- What changes --- */

bool turns_next_change(struct turns *t, struct turns_change *ret)
{
    struct claim *c = t->changed;
    if (!c)
        return false;
    t->changed = c->next_changed;
    c->changed = false;
    *ret = (struct turns_change){.share = c->share->id,
                                 .claim = (unsigned)(c - c->share->claims),
                                 .gate = c->gate,
                                 .turn = c->turn,
                                 .ends = c->ends};
    return true;
}

struct turns_sums turns_sums(const struct turns *t, unsigned share, unsigned claim)
{
    const struct claim *c = find_claim(t, share, claim);
    return c ? c->sums : (struct turns_sums){0};
}
