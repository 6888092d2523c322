/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "test/unit/turns_world_support.h"

/* How long a claim had work and did not have the card (turns_sums). */

static int64_t throttled(const struct world *w, unsigned share)
{
    return turns_sums(w->t, share, 0).throttled_ns;
}

/* In the ten seconds that follow the first one, in which the card does what it was given before. */
static void expect_percents(struct world *w, double first, double second)
{
    world_run(w, SEC);
    const int64_t before[] = {throttled(w, 1), throttled(w, 2)};
    world_run(w, 10 * SEC);
    cr_expect_float_eq((double)(throttled(w, 1) - before[0]) / (SEC / 10.0), first, 4);
    cr_expect_float_eq((double)(throttled(w, 2) - before[1]) / (SEC / 10.0), second, 4);
    world_free(w);
}

Test(turns_throttled, who_waits_for_its_turns_is)
{
    struct world *w = world_new(1);
    (void)world_worker(w, 1, 70, MS);
    (void)world_worker(w, 2, 30, MS);
    expect_percents(w, 30, 70);
}

Test(turns_throttled, who_has_the_card_alone_is_not)
{
    struct world *w = world_new(1);
    (void)world_worker(w, 1, 30, MS);
    expect_percents(w, 0, 0);
}

Test(turns_throttled, who_has_no_work_is_not)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS);
    (void)world_worker(w, 2, 50, MS);
    world_run(w, SEC);
    world_pause(w, p);
    world_run(w, SEC);
    int64_t before = throttled(w, 1);
    world_run(w, 10 * SEC);
    cr_expect_eq(throttled(w, 1), before);
    world_free(w);
}

Test(turns_throttled, who_has_used_up_its_cap_is_also_alone)
{
    static const struct turns_claim capped = {.percent = 30, .is_capped = true};
    struct world *w = world_new(1);
    world_share(w, 1, &capped, 1);
    (void)world_process(w, 1, 0, capped.card, 200 * US);
    expect_percents(w, 70, 0);
}
