/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/node_record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "base/xalloc.h"

#include "api/feature_label.h"
#include "api/kinds.h"
#include "api/koordinator.h"
#include "interop/gpushare.h"
#include "interop/metax_cards.h"
#include "interop/node_lock.h"
#include "partition/vendor.h"
#include "reconcilers/records/intern.h"
#include "reconcilers/records/node_taint.h"
#include "reconcilers/records/shared_parts.h"
#include "service/resources.h"

static void strings_free(struct string_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        intern_drop(l->items[i]);
    free(l->items);
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names in a fieldsV1 map ("f:nvidia.com/gpu.count") that are not in the list yet. */
static void add_field_names(const json_t *fields, struct string_list *l)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)fields, key, value) {
        if (strncmp(key, "f:", 2) != 0)
            continue;
        bool known = false;
        for (size_t i = 0; i < l->n && !known; i++)
            known = strcmp(l->items[i], key + 2) == 0;
        if (!known)
            *XPUSH(l->items, l->n) = (char *)(uintptr_t)intern_text(key + 2);
    }
    if (l->n)
        qsort(l->items, l->n, sizeof(*l->items), by_string);
}

/* The fieldsV1 of a manager that applies, or NULL. Borrowed. */
static const json_t *applied_fields(const json_t *obj, const char *manager)
{
    const json_t *entries = JX_AT(obj, "metadata", "managedFields");
    size_t i;
    const json_t *entry;
    json_array_foreach(entries, i, entry) {
        const char *name = JX_STR_AT(entry, "manager");
        const char *operation = JX_STR_AT(entry, "operation");
        if (name && operation && strcmp(name, manager) == 0 && strcmp(operation, "Apply") == 0)
            return JX_AT(entry, "fieldsV1");
    }
    return NULL;
}

/* True for the managers of GPU and PCI labels where NVIDIA's and node-feature-discovery's daemons
 * run: GPU feature discovery passes its own to nfd-master (client-go names a manager by its
 * program). */
static bool is_discovery(const char *manager)
{
    return manager &&
           (strncmp(manager, "nfd", 3) == 0 || strcmp(manager, "node-feature-discovery") == 0 ||
            strcmp(manager, "gpu-feature-discovery") == 0);
}

static bool has_string(const struct string_list *l, const char *s)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i], s) == 0)
            return true;
    return false;
}

static void add_discovered(const json_t *fields, struct string_list *l)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)fields, key, value) {
        if (strncmp(key, "f:", 2) == 0 && feature_label_discovered(key + 2) &&
            !has_string(l, key + 2))
            *XPUSH(l->items, l->n) = (char *)(uintptr_t)intern_text(key + 2);
    }
}

static void read_discovered(const json_t *obj, struct string_list *l)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(JX_AT(obj, "metadata", "managedFields"), i, entry) {
        if (is_discovery(JX_STR_AT(entry, "manager")))
            add_discovered(JX_AT(entry, "fieldsV1", "f:metadata", "f:labels"), l);
    }
    if (l->n)
        qsort(l->items, l->n, sizeof(*l->items), by_string);
}

static int by_resource_name(const void *a, const void *b)
{
    return strcmp(((const struct node_resource *)a)->name, ((const struct node_resource *)b)->name);
}

static struct node_resource *node_resource(struct node_record *r, const char *name)
{
    for (size_t i = 0; i < r->n_resources; i++)
        if (strcmp(r->resources[i].name, name) == 0)
            return &r->resources[i];
    struct node_resource *added = XPUSH(r->resources, r->n_resources);
    *added = (struct node_resource){(char *)(uintptr_t)intern_text(name), -1, -1};
    return added;
}

static bool is_counted(const char *name)
{
    return vendor_owns(name) || koordinator_is_resource(name) || gpushare_is_resource(name);
}

static void read_resources(const json_t *map, struct node_record *r, size_t offset)
{
    assert(offset + sizeof(int64_t) <= sizeof(struct node_resource));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        int64_t count;
        if (!is_counted(key) || !json_is_string(value) ||
            quantity_parse(json_string_value(value), &count, NULL) < 0)
            continue;
        memcpy((char *)node_resource(r, key) + offset, &count, sizeof(count));
    }
}

