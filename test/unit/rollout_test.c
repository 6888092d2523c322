/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "cluster_support.h"
#include "service/resources.h"

/* --- The ledger alone --- */

#define EDITION(generation) ((struct rollout_edition){"uid-1", generation})

static const struct rollout_budget one = {.max = 1};
static const struct rollout_budget paused = {.max = 1, .paused = true};

static bool took(struct wq *q, const char *name)
{
    struct object_key k;
    if (!wq_try_get(q, &k))
        return false;
    bool same = strcmp(k.name, name) == 0;
    wq_done(q, &k);
    return same;
}

Test(rollout, a_budget_of_one_lets_one_node_go)
{
    auto_rollout struct rollout *r = rollout_new();
    cr_expect(rollout_ask(r, "p", "n1", &one));
    cr_expect_not(rollout_ask(r, "p", "n2", &one));
    cr_expect(rollout_ask(r, "p", "n1", &one), "who has a ticket keeps it");
    cr_expect(rollout_ask(r, "q", "n2", &one), "another profile has its own");
}

Test(rollout, a_pause_gives_no_ticket_and_takes_none)
{
    auto_rollout struct rollout *r = rollout_new();
    cr_expect_not(rollout_ask(r, "p", "n1", &paused));
    cr_expect(rollout_ask(r, "p", "n1", &one));
    cr_expect(rollout_ask(r, "p", "n1", &paused));
}

Test(rollout, who_waits_longest_is_woken_first)
{
    auto_clock struct clock *clk = clock_fake_new(0);
    auto_wq struct wq *q = wq_new("test", clk);
    auto_rollout struct rollout *r = rollout_new();
    (void)rollout_ask(r, "p", "n1", &one);
    (void)rollout_ask(r, "p", "n3", &one);
    (void)rollout_ask(r, "p", "n2", &one);
    rollout_wake(r, "p", &one, q);
    cr_expect_not(took(q, "n3"), "there is no room");
    rollout_settle(r, "p", "n1");
    rollout_wake(r, "p", &one, q);
    cr_expect(took(q, "n3"));
    cr_expect_not(took(q, "n2"));
}

Test(rollout, a_node_that_goes_gives_its_ticket_back)
{
    auto_rollout struct rollout *r = rollout_new();
    (void)rollout_ask(r, "p", "n1", &one);
    rollout_forget_node(r, "n1", /* keep= */ NULL, /* arg= */ NULL, /* out= */ NULL);
    cr_expect_eq(rollout_tickets(r, "p"), 0);
    cr_expect(rollout_ask(r, "p", "n2", &one));
}

Test(rollout, standings_are_news_once)
{
    auto_rollout struct rollout *r = rollout_new();
    auto_standing struct standing s = {0};
    enum phase was = PHASE_FAILED;
    standing_set(&s, PHASE_FAILED, "RolledBack", "why");
    cr_expect(rollout_note(r, "p", EDITION(1), "n1", &s, &was));
    cr_expect_eq(was, PHASES);
    cr_expect_not(rollout_note(r, "p", EDITION(1), "n1", &s, &was));
    cr_expect(rollout_note(r, "p", EDITION(2), "n1", &s, &was), "of another generation");
    cr_expect_eq(was, PHASE_FAILED);
}

Test(rollout, profile_that_was_made_again_under_its_name_stands_nowhere_yet)
{
    auto_rollout struct rollout *r = rollout_new();
    auto_standing struct standing s = {0};
    enum phase was;
    standing_set(&s, PHASE_UP_TO_DATE, "", "");
    (void)rollout_note(r, "p", EDITION(1), "n1", &s, &was);
    const struct rollout_edition again = {"uid-2", 1};
    auto_rollout_summary struct rollout_summary sum = {0};
    rollout_summary(r, "p", again, &sum);
    cr_expect_eq(sum.noted, 0, "what is known is of the one before");
    cr_expect(rollout_note(r, "p", again, "n1", &s, &was), "that is news, as alike as it is");
}

Test(rollout, nodes_where_a_name_was_rounded_are_counted_and_the_first_is_named)
{
    auto_rollout struct rollout *r = rollout_new();
    auto_standing struct standing s = {0};
    enum phase was;
    standing_set(&s, PHASE_UP_TO_DATE, NULL, NULL);
    (void)rollout_note(r, "p", EDITION(1), "n1", &s, &was);
    standing_set(&s, PHASE_UP_TO_DATE, RESOLVE_ROUNDED, "1g.11gb is rounded");
    (void)rollout_note(r, "p", EDITION(1), "n3", &s, &was);
    (void)rollout_note(r, "p", EDITION(1), "n2", &s, &was);
    auto_rollout_summary struct rollout_summary sum = {0};
    rollout_summary(r, "p", EDITION(1), &sum);
    cr_expect_eq(sum.count[PHASE_UP_TO_DATE], 3);
    cr_expect_eq(sum.rounded, 2);
    cr_expect_str_eq(sum.first_rounded.node, "n2");
    cr_expect_str_eq(sum.first_rounded.message, "1g.11gb is rounded");
}

