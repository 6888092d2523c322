/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "service/access_table.h"

enum { LONG_AGO = 1000000 };

static struct access_key key_of(int n)
{
    struct access_key k = {{0}};
    memcpy(k.sha256, &n, sizeof(n));
    return k;
}

/* What is known of token n from this address; whoever is told that it waits in line is told a
 * place, too. */
static enum access ask_from(struct access_table *t, uint32_t peer, int n, int64_t now_ms)
{
    const struct access_key k = key_of(n);
    size_t place = ACCESS_MAX;
    bool put;
    enum access a = access_table_ask(t, &k, peer, now_ms, &place, &put);
    cr_expect(!put || (a == ACCESS_PENDING && place < ACCESS_MAX));
    return a;
}

/* Each token from an address of its own. */
static enum access ask(struct access_table *t, int n, int64_t now_ms)
{
    return ask_from(t, (uint32_t)n, n, now_ms);
}

static enum access result(struct access_table *t, int n)
{
    const struct access_key k = key_of(n);
    return access_table_result(t, &k);
}

static void review_next(struct access_table *t, enum access verdict, int64_t now_ms)
{
    size_t place;
    cr_assert(access_table_next(t, &place), "nothing is in line");
    access_table_decide(t, place, verdict, now_ms);
}

static void review(struct access_table *t, int n, enum access verdict, int64_t now_ms)
{
    cr_assert_eq(ask(t, n, now_ms), ACCESS_PENDING, "token %d", n);
    review_next(t, verdict, now_ms);
}

Test(access_table, a_new_token_is_put_in_line_once)
{
    auto_access_table struct access_table *t = access_table_new();
    const struct access_key k = key_of(1);
    size_t place;
    bool put;
    cr_expect_eq(access_table_ask(t, &k, /* peer= */ 1, LONG_AGO, &place, &put), ACCESS_PENDING);
    cr_expect(put);
    cr_expect_eq(access_table_ask(t, &k, /* peer= */ 1, LONG_AGO, &place, &put), ACCESS_PENDING);
    cr_expect_not(put);
    cr_expect_eq(result(t, 1), ACCESS_PENDING);
}

Test(access_table, nothing_is_in_line_at_first_and_nothing_twice)
{
    auto_access_table struct access_table *t = access_table_new();
    size_t place;
    cr_expect_not(access_table_next(t, &place));
    (void)ask(t, 1, LONG_AGO);
    cr_expect(access_table_next(t, &place));
    cr_expect_not(access_table_next(t, &place));
}

Test(access_table, a_verdict_lives_as_long_as_its_kind)
{
    static const struct {
        enum access verdict;
        int64_t life_ms;
    } all[] = {{ACCESS_ALLOWED, ACCESS_ALLOWED_MS},
               {ACCESS_UNAUTHENTICATED, ACCESS_REFUSED_MS},
               {ACCESS_FORBIDDEN, ACCESS_REFUSED_MS},
               {ACCESS_UNKNOWN, ACCESS_UNKNOWN_MS}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        auto_access_table struct access_table *t = access_table_new();
        review(t, 1, all[i].verdict, LONG_AGO);
        cr_expect_eq(result(t, 1), all[i].verdict);
        cr_expect_eq(ask(t, 1, LONG_AGO + all[i].life_ms - 1), all[i].verdict);
        cr_expect_eq(ask(t, 1, LONG_AGO + all[i].life_ms), ACCESS_PENDING);
    }
}

Test(access_table, a_right_that_was_taken_away_ends_with_the_life_of_its_verdict)
{
    auto_access_table struct access_table *t = access_table_new();
    review(t, 1, ACCESS_ALLOWED, LONG_AGO);
    review(t, 1, ACCESS_FORBIDDEN, LONG_AGO + ACCESS_ALLOWED_MS);
    cr_expect_eq(ask(t, 1, LONG_AGO + ACCESS_ALLOWED_MS + 1), ACCESS_FORBIDDEN);
}

Test(access_table, only_some_new_tokens_wait_at_once)
{
    auto_access_table struct access_table *t = access_table_new();
    for (int i = 0; i < ACCESS_MAX_NEW; i++)
        cr_expect_eq(ask(t, i, LONG_AGO), ACCESS_PENDING);
    cr_expect_eq(ask(t, 100, LONG_AGO), ACCESS_BUSY);
    cr_expect_eq(result(t, 100), ACCESS_BUSY);
    review_next(t, ACCESS_UNAUTHENTICATED, LONG_AGO);
    cr_expect_eq(ask(t, 100, LONG_AGO), ACCESS_PENDING);
}

