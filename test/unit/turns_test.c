/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#include "nodeagent/arbiter/turns.h"

/*
 * A world of cards that do one piece of work after the other, and of processes that give them some as
 * the limiter does: as many pieces in flight as they may, none while their gate is closed, an answer
 * when the card has done what was in flight.
 */

#define MS  INT64_C(1000000)
#define SEC (1000 * MS)

enum { CARDS = 4, PROCESSES = 16, QUEUE = 1024 };

struct process {
    unsigned share, claim, member, card;
    int64_t piece;        /* how long one takes */
    int depth;            /* in flight while contended */
    int64_t works, rests; /* it wants work for so long, then none for so long; rests 0: always */
    bool is_dead, is_silent;
    /* state */
    int in_flight;
    enum share_gate gate;
    uint32_t turn, told, answered;
    int64_t done; /* what the card did for it */
};

struct card {
    struct process *queue[QUEUE];
    size_t first, n;
    int64_t ends; /* of the piece that it does */
};

struct world {
    struct turns *t;
    int64_t now, next, start;
    struct process processes[PROCESSES];
    size_t n;
    struct card cards[CARDS];
};

static struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof(*w));
    w->t = turns_new();
    w->now = w->start = 1000 * SEC;
    return w;
}

static void world_free(struct world *w)
{
    turns_free(w->t);
    free(w);
}

static struct process *add(struct world *w, unsigned share, unsigned claim, unsigned card,
                           int64_t piece)
{
    struct process *p = &w->processes[w->n];
    *p = (struct process){.share = share,
                          .claim = claim,
                          .member = (unsigned)w->n,
                          .card = card,
                          .piece = piece,
                          .depth = 2,
                          .gate = GATE_TELL,
                          .told = UINT32_MAX,
                          .answered = UINT32_MAX};
    w->n++;
    turns_serve(w->t, share, claim, p->member);
    return p;
}

/* A container with one process on one card, always at work. */
static struct process *worker(struct world *w, unsigned share, unsigned percent, int64_t piece)
{
    const struct turns_claim claim = {.card = 0, .percent = percent};
    turns_add(w->t, share, &claim, 1, w->now);
    return add(w, share, 0, 0, piece);
}

static bool wants(const struct world *w, const struct process *p)
{
    int64_t cycle = p->works + p->rests;
    return !p->is_dead && (p->rests == 0 || (w->now - w->start) % cycle < p->works);
}

static void give(struct world *w, struct process *p)
{
    struct card *c = &w->cards[p->card];
    cr_assert(c->n < QUEUE);
    if (c->n == 0)
        c->ends = w->now + p->piece;
    c->queue[(c->first + c->n++) % QUEUE] = p;
    p->in_flight++;
}

static void say_want(struct world *w, struct process *p)
{
    if (p->told == p->turn)
        return;
    p->told = p->turn;
    turns_want(w->t, p->share, p->claim, p->member, w->now);
}

static void answer(struct world *w, struct process *p)
{
    if (p->answered == p->turn || p->in_flight > 0 || p->is_silent)
        return;
    p->answered = p->turn;
    turns_answer(w->t, p->share, p->claim, p->member, p->turn, !wants(w, p));
}

static void act(struct world *w, struct process *p)
{
    if (p->is_dead)
        return;
    if (p->gate == GATE_CLOSED) {
        if (wants(w, p))
            say_want(w, p);
        answer(w, p);
        return;
    }
    if (p->gate == GATE_TELL && wants(w, p))
        say_want(w, p);
    if (p->gate == GATE_TURN && wants(w, p) && p->answered == p->turn) {
        p->answered = UINT32_MAX;
        turns_want(w->t, p->share, p->claim, p->member, w->now);
    }
    while (wants(w, p) && p->in_flight < p->depth)
        give(w, p);
    if (p->gate == GATE_TURN && !wants(w, p))
        answer(w, p);
}

