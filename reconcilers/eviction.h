/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "reconcilers/context.h"

/*
 * Pods that keep a card from changing, where the profile says drain: evict. Key: the node's name.
 * Through the Eviction API, so PodDisruptionBudgets hold, and with the pod's uid as precondition:
 * a pod that came under the same name is never hit. Mirror pods and those of a DaemonSet are left
 * alone: they would be back at once. An Event says so, and the card's condition goes on naming them
 * until the drain's deadline. Nothing is kept in memory; whom to evict is
 * read from Device.status, where the pods are from one LIST of the node's pods.
 */
struct controller *eviction_controller_new(struct context *ctx);

/* --- Pure --- */

/* The pods that have to go from this node now: those in the way of orders of the Device's spec that
 * policy (what its cards should be as of now) still gives. Borrowed from the record; the array is
 * the caller's. */
const struct drain_pod **eviction_pods(const struct device_record *device,
                                       const struct device_spec *policy, int64_t now_ms,
                                       size_t *ret_n);

/* Is it one of them? A pod that is known by name alone may have been made anew: one that came after
 * the drain began holds nothing of it. Where uid and name are told, both have to be its own. */
bool eviction_is_meant(const json_t *pod, const struct drain_pod *const *pods, size_t n);

/* Why evicting this pod would not help (a literal that continues "it …"), or NULL where it would.
 */
const char *eviction_futile(const json_t *pod);
