/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

/*
 * The back end against the simulated library, loaded as an agent loads NVIDIA's. Each test has a
 * machine of its own: a fleet, a state file, a /proc.
 */

static char dir[64];
static char sim[PATH_MAX]; /* folder of the simulated libraries, beside this program's */

static void set_path(const char *variable, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(setenv(variable, path, 1), 0);
}

static void put(const char *name, const char *text)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static void make_machine(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    ssize_t n = readlink("/proc/self/exe", sim, sizeof(sim) - 1);
    cr_assert_gt(n, 0);
    sim[n] = '\0';
    for (int i = 0; i < 3; i++)
        *strrchr(sim, '/') = '\0';
    (void)snprintf(sim + strlen(sim), sizeof(sim) - strlen(sim), "/sim");
    (void)snprintf(dir, sizeof(dir), "%s/nvml-test-XXXXXX", root);
    cr_assert(mkdtemp(dir));
    set_path("CLEAVE_SIM_STATE", "state");
    set_path("CLEAVE_SIM_FLEET", "fleet.yaml");
    set_path("CLEAVE_SIM_PROC", "proc");
}

static void run(const char *command)
{
    cr_assert_eq(system(command), 0, "%s", command);
}

static void remove_machine(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    run(command);
}

TestSuite(nvml, .init = make_machine, .fini = remove_machine);

static void fleet(const char *gpus)
{
    auto_free char *text =
        xasprintf("driverVersion: 580.95.05\ncudaVersion: \"13.0\"\ngpus: %s\n", gpus);
    put("fleet.yaml", text);
}

/* What happens to the hardware from outside. */
static void simctl(const char *words)
{
    auto_free char *command = xasprintf("'%s/cleave-simctl' %s > /dev/null", sim, words);
    run(command);
}

static struct gpu *open_at(const char *library)
{
    auto_free char *smi = xasprintf("%s/nvidia-smi", sim);
    auto_free char *proc = xasprintf("%s/proc", dir);
    auto_free char *sys = xasprintf("%s/sys", dir);
    struct gpu *g = NULL;
    auto_err struct err e = {0};
    const struct nvml_options o = {.library = library,
                                   .nvidia_smi = smi,
                                   .proc_root = proc,
                                   .sys_root = sys};
    cr_assert_eq(gpu_nvml_open(&o, &g, &e), 0, "%s", err_msg(&e));
    return g;
}

static struct gpu *open_library(const char *name)
{
    auto_free char *library = xasprintf("%s/%s", sim, name);
    return open_at(library);
}

static struct gpu *open_sim(void)
{
    return open_library("libnvidia-ml.so.1");
}

static struct gpu_inventory read_all(struct gpu *g)
{
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read(g, &inv, &e), 0, "%s", err_msg(&e));
    return inv;
}

static void check_profile(const struct mig_table *t, const char *name, unsigned id, unsigned slices,
                          unsigned size, unsigned n_starts, unsigned last_start)
{
    for (unsigned i = 0; i < t->n_profiles; i++) {
        const struct mig_profile *p = &t->profiles[i];
        if (strcmp(p->name, name) != 0)
            continue;
        cr_expect_eq(p->id, id, "%s", name);
        cr_expect_eq(p->slices, slices, "%s", name);
        cr_expect_eq(p->size, size, "%s", name);
        cr_assert_eq(p->n_starts, n_starts, "%s", name);
        cr_expect_eq(p->starts[n_starts - 1], last_start, "%s", name);
        return;
    }
    cr_expect(false, "no profile %s", name);
}

/* --- reading --- */

