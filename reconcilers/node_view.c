/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/node_view.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

static void index_mig_label(const struct object *o, struct store_index_out *out)
{
    const char *label = records_mig_label(object_payload(o));
    if (label)
        store_index_emit(out, label);
}

void node_view_add_indexes(const struct caches *c)
{
    store_add_index(c->nodes, INDEX_MIG_LABEL, index_mig_label);
}

/* --- Reading the caches --- */

static void look_at_koordinator(const struct koordinator_link *l, const struct object_key *key,
                                struct node_view *ret)
{
    ret->koordinator = koordinator_link_use(l);
    if (ret->koordinator != KOORDINATOR_THERE)
        return;
    ret->koordinator_object = koordinator_link_device(l, key);
    /* A Device may be in the store before the cache reports that it has synced. */
    if (!ret->koordinator_object && !koordinator_link_has_synced(l))
        ret->koordinator = KOORDINATOR_UNKNOWN;
}

void node_view_look(const struct caches *c, const char *name, struct node_view *ret)
{
    assert(!ret->node_object && !ret->device_object && !ret->koordinator_object);
    const struct object_key key = {.name = name};
    ret->node_object = store_get(c->nodes, &key);
    ret->device_object = store_get(c->devices, &key);
    look_at_koordinator(c->koordinator, &key, ret);
    ret->gpushare = c->gpushare;
    if (ret->node_object)
        ret->node = object_payload(ret->node_object);
    if (ret->device_object) {
        ret->device = object_payload(ret->device_object);
        ret->generation = object_generation(ret->device_object);
    }
}

/* Keeps the objects for which `keep` returns true, and drops the references to the others. */
static void filter(struct object_list *l, bool (*keep)(const struct object *o, const void *arg),
                   const void *arg)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (keep(l->items[i], arg))
            l->items[kept++] = l->items[i];
        else
            (void)object_unref(l->items[i]);
    }
    l->count = kept;
}

static bool profile_matches(const struct object *o, const void *arg)
{
    const struct profile_record *p = object_payload(o);
    const struct node_record *node = arg;
    return !p->spec_error && !object_is_deleting(o) &&
           label_selector_matches(&p->spec.node_selector, node->labels, node->n_labels);
}

static bool config_counts(const struct object *o, const void *arg)
{
    (void)arg;
    const struct config_record *c = object_payload(o);
    return !c->spec_error && !object_is_deleting(o);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(object_name(*(struct object *const *)a), object_name(*(struct object *const *)b));
}

static int by_age(const void *a, const void *b)
{
    const struct config_record *x = object_payload(*(struct object *const *)a);
    const struct config_record *y = object_payload(*(struct object *const *)b);
    if (x->created_ms != y->created_ms)
        return x->created_ms < y->created_ms ? -1 : 1;
    return by_name(a, b);
}

static void sort_objects(struct object_list *l, int (*order)(const void *, const void *))
{
    if (l->count)
        qsort(l->items, l->count, sizeof(*l->items), order);
}

void node_view_configs(const struct caches *c, struct object_list *ret)
{
    store_list(c->configs, ret);
    filter(ret, config_counts, NULL);
    sort_objects(ret, by_age);
}

const struct object *node_view_config(const struct object_list *configs, const char *name)
{
    for (size_t i = 0; i < configs->count; i++)
        if (strcmp(object_name(configs->items[i]), name) == 0)
            return configs->items[i];
    for (size_t i = 0; i < configs->count; i++)
        if (records_config_named(configs->items[i], name))
            return configs->items[i];
    return NULL;
}

void node_view_gather(const struct caches *c, struct node_view *v)
{
    if (!v->node || !v->device)
        return;
    assert(!v->profiles.items && !v->configs.items);
    store_list(c->profiles, &v->profiles);
    filter(&v->profiles, profile_matches, v->node);
    sort_objects(&v->profiles, by_name);
    node_view_configs(c, &v->configs);
    node_view_resolve(v);
}

void node_view_read(const struct caches *c, const char *name, struct node_view *ret)
{
    node_view_look(c, name, ret);
    node_view_gather(c, ret);
}

/* --- Resolving --- */

static const struct mig_table *table_of(const struct node_view *v, const char *model)
{
    for (size_t i = 0; i < v->device->n_models; i++)
        if (strcmp(v->device->models[i].name, model) == 0)
            return v->device->models[i].table;
    return NULL;
}

