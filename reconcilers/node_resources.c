/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_resources.h"

#include <assert.h>
#include <string.h>

#include "base/quantity.h"
#include "base/xalloc.h"

#include "api/share_request.h"
#include "interop/gpushare.h"
#include "partition/enforcement.h"
#include "partition/resource_names.h"
#include "partition/share_numbers.h"
#include "reconcilers/koordinator_cards.h"

/* Sizes are written in the units that people use. */
static void add_count(json_t *wanted, const char *name, int64_t count)
{
    bool bytes = strcmp(name, KOORDINATOR_MEMORY) == 0;
    auto_free char *text = bytes ? quantity_format_binary(count) : quantity_format(count);
    (void)json_object_set_new(wanted, name, json_string(text));
}

static const struct node_resource *resource_of(const struct node_record *node, const char *name)
{
    for (size_t i = 0; i < node->n_resources; i++)
        if (strcmp(node->resources[i].name, name) == 0)
            return &node->resources[i];
    return NULL;
}

/* --- What is wanted --- */

struct offers {
    struct device_resource *items;
    size_t n;
};

static int64_t wanted_of(const struct device_want *want, const char *profile)
{
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        if (strcmp(want->mig.profiles[i].profile, profile) == 0)
            return want->mig.profiles[i].count;
    for (size_t i = 0; i < want->sgpu.n_slices; i++)
        if (strcmp(want->sgpu.slices[i].alias, profile) == 0)
            return want->sgpu.slices[i].count ? want->sgpu.slices[i].count : 1;
    return 0;
}

/* Reduces a card to the partitions that exist and are wanted. A card whose mode changes keeps
 * nothing, and does not count when the names of the others' partitions are chosen. `kept` has room
 * for all partitions. */
static void keep_wanted(struct resolve_card *card, const struct device_want *want,
                        struct profile_count *kept)
{
    size_t n = 0;
    card->healthy &= card->mode == want->mode;
    for (size_t i = 0; i < card->n_partitions; i++) {
        const struct profile_count *stands = &card->partitions[i];
        /* All existing virtual functions are wanted: they have no counts in a want. */
        int64_t wanted =
            want->mode == API_MODE_VGPU ? stands->count : wanted_of(want, stands->profile);
        if (wanted > 0)
            kept[n++] = (struct profile_count){stands->profile,
                                               wanted < stands->count ? wanted : stands->count};
    }
    assert(n <= card->n_partitions);
    card->partitions = kept;
    card->n_partitions = n;
}

/* Koordinator's Device, where another writer keeps it; NULL: we do. */
static const struct koordinator_record *others_device(const struct node_view *v)
{
    const struct koordinator_record *r =
        v->koordinator_object ? object_payload(v->koordinator_object) : NULL;
    return r && r->writer == KOORDINATOR_OTHERS ? r : NULL;
}

static void add_koordinator(const struct node_view *v, const struct device_spec *spec,
                            struct offers *o)
{
    auto_koordinator_cards struct koordinator_cards cards = {0};
    if (v->koordinator != KOORDINATOR_THERE)
        return;
    const struct koordinator_record *others = others_device(v);
    if (others) {
        koordinator_mirror_resources_of(&others->spec, others->texts[KOORDINATOR_TEXT_VENDOR],
                                        &o->items, &o->n);
        return;
    }
    koordinator_cards_of(v, spec, &cards);
    koordinator_mirror_resources(&cards.node, &o->items, &o->n);
}

/* The terms by which the card gives shares now, or at once: no hardware changes for that. NULL: it
 * gives none. */
static const struct device_fractional *terms_of(const struct card_record *c,
                                                const struct device_spec *spec)
{
    const struct device_want *want = device_spec_want(spec, c->uuid);
    bool gives = enforcement_gives_shares(want, &enforcement_anywhere) && c->healthy &&
                 c->mode == API_MODE_NATIVE;
    return gives ? &want->sharing.fractional : NULL;
}

static void add_shares(const struct node_view *v, const struct device_spec *spec, struct offers *o)
{
    struct share_sums sums = {0};
    for (size_t i = 0; i < v->device->n_cards; i++) {
        const struct device_fractional *terms = terms_of(&v->device->cards[i], spec);
        if (terms)
            share_sums_add(&sums, v->device->cards[i].memory_mib, terms);
    }
    share_sums_offer(&sums, &o->items, &o->n);
}

/* True while the agent makes shares: its Device has their sums. */
static bool agent_makes_shares(const struct device_record *d)
{
    for (size_t i = 0; i < d->n_resources; i++)
        if (strcmp(d->resources[i].name, SHARE_MEMORY) == 0)
            return true;
    return false;
}

static void add_gpushare(const struct node_view *v, const struct device_spec *spec,
                         struct offers *o)
{
    struct gpushare_sums sums = {0};
    bool wanted = v->gpushare && agent_makes_shares(v->device);
    for (size_t i = 0; wanted && i < v->device->n_cards; i++) {
        const struct device_fractional *terms = terms_of(&v->device->cards[i], spec);
        if (terms)
            gpushare_sums_add(&sums, v->device->cards[i].memory_mib, terms);
    }
    gpushare_sums_offer(&sums, &o->items, &o->n);
}

