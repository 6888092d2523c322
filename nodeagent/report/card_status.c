/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/card_status.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/offer/share_card.h"
#include "nodeagent/offer/sharing.h"
#include "service/conditions.h"

/* XPUSH writes the count. NOLINTBEGIN(readability-non-const-parameter) */
static void add_consumer(const struct card_view *v, unsigned i, struct device_consumer **list,
                         size_t *n)
{
    const struct gpu_user *p = &v->card.users[i];
    assert(i < v->card.n_users && *n <= DEVICE_MAX_CONSUMERS);
    if (*n == DEVICE_MAX_CONSUMERS || p->is_pod)
        return;
    struct device_consumer *c = XPUSH(*list, *n);
    c->pid = p->pid;
    c->process = *p->name ? xstrdup(p->name) : NULL;
    c->uid = v->pods && *v->pods[i].pod_uid ? xstrdup(v->pods[i].pod_uid) : NULL;
}

/* Adds the pods that hold the device with this id. True: there is one, even if its name is not
 * known yet. */
static bool add_holders_of(const struct node_state *s, const char *id,
                           struct device_consumer **list, size_t *n)
{
    const struct holder *h;
    if (!s->holders)
        return false;
    for (size_t i = 0; (h = holders_get(s->holders, id, i)) && *n < DEVICE_MAX_CONSUMERS; i++) {
        struct device_consumer *c = XPUSH(*list, *n);
        c->namespace = xstrdup(h->ns);
        c->name = xstrdup(h->pod);
        c->uid = xstrdup(h->uid);
        c->container = xstrdup(h->container);
    }
    return holders_has(s->holders, id);
}

