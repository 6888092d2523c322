/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "gpu_contract_support.h"
#include "nodeagent/gpu/telemetry.h"
#include "sim_support.h"

/*
 * Two vendors behind one struct gpu: over the simulated libraries, which share a machine.
 */

TestSuite(gpu_all, .init = sim_machine_start, .fini = sim_machine_stop);

static struct gpu *open_both(const char *gpus)
{
    sim_fleet(gpus);
    struct gpu *const both[] = {sim_open(), sim_open_metax()};
    return gpu_all_new(both, 2);
}

#define TWO_VENDORS "[{model: h100-80, count: 2}, {model: c500, count: 2}]"

Test(gpu_all, cards_of_two_vendors_are_one_inventory)
{
    auto_gpu struct gpu *g = open_both(TWO_VENDORS);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 4);
    cr_expect_eq(inv.n_drivers, 2);
    cr_expect_str_eq(inv.cards[0].vendor, "nvidia");
    cr_expect_str_eq(inv.cards[3].vendor, "metax");
    cr_expect(inv.boot_id[0]);
    cr_expect_gt(gpu_pair_between(&inv.topology, 0, 1).level, GPU_LEVEL_UNKNOWN);
    cr_expect_gt(gpu_pair_between(&inv.topology, 2, 3).links +
                     gpu_pair_between(&inv.topology, 2, 3).level,
                 0);
    cr_expect_eq(gpu_pair_between(&inv.topology, 1, 2).level, GPU_LEVEL_UNKNOWN);
}

Test(gpu_all, a_vendor_that_is_not_there_has_no_cards)
{
    auto_gpu struct gpu *g = open_both("[{model: c500, count: 1}]");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 1);
    cr_expect_null(gpu_inventory_driver(&inv, "nvidia"));
}

Test(gpu_all, a_machine_without_cards_says_so)
{
    struct gpu_inventory inv;
    auto_err struct err e = {0};
    sim_fleet("[{model: c500, count: 1}]");
    struct gpu *const one[] = {sim_open()};
    auto_gpu struct gpu *g = gpu_all_new(one, 1);
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_NOT_FOUND, "%s", err_msg(&e));
}

Test(gpu_all, a_verb_reaches_the_cards_vendor_and_no_other)
{
    auto_gpu struct gpu *g = open_both(TWO_VENDORS);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    auto_err struct err e = {0};
    enum gpu_mode_result result;
    unsigned id;
    const struct sgpu_want want = {"a", {1024, 10}};
    cr_expect_eq(g->ops->mode_set(g, inv.cards[1].uuid, GPU_MIG, &result, &e), 0);
    cr_expect_eq(g->ops->mode_set(g, inv.cards[2].uuid, GPU_SGPU, &result, &e), 0);
    cr_expect_eq(g->ops->slice_create(g, inv.cards[2].uuid, &want, &id, &e), 0);
    cr_expect_eq(g->ops->slice_create(g, inv.cards[0].uuid, &want, &id, &e), -(int)ERR_INVALID);
    err_clear(&e);
    cr_expect_eq(g->ops->slice_destroy(g, "GPU-none", id, &e), -(int)ERR_NOT_FOUND);
    auto_gpu_inventory struct gpu_inventory after = sim_read(g);
    cr_expect_eq(after.cards[0].mode, GPU_NATIVE);
    cr_expect_eq(after.cards[1].mode, GPU_MIG);
    cr_expect_eq(after.cards[2].sgpu.n, 1);
    cr_expect_eq(after.cards[3].mode, GPU_NATIVE);
}

Test(gpu_all, a_card_can_be_asked_for_before_anything_was_read)
{
    auto_gpu struct gpu *first = open_both(TWO_VENDORS);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(first);
    struct gpu *const both[] = {sim_open(), sim_open_metax()};
    auto_gpu struct gpu *g = gpu_all_new(both, 2);
    auto_gpu_card struct gpu_card c = {0};
    cr_expect_eq(g->ops->read_card(g, inv.cards[3].uuid, &c, NULL), 0);
    cr_expect_str_eq(c.uuid, inv.cards[3].uuid);
}

