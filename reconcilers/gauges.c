/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/gauges.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/kinds.h"
#include "reconcilers/records/shared_parts.h"
#include "reconcilers/serving.h"
#include "service/conditions.h"

enum { STATUSES = CONDITION_UNKNOWN + 1 };

static const char *const status_names[STATUSES] = {
    [CONDITION_FALSE] = "false",
    [CONDITION_TRUE] = "true",
    [CONDITION_UNKNOWN] = "unknown",
};

/* The last one counts all values that are not ours. */
static const char *const states[] = {MIG_STATE_PENDING, MIG_STATE_SUCCESS, MIG_STATE_FAILED,
                                     MIG_STATE_REBOOTING, "other"};

/* The counts of one kind. */
struct readiness {
    struct metric_series *ready[STATUSES], *stalled;
};

/* True for a Device whose agent has not acknowledged the spec. */
static bool is_unanswered(const struct object *device)
{
    const struct device_record *d = object_payload(device);
    return d->observed_generation != object_generation(device);
}

/* Immutable; the series are atomics. */
struct gauges {
    const struct caches *caches;
    struct readiness profiles, devices;
    struct metric_series *unanswered, *unserved;
    struct metric_series *nodes[ARRAY_LEN(states)];
};

struct counts {
    int64_t ready[STATUSES], stalled;
};

static void count_profile(const struct object *o, struct counts *n)
{
    const struct profile_record *p = object_payload(o);
    const struct condition *ready = condition_get(&p->status.conditions, "Ready");
    const struct condition *stalled = condition_get(&p->status.conditions, "Stalled");
    assert(!ready || (unsigned)ready->status < STATUSES);
    n->ready[ready ? ready->status : CONDITION_UNKNOWN]++;
    n->stalled += stalled && stalled->status == CONDITION_TRUE;
}

static void count_device(const struct object *o, struct counts *n)
{
    const struct device_record *d = object_payload(o);
    assert(!d->ready.present || (unsigned)d->ready.status < STATUSES);
    n->ready[d->ready.present ? d->ready.status : CONDITION_UNKNOWN]++;
    n->stalled += d->stalled.present && d->stalled.status == CONDITION_TRUE;
}

static void collect_readiness(struct store *st, void count(const struct object *, struct counts *),
                              const struct readiness *to)
{
    struct counts n = {0};
    auto_object_list struct object_list all = {0};
    store_list(st, &all);
    for (size_t i = 0; i < all.count; i++)
        count(all.items[i], &n);
    for (size_t i = 0; i < STATUSES; i++)
        metric_set(to->ready[i], n.ready[i]);
    metric_set(to->stalled, n.stalled);
}

static size_t index_of_state(const char *state)
{
    size_t i = 0;
    while (i < ARRAY_LEN(states) - 1 && strcmp(states[i], state) != 0)
        i++;
    return i;
}

static void collect_nodes(const struct gauges *g)
{
    int64_t n[ARRAY_LEN(states)] = {0};
    auto_object_list struct object_list all = {0};
    store_list(g->caches->nodes, &all);
    for (size_t i = 0; i < all.count; i++) {
        const struct node_record *node = object_payload(all.items[i]);
        const char *state = records_label(node->labels, node->n_labels, LABEL_MIG_CONFIG_STATE);
        if (state)
            n[index_of_state(state)]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        metric_set(g->nodes[i], n[i]);
}

static void collect_agents(const struct gauges *g)
{
    int64_t unanswered = 0, unserved = 0;
    auto_object_list struct object_list all = {0};
    store_list(g->caches->devices, &all);
    for (size_t i = 0; i < all.count; i++) {
        unanswered += is_unanswered(all.items[i]);
        unserved += serving_is_gone(object_payload(all.items[i]));
    }
    metric_set(g->unanswered, unanswered);
    metric_set(g->unserved, unserved);
}

static void collect(void *arg)
{
    const struct gauges *g = arg;
    collect_readiness(g->caches->profiles, count_profile, &g->profiles);
    collect_readiness(g->caches->devices, count_device, &g->devices);
    collect_nodes(g);
    collect_agents(g);
}

static void open_ready(struct metric *family, struct readiness *ret)
{
    for (size_t i = 0; i < STATUSES; i++)
        ret->ready[i] = METRIC_WITH(family, status_names[i]);
}

struct gauges *gauges_new(struct metrics *m, const struct caches *caches)
{
    struct gauges *g = xmalloc(sizeof(*g));
    g->caches = caches;
    open_ready(metrics_gauge(m, "cleave_controller_profiles",
                             "GPUProfiles by their condition Ready.", METRIC_LABELS("ready")),
               &g->profiles);
    open_ready(metrics_gauge(m, "cleave_controller_devices", "Devices by their condition Ready.",
                             METRIC_LABELS("ready")),
               &g->devices);
    g->profiles.stalled =
        METRIC_WITH(metrics_gauge(m, "cleave_controller_profiles_stalled",
                                  "GPUProfiles that need a person (condition Stalled).", NULL));
    g->devices.stalled =
        METRIC_WITH(metrics_gauge(m, "cleave_controller_devices_stalled",
                                  "Devices that need a person (condition Stalled).", NULL));
    g->unanswered =
        METRIC_WITH(metrics_gauge(m, "cleave_controller_devices_unanswered",
                                  "Devices whose agents have not acknowledged the spec.", NULL));
    g->unserved = METRIC_WITH(
        metrics_gauge(m, "cleave_controller_devices_unserved",
                      "Devices whose kubelets have none of what they offer (AgentNotServing).",
                      NULL));
    struct metric *nodes =
        metrics_gauge(m, "cleave_controller_nodes",
                      "Nodes by their label nvidia.com/mig.config.state.", METRIC_LABELS("state"));
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        g->nodes[i] = METRIC_WITH(nodes, states[i]);
    metrics_on_collect(m, collect, g);
    return g;
}

struct gauges *gauges_free(struct gauges *g)
{
    free(g);
    return NULL;
}
