/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "test/unit/topologies_support.h"

/* The oracle looks at every set there is, by the rules of the header, in plain words. */

struct sums {
    long score, numa_pairs;
};

/* Of every subset of n cards. Caller frees. */
static struct sums *sums_of(const struct card_scores *s, unsigned n)
{
    struct sums *all = xcalloc((size_t)1 << n, sizeof(*all));
    for (uint64_t set = 1; set < 1ULL << n; set++) {
        unsigned low = (unsigned)__builtin_ctzll(set);
        all[set] = all[set & (set - 1)];
        for (unsigned i = low + 1; i < n; i++) {
            if (!(set >> i & 1))
                continue;
            all[set].score += s->pair[low][i];
            all[set].numa_pairs += s->numa[low] >= 0 && s->numa[low] == s->numa[i];
        }
    }
    return all;
}

static bool is_better(const struct sums *sums, uint64_t available, uint64_t a, uint64_t b)
{
    if (sums[a].score != sums[b].score)
        return sums[a].score > sums[b].score;
    if (sums[a].numa_pairs != sums[b].numa_pairs)
        return sums[a].numa_pairs > sums[b].numa_pairs;
    long rest_a = sums[available & ~a].score;
    long rest_b = sums[available & ~b].score;
    if (rest_a != rest_b)
        return rest_a > rest_b;
    return (a ^ b) && (a >> __builtin_ctzll(a ^ b) & 1);
}

/* The best sets of each size that hold the required cards, by size. */
static void oracle(const struct sums *sums, uint64_t available, uint64_t required, uint64_t *ret)
{
    bool found[GPU_MAX_CARDS + 1] = {false};
    uint64_t open = available & ~required;
    uint64_t part = open;
    do {
        uint64_t set = required | part;
        int size = __builtin_popcountll(set);
        if (!found[size] || is_better(sums, available, set, ret[size]))
            ret[size] = set;
        found[size] = true;
        part = (part - 1) & open;
    } while (part != open);
}

static uint64_t choose(const struct card_scores *s, uint64_t available, uint64_t required,
                       unsigned size)
{
    const struct card_question q = {.scores = s,
                                    .available = available,
                                    .required = required,
                                    .size = size};
    uint64_t chosen = 0;
    auto_err struct err e = {0};
    cr_assert_eq(card_choice(&q, &chosen, &e), 0, "%s", err_msg(&e));
    return chosen;
}

static void compare(const char *name, const struct card_scores *s, const struct sums *sums,
                    uint64_t available, uint64_t required)
{
    uint64_t best[GPU_MAX_CARDS + 1];
    int most = __builtin_popcountll(available);
    oracle(sums, available, required, best);
    for (int size = __builtin_popcountll(required); size <= most; size++) {
        uint64_t chosen = choose(s, available, required, (unsigned)size);
        cr_assert_eq(chosen, best[size], "%s: %d of %#lx with %#lx: %#lx, not %#lx", name, size,
                     available, required, best[size], chosen);
    }
}

/* --- by example --- */

static void scores_of(const char *name, struct card_scores *ret)
{
    for (const struct machine *m = machines_of_8; m->name; m++)
        if (strcmp(m->name, name) == 0)
            machine_scores(m, ret);
}

Test(card_choice, scores_are_those_of_the_reference)
{
    static const struct {
        enum gpu_level level;
        uint8_t links;
        uint16_t score;
    } pairs[] = {
        {GPU_LEVEL_SYSTEM, 0, 10},      {GPU_LEVEL_NODE, 0, 20},
        {GPU_LEVEL_HOST_BRIDGE, 0, 30}, {GPU_LEVEL_SWITCHES, 0, 40},
        {GPU_LEVEL_SWITCH, 0, 50},      {GPU_LEVEL_BOARD, 0, 60},
        {GPU_LEVEL_SYSTEM, 18, 1810},   {GPU_LEVEL_BOARD, 1, 160},
        {GPU_LEVEL_UNKNOWN, 2, 200},    {GPU_LEVEL_NODE, UINT8_MAX, 3620},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        struct card_scores s;
        auto_gpu_topology struct gpu_topology t;
        gpu_topology_init(&t, 2);
        *gpu_topology_at(&t, 0, 1) =
            (struct gpu_pair){.level = (uint8_t)pairs[i].level, .links = pairs[i].links};
        card_scores_init(&s, &t, (const int[]){-1, 0});
        cr_expect_eq(s.pair[0][1], pairs[i].score, "%zu: %u", i, s.pair[0][1]);
        cr_expect_eq(s.pair[1][0], pairs[i].score, "%zu", i);
        cr_expect_eq(s.pair[1][1], 0);
    }
}

Test(card_choice, numa_nodes_stand_for_a_way_that_is_not_known)
{
    struct card_scores s;
    auto_gpu_topology struct gpu_topology t;
    gpu_topology_init(&t, 4);
    card_scores_init(&s, &t, (const int[]){0, 0, 1, -1});
    cr_expect_eq(s.pair[0][1], 20);
    cr_expect_eq(s.pair[0][2], 10);
    cr_expect_eq(s.pair[0][3], 0);
}

Test(card_choice, two_cards_of_a_mesh_share_the_most_links)
{
    struct card_scores s;
    scores_of("cube mesh", &s);
    cr_expect_eq(choose(&s, 0xff, 0, 2), 1 << 2 | 1 << 3, "two links and one switch");
    cr_expect_eq(choose(&s, 0xff, 1 << 4, 2), 1 << 4 | 1 << 7);
    cr_expect_eq(choose(&s, 0xff, 0, 4), 0x0f);
}

