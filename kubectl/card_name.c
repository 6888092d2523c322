/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/card_name.h"

#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "partition/vendor.h"

char *card_name(const char *vendor, int64_t index)
{
    auto_free char *title = safe_text(vendor_title(vendor));
    return xasprintf("%s GPU %lld", title, (long long)index);
}
