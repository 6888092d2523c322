/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "partition/fraction.h"
#include "partition/fraction_words.h"

enum { MAX = 8 };

/* A node of alike cards, each with 10 shares of 80 GiB. */
struct town {
    struct fraction_card cards[MAX];
    char uuids[MAX][16];
    uint16_t pairs[MAX * MAX];
    struct fraction_ask asks[MAX];
    struct fraction_node node;
    struct fraction_pod pod;
    struct fraction_plan plan;
};

static struct err e; /* of the last search */

static void clear(void)
{
    err_clear(&e);
}

TestSuite(fraction, .fini = clear);

static void init(struct town *t, unsigned n)
{
    *t = (struct town){.node = {.cards = t->cards, .n = n}, .pod = {.asks = t->asks}};
    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(t->uuids[i], sizeof(t->uuids[i]), "GPU-%u", i);
        t->cards[i] = (struct fraction_card){.uuid = t->uuids[i],
                                             .model = "NVIDIA H100 80GB HBM3",
                                             .numa = i < n / 2 ? 0 : 1,
                                             .total = {81920, 100, 10}};
    }
}

static void use(struct town *t, unsigned card, unsigned memory_mib, unsigned percent)
{
    t->cards[card].used.memory_mib += memory_mib;
    t->cards[card].used.percent += percent;
    t->cards[card].used.shares++;
}

static void ask(struct town *t, unsigned count, unsigned memory_mib, unsigned percent)
{
    static const char *const names[MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    t->asks[t->pod.n] = (struct fraction_ask){.container = names[t->pod.n],
                                              .count = count,
                                              .memory_mib = memory_mib,
                                              .percent = percent};
    t->pod.n++;
}

static void policy(struct town *t, enum fraction_policy p)
{
    t->pod.wish.policies[t->pod.wish.n_policies++] = p;
}

/* The cards of one ask, as digits: "013". */
static const char *found(struct town *t, unsigned i)
{
    static char text[MAX + 1];
    err_clear(&e);
    int rc = fraction_search(&t->node, &t->pod, &t->plan, &e);
    if (rc < 0)
        return err_msg(&e);
    for (unsigned k = 0; k < t->asks[i].count; k++)
        text[k] = (char)('0' + t->plan.cards[i][k]);
    text[t->asks[i].count] = '\0';
    return text;
}

/* --- Policies --- */

Test(fraction, spread_takes_the_emptiest_card_and_is_what_nobody_asked_for)
{
    struct town t;
    init(&t, 3);
    use(&t, 0, 10000, 10);
    use(&t, 1, 2000, 10);
    use(&t, 2, 3000, 10);
    ask(&t, 1, 3000, 30);
    cr_expect_str_eq(found(&t, 0), "1");
    policy(&t, FRACTION_SPREAD);
    cr_expect_str_eq(found(&t, 0), "1");
}

Test(fraction, binpack_takes_the_fullest_card_that_has_room)
{
    struct town t;
    init(&t, 3);
    use(&t, 0, 80000, 10);
    use(&t, 1, 40000, 10);
    ask(&t, 1, 3000, 30);
    policy(&t, FRACTION_BINPACK);
    cr_expect_str_eq(found(&t, 0), "1");
}

Test(fraction, weights_say_what_makes_a_card_full)
{
    struct town t;
    init(&t, 2);
    use(&t, 0, 1000, 90);
    use(&t, 1, 60000, 10);
    ask(&t, 1, 1000, 0);
    policy(&t, FRACTION_BINPACK);
    cr_expect_str_eq(found(&t, 0), "0", "90 %% of compute against three quarters of the memory");
    t.pod.wish.weights.memory = 1;
    cr_expect_str_eq(found(&t, 0), "1");
}

Test(fraction, mutex_takes_a_card_without_shares)
{
    struct town t;
    init(&t, 2);
    use(&t, 0, 1000, 0);
    ask(&t, 1, 1000, 0);
    policy(&t, FRACTION_MUTEX);
    cr_expect_str_eq(found(&t, 0), "1");
    use(&t, 1, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "container a needs 1000 MiB on one card; all 2 have shares "
                                   "already, and it wants a card alone");
}

Test(fraction, numa_then_binpack_is_a_chain)
{
    struct town t;
    init(&t, 4);
    use(&t, 1, 40000, 10);
    use(&t, 3, 1000, 10);
    ask(&t, 1, 1000, 0);
    policy(&t, FRACTION_NUMA);
    policy(&t, FRACTION_BINPACK);
    cr_expect_str_eq(found(&t, 0), "3", "of the higher NUMA node");
    t.cards[2].numa = t.cards[3].numa = -1;
    cr_expect_str_eq(found(&t, 0), "1", "those whose node is not known come last");
}

Test(fraction, where_no_policy_orders_the_cards_the_emptiest_comes_first)
{
    struct town t;
    init(&t, 3);
    t.cards[0].used.percent = 90;
    t.cards[1].used.memory_mib = 20000;
    ask(&t, 1, 1000, 0);
    policy(&t, FRACTION_MUTEX);
    cr_expect_str_eq(found(&t, 0), "2");
    t.cards[2].used.memory_mib = 30000;
    policy(&t, FRACTION_TOPOLOGY);
    cr_expect_str_eq(found(&t, 0), "1", "connections are not known");
    t.node.pairs = t.pairs;
    cr_expect_str_eq(found(&t, 0), "1", "all are connected alike");
    t.pod.wish.weights.memory = 1;
    cr_expect_str_eq(found(&t, 0), "0");
}

Test(fraction, one_numa_node_holds_all_cards_of_a_container)
{
    struct town t;
    init(&t, 4);
    use(&t, 0, 81920, 100);
    ask(&t, 2, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "12");
    t.pod.wish.one_numa = true;
    cr_expect_str_eq(found(&t, 0), "23");
    t.asks[0].count = 3;
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3 cards of one NUMA node with 1000 MiB each; 2 of 4 fit on "
                     "one");
}

