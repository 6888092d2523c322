/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/container_vendor.h"

/*
 * NVIDIA's way into a container: nvidiactl and its like, /dev/nvidia<N>, for a partition its two
 * capability files; and for NVIDIA's own container runtime the list of devices in the environment
 * or as mounts. Source: NVIDIA k8s-device-plugin internal/plugin/server.go. The members of struct
 * container_vendor.
 */

void container_nvidia_common_nodes(const struct container_nodes *n, struct node_list *ret);

/* ERR_NOT_FOUND: the driver names no capability devices of the partition. */
int container_nvidia_device_nodes(const struct container_nodes *n, const struct entry_device *d,
                                  struct node_list *ret, struct err *e) MUST_CHECK;

/* NVIDIA_VISIBLE_DEVICES, or the list as mounts, and the runtime's features. */
void container_nvidia_tell_runtime(const struct entry_options *o,
                                   const struct entry_device *const *devices, size_t n,
                                   struct entry *en);
