/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

#include "nodeagent/audit/audit_text.h"
#include "nodeagent/audit/share_audit.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* Two readings of an agent. */
enum { READING_MS = 30000, MAX = 8 };

static struct share_audit audit;
static struct audit_news news;
static struct audit_process processes[MAX];
static struct audit_share share;
static int64_t now_ms;

static void set_up(void)
{
    share = (struct audit_share){.limit_bytes = 3000 * MIB, .processes = processes};
    audit = (struct share_audit){0};
    memset(processes, 0, sizeof(processes));
}

static void tear_down(void)
{
    audit_news_done(&news);
    share_audit_done(&audit);
}

TestSuite(share_audit, .init = set_up, .fini = tear_down);

static struct audit_process *has(unsigned pid, uint64_t mib)
{
    struct audit_process *p = &processes[share.n++];
    *p = (struct audit_process){.id = {.pid = pid, .started = pid + 1000U},
                                .bytes = mib * MIB,
                                .is_limited = true,
                                .own_bytes = mib * MIB};
    (void)snprintf(p->name, sizeof(p->name), "program-%u", pid);
    return p;
}

static void read_after(int64_t ms)
{
    now_ms += ms;
    audit_news_done(&news);
    share_audit_judge(&audit, &share, now_ms, &news);
}

static void read_again(void)
{
    read_after(READING_MS);
}

/* --- How much --- */

Test(share_audit, what_is_within_the_limit_is_no_news)
{
    has(10, 2000);
    has(11, 1000);
    for (int i = 0; i < 3; i++) {
        read_again();
        cr_expect_eq(audit.used_bytes, 3000 * MIB);
        cr_expect_not(audit.is_over || news.is_over_now || news.is_within_again || news.n_ends);
    }
}

Test(share_audit, more_than_the_limit_is_told_once_when_a_second_reading_shows_it)
{
    has(10, 2000);
    has(11, 1200);
    read_again();
    cr_expect_not(audit.is_over || news.is_over_now);
    read_again();
    cr_expect(audit.is_over && news.is_over_now);
    read_again();
    cr_expect(audit.is_over && !news.is_over_now);
}

Test(share_audit, readings_in_quick_succession_count_as_one)
{
    has(10, 4000);
    read_again();
    for (int i = 0; i < 9; i++) {
        read_after(100);
        cr_expect_not(audit.is_over);
    }
    read_after(100);
    cr_expect(audit.is_over);
}

Test(share_audit, a_reading_that_shows_less_in_between_begins_anew)
{
    struct audit_process *p = has(10, 4000);
    read_again();
    p->bytes = 2000 * MIB;
    read_again();
    p->bytes = 4000 * MIB;
    read_again();
    cr_expect_not(audit.is_over);
    read_again();
    cr_expect(audit.is_over);
}

Test(share_audit, five_percent_more_is_let_pass)
{
    struct audit_process *p = has(10, 3150);
    read_again();
    read_again();
    cr_expect_not(audit.is_over);
    p->bytes++;
    p->own_bytes++;
    read_again();
    read_again();
    cr_expect(audit.is_over);
}

Test(share_audit, it_is_over_until_it_is_within_the_limit_itself)
{
    struct audit_process *p = has(10, 4000);
    read_again();
    read_again();
    p->bytes = 3001 * MIB;
    read_again();
    cr_expect(audit.is_over && !news.is_within_again);
    p->bytes = 3000 * MIB;
    read_again();
    cr_expect(!audit.is_over && news.is_within_again);
}

Test(share_audit, processes_that_come_and_go_count_as_long_as_they_are_there)
{
    has(10, 1600);
    read_again();
    has(11, 1600);
    read_again();
    share.n = 0;
    has(12, 1600);
    has(13, 1600);
    read_again();
    cr_expect(audit.is_over, "whoever they are, the share was passed at two readings");
    share.n = 0;
    read_again();
    cr_expect(!audit.is_over && audit.used_bytes == 0);
}