/* The same of the card, or the part p. */
static bool add_holders(const struct node_state *s, const struct gpu_card *card,
                        const struct card_part *p, struct device_consumer **list, size_t *n)
{
    char id[DEVICE_ID_BYTES];
    return add_holders_of(s, device_id(card, p, id), list, n);
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

static void build_part(const struct node_state *s, const struct card_view *v,
                       const struct card_part *from, struct device_partition *to)
{
    char name[MIG_NAME_BYTES];
    card_part_name(&v->card, from, name);
    to->profile = xstrdup(name);
    card_mode_of(v->card.mode)->show(&v->card, from, to);
    to->in_use = from->in_use;
    bool held = add_holders(s, &v->card, from, &to->in_use_by, &to->n_in_use_by);
    for (unsigned i = 0; i < v->card.n_users; i++)
        if (card_part_is_used_by(from, &v->card.users[i]))
            add_consumer(v, i, &to->in_use_by, &to->n_in_use_by);
    to->in_use |= to->n_in_use_by || held;
}

/* A GPU instance without a compute instance is no device, but it occupies its place on the card. */
static void build_bare_instance(const struct card_view *v, const struct mig_instance *from,
                                struct device_partition *to)
{
    assert(from->profile == MIG_NO_PROFILE || from->profile < v->card.mig.n_profiles);
    to->uuid = xasprintf("%s/%u", v->card.uuid, from->gi_id);
    to->profile = xstrdup(
        from->profile == MIG_NO_PROFILE ? "unknown" : v->card.mig.profiles[from->profile].name);
    to->has_gi_id = true;
    to->gi_id = from->gi_id;
    to->placement = xasprintf("%u:%u", from->start, from->size);
    to->in_use = from->in_use;
}

/* --- Shares --- */

/* The partitions that a card may show. Of more shares the first are shown; the last place is kept
 * for build_doubt. */
enum { MAX_SHARES = 128, WHOLE_PERCENT = 100 };

static void build_share(const struct node_state *s, const struct share *from,
                        struct device_partition *to)
{
    char name[SLOT_WORD_BYTES];
    char id[SLOT_WORD_BYTES];
    slot_name(from->slot, name);
    to->uuid = xasprintf("%s/%s", from->card, name);
    to->profile = xstrdup(DEVICE_SHARE);
    to->has_slice = true;
    to->slice = (struct device_slice){.id = slot_number(from->slot),
                                      .alias = xstrdup(name),
                                      .memory_mib = from->memory_mib,
                                      .compute_percent = from->percent};
    bool held = add_holders_of(s, slot_id(from->slot, id), &to->in_use_by, &to->n_in_use_by);
    to->in_use = to->n_in_use_by || held;
    const struct share_breach *breach = share_breach_of(&s->breaches, from);
    to->has_breach = breach;
    if (breach)
        to->breach = (struct device_breach){breach->since_ms, xstrdup(breach->reason),
                                            xstrdup(breach->message)};
}

/* The position among the node's adopted shares tells them apart. */
static void build_adopted(const struct adopted_share *from, size_t at, struct device_partition *to)
{
    to->uuid = xasprintf("%s/hami.%zu", from->card, at);
    to->profile = xstrdup(DEVICE_SHARE);
    to->has_slice = true;
    to->slice = (struct device_slice){.id = (int64_t)at,
                                      .alias = xasprintf("hami.%zu", at),
                                      .memory_mib = from->memory_mib,
                                      .compute_percent = from->percent};
    *XPUSH(to->in_use_by, to->n_in_use_by) =
        (struct device_consumer){.namespace = xstrdup(from->ns), .name = xstrdup(from->pod)};
    to->in_use = true;
}

/* While adopted pods are not known the card has no room, and whoever reads the Device sees why. */
static void build_doubt(const char *card, struct device_card *to)
{
    struct device_partition *p = XPUSH(to->partitions, to->n_partitions);
    p->uuid = xasprintf("%s/hami", card);
    p->profile = xstrdup(DEVICE_SHARE);
    p->has_slice = true;
    p->slice = (struct device_slice){.alias = xstrdup("hami"),
                                     .memory_mib = to->fractional.memory_mib,
                                     .compute_percent = WHOLE_PERCENT};
    p->in_use = true;
}

static int by_slot(const void *a, const void *b)
{
    const struct share *x = *(const struct share *const *)a;
    const struct share *y = *(const struct share *const *)b;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void build_shares(const struct node_state *s, const char *uuid, struct device_card *to)
{
    const struct share **list = NULL;
    size_t n = 0;
    for (size_t i = 0; s->shares && i < s->shares->n; i++)
        if (strcmp(s->shares->items[i].card, uuid) == 0)
            *XPUSH(list, n) = &s->shares->items[i];
    if (n)
        qsort(list, n, sizeof(*list), by_slot);
    for (size_t i = 0; i < n && to->n_partitions < MAX_SHARES - 1; i++)
        build_share(s, list[i], XPUSH(to->partitions, to->n_partitions));
    free(list);
    for (size_t i = 0; s->shares && i < s->shares->n_adopted; i++)
        if (strcmp(s->shares->adopted[i].card, uuid) == 0 && to->n_partitions < MAX_SHARES - 1)
            build_adopted(&s->shares->adopted[i], i, XPUSH(to->partitions, to->n_partitions));
    if (s->shares && s->shares->is_adopting && to->has_fractional)
        build_doubt(uuid, to);
}

/* Partitions with a UUID come first, in the order of card_part_at. */
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
    build_shares(s, v->card.uuid, to);
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

static void build_fractional(const struct node_state *s, const struct gpu_card *from,
                             struct device_card *to)
{
    static const struct shares none;
    const struct shares *shares = s->shares ? s->shares : &none;
    const struct device_want *want = node_state_want(s, from->uuid);
    const struct sharing_rules rules = {s->config, sharing_strategy(s->config, s->spec), s->means};
    const struct share_facts facts = {&rules, shares, s->holders};
    struct share_card c;
    to->has_fractional = share_pool_exists(s->spec, &s->means) &&
                         share_card_of(&facts, from, want, &c) && !c.only_whole;
    if (to->has_fractional)
        to->fractional =
            (struct device_fractional_state){.memory_mib = c.total.memory_mib,
                                             .compute_percent = c.total.percent,
                                             .max_shares = c.total.shares,
                                             .memory = (int)share_card_memory_level(&c, shares),
                                             .compute = (int)share_card_compute_level(&c, shares)};
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
    to->mode = (int)from->mode;
    to->has_pending_mode = from->pending_mode != from->mode;
    to->pending_mode = (int)from->pending_mode;
}

struct applied {
    enum condition_status status;
    const char *reason;
    const char *message;
};

static struct applied applied_of(const struct device_want *want, const struct card_memo *m,
                                 int64_t now_ms)
{
    if (!m || m->progress == PROGRESS_NONE || m->progress == PROGRESS_PENDING)
        return (struct applied){CONDITION_FALSE, "Progressing", "a change is under way"};
    if (m->progress == PROGRESS_REFUSED)
        return (struct applied){CONDITION_FALSE, m->refusal_reason, m->refusal};
    bool good = m->result.outcome == TXN_APPLIED || m->result.outcome == TXN_NOTHING_TO_DO;
    return (struct applied){good ? CONDITION_TRUE : CONDITION_FALSE,
                            card_memo_reason(want, m, now_ms),
                            good ? "the hardware is as wanted" : m->result.message};
}

/* True while a card still shows the spec to which an earlier agent brought it and has not been
 * attempted yet: a restart must not report it as changing. */
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

static bool must_be_free(const struct gpu_card *card, const struct card_plan *plan,
                         const struct card_part *p, unsigned i)
{
    const struct card_mode *m = card_mode_of(card->mode);
    return m->must_be_free && m->must_be_free(&plan->steps, p, i);
}

/* True when a pod holds the card as a whole, however it is cut. */
static bool held_as_a_whole(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_users; i++)
        if (card->users[i].is_pod && card->users[i].part < 0)
            return true;
    return false;
}

/* A drain that took too long evicts no more pods, but keeps its times. */
static void build_drain(const struct card_view *v, const struct card_plan *plan,
                        const struct card_memo *m, int64_t now_ms, struct device_card *to)
{
    to->has_drain = true;
    to->drain.since_ms = m->drain_since_ms;
    to->drain.deadline_ms = m->drain_deadline_ms;
    if (card_memo_drain_is_over(m, now_ms))
        return;
    assert(to->n_partitions >= card_parts(&v->card)); /* the first ones, in that order */
    to->drain.card = plan->steps.card_blocking;
    for (unsigned i = 0; i < card_parts(&v->card); i++) {
        const struct card_part part = card_part_at(&v->card, i);
        if (!must_be_free(&v->card, plan, &part, i) || !to->partitions[i].in_use)
            continue;
        to->drain.card |= held_as_a_whole(&v->card);
        *XPUSH(to->drain.partitions, to->drain.n_partitions) = xstrdup(to->partitions[i].uuid);
    }
}

/* --- The text of a drain --- */

enum {
    PODS_NAMED = 3, /* what card_plan names of each part too */
    DRAIN_TEXT_BYTES = 2048,
};

struct pods {
    const struct device_consumer **items;
    size_t n;
};

/* A pod is known by its uid, by its name, or by both. */
static bool is_same_pod(const struct device_consumer *a, const struct device_consumer *b)
{
    if (a->uid && b->uid)
        return strcmp(a->uid, b->uid) == 0;
    return a->name && b->name && strcmp(a->name, b->name) == 0 &&
           strcmp(a->namespace, b->namespace) == 0;
}

static bool has_pod(const struct pods *p, const struct device_consumer *c)
{
    for (size_t i = 0; i < p->n; i++)
        if (is_same_pod(p->items[i], c))
            return true;
    return false;
}

/* Processes of no pod are in the text of the plan. */
static void add_pods(struct pods *p, const struct device_consumer *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((list[i].uid || list[i].name) && !has_pod(p, &list[i]))
            *XPUSH(p->items, p->n) = &list[i];
}

/* The pods that hold what the plan takes away. Borrows from to; caller frees the items. */
static struct pods pods_in_the_way(const struct card_view *v, const struct card_plan *plan,
                                   const struct device_card *to)
{
    struct pods p = {0};
    if (plan->steps.card_blocking || held_as_a_whole(&v->card))
        add_pods(&p, to->in_use_by, to->n_in_use_by);
    for (unsigned i = 0; i < card_parts(&v->card); i++) {
        const struct card_part part = card_part_at(&v->card, i);
        if (must_be_free(&v->card, plan, &part, i))
            add_pods(&p, to->partitions[i].in_use_by, to->partitions[i].n_in_use_by);
    }
    for (size_t i = 0; i < to->n_partitions; i++) /* a share holds the card as a whole */
        if (strcmp(to->partitions[i].profile, DEVICE_SHARE) == 0)
            add_pods(&p, to->partitions[i].in_use_by, to->partitions[i].n_in_use_by);
    return p;
}

static const char *pod_text(const struct device_consumer *c, char *ret, size_t size)
{
    if (c->name)
        (void)snprintf(ret, size, "%s/%s", c->namespace, c->name);
    else
        (void)snprintf(ret, size, "with uid %s", c->uid);
    return ret;
}

/* Appends the pods that why does not name: "pod a/b, pod c/d and 2 more", or "they". */
static void add_pod_names(struct sb *b, const struct pods *p, const char *why)
{
    size_t unnamed = 0;
    for (size_t i = 0; i < p->n; i++) {
        char name[512];
        if (strstr(why, pod_text(p->items[i], name, sizeof(name))) || unnamed++ >= PODS_NAMED)
            continue;
        sb_addf(b, "%spod %s", unnamed > 1 ? ", " : "", name);
    }
    if (unnamed > PODS_NAMED)
        sb_addf(b, " and %zu more", unnamed - PODS_NAMED);
    sb_add(b, unnamed ? "" : "they");
}

/* Why the card waits, for whom and until when. NULL: no time was set. Caller frees. */
static char *drain_text(const struct card_view *v, const struct card_plan *plan,
                        const struct card_memo *m, int64_t now_ms, const struct device_card *to)
{
    char until[RFC3339_BYTES];
    auto_sb struct sb b = SB_INIT(DRAIN_TEXT_BYTES);
    if (!m->drain_deadline_ms)
        return NULL;
    struct pods p = pods_in_the_way(v, plan, to);
    sb_addf(&b, "%s; ", m->result.message);
    add_pod_names(&b, &p, m->result.message);
    free(p.items);
    sb_addf(&b, " %s by %s", card_memo_drain_is_over(m, now_ms) ? "did not end" : "must end",
            rfc3339_format(m->drain_deadline_ms, until));
    return xstrdup(sb_str(&b));
}

/* Keeps the published entry. False: it does not fit the card any more. */
static bool keep_card(const struct device_card *last, struct device_card *to)
{
    struct device_card bare = *last;
    const struct device_status holder = {.devices = &bare, .n_devices = 1};
    auto_device_status struct device_status copy = {0};
    device_status_copy(&holder, &copy);
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
    build_fractional(s, &v->card, to);
    bool held = add_holders(s, &v->card, /* p= */ NULL, &to->in_use_by, &to->n_in_use_by);
    for (unsigned i = 0; i < v->card.n_users; i++)
        if (v->card.users[i].part < 0)
            add_consumer(v, i, &to->in_use_by, &to->n_in_use_by);
    to->in_use = to->n_in_use_by || held;
    build_partitions(s, v, to);
    if (prev)
        conditions_copy(&to->conditions, &prev->conditions);
}

/* A healthy card gets no Healthy condition, to keep the object small. */
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
                            "the driver does not report events of this card; its health is known "
                            "only from the readings at each resync interval",
                            generation, now_ms);
    else
        (void)condition_remove(&to->conditions, "Watched");
}

