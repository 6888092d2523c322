/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nodeagent/gpu/gpu.h"
#include "partition/mig.h"
#include "partition/sgpu.h"

/*
 * What has to happen on one card, as data: pure functions, no I/O, no clock. A layout is a card's
 * whole configuration with exact placements. The planner chooses the target layout once; one
 * difference function then makes the steps for going forward, for rolling back and for going on
 * after a crash, so that all three end in the same places.
 */

/* A GPU instance of a layout. Its start slot names it: no two instances share one. */
struct card_instance {
    unsigned profile_id; /* the driver's; CARD_NO_PROFILE: one its table does not know */
    unsigned start, size;
    unsigned n_cis;
    unsigned ci_slices[MIG_MAX_CIS];
    int ci_starts[MIG_MAX_CIS]; /* first compute slice; -1: wherever the driver puts it */
};
#define CARD_NO_PROFILE UINT32_MAX

struct card_layout {
    enum gpu_mode mode;
    unsigned n;
    struct card_instance items[MIG_MAX_INSTANCES];
    struct sgpu_wants sgpu; /* GPU_SGPU: the slices, foreign ones left out */
};

/* What is asked for; wants refers to the card's own table and is empty unless mode is GPU_MIG, sgpu
 * is so unless it is GPU_SGPU. */
struct card_wish {
    enum gpu_mode mode;
    struct mig_wants wants;
    struct sgpu_wants sgpu;
};

/* Do they ask for the same? */
bool card_wish_equal(const struct card_wish *a, const struct card_wish *b);

enum card_step_kind {
    CARD_CI_DESTROY,    /* gi_id, ci_id */
    CARD_GI_DESTROY,    /* gi_id */
    CARD_MODE_SET,      /* from, mode */
    CARD_RESET,         /* makes a pending mode current */
    CARD_GI_CREATE,     /* profile_id, start, size */
    CARD_CI_CREATE,     /* in the instance at `start`: slices, ci_start */
    CARD_SLICE_DESTROY, /* gi_id: its id; slice */
    CARD_QOS_SET,       /* qos */
    CARD_TIMESLICE_SET, /* timeslice_ms */
    CARD_SLICE_CREATE,  /* slice */
};

struct card_step {
    enum card_step_kind kind;
    enum gpu_mode from, mode;
    unsigned gi_id, ci_id;
    unsigned profile_id, start, size;
    unsigned slices;
    int ci_start;
    int qos;
    unsigned timeslice_ms;
    struct sgpu_want slice;
};

#define CARD_MAX_STEPS (2 * MIG_MAX_INSTANCES * (MIG_MAX_CIS + 1) + 2)
struct card_steps {
    unsigned n;
    struct card_step items[CARD_MAX_STEPS];
    uint32_t blocking;  /* bit i: card.state item i, or card.sgpu item i, is in use and would be
                           touched */
    bool card_blocking; /* something uses the whole card, and the mode would change */
};

enum card_verdict {
    CARD_NOTHING,    /* the card is as wanted */
    CARD_CHANGE,     /* can be done now; nothing in use is touched */
    CARD_DRAIN,      /* possible once steps.blocking / card_blocking are free; do nothing before */
    CARD_INFEASIBLE, /* not on this card, even empty */
};

struct card_plan {
    enum card_verdict verdict;
    const char *reason; /* CamelCase, static: InUse, Infeasible, NotCapable, …; "" else */
    char message[384];  /* for a person; "" unless DRAIN or INFEASIBLE */
    bool resets;        /* the steps hold a reset of the card */
    struct card_layout target;
    struct card_steps steps;  /* CHANGE and DRAIN */
    struct mig_wants nearest; /* INFEASIBLE geometry: the nearest layout that can stand */
};

/* The smallest change that turns the card into the wish. Total: every input gets a verdict. An
 * unhealthy card is INFEASIBLE with reason Unhealthy; one whose users the driver does not tell,
 * with reason UsersUnknown unless the change only adds; one that has virtual functions and is to be
 * something else, or has none and is to have some, with the reasons of partition/resolve.h. */
void card_plan(const struct gpu_card *card, const struct card_wish *wish, struct card_plan *ret);

/* The layout that stands on a card, with every placement. */
void card_layout_of(const struct gpu_card *card, struct card_layout *ret);

/* Does the card show exactly this layout, and no mode change pending? */
bool card_layout_matches(const struct gpu_card *card, const struct card_layout *layout);

/* Ordered steps from what stands to the layout: compute instances go, GPU instances go, the mode
 * changes, instances come; slices the same, with the QoS policy and the time slice in the middle.
 * What matches stays untouched. From and to virtual functions there are none: the layouts differ,
 * and nobody here can change that. Blocking parts are marked, not left out: whoever runs the steps
 * must not when something blocks. */
void card_steps_to(const struct gpu_card *card, const struct card_layout *layout,
                   struct card_steps *ret);

/* One line for a person: "create 1g.10gb at 4". Profile names come from the table (may be NULL).
 * Caller frees. */
char *card_step_text(const struct card_step *s, const struct mig_table *t);