/* A profile is not as wanted while its cards are more, or fewer, than those that were judged. */
Test(rollout, cards_that_were_judged_are_counted)
{
    auto_rollout struct rollout *r = rollout_new();
    auto_standing struct standing s = {.n_cards = 2};
    enum phase was;
    standing_set(&s, PHASE_UP_TO_DATE, "", "");
    (void)rollout_note(r, "p", EDITION(1), "n1", &s, &was);
    s.n_cards = 8;
    cr_expect(rollout_note(r, "p", EDITION(1), "n1", &s, &was), "other cards are news");
    (void)rollout_note(r, "p", EDITION(1), "n2", &s, &was);
    auto_rollout_summary struct rollout_summary sum = {0};
    rollout_summary(r, "p", EDITION(1), &sum);
    cr_expect_eq(sum.n_cards, 16);
}

Test(rollout, the_sample_of_failures_is_the_first_sixteen_by_name)
{
    auto_rollout struct rollout *r = rollout_new();
    auto_standing struct standing s = {0};
    enum phase was;
    standing_set(&s, PHASE_FAILED, "RolledBack", "why");
    for (int i = 39; i >= 0; i--) {
        auto_free char *node = xasprintf("n%02d", i);
        (void)rollout_note(r, "p", EDITION(1), node, &s, &was);
    }
    auto_rollout_summary struct rollout_summary sum = {0};
    rollout_summary(r, "p", EDITION(1), &sum);
    cr_assert_eq(sum.count[PHASE_FAILED], 40);
    cr_assert_eq(sum.n_failures, 16);
    cr_expect_str_eq(sum.failures[0].node, "n00");
    cr_expect_str_eq(sum.failures[15].node, "n15");
}

Test(rollout, writes_are_spaced)
{
    auto_rollout struct rollout *r = rollout_new();
    cr_expect_eq(rollout_pace(r, "p", 0, 1000), 0);
    cr_expect_eq(rollout_pace(r, "p", 400, 1000), 600);
    cr_expect_eq(rollout_pace(r, "p", 1000, 1000), 0);
}

/* --- On three nodes --- */

static struct cluster c;

static void three_nodes(const char *rollout)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_add_node(&c, "n2", 1);
    cluster_add_node(&c, "n3", 1);
    auto_free char *yaml = xasprintf("apiVersion: gpu.cleave.dev/v1alpha1\n"
                                     "kind: GPUProfile\n"
                                     "metadata: {name: p}\n"
                                     "spec:\n"
                                     "  nodeSelector: {matchLabels: {pool: a}}\n"
                                     "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 2}}}]\n%s",
                                     rollout);
    cluster_apply(&c, yaml);
    cluster_settle(&c);
}

static const char *node_in_change(void)
{
    static const char *const nodes[] = {"n1", "n2", "n3"};
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        auto_json json_t *d = cluster_get(&c, &resource_devices, nodes[i]);
        if (json_integer_value(JX_AT(d, "metadata", "generation")) !=
            json_integer_value(JX_AT(d, "status", "observedGeneration")))
            return nodes[i];
    }
    return NULL;
}

static void expect_profile(const char *expected)
{
    auto_free char *text = cluster_profile(&c, "p");
    cr_assert_str_eq(text, expected);
}

Test(rollout, one_node_after_the_other)
{
    three_nodes("");
    for (int done = 0; done < 3; done++) {
        cr_assert_eq(cluster_nodes_in_change(&c), 1);
        cluster_agent(&c, node_in_change());
        cluster_settle(&c);
    }
    cr_assert_eq(cluster_nodes_in_change(&c), 0);
    expect_profile("3/3/0/0 True Applied");
    cr_assert(cluster_has_event(&c, "p", "RolloutFinished"));
    cluster_stop(&c);
}

Test(rollout, a_percentage_is_rounded_up)
{
    three_nodes("  rollout: {maxUnavailable: 50%}\n");
    cr_assert_eq(cluster_nodes_in_change(&c), 2);
    cluster_stop(&c);
}

