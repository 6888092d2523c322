/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/telemetry.h"
#include "test/unit/sim_support.h"

/* What MetaX's back end measures of simulated cards. */

TestSuite(mxsml_telemetry, .init = sim_machine_start, .fini = sim_machine_stop);

#define OF(card, name) ((card)->values.of[TELEMETRY_##name])

static struct gpu *gpu;
static struct gpu_inventory inv;

static void start(unsigned count)
{
    auto_free char *fleet = xasprintf("[{model: c500, count: %u}]", count);
    sim_fleet(fleet);
    gpu = sim_open_metax();
    inv = sim_read(gpu);
}

static void stop(void)
{
    gpu_inventory_done(&inv);
    gpu = gpu_free(gpu);
}

static struct telemetry_card measure(unsigned index)
{
    struct telemetry_card card;
    auto_err struct err e = {0};
    cr_assert_eq(gpu->ops->measure(gpu, inv.cards[index].uuid, TELEMETRY_ALL, &card, &e), 0, "%s",
                 err_msg(&e));
    cr_assert_str_eq(card.uuid, inv.cards[index].uuid);
    return card;
}

static void expect_refused(const char *uuid, enum err_kind kind, const char *said)
{
    struct telemetry_card card;
    auto_err struct err e = {0};
    cr_expect_eq(gpu->ops->measure(gpu, uuid, TELEMETRY_ALL, &card, &e), -(int)kind, "%s", said);
    cr_expect(strstr(err_msg(&e), said), "%s: %s", said, err_msg(&e));
}

Test(mxsml_telemetry, a_card_measures_itself)
{
    start(2);
    sim_control("attach --gpu metax:1 --pid 4711 --mem 1024");
    const struct telemetry_card idle = measure(0);
    const struct telemetry_card busy = measure(1);
    cr_expect_float_eq(OF(&idle, TEMPERATURE), 37.25, 1e-9);
    cr_expect_eq(OF(&idle, UTILIZATION), 0);
    cr_expect_eq(OF(&busy, UTILIZATION), 87);
    cr_expect_gt(OF(&busy, POWER), OF(&idle, POWER));
    cr_expect_lt(OF(&busy, POWER), OF(&busy, POWER_LIMIT));
    cr_expect_eq(OF(&busy, MEMORY_USED) - OF(&idle, MEMORY_USED), 1024.0 * 1048576);
    cr_expect(isnan(OF(&idle, SM_CLOCK)) && isnan(OF(&idle, SM_ACTIVE)), "not reported");
    cr_expect_eq(idle.n_processes, 0);
    cr_assert_eq(busy.n_processes, 1);
    cr_expect_eq(busy.processes[0].pid, 4711);
    cr_expect_eq(busy.processes[0].gi_id, -1);
    cr_expect_eq(busy.processes[0].memory_bytes, 1024.0 * 1048576);
    stop();
}

Test(mxsml_telemetry, errors_are_added_up)
{
    start(1);
    sim_control("ecc --gpu metax:0 sram-ce 2");
    sim_control("ecc --gpu metax:0 dram-ce 3");
    sim_control("ecc --gpu metax:0 dram-ue 1");
    const struct telemetry_card card = measure(0);
    cr_expect_eq(OF(&card, ECC_CORRECTED), 5);
    cr_expect_eq(OF(&card, ECC_UNCORRECTED), 1);
    stop();
}

Test(mxsml_telemetry, a_process_is_in_its_slice)
{
    unsigned id = 0;
    enum gpu_mode_result result;
    const struct sgpu_want want = {"a", {4096, 20}};
    start(1);
    auto_err struct err e = {0};
    cr_assert_eq(gpu->ops->mode_set(gpu, inv.cards[0].uuid, GPU_SGPU, &result, &e), 0, "%s",
                 err_msg(&e));
    cr_assert_eq(gpu->ops->slice_create(gpu, inv.cards[0].uuid, &want, &id, &e), 0, "%s",
                 err_msg(&e));
    auto_free char *attach = xasprintf("attach --gpu metax:0 --slice %u --pid 4711 --mem 512", id);
    sim_control(attach);
    const struct telemetry_card card = measure(0);
    cr_assert_eq(card.n_processes, 1);
    cr_expect_eq(card.processes[0].gi_id, (int)id);
    stop();
}

Test(mxsml_telemetry, a_call_that_fails_costs_its_value_only)
{
    static const struct {
        const char *call;
        enum telemetry_value value;
    } rows[] = {
        {"mxSmlGetTemperatureInfo", TELEMETRY_TEMPERATURE},
        {"mxSmlGetBoardPowerInfo", TELEMETRY_POWER},
        {"mxSmlGetBoardPowerLimit", TELEMETRY_POWER_LIMIT},
        {"mxSmlGetDeviceIpUsage", TELEMETRY_UTILIZATION},
        {"mxSmlGetMemoryInfo", TELEMETRY_MEMORY_USED},
        {"mxSmlGetTotalEccErrors", TELEMETRY_ECC_CORRECTED},
    };
    start(1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *fault =
            xasprintf("fault add --call %s --nth 0 --action fail:OperationNotSupport",
                      rows[i].call);
        sim_control(fault);
        const struct telemetry_card card = measure(0);
        for (size_t k = 0; k < ARRAY_LEN(rows); k++)
            cr_expect_eq(isnan(card.values.of[rows[k].value]) != 0, i == k, "%s", rows[k].call);
        sim_control("fault clear");
    }
    stop();
}

Test(mxsml_telemetry, a_card_that_does_not_answer_is_an_error)
{
    start(2);
    sim_control("fault add --call mxSmlGetDeviceInfo --nth 1 --action fail:InvalidDeviceId");
    expect_refused(inv.cards[0].uuid, ERR_UNAVAILABLE, "mxSmlGetDeviceInfo");
    (void)measure(1);
    (void)measure(0);
    expect_refused("GPU-none", ERR_NOT_FOUND, "no card GPU-none");
    stop();
}

struct hanging {
    struct gpu_activity activity;
};

static void *measure_in_thread(void *arg)
{
    struct hanging *h = arg;
    gpu_activity_of_thread(&h->activity);
    (void)measure(0);
    gpu_activity_of_thread(NULL);
    return NULL;
}

static bool is_in(const struct hanging *h, const char *call)
{
    const char *now = atomic_load(&h->activity.call);
    return now && strcmp(now, call) == 0;
}

Test(mxsml_telemetry, a_measure_that_hangs_keeps_nobody_waiting)
{
    struct hanging h = {.activity = {.call = NULL}};
    pthread_t thread;
    start(2);
    sim_control("fault add --call mxSmlGetBoardPowerLimit --gpu metax:0 --nth 1 --action hang:3");
    cr_assert_eq(pthread_create(&thread, NULL, measure_in_thread, &h), 0);
    while (!is_in(&h, "mxSmlGetBoardPowerLimit"))
        continue;
    expect_refused(inv.cards[0].uuid, ERR_UNAVAILABLE,
                   "is measured by another thread: mxSmlGetBoardPowerLimit has not returned");
    (void)measure(1);
    auto_gpu_card struct gpu_card card = {0};
    cr_expect_eq(gpu->ops->read_card(gpu, inv.cards[0].uuid, &card, NULL), 0);
    cr_expect(is_in(&h, "mxSmlGetBoardPowerLimit"), "all that while it hung");
    (void)pthread_join(thread, NULL);
    (void)measure(0);
    stop();
}
