/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 64

int num_parse(const char *s, int64_t min, int64_t max, int64_t *ret, struct err *e)
{
    const char *digits = s[0] == '-' ? s + 1 : s;
    bool decimal = digits[0] && !digits[strspn(digits, "0123456789")];
    errno = 0;
    long long n = strtoll(s, NULL, 10);
    if (!decimal || errno == ERANGE || n < min || n > max)
        return err_set(e, ERR_INVALID,
                       "\"%.*s\" is not a whole number from %" PRId64 " to %" PRId64, SHOWN_BYTES,
                       s, min, max);
    *ret = n;
    return 0;
}

int num_parse_hex32(const char *s, uint32_t *ret, struct err *e)
{
    int64_t n = 0;
    if (strncmp(s, "0x", 2) != 0 && strncmp(s, "0X", 2) != 0) {
        TRY(num_parse(s, 0, UINT32_MAX, &n, e));
        *ret = (uint32_t)n;
        return 0;
    }
    size_t len = strspn(s + 2, "0123456789abcdefABCDEF");
    if (len == 0 || s[2 + len])
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a hexadecimal number", SHOWN_BYTES, s);
    errno = 0;
    unsigned long long bits = strtoull(s + 2, NULL, 16);
    if (errno == ERANGE || bits > UINT32_MAX)
        return err_set(e, ERR_INVALID, "%.*s does not fit 32 bits", SHOWN_BYTES, s);
    *ret = (uint32_t)bits;
    return 0;
}