static void expand_cards(struct node_view *v)
{
    const struct device_record *d = v->device;
    v->cards = xcalloc(d->n_cards, sizeof(*v->cards));
    for (size_t i = 0; i < d->n_cards; i++) {
        records_card_view(&d->cards[i], &v->cards[i]);
        v->cards[i].table = table_of(v, d->cards[i].model);
    }
}

void node_view_resolve(struct node_view *v)
{
    assert(v->node && v->device && !v->cards && !v->result.outcomes);
    expand_cards(v);
    auto_free struct resolve_profile *profiles = xcalloc(v->profiles.count, sizeof(*profiles));
    auto_free struct resolve_config *configs = xcalloc(v->configs.count, sizeof(*configs));
    for (size_t i = 0; i < v->profiles.count; i++) {
        const struct object *o = v->profiles.items[i];
        const struct profile_record *p = object_payload(o);
        profiles[i] = (struct resolve_profile){object_name(o), object_generation(o), &p->spec};
    }
    for (size_t i = 0; i < v->configs.count; i++) {
        const struct object *o = v->configs.items[i];
        const struct config_record *c = object_payload(o);
        configs[i] = (struct resolve_config){object_name(o), object_generation(o), &c->spec};
    }
    resolve_node(
        &(struct resolve_input){
            .cards = v->cards,
            .n_cards = v->device->n_cards,
            .current = &v->device->spec,
            .profiles = profiles,
            .n_profiles = v->profiles.count,
            .configs = configs,
            .n_configs = v->configs.count,
            .label = records_mig_label(v->node),
        },
        &v->result);
}

static const struct resolve_outcome *outcome(const struct node_view *v, enum api_source_kind kind,
                                             const char *name)
{
    for (size_t i = 0; i < v->result.n_outcomes; i++) {
        const struct device_source *s = &v->result.outcomes[i].source;
        if (s->kind == (int)kind && strcmp(s->name, name) == 0)
            return &v->result.outcomes[i];
    }
    return NULL;
}

const struct resolve_outcome *node_view_profile(const struct node_view *v, const char *profile)
{
    return outcome(v, API_SOURCE_PROFILE, profile);
}

const struct resolve_outcome *node_view_label(const struct node_view *v)
{
    const char *label = v->node ? records_mig_label(v->node) : NULL;
    return label ? outcome(v, API_SOURCE_NODE_LABEL, label) : NULL;
}

/* --- Sources --- */

const struct object *node_view_profile_object(const struct node_view *v, const char *profile)
{
    for (size_t i = 0; i < v->profiles.count; i++)
        if (strcmp(object_name(v->profiles.items[i]), profile) == 0)
            return v->profiles.items[i];
    return NULL;
}

static bool profile_brings(const struct node_view *v, const struct object *profile,
                           const struct object *config)
{
    const struct profile_record *p = object_payload(profile);
    for (size_t i = 0; i < p->spec.n_devices; i++) {
        const struct gpuprofile_entry *entry = &p->spec.devices[i];
        if (entry->has_mig && entry->mig.config &&
            node_view_config(&v->configs, entry->mig.config) == config)
            return true;
    }
    return false;
}

bool node_view_brings(const struct node_view *v, const struct device_source *source,
                      const struct object *config)
{
    if (source->kind == API_SOURCE_NODE_LABEL)
        return node_view_config(&v->configs, source->name) == config;
    const struct object *profile = node_view_profile_object(v, source->name);
    return profile && profile_brings(v, profile, config);
}

static void add_object(struct object_list *l, struct object *o)
{
    *XPUSH(l->items, l->count) = object_ref(o);
}

void node_view_alone(const struct node_view *v, const char *profile, struct node_view *ret)
{
    ret->node_object = object_ref(v->node_object);
    ret->device_object = object_ref(v->device_object);
    ret->node = v->node;
    ret->device = v->device;
    ret->generation = v->generation;
    for (size_t i = 0; i < v->profiles.count; i++)
        if (strcmp(object_name(v->profiles.items[i]), profile) == 0)
            add_object(&ret->profiles, v->profiles.items[i]);
    for (size_t i = 0; i < v->configs.count; i++)
        add_object(&ret->configs, v->configs.items[i]);
    node_view_resolve(ret);
}

void node_view_done(struct node_view *v)
{
    resolve_result_done(&v->result);
    free(v->cards);
    object_list_done(&v->profiles);
    object_list_done(&v->configs);
    (void)object_unref(v->node_object);
    (void)object_unref(v->device_object);
    (void)object_unref(v->koordinator_object);
    *v = (struct node_view){0};
}
