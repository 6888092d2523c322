/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"

#include "kubeclient/base64.h"

static void check(const char *text, const char *field)
{
    auto_free char *encoded = base64_encode(text, strlen(text));
    auto_free char *decoded = base64_decode_text(field);
    cr_expect_str_eq(encoded, field);
    cr_expect_str_eq(decoded, text);
}

Test(base64, what_was_encoded_is_decoded)
{
    check("a", "YQ==");
    check("ab", "YWI=");
    check("abc", "YWJj");
    check("abcd", "YWJjZA==");
}

Test(base64, blanks_and_ends_of_lines_do_not_count)
{
    auto_free char *decoded = base64_decode_text(" YW\nJj\r\n\tZA== ");
    cr_expect_str_eq(decoded, "abcd");
}

Test(base64, what_is_no_text_is_refused)
{
    static const char *const fields[] = {"", "=", "====", "Y", "YQ=", "Y!==", "AAAA", "YWIAYQ=="};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        cr_expect_null(base64_decode_text(fields[i]), "%s", fields[i]);
    auto_free char *nothing = base64_encode("", 0);
    cr_expect_str_eq(nothing, "");
}
