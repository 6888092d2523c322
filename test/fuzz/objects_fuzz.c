/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"

#include "api/koordinator.h"
#include "interop/koordinator_mirror.h"
#include "interop/node_lock.h"
#include "reconcilers/eviction.h"
#include "reconcilers/records/device_record.h"
#include "reconcilers/records/node_record.h"
#include "reconcilers/records/profile_record.h"

/*
 * Input: an object as the API server has it, taken for each kind that the controller reads (Node,
 * Pod, Device, GPUProfile, MIGConfig, Koordinator's Device): its labels and annotations are
 * anybody's, a Device's status is its agent's. Whatever it holds becomes a record or an error, and
 * what is computed from it stays within its bounds.
 */
#define MAX_BYTES (1UL << 20)
#define NOW_MS    INT64_C(1800000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_lock(const json_t *obj)
{
    struct node_lock lock;
    auto_err struct err e = {0};
    const char *value = JX_STR_AT(obj, "metadata", "annotations", NODE_LOCK_ANNOTATION);
    if (!value || node_lock_parse(value, &lock, &e) < 0)
        return;
    assert(memchr(lock.ns, '\0', sizeof(lock.ns)) && memchr(lock.pod, '\0', sizeof(lock.pod)));
    enum node_lock_verdict v = node_lock_judge(&lock, obj, /* offered= */ NULL, 0, NOW_MS);
    assert(v == NODE_LOCK_LEAVE || v == NODE_LOCK_RELEASE || v == NODE_LOCK_WAIT);
}

static void check_pod(const json_t *obj)
{
    static char name[] = "p";
    static char uid[] = "u";
    struct drain_pod drain = {.uid = uid, .name = name, .ns = name, .since_ms = NOW_MS};
    const struct drain_pod *const list[] = {&drain};
    const char *why = eviction_futile(obj);
    assert(!why || *why);
    (void)eviction_is_meant(obj, list, 1);
    check_lock(obj);
}

static void check_amounts(const struct koordinator_spec *spec)
{
    struct device_resource *list = NULL;
    size_t n = 0;
    koordinator_mirror_resources_of(spec, "nvidia", &list, &n);
    for (size_t i = 0; i < n; i++) {
        assert(list[i].name && list[i].count >= 0);
        free(list[i].name);
    }
    free(list);
}

static void check_koordinator(const json_t *obj)
{
    auto_koordinator_spec struct koordinator_spec spec = {0};
    auto_err struct err e = {0};
    if (koordinator_spec_decode(obj, &spec, &e) < 0) {
        assert(e.msg);
        return;
    }
    check_amounts(&spec);
    auto_json json_t *again = koordinator_spec_encode(&spec);
    assert(again);
}

static void check_record(const struct object_type *type, const json_t *obj)
{
    struct object *made = NULL;
    auto_err struct err e = {0};
    if (object_new(type, obj, &made, &e) < 0) {
        assert(e.msg);
        return;
    }
    (void)object_unref(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0)
        return 0;
    check_record(&records_node_type, obj);
    check_record(&records_device_type, obj);
    check_record(&records_profile_type, obj);
    check_record(&records_config_type, obj);
    check_pod(obj);
    check_koordinator(obj);
    return 0;
}
