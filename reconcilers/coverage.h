/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/resolve.h"

/*
 * Which of the cards that a profile names one by one (uuids, addresses, indices, models) exist on
 * any of its nodes, and whether it concerns any card there at all: a misspelt name, or another
 * vendor's profile, selects nothing and would never be noticed otherwise. Pure; one thread.
 */
struct coverage;

/* spec is borrowed. */
struct coverage *coverage_new(const struct gpuprofile_spec *spec);
/* A card of a node that the profile matches. */
void coverage_add(struct coverage *c, const struct resolve_card *card);
/* What no card had, to stand behind "no matched node has a card": "with index 9, uuid GPU-1", or
 * "that spec.devices selects"; where it helps, the indices or models that there are. NULL: nothing
 * is missing. Caller frees. */
char *coverage_missing(const struct coverage *c);
/* NULL allowed; returns NULL. */
struct coverage *coverage_free(struct coverage *c);
AUTO_DEFINE_PTR(coverage, struct coverage, coverage_free)
#define auto_coverage AUTO_PTR(coverage)