Test(access_table, only_some_new_tokens_are_let_in_each_second)
{
    auto_access_table struct access_table *t = access_table_new();
    int n = 0;
    for (; n < ACCESS_NEW_BURST; n++)
        review(t, n, ACCESS_UNAUTHENTICATED, LONG_AGO);
    cr_expect_eq(ask(t, n, LONG_AGO), ACCESS_BUSY);
    cr_expect_eq(ask(t, n, LONG_AGO + 1000 / ACCESS_NEW_PER_S - 1), ACCESS_BUSY);
    review(t, n, ACCESS_UNAUTHENTICATED, LONG_AGO + 1000 / ACCESS_NEW_PER_S);
    cr_expect_eq(ask(t, n + 1, LONG_AGO + 1000 / ACCESS_NEW_PER_S), ACCESS_BUSY);
}

/* For two minutes a stranger comes with a new token each millisecond, and each is reviewed at once.
 */
Test(access_table, a_flood_of_invented_tokens_costs_so_many_reviews_and_no_more)
{
    auto_access_table struct access_table *t = access_table_new();
    int reviews = 0;
    size_t place;
    enum { SECONDS = 120 };
    for (int ms = 0; ms < SECONDS * 1000; ms++) {
        (void)ask(t, ms, LONG_AGO + ms);
        if (access_table_next(t, &place)) {
            access_table_decide(t, place, ACCESS_UNAUTHENTICATED, LONG_AGO + ms);
            reviews++;
        }
    }
    cr_expect_leq(reviews, SECONDS * ACCESS_NEW_PER_S + ACCESS_NEW_BURST);
    cr_expect_geq(reviews, SECONDS * ACCESS_NEW_PER_S - 1);
}

/* Known tokens are not for strangers to drive out, nor to hold up. */
Test(access_table, a_flood_keeps_no_known_token_out)
{
    auto_access_table struct access_table *t = access_table_new();
    const int known = -1;
    size_t place;
    int64_t now_ms = LONG_AGO;
    int held_up = 0;
    review(t, known, ACCESS_ALLOWED, now_ms);
    for (int i = 0; i < 50000; i++) {
        now_ms += 10;
        for (int k = 0; k < 3; k++)
            (void)ask(t, i * 3 + k, now_ms);
        enum access mine = ask(t, known, now_ms);
        held_up += mine != ACCESS_ALLOWED && mine != ACCESS_PENDING;
        if (access_table_next(t, &place)) {
            bool is_mine = result(t, known) == ACCESS_PENDING;
            access_table_decide(t, place, is_mine ? ACCESS_ALLOWED : ACCESS_UNAUTHENTICATED,
                                now_ms);
            /* It was the first in line, before all strangers. */
            held_up += result(t, known) != ACCESS_ALLOWED;
        }
    }
    cr_expect_eq(held_up, 0);
}

Test(access_table, a_known_token_is_reviewed_ahead_of_new_ones)
{
    auto_access_table struct access_table *t = access_table_new();
    const int64_t later_ms = LONG_AGO + ACCESS_ALLOWED_MS;
    review(t, 1, ACCESS_ALLOWED, LONG_AGO);
    for (int i = 2; i < 2 + ACCESS_MAX_NEW; i++)
        (void)ask(t, i, later_ms);
    cr_expect_eq(ask(t, 1, later_ms), ACCESS_PENDING);
    review_next(t, ACCESS_ALLOWED, later_ms);
    cr_expect_eq(result(t, 1), ACCESS_ALLOWED);
}

Test(access_table, those_who_wait_in_line_are_not_kept_waiting_for_an_api_server_that_is_away)
{
    auto_access_table struct access_table *t = access_table_new();
    for (int i = 0; i < ACCESS_MAX_NEW; i++)
        (void)ask(t, i, LONG_AGO);
    review_next(t, ACCESS_UNKNOWN, LONG_AGO);
    for (int i = 0; i < ACCESS_MAX_NEW; i++)
        cr_expect_eq(result(t, i), ACCESS_UNKNOWN);
    size_t place;
    cr_expect_not(access_table_next(t, &place));
}

