/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/slots/slot_wish.h"

/*
 * On which card a slice for a pod is made. Pure policy.
 */

/* A card on which slices are made for pods. */
struct slot_card {
    const struct gpu_card *card; /* borrowed */
    int qos;                     /* the policy of its profile (enum api_qos_policy); -1: none */
    bool open;                   /* may get new slices: it is not ill, and no change is about to
                                    begin */
};

struct slot_place {
    const struct gpu_card *card; /* borrowed */
    struct sgpu_quota quota;
    int qos; /* policy to set first, on a card without slices; -1: leave it */
};

/* Chooses for each slot of one container, in their order, the card that its wish names; else the
 * card with the least left afterwards, so that large slices stay possible; else the first of
 * several equal ones. A card without slices takes the policy that the pod asks for, unless its
 * profile has one. An existing slice of a slot is not counted, since it is made again; the room of
 * the slots before it is taken. slots, wishes and ret have n_slots elements; ret is set where 0 is
 * returned. ERR_UNAVAILABLE: there may be room later, as the message says; ERR_INVALID: no card of
 * this node can ever hold it. */
int slot_place(const struct slot_card *cards, size_t n, const unsigned *slots,
               const struct slot_wish *wishes, size_t n_slots, struct slot_place *ret,
               struct err *e) MUST_CHECK;
