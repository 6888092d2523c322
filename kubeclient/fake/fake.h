/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "kubeclient/client.h"

/*
 * A checked model of an API server, in memory. One conformance suite runs on it and on a real
 * server (test/unit/kc_conformance_support.h), so each of these promises is the real server's
 * behaviour:
 *
 *   resourceVersion  one counter for all resources; a write that changes nothing keeps it
 *   generation       1 at creation, +1 when anything outside metadata and status changes
 *   /status          changes nothing but status (and metadata of the managers' list); the main
 *                    resource ignores status
 *   conflicts        stale resourceVersion, other uid, update of a custom resource without version
 *   apply            fields belong to managers, by path; a field that its only manager no longer
 *                    applies disappears; a field of another manager with another value is a
 *                    conflict unless forced. List maps (k: v) merge by the key that
 *                    kc_fake_list_key names; all other lists are atomic
 *   deletion         finalizers hold the object with a deletionTimestamp; the last one's removal
 *                    deletes it; dependants whose owners are all gone go too, at once (in a real
 *                    cluster the garbage collector of the controller manager does that, which the
 *                    conformance suite does not start)
 *   watch            history with BOOKMARKs, WatchList, 410 for versions that kc_fake_compact
 *                    dropped
 *   eviction         pods/eviction with a refusal hook in place of PodDisruptionBudgets
 *
 * Not modelled: schemas, defaulting, admission, authorization, field managers of update and merge
 * patch beyond "the fields they changed are theirs", paging tokens that expire by themselves.
 *
 * Any thread. Steps without threads: kc_fake_watch_drains(c, true) makes a watch return once it has
 * delivered all events so far, as if the server had closed it.
 */

/* Resources without a status subresource: leases, events, configmaps, secrets, serviceaccounts; all
 * others have one. clock (borrowed) dates objects. Caller frees with kc_free. */
struct kc *kc_fake_new(const struct clock *clock);

/* A watch returns 0 when it has caught up, instead of waiting for more. */
void kc_fake_watch_drains(struct kc *c, bool drains);
/* Ends every watch in progress: 0, as a server that shuts down or reaches its timeout. */
void kc_fake_close_watches(struct kc *c);
/* Sends a bookmark with the current version to every watch, and to later ones when they have caught
 * up. */
void kc_fake_bookmark(struct kc *c);
/* Forgets the history so far: a watch from a version before now is ERR_EXPIRED. */
void kc_fake_compact(struct kc *c);
/* Declares that lists in resource.plural at a dotted path merge by key when applied, as
 * x-kubernetes-list-type: map does: kc_fake_list_key(c, "devices", "spec.devices", "uuid").
 * Declared from the start: conditions (type), ownerReferences (uid). Lists of strings under
 * metadata.finalizers are sets. */
void kc_fake_list_key(struct kc *c, const char *plural, const char *path, const char *key);
/* Pods with spec.nodeName keep running after deletion with a deletionTimestamp, until removed with
 * grace 0 as their kubelet does. Off at first: they go at once. */
void kc_fake_pods_linger(struct kc *c, bool linger);

/* Returns true when this pod may be evicted now. Called without the lock. */
typedef bool kc_fake_evict_fn(void *arg, const char *ns, const char *name);
void kc_fake_on_evict(struct kc *c, kc_fake_evict_fn *fn, void *arg);

enum kc_verb { KC_GET, KC_LIST, KC_CREATE, KC_UPDATE, KC_PATCH, KC_REMOVE, KC_WATCH };

struct kc_call {
    enum kc_verb verb;
    const struct kc_target *target;
    const struct kc_write *write; /* writes with a body; else NULL */
    bool after;                   /* the call is done (and succeeded) */
};

/* Called before and after each call, without the lock: may call the fake itself. A negative return
 * replaces the result; returned after, the write has happened and its answer is lost. */
typedef int kc_fake_hook_fn(void *arg, const struct kc_call *call, struct err *e);
void kc_fake_hook(struct kc *c, kc_fake_hook_fn *fn, void *arg);

/* Writes that changed something, and calls of a verb, since the start. */
size_t kc_fake_writes(struct kc *c);
size_t kc_fake_calls(struct kc *c, enum kc_verb verb);
