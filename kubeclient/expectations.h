/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/store.h"

/*
 * Read your own writes (KEP-5647): after a reconciler has written something on behalf of a key,
 * that key is not reconciled again until the caches have seen the versions that were written.
 * A controller does that by itself (controller_await_writes). Bounded by the keys with open writes.
 * Any thread; one mutex.
 *
 *    … kc_patch(…, &obj) …
 *    expectations_wrote(x, key, informer_store(devices), obj_version);
 */
struct expectations;

/* How long a key waits before it is looked up again. */
#define EXPECTATIONS_RECHECK_MS 20

struct expectations *expectations_new(void);
/* Notes that reconciling `k` wrote this version of the kind that `st` caches. st must outlive x. */
void expectations_wrote(struct expectations *x, const struct object_key *k, struct store *st,
                        const char *resource_version);
/* True when the caches have seen all that was written for k; seen writes are forgotten. */
bool expectations_met(struct expectations *x, const struct object_key *k);
/* Forgets all writes for an object that is gone. */
void expectations_forget(struct expectations *x, const struct object_key *k);
/* NULL allowed; returns NULL. */
struct expectations *expectations_free(struct expectations *x);

AUTO_DEFINE_PTR(expectations, struct expectations, expectations_free)
#define auto_expectations AUTO_PTR(expectations)
