/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/node_cards.h"

#include <string.h>

#include "base/xalloc.h"

#include "api/device.h"
#include "api/kinds.h"
#include "kubeclient/client.h"
#include "partition/enforcement.h"
#include "partition/vendor.h"

enum { WHOLE_PERCENT = 100, NO_CARD = FRACTION_MAX_CARDS };

static const struct kc_resource device_resource = {API_GROUP, API_VERSION, "devices", "Device",
                                                   /* namespaced= */ false};

/* --- Which cards give shares --- */

static bool is_pool(const struct device_status *s)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].has_fractional)
            return true;
    return false;
}

/* A card that nobody shares joins the pool as itself; one that is shared in another way, or cut,
 * does not. */
static bool gives_shares(const struct device_card *c, const struct device_want *want)
{
    const struct vendor *v = vendor_find(c->vendor ? c->vendor : "");
    if (!v || !v->has_shares || c->mode != API_MODE_NATIVE)
        return false;
    return c->has_fractional || !(want && want->has_sharing &&
                                  (want->sharing.has_time_slicing || want->sharing.has_mps));
}

/* A change that is under way, or ordered, takes the card: it gets no new shares. */
static bool is_ill(const struct device_card *c, const struct device_want *want)
{
    bool stays = !want || want->mode == API_MODE_NATIVE;
    bool gives =
        !c->has_fractional || !want || enforcement_gives_shares(want, &enforcement_anywhere);
    return !c->healthy || c->has_pending_mode || c->has_drain || !stays || !gives;
}

/* Its new shares are clients of an MPS daemon, of which a container has one. */
static bool is_lonely(const struct device_card *c, const struct device_want *want)
{
    return c->has_fractional && want && want->has_sharing && want->sharing.has_fractional &&
           enforcement_asks_for_mps(&want->sharing.fractional);
}

static unsigned bounded(int64_t n)
{
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (unsigned)n;
}

static struct fraction_size total_of(const struct device_card *c)
{
    const struct device_fractional_state *f = &c->fractional;
    if (!c->has_fractional)
        return (struct fraction_size){bounded(c->memory_mib), WHOLE_PERCENT, 1};
    return (struct fraction_size){bounded(f->memory_mib), bounded(f->compute_percent),
                                  bounded(f->max_shares)};
}

static unsigned add_card(struct node_cards *n, const struct device_card *c,
                         const struct device_want *want)
{
    if (n->n == FRACTION_MAX_CARDS)
        return NO_CARD;
    n->cards[n->n] = (struct fraction_card){.uuid = xstrdup(c->uuid),
                                            .model = xstrdup(c->model),
                                            .numa = (int)c->numa_node,
                                            .ill = is_ill(c, want),
                                            .only_whole = !c->has_fractional,
                                            .lonely = is_lonely(c, want),
                                            .total = total_of(c)};
    n->indices[n->n] = bounded(c->index);
    return n->n++;
}

static bool is_linked(const struct device_card *a, const struct device_card *b)
{
    for (size_t i = 0; i < a->n_linked_with; i++)
        if (a->linked_with[i] == b->index)
            return true;
    return false;
}

/* A Device says whether two cards are linked, and where they are plugged in: less than their agent knows,
 * in the same order (NVIDIA's go-gpuallocator). */
static uint16_t closeness(const struct device_card *a, const struct device_card *b)
{
    enum { LINKED = 100, ONE_ROOT = 40, ONE_NODE = 20, ONE_MACHINE = 10 };
    uint16_t score = ONE_MACHINE;
    if (a->numa_node >= 0 && a->numa_node == b->numa_node)
        score = ONE_NODE;
    if (a->pcie_root && b->pcie_root && strcmp(a->pcie_root, b->pcie_root) == 0)
        score = ONE_ROOT;
    return is_linked(a, b) || is_linked(b, a) ? (uint16_t)(score + LINKED) : score;
}