/* --- What contexts take --- */

Test(share_audit, a_context_takes_what_the_driver_shows_beyond_what_was_taken)
{
    has(10, 1500)->own_bytes = 1000 * MIB;
    has(11, 900)->own_bytes = 600 * MIB;
    read_again();
    cr_expect_eq(audit.context_bytes, 0, "a reading alone may be of a moment");
    read_again();
    cr_expect_eq(audit.context_bytes, 400 * MIB);
}

/* The driver's list is older than usage: 1000 MiB were freed, or allocated, in between. */
Test(share_audit, what_comes_and_goes_while_the_agent_reads_is_not_taken_for_a_context)
{
    struct audit_process *p = has(10, 1500);
    share.context_bytes = 400 * MIB;
    for (unsigned i = 0; i < 4; i++) {
        p->bytes = (i % 2 ? 1500 : 2500) * MIB;
        p->own_bytes = p->bytes - (i % 2 ? 1400 : 0) * MIB;
        read_again();
        cr_expect_eq(audit.context_bytes, 400 * MIB);
    }
}

/* As managed memory that is on the host. */
Test(share_audit, the_context_of_a_process_that_has_taken_more_than_it_has_is_not_measured)
{
    has(10, 500)->own_bytes = 2000 * MIB;
    share.context_bytes = 400 * MIB;
    read_again();
    read_again();
    cr_expect_eq(audit.context_bytes, 400 * MIB);
    has(11, 1450)->own_bytes = 1000 * MIB;
    share.context_bytes = 0;
    read_again();
    read_again();
    cr_expect_eq(audit.context_bytes, 450 * MIB);
}

/* The limiter counts what is measured for each context. How many there are is known once it does. */
Test(share_audit, what_the_contexts_of_one_process_take_is_shared_by_them)
{
    has(10, 2200)->own_bytes = 1000 * MIB;
    share.limit_bytes = 4000 * MIB;
    read_again();
    read_again();
    cr_expect_eq(audit.context_bytes, 1200 * MIB);
    processes[0].contexts = 3;
    for (int i = 0; i < 30; i++) {
        share.context_bytes = audit.context_bytes;
        read_again();
    }
    cr_expect(audit.context_bytes >= 400 * MIB && audit.context_bytes < 401 * MIB);
    processes[0].contexts = UINT64_MAX;
    read_again();
    cr_expect_leq(audit.context_bytes, 400 * MIB);
}

Test(share_audit, the_measure_follows_slowly)
{
    struct audit_process *p = has(10, 1500);
    p->own_bytes = 1000 * MIB;
    share.context_bytes = 100 * MIB;
    read_again();
    read_again();
    cr_expect_eq(audit.context_bytes, 200 * MIB);
    share.context_bytes = 900 * MIB;
    read_again();
    cr_expect_eq(audit.context_bytes, 800 * MIB);
}

Test(share_audit, without_a_limited_process_the_measure_stays)
{
    share.context_bytes = 300 * MIB;
    read_again();
    cr_expect_eq(audit.context_bytes, 300 * MIB);
    has(10, 1500)->is_limited = false;
    has(11, 0);
    read_again();
    cr_expect_eq(audit.context_bytes, 300 * MIB, "of the second the driver does not report");
}

Test(share_audit, contexts_older_than_their_measure_are_let_pass)
{
    has(10, 1900)->own_bytes = 1500 * MIB;
    has(11, 1900)->own_bytes = 1500 * MIB;
    read_again();
    read_again();
    cr_expect_eq(audit.let_bytes, 3800 * MIB);
    cr_expect_not(audit.is_over);
}

