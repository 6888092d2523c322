/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/resource_names.h"
#include "scenario_support.h"

#define TWO_CUT                                                                                    \
    "cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: mig, partitions: {1g.10gb: 3}}]\n"
#define MIXED_CUT                                                                                  \
    "cards: [{mode: mig, partitions: {1g.10gb: 2, 3g.40gb: 1}}, {mode: native}, {model: T4}]\n"

/* "nvidia.com/gpu=2 nvidia.com/mig-1g.10gb=1" of what the scenario's cards offer. */
static void check(const char *scenario, const char *expected)
{
    auto_scenario struct scenario s;
    scenario_parse(scenario, &s);
    struct device_resource *list;
    size_t n;
    resolve_resources(s.cards, s.in.n_cards, s.in.current, API_PUBLISHER_CONTROLLER, &list, &n);
    auto_sb struct sb b = SB_INIT(4096);
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(list[i].publisher, API_PUBLISHER_CONTROLLER);
        sb_addf(&b, "%s%s=%lld", i ? " " : "", list[i].name, (long long)list[i].count);
        free(list[i].name);
    }
    free(list);
    cr_expect_str_eq(sb_str(&b), expected, "%s", scenario);
}

Test(resource_names, mixed_offers_each_kind_by_its_name)
{
    check(MIXED_CUT, "nvidia.com/gpu=2 nvidia.com/mig-1g.10gb=2 nvidia.com/mig-3g.40gb=1");
    check(TWO_CUT, "nvidia.com/mig-1g.10gb=10");
}

Test(resource_names, none_offers_every_card_cut_or_not)
{
    check(MIXED_CUT "current: {migStrategy: none}", "nvidia.com/gpu=3");
}

Test(resource_names, single_offers_partitions_as_cards_while_all_are_of_one_kind)
{
    check(TWO_CUT "current: {migStrategy: single}", "nvidia.com/gpu=10");
}

Test(resource_names, single_falls_back_to_mixed_names_on_a_mixed_node)
{
    check(MIXED_CUT "current: {migStrategy: single}",
          "nvidia.com/gpu=2 nvidia.com/mig-1g.10gb=2 nvidia.com/mig-3g.40gb=1");
    check("cards: [{mode: mig, partitions: {1g.10gb: 1}}, {mode: mig, partitions: {2g.20gb: 1}}]\n"
          "current: {migStrategy: single}",
          "nvidia.com/mig-1g.10gb=1 nvidia.com/mig-2g.20gb=1");
}

Test(resource_names, single_falls_back_where_a_card_is_given_out_in_shares_even_an_ill_one)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: native, healthy: false}]\n"
          "current: {migStrategy: single, devices: [{uuid: GPU-b, mode: native, sharing: "
          "{fractional: {}}}]}",
          "nvidia.com/mig-1g.10gb=7");
}

Test(resource_names, a_card_that_falls_ill_does_not_rename_what_the_others_offer)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: native, healthy: false}]\n"
          "current: {migStrategy: single}",
          "nvidia.com/gpu=7");
}

/* NVIDIA's plugin refuses to start there ("device 1 has no MIG devices configured"). */
Test(resource_names, single_falls_back_to_mixed_names_where_a_card_stays_empty)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: mig}]\n"
          "current: {migStrategy: single}",
          "nvidia.com/mig-1g.10gb=7");
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: mig}]\n"
          "current: {migStrategy: single, devices: [{uuid: GPU-b, mode: mig}]}",
          "nvidia.com/mig-1g.10gb=7");
}

Test(resource_names, a_card_that_is_empty_until_it_is_cut_renames_nothing)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {mode: mig}]\n"
          "current: {migStrategy: single, devices: [{uuid: GPU-b, mode: mig, mig: {profiles: "
          "[{profile: 1g.10gb, count: 7}]}}]}",
          "nvidia.com/gpu=7");
}

Test(resource_names, attributes_are_written_as_the_device_plugin_writes_them)
{
    check("cards: [{mode: mig, partitions: {1g.10gb+me: 1, 1c.3g.40gb: 3}}]",
          "nvidia.com/mig-1c.3g.40gb=3 nvidia.com/mig-1g.10gb.me=1");
    check("cards: [{model: RTX-PRO-6000, mode: mig, partitions: {2g.48gb+gfx: 1, 1g.24gb-me: 2}}]",
          "nvidia.com/mig-1g.24gb-me=2 nvidia.com/mig-2g.48gb.gfx=1");
}

