/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/vendor/vendor_backend.h"

/* The table of vendors. What a new one needs: vendor_backend.h. */

/* Ends with NULL. */
extern const struct vendor_backend *const vendor_backends[];
/* NULL: no vendor has this name, or name is NULL. */
const struct vendor_backend *vendor_backend_find(const char *name);
