/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MetaX's cards in eight threads. What they do is as with one thread; a call that hangs, or a
 * reset, holds up its own card only.
 */
#include "test/race/eight_cards.h"

enum { SLICES = 4, ROUNDS = 4 };

static const char sliced[] = "[{model: c500, count: 8, linked: 0, sgpu: true}]";
static const char whole[] = "[{model: c500, count: 8, linked: 0}]";

struct gpu *open_cards(void)
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

/* Of the last round two slices stay. */
static void cut_once(struct work *w, unsigned round)
{
    const char *uuid = uuids[w->card];
    unsigned ids[SLICES];
    auto_gpu_card struct gpu_card card = {0};
    auto_err struct err e = {0};
    for (unsigned i = 0; i < SLICES; i++) {
        struct sgpu_want want = {.quota = {1024, 10}};
        (void)snprintf(want.alias, sizeof(want.alias), "r%us%u", round, i);
        must(w->g->ops->slice_create(w->g, uuid, &want, &ids[i], &e), &e);
        note_answer(w, ids[i]);
    }
    must(w->g->ops->read_card(w->g, uuid, &card, &e), &e);
    note_answer(w, card.sgpu.n);
    for (unsigned i = round == ROUNDS - 1 ? 2 : 0; i < SLICES; i++)
        must(w->g->ops->slice_destroy(w->g, uuid, ids[i], &e), &e);
}

void *work(void *arg)
{
    struct work *w = arg;
    gpu_activity_of_thread(&w->activity);
    for (unsigned round = 0; round < ROUNDS; round++)
        cut_once(w, round);
    gpu_activity_of_thread(NULL);
    return NULL;
}

static void check_same_card(const struct gpu_card *a, const struct gpu_card *b)
{
    assert(a->sgpu.n == 2 && b->sgpu.n == 2);
}

static void test_equal_results(void)
{
    test_equal_results_on(sliced, check_same_card);
}

static void test_one_hangs(void)
{
    static struct work works[CARDS];
    struct gpu *g = begin(sliced, works);
    auto_gpu_inventory struct gpu_inventory inv = run_beside_one_that_hangs(
        g, works, "fault add --gpu metax:0 --nth 1 --action hang:3600 --call mxSmlCreateSgpu",
        "mxSmlCreateSgpu", work, work);
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
    auto_gpu_inventory struct gpu_inventory inv = run_beside_one_that_hangs(
        g, works, "fault add --gpu metax:0 --nth 1 --action hang:3600 --call mxSmlReset",
        "mxSmlReset", reset, reset);
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
