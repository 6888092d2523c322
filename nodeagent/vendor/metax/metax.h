/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/vendor/vendor_backend.h"

/* MetaX as a row of the table of vendors (vendors.h). */
extern const struct vendor_backend vendor_metax;
