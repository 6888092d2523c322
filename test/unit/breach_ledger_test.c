/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"

#include "reconcilers/breach_ledger.h"

#define OF(name, ms)                                                                               \
    {                                                                                              \
        .since_ms = (ms), .ns = ns, .pod = (name), .reason = reason                                \
    }

static char ns[] = "default", reason[] = "ShareOverLimit", a[] = "a", b[] = "b", c[] = "c";
static struct breach_record first[] = {OF(a, 10), OF(b, 30)};
static struct breach_record second[] = {OF(c, 30)};
static struct card_record cards[] = {{.breaches = first, .n_breaches = 2},
                                     {.breaches = second, .n_breaches = 1}};
static const struct device_record device = {.cards = cards, .n_cards = 2};
static struct breach_ledger *ledger;

static void set_up(void)
{
    ledger = breach_ledger_new();
}

static void tear_down(void)
{
    ledger = breach_ledger_free(ledger);
}

TestSuite(breach_ledger, .init = set_up, .fini = tear_down);

static size_t news(const char *node, int64_t fresh_ms)
{
    size_t n = 0;
    auto_free const struct breach_record **list =
        breach_ledger_news(ledger, node, &device, fresh_ms, &n);
    cr_assert_eq(n > 0, list != NULL);
    return n;
}

Test(breach_ledger, of_a_node_that_is_new_the_fresh_ones_are_news)
{
    cr_expect_eq(news("n1", 0), 3);
    cr_expect_eq(news("n1", 10), 2);
    cr_expect_eq(news("n1", 30), 0);
}

Test(breach_ledger, afterwards_those_are_that_were_not_there)
{
    cards[0].n_breaches = 1;
    breach_ledger_note(ledger, "n1", &device);
    cr_expect_eq(news("n1", 0), 0);
    cards[0].n_breaches = 2;
    cr_expect_eq(news("n1", 1000), 1, "however old");
    breach_ledger_note(ledger, "n1", &device);
    cr_expect_eq(news("n1", 0), 0);
    first[0].since_ms++;
    cr_expect_eq(news("n1", 0), 1, "it has begun again");
    cr_expect_eq(news("n2", 0), 3, "of another node nothing was told");
}

Test(breach_ledger, a_node_that_went_is_new_when_it_comes_back)
{
    breach_ledger_note(ledger, "n1", &device);
    breach_ledger_forget(ledger, "n1");
    breach_ledger_forget(ledger, "n2");
    cr_expect_eq(news("n1", 0), 3);
}
