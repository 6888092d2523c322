/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/offer/shares.h"
#include "nodeagent/slots/cgroup_limits.h"
#include "sim_support.h"

/* Limits of the driver, with the simulated library and a tree of folders that look like cgroups. */

#define MIB ((uint64_t)1 << 20)
#define SET "nvmlDeviceSetMemoryLimits_v1"
#define GET "nvmlDeviceGetMemoryLimits_v1"

static struct gpu *gpu;
static char *root, *kubepods;
static char card[GPU_UUID_BYTES];
static struct shares shares;
static struct driver_limits known;
static char no_ns[] = "ns", no_pod[] = "pod", main_name[] = "main", uid_a[] = "a-1",
            uid_b[] = "b-2";

static void set_up(void)
{
    sim_machine_start();
    root = xasprintf("%s/cgroup", sim_machine_dir());
    kubepods = xasprintf("%s/kubepods.slice", root);
    shares = (struct shares){0};
    known = (struct driver_limits){0};
}

static void tear_down(void)
{
    gpu = gpu_free(gpu);
    shares_done(&shares);
    free(root);
    free(kubepods);
    sim_machine_stop();
}

TestSuite(cgroup_limits, .init = set_up, .fini = tear_down);

static void touch(const char *folder, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", folder, name);
    cr_assert_eq(file_write_atomic(path, "", 0, 0644, NULL), 0, "%s", path);
}

static void cgroup(const char *path)
{
    cr_assert_eq(file_make_dirs(path, 0755, NULL), 0, "%s", path);
    touch(path, "cgroup.controllers");
}

static char *pod_path(const char *in_unit)
{
    return xasprintf("%s/kubepods-pod%s.slice", kubepods, in_unit);
}

static void make_pod(const char *in_unit)
{
    auto_free char *path = pod_path(in_unit);
    cgroup(path);
}

/* Two cards of a driver with these limits. */
static void driver(const char *limits)
{
    auto_free char *fleet = xasprintf("[{model: h100-80, count: 2}]\nmemoryLimits: %s", limits);
    sim_fleet(fleet);
    gpu = sim_open();
    auto_gpu_inventory struct gpu_inventory inv = sim_read(gpu);
    memcpy(card, inv.cards[0].uuid, sizeof(card));
    cgroup(root);
    cgroup(kubepods);
}

static void fault(const char *call, const char *action)
{
    auto_free char *words = xasprintf("fault add --call %s --nth 0 --action %s", call, action);
    sim_control(words);
}

static uint64_t limit_at(const char *path)
{
    struct gpu_limit limit = {.hard_bytes = GPU_NO_LIMIT};
    (void)!gpu->ops->limit_get(gpu, card, path, &limit, NULL);
    return limit.hard_bytes;
}

static uint64_t limit_of(const char *in_unit)
{
    auto_free char *path = pod_path(in_unit);
    return limit_at(path);
}

static struct slot_deps deps(void)
{
    return (struct slot_deps){.gpu = gpu, .cgroup_root = root, .shares = &shares};
}

/* --- Whether there are limits --- */

static void probe(const char *version)
{
    cgroup_limits_probe(gpu, root, card, version, &known);
}

static void expect_lack(const char *why)
{
    probe("1");
    cr_assert(known.known && !known.can, "%s", why);
    cr_expect(strstr(known.lacks, why) && strstr(known.lacks, "as enforcement.memory"), "%s",
              known.lacks);
}

Test(cgroup_limits, a_driver_with_either_back_end_has_limits_and_nothing_is_changed_to_know)
{
    static const char *const backends[] = {"misc", "dmem"};
    for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
        driver(backends[i]);
        touch(kubepods, "dmem.max");
        probe("1");
        cr_expect(known.known && known.can && !known.lacks, "%s", backends[i]);
        cr_expect_eq(limit_at(kubepods), GPU_NO_LIMIT);
        gpu = gpu_free(gpu);
        tear_down();
        set_up();
    }
}

