/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/status_card.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "partition/mig_part.h"
#include "partition/model.h"
#include "partition/vendor.h"
#include "service/conditions.h"

struct mig_table *status_card_table(const struct device_status *st, const struct device_card *card)
{
    const struct device_model *m = card->model ? device_status_model(st, card->model) : NULL;
    auto_free struct mig_table *t = xmalloc(sizeof(*t));
    if (!m || !m->n_mig_profiles || model_to_table(m, t, NULL) < 0)
        return NULL;
    return TAKE(t);
}

char *status_card_title(const char *vendor, int64_t index)
{
    auto_free char *title = xasprintf("%s GPU %lld", vendor_title(vendor), (long long)index);
    return safe_text(title);
}

static void copy(char *to, size_t bytes, const char *from)
{
    (void)snprintf(to, bytes, "%s", from ? from : "");
}

/* --- Users --- */

static void add_user(const struct device_consumer *by, int part, int ci, struct gpu_card *ret)
{
    struct gpu_user u = {.is_pod = by->name, .pid = (unsigned)by->pid, .part = part, .ci = ci};
    if (by->name)
        (void)snprintf(u.name, sizeof(u.name), "%s/%s", by->namespace ? by->namespace : "",
                       by->name);
    else
        copy(u.name, sizeof(u.name), by->process);
    ret->users = xreallocarray(ret->users, ret->n_users + 1, sizeof(u));
    ret->users[ret->n_users++] = u;
}

/* Somebody uses it, and nobody knows who. */
static void add_users(const struct device_consumer *list, size_t n, bool in_use, int part, int ci,
                      struct gpu_card *ret)
{
    static const struct device_consumer somebody;
    for (size_t i = 0; i < n; i++)
        add_user(&list[i], part, ci, ret);
    if (in_use && n == 0)
        add_user(&somebody, part, ci, ret);
}

/* --- MIG --- */

static struct mig_instance *instance_of(struct mig_state *s, unsigned gi_id)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->items[i].gi_id == gi_id)
            return &s->items[i];
    if (s->n == MIG_MAX_INSTANCES)
        return NULL;
    s->items[s->n] = (struct mig_instance){.profile = MIG_NO_PROFILE, .gi_id = gi_id};
    return &s->items[s->n++];
}

static void add_compute_instance(const struct device_partition *p, unsigned slices,
                                 unsigned instance, struct gpu_card *ret)
{
    struct mig_instance *in = &ret->state.items[instance];
    if (in->n_cis == MIG_MAX_CIS || ret->n_partitions == GPU_MAX_PARTITIONS)
        return;
    in->cis[in->n_cis] =
        (struct mig_ci){.id = (unsigned)p->ci_id, .slices = slices, .in_use = p->in_use};
    struct gpu_partition *to = &ret->partitions[ret->n_partitions++];
    *to = (struct gpu_partition){.gi_id = in->gi_id,
                                 .ci_id = (unsigned)p->ci_id,
                                 .instance = instance,
                                 .ci = in->n_cis++,
                                 .ci_start = -1,
                                 .mig_index = -1,
                                 .healthy = !p->has_unhealthy};
    copy(to->uuid, sizeof(to->uuid), p->uuid);
}

static void read_instance(const struct device_partition *p, struct gpu_card *ret)
{
    unsigned start;
    unsigned size;
    unsigned ci_slices;
    if (!mig_part_place(p->placement, &start, &size))
        return;
    struct mig_instance *in = instance_of(&ret->state, (unsigned)p->gi_id);
    if (!in)
        return;
    in->profile = mig_part_profile(&ret->mig, p->profile, &ci_slices);
    in->start = start;
    in->size = size;
    in->in_use |= p->in_use;
    unsigned whole = in->profile == MIG_NO_PROFILE ? 1 : ret->mig.profiles[in->profile].slices;
    if (p->has_ci_id)
        add_compute_instance(p, ci_slices ? ci_slices : whole, (unsigned)(in - ret->state.items),
                             ret);
    add_users(p->in_use_by, p->n_in_use_by, p->in_use, (int)p->gi_id,
              p->has_ci_id ? (int)p->ci_id : -1, ret);
}

/* --- Slices, and what uses the card as a whole --- */

static void read_slice(const struct device_partition *p, struct gpu_card *ret)
{
    struct sgpu_state *s = &ret->sgpu;
    if (s->n == SGPU_MAX_SLICES)
        return;
    struct sgpu_slice *to = &s->items[s->n];
    *to = (struct sgpu_slice){.id = (unsigned)p->slice.id,
                              .quota = {(unsigned)p->slice.memory_mib,
                                        (unsigned)p->slice.compute_percent},
                              .in_use = p->in_use,
                              .foreign = p->slice.foreign};
    copy(to->alias, sizeof(to->alias), p->slice.alias);
    ret->slices[s->n] = (struct gpu_slice){.minor = UINT_MAX, .healthy = !p->has_unhealthy};
    copy(ret->slices[s->n].uuid, sizeof(ret->slices[s->n].uuid), p->uuid);
    s->n++;
    add_users(p->in_use_by, p->n_in_use_by, p->in_use, (int)p->slice.id, -1, ret);
}

static void read_part(const struct device_partition *p, struct gpu_card *ret)
{
    if (ret->mode == GPU_MIG && p->has_gi_id)
        read_instance(p, ret);
    else if (ret->mode == GPU_SGPU && p->has_slice)
        read_slice(p, ret);
    else
        add_users(p->in_use_by, p->n_in_use_by, p->in_use, -1, -1, ret);
}

static void read_identity(const struct device_card *from, struct gpu_card *ret)
{
    const struct vendor *vendor = from->vendor ? vendor_find(from->vendor) : NULL;
    const struct condition *ill = condition_get(&from->conditions, "Healthy");
    ret->vendor = vendor ? vendor->name : "";
    copy(ret->uuid, sizeof(ret->uuid), from->uuid);
    copy(ret->model, sizeof(ret->model), from->model);
    ret->index = (unsigned)from->index;
    ret->memory_mib = (uint64_t)from->memory_mib;
    ret->healthy = from->healthy;
    copy(ret->unhealthy_message, sizeof(ret->unhealthy_message),
         ill && ill->message ? ill->message : "the card is not healthy");
    ret->mig_capable = from->mig_capable;
    ret->mode = (enum gpu_mode)from->mode;
    ret->pending_mode = (enum gpu_mode)(from->has_pending_mode ? from->pending_mode : from->mode);
}

void status_card_read(const struct device_card *from, const struct mig_table *table,
                      struct gpu_card *ret)
{
    *ret = (struct gpu_card){.minor = UINT_MAX, .numa_node = -1};
    read_identity(from, ret);
    if (table)
        ret->mig = *table;
    ret->sgpu_capable = from->has_sgpu;
    if (from->has_sgpu)
        ret->sgpu = (struct sgpu_state){.memory_mib = (unsigned)from->sgpu.memory_mib,
                                        .qos = from->sgpu.qos_policy,
                                        .timeslice_ms = (unsigned)from->sgpu.timeslice_ms};
    for (size_t i = 0; i < from->n_partitions; i++)
        read_part(&from->partitions[i], ret);
    add_users(from->in_use_by, from->n_in_use_by, from->in_use && from->n_partitions == 0, -1, -1,
              ret);
}
