/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/status.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "controller/conditions.h"
#include "nodeagent/card_part.h"
#include "nodeagent/device_table.h"
#include "nodeagent/gpu_labels.h"
#include "nodeagent/plugin_config.h"
#include "partition/model.h"
#include "partition/vendor.h"

enum { TEXT_BYTES = 1000, MAX_CONSUMERS = 64 };

void card_view_done(struct card_view *v)
{
    gpu_card_done(&v->card);
    free(v->pods);
    *v = (struct card_view){0};
}

/* Slices that are made for pods are all of one kind, whatever they got. */
static void part_name_of(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    bool slot = p->slice && !p->slice->foreign && sgpu_slot_of(p->slice->alias) >= 0;
    if (!card_part_kind(card, p, buf))
        (void)snprintf(buf, MIG_NAME_BYTES, slot ? "sgpu" : "unknown");
}

static int api_mode_of(enum gpu_mode mode)
{
    static const int modes[] = {[GPU_NATIVE] = API_MODE_NATIVE,
                                [GPU_MIG] = API_MODE_MIG,
                                [GPU_SGPU] = API_MODE_SGPU,
                                [GPU_VGPU] = API_MODE_VGPU};
    return modes[mode];
}

static int mode_of(const struct gpu_card *card)
{
    return api_mode_of(card->mode);
}

/* --- The resolver's view --- */

void card_resolve_view(const struct gpu_card *card, struct resolve_card *ret,
                       struct profile_count **counts)
{
    size_t n = 0;
    *counts = NULL;
    for (unsigned i = 0; i < card_parts(card); i++) {
        char name[MIG_NAME_BYTES];
        const struct card_part part = card_part_at(card, i);
        part_name_of(card, &part, name);
        if (part.slice && !card_part_kind(card, &part, name))
            continue; /* a pod's, or nobody's that we know */
        struct profile_count *pc = NULL;
        for (size_t k = 0; k < n && !pc; k++)
            if (strcmp((*counts)[k].profile, name) == 0)
                pc = &(*counts)[k];
        if (!pc) {
            pc = XPUSH(*counts, n);
            pc->profile = xstrdup(name);
        }
        pc->count++;
    }
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
        .mode = mode_of(card),
        .table = card->mig.n_profiles ? &card->mig : NULL,
        .sgpu = card->sgpu_capable ? &card->sgpu : NULL,
        .partitions = *counts,
        .n_partitions = n,
    };
}

void card_resolve_counts_free(struct profile_count *counts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(counts[i].profile);
    free(counts);
}

char *card_layout_words(const struct gpu_card *card)
{
    if (card->mode == GPU_NATIVE)
        return xstrdup("whole");
    struct resolve_card view;
    struct profile_count *counts;
    card_resolve_view(card, &view, &counts);
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < view.n_partitions; i++)
        sb_addf(&text, "%s%lldx%s", i ? " " : "", (long long)counts[i].count, counts[i].profile);
    card_resolve_counts_free(counts, view.n_partitions);
    if (text.len)
        return sb_take(&text);
    return xstrdup(card->mode == GPU_SGPU ? "slices made for pods" : "nothing cut");
}

int card_wish_of(const struct gpu_card *card, const struct device_want *want, struct card_wish *ret,
                 struct err *e)
{
    static const enum gpu_mode modes[] = {[API_MODE_NATIVE] = GPU_NATIVE,
                                          [API_MODE_MIG] = GPU_MIG,
                                          [API_MODE_SGPU] = GPU_SGPU,
                                          [API_MODE_VGPU] = GPU_VGPU};
    struct card_wish wish = {.mode = modes[want->mode]};
    const struct vendor *v = vendor_find(card->vendor);
    if (want->has_sharing && want->sharing.has_mps && !(v && v->has_mps))
        return err_set(e, ERR_INVALID, "MPS is a service of NVIDIA's driver");
    struct mig_request requests[MIG_MAX_WANTS];
    size_t n = want->mode == API_MODE_MIG ? want->mig.n_profiles : 0;
    if (n > ARRAY_LEN(requests))
        return err_set(e, ERR_INVALID, "%zu kinds of partitions are more than is known", n);
    for (size_t i = 0; i < n; i++)
        requests[i] = (struct mig_request){want->mig.profiles[i].profile,
                                           (unsigned)want->mig.profiles[i].count};
    if (n)
        TRY(mig_resolve(&card->mig, requests, n, &wish.wants, e));
    if (want->mode == API_MODE_SGPU)
        TRY(sgpu_wants_of(&want->sgpu, &wish.sgpu, e));
    *ret = wish;
    return 0;
}

/* --- One card --- */

static const struct card_memo *memo_of(const struct node_state *s, const char *uuid)
{
    for (size_t i = 0; i < s->n_memos; i++)
        if (strcmp(s->memos[i].uuid, uuid) == 0)
            return &s->memos[i];
    return NULL;
}

static const struct device_want *want_of(const struct node_state *s, const char *uuid)
{
    for (size_t i = 0; s->spec && i < s->spec->n_devices; i++)
        if (strcmp(s->spec->devices[i].uuid, uuid) == 0)
            return &s->spec->devices[i];
    return NULL;
}

