/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"
#include "test/race/sim_machine.h"

/*
 * Eight cards of one vendor, behind gpu_all, in the hands of eight threads, while two others read
 * all cards again and again, and two measure them. A program includes this file once, and says how its cards are opened
 * (open_cards) and what is done to each (work).
 */

enum { CARDS = 8, MAX_ANSWERS = 64 };

static char uuids[CARDS][GPU_UUID_BYTES]; /* immutable once the threads run */

/* The cards of one vendor; the other one has none. */
struct gpu *open_cards(void);

static struct gpu_inventory read_all(struct gpu *g)
{
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    must(g->ops->read(g, &inv, &e), &e);
    assert(inv.n_cards == CARDS);
    return inv;
}

static void learn_uuids(struct gpu *g)
{
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    for (unsigned i = 0; i < CARDS; i++)
        memcpy(uuids[i], inv.cards[i].uuid, sizeof(uuids[i]));
}

/* --- the work on one card --- */

struct work {
    struct gpu *g;
    unsigned card;
    unsigned answers[MAX_ANSWERS]; /* of the verbs, in their order */
    unsigned n_answers;
    pthread_t thread;
    struct gpu_activity activity;
};

/* A thread's: cuts the card and makes it whole again, some times over. */
void *work(void *arg);

static inline void note_answer(struct work *w, unsigned answer)
{
    assert(w->n_answers < MAX_ANSWERS);
    w->answers[w->n_answers++] = answer;
}

/* --- a reader --- */

struct reader {
    struct gpu *g;
    atomic_bool stop;
    unsigned readings, busy;
};

static unsigned check_reading(const struct gpu_inventory *inv)
{
    unsigned busy = 0;
    for (unsigned i = 0; i < CARDS; i++) {
        const struct gpu_card *c = &inv->cards[i];
        assert(strcmp(c->uuid, uuids[i]) == 0 && c->index == i && c->memory_mib);
        assert(c->healthy && c->unread == c->busy);
        busy += c->busy;
    }
    return busy;
}

static void *read_again_and_again(void *arg)
{
    struct reader *r = arg;
    while (!atomic_load(&r->stop)) {
        auto_gpu_inventory struct gpu_inventory inv = read_all(r->g);
        r->busy += check_reading(&inv);
        r->readings++;
    }
    return NULL;
}

/* It may be refused, and never fails. */
static unsigned measure(struct gpu *g, unsigned card)
{
    struct telemetry_card measured;
    auto_err struct err e = {0};
    int rc = g->ops->measure(g, uuids[card], TELEMETRY_ALL, &measured, &e);
    assert(rc == 0 || e.kind == ERR_UNAVAILABLE);
    assert(rc < 0 || measured.values.of[TELEMETRY_POWER] > 0);
    return rc == 0;
}

static void *measure_again_and_again(void *arg)
{
    struct reader *r = arg;
    for (unsigned i = 0; !atomic_load(&r->stop); i++)
        r->readings += measure(r->g, i % CARDS);
    return NULL;
}

/* --- runs --- */

static void work_one_after_another(struct work *works)
{
    for (unsigned i = 0; i < CARDS; i++)
        (void)work(&works[i]);
}

static void run_side_by_side(void *(*what)(void *), struct work *works, unsigned first)
{
    for (unsigned i = first; i < CARDS; i++)
        start_thread(&works[i].thread, what, &works[i]);
    for (unsigned i = first; i < CARDS; i++)
        (void)pthread_join(works[i].thread, NULL);
}

/* Two readers, as when a reading overtakes one that hangs; and two that measure. */
static void work_beside_readers(struct work *works)
{
    enum { READERS = 4 };
    struct reader readers[READERS];
    pthread_t threads[READERS];
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.g = works[0].g};
        start_thread(&threads[i], i < 2 ? read_again_and_again : measure_again_and_again,
                     &readers[i]);
    }
    run_side_by_side(work, works, 0);
    for (unsigned i = 0; i < READERS; i++)
        atomic_store(&readers[i].stop, true);
    for (unsigned i = 0; i < READERS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)printf("%u readings beside the verbs, %u cards busy in them, %u measures\n",
                 readers[0].readings + readers[1].readings, readers[0].busy + readers[1].busy,
                 readers[2].readings + readers[3].readings);
    assert(readers[2].readings + readers[3].readings > 0);
}

static struct gpu *begin(const char *fleet, struct work *works)
{
    machine_start(fleet, "none");
    struct gpu *g = open_cards();
    learn_uuids(g);
    for (unsigned i = 0; i < CARDS; i++)
        works[i] = (struct work){.g = g, .card = i};
    return g;
}

/* A run on a machine of its own; the cards in the end. */
static struct gpu_inventory run(const char *fleet, void (*how)(struct work *), struct work *works)
{
    auto_gpu struct gpu *g = begin(fleet, works);
    how(works);
    struct gpu_inventory inv = read_all(g);
    machine_stop();
    return inv;
}

/* What the verbs answer, and the cards in the end, are as with one thread. */
static inline void test_equal_results_on(const char *fleet,
                                         void (*check_card)(const struct gpu_card *a,
                                                            const struct gpu_card *b))
{
    static struct work alone[CARDS];
    static struct work together[CARDS];
    auto_gpu_inventory struct gpu_inventory first = run(fleet, work_one_after_another, alone);
    auto_gpu_inventory struct gpu_inventory second = run(fleet, work_beside_readers, together);
    for (unsigned i = 0; i < CARDS; i++) {
        const struct gpu_card *a = &first.cards[i];
        const struct gpu_card *b = &second.cards[i];
        assert(alone[i].n_answers && alone[i].n_answers == together[i].n_answers);
        assert(memcmp(alone[i].answers, together[i].answers, sizeof(alone[i].answers)) == 0);
        assert(!a->unread && !b->unread && strcmp(a->uuid, b->uuid) == 0);
        check_card(a, b);
    }
}

static inline void *reset(void *arg)
{
    struct work *w = arg;
    auto_err struct err e = {0};
    gpu_activity_of_thread(&w->activity);
    must(w->g->ops->reset(w->g, uuids[w->card], &e), &e);
    gpu_activity_of_thread(NULL);
    return NULL;
}

/* One card's thread hangs in this call; the others go on. Returns a reading. The hung thread is
 * left behind: the process ends without it. */
static inline struct gpu_inventory run_beside_one_that_hangs(struct gpu *g, struct work *works,
                                                             const char *fault, const char *call,
                                                             void *(*what)(void *),
                                                             void *(*first)(void *))
{
    machine_control(fault);
    start_thread(&works[0].thread, first, &works[0]);
    wait_for_call(&works[0].activity, call);
    run_side_by_side(what, works, 1);
    assert(atomic_load(&works[0].activity.call));
    return read_all(g);
}
