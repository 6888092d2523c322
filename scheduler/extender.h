/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler/bind.h"
#include "scheduler/wake.h"
#include "service/http_route.h"

/*
 * kube-scheduler's questions, as routes of the HTTP server: /filter decides, assumes, answers with one
 * node and writes nothing; /bind writes what was decided; /preempt names the pods that must go.
 */
struct extender;

/* True once the caches have all that the API server has. Any thread. */
typedef bool extender_ready_fn(const void *arg);

/* All are borrowed; metrics may be NULL. */
struct extender_opts {
    struct view *view;
    struct binder *binder;
    struct wake *wake;
    struct metrics *metrics;
    extender_ready_fn
        *is_ready; /* before that, /filter and /preempt answer 503, and a Binding waits */
    const void *arg;
};

struct extender *extender_new(const struct extender_opts *o);
enum { EXTENDER_ROUTES = 3 };
/* Fills in EXTENDER_ROUTES routes, which borrow x. */
void extender_routes(struct extender *x, struct http_route *ret);
/* NULL allowed; returns NULL. */
struct extender *extender_free(struct extender *x);
AUTO_DEFINE_PTR(extender, struct extender, extender_free)
#define auto_extender AUTO_PTR(extender)
