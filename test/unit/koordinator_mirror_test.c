/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "golden_support.h"
#include "interop/koordinator_mirror.h"

#define NOW_MS   INT64_C(1800000000500) /* half a second past 2027-01-15T08:00:00Z */
#define EARLY_MS INT64_C(1700000000000)

static const struct jx_pair drivers[] = {{.key = (char *)(uintptr_t) "metax",
                                          .str = (char *)(uintptr_t) "2.32.0.6"},
                                         {.key = (char *)(uintptr_t) "nvidia",
                                          .str = (char *)(uintptr_t) "570.86.15"}};

static struct koordinator_card c500(int64_t index)
{
    static const char *const uuids[] = {"89033010-2354-0000-0000-000000000000",
                                        "89033010-2354-0000-0000-000000000001",
                                        "89033010-2354-0000-0000-000000000002",
                                        "89033010-2354-0000-0000-000000000003"};
    return (struct koordinator_card){.uuid = uuids[index],
                                     .vendor = "metax",
                                     .model = "MXC500",
                                     .pci_bus_id = "0000:38:00.0",
                                     .pcie_root = "pci0000:3a",
                                     .index = index,
                                     .minor = -1,
                                     .numa_node = 3,
                                     .memory_mib = 65536,
                                     .mode = API_MODE_SGPU,
                                     .healthy = true};
}

static struct koordinator_card h100(int64_t index)
{
    static const char *const uuids[] = {"GPU-0", "GPU-1", "GPU-2", "GPU-3",
                                        "GPU-4", "GPU-5", "GPU-6", "GPU-7"};
    return (struct koordinator_card){.uuid = uuids[index],
                                     .vendor = "nvidia",
                                     .model = "NVIDIA H100 80GB HBM3",
                                     .pci_bus_id = "00000000:1B:00.0",
                                     .pcie_root = "pci0000:15",
                                     .index = index,
                                     .minor = index,
                                     .numa_node = index / 4,
                                     .memory_mib = 81559,
                                     .mode = API_MODE_NATIVE,
                                     .healthy = true,
                                     .linked = 0xff};
}

static struct koordinator_node node_of(const struct koordinator_card *cards, size_t n)
{
    return (struct koordinator_node){.cards = cards,
                                     .n_cards = n,
                                     .drivers = drivers,
                                     .n_drivers = ARRAY_LEN(drivers)};
}

/* Labels, annotations, spec and what stands on the Node, as one document. */
static json_t *seen_with(const struct koordinator_node *node, const struct koordinator_spec *before)
{
    auto_koordinator_mirror struct koordinator_mirror m = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    json_t *resources = json_object();
    koordinator_mirror_build(node, before, NOW_MS, &m);
    koordinator_mirror_resources(node, &list, &n);
    for (size_t i = 0; i < n; i++) {
        (void)json_object_set_new(resources, list[i].name, json_integer(list[i].count));
        free(list[i].name);
    }
    free(list);
    return json_pack("{s:O, s:O, s:o, s:o}", "labels", m.labels, "annotations", m.annotations,
                     "spec", koordinator_spec_encode(&m.spec), "node", resources);
}

static json_t *seen(const struct koordinator_node *node)
{
    return seen_with(node, /* before= */ NULL);
}

static const json_t *device_at(const json_t *doc, size_t i)
{
    return json_array_get(JX_AT(doc, "spec", "devices"), i);
}

static const json_t *condition_at(const json_t *doc, size_t i)
{
    return json_array_get(JX_AT(device_at(doc, i), "conditions"), 0);
}

static int64_t on_node(const json_t *doc, const char *name)
{
    const json_t *n = JX_AT(doc, "node", name);
    return n ? json_integer_value(n) : -1;
}

static void golden(const char *name, const struct koordinator_node *node)
{
    auto_json json_t *doc = seen(node);
    auto_free char *path = xasprintf("koordinator/%s.json", name);
    char *text = json_dumps(doc, JSON_INDENT(2) | JSON_SORT_KEYS);
    auto_free char *lines = xasprintf("%s\n", text);
    free(text);
    golden_check(path, lines);
}

