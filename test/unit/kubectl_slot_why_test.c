/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl_support.h"
#include "service/resources.h"

/* `why` for pods that ask for slices of MetaX cards. */

TestSuite(slot_why, .init = desk_set_up, .fini = desk_tear_down);

#define SLOTS(n, mib, percent)                                                                     \
    "{containers: [{name: c, resources: {limits: {metax-tech.com/sgpu: " #n                        \
    ", metax-tech.com/vmemory: " #mib "Mi, metax-tech.com/vcore: " #percent "}}}]}"

static void offer(const char *node, int slots)
{
    char yaml[100];
    (void)snprintf(yaml, sizeof(yaml), "{status: {allocatable: {metax-tech.com/sgpu: '%d'}}}",
                   slots);
    desk_patch(&resource_nodes, node, "status", yaml);
}

/* The pod p asks for so many slots of this size: rest is what follows of the answer. */
static void expect_answer(int count, const char *size, const char *rest)
{
    auto_free char *text =
        xasprintf("ns/p asks for %d metax-tech.com/sgpu (c %s)\n%s", count, size, rest);
    desk_expect_why(text);
}

Test(slot_why, a_card_without_room_says_what_is_left_and_the_change_is_another_card)
{
    desk_node("n1", 0);
    desk_metax("n1", 3);
    desk_slice("n1", 0, "slot.0:40960:10=ml/a");
    desk_hold("n1", 1, "ml", "b");
    offer("n1", 16);
    desk_pod("p", NULL, SLOTS(1, 32768, 20));
    expect_answer(1, "32768 MiB, 20 % of its compute",
                  "No node that the pod may have has room for its slices.\n"
                  "  n1  offers 16, 16 free; 32768 MiB are asked for, and 24576 are left on MetaX "
                  "GPU 0\n"
                  "The smallest change: MetaX GPU 2 of node n1 as\n"
                  "    sgpu, slices made for pods\n"
                  "  nothing that stands goes, and the card's mode changes.\n");
}

Test(slot_why, where_there_is_room_something_else_keeps_the_pod)
{
    desk_node("n1", 0);
    desk_metax("n1", 1);
    desk_slice("n1", 0, "slot.0:40960:10=ml/a");
    offer("n1", 16);
    desk_pod("p", NULL, SLOTS(1, 1024, 90));
    expect_answer(1, "1024 MiB, 90 % of its compute",
                  "metax-tech.com/sgpu is free: something other than GPUs keeps the pod waiting.\n"
                  "  n1  offers 16, 16 free\n");
}

Test(slot_why, where_no_card_makes_slices_yet_as_many_change_as_it_takes)
{
    desk_node("n1", 0);
    desk_node("n2", 0);
    desk_metax("n1", 1);
    desk_metax("n2", 3);
    desk_pod("p", NULL, SLOTS(2, 40960, 50));
    expect_answer(2, "2 times 40960 MiB, 50 % of its compute",
                  "No node offers metax-tech.com/sgpu.\n"
                  "  n1  offers none\n"
                  "  n2  offers none\n"
                  "The smallest change: 2 cards of node n2\n"
                  "  MetaX GPU 0 as\n"
                  "    sgpu, slices made for pods\n"
                  "  nothing that stands goes, and the card's mode changes.\n"
                  "  MetaX GPU 1 as\n"
                  "    sgpu, slices made for pods\n"
                  "  nothing that stands goes, and the card's mode changes.\n");
}

Test(slot_why, free_slices_of_a_layout_go_before_a_card_changes_its_mode)
{
    desk_node("n1", 0);
    desk_metax("n1", 3);
    desk_slice("n1", 1, "small-0:1024:10 small-1:1024:10=ml/a");
    desk_slice("n1", 2, "small-0:1024:10 small-1:1024:10");
    desk_patch(&resource_devices, "n1", NULL,
               "{spec: {devices: [{uuid: GPU-n1-m2, mode: sgpu, source: {kind: GPUProfile, name: x,"
               " generation: 1}, sgpu: {slices: [{alias: small, memoryMiB: 1024, computePercent: "
               "10, count: 2}]}}]}}");
    desk_pod("p", NULL, SLOTS(1, 65536, 100));
    expect_answer(1, "65536 MiB, 100 % of its compute",
                  "No node offers metax-tech.com/sgpu.\n"
                  "  n1  offers none\n"
                  "The smallest change: MetaX GPU 2 of node n1, which x governs, as\n"
                  "    sgpu, slices made for pods\n"
                  "  2 parts that nobody uses go.\n");
}

