/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define SHOWN_BYTES 64
/* The years 0000 to 9999, because a year has four digits. */
#define MIN_MS INT64_C(-62167219200000)
#define MAX_MS INT64_C(253402300799999)

/* Reads count digits at *s and the separator after them (0: none), advancing *s. */
static bool take_number(const char **s, int count, char separator, int *ret)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (!isdigit((unsigned char)**s))
            return false;
        n = 10 * n + (*(*s)++ - '0');
    }
    *ret = n;
    return !separator || *(*s)++ == separator;
}

static bool take_date(const char **s, struct tm *tm)
{
    return take_number(s, 4, '-', &tm->tm_year) && take_number(s, 2, '-', &tm->tm_mon) &&
           take_number(s, 2, 'T', &tm->tm_mday);
}

static bool take_time(const char **s, struct tm *tm)
{
    return take_number(s, 2, ':', &tm->tm_hour) && take_number(s, 2, ':', &tm->tm_min) &&
           take_number(s, 2, 0, &tm->tm_sec);
}

/* An optional fraction of a second; digits finer than a millisecond are dropped. */
static bool take_fraction(const char **s, int *ret_ms)
{
    *ret_ms = 0;
    if (**s != '.')
        return true;
    const char *first = ++*s;
    for (int weight = 100; isdigit((unsigned char)**s); weight /= 10)
        *ret_ms += weight * (*(*s)++ - '0');
    return *s > first;
}

static bool take_offset(const char **s, int *ret_minutes)
{
    *ret_minutes = 0;
    char sign = *(*s)++;
    if (sign == 'Z')
        return true;
    int hours;
    int minutes;
    if ((sign != '+' && sign != '-') || !take_number(s, 2, ':', &hours) ||
        !take_number(s, 2, 0, &minutes) || hours > 23 || minutes > 59)
        return false;
    *ret_minutes = (sign == '-' ? -1 : 1) * (60 * hours + minutes);
    return true;
}

/* timegm normalises dates that do not exist (30 February), so such a date comes back changed. */
static bool to_seconds(const struct tm *given, int64_t *ret_s)
{
    struct tm tm = {.tm_year = given->tm_year - 1900,
                    .tm_mon = given->tm_mon - 1,
                    .tm_mday = given->tm_mday,
                    .tm_hour = given->tm_hour,
                    .tm_min = given->tm_min,
                    .tm_sec = given->tm_sec};
    *ret_s = timegm(&tm);
    return tm.tm_mon == given->tm_mon - 1 && tm.tm_mday == given->tm_mday &&
           tm.tm_hour == given->tm_hour && tm.tm_min == given->tm_min && tm.tm_sec == given->tm_sec;
}

int rfc3339_parse(const char *s, int64_t *ret_ms, struct err *e)
{
    const char *at = s;
    struct tm tm = {0};
    int ms;
    int offset_minutes;
    int64_t seconds;
    if (!take_date(&at, &tm) || !take_time(&at, &tm) || !take_fraction(&at, &ms) ||
        !take_offset(&at, &offset_minutes) || *at || !to_seconds(&tm, &seconds))
        return err_set(e, ERR_INVALID, "\"%.*s\" is not an RFC 3339 time", SHOWN_BYTES, s);
    *ret_ms = 1000 * (seconds - INT64_C(60) * offset_minutes) + ms;
    return 0;
}

/* Writes date and time up to the seconds; returns the length and the remaining milliseconds. */
static size_t format_seconds(int64_t ms, char *buf, int *ret_rest_ms)
{
    if (ms < MIN_MS)
        ms = MIN_MS;
    if (ms > MAX_MS)
        ms = MAX_MS;
    int64_t rest = ms % 1000;
    if (rest < 0)
        rest += 1000;
    time_t seconds = (ms - rest) / 1000;
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    *ret_rest_ms = (int)rest;
    return (size_t)snprintf(buf, RFC3339_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900,
                            tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

int64_t rfc3339_or(const char *s, int64_t otherwise)
{
    int64_t ms;
    return s && rfc3339_parse(s, &ms, NULL) == 0 ? ms : otherwise;
}

char *rfc3339_format(int64_t ms, char *buf)
{
    int rest_ms;
    size_t len = format_seconds(ms, buf, &rest_ms);
    (void)snprintf(buf + len, RFC3339_BYTES - len, "Z");
    return buf;
}

char *rfc3339_format_micro(int64_t ms, char *buf)
{
    int rest_ms;
    size_t len = format_seconds(ms, buf, &rest_ms);
    (void)snprintf(buf + len, RFC3339_BYTES - len, ".%03d000Z", rest_ms);
    return buf;
}
