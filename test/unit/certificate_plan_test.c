/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "scheduler/certificate_plan.h"

/* Time is in hours, since hour 0; certificates are valid for 90 hours. */
#define HOUR      (INT64_C(3600) * 1000)
#define VALID     (90 * HOUR)
#define SETTLED   CERTIFICATE_SETTLE_MS
#define UNSETTLED (CERTIFICATE_SETTLE_MS - 7)

/* A certificate that is valid from -1 h on; it stands as its letter in texts. */
static struct certificate cert(char letter, int64_t until_h)
{
    return (struct certificate){xasprintf("%c", letter), -HOUR, until_h * HOUR};
}

/* A Secret and a configuration that have nothing. */
static struct certificate_seen nothing(void)
{
    return (struct certificate_seen){.has_secret = true, .has_configuration = true};
}

static const char *const step_names[] = {[CERTIFICATE_REST] = "rest",
                                         [CERTIFICATE_MAKE] = "make",
                                         [CERTIFICATE_ANNOUNCE] = "announce",
                                         [CERTIFICATE_PROMOTE] = "promote"};
static const char *const standing_names[] = {[CERTIFICATE_GOOD] = "good",
                                             [CERTIFICATE_WORKING] = "working",
                                             [CERTIFICATE_NO_SECRET] = "no secret",
                                             [CERTIFICATE_NO_CONFIGURATION] = "no configuration"};

/* "step, standing, bundle", then the old ones of a promotion, or the seconds of a rest. Frees what was
 * seen. */
static void expect(struct certificate_seen seen_take, int64_t now_h, const char *plan)
{
    auto_certificate_seen struct certificate_seen seen = seen_take;
    auto_certificate_todo struct certificate_todo todo = {0};
    certificate_plan(&seen, now_h * HOUR, VALID, &todo);
    auto_sb struct sb got = SB_INIT(1000);
    sb_addf(&got, "%s, %s, %s", step_names[todo.step], standing_names[todo.standing], todo.bundle);
    if (todo.step == CERTIFICATE_PROMOTE)
        sb_addf(&got, ", old %s", todo.old);
    if (todo.step == CERTIFICATE_REST)
        sb_addf(&got, ", %lld s", (long long)todo.recheck_ms / 1000);
    cr_expect_str_eq(sb_str(&got), plan);
}

Test(certificate_plan, without_a_secret_there_is_nothing_to_do_but_to_say_so)
{
    expect((struct certificate_seen){0}, 0, "rest, no secret, , 3600 s");
    expect((struct certificate_seen){.has_configuration = true, .bundle = xstrdup("x")}, 0,
           "rest, no secret, , 3600 s");
}

/* --- From an empty Secret --- */

Test(certificate_plan, an_empty_secret_gets_a_pair)
{
    expect(nothing(), 0, "make, working, ");
}

Test(certificate_plan, the_pair_is_announced_before_it_is_served)
{
    struct certificate_seen seen = nothing();
    seen.next = cert('n', 90);
    expect(seen, 0, "announce, working, n");
}

Test(certificate_plan, where_nothing_is_served_nothing_is_waited_for)
{
    struct certificate_seen seen = nothing();
    seen.next = cert('n', 90);
    seen.bundle = xstrdup("n");
    expect(seen, 0, "promote, working, n, old ");
}

Test(certificate_plan, a_good_pair_rests_and_clocks_are_looked_at)
{
    struct certificate_seen seen = nothing();
    seen.current = cert('c', 90);
    seen.bundle = xstrdup("c");
    expect(seen, 0, "rest, good, c, 3600 s");
}

/* --- Renewal --- */

static struct certificate_seen served(const char *bundle)
{
    struct certificate_seen seen = nothing();
    seen.current = cert('c', 90);
    seen.bundle = xstrdup(bundle);
    return seen;
}

static struct certificate_seen renewing(const char *bundle, int64_t settled_ms)
{
    struct certificate_seen seen = served(bundle);
    seen.next = cert('n', 150);
    seen.settled_ms = settled_ms;
    return seen;
}

