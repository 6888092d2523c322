/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/slots/slot_place.h"

#define CARD_MIB 65536

static struct gpu_card cards[3];
static struct slot_card open_cards[3];

static void put(unsigned card, const char *alias, unsigned mib, unsigned percent)
{
    struct sgpu_state *s = &cards[card].sgpu;
    struct sgpu_slice *slice = &s->items[s->n];
    *slice = (struct sgpu_slice){.id = s->n++, .quota = {mib, percent}};
    (void)snprintf(slice->alias, sizeof(slice->alias), "%s", alias);
}

static void node(size_t n)
{
    memset(cards, 0, sizeof(cards));
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(cards[i].uuid, sizeof(cards[i].uuid), "GPU-%u", i);
        cards[i].vendor = "metax";
        cards[i].index = i;
        cards[i].mode = GPU_SGPU;
        cards[i].sgpu = (struct sgpu_state){.memory_mib = CARD_MIB, .qos = API_FIXED_SHARE};
        open_cards[i] = (struct slot_card){.card = &cards[i], .qos = -1, .open = true};
    }
}

static void expect_place(size_t n, unsigned slot, struct slot_wish w, const char *uuid, int qos)
{
    struct slot_place p;
    auto_err struct err e = {0};
    cr_assert_eq(slot_place(open_cards, n, &slot, &w, 1, &p, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(p.card->uuid, uuid);
    cr_expect_eq(p.qos, qos);
}

static void expect_none(size_t n, struct slot_wish w, enum err_kind kind, const char *words)
{
    const unsigned slot = 0;
    struct slot_place p;
    auto_err struct err e = {0};
    cr_expect_eq(slot_place(open_cards, n, &slot, &w, 1, &p, &e), -(int)kind);
    cr_expect_str_eq(err_msg(&e), words);
}

static const struct slot_wish small = {.memory_mib = 1024, .compute_percent = 10, .qos = -1};

static struct slot_wish like(int qos, const char *card)
{
    struct slot_wish w = small;
    w.qos = qos;
    (void)snprintf(w.card, sizeof(w.card), "%s", card);
    return w;
}

Test(slot_place, slices_are_packed_so_that_large_ones_stay_possible)
{
    node(3);
    put(1, "slot.4", 32768, 50);
    expect_place(3, 0, small, "GPU-1", -1);
    put(1, "slot.5", 32768, 40);
    expect_place(3, 0, small, "GPU-0", -1);
}

Test(slot_place, a_card_that_a_scheduler_chose_is_taken_and_no_other)
{
    node(3);
    put(1, "slot.4", 32768, 50);
    expect_place(3, 0, like(-1, "GPU-2"), "GPU-2", -1);
    put(2, "slot.5", 65536, 50);
    expect_none(3, like(-1, "GPU-2"), ERR_UNAVAILABLE,
                "1024 MiB are asked for, and 0 are left on MetaX GPU 2");
    expect_none(3, like(-1, "GPU-9"), ERR_UNAVAILABLE,
                "no card GPU-9 of this node has slices made for pods");
    expect_none(0, small, ERR_UNAVAILABLE, "no card of this node has slices made for pods");
}

Test(slot_place, an_idle_card_takes_the_policy_of_the_pod_and_one_with_slices_keeps_its_own)
{
    node(2);
    put(0, "slot.4", 1024, 10);
    expect_place(2, 0, like(API_FIXED_SHARE, ""), "GPU-0", -1);
    expect_place(2, 0, like(API_BURST_SHARE, ""), "GPU-1", API_BURST_SHARE);
    expect_none(
        1, like(API_BURST_SHARE, ""), ERR_UNAVAILABLE,
        "the slices on MetaX GPU 0 stand under fixed-share, and the pod asks for burst-share");
    open_cards[1].qos = API_FIXED_SHARE;
    cards[0].sgpu.n = 0;
    open_cards[0].qos = API_FIXED_SHARE;
    expect_none(2, like(API_BURST_SHARE, ""), ERR_INVALID,
                "MetaX GPU 0 is for fixed-share, and the pod asks for burst-share");
}

Test(slot_place, what_the_slot_has_already_is_made_again_and_takes_no_room)
{
    node(1);
    put(0, "slot.7", 65536, 100);
    expect_place(1, 7, small, "GPU-0", -1);
    expect_none(1, small, ERR_UNAVAILABLE, "1024 MiB are asked for, and 0 are left on MetaX GPU 0");
}

Test(slot_place, quotas_count_all_slices_and_a_whole_cards_worth_needs_an_empty_one)
{
    node(1);
    const struct slot_wish all = {.memory_percent = 100, .compute_percent = 100, .qos = -1};
    expect_place(1, 0, all, "GPU-0", -1);
    put(0, "theirs", 1024, 95);
    cards[0].sgpu.items[0].foreign = true;
    expect_none(1, small, ERR_UNAVAILABLE,
                "10 % of compute are asked for, and 5 are left on MetaX GPU 0");
    expect_none(1, (struct slot_wish){.memory_mib = 131072, .qos = -1, .compute_percent = 1},
                ERR_INVALID, "131072 MiB are asked for, and MetaX GPU 0 has 65536");
    expect_none(1, (struct slot_wish){.memory_mib = 128, .qos = -1}, ERR_INVALID,
                "under fixed-share a slice needs a share of compute");
    for (unsigned i = 1; i < SGPU_MAX_SLICES; i++)
        put(0, "other", 128, 0);
    expect_none(1, (struct slot_wish){.memory_mib = 128, .compute_percent = 1, .qos = -1},
                ERR_UNAVAILABLE, "MetaX GPU 0 has as many slices as it takes");
}

Test(slot_place, a_card_that_is_ill_or_about_to_change_gets_none)
{
    node(1);
    open_cards[0].open = false;
    expect_none(1, small, ERR_UNAVAILABLE, "MetaX GPU 0 takes no new slices at the moment");
}

Test(slot_place, slots_of_one_container_take_room_from_each_other)
{
    const unsigned slots[] = {4, 7};
    const struct slot_wish wishes[] = {
        {.memory_mib = CARD_MIB / 2 + SGPU_STEP_MIB, .compute_percent = 10, .qos = -1},
        {.memory_mib = CARD_MIB / 2, .compute_percent = 10, .qos = -1},
    };
    struct slot_place p[2];
    auto_err struct err e = {0};
    node(2);
    cr_assert_eq(slot_place(open_cards, 2, slots, wishes, 2, p, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(p[0].card, &cards[0]);
    cr_expect_eq(p[1].card, &cards[1]);
    cr_expect_eq(cards[0].sgpu.n, 0, "the caller's cards stay as they are");

    node(1);
    cr_expect_eq(slot_place(open_cards, 1, slots, wishes, 2, p, &e), -(int)ERR_UNAVAILABLE);
}

Test(slot_place, first_slot_of_a_container_sets_the_policy_of_a_card_without_slices)
{
    const unsigned slots[] = {4, 7};
    const struct slot_wish wishes[] = {like(API_BURST_SHARE, ""), like(API_BURST_SHARE, "")};
    struct slot_place p[2];
    auto_err struct err e = {0};
    node(1);
    cr_assert_eq(slot_place(open_cards, 1, slots, wishes, 2, p, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(p[0].qos, API_BURST_SHARE);
    cr_expect_eq(p[1].qos, -1);
}
