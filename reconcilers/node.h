/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Writes everything about one node from one snapshot. Key: the node's name.
 *
 * Three writes, in this order, each only when something differs:
 *  1. the Node's labels and resources, in one write through /status, which accepts labels too, so
 *     that state `success` and the new resources appear together;
 *  2. Device.spec: what it takes away was withdrawn from the Node by the first write;
 *  3. the taint (taint_policy.h), a merge patch with the version of the Node that was read.
 *
 * The first two are server-side apply under our own field managers.
 */
struct controller *node_controller_new(struct context *ctx);
