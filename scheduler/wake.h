/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "controller/controller.h"
#include "kubeclient/client.h"
#include "service/metrics.h"

/*
 * Wakes refused pods when there is room. kube-scheduler tries a pod that an extender refused again when
 * anything happens in the cluster that it watches; but a share is free only once its agent has
 * released it, which kube-scheduler does not see. So the Node is told, in the annotation below, that it
 * has more room than before. Only where a pod was refused, and at most once in WAKE_DELAY_MS for a
 * node. Pods may have been refused before the start: then the first node that is seen is told.
 */

#define WAKE_ANNOTATION "gpu.cleave.dev/room"
#define WAKE_DELAY_MS   50

struct wake;

/* Borrows all; metrics NULL: not counted. */
struct wake *wake_new(struct kc *kc, const struct clock *clk, struct metrics *metrics);
/* The workers, for the manager to run and free, before w is freed. */
struct controller *wake_workers(struct wake *w);
/* A pod is judged between the two: room that grows meanwhile wakes it, if it was refused. One thread. */
void wake_begin(struct wake *w);
void wake_end(struct wake *w, bool refused);
/* A view_grown_fn; arg is a struct wake. */
void wake_grown(void *arg, const char *node);
/* NULL allowed; returns NULL. */
struct wake *wake_free(struct wake *w);
AUTO_DEFINE_PTR(wake, struct wake, wake_free)
#define auto_wake AUTO_PTR(wake)
