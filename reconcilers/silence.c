/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/silence.h"

#include <pthread.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

/* An answer that is owed. */
struct owed {
    int64_t
        observed; /* the last that was answered: one who answers later orders is no silent one */
    int64_t since_mono_ms, since_wall_ms;
};

struct silence {
    pthread_mutex_t mu;
    struct strmap *owed; /* guarded by mu: node → struct owed, owned */
};

struct silence *silence_new(void)
{
    struct silence *s = xmalloc(sizeof(*s));
    (void)pthread_mutex_init(&s->mu, NULL);
    s->owed = strmap_new();
    return s;
}

static struct owed *owed_of(struct silence *s, const struct clock *clk, const char *node,
                            int64_t observed)
{
    struct owed *o = strmap_get(s->owed, node);
    if (o && o->observed == observed)
        return o;
    if (!o) {
        o = xmalloc(sizeof(*o));
        (void)strmap_put(s->owed, node, o);
    }
    *o = (struct owed){.observed = observed,
                       .since_mono_ms = clock_mono_ms(clk),
                       .since_wall_ms = clock_wall_ms(clk)};
    return o;
}

int64_t silence_note(struct silence *s, const struct clock *clk, const char *node,
                     struct node_view *v)
{
    HOLD(&s->mu);
    v->silent = false;
    if (!v->device || v->device->observed_generation == v->generation) {
        free(strmap_remove(s->owed, node));
        return 0;
    }
    const struct owed *o = owed_of(s, clk, node, v->device->observed_generation);
    int64_t left_ms = o->since_mono_ms + SILENCE_AFTER_MS - clock_mono_ms(clk);
    v->silent = left_ms <= 0;
    v->silent_since_ms = o->since_wall_ms;
    return v->silent ? 0 : left_ms;
}

struct silence *silence_free(struct silence *s)
{
    if (!s)
        return NULL;
    size_t pos = 0;
    void *o;
    while (strmap_next(s->owed, &pos, &(const char *){NULL}, &o))
        free(o);
    (void)strmap_free(s->owed);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
