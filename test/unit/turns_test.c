/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "test/unit/turns_world_support.h"

#define NEAR(w, p, want)                                                                           \
    cr_expect(world_percent(w, p) > (want)-5 && world_percent(w, p) < (want) + 5,                  \
              #p " has %.1f %%", world_percent(w, p))

/* Without the first second, in which the card does what it was given while its gate was open. */
static void settle(struct world *w)
{
    world_run(w, SEC);
    world_forget(w);
}

/* A container with one process on card 0. */
static struct process *with_claim(struct world *w, unsigned share, struct turns_claim claim,
                                  int64_t piece)
{
    world_share(w, share, &claim, 1);
    return world_process(w, share, 0, claim.card, piece);
}

/* --- Alone --- */

Test(turns, who_is_alone_is_let_through_and_no_call_is_wanted)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 30, 5 * MS), *q = world_worker(w, 2, 70, 5 * MS);
    q->is_stopped = true;
    world_run(w, MS);
    uint64_t steps = w->steps;
    cr_expect(p->gate == GATE_OPEN && q->gate == GATE_TELL);
    cr_expect_eq(w->next, -1);
    world_run(w, 10 * SEC);
    cr_expect_eq(w->steps, steps + 1, "the test's own call");
    world_free(w);
}

Test(turns, who_is_left_alone_is_let_through_after_half_a_second)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 30, 5 * MS), *q = world_worker(w, 2, 70, 5 * MS);
    world_run(w, SEC);
    world_pause(w, q);
    world_run(w, 450 * MS);
    cr_expect(p->gate == GATE_TURN && q->gate == GATE_TELL);
    world_run(w, 500 * MS);
    cr_expect(p->gate == GATE_OPEN && q->gate == GATE_TELL);
    cr_expect_eq(w->next, -1);
    world_free(w);
}

Test(turns, nobody_wants_anything_and_no_call_is_wanted)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 30, MS), *q = world_worker(w, 2, 70, MS);
    world_run(w, SEC);
    world_pause(w, p);
    world_pause(w, q);
    world_run(w, SEC);
    cr_expect(p->gate == GATE_TELL && q->gate == GATE_TELL);
    cr_expect_eq(w->next, -1);
    world_free(w);
}

/* --- Shares --- */

Test(turns, thirty_and_seventy_are_thirty_and_seventy)
{
    static const int64_t pieces[][2] = {{20 * US, 20 * US},
                                        {MS, MS},
                                        {5 * MS, 5 * MS},
                                        {100 * US, 5 * MS},
                                        {5 * MS, 200 * US}};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct world *w = world_new(i);
        struct process *p = world_worker(w, 1, 30, pieces[i][0]);
        struct process *q = world_worker(w, 2, 70, pieces[i][1]);
        settle(w);
        world_run(w, 10 * SEC);
        NEAR(w, p, 30);
        NEAR(w, q, 70);
        cr_expect_eq(w->together[0], 0, "each has the card alone");
        world_free(w);
    }
}

Test(turns, a_program_that_waits_for_each_piece_has_its_share_and_no_more)
{
    static const int64_t gaps[] = {0, 20 * US, 100 * US, 500 * US};
    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
        struct world *w = world_new(i);
        struct process *p = world_worker(w, 1, 30, 3 * MS), *q = world_worker(w, 2, 70, MS);
        p->gap = gaps[i];
        settle(w);
        world_run(w, 10 * SEC);
        NEAR(w, p, 30);
        NEAR(w, q, 70);
        cr_expect(w->together[0] < SEC / 100, "together for %ld", (long)w->together[0]);
        world_free(w);
    }
}

Test(turns, one_that_rests_between_its_pieces_does_not_wait_for_what_the_other_gave_meanwhile)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 30, MS), *q = world_worker(w, 2, 70, 3 * MS);
    p->queue = 1000;
    q->gap = 2 * MS;
    settle(w);
    q->longest_wait = 0;
    world_run(w, 10 * SEC);
    cr_expect(world_percent(w, q) > 35, "%.1f", world_percent(w, q));
    cr_expect(q->longest_wait < 30 * MS, "%ld", (long)q->longest_wait);
    world_free(w);
}

