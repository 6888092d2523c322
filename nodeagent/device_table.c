/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/device_table.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/card_track.h"
#include "nodeagent/kubelet/cdi_slot.h"
#include "nodeagent/share.h"
#include "partition/resources.h"

/* --- Identifiers --- */

static const struct mig_instance *instance_of(const struct gpu_card *card,
                                              const struct gpu_partition *p)
{
    return &card->state.items[p->instance];
}

/* One that fills its GPU instance needs no place inside. */
static bool is_split(const struct gpu_card *card, const struct gpu_partition *p)
{
    const struct mig_instance *inst = instance_of(card, p);
    return inst->cis[p->ci].slices != card->mig.profiles[inst->profile].slices;
}

static unsigned place_inside(const struct gpu_partition *p)
{
    return p->ci_start >= 0 ? (unsigned)p->ci_start : p->ci_id;
}

#define SLOT_ID "sgpu@"

char *device_slot_id(unsigned slot, char *buf)
{
    (void)snprintf(buf, DEVICE_ID_BYTES, SLOT_ID "%u", slot);
    return buf;
}

int device_slot_of(const char *id)
{
    int64_t slot = -1;
    bool is_one = strncmp(id, SLOT_ID, strlen(SLOT_ID)) == 0 &&
                  num_parse(id + strlen(SLOT_ID), 0, SGPU_MAX_SLOTS - 1, &slot, NULL) == 0;
    return is_one ? (int)slot : -1;
}

static char *slice_id(const struct gpu_card *card, const struct sgpu_slice *s, char *buf)
{
    int slot = sgpu_slot_of(s->alias);
    if (slot >= 0)
        return device_slot_id((unsigned)slot, buf);
    (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s", card->uuid, s->alias);
    return buf;
}

char *device_id(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    char profile[MIG_NAME_BYTES];
    if (p && p->slice)
        return slice_id(card, p->slice, buf);
    if (p && p->vf)
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/" CARD_PART_VF "@%u", card->uuid, p->vf->number);
    else if (!p || !card_part_kind(card, p, profile))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s", card->uuid);
    else if (is_split(card, p->mig))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u.%u", card->uuid, profile,
                       instance_of(card, p->mig)->start, place_inside(p->mig));
    else
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u", card->uuid, profile,
                       instance_of(card, p->mig)->start);
    return buf;
}

size_t device_id_base(const char *id)
{
    const char *replica = strstr(id, "::");
    return replica ? (size_t)(replica - id) : strlen(id);
}

/* --- Holders --- */

struct users {
    struct gpu_process *items;
    size_t n;
};

/* gi_id, ci_id: what is held, as processes name it. */
static void add_user(const struct holders *holders, const char *id, int gi_id, int ci_id,
                     struct users *users)
{
    if (!holders_has(holders, id))
        return;
    const struct holder *h = holders_get(holders, id, 0);
    struct gpu_process *user = XPUSH(users->items, users->n);
    user->gi_id = gi_id;
    user->ci_id = ci_id;
    if (h && h->pod)
        (void)snprintf(user->name, sizeof(user->name), "%s/%s", h->ns, h->pod);
    else if (h)
        (void)snprintf(user->name, sizeof(user->name), "with uid %s", h->uid);
    else
        (void)snprintf(user->name, sizeof(user->name), "that is being started");
}

static void add_part_user(const struct holders *holders, const struct gpu_card *card,
                          const struct card_part *p, struct users *users)
{
    char id[DEVICE_ID_BYTES];
    if (p->slice && p->slice->foreign)
        return; /* its alias says nothing to us */
    if (p->slice)
        add_user(holders, device_id(card, p, id), (int)p->slice->id, -1, users);
    else if (p->vf)
        add_user(holders, device_id(card, p, id), (int)p->vf->number, -1, users);
    else
        add_user(holders, device_id(card, p, id), (int)p->mig->gi_id, (int)p->mig->ci_id, users);
}

void device_slots_put(struct device_slots *s, unsigned slot)
{
    s->bits[slot / 64] |= UINT64_C(1) << (slot % 64);
}

