/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

/*
 * Exact decimal arithmetic on an array of digits: quantities are written in decimal, scaled by
 * powers of ten (a shift of the point) or of 1024 (a short multiplication), and rounded once, at
 * the end.
 */
#define MAX_TEXT     64
#define MAX_DIGITS   (MAX_TEXT + 24) /* 1024^6 adds 19 digits */
#define MAX_EXPONENT 10000

struct decimal {
    bool negative;
    unsigned char digits[MAX_DIGITS]; /* most significant first */
    int count;
    int point; /* digits before the decimal point; may be negative or beyond count */
};

struct suffix {
    const char *text;
    int power_of_10, power_of_1024;
};

/* apimachinery pkg/api/resource/suffix.go */
static const struct suffix suffixes[] = {
    {"", 0, 0},   {"n", -9, 0}, {"u", -6, 0}, {"m", -3, 0}, {"k", 3, 0},  {"M", 6, 0},
    {"G", 9, 0},  {"T", 12, 0}, {"P", 15, 0}, {"E", 18, 0}, {"Ki", 0, 1}, {"Mi", 0, 2},
    {"Gi", 0, 3}, {"Ti", 0, 4}, {"Pi", 0, 5}, {"Ei", 0, 6},
};

/* Reads sign and digits; returns the rest, or NULL when there is no digit. */
static const char *take_digits(const char *s, struct decimal *d)
{
    d->negative = *s == '-';
    if (*s == '-' || *s == '+')
        s++;
    bool fraction = false;
    for (; isdigit((unsigned char)*s) || (*s == '.' && !fraction); s++) {
        if (*s == '.') {
            fraction = true;
            continue;
        }
        d->digits[d->count++] = (unsigned char)(*s - '0');
        if (!fraction)
            d->point++;
    }
    return d->count ? s : NULL;
}

static void multiply(struct decimal *d, unsigned factor)
{
    unsigned carry = 0;
    for (int i = d->count - 1; i >= 0; i--) {
        unsigned n = d->digits[i] * factor + carry;
        d->digits[i] = (unsigned char)(n % 10);
        carry = n / 10;
    }
    for (; carry; carry /= 10) {
        memmove(d->digits + 1, d->digits, (size_t)d->count++);
        d->digits[0] = (unsigned char)(carry % 10);
        d->point++;
    }
}

/* "e3", "E-6" and the like. */
static bool take_exponent(const char *s, int *ret)
{
    if (*s != 'e' && *s != 'E')
        return false;
    bool plus = s[1] == '+';
    s += plus ? 2 : 1;
    int64_t n;
    if ((plus && *s == '-') || num_parse(s, -MAX_EXPONENT, MAX_EXPONENT, &n, NULL) < 0)
        return false;
    *ret = (int)n;
    return true;
}

static bool scale(struct decimal *d, const char *suffix)
{
    int exponent;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        if (strcmp(suffixes[i].text, suffix) != 0)
            continue;
        for (int k = 0; k < suffixes[i].power_of_1024; k++)
            multiply(d, 1024);
        d->point += suffixes[i].power_of_10;
        return true;
    }
    if (!take_exponent(suffix, &exponent))
        return false;
    d->point += exponent;
    return true;
}

/* Appends a digit to *n; false on overflow of int64. */
static bool push_digit(uint64_t *n, unsigned digit)
{
    return !__builtin_mul_overflow(*n, UINT64_C(10), n) &&
           !__builtin_add_overflow(*n, (uint64_t)digit, n) && *n <= INT64_MAX;
}

/* Magnitude, rounded up when a digit after the point is not zero. */
static bool round_up(const struct decimal *d, uint64_t *ret)
{
    uint64_t n = 0;
    bool rest = false;
    int last = d->point > d->count ? d->point : d->count;
    for (int i = 0; i < last; i++) {
        unsigned digit = i < d->count ? d->digits[i] : 0;
        if (i >= d->point)
            rest = rest || digit;
        else if (!push_digit(&n, digit))
            return false;
    }
    *ret = n + rest;
    return *ret <= INT64_MAX;
}

int quantity_parse(const char *s, int64_t *ret, struct err *e)
{
    struct decimal d = {0};
    const char *suffix = strnlen(s, MAX_TEXT + 1) <= MAX_TEXT ? take_digits(s, &d) : NULL;
    if (!suffix || !scale(&d, suffix))
        return err_set(e, ERR_INVALID, "\"%.*s\" is not a quantity", MAX_TEXT, s);
    uint64_t n;
    if (!round_up(&d, &n))
        return err_set(e, ERR_TOO_LARGE, "%s is more than %" PRId64, s, INT64_MAX);
    *ret = d.negative ? -(int64_t)n : (int64_t)n;
    return 0;
}

char *quantity_format(int64_t value)
{
    return xasprintf("%" PRId64, value);
}

char *quantity_format_binary(int64_t value)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    size_t unit = 0;
    while (value && value % 1024 == 0 && unit + 1 < ARRAY_LEN(units)) {
        value /= 1024;
        unit++;
    }
    return xasprintf("%" PRId64 "%s", value, units[unit]);
}
