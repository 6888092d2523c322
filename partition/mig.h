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
 *
 * A card is a grid of memory slots (4, 8 or 12 so far; the driver says which). Each GPU instance
 * covers the slots of one of its profile's possible placements; slots never overlap, compute slices
 * and media engines never exceed the card's. How large all that may be: api/mig_limits.h. Facts:
 * NVIDIA MIG user guide, nvml.h.
 */

struct mig_engines {
    unsigned copy, decoder, encoder, jpeg, ofa;
};

struct mig_profile {
    char name[MIG_NAME_BYTES]; /* canonical, the driver's own GB: "1g.10gb+me" */
    unsigned id;               /* the driver's profile id, for creation (19, not the enum) */
    unsigned slices;           /* compute slices (G) */
    unsigned size;             /* memory slots */
    unsigned max_count;        /* of this profile on an empty card */
    unsigned multiprocessors;
    uint64_t memory_mib;
    struct mig_engines engines;
    unsigned n_starts;
    uint8_t starts[MIG_MAX_PLACEMENTS]; /* possible first slots, ascending */
};

/* What one card model (with its driver) can do. Whoever makes one from outside data has it judged
 * by mig_table_check. */
struct mig_table {
    unsigned slots;  /* of the grid */
    unsigned slices; /* compute slices of the whole card */
    unsigned n_profiles;
    struct mig_profile profiles[MIG_MAX_PROFILES];
};

/* One kind of partition that is asked for, resolved against a table. */
struct mig_want {
    unsigned profile;   /* index into the table */
    unsigned ci_slices; /* of each compute instance; 0: one that fills the GPU instance */
    unsigned count;     /* of partitions (MIG devices) */
};

struct mig_wants {
    unsigned n;
    struct mig_want items[MIG_MAX_WANTS];
};

/* A GPU instance that stands. */
struct mig_ci {
    unsigned id;
    unsigned slices;
    bool in_use;
};

#define MIG_NO_PROFILE UINT32_MAX
struct mig_instance {
    unsigned profile; /* index into the table; MIG_NO_PROFILE: one the table does not know */
    unsigned gi_id;   /* the driver's */
    unsigned start, size;
    bool in_use; /* itself or any of its compute instances */
    unsigned n_cis;
    struct mig_ci cis[MIG_MAX_CIS];
};

struct mig_state {
    unsigned n;
    struct mig_instance items[MIG_MAX_INSTANCES];
};

/* A GPU instance to be made. cis holds the slices of each compute instance, largest first. */
struct mig_new {
    unsigned profile, start;
    unsigned n_cis;
    unsigned cis[MIG_MAX_CIS];
};

/* A standing GPU instance that stays while its compute instances change. */
struct mig_recut {
    unsigned instance; /* index into the state */
    uint32_t destroy;  /* bit i: compute instance cis[i] goes */
    unsigned n_create;
    unsigned create[MIG_MAX_CIS]; /* slices */
};

enum mig_verdict {
    MIG_PLAN_NOTHING,    /* the card is as wanted */
    MIG_PLAN_CHANGE,     /* can be done now; nothing in use is touched */
    MIG_PLAN_DRAIN,      /* possible once the instances in `blocking` are free; nothing may be done
                            before */
    MIG_PLAN_INFEASIBLE, /* not on this card, even empty; `nearest` and `reason` say more */
};

struct mig_plan {
    enum mig_verdict verdict;
    uint32_t keep, destroy,
        blocking; /* bit i: state item i. blocking ⊆ destroy, or a recut's owner */
    unsigned n_create;
    struct mig_new create[MIG_MAX_INSTANCES]; /* ordered: create in this order */
    unsigned n_recut;
    struct mig_recut recut[MIG_MAX_INSTANCES];
    bool undecided;           /* INFEASIBLE: not known to be so, it takes too many steps to tell */
    struct mig_wants nearest; /* INFEASIBLE: the nearest layout that can stand */
    char reason[256];         /* INFEASIBLE: why, for a person */
};

