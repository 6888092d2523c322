/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/spec_source.h"

#include <string.h>
#include <sys/eventfd.h>

#include "base/xalloc.h"

struct spec_source {
    int mail; /* eventfd: the Device changed */
    pthread_mutex_t mu;
    struct object *newest; /* guarded by mu; NULL: no Device */
    bool newest_changed;   /* guarded by mu */

    /* The rest belongs to the loop's thread. */
    struct object *device;      /* owns the payload that spec_source_spec points into */
    struct device_spec no_spec; /* the spec while there is no Device */
    bool seen;
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

struct spec_source *spec_source_new(struct informer *devices)
{
    struct spec_source *s = xmalloc(sizeof(*s));
    s->mail = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&s->mu, NULL);
    s->no_spec.mig_strategy = API_STRATEGY_MIXED;
    informer_add_handler(devices, on_device, s);
    return s;
}

int spec_source_fd(const struct spec_source *s)
{
    return s->mail;
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

bool spec_source_take(struct spec_source *s, struct spec_news *ret)
{
    eventfd_t n;
    struct object *next;
    (void)eventfd_read(s->mail, &n);
    {
        HOLD(&s->mu);
        if (!s->newest_changed)
            return false;
        s->newest_changed = false;
        next = s->newest ? object_ref(s->newest) : NULL;
    }
    struct object *old = s->device;
    *ret = (struct spec_news){.before = spec_source_spec(s), .replaced = old};
    ret->ordered = s->seen && next && old && strcmp(object_uid(next), object_uid(old)) == 0;
    bool same = ret->ordered && object_generation(next) == object_generation(old);
    s->device = next;
    s->seen = true;
    ret->changed = !same || !same_spec(ret->before, spec_source_spec(s));
    return true;
}

const struct own_device *spec_source_device(const struct spec_source *s)
{
    return s->device ? object_payload(s->device) : NULL;
}

const struct device_spec *spec_source_spec(const struct spec_source *s)
{
    const struct own_device *d = spec_source_device(s);
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

struct spec_source *spec_source_free(struct spec_source *s)
{
    if (!s)
        return NULL;
    (void)object_unref(s->device);
    (void)object_unref(s->newest);
    (void)close(s->mail);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
