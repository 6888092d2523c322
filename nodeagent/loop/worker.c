/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/worker.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

#define DEFAULT_MAX_JOBS    64
#define DEFAULT_DEADLINE_MS 30000

struct job {
    struct job *next;
    worker_job_fn *run;
    worker_done_fn *done, *drop;
    void *arg;
};

/* First in, first out. */
struct queue {
    struct job *first, **last;
};

struct worker;

struct worker_thread {
    struct worker *worker;
    pthread_t id;
    struct gpu_activity activity; /* atomics, written around every vendor call */
    _Atomic(const void *) job;    /* the arg of the job in hand, its address only; NULL: none */
    /* guarded by the worker's mu */
    bool living;  /* it takes jobs */
    bool started; /* id is valid, and is to be joined */
};

struct worker {
    /* immutable */
    struct gpu *gpu;
    const struct clock *clock;
    size_t max_jobs, max_threads;
    int64_t deadline_ms, park_ms;
    int event_fd;
    struct worker_thread *threads; /* owned; max_threads entries */
    /* written by the loop's thread alone */
    size_t pending;
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t wake;  /* signals work, or stop, to the threads */
    pthread_cond_t ended; /* signals the end of the last thread to worker_free */
    struct queue todo, finished;
    struct job *parked; /* NULL: none, or it has begun */
    bool parked_began;  /* and was not taken back yet */
    size_t queued;
    size_t idle, living; /* threads that wait for a job; that still take jobs */
    bool stop, over, start_failed;
};

/* --- queues; the caller holds mu --- */

static void queue_init(struct queue *q)
{
    q->first = NULL;
    q->last = &q->first;
}

static void queue_put(struct queue *q, struct job *j)
{
    assert(!*q->last);
    j->next = NULL;
    *q->last = j;
    q->last = &j->next;
}

static struct job *queue_take(struct queue *q)
{
    struct job *j = q->first;
    if (!j)
        return NULL;
    q->first = j->next;
    if (!q->first)
        q->last = &q->first;
    return j;
}

/* --- the worker's threads --- */

