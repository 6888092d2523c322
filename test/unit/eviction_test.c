/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "controller/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(eviction, .init = setup, .fini = teardown);

#define PROFILE(profiles)                                                                          \
    "apiVersion: gpu.cleave.dev/v1alpha1\n"                                                        \
    "kind: GPUProfile\n"                                                                           \
    "metadata: {name: p}\n"                                                                        \
    "spec:\n"                                                                                      \
    "  nodeSelector: {matchLabels: {pool: a}}\n"                                                   \
    "  rollout: {drain: evict}\n"                                                                  \
    "  devices: [{selector: {indices: [0]}, mode: mig, mig: {profiles: " profiles "}}]\n"

static void want(const char *profile)
{
    cluster_apply(&c, profile);
    cluster_settle(&c);
}

/* A pod on the node that uses the first partition of its card. Caller frees its uid. */
static char *run_pod(void)
{
    auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:[]}}", "apiVersion",
                                       "v1", "kind", "Pod", "metadata", "namespace", "default",
                                       "name", "user", "spec", "nodeName", "n1", "containers");
    const struct kc_target t = {.res = &resource_pods, .ns = "default"};
    auto_json json_t *made = NULL;
    cr_assert_eq(kc_create(c.api, c.scope, &t, &(struct kc_write){.body = body}, &made, NULL), 0);
    return xstrdup(JX_STR_AT(made, "metadata", "uid"));
}

/* The agent waits for the partition with this number, which the pod uses. */
static void agent_drains(const char *uid, int64_t generation)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *devices = json_deep_copy(JX_AT(device, "status", "devices"));
    json_t *card = json_array_get(devices, 0);
    json_t *partition = json_array_get(json_object_get(card, "partitions"), 0);
    (void)json_object_set_new(partition, "inUseBy",
                              json_pack("[{s:i, s:s}]", "pid", 7, "uid", uid));
    (void)json_object_set_new(card, "drain",
                              json_pack("{s:s, s:[O]}", "since", "2026-01-01T00:00:00Z",
                                        "partitions", json_object_get(partition, "uuid")));
    auto_free char *text = json_dumps(devices, 0);
    auto_free char *patch =
        xasprintf("{status: {observedGeneration: %lld, devices: %s}}", (long long)generation, text);
    cluster_patch(&c, &resource_devices, "n1", "status", patch);
}

static int64_t generation(void)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    return json_integer_value(JX_AT(device, "metadata", "generation"));
}

static bool is_there(void)
{
    const struct kc_target t = {.res = &resource_pods, .ns = "default", .name = "user"};
    auto_json json_t *pod = NULL;
    return kc_get(c.api, c.scope, &t, &pod, NULL) == 0 &&
           !JX_AT(pod, "metadata", "deletionTimestamp");
}

Test(eviction, pod_in_the_way_is_evicted)
{
    want(PROFILE("{1g.10gb: 7}"));
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    auto_free char *uid = run_pod();
    want(PROFILE("{3g.40gb: 2}"));
    agent_drains(uid, generation());
    cluster_settle(&c);
    cr_expect_not(is_there());
}

/* What the agent says about an older spec tells nothing about who is in the way of this one. */
Test(eviction, pod_in_the_way_of_an_older_spec_stays)
{
    want(PROFILE("{1g.10gb: 7}"));
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    auto_free char *uid = run_pod();
    want(PROFILE("{3g.40gb: 2}"));
    int64_t old = generation();
    want(PROFILE("{1g.10gb: 7}"));
    cr_assert_gt(generation(), old);
    agent_drains(uid, old);
    cluster_settle(&c);
    cr_expect(is_there(), "nothing has to go for what is wanted now");
}