Test(slot_why, a_label_that_governs_the_card_has_no_commands_since_no_migconfig_has_slices)
{
    desk_node("n1", 0);
    desk_metax("n1", 1);
    desk_patch(&resource_devices, "n1", NULL,
               "{spec: {devices: [{uuid: GPU-n1-m0, mode: native, source: {kind: NodeLabel, name: "
               "whole, generation: 1}}]}}");
    desk_pod("p", NULL, SLOTS(1, 1024, 10));
    expect_answer(
        1, "1024 MiB, 10 % of its compute",
        "No node offers metax-tech.com/sgpu.\n"
        "  n1  offers none\n"
        "The smallest change: MetaX GPU 0 of node n1, which the label nvidia.com/mig.config=whole "
        "governs, as\n"
        "    sgpu, slices made for pods\n"
        "  nothing that stands goes, and the card's mode changes.\n"
        "The label beats every profile, and no MIGConfig has such a layout: that of the label has to "
        "leave these cards out.\n");
}

Test(slot_why, a_policy_that_a_profile_does_not_have_is_said)
{
    desk_node("n1", 0);
    desk_metax("n1", 1);
    desk_slice("n1", 0, "");
    offer("n1", 16);
    desk_patch(
        &resource_devices, "n1", NULL,
        "{spec: {devices: [{uuid: GPU-n1-m0, mode: sgpu, sgpu: {qosPolicy: fixed-share}}]}}");
    desk_create(&resource_pods,
                "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, annotations: "
                "{metax-tech.com/sgpu-qos-policy: burst-share}}, spec: " SLOTS(1, 1024, 10) "}");
    expect_answer(1, "1024 MiB, 10 % of its compute",
                  "No node that the pod may have has room for its slices.\n"
                  "  n1  offers 16, 16 free; MetaX GPU 0 is for fixed-share, and the pod asks for "
                  "burst-share\n"
                  "No new layout of a single card gives the pod one while all other pods stay.\n");
}

Test(slot_why, what_cannot_be_meant_is_said)
{
    desk_pod("p", NULL, SLOTS(1, 1024, 101));
    desk_expect_why(
        "ns/p: what it asks for cannot be: a slice takes from 0 to 100 % of compute, not "
        "101\n");
}

Test(slot_why, slots_are_taken_by_pods_that_have_no_slice_yet)
{
    desk_node("n1", 0);
    desk_metax("n1", 2);
    desk_slice("n1", 0, "");
    offer("n1", 16);
    desk_pod("a", "n1", SLOTS(16, 1024, 1));
    desk_pod("p", NULL, SLOTS(1, 1024, 1));
    expect_answer(1, "1024 MiB, 1 % of its compute",
                  "No node that the pod may have has 1 free of metax-tech.com/sgpu.\n"
                  "  n1  offers 16, 0 free\n"
                  "    held by  ns/a\n"
                  "The smallest change: MetaX GPU 1 of node n1 as\n"
                  "    sgpu, slices made for pods\n"
                  "  nothing that stands goes, and the card's mode changes.\n");
}

/* An init container's slots count, though it gets no slice of them. */
Test(slot_why, of_many_cards_as_many_change_as_the_slots_take)
{
    desk_node("n1", 0);
    desk_metax("n1", 64);
    desk_pod("p", NULL,
             "{initContainers: [{name: i, resources: {limits: {metax-tech.com/sgpu: 1000}}}],"
             " containers: [{name: c, resources: {limits: {metax-tech.com/sgpu: 1}}}]}");
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "The smallest change: 63 cards of node n1\n"), "got:\n%s", a.out);
}

/* Sets of 30 of 64 cards are too many to try all. */
Test(slot_why, where_too_many_sets_of_cards_could_change_the_search_ends_and_says_so)
{
    desk_node("n1", 0);
    desk_metax("n1", 64);
    desk_pod("p", NULL, SLOTS(480, 8192, 10));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect(strstr(a.out, "among those that were looked at: there are more.\n"), "got:\n%s",
              a.out);
}

Test(slot_why, a_whole_card_may_be_made_of_one_with_slices_that_nobody_uses)
{
    desk_node("n1", 0);
    desk_metax("n1", 2);
    desk_slice("n1", 0, "slot.0:1024:10=ml/a");
    desk_slice("n1", 1, "small:1024:10");
    desk_pod("p", NULL, "{containers: [{name: c, resources: {limits: {metax-tech.com/gpu: 1}}}]}");
    desk_expect_why("ns/p asks for 1 metax-tech.com/gpu\n"
                    "No node offers metax-tech.com/gpu.\n"
                    "  n1  offers none\n"
                    "The smallest change: MetaX GPU 1 of node n1 as\n"
                    "    native\n"
                    "  1 part that nobody uses goes, and the card's mode changes.\n");
}

