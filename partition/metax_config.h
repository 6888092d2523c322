/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * The ConfigMap metax-device-config, by which MetaX's device plugin is told the mode of cards, as
 * GPUProfiles (its form: MetaX's documentation, "device-config"; Koordinator's user manual for
 * MetaX):
 *     version: v1
 *     cluster-config: |
 *       mode: "native"
 *     nodes-config: |
 *       - nodeName: "n1"
 *         mode: "sgpu"
 * A node's entry goes before the cluster's. Read strictly: what is not known is an error. Pure.
 */

/* Below what profiles have that say nothing, so that one that is written by hand wins; the entries
 * of nodes above the cluster's. */
#define METAX_CONFIG_CLUSTER_PRIORITY (-20)
#define METAX_CONFIG_NODES_PRIORITY   (-10)

/* Is it such a ConfigMap, or the data of one? */
bool metax_config_is(const json_t *doc);

/* A list of GPUProfile objects: one for all nodes if the cluster has a mode, and for each mode of
 * nodes as many as their names need (256 each). *ret is a new reference. ERR_INVALID names the
 * entry and field, also for the modes that Cleave does not have. */
int metax_config_read(const json_t *doc, json_t **ret, struct err *e) MUST_CHECK;
