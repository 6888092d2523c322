/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/device_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/share_request.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_entry.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/offer/share_card.h"
#include "nodeagent/offer/sharing.h"
#include "partition/resource_names.h"
#include "partition/vendor.h"

/* --- Building --- */

struct build {
    const struct node_state *s;
    struct device_table *table;
    int strategy;
    size_t card_index; /* index of the current card */
    bool shares;       /* there is a pool of shares */
    struct device_slots held;
    /* The room on all cards for one kind of slots. */
    struct room {
        const struct gpu_card *card; /* the first card of it */
        unsigned n, room;            /* slots; and how many of them may be held */
        unsigned adopted;            /* of the pods that count as holding one, and hold none */
        struct device_slots made;    /* slots with a slice or share */
        struct device_slots sound;   /* of shares: those on a card that is on offer */
    } slice_room, share_room;
};

static const struct room *room_of(const struct build *b, unsigned slot)
{
    return slot_is_share(slot) ? &b->share_room : &b->slice_room;
}

static const struct device_want *want_of(const struct build *b, const struct gpu_card *card)
{
    return device_spec_want(b->s->spec, card->uuid);
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

/* Sets what all devices of a card have in common. */
static struct table_device *add_device(struct build *b, const char *name,
                                       const struct gpu_card *card, const struct sharing *sharing,
                                       const char *id)
{
    assert(sharing->replicas >= 1 && b->card_index < GPU_MAX_CARDS);
    struct table_resource *r = resource_for(b, name, sharing->one_only);
    struct table_device *d = XPUSH(r->devices, r->n_devices);
    (void)snprintf(d->id, sizeof(d->id), "%s", id);
    d->card_index = (uint8_t)b->card_index;
    d->replicas = sharing->replicas;
    d->mps = sharing->kind == SHARING_MPS;
    d->memory_mib = card->memory_mib;
    d->numa = card->numa_node;
    d->entry = device_card_entry(card);
    return d;
}

static bool is_free_of_others(const struct build *b, const char *name, const struct table_device *d)
{
    return !b->s->holders || !holders_has_conflict(b->s->holders, name, d->id, d->replicas > 1);
}

static struct sharing_rules rules_of(const struct build *b)
{
    return (struct sharing_rules){b->s->config, b->strategy, b->s->means};
}

static const struct sharing unshared = {.replicas = 1};

static void add_whole_card(struct build *b, const struct gpu_card *card, bool healthy)
{
    char name[RESOURCE_NAME_BYTES];
    const struct sharing_rules rules = rules_of(b);
    const struct sharing sharing = sharing_of(&rules, card->vendor, want_of(b, card), NULL);
    if (!resource_name(card->vendor, b->strategy, sharing.renamed, NULL, name))
        return;
    struct table_device *d = add_device(b, name, card, &sharing, card->uuid);
    d->healthy = healthy && is_free_of_others(b, name, d);
    d->entry.cdi_name = entry_cdi_name(card->uuid, NULL, 0, -1);
}

/* The device with this id, or NULL. */
static struct table_device *device_of(const struct table_resource *r, const char *id)
{
    for (size_t i = 0; i < r->n_devices; i++)
        if (strcmp(r->devices[i].id, id) == 0)
            return &r->devices[i];
    return NULL;
}

/* Two parts of one id (slices that people gave one alias, or a driver's impossible answer) cannot
 * be told apart, so neither may be granted: they are one device, which is not healthy. */
static void add_part(struct build *b, const struct gpu_card *card, const struct card_part *p,
                     bool healthy)
{
    const struct card_mode *m = card_mode_of(card->mode);
    char kind[MIG_NAME_BYTES];
    char name[RESOURCE_NAME_BYTES];
    char id[DEVICE_ID_BYTES];
    if (!card_part_kind(card, p, kind))
        return;
    const struct sharing_rules rules = rules_of(b);
    const struct sharing sharing =
        m->can_share ? sharing_of(&rules, card->vendor, want_of(b, card), kind) : unshared;
    if (!m->resource(card->vendor, b->strategy, sharing.renamed, kind, name))
        return;
    struct table_device *twin =
        device_of(resource_for(b, name, sharing.one_only), device_id(card, p, id));
    if (twin) {
        twin->healthy = false;
        return;
    }
    struct table_device *d = add_device(b, name, card, &sharing, id);
    d->healthy = healthy && is_free_of_others(b, name, d);
    d->memory_mib = p->memory_mib;
    d->start = p->start;
    m->set_entry(card, p, &d->entry);
}

/* --- Slots --- */

/* The slices for pods that the card can have, beside foreign ones and those of a spec. While it
 * hangs none can be made: those that it has. */
static unsigned slices_for_pods(const struct card_view *v)
{
    const struct sgpu_state *s = &v->card.sgpu;
    unsigned of_pods = 0;
    for (unsigned i = 0; i < s->n; i++)
        of_pods += !s->items[i].foreign && sgpu_slot_of(s->items[i].alias) >= 0;
    assert(of_pods <= s->n && s->n <= SGPU_MAX_SLICES);
    return v->hangs ? of_pods : SGPU_MAX_SLICES - (s->n - of_pods);
}

static struct table_device *add_slot(struct build *b, const char *name, unsigned slot)
{
    char id[DEVICE_ID_BYTES];
    char word[SLOT_WORD_BYTES];
    struct table_device *d =
        add_device(b, name, room_of(b, slot)->card, &unshared, slot_id(slot, id));
    d->start = slot;
    d->numa = -1;
    d->entry.is_slot = true;
    d->entry.cdi_name = xstrdup(slot_name(slot, word));
    return d;
}

static bool has_holder(const struct build *b, unsigned slot)
{
    return device_slots_has(&b->held, slot);
}

static bool is_made(const struct build *b, unsigned slot)
{
    return device_slots_has(&room_of(b, slot)->made, slot);
}

static bool is_held(const struct build *b, unsigned slot)
{
    return has_holder(b, slot) || is_made(b, slot);
}

/* The room of a card for shares is what those on it left; its slices count as such. */
static bool takes_room(const struct build *b, unsigned slot)
{
    return slot_is_share(slot) ? has_holder(b, slot) && !is_made(b, slot) : is_held(b, slot);
}

static bool is_sick(const struct build *b, unsigned slot)
{
    return b->s->sick && device_slots_has(b->s->sick, slot) && !has_holder(b, slot);
}

/* True when a slot that a pod does not hold yet may be granted. A container that is granted one gets
 * its slice by its name alone, when it starts. */
static bool may_grant_slots(const struct build *b)
{
    return !b->s->pods_forbidden && !b->table->cdi_off;
}

/* True where a card could make, or has, what a held slot stands for. */
static bool is_sound(const struct build *b, unsigned slot)
{
    const struct room *r = room_of(b, slot);
    if (slot_is_share(slot) && is_made(b, slot))
        return device_slots_has(&r->sound, slot);
    return r->room > 0 || slot_is_share(slot);
}

static bool pool_name(const struct build *b, enum slot_pool pool, char *ret)
{
    const char *vendor = room_of(b, slot_at(pool, 0))->card->vendor;
    if (pool == SLOT_POOL_SGPU)
        return resource_slice_name(vendor, /* alias= */ NULL, ret);
    if (pool == SLOT_POOL_SHARE)
        return resource_name(vendor, b->strategy, /* renamed= */ false, /* profile= */ NULL, ret);
    return snprintf(ret, RESOURCE_NAME_BYTES, "%s", SHARE_SLOT) > 0;
}

/* How many slots of a pool are listed, besides those that are held. */
static unsigned size_of(const struct build *b, enum slot_pool pool)
{
    bool is_off = pool == SLOT_POOL_KOORDINATOR && !b->s->koordinator_shares;
    return is_off ? 0 : room_of(b, slot_at(pool, 0))->n;
}

/* How many more slots of a pool may be granted: as many as slices or shares can still be made, which
 * both pools of shares have together. Of the one whose resource they ask for, one more for each adopted
 * share: schedulers count its pod among those that do. */
static unsigned left_in(const struct build *b, enum slot_pool pool)
{
    unsigned first = slot_at(pool, 0);
    unsigned end = first + SLOT_POOL_SIZE;
    const struct room *r = room_of(b, first);
    unsigned left = r->room + (pool == SLOT_POOL_SHARE ? r->adopted : 0);
    if (slot_is_share(first)) {
        first = SLOT_SHARES_FIRST;
        end = SLOT_SHARES_END;
    }
    for (unsigned slot = first; slot < end; slot++)
        left -= left && takes_room(b, slot);
    return left;
}

/* Adds the slots of the cards of a pool, and the held slots beyond, which were granted when there
 * were more cards. Held slots count first. */
static void add_slots(struct build *b, enum slot_pool pool)
{
    char name[RESOURCE_NAME_BYTES];
    unsigned n = size_of(b, pool);
    if (!room_of(b, slot_at(pool, 0))->card || !pool_name(b, pool, name))
        return;
    unsigned left = left_in(b, pool);
    for (unsigned i = 0; i < SLOT_POOL_SIZE; i++) {
        unsigned slot = slot_at(pool, i);
        if (i >= n && !has_holder(b, slot))
            continue;
        bool held = is_held(b, slot);
        bool sick = is_sick(b, slot);
        add_slot(b, name, slot)->healthy = is_sound(b, slot) && !sick && (held || left) &&
                                           (may_grant_slots(b) || has_holder(b, slot));
        left -= left && !sick && !held;
    }
}

static bool note_nodes(struct build *b, const struct gpu_card *card)
{
    auto_err struct err e = {0};
    bool has_nodes = device_check_nodes(b->s->nodes, card, &e) == 0;
    if (!has_nodes && !b->table->left_out)
        b->table->left_out = xstrdup(err_msg(&e));
    b->table->cdi_off |= b->s->setup && !cri_resolves_names(&b->s->setup->runtime);
    b->table->pods_forbidden |= b->s->pods_forbidden != NULL;
    return has_nodes;
}

/* Sixteen slots for each card whose slices are made for pods. */
static void count_slots(struct build *b, const struct card_view *v, bool healthy)
{
    const struct gpu_card *card = &v->card;
    struct room *r = &b->slice_room;
    bool has_nodes = note_nodes(b, card);
    if (!r->card)
        r->card = card;
    r->n += r->n < SLOT_POOL_SIZE ? SGPU_MAX_SLICES : 0;
    r->room += healthy && has_nodes ? slices_for_pods(v) : 0;
    device_slots_add(&r->made, card);
}

/* --- Shares --- */

static const struct shares *shares_of(const struct build *b)
{
    static const struct shares none;
    return b->s->shares ? b->s->shares : &none;
}

/* True when shares stand on the card, or may. */
static bool note_shares(struct build *b, const struct gpu_card *card, bool healthy)
{
    const struct shares *shares = shares_of(b);
    struct room *r = &b->share_room;
    const struct vendor *v = vendor_find(card->vendor);
    bool any = v && v->has_shares && shares_are_in_doubt(shares);
    if (any)
        device_slots_join(&r->made, &shares->unknown);
    for (size_t i = 0; v && v->has_shares && i < shares->n_adopted; i++)
        if (strcmp(shares->adopted[i].card, card->uuid) == 0) {
            any = true;
            r->adopted++;
        }
    for (size_t i = 0; i < shares->n; i++) {
        if (strcmp(shares->items[i].card, card->uuid) != 0)
            continue;
        any = true;
        device_slots_put(&r->made, shares->items[i].slot);
        if (healthy)
            device_slots_put(&r->sound, shares->items[i].slot);
    }
    if (any && !r->card)
        r->card = card;
    return any;
}

static void count_shares(struct build *b, const struct share_card *c, bool healthy)
{
    struct room *r = &b->share_room;
    bool has_nodes = note_nodes(b, c->card);
    if (!r->card)
        r->card = c->card;
    r->n += c->total.shares;
    if (r->n > SLOT_POOL_SIZE)
        r->n = SLOT_POOL_SIZE;
    bool known = !shares_are_in_doubt(shares_of(b));
    r->room += healthy && has_nodes && known ? share_card_room(c) : 0;
}

/* The name of whole cards is the pool's. A card that is offered in another way under that name would
 * be taken for a share. */
static bool is_in_the_way(struct build *b, const struct gpu_card *card)
{
    const struct sharing_rules rules = rules_of(b);
    const struct sharing sharing = sharing_of(&rules, card->vendor, want_of(b, card), NULL);
    const struct vendor *v = vendor_find(card->vendor);
    if (!b->shares || !v || !v->has_shares || sharing.renamed)
        return false;
    if (!b->table->left_out)
        b->table->left_out =
            xasprintf("%s GPU %u would be offered as %s, which stands for shares on this node: %s",
                      v->title, card->index, v->card,
                      card->mode == GPU_MIG ? "choose another migStrategy than none"
                                            : "set renameByDefault: true");
    return true;
}

/* A card whose shares are offered, or that still has some, is not offered as a whole; a pod that
 * holds it keeps it. */
static void add_native(struct build *b, const struct card_view *v, bool healthy)
{
    const struct gpu_card *card = &v->card;
    const struct sharing_rules rules = rules_of(b);
    const struct share_facts facts = {&rules, shares_of(b), b->s->holders};
    struct share_card c;
    bool has_shares = note_shares(b, card, healthy && !v->hangs);
    bool pooled = b->shares && share_card_of(&facts, card, want_of(b, card), &c);
    if (pooled)
        count_shares(b, &c, healthy && !v->hangs);
    bool whole = !pooled && !is_in_the_way(b, card);
    if (whole || (b->s->holders && holders_has(b->s->holders, card->uuid)))
        add_whole_card(b, card, healthy && whole && !has_shares);
}

/* --- The table --- */

/* A device that is ill, is about to go, or belongs to a card that is to be changed may not be
 * granted. It stays listed while it exists, because a pod may hold it. */
static void add_card(struct build *b, const struct card_view *v, const struct card_offer *offer)
{
    const struct gpu_card *card = &v->card;
    const struct device_want *want = want_of(b, card);
    if (card->mode == GPU_NATIVE) {
        add_native(b, v, card->healthy && offer->whole);
        return;
    }
    if (card->mode == GPU_MIG && b->strategy == API_STRATEGY_NONE) {
        bool whole = !is_in_the_way(b, card);
        if (whole || (b->s->holders && holders_has(b->s->holders, card->uuid)))
            add_whole_card(b, card,
                           whole && card->healthy && (!want || want->mode == API_MODE_MIG));
        return;
    }
    for (unsigned i = 0; i < card_parts(card); i++) {
        const struct card_part p = card_part_at(card, i);
        add_part(b, card, &p, card->healthy && card_part_is_good(&p) && card_offer_has(offer, &p));
    }
    if (card->mode == GPU_SGPU && card_makes_slices(card, want))
        count_slots(b, v, card->healthy && offer->slots);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct table_resource *)a)->name,
                  ((const struct table_resource *)b)->name);
}

