/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "service/metrics.h"

static struct metrics *m;
static struct sb text;

static void setup(void)
{
    m = metrics_new();
    text = SB_INIT(1 << 20);
}

static void teardown(void)
{
    (void)metrics_free(m);
    sb_done(&text);
}

TestSuite(metrics, .init = setup, .fini = teardown);

Test(metrics, counters_and_gauges_are_written_in_name_order)
{
    metric_set(METRIC_WITH(metrics_gauge(m, "b_depth", "Keys queued.", NULL)), -3);
    struct metric *total =
        metrics_counter(m, "a_total", "Reconciles.", METRIC_LABELS("controller", "result"));
    metric_add(METRIC_WITH(total, "profile", "success"), 2);
    metric_add(METRIC_WITH(total, "profile", "error"), 1);
    metric_add(METRIC_WITH(total, "profile", "success"), 5);
    metrics_write(m, &text);
    cr_assert_str_eq(sb_str(&text), "# HELP a_total Reconciles.\n"
                                    "# TYPE a_total counter\n"
                                    "a_total{controller=\"profile\",result=\"success\"} 7\n"
                                    "a_total{controller=\"profile\",result=\"error\"} 1\n"
                                    "# HELP b_depth Keys queued.\n"
                                    "# TYPE b_depth gauge\n"
                                    "b_depth -3\n");
}

Test(metrics, histogram_buckets_are_cumulative_and_bounds_inclusive)
{
    static const double bounds[] = {0.005, 1};
    struct metric *f = metrics_histogram(m, "t_seconds", "Time.", METRIC_LABELS("name"), bounds, 2);
    struct metric_series *s = METRIC_WITH(f, "x");
    metric_observe(s, 0.005);
    metric_observe(s, 0.006);
    metric_observe(s, 1);
    metric_observe(s, 30);
    metrics_write(m, &text);
    cr_assert_str_eq(sb_str(&text), "# HELP t_seconds Time.\n"
                                    "# TYPE t_seconds histogram\n"
                                    "t_seconds_bucket{name=\"x\",le=\"0.005\"} 1\n"
                                    "t_seconds_bucket{name=\"x\",le=\"1\"} 3\n"
                                    "t_seconds_bucket{name=\"x\",le=\"+Inf\"} 4\n"
                                    "t_seconds_sum{name=\"x\"} 31.011000\n"
                                    "t_seconds_count{name=\"x\"} 4\n");
}

Test(metrics, label_values_and_help_are_escaped)
{
    struct metric *f = metrics_counter(m, "x", "a \\ b\nc \"d\"", METRIC_LABELS("l"));
    metric_add(METRIC_WITH(f, "q\"b\\n\n"), 1);
    metrics_write(m, &text);
    cr_assert_str_eq(sb_str(&text), "# HELP x a \\\\ b\\nc \"d\"\n"
                                    "# TYPE x counter\n"
                                    "x{l=\"q\\\"b\\\\n\\n\"} 1\n");
}

Test(metrics, a_family_asked_for_twice_is_the_same)
{
    cr_assert_eq(metrics_counter(m, "x", "X.", NULL), metrics_counter(m, "x", "X.", NULL));
}

Test(metrics, a_family_never_grows_without_bound)
{
    struct metric *f = metrics_counter(m, "x", "X.", METRIC_LABELS("l"));
    for (int i = 0; i < METRICS_MAX_SERIES + 50; i++) {
        auto_free char *value = xasprintf("v%d", i);
        metric_add(METRIC_WITH(f, value), 1);
    }
    cr_assert_eq(metric_value(METRIC_WITH(f, "other")), 50);
    cr_assert_eq(metric_value(METRIC_WITH(f, "v3")), 1);
}

static void collect(void *arg)
{
    metric_set(arg, 42);
}

Test(metrics, collectors_run_before_the_text_is_written)
{
    struct metric_series *s = METRIC_WITH(metrics_gauge(m, "x", "X.", NULL));
    metrics_on_collect(m, collect, s);
    metrics_write(m, &text);
    cr_assert(strstr(sb_str(&text), "\nx 42\n"));
}

Test(metrics, rows_come_and_go_with_their_values)
{
    struct metric *f = metrics_gauge(m, "used", "Who uses how much.", METRIC_LABELS("pod"));
    const char *const pods[] = {"p1", "p2"};
    const int64_t values[] = {5, 7};
    metric_rows(f, pods, values, 2);
    metric_rows(f, &pods[1], values, 1);
    auto_sb struct sb b = SB_INIT(4096);
    metrics_write(m, &b);
    cr_expect(strstr(sb_str(&b), "used{pod=\"p2\"} 5"), "%s", sb_str(&b));
    cr_expect_not(strstr(sb_str(&b), "p1"));
}

Test(metrics, a_time_is_shown_in_seconds)
{
    struct metric *f = metrics_counter_seconds(m, "waited", "Time.", METRIC_LABELS("pod"));
    const char *const pods[] = {"p1"};
    const int64_t values[] = {2500001};
    metric_rows(f, pods, values, 1);
    auto_sb struct sb b = SB_INIT(4096);
    metrics_write(m, &b);
    cr_expect(strstr(sb_str(&b), "# TYPE waited counter\nwaited{pod=\"p1\"} 2.500001\n"), "%s",
              sb_str(&b));
}

Test(metrics, facts_come_and_go)
{
    struct metric *f = metrics_gauge(m, "held", "Who holds what.", METRIC_LABELS("gpu", "pod"));
    const char *const two[] = {"a", "p1", "b", "p2"};
    const char *const one[] = {"b", "p3"};
    metric_facts(f, two, 2);
    metric_facts(f, one, 1);
    auto_sb struct sb b = SB_INIT(4096);
    metrics_write(m, &b);
    cr_expect(strstr(sb_str(&b), "held{gpu=\"b\",pod=\"p3\"} 1"), "%s", sb_str(&b));
    cr_expect_not(strstr(sb_str(&b), "p2"));
    metric_facts(f, NULL, 0);
}
