/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/telemetry/sampler.h"

/* Two cards, whose temperature is the number of the reading. */

enum { INTERVAL_MS = 15000, ROOM = 4 << 20, GRACE_MS = 60000 };

static struct {
    unsigned calls;
    uint64_t wanted; /* by the last call */
    double temperature;
    const char *ill;        /* the card that cannot be read; NULL: none */
    unsigned pid;           /* a process on each card; 0: none */
    unsigned n_left_out;    /* processes of each card */
    struct sampler *before; /* called in a reading: the node changes meanwhile */
    bool hangs;
    sem_t in_call, may_return;
} hw;

static struct clock *clk;
static struct counter_list counters;
static struct sampler *s;
static struct sb page;
static char *proc;

static struct telemetry_node node_of(unsigned n_cards, const char *pod)
{
    struct telemetry_node n = {0};
    for (unsigned i = 0; i < n_cards; i++) {
        struct telemetry_node_card *c = XPUSH(n.cards, n.n);
        c->vendor = "nvidia";
        c->index = i;
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%u", i);
        struct telemetry_place *p = XPUSH(c->places, c->n_places);
        p->gi_id = -1;
        if (!pod)
            continue;
        p->is_shared = true;
        *XPUSH(p->holders, p->n_holders) =
            (struct telemetry_holder){xstrdup("team"), xstrdup(pod), xstrdup("main"),
                                      xstrdup("0b7c1f5e-9a3d-4c7b-8f21-1234567890ab"), 0};
    }
    return n;
}

static void show(unsigned n_cards, const char *pod)
{
    struct telemetry_node n = node_of(n_cards, pod);
    sampler_show(s, &n);
}

static int measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                   struct err *e)
{
    (void)g;
    hw.calls++;
    hw.wanted = wanted;
    if (hw.hangs) {
        (void)sem_post(&hw.in_call);
        while (sem_wait(&hw.may_return) < 0)
            continue;
    }
    if (hw.ill && strcmp(hw.ill, uuid) == 0)
        return err_set(e, ERR_UNAVAILABLE, "nvmlDeviceGetTemperature: GPU is lost");
    telemetry_values_init(&ret->values);
    ret->values.of[TELEMETRY_TEMPERATURE] = hw.temperature;
    ret->values.of[TELEMETRY_UTILIZATION] = 50;
    ret->read_mono_ms = clock_mono_ms(clk);
    ret->n_processes = hw.pid != 0;
    ret->n_left_out = hw.n_left_out;
    ret->processes[0] = (struct telemetry_process){.pid = hw.pid, .gi_id = -1, .utilization = 20};
    if (hw.before) {
        struct telemetry_node n = node_of(2, /* pod= */ NULL);
        sampler_show(hw.before, &n);
    }
    return 0;
}

static const struct gpu_ops ops = {.measure = measure};
static struct gpu gpu = {&ops};

static void set_up(void)
{
    memset(&hw, 0, sizeof(hw));
    (void)sem_init(&hw.in_call, 0, 0);
    (void)sem_init(&hw.may_return, 0, 0);
    hw.temperature = 40;
    clk = clock_fake_new(0);
    counter_list_default(&counters);
    proc = folder_make();
    s = sampler_new(&(const struct sampler_options){.gpu = &gpu,
                                                    .clk = clk,
                                                    .interval_ms = INTERVAL_MS,
                                                    .counters = &counters,
                                                    .host = "n1",
                                                    .proc_root = proc});
    page = SB_INIT(ROOM);
}

static void tear_down(void)
{
    s = sampler_free(s, GRACE_MS, /* ret_abandoned= */ NULL);
    counter_list_done(&counters);
    clk = clock_free(clk);
    sb_done(&page);
    folder_remove(proc);
    free(TAKE(proc));
}

TestSuite(sampler, .init = set_up, .fini = tear_down);

static const char *scraped(void)
{
    sb_reset(&page);
    cr_assert_eq(sampler_page(s, &page), 200);
    return sb_str(&page);
}

static void expect_there(const char *text)
{
    cr_expect(strstr(scraped(), text), "%s is not in\n%s", text, sb_str(&page));
}

static void expect_not_there(const char *text)
{
    cr_expect_null(strstr(scraped(), text), "%s is in\n%s", text, sb_str(&page));
}

Test(sampler, a_page_before_the_first_reading_says_nothing_of_cards)
{
    expect_not_there("DCGM_FI");
    expect_there("cleave_agent_telemetry_pods_left_out 0\n");
}

