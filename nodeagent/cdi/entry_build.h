/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/container/entry.h"

/* Builds the answer for one container that gets these n devices, in their order; devices with the
 * same cdi_name count once. nodes: the existing device files, used where the answer lists them.
 * Release *ret with entry_done. Source: NVIDIA k8s-device-plugin internal/plugin/server.go.
 *  - ERR_UNAVAILABLE: nodes is NULL and needed.
 *  - ERR_NOT_FOUND: the files of a device are not known; a container could start and not use it.
 *  - ERR_INVALID: devices of several vendors or of an unknown one; a slot without CDI; or a
 *    combination that the vendor's containers cannot have. */
int entry_build(const struct entry_options *o, const struct device_nodes *nodes,
                const struct entry_device *const *devices, size_t n, struct entry *ret,
                struct err *e) MUST_CHECK;
