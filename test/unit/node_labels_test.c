/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "cluster_support.h"
#include "service/resources.h"

/*
 * The label protocol of mig-manager, with the defects that its code has (NVIDIA/mig-parted
 * cmd/nvidia-mig-manager, as of v0.12): each is a test here, named "defect".
 */

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(node_labels, .init = setup, .fini = teardown);

static void want(const char *value)
{
    cluster_label(&c, "n1", LABEL_MIG_CONFIG, value);
    cluster_settle(&c);
}

static void agent(void)
{
    cluster_agent(&c, "n1");
    cluster_settle(&c);
}

static void agent_fails(const char *reason)
{
    cluster_agent_fails(&c, "n1", reason);
    cluster_settle(&c);
}

static void expect_state(const char *expected)
{
    auto_free char *state = cluster_label_of(&c, "n1", LABEL_MIG_CONFIG_STATE);
    cr_assert_str_eq(state, expected);
}

static void expect_label(const char *key, const char *expected)
{
    auto_free char *value = cluster_label_of(&c, "n1", key);
    cr_assert_str_eq(value, expected);
}

static void expect_spec(const char *expected)
{
    auto_free char *spec = cluster_spec(&c, "n1");
    cr_assert_str_eq(spec, expected);
}

#define CONFIG(name, devices)                                                                      \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: MIGConfig\n"                                                                            \
    "metadata: {name: " name "}\n"                                                                 \
    "spec: {devices: [" devices "]}\n"

Test(node_labels, there_is_no_state_without_the_label)
{
    expect_state("");
}

Test(node_labels, pending_then_success)
{
    want("all-1g.10gb");
    expect_state("pending");
    agent();
    expect_state("success");
}

Test(node_labels, an_unknown_name_fails_with_an_event_and_touches_nothing)
{
    want("no-such");
    expect_state("failed");
    expect_spec("");
    cr_assert(cluster_has_event(&c, "n1", "UnknownConfig"));
}

static void expect_refusal(const char *value, const char *part)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    const char *message = JX_STR_AT(device, "spec", "refusedLabel", "message");
    const char *said = JX_STR_AT(device, "spec", "refusedLabel", "value");
    cr_assert_str_eq(said ? said : "", value);
    cr_assert(strstr(message ? message : "", part), "%s", message);
}

Test(node_labels, what_is_refused_stands_in_the_device_until_the_label_is_right)
{
    want("wrong1");
    expect_refusal("wrong1", "wrong1");
    want("wrong2");
    expect_refusal("wrong2", "wrong2");
    cluster_restart(&c);
    cluster_settle(&c);
    expect_refusal("wrong2", "wrong2");
    cr_expect_eq(cluster_writes(&c), 0);
    want("all-1g.10gb");
    expect_refusal("", "");
    agent();
    want("wrong3");
    expect_refusal("wrong3", "wrong3");
    expect_spec("0:mig[1g.10gb*7] 1:mig[1g.10gb*7]");
    want(NULL);
    expect_refusal("", "");
}

/* A refusal that is longer than its field holds is cut between characters. */
Test(node_labels, a_long_refusal_is_cut)
{
    auto_sb struct sb yaml = SB_INIT(65536);
    for (int i = 0; i < 60; i++)
        sb_addf(&yaml,
                "---\napiVersion: gpu.cleave.dev/v1alpha1\nkind: MIGConfig\nmetadata: {name: "
                "a-name-that-is-of-some-length-%d}\nspec: {devices: [{migEnabled: false}]}\n",
                i);
    cluster_apply(&c, sb_str(&yaml));
    want("wrong1");
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    cr_expect_leq(strlen(JX_STR_AT(device, "spec", "refusedLabel", "message")),
                  DEVICE_REFUSAL_BYTES);
}

Test(node_labels, each_mistake_in_the_label_is_an_event_and_the_same_one_is_once)
{
    want("wrong1");
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", "wrong1"), 1);
    want("wrong2");
    expect_state("failed");
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", "wrong2"), 1);
    cluster_label(&c, "n1", "elsewhere", "x");
    cluster_settle(&c);
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", ""), 2);
    want("wrong1"); /* a series of the first one: the note is the same */
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", ""), 2);
    want(NULL);
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", ""), 2);
}

