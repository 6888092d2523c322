/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "mig_tables_support.h"
#include "partition/mig_part.h"

Test(mig_part, a_place_is_a_start_and_a_size_on_the_grid)
{
    unsigned start = 0, size = 0;
    cr_assert(mig_part_place("4:4", &start, &size));
    cr_expect(start == 4 && size == 4);
    cr_assert(mig_part_place("0:32", &start, &size));
    cr_assert(mig_part_place("31:1", &start, &size));
    cr_expect(start == 31 && size == 1);
}

Test(mig_part, whatever_else_it_says_it_lies_nowhere)
{
    static const char *const bad[] =
        {NULL,   "",     ":",    "4",     "4:",  ":4",   "4:0",          "-1:1",
         "32:1", "0:33", "31:2", "1:2:3", "a:1", "4: 4", "4294967296:1", "0:18446744073709551617"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        unsigned start = 77, size = 77;
        cr_expect_not(mig_part_place(bad[i], &start, &size), "%s", bad[i]);
        cr_expect(start == 77 && size == 77);
    }
}

Test(mig_part, a_profile_is_that_of_its_gpu_instance)
{
    const struct mig_table *h100 = mig_model("H100-80");
    unsigned ci_slices = 77;
    unsigned whole = mig_part_profile(h100, "3g.40gb", &ci_slices);
    cr_assert_neq(whole, MIG_NO_PROFILE);
    cr_expect_str_eq(h100->profiles[whole].name, "3g.40gb");
    cr_expect_eq(ci_slices, 0);
    cr_expect_eq(mig_part_profile(h100, "1c.3g.40gb", &ci_slices), whole);
    cr_expect_eq(ci_slices, 1);
    cr_expect_eq(mig_part_profile(h100, "3g.41gb", &ci_slices), MIG_NO_PROFILE);
    cr_expect_eq(mig_part_profile(h100, "a", &ci_slices), MIG_NO_PROFILE);
    cr_expect_eq(mig_part_profile(h100, NULL, &ci_slices), MIG_NO_PROFILE);
}
