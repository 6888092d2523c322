/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"
#include "test/unit/nvml_mad.h"

/* A driver's library that tells what cannot be: the card is ill and says so, the others are well.
 */

static struct gpu *open_mad(const char *about)
{
    struct gpu *g = NULL;
    const struct nvml_options o = {.library = "", .proc_root = "/nowhere", .sys_root = "/nowhere"};
    nvml_mad_about(about);
    cr_assert_eq(gpu_nvml_open(&o, &g, NULL), 0);
    return g;
}

static struct gpu_inventory read_all(struct gpu *g)
{
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read(g, &inv, &e), 0, "%s", err_msg(&e));
    return inv;
}

Test(nvml_mad, a_library_of_a_test_is_believed_as_long_as_it_is_sane)
{
    auto_gpu struct gpu *g = open_mad("");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 2);
    cr_expect(inv.cards[0].healthy && inv.cards[1].healthy, "%s", inv.cards[0].unhealthy_message);
    cr_expect_eq(inv.cards[0].mig.n_profiles, 5);
    cr_expect_eq(inv.cards[0].state.n, 2);
    cr_expect_eq(inv.cards[0].n_partitions, 3);
    cr_expect_eq(inv.cards[0].n_users, 1);
    cr_expect_eq(gpu_pair_between(&inv.topology, 0, 1).level, GPU_LEVEL_NODE);
    cr_expect_str_eq(inv.drivers[0].cuda_version, "13.0");
}

static void expect_ill(const char *about, unsigned card, const char *reason, const char *said)
{
    auto_gpu struct gpu *g = open_mad(about);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 2);
    const struct gpu_card *c = &inv.cards[card];
    cr_expect(c->unread && !c->healthy, "%s", about);
    cr_expect_str_eq(c->unhealthy_reason, reason, "%s: %s", about, c->unhealthy_reason);
    cr_expect(strstr(c->unhealthy_message, said), "%s: %s", about, c->unhealthy_message);
    cr_expect(inv.cards[!card].healthy && !inv.cards[!card].unread, "%s", about);
}

