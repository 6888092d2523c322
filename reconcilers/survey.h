/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/store.h"
#include "reconcilers/coverage.h"
#include "reconcilers/records/device_record.h"
#include "reconcilers/records/node_record.h"
#include "reconcilers/records/profile_record.h"

/*
 * A survey of the nodes of one profile: how many of them it matches, and which of the cards that it
 * names they lack. A value of one thread; pure but for survey_selected, which reads a cache.
 */
struct survey {
    const struct profile_record *profile; /* borrowed */
    size_t matched;                       /* nodes with a Device that nodeSelector matches */
    size_t cardless;                      /* of them: nodes that have no card at all, and say so */
    size_t n_cards;                       /* of all of them */
    bool blind;                           /* of the cards of one of them nothing is known */
    struct coverage *coverage;
};

/* Begins a survey; *ret is overwritten. */
void survey_begin(const struct profile_record *p, struct survey *ret);
/* Adds a node with its Device, if the profile matches it. */
void survey_add(struct survey *s, const struct node_record *n, const struct device_record *d);
/* The cards that the profile names and no matched node has, as coverage_missing says it. NULL:
 * none, or it is not known. Caller frees. */
char *survey_not_found(const struct survey *s);
/* Number of Nodes that the profile's selector matches, with or without a Device. */
size_t survey_selected(const struct profile_record *p, struct store *nodes);
void survey_done(struct survey *s);
AUTO_DEFINE(survey, struct survey, survey_done)
#define auto_survey AUTO(survey)

/* True for a node that was read and has no card, other than one of which nothing is known. */
bool survey_is_cardless(const struct device_record *d);
