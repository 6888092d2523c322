/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "nodeagent/offer/replica_choice.h"

/*
 * A node is written as text, a word a card, a letter a replica: "." available, "x" granted, "!"
 * available and required. The answer is the same text with "+" for what was chosen.
 */

enum { MOST = 256 };

static size_t parse(const char *text, struct replica *replicas)
{
    size_t n = 0;
    uint8_t card = 0;
    for (const char *c = text; *c; c++) {
        if (*c == ' ') {
            card++;
            continue;
        }
        replicas[n] = (struct replica){.card = card,
                                       .device = (uint16_t)n,
                                       .available = *c != 'x',
                                       .required = *c == '!'};
        n++;
    }
    return n;
}

static void expect_choice(const char *before, enum replica_policy policy, size_t size,
                          const char *after)
{
    struct replica replicas[MOST];
    bool chosen[MOST];
    char drawn[MOST * 2];
    size_t n = parse(before, replicas);
    const struct replica_question q = {.replicas = replicas,
                                       .n = n,
                                       .size = size,
                                       .policy = policy};
    auto_err struct err e = {0};
    cr_assert_eq(replica_choice(&q, chosen, &e), 0, "%s", err_msg(&e));
    (void)snprintf(drawn, sizeof(drawn), "%s", before);
    size_t at = 0;
    for (char *c = drawn; *c; c++)
        if (*c != ' ' && chosen[at++])
            *c = '+';
    cr_expect_str_eq(drawn, after, "%zu of %s: %s, not %s", size, before, drawn, after);
}

Test(replica_choice, distributed_takes_from_the_card_that_gave_least)
{
    expect_choice("x... .... xx..", REPLICAS_DISTRIBUTED, 1, "x... +... xx..");
    expect_choice("x... .... xx..", REPLICAS_DISTRIBUTED, 3, "x+.. ++.. xx..");
    expect_choice(".... .... ....", REPLICAS_DISTRIBUTED, 3, "+... +... +...");
    expect_choice(".... .... ....", REPLICAS_DISTRIBUTED, 5, "++.. ++.. +...");
    expect_choice("!!.. .... xx..", REPLICAS_DISTRIBUTED, 3, "++.. +... xx..");
    expect_choice("x. xxx.... x.", REPLICAS_DISTRIBUTED, 3, "x+ xxx+... x+");
}

Test(replica_choice, packed_begins_no_card_while_others_have_room)
{
    expect_choice(".... x... xxx.", REPLICAS_PACKED, 1, ".... x... xxx+");
    expect_choice(".... x... xxx.", REPLICAS_PACKED, 2, ".... x++. xxx.");
    expect_choice(".... x... xxx.", REPLICAS_PACKED, 4, ".... x+++ xxx+");
    expect_choice(".... x... xxxx", REPLICAS_PACKED, 3, ".... x+++ xxxx");
    expect_choice(".. .... ...", REPLICAS_PACKED, 3, ".. .... +++");
}

Test(replica_choice, packed_takes_one_card_that_has_room_for_all)
{
    expect_choice("xxx. .... ....", REPLICAS_PACKED, 4, "xxx. ++++ ....");
    expect_choice("x. x... x..", REPLICAS_PACKED, 3, "x. x+++ x..");
    expect_choice("x. x.... x...", REPLICAS_PACKED, 5, "x+ x++++ x...");
    expect_choice(".... !... ....", REPLICAS_PACKED, 3, ".... +++. ....");
}

Test(replica_choice, what_is_granted_under_other_names_counts_for_its_card)
{
    static const uint16_t elsewhere[GPU_MAX_CARDS] = {0, 2, 0};
    struct replica replicas[MOST];
    bool chosen[MOST];
    struct replica_question q = {.replicas = replicas, .size = 1, .elsewhere = elsewhere};
    q.n = parse(".. .. ..", replicas);
    q.policy = REPLICAS_PACKED;
    cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
    cr_expect(chosen[2]);
    q.size = 4;
    q.policy = REPLICAS_DISTRIBUTED;
    cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
    cr_expect(chosen[0] && chosen[1] && chosen[4] && chosen[5]);
}

