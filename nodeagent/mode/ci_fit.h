/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "partition/mig.h"

/*
 * Chooses the compute instances of a GPU instance that stay when it is cut anew. The planner counts
 * slices only, but positions decide whether a larger instance fits beside those that stay: three 1c
 * in a 3g cannot become a 2c and a 1c by removing the last two. Pure.
 */

/* The compute instances of one GPU instance. */
struct ci_cut {
    unsigned n;
    unsigned slices[MIG_MAX_CIS];
    int starts[MIG_MAX_CIS]; /* first slice; -1: not reported */
    bool in_use[MIG_MAX_CIS];
};

/* The new cut: which compute instances stay, and which are created at which slice, in this
 * order. */
struct ci_fit {
    uint32_t stay; /* bit i: instance i of ci_cut stays */
    unsigned n;
    unsigned slices[MIG_MAX_CIS];
    unsigned starts[MIG_MAX_CIS];
};

/* Keeps as many instances as possible so that wanted[0 … n_wanted) fits in `room` slices. Every
 * instance in use stays; the new ones are placed around, largest first. The positions are those of
 * GPU instances of that size on a full card (1c anywhere, 2c at 0, 2, 4, 3c at 0, 4, 4c at 0).
 * False, *ret untouched: impossible, or the driver does not report positions. */
bool ci_fit_choose(unsigned room, const struct ci_cut *now, const unsigned *wanted,
                   unsigned n_wanted, struct ci_fit *ret);
