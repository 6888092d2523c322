/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "interop/neighbour_pods.h"
#include "nodeagent/report/neighbours.h"
#include "service/conditions.h"

Test(neighbour_pods, programs_are_known_by_the_names_of_their_pods)
{
    static const struct {
        const char *pod, *container, *title;
    } cases[] = {
        {"nvidia-mig-manager-x7k2p", "nvidia-mig-manager", "NVIDIA's mig-manager"},
        {"nvidia-device-plugin-daemonset-abcde", "nvidia-device-plugin", "NVIDIA's device plugin"},
        {"nvdp-nvidia-device-plugin-abcde", "nvidia-device-plugin-ctr", "NVIDIA's device plugin"},
        {"nvidia-device-plugin-validator-abcde", "nvidia-device-plugin-validator", NULL},
        {"nvidia-device-plugin-mps-control-daemon-abcde", "mps-control-daemon-ctr", NULL},
        {"gpu-feature-discovery-abcde", "gpu-feature-discovery", NULL},
        {"hami-device-plugin-abcde", "device-plugin", "HAMi's device plugin"},
        {"volcano-device-plugin-abcde", "volcano-device-plugin", "Volcano's device plugin"},
        {"metax-gpu-device-abcde", "gpu-device", "MetaX's device plugin"},
        {"metax-gpu-label-abcde", "gpu-label", NULL},
        {"cleave-agent-abcde", "agent", NULL},
        {"", "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct neighbour *n = neighbour_of_pod(cases[i].pod, cases[i].container);
        cr_expect_eq(!n, !cases[i].title, "%s", cases[i].pod);
        if (n && cases[i].title)
            cr_expect_str_eq(n->title, cases[i].title);
    }
}

/* The condition of a node with these pods; the status is "(none)" where there is no condition. */
static void expect(const struct node_state *s, const char *said, const char *words)
{
    struct device_status st = {0};
    neighbours_build(s, 1000, &st);
    const struct condition *c = condition_get(&st.conditions, NEIGHBOURS_CONDITION);
    cr_expect_str_eq(c ? c->reason : "(none)", said);
    cr_expect(!c || c->status == CONDITION_TRUE);
    cr_expect(!c || strstr(c->message, words), "%s", c ? c->message : "");
    conditions_done(&st.conditions);
}

static void add(struct neighbours *l, const char *pod)
{
    neighbours_add(l, "gpu-operator", pod, "nvidia-device-plugin");
}

Test(neighbours, each_is_said_with_its_pod_and_what_switches_it_off)
{
    auto_neighbours struct neighbours l = {0};
    const struct node_state s = {.node = "n1",
                                 .neighbours = &l,
                                 .means.publisher = API_PUBLISHER_KUBELET};
    expect(&s, "(none)", "");
    add(&l, "web-1");
    expect(&s, "(none)", "");
    add(&l, "nvidia-device-plugin-daemonset-a");
    add(&l, "nvidia-device-plugin-daemonset-a");
    cr_expect_eq(l.n, 1);
    expect(&s, "DevicePlugin",
           "NVIDIA's device plugin offers cards to the kubelet that the agent offers too (pod "
           "gpu-operator/nvidia-device-plugin-daemonset-a): kubectl label node n1 --overwrite "
           "nvidia.com/gpu.deploy.device-plugin=false");
    add(&l, "nvidia-mig-manager-b");
    expect(&s, "DevicePlugin", "; NVIDIA's mig-manager changes cards by the same label");
    add(&l, "metax-gpu-device-c");
    expect(&s, "DevicePlugin", "leave this node out (nodeSelector), or give the agents");
}

Test(neighbours, another_plugin_is_wanted_where_the_agent_serves_nothing)
{
    auto_neighbours struct neighbours l = {0};
    const struct node_state s = {.node = "n1",
                                 .neighbours = &l,
                                 .means.publisher = API_PUBLISHER_OTHER};
    add(&l, "nvidia-device-plugin-daemonset-a");
    expect(&s, "(none)", "");
    add(&l, "nvidia-mig-manager-b");
    expect(&s, "MIGManager", "nvidia.com/gpu.deploy.mig-manager=false");
}

Test(neighbours, a_resource_that_another_plugin_has_registered_is_said_without_a_known_pod)
{
    const struct node_state s = {.node = "n1",
                                 .contested = "nvidia.com/gpu",
                                 .means.publisher = API_PUBLISHER_KUBELET};
    expect(&s, "Contested", "another program has registered nvidia.com/gpu");
}

Test(neighbours, there_is_a_bound)
{
    auto_neighbours struct neighbours l = {0};
    auto_neighbours struct neighbours same = {0};
    for (unsigned i = 0; i < 3 * NEIGHBOURS_MAX; i++) {
        char pod[64];
        (void)snprintf(pod, sizeof(pod), "nvidia-mig-manager-%u", i);
        add(&l, pod);
        add(&same, pod);
    }
    cr_expect_eq(l.n, NEIGHBOURS_MAX);
    cr_expect(neighbours_equal(&l, &same));
    neighbours_done(&same);
    cr_expect_not(neighbours_equal(&l, &same));
}
