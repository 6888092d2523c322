/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubectl/read_ahead.h"
#include "kubectl/unread.h"
#include "reconcilers/node_view.h"

/*
 * The objects that a command reads of the cluster, in the records and stores of the controller, so
 * that the controller's own functions can be asked. Kinds that may not be read, or that are not
 * there, leave a note, and the command goes on without them. One thread.
 */
struct cluster_objects {
    struct caches caches; /* Nodes, GPUProfiles, MIGConfigs; of Devices the one that is looked at */
    struct unread unread;
    char *devices_version;      /* of the list of Devices; NULL: they were not read */
    struct read_ahead *devices; /* the list, where its reading has begun */
};

void cluster_objects_init(struct cluster_objects *all);
void cluster_objects_done(struct cluster_objects *all);
AUTO_DEFINE(cluster_objects, struct cluster_objects, cluster_objects_done)
#define auto_cluster_objects AUTO(cluster_objects)

/* Lists one kind into its store. without: as in unread_note. */
int cluster_objects_read(struct cluster_objects *all, struct kc *kc, struct scope *s,
                         const struct object_type *type, struct store *into, const char *without,
                         struct err *e) MUST_CHECK;
/* The same of one namespace. */
int cluster_objects_read_in(struct cluster_objects *all, struct kc *kc, struct scope *s,
                            const char *ns, const struct object_type *type, struct store *into,
                            const char *without, struct err *e) MUST_CHECK;
/* The same of objects of which the metadata alone is read. */
int cluster_objects_read_metadata(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                  const struct object_type *type, struct store *into,
                                  struct err *e) MUST_CHECK;
/* Puts an object in place of the one of its name. */
int cluster_objects_put(struct store *into, const struct object_type *type, const json_t *obj,
                        struct err *e) MUST_CHECK;

/* A Device that was read. Borrowed for the call. */
struct found_device {
    const struct object *object; /* as it is in the store */
    const json_t *json;
    const struct device_status *status; /* NULL: it cannot be read, as why says */
    const char *why;
};
typedef int cluster_device_fn(void *arg, const struct found_device *device, struct err *e);
/* Begins to read the Devices, whose beginning an API server takes half a second to find in a large
 * cluster: the others may be read meanwhile. */
int cluster_objects_begin_devices(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                  struct err *e) MUST_CHECK;
/* Lists the Devices, and keeps none: a large cluster's do not fit in a small memory. They come from
 * the API server's cache, as controllers read them, in one answer: its beginning is read while an
 * API server from 1.33 on still writes it. Between pages both would wait for each other. */
int cluster_objects_each_device(struct cluster_objects *all, struct kc *kc, struct scope *s,
                                cluster_device_fn *fn, void *arg, struct err *e) MUST_CHECK;