Test(sampler, a_card_is_read_once_however_many_scrape)
{
    show(2, NULL);
    sampler_round(s);
    for (int i = 0; i < 10; i++)
        (void)scraped();
    cr_expect_eq(hw.calls, 2);
    expect_there("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\",UUID=\"GPU-1\"");
    expect_there("} 40\n");
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 0\n");
}

/* The driver samples PCIe for 20 ms in the call. */
Test(sampler, only_what_the_page_has_is_wanted)
{
    show(1, NULL);
    sampler_round(s);
    cr_expect(hw.wanted & TELEMETRY_BIT(TELEMETRY_POWER));
    cr_expect(hw.wanted & TELEMETRY_BIT(TELEMETRY_POWER_LIMIT), "of other vendors' cards");
    cr_expect_not(hw.wanted & TELEMETRY_BIT(TELEMETRY_PCIE_TX));
}

Test(sampler, a_card_that_cannot_be_read_keeps_its_values_as_stale_ones)
{
    show(2, NULL);
    sampler_round(s);
    hw.ill = "GPU-1";
    hw.temperature = 41;
    clock_fake_advance(clk, INTERVAL_MS);
    sampler_round(s);
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 0\n");
    expect_there("cleave_agent_telemetry_stale{gpu=\"1\",UUID=\"GPU-1\"} 1\n");
    expect_there("cleave_agent_telemetry_age_seconds{gpu=\"1\",UUID=\"GPU-1\"} 15.000\n");
    expect_there("} 40\n");
    expect_there("} 41\n");
    hw.ill = NULL;
    sampler_round(s);
    expect_there("cleave_agent_telemetry_stale{gpu=\"1\",UUID=\"GPU-1\"} 0\n");
}

Test(sampler, a_card_that_was_never_read_is_stale_and_has_no_age)
{
    show(1, NULL);
    hw.ill = "GPU-0";
    sampler_round(s);
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 1\n");
    expect_not_there("age_seconds{");
    expect_not_there("DCGM_FI");
}

Test(sampler, without_readings_the_page_grows_stale_by_itself)
{
    show(1, NULL);
    sampler_round(s);
    clock_fake_advance(clk, 2 * INTERVAL_MS);
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 0\n");
    clock_fake_advance(clk, 1);
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 1\n");
    expect_there("} 40\n");
}