/* The measure is still of when the memory was on the host, or of other programs. */
Test(share_audit, nobody_is_ended_for_contexts_that_take_more_than_was_measured)
{
    share.ends = true;
    for (unsigned i = 0; i < 3; i++) {
        struct audit_process *p = has(10 + i, 1450);
        p->own_bytes = 1000 * MIB;
    }
    share.context_bytes = 20 * MIB;
    for (int i = 0; i < 10; i++) {
        read_again();
        cr_expect_not(audit.is_over || news.n_ends);
        share.context_bytes = audit.context_bytes;
    }
    cr_expect_gt(audit.context_bytes, 400 * MIB);
}

/* --- Lies --- */

Test(share_audit, a_container_that_has_taken_nothing_hides_no_more_than_its_limit_again)
{
    for (unsigned i = 0; i < MAX; i++)
        has(10 + i, 4000)->own_bytes = 0;
    read_again();
    cr_expect_eq(audit.let_bytes, 6000 * MIB);
    read_again();
    cr_expect_eq(audit.context_bytes, 2048 * MIB);
    cr_expect_eq(audit.let_bytes, 6000 * MIB);
    cr_expect(audit.is_over);
}

Test(share_audit, one_process_hides_no_more_than_a_large_context)
{
    share.limit_bytes = 40 * GIB;
    has(10, 60 * 1024)->own_bytes = 0;
    read_again();
    read_again();
    cr_expect_eq(audit.let_bytes, 41 * GIB);
    cr_expect(audit.is_over);
}

Test(share_audit, huge_numbers_overflow_nothing)
{
    has(10, 4000)->own_bytes = UINT64_MAX;
    has(11, 4000)->own_bytes = UINT64_MAX;
    processes[0].bytes = UINT64_MAX;
    share.context_bytes = UINT64_MAX;
    read_again();
    read_again();
    cr_expect_eq(audit.used_bytes, UINT64_MAX);
    cr_expect(audit.is_over);
    cr_expect_leq(audit.context_bytes, 2048 * MIB);
}

/* --- Without the limiter --- */

Test(share_audit, a_process_without_the_limiter_is_told_once_when_a_second_reading_shows_it)
{
    has(10, 100);
    has(11, 100)->is_limited = false;
    read_again();
    cr_expect_not(audit.n_unlimited || news.is_unlimited_now);
    read_again();
    cr_expect(audit.n_unlimited == 1 && news.is_unlimited_now);
    has(12, 100)->is_limited = false;
    read_again();
    cr_expect(audit.n_unlimited == 1 && !news.is_unlimited_now);
    read_again();
    cr_expect(audit.n_unlimited == 2 && !news.is_unlimited_now);
    share.n = 1;
    read_again();
    cr_expect(audit.n_unlimited == 0 && news.is_limited_again);
}

Test(share_audit, a_process_that_gets_its_slot_late_or_loses_it_as_it_ends_is_none)
{
    struct audit_process *p = has(10, 100);
    p->is_limited = false;
    read_again();
    p->is_limited = true;
    read_again();
    p->is_limited = false;
    read_again();
    share.n = 0;
    read_again();
    cr_expect_not(audit.n_unlimited || news.is_limited_again);
}

Test(share_audit, a_number_that_another_process_has_by_now_is_a_new_process)
{
    has(10, 100)->is_limited = false;
    for (int i = 0; i < 5; i++) {
        read_again();
        processes[0].id.started++;
    }
    cr_expect_eq(audit.n_unlimited, 0);
}

/* The driver refuses what is too much, whatever library a program has. Its limit is rounded. */
Test(share_audit, where_the_driver_holds_nobody_needs_the_limiter_and_its_rounding_is_let_pass)
{
    share.is_driven = share.ends = true;
    has(10, 3000 + 375 + 256)->is_limited = false;
    for (int i = 0; i < 3; i++) {
        read_again();
        cr_expect_eq(audit.let_bytes, 3631 * MIB);
        cr_expect_not(audit.n_unlimited || audit.is_over || news.n_ends);
    }
    processes[0].bytes = 4000 * MIB; /* somebody took the driver's limit away */
    read_again();
    read_again();
    cr_expect(audit.is_over && news.n_ends == 1);
}

