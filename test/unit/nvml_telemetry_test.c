/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/telemetry.h"
#include "test/unit/sim_support.h"

/* What NVIDIA's back end measures of simulated cards. */

TestSuite(nvml_telemetry, .init = sim_machine_start, .fini = sim_machine_stop);

#define OF(card, name) ((card)->values.of[TELEMETRY_##name])

/* A machine whose cards were read. */
struct machine {
    struct gpu *gpu;
    struct gpu_inventory inv;
};

static struct machine start(const char *gpus)
{
    struct machine m;
    sim_fleet(gpus);
    m.gpu = sim_open();
    m.inv = sim_read(m.gpu);
    return m;
}

static void stop(struct machine *m)
{
    gpu_inventory_done(&m->inv);
    (void)gpu_free(m->gpu);
}
AUTO_DEFINE(machine, struct machine, stop)
#define auto_machine AUTO(machine)

static void read_again(struct machine *m)
{
    gpu_inventory_done(&m->inv);
    m->inv = sim_read(m->gpu);
}

static const char *uuid_of(const struct machine *m, unsigned index)
{
    return m->inv.cards[index].uuid;
}

static struct telemetry_card measure_of(const struct machine *m, unsigned index, uint64_t wanted)
{
    struct telemetry_card card;
    auto_err struct err e = {0};
    cr_assert_eq(m->gpu->ops->measure(m->gpu, uuid_of(m, index), wanted, &card, &e), 0, "%s",
                 err_msg(&e));
    cr_assert_str_eq(card.uuid, uuid_of(m, index));
    return card;
}

static struct telemetry_card measure(const struct machine *m, unsigned index)
{
    return measure_of(m, index, TELEMETRY_ALL);
}

/* Measures until the counters of the hardware have a mean: two samples are 100 ms apart. */
static struct telemetry_card measure_means(const struct machine *m, unsigned index)
{
    struct telemetry_card card;
    do
        card = measure(m, index);
    while (isnan(OF(&card, SM_ACTIVE)));
    return card;
}

static void expect_refused(const struct machine *m, const char *uuid, enum err_kind kind,
                           const char *said)
{
    struct telemetry_card card;
    auto_err struct err e = {0};
    cr_expect_eq(m->gpu->ops->measure(m->gpu, uuid, TELEMETRY_ALL, &card, &e), -(int)kind, "%s",
                 said);
    cr_expect(strstr(err_msg(&e), said), "%s: %s", said, err_msg(&e));
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static const struct telemetry_part *part_of(const struct telemetry_card *card, unsigned gi_id)
{
    for (unsigned i = 0; i < card->n_parts; i++)
        if (card->parts[i].gi_id == gi_id)
            return &card->parts[i];
    cr_assert_fail("no part %u", gi_id);
    return NULL;
}

/* The same for a part, whose samples are others. */
static struct telemetry_card measure_part_means(const struct machine *m, unsigned index,
                                                unsigned gi_id)
{
    struct telemetry_card card;
    do
        card = measure(m, index);
    while (isnan(OF(part_of(&card, gi_id), SM_ACTIVE)));
    return card;
}

/* --- a card --- */

Test(nvml_telemetry, a_card_measures_itself)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    const struct telemetry_card card = measure(&m, 0);
    cr_expect_eq(OF(&card, SM_CLOCK), 210);
    cr_expect_eq(OF(&card, MEMORY_CLOCK), 2619);
    cr_expect_eq(OF(&card, TEMPERATURE), 34);
    cr_expect_eq(OF(&card, MEMORY_TEMPERATURE), 40);
    cr_expect(near(OF(&card, POWER), 70) && near(OF(&card, POWER_LIMIT), 700));
    cr_expect_gt(OF(&card, ENERGY), 0);
    cr_expect_eq(OF(&card, PSTATE), 0);
    cr_expect_eq(OF(&card, CLOCK_EVENT_REASONS), 1, "idle");
    cr_expect_eq(OF(&card, UTILIZATION), 0);
    cr_expect_eq(OF(&card, DECODER_UTILIZATION), 0);
    cr_expect_eq(OF(&card, MEMORY_USED), 0);
    cr_expect_eq(OF(&card, MEMORY_TOTAL), OF(&card, MEMORY_FREE) + OF(&card, MEMORY_RESERVED));
    cr_expect_eq(OF(&card, POWER_VIOLATION), 0);
    cr_expect_eq(OF(&card, REMAP_FAILED), 0);
    cr_expect_eq(card.n_parts, 0);
    cr_expect_eq(card.n_processes, 0);
}

