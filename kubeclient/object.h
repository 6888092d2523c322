/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

struct kc_resource;

/*
 * An object of the API as the caches keep it: immutable, counted, a few identity fields and a small
 * typed record that a transform made when it arrived. The JSON is dropped. References may be taken
 * and dropped in any thread; the record is freed with the last one.
 */
struct object;

/* Namespace and name; ns is NULL or "" for cluster-scoped kinds. A plain value, strings borrowed.
 */
struct object_key {
    const char *ns, *name;
};

/* Makes the typed record of one API object. *ret_payload may stay NULL when identity is enough.
 * Must not keep a reference to obj. Called in the informer's thread. */
typedef int transform_fn(const json_t *obj, void **ret_payload, struct err *e);
/* Frees a payload. Called in whichever thread drops the last reference. */
typedef void payload_free_fn(void *payload);

/* How one kind is kept in memory: a static const table. Either function may be NULL (no record). */
struct object_type {
    const struct kc_resource *resource;
    transform_fn *transform;
    payload_free_fn *free_payload;
};

/* Makes an object from its API form. type outlives it. ERR_PROTOCOL without metadata.name, or the
 * transform's error. Caller owns one reference. */
int object_new(const struct object_type *type, const json_t *obj, struct object **ret,
               struct err *e) MUST_CHECK;
/* The same with the record made by the caller: payload_take becomes the object's, or is freed. */
int object_of(const struct object_type *type, const json_t *obj, void *payload_take,
              struct object **ret, struct err *e) MUST_CHECK;
/* Adds a reference; returns its argument. */
struct object *object_ref(struct object *o);
/* Drops a reference. NULL allowed; returns NULL. */
struct object *object_unref(struct object *o);

/* Everything below is borrowed while the reference is held. */

/* The transform's payload; NULL when it made none. */
const void *object_payload(const struct object *o);
/* Namespace "" for cluster-scoped kinds. */
struct object_key object_key(const struct object *o);
/* The name alone. */
const char *object_name(const struct object *o);
/* metadata.uid, "" when absent. */
const char *object_uid(const struct object *o);
/* metadata.resourceVersion, "" when absent. */
const char *object_version(const struct object *o);
/* metadata.generation, 0 when absent. */
int64_t object_generation(const struct object *o);
/* True when metadata.deletionTimestamp is set. */
bool object_is_deleting(const struct object *o);
/* Static description of the kind; may be NULL. */
const struct kc_resource *object_resource(const struct object *o);

/* A list of references. */
struct object_list {
    struct object **items;
    size_t count;
};
/* Drops the references and frees the array. */
void object_list_done(struct object_list *l);

/* "ns/name", or "name" without a namespace: the text form of a key in maps and logs. Caller frees.
 */
char *object_key_text(const struct object_key *k);
bool object_key_equal(const struct object_key *a, const struct object_key *b);

/* Orders two resource versions of one resource type: < 0, 0, > 0. They are positive decimal numbers
 * without leading zeros, so length and then bytes decide (KEP-5504). A version that is no such
 * number ("" included) sorts first. */
int resource_version_compare(const char *a, const char *b);

AUTO_DEFINE_PTR(object, struct object, object_unref)
#define auto_object AUTO_PTR(object)
AUTO_DEFINE(object_list, struct object_list, object_list_done)
#define auto_object_list AUTO(object_list)
