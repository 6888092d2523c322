/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/records.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "api/feature_label.h"
#include "api/kinds.h"
#include "api/koordinator.h"
#include "api/label_value.h"
#include "interop/metax_cards.h"
#include "interop/node_lock.h"
#include "partition/model.h"
#include "partition/vendor.h"
#include "reconcilers/records/intern.h"
#include "reconcilers/records/node_taint.h"
#include "service/conditions.h"
#include "service/resources.h"

/* --- Small parts --- */

static int by_pair_key(const void *a, const void *b)
{
    return strcmp(((const struct jx_pair *)a)->key, ((const struct jx_pair *)b)->key);
}

/* Replaces a text that this record owns by the shared one. */
static void share_text(char **text)
{
    const char *shared = intern_text(*text);
    free(*text);
    *text = (char *)(uintptr_t)shared;
}

static void let_go(char **text)
{
    intern_drop(*text);
    *text = NULL;
}

/* A map of strings, all of them shared; values of other types count as "". */
static struct jx_pair *pairs_read(const json_t *obj, const char *map_name, size_t *ret_n)
{
    json_t *map = json_object_get(json_object_get(obj, "metadata"), map_name);
    size_t n = json_object_size(map);
    struct jx_pair *pairs = xcalloc(n, sizeof(*pairs));
    struct jx_pair *p = pairs;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        const char *text = json_string_value(value);
        p->key = (char *)(uintptr_t)intern_text(key);
        p->str = (char *)(uintptr_t)intern_text(text ? text : "");
        p++;
    }
    if (n)
        qsort(pairs, n, sizeof(*pairs), by_pair_key);
    *ret_n = n;
    return pairs;
}

static void pairs_free(struct jx_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        intern_drop(pairs[i].key);
        intern_drop(pairs[i].str);
    }
    free(pairs);
}

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

/* --- Node --- */

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

static void read_resources(const json_t *map, struct node_record *r, size_t offset)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        int64_t count;
        if ((!vendor_owns(key) && !koordinator_is_resource(key)) || !json_is_string(value) ||
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

static int transform_node(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct node_record *r = xmalloc(sizeof(*r));
    r->labels = pairs_read(obj, "labels", &r->n_labels);
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
    pairs_free(r->labels, r->n_labels);
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

/* --- Device --- */

static void read_condition(const struct conditions *list, const char *type,
                           struct condition_record *ret)
{
    const struct condition *c = condition_get(list, type);
    if (!c)
        return;
    *ret = (struct condition_record){true, c->status, xstrdup(c->reason), xstrdup(c->message)};
}

static void condition_record_done(struct condition_record *c)
{
    free(c->reason);
    free(c->message);
}

static bool waits_for(const struct device_drain *d, const char *uuid)
{
    for (size_t i = 0; i < d->n_partitions; i++)
        if (strcmp(d->partitions[i], uuid) == 0)
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void add_pods(struct card_record *r, const struct device_consumer *list, size_t n,
                     int64_t since_ms)
{
    for (size_t i = 0; i < n; i++) {
        const struct device_consumer *c = &list[i];
        bool known = !(c->uid && *c->uid) && !(c->namespace && c->name);
        for (size_t k = 0; k < r->n_drain_pods && !known; k++)
            known = same_text(r->drain_pods[k].uid, c->uid) &&
                    same_text(r->drain_pods[k].ns, c->namespace) &&
                    same_text(r->drain_pods[k].name, c->name);
        if (known)
            continue;
        *XPUSH(r->drain_pods, r->n_drain_pods) = (struct drain_pod){
            .uid = xstrdup(c->uid),
            .ns = xstrdup(c->namespace),
            .name = xstrdup(c->name),
            .since_ms = since_ms,
        };
    }
}

static void read_drain(const struct device_card *c, struct card_record *r)
{
    if (!c->has_drain)
        return;
    r->draining = true;
    r->drain_deadline_ms = c->drain.deadline_ms;
    if (c->drain.card)
        add_pods(r, c->in_use_by, c->n_in_use_by, c->drain.since_ms);
    for (size_t i = 0; i < c->n_partitions; i++)
        if (c->drain.card || waits_for(&c->drain, c->partitions[i].uuid))
            add_pods(r, c->partitions[i].in_use_by, c->partitions[i].n_in_use_by,
                     c->drain.since_ms);
}

static void read_slice(const struct device_partition *p, struct sgpu_state *ret)
{
    const struct device_slice *from = &p->slice;
    if (!p->has_slice || ret->n == SGPU_MAX_SLICES)
        return;
    struct sgpu_slice *to = &ret->items[ret->n++];
    to->id = (unsigned)from->id;
    to->quota = (struct sgpu_quota){(unsigned)from->memory_mib, (unsigned)from->compute_percent};
    to->in_use = p->in_use;
    to->foreign = from->foreign;
    (void)snprintf(to->alias, sizeof(to->alias), "%s", from->alias ? from->alias : "");
}

static void read_sgpu(const struct device_card *c, struct card_record *r)
{
    if (!c->has_sgpu)
        return;
    r->sgpu = xmalloc(sizeof(*r->sgpu));
    *r->sgpu = (struct sgpu_state){.memory_mib = (unsigned)c->sgpu.memory_mib,
                                   .qos = c->sgpu.qos_policy,
                                   .timeslice_ms = (unsigned)c->sgpu.timeslice_ms};
    for (size_t i = 0; i < c->n_partitions; i++)
        read_slice(&c->partitions[i], r->sgpu);
}

static void read_partitions(const struct device_card *c, struct card_record *r)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        if (!sgpu_is_declared(&c->partitions[i]))
            continue;
        const char *profile = c->partitions[i].profile ? c->partitions[i].profile : "unknown";
        struct profile_count *pc = NULL;
        for (size_t k = 0; k < r->n_partitions && !pc; k++)
            if (strcmp(r->partitions[k].profile, profile) == 0)
                pc = &r->partitions[k];
        if (!pc) {
            pc = XPUSH(r->partitions, r->n_partitions);
            pc->profile = xstrdup(profile);
        }
        pc->count++;
    }
}

static uint32_t pci_id(const char *text)
{
    uint32_t id = 0;
    return text && num_parse_hex32(text, &id, NULL) == 0 ? id : 0;
}

static char *text_or_empty(const char *s)
{
    return xstrdup(s ? s : "");
}

static uint64_t links_of(const struct device_card *c)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < c->n_linked_with; i++)
        if (c->linked_with[i] < 64)
            bits |= UINT64_C(1) << c->linked_with[i];
    return bits;
}

