/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/* The API kinds that Cleave's processes read and write. Names of extended resources:
 * partition/resource_names.h. */
extern const struct kc_resource resource_devices;
extern const struct kc_resource resource_gpuprofiles;
extern const struct kc_resource resource_migconfigs;
extern const struct kc_resource resource_leaders;
extern const struct kc_resource resource_nodes;
extern const struct kc_resource resource_pods;
extern const struct kc_resource resource_crds;
extern const struct kc_resource resource_leases;
extern const struct kc_resource resource_deployments;
extern const struct kc_resource resource_koordinator_devices;