/* "Not there" would have what an earlier agent left on it be taken for gone. */
Test(gpu_all, a_card_of_a_vendor_that_could_not_be_read_yet_is_not_said_to_be_none)
{
    auto_gpu struct gpu *first = open_both(TWO_VENDORS);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(first);
    struct gpu *const both[] = {sim_open(), sim_open_metax()};
    auto_gpu struct gpu *g = gpu_all_new(both, 2);
    auto_gpu_card struct gpu_card c = {0};
    const char *uuid = inv.cards[3].uuid;
    sim_control("fault add --call mxSmlGetDeviceCount --nth 0 --action fail:Failure");
    cr_expect_eq(g->ops->read_card(g, uuid, &c, NULL), -(int)ERR_UNAVAILABLE);
    cr_expect_eq(g->ops->slice_destroy(g, uuid, 0, NULL), -(int)ERR_UNAVAILABLE);
    sim_control("fault clear");
    cr_expect_eq(g->ops->read_card(g, uuid, &c, NULL), 0);
    cr_expect_eq(g->ops->slice_destroy(g, "GPU-none", 0, NULL), -(int)ERR_NOT_FOUND);
}

/* Whoever reports that the cards have gone would have their pods' shares taken away. */
Test(gpu_all, a_vendor_that_does_not_answer_keeps_its_cards_as_ill_ones)
{
    auto_gpu struct gpu *g = open_both(TWO_VENDORS);
    auto_gpu_inventory struct gpu_inventory before = sim_read(g);
    sim_control("fault add --call nvmlDeviceGetCount_v2 --nth 0 --action fail:UNKNOWN");
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, 4);
    cr_expect(inv.cards[0].unread && !inv.cards[0].healthy);
    cr_expect_str_eq(inv.cards[0].uuid, before.cards[0].uuid);
    cr_expect(inv.cards[2].healthy && !inv.cards[2].unread);
    auto_gpu_card struct gpu_card alone = {0};
    cr_expect_eq(g->ops->read_card(g, before.cards[0].uuid, &alone, NULL), 0,
                 "a change that runs goes on");
    gpu_card_done(&alone);
    sim_control("fault clear");
    auto_gpu_inventory struct gpu_inventory well = sim_read(g);
    cr_expect(well.cards[0].healthy && !well.cards[0].unread);
    cr_expect_eq(g->ops->read_card(g, before.cards[0].uuid, &alone, NULL), 0);
}

/* --- What every back end promises --- */

Test(gpu_all, nvidias_back_end_keeps_its_promises)
{
    sim_fleet("[{model: h100-80, count: 1}, {model: t4, count: 1}]");
    gpu_contract_check(sim_open);
}

Test(gpu_all, metaxs_back_end_keeps_its_promises)
{
    sim_fleet("[{model: c500, count: 2}]");
    gpu_contract_check(sim_open_metax);
}

/* --- Too many --- */

/* A vendor with a number of cards and nothing else. */
struct many {
    struct gpu gpu; /* first */
    const char *vendor;
    size_t n;
    unsigned readings;
};

static int many_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct many *m = (struct many *)g;
    (void)e;
    m->readings++;
    *ret = (struct gpu_inventory){.n_drivers = 1, .drivers = {{.vendor = m->vendor}}};
    ret->n_cards = m->n;
    ret->cards = xcalloc(m->n, sizeof(*ret->cards));
    for (size_t i = 0; i < m->n; i++) {
        ret->cards[i] = (struct gpu_card){.vendor = m->vendor, .healthy = true};
        (void)snprintf(ret->cards[i].uuid, sizeof(ret->cards[i].uuid), "%s-%zu", m->vendor, i);
    }
    return 0;
}

static struct gpu *many_free(struct gpu *g)
{
    (void)g;
    return NULL;
}

