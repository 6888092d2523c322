/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/hami_metrics.h"

#include <string.h>

#include "base/xalloc.h"

#include "service/metrics.h"

/* --- Lines --- */

static void begin_family(const char *name, const char *help, struct sb *out)
{
    sb_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void begin_sample(const char *name, struct sb *out)
{
    sb_addf(out, "%s{" HAMI_ZONE, name);
}

static void add_text(const char *label, const char *value, struct sb *out)
{
    sb_addf(out, ",%s=\"", label);
    metrics_add_label_value(out, value);
    sb_add_char(out, '"');
}

static void add_number(const char *label, int64_t value, struct sb *out)
{
    sb_addf(out, ",%s=\"%lld\"", label, (long long)value);
}

static void end_sample(double value, struct sb *out)
{
    sb_addf(out, "} %.15g\n", value);
}

static double bytes_of(unsigned mib)
{
    return (double)mib * (1 << 20);
}

/* --- Cards --- */

static double memory_limit(const struct snapshot_card *c)
{
    return bytes_of(c->total.memory_mib);
}

static double memory_allocated(const struct snapshot_card *c)
{
    return bytes_of(c->used.memory_mib);
}

/* From 0 to 1, unlike HAMi's other ratios: its code divides, and its dashboard draws this, whatever
 * its documentation says. */
static double memory_ratio(const struct snapshot_card *c)
{
    return c->total.memory_mib ? (double)c->used.memory_mib / c->total.memory_mib : 0;
}

static double core_limit(const struct snapshot_card *c)
{
    return c->total.percent;
}

static double core_allocated(const struct snapshot_card *c)
{
    return c->used.percent;
}

static double sharers(const struct snapshot_card *c)
{
    return c->sharers;
}

/* Labels that not all of these families have. */
enum { TYPE = 1, CORES = 2, LIMIT = 4 };

static const struct card_family {
    const char *names[HAMI_GENERATIONS], *help;
    double (*value)(const struct snapshot_card *c);
    unsigned labels;
} card_families[] = {
    {{"hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit"},
     "Memory that a card has for shares, oversubscription included.",
     memory_limit,
     TYPE},
    {{"hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit"},
     "Compute that a card has for shares, in percent, oversubscription included.",
     core_limit,
     TYPE},
    {{"hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated"},
     "Memory of a card that is given out.",
     memory_allocated,
     TYPE | CORES},
    {{"hami_gpu_shared_count", "GPUDeviceSharedNum"},
     "Shares of a card that are given out.",
     sharers,
     TYPE},
    {{"hami_gpu_core_allocated_ratio", "GPUDeviceCoreAllocated"},
     "Compute of a card that is given out, in percent.",
     core_allocated,
     TYPE},
    {{"hami_node_gpu_overview", "nodeGPUOverview"},
     "Memory of a card that is given out, with what the card has as labels.",
     memory_allocated,
     TYPE | CORES | LIMIT},
    {{"hami_node_gpu_memory_allocated_ratio", "nodeGPUMemoryPercentage"},
     "Part of a card's memory that is given out, from 0 to 1.",
     memory_ratio,
     0},
};

/* As HAMi's device plugin names a model. */
static void add_type(const char *label, const char *model, struct sb *out)
{
    auto_free char *type = strstr(model, "NVIDIA") ? NULL : xasprintf("NVIDIA-%s", model);
    add_text(label, type ? type : model, out);
}

static void write_card(const struct card_family *f, enum hami_generation g,
                       const struct snapshot_card *c, struct sb *out)
{
    begin_sample(f->names[g], out);
    add_text(g == HAMI_NAMES_CURRENT ? "node" : "nodeid", c->node, out);
    add_text(g == HAMI_NAMES_CURRENT ? "device_uuid" : "deviceuuid", c->uuid, out);
    add_number(g == HAMI_NAMES_CURRENT ? "device_index" : "deviceidx", c->index, out);
    if (f->labels & CORES)
        add_number(g == HAMI_NAMES_CURRENT ? "device_cores" : "devicecores", c->total.percent, out);
    if (f->labels & LIMIT)
        add_number(g == HAMI_NAMES_CURRENT ? "device_memory_limit" : "devicememorylimit",
                   c->total.memory_mib, out);
    if (f->labels & TYPE)
        add_type(g == HAMI_NAMES_CURRENT ? "device_type" : "devicetype", c->model, out);
    end_sample(f->value(c), out);
}

static void write_cards(const struct view_snapshot *s, enum hami_generation g, struct sb *out)
{
    for (size_t i = 0; i < ARRAY_LEN(card_families); i++) {
        const struct card_family *f = &card_families[i];
        begin_family(f->names[g], f->help, out);
        for (size_t k = 0; k < s->n_cards && !out->overflow; k++)
            write_card(f, g, &s->cards[k], out);
    }
}

/* --- Shares --- */

static double share_memory(const struct snapshot_share *s)
{
    return bytes_of(s->memory_mib);
}

static double share_cores(const struct snapshot_share *s)
{
    return s->percent;
}

static const struct share_family {
    const char *names[HAMI_GENERATIONS], *help;
    double (*value)(const struct snapshot_share *s);
} share_families[] = {
    {{"hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated"},
     "Memory of a card that a container was given.",
     share_memory},
    {{"hami_vgpu_core_allocated_ratio", "vGPUCoreAllocated"},
     "Compute of a card that a container was given, in percent.",
     share_cores},
};

static void write_share(const struct share_family *f, enum hami_generation g,
                        const struct snapshot_share *s, struct sb *out)
{
    begin_sample(f->names[g], out);
    add_text(g == HAMI_NAMES_CURRENT ? "namespace" : "podnamespace", s->ns, out);
    add_text(g == HAMI_NAMES_CURRENT ? "node" : "nodename", s->node, out);
    add_text(g == HAMI_NAMES_CURRENT ? "pod" : "podname", s->pod, out);
    add_number(g == HAMI_NAMES_CURRENT ? "container_index" : "containeridx", s->container, out);
    add_text(g == HAMI_NAMES_CURRENT ? "device_uuid" : "deviceuuid", s->uuid, out);
    end_sample(f->value(s), out);
}

static void write_shares(const struct view_snapshot *s, enum hami_generation g, struct sb *out)
{
    for (size_t i = 0; i < ARRAY_LEN(share_families); i++) {
        const struct share_family *f = &share_families[i];
        begin_family(f->names[g], f->help, out);
        for (size_t k = 0; k < s->n_shares && !out->overflow; k++)
            write_share(f, g, &s->shares[k], out);
    }
}

/* --- Quotas --- */

#define QUOTA_LIMIT "hami_resource_quota_limit"
static const char *const quota_used[HAMI_GENERATIONS] = {"hami_resource_quota_used", "QuotaUsed"};

static void begin_quota(const char *name, enum hami_generation g, const struct snapshot_quota *q,
                        const char *resource, struct sb *out)
{
    begin_sample(name, out);
    add_text(g == HAMI_NAMES_CURRENT ? "namespace" : "quotanamespace", q->ns, out);
    add_text(g == HAMI_NAMES_CURRENT ? "quota_name" : "quotaName", resource, out);
}

static void write_used(enum hami_generation g, const struct snapshot_quota *q, const char *resource,
                       int64_t used, int64_t most, struct sb *out)
{
    if (most < 0)
        return;
    begin_quota(quota_used[g], g, q, resource, out);
    add_number("limit", most, out);
    end_sample((double)used, out);
}

static void write_limit(const struct snapshot_quota *q, const char *resource, int64_t most,
                        struct sb *out)
{
    if (most < 0)
        return;
    begin_quota(QUOTA_LIMIT, HAMI_NAMES_CURRENT, q, resource, out);
    end_sample((double)most, out);
}

/* HAMi names the resource where one expects the quota. */
#define GPUMEM   "nvidia.com/gpumem"
#define GPUCORES "nvidia.com/gpucores"

static void write_quotas(const struct view_snapshot *s, enum hami_generation g, struct sb *out)
{
    begin_family(quota_used[g], "What the pods of a namespace have, where a quota bounds it.", out);
    for (size_t i = 0; i < s->n_quotas && !out->overflow; i++) {
        const struct snapshot_quota *q = &s->quotas[i];
        write_used(g, q, GPUMEM, q->used.memory_mib, q->most.memory_mib, out);
        write_used(g, q, GPUCORES, q->used.percent, q->most.percent, out);
    }
    if (g == HAMI_NAMES_LEGACY)
        return;
    begin_family(QUOTA_LIMIT, "What the quotas of a namespace allow its pods.", out);
    for (size_t i = 0; i < s->n_quotas && !out->overflow; i++) {
        const struct snapshot_quota *q = &s->quotas[i];
        write_limit(q, GPUMEM, q->most.memory_mib, out);
        write_limit(q, GPUCORES, q->most.percent, out);
    }
}

void hami_metrics_write(const struct view_snapshot *s, enum hami_names names, struct sb *out)
{
    for (enum hami_generation g = HAMI_NAMES_CURRENT; g < HAMI_GENERATIONS; g++) {
        if (!hami_names_have(names, g))
            continue;
        write_cards(s, g, out);
        write_shares(s, g, out);
        write_quotas(s, g, out);
    }
}
