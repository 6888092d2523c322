/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"

#include "nodeagent/offer/card_choice.h"
#include "nodeagent/offer/replica_choice.h"

/*
 * Answers the kubelet's GetPreferredAllocation for the devices of one resource name. This module
 * turns names into numbers; card_choice and replica_choice decide. A table is made when the devices
 * change and answers from memory in microseconds (`make bench-preferred`: about 1 for 8 whole
 * cards, 2 to 80 for the 16 cards of existing machines, 3 for 56 partitions). A table is immutable
 * once made.
 */

enum preferred_policy {
    PREFERRED_CARDS,       /* whole cards, each offered once: the best connected */
    PREFERRED_PACKED,      /* replicas and partitions: on as few cards as possible */
    PREFERRED_DISTRIBUTED, /* replicas and partitions: on as many cards as possible */
};

struct preferred_device {
    const char *id;  /* the kubelet's; distinct */
    uint8_t card;    /* index of its card in the inventory */
    uint16_t device; /* number of its card or partition, below n */
};

struct preferred_offer {
    enum preferred_policy policy;
    const struct preferred_device *devices;
    size_t n;
    const struct card_scores *scores; /* only with PREFERRED_CARDS */
};

/* One container's request; every pointer is borrowed for the call. */
struct preferred_request {
    const char *const *available;
    size_t n_available;
    const char *const *required; /* must be included */
    size_t n_required;
    size_t size;               /* devices wanted, with the required ones */
    const uint16_t *elsewhere; /* see struct replica_question; NULL: nothing */
};

struct preferred;

/* Makes a table of an offer, which is copied. Caller frees. */
struct preferred *preferred_new(const struct preferred_offer *o);
struct preferred *preferred_free(struct preferred *p); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(preferred, struct preferred, preferred_free)
#define auto_preferred AUTO_PTR(preferred)

/* The preferred ids: r->size of the pointers in r->available, in the order of the offer. Available
 * ids that are not offered are ignored. ERR_INVALID, with the id where there is one: a required
 * device is not offered or not available, more are required than wanted, or more are wanted than
 * available. */
int preferred_choose(const struct preferred *p, const struct preferred_request *r,
                     const char **ret_ids, struct err *e) MUST_CHECK;
