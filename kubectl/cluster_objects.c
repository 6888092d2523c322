/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/cluster_objects.h"

#include <assert.h>
#include <string.h>

void cluster_objects_init(struct cluster_objects *all)
{
    *all = (struct cluster_objects){.caches = {.nodes = store_new(),
                                               .devices = store_new(),
                                               .profiles = store_new(),
                                               .configs = store_new()}};
}

void cluster_objects_done(struct cluster_objects *all)
{
    (void)store_free(all->caches.nodes);
    (void)store_free(all->caches.devices);
    (void)store_free(all->caches.profiles);
    (void)store_free(all->caches.configs);
    unread_done(&all->unread);
    free(all->devices_version);
    (void)read_ahead_free(all->devices);
    *all = (struct cluster_objects){0};
}

int cluster_objects_put(struct store *into, const struct object_type *type, const json_t *obj,
                        struct err *e)
{
    auto_object struct object *o = NULL;
    auto_object struct object *before = NULL;
    TRY(object_new(type, obj, &o, e));
    store_put(into, o, &before);
    return 0;
}

struct listing {
    const struct object_type *type;
    struct store *into;
};

static int list_one(void *arg, const json_t *obj, struct err *e)
{
    const struct listing *l = arg;
    return cluster_objects_put(l->into, l->type, obj, e);
}

static int read_kind(struct cluster_objects *all, struct kc *kc, struct scope *s, const char *ns,
                     const struct kc_list_opts *o, const struct listing *l, const char *without,
                     struct err *e)
{
    auto_err struct err why = {0};
    const struct kc_target t = {.res = l->type->resource, .ns = ns};
    int rc =
        kc_list_each(kc, s, &t, o, list_one, (void *)(uintptr_t)l, /* ret_version= */ NULL, &why);
    return unread_note(&all->unread, rc, l->type->resource->plural, without, &why, e);
}

int cluster_objects_read_in(struct cluster_objects *all, struct kc *kc, struct scope *s,
                            const char *ns, const struct object_type *type, struct store *into,
                            const char *without, struct err *e)
{
    const struct kc_list_opts o = {.resource_version = "0"};
    return read_kind(all, kc, s, ns, &o, &(struct listing){type, into}, without, e);
}

int cluster_objects_read(struct cluster_objects *all, struct kc *kc, struct scope *s,
                         const struct object_type *type, struct store *into, const char *without,
                         struct err *e)
{
    return cluster_objects_read_in(all, kc, s, /* ns= */ NULL, type, into, without, e);
}

int cluster_objects_read_metadata(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                  const struct object_type *type, struct store *into, struct err *e)
{
    const struct kc_list_opts o = {.resource_version = "0", .metadata_only = true};
    return read_kind(all, kc, s, /* ns= */ NULL, &o, &(struct listing){type, into},
                     /* without= */ NULL, e);
}

struct device_walk {
    struct cluster_objects *all;
    cluster_device_fn *fn;
    void *arg;
};

static int walk_one(void *arg, const json_t *obj, struct err *e)
{
    const struct device_walk *w = arg;
    auto_err struct err why = {0};
    auto_device_status struct device_status st = {0};
    auto_object struct object *device = NULL;
    auto_object struct object *before = NULL;
    struct found_device found = {.json = obj};
    if (device_status_decode(obj, &st, &why) < 0)
        found.why = err_msg(&why);
    else
        found.status = &st;
    void *record = records_device_of(obj, found.status, found.why);
    TRY(object_of(&records_device_type, obj, record, &device, e));
    found.object = device;
    store_put(w->all->caches.devices, device, &before);
    int rc = w->fn(w->arg, &found, e);
    const struct object_key key = object_key(device);
    (void)object_unref(store_remove(w->all->caches.devices, &key, /* resource_version= */ NULL));
    return rc;
}

int cluster_objects_begin_devices(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                  struct err *e)
{
    static const char *const models[] = {"status", "models", NULL};
    /* Labels for the Node, which the controller alone reads. */
    static const char *const labels[] = {"status", "labels", NULL};
    const struct kc_target t = {.res = records_device_type.resource};
    const struct kc_list_opts o = {.resource_version = "0", .shared = models, .without = labels};
    assert(!all->devices);
    return read_ahead_begin(kc, s, &t, &o, &all->devices, e);
}

int cluster_objects_each_device(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                cluster_device_fn *fn, void *arg, struct err *e)
{
    struct device_walk w = {all, fn, arg};
    char *version = NULL;
    if (!all->devices)
        TRY(cluster_objects_begin_devices(all, kc, s, e));
    auto_read_ahead struct read_ahead *list = TAKE(all->devices);
    TRY(read_ahead_each(list, walk_one, &w, &version, e));
    free(all->devices_version);
    all->devices_version = version;
    return 0;
}
