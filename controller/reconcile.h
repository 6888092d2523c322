/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "kubeclient/object.h"
#include "kubeclient/workqueue.h"

/* The reconciler that a controller calls for each key, and its request when it succeeded. */
struct reconcile_result {
    int64_t requeue_after_ms; /* 0 = wait for the next change */
};

/* Makes the cluster agree with one object. Level-based (it gets the key only, never the event) and
 * idempotent. May block under the scope; two threads never call it for the same key at a time. The
 * object may be gone. Returns 0, or an error: retried with rate limit, except ERR_TERMINAL, which
 * waits for the next change. */
typedef int reconcile_fn(void *self, struct scope *s, const struct object_key *k,
                         struct reconcile_result *r, struct err *e);

/* True when this change needs a reconcile. NULL before = create, NULL after = delete. Pure. */
typedef bool predicate_fn(const struct object *before, const struct object *after);

/* Maps an object of another kind to keys of the root kind, which it adds to out. Called in an
 * informer's thread; must not block. */
typedef void map_fn(void *self, const struct object *obj, struct wq *out);

/* True for creates, deletes, and updates that change the generation (spec) or begin deletion. */
bool predicate_generation(const struct object *before, const struct object *after);