static void read_illness(const struct device_card *c, struct card_record *r)
{
    const struct condition *why = condition_get(&c->conditions, "Healthy");
    if (c->healthy || !why)
        return;
    r->ill_reason = xstrdup(why->reason);
    r->ill_message = xstrdup(why->message);
    r->ill_since_ms = why->last_transition_ms;
}

static void read_card(const struct device_card *c, struct card_record *r)
{
    *r = (struct card_record){
        .uuid = xstrdup(c->uuid),
        .vendor = text_or_empty(c->vendor),
        .model = text_or_empty(c->model),
        .pci_bus_id = text_or_empty(c->pci_bus_id),
        .pci_device_id = pci_id(c->pci_device_id),
        .pci_subsystem_id = pci_id(c->pci_subsystem_id),
        .index = (unsigned)c->index,
        .mig_capable = c->mig_capable,
        .healthy = c->healthy,
        .mode = c->mode,
        .pending = c->has_pending_mode,
        .memory_mib = c->memory_mib,
        .minor = c->has_minor ? c->minor : -1,
        .numa_node = (int)c->numa_node,
        .pcie_root = xstrdup(c->pcie_root),
        .linked = links_of(c),
    };
    read_illness(c, r);
    read_partitions(c, r);
    read_sgpu(c, r);
    read_condition(&c->conditions, "Applied", &r->applied);
    read_drain(c, r);
}

static void card_record_done(struct card_record *r)
{
    free(r->uuid);
    free(r->vendor);
    free(r->model);
    free(r->pci_bus_id);
    free(r->pcie_root);
    free(r->ill_reason);
    free(r->ill_message);
    for (size_t i = 0; i < r->n_partitions; i++)
        free(r->partitions[i].profile);
    free(r->partitions);
    free(r->sgpu);
    condition_record_done(&r->applied);
    for (size_t i = 0; i < r->n_drain_pods; i++) {
        free(r->drain_pods[i].uid);
        free(r->drain_pods[i].ns);
        free(r->drain_pods[i].name);
    }
    free(r->drain_pods);
}

