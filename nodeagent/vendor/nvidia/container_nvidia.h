/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"

/*
 * How NVIDIA's devices get into a container: nvidiactl and the other control files; /dev/nvidia<N>;
 * for a partition its two capability files. For NVIDIA's own container runtime also the list of
 * devices, in the environment or as mounts. Source: NVIDIA k8s-device-plugin
 * internal/plugin/server.go.
 */
extern const struct container_vendor container_nvidia; /* own files: struct nvidia_nodes */
