/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/rng.h"
#include "base/strmap.h"
#include "base/xalloc.h"

static int one = 1;
static int two = 2;

Test(strmap, keeps_what_was_put)
{
    auto_strmap struct strmap *m = strmap_new();
    cr_expect_null(strmap_get(m, "a"));
    cr_expect_null(strmap_put(m, "a", &one));
    cr_expect_eq(strmap_get(m, "a"), &one);
    cr_expect_eq(strmap_count(m), 1);
    cr_expect_eq(strmap_put(m, "a", &two), &one, "the value that was replaced");
    cr_expect_eq(strmap_get(m, "a"), &two);
    cr_expect_eq(strmap_count(m), 1);
    cr_expect_null(strmap_get(m, ""));
}

Test(strmap, copies_its_keys)
{
    auto_strmap struct strmap *m = strmap_new();
    char key[] = "abc";
    (void)strmap_put(m, key, &one);
    key[0] = 'x';
    cr_expect_eq(strmap_get(m, "abc"), &one);
    cr_expect_null(strmap_get(m, "xbc"));
}

Test(strmap, forgets_what_was_removed)
{
    auto_strmap struct strmap *m = strmap_new();
    cr_expect_null(strmap_remove(m, "a"));
    (void)strmap_put(m, "a", &one);
    (void)strmap_put(m, "b", &two);
    cr_expect_eq(strmap_remove(m, "a"), &one);
    cr_expect_null(strmap_remove(m, "a"));
    cr_expect_null(strmap_get(m, "a"));
    cr_expect_eq(strmap_get(m, "b"), &two);
    cr_expect_eq(strmap_count(m), 1);
}

Test(strmap, walks_each_entry_once_while_the_current_one_is_removed)
{
    auto_strmap struct strmap *m = strmap_new();
    enum { COUNT = 1000 };
    static char seen[COUNT];
    for (int i = 0; i < COUNT; i++) {
        auto_free char *key = xasprintf("key-%d", i);
        (void)strmap_put(m, key, &seen[i]);
    }
    const char *key;
    void *value;
    for (size_t pos = 0; strmap_next(m, &pos, &key, &value);) {
        char *mark = value;
        (*mark)++;
        if ((mark - seen) % 2)
            cr_assert_eq(strmap_remove(m, key), value);
    }
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(seen[i], 1, "%d was seen %d times", i, seen[i]);
    cr_expect_eq(strmap_count(m), COUNT / 2);
}

/* Random operations beside a plain array that cannot be wrong. */
Test(strmap, agrees_with_a_plain_model)
{
    enum { KEYS = 300, STEPS = 200000 };
    static int value;
    bool model[KEYS] = {false};
    auto_strmap struct strmap *m = strmap_new();
    struct rng rng;
    rng_init(&rng, 7);
    for (int step = 0; step < STEPS; step++) {
        size_t i = rng_below(&rng, KEYS);
        bool put = rng_below(&rng, 2);
        auto_free char *key = xasprintf("%zu", i);
        const void *before = put ? strmap_put(m, key, &value) : strmap_remove(m, key);
        cr_assert_eq(before != NULL, model[i]);
        model[i] = put;
        cr_assert_eq(strmap_get(m, key) != NULL, put);
    }
    size_t live = 0;
    for (size_t i = 0; i < KEYS; i++)
        live += model[i];
    cr_expect_eq(strmap_count(m), live);
}

Test(strmap, free_takes_null)
{
    cr_expect_null(strmap_free(NULL));
}
