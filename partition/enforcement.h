/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/*
 * What holds containers to their shares of a card. Nothing does yet. A want that asks for it is
 * refused, so that no card is shared anew in the belief that there are limits.
 */

#define ENFORCEMENT_UNAVAILABLE "EnforcementUnavailable"

/* Why shares cannot be held to what the terms ask for, with the remedy; NULL: they can, since the
 * terms ask for nothing. Static. Pure. */
const char *enforcement_missing(const struct device_fractional *terms);
/* True when the want gives the card out in shares, by terms that can be kept. want may be NULL. Pure. */
bool enforcement_gives_shares(const struct device_want *want);
