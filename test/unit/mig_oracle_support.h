/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/*
 * A second opinion on the planner that shares no code and no idea with it: every set of placements
 * of a model is written down once, and questions are answered by looking through all of them.
 */

/* A placement of a profile, and a set of such. */
struct mig_oracle_spot {
    unsigned profile, start;
};
#define MIG_ORACLE_SPOTS 32

struct mig_oracle {
    const struct mig_table *table;
    unsigned n_spots;
    struct mig_oracle_spot spots[MIG_ORACLE_SPOTS];
    size_t n_sets;
    struct mig_oracle_set {
        uint64_t counts; /* four bits for each profile */
        uint32_t spots;  /* bit i: spots[i] */
    } * sets;            /* owned; every legal set, ascending by counts */
};

/* Writes down all sets of a model. Caller calls mig_oracle_done. */
void mig_oracle_init(struct mig_oracle *o, const struct mig_table *t);
void mig_oracle_done(struct mig_oracle *o);

/* The legal sets with exactly these counts. Borrowed; *ret_n 0 when there is none. */
const struct mig_oracle_set *mig_oracle_find(const struct mig_oracle *o, uint64_t counts,
                                             size_t *ret_n);

/* Steps to the next multiset, each profile from 0 to its max_count; false after the last. */
bool mig_oracle_next(const struct mig_table *t, uint64_t *counts);

/* The same multiset as wants. */
void mig_oracle_wants(const struct mig_table *t, uint64_t counts, struct mig_wants *ret);

/* A state of these spots, each instance one compute instance that fills it; in_use picks some. */
void mig_oracle_state(const struct mig_oracle *o, uint32_t spots, uint32_t in_use,
                      struct mig_state *ret);