Test(rollout, a_node_that_failed_stops_the_others)
{
    three_nodes("");
    cluster_agent_fails(&c, node_in_change(), "RolledBack");
    cluster_settle(&c);
    cr_expect_eq(cluster_nodes_in_change(&c), 0);
    expect_profile("3/0/2/1 False RolledBack");
    auto_free char *stalled = cluster_condition(&c, &resource_gpuprofiles, "p", "Stalled");
    cr_expect_str_eq(stalled, "True RolledBack");
    cr_assert(cluster_has_event(&c, "p", "NodeFailed"));
    cluster_stop(&c);
}

/* What the cards cannot be is a text of the node's; the profile has it in its conditions. */
Test(rollout, why_a_node_refuses_the_spec_is_told_by_one_event)
{
    cluster_start(&c, /* plan= */ NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c); /* what a controller finds at its start is no news */
    cluster_apply(&c, "apiVersion: gpu.cleave.dev/v1alpha1\n"
                      "kind: GPUProfile\n"
                      "metadata: {name: p}\n"
                      "spec:\n"
                      "  nodeSelector: {matchLabels: {pool: a}}\n"
                      "  devices: [{mode: mig, mig: {profiles: {3g.40gb: 3}}}]\n");
    cluster_settle(&c);
    cr_expect_eq(cluster_count_events(&c, "p", "NodeFailed", "nearest layout"), 1);
    cr_expect_eq(cluster_count_events(&c, "p", "Infeasible", "nearest layout"), 0);
    cr_expect_eq(cluster_count_events(&c, "p", "Infeasible", "1 of 1 nodes failed"), 1);
    cluster_stop(&c);
}

Test(rollout, a_failed_node_keeps_its_ticket_in_the_next_process)
{
    three_nodes("");
    cluster_agent_fails(&c, node_in_change(), "RolledBack");
    cluster_settle(&c);
    cluster_restart(&c);
    cluster_settle(&c);
    cr_expect_eq(cluster_nodes_in_change(&c), 0);
    expect_profile("3/0/2/1 False RolledBack");
    cluster_stop(&c);
}

Test(rollout, a_node_that_failed_gets_the_mended_profile_first)
{
    three_nodes("");
    const char *failed = node_in_change();
    cluster_agent_fails(&c, failed, "RolledBack");
    cluster_settle(&c);
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL,
                  "{spec: {devices: [{mode: mig, mig: {profiles: {7g.80gb: 1}}}]}}");
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 1);
    cr_assert_str_eq(node_in_change(), failed);
    cluster_stop(&c);
}

Test(rollout, a_new_process_remembers_who_is_in_change)
{
    three_nodes("");
    cluster_restart(&c);
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 1);
    cluster_stop(&c);
}

Test(rollout, a_paused_profile_starts_nothing_and_goes_on_later)
{
    three_nodes("  paused: true\n");
    cr_assert_eq(cluster_nodes_in_change(&c), 0);
    expect_profile("3/0/3/0 False Paused");
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{spec: {paused: false}}");
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 1);
    cluster_stop(&c);
}

Test(rollout, a_pause_in_the_middle_finishes_what_has_begun)
{
    three_nodes("");
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{spec: {paused: true}}");
    cluster_settle(&c);
    cluster_agent(&c, node_in_change());
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 0);
    expect_profile("3/1/2/0 False Paused");
    cluster_stop(&c);
}

Test(rollout, a_label_needs_no_ticket)
{
    three_nodes("");
    cluster_label(&c, "n1", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_label(&c, "n2", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_label(&c, "n3", "nvidia.com/mig.config", "all-1g.10gb");
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 3);
    cluster_stop(&c);
}

Test(rollout, a_node_that_leaves_in_the_middle_lets_the_next_go)
{
    three_nodes("");
    cluster_label(&c, node_in_change(), "pool", NULL);
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 2, "the one that left is told to leave its cards");
    auto_json json_t *p = cluster_get(&c, &resource_gpuprofiles, "p");
    cr_assert_eq(json_integer_value(JX_AT(p, "status", "nodes", "matched")), 2);
    cluster_stop(&c);
}

Test(rollout, a_larger_budget_takes_effect_at_once)
{
    three_nodes("");
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{spec: {rollout: {maxUnavailable: 3}}}");
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 3);
    cluster_stop(&c);
}

Test(rollout, cards_that_show_what_is_wanted_need_no_ticket)
{
    three_nodes("");
    for (int i = 0; i < 3; i++) {
        cluster_agent(&c, node_in_change());
        cluster_settle(&c);
    }
    cluster_patch(&c, &resource_gpuprofiles, "p", NULL, "{spec: {rollout: {timeoutSeconds: 60}}}");
    cluster_settle(&c);
    cr_assert_eq(cluster_nodes_in_change(&c), 3);
    cluster_stop(&c);
}
