/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "reconcilers/told.h"

Test(told, a_text_is_news_when_it_is_the_first_or_another)
{
    auto_told struct told *t = told_new();
    cr_expect_eq(told_note(t, "n1", "a"), TOLD_FIRST);
    cr_expect_eq(told_note(t, "n1", "a"), TOLD_SAME);
    cr_expect_eq(told_note(t, "n2", "a"), TOLD_FIRST);
    cr_expect_eq(told_note(t, "n1", "b"), TOLD_OTHER);
    cr_expect_eq(told_note(t, "n1", "b"), TOLD_SAME);
}

Test(told, of_a_subject_that_was_forgotten_the_next_text_is_the_first)
{
    auto_told struct told *t = told_new();
    (void)told_note(t, "n1", "a");
    told_forget(t, "n1");
    told_forget(t, "n2");
    cr_expect_eq(told_note(t, "n1", "a"), TOLD_FIRST);
}
