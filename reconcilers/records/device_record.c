/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/device_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/xalloc.h"

#include "api/feature_label.h"
#include "api/label_value.h"
#include "partition/model.h"
#include "partition/vendor.h"
#include "reconcilers/records/intern.h"
#include "reconcilers/records/shared_parts.h"
#include "service/resources.h"

static char *text_or_empty(const char *s)
{
    return xstrdup(s ? s : "");
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

/* The order of an inventory (vendors.def): an entry that takes so many cards takes the same ones
 * here and in the agent's own plans. */
static int by_vendor_and_index(const void *a, const void *b)
{
    const struct card_record *x = a;
    const struct card_record *y = b;
    int order = text_order(x->vendor, y->vendor);
    if (order)
        return order;
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

static void read_offers(const struct device_status *st, struct device_record *r)
{
    for (size_t i = 0; i < st->n_resources; i++) {
        const struct device_resource *resource = &st->resources[i];
        if (is_resource_allowed(resource->name)) {
            struct device_resource *to = XPUSH(r->resources, r->n_resources);
            *to = *resource;
            to->name = xstrdup(resource->name);
        } else if (r->n_refused_resources++ == 0) {
            r->refused_resource = xstrdup(resource->name);
        }
    }
}

static const struct mig_table *table_of(const struct device_record *r, const char *model)
{
    for (size_t i = 0; model && i < r->n_models; i++)
        if (r->models[i].name && strcmp(r->models[i].name, model) == 0)
            return r->models[i].table;
    return NULL;
}

static int read_hardware(const struct device_status *st, struct device_record *r, struct err *e)
{
    for (size_t i = 0; i < st->n_models; i++)
        TRY(read_model(&st->models[i], r, e));
    for (size_t i = 0; i < st->n_devices; i++)
        card_record_read(&st->devices[i], table_of(r, st->devices[i].model),
                         XPUSH(r->cards, r->n_cards));
    if (r->n_cards)
        qsort(r->cards, r->n_cards, sizeof(*r->cards), by_vendor_and_index);
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

static void read_status(const json_t *obj, const struct device_status *st, const char *why,
                        struct device_record *r)
{
    auto_err struct err e = {0};
    const json_t *status = json_object_get(obj, "status");
    if (json_object_size(status) == 0 && !json_is_null(status) &&
        (!status || json_is_object(status)))
        return;
    r->has_status = true;
    if (!st || read_hardware(st, r, &e) < 0) {
        forget_hardware(r);
        r->status_error = xstrdup(st ? err_msg(&e) : why);
        return;
    }
    r->observed_generation = st->observed_generation;
    r->withdrawal = xstrdup(st->withdrawal);
    if (st->n_drivers) {
        r->vendor = xstrdup(st->drivers[0].vendor);
        r->driver_version = xstrdup(st->drivers[0].version);
    }
    for (size_t i = 0; i < st->n_drivers; i++)
        *XPUSH(r->drivers, r->n_drivers) =
            (struct jx_pair){.key = text_or_empty(st->drivers[i].vendor),
                             .str = text_or_empty(st->drivers[i].version)};
    read_features(st, r);
    condition_record_read(&st->conditions, "Ready", &r->ready);
    condition_record_read(&st->conditions, "Stalled", &r->stalled);
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

/* Calls fn for every text of a Device, but not of its cards, that other Devices probably have
 * too. */
static void each_text(struct device_record *r, shared_text_fn *fn)
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
}

static void share_device(struct device_record *r)
{
    each_text(r, shared_text_make);
    for (size_t i = 0; i < r->spec.n_devices; i++)
        shared_counts_make(&r->spec.devices[i].mig.profiles, r->spec.devices[i].mig.n_profiles);
    for (size_t i = 0; i < r->n_cards; i++)
        card_record_share(&r->cards[i]);
}

/* Drops the shared parts; the rest is the record's own and is freed as usual. */
static void let_go_device(struct device_record *r)
{
    each_text(r, shared_text_drop);
    for (size_t i = 0; i < r->spec.n_devices; i++)
        shared_counts_drop(&r->spec.devices[i].mig.profiles, &r->spec.devices[i].mig.n_profiles);
    for (size_t i = 0; i < r->n_cards; i++)
        card_record_unshare(&r->cards[i]);
}

void *records_device_of(const json_t *obj, const struct device_status *st, const char *why)
{
    auto_err struct err e = {0};
    struct device_record *r = xmalloc(sizeof(*r));
    if (device_spec_decode(obj, &r->spec, &e) < 0)
        r->spec_error = xstrdup(err_msg(&e));
    read_status(obj, st, why, r);
    r->labels = shared_pairs_read(obj, "labels", &r->n_labels);
    r->owner_uid = owning_node_uid(obj);
    share_device(r);
    return r;
}

static int transform_device(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    auto_device_status struct device_status st = {0};
    bool readable = device_status_decode(obj, &st, &why) == 0;
    *ret = records_device_of(obj, readable ? &st : NULL, readable ? NULL : err_msg(&why));
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
    free(r->withdrawal);
    free(r->refused);
    free(r->refused_resource);
    shared_pairs_free(r->labels, r->n_labels);
    shared_pairs_free(r->features, r->n_features);
    free(r);
}

const struct object_type records_device_type = {&resource_devices, transform_device, free_device};

const struct card_record *records_card(const struct device_record *device, const char *uuid)
{
    for (size_t i = 0; i < device->n_cards; i++)
        if (strcmp(device->cards[i].uuid, uuid) == 0)
            return &device->cards[i];
    return NULL;
}
