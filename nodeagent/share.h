/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/device.h"

/*
 * Under which names devices are offered and how often each is given out: one decision for the
 * kubelet's list, the status and the labels. The Device decides over every card that a source
 * governs; over the others decides what the node has of a configuration of NVIDIA's device plugin.
 * Pure.
 */

struct plugin_config;

enum share_kind { SHARE_NONE, SHARE_TIME_SLICING, SHARE_MPS };

/* How one device is shared. */
struct share {
    enum share_kind kind;
    int64_t replicas; /* 1: not shared */
    bool renamed;     /* offered under a name of its own, "….shared" */
    bool one_only;    /* a container may have one replica at most */
};

/* The strategy that is asked for (enum api_mig_strategy): the spec's where it has a source, else
 * the configuration's where it says one, else the spec's. Both may be NULL. */
int share_strategy(const struct plugin_config *config, const struct device_spec *spec);

/* Why a card of this vendor cannot be shared as it is wanted, with what helps; NULL: it can. want
 * may be NULL, publisher is who offers it (enum api_publisher). Static. */
const char *share_refusal(const char *vendor, const struct device_want *want, int publisher);

struct share_rules {
    const struct plugin_config *config; /* NULL: there is none */
    int strategy;                       /* enum api_mig_strategy: by which names go */
    int publisher;                      /* enum api_publisher */
};

/* How a partition of this profile, or with profile NULL a whole card, of this vendor is shared: not
 * at all where share_refusal says why. want: what the Device says of the card; NULL: nothing. */
struct share share_of(const struct share_rules *r, const char *vendor,
                      const struct device_want *want, const char *profile);
