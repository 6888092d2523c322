/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#include "api/mig_limits.h"
#include "partition/mig_name.h"

/*
 * The exact MIG planner: pure, no I/O, no clock. All structs are plain values of fixed size.
 * mig_plan decides which instances stay, go and are made (mig_plan.c), and mig_place.c where: the
 * layout. The driver's calls on the way there are planned after it (nodeagent/change/card_plan.h).
 * The tables are checked by mig_check.c, names resolved by mig_resolve.c.
 *
 * A card is a grid of memory slices (4, 8 or 12 so far, as the driver reports). Each GPU instance
 * covers the memory slices of one of its profile's possible placements. Placements never overlap,
 * and compute slices and media engines never exceed the card's. Bounds of all sizes:
 * api/mig_limits.h. Facts: NVIDIA MIG user guide, nvml.h.
 */

struct mig_engines {
    unsigned copy, decoder, encoder, jpeg, ofa;
};

struct mig_profile {
    char name[MIG_NAME_BYTES]; /* canonical, the driver's own GB: "1g.10gb+me" */
    unsigned id;               /* the driver's profile id, for creation (19, not the enum) */
    unsigned slices;           /* compute slices (G) */
    unsigned size;             /* memory slices */
    unsigned max_count;        /* instances of this profile on an empty card */
    unsigned multiprocessors;
    uint64_t memory_mib;
    struct mig_engines engines;
    unsigned n_starts;
    uint8_t starts[MIG_MAX_PLACEMENTS]; /* possible first memory slices, ascending */
};

/* The profiles of one card model with its driver. A table made from outside data must pass
 * mig_table_check. */
struct mig_table {
    unsigned memory_slices; /* memory slices of the grid */
    unsigned slices;        /* compute slices of the whole card */
    unsigned n_profiles;
    struct mig_profile profiles[MIG_MAX_PROFILES];
};

/* One kind of partition that is wanted, resolved against a table. */
struct mig_want {
    unsigned profile; /* index into the table */
    /* Compute slices of each compute instance; 0: one that fills the GPU instance. */
    unsigned ci_slices;
    unsigned count; /* number of partitions (MIG devices) */
};

struct mig_wants {
    unsigned n;
    struct mig_want items[MIG_MAX_WANTS];
};

/* An existing GPU instance with its compute instances. */
struct mig_ci {
    unsigned id;
    unsigned slices;
    bool in_use;
};

#define MIG_NO_PROFILE UINT32_MAX
struct mig_instance {
    unsigned profile; /* index into the table; MIG_NO_PROFILE: not in the table */
    unsigned gi_id;   /* the driver's id */
    unsigned start, size;
    bool in_use; /* it, or any of its compute instances */
    unsigned n_cis;
    struct mig_ci cis[MIG_MAX_CIS];
};

struct mig_state {
    unsigned n;
    struct mig_instance items[MIG_MAX_INSTANCES];
};

/* A GPU instance to create. cis holds the compute slices of each of its compute instances, largest
 * first. */
struct mig_new {
    unsigned profile, start;
    unsigned n_cis;
    unsigned cis[MIG_MAX_CIS];
};

/* An existing GPU instance that stays while its compute instances change. */
struct mig_recut {
    unsigned instance; /* index into the state */
    uint32_t destroy;  /* bit i: destroy compute instance cis[i] */
    unsigned n_create;
    unsigned create[MIG_MAX_CIS]; /* compute slices of each */
};

/* Steps of a search, of some 2 ns each: no question about a real card that the tests ask takes more
 * (mig_plan_test; `planner_bench` shows its own). */
#define MIG_WORST_STEPS 125000

enum mig_verdict {
    MIG_PLAN_NOTHING, /* the card is as wanted */
    MIG_PLAN_CHANGE,  /* can be done now; nothing in use is touched */
    /* Possible once the instances in `blocking` are free; nothing may be changed before. */
    MIG_PLAN_DRAIN,
    MIG_PLAN_INFEASIBLE, /* impossible on this card, even empty; `nearest` and `reason` say more */
};

struct mig_plan {
    enum mig_verdict verdict;
    uint32_t keep, destroy,
        blocking; /* bit i: state item i. blocking ⊆ destroy, or the instance of a recut */
    unsigned n_create;
    struct mig_new create[MIG_MAX_INSTANCES]; /* in the order of creation */
    unsigned n_recut;
    struct mig_recut recut[MIG_MAX_INSTANCES];
    unsigned steps;           /* of the search (MIG_WORST_STEPS) */
    bool undecided;           /* INFEASIBLE: not proven, the search takes too many steps */
    struct mig_wants nearest; /* INFEASIBLE: the nearest layout that is feasible */
    char reason[256];         /* INFEASIBLE: the cause, for a person */
};

