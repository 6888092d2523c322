/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/own_device.h"

#include <stdlib.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "service/resources.h"

static int transform(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err bad = {0};
    struct own_device *d = xmalloc(sizeof(*d));
    if (device_spec_decode(obj, &d->spec, &bad) < 0)
        d->spec_error = xstrdup(err_msg(&bad));
    const json_t *status = json_object_get(obj, "status");
    d->status = status ? jx_dump(status) : NULL;
    d->lists_cards = json_array_size(json_object_get(status, "devices")) > 0;
    *ret = d;
    return 0;
}

static void release(void *payload)
{
    struct own_device *d = payload;
    device_spec_done(&d->spec);
    free(d->spec_error);
    free(d->status);
    free(d);
}

const struct object_type own_device_type = {&resource_devices, transform, release};
