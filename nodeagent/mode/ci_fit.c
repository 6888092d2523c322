/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/ci_fit.h"

#include <assert.h>

/* How many of each size, by size. */
struct tally {
    unsigned of[MIG_MAX_MEMORY_SLICES + 1];
};

static uint32_t span(unsigned start, unsigned slices)
{
    assert(slices < MIG_MAX_MEMORY_SLICES && start < MIG_MAX_MEMORY_SLICES);
    return ((1U << slices) - 1) << start;
}

/* Compute instances start at multiples of their size rounded up to a power of two: a 3c at 0 and
 * 4. */
static unsigned stride_of(unsigned slices)
{
    unsigned stride = 1;
    while (stride < slices)
        stride *= 2;
    return stride;
}

/* Places the rest of the wanted sizes, largest first, and tries every slice for each: a 3c at 0 may
 * have to leave room for two 2c. At most seven instances, so a full search is small. */
static bool place_all(unsigned room, struct tally *left, uint32_t taken, struct ci_fit *fit)
{
    unsigned slices = room;
    while (slices > 0 && left->of[slices] == 0)
        slices--;
    if (slices == 0)
        return true;
    assert(fit->n < MIG_MAX_CIS);
    left->of[slices]--;
    fit->n++;
    for (unsigned s = 0; s + slices <= room; s += stride_of(slices)) {
        fit->slices[fit->n - 1] = slices;
        fit->starts[fit->n - 1] = s;
        if (!(taken & span(s, slices)) && place_all(room, left, taken | span(s, slices), fit))
            return true;
    }
    left->of[slices]++;
    fit->n--;
    return false;
}

/* True when those of `stay` fit, with the rest of the wanted sizes placed around them. */
static bool fits(unsigned room, const struct ci_cut *now, uint32_t stay, struct tally wanted,
                 struct ci_fit *fit)
{
    uint32_t taken = 0;
    *fit = (struct ci_fit){.stay = stay};
    for (unsigned i = 0; i < now->n; i++) {
        if (!(stay & (1U << i)))
            continue;
        if (wanted.of[now->slices[i]]-- == 0)
            return false;
        taken |= span((unsigned)now->starts[i], now->slices[i]);
    }
    return place_all(room, &wanted, taken, fit);
}

static bool is_told(unsigned room, const struct ci_cut *now)
{
    for (unsigned i = 0; i < now->n; i++)
        if (now->starts[i] < 0 || (unsigned)now->starts[i] + now->slices[i] > room)
            return false;
    return true;
}

/* Counts the wanted sizes. False: one is larger than the room. */
static bool count_sizes(unsigned room, const unsigned *wanted, unsigned n, struct tally *ret)
{
    for (unsigned i = 0; i < n; i++) {
        if (wanted[i] > room)
            return false;
        ret->of[wanted[i]]++;
    }
    return true;
}

bool ci_fit_choose(unsigned room, const struct ci_cut *now, const unsigned *wanted,
                   unsigned n_wanted, struct ci_fit *ret)
{
    assert(room < MIG_MAX_MEMORY_SLICES && now->n <= MIG_MAX_CIS && n_wanted <= MIG_MAX_CIS);
    struct tally sizes = {0};
    uint32_t must = 0;
    int best = -1;
    if (!is_told(room, now) || !count_sizes(room, wanted, n_wanted, &sizes))
        return false;
    for (unsigned i = 0; i < now->n; i++)
        must |= now->in_use[i] ? 1U << i : 0;
    for (uint32_t stay = 0; stay < 1U << now->n; stay++) {
        struct ci_fit fit;
        int count = __builtin_popcount(stay);
        if ((stay & must) != must || count <= best || !fits(room, now, stay, sizes, &fit))
            continue;
        best = count;
        assert((fit.stay & must) == must && fit.n <= MIG_MAX_CIS - (unsigned)count);
        *ret = fit;
    }
    return best >= 0;
}
