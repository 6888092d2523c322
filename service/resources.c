/* SPDX-License-Identifier: Apache-2.0 */
#include "service/resources.h"

#include "api/kinds.h"
#include "api/koordinator.h"

const struct kc_resource resource_devices = {API_GROUP, API_VERSION, "devices", "Device", false};
const struct kc_resource resource_gpuprofiles = {API_GROUP, API_VERSION, "gpuprofiles",
                                                 "GPUProfile", false};
const struct kc_resource resource_migconfigs = {API_GROUP, API_VERSION, "migconfigs", "MIGConfig",
                                                false};
const struct kc_resource resource_leaders = {API_GROUP, API_VERSION, "leaders", "Leader", false};
const struct kc_resource resource_nodes = {"", "v1", "nodes", "Node", false};
const struct kc_resource resource_pods = {"", "v1", "pods", "Pod", true};
const struct kc_resource resource_crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                          "CustomResourceDefinition", false};
const struct kc_resource resource_leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
const struct kc_resource resource_deployments = {"apps", "v1", "deployments", "Deployment", true};
const struct kc_resource resource_koordinator_devices = {KOORDINATOR_GROUP, KOORDINATOR_VERSION,
                                                         "devices", "Device", false};
