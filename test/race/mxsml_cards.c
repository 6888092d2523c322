/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight cards of MetaX, behind gpu_all, in the hands of eight threads, while another thread reads
 * all cards again and again. What the verbs answer, and the cards in the end, are as with one
 * thread. Then a call of one card hangs, and a reset: the others go on.
 */
#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"
#include "test/race/sim_machine.h"

enum { CARDS = 8, SLICES = 4, ROUNDS = 4 };

static const char sliced[] = "[{model: c500, count: 8, linked: 0, sgpu: true}]";
static const char whole[] = "[{model: c500, count: 8, linked: 0}]";

static char uuids[CARDS][GPU_UUID_BYTES]; /* immutable once the threads run */

static struct gpu *open_cards(void)
{
    auto_free char *library = machine_file("libmxsml.so");
    const struct mxsml_options o = {.library = library,
                                    .proc_root = machine_dir,
                                    .sys_root = machine_dir};
    const struct nvml_options absent = {.library = "/nonexistent"};
    struct gpu *vendors[2] = {NULL};
    int rc = gpu_nvml_open(&absent, &vendors[0], NULL);
    assert(rc == 0);
    rc = gpu_mxsml_open(&o, &vendors[1], NULL);
    assert(rc == 0);
    return gpu_all_new(vendors, 2);
}

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
    unsigned ids[ROUNDS][SLICES], n[ROUNDS];
    pthread_t thread;
    struct gpu_activity activity;
};

/* Of the last round two slices stay. */
static void cut_once(struct work *w, unsigned round)
{
    const char *uuid = uuids[w->card];
    auto_err struct err e = {0};
    auto_gpu_card struct gpu_card card = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        struct sgpu_want want = {.quota = {1024, 10}};
        (void)snprintf(want.alias, sizeof(want.alias), "r%us%u", round, i);
        must(w->g->ops->slice_create(w->g, uuid, &want, &w->ids[round][i], &e), &e);
    }
    must(w->g->ops->read_card(w->g, uuid, &card, &e), &e);
    w->n[round] = card.sgpu.n;
    for (unsigned i = round == ROUNDS - 1 ? 2 : 0; i < SLICES; i++)
        must(w->g->ops->slice_destroy(w->g, uuid, w->ids[round][i], &e), &e);
}

static void *work(void *arg)
{
    struct work *w = arg;
    gpu_activity_of_thread(&w->activity);
    for (unsigned round = 0; round < ROUNDS; round++)
        cut_once(w, round);
    gpu_activity_of_thread(NULL);
    return NULL;
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

/* --- the tests --- */

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

static void work_beside_a_reader(struct work *works)
{
    struct reader r = {.g = works[0].g};
    pthread_t thread;
    start_thread(&thread, read_again_and_again, &r);
    run_side_by_side(work, works, 0);
    atomic_store(&r.stop, true);
    (void)pthread_join(thread, NULL);
    (void)printf("%u readings beside the verbs, %u cards busy in them\n", r.readings, r.busy);
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
static struct gpu_inventory run(void (*how)(struct work *), struct work *works)
{
    auto_gpu struct gpu *g = begin(sliced, works);
    how(works);
    struct gpu_inventory inv = read_all(g);
    machine_stop();
    return inv;
}

static void test_equal_results(void)
{
    static struct work alone[CARDS];
    static struct work together[CARDS];
    auto_gpu_inventory struct gpu_inventory first = run(work_one_after_another, alone);
    auto_gpu_inventory struct gpu_inventory second = run(work_beside_a_reader, together);
    for (unsigned i = 0; i < CARDS; i++) {
        assert(memcmp(alone[i].ids, together[i].ids, sizeof(alone[i].ids)) == 0);
        assert(memcmp(alone[i].n, together[i].n, sizeof(alone[i].n)) == 0);
        assert(first.cards[i].sgpu.n == 2 && second.cards[i].sgpu.n == 2);
        assert(strcmp(first.cards[i].uuid, second.cards[i].uuid) == 0);
    }
}

static void *reset(void *arg)
{
    struct work *w = arg;
    auto_err struct err e = {0};
    gpu_activity_of_thread(&w->activity);
    must(w->g->ops->reset(w->g, uuids[w->card], &e), &e);
    gpu_activity_of_thread(NULL);
    return NULL;
}

/* Hung threads are left behind: the process ends without them. */
static void test_one_hangs(void)
{
    static struct work works[CARDS];
    struct gpu *g = begin(sliced, works);
    machine_control("fault add --gpu metax:0 --nth 1 --action hang:3600 --call mxSmlCreateSgpu");
    start_thread(&works[0].thread, work, &works[0]);
    wait_for_call(&works[0].activity, "mxSmlCreateSgpu");
    run_side_by_side(work, works, 1);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    unsigned busy = check_reading(&inv);
    assert(busy == 1 && inv.cards[0].busy);
    machine_stop();
    (void)printf("seven cards were cut while a call of the eighth hung\n");
}

/* No verb runs beside a reset, so readings show what was last known. */
static void test_one_reset_hangs(void)
{
    static struct work works[CARDS];
    struct gpu *g = begin(whole, works);
    machine_control("fault add --gpu metax:0 --nth 1 --action hang:3600 --call mxSmlReset");
    start_thread(&works[0].thread, reset, &works[0]);
    wait_for_call(&works[0].activity, "mxSmlReset");
    run_side_by_side(reset, works, 1);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    unsigned busy = check_reading(&inv);
    assert(busy == CARDS);
    machine_stop();
    (void)printf("seven cards were reset while the reset of the eighth hung\n");
}

int main(void)
{
    return machine_run(test_equal_results) | machine_run(test_one_hangs) |
           machine_run(test_one_reset_hangs);
}
