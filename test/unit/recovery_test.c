/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "folder_support.h"
#include "gpu_fake_support.h"
#include "nodeagent/loop/recovery.h"

enum { TOLD = 7, TOLD_MS = 500 };

/* A card whose change did not end, which no source wants and nothing changes. */
struct bench {
    struct recovery recovery;
    struct device_spec spec;
    struct jobs jobs;
    struct holders holders;
    struct recovery_facts facts;
};

static void bench_init(struct bench *b)
{
    const struct txn_result failed = {.outcome = TXN_FAILED};
    *b = (struct bench){.recovery.done = true};
    recovery_note(&b->recovery, "GPU-0", &failed, /* tracked= */ false);
    b->holders = (struct holders){.known = true, .asked_mono_ms = TOLD_MS};
    b->facts = (struct recovery_facts){.spec = &b->spec,
                                       .jobs = &b->jobs,
                                       .acked = TOLD,
                                       .holders = &b->holders};
}

Test(recovery, waits_until_all_that_advertise_know_that_the_card_offers_nothing)
{
    struct bench b;
    bench_init(&b);
    cr_expect_not(recovery_may_run(&b.recovery, &b.facts), "no status said so");
    cr_expect(recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS));
    cr_expect_not(recovery_told(&b.recovery, &b.facts, TOLD + 1, TOLD_MS + 1), "known already");
    cr_expect(recovery_may_run(&b.recovery, &b.facts));
    b.facts.acked = TOLD - 1;
    cr_expect_not(recovery_may_run(&b.recovery, &b.facts), "that status is not acknowledged");
    b.facts.acked = TOLD;
    b.holders.asked_mono_ms = TOLD_MS - 1;
    cr_expect_not(recovery_may_run(&b.recovery, &b.facts), "the list of holders is older");
    b.facts.holders = NULL;
    cr_expect(recovery_may_run(&b.recovery, &b.facts), "without a kubelet there is no list");
    recovery_done(&b.recovery);
}

Test(recovery, does_not_run_before_the_kubelet_named_the_holders)
{
    struct bench b;
    bench_init(&b);
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    b.holders.known = false;
    cr_expect_not(recovery_may_run(&b.recovery, &b.facts));
    recovery_done(&b.recovery);
}

/* A node without a driver read its hardware twenty times a second. */
Test(recovery, a_list_of_holders_is_a_reason_to_read_where_cards_can_be_read)
{
    struct bench b;
    bench_init(&b);
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    cr_expect_not(recovery_reads_after_list(&b.recovery, &b.facts, true),
                  "the first round is over");
    b.recovery.done = false;
    cr_expect(recovery_reads_after_list(&b.recovery, &b.facts, true));
    cr_expect_not(recovery_reads_after_list(&b.recovery, &b.facts, false));
    b.holders.known = false;
    cr_expect_not(recovery_reads_after_list(&b.recovery, &b.facts, true), "it was no list");
    recovery_done(&b.recovery);
}

/* A reading that listed the journals of these cards; NULL ends them. */
static struct agent_job *listing(const char *const *uuids)
{
    struct agent_job *j = agent_job_new(AGENT_JOB_READ, NULL, NULL);
    for (; *uuids; uuids++)
        *XPUSH(j->unended, j->n_unended) = xstrdup(*uuids);
    return j;
}

static void find(struct bench *b, const char *const *uuids)
{
    struct agent_job *j = listing(uuids);
    recovery_found(&b->recovery, &b->facts, j);
    agent_job_free(j);
}

/* The next card's job. Adds the devices that the caller has to seal to *to_seal. */
static struct agent_job *begin(struct bench *b, struct id_list *to_seal)
{
    struct agent_job *j = agent_job_new(AGENT_JOB_RECOVER, NULL, NULL);
    struct card_view v = {0};
    const char *uuid = recovery_next(&b->recovery, &b->facts);
    cr_assert_not_null(uuid);
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", uuid);
    memcpy(v.card.uuid, j->uuid, sizeof(j->uuid));
    recovery_begin(&b->recovery, &b->facts, &v, j, to_seal);
    return j;
}

