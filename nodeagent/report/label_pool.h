/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/offer/host_facts.h"
#include "nodeagent/offer/sharing.h"

/*
 * The devices of one resource, as its labels describe them: all cards of a vendor, or all
 * partitions of a profile. Pure; borrows the cards.
 */

/* A card and its want. Borrowed. */
struct gpu_labels_card {
    const struct gpu_card *card;    /* left out when it was never read */
    const struct device_want *want; /* NULL: nothing */
};

struct gpu_labels_input {
    const struct gpu_labels_card *cards; /* by index */
    size_t n_cards;
    const struct gpu_driver *
        drivers; /* the drivers of the cards' vendors; a vendor without one gets no driver labels */
    size_t n_drivers;
    int mig_strategy; /* enum api_mig_strategy: the one asked for */
    /* The strategy by which partitions are offered (resource_strategy): mixed where single was
     * asked for and does not fit. */
    int strategy_in_force;
    const struct plugin_config *config; /* as sharing_of takes it */
    struct sharing_means means;
    const struct host_facts *host; /* NULL: not read */
};

/* One device: a whole card (no part), or a partition of it. */
struct label_device {
    const struct gpu_labels_card *of;
    const struct gpu_partition *part;
    struct sharing sharing;
    char profile[MIG_NAME_BYTES]; /* in a label's spelling; "" for a whole card */
};

/* The owner frees `members`. */
struct label_pool {
    struct label_device *members;
    size_t n;
};

/* The cards that could be read, of this vendor or (NULL) of all. */
struct label_pool label_pool_of_cards(const struct gpu_labels_input *in, const char *vendor);
/* How a card's devices of a profile (NULL: the whole card) are shared. */
struct sharing label_sharing_in(const struct gpu_labels_input *in, const struct gpu_labels_card *c,
                                const char *profile);

const char *label_device_model(const struct label_device *m);
/* Number of the devices of this model. */
size_t label_pool_count(const struct label_pool *p, const char *model);
/* The device that the resource's labels describe: the first one of the model with most devices;
 * ties: of the first model by name. NULL: there is none. */
const struct label_device *label_pool_speaker(const struct label_pool *p);
/* The sharing of the device that is given out least often, which the label gives. Without devices:
 * 0 replicas. */
struct sharing label_pool_least_shared(const struct label_pool *p);
