/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/recorder.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/rfc3339.h"
#include "base/rng.h"
#include "base/sb.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"

#define QUEUE_MAX        1000
#define SERIES_MAX       4096
#define NOTE_MAX_BYTES   1024 /* the API's bound */
#define NAME_MAX_BYTES   230  /* of the regarded object, in the Event's name */
#define REFRESH_MS       (30 * 60 * 1000)
#define FINISH_MS        (6 * 60 * 1000)
#define TRIES            12
#define RETRY_MS         10000
#define SPAM_BURST       25
#define SPAM_INTERVAL_MS (300 * 1000)
#define LAST_WRITES_MS   2000 /* for Events that still wait when the scope ends */
#define NEVER            INT64_MAX

static const struct kc_resource events = {.group = "events.k8s.io",
                                          .version = "v1",
                                          .plural = "events",
                                          .kind = "Event",
                                          .namespaced = true};

/*
 * One Event and its repetitions. The recording thread makes it and counts it up under the lock;
 * only the writing thread writes and frees it, and so needs the lock for the counted fields only.
 */
struct series {
    char *key, *object_key;
    json_t *body; /* as first recorded, without series */
    bool created; /* exists on the server, as far as is known */
    int tries;
    int64_t written_count, written_mono_ms;
    /* guarded by the recorder's mu */
    int64_t count, last_mono_ms, last_wall_ms;
    int64_t due_mono_ms; /* of an urgent write (1st, 2nd, retry), or NEVER */
};

/* The token bucket of one object, as the time when it is full again. */
struct spam {
    int64_t full_mono_ms;
};

struct recorder {
    struct recorder_opts opts;
    struct kc *kc;
    int wake_fd; /* readable when something new is due */
    pthread_mutex_t mu;
    /* guarded by mu */
    struct rng rng;
    struct strmap *series; /* key → struct series */
    struct strmap *spam;   /* object's key → struct spam */
    size_t waiting;        /* series with an urgent write */
    struct recorder_stats stats;
};

struct recorder *recorder_new(struct kc *c, const struct recorder_opts *opts)
{
    assert(c && opts->controller && opts->instance && opts->clk);
    struct recorder *r = xmalloc(sizeof(*r));
    r->opts = *opts;
    r->kc = c;
    rng_init(&r->rng, opts->seed);
    r->wake_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&r->mu, NULL);
    r->series = strmap_new();
    r->spam = strmap_new();
    return r;
}

static void series_free(struct series *sr)
{
    if (!sr)
        return;
    free(sr->key);
    free(sr->object_key);
    json_decref(sr->body);
    free(sr);
}

struct recorder *recorder_free(struct recorder *r)
{
    if (!r)
        return NULL;
    size_t pos = 0;
    void *value;
    while (strmap_next(r->series, &pos, &(const char *){NULL}, &value))
        series_free(value);
    pos = 0;
    while (strmap_next(r->spam, &pos, &(const char *){NULL}, &value))
        free(value);
    (void)strmap_free(r->series);
    (void)strmap_free(r->spam);
    (void)close(r->wake_fd);
    (void)pthread_mutex_destroy(&r->mu);
    free(r);
    return NULL;
}

static int64_t now_ms(const struct recorder *r)
{
    return clock_mono_ms(r->opts.clk);
}

/* Recording */

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

static char *object_key_of(const struct event_about *about)
{
    return xasprintf("%s/%s/%s/%s", about->resource->kind, or_empty(about->ns), about->name,
                     or_empty(about->uid));
}

/* The note at its longest. A note that is not UTF-8 (a driver's text) becomes ASCII, because JSON
 * cannot carry it. */
