/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/vendor/vendor_backend.h"

/* NVIDIA: the row of the table. */
extern const struct vendor_backend vendor_nvidia;
