/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

Test(clock, a_fake_clock_stands_still_until_told)
{
    auto_clock struct clock *c = clock_fake_new(1795215335000);
    int64_t mono = clock_mono_ms(c);
    cr_expect_eq(clock_wall_ms(c), 1795215335000);
    cr_expect_eq(clock_mono_ms(c), mono);
    clock_fake_advance(c, 1500);
    cr_expect_eq(clock_wall_ms(c), 1795215336500);
    cr_expect_eq(clock_mono_ms(c), mono + 1500);
    cr_expect_eq(clock_mono_us(c), (mono + 1500) * 1000, "both are one clock");
}

Test(clock, a_fake_clock_does_not_start_at_zero)
{
    auto_clock struct clock *c = clock_fake_new(0);
    cr_expect_gt(clock_mono_ms(c), 0, "so that 0 can mean never");
}

Test(clock, a_suspended_machine_has_no_monotonic_time_but_the_others)
{
    auto_clock struct clock *c = clock_fake_new(0);
    int64_t mono = clock_mono_ms(c);
    int64_t boot = clock_boot_ms(c);
    clock_fake_suspend(c, 700);
    cr_expect_eq(clock_mono_ms(c), mono);
    cr_expect_eq(clock_boot_ms(c), boot + 700);
    cr_expect_eq(clock_wall_ms(c), 700);
}

Test(clock, the_real_clock_is_the_systems)
{
    const struct clock *c = clock_real();
    struct timespec before;
    struct timespec after;
    (void)clock_gettime(CLOCK_REALTIME, &before);
    int64_t wall = clock_wall_ms(c);
    (void)clock_gettime(CLOCK_REALTIME, &after);
    cr_expect_geq(wall, (int64_t)before.tv_sec * 1000);
    cr_expect_leq(wall, ((int64_t)after.tv_sec + 1) * 1000);
    int64_t mono = clock_mono_ms(c);
    cr_expect_geq(clock_mono_ms(c), mono);
    cr_expect_geq(clock_mono_us(c) / 1000, mono);
    struct timespec booted;
    (void)clock_gettime(CLOCK_BOOTTIME, &booted);
    cr_expect_geq(clock_boot_ms(c), (int64_t)booted.tv_sec * 1000);
}

Test(clock, free_takes_null)
{
    cr_expect_null(clock_free(NULL));
}

Test(clock, the_processor_time_of_a_process_is_known_while_there_is_one)
{
    int64_t before = clock_used_ms(getpid());
    while (clock_used_ms(getpid()) == before)
        ;
    cr_expect_gt(clock_used_ms(getpid()), before);
    cr_expect_eq(clock_used_ms(1 << 23), 0);
}
