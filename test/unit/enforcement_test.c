/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/enforcement.h"

/* The answer to terms of shares that ask for enforcement, of a node without the limiter and of one
 * that has it. */

static const struct enforcement_means bare, limits = {.library = true},
                                            new_driver = {.driver = true},
                                            both = {.library = true, .driver = true};
static const struct device_fractional asks_nothing = {.max_shares = 10};

#define MEMORY(word)                                                                               \
    {                                                                                              \
        .has_enforcement = true, .enforcement = {.has_memory = true, .memory = (word) }            \
    }
#define COMPUTE(word)                                                                              \
    {                                                                                              \
        .has_enforcement = true, .enforcement = {.has_compute = true, .compute = (word) }          \
    }

#define MPS(...)                                                                                   \
    {                                                                                              \
        .has_enforcement = true, .enforcement = {.has_compute = true, .compute = API_COMPUTE_MPS}, \
        __VA_ARGS__                                                                                \
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
        {{.memory_percent = 101,
          .has_enforcement = true,
          .enforcement = {.has_memory = true, .memory = API_MEMORY_DRIVER}},
         "memoryOversubscriptionPercent",
         "library, auto or none"},
        {MPS(.max_shares = 49), "maxShares", "48 or less"},
        {MPS(.has_qos_policy = true, .qos_policy = API_BURST_SHARE), "qosPolicy", "fixed-share"},
        {MPS(.has_qos_policy = true, .qos_policy = API_BEST_EFFORT), "qosPolicy", "fixed-share"},
        {{.has_enforcement = true,
          .enforcement = {.has_compute = true, .compute = API_COMPUTE_NONE},
          .has_qos_policy = true,
          .qos_policy = API_BURST_SHARE},
         "qosPolicy",
         "best-effort"},
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

Test(enforcement, what_exceeds_a_share_is_found_where_shares_have_limits)
{
    static const struct device_fractional terms[] = {
        {.has_on_exceed = true, .on_exceed = API_EXCEED_KILL},
        {.has_on_exceed = true, .on_exceed = API_EXCEED_REPORT},
    };
    for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
        struct device_fractional none = terms[i];
        none.has_enforcement = none.enforcement.has_memory = true;
        none.enforcement.memory = API_MEMORY_NONE;
        const char *why = enforcement_missing(&terms[i], &bare);
        cr_assert_not_null(why);
        cr_expect(strstr(why, "onExceed") && strstr(why, "enforcement.memory"), "%s", why);
        cr_expect_null(enforcement_missing(&terms[i], &limits));
        cr_expect_not_null(enforcement_missing(&none, &limits));
        cr_expect_null(enforcement_missing(&terms[i], &both));
        why = enforcement_missing(&terms[i], &new_driver);
        cr_assert_not_null(why);
        cr_expect(strstr(why, "onExceed") && strstr(why, "an agent that has it"), "%s", why);
    }
}

Test(enforcement, the_drivers_limits_are_refused_with_what_the_node_lacks)
{
    static const struct device_fractional driver = MEMORY(API_MEMORY_DRIVER);
    static const struct enforcement_means old = {.library = true, .driver_lacks = "it is old"};
    cr_expect_str_eq(enforcement_missing(&driver, &old), "it is old");
    const char *unknown = enforcement_missing(&driver, &bare);
    cr_assert_not_null(unknown);
    cr_expect(strstr(unknown, "not known yet") && strstr(unknown, "enforcement.memory"));
    cr_expect_null(enforcement_missing(&driver, &new_driver));
    cr_expect_null(enforcement_missing(&driver, &enforcement_anywhere));
}

/* Shares that together are more than the card would fail below their own limits. */
Test(enforcement, the_driver_holds_no_oversubscribed_memory)
{
    struct device_fractional terms = {.memory_percent = 150};
    cr_expect_null(enforcement_missing(&terms, &both));
    cr_expect_eq(enforcement_of_memory(&terms, &both), API_LEVEL_LIBRARY);
    cr_expect_eq(enforcement_of_memory(&terms, &new_driver), API_LEVEL_NONE);
    terms.memory_percent = 100;
    cr_expect_eq(enforcement_of_memory(&terms, &both), API_LEVEL_DRIVER);
}

