/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"

#include "nodeagent/offer/preferred.h"
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

static bool is_available(const struct preferred_request *r, const char *id)
{
    for (size_t i = 0; i < r->n_available; i++)
        if (r->available[i] == id)
            return true;
    return false;
}

/* The chosen ids with a blank between them are the text. */
static void expect_choice(const struct preferred *p, const struct preferred_request *r,
                          const char *text)
{
    const char *ids[MOST];
    auto_err struct err e = {0};
    auto_sb struct sb all = SB_INIT(1024);
    cr_assert_eq(preferred_choose(p, r, ids, &e), 0, "%s", err_msg(&e));
    for (size_t i = 0; i < r->size; i++) {
        cr_expect(is_available(r, ids[i]));
        sb_addf(&all, "%s%s", i ? " " : "", ids[i]);
    }
    cr_expect_str_eq(sb_str(&all), text);
}

Test(preferred, whole_cards_are_chosen_by_their_ties)
{
    auto_preferred struct preferred *p = make(PREFERRED_CARDS);
    static const char *const available[] = {"GPU-7", "GPU-0", "GPU-6", "GPU-2"};
    struct preferred_request r = {.available = available, .n_available = 4, .size = 2};
    expect_choice(p, &r, "GPU-6 GPU-7");
    r.required = &available[1];
    r.n_required = 1;
    expect_choice(p, &r, "GPU-0 GPU-2");
}

Test(preferred, replicas_are_chosen_by_the_policy)
{
    static const char *const available[] = {"GPU-0::0", "GPU-0::1", "GPU-1::1", "GPU-5::0"};
    const struct preferred_request r = {.available = available, .n_available = 4, .size = 1};
    auto_preferred struct preferred *packed = make(PREFERRED_PACKED);
    expect_choice(packed, &r, "GPU-1::1");
    auto_preferred struct preferred *distributed = make(PREFERRED_DISTRIBUTED);
    expect_choice(distributed, &r, "GPU-0::0");
}

/* The kubelet remembers devices that are not there any more. */
Test(preferred, ids_that_are_not_offered_are_passed_over)
{
    auto_preferred struct preferred *p = make(PREFERRED_CARDS);
    static const char *const available[] = {"GPU-gone", "GPU-3", "", "GPU-3"};
    const struct preferred_request r = {.available = available, .n_available = 4, .size = 1};
    expect_choice(p, &r, "GPU-3");
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
        const char *chosen[MOST];
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
    expect_choice(p, &r, "");
}
