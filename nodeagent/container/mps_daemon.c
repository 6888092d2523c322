/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/mps_daemon.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/backoff.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/xalloc.h"

#include "nodeagent/container/child.h"
#include "nodeagent/container/fresh_folder.h"

#define GRACE_MS 2000
/* The daemon makes its socket some time after its start; until then commands are refused. */
#define COMMANDS_PAUSE_MS 100
#define COMMANDS_TRIES    50
/* A command that hangs is killed and counts as refused. */
#define COMMANDS_LIMIT_MS 5000

enum state {
    DOWN,     /* no process; the timer starts one */
    STARTING, /* it runs but has not taken its limits yet */
    READY,
    ENDING, /* was sent SIGTERM by this module */
    GONE,   /* ended, and not wanted any more */
};

/* One thread. The timer's meaning by state: DOWN: start; STARTING: limit of a command, or pause
 * between two; ENDING: SIGKILL. */
struct mps_daemon {
    struct reactor *reactor; /* borrowed */
    mps_daemon_fn *fn;
    void *arg;
    char *program, *library_path, *pipe_folder, *log_folder, *visible, *commands;
    enum state state;
    bool wanted;
    int tries; /* of the commands, since its start */
    struct child daemon, control;
    struct reactor_watch *daemon_watch, *control_watch;
    struct reactor_timer *timer;
    struct backoff backoff;
    struct rng rng;
    char *problem;
};

static void set_problem(struct mps_daemon *d, char *text_take)
{
    free(d->problem);
    d->problem = text_take;
}

static void set_state(struct mps_daemon *d, enum state state)
{
    bool told = (d->state == READY) != (state == READY) || state == GONE;
    d->state = state;
    if (told)
        d->fn(d->arg);
}

/* The environment of the daemon and of its client program. */
struct environment {
    char *texts[6];
    size_t count;
};

static void environment_done(struct environment *env)
{
    for (size_t i = 0; i < env->count; i++)
        free(env->texts[i]);
}

static void make_environment(const struct mps_daemon *d, struct environment *ret)
{
    ret->texts[ret->count++] = xstrdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
    ret->texts[ret->count++] = xasprintf("CUDA_VISIBLE_DEVICES=%s", d->visible);
    ret->texts[ret->count++] = xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s", d->pipe_folder);
    ret->texts[ret->count++] = xasprintf("CUDA_MPS_LOG_DIRECTORY=%s", d->log_folder);
    if (d->library_path)
        ret->texts[ret->count++] = xasprintf("LD_LIBRARY_PATH=%s", d->library_path);
    assert(ret->count < ARRAY_LEN(ret->texts)); /* NULL ends them */
}

static void drop_control(struct mps_daemon *d)
{
    d->control_watch = reactor_unwatch(d->control_watch);
    child_done(&d->control, /* grace_ms= */ 0);
}

/* Called after every end of the daemon. */
static void rest(struct mps_daemon *d)
{
    assert(!d->daemon.pid && !d->daemon_watch);
    bool asked = d->state == ENDING;
    drop_control(d);
    if (!d->wanted) {
        reactor_timer_unset(d->timer);
        set_state(d, GONE);
        return;
    }
    int64_t pause_ms = asked ? 0 : backoff_next_ms(&d->backoff, reactor_clock(d->reactor), &d->rng);
    reactor_timer_set(d->timer, pause_ms);
    set_state(d, DOWN);
}

/* A container that has the old folder could answer there in the daemon's place. A container that
 * starts before the next daemon gets the new folder, which no other container has. start() reports
 * a failure. */
static void leave_folder(const struct mps_daemon *d)
{
    auto_err struct err e = {0};
    if (fresh_folder_make(d->pipe_folder, 0755, &e) < 0)
        log_debug("Could not make a folder anew", kv_err(&e));
}

static void on_daemon_end(void *arg, uint32_t events)
{
    struct mps_daemon *d = arg;
    (void)events;
    d->daemon_watch = reactor_unwatch(d->daemon_watch);
    leave_folder(d);
    int status = child_reap(&d->daemon);
    bool asked = d->state == ENDING;
    if (!asked && (d->state == READY || d->tries < COMMANDS_TRIES))
        set_problem(d, xasprintf("the MPS control daemon ended with status %d", status));
    rest(d);
}

static void end_daemon(struct mps_daemon *d)
{
    assert(d->daemon.pid && (d->state == STARTING || d->state == READY));
    drop_control(d);
    child_signal(&d->daemon, SIGTERM);
    reactor_timer_set(d->timer, GRACE_MS);
    set_state(d, ENDING);
}

static void refused(struct mps_daemon *d, int status)
{
    assert(d->state == STARTING && d->tries < COMMANDS_TRIES && !d->control.pid);
    d->tries++;
    if (d->tries < COMMANDS_TRIES) {
        reactor_timer_set(d->timer, COMMANDS_PAUSE_MS);
        return;
    }
    set_problem(d, xasprintf("the MPS control daemon does not take its limits: status %d", status));
    child_signal(&d->daemon, SIGKILL);
}