void device_slots_add(struct device_slots *s, const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct sgpu_slice *slice = &card->sgpu.items[i];
        int slot = slice->foreign ? -1 : sgpu_slot_of(slice->alias);
        if (slot >= 0)
            device_slots_put(s, (unsigned)slot);
    }
}

bool device_slots_has(const struct device_slots *s, unsigned slot)
{
    return s->bits[slot / 64] >> (slot % 64) & 1;
}

static void add_slot_users(const struct holders *holders, const struct device_slots *made,
                           struct users *users)
{
    for (size_t i = 0; i < holders->n_listed; i++) {
        int slot = device_slot_of(holders->listed[i].id);
        if (slot >= 0 && !device_slots_has(made, (unsigned)slot))
            add_user(holders, holders->listed[i].id, -1, -1, users);
    }
    for (size_t i = 0; i < holders->n_grants; i++) {
        const char *id = holders->grants[i].id;
        int slot = device_slot_of(id);
        if (slot >= 0 && !device_slots_has(made, (unsigned)slot) && !holders_get(holders, id, 0))
            add_user(holders, id, -1, -1, users);
    }
}

void device_mark_holders(const struct holders *h, const struct device_slots *made,
                         struct gpu_card *card)
{
    struct users users = {0};
    if (holders_has_card(h, card->uuid))
        add_user(h, card->uuid, -1, -1, &users);
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        add_part_user(h, card, &part, &users);
    }
    if (card->mode == GPU_SGPU)
        add_slot_users(h, made, &users);
    gpu_card_set_holders(card, users.items, (unsigned)users.n);
    free(users.items);
}

/* --- Building --- */

struct build {
    const struct node_state *s;
    struct device_table *table;
    int strategy;
    size_t place; /* of the card at hand */
    struct {
        const struct gpu_card *card; /* the first that has any */
        unsigned n, places;
        struct device_slots made;
    } slots;
};

static const struct device_want *want_of(const struct build *b, const struct gpu_card *card)
{
    return b->s->spec ? card_want(b->s->spec, card->uuid) : NULL;
}

static struct table_resource *resource_for(struct build *b, const char *name, bool one_replica)
{
    struct device_table *t = b->table;
    for (size_t i = 0; i < t->n_resources; i++)
        if (strcmp(t->resources[i].name, name) == 0)
            return &t->resources[i];
    struct table_resource *r = XPUSH(t->resources, t->n_resources);
    r->name = xstrdup(name);
    r->one_replica = one_replica;
    return r;
}

static struct entry_device card_entry(const struct gpu_card *card)
{
    return (struct entry_device){
        .vendor = card->vendor,
        .uuid = xstrdup(card->uuid),
        .card_uuid = xstrdup(card->uuid),
        .pci_bus_id = xstrdup(card->pci_bus_id),
        .index = card->index,
        .minor = card->minor,
    };
}

void device_slice_entry(const struct gpu_card *card, const struct card_part *p, char *cdi_name_take,
                        struct entry_device *ret)
{
    *ret = card_entry(card);
    ret->cdi_name = cdi_name_take;
    if (*p->device->uuid)
        xstr_set(&ret->uuid, p->device->uuid);
    ret->has_slice = true;
    ret->slice = (struct entry_slice){.id = p->slice->id,
                                      .minor = p->device->minor,
                                      .memory_mib = p->slice->quota.memory_mib,
                                      .compute_percent = p->slice->quota.compute_percent};
    (void)snprintf(ret->slice.alias, sizeof(ret->slice.alias), "%s", p->device->alias);
}

int device_check_nodes(const struct container_nodes *nodes, const struct gpu_card *card,
                       struct err *e)
{
    auto_node_list struct node_list list = {0};
    const struct container_vendor *v = container_vendor_find(card->vendor);
    struct entry_device d = card_entry(card);
    d.cdi_name = entry_cdi_name(card->uuid, /* profile= */ NULL, 0, -1);
    int rc = nodes && v ? v->device_nodes(nodes, &d, &list, e) : 0;
    entry_device_done(&d);
    return rc;
}

