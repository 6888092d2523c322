/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/*
 * What holds containers to their shares of a card. A want that asks for what is not there is refused,
 * so that no card is shared anew in the belief that there are limits. Pure.
 */

#define ENFORCEMENT_UNAVAILABLE "EnforcementUnavailable"

/* What a node has for it. */
struct enforcement_means {
    bool library; /* the limiter, between a container's programs and the driver */
    bool driver;  /* limits of the driver for cgroups */
    bool mps;     /* MPS daemons, of which containers with shares are clients */
    const char
        *driver_lacks; /* why there are none, with the remedy (static); NULL: not known yet */
};
/* Everything that some node may have: for those who do not know the node, whose agent judges then. */
extern const struct enforcement_means enforcement_anywhere;

/* Why shares cannot be held to what the terms ask for, with the remedy; NULL: they can. Static. */
const char *enforcement_missing(const struct device_fractional *terms,
                                const struct enforcement_means *has);
/* True when the want gives the card out in shares, by terms that can be kept. want may be NULL. */
bool enforcement_gives_shares(const struct device_want *want, const struct enforcement_means *has);
/* What new shares by these terms are held to their memory with. The terms are not refused. */
enum api_level enforcement_of_memory(const struct device_fractional *terms,
                                     const struct enforcement_means *has);
/* The same for compute. */
enum api_level enforcement_of_compute(const struct device_fractional *terms,
                                      const struct enforcement_means *has);
/* True when they are parts of MPS, where the node has it. */
bool enforcement_asks_for_mps(const struct device_fractional *terms);
