/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Removes the lock of schedulers from Nodes, where it was taken for slices that Cleave makes
 * (partition/node_lock.h). Key: the node. The pod that the lock names is read once for each lock
 * that is seen, by a list of that one name. The lock is removed by a patch of the Node's version
 * that had it, through /status, which takes annotations along as it does labels: a lock that was
 * taken meanwhile stays. One that cannot be read is said once, and stays.
 */
struct controller *node_unlock_controller_new(struct context *ctx);
