/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/options.h"

/* The flags of all programs that say what is logged, and how. Texts are borrowed. */
struct log_options {
    const char *level, *format;
};

#define LOG_OPTIONS_DEFAULT                                                                        \
    {                                                                                              \
        .level = "info", .format = "logfmt"                                                        \
    }

/* The flags, for a table of base/options.h. */
#define LOG_OPTIONS(o)                                                                             \
    {.name = "log-level",                                                                          \
     .value = "LEVEL",                                                                             \
     .text = &(o)->level,                                                                          \
     .help = "debug, info, warn or error"},                                                        \
    {                                                                                              \
        .name = "log-format", .value = "FORMAT", .text = &(o)->format, .help = "logfmt or json"    \
    }

/* Sets up the log by them, to standard error. ERR_INVALID: an unknown word; the log is as before. */
int log_options_apply(const struct log_options *o, struct err *e) MUST_CHECK;
