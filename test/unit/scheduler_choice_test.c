/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/allocation.h"
#include "interop/gpushare.h"
#include "scheduler/choice.h"
#include "scheduler/expiry.h"
#include "scheduler_support.h"

/* What is chosen, on a model of an API server whose Devices and pods the view follows. */

static struct choice choice; /* the last one */

static void tear_down(void)
{
    choice_done(&choice);
    town_tear_down();
}

TestSuite(scheduler_choice, .init = town_set_up, .fini = tear_down);

static const char *kept(void)
{
    static char text[200];
    text[0] = '\0';
    for (size_t i = 0; i < choice.n_kept; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
                       choice.kept[i]);
    return text;
}

/* Chooses for a pod; the result is kept(). */
static const char *choose(json_t *take, const char *const *names)
{
    auto_err struct err e = {0};
    auto_json json_t *p = take;
    auto_pod_ask struct pod_ask ask = {0};
    size_t n = 0;
    while (names[n])
        n++;
    cr_assert_eq(pod_ask_of(p, &ask, &e), 0, "%s", err_msg(&e));
    choice_done(&choice);
    choice_make(town_view, &ask, names, n, &choice);
    return kept();
}
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The uuid of the card that was assumed for the pod on the node; "" where nothing was. */
static const char *assumed(const char *uid, const char *on)
{
    static char uuid[64];
    auto_json json_t *annotations = town_assumed(uid, on);
    uuid[0] = '\0';
    if (!annotations)
        return uuid;
    AUTO(allocation) struct allocation a = {0};
    const char *record = json_string_value(json_object_get(annotations, ALLOCATION_ANNOTATION));
    cr_assert_eq(allocation_parse(record, &a, NULL), 0, "%s", record);
    (void)snprintf(uuid, sizeof(uuid), "%s", a.containers[0].shares[0].uuid);
    return uuid;
}

/* --- Nodes --- */

Test(scheduler_choice, a_pod_without_cards_may_go_anywhere)
{
    town_node("a", 1, 0, "");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", LIMITS("")), NAMES("a", "b")), "a b");
}

Test(scheduler_choice, one_node_is_kept_the_fullest_or_where_the_pod_says_so_the_emptiest)
{
    town_node("a", 2, 0, "");
    town_node("b", 2, 0, "");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", PART(3000)), NAMES("a", "b")), "a");
    cr_expect_str_eq(choose(town_pod("q", "", PART(3000)), NAMES("b", "a")), "a");
    cr_expect_str_eq(choose(town_pod("r", "\"hami.io/node-scheduler-policy\": \"spread\"",
                                     PART(3000)),
                            NAMES("a", "b")),
                     "b");
}

Test(scheduler_choice, whole_cards_come_from_nodes_without_shares_first)
{
    town_node("a", 2, 0, "");
    town_node("b", 0, 2, "");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", WHOLE(1)), NAMES("a", "b", "c")), "b c",
                     "kube-scheduler counts those");
    cr_expect_str_eq(choose(town_pod("p", "", WHOLE(1)), NAMES("a")), "a");
    cr_expect_str_eq(choose(town_pod("q", "", PART(3000)), NAMES("b")), "");
    cr_expect_str_eq(choice.refused[0].why, "no card of the node is given out in shares");
    cr_expect(choice.refused[0].never);
}

/* Of a node without shares the kubelet chooses the cards, and reads no annotation. */
Test(scheduler_choice, a_pod_that_says_which_whole_cards_gets_them_where_cards_give_shares)
{
    static const char *const says[] = {"\"nvidia.com/nouse-gputype\": \"V100\"",
                                       "\"nvidia.com/use-gpuuuid\": \"a-0,b-0\"",
                                       "\"nvidia.com/nouse-gpuuuid\": \"b-0\"",
                                       "\"nvidia.com/numa-bind\": \"true\""};
    town_node("a", 2, 0, "");
    town_node("b", 0, 2, "");
    town_see();
    for (size_t i = 0; i < ARRAY_LEN(says); i++) {
        cr_expect_str_eq(choose(town_pod("p", says[i], WHOLE(1)), NAMES("a", "b")), "a", "%s",
                         says[i]);
        cr_expect(choice.n_refused && strstr(choice.refused[0].why, "the pod's annotations say"));
    }
    cr_expect_str_eq(choose(town_pod("q", "\"nvidia.com/use-gputype\": \"H100\"", WHOLE(1)),
                            NAMES("b")),
                     "");
}

