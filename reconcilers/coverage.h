/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/resolve.h"

/*
 * Which of the cards that a profile names one by one (uuids, addresses, indices, models) exist on
 * any of its nodes: a misspelt name selects nothing and would never be noticed otherwise. Pure; one
 * thread.
 */
struct coverage;

/* spec is borrowed. */
struct coverage *coverage_new(const struct gpuprofile_spec *spec);
/* A card of a node that the profile matches. */
void coverage_add(struct coverage *c, const struct resolve_card *card);
/* "index 9, uuid GPU-1": what no card had, or NULL. Caller frees. */
char *coverage_missing(const struct coverage *c);
/* NULL allowed; returns NULL. */
struct coverage *coverage_free(struct coverage *c);
AUTO_DEFINE_PTR(coverage, struct coverage, coverage_free)
#define auto_coverage AUTO_PTR(coverage)
