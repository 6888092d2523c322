/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/preferred.h"

/* A device table as the kubelet is shown it: each device with all its replicas, and for each resource
 * the table that answers GetPreferredAllocation. A plain value; zeroed is empty. */
struct shown {
    struct preferred **preferred; /* owned; one for each resource of the table */
    size_t n;
};

struct shown_rules {
    /* False: the device is shown as unhealthy. */
    bool (*can_be_given)(const void *arg, const struct table_device *d);
    const void *arg;
    const struct card_scores *scores; /* borrowed for the call */
    bool pack_shared; /* place replicas on as few cards as possible; else on as many */
};

/* Shows the table in place of what was shown before. Nothing of it is borrowed. */
void shown_set(struct shown *s, const struct device_table *t, const struct shown_rules *rules,
               struct device_plugin *plugin);
/* The answers for the resource of this number in the table that was set last. Borrowed until the
 * next shown_set or shown_done. */
const struct preferred *shown_preferred(const struct shown *s, size_t resource);
void shown_done(struct shown *s);
