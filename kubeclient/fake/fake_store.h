/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "kubeclient/client.h"
#include "kubeclient/fake/fake_fields.h"

/*
 * Objects by kind, and the history of their changes; for the fake, whose lock guards it. Stored
 * documents never change: a write puts another one in their place.
 */

struct fake_entry {
    char *ns, *name; /* ns "" for cluster-scoped */
    json_t *obj;
    struct fake_owners owners;
};

struct fake_kind {
    struct kc_resource res;      /* strings are borrowed from the first caller: static tables */
    struct fake_entry **entries; /* by ns and name, as etcd's keys are */
    size_t count;
};

struct fake_event {
    uint64_t version;
    enum kc_change change;
    const struct fake_kind *kind;
    json_t *obj, *before; /* before: NULL for ADDED */
};

struct fake_plural_schema {
    char *plural;
    struct fake_schema schema;
};

struct fake_store {
    uint64_t version;   /* of the last change */
    uint64_t compacted; /* changes up to this one may be forgotten */
    uint64_t serial;    /* of the last uid */
    struct fake_kind **kinds;
    size_t kind_count;
    struct fake_event *events;
    size_t event_count;
    struct fake_plural_schema *schemas;
    size_t schema_count;
    size_t writes;
};

/* The kind of a resource, made when new. Borrowed. */
struct fake_kind *fake_store_kind(struct fake_store *st, const struct kc_resource *res);
/* Its list keys. Borrowed. */
const struct fake_schema *fake_store_schema(const struct fake_store *st, const char *plural);
void fake_store_add_list_key(struct fake_store *st, const char *plural, const char *path,
                             const char *key);

/* NULL: not there. ns NULL: "". */
struct fake_entry *fake_store_find(const struct fake_kind *k, const char *ns, const char *name);
/* A new, empty entry at its position in the order; its first put makes it visible. */
struct fake_entry *fake_store_add(struct fake_kind *k, const char *ns, const char *name);
/* Replaces an entry's document with a new version. obj is taken. */
void fake_store_put_take(struct fake_store *st, const struct fake_kind *k, struct fake_entry *entry,
                         json_t *obj);
/* Removes an entry for good; last (taken) is its last state. */
void fake_store_drop_take(struct fake_store *st, struct fake_kind *k, struct fake_entry *entry,
                          json_t *last);

/* The first event after a version, or NULL. Borrowed until the next change. */
const struct fake_event *fake_store_next_event(const struct fake_store *st, uint64_t version);

/* An object that was owned by the object with this uid and whose owners are all gone, or NULL; and
 * its kind. One that is being deleted already does not count. */
struct fake_entry *fake_store_find_orphan(const struct fake_store *st, const char *uid,
                                          struct fake_kind **ret_kind);

void fake_store_done(struct fake_store *st);
