/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Field ownership and server-side apply (KEP-555); for the fake. Fields are named by the path of
 * their leaf: ".spec.devices[uuid=\"x\"].mode". One thread.
 *
 * Simplified against a real server:
 * - managedFields has only managers that apply, and of others the labels, annotations and spec.
 * - There is no schema: list maps are those declared with fake_list_key, all other lists and
 *   scalars are leaves.
 * - An empty object whose last member was removed is removed too.
 * - A field of an atomic list is the whole list.
 */

/* The merge key of one list map. A plain value; conditions (type), ownerReferences (uid) and pods'
 * containers (name) need no entry. */
struct fake_list_key {
    char *path; /* dotted, without the items' keys: "spec.devices.partitions" */
    char *key;
};
struct fake_schema {
    struct fake_list_key *keys;
    size_t count;
};

/* One owner of fields of an object. */
struct fake_owner {
    char *manager;
    bool applies,
        status;    /* a manager's apply and update, main resource and /status count separately */
    json_t *paths; /* a set: path → true */
};
struct fake_owners {
    struct fake_owner *items;
    size_t count;
};

/* The writer of a request. */
struct fake_writer {
    const char *manager;
    bool applies, status, force;
};

/* Applies a configuration to live (NULL: there is no object yet): *ret_obj is the result.
 * ERR_CONFLICT lists the managers in conflict, with reason FieldManagerConflict. *ret_owned:
 * ownership changed. */
int fake_apply(const struct fake_schema *schema, struct fake_owners *owners,
               const struct fake_writer *who, const json_t *live, const json_t *applied,
               json_t **ret_obj, bool *ret_owned, struct err *e) MUST_CHECK;

/* Records an update or patch from before (NULL: creation) to after: changed fields belong to
 * who. */
void fake_update_owners(const struct fake_schema *schema, struct fake_owners *owners,
                        const struct fake_writer *who, const json_t *before, const json_t *after);

/* Writes metadata.managedFields of obj anew: the fields of each manager that applies, and the
 * labels, annotations and spec fields of each other manager. */
void fake_note_managers(const struct fake_schema *schema, const struct fake_owners *owners,
                        json_t *obj);

void fake_owners_done(struct fake_owners *owners);
void fake_schema_done(struct fake_schema *schema);