Test(nvml, reads_what_a_card_is)
{
    fleet("[{model: h100-80, count: 2}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 2);
    const struct gpu_card *c = &inv.cards[1];
    cr_expect_str_eq(inv.drivers[0].vendor, "nvidia");
    cr_expect_str_eq(inv.drivers[0].version, "580.95.05");
    cr_expect_str_eq(inv.drivers[0].cuda_version, "13.0");
    cr_expect_str_eq(c->model, "NVIDIA H100 80GB HBM3");
    cr_expect_str_eq(c->architecture, "hopper");
    cr_expect_eq(c->compute_major, 9);
    cr_expect_eq(c->compute_minor, 0);
    cr_expect_eq(c->pci_device_id, 0x233010DE);
    cr_expect_eq(strncmp(c->uuid, "GPU-", 4), 0);
    cr_expect_eq(c->index, 1);
    cr_expect_eq(c->minor, 1);
    cr_expect_gt(c->memory_mib, 80000);
    cr_expect(c->healthy && c->mig_capable && !c->mode_needs_reset);
    cr_expect_eq(c->mode, GPU_NATIVE);
    cr_expect_eq(c->n_partitions, 0);
}

Test(nvml, reads_the_tables_of_every_grid)
{
    fleet("[{model: h100-80}, {model: a30}, {model: rtx-pro-6000}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 3);
    cr_expect_eq(inv.cards[0].mig.memory_slices, 8);
    cr_expect_eq(inv.cards[0].mig.slices, 7);
    check_profile(&inv.cards[0].mig, "1g.10gb", 19, 1, 1, 7, 6);
    check_profile(&inv.cards[0].mig, "1g.10gb+me", 20, 1, 1, 7, 6);
    check_profile(&inv.cards[0].mig, "1g.20gb", 15, 1, 2, 4, 6);
    check_profile(&inv.cards[0].mig, "3g.40gb", 9, 3, 4, 2, 4);
    check_profile(&inv.cards[0].mig, "7g.80gb", 0, 7, 8, 1, 0);
    cr_expect_eq(inv.cards[1].mig.memory_slices, 4);
    check_profile(&inv.cards[1].mig, "2g.12gb+me", 6, 2, 2, 2, 2);
    cr_expect_eq(inv.cards[2].mig.memory_slices, 12);
    check_profile(&inv.cards[2].mig, "1g.24gb-me", 67, 1, 3, 4, 9);
    check_profile(&inv.cards[2].mig, "2g.48gb+gfx", 35, 2, 6, 2, 6);
}

Test(nvml, card_without_mig_is_native_and_not_capable)
{
    fleet("[{model: l4}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect(inv.cards[0].healthy);
    cr_expect(!inv.cards[0].mig_capable);
    cr_expect_eq(inv.cards[0].mig.n_profiles, 0);
}

/* --- what feature labels need --- */

static void say_class(const char *bus_id, const char *class)
{
    auto_free char *command =
        xasprintf("mkdir -p %s/sys/bus/pci/devices/%s && echo %s > %s/sys/bus/pci/devices/%s/class",
                  dir, bus_id, class, dir, bus_id);
    run(command);
}

Test(nvml, the_pci_class_is_the_kernels_and_else_the_drivers)
{
    fleet("[{model: h100-80, count: 2}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory told = read_all(g);
    cr_expect_eq(told.cards[0].pci_class, 0x030200);
    char id[GPU_BUS_ID_BYTES];
    (void)snprintf(id, sizeof(id), "%s", told.cards[1].pci_bus_id + 4);
    for (char *c = id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    say_class(id, "0x030000");
    auto_gpu struct gpu *again = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(again);
    cr_expect_eq(inv.cards[0].pci_class, 0x030200);
    cr_expect_eq(inv.cards[1].pci_class, 0x030000);
}

Test(nvml, the_fabric_is_told_once_it_is_up)
{
    put("fleet.yaml", "fabric: {clusterUUID: 0e1b2c3d4e5f60718293a4b5c6d7e8f9, clique: 7,"
                      " state: completed}\ngpus: [{model: h100-80}, {model: a100-40}]\n");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_str_eq(inv.cards[0].fabric, "0e1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9.7");
    cr_expect_str_eq(inv.cards[1].fabric, "", "Ampere's switches form no fabric");
}

Test(nvml, a_fabric_that_is_coming_up_is_not_told)
{
    put("fleet.yaml", "fabric: {clusterUUID: 0e1b2c3d4e5f60718293a4b5c6d7e8f9, clique: 7,"
                      " state: inProgress}\ngpus: [{model: h100-80}]\n");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_str_eq(inv.cards[0].fabric, "");
}

Test(nvml, boot_and_numa_node_come_from_the_kernel)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(unsetenv("CLEAVE_SIM_PROC"), 0); /* this /proc is the test's own */
    auto_free char *make = xasprintf("mkdir -p '%s/sys/bus/pci/devices/0000:07:00.0' "
                                     "'%s/proc/sys/kernel/random'",
                                     dir, dir);
    run(make);
    put("sys/bus/pci/devices/0000:07:00.0/numa_node", "1\n");
    put("proc/sys/kernel/random/boot_id", "b-1\n");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_eq(inv.cards[0].numa_node, 1);
    cr_expect_str_eq(inv.cards[0].pcie_root, "", "a folder in place of a link tells of none");
    cr_expect_str_eq(inv.boot_id, "b-1");
}

Test(nvml, lost_card_is_unhealthy_and_hides_no_other)
{
    fleet("[{model: h100-80, count: 3}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory before = read_all(g);
    simctl("lost --gpu 1 set");
    for (int i = 0; i < 3; i++) {
        auto_gpu_inventory struct gpu_inventory inv = read_all(g);
        cr_assert_eq(inv.n_cards, 3);
        cr_expect(inv.cards[0].healthy && inv.cards[2].healthy);
        cr_expect(!inv.cards[1].healthy);
        cr_expect(inv.cards[1].unread && !inv.cards[0].unread);
        cr_expect_str_eq(inv.cards[1].unhealthy_reason, "GPULost");
        cr_expect_str_eq(inv.cards[1].uuid, before.cards[1].uuid);
    }
    simctl("lost --gpu 1 clear");
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    cr_expect(after.cards[1].healthy, "%s", after.cards[1].unhealthy_message);
}

Test(nvml, card_that_the_driver_gave_up_on_is_unhealthy_until_it_is_recovered)
{
    static const struct {
        const char *action, *reason;
    } actions[] = {{"reset", "ResetRequired"},
                   {"drain-and-reset", "ResetRequired"},
                   {"reboot", "RebootRequired"},
                   {"imex", "RecoveryRequired"}};
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory before = read_all(g);
    cr_expect(before.cards[0].healthy);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        auto_free char *words = xasprintf("recovery-action --gpu 0 %s", actions[i].action);
        simctl(words);
        auto_gpu_inventory struct gpu_inventory inv = read_all(g);
        cr_expect(!inv.cards[0].healthy);
        cr_expect_str_eq(inv.cards[0].unhealthy_reason, actions[i].reason);
        cr_expect_gt(inv.cards[0].mig.n_profiles, 0);
    }
    simctl("recovery-action --gpu 0 none");
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    cr_expect(after.cards[0].healthy);
}

/* Whatever call of a reading fails, the answer is an error, an unhealthy card or a good one; never
 * a crash, never a lost neighbour. */
Test(nvml, any_call_of_a_reading_may_fail)
{
    fleet("[{model: h100-80, mig: true}, {model: a100-40}]");
    for (unsigned k = 1; k <= 200; k++) {
        auto_free char *fault = xasprintf("*:%u:fail:UNKNOWN", k);
        cr_assert_eq(setenv("CLEAVE_SIM_FAULT", fault, 1), 0);
        auto_gpu struct gpu *g = open_sim();
        struct gpu_inventory inv = {0};
        auto_err struct err e = {0};
        if (g->ops->read(g, &inv, &e) < 0)
            continue;
        cr_assert_eq(inv.n_cards, 2, "%u", k);
        cr_expect(inv.cards[0].healthy || inv.cards[1].healthy, "%u", k);
        cr_expect(inv.cards[0].healthy || inv.cards[0].unhealthy_reason[0], "%u", k);
        gpu_inventory_done(&inv);
    }
}

Test(nvml, session_that_was_lost_is_opened_again)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT", "nvmlDeviceGetCount_v2:2:fail:UNINITIALIZED", 1), 0);
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory first = read_all(g);
    cr_expect(first.cards[0].healthy);
    auto_gpu_inventory struct gpu_inventory second = read_all(g);
    cr_expect(second.cards[0].healthy);
}

/* One that was replaced is not remembered for the other's troubles. */
Test(nvml, card_that_fails_is_named_as_the_one_that_was_there_last)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT",
                        "nvmlDeviceGetCount_v2:2:fail:UNINITIALIZED,"
                        "nvmlDeviceGetHandleByIndex_v2:3:fail:UNKNOWN",
                        1),
                 0);
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory first = read_all(g);
    auto_free char *state = xasprintf("%s/state", dir);
    cr_assert_eq(unlink(state), 0);
    auto_gpu_inventory struct gpu_inventory second = read_all(g);
    cr_expect_str_neq(second.cards[0].uuid, first.cards[0].uuid);
    auto_gpu_inventory struct gpu_inventory third = read_all(g);
    cr_expect(third.cards[0].unread);
    cr_expect_str_eq(third.cards[0].uuid, second.cards[0].uuid);
}

