/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/card_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "base/xalloc.h"

#include "reconcilers/records/shared_parts.h"

static bool waits_for(const struct device_drain *d, const char *uuid)
{
    for (size_t i = 0; i < d->n_partitions; i++)
        if (strcmp(d->partitions[i], uuid) == 0)
            return true;
    return false;
}

static void add_pods(struct card_record *r, const struct device_consumer *list, size_t n,
                     int64_t since_ms)
{
    for (size_t i = 0; i < n; i++) {
        const struct device_consumer *c = &list[i];
        bool known = !(c->uid && *c->uid) && !(c->namespace && c->name);
        for (size_t k = 0; k < r->n_drain_pods && !known; k++)
            known = text_same(r->drain_pods[k].uid, c->uid) &&
                    text_same(r->drain_pods[k].ns, c->namespace) &&
                    text_same(r->drain_pods[k].name, c->name);
        if (known)
            continue;
        *XPUSH(r->drain_pods, r->n_drain_pods) = (struct drain_pod){
            .uid = xstrdup(c->uid),
            .ns = xstrdup(c->namespace),
            .name = xstrdup(c->name),
            .since_ms = since_ms,
        };
    }
}

static void read_drain(const struct device_card *c, struct card_record *r)
{
    if (!c->has_drain)
        return;
    r->draining = true;
    r->drain_deadline_ms = c->drain.deadline_ms;
    if (c->drain.card)
        add_pods(r, c->in_use_by, c->n_in_use_by, c->drain.since_ms);
    for (size_t i = 0; i < c->n_partitions; i++)
        if (c->drain.card || waits_for(&c->drain, c->partitions[i].uuid))
            add_pods(r, c->partitions[i].in_use_by, c->partitions[i].n_in_use_by,
                     c->drain.since_ms);
}

static void read_slice(const struct device_partition *p, struct sgpu_state *ret)
{
    const struct device_slice *from = &p->slice;
    if (!p->has_slice || ret->n == SGPU_MAX_SLICES)
        return;
    struct sgpu_slice *to = &ret->items[ret->n++];
    to->id = (unsigned)from->id;
    to->quota = (struct sgpu_quota){(unsigned)from->memory_mib, (unsigned)from->compute_percent};
    to->in_use = p->in_use;
    to->foreign = from->foreign;
    (void)snprintf(to->alias, sizeof(to->alias), "%s", from->alias ? from->alias : "");
}

static void read_sgpu(const struct device_card *c, struct card_record *r)
{
    if (!c->has_sgpu)
        return;
    r->sgpu = xmalloc(sizeof(*r->sgpu));
    *r->sgpu = (struct sgpu_state){.memory_mib = (unsigned)c->sgpu.memory_mib,
                                   .qos = c->sgpu.qos_policy,
                                   .timeslice_ms = (unsigned)c->sgpu.timeslice_ms};
    for (size_t i = 0; i < c->n_partitions; i++)
        read_slice(&c->partitions[i], r->sgpu);
}

static void read_partitions(const struct device_card *c, struct card_record *r)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        if (!sgpu_is_declared(c, &c->partitions[i]))
            continue;
        const char *profile = c->partitions[i].profile ? c->partitions[i].profile : "unknown";
        struct profile_count *pc = NULL;
        for (size_t k = 0; k < r->n_partitions && !pc; k++)
            if (strcmp(r->partitions[k].profile, profile) == 0)
                pc = &r->partitions[k];
        if (!pc) {
            pc = XPUSH(r->partitions, r->n_partitions);
            pc->profile = xstrdup(profile);
        }
        pc->count++;
    }
}

/* Of the pod that holds the share, once the kubelet has named it. */
static void read_breaches(const struct device_card *c, struct card_record *r)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        const struct device_consumer *of = p->n_in_use_by ? p->in_use_by : NULL;
        if (p->has_breach && of && of->namespace && of->name)
            *XPUSH(r->breaches, r->n_breaches) = (struct breach_record){
                .since_ms = p->breach.since_ms,
                .ns = xstrdup(of->namespace),
                .pod = xstrdup(of->name),
                .container = xstrdup(of->container),
                .reason = xstrdup(p->breach.reason),
                .message = xstrdup(p->breach.message),
            };
    }
}

static uint32_t pci_id(const char *text)
{
    uint32_t id = 0;
    return text && num_parse_hex32(text, &id, NULL) == 0 ? id : 0;
}