/* Nobody knows whether two such cards share a node. */
Test(fraction, cards_whose_numa_node_is_unknown_are_on_none_together)
{
    struct town t;
    init(&t, 2);
    t.cards[0].numa = t.cards[1].numa = -1;
    t.pod.wish.one_numa = true;
    ask(&t, 1, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "0");
    t.asks[0].count = 2;
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 2 cards of one NUMA node with 1000 MiB each; 1 of 2 fit on "
                     "one");
    init(&t, 4);
    t.cards[0].numa = t.cards[1].numa = -1;
    t.pod.wish.one_numa = true;
    ask(&t, 2, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "23");
    t.node.pairs = t.pairs;
    policy(&t, FRACTION_TOPOLOGY);
    cr_expect_str_eq(found(&t, 0), "23");
}

Test(fraction, topology_takes_the_best_connected_cards_and_spares_them_for_those_who_need_several)
{
    struct town t;
    init(&t, 4);
    t.node.pairs = t.pairs;
    for (unsigned i = 0; i < 16; i++)
        t.pairs[i] = 10;
    t.pairs[0 * 4 + 2] = t.pairs[2 * 4 + 0] = 100;
    policy(&t, FRACTION_TOPOLOGY);
    ask(&t, 2, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "02");
    t.asks[0].count = 1;
    cr_expect_str_eq(found(&t, 0), "1");
}

Test(fraction, connections_with_cards_that_do_not_fit_do_not_count)
{
    struct town t;
    init(&t, 4);
    t.node.pairs = t.pairs;
    t.pairs[0 * 4 + 1] = t.pairs[1 * 4 + 0] = 10;
    t.pairs[2 * 4 + 3] = t.pairs[3 * 4 + 2] = 100;
    policy(&t, FRACTION_TOPOLOGY);
    ask(&t, 1, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "0");
    t.cards[3].ill = true;
    cr_expect_str_eq(found(&t, 0), "2");
}