static char *annotation(const json_t *obj, const char *key, size_t max)
{
    const char *text = JX_STR_AT(obj, "metadata", "annotations", key);
    return text ? xstrndup(text, max + 1) : NULL;
}

bool records_node_is_ready(const json_t *node)
{
    size_t i;
    const json_t *condition;
    json_array_foreach(JX_AT(node, "status", "conditions"), i, condition) {
        const char *type = JX_STR_AT(condition, "type");
        const char *status = JX_STR_AT(condition, "status");
        if (type && status && strcmp(type, "Ready") == 0)
            return strcmp(status, "True") == 0;
    }
    return false;
}

static int transform_node(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct node_record *r = xmalloc(sizeof(*r));
    r->labels = shared_pairs_read(obj, "labels", &r->n_labels);
    const json_t *ours = applied_fields(obj, MANAGER_NODE);
    add_field_names(JX_AT(ours, "f:metadata", "f:labels"), &r->owned_labels);
    read_discovered(obj, &r->discovered_labels);
    add_field_names(JX_AT(ours, "f:status", "f:capacity"), &r->owned_resources);
    add_field_names(JX_AT(ours, "f:status", "f:allocatable"), &r->owned_resources);
    read_resources(JX_AT(obj, "status", "capacity"), r, offsetof(struct node_resource, capacity));
    read_resources(JX_AT(obj, "status", "allocatable"), r,
                   offsetof(struct node_resource, allocatable));
    if (r->n_resources)
        qsort(r->resources, r->n_resources, sizeof(*r->resources), by_resource_name);
    r->tainted = node_taint_stands(obj);
    r->ready = records_node_is_ready(obj);
    r->lock = annotation(obj, NODE_LOCK_ANNOTATION, NODE_LOCK_MAX_BYTES);
    r->cards = annotation(obj, METAX_CARDS_ANNOTATION, METAX_CARDS_MAX_BYTES);
    r->owns_cards = JX_AT(applied_fields(obj, MANAGER_NODE_CARDS), "f:metadata", "f:annotations",
                          "f:" METAX_CARDS_ANNOTATION);
    *ret = r;
    return 0;
}

static void free_node(void *payload)
{
    struct node_record *r = payload;
    shared_pairs_free(r->labels, r->n_labels);
    strings_free(&r->owned_labels);
    strings_free(&r->discovered_labels);
    strings_free(&r->owned_resources);
    for (size_t i = 0; i < r->n_resources; i++)
        intern_drop(r->resources[i].name);
    free(r->resources);
    free(r->lock);
    free(r->cards);
    free(r);
}

const struct object_type records_node_type = {&resource_nodes, transform_node, free_node};

const char *records_mig_label(const struct node_record *node)
{
    const char *value = records_label(node->labels, node->n_labels, LABEL_MIG_CONFIG);
    return value && *value ? value : NULL;
}

static bool same_strings(const struct string_list *a, const struct string_list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return true;
}

bool records_same_labels(const struct node_record *a, const struct node_record *b)
{
    if (a->n_labels != b->n_labels)
        return false;
    for (size_t i = 0; i < a->n_labels; i++)
        if (strcmp(a->labels[i].key, b->labels[i].key) != 0 ||
            strcmp(a->labels[i].str, b->labels[i].str) != 0)
            return false;
    return same_strings(&a->owned_labels, &b->owned_labels) &&
           same_strings(&a->discovered_labels, &b->discovered_labels);
}

bool records_same_resources(const struct node_record *a, const struct node_record *b)
{
    if (a->n_resources != b->n_resources)
        return false;
    for (size_t i = 0; i < a->n_resources; i++) {
        const struct node_resource *x = &a->resources[i];
        const struct node_resource *y = &b->resources[i];
        if (strcmp(x->name, y->name) != 0 || x->capacity != y->capacity ||
            x->allocatable != y->allocatable)
            return false;
    }
    return same_strings(&a->owned_resources, &b->owned_resources);
}
