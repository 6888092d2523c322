/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_upload.h"

static char mebibyte[HTTP_MAX_UPLOAD_BYTES];

Test(http_upload, a_length_within_the_bound_may_be_announced)
{
    static const char *const right[] = {NULL, "0", "1048576"};
    static const char *const wrong[] = {"1048577", "4294967296", "99999999999999999999", "-1", "x"};
    for (size_t i = 0; i < ARRAY_LEN(right); i++)
        cr_expect(http_upload_may_have(right[i]), "%s", right[i]);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        cr_expect_not(http_upload_may_have(wrong[i]), "%s", wrong[i]);
}

Test(http_upload, the_bytes_of_all_bodies_are_counted)
{
    struct uploads all = {.max_held = 10};
    struct upload first = {0};
    struct upload second = {0};
    cr_expect(http_upload_add(&all, &first, "abcdef", 6));
    cr_expect(http_upload_add(&all, &second, "gh", 2));
    cr_expect_eq(all.held, 8);
    cr_expect_str_eq(sb_str(&first.bytes), "abcdef");
    http_upload_done(&all, &first);
    http_upload_done(&all, &second);
    cr_expect_eq(all.held, 0);
}

Test(http_upload, what_exceeds_the_sum_is_dropped_and_leaves_the_others)
{
    struct uploads all = {.max_held = 10};
    struct upload first = {0};
    struct upload second = {0};
    cr_expect(http_upload_add(&all, &first, "abcdef", 6));
    cr_expect(http_upload_add(&all, &second, "gh", 2));
    cr_expect(http_upload_add(&all, &second, "ijk", 3));
    cr_expect_eq(second.fault, HTTP_UPLOAD_NO_ROOM);
    cr_expect_eq(all.held, 6);
    cr_expect(http_upload_add(&all, &second, "l", 1), "the rest is discarded");
    cr_expect_eq(all.held, 6);
    cr_expect_eq(first.fault, HTTP_UPLOAD_SOUND);
    http_upload_done(&all, &first);
    http_upload_done(&all, &second);
}

Test(http_upload, a_body_that_is_too_long_holds_nothing_and_must_end_soon)
{
    struct uploads all = {.max_held = 4UL * HTTP_MAX_UPLOAD_BYTES};
    struct upload u = {0};
    cr_expect(http_upload_add(&all, &u, mebibyte, sizeof(mebibyte)));
    cr_expect_eq(u.fault, HTTP_UPLOAD_SOUND);
    cr_expect(http_upload_add(&all, &u, "x", 1));
    cr_expect_eq(u.fault, HTTP_UPLOAD_TOO_LONG);
    cr_expect_eq(all.held, 0);
    cr_expect(http_upload_add(&all, &u, mebibyte, sizeof(mebibyte) - 1));
    cr_expect_not(http_upload_add(&all, &u, "x", 1));
    cr_expect_eq(all.held, 0);
    http_upload_done(&all, &u);
}
