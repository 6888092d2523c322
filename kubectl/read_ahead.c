/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/read_ahead.h"

#include <jansson.h>
#include <pthread.h>

#include "base/auto.h"

enum { AHEAD = 32 };

/* The first five are the reader's; what follows mu is guarded by it. */
struct ahead {
    struct kc *kc;
    struct scope *scope;
    const struct kc_target *target;
    const struct kc_list_opts *opts;
    char *version; /* of the list, when it is done */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    json_t *items[AHEAD]; /* a ring of n, from first on; each with a reference */
    size_t first, n;
    bool done;    /* the reader's: there is no more, by rc and why */
    bool stopped; /* the caller's: no more is wanted */
    int rc;
    struct err why;
};

/* --- The reader's thread --- */

static int put(void *arg, const json_t *obj, struct err *e)
{
    struct ahead *a = arg;
    HOLD(&a->mu);
    while (a->n == AHEAD && !a->stopped)
        (void)pthread_cond_wait(&a->changed, &a->mu);
    if (a->stopped)
        return err_set(e, ERR_CANCELED, "nobody reads on");
    a->items[(a->first + a->n++) % AHEAD] = json_incref((json_t *)(uintptr_t)obj);
    (void)pthread_cond_signal(&a->changed);
    return 0;
}

static void *read_list(void *arg)
{
    struct ahead *a = arg;
    auto_err struct err why = {0};
    int rc = kc_list_each(a->kc, a->scope, a->target, a->opts, put, a, &a->version, &why);
    HOLD(&a->mu);
    a->done = true;
    a->rc = rc < 0 ? err_move(&a->why, &why) : 0;
    (void)pthread_cond_signal(&a->changed);
    return NULL;
}

/* --- The caller's --- */

/* The next object, with its reference; NULL: there is no more. */
static json_t *take(struct ahead *a)
{
    HOLD(&a->mu);
    while (a->n == 0 && !a->done)
        (void)pthread_cond_wait(&a->changed, &a->mu);
    if (a->n == 0)
        return NULL;
    json_t *obj = a->items[a->first];
    a->first = (a->first + 1) % AHEAD;
    a->n--;
    (void)pthread_cond_signal(&a->changed);
    return obj;
}

static void stop(struct ahead *a)
{
    HOLD(&a->mu);
    a->stopped = true;
    (void)pthread_cond_signal(&a->changed);
}

static int look(struct ahead *a, kc_item_fn *fn, void *arg, struct err *e)
{
    json_t *next;
    while ((next = take(a))) {
        auto_json json_t *obj = next;
        TRY(fn(arg, obj, e));
    }
    return 0;
}

static int run(struct ahead *a, kc_item_fn *fn, void *arg, struct err *e)
{
    pthread_t reader;
    int failed = pthread_create(&reader, NULL, read_list, a);
    if (failed)
        return err_set_errno(e, failed, "starting a thread");
    int rc = look(a, fn, arg, e);
    stop(a);
    (void)pthread_join(reader, NULL);
    while (a->n > 0)
        json_decref(a->items[(a->first + --a->n) % AHEAD]);
    return rc < 0 || a->rc == 0 ? rc : err_move(e, &a->why);
}

int read_ahead_each(struct kc *kc, struct scope *s, const struct kc_target *t,
                    const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                    struct err *e)
{
    struct ahead a = {.kc = kc, .scope = s, .target = t, .opts = o};
    (void)pthread_mutex_init(&a.mu, NULL);
    (void)pthread_cond_init(&a.changed, NULL);
    int rc = run(&a, fn, arg, e);
    (void)pthread_cond_destroy(&a.changed);
    (void)pthread_mutex_destroy(&a.mu);
    err_clear(&a.why);
    if (rc == 0 && ret_version)
        *ret_version = TAKE(a.version);
    free(a.version);
    return rc;
}
