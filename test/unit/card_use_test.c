/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "mig_tables_support.h"
#include "reconcilers/records/card_use.h"

/* What of a card is given out, and what is left. */
static struct device_partition parts[32];
static char ns_a[] = "a", ns_b[] = "b", pod[] = "web", main_container[] = "c", sidecar[] = "side";
static struct device_consumer web = {.namespace = ns_a, .name = pod, .container = main_container};
static struct device_consumer side = {.namespace = ns_a, .name = pod, .container = sidecar};
static struct device_consumer other = {.namespace = ns_b, .name = pod, .container = main_container};
static struct device_consumer process = {.pid = 7};
static struct device_card card;

static void setup(void)
{
    memset(parts, 0, sizeof(parts));
    card = (struct device_card){.healthy = true, .memory_mib = 81559, .partitions = parts};
}

TestSuite(card_use, .init = setup);

/* "a/1g.10gb*2 free=71364 largest=40448" */
static void expect_use(const char *expected)
{
    auto_sb struct sb text = SB_INIT(4096);
    struct card_use u;
    card_use_read(&card, mig_model("H100-80"), &u);
    for (size_t i = 0; i < u.n_grants; i++)
        sb_addf(&text, "%s*%lld ", u.grants[i].profile, (long long)u.grants[i].count);
    sb_addf(&text, "free=%lld largest=%lld", (long long)u.free_mib, (long long)u.largest_mib);
    cr_expect_str_eq(sb_str(&text), expected);
    card_use_done(&u);
}

static struct device_partition *part(char *profile, char *placement, struct device_consumer *by)
{
    struct device_partition *p = &parts[card.n_partitions++];
    *p = (struct device_partition){.profile = profile,
                                   .placement = placement,
                                   .in_use = by,
                                   .in_use_by = by,
                                   .n_in_use_by = by ? 1 : 0};
    return p;
}

static char mig_1g[] = "1g.10gb", mig_3g[] = "3g.40gb", share[] = "share";
static char at_0[] = "0:1", low_half[] = "0:4", high_half[] = "4:4";

Test(card_use, a_card_that_nobody_has_is_free_as_a_whole)
{
    expect_use("free=81559 largest=81559");
}

Test(card_use, a_whole_card_is_its_pods_once)
{
    struct device_consumer list[] = {web, web, {.pid = 7, .namespace = ns_a, .name = pod}};
    card.in_use = true;
    card.in_use_by = list;
    card.n_in_use_by = 3;
    expect_use("a/*1 free=0 largest=0");
}

Test(card_use, replicas_are_counted_by_container)
{
    struct device_consumer list[] = {web, side, other};
    card.in_use = true;
    card.in_use_by = list;
    card.n_in_use_by = 3;
    expect_use("a/*2 b/*1 free=0 largest=0");
}

/* As many as the schema lets an agent report of one card, each of a namespace of its own. They are
 * sorted, so that they are not each compared with all. */
Test(card_use, thousands_of_namespaces_are_told_in_order)
{
    enum { PARTS = 128, USERS = 64 };
    static char names[PARTS * USERS][16];
    static struct device_consumer list[PARTS * USERS];
    static struct device_partition all[PARTS];
    struct card_use u;
    for (unsigned i = 0; i < PARTS * USERS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "ns%05u", PARTS * USERS - i);
        list[i] = (struct device_consumer){.namespace = names[i], .name = pod};
    }
    card.partitions = all;
    card.n_partitions = PARTS;
    for (unsigned i = 0; i < PARTS; i++)
        all[i] = (struct device_partition){.profile = share,
                                           .in_use = true,
                                           .in_use_by = &list[(size_t)i * USERS],
                                           .n_in_use_by = USERS};
    card_use_read(&card, /* t= */ NULL, &u);
    cr_assert_eq(u.n_grants, PARTS * USERS);
    cr_expect_str_eq(u.grants[0].profile, "ns00001/share");
    cr_expect_str_eq(u.grants[u.n_grants - 1].profile, "ns08192/share");
    card_use_done(&u);
}