static void end(struct bench *b, struct agent_job *j, enum txn_outcome outcome)
{
    j->result.outcome = outcome;
    recovery_ended(&b->recovery, j);
    agent_job_free(j);
}

static const char *const both[] = {"GPU-0", "GPU-1", NULL};

Test(recovery, a_later_round_spares_all_cards_but_the_withheld_ones)
{
    struct bench b;
    auto_id_list struct id_list none = {0};
    auto_id_list struct id_list to_seal = {0};
    bench_init(&b);
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    find(&b, both);
    struct agent_job *unwanted = begin(&b, &to_seal);
    struct agent_job *other = begin(&b, &none);
    cr_expect_str_eq(unwanted->uuid, "GPU-0");
    cr_expect_not(unwanted->offered.whole);
    cr_expect(unwanted->seals);
    cr_expect_eq(to_seal.n, 1);
    cr_expect_str_eq(to_seal.items[0], "GPU-0");
    cr_expect_str_eq(other->uuid, "GPU-1");
    cr_expect(other->offered.whole, "it may be on offer");
    cr_expect_not(other->seals);
    cr_expect_eq(none.n, 0);
    end(&b, unwanted, TXN_ROLLED_BACK);
    end(&b, other, TXN_ROLLED_BACK);
    recovery_done(&b.recovery);
}

Test(recovery, the_first_round_is_over_when_each_card_had_its_turn)
{
    struct bench b;
    auto_id_list struct id_list none = {0};
    bench_init(&b);
    recovery_done(&b.recovery);
    b.recovery = (struct recovery){.due = true};
    find(&b, both);
    cr_expect(recovery_is_first(&b.recovery));
    struct agent_job *one = begin(&b, &none);
    struct agent_job *two = begin(&b, &none);
    cr_expect_null(recovery_next(&b.recovery, &b.facts));
    cr_expect_not(one->offered.whole, "nothing of the agent before is on offer");
    end(&b, one, TXN_FAILED);
    cr_expect_not(b.recovery.done);
    end(&b, two, TXN_ROLLED_BACK);
    cr_expect(b.recovery.done);
    cr_expect(b.recovery.due, "one did not end");
    cr_expect_not_null(unended_find(&b.recovery.unended, "GPU-0"));
    cr_expect_null(unended_find(&b.recovery.unended, "GPU-1"));
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    find(&b, (const char *const[]){NULL});
    cr_expect_eq(b.recovery.unended.n, 0, "its journal is gone");
    cr_expect_not(b.recovery.due);
    recovery_done(&b.recovery);
}

Test(recovery, a_recovery_that_hangs_holds_up_its_own_card_only)
{
    struct bench b;
    auto_id_list struct id_list none = {0};
    bench_init(&b);
    recovery_done(&b.recovery);
    b.recovery = (struct recovery){.due = true};
    find(&b, both);
    struct agent_job *hangs = begin(&b, &none);
    recovery_leave_hanging(&b.recovery);
    cr_expect_not(b.recovery.done, "the other card did not begin");
    struct agent_job *fails = begin(&b, &none);
    recovery_leave_hanging(&b.recovery);
    cr_expect(b.recovery.done, "both offer nothing");
    end(&b, fails, TXN_FAILED);
    cr_expect(b.recovery.due, "it is listed again");
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    find(&b, (const char *const[]){"GPU-1", NULL});
    cr_expect_str_eq(recovery_next(&b.recovery, &b.facts), "GPU-1", "a later round begins");
    end(&b, hangs, TXN_ROLLED_BACK);
    recovery_done(&b.recovery);
}