static void clean_note(char *note)
{
    note[utf8_cut(note, NOTE_MAX_BYTES)] = '\0';
    auto_json json_t *valid = json_string(note);
    for (char *c = note; !valid && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
}

/* "node-1.17f3a…": a DNS name, unique. The object's name may have to be cut, and no label may end
 * with a hyphen or dot then. */
static char *event_name(struct recorder *r, const char *object)
{
    size_t len = utf8_cut(object, NAME_MAX_BYTES);
    while (len && (object[len - 1] == '-' || object[len - 1] == '.'))
        len--;
    return xasprintf("%.*s.%016llx", (int)len, object, (unsigned long long)rng_next(&r->rng));
}

static json_t *regarding(const struct event_about *about)
{
    const struct kc_resource *res = about->resource;
    auto_free char *group_version =
        *res->group ? xasprintf("%s/%s", res->group, res->version) : xstrdup(res->version);
    return json_pack("{s:s,s:s,s:s*,s:s,s:s*,s:s*}", "apiVersion", group_version, "kind", res->kind,
                     "namespace", about->ns && *about->ns ? about->ns : NULL, "name", about->name,
                     "uid", about->uid, "resourceVersion", about->resource_version);
}

static json_t *micro_time(int64_t wall_ms)
{
    char text[RFC3339_BYTES];
    return json_string(rfc3339_format_micro(wall_ms, text));
}

/* NULL: a text of it is no UTF-8. */
static json_t *body_of(struct recorder *r, const struct event_about *about, bool warning,
                       const char *reason, const char *note)
{
    auto_free char *name = event_name(r, about->name);
    return json_pack("{s:s,s:s,s:{s:s,s:s},s:o,s:s,s:s,s:s,s:s,s:o,s:s,s:s}", "apiVersion",
                     "events.k8s.io/v1", "kind", "Event", "metadata", "namespace",
                     about->ns && *about->ns ? about->ns : "default", "name", name, "eventTime",
                     micro_time(clock_wall_ms(r->opts.clk)), "reportingController",
                     r->opts.controller, "reportingInstance", r->opts.instance, "action", reason,
                     "reason", reason, "regarding", regarding(about), "note", note, "type",
                     warning ? "Warning" : "Normal");
}

/* Takes a token of the object's bucket. */
static bool is_spam(struct recorder *r, const char *object_key)
{
    int64_t now = now_ms(r);
    struct spam *sp = strmap_get(r->spam, object_key);
    if (!sp) {
        if (strmap_count(r->spam) >= SERIES_MAX)
            return true;
        sp = xmalloc(sizeof(*sp));
        (void)strmap_put(r->spam, object_key, sp);
    }
    int64_t full = sp->full_mono_ms > now ? sp->full_mono_ms : now;
    if (full - now > (int64_t)(SPAM_BURST - 1) * SPAM_INTERVAL_MS)
        return true;
    sp->full_mono_ms = full + SPAM_INTERVAL_MS;
    return false;
}

static bool is_waiting(const struct series *sr)
{
    return sr->due_mono_ms != NEVER;
}

static void make_due(struct recorder *r, struct series *sr, int64_t at_mono_ms)
{
    if (!is_waiting(sr))
        r->waiting++;
    sr->due_mono_ms = at_mono_ms;
    (void)eventfd_write(r->wake_fd, 1);
}

static void not_due(struct recorder *r, struct series *sr)
{
    if (is_waiting(sr))
        r->waiting--;
    sr->due_mono_ms = NEVER;
}

static struct series *series_new(struct recorder *r, const char *key, const char *object_key,
                                 json_t *body_take)
{
    struct series *sr = xmalloc(sizeof(*sr));
    sr->key = xstrdup(key);
    sr->object_key = xstrdup(object_key);
    sr->body = body_take;
    sr->due_mono_ms = NEVER;
    (void)strmap_put(r->series, key, sr);
    return sr;
}

static void count_one(struct recorder *r, struct series *sr)
{
    sr->count++;
    sr->last_mono_ms = now_ms(r);
    sr->last_wall_ms = clock_wall_ms(r->opts.clk);
    if (sr->count <= 2 && !is_waiting(sr))
        make_due(r, sr, sr->last_mono_ms);
}

static void record(struct recorder *r, const struct event_about *about, bool warning,
                   const char *reason, const char *note)
{
    auto_free char *object = object_key_of(about);
    auto_free char *key = xasprintf("%d\n%s\n%s\n%s", warning, reason, object, note);
    HOLD(&r->mu);
    r->stats.recorded++;
    struct series *sr = strmap_get(r->series, key);
    if (!sr && (r->waiting >= QUEUE_MAX || strmap_count(r->series) >= SERIES_MAX)) {
        r->stats.dropped_full++;
        return;
    }
    if (!sr && is_spam(r, object)) {
        r->stats.dropped_spam++;
        return;
    }
    if (!sr) {
        json_t *body = body_of(r, about, warning, reason, note);
        if (!body) {
            r->stats.dropped_unwritable++;
            return;
        }
        sr = series_new(r, key, object, body);
    }
    count_one(r, sr);
}

PRINTF_LIKE(5, 0)
static void record_args(struct recorder *r, const struct event_about *about, bool warning,
                        const char *reason, const char *fmt, va_list ap)
{
    auto_free char *note = xvasprintf(fmt, ap);
    clean_note(note);
    record(r, about, warning, reason, note);
}

void recorder_event_about(struct recorder *r, const struct event_about *about, bool warning,
                          const char *reason, const char *fmt, ...)
{
    if (!r)
        return;
    va_list ap;
    va_start(ap, fmt);
    record_args(r, about, warning, reason, fmt, ap);
    va_end(ap);
}

void recorder_event(struct recorder *r, const struct object *about, bool warning,
                    const char *reason, const char *fmt, ...)
{
    if (!r)
        return;
    const struct object_key k = object_key(about);
    const struct event_about ref = {.resource = object_resource(about),
                                    .ns = k.ns,
                                    .name = k.name,
                                    .uid = object_uid(about),
                                    .resource_version = object_version(about)};
    va_list ap;
    va_start(ap, fmt);
    record_args(r, &ref, warning, reason, fmt, ap);
    va_end(ap);
}

/* Writing */

static json_t *series_json(int64_t count, int64_t last_wall_ms)
{
    return json_pack("{s:I,s:o}", "count", (json_int_t)count, "lastObservedTime",
                     micro_time(last_wall_ms));
}

static const char *meta_of(const struct series *sr, const char *field)
{
    return json_string_value(json_object_get(json_object_get(sr->body, "metadata"), field));
}

static int create_event(struct recorder *r, struct scope *s, const struct series *sr, int64_t count,
                        int64_t last_wall_ms, struct err *e)
{
    auto_json json_t *body = json_copy(sr->body);
    if (count > 1)
        (void)json_object_set_new(body, "series", series_json(count, last_wall_ms));
    const struct kc_target t = {.res = &events, .ns = meta_of(sr, "namespace")};
    int rc = kc_create(r->kc, s, &t, &(struct kc_write){.body = body}, /* ret_obj= */ NULL, e);
    if (rc != -ERR_EXISTS)
        return rc;
    /* An earlier try succeeded and its answer was lost. */
    err_clear(e);
    return 0;
}

static int patch(struct recorder *r, struct scope *s, const struct series *sr, int64_t count,
                 int64_t last_wall_ms, struct err *e)
{
    auto_json json_t *body = json_pack("{s:o}", "series", series_json(count, last_wall_ms));
    const struct kc_target t = {.res = &events,
                                .ns = meta_of(sr, "namespace"),
                                .name = meta_of(sr, "name")};
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    int rc = kc_patch(r->kc, s, &t, &w, /* ret_obj= */ NULL, e);
    if (rc != -ERR_NOT_FOUND)
        return rc;
    /* The server forgets Events after an hour. */
    err_clear(e);
    return create_event(r, s, sr, count, last_wall_ms, e);
}

/* True when the server refused the Event: a retry would not help. */
static bool is_final(const struct err *e)
{
    return !err_retriable(e) || (e->http_status >= 400 && e->http_status < 500 &&
                                 e->kind != ERR_THROTTLED && e->kind != ERR_TIMEOUT);
}

static void settle_failure(struct recorder *r, struct series *sr, const struct err *e)
{
    HOLD(&r->mu);
    if (++sr->tries >= TRIES || is_final(e)) {
        log_warn("Could not write Event", kv("event", meta_of(sr, "name")), kv_err(e));
        r->stats.given_up++;
        sr->tries = 0;
        sr->written_count = sr->count;
        sr->written_mono_ms = now_ms(r);
        not_due(r, sr);
        return;
    }
    int64_t delay = sr->tries == 1 ? (int64_t)rng_below(&r->rng, RETRY_MS) : (int64_t)RETRY_MS;
    make_due(r, sr, now_ms(r) + delay);
}

static void settle_success(struct recorder *r, struct series *sr, int64_t count)
{
    HOLD(&r->mu);
    r->stats.written++;
    sr->created = true;
    sr->tries = 0;
    sr->written_count = count;
    sr->written_mono_ms = now_ms(r);
    not_due(r, sr);
    /* The 2nd occurrence came while the 1st was being written. */
    if (count == 1 && sr->count > 1)
        make_due(r, sr, now_ms(r));
}

static bool has_left(const struct scope *s)
{
    return !s || scope_left_ms(s) > 0;
}

static void write_one(struct recorder *r, struct scope *s, struct series *sr)
{
    (void)pthread_mutex_lock(&r->mu);
    int64_t count = sr->count;
    int64_t last_wall_ms = sr->last_wall_ms;
    (void)pthread_mutex_unlock(&r->mu);

    auto_err struct err e = {0};
    int rc = sr->created ? patch(r, s, sr, count, last_wall_ms, &e)
                         : create_event(r, s, sr, count, last_wall_ms, &e);
    if (rc == 0)
        settle_success(r, sr, count);
    else if (has_left(s)) /* otherwise it stays due, for the last writes */
        settle_failure(r, sr, &e);
}

/* The time when the next write of a series, or its end, is due. */
static int64_t due_of(const struct series *sr)
{
    if (is_waiting(sr))
        return sr->due_mono_ms;
    int64_t finish = sr->last_mono_ms + FINISH_MS;
    int64_t refresh = sr->count > sr->written_count ? sr->written_mono_ms + REFRESH_MS : NEVER;
    return refresh < finish ? refresh : finish;
}

static bool has_ended(const struct series *sr)
{
    return !is_waiting(sr) && sr->count == sr->written_count;
}

/* The first series that is due, or NULL; *ret_next is when the earliest of the others is. Series
 * that have ended are freed on the way. */
static struct series *next_due(struct recorder *r, int64_t *ret_next)
{
    HOLD(&r->mu);
    int64_t now = now_ms(r);
    *ret_next = NEVER;
    size_t pos = 0;
    const char *key;
    void *value;
    while (strmap_next(r->series, &pos, &key, &value)) {
        struct series *sr = value;
        int64_t due = due_of(sr);
        if (due > now)
            *ret_next = due < *ret_next ? due : *ret_next;
        else if (!has_ended(sr))
            return sr;
        else
            series_free(strmap_remove(r->series, key));
    }
    return NULL;
}

static void forget_quiet_objects(struct recorder *r)
{
    HOLD(&r->mu);
    size_t pos = 0;
    const char *key;
    void *value;
    while (strmap_next(r->spam, &pos, &key, &value)) {
        const struct spam *sp = value;
        if (sp->full_mono_ms <= now_ms(r))
            free(strmap_remove(r->spam, key));
    }
}

void recorder_step(struct recorder *r, struct scope *s, int64_t *ret_wait_ms)
{
    int64_t next;
    struct series *sr;
    while ((sr = next_due(r, &next)) && has_left(s))
        write_one(r, s, sr);
    forget_quiet_objects(r);
    if (ret_wait_ms)
        *ret_wait_ms = next == NEVER ? NEVER : next - now_ms(r);
}

static void wait_for_work(struct recorder *r, struct scope *s, int64_t wait_ms)
{
    eventfd_t ignored;
    auto_scope struct scope *nap = scope_new(s, wait_ms == NEVER ? -1 : wait_ms);
    if (scope_wait_readable(nap, r->wake_fd, /* e= */ NULL) == 0)
        (void)eventfd_read(r->wake_fd, &ignored);
}

int recorder_run(struct recorder *r, struct scope *s, struct err *e)
{
    for (;;) {
        int64_t wait_ms;
        recorder_step(r, s, &wait_ms);
        if (scope_left_ms(s) == 0)
            break;
        wait_for_work(r, s, wait_ms);
    }
    auto_scope struct scope *last = scope_new(NULL, LAST_WRITES_MS);
    recorder_step(r, last, NULL);
    return scope_check(s, e);
}

struct recorder_stats recorder_stats(struct recorder *r)
{
    HOLD(&r->mu);
    return r->stats;
}
