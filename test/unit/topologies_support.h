/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/card_choice.h"

/* Machines as people have them, for tests and the bench of what is preferred. */
struct machine {
    const char *name;
    unsigned n; /* cards */
    struct gpu_pair (*pair)(unsigned a, unsigned b);
    int (*numa)(unsigned card);
};

/* Of eight cards, of sixteen; each list ends with a name that is NULL. */
extern const struct machine machines_of_8[], machines_of_16[];
/* Sixty-four cards behind switches, eight to a NUMA node. */
extern const struct machine machine_of_64;

void machine_scores(const struct machine *m, struct card_scores *ret);
/* Scores below `bound` at random, the cards on two NUMA nodes. */
void random_scores(unsigned n, unsigned bound, uint64_t seed, struct card_scores *ret);
