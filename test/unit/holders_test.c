/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/offer/holders.h"

#define ID "GPU-1/1g.10gb@4"

static const char *const one[] = {ID};

/* A list of one pod that holds `id`, or of none. */
static bool list(struct holders *h, const char *id, const char *pod, int64_t asked)
{
    struct holder *items = NULL;
    size_t n = 0;
    if (id)
        *XPUSH(items, n) = (struct holder){.id = xstrdup(id),
                                           .ns = xstrdup("team"),
                                           .pod = xstrdup(pod),
                                           .container = xstrdup("main")};
    return holders_list(h, items, n, asked);
}

Test(holders, nothing_is_known_before_the_first_list)
{
    auto_holders struct holders h = {0};
    cr_expect_not(h.known);
    cr_expect_not(holders_none(&h));
    cr_expect(list(&h, NULL, NULL, 100), "that is news");
    cr_expect(h.known);
    cr_expect_not(list(&h, NULL, NULL, 200), "and this is none");
}

Test(holders, grant_holds_until_a_list_shows_its_pod)
{
    auto_holders struct holders h = {0};
    (void)list(&h, NULL, NULL, 50);
    cr_expect(holders_none(&h));
    holders_grant(&h, one, 1, 100);
    cr_expect(holders_has(&h, ID));
    cr_expect_not(holders_none(&h));
    cr_expect_null(holders_get(&h, ID, 0), "nobody knows yet who it is");
    (void)list(&h, ID, "pod-1", 120);
    cr_expect_not(holders_await(&h));
    cr_expect_not(holders_none(&h));
    cr_expect_str_eq(holders_get(&h, ID, 0)->pod, "pod-1");
    cr_expect_null(holders_get(&h, ID, 1));
    (void)list(&h, NULL, NULL, 140);
    cr_expect_not(holders_has(&h, ID), "the pod has ended");
}

Test(holders, list_that_was_asked_for_before_the_grant_says_nothing_about_it)
{
    auto_holders struct holders h = {0};
    holders_grant(&h, one, 1, 100);
    (void)list(&h, ID, "the-one-before", 90);
    cr_expect(holders_await(&h));
    (void)list(&h, NULL, NULL, 95);
    cr_expect(holders_has(&h, ID));
}

Test(holders, grant_that_no_list_shows_in_time_is_over)
{
    auto_holders struct holders h = {0};
    holders_grant(&h, one, 1, 100);
    (void)list(&h, NULL, NULL, 100 + HOLDERS_GRANT_MS - 1);
    cr_expect(holders_has(&h, ID));
    (void)list(&h, NULL, NULL, 100 + HOLDERS_GRANT_MS);
    cr_expect_not(holders_has(&h, ID));
}

Test(holders, a_grant_that_ends_is_news_though_the_list_is_the_same)
{
    auto_holders struct holders h = {0};
    (void)list(&h, ID, "pod-1", 50);
    holders_grant(&h, one, 1, 100);
    cr_expect_not(list(&h, ID, "pod-1", 90), "the pod before, and the grant still holds");
    cr_expect(list(&h, ID, "pod-1", 120), "made anew, by the same name");
    cr_expect_not(list(&h, ID, "pod-1", 140));
    holders_grant(&h, (const char *const[]){"GPU-2"}, 1, 200);
    cr_expect(list(&h, ID, "pod-1", 200 + HOLDERS_GRANT_MS), "nothing came of it");
}

Test(holders, replica_holds_the_device)
{
    auto_holders struct holders h = {0};
    (void)list(&h, ID "::3", "pod-1", 100);
    cr_expect(holders_has(&h, ID));
    cr_expect_not(holders_has(&h, "GPU-1/1g.10gb@40"));
    cr_expect_not(holders_has(&h, "GPU-1"), "a partition is not its card");
}

Test(holders, outage_leaves_who_held_what_and_says_that_it_is_old)
{
    auto_holders struct holders h = {0};
    (void)list(&h, ID, "pod-1", 100);
    holders_unknown(&h);
    cr_expect_not(h.known);
    cr_expect(holders_has(&h, ID));
    cr_expect(list(&h, ID, "pod-1", 200), "known again is news");
}

Test(holders, list_may_be_completed_by_the_one_before)
{
    auto_holders struct holders h = {0};
    struct holder *items = NULL;
    size_t n = 0;
    (void)list(&h, ID, "pod-1", 100);
    holders_keep(&h, &items, &n);
    cr_expect_not(holders_list(&h, items, n, 200), "nothing has changed");
    cr_expect_str_eq(holders_get(&h, ID, 0)->pod, "pod-1");
    items = NULL;
    n = 0;
    *XPUSH(items, n) = (struct holder){.id = xstrdup(ID),
                                       .ns = xstrdup("team"),
                                       .pod = xstrdup("pod-2"),
                                       .container = xstrdup("main")};
    holders_keep(&h, &items, &n);
    (void)holders_list(&h, items, n, 300);
    cr_expect_str_eq(holders_get(&h, ID, 0)->pod, "pod-2", "what it says counts");
    cr_expect_null(holders_get(&h, ID, 1));
}

/* The list is searched by its order: others whose ids begin alike stand between a device's replicas. */
Test(holders, a_device_is_found_among_those_whose_ids_begin_as_its_own)
{
    static const char *const ids[] = {"GPU-1::1", "GPU-1-b", "GPU-10",  "GPU-1/1g.10gb@4",
                                      "GPU-1::0", "GPU-0",   "GPU-2::0"};
    auto_holders struct holders h = {0};
    struct holder *listed = NULL;
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        *XPUSH(listed, n) = (struct holder){.id = xstrdup(ids[i]), .pod = xstrdup(ids[i])};
    (void)holders_list(&h, listed, n, 100);
    cr_assert(holders_get(&h, "GPU-1", 0) && holders_get(&h, "GPU-1", 1));
    cr_expect_str_eq(holders_get(&h, "GPU-1", 0)->pod, "GPU-1::0");
    cr_expect_str_eq(holders_get(&h, "GPU-1", 1)->pod, "GPU-1::1");
    cr_expect_null(holders_get(&h, "GPU-1", 2));
    cr_expect_str_eq(holders_get(&h, "GPU-10", 0)->pod, "GPU-10");
    cr_expect_null(holders_get(&h, "GPU", 0));
    cr_expect_null(holders_get(&h, "GPU-3", 0));
}