static const struct gpu_ops many_ops = {.read = many_read, .free = many_free};

Test(gpu_all, cards_beyond_what_is_managed_are_left_out_by_vendor)
{
    struct many first = {{.ops = &many_ops}, "first", 40, 0};
    struct many second = {{.ops = &many_ops}, "second", 24, 0};
    auto_gpu struct gpu *g = gpu_all_new((struct gpu *const[]){&first.gpu, &second.gpu}, 2);
    auto_gpu_inventory struct gpu_inventory full = sim_read(g);
    cr_expect_eq(full.n_cards, GPU_MAX_CARDS);
    second.n = 25;
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    cr_assert_eq(inv.n_cards, GPU_MAX_CARDS, "what it had has not gone");
    cr_expect(inv.cards[39].healthy);
    cr_expect(inv.cards[40].unread && !inv.cards[40].healthy);
    first.n = 41;
    auto_gpu_inventory struct gpu_inventory without = sim_read(g);
    cr_assert_eq(without.n_cards, 41);
    first.n = 40;
    second.n = 1;
    auto_gpu_inventory struct gpu_inventory again = sim_read(g);
    cr_expect_eq(again.n_cards, 41);
}

Test(gpu_all, too_many_cards_of_the_only_vendor_are_an_error)
{
    struct many one = {{.ops = &many_ops}, "one", GPU_MAX_CARDS + 1, 0};
    auto_gpu struct gpu *g = gpu_all_new((struct gpu *const[]){&one.gpu}, 1);
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->read(g, &inv, &e), -(int)ERR_TOO_LARGE, "%s", err_msg(&e));
}

/* A vendor that is not on the machine looks for its library at each reading. */
Test(gpu_all, a_verb_for_a_known_card_reads_no_other_vendors)
{
    struct many none = {{.ops = &many_ops}, "none", 0, 0};
    struct many one = {{.ops = &many_ops}, "one", 1, 0};
    auto_gpu struct gpu *g = gpu_all_new((struct gpu *const[]){&none.gpu, &one.gpu}, 2);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    struct gpu_card card;
    cr_assert_eq(none.readings, 1);
    cr_expect_eq(g->ops->read_card(g, "one-0", &card, NULL), -(int)ERR_INVALID);
    cr_expect_eq(none.readings, 1);
    cr_expect_eq(one.readings, 1);
}

/* A measure waits for no reading: that of a card that went would be one at each interval. */
Test(gpu_all, a_measure_of_a_card_that_no_reading_showed_reads_nothing)
{
    struct many none = {{.ops = &many_ops}, "none", 0, 0};
    auto_gpu struct gpu *g = gpu_all_new((struct gpu *const[]){&none.gpu}, 1);
    struct telemetry_card card;
    cr_expect_eq(g->ops->measure(g, "none-0", TELEMETRY_ALL, &card, NULL), -(int)ERR_NOT_FOUND);
    cr_expect_eq(none.readings, 0);
}

/* --- A library that hangs --- */

/* A back end of one card, of whose readings so many hang. */
struct slow {
    struct gpu gpu; /* first */
    atomic_int hanging;
    const char *uuid;
    int ends[2]; /* a reading that hangs says so on one side and is let go from the other */
};

static int slow_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct slow *slow = (struct slow *)g;
    char c;
    (void)e;
    if (atomic_load(&slow->hanging) > 0 && atomic_fetch_sub(&slow->hanging, 1) > 0) {
        cr_expect_eq(write(slow->ends[1], "h", 1), 1);
        cr_expect_eq(read(slow->ends[1], &c, 1), 1);
    }
    *ret = (struct gpu_inventory){.n_drivers = 1, .drivers = {{.vendor = "slow"}}, .n_cards = 1};
    ret->cards = xcalloc(1, sizeof(*ret->cards));
    ret->cards[0] = (struct gpu_card){.vendor = "slow", .healthy = true};
    (void)snprintf(ret->cards[0].uuid, GPU_UUID_BYTES, "%s", slow->uuid);
    return 0;
}

