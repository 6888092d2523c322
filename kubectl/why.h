/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/layout_fix.h"
#include "kubectl/pod_wish.h"
#include "kubectl/screen.h"

/*
 * The reasons why a pod gets none of one resource: of each node what it offers, what other pods
 * have of that, and what keeps the pod away. Filled object by object as the cluster is read. Pure.
 */

struct why_node {
    char *name, *refusal; /* refusal NULL: the pod may have it */
    int64_t offered, taken;
    char **holders; /* "namespace/name" of pods that have some of it */
    size_t n_holders;
};

/* The card whose change costs least. */
struct why_fix {
    char *node, *card, *source; /* source: of the card's present want; NULL: none */
    bool evident;               /* there is such a card; else all other members are empty */
    struct layout_fix layout;
};

struct why {
    const char *resource; /* borrowed */
    int64_t count;
    struct why_node *nodes;
    size_t n_nodes;
    size_t n_tried; /* cards whose layout could be changed for it */
    struct why_fix fix;
};

/* Add the objects: first the nodes, then the pods, then the Devices. A pod counts on the node that
 * it is bound to, until it has ended. */
void why_add_node(struct why *y, const struct pod_wish *wish, const json_t *node);
void why_add_pod(struct why *y, const json_t *pod);
/* spec NULL: it cannot be read. */
void why_add_device(struct why *y, const char *node, const struct device_status *st,
                    const struct device_spec *spec);
/* True when a node that the pod may have has enough of it. */
bool why_has_room(const struct why *y);
/* Appends the reasons for a person. */
void why_text(const struct why *y, const struct screen *s, struct sb *ret);
/* The same as a document. New reference. */
json_t *why_json(const struct why *y);
void why_done(struct why *y);
AUTO_DEFINE(why, struct why, why_done)
#define auto_why AUTO(why)
