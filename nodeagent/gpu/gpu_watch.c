/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/gpu_watch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"

enum { END_MS = 1000, SUSPEND_MS = 2000, BEAT_MS = 120000, SILENT_BEATS = 3 };

static_assert(sizeof(struct gpu_event) <= PIPE_BUF, "a report arrives in one piece");

struct gpu_watch {
    /* immutable */
    char *program, *library;
    const struct clock *clk;
    int beat_ms;
    /* the loop's thread alone */
    int epoll;             /* stays the same while children come and go */
    int fd;                /* the pipe's end; -1: no child reports */
    int beats;             /* the end of its pipe for beats, which is not in epoll; -1: none */
    int64_t heard_mono_ms; /* the child's start, or when a report or a beat was last read */
    char (*cards)[GPU_UUID_BYTES];
    size_t n_cards; /* for which the child was started */
    /* guarded by mu */
    pthread_mutex_t mu;
    pid_t pid;          /* 0: no child, and none to wait for */
    unsigned suspended; /* by so many resets */
};

struct gpu_watch *gpu_watch_new(const struct gpu_watch_options *o)
{
    assert(o);
    struct gpu_watch *w = xcalloc(1, sizeof(*w));
    w->program = o->program ? xstrdup(o->program) : spawn_child_program("cleave-watch");
    w->library = xstrdup(o->library);
    w->clk = o->clk ? o->clk : clock_real();
    w->beat_ms = o->beat_ms ? o->beat_ms : BEAT_MS;
    w->fd = -1;
    w->epoll = xfd(epoll_create1(EPOLL_CLOEXEC));
    w->beats = -1;
    (void)pthread_mutex_init(&w->mu, NULL);
    return w;
}

static int start_child(struct gpu_watch *w, int out_fd, int beat_fd, pid_t *ret)
{
    char name[] = "cleave-agent";
    char verb[] = "watch-events";
    char beat[16];
    (void)snprintf(beat, sizeof(beat), "%d", w->beat_ms);
    char *const argv[] = {name, verb, beat, w->library, NULL};
    const int fds[] = {beat_fd, out_fd, SPAWN_OURS};
    return spawn(w->program, argv, environ, fds, ret);
}

/* Reaps the child. False: it still runs, or hangs in the driver and cannot die. mu is held. */
static bool reap(struct gpu_watch *w)
{
    if (w->pid && waitpid(w->pid, NULL, WNOHANG) != 0)
        w->pid = 0;
    return !w->pid;
}

/* Kills the child and waits at most this long for its end. mu is held. */
static void end_child(struct gpu_watch *w, int timeout_ms)
{
    if (reap(w))
        return;
    (void)kill(w->pid, SIGKILL);
    auto_fd int child = (int)syscall(SYS_pidfd_open, w->pid, 0);
    struct pollfd p = {.fd = child, .events = POLLIN};
    if (child >= 0)
        (void)poll(&p, 1, timeout_ms);
    else if (waitpid(w->pid, NULL, 0) == w->pid) /* kernels before 5.3 */
        w->pid = 0;
    (void)reap(w);
}

static void close_pipes(struct gpu_watch *w)
{
    if (w->fd >= 0)
        (void)close(w->fd);
    if (w->beats >= 0)
        (void)close(w->beats);
    w->fd = w->beats = -1;
}

struct gpu_watch *gpu_watch_free(struct gpu_watch *w)
{
    if (!w)
        return NULL;
    {
        HOLD(&w->mu);
        end_child(w, END_MS);
    }
    close_pipes(w);
    (void)close(w->epoll);
    (void)pthread_mutex_destroy(&w->mu);
    free(w->cards);
    free(w->program);
    free(w->library);
    free(w);
    return NULL;
}

static bool is_new(const struct gpu_watch *w, const char *uuid)
{
    for (size_t i = 0; i < w->n_cards; i++)
        if (strcmp(w->cards[i], uuid) == 0)
            return false;
    return true;
}

static bool has_new(const struct gpu_watch *w, const char *const *uuids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_new(w, uuids[i]))
            return true;
    return false;
}

static void note_cards(struct gpu_watch *w, const char *const *uuids, size_t n)
{
    free(w->cards);
    w->cards = xcalloc(n, sizeof(*w->cards));
    w->n_cards = n;
    for (size_t i = 0; i < n; i++)
        memcpy(w->cards[i], uuids[i], strnlen(uuids[i], GPU_UUID_BYTES - 1));
}

