/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#define TAG_PREFIX "tag:yaml.org,2002:"
#define DIGITS     "0123456789"

enum kind { KIND_NULL, KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_STR };

static const char *const kind_names[] = {"null", "bool", "int", "float", "str"};

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcmp(text, *words) != 0)
        words++;
    return *words;
}

static bool is_null(const char *text)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
    return is_one_of(text, words);
}

static bool is_true(const char *text)
{
    static const char *const words[] = {"true", "True", "TRUE", NULL};
    return is_one_of(text, words);
}

static bool is_false(const char *text)
{
    static const char *const words[] = {"false", "False", "FALSE", NULL};
    return is_one_of(text, words);
}

static const char *skip_sign(const char *text)
{
    return *text == '-' || *text == '+' ? text + 1 : text;
}

static bool is_all(const char *text, const char *of)
{
    return *text && !text[strspn(text, of)];
}

/* The base of an integer: 10, 8 or 16; 0: not an integer. */
static int base_of(const char *text)
{
    if (is_all(skip_sign(text), DIGITS))
        return 10;
    if (strncmp(text, "0o", 2) == 0 && is_all(text + 2, "01234567"))
        return 8;
    if (strncmp(text, "0x", 2) == 0 && is_all(text + 2, DIGITS "abcdefABCDEF"))
        return 16;
    return 0;
}

static bool is_special_float(const char *text)
{
    static const char *const infinite[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nan[] = {".nan", ".NaN", ".NAN", NULL};
    return is_one_of(skip_sign(text), infinite) || is_one_of(text, nan);
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text)
{
    text = skip_sign(text);
    size_t whole = strspn(text, DIGITS);
    text += whole;
    size_t fraction = *text == '.' ? strspn(text + 1, DIGITS) : 0;
    if (!whole && !fraction)
        return false;
    if (*text == '.')
        text += 1 + fraction;
    if (*text == 'e' || *text == 'E')
        return is_all(skip_sign(text + 1), DIGITS);
    return !*text;
}

static enum kind kind_of(const char *text)
{
    if (is_null(text))
        return KIND_NULL;
    if (is_true(text) || is_false(text))
        return KIND_BOOL;
    if (base_of(text))
        return KIND_INT;
    return is_float(text) || is_special_float(text) ? KIND_FLOAT : KIND_STR;
}

static json_t *to_int(const char *text, const char **ret_why)
{
    int base = base_of(text);
    errno = 0;
    long long n = strtoll(base == 10 ? text : text + 2, NULL, base);
    if (errno != ERANGE)
        return json_integer(n);
    *ret_why = "the integer does not fit 64 bits";
    return NULL;
}

static json_t *to_float(const char *text, const char **ret_why)
{
    double n = is_special_float(text) ? HUGE_VAL : strtod(text, NULL);
    if (isfinite(n))
        return json_real(n);
    *ret_why = "the number is infinite or none, which JSON cannot hold";
    return NULL;
}

static json_t *to_string(const struct yaml_scalar *s, const char **ret_why)
{
    json_t *value = memchr(s->text, '\0', s->len) ? NULL : json_stringn(s->text, s->len);
    if (!value)
        *ret_why = "the text holds a zero byte or is not UTF-8";
    return value;
}

static json_t *to_value(const struct yaml_scalar *s, enum kind kind, const char **ret_why)
{
    switch (kind) {
    case KIND_NULL:
        return json_null();
    case KIND_BOOL:
        return json_boolean(is_true(s->text));
    case KIND_INT:
        return to_int(s->text, ret_why);
    case KIND_FLOAT:
        return to_float(s->text, ret_why);
    case KIND_STR:
        break;
    }
    return to_string(s, ret_why);
}

/* The kind that a tag demands. False for tags without a JSON kind. */
static bool kind_by_tag(const char *tag, enum kind *ret)
{
    size_t skip = strlen(TAG_PREFIX);
    if (strncmp(tag, TAG_PREFIX, skip) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(kind_names); i++) {
        if (strcmp(tag + skip, kind_names[i]) != 0)
            continue;
        *ret = (enum kind)i;
        return true;
    }
    return false;
}

/* True when text that looks like one kind may be read as the kind that its tag demands. */
static bool fits(const char *text, enum kind looks, enum kind asked)
{
    return asked == KIND_STR || looks == asked || (asked == KIND_FLOAT && base_of(text) == 10);
}

json_t *yaml_scalar_resolve(const struct yaml_scalar *s, const char **ret_why)
{
    enum kind looks = strlen(s->text) == s->len ? kind_of(s->text) : KIND_STR;
    enum kind asked = s->plain ? looks : KIND_STR;
    if (s->tag && !kind_by_tag(s->tag, &asked)) {
        *ret_why = "a tag that JSON has no type for";
        return NULL;
    }
    if (!fits(s->text, looks, asked)) {
        *ret_why = "the value does not have the type of its tag";
        return NULL;
    }
    return to_value(s, asked, ret_why);
}

/* Words that YAML 1.1 readers read as booleans or nulls, in any case. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = {"y",  "n",   "yes",  "no",    "true",
                                        "on", "off", "null", "false", NULL};
    for (size_t i = 0; words[i]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

bool yaml_scalar_is_plain_string(const char *text)
{
    if (!isalpha((unsigned char)text[0]) && text[0] != '/' && text[0] != '_')
        return false;
    size_t len =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "-_./+ ()@$^~;");
    return !text[len] && text[len - 1] != ' ' && !is_reserved(text);
}
