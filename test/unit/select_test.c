/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/rng.h"

#include "partition/select.h"

static const struct resolve_card card = {
    .uuid = "GPU-1",
    .vendor = "nvidia",
    .model = "NVIDIA H100 80GB HBM3",
    .pci_bus_id = "00000000:0F:00.0",
    .pci_device_id = 0x233010DE,
    .pci_subsystem_id = 0x16C110DE,
    .index = 3,
};

Test(select, globs_match_as_a_shell_does_and_ignore_case)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"**", "abc", true},
        {"a*", "abc", true},
        {"*c", "abc", true},
        {"a*c", "abc", true},
        {"a*c", "ac", true},
        {"a*c", "acb", false},
        {"?", "", false},
        {"?", "a", true},
        {"??", "a", false},
        {"a?c", "abc", true},
        {"*H100*", "nvidia h100 x", true},
        {"H100", "H100 x", false},
        {"h100*", "H100 X", true},
        {"*a*b*c", "xaybzc", true},
        {"*a*b*c", "xbyazc", false},
        {"*aab", "aaab", true},
        {"a*?b", "ab", false},
        {"[a]", "a", false},
        {"[a]", "[a]", true},
        {"a\\*", "a*", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(select_glob(cases[i].pattern, cases[i].text), cases[i].matches, "%s %s",
                     cases[i].pattern, cases[i].text);
}

/* What a glob means, as slowly as it can be said. */
static bool oracle(const char *p, const char *t)
{
    if (!*p)
        return !*t;
    if (*p == '*')
        return oracle(p + 1, t) || (*t && oracle(p, t + 1));
    return *t && (*p == '?' || *p == *t) && oracle(p + 1, t + 1);
}

static void random_word(struct rng *r, const char *letters, char *ret)
{
    uint64_t len = rng_below(r, 8);
    for (uint64_t i = 0; i < len; i++)
        *ret++ = letters[rng_below(r, strlen(letters))];
    *ret = '\0';
}

Test(select, globs_agree_with_their_definition)
{
    struct rng r;
    rng_init(&r, 7);
    for (int i = 0; i < 50000; i++) {
        char pattern[9];
        char text[9];
        random_word(&r, "ab*?", pattern);
        random_word(&r, "ab", text);
        cr_assert_eq(select_glob(pattern, text), oracle(pattern, text), "%s %s", pattern, text);
    }
}

Test(select, a_selector_that_says_nothing_selects_every_card)
{
    cr_expect(select_card(&(struct card_selector){0}, &card));
    cr_expect(select_config_entry(&(struct migconfig_entry){0}, &card));
}

static char *list_of(const char *word)
{
    return (char *)(uintptr_t)word;
}

Test(select, each_thing_that_is_given_must_hold)
{
    char *here[] = {list_of("GPU-9"), list_of("GPU-1")};
    char *elsewhere[] = {list_of("GPU-10")};
    char *bus[] = {list_of("0000:0f:00.0")};
    char *domain[] = {list_of("0001:0f:00.0")};
    int64_t third[] = {0, 3};
    int64_t other[] = {33};
    const struct {
        struct card_selector sel;
        bool matches;
    } cases[] = {
        {{.vendor = list_of("nvidia")}, true},
        {{.vendor = list_of("amd")}, false},
        {{.model = list_of("*h100*")}, true},
        {{.model = list_of("*h200*")}, false},
        {{.indices = third, .n_indices = 2}, true},
        {{.indices = other, .n_indices = 1}, false},
        {{.uuids = here, .n_uuids = 2}, true},
        {{.uuids = elsewhere, .n_uuids = 1}, false},
        /* Four digits of PCI domain or eight, capital letters or small. */
        {{.pci_bus_ids = bus, .n_pci_bus_ids = 1}, true},
        {{.pci_bus_ids = domain, .n_pci_bus_ids = 1}, false},
        {{.vendor = list_of("nvidia"), .indices = other, .n_indices = 1}, false},
        {{.uuids = here, .n_uuids = 2, .pci_bus_ids = domain, .n_pci_bus_ids = 1}, false},
        {{.count = 1}, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(select_card(&cases[i].sel, &card), cases[i].matches, "case %zu", i);
}

Test(select, filters_name_the_model_and_if_need_be_the_subsystem)
{
    static const struct {
        const char *filter;
        bool matches;
    } cases[] = {
        {"0x233010DE", true},
        {"0x233010de", true},
        {"0x233110DE", false},
        {"0x233010DE:0x16C110DE", true},
        {"0x233010DE:0x16C010DE", false},
        {"", false},
        {":", false},
        {"0x233010DE:", false},
        {"0x233010DE:0x", false},
        {"0x1233010DE", false},
        {"garbage", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *filters[] = {list_of("0x000010DE"), list_of(cases[i].filter)};
        const struct migconfig_entry entry = {.filter = filters, .n_filter = 2};
        cr_expect_eq(select_config_entry(&entry, &card), cases[i].matches, "%s", cases[i].filter);
    }
}

Test(select, filter_and_indices_of_an_entry_must_both_hold)
{
    char *filters[] = {list_of("0x233010DE")};
    int64_t third[] = {3};
    int64_t other[] = {4};
    cr_expect(select_config_entry(&(struct migconfig_entry){.filter = filters,
                                                            .n_filter = 1,
                                                            .indices = third,
                                                            .n_indices = 1},
                                  &card));
    cr_expect_not(select_config_entry(&(struct migconfig_entry){.filter = filters,
                                                                .n_filter = 1,
                                                                .indices = other,
                                                                .n_indices = 1},
                                      &card));
}
