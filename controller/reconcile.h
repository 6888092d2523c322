/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "kubeclient/object.h"
#include "kubeclient/workqueue.h"

/* What a reconciler asks for after success. */
struct reconcile_result {
    int64_t requeue_after_ms; /* 0 = wait for the next change */
};

/* Makes the world agree with one object. Level-based (the key only, never the event), idempotent,
 * may block under the scope, and is never called for one key by two threads at a time. The object
 * may be gone. Returns 0, or an error: retried with rate limit, except ERR_TERMINAL, which waits
 * for the next change. */
typedef int reconcile_fn(void *self, struct scope *s, const struct object_key *k,
                         struct reconcile_result *r, struct err *e);

/* Is this change worth a reconcile? NULL before = create, NULL after = delete. Pure. */
typedef bool predicate_fn(const struct object *before, const struct object *after);

/* Other kinds → keys of the root kind: adds them to out. Called in an informer's thread; must not
 * block. */
typedef void map_fn(void *self, const struct object *obj, struct wq *out);

/* Creates, deletes, and updates that change the generation (spec) or begin deletion. */
bool predicate_generation(const struct object *before, const struct object *after);
