/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"

#include "nodeagent/kubelet/checkpoint.h"
#include "nodeagent/offer/device_table.h"
#include "nodeagent/offer/holders.h"

/*
 * The containers that would not get their device if they started again. The kubelet repeats the
 * answer that it had when the pod came. Meanwhile the device can have other files: the driver
 * numbers cards anew at each boot, and instances when they are made anew. The old file is gone, or
 * is another pod's. Where CDI starts containers answers name no files, and cleave-runtime looks
 * those of marked answers up at the start (docs/adr/0038). Pure.
 */
struct outdated_grant {
    char *ns, *pod; /* NULL: known by its uid only */
    char *uid;
    char *container; /* NULL: not known */
    char *id;        /* without a replica's suffix */
};

struct outdated_grants {
    struct outdated_grant *items; /* by pod; the kubelet writes them in any order */
    size_t n;
};

/* Borrowed. */
struct outdated_facts {
    const struct device_table *table;
    const struct device_nodes *nodes; /* the existing device files */
    const struct checkpoint *checkpoint;
    const struct holders *holders;
    bool marks_count; /* each container is started by cleave-runtime */
};

/* Compares the files in the kubelet's answers with those that the table's devices have now, under
 * whichever resource: sharing and strategies rename those. A device file that is gone makes a grant
 * outdated; devices that the table lacks, and those whose files are not known, are passed over. */
void outdated_grants_find(const struct outdated_facts *f, struct outdated_grants *ret);
void outdated_grants_done(struct outdated_grants *g);
AUTO_DEFINE(outdated_grants, struct outdated_grants, outdated_grants_done)
