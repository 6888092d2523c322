/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "reconcilers/node_view.h"

/*
 * How far one source (a GPUProfile, or the node's label) is on one node: what the counts of a
 * profile's status, the label nvidia.com/mig.config.state and the rollout's budget are made of.
 * Pure.
 */
enum phase {
    PHASE_UP_TO_DATE, /* the hardware agrees, as the agent has read it back */
    PHASE_CHANGING,   /* work is under way, or waits for something that comes by itself */
    PHASE_WAITING,    /* the rollout's budget (or its pause) holds the change back */
    PHASE_FAILED,     /* it could not be applied */
    PHASE_OVERRIDDEN, /* others govern every card that it selects */
    PHASES,
};

/* The reason of a standing whose node's agent does not answer: the node stays in change, with its
 * place in the rollout's budget, because nobody knows what became of the order. */
#define STANDING_SILENT "AgentNotResponding"

/* The reason where others govern cards that it selects: all of them, or (up to date) some. */
#define STANDING_OVERRIDDEN "Overridden"

struct standing {
    enum phase phase;
    bool refused;           /* FAILED: the wish itself is at fault, nothing was tried */
    char *reason, *message; /* owned; of docs/api.md */
};

/* The standing of a source whose outcome on this node is o (of v's result). A card that is wanted
 * otherwise than the Device's spec says counts as changing. *ret is overwritten. */
void standing_of(const struct node_view *v, const struct resolve_outcome *o, struct standing *ret);

/* What is to be said of an agent that does not answer, or NULL where it is not silent. Caller
 * frees. */
char *standing_silence(const struct node_view *v);

/* Has the agent done all that the Device's spec asks of cards because of this profile (true when it
 * asks nothing)? */
bool standing_is_settled(const struct node_view *v, const char *profile);

/* Do two wishes for a card mean the same? The generation that they come from does not count. */
bool standing_same_want(const struct device_want *a, const struct device_want *b);

/* Replaces the standing's text, copying. */
void standing_set(struct standing *s, enum phase phase, const char *reason, const char *message);
bool standing_equal(const struct standing *a, const struct standing *b);
void standing_done(struct standing *s);
AUTO_DEFINE(standing, struct standing, standing_done)
#define auto_standing AUTO(standing)
