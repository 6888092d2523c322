/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/breach.h"
#include "service/resources.h"

/* Events about pods whose containers go beyond their shares. */

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(breach, .init = setup, .fini = teardown);

static void add_pod(const char *name, const char *node)
{
    auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s}, s:{s:s}}", "apiVersion", "v1", "kind",
                                       "Pod", "metadata", "name", name, "spec", "nodeName", node);
    const struct kc_target t = {.res = &resource_pods, .ns = "default"};
    const struct kc_write w = {.body = body};
    cr_assert_eq(kc_create(c.api, c.scope, &t, &w, /* ret_obj= */ NULL, /* e= */ NULL), 0);
}

/* So many milliseconds from now. Caller frees. */
static char *in(int64_t ms)
{
    char *text = xmalloc(RFC3339_BYTES);
    rfc3339_format(clock_wall_ms(c.clk) + ms, text);
    return text;
}

static json_t *share_of(const char *pod, const char *since, const char *message)
{
    json_t *share =
        json_pack("{s:s, s:s, s:b, s:[{s:s, s:s, s:s}]}", "uuid", pod, "profile", "share", "inUse",
                  1, "inUseBy", "namespace", "default", "name", pod, "container", "main");
    if (since)
        (void)json_object_set_new(share, "breach",
                                  json_pack("{s:s, s:s, s:s}", "since", since, "reason",
                                            "ShareOverLimit", "message", message));
    return share;
}

/* The first card's shares, as the agent reports them. */
static void report(json_t *shares_take)
{
    auto_json json_t *device = cluster_get(&c, &resource_devices, "n1");
    auto_json json_t *cards = json_deep_copy(JX_AT(device, "status", "devices"));
    (void)json_object_set_new(json_array_get(cards, 0), "partitions", shares_take);
    auto_json json_t *patch = json_pack("{s:{s:O}}", "status", "devices", cards);
    auto_free char *text = jx_dump(patch);
    cluster_patch(&c, &resource_devices, "n1", "status", text);
    cluster_settle(&c);
}

static void report_one(const char *pod, const char *since, const char *message)
{
    report(json_pack("[o]", share_of(pod, since, message)));
}

static int told(const char *pod, const char *part)
{
    return cluster_count_events(&c, pod, "ShareOverLimit", part);
}

Test(breach, a_pod_is_told_once_of_each_breach_of_its_container)
{
    add_pod("greedy", "n1");
    add_pod("modest", "n1");
    auto_free char *now = in(0);
    report(json_pack("[o, o]", share_of("greedy", now, "uses 3500 MiB"),
                     share_of("modest", NULL, NULL)));
    cr_expect_eq(told("greedy", "container main, on node n1: uses 3500 MiB"), 1);
    cr_expect_eq(told("modest", ""), 0);
    report(json_pack("[o, o]", share_of("modest", NULL, NULL),
                     share_of("greedy", now, "uses 3600 MiB")));
    cr_expect_eq(told("greedy", ""), 1, "the same one");
    report_one("greedy", NULL, NULL);
    auto_free char *later = in(0);
    report_one("greedy", later, "uses 3700 MiB");
    cr_expect_eq(told("greedy", "uses 3700 MiB"), 1);
}

Test(breach, what_began_long_before_this_process_was_told_by_the_one_before)
{
    add_pod("greedy", "n1");
    auto_free char *now = in(0);
    report_one("greedy", now, "uses 3500 MiB");
    for (int i = 0; i < 100; i++)
        cluster_settle(&c);
    auto_free char *later = in(0);
    cluster_restart(&c);
    cluster_settle(&c);
    cr_expect_eq(told("greedy", ""), 1);
    report_one("greedy", later, "uses 3700 MiB");
    cr_expect_eq(told("greedy", "uses 3700 MiB"), 1);
}

Test(breach, an_agent_tells_pods_of_its_own_node_alone)
{
    add_pod("elsewhere", "n2");
    auto_free char *now = in(0);
    report_one("elsewhere", now, "uses 3500 MiB");
    cr_expect_eq(told("elsewhere", ""), 0);
}

Test(breach, a_pod_that_was_made_anew_under_the_name_is_not_meant)
{
    add_pod("reborn", "n1");
    auto_free char *before = in(-5000);
    report_one("reborn", before, "uses 3500 MiB");
    cr_expect_eq(told("reborn", ""), 0);
}

Test(breach, a_share_whose_pod_is_not_named_yet_tells_nobody)
{
    auto_free char *now = in(0);
    json_t *share = share_of("a", now, "uses 3500 MiB");
    (void)json_object_set_new(share, "inUseBy", json_pack("[{s:s}]", "uid", "u"));
    report(json_pack("[o]", share));
    (void)json_object_set_new(share = share_of("a", now, "x"), "inUseBy", json_array());
    report(json_pack("[o]", share));
    cr_expect_eq(told("a", ""), 0);
}

/* As one whose pod the kubelet lists late, and as times in a status have seconds. */
Test(breach, what_comes_later_and_began_earlier_is_told_as_well)
{
    add_pod("greedy", "n1");
    add_pod("late", "n1");
    auto_free char *now = in(0);
    report_one("greedy", now, "uses 3500 MiB");
    report(json_pack("[o, o]", share_of("greedy", now, "uses 3500 MiB"),
                     share_of("late", now, "uses 9000 MiB")));
    cr_expect_eq(told("late", "uses 9000 MiB"), 1);
    cr_expect_eq(told("greedy", ""), 1);
}
