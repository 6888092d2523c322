/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's thread submits, dispatches and asks the watchdog while the worker's threads make
 * vendor calls: every job ends once, and nothing is touched by two threads at a time.
 */
#include <assert.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "nodeagent/loop/worker.h"

#define JOBS 20000

struct state {
    atomic_uint ran; /* the worker's threads */
    unsigned done;   /* the loop's */
};

static struct gpu *free_gpu(struct gpu *g)
{
    free(g);
    return NULL;
}

static const struct gpu_ops ops = {.free = free_gpu};

static void run_job(struct gpu *g, void *arg)
{
    struct state *s = arg;
    (void)g;
    gpu_call_begin("call");
    atomic_fetch_add(&s->ran, 1);
    gpu_call_end();
}

static void job_done(void *arg)
{
    struct state *s = arg;
    s->done++;
}

static void ask(const struct worker *w)
{
    const char *call = NULL;
    int64_t since = 0;
    assert(!worker_stuck(w, &call, &since));
    assert(!worker_stuck_job(w, w));
    assert(worker_watch_ms(w) <= 60000);
}

int main(void)
{
    struct state s = {0};
    struct worker *w = NULL;
    struct gpu *g = calloc(1, sizeof(*g));
    bool abandoned = false;
    assert(g);
    g->ops = &ops;
    const struct worker_options o = {.max_threads = 4, .max_jobs = 32, .call_deadline_ms = 60000};
    int rc = worker_new(g, &o, &w, NULL);
    assert(rc == 0);
    for (unsigned submitted = 0; s.done < JOBS;) {
        while (submitted < JOBS && worker_submit(w, run_job, job_done, NULL, &s, NULL) == 0)
            submitted++;
        struct pollfd p = {.fd = worker_fd(w), .events = POLLIN};
        rc = poll(&p, 1, 10000);
        assert(rc > 0);
        ask(w);
        worker_dispatch(w);
        assert(worker_pending(w) == submitted - s.done);
    }
    (void)worker_free(w, 10000, &abandoned);
    assert(!abandoned && s.ran == JOBS);
    (void)printf("%u jobs\n", atomic_load(&s.ran));
    return 0;
}
