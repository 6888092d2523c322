/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Writes everything about one node from one snapshot. Key: the node's name.
 *
 * First the Node: labels and resources go in one write through /status, which accepts labels too,
 * so that state `success` and the new resources appear together. Then Device.spec. The order
 * matters: what a new spec takes away is withdrawn from the Node before the change is ordered. Both
 * writes are server-side apply under our own field managers, and only differences are written.
 */
struct controller *node_controller_new(struct context *ctx);
