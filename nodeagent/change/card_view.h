/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/change/card_offer.h"
#include "nodeagent/change/card_plan.h"
#include "nodeagent/gpu/consumers.h"
#include "nodeagent/gpu/gpu.h"
#include "partition/resolve.h"

/*
 * A card as the newest reading shows it, and its translations: for the resolver, for the API, for a
 * person. Pure.
 */

/* A card with the pods of its processes: pods[i] belongs to card.users[i]. */
struct card_view {
    struct gpu_card card;
    struct consumer *pods; /* owned; NULL when there are no processes */
    bool unwatched;        /* its driver reports no events */
    bool unreadable;       /* the last reading of all could not read it; what is shown is older */
    bool outdated; /* changed since it was read: its offer is known only after the next reading */
    bool slices_unread;   /* slices were made or removed, and the card could not be read back */
    bool held_by_reading; /* an earlier reading still has it in hand, says the last one */
    bool hangs; /* a call about it does not return: what is shown is older, and nothing is made on
                      it */
};
void card_view_done(struct card_view *v);

/* True where slices of the card (in mode GPU_SGPU) are made for pods. want: the card's want; NULL:
 * none. */
bool card_makes_slices(const struct gpu_card *card, const struct device_want *want);

/* The resolver's view of a reading. Borrows from the card; *counts (freed by the caller) holds the
 * partitions. */
void card_resolve_view(const struct gpu_card *card, struct resolve_card *ret,
                       struct profile_count **counts);
/* The same, with only the partitions that are healthy and on offer. A whole card that is not on
 * offer counts as not healthy. A card with no partition on offer is marked `none_offered`. Cards
 * marked so or not healthy do not count when the names of resources are chosen. */
void card_resolve_offered(const struct gpu_card *card, const struct card_offer *offer,
                          struct resolve_card *ret, struct profile_count **counts);
void card_resolve_counts_free(struct profile_count *counts, size_t n);

/* The card's layout for a person: "2x1g.10gb 1x3g.40gb", "whole", "nothing cut", "slices made for
 * pods". Caller frees. */
char *card_layout_words(const struct gpu_card *card);

/* Translates a Device's want into a wish for this card. ERR_NOT_FOUND, ERR_INVALID: as
 * mig_resolve. */
int card_wish_of(const struct gpu_card *card, const struct device_want *want, struct card_wish *ret,
                 struct err *e) MUST_CHECK;
