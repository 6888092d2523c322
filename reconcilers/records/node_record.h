/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/jx.h"

#include "kubeclient/object.h"

/*
 * The record of a Node: what the reconcilers read of it, made when the object arrives, after which
 * its JSON is dropped. Immutable.
 */

/* A resource in the Node's maps. -1: the map has no such name. */
struct node_resource {
    char *name;
    int64_t capacity, allocatable;
};

struct string_list {
    char **items;
    size_t n;
};

struct node_record {
    struct jx_pair *labels; /* sorted by key */
    size_t n_labels;
    struct string_list owned_labels; /* keys that our field manager applied, sorted */
    /* Keys of GPU and PCI labels that a feature discovery wrote here, sorted. They stay its own. */
    struct string_list discovered_labels;
    struct node_resource *resources; /* of vendors' domains, sorted by name */
    size_t n_resources;
    struct string_list owned_resources; /* names that our field manager applied, sorted */
    bool tainted;                       /* it has our taint (node_taint.h) */
    bool ready;                         /* its kubelet reports: condition Ready is True */
    /* The annotation of interop/node_lock.h, cut one byte beyond the longest legal value; NULL:
     * none. */
    char *lock;
    char *cards;     /* the annotation of interop/metax_cards.h, cut likewise */
    bool owns_cards; /* our field manager applied it */
};

/* For informers: the payload is a struct node_record. */
extern const struct object_type records_node_type;

/* Field manager of what we apply to Nodes. */
#define MANAGER_NODE "cleave-controller-node"

/* Field manager of the annotation from which HAMi's scheduler learns cards. It is separate, so that
 * Nodes without such cards carry nothing of it. */
#define MANAGER_NODE_CARDS "cleave-controller-node-cards"

/* True when a Node's condition Ready is True, which its kubelet keeps so. */
bool records_node_is_ready(const json_t *node);
/* The Node's label nvidia.com/mig.config; NULL when absent or empty. Borrowed. */
const char *records_mig_label(const struct node_record *node);

/* Field manager of the condition that the controller sets in a Device's status (serving.h). */
#define MANAGER_SERVING "cleave-controller-serving"

/* True when two records of a Node agree in labels and in who applied them; in resources
 * likewise. */
bool records_same_labels(const struct node_record *a, const struct node_record *b);
bool records_same_resources(const struct node_record *a, const struct node_record *b);
