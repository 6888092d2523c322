/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/streams.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "limiter/real.h"

/* Work of more streams than these is not waited for. */
enum { MAX_STREAMS = 4096 };

enum { MODE_UNCHANGED = -1 };

/* One entry may be both. */
struct entry {
    CUcontext context;
    struct stream_key key;
    bool is_made, is_captured; /* neither: the entry is free. A default stream is not made */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[MAX_STREAMS];
static unsigned int reach;
static unsigned int captured; /* read without the lock, too */

static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&mu, NULL);
    memset(entries, 0, sizeof(entries));
    reach = captured = 0;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static void lock(void)
{
    (void)pthread_mutex_lock(&mu);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&mu);
}

struct stream_key stream_key(CUstream stream)
{
    int tid = stream == STREAM_PER_THREAD ? (int)syscall(SYS_gettid) : 0;
    return (struct stream_key){.stream = stream, .tid = tid};
}

/* --- Entries; locked --- */

static bool is_free(const struct entry *e)
{
    return !e->is_made && !e->is_captured;
}

static struct entry *find(struct stream_key key)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (!is_free(&entries[i]) && stream_key_is(entries[i].key, key))
            return &entries[i];
    }
    return NULL;
}

/* NULL: there are too many. */
static struct entry *find_or_add(struct stream_key key, CUcontext context)
{
    struct entry *e = find(key);
    unsigned int i = 0;
    if (e != NULL)
        return e;
    while (i < reach && !is_free(&entries[i]))
        i++;
    if (i == MAX_STREAMS)
        return NULL;
    reach = i >= reach ? i + 1 : reach;
    entries[i] = (struct entry){.context = context, .key = key};
    return &entries[i];
}

static void set_captured(struct entry *e, bool value)
{
    unsigned int more = (unsigned int)value - (unsigned int)e->is_captured;
    e->is_captured = value;
    (void)__atomic_fetch_add(&captured, more, __ATOMIC_SEQ_CST);
}

static void end(struct entry *e)
{
    set_captured(e, false);
    e->is_made = false;
}

/* --- --- */

void streams_add(CUcontext context, CUstream stream)
{
    lock();
    struct entry *e = find_or_add(stream_key(stream), context);
    if (e != NULL) {
        e->context = context; /* the entry may be of a context that has just ended */
        e->is_made = true;
    }
    unlock();
}

bool streams_remove(CUstream stream, CUcontext *ret_context)
{
    lock();
    struct entry *e = find(stream_key(stream));
    bool was_made = e != NULL && e->is_made;
    if (e != NULL) {
        *ret_context = e->context;
        end(e);
    }
    unlock();
    return was_made;
}

void streams_end_context(CUcontext context)
{
    lock();
    for (unsigned int i = 0; i < reach; i++) {
        if (entries[i].context == context)
            end(&entries[i]);
    }
    unlock();
}

static CUcontext context_of(CUstream stream)
{
    CUcontext context = NULL;
    bool is_handle = stream != NULL && stream != STREAM_PER_THREAD;
    if (!is_handle || also.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        (void)also.cuCtxGetCurrent(&context);
    return context;
}

bool streams_begin_capture(CUstream stream)
{
    CUcontext context = context_of(stream);
    lock();
    struct entry *e = find_or_add(stream_key(stream), context);
    bool ok = e != NULL && !e->is_captured;
    if (ok)
        set_captured(e, true);
    unlock();
    return ok;
}

void streams_end_capture(CUstream stream)
{
    lock();
    struct entry *e = find(stream_key(stream));
    if (e != NULL)
        set_captured(e, false);
    unlock();
}

bool streams_any_captured(void)
{
    return __atomic_load_n(&captured, __ATOMIC_SEQ_CST) != 0;
}

static CUresult ask(CUstream stream, int *ret_status)
{
    *ret_status = 0;
    return streams_any_captured() ? also.cuStreamIsCapturing(stream, ret_status) : CUDA_SUCCESS;
}

/* Streams come to a capture by events of it, too. The default stream beside one that is captured
 * takes no work. Of one that cannot be told the work is taken for work, which counts. */
bool streams_is_captured(CUstream stream)
{
    int status = 0;
    return ask(stream, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != 0;
}

static bool may_be_captured(CUstream stream)
{
    int status = 0;
    return ask(stream, &status) != CUDA_SUCCESS || status != 0;
}

/* One whose context could not be told is taken for any's. */
static bool has_capture(CUcontext context)
{
    for (unsigned int i = 0; i < reach; i++) {
        if (entries[i].is_captured && (entries[i].context == context || entries[i].context == NULL))
            return true;
    }
    return false;
}

/* An error of the card's ends its work, too. */
static bool is_done(CUstream stream)
{
    return also.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
}

bool streams_are_done(CUcontext current)
{
    lock();
    bool done = has_capture(current) || is_done(/* stream= */ NULL);
    for (unsigned int i = 0; i < reach && done; i++) {
        const struct entry *e = &entries[i];
        if (e->is_made && e->context == current && !may_be_captured(e->key.stream))
            done = is_done(e->key.stream);
    }
    unlock();
    return done;
}

int streams_relax(void)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!streams_any_captured() || also.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return MODE_UNCHANGED;
    return mode;
}

void streams_tighten(int mode)
{
    if (mode != MODE_UNCHANGED)
        (void)also.cuThreadExchangeStreamCaptureMode(&mode);
}