/* --- Slices of a layout --- */

#define SMALL         "metax-tech.com/sgpu-small"
#define ASKS_SMALL(n) "{containers: [{name: c, resources: {limits: {" SMALL ": " #n "}}}]}"

static void want_slices(const char *uuid, const char *slices)
{
    char yaml[400];
    (void)
        snprintf(yaml, sizeof(yaml),
                 "{spec: {devices: [{uuid: %s, mode: sgpu, sgpu: {qosPolicy: fixed-share, slices: "
                 "[%s]}}]}}",
                 uuid, slices);
    desk_patch(&resource_devices, "n1", NULL, yaml);
}

#define SMALL_TWICE "{alias: small, memoryMiB: 1024, computePercent: 10, count: 2}"

Test(slot_why, slices_of_a_layout_are_added_where_they_have_room)
{
    desk_node("n1", 0);
    desk_metax("n1", 2);
    desk_slice("n1", 0, "small-0:1024:10=ml/a small-1:1024:10=ml/b");
    want_slices("GPU-n1-m0", SMALL_TWICE);
    desk_pod("p", NULL, ASKS_SMALL(3));
    desk_expect_why("ns/p asks for 3 " SMALL "\n"
                    "No node offers " SMALL ".\n"
                    "  n1  offers none\n"
                    "The smallest change: MetaX GPU 0 of node n1 as\n"
                    "    small: 5 (1024 MiB 10 %)\n"
                    "  small-2, small-3, small-4 are made; nothing that stands goes.\n");
}

Test(slot_why, others_that_nobody_uses_make_room_for_them)
{
    desk_node("n1", 0);
    desk_metax("n1", 1);
    desk_slice("n1", 0, "small-0:1024:10 small-1:1024:10 large:2048:40 huge:4096:40");
    want_slices("GPU-n1-m0", SMALL_TWICE ", {alias: large, memoryMiB: 2048, computePercent: 40},"
                                         " {alias: huge, memoryMiB: 4096, computePercent: 40}");
    desk_pod("p", NULL, ASKS_SMALL(2));
    desk_expect_why("ns/p asks for 2 " SMALL "\n"
                    "No node offers " SMALL ".\n"
                    "  n1  offers none\n"
                    "The smallest change: MetaX GPU 0 of node n1 as\n"
                    "    small: 4 (1024 MiB 10 %), large: 1 (2048 MiB 40 %)\n"
                    "  small-2, small-3 are made; 1 part that nobody uses goes.\n");
}

Test(slot_why, a_slice_in_use_that_would_get_another_name_does_not_go)
{
    desk_node("n1", 0);
    desk_metax("n1", 2);
    desk_slice("n1", 0, "small:1024:10=ml/a");
    want_slices("GPU-n1-m0", "{alias: small, memoryMiB: 1024, computePercent: 10}");
    desk_pod("p", NULL, ASKS_SMALL(1));
    desk_expect_why("ns/p asks for 1 " SMALL "\n"
                    "No node offers " SMALL ".\n"
                    "  n1  offers none\n"
                    "The smallest change: MetaX GPU 1 of node n1 as\n"
                    "    small: 1 (1024 MiB 10 %)\n"
                    "  small is made; nothing that stands goes, and the card's mode changes.\n");
}

Test(slot_why, json_has_what_it_asks_for_and_what_is_left)
{
    desk_node("n1", 0);
    desk_metax("n1", 1);
    desk_slice("n1", 0, "slot.0:65536:100=ml/a");
    offer("n1", 16);
    desk_pod("p", NULL, SLOTS(1, 1024, 10));
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_JSON, "p");
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    const json_t *one = json_array_get(JX_AT(doc, "resources"), 0);
    cr_expect_eq(json_array_size(JX_AT(doc, "resources")), 1);
    cr_expect_str_eq(JX_STR_AT(one, "asks"), "c 1024 MiB, 10 % of its compute");
    cr_expect_str_eq(JX_STR_AT(json_array_get(JX_AT(one, "nodes"), 0), "misfit"),
                     "1024 MiB are asked for, and 0 are left on MetaX GPU 0");
    cr_expect_null(JX_AT(one, "change"));
}