Test(turns, those_without_a_guarantee_share_what_is_left)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 60, 2 * MS), *q = world_worker(w, 2, 0, 2 * MS),
                   *r = world_worker(w, 3, 0, 2 * MS);
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, p, 60);
    NEAR(w, q, 20);
    NEAR(w, r, 20);
    world_free(w);
}

Test(turns, where_all_is_guaranteed_the_others_have_one_percent_each)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 100, MS), *q = world_worker(w, 2, 0, MS);
    settle(w);
    world_run(w, 20 * SEC);
    NEAR(w, p, 99);
    cr_expect(world_percent(w, q) > 0.9 && world_percent(w, q) < 1.5, "%.2f", world_percent(w, q));
    world_free(w);
}

Test(turns, what_one_does_not_use_the_others_have)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, 2 * MS), *q = world_worker(w, 2, 25, 2 * MS),
                   *r = world_worker(w, 3, 25, 2 * MS);
    p->works = 50 * MS;
    p->rests = 150 * MS;
    settle(w);
    world_run(w, 10 * SEC);
    cr_expect(world_percent(w, p) > 12, "%.1f", world_percent(w, p));
    cr_expect(world_percent(w, q) > 36, "%.1f", world_percent(w, q));
    cr_expect(world_percent(w, r) > 36, "%.1f", world_percent(w, r));
    world_free(w);
}

Test(turns, the_processes_of_a_container_have_its_share_together)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, 2 * MS), *q = world_worker(w, 2, 50, 2 * MS);
    for (unsigned i = 0; i < 31; i++)
        world_process(w, 2, 0, 0, 2 * MS)->queue = 2;
    p->queue = 2;
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, p, 50);
    for (unsigned i = 2; i < w->n; i++)
        q->done += w->processes[i].done;
    NEAR(w, q, 50);
    world_free(w);
}

Test(turns, an_overrun_is_a_debt)
{
    static const int64_t pieces[] = {50 * MS, 150 * MS, 500 * MS};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct world *w = world_new(1);
        struct process *p = world_worker(w, 1, 50, pieces[i]), *q = world_worker(w, 2, 50, MS);
        p->depth = p->queue = 1;
        settle(w);
        world_run(w, 30 * SEC);
        cr_expect(world_percent(w, q) > 40, "%.1f beside pieces of %ld ms", world_percent(w, q),
                  (long)(pieces[i] / MS));
        world_free(w);
    }
}

Test(turns, other_percents_hold_from_now_on)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 30, MS), *q = world_worker(w, 2, 70, MS);
    const struct turns_claim other[] = {{.percent = 80}, {.percent = 20}};
    world_run(w, SEC);
    turns_change(w->t, 1, &other[0]);
    turns_change(w->t, 2, &other[1]);
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, p, 80);
    NEAR(w, q, 20);
    world_free(w);
}

Test(turns, what_is_charged_comes_to_the_time_that_passes)
{
    struct world *w = world_new(1);
    world_worker(w, 1, 30, 3 * MS);
    world_worker(w, 2, 50, 700 * US);
    world_worker(w, 3, 0, 5 * MS)->gap = 50 * US;
    world_run(w, SEC);
    int64_t before = 0, after = 0;
    for (unsigned s = 1; s <= 3; s++)
        before += turns_sums(w->t, s, 0).held_ns;
    world_run(w, 10 * SEC);
    for (unsigned s = 1; s <= 3; s++)
        after += turns_sums(w->t, s, 0).held_ns;
    cr_expect(after - before > 9980 * MS && after - before < 10020 * MS, "%ld",
              (long)(after - before));
    world_free(w);
}

/* --- Caps --- */

Test(turns, a_capped_claim_has_its_percent_also_alone)
{
    static const unsigned percents[] = {1, 2, 5, 30, 50, 95};
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        struct world *w = world_new(1);
        struct process *p =
            with_claim(w, 1, (struct turns_claim){.percent = percents[i], .is_capped = true},
                       200 * US);
        settle(w);
        world_run(w, 10 * SEC);
        cr_expect(world_percent(w, p) > percents[i] * 0.85 - 0.1 &&
                      world_percent(w, p) < percents[i] * 1.05 + 0.1,
                  "%u: %.2f", percents[i], world_percent(w, p));
        world_free(w);
    }
}

