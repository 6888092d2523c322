/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/preferred.h"
#include "test/unit/topologies_support.h"

/* Eight cards on PCIe: "GPU-0" to "GPU-7"; or two replicas of each: "GPU-0::0", "GPU-0::1", … */

enum { CARDS = 8, MOST = 16 };

static char names[MOST][32];
static struct preferred_device devices[MOST];

static struct preferred *make(enum preferred_policy policy)
{
    static struct card_scores scores;
    unsigned each = policy == PREFERRED_CARDS ? 1 : 2;
    const struct preferred_offer o = {.policy = policy,
                                      .devices = devices,
                                      .n = (size_t)CARDS * each,
                                      .scores = &scores};
    machine_scores(&machines_of_8[2], &scores);
    for (unsigned i = 0; i < o.n; i++) {
        unsigned card = i / each;
        if (each == 1)
            (void)snprintf(names[i], sizeof(names[i]), "GPU-%u", card);
        else
            (void)snprintf(names[i], sizeof(names[i]), "GPU-%u::%u", card, i % each);
        devices[i] = (struct preferred_device){.id = names[i],
                                               .card = (uint8_t)card,
                                               .device = (uint16_t)card};
    }
    return preferred_new(&o);
}

static void expect_marks(const bool *chosen, unsigned n, unsigned long wanted)
{
    for (unsigned i = 0; i < n; i++)
        cr_expect_eq(chosen[i], (bool)(wanted >> i & 1), "%u", i);
}

Test(preferred, whole_cards_are_chosen_by_their_ties)
{
    auto_preferred struct preferred *p = make(PREFERRED_CARDS);
    static const char *const available[] = {"GPU-7", "GPU-0", "GPU-6", "GPU-2"};
    bool chosen[MOST];
    struct preferred_request r = {.available = available, .n_available = 4, .size = 2};
    cr_assert_eq(preferred_choose(p, &r, chosen, NULL), 0);
    expect_marks(chosen, CARDS, 1 << 6 | 1 << 7);
    r.required = &available[1];
    r.n_required = 1;
    cr_assert_eq(preferred_choose(p, &r, chosen, NULL), 0);
    expect_marks(chosen, CARDS, 1 << 0 | 1 << 2);
}

Test(preferred, replicas_are_chosen_by_the_policy)
{
    static const char *const available[] = {"GPU-0::0", "GPU-0::1", "GPU-1::1", "GPU-5::0"};
    bool chosen[MOST];
    const struct preferred_request r = {.available = available, .n_available = 4, .size = 1};
    auto_preferred struct preferred *packed = make(PREFERRED_PACKED);
    cr_assert_eq(preferred_choose(packed, &r, chosen, NULL), 0);
    expect_marks(chosen, MOST, 1 << 3);
    auto_preferred struct preferred *distributed = make(PREFERRED_DISTRIBUTED);
    cr_assert_eq(preferred_choose(distributed, &r, chosen, NULL), 0);
    expect_marks(chosen, MOST, 1 << 0);
}

/* The kubelet remembers devices that are not there any more. */
Test(preferred, ids_that_are_not_offered_are_passed_over)
{
    auto_preferred struct preferred *p = make(PREFERRED_CARDS);
    static const char *const available[] = {"GPU-gone", "GPU-3", "", "GPU-3"};
    bool chosen[MOST];
    const struct preferred_request r = {.available = available, .n_available = 4, .size = 1};
    cr_assert_eq(preferred_choose(p, &r, chosen, NULL), 0);
    expect_marks(chosen, CARDS, 1 << 3);
}

Test(preferred, what_cannot_be_is_refused_in_words)
{
    static const char *const ids[] = {"GPU-0", "GPU-1", "GPU-gone", "GPU-2"};
    static const struct {
        struct preferred_request r;
        const char *why;
    } wrong[] = {
        {{.n_available = 2, .required = &ids[2], .n_required = 1, .size = 1},
         "device GPU-gone must be included and is not offered"},
        {{.n_available = 2, .required = &ids[3], .n_required = 1, .size = 1},
         "device GPU-2 must be included and is not available"},
        {{.n_available = 2, .required = ids, .n_required = 2, .size = 1}, "2 cards are required"},
        {{.n_available = 2, .size = 3}, "only 2 available"},
        {{.n_available = 2, .size = SIZE_MAX}, "only 8 offered"},
    };
    auto_preferred struct preferred *p = make(PREFERRED_CARDS);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct preferred_request r = wrong[i].r;
        bool chosen[MOST];
        auto_err struct err e = {0};
        r.available = ids;
        cr_expect_eq(preferred_choose(p, &r, chosen, &e), -ERR_INVALID);
        cr_expect(strstr(err_msg(&e), wrong[i].why), "%s", err_msg(&e));
    }
}

Test(preferred, nothing_offered_and_nothing_wanted_is_nothing_chosen)
{
    const struct preferred_offer o = {.policy = PREFERRED_PACKED};
    auto_preferred struct preferred *p = preferred_new(&o);
    const struct preferred_request r = {.size = 0};
    bool chosen;
    cr_expect_eq(preferred_choose(p, &r, &chosen, NULL), 0);
}