static struct gpu *slow_free(struct gpu *g)
{
    (void)g;
    return NULL;
}

static const struct gpu_ops slow_ops = {.read = slow_read, .free = slow_free};

/* Beside a card of MetaX. */
static struct gpu *open_slow(struct slow *slow)
{
    *slow = (struct slow){.gpu = {.ops = &slow_ops}, .uuid = "SLOW-0"};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, slow->ends), 0);
    sim_fleet("[{model: c500, count: 1}]");
    struct gpu *const both[] = {&slow->gpu, sim_open_metax()};
    return gpu_all_new(both, 2);
}

static void close_slow(const struct slow *slow)
{
    (void)close(slow->ends[0]);
    (void)close(slow->ends[1]);
}

static void *read_in_thread(void *arg)
{
    auto_gpu_inventory struct gpu_inventory inv = sim_read(arg);
    cr_expect_eq(inv.n_cards, 2, "the one that hung gets all");
    return NULL;
}

static pthread_t read_and_hang(struct gpu *g, struct slow *slow)
{
    pthread_t thread;
    char c;
    atomic_store(&slow->hanging, 1);
    cr_assert_eq(pthread_create(&thread, NULL, read_in_thread, g), 0);
    cr_assert_eq(read(slow->ends[0], &c, 1), 1);
    return thread;
}

static void let_go(const struct slow *slow, pthread_t *threads, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        cr_assert_eq(write(slow->ends[0], "g", 1), 1);
    for (unsigned i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
}

Test(gpu_all, no_vendor_waits_for_one_whose_library_hangs)
{
    struct slow slow;
    auto_gpu struct gpu *g = open_slow(&slow);
    pthread_t threads[2] = {read_and_hang(g, &slow), read_and_hang(g, &slow)};
    auto_gpu_inventory struct gpu_inventory first = sim_read(g);
    cr_assert_eq(first.n_cards, 1, "nothing is known of the other's yet");
    cr_expect_str_eq(first.cards[0].vendor, "metax");
    let_go(&slow, threads, 2);
    pthread_t again[2] = {read_and_hang(g, &slow), read_and_hang(g, &slow)};
    auto_gpu_inventory struct gpu_inventory second = sim_read(g);
    cr_assert_eq(second.n_cards, 2);
    cr_expect_str_eq(second.cards[0].uuid, "SLOW-0");
    cr_expect(second.cards[0].unread && second.cards[0].busy && second.cards[0].healthy);
    cr_expect_not(second.cards[1].unread);
    let_go(&slow, again, 2);
    close_slow(&slow);
}

/* Each hangs on a card of its own, which later readings leave out. */
Test(gpu_all, readings_that_are_overtaken_keep_no_later_one_out)
{
    struct slow slow;
    auto_gpu struct gpu *g = open_slow(&slow);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++) {
        threads[i] = read_and_hang(g, &slow);
        auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
        cr_assert_eq(inv.n_cards, 2);
        cr_expect_not(inv.cards[0].unread, "%u hang", i + 1);
    }
    let_go(&slow, threads, 4);
    close_slow(&slow);
}

Test(gpu_all, one_uuid_of_two_vendors_is_the_first_ones)
{
    struct slow slow;
    auto_gpu struct gpu *g = open_slow(&slow);
    auto_gpu_inventory struct gpu_inventory inv = sim_read(g);
    slow.uuid = inv.cards[1].uuid;
    auto_gpu_inventory struct gpu_inventory twins = sim_read(g);
    cr_assert_eq(twins.n_cards, 2);
    cr_expect_str_eq(twins.cards[0].uuid, inv.cards[1].uuid);
    cr_expect_str_eq(twins.cards[1].uuid, "");
    cr_expect(twins.cards[1].unread && !twins.cards[1].healthy);
    cr_expect_str_eq(twins.cards[1].unhealthy_message,
                     "metax's library gives card 0 the UUID of slow's card 0");
    close_slow(&slow);
}