/* CLOCK_MONOTONIC, on which the worker's conditions wait. */
static struct timespec after_ms(int64_t ms)
{
    int64_t at_ms = clock_mono_ms(clock_real()) + ms;
    return (struct timespec){.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
}

/* Waits for a job in the queue, or until the parked one may begin. The caller holds mu. */
static void wait_for_work(struct worker *w)
{
    struct timespec until = after_ms(w->park_ms);
    bool waits = w->park_ms > 0;
    while (!w->stop && !w->todo.first && waits)
        waits = pthread_cond_timedwait(&w->wake, &w->mu, &until) != ETIMEDOUT;
    while (!w->stop && !w->todo.first && !w->parked)
        (void)pthread_cond_wait(&w->wake, &w->mu);
}

static struct job *take_parked(struct worker *w)
{
    w->parked_began = w->parked;
    return TAKE(w->parked);
}

/* The next job; NULL: stop, or another thread waits for one already. Changes are rare, and each
 * thread keeps what malloc caches for it. */
static struct job *wait_for_job(struct worker *w)
{
    HOLD(&w->mu);
    if (!w->todo.first && w->idle > 0)
        return NULL;
    w->idle++;
    wait_for_work(w);
    assert(w->idle > 0 && w->idle <= w->living);
    w->idle--;
    if (w->stop)
        return NULL;
    if (!w->todo.first)
        return take_parked(w);
    assert(w->queued > 0);
    w->queued--;
    return queue_take(&w->todo);
}

static void finish(struct worker *w, struct job *j)
{
    const uint64_t one = 1;
    {
        HOLD(&w->mu);
        queue_put(&w->finished, j);
    }
    /* write fails only when the counter is full; then the descriptor is readable anyway. */
    ssize_t wrote = write(w->event_fd, &one, sizeof(one));
    (void)wrote;
}

/* The last one frees the gpu; it waits for jobs until worker_free ends it. */
static void end_thread(struct worker_thread *t)
{
    struct worker *w = t->worker;
    {
        HOLD(&w->mu);
        assert(w->living > 0 && t->living);
        t->living = false;
        if (--w->living > 0)
            return;
        assert(w->stop);
    }
    w->gpu = gpu_free(w->gpu);
    HOLD(&w->mu);
    w->over = true;
    (void)pthread_cond_signal(&w->ended);
}

/* Gives the pages below this frame back: a change of a card takes a good 100 KiB of stack, and the
 * thread then waits for days. */
static void release_stack(void)
{
    enum { KEPT_BYTES = 8192 }; /* more than the frames of this function's calls */
    pthread_attr_t attr;
    void *lowest = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    (void)pthread_attr_getstack(&attr, &lowest, &bytes);
    (void)pthread_attr_destroy(&attr);
    uintptr_t end = (uintptr_t)__builtin_frame_address(0) - KEPT_BYTES;
    size_t unused = (end - (uintptr_t)lowest) & ~((size_t)sysconf(_SC_PAGESIZE) - 1);
    assert(unused < bytes);
    (void)madvise(lowest, unused, MADV_DONTNEED);
}

static void *run_jobs(void *arg)
{
    struct worker_thread *t = arg;
    struct worker *w = t->worker;
    gpu_activity_of_thread(&t->activity);
    for (struct job *j = wait_for_job(w); j; j = wait_for_job(w)) {
        atomic_store(&t->activity.since_mono_ms, clock_mono_ms(w->clock));
        atomic_store(&t->job, j->arg);
        j->run(w->gpu, j->arg);
        atomic_store(&t->job, NULL);
        finish(w, j);
        release_stack();
    }
    end_thread(t);
    return NULL;
}

/* --- the loop's thread --- */

static void init_sync(struct worker *w)
{
    pthread_condattr_t monotonic;
    (void)pthread_mutex_init(&w->mu, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->wake, &monotonic);
    (void)pthread_cond_init(&w->ended, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

static void free_worker(struct worker *w)
{
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_cond_destroy(&w->ended);
    (void)pthread_mutex_destroy(&w->mu);
    if (w->event_fd >= 0)
        (void)close(w->event_fd);
    free(w->threads);
    free(w);
}

static struct worker *make(struct gpu *gpu, const struct worker_options *o)
{
    struct worker *w = xcalloc(1, sizeof(*w));
    w->gpu = gpu;
    w->clock = o->clock ? o->clock : clock_real();
    w->max_jobs = o->max_jobs ? o->max_jobs : DEFAULT_MAX_JOBS;
    w->max_threads = o->max_threads ? o->max_threads : 1;
    w->park_ms = o->park_ms;
    w->deadline_ms = o->call_deadline_ms ? o->call_deadline_ms : DEFAULT_DEADLINE_MS;
    w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->threads = xcalloc(w->max_threads, sizeof(*w->threads));
    queue_init(&w->todo);
    queue_init(&w->finished);
    init_sync(w);
    return w;
}

/* An entry for one more thread. The thread that had it has ended. The caller holds mu. */
static struct worker_thread *free_entry(const struct worker *w)
{
    struct worker_thread *t = w->threads;
    while (t->living)
        t++;
    assert(t < w->threads + w->max_threads);
    if (t->started)
        (void)pthread_join(t->id, NULL); /* it has nothing left to do but to return */
    t->started = false;
    return t;
}

/* Starts one more thread. The caller holds mu. Returns an errno. */
static int start_thread(struct worker *w)
{
    assert(w->living < w->max_threads);
    struct worker_thread *t = free_entry(w);
    t->worker = w;
    int rc = pthread_create(&t->id, NULL, run_jobs, t);
    if (rc)
        return rc;
    (void)pthread_setname_np(t->id, "gpu");
    t->started = t->living = true;
    w->living++;
    return 0;
}

int worker_new(struct gpu *gpu, const struct worker_options *o, struct worker **ret, struct err *e)
{
    assert(gpu && o && ret);
    struct worker *w = make(gpu, o);
    int rc = w->event_fd < 0 ? errno : 0;
    if (!rc) {
        HOLD(&w->mu);
        rc = start_thread(w);
    }
    if (rc) {
        free_worker(w);
        return err_set_errno(e, rc, "start the hardware's thread");
    }
    *ret = w;
    return 0;
}

/* A job that finds no free thread gets one. Where none can be started, the job waits for the others
 * and for the next worker_dispatch, which tries again. The caller holds mu. */
static void start_for_job(struct worker *w)
{
    if (w->queued <= w->idle || w->living == w->max_threads)
        return;
    int rc = start_thread(w);
    if (rc && !w->start_failed)
        log_error("Could not start a thread for the hardware", kv("error", strerror(rc)));
    w->start_failed = rc;
}

int worker_submit(struct worker *w, worker_job_fn *run_fn, worker_done_fn *done,
                  worker_done_fn *drop, void *arg, struct err *e)
{
    assert(w && run_fn && done);
    HOLD(&w->mu);
    if (w->queued == w->max_jobs)
        return err_set(e, ERR_THROTTLED, "%zu jobs wait for the hardware already", w->queued);
    struct job *j = xcalloc(1, sizeof(*j));
    *j = (struct job){.run = run_fn, .done = done, .drop = drop, .arg = arg};
    queue_put(&w->todo, j);
    w->queued++;
    w->pending++;
    start_for_job(w);
    (void)pthread_cond_signal(&w->wake);
    return 0;
}

void worker_park(struct worker *w, worker_job_fn *run_fn, worker_done_fn *done,
                 worker_done_fn *drop, void *arg)
{
    struct job *j = xcalloc(1, sizeof(*j));
    *j = (struct job){.run = run_fn, .done = done, .drop = drop, .arg = arg};
    HOLD(&w->mu);
    assert(!w->parked && !w->parked_began);
    w->parked = j;
}

bool worker_parks(const struct worker *w)
{
    return w->park_ms > 0;
}

bool worker_unpark(struct worker *w)
{
    HOLD(&w->mu);
    bool began = w->parked_began;
    w->parked_began = false;
    free(TAKE(w->parked));
    w->pending += began;
    return began;
}

int worker_fd(const struct worker *w)
{
    return w->event_fd;
}

static struct job *take_finished(struct worker *w)
{
    HOLD(&w->mu);
    return queue_take(&w->finished);
}

/* The descriptor is emptied first, so that a job that ends meanwhile makes it readable again. done
 * is called without the lock, so it may submit. */
void worker_dispatch(struct worker *w)
{
    uint64_t count;
    ssize_t got = read(w->event_fd, &count, sizeof(count));
    (void)got;
    {
        HOLD(&w->mu);
        start_for_job(w);
    }
    for (struct job *j = take_finished(w); j; j = take_finished(w)) {
        assert(w->pending > 0);
        w->pending--;
        j->done(j->arg);
        free(j);
    }
}

size_t worker_pending(const struct worker *w)
{
    return w->pending;
}

size_t worker_max_threads(const struct worker *w)
{
    return w->max_threads;
}

/* --- the watchdog --- */

/* The duration of the thread's call in flight; -1: none. The two atomics are read one after the
 * other; reading the call again shows whether they belong together. */
static int64_t call_age_ms(const struct worker_thread *t, const char **ret_call, int64_t *ret_since)
{
    const char *call = atomic_load(&t->activity.call);
    int64_t since = atomic_load(&t->activity.since_mono_ms);
    if (!call || atomic_load(&t->activity.call) != call)
        return -1;
    int64_t age = clock_mono_ms(t->worker->clock) - since;
    *ret_call = call;
    *ret_since = since;
    return age < 0 ? 0 : age;
}

bool worker_stuck(const struct worker *w, const char **ret_call, int64_t *ret_since_mono_ms)
{
    int64_t oldest = w->deadline_ms - 1;
    for (size_t i = 0; i < w->max_threads; i++) {
        const char *call = NULL;
        int64_t since = 0;
        int64_t age = call_age_ms(&w->threads[i], &call, &since);
        if (age <= oldest)
            continue;
        oldest = age;
        if (ret_call)
            *ret_call = call;
        if (ret_since_mono_ms)
            *ret_since_mono_ms = since;
    }
    return oldest >= w->deadline_ms;
}

bool worker_stuck_job(const struct worker *w, const void *arg)
{
    const char *call;
    int64_t since;
    for (size_t i = 0; i < w->max_threads; i++)
        if (atomic_load(&w->threads[i].job) == arg)
            return call_age_ms(&w->threads[i], &call, &since) >= w->deadline_ms;
    return false;
}

int64_t worker_quiet_ms(const struct worker *w)
{
    int64_t longest = 0;
    for (size_t i = 0; i < w->max_threads; i++) {
        const struct worker_thread *t = &w->threads[i];
        int64_t since = atomic_load(&t->activity.since_mono_ms);
        if (!atomic_load(&t->job) || atomic_load(&t->activity.call))
            continue;
        int64_t quiet = clock_mono_ms(w->clock) - since;
        if (quiet > longest)
            longest = quiet;
    }
    return longest;
}

/* A job between two calls, or before its first one, may hang in the next one. */
int64_t worker_watch_ms(const struct worker *w)
{
    size_t stuck = 0;
    int64_t least = w->deadline_ms;
    for (size_t i = 0; i < w->max_threads; i++) {
        const char *call = NULL;
        int64_t since = 0;
        int64_t age = call_age_ms(&w->threads[i], &call, &since);
        if (age >= w->deadline_ms)
            stuck++;
        else if (age >= 0 && w->deadline_ms - age < least)
            least = w->deadline_ms - age;
    }
    return w->pending > stuck ? least : -1;
}

/* --- the end --- */

/* True: the thread has ended. */
static bool stop_within(struct worker *w, int64_t grace_ms)
{
    struct timespec until = after_ms(grace_ms);
    HOLD(&w->mu);
    w->stop = true;
    (void)pthread_cond_broadcast(&w->wake);
    while (!w->over)
        if (pthread_cond_timedwait(&w->ended, &w->mu, &until) == ETIMEDOUT)
            return w->over;
    return true;
}

static void drop_all(struct queue *q)
{
    for (struct job *j = queue_take(q); j; j = queue_take(q)) {
        if (j->drop)
            j->drop(j->arg);
        free(j);
    }
}

struct worker *worker_free(struct worker *w, int64_t grace_ms, bool *ret_abandoned)
{
    if (ret_abandoned)
        *ret_abandoned = false;
    if (!w)
        return NULL;
    if (!stop_within(w, grace_ms)) {
        /* The threads still use everything, so it is left to the end of the process. */
        HOLD(&w->mu);
        for (size_t i = 0; i < w->max_threads; i++)
            if (w->threads[i].started)
                (void)pthread_detach(w->threads[i].id);
        if (ret_abandoned)
            *ret_abandoned = true;
        return NULL;
    }
    for (size_t i = 0; i < w->max_threads; i++)
        if (w->threads[i].started)
            (void)pthread_join(w->threads[i].id, NULL);
    assert(w->living == 0 && w->idle == 0);
    drop_all(&w->todo);
    drop_all(&w->finished);
    free_worker(w);
    return NULL;
}
