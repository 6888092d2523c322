/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"

#include "nodeagent/mode/ci_fit.h"

struct fit_case {
    unsigned room;
    struct ci_cut now;
    unsigned wanted[MIG_MAX_CIS];
    int stay; /* -1: no choice */
};

static unsigned count(const unsigned *sizes)
{
    unsigned n = 0;
    while (n < MIG_MAX_CIS && sizes[n])
        n++;
    return n;
}

static const struct fit_case cases[] = {
    /* The first two give way: a 2c lies at 0. */
    {3, {3, {1, 1, 1}, {0, 1, 2}, {0}}, {2, 1}, 0x4},
    /* The one in use lies where a 2c would. */
    {3, {3, {1, 1, 1}, {0, 1, 2}, {true}}, {2, 1}, -1},
    {3, {3, {1, 1, 1}, {0, 1, 2}, {false, false, true}}, {2, 1}, 0x4},
    {4, {4, {1, 1, 1, 1}, {0, 1, 2, 3}, {false, true}}, {2, 1, 1}, 0x3},
    {7, {7, {1, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6}, {0}}, {4, 2, 1}, 0x40},
    {7, {7, {1, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6}, {0}}, {3, 3, 1}, 0x8},
    {7, {5, {1, 1, 1, 1, 3}, {0, 1, 2, 3, 4}, {0}}, {4, 2, 1}, 0x0},
    /* Everything stays that is wanted. */
    {7, {2, {4, 2}, {0, 4}, {0}}, {4, 2, 1}, 0x3},
    /* Nothing of the wanted sizes stands. */
    {7, {1, {7}, {0}, {0}}, {1, 1}, 0x0},
    /* One in use of a size that is not wanted. */
    {7, {1, {7}, {0}, {true}}, {1, 1}, -1},
    /* More than there is room for; a size beyond the room; places not told. */
    {2, {0}, {1, 1, 1}, -1},
    {2, {0}, {3}, -1},
    {3, {1, {1}, {-1}, {0}}, {1, 1}, -1},
    {3, {1, {2}, {2}, {0}}, {1, 1}, -1},
};

/* No two pieces overlap, and the sizes are the wanted ones. */
static void check_whole(const struct fit_case *c, const struct ci_fit *fit, size_t i)
{
    uint32_t taken = 0;
    unsigned of[8] = {0};
    for (unsigned k = 0; k < c->now.n + fit->n; k++) {
        bool stands = k < c->now.n;
        if (stands && !(fit->stay & (1U << k)))
            continue;
        unsigned slices = stands ? c->now.slices[k] : fit->slices[k - c->now.n];
        unsigned start = stands ? (unsigned)c->now.starts[k] : fit->starts[k - c->now.n];
        uint32_t bits = ((1U << slices) - 1) << start;
        cr_expect_eq(taken & bits, 0, "case %zu", i);
        cr_expect_leq(start + slices, c->room, "case %zu", i);
        taken |= bits;
        of[slices]++;
    }
    for (unsigned k = 0; k < count(c->wanted); k++)
        of[c->wanted[k]]--;
    for (unsigned size = 0; size < 8; size++)
        cr_expect_eq(of[size], 0, "case %zu", i);
}

Test(ci_fit, most_stays_that_leaves_room_for_the_rest)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct fit_case *c = &cases[i];
        struct ci_fit fit = {.stay = 0xff};
        bool found = ci_fit_choose(c->room, &c->now, c->wanted, count(c->wanted), &fit);
        cr_expect_eq(found, c->stay >= 0, "case %zu", i);
        cr_expect_eq(fit.stay, c->stay >= 0 ? (uint32_t)c->stay : 0xff, "case %zu: %x", i,
                     fit.stay);
        if (found)
            check_whole(c, &fit, i);
    }
}
