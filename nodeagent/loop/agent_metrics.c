/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_metrics.h"

#include <stdlib.h>

#include "base/xalloc.h"

struct agent_metrics {
    const struct kubelet_link *kubelet; /* NULL: there is none */
    struct metric *transactions, *held;
    struct metric_series *duration, *cards, *partitions, *stuck, *standby;
    /* NULL: the kubelet is not served */
    struct metric_series *registrations, *granted, *refused, *bound;
};

static void register_kubelet(struct agent_metrics *a, struct metrics *m, bool serves)
{
    static const double seconds[] = {0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025,
                                     0.05,   0.1,   0.25,  0.5,   1,     5,    30};
    a->held = metrics_gauge(m, "cleave_agent_held", "Containers that hold a card or a partition.",
                            METRIC_LABELS("gpu", "partition", "namespace", "pod", "container"));
    if (!serves)
        return;
    a->registrations =
        METRIC_WITH(metrics_counter(m, "cleave_agent_kubelet_registrations_total",
                                    "Registrations of resources with the kubelet.", NULL));
    struct metric *allocations = metrics_counter(m, "cleave_agent_kubelet_allocations_total",
                                                 "Answers to Allocate.", METRIC_LABELS("result"));
    a->granted = METRIC_WITH(allocations, "granted");
    a->refused = METRIC_WITH(allocations, "refused");
    a->bound = METRIC_WITH(
        metrics_histogram(m, "cleave_agent_slot_bind_seconds",
                          "Time from a container's pod being known to its slots being bound.", NULL,
                          seconds, ARRAY_LEN(seconds)));
}

struct agent_metrics *agent_metrics_new(struct metrics *m, const struct kubelet_link *kubelet,
                                        bool serves)
{
    static const double seconds[] = {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
    if (!m)
        return NULL;
    struct agent_metrics *a = xmalloc(sizeof(*a));
    a->kubelet = kubelet;
    a->transactions =
        metrics_counter(m, "cleave_agent_transactions_total",
                        "Attempts to bring one card to its layout.", METRIC_LABELS("outcome"));
    a->duration = METRIC_WITH(metrics_histogram(m, "cleave_agent_transaction_seconds",
                                                "Time of transactions that touched the hardware.",
                                                NULL, seconds, ARRAY_LEN(seconds)));
    a->cards = METRIC_WITH(metrics_gauge(m, "cleave_agent_cards", "Cards of the node.", NULL));
    a->partitions =
        METRIC_WITH(metrics_gauge(m, "cleave_agent_partitions", "Existing partitions.", NULL));
    a->stuck = METRIC_WITH(metrics_gauge(m, "cleave_agent_library_stuck",
                                         "1 while a vendor call is past its deadline.", NULL));
    a->standby = METRIC_WITH(metrics_gauge(m, "cleave_agent_standby",
                                           "1 while another process has this node's cards.", NULL));
    if (kubelet)
        register_kubelet(a, m, serves);
    return a;
}

void agent_metrics_standby(struct agent_metrics *m, bool is_standby)
{
    if (m)
        metric_set(m->standby, is_standby);
}

void agent_metrics_count(struct agent_metrics *m, const struct txn_result *r, int64_t took_ms)
{
    if (!m)
        return;
    metric_add(METRIC_WITH(m->transactions, txn_outcome_name(r->outcome)), 1);
    if (r->changed)
        metric_observe(m->duration, (double)took_ms / 1000);
}

void agent_metrics_bound(struct agent_metrics *m, int64_t took_us)
{
    if (m && m->bound)
        metric_observe(m->bound, (double)took_us / 1e6);
}

struct rows {
    const char **values;
    size_t n;
};

static void add_held(struct rows *r, const char *gpu, const char *partition,
                     const struct device_consumer *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct device_consumer *c = &list[i];
        if (!c->name)
            continue; /* a process, not a pod */
        const char *const row[] = {gpu, partition, c->namespace, c->name,
                                   c->container ? c->container : ""};
        for (size_t k = 0; k < ARRAY_LEN(row); k++)
            *XPUSH(r->values, r->n) = row[k];
    }
}

static void grow_to(struct metric_series *s, int64_t total)
{
    metric_add(s, total - metric_value(s));
}

static void show_kubelet(struct agent_metrics *m, const struct device_status *st)
{
    struct rows rows = {0};
    struct plugin_stats stats = kubelet_link_stats(m->kubelet);
    if (m->registrations) {
        grow_to(m->registrations, stats.registrations);
        grow_to(m->granted, stats.allocations - stats.refused);
        grow_to(m->refused, stats.refused);
    }
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_card *c = &st->devices[i];
        add_held(&rows, c->uuid, "", c->in_use_by, c->n_in_use_by);
        for (size_t k = 0; k < c->n_partitions; k++)
            add_held(&rows, c->uuid, c->partitions[k].uuid, c->partitions[k].in_use_by,
                     c->partitions[k].n_in_use_by);
    }
    metric_facts(m->held, rows.values, rows.n / 5);
    free(rows.values);
}

void agent_metrics_show(struct agent_metrics *m, const struct device_status *st, bool stuck)
{
    if (!m)
        return;
    metric_set(m->cards, st->summary.gpus);
    metric_set(m->partitions, st->summary.partitions);
    metric_set(m->stuck, stuck);
    if (m->kubelet)
        show_kubelet(m, st);
}

struct agent_metrics *agent_metrics_free(struct agent_metrics *m)
{
    free(m);
    return NULL;
}