static int start_watching(struct gpu_watch *w, struct err *e)
{
    int reports[2];
    int beats[2];
    assert(w->fd < 0 && w->beats < 0 && !w->pid); /* one child at a time */
    if (pipe2(reports, O_CLOEXEC) < 0)
        return err_set_errno(e, errno, "pipe");
    auto_fd int from = reports[0];
    auto_fd int to = reports[1];
    if (pipe2(beats, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set_errno(e, errno, "pipe");
    auto_fd int beats_from = beats[0];
    auto_fd int beats_to = beats[1];
    (void)fcntl(from, F_SETFL, O_NONBLOCK);
    struct epoll_event when = {.events = EPOLLIN};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, from, &when) < 0)
        return err_set_errno(e, errno, "epoll_ctl");
    int rc = start_child(w, to, beats_to, &w->pid);
    if (rc) {
        w->pid = 0;
        return err_set_errno(e, rc, "run %s watch-events", w->program);
    }
    w->fd = TAKE_FD(from);
    w->beats = TAKE_FD(beats_from);
    w->heard_mono_ms = clock_mono_ms(w->clk);
    return 0;
}

static void hear_beats(struct gpu_watch *w)
{
    char beats[512];
    if (w->beats >= 0 && read(w->beats, beats, sizeof(beats)) > 0)
        w->heard_mono_ms = clock_mono_ms(w->clk);
}

/* The child reports or beats at least once a beat, unless the driver does not let it go. */
static bool is_silent(const struct gpu_watch *w)
{
    return clock_mono_ms(w->clk) - w->heard_mono_ms > (int64_t)SILENT_BEATS * w->beat_ms;
}

/* mu is held. */
static int keep(struct gpu_watch *w, const char *const *uuids, size_t n, struct err *e)
{
    hear_beats(w);
    bool silent = w->fd >= 0 && is_silent(w);
    if (w->suspended)
        return 0;
    if (silent)
        log_warn("A new process waits for the driver's events: the one before did not answer");
    if (w->fd >= 0 && !silent && !has_new(w, uuids, n)) {
        note_cards(w, uuids, n); /* a card that was removed and comes back counts as new */
        return 0;
    }
    close_pipes(w);
    if (!reap(w))
        end_child(w, END_MS / 10);
    if (w->pid)
        return err_set(e, ERR_UNAVAILABLE, "the process that waited for events does not end");
    note_cards(w, uuids, n);
    return start_watching(w, e);
}

/* A reset that ends the child holds mu for as long as the child hangs; the loop does not wait. */
int gpu_watch_keep(struct gpu_watch *w, const char *const *uuids, size_t n, struct err *e)
{
    if (n == 0 || pthread_mutex_trylock(&w->mu) != 0)
        return 0;
    int rc = keep(w, uuids, n, e);
    (void)pthread_mutex_unlock(&w->mu);
    return rc;
}

int gpu_watch_fd(const struct gpu_watch *w)
{
    return w->epoll;
}

bool gpu_watch_runs(struct gpu_watch *w)
{
    hear_beats(w);
    return w->fd >= 0 && !is_silent(w);
}

static int check_event(const struct gpu_event *ev, struct err *e)
{
    if ((unsigned)ev->kind > GPU_EVENT_OTHER)
        return err_set(e, ERR_PROTOCOL, "a report of the unknown kind %d", (int)ev->kind);
    if (ev->gi_id < -1 || ev->ci_id < -1)
        return err_set(e, ERR_PROTOCOL, "a report of GPU instance %d, compute instance %d",
                       ev->gi_id, ev->ci_id);
    if (!memchr(ev->uuid, '\0', sizeof(ev->uuid)) || (*ev->uuid && !sound_is_name(ev->uuid)))
        return err_set(e, ERR_PROTOCOL, "a report of a card with an illegal UUID");
    return 0;
}

/* Closes the pipes of a child that may still run: its further reports are not read. */
static void leave_child(struct gpu_watch *w)
{
    close_pipes(w);
    if (pthread_mutex_trylock(&w->mu) != 0)
        return; /* a reset is ending it */
    if (!reap(w))
        (void)kill(w->pid, SIGKILL);
    (void)pthread_mutex_unlock(&w->mu);
}

bool gpu_watch_take(struct gpu_watch *w, struct gpu_event *ret, struct err *e)
{
    if (w->fd < 0)
        return false;
    struct gpu_event ev;
    ssize_t got = read(w->fd, &ev, sizeof(ev));
    if (got > 0)
        w->heard_mono_ms = clock_mono_ms(w->clk);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        close_pipes(w); /* the child has ended */
        return false;
    }
    if (got != (ssize_t)sizeof(ev))
        (void)err_set(e, ERR_PROTOCOL, "a report of %zd bytes, not %zu", got, sizeof(ev));
    else if (check_event(&ev, e) == 0) {
        *ret = ev;
        return true;
    }
    leave_child(w);
    return false;
}

void gpu_watch_suspend(struct gpu_watch *w)
{
    if (!w)
        return;
    HOLD(&w->mu);
    w->suspended++;
    end_child(w, SUSPEND_MS);
}

void gpu_watch_resume(struct gpu_watch *w)
{
    if (!w)
        return;
    HOLD(&w->mu);
    assert(w->suspended);
    w->suspended--;
}