/* The resources that other schedulers count, of which a Device says nothing. */
static void add_others(const struct node_view *v, const struct device_spec *spec, struct offers *o)
{
    add_koordinator(v, spec, o);
    add_gpushare(v, spec, o);
}

/* The offer while the cards become what the spec orders: only what exists now and is wanted. Caller
 * frees items and names. */
static struct offers offers_under(const struct node_view *v, const struct device_spec *spec)
{
    struct offers ret;
    size_t n = v->device->n_cards;
    auto_free struct resolve_card *cards = xmemdup(v->cards, n * sizeof(*cards));
    struct profile_count **kept = xcalloc(n, sizeof(struct profile_count *));
    for (size_t i = 0; i < n; i++) {
        const struct device_want *want = device_spec_want(spec, cards[i].uuid);
        kept[i] = xcalloc(cards[i].n_partitions, sizeof(*kept[i]));
        if (want)
            keep_wanted(&cards[i], want, kept[i]);
    }
    resolve_resources(cards, n, spec, API_PUBLISHER_CONTROLLER, &ret.items, &ret.n);
    for (size_t i = 0; i < n; i++)
        free(kept[i]);
    free(kept);
    add_shares(v, spec, &ret);
    add_others(v, spec, &ret);
    return ret;
}

static int64_t count_of(const struct offers *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->items[i].name, name) == 0)
            return o->items[i].count;
    return 0;
}

static void offers_done(struct offers *o)
{
    for (size_t i = 0; i < o->n; i++)
        free(o->items[i].name);
    free(o->items);
}

static bool is_any(const char *name)
{
    (void)name;
    return true;
}

/* Keeps the values that we applied earlier under these names. */
static void keep_names(const struct node_record *node, bool (*keep)(const char *name),
                       json_t *wanted)
{
    for (size_t i = 0; i < node->owned_resources.n; i++) {
        const char *name = node->owned_resources.items[i];
        const struct node_resource *r = resource_of(node, name);
        if (r && r->capacity >= 0 && keep(name))
            add_count(wanted, name, r->capacity);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The count of one resource. Until the agent has acknowledged the last order, an earlier order may
 * still be carried out, so the Node's count may fall and not rise. */
static int64_t left_of(const struct node_view *v, const struct device_resource *r,
                       const struct offers *under)
{
    const struct node_resource *now = resource_of(v->node, r->name);
    int64_t left = smaller(r->count, count_of(under, r->name));
    if (v->device->observed_generation == v->generation)
        return left;
    return smaller(left, now ? now->capacity : 0);
}

static void want(const struct node_view *v, const struct device_resource *r,
                 const struct offers *under, json_t *wanted)
{
    int64_t count = under ? left_of(v, r, under) : r->count;
    assert(count <= r->count); /* never more than the hardware has */
    if (r->publisher == API_PUBLISHER_CONTROLLER && count > 0)
        add_count(wanted, r->name, count);
}

static void want_all(const struct node_view *v, const struct offers *under, json_t *wanted)
{
    struct offers others = {0};
    add_others(v, &v->device->spec, &others);
    for (size_t i = 0; i < v->device->n_resources; i++)
        want(v, &v->device->resources[i], under, wanted);
    for (size_t i = 0; i < others.n; i++)
        want(v, &others.items[i], under, wanted);
    offers_done(&others);
}

json_t *node_resources_wanted(const struct node_view *v, const struct device_spec *next)
{
    json_t *wanted = json_object();
    struct offers under = {0};
    /* While the status cannot be read, the resources that came from it stay. */
    if (v->device && v->device->status_error) {
        keep_names(v->node, is_any, wanted);
        return wanted;
    }
    if (v->device && next)
        under = offers_under(v, next);
    if (v->device)
        want_all(v, next ? &under : NULL, wanted);
    if (v->device && v->koordinator == KOORDINATOR_UNKNOWN)
        keep_names(v->node, koordinator_is_resource, wanted);
    offers_done(&under);
    return wanted;
}

/* --- Present values --- */

static bool is_count_current(const struct node_record *node, const char *name, const char *text)
{
    int64_t count;
    const struct node_resource *r = resource_of(node, name);
    return r && quantity_parse(text, &count, NULL) == 0 && r->capacity == count &&
           r->allocatable == count;
}

bool node_resources_stand(const struct node_record *node, json_t *wanted)
{
    const char *name;
    json_t *count;
    json_object_foreach(wanted, name, count)
        if (!is_count_current(node, name, json_string_value(count)))
            return false;
    if (node->owned_resources.n != json_object_size(wanted))
        return false;
    for (size_t i = 0; i < node->owned_resources.n; i++)
        if (!json_object_get(wanted, node->owned_resources.items[i]))
            return false;
    return true;
}

bool node_resources_published(const struct node_view *v)
{
    auto_json json_t *wanted = node_resources_wanted(v, /* next= */ NULL);
    return node_resources_stand(v->node, wanted);
}

bool node_resources_wait(const struct node_view *v)
{
    if (!v->node || v->koordinator != KOORDINATOR_UNKNOWN)
        return false;
    for (size_t i = 0; i < v->node->owned_resources.n; i++)
        if (koordinator_is_resource(v->node->owned_resources.items[i]))
            return true;
    return false;
}
