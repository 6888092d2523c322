/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * The annotation from which HAMi's scheduler learns a node's cards (interop/metax_cards.h). Key:
 * the node. Written by server-side apply through the Node's /status under a field manager of its
 * own, so that our annotation disappears once it is no longer applied, and that of another's plugin
 * stays on a node without cards of ours. On a node with such cards Cleave takes the annotation over
 * from any other writer: a stale text would have pods bound to cards that do not exist.
 */
struct controller *node_cards_controller_new(struct context *ctx);