Test(card_use, a_process_outside_pods_has_no_namespace)
{
    card.in_use = true;
    expect_use("/*1 free=0 largest=0");
    card.in_use_by = &process;
    card.n_in_use_by = 1;
    expect_use("/*1 free=0 largest=0");
}

Test(card_use, partitions_that_nobody_uses_can_be_cut_anew)
{
    card.mode = API_MODE_MIG;
    (void)part(mig_3g, low_half, &web);
    (void)part(mig_1g, high_half, NULL);
    expect_use("a/3g.40gb*1 free=40779 largest=40448");
}

Test(card_use, a_partition_that_is_ill_stays)
{
    card.mode = API_MODE_MIG;
    part(mig_3g, low_half, NULL)->has_unhealthy = true;
    expect_use("free=40779 largest=40448");
}

Test(card_use, compute_instances_of_one_instance_take_its_memory_once)
{
    static char c1[] = "1c.3g.40gb";
    card.mode = API_MODE_MIG;
    (void)part(c1, low_half, &web);
    (void)part(c1, low_half, &other);
    expect_use("a/1c.3g.40gb*1 b/1c.3g.40gb*1 free=40779 largest=40448");
}

Test(card_use, a_placement_that_cannot_be_read_leaves_no_room)
{
    static char bad[][12] = {"", ":", "0", "0:0", "x:1", "0:1x", "-1:1", "99:1", "0:9999999"};
    card.mode = API_MODE_MIG;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        card.n_partitions = 0;
        (void)part(mig_1g, bad[i], &web);
        expect_use("a/1g.10gb*1 free=0 largest=0");
    }
    parts[0].placement = NULL;
    expect_use("a/1g.10gb*1 free=0 largest=0");
}

Test(card_use, more_instances_than_a_card_can_have_leave_no_room)
{
    char placements[20][8];
    card.mode = API_MODE_MIG;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(placements[i], sizeof(placements[i]), "%d:1", i);
        (void)part(mig_1g, placements[i], &web);
    }
    expect_use("a/1g.10gb*20 free=0 largest=0");
}

Test(card_use, a_model_without_a_table_has_no_room_in_mode_mig)
{
    struct card_use u;
    card.mode = API_MODE_MIG;
    (void)part(mig_1g, at_0, NULL);
    card_use_read(&card, NULL, &u);
    cr_expect_eq(u.free_mib, 0);
    card_use_done(&u);
}

Test(card_use, shares_leave_the_rest_of_the_card_while_more_are_allowed)
{
    card.in_use = true;
    card.has_fractional = true;
    card.fractional = (struct device_fractional_state){.memory_mib = 81559, .max_shares = 2};
    struct device_partition *p = part(share, NULL, &web);
    p->has_slice = true;
    p->slice.memory_mib = 20000;
    expect_use("a/share*1 free=61559 largest=61559");
    p = part(share, NULL, &other);
    p->has_slice = true;
    p->slice.memory_mib = 10000;
    expect_use("a/share*1 b/share*1 free=51559 largest=0");
}

Test(card_use, a_share_is_no_larger_than_its_card)
{
    card.has_fractional = true;
    card.fractional = (struct device_fractional_state){.memory_mib = 163118, .max_shares = 10};
    expect_use("free=163118 largest=81559");
}

Test(card_use, shares_beyond_the_total_leave_nothing)
{
    card.has_fractional = true;
    card.fractional = (struct device_fractional_state){.memory_mib = 100, .max_shares = 10};
    struct device_partition *p = part(share, NULL, &web);
    p->has_slice = true;
    p->slice.memory_mib = 5000;
    expect_use("a/share*1 free=0 largest=0");
}

Test(card_use, functions_are_free_one_by_one)
{
    card.mode = API_MODE_VGPU;
    for (int i = 0; i < 4; i++) {
        struct device_partition *p = part(NULL, NULL, i == 0 ? &web : NULL);
        p->has_vf = true;
        p->vf.memory_mib = 16000;
    }
    expect_use("a/*1 free=48000 largest=16000");
}

Test(card_use, an_ill_card_has_nothing_left_and_still_counts_who_has_it)
{
    card.healthy = false;
    card.in_use = true;
    card.in_use_by = &web;
    card.n_in_use_by = 1;
    expect_use("a/*1 free=0 largest=0");
}
