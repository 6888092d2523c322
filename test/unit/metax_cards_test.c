/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "interop/metax_cards.h"

TestSuite(metax_cards);

static struct metax_card c500(unsigned index, const struct sgpu_state *slices)
{
    static const char *const uuids[] = {"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"};
    return (struct metax_card){.uuid = uuids[index],
                               .pci_bus_id = "0000:38:00.0",
                               .model = "MXC500",
                               .index = index,
                               .numa_node = 3,
                               .memory_mib = 65536,
                               .slices = slices,
                               .shown = true,
                               .healthy = true};
}

static json_t *told(const struct metax_card *cards, size_t n)
{
    auto_err struct err e = {0};
    auto_free char *text = metax_cards_text(cards, n);
    json_t *list = NULL;
    cr_assert_not_null(text);
    cr_assert_eq(jx_parse(text, strlen(text), METAX_CARDS_MAX_BYTES, &list, &e), 0, "%s",
                 err_msg(&e));
    return list;
}

static json_int_t number(const json_t *list, size_t i, const char *key)
{
    const json_t *value = json_object_get(json_array_get(list, i), key);
    cr_assert(json_is_integer(value), "%s of %zu", key, i);
    return json_integer_value(value);
}

static void expect_numbers(const json_t *list, const char *what, json_int_t devices,
                           json_int_t compute, json_int_t memory)
{
    static const char *const words[] = {"DevCount", "Compute", "VRam"};
    const json_int_t expected[] = {devices, compute, memory};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        auto_free char *key = xasprintf("%s%s", what, words[i]);
        cr_expect_eq(number(list, 0, key), expected[i], "%s is %lld", key, number(list, 0, key));
    }
}

Test(metax_cards, text_is_what_hami_decodes)
{
    const struct sgpu_state slices = {.memory_mib = 65536, .qos = API_FIXED_SHARE};
    const struct metax_card card = c500(0, &slices);
    auto_free char *text = metax_cards_text(&card, 1);
    cr_expect_str_eq(text, "[{\"availableCompute\":100,\"availableDevCount\":16,"
                           "\"availableVRam\":65536,\"bdf\":\"0000:38:00.0\",\"healthy\":true,"
                           "\"linkZone\":0,\"model\":\"MXC500\",\"numa\":3,"
                           "\"qosPolicy\":\"fixed-share\",\"totalCompute\":100,"
                           "\"totalDevCount\":16,\"totalVRam\":65536,\"uuid\":\"GPU-0\"}]");
}

Test(metax_cards, slices_are_taken_from_what_is_available_and_others_from_the_totals_too)
{
    const struct sgpu_state slices = {.memory_mib = 65536,
                                      .qos = API_BURST_SHARE,
                                      .n = 3,
                                      .items = {{.alias = "slot.0", .quota = {1024, 10}},
                                                {.alias = "slot.1", .quota = {2048, 20}},
                                                {.alias = "theirs",
                                                 .quota = {4096, 30},
                                                 .foreign = true}}};
    const struct metax_card card = c500(0, &slices);
    auto_json json_t *list = told(&card, 1);
    expect_numbers(list, "available", 13, 40, 65536 - 7168);
    expect_numbers(list, "total", 15, 70, 65536 - 4096);
}

Test(metax_cards, more_compute_than_there_is_leaves_none)
{
    struct sgpu_state slices = {.memory_mib = 65536, .qos = API_BEST_EFFORT, .n = 16};
    for (unsigned i = 0; i < slices.n; i++)
        slices.items[i] = (struct sgpu_slice){.quota = {8192, 100}, .foreign = i % 2};
    const struct metax_card card = c500(0, &slices);
    auto_json json_t *list = told(&card, 1);
    expect_numbers(list, "available", 0, 0, 0);
    expect_numbers(list, "total", 8, 0, 0);
}

Test(metax_cards, what_is_not_told_is_empty)
{
    struct metax_card card = c500(0, NULL);
    card.pci_bus_id = NULL;
    card.model = NULL;
    card.numa_node = -1;
    card.healthy = false;
    auto_json json_t *list = told(&card, 1);
    const json_t *told_card = json_array_get(list, 0);
    expect_numbers(list, "available", 16, 100, 65536);
    cr_expect_eq(number(list, 0, "numa"), 0);
    cr_expect_str_empty(JX_STR_AT(told_card, "bdf"));
    cr_expect_str_empty(JX_STR_AT(told_card, "model"));
    cr_expect_str_empty(JX_STR_AT(told_card, "qosPolicy"));
    cr_expect(json_is_false(JX_AT(told_card, "healthy")));
}

Test(metax_cards, those_that_are_not_shown_are_left_out)
{
    struct metax_card cards[] = {c500(0, NULL), c500(1, NULL)};
    cards[0].shown = false;
    auto_json json_t *list = told(cards, 2);
    cr_expect_eq(json_array_size(list), 1);
    cr_expect_str_eq(JX_STR_AT(json_array_get(list, 0), "uuid"), "GPU-1");
    cards[1].shown = false;
    cr_expect_null(metax_cards_text(cards, 2));
    cr_expect_null(metax_cards_text(NULL, 0));
}

Test(metax_cards, joined_cards_have_a_zone_in_common)
{
    struct metax_card cards[] = {c500(0, NULL), c500(1, NULL), c500(2, NULL), c500(3, NULL),
                                 c500(4, NULL)};
    static const json_int_t zones[] = {1, 2, 1, 2, 0};
    cards[0].linked = 1 << 2;
    cards[3].linked = 1 << 1; /* the other end does not tell */
    auto_json json_t *list = told(cards, ARRAY_LEN(cards));
    for (size_t i = 0; i < ARRAY_LEN(zones); i++)
        cr_expect_eq(number(list, i, "linkZone"), zones[i], "card %zu", i);
}

Test(metax_cards, a_zone_is_one_over_a_card_that_is_not_shown)
{
    struct metax_card cards[] = {c500(0, NULL), c500(1, NULL), c500(2, NULL)};
    cards[1].linked = 1 << 0 | 1 << 2;
    cards[1].shown = false;
    auto_json json_t *list = told(cards, ARRAY_LEN(cards));
    cr_expect_eq(number(list, 0, "linkZone"), 1);
    cr_expect_eq(number(list, 1, "linkZone"), 1);
}

Test(metax_cards, a_strange_number_of_cards_is_bounded)
{
    struct metax_card cards[METAX_CARDS_MAX + 10];
    for (unsigned i = 0; i < ARRAY_LEN(cards); i++) {
        cards[i] = c500(0, NULL);
        cards[i].index = i;
        cards[i].linked = UINT64_MAX;
    }
    auto_json json_t *list = told(cards, ARRAY_LEN(cards));
    cr_expect_eq(json_array_size(list), METAX_CARDS_MAX);
}
