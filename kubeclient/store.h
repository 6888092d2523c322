/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/object.h"

/*
 * The objects of one kind by key, with named indexes. Any thread may read; one thread (the
 * informer's) writes. Guarded by a mutex held for the length of one lookup. Readers get counted
 * references to immutable objects, never the store's own memory. An index keeps a list of objects
 * per value; lookups cost the size of the answer.
 */
struct store;
struct store_index_out;

/* Emits the values under which an object is found in an index (zero or more, by store_index_emit).
 */
typedef void store_index_fn(const struct object *o, struct store_index_out *out);
void store_index_emit(struct store_index_out *out, const char *value);

/* An empty store without indexes. Caller frees with store_free. */
struct store *store_new(void);
/* Adds an index; only while the store is empty. name is borrowed (a literal). */
void store_add_index(struct store *st, const char *name, store_index_fn *fn);

/* A new reference, or NULL. Any thread. */
struct object *store_get(struct store *st, const struct object_key *k);
/* Every object, in no particular order. *ret is overwritten. Any thread. */
void store_list(struct store *st, struct object_list *ret);
/* The objects with this value in this index. The index must exist. *ret is overwritten. Any thread.
 */
void store_by_index(struct store *st, const char *index, const char *value,
                    struct object_list *ret);
/* Number of objects. Any thread. */
size_t store_count(struct store *st);
/* True when the store has seen this version of its kind, or a later one. (KEP-5647.) Any thread. */
bool store_has_seen(struct store *st, const char *resource_version);
/* The latest version that the store reflects, "" before the first list. Caller frees. Any thread.
 */
char *store_version(struct store *st);
/* How often the version moved backwards: then the API server's data came from a backup, and
 * versions written before may never be seen again. Any thread. */
unsigned store_rewinds(struct store *st);

/* One difference that a write made. before NULL: added; after NULL: deleted. */
struct store_delta {
    struct object *before, *after;
};
struct store_deltas {
    struct store_delta *items;
    size_t count;
};
void store_deltas_done(struct store_deltas *d);

/* Inserts or replaces; the version moves to the object's. *ret_before is the replaced object (owned
 * by the caller), or NULL. Writer's thread. */
void store_put(struct store *st, struct object *o, struct object **ret_before);
/* Removes; the version moves to resource_version unless that is NULL. The removed object (owned by
 * the caller), or NULL. Writer's thread. */
struct object *store_remove(struct store *st, const struct object_key *k,
                            const char *resource_version);
/* Moves the version alone (bookmarks). Writer's thread. */
void store_advance(struct store *st, const char *resource_version);
/* Makes the store hold exactly these objects, in one step for readers. Objects whose uid and
 * version did not change yield no delta; one of the same name and another uid yields a delete and
 * an add. Objects of `all` with the same key: the last wins. Writer's thread. */
void store_replace(struct store *st, const struct object_list *all, const char *resource_version,
                   struct store_deltas *ret);

/* NULL allowed; returns NULL. */
struct store *store_free(struct store *st);

AUTO_DEFINE_PTR(store, struct store, store_free)
#define auto_store AUTO_PTR(store)
AUTO_DEFINE(store_deltas, struct store_deltas, store_deltas_done)
#define auto_store_deltas AUTO(store_deltas)
