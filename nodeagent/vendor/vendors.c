/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/vendors.h"

#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

/* Each folder defines its own. */
#define VENDOR(name) extern const struct vendor_backend vendor_##name;
#include "nodeagent/vendor/vendors.def"
#undef VENDOR

#define VENDOR(name) &vendor_##name,
const struct vendor_backend *const vendor_backends[] = {
#include "nodeagent/vendor/vendors.def"
    NULL,
};
#undef VENDOR

_Static_assert(ARRAY_LEN(vendor_backends) - 1 <= GPU_MAX_VENDORS, "what an inventory holds");

const struct vendor_backend *vendor_backend_find(const char *name)
{
    for (size_t i = 0; name && vendor_backends[i]; i++)
        if (strcmp(vendor_backends[i]->name, name) == 0)
            return vendor_backends[i];
    return NULL;
}
