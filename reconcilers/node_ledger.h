/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/context.h"

/*
 * Enters one node into the ledgers: which profiles get a ticket for it, and how each profile and
 * each configuration stands on it. Only the node's own reconciler calls it, so no two threads do
 * for one node.
 */

/* Brings the ledgers up to date with the view, and asks for the tickets that the node needs. Fills
 * waiting (room for as many as there are outcomes) with the profiles that must wait, borrowed from
 * the view; returns their number. */
size_t node_ledger_keep(struct context *ctx, const struct node_view *v, const char *node,
                        const char **waiting);

/* Removes a node that is gone or has no Device. */
void node_ledger_forget(struct context *ctx, const char *node);

/* Fills empty ledgers from the caches, for rollout_build. arg is a struct context. */
void node_ledger_build(struct rollout *r, void *arg);