Test(scheduler_choice, cards_that_nobody_shares_are_given_out_as_a_whole_and_first)
{
    town_node("a", 1, 1, "");
    town_see();
    (void)choose(town_pod("p", "", WHOLE(1)), NAMES("a"));
    cr_expect_str_eq(assumed("uid-p", "a"), "a-1");
    (void)choose(town_pod("q", "", PART(3000)), NAMES("a"));
    cr_expect_str_eq(assumed("uid-q", "a"), "a-0");
}

Test(scheduler_choice, the_best_connected_cards_are_taken_where_the_pod_says_so)
{
    town_node("a", 3, 0, ", \"linkedWith\": [2]");
    town_see();
    (void)choose(town_pod("p", "\"hami.io/gpu-scheduler-policy\": \"topology-aware\"",
                          LIMITS("\"nvidia.com/gpu\": \"2\", \"nvidia.com/gpumem\": \"3000\"")),
                 NAMES("a"));
    auto_json json_t *annotations = town_assumed("uid-p", "a");
    const char *hami = json_string_value(json_object_get(annotations, HAMI_ALLOCATED));
    cr_expect_str_eq(hami, "a-0,NVIDIA,3000,0:a-2,NVIDIA,3000,0:;");
}

Test(scheduler_choice, gpushares_tool_is_told_the_card_of_containers_that_ask_in_its_words)
{
    town_node("a", 2, 0, "");
    town_see();
    (void)choose(town_pod("o", "", PART(3000)), NAMES("a"));
    auto_json json_t *others = town_assumed("uid-o", "a");
    cr_expect_null(json_object_get(others, GPUSHARE_ALLOCATION));
    (void)choose(town_pod("p", "\"nvidia.com/use-gpuuuid\": \"a-1\"",
                          LIMITS("\"aliyun.com/gpu-mem\": \"2\", \"nvidia.com/gpu\": \"1\", "
                                 "\"nvidia.com/gpumem\": \"2048\"")),
                 NAMES("a"));
    auto_json json_t *annotations = town_assumed("uid-p", "a");
    const char *told = json_string_value(json_object_get(annotations, GPUSHARE_ALLOCATION));
    cr_assert_not_null(told);
    cr_expect_str_eq(told, "{\"0\":{\"1\":2}}");
}

/* --- Room --- */

Test(scheduler_choice, what_was_assumed_is_taken_until_it_is_too_long_ago)
{
    town_node("a", 1, 0, "");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", PART(50000)), NAMES("a")), "a");
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "");
    cr_expect_str_eq(choice.refused[0].why,
                     "container main needs 40000 MiB on one card; the best of 1 has 31559 MiB");
    cr_expect_not(choice.refused[0].never);
    cr_expect_str_eq(choose(town_pod("p", "", PART(60000)), NAMES("a")), "a",
                     "a pod does not compete with itself");
    clock_fake_advance(town_clk, VIEW_ASSUMED_MS);
    cr_expect_str_eq(assumed("uid-p", "a"), "");
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "a");
}

Test(scheduler_choice, a_binding_that_was_written_holds_until_it_is_seen)
{
    town_node("a", 1, 0, "");
    town_see();
    auto_json json_t *p = town_create("p", "", PART(50000));
    (void)choose(json_incref(p), NAMES("a"));
    town_bind(p, "a");
    clock_fake_advance(town_clk, VIEW_ASSUMED_MS);
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "", "not seen yet");
    town_see();
    clock_fake_advance(town_clk, VIEW_BOUND_MS);
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "", "seen");
    town_delete("p");
    sb_reset(&town_grown);
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "a");
    cr_expect_str_eq(sb_str(&town_grown), "a ");
}

Test(scheduler_choice, a_pod_that_was_not_bound_gives_its_room_back)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", PART(50000)), NAMES("a"));
    sb_reset(&town_grown);
    view_begin(town_view, NULL);
    view_forget(town_view, "uid-p", NULL);
    view_end(town_view);
    cr_expect_str_eq(sb_str(&town_grown), "a ");
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "a");
}

Test(scheduler_choice, shares_of_pods_without_a_record_are_those_that_the_agent_tells)
{
    town_node(
        "a", 1, 0,
        ", \"partitions\": [{\"uuid\": \"a-0/share.0\", \"profile\": \"share\", \"slice\": {\"id\": 0, "
        "\"memoryMiB\": 50000, \"computePercent\": 0}, \"inUse\": true, \"inUseBy\": [{\"namespace\": "
        "\"ns\", \"name\": \"old\"}]}]");
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "");
    cr_expect_str_eq(choose(town_pod("q", "", PART(30000)), NAMES("a")), "a");
}