Test(cgroup_limits, a_limit_of_all_pods_together_stays)
{
    driver("misc");
    cr_assert_eq(gpu->ops->limit_set(gpu, card, kubepods, 70000 * MIB, NULL), 0);
    probe("1");
    cr_expect(known.can);
    cr_expect_eq(limit_at(kubepods), 70000 * MIB);
}

Test(cgroup_limits, an_older_driver_has_none)
{
    driver("none");
    expect_lack("the driver on this node has no limits");
}

Test(cgroup_limits, a_driver_that_keeps_no_account_has_none)
{
    driver("off");
    expect_lack("unless they were switched off");
}

Test(cgroup_limits, without_the_kernels_controller_there_are_none)
{
    driver("dmem");
    expect_lack("controller dmem");
}

Test(cgroup_limits, on_a_hybrid_host_there_are_none)
{
    driver("misc");
    auto_free char *path = xasprintf("%s/cgroup.controllers", root);
    cr_assert_eq(unlink(path), 0);
    expect_lack("not of version 2 alone");
}

Test(cgroup_limits, an_agent_that_may_not_set_them_has_none)
{
    driver("misc");
    fault(SET, "fail:NO_PERMISSION");
    expect_lack("does not let the agent");
}

Test(cgroup_limits, what_says_nothing_leaves_what_is_known)
{
    driver("misc");
    fault(GET, "fail:TIMEOUT");
    probe("1");
    cr_expect_not(known.known);
    sim_control("fault clear");
    auto_free char *elsewhere = xasprintf("%s/moved", root);
    cr_assert_eq(rename(kubepods, elsewhere), 0);
    probe("1");
    cr_expect(!known.known && strstr(known.lacks, "--cgroup-root"),
              "the kubelet has made none yet");
    cr_assert_eq(rename(elsewhere, kubepods), 0);
    probe("1");
    cr_expect(known.can);
    fault(GET, "fail:TIMEOUT");
    probe("2");
    cr_expect(known.can);
}

Test(cgroup_limits, a_driver_is_asked_once)
{
    driver("misc");
    probe("1");
    fault(GET, "fail:NOT_FOUND");
    probe("1");
    cr_expect(known.can);
    probe("2");
    cr_expect(!known.can && strcmp(known.driver, "2") == 0);
}

/* --- Setting --- */

static void stands(unsigned number, char *uid, unsigned mib, int level)
{
    struct share s = {.slot = slot_at(SLOT_POOL_SHARE, number),
                      .memory_mib = mib,
                      .memory_level = level,
                      .uid = uid,
                      .container = main_name};
    memcpy(s.card, card, sizeof(s.card));
    shares_put(&shares, &s);
}

static int put(char *uid, unsigned number, unsigned mib, int level, struct err *e)
{
    struct bound_slot g = {.slot = slot_at(SLOT_POOL_SHARE, number),
                           .quota = {mib, 0},
                           .memory_level = level};
    memcpy(g.card, card, sizeof(g.card));
    const struct slot_binding b = {no_ns, no_pod, uid, main_name, &g, 1, .entries = NULL};
    const struct slot_deps d = deps();
    return cgroup_limits_put(&d, &b, e);
}

Test(cgroup_limits, a_pods_limit_is_what_its_containers_have_of_the_card)
{
    auto_err struct err e = {0};
    driver("misc");
    make_pod("a_1");
    make_pod("b_2");
    stands(1, uid_b, 500, API_LEVEL_DRIVER);
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(limit_of("a_1"), 3000 * MIB);
    cr_expect_eq(limit_of("b_2"), GPU_NO_LIMIT);
    stands(0, uid_a, 3000, API_LEVEL_DRIVER);
    cr_assert_eq(put(uid_a, 2, 4000, API_LEVEL_DRIVER, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(limit_of("a_1"), 7000 * MIB);
    cr_assert_eq(put(uid_a, 2, 4000, API_LEVEL_DRIVER, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(limit_of("a_1"), 7000 * MIB, "once more is the same");
}

Test(cgroup_limits, a_share_that_something_else_holds_has_no_limit)
{
    driver("misc");
    make_pod("a_1");
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_LIBRARY, NULL), 0);
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_NONE, NULL), 0);
    cr_expect_eq(limit_of("a_1"), GPU_NO_LIMIT);
}