Test(sampler, a_card_that_is_gone_is_gone_from_the_page)
{
    show(2, NULL);
    sampler_round(s);
    show(1, NULL);
    hw.ill = "GPU-0";
    sampler_round(s);
    expect_not_there("GPU-1");
    expect_there("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"");
}

Test(sampler, the_last_xid_is_the_one_of_the_newest_node)
{
    for (int i = 1; i <= 2; i++) {
        struct telemetry_node n = node_of(1, /* pod= */ NULL);
        n.cards[0].last_xid = 12 * i;
        sampler_show(s, &n);
        sampler_round(s);
    }
    expect_there("err_code=\"24\",err_msg=\"Unknown Error\"} 24\n");
}

Test(sampler, processes_for_which_there_is_no_room_are_told)
{
    show(2, NULL);
    hw.ill = "GPU-1";
    sampler_round(s);
    expect_there("cleave_agent_telemetry_processes_left_out{gpu=\"0\",UUID=\"GPU-0\"} 0\n");
    expect_not_there("processes_left_out{gpu=\"1\"");
    hw.n_left_out = 44;
    sampler_round(s);
    expect_there("cleave_agent_telemetry_processes_left_out{gpu=\"0\",UUID=\"GPU-0\"} 44\n");
}

Test(sampler, cards_of_other_vendors_have_neutral_names)
{
    struct telemetry_node n = node_of(2, /* pod= */ NULL);
    n.cards[0].vendor = "metax";
    sampler_show(s, &n);
    sampler_round(s);
    expect_there("cleave_gpu_temperature_celsius{gpu=\"0\",UUID=\"GPU-0\"");
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 0\n");
    expect_not_there("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"");
}

static void write_cgroup(unsigned pid)
{
    auto_err struct err e = {0};
    auto_free char *folder = xasprintf("%s/%u", proc, pid);
    auto_free char *path = xasprintf("%s/cgroup", folder);
    static const char text[] = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
                               "pod0b7c1f5e_9a3d_4c7b_8f21_1234567890ab.slice/cri-containerd-"
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                               ".scope\n";
    cr_assert_eq(file_make_dirs(folder, 0755, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(file_replace(path, text, strlen(text), 0644, &e), 0, "%s", err_msg(&e));
}

Test(sampler, processes_of_shared_cards_are_found_by_their_cgroups)
{
    hw.pid = 77;
    write_cgroup(77);
    show(1, "train");
    sampler_round(s);
    expect_there("namespace=\"team\",pod=\"train\"} 20\n");
    hw.pid = 78; /* it ended meanwhile */
    sampler_round(s);
    expect_there("namespace=\"team\",pod=\"train\"} 0\n");
}

Test(sampler, pods_that_vanish_while_cards_are_read_are_not_on_the_page)
{
    show(2, "train");
    hw.before = s;
    sampler_round(s);
    expect_not_there("train");
    expect_there("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"");
}

/* As many that their names alone fill a page. */
Test(sampler, pods_are_left_out_where_the_page_has_no_room_for_them)
{
    struct telemetry_node n = node_of(1, "first");
    struct telemetry_place *p = &n.cards[0].places[0];
    for (int i = 0; i < 30000; i++)
        *XPUSH(p->holders, p->n_holders) =
            (struct telemetry_holder){xstrdup("team"), xasprintf("p%05d", i), xstrdup("main"),
                                      xasprintf("u%d", i), 0};
    sampler_show(s, &n);
    sampler_round(s);
    expect_there("cleave_agent_telemetry_pods_left_out 1\n");
    expect_not_there("pod=");
    expect_there("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"");
    show(1, "first");
    sampler_round(s);
    expect_there("cleave_agent_telemetry_pods_left_out 0\n");
    expect_there("pod=\"first\"");
}

Test(sampler, the_thread_reads_as_soon_as_the_node_is_known)
{
    auto_err struct err e = {0};
    hw.hangs = true;
    cr_assert_eq(sampler_start(s, &e), 0);
    show(1, NULL);
    while (sem_wait(&hw.in_call) < 0)
        continue;
    expect_not_there("DCGM_FI"); /* and a scrape does not wait for it */
    (void)sem_post(&hw.may_return);
}

/* A driver refuses a card that another thread measures. Nobody shows the node meanwhile: the watchdog
 * alone finds the call. */
static int measure_but_first(struct gpu *g, const char *uuid, uint64_t wanted,
                             struct telemetry_card *ret, struct err *e)
{
    static atomic_uint of_first, of_second;
    if (strcmp(uuid, "GPU-1") == 0) {
        if (atomic_fetch_add(&of_second, 1) == 1) /* the page has the first one by now */
            (void)sem_post(&hw.in_call);
        return measure(g, uuid, wanted, ret, e);
    }
    if (atomic_fetch_add(&of_first, 1) > 0)
        return err_set(e, ERR_UNAVAILABLE, "another thread measures it");
    (void)sem_post(&hw.in_call);
    while (sem_wait(&hw.may_return) < 0)
        continue;
    return err_set(e, ERR_UNAVAILABLE, "too late");
}

Test(sampler, a_card_whose_call_hangs_does_not_stop_the_others)
{
    enum { SHORT_MS = 10 };
    static const struct gpu_ops hanging = {.measure = measure_but_first};
    static struct gpu own = {&hanging};
    auto_err struct err e = {0};
    s = sampler_free(s, GRACE_MS, /* ret_abandoned= */ NULL);
    s = sampler_new(&(const struct sampler_options){.gpu = &own,
                                                    .clk = clk,
                                                    .interval_ms = SHORT_MS,
                                                    .counters = &counters,
                                                    .host = "n1",
                                                    .proc_root = proc});
    cr_assert_eq(sampler_start(s, &e), 0);
    show(2, NULL);
    for (int i = 0; i < 2; i++) /* the call that hangs, and the second reading of the other card */
        while (sem_wait(&hw.in_call) < 0)
            continue;
    expect_there("DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"");
    expect_there("cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 1\n");
    expect_there("cleave_agent_telemetry_stale{gpu=\"1\",UUID=\"GPU-1\"} 0\n");
    (void)sem_post(&hw.may_return);
}

Test(sampler, a_call_that_hangs_is_left_behind)
{
    auto_err struct err e = {0};
    bool abandoned = false;
    show(1, NULL);
    sampler_round(s);
    hw.hangs = true;
    show(0, NULL);
    sampler_round(s);
    show(1, NULL);
    cr_assert_eq(sampler_start(s, &e), 0);
    while (sem_wait(&hw.in_call) < 0)
        continue;
    cr_expect_null(sampler_free(s, /* grace_ms= */ 1, &abandoned));
    cr_expect(abandoned);
    (void)sem_post(&hw.may_return);
    s = sampler_free(s, GRACE_MS, &abandoned);
    cr_expect_not(abandoned);
}
