/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"

/*
 * How NVIDIA's devices get into a container: nvidiactl and the other control files; /dev/nvidia<N>;
 * for a partition its two capability files. For NVIDIA's own container runtime also the list of
 * devices, in the environment or as mounts. Source: NVIDIA k8s-device-plugin
 * internal/plugin/server.go. The functions are members of struct container_vendor.
 */

void container_nvidia_common_nodes(const struct container_nodes *n, struct node_list *ret);

/* ERR_NOT_FOUND: the driver has no capability devices for the partition. */
int container_nvidia_device_nodes(const struct container_nodes *n, const struct entry_device *d,
                                  struct node_list *ret, struct err *e) MUST_CHECK;

/* Sets NVIDIA_VISIBLE_DEVICES, or the list as mounts, and the runtime's features. */
void container_nvidia_tell_runtime(const struct entry_options *o,
                                   const struct entry_device *const *devices, size_t n,
                                   struct entry *en);