/* XPUSH writes the count. NOLINTBEGIN(readability-non-const-parameter) */
static void add_consumer(const struct card_view *v, unsigned i, struct device_consumer **list,
                         size_t *n)
{
    const struct gpu_process *p = &v->card.processes[i];
    if (*n == MAX_CONSUMERS || !p->pid)
        return;
    struct device_consumer *c = XPUSH(*list, *n);
    c->pid = p->pid;
    c->process = *p->name ? xstrdup(p->name) : NULL;
    c->uid = v->pods && *v->pods[i].pod_uid ? xstrdup(v->pods[i].pod_uid) : NULL;
}

/* The pods that were given the card, or the part p. True: somebody was, also one whose name is not
 * known yet. */
static bool add_holders(const struct node_state *s, const struct gpu_card *card,
                        const struct card_part *p, struct device_consumer **list, size_t *n)
{
    char id[DEVICE_ID_BYTES];
    const struct holder *h;
    if (!s->holders)
        return false;
    device_id(card, p, id);
    for (size_t i = 0; (h = holders_get(s->holders, id, i)) && *n < MAX_CONSUMERS; i++) {
        struct device_consumer *c = XPUSH(*list, *n);
        c->namespace = xstrdup(h->ns);
        c->name = xstrdup(h->pod);
        c->uid = xstrdup(h->uid);
        c->container = xstrdup(h->container);
    }
    return holders_has(s->holders, id);
}
/* NOLINTEND(readability-non-const-parameter) */

static void build_illness(const struct health *h, const char *uuid, unsigned gi_id,
                          struct device_partition *to)
{
    const char *reason = NULL;
    const char *message = NULL;
    if (!h || !health_instance(h, uuid, gi_id, &reason, &message))
        return;
    to->has_unhealthy = true;
    to->unhealthy.reason = xstrdup(reason);
    to->unhealthy.message = xstrdup(message);
}

static void build_mig_device(const struct card_view *v, const struct gpu_partition *from,
                             struct device_partition *to)
{
    const struct mig_instance *inst = &v->card.state.items[from->instance];
    to->uuid = *from->uuid ? xstrdup(from->uuid)
                           : xasprintf("%s/%u/%u", v->card.uuid, from->gi_id, from->ci_id);
    to->has_gi_id = true;
    to->gi_id = from->gi_id;
    to->has_ci_id = true;
    to->ci_id = from->ci_id;
    to->placement = xasprintf("%u:%u", inst->start, inst->size);
    to->in_use = inst->cis[from->ci].in_use;
}

static void build_slice(const struct card_view *v, const struct card_part *from,
                        struct device_partition *to)
{
    const struct sgpu_slice *s = from->slice;
    to->uuid =
        *from->device->uuid ? xstrdup(from->device->uuid) : xasprintf("%s/%u", v->card.uuid, s->id);
    to->has_slice = true;
    to->slice = (struct device_slice){
        .id = s->id,
        .alias = *s->alias ? xstrdup(s->alias) : NULL,
        .memory_mib = s->quota.memory_mib,
        .compute_percent = s->quota.compute_percent,
        .foreign = s->foreign,
    };
    to->in_use = s->in_use;
}

static void build_vf(const struct card_view *v, const struct gpu_vf *from,
                     struct device_partition *to)
{
    to->uuid = *from->uuid ? xstrdup(from->uuid)
                           : xasprintf("%s/" CARD_PART_VF "@%u", v->card.uuid, from->number);
    to->has_vf = true;
    to->vf = (struct device_vf){
        .index = from->number,
        .pci_bus_id = xstrdup(from->pci_bus_id),
        .memory_mib = (int64_t)from->memory_mib,
    };
    to->in_use = from->in_use;
    to->has_unhealthy = !from->healthy;
    if (!to->has_unhealthy)
        return;
    to->unhealthy.reason = xstrdup("NotAvailable");
    to->unhealthy.message = xstrdup(from->unhealthy_message);
}

static void build_part(const struct node_state *s, const struct card_view *v,
                       const struct card_part *from, struct device_partition *to)
{
    char name[MIG_NAME_BYTES];
    part_name_of(&v->card, from, name);
    to->profile = xstrdup(name);
    if (from->slice)
        build_slice(v, from, to);
    else if (from->vf)
        build_vf(v, from->vf, to);
    else
        build_mig_device(v, from->mig, to);
    bool held = add_holders(s, &v->card, from, &to->in_use_by, &to->n_in_use_by);
    for (unsigned i = 0; i < v->card.n_processes; i++)
        if (card_part_is_used_by(from, &v->card.processes[i]))
            add_consumer(v, i, &to->in_use_by, &to->n_in_use_by);
    to->in_use |= to->n_in_use_by || held;
}

/* A GPU instance that has no compute instance is no device for a workload, but takes its place on
 * the card. */
static void build_bare_instance(const struct card_view *v, const struct mig_instance *from,
                                struct device_partition *to)
{
    to->uuid = xasprintf("%s/%u", v->card.uuid, from->gi_id);
    to->profile = xstrdup(
        from->profile == MIG_NO_PROFILE ? "unknown" : v->card.mig.profiles[from->profile].name);
    to->has_gi_id = true;
    to->gi_id = from->gi_id;
    to->placement = xasprintf("%u:%u", from->start, from->size);
    to->in_use = from->in_use;
}

