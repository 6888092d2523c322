/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/quantity.h"
#include "base/xalloc.h"

/* A quantity that is read is a whole number which reads back equal. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    auto_err struct err e = {0};
    int64_t n;
    if (quantity_parse(text, &n, &e) < 0) {
        assert(e.kind == ERR_INVALID || e.kind == ERR_TOO_LARGE);
        return 0;
    }
    auto_free char *canonical = quantity_format(n);
    int64_t again = 0;
    int rc = quantity_parse(canonical, &again, NULL);
    assert(rc == 0 && again == n);
    return 0;
}
