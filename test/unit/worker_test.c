/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/loop/agent_liveness.h"
#include "nodeagent/loop/worker.h"
#include "test/unit/gpu_fake_support.h"

/* A vendor call that hangs until it is let go. */
struct gate {
    int ends[2];
    struct clock *clock;
    struct gpu_activity *activity; /* of the thread that hangs */
};

struct job_log {
    unsigned order[8];
    unsigned n;
    unsigned dropped;
    struct gate *gate;
    struct worker *worker;
};

struct numbered {
    struct job_log *log;
    unsigned number;
    bool ran;
};

static void run_job(struct gpu *g, void *arg)
{
    struct numbered *j = arg;
    cr_expect(g);
    j->ran = true;
}

static void job_done(void *arg)
{
    struct numbered *j = arg;
    cr_expect(j->ran);
    j->log->order[j->log->n++] = j->number;
}

static void job_dropped(void *arg)
{
    struct numbered *j = arg;
    j->log->dropped++;
}

static void hang(struct gpu *g, void *arg)
{
    struct numbered *j = arg;
    struct gate *gate = j->log->gate;
    char c;
    struct gpu_activity *mine = gpu_activity_mine();
    (void)g;
    gate->activity = mine;
    atomic_store(&mine->since_mono_ms, clock_mono_ms(gate->clock));
    atomic_store(&mine->call, "nvmlHangs");
    cr_expect_eq(write(gate->ends[1], "h", 1), 1); /* it hangs now */
    while (read(gate->ends[1], &c, 1) < 0)
        continue;
    atomic_store(&mine->call, NULL);
    j->ran = true;
}

static struct worker *start(struct fake_hw *hw, const struct worker_options *o)
{
    struct worker *w = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(worker_new(gpu_fake_open(hw), o, &w, &e), 0, "%s", err_msg(&e));
    return w;
}

static void dispatch_until(struct worker *w, const struct job_log *log, unsigned n)
{
    while (log->n < n) {
        struct pollfd p = {.fd = worker_fd(w), .events = POLLIN};
        cr_assert_gt(poll(&p, 1, 10000), 0);
        worker_dispatch(w);
    }
}

static void submit(struct worker *w, worker_job_fn *fn, struct numbered *j)
{
    cr_assert_eq(worker_submit(w, fn, job_done, job_dropped, j, NULL), 0);
}

Test(worker, runs_jobs_in_order_and_posts_their_ends)
{
    struct fake_hw hw = {0};
    struct worker *w = start(&hw, &(struct worker_options){0});
    struct job_log log = {0};
    struct numbered jobs[4];
    for (unsigned i = 0; i < 4; i++) {
        jobs[i] = (struct numbered){.log = &log, .number = i};
        submit(w, run_job, &jobs[i]);
    }
    dispatch_until(w, &log, 4);
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(log.order[i], i);
    cr_expect_eq(worker_pending(w), 0);
    (void)worker_free(w, 10000, NULL);
}

/* A worker whose first job hangs. The clock is the test's. */
struct hung {
    struct fake_hw hw;
    struct gate gate;
    struct job_log log;
    struct numbered job;
    struct worker *w;
};

static void hung_start(struct hung *h, size_t max_jobs)
{
    char c;
    *h = (struct hung){0};
    h->gate.clock = clock_fake_new(0);
    /* A pair: what one side writes the other reads. */
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, h->gate.ends), 0);
    h->log.gate = &h->gate;
    h->job = (struct numbered){.log = &h->log};
    h->w = start(&h->hw, &(struct worker_options){.max_jobs = max_jobs,
                                                  .call_deadline_ms = 500,
                                                  .clock = h->gate.clock});
    submit(h->w, hang, &h->job);
    cr_assert_eq(read(h->gate.ends[0], &c, 1), 1);
}

static void hung_end(struct hung *h)
{
    bool abandoned = true;
    cr_assert_eq(write(h->gate.ends[0], "g", 1), 1);
    (void)worker_free(h->w, 10000, &abandoned);
    cr_expect(!abandoned);
    (void)close(h->gate.ends[0]);
    (void)close(h->gate.ends[1]);
    (void)clock_free(h->gate.clock);
}