/* Those with a UUID first, in the order of card_part_at. */
static void build_partitions(const struct node_state *s, const struct card_view *v,
                             struct device_card *to)
{
    for (unsigned i = 0; i < card_parts(&v->card); i++) {
        const struct card_part part = card_part_at(&v->card, i);
        build_part(s, v, &part, XPUSH(to->partitions, to->n_partitions));
    }
    for (unsigned i = 0; i < v->card.state.n; i++)
        if (v->card.state.items[i].n_cis == 0)
            build_bare_instance(v, &v->card.state.items[i],
                                XPUSH(to->partitions, to->n_partitions));
    for (size_t i = 0; i < to->n_partitions; i++)
        if (to->partitions[i].has_gi_id)
            build_illness(s->health, v->card.uuid, (unsigned)to->partitions[i].gi_id,
                          &to->partitions[i]);
}

static void build_sgpu(const struct gpu_card *from, struct device_card *to)
{
    to->has_sgpu = from->sgpu_capable;
    if (to->has_sgpu)
        to->sgpu = (struct device_sgpu_state){.memory_mib = from->sgpu.memory_mib,
                                              .qos_policy = from->sgpu.qos,
                                              .timeslice_ms = from->sgpu.timeslice_ms};
}

static void build_identity(const struct gpu_card *from, struct device_card *to)
{
    to->uuid = xstrdup(from->uuid);
    to->index = from->index;
    to->has_minor = from->minor != UINT_MAX;
    to->minor = from->minor;
    to->vendor = xstrdup(from->vendor);
    to->model = *from->model ? xstrdup(from->model) : NULL;
    to->pci_bus_id = *from->pci_bus_id ? xstrdup(from->pci_bus_id) : NULL;
    if (from->pci_device_id)
        to->pci_device_id = xasprintf("0x%08X", from->pci_device_id);
    if (from->pci_subsystem_id)
        to->pci_subsystem_id = xasprintf("0x%08X", from->pci_subsystem_id);
    to->pcie_root = *from->pcie_root ? xstrdup(from->pcie_root) : NULL;
    to->numa_node = from->numa_node;
    to->memory_mib = (int64_t)from->memory_mib;
    to->healthy = from->healthy;
    to->mig_capable = from->mig_capable;
    to->mode = mode_of(from);
    to->has_pending_mode = from->pending_mode != from->mode;
    to->pending_mode = api_mode_of(from->pending_mode);
}

struct applied {
    enum condition_status status;
    const char *reason;
    const char *message;
};

static bool drain_timed_out(const struct card_memo *m, int64_t now_ms)
{
    return m->drain_deadline_ms && now_ms >= m->drain_deadline_ms;
}

static const char *in_use_reason(const struct device_want *want, const struct card_memo *m,
                                 int64_t now_ms)
{
    if (!want || !want->has_rollout || want->rollout.drain != API_DRAIN_EVICT)
        return "InUse";
    return drain_timed_out(m, now_ms) ? "DrainTimeout" : "Draining";
}

static const char *unsupported_reason(const struct device_want *want)
{
    return want && want->mode == API_MODE_SGPU ? "SGPUUnsupported" : "MIGUnsupported";
}

const char *card_result_reason(const struct device_want *want, const struct card_memo *m,
                               int64_t now_ms)
{
    switch (m->result.outcome) {
    case TXN_APPLIED:
    case TXN_NOTHING_TO_DO:
        return "Applied";
    case TXN_IN_USE:
        return in_use_reason(want, m, now_ms);
    case TXN_ROLLED_BACK:
        return "RolledBack";
    case TXN_HELD:
        return "Held";
    case TXN_NOT_WITHDRAWN:
        return "NotWithdrawn";
    case TXN_INFEASIBLE:
        return strcmp(m->result.reason, "NotCapable") == 0 ? unsupported_reason(want)
               : *m->result.reason                         ? m->result.reason
                                                           : "Infeasible";
    case TXN_RESET_REQUIRED:
        return "ResetRequired";
    case TXN_REBOOT_REQUIRED:
        return "RebootRequired";
    case TXN_FAILED:
        return m->result.other_version ? "OtherVersion" : "ApplyFailed";
    }
    return "ApplyFailed";
}

static struct applied applied_of(const struct device_want *want, const struct card_memo *m,
                                 int64_t now_ms)
{
    if (!m || m->progress == PROGRESS_NONE || m->progress == PROGRESS_PENDING)
        return (struct applied){CONDITION_FALSE, "Progressing", "a change is under way"};
    if (m->progress == PROGRESS_REFUSED)
        return (struct applied){CONDITION_FALSE, m->refusal_reason, m->refusal};
    bool good = m->result.outcome == TXN_APPLIED || m->result.outcome == TXN_NOTHING_TO_DO;
    return (struct applied){good ? CONDITION_TRUE : CONDITION_FALSE,
                            card_result_reason(want, m, now_ms),
                            good ? "the hardware is as wanted" : m->result.message};
}

