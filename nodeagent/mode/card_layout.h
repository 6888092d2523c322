/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nodeagent/gpu/gpu.h"
#include "partition/mig.h"
#include "partition/sgpu.h"

/* Layouts, wishes and steps of one card as plain values. The rows of card_mode.h make them;
 * nodeagent/change puts them together. */

/* A GPU instance of a layout. Its first memory slice identifies it: no two instances share one. */
struct card_instance {
    unsigned profile_id; /* the driver's id; CARD_NO_PROFILE: one that is not in the card's table */
    unsigned start, size;
    unsigned n_cis;
    unsigned ci_slices[MIG_MAX_CIS];
    int ci_starts[MIG_MAX_CIS]; /* first compute slice; -1: the driver chooses it */
};
#define CARD_NO_PROFILE UINT32_MAX

struct card_layout {
    enum gpu_mode mode;
    unsigned n;
    struct card_instance items[MIG_MAX_INSTANCES];
    struct sgpu_wants sgpu; /* GPU_SGPU: the slices, without foreign ones */
};

/* The wish for one card. wants refers to the card's own profile table and is empty unless mode is
 * GPU_MIG; sgpu is empty unless mode is GPU_SGPU. */
struct card_wish {
    enum gpu_mode mode;
    struct mig_wants wants;
    struct sgpu_wants sgpu;
};

enum card_step_kind {
    CARD_CI_DESTROY,    /* gi_id, ci_id */
    CARD_GI_DESTROY,    /* gi_id */
    CARD_MODE_SET,      /* from: the mode that is current or pending; mode */
    CARD_RESET,         /* makes a pending mode current */
    CARD_GI_CREATE,     /* profile_id, start, size */
    CARD_CI_CREATE,     /* in the instance at `start`: slices, ci_start */
    CARD_SLICE_DESTROY, /* slice_id, slice */
    CARD_QOS_SET,       /* qos */
    CARD_TIMESLICE_SET, /* timeslice_ms */
    CARD_SLICE_CREATE,  /* slice */
};

struct card_step {
    enum card_step_kind kind;
    enum gpu_mode from, mode;
    unsigned gi_id, ci_id, slice_id;
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
    /* Bit i: card.state.items[i], or in mode sgpu card.sgpu.items[i], is in use and would be
     * destroyed or changed; or it is a foreign slice and the mode would change. */
    uint32_t blocking;
    /* The card is used as a whole, and its mode or QoS policy would change; or a layout of slices
     * does not fit beside the foreign ones. */
    bool card_blocking;
};

/* Adds a step of this kind, else empty. Borrowed until the next one. */
struct card_step *card_steps_add(struct card_steps *s, enum card_step_kind kind);
/* True when something uses the card and no single part of it. */
bool card_is_used_as_a_whole(const struct gpu_card *card);
