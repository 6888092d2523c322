/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/known_names.h"
#include "kubectl/node_fix.h"
#include "kubectl/pod_wish.h"
#include "kubectl/screen.h"
#include "kubectl/slot_ask.h"

/*
 * The reasons why a pod gets none of one resource: of each node what it offers, what other pods
 * have of that, and what keeps the pod away. Filled object by object as the cluster is read. Pure.
 */

struct why_node {
    char *name, *refusal; /* refusal NULL: the pod may have it */
    char *misfit;         /* why its cards lack room for the pod's slices; NULL: they do not */
    bool has_cards;
    int64_t offered, taken;
    char **holders; /* "namespace/name" of pods that have some of it */
    size_t n_holders;
};

struct why {
    const char *resource; /* borrowed */
    int64_t count;
    const struct slot_ask *slots;    /* borrowed; NULL: the resource's number says all */
    const struct known_names *known; /* borrowed */
    struct why_node *nodes;
    size_t n_nodes;
    size_t n_tried; /* cards whose layout could be changed for it */
    char *fix_node; /* the node whose change costs least; NULL: there is none */
    struct node_fix fix;
    json_t
        *config; /* the MIGConfig that the label has to name for the fix (label_fix.h); or NULL */
    struct fix_effort effort;
};

/* Borrows all. slots: what the pod says of its slices; used where the resource is their slots.
 * known: filled when all was added. */
void why_init(struct why *y, const char *resource, int64_t count, const struct slot_ask *slots,
              const struct known_names *known);

/* Add the objects: first the nodes, then the pods, then the Devices. */
/* refusal: as in why_node. */
void why_add_node(struct why *y, const json_t *node, const char *refusal);
/* wish: the pod's. It counts on the node that the pod is bound to, until the pod has ended. */
void why_add_pod(struct why *y, const json_t *pod, const struct pod_wish *wish);
/* spec NULL: it cannot be read. */
void why_add_device(struct why *y, const char *node, const struct device_status *st,
                    const struct device_spec *spec);
/* True when the node has enough of the resource free. */
bool why_node_has_room(const struct why *y, const struct why_node *n);
/* True when a node that the pod may have has enough of it free. */
bool why_has_room(const struct why *y);
/* How many nodes with cards the pod may not have. */
size_t why_left_out(const struct why *y);
/* Why nothing here would be of this name, were all cards free; NULL: something is, or may be. Caller
 * frees. */
char *why_unknown(const struct why *y);
/* Appends the reasons for a person. */
void why_text(const struct why *y, const struct screen *s, struct sb *ret);
/* The same as a document. New reference. */
json_t *why_json(const struct why *y);
void why_done(struct why *y);
AUTO_DEFINE(why, struct why, why_done)
#define auto_why AUTO(why)
