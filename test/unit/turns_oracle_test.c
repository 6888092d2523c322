/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/num.h"

#include "test/unit/turns_world_support.h"

/*
 * What turns.h promises, in worlds made by a seed: pieces of work from 5 microseconds to half a second,
 * several processes in a container, programs that wait for their work and rest, containers with several
 * cards, caps, priorities; and everything that members may do wrong. In each world a card never has two
 * holders, and no call is wanted for a time that has passed (turns_world_support.c).
 */

enum { USUAL_CASES = 12, CARDS = 3 };

/* make torture takes more. */
static unsigned cases(void)
{
    const char *text = getenv("TURNS_CASES");
    int64_t n = USUAL_CASES;
    if (text)
        cr_assert_eq(num_parse(text, 1, INT32_MAX, &n, NULL), 0);
    return (unsigned)n;
}

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)rng_below(&w->rng, n);
}

/* From 2^least to 2^most microseconds, every magnitude as often. */
static int64_t random_time(struct world *w, unsigned least, unsigned most)
{
    int64_t base = US << (least + below(w, most - least)); /* before what follows */
    return base + (int64_t)rng_below(&w->rng, (uint64_t)base);
}

/* --- Shares --- */

struct division {
    struct world *w;
    unsigned n;
    unsigned percents[8], left;
};

static void random_processes(struct division *d, unsigned share)
{
    struct world *w = d->w;
    unsigned n = 1 + below(w, 4);
    bool waits = below(w, 3) == 0;
    for (unsigned i = 0; i < n; i++) {
        struct process *p = world_process(w, share, 0, 0, random_time(w, 5, 12));
        p->queue = p->depth;
        p->gap = waits ? (int64_t)rng_below(&w->rng, 100) * US : -1;
    }
}

static void random_shares(struct division *d)
{
    unsigned whole = 100;
    d->n = 2 + below(d->w, 4);
    for (unsigned s = 0; s < d->n; s++) {
        d->percents[s] = below(d->w, 5) == 0 ? 0 : 10 + below(d->w, 30);
        d->percents[s] = d->percents[s] > whole ? 0 : d->percents[s];
        whole -= d->percents[s];
        const struct turns_claim claim = {.percent = d->percents[s]};
        world_share(d->w, s, &claim, 1);
        random_processes(d, s);
    }
}

/* By the rule of turns.h: what is guaranteed, in proportion; the others share what is left. */
static double due(const struct division *d, unsigned share)
{
    double sum = 0, own = 0, percents = 0, n_without = 0;
    for (unsigned s = 0; s < d->n; s++) {
        percents += d->percents[s];
        n_without += d->percents[s] == 0;
    }
    for (unsigned s = 0; s < d->n; s++) {
        double rest = (100 - percents) / (n_without > 0 ? n_without : 1);
        double weight = d->percents[s] > 0 ? d->percents[s] : rest > 1 ? rest : 1;
        sum += weight;
        own = s == share ? weight : own;
    }
    return own * 100 / sum;
}

static double percent_held(struct world *w, unsigned share, int64_t before, int64_t time)
{
    return (double)(turns_sums(w->t, share, 0).held_ns - before) * 100 / (double)time;
}

Test(turns_oracle, pieces_of_a_quarter_of_a_turn_are_divided_within_five_points)
{
    for (unsigned seed = 0; seed < cases(); seed++) {
        struct division d = {.w = world_new(seed)};
        int64_t before[8], sum = 0;
        random_shares(&d);
        world_run(d.w, SEC);
        world_forget(d.w);
        for (unsigned s = 0; s < d.n; s++)
            before[s] = turns_sums(d.w->t, s, 0).held_ns;
        world_run(d.w, 10 * SEC);
        for (unsigned s = 0; s < d.n; s++) {
            double held = percent_held(d.w, s, before[s], 10 * SEC);
            double off = held - due(&d, s);
            sum += turns_sums(d.w->t, s, 0).held_ns - before[s];
            cr_expect(off > -5 && off < 5, "seed %u, share %u: %.1f, not %.1f", seed, s, held,
                      due(&d, s));
            int64_t deficit = turns_sums(d.w->t, s, 0).deficit_ns;
            cr_expect(deficit > -300 * MS && deficit < 300 * MS, "seed %u: %" PRId64, seed,
                      deficit);
        }
        /* What is charged is the time that passes: nobody works beside another, and nothing is lost. */
        cr_expect(sum > 9900 * MS && sum < 10100 * MS, "seed %u: %" PRId64, seed, sum);
        world_free(d.w);
    }
}

/* --- Whatever happens --- */

static struct turns_claim random_claim(struct world *w, unsigned card)
{
    struct turns_claim claim = {.card = card};
    claim.percent = below(w, 4) == 0 ? 0 : below(w, 101);
    claim.priority = below(w, 4) == 0;
    claim.is_capped = below(w, 4) == 0;
    claim.turn = below(w, 5);
    return claim;
}

static void random_habits(struct world *w, struct process *p)
{
    p->gap = below(w, 2) ? -1 : random_time(w, 3, 13);
    p->queue = p->depth + (int)below(w, 100);
    if (below(w, 3) == 0) {
        p->works = random_time(w, 8, 19);
        p->rests = random_time(w, 8, 19);
        p->phase = random_time(w, 8, 19);
    }
}

