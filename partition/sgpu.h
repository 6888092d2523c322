/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "api/device.h"

/*
 * The planner for slices that a driver makes with quotas (MetaX sGPU): pure, no I/O, no clock.
 *
 * A slice has a quota of memory, in steps, and one of compute, in percent. There are no places:
 * whether a set of slices can stand depends on their number and sums alone. How compute is shared
 * (the QoS policy, enum api_qos_policy: best effort without quotas, a fixed share as a hard bound,
 * or one that is guaranteed and may borrow what is idle) and the length of a time slice belong to
 * the card, not to the slice.
 * Facts: MXSML 2.3.1's interface, MetaX's documentation of sGPU.
 */
#define SGPU_MAX_SLICES 16
#define SGPU_STEP_MIB   128
/* Drivers take 32, and what marks it as ours takes seven; in an id of 63 for the kubelet the card
 * takes 41. */
#define SGPU_ALIAS_MAX   22
#define SGPU_ALIAS_BYTES 36 /* so that no struct with one has padding */

struct sgpu_quota {
    unsigned memory_mib;      /* a multiple of SGPU_STEP_MIB, above 0 */
    unsigned compute_percent; /* 1 to 100; under best effort 0 to 100 */
};

/* A slice that stands. */
struct sgpu_slice {
    unsigned id; /* the driver's, which uses it again for another slice later */
    char alias[SGPU_ALIAS_BYTES];
    struct sgpu_quota quota;
    bool in_use;
    bool foreign; /* somebody else made it: it is left alone, and what it takes is not ours */
};

struct sgpu_state {
    unsigned memory_mib; /* of the card, for slices */
    int qos;             /* enum api_qos_policy */
    unsigned timeslice_ms;
    unsigned n;
    struct sgpu_slice items[SGPU_MAX_SLICES];
};

/* One slice that is asked for. Its alias names it: no two have the same. */
struct sgpu_want {
    char alias[SGPU_ALIAS_BYTES];
    struct sgpu_quota quota;
};

struct sgpu_wants {
    int qos;               /* enum api_qos_policy; -1, if dynamic: whatever the card has */
    unsigned timeslice_ms; /* 0: as it is */
    bool dynamic; /* slices are made for pods as these come: those of slots are theirs and stay */
    unsigned n;   /* 0 when dynamic */
    struct sgpu_want items[SGPU_MAX_SLICES];
};

enum sgpu_verdict {
    SGPU_PLAN_NOTHING,    /* the card is as wanted */
    SGPU_PLAN_CHANGE,     /* can be done now; nothing in use is touched */
    SGPU_PLAN_DRAIN,      /* possible once the slices in `blocking` are free; nothing may be done
                             before */
    SGPU_PLAN_INFEASIBLE, /* not on this card; `reason` says why */
};

struct sgpu_plan {
    enum sgpu_verdict verdict;
    uint32_t keep, destroy, blocking; /* bit i: state item i */
    uint32_t create;                  /* bit i: wants item i */
    bool set_qos, set_timeslice;      /* after what goes has gone, before what comes comes */
    char reason[256];                 /* INFEASIBLE: why, for a person */
};

/* Do these make sense on any card: steps, bounds, sums of compute, one alias each? ERR_INVALID. */
int sgpu_wants_check(const struct sgpu_wants *w, struct err *e) MUST_CHECK;

/* Do they ask for the same, in the same order? */
bool sgpu_wants_equal(const struct sgpu_wants *a, const struct sgpu_wants *b);

/* The smallest change from `now` to `wants`: a slice of the same alias and quotas stays, foreign
 * ones always do. A policy is set on a card without slices only, a time slice where none is in use.
 * Total: every input gets a verdict. */
void sgpu_plan(const struct sgpu_state *now, const struct sgpu_wants *wants, struct sgpu_plan *ret);

/* The same change to a layout that stood once. It need not be one that can be asked for: people
 * name two slices alike. */
void sgpu_plan_layout(const struct sgpu_state *now, const struct sgpu_wants *wants,
                      struct sgpu_plan *ret);

/* What is left for new slices of a card with these: memory, the sum of compute (100 under best
 * effort), and how many more there may be. */
struct sgpu_room {
    unsigned memory_mib, compute_percent, slices;
};
struct sgpu_room sgpu_room(const struct sgpu_state *now);

/* A slice that is made for a pod is named by its slot, as no spec can name one. Slots are a node's,
 * below SGPU_MAX_SLOTS: which card a slice is made on is decided with its pod. buf holds
 * SGPU_ALIAS_BYTES. */
#define SGPU_MAX_SLOTS 1024
void sgpu_slot_alias(unsigned slot, char *buf);
/* The slot of a slice with this alias; -1: it is none that is made for pods. */
int sgpu_slot_of(const char *alias);
/* Is the partition one that a spec counts? A slice that was made for its pod, or by others, is
 * none. */
bool sgpu_is_declared(const struct device_partition *p);
/* Can a slice of ours be called so? As the CRDs allow it in a spec, or for a slot. */
bool sgpu_is_alias(const char *alias);
/* The state without what is made for this slot. */
void sgpu_drop_slot(struct sgpu_state *s, unsigned slot);
/* The kind of a slice that a spec asks for: its alias without the number. buf holds
 * SGPU_ALIAS_BYTES. */
void sgpu_kind_of(const char *alias, char *buf);

/* What a spec asks for, each slice by its own alias. ERR_INVALID: too many, an alias that is none,
 * ends like one with a number, or gets too long with it, or a quota that no number here holds. */
int sgpu_wants_of(const struct device_sgpu *spec, struct sgpu_wants *ret, struct err *e) MUST_CHECK;