/* What all devices of a card have. */
static struct table_device *add_device(struct build *b, const char *name,
                                       const struct gpu_card *card, const struct share *share,
                                       const char *id)
{
    struct table_resource *r = resource_for(b, name, share->one_only);
    struct table_device *d = XPUSH(r->devices, r->n_devices);
    (void)snprintf(d->id, sizeof(d->id), "%s", id);
    d->place = (uint8_t)b->place;
    d->replicas = share->replicas;
    d->mps = share->kind == SHARE_MPS;
    d->memory_mib = card->memory_mib;
    d->numa = card->numa_node;
    d->entry = card_entry(card);
    return d;
}

static bool is_free_of_others(const struct build *b, const char *name, const struct table_device *d)
{
    return !b->s->holders || !holders_has_otherwise(b->s->holders, name, d->id, d->replicas > 1);
}

static void add_mig_device(const struct gpu_card *card, const struct gpu_partition *p,
                           const char *profile, struct table_device *d)
{
    d->memory_mib = card->mig.profiles[instance_of(card, p)->profile].memory_mib;
    d->start = instance_of(card, p)->start;
    d->gi_id = d->entry.gi_id = p->gi_id;
    d->ci_id = d->entry.ci_id = p->ci_id;
    d->entry.mig = true;
    d->entry.mig_index = p->mig_index;
    xstr_set(&d->entry.uuid, p->uuid);
    d->entry.cdi_name = entry_cdi_name(card->uuid, profile, d->start,
                                       is_split(card, p) ? (int)place_inside(p) : -1);
}

/* The whole card, or with p a MIG device of it. */
static void add(struct build *b, const struct gpu_card *card, const struct card_part *p,
                bool healthy)
{
    char profile[MIG_NAME_BYTES];
    char name[RESOURCE_NAME_BYTES];
    char id[DEVICE_ID_BYTES];
    if (p && !card_part_kind(card, p, profile))
        return;
    const struct share share =
        share_of(b->s->config, card->vendor, want_of(b, card), b->strategy, p ? profile : NULL);
    if (!resource_name(card->vendor, b->strategy, share.renamed, p ? profile : NULL, name))
        return;
    struct table_device *d = add_device(b, name, card, &share, device_id(card, p, id));
    d->healthy = healthy && is_free_of_others(b, name, d);
    if (p)
        add_mig_device(card, p->mig, profile, d);
    else
        d->entry.cdi_name = entry_cdi_name(card->uuid, NULL, 0, -1);
}

/* --- Slices --- */

static const struct share unshared = {.replicas = 1};

/* One that stands, under the name of its kind. */
static void add_slice(struct build *b, const struct gpu_card *card, const struct card_part *p,
                      bool healthy)
{
    char kind[MIG_NAME_BYTES];
    char name[RESOURCE_NAME_BYTES];
    char id[DEVICE_ID_BYTES];
    if (!card_part_kind(card, p, kind) || !resource_slice_name(card->vendor, kind, name))
        return;
    struct table_device *d = add_device(b, name, card, &unshared, device_id(card, p, id));
    d->memory_mib = p->slice->quota.memory_mib;
    d->healthy = healthy && is_free_of_others(b, name, d);
    entry_device_done(&d->entry);
    device_slice_entry(card, p, entry_cdi_slice_name(card->uuid, p->slice->alias), &d->entry);
}

/* --- Virtual functions --- */

static void add_vf(struct build *b, const struct gpu_card *card, const struct card_part *p,
                   bool healthy)
{
    char id[DEVICE_ID_BYTES];
    const char *name = resource_function_name(card->vendor);
    if (!name)
        return;
    struct table_device *d = add_device(b, name, card, &unshared, device_id(card, p, id));
    d->memory_mib = p->vf->memory_mib;
    d->start = p->vf->number;
    d->healthy = healthy && is_free_of_others(b, name, d);
    d->entry.is_vf = true;
    d->entry.cdi_name = entry_cdi_vf_name(card->uuid, p->vf->number);
    xstr_set(&d->entry.uuid, p->vf->uuid);
    xstr_set(&d->entry.pci_bus_id, p->vf->pci_bus_id);
}

/* --- Slots --- */

/* The places that slices of others, and those of a spec, leave. */
static unsigned slots_of(const struct gpu_card *card)
{
    unsigned n = SGPU_MAX_SLICES;
    for (unsigned i = 0; i < card->sgpu.n; i++)
        n -= card->sgpu.items[i].foreign || sgpu_slot_of(card->sgpu.items[i].alias) < 0;
    return n;
}

