/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/sb.h"

#include "partition/mig.h"

/* More than MIG_MAX_WANTS names and counts ever need. */
#define MAX_TEXT_BYTES 4096

char *mig_partition_name(const struct mig_profile *p, unsigned ci_slices, char *buf)
{
    char prefix[16] = "";
    if (ci_slices && ci_slices != p->slices)
        (void)snprintf(prefix, sizeof(prefix), "%uc.", ci_slices);
    int len = snprintf(buf, MIG_NAME_BYTES, "%s%s", prefix, p->name);
    if (len >= MIG_NAME_BYTES)
        buf[MIG_NAME_BYTES - 1] = '\0';
    return buf;
}

char *mig_wants_text(const struct mig_table *t, const struct mig_wants *wants)
{
    auto_sb struct sb b = SB_INIT(MAX_TEXT_BYTES);
    for (unsigned i = 0; i < wants->n; i++) {
        const struct mig_want *w = &wants->items[i];
        if (w->count == 0)
            continue;
        char name[MIG_NAME_BYTES] = "?";
        if (w->profile < t->n_profiles)
            (void)mig_partition_name(&t->profiles[w->profile], w->ci_slices, name);
        sb_addf(&b, "%s%s x%u", b.len ? ", " : "", name, w->count);
    }
    if (b.len == 0)
        sb_add(&b, "nothing");
    return sb_take(&b);
}
