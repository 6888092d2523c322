/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/num.h"

/* Every long option is reported as this number plus its index in the table. */
enum { FIRST_CODE = 1000 };

static int set_switch(const struct option_def *d, const char *value, struct err *e)
{
    bool on = !value || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    if (!on && strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return err_set(e, ERR_INVALID, "--%s is true or false, not \"%s\"", d->name, value);
    if (d->on)
        *d->on = on;
    if (d->text)
        *d->text = on ? "true" : "false";
    return 0;
}

static int set(const struct option_def *d, const char *value, struct err *e)
{
    if (!d->value)
        return set_switch(d, value, e);
    *d->text = value;
    return 0;
}

static int from_environment(const struct option_def *defs, struct err *e)
{
    for (const struct option_def *d = defs; d->name; d++) {
        const char *value = d->env ? getenv(d->env) : NULL;
        if (value && *value)
            TRY(set(d, value, e));
    }
    return 0;
}

int options_number(const char *flag, const char *value, int64_t min, int64_t max, int64_t *ret,
                   struct err *e)
{
    return num_parse(value, min, max, ret, e) < 0 ? err_wrap(e, "--%s", flag) : 0;
}

int options_switch(const char *flag, const char *value, const char *on, bool *ret, struct err *e)
{
    *ret = strcmp(value, on) == 0;
    if (*ret || strcmp(value, "off") == 0)
        return 0;
    return err_set(e, ERR_INVALID, "--%s is \"%s\", neither %s nor off", flag, value, on);
}

int options_check_utf8(const char *what, const char *value, struct err *e)
{
    auto_json json_t *text = json_string(value);
    return text ? 0 : err_set(e, ERR_INVALID, "%s is not UTF-8", what);
}

/* A table of flags as getopt_long takes it. */
struct getopt_table {
    struct option longs[OPTIONS_MAX + 1];
    char letters[2 * OPTIONS_MAX + 3];
};

static void list_options(const struct option_def *defs, bool until_operand, struct getopt_table *t)
{
    size_t n = 0;
    struct option *ret = t->longs;
    char *letters = t->letters;
    if (until_operand)
        *letters++ = '+';
    *letters++ = ':'; /* so that getopt distinguishes a missing value from an unknown flag */
    for (; defs[n].name; n++) {
        assert(n < OPTIONS_MAX);
        ret[n] = (struct option){.name = defs[n].name,
                                 .has_arg = defs[n].value ? required_argument : optional_argument,
                                 .val = FIRST_CODE + (int)n};
        if (!defs[n].letter)
            continue;
        *letters++ = defs[n].letter;
        if (defs[n].value)
            *letters++ = ':';
    }
    *letters = '\0';
    ret[n] = (struct option){0};
}

static int take_operands(int argc, char **argv, const char **operands, size_t max, size_t *ret_n,
                         struct err *e)
{
    size_t n = 0;
    for (int i = optind; i < argc; i++) {
        if (n == max)
            return err_set(e, ERR_INVALID, "unexpected argument \"%s\"; see --help", argv[i]);
        operands[n++] = argv[i];
    }
    *ret_n = n;
    return 0;
}

static const struct option_def *find_option(const struct option_def *defs, int code)
{
    if (code >= FIRST_CODE)
        return &defs[code - FIRST_CODE];
    for (const struct option_def *d = defs; d->name; d++)
        if (d->letter == code && code != '?')
            return d;
    return NULL;
}

/* An error that names the flag that getopt_long has refused. A long flag that it does not know
 * (optopt is 0) is named by the whole word, which is the last that getopt_long has read. */
static int refuse(const struct option_def *defs, char **argv, const char *before, const char *after,
                  struct err *e)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    bool is_long = optopt >= FIRST_CODE;
    const char *word = is_long  ? defs[optopt - FIRST_CODE].name
                       : optopt ? letter
                                : argv[optind - 1];
    return err_set(e, ERR_INVALID, "%s%s%s%s; see --help", before, is_long ? "--" : "", word,
                   after);
}

/* The value of a flag, without the equals sign with which getopt_long leaves that of -o=json; that
 * of -o =json is a word of its own, and keeps its sign. */
static const char *value_given(int code, char **argv)
{
    bool is_joined = optarg && code < FIRST_CODE && optarg != argv[optind - 1];
    return is_joined && *optarg == '=' ? optarg + 1 : optarg;
}

/* Notes that the flag was given; a second time is an error where its row says so. */
static int count(const struct option_def *d, struct err *e)
{
    if (!d->value || !d->on)
        return 0;
    if (*d->on)
        return err_set(e, ERR_INVALID, "--%s can be given once only", d->name);
    *d->on = true;
    return 0;
}

int options_parse(const struct option_def *defs, int argc, char **argv, const char **operands,
                  size_t max, size_t *ret_n, struct err *e)
{
    struct getopt_table t;
    list_options(defs, /* until_operand= */ false, &t);
    TRY(from_environment(defs, e));
    optind = 0; /* glibc: starts over, permuting operands to the end */
    for (;;) {
        int code = getopt_long(argc, argv, t.letters, t.longs, NULL);
        if (code == -1)
            return take_operands(argc, argv, operands, max, ret_n, e);
        if (code == ':')
            return refuse(defs, argv, "", " needs a value", e);
        const struct option_def *d = find_option(defs, code);
        if (!d)
            return refuse(defs, argv, "unknown flag ", "", e);
        TRY(count(d, e));
        TRY(set(d, value_given(code, argv), e));
    }
}

int options_first_operand(const struct option_def *defs, int argc, char **argv)
{
    struct getopt_table t;
    list_options(defs, /* until_operand= */ true, &t);
    optind = 0;
    while (getopt_long(argc, argv, t.letters, t.longs, NULL) != -1)
        continue;
    return optind;
}

static void print_flag(const struct option_def *d)
{
    char left[64];
    const char letter[] = {'-', d->letter, ',', ' ', '\0'};
    (void)snprintf(left, sizeof(left), "%s--%s%s%s", d->letter ? letter : "", d->name,
                   d->value ? " " : "", d->value ? d->value : "");
    (void)printf("  %-28s %s", left, d->help);
    if (d->value && *d->text && **d->text)
        (void)printf(" (%s)", *d->text);
    if (d->env)
        (void)printf(" [$%s]", d->env);
    (void)putchar('\n');
}

void options_help(const char *usage, const char *what, const struct option_def *defs)
{
    (void)printf("usage: %s\n\n%s\n\n", usage, what);
    for (const struct option_def *d = defs; d->name; d++)
        print_flag(d);
}