/* True while a card that an earlier agent brought to this very spec shows it still and has not been
 * worked on yet: a restart is no reason to call it in change. */
static bool still_applied(const struct conditions *prev, const struct card_view *v,
                          const struct device_want *want, const struct card_memo *m,
                          int64_t generation)
{
    const struct condition *c = condition_get(prev, "Applied");
    if (!c || c->status != CONDITION_TRUE || c->observed_generation != generation ||
        (m && m->progress != PROGRESS_NONE && m->progress != PROGRESS_PENDING))
        return false;
    struct resolve_card view;
    struct profile_count *counts;
    card_resolve_view(&v->card, &view, &counts);
    bool matches = resolve_card_matches(&view, want);
    card_resolve_counts_free(counts, view.n_partitions);
    return matches;
}

/* Its neighbours in the same GPU instance may stay. */
static bool takes_mig_device(const struct card_steps *steps, const struct gpu_partition *p)
{
    for (unsigned i = 0; i < steps->n; i++) {
        const struct card_step *s = &steps->items[i];
        if (s->kind == CARD_CI_DESTROY && s->gi_id == p->gi_id && s->ci_id == p->ci_id)
            return true;
    }
    return false;
}

/* Must the i-th part be free first? A slice also where only the terms of the card change. Virtual
 * functions go by nobody's hand here. */
static bool must_be_free(const struct card_plan *plan, const struct card_part *p, unsigned i)
{
    if (p->slice)
        return plan->steps.blocking & (1U << i);
    return p->mig && takes_mig_device(&plan->steps, p->mig);
}

/* By a pod that was given the card, however it is cut. */
static bool held_as_a_whole(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_processes; i++)
        if (!card->processes[i].pid && card->processes[i].gi_id < 0)
            return true;
    return false;
}

/* One that took too long clears nobody's way any more, but remembers how long it was. */
static void build_drain(const struct card_view *v, const struct device_want *want,
                        const struct card_memo *m, int64_t now_ms, struct device_card *to)
{
    struct card_wish wish;
    if (card_wish_of(&v->card, want, &wish, NULL) < 0)
        return;
    to->has_drain = true;
    to->drain.since_ms = m->drain_since_ms;
    to->drain.deadline_ms = m->drain_deadline_ms;
    if (drain_timed_out(m, now_ms))
        return;
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    card_plan(&v->card, &wish, plan);
    to->drain.card = plan->steps.card_blocking;
    for (unsigned i = 0; i < card_parts(&v->card); i++) {
        const struct card_part part = card_part_at(&v->card, i);
        if (!must_be_free(plan, &part, i) || !to->partitions[i].in_use)
            continue;
        to->drain.card |= held_as_a_whole(&v->card);
        *XPUSH(to->drain.partitions, to->drain.n_partitions) = xstrdup(to->partitions[i].uuid);
    }
}

/* A deep copy. */
static void copy_status(const struct device_status *from, struct device_status *ret)
{
    auto_json json_t *json = device_status_encode(from);
    if (jx_decode(json, device_status_fields, ret, NULL) < 0)
        *ret = (struct device_status){0}; /* it held more than the schema takes */
}

/* As it was said last. False: it cannot be told any more. */
static bool keep_card(const struct device_card *last, struct device_card *to)
{
    struct device_card bare = *last;
    const struct device_status holder = {.devices = &bare, .n_devices = 1};
    auto_device_status struct device_status copy = {0};
    copy_status(&holder, &copy);
    if (copy.n_devices == 0)
        return false;
    *to = copy.devices[0];
    copy.n_devices = 0;
    to->healthy = false;
    to->has_drain = false;
    return true;
}

static void show_card(const struct node_state *s, const struct card_view *v,
                      const struct device_card *prev, struct device_card *to)
{
    build_identity(&v->card, to);
    build_sgpu(&v->card, to);
    bool held = add_holders(s, &v->card, /* p= */ NULL, &to->in_use_by, &to->n_in_use_by);
    for (unsigned i = 0; i < v->card.n_processes; i++)
        if (v->card.processes[i].gi_id < 0)
            add_consumer(v, i, &to->in_use_by, &to->n_in_use_by);
    to->in_use = to->n_in_use_by || held;
    build_partitions(s, v, to);
    if (prev)
        conditions_copy(&to->conditions, &prev->conditions);
}

/* A card that could not be read even once since we started is shown as it was said last, and not at
 * all when nothing was: a whole card that nobody uses is what it must not be taken for. */
static bool is_known(const struct gpu_card *card, const struct device_status *prev)
{
    return *card->uuid && (!card->unread || (prev && device_status_card(prev, card->uuid)));
}

/* Of a card that works there is nothing to say: the object is large as it is. */
static void build_health(const struct gpu_card *card, int64_t generation, int64_t now_ms,
                         struct device_card *to)
{
    const char *message = NULL;
    const char *notice = vitals_notice(&card->vitals, &message);
    if (!card->healthy)
        (void)condition_set(&to->conditions, "Healthy", CONDITION_FALSE,
                            *card->unhealthy_reason ? card->unhealthy_reason : "Unhealthy",
                            card->unhealthy_message, generation, now_ms);
    else if (notice)
        (void)condition_set(&to->conditions, "Healthy", CONDITION_TRUE, notice, message, generation,
                            now_ms);
    else
        (void)condition_remove(&to->conditions, "Healthy");
}

