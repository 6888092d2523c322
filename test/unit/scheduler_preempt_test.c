/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "scheduler/choice.h"
#include "scheduler/preempt.h"
#include "scheduler_support.h"

TestSuite(scheduler_preempt, .init = town_set_up, .fini = town_tear_down);

/* A pod with a share, bound to node a; its uid. */
static const char *runs(const char *name, unsigned mib, int priority)
{
    static const char *const names[] = {"a"};
    static char uids[4][64];
    static unsigned n;
    auto_err struct err e = {0};
    auto_free char *spec =
        xasprintf("\"priority\": %d, " LIMITS(
                      "\"nvidia.com/gpu\": \"1\", \"nvidia.com/gpumem\": \"%u\""),
                  priority, mib);
    auto_json json_t *pod = town_create(name, "", spec);
    auto_pod_ask struct pod_ask ask = {0};
    auto_choice struct choice c = {0};
    cr_assert_eq(pod_ask_of(pod, &ask, &e), 0, "%s", err_msg(&e));
    choice_make(town_view, &ask, names, 1, &c);
    cr_assert_eq(c.n_kept, 1);
    town_bind(pod, "a");
    town_see();
    char *uid = uids[n++ % ARRAY_LEN(uids)];
    (void)snprintf(uid, sizeof(uids[0]), "%s", ask.uid);
    return uid;
}

/* Asks for a pod of priority 10 with a share of 60000 MiB, where kube-scheduler names this victim, or
 * (NULL) none; expects this one, or (NULL) that the node is no place. */
static void check(const char *given, const char *expected)
{
    auto_err struct err e = {0};
    auto_json json_t *pod = town_pod("urgent", "", "\"priority\": 10, " PART(60000));
    auto_free char *pod_text = json_dumps(pod, 0);
    auto_free char *victim = given ? xasprintf("{\"UID\": \"%s\"}", given) : xstrdup("");
    auto_free char *body = xasprintf(
        "{\"Pod\": %s, \"NodeNameToVictims\": null, \"NodeNameToMetaVictims\": {\"a\": {\"Pods\": "
        "[%s], \"NumPDBViolations\": 0}}}",
        pod_text, victim);
    auto_free char *want =
        expected
            ? xasprintf("{\"a\":{\"Pods\":[{\"UID\":\"%s\"}],\"NumPDBViolations\":0}}", expected)
            : xstrdup("{}");
    auto_json json_t *answer = NULL;
    cr_assert_eq(preempt_answer(town_view, body, strlen(body), &answer, &e), 0, "%s", err_msg(&e));
    auto_free char *text =
        json_dumps(json_object_get(answer, "NodeNameToMetaVictims"), JSON_COMPACT);
    cr_expect_str_eq(text, want);
}

Test(scheduler_preempt, victims_that_suffice_are_kept)
{
    town_node("a", 1, 0, "");
    town_see();
    const char *low = runs("low", 50000, 1);
    check(low, low);
}

Test(scheduler_preempt, where_the_sum_suffices_and_no_card_has_the_room_more_must_go)
{
    town_node("a", 2, 0, "");
    town_see();
    const char *one = runs("one", 50000, 1);
    (void)runs("other", 40000, 2); /* on the other card */
    check(NULL, one);
}

Test(scheduler_preempt, only_those_go_that_are_needed)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)runs("small", 10000, 1);
    const char *large = runs("large", 50000, 2);
    check(NULL, large);
}

Test(scheduler_preempt, nobody_goes_for_a_pod_that_its_quota_forbids)
{
    town_node("a", 1, 0, "");
    town_see();
    const char *low = runs("low", 50000, 1);
    town_quota("team", "\"limits.nvidia.com/gpumem\": \"100000\"");
    town_see();
    check(low, NULL);
}

