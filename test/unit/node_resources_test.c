/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"

#include "cluster_support.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(node_resources, .init = setup, .fini = teardown);

static void expect(const char *name, const char *expected)
{
    static const char *const maps[] = {"capacity", "allocatable"};
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        const char *is = JX_STR_AT(node, "status", maps[i], name);
        cr_assert_str_eq(is ? is : "", expected, "%s of %s", maps[i], name);
    }
}

Test(node_resources, what_the_device_offers_stands_in_both_maps)
{
    expect("nvidia.com/mig-1g.10gb", "7");
    expect("nvidia.com/gpu", "");
}

Test(node_resources, what_the_kubelet_resets_is_applied_again)
{
    cluster_patch(&c, &resource_nodes, "n1", "status",
                  "{status: {capacity: {nvidia.com/mig-1g.10gb: '0'},"
                  " allocatable: {nvidia.com/mig-1g.10gb: '0'}}}");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "7");
}

Test(node_resources, what_is_retired_disappears)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-3g.40gb");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    expect("nvidia.com/mig-3g.40gb", "2");
}

Test(node_resources, what_a_device_plugin_serves_is_not_ours)
{
    cluster_patch(&c, &resource_devices, "n1", "status",
                  "{status: {resources: [{name: nvidia.com/mig-1g.10gb, count: 7,"
                  " publisher: kubelet}]}}");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
}

Test(node_resources, foreign_resources_stay)
{
    cluster_patch(&c, &resource_nodes, "n1", "status",
                  "{status: {capacity: {cpu: '8', nvidia.com/other: '1'},"
                  " allocatable: {cpu: '8', nvidia.com/other: '1'}}}");
    cluster_settle(&c);
    expect("nvidia.com/other", "1");
    expect("cpu", "8");
}

Test(node_resources, they_go_with_the_device)
{
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
}

Test(node_resources, garbage_in_the_status_takes_nothing_away)
{
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {resources: 7}}");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "7");
}

Test(node_resources, a_heartbeat_writes_nothing)
{
    int before = cluster_writes(&c);
    cluster_patch(&c, &resource_nodes, "n1", "status",
                  "{status: {conditions: [{type: Ready, status: 'True'}]}}");
    cluster_settle(&c);
    cr_assert_eq(cluster_writes(&c), before);
}

/* --- The order of writes --- */

#define CLIP_CONFIG                                                                                \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: MIGConfig\n"                                                                            \
    "metadata: {name: mixed}\n"                                                                    \
    "spec: {devices: [{migEnabled: true, migDevices: {1g.10gb: 3, 3g.40gb: 1}}]}\n"

Test(node_resources, what_a_new_spec_takes_away_is_withdrawn_before_the_agent_answers)
{
    cluster_apply(&c, CLIP_CONFIG);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "mixed");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "3");
    expect("nvidia.com/mig-3g.40gb", "");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "3");
    expect("nvidia.com/mig-3g.40gb", "1");
}

Test(node_resources, a_card_that_leaves_mig_offers_nothing_meanwhile)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-disabled");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    expect("nvidia.com/gpu", "");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect("nvidia.com/gpu", "1");
}

Test(node_resources, what_was_withdrawn_comes_back_when_the_agent_cannot)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-3g.40gb");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    cluster_agent_fails(&c, "n1", "InUse");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "7");
}

#define SHARES                                                                                       \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                          \
    "kind: GPUProfile\n"                                                                             \
    "metadata: {name: shares}\n"                                                                     \
    "spec: {nodeSelector: {matchLabels: {pool: a}}, devices: [{mode: native, sharing: {fractional: " \
    "{maxShares: 10, memoryOversubscriptionPercent: 150}}}]}\n"

static void give_shares(bool with_gpushare)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", NULL);
    c.with_gpushare = with_gpushare;
    cluster_restart(&c);
    cluster_apply(&c, SHARES);
    for (int i = 0; i < 2; i++) {
        cluster_settle(&c);
        cluster_agent(&c, "n1");
    }
    cluster_settle(&c);
}

