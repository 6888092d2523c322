/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan (failing.h), and what the limiter calls of the system and of the C library; preloaded.
 * The code is an errno, or END: there is nothing (more) to read. The numbers of calls are not quite
 * the same in each run, so that END may meet another one, which then fails with EIO.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/limiter/failing.h"

enum { MAX_NAMES = 4096, END = -1 };

static struct {
    enum failing_kind kind;
    bool others;
    unsigned int n, count;
    int code;
    const char *names[MAX_NAMES];
} plan;

void failing_plan(enum failing_kind kind, bool others, unsigned int n, int code)
{
    plan.kind = kind;
    plan.others = others;
    plan.n = n;
    plan.code = code;
    plan.count = 0;
}

unsigned int failing_count(void)
{
    return plan.count < MAX_NAMES ? plan.count : MAX_NAMES;
}

const char *failing_name(unsigned int n)
{
    return n > 0 && n <= failing_count() ? plan.names[n - 1] : "";
}

static bool is_limiter(void *at)
{
    struct dl_find_object found;
    return _dl_find_object(at, &found) == 0 &&
           strstr(found.dlfo_link_map->l_name, "x86_64-linux-gnu/libcuda.so") != NULL;
}

bool failing_now(enum failing_kind kind, const char *name, void *caller, int *ret_code)
{
    if (kind != plan.kind || (caller != NULL && !is_limiter(caller)) ||
        (gettid() != getpid()) != plan.others)
        return false;
    unsigned int at = __atomic_add_fetch(&plan.count, 1, __ATOMIC_RELAXED);
    if (at <= MAX_NAMES)
        plan.names[at - 1] = name;
    *ret_code = plan.code;
    return at == plan.n;
}

/* --- The calls --- */

static bool fails(const char *name, void *caller)
{
    int code = 0;
    if (!failing_now(FAILING_SYSTEM, name, caller, &code))
        return false;
    errno = code != END ? code : strcmp(name, "read") == 0 ? 0 : EIO;
    return true;
}

#define HERE __builtin_return_address(0)

#define CALL(type, name, params, args, failed)                                                     \
    type name params                                                                               \
    {                                                                                              \
        static __typeof__(&name) next;                                                             \
        if (fails(#name, HERE))                                                                    \
            return failed;                                                                         \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return next args;                                                                          \
    }

CALL(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
     (at, n, prot, flags, fd, offset), MAP_FAILED)
CALL(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), -1)
CALL(int, setsockopt, (int fd, int level, int name, const void *p, socklen_t n),
     (fd, level, name, p, n), -1)
CALL(ssize_t, readlink, (const char *path, char *p, size_t n), (path, p, n), -1)
CALL(int, pthread_create,
     (pthread_t * t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (t, attr, fn, arg), EAGAIN)

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t count, size_t n);

void *malloc(size_t n)
{
    return fails("malloc", HERE) ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    return fails("calloc", HERE) ? NULL : __libc_calloc(count, n);
}

/* The name of one that may fail; NULL: of the others no errno is told, or none that matters. */
static const char *name_of(long number)
{
    switch (number) {
    case SYS_openat:
        return "openat";
    case SYS_read:
        return "read";
    case SYS_socket:
        return "socket";
    case SYS_sendto:
        return "sendto";
    default:
        return NULL;
    }
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (name_of(number) != NULL && fails(name_of(number), HERE))
        return errno != 0 ? -1 : 0;
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