Test(scheduler_preempt, nobody_goes_while_a_share_that_suffices_is_being_released)
{
    town_node("a", 1, 0, "");
    town_node(
        "b", 1, 0,
        ", \"partitions\": [{\"uuid\": \"b-0/share.0\", \"profile\": \"share\", \"slice\": {\"id\": "
        "0, \"memoryMiB\": 50000, \"computePercent\": 0}, \"inUse\": true, \"inUseBy\": "
        "[{\"namespace\": \"ns\", \"name\": \"evicted\"}]}]");
    town_see();
    const char *low = runs("low", 50000, 1);
    check(low, NULL);
    json_decref(town_create("evicted", "", PART(50000)));
    town_see();
    check(low, low);
}

Test(scheduler_preempt, what_an_earlier_victim_has_not_released_yet_counts_as_gone)
{
    /* One of two victims on a card has gone, and kube-scheduler asks about the other once more. */
    town_node(
        "a", 2, 0,
        ", \"partitions\": [{\"uuid\": \"a-0/share.0\", \"profile\": \"share\", \"slice\": {\"id\": "
        "0, \"memoryMiB\": 30000, \"computePercent\": 0}, \"inUse\": true, \"inUseBy\": "
        "[{\"namespace\": \"ns\", \"name\": \"evicted\"}]}]");
    json_decref(town_create("evicted", "", PART(30000)));
    town_see();
    (void)runs("other", 70000, 2); /* on the second card: the first has no room for it */
    const char *next = runs("next", 40000, 1);
    town_delete("evicted");
    town_see();
    check(next, next);
}

Test(scheduler_preempt, victims_that_are_added_come_first_the_highest_priority_first)
{
    town_node("a", 1, 0, "");
    town_see();
    const char *given = runs("given", 10000, 1);
    const char *low = runs("low", 25000, 2);
    const char *high = runs("high", 30000, 3);
    auto_err struct err e = {0};
    auto_json json_t *pod = town_pod("urgent", "", "\"priority\": 10, " PART(70000));
    auto_pod_ask struct pod_ask ask = {0};
    struct preempt_node n = {.node = "a"};
    *XPUSH(n.uids, n.n) = given;
    cr_assert_eq(pod_ask_of(pod, &ask, &e), 0, "%s", err_msg(&e));
    view_begin(town_view, ask.uid);
    preempt_complete(town_view, &ask, 10, clock_mono_ms(clock_real()), &n);
    cr_assert_eq(n.n, 3);
    cr_expect_str_eq(n.uids[0], high);
    cr_expect_str_eq(n.uids[1], low);
    cr_expect_str_eq(n.uids[2], given);
    view_end(town_view);
    free(n.uids);
}

Test(scheduler_preempt, a_question_whose_time_is_over_names_nobody_more)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)runs("low", 50000, 1);
    auto_err struct err e = {0};
    auto_json json_t *pod = town_pod("urgent", "", "\"priority\": 10, " PART(60000));
    auto_pod_ask struct pod_ask ask = {0};
    struct preempt_node n = {.node = "a"};
    cr_assert_eq(pod_ask_of(pod, &ask, &e), 0, "%s", err_msg(&e));
    view_begin(town_view, ask.uid);
    preempt_complete(town_view, &ask, 10, clock_mono_ms(clock_real()) - CHOICE_MS, &n);
    view_end(town_view);
    cr_expect(n.hopeless);
    cr_expect_eq(n.n, 0);
}

Test(scheduler_preempt, nobody_of_the_same_priority_goes)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)runs("equal", 50000, 10);
    check(NULL, NULL);
}

Test(scheduler_preempt, a_node_without_such_cards_is_no_place)
{
    town_see();
    check(NULL, NULL);
}

Test(scheduler_preempt, what_is_no_question_is_said)
{
    auto_err struct err e = {0};
    json_t *answer = NULL;
    cr_expect_eq(preempt_answer(town_view, "{}", 2, &answer, &e), -ERR_PROTOCOL);
    static const char full[] = "{\"Pod\": {}, \"NodeNameToVictims\": {}}";
    cr_expect_eq(preempt_answer(town_view, full, sizeof(full) - 1, &answer, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "nodeCacheCapable"), "%s", err_msg(&e));
}
