/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* Nodes by name, in a GPUProfile's nodeSelector: other systems' configurations name them, and a
 * profile selects by labels. Pure. */

/* Bound of a requirement's values in crds/gpuprofiles.yaml. */
enum { HOST_SELECTOR_NODES = 256 };

/* Whether the name is a legal value of the label kubernetes.io/hostname. ERR_INVALID; field names what
 * holds it. */
int host_selector_check(const char *field, const char *name, struct err *e) MUST_CHECK;
/* The requirement that the node is one of these ("In"), or none of them ("NotIn"); at most
 * HOST_SELECTOR_NODES. New reference. */
json_t *host_selector_requirement(const char *op, const char *const *names, size_t n);