static struct worker *start_crowd(struct fake_hw *hw, struct gate *gate, size_t max_threads)
{
    gate->clock = clock_fake_new(0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate->ends), 0);
    return start(hw, &(struct worker_options){.max_threads = max_threads,
                                              .call_deadline_ms = 500,
                                              .clock = gate->clock});
}

static void end_crowd(struct worker *w, struct gate *gate)
{
    (void)worker_free(w, 10000, NULL);
    (void)close(gate->ends[0]);
    (void)close(gate->ends[1]);
    (void)clock_free(gate->clock);
}

Test(worker, jobs_run_side_by_side_up_to_the_bound)
{
    struct fake_hw hw = {0};
    struct gate gate;
    struct job_log log = {.gate = &gate};
    struct numbered jobs[3];
    char c[3];
    struct worker *w = start_crowd(&hw, &gate, 2);
    for (unsigned i = 0; i < 3; i++) {
        jobs[i] = (struct numbered){.log = &log, .number = i};
        submit(w, hang, &jobs[i]);
    }
    cr_assert_eq(recv(gate.ends[0], c, 2, MSG_WAITALL), 2, "two are in a call at once");
    clock_fake_advance(gate.clock, 500);
    cr_expect_not(worker_stuck_job(w, &jobs[2]), "it did not begin");
    cr_assert_eq(write(gate.ends[0], "g", 1), 1);
    cr_assert_eq(read(gate.ends[0], c, 1), 1, "the third begins when one has ended");
    cr_assert_eq(write(gate.ends[0], "gg", 2), 2);
    dispatch_until(w, &log, 3);
    end_crowd(w, &gate);
}

static unsigned count_threads(const char *name)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert(tasks);
    for (const struct dirent *task; (task = readdir(tasks));) {
        auto_free char *path = xasprintf("/proc/self/task/%s/comm", task->d_name);
        auto_free char *comm = NULL;
        if (file_read(path, 64, &comm, /* ret_len= */ NULL, /* e= */ NULL) == 0)
            n += strncmp(comm, name, strlen(name)) == 0 && comm[strlen(name)] == '\n';
    }
    (void)closedir(tasks);
    return n;
}

Test(worker, of_the_threads_that_find_no_job_one_stays)
{
    struct fake_hw hw = {0};
    struct gate gate;
    struct job_log log = {.gate = &gate};
    struct numbered jobs[3];
    char c[3];
    struct worker *w = start_crowd(&hw, &gate, 3);
    for (unsigned round = 1; round <= 2; round++) {
        log.n = 0;
        for (unsigned i = 0; i < 3; i++) {
            jobs[i] = (struct numbered){.log = &log, .number = i};
            submit(w, hang, &jobs[i]);
        }
        cr_assert_eq(recv(gate.ends[0], c, 3, MSG_WAITALL), 3, "round %u", round);
        cr_expect_eq(count_threads("gpu"), 3);
        cr_assert_eq(write(gate.ends[0], "ggg", 3), 3);
        dispatch_until(w, &log, 3);
        while (count_threads("gpu") > 1)
            (void)poll(NULL, 0, 1);
        cr_expect_eq(count_threads("gpu"), 1);
    }
    end_crowd(w, &gate);
}

/* True: the thread began the parked job by itself. Where the machine lets this thread wait longer
 * than park_ms, the job is parked too late for that. */
static bool parked_job_began(struct worker *w, struct job_log *log, int wait_ms)
{
    struct numbered first = {.log = log, .number = 1};
    struct numbered parked = {.log = log, .number = 2};
    struct pollfd p = {.fd = worker_fd(w), .events = POLLIN};
    log->n = 0;
    submit(w, run_job, &first);
    dispatch_until(w, log, 1);
    worker_park(w, run_job, job_done, job_dropped, &parked);
    (void)poll(&p, 1, wait_ms);
    if (!worker_unpark(w)) {
        cr_expect_not(parked.ran);
        cr_expect_eq(worker_pending(w), 0);
        return false;
    }
    cr_expect_eq(worker_pending(w), 1);
    dispatch_until(w, log, 2);
    cr_expect_eq(log->order[1], 2);
    return true;
}

