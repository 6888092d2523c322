/* SPDX-License-Identifier: Apache-2.0 */
#include "api/share_request.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

enum {
    ALL_PERCENT = 100,
    MIB_BITS = 20,
    LOWEST_PRIORITY = 1,
};

/* --- Values --- */

/* -1: the container does not name the resource. */
static int value_of(const json_t *list, const char *resource, int64_t *ret, struct err *e)
{
    auto_err struct err why = {0};
    const json_t *value = json_object_get(list, resource);
    const char *text = json_string_value(value);
    *ret = -1;
    if (!value)
        return 0;
    if (json_is_integer(value))
        *ret = json_integer_value(value);
    else if (!text)
        return err_set(e, ERR_INVALID, "%s must be a whole number", resource);
    else if (quantity_parse(text, ret, &why) < 0)
        return err_set(e, ERR_INVALID, "%s: %s; write a whole number", resource, err_msg(&why));
    if (*ret < 0)
        return err_set(e, ERR_INVALID, "%s is %lld; write a number from 0 on", resource,
                       (long long)*ret);
    return 0;
}

static void warn(struct sb *warnings, const char *text)
{
    if (warnings)
        sb_addf(warnings, "%s%s", warnings->len ? "\n" : "", text);
}

/* A percentage, or -1 where none is given. */
static int percent_of(const json_t *list, const char *resource, int64_t *ret, struct sb *warnings,
                      struct err *e)
{
    TRY(value_of(list, resource, ret, e));
    if (*ret <= ALL_PERCENT)
        return 0;
    auto_free char *text =
        xasprintf("%s is %lld, and counts as 100 percent", resource, (long long)*ret);
    warn(warnings, text);
    *ret = ALL_PERCENT;
    return 0;
}

/* "3Gi" is three thousand million, and "16Mi" 16 million: they would be that many MiB. */
static int memory_of(const json_t *list, int64_t *ret, struct err *e)
{
    TRY(value_of(list, SHARE_MEMORY, ret, e));
    if (*ret <= SHARE_MAX_MIB)
        return 0;
    const char *text = json_string_value(json_object_get(list, SHARE_MEMORY));
    return err_set(e, ERR_INVALID, SHARE_MEMORY " is %s%s%lld, and counts MiB: write %lld",
                   text ? text : "", text ? ", which is " : "", (long long)*ret,
                   (long long)(*ret >> MIB_BITS));
}

/* --- The rules --- */

static int count_of(const json_t *list, bool asks_for_part, unsigned *ret, struct sb *warnings,
                    struct err *e)
{
    int64_t n = 0;
    TRY(value_of(list, SHARE_COUNT, &n, e));
    if (n > SHARE_MAX_COUNT)
        return err_set(e, ERR_INVALID, SHARE_COUNT " is %lld; a node has at most %d shares",
                       (long long)n, SHARE_MAX_COUNT);
    if (!n && asks_for_part)
        warn(warnings, SHARE_COUNT " is 0: memory and compute beside it do not count");
    *ret = n >= 0 ? (unsigned)n : asks_for_part;
    return 0;
}

static int priority_of(const json_t *list, int *ret, struct sb *warnings, struct err *e)
{
    int64_t n = 0;
    TRY(value_of(list, SHARE_PRIORITY, &n, e));
    if (n > LOWEST_PRIORITY) {
        warn(warnings, SHARE_PRIORITY " is 0 (high) or 1 (low); a larger value counts as 1");
        n = LOWEST_PRIORITY;
    }
    *ret = (int)n;
    return 0;
}

/* Values of 0 say nothing. */
static void set_sizes(int64_t mib, int64_t percent, int64_t compute, struct sb *warnings,
                      struct share_request *ret)
{
    bool alone = mib <= 0 && (percent <= 0 || percent == ALL_PERCENT);
    if (mib > 0 && percent > 0)
        warn(warnings, SHARE_MEMORY " counts, and " SHARE_MEMORY_PERCENT " beside it does not");
    ret->memory_mib = mib > 0 ? (unsigned)mib : 0;
    ret->memory_percent = mib > 0 ? 0 : (unsigned)(percent > 0 ? percent : ALL_PERCENT);
    if (compute >= 0)
        ret->compute = (unsigned)compute;
    else
        ret->compute = alone ? ALL_PERCENT : 0;
}

int share_request_of(const json_t *container, struct share_request *ret, struct sb *warnings,
                     struct err *e)
{
    const json_t *list = JX_AT(container, "resources", "limits");
    struct share_request r = {.priority = -1};
    int64_t mib = 0;
    int64_t percent = 0;
    int64_t compute = 0;
    if (!list)
        list = JX_AT(container, "resources", "requests");
    TRY(memory_of(list, &mib, e));
    TRY(percent_of(list, SHARE_MEMORY_PERCENT, &percent, warnings, e));
    TRY(percent_of(list, SHARE_COMPUTE, &compute, warnings, e));
    TRY(count_of(list, mib > 0 || percent > 0 || compute > 0, &r.count, warnings, e));
    TRY(priority_of(list, &r.priority, warnings, e));
    if (r.count)
        set_sizes(mib, percent, compute, warnings, &r);
    *ret = r;
    return 0;
}
