/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/offer/mps_cards.h"

/* One card that its profile gives out in shares, some of them clients of an MPS daemon. */
static struct gpu_card card;
static struct device_want want;
static struct shares shares;
static struct holders holders;
static const struct sharing_rules rules = {.strategy = API_STRATEGY_MIXED,
                                           .means = {.publisher = API_PUBLISHER_KUBELET,
                                                     .enforcement = {.library = true,
                                                                     .mps = true}}};
static char uid[] = "u1", main_name[] = "main";

static void set_up(void)
{
    card = (struct gpu_card){.vendor = "nvidia", .uuid = "GPU-a", .memory_mib = 81920};
    want = (struct device_want){.uuid = card.uuid, .mode = API_MODE_NATIVE, .has_sharing = true};
    want.sharing =
        (struct device_sharing){.has_fractional = true,
                                .fractional = {.max_shares = 10,
                                               .memory_percent = 100,
                                               .compute_percent = 100,
                                               .has_enforcement = true,
                                               .enforcement = {.has_compute = true,
                                                               .compute = API_COMPUTE_MPS}}};
    shares = (struct shares){0};
    holders = (struct holders){0};
}

static void tear_down(void)
{
    shares_done(&shares);
    holders_done(&holders);
}

TestSuite(mps_cards, .init = set_up, .fini = tear_down);

static void wants_library(void)
{
    want.sharing.fractional.enforcement.compute = API_COMPUTE_LIBRARY;
}

static void stands(unsigned number, int level)
{
    struct share s = {.slot = slot_at(SLOT_POOL_SHARE, number),
                      .card = "GPU-a",
                      .memory_mib = 3000,
                      .compute_level = level,
                      .uid = uid,
                      .container = main_name};
    shares_put(&shares, &s);
}

static size_t n_cards(void)
{
    struct device_spec spec = {.devices = &want, .n_devices = 1};
    const struct card_view view = {.card = card};
    const struct node_state s = {.cards = &view,
                                 .n_cards = 1,
                                 .spec = &spec,
                                 .means = rules.means,
                                 .shares = &shares,
                                 .holders = &holders};
    struct mps_cards found;
    mps_cards_find(&s, &found);
    cr_expect(!found.n ||
              (strcmp(found.items[0].uuid, "GPU-a") == 0 && found.items[0].memory_mib == 81920));
    return found.n;
}

static bool is_exclusive(void)
{
    const struct share_facts f = {&rules, &shares, &holders};
    return mps_card_is_exclusive(&f, &card, &want);
}

Test(mps_cards, a_card_whose_shares_are_to_be_clients_has_a_daemon_and_nobody_else)
{
    cr_expect(n_cards() == 1 && is_exclusive());
    stands(1, API_LEVEL_MPS);
    cr_expect(n_cards() == 1 && is_exclusive());
}

Test(mps_cards, another_card_has_none)
{
    wants_library();
    stands(1, API_LEVEL_LIBRARY);
    cr_expect(n_cards() == 0 && !is_exclusive());
    want.has_sharing = false;
    cr_expect(n_cards() == 0 && !is_exclusive());
}

Test(mps_cards, as_long_as_a_client_stands_the_daemon_does)
{
    wants_library();
    stands(1, API_LEVEL_MPS);
    cr_expect(n_cards() == 1 && !is_exclusive());
    want.mode = API_MODE_MIG;
    want.has_sharing = false;
    cr_expect_eq(n_cards(), 1);
    shares_drop(&shares, slot_at(SLOT_POOL_SHARE, 1));
    cr_expect_eq(n_cards(), 0);
}

Test(mps_cards, a_card_with_others_is_not_kept_from_them)
{
    stands(1, API_LEVEL_MPS);
    stands(2, API_LEVEL_NONE);
    cr_expect(n_cards() == 1 && !is_exclusive());
    shares_drop(&shares, slot_at(SLOT_POOL_SHARE, 2));
    cr_expect(is_exclusive());
    shares.is_adopting = true;
    cr_expect_not(is_exclusive());
}

Test(mps_cards, a_card_that_cannot_be_read_is_left_out)
{
    card.unread = true;
    cr_expect_eq(n_cards(), 0);
}

Test(mps_cards, lists_are_compared_by_card)
{
    struct mps_cards a = {.items = {{"GPU-a", 1}}, .n = 1};
    struct mps_cards b = a;
    cr_expect(mps_cards_equal(&a, &b));
    b.items[0].memory_mib = 2;
    cr_expect_not(mps_cards_equal(&a, &b));
    b = a;
    b.n = 0;
    cr_expect_not(mps_cards_equal(&a, &b));
}
