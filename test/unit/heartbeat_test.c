/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/heartbeat.h"

struct fixture {
    struct clock *clk;
    struct heartbeats *set;
    struct heartbeat *loop, *worker;
};

static void begin(struct fixture *f)
{
    f->clk = clock_fake_new(0);
    f->set = heartbeats_new(f->clk);
    f->loop = heartbeat_add(f->set, "loop", 1000);
    f->worker = heartbeat_add(f->set, "worker", 60000);
}

static void end(struct fixture *f)
{
    f->set = heartbeats_free(f->set);
    f->clk = clock_free(f->clk);
}

Test(heartbeat, who_waits_is_never_stale)
{
    struct fixture f;
    begin(&f);
    clock_fake_advance(f.clk, 1000000000);
    cr_expect(heartbeats_check(f.set, NULL));
    end(&f);
}

Test(heartbeat, who_is_at_one_thing_for_longer_than_its_bound_is_stale_and_named)
{
    struct fixture f;
    begin(&f);
    auto_sb struct sb text = SB_INIT(1000);
    heartbeat_busy(f.loop);
    heartbeat_busy(f.worker);
    clock_fake_advance(f.clk, 1000);
    cr_expect(heartbeats_check(f.set, NULL));
    clock_fake_advance(f.clk, 4000);
    cr_expect_not(heartbeats_check(f.set, &text));
    cr_expect(heartbeat_is_stale(f.loop));
    cr_expect_not(heartbeat_is_stale(f.worker));
    cr_expect_str_eq(sb_str(&text), "loop hangs: no progress for 5 s (limit 1 s)\n");
    end(&f);
}

Test(heartbeat, the_next_thing_has_all_the_time_again)
{
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 10; i++) {
        heartbeat_busy(f.loop);
        clock_fake_advance(f.clk, 900);
        cr_expect(heartbeats_check(f.set, NULL));
    }
    end(&f);
}

Test(heartbeat, who_got_over_it_is_well_again)
{
    struct fixture f;
    begin(&f);
    heartbeat_busy(f.loop);
    clock_fake_advance(f.clk, 5000);
    cr_expect_not(heartbeats_check(f.set, NULL));
    heartbeat_idle(f.loop);
    cr_expect(heartbeats_check(f.set, NULL));
    end(&f);
}

Test(heartbeat, a_part_that_nobody_asks_about_has_none)
{
    heartbeat_busy(NULL);
    heartbeat_idle(NULL);
    cr_expect_not(heartbeat_is_stale(NULL));
}
