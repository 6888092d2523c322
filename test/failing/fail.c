/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one call of a process fail, once. Preloaded (LD_PRELOAD) into the program under test:
 *
 *     CLEAVE_FAIL=CLASS:N:HOW    the N-th call of the class fails as HOW says; 0: none, count only
 *     CLEAVE_FAIL_REPORT=FILE    gets "failed NAME in OBJECT+OFFSET" then, and "calls N" at the end
 *
 * HOW is the number of an errno, "short" (one byte of what was asked for), "end" (as if the other
 * side had closed) or "kill" (the process is killed before the call). Calls are counted from main on, in all threads. What the simulated hardware
 * does is not counted: its faults are its own (CLEAVE_SIM_FAULT). Child processes are left alone.
 * What libc does inside itself (stdio, getaddrinfo) is out of reach, its allocations apart.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

enum how { HOW_ERRNO, HOW_SHORT, HOW_END, HOW_KILL };

static struct {
    char class[16], report[512];
    long n;
    enum how how;
    int error;
} plan;
static atomic_bool armed;
static atomic_long calls;

/* Past every wrapper: a report is no call of the program's. */
static void report(const char *text, size_t len)
{
    if (!plan.report[0])
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, plan.report, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!syscall(SYS_write, fd, text, len);
    (void)syscall(SYS_close, fd);
}

/* The file that the code at pc was loaded from; "" for the program itself. */
static const char *object_of(void *pc, uintptr_t *ret_offset)
{
    struct dl_find_object found;
    *ret_offset = 0;
    if (_dl_find_object(pc, &found) != 0)
        return "?";
    *ret_offset = (uintptr_t)pc - found.dlfo_link_map->l_addr;
    return found.dlfo_link_map->l_name;
}

static void tell(const char *name, void *caller)
{
    char line[400];
    uintptr_t offset;
    const char *object = object_of(caller, &offset);
    int len = snprintf(line, sizeof(line), "failed %s in %s+0x%zx\n", name,
                       object[0] ? object : "program", (size_t)offset);
    report(line, len < (int)sizeof(line) ? (size_t)len : sizeof(line) - 1);
}

/* Is this the call? */
static bool fails(const char *class, const char *name, void *caller)
{
    uintptr_t offset;
    if (!atomic_load_explicit(&armed, memory_order_relaxed) || strcmp(class, plan.class) != 0 ||
        strstr(object_of(caller, &offset), "libnvidia-ml"))
        return false;
    if (atomic_fetch_add(&calls, 1) + 1 != plan.n)
        return false;
    tell(name, caller);
    if (plan.how == HOW_KILL)
        (void)kill(getpid(), SIGKILL);
    errno = plan.error;
    return true;
}

static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (!next)
        abort();
    return next;
}

#define HERE __builtin_return_address(0)

