/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "kubectl/node_fix.h"
#include "nodeagent/slots/slot_wish.h"

/*
 * The slices that a pod asks for with its slots (docs/metax.md): whether the cards of a node have
 * room for all of them, by the agent's own choice of cards (nodeagent/slots/slot_place.h), and
 * which cards would have to make slices for pods so that they have. Pure.
 */

struct slot_ask {
    struct slot_wish *wishes; /* of each slot, in the order of the pod's containers */
    size_t n;
    char *words;   /* for a person: "main 4096 MiB, 10 % of compute" */
    char *invalid; /* why what the pod says cannot be meant; NULL: it can, and the rest is set */
};

/* Reads the slots of a pod, without its init containers, as the kubelet's list has none. n 0: the
 * pod asks for no slot. *ret is overwritten. */
void slot_ask_read(const json_t *pod, struct slot_ask *ret);
void slot_ask_done(struct slot_ask *a);

/* Why the cards of this node have no room for the slices, for a person; NULL: they have. spec NULL:
 * it cannot be read. Caller frees. */
char *slot_ask_misfit(const struct slot_ask *a, const struct device_status *st,
                      const struct device_spec *spec);
/* As node_fix_find, for cards that make slices for pods. more: slots that the kubelet of the node
 * has to offer besides. */
bool slot_ask_fix(const struct slot_ask *a, const struct device_status *st,
                  const struct device_spec *spec, int64_t more, struct fix_effort *effort,
                  struct node_fix *ret);
