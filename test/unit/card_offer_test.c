/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/change/card_offer.h"
#include "nodeagent/mode/card_mode.h"

/* A cut card with two partitions in one instance and one in another. */
static struct gpu_card cut_card(void)
{
    return (
        struct gpu_card){.mode = GPU_MIG,
                         .state = {.n = 2,
                                   .items = {{.gi_id = 1, .n_cis = 2}, {.gi_id = 2, .n_cis = 1}}},
                         .n_partitions = 3,
                         .partitions = {{.gi_id = 1, .ci_id = 0},
                                        {.gi_id = 1, .ci_id = 1, .ci = 1},
                                        {.gi_id = 2, .ci_id = 0, .instance = 1}}};
}

static bool has(const struct card_offer *o, const struct gpu_partition *p)
{
    const struct card_part part = {.number = (int)p->gi_id, .ci = (int)p->ci_id};
    return card_offer_has(o, &part);
}

Test(card_offer, all_that_stands_is_on_offer)
{
    struct card_offer o;
    struct gpu_card card = cut_card();
    card_offer_of(&card, &o);
    cr_expect_not(o.whole);
    for (unsigned i = 0; i < card.n_partitions; i++)
        cr_expect(has(&o, &card.partitions[i]));
    cr_expect_not(has(&o, &(struct gpu_partition){.gi_id = 2, .ci_id = 1}));
    card_offer_of(&(struct gpu_card){.mode = GPU_NATIVE}, &o);
    cr_expect(o.whole);
    cr_expect_eq(o.n, 0);
}

Test(card_offer, what_steps_destroy_is_withdrawn_and_nothing_else)
{
    static const struct card_steps steps =
        {.n = 2,
         .items = {{.kind = CARD_CI_DESTROY, .gi_id = 1, .ci_id = 1}, {.kind = CARD_GI_CREATE}}};
    struct card_offer o;
    struct gpu_card card = cut_card();
    card_offer_of(&card, &o);
    cr_expect_not(card_offer_allows(&o, &steps));
    card_offer_withdraw(&o, &steps);
    cr_expect(card_offer_allows(&o, &steps));
    cr_expect_eq(o.n, 2);
    cr_expect_not(has(&o, &card.partitions[1]));
}

Test(card_offer, a_mode_switch_and_a_reset_take_the_whole_card)
{
    static const enum card_step_kind kinds[] = {CARD_MODE_SET, CARD_RESET};
    for (int i = 0; i < 2; i++) {
        const struct card_steps steps = {.n = 1, .items = {{.kind = kinds[i]}}};
        struct card_offer o = {.whole = true};
        cr_expect_not(card_offer_allows(&o, &steps));
        card_offer_withdraw(&o, &steps);
        cr_expect_not(o.whole);
        struct gpu_card card = cut_card();
        card_offer_of(&card, &o);
        card_offer_withdraw(&o, &steps);
        cr_expect_eq(o.n, 0);
    }
}

Test(card_offer, steps_that_only_create_leave_all_alone)
{
    static const struct card_steps steps = {.n = 2,
                                            .items = {{.kind = CARD_GI_CREATE},
                                                      {.kind = CARD_CI_CREATE}}};
    struct card_offer o;
    struct gpu_card card = cut_card();
    card_offer_of(&card, &o);
    cr_expect(card_offer_allows(&o, &steps));
}

Test(card_offer, functions_are_on_offer_and_their_card_is_not)
{
    struct card_offer o;
    struct card_offer before;
    const struct gpu_card card = {.mode = GPU_VGPU, .n_vfs = 1};
    const struct card_part part = card_part_at(&card, 0);
    const struct card_steps steps = {.n = 1, .items = {{.kind = CARD_MODE_SET}}};
    card_offer_of(&card, &o);
    before = o;
    cr_expect(card_offer_has(&o, &part) && !o.whole && !o.slots);
    cr_expect_not(card_offer_allows(&o, &steps));
    card_offer_withdraw(&o, &steps);
    cr_expect_not(card_offer_has(&o, &part));
    cr_expect_not(card_offer_equal(&o, &before));
}

Test(card_offer, slices_make_a_difference)
{
    const struct card_offer one = {.slots = true, .n = 1, .items = {{3, -1}}};
    const struct card_offer other = {.slots = true, .n = 1, .items = {{4, -1}}};
    const struct card_offer none = {.slots = true};
    cr_expect(card_offer_equal(&one, &one));
    cr_expect(!card_offer_equal(&one, &other) && !card_offer_equal(&one, &none));
}