/* What a wrapper wraps: found before main, as dlsym() also ends the life of a dlerror(). Some calls
 * come earlier still. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next_##name;                                                          \
    __attribute__((constructor)) static void find_##name(void)                                     \
    {                                                                                              \
        if (!next_##name)                                                                          \
            next_##name = (__typeof__(&name))next_of(#name);                                       \
    }

/* A call that fails with a value and errno, and does nothing then. */
#define CALL(class, type, name, params, args, failed)                                              \
    type name params;                                                                              \
    NEXT(name)                                                                                     \
    type name params                                                                               \
    {                                                                                              \
        find_##name();                                                                             \
        if (fails(class, #name, HERE))                                                             \
            return failed;                                                                         \
        return next_##name args;                                                                   \
    }

/* The same for functions that return an errno. */
#define CALL_CODE(class, name, params, args) CALL(class, int, name, params, args, plan.error)

/* A call that moves bytes: it may also move one only, or find the end. */
#define CALL_BYTES(class, name, params, args, len)                                                 \
    ssize_t name params;                                                                           \
    NEXT(name)                                                                                     \
    ssize_t name params                                                                            \
    {                                                                                              \
        find_##name();                                                                             \
        if (fails(class, #name, HERE)) {                                                           \
            if (plan.how != HOW_SHORT)                                                             \
                return plan.how == HOW_END ? 0 : -1;                                               \
            (len) = (len) > 1 ? 1 : (len);                                                         \
        }                                                                                          \
        return next_##name args;                                                                   \
    }

/* ---- memory ---- */

CALL("alloc", void *, malloc, (size_t n), (n), NULL)
CALL("alloc", void *, calloc, (size_t count, size_t n), (count, n), NULL)
CALL("alloc", void *, realloc, (void *p, size_t n), (p, n), NULL)
CALL("alloc", void *, reallocarray, (void *p, size_t count, size_t n), (p, count, n), NULL)
CALL("alloc", char *, strdup, (const char *s), (s), NULL)
CALL("alloc", char *, strndup, (const char *s, size_t n), (s, n), NULL)
CALL("alloc", int, vasprintf, (char **ret, const char *fmt, va_list ap), (ret, fmt, ap), -1)
CALL_CODE("alloc", posix_memalign, (void **ret, size_t align, size_t n), (ret, align, n))
CALL("alloc", void *, aligned_alloc, (size_t align, size_t n), (align, n), NULL)
CALL("map", void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
     (at, n, prot, flags, fd, offset), MAP_FAILED)

/* ---- descriptors ---- */

#define MODE(flags)                                                                                \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode = va_arg(ap, mode_t);                                                                 \
        va_end(ap);                                                                                \
    }

#define CALL_OPEN(name)                                                                            \
    NEXT(name)                                                                                     \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        find_##name();                                                                             \
        MODE(flags)                                                                                \
        return fails("open", #name, HERE) ? -1 : next_##name(path, flags, mode);                   \
    }
CALL_OPEN(open)
CALL_OPEN(open64)
#define CALL_OPENAT(name)                                                                          \
    NEXT(name)                                                                                     \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        find_##name();                                                                             \
        MODE(flags)                                                                                \
        return fails("open", #name, HERE) ? -1 : next_##name(dir, path, flags, mode);              \
    }
CALL_OPENAT(openat)
CALL_OPENAT(openat64)
CALL("open", FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
CALL("open", FILE *, fopen64, (const char *path, const char *mode), (path, mode), NULL)
CALL("open", DIR *, opendir, (const char *path), (path), NULL)
CALL("open", DIR *, fdopendir, (int fd), (fd), NULL)
CALL("open", int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
CALL("open", int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), -1)
CALL("open", int, eventfd, (unsigned value, int flags), (value, flags), -1)
CALL("open", int, timerfd_create, (int clock, int flags), (clock, flags), -1)
CALL("open", int, epoll_create1, (int flags), (flags), -1)
CALL("open", int, pipe2, (int fds[2], int flags), (fds, flags), -1)
CALL("open", int, dup, (int fd), (fd), -1)

/* ---- bytes ---- */

CALL_BYTES("read", read, (int fd, void *p, size_t n), (fd, p, n), n)
CALL_BYTES("read", pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), n)
CALL_BYTES("read", pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at), n)
CALL_BYTES("read", recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags), n)
CALL_BYTES("read", recvfrom,
           (int fd, void *p, size_t n, int flags, struct sockaddr *from, socklen_t *len),
           (fd, p, n, flags, from, len), n)
CALL("read", ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), -1)
CALL("read", ssize_t, readlink, (const char *path, char *p, size_t n), (path, p, n), -1)
CALL("read", ssize_t, readlinkat, (int dir, const char *path, char *p, size_t n), (dir, path, p, n),
     -1)
CALL("read", struct dirent *, readdir, (DIR * d), (d), NULL)
CALL("read", struct dirent64 *, readdir64, (DIR * d), (d), NULL)
CALL("read", ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags), -1)
CALL_BYTES("write", write, (int fd, const void *p, size_t n), (fd, p, n), n)
CALL_BYTES("write", pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), n)
CALL_BYTES("write", send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags), n)
CALL_BYTES("write", sendto,
           (int fd, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t len),
           (fd, p, n, flags, to, len), n)
CALL("write", ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), -1)
CALL("write", ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), -1)

/* ---- connections ---- */

CALL("connect", int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), -1)
CALL("connect", int, bind, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), -1)
CALL("connect", int, listen, (int fd, int backlog), (fd, backlog), -1)
CALL("connect", int, setsockopt, (int fd, int level, int name, const void *p, socklen_t n),
     (fd, level, name, p, n), -1)
CALL("connect", int, getsockopt, (int fd, int level, int name, void *p, socklen_t *n),
     (fd, level, name, p, n), -1)
CALL("accept", int, accept, (int fd, struct sockaddr *from, socklen_t *n), (fd, from, n), -1)
CALL("accept", int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags),
     (fd, from, n, flags), -1)