/* A card that the spec does not list gets no condition, except that a change of it has not
 * ended. */
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

void card_status_build(const struct node_state *s, const struct card_view *v,
                       const struct card_plan *plan, const struct device_card *prev, int64_t now_ms,
                       struct device_card *to)
{
    bool kept = v->card.unread && prev && keep_card(prev, to);
    if (!kept)
        show_card(s, v, prev, to);
    build_health(&v->card, s->generation, now_ms, to);
    build_watched(v, s->generation, now_ms, to);
    const struct device_want *want = node_state_want(s, v->card.uuid);
    if (!want) {
        build_unended(s, v->card.uuid, now_ms, to);
        return;
    }
    const struct card_memo *m = node_state_memo(s, v->card.uuid);
    const char *reason = NULL;
    const char *unshareable = sharing_refusal(v->card.vendor, want, &s->means, &reason);
    assert(m || !plan);
    /* The parts in a kept entry are not those that the plan is about. */
    bool waits = plan && !kept && m->progress == PROGRESS_DONE && m->result.outcome == TXN_IN_USE;
    auto_free char *drain = waits ? drain_text(v, plan, m, now_ms, to) : NULL;
    if (unshareable) {
        (void)condition_set(&to->conditions, "Applied", CONDITION_FALSE, reason, unshareable,
                            s->generation, now_ms);
    } else if (!still_applied(&to->conditions, v, want, m, s->generation)) {
        struct applied a = applied_of(want, m, now_ms);
        (void)condition_set(&to->conditions, "Applied", a.status, a.reason,
                            drain ? drain : a.message, s->generation, now_ms);
    }
    if (waits)
        build_drain(v, plan, m, now_ms, to);
}
