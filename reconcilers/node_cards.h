/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * The annotation by which HAMi's scheduler knows a node's cards (partition/metax_cards.h). Key: the
 * node. It is server-side apply through the Node's /status under a field manager of its own, so
 * that what stands and is ours disappears when it is no longer applied, and what another's plugin
 * wrote on a node without cards of ours stays. Where there are such cards it is ours to say, and
 * taken over: a text that was left behind would have pods bound to cards that are not there.
 */
struct controller *node_cards_controller_new(struct context *ctx);
