/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/change/journal.h"
#include "nodeagent/loop/handover_locks.h"

/* Each struct handover_locks has open files of its own, so two of them in one process exclude one
 * another as two processes do. */

TestSuite(handover_locks, .init = folder_enter, .fini = folder_leave);

static struct handover_locks *begin(void)
{
    struct handover_locks *l;
    auto_err struct err e = {0};
    cr_assert_eq(handover_locks_new(folder_path(), &l, &e), 0, "%s", err_msg(&e));
    return l;
}

static void await(struct handover_locks *l, bool (*is)(const struct handover_locks *l))
{
    auto_err struct err e = {0};
    struct pollfd fd = {.fd = handover_locks_fd(l), .events = POLLIN};
    while (!is(l)) {
        cr_assert_eq(poll(&fd, 1, 20000), 1, "nothing happens at the locks");
        cr_assert_eq(handover_locks_check(l, &e), 0, "%s", err_msg(&e));
    }
}

/* Waits for the one state that has no event: the thread of the other agent is in its next wait. */
static void await_standby(const struct handover_locks *l)
{
    while (!handover_locks_are_awaited(l))
        (void)sched_yield();
}

/* Begins with an agent that has the cards and serves. */
static struct handover_locks *begin_first(void)
{
    struct handover_locks *l = begin();
    handover_locks_announce(l, true);
    return l;
}

/* Begins with the next agent, which stands by. */
static struct handover_locks *begin_next(const struct handover_locks *old)
{
    struct handover_locks *l = begin();
    await_standby(old);
    return l;
}

/* The old one lets go of the cards, and learns from the new one whether that serves. */
static void hand_over(struct handover_locks *old, struct handover_locks *new, bool serves)
{
    auto_err struct err e = {0};
    cr_assert_eq(handover_locks_release(old, &e), 0, "%s", err_msg(&e));
    await(new, handover_locks_have_cards);
    cr_expect_not(handover_locks_are_alone(new));
    cr_expect_not(handover_locks_are_succeeded(old));
    handover_locks_announce(new, serves);
    await(old, handover_locks_are_succeeded);
    cr_expect_eq(handover_locks_are_served(old), serves);
    cr_expect_not(handover_locks_are_alone(new));
}

/* The old one's process ends. */
static void end(struct handover_locks *old, struct handover_locks *new)
{
    (void)handover_locks_free(old);
    await(new, handover_locks_are_alone);
}

Test(handover_locks, first_agent_has_all_at_once)
{
    auto_handover_locks struct handover_locks *l = begin();
    cr_expect(handover_locks_have_cards(l));
    cr_expect(handover_locks_are_alone(l));
    cr_expect_not(handover_locks_are_awaited(l));
}

Test(handover_locks, second_agent_waits_until_the_first_has_ended)
{
    struct handover_locks *old = begin_first();
    auto_handover_locks struct handover_locks *new = begin_next(old);
    cr_expect_not(handover_locks_have_cards(new));
    end(old, new);
    cr_expect(handover_locks_have_cards(new));
}

Test(handover_locks, agent_hands_over_and_learns_that_it_is_succeeded)
{
    struct handover_locks *old = begin_first();
    auto_handover_locks struct handover_locks *new = begin_next(old);
    hand_over(old, new, /* serves= */ true);
    end(old, new);
}

Test(handover_locks, agent_learns_that_the_next_one_cannot_serve_yet)
{
    struct handover_locks *old = begin_first();
    auto_handover_locks struct handover_locks *new = begin_next(old);
    hand_over(old, new, /* serves= */ false);
    end(old, new);
}

Test(handover_locks, third_agent_stands_by_only_after_the_first_is_gone)
{
    struct handover_locks *old = begin_first();
    struct handover_locks *new = begin_next(old);
    auto_handover_locks struct handover_locks *third = begin();
    hand_over(old, new, /* serves= */ true);
    end(old, new);
    cr_expect_not(handover_locks_have_cards(third));
    await_standby(new);
    end(new, third);
}

Test(handover_locks, chain_of_agents_hands_over_again_and_again)
{
    struct handover_locks *old = begin_first();
    for (int i = 0; i < 50; i++) {
        struct handover_locks *new = begin_next(old);
        hand_over(old, new, /* serves= */ true);
        end(old, new);
        old = new;
    }
    (void)handover_locks_free(old);
}

Test(handover_locks, agent_waits_for_a_stand_alone_verb)
{
    int verb = -1;
    cr_assert_eq(journal_lock(folder_path(), &verb, NULL), 0);
    auto_handover_locks struct handover_locks *l = begin();
    cr_expect_not(handover_locks_have_cards(l));
    (void)close(verb);
    await(l, handover_locks_are_alone);
}

Test(handover_locks, stand_alone_verb_is_refused_while_an_agent_has_the_cards)
{
    int verb = -1;
    auto_handover_locks struct handover_locks *l = begin();
    cr_assert(handover_locks_have_cards(l));
    cr_expect_eq(journal_lock(folder_path(), &verb, NULL), -ERR_CONFLICT);
}

Test(handover_locks, one_that_is_freed_while_it_waits_takes_nothing_from_others)
{
    static struct handover_locks *old; /* has the cards until the process ends */
    old = begin_first();
    struct handover_locks *waits = begin();
    (void)handover_locks_free(waits);
    cr_expect(handover_locks_have_cards(old));
}
