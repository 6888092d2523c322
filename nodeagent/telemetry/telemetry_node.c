/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/telemetry_node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/health/health.h"
#include "nodeagent/kubelet/checkpoint.h"
#include "nodeagent/mode/card_mode.h"
#include "nodeagent/offer/device_id.h"
#include "nodeagent/offer/node_state.h"
#include "nodeagent/offer/shares.h"

bool telemetry_node_card_is_nvidia(const struct telemetry_node_card *c)
{
    return strcmp(c->vendor, "nvidia") == 0;
}

static void holder_free(struct telemetry_holder *h)
{
    free(h->ns);
    free(h->pod);
    free(h->container);
    free(h->uid);
}

void telemetry_node_done(struct telemetry_node *n)
{
    for (size_t i = 0; i < n->n; i++) {
        struct telemetry_node_card *c = &n->cards[i];
        for (size_t k = 0; k < c->n_places; k++) {
            for (size_t m = 0; m < c->places[k].n_holders; m++)
                holder_free(&c->places[k].holders[m]);
            free(c->places[k].holders);
        }
        free(c->places);
    }
    free(n->cards);
    *n = (struct telemetry_node){0};
}

/* --- Cards and their GPU instances --- */

static void add_place(struct telemetry_node_card *to, int gi_id, const char *profile)
{
    struct telemetry_place *p = XPUSH(to->places, to->n_places);
    p->gi_id = gi_id;
    (void)snprintf(p->profile, sizeof(p->profile), "%s", profile);
}

static int by_gi_id(const void *a, const void *b)
{
    const struct telemetry_place *x = a;
    const struct telemetry_place *y = b;
    return (x->gi_id > y->gi_id) - (x->gi_id < y->gi_id);
}

static void build_card(const struct gpu_card *card, const struct gpu_driver *driver,
                       struct telemetry_node_card *to)
{
    to->vendor = card->vendor;
    memcpy(to->uuid, card->uuid, sizeof(to->uuid));
    memcpy(to->model, card->model, sizeof(to->model));
    memcpy(to->pci_bus_id, card->pci_bus_id, sizeof(to->pci_bus_id));
    (void)snprintf(to->driver, sizeof(to->driver), "%s", driver ? driver->version : "");
    to->index = card->index;
    to->minor = card->minor;
    to->last_xid = (double)NAN;
    add_place(to, -1, "");
    for (unsigned i = 0; !card->unread && i < card->state.n; i++) {
        const struct mig_instance *m = &card->state.items[i];
        add_place(to, (int)m->gi_id,
                  m->profile == MIG_NO_PROFILE ? "unknown" : card->mig.profiles[m->profile].name);
    }
    qsort(to->places, to->n_places, sizeof(*to->places), by_gi_id);
}

static struct telemetry_place *place_of(struct telemetry_node_card *c, int gi_id)
{
    for (size_t i = 0; i < c->n_places; i++)
        if (c->places[i].gi_id == gi_id)
            return &c->places[i];
    return &c->places[0];
}

/* --- Holders --- */

/* A device of the kubelet, and its place. */
struct device_place {
    char id[DEVICE_ID_BYTES];
    size_t card;
    int gi_id;
    bool is_part; /* other than a GPU instance: no telemetry is its own */
};

struct build {
    const struct node_state *s;
    struct telemetry_node *ret;
    struct device_place *devices; /* by id; owned */
    size_t n_devices;
    const struct checkpoint_device **granted; /* by id; owned */
    size_t n_granted;
};

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct device_place *)a)->id, ((const struct device_place *)b)->id);
}

static int by_granted_id(const void *a, const void *b)
{
    return strcmp((*(const struct checkpoint_device *const *)a)->id,
                  (*(const struct checkpoint_device *const *)b)->id);
}

static void list_devices(struct build *b, const struct gpu_card *card, size_t at)
{
    struct device_place *whole = XPUSH(b->devices, b->n_devices);
    (void)device_id(card, /* p= */ NULL, whole->id);
    whole->card = at;
    whole->gi_id = -1;
    for (unsigned i = 0; !card->unread && i < card_parts(card); i++) {
        const struct card_part part = card_part_at(card, i);
        struct device_place *d = XPUSH(b->devices, b->n_devices);
        (void)device_id(card, &part, d->id);
        d->card = at;
        d->gi_id = part.mig ? (int)part.mig->gi_id : -1;
        d->is_part = !part.mig;
    }
}

static void list_granted(struct build *b, const struct checkpoint *c)
{
    for (size_t i = 0; c && i < c->n; i++)
        *XPUSH(b->granted, b->n_granted) = &c->devices[i];
    if (b->n_granted)
        qsort(b->granted, b->n_granted, sizeof(*b->granted), by_granted_id);
}

/* NULL: not known. Borrowed. */
static const char *uid_of(const struct build *b, const struct holder *h)
{
    const struct checkpoint_device key = {.id = h->id};
    const struct checkpoint_device *k = &key;
    if (h->uid || !b->n_granted)
        return h->uid;
    const struct checkpoint_device *const *found =
        bsearch(&k, b->granted, b->n_granted, sizeof(*b->granted), by_granted_id);
    return found ? (*found)->uid : NULL;
}