/* A name and how many, as users write them. */
struct mig_request {
    const char *profile;
    unsigned count;
};

/* Is this a table that a card can have, and that everything here has room for? At most
 * MIG_MAX_SLICES compute slices on MIG_MAX_SLOTS slots, placements on the grid and ascending, names
 * and ids each once; a profile without placements may be without size. Only the used parts of the
 * arrays are read. ERR_INVALID names the profile, the value and what is allowed. */
int mig_table_check(const struct mig_table *t, struct err *e) MUST_CHECK;

/* Resolves names tolerantly: among the profiles of the same slices and attributes the one closest
 * in GB, if it is within a sixteenth, or within one and an eighth (so 1g.24gb finds 1g.23gb, and
 * 1g.5gb nothing on a card whose smallest is 1g.10gb). A 1g name that is published for profiles of
 * twice the memory alone never finds one of the smallest share, nor the other way round: 1g.20gb
 * finds nothing on an H200 (1g.18gb, 1g.35gb). mig_rounds tells whether a name was. Zero counts go,
 * and the same kind in two spellings is counted together. ERR_NOT_FOUND names the profile and lists
 * what the card offers; ERR_INVALID for malformed names, also with count zero; ERR_TOO_LARGE for
 * more than MIG_MAX_WANTS kinds. */
int mig_resolve(const struct mig_table *t, const struct mig_request *requests, size_t n,
                struct mig_wants *ret, struct err *e) MUST_CHECK;

/* Did resolving the name (in its own or in a label's spelling) take a profile of another GB? ret
 * holds MIG_NAME_BYTES: the name of what it was taken for. */
bool mig_rounds(const struct mig_table *t, const char *name, char *ret);

/* The smallest change from `now` to `wants`, nothing where that is what stands: fewest instances in
 * use lost (then verdict DRAIN), then fewest GPU instances at the end, of them fewest destroyed,
 * then most compute instances retained, then placements after which most can still be placed, then
 * the longest free run. Deterministic. Total: every input gets a verdict, also a state whose
 * instances overlap or lie off the grid, and in bounded time: sixty times what a real card's
 * worst question takes, then INFEASIBLE and undecided. An instance in use whose compute instances
 * are not marked is taken to be in use as a whole. */
void mig_plan(const struct mig_table *t, const struct mig_state *now, const struct mig_wants *wants,
              struct mig_plan *ret);

/* Can this multiset stand on an empty card? False also where that takes too many steps to tell. */
bool mig_feasible(const struct mig_table *t, const struct mig_wants *wants);

/* Does the state show exactly these wants (placements do not matter)? */
bool mig_matches(const struct mig_table *t, const struct mig_state *now,
                 const struct mig_wants *wants);

/* Built-in layouts: all-disabled, all-enabled, all-<profile with '+' as '.'>, all-balanced (rule:
 * mig-parted pkg/mig/builder). *ret_enabled tells whether MIG mode is on. ERR_NOT_FOUND when the
 * name is no built-in of this table. t may be NULL for a card without MIG: all-disabled works,
 * others are ERR_NOT_FOUND. */
int mig_named_layout(const struct mig_table *t, const char *name, bool *ret_enabled,
                     struct mig_wants *ret, struct err *e) MUST_CHECK;

/* Compute-instance sizes offered inside a GPU instance of g slices: max count of c-slice instances,
 * 0 when not offered (nvidia.md 3.1; the driver lists them only once the instance exists), or when
 * more of them would go in than MIG_MAX_CIS. */
unsigned mig_ci_max(unsigned g, unsigned c);

/* "1g.10gb x2, 3g.40gb x1"; "nothing" when empty. Caller frees. */
char *mig_wants_text(const struct mig_table *t, const struct mig_wants *wants);
/* Name of the partition a compute instance of c slices in this profile is ("1c.3g.40gb"). buf:
 * MIG_NAME_BYTES. */
char *mig_partition_name(const struct mig_profile *p, unsigned ci_slices, char *buf);