Test(turns, a_capped_claim_has_no_more_beside_others_who_have_the_rest)
{
    struct world *w = world_new(1);
    struct process *p =
        with_claim(w, 1, (struct turns_claim){.percent = 30, .is_capped = true}, MS);
    struct process *q = world_worker(w, 2, 30, MS);
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, p, 30);
    NEAR(w, q, 70);
    world_free(w);
}

Test(turns, a_cap_of_nothing_or_of_all_is_none)
{
    static const unsigned percents[] = {0, 100};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = world_new(1);
        struct process *p =
            with_claim(w, 1, (struct turns_claim){.percent = percents[i], .is_capped = true}, MS);
        world_run(w, SEC);
        cr_expect_eq(p->gate, GATE_OPEN);
        world_free(w);
    }
}

Test(turns, a_capped_claim_that_rests_wants_no_call)
{
    struct world *w = world_new(1);
    struct process *p =
        with_claim(w, 1, (struct turns_claim){.percent = 30, .is_capped = true}, MS);
    world_run(w, SEC);
    world_pause(w, p);
    world_run(w, SEC);
    cr_expect_eq(p->gate, GATE_TELL);
    cr_expect_eq(w->next, -1);
    world_free(w);
}

static uint64_t changes_of_each(unsigned n_cards)
{
    struct world *w = world_new(1);
    for (unsigned card = 0; card < n_cards; card++)
        for (unsigned k = 0; k < 2; k++)
            with_claim(w, 2 * card + k, (struct turns_claim){.card = card, .percent = k ? 70 : 30},
                       MS);
    settle(w);
    uint64_t before = w->changes;
    world_run(w, 10 * SEC);
    for (unsigned i = 0; i < w->n; i++)
        NEAR(w, &w->processes[i], i % 2 ? 70 : 30);
    uint64_t changes = (w->changes - before) / n_cards;
    world_free(w);
    return changes;
}

Test(turns, turns_are_longer_where_many_cards_are_contended_and_the_shares_are_the_same)
{
    uint64_t few = changes_of_each(1), still_few = changes_of_each(5), many = changes_of_each(16);
    cr_expect(few * 10 < still_few * 12 && still_few * 10 < few * 12, "%lu, %lu",
              (unsigned long)few, (unsigned long)still_few);
    cr_expect(many * 2 < few, "%lu of %lu", (unsigned long)many, (unsigned long)few);
}

/* --- Priority --- */

Test(turns, those_of_low_priority_have_one_percent_together_while_high_always_wants)
{
    struct world *w = world_new(1);
    struct process *high = world_worker(w, 1, 0, MS);
    int64_t low = 0;
    for (unsigned s = 2; s < 8; s++)
        with_claim(w, s, (struct turns_claim){.priority = 1}, MS);
    settle(w);
    world_run(w, 20 * SEC);
    for (unsigned i = 1; i < w->n; i++)
        low += w->processes[i].done;
    cr_expect(low >= 20 * SEC / 100 && low < 20 * SEC * 16 / 1000, "%ld", (long)low);
    NEAR(w, high, 98);
    world_free(w);
}

Test(turns, a_turn_of_low_priority_ends_when_high_wants)
{
    struct world *w = world_new(1);
    struct process *low = with_claim(w, 1, (struct turns_claim){.priority = 1}, MS);
    struct process *high = world_worker(w, 2, 0, MS);
    world_pause(w, high);
    world_run(w, SEC);
    turns_want(w->t, high->share, 0, high->member);
    world_run(w, 1);
    cr_expect_eq(low->gate, GATE_CLOSED);
    world_free(w);
}

