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

/* All are borrowed; metrics may be NULL. */
struct extender *extender_new(struct view *v, struct binder *b, struct wake *w, struct metrics *m);
enum { EXTENDER_ROUTES = 3 };
/* Fills in EXTENDER_ROUTES routes, which borrow x. */
void extender_routes(struct extender *x, struct http_route *ret);
/* NULL allowed; returns NULL. */
struct extender *extender_free(struct extender *x);
AUTO_DEFINE_PTR(extender, struct extender, extender_free)
#define auto_extender AUTO_PTR(extender)