static void on_control_end(void *arg, uint32_t events)
{
    struct mps_daemon *d = arg;
    (void)events;
    d->control_watch = reactor_unwatch(d->control_watch);
    int status = child_reap(&d->control);
    reactor_timer_unset(d->timer);
    if (status != 0) {
        refused(d, status);
        return;
    }
    assert(d->state == STARTING && d->daemon.pid);
    set_problem(d, NULL);
    set_state(d, READY);
}

static int start_child(struct mps_daemon *d, const char *flag, const char *input,
                       reactor_watch_fn *fn, struct child *child, struct reactor_watch **watch,
                       struct err *e)
{
    __attribute__((cleanup(environment_done))) struct environment env = {0};
    auto_free char *flag_text = xstrdup(flag);
    char *argv[] = {d->program, flag_text, NULL};
    make_environment(d, &env);
    TRY(child_start(argv, env.texts, input, child, e));
    int rc = reactor_watch(d->reactor, child->pidfd, EPOLLIN, fn, d, watch, e);
    if (rc < 0)
        child_done(child, /* grace_ms= */ 0);
    return rc;
}

static void send_commands(struct mps_daemon *d)
{
    assert(d->state == STARTING && !d->control.pid && !d->control_watch);
    auto_err struct err e = {0};
    int rc = start_child(d, /* flag= */ NULL, d->commands, on_control_end, &d->control,
                         &d->control_watch, &e);
    if (rc < 0)
        refused(d, -1);
    else
        reactor_timer_set(d->timer, COMMANDS_LIMIT_MS);
}

static int start_daemon(struct mps_daemon *d, struct err *e)
{
    TRY(fresh_folder_make(d->pipe_folder, 0755, e));
    TRY(file_make_dirs(d->log_folder, 0755, e));
    return start_child(d, "-f", /* input= */ NULL, on_daemon_end, &d->daemon, &d->daemon_watch, e);
}

static void try_start(struct mps_daemon *d)
{
    assert(d->state == DOWN && d->wanted && !d->daemon.pid);
    auto_err struct err e = {0};
    d->tries = 0;
    if (start_daemon(d, &e) < 0) {
        set_problem(d, xstrdup(err_msg(&e)));
        rest(d);
        return;
    }
    set_state(d, STARTING);
    send_commands(d);
}

static void on_timer(void *arg)
{
    struct mps_daemon *d = arg;
    if (d->state == DOWN)
        try_start(d);
    else if (d->state == ENDING)
        child_signal(&d->daemon, SIGKILL);
    else if (d->control.pid)
        child_signal(&d->control, SIGKILL);
    else
        send_commands(d);
}

struct mps_daemon *mps_daemon_new(struct reactor *r, const struct mps_daemon_options *o,
                                  mps_daemon_fn *fn, void *arg)
{
    assert(fn && o->program && o->pipe_folder && o->log_folder && o->visible && o->commands);
    struct mps_daemon *d = xcalloc(1, sizeof(*d));
    d->reactor = r;
    d->fn = fn;
    d->arg = arg;
    d->program = xstrdup(o->program);
    d->library_path = xstrdup(o->library_path);
    d->pipe_folder = xstrdup(o->pipe_folder);
    d->log_folder = xstrdup(o->log_folder);
    d->visible = xstrdup(o->visible);
    d->commands = xstrdup(o->commands);
    d->wanted = true;
    d->backoff = (struct backoff){.base_ms = 1000,
                                  .cap_ms = 60000,
                                  .factor = 2,
                                  .jitter_pct = 20,
                                  .reset_after_ms = 300000};
    rng_init_random(&d->rng);
    d->timer = reactor_timer_new(r, on_timer, d);
    reactor_timer_set(d->timer, 0);
    return d;
}

void mps_daemon_set(struct mps_daemon *d, const char *visible, const char *commands)
{
    bool same = strcmp(d->visible, visible) == 0 && strcmp(d->commands, commands) == 0;
    bool was_wanted = d->wanted;
    xstr_set(&d->visible, visible);
    xstr_set(&d->commands, commands);
    d->wanted = true;
    if (d->state == GONE) {
        d->state = DOWN;
        reactor_timer_set(d->timer, 0);
    } else if ((!same || !was_wanted) && d->daemon.pid && d->state != ENDING) {
        end_daemon(d);
    }
}

void mps_daemon_end(struct mps_daemon *d)
{
    d->wanted = false;
    if (d->state == DOWN)
        rest(d);
    else if (d->state == STARTING || d->state == READY)
        end_daemon(d);
}

bool mps_daemon_is_ready(const struct mps_daemon *d)
{
    return d->state == READY;
}

bool mps_daemon_is_gone(const struct mps_daemon *d)
{
    return d->state == GONE;
}

const char *mps_daemon_problem(const struct mps_daemon *d)
{
    return d->problem ? d->problem : "";
}

struct mps_daemon *mps_daemon_free(struct mps_daemon *d)
{
    if (!d)
        return NULL;
    drop_control(d);
    d->daemon_watch = reactor_unwatch(d->daemon_watch);
    child_done(&d->daemon, GRACE_MS);
    d->timer = reactor_timer_free(d->timer);
    free(d->program);
    free(d->library_path);
    free(d->pipe_folder);
    free(d->log_folder);
    free(d->visible);
    free(d->commands);
    free(d->problem);
    free(d);
    return NULL;
}