Test(node_labels, the_next_process_does_not_tell_the_mistake_again)
{
    want("wrong1");
    cluster_restart(&c);
    cluster_settle(&c);
    cluster_label(&c, "n1", "elsewhere", "x");
    cluster_settle(&c);
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", ""), 1);

    want("wrong2");
    cr_expect_eq(cluster_count_events(&c, "n1", "UnknownConfig", "wrong2"), 1);
}

Test(node_labels, a_name_that_appears_later_heals_the_failure)
{
    want("mine");
    expect_state("failed");
    cluster_apply(&c, CONFIG("mine", "{migEnabled: true, migDevices: {3g.40gb: 2}}"));
    cluster_settle(&c);
    expect_state("pending");
    agent();
    expect_state("success");
}

/* Defect 1: a timeout on the way left the state pending and the node without capacity for ever. */
Test(node_labels, defect_1_a_drain_that_times_out_ends_as_failed)
{
    want("all-1g.10gb");
    agent_fails("DrainTimeout");
    expect_state("failed");
    agent();
    expect_state("success");
}

/* Defect 2: the first failure after a success left things stopped, because flags were never reset.
 */
Test(node_labels, defect_2_a_failure_after_a_success_can_be_left_again)
{
    want("all-1g.10gb");
    agent();
    want("all-3g.40gb");
    agent_fails("RolledBack");
    expect_state("failed");
    want("all-1g.10gb");
    agent();
    expect_state("success");
}

/* Defect 3: a mode that could not be changed was not reported. */
Test(node_labels, defect_3_a_mode_that_does_not_change_is_said)
{
    want("all-1g.10gb");
    agent_fails("ResetRequired");
    expect_state("failed");
    cr_assert(cluster_has_event(&c, "n1", "ResetRequired"));
    agent_fails("RebootRequired");
    expect_state("rebooting");
}

/* Defect 4: one card without MIG made every run clear all partitions, and failed. */
Test(node_labels, defect_4_a_card_without_mig_is_passed_over)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    json_t *cards = json_object_get(json_object_get(device, "status"), "devices");
    json_t *patched = json_deep_copy(cards);
    (void)json_object_set_new(json_array_get(patched, 1), "migCapable", json_false());
    (void)json_object_set_new(json_array_get(patched, 1), "model", json_string("Tesla T4"));
    auto_json json_t *patch = json_pack("{s:{s:o}}", "status", "devices", patched);
    auto_free char *text = jx_dump(patch);
    cluster_patch(&c, &resource_devices, "n1", "status", text);
    cluster_apply(&c, CONFIG("mine", "{migEnabled: true, migDevices: {3g.40gb: 2}}"));
    want("mine");
    expect_spec("0:mig[3g.40gb*2]");
    agent();
    expect_state("success");
}

/* Defect 5: a configuration that does not cover all cards was applied anew at every restart. */
Test(node_labels, defect_5_a_config_for_some_cards_is_done_when_these_are)
{
    cluster_apply(&c, CONFIG("mine", "{indices: [1], migEnabled: true, migDevices: {3g.40gb: 2}}"));
    want("mine");
    expect_spec("1:mig[3g.40gb*2]");
    agent();
    expect_state("success");
    cluster_restart(&c);
    cluster_settle(&c);
    cr_assert_eq(cluster_writes(&c), 0);
}

/* Defect 6: the label was all that told what happened. */
Test(node_labels, defect_6_success_and_failure_are_events_too)
{
    want("all-1g.10gb");
    agent_fails("RolledBack");
    cr_assert(cluster_has_event(&c, "n1", "RolledBack"));
    agent();
    cr_assert(cluster_has_event(&c, "n1", "MIGConfigApplied"));
}

Test(node_labels, a_profile_that_was_taken_for_the_nearest_is_an_event)
{
    want("all-1g.10gb");
    agent();
    cr_assert_not(cluster_has_event(&c, "n1", "ProfileRounded"));
    want("all-1g.11gb");
    agent();
    expect_state("success");
    cr_assert(cluster_has_event(&c, "n1", "ProfileRounded"));
}

Test(node_labels, taking_the_label_off_and_setting_it_again_changes_nothing_on_the_card)
{
    want("all-1g.10gb");
    agent();
    want(NULL);
    expect_state("");
    expect_spec("");
    want("all-1g.10gb");
    agent();
    expect_state("success");
}

