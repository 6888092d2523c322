/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "mig_tables_support.h"
#include "partition/mig_room.h"

/* What still fits on an H100 (8 memory slices, 7 compute slices) beside instances that stay. */
static const struct mig_table *h100;
static struct mig_state kept;

static void setup(void)
{
    h100 = mig_model("H100-80");
    kept = (struct mig_state){0};
}

TestSuite(mig_room, .init = setup);

static void keep(const char *profile, unsigned start, unsigned size)
{
    kept.items[kept.n++] = (struct mig_instance){.profile = mig_profile_index(h100, profile),
                                                 .start = start,
                                                 .size = size};
}

static void expect_room(const char *largest, unsigned memory_slices)
{
    const struct mig_room room = mig_room(h100, &kept);
    cr_expect_str_eq(room.largest ? room.largest->name : "nothing", largest);
    cr_expect_eq(room.memory_slices, memory_slices, "%u memory slices", room.memory_slices);
}

Test(mig_room, an_empty_card_takes_its_largest_profile)
{
    expect_room("7g.80gb", 8);
}

Test(mig_room, half_a_card_takes_half)
{
    keep("3g.40gb", 0, 4);
    expect_room("3g.40gb", 4); /* one of four compute slices can only begin at 0 */
    kept.items[0].start = 4;
    expect_room("4g.40gb", 4);
}

Test(mig_room, two_small_ones_in_the_middle_leave_no_room_for_a_half)
{
    keep("1g.10gb", 3, 1);
    keep("1g.10gb", 4, 1);
    expect_room("2g.20gb", 6);
}

Test(mig_room, compute_slices_run_out_before_memory)
{
    for (unsigned i = 0; i < 7; i++)
        keep("1g.10gb", i, 1);
    expect_room("nothing", 1);
}

Test(mig_room, an_instance_of_an_unknown_profile_covers_its_memory)
{
    keep("1g.10gb", 0, 4);
    kept.items[0].profile = MIG_NO_PROFILE;
    expect_room("3g.40gb", 4);
}

Test(mig_room, instances_that_overlap_or_lie_off_the_grid_leave_what_they_do_not_cover)
{
    keep("3g.40gb", 0, 4);
    keep("3g.40gb", 2, 4);
    keep("3g.40gb", 31, 9);
    kept.items[2].profile = MIG_NO_PROFILE;
    cr_expect_eq(mig_room(h100, &kept).memory_slices, 2);
    keep("1g.10gb", 400, 400);
    cr_expect_eq(mig_room(h100, &kept).memory_slices, 2);
}

Test(mig_room, a_table_without_profiles_has_no_room)
{
    const struct mig_table empty = {.memory_slices = 8, .slices = 7};
    cr_expect_null(mig_room(&empty, &kept).largest);
}