static void build_watched(const struct card_view *v, int64_t generation, int64_t now_ms,
                          struct device_card *to)
{
    if (v->unwatched)
        (void)condition_set(&to->conditions, "Watched", CONDITION_FALSE, "EventsUnsupported",
                            "the driver does not report events of this card; only readings, each "
                            "resync interval, tell of its health",
                            generation, now_ms);
    else
        (void)condition_remove(&to->conditions, "Watched");
}

static const char *unended_reason(const struct unended_card *u)
{
    return u->waits ? "OtherVersion" : "Progressing";
}

/* Of a card that nobody wants to be anything there is nothing to say, but that a change of it is
 * not over. */
static void build_unended(const struct node_state *s, const char *uuid, int64_t now_ms,
                          struct device_card *to)
{
    const struct unended_card *u = unended_find(s->unended, uuid);
    if (u)
        (void)condition_set(&to->conditions, "Applied", CONDITION_FALSE, unended_reason(u), u->why,
                            s->generation, now_ms);
    else
        (void)condition_remove(&to->conditions, "Applied");
}

static void build_card(const struct node_state *s, const struct card_view *v,
                       const struct device_card *prev, int64_t now_ms, struct device_card *to)
{
    if (!v->card.unread || !prev || !keep_card(prev, to))
        show_card(s, v, prev, to);
    build_health(&v->card, s->generation, now_ms, to);
    build_watched(v, s->generation, now_ms, to);
    const struct device_want *want = want_of(s, v->card.uuid);
    if (!want) {
        build_unended(s, v->card.uuid, now_ms, to);
        return;
    }
    const struct card_memo *m = memo_of(s, v->card.uuid);
    if (!still_applied(&to->conditions, v, want, m, s->generation)) {
        struct applied a = applied_of(want, m, now_ms);
        (void)condition_set(&to->conditions, "Applied", a.status, a.reason, a.message,
                            s->generation, now_ms);
    }
    if (m && m->progress == PROGRESS_DONE && m->result.outcome == TXN_IN_USE)
        build_drain(v, want, m, now_ms, to);
}

/* --- The node --- */

static void build_models(const struct node_state *s, struct device_status *ret)
{
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (card->unread || !*card->model || device_status_model(ret, card->model))
            continue;
        model_from_table(card->model, &card->mig, XPUSH(ret->models, ret->n_models));
    }
}

/* The models of cards that are shown as they were said last. */
static void keep_models(const struct device_status *prev, struct device_status *ret)
{
    auto_device_status struct device_status copy = {0};
    copy_status(prev, &copy);
    for (size_t i = 0; i < copy.n_models; i++) {
        bool shown = false;
        for (size_t k = 0; k < ret->n_devices && !shown; k++)
            shown =
                ret->devices[k].model && strcmp(ret->devices[k].model, copy.models[i].name) == 0;
        if (!shown || device_status_model(ret, copy.models[i].name))
            continue;
        *XPUSH(ret->models, ret->n_models) = copy.models[i];
        copy.models[i] = (struct device_model){0};
    }
}

struct tally {
    char *name;
    int64_t count;
};

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void tally_add(struct tally **list, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*list)[i].name, name) == 0) {
            (*list)[i].count++;
            return;
        }
    }
    struct tally *t = XPUSH(*list, *n);
    *t = (struct tally){xstrdup(name), 1};
}

/* "14x1g.10gb 7x2g.20gb 1xgpu": joins and frees a tally. */
static char *tally_text(struct tally *list, size_t n, const char *times, const char *separator)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < n; i++) {
        sb_addf(&text, "%s%lld%s%s", i ? separator : "", (long long)list[i].count, times,
                list[i].name);
        free(list[i].name);
    }
    free(list);
    return sb_take(&text);
}

static int by_tally_name(const void *a, const void *b)
{
    return strcmp(((const struct tally *)a)->name, ((const struct tally *)b)->name);
}

static void build_summary(struct device_status *ret)
{
    struct tally *models = NULL;
    struct tally *layout = NULL;
    size_t n_models = 0;
    size_t n_layout = 0;
    ret->has_summary = true;
    ret->summary.gpus = (int64_t)ret->n_devices;
    for (size_t i = 0; i < ret->n_devices; i++) {
        const struct device_card *c = &ret->devices[i];
        tally_add(&models, &n_models, c->model ? c->model : "unknown");
        if (c->mode == API_MODE_NATIVE)
            tally_add(&layout, &n_layout, "gpu");
        else if (!c->n_partitions)
            tally_add(&layout, &n_layout, "empty");
        ret->summary.in_use += c->in_use;
        ret->summary.partitions += (int64_t)c->n_partitions;
        for (size_t k = 0; k < c->n_partitions; k++) {
            tally_add(&layout, &n_layout, c->partitions[k].profile);
            ret->summary.in_use += c->partitions[k].in_use;
        }
    }
    if (n_layout)
        qsort(layout, n_layout, sizeof(*layout), by_tally_name);
    ret->summary.models = tally_text(models, n_models, "x ", ", ");
    ret->summary.layout = tally_text(layout, n_layout, "x", " ");
}

