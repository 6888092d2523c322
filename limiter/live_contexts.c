/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/live_contexts.h"

#include <pthread.h>

/* Work of more contexts than these is not waited for. */
enum { MAX_CONTEXTS = 256 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct {
    CUcontext context; /* NULL: free */
    int card;
} contexts[MAX_CONTEXTS];

/* Read without the lock, too. */
static CUcontext only;

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    for (unsigned int i = 0; i < MAX_CONTEXTS; i++)
        contexts[i].context = NULL;
    only = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* Locked. */
static void set_only(void)
{
    unsigned int n = 0;
    CUcontext found = NULL;
    for (unsigned int i = 0; i < MAX_CONTEXTS && n < 2; i++) {
        if (contexts[i].context == NULL)
            continue;
        found = contexts[i].context;
        n++;
    }
    __atomic_store_n(&only, n == 1 ? found : NULL, __ATOMIC_RELAXED);
}

CUcontext live_contexts_only(void)
{
    return __atomic_load_n(&only, __ATOMIC_RELAXED);
}

/* Locked. */
static unsigned int find(CUcontext context)
{
    unsigned int i = 0;
    while (i < MAX_CONTEXTS && contexts[i].context != context)
        i++;
    return i;
}

void live_contexts_add(CUcontext context, int card)
{
    (void)pthread_mutex_lock(&mu);
    unsigned int at = find(NULL);
    if (at < MAX_CONTEXTS) {
        contexts[at].context = context;
        contexts[at].card = card;
    }
    set_only();
    (void)pthread_mutex_unlock(&mu);
}

int live_contexts_card(CUcontext context)
{
    (void)pthread_mutex_lock(&mu);
    unsigned int at = context != NULL ? find(context) : MAX_CONTEXTS;
    int card = at < MAX_CONTEXTS ? contexts[at].card : LIVE_CONTEXTS_UNKNOWN;
    (void)pthread_mutex_unlock(&mu);
    return card;
}

void live_contexts_remove(CUcontext context)
{
    (void)pthread_mutex_lock(&mu);
    unsigned int at = find(context);
    if (at < MAX_CONTEXTS)
        contexts[at].context = NULL;
    set_only();
    (void)pthread_mutex_unlock(&mu);
}

bool live_contexts_all(int card, bool (*fn)(CUcontext context, void *arg), void *arg)
{
    bool all = true;
    (void)pthread_mutex_lock(&mu);
    for (unsigned int i = 0; i < MAX_CONTEXTS && all; i++) {
        if (contexts[i].context != NULL && contexts[i].card == card)
            all = fn(contexts[i].context, arg);
    }
    (void)pthread_mutex_unlock(&mu);
    return all;
}
