/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/reflector.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/backoff.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#define WATCH_MIN_S       300 /* timeoutSeconds is random in 5..10 min */
#define SHORT_WATCH_MS    1000
#define INTERNAL_RETRY_MS 30000
#define PAGE_SIZE         500
/* Bound of a resourceVersion: API servers' are numbers of up to 20 digits. */
#define MAX_VERSION_BYTES 128

#define INITIAL_EVENTS_END "k8s.io/initial-events-end"

/* The kind of the next step. */
enum phase { PHASE_STREAM, PHASE_LIST, PHASE_WATCH };

struct reflector {
    struct kc *kc;
    struct reflector_opts opts;
    struct heartbeat *beat; /* NULL: no heartbeat */
    struct backoff backoff;
    struct rng rng;
    enum phase phase;
    char *version; /* last one seen, "" before the first state */
    bool latest;   /* the last version is unusable: the most recent one is requested, once */
    bool whole;    /* list without pages */
    int64_t first_internal_mono_ms; /* of an unbroken series of 500s, 0: none */
    /* the call in progress */
    bool streaming; /* its events are the initial state */
    int64_t call_events;
    /* counters, read by any thread */
    _Atomic int64_t lists, watches, events, errors, last_contact_mono_ms;
};

struct reflector *reflector_new(struct kc *c, const struct reflector_opts *opts)
{
    assert(c && opts->target.res && !opts->target.name && opts->clk);
    struct reflector *r = xmalloc(sizeof(*r));
    r->kc = c;
    r->opts = *opts;
    r->backoff = (struct backoff)BACKOFF_REFLECTOR;
    rng_init(&r->rng, opts->seed);
    r->phase = PHASE_STREAM;
    r->version = xstrdup("");
    return r;
}

struct reflector *reflector_free(struct reflector *r)
{
    if (!r)
        return NULL;
    free(r->version);
    free(r);
    return NULL;
}

/* The policy */

static bool is_broken_connection(const struct err *e)
{
    return e->kind == ERR_UNAVAILABLE && !e->http_status;
}

static bool is_refused(const struct err *e)
{
    return is_broken_connection(e) && e->sys_errno == ECONNREFUSED;
}

static bool is_very_short(const struct reflector_end *end)
{
    return end->lasted_ms < SHORT_WATCH_MS && !end->events;
}

/* client-go treats a broken connection as closed by the server. After one that never came up it
 * lists again, unless it was refused. Our last version is as good then as in that case, so we watch
 * again. */
static enum reflector_next after_broken(const struct reflector_end *end)
{
    return is_very_short(end) || is_refused(end->err) ? REFLECTOR_WATCH_LATER : REFLECTOR_WATCH;
}

enum reflector_next reflector_after_watch(const struct reflector_end *end)
{
    const struct err *err = end->err;
    if (!err->kind)
        return is_very_short(end) ? REFLECTOR_RELIST_LATER : REFLECTOR_WATCH;
    if (is_broken_connection(err))
        return after_broken(end);
    if (err->kind == ERR_THROTTLED)
        return REFLECTOR_WATCH_LATER;
    if (err->http_status == 500 && end->internal_ms < INTERNAL_RETRY_MS)
        return REFLECTOR_WATCH_LATER;
    /* 410 included: a list "not older than the last version" reaches the present state. */
    return REFLECTOR_RELIST_LATER;
}

static bool is_version_unavailable(const struct err *err)
{
    return err->kind == ERR_EXPIRED || kc_err_is_version_too_large(err);
}

enum reflector_next reflector_after_stream(const struct reflector_end *end, bool latest)
{
    const struct err *err = end->err;
    if (!err->kind)
        return is_very_short(end) ? REFLECTOR_LIST : REFLECTOR_STREAM_LATER;
    if (err->kind == ERR_THROTTLED || is_broken_connection(err))
        return REFLECTOR_STREAM_LATER;
    if (is_version_unavailable(err))
        return latest ? REFLECTOR_STREAM_LATER : REFLECTOR_STREAM_LATEST;
    return REFLECTOR_LIST;
}

/* A version that the server cannot read came with a garbled object, and would be refused for
 * ever. */
enum reflector_next reflector_after_list(const struct err *err, bool latest, bool paged)
{
    if ((is_version_unavailable(err) || err->kind == ERR_INVALID) && !latest)
        return REFLECTOR_LIST_LATEST;
    /* The continuation of a list that took too long (client-go's pager: FullListIfExpired). */
    if (err->kind == ERR_EXPIRED && paged)
        return REFLECTOR_LIST_WHOLE;
    return REFLECTOR_RELIST_LATER;
}