#define TOLD(pod)                                                                                    \
    ", \"partitions\": [{\"uuid\": \"a-0/share.0\", \"profile\": \"share\", \"slice\": {\"id\": 0, " \
    "\"memoryMiB\": 50000, \"computePercent\": 0}, \"inUse\": true, \"inUseBy\": [{\"namespace\": "  \
    "\"ns\", \"name\": \"" pod "\"}]}]"

Test(scheduler_choice, the_share_of_an_earlier_pod_of_the_same_name_counts_until_it_is_released)
{
    town_node("a", 2, 0, TOLD("p"));
    town_see();
    auto_json json_t *p = town_create("p", "", PART(60000));
    cr_expect_str_eq(choose(json_incref(p), NAMES("a")), "a");
    town_bind(p, "a");
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(40000)), NAMES("a")), "",
                     "p has one card by its record, and its predecessor the other");
    cr_expect_str_eq(choose(town_pod("q", "", PART(30000)), NAMES("a")), "a");
}

Test(scheduler_choice, an_assumption_ends_by_itself_and_that_is_room)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", PART(50000)), NAMES("a"));
    sb_reset(&town_grown);
    cr_expect_eq(view_expire(town_view, "uid-p"), VIEW_ASSUMED_MS);
    clock_fake_advance(town_clk, VIEW_ASSUMED_MS);
    cr_expect_eq(view_expire(town_view, "uid-p"), 0);
    cr_expect_str_eq(sb_str(&town_grown), "a ");
    cr_expect_eq(view_expire(town_view, "uid-p"), 0, "there is none any more");
}

Test(scheduler_choice, who_waits_for_the_end_of_an_assumption_makes_it_room)
{
    auto_expiry struct expiry *x = expiry_new(town_view, town_clk);
    struct controller *workers = expiry_workers(x);
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", PART(50000)), NAMES("a"));
    sb_reset(&town_grown);
    clock_fake_advance(town_clk, VIEW_ASSUMED_MS - 1);
    cr_expect_not(controller_step(workers, town_scope));
    clock_fake_advance(town_clk, 1);
    cr_expect(controller_step(workers, town_scope));
    cr_expect_str_eq(sb_str(&town_grown), "a ");
    (void)controller_free(workers);
}

Test(scheduler_choice, a_pod_of_whole_cards_that_may_go_elsewhere_now_keeps_no_card)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", WHOLE(1)), NAMES("a"));
    cr_expect_str_eq(choose(town_pod("p", "", WHOLE(1)), NAMES("a", "plain")), "plain");
    cr_expect_str_eq(assumed("uid-p", "a"), "");
}

Test(scheduler_choice, a_pod_that_is_refused_now_keeps_nothing_from_before)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", PART(50000)), NAMES("a"));
    cr_expect_str_eq(choose(town_pod("p", "", PART(50000)), NAMES("b")), "");
    cr_expect_str_eq(assumed("uid-p", "a"), "");
}

Test(scheduler_choice, a_card_that_a_pod_holds_as_a_whole_is_full)
{
    town_node("a", 1, 0,
              ", \"inUse\": true, \"inUseBy\": [{\"namespace\": \"ns\", \"name\": \"old\"}]");
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(1000)), NAMES("a")), "");
}

Test(scheduler_choice, a_sick_card_and_one_that_is_to_change_get_no_shares)
{
    town_node("a", 1, 0, ", \"pendingMode\": \"mig\"");
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(1000)), NAMES("a")), "");
}

/* --- Quotas --- */