static int by_placement(const void *a, const void *b)
{
    const struct table_device *x = a;
    const struct table_device *y = b;
    if (x->entry.index != y->entry.index)
        return x->entry.index < y->entry.index ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return strcmp(x->id, y->id);
}

void device_table_build(const struct node_state *s, const struct card_offer *offers, int strategy,
                        struct device_table *ret)
{
    *ret = (struct device_table){0};
    struct build b = {.s = s,
                      .table = ret,
                      .strategy = strategy,
                      .shares = share_pool_exists(s->spec, &s->means)};
    if (s->holders)
        device_slots_add_held(&b.held, s->holders);
    for (size_t i = 0; i < s->n_cards; i++)
        if (*s->cards[i].card.uuid && !s->cards[i].card.unread) {
            b.card_index = i;
            add_card(&b, &s->cards[i], &offers[i]);
        }
    for (unsigned p = 0; p < SLOT_N_POOLS; p++)
        add_slots(&b, (enum slot_pool)p);
    if (ret->n_resources)
        qsort(ret->resources, ret->n_resources, sizeof(*ret->resources), by_name);
    for (size_t i = 0; i < ret->n_resources; i++)
        qsort(ret->resources[i].devices, ret->resources[i].n_devices,
              sizeof(*ret->resources[i].devices), by_placement);
}