static void follow(struct world *w)
{
    struct turns_change c;
    w->next = turns_step(w->t, w->now);
    while (turns_next_change(w->t, &c)) {
        for (size_t i = 0; i < w->n; i++) {
            struct process *p = &w->processes[i];
            if (p->share != c.share || p->claim != c.claim)
                continue;
            p->gate = c.gate;
            p->turn = c.turn;
        }
    }
    for (size_t i = 0; i < w->n; i++)
        act(w, &w->processes[i]);
}

static void finish(struct world *w, struct card *c)
{
    struct process *p = c->queue[c->first];
    c->first = (c->first + 1) % QUEUE;
    c->n--;
    p->in_flight--;
    p->done += p->piece;
    if (c->n > 0)
        c->ends = w->now + c->queue[c->first]->piece;
}

/* The next time at which something happens by itself. */
static int64_t next_time(const struct world *w, int64_t until)
{
    int64_t at = w->next >= 0 && w->next < until ? w->next : until;
    for (size_t i = 0; i < CARDS; i++)
        if (w->cards[i].n > 0 && w->cards[i].ends < at)
            at = w->cards[i].ends;
    return at > w->now ? at : w->now + 1;
}

static void run(struct world *w, int64_t time)
{
    int64_t until = w->now + time, slice = w->now + MS;
    while (w->now < until) {
        follow(w);
        follow(w); /* what was said has its effect */
        int64_t at = next_time(w, until < slice ? until : slice);
        w->now = at;
        if (at >= slice)
            slice = at + MS;
        for (size_t i = 0; i < CARDS; i++)
            if (w->cards[i].n > 0 && w->cards[i].ends <= w->now)
                finish(w, &w->cards[i]);
    }
}

static double percent_of(const struct process *p, int64_t time)
{
    return (double)p->done * 100 / (double)time;
}

#define NEAR(p, time, want)                                                                        \
    cr_expect(percent_of(p, time) > (want)-5 && percent_of(p, time) < (want) + 5, "%s: %.1f %%",   \
              #p, percent_of(p, time))

/* --- Alone --- */

Test(turns, who_is_alone_is_let_through_and_nothing_more_is_wanted)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 30, 5 * MS);
    worker(w, 2, 70, 5 * MS)->is_dead = true;
    run(w, 100 * MS);
    cr_expect_eq(p->gate, GATE_OPEN);
    cr_expect_eq(turns_step(w->t, w->now), -1);
    cr_expect_eq(w->processes[1].gate, GATE_TELL);
    world_free(w);
}

Test(turns, who_is_left_alone_again_is_let_through)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 30, 5 * MS), *q = worker(w, 2, 70, 5 * MS);
    run(w, SEC);
    cr_expect_neq(p->gate, GATE_OPEN);
    q->works = MS;
    q->rests = 1000 * SEC;
    run(w, SEC);
    cr_expect_eq(p->gate, GATE_OPEN);
    cr_expect_eq(q->gate, GATE_TELL);
    world_free(w);
}

/* --- Shares --- */

Test(turns, thirty_and_seventy_are_thirty_and_seventy)
{
    const int64_t pieces[][2] = {{5000, 5000},
                                 {MS, MS},
                                 {5 * MS, 5 * MS},
                                 {100000, 5 * MS},
                                 {5 * MS, 200000}};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct world *w = world_new();
        struct process *p = worker(w, 1, 30, pieces[i][0]), *q = worker(w, 2, 70, pieces[i][1]);
        p->depth = q->depth = (int)(MS / pieces[i][0]) + 2;
        run(w, 10 * SEC);
        NEAR(p, 10 * SEC, 30);
        NEAR(q, 10 * SEC, 70);
        world_free(w);
    }
}

