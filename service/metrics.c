/* SPDX-License-Identifier: Apache-2.0 */
#include "service/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

#define MAX_BOUNDS 20

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

/* Never moved, and freed only with the registry, so pointers to it stay valid without a lock. */
struct metric_series {
    const struct metric *family;
    char *labels; /* {a="b",c="d"} without the braces, "" without labels */
    _Atomic int64_t value;
    _Atomic int64_t sum_us;                  /* histograms */
    _Atomic int64_t buckets[MAX_BOUNDS + 1]; /* not cumulative; the last one is +Inf */
};

struct metric {
    const char *name, *help;
    enum metric_type type;
    bool is_time; /* values are microseconds */
    const char *labels[METRICS_MAX_LABELS];
    size_t label_count;
    double bounds[MAX_BOUNDS];
    size_t bound_count;
    pthread_mutex_t mu;
    /* guarded by mu */
    struct strmap *by_labels; /* text of the labels → struct metric_series */
    struct metric_series **series;
    size_t series_count;
};

struct collector {
    metrics_collect_fn *fn;
    void *arg;
};

struct metrics {
    pthread_mutex_t mu;
    /* guarded by mu; families are never removed */
    struct metric **families; /* in name order */
    size_t family_count;
    struct collector *collectors;
    size_t collector_count;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = xmalloc(sizeof(*m));
    (void)pthread_mutex_init(&m->mu, NULL);
    return m;
}

/* Families */

static struct metric *family_new(const char *name, const char *help, enum metric_type type,
                                 const char *const *labels)
{
    struct metric *f = xmalloc(sizeof(*f));
    f->name = name;
    f->help = help;
    f->type = type;
    for (; labels && labels[f->label_count]; f->label_count++) {
        assert(f->label_count < METRICS_MAX_LABELS);
        f->labels[f->label_count] = labels[f->label_count];
    }
    (void)pthread_mutex_init(&f->mu, NULL);
    f->by_labels = strmap_new();
    return f;
}

/* Index of the first family whose name is not before this one. */
static size_t index_of(const struct metrics *m, const char *name)
{
    size_t i = 0;
    while (i < m->family_count && strcmp(m->families[i]->name, name) < 0)
        i++;
    return i;
}

static struct metric *family(struct metrics *m, const char *name, const char *help,
                             enum metric_type type, const char *const *labels)
{
    HOLD(&m->mu);
    size_t at = index_of(m, name);
    if (at < m->family_count && strcmp(m->families[at]->name, name) == 0) {
        assert(m->families[at]->type == type);
        return m->families[at];
    }
    struct metric *f = family_new(name, help, type, labels);
    (void)XPUSH(m->families, m->family_count);
    memmove(&m->families[at + 1], &m->families[at],
            (m->family_count - at - 1) * sizeof(struct metric *));
    m->families[at] = f;
    return f;
}

struct metric *metrics_counter(struct metrics *m, const char *name, const char *help,
                               const char *const *labels)
{
    return family(m, name, help, COUNTER, labels);
}

struct metric *metrics_counter_seconds(struct metrics *m, const char *name, const char *help,
                                       const char *const *labels)
{
    struct metric *f = family(m, name, help, COUNTER, labels);
    HOLD(&f->mu);
    f->is_time = true;
    return f;
}

struct metric *metrics_gauge(struct metrics *m, const char *name, const char *help,
                             const char *const *labels)
{
    return family(m, name, help, GAUGE, labels);
}

struct metric *metrics_histogram(struct metrics *m, const char *name, const char *help,
                                 const char *const *labels, const double *bounds, size_t count)
{
    assert(count <= MAX_BOUNDS);
    struct metric *f = family(m, name, help, HISTOGRAM, labels);
    HOLD(&f->mu);
    if (!f->bound_count)
        memcpy(f->bounds, bounds, count * sizeof(*bounds));
    f->bound_count = count;
    return f;
}

/* Series */

static void add_escaped(struct sb *out, const char *s, bool quotes)
{
    for (; *s; s++) {
        if (*s == '\n')
            sb_add(out, "\\n");
        else if (*s == '\\' || (quotes && *s == '"'))
            sb_addf(out, "\\%c", *s);
        else
            sb_add_char(out, *s);
    }
}

void metrics_add_label_value(struct sb *out, const char *value)
{
    add_escaped(out, value, /* quotes= */ true);
}

static char *label_text(const struct metric *f, const char *const *values)
{
    auto_sb struct sb b = SB_INIT(4096);
    for (size_t i = 0; i < f->label_count; i++) {
        assert(values[i]);
        sb_addf(&b, "%s%s=\"", i ? "," : "", f->labels[i]);
        metrics_add_label_value(&b, values[i]);
        sb_add_char(&b, '"');
    }
    return sb_take(&b);
}

static struct metric_series *series_new(struct metric *f, const char *labels)
{
    struct metric_series *s = xmalloc(sizeof(*s));
    s->family = f;
    s->labels = xstrdup(labels);
    (void)strmap_put(f->by_labels, labels, s);
    *XPUSH(f->series, f->series_count) = s;
    return s;
}

static struct metric_series *series_locked(struct metric *f, const char *labels)
{
    struct metric_series *s = strmap_get(f->by_labels, labels);
    return s ? s : series_new(f, labels);
}

