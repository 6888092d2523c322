/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/elector.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"

#define LEASE_MS          15000
#define RENEW_DEADLINE_MS 10000
#define RETRY_MS          2000
/* Percent of the retry period, while acquiring. client-go adds up to 120: a released lease would be
 * free for 4.4 s. A handful of replicas only needs to fall out of step. */
#define JITTER_PCT  20
#define RELEASE_MS  5000 /* limit for the release at the end */
#define NEVER       INT64_MIN
#define MAX_LEASE_S 3600 /* a longer duration in a peer's Lease is cut to this */

static const struct kc_resource leases = {.group = "coordination.k8s.io",
                                          .version = "v1",
                                          .plural = "leases",
                                          .kind = "Lease",
                                          .namespaced = true};

/* One thread runs it; others read renewed_boot_ms, leader_fd and, under mu, the holder. */
struct elector {
    struct elector_opts opts;
    elector_works_fn *works; /* NULL: it always works */
    void *works_arg;
    struct heartbeat *beat; /* NULL: no heartbeat */
    struct kc *kc;
    struct rng rng;
    json_t *lease;            /* as last seen or written; NULL: never, or it does not exist */
    int64_t observed_boot_ms; /* when *we* saw it change */
    _Atomic int64_t renewed_boot_ms; /* start of the last renewal that worked, or NEVER */
    int leader_fd;                   /* readable once leader for the first time */
    pthread_mutex_t mu;
    char *holder; /* guarded by mu */
};

struct elector *elector_new(struct kc *c, const struct elector_opts *opts)
{
    assert(c && opts->ns && opts->name && opts->identity && *opts->identity && opts->clk);
    struct elector *el = xmalloc(sizeof(*el));
    el->kc = c;
    el->opts = *opts;
    if (!el->opts.lease_ms)
        el->opts.lease_ms = LEASE_MS;
    if (!el->opts.renew_deadline_ms)
        el->opts.renew_deadline_ms = RENEW_DEADLINE_MS;
    if (!el->opts.retry_ms)
        el->opts.retry_ms = RETRY_MS;
    assert(el->opts.lease_ms > el->opts.renew_deadline_ms &&
           el->opts.renew_deadline_ms > el->opts.retry_ms);
    rng_init(&el->rng, opts->seed);
    atomic_init(&el->renewed_boot_ms, NEVER);
    el->leader_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&el->mu, NULL);
    el->holder = xstrdup("");
    return el;
}

struct elector *elector_free(struct elector *el)
{
    if (!el)
        return NULL;
    json_decref(el->lease);
    free(el->holder);
    (void)close(el->leader_fd);
    (void)pthread_mutex_destroy(&el->mu);
    free(el);
    return NULL;
}

void elector_set_check(struct elector *el, elector_works_fn *works, void *arg)
{
    el->works = works;
    el->works_arg = arg;
}

void elector_set_beat(struct elector *el, struct heartbeat *beat)
{
    el->beat = beat;
}

/* Queries */

int64_t elector_left_ms(const struct elector *el)
{
    int64_t renewed = atomic_load(&el->renewed_boot_ms);
    if (renewed == NEVER)
        return 0;
    int64_t left = renewed + el->opts.renew_deadline_ms - clock_boot_ms(el->opts.clk);
    return left > 0 ? left : 0;
}

bool elector_is_leader(const struct elector *el)
{
    return elector_left_ms(el) > 0;
}

int elector_wait_leader(struct elector *el, struct scope *s, struct err *e)
{
    return scope_wait_readable(s, el->leader_fd, e);
}

char *elector_holder(struct elector *el)
{
    HOLD(&el->mu);
    return xstrdup(el->holder);
}

/* The record in the Lease */

static const char *holder_of(const json_t *lease)
{
    const char *s = JX_STR_AT(lease, "spec", "holderIdentity");
    return s ? s : "";
}

static int64_t duration_ms_of(const json_t *lease)
{
    int64_t s = json_integer_value(JX_AT(lease, "spec", "leaseDurationSeconds"));
    return (s < 0 ? 0 : s > MAX_LEASE_S ? MAX_LEASE_S : s) * 1000;
}

