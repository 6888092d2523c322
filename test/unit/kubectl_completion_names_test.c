/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/xalloc.h"

#include "kubectl/completion_names.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(completion_names, .init = desk_set_up, .fini = desk_tear_down);

static void expect_names(enum completion_kind kind, const char *with, const char *names)
{
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_sb struct sb got = SB_INIT(65536);
    completion_names(desk_kc, s, kind, "ns", with, &got);
    cr_expect_str_eq(sb_str(&got), names, "got \"%s\"", sb_str(&got));
}

Test(completion_names, nodes_are_those_that_have_cards)
{
    desk_node("h100-1", 1);
    desk_node("h100-2", 1);
    desk_node("a100-1", 1);
    expect_names(COMPLETION_NODE, "h", "h100-1\nh100-2\n");
    expect_names(COMPLETION_NODE, "x", "");
}

static void make_pod(const char *ns, const char *name)
{
    auto_free char *pod =
        xasprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: %s}, "
                  "spec: {containers: [{name: a, image: b}]}}",
                  ns, name);
    desk_create(&resource_pods, pod);
}

Test(completion_names, pods_are_those_of_the_namespace_that_wait)
{
    make_pod("ns", "train-0");
    make_pod("ns", "train-1");
    desk_pod_status("train-1", "{phase: Running}");
    make_pod("other", "train-2");
    expect_names(COMPLETION_POD, "tr", "train-0\n");
}

Test(completion_names, what_may_not_be_read_has_none)
{
    desk_node("n1", 1);
    desk_forbid("devices");
    expect_names(COMPLETION_NODE, "", "");
}

Test(completion_names, no_more_than_a_person_reads)
{
    for (int i = 0; i < 300; i++) {
        auto_free char *name = xasprintf("p%d", i);
        make_pod("ns", name);
    }
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_sb struct sb got = SB_INIT(65536);
    completion_names(desk_kc, s, COMPLETION_POD, "ns", "p", &got);
    size_t lines = 0;
    for (const char *at = sb_str(&got); *at; at++)
        lines += *at == '\n';
    cr_expect_eq(lines, 200);
}
