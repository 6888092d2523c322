/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_place.h"

/* Four cards of 80 GiB: 0 and 1 give ten shares each, 2 and 3 only themselves. */
enum { N_CARDS = 4 };
static struct gpu_card cards[N_CARDS];
static struct share_place places[N_CARDS];
static struct shares shares;
static struct card_scores scores;
static char ns[] = "ns", name[] = "pod", uid[] = "u1", main_name[] = "main", other[] = "u0";

static void set_up(void)
{
    for (unsigned i = 0; i < N_CARDS; i++) {
        cards[i] = (struct gpu_card){.vendor = "nvidia",
                                     .index = i,
                                     .model = "NVIDIA H100 80GB HBM3",
                                     .memory_mib = 81920};
        (void)snprintf(cards[i].uuid, sizeof(cards[i].uuid), "GPU-%u", i);
        places[i] = (struct share_place){.card = {.card = &cards[i],
                                                  .total = {81920, 100, i < 2 ? 10 : 1},
                                                  .only_whole = i >= 2},
                                         .open = true};
    }
    shares = (struct shares){0};
    scores = (struct card_scores){0};
}

static void tear_down(void)
{
    shares_done(&shares);
}

TestSuite(share_place, .init = set_up, .fini = tear_down);

static unsigned slot(unsigned number)
{
    return slot_at(SLOT_POOL_SHARE, number);
}

/* A share that stands, of the pod with this uid. */
static void stands(unsigned number, unsigned card, unsigned memory_mib, unsigned percent, char *of)
{
    struct share s = {.slot = slot(number),
                      .memory_mib = memory_mib,
                      .percent = percent,
                      .uid = of,
                      .container = main_name};
    memcpy(s.card, cards[card].uuid, sizeof(s.card));
    shares_put(&shares, &s);
    for (unsigned i = 0; i < N_CARDS; i++)
        places[i].card.used = shares_on(&shares, cards[i].uuid);
}

/* Places the first slots from `number` on; the result is "GPU-0 3000 30, …", or the error. */
static void check_placed(unsigned number, const struct share_wish *w, const char *expected)
{
    struct bound_slot bound[8] = {0};
    struct slot_binding b = {ns, name, uid, main_name, bound, w->ask.count, .unplaced = {0}};
    const struct share_places p = {places, N_CARDS, &shares, &scores};
    auto_err struct err e = {0};
    char text[512] = "";
    for (unsigned i = 0; i < b.n; i++)
        bound[i].slot = slot(number + i);
    if (share_place(&p, w, &b, &e) < 0) {
        cr_expect(strstr(err_msg(&e), expected), "%s", err_msg(&e));
        return;
    }
    for (unsigned i = 0; i < b.n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %u %u",
                       i ? ", " : "", bound[i].card, bound[i].quota.memory_mib,
                       bound[i].quota.compute_percent);
    cr_expect_str_eq(text, expected);
}

static struct share_wish wish(unsigned n, unsigned memory_mib, unsigned percent)
{
    return (struct share_wish){
        .ask = {.count = n, .memory_mib = memory_mib, .compute = percent, .priority = -1}};
}

static struct share_wish whole(unsigned n)
{
    return (struct share_wish){
        .ask = {.count = n, .memory_percent = 100, .compute = 100, .priority = -1}};
}

Test(share_place, parts_lie_on_fractional_cards_and_spread)
{
    const struct share_wish w = wish(1, 3000, 30);
    check_placed(0, &w, "GPU-0 3000 30");
    stands(0, 0, 3000, 30, other);
    check_placed(1, &w, "GPU-1 3000 30");
}

Test(share_place, whole_cards_come_from_those_that_give_no_parts_first)
{
    const struct share_wish one = whole(1);
    const struct share_wish three = whole(3);
    check_placed(0, &one, "GPU-2 81920 100");
    check_placed(0, &three, "GPU-2 81920 100, GPU-3 81920 100, GPU-0 81920 100");
}

Test(share_place, the_shares_of_a_container_are_on_different_cards)
{
    const struct share_wish two = wish(2, 3000, 0);
    const struct share_wish three = wish(3, 3000, 0);
    check_placed(0, &two, "GPU-0 3000 0, GPU-1 3000 0");
    check_placed(0, &three, "3 cards");
}

Test(share_place, what_stands_is_kept_even_on_a_closed_and_full_card)
{
    const struct share_wish w = wish(1, 3000, 30);
    stands(4, 1, 3000, 30, uid);
    stands(5, 1, 78920, 70, other);
    places[1].open = false;
    check_placed(4, &w, "GPU-1 3000 30");
}

Test(share_place, a_share_on_a_card_that_is_missing_waits_for_it)
{
    const struct share_wish w = wish(1, 3000, 30);
    stands(4, 1, 3000, 30, uid);
    (void)snprintf(cards[1].uuid, sizeof(cards[1].uuid), "GPU-9");
    check_placed(4, &w, "card GPU-1, which is missing");
}

