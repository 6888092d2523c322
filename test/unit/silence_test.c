/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/silence.h"
#include "service/resources.h"

/* An agent that does not answer, as the profile, the Node's Events and the rollout show it. */
static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {}\n"
                      "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n");
    cluster_settle(&c); /* n1 has the one place of the budget */
    cluster_add_node(&c, "n2", 1);
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(silence, .init = setup, .fini = teardown);

static void wait_ms(int64_t ms)
{
    clock_fake_advance(c.clk, ms);
    cluster_settle(&c);
}

static void expect_reason(const char *expected)
{
    auto_free char *reason = cluster_condition(&c, &resource_gpuprofiles, "p", "Reconciling");
    cr_assert_str_eq(reason, expected);
}

static void expect_message(const char *part)
{
    auto_json json_t *p = cluster_get(&c, &resource_gpuprofiles, "p");
    auto_free char *status = jx_dump(JX_AT(p, "status", "conditions"));
    cr_assert(strstr(status, part), "%s is not in %s", part, status);
}

Test(silence, of_an_agent_shows_after_a_while_and_without_any_event)
{
    expect_reason("True Progressing");
    wait_ms(SILENCE_AFTER_MS / 2);
    expect_reason("True Progressing");
    wait_ms(SILENCE_AFTER_MS / 2);
    expect_reason("True AgentNotResponding");
    expect_message("0 of 2 nodes are as wanted, 1 in change (of 1 the agent does not answer), 1 "
                   "wait, 0 failed; n1: no answer from cleave-agent on n1 since 20");
    expect_message("to the layout ordered; look at its pod: kubectl get pods -A");
}

Test(silence, is_an_event_on_the_node_and_only_one)
{
    wait_ms(SILENCE_AFTER_MS);
    cr_expect_eq(cluster_count_events(&c, "n1", "AgentNotResponding", "no answer"), 1);
    int writes = cluster_writes(&c);
    wait_ms(SILENCE_AFTER_MS);
    cluster_label(&c, "n1", "elsewhere", "x");
    wait_ms(SILENCE_AFTER_MS);
    cr_expect_eq(cluster_count_events(&c, "n1", "AgentNotResponding", ""), 1);
    cr_expect_eq(cluster_writes(&c), writes);
}

Test(silence, is_no_failure_and_keeps_the_place_in_the_budget)
{
    wait_ms(SILENCE_AFTER_MS);
    auto_free char *status = cluster_profile(&c, "p");
    cr_expect_str_eq(status, "2/0/2/0 False AgentNotResponding");
    auto_free char *waits = cluster_spec(&c, "n2");
    cr_expect_str_eq(waits, "");
}

Test(silence, ends_with_the_answer)
{
    wait_ms(SILENCE_AFTER_MS);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_reason("True Progressing");
    auto_free char *goes = cluster_spec(&c, "n2");
    cr_expect_str_eq(goes, "0:mig[3g.40gb*2]");
    cluster_agent(&c, "n2");
    wait_ms(SILENCE_AFTER_MS);
    expect_reason("");
    cr_expect_eq(cluster_count_events(&c, "n2", "AgentNotResponding", ""), 0);
}

/* Orders that follow each other keep an agent behind that answers each of them. */
Test(silence, is_counted_from_the_last_answer)
{
    wait_ms(SILENCE_AFTER_MS / 2);
    cluster_patch(&c, &resource_devices, "n1", "status", "{status: {observedGeneration: 7}}");
    cluster_settle(&c);
    wait_ms(SILENCE_AFTER_MS / 2);
    expect_reason("True Progressing");
    wait_ms(SILENCE_AFTER_MS / 2);
    expect_reason("True AgentNotResponding");
}
