/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/status_writer.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/backoff.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "nodeagent/loop/own_device.h"
#include "service/resources.h"

/*
 * The wanted status is compared with the server's: the informer's view, or the answer to the status
 * writer's own last write while the informer has not caught up with it (read your own writes). So a
 * status that another client changed differs, and is corrected. All of them are kept as texts of
 * jx_dump: equal documents have equal texts, which take a quarter of a document's memory.
 */
struct status_writer {
    struct status_writer_deps d;
    struct heartbeat *beat; /* NULL: liveness is not watched */
    int wake;               /* eventfd */
    int acked;              /* eventfd: acked_number grew */
    _Atomic int64_t acked_number;
    atomic_bool paused;
    /* guarded by mu */
    pthread_mutex_t mu;
    char *put; /* NULL: nothing was put since the status writer's thread took it */
    int64_t put_number;
    char *wanted; /* NULL: nothing was put yet. Only the status writer's thread changes it */
    int64_t wanted_number;
    bool kicked; /* the server's status may have changed since it was compared with `wanted` */
    bool held;   /* when it was compared last, it was `wanted` */
    /* of the status writer's thread */
    struct backoff backoff;
    struct rng rng;
    char *acked_version; /* resourceVersion and status in the answer to the last write */
    char *acked_status;
    unsigned acked_rewinds; /* rewinds of the store at that time */
    _Atomic int64_t writes, creates, errors;
};

struct status_writer *status_writer_new(const struct status_writer_deps *d)
{
    assert(d->kc && d->devices && d->node && d->clk);
    struct status_writer *p = xmalloc(sizeof(*p));
    p->d = *d;
    p->wake = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    p->acked = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&p->mu, NULL);
    p->backoff = (struct backoff){.base_ms = 100, .cap_ms = 30000, .factor = 2, .jitter_pct = 50};
    rng_init(&p->rng, d->seed);
    return p;
}

void status_writer_set_beat(struct status_writer *p, struct heartbeat *beat)
{
    p->beat = beat;
}

/* The server has this text already, as far as is known. The caller holds mu. */
static bool is_held(const struct status_writer *p, const char *text)
{
    return p->held && !p->kicked && !p->put && strcmp(p->wanted, text) == 0;
}

/* Nothing is left to do: the status writer's thread does not wake for it. The caller holds mu. */
static int64_t acknowledge_again(struct status_writer *p)
{
    p->wanted_number = ++p->put_number;
    atomic_store(&p->acked_number, p->wanted_number);
    return p->wanted_number;
}

int64_t status_writer_put(struct status_writer *p, json_t *status_take)
{
    assert(status_take);
    auto_free char *text = jx_dump(status_take);
    int64_t number;
    json_decref(status_take);
    {
        HOLD(&p->mu);
        if (is_held(p, text))
            return acknowledge_again(p);
        free(p->put);
        p->put = TAKE(text);
        number = ++p->put_number;
    }
    (void)eventfd_write(p->wake, 1);
    return number;
}

int64_t status_writer_acked(const struct status_writer *p)
{
    return atomic_load(&p->acked_number);
}

int status_writer_fd(const struct status_writer *p)
{
    return p->acked;
}

void status_writer_pause(struct status_writer *p, bool paused)
{
    atomic_store(&p->paused, paused);
    status_writer_kick(p);
}

void status_writer_kick(struct status_writer *p)
{
    {
        HOLD(&p->mu);
        p->kicked = true;
    }
    (void)eventfd_write(p->wake, 1);
}

/* The newest status put, borrowed; NULL: none yet. It is compared with the server's next. */
static const char *newest(struct status_writer *p)
{
    HOLD(&p->mu);
    p->kicked = p->held = false;
    if (p->put) {
        assert(p->put_number > p->wanted_number);
        free(p->wanted);
        p->wanted = TAKE(p->put);
        p->wanted_number = p->put_number;
    }
    return p->wanted;
}

/* Records that the server has the wanted status. */
static void acknowledge(struct status_writer *p)
{
    HOLD(&p->mu);
    assert(p->wanted && p->wanted_number >= atomic_load(&p->acked_number));
    p->held = true;
    if (atomic_exchange(&p->acked_number, p->wanted_number) != p->wanted_number)
        (void)eventfd_write(p->acked, 1);
}

static struct kc_target target(const struct status_writer *p, const char *subresource)
{
    return (
        struct kc_target){.res = &resource_devices, .name = p->d.node, .subresource = subresource};
}

static int create_device(struct status_writer *p, struct scope *s, struct err *e)
{
    auto_json json_t *body = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", API_GROUP_VERSION,
                                       "kind", "Device", "metadata", "name", p->d.node);
    const struct kc_target t = target(p, NULL);
    const struct kc_write w = {.body = body, .manager = MANAGER_AGENT};
    int rc = kc_create(p->d.kc, s, &t, &w, NULL, e);
    if (rc == -(int)ERR_EXISTS) {
        err_clear(e);
        return 0;
    }
    if (rc < 0)
        return err_wrap(e, "create Device %s", p->d.node);
    atomic_fetch_add(&p->creates, 1);
    log_info("Created Device", kv("object", p->d.node));
    return 0;
}