Test(share_place, while_a_record_cannot_be_read_nothing_new_is_placed)
{
    const struct share_wish w = wish(1, 3000, 30);
    stands(4, 1, 3000, 30, uid);
    device_slots_put(&shares.unknown, slot(9));
    check_placed(4, &w, "GPU-1 3000 30");
    check_placed(5, &w, "the record of share.9 cannot be read");
    shares_drop(&shares, slot(9));
    check_placed(5, &w, "GPU-0 3000 30");
}

Test(share_place, what_an_earlier_pod_left_under_the_slot_does_not_count)
{
    const struct share_wish w = wish(1, 81920, 100);
    stands(4, 0, 81920, 100, other);
    stands(5, 1, 1000, 0, other);
    check_placed(4, &w, "GPU-0 81920 100");
    check_placed(6, &w, "81920 MiB");
}

Test(share_place, half_made_containers_are_completed_on_other_cards)
{
    const struct share_wish w = wish(2, 3000, 0);
    stands(5, 0, 3000, 0, uid);
    check_placed(4, &w, "GPU-1 3000 0, GPU-0 3000 0");
}

Test(share_place, a_card_whose_compute_is_asked_for_whole_is_shared_with_nobody)
{
    const struct share_wish w = wish(1, 1000, 0);
    stands(0, 0, 1000, 100, other);
    check_placed(1, &w, "GPU-1 1000 0");
    places[1].open = false;
    check_placed(1, &w, "(1 of 4 is unhealthy, 2 of 4 are given out as a whole only)");
}

/* Cards 0 and 3 of four that give shares are linked, and so are 1 and 2. */
static void link_cards(void)
{
    for (unsigned i = 0; i < N_CARDS; i++) {
        places[i].card.only_whole = false;
        places[i].card.total.shares = 10;
        scores.pair[i][N_CARDS - 1 - i] = 100;
    }
}

Test(share_place, the_best_connected_cards_are_taken_where_the_pod_says_so)
{
    struct share_wish w = wish(2, 3000, 0);
    link_cards();
    check_placed(0, &w, "GPU-0 3000 0, GPU-1 3000 0");
    w.cards.n_policies = 1;
    w.cards.policies[0] = FRACTION_TOPOLOGY;
    check_placed(0, &w, "GPU-0 3000 0, GPU-3 3000 0");
}

/* --- As a scheduler chose --- */

static struct share_wish given(const char *card, unsigned memory_mib, unsigned percent)
{
    static struct share_given many[4];
    static unsigned n;
    struct share_given *g = &many[n++ % ARRAY_LEN(many)];
    struct share_wish w = wish(1, memory_mib, percent);
    *g = (struct share_given){.memory_mib = memory_mib, .percent = percent};
    (void)snprintf(g->card, sizeof(g->card), "%s", card);
    w.given = g;
    w.said_by = "gpu.cleave.dev/allocation";
    return w;
}

Test(share_place, the_schedulers_card_is_taken_where_it_has_room)
{
    const struct share_wish w = given("GPU-1", 3000, 30);
    check_placed(0, &w, "GPU-1 3000 30");
    stands(1, 1, 80000, 0, other);
    check_placed(0, &w, "gives 3000 MiB and 30 % of NVIDIA GPU 1, which has 1920 MiB, 100 % and 9");
    places[1].open = false;
    check_placed(0, &w, "takes no new shares at the moment");
}

Test(share_place, a_record_of_a_card_elsewhere_is_said)
{
    const struct share_wish elsewhere = given("GPU-7", 3000, 30);
    check_placed(0, &elsewhere, "names card GPU-7");
}

Test(share_place, a_record_gives_no_part_of_a_card_that_gives_only_itself)
{
    const struct share_wish part = given("GPU-2", 3000, 30);
    struct share_wish all = given("GPU-2", 81920, 100);
    check_placed(
        0, &part,
        "of NVIDIA GPU 2, which has 81920 MiB, 100 % and 1 shares left, and is given out as a whole only");
    all.ask.memory_mib = 0;
    all.ask.memory_percent = 100;
    check_placed(0, &all, "GPU-2 81920 100");
}

Test(share_place, a_percentage_bounds_the_record_by_the_cards_memory)
{
    struct share_wish w = given("GPU-1", 41000, 0);
    w.ask.memory_mib = 0;
    w.ask.memory_percent = 50;
    check_placed(0, &w, "gives 41000 MiB of NVIDIA GPU 1, and the container asks for 40960");
}

Test(share_place, koordinators_card_is_given_as_much_of_as_the_container_asks_for)
{
    struct share_wish w = given("GPU-1", 0, 0);
    w.said_by = "scheduling.koordinator.sh/device-allocated";
    w.ask.memory_mib = 3000;
    w.ask.compute = 30;
    check_placed(0, &w, "GPU-1 3000 30");
    w.ask.memory_mib = 0;
    w.ask.memory_percent = 50;
    check_placed(0, &w, "GPU-1 40960 30");
    stands(1, 1, 80000, 0, other);
    check_placed(
        0, &w,
        "annotation scheduling.koordinator.sh/device-allocated gives 40960 MiB and 30 % of NVIDIA GPU 1, "
        "which has 1920 MiB");
}

