/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"

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

TestSuite(migconfig_status, .init = setup, .fini = teardown);

#define CONFIG(name, more)                                                                         \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: MIGConfig\n"                                                                            \
    "metadata: {name: " name "}\n"                                                                 \
    "spec:\n"                                                                                      \
    "  devices: [{migEnabled: true, migDevices: {3g.40gb: 2}}]\n" more

static void expect(const char *name, const char *type, const char *expected)
{
    auto_free char *is = cluster_condition(&c, &resource_migconfigs, name, type);
    cr_assert_str_eq(is, expected);
}

static void expect_used(const char *name, int64_t profiles, int64_t nodes)
{
    auto_json json_t *obj = cluster_get(&c, &resource_migconfigs, name);
    cr_expect_eq(json_integer_value(JX_AT(obj, "status", "usedBy", "gpuProfiles")), profiles);
    cr_expect_eq(json_integer_value(JX_AT(obj, "status", "usedBy", "nodes")), nodes);
}

Test(migconfig_status, counts_who_uses_it_by_name_and_alias)
{
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    cluster_apply(&c, CONFIG("mine", "  aliases: [My_Halves]\n"));
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  devices: [{mode: mig, mig: {config: My_Halves}}]\n");
    cluster_label(&c, "n1", "nvidia.com/mig.config", "mine");
    cluster_label(&c, "n2", "nvidia.com/mig.config", "My_Halves");
    cluster_settle(&c);
    expect("mine", "Accepted", "True Accepted");
    expect("mine", "Reconciling", "True Progressing");
    expect_used("mine", 1, 2);
    cluster_label(&c, "n2", "nvidia.com/mig.config", NULL);
    cluster_settle(&c);
    expect_used("mine", 1, 1);
}

Test(migconfig_status, ready_means_that_the_hardware_is_as_it_says)
{
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, CONFIG("mine", ""));
    cluster_settle(&c);
    expect("mine", "Ready", "True Accepted");
    cluster_label(&c, "n1", "nvidia.com/mig.config", "mine");
    cluster_settle(&c);
    expect("mine", "Ready", "False Progressing");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect("mine", "Ready", "True Applied");
    cluster_patch(&c, &resource_migconfigs, "mine", NULL,
                  "{spec: {devices: [{migEnabled: true, migDevices: {7g.80gb: 1}}]}}");
    cluster_settle(&c);
    expect("mine", "Ready", "False Progressing");
    cluster_agent_fails(&c, "n1", "RolledBack");
    cluster_settle(&c);
    expect("mine", "Stalled", "True RolledBack");
}

Test(migconfig_status, a_profile_brings_it_to_its_nodes)
{
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    cluster_apply(&c, CONFIG("mine", ""));
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  devices: [{mode: mig, mig: {config: mine}}]\n"
                      "  rollout: {maxUnavailable: 2}\n");
    cluster_settle(&c);
    expect("mine", "Ready", "False Progressing");
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect("mine", "Ready", "True Applied");
    cluster_remove(&c, &resource_gpuprofiles, "p");
    cluster_settle(&c);
    expect("mine", "Ready", "True Accepted");
}

Test(migconfig_status, the_older_alias_wins_and_the_younger_is_told)
{
    cluster_apply(&c, CONFIG("older", "  aliases: [Halves]\n"));
    clock_fake_advance(c.clk, 5000);
    cluster_apply(&c, CONFIG("elder", "  aliases: [Halves]\n"));
    cluster_settle(&c);
    expect("older", "Accepted", "True Accepted");
    expect("elder", "Accepted", "False Conflict");
    cluster_remove(&c, &resource_migconfigs, "older");
    cluster_settle(&c);
    expect("elder", "Accepted", "True Accepted");
}

Test(migconfig_status, a_name_beats_an_alias)
{
    cluster_apply(&c, CONFIG("alpha", "  aliases: [beta]\n"));
    clock_fake_advance(c.clk, 5000);
    cluster_apply(&c, CONFIG("beta", ""));
    cluster_settle(&c);
    expect("alpha", "Stalled", "True Conflict");
    expect("beta", "Accepted", "True Accepted");
}

Test(migconfig_status, what_makes_no_sense_is_invalid)
{
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: MIGConfig\n"
                      "metadata: {name: mine}\n"
                      "spec: {devices: [{migEnabled: true, migDevices: {nonsense: 2}}]}\n");
    cluster_settle(&c);
    expect("mine", "Accepted", "False Invalid");
}

Test(migconfig_status, nothing_is_written_when_nothing_changed)
{
    cluster_apply(&c, CONFIG("mine", ""));
    cluster_settle(&c);
    cluster_restart(&c);
    cluster_settle(&c);
    cr_assert_eq(cluster_writes(&c), 0);
}

Test(migconfig_status, many_nodes_end_as_few_do)
{
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    cluster_apply(&c, CONFIG("mine", ""));
    cluster_label(&c, "n1", "nvidia.com/mig.config", "mine");
    cluster_label(&c, "n2", "nvidia.com/mig.config", "mine");
    c.many_nodes = 1;
    cluster_restart(&c);
    cluster_settle(&c);
    expect("mine", "Ready", "False Progressing");
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect("mine", "Ready", "True Applied");
}
