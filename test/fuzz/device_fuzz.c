/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/jx.h"

#include "api/device.h"
#include "partition/model.h"
#include "test/fuzz/round_trip.h"

/*
 * Input: a Device as JSON, spec or status written by anybody. What decodes must encode and decode
 * back equal; models either become tables or say why not.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_models(const struct device_status *s)
{
    for (size_t i = 0; i < s->n_models; i++) {
        auto_err struct err e = {0};
        struct mig_table t;
        int rc = model_to_table(&s->models[i], &t, &e);
        assert((rc < 0) == (e.msg != NULL));
        assert(rc < 0 ||
               (t.memory_slices <= MIG_MAX_MEMORY_SLICES && t.n_profiles <= MIG_MAX_PROFILES));
    }
}

static void check_nothing(const struct device_spec *s)
{
    (void)s;
}

DEFINE_ROUND_TRIP(device_spec, "spec", check_nothing)
DEFINE_ROUND_TRIP(device_status, "status", check_models)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0)
        return 0;
    check_device_spec(obj);
    check_device_status(obj);
    return 0;
}
