/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/yaml.h"

#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(cards, .init = desk_set_up, .fini = desk_tear_down);

static void expect_cards(const char *text)
{
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, /* node= */ NULL);
    cr_expect_eq(a.code, 0);
    cr_expect_str_eq(a.out, text, "got:\n%s", a.out);
    cr_expect_str_eq(a.err, "");
}

Test(cards, each_card_is_a_bar_with_its_pods_and_what_is_free)
{
    desk_node("n1", 2);
    desk_cut("n1", 0, "1g.10gb@0=ml/a 1g.10gb@1 3g.40gb@4=ml/b");
    desk_hold("n1", 1, "ml", "big");
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  mig\n"
        "     [1g.10gb#|1g.10gb-|..................|3g.40gb#############################]\n"
        "     1g.10gb  ml/a\n"
        "     3g.40gb  ml/b\n"
        "     free  1x 1g.10gb; room for 2g.20gb\n"
        "  NVIDIA GPU 1  NVIDIA H100 80GB HBM3  native\n"
        "     [gpu######################################################################]\n"
        "     gpu  ml/big\n");
}

Test(cards, shares_are_as_wide_as_their_memory)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "40960:50=ml/a 8192:10=ml/b");
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  native\n"
        "     [40960 MiB 50 %#####################|8192 Mi|.............................]\n"
        "     40960 MiB 50 %  ml/a\n"
        "     8192 MiB 10 %  ml/b\n"
        "     free  room for 32407 MiB, 40 %, in 8 of 10 shares\n");
}

Test(cards, shares_come_by_their_pods_and_a_card_that_has_given_out_all_says_so)
{
    desk_node("n1", 1);
    desk_share("n1", 0,
               "1:1=ml/c 1:1=ml/a 1:1=b/z 1:1=ml/b 1:1=ml/d 1:1=ml/e 1:1=ml/f 1:1=ml/g "
               "1:1=ml/h 1:1=ml/i");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, /* node= */ NULL);
    const char *z = strstr(a.out, "b/z\n");
    const char *first = strstr(a.out, "ml/a\n");
    const char *second = strstr(a.out, "ml/b\n");
    cr_expect(z && z < first && first < second, "got:\n%s", a.out);
    cr_expect(strstr(a.out, "     free  none: 10 of 10 shares are given out\n"), "got:\n%s", a.out);
}

Test(cards, shares_that_have_all_memory_leave_room_for_none)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "40960:50=ml/a 40599:10=ml/b");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, /* node= */ NULL);
    cr_expect(strstr(a.out, "     free  none: all 81559 MiB of memory are given out\n"), "got:\n%s",
              a.out);
}

Test(cards, of_a_card_that_containers_share_each_replica_is_free_that_none_has)
{
    desk_node("n1", 2);
    desk_replicas("n1", 0, 4);
    desk_replicas("n1", 1, 4);
    desk_hold("n1", 1, "ml", "a");
    desk_hold("n1", 1, "ml", "b");
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  native, 4 replicas\n"
        "     [gpu----------------------------------------------------------------------]\n"
        "     free  4x gpu\n"
        "  NVIDIA GPU 1  NVIDIA H100 80GB HBM3  native, 4 replicas\n"
        "     [gpu######################################################################]\n"
        "     gpu  ml/a, ml/b\n"
        "     free  2x gpu\n");
}

Test(cards, a_shared_card_whose_replicas_are_all_taken_has_nothing_free)
{
    desk_node("n1", 1);
    desk_replicas("n1", 0, 2);
    desk_hold("n1", 0, "ml", "a");
    desk_hold("n1", 0, "ml", "a"); /* one container, and two replicas */
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  native, 2 replicas\n"
        "     [gpu######################################################################]\n"
        "     gpu  ml/a, ml/a\n");
}

Test(cards, replicas_of_partitions_are_counted_by_profile)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "1g.10gb@0=ml/a 1g.10gb@1 3g.40gb@4=ml/b");
    desk_replicas("n1", 0, 3);
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_JSON, /* node= */ NULL);
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *card = json_array_get(JX_AT(json_array_get(JX_AT(doc, "nodes"), 0), "cards"), 0);
    cr_expect_str_eq(JX_STR_AT(card, "free"), "5x 1g.10gb, 2x 3g.40gb; room for 2g.20gb");
    const json_t *part = json_array_get(JX_AT(card, "parts"), 0);
    cr_expect_eq(json_integer_value(JX_AT(part, "replicas")), 3);
    cr_expect_str_eq(JX_STR_AT(part, "state"), "Used");
    cr_expect_null(JX_AT(json_array_get(JX_AT(card, "parts"), 2), "replicas"), "it is room");
}

