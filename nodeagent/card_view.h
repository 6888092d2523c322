/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "nodeagent/card_offer.h"
#include "nodeagent/card_plan.h"
#include "nodeagent/consumers.h"
#include "nodeagent/gpu/gpu.h"
#include "partition/resolve.h"

/*
 * A card as the newest reading shows it, and the words in which others speak of it: the resolver's,
 * the API's, a person's. Pure.
 */

/* A card with the pods of its processes: pods[i] belongs to card.processes[i]. */
struct card_view {
    struct gpu_card card;
    struct consumer *pods; /* owned; NULL when there are no processes */
    bool unwatched;        /* its driver does not report events */
    bool outdated; /* changed since it was read: what it offers is known with the next reading */
};
void card_view_done(struct card_view *v);

/* enum api_mode. */
int card_api_mode(enum gpu_mode mode);

/* Slices of the card in mode GPU_SGPU are made for pods. want: what the spec wants of the card;
 * NULL: nothing. */
bool card_makes_slices(const struct gpu_card *card, const struct device_want *want);

/* The resolver's view of a reading. Borrows from the card; *counts (freed by the caller) holds the
 * partitions. */
void card_resolve_view(const struct gpu_card *card, struct resolve_card *ret,
                       struct profile_count **counts);
/* The same with those partitions alone that are healthy and on offer. A whole card that is not on
 * offer is not healthy, and a card none of whose partitions is on offer is `withheld`: neither has
 * a say in what resources are called. */
void card_resolve_offered(const struct gpu_card *card, const struct card_offer *offer,
                          struct resolve_card *ret, struct profile_count **counts);
void card_resolve_counts_free(struct profile_count *counts, size_t n);

/* The layout of the card, for a person: "2x1g.10gb 1x3g.40gb", "whole", "nothing cut", "slices made
 * for pods". Caller frees. */
char *card_layout_words(const struct gpu_card *card);

/* The wish that a Device's entry means on this card. ERR_NOT_FOUND, ERR_INVALID as mig_resolve. */
int card_wish_of(const struct gpu_card *card, const struct device_want *want, struct card_wish *ret,
                 struct err *e) MUST_CHECK;