Test(recovery, before_the_kubelets_list_a_card_with_a_journal_counts_as_unended)
{
    struct bench b;
    bench_init(&b);
    recovery_done(&b.recovery);
    b.recovery = (struct recovery){.due = true};
    b.holders.known = false;
    find(&b, both);
    cr_expect_eq(b.recovery.unended.n, 2);
    cr_expect_null(recovery_next(&b.recovery, &b.facts));
    cr_expect_not(b.recovery.done);
    cr_expect(b.recovery.due);
    b.holders.known = true;
    cr_expect(recovery_may_run(&b.recovery, &b.facts), "without an acknowledgement: nothing was "
                                                       "offered yet");
    find(&b, both);
    cr_expect_str_eq(recovery_next(&b.recovery, &b.facts), "GPU-0");
    recovery_done(&b.recovery);
}

Test(recovery, a_card_in_another_jobs_hands_waits)
{
    struct bench b;
    struct busy_card busy[] = {{.uuid = "GPU-0"}};
    auto_id_list struct id_list none = {0};
    bench_init(&b);
    recovery_done(&b.recovery);
    b.recovery = (struct recovery){.due = true};
    find(&b, both);
    b.jobs.busy = busy;
    b.jobs.n_busy = 1;
    end(&b, begin(&b, &none), TXN_ROLLED_BACK);
    cr_expect_null(recovery_next(&b.recovery, &b.facts));
    cr_expect_not(b.recovery.done);
    b.jobs.n_busy = 0;
    cr_expect_str_eq(recovery_next(&b.recovery, &b.facts), "GPU-0");
    recovery_done(&b.recovery);
}

/* --- A list of journals that is older than a failure --- */

static struct jobs *jobs_under_test;
static struct agent_job *reading_that_ended;

/* A job for a card is freed; the reading is kept, with the jobs still knowing it. */
static void job_ended(void *arg)
{
    struct agent_job *j = arg;
    if (j->kind == AGENT_JOB_READ) {
        reading_that_ended = j;
        return;
    }
    jobs_end(jobs_under_test, j);
    agent_job_free(j);
}

static void await_all(struct worker *w)
{
    while (worker_pending(w)) {
        struct pollfd p = {.fd = worker_fd(w), .events = POLLIN};
        (void)poll(&p, 1, -1);
        worker_dispatch(w);
    }
}

static struct agent_job *job_of(enum agent_job_kind kind, const struct agent_job_env *env,
                                const char *uuid)
{
    struct agent_job *j = agent_job_new(kind, env, NULL);
    (void)snprintf(j->uuid, sizeof(j->uuid), "%s", uuid);
    return j;
}

Test(recovery, a_list_that_is_older_than_a_failure_does_not_end_it)
{
    static const struct txn_result failed = {.outcome = TXN_FAILED};
    auto_free char *dir = folder_make();
    const struct agent_job_env env = {.state_dir = dir, .clk = clock_real()};
    struct fake_hw hw = {0};
    const struct cards cards = {0};
    struct bench b;
    bool abandoned;
    bench_init(&b);
    (void)fake_add(&hw, FAKE_H100);
    cr_assert_eq(worker_new(gpu_fake_open(&hw), &(struct worker_options){0}, &b.jobs.worker, NULL),
                 0);
    b.jobs.done = job_ended;
    b.jobs.cards = &cards;
    jobs_under_test = &b.jobs;
    jobs_submit(&b.jobs, job_of(AGENT_JOB_READ, &env, ""));
    await_all(b.jobs.worker);
    jobs_submit(&b.jobs, job_of(AGENT_JOB_CARD, &env, "GPU-7"));
    await_all(b.jobs.worker);
    recovery_note(&b.recovery, "GPU-7", &failed, /* tracked= */ false);
    (void)recovery_told(&b.recovery, &b.facts, TOLD, TOLD_MS);
    recovery_found(&b.recovery, &b.facts, reading_that_ended);
    cr_expect_not_null(unended_find(&b.recovery.unended, "GPU-7"),
                       "its job ran beside the reading");
    cr_expect_null(unended_find(&b.recovery.unended, "GPU-0"), "that list has no journal of it");
    jobs_end(&b.jobs, reading_that_ended);
    agent_job_free(reading_that_ended);
    (void)worker_free(b.jobs.worker, /* grace_ms= */ 1000, &abandoned);
    jobs_done(&b.jobs);
    recovery_done(&b.recovery);
    folder_remove(dir);
}
