/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubeclient/object.h"

/* The agent's cached view of its own Device: the typed spec, and the status as text (jx_dump),
 * because the next status is compared with it. As a document it would take four times as much. */
struct own_device {
    struct device_spec spec;
    char *spec_error; /* why the spec cannot be read (someone bypassed the schema): leave all cards
                         alone; NULL: it can */
    char *status;     /* the server's; NULL: none yet */
    bool lists_cards; /* the status does */
};

extern const struct object_type own_device_type;
