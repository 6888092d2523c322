/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "interop/hami_pod.h"
#include "scheduler/bind.h"
#include "scheduler/choice.h"
#include "scheduler_support.h"

/* What is bound, on a model of an API server. */

static const struct kc_resource pod_resource = {"", "v1", "pods", "Pod", true};

static struct binder *binder;
static struct controller *workers;
static struct metrics *metrics;
static struct sb answers; /* in order; "ok " for a pod that is bound */
static json_t *pod;       /* as it was made */

static void set_up(void)
{
    town_set_up();
    metrics = metrics_new();
    binder = binder_new(&(struct binder_opts){town_kc, town_view, metrics, town_clk});
    workers = binder_workers(binder);
    answers = SB_INIT(10000);
    town_node("a", 1, 0, "");
    pod = town_create(
        "p", "",
        LIMITS(
            "\"nvidia.com/gpu\": \"1\", \"nvidia.com/gpumem\": \"3000\", \"nvidia.com/gpucores\": \"30\""));
    town_see();
}

static void tear_down(void)
{
    (void)controller_free(workers);
    (void)binder_free(binder);
    (void)metrics_free(metrics);
    json_decref(pod);
    sb_done(&answers);
    town_tear_down();
}

TestSuite(scheduler_bind, .init = set_up, .fini = tear_down);

static void choose(void)
{
    static const char *const names[] = {"a"};
    auto_err struct err e = {0};
    auto_pod_ask struct pod_ask ask = {0};
    auto_choice struct choice c = {0};
    cr_assert_eq(pod_ask_of(pod, &ask, &e), 0, "%s", err_msg(&e));
    choice_make(town_view, &ask, names, 1, &c);
    cr_assert_eq(c.n_kept, 1);
}

static void on_done(void *arg, const char *error)
{
    (void)arg;
    sb_add(&answers, error ? error : "ok ");
}

static void ask(const char *uid, const char *node)
{
    struct bind_args a = {xstrdup("ns"), xstrdup("p"), xstrdup(uid), xstrdup(node)};
    binder_add(binder, &a, on_done, NULL);
}

static const char *uid(void)
{
    return JX_STR_AT(pod, "metadata", "uid");
}

static void work(void)
{
    while (controller_step(workers, town_scope)) {
    }
}

static json_t *now(void)
{
    json_t *p = NULL;
    const struct kc_target t = {.res = &pod_resource, .ns = "ns", .name = "p"};
    auto_err struct err e = {0};
    cr_assert_eq(kc_get(town_kc, town_scope, &t, &p, &e), 0, "%s", err_msg(&e));
    return p;
}

static void expect_bound(void)
{
    auto_json json_t *p = now();
    cr_expect_str_eq(JX_STR_AT(p, "spec", "nodeName"), "a");
    cr_expect_str_eq(
        JX_STR_AT(p, "metadata", "annotations", ALLOCATION_ANNOTATION),
        "{\"c\":[{\"n\":\"main\",\"s\":[{\"c\":30,\"m\":3000,\"u\":\"a-0\"}]}],\"p\":0,\"v\":1}");
    cr_expect_str_eq(JX_STR_AT(p, "metadata", "annotations", HAMI_ALLOCATED),
                     "a-0,NVIDIA,3000,30:;");
}

Test(scheduler_bind, what_was_chosen_is_bound_with_one_write_and_no_read)
{
    size_t writes = kc_fake_writes(town_kc);
    choose();
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "ok ");
    cr_expect_eq(kc_fake_writes(town_kc), writes + 1);
    cr_expect_eq(kc_fake_calls(town_kc, KC_GET), 0);
    expect_bound();
}

Test(scheduler_bind, a_pod_that_another_replica_chose_for_is_placed_on_that_node)
{
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "ok ");
    expect_bound();
}

Test(scheduler_bind, another_pod_of_the_name_is_not_bound)
{
    ask("other", "a");
    work();
    cr_expect(strstr(sb_str(&answers), "another one by now"), "%s", sb_str(&answers));
}

/* The write happens, and its answer is lost. */
static int lose_answer(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (call->verb == KC_CREATE && call->after)
        return err_set(e, ERR_UNAVAILABLE, "connection reset");
    return 0;
}

Test(scheduler_bind, a_binding_whose_answer_was_lost_is_found)
{
    choose();
    kc_fake_hook(town_kc, lose_answer, NULL);
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "ok ");
    expect_bound();
}

static int refuse_all(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    if (call->verb == KC_CREATE && !call->after)
        return err_set(e, ERR_FORBIDDEN, "policy says no");
    return 0;
}

Test(scheduler_bind, a_refused_binding_gives_the_room_back)
{
    choose();
    kc_fake_hook(town_kc, refuse_all, NULL);
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "policy says no");
    auto_json json_t *assumed = town_assumed(uid(), "a");
    cr_expect_null(assumed);
}

static int lose_all(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    (void)call;
    return err_set(e, ERR_UNAVAILABLE, "connection refused");
}

Test(scheduler_bind, where_nobody_knows_what_was_chosen_stays_taken)
{
    choose();
    kc_fake_hook(town_kc, lose_all, NULL);
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "connection refused");
    auto_json json_t *assumed = town_assumed(uid(), "a");
    cr_expect_not_null(assumed);
}

Test(scheduler_bind, a_pod_that_is_asked_for_twice_is_bound_once)
{
    choose();
    ask(uid(), "a");
    ask(uid(), "a");
    work();
    cr_expect_str_eq(sb_str(&answers), "the pod is asked to be bound once more"
                                       "ok ");
    expect_bound();
}

/* Every call of the API server takes so long. */
static int take_time(void *arg, const struct kc_call *call, struct err *e)
{
    (void)e;
    if (!call->after)
        clock_fake_advance(town_clk, *(const int64_t *)arg);
    return 0;
}

static void expect_metric(const char *line)
{
    auto_sb struct sb page = SB_INIT(100000);
    metrics_write(metrics, &page);
    cr_expect(strstr(sb_str(&page), line), "%s is not in %s", line, sb_str(&page));
}

Test(scheduler_bind, the_api_servers_time_is_told_from_its_own)
{
    int64_t ms = 30;
    kc_fake_hook(town_kc, take_time, &ms);
    ask(uid(), "a");
    work();
    expect_metric("cleave_scheduler_binds_total{result=\"Success\"} 1\n");
    expect_metric("cleave_scheduler_bind_seconds_sum{of=\"api-server\"} 0.060000\n");
    expect_metric("cleave_scheduler_bind_seconds_sum{of=\"scheduler\"} 0.000000\n");
    expect_metric("cleave_scheduler_bind_seconds_count{of=\"scheduler\"} 1\n");
}

/* None was tried: it would make the times look short when they are longest. */
Test(scheduler_bind, of_a_binding_that_came_too_late_no_time_is_measured)
{
    ask(uid(), "a");
    clock_fake_advance(town_clk, 5000);
    work();
    cr_expect(strstr(sb_str(&answers), "waited too long"), "%s", sb_str(&answers));
    expect_metric("cleave_scheduler_binds_total{result=\"Timeout\"} 1\n");
    expect_metric("cleave_scheduler_bind_seconds_count{of=\"scheduler\"} 0\n");
}

Test(scheduler_bind, who_waits_at_the_end_is_told)
{
    ask(uid(), "a");
    (void)controller_free(TAKE(workers));
    (void)binder_free(TAKE(binder));
    cr_expect_str_eq(sb_str(&answers), "the scheduler is stopping");
}