static void remember(struct status_writer *p, const json_t *answer)
{
    xstr_set(&p->acked_version, JX_STR_AT(answer, "metadata", "resourceVersion"));
    const json_t *status = json_object_get(answer, "status");
    free(p->acked_status);
    p->acked_status = status ? jx_dump(status) : NULL;
    p->acked_rewinds = store_rewinds(informer_store(p->d.devices));
}

/* The server's object, as far as it is known. Borrowed from o or p. */
struct held {
    const char *status; /* NULL: none */
    const char *version;
};

/* When the store's versions jumped back since the last write, the server was restored from an
 * earlier time. */
static struct held held_by_server(const struct status_writer *p, const struct object *o)
{
    if (p->acked_version && p->acked_rewinds == store_rewinds(informer_store(p->d.devices)) &&
        resource_version_compare(object_version(o), p->acked_version) < 0)
        return (struct held){p->acked_status, p->acked_version};
    return (struct held){((const struct own_device *)object_payload(o))->status, object_version(o)};
}

/* Replaces the whole status, by resourceVersion. That costs the API server a third less than
 * merging a patch, and removes what others wrote into the status. */
static int write_status(struct status_writer *p, struct scope *s, const struct object *o,
                        const char *version, const char *status, struct err *e)
{
    json_t *document = NULL;
    TRY(jx_parse(status, strlen(status), strlen(status), &document, e));
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", API_GROUP_VERSION, "kind",
                  "Device", "metadata", "name", p->d.node, "uid", object_uid(o), "resourceVersion",
                  version, "status", document);
    auto_json json_t *answer = NULL;
    const struct kc_target t = target(p, "status");
    const struct kc_write w = {.body = body, .manager = MANAGER_AGENT};
    if (kc_update(p->d.kc, s, &t, &w, &answer, e) < 0)
        return err_wrap(e, "update status of Device %s", p->d.node);
    atomic_fetch_add(&p->writes, 1);
    remember(p, answer);
    return 0;
}

static struct object *own(struct status_writer *p)
{
    const struct object_key key = {.name = p->d.node};
    return store_get(informer_store(p->d.devices), &key);
}

int status_writer_step(struct status_writer *p, struct scope *s, bool *ret_done, struct err *e)
{
    *ret_done = true;
    if (!informer_has_synced(p->d.devices) || atomic_load(&p->paused))
        return 0;
    auto_object struct object *o = own(p);
    if (!o)
        return create_device(p, s, e); /* the watch will deliver it and kick */
    const char *status = newest(p);
    if (!status)
        return 0;
    const struct held held = held_by_server(p, o);
    *ret_done = false;
    if (!held.status || strcmp(held.status, status) != 0)
        TRY(write_status(p, s, o, held.version, status, e));
    acknowledge(p);
    *ret_done = true;
    return 0;
}

/* Errors after which the watch brings news: another object has the name, or the Device is gone. */
static bool is_settled_by_watch(const struct err *e)
{
    return e->kind == ERR_CONFLICT || e->kind == ERR_NOT_FOUND;
}

static void hold_off(struct status_writer *p, struct scope *s, const struct err *failed)
{
    int64_t delay = backoff_next_ms(&p->backoff, p->d.clk, &p->rng);
    if (failed->retry_after_ms > delay)
        delay = failed->retry_after_ms;
    if (is_settled_by_watch(failed)) {
        auto_scope struct scope *until = scope_new(s, delay);
        (void)!scope_wait_readable(until, p->wake, /* e= */ NULL);
        return;
    }
    log_warn("Could not write Device", kv("object", p->d.node), kv_err(failed));
    (void)scope_wait_ms(s, delay);
}

int status_writer_run(struct status_writer *p, struct scope *s, struct err *e)
{
    /* Only a completed first list shows that there is no Device. */
    TRY(informer_wait_synced(p->d.devices, s, e));
    for (;;) {
        auto_err struct err failed = {0};
        bool done;
        heartbeat_busy(p->beat);
        int rc = status_writer_step(p, s, &done, &failed);
        heartbeat_idle(p->beat);
        if (rc == 0) {
            backoff_reset(&p->backoff);
            TRY(scope_wait_readable(s, p->wake, e));
        } else {
            TRY(scope_check(s, e));
            atomic_fetch_add(&p->errors, 1);
            hold_off(p, s, &failed);
        }
        eventfd_t count;
        (void)eventfd_read(p->wake, &count);
        TRY(scope_check(s, e));
    }
}

struct status_writer_stats status_writer_stats(const struct status_writer *p)
{
    return (struct status_writer_stats){atomic_load(&p->writes), atomic_load(&p->creates),
                                        atomic_load(&p->errors)};
}

struct status_writer *status_writer_free(struct status_writer *p)
{
    if (!p)
        return NULL;
    (void)close(p->wake);
    (void)close(p->acked);
    (void)pthread_mutex_destroy(&p->mu);
    free(p->put);
    free(p->wanted);
    free(p->acked_status);
    free(p->acked_version);
    free(p);
    return NULL;
}
