/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#include "service/sandbox.h"

enum { REFUSED = 3, DONE = 4 };

static const struct sandbox rules = {.uid = 0, .max_fds = 16, .max_bytes = 0, .max_cpu_s = 10};

static pid_t test; /* the process that looks on */

/* How a process ends that does this in the sandbox. */
static int status_under(const struct sandbox *r, void (*act)(void))
{
    test = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        if (sandbox_drop(r, NULL) < 0 || sandbox_seal(/* sanitized= */ false, NULL) < 0)
            (void)syscall(SYS_exit_group, REFUSED);
        act();
        (void)syscall(SYS_exit_group, DONE); /* without what a sanitizer does at an _exit */
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static int status_of(void (*act)(void))
{
    return status_under(&rules, act);
}

static void expect_killed(void (*act)(void), const char *what)
{
    int status = status_of(act);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s: %#x", what, (unsigned)status);
}

static void serve_nothing(void)
{
}

/* GnuTLS does so two hours after its start, and after some megabytes. */
static void draw_random_numbers(void)
{
    char seed[32];
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        abort();
}

static void open_socket(void)
{
    (void)socket(AF_INET, SOCK_STREAM, 0);
}

static void connect_somewhere(void)
{
    struct sockaddr a = {.sa_family = AF_UNIX};
    (void)connect(0, &a, sizeof(a));
}

static void run_something(void)
{
    char *argv[] = {NULL};
    (void)execve("/bin/true", argv, argv);
}

static void make_a_child(void)
{
    (void)vfork();
}

static void signal_another(void)
{
    (void)kill(test, 0);
}

static void become_root(void)
{
    (void)!setuid(0);
}

static void change_root(void)
{
    (void)!chroot("/");
}

static void open_file(void)
{
    (void)open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static void make_code(void)
{
    (void)mprotect((void *)0x10000, 4096, PROT_READ | PROT_EXEC);
}

/* --- Sockets --- */

static const struct sockaddr_in somewhere = {.sin_family = AF_INET};

static void send_to_somebody(void)
{
    (void)syscall(SYS_sendto, 0, "x", 1, 0, &somewhere, sizeof(somewhere));
}

/* This connects a socket that listened and was shut down. */
static void send_and_connect(void)
{
    (void)syscall(SYS_sendto, 0, "x", 1, MSG_FASTOPEN, NULL, 0);
}

static void send_message_and_connect(void)
{
    struct msghdr m = {.msg_name = (void *)(uintptr_t)&somewhere, .msg_namelen = sizeof(somewhere)};
    (void)syscall(SYS_sendmsg, 0, &m, MSG_FASTOPEN);
}

static void shut_down_the_listener(void)
{
    (void)syscall(SYS_shutdown, 4L, SHUT_RD);
}

/* The kernel takes the lower half. */
static void shut_down_the_listener_in_disguise(void)
{
    (void)syscall(SYS_shutdown, (1L << 32) | 7, SHUT_RD);
}

static void set_option(void)
{
    const int on = 1;
    (void)syscall(SYS_setsockopt, 4, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
}

static void connect_at_the_first_write(void)
{
    const int on = 1;
    (void)syscall(SYS_setsockopt, 4, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof(on));
}

/* Signals come to the owner of a descriptor that is ready. */
static void signal_the_owner(void)
{
    (void)syscall(SYS_fcntl, 0, F_SETOWN, test);
}

static void signal_when_ready(void)
{
    (void)syscall(SYS_fcntl, 0, F_SETFL, O_ASYNC);
}

/* The flags of a socket that listens are those of all who have it. */
static void block_the_listener(void)
{
    (void)syscall(SYS_fcntl, 4, F_SETFL, 0);
}

static void give_the_listener_another_number(void)
{
    (void)syscall(SYS_fcntl, 4, F_DUPFD, SANDBOX_FIRST_OWN_FD);
}

/* --- Memory --- */

enum { MIB = 1 << 20 };

static long map(long prot, long flags)
{
    return syscall(SYS_mmap, NULL, (long)MIB, prot, flags, -1L, 0L);
}

static void map_shared(void)
{
    (void)map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
}

static void map_stack(void)
{
    (void)map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN);
}

static void map_code(void)
{
    (void)map(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
}

static const struct sandbox small = {.max_fds = 16, .max_bytes = 16 * MIB, .max_cpu_s = 10};

static void finish(bool good)
{
    (void)syscall(SYS_exit_group, good ? DONE : REFUSED);
}

static void map_all(void)
{
    int n = 0;
    while (n < 100 && map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS) != -1)
        n++;
    finish(n <= 16);
}

/* Not data until it can be written. */
static void map_all_to_read(void)
{
    int n = 0;
    while (n < 100 && map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS) != -1)
        n++;
    finish(n <= 16);
}

static void grow_the_stack(void)
{
    char here = 0;
    uintptr_t page = (uintptr_t)&here & ~(uintptr_t)4095;
    finish(syscall(SYS_mremap, page, 4096L, (long)MIB, (long)MREMAP_MAYMOVE) == -1);
}

static void go_first(void)
{
    char text[8] = "";
    auto_fd int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    if (sandbox_drop(&rules, NULL) < 0 || read(fd, text, sizeof(text)) != 5)
        return;
    finish(strcmp(text, "1000\n") == 0);
}

static void expect_done(int status, const char *what)
{
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == DONE, "%s: %#x", what, (unsigned)status);
}

