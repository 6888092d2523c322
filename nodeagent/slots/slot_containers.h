/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/offer/holders.h"

/* The containers that the kubelet's list shows with slots. Pure. */

/* A container and its slots of one pool. Owned: slot_container_done. */
struct slot_container {
    char *ns, *pod, *name;
    enum slot_pool pool;
    unsigned *slots; /* ascending; at least one */
    size_t n_slots;
    bool is_granted_anew; /* one of the slots is: it belongs to a pod that is not listed yet */
};
void slot_container_done(struct slot_container *c);

/* *ret_n of them, one for each pool of a container, in the order of slot_container_order. Caller
 * frees each, and the array; NULL: none. */
struct slot_container *slot_containers_of(const struct holders *h, size_t *ret_n);
/* Orders two struct slot_container by names and pool, for qsort and bsearch; 0: they are of the same
 * container and pool, whatever slots they have. */
int slot_container_order(const void *a, const void *b);
/* True when both are the same container and have the same slots. */
bool slot_container_same(const struct slot_container *a, const struct slot_container *b);