static void add_holder(struct telemetry_place *p, const struct holder *h, const char *uid,
                       uint64_t share_bytes)
{
    *XPUSH(p->holders, p->n_holders) = (struct telemetry_holder){
        .ns = xstrdup(h->ns),
        .pod = xstrdup(h->pod),
        .container = xstrdup(h->container ? h->container : ""),
        .uid = xstrdup(uid),
        .share_bytes = share_bytes,
    };
}

/* Adds the holder of a share to the card of the share. */
static void take_share(struct build *b, const struct holder *h, unsigned slot)
{
    const struct share *share = b->s->shares ? shares_find(b->s->shares, slot) : NULL;
    for (size_t i = 0; share && i < b->ret->n; i++) {
        if (strcmp(b->ret->cards[i].uuid, share->card) != 0)
            continue;
        b->ret->cards[i].places[0].is_shared = true;
        add_holder(&b->ret->cards[i].places[0], h, share->uid, (uint64_t)share->memory_mib << 20);
    }
}

static void take_device(struct build *b, const struct holder *h)
{
    struct device_place key;
    size_t base = device_id_base(h->id);
    if (base >= sizeof(key.id))
        return;
    memcpy(key.id, h->id, base);
    key.id[base] = '\0';
    const struct device_place *d =
        b->n_devices ? bsearch(&key, b->devices, b->n_devices, sizeof(*b->devices), by_id) : NULL;
    if (!d)
        return;
    struct telemetry_place *p = place_of(&b->ret->cards[d->card], d->gi_id);
    p->is_shared |= d->is_part || h->id[base];
    add_holder(p, h, uid_of(b, h), /* share_bytes= */ 0);
}

static void take_holders(struct build *b)
{
    const struct holders *all = b->s->holders;
    for (size_t i = 0; all && i < all->n_listed; i++) {
        const struct holder *h = &all->listed[i];
        int slot = slot_of_id(h->id);
        if (!h->ns || !h->pod)
            continue;
        if (slot >= 0)
            take_share(b, h, (unsigned)slot);
        else
            take_device(b, h);
    }
}

/* --- One entry for each holder --- */

static int by_name(const void *a, const void *b)
{
    const struct telemetry_holder *x = a;
    const struct telemetry_holder *y = b;
    int order = strcmp(x->ns, y->ns);
    order = order ? order : strcmp(x->pod, y->pod);
    return order ? order : strcmp(x->container, y->container);
}

/* Joins the entries of each container, or of each pod. */
static void join_holders(struct telemetry_place *p, bool by_pod)
{
    size_t n = 0;
    if (p->n_holders)
        qsort(p->holders, p->n_holders, sizeof(*p->holders), by_name);
    for (size_t i = 0; i < p->n_holders; i++) {
        struct telemetry_holder *h = &p->holders[i];
        struct telemetry_holder *last = n ? &p->holders[n - 1] : NULL;
        bool same_pod = last && strcmp(last->ns, h->ns) == 0 && strcmp(last->pod, h->pod) == 0;
        bool same = same_pod && strcmp(last->container, h->container) == 0;
        if (!same && !(same_pod && by_pod)) {
            p->holders[n++] = *h;
            continue;
        }
        if (!same)
            *last->container = '\0';
        last->share_bytes += h->share_bytes;
        if (!last->uid)
            last->uid = TAKE(h->uid);
        holder_free(h);
    }
    p->n_holders = n;
}

/* A place that several pods have is shared, by whatever way; a place of one pod is the pod's
 * own. */
static void finish(struct telemetry_place *p)
{
    join_holders(p, /* by_pod= */ p->is_shared);
    if (p->n_holders < 2 || p->is_shared)
        return;
    join_holders(p, /* by_pod= */ true);
    p->is_shared = p->n_holders > 1;
}

void telemetry_node_build(const struct node_state *s, const struct checkpoint *checkpoint,
                          struct telemetry_node *ret)
{
    struct build b = {.s = s, .ret = ret};
    *ret = (struct telemetry_node){0};
    for (size_t i = 0; i < s->n_cards; i++) {
        const struct gpu_card *card = &s->cards[i].card;
        if (!*card->uuid)
            continue;
        list_devices(&b, card, ret->n);
        struct telemetry_node_card *to = XPUSH(ret->cards, ret->n);
        build_card(card, s->inventory ? gpu_inventory_driver(s->inventory, card->vendor) : NULL,
                   to);
        if (s->health && !s->cards[i].unwatched)
            to->last_xid = (double)health_last_xid(s->health, card->uuid);
    }
    if (b.n_devices)
        qsort(b.devices, b.n_devices, sizeof(*b.devices), by_id);
    list_granted(&b, checkpoint);
    take_holders(&b);
    for (size_t i = 0; i < ret->n; i++)
        for (size_t k = 0; k < ret->cards[i].n_places; k++)
            finish(&ret->cards[i].places[k]);
    free(b.devices);
    free(b.granted);
}
