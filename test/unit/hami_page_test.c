/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/telemetry/hami_page.h"

/* Two cards. The containers a and b have shares of the first, and a one of the second. */

#define MIB 1048576.0

static struct telemetry_node node;
static struct telemetry_card cards[2];
static struct attribution_reading readings[2];
static struct consumer pods[2][2];
static struct dcgm_page page;
static struct sb out;

static void share(unsigned card, const char *pod, unsigned mib)
{
    struct telemetry_place *p = &node.cards[card].places[0];
    p->is_shared = true;
    *XPUSH(p->holders, p->n_holders) =
        (struct telemetry_holder){.ns = xstrdup("team"),
                                  .pod = xstrdup(pod),
                                  .container = xstrdup("main"),
                                  .uid = xasprintf("uid-%s", pod),
                                  .share_bytes = (uint64_t)mib << 20};
}

static void run(unsigned card, const char *pod, double mib, double percent)
{
    struct telemetry_card *c = &cards[card];
    (void)snprintf(pods[card][c->n_processes].pod_uid, sizeof(pods[card][0].pod_uid), "uid-%s",
                   pod);
    c->processes[c->n_processes++] =
        (struct telemetry_process){.gi_id = -1, .memory_bytes = mib * MIB, .utilization = percent};
}

static void set_up(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct telemetry_node_card *c = XPUSH(node.cards, node.n);
        c->vendor = "nvidia";
        c->index = i;
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%u", i);
        (void)snprintf(c->model, sizeof(c->model), "A100");
        XPUSH(c->places, c->n_places)->gi_id = -1;
        telemetry_values_init(&cards[i].values);
        cards[i].n_processes = 0;
        cards[i].values.of[TELEMETRY_MEMORY_USED] = 5000 * MIB;
        cards[i].values.of[TELEMETRY_MEMORY_RESERVED] = 600 * MIB;
        cards[i].values.of[TELEMETRY_UTILIZATION] = 70;
        cards[i].values.of[TELEMETRY_COPY_UTILIZATION] = 20;
        readings[i] = (struct attribution_reading){&cards[i], pods[i]};
    }
    share(0, "a", 3000);
    share(0, "b", 1000);
    share(1, "a", 2000);
    run(0, "a", 1500, 40);
    run(0, "b", 500, 10);
    page =
        (struct dcgm_page){.node = &node, .readings = readings, .host = "n1", .hami = HAMI_CURRENT};
    out = SB_INIT(1 << 20);
}

static void tear_down(void)
{
    telemetry_node_done(&node);
    sb_done(&out);
}

TestSuite(hami_page, .init = set_up, .fini = tear_down);

static bool has(const char *text)
{
    sb_reset(&out);
    hami_page_write(&page, &out);
    return strstr(sb_str(&out), text);
}

Test(hami_page, nothing_is_there_unless_it_is_wanted)
{
    page.hami = HAMI_NONE;
    (void)has("");
    cr_expect_str_eq(sb_str(&out), "");
}

/* HAMi asks NVML's older call, which counts what the driver has reserved as used. */
Test(hami_page, cards_have_what_hamis_monitor_reads)
{
    static const char card[] =
        "device_index=\"0\",device_uuid=\"GPU-0\",device_type=\"NVIDIA-A100\"";
    auto_free char *used =
        xasprintf("hami_host_gpu_memory_used_bytes{zone=\"vGPU\",node=\"n1\",%s} "
                  "5872025600\n",
                  card);
    auto_free char *busy =
        xasprintf("hami_host_gpu_utilization_ratio{zone=\"vGPU\",node=\"n1\",%s} 70\n", card);
    auto_free char *copies =
        xasprintf("hami_host_gpu_memory_controller_utilization_ratio{zone=\"vGPU\",%s} 20\n", card);
    cr_expect(has("# TYPE hami_host_gpu_memory_used_bytes gauge\n"));
    cr_expect(has(used), "%s", sb_str(&out));
    cr_expect(has(busy), "%s", sb_str(&out));
    cr_expect(has(copies), "%s", sb_str(&out));
}

#define A "{zone=\"vGPU\",namespace=\"team\",pod=\"a\",container=\"main\","

Test(hami_page, containers_have_what_they_use_and_may_use_of_each_of_their_cards)
{
    cr_expect(has("hami_vgpu_memory_used_bytes" A "vdevice_index=\"0\",device_uuid=\"GPU-0\"} "
                  "1572864000\n"),
              "%s", sb_str(&out));
    cr_expect(has("hami_vgpu_memory_limit_bytes" A "vdevice_index=\"0\",device_uuid=\"GPU-0\"} "
                  "3145728000\n"));
    cr_expect(has("hami_container_device_memory_bytes" A "vdevice_index=\"0\","));
    cr_expect(has("hami_container_device_utilization_ratio" A
                  "vdevice_index=\"0\",device_uuid=\"GPU-0\"} 40\n"));
    cr_expect(has("hami_vgpu_memory_limit_bytes" A "vdevice_index=\"1\",device_uuid=\"GPU-1\"} "
                  "2097152000\n"),
              "%s", sb_str(&out));
    cr_expect(has("pod=\"b\",container=\"main\",vdevice_index=\"0\",device_uuid=\"GPU-0\"} 10\n"));
}

Test(hami_page, the_earlier_names_have_the_earlier_labels)
{
    page.hami = HAMI_LEGACY;
    cr_expect(has("HostGPUMemoryUsage{zone=\"vGPU\",nodeid=\"n1\",deviceidx=\"0\",deviceuuid="
                  "\"GPU-0\",devicetype=\"NVIDIA-A100\"} 5872025600\n"),
              "%s", sb_str(&out));
    cr_expect(has("vGPU_device_memory_usage_in_bytes{zone=\"vGPU\",podnamespace=\"team\",podname="
                  "\"a\",ctrname=\"main\",vdeviceid=\"0\",deviceuuid=\"GPU-0\"} 1572864000\n"));
    cr_expect(has("vGPU_device_memory_limit_in_bytes{") && has("HostCoreUtilization{") &&
              has("Device_utilization_desc_of_container{"));
    cr_expect_not(has("hami_"));
    page.hami = HAMI_BOTH;
    cr_expect(has("hami_vgpu_memory_used_bytes{") && has("HostGPUMemoryUsage{"));
}

Test(hami_page, pods_that_have_no_share_and_cards_that_were_not_read_are_not_there)
{
    node.cards[0].places[0].holders[1].share_bytes = 0;
    cr_expect_not(has("pod=\"b\""));
    readings[0].card = NULL;
    cr_expect_not(has("GPU-0"));
    node.cards[1].vendor = "metax";
    cr_expect_not(has("GPU-1"));
}

Test(hami_page, a_value_that_a_card_does_not_report_is_not_there)
{
    cards[0].values.of[TELEMETRY_UTILIZATION] = (double)NAN;
    cards[0].values.of[TELEMETRY_MEMORY_RESERVED] = (double)NAN;
    cr_expect_not(
        has("hami_host_gpu_utilization_ratio{zone=\"vGPU\",node=\"n1\",device_index=\"0\""));
    cr_expect(has("} 5242880000\n"), "used alone");
}

Test(hami_page, where_the_page_has_no_room_for_pods_they_are_left_out)
{
    page.without_pods = true;
    cr_expect_not(has("hami_vgpu_memory_limit_bytes"));
    cr_expect(has("hami_host_gpu_memory_used_bytes{"));
}