Test(nvml_telemetry, what_a_card_does_not_report_is_no_number)
{
    auto_machine struct machine m = start("[{model: h100-80}, {model: t4}]");
    const struct telemetry_card hopper = measure(&m, 0);
    const struct telemetry_card turing = measure(&m, 1);
    cr_expect(isnan(OF(&hopper, FAN_SPEED)), "a passive board");
    cr_expect(isnan(OF(&hopper, RETIRED_PENDING)), "it remaps rows");
    cr_expect(isnan(OF(&hopper, SM_ACTIVE)), "a mean needs a measure before");
    cr_expect_eq(OF(&turing, RETIRED_PENDING), 0);
    cr_expect(isnan(OF(&turing, REMAP_PENDING)));
    cr_expect(isnan(OF(&turing, NVLINK_BYTES)), "no link");
}

Test(nvml_telemetry, counters_of_errors_are_the_cards)
{
    auto_machine struct machine m = start("[{model: a100-80}]");
    sim_control("ecc --gpu 0 corrected 7");
    sim_control("ecc --gpu 0 uncorrected 2");
    sim_control("remap --gpu 0 --corrected 3 --pending 1");
    const struct telemetry_card card = measure(&m, 0);
    cr_expect_eq(OF(&card, ECC_CORRECTED), 7);
    cr_expect_eq(OF(&card, ECC_UNCORRECTED_TOTAL), 2);
    cr_expect_eq(OF(&card, REMAPPED_CORRECTABLE), 3);
    cr_expect_eq(OF(&card, REMAP_PENDING), 1);
}

Test(nvml_telemetry, errors_of_nvlinks_are_those_of_all_links)
{
    auto_machine struct machine m = start("[{model: h100-80}, {model: t4}]");
    const struct telemetry_card before = measure(&m, 0);
    sim_control("nvlink --gpu 0 --replays 3 --recoveries 1 --crc-flits 7 --crc-data 2");
    sim_control("nvlink --gpu 0 --replays 2");
    const struct telemetry_card card = measure(&m, 0);
    const struct telemetry_card unlinked = measure(&m, 1);
    cr_expect_eq(OF(&before, NVLINK_REPLAYS), 0);
    cr_expect_eq(OF(&card, NVLINK_REPLAYS), 5);
    cr_expect_eq(OF(&card, NVLINK_RECOVERIES), 1);
    cr_expect_eq(OF(&card, NVLINK_CRC_FLIT_ERRORS), 7);
    cr_expect_eq(OF(&card, NVLINK_CRC_DATA_ERRORS), 2);
    cr_expect(isnan(OF(&unlinked, NVLINK_REPLAYS)));
}

Test(nvml_telemetry, values_follow_the_work)
{
    auto_machine struct machine m = start("[{model: h100-80, count: 2}]");
    sim_control("attach --gpu 0 --pid 4711 --mem 1024 --load 50");
    const struct telemetry_card before = measure(&m, 0);
    const struct telemetry_card card = measure_means(&m, 0);
    const struct telemetry_card idle = measure_means(&m, 1);
    cr_expect_eq(OF(&card, UTILIZATION), 50);
    cr_expect(near(OF(&card, POWER), 70 + 315), "%g", OF(&card, POWER));
    cr_expect_eq(OF(&card, TEMPERATURE), 34 + 18);
    cr_expect_eq(OF(&card, CLOCK_EVENT_REASONS), 0);
    cr_expect_gt(OF(&card, ENERGY), OF(&before, ENERGY));
    cr_expect_gt(OF(&card, NVLINK_BYTES), OF(&before, NVLINK_BYTES));
    cr_expect_float_eq(OF(&card, GRAPHICS_ACTIVE), 0.5, 0.01, "%g", OF(&card, GRAPHICS_ACTIVE));
    cr_expect_float_eq(OF(&card, SM_ACTIVE), 0.45, 0.01);
    cr_expect_eq(OF(&card, FP64_ACTIVE), 0);
    cr_expect_float_eq(OF(&card, PCIE_RX_BYTES), 1000.0 * 1048576, 2e7);
    cr_expect_eq(OF(&idle, SM_ACTIVE), 0);
}