/* --- Who is ended --- */

Test(share_audit, nobody_is_ended_where_it_is_only_reported)
{
    has(10, 4000);
    read_again();
    read_again();
    cr_expect(audit.is_over && news.n_ends == 0);
}

Test(share_audit, as_many_are_ended_as_have_what_is_too_much_the_largest_first)
{
    share.ends = true;
    has(10, 900);
    has(11, 1500);
    has(12, 1400);
    has(13, 1300);
    read_again();
    cr_expect_eq(news.n_ends, 0);
    read_again();
    cr_assert_eq(news.n_ends, 2);
    cr_expect(news.ends[0] == 1 && news.ends[1] == 2);
}

Test(share_audit, those_without_the_limiter_are_ended_before_the_others)
{
    share.ends = true;
    has(10, 2500);
    has(11, 300)->is_limited = false;
    has(12, 600)->is_limited = false;
    read_again();
    read_again();
    cr_assert_eq(news.n_ends, 1);
    cr_expect_eq(news.ends[0], 2);
}

Test(share_audit, a_process_without_the_limiter_lives_while_the_share_is_kept)
{
    share.ends = true;
    has(10, 300)->is_limited = false;
    read_again();
    read_again();
    cr_expect(audit.n_unlimited == 1 && news.n_ends == 0);
}

Test(share_audit, what_exceeds_for_a_moment_is_not_ended)
{
    share.ends = true;
    has(10, 4000);
    read_again();
    read_after(1000);
    cr_expect(audit.is_over && news.n_ends == 0);
    read_after(3999);
    cr_expect_eq(news.n_ends, 0);
    read_after(1);
    cr_expect_eq(news.n_ends, 1);
}

Test(share_audit, a_process_is_ended_only_after_two_readings_showed_it)
{
    share.ends = true;
    has(10, 1000);
    has(11, 3000);
    read_again();
    processes[1].id.started++;
    read_again();
    cr_expect(audit.is_over);
    cr_assert_eq(news.n_ends, 1);
    cr_expect_eq(news.ends[0], 0, "the other one has come under a number that was in use");
}

Test(share_audit, what_was_ended_has_the_time_of_two_readings_to_go)
{
    share.ends = true;
    has(10, 4000);
    read_again();
    read_again();
    cr_expect_eq(news.n_ends, 1);
    read_after(4999);
    cr_expect_eq(news.n_ends, 0);
    read_again();
    cr_expect_eq(news.n_ends, 1);
}

Test(share_audit, a_policy_that_comes_later_finds_who_is_over_already)
{
    has(10, 4000);
    read_again();
    read_again();
    share.ends = true;
    read_again();
    cr_expect_eq(news.n_ends, 1);
}

/* --- Words --- */

Test(share_audit, texts_say_how_much_of_what_and_by_whom)
{
    has(10, 1500)->own_bytes = 1000 * MIB;
    has(11, 3500)->is_limited = false;
    read_again();
    read_again();
    auto_free char *over = audit_over_text(&share, &audit);
    cr_expect_str_eq(over, "uses 5000 MiB of the card, and its share has 3000 MiB (and 500 MiB are "
                           "let pass for contexts); of its processes most has program-11 (11 on "
                           "the host) with 3500 MiB");
    auto_free char *unlimited = audit_unlimited_text(&share, &audit);
    cr_expect_str_eq(unlimited, "1 process uses the card without the limiter, and nothing holds it "
                                "to the share: program-11 (11 on the host) with 3500 MiB. Use the "
                                "container's libcuda.so.1, and none that the image brings along");
    auto_free char *end = audit_end_text(&share, &audit, &processes[1]);
    cr_expect(strstr(end, "process program-11 (11 on the host) with 3500 MiB was ended"), "%s",
              end);
}