/* The calls */

static int64_t now_ms(const struct reflector *r)
{
    return clock_mono_ms(r->opts.clk);
}

static void note_contact(struct reflector *r)
{
    atomic_store(&r->last_contact_mono_ms, now_ms(r));
}

/* A version that does not fit a request's URL would be refused by our own client for ever, and the
 * server would send nothing that replaces it. */
static int check_version(const char *version, struct err *e)
{
    if (strlen(version) <= MAX_VERSION_BYTES)
        return 0;
    return err_set(e, ERR_PROTOCOL, "a resourceVersion of %zu bytes, at most %d are read",
                   strlen(version), MAX_VERSION_BYTES);
}

static void set_version(struct reflector *r, const char *version)
{
    xstr_set(&r->version, version);
    r->latest = false;
}

static void commit_state(struct reflector *r, const char *version)
{
    set_version(r, version);
    r->streaming = false;
    r->whole = false;
    r->opts.sink.commit(r->opts.sink.arg, version);
}

static bool ends_initial_events(const json_t *bookmark)
{
    const char *mark = JX_STR_AT(bookmark, "metadata", "annotations", INITIAL_EVENTS_END);
    return mark && strcmp(mark, "true") == 0;
}

static int on_initial(struct reflector *r, enum kc_change change, const json_t *obj,
                      const char *version, struct err *e)
{
    if (change != KC_BOOKMARK)
        return r->opts.sink.item(r->opts.sink.arg, change, obj, e);
    if (ends_initial_events(obj))
        commit_state(r, version);
    return 0;
}

static int on_change(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    struct reflector *r = arg;
    note_contact(r);
    r->call_events++;
    atomic_fetch_add(&r->events, 1);
    const char *version = JX_STR_AT(obj, "metadata", "resourceVersion");
    if (!version || !*version) {
        log_warn("Ignored watch event without resourceVersion",
                 kv("kind", r->opts.target.res->kind));
        return 0;
    }
    TRY(check_version(version, e));
    if (r->streaming)
        return on_initial(r, change, obj, version, e);
    set_version(r, version);
    return r->opts.sink.change(r->opts.sink.arg, change, obj, version, e);
}

static int watch(struct reflector *r, struct scope *s, struct err *e)
{
    const struct kc_watch_opts o = {
        .labels = r->opts.labels,
        .fields = r->opts.fields,
        .resource_version = r->streaming && (r->latest || !*r->version) ? NULL : r->version,
        .send_initial_events = r->streaming,
        .timeout_s = WATCH_MIN_S + (int)rng_below(&r->rng, WATCH_MIN_S + 1),
    };
    atomic_fetch_add(&r->watches, 1);
    return kc_watch(r->kc, s, &r->opts.target, &o, on_change, r, e);
}

static int on_item(void *arg, const json_t *obj, struct err *e)
{
    const struct reflector *r = arg;
    return r->opts.sink.item(r->opts.sink.arg, KC_ADDED, obj, e);
}

/* First list: any version, from the server's cache. Later ones: not older than our last version,
 * unpaged, so that they come from the cache too. The most recent version comes from etcd, in
 * pages. */
static struct kc_list_opts list_opts(const struct reflector *r)
{
    struct kc_list_opts o = {.labels = r->opts.labels, .fields = r->opts.fields};
    if (r->latest)
        o.page_size = r->whole ? 0 : PAGE_SIZE;
    else if (*r->version)
        o.resource_version = r->version;
    else
        o.resource_version = "0";
    return o;
}

static int list(struct reflector *r, struct scope *s, struct err *e)
{
    const struct kc_list_opts o = list_opts(r);
    auto_free char *version = NULL;
    atomic_fetch_add(&r->lists, 1);
    r->opts.sink.begin(r->opts.sink.arg);
    TRY(kc_list_each(r->kc, s, &r->opts.target, &o, on_item, r, &version, e));
    TRY(check_version(version ? version : "", e));
    note_contact(r);
    commit_state(r, version ? version : "");
    return 0;
}

/* The steps */

static int64_t delay_ms(struct reflector *r, const struct err *err)
{
    int64_t delay = backoff_next_ms(&r->backoff, r->opts.clk, &r->rng);
    return err->retry_after_ms > delay ? err->retry_after_ms : delay;
}

