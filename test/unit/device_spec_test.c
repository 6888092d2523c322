/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"

#include "cluster_support.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(device_spec, .init = setup, .fini = teardown);

#define PROFILE(name, extra)                                                                       \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"                                                                           \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  nodeSelector: {matchLabels: {pool: a}}\n" extra

#define HALVES "  devices: [{selector: {indices: [0]}, mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n"
#define SEVENTHS                                                                                   \
    "  devices: [{selector: {indices: [0]}, mode: mig, mig: {profiles: {1g.10gb: 7}}}]\n"

static void expect_spec(const char *node, const char *expected)
{
    auto_free char *spec = cluster_spec(&c, node);
    cr_assert_str_eq(spec, expected);
}

Test(device_spec, follows_a_profile)
{
    cluster_add_node(&c, "n1", 2);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    expect_spec("n1", "0:mig[3g.40gb*2]");
}

Test(device_spec, names_source_owner_and_labels)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    cr_assert_str_eq(JX_STR_AT(device, "spec", "source", "name"), "p");
    const json_t *owner = json_array_get(JX_AT(device, "metadata", "ownerReferences"), 0);
    cr_assert_str_eq(JX_STR_AT(owner, "uid"), JX_STR_AT(node, "metadata", "uid"));
    cr_assert_str_eq(JX_STR_AT(device, "metadata", "labels", "node.koordinator.sh/gpu-model"),
                     "H100-80GB-HBM3");
}

Test(device_spec, a_models_label_is_without_its_vendors_prefix)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_patch(
        &c, &resource_devices, "n1", "status",
        "{status: {devices: [{uuid: GPU-n1-0, index: 0, vendor: metax, model: MXC500}]}}");
    cluster_settle(&c);
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    cr_assert_str_eq(JX_STR_AT(device, "metadata", "labels", "node.koordinator.sh/gpu-model"),
                     "C500");
}

Test(device_spec, a_whole_change_of_one_node_takes_one_write_each)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    int before = cluster_writes(&c);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c) - before, 2, "spec, profile's status");
    before = cluster_writes(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c) - before, 2, "node's resources, profile's status");
}

Test(device_spec, nothing_is_written_when_nothing_changed)
{
    cluster_add_node(&c, "n1", 2);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-balanced");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    int before = cluster_writes(&c);
    cluster_agent(&c, "n1");
    cluster_label(&c, "n1", "rack", "7");
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), before);
    cluster_restart(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), 0, "a new leader finds all in order");
}

static int64_t version_of(const json_t *obj)
{
    int64_t n = 0;
    cr_assert_eq(num_parse(JX_STR_AT(obj, "metadata", "resourceVersion"), 1, INT64_MAX, &n, NULL),
                 0);
    return n;
}

/* An agent that takes something away which nobody ordered waits for this. */
Test(device_spec, a_withdrawal_is_confirmed_once_the_node_offers_no_more)
{
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
    int before = cluster_writes(&c);
    cluster_patch(&c, &resource_devices, "n1", "status",
                  "{\"status\":{\"withdrawal\":\"a-1\",\"resources\":[{\"name\":\"nvidia.com/gpu\","
                  "\"count\":1,\"publisher\":\"controller\"}]}}");
    cluster_settle(&c);
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    cr_expect_str_eq(JX_STR_AT(device, "spec", "withdrawn"), "a-1");
    cr_expect_str_eq(JX_STR_AT(node, "status", "allocatable", "nvidia.com/gpu"), "1");
    cr_expect_lt(version_of(node), version_of(device), "the Node first");
    cr_expect_eq(cluster_writes(&c) - before, 2, "the Node and the spec");

    cluster_patch(&c, &resource_devices, "n1", "status", "{\"status\":{\"withdrawal\":null}}");
    cluster_settle(&c);
    auto_json json_t *after = cluster_get(&c, &resource_devices, "n1");
    cr_expect_null(JX_AT(after, "spec", "withdrawn"));
    cr_expect_eq(cluster_writes(&c) - before, 3, "and the spec again");
}

Test(device_spec, every_write_changes_something)
{
    cluster_add_node(&c, "n1", 2);
    cluster_add_node(&c, "n2", 2);
    cluster_apply(&c, PROFILE("p", HALVES));
    size_t before = kc_fake_writes(c.api);
    cluster_settle(&c);
    size_t events = recorder_stats(c.recorder).written;
    cr_expect_eq((size_t)cluster_writes(&c), kc_fake_writes(c.api) - before - events);
}

