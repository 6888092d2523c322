/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/enforcement.h"

/* The answer to terms of shares that ask for enforcement, of a node without the limiter and of one
 * that has it. */

static const struct enforcement_means bare, limits = {.library = true};
static const struct device_fractional asks_nothing = {.max_shares = 10};

#define MEMORY(word)                                                                               \
    {                                                                                              \
        .has_enforcement = true, .enforcement = {.has_memory = true, .memory = (word) }            \
    }
#define COMPUTE(word)                                                                              \
    {                                                                                              \
        .has_enforcement = true, .enforcement = {.has_compute = true, .compute = (word) }          \
    }

Test(enforcement, whoever_asks_for_nothing_certain_has_what_there_is)
{
    const struct device_fractional terms[] = {MEMORY(API_MEMORY_AUTO),
                                              MEMORY(API_MEMORY_NONE),
                                              COMPUTE(API_COMPUTE_AUTO),
                                              COMPUTE(API_COMPUTE_NONE),
                                              {.has_qos_policy = true,
                                               .qos_policy = API_BEST_EFFORT},
                                              {.allow_disable = true},
                                              asks_nothing};
    for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
        cr_expect_null(enforcement_missing(&terms[i], &bare), "%zu", i);
        cr_expect_null(enforcement_missing(&terms[i], &limits), "%zu", i);
    }
}

Test(enforcement, what_is_asked_for_and_nowhere_yet_is_named_with_the_remedy)
{
    static const struct {
        struct device_fractional terms;
        const char *named, *remedy;
    } cases[] = {
        {MEMORY(API_MEMORY_DRIVER), "enforcement.memory", "library, auto or none"},
        {COMPUTE(API_COMPUTE_MPS), "enforcement.compute", "auto or none"},
        {{.has_on_exceed = true, .on_exceed = API_EXCEED_KILL}, "onExceed", "leave"},
        {{.has_on_exceed = true, .on_exceed = API_EXCEED_REPORT}, "onExceed", "leave"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = enforcement_missing(&cases[i].terms, &enforcement_anywhere);
        cr_assert_not_null(why, "%zu", i);
        cr_expect(strstr(why, cases[i].named) && strstr(why, cases[i].remedy), "%s", why);
    }
}

Test(enforcement, compute_is_divided_where_the_limiter_is_installed)
{
    static const struct {
        struct device_fractional terms;
        const char *named, *remedy;
    } cases[] = {
        {COMPUTE(API_COMPUTE_LIBRARY), "enforcement.compute", "auto or none"},
        {{.has_qos_policy = true, .qos_policy = API_FIXED_SHARE}, "qosPolicy", "best-effort"},
        {{.has_qos_policy = true, .qos_policy = API_BURST_SHARE}, "qosPolicy", "best-effort"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = enforcement_missing(&cases[i].terms, &bare);
        cr_assert_not_null(why, "%zu", i);
        cr_expect(strstr(why, cases[i].named) && strstr(why, cases[i].remedy), "%s", why);
        cr_expect_null(enforcement_missing(&cases[i].terms, &limits), "%zu", i);
        cr_expect_eq(enforcement_of_compute(&cases[i].terms, &limits), API_LEVEL_LIBRARY);
        cr_expect_eq(enforcement_of_compute(&cases[i].terms, &bare), API_LEVEL_NONE);
    }
}

Test(enforcement, the_limiter_is_refused_where_it_is_not_installed_alone)
{
    static const struct device_fractional library = MEMORY(API_MEMORY_LIBRARY);
    const char *why = enforcement_missing(&library, &bare);
    cr_assert_not_null(why);
    cr_expect(strstr(why, "not installed on this node") && strstr(why, "auto or none"), "%s", why);
    cr_expect_null(enforcement_missing(&library, &limits));
    cr_expect_null(enforcement_missing(&library, &enforcement_anywhere));
}

Test(enforcement, memory_is_held_by_the_limiter_unless_there_is_none_or_the_profile_wants_none)
{
    static const struct {
        struct device_fractional terms;
        enum api_level on_bare, on_limits;
    } cases[] = {
        {{.max_shares = 10}, API_LEVEL_NONE, API_LEVEL_LIBRARY},
        {COMPUTE(API_COMPUTE_NONE), API_LEVEL_NONE, API_LEVEL_LIBRARY},
        {MEMORY(API_MEMORY_AUTO), API_LEVEL_NONE, API_LEVEL_LIBRARY},
        {MEMORY(API_MEMORY_LIBRARY), API_LEVEL_NONE, API_LEVEL_LIBRARY},
        {MEMORY(API_MEMORY_NONE), API_LEVEL_NONE, API_LEVEL_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cr_expect_eq(enforcement_of_memory(&cases[i].terms, &bare), cases[i].on_bare, "%zu", i);
        cr_expect_eq(enforcement_of_memory(&cases[i].terms, &limits), cases[i].on_limits, "%zu", i);
    }
}
