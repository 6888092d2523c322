/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubectl/unread.h"
#include "reconcilers/node_view.h"

/*
 * The objects that a command reads of the cluster, in the records and stores of the controller, so
 * that the controller's own functions can be asked. Kinds that may not be read, or that are not
 * there, leave a note, and the command goes on without them. One thread.
 */
struct findings {
    struct caches caches; /* Nodes, GPUProfiles, MIGConfigs; of Devices the one that is looked at */
    struct unread unread;
    char *devices_version; /* of the list of Devices; NULL: they were not read */
};

void findings_init(struct findings *f);
void findings_done(struct findings *f);
AUTO_DEFINE(findings, struct findings, findings_done)
#define auto_findings AUTO(findings)

/* Lists one kind into its store. without: as in unread_note. */
int findings_read(struct findings *f, struct kc *kc, struct scope *s,
                  const struct object_type *type, struct store *into, const char *without,
                  struct err *e) MUST_CHECK;
/* The same of one namespace. */
int findings_read_in(struct findings *f, struct kc *kc, struct scope *s, const char *ns,
                     const struct object_type *type, struct store *into, const char *without,
                     struct err *e) MUST_CHECK;
/* Puts an object in place of the one of its name. */
int findings_put(struct store *into, const struct object_type *type, const json_t *obj,
                 struct err *e) MUST_CHECK;

/* A Device that was read. Borrowed for the call. */
struct found_device {
    const struct object *object; /* as it is in the store */
    const json_t *json;
    const struct device_status *status; /* NULL: it cannot be read, as why says */
    const char *why;
};
typedef int findings_fn(void *arg, const struct found_device *device, struct err *e);
/* Lists the Devices, and keeps none: a large cluster's do not fit in a small memory. They come from
 * the API server's cache, as controllers read them, in one answer: its beginning is read while an
 * API server from 1.33 on still writes it. Between pages both would wait for each other. */
int findings_each_device(struct findings *f, struct kc *kc, struct scope *s, findings_fn *fn,
                         void *arg, struct err *e) MUST_CHECK;
