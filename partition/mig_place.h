/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"
#include "partition/mig_effort.h"

/*
 * What one card can hold at once: its limits, and where on the grid things can go. Internal to
 * partition/. Legality is closed downwards: what is legal stays legal when something is removed,
 * which is why any order of creation works and why searches may cut at the first violation.
 */

enum mig_engine { MIG_COPY, MIG_DECODER, MIG_ENCODER, MIG_JPEG, MIG_OFA, MIG_N_ENGINES };

/* GPU instances by profile. */
struct mig_counts {
    unsigned of[MIG_MAX_PROFILES];
};

/* What a table says in other words; immutable once made. */
struct mig_limits {
    /* Of the whole card; UINT32_MAX where the table contradicts itself about a kind, because then
     * drivers and documents disagree and the driver will judge. */
    unsigned engines[MIG_N_ENGINES];
    uint32_t me, me_all, no_me; /* bit p: profile p has the attribute +me, +me.all, -me */
    unsigned n_spots;
    struct mig_spot {
        uint32_t slots;
        unsigned slices;
    } spots[MIG_MAX_PROFILES * MIG_MAX_PLACEMENTS]; /* where something could go; each once */
};

enum mig_limit {
    MIG_LIMIT_NONE,      /* all is well */
    MIG_LIMIT_SLOTS,     /* more memory slots than the card has */
    MIG_LIMIT_SLICES,    /* more compute slices */
    MIG_LIMIT_MAX_COUNT, /* a profile more often than the driver allows */
    MIG_LIMIT_ME_ALL,    /* +me.all beside something that is not -me */
    MIG_LIMIT_ME,        /* more than one +me */
    MIG_LIMIT_ENGINES,   /* more media or copy engines */
    MIG_LIMIT_INSTANCES, /* more than MIG_MAX_INSTANCES */
};

struct mig_breach {
    enum mig_limit limit;
    uint64_t needs;
    unsigned has;
    unsigned profile;       /* MAX_COUNT */
    enum mig_engine engine; /* ENGINES */
};

/* Where each new GPU instance goes, largest first; profile and start are set. */
struct mig_layout {
    unsigned n;
    struct mig_new items[MIG_MAX_INSTANCES];
    unsigned flexibility; /* slots of all spots that stay free, each spot for itself */
    unsigned run;         /* longest run of free slots */
};

void mig_limits_init(const struct mig_table *t, struct mig_limits *ret);

/* The first limit that these instances together exceed, wherever they stand. */
struct mig_breach mig_limits_check(const struct mig_table *t, const struct mig_limits *l,
                                   const struct mig_counts *all);

/* The slots of a placement as bits; what lies beyond the 32 possible slots is cut off. */
uint32_t mig_slots(unsigned start, unsigned size);

/* Is there room on the slots that are not taken? Only for needs within the limits. */
bool mig_fits(const struct mig_table *t, uint32_t taken, const struct mig_counts *need,
              struct mig_effort *effort);

/* Of all ways to place them, one that leaves most flexibility, then the longest free run, then the
 * lowest starts. False when there is none; *ret is then unchanged. Only for needs within the
 * limits. */
bool mig_place(const struct mig_table *t, const struct mig_limits *l, uint32_t taken,
               const struct mig_counts *need, struct mig_effort *effort, struct mig_layout *ret);