/* Two partitions of one card, with three replicas each. */
Test(replica_choice, replicas_of_one_card_are_spread_over_its_partitions_or_kept_on_one)
{
    struct replica replicas[MOST];
    bool chosen[MOST];
    struct replica_question q = {.replicas = replicas, .size = 2};
    q.n = parse("x.....", replicas);
    for (size_t i = 0; i < q.n; i++)
        replicas[i].device = (uint16_t)(i / 3);
    q.policy = REPLICAS_DISTRIBUTED;
    cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
    cr_expect(chosen[3] && chosen[1]);
    q.policy = REPLICAS_PACKED;
    cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
    cr_expect(chosen[1] && chosen[2]);
}

Test(replica_choice, what_cannot_be_is_refused_in_words)
{
    static const struct {
        const char *node;
        size_t size;
        const char *why;
    } wrong[] = {
        {"!!!. xx", 2, "3 are required"},
        {"..x. xx", 4, "only 3 available"},
        {"", 1, "only 0 available"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct replica replicas[MOST];
        bool chosen[MOST];
        auto_err struct err e = {0};
        struct replica_question q = {.replicas = replicas, .size = wrong[i].size};
        q.n = parse(wrong[i].node, replicas);
        cr_expect_eq(replica_choice(&q, chosen, &e), -ERR_INVALID);
        cr_expect(strstr(err_msg(&e), wrong[i].why), "%s", err_msg(&e));
    }
    struct replica taken = {.required = true};
    const struct replica_question q = {.replicas = &taken, .n = 1, .size = 1};
    bool chosen;
    cr_expect_eq(replica_choice(&q, &chosen, NULL), -ERR_INVALID);
}

static size_t random_node(struct rng *rng, struct replica *replicas, struct replica_question *q)
{
    size_t required = 0;
    size_t available = 0;
    q->n = rng_below(rng, MOST);
    for (size_t i = 0; i < q->n; i++) {
        unsigned device = (unsigned)rng_below(rng, q->n);
        replicas[i] = (struct replica){.card = (uint8_t)(device % 8),
                                       .device = (uint16_t)device,
                                       .available = rng_below(rng, 2)};
        replicas[i].required = replicas[i].available && rng_below(rng, 8) == 0;
        available += replicas[i].available;
        required += replicas[i].required;
    }
    q->size = required + rng_below(rng, available - required + 1);
    q->policy = rng_below(rng, 2) ? REPLICAS_PACKED : REPLICAS_DISTRIBUTED;
    return q->size;
}

Test(replica_choice, any_answer_is_a_fitting_subset_and_the_same_again)
{
    struct rng rng;
    rng_init(&rng, 1);
    for (unsigned round = 0; round < 500; round++) {
        struct replica replicas[MOST];
        bool chosen[MOST];
        bool again[MOST];
        struct replica_question q = {.replicas = replicas};
        size_t left = random_node(&rng, replicas, &q);
        cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
        for (size_t i = 0; i < q.n; i++) {
            cr_expect(!chosen[i] || replicas[i].available);
            cr_expect(chosen[i] || !replicas[i].required);
            left -= chosen[i];
        }
        cr_expect_eq(left, 0);
        cr_assert_eq(replica_choice(&q, again, NULL), 0);
        cr_expect_eq(memcmp(chosen, again, q.n * sizeof(bool)), 0);
    }
}

/* The most that one resource can have, and a pod that asks for half of it: the loop waits for the
 * answer (`make bench-preferred` measures it). */
Test(replica_choice, tens_of_thousands_of_replicas_are_spread_evenly)
{
    enum { REPLICAS = UINT16_MAX, WANTED = REPLICAS / 2 };
    auto_free struct replica *replicas = xcalloc(REPLICAS, sizeof(*replicas));
    auto_free bool *chosen = xcalloc(REPLICAS, sizeof(*chosen));
    size_t given[GPU_MAX_CARDS] = {0};
    for (size_t i = 0; i < REPLICAS; i++)
        replicas[i] = (struct replica){.card = (uint8_t)(i % GPU_MAX_CARDS),
                                       .device = (uint16_t)(i % GPU_MAX_CARDS),
                                       .available = true};
    const struct replica_question q = {.replicas = replicas,
                                       .n = REPLICAS,
                                       .size = WANTED,
                                       .policy = REPLICAS_DISTRIBUTED};
    cr_assert_eq(replica_choice(&q, chosen, NULL), 0);
    for (size_t i = 0; i < REPLICAS; i++)
        given[replicas[i].card] += chosen[i];
    for (size_t c = 0; c < GPU_MAX_CARDS; c++)
        cr_expect(given[c] == WANTED / GPU_MAX_CARDS || given[c] == WANTED / GPU_MAX_CARDS + 1);
}