static void connect(struct node_cards *n, const struct device_status *s)
{
    n->pairs = xcalloc((size_t)n->n * n->n, sizeof(*n->pairs));
    for (unsigned a = 0; a < n->n; a++)
        for (unsigned b = 0; b < n->n; b++)
            if (a != b)
                n->pairs[a * n->n + b] = closeness(device_status_card(s, n->cards[a].uuid),
                                                   device_status_card(s, n->cards[b].uuid));
}

/* --- What is given out --- */

static void tell(struct node_cards *n, unsigned card, const struct device_consumer *by,
                 const struct fraction_size *share)
{
    size_t count = n->n_told;
    if (!by->namespace || !by->name)
        return;
    struct told_share *t = XPUSH(n->told, count);
    n->n_told = count;
    *t = (struct told_share){.card = card,
                             .pod = xasprintf("%s/%s", by->namespace, by->name),
                             .whole = !share};
    if (share)
        t->size = *share;
}

/* A pod that holds the card itself is named without a process. */
static void tell_holders(struct node_cards *n, unsigned card, const struct device_card *c)
{
    for (size_t i = 0; i < c->n_in_use_by; i++)
        if (!c->in_use_by[i].process && !c->in_use_by[i].pid)
            tell(n, card, &c->in_use_by[i], /* share= */ NULL);
}

/* A share that no pod is named for is being made, or released. */
static void tell_shares(struct node_cards *n, unsigned card, const struct device_card *c)
{
    static char none[] = "";
    static const struct device_consumer nobody = {.namespace = none, .name = none};
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        const struct fraction_size size = {bounded(p->slice.memory_mib),
                                           bounded(p->slice.compute_percent), 1};
        if (!p->profile || strcmp(p->profile, DEVICE_SHARE) != 0)
            continue;
        tell(n, card, p->n_in_use_by ? &p->in_use_by[0] : &nobody, &size);
    }
}

/* --- The record --- */

static void add_cards(struct node_cards *n, const struct device_status *status,
                      const struct device_spec *spec, bool only_whole)
{
    for (size_t i = 0; i < status->n_devices; i++) {
        const struct device_card *c = &status->devices[i];
        const struct device_want *want = device_spec_want(spec, c->uuid);
        if (!gives_shares(c, want) || c->has_fractional == only_whole)
            continue;
        unsigned card = add_card(n, c, want);
        if (card == NO_CARD)
            return;
        tell_holders(n, card, c);
        tell_shares(n, card, c);
    }
}

static void free_cards(void *payload)
{
    struct node_cards *n = payload;
    if (!n)
        return;
    for (unsigned i = 0; i < n->n; i++) {
        free((char *)(uintptr_t)n->cards[i].uuid);
        free((char *)(uintptr_t)n->cards[i].model);
    }
    for (size_t i = 0; i < n->n_told; i++)
        free(n->told[i].pod);
    free(n->pairs);
    free(n->indices);
    free(n->cards);
    free(n->told);
    free(n);
}

static int read_device(const json_t *device, void **ret, struct err *e)
{
    auto_device_spec struct device_spec spec = {0};
    auto_device_status struct device_status status = {0};
    TRY(device_spec_decode(device, &spec, e));
    TRY(device_status_decode(device, &status, e));
    if (!is_pool(&status))
        return 0;
    struct node_cards *n = xmalloc(sizeof(*n));
    size_t most = status.n_devices < FRACTION_MAX_CARDS ? status.n_devices : FRACTION_MAX_CARDS;
    *n = (struct node_cards){.cards = xcalloc(most, sizeof(*n->cards)),
                             .indices = xcalloc(most, sizeof(*n->indices))};
    add_cards(n, &status, &spec, /* only_whole= */ true);
    add_cards(n, &status, &spec, /* only_whole= */ false);
    connect(n, &status);
    *ret = n;
    return 0;
}

const struct object_type node_cards_type = {&device_resource, read_device, free_cards};

const struct node_cards *node_cards_of(const struct object *device)
{
    return device ? object_payload(device) : NULL;
}
