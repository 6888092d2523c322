/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "nodeagent/gpu/gpu.h"

/*
 * Which whole cards one container should get, of those that are available. Pure; a card is a place
 * in the inventory, a set of cards a word with bit i for place i.
 *
 * The best set, each rule deciding where the ones before it tie:
 *  1. the largest sum of the scores of its pairs;
 *  2. the most pairs on one NUMA node: all on one where that can be;
 *  3. the largest sum of the scores of the pairs that remain available. Who comes next, for any
 *     number of cards, finds the best that is left: a card with poor ties goes before one of a good
 *     group. (go-gpuallocator takes the best way to cut all available cards into groups of the
 *     wanted size instead: that may give this container less than the best, for followers that
 *     all want the same number.);
 *  4. the lowest places: of two sets the one that has the lowest place in which they differ.
 *
 * Guaranteed: the best set while at most CARD_CHOICE_EXACT cards are open to choice (available and
 * not required), whatever the scores: such a search has 24,310 steps at most, a few hundred
 * usually. Beyond, it ends after CARD_CHOICE_STEPS with the best set it has seen, which is at least
 * as good as the greedy one improved by every exchange of one card for another. Cards that are
 * joined alike stand for each other and are not tried twice. The same question always has the same
 * answer.
 */

enum { CARD_CHOICE_EXACT = 16, CARD_CHOICE_STEPS = 1000 };

/* How good each pair is. Immutable once made; 8 KiB. */
struct card_scores {
    uint16_t pair[GPU_MAX_CARDS][GPU_MAX_CARDS]; /* symmetric */
    int16_t numa[GPU_MAX_CARDS];                 /* -1: unknown */
};

struct card_question {
    const struct card_scores *scores;
    uint64_t available;
    uint64_t required; /* of the available ones: in every answer */
    unsigned size;     /* cards wanted, the required ones included */
};

/* The scores of NVIDIA's go-gpuallocator: 10 for a way between NUMA nodes, 20 within one, 30 below
 * a host bridge, 40 below several switches, 50 below one, 60 on one board; and 100 for each NVLink.
 * Where the way is not known, NUMA nodes that are known decide between 10 and 20. numa_nodes: by
 * place, n_cards of the topology, -1 unknown. */
void card_scores_init(struct card_scores *s, const struct gpu_topology *t, const int *numa_nodes);

/* The preferred set. ERR_INVALID: a required card is not available, more are required than wanted,
 * or more are wanted than available. */
int card_choice(const struct card_question *q, uint64_t *ret, struct err *e) MUST_CHECK;
