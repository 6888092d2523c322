/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "partition/resolve.h"

/*
 * A node for the resolver, written as YAML (see test/golden/resolve):
 *
 *   cards:                          # by index; GPU-d, GPU-b, GPU-a, GPU-c, …: uuids are not in
 * order
 *   - {model: H100-80, mode: mig, partitions: {1g.10gb: 2}}
 *   - {model: T4}                   # a card without MIG
 *   - {model: C500, mode: sgpu, qosPolicy: fixed-share, partitions: {small: 1},
 *      slices: [{alias: small, memoryMiB: 1024, computePercent: 10}]} # a card of MetaX
 *   label: all-balanced
 *   configs: [{name: x, spec: {…}}] # oldest first
 *   profiles: [{name: y, generation: 3, spec: {…}}]
 *   current: {devices: […]}         # the Device's spec in force
 */
/* Not to be copied: `in` points into it. */
struct scenario {
    json_t *doc;
    struct resolve_input in; /* points into the rest */
    struct resolve_card *cards;
    struct sgpu_state *sgpu; /* one for each card */
    struct resolve_profile *profiles;
    struct gpuprofile_spec *profile_specs;
    struct resolve_config *configs;
    struct migconfig_spec *config_specs;
    struct device_spec current;
};

/* Fails the test when the text is no scenario. */
void scenario_parse(const char *text, struct scenario *ret);
/* The same from a document, which is borrowed for the call. */
void scenario_from(const json_t *doc, struct scenario *ret);
void scenario_done(struct scenario *s);
AUTO_DEFINE(scenario, struct scenario, scenario_done)
#define auto_scenario AUTO(scenario)

/* What came out, for people and golden files. Caller frees. */
char *scenario_text(const struct resolve_result *r);
