/* SPDX-License-Identifier: Apache-2.0 */
#include "golden_support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/sb.h"

#define MAX_GOLDEN_BYTES (1 << 20)

static void rewrite(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f, "%s cannot be written", path);
    (void)fputs(text, f);
    cr_assert_eq(fclose(f), 0);
}

void golden_check(const char *path, const char *text)
{
    auto_sb struct sb full = SB_INIT(4096);
    sb_addf(&full, "test/golden/%s", path);
    if (getenv("GOLDEN_REWRITE")) {
        rewrite(sb_str(&full), text);
        return;
    }
    auto_file FILE *f = fopen(sb_str(&full), "r");
    cr_assert_not_null(f, "no %s; `make golden` writes it", sb_str(&full));
    auto_sb struct sb have = SB_INIT(MAX_GOLDEN_BYTES);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof(block), f)) > 0;)
        sb_add_mem(&have, block, n);
    cr_assert_str_eq(text, sb_str(&have), "%s differs; `make golden` shows how", sb_str(&full));
}