/* A profile name and a count, as users write them. */
struct mig_request {
    const char *profile;
    unsigned count;
};

/* Checks that the table is consistent and within the planner's bounds: at most MIG_MAX_SLICES
 * compute slices on MIG_MAX_MEMORY_SLICES memory slices, placements on the grid and ascending,
 * names and ids unique. A profile without placements may have size 0. Only the used parts of the
 * arrays are read. ERR_INVALID names the profile, the value and what is allowed. */
int mig_table_check(const struct mig_table *t, struct err *e) MUST_CHECK;

/* Resolves profile names tolerantly.
 * - A name takes the profile closest in GB among those of the same slices and attributes, if it is
 *   within a sixteenth, or within 1 GB and an eighth: 1g.24gb takes 1g.23gb, and 1g.5gb nothing on
 *   a card whose smallest is 1g.10gb.
 * - A 1g name that is published only for profiles of twice the memory never takes one of the
 *   smallest share, nor the reverse: 1g.20gb finds nothing on an H200 (1g.18gb, 1g.35gb).
 * - Zero counts are dropped, and two spellings of one kind are added up. mig_rounds reports whether
 *   a name was rounded.
 *
 * ERR_NOT_FOUND names the profile and lists what the card offers. ERR_INVALID for malformed names,
 * also with count zero. ERR_TOO_LARGE for more than MIG_MAX_WANTS kinds. */
int mig_resolve(const struct mig_table *t, const struct mig_request *requests, size_t n,
                struct mig_wants *ret, struct err *e) MUST_CHECK;

/* True when the name (in either spelling) resolves to a profile of another GB. ret holds
 * MIG_NAME_BYTES: the name of that profile. */
bool mig_rounds(const struct mig_table *t, const char *name, char *ret);

/* Plans the smallest change from `now` to `wants`; no change when the state matches already.
 * Minimizes, in this order: instances in use that are lost (any: verdict DRAIN), GPU instances at
 * the end, GPU instances destroyed; then maximizes compute instances retained, partitions that can
 * still be placed afterwards, and the longest free run. Deterministic.
 *
 * Total: every input gets a verdict, also a state whose instances overlap or lie off the grid.
 * Bounded in time: sixteen times what the worst question about a real card takes, then INFEASIBLE
 * and undecided. When an instance in use has no compute instance marked as in use, all of it counts
 * as in use. */
void mig_plan(const struct mig_table *t, const struct mig_state *now, const struct mig_wants *wants,
              struct mig_plan *ret);

/* The same without `nearest`, and without `reason` unless undecided, for a caller that asks many
 * questions: to find these two takes longer than the search. */
void mig_plan_unexplained(const struct mig_table *t, const struct mig_state *now,
                          const struct mig_wants *wants, struct mig_plan *ret);

/* True when this multiset fits an empty card. False also when the search takes too many steps. */
bool mig_feasible(const struct mig_table *t, const struct mig_wants *wants);

/* True when the state has exactly these wants; placements do not matter. */
bool mig_matches(const struct mig_table *t, const struct mig_state *now,
                 const struct mig_wants *wants);

/* Built-in layouts: all-disabled, all-enabled, all-<profile with '+' as '.'>, all-balanced (rule:
 * mig-parted pkg/mig/builder). *ret_enabled: whether MIG mode is on. ERR_NOT_FOUND when the table
 * has no built-in of this name. t may be NULL for a card without MIG: then all-disabled works, and
 * all others are ERR_NOT_FOUND. */
int mig_named_layout(const struct mig_table *t, const char *name, bool *ret_enabled,
                     struct mig_wants *ret, struct err *e) MUST_CHECK;

/* Number of c-slice compute instances that fit a GPU instance of g slices. 0 when that size is not
 * offered (NVIDIA's MIG User Guide; the driver lists sizes only once the instance exists), or when more than
 * MIG_MAX_CIS would fit. */
unsigned mig_ci_max(unsigned g, unsigned c);

/* "1g.10gb x2, 3g.40gb x1"; "nothing" when empty. Caller frees. */
char *mig_wants_text(const struct mig_table *t, const struct mig_wants *wants);
/* The partition's name for a compute instance of c slices in this profile ("1c.3g.40gb"). buf:
 * MIG_NAME_BYTES. */
char *mig_partition_name(const struct mig_profile *p, unsigned ci_slices, char *buf);
