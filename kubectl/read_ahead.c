/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/read_ahead.h"

#include <jansson.h>
#include <pthread.h>

#include "base/auto.h"
#include "base/xalloc.h"

enum { AHEAD = 32 };

/* A list between the two threads: the fields before mu are the reader's, mu guards the others. */
struct read_ahead {
    struct kc *kc;
    struct scope *scope; /* its own */
    struct kc_target target;
    struct kc_list_opts opts;
    pthread_t reader;
    char *version;  /* of the list, when it is done */
    size_t dropped; /* of the items, since the beginning */
    pthread_mutex_t mu;
    pthread_cond_t changed;
    /* A ring; each with a reference. The reader drops those that the caller is done with: JSON's
     * counts are not read atomically, and memory goes back to the thread that has it. */
    json_t *items[AHEAD];
    size_t read, looked_at; /* so many, since the beginning */
    bool done;              /* the reader's: there is no more, by rc and why */
    bool stopped;           /* the caller's: no more is wanted */
    int rc;
    struct err why;
};

/* --- The reader's thread --- */

/* Waits until there is room for one more. Returns how many the caller is done with. */
static size_t await_room(struct read_ahead *a, bool *ret_stopped)
{
    HOLD(&a->mu);
    while (a->read - a->looked_at == AHEAD && !a->stopped)
        (void)pthread_cond_wait(&a->changed, &a->mu);
    *ret_stopped = a->stopped;
    return a->looked_at;
}

/* Drops the items that the caller is done with. It needs no lock: they are the reader's again. */
static void drop(struct read_ahead *a, size_t until)
{
    while (a->dropped < until)
        json_decref(a->items[a->dropped++ % AHEAD]);
}

static int put(void *arg, const json_t *obj, struct err *e)
{
    struct read_ahead *a = arg;
    bool stopped;
    drop(a, await_room(a, &stopped));
    if (stopped)
        return err_set(e, ERR_CANCELED, "nobody reads on");
    HOLD(&a->mu);
    a->items[a->read++ % AHEAD] = json_incref((json_t *)(uintptr_t)obj);
    (void)pthread_cond_signal(&a->changed);
    return 0;
}

static void *read_list(void *arg)
{
    struct read_ahead *a = arg;
    auto_err struct err why = {0};
    int rc = kc_list_each(a->kc, a->scope, &a->target, &a->opts, put, a, &a->version, &why);
    HOLD(&a->mu);
    a->done = true;
    a->rc = rc < 0 ? err_move(&a->why, &why) : 0;
    (void)pthread_cond_signal(&a->changed);
    return NULL;
}

/* --- The caller's --- */

/* The next object; NULL: there is no more. */
static const json_t *next(struct read_ahead *a)
{
    HOLD(&a->mu);
    while (a->read == a->looked_at && !a->done)
        (void)pthread_cond_wait(&a->changed, &a->mu);
    return a->read == a->looked_at ? NULL : a->items[a->looked_at % AHEAD];
}

static void done_with_it(struct read_ahead *a)
{
    HOLD(&a->mu);
    a->looked_at++;
    (void)pthread_cond_signal(&a->changed);
}

static void stop(struct read_ahead *a)
{
    HOLD(&a->mu);
    a->stopped = true;
    (void)pthread_cond_signal(&a->changed);
}

static int look(struct read_ahead *a, kc_item_fn *fn, void *arg, struct err *e)
{
    const json_t *obj;
    while ((obj = next(a))) {
        TRY(fn(arg, obj, e));
        done_with_it(a);
    }
    return 0;
}

int read_ahead_each(struct read_ahead *a, kc_item_fn *fn, void *arg, char **ret_version,
                    struct err *e)
{
    TRY(look(a, fn, arg, e));
    HOLD(&a->mu); /* the reader is done */
    if (a->rc < 0)
        return err_move(e, &a->why);
    if (ret_version)
        *ret_version = TAKE(a->version);
    return 0;
}

static void release(struct read_ahead *a)
{
    (void)pthread_cond_destroy(&a->changed);
    (void)pthread_mutex_destroy(&a->mu);
    (void)scope_free(a->scope);
    err_clear(&a->why);
    free(a->version);
    free(a);
}

int read_ahead_begin(struct kc *kc, struct scope *s, const struct kc_target *t,
                     const struct kc_list_opts *o, struct read_ahead **ret, struct err *e)
{
    struct read_ahead *a = xmalloc(sizeof(*a));
    *a = (struct read_ahead){.kc = kc,
                             .scope = scope_new(s, /* timeout_ms= */ -1),
                             .target = *t,
                             .opts = *o};
    (void)pthread_mutex_init(&a->mu, NULL);
    (void)pthread_cond_init(&a->changed, NULL);
    int failed = pthread_create(&a->reader, NULL, read_list, a);
    if (failed) {
        release(a);
        return err_set_errno(e, failed, "starting a thread");
    }
    *ret = a;
    return 0;
}

struct read_ahead *read_ahead_free(struct read_ahead *a)
{
    if (!a)
        return NULL;
    stop(a);
    scope_cancel(a->scope);
    (void)pthread_join(a->reader, NULL);
    drop(a, a->read);
    release(a);
    return NULL;
}
