/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/jx.h"

#include "api/migconfig.h"
#include "test/fuzz/round_trip.h"

/* Input: a MIGConfig as JSON. What decodes must encode and decode back equal. */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_nothing(const void *decoded)
{
    (void)decoded;
}

DEFINE_ROUND_TRIP(migconfig_spec, "spec", check_nothing)
DEFINE_ROUND_TRIP(migconfig_status, "status", check_nothing)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0)
        return 0;
    check_migconfig_spec(obj);
    check_migconfig_status(obj);
    return 0;
}
