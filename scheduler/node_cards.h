/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/object.h"
#include "partition/fraction.h"

/*
 * The cards of a node that give shares, as its Device describes them, and what its agent says is
 * given out. The record that the cache of Devices keeps.
 */

/* A pod on a card, as the node's agent tells it in the Device's status. */
struct told_share {
    unsigned card;             /* index into the cards */
    char *pod;                 /* "namespace/name" */
    bool whole;                /* it holds the card itself, and no share */
    struct fraction_size size; /* of the share */
};

struct node_cards {
    /* Cards that give only themselves come first: of equal ones the planner takes the first. Used is
     * 0: told says what is. uuid and model are owned. */
    struct fraction_card *cards;
    unsigned n;
    unsigned *indices; /* of each card: its number on the node */
    uint16_t *pairs;   /* how well each pair is connected, n * n: struct fraction_node */
    struct told_share *told;
    size_t n_told;
};

/* The cache's kind: a record is a struct node_cards, NULL where the node has no card that gives
 * shares. */
extern const struct object_type node_cards_type;
/* The record of a Device; NULL: none. Borrowed. */
const struct node_cards *node_cards_of(const struct object *device);
