/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/log_options.h"

/* The flags that say what is logged. */

Test(log_options, the_words_that_are_allowed_set_the_log_up)
{
    struct log_options o = LOG_OPTIONS_DEFAULT;
    const struct option_def defs[] = {LOG_OPTIONS(&o), {0}};
    char *argv[] = {(char *)(uintptr_t) "x", (char *)(uintptr_t) "--log-level=error",
                    (char *)(uintptr_t) "--log-format=json", NULL};
    auto_err struct err e = {0};
    size_t n;
    cr_assert_eq(options_parse(defs, 3, argv, NULL, 0, &n, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(o.level, "error");
    cr_expect_str_eq(o.format, "json");
    cr_expect_eq(log_options_apply(&o, &e), 0, "%s", err_msg(&e));
}

Test(log_options, others_are_refused_by_name)
{
    const struct log_options wrong[] = {{"loud", "json"}, {"info", "xml"}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        auto_err struct err e = {0};
        cr_expect_eq(log_options_apply(&wrong[i], &e), -ERR_INVALID);
        cr_expect(strstr(err_msg(&e), i ? "xml" : "loud"), "%s", err_msg(&e));
    }
}