/* --- Wishes --- */

Test(fraction, models_match_by_a_part_in_any_case_and_uuids_whole)
{
    struct town t;
    init(&t, 3);
    t.cards[1].model = "NVIDIA A100-SXM4-40GB";
    ask(&t, 1, 1000, 0);
    t.pod.wish.use_models = "V100, a100";
    cr_expect_str_eq(found(&t, 0), "1");
    t.pod.wish.use_models = " , ";
    t.pod.wish.no_models = "h100";
    cr_expect_str_eq(found(&t, 0), "1", "a list without items is none");
    t.pod.wish.no_models = NULL;
    t.pod.wish.use_uuids = "GPU-,GPU-2,GPU-22";
    cr_expect_str_eq(found(&t, 0), "2");
    t.pod.wish.no_uuids = "GPU-2";
    cr_expect_str_eq(found(&t, 0), "container a needs 1000 MiB on one card; none of 3 may be used "
                                   "(3 of 3 are not among those that the pod names)");
}

Test(fraction, a_card_without_a_model_or_uuid_is_not_named_by_any_list)
{
    struct town t;
    init(&t, 2);
    t.cards[0].model = t.cards[0].uuid = NULL;
    ask(&t, 1, 1000, 0);
    t.pod.wish.use_models = "h100";
    cr_expect_str_eq(found(&t, 0), "1");
    t.pod.wish.use_models = NULL;
    t.pod.wish.use_uuids = "GPU-1";
    cr_expect_str_eq(found(&t, 0), "1");
    t.pod.wish.use_uuids = NULL;
    t.pod.wish.no_models = t.pod.wish.no_uuids = "GPU";
    cr_expect_str_eq(found(&t, 0), "0");
}

Test(fraction, ill_and_cordoned_cards_are_not_used)
{
    struct town t;
    init(&t, 3);
    t.cards[0].ill = true;
    t.cards[1].cordoned = true;
    use(&t, 2, 80000, 0);
    ask(&t, 1, 1000, 0);
    cr_expect_str_eq(found(&t, 0), "2");
    t.asks[0].memory_mib = 3000;
    cr_expect_str_eq(found(&t, 0), "container a needs 3000 MiB on one card; the best of 1 has 1920 "
                                   "MiB (1 of 3 is unhealthy, 1 of 3 is cordoned)");
}

/* --- Sizes --- */

Test(fraction, a_percentage_of_memory_is_rounded_down)
{
    const struct fraction_card c = {.total = {999, 100, 10}};
    const struct fraction_ask a = {.count = 1, .memory_percent = 50};
    cr_expect_eq(fraction_share(&c, &a).memory_mib, 499);
}

Test(fraction, a_share_of_no_memory_does_not_fit)
{
    const struct fraction_card c = {.total = {99, 100, 10}};
    const struct fraction_ask a = {.count = 1, .memory_percent = 1};
    const struct fraction_wish w = {0};
    cr_expect_eq(fraction_fit(&c, &a, &w), FRACTION_MEMORY);
}

Test(fraction, sums_of_what_is_used_do_not_wrap)
{
    struct fraction_size sum = fraction_add((struct fraction_size){UINT_MAX - 1, 50, 1},
                                            (struct fraction_size){2, 60, UINT_MAX});
    cr_expect_eq(sum.memory_mib, UINT_MAX);
    cr_expect_eq(sum.percent, 110);
    cr_expect_eq(sum.shares, UINT_MAX);
}