static int read_model(const struct device_model *m, struct device_record *r, struct err *e)
{
    auto_free struct mig_table *t = xmalloc(sizeof(*t));
    TRY(model_to_table(m, t, e));
    *XPUSH(r->models, r->n_models) = (struct model_record){
        .name = xstrdup(m->name),
        .table = t->n_profiles ? intern_bytes(t, sizeof(*t)) : NULL,
    };
    return 0;
}

static int by_card_index(const void *a, const void *b)
{
    const struct card_record *x = a;
    const struct card_record *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return strcmp(x->uuid, y->uuid);
}

static void forget_hardware(struct device_record *r)
{
    for (size_t i = 0; i < r->n_models; i++) {
        free(r->models[i].name);
        intern_drop(r->models[i].table);
    }
    for (size_t i = 0; i < r->n_cards; i++)
        card_record_done(&r->cards[i]);
    for (size_t i = 0; i < r->n_resources; i++)
        free(r->resources[i].name);
    free(r->models);
    free(r->cards);
    free(r->resources);
    r->models = NULL;
    r->cards = NULL;
    r->resources = NULL;
    r->n_models = r->n_cards = r->n_resources = 0;
}

/* Accepts only names that Cleave may offer. The Node's resources are applied by force and all at
 * once: a name such as cpu, or another vendor's, would be overwritten, and removed by the next
 * apply; one that the API server refuses would block all others and the order after them. */
static bool is_resource_allowed(const char *name)
{
    const char *slash = strchr(name, '/');
    return slash && vendor_offers(name) && label_value_legal(slash + 1);
}

static void read_offers(struct device_status *st, struct device_record *r)
{
    for (size_t i = 0; i < st->n_resources; i++) {
        struct device_resource *resource = &st->resources[i];
        if (is_resource_allowed(resource->name)) {
            *XPUSH(r->resources, r->n_resources) = *resource;
            resource->name = NULL;
        } else if (r->n_refused_resources++ == 0) {
            r->refused_resource = xstrdup(resource->name);
        }
    }
}

static int read_hardware(struct device_status *st, struct device_record *r, struct err *e)
{
    for (size_t i = 0; i < st->n_models; i++)
        TRY(read_model(&st->models[i], r, e));
    for (size_t i = 0; i < st->n_devices; i++)
        read_card(&st->devices[i], XPUSH(r->cards, r->n_cards));
    if (r->n_cards)
        qsort(r->cards, r->n_cards, sizeof(*r->cards), by_card_index);
    read_offers(st, r);
    return 0;
}

/* Accepts only the labels that an agent may set, so that a compromised agent cannot set others. */
static void read_features(const struct device_status *st, struct device_record *r)
{
    r->features = xcalloc(st->n_labels, sizeof(*r->features));
    for (size_t i = 0; i < st->n_labels; i++) {
        const struct jx_pair *p = &st->labels[i];
        if (feature_label_allowed(p->key, p->str)) {
            r->features[r->n_features++] =
                (struct jx_pair){.key = (char *)(uintptr_t)intern_text(p->key),
                                 .str = (char *)(uintptr_t)intern_text(p->str)};
            continue;
        }
        if (r->n_refused++ == 0)
            r->refused = xstrdup(p->key);
    }
}

static void read_status(const json_t *obj, struct device_record *r)
{
    auto_err struct err e = {0};
    auto_device_status struct device_status st = {0};
    const json_t *status = json_object_get(obj, "status");
    if (json_object_size(status) == 0 && !json_is_null(status) &&
        (!status || json_is_object(status)))
        return;
    r->has_status = true;
    if (device_status_decode(obj, &st, &e) < 0 || read_hardware(&st, r, &e) < 0) {
        forget_hardware(r);
        r->status_error = xstrdup(err_msg(&e));
        return;
    }
    r->observed_generation = st.observed_generation;
    if (st.n_drivers) {
        r->vendor = xstrdup(st.drivers[0].vendor);
        r->driver_version = xstrdup(st.drivers[0].version);
    }
    for (size_t i = 0; i < st.n_drivers; i++)
        *XPUSH(r->drivers, r->n_drivers) =
            (struct jx_pair){.key = text_or_empty(st.drivers[i].vendor),
                             .str = text_or_empty(st.drivers[i].version)};
    read_features(&st, r);
    read_condition(&st.conditions, "Ready", &r->ready);
    read_condition(&st.conditions, "Stalled", &r->stalled);
}