/* The kernel takes memory for an addition only. */
NEXT(epoll_ctl)
int epoll_ctl(int fd, int op, int of, struct epoll_event *ev)
{
    find_epoll_ctl();
    if (op == EPOLL_CTL_ADD && fails("poll", "epoll_ctl", HERE))
        return -1;
    return next_epoll_ctl(fd, op, of, ev);
}
/* Waiting is only ever interrupted: other errors would be the program's own mistakes. */
CALL("wait", int, epoll_wait, (int fd, struct epoll_event *ev, int n, int ms), (fd, ev, n, ms), -1)
CALL("wait", int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1)

/* ---- what stays on the disk ---- */

CALL("sync", int, fsync, (int fd), (fd), -1)
CALL("sync", int, fdatasync, (int fd), (fd), -1)
CALL("name", int, rename, (const char *from, const char *to), (from, to), -1)
CALL("name", int, renameat, (int fd, const char *from, int fd2, const char *to),
     (fd, from, fd2, to), -1)
CALL("name", int, renameat2, (int fd, const char *from, int fd2, const char *to, unsigned flags),
     (fd, from, fd2, to, flags), -1)
CALL("name", int, link, (const char *from, const char *to), (from, to), -1)
CALL("name", int, symlink, (const char *from, const char *to), (from, to), -1)
CALL("name", int, unlink, (const char *path), (path), -1)
CALL("name", int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), -1)
CALL("name", int, mkdir, (const char *path, mode_t mode), (path, mode), -1)
CALL("name", int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode), -1)
CALL("name", int, fchmodat, (int dir, const char *path, mode_t mode, int flags),
     (dir, path, mode, flags), -1)
CALL("name", int, chmod, (const char *path, mode_t mode), (path, mode), -1)
CALL("name", int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
CALL("name", int, ftruncate, (int fd, off_t n), (fd, n), -1)
CALL("name", int, flock, (int fd, int how), (fd, how), -1)
CALL("stat", int, stat, (const char *path, struct stat *st), (path, st), -1)
CALL("stat", int, lstat, (const char *path, struct stat *st), (path, st), -1)
CALL("stat", int, fstat, (int fd, struct stat *st), (fd, st), -1)
CALL("stat", int, fstatat, (int fd, const char *path, struct stat *st, int flags),
     (fd, path, st, flags), -1)
CALL("stat", int, faccessat, (int dir, const char *path, int mode, int flags),
     (dir, path, mode, flags), -1)
CALL("stat", int, access, (const char *path, int mode), (path, mode), -1)

/* ---- other programs, threads ---- */

CALL_CODE("spawn", posix_spawn,
          (pid_t * pid, const char *path, const posix_spawn_file_actions_t *a,
           const posix_spawnattr_t *attr, char *const argv[], char *const envp[]),
          (pid, path, a, attr, argv, envp))
CALL_CODE("spawn", posix_spawnp,
          (pid_t * pid, const char *path, const posix_spawn_file_actions_t *a,
           const posix_spawnattr_t *attr, char *const argv[], char *const envp[]),
          (pid, path, a, attr, argv, envp))
CALL_CODE("spawn", pthread_create,
          (pthread_t * t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
          (t, attr, fn, arg))

/* ---- the plan ---- */

static void read_how(const char *how)
{
    plan.how = strcmp(how, "short") == 0  ? HOW_SHORT
               : strcmp(how, "end") == 0  ? HOW_END
               : strcmp(how, "kill") == 0 ? HOW_KILL
                                          : HOW_ERRNO;
    plan.error = plan.how == HOW_ERRNO ? (int)strtol(how, NULL, 10) : 0;
}

/* Runs after the constructors of every library, before main. */
__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("CLEAVE_FAIL");
    const char *path = getenv("CLEAVE_FAIL_REPORT");
    char how[16];
    if (!text || sscanf(text, "%15[^:]:%ld:%15s", plan.class, &plan.n, how) != 3)
        return;
    read_how(how);
    if (path)
        (void)snprintf(plan.report, sizeof(plan.report), "%s", path);
    (void)unsetenv("LD_PRELOAD");
    (void)unsetenv("CLEAVE_FAIL");
    (void)unsetenv("CLEAVE_FAIL_REPORT");
    atomic_store(&armed, true);
}

__attribute__((destructor)) static void end(void)
{
    char line[64];
    if (!atomic_exchange(&armed, false))
        return;
    int len = snprintf(line, sizeof(line), "calls %ld\n", atomic_load(&calls));
    report(line, (size_t)len);
}