Test(fraction, a_card_that_gives_only_itself_gives_no_part)
{
    struct town t;
    init(&t, 2);
    t.cards[0].only_whole = true;
    t.cards[0].total.shares = 1;
    ask(&t, 1, 3000, 30);
    cr_expect_str_eq(found(&t, 0), "1");
    t.asks[0] = (struct fraction_ask){.count = 1, .memory_percent = 100, .percent = 100};
    cr_expect_str_eq(found(&t, 0), "0");
    t.node.n = 1;
    t.asks[0] = (struct fraction_ask){.count = 1, .memory_percent = 10};
    cr_expect_str_eq(
        found(&t, 0),
        "needs 10 % of the memory on one card; none of 1 may be used (1 of 1 is given out as a whole only)");
}

Test(fraction, a_lonely_card_is_for_containers_with_one_share)
{
    struct town t;
    init(&t, 2);
    t.cards[0].lonely = true;
    ask(&t, 1, 3000, 30);
    cr_expect_str_eq(found(&t, 0), "0");
    ask(&t, 2, 3000, 30);
    cr_expect(strstr(found(&t, 0), "(1 of 2 is shared by MPS, for containers with one share)"),
              "%s", found(&t, 0));
    cr_expect_eq(e.kind, ERR_INVALID, "nor if it were empty");
}

Test(fraction, all_compute_is_a_card_alone)
{
    struct town t;
    init(&t, 1);
    use(&t, 0, 1000, 0);
    ask(&t, 1, 1000, 100);
    (void)found(&t, 0);
    cr_expect_eq(e.kind, ERR_UNAVAILABLE);
    t.cards[0].total.percent = 200;
    cr_expect_str_eq(found(&t, 0), "0", "not where compute is oversubscribed");
    init(&t, 1);
    use(&t, 0, 1000, 100);
    ask(&t, 1, 1000, 0);
    (void)found(&t, 0);
    cr_expect_eq(e.kind, ERR_UNAVAILABLE, "nothing is left of its compute");
}

Test(fraction, the_shares_of_a_container_lie_on_different_cards)
{
    struct town t;
    init(&t, 2);
    ask(&t, 2, 1000, 30);
    cr_expect_str_eq(found(&t, 0), "01");
    t.asks[0].count = 3;
    cr_expect_str_eq(found(&t, 0), "container a needs 3 cards with 1000 MiB and 30 % of compute "
                                   "each; 2 of 2 fit");
    cr_expect_eq(e.kind, ERR_INVALID, "nor do they on an empty node");
}

/* --- Several containers --- */

/* HAMi gives the first container the emptiest card, which the second alone needs. */
Test(fraction, a_container_makes_way_for_one_that_has_no_other_card)
{
    struct town t;
    init(&t, 2);
    use(&t, 0, 60000, 10);
    ask(&t, 1, 20000, 10);
    ask(&t, 1, 70000, 10);
    cr_expect_str_eq(found(&t, 0), "0");
    cr_expect_str_eq(found(&t, 1), "1");
}

Test(fraction, init_containers_run_before_the_apps_and_beside_the_sidecars_listed_before_them)
{
    struct town t;
    init(&t, 1);
    ask(&t, 1, 80000, 50);
    t.asks[0].phase = FRACTION_INIT;
    ask(&t, 1, 10000, 10);
    t.asks[1].phase = FRACTION_SIDECAR;
    ask(&t, 1, 60000, 50);
    t.asks[2].phase = FRACTION_INIT;
    ask(&t, 1, 70000, 20);
    cr_expect_str_eq(found(&t, 3), "0");
    struct fraction_size peak = fraction_peak(&t.node, &t.pod, &t.plan, 0);
    cr_expect_eq(peak.memory_mib, 80000);
    cr_expect_eq(peak.percent, 60);
    cr_expect_eq(peak.shares, 2);
    t.asks[2].memory_mib = 75000;
    cr_expect_str_eq(found(&t, 0), "each of the pod's 4 containers fits by itself, and not all of "
                                   "them together");
}

/* --- The words --- */

