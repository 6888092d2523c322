/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"

#include "nodeagent/offer/preferred.h"
#include "test/unit/topologies_support.h"

/*
 * How long a choice takes: whole cards of several machines, every size, all cards available and
 * random sets of them; then replicas by their names, as the kubelet asks. Times are the thread's
 * own CPU time, the least of five.
 */

struct times {
    unsigned long n;
    double sum_us, worst_us;
    unsigned worst_size;
};

static double now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void add_time(struct times *t, double us, unsigned size)
{
    t->n++;
    t->sum_us += us;
    if (us > t->worst_us) {
        t->worst_us = us;
        t->worst_size = size;
    }
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void measure_cards(const struct card_scores *s, uint64_t available, struct times *t)
{
    unsigned most = (unsigned)__builtin_popcountll(available);
    for (unsigned size = 1; size <= most; size++) {
        const struct card_question q = {.scores = s, .available = available, .size = size};
        double us = 1e9;
        uint64_t chosen = 0;
        for (int again = 0; again < 5; again++) {
            double from = now_us();
            int rc = card_choice(&q, &chosen, NULL);
            us = least(us, now_us() - from);
            if (rc < 0)
                abort();
        }
        add_time(t, us, size);
    }
}

static void print(const char *name, unsigned n, const struct times *t)
{
    printf("%-18s %4u %8lu %8.2f %8.1f  %u\n", name, n, t->n, t->sum_us / (double)t->n, t->worst_us,
           t->worst_size);
}

static void bench_scores(const char *name, unsigned n, const struct card_scores *s)
{
    struct times t = {0};
    struct rng rng;
    rng_init(&rng, 1);
    uint64_t all = n == 64 ? UINT64_MAX : (1ULL << n) - 1;
    measure_cards(s, all, &t);
    for (unsigned i = 0; i < 20; i++)
        measure_cards(s, all & (rng_next(&rng) | rng_next(&rng)), &t);
    print(name, n, &t);
}

static void bench_machine(const struct machine *m)
{
    struct card_scores s;
    machine_scores(m, &s);
    bench_scores(m->name, m->n, &s);
}

static void bench_random(unsigned n, unsigned bound)
{
    char name[32];
    struct card_scores s;
    random_scores(n, bound, /* seed= */ 1, &s);
    (void)snprintf(name, sizeof(name), "random below %u", bound);
    bench_scores(name, n, &s);
}

/* Three in five of the replicas are available, and one to four are wanted, or half of them. */
static void bench_replicas(const char *name, enum preferred_policy policy, unsigned cards,
                           unsigned each)
{
    enum { MOST = UINT16_MAX, SIZES = 5 };
    static char names[MOST][48];
    static struct preferred_device devices[MOST];
    static const char *available[MOST];
    static const char *chosen[MOST];
    struct preferred_request r = {.available = available};
    const struct preferred_offer o = {.policy = policy,
                                      .devices = devices,
                                      .n = (size_t)cards * each};
    for (unsigned i = 0; i < o.n; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "GPU-%08x-0000-0000-0000-%08x::%u", i / each,
                       i / each, i % each);
        devices[i] = (struct preferred_device){.id = names[i],
                                               .card = (uint8_t)(i / each),
                                               .device = (uint16_t)(i / each)};
        if (i * 7 % 5 < 3)
            available[r.n_available++] = names[i];
    }
    auto_preferred struct preferred *p = preferred_new(&o);
    struct times t = {0};
    for (unsigned i = 1; i <= SIZES; i++) {
        r.size = i < SIZES ? i : r.n_available / 2;
        double us = 1e9;
        for (int again = 0; again < 5; again++) {
            double from = now_us();
            int rc = preferred_choose(p, &r, chosen, NULL);
            us = least(us, now_us() - from);
            if (rc < 0)
                abort();
        }
        add_time(&t, us, (unsigned)r.size);
    }
    print(name, (unsigned)o.n, &t);
}

int main(void)
{
    printf("%-18s %4s %8s %8s %8s  %s\n", "", "n", "choices", "mean us", "worst us", "for");
    for (const struct machine *m = machines_of_8; m->name; m++)
        bench_machine(m);
    bench_random(8, 4000);
    for (const struct machine *m = machines_of_16; m->name; m++)
        bench_machine(m);
    bench_random(16, 3);
    bench_random(16, 4000);
    bench_machine(&machine_of_64);
    bench_random(64, 4000);
    bench_replicas("replicas, packed", PREFERRED_PACKED, 8, 4);
    bench_replicas("replicas, spread", PREFERRED_DISTRIBUTED, 8, 4);
    bench_replicas("partitions, packed", PREFERRED_PACKED, 8, 7);
    bench_replicas("replicas, packed", PREFERRED_PACKED, 16, 64);
    bench_replicas("replicas, packed", PREFERRED_PACKED, 64, 1023);
    bench_replicas("replicas, spread", PREFERRED_DISTRIBUTED, 64, 1023);
    return EXIT_SUCCESS;
}
