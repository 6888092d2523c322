/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/node_state.h"

/*
 * The offer of a node at one moment. It is computed once from the node's state and handed to
 * everything that publishes it, so that the kubelet, the status and the labels never disagree.
 * Pure; the time is given.
 */
struct node_offer {
    struct card_offer *cards; /* in the order of node_state.cards */
    /* For each card its change that is being carried out, or that waits because something is in
     * use. NULL: no such change. */
    struct card_plan **plans;
    size_t n;
    int strategy;                 /* enum api_mig_strategy: how resources are named
                                     (resource_strategy) */
    bool mixed_instead_of_single; /* strategy single was asked for and does not fit the node's cards
                                   */
    struct device_table table;
};

/* *ret is the caller's (node_offer_done). */
void node_offer_build(const struct node_state *s, int64_t now_ms, struct node_offer *ret);
void node_offer_done(struct node_offer *o);
AUTO_DEFINE(node_offer, struct node_offer, node_offer_done)
#define auto_node_offer AUTO(node_offer)