/* An int32 in the API; anything else, written by hand, starts anew. */
static int64_t transitions_of(const json_t *lease)
{
    int64_t n = json_integer_value(JX_AT(lease, "spec", "leaseTransitions"));
    return n < 0 || n >= INT32_MAX ? 0 : n;
}

static bool is_ours(const struct elector *el)
{
    return el->lease && strcmp(holder_of(el->lease), el->opts.identity) == 0;
}

static void note_holder(struct elector *el, const char *holder)
{
    HOLD(&el->mu);
    if (strcmp(el->holder, holder) == 0)
        return;
    log_info("Lease changed hands", kv("lease", el->opts.name), kv("holder", holder));
    xstr_set(&el->holder, holder);
}

/* Takes over the server's lease. Only a change of the record moves the time of observation. That
 * time, and never a timestamp in the lease, decides whether it has expired. */
static void observe_lease(struct elector *el, json_t *lease_take)
{
    const json_t *old = JX_AT(el->lease, "spec");
    if (!old || !json_equal(old, JX_AT(lease_take, "spec")))
        el->observed_boot_ms = clock_boot_ms(el->opts.clk);
    json_decref(el->lease);
    el->lease = lease_take;
    note_holder(el, holder_of(el->lease));
}

static bool is_held_by_other(const struct elector *el)
{
    return el->lease && *holder_of(el->lease) && !is_ours(el) &&
           clock_boot_ms(el->opts.clk) < el->observed_boot_ms + duration_ms_of(el->lease);
}

static json_t *micro_time(const struct elector *el)
{
    char now[RFC3339_BYTES];
    return json_string(rfc3339_format_micro(clock_wall_ms(el->opts.clk), now));
}

/* The spec that takes or keeps the lease. New reference. */
static json_t *spec_to_hold(const struct elector *el)
{
    json_t *spec = json_object();
    const json_t *old = JX_AT(el->lease, "spec");
    int64_t transitions = transitions_of(el->lease);
    json_t *acquired = is_ours(el) ? json_deep_copy(JX_AT(old, "acquireTime")) : NULL;
    if (el->lease && !is_ours(el))
        transitions++;
    (void)json_object_set_new(spec, "holderIdentity", json_string(el->opts.identity));
    (void)json_object_set_new(spec, "leaseDurationSeconds",
                              json_integer((el->opts.lease_ms + 999) / 1000));
    (void)json_object_set_new(spec, "acquireTime", acquired ? acquired : micro_time(el));
    (void)json_object_set_new(spec, "renewTime", micro_time(el));
    (void)json_object_set_new(spec, "leaseTransitions", json_integer(transitions));
    return spec;
}

/* client-go's release: nobody, for one second. New reference. */
static json_t *spec_to_release(const struct elector *el)
{
    json_t *spec = spec_to_hold(el);
    (void)json_object_set_new(spec, "holderIdentity", json_string(""));
    (void)json_object_set_new(spec, "leaseDurationSeconds", json_integer(1));
    (void)json_object_set_new(spec, "acquireTime", micro_time(el));
    return spec;
}

/* Calls */

static struct kc_target target_of(const struct elector *el)
{
    return (struct kc_target){.res = &leases, .ns = el->opts.ns, .name = el->opts.name};
}

static int create_lease(struct elector *el, struct scope *s, struct err *e)
{
    auto_json json_t *body =
        json_pack("{s:s,s:s,s:{s:s,s:s},s:o}", "apiVersion", "coordination.k8s.io/v1", "kind",
                  "Lease", "metadata", "namespace", el->opts.ns, "name", el->opts.name, "spec",
                  spec_to_hold(el));
    const struct kc_target t = {.res = &leases, .ns = el->opts.ns};
    json_t *made = NULL;
    TRY(kc_create(el->kc, s, &t, &(struct kc_write){.body = body}, &made, e));
    observe_lease(el, made);
    return 0;
}

/* Writes this spec over the lease as last seen: its resourceVersion is the precondition. */
static int write_spec(struct elector *el, struct scope *s, json_t *spec_take, struct err *e)
{
    auto_json json_t *body = json_deep_copy(el->lease);
    (void)json_object_set_new(body, "spec", spec_take);
    const struct kc_target t = target_of(el);
    json_t *written = NULL;
    TRY(kc_update(el->kc, s, &t, &(struct kc_write){.body = body}, &written, e));
    observe_lease(el, written);
    return 0;
}