static void copy_resource(const struct table_resource *from, struct table_resource *to)
{
    *to = (struct table_resource){
        .name = xstrdup(from->name),
        .one_replica = from->one_replica,
        .devices = xcalloc(from->n_devices, sizeof(*to->devices)),
        .n_devices = from->n_devices,
    };
    for (size_t i = 0; i < from->n_devices; i++) {
        to->devices[i] = from->devices[i];
        entry_device_copy(&from->devices[i].entry, &to->devices[i].entry);
    }
}

void device_table_copy(const struct device_table *from, struct device_table *ret)
{
    *ret = *from;
    ret->left_out = from->left_out ? xstrdup(from->left_out) : NULL;
    ret->resources = xcalloc(from->n_resources, sizeof(*ret->resources));
    for (size_t i = 0; i < from->n_resources; i++)
        copy_resource(&from->resources[i], &ret->resources[i]);
}

static bool same_slice(const struct entry_device *a, const struct entry_device *b)
{
    const struct entry_slice *x = &a->slice;
    const struct entry_slice *y = &b->slice;
    if (a->has_slice != b->has_slice || a->is_slot != b->is_slot || a->is_vf != b->is_vf)
        return false;
    return !a->has_slice ||
           (x->id == y->id && x->minor == y->minor && x->memory_mib == y->memory_mib &&
            x->card_mib == y->card_mib && x->compute_percent == y->compute_percent &&
            strcmp(x->alias, y->alias) == 0);
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
    return strcmp(a->id, b->id) == 0 && a->card_index == b->card_index &&
           a->healthy == b->healthy && a->replicas == b->replicas && a->mps == b->mps &&
           a->memory_mib == b->memory_mib && a->numa == b->numa && same_entry(&a->entry, &b->entry);
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
    if (a->n_resources != b->n_resources)
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

/* The number that may be granted. */
static int64_t count_of(const struct table_resource *r, const struct unready *unready)
{
    int64_t count = 0;
    for (size_t i = 0; i < r->n_devices; i++) {
        const struct table_device *d = &r->devices[i];
        if (d->healthy && !is_named(d->entry.cdi_name, unready->names, unready->n))
            count += d->replicas;
    }
    return count;
}

void device_table_counts(const struct device_table *t, const struct unready *unready,
                         enum api_publisher publisher, struct device_status *ret)
{
    for (size_t i = 0; i < t->n_resources; i++) {
        int64_t count = count_of(&t->resources[i], unready);
        if (count > 0 || publisher == API_PUBLISHER_KUBELET)
            *XPUSH(ret->resources, ret->n_resources) =
                (struct device_resource){xstrdup(t->resources[i].name), count, publisher};
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

const struct table_device *device_table_device(const struct device_table *t, const char *id)
{
    const struct table_device *d = NULL;
    for (size_t i = 0; i < t->n_resources && !d; i++)
        d = table_resource_device(&t->resources[i], id);
    return d;
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
