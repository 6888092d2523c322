/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_worker.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

static struct timeslices slices = {.mu = PTHREAD_MUTEX_INITIALIZER};

static void forget_after_fork(void)
{
    timeslices_forget(&slices);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- Items that take no time of the card --- */

/* The functions' thread has something to do, if the first item of a stream is one. */
static void tell_host(struct work *w)
{
    if (w->has_host)
        (void)pthread_cond_signal(&w->host_wake);
}

static void finish(struct stream *s, int64_t at_ns)
{
    struct work *w = s->work;
    queue_finish(s, at_ns);
    tell_host(w);
}

static void do_instants(struct work *w)
{
    struct stream *s;
    while ((s = queue_pick(w, WORK_INSTANT)) != NULL) {
        bool tells_others = s->first->tells_others;
        finish(s, queue_perform(s, s->first, queue_ready_ns(s)));
        if (tells_others)
            queue_wake_others(w);
    }
}

/* --- Kernels --- */

static void give_card(struct work *w, int64_t until_ns, bool again)
{
    if (w->has_card)
        timeslices_give(&slices, w->seat, until_ns, again);
    w->has_card = false;
    w->running = NULL;
}

/* False: not yet; look again at *ret_look_ns. */
static bool take_card(struct work *w, const struct stream *s, int64_t *ret_look_ns)
{
    if (!w->has_card)
        w->has_card = timeslices_ask(&slices, w->seat, queue_ready_ns(s), &w->slice, ret_look_ns);
    return w->has_card;
}

/* Accounts for a kernel's time up to now. True when it has ended. */
static bool advance(struct work *w, struct stream *s, int64_t now_ns)
{
    uint64_t *left = &s->first->left_ns;
    int64_t start = later(later(w->clock_ns, w->slice.start_ns), queue_ready_ns(s));
    int64_t limit = earlier(now_ns, w->slice.end_ns);
    uint64_t used = limit > start ? (uint64_t)(limit - start) : 0;
    if (used > *left)
        used = *left;
    w->clock_ns = start + (int64_t)used;
    if (*left != WORK_FOREVER)
        *left -= used;
    return *left == 0;
}

/* When a kernel that has the card ends, or its slice. */
static int64_t next_end(const struct work *w, const struct stream *s)
{
    uint64_t left = s->first->left_ns;
    if (left >= (uint64_t)TIMESLICE_NS)
        return w->slice.end_ns;
    return earlier(w->clock_ns + (int64_t)left, w->slice.end_ns);
}

/* A kernel of that stream has the card. When to look again. */
static int64_t run(struct work *w, struct stream *s)
{
    int64_t now = timeslices_now();
    if (w->running != s)
        s->round = ++w->rounds;
    w->running = s;
    if (advance(w, s, now)) {
        w->running = NULL;
        finish(s, w->clock_ns);
        return 0;
    }
    if (now < w->slice.end_ns)
        return next_end(w, s);
    give_card(w, w->slice.end_ns, /* again= */ true);
    return 0;
}

/* What runs on a card that is lost, or was to run there, ends. */
static int64_t end_kernel(struct work *w, struct stream *s)
{
    w->running = NULL;
    finish(s, timeslices_now());
    return 0;
}

/* Does what is to be done. When to look again. */
static int64_t step(struct work *w)
{
    int64_t look_ns = 0;
    do_instants(w);
    struct stream *s = w->running != NULL ? w->running : queue_pick(w, WORK_KERNEL);
    if (s == NULL) {
        give_card(w, w->clock_ns, /* again= */ false);
        return TIMESLICE_NEVER;
    }
    if (queue_note_loss(w))
        return end_kernel(w, s);
    return take_card(w, s, &look_ns) ? run(w, s) : look_ns;
}

/* --- The threads --- */

static void wake(struct work *w)
{
    timeslices_ring(&slices, w->seat, w->asleep);
}

static void sleep_until(struct work *w, uint32_t bell, int64_t until_ns)
{
    w->asleep = true;
    context_unlock();
    timeslices_sleep(&slices, w->seat, bell, until_ns);
    context_lock();
    w->asleep = false;
}

/* Of short times: the system wakes it when it asks, and not 50 us later. */
static void *work_main(void *arg)
{
    struct work *w = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    context_lock();
    while (!w->ended) {
        uint32_t bell = timeslices_bell(&slices, w->seat);
        int64_t until = step(w);
        if (until > timeslices_now())
            sleep_until(w, bell, until);
    }
    timeslices_leave(&slices, w->seat, timeslices_now());
    queue_unref(w);
    context_unlock();
    return NULL;
}

static void call(struct work *w, struct stream *s)
{
    int64_t at = 0;
    struct work_item *item = s->first;
    s->busy = true;
    context_unlock();
    cuda_forbid_calls(true);
    (void)item->perform(item, &at);
    cuda_forbid_calls(false);
    context_lock();
    s->busy = false;
    queue_finish(s, timeslices_now());
    if (!w->ended)
        w->wake(w);
}

static void *host_main(void *arg)
{
    struct work *w = arg;
    context_lock();
    while (!w->ended) {
        struct stream *s = queue_pick(w, WORK_HOST);
        if (s != NULL)
            call(w, s);
        else
            context_wait(&w->host_wake);
    }
    queue_unref(w);
    context_unlock();
    return NULL;
}

static bool start(struct work *w, void *(*run_thread)(void *))
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run_thread, w) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started)
        return false;
    (void)pthread_detach(thread);
    queue_ref(w);
    return true;
}

static bool start_worker(struct work *w)
{
    if (!timeslices_open(&slices, cuda_state_path()))
        return false;
    w->seat = timeslices_join(&slices, w->device->gpu, cuda_row());
    if (w->seat < 0)
        return false;
    if (!start(w, work_main)) {
        timeslices_leave(&slices, w->seat, 0);
        return false;
    }
    w->wake = wake;
    return true;
}

bool worker_start(struct work *w, enum work_kind kind)
{
    if (w->wake == NULL && !start_worker(w))
        return false;
    if (kind == WORK_HOST && !w->has_host)
        w->has_host = start(w, host_main);
    return kind != WORK_HOST || w->has_host;
}

/* One behind others is seen when they are done. */
void worker_notice(struct stream *s)
{
    if (s->count > 1)
        return;
    s->work->wake(s->work);
    tell_host(s->work);
}
