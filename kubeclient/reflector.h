/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * Keeps a sink equal to the API server's objects of one kind: the full state, then every change
 * (client-go tools/cache/reflector.go). The state comes as a stream (WatchList) or, if the server
 * cannot do that, as a list. One thread; reflector_step needs no clock but the injected one, so
 * tests step it without waiting.
 */
struct reflector;

/* The receiver. Called in the reflector's thread, never concurrently. item and change return 0, or
 * an error that ends the call: the state is then requested again, after a delay. */
struct reflector_sink {
    void *arg;
    /* A full state begins to arrive; an earlier, unfinished one is void. */
    void (*begin)(void *arg);
    /* One object of the state. KC_ADDED and KC_MODIFIED: is part of it. KC_DELETED: no longer. */
    int (*item)(void *arg, enum kc_change change, const json_t *obj, struct err *e);
    /* The state is complete as of this version. */
    void (*commit)(void *arg, const char *version);
    /* A change after the commit, bookmarks included. */
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
/* Makes one call (a list or a watch) and decides the next. *ret_wait_ms: how long to wait before
 * the next step. Returns 0, or the call's error for the log: it has been handled. */
int reflector_step(struct reflector *r, struct scope *s, int64_t *ret_wait_ms,
                   struct err *e) MUST_CHECK;
/* Steps until the scope ends. Blocks. Returns ERR_CANCELED or ERR_TIMEOUT. */
int reflector_run(struct reflector *r, struct scope *s, struct err *e) MUST_CHECK;

/* Beats when a call begins and when it waits. Set it before reflector_run. Borrowed. */
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
 * The policy, pure: the next call after one has ended. Rows from client-go's reflector.go (list,
 * watchList, watch, isWatchErrorRetriable); differences, all kinder to the server, are marked.
 */

/* The end of a call. err->kind 0: the server closed the stream. */
struct reflector_end {
    const struct err *err;
    int64_t lasted_ms, events;
    int64_t internal_ms; /* since the first of an unbroken series of 500s */
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

/* A watch of changes only. */
enum reflector_next reflector_after_watch(const struct reflector_end *end);
/* A WatchList that ended before its state was complete. latest: it asked for the most recent. */
enum reflector_next reflector_after_stream(const struct reflector_end *end, bool latest);
/* A list that failed. paged: it was a list of the most recent version in pages. latest: asked for
 * it. */
enum reflector_next reflector_after_list(const struct err *err, bool latest, bool paged);
