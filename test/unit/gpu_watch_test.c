/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu_watch.h"
#include "nodeagent/gpu/nvml_abi.h"

/*
 * The agent's program as the process that waits, and the simulated library in it. Each test has a
 * machine of its own.
 */

static char dir[64];
static char build[PATH_MAX];

static void set_path(const char *variable, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(setenv(variable, path, 1), 0);
}

static void make_machine(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);
    cr_assert_gt(n, 0);
    build[n] = '\0';
    for (int i = 0; i < 3; i++)
        *strrchr(build, '/') = '\0';
    (void)snprintf(dir, sizeof(dir), "%s/watch-test-XXXXXX", root);
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

TestSuite(gpu_watch, .init = make_machine, .fini = remove_machine);

static void fleet(const char *gpus)
{
    auto_free char *path = xasprintf("%s/fleet.yaml", dir);
    auto_free char *text = xasprintf("driverVersion: 580.95.05\ngpus: %s\n", gpus);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static void simctl(const char *words)
{
    auto_free char *command = xasprintf("'%s/sim/cleave-simctl' %s > /dev/null", build, words);
    run(command);
}

static char *library(void)
{
    return xasprintf("%s/sim/libnvidia-ml.so.1", build);
}

static struct gpu_watch *watch(void)
{
    auto_free char *program = xasprintf("%s/cleave-agent", build);
    auto_free char *lib = library();
    const struct gpu_watch_options o = {.program = program, .library = lib};
    return gpu_watch_new(&o);
}

static void keep(struct gpu_watch *w, size_t n)
{
    static const char *const uuids[] = {"first", "second", "third"};
    auto_err struct err e = {0};
    cr_assert_eq(gpu_watch_keep(w, uuids, n, &e), 0, "%s", err_msg(&e));
}

/* Waits for the next report; false: the child ended. */
static bool next(struct gpu_watch *w, struct gpu_event *ret)
{
    while (!gpu_watch_take(w, ret)) {
        struct pollfd p = {.fd = gpu_watch_fd(w), .events = POLLIN};
        if (!gpu_watch_runs(w))
            return false;
        (void)poll(&p, 1, -1);
    }
    return true;
}

static void expect_watched(struct gpu_watch *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct gpu_event ev;
        cr_assert(next(w, &ev));
        cr_expect_eq(ev.kind, GPU_EVENT_WATCHED, "%u", i);
        cr_expect_eq(strncmp(ev.uuid, "GPU-", 4), 0);
    }
}

Test(gpu_watch, xid_comes_with_its_card_and_instance)
{
    fleet("[{model: h100-80, count: 2}]");
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    keep(w, 2);
    expect_watched(w, 2);
    simctl("xid --gpu 1 --code 94 --gi 3 --ci 0");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_XID);
    cr_expect_eq(ev.code, 94);
    cr_expect_eq(ev.gi_id, 3);
    cr_expect_eq(ev.ci_id, 0);
    simctl("recovery-action --gpu 0 reset");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_OTHER);
    cr_expect_eq(ev.gi_id, -1);
    cr_expect_null(gpu_watch_free(w));
}

Test(gpu_watch, single_bit_errors_wake_nobody)
{
    fleet("[{model: h100-80}]");
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    keep(w, 1);
    expect_watched(w, 1);
    simctl("ecc --gpu 0 corrected 5");
    simctl("xid --gpu 0 --code 13");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_XID, "the first report is of what came second");
    cr_expect_null(gpu_watch_free(w));
}

Test(gpu_watch, card_without_events_is_named_as_unwatched)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT", "nvmlDeviceRegisterEvents:1:fail:NOT_SUPPORTED", 1), 0);
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    keep(w, 1);
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_UNWATCHED);
    cr_expect_eq(ev.code, NVML_NOT_SUPPORTED);
    cr_expect_eq(strncmp(ev.uuid, "GPU-", 4), 0);
    cr_expect_null(gpu_watch_free(w));
}

/* One card falls off the bus: that is reported, and the other is watched on without anybody's
 * help. */
Test(gpu_watch, lost_card_leaves_the_others_watched)
{
    fleet("[{model: h100-80, count: 2}]");
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    keep(w, 2);
    expect_watched(w, 2);
    simctl("lost --gpu 0 set");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.code, 79);
    cr_expect_eq(strncmp(ev.uuid, "GPU-", 4), 0);
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_UNWATCHED);
    cr_expect_eq(ev.code, NVML_GPU_IS_LOST);
    expect_watched(w, 1);
    simctl("xid --gpu 1 --code 48");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.code, 48);
    keep(w, 1);
    simctl("lost --gpu 0 clear");
    keep(w, 2);
    expect_watched(w, 2);
    cr_expect_null(gpu_watch_free(w));
}

Test(gpu_watch, card_that_came_is_watched_too)
{
    struct gpu_event ev;
    fleet("[{model: h100-80, count: 2}]");
    struct gpu_watch *w = watch();
    keep(w, 1);
    expect_watched(w, 2);
    keep(w, 1);
    simctl("xid --gpu 1 --code 13");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_XID, "nothing was begun anew");
    keep(w, 2);
    expect_watched(w, 2);
    cr_expect_null(gpu_watch_free(w));
}

Test(gpu_watch, no_driver_ends_the_child_and_nothing_else)
{
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    fleet("none of it");
    keep(w, 1);
    cr_expect_not(next(w, &ev));
    fleet("[{model: h100-80}]");
    keep(w, 1);
    expect_watched(w, 1);
    cr_expect_null(gpu_watch_free(w));
}

/* The driver resets no card that a session is open on. */
Test(gpu_watch, reset_of_a_card_is_not_kept_from_by_the_watch)
{
    fleet("[{model: a100-40}]");
    struct gpu_watch *w = watch();
    auto_free char *lib = library();
    auto_free char *smi = xasprintf("%s/sim/nvidia-smi", build);
    const struct nvml_options o = {.library = lib, .nvidia_smi = smi, .watch = w};
    auto_gpu struct gpu *g = NULL;
    auto_gpu_inventory struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    struct gpu_event ev;
    enum gpu_mode_result mode;
    cr_assert_eq(gpu_nvml_open(&o, &g, &e), 0);
    cr_assert_eq(g->ops->read(g, &inv, &e), 0, "%s", err_msg(&e));
    keep(w, 1);
    expect_watched(w, 1);
    cr_assert_eq(g->ops->mode_set(g, inv.cards[0].uuid, GPU_MIG, &mode, &e), 0);
    cr_assert_eq(mode, GPU_MODE_NEEDS_RESET);
    cr_expect_eq(g->ops->reset(g, inv.cards[0].uuid, &e), 0, "%s", err_msg(&e));
    cr_expect_not(next(w, &ev));
    keep(w, 1);
    expect_watched(w, 1);
    cr_expect_null(gpu_watch_free(w));
}