Test(worker, a_parked_job_begins_by_itself)
{
    struct fake_hw hw = {0};
    struct worker *w = start(&hw, &(struct worker_options){.park_ms = 50});
    struct job_log log = {0};
    bool began = false;
    for (unsigned i = 0; i < 100 && !began; i++)
        began = parked_job_began(w, &log, 1000);
    cr_expect(began);
    (void)worker_free(w, 10000, NULL);
}

Test(worker, a_parked_job_is_taken_back_before_its_time)
{
    struct fake_hw hw = {0};
    struct worker *w = start(&hw, &(struct worker_options){.park_ms = 3600000});
    struct job_log log = {0};
    cr_expect_not(worker_unpark(w), "none is parked");
    cr_expect_not(parked_job_began(w, &log, 0));
    cr_expect_not(parked_job_began(w, &log, 0));
    (void)worker_free(w, 10000, NULL);
}

Test(worker, a_call_that_hangs_holds_up_its_own_job_only)
{
    struct fake_hw hw = {0};
    struct gate gate;
    struct job_log log = {.gate = &gate};
    struct numbered hung = {.log = &log, .number = 7};
    struct numbered jobs[3];
    char c;
    struct worker *w = start_crowd(&hw, &gate, 2);
    submit(w, hang, &hung);
    cr_assert_eq(read(gate.ends[0], &c, 1), 1);
    clock_fake_advance(gate.clock, 500);
    for (unsigned i = 0; i < 3; i++) {
        jobs[i] = (struct numbered){.log = &log, .number = i};
        submit(w, run_job, &jobs[i]);
    }
    dispatch_until(w, &log, 3);
    cr_expect(worker_stuck_job(w, &hung));
    cr_expect_not(worker_stuck_job(w, &jobs[0]));
    cr_expect_eq(worker_watch_ms(w), -1, "nothing else can hang");
    cr_assert_eq(write(gate.ends[0], "g", 1), 1);
    dispatch_until(w, &log, 4);
    cr_expect_eq(log.order[3], 7);
    end_crowd(w, &gate);
}

Test(worker, hung_call_is_told_at_its_deadline_and_not_before)
{
    struct hung h;
    const char *call = NULL;
    int64_t since = -1;
    hung_start(&h, 4);
    cr_expect(!worker_stuck(h.w, &call, &since));
    cr_expect_eq(worker_watch_ms(h.w), 500);
    clock_fake_advance(h.gate.clock, 499);
    cr_expect(!worker_stuck(h.w, &call, &since));
    clock_fake_advance(h.gate.clock, 1);
    cr_assert(worker_stuck(h.w, &call, &since));
    cr_expect_str_eq(call, "nvmlHangs");
    cr_expect_eq(worker_watch_ms(h.w), -1);
    hung_end(&h);
}

/* The page of the kubelet's probe: to start the agent again would not mend the driver. */
Test(worker, hung_call_is_on_the_page_of_health_and_fails_it_not)
{
    struct hung h;
    hung_start(&h, 4);
    auto_heartbeats struct heartbeats *beats = heartbeats_new(h.gate.clock);
    struct heartbeat *loop = heartbeat_add(beats, "loop", 120000);
    struct agent_liveness l = {beats, h.w, h.gate.clock};
    auto_sb struct sb page = SB_INIT(1000);
    heartbeat_busy(loop);
    clock_fake_advance(h.gate.clock, 120000);
    cr_expect_eq(agent_liveness_page(&l, &page), 200);
    cr_expect_str_eq(sb_str(&page), "ok\nnvmlHangs, a call into the vendor's library, has not "
                                    "returned for 120 s\n");
    sb_reset(&page);
    clock_fake_advance(h.gate.clock, 1);
    cr_expect_eq(agent_liveness_page(&l, &page), 500, "the loop fails it");
    cr_expect_str_eq(sb_str(&page),
                     "loop hangs: no progress for 120 s (limit 120 s)\nnvmlHangs, a call into the "
                     "vendor's library, has not returned for 120 s\n");
    hung_end(&h);
}

