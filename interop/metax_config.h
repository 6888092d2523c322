/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * Converts the ConfigMap metax-device-config, with which MetaX's device plugin is configured, into
 * GPUProfiles (format: MetaX's documentation, "device-config"; Koordinator's user manual for
 * MetaX):
 *    version: v1
 *    cluster-config: |
 *      mode: "native"
 *    nodes-config: |
 *      - nodeName: "n1"
 *        mode: "sgpu"
 * A node's entry overrides the cluster's. Read strictly: an unknown field or value is an error.
 * Pure.
 */

/* Below the default priority of profiles, so that a profile written by hand wins; entries of nodes
 * are above the cluster's. */
#define METAX_CONFIG_CLUSTER_PRIORITY (-20)
#define METAX_CONFIG_NODES_PRIORITY   (-10)

/* The number of pods for which a card of mode "shared" is offered. The configuration names none;
 * this is the number for which its plugin offers a card of mode "sgpu". */
#define METAX_CONFIG_SHARED_REPLICAS 16

/* True for such a ConfigMap, and for the data of one. */
bool metax_config_is(const json_t *doc);

/* A list of GPUProfile objects: one for all nodes if the cluster has a mode, and for each mode of
 * nodes as many as their names need (256 each). Mode "shared" becomes native cards with
 * time-slicing. *ret is a new reference. ERR_INVALID names the entry and the field. */
int metax_config_read(const json_t *doc, json_t **ret, struct err *e) MUST_CHECK;