Test(cgroup_limits, without_the_pods_cgroup_the_share_waits)
{
    auto_err struct err e = {0};
    driver("misc");
    cr_expect_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, &e), -ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), "has made no cgroup"), "%s", err_msg(&e));
}

Test(cgroup_limits, without_a_root_of_cgroups_the_share_is_not_made)
{
    auto_err struct err e = {0};
    driver("misc");
    free(TAKE(root));
    cr_expect_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, &e), -ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), "--cgroup-root"), "%s", err_msg(&e));
}

Test(cgroup_limits, each_refusal_of_the_driver_is_an_error_that_names_the_call)
{
    static const struct {
        const char *code;
        enum err_kind kind;
    } cases[] = {
        {"INVALID_ARGUMENT", ERR_INVALID},
        {"NOT_SUPPORTED", ERR_INVALID},
        {"FUNCTION_NOT_FOUND", ERR_INVALID},
        {"NO_PERMISSION", ERR_FORBIDDEN},
        {"NOT_FOUND", ERR_NOT_FOUND},
        {"INSUFFICIENT_RESOURCES", ERR_CONFLICT},
        {"TIMEOUT", ERR_TIMEOUT},
        {"GPU_IS_LOST", ERR_UNAVAILABLE},
        {"OPERATING_SYSTEM", ERR_UNAVAILABLE},
        {"MEMORY", ERR_UNAVAILABLE},
        {"UNKNOWN", ERR_UNAVAILABLE},
        {"IN_USE", ERR_UNAVAILABLE},
    };
    driver("misc");
    make_pod("a_1");
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        auto_err struct err e = {0};
        const char *call = i % 2 ? GET : SET;
        auto_free char *action = xasprintf("fail:%s", cases[i / 2].code);
        fault(call, action);
        cr_expect_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, &e), -(int)cases[i / 2].kind, "%s of %s",
                     cases[i / 2].code, call);
        cr_expect(strstr(err_msg(&e), call), "%s", err_msg(&e));
        sim_control("fault clear");
    }
    cr_expect_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), 0);
}

/* A library that accepts whatever is set, and shows this. */
static struct gpu_limit shown;

static int accept(struct gpu *g, const char *uuid, const char *path, uint64_t hard_bytes,
                  struct err *e)
{
    (void)g, (void)uuid, (void)path, (void)hard_bytes, (void)e;
    return 0;
}

static int show(struct gpu *g, const char *uuid, const char *path, struct gpu_limit *ret,
                struct err *e)
{
    (void)g, (void)uuid, (void)path, (void)e;
    *ret = shown;
    return 0;
}

Test(cgroup_limits, a_limit_counts_only_where_it_shows)
{
    static const struct {
        uint64_t bytes;
        bool holds;
    } cases[] =
        {{3000 * MIB, true},        {3000 * MIB - 1, true}, {2900 * MIB, true}, {1, true},
         {3300 * MIB, true},        {4000 * MIB, false},    {0, false},         {1ULL << 63, false},
         {GPU_NO_LIMIT - 1, false}, {GPU_NO_LIMIT, false}};
    static const struct gpu_ops ops = {.limit_set = accept, .limit_get = show};
    struct gpu liar = {&ops};
    driver("misc");
    make_pod("a_1");
    gpu = gpu_free(gpu);
    gpu = &liar;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_err struct err e = {0};
        shown = (struct gpu_limit){.hard_bytes = cases[i].bytes};
        int rc = put(uid_a, 0, 3000, API_LEVEL_DRIVER, &e);
        cr_expect_eq(rc, cases[i].holds ? 0 : -ERR_UNAVAILABLE, "%zu", i);
        cr_expect(rc == 0 || strstr(err_msg(&e), "does not show it"), "%s", err_msg(&e));
    }
    gpu = NULL;
}