Test(certificate_plan, it_is_renewed_with_a_third_left)
{
    expect(served("c"), 59, "rest, good, c, 3600 s");
    struct certificate_seen seen = served("c");
    seen.current.until_ms += 1000;
    expect(seen, 60, "rest, good, c, 1 s");
    expect(served("c"), 60, "make, good, c");
}

Test(certificate_plan, the_next_is_announced_beside_what_is_served)
{
    expect(renewing("c", SETTLED), 60, "announce, good, nc");
}

Test(certificate_plan, the_next_is_served_once_api_servers_have_heard_of_it)
{
    expect(renewing("nc", UNSETTLED), 60, "rest, good, nc, 0 s");
    expect(renewing("nc", 0), 60, "rest, good, nc, 30 s");
    expect(renewing("nc", SETTLED), 60, "promote, good, nc, old c");
}

Test(certificate_plan, a_current_that_ends_meanwhile_is_waited_for_no_longer)
{
    struct certificate_seen seen = renewing("nc", 0);
    seen.current.until_ms = 60 * HOUR + 5000;
    expect(seen, 60, "rest, good, nc, 5 s");
    seen = renewing("n", 0);
    seen.current.until_ms = 60 * HOUR;
    expect(seen, 60, "promote, working, n, old ");
}

Test(certificate_plan, a_promotion_changes_nothing_in_the_bundle)
{
    struct certificate_seen seen = nothing();
    seen.current = cert('n', 150);
    seen.old[seen.n_old++] = cert('c', 90);
    seen.bundle = xstrdup("nc");
    expect(seen, 61, "rest, good, nc, 3600 s");
}

Test(certificate_plan, an_old_certificate_is_trusted_until_its_end)
{
    struct certificate_seen seen = nothing();
    seen.current = cert('n', 150);
    seen.old[seen.n_old++] = cert('c', 90);
    seen.old[0].until_ms += 5000;
    seen.bundle = xstrdup("nc");
    expect(seen, 90, "rest, good, nc, 5 s");
    seen = nothing();
    seen.current = cert('n', 150);
    seen.old[seen.n_old++] = cert('c', 90);
    seen.bundle = xstrdup("nc");
    expect(seen, 90, "announce, good, n");
}

Test(certificate_plan, a_promotion_keeps_the_old_ones_that_are_valid)
{
    struct certificate_seen seen = renewing("ncab", SETTLED);
    seen.old[seen.n_old++] = cert('b', 61);
    seen.old[seen.n_old++] = cert('a', 62);
    seen.old[seen.n_old++] = cert('x', 60);
    expect(seen, 60, "promote, good, ncab, old cab");
}

Test(certificate_plan, no_more_old_ones_are_kept_than_are_read_again)
{
    struct certificate_seen seen = renewing("ncabde", SETTLED);
    for (const char *c = "abde"; *c; c++)
        seen.old[seen.n_old] = cert(*c, 70 - (int64_t)seen.n_old), seen.n_old++;
    expect(seen, 60, "promote, good, ncabde, old cabd");
}

/* --- What should not be --- */

/* A validity that was shortened, or somebody who had the Secret for a moment. */
Test(certificate_plan, one_that_is_valid_for_too_long_is_renewed_in_good_order)
{
    struct certificate_seen seen = served("c");
    seen.current.until_ms = 1000 * HOUR;
    expect(seen, 0, "make, good, c");
    seen = renewing("nc", SETTLED);
    seen.current.until_ms = 1000 * HOUR;
    expect(seen, 60, "announce, good, cn");
    seen = renewing("cn", SETTLED);
    seen.current.until_ms = 1000 * HOUR;
    expect(seen, 60, "promote, good, cn, old c");
}

Test(certificate_plan, an_old_one_of_a_hundred_years_is_not_trusted)
{
    struct certificate_seen seen = served("xc");
    seen.old[seen.n_old++] = cert('x', INT64_C(100) * 366 * 24);
    expect(seen, 0, "announce, good, c");
}

