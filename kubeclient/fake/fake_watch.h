/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubeclient/client.h"
#include "kubeclient/fake/fake_store.h"

/*
 * The watches in progress, each in the thread of its caller; for the fake. They read the history of
 * the store, and wait until fake_watches_wake.
 */

/* A watch in progress. */
struct fake_watcher {
    int wake; /* eventfd: something changed */
    struct fake_watcher *next;
};

struct fake_watches {
    pthread_mutex_t *mu;      /* the fake's; borrowed */
    struct fake_store *store; /* borrowed; this and all below are guarded by mu */
    struct fake_watcher *first;
    bool drains; /* a watch ends when it has caught up */
    uint64_t close_count, bookmark_count;
};

/* Watches until the server's time is over, the watches are closed, or the scope ends. Calls fn
 * without the lock. Errors as of kc_watch, and those of fn. */
int fake_watches_run(struct fake_watches *all, struct scope *s, const struct kc_target *t,
                     const struct kc_watch_opts *o, kc_change_fn *fn, void *arg,
                     struct err *e) MUST_CHECK;
/* Makes every watch look again. The caller holds mu. */
void fake_watches_wake(struct fake_watches *all);
