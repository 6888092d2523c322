/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "kubectl/layout_fix.h"

/* Devices that no agent wrote, but whoever has an agent's token. */

enum { KINDS = 8, STANDING = 7 };

/* Profiles of one memory slice each that differ in name alone, so that each order of them is another
 * layout (mig_strange_table_test.c). */
static void many_alike(struct mig_table *t)
{
    *t = (struct mig_table){.memory_slices = 32, .slices = 8, .n_profiles = KINDS};
    for (unsigned i = 0; i < KINDS; i++) {
        struct mig_profile *p = &t->profiles[i];
        *p = (struct mig_profile){.id = i, .slices = 1, .size = 1, .max_count = 1};
        (void)snprintf(p->name, sizeof(p->name), "1g.%ugb", i + 1);
        for (unsigned at = i % 2; at < 32 && p->n_starts < MIG_MAX_PLACEMENTS - i / 2; at++)
            p->starts[p->n_starts++] = (uint8_t)at;
    }
}

/* Without the bound the planner is asked about each of 128 choices of what may go. */
Test(layout_fix, a_table_made_to_keep_the_planner_busy_is_given_up_at_once)
{
    static char names[STANDING][16];
    char uuid[] = "MIG-x", place[] = "31:1";
    struct mig_table t;
    struct layout_fix fix;
    struct device_partition parts[STANDING] = {0};
    many_alike(&t);
    cr_assert_eq(mig_table_check(&t, NULL), 0);
    for (unsigned i = 0; i < STANDING; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "1g.%ugb", i + 1);
        parts[i] = (struct device_partition){.uuid = uuid,
                                             .profile = names[i],
                                             .placement = place,
                                             .has_gi_id = true,
                                             .gi_id = i,
                                             .has_ci_id = true};
    }
    const struct device_card card = {.healthy = true,
                                     .mig_capable = true,
                                     .mode = API_MODE_MIG,
                                     .partitions = parts,
                                     .n_partitions = STANDING};
    struct fix_effort effort = FIX_EFFORT(1000);
    cr_expect_not(layout_fix_partitions(&card, &t, "1g.8gb", 1, &effort, &fix));
    cr_expect(effort.cut, "not all was looked at");
    cr_expect_eq(effort.plans, 1000 - 1 - 16, "it counts as what it takes");
}