Test(enforcement, memory_is_held_by_the_strongest_that_is_there_and_wanted)
{
    static const struct {
        struct device_fractional terms;
        enum api_level on_bare, on_limits, on_driver, on_both;
    } cases[] = {
#define NONE    API_LEVEL_NONE
#define LIBRARY API_LEVEL_LIBRARY
#define DRIVER  API_LEVEL_DRIVER
        {{.max_shares = 10}, NONE, LIBRARY, DRIVER, DRIVER},
        {COMPUTE(API_COMPUTE_NONE), NONE, LIBRARY, DRIVER, DRIVER},
        {MEMORY(API_MEMORY_AUTO), NONE, LIBRARY, DRIVER, DRIVER},
        {MEMORY(API_MEMORY_LIBRARY), NONE, LIBRARY, NONE, LIBRARY},
        {MEMORY(API_MEMORY_NONE), NONE, NONE, NONE, NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct device_fractional *t = &cases[i].terms;
        cr_expect_eq(enforcement_of_memory(t, &bare), cases[i].on_bare, "%zu", i);
        cr_expect_eq(enforcement_of_memory(t, &limits), cases[i].on_limits, "%zu", i);
        cr_expect_eq(enforcement_of_memory(t, &new_driver), cases[i].on_driver, "%zu", i);
        cr_expect_eq(enforcement_of_memory(t, &both), cases[i].on_both, "%zu", i);
    }
}

Test(enforcement, what_divides_compute_is_refused_where_the_node_has_nothing_that_does)
{
    static const struct {
        struct device_fractional terms;
        const char *named, *remedy;
    } cases[] = {
        {COMPUTE(API_COMPUTE_LIBRARY), "enforcement.compute", "auto or none"},
        {COMPUTE(API_COMPUTE_MPS), "MPS daemons", "library, auto or none"},
        {{.has_qos_policy = true, .qos_policy = API_FIXED_SHARE}, "qosPolicy", "best-effort"},
        {{.has_qos_policy = true, .qos_policy = API_BURST_SHARE}, "qosPolicy", "best-effort"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = enforcement_missing(&cases[i].terms, &bare);
        cr_assert_not_null(why, "%zu", i);
        cr_expect(strstr(why, cases[i].named) && strstr(why, cases[i].remedy), "%s", why);
        cr_expect_null(enforcement_missing(&cases[i].terms, &enforcement_anywhere), "%zu", i);
    }
}

/* MPS lets a fault of one container end the others'. */
Test(enforcement, only_a_profile_that_says_mps_gets_it)
{
    static const struct enforcement_means all = {.library = true, .driver = true, .mps = true};
    static const struct enforcement_means mps = {.mps = true};
    static const struct device_fractional terms[] = {COMPUTE(API_COMPUTE_AUTO),
                                                     COMPUTE(API_COMPUTE_LIBRARY),
                                                     COMPUTE(API_COMPUTE_NONE),
                                                     MPS(.max_shares = 48)};
    static const enum api_level on_all[] = {LIBRARY, LIBRARY, NONE, API_LEVEL_MPS};
    static const enum api_level on_mps[] = {NONE, NONE, NONE, API_LEVEL_MPS};
    for (size_t i = 0; i < ARRAY_LEN(terms); i++) {
        cr_expect_eq(enforcement_of_compute(&terms[i], &all), on_all[i], "%zu", i);
        cr_expect_eq(enforcement_of_compute(&terms[i], &mps), on_mps[i], "%zu", i);
        cr_expect_eq(enforcement_asks_for_mps(&terms[i]), i == 3, "%zu", i);
    }
}