#define MIB_AND_PERCENT(mib, percent)                                                              \
    LIMITS("\"nvidia.com/gpu\": \"2\", \"nvidia.com/gpumem\": \"" #mib                             \
           "\", \"nvidia.com/gpucores\": \"" #percent "\"")

Test(scheduler_choice, a_card_that_its_node_cordons_gets_no_shares_until_it_is_free_again)
{
    town_node("a", 2, 0, "");
    town_say("a", "\"hami.io/device-cordon\": \"b-0,a-0\"");
    town_see();
    (void)choose(town_pod("p", "", WHOLE(1)), NAMES("a"));
    cr_expect_str_eq(assumed("uid-p", "a"), "a-1");
    cr_expect_str_eq(choose(town_pod("q", "", PART(1000)), NAMES("a")), "");
    cr_expect(strstr(choice.refused[0].why, "1 of 2 is cordoned"), "%s", choice.refused[0].why);
    sb_reset(&town_grown);
    town_say("a", "\"hami.io/device-cordon\": null");
    town_see();
    cr_expect_str_eq(choose(town_pod("q", "", PART(1000)), NAMES("a")), "a");
    cr_expect_str_eq(sb_str(&town_grown), "a ");
}

Test(scheduler_choice, a_cordon_too_long_to_be_read_for_each_pod_is_one_of_all_cards)
{
    auto_free char *long_list = xasprintf("\"hami.io/device-cordon\": \"%4097d\"", 0);
    town_node("a", 2, 0, "");
    town_say("a", long_list);
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", PART(1000)), NAMES("a")), "");
    cr_expect(strstr(choice.refused[0].why, "cordoned"), "%s", choice.refused[0].why);
}

Test(scheduler_choice, a_node_whose_cards_are_hamis_is_left_to_it)
{
    town_node("a", 2, 0, "");
    town_say("a", "\"hami.io/node-nvidia-register\": \"[]\"");
    town_say("b", "\"hami.io/node-nvidia-register\": \"[]\"");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", PART(1000)), NAMES("a")), "");
    cr_expect(strstr(choice.refused[0].why, "HAMi's device plugin serves the node"));
    cr_expect_str_eq(choose(town_pod("q", "", WHOLE(1)), NAMES("a", "b", "c")), "c");
    sb_reset(&town_grown);
    town_say("a", "\"hami.io/node-nvidia-register\": null");
    town_say("b", "\"hami.io/node-nvidia-register\": null");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", PART(1000)), NAMES("a")), "a");
    cr_expect(strstr(sb_str(&town_grown), "a ") && strstr(sb_str(&town_grown), "b ") &&
                  town_grown.len == strlen("a b "),
              "each once, in whatever order: %s", sb_str(&town_grown));
}

Test(scheduler_choice, a_quota_bounds_the_shares_of_a_namespace_each_counted)
{
    town_node("a", 2, 0, "");
    town_quota("team", "\"limits.nvidia.com/gpumem\": \"10000\", \"limits.nvidia.com/gpucores\": "
                       "\"100\"");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", MIB_AND_PERCENT(3000, 10)), NAMES("a")), "a");
    cr_expect_str_eq(choose(town_pod("q", "", MIB_AND_PERCENT(3000, 10)), NAMES("a")), "");
    cr_expect_str_eq(choice.refused[0].why,
                     "quota team of namespace ns: there would be 12000 of 10000 "
                     "limits.nvidia.com/gpumem: end pods of the namespace, or raise it");
    cr_expect_not(choice.refused[0].never);
    cr_expect_str_eq(choose(town_pod("q", "", MIB_AND_PERCENT(2000, 50)), NAMES("a")), "");
    cr_expect_str_eq(choose(town_pod("q", "", MIB_AND_PERCENT(2000, 40)), NAMES("a")), "a");
}

Test(scheduler_choice, a_quota_that_goes_is_room_and_one_of_other_words_is_nothing)
{
    town_node("a", 1, 0, "");
    town_quota("team", "\"limits.nvidia.com/gpumem\": \"10\"");
    town_quota("else", "\"limits.cpu\": \"0\"");
    town_see();
    sb_reset(&town_grown);
    town_delete_quota("else");
    town_see();
    cr_expect_str_eq(sb_str(&town_grown), "");
    town_delete_quota("team");
    town_see();
    cr_expect_str_eq(sb_str(&town_grown), "a ");
    cr_expect_str_eq(choose(town_pod("p", "", PART(3000)), NAMES("a")), "a");
}

Test(scheduler_choice, each_of_several_quotas_holds_and_0_allows_nothing)
{
    town_node("a", 2, 0, "");
    town_quota("wide", "\"limits.nvidia.com/gpumem\": \"1Mi\"");
    town_quota("none", "\"limits.nvidia.com/gpucores\": \"0\"");
    town_quota("else", "\"limits.cpu\": \"0\"");
    town_see();
    cr_expect_str_eq(choose(town_pod("p", "", MIB_AND_PERCENT(3000, 10)), NAMES("a")), "");
    cr_expect_str_eq(choose(town_pod("p", "", MIB_AND_PERCENT(3000, 0)), NAMES("a")), "a");
}

/* --- Pods --- */

Test(scheduler_choice, a_pod_that_cannot_be_meant_is_refused_for_good_everywhere)
{
    auto_err struct err e = {0};
    auto_json json_t *p = town_pod("p", "", PART(3221225472));
    auto_pod_ask struct pod_ask ask = {0};
    cr_assert_lt(pod_ask_of(p, &ask, &e), 0);
    cr_expect(strstr(err_msg(&e), "container main"), "%s", err_msg(&e));
    choice_refuse_all(NAMES("a", "b"), 2, &e, &choice);
    cr_expect_eq(choice.n_refused, 2);
    cr_expect(choice.refused[1].never);
}

#define INIT(n, mib, apps)                                                                          \
    "\"initContainers\": [{\"name\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"" #n \
    "\", "                                                                                          \
    "\"nvidia.com/gpumem\": \"" #mib "\"}}}], " apps

static void expect_refused(const char *containers, const char *why)
{
    auto_err struct err e = {0};
    auto_json json_t *pod = town_pod("q", "", containers);
    struct pod_ask ask;
    cr_assert_eq(pod_ask_of(pod, &ask, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), why);
}

Test(scheduler_choice, an_init_container_uses_the_shares_of_those_after_it)
{
    town_node("a", 1, 0, "");
    town_see();
    (void)choose(town_pod("p", "", INIT(1, 1000, PART(50000))), NAMES("a"));
    auto_json json_t *annotations = town_assumed("uid-p", "a");
    const char *hami = json_string_value(json_object_get(annotations, HAMI_ALLOCATED));
    cr_expect_str_eq(hami, ";a-0,NVIDIA,50000,0:;");
}

Test(scheduler_choice, an_init_container_asks_for_no_more_than_those_after_it)
{
    expect_refused(INIT(2, 1000, PART(1000)),
                   "init container i asks for 2 shares, and the containers after it for 1: it "
                   "would wait for ever for the others; ask for no more");
    expect_refused(
        INIT(1, 1001, PART(1000)),
        "init container i uses the shares of container main and asks for 1001 MiB, which "
        "has 1000: ask for no more");
}

#define INIT_CARDS(n, apps)                                                                         \
    "\"initContainers\": [{\"name\": \"i\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"" #n \
    "\"}}}], " apps

/* Where cards give shares the kubelet's slots of the init container would never become any. */
Test(scheduler_choice, more_whole_cards_for_an_init_container_are_found_where_cards_give_no_shares)
{
    static const char *const pods[] = {INIT_CARDS(2, WHOLE(1)), INIT_CARDS(1, LIMITS(""))};
    town_node("a", 2, 0, "");
    town_node("b", 0, 2, "");
    town_say("c", "\"hami.io/node-nvidia-register\": \"[]\"");
    town_see();
    for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
        cr_expect_str_eq(choose(town_pod("p", "", pods[i]), NAMES("a", "b", "c")), "b");
        cr_expect_str_eq(choose(town_pod("p", "", pods[i]), NAMES("a")), "");
        cr_expect(strstr(choice.refused[0].why, "it would wait for ever"), "%s",
                  choice.refused[0].why);
    }
    cr_expect_str_eq(choose(town_pod("q", "", INIT_CARDS(1, WHOLE(1))), NAMES("a")), "a");
}