Test(fraction, the_nearest_miss_is_named)
{
    struct town t;
    init(&t, 8);
    for (unsigned i = 0; i < 8; i++)
        use(&t, i, 81920 - 2000 - 10 * i, 0);
    ask(&t, 1, 3000, 0);
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3000 MiB on one card; the best of 8 has 2070 MiB");
    cr_expect_eq(e.kind, ERR_UNAVAILABLE);
    auto_free char *hami = fraction_misfit_words(&t.node, &t.asks[0], &t.pod.wish);
    cr_expect_str_eq(hami, "8/8 CardInsufficientMemory");
    t.asks[0].memory_mib = 90000;
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 90000 MiB on one card; the best of 8 has 81920 MiB");
    cr_expect_eq(e.kind, ERR_INVALID, "never on this node");
}

Test(fraction, what_no_single_card_has_is_said)
{
    struct town t;
    init(&t, 2);
    use(&t, 0, 81000, 0);
    use(&t, 1, 1000, 90);
    ask(&t, 1, 3000, 30);
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3000 MiB and 30 % of compute on one card; 1 of 2 has too "
                     "little memory left, 1 of 2 has too little compute left");
    t.node.n = 0;
    cr_expect_str_eq(found(&t, 0), "container a needs 3000 MiB and 30 % of compute on one card; "
                                   "the node has no cards for shares");
}

Test(fraction, several_reasons_are_counted)
{
    struct town t;
    init(&t, 3);
    for (unsigned i = 0; i < 3; i++)
        use(&t, i, 1000, 100);
    ask(&t, 1, 3000, 0);
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3000 MiB on one card; all 3 have all compute given out");
    use(&t, 0, 80000, 0);
    t.cards[1].used.shares = 10;
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3000 MiB on one card; 1 of 3 has every share given out, 1 "
                     "of 3 has too little memory left, 1 of 3 has all compute given out");
    policy(&t, FRACTION_MUTEX);
    cr_expect_str_eq(found(&t, 0),
                     "container a needs 3000 MiB on one card; 1 of 3 has every share given out, 2 "
                     "of 3 have shares already, and it wants a card alone");
}

/* --- Bounds --- */

/* Without the first look at each the search tries all ways to place the five before it. */
Test(fraction, a_container_that_fits_on_no_card_is_named_at_once)
{
    struct town t;
    init(&t, 8);
    for (unsigned i = 0; i < 8; i++)
        use(&t, i, 1000 + 10 * i, 0);
    for (unsigned i = 0; i < 5; i++)
        ask(&t, 1, 1000, 0);
    ask(&t, 1, 81000, 0);
    cr_expect_str_eq(found(&t, 0),
                     "container f needs 81000 MiB on one card; the best of 8 has 80920 MiB");
    cr_expect_eq(e.kind, ERR_UNAVAILABLE);
}

/* Read for each card at each step, the list takes minutes. */
Test(fraction, a_long_list_is_read_once, .timeout = 30)
{
    enum { LEN = 250000 };
    struct town t;
    auto_free char *list = xcalloc(1, LEN + 1);
    memset(list, ',', LEN);
    list[0] = 'x';
    init(&t, 8);
    t.pod.wish.no_uuids = list;
    for (unsigned i = 0; i < 8; i++) {
        t.cards[i].total.memory_mib = 1000 + i;
        t.cards[i].total.shares = 100;
        ask(&t, 4, i < 7 ? 150 : 900, 0);
    }
    (void)found(&t, 0);
    cr_expect_eq(e.kind, ERR_TOO_LARGE, "%s", err_msg(&e));
}

/* 33 cards of one NUMA node and 31 of another, and a container that needs 33: no subset of the 32 is
 * worth a step when the first container has one of the 33. */
