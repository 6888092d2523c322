/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/dri_nodes.h"

/* Plain files stand for device files: what matters here is their names. */

TestSuite(dri_nodes, .init = folder_enter, .fini = folder_leave);

static void put(const char *path)
{
    auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert_eq(file_make_dirs(parent, 0755, NULL), 0);
    cr_assert_eq(file_write_atomic(path, "", 0, 0644, NULL), 0);
}

#define DRM "sys/bus/pci/devices/0000:05:00.0/drm/"
static const struct dri_where here = {.sys_root = "sys", .dev_root = "."};
static const char *const one[] = {"0000:05:00.0"};

Test(dri_nodes, files_that_stand_are_found)
{
    put(DRM "card1/dev");
    put(DRM "renderD128/dev");
    put(DRM "version");
    put("dev/dri/card1");
    put("dev/dri/renderD128");
    auto_dri_nodes struct dri_nodes n = {0};
    dri_nodes_read(&here, "/host", one, 1, &n);
    const struct dri_card *card = dri_nodes_card(&n, "0000:05:00.0");
    cr_assert_not_null(card);
    cr_assert_eq(card->n_cards, 1);
    cr_assert_eq(card->n_renders, 1);
    cr_expect_eq(card->cards[0], 1);
    cr_expect_eq(card->renders[0], 128);
    cr_expect_str_eq(n.host_dev_root, "/host");
}

Test(dri_nodes, node_that_the_kernel_names_and_nobody_made_does_not_stand)
{
    put(DRM "card1/dev");
    put(DRM "renderD128/dev");
    put("dev/dri/card1");
    cr_assert_eq(symlink("card1", "dev/dri/renderD128"), 0);
    auto_dri_nodes struct dri_nodes n = {0};
    dri_nodes_read(&here, /* host_dev_root= */ NULL, one, 1, &n);
    cr_expect_eq(n.cards[0].n_cards, 1);
    cr_expect_eq(n.cards[0].n_renders, 0, "a link is no device file");
}

Test(dri_nodes, numbers_are_sorted_as_numbers)
{
    static const unsigned numbers[] = {1000, 129, 131, 128};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        auto_free char *named = xasprintf(DRM "renderD%u/dev", numbers[i]);
        auto_free char *node = xasprintf("dev/dri/renderD%u", numbers[i]);
        put(named);
        put(node);
    }
    auto_dri_nodes struct dri_nodes n = {0};
    dri_nodes_read(&here, /* host_dev_root= */ NULL, one, 1, &n);
    cr_assert_eq(n.cards[0].n_renders, 4);
    cr_expect_eq(n.cards[0].renders[0], 128);
    cr_expect_eq(n.cards[0].renders[3], 1000);
}

Test(dri_nodes, machine_without_any_has_cards_without_nodes)
{
    auto_dri_nodes struct dri_nodes n = {0};
    dri_nodes_read(&here, "/", one, 1, &n);
    cr_assert_eq(n.n_cards, 1);
    cr_expect_eq(n.cards[0].n_cards + n.cards[0].n_renders, 0);
    cr_expect_str_eq(n.host_dev_root, "");
}

Test(dri_nodes, what_is_no_address_leads_into_no_folder)
{
    static const char *const nonsense[] = {"../../../..", "", "0000:05:00.0/../x", "renderD128"};
    auto_dri_nodes struct dri_nodes n = {0};
    dri_nodes_read(&here, "/", nonsense, ARRAY_LEN(nonsense), &n);
    cr_expect_eq(n.n_cards, 0);
    cr_expect_null(dri_nodes_card(&n, "../../../.."));
    cr_expect_null(dri_nodes_card(&n, NULL));
}

Test(dri_nodes, readings_differ_when_a_node_came)
{
    auto_dri_nodes struct dri_nodes before = {0};
    auto_dri_nodes struct dri_nodes same = {0};
    auto_dri_nodes struct dri_nodes after = {0};
    auto_dri_nodes struct dri_nodes other = {0};
    static const char *const two[] = {"0000:05:00.0", "0000:06:00.0"};
    put(DRM "renderD128/dev");
    dri_nodes_read(&here, "/", one, 1, &before);
    dri_nodes_read(&here, "/", one, 1, &same);
    put("dev/dri/renderD128");
    dri_nodes_read(&here, "/", one, 1, &after);
    dri_nodes_read(&here, "/", two, 2, &other);
    cr_expect(dri_nodes_equal(&before, &same));
    cr_expect_not(dri_nodes_equal(&before, &after));
    cr_expect_not(dri_nodes_equal(&after, &other));
}

static const struct {
    const char *text, *id;
} addresses[] = {
    {"0000:3b:00.0", "0000:3b:00.0"},
    {"0000:3B:00.0", "0000:3b:00.0"},
    {"00000000:3B:00.0", "0000:3b:00.0"},
    {"00010000:3B:00.0", "00010000:3b:00.0"},
    {"10000:3b:00.0", NULL},
    {"0000:3b:00.0 ", NULL},
    {"0000:3b:00", NULL},
    {"3b:00.0", NULL},
    {"0000:3g:00.0", NULL},
    {"", NULL},
    {NULL, NULL},
};

Test(dri_nodes, addresses_have_one_spelling)
{
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        char id[DRI_BUS_ID_BYTES] = "";
        bool is_one = dri_bus_id(addresses[i].text, id);
        cr_expect_eq(is_one, addresses[i].id != NULL, "%zu", i);
        cr_expect_str_eq(id, addresses[i].id ? addresses[i].id : "", "%zu", i);
    }
}

static const struct {
    const char *name, *prefix;
    int number;
} names[] = {
    {"renderD128", "renderD", 128}, {"card0", "card", 0},
    {"card1-DP-1", "card", -1},     {"card", "card", -1},
    {"card-1", "card", -1},         {"renderD128", "card", -1},
    {"controlD64", "card", -1},     {"card99999999999", "card", -1},
    {"card 1", "card", -1},
};

Test(dri_nodes, numbers_are_in_the_names_alone_that_have_the_prefix)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_expect_eq(dri_number(names[i].name, names[i].prefix), names[i].number, "%s",
                     names[i].name);
}
