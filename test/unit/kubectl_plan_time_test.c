/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubectl/plan_text.h"
#include "kubectl/plan_time.h"

/* A Device whose spec the controller wrote at minute 10 of an hour, at generation 3. */
#define DEVICE(applied)                                                                                    \
    "{metadata: {name: n1, generation: 3, managedFields: [{manager: cleave-controller, operation: Apply, " \
    "time: '2026-01-01T10:10:00Z', fieldsV1: {'f:spec': {'f:devices': {}}}}, {manager: "                   \
    "cleave-agent, operation: Update, time: '2026-01-01T11:00:00Z', fieldsV1: {'f:status': {}}}]}, "       \
    "status: {observedGeneration: 3, devices: [" applied "]}}"
#define CARD(uuid, minute, status, generation)                                                     \
    "{uuid: " uuid ", index: 0, vendor: nvidia, mode: native, memoryMiB: 1, healthy: true, "       \
    "conditions: [{type: Applied, status: '" status                                                \
    "', reason: Applied, message: x, observedGeneration: " generation                              \
    ", lastTransitionTime: '2026-01-01T10:" minute "Z'}]}"

static void add(struct plan_pace *p, const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *device = NULL;
    auto_device_status struct device_status st = {0};
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &device, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(device_status_decode(device, &st, &e), 0, "%s", err_msg(&e));
    plan_pace_add(p, device, &st);
}

static size_t samples_of(const char *yaml)
{
    struct plan_pace p = {0};
    add(&p, yaml);
    size_t n = p.n;
    plan_pace_done(&p);
    return n;
}

Test(plan_time, a_change_took_from_its_order_to_the_last_card)
{
    struct plan_pace p = {0};
    add(&p, DEVICE(CARD("GPU-1", "10:12", "True", "3") ", " CARD("GPU-2", "11:30", "True", "3")));
    cr_assert_eq(p.n, 1);
    cr_expect_eq(p.seconds[0], 90);
    plan_pace_done(&p);
}

Test(plan_time, an_order_that_left_the_cards_as_they_were_tells_nothing)
{
    cr_expect_eq(samples_of(DEVICE(CARD("GPU-1", "09:59", "True", "3"))), 0);
}

Test(plan_time, a_change_that_is_not_done_tells_nothing)
{
    cr_expect_eq(samples_of(DEVICE(CARD("GPU-1", "10:12", "False", "3"))), 0);
    cr_expect_eq(samples_of(DEVICE(CARD("GPU-1", "10:12", "True", "2"))), 0);
}

Test(plan_time, a_device_without_times_tells_nothing)
{
    cr_expect_eq(samples_of("{metadata: {name: n1, generation: 3}, status: {observedGeneration: 3, "
                            "devices: [" CARD("GPU-1", "10:12", "True", "3") "]}}"),
                 0);
    cr_expect_eq(samples_of("{metadata: {name: n1, generation: 3}, status: {}}"), 0);
}

static void pace_of(struct plan_pace *p, const int64_t *seconds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *XPUSH(p->seconds, p->n) = seconds[i];
}

Test(plan_time, nodes_go_so_many_at_a_time_and_each_takes_the_median)
{
    struct plan_pace p = {0};
    struct plan_time t;
    pace_of(&p, (const int64_t[]){40, 10, 20}, 3);
    plan_time_of(&p, 5, 2, &t);
    cr_expect_eq(t.samples, 3);
    cr_expect_eq(t.node_s, 20);
    cr_expect_eq(t.node_most_s, 40);
    cr_expect_eq(t.all_s, 60);
    plan_pace_done(&p);
}

Test(plan_time, what_took_less_than_a_second_counts_as_one)
{
    struct plan_pace p = {0};
    struct plan_time t;
    pace_of(&p, (const int64_t[]){0}, 1);
    plan_time_of(&p, 5, 1, &t);
    cr_expect_eq(t.all_s, 5);
    plan_pace_done(&p);
}

Test(plan_time, without_earlier_changes_nothing_is_said)
{
    struct plan_pace p = {0};
    struct plan_time t;
    plan_time_of(&p, 5, 1, &t);
    cr_expect_eq(t.samples, 0);
    cr_expect_eq(t.all_s, 0);
}

Test(plan_time, a_node_that_evicts_has_an_end_and_one_that_waits_has_none)
{
    char ml[] = "ml";
    char name[] = "a";
    char process[] = "python";
    struct plan_user users[] = {{.ns = ml, .name = name}, {.process = process, .pid = 7}};
    struct card_plan_view evicts = {.fate = FATE_DRAINS,
                                    .evicts = true,
                                    .timeout_s = 600,
                                    .users = users,
                                    .n_users = 1};
    struct card_plan_view both = evicts;
    struct card_plan_view waits = evicts;
    both.n_users = 2;
    waits.evicts = false;
    struct plan_time t = {0};
    const struct card_plan_view *const nodes[] = {&evicts, &both, &waits};
    for (size_t i = 0; i < 3; i++) {
        struct plan_drains d = {0};
        plan_drains_add(&d, nodes[i]);
        plan_time_add(&t, &d);
    }
    cr_expect_eq(t.evicting, 2);
    cr_expect_eq(t.evicting_most_s, 600);
    cr_expect_eq(t.waiting, 2);
}

Test(plan_time, it_is_told_with_what_it_is_based_on)
{
    char profile[] = "p";
    char max[] = "2";
    char n1[] = "n1";
    char *waiting[] = {n1};
    struct plan_queue q = {.profile = profile,
                           .max_unavailable = max,
                           .at_once = 2,
                           .waiting = waiting,
                           .n_waiting = 1,
                           .time = {.samples = 3,
                                    .node_s = 20,
                                    .node_most_s = 40,
                                    .all_s = 400,
                                    .evicting = 1,
                                    .evicting_most_s = 90,
                                    .waiting = 2}};
    const struct cluster_plan p = {.queues = &q, .n_queues = 1};
    const struct screen screen = {.columns = 80};
    auto_sb struct sb text = SB_INIT(4096);
    plan_text(&p, &screen, &text);
    cr_expect_str_eq(
        sb_str(&text),
        "Order of p: by name, at most 2 nodes at a time (rollout.maxUnavailable: 2)\n"
        "  n1\n"
        "  takes about 7 min beside what it waits for, if each node takes 20 s: the median of the "
        "last changes of 3 nodes, whatever they changed; the longest took 40 s\n"
        "  1 node evicts pods first, each for at most 90 s (rollout.timeoutSeconds)\n"
        "  2 nodes wait for users whom nobody evicts: for how long is not known\n"
        "Plan: concerns none of 0 nodes with a Device\n",
        "got:\n%s", sb_str(&text));
}