Test(scheduler_choice, an_init_container_may_ask_for_compute_where_the_next_has_no_bound)
{
    town_node("a", 1, 0, "");
    town_see();
    cr_expect_str_eq(
        choose(town_pod("p", "",
                        "\"initContainers\": [{\"name\": \"i\", \"resources\": {\"limits\": "
                        "{\"nvidia.com/gpumem\": 1000, \"nvidia.com/gpucores\": 10}}}], " PART(
                            8000)),
               NAMES("a")),
        "a");
}

Test(scheduler_choice, a_bound_pod_takes_the_most_that_it_has_at_any_time)
{
    auto_pod_shares struct pod_shares s = {0};
    AUTO(allocation) struct allocation a = {0};
    auto_json json_t *p = town_pod(
        "p", "",
        "\"initContainers\": [{\"name\": \"i\"}, {\"name\": \"s\", \"restartPolicy\": \"Always\"}], "
        "\"containers\": [{\"name\": \"m\"}]");
    cr_assert_eq(allocation_parse("{\"v\":1,\"c\":["
                                  "{\"n\":\"i\",\"s\":[{\"u\":\"A\",\"m\":9000,\"c\":0}]},"
                                  "{\"n\":\"s\",\"s\":[{\"u\":\"A\",\"m\":1000,\"c\":10}]},"
                                  "{\"n\":\"m\",\"s\":[{\"u\":\"A\",\"m\":2000,\"c\":20},"
                                  "{\"u\":\"B\",\"m\":500,\"c\":0}]}],\"p\":0}",
                                  &a, NULL),
                 0);
    pod_shares_add(&s, p, &a);
    cr_assert_eq(s.n, 2);
    cr_expect_str_eq(s.items[0].uuid, "A");
    cr_expect_eq(s.items[0].size.memory_mib, 9000);
    cr_expect_eq(s.items[0].size.percent, 30);
    cr_expect_eq(s.items[0].size.shares, 2);
    cr_expect_eq(s.items[1].size.memory_mib, 500);
}
