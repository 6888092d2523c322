/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "service/conditions.h"

static struct conditions l;

static void teardown(void)
{
    conditions_done(&l);
}

TestSuite(conditions, .fini = teardown);

static bool set(enum condition_status status, const char *reason, int64_t generation,
                int64_t now_ms)
{
    return condition_set(&l, "Ready", status, reason, "because", generation, now_ms);
}

Test(conditions, setting_the_same_again_changes_nothing)
{
    cr_assert(set(CONDITION_TRUE, "AllGood", 3, 5000));
    cr_assert_not(set(CONDITION_TRUE, "AllGood", 3, 99000));
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 5000);
}

Test(conditions, the_transition_time_moves_only_with_the_status)
{
    (void)set(CONDITION_TRUE, "AllGood", 3, 5000);
    cr_assert(set(CONDITION_TRUE, "StillGood", 4, 6000));
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 5000);
    cr_assert(set(CONDITION_FALSE, "Bad", 4, 7000));
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 7000);
    cr_assert(set(CONDITION_UNKNOWN, "Lost", 4, 8000));
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 8000);
}

Test(conditions, times_are_kept_in_whole_seconds_as_the_api_does)
{
    (void)set(CONDITION_TRUE, "AllGood", 1, 5999);
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 5000);
}

Test(conditions, the_generation_is_always_renewed)
{
    (void)set(CONDITION_TRUE, "AllGood", 3, 5000);
    cr_assert(set(CONDITION_TRUE, "AllGood", 4, 6000));
    cr_assert_eq(condition_get(&l, "Ready")->observed_generation, 4);
}

static void assert_kstatus(const char *ready, bool reconciling, bool stalled)
{
    static const char *const names[] = {"False", "True", "Unknown"};
    cr_assert_str_eq(names[condition_get(&l, "Ready")->status], ready);
    cr_assert_eq(condition_get(&l, "Reconciling") != NULL, reconciling);
    cr_assert_eq(condition_get(&l, "Stalled") != NULL, stalled);
}

Test(conditions, kstatus_shows_exactly_one_state)
{
    (void)conditions_set_kstatus(&l, KSTATUS_IN_PROGRESS, "Draining", "2 pods", 1, 1000);
    assert_kstatus("False", true, false);
    (void)conditions_set_kstatus(&l, KSTATUS_STALLED, "Infeasible", "no room", 1, 2000);
    assert_kstatus("False", false, true);
    cr_assert_eq(condition_get(&l, "Ready")->last_transition_ms, 1000);
    cr_assert(conditions_set_kstatus(&l, KSTATUS_CURRENT, "Applied", "", 1, 3000));
    assert_kstatus("True", false, false);
    cr_assert_not(conditions_set_kstatus(&l, KSTATUS_CURRENT, "Applied", "", 1, 4000));
}

Test(conditions, survive_the_way_through_the_api)
{
    (void)set(CONDITION_FALSE, "InUse", 0, 5000);
    (void)condition_set(&l, "Stalled", CONDITION_TRUE, "Infeasible", "", 7, 6000);
    auto_json json_t *array = conditions_to_json(&l);
    auto_conditions struct conditions back = {0};
    conditions_from_json(array, &back);
    cr_assert(conditions_equal(&l, &back));
    auto_free char *text = json_dumps(array, JSON_SORT_KEYS | JSON_COMPACT);
    cr_assert_str_eq(text,
                     "[{\"lastTransitionTime\":\"1970-01-01T00:00:05Z\",\"message\":\"because\","
                     "\"observedGeneration\":0,\"reason\":\"InUse\",\"status\":\"False\","
                     "\"type\":\"Ready\"},"
                     "{\"lastTransitionTime\":\"1970-01-01T00:00:06Z\",\"message\":\"\","
                     "\"observedGeneration\":7,\"reason\":\"Infeasible\",\"status\":\"True\","
                     "\"type\":\"Stalled\"}]");
}

Test(conditions, what_was_written_by_hand_and_is_none_is_left_out)
{
    auto_json json_t *array =
        json_loads("[1, null, {}, {\"type\": 5}, {\"type\":\"Ready\",\"status\":\"Maybe\"},"
                   "{\"type\":\"Ok\",\"status\":\"True\",\"reason\":\"R\",\"message\":\"\","
                   "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]",
                   0, NULL);
    conditions_from_json(array, &l);
    cr_assert_eq(l.count, 1);
    cr_assert(condition_is_true(&l, "Ok"));
    conditions_done(&l);
    conditions_from_json(NULL, &l);
    cr_assert_eq(l.count, 0);
}

Test(conditions, a_copy_stands_on_its_own)
{
    (void)set(CONDITION_TRUE, "AllGood", 1, 1000);
    auto_conditions struct conditions copy = {0};
    conditions_copy(&copy, &l);
    cr_assert(conditions_equal(&copy, &l));
    (void)set(CONDITION_FALSE, "Bad", 1, 2000);
    cr_assert_not(conditions_equal(&copy, &l));
    cr_assert(condition_is_true(&copy, "Ready"));
}

Test(conditions, a_reason_is_a_word_that_the_api_server_takes)
{
    static const char *const words[] = {"A", "NotReady", "a1", "A,b:c_"};
    static const char *const others[] = {"", "1A", "no-such", "A.b", "A b", "A:", "A,", "ü"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        cr_expect(condition_is_reason(words[i]), "%s", words[i]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect_not(condition_is_reason(others[i]), "%s", others[i]);
}
