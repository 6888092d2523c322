/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/auto.h"
#include "base/sb.h"

/*
 * Metrics in Prometheus' text format. A registry holds families; a family holds series, one for
 * each set of label values; a series is C11 atomics that any thread may change without a lock.
 * Callers look series up once, at set-up, and keep them. Bounded: at most METRICS_MAX_SERIES in a
 * family; all further ones share one series whose label values are "other".
 *
 *    struct metric *n = metrics_counter(m, "controller_runtime_reconcile_total", "Reconciles.",
 *                                       METRIC_LABELS("controller", "result"));
 *    struct metric_series *ok = METRIC_WITH(n, "gpuprofile", "success");
 *    metric_add(ok, 1);
 */
struct metrics;
struct metric;
struct metric_series;

#define METRICS_MAX_SERIES 1000
#define METRICS_MAX_LABELS 6

/* An empty registry. Caller frees with metrics_free. */
struct metrics *metrics_new(void);

/* Families. name, help and label names are literals; labels is NULL or NULL-terminated. The same
 * name gives the same family again. Any thread. Borrowed for the registry's life. */
struct metric *metrics_counter(struct metrics *m, const char *name, const char *help,
                               const char *const *labels);
/* The same of a time: values go in as microseconds, and are shown in seconds. */
struct metric *metrics_counter_seconds(struct metrics *m, const char *name, const char *help,
                                       const char *const *labels);
struct metric *metrics_gauge(struct metrics *m, const char *name, const char *help,
                             const char *const *labels);
/* bounds: ascending upper bounds in seconds, `count` of them; +Inf is added. At most 20. */
struct metric *metrics_histogram(struct metrics *m, const char *name, const char *help,
                                 const char *const *labels, const double *bounds, size_t count);
#define METRIC_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The series with these label values, created when new. values: as many as the family has labels;
 * copied. Any thread; takes a lock, so keep the result. Borrowed for the registry's life. */
struct metric_series *metric_series(struct metric *f, const char *const *values);
#define METRIC_WITH(family, ...)                                                                   \
    metric_series(family, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* Replaces all series of the family, a gauge or a counter, by these, each with the value 1: for facts
 * that come and go. rows: n times as many values as it has labels. Keep no series of such a family.
 * Any thread. */
void metric_facts(struct metric *f, const char *const *rows, size_t n);
/* The same with a value for each row; values NULL: 1. */
void metric_rows(struct metric *f, const char *const *rows, const int64_t *values, size_t n);

/* Counters and gauges. Any thread, lock-free. A counter only grows. */
void metric_add(struct metric_series *s, int64_t n);
void metric_set(struct metric_series *s, int64_t value);
int64_t metric_value(const struct metric_series *s);
/* Histograms: one observation in seconds. */
void metric_observe(struct metric_series *s, double seconds);
/* Called at each scrape before the text is written, in the scraping thread, to set gauges that are
 * computed on demand. Add it at set-up, before the first scrape. arg outlives the registry. */
typedef void metrics_collect_fn(void *arg);
void metrics_on_collect(struct metrics *m, metrics_collect_fn *fn, void *arg);

/* Appends a label's value as it stands between the quotes: for text that no family here has. */
void metrics_add_label_value(struct sb *out, const char *value);

/* Appends the text exposition (version 0.0.4), families in name order. Any thread. */
void metrics_write(struct metrics *m, struct sb *out);

/* NULL allowed; returns NULL. */
struct metrics *metrics_free(struct metrics *m);

AUTO_DEFINE_PTR(metrics, struct metrics, metrics_free)
#define auto_metrics AUTO_PTR(metrics)
