/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * Chooses whole cards for one container among those available. Pure. A card is its index in the
 * inventory; a set of cards is a word with bit i for index i.
 *
 * The best set; each rule decides where the ones before it tie:
 *  1. the largest sum of the scores of its pairs;
 *  2. the most pairs on one NUMA node: all cards on one node where possible;
 *  3. the largest sum of the scores of the pairs that remain available, so that the next container,
 *     with any number of cards, finds the best rest. A badly connected card is therefore given out
 *     before one of a well-connected group. (go-gpuallocator instead takes the best division of all
 *     available cards into groups of the wanted size. That may give this container less than the
 *     best, in favour of later ones that all want the same number.)
 *  4. the lowest indices: of two sets the one with the lowest index in which they differ.
 *
 * Guaranteed: the best set, whatever the scores, while at most CARD_CHOICE_EXACT cards are open to
 * choice (available and not required). Such a search has at most 24,310 steps, usually a few
 * hundred. With more cards it ends after CARD_CHOICE_STEPS with the best set seen, which is at
 * least as good as the greedy set improved by every exchange of one card for another. Cards with
 * equal connections are interchangeable and are not tried twice. The same question always has the
 * same answer.
 */

enum { CARD_CHOICE_EXACT = 16, CARD_CHOICE_STEPS = 1000 };

/* The score of each pair of cards. Immutable once made; 8 KiB. */
struct card_scores {
    uint16_t pair[GPU_MAX_CARDS][GPU_MAX_CARDS]; /* symmetric */
    int16_t numa[GPU_MAX_CARDS];                 /* -1: unknown */
};

struct card_question {
    const struct card_scores *scores;
    uint64_t available;
    uint64_t required; /* part of every answer; they must be available */
    unsigned size;     /* cards wanted, with the required ones */
};

/* The scores of NVIDIA's go-gpuallocator: 10 for a path between NUMA nodes, 20 within one, 30 below
 * a host bridge, 40 below several switches, 50 below one, 60 on one board; and 100 for each NVLink.
 * Where the path is not known, the NUMA nodes decide between 10 and 20. numa_nodes: by card index,
 * n_cards of the topology, -1 unknown. */
void card_scores_init(struct card_scores *s, const struct gpu_topology *t, const int *numa_nodes);

/* The preferred set. ERR_INVALID: a required card is not available, more are required than wanted,
 * or more are wanted than available. */
int card_choice(const struct card_question *q, uint64_t *ret, struct err *e) MUST_CHECK;