static int look(struct elector *el, struct scope *s, struct err *e)
{
    const struct kc_target t = target_of(el);
    json_t *lease = NULL;
    TRY(kc_get(el->kc, s, &t, &lease, e));
    observe_lease(el, lease);
    return 0;
}

static int take_over(struct elector *el, struct scope *s, struct err *e)
{
    if (is_held_by_other(el))
        return err_set(e, ERR_CONFLICT, "the lease %s is held by %s", el->opts.name,
                       holder_of(el->lease));
    return write_spec(el, s, spec_to_hold(el), e);
}

static int acquire_or_renew(struct elector *el, struct scope *s, struct err *e)
{
    /* The holder updates its last write, without reading first. */
    if (is_ours(el) && write_spec(el, s, spec_to_hold(el), /* e= */ NULL) == 0)
        return 0;
    int rc = look(el, s, e);
    if (rc != -ERR_NOT_FOUND)
        return rc < 0 ? rc : take_over(el, s, e);
    json_decref(el->lease);
    el->lease = NULL;
    return create_lease(el, s, e);
}

/* The steps */

static int64_t acquire_wait_ms(struct elector *el)
{
    int64_t jitter_ms = el->opts.retry_ms * JITTER_PCT / 100;
    return el->opts.retry_ms + (int64_t)rng_below(&el->rng, (uint64_t)jitter_ms + 1);
}

static int lost(struct elector *el, struct err *e, const struct err *why)
{
    atomic_store(&el->renewed_boot_ms, NEVER);
    return err_set(e, ERR_TIMEOUT, "lost the lease %s: %s", el->opts.name, err_msg(why));
}

static void won(struct elector *el, int64_t start_boot_ms)
{
    if (atomic_exchange(&el->renewed_boot_ms, start_boot_ms) != NEVER)
        return;
    log_info("Became leader", kv("lease", el->opts.name), kv("identity", el->opts.identity));
    (void)eventfd_write(el->leader_fd, 1);
}

int elector_step(struct elector *el, struct scope *s, int64_t *ret_wait_ms, struct err *e)
{
    auto_err struct err own = {0};
    bool held = atomic_load(&el->renewed_boot_ms) != NEVER;
    int64_t start = clock_boot_ms(el->opts.clk);
    /* Suspended for too long: other replicas may act by now, whatever the server would answer. */
    if (held && !elector_is_leader(el)) {
        (void)err_set(&own, ERR_TIMEOUT, "not renewed in time");
        return lost(el, e, &own);
    }
    if (held && el->works && !el->works(el->works_arg)) {
        (void)err_set(&own, ERR_TIMEOUT,
                      "a controller's worker hangs; the lease is left to another replica");
        return lost(el, e, &own);
    }
    auto_scope struct scope *attempt =
        scope_new(s, held ? elector_left_ms(el) : el->opts.renew_deadline_ms);

    if (acquire_or_renew(el, attempt, &own) == 0) {
        /* The clock of the fence starts when the renewal was sent, not when it was answered. */
        won(el, start);
        *ret_wait_ms = el->opts.retry_ms;
        return 0;
    }
    /* Another replica's lease is the ordinary case; a missing right to read it is not. */
    LOG_AT(own.kind == ERR_CONFLICT ? LOG_DEBUG : LOG_WARN, "Could not acquire or renew Lease",
           kv("lease", el->opts.name), kv_err(&own));
    if (!held) {
        *ret_wait_ms = acquire_wait_ms(el);
        return 0;
    }
    int64_t left = elector_left_ms(el);
    if (!left || !is_ours(el))
        return lost(el, e, &own);
    *ret_wait_ms = left < el->opts.retry_ms ? left : el->opts.retry_ms;
    return 0;
}

