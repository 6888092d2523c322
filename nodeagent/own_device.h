/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubeclient/object.h"

/* The agent's cached view of its own Device: the typed spec, and the status as JSON, because the
 * next status is compared to it. */
struct own_device {
    struct device_spec spec;
    char *spec_error; /* the spec cannot be read (written by hand past the schema): leave all cards
                         alone; NULL: it can */
    json_t *status;   /* as the server has it; NULL: none yet */
};

extern const struct object_type own_device_type;
