/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/loop/handover.h"

/* The facts of an agent that has the node to itself. */
static struct handover_facts alone(enum handover_phase phase)
{
    return (struct handover_facts){.phase = phase, .has_cards = true, .is_alone = true};
}

Test(handover, first_phase_depends_on_both_locks)
{
    cr_expect_eq(handover_first(true, true), HANDOVER_WORKING);
    cr_expect_eq(handover_first(true, false), HANDOVER_STANDBY);
    cr_expect_eq(handover_first(false, false), HANDOVER_STANDBY);
}

Test(handover, standby_takes_over_step_by_step)
{
    struct handover_facts f = {.phase = HANDOVER_STANDBY};
    cr_expect_eq(handover_next(&f), HANDOVER_STANDBY);
    f.has_cards = true;
    cr_expect_eq(handover_next(&f), HANDOVER_TAKING);
    f.phase = HANDOVER_TAKING;
    cr_expect_eq(handover_next(&f), HANDOVER_TAKING);
    f.is_alone = true;
    cr_expect_eq(handover_next(&f), HANDOVER_SETTLING);
}

Test(handover, no_card_is_changed_before_the_grants_of_the_agent_before_have_settled)
{
    struct handover_facts f = alone(HANDOVER_SETTLING);
    f.since_mono_ms = 500;
    f.now_mono_ms = 500 + HANDOVER_SETTLING_MS - 1;
    cr_expect_eq(handover_next(&f), HANDOVER_SETTLING);
    cr_expect_eq(handover_due_mono_ms(f.phase, f.since_mono_ms), 500 + HANDOVER_SETTLING_MS);
    f.now_mono_ms++;
    cr_expect_eq(handover_next(&f), HANDOVER_WORKING);
}

Test(handover, without_a_standby_an_agent_ends_at_once)
{
    struct handover_facts f = alone(HANDOVER_WORKING);
    f.is_asked = true;
    f.has_jobs = true;
    cr_expect_eq(handover_next(&f), HANDOVER_OVER);
    f.is_awaited = true;
    cr_expect_eq(handover_next(&f), HANDOVER_ENDING);
}

Test(handover, one_that_does_not_work_yet_ends_at_once)
{
    struct handover_facts standby = {.phase = HANDOVER_STANDBY, .is_asked = true};
    struct handover_facts taking = {.phase = HANDOVER_TAKING, .has_cards = true, .is_asked = true};
    cr_expect_eq(handover_next(&standby), HANDOVER_OVER);
    cr_expect_eq(handover_next(&taking), HANDOVER_OVER);
}

Test(handover, cards_are_released_when_no_job_changes_them)
{
    struct handover_facts f = alone(HANDOVER_ENDING);
    f.has_jobs = true;
    cr_expect_eq(handover_next(&f), HANDOVER_ENDING);
    f.has_jobs = false;
    cr_expect_eq(handover_next(&f), HANDOVER_RELEASED);
}

Test(handover, job_that_does_not_end_prevents_the_hand_over)
{
    struct handover_facts f = alone(HANDOVER_ENDING);
    f.has_jobs = true;
    f.now_mono_ms = HANDOVER_ENDING_MS;
    cr_expect_eq(handover_next(&f), HANDOVER_OVER);
}

Test(handover, kubelet_forgets_only_when_the_next_agent_serves_it)
{
    struct handover_facts f = {.phase = HANDOVER_RELEASED, .is_alone = true, .is_asked = true};
    cr_expect_eq(handover_next(&f), HANDOVER_RELEASED);
    f.is_succeeded = true;
    cr_expect_eq(handover_next(&f), HANDOVER_OVER);
    f.is_served = true;
    cr_expect_eq(handover_next(&f), HANDOVER_PARTING);
    f.phase = HANDOVER_PARTING;
    cr_expect_eq(handover_next(&f), HANDOVER_PARTING);
    f.has_parted = true;
    cr_expect_eq(handover_next(&f), HANDOVER_OVER);
}

Test(handover, agent_does_not_wait_for_ever_for_the_next_one)
{
    struct handover_facts f = {.phase = HANDOVER_RELEASED, .is_alone = true, .is_asked = true};
    f.now_mono_ms = HANDOVER_RELEASED_MS;
    cr_expect_eq(handover_next(&f), HANDOVER_OVER);
}

Test(handover, phases_may_do_what_the_table_says)
{
    static const struct {
        enum handover_phase phase;
        bool reads, publishes, recovers, changes, frozen;
    } table[] = {
        {HANDOVER_STANDBY, true, false, false, false, false},
        {HANDOVER_TAKING, true, true, false, false, false},
        {HANDOVER_SETTLING, true, true, true, false, false},
        {HANDOVER_WORKING, true, true, true, true, false},
        {HANDOVER_ENDING, false, true, false, false, false},
        {HANDOVER_RELEASED, false, false, false, false, true},
        {HANDOVER_PARTING, false, false, false, false, true},
        {HANDOVER_OVER, false, false, false, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        enum handover_phase p = table[i].phase;
        cr_expect_eq(handover_reads(p), table[i].reads, "%zu", i);
        cr_expect_eq(handover_publishes(p), table[i].publishes, "%zu", i);
        cr_expect_eq(handover_recovers(p), table[i].recovers, "%zu", i);
        cr_expect_eq(handover_changes(p), table[i].changes, "%zu", i);
        cr_expect_eq(handover_is_frozen(p), table[i].frozen, "%zu", i);
    }
}