static void add_slot(struct build *b, const char *name, unsigned slot)
{
    char id[DEVICE_ID_BYTES];
    struct table_device *d =
        add_device(b, name, b->slots.card, &unshared, device_slot_id(slot, id));
    d->start = slot;
    d->numa = -1;
    d->entry.is_slot = true;
    d->entry.cdi_name = cdi_slot_name(slot);
}

static bool has_holder(const struct build *b, unsigned slot)
{
    char id[DEVICE_ID_BYTES];
    return b->s->holders && holders_has(b->s->holders, device_slot_id(slot, id));
}

static bool is_held(const struct build *b, unsigned slot)
{
    return has_holder(b, slot) || device_slots_has(&b->slots.made, slot);
}

static bool is_sick(const struct build *b, unsigned slot)
{
    return b->s->sick && device_slots_has(b->s->sick, slot) && !has_holder(b, slot);
}

/* Sixteen of each card whose slices are made for pods, and what is held beyond: it was granted
 * while there were more cards. What is held counts first; of the others as many may be granted as
 * there are places left. */
static void add_slots(struct build *b)
{
    char name[RESOURCE_NAME_BYTES];
    unsigned left = b->slots.places;
    if (!b->slots.n || !resource_slice_name(b->slots.card->vendor, NULL, name))
        return;
    for (unsigned slot = 0; slot < SGPU_MAX_SLOTS; slot++)
        left -= left && is_held(b, slot);
    for (unsigned slot = 0; slot < SGPU_MAX_SLOTS; slot++) {
        if (slot >= b->slots.n && !has_holder(b, slot))
            continue;
        bool held = is_held(b, slot);
        bool sick = is_sick(b, slot);
        add_slot(b, name, slot);
        struct table_resource *r = resource_for(b, name, /* one_replica= */ false);
        r->devices[r->n_devices - 1].healthy = b->slots.places && !sick && (held || left) &&
                                               (!b->s->pods_forbidden || has_holder(b, slot));
        left -= left && !sick && !held;
    }
}

static void count_slots(struct build *b, const struct gpu_card *card, bool healthy)
{
    auto_err struct err e = {0};
    bool has_nodes = device_check_nodes(b->s->nodes, card, &e) == 0;
    if (!has_nodes && !b->table->left_out)
        b->table->left_out = xstrdup(err_msg(&e));
    b->table->pods_forbidden |= b->s->pods_forbidden != NULL;
    if (!b->slots.card)
        b->slots.card = card;
    b->slots.n += b->slots.n < SGPU_MAX_SLOTS ? SGPU_MAX_SLICES : 0;
    b->slots.places += healthy && has_nodes ? slots_of(card) : 0;
    device_slots_add(&b->slots.made, card);
}

/* Are slices made for pods? Where nobody says, unless some stand that were asked for by a kind. */
bool device_has_slots(const struct gpu_card *card, const struct device_want *want)
{
    char kind[MIG_NAME_BYTES];
    if (want)
        return want->mode == API_MODE_SGPU && want->sgpu.n_slices == 0;
    for (unsigned i = 0; i < card->sgpu.n; i++) {
        const struct card_part part = card_part_at(card, i);
        if (card_part_kind(card, &part, kind))
            return false;
    }
    return true;
}

/* --- Names --- */

/* The card as others are to see it. One that is about to be cut has nothing to offer, and no say in
 * what the resources are called. */
static struct gpu_card offered_card(const struct gpu_card *from, const struct card_offer *offer)
{
    struct gpu_card card = *from;
    unsigned n = 0;
    for (unsigned p = 0; p < card.n_partitions; p++) {
        const struct card_part part = {.mig = &card.partitions[p]};
        if (card_part_is_good(&part) && card_offer_has(offer, &part))
            card.partitions[n++] = card.partitions[p];
    }
    card.n_partitions = n;
    card.healthy &= card.mode != GPU_NATIVE || offer->whole;
    return card;
}