static int64_t go(struct reflector *r, enum reflector_next next, const struct err *err)
{
    switch (next) {
    case REFLECTOR_WATCH:
        r->phase = PHASE_WATCH;
        return 0;
    case REFLECTOR_WATCH_LATER:
        r->phase = PHASE_WATCH;
        return delay_ms(r, err);
    case REFLECTOR_RELIST_LATER:
    case REFLECTOR_STREAM_LATER:
        r->phase = PHASE_STREAM;
        return delay_ms(r, err);
    case REFLECTOR_STREAM_LATEST:
        r->phase = PHASE_STREAM;
        r->latest = true;
        return 0;
    case REFLECTOR_LIST:
        r->phase = PHASE_LIST;
        return 0;
    case REFLECTOR_LIST_WHOLE:
        r->whole = true;
        return 0;
    case REFLECTOR_LIST_LATEST:
        r->latest = true;
        return 0;
    }
    return 0;
}

static int64_t internal_ms(struct reflector *r, const struct err *err)
{
    if (err->http_status != 500) {
        r->first_internal_mono_ms = 0;
        return 0;
    }
    if (!r->first_internal_mono_ms)
        r->first_internal_mono_ms = now_ms(r);
    return now_ms(r) - r->first_internal_mono_ms;
}

/* A watch, or a WatchList that turns into one at its bookmark. */
static int64_t step_watch(struct reflector *r, struct scope *s, struct err *e)
{
    bool latest = r->latest;
    r->streaming = r->phase == PHASE_STREAM;
    r->call_events = 0;
    int64_t start = now_ms(r);
    if (r->streaming)
        r->opts.sink.begin(r->opts.sink.arg);

    int rc = watch(r, s, e);
    assert((rc < 0) == (e->kind != 0));
    const struct reflector_end end = {
        .err = e,
        .lasted_ms = now_ms(r) - start,
        .events = r->call_events,
        .internal_ms = internal_ms(r, e),
    };
    if (r->streaming)
        return go(r, reflector_after_stream(&end, latest), e);
    return go(r, reflector_after_watch(&end), e);
}

static int64_t step_list(struct reflector *r, struct scope *s, struct err *e)
{
    bool latest = r->latest;
    bool paged = latest && !r->whole;
    if (list(r, s, e) < 0)
        return go(r, reflector_after_list(e, latest, paged), e);
    return go(r, REFLECTOR_WATCH, e);
}

int reflector_step(struct reflector *r, struct scope *s, int64_t *ret_wait_ms, struct err *e)
{
    auto_err struct err own = {0};
    int64_t wait_ms = r->phase == PHASE_LIST ? step_list(r, s, &own) : step_watch(r, s, &own);
    if (ret_wait_ms)
        *ret_wait_ms = wait_ms;
    if (!own.kind)
        return 0;
    atomic_fetch_add(&r->errors, 1);
    return err_move(e, &own);
}

/* A version that became too old is the ordinary end of a long absence. */
static void log_end(const struct reflector *r, const struct err *e, int64_t wait_ms)
{
    LOG_AT(e->kind == ERR_EXPIRED ? LOG_INFO : LOG_WARN, "Could not follow kind",
           kv("kind", r->opts.target.res->kind), kv_err(e), kv_int("retryMs", wait_ms));
}

void reflector_set_beat(struct reflector *r, struct heartbeat *beat)
{
    r->beat = beat;
}

int reflector_run(struct reflector *r, struct scope *s, struct err *e)
{
    for (;;) {
        auto_err struct err own = {0};
        int64_t wait_ms;
        heartbeat_busy(r->beat);
        int rc = reflector_step(r, s, &wait_ms, &own);
        heartbeat_idle(r->beat);
        TRY(scope_check(s, e));
        if (rc < 0)
            log_end(r, &own, wait_ms);
        if (wait_ms > 0)
            (void)scope_wait_ms(s, wait_ms);
        TRY(scope_check(s, e));
    }
}

struct reflector_stats reflector_stats(const struct reflector *r)
{
    return (struct reflector_stats){
        .lists = atomic_load(&r->lists),
        .watches = atomic_load(&r->watches),
        .events = atomic_load(&r->events),
        .errors = atomic_load(&r->errors),
        .last_contact_mono_ms = atomic_load(&r->last_contact_mono_ms),
    };
}