Test(share_place, koordinators_card_that_gives_only_itself_is_given_whole)
{
    struct share_wish w = given("GPU-2", 0, 0);
    w.ask.memory_mib = 0;
    w.ask.memory_percent = 100;
    w.ask.compute = 100;
    check_placed(0, &w, "GPU-2 81920 100");
    w.ask.compute = 30;
    check_placed(0, &w, "is given out as a whole only");
}

/* --- What holds a container to its share --- */

static void check_levels(const struct share_wish *w, const char *expected)
{
    struct bound_slot bound[8] = {0};
    struct slot_binding b = {ns, name, uid, main_name, bound, w->ask.count, .unplaced = {0}};
    const struct share_places p = {places, N_CARDS, &shares, &scores};
    auto_err struct err e = {0};
    char text[64] = "";
    for (unsigned i = 0; i < b.n; i++)
        bound[i].slot = slot(i);
    cr_assert_eq(share_place(&p, w, &b, &e), 0, "%s", err_msg(&e));
    for (unsigned i = 0; i < b.n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? ", " : "",
                       api_memory_level_names[bound[i].memory_level]);
    cr_expect_str_eq(text, expected);
}

Test(share_place, a_new_share_is_held_by_what_its_card_has)
{
    const struct share_wish w = wish(2, 3000, 30);
    check_levels(&w, "none, none");
    places[1].card.memory_level = API_LEVEL_LIBRARY;
    check_levels(&w, "none, library");
}

Test(share_place, nothing_holds_a_container_to_a_whole_card)
{
    const struct share_wish w = whole(1);
    const struct share_wish memory = wish(1, 81920, 99);
    places[0].card.memory_level = places[1].card.memory_level = API_LEVEL_LIBRARY;
    places[2].open = places[3].open = false;
    check_levels(&w, "none");
    check_levels(&memory, "library");
}

Test(share_place, a_share_that_stands_stays_held_as_it_was_made)
{
    const struct share_wish w = wish(1, 3000, 30);
    places[0].card.memory_level = API_LEVEL_LIBRARY;
    stands(0, 0, 3000, 30, uid);
    check_levels(&w, "none");
    shares.items[0].memory_level = API_LEVEL_LIBRARY;
    places[0].card.memory_level = API_LEVEL_NONE;
    check_levels(&w, "library");
}

Test(share_place, a_container_does_without_a_limit_only_where_the_profile_lets_it)
{
    struct share_wish w = wish(1, 3000, 30);
    w.is_unlimited = true;
    places[0].card.memory_level = API_LEVEL_LIBRARY;
    check_levels(&w, "library");
    places[0].card.may_disable = true;
    check_levels(&w, "none");
    w.is_unlimited = false;
    check_levels(&w, "library");
}

/* --- Cards with MPS --- */

Test(share_place, everybody_on_a_card_with_mps_is_a_client_and_has_a_part_unless_it_has_all)
{
    static const struct {
        unsigned mib, percent;
        bool is_unlimited, is_capped;
    } cases[] = {{3000, 30, false, true}, {3000, 30, true, false}, {81920, 100, false, false}};
    places[0].card.compute_level = API_LEVEL_MPS;
    places[0].card.may_disable = true;
    places[1].open = places[2].open = places[3].open = false;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct share_wish w = wish(1, cases[i].mib, cases[i].percent);
        struct bound_slot g = {.slot = slot(0)};
        struct slot_binding b = {ns, name, uid, main_name, &g, 1, .unplaced = {0}};
        const struct share_places p = {places, N_CARDS, &shares, &scores};
        w.is_unlimited = cases[i].is_unlimited;
        cr_assert_eq(share_place(&p, &w, &b, NULL), 0, "%zu", i);
        cr_expect(g.compute_level == API_LEVEL_MPS && g.is_capped == cases[i].is_capped, "%zu", i);
    }
}

/* A process is a client of one daemon, and each card has its own. */
Test(share_place, a_container_with_several_shares_has_none_of_a_card_with_mps)
{
    const struct share_wish two = wish(2, 3000, 30);
    const struct share_wish chosen = given("GPU-0", 3000, 30);
    struct share_wish several = given("GPU-0", 3000, 30);
    places[2].open = places[3].open = false;
    places[0].card.compute_level = API_LEVEL_MPS;
    check_placed(0, &two, "1 of 4 is shared by MPS, for containers with one share");
    check_placed(0, &chosen, "GPU-0 3000 30");
    several.ask.count = 2;
    check_placed(0, &several, "is shared by MPS, for containers with one share");
    stands(0, 1, 3000, 30, uid);
    check_placed(0, &two, "none of 4 may be used");
}
