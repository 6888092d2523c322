/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"
#include "kubeclient/object.h"

/*
 * What a Node's annotations say of its cards, in HAMi's words (HAMi pkg/util/types.go, pkg/device/nvidia/
 * device.go). The record that the cache of Nodes keeps.
 *  - hami.io/device-cordon: cards, by UUID, that get no pods. A list of more than HAMI_MAX_LIST_BYTES
 *    names no cards of a node: then it is all of them.
 *  - hami.io/node-nvidia-register: written by HAMi's device plugin while it serves the node's cards. They
 *    are HAMi's to give out then. Whoever takes that plugin off a node removes it (docs/operations.md).
 */
#define NODE_CORDON   "hami.io/device-cordon"
#define NODE_REGISTER "hami.io/node-nvidia-register"

struct node_words {
    char *cordoned;   /* a comma list of UUIDs; NULL: none */
    bool is_cordoned; /* all cards are */
    bool is_hamis;    /* HAMi's device plugin serves the node */
};

/* The cache's kind: a record is a struct node_words, NULL where the Node says neither. */
extern const struct object_type node_words_type;
/* The record of a Node (NULL: it is gone); NULL: none. Borrowed. */
const struct node_words *node_words_of(const struct object *node);