/* Is the plan being carried out, or its way being cleared by eviction? While a card is only waited
 * for, or after a drain that took too long, all of it is offered. */
static bool is_under_way(const struct device_want *want, const struct card_memo *m,
                         const struct card_plan *plan, int64_t now_ms)
{
    bool drains =
        plan->verdict == CARD_DRAIN && strcmp(in_use_reason(want, m, now_ms), "Draining") == 0;
    if (m->progress == PROGRESS_PENDING || m->beginning)
        return plan->verdict == CARD_CHANGE || drains;
    return m->progress == PROGRESS_DONE && m->result.outcome == TXN_IN_USE && drains;
}

/* Takes out what is about to go: offered on, it would be given to the next pod. */
static void withhold(const struct gpu_card *card, const struct device_want *want,
                     const struct card_memo *m, int64_t now_ms, struct card_offer *offer)
{
    struct card_wish wish;
    if (!m || card_wish_of(card, want, &wish, NULL) < 0)
        return;
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    card_plan(card, &wish, plan);
    if (is_under_way(want, m, plan, now_ms))
        card_offer_withdraw(offer, &plan->steps);
}

static bool is_card(const struct gpu_card *card, const char *uuid)
{
    return uuid && strcmp(card->uuid, uuid) == 0;
}

void node_status_offer(const struct node_state *s, size_t i, int64_t now_ms, struct card_offer *ret)
{
    const struct gpu_card *card = &s->cards[i].card;
    const struct device_want *want = want_of(s, card->uuid);
    if (is_card(card, s->busy)) {
        *ret = *s->busy_offer;
        return;
    }
    *ret = (struct card_offer){0};
    if (s->cards[i].outdated)
        return;
    if (want ? want->mode != mode_of(card) : unended_find(s->unended, card->uuid) != NULL)
        return;
    card_offer_of(card, ret);
    if (want)
        withhold(card, want, memo_of(s, card->uuid), now_ms, ret);
}

static const char *const plugin_reasons[] = {
    [PLUGIN_SERVED] = "Served",          [PLUGIN_WAITING] = "KubeletUnavailable",
    [PLUGIN_REFUSED] = "KubeletRefused", [PLUGIN_TOO_LARGE] = "TooManyDevices",
    [PLUGIN_FAILED] = "SocketFailed",    [PLUGIN_NO_CDI] = "CDIFailed",
    [PLUGIN_NO_MPS] = "MPSFailed",
};

/* Only where there is something to say. */
static void build_understood(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    static const char type[] = "ConfigUnderstood";
    if (!s->config || !s->config->n_notices) {
        (void)condition_remove(&ret->conditions, type);
        return;
    }
    auto_free char *text = plugin_config_words(s->config);
    (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "PartlyIgnored", text,
                        s->generation, now_ms);
}

/* Where all is well there is only something to say of a kubelet that is served. */
static void build_published(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    static const char type[] = "ResourcesPublished";
    bool served = s->plugin_text;
    auto_device_table struct device_table table;
    device_table_build(s, now_ms, &table);
    if (served && s->plugin_state != PLUGIN_SERVED)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE,
                            plugin_reasons[s->plugin_state], s->plugin_text, s->generation, now_ms);
    else if (served && table.pods_forbidden)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "PodsForbidden",
                            s->pods_forbidden, s->generation, now_ms);
    else if (served && table.left_out)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, plugin_reasons[PLUGIN_NO_CDI],
                            table.left_out, s->generation, now_ms);
    else if (table.mixed_instead_of_single)
        (void)condition_set(&ret->conditions, type, CONDITION_FALSE, "MixedInsteadOfSingle",
                            "migStrategy single fits only nodes all of whose cards are cut into "
                            "one kind of partition, none of them empty: the names of mixed are "
                            "used",
                            s->generation, now_ms);
    else if (served)
        (void)condition_set(&ret->conditions, type, CONDITION_TRUE, "Served",
                            "the kubelet is served", s->generation, now_ms);
    else
        (void)condition_remove(&ret->conditions, type);
}

static void build_resources(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    auto_device_table struct device_table table;
    device_table_build(s, now_ms, &table);
    device_table_withhold(&table, s->withheld, s->n_withheld);
    device_table_counts(&table, s->publisher, ret);
}

static void build_drivers(const struct node_state *s, struct device_status *ret)
{
    for (size_t i = 0; s->inventory && i < s->inventory->n_drivers; i++) {
        const struct gpu_driver *from = &s->inventory->drivers[i];
        if (!*from->version)
            continue;
        struct device_driver *d = XPUSH(ret->drivers, ret->n_drivers);
        d->vendor = xstrdup(from->vendor);
        d->version = xstrdup(from->version);
        d->cuda_version = *from->cuda_version ? xstrdup(from->cuda_version) : NULL;
    }
}

/* --- Labels --- */

