/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/spec_source.h"

#include <assert.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/loop/last_spec.h"

struct spec_source {
    int mail; /* eventfd: the Device changed */
    pthread_mutex_t mu;
    struct object *newest; /* guarded by mu; NULL: no Device */
    bool newest_changed;   /* guarded by mu */

    /* The rest belongs to the loop's thread. */
    struct object *device;      /* owns the payload that spec_source_spec points into */
    struct device_spec no_spec; /* the spec while there is no Device */
    bool seen;
    const char *state_dir;
    const struct clock *clk;
    int64_t recall_mono_ms; /* when to stop waiting for the Device; INT64_MAX: not any more */
    bool recalled;          /* and not seen: the spec is last_spec */
    struct device_spec last_spec;
};

static void on_device(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    (void)before;
    (void)stale;
    struct spec_source *s = arg;
    {
        HOLD(&s->mu);
        (void)object_unref(s->newest);
        s->newest = after ? object_ref((struct object *)(uintptr_t)after) : NULL;
        s->newest_changed = true;
    }
    (void)eventfd_write(s->mail, 1);
}

struct spec_source *spec_source_new(struct informer *devices, const char *state_dir,
                                    const struct clock *clk)
{
    struct spec_source *s = xmalloc(sizeof(*s));
    s->mail = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&s->mu, NULL);
    s->no_spec.mig_strategy = API_STRATEGY_MIXED;
    s->state_dir = state_dir;
    s->clk = clk;
    s->recall_mono_ms = clock_mono_ms(clk) + SPEC_GRACE_MS;
    informer_add_handler(devices, on_device, s);
    return s;
}

int spec_source_fd(const struct spec_source *s)
{
    return s->mail;
}

int64_t spec_source_due_mono_ms(const struct spec_source *s)
{
    return s->recall_mono_ms;
}

void spec_news_done(struct spec_news *n)
{
    (void)object_unref(n->replaced);
}

/* Compares contents, not generations: a stored spec can read differently under another schema, or
 * after bits have flipped, and back again. */
static bool same_spec(const struct device_spec *x, const struct device_spec *y)
{
    auto_json json_t *a = device_spec_encode(x);
    auto_json json_t *b = device_spec_encode(y);
    return json_equal(a, b);
}

/* True: *ret is what the mailbox had, held; NULL: there is no Device. */
static bool take_mail(struct spec_source *s, struct object **ret)
{
    eventfd_t n;
    (void)eventfd_read(s->mail, &n);
    HOLD(&s->mu);
    bool changed = s->newest_changed;
    s->newest_changed = false;
    *ret = changed && s->newest ? object_ref(s->newest) : NULL;
    return changed;
}

static bool recall(struct spec_source *s, struct spec_news *ret)
{
    auto_err struct err e = {0};
    if (clock_mono_ms(s->clk) < s->recall_mono_ms)
        return false;
    assert(!s->seen && !s->recalled);
    s->recall_mono_ms = INT64_MAX;
    int rc = last_spec_read(s->state_dir, &s->last_spec, &e);
    if (rc < 0 && rc != -(int)ERR_NOT_FOUND)
        log_warn("Could not read the last known spec", kv_err(&e));
    if (rc < 0)
        return false;
    log_warn("No Device from the API server yet: the kubelet is offered what exists on the cards");
    *ret = (struct spec_news){.before = spec_source_spec(s), .changed = true};
    s->recalled = true;
    return true;
}

/* Without waiting for the disk, since the loop waits for nothing. */
static void keep(const struct spec_source *s)
{
    auto_err struct err e = {0};
    const struct own_device *d = spec_source_device(s);
    if (!(d && d->spec_error) && last_spec_write(s->state_dir, spec_source_spec(s), &e) < 0)
        log_warn("Could not write the last known spec", kv_err(&e));
}

bool spec_source_take(struct spec_source *s, struct spec_news *ret)
{
    assert(!s->seen || !s->recalled);
    struct object *next;
    if (!take_mail(s, &next))
        return recall(s, ret);
    struct object *old = s->device;
    *ret = (struct spec_news){.before = spec_source_spec(s), .replaced = old};
    ret->ordered = s->seen && next && old && strcmp(object_uid(next), object_uid(old)) == 0;
    bool same = ret->ordered && object_generation(next) == object_generation(old);
    s->device = next;
    s->seen = true;
    s->recalled = false;
    s->recall_mono_ms = INT64_MAX;
    ret->changed = !same || !same_spec(ret->before, spec_source_spec(s));
    if (ret->changed)
        keep(s);
    return true;
}

const struct own_device *spec_source_device(const struct spec_source *s)
{
    return s->device ? object_payload(s->device) : NULL;
}

const struct device_spec *spec_source_spec(const struct spec_source *s)
{
    const struct own_device *d = spec_source_device(s);
    if (s->recalled)
        return &s->last_spec;
    return d && !d->spec_error ? &d->spec : &s->no_spec;
}

const struct device_want *spec_source_want(const struct spec_source *s, const char *uuid)
{
    return device_spec_want(spec_source_spec(s), uuid);
}

int64_t spec_source_generation(const struct spec_source *s)
{
    return s->device ? object_generation(s->device) : 0;
}

bool spec_source_is_seen(const struct spec_source *s)
{
    return s->seen;
}

bool spec_source_may_offer(const struct spec_source *s)
{
    return s->seen || s->recalled;
}

struct spec_source *spec_source_free(struct spec_source *s)
{
    if (!s)
        return NULL;
    (void)object_unref(s->device);
    (void)object_unref(s->newest);
    device_spec_done(&s->last_spec);
    (void)close(s->mail);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
