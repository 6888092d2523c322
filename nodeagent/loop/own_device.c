/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/own_device.h"

#include "base/xalloc.h"

#include "service/resources.h"

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err bad = {0};
    struct own_device *d = xmalloc(sizeof(*d));
    if (device_spec_decode(obj, &d->spec, &bad) < 0)
        d->spec_error = xstrdup(err_msg(&bad));
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
