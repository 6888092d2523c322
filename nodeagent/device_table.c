/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/device_table.h"

#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/card_track.h"
#include "nodeagent/share.h"
#include "partition/resources.h"

/* --- Identifiers --- */

static const struct mig_instance *instance_of(const struct gpu_card *card,
                                              const struct gpu_partition *p)
{
    return &card->state.items[p->instance];
}

static bool profile_of(const struct gpu_card *card, const struct gpu_partition *p, char *buf)
{
    const struct mig_instance *inst = instance_of(card, p);
    if (inst->profile == MIG_NO_PROFILE)
        return false;
    mig_partition_name(&card->mig.profiles[inst->profile], inst->cis[p->ci].slices, buf);
    return true;
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

char *device_id(const struct gpu_card *card, const struct gpu_partition *p, char *buf)
{
    char profile[MIG_NAME_BYTES];
    if (!p || !profile_of(card, p, profile))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s", card->uuid);
    else if (is_split(card, p))
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u.%u", card->uuid, profile,
                       instance_of(card, p)->start, place_inside(p));
    else
        (void)snprintf(buf, DEVICE_ID_BYTES, "%s/%s@%u", card->uuid, profile,
                       instance_of(card, p)->start);
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

static void add_user(const struct holders *holders, const struct gpu_card *card,
                     const struct gpu_partition *p, struct users *users)
{
    char id[DEVICE_ID_BYTES];
    if (!holders_has(holders, device_id(card, p, id)))
        return;
    const struct holder *h = holders_get(holders, id, 0);
    struct gpu_process *user = XPUSH(users->items, users->n);
    user->gi_id = p ? (int)p->gi_id : -1;
    user->ci_id = p ? (int)p->ci_id : -1;
    if (h && h->pod)
        (void)snprintf(user->name, sizeof(user->name), "%s/%s", h->ns, h->pod);
    else if (h)
        (void)snprintf(user->name, sizeof(user->name), "with uid %s", h->uid);
    else
        (void)snprintf(user->name, sizeof(user->name), "that is being started");
}

void device_mark_holders(const struct holders *h, struct gpu_card *card)
{
    struct users users = {0};
    if (holders_has_card(h, card->uuid)) {
        add_user(h, card, /* p= */ NULL, &users);
        for (unsigned i = 0; i < card->n_partitions; i++)
            add_user(h, card, &card->partitions[i], &users);
    }
    gpu_card_set_holders(card, users.items, (unsigned)users.n);
    free(users.items);
}

/* --- Building --- */

struct build {
    const struct node_state *s;
    struct device_table *table;
    int strategy;
    size_t place; /* of the card at hand */
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

static void add(struct build *b, const struct gpu_card *card, const struct gpu_partition *p,
                bool healthy)
{
    char profile[MIG_NAME_BYTES];
    char name[RESOURCE_NAME_BYTES];
    if (p && !profile_of(card, p, profile))
        return;
    const struct share share =
        share_of(b->s->config, want_of(b, card), b->strategy, p ? profile : NULL);
    if (!resource_name(b->strategy, share.renamed, p ? profile : NULL, name))
        return;
    struct table_resource *r = resource_for(b, name, share.one_only);
    struct table_device *d = XPUSH(r->devices, r->n_devices);
    device_id(card, p, d->id);
    d->place = (uint8_t)b->place;
    d->replicas = share.replicas;
    d->mps = share.kind == SHARE_MPS;
    d->memory_mib =
        p ? card->mig.profiles[instance_of(card, p)->profile].memory_mib : card->memory_mib;
    d->healthy = healthy && !(b->s->holders &&
                              holders_has_otherwise(b->s->holders, name, d->id, d->replicas > 1));
    d->numa = card->numa_node;
    d->start = p ? instance_of(card, p)->start : 0;
    d->gi_id = p ? p->gi_id : 0;
    d->ci_id = p ? p->ci_id : 0;
    d->entry = (struct entry_device){
        .cdi_name = entry_cdi_name(card->uuid, p ? profile : NULL, d->start,
                                   p && is_split(card, p) ? (int)place_inside(p) : -1),
        .uuid = xstrdup(p ? p->uuid : card->uuid),
        .card_uuid = xstrdup(card->uuid),
        .index = card->index,
        .minor = card->minor,
        .mig = p,
        .gi_id = d->gi_id,
        .ci_id = d->ci_id,
        .mig_index = p ? (unsigned)(p - card->partitions) : 0,
    };
}

/* --- Names --- */

/* The card as others are to see it. One that is about to be cut has nothing to offer, and no say in
 * what the resources are called. */
static struct gpu_card offered_card(const struct gpu_card *from, const struct card_offer *offer)
{
    struct gpu_card card = *from;
    unsigned n = 0;
    for (unsigned p = 0; p < card.n_partitions; p++)
        if (card.partitions[p].healthy && card_offer_has(offer, &card.partitions[p]))
            card.partitions[n++] = card.partitions[p];
    card.n_partitions = n;
    card.healthy &= card.mode != GPU_NATIVE || offer->whole;
    return card;
}

static int strategy_of(const struct node_state *s, const struct card_offer *offers)
{
    auto_free struct gpu_card *cards = xcalloc(s->n_cards, sizeof(*cards));
    auto_free struct resolve_card *views = xcalloc(s->n_cards, sizeof(*views));
    struct profile_count **counts = xcalloc(s->n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < s->n_cards; i++) {
        cards[i] = offered_card(&s->cards[i].card, &offers[i]);
        card_resolve_view(&cards[i], &views[i], &counts[i]);
    }
    int strategy = resource_strategy(views, s->n_cards, share_strategy(s->config, s->spec));
    for (size_t i = 0; i < s->n_cards; i++)
        card_resolve_counts_free(counts[i], views[i].n_partitions);
    free(counts);
    return strategy;
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
    if (b->strategy == API_STRATEGY_NONE) {
        add(b, card, /* p= */ NULL, card->healthy && (!want || want->mode == API_MODE_MIG));
        return;
    }
    for (unsigned i = 0; i < card->n_partitions; i++) {
        const struct gpu_partition *p = &card->partitions[i];
        add(b, card, p, card->healthy && p->healthy && card_offer_has(offer, p));
    }
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
    auto_free struct card_offer *offers = xcalloc(s->n_cards, sizeof(*offers));
    *ret = (struct device_table){0};
    for (size_t i = 0; i < s->n_cards; i++)
        node_status_offer(s, i, now_ms, &offers[i]);
    struct build b = {.s = s, .table = ret, .strategy = strategy_of(s, offers)};
    ret->mixed_instead_of_single = s->n_cards && b.strategy != share_strategy(s->config, s->spec);
    for (size_t i = 0; i < s->n_cards; i++)
        if (*s->cards[i].card.uuid && !s->cards[i].card.unread) {
            b.place = i;
            add_card(&b, &s->cards[i].card, &offers[i]);
        }
    if (ret->n_resources)
        qsort(ret->resources, ret->n_resources, sizeof(*ret->resources), by_name);
    for (size_t i = 0; i < ret->n_resources; i++)
        qsort(ret->resources[i].devices, ret->resources[i].n_devices,
              sizeof(*ret->resources[i].devices), by_place);
}

static bool same_entry(const struct entry_device *a, const struct entry_device *b)
{
    return strcmp(a->cdi_name, b->cdi_name) == 0 && strcmp(a->uuid, b->uuid) == 0 &&
           strcmp(a->card_uuid, b->card_uuid) == 0 && a->index == b->index &&
           a->minor == b->minor && a->mig == b->mig && a->gi_id == b->gi_id &&
           a->ci_id == b->ci_id && a->mig_index == b->mig_index;
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
    *t = (struct device_table){0};
}
