/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/jx.h"

#include "api/device.h"
#include "partition/model.h"

/*
 * Input: a Device as JSON, spec or status written by anybody. What decodes must encode and decode
 * back equal; models either become tables or say why not.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_spec(const json_t *obj)
{
    auto_err struct err e = {0};
    auto_device_spec struct device_spec first;
    int rc = device_spec_decode(obj, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return;
    auto_json json_t *once = json_pack("{s:o}", "spec", device_spec_encode(&first));
    auto_device_spec struct device_spec second;
    rc = device_spec_decode(once, &second, NULL);
    auto_json json_t *twice = json_pack("{s:o}", "spec", device_spec_encode(&second));
    assert(rc == 0 && json_equal(once, twice));
}

static void check_models(const struct device_status *s)
{
    for (size_t i = 0; i < s->n_models; i++) {
        auto_err struct err e = {0};
        struct mig_table t;
        int rc = model_to_table(&s->models[i], &t, &e);
        assert((rc < 0) == (e.msg != NULL));
        assert(rc < 0 || (t.slots <= MIG_MAX_SLOTS && t.n_profiles <= MIG_MAX_PROFILES));
    }
}

static void check_status(const json_t *obj)
{
    auto_err struct err e = {0};
    auto_device_status struct device_status first;
    int rc = device_status_decode(obj, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return;
    check_models(&first);
    auto_json json_t *once = json_pack("{s:o}", "status", device_status_encode(&first));
    auto_device_status struct device_status second;
    rc = device_status_decode(once, &second, NULL);
    auto_json json_t *twice = json_pack("{s:o}", "status", device_status_encode(&second));
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