Test(device_spec, an_edit_that_means_the_same_for_a_node_does_not_touch_its_device)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_apply(&c, PROFILE("p", HALVES "  paused: true\n"));
    cluster_settle(&c);
    cr_expect_eq(cluster_nodes_in_change(&c), 0);
}

Test(device_spec, a_profile_that_goes_leaves_the_hardware)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    cluster_remove(&c, &resource_gpuprofiles, "p");
    cluster_settle(&c);
    expect_spec("n1", "");
}

Test(device_spec, the_label_beats_the_profile)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    expect_spec("n1", "0:mig[1g.10gb*7]");
    auto_free char *ready = cluster_condition(&c, &resource_gpuprofiles, "p", "Ready");
    cr_assert_str_eq(ready, "False Overridden");
}

Test(device_spec, two_profiles_of_equal_priority_leave_the_card_as_it_is)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cluster_apply(&c, PROFILE("q", SEVENTHS));
    cluster_settle(&c);
    expect_spec("n1", "0:mig[3g.40gb*2]");
    auto_free char *p = cluster_condition(&c, &resource_gpuprofiles, "p", "Accepted");
    auto_free char *q = cluster_condition(&c, &resource_gpuprofiles, "q", "Accepted");
    cr_expect_str_eq(p, "False Conflict");
    cr_expect_str_eq(q, "False Conflict");
}

Test(device_spec, the_higher_priority_wins)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_apply(&c, PROFILE("q", SEVENTHS "  priority: 10\n"));
    cluster_settle(&c);
    expect_spec("n1", "0:mig[1g.10gb*7]");
}

Test(device_spec, a_config_that_is_edited_while_in_force_is_followed)
{
    static const char *const first = "apiVersion: gpu.cleave.dev/v1alpha1\n"
                                     "kind: MIGConfig\n"
                                     "metadata: {name: mine}\n"
                                     "spec: {devices: [{migEnabled: true, migDevices: "
                                     "{3g.40gb: 2}}]}\n";
    static const char *const second = "apiVersion: gpu.cleave.dev/v1alpha1\n"
                                      "kind: MIGConfig\n"
                                      "metadata: {name: mine}\n"
                                      "spec: {devices: [{migEnabled: true, migDevices: "
                                      "{7g.80gb: 1}}]}\n";
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, first);
    cluster_label(&c, "n1", "nvidia.com/mig.config", "mine");
    cluster_settle(&c);
    expect_spec("n1", "0:mig[3g.40gb*2]");
    cluster_apply(&c, second);
    cluster_settle(&c);
    expect_spec("n1", "0:mig[7g.80gb*1]");
}

Test(device_spec, garbage_in_the_status_stops_nothing_and_breaks_nothing)
{
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    cluster_apply(&c, PROFILE("p", HALVES "  rollout: {maxUnavailable: 2}\n"));
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {devices: 7, models: yes}}");
    cluster_settle(&c);
    expect_spec("n1", "0:mig[3g.40gb*2]");
    auto_free char *profile = cluster_profile(&c, "p");
    cr_assert_str_eq(profile, "2/1/0/1 False Invalid");
}

Test(device_spec, without_cards_in_sight_the_spec_stays)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {devices: null}}");
    cluster_settle(&c);
    expect_spec("n1", "0:mig[3g.40gb*2]");
}

Test(device_spec, a_node_of_the_same_name_is_another_owner)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    auto_json json_t *before = cluster_get(&c, &resource_nodes, "n1");
    cluster_remove(&c, &resource_nodes, "n1");
    cluster_settle(&c);
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    const json_t *owners = JX_AT(device, "metadata", "ownerReferences");
    cr_assert_eq(json_array_size(owners), 1);
    cr_assert_str_neq(JX_STR_AT(json_array_get(owners, 0), "uid"),
                      JX_STR_AT(before, "metadata", "uid"));
}

/* A profile that somebody's finalizer keeps from going is nobody's work any more. */
Test(device_spec, a_profile_that_is_going_leaves_the_controller_at_rest)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, PROFILE("p", HALVES));
    cluster_settle(&c);
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{metadata: {finalizers: [test/keep]}}");
    cluster_remove(&c, &resource_gpuprofiles, "p");
    cluster_settle(&c); /* fails when it never comes to rest */
    expect_spec("n1", "");
}
