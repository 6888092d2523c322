/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/scope.h"

/*
 * The Kubernetes API as one interface with exchangeable implementations: kc_http_new (a real API
 * server), kc_fake_new (a checked model of one), kc_fault_new (spoils chosen calls of another).
 * Call the kc_ functions below; the table is for implementations.
 *
 * All calls block under their scope and may be made from any thread at the same time; each returns
 * within milliseconds of the scope's cancellation. Strings and documents that are passed in are
 * borrowed for the call. Results are new references. Errors carry http_status, retry_after_ms and
 * reason (kubeclient/status.h has the mapping). Besides the errors named at a call, every call can
 * fail with
 *
 *   ERR_FORBIDDEN    401, 403
 *   ERR_THROTTLED    429, still so after the retries that Retry-After asked for
 *   ERR_UNAVAILABLE  refused, reset, 5xx. A write may have happened nevertheless
 *   ERR_TIMEOUT      the scope's deadline, or the server's. A write may have happened nevertheless
 *   ERR_CANCELED     the scope
 *   ERR_TOO_LARGE    the answer is beyond the client's bound
 *   ERR_PROTOCOL     the answer is not an API server's (HTML, truncated JSON)
 */

/* A kind of object; static const tables in api/. group "" is the core group. */
struct kc_resource {
    const char *group, *version, *plural, *kind;
    bool namespaced;
};

/* The target of a call. ns NULL with a namespaced resource: all namespaces (list, watch only). name
 * is NULL for list, watch and create (create takes it from the body; a subresource needs it). */
struct kc_target {
    const struct kc_resource *res;
    const char *ns, *name, *subresource;
};

/* Objects of one kind that a list may have and a cache may hold: twice the nodes of the largest
 * clusters on offer (100,000). A server that sends more cannot be followed. */
#define KC_MAX_OBJECTS 200000

struct kc_list_opts {
    const char *labels, *fields;  /* selectors in the API's syntax; NULL: all */
    const char *resource_version; /* NULL: the most recent; "0": any, from the server's cache */
    const char *version_match;    /* NULL, "NotOlderThan" or "Exact" */
    int page_size;                /* 0: unpaged. The server's cache ignores it for version "0" */
    /* The path to a list in each object that is mostly the same, NULL-terminated: such objects may
     * share it, and their references are counted by one thread. NULL: none. */
    const char *const *shared;
    /* The metadata of each object is all that is wanted: it comes as a PartialObjectMetadata, without
     * spec and status. A model of an API server gives whole objects. */
    bool metadata_only;
    /* The path to a list or object in each that nobody reads: it is left out. NULL: none. */
    const char *const *without;
};

struct kc_watch_opts {
    const char *labels, *fields;
    const char *resource_version; /* events after this one; NULL or "0": the state as ADDED first,
                                   * ended by that bookmark on servers with WatchList */
    bool send_initial_events; /* WatchList: the state as ADDED, then a BOOKMARK with the annotation
                               * k8s.io/initial-events-end */
    int timeout_s; /* the server ends the stream after it; 0: its default (30–60 min) */
};

enum kc_patch_type { KC_MERGE, KC_JSON_PATCH, KC_APPLY };

struct kc_write {
    const json_t *body;
    enum kc_patch_type how; /* kc_patch only */
    const char *manager;    /* field manager; required for KC_APPLY, NULL elsewhere allowed */
    bool force;             /* KC_APPLY: take fields over from rival managers */
    bool dry_run;           /* the server judges and answers, and stores nothing */
};

/* Preconditions of a removal; both NULL: unconditional. A mismatch is ERR_CONFLICT. */
struct kc_remove_opts {
    const char *if_uid, *if_resource_version;
    const char *propagation; /* NULL (Background), "Foreground", "Orphan" */
    int64_t grace_s;         /* with has_grace: gracePeriodSeconds; 0 removes a pod at once */
    bool has_grace;
};

enum kc_change { KC_ADDED, KC_MODIFIED, KC_DELETED, KC_BOOKMARK };

/* One event of a watch. obj is borrowed for the call (json_incref keeps it). A bookmark's obj
 * carries only kind, apiVersion and metadata. A negative return ends the watch, which then returns
 * that error. */
typedef int kc_change_fn(void *arg, enum kc_change change, const json_t *obj, struct err *e);
/* One object of a list, same rules. Items of a List carry no kind and apiVersion when the server
 * leaves them out. */
typedef int kc_item_fn(void *arg, const json_t *obj, struct err *e);

struct kc;