Test(cgroup_limits, mig_on_the_card_is_refused)
{
    driver("misc");
    make_pod("a_1");
    enum gpu_mode_result result;
    cr_assert_eq(gpu->ops->mode_set(gpu, card, GPU_MIG, &result, NULL), 0);
    cr_expect_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), -ERR_INVALID);
}

/* --- Clearing --- */

static int drop(char *uid, unsigned number, int level, struct err *e)
{
    struct slot_record r = {.slot = slot_at(SLOT_POOL_SHARE, number),
                            .uid = uid,
                            .memory_level = level};
    memcpy(r.card, card, sizeof(r.card));
    const struct slot_deps d = deps();
    return cgroup_limits_drop(&d, &r, e);
}

Test(cgroup_limits, a_pods_limit_shrinks_with_each_share_and_goes_with_the_last)
{
    driver("misc");
    make_pod("a_1");
    stands(0, uid_a, 3000, API_LEVEL_DRIVER);
    stands(2, uid_a, 4000, API_LEVEL_DRIVER);
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), 0);
    cr_assert_eq(limit_of("a_1"), 7000 * MIB);
    cr_assert_eq(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0);
    cr_expect_eq(limit_of("a_1"), 4000 * MIB);
    shares_drop(&shares, slot_at(SLOT_POOL_SHARE, 0));
    cr_assert_eq(drop(uid_a, 2, API_LEVEL_DRIVER, NULL), 0);
    cr_expect_eq(limit_of("a_1"), GPU_NO_LIMIT);
    cr_assert_eq(drop(uid_a, 2, API_LEVEL_DRIVER, NULL), 0, "once more is the same");
}

Test(cgroup_limits, where_nothing_can_be_left_nothing_is_cleared)
{
    driver("misc");
    cr_expect_eq(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0, "the cgroup is gone");
    make_pod("a_1");
    cr_expect_eq(drop(NULL, 0, API_LEVEL_DRIVER, NULL), 0, "there was no record");
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), 0);
    cr_expect_eq(drop(uid_a, 0, API_LEVEL_LIBRARY, NULL), 0);
    cr_expect_eq(limit_of("a_1"), 3000 * MIB, "it was not the driver that held that share");
    fault(SET, "fail:NOT_FOUND");
    cr_expect_eq(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0, "the cgroup went meanwhile");
    sim_control("fault clear");
    fault(SET, "fail:FUNCTION_NOT_FOUND");
    cr_expect_eq(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0, "an older driver was installed");
    sim_control("fault clear");
    (void)snprintf(card, sizeof(card), "GPU-gone");
    cr_expect_eq(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0, "the card was taken out");
}

Test(cgroup_limits, a_limit_that_may_still_stand_is_an_error)
{
    static const char *const codes[] = {"UNKNOWN", "TIMEOUT", "NO_PERMISSION", "INVALID_ARGUMENT"};
    driver("misc");
    make_pod("a_1");
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        auto_free char *action = xasprintf("fail:%s", codes[i]);
        fault(SET, action);
        cr_expect_lt(drop(uid_a, 0, API_LEVEL_DRIVER, NULL), 0, "%s", codes[i]);
        sim_control("fault clear");
    }
}

/* --- What an earlier agent left --- */

static void sweep(void)
{
    const struct slot_deps d = deps();
    cgroup_limits_sweep(&d, card);
}

static void set_limit(const char *in_unit, uint64_t bytes)
{
    auto_free char *path = pod_path(in_unit);
    make_pod(in_unit);
    cr_assert_eq(gpu->ops->limit_set(gpu, card, path, bytes, NULL), 0);
}