Test(nvml_mad, what_cannot_be_makes_the_card_unread_and_says_so)
{
    static const struct {
        const char *about, *said;
    } cases[] = {
        {"card without UUID", "gives card 0 the UUID \"\""},
        {"card's UUID that leads elsewhere", "gives card 0 the UUID \"../../etc\""},
        {"PCI address without end", "the PCI address \"AAAA"},
        {"PCI address that leads elsewhere", "the PCI address \"../../../../etc\""},
        {"memory of a card", "gives the card 17592186044415 MiB of memory"},
        {"one instance twice", "lists GPU instance 7 twice"},
        {"two instances of one id", "lists GPU instance 3 twice"},
        {"id of an instance", "gives a GPU instance the id 4000000000"},
        {"instance off the grid", "gives GPU instance 7 the placement 4294967295:1"},
        {"instance without size", "gives GPU instance 7 the placement 0:0"},
        {"count of instances", "reports 4000000000 GPU instances where 64 have room"},
        {"count of compute instances", "reports 4000000000 compute instances where 64 have room"},
        {"slices of compute instances", "reports compute instances of 77 slices"},
        {"answer that is none", "reports compute instances of 0 slices"},
        {"two compute instances of one id", "lists compute instance 0 of GPU instance 1 twice"},
        {"id of a compute instance", "gives a compute instance the id 4000000000"},
        {"count of processes", "reports 4000000000 processes where 64 have room"},
        {"list that always grows", "nvmlDeviceGetComputeRunningProcesses_v3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        expect_ill(cases[i].about, 0, "ReadFailed", cases[i].said);
    expect_ill("two cards of one UUID", 1, "ReadFailed", "gives card 1 the UUID of card 0");
    expect_ill("card's UUID without end", 1, "ReadFailed", "gives card 1 the UUID of card 0");
}

Test(nvml_mad, a_table_that_cannot_be_handled_leaves_the_card_alone)
{
    static const struct {
        const char *about, *said;
    } cases[] = {
        {"profile of 32 slices", "MIG profile 3g.20gb: compute slices 32, only 1 to 8"},
        {"profile without slices", "MIG profile 3g.20gb: compute slices 0, only 1 to 8"},
        {"two profiles of one id", "MIG profiles 1g.5gb and 2g.10gb both have id 19"},
        {"memory of a profile", "MiB of memory 18446744073709551615, only 0 to 16777216"},
        {"placement off the grid",
         "MIG profile 1g.5gb: placement 4000000000:1 is outside the 32 memory slices"},
        {"placement without size",
         "MIG profile 1g.5gb: placement 0:0 is outside the 32 memory slices"},
        {"placements of two sizes",
         "MIG profile 1g.5gb: placement 1:2 has size 2, the one before 1"},
        {"placement of all sizes",
         "MIG profile 1g.5gb: placement 0:4000000000 is outside the 32 memory slices"},
        {"count of placements", "MIG profile 1g.5gb: placements 4000000000, only 0 to 16"},
        {"placements that became more", "MIG profile 1g.5gb: placements 4000000000, only 0 to 16"},
        {"endless profiles", "more than 32 MIG profiles"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        expect_ill(cases[i].about, 0, "MIGTableInvalid", cases[i].said);
        expect_ill(cases[i].about, 0, "MIGTableInvalid", "the card is left alone");
    }
}

Test(nvml_mad, what_does_not_fit_is_cut)
{
    static const char *const abouts[] =
        {"card's name without end",      "negative version",
         "driver's version without end", "minor number",
         "negative capability",          "topology",
         "partition's UUID without end", "profile's name without end",
         "two partitions of one UUID",   "start of a compute instance"};
    for (size_t i = 0; i < ARRAY_LEN(abouts); i++) {
        auto_gpu struct gpu *g = open_mad(abouts[i]);
        auto_gpu_inventory struct gpu_inventory inv = read_all(g);
        const struct gpu_card *c = &inv.cards[0];
        cr_assert(c->healthy && !c->unread, "%s: %s", abouts[i], c->unhealthy_message);
        cr_expect_lt(strnlen(c->model, sizeof(c->model)), sizeof(c->model), "%s", abouts[i]);
        cr_expect(!strchr(c->model, '\xff'), "%s", abouts[i]);
        cr_expect_lt(strlen(inv.drivers[0].version), sizeof(inv.drivers[0].version));
        cr_expect_geq(c->compute_major, 0, "%s", abouts[i]);
        cr_expect(c->minor == UINT_MAX || c->minor < 1 << 20, "%s", abouts[i]);
        cr_expect_eq(c->n_partitions, 3, "%s", abouts[i]);
        cr_expect(!*c->partitions[1].uuid ||
                      strcmp(c->partitions[0].uuid, c->partitions[1].uuid) != 0,
                  "%s", abouts[i]);
        cr_expect_lt(c->partitions[0].ci_start, MIG_MAX_SLICES, "%s", abouts[i]);
    }
}

/* ---- processes ---- */

Test(nvml_mad, marks_of_processes_that_are_not_listed_stay_when_pods_are_named)
{
    auto_gpu struct gpu *g = open_mad("many processes");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    struct gpu_card *c = &inv.cards[0];
    cr_assert(c->healthy, "%s", c->unhealthy_message);
    cr_assert_eq(c->n_users, GPU_MAX_PROCESSES, "of 300");
    cr_assert(c->state.items[0].in_use && c->state.items[1].in_use);
    cr_expect(c->state.items[1].cis[0].in_use && !c->state.items[1].cis[1].in_use);
    const struct gpu_user pod = {.name = "ns/p", .part = 7, .ci = 0};
    gpu_card_set_holders(c, &pod, 1);
    cr_expect(c->state.items[1].in_use, "the 300th process uses it");
    cr_expect(c->state.items[1].cis[0].in_use && !c->state.items[1].cis[1].in_use);
    gpu_card_set_holders(c, NULL, 0);
    cr_expect(c->state.items[0].in_use && c->state.items[1].in_use);
}

/* A pod that lets go of a part frees it. */
Test(nvml_mad, marks_of_pods_go_with_them)
{
    auto_gpu struct gpu *g = open_mad("");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    struct gpu_card *c = &inv.cards[0];
    const struct gpu_user pod = {.name = "ns/p", .part = 1, .ci = 1};
    gpu_card_set_holders(c, &pod, 1);
    cr_expect(c->state.items[0].in_use && c->state.items[1].cis[1].in_use);
    gpu_card_set_holders(c, NULL, 0);
    cr_expect(c->state.items[0].in_use && !c->state.items[1].in_use);
    cr_expect(!c->state.items[1].cis[1].in_use);
}

/* Process 0 is nobody's: in our lists it would be a pod. */
Test(nvml_mad, a_process_without_pid_is_somebody_that_nobody_can_name)
{
    auto_gpu struct gpu *g = open_mad("process without pid");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const struct gpu_card *c = &inv.cards[0];
    cr_expect(c->healthy && c->users_unknown);
    cr_expect_eq(c->n_users, 0);
    cr_expect(c->state.items[0].in_use);
}

Test(nvml_mad, a_process_in_an_instance_that_cannot_be_is_listed_with_the_card)
{
    auto_gpu struct gpu *g = open_mad("process in an instance that cannot be");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.cards[0].n_users, 1);
    cr_expect_eq(inv.cards[0].users[0].part, -1);
}

/* Until means are there: two samples are 100 ms apart. */
static struct telemetry_card measure(struct gpu *g, const char *uuid)
{
    struct telemetry_card card;
    auto_err struct err e = {0};
    const int64_t start = clock_mono_ms(clock_real());
    do
        cr_assert_eq(g->ops->measure(g, uuid, TELEMETRY_ALL, &card, &e), 0, "%s", err_msg(&e));
    while (clock_mono_ms(clock_real()) - start < 250 && isnan(card.values.of[TELEMETRY_SM_ACTIVE]));
    return card;
}

Test(nvml_mad, a_sane_library_is_measured)
{
    auto_gpu struct gpu *g = open_mad("");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const struct telemetry_card card = measure(g, inv.cards[0].uuid);
    cr_expect_float_eq(card.values.of[TELEMETRY_POWER], 70, 1e-9);
    cr_expect_eq(card.values.of[TELEMETRY_UTILIZATION], 50);
    cr_expect_float_eq(card.values.of[TELEMETRY_SM_ACTIVE], 0.5, 1e-9);
    cr_expect_eq(card.n_parts, 1);
    cr_assert_eq(card.n_processes, 1);
    cr_expect_eq(card.processes[0].utilization, 20);
}

Test(nvml_mad, processes_go_on_to_be_measured_when_the_clock_was_set_back)
{
    auto_gpu struct gpu *g = open_mad("clock");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    (void)measure(g, inv.cards[0].uuid);
    nvml_mad_about("");
    const struct telemetry_card card = measure(g, inv.cards[0].uuid);
    cr_assert_eq(card.n_processes, 1);
    cr_expect_eq(card.processes[0].utilization, 20);
}

/* Bits of reasons are a set: each of them may be. */
Test(nvml_mad, what_cannot_be_is_measured_as_no_number)
{
    auto_gpu struct gpu *g = open_mad("measures");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const struct telemetry_card card = measure(g, inv.cards[0].uuid);
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        cr_expect(isnan(card.values.of[i]) || i == TELEMETRY_CLOCK_EVENT_REASONS, "%zu: %g", i,
                  card.values.of[i]);
    cr_expect_eq(card.n_parts, 1, "one id of seven MIG devices");
    cr_assert_eq(card.n_processes, 1);
    cr_expect(isnan(card.processes[0].utilization));
}