static void link_library(const char *name)
{
    auto_free char *command = xasprintf("ln -sfn '%s/%s' '%s/libnvidia-ml.so.1'", sim, name, dir);
    run(command);
}

/* The kernel has the new driver and the old library is loaded: only the new one can help. */
Test(nvml, library_that_an_upgrade_left_behind_is_loaded_again)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT", "nvmlDeviceGetCount_v2:2:fail:LIB_RM_VERSION_MISMATCH",
                        1),
                 0);
    link_library("libnvidia-ml.so.1");
    auto_free char *path = xasprintf("%s/libnvidia-ml.so.1", dir);
    auto_gpu struct gpu *g = open_at(path);
    auto_gpu_inventory struct gpu_inventory before = read_all(g);
    cr_expect_eq(before.cards[0].minor, 0);
    link_library("../test/unit/nvml_old.so");
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    cr_assert_eq(after.n_cards, 1);
    cr_expect_str_eq(after.cards[0].uuid, "GPU-old");
    auto_err struct err e = {0};
    struct gpu_limit limit = {.hard_bytes = 7};
    cr_expect_eq(g->ops->limit_set(g, "GPU-old", "/sys/fs/cgroup", 1, &e), -ERR_INVALID);
    cr_expect_str_eq(e.reason, GPU_LIMITS_UNSUPPORTED);
    cr_expect_eq(g->ops->limit_get(g, "GPU-old", "/sys/fs/cgroup", &limit, &e), -ERR_INVALID);
    cr_expect_eq(limit.hard_bytes, 7);
    cr_expect(after.cards[0].healthy, "%s", after.cards[0].unhealthy_message);
}

Test(nvml, no_library_and_no_driver_are_not_found)
{
    auto_gpu struct gpu *none = NULL;
    struct gpu_inventory inv;
    const struct nvml_options o = {.library = "/nonexistent/libnvidia-ml.so.1"};
    cr_expect_eq(gpu_nvml_open(&o, &none, NULL), 0);
    cr_expect_eq(none->ops->read(none, &inv, NULL), -ERR_NOT_FOUND);
    cr_assert_eq(unsetenv("CLEAVE_SIM_FLEET"), 0);
    cr_assert_eq(unsetenv("CLEAVE_SIM_STATE"), 0);
    auto_gpu struct gpu *g = open_sim();
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->read(g, &inv, &e), -ERR_NOT_FOUND);
    cr_expect_str_eq(e.reason, "DriverNotLoaded");
}

Test(nvml, unknown_uuid_is_not_found)
{
    fleet("[{model: h100-80}]");
    auto_gpu struct gpu *g = open_sim();
    struct gpu_card c = {0};
    cr_expect_eq(g->ops->read_card(g, "GPU-none", &c, NULL), -ERR_NOT_FOUND);
}

/* --- how cards are joined --- */

static void machine_of(const char *model, unsigned count, const char *links)
{
    auto_free char *text = xasprintf("driverVersion: 580.95.05\ncudaVersion: \"13.0\"\n"
                                     "gpus: [{model: %s, count: %u}]\nnumaNodes: 2\n%s\n",
                                     model, count, links);
    put("fleet.yaml", text);
}