static int strategy_in_force(const struct node_state *s, const struct card_offer *offers)
{
    auto_free struct gpu_card *cards = xcalloc(s->n_cards, sizeof(*cards));
    auto_free struct resolve_card *views = xcalloc(s->n_cards, sizeof(*views));
    struct profile_count **counts = xcalloc(s->n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < s->n_cards; i++) {
        cards[i] = offered_card(&s->cards[i].card, &offers[i]);
        card_resolve_view(&cards[i], &views[i], &counts[i]);
        views[i].withheld = cards[i].n_partitions == 0 && s->cards[i].card.n_partitions;
    }
    int asked = share_strategy(s->config, s->spec);
    int strategy = resource_strategy(views, s->n_cards, s->spec, asked);
    for (size_t i = 0; i < s->n_cards; i++)
        card_resolve_counts_free(counts[i], views[i].n_partitions);
    free(counts);
    return strategy;
}

static struct card_offer *offers_of(const struct node_state *s, int64_t now_ms)
{
    struct card_offer *offers = xcalloc(s->n_cards, sizeof(*offers));
    for (size_t i = 0; i < s->n_cards; i++)
        node_status_offer(s, i, now_ms, &offers[i]);
    return offers;
}

int device_table_strategy(const struct node_state *s, int64_t now_ms)
{
    auto_free struct card_offer *offers = offers_of(s, now_ms);
    return strategy_in_force(s, offers);
}

/* --- The table --- */

/* What is ill, is about to go, or belongs to a card that is to be something else may not be
 * granted, and stays listed while it stands: a pod may hold it. */
static void add_card(struct build *b, const struct gpu_card *card, const struct card_offer *offer)
{
    const struct device_want *want = want_of(b, card);
    if (card->mode == GPU_NATIVE) {
        add(b, card, /* p= */ NULL, card->healthy && offer->whole);
        return;
    }
    if (card->mode == GPU_MIG && b->strategy == API_STRATEGY_NONE) {
        add(b, card, /* p= */ NULL, card->healthy && (!want || want->mode == API_MODE_MIG));
        return;
    }
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        bool good = card->healthy && card_part_is_good(&p) && card_offer_has(offer, &p);
        if (p.slice)
            add_slice(b, card, &p, good);
        else if (p.vf)
            add_vf(b, card, &p, good);
        else
            add(b, card, &p, good);
    }
    if (card->mode == GPU_SGPU && device_has_slots(card, want))
        count_slots(b, card, card->healthy && offer->slots);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct table_resource *)a)->name,
                  ((const struct table_resource *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct table_device *x = a;
    const struct table_device *y = b;
    if (x->entry.index != y->entry.index)
        return x->entry.index < y->entry.index ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return strcmp(x->id, y->id);
}

void device_table_build(const struct node_state *s, int64_t now_ms, struct device_table *ret)
{
    auto_free struct card_offer *offers = offers_of(s, now_ms);
    *ret = (struct device_table){0};
    struct build b = {.s = s, .table = ret, .strategy = strategy_in_force(s, offers)};
    ret->mixed_instead_of_single = s->n_cards && b.strategy != share_strategy(s->config, s->spec);
    for (size_t i = 0; i < s->n_cards; i++)
        if (*s->cards[i].card.uuid && !s->cards[i].card.unread) {
            b.place = i;
            add_card(&b, &s->cards[i].card, &offers[i]);
        }
    add_slots(&b);
    if (ret->n_resources)
        qsort(ret->resources, ret->n_resources, sizeof(*ret->resources), by_name);
    for (size_t i = 0; i < ret->n_resources; i++)
        qsort(ret->resources[i].devices, ret->resources[i].n_devices,
              sizeof(*ret->resources[i].devices), by_place);
}

static bool same_slice(const struct entry_device *a, const struct entry_device *b)
{
    const struct entry_slice *x = &a->slice;
    const struct entry_slice *y = &b->slice;
    if (a->has_slice != b->has_slice || a->is_slot != b->is_slot || a->is_vf != b->is_vf)
        return false;
    return !a->has_slice ||
           (x->id == y->id && x->minor == y->minor && x->memory_mib == y->memory_mib &&
            x->compute_percent == y->compute_percent && strcmp(x->alias, y->alias) == 0);
}

static bool same_entry(const struct entry_device *a, const struct entry_device *b)
{
    return strcmp(a->vendor, b->vendor) == 0 && strcmp(a->cdi_name, b->cdi_name) == 0 &&
           strcmp(a->uuid, b->uuid) == 0 && strcmp(a->card_uuid, b->card_uuid) == 0 &&
           strcmp(a->pci_bus_id, b->pci_bus_id) == 0 && a->index == b->index &&
           a->minor == b->minor && a->mig == b->mig && a->gi_id == b->gi_id &&
           a->ci_id == b->ci_id && a->mig_index == b->mig_index && same_slice(a, b);
}

static bool same_device(const struct table_device *a, const struct table_device *b)
{
    return strcmp(a->id, b->id) == 0 && a->place == b->place && a->healthy == b->healthy &&
           a->replicas == b->replicas && a->mps == b->mps && a->memory_mib == b->memory_mib &&
           a->numa == b->numa && same_entry(&a->entry, &b->entry);
}

static bool same_resource(const struct table_resource *a, const struct table_resource *b)
{
    if (strcmp(a->name, b->name) != 0 || a->one_replica != b->one_replica ||
        a->n_devices != b->n_devices)
        return false;
    for (size_t i = 0; i < a->n_devices; i++)
        if (!same_device(&a->devices[i], &b->devices[i]))
            return false;
    return true;
}

bool device_table_equal(const struct device_table *a, const struct device_table *b)
{
    if (a->n_resources != b->n_resources ||
        a->mixed_instead_of_single != b->mixed_instead_of_single)
        return false;
    for (size_t i = 0; i < a->n_resources; i++)
        if (!same_resource(&a->resources[i], &b->resources[i]))
            return false;
    return true;
}

static bool is_named(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

void device_table_withhold(struct device_table *t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < t->n_resources; i++)
        for (size_t k = 0; k < t->resources[i].n_devices; k++)
            if (is_named(t->resources[i].devices[k].entry.cdi_name, names, n))
                t->resources[i].devices[k].healthy = false;
}

void device_table_counts(const struct device_table *t, int publisher, struct device_status *ret)
{
    for (size_t i = 0; i < t->n_resources; i++) {
        const struct table_resource *from = &t->resources[i];
        int64_t count = 0;
        for (size_t k = 0; k < from->n_devices; k++)
            count += from->devices[k].healthy ? from->devices[k].replicas : 0;
        if (count == 0 && publisher != API_PUBLISHER_KUBELET)
            continue;
        *XPUSH(ret->resources, ret->n_resources) =
            (struct device_resource){xstrdup(from->name), count, publisher};
    }
}

const struct table_resource *device_table_resource(const struct device_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_resources; i++)
        if (strcmp(t->resources[i].name, name) == 0)
            return &t->resources[i];
    return NULL;
}

