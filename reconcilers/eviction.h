/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "reconcilers/context.h"

/*
 * Evicts the pods that keep a card from changing, where the profile has drain: evict. Key: the
 * node's name. The Eviction API is used, so PodDisruptionBudgets hold. The pod's uid is the
 * precondition, so a new pod of the same name is never evicted. Mirror pods and pods of a DaemonSet
 * are left alone, because they would be back at once; an Event reports it, and the card's condition
 * names them until the drain's deadline. Nothing is kept in memory: the pods to evict are read from
 * Device.status, and their objects from one LIST of the node's pods.
 */
struct controller *eviction_controller_new(struct context *ctx);

/* --- Pure --- */

/* The pods that must leave this node now: those that block an order of the Device's spec. An order
 * counts only while policy (what the cards should be as of now) still contains it. The pods are
 * borrowed from the record; the array is the caller's. */
const struct drain_pod **eviction_pods(const struct device_record *device,
                                       const struct device_spec *policy, int64_t now_ms,
                                       size_t *ret_n);

/* True when the pod is one of `pods`. Uid and name must both match where both are known. A pod that
 * is known only by name and was created after the drain began is not meant: it is a new pod of that
 * name and holds nothing of the card. */
bool eviction_is_meant(const json_t *pod, const struct drain_pod *const *pods, size_t n);

/* Why evicting this pod would not help (a literal that continues "it …"), or NULL when it would. */
const char *eviction_futile(const json_t *pod);