struct kc_ops {
    int (*get)(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
               struct err *e);
    int (*list)(struct kc *c, struct scope *s, const struct kc_target *t,
                const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                struct err *e);
    int (*create)(struct kc *c, struct scope *s, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret_obj, struct err *e);
    int (*update)(struct kc *c, struct scope *s, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret_obj, struct err *e);
    int (*patch)(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
                 json_t **ret_obj, struct err *e);
    int (*remove)(struct kc *c, struct scope *s, const struct kc_target *t,
                  const struct kc_remove_opts *o, struct err *e);
    int (*watch)(struct kc *c, struct scope *s, const struct kc_target *t,
                 const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e);
    struct kc *(*free)(struct kc *c);
};

/* Embedded first in each implementation. ops never changes. */
struct kc {
    const struct kc_ops *ops;
};

/* Reads one object. ERR_NOT_FOUND. ret_obj of this and of the writes may be NULL when the answer
 * does not matter. */
int kc_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
           struct err *e) MUST_CHECK;

/* Reads a list object by object: memory for one object at a time, pages followed to the end. A list
 * without end fails with ERR_TOO_LARGE (bounds of the client, kubeclient/http.h) or ERR_TIMEOUT.
 * *ret_version (may be NULL) is the list's resourceVersion, owned by the caller. After an error
 * some items may have been delivered. ERR_EXPIRED: the version, or the continuation, is too old:
 * start over. reason "ResourceVersionTooLarge" (ERR_TIMEOUT): the server has not seen that version
 * yet. */
int kc_list_each(struct kc *c, struct scope *s, const struct kc_target *t,
                 const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                 struct err *e) MUST_CHECK;

/* The same as one document {"metadata": {"resourceVersion"}, "items": […]}, for short lists.
 * o may be NULL. */
int kc_list(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_list_opts *o,
            json_t **ret_list, struct err *e) MUST_CHECK;

/* Creates w->body. ERR_EXISTS; ERR_INVALID with the server's message (field and reason). With a
 * subresource: POST to it (pods/eviction, serviceaccounts/token). */
int kc_create(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
              json_t **ret_obj, struct err *e) MUST_CHECK;

/* Replaces the object; a metadata.resourceVersion in the body is the precondition (custom resources
 * require it). ERR_CONFLICT, ERR_NOT_FOUND, ERR_INVALID. */
int kc_update(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
              json_t **ret_obj, struct err *e) MUST_CHECK;

/* RFC 7396 merge patch, RFC 6902 JSON patch (body is an array), or server-side apply (body carries
 * apiVersion, kind, metadata.name; creates what is missing). metadata.uid and resourceVersion in a
 * merge patch or an applied body are preconditions: ERR_CONFLICT for another version, ERR_INVALID
 * for another uid ("field is immutable"). ERR_CONFLICT of apply names the rivals, ERR_NOT_FOUND,
 * ERR_INVALID. */
int kc_patch(struct kc *c, struct scope *s, const struct kc_target *t, const struct kc_write *w,
             json_t **ret_obj, struct err *e) MUST_CHECK;

/* Removes the object if it still has that uid. if_uid NULL: any object of that name. An object with
 * finalizers only gets its deletionTimestamp. ERR_NOT_FOUND, ERR_CONFLICT. */
int kc_remove(struct kc *c, struct scope *s, const struct kc_target *t, const char *if_uid,
              struct err *e) MUST_CHECK;
/* The same with every option. */
int kc_remove_with(struct kc *c, struct scope *s, const struct kc_target *t,
                   const struct kc_remove_opts *o, struct err *e) MUST_CHECK;

/* Evicts the pod that t names (policy/v1; t->subresource is ignored) if it has that uid.
 * ERR_THROTTLED with reason "DisruptionBudget": a PodDisruptionBudget refuses; ERR_NOT_FOUND;
 * ERR_CONFLICT when the name belongs to another pod by now. */
int kc_evict(struct kc *c, struct scope *s, const struct kc_target *t, const char *if_uid,
             struct err *e) MUST_CHECK;

/*
 * Calls fn for each event until the stream ends. Bookmarks are always requested. Returns what fn
 * returned, or
 *
 *   0                the server closed it (its timeout): watch again from the last version seen
 *   ERR_UNAVAILABLE  the connection broke or was refused; delivered events are valid
 *   ERR_EXPIRED      the version is too old, as HTTP status or as ERROR event: list again
 *   ERR_PROTOCOL, ERR_TOO_LARGE  an event that cannot be read
 */
int kc_watch(struct kc *c, struct scope *s, const struct kc_target *t,
             const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e) MUST_CHECK;

/* True for the error "Too large resource version" of a server that lags behind: list again without
 * a version. */
bool kc_err_is_version_too_large(const struct err *e);

/* Frees the client; no call may be in progress. NULL allowed; returns NULL. */
struct kc *kc_free(struct kc *c);

AUTO_DEFINE_PTR(kc, struct kc, kc_free)
#define auto_kc AUTO_PTR(kc)