Test(fraction, sets_that_no_numa_node_can_complete_are_not_tried)
{
    enum { N = 64, LARGE = 33 };
    struct fraction_card cards[N];
    const struct fraction_ask asks[] =
        {{.container = "a", .count = 1, .memory_mib = 10, .percent = 100},
         {.container = "b", .count = LARGE, .memory_mib = 10, .percent = 10}};
    for (unsigned i = 0; i < N; i++)
        cards[i] = (struct fraction_card){.numa = i < LARGE, .total = {1000 - i, 100, 10}};
    const struct fraction_node n = {.cards = cards, .n = N};
    const struct fraction_pod p = {.asks = asks, .n = 2, .wish = {.one_numa = true}};
    struct fraction_plan plan;
    cr_assert_eq(fraction_search(&n, &p, &plan, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(plan.cards[0][0], LARGE);
    cr_expect_eq(plan.cards[1][LARGE - 1], LARGE - 1);
}

Test(fraction, sets_of_8_of_16_cards_are_placed_for_as_many_containers_as_a_record_has_room_for)
{
    enum { N = 16, ASKS = 27 };
    static uint16_t pairs[N * N];
    struct fraction_card cards[N];
    struct fraction_ask asks[ASKS];
    for (unsigned i = 0; i < N; i++)
        cards[i] = (struct fraction_card){.total = {1000, 100, 100}};
    for (unsigned i = 0; i < ASKS; i++)
        asks[i] = (struct fraction_ask){.container = "c", .count = 8, .memory_mib = 10};
    const struct fraction_node n = {.cards = cards, .n = N, .pairs = pairs};
    const struct fraction_pod p = {.asks = asks,
                                   .n = ASKS,
                                   .wish = {.n_policies = 1, .policies = {FRACTION_TOPOLOGY}}};
    struct fraction_plan plan;
    cr_expect_eq(fraction_search(&n, &p, &plan, &e), 0, "%s", err_msg(&e));
}

Test(fraction, more_cards_or_containers_than_there_may_be_are_refused)
{
    static struct fraction_card cards[FRACTION_MAX_CARDS + 1];
    static struct fraction_ask asks[FRACTION_MAX_CONTAINERS + 1];
    struct fraction_node n = {.cards = cards, .n = FRACTION_MAX_CARDS + 1};
    struct fraction_pod p = {.asks = asks, .n = 1};
    struct fraction_plan plan;
    cr_expect_eq(fraction_search(&n, &p, &plan, &e), -ERR_TOO_LARGE);
    cr_expect_str_eq(err_msg(&e), "the node has 65 cards for shares, and at most 64 are allowed");
    auto_free char *hami = fraction_misfit_words(&n, &asks[0], &p.wish);
    cr_expect_str_eq(hami, "64/65 CardTimeSlicingExhausted");
    err_clear(&e);
    n.n = 1;
    p.n = FRACTION_MAX_CONTAINERS + 1;
    cr_expect_eq(fraction_search(&n, &p, &plan, &e), -ERR_TOO_LARGE);
    cr_expect_str_eq(err_msg(&e), "the pod has 65 containers, and at most 64 are allowed: put them "
                                  "into several pods");
}

Test(fraction, a_search_that_takes_too_long_says_so)
{
    struct town t;
    init(&t, 8);
    for (unsigned i = 0; i < 8; i++) {
        t.cards[i].total.memory_mib = 1000 + i;
        t.cards[i].total.shares = 100;
    }
    static struct fraction_ask many[FRACTION_MAX_CONTAINERS];
    for (unsigned i = 0; i < FRACTION_MAX_CONTAINERS; i++)
        many[i] = (struct fraction_ask){.count = 1, .memory_mib = 113 + i % 7};
    t.pod = (struct fraction_pod){.asks = many, .n = FRACTION_MAX_CONTAINERS};
    many[63].memory_mib = 600;
    cr_assert_lt(fraction_search(&t.node, &t.pod, &t.plan, &e), 0);
    cr_expect(e.kind == ERR_TOO_LARGE || e.kind == ERR_INVALID, "%s", err_msg(&e));
}