/* --- A Device of somebody else --- */

static int64_t sum_of(const char *device, const char *vendor, const char *name)
{
    auto_json json_t *obj = json_loads(device, 0, NULL);
    auto_koordinator_spec struct koordinator_spec spec = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    int64_t sum = -1;
    cr_assert_eq(koordinator_spec_decode(obj, &spec, NULL), 0);
    koordinator_mirror_resources_of(&spec, vendor, &list, &n);
    for (size_t i = 0; i < n; i++) {
        sum = strcmp(list[i].name, name) == 0 ? list[i].count : sum;
        free(list[i].name);
    }
    free(list);
    return sum;
}

#define OF(type, health, memory)                                                                   \
    "{\"type\":\"" type "\",\"health\":" health ",\"resources\":{"                                 \
    "\"koordinator.sh/gpu-core\":\"100\",\"koordinator.sh/gpu-memory\":\"" memory "\","            \
    "\"koordinator.sh/gpu-memory-ratio\":\"100\"}}"
#define SPEC(devices) "{\"spec\":{\"devices\":[" devices "]}}"

Test(koordinator_mirror, of_others_device_no_sum_is_less_than_none)
{
    cr_expect_eq(sum_of(SPEC(OF("gpu", "true", "-15")), "nvidia", KOORDINATOR_MEMORY), 0);
    cr_expect_eq(sum_of(SPEC(OF("gpu", "true", "-15") "," OF("gpu", "true", "20")), "nvidia",
                        KOORDINATOR_MEMORY),
                 5, "as koord-manager has it");
}

Test(koordinator_mirror, of_others_device_the_healthy_cards_are_summed)
{
    static const char text[] =
        SPEC(OF("gpu", "true", "64Gi") "," OF("gpu", "false",
                                              "64Gi") "," OF("gpu", "true",
                                                             "16Gi") "," OF("fpga", "true", "1Gi"));
    cr_expect_eq(sum_of(text, "metax", KOORDINATOR_CORE), 200);
    cr_expect_eq(sum_of(text, "metax", KOORDINATOR_MEMORY), INT64_C(80) << 30);
    cr_expect_eq(sum_of(text, "metax", KOORDINATOR_RATIO), 200);
    cr_expect_eq(sum_of(text, "metax", KOORDINATOR_SHARED), 200);
    cr_expect_eq(sum_of(text, "metax", KOORDINATOR_GPU), -1);
    cr_expect_eq(sum_of(text, "nvidia", KOORDINATOR_GPU), 200);
    cr_expect_eq(sum_of(text, NULL, KOORDINATOR_GPU), 200, "as koord-manager has it");
    cr_expect_eq(sum_of(text, "", KOORDINATOR_GPU), 200);
}

Test(koordinator_mirror, of_others_device_without_healthy_cards_nothing_is_said)
{
    cr_expect_eq(sum_of(SPEC(OF("gpu", "false", "64Gi")), "nvidia", KOORDINATOR_CORE), -1);
    cr_expect_eq(sum_of(SPEC(""), "nvidia", KOORDINATOR_SHARED), -1);
    cr_expect_eq(sum_of("{}", NULL, KOORDINATOR_GPU), -1);
}

Test(koordinator_mirror, sums_of_others_device_stay_within_their_bounds)
{
    static const char text[] =
        SPEC(OF("gpu", "true", "7Ei") "," OF("gpu", "true", "7Ei") "," OF("gpu", "true", "much"));
    cr_expect_eq(sum_of(text, "nvidia", KOORDINATOR_MEMORY), INT64_MAX);
    cr_expect_eq(sum_of(text, "nvidia", KOORDINATOR_CORE), 300);
}

/* Its scheduler keeps cards as bits of a signed number, and takes what has the sign's for free
 * (allocator_gpu.go, allocateByPartition). */