Test(nvml_telemetry, clocks_rise_with_work_and_are_held_down_where_it_takes_all_power)
{
    auto_machine struct machine m = start("[{model: h100-80}, {model: t4}]");
    const struct telemetry_card idle = measure(&m, 1);
    sim_control("attach --gpu 0 --pid 4711 --mem 1024 --load 50");
    sim_control("attach --gpu 1 --pid 4712 --mem 1024 --load 50");
    const struct telemetry_card half = measure(&m, 0);
    const struct telemetry_card busy = measure(&m, 1);
    sim_control("attach --gpu 0 --pid 4713 --mem 1024 --load 50");
    const struct telemetry_card full = measure(&m, 0);
    cr_expect(OF(&idle, MEMORY_CLOCK) == 405 && OF(&idle, PSTATE) == 8);
    cr_expect(OF(&busy, MEMORY_CLOCK) == 5001 && OF(&busy, PSTATE) == 0);
    cr_expect(OF(&half, SM_CLOCK) == 1980 && OF(&half, POWER_VIOLATION) == 0);
    cr_expect_eq(OF(&full, SM_CLOCK), 1770);
    cr_expect_eq(OF(&full, CLOCK_EVENT_REASONS), 4);
    sim_control("detach --pid 4713");
    const struct telemetry_card after = measure(&m, 0);
    const struct telemetry_card later = measure(&m, 0);
    cr_expect_gt(OF(&after, POWER_VIOLATION), OF(&full, POWER_VIOLATION));
    cr_expect_eq(OF(&later, POWER_VIOLATION), OF(&after, POWER_VIOLATION));
    cr_expect_eq(OF(&later, THERMAL_VIOLATION), 0);
}

Test(nvml_telemetry, a_card_that_is_too_hot_is_slow_while_it_works)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    sim_control("attach --gpu 0 --pid 4711 --mem 1024 --load 50");
    sim_control("temperature --gpu 0 80");
    const struct telemetry_card before = measure(&m, 0);
    const struct telemetry_card hot = measure(&m, 0);
    cr_expect_eq(OF(&hot, TEMPERATURE), 98);
    cr_expect_eq(OF(&hot, SM_CLOCK), 990);
    cr_expect_eq(OF(&hot, CLOCK_EVENT_REASONS), 0x20);
    cr_expect_gt(OF(&hot, THERMAL_VIOLATION), OF(&before, THERMAL_VIOLATION));
    sim_control("temperature --gpu 0 30");
    const struct telemetry_card cool = measure(&m, 0);
    cr_expect_eq(OF(&cool, SM_CLOCK), 1980);
    cr_expect(OF(&cool, THERMAL_VIOLATION) > 0 && OF(&cool, POWER_VIOLATION) == 0);
}

Test(nvml_telemetry, an_older_card_has_no_means)
{
    auto_machine struct machine m = start("[{model: a100-40}, {model: h100-80}]");
    (void)measure(&m, 0);
    (void)measure_means(&m, 1);
    const struct telemetry_card card = measure(&m, 0);
    cr_expect(isnan(OF(&card, SM_ACTIVE)));
    cr_expect_eq(OF(&card, UTILIZATION), 0);
}

Test(nvml_telemetry, processes_have_memory_and_a_part_of_the_time)
{
    auto_machine struct machine m = start("[{model: h100-80, count: 2}]");
    sim_control("attach --gpu 0 --pid 4711 --mem 1024 --load 30");
    sim_control("attach --gpu 0 --pid 4712 --mem 512 --graphics");
    sim_control("attach --gpu 1 --pid 4713 --mem 256");
    const struct telemetry_card card = measure(&m, 0);
    cr_assert_eq(card.n_processes, 2);
    cr_expect_eq(card.processes[0].pid, 4711);
    cr_expect_eq(card.processes[0].gi_id, -1);
    cr_expect_eq(card.processes[0].memory_bytes, 1024.0 * 1048576);
    cr_expect_eq(card.processes[0].utilization, 30);
    cr_expect_eq(card.processes[1].pid, 4712);
    cr_expect_eq(card.processes[1].utilization, 0);
}

