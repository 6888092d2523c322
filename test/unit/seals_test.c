/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/loop/seals.h"

static const char *const first[] = {"GPU-0::p0", "GPU-0::p1"};
static const char *const second[] = {"GPU-1"};
static const char *const third[] = {"GPU-0"};

Test(seals, an_owner_s_seal_leaves_those_of_others_alone)
{
    struct seals s = {0};
    seals_put(&s, "GPU-0", first, 2);
    seals_put(&s, "GPU-1", second, 1);
    cr_expect(seals_have(&s, "GPU-0::p1"));
    cr_expect(seals_drop(&s, "GPU-0"));
    cr_expect_not(seals_have(&s, "GPU-0::p1"));
    cr_expect(seals_have(&s, "GPU-1"));
    cr_expect_not(seals_drop(&s, "GPU-0"), "it is gone already");
    seals_done(&s);
}

Test(seals, a_new_seal_takes_the_place_of_the_owner_s_last_one)
{
    struct seals s = {0};
    seals_put(&s, "GPU-0", first, 2);
    seals_put(&s, "GPU-0", third, 1);
    cr_expect_eq(s.n, 1);
    cr_expect_not(seals_have(&s, "GPU-0::p0"));
    cr_assert_not_null(seals_find(&s, "GPU-0"));
    cr_expect_eq(seals_find(&s, "GPU-0")->n_ids, 1);
    seals_done(&s);
}
