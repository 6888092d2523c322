/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

/* A time that is read, and that four-digit years can write, reads back equal. */
#define YEAR_0000_MS  INT64_C(-62167219200000)
#define YEAR_10000_MS INT64_C(253402300800000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    int64_t ms;
    if (rfc3339_parse(text, &ms, NULL) < 0)
        return 0;
    char canonical[RFC3339_BYTES];
    int64_t again = 0;
    int rc = rfc3339_parse(rfc3339_format_micro(ms, canonical), &again, NULL);
    assert(rc == 0);
    assert(again == ms || ms < YEAR_0000_MS || ms >= YEAR_10000_MS);
    return 0;
}
