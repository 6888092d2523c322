/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"

#include "cluster_support.h"
#include "reconcilers/records/node_taint.h"
#include "service/resources.h"

#define PROFILE(name, first, taint)                                                                \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"                                                                           \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  nodeSelector: {matchLabels: {pool: a}}\n"                                                   \
    "  devices: [{selector: {indices: [" first "]}, mode: native}]\n"                              \
    "  health: {taint: " taint "}\n"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(node_taint, .init = setup, .fini = teardown);

static void profile(const char *yaml)
{
    cluster_apply(&c, yaml);
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
}

static void report(size_t card, bool healthy)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *body = json_object();
    json_t *cards = json_object_get(json_object_get(device, "status"), "devices");
    (void)json_object_set_new(json_array_get(cards, card), "healthy", json_boolean(healthy));
    (void)json_object_set_new(body, "status", json_pack("{s:O}", "devices", cards));
    auto_free char *text = json_dumps(body, 0);
    cluster_patch(&c, &resource_devices, "n1", "status", text);
    cluster_settle(&c);
}

/* "key:effect ..." as the Node has them, in order. */
static void expect_taints(const char *expected)
{
    size_t i;
    json_t *taint;
    auto_sb struct sb text = SB_INIT(1000);
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    json_array_foreach(json_object_get(json_object_get(node, "spec"), "taints"), i, taint)
        sb_addf(&text, "%s%s:%s", i ? " " : "", JX_STR_AT(taint, "key"),
                JX_STR_AT(taint, "effect"));
    cr_assert_str_eq(text.data ? text.data : "", expected);
}

#define OURS "gpu.cleave.dev/unhealthy:NoSchedule"

Test(node_taint, profile_that_asks_for_it_has_the_node_tainted_until_the_card_is_well)
{
    profile(PROFILE("p", "0, 1", "NoSchedule"));
    expect_taints("");
    report(1, false);
    expect_taints(OURS);
    cr_expect(cluster_has_event(&c, "n1", "GPUUnhealthy"));
    report(1, true);
    expect_taints("");
    cr_expect(cluster_has_event(&c, "n1", "GPUHealthy"));
}

Test(node_taint, profile_that_does_not_ask_for_it_has_none)
{
    profile(PROFILE("p", "0, 1", "None"));
    report(0, false);
    expect_taints("");
}

Test(node_taint, card_of_nobody_or_of_another_profile_does_not_count)
{
    profile(PROFILE("asks", "0", "NoSchedule"));
    profile(PROFILE("silent", "1", "None"));
    report(1, false);
    expect_taints("");
    report(0, false);
    expect_taints(OURS);
}

Test(node_taint, taints_of_others_are_left_alone)
{
    profile(PROFILE("p", "0, 1", "NoSchedule"));
    cluster_patch(&c, &resource_nodes, "n1", NULL,
                  "{spec: {taints: [{key: nvidia.com/gpu, effect: NoSchedule},"
                  " {key: gpu.cleave.dev/unhealthy, effect: NoExecute}]}}");
    report(0, false);
    expect_taints("nvidia.com/gpu:NoSchedule gpu.cleave.dev/unhealthy:NoExecute " OURS);
    report(0, true);
    expect_taints("nvidia.com/gpu:NoSchedule gpu.cleave.dev/unhealthy:NoExecute");
}

Test(node_taint, what_somebody_takes_away_is_put_back_and_what_somebody_sets_is_taken)
{
    profile(PROFILE("p", "0, 1", "NoSchedule"));
    report(0, false);
    cluster_patch(&c, &resource_nodes, "n1", NULL, "{spec: {taints: null}}");
    cluster_settle(&c);
    expect_taints(OURS);
    report(0, true);
    cluster_patch(&c, &resource_nodes, "n1", NULL,
                  "{spec: {taints: [{key: gpu.cleave.dev/unhealthy, effect: NoSchedule}]}}");
    cluster_settle(&c);
    expect_taints("");
}

Test(node_taint, deleting_the_profile_takes_it_away)
{
    profile(PROFILE("p", "0, 1", "NoSchedule"));
    report(0, false);
    expect_taints(OURS);
    cluster_remove(&c, &resource_gpuprofiles, "p");
    cluster_settle(&c);
    expect_taints("");
}

Test(node_taint, what_stands_is_not_written_again)
{
    profile(PROFILE("p", "0, 1", "NoSchedule"));
    report(0, false);
    int before = cluster_writes(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), before);
}

/* The patch fails when anything at all happened to the Node since it was read. */
Test(node_taint, patch_holds_the_version_that_it_was_made_from)
{
    auto_json json_t *node =
        json_pack("{s:{s:s, s:s}, s:{s:[{s:s, s:s}]}}", "metadata", "uid", "u", "resourceVersion",
                  "7", "spec", "taints", "key", "x", "effect", "NoExecute");
    auto_json json_t *patch = node_taint_patch(node, true);
    cr_expect_str_eq(JX_STR_AT(patch, "metadata", "resourceVersion"), "7");
    cr_expect_str_eq(JX_STR_AT(patch, "metadata", "uid"), "u");
    cr_expect_null(node_taint_patch(node, false), "it is so already");
}
