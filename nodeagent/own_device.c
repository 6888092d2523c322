/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/own_device.h"

#include "base/jx.h"
#include "base/xalloc.h"

#include "controller/resources.h"

/* What a card does not say for itself, the node says for it. */
static void inherit(struct device_spec *spec, const json_t *obj)
{
    const json_t *cards = JX_AT(obj, "spec", "devices");
    for (size_t i = 0; i < spec->n_devices; i++) {
        struct device_want *want = &spec->devices[i];
        if (!json_object_get(json_array_get(cards, i), "failurePolicy"))
            want->failure_policy = spec->failure_policy;
        if (!want->has_rollout && spec->has_rollout) {
            want->has_rollout = true;
            want->rollout = spec->rollout;
        }
    }
}

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err bad = {0};
    struct own_device *d = xmalloc(sizeof(*d));
    if (device_spec_decode(obj, &d->spec, &bad) < 0)
        d->spec_error = xstrdup(err_msg(&bad));
    else
        inherit(&d->spec, obj);
    d->status = json_deep_copy(json_object_get(obj, "status"));
    *ret = d;
    return 0;
}

static void release(void *payload)
{
    struct own_device *d = payload;
    device_spec_done(&d->spec);
    free(d->spec_error);
    json_decref(d->status);
    free(d);
}

const struct object_type own_device_type = {&resource_devices, transform, release};
