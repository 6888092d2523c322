/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "partition/mig.h"

/*
 * Which compute instances of a GPU instance may stay when it is cut anew. The planner counts
 * slices; where each piece lies decides whether a larger one still fits beside those that stay:
 * three 1c in a 3g cannot become a 2c and a 1c by giving up the last two. Pure.
 */

/* The compute instances that stand in one GPU instance. */
struct ci_cut {
    unsigned n;
    unsigned slices[MIG_MAX_CIS];
    int starts[MIG_MAX_CIS]; /* first slice; -1: not told */
    bool in_use[MIG_MAX_CIS];
};

/* How it is cut anew: what stays, and what is created where, in this order. */
struct ci_fit {
    uint32_t stay; /* bit i: the standing i */
    unsigned n;
    unsigned slices[MIG_MAX_CIS];
    unsigned starts[MIG_MAX_CIS];
};

/* Keeps the most so that all of wanted[0 … n_wanted) ends up in `room` slices: all in use stay, and
 * the rest is placed around them, largest first. Places are those that GPU
 * instances of the size have on a full card (1c anywhere, 2c at 0, 2, 4, 3c at 0, 4, 4c at 0).
 * False, *ret untouched: no such choice, or the standing places are not told. */
bool ci_fit_choose(unsigned room, const struct ci_cut *now, const unsigned *wanted,
                   unsigned n_wanted, struct ci_fit *ret);