static void copy_labels(const struct device_status *from, struct device_status *ret)
{
    for (size_t i = 0; i < from->n_labels; i++) {
        struct jx_pair *p = XPUSH(ret->labels, ret->n_labels);
        p->key = xstrdup(from->labels[i].key);
        p->str = xstrdup(from->labels[i].str);
    }
}

/* A card that was not read even once since we started could be of any kind, cut in any way. */
static bool has_unread_card(const struct node_state *s)
{
    for (size_t i = 0; i < s->n_cards; i++)
        if (s->cards[i].card.unread)
            return true;
    return false;
}

/* More than the schema takes are not said: half of a resource's labels would be worse than none. */
static void bound_labels(struct device_status *ret)
{
    if (ret->n_labels <= DEVICE_MAX_LABELS)
        return;
    gpu_labels_free(ret->labels, ret->n_labels);
    ret->labels = NULL;
    ret->n_labels = 0;
}

/* While not all of the hardware can be seen, what was said about it stays. */
static void build_labels(const struct node_state *s, const struct device_status *prev,
                         int64_t now_ms, struct device_status *ret)
{
    if (prev && prev->n_labels && (!s->host || (s->inventory && has_unread_card(s)))) {
        copy_labels(prev, ret);
        return;
    }
    auto_free struct gpu_labels_card *cards = xcalloc(s->n_cards, sizeof(*cards));
    struct gpu_labels_input in = {.cards = cards, .host = s->host, .config = s->config};
    if (s->inventory) {
        in.drivers = s->inventory->drivers;
        in.n_drivers = s->inventory->n_drivers;
        in.mig_strategy = share_strategy(s->config, s->spec);
        in.strategy_in_force = device_table_strategy(s, now_ms);
    }
    for (size_t i = 0; s->inventory && i < s->n_cards; i++)
        cards[in.n_cards++] =
            (struct gpu_labels_card){&s->cards[i].card, want_of(s, s->cards[i].card.uuid)};
    gpu_labels_build(&in, &ret->labels, &ret->n_labels);
    if (!s->config || !s->config->no_timestamp)
        gpu_labels_stamp(&ret->labels, &ret->n_labels, prev ? prev->labels : NULL,
                         prev ? prev->n_labels : 0, now_ms / 1000);
    bound_labels(ret);
}

struct verdict {
    enum kstatus state;
    const char *reason;
    char *message; /* owned */
};

static bool is_waiting(const char *reason)
{
    static const char *const waiting[] = {"Progressing", "Draining", "InUse"};
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        if (strcmp(reason, waiting[i]) == 0)
            return true;
    return false;
}

static void take_card(const struct device_card *card, const struct condition *c, struct verdict *v)
{
    enum kstatus state = is_waiting(c->reason) ? KSTATUS_IN_PROGRESS : KSTATUS_STALLED;
    /* While one card is worked on the node is in progress; after that the first card that needs
     * somebody speaks for it. */
    if (v->state == KSTATUS_IN_PROGRESS || (v->state == KSTATUS_STALLED && state == v->state))
        return;
    free(v->message);
    *v = (struct verdict){state, c->reason,
                          xasprintf("GPU %lld: %s", (long long)card->index, c->message)};
}

/* Those that the spec does not speak of: the one that speaks for all, which is one that goes on by
 * itself while there is any, and how many more there are. NULL: there is none. */
static const struct unended_card *first_unended(const struct node_state *s, size_t *ret_more)
{
    const struct unended_card *first = NULL;
    size_t n = 0;
    for (size_t i = 0; s->unended && i < s->unended->n; i++) {
        const struct unended_card *u = &s->unended->items[i];
        if (want_of(s, u->uuid))
            continue;
        n++;
        if (!first || (first->waits && !u->waits))
            first = u;
    }
    *ret_more = n ? n - 1 : 0;
    return first;
}

/* Cards that the spec does not speak of, and whose change is not over. One may be gone from the
 * node, so that this is all that is said of it. */
static void take_unwanted(const struct node_state *s, struct verdict *v)
{
    size_t more;
    const struct unended_card *u = first_unended(s, &more);
    bool busy = s->busy && !want_of(s, s->busy);
    if ((!busy && !u) || v->state == KSTATUS_IN_PROGRESS)
        return;
    free(v->message);
    if (busy) {
        *v = (struct verdict){KSTATUS_IN_PROGRESS, "Progressing",
                              xasprintf("a change of %s that is no longer wanted is being ended",
                                        s->busy)};
        return;
    }
    auto_free char *others =
        more ? xasprintf("; so with %zu more, as the condition Applied of each card says", more)
             : NULL;
    *v = (struct verdict){u->waits ? KSTATUS_STALLED : KSTATUS_IN_PROGRESS, unended_reason(u),
                          xasprintf("%s: %s%s", u->uuid, u->why, others ? others : "")};
}

/* A card that could not be read once, and so is not listed. */
static const struct gpu_card *unknown_card(const struct node_state *s,
                                           const struct device_status *built)
{
    for (size_t i = 0; i < s->n_cards; i++)
        if (!*s->cards[i].card.uuid || !device_status_card(built, s->cards[i].card.uuid))
            return &s->cards[i].card;
    return NULL;
}