Test(cards, an_ill_card_has_no_replica_free)
{
    desk_node("n1", 1);
    desk_patch(
        &resource_devices, "n1", "status",
        "{status: {devices: [{uuid: GPU-1, index: 0, vendor: nvidia, model: A30, numaNode: 0,"
        " memoryMiB: 24576, healthy: false, migCapable: true, mode: native, inUse: false,"
        " replicas: 4}]}}");
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  A30  native, 4 replicas  not healthy\n"
        "     [gpu!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!]\n");
}

Test(cards, the_parts_of_an_ill_card_are_ill_and_none_is_free)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "2g.20gb@0 1g.10gb@2=ml/a");
    desk_ill("n1", 0, NULL);
    expect_cards(
        "n1  Ready\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  mig  not healthy\n"
        "     [2g.20gb!!!!!!!!!!|1g.10gb!!|.............................................]\n"
        "     1g.10gb  ml/a\n");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_JSON, /* node= */ NULL);
    cr_expect(strstr(a.out, "\"Unhealthy\"") && !strstr(a.out, "\"Free\""), "got:\n%s", a.out);
}

Test(cards, the_shares_of_an_ill_card_are_ill)
{
    desk_node("n1", 1);
    desk_share("n1", 0, "40960:50=ml/a");
    desk_ill("n1", 0, NULL);
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, /* node= */ NULL);
    cr_expect(strstr(a.out, "[40960 MiB 50 %!!!!"), "got:\n%s", a.out);
}

Test(cards, slices_have_their_names)
{
    desk_node("n1", 0);
    desk_patch(&resource_devices, "n1", "status",
               "{status: {devices: [{uuid: GPU-1, index: 0, vendor: metax, model: MXC500,"
               " memoryMiB: 65536, healthy: true, migCapable: false, mode: sgpu,"
               " sgpu: {memoryMiB: 65536, qosPolicy: best-effort}, partitions: ["
               "{uuid: s0, profile: small, inUse: true, inUseBy: [{namespace: ml, name: a}],"
               " slice: {id: 0, alias: small-0, memoryMiB: 16384, computePercent: 10}},"
               "{uuid: s1, profile: small,"
               " slice: {id: 1, alias: small-1, memoryMiB: 16384, computePercent: 10}}]}]}}");
    expect_cards(
        "n1  Ready\n"
        "  MetaX GPU 0  MXC500  sgpu\n"
        "     [small-0##########|small-1-----------|....................................]\n"
        "     small-0  ml/a\n"
        "     free  1x small-1; room for 32768 MiB\n");
}

Test(cards, nodes_come_by_name_and_say_what_is_wrong_with_them)
{
    desk_node("n2", 1);
    desk_node("n1", 1);
    desk_patch(&resource_nodes, "n1", NULL, "{spec: {unschedulable: true}}");
    desk_patch(&resource_nodes, "n2", "status", "{status: {conditions: []}}");
    desk_patch(&resource_devices, "n2", "status",
               "{status: {conditions: [{type: Ready, status: 'False', reason: NoDriver,"
               " message: none, lastTransitionTime: '2026-01-01T00:00:00Z'}]}}");
    expect_cards(
        "n1  Ready  cordoned\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  native\n"
        "     [gpu----------------------------------------------------------------------]\n"
        "     free  1x gpu\n"
        "n2  not ready: NoDriver  node NotReady\n"
        "  NVIDIA GPU 0  NVIDIA H100 80GB HBM3  native\n"
        "     [gpu----------------------------------------------------------------------]\n"
        "     free  1x gpu\n");
}

Test(cards, one_node_can_be_asked_for)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, "n2");
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.out, "n2") && !strstr(a.out, "n1"));
    auto_desk_answer struct desk_answer none = desk_cards(OUTPUT_TEXT, "n3");
    cr_expect_eq(none.code, 1);
    cr_expect_str_eq(none.err, "error: node n3 has no Device\n");
    auto_desk_answer struct desk_answer empty = desk_cards(OUTPUT_TEXT, "");
    cr_expect_eq(empty.code, 1);
    cr_expect_str_eq(empty.err, "error: the name of the node is empty\n");
}