Test(certificate_plan, old_ones_with_later_ends_do_not_push_out_what_is_served)
{
    struct certificate_seen seen = renewing("nvwxyc", SETTLED);
    for (const char *c = "vwxy"; *c; c++)
        seen.old[seen.n_old] = cert(*c, 140 - (int64_t)seen.n_old), seen.n_old++;
    expect(seen, 60, "promote, good, nvwxyc, old cvwx");
}

Test(certificate_plan, another_bundle_is_replaced)
{
    expect(served(""), 0, "announce, working, c");
    expect(served("x"), 0, "announce, working, c");
    expect(served("cx"), 0, "announce, good, c");
    struct certificate_seen seen = served("");
    free(TAKE(seen.bundle));
    expect(seen, 0, "announce, working, c");
}

Test(certificate_plan, a_pair_that_cannot_be_served_is_replaced)
{
    struct certificate_seen seen = nothing();
    seen.bundle = xstrdup("c");
    expect(seen, 0, "make, working, ");
    seen = served("c");
    expect(seen, 90, "make, working, ");
    seen = served("c");
    seen.current.from_ms = 61 * HOUR;
    expect(seen, 60, "make, working, ");
}

Test(certificate_plan, what_is_served_counts_while_the_next_is_no_good)
{
    struct certificate_seen seen = renewing("nc", SETTLED);
    seen.next.until_ms = 90 * HOUR; /* it is due itself */
    expect(seen, 60, "make, good, nc");
    seen = renewing("c", SETTLED);
    seen.next.from_ms = 61 * HOUR;
    expect(seen, 60, "make, good, c");
}

Test(certificate_plan, a_next_that_is_not_needed_yet_is_announced_and_stays)
{
    expect(renewing("c", SETTLED), 10, "announce, good, nc");
    expect(renewing("nc", SETTLED), 10, "rest, good, nc, 3600 s");
}

Test(certificate_plan, the_same_certificate_twice_is_one)
{
    struct certificate_seen seen = renewing("nc", SETTLED);
    seen.old[seen.n_old++] = cert('c', 90);
    seen.old[seen.n_old++] = cert('n', 150);
    expect(seen, 60, "promote, good, nc, old c");
}

/* --- Without a configuration --- */

Test(certificate_plan, without_a_configuration_a_pair_is_there_for_the_server)
{
    struct certificate_seen seen = {.has_secret = true};
    expect(seen, 0, "make, no configuration, ");
    seen.next = cert('n', 90);
    expect(seen, 0, "promote, no configuration, n, old ");
    seen = (struct certificate_seen){.has_secret = true, .current = cert('c', 90)};
    expect(seen, 0, "rest, no configuration, c, 3600 s");
}

Test(certificate_plan, without_a_configuration_nothing_takes_the_place_of_what_is_served)
{
    struct certificate_seen seen = {.has_secret = true,
                                    .current = cert('c', 90),
                                    .next = cert('n', 150),
                                    .settled_ms = SETTLED};
    expect(seen, 60, "rest, no configuration, nc, 3600 s");
    seen = (struct certificate_seen){.has_secret = true,
                                     .current = cert('c', 90),
                                     .next = cert('n', 150)};
    expect(seen, 90, "promote, no configuration, n, old ");
}

Test(certificate_plan, a_short_validity_has_a_short_wait)
{
    auto_certificate_todo struct certificate_todo todo = {0};
    auto_certificate_seen struct certificate_seen seen = nothing();
    seen.current = (struct certificate){xstrdup("c"), 0, 90000};
    seen.next = (struct certificate){xstrdup("n"), 0, 150000};
    seen.bundle = xstrdup("nc");
    certificate_plan(&seen, 60000, 90000, &todo);
    cr_expect_eq(todo.step, CERTIFICATE_REST);
    cr_expect_eq(todo.recheck_ms, 3000);
}