static char *owning_node_uid(const json_t *obj)
{
    size_t i;
    const json_t *ref;
    json_array_foreach(JX_AT(obj, "metadata", "ownerReferences"), i, ref) {
        const char *kind = JX_STR_AT(ref, "kind");
        if (kind && strcmp(kind, "Node") == 0)
            return xstrdup(JX_STR_AT(ref, "uid"));
    }
    return NULL;
}

/* Replaces a list of counts by one that all cards of the same layout share. The record also holds a
 * reference to each name in it, because the shared list cannot. */
static void share_counts(struct profile_count **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        share_text(&(*list)[i].profile);
    struct profile_count *own = *list;
    if (n)
        *list = (struct profile_count *)(uintptr_t)intern_bytes(own, n * sizeof(*own));
    free(n ? own : NULL);
}

static void let_go_counts(struct profile_count **list, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        intern_drop((*list)[i].profile);
    if (*n)
        intern_drop(*list);
    else
        free(*list);
    *list = NULL;
    *n = 0;
}

typedef void text_fn(char **text);

/* Calls fn for every text of a Device that other Devices probably have too. */
static void each_text(struct device_record *r, text_fn *fn)
{
    fn(&r->vendor);
    fn(&r->driver_version);
    fn(&r->ready.reason);
    fn(&r->ready.message);
    fn(&r->stalled.reason);
    fn(&r->spec.source.name);
    for (size_t i = 0; i < r->n_drivers; i++) {
        fn(&r->drivers[i].key);
        fn(&r->drivers[i].str);
    }
    for (size_t i = 0; i < r->spec.n_devices; i++)
        fn(&r->spec.devices[i].source.name);
    for (size_t i = 0; i < r->n_models; i++)
        fn(&r->models[i].name);
    for (size_t i = 0; i < r->n_resources; i++)
        fn(&r->resources[i].name);
    for (size_t i = 0; i < r->n_cards; i++) {
        struct card_record *c = &r->cards[i];
        fn(&c->vendor);
        fn(&c->model);
        fn(&c->pci_bus_id);
        fn(&c->pcie_root);
        fn(&c->ill_reason);
        fn(&c->ill_message);
        fn(&c->applied.reason);
        fn(&c->applied.message);
    }
}

static void share_device(struct device_record *r)
{
    each_text(r, share_text);
    for (size_t i = 0; i < r->spec.n_devices; i++)
        share_counts(&r->spec.devices[i].mig.profiles, r->spec.devices[i].mig.n_profiles);
    for (size_t i = 0; i < r->n_cards; i++)
        share_counts(&r->cards[i].partitions, r->cards[i].n_partitions);
}

/* Drops the shared parts; the rest is the record's own and is freed as usual. */
static void let_go_device(struct device_record *r)
{
    each_text(r, let_go);
    for (size_t i = 0; i < r->spec.n_devices; i++)
        let_go_counts(&r->spec.devices[i].mig.profiles, &r->spec.devices[i].mig.n_profiles);
    for (size_t i = 0; i < r->n_cards; i++)
        let_go_counts(&r->cards[i].partitions, &r->cards[i].n_partitions);
}

static int transform_device(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    struct device_record *r = xmalloc(sizeof(*r));
    if (device_spec_decode(obj, &r->spec, &why) < 0)
        r->spec_error = xstrdup(err_msg(&why));
    read_status(obj, r);
    r->labels = pairs_read(obj, "labels", &r->n_labels);
    r->owner_uid = owning_node_uid(obj);
    share_device(r);
    *ret = r;
    return 0;
}

static void free_device(void *payload)
{
    struct device_record *r = payload;
    let_go_device(r);
    device_spec_done(&r->spec);
    forget_hardware(r);
    condition_record_done(&r->ready);
    condition_record_done(&r->stalled);
    free(r->spec_error);
    free(r->status_error);
    free(r->vendor);
    free(r->driver_version);
    for (size_t i = 0; i < r->n_drivers; i++) {
        free(r->drivers[i].key);
        free(r->drivers[i].str);
    }
    free(r->drivers);
    free(r->owner_uid);
    free(r->refused);
    free(r->refused_resource);
    pairs_free(r->labels, r->n_labels);
    pairs_free(r->features, r->n_features);
    free(r);
}

