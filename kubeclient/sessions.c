/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/sessions.h"

#include <assert.h>
#include <pthread.h>

#include "base/xalloc.h"

#define MAX_IDLE_SESSIONS 8
/* A session that is not used costs 130 KiB, and the API server a connection. */
#define IDLE_SESSION_MS 30000

struct sessions {
    const struct clock *clock;
    pthread_mutex_t mu;
    struct session *idle; /* guarded by mu; last used first */
    size_t idle_count;    /* guarded by mu */
};

static struct session *session_free(struct session *n)
{
    if (!n)
        return NULL;
    curl_easy_cleanup(n->easy);
    (void)curl_multi_cleanup(n->multi);
    (void)tls_material_unref(n->tls);
    free(n);
    return NULL;
}

static struct session *session_new(struct tls_material *tls)
{
    struct session *n = xmalloc(sizeof(*n));
    n->multi = curl_multi_init();
    n->easy = curl_easy_init();
    assert(n->multi && n->easy);
    n->tls = tls_material_ref(tls);
    return n;
}

static struct session *pop_idle(struct sessions *s)
{
    HOLD(&s->mu);
    struct session *n = s->idle;
    if (n) {
        s->idle = n->next;
        s->idle_count--;
        n->next = NULL;
    }
    return n;
}

/* A session whose connections were made with this material. Older ones are closed on the way: a
 * rotated certificate must not live on in a connection. */
struct session *sessions_borrow(struct sessions *s, struct tls_material *tls)
{
    struct session *n;
    while ((n = pop_idle(s)) && n->tls != tls)
        (void)session_free(n);
    return n ? n : session_new(tls);
}

void sessions_return(struct sessions *s, struct session *n)
{
    n->used_mono_ms = clock_mono_ms(s->clock);
    {
        HOLD(&s->mu);
        if (s->idle_count < MAX_IDLE_SESSIONS) {
            n->next = s->idle;
            s->idle = n;
            s->idle_count++;
            return;
        }
    }
    (void)session_free(n);
}

/* Sessions that were not used for a while; the caller frees them. */
static struct session *take_unused(struct sessions *s)
{
    int64_t before = clock_mono_ms(s->clock) - IDLE_SESSION_MS;
    HOLD(&s->mu);
    struct session **at = &s->idle;
    size_t n = 0;
    for (; *at && (*at)->used_mono_ms > before; at = &(*at)->next)
        n++;
    struct session *unused = *at; /* the ones behind it were used even longer ago */
    *at = NULL;
    s->idle_count = n;
    return unused;
}

void sessions_close_unused(struct sessions *s)
{
    struct session *next;
    for (struct session *n = take_unused(s); n; n = next) {
        next = n->next;
        (void)session_free(n);
    }
}

struct sessions *sessions_new(const struct clock *clock)
{
    struct sessions *s = xmalloc(sizeof(*s));
    s->clock = clock;
    (void)pthread_mutex_init(&s->mu, NULL);
    return s;
}

struct sessions *sessions_free(struct sessions *s)
{
    if (!s)
        return NULL;
    struct session *n;
    while ((n = pop_idle(s)))
        (void)session_free(n);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
