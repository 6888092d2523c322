/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/resolve.h"

/*
 * Coverage of a profile: which of the cards that it names one by one (uuids, addresses, indices,
 * models) exist on any of its nodes, and whether it selects any card there at all. Without it
 * nobody would notice a misspelt name, or a profile for another vendor: both select nothing. Pure;
 * one thread.
 */
struct coverage;

/* spec is borrowed. */
struct coverage *coverage_new(const struct gpuprofile_spec *spec);
/* Adds one card of a node that the profile matches. */
void coverage_add(struct coverage *c, const struct resolve_card *card);
/* The selectors that no card satisfied, as the end of the sentence "no matched node has a card …":
 * "with index 9, uuid GPU-1", or "that spec.devices selects". Names the indices or models that
 * exist where that helps. NULL: every selector was satisfied. Caller frees. */
char *coverage_missing(const struct coverage *c);
/* NULL allowed; returns NULL. */
struct coverage *coverage_free(struct coverage *c);
AUTO_DEFINE_PTR(coverage, struct coverage, coverage_free)
#define auto_coverage AUTO_PTR(coverage)
