/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/rng.h"

#include "partition/mig.h"
#include "test/unit/mig_oracle_support.h"
#include "test/unit/mig_tables_support.h"

/*
 * How long mig_plan takes: every multiset of profiles of every model, each from an empty card and
 * from a few random standing layouts, a quarter of whose instances are in use. The oracle says how
 * many layouts there are and whether the planner told feasible from infeasible. Then the same with
 * instances shared by compute instances, on both sides ("cuts").
 *
 *   planner_bench [states]     random states for each multiset, 2 unless said
 *
 * An aim of the project is a worst case under 1 ms. Times are the thread's own CPU time, and a
 * worst one is taken again, so that what else the machine does counts little: the least of three.
 */

AUTO_DEFINE(oracle, struct mig_oracle, mig_oracle_done)
#define auto_oracle AUTO(oracle)

struct times {
    unsigned long plans, wrong;
    unsigned most_steps; /* of one search (MIG_WORST_STEPS) */
    double sum_us, worst_us;
    struct mig_wants worst;
};

static double now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double plan_once(const struct mig_table *t, const struct mig_state *now,
                        const struct mig_wants *wants, struct mig_plan *plan)
{
    double from = now_us();
    mig_plan(t, now, wants, plan);
    return now_us() - from;
}

static void take_time(const struct mig_table *t, const struct mig_state *now,
                      const struct mig_wants *wants, struct mig_plan *plan, struct times *ts)
{
    double us = plan_once(t, now, wants, plan);
    for (int again = 0; again < 2 && us > ts->worst_us; again++) {
        double other = plan_once(t, now, wants, plan);
        us = other < us ? other : us;
    }
    ts->plans++;
    ts->most_steps = plan->steps > ts->most_steps ? plan->steps : ts->most_steps;
    ts->sum_us += us;
    if (us > ts->worst_us) {
        ts->worst_us = us;
        ts->worst = *wants;
    }
}

static void measure(const struct mig_oracle *o, uint64_t counts, const struct mig_state *now,
                    struct times *ts)
{
    struct mig_wants wants;
    struct mig_plan plan;
    size_t n;
    mig_oracle_wants(o->table, counts, &wants);
    (void)mig_oracle_find(o, counts, &n);
    take_time(o->table, now, &wants, &plan, ts);
    ts->wrong += (plan.verdict != MIG_PLAN_INFEASIBLE) != (n > 0);
}

/* A size that the profile offers. */
static unsigned random_cut(struct rng *rng, const struct mig_profile *p)
{
    unsigned c;
    do
        c = 1 + (unsigned)rng_below(rng, p->slices);
    while (mig_ci_max(p->slices, c) == 0);
    return c;
}

/* Cuts the instances of a state, and asks for shares of the wanted ones. */
static void cut(struct rng *rng, const struct mig_table *t, struct mig_state *now,
                struct mig_wants *wants)
{
    for (unsigned i = 0; i < now->n; i++) {
        struct mig_instance *it = &now->items[i];
        unsigned c = random_cut(rng, &t->profiles[it->profile]);
        it->n_cis = 1 + (unsigned)rng_below(rng, mig_ci_max(t->profiles[it->profile].slices, c));
        for (unsigned n = 0; n < it->n_cis; n++)
            it->cis[n] = (struct mig_ci){.slices = c, .in_use = it->in_use && rng_below(rng, 2)};
    }
    for (unsigned i = 0; i < wants->n; i++) {
        wants->items[i].ci_slices = random_cut(rng, &t->profiles[wants->items[i].profile]);
        wants->items[i].count *= 1 + (unsigned)rng_below(rng, 3);
    }
}

static void random_state(struct rng *rng, const struct mig_oracle *o, struct mig_state *ret)
{
    uint32_t spots = o->sets[rng_below(rng, o->n_sets)].spots;
    mig_oracle_state(o, spots, spots & (uint32_t)rng_next(rng) & (uint32_t)rng_next(rng), ret);
}

static void measure_model(const struct mig_oracle *o, unsigned n_states, struct times *whole,
                          struct times *cuts)
{
    struct rng rng;
    rng_init(&rng, 1);
    uint64_t counts = 0;
    do {
        struct mig_state now = {.n = 0};
        measure(o, counts, &now, whole);
        for (unsigned i = 0; i < n_states; i++) {
            random_state(&rng, o, &now);
            measure(o, counts, &now, whole);
            struct mig_wants wants;
            struct mig_plan plan;
            mig_oracle_wants(o->table, counts, &wants);
            cut(&rng, o->table, &now, &wants);
            take_time(o->table, &now, &wants, &plan, cuts);
        }
    } while (mig_oracle_next(o->table, &counts));
}

static void print(const char *name, const char *what, const struct mig_oracle *o,
                  const struct times *ts)
{
    auto_free char *text = mig_wants_text(o->table, &ts->worst);
    printf("%-13s %-6s %7zu %8lu %6lu %8.2f %9.1f %6u  %s\n", name, what, o->n_sets, ts->plans,
           ts->wrong, ts->sum_us / (double)ts->plans, ts->worst_us, ts->most_steps, text);
}

int main(int argc, char **argv)
{
    unsigned n_states = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    unsigned long wrong = 0;
    printf("%-13s %-6s %7s %8s %6s %8s %9s %6s  %s\n", "model", "", "layouts", "plans", "wrong",
           "mean us", "worst us", "steps", "worst case");
    for (const struct mig_model *m = mig_models; m->name; m++) {
        auto_oracle struct mig_oracle o;
        mig_oracle_init(&o, &m->table);
        struct times whole = {0}, cuts = {0};
        measure_model(&o, n_states, &whole, &cuts);
        print(m->name, "whole", &o, &whole);
        print(m->name, "cuts", &o, &cuts);
        wrong += whole.wrong;
    }
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
