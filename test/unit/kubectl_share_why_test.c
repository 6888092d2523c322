/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"

#include "kubectl_support.h"
#include "scheduler/quota.h"
#include "service/resources.h"

/* `why` for pods that ask for shares of cards. */

TestSuite(share_why, .init = desk_set_up, .fini = desk_tear_down);

#define ASKS(mib, percent)                                                                         \
    "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: " #mib     \
    ", nvidia.com/gpucores: " #percent "}}}]}"

static void quota(const char *name, const char *hard)
{
    char yaml[300];
    (void)
        snprintf(yaml, sizeof(yaml),
                 "{apiVersion: v1, kind: ResourceQuota, metadata: {name: %s, namespace: ns}, spec: "
                 "{hard: {%s}}}",
                 name, hard);
    desk_create(quota_type.resource, yaml);
}

Test(share_why, where_no_card_has_room_the_largest_free_share_is_said)
{
    desk_node("n1", 2);
    desk_share("n1", 0, "40960:50=ml/a");
    desk_share("n1", 1, "70000:10=ml/b");
    desk_node("n2", 1);
    desk_pod("p", NULL, ASKS(50000, 20));
    desk_expect_why(
        "ns/p asks for shares of cards: c 50000 MiB, 20 % of its compute\n"
        "No node that the pod may have has room for its shares.\n"
        "  n1  largest free share 40599 MiB, 50 %, of GPU 0; container c needs 50000 MiB and 20 % of compute on one card; the best of 2 has 40599 MiB\n");
}

Test(share_why, of_what_no_card_has_room_for_the_numbers_are_those_of_free_cards)
{
    desk_node("n1", 2);
    desk_share("n1", 0, "3000:10=ml/a");
    desk_share("n1", 1, "4000:10=ml/b");
    desk_pod("p", NULL, ASKS(82000, 20));
    desk_expect_why(
        "ns/p asks for shares of cards: c 82000 MiB, 20 % of its compute\n"
        "No node that the pod may have has room for its shares.\n"
        "  n1  largest free share 78559 MiB, 90 %, of GPU 0; container c needs 82000 MiB and 20 % of compute on one card; the best of 2 has 81559 MiB, were all of them free\n");
}

Test(share_why, nodes_that_the_pod_may_not_have_say_so)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "1000:50=ml/a");
    desk_patch(&resource_nodes, "n1", NULL, "{spec: {unschedulable: true}}");
    desk_pod("p", NULL, ASKS(50000, 20));
    desk_expect_why(
        "ns/p asks for shares of cards: c 50000 MiB, 20 % of its compute\n"
        "No node that the pod may have has room for its shares.\n"
        "  n1  largest free share 80559 MiB, 50 %, of GPU 0; there is room; the node is cordoned\n");
}

Test(share_why, a_quota_that_refuses_is_named)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "1000:50=ml/a");
    quota("team", "limits.nvidia.com/gpumem: '40000'");
    desk_pod("p", NULL, ASKS(50000, 20));
    desk_expect_why(
        "ns/p asks for shares of cards: c 50000 MiB, 20 % of its compute\n"
        "A quota refuses it: quota team of namespace ns: there would be 50000 of 40000 limits.nvidia.com/gpumem: end pods of the namespace, or raise it.\n"
        "  n1  largest free share 80559 MiB, 50 %, of GPU 0; there is room, and a quota does not allow it\n");
}

Test(share_why, other_pods_of_the_namespace_count_for_the_quota_by_their_records)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "1000:50=ml/a");
    quota("team", "limits.nvidia.com/gpucores: '40'");
    desk_pod("p", NULL, ASKS(8192, 20));
    desk_expect_why("ns/p asks for shares of cards: c 8192 MiB, 20 % of its compute\n"
                    "There is room for it: something other than GPUs keeps the pod waiting.\n"
                    "  n1  largest free share 80559 MiB, 50 %, of GPU 0; there is room\n");
    desk_create(
        &resource_pods,
        "{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: ns, annotations: "
        "{gpu.cleave.dev/allocation: '{\"v\":1,\"c\":[{\"n\":\"c\",\"s\":[{\"u\":"
        "\"GPU-n1-0\",\"m\":8192,\"c\":30}]}]}'}}, spec: {nodeName: n1, containers: [{name: "
        "c}]}}");
    desk_expect_why(
        "ns/p asks for shares of cards: c 8192 MiB, 20 % of its compute\n"
        "A quota refuses it: quota team of namespace ns: there would be 50 of 40 limits.nvidia.com/gpucores: end pods of the namespace, or raise it.\n"
        "  n1  largest free share 72367 MiB, 20 %, of GPU 0; there is room, and a quota does not allow it\n");
}

Test(share_why, whoever_may_not_read_quotas_is_told)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "1000:50=ml/a");
    desk_pod("p", NULL, ASKS(8192, 20));
    desk_forbid("resourcequotas");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.err, "Warning: resourcequotas cannot be read"), "got: %s", a.err);
}

Test(share_why, what_cannot_be_meant_is_said)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(99999999, 20));
    desk_expect_why(
        "ns/p: what it asks for cannot be: container c: nvidia.com/gpumem is 99999999, and "
        "counts MiB: write 95\n");
}

Test(share_why, where_no_node_gives_shares_no_node_is_listed)
{
    desk_node("n1", 1);
    desk_pod("p", NULL, ASKS(50000, 20));
    desk_expect_why(
        "ns/p asks for shares of cards: c 50000 MiB, 20 % of its compute\n"
        "No node gives its cards in shares.\n"
        "A GPUProfile with mode native and sharing.fractional gives cards so, on a node with the label\n"
        "  gpu.cleave.dev.node-restriction.kubernetes.io/slots=true (docs/sharing.md#set-up).\n");
}

Test(share_why, json_has_the_room_of_each_node)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "70000:10=ml/b");
    desk_pod("p", NULL, ASKS(50000, 20));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *node = json_array_get(JX_AT(doc, "shares", "nodes"), 0);
    cr_expect_eq(json_integer_value(JX_AT(node, "largest", "memoryMiB")), 11559);
    cr_expect_eq(json_integer_value(JX_AT(node, "largest", "computePercent")), 90);
    cr_expect(json_is_false(JX_AT(node, "room")));
    cr_expect(JX_STR_AT(node, "misfit"));
    cr_expect_eq(json_array_size(JX_AT(doc, "resources")), 0);
}
