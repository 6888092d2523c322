/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "partition/enforcement.h"

/* The answer to terms of shares that ask for enforcement, while there is none. */

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
                                              {.allow_disable = true}};
    cr_expect_null(enforcement_missing(&asks_nothing));
    for (size_t i = 0; i < ARRAY_LEN(terms); i++)
        cr_expect_null(enforcement_missing(&terms[i]), "%zu", i);
}

Test(enforcement, what_is_asked_for_and_not_there_is_named_with_the_remedy)
{
    static const struct {
        struct device_fractional terms;
        const char *named, *remedy;
    } cases[] = {
        {MEMORY(API_MEMORY_DRIVER), "enforcement.memory", "auto or none"},
        {MEMORY(API_MEMORY_LIBRARY), "enforcement.memory", "auto or none"},
        {COMPUTE(API_COMPUTE_MPS), "enforcement.compute", "auto or none"},
        {COMPUTE(API_COMPUTE_LIBRARY), "enforcement.compute", "auto or none"},
        {{.has_qos_policy = true, .qos_policy = API_FIXED_SHARE}, "qosPolicy", "best-effort"},
        {{.has_qos_policy = true, .qos_policy = API_BURST_SHARE}, "qosPolicy", "best-effort"},
        {{.has_on_exceed = true, .on_exceed = API_EXCEED_KILL}, "onExceed", "leave"},
        {{.has_on_exceed = true, .on_exceed = API_EXCEED_REPORT}, "onExceed", "leave"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *why = enforcement_missing(&cases[i].terms);
        cr_assert_not_null(why, "%zu", i);
        cr_expect(strstr(why, cases[i].named) && strstr(why, cases[i].remedy), "%s", why);
    }
}