Test(nvml_telemetry, a_process_in_both_lists_is_one)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    sim_control("attach --gpu 0 --pid 4711 --mem 1024");
    sim_control("attach --gpu 0 --pid 4711 --mem 1024 --graphics");
    const struct telemetry_card card = measure(&m, 0);
    cr_assert_eq(card.n_processes, 1);
    cr_expect_eq(card.processes[0].memory_bytes, 1024.0 * 1048576);
}

/* --- parts --- */

Test(nvml_telemetry, parts_have_their_memory_and_means)
{
    auto_machine struct machine m = start("[{model: h100-80, mig: true}]");
    sim_cut_part(m.gpu, &m.inv.cards[0], "3g.40gb", 0, 3);
    sim_cut_part(m.gpu, &m.inv.cards[0], "3g.40gb", 4, 3);
    read_again(&m);
    const struct mig_state *state = &m.inv.cards[0].state;
    auto_free char *attach =
        xasprintf("attach --gpu 0 --gi %u --ci 0 --pid 4711 --mem 2048 --load 80",
                  state->items[1].gi_id);
    sim_control(attach);
    (void)measure(&m, 0);
    const struct telemetry_card card = measure_means(&m, 0);
    const struct telemetry_card first = measure_part_means(&m, 0, state->items[0].gi_id);
    const struct telemetry_card second = measure_part_means(&m, 0, state->items[1].gi_id);
    cr_assert_eq(card.n_parts, 2);
    const struct telemetry_part *idle = part_of(&first, state->items[0].gi_id);
    const struct telemetry_part *busy = part_of(&second, state->items[1].gi_id);
    cr_expect_eq(OF(busy, MEMORY_USED), 2048.0 * 1048576);
    cr_expect_eq(OF(idle, MEMORY_USED), 0);
    cr_expect_float_eq(OF(busy, GRAPHICS_ACTIVE), 0.8, 0.01);
    cr_expect_eq(OF(idle, GRAPHICS_ACTIVE), 0);
    cr_expect_float_eq(OF(&card, GRAPHICS_ACTIVE), 0.4, 0.01, "half of the card");
    cr_expect(isnan(OF(&card, UTILIZATION)), "not with MIG on");
    cr_expect(isnan(OF(busy, POWER)), "the whole card's only");
    cr_assert_eq(card.n_processes, 1);
    cr_expect_eq(card.processes[0].gi_id, (int)state->items[1].gi_id);
    cr_expect(isnan(card.processes[0].utilization));
}

/* The first one gets the id of the one that went. */
Test(nvml_telemetry, a_new_part_has_no_means_of_the_one_before)
{
    auto_machine struct machine m = start("[{model: h100-80, mig: true}]");
    sim_cut_part(m.gpu, &m.inv.cards[0], "3g.40gb", 0, 3);
    sim_cut_part(m.gpu, &m.inv.cards[0], "3g.40gb", 4, 3);
    read_again(&m);
    const unsigned gone = m.inv.cards[0].state.items[0].gi_id;
    (void)measure_means(&m, 0);
    cr_assert_eq(m.gpu->ops->ci_destroy(m.gpu, uuid_of(&m, 0), gone, 0, NULL), 0);
    cr_assert_eq(m.gpu->ops->gi_destroy(m.gpu, uuid_of(&m, 0), gone, NULL), 0);
    struct telemetry_card card = measure_means(&m, 0);
    cr_expect_eq(card.n_parts, 1);
    read_again(&m);
    sim_cut_part(m.gpu, &m.inv.cards[0], "3g.40gb", 0, 3);
    card = measure(&m, 0);
    cr_assert_eq(card.n_parts, 2);
    cr_expect(isnan(OF(part_of(&card, gone), SM_ACTIVE)));
    card = measure_part_means(&m, 0, gone);
    cr_expect_eq(OF(part_of(&card, gone), SM_ACTIVE), 0);
}

/* --- calls that fail --- */

/* The driver samples PCIe for 20 ms in the call. A call for it would lose the card here. */
Test(nvml_telemetry, a_call_for_what_is_not_wanted_is_not_made)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    sim_control("fault add --call nvmlDeviceGetPcieThroughput --nth 0 --action fail:GPU_IS_LOST");
    const struct telemetry_card card = measure_of(&m, 0, TELEMETRY_BIT(TELEMETRY_POWER));
    cr_expect(near(OF(&card, POWER), 70));
    cr_expect(isnan(OF(&card, PCIE_TX)) && isnan(OF(&card, PCIE_RX)));
    expect_refused(&m, uuid_of(&m, 0), ERR_UNAVAILABLE, "nvmlDeviceGetPcieThroughput");
}

