/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

#define SHOWN_BYTES 64
#define MAX_COUNT   1000000000 /* of one unit: sums stay far from overflow */

static int64_t unit_ms(const char *unit, size_t len)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strlen(units[i].name) == len && strncmp(units[i].name, unit, len) == 0)
            return units[i].ms;
    return 0;
}

/* Parses one number with its unit at *s, and advances *s. */
static int add_term(const char **s, int64_t *sum_ms, struct err *e)
{
    size_t digits = strspn(*s, "0123456789");
    const char *unit = *s + digits;
    size_t letters = strspn(unit, "abcdefghijklmnopqrstuvwxyz");
    auto_free char *number = xstrndup(*s, digits);
    int64_t count;
    int64_t each_ms = unit_ms(unit, letters);
    if (!each_ms)
        return err_set(e, ERR_INVALID, "a unit (h, m, s or ms) is missing");
    TRY(num_parse(number, 0, MAX_COUNT, &count, e));
    *sum_ms += count * each_ms;
    *s = unit + letters;
    return 0;
}

static int add_terms(const char *s, int64_t max_ms, int64_t *ret_ms, struct err *e)
{
    int64_t sum_ms = 0;
    do {
        TRY(add_term(&s, &sum_ms, e));
        if (sum_ms > max_ms)
            return err_set(e, ERR_INVALID, "it is more than %" PRId64 "ms", max_ms);
    } while (*s);
    *ret_ms = sum_ms;
    return 0;
}

int duration_parse(const char *s, int64_t min_ms, int64_t max_ms, int64_t *ret_ms, struct err *e)
{
    int64_t sum_ms = 0;
    if (add_terms(s, max_ms, &sum_ms, e) < 0)
        return err_wrap(e, "\"%.*s\" is no duration like 15s", SHOWN_BYTES, s);
    if (sum_ms < min_ms)
        return err_set(e, ERR_INVALID, "%.*s is less than %" PRId64 "ms", SHOWN_BYTES, s, min_ms);
    *ret_ms = sum_ms;
    return 0;
}
