/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/sandbox.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

/* --- Rights and means --- */

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

/* The bounding set is what a program that is run could gain. Nothing is run, and nothing is gained;
 * it is emptied all the same where the right to is there. */
static int drop_capabilities(struct err *e)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[CAP_WORDS] = {0};
    if (syscall(SYS_capset, &head, none) < 0)
        return err_set_errno(e, errno, "capset");
    return 0;
}

static void empty_bounding_set(void)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* Soft and hard; a limit that is lower already stays. */
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

static int set_limits(const struct sandbox *s, struct err *e)
{
    TRY(limit(RLIMIT_NOFILE, s->max_fds, s->max_fds, e));
    TRY(limit(RLIMIT_CPU, s->max_cpu_s, s->max_cpu_s + 1UL, e));
    TRY(limit(RLIMIT_CORE, 0, 0, e));
    TRY(limit(RLIMIT_FSIZE, 0, 0, e));
    if (s->max_bytes)
        TRY(limit(RLIMIT_DATA, s->max_bytes, s->max_bytes, e));
    return limit(RLIMIT_NPROC, 0, 0, e);
}

static int set_flag(int option, unsigned long value, const char *name, struct err *e)
{
    return prctl(option, value, 0, 0, 0) < 0 ? err_set_errno(e, errno, "%s", name) : 0;
}

int sandbox_drop(const struct sandbox *s, struct err *e)
{
    empty_bounding_set();
    TRY(change_user(s->uid, e));
    TRY(drop_capabilities(e));
    TRY(set_flag(PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS", e));
    /* A change of user undoes both of these: they come after it. */
    TRY(set_flag(PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE", e));
    TRY(set_flag(PR_SET_PDEATHSIG, SIGKILL, "PR_SET_PDEATHSIG", e));
    return set_limits(s, e);
}

/* --- System calls --- */

/* What libmicrohttpd's connections, the channel and the allocator take. */
static const int allowed[] = {
    SCMP_SYS(accept4),         SCMP_SYS(brk),          SCMP_SYS(clock_gettime),

    SCMP_SYS(close),           SCMP_SYS(epoll_ctl),    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_wait),      SCMP_SYS(exit),         SCMP_SYS(exit_group),
    SCMP_SYS(fcntl),           SCMP_SYS(futex),        SCMP_SYS(getpid),
    SCMP_SYS(gettid),          SCMP_SYS(gettimeofday), SCMP_SYS(madvise),
    SCMP_SYS(mremap),          SCMP_SYS(munmap),       SCMP_SYS(poll),
    SCMP_SYS(ppoll),           SCMP_SYS(read),         SCMP_SYS(recvfrom),
    SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),    SCMP_SYS(sendmsg),      SCMP_SYS(sendto),
    SCMP_SYS(setsockopt),      SCMP_SYS(shutdown),     SCMP_SYS(time),
    SCMP_SYS(write),           SCMP_SYS(writev),
};

/* What a sanitizer takes to find out what it reports. */
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
};

static int allow(scmp_filter_ctx filter, const int *calls, size_t n)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return rc;
}

/* Memory to write or to read, never to run; a signal to nobody but itself (abort). */
static int allow_some_uses(scmp_filter_ctx filter)
{
    int rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                              SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (rc == 0)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                              SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
    return rc;
}

static int fill(scmp_filter_ctx filter, bool sanitized)
{
    int rc = allow(filter, allowed, ARRAY_LEN(allowed));
    if (rc == 0 && sanitized)
        rc = allow(filter, sanitizers_too, ARRAY_LEN(sanitizers_too));
    if (rc == 0)
        rc = allow_some_uses(filter);
    return rc == 0 ? seccomp_load(filter) : rc;
}

int sandbox_seal(bool sanitized, struct err *e)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (!filter)
        return err_set(e, ERR_SYSTEM, "cannot make a filter of system calls");
    int rc = fill(filter, sanitized);
    seccomp_release(filter);
    return rc < 0 ? err_set_errno(e, -rc, "cannot filter system calls") : 0;
}