static int try_release(struct elector *el, struct scope *s, struct err *e)
{
    if (!is_ours(el))
        return 0;
    if (write_spec(el, s, spec_to_release(el), e) == 0)
        return 0;
    /* Another replica wrote, or the answer to our write was lost: reads the lease and tries once
     * more. */
    if (e)
        err_clear(e);
    TRY(look(el, s, e));
    return is_ours(el) ? write_spec(el, s, spec_to_release(el), e) : 0;
}

int elector_release(struct elector *el, struct scope *s, struct err *e)
{
    bool held = atomic_exchange(&el->renewed_boot_ms, NEVER) != NEVER;
    if (!held)
        return 0;
    TRY(try_release(el, s, e));
    log_info("Released Lease", kv("lease", el->opts.name));
    return 0;
}

static void release_at_end(struct elector *el)
{
    auto_scope struct scope *s = scope_new(NULL, RELEASE_MS);
    auto_err struct err e = {0};
    if (elector_release(el, s, &e) < 0)
        log_warn("Could not release Lease", kv("lease", el->opts.name), kv_err(&e));
}

int elector_run(struct elector *el, struct scope *s, struct err *e)
{
    for (;;) {
        int64_t wait_ms = 0;
        heartbeat_busy(el->beat);
        int rc = elector_step(el, s, &wait_ms, e);
        heartbeat_idle(el->beat);
        if (scope_left_ms(s) == 0 || (rc == 0 && !scope_wait_ms(s, wait_ms))) {
            release_at_end(el);
            if (e)
                err_clear(e);
            return scope_check(s, e);
        }
        TRY(rc);
    }
}

/* The fence */

struct fence {
    struct kc base;
    struct elector *elector;
    struct kc *inner;
};

static struct fence *fence_of(struct kc *c)
{
    return (struct fence *)(void *)c;
}

/* A scope that ends with the right to write, or an error. It does not end with the caller's own
 * cancellation: the server carries on with a request whose sender hung up, and would execute it
 * after the lease was released. */
static int enter(struct fence *f, struct scope *s, struct scope **ret, struct err *e)
{
    if (s)
        TRY(scope_check(s, e));
    int64_t left = elector_left_ms(f->elector);
    if (!left)
        return err_set(e, ERR_UNAVAILABLE, "not the leader: nothing is written");
    int64_t callers = s ? scope_left_ms(s) : left;
    *ret = scope_new(NULL, callers > 0 && callers < left ? callers : left);
    return 0;
}

static int fence_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                     struct err *e)
{
    return kc_get(fence_of(c)->inner, s, t, ret_obj, e);
}

static int fence_list(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                      struct err *e)
{
    return kc_list_each(fence_of(c)->inner, s, t, o, fn, arg, ret_version, e);
}

static int fence_create(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_scope struct scope *fenced = NULL;
    TRY(enter(fence_of(c), s, &fenced, e));
    return kc_create(fence_of(c)->inner, fenced, t, w, ret_obj, e);
}

static int fence_update(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_scope struct scope *fenced = NULL;
    TRY(enter(fence_of(c), s, &fenced, e));
    return kc_update(fence_of(c)->inner, fenced, t, w, ret_obj, e);
}

static int fence_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    auto_scope struct scope *fenced = NULL;
    TRY(enter(fence_of(c), s, &fenced, e));
    return kc_patch(fence_of(c)->inner, fenced, t, w, ret_obj, e);
}

static int fence_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_remove_opts *o, struct err *e)
{
    auto_scope struct scope *fenced = NULL;
    TRY(enter(fence_of(c), s, &fenced, e));
    return kc_remove_with(fence_of(c)->inner, fenced, t, o, e);
}

static int fence_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    return kc_watch(fence_of(c)->inner, s, t, o, fn, arg, e);
}

static struct kc *fence_free(struct kc *c)
{
    free(c);
    return NULL;
}

struct kc *elector_fence_new(struct elector *el, struct kc *inner)
{
    static const struct kc_ops ops = {
        .get = fence_get,
        .list = fence_list,
        .create = fence_create,
        .update = fence_update,
        .patch = fence_patch,
        .remove = fence_remove,
        .watch = fence_watch,
        .free = fence_free,
    };
    struct fence *f = xmalloc(sizeof(*f));
    f->base.ops = &ops;
    f->elector = el;
    f->inner = inner;
    return &f->base;
}