/* --- GPUProfile and MIGConfig --- */

static int transform_profile(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    struct profile_record *r = xmalloc(sizeof(*r));
    if (gpuprofile_spec_decode(obj, &r->spec, &why) < 0)
        r->spec_error = xstrdup(err_msg(&why));
    if (gpuprofile_status_decode(obj, &r->status, NULL) < 0)
        r->status = (struct gpuprofile_status){0};
    *ret = r;
    return 0;
}

static void free_profile(void *payload)
{
    struct profile_record *r = payload;
    gpuprofile_spec_done(&r->spec);
    gpuprofile_status_done(&r->status);
    free(r->spec_error);
    free(r);
}

static int transform_config(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    struct config_record *r = xmalloc(sizeof(*r));
    if (migconfig_spec_decode(obj, &r->spec, &why) < 0)
        r->spec_error = xstrdup(err_msg(&why));
    if (migconfig_status_decode(obj, &r->status, NULL) < 0)
        r->status = (struct migconfig_status){0};
    const char *created = JX_STR_AT(obj, "metadata", "creationTimestamp");
    if (created && rfc3339_parse(created, &r->created_ms, NULL) < 0)
        r->created_ms = 0;
    *ret = r;
    return 0;
}

static void free_config(void *payload)
{
    struct config_record *r = payload;
    migconfig_spec_done(&r->spec);
    migconfig_status_done(&r->status);
    free(r->spec_error);
    free(r);
}

const struct object_type records_node_type = {&resource_nodes, transform_node, free_node};
const struct object_type records_device_type = {&resource_devices, transform_device, free_device};
const struct object_type records_profile_type = {&resource_gpuprofiles, transform_profile,
                                                 free_profile};
const struct object_type records_config_type = {&resource_migconfigs, transform_config,
                                                free_config};

/* --- Questions --- */

const char *records_label(const struct jx_pair *labels, size_t n, const char *key)
{
    const struct jx_pair wanted = {.key = (char *)(uintptr_t)key};
    const struct jx_pair *found =
        n ? bsearch(&wanted, labels, n, sizeof(*labels), by_pair_key) : NULL;
    return found ? found->str : NULL;
}

const char *records_mig_label(const struct node_record *node)
{
    const char *value = records_label(node->labels, node->n_labels, LABEL_MIG_CONFIG);
    return value && *value ? value : NULL;
}

const struct card_record *records_card(const struct device_record *device, const char *uuid)
{
    for (size_t i = 0; i < device->n_cards; i++)
        if (strcmp(device->cards[i].uuid, uuid) == 0)
            return &device->cards[i];
    return NULL;
}

void records_card_view(const struct card_record *card, struct resolve_card *ret)
{
    *ret = (struct resolve_card){
        .uuid = card->uuid,
        .vendor = card->vendor,
        .model = card->model,
        .pci_bus_id = card->pci_bus_id,
        .pci_device_id = card->pci_device_id,
        .pci_subsystem_id = card->pci_subsystem_id,
        .index = card->index,
        .mig_capable = card->mig_capable,
        .healthy = card->healthy,
        .mode = card->mode,
        .sgpu = card->sgpu,
        .partitions = card->partitions,
        .n_partitions = card->n_partitions,
    };
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

bool records_config_named(const struct object *config, const char *name)
{
    const struct config_record *r = object_payload(config);
    if (strcmp(object_name(config), name) == 0)
        return true;
    for (size_t i = 0; i < r->spec.n_aliases; i++)
        if (strcmp(r->spec.aliases[i], name) == 0)
            return true;
    return false;
}

bool records_profile_names(const struct profile_record *profile, const struct object *config)
{
    for (size_t i = 0; i < profile->spec.n_devices; i++) {
        const struct gpuprofile_entry *entry = &profile->spec.devices[i];
        if (entry->has_mig && entry->mig.config && records_config_named(config, entry->mig.config))
            return true;
    }
    return false;
}