/* A card that is wanted and not on the node. */
static const char *missing_card(const struct node_state *s)
{
    for (size_t i = 0; s->spec && i < s->spec->n_devices; i++) {
        bool found = false;
        for (size_t k = 0; k < s->n_cards && !found; k++)
            found = strcmp(s->cards[k].card.uuid, s->spec->devices[i].uuid) == 0;
        if (!found)
            return s->spec->devices[i].uuid;
    }
    return NULL;
}

static struct verdict verdict_of(const struct node_state *s, const struct device_status *built)
{
    struct verdict v = {KSTATUS_CURRENT, "Applied", NULL};
    if (s->stuck_call)
        return (struct verdict){KSTATUS_STALLED, "NVMLTimeout",
                                xasprintf("%s does not answer; the driver may hang (dmesg)",
                                          s->stuck_call)};
    if (s->read_error)
        return (struct verdict){KSTATUS_STALLED, s->read_reason, xstrdup(s->read_error)};
    if (!s->inventory || !s->spec_seen)
        return (struct verdict){KSTATUS_IN_PROGRESS, "Progressing",
                                xstrdup("the hardware is being read")};
    if (s->spec_error)
        return (struct verdict){KSTATUS_STALLED, "Invalid",
                                xasprintf("the spec cannot be read: %s", s->spec_error)};
    for (size_t i = 0; i < built->n_devices; i++) {
        const struct condition *c = condition_get(&built->devices[i].conditions, "Applied");
        if (c && c->status != CONDITION_TRUE && want_of(s, built->devices[i].uuid))
            take_card(&built->devices[i], c, &v);
    }
    take_unwanted(s, &v);
    const struct gpu_card *unknown = unknown_card(s, built);
    if (unknown && v.state == KSTATUS_CURRENT)
        return (struct verdict){KSTATUS_STALLED, unknown->unhealthy_reason,
                                xasprintf("GPU %u cannot be read: %s", unknown->index,
                                          unknown->unhealthy_message)};
    const char *missing = missing_card(s);
    if (missing && v.state == KSTATUS_CURRENT)
        return (struct verdict){KSTATUS_STALLED, "DeviceNotFound",
                                xasprintf("there is no card %s on this node", missing)};
    return v;
}

/* Links are asked for when everything is read; a card that was cut since has none any more
 * (NVIDIA's MIG user guide: no peer access). */
static bool is_linked(const struct node_state *s, size_t a, size_t b)
{
    return s->cards[a].card.mode != GPU_MIG && s->cards[b].card.mode != GPU_MIG &&
           gpu_pair_between(&s->inventory->topology, a, b).links;
}

/* A card that is shown as it was said last has them from there. */
static void build_links(const struct node_state *s, size_t at, struct device_card *to)
{
    bool told = to->n_linked_with > 0;
    for (size_t i = 0; i < s->n_cards && !told; i++)
        if (is_linked(s, at, i))
            *XPUSH(to->linked_with, to->n_linked_with) = s->cards[i].card.index;
}

static void build_cards(const struct node_state *s, const struct device_status *prev,
                        int64_t now_ms, struct device_status *ret)
{
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (!is_known(card, prev))
            continue;
        struct device_card *to = XPUSH(ret->devices, ret->n_devices);
        build_card(s, &s->cards[i], prev ? device_status_card(prev, card->uuid) : NULL, now_ms, to);
        build_links(s, i, to);
    }
}

static void build_hardware(const struct node_state *s, const struct device_status *prev,
                           int64_t now_ms, struct device_status *ret)
{
    ret->boot_id = *s->inventory->boot_id ? xstrdup(s->inventory->boot_id) : NULL;
    build_cards(s, prev, now_ms, ret);
    build_drivers(s, ret);
    build_models(s, ret);
    if (prev && ret->n_models < prev->n_models)
        keep_models(prev, ret);
    build_summary(ret);
    build_resources(s, now_ms, ret);
    build_labels(s, prev, now_ms, ret);
}

/* Nothing was read since we started: what was said last stands until something better is known, and
 * speaks of the generation that it was said of. */
static void keep_hardware(const struct device_status *prev, struct device_status *ret)
{
    copy_status(prev, ret);
    free(TAKE(ret->agent_version));
    conditions_done(&ret->conditions);
}

void node_status_build(const struct node_state *s, const struct device_status *prev, int64_t now_ms,
                       struct device_status *ret)
{
    *ret = (struct device_status){.observed_generation = s->generation};
    if (s->inventory) {
        build_hardware(s, prev, now_ms, ret);
    } else if (prev && prev->n_devices) {
        keep_hardware(prev, ret);
    } else {
        build_summary(ret);
        build_labels(s, prev, now_ms, ret);
    }
    ret->agent_version = xstrdup(s->agent_version);
    if (prev)
        conditions_copy(&ret->conditions, &prev->conditions);
    build_published(s, now_ms, ret);
    build_understood(s, now_ms, ret);
    struct verdict v = verdict_of(s, ret);
    (void)conditions_set_kstatus(&ret->conditions, v.state, v.reason,
                                 v.message ? v.message : "the hardware is as wanted", s->generation,
                                 now_ms);
    free(v.message);
}