/* A stranger's token may be one that the API server takes long to review. */
Test(access_table, a_review_that_failed_answers_for_no_known_token)
{
    auto_access_table struct access_table *t = access_table_new();
    const int64_t later_ms = LONG_AGO + ACCESS_ALLOWED_MS;
    size_t slow;
    review(t, 1, ACCESS_ALLOWED, LONG_AGO);
    review(t, 2, ACCESS_ALLOWED, LONG_AGO);
    (void)ask(t, 3, later_ms);
    cr_assert(access_table_next(t, &slow));
    (void)ask(t, 4, later_ms);
    (void)ask(t, 1, later_ms);
    (void)ask(t, 2, later_ms);
    access_table_decide(t, slow, ACCESS_UNKNOWN, later_ms);
    cr_expect_eq(result(t, 4), ACCESS_UNKNOWN, "new, so not worth a timeout of its own");
    cr_expect_eq(result(t, 1), ACCESS_PENDING);
    cr_expect_eq(result(t, 2), ACCESS_PENDING);
    review_next(t, ACCESS_UNKNOWN, later_ms);
    cr_expect_eq(result(t, 1), ACCESS_UNKNOWN);
    review_next(t, ACCESS_ALLOWED, later_ms);
    cr_expect_eq(result(t, 2), ACCESS_ALLOWED);
}

Test(access_table, an_outage_takes_no_known_token_its_place_before_new_ones)
{
    auto_access_table struct access_table *t = access_table_new();
    int64_t now_ms = LONG_AGO;
    review(t, 1, ACCESS_ALLOWED, now_ms);
    now_ms += ACCESS_ALLOWED_MS;
    review(t, 1, ACCESS_UNKNOWN, now_ms);
    cr_expect_eq(ask(t, 1, now_ms), ACCESS_UNKNOWN);
    for (int i = 2; i < 100; i++)
        (void)ask(t, i, now_ms);
    now_ms += ACCESS_UNKNOWN_MS;
    cr_expect_eq(ask(t, 1, now_ms), ACCESS_PENDING);
    review_next(t, ACCESS_ALLOWED, now_ms);
    cr_expect_eq(result(t, 1), ACCESS_ALLOWED);
}

Test(access_table, the_oldest_verdict_goes_when_there_are_too_many_allowed_tokens)
{
    auto_access_table struct access_table *t = access_table_new();
    int64_t now_ms = LONG_AGO;
    for (int i = 0; i <= ACCESS_MAX_ALLOWED; i++, now_ms += 1000)
        review(t, i, ACCESS_ALLOWED, now_ms);
    cr_expect_eq(result(t, 0), ACCESS_BUSY);
    cr_expect_eq(result(t, 1), ACCESS_ALLOWED);
    cr_expect_eq(result(t, ACCESS_MAX_ALLOWED), ACCESS_ALLOWED);
}

Test(access_table, one_address_has_some_of_the_line_and_not_all_of_it)
{
    auto_access_table struct access_table *t = access_table_new();
    for (int i = 0; i < ACCESS_MAX_NEW_OF_PEER; i++)
        cr_expect_eq(ask_from(t, 7, i, LONG_AGO), ACCESS_PENDING);
    cr_expect_eq(ask_from(t, 7, 100, LONG_AGO), ACCESS_BUSY);
    cr_expect_eq(ask_from(t, 8, 100, LONG_AGO), ACCESS_PENDING);
}

/* Nobody knows the token of Prometheus, whose kubelet renewed it, and a stranger floods. */
Test(access_table, a_flood_from_one_address_keeps_no_new_token_from_another_out)
{
    auto_access_table struct access_table *t = access_table_new();
    int64_t now_ms = LONG_AGO;
    int kept_out = 0;
    size_t place;
    for (int i = 1; i < 20000; i++, now_ms += 10) {
        for (int k = 0; k < 3; k++)
            (void)ask_from(t, 7, i * 3 + k, now_ms);
        if (i % 1500 == 0)
            kept_out += ask_from(t, 8, -i, now_ms) != ACCESS_PENDING;
        if (access_table_next(t, &place))
            access_table_decide(t, place, ACCESS_UNAUTHENTICATED, now_ms);
    }
    cr_expect_eq(kept_out, 0);
}