/* The most that a Device may say (crds/devices.yaml): 64 cards of 16 TiB. */
Test(koordinator_mirror, the_largest_cards_are_a_number_of_bytes)
{
    struct koordinator_card cards[64];
    struct device_resource *list = NULL;
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(cards); i++) {
        cards[i] = h100(0);
        cards[i].index = cards[i].minor = (int64_t)i;
        cards[i].memory_mib = 1 << 24;
    }
    const struct koordinator_node node = node_of(cards, ARRAY_LEN(cards));
    koordinator_mirror_resources(&node, &list, &n);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        cr_expect_geq(list[i].count, 0, "%s", list[i].name);
        if (strcmp(list[i].name, KOORDINATOR_MEMORY) == 0)
            cr_expect_leq(list[i].count, (int64_t)64 << 44);
        free(list[i].name);
    }
    free(list);
}

Test(koordinator_mirror, a_minor_that_its_scheduler_cannot_count_is_not_shown)
{
    struct koordinator_card cards[] = {h100(0), h100(1)};
    cards[0].minor = 62;
    cards[1].minor = 63;
    const struct koordinator_node node = node_of(cards, 2);
    auto_json json_t *doc = seen(&node);
    cr_expect_eq(json_array_size(JX_AT(doc, "spec", "devices")), 1);
    cr_expect_eq(json_integer_value(JX_AT(device_at(doc, 0), "minor")), 62);
    cr_expect_eq(on_node(doc, KOORDINATOR_CORE), 100);
}

/* koordinator.sh/docs, user manual "Device Scheduling - Metax GPU". */
Test(koordinator_mirror, a_c500_is_what_koordinators_manual_shows)
{
    const struct koordinator_card cards[] = {c500(0)};
    const struct koordinator_node node = node_of(cards, 1);
    golden("c500", &node);
}

Test(koordinator_mirror, a_card_with_ecc_errors_has_a_legal_reason_and_is_not_counted)
{
    struct koordinator_card cards[] = {c500(0), c500(1)};
    cards[1].healthy = false;
    cards[1].reason = "ECC error";
    cards[1].message = "2 uncorrectable errors";
    cards[1].since_ms = EARLY_MS;
    const struct koordinator_node node = node_of(cards, 2);
    golden("c500-ecc", &node);
}

Test(koordinator_mirror, eight_h100_are_one_group_of_pairs_and_fours)
{
    struct koordinator_card cards[8];
    for (int64_t i = 0; i < 8; i++)
        cards[i] = h100(i);
    const struct koordinator_node node = node_of(cards, 8);
    golden("h100x8", &node);
}

Test(koordinator_mirror, of_two_vendors_the_one_with_more_cards_is_seen)
{
    const struct koordinator_card cards[] = {h100(0), c500(0), c500(1)};
    const struct koordinator_node node = node_of(cards, 3);
    golden("two-vendors", &node);
}

Test(koordinator_mirror, of_two_vendors_the_one_that_the_node_names_is_seen)
{
    const struct koordinator_card cards[] = {h100(0), c500(0), c500(1)};
    struct koordinator_node node = node_of(cards, 3);
    node.preferred_vendor = "nvidia";
    auto_json json_t *doc = seen(&node);
    cr_expect_str_eq(JX_STR_AT(doc, "labels", KOORDINATOR_LABEL_VENDOR), "nvidia");
    cr_expect_eq(json_array_size(JX_AT(doc, "spec", "devices")), 1);
    cr_expect_eq(on_node(doc, KOORDINATOR_GPU), 100);
}

Test(koordinator_mirror, a_vendor_that_the_node_names_and_has_no_cards_of_is_none)
{
    const struct koordinator_card cards[] = {c500(0)};
    struct koordinator_node node = node_of(cards, 1);
    node.preferred_vendor = "nvidia";
    auto_json json_t *doc = seen(&node);
    cr_expect_str_eq(JX_STR_AT(doc, "labels", KOORDINATOR_LABEL_VENDOR), "metax");
}

Test(koordinator_mirror, of_no_cards_nothing_is_said)
{
    const struct koordinator_node node = node_of(NULL, 0);
    cr_expect_not(koordinator_mirror_has_cards(&node));
    golden("none", &node);
}

