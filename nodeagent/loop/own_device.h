/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubeclient/object.h"

/* The agent's cached view of its own Device: the typed spec, and the status as JSON, because the
 * next status is compared with it. */
struct own_device {
    struct device_spec spec;
    char *spec_error; /* why the spec cannot be read (someone bypassed the schema): leave all cards
                         alone; NULL: it can */
    json_t *status;   /* the server's; NULL: none yet */
};

extern const struct object_type own_device_type;
