/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "reconcilers/records/intern.h"

Test(intern, equal_texts_are_one)
{
    char copy[] = "1g.10gb";
    const char *a = intern_text("1g.10gb");
    const char *b = intern_text(copy);
    const char *c = intern_text("2g.20gb");
    cr_expect_eq(a, b);
    cr_expect_neq(a, c);
    cr_expect_eq(intern_count(), 2);
    intern_drop(a);
    cr_expect_str_eq(b, "1g.10gb", "one of two references is gone");
    intern_drop(b);
    intern_drop(c);
    cr_expect_eq(intern_count(), 0);
}

Test(intern, null_is_null)
{
    cr_expect_null(intern_text(NULL));
    intern_drop(NULL);
}

Test(intern, bytes_may_hold_anything_and_are_aligned)
{
    const int64_t numbers[] = {0, 1, 0};
    const int64_t *shared = intern_bytes(numbers, sizeof(numbers));
    cr_expect_eq((uintptr_t)shared % _Alignof(max_align_t), 0);
    cr_expect_eq(memcmp(shared, numbers, sizeof(numbers)), 0);
    intern_drop(shared);
}

Test(intern, many_values_are_all_found_again)
{
    enum { MANY = 5000 };
    const char *texts[MANY];
    for (int i = 0; i < MANY; i++) {
        auto_free char *text = xasprintf("value %d", i);
        texts[i] = intern_text(text);
    }
    for (int i = 0; i < MANY; i++) {
        auto_free char *text = xasprintf("value %d", i);
        const char *again = intern_text(text);
        cr_assert_eq(again, texts[i]);
        intern_drop(again);
    }
    for (int i = 0; i < MANY; i++)
        intern_drop(texts[i]);
    cr_assert_eq(intern_count(), 0);
}
