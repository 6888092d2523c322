/* SPDX-License-Identifier: Apache-2.0 */
#include "service/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"

/* --- Rights and resources --- */

#define CAP_WORDS 2

static int read_capabilities(struct __user_cap_data_struct ret[CAP_WORDS])
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capget, &head, ret);
}

static bool has(const struct __user_cap_data_struct *sets, int cap)
{
    return sets[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

bool sandbox_can_change_user(void)
{
    struct __user_cap_data_struct sets[CAP_WORDS] = {0};
    return read_capabilities(sets) == 0 && has(sets, CAP_SETUID) && has(sets, CAP_SETGID);
}

static int change_user(uid_t uid, struct err *e)
{
    if (uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0)
        return err_set_errno(e, errno, "setgroups");
    if (setresgid(uid, uid, uid) < 0)
        return err_set_errno(e, errno, "setresgid %u", uid);
    if (setresuid(uid, uid, uid) < 0)
        return err_set_errno(e, errno, "setresuid %u", uid);
    return 0;
}

static int drop_capabilities(struct err *e)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[CAP_WORDS] = {0};
    if (syscall(SYS_capset, &head, none) < 0)
        return err_set_errno(e, errno, "capset");
    return 0;
}

/* The bounding set limits what a program run by this process could gain. The child runs none; the
 * set is emptied as well, where this process has the right to. */
static void empty_bounding_set(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* Sets both limits; a limit that is already lower stays. */
static int limit(int what, rlim_t soft, rlim_t hard, struct err *e)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)what, &now) < 0)
        return err_set_errno(e, errno, "getrlimit %d", what);
    const struct rlimit less = {now.rlim_max < soft ? now.rlim_max : soft,
                                now.rlim_max < hard ? now.rlim_max : hard};
    if (setrlimit((__rlimit_resource_t)what, &less) < 0)
        return err_set_errno(e, errno, "setrlimit %d", what);
    return 0;
}

/* RLIMIT_DATA counts private writable memory, but neither shared memory nor a stack. RLIMIT_AS
 * counts everything, so what is mapped already (programs and libraries) is added to it. */
static int limit_memory(rlim_t bytes, struct err *e)
{
    auto_free char *pages = NULL;
    TRY(file_read("/proc/self/statm", 256, &pages, /* ret_len= */ NULL, e));
    const rlim_t mapped = strtoul(pages, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
    TRY(limit(RLIMIT_AS, mapped + bytes, mapped + bytes, e));
    return limit(RLIMIT_DATA, bytes, bytes, e);
}

static int set_limits(const struct sandbox *s, struct err *e)
{
    TRY(limit(RLIMIT_NOFILE, s->max_fds, s->max_fds, e));
    TRY(limit(RLIMIT_CPU, s->max_cpu_s, s->max_cpu_s + 1UL, e));
    TRY(limit(RLIMIT_CORE, 0, 0, e));
    TRY(limit(RLIMIT_FSIZE, 0, 0, e));
    if (s->max_bytes)
        TRY(limit_memory(s->max_bytes, e));
    return limit(RLIMIT_NPROC, 0, 0, e);
}

static int set_flag(int option, unsigned long value, const char *name, struct err *e)
{
    return prctl(option, value, 0, 0, 0) < 0 ? err_set_errno(e, errno, "%s", name) : 0;
}

/* Limits do not count the kernel's memory for this process: socket buffers, page tables. When
 * the container runs out of memory, this process is to be killed first. A runtime may forbid
 * even that. */
static void go_first(void)
{
    static const char most[] = "1000";
    auto_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, most, sizeof(most) - 1);
}