Test(turns, those_without_a_guarantee_share_what_is_left)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 60, 2 * MS), *q = worker(w, 2, 0, 2 * MS),
                   *r = worker(w, 3, 0, 2 * MS);
    run(w, 10 * SEC);
    NEAR(p, 10 * SEC, 60);
    NEAR(q, 10 * SEC, 20);
    NEAR(r, 10 * SEC, 20);
    world_free(w);
}

Test(turns, what_one_does_not_use_the_others_have)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, 2 * MS), *q = worker(w, 2, 25, 2 * MS),
                   *r = worker(w, 3, 25, 2 * MS);
    p->works = 10 * MS;
    p->rests = 90 * MS;
    run(w, 10 * SEC);
    cr_expect(percent_of(p, 10 * SEC) >= 4, "%.1f", percent_of(p, 10 * SEC));
    cr_expect(percent_of(q, 10 * SEC) > 40, "%.1f", percent_of(q, 10 * SEC));
    cr_expect(percent_of(r, 10 * SEC) > 40, "%.1f", percent_of(r, 10 * SEC));
    world_free(w);
}

Test(turns, the_processes_of_a_container_have_its_share_together)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, 2 * MS), *q = worker(w, 2, 50, 2 * MS);
    struct process *q2 = add(w, 2, 0, 0, 2 * MS), *q3 = add(w, 2, 0, 0, 2 * MS);
    run(w, 10 * SEC);
    NEAR(p, 10 * SEC, 50);
    q->done += q2->done + q3->done;
    NEAR(q, 10 * SEC, 50);
    world_free(w);
}

Test(turns, an_overrun_is_a_debt)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, 150 * MS), *q = worker(w, 2, 50, MS);
    p->depth = 1;
    run(w, 20 * SEC);
    NEAR(p, 20 * SEC, 50);
    NEAR(q, 20 * SEC, 50);
    world_free(w);
}

Test(turns, a_capped_claim_has_its_percent_also_alone)
{
    struct world *w = world_new();
    const struct turns_claim claim = {.card = 0, .percent = 30, .is_capped = true};
    turns_add(w->t, 1, &claim, 1, w->now);
    struct process *p = add(w, 1, 0, 0, MS);
    run(w, 10 * SEC);
    NEAR(p, 10 * SEC, 30);
    world_free(w);
}

/* --- Priority --- */

Test(turns, high_priority_goes_first_and_low_has_one_percent_at_least)
{
    struct world *w = world_new();
    struct process *high = worker(w, 1, 0, MS);
    const struct turns_claim low = {.card = 0, .priority = 1};
    turns_add(w->t, 2, &low, 1, w->now);
    struct process *p = add(w, 2, 0, 0, MS);
    run(w, 20 * SEC);
    cr_expect(percent_of(high, 20 * SEC) > 95, "%.1f", percent_of(high, 20 * SEC));
    cr_expect(p->done > 0 && percent_of(p, 20 * SEC) < 5, "%.1f", percent_of(p, 20 * SEC));
    world_free(w);
}

Test(turns, a_turn_of_low_priority_ends_when_high_wants)
{
    struct world *w = world_new();
    const struct turns_claim low = {.card = 0, .priority = 1};
    turns_add(w->t, 2, &low, 1, w->now);
    struct process *p = add(w, 2, 0, 0, MS);
    struct process *high = worker(w, 1, 0, MS);
    high->works = 5 * MS;
    high->rests = 995 * MS;
    run(w, 10 * SEC);
    /* Of each second it wants 5 ms, and has them though the other is there always. */
    cr_expect(high->done >= 10 * 3 * MS, "%lld", (long long)high->done);
    cr_expect(percent_of(p, 10 * SEC) > 90);
    world_free(w);
}

/* --- Several cards --- */

