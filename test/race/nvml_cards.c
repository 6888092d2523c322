/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's cards in eight threads. What they do is as with one thread; a call that hangs, or a
 * reset, holds up its own card only.
 */
#include "test/race/eight_cards.h"

enum { SLICES = 7, ROUNDS = 3 };

static const char hopper[] = "[{model: h100-80, count: 8, mig: true}]";
static const char ampere[] = "[{model: a100-80, count: 8}]";

struct gpu *open_cards(void)
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

static unsigned smallest_profile(const struct gpu_card *c)
{
    unsigned best = 0;
    for (unsigned i = 0; i < c->mig.n_profiles; i++)
        if (strcmp(c->mig.profiles[i].name, "1g.10gb") == 0)
            best = c->mig.profiles[i].id;
    return best;
}

static void cut(struct work *w, unsigned profile, unsigned *gis, unsigned *cis)
{
    const char *uuid = uuids[w->card];
    auto_err struct err e = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        must(w->g->ops->gi_create(w->g, uuid, profile, i, 1, &gis[i], &e), &e);
        must(w->g->ops->ci_create(w->g, uuid, gis[i], 1, -1, &cis[i], &e), &e);
        note_answer(w, gis[i]);
        note_answer(w, cis[i]);
    }
}

/* all false: the odd ones stay. */
static void uncut(struct work *w, const unsigned *gis, const unsigned *cis, bool all)
{
    const char *uuid = uuids[w->card];
    auto_err struct err e = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        if (!all && i % 2)
            continue;
        must(w->g->ops->ci_destroy(w->g, uuid, gis[i], cis[i], &e), &e);
        must(w->g->ops->gi_destroy(w->g, uuid, gis[i], &e), &e);
    }
}

void *work(void *arg)
{
    struct work *w = arg;
    auto_err struct err e = {0};
    gpu_activity_of_thread(&w->activity);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned gis[SLICES], cis[SLICES];
        auto_gpu_card struct gpu_card before = {0};
        auto_gpu_card struct gpu_card after = {0};
        must(w->g->ops->read_card(w->g, uuids[w->card], &before, &e), &e);
        cut(w, smallest_profile(&before), gis, cis);
        must(w->g->ops->read_card(w->g, uuids[w->card], &after, &e), &e);
        note_answer(w, after.n_partitions);
        uncut(w, gis, cis, round < ROUNDS - 1);
    }
    gpu_activity_of_thread(NULL);
    return NULL;
}

static void check_same_card(const struct gpu_card *a, const struct gpu_card *b)
{
    assert(a->n_partitions == b->n_partitions && a->state.n == b->state.n &&
           a->state.n == SLICES / 2);
    for (unsigned i = 0; i < a->state.n; i++) {
        assert(a->state.items[i].gi_id == b->state.items[i].gi_id);
        assert(a->state.items[i].start == b->state.items[i].start);
    }
}

static void test_equal_results(void)
{
    test_equal_results_on(hopper, check_same_card);
}

static void *create_and_hang(void *arg)
{
    struct work *w = arg;
    unsigned id = 0;
    gpu_activity_of_thread(&w->activity);
    (void)w->g->ops->gi_create(w->g, uuids[w->card], 0, 0, 1, &id, NULL);
    return NULL;
}

static void test_one_hangs(void)
{
    static struct work works[CARDS];
    struct gpu *g = begin(hopper, works);
    auto_gpu_inventory struct gpu_inventory inv = run_beside_one_that_hangs(
        g, works,
        "fault add --gpu 0 --nth 1 --action hang:3600 --call nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlDeviceCreateGpuInstanceWithPlacement", work, create_and_hang);
    unsigned busy = check_reading(&inv);
    assert(busy == 1 && inv.cards[0].busy);
    for (unsigned i = 1; i < CARDS; i++)
        assert(inv.cards[i].state.n == SLICES / 2);
    machine_stop();
    (void)printf("seven cards were cut while a call of the eighth hung\n");
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
    auto_gpu_inventory struct gpu_inventory inv = run_beside_one_that_hangs(
        g, works, "fault add --gpu 0 --nth 1 --action hang:100 --call cleaveSimDeviceReset",
        "nvidia-smi --gpu-reset", reset, reset);
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