Test(node_resources, gpushares_numbers_are_the_gib_and_the_cards_where_they_are_wanted)
{
    give_shares(/* with_gpushare= */ true);
    expect("aliyun.com/gpu-count", "1");
    expect("aliyun.com/gpu-mem", "119"); /* 81559 MiB, one and a half times */
    cluster_patch(&c, &resource_nodes, "n1", "status",
                  "{status: {capacity: {aliyun.com/gpu-mem: '0'},"
                  " allocatable: {aliyun.com/gpu-mem: '0'}}}");
    cluster_settle(&c);
    expect("aliyun.com/gpu-mem", "119");
    c.with_gpushare = false;
    cluster_restart(&c);
    cluster_settle(&c);
    expect("aliyun.com/gpu-count", "");
    expect("aliyun.com/gpu-mem", "");
}

Test(node_resources, gpushares_numbers_are_none_where_the_agent_makes_no_shares)
{
    give_shares(/* with_gpushare= */ true);
    cluster_patch(&c, &resource_devices, "n1", "status",
                  "{status: {resources: [{name: nvidia.com/gpu, count: 1, publisher: kubelet}]}}");
    cluster_settle(&c);
    expect("aliyun.com/gpu-count", "");
    expect("aliyun.com/gpu-mem", "");
}

Test(node_resources, gpushares_own_numbers_stay_where_they_are_not_wanted)
{
    cluster_patch(&c, &resource_nodes, "n1", "status",
                  "{status: {capacity: {aliyun.com/gpu-mem: '8'},"
                  " allocatable: {aliyun.com/gpu-mem: '8'}}}");
    give_shares(/* with_gpushare= */ false);
    expect("aliyun.com/gpu-mem", "8");
    expect("aliyun.com/gpu-count", "");
}

/* The writes of the controller to the node's two objects, in their order. */
static int note_write(void *arg, const struct kc_call *call, struct err *e)
{
    (void)e;
    struct sb *story = arg;
    bool node = strcmp(call->target->res->plural, "nodes") == 0;
    bool device = strcmp(call->target->res->plural, "devices") == 0;
    if (call->after && call->write && call->write->how == KC_APPLY && (node || device))
        sb_addf(story, "%s%s", story->len ? " " : "", call->target->res->plural);
    return 0;
}

Test(node_resources, the_node_is_written_before_the_order_goes_out)
{
    auto_sb struct sb story = SB_INIT(1024);
    kc_fake_hook(c.api, note_write, &story);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-3g.40gb");
    cluster_settle(&c);
    cr_expect_str_eq(sb_str(&story), "nodes devices");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cr_expect_str_eq(sb_str(&story), "nodes devices nodes", "state and resources in one");
    kc_fake_hook(c.api, NULL, NULL);
}

/* --- Two cards --- */

#define SWAP(name, cut, whole)                                                                     \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: MIGConfig\n"                                                                            \
    "metadata: {name: " name "}\n"                                                                 \
    "spec: {devices: [{indices: [" cut "], migEnabled: true, migDevices: {1g.10gb: 7}},"           \
    " {indices: [" whole "], migEnabled: false}]}\n"

static void expect_on(const char *node, const char *name, const char *expected)
{
    auto_json json_t *obj = cluster_get(&c, &resource_nodes, node);
    const char *is = JX_STR_AT(obj, "status", "allocatable", name);
    cr_assert_str_eq(is ? is : "", expected, "%s of %s", name, node);
}

Test(node_resources, cards_that_change_places_offer_nothing_meanwhile)
{
    cluster_add_node(&c, "n2", 2);
    cluster_apply(&c, SWAP("first-cut", "0", "1"));
    cluster_apply(&c, SWAP("second-cut", "1", "0"));
    cluster_label(&c, "n2", "nvidia.com/mig.config", "first-cut");
    cluster_settle(&c);
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect_on("n2", "nvidia.com/mig-1g.10gb", "7");
    expect_on("n2", "nvidia.com/gpu", "1");
    cluster_label(&c, "n2", "nvidia.com/mig.config", "second-cut");
    cluster_settle(&c);
    expect_on("n2", "nvidia.com/mig-1g.10gb", "");
    expect_on("n2", "nvidia.com/gpu", "");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect_on("n2", "nvidia.com/mig-1g.10gb", "7");
    expect_on("n2", "nvidia.com/gpu", "1");
}

Test(node_resources, an_order_that_is_taken_back_unanswered_brings_nothing_back)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-3g.40gb");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    cluster_label(&c, "n1", "nvidia.com/mig.config", NULL);
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect("nvidia.com/mig-1g.10gb", "7");
}
