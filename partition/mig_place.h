/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"
#include "partition/mig_effort.h"

/*
 * The limits of one card, and where on its grid instances can be placed. Internal to partition/.
 * Legality is closed downwards: a legal set stays legal when an instance is removed. That is why
 * any order of creation works, and why searches may stop at the first violation.
 */

enum mig_engine { MIG_COPY, MIG_DECODER, MIG_ENCODER, MIG_JPEG, MIG_OFA, MIG_N_ENGINES };

/* GPU instances by profile. */
struct mig_counts {
    unsigned of[MIG_MAX_PROFILES];
};

/* Values derived from a table; immutable. */
struct mig_limits {
    /* Engines of the whole card. UINT32_MAX where the table contradicts itself about a kind: then
     * drivers and documents disagree, and the driver decides. */
    unsigned engines[MIG_N_ENGINES];
    uint32_t me, me_all, no_me; /* bit p: profile p has +me, +me.all, -me */
    unsigned n_spots;
    struct mig_spot {
        uint32_t memory_slices;
        unsigned slices;
    } spots[MIG_MAX_PROFILES * MIG_MAX_PLACEMENTS]; /* where something could be placed; each once */
};

enum mig_limit {
    MIG_LIMIT_NONE,          /* within all limits */
    MIG_LIMIT_MEMORY_SLICES, /* more memory slices than the card has */
    MIG_LIMIT_SLICES,        /* more compute slices */
    MIG_LIMIT_MAX_COUNT,     /* more instances of a profile than the driver allows */
    MIG_LIMIT_ME_ALL,        /* +me.all beside a profile that is not -me */
    MIG_LIMIT_ME,            /* more than one +me */
    MIG_LIMIT_ENGINES,       /* more media or copy engines */
    MIG_LIMIT_INSTANCES,     /* more than MIG_MAX_INSTANCES */
};

struct mig_breach {
    enum mig_limit limit;
    uint64_t needs;
    unsigned has;
    unsigned profile;       /* for MAX_COUNT */
    enum mig_engine engine; /* for ENGINES */
};

/* The placement of each new GPU instance, largest first; profile and start are set. */
struct mig_layout {
    unsigned n;
    struct mig_new items[MIG_MAX_INSTANCES];
    unsigned flexibility; /* sum of the sizes of all spots that stay free */
    unsigned run;         /* longest run of free memory slices */
};

void mig_limits_init(const struct mig_table *t, struct mig_limits *ret);

/* The first limit that these instances exceed, regardless of placement. */
struct mig_breach mig_limits_check(const struct mig_table *t, const struct mig_limits *l,
                                   const struct mig_counts *all);

/* The memory slices of a placement as bits; those beyond 32 are dropped. */
uint32_t mig_memory_slices(unsigned start, unsigned size);

/* True when `need` fits on the memory slices that are not taken. need must be within the limits. */
bool mig_fits(const struct mig_table *t, uint32_t taken, const struct mig_counts *need,
              struct mig_effort *effort);

/* Places `need`, leaving most flexibility, then the longest free run, then with the lowest starts.
 * False when it does not fit; *ret is then unchanged. need must be within the limits. */
bool mig_place(const struct mig_table *t, const struct mig_limits *l, uint32_t taken,
               const struct mig_counts *need, struct mig_effort *effort, struct mig_layout *ret);
