/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* A page of metrics in Prometheus' text format (version 0.0.4), read sample by sample. Pure. */

/* More labels than a sample of any exporter has. */
enum { EXPOSITION_MAX_LABELS = 64 };

struct exposition_label {
    const char *name, *value;
};

/* Borrowed for the call. */
struct exposition_sample {
    const char *name;
    struct exposition_label labels[EXPOSITION_MAX_LABELS];
    size_t n;
    double value;
};

/* The value of a label; NULL: the sample has not got it. */
const char *exposition_label(const struct exposition_sample *s, const char *name);

/* A negative return ends the reading, which then returns it. */
typedef int exposition_fn(void *arg, const struct exposition_sample *s, struct err *e);

/* Calls fn for each sample. Comments, times and exemplars are passed over. The text is taken apart
 * in place. ERR_PROTOCOL names the line that is no sample. */
int exposition_each(char *text, exposition_fn *fn, void *arg, struct err *e) MUST_CHECK;
