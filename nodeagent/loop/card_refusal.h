/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/change/card_view.h"
#include "nodeagent/offer/sharing.h"

/* Why nothing is attempted for a want now: the card is missing, not read or ill, or the want cannot
 * be carried out on it. The reason and the text of a condition (docs/api.md). Pure. */
struct card_refusal {
    const char *reason; /* static; NULL: it is not refused */
    char text[384];
};

/* Decides whether a want is refused, and translates it into a wish if it is not. A card that was
 * never read, or could not be read by the last reading of all, is refused until a reading shows it:
 * its plan would differ from what the job finds. v NULL: the node has no such card. illness: one
 * that the card's reading does not show; NULL: none. */
void card_refusal_of(const struct card_view *v, const struct device_want *want, const char *illness,
                     const struct sharing_means *means, struct card_wish *ret_wish,
                     struct card_refusal *ret);
