/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sb.h"

#include "nodeagent/telemetry/dcgm_page.h"

/*
 * The sampler reads the telemetry of all cards once in an interval, on a thread of its own, and
 * writes the page. A scrape gets a copy of the last page, and causes no call into a library. After
 * a call that does not return, or a reading that fails, the page has the last values, marked stale.
 * A watchdog replaces a thread that has been in one call for two intervals, so that the other cards
 * are read; up to three calls may hang.
 */
struct sampler;

/* Borrowed for the sampler's life, but for the options themselves. */
struct sampler_options {
    struct gpu *gpu; /* its verb `measure` is not NULL */
    const struct clock *clk;
    int64_t interval_ms;
    const struct counter_list *counters;
    const char *host;
    enum dcgm_labels labels;
    enum hami_names hami;
    const char *proc_root; /* NULL: /proc */
};

struct sampler *sampler_new(const struct sampler_options *o);
/* Starts the thread and its watchdog. ERR_SYSTEM. */
int sampler_start(struct sampler *s, struct err *e) MUST_CHECK;
/* Takes over the node's cards and holders for the next reading. Any thread; never blocks. */
void sampler_show(struct sampler *s, struct telemetry_node *node_take);
/* One reading of all cards, and the page: what the thread does once in an interval. For tests, in
 * place of the thread. */
void sampler_round(struct sampler *s);
/* The page: a http_get_fn; arg is a struct sampler. Any thread. */
int sampler_page(void *arg, struct sb *body);
/* Stops the threads and frees the sampler, which happens before the gpu is freed. When a call does
 * not return within grace_ms, everything is left as it is, and *ret_abandoned (may be NULL) is
 * true: the process can exit. NULL allowed; returns NULL. */
struct sampler *sampler_free(struct sampler *s, int64_t grace_ms, bool *ret_abandoned);