static void expect_pair(const struct gpu_inventory *inv, size_t a, size_t b, enum gpu_level level,
                        unsigned links)
{
    struct gpu_pair p = gpu_pair_between(&inv->topology, a, b);
    struct gpu_pair back = gpu_pair_between(&inv->topology, b, a);
    cr_expect_eq(p.level, level, "%zu-%zu: %u", a, b, p.level);
    cr_expect_eq(p.links, links, "%zu-%zu: %u", a, b, p.links);
    cr_expect(back.level == p.level && back.links == p.links, "%zu-%zu", b, a);
}

Test(nvml, through_switches_each_card_reaches_each_other_with_all_its_links)
{
    machine_of("h100-80", 8, "links: nvswitch");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.topology.n_cards, 8);
    for (size_t a = 0; a < 8; a++)
        for (size_t b = 0; b < a; b++)
            expect_pair(&inv, a, b,
                        a / 4 != b / 4   ? GPU_LEVEL_SYSTEM
                        : a / 2 == b / 2 ? GPU_LEVEL_SWITCH
                                         : GPU_LEVEL_NODE,
                        18);
}

/* Twelve links of each card, dealt out to the five others in turn. */
Test(nvml, links_between_cards_are_counted_by_pair)
{
    machine_of("a100-80", 6, "links: mesh");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    expect_pair(&inv, 0, 1, GPU_LEVEL_SWITCH, 3);
    expect_pair(&inv, 0, 5, GPU_LEVEL_SYSTEM, 3); /* one end tells of two */
    expect_pair(&inv, 1, 2, GPU_LEVEL_NODE, 3);
    expect_pair(&inv, 4, 5, GPU_LEVEL_SWITCH, 2);
}

Test(nvml, cards_without_links_have_their_way_over_pcie)
{
    machine_of("l4", 3, "");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    expect_pair(&inv, 0, 1, GPU_LEVEL_SWITCH, 0);
    expect_pair(&inv, 0, 2, GPU_LEVEL_SYSTEM, 0);
    expect_pair(&inv, 2, 2, GPU_LEVEL_UNKNOWN, 0);
    expect_pair(&inv, 0, 3, GPU_LEVEL_UNKNOWN, 0);
}

/* A call that no driver answers is as good as absent. */
Test(nvml, each_call_about_pairs_is_missed_by_itself)
{
    static const struct {
        const char *call;
        enum gpu_level level;
        unsigned links;
    } missing[] = {{"nvmlDeviceGetTopologyCommonAncestor", GPU_LEVEL_UNKNOWN, 18},
                   {"nvmlDeviceGetNvLinkState", GPU_LEVEL_SWITCH, 0},
                   {"nvmlDeviceGetNvLinkRemoteDeviceType", GPU_LEVEL_SWITCH, 18},
                   {"nvmlDeviceGetNvLinkRemotePciInfo_v2", GPU_LEVEL_SWITCH, 18}};
    machine_of("h100-80", 2, "numaNodes: 1");
    for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
        auto_free char *fault = xasprintf("%s:0:fail:NOT_SUPPORTED", missing[i].call);
        cr_assert_eq(setenv("CLEAVE_SIM_FAULT", fault, 1), 0);
        auto_gpu struct gpu *g = open_sim();
        auto_gpu_inventory struct gpu_inventory inv = read_all(g);
        cr_expect(inv.cards[0].healthy && inv.cards[1].healthy);
        expect_pair(&inv, 0, 1, missing[i].level, missing[i].links);
    }
}

/* How often a function was called, by the hardware's own count. */
static unsigned calls_of(const char *name)
{
    auto_free char *command =
        xasprintf("'%s/cleave-simctl' calls | awk '$2 == \"%s\" {print $1}'", sim, name);
    char text[32] = "";
    FILE *f = popen(command, "r");
    cr_assert(f);
    cr_assert(fgets(text, sizeof(text), f), "%s", name);
    cr_assert_eq(pclose(f), 0);
    return (unsigned)strtoul(text, NULL, 10);
}

static void read_and_forget(struct gpu *g)
{
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect(inv.topology.pairs);
}

Test(nvml, pairs_are_asked_for_once_and_again_when_a_mode_changed)
{
    machine_of("h100-80", 3, "");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory first = read_all(g);
    unsigned once = calls_of("nvmlDeviceGetNvLinkState");
    cr_expect_gt(once, 0);
    for (int i = 0; i < 5; i++)
        read_and_forget(g);
    cr_expect_eq(calls_of("nvmlDeviceGetNvLinkState"), once);
    enum gpu_mode_result r;
    cr_assert_eq(g->ops->mode_set(g, first.cards[1].uuid, GPU_MIG, &r, NULL), 0);
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    expect_pair(&after, 0, 1, GPU_LEVEL_SWITCH, 0);
    expect_pair(&after, 0, 2, GPU_LEVEL_SYSTEM, 18);
}

/* 1, 2, 4 … readings after the first. */
Test(nvml, what_was_not_told_is_asked_again_ever_less_often)
{
    machine_of("h100-80", 2, "numaNodes: 1");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT",
                        "nvmlDeviceGetTopologyCommonAncestor:1:fail:UNKNOWN,"
                        "nvmlDeviceGetTopologyCommonAncestor:2:fail:UNKNOWN",
                        1),
                 0);
    auto_gpu struct gpu *g = open_sim();
    static const unsigned asked[] = {1, 2, 2, 3, 3, 3};
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        auto_gpu_inventory struct gpu_inventory inv = read_all(g);
        cr_expect_eq(calls_of("nvmlDeviceGetTopologyCommonAncestor"), asked[i], "%zu", i);
        expect_pair(&inv, 0, 1, asked[i] < 3 ? GPU_LEVEL_UNKNOWN : GPU_LEVEL_SWITCH, 18);
    }
}

