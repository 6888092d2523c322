/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/serving.h"
#include "service/resources.h"

/* An agent that died with devices on offer, as the Device, the profile and the Events show it. */
static struct cluster c;

static void node_says(const char *ready, const char *allocatable)
{
    auto_free char *patch =
        xasprintf("{status: {conditions: [{type: Ready, status: \"%s\"}], capacity: "
                  "{nvidia.com/gpu: \"2\"}, allocatable: {nvidia.com/gpu: \"%s\"}}}",
                  ready, allocatable);
    cluster_patch(&c, &resource_nodes, "n1", "status", patch);
    cluster_settle(&c);
}

static void device_offers(int count, const char *publisher)
{
    auto_free char *patch = xasprintf("{status: {resources: [{name: nvidia.com/gpu, count: %d, "
                                      "publisher: %s}]}}",
                                      count, publisher);
    cluster_patch(&c, &resource_devices, "n1", "status", patch);
    cluster_settle(&c);
}

/* As the agent replaces its status. */
static void agent_says_ready(void)
{
    cluster_patch(
        &c, &resource_devices, "n1", "status",
        "{status: {conditions: [{type: Ready, status: \"True\", reason: Applied, message: "
        "well, lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}}");
    cluster_settle(&c);
}

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 2);
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  devices: [{mode: native}]\n");
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    device_offers(2, "kubelet");
    agent_says_ready();
    node_says("True", "2");
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(serving, .init = setup, .fini = teardown);

static void wait_ms(int64_t ms)
{
    clock_fake_advance(c.clk, ms);
    cluster_settle(&c);
}

static void expect_ready(const char *expected)
{
    auto_free char *ready = cluster_condition(&c, &resource_devices, "n1", "Ready");
    cr_assert_str_eq(ready, expected);
}

Test(serving, an_agent_that_is_gone_shows_after_a_while)
{
    auto_free char *before = cluster_profile(&c, "p");
    cr_expect_str_eq(before, "1/1/0/0 True Applied");
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS / 2);
    expect_ready("True Applied");
    wait_ms(SERVING_AFTER_MS / 2);
    expect_ready("Unknown AgentNotServing");
    auto_free char *after = cluster_profile(&c, "p");
    cr_expect_str_eq(after, "1/0/1/0 False AgentNotServing");
    cr_expect_eq(cluster_count_events(&c, "n1", SERVING_GONE, "kubectl get pods -A"), 1);
}

Test(serving, nothing_more_is_written_while_it_stays_gone)
{
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS);
    int writes = cluster_writes(&c);
    wait_ms(SERVING_AFTER_MS);
    cluster_label(&c, "n1", "elsewhere", "x");
    wait_ms(10 * SERVING_AFTER_MS);
    cr_expect_eq(cluster_writes(&c), writes);
    cr_expect_eq(cluster_count_events(&c, "n1", SERVING_GONE, ""), 1);
}

Test(serving, an_agent_that_takes_it_back_is_left_alone)
{
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS);
    agent_says_ready();
    int writes = cluster_writes(&c);
    wait_ms(10 * SERVING_AFTER_MS);
    expect_ready("True Applied");
    cr_expect_eq(cluster_writes(&c), writes, "two programs must not write by turns");
    auto_free char *status = cluster_profile(&c, "p");
    cr_expect_str_eq(status, "1/1/0/0 True Applied");
}

Test(serving, the_next_time_counts_anew)
{
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS);
    agent_says_ready();
    node_says("True", "2");
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS / 2);
    expect_ready("True Applied");
    wait_ms(SERVING_AFTER_MS / 2);
    expect_ready("Unknown AgentNotServing");
}

Test(serving, the_next_controller_finds_it_said_already)
{
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS);
    cluster_restart(&c);
    wait_ms(SERVING_AFTER_MS);
    expect_ready("Unknown AgentNotServing");
    cr_expect_eq(cluster_writes(&c), 0);
    auto_free char *status = cluster_profile(&c, "p");
    cr_expect_str_eq(status, "1/0/1/0 False AgentNotServing");
}

Test(serving, all_else_of_the_status_stays)
{
    auto_json json_t *before = cluster_get(&c, &resource_devices, "n1");
    node_says("True", "0");
    wait_ms(SERVING_AFTER_MS);
    auto_json json_t *after = cluster_get(&c, &resource_devices, "n1");
    (void)json_object_del(json_object_get(before, "status"), "conditions");
    (void)json_object_del(json_object_get(after, "status"), "conditions");
    cr_expect(json_equal(json_object_get(before, "status"), json_object_get(after, "status")));
}

static void expect_no_contradiction(const char *why)
{
    wait_ms(2 * SERVING_AFTER_MS);
    auto_free char *ready = cluster_condition(&c, &resource_devices, "n1", "Ready");
    cr_expect_str_eq(ready, "True Applied", "%s", why);
}

Test(serving, what_is_no_contradiction)
{
    node_says("Unknown", "0");
    expect_no_contradiction("the kubelet does not report");
    node_says("True", "1");
    expect_no_contradiction("some can be had");
    device_offers(0, "kubelet");
    node_says("True", "0");
    expect_no_contradiction("all cards are ill");
    device_offers(2, "other");
    expect_no_contradiction("another's plugin serves");
    cluster_patch(
        &c, &resource_nodes, "n1", "status",
        "{status: {capacity: {nvidia.com/gpu: null}, allocatable: {nvidia.com/gpu: null}}}");
    device_offers(2, "kubelet");
    expect_no_contradiction("the kubelet has not listed them yet");
}
