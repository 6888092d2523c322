/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "nodeagent/loop/share_metrics.h"

#define LABELS "{gpu=\"GPU-0\",namespace=\"team\",pod=\"train\",container=\"main\""

static struct metrics *m;
static struct share_metrics *shares;
static struct sb text;

static void set_up(void)
{
    m = metrics_new();
    shares = share_metrics_new(m);
    text = SB_INIT(1 << 16);
}

static void tear_down(void)
{
    shares = share_metrics_free(shares);
    m = metrics_free(m);
    sb_done(&text);
}

TestSuite(share_metrics, .init = set_up, .fini = tear_down);

static const struct measured_share share = {.gpu = "GPU-0",
                                            .ns = "team",
                                            .pod = "train",
                                            .container = "main",
                                            .used_bytes = 5,
                                            .limit_bytes = 7,
                                            .takes_turns = true,
                                            .percent = 30,
                                            .turn_us = 1500000,
                                            .throttled_us = 250};

static bool shows(const char *line)
{
    sb_reset(&text);
    metrics_write(m, &text);
    return strstr(sb_str(&text), line);
}

Test(share_metrics, a_share_has_its_limits_and_what_it_has_had)
{
    share_metrics_show(shares, &share, 1);
    cr_expect(shows("cleave_agent_share_used_bytes" LABELS "} 5\n"));
    cr_expect(shows("cleave_agent_share_limit_bytes" LABELS "} 7\n"));
    cr_expect(shows("cleave_agent_share_compute_percent" LABELS "} 30\n"));
    cr_expect(shows("# TYPE cleave_agent_share_turn_seconds_total counter\n"));
    cr_expect(shows("cleave_agent_share_turn_seconds_total" LABELS "} 1.500000\n"));
    cr_expect(shows("# TYPE cleave_agent_share_throttled_seconds_total counter\n"));
    cr_expect(shows("cleave_agent_share_throttled_seconds_total" LABELS "} 0.000250\n"));
    share_metrics_show(shares, /* list= */ NULL, 0);
    cr_expect_not(shows(LABELS));
}

Test(share_metrics, a_share_whose_compute_nobody_bounds_has_no_turns)
{
    struct measured_share free = share;
    free.takes_turns = false;
    share_metrics_show(shares, &free, 1);
    cr_expect(shows("cleave_agent_share_used_bytes" LABELS));
    cr_expect_not(shows("_seconds_total{"));
    cr_expect_not(shows("compute_percent{"));
}

Test(share_metrics, a_breach_has_its_reason)
{
    struct measured_share over = share;
    over.breach = "ShareOverLimit";
    share_metrics_show(shares, &over, 1);
    cr_expect(shows("cleave_agent_share_breach" LABELS ",reason=\"ShareOverLimit\"} 1\n"));
}

Test(share_metrics, without_a_registry_nothing_is_shown)
{
    struct share_metrics *none = share_metrics_new(/* m= */ NULL);
    share_metrics_show(none, &share, 1);
    share_metrics_ended(none);
    cr_expect_null(share_metrics_free(none));
}
