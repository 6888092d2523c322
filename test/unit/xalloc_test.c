/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

static bool is_zero(const char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

Test(xalloc, memory_is_zeroed)
{
    auto_free char *a = xmalloc(1000);
    auto_free char *b = xcalloc(10, 100);
    cr_expect(is_zero(a, 1000) && is_zero(b, 1000));
    auto_free char *none = xmalloc(0);
    cr_expect_not_null(none);
}

/* By itself ASan ends the program where malloc would return NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static volatile size_t too_many = SIZE_MAX / 2;

Test(xalloc, aborts_when_memory_runs_out, .signal = SIGABRT)
{
    (void)freopen("/dev/null", "w", stderr);
    free(xreallocarray(NULL, too_many, 16));
}

Test(xalloc, strings_are_copies)
{
    cr_expect_null(xstrdup(NULL));
    auto_free char *part = xstrndup("abcdef", 3);
    cr_expect_str_eq(part, "abc");
    auto_free char *text = xasprintf("%d-%s", 7, "x");
    cr_expect_str_eq(text, "7-x");
    auto_free char *copy = xmemdup("a\0b", 3);
    cr_expect_eq(memcmp(copy, "a\0b", 3), 0);
}

Test(xalloc, a_slot_takes_a_string_from_itself_and_null)
{
    auto_free char *slot = NULL;
    xstr_set(&slot, "hello");
    xstr_set(&slot, slot + 2);
    cr_expect_str_eq(slot, "llo");
    xstr_set(&slot, NULL);
    cr_expect_null(slot);
}

Test(xalloc, a_descriptor_that_is_one_is_passed_on)
{
    cr_expect_eq(xfd(3), 3);
}

Test(xalloc, a_process_without_descriptors_ends, .signal = SIGABRT)
{
    errno = EMFILE;
    (void)xfd(-1);
}

Test(xalloc, pushing_appends_zeroed_elements)
{
    int64_t *items = NULL;
    size_t count = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t *fresh = XPUSH(items, count);
        cr_assert_eq(*fresh, 0);
        *fresh = i;
    }
    cr_assert_eq(count, 1000);
    for (int64_t i = 0; i < 1000; i++)
        cr_assert_eq(items[i], i);
    free(items);
}

Test(xalloc, pushing_goes_on_after_elements_were_dropped)
{
    int64_t *items = NULL;
    size_t count = 0;
    for (int round = 0; round < 200; round++) {
        *XPUSH(items, count) = round;
        *XPUSH(items, count) = round;
        count -= round % 3;
    }
    *XPUSH(items, count) = -1;
    cr_expect_eq(items[count - 1], -1);
    free(items);
}
