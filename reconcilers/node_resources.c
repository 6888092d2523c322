/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_resources.h"

#include <string.h>

#include "base/quantity.h"
#include "base/xalloc.h"

#include "partition/resources.h"

static void add(json_t *wanted, const char *name, int64_t count)
{
    auto_free char *text = quantity_format(count);
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
    return 0;
}

/* The card keeps of what stands no more than is wanted; one whose mode changes keeps nothing, and
 * has no say in what the others' partitions are called. `kept` has room for what stands. */
static void keep_wanted(struct resolve_card *card, const struct device_want *want,
                        struct profile_count *kept)
{
    size_t n = 0;
    card->healthy &= card->mode == want->mode;
    for (size_t i = 0; i < card->n_partitions; i++) {
        const struct profile_count *stands = &card->partitions[i];
        int64_t wanted = wanted_of(want, stands->profile);
        if (wanted > 0)
            kept[n++] = (struct profile_count){stands->profile,
                                               wanted < stands->count ? wanted : stands->count};
    }
    card->partitions = kept;
    card->n_partitions = n;
}

/* What is left to offer while the cards become what the spec says: of each card only what stands
 * and is wanted. Caller frees items and names. */
static struct offers offers_under(const struct node_view *v, const struct device_spec *spec)
{
    struct offers ret;
    size_t n = v->device->n_cards;
    auto_free struct resolve_card *cards = xmemdup(v->cards, n * sizeof(*cards));
    struct profile_count **kept = xcalloc(n, sizeof(struct profile_count *));
    for (size_t i = 0; i < n; i++) {
        const struct device_want *want = records_want(spec, cards[i].uuid);
        kept[i] = xcalloc(cards[i].n_partitions, sizeof(*kept[i]));
        if (want)
            keep_wanted(&cards[i], want, kept[i]);
    }
    resolve_resources(cards, n, spec, API_PUBLISHER_CONTROLLER, &ret.items, &ret.n);
    for (size_t i = 0; i < n; i++)
        free(kept[i]);
    free(kept);
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

/* While the status cannot be read, what was said because of it stays. */
static json_t *kept(const struct node_record *node)
{
    json_t *wanted = json_object();
    for (size_t i = 0; i < node->owned_resources.n; i++) {
        const char *name = node->owned_resources.items[i];
        const struct node_resource *r = resource_of(node, name);
        if (r && r->capacity >= 0)
            add(wanted, name, r->capacity);
    }
    return wanted;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of one resource. Until the agent has answered what was ordered last, an order before that may
 * still be carried out: the Node goes down and not up. */
static int64_t left_of(const struct node_view *v, const struct device_resource *r,
                       const struct offers *under)
{
    const struct node_resource *now = resource_of(v->node, r->name);
    int64_t left = smaller(r->count, count_of(under, r->name));
    if (v->device->observed_generation == v->generation)
        return left;
    return smaller(left, now ? now->capacity : 0);
}

json_t *node_resources_wanted(const struct node_view *v, const struct device_spec *next)
{
    if (v->device && v->device->status_error)
        return kept(v->node);
    json_t *wanted = json_object();
    struct offers under = {0};
    if (v->device && next)
        under = offers_under(v, next);
    for (size_t i = 0; v->device && i < v->device->n_resources; i++) {
        const struct device_resource *r = &v->device->resources[i];
        int64_t count = next ? left_of(v, r, &under) : r->count;
        if (r->publisher == API_PUBLISHER_CONTROLLER && count > 0)
            add(wanted, r->name, count);
    }
    offers_done(&under);
    return wanted;
}

/* --- What stands --- */

static bool stands(const struct node_record *node, const char *name, const char *text)
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
        if (!stands(node, name, json_string_value(count)))
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