Test(nvml, nothing_is_known_of_the_ways_to_a_lost_card_until_it_is_back)
{
    machine_of("h100-80", 3, "");
    auto_gpu struct gpu *g = open_sim();
    read_and_forget(g);
    simctl("lost --gpu 1 set");
    auto_gpu_inventory struct gpu_inventory lost = read_all(g);
    expect_pair(&lost, 0, 1, GPU_LEVEL_UNKNOWN, 0);
    expect_pair(&lost, 0, 2, GPU_LEVEL_SYSTEM, 18);
    simctl("lost --gpu 1 clear");
    auto_gpu_inventory struct gpu_inventory back = read_all(g);
    expect_pair(&back, 0, 1, GPU_LEVEL_SWITCH, 18);
}

/* --- changing --- */

/* One instance of a profile id at a place with one compute instance; its ids. */
struct ids {
    unsigned gi, ci;
};

static struct ids cut(struct gpu *g, const char *uuid, unsigned profile, unsigned start,
                      unsigned size, unsigned slices)
{
    struct ids ids = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->gi_create(g, uuid, profile, start, size, &ids.gi, &e), 0, "%s",
                 err_msg(&e));
    cr_assert_eq(g->ops->ci_create(g, uuid, ids.gi, slices, -1, &ids.ci, &e), 0, "%s", err_msg(&e));
    return ids;
}

static void read_one(struct gpu *g, const char *uuid, struct gpu_card *ret)
{
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read_card(g, uuid, ret, &e), 0, "%s", err_msg(&e));
}

Test(nvml, a_part_of_an_instance_tells_its_own_multiprocessors)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory blank = read_all(g);
    (void)cut(g, blank.cards[0].uuid, 9, 0, 4, 1);
    (void)cut(g, blank.cards[0].uuid, 9, 4, 4, 3);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.cards[0].n_partitions, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct gpu_partition *p = &inv.cards[0].partitions[i];
        bool part = inv.cards[0].state.items[p->instance].start == 0;
        cr_expect_eq(p->multiprocessors, part ? 20 : 0);
    }
}

/* The UUID at each index of a card's MIG devices, as a client of the library finds it that is not
 * ours. The library stays loaded, as in such a client. */
static void uuid_at_index(int index, char *uuid, unsigned size)
{
    auto_free char *path = xasprintf("%s/libnvidia-ml.so.1", sim);
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(dl);
    int (*init)(void) = (int (*)(void))dlsym(dl, "nvmlInit_v2");
    int (*card_at)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(dl, "nvmlDeviceGetHandleByIndex_v2");
    int (*part_at)(void *, unsigned, void **) =
        (int (*)(void *, unsigned, void **))dlsym(dl, "nvmlDeviceGetMigDeviceHandleByIndex");
    int (*uuid_of)(void *, char *, unsigned) =
        (int (*)(void *, char *, unsigned))dlsym(dl, "nvmlDeviceGetUUID");
    void *card = NULL;
    void *part = NULL;
    cr_assert_eq(init(), 0);
    cr_assert_eq(card_at(0, &card), 0);
    cr_assert_eq(part_at(card, (unsigned)index, &part), 0, "index %d", index);
    cr_assert_eq(uuid_of(part, uuid, size), 0);
}

/* What `deviceIDStrategy: index` tells NVIDIA's runtime. Partitions are read by profile, the driver
 * counts its MIG devices by GPU instance. */
Test(nvml, a_partition_has_the_index_that_the_driver_knows_it_by)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory blank = read_all(g);
    (void)cut(g, blank.cards[0].uuid, 19, 6, 1, 1);
    (void)cut(g, blank.cards[0].uuid, 9, 0, 4, 1);
    (void)cut(g, blank.cards[0].uuid, 14, 4, 2, 2);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.cards[0].n_partitions, 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct gpu_partition *p = &inv.cards[0].partitions[i];
        char uuid[GPU_UUID_BYTES];
        uuid_at_index(p->mig_index, uuid, sizeof(uuid));
        cr_expect_str_eq(p->uuid, uuid, "index %d", p->mig_index);
    }
}

Test(nvml, a_partition_whose_index_is_not_reported_has_none)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory blank = read_all(g);
    (void)cut(g, blank.cards[0].uuid, 19, 6, 1, 1);
    simctl("fault add --call nvmlDeviceGetIndex --nth 0 --action fail:UNKNOWN");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.cards[0].n_partitions, 1);
    cr_expect_eq(inv.cards[0].partitions[0].mig_index, -1);
    cr_expect(inv.cards[0].healthy);
}

/* What a card is does not depend on what went wrong while it was learned. */
static void expect_same_card(const struct gpu_card *good, const struct gpu_card *c, unsigned k)
{
    cr_expect_str_eq(c->model, good->model, "%u", k);
    cr_expect_str_eq(c->architecture, good->architecture, "%u", k);
    cr_expect_eq(c->memory_mib, good->memory_mib, "%u", k);
    cr_expect_eq(c->compute_major, good->compute_major, "%u", k);
    cr_expect_eq(c->pci_class, good->pci_class, "%u", k);
    cr_expect_eq(c->numa_node, good->numa_node, "%u", k);
    cr_expect_eq(c->mode_needs_reset, good->mode_needs_reset, "%u", k);
    cr_expect_eq(c->mig_capable, good->mig_capable, "%u", k);
    cr_expect_eq(c->mig.n_profiles, good->mig.n_profiles, "%u", k);
    cr_expect_eq(c->n_partitions, good->n_partitions, "%u", k);
}

