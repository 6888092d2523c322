/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubectl/layout_fix.h"

/*
 * The smallest change of the cards of one node that gives a pod so many more of one resource there.
 * Pure.
 */

/* The most of a resource that are looked for. */
#define NODE_FIX_MAX 128

struct card_fix {
    char *card, *uuid;
    char *source;  /* of the card's present want; NULL: none */
    bool by_label; /* the source is the node's label, and no profile */
    struct layout_fix layout;
};

struct node_fix {
    struct fix_cost cost;
    struct card_fix *cards;
    size_t n;
};

/* True for a resource of which a change of layout can give more: partitions, slices of a
 * layout, and whole cards. */
bool node_fix_can_give(const char *resource);
/* Finds the change. spec NULL: it cannot be read. more: 1 to NODE_FIX_MAX. False: no change that
 * can be made now, and touches nothing in use, gives them, or none that costs less than
 * effort->most. *ret is set where true is returned, and may cost more. */
bool node_fix_find(const struct device_status *st, const struct device_spec *spec,
                   const char *resource, unsigned more, struct fix_effort *effort,
                   struct node_fix *ret);
/* Appends a card's change. want: the card's present one, or NULL. */
void node_fix_add(struct node_fix *f, const struct device_card *card,
                  const struct device_want *want, const struct layout_fix *layout_take);
void node_fix_done(struct node_fix *f);