Test(node_labels, the_last_value_counts_when_it_changed_while_busy)
{
    want("all-1g.10gb");
    want("all-3g.40gb");
    want("all-1g.10gb");
    expect_state("pending");
    agent();
    expect_spec("0:mig[1g.10gb*7] 1:mig[1g.10gb*7]");
    expect_state("success");
}

Test(node_labels, removing_the_label_while_busy_is_no_failure)
{
    want("all-1g.10gb");
    want(NULL);
    expect_state("");
    agent();
    expect_state("");
}

Test(node_labels, an_edit_of_the_config_in_force_is_pending_again)
{
    cluster_apply(&c, CONFIG("mine", "{migEnabled: true, migDevices: {3g.40gb: 2}}"));
    want("mine");
    agent();
    expect_state("success");
    cluster_apply(&c, CONFIG("mine", "{migEnabled: true, migDevices: {7g.80gb: 1}}"));
    cluster_settle(&c);
    expect_state("pending");
    agent();
    expect_state("success");
}

Test(node_labels, cards_in_use_fail_until_they_are_free)
{
    want("all-1g.10gb");
    agent_fails("InUse");
    expect_state("failed");
    agent();
    expect_state("success");
}

Test(node_labels, draining_is_pending)
{
    want("all-1g.10gb");
    agent_fails("Draining");
    expect_state("pending");
}

Test(node_labels, hardware_is_described)
{
    expect_label("nvidia.com/gpu.count", "2");
    expect_label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3");
    expect_label("nvidia.com/gpu.memory", "81559");
    expect_label("nvidia.com/mig.capable", "true");
    expect_label("nvidia.com/mig.strategy", "mixed");
}

Test(node_labels, what_somebody_overwrites_is_put_right)
{
    cluster_label(&c, "n1", "nvidia.com/gpu.count", "9");
    cluster_label(&c, "n1", "nvidia.com/gpu.product", NULL);
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.count", "2");
    expect_label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3");
}

Test(node_labels, labels_go_with_the_device)
{
    cluster_remove(&c, &resource_devices, "n1");
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.count", "");
    expect_label("pool", "a");
}

Test(node_labels, garbage_in_the_status_keeps_the_description)
{
    want("all-1g.10gb");
    agent();
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {devices: nonsense}}");
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.count", "2");
    expect_state("failed");
}

/* --- what agents describe --- */

static void report(const char *labels)
{
    auto_free char *patch = xasprintf("{status: {labels: {%s}}}", labels);
    cluster_patch(&c, &resource_devices, "n1", "status", patch);
    cluster_settle(&c);
}

Test(node_labels, follow_what_the_agent_says)
{
    report("nvidia.com/mig-1g.10gb.count: '14'");
    expect_label("nvidia.com/mig-1g.10gb.count", "14");
    report("nvidia.com/mig-1g.10gb.count: null, nvidia.com/mig-3g.40gb.count: '4'");
    expect_label("nvidia.com/mig-1g.10gb.count", "");
    expect_label("nvidia.com/mig-3g.40gb.count", "4");
    cluster_restart(&c);
    cluster_settle(&c);
    cr_assert_eq(cluster_writes(&c), 0);
}

Test(node_labels, of_what_an_agent_may_not_set_nothing_is_written)
{
    report("node-role.kubernetes.io/control-plane: '', pool: b, "
           "nvidia.com/mig.config: all-disabled, nvidia.com/mig.config.state: success, "
           "nvidia.com/gpu.machine: m");
    expect_label("nvidia.com/gpu.machine", "m");
    expect_label("pool", "a");
    expect_label("nvidia.com/mig.config", "");
    expect_label("nvidia.com/mig.config.state", "");
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    cr_expect_null(JX_AT(node, "metadata", "labels", "node-role.kubernetes.io/control-plane"));
}

Test(node_labels, what_a_feature_discovery_has_is_left_to_it)
{
    cluster_label_as(&c, "nfd-master", "n1", "nvidia.com/gpu.product", "Theirs");
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.product", "Theirs");
    expect_label("nvidia.com/gpu.count", "2");
    int before = cluster_writes(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_writes(&c), before, "nobody argues");
    cluster_label_as(&c, "nfd-master", "n1", "nvidia.com/gpu.product", NULL);
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3");
}

Test(node_labels, an_agent_that_does_not_describe_its_cards_leaves_the_description)
{
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {labels: null}}");
    cluster_settle(&c);
    expect_label("nvidia.com/gpu.count", "2");
}