Test(turns, low_priority_is_bounded_while_it_is_alone_if_high_may_come)
{
    struct world *w = world_new(1);
    struct process *low = with_claim(w, 1, (struct turns_claim){.priority = 1}, MS);
    world_run(w, SEC);
    cr_expect_eq(low->gate, GATE_OPEN, "nobody is there that it could be in the way of");
    struct process *high = world_worker(w, 2, 0, MS);
    world_pause(w, high);
    world_run(w, SEC);
    cr_expect_eq(low->gate, GATE_TURN);
    cr_expect_eq(w->next, -1, "and no call is wanted");
    world_forget(w);
    world_run(w, SEC);
    NEAR(w, low, 100);
    world_kill(w, high);
    world_run(w, SEC);
    cr_expect_eq(low->gate, GATE_OPEN);
    world_free(w);
}

Test(turns, low_priority_that_begins_is_bounded_at_once)
{
    struct world *w = world_new(1);
    struct process *high = world_worker(w, 2, 0, MS);
    world_pause(w, high);
    world_run(w, SEC);
    struct process *low = with_claim(w, 1, (struct turns_claim){.priority = 1}, MS);
    world_run(w, SEC);
    cr_expect_eq(low->gate, GATE_TURN);
    cr_expect_eq(w->next, -1);
    world_free(w);
}

Test(turns, high_priority_waits_for_what_is_in_flight_and_no_longer)
{
    struct world *w = world_new(1);
    struct process *low = with_claim(w, 1, (struct turns_claim){.priority = 1}, MS);
    struct process *high = world_worker(w, 2, 0, 2 * MS);
    high->gap = 4 * MS;
    settle(w);
    high->longest_wait = 0;
    world_run(w, 10 * SEC);
    cr_expect(high->longest_wait < 15 * MS, "%ld", (long)high->longest_wait);
    cr_expect(world_percent(w, high) > 22, "%.1f", world_percent(w, high));
    cr_expect(world_percent(w, low) > 25, "%.1f", world_percent(w, low));
    world_free(w);
}

/* --- Several cards --- */

static void pair(struct process *p, struct process *q)
{
    p->peer = (int)q->member;
    q->peer = (int)p->member;
}

/* A container whose pieces are on two cards at once. */
static struct process *gang(struct world *w, unsigned share, unsigned first, unsigned second,
                            unsigned percent)
{
    const struct turns_claim claims[] = {{.card = first, .percent = percent},
                                         {.card = second, .percent = percent}};
    world_share(w, share, claims, 2);
    struct process *p = world_process(w, share, 0, first, MS);
    struct process *q = world_process(w, share, 1, second, MS);
    pair(p, q);
    return p;
}

Test(turns, containers_that_have_two_cards_crosswise_do_not_wait_for_each_other)
{
    struct world *w = world_new(1);
    struct process *p = gang(w, 1, 0, 1, 50), *q = gang(w, 2, 1, 0, 50);
    settle(w);
    world_run(w, 10 * SEC);
    cr_expect(p->pieces > 4700 && q->pieces > 4700, "%lu and %lu", (unsigned long)p->pieces,
              (unsigned long)q->pieces);
    world_free(w);
}

Test(turns, containers_with_cards_in_a_circle_have_the_same)
{
    struct world *w = world_new(1);
    struct process *p[3];
    for (unsigned s = 0; s < 3; s++)
        p[s] = gang(w, s, s, (s + 1) % 3, 50);
    settle(w);
    world_run(w, 9 * SEC);
    for (unsigned s = 0; s < 3; s++)
        cr_expect(p[s]->pieces > 2800 && p[s]->pieces < 3500, "%lu", (unsigned long)p[s]->pieces);
    world_free(w);
}

Test(turns, a_card_is_not_kept_idle_for_a_container_that_waits_for_another_card)
{
    struct world *w = world_new(1);
    struct process *p = gang(w, 1, 0, 1, 50), *q = world_worker(w, 2, 50, MS);
    with_claim(w, 3, (struct turns_claim){.card = 1, .percent = 50}, 3 * MS);
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, q, 47);
    cr_expect(p->pieces > 4300, "%lu", (unsigned long)p->pieces);
    cr_expect(w->busy[0] > 9 * SEC && w->busy[1] > 9 * SEC, "%ld, %ld", (long)w->busy[0],
              (long)w->busy[1]);
    world_free(w);
}

