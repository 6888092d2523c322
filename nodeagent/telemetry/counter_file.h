/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "nodeagent/telemetry/dcgm_fields.h"

/*
 * The list of the metrics that the page of telemetry has: built in, or from a file as dcgm-exporter
 * has it.
 * A line of the file is a field, its type (gauge, counter or label) and a text, with commas between
 * (CSV; a text with commas stands in quotes). Blank lines and those that begin with # are comments.
 * Source: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv and
 * internal/pkg/counters/counter_config.go. Pure, but for counter_list_load.
 */
enum {
    COUNTER_FILE_MAX_BYTES = 256 << 10,
    COUNTER_FILE_MAX_LINE = 4096,
    COUNTER_FILE_MAX = 512,
};

struct counter {
    const struct dcgm_field *field;
    bool is_counter; /* else a gauge */
    char *help;
};

/* A line that is passed over. */
struct counter_notice {
    size_t line;
    char *name;
    const char *why; /* static */
};

/* Owned: counter_list_done. */
struct counter_list {
    struct counter *items; /* each field once, in the order of the file */
    size_t n;
    bool has_driver_version; /* as a label of all metrics */
    struct counter_notice *notices;
    size_t n_notices;
};

/* Adds a field with its own type and text. */
void counter_list_add(struct counter_list *l, const struct dcgm_field *f);
/* The built-in list. */
void counter_list_default(struct counter_list *ret);
/* Reads the text of a file. A field that is not measured here, or stands there twice, is passed
 * over with a notice. ERR_INVALID names the line; ERR_TOO_LARGE. */
int counter_list_parse(const char *text, size_t len, struct counter_list *ret,
                       struct err *e) MUST_CHECK;
/* Reads a file. Errors name it; those of file_read, too. */
int counter_list_load(const char *path, struct counter_list *ret, struct err *e) MUST_CHECK;
/* The set of values that the counters show (TELEMETRY_BIT). */
uint64_t counter_list_values(const struct counter_list *l);
void counter_list_done(struct counter_list *l);
AUTO_DEFINE(counter_list, struct counter_list, counter_list_done)
#define auto_counter_list AUTO(counter_list)
