/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Command-line flags as a table, over getopt_long: --name VALUE, --name=VALUE, -l VALUE, -l=VALUE,
 * or --name alone for a switch (--name=false turns it off). An environment variable may replace an
 * absent flag. For main and its commands only, because it reads the environment.
 */
struct option_def {
    const char *name;  /* without dashes; NULL ends the table */
    char letter;       /* short form; 0: none */
    const char *env;   /* variable read when the flag is absent; NULL: none */
    const char *value; /* placeholder in the help ("PATH"); NULL: a switch */
    const char *help;  /* one line */
    /* Target of a value; holds the default. For a switch, if not NULL: "true" or "false" when the
     * flag was given. */
    const char **text;
    /* The target of a switch; NULL: `text` is. A flag with a value sets it as well, and may be given
     * once then; NULL: the last one counts. */
    bool *on;
};

#define OPTIONS_MAX 64

/* Flags may stand before and after operands. operands gets up to max pointers into argv (all
 * borrowed). ERR_INVALID: unknown flag, missing value, too many operands; it names the word. */
int options_parse(const struct option_def *defs, int argc, char **argv, const char **operands,
                  size_t max, size_t *ret_n, struct err *e) MUST_CHECK;

/* The index of the first operand; argc: there is none. A flag that is not in the table counts as
 * one without a value. */
int options_first_operand(const struct option_def *defs, int argc, char **argv);

/* Reads the number that a flag has (named without dashes) as num_parse does. ERR_INVALID names
 * flag, value and range. */
int options_number(const char *flag, const char *value, int64_t min, int64_t max, int64_t *ret,
                   struct err *e) MUST_CHECK;

/* Reads the word that a flag has (named without dashes): `on`, or "off". ERR_INVALID names flag,
 * value and what is allowed. */
int options_switch(const char *flag, const char *value, const char *on, bool *ret,
                   struct err *e) MUST_CHECK;

/* ERR_INVALID unless the value, which becomes part of an object, is UTF-8: JSON can carry no other
 * text. what: the flag, for the message. */
int options_check_utf8(const char *what, const char *value, struct err *e) MUST_CHECK;

/* Prints the usage line, what the program does, and the table with its defaults to stdout. */
void options_help(const char *usage, const char *what, const struct option_def *defs);