const struct table_device *table_resource_device(const struct table_resource *r, const char *id)
{
    size_t len = device_id_base(id);
    for (size_t i = 0; i < r->n_devices; i++)
        if (strncmp(r->devices[i].id, id, len) == 0 && r->devices[i].id[len] == '\0')
            return &r->devices[i];
    return NULL;
}

static const struct table_device *find_partition(const struct device_table *t, const char *uuid,
                                                 size_t len)
{
    for (size_t i = 0; i < t->n_resources; i++)
        for (size_t k = 0; k < t->resources[i].n_devices; k++) {
            const struct table_device *d = &t->resources[i].devices[k];
            if (d->entry.mig && strlen(d->entry.uuid) == len &&
                strncmp(d->entry.uuid, uuid, len) == 0)
                return d;
        }
    return NULL;
}

char *device_table_translate(const struct device_table *t, const char *id)
{
    size_t len = device_id_base(id);
    const struct table_device *d = find_partition(t, id, len);
    return d ? xasprintf("%s%s", d->id, id + len) : NULL;
}

void device_table_done(struct device_table *t)
{
    for (size_t i = 0; i < t->n_resources; i++) {
        for (size_t k = 0; k < t->resources[i].n_devices; k++)
            entry_device_done(&t->resources[i].devices[k].entry);
        free(t->resources[i].devices);
        free(t->resources[i].name);
    }
    free(t->resources);
    free(t->left_out);
    *t = (struct device_table){0};
}
