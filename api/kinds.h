/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The API group and its version; labels, annotations and field managers on others' objects that
 * several processes read or write. */
#define API_GROUP         "gpu.cleave.dev"
#define API_VERSION       "v1alpha1"
#define API_GROUP_VERSION API_GROUP "/" API_VERSION

/* mig-manager's label protocol (NVIDIA/mig-parted cmd/nvidia-mig-manager). */
#define LABEL_MIG_CONFIG       "nvidia.com/mig.config"
#define LABEL_MIG_CONFIG_STATE "nvidia.com/mig.config.state"
#define MIG_STATE_PENDING      "pending"
#define MIG_STATE_SUCCESS      "success"
#define MIG_STATE_FAILED       "failed"
#define MIG_STATE_REBOOTING    "rebooting"

/* Field managers of server-side apply. Each set of fields that must disappear by itself has its
 * own. */
#define MANAGER_CONTROLLER "cleave-controller"
#define MANAGER_AGENT      "cleave-agent"
