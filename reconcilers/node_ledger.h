/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * What one node means for the ledgers: who gets a ticket, and how each profile and each
 * configuration stands there. Called for a node by its reconciler alone, never for one node by two
 * threads.
 */

/* Brings the ledgers up to date with the view, and asks for the tickets that the node needs. Fills
 * held (of as many as there are outcomes) with the profiles that have to wait, borrowed from the
 * view; returns their number. */
size_t node_ledger_keep(struct context *ctx, const struct node_view *v, const char *node,
                        const char **held);

/* The node is gone, or has no Device. */
void node_ledger_forget(struct context *ctx, const char *node);

/* Fills empty ledgers from the caches, for rollout_build. arg is a struct context. */
void node_ledger_build(struct rollout *r, void *arg);