Test(koordinator_mirror, a_card_that_is_cut_or_in_another_mode_is_not_seen)
{
    struct koordinator_card cards[] = {h100(0), h100(1), c500(0), c500(1)};
    cards[0].mode = API_MODE_MIG;
    cards[1].cut = true;
    cards[2].mode = API_MODE_NATIVE;
    cards[3].cut = true;
    const struct koordinator_node node = node_of(cards, 4);
    cr_expect_not(koordinator_mirror_has_cards(&node));
}

Test(koordinator_mirror, a_card_that_is_about_to_change_is_not_healthy_and_not_counted)
{
    struct koordinator_card cards[] = {h100(0), h100(1)};
    cards[0].withdrawn = true;
    const struct koordinator_node node = node_of(cards, 2);
    auto_json json_t *doc = seen(&node);
    cr_expect(json_is_false(JX_AT(device_at(doc, 0), "health")));
    cr_expect_str_eq(JX_STR_AT(condition_at(doc, 0), "reason"), "Withdrawn");
    cr_expect_eq(on_node(doc, KOORDINATOR_CORE), 100);
    cr_expect_eq(on_node(doc, KOORDINATOR_MEMORY), INT64_C(81559) << 20);
}

/* Zero would reject pods that a node without the name never meets. */
Test(koordinator_mirror, a_node_whose_cards_are_all_ill_offers_no_names_at_all)
{
    struct koordinator_card cards[] = {c500(0)};
    cards[0].healthy = false;
    const struct koordinator_node node = node_of(cards, 1);
    auto_json json_t *doc = seen(&node);
    cr_expect_eq(json_object_size(JX_AT(doc, "node")), 0);
    cr_expect(koordinator_mirror_has_cards(&node));
}

/* --- Times --- */

static void expect_time(const struct koordinator_card *card, const struct koordinator_spec *before,
                        const char *time)
{
    const struct koordinator_node node = node_of(card, 1);
    auto_json json_t *doc = seen_with(&node, before);
    cr_expect_str_eq(JX_STR_AT(condition_at(doc, 0), "lastTransitionTime"), time);
}

static void before_of(bool well, struct koordinator_spec *ret)
{
    struct koordinator_card card = c500(0);
    const struct koordinator_node node = node_of(&card, 1);
    auto_koordinator_mirror struct koordinator_mirror m = {0};
    card.healthy = well;
    koordinator_mirror_build(&node, /* before= */ NULL, EARLY_MS, &m);
    *ret = m.spec;
    m.spec = (struct koordinator_spec){0};
}

Test(koordinator_mirror, the_time_of_a_condition_changes_only_with_its_status)
{
    auto_koordinator_spec struct koordinator_spec was_well = {0};
    auto_koordinator_spec struct koordinator_spec was_ill = {0};
    struct koordinator_card well = c500(0);
    struct koordinator_card ill = c500(0);
    ill.healthy = false;
    before_of(true, &was_well);
    before_of(false, &was_ill);
    expect_time(&well, &was_well, "2023-11-14T22:13:20Z");
    expect_time(&ill, &was_ill, "2023-11-14T22:13:20Z");
    expect_time(&ill, &was_well, "2027-01-15T08:00:00Z");
    expect_time(&well, &was_ill, "2027-01-15T08:00:00Z");
    expect_time(&well, NULL, "2027-01-15T08:00:00Z");
    ill.since_ms = EARLY_MS;
    expect_time(&ill, &was_well, "2023-11-14T22:13:20Z");
}

/* --- Names --- */

Test(koordinator_mirror, cards_go_by_their_minors_and_where_there_are_none_by_their_indexes)
{
    struct koordinator_card cards[] = {h100(0), h100(1), h100(2)};
    cards[0].minor = 5;
    cards[1].minor = 4;
    cards[2].minor = -1; /* beside others that have one it cannot be named */
    const struct koordinator_node node = node_of(cards, 3);
    auto_json json_t *doc = seen(&node);
    cr_assert_eq(json_array_size(JX_AT(doc, "spec", "devices")), 2);
    cr_expect_str_eq(JX_STR_AT(device_at(doc, 0), "id"), "GPU-1");
    cr_expect_eq(json_integer_value(JX_AT(device_at(doc, 1), "minor")), 5);
}

