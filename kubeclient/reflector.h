/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * Keeps a sink equal to what the API server holds of one kind: the state in full, then every change
 * (client-go tools/cache/reflector.go). The state comes as a stream (WatchList) and, if the server
 * cannot do that, as a list. One thread; reflector_step needs no clock but the injected one, so
 * tests walk it without waiting.
 */
struct reflector;

/* Where it all goes. Called in the reflector's thread, never concurrently. item and change return
 * 0, or an error that ends the call: the state is then asked for anew, after a delay. */
struct reflector_sink {
    void *arg;
    /* A full state begins to arrive; what an earlier, unfinished one brought is void. */
    void (*begin)(void *arg);
    /* One object of it. KC_ADDED and KC_MODIFIED: is part of it. KC_DELETED: no longer. */
    int (*item)(void *arg, enum kc_change change, const json_t *obj, struct err *e);
    /* It is complete as of this version. */
    void (*commit)(void *arg, const char *version);
    /* A change after that, bookmarks included. */
    int (*change)(void *arg, enum kc_change change, const json_t *obj, const char *version,
                  struct err *e);
};

/* Strings are borrowed for the reflector's life. */
struct reflector_opts {
    struct kc_target target;     /* no name: use fields */
    const char *labels, *fields; /* selectors or NULL */
    const struct clock *clk;
    uint64_t seed; /* jitter of delays and watch lengths */
    struct reflector_sink sink;
};

/* Borrows c. */
struct reflector *reflector_new(struct kc *c, const struct reflector_opts *opts);
/* Makes one call (a list or a watch) and decides what is next. *ret_wait_ms: how long to wait
 * before the next step. Returns 0, or the error of the call, for the log: it is dealt with already.
 */
int reflector_step(struct reflector *r, struct scope *s, int64_t *ret_wait_ms,
                   struct err *e) MUST_CHECK;
/* Steps until the scope ends. Blocks. Returns ERR_CANCELED or ERR_TIMEOUT. */
int reflector_run(struct reflector *r, struct scope *s, struct err *e) MUST_CHECK;

/* From now on reflector_run says to beat when it begins a call and when it waits. Before it runs.
 * Borrowed. */
void reflector_set_beat(struct reflector *r, struct heartbeat *beat);

/* Counts since the start. Any thread. */
struct reflector_stats {
    int64_t lists, watches, events, errors;
    int64_t last_contact_mono_ms; /* 0: never */
};
struct reflector_stats reflector_stats(const struct reflector *r);

/* NULL allowed; returns NULL. */
struct reflector *reflector_free(struct reflector *r);

AUTO_DEFINE_PTR(reflector, struct reflector, reflector_free)
#define auto_reflector AUTO_PTR(reflector)

/*
 * The policy, pure: what follows after a call has ended. Rows from client-go's reflector.go (list,
 * watchList, watch, isWatchErrorRetriable); where we are kinder to the server it says so.
 */

/* How a call ended. err->kind 0: the server closed the stream. */
struct reflector_end {
    const struct err *err;
    int64_t lasted_ms, events;
    int64_t internal_ms; /* since the first of an unbroken row of 500s */
};

enum reflector_next {
    REFLECTOR_WATCH,         /* watch from the last version, at once */
    REFLECTOR_WATCH_LATER,   /* the same after backoff */
    REFLECTOR_RELIST_LATER,  /* full state, not older than the last version, after backoff */
    REFLECTOR_STREAM_LATER,  /* try WatchList again after backoff */
    REFLECTOR_STREAM_LATEST, /* WatchList again at once, from the most recent version */
    REFLECTOR_LIST,          /* list in place of WatchList, at once */
    REFLECTOR_LIST_LATEST,   /* list again at once, the most recent version, in pages */
    REFLECTOR_LIST_WHOLE,    /* list again at once, the most recent version, in one piece */
};

/* A watch that brought only changes. */
enum reflector_next reflector_after_watch(const struct reflector_end *end);
/* A WatchList that ended before its state was complete. latest: it asked for the most recent. */
enum reflector_next reflector_after_stream(const struct reflector_end *end, bool latest);
/* A list that failed. paged: it was a list of the most recent version in pages. latest: asked for
 * it. */
enum reflector_next reflector_after_list(const struct err *err, bool latest, bool paged);