static void random_container(struct world *w, unsigned share)
{
    struct turns_claim claims[CARDS];
    unsigned n = 1 + below(w, 2) * below(w, CARDS), first = below(w, CARDS);
    for (unsigned i = 0; i < n; i++)
        claims[i] = random_claim(w, (first + i) % CARDS);
    world_share(w, share, claims, n);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = below(w, 3); k < 3 && w->n < WORLD_PROCESSES; k++)
            random_habits(w, world_process(w, share, i, claims[i].card, random_time(w, 5, 19)));
}

static void say_anything(struct world *w)
{
    unsigned share = below(w, 8), claim = below(w, CARDS), member = below(w, WORLD_PROCESSES);
    const struct process *p = &w->processes[member];
    uint32_t turn = below(w, 2) ? p->turn : below(w, 100);
    switch (below(w, 4)) {
    case 0:
        turns_want(w->t, share, claim, member);
        break;
    case 1:
        turns_serve(w->t, share, claim, member);
        break;
    default:
        turns_answer(w->t, share, claim, member, turn, below(w, 2));
        break;
    }
}

static void harm_one(struct world *w, struct process *p)
{
    switch (below(w, 8)) {
    case 0:
        if (!p->is_dead)
            world_kill(w, p);
        break;
    case 1:
        p->is_stopped = !p->is_stopped;
        break;
    case 2:
        p->is_mute = !p->is_mute;
        break;
    case 3:
        for (unsigned i = 0; i < 200; i++)
            say_anything(w);
        break;
    default:
        say_anything(w);
        break;
    }
}

static void harm(struct world *w)
{
    unsigned share = below(w, 8);
    if (below(w, 30) == 0) {
        turns_remove(w->t, share);
        world_abandon(w, share);
    } else if (w->n > 0) {
        harm_one(w, &w->processes[below(w, w->n)]);
    }
}

static void random_world(struct world *w)
{
    unsigned n = 2 + below(w, 6);
    w->loss = below(w, 2) ? 0 : below(w, 50);
    for (unsigned s = 0; s < n; s++)
        random_container(w, s);
}

/* Who lives, and has work, has a piece of it done in time: its own, those of the others on its card,
 * and what one waits for those who do not answer. */
static void expect_no_gate_closed_for_ever(const struct world *w, unsigned seed)
{
    for (unsigned i = 0; i < w->n; i++) {
        const struct process *p = &w->processes[i];
        int64_t waited = p->waits ? w->now - p->asked_at : p->longest_wait;
        cr_expect(waited < 40 * SEC, "seed %u: process %u waited for %" PRId64 " ms", seed, i,
                  waited / MS);
    }
}

/* Every gate lets everybody through again, and no call is wanted, once nobody wants anything. */
static void expect_rest(struct world *w, unsigned seed)
{
    for (unsigned i = 0; i < w->n; i++)
        if (!w->processes[i].is_dead)
            world_kill(w, &w->processes[i]);
    w->loss = 0;
    for (unsigned s = 0; s < 8; s++)
        for (unsigned m = 0; m < WORLD_PROCESSES; m++)
            turns_gone(w->t, s, m);
    world_run(w, 2 * SEC);
    cr_expect_eq(w->next, -1, "seed %u", seed);
    for (unsigned i = 0; i < w->n; i++)
        cr_expect(w->processes[i].is_abandoned || w->processes[i].gate == GATE_TELL, "seed %u",
                  seed);
}

Test(turns_oracle, whatever_members_do_no_gate_stays_closed_for_ever)
{
    for (unsigned seed = 0; seed < cases(); seed++) {
        struct world *w = world_new(seed);
        random_world(w);
        for (unsigned i = 0; i < 200; i++) {
            world_run(w, random_time(w, 10, 18));
            harm(w);
        }
        expect_no_gate_closed_for_ever(w, seed);
        expect_rest(w, seed);
        world_free(w);
    }
}

Test(turns_oracle, deficits_are_bounded)
{
    for (unsigned seed = 0; seed < cases() / 4; seed++) {
        struct world *w = world_new(seed);
        random_world(w);
        for (unsigned i = 0; i < 100; i++) {
            world_run(w, random_time(w, 10, 18));
            harm(w);
            for (unsigned s = 0; s < 8; s++)
                for (unsigned c = 0; c < CARDS; c++) {
                    int64_t deficit = turns_sums(w->t, s, c).deficit_ns;
                    cr_assert(deficit >= -SEC && deficit <= SEC);
                }
        }
        world_free(w);
    }
}

/* --- Those who keep to the rules --- */

static unsigned busy_percent(const struct world *w, unsigned card)
{
    return w->wanted[card] ? (unsigned)(w->busy[card] * 100 / w->wanted[card]) : 100;
}

/* Nobody is capped, and nobody misbehaves: a card that is wanted works. What is lost are the gaps of
 * programs in their own turn, and the millisecond after which a turn without work is given back. */
Test(turns_oracle, a_card_that_is_wanted_works)
{
    for (unsigned seed = 0; seed < cases(); seed++) {
        struct world *w = world_new(seed);
        unsigned n = 2 + below(w, 5);
        for (unsigned s = 0; s < n; s++) {
            unsigned percent = below(w, 100 / n);
            struct process *p = world_worker(w, s, percent, random_time(w, 5, 14));
            p->works = below(w, 2) ? random_time(w, 14, 19) : 0;
            p->rests = p->works ? random_time(w, 14, 19) : 0;
        }
        world_run(w, 10 * SEC);
        cr_expect(busy_percent(w, 0) > 90, "seed %u: %u %%", seed, busy_percent(w, 0));
        world_free(w);
    }
}
