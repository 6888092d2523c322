/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Removes the schedulers' node lock where it was taken for slices that Cleave makes
 * (interop/node_lock.h). Key: the node. The pod that the lock names is read once for each lock,
 * by a list of that one name. The patch carries the Node's version that had the lock, so a lock
 * that was taken meanwhile stays; it goes through /status, which accepts annotations as it does
 * labels. A lock that cannot be read is reported once, and stays.
 */
struct controller *node_unlock_controller_new(struct context *ctx);
