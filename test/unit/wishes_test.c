/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/wishes.h"
#include "service/resources.h"

/* The time from an order to the hardware, for a node whose cards a profile divides. */
static struct metrics *m;
static struct wishes *w;
static struct clock *clk;
static struct card_record card;
static struct device_record device;
static struct profile_count seven;
static char uuid[] = "GPU-1", profile[] = "1g.10gb";
static struct device_want want;
static struct node_view view;

static void setup(void)
{
    m = metrics_new();
    w = wishes_new(m);
    clk = clock_fake_new(/* wall_ms= */ 0);
    seven = (struct profile_count){.profile = profile, .count = 7};
    card = (struct card_record){.uuid = uuid, .healthy = true};
    want = (struct device_want){.uuid = uuid, .mode = API_MODE_MIG, .has_mig = true};
    want.mig.profiles = &seven;
    want.mig.n_profiles = 1;
    device = (struct device_record){.cards = &card, .n_cards = 1, .observed_generation = 1};
    view = (struct node_view){.device = &device, .generation = 1};
}

static void teardown(void)
{
    (void)wishes_free(w);
    (void)metrics_free(m);
    (void)clock_free(clk);
}

TestSuite(wishes, .init = setup, .fini = teardown);

/* Orders the seven partitions; the API server has them in a new generation. */
static void order(void)
{
    const struct device_spec next = {.devices = &want, .n_devices = 1};
    wishes_ordered(w, clk, &view, "n1", &next);
    device.spec = next;
    view.generation++;
}

static void wait_s(int64_t s)
{
    clock_fake_advance(clk, s * 1000);
    wishes_note(w, clk, &view, "n1");
}

static void finish(void)
{
    card.mode = API_MODE_MIG;
    card.partitions = &seven;
    card.n_partitions = 1;
    device.observed_generation = view.generation;
}

static void expect_line(const char *line)
{
    auto_sb struct sb text = SB_INIT(100000);
    metrics_write(m, &text);
    auto_free char *whole = xasprintf("\n%s\n", line);
    cr_expect_not_null(strstr(sb_str(&text), whole), "%s is not in:\n%s", line, sb_str(&text));
}

static void expect_sum(const char *seconds, int count)
{
    auto_free char *sum = xasprintf("cleave_controller_wish_seconds_sum %s", seconds);
    auto_free char *n = xasprintf("cleave_controller_wish_seconds_count %d", count);
    expect_line(sum);
    expect_line(n);
}

Test(wishes, the_time_goes_from_the_order_to_the_status_that_shows_it)
{
    order();
    wait_s(4);
    expect_sum("0.000000", 0);
    finish();
    wait_s(3);
    expect_sum("7.000000", 1);
    wait_s(100);
    expect_sum("7.000000", 1);
}

Test(wishes, hardware_that_is_done_counts_once_the_status_is_about_this_order)
{
    order();
    finish();
    device.observed_generation = 1;
    wait_s(3);
    expect_sum("0.000000", 0);
    device.observed_generation = view.generation;
    wait_s(1);
    expect_sum("4.000000", 1);
}

Test(wishes, an_order_for_which_no_hardware_changes_is_none)
{
    finish();
    order();
    device.observed_generation = view.generation;
    wait_s(1);
    expect_sum("0.000000", 0);
}

Test(wishes, an_order_that_replaces_one_under_way_goes_on_with_its_time)
{
    order();
    wait_s(10);
    order();
    finish();
    wait_s(5);
    expect_sum("15.000000", 1);
}

Test(wishes, of_a_node_that_is_gone_nothing_is_measured)
{
    order();
    view.device = NULL;
    wait_s(5);
    view.device = &device;
    finish();
    wait_s(5);
    expect_sum("0.000000", 0);
}

Test(wishes, a_card_that_is_gone_is_not_waited_for)
{
    order();
    device.n_cards = 0;
    device.observed_generation = view.generation;
    wait_s(5);
    expect_sum("5.000000", 1);
}

Test(wishes, without_metrics_nothing_is_measured)
{
    auto_wishes struct wishes *none = wishes_new(NULL);
    const struct device_spec next = {.devices = &want, .n_devices = 1};
    wishes_ordered(none, clk, &view, "n1", &next);
    finish();
    device.spec = next;
    wishes_note(none, clk, &view, "n1");
}
