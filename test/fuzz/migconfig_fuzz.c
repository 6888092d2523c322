/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/jx.h"

#include "api/migconfig.h"

/* Input: a MIGConfig as JSON. What decodes must encode and decode back equal. */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_spec(const json_t *obj)
{
    auto_err struct err e = {0};
    auto_migconfig_spec struct migconfig_spec first;
    int rc = migconfig_spec_decode(obj, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return;
    auto_json json_t *once = json_pack("{s:o}", "spec", migconfig_spec_encode(&first));
    auto_migconfig_spec struct migconfig_spec second;
    rc = migconfig_spec_decode(once, &second, NULL);
    auto_json json_t *twice = json_pack("{s:o}", "spec", migconfig_spec_encode(&second));
    assert(rc == 0 && json_equal(once, twice));
}

static void check_status(const json_t *obj)
{
    auto_err struct err e = {0};
    auto_migconfig_status struct migconfig_status first;
    int rc = migconfig_status_decode(obj, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return;
    auto_json json_t *once = json_pack("{s:o}", "status", migconfig_status_encode(&first));
    auto_migconfig_status struct migconfig_status second;
    rc = migconfig_status_decode(once, &second, NULL);
    auto_json json_t *twice = json_pack("{s:o}", "status", migconfig_status_encode(&second));
    assert(rc == 0 && json_equal(once, twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0)
        return 0;
    check_spec(obj);
    check_status(obj);
    return 0;
}