Test(turns, two_cards_of_one_container_that_nobody_else_wants_are_open)
{
    struct world *w = world_new(1);
    struct process *p = gang(w, 1, 0, 1, 50);
    world_run(w, SEC);
    cr_expect(p->gate == GATE_OPEN && w->processes[p->peer].gate == GATE_OPEN);
    cr_expect_eq(w->next, -1);
    world_free(w);
}

Test(turns, a_turn_that_is_given_back_ends_on_all_cards_and_is_had_again_on_all_at_once)
{
    struct world *w = world_new(1);
    struct process *p = gang(w, 1, 0, 1, 50);
    struct process *q = &w->processes[p->peer];
    with_claim(w, 2, (struct turns_claim){.card = 0, .percent = 50}, MS);
    with_claim(w, 3, (struct turns_claim){.card = 1, .percent = 50}, MS);
    settle(w);
    while (p->gate != GATE_TURN || q->gate != GATE_TURN)
        world_run(w, MS / 10);
    uint32_t of_p = p->turn, of_q = q->turn;
    turns_answer(w->t, 1, 0, p->member, p->turn, /* is_idle= */ false);
    world_run(w, 1);
    cr_expect(p->turn != of_p && q->turn != of_q);
    cr_expect_eq(p->gate, q->gate);
    while (p->gate != GATE_TURN && q->gate != GATE_TURN)
        world_run(w, 1);
    cr_expect(p->gate == GATE_TURN && q->gate == GATE_TURN);
    world_free(w);
}

Test(turns, a_container_of_low_priority_with_two_cards_works_in_the_turn_that_it_waited_for)
{
    const struct turns_claim claims[] = {{.card = 0, .priority = 1}, {.card = 1, .priority = 1}};
    struct world *w = world_new(1);
    world_share(w, 1, claims, 2);
    struct process *p = world_process(w, 1, 0, 0, MS), *q = world_process(w, 1, 1, 1, MS);
    pair(p, q);
    for (unsigned s = 2; s < 12; s++)
        with_claim(w, s, (struct turns_claim){.card = s % 2, .priority = s > 3}, MS);
    settle(w);
    world_run(w, 60 * SEC);
    cr_expect(p->pieces >= 30, "%lu", (unsigned long)p->pieces);
    world_free(w);
}

/* --- Members that fail --- */

Test(turns, a_holder_that_ends_makes_way)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS), *q = world_worker(w, 2, 50, MS);
    while (p->gate != GATE_TURN)
        world_run(w, MS);
    world_kill(w, p);
    world_run(w, MS);
    cr_expect_eq(q->gate, GATE_TURN);
    world_run(w, SEC);
    cr_expect_eq(q->gate, GATE_OPEN);
    world_free(w);
}

Test(turns, a_process_that_is_stopped_costs_the_others_a_fifth_of_a_second_once)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS), *q = world_worker(w, 2, 50, MS);
    while (p->gate != GATE_TURN)
        world_run(w, MS);
    world_forget(w);
    p->is_stopped = true;
    world_run(w, 10 * SEC);
    cr_expect(world_percent(w, q) > 97, "%.1f", world_percent(w, q));
    cr_expect_eq(turns_sums(w->t, 1, 0).overruns, 1);
    p->is_stopped = false;
    settle(w);
    world_run(w, 10 * SEC);
    NEAR(w, p, 50);
    NEAR(w, q, 50);
    world_free(w);
}

Test(turns, the_others_of_a_stopped_ones_container_keep_their_share)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS), *sibling = world_process(w, 1, 0, 0, MS),
                   *q = world_worker(w, 2, 50, MS);
    world_run(w, SEC);
    p->is_stopped = true;
    world_run(w, 2 * SEC);
    world_forget(w);
    world_run(w, 10 * SEC);
    NEAR(w, sibling, 50);
    NEAR(w, q, 50);
    world_free(w);
}