Test(nvml, failed_reading_leaves_nothing_wrong_for_the_next)
{
    fleet("[{model: h100-80, mig: true}, {model: a100-40}]");
    auto_gpu struct gpu *first = open_sim();
    auto_gpu_inventory struct gpu_inventory blank = read_all(first);
    (void)cut(first, blank.cards[0].uuid, 9, 4, 4, 3);
    auto_gpu_inventory struct gpu_inventory good = read_all(first);
    cr_assert_eq(good.cards[0].n_partitions, 1);
    for (unsigned k = 1; k <= 200; k++) {
        auto_free char *fault = xasprintf("*:%u:fail:TIMEOUT", k);
        cr_assert_eq(setenv("CLEAVE_SIM_FAULT", fault, 1), 0);
        auto_gpu struct gpu *g = open_sim();
        struct gpu_inventory inv = {0};
        if (g->ops->read(g, &inv, NULL) == 0)
            gpu_inventory_done(&inv);
        if (g->ops->read(g, &inv, NULL) < 0)
            continue; /* the first reading has fewer calls than k */
        for (unsigned i = 0; i < 2; i++)
            if (inv.cards[i].healthy)
                expect_same_card(&good.cards[i], &inv.cards[i], k);
        cr_expect_str_eq(inv.drivers[0].version, good.drivers[0].version, "call %u", k);
        cr_expect_str_eq(inv.drivers[0].cuda_version, good.drivers[0].cuda_version, "call %u", k);
        gpu_inventory_done(&inv);
    }
}

Test(nvml, instances_come_and_go_and_are_read_back)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const char *uuid = inv.cards[0].uuid;
    struct ids a = cut(g, uuid, 9, 4, 4, 3);
    struct ids b = cut(g, uuid, 19, 2, 1, 1);
    auto_gpu_card struct gpu_card c = {0};
    read_one(g, uuid, &c);
    cr_assert_eq(c.state.n, 2);
    cr_assert_eq(c.n_partitions, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct mig_instance *in = &c.state.items[i];
        bool big = in->gi_id == a.gi;
        cr_expect_str_eq(c.mig.profiles[in->profile].name, big ? "3g.40gb" : "1g.10gb");
        cr_expect_eq(in->start, big ? 4 : 2);
        cr_expect_eq(in->n_cis, 1);
        cr_expect_eq(in->cis[0].slices, big ? 3 : 1);
        cr_expect(!in->in_use);
        cr_expect_eq(strncmp(c.partitions[i].uuid, "MIG-", 4), 0);
        cr_expect_eq(c.partitions[i].ci_start, 0);
    }
    cr_expect_eq(g->ops->ci_destroy(g, uuid, b.gi, b.ci, NULL), 0);
    cr_expect_eq(g->ops->gi_destroy(g, uuid, b.gi, NULL), 0);
    cr_expect_eq(g->ops->gi_destroy(g, uuid, b.gi, NULL), -ERR_NOT_FOUND);
    auto_gpu_card struct gpu_card after = {0};
    read_one(g, uuid, &after);
    cr_expect_eq(after.state.n, 1);
}

Test(nvml, compute_instances_go_where_they_are_told)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const char *uuid = inv.cards[0].uuid;
    unsigned gi = 0;
    unsigned ci = 0;
    cr_assert_eq(g->ops->gi_create(g, uuid, 9, 0, 4, &gi, NULL), 0);
    cr_assert_eq(g->ops->ci_create(g, uuid, gi, 1, 2, &ci, NULL), 0);
    cr_assert_eq(g->ops->ci_create(g, uuid, gi, 2, 0, &ci, NULL), 0);
    cr_expect_eq(g->ops->ci_create(g, uuid, gi, 1, -1, &ci, NULL), -ERR_CONFLICT);
    cr_expect_eq(g->ops->ci_create(g, uuid, gi, 5, -1, &ci, NULL), -ERR_INVALID);
    auto_gpu_card struct gpu_card c = {0};
    read_one(g, uuid, &c);
    cr_assert_eq(c.n_partitions, 2);
    for (unsigned i = 0; i < 2; i++)
        cr_expect_eq(c.partitions[i].ci_start,
                     c.state.items[0].cis[c.partitions[i].ci].slices == 1 ? 2 : 0);
}

Test(nvml, taken_place_is_a_conflict_that_names_the_call)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    auto_err struct err e = {0};
    unsigned id = 77;
    (void)cut(g, inv.cards[0].uuid, 9, 4, 4, 3);
    cr_expect_eq(g->ops->gi_create(g, inv.cards[0].uuid, 9, 4, 4, &id, &e), -ERR_CONFLICT);
    cr_expect_eq(id, 77);
    cr_expect_str_eq(e.reason, "InsufficientResources");
    cr_expect(strstr(err_msg(&e), "nvmlDeviceCreateGpuInstanceWithPlacement"));
}

