/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight cards of NVIDIA, behind gpu_all, in the hands of eight threads, while another thread reads all cards again
 * and again. What the verbs answer, and the cards in the end, are as with one thread. Then one
 * card's call hangs: the others go on, and a reading shows that card as busy.
 */
#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"
#include "test/race/sim_machine.h"

enum { CARDS = 8, SLICES = 7, ROUNDS = 3 };

static const char hopper[] = "[{model: h100-80, count: 8, mig: true}]";
static const char ampere[] = "[{model: a100-80, count: 8}]";

static char uuids[CARDS][GPU_UUID_BYTES]; /* immutable once the threads run */

static struct gpu *open_cards(void)
{
    auto_free char *library = machine_file("libnvidia-ml.so.1");
    auto_free char *smi = machine_file("nvidia-smi");
    const struct nvml_options o = {.library = library,
                                   .nvidia_smi = smi,
                                   .proc_root = machine_dir,
                                   .sys_root = machine_dir};
    const struct mxsml_options absent = {.library = "/nonexistent"};
    struct gpu *vendors[2] = {NULL};
    int rc = gpu_nvml_open(&o, &vendors[0], NULL);
    assert(rc == 0);
    rc = gpu_mxsml_open(&absent, &vendors[1], NULL);
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
    unsigned gis[ROUNDS][SLICES], cis[ROUNDS][SLICES], n_partitions[ROUNDS];
    pthread_t thread;
    struct gpu_activity activity;
};

static unsigned smallest_profile(const struct gpu_card *c)
{
    unsigned best = 0;
    for (unsigned i = 0; i < c->mig.n_profiles; i++)
        if (strcmp(c->mig.profiles[i].name, "1g.10gb") == 0)
            best = c->mig.profiles[i].id;
    return best;
}

static void cut(struct work *w, unsigned profile, unsigned round)
{
    const char *uuid = uuids[w->card];
    auto_err struct err e = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        unsigned *gi = &w->gis[round][i];
        must(w->g->ops->gi_create(w->g, uuid, profile, i, 1, gi, &e), &e);
        must(w->g->ops->ci_create(w->g, uuid, *gi, 1, -1, &w->cis[round][i], &e), &e);
    }
}

/* Of the last round the odd ones stay. */
static void uncut(struct work *w, unsigned round)
{
    const char *uuid = uuids[w->card];
    auto_err struct err e = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        if (round == ROUNDS - 1 && i % 2)
            continue;
        unsigned gi = w->gis[round][i];
        must(w->g->ops->ci_destroy(w->g, uuid, gi, w->cis[round][i], &e), &e);
        must(w->g->ops->gi_destroy(w->g, uuid, gi, &e), &e);
    }
}

static void *work(void *arg)
{
    struct work *w = arg;
    auto_err struct err e = {0};
    gpu_activity_of_thread(&w->activity);
    for (unsigned round = 0; round < ROUNDS; round++) {
        auto_gpu_card struct gpu_card before = {0};
        auto_gpu_card struct gpu_card after = {0};
        must(w->g->ops->read_card(w->g, uuids[w->card], &before, &e), &e);
        cut(w, smallest_profile(&before), round);
        must(w->g->ops->read_card(w->g, uuids[w->card], &after, &e), &e);
        w->n_partitions[round] = after.n_partitions;
        uncut(w, round);
    }
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
    auto_gpu struct gpu *g = begin(hopper, works);
    how(works);
    struct gpu_inventory inv = read_all(g);
    machine_stop();
    return inv;
}

static void check_same(const struct work *a, const struct work *b)
{
    assert(memcmp(a->gis, b->gis, sizeof(a->gis)) == 0);
    assert(memcmp(a->cis, b->cis, sizeof(a->cis)) == 0);
    assert(memcmp(a->n_partitions, b->n_partitions, sizeof(a->n_partitions)) == 0);
}

static void check_same_card(const struct gpu_card *a, const struct gpu_card *b)
{
    assert(!a->unread && !b->unread && strcmp(a->uuid, b->uuid) == 0);
    assert(a->n_partitions == b->n_partitions && a->state.n == b->state.n &&
           a->state.n == SLICES / 2);
    for (unsigned i = 0; i < a->state.n; i++) {
        assert(a->state.items[i].gi_id == b->state.items[i].gi_id);
        assert(a->state.items[i].start == b->state.items[i].start);
    }
}

static void test_equal_results(void)
{
    static struct work alone[CARDS];
    static struct work together[CARDS];
    auto_gpu_inventory struct gpu_inventory first = run(work_one_after_another, alone);
    auto_gpu_inventory struct gpu_inventory second = run(work_beside_a_reader, together);
    for (unsigned i = 0; i < CARDS; i++) {
        check_same(&alone[i], &together[i]);
        check_same_card(&first.cards[i], &second.cards[i]);
    }
}

static void *create_and_hang(void *arg)
{
    struct work *w = arg;
    unsigned id = 0;
    gpu_activity_of_thread(&w->activity);
    (void)w->g->ops->gi_create(w->g, uuids[w->card], 0, 0, 1, &id, NULL);
    return NULL;
}

/* The hung thread is left behind: the process ends without it. */
static void test_one_hangs(void)
{
    static struct work works[CARDS];
    static const char call[] = "nvmlDeviceCreateGpuInstanceWithPlacement";
    struct gpu *g = begin(hopper, works);
    machine_control("fault add --gpu 0 --nth 1 --action hang:3600 "
                    "--call nvmlDeviceCreateGpuInstanceWithPlacement");
    start_thread(&works[0].thread, create_and_hang, &works[0]);
    wait_for_call(&works[0].activity, call);
    run_side_by_side(work, works, 1);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    unsigned busy = check_reading(&inv);
    assert(busy == 1 && inv.cards[0].busy);
    for (unsigned i = 1; i < CARDS; i++)
        assert(inv.cards[i].state.n == SLICES / 2);
    machine_stop();
    (void)printf("seven cards were cut while a call of the eighth hung\n");
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

static void begin_mig(struct gpu *g)
{
    auto_err struct err e = {0};
    for (unsigned i = 0; i < CARDS; i++) {
        enum gpu_mode_result result = GPU_MODE_DONE;
        must(g->ops->mode_set(g, uuids[i], GPU_MIG, &result, &e), &e);
        assert(result == GPU_MODE_NEEDS_RESET);
    }
}

/* No verb runs beside a reset, so readings show what was last known. */
static void test_one_reset_hangs(void)
{
    static struct work works[CARDS];
    struct gpu *g = begin(ampere, works);
    begin_mig(g);
    machine_control("fault add --gpu 0 --nth 1 --action hang:100 --call cleaveSimDeviceReset");
    start_thread(&works[0].thread, reset, &works[0]);
    wait_for_call(&works[0].activity, "nvidia-smi --gpu-reset");
    run_side_by_side(reset, works, 1);
    assert(atomic_load(&works[0].activity.call));
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
