/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/mig_name.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Larger than any number that a driver prints, and small enough for four of them in
 * MIG_NAME_BYTES. */
#define LARGEST_NUMBER 9999
static_assert(sizeof("9999c.9999g.9999gb") + MIG_ATTR_BYTES <= MIG_NAME_BYTES, "names fit");

static bool take_text(const char **at, const char *text)
{
    size_t len = strlen(text);
    if (strncmp(*at, text, len) != 0)
        return false;
    *at += len;
    return true;
}

static bool take_number(const char **at, unsigned *ret)
{
    unsigned value = 0;
    const char *c = *at;
    for (; isdigit((unsigned char)*c) && value <= LARGEST_NUMBER; c++)
        value = value * 10 + (unsigned)(*c - '0');
    bool leading_zero = **at == '0' && c - *at > 1;
    if (c == *at || value > LARGEST_NUMBER || leading_zero)
        return false;
    *at = c;
    *ret = value;
    return true;
}

static bool is_attribute(const char *s, size_t len)
{
    if (len == 0 || !isalpha((unsigned char)s[0]) || s[len - 1] == '.')
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!isalnum((unsigned char)s[i]) && s[i] != '.')
            return false;
        if (s[i] == '.' && s[i - 1] == '.')
            return false;
    }
    return true;
}

/* True when the attribute of that length at s occurs before s in the list. */
static bool is_repeated(const char *list, const char *s, size_t len)
{
    for (const char *other = list; other < s; other += strcspn(other, ",") + 1) {
        if (strcspn(other, ",") == len && strncmp(other, s, len) == 0)
            return true;
    }
    return false;
}

/* The fault of a list of attributes without its sign; NULL: none. */
static const char *attribute_fault(const char *list)
{
    if (strlen(list) + 1 >= MIG_ATTR_BYTES)
        return "its attributes are too long";
    const char *s = list;
    for (;;) {
        size_t len = strcspn(s, ",");
        if (!is_attribute(s, len))
            return "an attribute is letters, digits and inner dots, such as +me or -me";
        if (is_repeated(list, s, len))
            return "it names an attribute twice";
        if (s[len] == '\0')
            return NULL;
        s += len + 1;
    }
}

/* Parses the attributes with their sign; plus is the character that means '+' in this spelling. */
static const char *parse_attributes(const char *at, char plus, struct mig_name *n)
{
    if (*at == '\0')
        return NULL;
    if (*at != plus && *at != '-')
        return "after the memory size come only attributes such as +me or -me";
    const char *fault = attribute_fault(at + 1);
    if (fault)
        return fault;
    assert(strlen(at) < MIG_ATTR_BYTES);
    n->attr[0] = *at == plus ? '+' : '-';
    memcpy(n->attr + 1, at + 1, strlen(at + 1) + 1);
    return NULL;
}

static const char *parse_shape(const char **at, struct mig_name *n)
{
    static const char expected[] = "expected a form such as 1g.10gb or 1c.3g.40gb";
    if (!take_number(at, &n->gi_slices))
        return expected;
    if (take_text(at, "c.")) {
        n->ci_slices = n->gi_slices;
        if (!take_number(at, &n->gi_slices))
            return expected;
        if (n->ci_slices == 0 || n->ci_slices > n->gi_slices)
            return "a compute instance has 1 slice or more and fits its GPU instance";
        if (n->ci_slices == n->gi_slices)
            n->ci_slices = 0;
    }
    if (!take_text(at, "g.") || !take_number(at, &n->gb) || !take_text(at, "gb"))
        return expected;
    return n->gi_slices == 0 ? "a GPU instance has 1 slice or more" : NULL;
}

static int parse(const char *s, char plus, struct mig_name *ret, struct err *e)
{
    struct mig_name n = {0};
    const char *at = s;
    (void)take_text(&at, "MIG "); /* as nvmlGpuInstanceProfileInfo_v2_t.name spells it */
    const char *fault = parse_shape(&at, &n);
    if (!fault)
        fault = parse_attributes(at, plus, &n);
    if (fault)
        return err_set(e, ERR_INVALID, "\"%.60s\" is no MIG profile name: %s", s, fault);
    *ret = n;
    return 0;
}

int mig_name_parse(const char *s, struct mig_name *ret, struct err *e)
{
    return parse(s, '+', ret, e);
}

int mig_name_parse_label(const char *s, struct mig_name *ret, struct err *e)
{
    return parse(s, '.', ret, e);
}

char *mig_name_format(const struct mig_name *n, char *buf)
{
    char prefix[16] = "";
    if (n->ci_slices && n->ci_slices != n->gi_slices)
        (void)snprintf(prefix, sizeof(prefix), "%uc.", n->ci_slices);
    int len = snprintf(buf, MIG_NAME_BYTES, "%s%ug.%ugb%s", prefix, n->gi_slices, n->gb, n->attr);
    if (len >= MIG_NAME_BYTES)
        buf[MIG_NAME_BYTES - 1] = '\0';
    return buf;
}

char *mig_name_format_label(const struct mig_name *n, char *buf)
{
    (void)mig_name_format(n, buf);
    for (char *c = buf; *c; c++) {
        if (*c == '+')
            *c = '.';
    }
    return buf;
}
