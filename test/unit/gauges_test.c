/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/gauges.h"
#include "service/resources.h"

static struct cluster c;
static struct metrics *m;
static struct gauges *g;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    m = metrics_new();
    g = gauges_new(m, &reconcilers_context(c.reconcilers)->caches);
}

static void teardown(void)
{
    (void)gauges_free(g);
    (void)metrics_free(m);
    cluster_stop(&c);
}

TestSuite(gauges, .init = setup, .fini = teardown);

static void expect_line(const char *line)
{
    auto_sb struct sb text = SB_INIT(100000);
    metrics_write(m, &text);
    auto_free char *whole = xasprintf("\n%s\n", line);
    cr_expect_not_null(strstr(sb_str(&text), whole), "%s is not in:\n%s", line, sb_str(&text));
}

static void apply_profile(void)
{
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  rollout: {maxUnavailable: 2}\n"
                      "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n");
    cluster_settle(&c);
}

Test(gauges, an_empty_cluster_counts_as_zero)
{
    expect_line("cleave_controller_profiles{ready=\"true\"} 0");
    expect_line("cleave_controller_profiles{ready=\"unknown\"} 0");
    expect_line("cleave_controller_profiles_stalled 0");
    expect_line("cleave_controller_nodes{state=\"failed\"} 0");
}

Test(gauges, profiles_are_counted_by_readiness)
{
    apply_profile();
    expect_line("cleave_controller_profiles{ready=\"false\"} 1");
    cluster_agent(&c, "n1");
    cluster_agent(&c, "n2");
    cluster_settle(&c);
    expect_line("cleave_controller_profiles{ready=\"true\"} 1");
    expect_line("cleave_controller_profiles{ready=\"false\"} 0");
    cluster_remove(&c, &resource_gpuprofiles, "p");
    cluster_settle(&c);
    expect_line("cleave_controller_profiles{ready=\"true\"} 0");
}

Test(gauges, a_profile_with_a_failed_node_is_stalled)
{
    apply_profile();
    cluster_agent(&c, "n1");
    cluster_agent_fails(&c, "n2", "RolledBack");
    cluster_settle(&c);
    expect_line("cleave_controller_profiles_stalled 1");
}

#define CONDITION(type, status)                                                                    \
    "{\"type\": \"" type "\", \"status\": \"" status                                               \
    "\", \"reason\": \"R\", \"message\": \"m\", \"observedGeneration\": 1, "                       \
    "\"lastTransitionTime\": \"2026-01-01T00:00:00Z\"}"
#define STATUS(list) "{\"status\": {\"conditions\": [" list "]}}"

Test(gauges, devices_are_counted_as_their_agents_say)
{
    cluster_settle(&c);
    expect_line("cleave_controller_devices{ready=\"unknown\"} 2");
    cluster_patch(&c, &resource_devices, "n1", "status", STATUS(CONDITION("Ready", "True")));
    cluster_patch(&c, &resource_devices, "n2", "status",
                  STATUS(CONDITION("Ready", "False") ", " CONDITION("Stalled", "True")));
    cluster_settle(&c);
    expect_line("cleave_controller_devices{ready=\"true\"} 1");
    expect_line("cleave_controller_devices{ready=\"false\"} 1");
    expect_line("cleave_controller_devices{ready=\"unknown\"} 0");
    expect_line("cleave_controller_devices_stalled 1");
}

Test(gauges, devices_whose_agents_owe_an_answer_are_counted)
{
    apply_profile();
    expect_line("cleave_controller_devices_unanswered 2");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_line("cleave_controller_devices_unanswered 1");
}

Test(gauges, nodes_are_counted_by_the_state_of_their_label)
{
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    expect_line("cleave_controller_nodes{state=\"pending\"} 1");
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_line("cleave_controller_nodes{state=\"pending\"} 0");
    expect_line("cleave_controller_nodes{state=\"success\"} 1");
    expect_line("cleave_controller_nodes{state=\"other\"} 0");
}