int sandbox_drop(const struct sandbox *s, struct err *e)
{
    go_first(); /* must precede the change of user: the file then belongs to another one */
    empty_bounding_set();
    TRY(change_user(s->uid, e));
    TRY(drop_capabilities(e));
    TRY(set_flag(PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS", e));
    /* A change of user resets both of these, so they come after it. */
    TRY(set_flag(PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE", e));
    TRY(set_flag(PR_SET_PDEATHSIG, SIGKILL, "PR_SET_PDEATHSIG", e));
    return set_limits(s, e);
}

/* --- System calls --- */

/* System calls of libmicrohttpd's connections, TLS, the channel and the allocator. Those that are
 * allowed only with some arguments are in allow_some_uses. */
static const int allowed[] = {
    SCMP_SYS(accept4),
    SCMP_SYS(brk),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(close),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(futex),
    SCMP_SYS(getpid),
    SCMP_SYS(getrandom),
    SCMP_SYS(gettid),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(madvise),
    SCMP_SYS(munmap),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(read),
    SCMP_SYS(recvfrom),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(time),
    SCMP_SYS(write),
};

/* System calls that a sanitizer needs for its reports. */
static const int sanitizers_too[] = {
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(fstat),
    SCMP_SYS(prlimit64),
    SCMP_SYS(newfstatat),
    SCMP_SYS(sched_yield),
    SCMP_SYS(lseek),
    SCMP_SYS(getrlimit),
    SCMP_SYS(mprotect),
    SCMP_SYS(mmap),
    SCMP_SYS(pread64),
    SCMP_SYS(stat),
    SCMP_SYS(access),
    SCMP_SYS(getuid),
    SCMP_SYS(nanosleep),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(ioctl),
    SCMP_SYS(prctl),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(getppid),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getcwd),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(fcntl),
    SCMP_SYS(mremap),
};

static int allow(scmp_filter_ctx filter, const int *calls, size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return rc;
}

/* Arguments are compared in all 64 bits, while the kernel reads 32 for an int: a comparison must
 * fail, not pass, when other bits are set. */

/* Private memory to read or write: neither shared, nor executable, nor a stack, which no limit of
 * data counts. Signals only to itself (abort). */
static int allow_own_memory(scmp_filter_ctx filter)
{
    int rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                              SCMP_A3(SCMP_CMP_EQ, MAP_PRIVATE | MAP_ANONYMOUS, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
    return rc;
}

/* Sending only on connected sockets: neither to an address nor with TCP Fast Open, which
 * connects. */
static int allow_sending(scmp_filter_ctx filter)
{
    int rc =
        seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 2,
                         SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0), SCMP_A4(SCMP_CMP_EQ, 0, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
    return rc;
}

/* The two options that libmicrohttpd sets. */
static int allow_options(scmp_filter_ctx filter)
{
    static const scmp_datum_t options[] = {TCP_NODELAY, TCP_CORK};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(options) && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(setsockopt), 2,
                              SCMP_A1(SCMP_CMP_EQ, IPPROTO_TCP, 0),
                              SCMP_A2(SCMP_CMP_EQ, options[i], 0));
    return rc;
}

/* Only a connection may be shut down, never a listening socket: that one is the parent's, and would
 * be shut down for every later process too. A number has one of these bits exactly when it is
 * SANDBOX_FIRST_OWN_FD or more, whatever else is in the argument. */
static int allow_shutdown(scmp_filter_ctx filter)
{
    int rc = 0;
    for (scmp_datum_t bit = SANDBOX_FIRST_OWN_FD; bit <= INT32_MAX && rc == 0; bit <<= 1)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(shutdown), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
    return rc;
}

static int allow_some_uses(scmp_filter_ctx filter)
{
    int rc = allow_own_memory(filter);
    if (rc == 0)
        rc = allow_sending(filter);
    if (rc == 0)
        rc = allow_options(filter);
    return rc == 0 ? allow_shutdown(filter) : rc;
}

/* realloc copies when it cannot move. If moving were allowed, a stack could grow beyond the limit
 * of data. */
static int refuse_to_move(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(mremap), 0);
}

static int allow_system_calls(scmp_filter_ctx filter, bool sanitized)
{
    int rc = allow(filter, allowed, ARRAY_LEN(allowed));
    if (rc == 0)
        rc = sanitized ? allow(filter, sanitizers_too, ARRAY_LEN(sanitizers_too))
                       : refuse_to_move(filter);
    if (rc == 0)
        rc = allow_some_uses(filter);
    return rc == 0 ? seccomp_load(filter) : rc;
}

int sandbox_seal(bool sanitized, struct err *e)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!filter)
        return err_set(e, ERR_SYSTEM, "cannot make a filter of system calls");
    int rc = allow_system_calls(filter, sanitized);
    seccomp_release(filter);
    return rc < 0 ? err_set_errno(e, -rc, "cannot filter system calls") : 0;
}
