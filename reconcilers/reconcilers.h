/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/manager.h"
#include "reconcilers/context.h"
#include "service/metrics.h"

/*
 * All of the controller's informers and controllers, wired together. main hands them to a manager;
 * tests step them by hand.
 */
struct reconcilers;

struct reconcilers_opts {
    struct kc *reader; /* for the informers */
    struct kc *writer; /* for the reconcilers: fenced by the lease */
    const struct clock *clk;
    struct recorder *recorder; /* NULL: no events */
    struct metrics *metrics;   /* NULL: not counted */
    bool koordinator;          /* write Koordinator's Devices where it is installed */
    /* publish cards to HAMi's scheduler, and remove the lock that such schedulers take */
    bool hami;
    bool gpushare; /* publish the resources by which gpushare counts the memory of shared cards */
    int workers;   /* for each controller, at least 1 */
    size_t many_nodes; /* an object with more nodes is summarized at most once a second; 0: 200 */
    uint64_t seed;
};

/* Borrows all that the options point to. */
struct reconcilers *reconcilers_new(const struct reconcilers_opts *opts);
/* Hands informers and controllers to the manager; r must outlive it. */
void reconcilers_hand_over(struct reconcilers *r, struct manager *m);
/* Gives a heartbeat to each plain service of the manager (manager_set_beats covers the others).
 * Call it before the manager runs. set outlives r. */
void reconcilers_set_beats(struct reconcilers *r, struct heartbeats *set);

/* For tests: one call of every informer's reflector, then every key that is due, until no key is
 * due. Returns the number of keys. */
int reconcilers_step(struct reconcilers *r, struct scope *s);
/* For tests. Borrowed. */
const struct context *reconcilers_context(const struct reconcilers *r);

/* NULL allowed; returns NULL. */
struct reconcilers *reconcilers_free(struct reconcilers *r);
AUTO_DEFINE_PTR(reconcilers, struct reconcilers, reconcilers_free)
#define auto_reconcilers AUTO_PTR(reconcilers)