Test(cards, names_never_command_the_terminal)
{
    desk_node("n1", 1);
    desk_hold("n1", 0, "ml", "x\x1b[2J\xC2\x9B");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_not(strchr(a.out, '\x1b'));
    cr_expect(strstr(a.out, "ml/x\xEF\xBF\xBD[2J\xEF\xBF\xBD"), "got:\n%s", a.out);
    auto_desk_answer struct desk_answer yaml = desk_cards(OUTPUT_YAML, NULL);
    cr_expect_not(strchr(yaml.out, '\x1b'), "got:\n%s", yaml.out);
    auto_desk_answer struct desk_answer json = desk_cards(OUTPUT_JSON, NULL);
    cr_expect_not(strchr(json.out, '\x1b'));
}

Test(cards, json_and_yaml_are_the_same_document)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "1g.10gb@0=ml/a 1g.10gb@1");
    auto_desk_answer struct desk_answer j = desk_cards(OUTPUT_JSON, NULL);
    auto_desk_answer struct desk_answer y = desk_cards(OUTPUT_YAML, NULL);
    auto_json json_t *json = json_loads(j.out, 0, NULL);
    auto_json json_t *yaml = NULL;
    cr_assert_eq(yaml_load(y.out, strlen(y.out), &yaml, NULL), 0);
    cr_expect(json && json_equal(json, yaml));
    const json_t *card = json_array_get(JX_AT(json_array_get(JX_AT(json, "nodes"), 0), "cards"), 0);
    const json_t *part = json_array_get(JX_AT(card, "parts"), 0);
    cr_expect_str_eq(JX_STR_AT(card, "free"), "1x 1g.10gb; room for 3g.40gb");
    cr_expect_str_eq(JX_STR_AT(part, "state"), "Used");
    cr_expect_str_eq(JX_STR_AT(part, "placement"), "0:1");
    cr_expect_str_eq(JX_STR_AT(json_array_get(JX_AT(part, "users"), 0), "name"), "a");
}

Test(cards, a_cluster_without_cleave_is_told_from_one_without_cards)
{
    auto_desk_answer struct desk_answer empty = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(empty.code, 0);
    cr_expect_str_eq(empty.err, "No Devices found: no node has reported its cards to Cleave.\n");
    desk_lack("devices");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(a.code, 1);
    cr_expect_str_eq(a.out, "");
    cr_expect(strstr(a.err, "is Cleave installed in this cluster?"), "got: %s", a.err);
}

Test(cards, who_may_not_read_nodes_still_sees_cards)
{
    desk_node("n1", 1);
    desk_forbid("nodes");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.out, "n1  Ready"));
    cr_expect(strstr(a.err, "Warning: nodes cannot be read"), "got: %s", a.err);
    desk_forbid("devices");
    auto_desk_answer struct desk_answer none = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(none.code, 1);
    cr_expect(strstr(none.err, "Error from server (Forbidden): devices is forbidden"));
}

Test(cards, a_device_that_cannot_be_read_is_told_and_hides_no_other)
{
    desk_node("n1", 1);
    desk_node("n2", 1);
    desk_patch(&resource_devices, "n1", "status", "{status: {devices: 7}}");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.out, ".status.devices"), "got:\n%s", a.out);
    cr_expect(strstr(a.out, "n2  Ready"));
}

Test(cards, a_vendor_of_another_definition_does_not_reach_the_terminal_as_it_is)
{
    desk_node("n1", 1);
    desk_patch(&resource_devices, "n1", "status",
               "{status: {devices: [{uuid: GPU-x, index: 3, vendor: \"\\e[2J\"}]}}");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect(strstr(a.out, "\xEF\xBF\xBD[2J GPU 3"), "got:\n%s", a.out);
}

/* What no agent writes, but who may write Devices could. */
Test(cards, places_off_the_card_or_over_each_other_are_survived)
{
    desk_node("n1", 1);
    desk_cut("n1", 0, "1g.10gb@0 1g.10gb@0 7g.80gb@31 3g.40gb@99 1g.10gb@7");
    auto_desk_answer struct desk_answer a = desk_cards(OUTPUT_TEXT, NULL);
    cr_expect_eq(a.code, 0);
    cr_expect(strstr(a.out, "1g.10gb"), "got:\n%s", a.out);
}