Test(resource_names, time_slicing_multiplies)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 2}}, {mode: native}, {mode: native}]\n"
          "current:\n"
          "  devices:\n"
          "  - {uuid: GPU-d, mode: mig, sharing: {timeSlicing: {replicas: 3}}}\n"
          "  - {uuid: GPU-b, mode: native, sharing: {timeSlicing: {replicas: 4}}}\n",
          "nvidia.com/gpu=5 nvidia.com/mig-1g.10gb=6");
}

Test(resource_names, mps_multiplies_and_renames_as_time_slicing_does)
{
    check("cards: [{mode: native}, {mode: native}]\n"
          "current:\n"
          "  devices:\n"
          "  - {uuid: GPU-d, mode: native, sharing: {mps: {replicas: 8, renameByDefault: true}}}\n",
          "nvidia.com/gpu=1 nvidia.com/gpu.shared=8");
}

/* Where the controller publishes, the agent refuses shares, and offers the card as it is. */
Test(resource_names, a_card_that_is_given_out_in_shares_is_one_card_to_the_controller)
{
    check("cards: [{mode: native}, {mode: native}]\n"
          "current:\n"
          "  devices:\n"
          "  - {uuid: GPU-d, mode: native, sharing: {fractional: {maxShares: 20}}}\n",
          "nvidia.com/gpu=2");
}

Test(resource_names, an_unhealthy_card_offers_nothing)
{
    check("cards: [{healthy: false}, {mode: mig, healthy: false, partitions: {1g.10gb: 7}}]", "");
}

Test(resource_names, a_card_on_its_way_to_another_mode_offers_nothing)
{
    check("cards: [{mode: native}, {mode: mig, partitions: {1g.10gb: 1}}]\n"
          "current: {devices: [{uuid: GPU-d, mode: mig}, {uuid: GPU-b, mode: native}]}\n",
          "");
}

Test(resource_names, an_empty_node_and_an_empty_cut_offer_nothing)
{
    check("cards: []", "");
    check("cards: [{mode: mig}]", "");
    check("cards: [{mode: mig}]\ncurrent: {migStrategy: single}", "");
}

Test(resource_names, a_partition_of_no_known_kind_is_not_offered)
{
    check("cards: [{mode: mig, partitions: {unknown: 2, 1g.10gb: 1}}]", "nvidia.com/mig-1g.10gb=1");
    check("cards: [{mode: mig, partitions: {unknown: 2}}]\ncurrent: {migStrategy: single}", "");
}

Test(resource_names, slices_are_offered_by_their_aliases_or_for_pods_to_come)
{
    check("cards:\n"
          "- {model: C500, mode: sgpu, partitions: {small: 4, large: 1}}\n"
          "- {model: C500, mode: sgpu}\n"
          "- {model: C500}\n"
          "current:\n"
          "  devices:\n"
          "  - {uuid: GPU-d, mode: sgpu, sgpu: {slices: [{alias: small, memoryMiB: 128, count: 4},"
          " {alias: large, memoryMiB: 1024}]}}\n"
          "  - {uuid: GPU-b, mode: sgpu, sgpu: {}}\n",
          "metax-tech.com/gpu=1 metax-tech.com/sgpu=16 metax-tech.com/sgpu-large=1 "
          "metax-tech.com/sgpu-small=4");
}

Test(resource_names, cards_of_another_vendor_have_no_say_in_the_names_of_partitions)
{
    check("cards: [{mode: mig, partitions: {1g.10gb: 7}}, {model: C500}]\n"
          "current: {migStrategy: single}",
          "metax-tech.com/gpu=1 nvidia.com/gpu=7");
}

Test(resource_names, functions_are_offered_as_many_as_stand)
{
    check("cards: [{model: C500, mode: vgpu, partitions: {vf: 4}}, {model: C500, mode: vgpu, "
          "partitions: {vf: 2}}, {model: C500}]",
          "metax-tech.com/gpu=1 metax-tech.com/vgpu=6");
    check("cards: [{model: C500, mode: vgpu, partitions: {vf: 4}}]\n"
          "current: {devices: [{uuid: GPU-d, mode: native}]}",
          "");
    check("cards: [{model: C500, mode: vgpu}]", "");
}

Test(resource_names, a_shared_card_of_metax_counts_as_often_as_it_is_shared)
{
    check("cards: [{model: C500}, {model: C500}]\n"
          "current:\n"
          "  devices:\n"
          "  - {uuid: GPU-d, mode: native, sharing: {timeSlicing: {replicas: 4}}}\n"
          "  - {uuid: GPU-b, mode: native, sharing: {timeSlicing: {replicas: 2, renameByDefault: "
          "true}}}\n",
          "metax-tech.com/gpu=4 metax-tech.com/gpu.shared=2");
}