Test(cgroup_limits, a_limit_without_a_share_is_cleared_and_the_others_stay)
{
    driver("misc");
    set_limit("a_1", 3000 * MIB);
    set_limit("b_2", 5000 * MIB);
    set_limit("c_3", 3000 * MIB + 1);
    stands(0, uid_b, 5000, API_LEVEL_DRIVER);
    sweep();
    cr_expect_eq(limit_of("a_1"), GPU_NO_LIMIT);
    cr_expect_eq(limit_of("b_2"), 5000 * MIB);
    cr_expect_eq(limit_of("c_3"), 3000 * MIB + 1, "this agent sets none such");
}

Test(cgroup_limits, a_limit_from_further_up_is_not_taken_for_a_pods)
{
    driver("misc");
    make_pod("a_1");
    cr_assert_eq(gpu->ops->limit_set(gpu, card, kubepods, 70000 * MIB, NULL), 0);
    cr_assert_eq(limit_of("a_1"), 70000 * MIB);
    sweep();
    auto_free char *path = pod_path("a_1");
    cr_assert_eq(gpu->ops->limit_set(gpu, card, kubepods, GPU_NO_LIMIT, NULL), 0);
    cr_expect_eq(limit_of("a_1"), GPU_NO_LIMIT);
    cr_assert_eq(gpu->ops->limit_set(gpu, card, kubepods, 60000 * MIB, NULL), 0);
    cr_expect_eq(limit_at(path), 60000 * MIB, "its own was not set to be none");
}

Test(cgroup_limits, while_some_share_is_not_known_no_limit_is_cleared)
{
    driver("misc");
    set_limit("a_1", 3000 * MIB);
    device_slots_put(&shares.unknown, slot_at(SLOT_POOL_SHARE, 4));
    sweep();
    cr_expect_eq(limit_of("a_1"), 3000 * MIB);
}

/* --- What others took away --- */

static bool is_lost(unsigned number)
{
    struct device_slots lost = {0};
    const struct slot_deps d = deps();
    cgroup_limits_lost(&d, card, &lost);
    return device_slots_has(&lost, slot_at(SLOT_POOL_SHARE, number));
}

Test(cgroup_limits, a_limit_that_is_gone_or_another_is_noticed)
{
    driver("misc");
    make_pod("a_1");
    stands(0, uid_a, 3000, API_LEVEL_DRIVER);
    stands(1, uid_b, 3000, API_LEVEL_LIBRARY);
    make_pod("b_2");
    cr_expect(is_lost(0) && !is_lost(1));
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), 0);
    cr_expect_not(is_lost(0));
    set_limit("a_1", 80000 * MIB);
    cr_expect(is_lost(0));
    set_limit("a_1", 2000 * MIB);
    cr_expect_not(is_lost(0), "it holds");
    auto_free char *path = pod_path("a_1");
    auto_free char *elsewhere = xasprintf("%s/moved", root);
    cr_assert_eq(rename(path, elsewhere), 0);
    cr_expect_not(is_lost(0), "without the cgroup nothing runs");
    make_pod("a_1");
    cr_expect(is_lost(0), "another cgroup of the same name");
    cr_assert_eq(gpu->ops->limit_set(gpu, card, kubepods, 70000 * MIB, NULL), 0);
    cr_expect(is_lost(0), "that of all pods is not the pod's");
}

Test(cgroup_limits, a_cgroup_without_the_kernels_controller_has_lost_its_limit)
{
    driver("misc");
    make_pod("a_1");
    stands(0, uid_a, 3000, API_LEVEL_DRIVER);
    cr_assert_eq(put(uid_a, 0, 3000, API_LEVEL_DRIVER, NULL), 0);
    fault(GET, "fail:NOT_FOUND");
    cr_expect(is_lost(0));
}

Test(cgroup_limits, without_an_answer_nothing_is_lost)
{
    driver("misc");
    make_pod("a_1");
    stands(0, uid_a, 3000, API_LEVEL_DRIVER);
    fault(GET, "fail:TIMEOUT");
    cr_expect_not(is_lost(0));
}
