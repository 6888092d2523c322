/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/manager.h"
#include "controller/metrics.h"
#include "reconcilers/context.h"

/*
 * All of the controller's informers and controllers, wired together. main hands them to a manager;
 * tests step them by hand.
 */
struct reconcilers;

struct reconcilers_opts {
    struct kc *reader; /* of the informers */
    struct kc *writer; /* of the reconcilers: fenced by the lease */
    const struct clock *clk;
    struct recorder *recorder; /* NULL: no events */
    struct metrics *metrics;   /* NULL: none */
    bool koordinator;          /* do for Koordinator what there is to do, where it is installed */
    bool hami; /* tell HAMi's scheduler of cards, and release the lock that such schedulers take */
    int workers;       /* of each controller, at least 1 */
    size_t many_nodes; /* of one object, whose looks at all of them are then rationed; 0: 200 */
    uint64_t seed;
};

/* Borrows what the options name. */
struct reconcilers *reconcilers_new(const struct reconcilers_opts *opts);
/* Hands informers and controllers over; r must outlive the manager. */
void reconcilers_hand_over(struct reconcilers *r, struct manager *m);
/* Heartbeats for what the manager takes as plain services (manager_set_beats knows the others).
 * Before the manager runs. set outlives r. */
void reconcilers_set_beats(struct reconcilers *r, struct heartbeats *set);

/* For tests: one call of every informer's reflector, then every key that is due, until nothing is
 * left to do now. Returns the number of keys. */
int reconcilers_step(struct reconcilers *r, struct scope *s);
/* For tests. Borrowed. */
const struct context *reconcilers_context(const struct reconcilers *r);

/* NULL allowed; returns NULL. */
struct reconcilers *reconcilers_free(struct reconcilers *r);
AUTO_DEFINE_PTR(reconcilers, struct reconcilers, reconcilers_free)
#define auto_reconcilers AUTO_PTR(reconcilers)
