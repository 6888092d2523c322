/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/device.h"
#include "partition/enforcement.h"

/*
 * Under which name a device is offered and into how many replicas or shares: one decision for
 * the kubelet's list, the status and the labels. For a card that a source governs, the Device
 * decides; for the others, the node's configuration of NVIDIA's device plugin. Sharing
 * is no mode of a card (nodeagent/mode): whole cards and partitions alike can be shared. Pure.
 */

struct plugin_config;

enum sharing_kind { SHARING_NONE, SHARING_TIME_SLICING, SHARING_MPS, SHARING_FRACTIONAL };

/* How one device is shared. */
struct sharing {
    enum sharing_kind kind;
    int64_t replicas; /* 1: not shared, or given out in shares */
    bool renamed;     /* offered under the name with ".shared" appended */
    bool one_only;    /* a container gets at most one replica */
    int64_t shares;   /* SHARING_FRACTIONAL: the most at a time; else 0 */
};

/* The strategy asked for (enum api_mig_strategy): the configuration's where it sets one and no
 * source governs the spec, else the spec's. Both may be NULL. */
int sharing_strategy(const struct plugin_config *config, const struct device_spec *spec);

/* What the node's agent is there to do. */
struct sharing_means {
    enum api_publisher publisher; /* who publishes the resources */
    struct enforcement_means enforcement;
};

/* Why a card of this vendor cannot be shared as wanted, with the remedy, and in *ret_reason (NULL:
 * not wanted) the reason of the condition; NULL: it can. want may be NULL. Both are static. */
const char *sharing_refusal(const char *vendor, const struct device_want *want,
                            const struct sharing_means *means, const char **ret_reason);

struct sharing_rules {
    const struct plugin_config *config; /* NULL: there is none */
    int strategy;                       /* enum api_mig_strategy: decides the names */
    struct sharing_means means;
};

/* The sharing of a partition of this profile, or (profile NULL) of a whole card, of this vendor:
 * SHARING_NONE where sharing_refusal gives a reason, and for a partition of a card that is to be
 * given out in shares. want: the card's; NULL: none. */
struct sharing sharing_of(const struct sharing_rules *r, const char *vendor,
                          const struct device_want *want, const char *profile);

/* How often the device is given out at a time: its shares, or its replicas. */
int64_t sharing_times(const struct sharing *s);
