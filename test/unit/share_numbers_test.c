/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "partition/share_numbers.h"
#include "partition/vendor.h"

static void resources_done(struct device_resource *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].name);
    free(list);
}

Test(share_numbers, cards_are_summed_with_their_oversubscription)
{
    struct share_sums sums = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    share_sums_add(&sums, 81920,
                   &(struct device_fractional){.max_shares = 10,
                                               .memory_percent = 100,
                                               .compute_percent = 200});
    share_sums_add(&sums, 40960,
                   &(struct device_fractional){.max_shares = 10,
                                               .memory_percent = 150,
                                               .compute_percent = 100});
    share_sums_offer(&sums, &list, &n);
    cr_assert_eq(n, 3);
    cr_expect_str_eq(list[0].name, "nvidia.com/gpucores");
    cr_expect_eq(list[0].count, 300);
    cr_expect_str_eq(list[1].name, "nvidia.com/gpumem");
    cr_expect_eq(list[1].count, 81920 + 61440);
    cr_expect_str_eq(list[2].name, "nvidia.com/gpumem-percentage");
    cr_expect_eq(list[2].count, 250);
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(list[i].publisher, API_PUBLISHER_CONTROLLER);
        cr_expect(vendor_offers(list[i].name), "%s", list[i].name);
    }
    resources_done(list, n);
}

Test(share_numbers, without_such_a_card_there_are_none)
{
    const struct share_sums sums = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    share_sums_offer(&sums, &list, &n);
    cr_expect_eq(n, 0);
}
