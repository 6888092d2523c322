/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "partition/mig_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is accepted prints to a name that reads back as the same, in both spellings. */
static void check_round(const struct mig_name *n)
{
    char buf[MIG_NAME_BYTES];
    struct mig_name again = {0};
    int rc = mig_name_parse(mig_name_format(n, buf), &again, NULL);
    assert(rc == 0 && memcmp(n, &again, sizeof(again)) == 0);
    struct mig_name label = {0};
    rc = mig_name_parse_label(mig_name_format_label(n, buf), &label, NULL);
    assert(rc == 0 && memcmp(n, &label, sizeof(label)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    struct mig_name n = {0};
    auto_err struct err e = {0};
    if (mig_name_parse(text, &n, &e) == 0)
        check_round(&n);
    if (mig_name_parse_label(text, &n, &e) == 0)
        check_round(&n);
    return 0;
}
