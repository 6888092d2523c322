/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/breach_ledger.h"
#include "reconcilers/context.h"

/*
 * Tells pods of breaches: an Event about each pod whose container goes beyond its share, once for
 * each time that Device.status begins to say so. Key: the node's name. An agent cannot write Events
 * about pods; what it says is told only of pods that run on its node. The pods are read by one LIST,
 * and only when there is something to tell.
 */
struct controller *breach_controller_new(struct context *ctx);