Test(koordinator_mirror, cards_of_several_models_have_no_label_of_a_model)
{
    struct koordinator_card cards[] = {h100(0), h100(1)};
    cards[1].model = "NVIDIA H200";
    const struct koordinator_node node = node_of(cards, 2);
    auto_json json_t *doc = seen(&node);
    cr_expect_null(JX_AT(doc, "labels", KOORDINATOR_LABEL_MODEL));
    cr_expect_str_eq(JX_STR_AT(doc, "labels", KOORDINATOR_LABEL_VENDOR), "nvidia");
}

Test(koordinator_mirror, without_a_known_pcie_root_there_is_no_topology)
{
    struct koordinator_card card = c500(0);
    card.pcie_root = NULL;
    const struct koordinator_node node = node_of(&card, 1);
    auto_json json_t *doc = seen(&node);
    cr_expect_null(JX_AT(device_at(doc, 0), "topology"));
}

/* --- Groups --- */

static char *partitions(const struct koordinator_node *node)
{
    auto_json json_t *doc = seen(node);
    return xstrdup(JX_STR_AT(doc, "annotations", KOORDINATOR_PARTITIONS));
}

Test(koordinator_mirror, cards_without_links_have_no_groups)
{
    struct koordinator_card cards[] = {c500(0), c500(1)};
    const struct koordinator_node node = node_of(cards, 2);
    auto_free char *text = partitions(&node);
    cr_expect_null(text);
}

Test(koordinator_mirror, a_card_that_is_joined_to_nobody_stands_alone_beside_a_group)
{
    struct koordinator_card cards[] = {c500(0), c500(1), c500(2)};
    cards[0].linked = 1 << 2;
    cards[2].linked = 1 << 0;
    const struct koordinator_node node = node_of(cards, 3);
    auto_free char *text = partitions(&node);
    cr_expect_str_eq(text, "{\"1\":[{\"allocationScore\":1,\"minors\":[0]},"
                           "{\"allocationScore\":1,\"minors\":[2]},"
                           "{\"allocationScore\":1,\"minors\":[1]}],"
                           "\"2\":[{\"allocationScore\":1,\"gpuLinkType\":\"MetaXLink\","
                           "\"minors\":[0,2]}]}");
}

/* 0-1-2: the card in the middle is joined to both, these are not joined to each other. */
Test(koordinator_mirror, a_chain_is_no_group)
{
    struct koordinator_card cards[] = {c500(0), c500(1), c500(2)};
    cards[0].linked = 1 << 1;
    cards[1].linked = 1 << 0 | 1 << 2;
    cards[2].linked = 1 << 1;
    const struct koordinator_node node = node_of(cards, 3);
    auto_free char *text = partitions(&node);
    cr_expect_null(text);
}

Test(koordinator_mirror, a_model_goes_without_what_its_vendor_puts_before_it)
{
    cr_expect_str_eq(koordinator_mirror_model("nvidia", "NVIDIA L4"), "L4");
    cr_expect_str_eq(koordinator_mirror_model("metax", "MXC500"), "C500");
    cr_expect_str_eq(koordinator_mirror_model("metax", "NVIDIA L4"), "NVIDIA L4");
    cr_expect_str_eq(koordinator_mirror_model("amd", "MI300X"), "MI300X");
}

Test(koordinator_mirror, a_card_with_virtual_functions_is_not_seen)
{
    struct koordinator_card cards[] = {c500(0), c500(1)};
    cards[1].mode = API_MODE_VGPU;
    cards[1].cut = true;
    const struct koordinator_node both = node_of(cards, 2);
    auto_json json_t *doc = seen(&both);
    cr_expect_eq(json_array_size(JX_AT(doc, "spec", "devices")), 1);
    cr_expect_eq(on_node(doc, KOORDINATOR_CORE), 100);
    const struct koordinator_node alone = node_of(&cards[1], 1);
    cr_expect_not(koordinator_mirror_has_cards(&alone));
}
