/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#include "api/device.h"

/*
 * The planner for slices that a driver makes with quotas (MetaX sGPU): pure, no I/O, no clock.
 *
 * A slice has a quota of memory, in steps, and one of compute, in percent. Slices have no
 * placement: whether a set of them fits depends on their number and sums alone. The QoS policy
 * (enum api_qos_policy: best effort without quotas, a fixed share as a hard bound, or a guaranteed
 * share that may borrow idle compute) and the length of a time slice belong to the card, not to the
 * slice. Facts: MXSML 2.3.1's interface, MetaX's documentation of sGPU.
 */
#define SGPU_MAX_SLICES 16
#define SGPU_STEP_MIB   128
/* A driver takes an alias of 32 bytes, and our prefix, "cleave.", has seven. The kubelet takes a
 * device id of 63 bytes, and the card's uuid with '/' has 41. */
#define SGPU_ALIAS_MAX   22
#define SGPU_ALIAS_BYTES 36 /* so that no struct with one has padding */

struct sgpu_quota {
    unsigned memory_mib;      /* a multiple of SGPU_STEP_MIB, above 0 */
    unsigned compute_percent; /* 1 to 100; under best effort 0 to 100 */
};

/* An existing slice. */
struct sgpu_slice {
    unsigned id; /* the driver's id, which it gives to another slice later */
    char alias[SGPU_ALIAS_BYTES];
    struct sgpu_quota quota;
    bool in_use;
    bool foreign; /* not made by Cleave: it is left alone, and what it takes is not available */
};

struct sgpu_state {
    unsigned memory_mib; /* of the card, available for slices */
    int qos;             /* enum api_qos_policy */
    unsigned timeslice_ms;
    unsigned n;
    struct sgpu_slice items[SGPU_MAX_SLICES];
};

/* One wanted slice. Its alias identifies it: no two are the same. */
struct sgpu_want {
    char alias[SGPU_ALIAS_BYTES];
    struct sgpu_quota quota;
};

struct sgpu_wants {
    int qos;               /* enum api_qos_policy; -1, if dynamic: keep the card's */
    unsigned timeslice_ms; /* 0: keep the present length */
    bool dynamic; /* slices are made for each pod as it comes; existing slices of slots stay */
    unsigned n;   /* 0 when dynamic */
    struct sgpu_want items[SGPU_MAX_SLICES];
};

enum sgpu_verdict {
    SGPU_PLAN_NOTHING, /* the card is as wanted */
    SGPU_PLAN_CHANGE,  /* can be done now; nothing in use is touched */
    /* Possible once the slices in `blocking` are free; nothing may be changed before. */
    SGPU_PLAN_DRAIN,
    SGPU_PLAN_INFEASIBLE, /* impossible on this card; `reason` says why */
};

struct sgpu_plan {
    enum sgpu_verdict verdict;
    uint32_t keep, destroy, blocking; /* bit i: state item i */
    uint32_t create;                  /* bit i: wants item i */
    bool set_qos, set_timeslice;      /* between destroying and creating */
    char reason[256];                 /* INFEASIBLE: the cause, for a person */
};

/* Checks that the wants make sense on any card: steps, bounds, sums of compute, unique aliases.
 * ERR_INVALID. */
int sgpu_wants_check(const struct sgpu_wants *w, struct err *e) MUST_CHECK;

/* True when both want the same slices in the same order. */
bool sgpu_wants_equal(const struct sgpu_wants *a, const struct sgpu_wants *b);

/* Plans the smallest change from `now` to `wants`. A slice with the wanted alias and quotas stays;
 * foreign ones always do. The policy is set only on a card without slices, the time slice only
 * where none is in use. Total: every input gets a verdict. */
void sgpu_plan(const struct sgpu_state *now, const struct sgpu_wants *wants, struct sgpu_plan *ret);

/* The same towards a layout that existed before, to restore it. Such a layout need not be a legal
 * spec: in one that people made, two slices may have the same alias. */
void sgpu_plan_layout(const struct sgpu_state *now, const struct sgpu_wants *wants,
                      struct sgpu_plan *ret);

/* Free capacity of a card with these slices: memory, the sum of compute (100 under best effort),
 * and how many more slices it takes. */
struct sgpu_room {
    unsigned memory_mib, compute_percent, slices;
};
struct sgpu_room sgpu_room(const struct sgpu_state *now);

/* The alias of the slice of a slot; no spec can contain such an alias. Slots are numbered for each
 * node, below SGPU_MAX_SLOTS, because the card of a slice is chosen only with its pod. buf holds
 * SGPU_ALIAS_BYTES. */
#define SGPU_MAX_SLOTS 1024
void sgpu_slot_alias(unsigned slot, char *buf);
/* The slot of a slice with this alias; -1: it is not a slot's. */
int sgpu_slot_of(const char *alias);
/* True for a partition of the card that a spec counts; false for a slot's or a foreign slice, and
 * for a share: what a whole card shows as slices are shares. */
bool sgpu_is_declared(const struct device_card *c, const struct device_partition *p);
/* True for an alias that a slice of ours can have: what the CRDs allow in a spec, or a slot's. */
bool sgpu_is_alias(const char *alias);
/* Removes the slice of this slot from the state. */
void sgpu_drop_slot(struct sgpu_state *s, unsigned slot);
/* The kind of a slice in a spec: its alias without the number. buf holds SGPU_ALIAS_BYTES. */
void sgpu_kind_of(const char *alias, char *buf);

/* The slices of a spec, each with an alias of its own. ERR_INVALID: too many slices; an alias that
 * is illegal, ends in a number like a numbered one, or gets too long with its number; a quota out
 * of range. */
int sgpu_wants_of(const struct device_sgpu *spec, struct sgpu_wants *ret, struct err *e) MUST_CHECK;
