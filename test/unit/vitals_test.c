/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/vitals.h"
#include "nodeagent/vendor/nvidia/nvml_vitals.h"

static const char *judged(struct gpu_vitals v)
{
    static struct gpu_card card;
    card = (struct gpu_card){.vitals = v, .n_partitions = 1, .partitions = {{.healthy = true}}};
    nvml_vitals_judge(&card);
    cr_expect_eq(card.partitions[0].healthy, card.healthy);
    return card.healthy ? "well" : card.unhealthy_reason;
}

Test(vitals, every_recovery_action_but_none_makes_the_card_ill)
{
    static const char *const reasons[] = {"well",
                                          "ResetRequired",
                                          "RebootRequired",
                                          "RecoveryRequired",
                                          "ResetRequired",
                                          "RecoveryRequired",
                                          "RebootRequired",
                                          "RebootRequired",
                                          "RecoveryRequired"};
    for (unsigned action = 0; action < ARRAY_LEN(reasons); action++)
        cr_expect_str_eq(judged((struct gpu_vitals){.action_known = true, .action = action}),
                         reasons[action], "action %u", action);
}

Test(vitals, what_the_driver_does_not_tell_makes_nobody_ill)
{
    const struct gpu_vitals untold = {.action = 1,
                                      .remap_pending = true,
                                      .remap_failed = true,
                                      .ecc_uncorrected = 7};
    cr_expect_str_eq(judged(untold), "well");
}

Test(vitals, failed_row_remapping_is_an_illness)
{
    const struct gpu_vitals v = {.action_known = true, .remap_known = true, .remap_failed = true};
    cr_expect_str_eq(judged(v), "RowRemapFailure");
}

Test(vitals, pending_work_on_the_memory_is_a_notice_and_no_illness)
{
    const char *message = NULL;
    const struct gpu_vitals rows = {.remap_known = true, .remap_pending = true};
    const struct gpu_vitals pages = {.retired_pending = true};
    const struct gpu_vitals none = {0};
    cr_expect_str_eq(judged(rows), "well");
    cr_expect_str_eq(vitals_notice(&rows, &message), "RowRemapPending");
    cr_expect_str_eq(judged(pages), "well");
    cr_expect_str_eq(vitals_notice(&pages, &message), "PageRetirementPending");
    cr_expect_null(vitals_notice(&none, &message));
}

Test(vitals, the_counter_speaks_only_where_the_driver_names_no_action)
{
    struct gpu_vitals v = {.ecc_known = true, .ecc_uncorrected = 1};
    cr_expect_str_eq(judged(v), "UncorrectableECC");
    v.action_known = true;
    cr_expect_str_eq(judged(v), "well");
}

Test(vitals, only_a_reset_takes_things_back)
{
    const struct gpu_vitals pending = {.remap_known = true, .remap_pending = true};
    const struct gpu_vitals remapped = {.remap_known = true};
    const struct gpu_vitals counted = {.ecc_known = true, .ecc_uncorrected = 3};
    const struct gpu_vitals more = {.ecc_known = true, .ecc_uncorrected = 4};
    const struct gpu_vitals zero = {.ecc_known = true};
    const struct gpu_vitals asks = {.action_known = true, .action = 1};
    const struct gpu_vitals well = {.action_known = true};
    cr_expect(vitals_show_reset(&pending, &remapped));
    cr_expect(vitals_show_reset(&counted, &zero));
    cr_expect(vitals_show_reset(&asks, &well));
    cr_expect_not(vitals_show_reset(&remapped, &pending));
    cr_expect_not(vitals_show_reset(&counted, &more));
    cr_expect_not(vitals_show_reset(&counted, &(struct gpu_vitals){0}));
    cr_expect_not(vitals_show_reset(&well, &asks));
}