Test(turns, containers_that_have_two_cards_crosswise_do_not_wait_for_each_other)
{
    struct world *w = world_new();
    const struct turns_claim claims[2][2] = {{{.card = 0, .percent = 50},
                                              {.card = 1, .percent = 50}},
                                             {{.card = 1, .percent = 50},
                                              {.card = 0, .percent = 50}}};
    for (unsigned s = 0; s < 2; s++) {
        turns_add(w->t, s, claims[s], 2, w->now);
        for (unsigned i = 0; i < 2; i++)
            add(w, s, i, claims[s][i].card, MS);
    }
    run(w, 10 * SEC);
    for (size_t i = 0; i < w->n; i++)
        NEAR(&w->processes[i], 10 * SEC, 50);
    world_free(w);
}

/* --- Members that fail --- */

Test(turns, a_holder_that_ends_makes_way)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, MS), *q = worker(w, 2, 50, MS);
    run(w, SEC);
    p->is_dead = true;
    turns_gone(w->t, p->share, p->member);
    run(w, SEC);
    cr_expect_eq(q->gate, GATE_OPEN);
    world_free(w);
}

Test(turns, who_never_answers_stops_the_others_for_a_fifth_of_a_second)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, MS), *q = worker(w, 2, 50, MS);
    p->is_silent = true;
    run(w, 10 * SEC);
    cr_expect(q->done > SEC, "%lld", (long long)q->done);
    cr_expect(turns_sums(w->t, 1, 0).overruns > 0);
    world_free(w);
}

Test(turns, who_is_removed_makes_way)
{
    struct world *w = world_new();
    worker(w, 1, 50, MS)->is_silent = true;
    struct process *q = worker(w, 2, 50, MS);
    run(w, SEC);
    turns_remove(w->t, 1);
    run(w, SEC);
    cr_expect_eq(q->gate, GATE_OPEN);
    world_free(w);
}

Test(turns, words_about_what_there_is_not_change_nothing)
{
    struct world *w = world_new();
    struct process *p = worker(w, 1, 50, MS);
    run(w, SEC);
    turns_want(w->t, 7, 0, 0, w->now);
    turns_want(w->t, 1, 9, 0, w->now);
    turns_want(w->t, 1, 0, REGION_MAX_PROCESSES, w->now);
    turns_answer(w->t, 1, 0, p->member, p->turn + 1, true);
    turns_answer(w->t, TURNS_MAX_SHARES, 0, 0, 0, true);
    turns_gone(w->t, TURNS_MAX_SHARES, 0);
    cr_expect_eq(turns_step(w->t, w->now), -1);
    run(w, SEC);
    cr_expect_eq(p->gate, GATE_OPEN);
    world_free(w);
}

/* --- Whatever happens --- */

/* A card is idle while somebody wants it, or a gate stays closed, for no longer than the slowest piece
 * and the time that one waits for those who do not answer. */
Test(turns, whatever_happens_the_card_works_and_nobody_waits_for_ever)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct world *w = world_new();
        struct rng rng;
        rng_init(&rng, seed);
        size_t n = 2 + rng_below(&rng, 5);
        for (unsigned i = 0; i < n; i++) {
            struct process *p = worker(w, i, 5 + (unsigned)rng_below(&rng, 80 / n),
                                       (int64_t)(5000 + rng_below(&rng, 20 * MS)));
            p->depth = 1 + (int)rng_below(&rng, 4);
            if (i > 0 && rng_below(&rng, 2) == 0) {
                p->works = (int64_t)rng_below(&rng, 50 * MS) + MS;
                p->rests = (int64_t)rng_below(&rng, 50 * MS) + MS;
            }
        }
        for (unsigned second = 0; second < 5; second++) {
            int64_t before = w->processes[0].done, all = 0;
            run(w, SEC);
            cr_expect(w->processes[0].done > before, "seed %llu: nothing for one that always wants",
                      (unsigned long long)seed);
            for (size_t i = 0; i < n; i++)
                all += w->processes[i].done;
            cr_expect(all > (second + 1) * SEC * 85 / 100, "seed %llu: %lld of %u s",
                      (unsigned long long)seed, (long long)all, second + 1);
        }
        world_free(w);
    }
}
