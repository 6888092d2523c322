/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/share_metrics.h"

#include <stdlib.h>

#include "base/xalloc.h"

#define LABELS "gpu", "namespace", "pod", "container"

struct share_metrics {
    struct metric *used, *limit, *context, *breach;
    struct metric *percent, *turn, *throttled;
    struct metric_series *ended;
};

struct share_metrics *share_metrics_new(struct metrics *m)
{
    if (!m)
        return NULL;
    struct share_metrics *s = xmalloc(sizeof(*s));
    s->used = metrics_gauge(m, "cleave_agent_share_used_bytes",
                            "Memory that the container of a limited share uses of its card.",
                            METRIC_LABELS(LABELS));
    s->limit = metrics_gauge(m, "cleave_agent_share_limit_bytes",
                             "Memory that a limited share has.", METRIC_LABELS(LABELS));
    s->context = metrics_gauge(m, "cleave_agent_share_context_bytes",
                               "Memory that a process takes for its context, as measured.",
                               METRIC_LABELS(LABELS));
    s->breach = metrics_gauge(m, "cleave_agent_share_breach",
                              "Limited shares that their containers go beyond.",
                              METRIC_LABELS(LABELS, "reason"));
    s->percent = metrics_gauge(m, "cleave_agent_share_compute_percent",
                               "Compute of its card that a limited share has, 0: no guarantee.",
                               METRIC_LABELS(LABELS));
    s->turn = metrics_counter_seconds(m, "cleave_agent_share_turn_seconds_total",
                                      "Time for which a container had its turn on its card.",
                                      METRIC_LABELS(LABELS));
    s->throttled =
        metrics_counter_seconds(m, "cleave_agent_share_throttled_seconds_total",
                                "Time for which a container had work for its card, and no turn.",
                                METRIC_LABELS(LABELS));
    s->ended = METRIC_WITH(
        metrics_counter(m, "cleave_agent_share_processes_ended_total",
                        "Processes ended because their containers exceed their shares.", NULL));
    return s;
}

/* The series of one gauge. */
struct rows {
    const char **labels;
    size_t n_labels;
    int64_t *values;
    size_t n;
};

static void add(struct rows *r, const struct measured_share *s, uint64_t value)
{
    const char *const labels[] = {s->gpu, s->ns, s->pod, s->container};
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        *XPUSH(r->labels, r->n_labels) = labels[i];
    *XPUSH(r->values, r->n) = value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void show(struct metric *m, struct rows *r)
{
    metric_rows(m, r->labels, r->values, r->n);
    free(r->labels);
    free(r->values);
}

static void show_amounts(struct share_metrics *s, const struct measured_share *list, size_t n)
{
    struct rows used = {0};
    struct rows limit = {0};
    struct rows context = {0};
    for (size_t i = 0; i < n; i++) {
        add(&used, &list[i], list[i].used_bytes);
        add(&limit, &list[i], list[i].limit_bytes);
        add(&context, &list[i], list[i].context_bytes);
    }
    show(s->used, &used);
    show(s->limit, &limit);
    show(s->context, &context);
}

static void show_turns(struct share_metrics *s, const struct measured_share *list, size_t n)
{
    struct rows percent = {0};
    struct rows turn = {0};
    struct rows throttled = {0};
    for (size_t i = 0; i < n; i++) {
        if (!list[i].takes_turns)
            continue;
        add(&percent, &list[i], list[i].percent);
        add(&turn, &list[i], (uint64_t)list[i].turn_us);
        add(&throttled, &list[i], (uint64_t)list[i].throttled_us);
    }
    show(s->percent, &percent);
    show(s->turn, &turn);
    show(s->throttled, &throttled);
}

void share_metrics_show(struct share_metrics *s, const struct measured_share *list, size_t n)
{
    struct rows breaches = {0};
    if (!s)
        return;
    show_amounts(s, list, n);
    show_turns(s, list, n);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].breach)
            continue;
        add(&breaches, &list[i], 1);
        *XPUSH(breaches.labels, breaches.n_labels) = list[i].breach;
    }
    show(s->breach, &breaches);
}

void share_metrics_ended(struct share_metrics *s)
{
    if (s)
        metric_add(s->ended, 1);
}

struct share_metrics *share_metrics_free(struct share_metrics *s)
{
    free(s);
    return NULL;
}