/* --- */

static void send_on(void)
{
    const int on = 1;
    (void)syscall(SYS_sendto, 0, "x", 1, MSG_NOSIGNAL, NULL, 0);
    (void)syscall(SYS_setsockopt, 0, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)syscall(SYS_shutdown, (long)SANDBOX_FIRST_OWN_FD, SHUT_WR);
    (void)syscall(SYS_shutdown, 335L, SHUT_WR);
}

Test(sandbox, serving_what_is_open_is_allowed)
{
    expect_done(status_of(serve_nothing), "nothing");
    expect_done(status_of(draw_random_numbers), "getrandom");
    expect_done(status_of(send_on), "sending");
}

Test(sandbox, everything_else_ends_the_process)
{
    expect_killed(open_socket, "socket");
    expect_killed(connect_somewhere, "connect");
    expect_killed(run_something, "execve");
    expect_killed(make_a_child, "vfork");
    expect_killed(signal_another, "kill");
    expect_killed(become_root, "setuid");
    expect_killed(change_root, "chroot");
    expect_killed(open_file, "open");
    expect_killed(make_code, "mprotect");
}

Test(sandbox, a_socket_that_listens_neither_connects_nor_ends)
{
    expect_killed(send_to_somebody, "sendto an address");
    expect_killed(send_and_connect, "sendto with TCP Fast Open");
    expect_killed(send_message_and_connect, "sendmsg with TCP Fast Open");
    expect_killed(shut_down_the_listener, "shutdown");
    expect_killed(shut_down_the_listener_in_disguise, "shutdown of 64 bits");
    expect_killed(set_option, "setsockopt of a socket");
    expect_killed(connect_at_the_first_write, "setsockopt of TCP");
    expect_killed(block_the_listener, "F_SETFL");
    expect_killed(give_the_listener_another_number, "F_DUPFD");
}

Test(sandbox, no_descriptor_signals_another_process)
{
    expect_killed(signal_the_owner, "F_SETOWN");
    expect_killed(signal_when_ready, "O_ASYNC");
}

Test(sandbox, memory_that_no_limit_counts_is_not_to_be_had)
{
    expect_killed(map_shared, "shared memory");
    expect_killed(map_stack, "a stack");
    expect_killed(map_code, "code");
    expect_done(status_of(grow_the_stack), "a stack that grows");
}

/* A sanitizer has terabytes mapped: sanitized builds set no limit. */
Test(sandbox, memory_has_a_bound)
{
    if (SANDBOX_SANITIZED)
        return;
    expect_done(status_under(&small, map_all), "data");
    expect_done(status_under(&small, map_all_to_read), "what is not data");
}

Test(sandbox, it_goes_first_when_memory_runs_out)
{
    pid_t pid = fork();
    if (pid == 0) {
        go_first();
        finish(false);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    expect_done(status, "oom_score_adj");
}
