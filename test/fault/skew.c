/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another time for one process: LD_PRELOAD this, and name a file in CLEAVE_SKEW that holds two
 * doubles, how fast its clocks run (1.3: thirteen seconds in ten) and how many seconds its wall
 * clock is ahead. The second may be written anew at any time: that steps the wall clock. What the
 * process waits for, it waits by its own time.
 *
 * Our programs, libcurl and libc's own callers come here through the dynamic linker; the vDSO is
 * behind libc's clock_gettime, which is the only way to it that they know.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS INT64_C(1000000000)

struct skew {
    double rate, wall_s;
};

static const struct skew none = {.rate = 1};
static const volatile struct skew *skew = &none;
static int64_t base_ns[CLOCK_TAI + 1]; /* of each clock, when the process began */

typedef int gettime_fn(clockid_t id, struct timespec *ts);
typedef int poll_fn(struct pollfd *fds, nfds_t n, int ms);
typedef int poll_chk_fn(struct pollfd *fds, nfds_t n, int ms, size_t bytes);
typedef int epoll_fn(int fd, struct epoll_event *events, int max, int ms);
typedef int timedwait_fn(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
typedef int clockwait_fn(pthread_cond_t *c, pthread_mutex_t *m, clockid_t id,
                         const struct timespec *until);

static gettime_fn *real_gettime;

/* The libc's own. dlsym gives a pointer to an object; ISO C knows no way to a function from it. */
static void find(const char *name, void *ret_fn)
{
    void *fn = dlsym(RTLD_NEXT, name);
    if (!fn)
        abort();
    memcpy(ret_fn, &fn, sizeof(fn));
}

static int64_t to_ns(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * NS + ts->tv_nsec;
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS), .tv_nsec = (long)(ns % NS)};
}

static int64_t real_ns(clockid_t id)
{
    struct timespec ts;
    if (real_gettime(id, &ts) != 0)
        abort();
    return to_ns(&ts);
}

static bool is_wall(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

/* Clocks of CPU time and of other processes are left alone. */
static bool is_skewed(clockid_t id)
{
    return is_wall(id) || id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW ||
           id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME;
}

static int64_t ahead_ns(clockid_t id)
{
    return is_wall(id) ? (int64_t)(skew->wall_s * (double)NS) : 0;
}

static int64_t to_own(clockid_t id, int64_t ns)
{
    return base_ns[id] + (int64_t)((double)(ns - base_ns[id]) * skew->rate) + ahead_ns(id);
}

static int64_t to_real(clockid_t id, int64_t ns)
{
    return base_ns[id] + (int64_t)((double)(ns - ahead_ns(id) - base_ns[id]) / skew->rate);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLEAVE_SKEW");
    find("clock_gettime", &real_gettime);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    const void *map = mmap(NULL, sizeof(struct skew), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        abort();
    for (clockid_t id = 0; id <= CLOCK_TAI; id++)
        if (is_skewed(id))
            base_ns[id] = real_ns(id);
    skew = map;
}

/* --- Reading --- */

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (!real_gettime) /* before our constructor */
        find("clock_gettime", &real_gettime);
    int rc = real_gettime(id, ts);
    if (rc == 0 && is_skewed(id))
        *ts = to_timespec(to_own(id, to_ns(ts)));
    return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    (void)zone;
    struct timespec ts;
    int rc = clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return rc;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}

/* --- Waiting --- */

/* Rounded up: who wakes too early looks at his clock, and waits again. */
static int real_ms(int ms)
{
    return ms <= 0 ? ms : (int)((double)ms / skew->rate) + 1;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
    static poll_fn *real;
    if (!real)
        find("poll", &real);
    return real(fds, n, real_ms(ms));
}

int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t bytes);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t bytes)
{
    static poll_chk_fn *real;
    if (!real)
        find("__poll_chk", &real);
    return real(fds, n, real_ms(ms), bytes);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int ms)
{
    static epoll_fn *real;
    if (!real)
        find("epoll_wait", &real);
    return real(fd, events, max, real_ms(ms));
}

/* Our conditions all wait by CLOCK_MONOTONIC. */
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                           const struct timespec *restrict until)
{
    static timedwait_fn *real;
    if (!real)
        find("pthread_cond_timedwait", &real);
    const struct timespec ts = to_timespec(to_real(CLOCK_MONOTONIC, to_ns(until)));
    return real(c, m, &ts);
}

int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t id,
                           const struct timespec *restrict until)
{
    static clockwait_fn *real;
    if (!real)
        find("pthread_cond_clockwait", &real);
    const struct timespec ts = to_timespec(to_real(id, to_ns(until)));
    return real(c, m, id, &ts);
}
