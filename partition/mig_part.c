/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_part.h"

#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "partition/mig_name.h"

bool mig_part_place(const char *placement, unsigned *ret_start, unsigned *ret_size)
{
    int64_t start, size;
    const char *colon = placement ? strchr(placement, ':') : NULL;
    auto_free char *first = colon ? xstrndup(placement, (size_t)(colon - placement)) : NULL;
    if (!colon || num_parse(first, 0, MIG_MAX_MEMORY_SLICES - 1, &start, NULL) < 0 ||
        num_parse(colon + 1, 1, MIG_MAX_MEMORY_SLICES - start, &size, NULL) < 0)
        return false;
    *ret_start = (unsigned)start;
    *ret_size = (unsigned)size;
    return true;
}

unsigned mig_part_profile(const struct mig_table *t, const char *profile, unsigned *ret_ci_slices)
{
    struct mig_name name;
    char whole[MIG_NAME_BYTES];
    *ret_ci_slices = 0;
    if (!profile || mig_name_parse(profile, &name, NULL) < 0)
        return MIG_NO_PROFILE;
    *ret_ci_slices = name.ci_slices;
    name.ci_slices = 0;
    (void)mig_name_format(&name, whole);
    for (unsigned i = 0; i < t->n_profiles; i++)
        if (strcmp(t->profiles[i].name, whole) == 0)
            return i;
    return MIG_NO_PROFILE;
}
