/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/subdomain.h"

Test(subdomain, labels_begin_and_end_with_a_letter_or_digit)
{
    static const char *const good[] = {"a", "0", "a-b", "a--b", "a.b", "1g.10gb", "a.b-c.d"};
    static const char *const bad[] = {"",     "A",    "a_b",  "-a",  "a-",  ".a",      "a.",
                                      "a..b", "a.-b", "a-.b", "a b", "a/b", "\xC3\xA4"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        cr_expect(subdomain_legal(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        cr_expect_not(subdomain_legal(bad[i]), "%s", bad[i]);
}

Test(subdomain, it_has_at_most_253_bytes)
{
    char name[SUBDOMAIN_MAX + 2] = {0};
    memset(name, 'a', SUBDOMAIN_MAX);
    cr_expect(subdomain_legal(name));
    name[SUBDOMAIN_MAX] = 'a';
    cr_expect_not(subdomain_legal(name));
}
