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

/* Uids of the pods that have to go from this node now, each once. Strings are borrowed from the
 * record; the array is the caller's. */
const char **eviction_uids(const struct device_record *device, int64_t now_ms, size_t *ret_n);

/* Why evicting this pod would not help (a literal that continues "it …"), or NULL where it would.
 */
const char *eviction_futile(const json_t *pod);