Test(nvml, users_are_read_and_the_driver_refuses_to_take_theirs)
{
    fleet("[{model: h100-80, mig: true}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const char *uuid = inv.cards[0].uuid;
    struct ids a = cut(g, uuid, 9, 4, 4, 3);
    struct ids b = cut(g, uuid, 9, 0, 4, 3);
    auto_free char *words =
        xasprintf("attach --gpu 0 --gi %u --ci %u --pid 4242 --name train", a.gi, a.ci);
    simctl(words);
    auto_gpu_card struct gpu_card c = {0};
    auto_err struct err e = {0};
    read_one(g, uuid, &c);
    cr_assert_eq(c.n_users, 1);
    cr_expect_eq(c.users[0].pid, 4242);
    cr_expect_str_eq(c.users[0].name, "train");
    cr_expect_eq(c.users[0].part, (int)a.gi);
    for (unsigned i = 0; i < c.state.n; i++)
        cr_expect_eq(c.state.items[i].in_use, c.state.items[i].gi_id == a.gi);
    cr_expect_eq(g->ops->ci_destroy(g, uuid, a.gi, a.ci, &e), -ERR_UNAVAILABLE);
    cr_expect_str_eq(e.reason, "InUse");
    cr_expect_eq(g->ops->ci_destroy(g, uuid, b.gi, b.ci, NULL), 0);
}

/* A process on the only card, whose parent's parent is as given. */
static void attach_grandchild(const char *name, unsigned ancestor)
{
    auto_free char *words = xasprintf("attach --gpu 0 --pid 4242 --name %s", name);
    auto_free char *folders = xasprintf("mkdir -p '%s/proc/4242' '%s/proc/4200'", dir, dir);
    auto_free char *parents = xasprintf("4200 (control) S %u 1 1 0\n", ancestor);
    simctl(words);
    run(folders);
    put("proc/4242/stat", "4242 (a) b) S 4200 1 1 0\n");
    put("proc/4200/stat", parents);
}

static unsigned count_users(void)
{
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    return inv.cards[0].n_users;
}

Test(nvml, mps_server_of_our_own_is_no_user)
{
    fleet("[{model: h100-80}]");
    attach_grandchild("nvidia-cuda-mps-server", (unsigned)getpid());
    cr_expect_eq(count_users(), 0);
}

Test(nvml, mps_server_of_somebody_else_is_a_user)
{
    fleet("[{model: h100-80}]");
    attach_grandchild("nvidia-cuda-mps-server", 1);
    cr_expect_eq(count_users(), 1);
}

Test(nvml, other_programs_of_our_own_are_users)
{
    fleet("[{model: h100-80}]");
    attach_grandchild("train", (unsigned)getpid());
    cr_expect_eq(count_users(), 1);
}

static struct gpu_card read_under_fault(const char *fault)
{
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT", fault, 1), 0);
    fleet("[{model: h100-80}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 1);
    struct gpu_card card = inv.cards[0];
    card.users = NULL;
    return card;
}

/* "No answer" is never "nobody". */
Test(nvml, users_that_the_driver_does_not_tell_are_unknown)
{
    struct gpu_card c =
        read_under_fault("nvmlDeviceGetComputeRunningProcesses_v3:1:fail:NOT_SUPPORTED");
    cr_expect(c.healthy);
    cr_expect(c.users_unknown);
    c = read_under_fault("nvmlDeviceGetGraphicsRunningProcesses_v3:1:fail:NOT_SUPPORTED");
    cr_expect(c.healthy);
    cr_expect_not(c.users_unknown, "a card that draws nothing");
    c = read_under_fault("nvmlDeviceGetMPSComputeRunningProcesses_v3:1:fail:NOT_SUPPORTED");
    cr_expect_not(c.users_unknown, "a driver without MPS");
    static const char *const failing[] = {"Compute", "Graphics", "MPSCompute"};
    for (size_t i = 0; i < ARRAY_LEN(failing); i++) {
        auto_free char *fault =
            xasprintf("nvmlDeviceGet%sRunningProcesses_v3:1:fail:UNKNOWN", failing[i]);
        c = read_under_fault(fault);
        cr_expect(c.unread, "%s", failing[i]);
    }
}

/* Their order is nobody's promise, and in a status it would be news. */
Test(nvml, processes_are_told_in_the_order_of_their_numbers)
{
    fleet("[{model: h100-80}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    simctl("attach --gpu 0 --pid 1009");
    simctl("attach --gpu 0 --pid 1007");
    auto_gpu_card struct gpu_card c = {0};
    read_one(g, inv.cards[0].uuid, &c);
    cr_assert_eq(c.n_users, 2);
    cr_expect_eq(c.users[0].pid, 1007);
    cr_expect_eq(c.users[1].pid, 1009);
}

Test(nvml, more_processes_than_the_first_buffer_are_all_seen)
{
    fleet("[{model: h100-80}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    auto_free char *many = xasprintf("for i in $(seq 1000 1099); do '%s/cleave-simctl' attach "
                                     "--gpu 0 --pid $i || exit 1; done",
                                     sim);
    run(many);
    auto_gpu_card struct gpu_card c = {0};
    read_one(g, inv.cards[0].uuid, &c);
    cr_expect_eq(c.n_users, 100);
    cr_expect_eq(c.users[99].part, -1);
}

Test(nvml, hopper_switches_its_mode_at_once_and_not_under_a_user)
{
    fleet("[{model: h100-80}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const char *uuid = inv.cards[0].uuid;
    enum gpu_mode_result r = GPU_MODE_NEEDS_REBOOT;
    auto_err struct err e = {0};
    simctl("attach --gpu 0 --pid 7");
    cr_expect_eq(g->ops->mode_set(g, uuid, GPU_MIG, &r, &e), -ERR_UNAVAILABLE);
    cr_expect_str_eq(e.reason, "InUse");
    simctl("detach --pid 7");
    cr_expect_eq(g->ops->mode_set(g, uuid, GPU_MIG, &r, NULL), 0);
    cr_expect_eq(r, GPU_MODE_DONE);
    auto_gpu_card struct gpu_card c = {0};
    read_one(g, uuid, &c);
    cr_expect_eq(c.mode, GPU_MIG);
}

Test(nvml, ampere_waits_for_its_reset)
{
    fleet("[{model: a100-80, count: 2}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    const char *uuid = inv.cards[1].uuid;
    enum gpu_mode_result r = GPU_MODE_DONE;
    auto_err struct err e = {0};
    cr_assert(inv.cards[1].mode_needs_reset);
    cr_assert_eq(g->ops->mode_set(g, uuid, GPU_MIG, &r, NULL), 0);
    cr_expect_eq(r, GPU_MODE_NEEDS_RESET);
    auto_gpu_card struct gpu_card pending = {0};
    read_one(g, uuid, &pending);
    cr_expect_eq(pending.mode, GPU_NATIVE);
    cr_expect_eq(pending.pending_mode, GPU_MIG);
    cr_assert_eq(g->ops->reset(g, uuid, &e), 0, "%s", err_msg(&e));
    auto_gpu_inventory struct gpu_inventory after = read_all(g);
    cr_expect_eq(after.cards[1].mode, GPU_MIG);
    cr_expect_eq(after.cards[0].mode, GPU_NATIVE);
}

Test(nvml, reset_of_a_card_in_use_is_refused_and_says_so)
{
    fleet("[{model: a100-80}]");
    auto_gpu struct gpu *g = open_sim();
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    auto_err struct err e = {0};
    simctl("attach --gpu 0 --pid 7");
    cr_expect_eq(g->ops->reset(g, inv.cards[0].uuid, &e), -ERR_UNAVAILABLE, "%s", err_msg(&e));
    cr_expect_str_eq(e.reason, "InUse", "%s", err_msg(&e));
}

Test(nvml, reset_without_its_program_is_not_found)
{
    fleet("[{model: a100-80}]");
    auto_free char *library = xasprintf("%s/libnvidia-ml.so.1", sim);
    auto_gpu struct gpu *g = NULL;
    const struct nvml_options o = {.library = library, .nvidia_smi = "/nonexistent/nvidia-smi"};
    cr_assert_eq(gpu_nvml_open(&o, &g, NULL), 0);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_eq(g->ops->reset(g, inv.cards[0].uuid, NULL), -ERR_NOT_FOUND);
}

Test(nvml, call_in_flight_is_shown_to_the_watchdog_and_then_not)
{
    fleet("[{model: h100-80}]");
    struct gpu_activity activity = {.call = NULL};
    auto_gpu struct gpu *g = open_sim();
    gpu_activity_of_thread(&activity);
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_expect_eq(inv.n_cards, 1);
    cr_expect_null(atomic_load(&activity.call));
    cr_expect_gt(atomic_load(&activity.since_mono_ms), 0);
    gpu_activity_of_thread(NULL);
}

/* --- an old driver --- */

Test(nvml, driver_with_old_names_and_structs_alone_is_understood)
{
    auto_free char *make = xasprintf("mkdir -p '%s/sys/bus/pci/devices/10000:07:00.0'", dir);
    run(make);
    put("sys/bus/pci/devices/10000:07:00.0/numa_node", "3\n");
    auto_gpu struct gpu *g = open_library("../test/unit/nvml_old.so");
    auto_gpu_inventory struct gpu_inventory inv = read_all(g);
    cr_assert_eq(inv.n_cards, 1);
    const struct gpu_card *c = &inv.cards[0];
    cr_expect_eq(c->numa_node, 3);
    cr_expect(c->healthy, "%s", c->unhealthy_message);
    cr_expect(c->users_unknown, "it has no list of them that we could read");
    cr_expect_eq(c->minor, UINT_MAX);
    cr_expect_str_eq(c->architecture, "unknown");
    cr_expect(c->compute_major == 0 && c->pci_class == 0 && !*c->fabric);
    cr_assert_eq(c->mig.n_profiles, 3);
    cr_expect_str_eq(c->mig.profiles[0].name, "1g.10gb");
    cr_expect_str_eq(c->mig.profiles[1].name, "3g.40gb");
    cr_expect_str_eq(c->mig.profiles[2].name, "1g.10gb+me");
    cr_expect_eq(c->mig.memory_slices, 8);
    auto_err struct err e = {0};
    cr_expect_eq(g->ops->gi_destroy(g, c->uuid, 1, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "nvmlDeviceGetGpuInstanceById"), "%s", err_msg(&e));
    struct telemetry_card measured;
    cr_assert_eq(g->ops->measure(g, c->uuid, TELEMETRY_ALL, &measured, NULL), 0);
    cr_expect_gt(measured.values.of[TELEMETRY_MEMORY_TOTAL], 0);
    cr_expect(isnan(measured.values.of[TELEMETRY_MEMORY_RESERVED]));
    cr_expect(isnan(measured.values.of[TELEMETRY_POWER]));
}