Test(turns, who_never_answers_pays_for_the_time_that_the_others_wait)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS), *q = world_worker(w, 2, 50, MS);
    p->is_mute = true;
    settle(w);
    q->longest_wait = 0;
    world_run(w, 10 * SEC);
    cr_expect(world_percent(w, q) > 45, "%.1f", world_percent(w, q));
    cr_expect(q->longest_wait < 250 * MS, "%ld", (long)q->longest_wait);
    cr_expect(turns_sums(w->t, 1, 0).overruns > 5);
    world_free(w);
}

Test(turns, who_is_removed_makes_way)
{
    struct world *w = world_new(1);
    world_worker(w, 1, 50, MS)->is_mute = true;
    struct process *q = world_worker(w, 2, 50, MS);
    world_run(w, SEC);
    turns_remove(w->t, 1);
    world_run(w, SEC);
    cr_expect_eq(q->gate, GATE_OPEN);
    world_free(w);
}

Test(turns, words_about_what_there_is_not_change_nothing)
{
    struct world *w = world_new(1);
    struct process *p = world_worker(w, 1, 50, MS);
    world_run(w, SEC);
    turns_want(w->t, 7, 0, 0);
    turns_want(w->t, 1, 9, 0);
    turns_want(w->t, 1, 0, REGION_MAX_PROCESSES);
    turns_serve(w->t, TURNS_MAX_SHARES, 0, 0);
    turns_answer(w->t, 1, 0, p->member, p->turn + 1, true);
    turns_answer(w->t, TURNS_MAX_SHARES, 0, 0, 0, true);
    turns_gone(w->t, TURNS_MAX_SHARES, 0);
    turns_gone(w->t, 1, REGION_MAX_PROCESSES);
    cr_expect_eq(turns_step(w->t, w->now), -1);
    world_run(w, SEC);
    cr_expect_eq(p->gate, GATE_OPEN);
    world_free(w);
}

/* --- What is carried out --- */

static struct turns_change next_change(struct turns *t)
{
    struct turns_change c = {.share = UINT32_MAX};
    cr_assert(turns_next_change(t, &c));
    return c;
}

Test(turns, a_new_claim_is_told_anew_what_its_gate_is)
{
    struct turns *t = turns_new();
    const struct turns_claim claim = {.turn = 41};
    turns_add(t, 1, &claim, 1, 0);
    struct turns_change c = next_change(t);
    cr_expect(c.share == 1 && c.claim == 0 && c.gate == GATE_TELL);
    cr_expect_eq(c.turn, 42, "another than the one that members may remember");
    cr_expect_not(turns_next_change(t, &c));
    turns_free(t);
}

Test(turns, who_makes_way_is_told_before_who_follows)
{
    struct turns *t = turns_new();
    struct turns_change c;
    const struct turns_claim claim = {.percent = 50};
    for (unsigned s = 1; s <= 2; s++) {
        turns_add(t, s, &claim, 1, 0);
        turns_serve(t, s, 0, 0);
        turns_want(t, s, 0, 0);
    }
    (void)turns_step(t, SEC);
    while (turns_next_change(t, &c)) {
    }
    cr_assert(c.gate == GATE_CLOSED || c.gate == GATE_TURN);
    unsigned holder = c.gate == GATE_TURN ? c.share : 3 - c.share;
    turns_gone(t, holder, 0);
    (void)turns_step(t, SEC + 10 * MS);
    cr_expect_eq(next_change(t).share, holder);
    c = next_change(t);
    cr_expect(c.share == 3 - holder && c.gate == GATE_TURN && c.ends > SEC + 10 * MS);
    turns_free(t);
}

Test(turns, a_removed_share_has_no_changes)
{
    struct turns *t = turns_new();
    struct turns_change c;
    const struct turns_claim claim = {.percent = 50};
    for (unsigned s = 1; s <= 3; s++)
        turns_add(t, s, &claim, 1, 0);
    turns_remove(t, 3);
    turns_remove(t, 2);
    turns_add(t, 4, &claim, 1, 0);
    cr_expect_eq(next_change(t).share, 1);
    cr_expect_eq(next_change(t).share, 4);
    cr_expect_not(turns_next_change(t, &c));
    turns_free(t);
}