Test(share_audit, a_text_names_three_processes_and_no_letters_that_cannot_be_shown)
{
    for (unsigned i = 0; i < 5; i++)
        has(10 + i, 0)->is_limited = false;
    (void)snprintf(processes[0].name, sizeof(processes[0].name), "a\n\x1b[31m\xff");
    processes[1].name[0] = '\0';
    read_again();
    read_again();
    auto_free char *text = audit_unlimited_text(&share, &audit);
    cr_expect(strstr(text, "5 processes use the card without the limiter, and nothing holds it to "
                           "the share: a[31m\xef\xbf\xbd (10 on the host), without a name (11 on "
                           "the host), program-12 (12 on the host), …. Use"),
              "%s", text);
}

/* --- Anything --- */

/* A reading at random: processes come and go, numbers are used again, containers lie. */
static void disturb(struct rng *rng)
{
    static const uint64_t lies[] = {0, 1, UINT64_MAX, UINT64_MAX / 2, 3000 * MIB};
    share.n = 0;
    for (uint64_t n = rng_below(rng, MAX + 1); n > 0; n--) {
        struct audit_process *p = has((unsigned)rng_below(rng, 4) + 10, rng_below(rng, 2000));
        p->id.started = rng_below(rng, 2);
        p->is_limited = rng_below(rng, 2);
        p->own_bytes = rng_below(rng, 2) ? lies[rng_below(rng, 5)] : p->bytes;
        p->contexts = lies[rng_below(rng, 5)];
    }
    share.context_bytes = rng_below(rng, 2) ? audit.context_bytes : lies[rng_below(rng, 5)];
    share.ends = rng_below(rng, 2);
}

static uint64_t used(void)
{
    uint64_t all = 0;
    for (size_t i = 0; i < share.n; i++)
        all += processes[i].bytes;
    return all;
}

static bool was_there(const struct audit_process *p, const struct audit_process *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (before[i].id.pid == p->id.pid && before[i].id.started == p->id.started)
            return true;
    return false;
}

static uint64_t without_ended(void)
{
    uint64_t all = used();
    for (size_t i = 0; i < news.n_ends; i++) {
        cr_assert_lt(news.ends[i], share.n);
        all -= processes[news.ends[i]].bytes;
    }
    return all;
}

Test(share_audit, whatever_containers_say_the_driver_is_believed)
{
    struct rng rng;
    struct audit_process before[MAX];
    size_t n_before = 0;
    uint64_t used_before = 0;
    rng_init(&rng, 20261127);
    for (int i = 0; i < 200000; i++) {
        disturb(&rng);
        bool was_over = audit.is_over;
        read_after((int64_t)rng_below(&rng, 9000));
        cr_assert_eq(audit.used_bytes, used());
        cr_assert_leq(audit.context_bytes, 2048 * MIB);
        cr_assert_geq(audit.let_bytes, share.limit_bytes);
        cr_assert_leq(audit.let_bytes, 2 * share.limit_bytes);
        if (used() <= share.limit_bytes)
            cr_assert_not(audit.is_over, "a share that is kept is not over");
        if (audit.is_over && !was_over)
            cr_assert(used() > share.limit_bytes && used_before > share.limit_bytes);
        cr_assert_eq(news.is_over_now, audit.is_over && !was_over);
        cr_assert_eq(news.is_within_again, was_over && !audit.is_over);
        if (news.n_ends) {
            cr_assert(share.ends && audit.is_over);
            cr_assert(without_ended() + processes[news.ends[news.n_ends - 1]].bytes >
                          audit.let_bytes,
                      "the last one is needed, too");
        }
        for (size_t k = 0; k < news.n_ends; k++)
            cr_assert(was_there(&processes[news.ends[k]], before, n_before));
        memcpy(before, processes, sizeof(before));
        n_before = share.n;
        used_before = used();
    }
}
