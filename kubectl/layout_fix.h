/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "partition/mig.h"

/*
 * The smallest change of one card's layout that gives a pod what it asks for, beside all that is in
 * use: by the planner (partition/mig.h). Pure.
 */

struct layout_fix {
    unsigned goes; /* parts that would go, none of which is in use */
    bool mode;     /* the card's mode would change */
    char *layout;  /* what the card would be: "1g.10gb: 2, 3g.40gb: 1", or "native" */
    char *at;      /* where the new parts would stand: "2g.20gb@2"; "" for a whole card */
};

/* Finds it. profile: the name of a partition ("1g.10gb"), of which the pod wants count; NULL: the
 * whole card. table: status_card_table. False: no change that can be made now, and touches no part
 * in use, gives that. */
bool layout_fix_find(const struct device_card *card, const struct mig_table *table,
                     const char *profile, unsigned count, struct layout_fix *ret);
/* True when a costs less: no change of mode, then fewer parts that go. */
bool layout_fix_is_less(const struct layout_fix *a, const struct layout_fix *b);
void layout_fix_done(struct layout_fix *f);
