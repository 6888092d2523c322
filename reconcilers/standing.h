/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * The standing: how far one source (a GPUProfile, or the node's label) is on one node. The counts
 * of a profile's status, the label nvidia.com/mig.config.state and the rollout's budget are all
 * computed from standings. Pure.
 */
enum phase {
    PHASE_UP_TO_DATE, /* the agent has read back a layout that agrees */
    PHASE_CHANGING,   /* work is under way, or waits for something that comes without help */
    PHASE_WAITING,    /* the rollout's budget (or its pause) holds the change back */
    PHASE_FAILED,     /* the change could not be applied */
    PHASE_OVERRIDDEN, /* other sources govern every card that it selects */
    PHASES,
};

/* The reason for PHASE_CHANGING while the node's agent does not answer. The node keeps its ticket,
 * because nobody knows whether the order was carried out. */
#define STANDING_SILENT "AgentNotResponding"

/* The reason where other sources govern cards that it selects: all of them (PHASE_OVERRIDDEN), or
 * some (PHASE_UP_TO_DATE). */
#define STANDING_OVERRIDDEN "Overridden"

struct standing {
    enum phase phase;
    bool refused;   /* with FAILED: the want itself is at fault, nothing was tried */
    size_t n_cards; /* that the Device had */
    /* Owned; reasons are those of docs/api.md. With UP_TO_DATE they are NULL, or a remark for the
     * user: STANDING_OVERRIDDEN, or else RESOLVE_ROUNDED. */
    char *reason, *message;
};

/* The standing of a source with outcome o (from v's result) on this node, by the Device alone:
 * node_ledger.c adds PHASE_WAITING while no ticket is free, and PHASE_CHANGING until the Node shows
 * the resources. A card whose want differs from the Device's spec counts as changing. *ret is
 * overwritten. */
void standing_of(const struct node_view *v, const struct resolve_outcome *o, struct standing *ret);

/* The message about an agent that does not answer, or NULL when it is not silent. Caller frees. */
char *standing_silence(const struct node_view *v);

/* True when the agent has done all that the Device's spec orders because of this profile; also when
 * it orders nothing. */
bool standing_is_settled(const struct node_view *v, const char *profile);

/* True when two wants of a card mean the same, regardless of the generation of their source. */
bool standing_same_want(const struct device_want *a, const struct device_want *b);

/* Replaces the standing's texts with copies. */
void standing_set(struct standing *s, enum phase phase, const char *reason, const char *message);
bool standing_equal(const struct standing *a, const struct standing *b);
void standing_done(struct standing *s);
AUTO_DEFINE(standing, struct standing, standing_done)
#define auto_standing AUTO(standing)
