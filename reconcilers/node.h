/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Everything that is written about one node, from one look at it. Key: the node's name.
 *
 * First the Node: labels and resources in one write through /status, which takes labels along, so
 * that state success and the new resources appear together. Then Device.spec. The order matters:
 * what a new spec takes away is withdrawn from the Node before it is ordered. Both are server-side
 * apply under field managers of our own, and only what differs is written.
 */
struct controller *node_controller_new(struct context *ctx);
