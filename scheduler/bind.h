/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/controller.h"
#include "kubeclient/client.h"
#include "scheduler/extender_words.h"
#include "scheduler/view.h"
#include "service/metrics.h"

/*
 * Binds pods: one write for each, which carries the record of its shares. What was assumed for the pod
 * is written as it is; where nothing was, since another replica chose, or this one started anew, the
 * pod is read and placed on the node that kube-scheduler names. An answer that was lost is looked up:
 * a pod that has this record on this node is bound.
 */
struct binder;

/* All are borrowed and outlive it; metrics may be NULL. */
struct binder_opts {
    struct kc *kc;
    struct view *view;
    struct metrics *metrics;
    const struct clock *clk;
};

struct binder *binder_new(const struct binder_opts *o);
/* The workers, for the manager to run and free, before the binder is freed. */
struct controller *binder_workers(struct binder *b);
/* Called once for each pod, from any thread. error NULL: it is bound. Borrowed for the call. */
typedef void binder_done_fn(void *arg, const char *error);
/* Binds. *args_take is emptied. Of a pod that is asked for again before its turn has come, the first
 * asker is told so. Any thread. */
void binder_add(struct binder *b, struct bind_args *args_take, binder_done_fn *done, void *arg);
/* Tells askers that were not answered that the scheduler stops; where the HTTP server was freed before,
 * nobody hears it. NULL allowed; returns NULL. */
struct binder *binder_free(struct binder *b);
AUTO_DEFINE_PTR(binder, struct binder, binder_free)
#define auto_binder AUTO_PTR(binder)