struct metric_series *metric_series(struct metric *f, const char *const *values)
{
    static const char *const other[METRICS_MAX_LABELS] = {"other", "other", "other",
                                                          "other", "other", "other"};
    auto_free char *labels = label_text(f, values);
    HOLD(&f->mu);
    if (f->series_count < METRICS_MAX_SERIES || strmap_get(f->by_labels, labels))
        return series_locked(f, labels);
    auto_free char *rest = label_text(f, other);
    return series_locked(f, rest);
}

void metric_rows(struct metric *f, const char *const *rows, const int64_t *values, size_t n)
{
    assert(f->type != HISTOGRAM);
    HOLD(&f->mu);
    for (size_t i = 0; i < f->series_count; i++) {
        free(f->series[i]->labels);
        free(f->series[i]);
    }
    f->series_count = 0;
    (void)strmap_free(f->by_labels);
    f->by_labels = strmap_new();
    for (size_t i = 0; i < n && i < METRICS_MAX_SERIES; i++) {
        auto_free char *labels = label_text(f, &rows[i * f->label_count]);
        atomic_store_explicit(&series_locked(f, labels)->value, values ? values[i] : 1,
                              memory_order_relaxed);
    }
}

void metric_facts(struct metric *f, const char *const *rows, size_t n)
{
    metric_rows(f, rows, /* values= */ NULL, n);
}

void metric_add(struct metric_series *s, int64_t n)
{
    assert(s->family->type != COUNTER || n >= 0);
    atomic_fetch_add_explicit(&s->value, n, memory_order_relaxed);
}

void metric_set(struct metric_series *s, int64_t value)
{
    assert(s->family->type == GAUGE);
    atomic_store_explicit(&s->value, value, memory_order_relaxed);
}

int64_t metric_value(const struct metric_series *s)
{
    return atomic_load_explicit(&s->value, memory_order_relaxed);
}

void metric_observe(struct metric_series *s, double seconds)
{
    const struct metric *f = s->family;
    assert(f->type == HISTOGRAM);
    size_t i = 0;
    while (i < f->bound_count && seconds > f->bounds[i])
        i++;
    atomic_fetch_add_explicit(&s->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->sum_us, (int64_t)(seconds * 1e6), memory_order_relaxed);
}

/* The text */

void metrics_on_collect(struct metrics *m, metrics_collect_fn *fn, void *arg)
{
    HOLD(&m->mu);
    *XPUSH(m->collectors, m->collector_count) = (struct collector){.fn = fn, .arg = arg};
}

static void write_bucket(const struct metric_series *s, const char *bound, int64_t count,
                         struct sb *out)
{
    sb_addf(out, "%s_bucket{%s%sle=\"%s\"} %lld\n", s->family->name, s->labels,
            *s->labels ? "," : "", bound, (long long)count);
}

static void write_histogram(const struct metric_series *s, struct sb *out)
{
    int64_t count = 0;
    for (size_t i = 0; i < s->family->bound_count; i++) {
        count += atomic_load(&s->buckets[i]);
        auto_free char *bound = xasprintf("%g", s->family->bounds[i]);
        write_bucket(s, bound, count, out);
    }
    count += atomic_load(&s->buckets[s->family->bound_count]);
    write_bucket(s, "+Inf", count, out);
    const char *open = *s->labels ? "{" : "";
    const char *close = *s->labels ? "}" : "";
    sb_addf(out, "%s_sum%s%s%s %.6f\n", s->family->name, open, s->labels, close,
            (double)atomic_load(&s->sum_us) / 1e6);
    sb_addf(out, "%s_count%s%s%s %lld\n", s->family->name, open, s->labels, close,
            (long long)count);
}

static void write_value(const struct metric_series *s, struct sb *out)
{
    sb_addf(out, "%s%s%s%s ", s->family->name, *s->labels ? "{" : "", s->labels,
            *s->labels ? "}" : "");
    if (s->family->is_time)
        sb_addf(out, "%.6f\n", (double)metric_value(s) / 1e6);
    else
        sb_addf(out, "%lld\n", (long long)metric_value(s));
}

static void write_family(struct metric *f, struct sb *out)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    HOLD(&f->mu);
    sb_addf(out, "# HELP %s ", f->name);
    add_escaped(out, f->help, /* quotes= */ false);
    sb_addf(out, "\n# TYPE %s %s\n", f->name, types[f->type]);
    for (size_t i = 0; i < f->series_count; i++) {
        if (f->type == HISTOGRAM)
            write_histogram(f->series[i], out);
        else
            write_value(f->series[i], out);
    }
}

void metrics_write(struct metrics *m, struct sb *out)
{
    for (size_t i = 0; i < m->collector_count; i++)
        m->collectors[i].fn(m->collectors[i].arg);
    HOLD(&m->mu);
    for (size_t i = 0; i < m->family_count; i++)
        write_family(m->families[i], out);
}

static void family_free(struct metric *f)
{
    for (size_t i = 0; i < f->series_count; i++) {
        free(f->series[i]->labels);
        free(f->series[i]);
    }
    free(f->series);
    (void)strmap_free(f->by_labels);
    (void)pthread_mutex_destroy(&f->mu);
    free(f);
}

struct metrics *metrics_free(struct metrics *m)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < m->family_count; i++)
        family_free(m->families[i]);
    free(m->families);
    free(m->collectors);
    (void)pthread_mutex_destroy(&m->mu);
    free(m);
    return NULL;
}