/* Card 2 alone has no partner below its switch: who comes next still finds a pair. */
Test(card_choice, one_card_breaks_no_pair)
{
    struct card_scores s;
    scores_of("PCIe", &s);
    cr_expect_eq(choose(&s, 0x07, 0, 1), 1 << 2);
    cr_expect_eq(choose(&s, 0xf7, 0, 1), 1 << 2);
    cr_expect_eq(choose(&s, 0xff, 0, 1), 1 << 0);
}

Test(card_choice, one_numa_node_is_preferred_where_scores_tie)
{
    struct card_scores s;
    scores_of("NUMA tie", &s);
    cr_expect_eq(choose(&s, 0xfe, 0, 4), 0xf0);
    cr_expect_eq(choose(&s, 0xfe, 0, 3), 0x0e);
    cr_expect_eq(choose(&s, 0xff, 1 << 5, 2), 0x30);
}

Test(card_choice, what_cannot_be_is_refused_in_words)
{
    static const struct {
        struct card_question q;
        const char *why;
    } wrong[] = {
        {{.available = 0x0f, .required = 0x10, .size = 2}, "card 4 is required"},
        {{.available = 0x0f, .required = 0x07, .size = 2}, "3 cards are required"},
        {{.available = 0x0f, .required = 0x01, .size = 5}, "only 4 available"},
    };
    struct card_scores s;
    scores_of("PCIe", &s);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct card_question q = wrong[i].q;
        uint64_t chosen = 77;
        auto_err struct err e = {0};
        q.scores = &s;
        cr_expect_eq(card_choice(&q, &chosen, &e), -ERR_INVALID);
        cr_expect(strstr(err_msg(&e), wrong[i].why), "%s", err_msg(&e));
        cr_expect_eq(chosen, 77);
    }
}

/* --- against the oracle --- */

/* Whatever is available, whatever is required, whatever size. */
static void compare_all_of_8(const char *name, const struct card_scores *s)
{
    auto_free struct sums *sums = sums_of(s, 8);
    for (uint64_t available = 0; available < 256; available++) {
        uint64_t required = available;
        do {
            compare(name, s, sums, available, required);
            required = (required - 1) & available;
        } while (required != available);
    }
}

Test(card_choice, every_question_about_8_cards_has_the_best_answer)
{
    struct card_scores s;
    for (const struct machine *m = machines_of_8; m->name; m++) {
        machine_scores(m, &s);
        compare_all_of_8(m->name, &s);
    }
}

Test(card_choice, random_scores_of_8_cards_have_the_best_answer)
{
    struct card_scores s;
    for (unsigned seed = 0; seed < 6; seed++) {
        random_scores(8, 2 + seed * seed * 20, seed, &s);
        compare_all_of_8("random", &s);
    }
}

Test(card_choice, sixteen_cards_are_searched_to_the_end)
{
    struct card_scores s;
    for (const struct machine *m = machines_of_16; m->name; m++) {
        machine_scores(m, &s);
        auto_free struct sums *sums = sums_of(&s, 16);
        compare(m->name, &s, sums, 0xffff, 0);
        compare(m->name, &s, sums, 0xff7e, 0x0120);
    }
    for (unsigned seed = 0; seed < 4; seed++) {
        random_scores(16, seed % 2 ? 3000 : 3, seed, &s);
        auto_free struct sums *sums = sums_of(&s, 16);
        compare("random", &s, sums, 0xffff, 0);
    }
}

/* --- beyond --- */

Test(card_choice, sixty_four_cards_behind_switches_stay_on_one_node)
{
    struct card_scores s;
    machine_scores(&machine_of_64, &s);
    cr_expect_eq(choose(&s, UINT64_MAX, 0, 8), 0xff);
    cr_expect_eq(choose(&s, UINT64_MAX << 1, 0, 8), 0xff00);
    cr_expect_eq(choose(&s, UINT64_MAX << 1, 0, 7), 0xfe);
    cr_expect_eq(choose(&s, UINT64_MAX, 1ULL << 63, 2), 1ULL << 63 | 1ULL << 56);
    cr_expect_eq(choose(&s, UINT64_MAX, 0, 64), UINT64_MAX);
}

static long score_of(const struct card_scores *s, uint64_t set)
{
    long sum = 0;
    for (unsigned a = 0; a < GPU_MAX_CARDS; a++)
        for (unsigned b = 0; b < a; b++)
            sum += set >> a & set >> b & 1 ? s->pair[a][b] : 0;
    return sum;
}

Test(card_choice, any_answer_is_a_fitting_subset_and_the_same_again)
{
    struct rng rng;
    struct card_scores s;
    rng_init(&rng, 1);
    for (unsigned round = 0; round < 150; round++) {
        random_scores(GPU_MAX_CARDS, 1 + (unsigned)rng_below(&rng, 2000), round, &s);
        uint64_t available = rng_next(&rng) | rng_next(&rng);
        uint64_t required = available & rng_next(&rng) & rng_next(&rng) & rng_next(&rng);
        int least = __builtin_popcountll(required);
        int most = __builtin_popcountll(available);
        int size = least + (int)rng_below(&rng, (uint64_t)(most - least + 1));
        uint64_t chosen = choose(&s, available, required, (unsigned)size);
        cr_expect_eq(chosen & ~available, 0);
        cr_expect_eq(required & ~chosen, 0);
        cr_expect_eq(__builtin_popcountll(chosen), size);
        cr_expect_eq(choose(&s, available, required, (unsigned)size), chosen);
        if (size == least || size == most)
            continue;
        uint64_t lowest = required;
        for (uint64_t rest = available & ~required; __builtin_popcountll(lowest) < size;
             rest &= rest - 1)
            lowest |= rest & -rest;
        cr_expect_geq(score_of(&s, chosen), score_of(&s, lowest));
    }
}
