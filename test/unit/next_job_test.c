/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "nodeagent/loop/next_job.h"

enum { NOW = 1000 };

/* Cards c (index 0), a (1) and b (2); the spec lists gone, b and a, all of which are pending. */
struct node {
    struct jobs jobs; /* none */
    struct card_view cards[3];
    struct card_track items[3];
    struct card_tracks tracks;
    struct next_job_facts facts;
};

static void node_init(struct node *n)
{
    static const char *const cards[] = {"c", "a", "b"};
    static const char *const listed[] = {"gone", "b", "a"};
    *n = (struct node){0};
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(n->cards[i].card.uuid, GPU_UUID_BYTES, "%s", cards[i]);
        n->cards[i].card.index = i;
        (void)snprintf(n->items[i].memo.uuid, GPU_UUID_BYTES, "%s", listed[i]);
        card_track_again(&n->items[i]);
    }
    n->tracks = (struct card_tracks){n->items, 3};
    n->facts = (struct next_job_facts){.jobs = &n->jobs,
                                       .tracks = &n->tracks,
                                       .cards = n->cards,
                                       .n_cards = 3,
                                       .now_mono_ms = NOW,
                                       .spec_seen = true,
                                       .cards_read = true};
}

static void rest(struct card_track *t)
{
    t->memo.progress = PROGRESS_DONE;
}

Test(next_job, cards_are_taken_by_index_and_one_that_the_node_lacks_last)
{
    struct node n;
    struct card_track *t = NULL;
    node_init(&n);
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "a");
    rest(t);
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "b");
    rest(t);
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "gone");
    rest(t);
    cr_expect_eq(next_job(&n.facts, &t), NEXT_NOTHING);
    cr_expect_null(t);
}

Test(next_job, a_card_that_waits_for_its_acknowledgement_holds_up_no_other)
{
    struct node n;
    struct card_track *t = NULL;
    node_init(&n);
    n.items[2].await_mono_ms = NOW + 1; /* a */
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "b");
    n.facts.now_mono_ms = NOW + 1;
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "a");
}

Test(next_job, a_reading_that_is_due_comes_before_all_cards)
{
    struct node n;
    struct card_track *t = NULL;
    node_init(&n);
    n.facts.read_due = true;
    cr_expect_eq(next_job(&n.facts, &t), NEXT_READ);
    cr_expect_null(t);
}

Test(next_job, nothing_is_attempted_before_the_first_reading_and_the_spec)
{
    struct node n;
    struct card_track *t = NULL;
    node_init(&n);
    n.facts.spec_seen = false;
    cr_expect_eq(next_job(&n.facts, &t), NEXT_NOTHING);
    n.facts.cards_read = false;
    n.facts.next_read_mono_ms = NOW + 1; /* the one before failed */
    cr_expect_eq(next_job(&n.facts, &t), NEXT_NOTHING);
    n.facts.next_read_mono_ms = NOW;
    cr_expect_eq(next_job(&n.facts, &t), NEXT_READ);
}

Test(next_job, a_card_in_the_hands_of_a_job_is_left_out)
{
    struct node n;
    struct card_track *t = NULL;
    struct busy_card busy[] = {{.uuid = "a"}, {.uuid = "gone"}};
    node_init(&n);
    n.jobs.busy = busy;
    n.jobs.n_busy = 2;
    cr_expect_eq(next_job(&n.facts, &t), NEXT_CARD);
    cr_expect_str_eq(t->memo.uuid, "b");
    rest(t);
    cr_expect_eq(next_job(&n.facts, &t), NEXT_NOTHING, "though both are due");
}

Test(next_job, before_the_device_was_seen_no_cards_time_wakes_anybody)
{
    struct node n;
    node_init(&n);
    for (unsigned i = 0; i < 3; i++)
        n.items[i].retry_mono_ms = NOW;
    n.facts.spec_seen = false;
    cr_expect_eq(next_job_due_mono_ms(&n.facts), INT64_MAX);
}

Test(next_job, the_time_of_a_card_in_the_hands_of_a_job_wakes_nobody)
{
    struct node n;
    struct busy_card busy[] = {{.uuid = "a"}};
    node_init(&n);
    for (unsigned i = 0; i < 3; i++)
        n.items[i].retry_mono_ms = NOW + 30 - 10 * (int64_t)i;
    cr_expect_eq(next_job_due_mono_ms(&n.facts), NOW + 10, "a's");
    n.jobs.busy = busy;
    n.jobs.n_busy = 1;
    cr_expect_eq(next_job_due_mono_ms(&n.facts), NOW + 20, "b's");
}
