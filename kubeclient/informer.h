/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/store.h"

/*
 * Keeps a store equal to the API server's objects of one kind, and calls handlers for every change:
 * reflector + store + handlers (client-go's SharedIndexInformer). One thread runs it; any thread
 * reads the store. Handlers are called in that thread, in order, with no lock held; they must not
 * block: put a key into a workqueue and return.
 *
 *    struct informer *inf = informer_new(kc, &(struct informer_opts){.type = &device_type,
 *                                                                    .clk = clk});
 *    store_add_index(informer_store(inf), "vendor", index_vendor);
 *    informer_add_handler(inf, on_device, self);
 *    TRY(informer_run(inf, s, e));
 */
struct informer;
struct kc;

/* Strings and pointers are borrowed and must outlive the informer. */
struct informer_opts {
    const struct object_type *type; /* type->resource is the watched kind */
    const char *ns;                 /* NULL: all namespaces, or a cluster-scoped kind */
    /* Only the object of this name (metadata.name=…), also if the server sends others; NULL:
     * all. */
    const char *name;
    const char *labels, *fields; /* selectors; NULL: none */
    const struct clock *clk;
    uint64_t seed; /* of jitter; two informers of one process should differ */
    /* 0: KC_MAX_OBJECTS. One more ends the call with an error: the store keeps its objects, and the
     * state is requested again after a delay. */
    size_t max_objects;
};

/* before NULL: added; after NULL: deleted. Both are borrowed for the call; object_ref keeps one.
 * `stale` on a delete: it happened while nobody watched, `before` is the last state that was known
 * (client-go's DeletedFinalStateUnknown). */
typedef void informer_fn(void *arg, const struct object *before, const struct object *after,
                         bool stale);

/* Borrows c. Never fails. */
struct informer *informer_new(struct kc *c, const struct informer_opts *opts);
/* Only before informer_run. Handlers are called in the order of their adding. */
void informer_add_handler(struct informer *inf, informer_fn *fn, void *arg);
/* As reflector_set_beat. A watch ends after ten minutes at most, so an informer with one call of
 * more than INFORMER_CALL_MS hangs. Set it before informer_run. */
void informer_set_beat(struct informer *inf, struct heartbeat *beat);
#define INFORMER_CALL_MS (20 * 60 * 1000)
/* Borrowed for the informer's life. */
struct store *informer_store(struct informer *inf);
/* Its options: the watched kind and its selectors; borrowed. */
const struct informer_opts *informer_options(const struct informer *inf);
/* Lists and watches until the scope ends; errors on the way are retried with backoff and logged.
 * Blocks; one thread. Returns ERR_CANCELED or ERR_TIMEOUT, as the scope ended. */
int informer_run(struct informer *inf, struct scope *s, struct err *e) MUST_CHECK;
/* One call of the reflector (reflector_step), in the caller's thread: deterministic tests. */
int informer_step(struct informer *inf, struct scope *s, int64_t *ret_wait_ms,
                  struct err *e) MUST_CHECK;
/* True once the first full list is in the store and every handler has seen it. Any thread. */
bool informer_has_synced(const struct informer *inf);
/* Waits for has_synced. ERR_TIMEOUT, ERR_CANCELED. Any thread, and several at once. */
int informer_wait_synced(struct informer *inf, struct scope *s, struct err *e) MUST_CHECK;

/* Counts since the start, for metrics. Any thread. */
struct informer_stats {
    int64_t lists, watches, events, errors, broken_objects;
    int64_t last_contact_mono_ms; /* last list, event or bookmark; 0: never */
};
struct informer_stats informer_stats(const struct informer *inf);

/* Not while running. NULL allowed; returns NULL. */
struct informer *informer_free(struct informer *inf);

AUTO_DEFINE_PTR(informer, struct informer, informer_free)
#define auto_informer AUTO_PTR(informer)
