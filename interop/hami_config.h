/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

#include "interop/hami_settings.h"

/*
 * Converts HAMi's configuration into GPUProfiles (facts: charts/hami/templates, pkg/device/nvidia):
 *  - device-config.yaml, of the ConfigMap hami-scheduler-device: how cards are given out;
 *  - config.json, of the ConfigMap hami-device-plugin: what single nodes do otherwise.
 * Together, since a node's entry is completed by the former. Pure.
 */

/* Below the default priority of profiles, so that one that was written by hand wins. */
#define HAMI_CONFIG_CLUSTER_PRIORITY (-20)
#define HAMI_CONFIG_NODES_PRIORITY   (-10)

/* The profiles select nodes by the label by which an agent may read pods (config/slots), which shares
 * need: so a node comes over when it gets the label, and not when the profiles are applied. */
#define HAMI_CONFIG_NODE_LABEL "gpu.cleave.dev.node-restriction.kubernetes.io/slots"

struct hami_import {
    json_t *profiles; /* a list of GPUProfile objects */
    struct hami_notices notices;
};

/* True for either of the two, as itself or in its ConfigMap, and for a List with one in it. */
bool hami_config_is(const json_t *doc);
/* docs: a list of documents, each one of these; each of the two at most once. ERR_INVALID names the
 * file and the key; ERR_PROTOCOL: it is no JSON; ERR_TOO_LARGE. */
int hami_config_read(const json_t *docs, struct hami_import *ret, struct err *e) MUST_CHECK;
void hami_import_done(struct hami_import *i);
AUTO_DEFINE(hami_import, struct hami_import, hami_import_done)
#define auto_hami_import AUTO(hami_import)
