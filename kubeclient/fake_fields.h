/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * Who owns which field, and server-side apply (KEP-555); for the fake. Fields are named by
 * the path of their leaf: ".spec.devices[uuid=\"x\"].mode". Simplified against a real server:
 * managedFields name only those who apply, and the labels, annotations and spec of others; no
 * schema (list maps are those it is told of, all other lists and scalars are leaves), empty objects
 * that lose their last member go, a field of an atomic list is the whole list. One thread.
 */

/* Which lists merge by which member. A plain value; conditions (type), ownerReferences (uid), pods'
 * containers (name) are known without. */
struct fake_list_key {
    char *path; /* dotted, without the items' keys: "spec.devices.partitions" */
    char *key;
};
struct fake_schema {
    struct fake_list_key *keys;
    size_t count;
};

/* Who owns what of one object. */
struct fake_owner {
    char *manager;
    bool applies,
        status;    /* a manager's applying and updating, main resource and /status count apart */
    json_t *paths; /* a set: path → true */
};
struct fake_owners {
    struct fake_owner *items;
    size_t count;
};

/* Who is writing. */
struct fake_writer {
    const char *manager;
    bool applies, status, force;
};

/* Applies a configuration to live (NULL: there is no object yet): *ret_obj is the result.
 * ERR_CONFLICT lists the rivals, with reason FieldManagerConflict. ret_owned says whether ownership
 * changed. */
int fake_apply(const struct fake_schema *schema, struct fake_owners *owners,
               const struct fake_writer *who, const json_t *live, const json_t *applied,
               json_t **ret_obj, bool *ret_owned, struct err *e) MUST_CHECK;

/* Notes an update or patch from before (NULL: creation) to after: what changed belongs to who. */
void fake_update_owners(const struct fake_schema *schema, struct fake_owners *owners,
                        const struct fake_writer *who, const json_t *before, const json_t *after);

/* Writes metadata.managedFields of obj anew: what each manager that applies owns of it, and the
 * labels, annotations and fields of the spec that each other one owns. */
void fake_note_managers(const struct fake_schema *schema, const struct fake_owners *owners,
                        json_t *obj);

void fake_owners_done(struct fake_owners *owners);
void fake_schema_done(struct fake_schema *schema);
