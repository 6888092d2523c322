/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/slot_wish.h"

/*
 * Where a slice for a pod is made: pure policy.
 */

/* A card on which slices are made for pods. */
struct slot_card {
    const struct gpu_card *card; /* borrowed */
    int qos;                     /* that its profile asks for (enum api_qos_policy); -1: none */
    bool open;                   /* may get new slices: well, and not about to change */
};

struct slot_place {
    const struct gpu_card *card; /* borrowed */
    struct sgpu_quota quota;
    int qos; /* to be set first, on a card without slices; -1: as it is */
};

/* The card that the wish names, or else the one that has least left afterwards, so that large
 * slices stay possible; the first of several. An idle card takes the policy that the pod asks for,
 * unless its profile has one. A slice of this slot that stands already is not counted: it is made
 * again. ERR_UNAVAILABLE: there is room later, says the message; ERR_INVALID: never as things
 * stand. */
int slot_place(const struct slot_card *cards, size_t n, unsigned slot, const struct slot_wish *w,
               struct slot_place *ret, struct err *e) MUST_CHECK;