/* No driver is behind that: a new process may be without it. */
Test(worker, a_job_that_hangs_outside_calls_fails_the_page_of_health)
{
    struct hung h;
    hung_start(&h, 4);
    auto_heartbeats struct heartbeats *beats = heartbeats_new(h.gate.clock);
    struct agent_liveness l = {beats, h.w, h.gate.clock};
    auto_sb struct sb page = SB_INIT(1000);
    atomic_store(&h.gate.activity->call, NULL);
    clock_fake_advance(h.gate.clock, 300000);
    cr_expect_eq(agent_liveness_page(&l, &page), 200, "%s", sb_str(&page));
    clock_fake_advance(h.gate.clock, 1000);
    cr_expect_eq(agent_liveness_page(&l, &page), 500);
    cr_expect_not_null(strstr(sb_str(&page), "a job for the hardware hangs"));
    hung_end(&h);
}

/* Else a loop that looks before the job has reached its first call would sleep through its hang. */
Test(worker, a_job_between_calls_is_watched_for_a_whole_deadline)
{
    struct fake_hw hw = {0};
    struct worker *w = start(&hw, &(struct worker_options){.call_deadline_ms = 500});
    struct job_log log = {0};
    struct numbered j = {.log = &log};
    cr_expect_eq(worker_watch_ms(w), -1);
    submit(w, run_job, &j);
    cr_expect_eq(worker_watch_ms(w), 500);
    dispatch_until(w, &log, 1);
    cr_expect_eq(worker_watch_ms(w), -1);
    (void)worker_free(w, 10000, NULL);
}

Test(worker, submitting_behind_a_hung_call_never_blocks_and_is_bounded)
{
    struct hung h;
    hung_start(&h, 2);
    struct numbered a = {.log = &h.log, .number = 1};
    struct numbered b = {.log = &h.log, .number = 2};
    struct numbered c = {.log = &h.log, .number = 3};
    submit(h.w, run_job, &a);
    submit(h.w, run_job, &b);
    cr_expect_eq(worker_submit(h.w, run_job, job_done, job_dropped, &c, NULL), -ERR_THROTTLED);
    cr_expect_eq(worker_pending(h.w), 3);
    hung_end(&h);
    cr_expect_eq(h.log.n + h.log.dropped, 3);
}

Test(worker, jobs_behind_a_hung_call_run_once_it_returns)
{
    struct hung h;
    hung_start(&h, 4);
    struct numbered a = {.log = &h.log, .number = 1};
    submit(h.w, run_job, &a);
    cr_assert_eq(write(h.gate.ends[0], "g", 1), 1);
    dispatch_until(h.w, &h.log, 2);
    cr_expect_eq(h.log.order[1], 1);
    cr_expect(!worker_stuck(h.w, NULL, NULL));
    hung_end(&h);
}

/* The child leaves through exit with a thread that still hangs: what an agent's shutdown does. */
Test(worker, process_exits_although_a_call_hangs)
{
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        static struct hung h;
        bool abandoned = false;
        hung_start(&h, 4);
        (void)worker_free(h.w, 10, &abandoned);
        _exit(abandoned ? 7 : 8);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 7);
}

Test(worker, free_drops_what_was_not_begun)
{
    struct hung h;
    hung_start(&h, 4);
    struct numbered a = {.log = &h.log, .number = 1};
    submit(h.w, run_job, &a);
    bool abandoned = true;
    /* The grace ends while the call hangs only in the test above; here it is let go first. */
    cr_assert_eq(write(h.gate.ends[0], "g", 1), 1);
    (void)worker_free(h.w, 10000, &abandoned);
    cr_expect(!abandoned);
    cr_expect_eq(h.log.n, 0);
    cr_expect_eq(h.log.dropped, 2);
    (void)close(h.gate.ends[0]);
    (void)close(h.gate.ends[1]);
    (void)clock_free(h.gate.clock);
}

Test(worker, none_is_freed_without_ado)
{
    cr_expect_null(worker_free(NULL, 0, NULL));
}
