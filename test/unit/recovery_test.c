/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

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

Test(recovery, a_later_one_spares_all_cards_but_the_withheld_ones)
{
    struct bench b;
    struct card_view views[2] = {0};
    struct agent_job *j = agent_job_new(AGENT_JOB_READ, NULL, NULL);
    auto_id_list struct id_list withheld = {0};
    bench_init(&b);
    for (unsigned i = 0; i < 2; i++)
        (void)snprintf(views[i].card.uuid, GPU_UUID_BYTES, "GPU-%u", i);
    const struct cards cards = {.items = views, .n = 2};
    j->recover = true;
    recovery_guard(&b.recovery, &b.facts, &cards, j, &withheld);
    cr_expect_eq(j->n_offers, 1);
    cr_expect_str_eq(j->offers[0].uuid, "GPU-1");
    cr_expect_eq(withheld.n, 1);
    cr_expect_str_eq(withheld.items[0], "GPU-0");
    agent_job_free(j);
    recovery_done(&b.recovery);
}