Test(nvml_telemetry, a_call_that_fails_costs_its_value_only)
{
    static const struct {
        const char *call, *code;
        enum telemetry_value value;
    } rows[] = {
        {"nvmlDeviceGetFieldValues", "NOT_SUPPORTED", TELEMETRY_ENERGY},
        {"nvmlDeviceGetClockInfo", "UNKNOWN", TELEMETRY_SM_CLOCK},
        {"nvmlDeviceGetTemperature", "TIMEOUT", TELEMETRY_TEMPERATURE},
        {"nvmlDeviceGetPowerUsage", "NO_PERMISSION", TELEMETRY_POWER},
        {"nvmlDeviceGetUtilizationRates", "NOT_SUPPORTED", TELEMETRY_UTILIZATION},
        {"nvmlDeviceGetMemoryInfo_v2", "FUNCTION_NOT_FOUND", TELEMETRY_MEMORY_RESERVED},
        {"nvmlDeviceGetPcieThroughput", "UNKNOWN", TELEMETRY_PCIE_TX},
        {"nvmlDeviceGetCurrentClocksEventReasons", "NOT_SUPPORTED", TELEMETRY_CLOCK_EVENT_REASONS},
        {"nvmlDeviceGetProcessUtilization", "UNKNOWN", TELEMETRY_FAN_SPEED},
        {"nvmlGpmSampleAlloc", "MEMORY", TELEMETRY_SM_ACTIVE},
        {"nvmlGpmSampleGet", "UNKNOWN", TELEMETRY_SM_ACTIVE},
        {"nvmlGpmMetricsGet", "UNKNOWN", TELEMETRY_SM_ACTIVE},
    };
    auto_machine struct machine m = start("[{model: h100-80}]");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *fault =
            xasprintf("fault add --call %s --nth 0 --action fail:%s", rows[i].call, rows[i].code);
        sim_control(fault);
        const struct telemetry_card card = measure(&m, 0);
        cr_expect(isnan(card.values.of[rows[i].value]), "%s", rows[i].call);
        cr_expect(!isnan(OF(&card, PSTATE)) && !isnan(OF(&card, MEMORY_TOTAL)), "%s", rows[i].call);
        sim_control("fault clear");
    }
    const struct telemetry_card card = measure_means(&m, 0);
    cr_expect_eq(OF(&card, SM_ACTIVE), 0, "it comes back with the calls");
}

Test(nvml_telemetry, whether_a_card_has_means_is_asked_until_there_is_an_answer)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    sim_control("fault add --call nvmlGpmQueryDeviceSupport --nth 1 --action fail:UNKNOWN");
    struct telemetry_card card = measure(&m, 0);
    cr_expect(isnan(OF(&card, SM_ACTIVE)));
    card = measure_means(&m, 0);
    cr_expect_eq(OF(&card, SM_ACTIVE), 0);
}

Test(nvml_telemetry, a_lost_card_is_an_error_and_the_others_are_measured)
{
    auto_machine struct machine m = start("[{model: h100-80, count: 2}]");
    (void)measure(&m, 0);
    sim_control("lost --gpu 0 set");
    expect_refused(&m, uuid_of(&m, 0), ERR_UNAVAILABLE, "lost");
    (void)measure(&m, 1);
    sim_control("lost --gpu 0 clear");
    (void)measure(&m, 0);
}

Test(nvml_telemetry, a_card_that_was_not_read_in_this_session_is_refused)
{
    sim_fleet("[{model: h100-80}]");
    struct machine m = {.gpu = sim_open()};
    expect_refused(&m, "GPU-1", ERR_UNAVAILABLE, "no session");
    m.inv = sim_read(m.gpu);
    expect_refused(&m, "GPU-1", ERR_NOT_FOUND, "no card GPU-1");
    (void)measure(&m, 0);
    stop(&m);
}

/* --- a call that hangs --- */

struct hanging {
    struct gpu *gpu;
    char uuid[GPU_UUID_BYTES];
    struct gpu_activity activity;
};