static char *text_or_empty(const char *s)
{
    return xstrdup(s ? s : "");
}

static uint64_t links_of(const struct device_card *c)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < c->n_linked_with; i++)
        if (c->linked_with[i] < 64)
            bits |= UINT64_C(1) << c->linked_with[i];
    return bits;
}

static void read_illness(const struct device_card *c, struct card_record *r)
{
    const struct condition *why = condition_get(&c->conditions, "Healthy");
    if (c->healthy || !why)
        return;
    r->ill_reason = xstrdup(why->reason);
    r->ill_message = xstrdup(why->message);
    r->ill_since_ms = why->last_transition_ms;
}

void card_record_read(const struct device_card *c, const struct mig_table *t,
                      struct card_record *ret)
{
    *ret = (struct card_record){
        .uuid = xstrdup(c->uuid),
        .vendor = text_or_empty(c->vendor),
        .model = text_or_empty(c->model),
        .pci_bus_id = text_or_empty(c->pci_bus_id),
        .pci_device_id = pci_id(c->pci_device_id),
        .pci_subsystem_id = pci_id(c->pci_subsystem_id),
        .index = (unsigned)c->index,
        .mig_capable = c->mig_capable,
        .healthy = c->healthy,
        .mode = c->mode,
        .pending = c->has_pending_mode,
        .memory_mib = c->memory_mib,
        .minor = c->has_minor ? c->minor : -1,
        .numa_node = (int)c->numa_node,
        .pcie_root = xstrdup(c->pcie_root),
        .linked = links_of(c),
    };
    read_illness(c, ret);
    read_partitions(c, ret);
    card_use_read(c, t, &ret->use);
    read_sgpu(c, ret);
    condition_record_read(&c->conditions, "Applied", &ret->applied);
    read_drain(c, ret);
    read_breaches(c, ret);
}

/* Calls fn for every text of a card that other cards probably have too. */
static void each_text(struct card_record *r, shared_text_fn *fn)
{
    fn(&r->vendor);
    fn(&r->model);
    fn(&r->pci_bus_id);
    fn(&r->pcie_root);
    fn(&r->ill_reason);
    fn(&r->ill_message);
    fn(&r->applied.reason);
    fn(&r->applied.message);
}

void card_record_share(struct card_record *r)
{
    each_text(r, shared_text_make);
    shared_counts_make(&r->partitions, r->n_partitions);
    shared_counts_make(&r->use.grants, r->use.n_grants);
}

void card_record_unshare(struct card_record *r)
{
    each_text(r, shared_text_drop);
    shared_counts_drop(&r->partitions, &r->n_partitions);
    shared_counts_drop(&r->use.grants, &r->use.n_grants);
}

void card_record_done(struct card_record *r)
{
    free(r->uuid);
    free(r->vendor);
    free(r->model);
    free(r->pci_bus_id);
    free(r->pcie_root);
    free(r->ill_reason);
    free(r->ill_message);
    for (size_t i = 0; i < r->n_partitions; i++)
        free(r->partitions[i].profile);
    free(r->partitions);
    card_use_done(&r->use);
    free(r->sgpu);
    condition_record_done(&r->applied);
    for (size_t i = 0; i < r->n_drain_pods; i++) {
        free(r->drain_pods[i].uid);
        free(r->drain_pods[i].ns);
        free(r->drain_pods[i].name);
    }
    free(r->drain_pods);
    for (size_t i = 0; i < r->n_breaches; i++) {
        free(r->breaches[i].ns);
        free(r->breaches[i].pod);
        free(r->breaches[i].container);
        free(r->breaches[i].reason);
        free(r->breaches[i].message);
    }
    free(r->breaches);
}

void records_card_view(const struct card_record *card, struct resolve_card *ret)
{
    *ret = (struct resolve_card){
        .uuid = card->uuid,
        .vendor = card->vendor,
        .model = card->model,
        .pci_bus_id = card->pci_bus_id,
        .pci_device_id = card->pci_device_id,
        .pci_subsystem_id = card->pci_subsystem_id,
        .index = card->index,
        .mig_capable = card->mig_capable,
        .healthy = card->healthy,
        .mode = card->mode,
        .sgpu = card->sgpu,
        .partitions = card->partitions,
        .n_partitions = card->n_partitions,
    };
}
