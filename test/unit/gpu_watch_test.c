/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu_watch.h"
#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_abi.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

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

static struct gpu_watch *watch_by(const struct clock *clk, int beat_ms)
{
    auto_free char *program = xasprintf("%s/cleave-agent", build);
    auto_free char *lib = library();
    const struct gpu_watch_options o = {.program = program,
                                        .library = lib,
                                        .clk = clk,
                                        .beat_ms = beat_ms};
    return gpu_watch_new(&o);
}

static struct gpu_watch *watch(void)
{
    return watch_by(/* clk= */ NULL, /* beat_ms= */ 0);
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
    while (!gpu_watch_take(w, ret, /* e= */ NULL)) {
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

Test(gpu_watch, stays_away_until_the_last_of_several_resets_has_ended)
{
    fleet("[{model: h100-80, count: 2}]");
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    keep(w, 2);
    expect_watched(w, 2);
    gpu_watch_suspend(w);
    gpu_watch_suspend(w);
    cr_expect(!next(w, &ev), "the child has ended");
    gpu_watch_resume(w);
    keep(w, 2);
    cr_expect(!gpu_watch_runs(w), "the other reset still runs");
    gpu_watch_resume(w);
    keep(w, 2);
    expect_watched(w, 2);
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

Test(gpu_watch, a_child_that_hangs_in_the_driver_is_replaced)
{
    enum { BEAT_MS = 60000 };
    auto_clock struct clock *clk = clock_fake_new(0);
    struct gpu_event ev;
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT", "nvmlEventSetWait_v2:1:hang:600", 1), 0);
    struct gpu_watch *w = watch_by(clk, BEAT_MS);
    keep(w, 1);
    expect_watched(w, 1);
    clock_fake_advance(clk, 3 * BEAT_MS);
    keep(w, 1);
    cr_expect(gpu_watch_runs(w), "it may still report");
    clock_fake_advance(clk, 1);
    cr_expect_not(gpu_watch_runs(w));
    cr_assert_eq(unsetenv("CLEAVE_SIM_FAULT"), 0);
    keep(w, 1);
    expect_watched(w, 1);
    simctl("xid --gpu 0 --code 13");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.code, 13, "of the new child");
    cr_expect_null(gpu_watch_free(w));
}

/* The child is taken for silent until its beat is there. */
static void await_beat(struct gpu_watch *w)
{
    while (!gpu_watch_runs(w))
        (void)sched_yield();
}

static bool is_woken(const struct gpu_watch *w)
{
    struct pollfd p = {.fd = gpu_watch_fd(w), .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

Test(gpu_watch, a_child_to_which_nothing_happens_is_kept_and_wakes_nobody)
{
    enum { BEAT_MS = 20 };
    auto_clock struct clock *clk = clock_fake_new(0);
    struct gpu_event ev;
    fleet("[{model: h100-80}]");
    struct gpu_watch *w = watch_by(clk, BEAT_MS);
    keep(w, 1);
    expect_watched(w, 1);
    for (int i = 0; i < 5; i++) {
        clock_fake_advance(clk, 3 * BEAT_MS + 1);
        await_beat(w);
        keep(w, 1);
        cr_expect_not(is_woken(w), "by a beat, or by the report of a new child");
    }
    simctl("xid --gpu 0 --code 13");
    cr_assert(next(w, &ev));
    cr_expect_eq(ev.kind, GPU_EVENT_XID, "nothing was begun anew");
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

/* A driver whose wait ends at once, and that says of the card each time that it cannot be watched.
 */
Test(gpu_watch, wait_that_does_not_wait_is_paced)
{
    fleet("[{model: h100-80}]");
    cr_assert_eq(setenv("CLEAVE_SIM_FAULT",
                        "nvmlDeviceRegisterEvents:0:fail:UNKNOWN,"
                        "nvmlEventSetWait_v2:0:fail:TIMEOUT",
                        1),
                 0);
    struct gpu_watch *w = watch();
    struct gpu_event ev;
    int64_t began = clock_mono_ms(clock_real());
    keep(w, 1);
    for (int i = 0; i < 150; i++)
        cr_assert(next(w, &ev) && ev.kind == GPU_EVENT_UNWATCHED);
    cr_expect_geq(clock_mono_ms(clock_real()) - began, 1000, "150 in less than a second");
    cr_expect_null(gpu_watch_free(w));
}

/* --- A child whose library overwrote what it writes --- */

static struct gpu_watch *watch_of_bytes(const void *bytes, size_t len)
{
    auto_free char *program = xasprintf("%s/child", dir);
    auto_free char *data = xasprintf("%s/data", dir);
    auto_free char *text = xasprintf("#!/bin/sh\nexec cat %s\n", data);
    cr_assert_eq(file_write_atomic(program, text, strlen(text), 0700, NULL), 0);
    cr_assert_eq(file_write_atomic(data, bytes, len, 0600, NULL), 0);
    struct gpu_watch *w = gpu_watch_new(&(struct gpu_watch_options){.program = program});
    keep(w, 1);
    return w;
}

/* All that it hands over, until nobody reads what the child writes. */
static unsigned take_all(struct gpu_watch *w, struct err *e)
{
    unsigned n = 0;
    struct gpu_event ev;
    while (gpu_watch_runs(w)) {
        if (gpu_watch_take(w, &ev, e)) {
            cr_assert_leq((unsigned)ev.kind, (unsigned)GPU_EVENT_OTHER);
            cr_assert(ev.gi_id >= -1 && ev.ci_id >= -1);
            cr_assert(!*ev.uuid || sound_is_name(ev.uuid));
            n++;
            continue;
        }
        struct pollfd p = {.fd = gpu_watch_fd(w), .events = POLLIN};
        if (gpu_watch_runs(w))
            (void)poll(&p, 1, -1);
    }
    return n;
}

Test(gpu_watch, what_makes_no_sense_ends_the_child)
{
    static const struct {
        struct gpu_event ev;
        const char *why;
    } rows[] = {
        {{.kind = (enum gpu_event_kind)4, .gi_id = -1, .ci_id = -1}, "kind 4"},
        {{.kind = (enum gpu_event_kind) - 1, .gi_id = -1, .ci_id = -1}, "kind -1"},
        {{.kind = GPU_EVENT_XID, .gi_id = -2, .ci_id = -1}, "GPU instance -2"},
        {{.kind = GPU_EVENT_XID, .gi_id = 1, .ci_id = INT_MIN}, "compute instance -2147483648"},
        {{.kind = GPU_EVENT_OTHER, .uuid = "../GPU-1"}, "UUID"},
        {{.kind = GPU_EVENT_WATCHED, .uuid = "GPU 1\n"}, "UUID"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct gpu_event list[3] = {{.uuid = "GPU-1"}, rows[i].ev, {.uuid = "GPU-1"}};
        auto_err struct err e = {0};
        struct gpu_watch *w = watch_of_bytes(list, sizeof(list));
        cr_expect_eq(take_all(w, &e), 1, "row %zu", i);
        cr_expect_eq(e.kind, ERR_PROTOCOL);
        cr_expect_not_null(strstr(err_msg(&e), rows[i].why), "%s", err_msg(&e));
        cr_expect_null(gpu_watch_free(w));
    }
}

Test(gpu_watch, bytes_at_random_are_sound_or_end_the_child)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 20; i++) {
        struct gpu_event list[64];
        for (size_t k = 0; k < ARRAY_LEN(list); k++) {
            list[k] = (struct gpu_event){.kind = GPU_EVENT_XID, .uuid = "GPU-1"};
            ((unsigned char *)&list[k])[rng_next(&rng) % sizeof(list[k])] =
                (unsigned char)rng_next(&rng);
        }
        auto_err struct err e = {0};
        /* The last one is not whole. */
        struct gpu_watch *w = watch_of_bytes(list, sizeof(list) - 1);
        (void)take_all(w, &e);
        cr_expect_eq(e.kind, ERR_PROTOCOL);
        cr_expect_null(gpu_watch_free(w));
    }
}