static void *measure_in_thread(void *arg)
{
    struct hanging *h = arg;
    struct telemetry_card card;
    gpu_activity_of_thread(&h->activity);
    cr_expect_eq(h->gpu->ops->measure(h->gpu, h->uuid, TELEMETRY_ALL, &card, NULL), 0);
    gpu_activity_of_thread(NULL);
    return NULL;
}

static bool is_in(const struct hanging *h, const char *call)
{
    const char *now = atomic_load(&h->activity.call);
    return now && strcmp(now, call) == 0;
}

Test(nvml_telemetry, a_measure_that_hangs_keeps_nobody_waiting)
{
    auto_machine struct machine m = start("[{model: h100-80, count: 2}]");
    struct hanging h = {.gpu = m.gpu};
    memcpy(h.uuid, uuid_of(&m, 0), sizeof(h.uuid));
    pthread_t thread;
    sim_control("fault add --call nvmlDeviceGetPowerUsage --gpu 0 --nth 1 --action hang:4");
    cr_assert_eq(pthread_create(&thread, NULL, measure_in_thread, &h), 0);
    while (!is_in(&h, "nvmlDeviceGetPowerUsage"))
        continue;
    expect_refused(&m, uuid_of(&m, 0), ERR_UNAVAILABLE,
                   "is measured by another thread: nvmlDeviceGetPowerUsage has not returned");
    (void)measure(&m, 1);
    read_again(&m);
    cr_expect(!m.inv.cards[0].busy && !m.inv.cards[0].unread, "the card is in nobody's hands");
    cr_expect(is_in(&h, "nvmlDeviceGetPowerUsage"), "all that while it hung");
    (void)pthread_join(thread, NULL);
    (void)measure(&m, 0);
}

/* A thread that has the card in hand, in a call that hangs, holds up no measure. */
static void *read_in_thread(void *arg)
{
    struct hanging *h = arg;
    auto_gpu_card struct gpu_card card = {0};
    gpu_activity_of_thread(&h->activity);
    cr_expect_eq(h->gpu->ops->read_card(h->gpu, h->uuid, &card, NULL), 0);
    gpu_activity_of_thread(NULL);
    return NULL;
}

Test(nvml_telemetry, a_card_in_hand_is_measured_too)
{
    auto_machine struct machine m = start("[{model: h100-80}]");
    struct hanging h = {.gpu = m.gpu};
    memcpy(h.uuid, uuid_of(&m, 0), sizeof(h.uuid));
    pthread_t thread;
    sim_control("fault add --call nvmlDeviceGetMigMode --nth 1 --action hang:3");
    cr_assert_eq(pthread_create(&thread, NULL, read_in_thread, &h), 0);
    while (!is_in(&h, "nvmlDeviceGetMigMode"))
        continue;
    const struct telemetry_card card = measure(&m, 0);
    cr_expect(near(OF(&card, POWER), 70));
    cr_expect(is_in(&h, "nvmlDeviceGetMigMode"));
    (void)pthread_join(thread, NULL);
}

/* --- sessions --- */

Test(nvml_telemetry, means_begin_anew_with_a_session)
{
    auto_machine struct machine m = start("[{model: h100-80, count: 2}]");
    (void)measure_means(&m, 1);
    auto_err struct err e = {0};
    cr_assert_eq(m.gpu->ops->reset(m.gpu, uuid_of(&m, 0), &e), 0, "%s", err_msg(&e));
    expect_refused(&m, uuid_of(&m, 1), ERR_UNAVAILABLE, "no session");
    read_again(&m);
    const struct telemetry_card card = measure(&m, 1);
    cr_expect(isnan(OF(&card, SM_ACTIVE)));
    (void)measure_means(&m, 1);
}

Test(nvml_telemetry, a_machine_of_several_vendors_measures_by_vendor)
{
    sim_fleet("[{model: h100-80}, {model: c500}]");
    struct gpu *const both[] = {sim_open(), sim_open_metax()};
    struct machine m = {.gpu = gpu_all_new(both, 2)};
    m.inv = sim_read(m.gpu);
    const struct telemetry_card card = measure(&m, 0);
    const struct telemetry_card metax = measure(&m, 1);
    cr_expect(near(OF(&card, POWER), 70));
    cr_expect(isnan(OF(&metax, SM_CLOCK)) && OF(&metax, POWER) > 0);
    expect_refused(&m, "GPU-1", ERR_NOT_FOUND, "no card GPU-1");
    stop(&m);
}
