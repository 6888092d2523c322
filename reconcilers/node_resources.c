/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_resources.h"

#include <string.h>

#include "base/quantity.h"
#include "base/xalloc.h"

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

/* What the node would offer if its cards were as the spec says. Caller frees items and names. */
static struct offers offers_after(const struct node_view *v, const struct device_spec *spec)
{
    struct offers ret;
    size_t n = v->device->n_cards;
    auto_free struct resolve_card *cards = xmemdup(v->cards, n * sizeof(*cards));
    for (size_t i = 0; i < n; i++) {
        const struct device_want *want = records_want(spec, cards[i].uuid);
        if (!want)
            continue;
        cards[i].mode = want->mode;
        cards[i].partitions = want->mig.profiles;
        cards[i].n_partitions = want->mig.n_profiles;
    }
    resolve_resources(cards, n, spec, API_PUBLISHER_CONTROLLER, &ret.items, &ret.n);
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
        if (r)
            add(wanted, name, r->capacity);
    }
    return wanted;
}

json_t *node_resources_wanted(const struct node_view *v, const struct device_spec *next)
{
    if (v->device && v->device->status_error)
        return kept(v->node);
    json_t *wanted = json_object();
    struct offers after = {0};
    if (v->device && next)
        after = offers_after(v, next);
    for (size_t i = 0; v->device && i < v->device->n_resources; i++) {
        const struct device_resource *r = &v->device->resources[i];
        if (r->publisher != API_PUBLISHER_CONTROLLER)
            continue;
        int64_t left = next ? count_of(&after, r->name) : r->count;
        if (left > 0)
            add(wanted, r->name, left < r->count ? left : r->count);
    }
    offers_done(&after);
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
